"""A program put on a mesh: each axis cuts it, and a schedule says in which level what is made and when what is sent.

Where shares are relative to each rank's own maximum, a collective that folds them has to wait for the one that finds
the greatest of these. They may also go to the ranks that need them as they are, each with its maximum, in one message,
and are folded there: more bytes where every rank needs all, and fewer messages. The cheaper is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod

from einc.ir.indices import number
from einc.ir.programs import NormalProgram
from einc.ir.terms import Fold
from einc.planning.analysis.cost import volume
from einc.planning.placing.cuts import read_whole
from einc.planning.placing.cutting import Cutting, cut
from einc.planning.placing.levels import (
    Arrival,
    Kept,
    Placed,
    Transfer,
    in_order,
    stands_at_pairs,
    usual_sizes,
)
from einc.planning.placing.messages import messages
from einc.planning.placing.refusals import Refused, examine, whole_bytes
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
    clash,
    cut_slots,
    moved,
    ranks_of,
)

# Bytes that a device sends to another in the 10 µs that a message between eight H100 takes however short it is.
BYTES_PER_MESSAGE = 4_500_000
_REAL = 4  # bytes of an element of the data


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
            ends = {key: _as_made(found, key) if key in kept else in_order(states)
                    for key, states in found.ends.items()}
            ends |= asked or {}
            made = _scheduled(replace(found, ends=ends), known)
            more = {a.tensor: a.states for a in made.arrivals if a.tensor in kept and _gathered(a, made)}
            return _scheduled(replace(found, ends={**ends, **more}), known) if more else made
        except Kept as needed:  # a reference is folded at once, and nothing is relative to what a hop has of it
            (key,) = needed.args
            assert key not in refused, key
            refused |= {key}


def _as_made(found: Placed, key: str) -> States:
    """The states in which what no caller sees is left: what its owners have in rows stays there, if what was chosen is
    left, too.
    """
    made, shown = found.states(key), {key for _, key in found.program.outputs}
    return tuple(one if isinstance(one, Owned) and one.rows is not None and one.chosen in shown else end
                 for one, end in zip(made, found.ends[key], strict=True))


def _gathered(arrival: Arrival, placed: Placed) -> bool:
    """Whether a tensor that is to be kept gathered is so after some moves, on axes that say it; or has come back from
    rows, as it then need not come once more."""
    now, then = placed.states(arrival.tensor), arrival.states
    back = any(isinstance(a, Owned) and a.rows is not None and isinstance(b, Part)
               for a, b in zip(now, then, strict=True))
    return back or any(arrival.tensor in axis.gathered and isinstance(a, Part) and b == WHOLE
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
        ends[key] = _cut_once(states)
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


def without_rows(found: Placed) -> Placed:
    """The program where each rank has all of what is sent to rows, and of no row more than it reads: what ranks make is
    the same."""
    def plain(state: State) -> State:
        return WHOLE if isinstance(state, Rows) else replace(state, rows=None) if isinstance(
            state, Share | Owned) else state

    def every(states: Mapping[str, State]) -> dict[str, State]:
        return {key: plain(state) for key, state in states.items()}

    cuttings = tuple(replace(one, given=every(one.given), ends=every(one.ends), cuts={
        key: replace(cut, state=plain(cut.state), needs=every(cut.needs), letters=tuple(
            x for x in cut.letters if x.row is None)) for key, cut in one.cuts.items()}) for one in found.cuttings)
    ends = {key: tuple(map(plain, states)) for key, states in found.ends.items()}
    if cuttings == found.cuttings:
        return found
    return _scheduled(replace(found, cuttings=cuttings, ends=ends), found.program.sizes)


def _cut_once(states: States) -> States:
    """The states without those that cut what an axis before cuts."""
    out: list[State] = []
    for state in states:
        out.append(WHOLE if any(clash(state, one) for one in out) else state)
    return tuple(out)


def _scheduled(found: Placed, known: Mapping[str, int]) -> Placed:
    """The program with its levels: the cheapest of those in which shares are folded by collectives, and those in which
    some reach the ranks apart."""
    first = _Schedule(_with_maxima(found)).done()
    sizes = {**usual_sizes(found.program), **known}
    tried = [first, *(_Schedule(_with_maxima(replace(found, apart=keys))).done()
                      for keys in _sets_apart(first.transfers))]
    return min(tried, key=lambda one: _cost(one, sizes))


def _with_maxima(found: Placed) -> Placed:
    """The program where maxima come whole to each rank that shares are relative to when a collective folds these:
    whatever reads a part of such a maximum has it then.
    """
    cuttings = list[Cutting]()
    for axis, one in zip(found.mesh, found.cuttings, strict=True):
        wholes = {made.state.reference for made in one.cuts.values() if isinstance(made.state, Share)} - found.apart
        cuts = {key: made if axis.around else replace(made, needs=read_whole(made.needs, one.state, wholes))
                for key, made in one.cuts.items()}
        cuttings.append(replace(one, cuts=cuts))
    return replace(found, cuttings=tuple(cuttings))


def _sets_apart(transfers: Iterator[Transfer]) -> list[frozenset[str]]:
    """Which shares may reach the ranks apart: those that are relative to a maximum, with it; and with what else is
    folded when these are.
    """
    shares = [one for one in transfers if isinstance(one.state, Share) and one.state.rows is None]
    relative = [(one, one.state.reference) for one in shares if isinstance(one.state, Share) and one.state.reference]
    when = {(one.arrival.level, one.move.axes) for one, _ in relative}
    few = {key for one, reference in relative for key in (one.move.tensor, reference)}
    more = {one.move.tensor for one in shares if (one.arrival.level, one.move.axes) in when}
    return list(dict.fromkeys(map(frozenset, (few, few | more)))) if few else []


def _cost(one: Placed, sizes: Mapping[str, int]) -> Fraction:
    """The bytes that a rank sends, each message more by what could be sent in its time."""
    sent = [x for message in messages(one) for x in message.transfers if x.move.kind not in SILENT]
    count = sum(message.transfers[0].move.kind not in SILENT for message in messages(one))
    total = sum((x.move.wire.at(sizes) * x.move.element.size(_REAL) for x in sent), Fraction(0))
    return total + count * BYTES_PER_MESSAGE


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
                for needed in self.of.beside(key, axes, now, then):
                    at = max(at, self.arrive(*needed, f"{key} is relative to it,"), self.level.get(needed[0], -1) + 1)
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
        sets = [s.set for s in cut_slots(tensor.slots, now, mesh, usual=True)]
        held, stored = volume(sets), prod(tensor.element.extents(sets), start=number(1))
        cuts = self.of.cuttings[first].cuts
        said = cuts[key].reason if key in cuts and isinstance(now[first], Share | Owned) else ""
        cause = f"{said}; " if said else ""
        after = then[first]
        how = (f" by {tensor.slots[after.slot].name}" if isinstance(after, Part)
               else " in the rows that chose it" if isinstance(after, Rows) else " whole")
        around = any(mesh[n].around for n in axes)
        how = " part after part" if around and isinstance(now[first], Part) and len(axes) > 1 else how
        ranks = mesh[first].ranks if around else ranks_of(mesh, axes)
        return Move(key, axes, ranks, now[first], after, held, stored, tensor.element, cause + why + how, around,
                    self.of.folds(key, axes, now))

    def sink(self) -> None:
        """What is made point by point or at pairs of positions goes to the level of the first that reads it; what reads
        pairs of positions waits, where nothing waits for it, so that all that read them do so in one level.
        """
        moved_too = [s for key, _ in self.found for s in self.of.states(key)]
        pinned = {key for key, _ in self.found} | {s.reference for s in moved_too if isinstance(s, Share)}
        pinned |= {s.chosen for s in moved_too if isinstance(s, Owned)}
        pinned |= {s.chosen for _, states in self.found for s in states if isinstance(s, Rows)}
        readers: dict[str, list[str]] = {}
        for e in self.of.program.equations:
            for key in self.of.reads(e):
                readers.setdefault(key, []).append(e.target)

        def latest(key: str) -> int:
            """The level of the first that reads a value; its own where it has to be there for a collective."""
            later = [self.level[other] for other in readers.get(key, ())]
            return self.level[key] if key in pinned else min(later, default=max(self.level.values()))

        for e in reversed(self.of.program.equations):
            if stands_at_pairs(e):
                last = max((self.level[other] for other in readers.get(e.target, ())), default=0)
                for other in readers.get(e.target, ()):
                    self.level[other] = last if latest(other) >= last else self.level[other]
            if readers.get(e.target) and (stands_at_pairs(e) or not isinstance(e.body, Fold)):
                self.level[e.target] = max(self.level[e.target], latest(e.target))


