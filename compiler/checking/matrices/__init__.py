"""Matrix notation: equations without side letters, elaborated to equations with indices before anything is checked.

In: A syntax tree with `matrix` and `vector` lines.
Out: The tree of the same text in index notation. Every node keeps the span of the matrix text that it stands for, so
that each later error points at it.

May import: errors, ir, syntax, and names of checking.declarations.

`shapes` says what dimensions and symbols are, `known` what a text declares, `typed` what an expression is. `typing`
gives each expression its shape, `writing` its indices, and `elaborate` does both for a text. `laid` reads matrices that
are written out, `bands` the blocks on their diagonals, `pieces` what a listing on a left side says, `supply` has the
letters of sizes, and `slots` writes what stands in scripts.
"""
