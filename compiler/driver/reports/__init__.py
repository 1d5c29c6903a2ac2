"""Plans, recurrences and papers told to a reader.

In: Module, NormalProgram, Paper. Out: text, tables, an account.
"""
