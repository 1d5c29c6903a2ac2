"""Mutants of specs: what the checker says of a text with one slip in it, and whether that is what a reader needs."""
