"""Expression -> Value: reads, products, folds, calls.

Imports: declarations.
"""
