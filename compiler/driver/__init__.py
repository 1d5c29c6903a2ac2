"""The doors: Python (`checking`, `compiling`, `interpreting`), the command line (`cli`, `commands`), editors
(`editor`), notebooks (`notebook`), a page (`playground`), the import hook (`hook`); the flow from a text to a callable
(`pipeline`).

In: What a person asks for.
Out: A compiled function, a file, a table, a page. Back ends are loaded by name.
May import: errors, ir, syntax, checking, documents, transforms, meaning, planning.
"""
