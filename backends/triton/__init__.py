"""The Triton back end: a plan as GPU kernels in one Python file that imports torch and triton."""
