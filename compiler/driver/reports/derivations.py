"""What `einc derive` found, as one object: a text, and a display of LaTeX."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from einc.driver import pipeline
from einc.driver.reports.recurrence import Recurrence, as_tex, as_text, recurrences
from einc.ir.programs import Program


@dataclass(frozen=True, repr=False)
class Derivation:
    """The recurrences of a program, one for each pass; where there are none, that is said."""

    recurrences: tuple[Recurrence, ...]

    @property
    def text(self) -> str:
        """The recurrences as text of the language; a comment where the program has none."""
        found = "\n".join(map(as_text, self.recurrences))
        return found or "# no pass of the program carries anything from block to block\n"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def _repr_latex_(self) -> str | None:
        """As displays of LaTeX; None where there is none."""
        shown = [as_tex(found) for found in self.recurrences if not found.note]
        return "\n".join(f"$$\n{one}$$" for one in shown) or None


def derivation(program: Program) -> Derivation:
    """The recurrences that are derived of a program, as `einc derive` prints them."""
    return Derivation(tuple(recurrences(pipeline.normal(program))))
