"""Text to syntax tree and back, in three spellings and as LaTeX.

In: A text, or any tree or program.
Out: A `SyntaxTree` (`parse`), or a text (`printing`).
May import: errors, ir.
"""
