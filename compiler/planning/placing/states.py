"""What the ranks of one axis of a mesh have of a tensor, and what it takes to get from one state to another.

`Whole`: each has all of it. `Part`: each has its part of one slot. `Share`: each has a tensor of the full extent, and
the fold of these is the tensor. `Owned`: each element is right on the rank that owns what it was read at, for no one
knows which without the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, assert_never

from einc.ir.elements import RANGED, REAL, WIDE, Element
from einc.ir.indices import Extent, IndexSet, number, size
from einc.ir.plan.gradients import place_of
from einc.ir.programs import Slot
from einc.ir.requested import ROWS
from einc.ir.terms import Size

Way = Literal["gather", "merge", "ring", "swap", "rows", "once"]
OWN = ("ring", *ROWS)  # the ways of which `by` is the set of the letter itself


@dataclass(frozen=True, slots=True)
class Meeting:
    """How an equation is cut that has two letters of one set: `letter` is gathered, or comes part by part in a ring, or
    is cut itself and its folds merged, or what has both is cut by a letter of the set `by`. Of a ring `by` is the set
    of the letter. Of `rows` and `once` it is, too: there `letter` is chosen by data, and what chose an element of a
    rank is sent to it, once for each choice, or once however many choices it has there.
    """

    letter: str
    way: Way
    by: IndexSet | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a mesh: its ranks, and the sets that are cut over it in the order in which they are tried.

    An axis `around` another, which stands before it, is one of time: the parts of all ranks of that axis come to each
    rank in hops, and the place on this axis is the rank whose part is there. Of a set that is `balanced` a
    rank's part is two blocks, one from each end. What is `gathered` and saved for the gradient is saved so.
    """

    name: str
    ranks: int
    sets: tuple[IndexSet, ...]
    meetings: tuple[Meeting, ...] = ()
    around: str = ""
    balanced: IndexSet | None = None
    gathered: frozenset[str] = frozenset()

    def blocks(self, of: IndexSet) -> int:
        """In how many blocks a rank has its part of a set."""
        return 2 if of == self.balanced else 1

    @property
    def place(self) -> str:
        """The size that numbers the ranks of this axis from 1, as every size is at least 1."""
        return place_of(self.name)

    @property
    def given(self) -> tuple[IndexSet, ...]:
        """The sets by which what is given and returned is cut: in time nothing is."""
        return () if self.around else self.sets

    @property
    def rank(self) -> Extent:
        """The rank on this axis as a number from 0."""
        return size(self.place) - number(1)

    def part(self, of: Extent) -> Extent:
        """How many of so many elements one rank has; all of them, where they are no multiple of the ranks."""
        return of.over(number(self.ranks)) or of

    def before(self, of: Extent) -> Size:
        """How many elements the ranks before this one have."""
        return Size(self.rank * self.part(of))


@dataclass(frozen=True, slots=True)
class Whole:
    """Each rank has all of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Each rank has its part of a slot; of a composite the part of one `component`, -1 for the set itself. Where it is
    in two `blocks`, the second is as far from the end as the first is from the start.
    """

    slot: int
    component: int = -1
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Each rank has the rows that chose an element of its part of `base`: a row is what `chosen` has at one place of
    its slots `packed`.

    `at` are the slots of this tensor for each of these, -1 for none. The rows of a rank lie along the first, which is
    always there, and the others have one element. Only the data says how many there are, the size `count`; where each
    element is chosen as often they are `usual`, and what has all slots of a row, with so many `extents`, is sent to so
    many ranks, `each`.
    """

    chosen: str
    base: IndexSet
    packed: tuple[int, ...]
    at: tuple[int, ...]
    count: str
    usual: Extent
    each: Extent
    extents: tuple[Extent, ...]

    @property
    def parted(self) -> Part:
        """The state from which rows are sent, and to which they are sent back."""
        return Part(self.at[0])

    def like(self, states: Sequence[State], here: State, n: int) -> States:
        """The states of what is chosen beside a tensor that has some: cut as that is, and as `here` on the axis `n`."""
        places = dict(zip(self.at, self.packed, strict=True))
        return tuple(here if m == n else replace(one, slot=places[one.slot])
                     if isinstance(one, Part) and one.slot in places else WHOLE for m, one in enumerate(states))

    @property
    def of_chosen(self) -> Rows:
        """The state in which what is chosen lies in such rows."""
        return replace(self, at=self.packed)

    @property
    def copies(self) -> Extent:
        """In how many rows an element of the tensor stands."""
        return prod((x for x, n in zip(self.extents, self.at, strict=True) if n < 0), start=self.each)


@dataclass(frozen=True, slots=True)
class Share:
    """The fold of what the ranks have is the tensor. Where it is relative to a `reference` that is each rank's own, it
    holds a factor exp(reference)^-power; `places` are the slots at which the reference stands. A rank may have its
    shares in `rows`: of what is in no row of it, it adds nothing.
    """

    fold: str
    reference: str = ""
    places: tuple[int, ...] = ()
    power: int = 0
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class Owned:
    """An element belongs to the rank that has the element of `base` that is in `chosen`, a tensor that is read at the
    slots `places` of this one. A rank may have what it owns in `rows`.
    """

    chosen: str
    places: tuple[int, ...]
    base: IndexSet
    rows: Rows | None = None


State = Whole | Part | Share | Owned | Rows
States = tuple[State, ...]  # one for each axis of the mesh
WHOLE = Whole()


def rows_of(state: State) -> Rows | None:
    """The rows in which a rank has a tensor; None where it has it in none."""
    match state:
        case Share() | Owned():
            return state.rows
        case Rows():
            return state
    return None


def with_rings(mesh: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes of a mesh, each over which parts go round with the axis of time around it."""
    out = list[Axis]()
    for axis in mesh:
        out.append(axis)
        rings = [m for m in axis.meetings if m.way == "ring"]
        if rings:
            sets = tuple(dict.fromkeys(m.by for m in rings if m.by is not None))
            letters = tuple(Meeting(m.letter, "merge") for m in rings)
            out.append(Axis(f"{axis.name}.part", axis.ranks, sets, letters, axis.name, axis.balanced))
    return tuple(out)


def cut_slots(slots: Sequence[Slot], states: States, mesh: Sequence[Axis], usual: bool = False) -> tuple[Slot, ...]:
    """The slots of what one rank has; with `usual`, as many rows as there are where all is chosen as often."""
    out = list(slots)
    for axis, state in zip(mesh, states, strict=True):
        if isinstance(state, Part):
            out[state.slot] = replace(out[state.slot],
                                      set=replace(out[state.slot].set, extent=axis.part(out[state.slot].set.extent)))
    for rows in filter(None, map(rows_of, states)):
        first, *others = (n for n in rows.at if n >= 0)
        count = rows.usual if usual else size(rows.count)
        for n, extent in ((first, count), *((n, number(1)) for n in others)):
            out[n] = replace(out[n], set=replace(out[n].set, extent=extent))
    return tuple(out)


Kind = Literal["slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter", "pass", "return", "merge",
               "to_rows", "from_rows"]
SILENT = ("slice", "merge")  # what sends nothing


@dataclass(frozen=True, slots=True)
class Move:
    """A tensor from one state to another on some axes of the mesh at once, which have so many `ranks` together.

    `held` is the number of elements that a rank has before, each an `element`, and `stored` that of the array in which
    it has them, fewer where several lie in one byte. `reason` says why in words. On an axis `around` another what hops
    made is merged; on both the ranks' parts come in hops, or shares of them go to the ranks. Shares that arrive `apart`
    are folded by the ranks that need them.
    """

    tensor: str
    axes: tuple[int, ...]
    ranks: int
    before: State
    after: State
    held: Extent
    stored: Extent
    element: Element
    reason: str = ""
    around: bool = False
    apart: bool = False

    @property
    def kind(self) -> Kind:
        """The collective that does it; a slice needs none."""
        if self.around:
            return "merge" if len(self.axes) == 1 else "pass" if isinstance(self.before, Part) else "return"
        if self.rows is not None:
            return "to_rows" if isinstance(self.after, Rows) else "from_rows"
        match self.before, self.after:
            case Whole(), _:
                return "slice"
            case Part(), Part():
                return "all_to_all"
            case Part(), _:
                return "all_gather"
            case (Share() | Owned() | Rows()), Part():
                return "all_to_all" if self.apart else "reduce_scatter"
            case (Share() | Owned() | Rows()), _:
                return "all_gather" if self.apart else "all_reduce"
        assert_never(self.before)

    @property
    def rows(self) -> Rows | None:
        """The rows to which something is sent, or from which it comes back."""
        return self.after if isinstance(self.after, Rows) else rows_of(self.before)

    def alike(self, narrow: bool) -> tuple[object, ...]:
        """What moves that can go as one message have in common. What is folded is of one type; what is added up is sent
        in the wide type, unless every product may be `narrow`."""
        if self.rows is not None:
            return self.kind, self.axes, self.rows.chosen, self.rows.packed
        match self.before, self.after:
            case Part(slot, component, blocks=first), Part(blocks=last) as after:
                relaid = (slot, component) == (after.slot, after.component)  # blocks come into another order
                return self.kind, self.axes, (first, last) if relaid else None
            case Part(), _:
                return self.kind, self.axes
            case _ if self.apart:
                return (self.kind, self.axes, None) if self.kind == "all_to_all" else (self.kind, self.axes)
            case before, _:
                fold = before.fold if isinstance(before, Share) else None
                return self.kind, self.axes, fold, WIDE if self.adds and not narrow else self.element

    @property
    def adds(self) -> bool:
        """Whether it adds or multiplies numbers that would be rounded to the type of the data once for each rank."""
        folded = isinstance(self.before, Share) and not self.apart and self.before.fold in ("sum", "prod")
        return folded and self.element in (REAL, RANGED)

    @property
    def wire(self) -> Extent:
        """How many elements of its array a rank sends, by the algorithm that sends fewest."""
        copies = self.after.copies if isinstance(self.after, Rows) else number(1)
        return self.stored * copies * sent(self.kind, self.ranks)


def sent(kind: Kind, ranks: int) -> Extent:
    """How much of what a rank holds it sends."""
    some = (number(ranks - 1).over(number(ranks))) or number(0)
    match kind:
        case "slice" | "merge":
            return number(0)
        case "all_gather" | "pass" | "return":
            return number(ranks - 1)
        case "all_to_all" | "reduce_scatter" | "to_rows" | "from_rows":
            return some
        case "all_reduce":
            return some * number(2)
    assert_never(kind)


def moved(before: States, after: States, mesh: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], States]]:
    """The axes on which a tensor changes its state, in an order that can be done one after the other, and the states
    then: what hops made leaves them first, and what comes in hops does so in the end.
    """
    now, target = list(before), list(after)
    hops = [m for m, axis in enumerate(mesh) if axis.around]
    for m in hops if before != after else ():
        if now[m] == WHOLE:
            continue
        returned = isinstance(now[m], Part) and isinstance(now[m - 1], Share) and now[m - 1] != target[m - 1]
        if returned:
            now[m - 1] = now[m]
        now[m] = WHOLE
        yield (m - 1, m) if returned else (m,), tuple(now)
    for n, rows in enumerate(map(rows_of, now)):  # what lies in rows leaves them first, and comes into rows last
        if rows is not None and now[n] != target[n]:
            now[n] = rows.parted
            yield (n,), tuple(now)
    rowed = [n for n, state in enumerate(target) if isinstance(state, Rows) and now[n] != state]
    for n, state in enumerate(target):
        target[n] = state.parted if isinstance(state, Rows) and n in rowed else state
    coming = [m for m in hops if target[m] != now[m]]
    for m in coming:
        target[m - 1], target[m] = target[m], WHOLE
    for at, then in _moved(now, target):
        now = list(then)
        yield at, then
    for m in coming:
        now[m - 1], now[m] = after[m - 1], after[m]
        yield (m - 1, m), tuple(now)
    for n in rowed:
        now[n] = after[n]
        yield (n,), tuple(now)


def _moved(before: Sequence[State], after: Sequence[State]) -> Iterator[tuple[tuple[int, ...], States]]:
    """The axes of each move from the states `before` to `after`, where nothing goes round, and the states after it.
    What makes a rank's part comes first, for less is sent then; a slot is cut on one axis at a time. Shares that are
    folded the same way on several axes are folded at once.
    """
    now = list(before)
    left = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    while left:
        free = [n for n in left if not any(clash(after[n], one) for m, one in enumerate(now) if m != n)
                and isinstance(after[n], Part)]
        whole = [n for n in left if not isinstance(after[n], Part)]
        first = (free or whole or left)[0]
        if not free and not whole:  # two axes that change their parts with each other
            now[first] = WHOLE
            yield (first,), tuple(now)
            continue
        at: tuple[int, ...] = (first,)
        if isinstance(now[first], Share) and after[first] == WHOLE:
            at = tuple(n for n in whole if now[n] == now[first])
        for n in at:
            now[n] = after[n]
            left.remove(n)
        yield at, tuple(now)


def clash(one: State, other: State) -> bool:
    """Whether two states cut the same: a slot is cut on one axis, or of a composite each component on one."""
    return isinstance(one, Part) and isinstance(other, Part) and one.slot == other.slot and (
        one.component == other.component or -1 in (one.component, other.component))


def ranks_of(mesh: Sequence[Axis], axes: Sequence[int]) -> int:
    """How many ranks some axes have together."""
    return prod(mesh[n].ranks for n in axes)
