"""What each equation of a text means by itself, also where others are wrong: what an edit may not change.

In: the `Work` of a text, every equation of which was read as far as it can be. Out: a `Reading` for
each equation and update that has a meaning. A tensor is known by the place where it is named, for its
key may change with the names of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.expressions.collect import Entry
from einc.checking.programs.elaborate import Work
from einc.errors.report import Span
from einc.ir.programs import Equation
from einc.ir.terms import Read, Term, canonical, transform

Place = tuple[str, int, int]  # the file, the line, and which statement or name of the line


@dataclass(frozen=True)
class Reading:
    """An equation: the places of the text that say it, its own and those of its masks, and what it means."""

    spans: tuple[Span, ...]
    meaning: object


@dataclass
class _Reader:
    """The equations of one text by their keys, and the place of each tensor that the text names."""

    work: Work
    made: Mapping[str, Equation]
    named: Mapping[str, Place]
    known: dict[str, object] = field(default_factory=dict)

    def meaning(self, equation: Equation) -> object:
        """The equation without the letters of its indices and without the keys of tensors."""
        own = equation.indices
        parts = [transform(canonical(x, own), self._placed) for x in (*equation.axes, equation.domain, equation.body)]
        return (*parts, *(self._read(key) for key in sorted(equation.reads - self.named.keys())))

    def _placed(self, term: Term) -> Term:
        match term:
            case Read(tensor, _):
                return replace(term, tensor=str(self.named.get(tensor, "made")))
        return term

    def _read(self, key: str) -> object:
        """What an equation means that stands in no line, such as a function's inner sum."""
        if key not in self.known:
            self.known[key] = key  # where it reads itself, over rounds
            self.known[key] = self.meaning(self.made[key]) if key in self.made else key
        return self.known[key]


def meanings(work: Work) -> Mapping[Place, Reading]:
    """Every equation of a text that has a meaning, by its place; none that has a name whose declaration is wrong."""
    signatures = sorted(work.scope.signatures, key=lambda x: (x.span.source.name, x.span.start))
    named = dict(zip((x.key for x in signatures), _places(x.span for x in signatures), strict=True))
    reader = _Reader(work, {e.target: e for e in work.made.equations}, named)
    entries = sorted((*work.collected.entries.values(), *work.collected.updates),
                     key=lambda x: (x.span.source.name, x.span.start))
    out: dict[Place, Reading] = {}
    for entry, place in zip(entries, _places(x.span for x in entries), strict=True):
        signature, rounds = entry.left.signature, entry.loop.rounds
        equation = _equation(work, entry)
        if equation is not None and not any(name in entry.span.text for name in work.scope.lost):
            masks = (mask.span for mask in signature.said.masks)
            spans = (entry.span, *masks, *(() if rounds is None else (rounds.span,)))
            own = () if rounds is None or rounds.index is None else (canonical(rounds.domain, (rounds.index,)),)
            out[place] = Reading(spans, (reader.meaning(equation), own))
    return out


def _equation(work: Work, entry: Entry) -> Equation | None:
    """The equation of a line or the update of a state in its rounds; None where it has no meaning."""
    key, rounds = entry.left.signature.key, entry.loop.rounds
    if rounds is not None and any(x is entry for x in work.collected.updates):
        return next((e for e in work.blocks.updates.get(rounds, ()) if e.target == key), None)
    return work.equations.get(id(entry.left.signature))


def _places(spans: Iterable[Span]) -> Iterator[Place]:
    """The file and the line of each span, and how many of the line came before it; the spans are in order."""
    last: Place | None = None
    for span in spans:
        name, line = span.source.name, span.source.position(span.start)[0]
        last = (name, line, last[2] + 1 if last is not None and last[:2] == (name, line) else 0)
        yield last
