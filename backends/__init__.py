"""Plan to code, one package for each back end, and `host` for the function around the kernels, which they share."""

BACK_ENDS = ("torch", "cpp", "triton")  # the packages that have a record `BACKEND`: what `--backend` offers
