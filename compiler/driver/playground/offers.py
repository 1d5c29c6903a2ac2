"""What may be written at a place of a text, as the page offers it."""

from __future__ import annotations

from typing import Any

from einc.driver.editor.completion import completions
from einc.driver.editor.positions import offset, position
from einc.driver.editor.text import Text
from einc.driver.playground.answers import NAME, OwnSpecs
from einc.errors.report import Source
from einc.syntax.texts import plain

MOST = 40


def offers(text: str, at: int) -> dict[str, Any]:
    """What goes on with what stands before a place, by the number of characters before it: what each offer is called
    and says, and which characters it takes the place of.
    """
    source = Source(NAME, plain(text))
    place = len(plain(text[:at]))
    found = []
    for item in completions(Text(source, OwnSpecs()), position(source, place)):
        start = offset(source, item.range.start)
        if item.label.lower().startswith(source.text[start:place].lower()):
            found.append({"label": item.label, "detail": item.detail, "new": item.new, "start": start, "end": place})
    return {"offers": found[:MOST]}
