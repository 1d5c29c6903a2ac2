"""The rooms of `check`: names, scripts, declarations, expressions, functions, and the audit of what they gave."""
