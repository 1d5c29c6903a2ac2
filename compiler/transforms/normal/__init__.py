"""TypedProgram -> NormalProgram: folds at the root of equations, deltas eliminated.

Imports: laws, slicing.
"""
