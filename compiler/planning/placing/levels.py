"""A program on a mesh: its cuttings, one an axis, and when what happens. A level is what lies between two collectives.

A collective comes as early as it can, so that it may go on beside other work. What is made point by point, or stands at
pairs of positions, is made where it is read: nothing of that size waits for a collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.ir.indices import INDEX_CLASSES
from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Fold
from einc.planning.analysis.cost import nominal
from einc.planning.placing.cuts import Cut
from einc.planning.placing.cutting import Cutting
from einc.planning.placing.states import (
    SILENT,
    WHOLE,
    Axis,
    Move,
    Owned,
    Part,
    Rows,
    Share,
    State,
    States,
    moved,
    rows_of,
)

COLLECTIVE = ("sum", "max", "min", "prod")  # the folds that a collective does on its way


class Kept(Exception):  # noqa: N818 - what has to be cut in another way
    """A share that each hop has of a tensor would have to be kept for hops of a later level."""


@dataclass(frozen=True)
class Arrival:
    """A tensor in other states than those in which it is made, at the begin of a level, by moves one after the other.
    """

    tensor: str
    states: States
    level: int
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Transfer:
    """A move of an arrival, with the states of its tensor before and after it."""

    arrival: Arrival
    move: Move
    now: States
    then: States

    @property
    def state(self) -> State:
        """The state on the axes of the move before it, which is the same on each of them."""
        return self.now[self.move.axes[0]]


@dataclass(frozen=True)
class Placed:
    """A program on a mesh. `levels` says of each equation in which level it is done, `ends` in which states each output
    is left. Arrivals stand in an order in which they can be done. Shares of what is `apart` reach the ranks that need
    them as they are, and are folded there.
    """

    program: NormalProgram
    mesh: tuple[Axis, ...]
    cuttings: tuple[Cutting, ...]
    ends: Mapping[str, States]
    levels: Mapping[str, int]
    arrivals: tuple[Arrival, ...]
    apart: frozenset[str] = frozenset()

    def states(self, key: str) -> States:
        """The states of a tensor as it is given or made."""
        return tuple(cutting.state(key) for cutting in self.cuttings)

    def cuts(self, target: str) -> tuple[Cut, ...]:
        """How an equation is cut on each axis."""
        return tuple(cutting.cuts[target] for cutting in self.cuttings)

    def needs(self, target: str, key: str) -> States:
        """The states in which an equation reads a tensor."""
        return tuple(cutting.cuts[target].needs.get(key, WHOLE) for cutting in self.cuttings)

    def reads(self, equation: Equation) -> tuple[str, ...]:
        """What an equation reads, and what says whose its addends are."""
        beside = (key for cut in self.cuts(equation.target) for key in cut.needs)
        return tuple(dict.fromkeys((*(read.tensor for read in equation.elements), *beside)))

    def folds(self, key: str, axes: tuple[int, ...], now: States) -> bool:
        """Whether a rank folds the shares itself that a tensor has on some axes, as no collective does it or the plan
        says so; where they are relative to a maximum it needs this as it is made.
        """
        state = now[axes[0]]
        if not isinstance(state, Share) or any(self.mesh[n].around for n in axes):
            return False
        if key not in self.apart and state.fold in COLLECTIVE:
            return False
        own = (state.reference, self.states(state.reference)) if state.reference else None
        return own is None or (len(axes) == 1 and references(now, axes[0])[0] == own)

    def beside(self, key: str, axes: tuple[int, ...], now: States, then: States) -> list[tuple[str, States]]:
        """What has to be there so that a tensor can be in other states on some axes, as `references` has it."""
        apart = self.folds(key, axes, now)
        return [needed for n in axes
                for needed in references(now, n, then[n] if apart or isinstance(then[n], Rows) else WHOLE)]

    @property
    def moves(self) -> tuple[tuple[int, Move], ...]:
        """Every collective with its level; what sends nothing is not among them. What goes round does so for each level
        whose hops read it; any other move of a tensor into the same states is made once.
        """
        out = [(level, one.move) for one in self.transfers for level in self.reached(one)
               if one.move.kind not in SILENT]
        return tuple(sorted(out, key=lambda pair: pair[0]))

    @property
    def transfers(self) -> Iterator[Transfer]:
        """Every move once, in an order in which they can be done."""
        made = set[tuple[str, States]]()
        for a in self.arrivals:
            now = self.states(a.tensor)
            for move, (_, then) in zip(a.moves, moved(now, a.states, self.mesh), strict=True):
                if (a.tensor, then) not in made:
                    made.add((a.tensor, then))
                    yield Transfer(a, move, now, then)
                now = then

    def reached(self, one: Transfer) -> list[int]:
        """The levels for which a move is made: of what goes round those whose hops read it."""
        key, want = one.arrival.tensor, one.arrival.states
        levels = [level for (level, _), targets in self.hopped.items() if one.move.kind == "pass" and any(
            key in self.reads(self.program.by_target[made]) and self.needs(made, key) == want for made in targets)]
        return levels or [one.arrival.level]

    @property
    def hopped(self) -> Mapping[tuple[int, int], frozenset[str]]:
        """What is made in hops, by the level and the axis, with what is made again there."""
        found: dict[tuple[int, int], set[str]] = {}
        for key, level in self.levels.items():
            if (axis := self.hops(key)) is not None:
                found.setdefault((level, axis), set()).add(key)
        return {at: frozenset(targets | self.copied(targets)) for at, targets in sorted(found.items())}

    def hops(self, target: str) -> int | None:
        """The axis in whose hops an equation is done; None where it is done once."""
        found = (n for n, (axis, cut) in enumerate(zip(self.mesh, self.cuts(target), strict=True))
                 if axis.around and cut.letters)
        return next(found, None)

    def copied(self, targets: Iterable[str]) -> set[str]:
        """What equations of one level that are done in hops make again, as it stands at pairs of positions: what every
        rank makes itself, and what hops of an earlier level made. Raises Kept where a share would have to be kept.
        """
        out, by = set[str](), self.program.by_target
        waiting = [key for key in targets if self.hops(key) is not None]
        level = max((self.levels[key] for key in waiting), default=0)
        arrived = {(a.tensor, a.states) for a in self.arrivals}
        while waiting:
            reader = waiting.pop()
            for key in self.reads(by[reader]):
                if key not in by or key in out or (key, self.needs(reader, key)) in arrived:
                    continue
                hops = self.hops(key)
                if hops is not None and self.levels[key] < level and isinstance(self.states(key)[hops], Share):
                    raise Kept(key)
                if _made_again(self, by[key]) if hops is None else self.levels[key] < level:
                    out.add(key)
                    waiting.append(key)
        return out


def _made_again(placed: Placed, equation: Equation) -> bool:
    """Whether a value at pairs of positions is made by every rank itself, point by point."""
    return stands_at_pairs(equation) and not isinstance(equation.body, Fold) and all(
        state == WHOLE for state in placed.states(equation.target))


def in_order(states: States) -> States:
    """The states of axes that hold their parts in order: each rank has one block in place of several."""
    return tuple(replace(state, blocks=1) if isinstance(state, Part) else state for state in states)


def usual_sizes(program: NormalProgram) -> dict[str, int]:
    """A number for each size by the class of what has it for its extent, for prices to be compared at."""
    sets = [s.set for t in program.tensors.values() for s in t.slots]
    out: dict[str, int] = {}
    for one in (*sets, *(part for s in sets for part in program.splits.get(s, ()))):
        for name in one.extent.sizes:
            alone = one.extent.sizes == {name} and one.extent.constant is None and len(one.extent.terms) == 1
            out[name] = nominal(one) if alone or name not in out else out[name]
    named = {n for t in program.terms for n in getattr(getattr(t, "extent", None), "sizes", ())}
    return {**dict.fromkeys(named, 2), **out}


def stands_at_pairs(equation: Equation) -> bool:
    """Whether a value stands at pairs of positions."""
    return sum(INDEX_CLASSES[i.set.cls].sequence for i in equation.indices) > 1


def references(states: States, n: int, after: State = WHOLE) -> list[tuple[str, States]]:
    """What is needed beside a tensor that is moved on an axis: what a share is relative to, as the rank has it and over
    all ranks, where the tensor is in the state `after`; what says whose an element is.
    """
    rows = after if isinstance(after, Rows) else rows_of(states[n])
    if rows is not None:
        state, found = states[n], [(rows.chosen, rows.like(states, Part(rows.packed[0]), n))]
        if isinstance(state, Owned) and len(rows.packed) < len(state.places):
            found.append((rows.chosen, rows.like(states, rows.of_chosen, n)))
        return found
    match states[n]:
        case Share(_, reference, places) if reference:
            there = isinstance(after, Part) and after.slot in places
            here = replace(after, slot=places.index(after.slot)) if there and isinstance(after, Part) else WHOLE
            return [(reference, _along(states, places, n, Share("max"))), (reference, _along(states, places, n, here))]
        case Owned(chosen, places):
            return [(chosen, _along(states, places, n, WHOLE))]
    return []


def _along(states: States, places: tuple[int, ...], n: int, here: State) -> States:
    """The states of a tensor that stands at some slots of another one, cut as that is."""
    out: list[State] = []
    for m, state in enumerate(states):
        there = isinstance(state, Part) and state.slot in places
        out.append(here if m == n else replace(state, slot=places.index(state.slot))
                   if there and isinstance(state, Part) else WHOLE)
    return tuple(out)
