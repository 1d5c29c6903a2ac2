"""Reverse mode: a program's gradients as one more program, from slopes of primitives and adjoints of folds."""
