"""Several folds over one index -> one pass with a carried state.

Equations -> Streamed. Imports: analysis, contractions (what is stored).
"""
