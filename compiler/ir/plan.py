"""Plan: how a program is cut. Data only; narrower than terms: assigned once, axes by name, folds have become steps.

Module  inputs, outputs, buffers, steps
Shell   what a class around the module's function holds: how its weights begin, which scalars speak of chance
Step    Contract | Kernel | Concat | Runs | Call | Pick | Grouped | Segment | Choose | Repeat | Each
Kernel  axes, lets, stores: a tile of every grid axis at a time, the other axes whole
Let     one value: its axes, its kind, and the one operation that makes it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.terms import Position, Tensor, Term

Role = Literal["grid", "stream", "whole"]
Kind = Literal["real", "exact", "integer", "truth", "scalar"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stored tensor; `axes` are its slots' letters. `exact` ones, of sizes alone or running sums, are kept in float64, `wide`
    ones in float32 at least."""

    name: str
    axes: tuple[str, ...]
    sets: tuple[IndexSet, ...]
    kind: Kind | Literal["wide"]
    role: Literal["input", "weight", "cache", "place", "local", "output", "derived"]


# Subscripts of a load: an axis, the parts of a composite, a part of a direct sum, or a computed whole number.


@dataclass(frozen=True, slots=True)
class Along:
    axis: str


@dataclass(frozen=True, slots=True)
class Packed:
    parts: tuple[Subscript, ...]
    sets: tuple[IndexSet, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """A part of a direct sum: `extent` elements after `before`."""

    item: Subscript
    before: Extent
    extent: Extent


@dataclass(frozen=True, slots=True)
class Computed:
    """A whole-number value, in the values of the slot's set; `safe` where it provably stays in range."""

    value: str
    set: IndexSet
    safe: bool


Subscript = Along | Packed | Within | Computed


# Operations of a let. Arguments are names of lets.


@dataclass(frozen=True, slots=True)
class Load:
    buffer: str
    subs: tuple[Subscript, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The numbers at which an axis stands."""

    axis: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number made of constants and extents."""

    term: Term


@dataclass(frozen=True, slots=True)
class Map:
    """A primitive, point by point; `floordiv` and `ceildiv` are the exact quotients of whole numbers."""

    op: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """The product of the arguments summed over axes. `loose`: rounding it to the type of the data does no harm."""

    args: tuple[str, ...]
    over: tuple[str, ...]
    loose: bool = False


def end(index: Index, which: Literal["first", "last"]) -> Position:
    """Where the tile of an axis begins or ends; no letter of a source has a blank in it."""
    return Position(Index(f"{which} {index.name}", index.set))


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of an axis, for one tile: low ≤ position ≤ high for every bound, where each of `when` is ≥ 0.

    The terms are whole numbers made of the tile's ends; a fold in them runs over rows of the tile, over an axis that
    is whole, or over all positions of the axis itself: the first (last) one at which a tensor is so great (so small).
    """

    low: tuple[Term, ...] = ()
    high: tuple[Term, ...] = ()
    when: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """`full`: every row surely has a point."""

    fold: str
    arg: str
    over: tuple[str, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where the condition holds, else a number."""

    condition: str
    then: str
    otherwise: float
    cut: tuple[Span, ...] | None = None  # a tile that meets none of these is in the condition as a whole; None if that is unknown


@dataclass(frozen=True, slots=True)
class Scan:
    """For each element n of `axis` the fold of the elements of `over` up to n + shift, counted from 0; `back`: from it on."""

    fold: str
    arg: str
    over: str
    axis: str
    shift: Extent
    back: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """For each element of `axis` the sum of the argument at the points of `over` whose number, counted from 0, names it.

    A number that names none counts for nothing.
    """

    arg: str
    number: str
    axis: str
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Before:
    """What a carried let was when this tile began."""

    of: str


Op = Load | Place | Scalar | Map | Dot | Reduce | Select | Scan | Tally | Before


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
    name: str
    axes: tuple[str, ...]
    kind: Kind
    op: Op
    text: str = ""  # the equation it completes, as the language writes it
    carry: Carry | None = None


def arguments(op: Op) -> tuple[str, ...]:
    """The lets of the same tile that an operation reads."""
    match op:
        case Load(_, subs):
            return tuple(v for s in subs for v in computed(s))
        case Place() | Scalar() | Before():
            return ()
        case Map(_, args) | Dot(args):
            return args
        case Reduce(_, arg) | Scan(_, arg):
            return (arg,)
        case Select(condition, then):
            return (condition, then)
        case Tally(arg, number):
            return (arg, number)
    assert_never(op)


def computed(sub: Subscript) -> tuple[str, ...]:
    """The lets that a subscript reads."""
    match sub:
        case Along():
            return ()
        case Packed(parts):
            return tuple(v for p in parts for v in computed(p))
        case Within(item):
            return computed(item)
        case Computed(value):
            return (value,)
    assert_never(sub)


@dataclass(frozen=True, slots=True)
class Bound:
    """The reach of an axis in a tile of rows: nothing lies outside the spans. A tile of the axis that meets none of the
    spans `within` is empty too.

    `resumes`: it goes on where the reach of the tile before ended, `back` where the tiles go from the last to the first.
    """

    spans: tuple[Span, ...]
    within: tuple[Span, ...] | None = None
    resumes: Literal["", "on", "back"] = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a kernel. A grid axis is cut in tiles, of `length` if it says so; `bound` narrows another axis for one of them."""

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
    """Work and traffic as formulas in the sizes: multiply-adds count two, bytes are those read and written once."""

    flops: Extent
    read: Extent
    written: Extent
    held: Extent

    def put(self, sizes: Mapping[str, Extent]) -> Cost:
        """The formulas with sizes that only the emitted module knows in terms of the others."""
        return Cost(*(x.put(sizes) for x in (self.flops, self.read, self.written, self.held)))


@dataclass(frozen=True, slots=True)
class Contract:
    """A plain contraction of stored tensors, in pairs: each pair makes a temporary or the result.

    `views` say for each operand where its axes lie in the slots of its buffer: a slot may be split, or be read in part.
    """

    out: str
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    axes: tuple[str, ...]
    path: tuple[tuple[int, ...], ...]
    text: str
    cost: Cost
    views: tuple[tuple[Subscript, ...], ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    axes: tuple[Axis, ...]
    lets: tuple[Let, ...]
    stores: tuple[Store, ...]
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost
    largest: tuple[str, ...] = ()  # the axes of the value that decides how long a tile may be

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    @property
    def stream(self) -> Axis | None:
        return next((a for a in self.axes if a.role == "stream"), None)

    @property
    def grid(self) -> Axis | None:
        return next((a for a in self.axes if a.role == "grid"), None)

    @property
    def merged(self) -> tuple[Store, ...]:
        """Results of which each tile has a share."""
        return tuple(s for s in self.stores if s.merge)

    @property
    def resumed(self) -> Axis | None:
        """The axis that tile after tile goes through once: the tiles must come in order, for values pass from one to the next."""
        return next((a for a in self.axes if a.bound is not None and a.bound.resumes), None)


@dataclass(frozen=True, slots=True)
class Concat:
    """A direct sum: the parts, each a stored tensor, side by side along one axis of the result."""

    out: str
    parts: tuple[str, ...]
    axis: int
    text: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class Runs:
    """A copy along an axis whose elements are shared by runs: a view where `onto` divides `of`, else what the kernel makes.

    `count` is the size by which later steps know the number of runs; `order` are the view's axes as those of the operand.
    """

    kernel: Kernel
    operand: str
    order: tuple[int, ...]
    onto: Extent
    of: Extent
    count: str

    @property
    def out(self) -> str:
        return self.kernel.name

    @property
    def text(self) -> str:
        return self.kernel.texts[0]

    @property
    def cost(self) -> Cost:
        """Of the view: nothing is moved."""
        return Cost(number(0), number(0), number(0), number(0))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a library where `where` holds, steps elsewhere: a kernel, before it what it alone reads. Operands are
    (parameter, buffer, order of its axes), results (buffer, the axes of the buffer as those of the result); all have the
    `batch` in front, as one axis if it is `flat`. `sizes` are those that `where` speaks of, `scales` are numbers by which
    results are to be multiplied. What `repeats` has is (parameter, batch, number of runs): an element for each run. `pieces`:
    what is kept of the past may come piece after piece.
    """

    steps: tuple[Contract | Kernel, ...]
    name: str
    call: str
    where: str
    operands: tuple[tuple[str, str, tuple[int, ...]], ...]
    batch: tuple[Extent, ...]
    results: tuple[tuple[str, tuple[int, ...]], ...]
    sizes: tuple[tuple[str, Extent], ...] = ()
    scales: tuple[tuple[str, Term], ...] = ()
    repeats: tuple[tuple[str, int, str], ...] = ()
    flat: bool = False
    pieces: bool = False

    @property
    def kernel(self) -> Kernel:
        last = self.steps[-1]
        assert isinstance(last, Kernel)
        return last

    @property
    def cost(self) -> Cost:
        """Of the steps."""
        costs = [step.cost for step in self.steps]
        flops, read, written = (sum((getattr(c, x) for c in costs), number(0)) for x in ("flops", "read", "written"))
        return Cost(flops, read, written, self.kernel.cost.held)


@dataclass(frozen=True, slots=True)
class Pick:
    """Where the `count` largest along the last axis of `operand` stand, its axes in `order`; they are axis `at` of the result."""

    out: str
    operand: str
    order: tuple[int, ...]
    at: int
    count: Extent
    set: IndexSet
    text: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class Grouped:
    """A contraction whose rows name each one element of the axis "" of `matrix`: a product for each element, over its rows.

    `names` has the elements, for the axes `rows`; `count` is how many of `set` a row of tokens names, if that is known.
    """

    out: str
    axes: tuple[str, ...]
    names: str
    rows: tuple[str, ...]
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    matrix: tuple[str, tuple[str, ...]]
    set: IndexSet
    count: Extent | None
    text: str
    cost: Cost

    @property
    def instead(self) -> Extent | None:
        """The operations of the same for every element."""
        return None if self.count is None else (self.cost.flops * self.set.extent).over(self.count)


@dataclass(frozen=True, slots=True)
class Segment:
    """Sums over the rows that name an element, all rows of one element together: of one operand, of a product of two, or of 1.

    A name is (whole numbers, their axes, the axis of the result whose element they name); `rows` are all their axes, those
    that stand in the result first.
    """

    out: str
    axes: tuple[str, ...]
    names: tuple[tuple[str, tuple[str, ...], str], ...]
    rows: tuple[str, ...]
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    text: str
    cost: Cost


Leaf = Contract | Kernel | Concat | Runs | Call | Pick | Grouped | Segment


def makes(step: Leaf) -> frozenset[str]:
    """The buffers that a step writes."""
    match step:
        case Kernel():
            return frozenset(s.buffer for s in step.stores)
        case Call(steps):
            return frozenset[str]().union(*map(makes, steps))
    return frozenset({step.out})


def takes(step: Leaf) -> frozenset[str]:
    """The buffers whose elements a step reads."""
    match step:
        case Contract(_, operands):
            return frozenset(name for name, _ in operands)
        case Concat(_, parts):
            return frozenset(parts)
        case Runs(_, operand) | Pick(_, operand):
            return frozenset({operand})
        case Grouped():
            return frozenset({step.names, step.matrix[0], *(name for name, _ in step.operands)})
        case Segment(_, _, names, _, operands):
            return frozenset({*(ids for ids, _, _ in names), *(name for name, _ in operands)})
        case Call(steps):
            inner = frozenset[str]().union(*map(takes, steps)) - makes(step)
            return inner | {buffer for _, buffer, _ in step.operands}
        case Kernel():
            return frozenset(let.op.buffer for let in step.lets if isinstance(let.op, Load))


@dataclass(frozen=True, slots=True)
class Option:
    """One way to do a few steps, and for each of them what it makes, its operations and its bytes."""

    label: str
    prices: tuple[tuple[str, Extent, Extent], ...]
    steps: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """The call takes the option whose price at its sizes is lowest: Σ max(operations, balance · bytes)."""

    balance: int
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body once for each value of the index, in order: a function of its own that is called in a loop.

    `given` are (input of the body, buffer, the axis of which each round takes its own place); `counter` is the input that is the
    value itself, or empty. A state is (buffer, buffer of its first value, what the body makes the next); `sizes` are handed on.
    """

    index: Index
    body: Module
    given: tuple[tuple[str, str, int | None], ...]
    counter: str
    states: tuple[tuple[str, str, str], ...]
    sizes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Each:
    """The body once for each request, on the positions that are its own: a function of its own that is called in a loop.

    `given` are (input of the body, buffer, how each request has it), `made` (buffer, output of the body, how): its part along an
    axis, in the order of requests; one of its own, of which there is a list; or None, the same for all. `own` says for sizes of
    the body which of a request's they are, `sizes` are handed on.
    """

    body: Module
    given: tuple[tuple[str, str, Share], ...]
    made: tuple[tuple[str, str, Share], ...]
    own: tuple[tuple[str, Literal["new", "past", "dropped"]], ...]
    sizes: tuple[tuple[str, str], ...]


Share = int | Literal["own"] | None
Step = Leaf | Choose | Repeat | Each


def leaves(steps: Iterable[Step]) -> Iterator[Leaf]:
    """The steps, and those of every option; what rounds do and what is done for each request is not among them."""
    for step in steps:
        match step:
            case Choose():
                yield from (s for o in step.options for s in o.steps)
            case Repeat() | Each():
                pass
            case _:
                yield step


@dataclass(frozen=True, slots=True)
class Lengths:
    """The input that holds how long the pieces of an axis are, what that axis is long, and the buffers that follow from it.

    For each element of the axis its piece, in numbers from `first`, and its offset, the sum of the lengths before; for each
    piece its start, which is the same. A name is empty where nothing reads it.
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
    past: str = ""  # of a step of a generation: the number of positions that the cache has
    new: str = ""  # and of those that it adds
    dropped: str = ""  # and of those before, which the cache has no longer
    back: tuple[Extent, ...] = ()  # so many positions, the largest of these, are all that a step reads of the past
    page: int = 0  # and so many stand in a page of a cache, where the text says it

    @property
    def given(self) -> tuple[Tensor, ...]:
        """The inputs that a caller gives."""
        return tuple(t for t in self.inputs if t.role not in ("cache", "place"))


@dataclass(frozen=True, slots=True)
class Weight:
    """How a weight begins: ones where it scales, zeros where it is added, else normal; `over` is how many products a sum takes."""

    key: str
    start: Literal["ones", "zeros", "normal"]
    over: Extent


@dataclass(frozen=True, slots=True)
class Shell:
    """A class around the function. `rates` are scalars that chance is compared with, `seeds` those that it is made of."""

    weights: tuple[Weight, ...]
    rates: frozenset[str]
    seeds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Gradient:
    """A module in two halves. `forward` gives the outputs, and after them what is saved; `backward` takes inputs of `forward`,
    what was saved, and a cotangent for each output of numbers, and gives the gradients.

    `saved` are (output of `forward`, input of `backward`), `cotangents` (output, input of `backward`), `gradients` (input of
    `forward`, output of `backward`), all by their keys; inputs that both halves have, have one key in both. `plain` is `forward`
    with nothing saved, where that is faster: it has the same inputs.
    """

    forward: Module
    backward: Module
    saved: tuple[tuple[str, str], ...]
    cotangents: tuple[tuple[str, str], ...]
    gradients: tuple[tuple[str, str], ...]
    plain: Module | None = None

    @property
    def name(self) -> str:
        return self.forward.name

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The outputs that a caller sees: all up to the last that is not merely saved."""
        merely = {key for key, _ in self.saved} - {key for key, _ in self.cotangents}
        last = max(n for n, (_, key) in enumerate(self.forward.outputs) if key not in merely)
        return self.forward.outputs[: last + 1]


@dataclass(frozen=True, slots=True)
class Turns:
    """Rounds in order where one round has a gradient: `Repeat` but for its body. Inputs of `body.forward` are given, and those
    outputs of it that are not merely saved are the next values of the states.
    """

    index: Index
    body: Gradient
    given: tuple[tuple[str, str, int | None], ...]
    counter: str
    states: tuple[tuple[str, str, str], ...]
    sizes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A program with rounds, in pieces that have gradients. `whole` has what the caller gives and gets, and no steps: the pieces
    read inputs and buffers of it by their keys, and what one of them gives that is not merely saved is a buffer of it.
    """

    whole: Module
    pieces: tuple[Gradient | Turns, ...]

    @property
    def name(self) -> str:
        return self.whole.name
