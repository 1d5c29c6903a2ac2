"""What a program is: its values in float64, and whether two tensors are equal.

In: A program with arrays, or claims.
Out: Arrays (`interpret`, which shares no code with a back end), or a verdict (`prove`, `proof`).
May import: errors, ir, checking, transforms.
"""
