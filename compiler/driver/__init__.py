"""The doors: Python (`front`), the command line, the import hook; the flow from text to callable (`pipeline`).

In: What a person asks for.
Out: A compiled function, a file, a table, a page. Back ends are loaded by name.
May import: errors, ir, syntax, checking, documents, transforms, meaning, planning.
"""
