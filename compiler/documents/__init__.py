"""Papers: Markdown, TeX and plain text, with every formula in its place.

In: The text of a document.
Out: A `Document` with its formulas and declarations, and the syntax tree of each section.
May import: errors, ir, syntax, checking.
"""
