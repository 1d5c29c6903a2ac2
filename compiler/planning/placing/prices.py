"""What a program costs on a mesh, by count: what a device holds, sends and computes; and the plans worth a look.

Counts are of the program as it stands: an operation for each point of an equation and 2 for each of a product, points
that a domain leaves out among them; a device holds what it is given, what the first half of a gradient saves, results
and gradients, and not what lies in memory for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.ir.indices import IndexSet
from einc.ir.plan import Recurrence, StateScan
from einc.ir.programs import Equation
from einc.ir.terms import Fold
from einc.planning.placing import traffic
from einc.planning.placing.chains import Link
from einc.planning.placing.levels import Placed
from einc.planning.placing.refusals import Refused
from einc.planning.placing.states import Axis, Meeting, Move, Owned, States, cut_slots

# Operations that a device does in the time in which it sends a byte to another: of dense products of bfloat16 on an
# H100, 990 · 10¹² a second, and of its links to others, 450 · 10⁹ bytes a second.
OPERATIONS_PER_BYTE = 2200
_WIDEST, _LONGEST = 3, 4  # how many plans of one length go on to the next, and the most letters of one axis


@dataclass(frozen=True)
class Price:
    """What one device does: `held` bytes in memory, `sent` bytes by so many `messages`, `operations`."""

    held: Fraction
    sent: Fraction
    messages: int
    operations: Fraction

    @property
    def time(self) -> Fraction:
        """In operations: what is sent does not go on beside what is computed."""
        return self.operations + OPERATIONS_PER_BYTE * self.sent


@dataclass(frozen=True)
class Candidate:
    """A way to cut: the axes, what it costs, and what is sent, the most first."""

    mesh: tuple[Axis, ...]
    price: Price
    moves: tuple[Move, ...]


Put = Callable[[tuple[Axis, ...]], tuple[Sequence[Link], Sequence[Recurrence | StateScan]]]


def priced(mesh: tuple[Axis, ...], links: Sequence[Link], steps: Iterable[Recurrence | StateScan],
           sizes: Mapping[str, int], real: int) -> Candidate:
    """A program on a mesh, with the steps of its recurrences, and what it costs at these sizes; an element of the data
    has so many bytes. A gradient does twice of what a recurrence does.
    """
    held, sent, operations, messages = Fraction(0), Fraction(0), Fraction(0), 0
    moves: list[tuple[Fraction, Move]] = []
    given: dict[str, Fraction] = {}
    for link in links:
        times = link.times.at(sizes)
        for half in (link.forward, link.backward):
            if half is None:
                continue
            operations += times * sum((_operations(half, e, sizes) for e in half.program.equations), Fraction(0))
            for found in traffic.sent(half, sizes):
                move = found.move
                cost = times * found.wire.at(sizes) * move.element.size(real)
                sent, messages = sent + cost, messages + found.messages * int(times)
                moves.append((cost, move))
            held += times * sum((_bytes(half, key, half.ends[key], sizes, real) for _, key in half.program.outputs),
                                Fraction(0))
        for tensor in link.forward.program.inputs():
            mine = _bytes(link.forward, tensor.key, link.forward.states(tensor.key), sizes, real)
            taken = link.round is not None and tensor.key in link.round.taken
            given[tensor.key] = mine * (times if taken else 1)
    again = 3 if any(link.backward is not None for link in links) else 1
    operations += again * sum((step.cost.flops.at(sizes) for step in steps), Fraction(0))
    price = Price(held + sum(given.values(), Fraction(0)), sent, messages, operations)
    return Candidate(mesh, price, tuple(move for _, move in sorted(moves, key=lambda pair: -pair[0])))


def _bytes(placed: Placed, key: str, states: States, sizes: Mapping[str, int], real: int) -> Fraction:
    """The bytes of what a rank has of a tensor."""
    tensor = placed.program.tensors[key]
    return tensor.element.room((s.set for s in cut_slots(tensor.slots, states, placed.mesh, True)), real).at(sizes)


def _operations(placed: Placed, equation: Equation, sizes: Mapping[str, int]) -> Fraction:
    """The operations of one rank for an equation: it passes its own part of the letters that are cut."""
    letters = dict.fromkeys(equation.indices)
    if isinstance(equation.body, Fold):
        letters |= dict.fromkeys(equation.body.bound)
    points = Fraction(1)
    for index in letters:
        points *= index.set.extent.at(sizes)
    for axis, found in zip(placed.mesh, placed.cuts(equation.target), strict=True):
        if letters.keys() & {letter.index for letter in found.letters}:
            points /= axis.ranks
    return points * (2 if isinstance(equation.body, Fold) else 1)


def bubble(stages: int, parts: int) -> Fraction:
    """The share of time in which a stage waits, where so many stages pass a batch on in parts, forward and back."""
    return Fraction(stages - 1, parts + stages - 1)


def candidates(sets: Sequence[IndexSet], devices: int, sizes: Mapping[str, int], real: int, put: Put,
               ) -> list[Candidate]:
    """Plans for so many devices, the fastest first: on one axis, lists of letters that grow while that helps; on two,
    pairs of the best lists of each. Raises Refused where each of those that the devices divide is refused, for the
    first reason.
    """
    search = _Search(sets, sizes, real, put)
    found = list(search.lists("a", devices))
    for first in range(2, devices):
        if devices % first == 0:
            ones, others = search.best("a", first), search.best("b", devices // first)
            for one in ones:
                for other in others:
                    if not {*one.mesh[0].sets} & {*other.mesh[0].sets}:
                        found += search.tried((*one.mesh, *other.mesh))
    if not found and search.refused:
        raise search.refused[0]
    unique: dict[Price, Candidate] = {}
    for one in sorted(found, key=lambda c: (len(c.mesh), sum(len(axis.sets) for axis in c.mesh))):
        unique.setdefault(one.price, one)
    return sorted(unique.values(), key=lambda c: c.price.time)


def _chosen(links: Sequence[Link], axis: int) -> set[IndexSet]:
    """The sets of which an axis has elements that data chooses."""
    return {cut.state.base for link in links for cut in link.forward.cuttings[axis].cuts.values()
            if isinstance(cut.state, Owned)}


@dataclass(frozen=True)
class _Search:
    """The search for lists of letters of one axis; `refused` says why plans that were tried cannot be had."""

    sets: Sequence[IndexSet]
    sizes: Mapping[str, int]
    real: int
    put: Put
    refused: list[Refused] = field(default_factory=list)

    def tried(self, mesh: tuple[Axis, ...]) -> Iterator[Candidate]:
        """The plan of a mesh, if it can be had; and where an axis cuts what data chooses, the one that sends rows."""
        try:
            links, steps = self.put(mesh)
            yield priced(mesh, links, steps, self.sizes, self.real)
        except Refused as why:
            self.refused.append(why)
            return
        rows = tuple(replace(axis, meetings=tuple(Meeting("", "rows", one) for one in axis.sets[1:] if one in _chosen(
            links, n))) if not axis.meetings else axis for n, axis in enumerate(mesh))
        if rows != mesh:
            yield from self.tried(rows)

    def lists(self, name: str, ranks: int) -> Iterator[Candidate]:
        """Plans of one axis: those of one letter, and longer ones that begin with the best."""
        begun: list[Candidate] = []
        for length in range(1, _LONGEST + 1):
            longer = [(*one.mesh[0].sets, more) for one in begun for more in self.sets
                      if more not in one.mesh[0].sets] if length > 1 else [(one,) for one in self.sets]
            found = [one for sets in longer if all(self.divides(s, ranks) for s in sets)
                     for one in self.tried((Axis(name, ranks, sets),))]
            yield from found
            least = min((one.price.time for one in begun), default=None)
            begun = sorted(found, key=lambda c: c.price.time)[:_WIDEST]
            if not begun or (least is not None and begun[0].price.time >= least):
                return

    def best(self, name: str, ranks: int) -> list[Candidate]:
        """The fastest plans of one axis."""
        return sorted(self.lists(name, ranks), key=lambda c: c.price.time)[:_WIDEST]

    def divides(self, of: IndexSet, ranks: int) -> bool:
        """Whether the extent of a set is a multiple of the ranks."""
        extent = of.extent.at(self.sizes)
        return extent.denominator == 1 and extent % ranks == 0
