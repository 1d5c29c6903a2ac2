"""What every name, script and equation of a text means.

In: A `SyntaxTree`.
Out: A `TypedProgram` (`checker`), or a problem for each place that means nothing; edits that mend it (`fixits`).
May import: errors, ir, syntax.
"""
