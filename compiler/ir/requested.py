"""What a text asks of its file beside its meaning."""

from __future__ import annotations

from dataclasses import dataclass

from einc.errors.report import Span


@dataclass(frozen=True, slots=True)
class Wanted:
    """A block by its name: what is `kept` of each position, in pages of so many positions (0 where it does not say), and the
    lines that are about something else.
    """

    name: str
    kept: tuple[str, ...] = ()
    page: int = 0
    others: tuple[Span, ...] = ()
