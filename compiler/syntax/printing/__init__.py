"""Syntax back to text: in one spelling and one layout, or as a page of LaTeX."""
