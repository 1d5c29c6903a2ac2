"""A program on a mesh: its cuttings, one an axis, and when what happens. A level is what lies between two collectives.

A collective comes as early as it can, so that it may go on beside other work. What is made point by point, or stands at
pairs of positions, is made where it is read: nothing of that size waits for a collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod

from einc.ir.indices import INDEX_CLASSES, number
from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Fold
from einc.planning.analysis.cost import nominal, volume
from einc.planning.placing.cuts import Cut
from einc.planning.placing.cutting import Cutting, cut
from einc.planning.placing.refusals import Refused, examine, whole_bytes
from einc.planning.placing.states import (
    SILENT,
    WHOLE,
    Axis,
    Move,
    Owned,
    Part,
    Share,
    State,
    States,
    clash,
    cut_slots,
    moved,
    ranks_of,
)


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
    is left. Arrivals stand in an order in which they can be done.
    """

    program: NormalProgram
    mesh: tuple[Axis, ...]
    cuttings: tuple[Cutting, ...]
    ends: Mapping[str, States]
    levels: Mapping[str, int]
    arrivals: tuple[Arrival, ...]

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
    return _pairs(equation) and not isinstance(equation.body, Fold) and all(
        state == WHOLE for state in placed.states(equation.target))


def placed(program: NormalProgram, mesh: Sequence[Axis], sizes: Mapping[str, int] | None = None,
           given: Mapping[str, States] | None = None, asked: Mapping[str, States] | None = None,
           kept: Set[str] = frozenset()) -> Placed:
    """A program on a mesh: `sizes` are those that are known, `given` the states of inputs and `asked` those in which
    outputs are left, where that is not for this function to say. What no caller sees, `kept`, is left as it is, other
    outputs in order. Raises Refused.
    """
    known = {**program.sizes, **(sizes or {})}
    examine(program, mesh, known)
    refused = frozenset[str]()
    while True:
        try:
            found = _placed(program, mesh, known, given or {}, refused)
            ends = {key: states if key in kept else in_order(states) for key, states in found.ends.items()}
            ends |= asked or {}
            made = _Schedule(replace(found, ends=ends)).done()
            more = {a.tensor: a.states for a in made.arrivals if a.tensor in kept and _gathered(a, made)}
            return _Schedule(replace(found, ends={**ends, **more})).done() if more else made
        except Kept as needed:  # a reference is folded at once, and nothing is relative to what a hop has of it
            (key,) = needed.args
            assert key not in refused, key
            refused |= {key}


def _gathered(arrival: Arrival, placed: Placed) -> bool:
    """Whether a tensor that is to be kept gathered is so after some moves, on axes that say it."""
    now, then = placed.states(arrival.tensor), arrival.states
    return any(arrival.tensor in axis.gathered and isinstance(a, Part) and b == WHOLE
               for axis, a, b in zip(placed.mesh, now, then, strict=True))


def _placed(program: NormalProgram, mesh: Sequence[Axis], known: Mapping[str, int], given: Mapping[str, States],
            refused: frozenset[str]) -> Placed:
    """The program where some shares are folded at once, before its levels are found. Raises Refused for a share that
    would go round two axes at once."""
    usual = {**usual_sizes(program), **known}
    cuttings: list[Cutting] = []
    while len(cuttings) < len(mesh):
        n = len(cuttings)
        on_axis = {key: states[n] for key, states in given.items()}
        ring = mesh[n].around or (n + 1 < len(mesh) and mesh[n + 1].around)
        found = cut(program, mesh[n], cuttings, usual, known, on_axis, refused if ring else frozenset())
        cuttings.append(found)
        if found.program.equations != program.equations:  # the axes before have to know of what is new
            program, cuttings = found.program, []
    ends = {key: tuple(c.ends[key] for c in cuttings) for _, key in program.outputs}
    for key, states in ends.items():
        ends[key] = _apart(states)
    made = Placed(program, tuple(mesh), tuple(cuttings), ends, {}, ())
    for tensor in program.inputs():
        whole_bytes(tensor, made.states(tensor.key), program.splits, mesh, known)
    for e in program.equations:
        names = [axis.around for axis, found in zip(mesh, made.cuts(e.target), strict=True)
                 if axis.around and found.letters]
        if len(names) > 1:
            raise Refused("meeting", f"`{e.target}` would go round over {' and over '.join(names)} at once: one ring "
                          "in another is not written yet", f"say `by gather` of what meets over {names[1]}")
    return made


def in_order(states: States) -> States:
    """The states without blocks."""
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


def _apart(states: States) -> States:
    """The states without those that cut what an axis before cuts."""
    out: list[State] = []
    for state in states:
        out.append(WHOLE if any(clash(state, one) for one in out) else state)
    return tuple(out)


@dataclass
class _Schedule:
    """The levels of a program while they are found."""

    of: Placed
    level: dict[str, int] = field(default_factory=dict)
    found: dict[tuple[str, States], Arrival] = field(default_factory=dict)

    def done(self) -> Placed:
        """The program with its levels and arrivals."""
        for e in self.of.program.equations:
            self.level[e.target] = max((self.arrive(key, self.of.needs(e.target, key), f"{e.target} reads it")
                                        for key in self.of.reads(e)), default=0)
        for key, states in self.of.ends.items():
            self.arrive(key, states, "returned")
        self.sink()
        arrivals = tuple(sorted(self.found.values(), key=lambda a: a.level))
        made = replace(self.of, levels=self.level, arrivals=arrivals)
        for level in {*self.level.values()}:
            made.copied(key for key, at in self.level.items() if at == level)
        return made

    def arrive(self, key: str, want: States, why: str) -> int:
        """The level from which a tensor is there in some states."""
        have, made = self.of.states(key), self.level.get(key, -1)
        if have == want:
            return max(made, 0)
        if (key, want) not in self.found:
            at, now, moves = made + 1, have, []
            for axes, then in moved(have, want, self.of.mesh):
                for n in axes:
                    for needed in references(now, n):
                        at = max(at, self.arrive(*needed, f"{key} is relative to it,"))
                moves.append(self.move(key, axes, now, then, why))
                now = then
            self.found[key, want] = Arrival(key, want, at, tuple(moves))
        return self.found[key, want].level

    def move(self, key: str, axes: tuple[int, ...], now: States, then: States, why: str) -> Move:
        """One move of a tensor, with what it costs and why. Writes the move to the schedule. Raises Kept, with the
        share's maximum, where shares relative to one would be sent in hops."""
        (first, *_), tensor, mesh = axes, self.of.program.tensors[key], self.of.mesh
        match now[first]:
            case Share(_, reference, _) if reference and len(axes) > 1 and any(mesh[n].around for n in axes):
                raise Kept(reference)  # shares that hops send are added as they come
        sets = [s.set for s in cut_slots(tensor.slots, now, mesh)]
        held, stored = volume(sets), prod(tensor.element.extents(sets), start=number(1))
        cuts = self.of.cuttings[first].cuts
        cause = f"{cuts[key].reason}; " if key in cuts and isinstance(now[first], Share | Owned) else ""
        after = then[first]
        how = f" by {tensor.slots[after.slot].name}" if isinstance(after, Part) else " whole"
        around = any(mesh[n].around for n in axes)
        how = " part after part" if around and isinstance(now[first], Part) and len(axes) > 1 else how
        ranks = mesh[first].ranks if around else ranks_of(mesh, axes)
        return Move(key, axes, ranks, now[first], after, held, stored, tensor.element, cause + why + how, around)

    def sink(self) -> None:
        """What is made point by point or at pairs of positions goes to the level of the first that reads it; what reads
        pairs of positions waits, where nothing waits for it, so that all that read them do so in one level.
        """
        moved_too = [s for key, _ in self.found for s in self.of.states(key)]
        pinned = {key for key, _ in self.found} | {s.reference for s in moved_too if isinstance(s, Share)}
        pinned |= {s.chosen for s in moved_too if isinstance(s, Owned)}
        readers: dict[str, list[str]] = {}
        for e in self.of.program.equations:
            for key in self.of.reads(e):
                readers.setdefault(key, []).append(e.target)

        def latest(key: str) -> int:
            """The level of the first that reads a value; its own where it has to be there for a collective."""
            later = [self.level[other] for other in readers.get(key, ())]
            return self.level[key] if key in pinned else min(later, default=max(self.level.values()))

        for e in reversed(self.of.program.equations):
            if _pairs(e):
                last = max((self.level[other] for other in readers.get(e.target, ())), default=0)
                for other in readers.get(e.target, ()):
                    self.level[other] = last if latest(other) >= last else self.level[other]
            if readers.get(e.target) and (_pairs(e) or not isinstance(e.body, Fold)):
                self.level[e.target] = max(self.level[e.target], latest(e.target))


def _pairs(equation: Equation) -> bool:
    """Whether a value stands at pairs of positions."""
    return sum(INDEX_CLASSES[i.set.cls].sequence for i in equation.indices) > 1


def references(states: States, n: int) -> list[tuple[str, States]]:
    """What has to be there before a tensor can be moved on an axis: what a share is relative to, as the rank has it and
    whole; what says whose an element is.
    """
    match states[n]:
        case Share(_, reference, places) if reference:
            return [(reference, _along(states, places, n, Share("max"))), (reference, _along(states, places, n, WHOLE))]
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
