"""Plan: how a program is cut. Data only; narrower than terms: assigned once, axes by name, folds have become steps.

Module  inputs, outputs, buffers, steps
ModuleClass  what a class around the module's function holds: how its weights begin, which scalars speak of chance
Step    Kernel, or an Operation: what it reads, what it writes, its equations, its cost, and steps within it
Kernel  axes, lets, stores: a tile of every grid axis at a time, the other axes whole
Let     one value: its axes, its kind, the one operation that makes it, and the values that this reads
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never, cast

from einc.ir.elements import Element, Kind
from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.programs import Tensor
from einc.ir.terms import Position, Term, reads

Role = Literal["grid", "stream", "whole"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stored tensor; `axes` are its slots' letters."""

    name: str
    axes: tuple[str, ...]
    sets: tuple[IndexSet, ...]
    element: Element
    role: Literal["input", "weight", "cache", "place", "local", "output", "derived"]


# Subscripts of a load: an axis, the parts of a composite, a part of a direct sum, or a computed whole number.


@dataclass(frozen=True, slots=True)
class AxisRef:
    axis: str


@dataclass(frozen=True, slots=True)
class Flatten:
    parts: tuple[Subscript, ...]
    sets: tuple[IndexSet, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a direct sum: `extent` elements after `before`."""

    item: Subscript
    before: Extent
    extent: Extent


@dataclass(frozen=True, slots=True)
class Gather:
    """The argument of the load at place `arg`, a whole number of the slot's set; `safe`
    where it provably stays in range.

    With `told`, which is the read as the language writes it, a value out of range is an error;
    else it stands at a place that nobody reads.
    """

    arg: int
    set: IndexSet
    safe: bool
    told: str = ""


Subscript = AxisRef | Flatten | Slice | Gather


def axes_of(sub: Subscript) -> tuple[str, ...]:
    """The axes along which a subscript goes, in their order; those of a computed number are not among them."""
    match sub:
        case AxisRef(axis):
            return (axis,)
        case Flatten(parts):
            return tuple(a for p in parts for a in axes_of(p))
        case Slice(item):
            return axes_of(item)
        case Gather():
            return ()
    assert_never(sub)


# Operations of a let. None names a value: the arguments are the let's, in the order that the docstring says.


@dataclass(frozen=True, slots=True)
class Load:
    """Elements of a buffer; the arguments are the whole numbers that its subscripts speak of by their places."""

    buffer: str
    subs: tuple[Subscript, ...]


@dataclass(frozen=True, slots=True)
class Iota:
    """The numbers at which an axis stands."""

    axis: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number made of constants and extents."""

    term: Term


@dataclass(frozen=True, slots=True)
class Map:
    """A primitive of the arguments, point by point; `floordiv` and `ceildiv` are the
    exact quotients of whole numbers."""

    op: str


@dataclass(frozen=True, slots=True)
class Dot:
    """The product of the arguments summed over axes. `loose`: rounding it to the type of the data does no harm."""

    over: tuple[str, ...]
    may_round: bool = False


def end(index: Index, which: Literal["first", "last"]) -> Position:
    """Where the tile of an axis begins or ends; no letter of a source has a blank in it."""
    return Position(Index(f"{which} {index.name}", index.set))


@dataclass(frozen=True, slots=True)
class Interval:
    """Positions of an axis, for one tile: low ≤ position ≤ high for every bound, where each of `when` is ≥ 0.

    The terms are whole numbers made of the tile's ends; a fold in them runs over rows of the tile, over an axis that
    is whole, or over all positions of the axis itself: the first (last) one at which a tensor is so great (so small).
    """

    low: tuple[Term, ...] = ()
    high: tuple[Term, ...] = ()
    when: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """The fold of the argument over axes. `full`: every row surely has a point."""

    fold: str
    over: tuple[str, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class Select:
    """Of a condition and a value the value where the condition holds, else a number."""

    otherwise: float
    # a tile that meets none of these is in the condition as a whole; None if unknown
    cut: tuple[Interval, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """For each element n of `axis` the fold of the argument's elements along `over` up to n + shift, counted from 0.

    `back`: from that element on.
    """

    fold: str
    over: str
    axis: str
    shift: Extent
    back: bool


@dataclass(frozen=True, slots=True)
class ScatterAdd:
    """Of a value and a number: for each element of `axis` the sum of the value at the
    points of `over` whose number names it.

    Numbers count from 0; one that names no element counts for nothing.
    """

    axis: str
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreviousCarry:
    """What the argument, a carried let that may stand later, was when this tile began."""


Op = Load | Iota | Scalar | Map | Dot | Reduce | Select | Scan | ScatterAdd | PreviousCarry


@dataclass(frozen=True, slots=True)
class Carry:
    """A let that is one tile's share of a fold: it is merged into what the tiles before gave.

    With a `reference` (another carried let, a running maximum) the old value is first scaled by base^(r − r′).
    `full`: the first tile visited surely has a point in every row, so the reference is never −∞ after it.
    """

    fold: str
    reference: str | None
    base2: bool
    full: bool


@dataclass(frozen=True, slots=True)
class Let:
    """One value of a tile. `text` is the equation that it completes, as the language writes it."""

    name: str
    axes: tuple[str, ...]
    kind: Kind
    op: Op
    args: tuple[str, ...] = ()
    text: str = ""
    carry: Carry | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The lets of the same tile that it reads: its arguments, but for one that the tile before made."""
        return () if isinstance(self.op, PreviousCarry) else self.args

    @property
    def over(self) -> tuple[str, ...]:
        """The axes that it folds away."""
        match self.op:
            case Dot(axes) | Reduce(_, axes) | ScatterAdd(_, axes):
                return axes
            case Scan(_, axis):
                return (axis,)
        return ()

    def with_args(self, names: Callable[[str], str]) -> Let:
        """The let with other names for its arguments."""
        return replace(self, args=tuple(map(names, self.args)))


@dataclass(frozen=True, slots=True)
class Bound:
    """The reach of an axis in a tile of rows: nothing lies outside the spans. A tile of the axis that meets none of the
    spans `within` is empty too.

    `resumes`: it goes on where the reach of the tile before ended, `back` where the tiles
    go from the last to the first.
    """

    spans: tuple[Interval, ...]
    within: tuple[Interval, ...] | None = None
    resumes: Literal["", "on", "back"] = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a kernel. A grid axis is cut in tiles, of `length` if it says so; `bound`
    narrows another axis for one of them."""

    name: str
    set: IndexSet
    role: Role
    bound: Bound | None = None
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """A value written to a buffer; `axes` are those of the value in the order of the buffer's slots.

    With a `merge` (a fold) it is the share of one tile: the buffer holds the fold of all shares.
    """

    buffer: str
    value: str
    axes: tuple[tuple[str, ...], ...]
    merge: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Work and traffic as formulas in the sizes: multiply-adds count two, bytes are those read and written once.

    `held` are the bytes of a tile's values that are alive at one time, in the sizes and the lengths of the tile, which
    are sizes of the names that `tiles.tile_name` gives; 0 of a step that has no tiles.
    """

    flops: Extent
    read: Extent
    written: Extent
    held: Extent

    def put(self, sizes: Mapping[str, Extent]) -> Cost:
        """The formulas with sizes that only the emitted module knows in terms of the others."""
        return Cost(*(x.put(sizes) for x in (self.flops, self.read, self.written, self.held)))


FREE = Cost(number(0), number(0), number(0), number(0))


def summed(costs: Iterable[Cost], times: Extent | None = None) -> Cost:
    """The cost of steps one after the other, each done so many times; what is held is what the last of them holds."""
    flops = read = written = held = number(0)
    for cost in costs:
        flops, read, written, held = flops + cost.flops, read + cost.read, written + cost.written, cost.held
    if times is not None:
        flops, read, written = flops * times, read * times, written * times
    return Cost(flops, read, written, held)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A step that the plan writes itself: tiles of the grid axis, in each of them lets,
    and stores of what others need."""

    name: str
    axes: tuple[Axis, ...]
    lets: tuple[Let, ...]
    stores: tuple[Store, ...]
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost
    largest: tuple[str, ...] = ()  # the axes of the value that decides how long a tile may be

    @property
    def reads(self) -> tuple[str, ...]:
        """The buffers whose elements its lets load, in their order; those that bounds of
        tiles search are not among them."""
        return tuple(dict.fromkeys(let.op.buffer for let in self.lets if isinstance(let.op, Load)))

    @property
    def writes(self) -> tuple[str, ...]:
        """The buffers that it stores, in their order."""
        return tuple(dict.fromkeys(store.buffer for store in self.stores))

    @property
    def bodies(self) -> tuple[tuple[Leaf, ...], ...]:
        """None: a kernel holds no steps."""
        return ()

    @property
    def searched(self) -> frozenset[str]:
        """The buffers in which the bounds of tiles, and the ranges of conditions, search for positions."""
        spans = [s for axis in self.axes if axis.bound is not None
                 for s in (*axis.bound.spans, *(axis.bound.within or ()))]
        spans += [s for let in self.lets if isinstance(let.op, Select) for s in let.op.cut or ()]
        return frozenset(r.tensor for s in spans for term in (*s.low, *s.high, *s.when) for r in reads(term))

    def axis(self, name: str) -> Axis:
        """Returns the axis of this name; raises StopIteration where there is none."""
        return next(a for a in self.axes if a.name == name)

    @property
    def stream(self) -> Axis | None:
        """The axis that the kernel streams over in a loop; None where it has none."""
        return next((a for a in self.axes if a.role == "stream"), None)

    @property
    def grid(self) -> Axis | None:
        """The axis whose tiles are the programs of the grid; None where it has none."""
        return next((a for a in self.axes if a.role == "grid"), None)

    @property
    def merged(self) -> tuple[Store, ...]:
        """Results of which each tile has a share."""
        return tuple(s for s in self.stores if s.merge)

    @property
    def resumed(self) -> Axis | None:
        """The axis that tile after tile goes through once: the tiles must come in order,
        for values pass from one to the next."""
        return next((a for a in self.axes if a.bound is not None and a.bound.resumes), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What every step but a kernel says in the same words. Its own fields speak of
    operands and results by their places.

    `reads` are buffers whose elements it reads itself, `writes` those that it writes itself; a buffer
    may stand in `reads` twice. `bodies` are lists of steps within it: the ways of a choice, or what is
    done where a call or a view cannot be made.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    texts: tuple[str, ...] = ()
    cost: Cost = FREE
    bodies: tuple[tuple[Leaf, ...], ...] = ()

    @property
    def out(self) -> str:
        """The buffer of its first result."""
        return self.writes[0]

    @property
    def text(self) -> str:
        """The equation of its first result."""
        return self.texts[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract(Operation):
    """A plain contraction of stored tensors, in pairs: each pair makes a temporary or the result.

    `letters` are the axes of each operand. `views` say for each operand where its axes lie in the slots of its buffer:
    a slot may be split, or be read in part.
    """

    axes: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    path: tuple[tuple[int, ...], ...]
    views: tuple[tuple[Subscript, ...], ...]

    @property
    def operands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each operand with its axes."""
        return tuple(zip(self.reads, self.letters, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Operation):
    """A direct sum: the parts, each a stored tensor, side by side along one axis of the result."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Operation):
    """Adds new positions to a cache along one axis: reads the cache and what is new, and writes all positions."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastView(Operation):
    """A copy along an axis whose elements are shared by groups: a view where `onto`
    divides `of`, else what its kernel makes.

    `count` is the size by which later steps know the number of groups; `order` are the
    view's axes as those of the operand.
    """

    order: tuple[int, ...]
    onto: Extent
    of: Extent
    count: str

    @property
    def operand(self) -> str:
        """The buffer that is copied."""
        return self.reads[0]

    @property
    def kernel(self) -> Kernel:
        """The kernel that copies."""
        return last_kernel(self.bodies[0])


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A function of a library as text: what it is called, the call, and where it can be made. With `flat` its operands
    have all batches as one axis; with `pieces` what is kept of the past may come piece after piece.
    """

    name: str
    call: str
    where: str
    flat: bool = False
    pieces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Operation):
    """A call of a library where its condition holds, the steps of its body elsewhere: a
    kernel, and before it what it alone reads.

    `operands` are for each of `reads` the parameter and the order of its axes; `results` are for each of `writes` its
    axes as those of the result; all have the `batch` in front. `sizes` are those that the condition speaks of,
    `scales` are numbers by which results, by their places, are to be multiplied. What `repeats` has is (parameter,
    batch, number of groups): an element for each.
    """

    library: LibraryCall
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    batch: tuple[Extent, ...]
    results: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[str, Extent], ...] = ()
    scales: tuple[tuple[int, Term], ...] = ()
    repeats: tuple[tuple[str, int, str], ...] = ()

    @property
    def steps(self) -> tuple[Leaf, ...]:
        """What is done where the call cannot be made."""
        return self.bodies[0]

    @property
    def given(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Each operand: its parameter, its buffer and the order of its axes."""
        return tuple((word, buffer, order) for (word, order), buffer in zip(self.operands, self.reads, strict=True))

    @property
    def kernel(self) -> Kernel:
        """The kernel that the call stands for."""
        return last_kernel(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Operation):
    """Where the `count` largest along the last axis of the operand stand, its axes in
    `order`; they are axis `at` of the result."""

    order: tuple[int, ...]
    at: int
    count: Extent
    set: IndexSet

    @property
    def operand(self) -> str:
        """The buffer whose largest elements are found."""
        return self.reads[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Operation):
    """A state that each position scales and adds to, S_t = g_t S_{t-1} + Σ k v + Σ u (c + w · S_{t-1}), in tiles of
    `tile` positions.

    It reads the gate g, the state before the first position, k and v of the `known` writes, u, w and c of the `unknown`
    ones, and vectors that are multiplied with S_t, where their flag in `after` is set, or with S_{t-1}; `letters` are
    the axes of each. It writes these products for every position, and the last state; `made` are the axes. `groups` are
    the axes of S of which nothing is summed and that gates or vectors have, the positions, those that are summed, and
    the others; `extents` has all. Where it is `ragged` the positions of several requests stand one after the other,
    each of which begins with the first state, and the last of `reads` holds their numbers.
    """

    letters: tuple[tuple[str, ...], ...]
    made: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    extents: tuple[tuple[str, Extent], ...]
    known: int
    unknown: int
    after: tuple[bool, ...]
    tile: int
    ragged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateScan(Operation):
    """A state whose elements go each their own way, S_t = g_t S_{t-1} + x_t, or, where it is the `largest`,
    S_t = max(g_t + S_{t-1}, x_t).

    It reads g, the state before the first position, and x; `letters` are the axes of each. It writes the states after
    each position, which stand along `axis`, and the last one; those before each position too, where they are asked for,
    along the first axis. `axes` are the positions and the axes of the state, and
    `extents` has all. Where it is `ragged` the positions of several requests stand one after the other, each of which
    begins with the first state, and the last of `reads` holds their numbers.
    """

    letters: tuple[tuple[str, ...], ...]
    axes: tuple[str, ...]
    axis: int
    largest: bool
    extents: tuple[tuple[str, Extent], ...]
    ragged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedMatmul(Operation):
    """A contraction whose rows name each one element of the axis "" of a matrix: a
    product for each element, over its rows.

    It reads the names of the elements, whose axes are `rows`, the operands, and last the matrix; `letters` are the axes
    of each operand and of the matrix. `count` is how many of `set` a row of tokens names, if that is known.
    """

    axes: tuple[str, ...]
    rows: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    set: IndexSet
    count: Extent | None

    @property
    def names(self) -> str:
        """The buffer of the elements' names."""
        return self.reads[0]

    @property
    def operands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each operand with its axes, the matrix apart."""
        return tuple(zip(self.reads[1:-1], self.letters[:-1], strict=True))

    @property
    def matrix(self) -> tuple[str, tuple[str, ...]]:
        """The matrix with its axes."""
        return self.reads[-1], self.letters[-1]

    @property
    def instead(self) -> Extent | None:
        """The operations of the same for every element."""
        return None if self.count is None else (self.cost.flops * self.set.extent).over(self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSum(Operation):
    """Sums over the rows that name an element, all rows of one element together: of one
    operand, of a product of two, or of 1.

    It reads whole numbers that name elements, for each of which `named` has the axes and the axis of the
    result whose element they name, and then the operands, whose axes are `letters`. `rows` are all axes of the
    names, those that stand in the result first.
    """

    axes: tuple[str, ...]
    named: tuple[tuple[tuple[str, ...], str], ...]
    rows: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """The buffers of names, each with its axes and the axis whose element it names."""
        return tuple((buffer, axes, axis) for buffer, (axes, axis) in zip(self.reads, self.named, strict=False))

    @property
    def operands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each operand with its axes."""
        return tuple(zip(self.reads[len(self.named):], self.letters, strict=True))


@dataclass(frozen=True, slots=True)
class Option:
    """One way to do a few steps: what it is called, and for each of its steps what that
    makes, its operations and its bytes."""

    label: str
    prices: tuple[tuple[str, Extent, Extent], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose(Operation):
    """The call takes the body whose price at its sizes is lowest: Σ max(operations,
    balance · bytes). Each body has an option."""

    balance: int
    options: tuple[Option, ...]

    @property
    def ways(self) -> tuple[tuple[Option, tuple[Leaf, ...]], ...]:
        """Each option with its steps."""
        return tuple(zip(self.options, self.bodies, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Operation):
    """The body once for each value of the index, in order: a function of its own that is called in a loop.

    It reads what the body is given, for each of which `given` has the input of the body and the axis of which each
    round takes its own place, and then the first value of each state. It writes the states; `following` are what the
    body makes their next values. After them it writes what each round makes a part of; `parts` are the outputs of the
    body that are these parts, each with the axis along which they lie one after the other. `counter` is the input that
    is the value itself, or empty; `sizes` are handed on.
    """

    index: Index
    body: Module
    given: tuple[tuple[str, int | None], ...]
    counter: str
    following: tuple[str, ...]
    parts: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> tuple[tuple[str, str, int | None], ...]:
        """Each input of the body, with its buffer and the axis of which each round takes its own place."""
        return tuple((key, buffer, axis) for (key, axis), buffer in zip(self.given, self.reads, strict=False))

    @property
    def states(self) -> tuple[tuple[str, str, str], ...]:
        """Each state: its buffer, the buffer of its first value, and what the body makes the next value."""
        return tuple(zip(self.writes[:len(self.following)], self.reads[len(self.given):], self.following, strict=True))

    @property
    def kept(self) -> tuple[tuple[str, str, int], ...]:
        """Each value of which a round makes a part: its buffer, the part, and the axis along which they lie."""
        return tuple((buffer, part, axis) for buffer, (part, axis) in zip(self.writes[len(self.following):], self.parts,
                                                                          strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PerRequest(Operation):
    """The body once for each request, on the positions that are its own: a function of
    its own that is called in a loop.

    `given` are for each of `reads` the input of the body and how each request has it, `made` for each of
    `writes` the output of the body and how: its part along an axis, in the order of requests; one of its
    own, of which there is a list; or None, the same for all. `own` says for sizes of the body which of a
    request's they are, `sizes` are handed on.
    """

    body: Module
    given: tuple[tuple[str, Share], ...]
    made: tuple[tuple[str, Share], ...]
    own: tuple[tuple[str, Literal["new", "past", "dropped"]], ...]
    sizes: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> tuple[tuple[str, str, Share], ...]:
        """Each input of the body, with its buffer and how each request has it."""
        return tuple((key, buffer, share) for (key, share), buffer in zip(self.given, self.reads, strict=True))

    @property
    def outputs(self) -> tuple[tuple[str, str, Share], ...]:
        """Each buffer that is written, with the output of the body and how each request has it."""
        return tuple((buffer, key, share) for (key, share), buffer in zip(self.made, self.writes, strict=True))


Share = int | Literal["own"] | None
Leaf = (Kernel | Contract | Concat | Append | BroadcastView | Call | TopK | GroupedMatmul | SegmentSum | Recurrence
        | StateScan)
Step = Leaf | Choose | Loop | PerRequest


def last_kernel(steps: tuple[Leaf, ...]) -> Kernel:
    """The last of some steps, which has to be a kernel."""
    last = steps[-1]
    assert isinstance(last, Kernel)
    return last


def within(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps and all that stand in their bodies. Modules that loops call are functions
    of their own and not among them."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from within(body)


def leaves(steps: Iterable[Step]) -> Iterator[Leaf]:
    """The steps, and in place of a choice those of every way; loops, and what is done for
    each request, are not among them."""
    for step in steps:
        match step:
            case Choose():
                yield from (s for body in step.bodies for s in body)
            case Loop() | PerRequest():
                pass
            case _:
                yield step


def makes(step: Step) -> frozenset[str]:
    """The buffers that a step writes, those of its bodies among them."""
    return frozenset(step.writes).union(*(makes(inner) for body in step.bodies for inner in body))


def takes(step: Step) -> frozenset[str]:
    """The buffers whose elements a step reads, or a step in one of its bodies, and which
    that body has not made itself."""
    inner = (takes_all(body) for body in step.bodies)
    return frozenset(step.reads).union(*inner)


def takes_all(steps: Iterable[Step]) -> frozenset[str]:
    """The buffers that some steps, done one after the other, find made."""
    known = tuple(steps)
    return frozenset[str]().union(*map(takes, known)) - frozenset[str]().union(*map(makes, known))


def replaced(step: Step, change: Callable[[Kernel], Kernel]) -> Step:
    """The step with every kernel in it changed, in its bodies too; a loop calls modules
    of its own, which stay as they are."""
    if isinstance(step, Kernel):
        return change(step)
    bodies = tuple(tuple(cast(Leaf, replaced(inner, change)) for inner in body) for body in step.bodies)
    return step if bodies == step.bodies else replace(step, bodies=bodies)


def renamed(step: Step, names: Callable[[str], str], kernel: Callable[[Kernel], Kernel]) -> Step:
    """The step with other names for buffers; `kernel` renames those that a kernel has in its lets and bounds."""
    if isinstance(step, Kernel):
        return kernel(step)
    bodies = tuple(tuple(cast(Leaf, renamed(inner, names, kernel)) for inner in body) for body in step.bodies)
    return replace(step, reads=tuple(map(names, step.reads)), writes=tuple(map(names, step.writes)), bodies=bodies)


@dataclass(frozen=True, slots=True)
class Lengths:
    """The input that holds how long the pieces of an axis are, what that axis is long,
    and the buffers that follow from it.

    For each element of the axis its piece, in numbers from `first`, and its offset, the sum of the lengths before; for
    each piece its start, which is the same. A name is empty where nothing reads it.
    """

    given: str
    pieces: Extent
    total: Extent
    first: int
    piece: str
    offset: str
    start: str

    def named(self, names: Mapping[str, str]) -> Lengths:
        """With other names for tensors."""
        piece, offset, start = (names.get(key, "") for key in (self.piece, self.offset, self.start))
        return replace(self, given=names[self.given], piece=piece, offset=offset, start=start)


@dataclass(frozen=True, slots=True)
class Generation:
    """What is said of a step that adds positions to those before.

    `past`, `new` and `dropped` name sizes: the number of positions that the cache has, of those that the step adds, and
    of those before, which the cache has no longer. So many positions, the largest of `back`, are all that a step reads
    of the past. So many, where the text says it and `page` is not 0, stand in a page of a cache. `states` are what the
    cache has of a state, and the buffer that takes its place once the step is done.
    """

    past: str
    new: str
    dropped: str = ""
    back: tuple[Extent, ...] = ()
    page: int = 0
    states: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A whole program. `sizes` are read from the inputs or given at the call; `fixed` are set at compile time."""

    name: str
    source: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[tuple[str, str], ...]
    buffers: dict[str, Buffer]
    steps: tuple[Step, ...]
    fixed: dict[str, int]
    sizes: frozenset[str]
    sets: tuple[IndexSet, ...]  # every set in use, so that extents can be checked to be whole
    keys: tuple[tuple[str, IndexSet], ...]  # integer inputs whose elements stand in a slot, and the slot's set
    lengths: tuple[Lengths, ...] = ()  # of axes that hold pieces of different lengths
    generation: Generation | None = None

    @property
    def past(self) -> str:
        """The size that is the number of positions in the cache, of a step of a
        generation; the empty text for any other module."""
        return "" if self.generation is None else self.generation.past

    @property
    def new(self) -> str:
        """The size that is the number of positions that a step of a generation adds."""
        return "" if self.generation is None else self.generation.new

    @property
    def dropped(self) -> str:
        """The size that is the number of positions before those of the cache, which it has no longer."""
        return "" if self.generation is None else self.generation.dropped

    @property
    def given(self) -> tuple[Tensor, ...]:
        """The inputs that a caller gives."""
        return tuple(t for t in self.inputs if t.role not in ("cache", "place"))

    @property
    def unpaged(self) -> bool:
        """Whether all that a step of a generation keeps are states, one for each text: they lie in no pages."""
        states = set() if self.generation is None else {key for key, _ in self.generation.states}
        return bool(states) and all(t.key in states for t in self.inputs if t.role == "cache")


@dataclass(frozen=True, slots=True)
class Weight:
    """How a weight begins: ones where it scales, zeros where it is added, else normal;
    `over` is how many products a sum takes."""

    key: str
    start: Literal["ones", "zeros", "normal"]
    over: Extent


@dataclass(frozen=True, slots=True)
class ModuleClass:
    """A class around the function. `rates` are scalars that chance is compared with,
    `seeds` those that it is made of."""

    weights: tuple[Weight, ...]
    rates: frozenset[str]
    seeds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Gradient:
    """A module in two halves. `forward` gives the outputs, and after them what is saved; `backward` takes inputs of
    `forward`, what was saved, and a cotangent for each output of numbers, and gives the gradients.

    `saved` are (output of `forward`, input of `backward`), `cotangents` (output, input of `backward`), `gradients`
    (input of `forward`, output of `backward`), all by their keys; inputs that both halves have, have one key in both.
    `plain` is `forward` with nothing saved, where that is faster: it has the same inputs.
    """

    forward: Module
    backward: Module
    saved: tuple[tuple[str, str], ...]
    cotangents: tuple[tuple[str, str], ...]
    gradients: tuple[tuple[str, str], ...]
    plain: Module | None = None

    @property
    def name(self) -> str:
        """The name of the forward module."""
        return self.forward.name

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The outputs that a caller sees: all up to the last that is not merely saved."""
        merely = {key for key, _ in self.saved} - {key for key, _ in self.cotangents}
        last = max(n for n, (_, key) in enumerate(self.forward.outputs) if key not in merely)
        return self.forward.outputs[: last + 1]


@dataclass(frozen=True, slots=True)
class GradientLoop:
    """Rounds in order where one round has a gradient: `Loop` but for its body. Inputs of `body.forward` are given, and
    those outputs of it that are not merely saved are the next values of the states and the parts of what is kept.
    """

    index: Index
    body: Gradient
    given: tuple[tuple[str, str, int | None], ...]
    counter: str
    states: tuple[tuple[str, str, str], ...]
    kept: tuple[tuple[str, str, int], ...]
    sizes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SegmentedModule:
    """A program with rounds, in pieces that have gradients. `whole` has what the caller gives and gets,
    and no steps: the pieces read inputs and buffers of it by their keys, and what one of them gives
    that is not merely saved is a buffer of it. Steps among the pieces are differentiated by torch.
    """

    whole: Module
    pieces: tuple[Gradient | GradientLoop | Recurrence | StateScan, ...]

    @property
    def name(self) -> str:
        """The name of the whole module."""
        return self.whole.name
