"""Matrix notation: equations without side letters, elaborated to equations with indices before anything is checked.

In: A syntax tree with `matrix` and `vector` lines. Out: the tree of the same text in index notation; every node keeps the
span of the matrix text that it stands for, so that each later error points at it.

`shapes` says what dimensions and symbols are, `typed` what an expression is, `typing` gives each expression its shape,
`writing` its indices, `elaborate` does so for a text. May import: errors, ir, syntax, checking.declarations.names.
"""
