"""Token after token with a compiled step: sampling, batches that change between steps, weights.

Imports: errors, ir.
"""
