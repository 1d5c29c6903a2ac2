"""Operations: the steps of a plan that hold no modules, each with what it reads, what it writes and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from einc.ir.indices import Extent, IndexSet
from einc.ir.plan.kernels import FREE, Cost, Kernel
from einc.ir.plan.lets import Subscript
from einc.ir.plan.sent import Moved, RankGroup, Routes
from einc.ir.terms import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What every step but a kernel says in the same words. Its own fields speak of
    operands and results by their places.

    `reads` are buffers whose elements it reads itself, `writes` those that it writes itself; a buffer
    may stand in `reads` twice. `bodies` are lists of steps within it: the ways of a choice, or what is
    done where a call or a view cannot be made. `does` is the word for the kind of step in tables.
    """

    does: ClassVar[str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    texts: tuple[str, ...] = ()
    cost: Cost = FREE
    bodies: tuple[tuple[Leaf, ...], ...] = ()

    @property
    def out(self) -> str:
        """The buffer that the first result is written into."""
        return self.writes[0]

    @property
    def text(self) -> str:
        """The equation of the first result, as text for people."""
        return self.texts[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract(Operation):
    """A plain contraction of stored tensors, in pairs: each pair makes a temporary or the result.

    `letters` are the axes of each operand. `views` say for each operand where its axes lie in the slots of its buffer:
    a slot may be split, or be read in part. `slots` says of how many of the `axes` each slot of the result is made.
    """

    does: ClassVar[str] = "contract"
    axes: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    path: tuple[tuple[int, ...], ...]
    views: tuple[tuple[Subscript, ...], ...]
    slots: tuple[int, ...]

    @property
    def operands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each buffer that is read, with the axes that its dimensions stand for."""
        return tuple(zip(self.reads, self.letters, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class InSlices(Operation):
    """Contractions one after the other, done for one slice of an axis at a time, so that what they make on the way, and
    what they widen, is never there as a whole.

    They stand in its one body; `along` is the letter of the axis in each of them, `extent` its length. Where the last
    result has no such axis, what the slices make is added up in the wide type; else it stands side by side. `each` are
    the numbers of the largest values that one place of the axis brings.
    """

    does: ClassVar[str] = "contract"
    along: tuple[str, ...]
    extent: Extent
    each: tuple[Extent, ...]

    @property
    def contractions(self) -> tuple[Contract, ...]:
        """The contractions that are done slice by slice, in their order."""
        return tuple(step for step in self.bodies[0] if isinstance(step, Contract))

    @property
    def adds(self) -> bool:
        """Whether the slices of the result are added up."""
        return self.along[-1] not in self.contractions[-1].axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Repack(Operation):
    """The numbers of a buffer in which several lie in a byte, each in a byte of its own, or the other way round: the
    elements of both buffers say which. `count` is the number of them along the last axis.
    """

    does: ClassVar[str] = "repack"
    count: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Operation):
    """A direct sum: the parts, each a stored tensor, side by side along one axis of the result."""

    does: ClassVar[str] = "concat"
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Operation):
    """Adds new positions to a cache along one axis: reads the cache and what is new, and writes all positions."""

    does: ClassVar[str] = "concat"
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastView(Operation):
    """A copy along an axis whose elements are shared by groups: a view where `onto`
    divides `of`, else what its kernel makes.

    `count` is the size by which later steps know the number of groups; `order` are the
    view's axes as those of the operand.
    """

    does: ClassVar[str] = "view"
    order: tuple[int, ...]
    onto: Extent
    of: Extent
    count: str

    @property
    def operand(self) -> str:
        """The buffer whose elements are copied."""
        return self.reads[0]

    @property
    def kernel(self) -> Kernel:
        """The kernel that makes the copy where it is no view."""
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

    does: ClassVar[str] = "call"
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

    does: ClassVar[str] = "pick"
    order: tuple[int, ...]
    at: int
    count: Extent
    set: IndexSet

    @property
    def operand(self) -> str:
        """The buffer whose largest elements are found."""
        return self.reads[0]


@dataclass(frozen=True, slots=True)
class Vectors:
    """How many writes of a recurrence are known before its state is, and how many ask the state; and for each vector
    that the state is multiplied with whether that is after the writes of its position.
    """

    known: int
    unknown: int
    after: tuple[bool, ...]

    @property
    def operands(self) -> int:
        """The number of buffers that the vectors of a recurrence are given by."""
        return 2 * self.known + 3 * self.unknown + len(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Operation):
    """A state that each position scales and adds to, S_t = g_t S_{t-1} + Σ k v + Σ u (c + w · S_{t-1}), in tiles of
    `tile` positions.

    It reads the gate g, the state before the first position, and `vectors`: k and v of the `known` writes, u, w and c
    of the `unknown` ones, and those that are multiplied with S_t, where their flag in `after` is set, or with S_{t-1};
    `letters` are the axes of each. It writes these products for every position, and the last state; `made` are the
    axes. `groups` are the axes of S of which nothing is summed and that gates or vectors have, the positions, those
    that are summed, and the others; `extents` has all. Where it is `ragged` the positions of several requests stand one
    after the other, each of which begins with the first state, and the last of `reads` holds their numbers.
    """

    does: ClassVar[str] = "recur"
    letters: tuple[tuple[str, ...], ...]
    made: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    extents: tuple[tuple[str, Extent], ...]
    vectors: Vectors
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

    does: ClassVar[str] = "recur"
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

    does: ClassVar[str] = "contract"
    axes: tuple[str, ...]
    rows: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    set: IndexSet
    count: Extent | None

    @property
    def names(self) -> str:
        """The buffer of the numbers that name an element for each row."""
        return self.reads[0]

    @property
    def operands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each operand with its axes, the matrix apart."""
        return tuple(zip(self.reads[1:-1], self.letters[:-1], strict=True))

    @property
    def matrix(self) -> tuple[str, tuple[str, ...]]:
        """The buffer of the matrices, with the axes that its dimensions stand for."""
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

    does: ClassVar[str] = "sum"
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
        """Each operand with its axes, without the buffers of names that are read before them."""
        return tuple(zip(self.reads[len(self.named):], self.letters, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Operation):
    """Tensors that the ranks of a mesh have in one state, in another one: one collective, in which all of them are sent
    as one message, or a `slice`, which is none. `moved` says of each how it lies, `fold` how shares are put together.
    What goes to rows, and what comes back from them and is added up, has `routes`; what says these is read last, and
    how many rows come from each rank, which is what a move of `counts` finds out.
    """

    does: ClassVar[str] = "move"
    kind: Literal["slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter", "counts", "to_rows",
                  "from_rows"]
    group: RankGroup
    moved: tuple[Moved, ...]
    fold: str = "sum"
    routes: Routes | None = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Each tensor as it is before, and after."""
        return tuple(zip(self.reads, self.writes, strict=False))

    @property
    def beside(self) -> tuple[str, ...]:
        """What says where rows go."""
        return self.reads[len(self.writes):]


Leaf = (Kernel | Contract | InSlices | Repack | Concat | Append | BroadcastView | Call | TopK | GroupedMatmul
        | SegmentSum | Recurrence | StateScan | Move)


def last_kernel(steps: tuple[Leaf, ...]) -> Kernel:
    """The last of some steps, which has to be a kernel."""
    last = steps[-1]
    assert isinstance(last, Kernel)
    return last
