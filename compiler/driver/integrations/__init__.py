"""Specs where other libraries look for kernels, one file each. They are imported by
whoever wants them, and speak their words."""
