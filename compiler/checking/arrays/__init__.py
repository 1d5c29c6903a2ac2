"""Arrays by position: equations whose axes are told by the strings of einsum and einops, and not by letters.

In: A syntax tree in which `einsum("bhtd,bhsd->bhts", Q, K)` or `rearrange(X, "b t (h d) -> b h t d")` stands.
Out: The tree of the same text in index notation. Every node keeps the span of what it stands for.

May import: errors, ir, syntax, names of checking.declarations, and what checking.matrices knows of sizes and letters.

`sets` says which axes run over one set, `values` what an expression is and how it is written with letters, `calls` the
functions that take a string, and `elaborate` reads the equations of a text.
"""
