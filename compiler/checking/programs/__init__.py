"""All equations -> TypedProgram, and what only the whole program shows: ranges, causality, isolation, claims.

Imports: declarations, expressions.
"""
