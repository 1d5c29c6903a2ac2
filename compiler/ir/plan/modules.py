"""Modules: inputs, outputs, buffers and steps, with the steps that call modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from einc.ir.elements import Element
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.plan.kernels import Cost
from einc.ir.plan.operations import Leaf, Operation
from einc.ir.plan.sent import RankGroup
from einc.ir.programs import Tensor
from einc.ir.terms import Term


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stored tensor; `axes` are its slots' letters."""

    name: str
    axes: tuple[str, ...]
    sets: tuple[IndexSet, ...]
    element: Element
    role: Literal["input", "weight", "cache", "place", "local", "output", "derived"]


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

    does: ClassVar[str] = "choose"
    balance: int
    options: tuple[Option, ...]

    @property
    def ways(self) -> tuple[tuple[Option, tuple[Leaf, ...]], ...]:
        """Each option of the choice with the steps that are run where it is taken."""
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

    does: ClassVar[str] = "rounds"
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

    does: ClassVar[str] = "each"
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


@dataclass(frozen=True, slots=True)
class Around:
    """Whose blocks go round: the ranks of a group, each with so many `blocks`; the sizes of a body that are the places
    of the rank's `own` block and of the `part` that comes, counted from 1; and the condition that they meet, in sizes
    of which these two have the names of `BLOCK_PLACES`.
    """

    group: RankGroup
    blocks: int
    own: str
    part: str
    meets: Term


BLOCK_PLACES = ("own.place", "part.place")


@dataclass(frozen=True, slots=True)
class Given:
    """What a body is given in hops: the rank's own tensor, or one that goes `round`. Of either it takes one block along
    `axis`; all of it where that is None.
    """

    key: str
    axis: int | None
    round: bool


@dataclass(frozen=True, slots=True)
class Made:
    """What a body makes in hops: a share, that is put together by a fold with what other hops made, or, where there is
    no fold, what stands beside it. `own` and `part` are the axes along which it stands as the rank's own block and the
    one that came do, None for none. What is `sent` goes to the rank whose block came.
    """

    key: str
    fold: str
    own: int | None
    part: int | None
    sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops(Operation):
    """The body once for each pair of a block of the rank and one of all ranks, where the two meet: the blocks of what
    goes round come from their ranks one hop after the other.

    It reads what the body is `given` and writes what is `made` of all that it made. `merge` makes one of two shares of
    those that stay here: it is given those before and those of this hop. `sizes` are handed on to both.
    """

    does: ClassVar[str] = "hops"
    around: Around
    body: Module
    merge: Module | None
    given: tuple[Given, ...]
    made: tuple[Made, ...]
    sizes: tuple[tuple[str, str], ...]


LEAST_ROWS, PAIRS = 64, 22  # rows of a block at least; else log2 of the elements that its largest value may have


@dataclass(frozen=True, slots=True)
class Rows:
    """The elements of the set `over`, cut into blocks. `count` and `before` are the sizes of a body that say how many
    a block has, and how many come before it; `each` is how many elements the largest value has for one of them.
    """

    over: IndexSet
    count: str
    before: str
    each: Extent

    def lengths(self, known: Mapping[str, int]) -> dict[str, int]:
        """How many rows a block has, by the size that says so; empty where a size that this depends on is not known."""
        if not (self.each.sizes | self.over.extent.sizes) <= known.keys():
            return {}
        most = max(LEAST_ROWS, 2**PAIRS // max(1, int(self.each.at(known))))
        return {self.count: min(most, max(1, int(self.over.extent.at(known))))}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlocks(Operation):
    """The body once for each block of `rows`, in order: a function of its own that is called in a loop. What it stores
    is stored for one block at a time.

    `given` are for each of `reads` the input of the body and the axis of which a block takes its own part, or None
    where it takes all; `made` for each of `writes` the output of the body and the axis along which the parts of the
    blocks lie one after the other, or None where they are shares, which are added. `sizes` are handed on.
    """

    does: ClassVar[str] = "blocks"
    body: Module
    rows: Rows
    given: tuple[tuple[str, int | None], ...]
    made: tuple[tuple[str, int | None], ...]
    sizes: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> tuple[tuple[str, str, int | None], ...]:
        """Each input of the body, with its buffer and the axis of which a block takes its own part."""
        return tuple((key, buffer, axis) for (key, axis), buffer in zip(self.given, self.reads, strict=True))

    @property
    def outputs(self) -> tuple[tuple[str, str, int | None], ...]:
        """Each buffer that is written, with the output of the body and the axis along which its parts lie."""
        return tuple((buffer, key, axis) for (key, axis), buffer in zip(self.made, self.writes, strict=True))

    def whole(self, cost: Cost) -> Cost:
        """What a step of the body costs in all blocks together."""
        rows = self.rows
        flops = cost.flops.put({rows.count: rows.over.extent, rows.before: number(0)})
        moved = (x.put({rows.before: number(0)}) * rows.over.extent for x in (cost.read, cost.written))
        read, written = (x.over(size(rows.count)) or x for x in moved)
        return Cost(flops, read, written, cost.held)

    @property
    def throughout(self) -> Module:
        """The body, with what its steps cost in all blocks together."""
        return replace(self.body, steps=tuple(map(self._throughout, self.body.steps)))

    def _throughout(self, step: Step) -> Step:
        match step:
            case Choose():
                bodies = tuple(tuple(replace(one, cost=self.whole(one.cost)) for one in way) for way in step.bodies)
                return replace(step, bodies=bodies)
            case RowBlocks():
                inner = replace(step.body, steps=tuple(map(self._throughout, step.body.steps)))
                return replace(step, body=inner, cost=self.whole(step.cost))
        return replace(step, cost=self.whole(step.cost))


Share = int | Literal["own"] | None
Step = Leaf | Choose | Hops | Loop | PerRequest | RowBlocks


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
        """The same lengths of requests, with other names for their tensors."""
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
        """The inputs that a caller gives: neither those that a cache holds nor the places in it."""
        return tuple(t for t in self.inputs if t.role not in ("cache", "place"))

    @property
    def unpaged(self) -> bool:
        """Whether all that a step of a generation keeps are states, one for each text: they lie in no pages."""
        states = set() if self.generation is None else {key for key, _ in self.generation.states}
        return bool(states) and all(t.key in states for t in self.inputs if t.role == "cache")
