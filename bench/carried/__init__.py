"""What `python -m bench.gpu prepare` copies beside the kernels: it runs where einc is
not, with torch and Triton alone."""
