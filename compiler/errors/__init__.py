"""Problems: where a text comes from, what is wrong with it, and how a person is told.

In: Places in a text.
Out: Problems (`problems`: one class each), and reports of them as text or as data (`report`).
May import: nothing of einc.
"""

from einc.errors.report import EincError, Help, Problem, Report, Source, Span, as_json, render

__all__ = ["EincError", "Help", "Problem", "Report", "Source", "Span", "as_json", "render"]
