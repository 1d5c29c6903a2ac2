"""Programs to programs: laws, the normal form, programs cut in pieces, gradients, generation.

In: A `TypedProgram` or `NormalProgram`.
Out: A program of the same meaning, or of the one that the name of the transform says.
May import: ir, syntax, checking.
"""
