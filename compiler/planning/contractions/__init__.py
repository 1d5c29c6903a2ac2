"""Products: which are stored, in which order, grouped or sorted.

NormalProgram -> NormalProgram, or a step. Imports: analysis.
"""
