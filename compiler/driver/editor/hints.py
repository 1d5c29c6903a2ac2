"""What a text leaves unsaid, written between its words: implied sums, and the shape of what an equation defines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from einc.driver.editor.hover import shape
from einc.driver.editor.positions import Position, Range
from einc.driver.editor.text import Part, Text
from einc.ir.indices import Index


@dataclass(frozen=True)
class Hint:
    """Words at a place; `after` where they belong to what stands in front of them."""

    position: Position
    label: str
    after: bool
    tooltip: str = ""


def hints(text: Text, within: Range | None = None) -> tuple[Hint, ...]:
    """The hints of a text, or of the lines of a range, in its order."""
    found = dict.fromkeys(chain.from_iterable(_of(text, part) for part in text.parts))
    return tuple(sorted((x for x in found if within is None or within.meets(Range(x.position, x.position))),
                        key=lambda x: x.position))


def _of(text: Text, part: Part) -> Iterator[Hint]:
    """The hints of a part: before each product that is summed, and behind each left side that has slots."""
    work = part.work
    if work is None:
        return
    for span, indices in work.scope.texts.implied.items():
        here, known = text.range(span), work.scope.seen(span)
        letters = [x.name for x in indices if x.name.rstrip("'") in known]
        if here is not None and len(letters) == len(indices):
            yield Hint(here.start, f"Σ_{_braced(letters)} ", False, _over(indices))
    for entry in (*work.collected.entries.values(), *work.collected.updates):
        here = None if entry.name is None else text.range(entry.name)
        if here is not None and entry.left.signature.slots:
            yield Hint(here.end, f" : {shape(text, entry.left.signature)}", True)


def _braced(letters: list[str]) -> str:
    return letters[0] if len(letters) == 1 and len(letters[0]) == 1 else f"{{{' '.join(letters)}}}"


def _over(indices: tuple[Index, ...]) -> str:
    return "summed: " + ", ".join(f"{x.name} : {x.set}" for x in indices)
