"""Equations that read each other in a circle -> loops in order over positions, where each way around goes back in time.

One equation after the other is read; where one reads itself, or one that waits for it, the read is noted and the
reading goes on. When all are read, a circle is a loop over one set of positions, of which each of its values has an
axis: what it reads of the circle it reads at its own position, or at positions that are proved to be earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from einc.checking.declarations.scope import Signature
from einc.checking.programs.elaborate import Work
from einc.errors.problems import Circular
from einc.errors.report import Help, Label, Span
from einc.ir.dependence import components
from einc.ir.domains import proves
from einc.ir.indices import INDEX_CLASSES, Index, distinct
from einc.ir.programs import BlockLoop, Equation, IndexLoop
from einc.ir.reading import everything
from einc.ir.terms import (
    Apply,
    Position,
    Term,
    bound_indices,
    substitute,
    walk,
)

_MOST = 64  # ways to choose an axis for each value of a circle
_WAY_OUT = Help("read it at earlier positions alone: at `t - 1`, or in a sum over `s < t`")
_DOWN = Help("let rounds run from the last position down: `for t in T..1:`")


def circles(work: Work, recurs: list[BlockLoop], ordered: list[IndexLoop]) -> list[IndexLoop]:
    """The loops that the circles of the program are, but for those within loops that are `ordered` already; a circle
    that is none is reported. Changes `work.report`.
    """
    if not work.circles:
        return []
    by = {e.target: e for e in (*work.made.equations, *work.equations.values())}
    out = list[IndexLoop]()
    # What stands in rounds of elements and needs no state of theirs is no more than its equations, and a round of
    # layers is a program, which may have loops of its own.
    blocks = work.blocks
    blocked = [e for rounds, found in blocks.inner.items() if rounds.block for e in found]
    inner = {e.target for found in (blocked, *blocks.updates.values(), *(x.equations for x in recurs)) for e in found}
    inner |= {key for loop in ordered for key in loop.inside}
    for members in components(by, lambda key: sorted(by[key].reads & by.keys())):
        if len(members) == 1 and members[0] not in by[members[0]].reads:
            continue
        told = bool(inner & {*members}) and work.report.errors
        if told or any({*members} <= {*loop.inside} for loop in ordered):
            continue
        found = None if inner & {*members} else _loop(work, {key: by[key] for key in members})
        if found is None:
            work.report.add(_problem(work, members))
        else:
            out.append(found)
    return out


def _problem(work: Work, members: list[str]) -> Circular:
    """What is said of a circle: where one of its values is read that was not there yet."""
    signature, span = next((x, span) for x, span in work.circles if x.key in members)
    return refused(signature, span)


def refused(signature: Signature, span: Span) -> Circular:
    """What is said where a value is read that depends on what is being read."""
    back = any(INDEX_CLASSES[slot.set.cls].before == "le" for slot in signature.slots)
    notes = ("it is not proved that it is read at earlier positions alone",) if back else ()
    helps = (_WAY_OUT, _DOWN) if back else (Help("an update over rounds is written with `for` and `←`"),)
    return Circular(f"`{signature.text}` depends on itself", span, "read here",
                    Label(signature.span, "defined here"), notes=notes, helps=helps)


@dataclass(frozen=True)
class _Way:
    """For each value of a circle the place of the axis of positions."""

    by: Mapping[str, Equation]
    axes: Mapping[str, int]

    def letter(self, key: str) -> Index:
        """The letter of the value's own position."""
        axis = self.by[key].axes[self.axes[key]]
        assert isinstance(axis, Position)
        return axis.index

    def sound(self) -> bool:
        """Whether each read within the circle is at the own position or at one before it, and no circle is left of
        those at the own one.
        """
        now: dict[str, set[str]] = {key: set() for key in self.by}
        for key, equation in self.by.items():
            here = Position(self.letter(key))
            for at in everything(equation):
                if at.read.tensor not in self.by:
                    continue
                sub = at.read.subs[self.axes[at.read.tensor]]
                if sub == here and here.index not in at.bound:
                    now[key].add(at.read.tensor)
                elif here.index in at.bound or not proves(at.given, Apply("lt", (sub, here))):
                    return False
        return all(len(found) == 1 and found[0] not in now[found[0]] for found in components(now, now.__getitem__))


def _loop(work: Work, by: dict[str, Equation]) -> IndexLoop | None:
    """The loop of a circle; its equations in `work` then have one letter for the position. None where it is none."""
    for way in _ways(by):
        if way.sound():
            taken = {i.name for e in by.values() for t in (*walk(e.body), *walk(e.domain)) for i in bound_indices(t)}
            taken |= {i.name for e in by.values() for i in e.indices}
            first = way.letter(next(iter(by)))
            same = all(way.letter(key) == first for key in by)
            index = first if same else distinct((first,), taken)[0]
            for key, equation in by.items():
                _put(work, _renamed(work, equation, way.letter(key), index))
            return IndexLoop(index, (), tuple(by))
    return None


def _ways(by: dict[str, Equation]) -> Iterator[_Way]:
    """The ways to choose an axis of positions, all over one set."""
    places = {key: [n for n, axis in enumerate(e.axes) if isinstance(axis, Position)
                    and INDEX_CLASSES[axis.index.set.cls].before == "le"] for key, e in by.items()}
    for chosen in islice(product(*places.values()), _MOST):
        way = _Way(by, dict(zip(by, chosen, strict=True)))
        if len({way.letter(key).set for key in by}) == 1:
            yield way


def _renamed(work: Work, equation: Equation, letter: Index, index: Index) -> Equation:
    """The equation with one letter in place of another; its terms then have their places in the text."""
    if letter == index:
        return equation
    by: dict[Index, Term] = {letter: Position(index)}
    for term in {t for root in (equation.domain, equation.body) for t in walk(root)} & work.made.places.keys():
        work.made.places.setdefault(substitute(term, by), work.made.places[term])
    made = equation.map(lambda term: substitute(term, by))
    return replace(made, axes=tuple(substitute(axis, by) for axis in equation.axes))


def _put(work: Work, equation: Equation) -> None:
    """Puts an equation in the place of that of its target."""
    key = next((k for k, e in work.equations.items() if e.target == equation.target), None)
    if key is not None:
        work.equations[key] = equation
    else:
        work.made.equations = [equation if e.target == equation.target else e for e in work.made.equations]
