"""The function that callers see, whatever its kernels are written in: names, sizes,
checks, and the steps between kernels."""
