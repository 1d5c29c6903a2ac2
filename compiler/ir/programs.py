"""TypedProgram and NormalProgram: what a text means.

In a `TypedProgram` nothing is implied: every sum is a `Fold` with its domain, every equation has the
domain it exists on. A `NormalProgram` holds the same terms under a predicate that `normalise` asserts:
folds stand only at the root of an equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Literal, Self

from einc.errors.report import Span
from einc.ir.elements import REAL, Element
from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.requested import PlanBlock
from einc.ir.terms import Apply, Join, Pack, Part, Position, Read, Term, bound_indices, reads, substitute, walk

Sign = Literal["", "nonnegative", "positive"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One axis of a tensor: its set, its level, and the letter it was declared with."""

    set: IndexSet
    level: Literal["lower", "upper", "label"]
    name: str


def slot_of(index: Index) -> Slot:
    """The slot of a helper tensor: below, or in parentheses where an index would otherwise pair with another."""
    return Slot(index.set, "label" if index.set.summed else "lower", index.name)


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a value in a program that does not make it.

    `least` is its sign, where the sets of `over` have a point each; where one has none a positive value is 0.
    `infinite` says whether it may be no finite number, and `gone` which values it is 0 with: their names, and for each
    of their slots the place among its own.
    """

    least: Sign = ""
    over: tuple[IndexSet, ...] = ()
    infinite: bool = False
    gone: tuple[tuple[str, tuple[int, ...]], ...] = ()


NOTHING_TOLD = Told()


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the program. `key` is its Python name, one per program; `text` the way it was written."""

    key: str
    text: str
    slots: tuple[Slot, ...]
    # kept; where new positions stand; follows from lengths
    role: Literal["input", "weight", "cache", "place", "local", "derived"]
    element: Element = REAL
    span: Span | None = None
    told: Told = NOTHING_TOLD  # what is known of an input that another program made
    each: bool = False  # of several requests each has one of its own
    scale: bool = False  # other values are divided by its exponential and multiplied again: no result changes with it
    everywhere: bool = False  # the text says that it depends on every position, `: all`

    @property
    def integer(self) -> bool:
        """Whether the elements of the tensor are whole numbers."""
        return self.element.kind == "integer"

    @property
    def constant(self) -> bool:
        """Whether no gradient reaches it: whole numbers, and numbers that are stored in few bits."""
        return self.integer or self.element.narrow is not None

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The extents of its array in memory."""
        return self.element.extents(slot.set for slot in self.slots)

    def count(self, along: IndexSet) -> int:
        """The number of axes of the tensor that run over a set."""
        return sum(slot.set == along for slot in self.slots)



def local(key: str, indices: Iterable[Index], element: Element = REAL) -> Tensor:
    """A tensor that no caller sees, with a slot for each index."""
    return Tensor(key, key, tuple(map(slot_of, indices)), "local", element)


@dataclass(frozen=True)
class Equation:
    """target[axes] = body, for the points of `domain`. An axis is a `Position`, or a `Pack` of them."""

    target: str
    axes: tuple[Term, ...]
    domain: Term
    body: Term
    source: str = ""

    @cached_property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the axes, in their order."""
        return tuple(x.index for axis in self.axes for x in walk(axis) if isinstance(x, Position))

    @cached_property
    def has_letters(self) -> bool:
        """Whether every axis is a letter, so that a reader's letters are its own."""
        return all(isinstance(axis, Position) for axis in self.axes)

    @cached_property
    def elements(self) -> tuple[Read, ...]:
        """Every element of a tensor that the domain or the body reads."""
        return (*reads(self.domain), *reads(self.body))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names of the tensors that the domain or the body reads."""
        return frozenset(read.tensor for read in self.elements)

    def at(self, subs: tuple[Term, ...]) -> Term:
        """The body at the point where the indices of the axes, in their order, are `subs`."""
        return substitute(self.body, dict(zip(self.indices, subs, strict=True)))

    def map(self, change: Callable[[Term], Term]) -> Equation:
        """The equation with its domain and its body changed; the same object where neither changes."""
        domain, body = change(self.domain), change(self.body)
        return self if domain is self.domain and body is self.body else replace(self, domain=domain, body=body)


class Definitions(dict[str, Equation]):
    """Equations by the tensor that each defines, and what was found of their values so far, which grows: the sign, and
    by tensor and place whether it is a finite number. What is found of those that others are laid `over` is shared
    with these, since an equation reads what is made before it and nothing that is laid over that.
    """

    def __init__(self, equations: Iterable[Equation], over: Mapping[str, Equation] | None = None) -> None:
        own = {e.target: e for e in equations}
        super().__init__({**(over or {}), **own})
        self.signs: dict[str, int] = {}
        self.finite: dict[tuple[str, str], bool] = {}
        self._own, self._below = own.keys(), over if isinstance(over, Definitions) else None

    def about(self, tensor: str) -> Definitions:
        """The definitions, these or those that they stand on, that keep what is found of a tensor."""
        return self if self._below is None or tensor in self._own else self._below.about(tensor)


def definitions(equations: Mapping[str, Equation]) -> Definitions:
    """The equations as Definitions, which keep what is found of them; the same object where it is one."""
    return equations if isinstance(equations, Definitions) else Definitions(equations.values())


@dataclass(frozen=True, slots=True)
class BlockLoop:
    """Rounds over blocks of a domain: each gives every state its next value, all at once.

    `member` is a tensor that is 1 on the block, whose elements are `index`; it is empty where a
    round is one element, in order, which then stands free in the equations. `starts` hold before the
    first round, `inside` is made anew in each.
    """

    name: str
    fixed: tuple[Index, ...]
    index: Index
    domain: Term
    member: str
    starts: tuple[Equation, ...]
    inside: tuple[Equation, ...]
    updates: tuple[Equation, ...]
    # each state as written, and its update
    places: Mapping[str, tuple[str, Span]] = field(default_factory=dict, compare=False)

    @property
    def equations(self) -> tuple[Equation, ...]:
        """The equations before the first round, within a round, and of the states after it, in this order."""
        return (*self.starts, *self.inside, *self.updates)

    @property
    def targets(self) -> frozenset[str]:
        """The names that a round gives values to: what it computes, and the states that it hands on."""
        return frozenset(e.target for e in (*self.inside, *self.updates))

    def map(self, change: Callable[[Equation], Equation]) -> BlockLoop:
        """The recurrence with every one of its equations replaced by what `change` makes of it."""
        return replace(self, starts=tuple(map(change, self.starts)), inside=tuple(map(change, self.inside)),
                       updates=tuple(map(change, self.updates)))


@dataclass(frozen=True, slots=True)
class IndexLoop:
    """Rounds in order, one for each value of `index`, which stands free in the equations of a round, those of `inside`.

    A state, which has no equation, is (its tensor, its value before the first round, what a round makes the next one).
    A value of `inside` with the index on an axis has one part for each round; what a state becomes may be such a part.
    Each round runs the `loops` that stand in it, whose equations are of its `inside` too.
    """

    index: Index
    states: tuple[tuple[str, str, str], ...]
    inside: tuple[str, ...]
    loops: tuple[IndexLoop, ...] = ()

    @property
    def every(self) -> tuple[IndexLoop, ...]:
        """The loop, and all that stand in its rounds, each before those in it."""
        return (self, *(inner for loop in self.loops for inner in loop.every))

    @property
    def made(self) -> frozenset[str]:
        """What has a value in the rounds: its states, those of loops in it, and everything inside."""
        return frozenset([*self.inside, *(state for loop in self.every for state, _, _ in loop.states)])

    def beside(self, key: str, names: Iterable[str]) -> IndexLoop:
        """The loop, and those in it, with further values made where they make a value."""
        more = tuple(names)
        if key not in self.inside or not more:
            return self
        return replace(self, inside=(*self.inside, *more), loops=tuple(loop.beside(key, more) for loop in self.loops))

    def change(self, tensor: Callable[[str], str], index: Callable[[Index], Index] = lambda index: index) -> IndexLoop:
        """The loop, and those in it, with other names of tensors and other letters."""
        return IndexLoop(index(self.index), tuple((tensor(a), tensor(b), tensor(c)) for a, b, c in self.states),
                         tuple(map(tensor, self.inside)), tuple(loop.change(tensor, index) for loop in self.loops))


@dataclass(frozen=True)
class Program:
    """What typed and normal programs have in common: `sizes` are fixed by a `dim`, `source` names the file.

    What is written as rounds stands in `loops`, in an order in which each finds what it reads. The equations of a
    `BlockLoop` are those of one round over all, the same for every cut of it.
    """

    name: str
    tensors: Mapping[str, Tensor]
    equations: tuple[Equation, ...]
    outputs: tuple[tuple[str, str], ...]  # (Python name, tensor)
    sizes: Mapping[str, int]
    splits: Mapping[IndexSet, tuple[IndexSet, ...]]  # composite sets and their parts
    sums: Mapping[IndexSet, tuple[Index, ...]] = field(default_factory=dict)  # direct sums and their parts
    source: str = ""
    loops: tuple[BlockLoop | IndexLoop, ...] = ()
    idle: frozenset[str] = frozenset()  # sizes that the text declares and no output depends on
    plans: tuple[PlanBlock, ...] = ()  # what its text asks for beside its meaning
    # sizes that are each request's own where several are treated at once, that of new positions first
    own: tuple[str, ...] = ()

    @cached_property
    def recurs(self) -> tuple[BlockLoop, ...]:
        """The loops over blocks of a domain."""
        return tuple(loop for loop in self.loops if isinstance(loop, BlockLoop))

    @cached_property
    def repeats(self) -> tuple[IndexLoop, ...]:
        """The loops that run in order, once for each value of an index."""
        return tuple(loop for loop in self.loops if isinstance(loop, IndexLoop))

    @cached_property
    def every_repeat(self) -> tuple[IndexLoop, ...]:
        """The loops that run in order, and those that stand in rounds of others."""
        return tuple(inner for repeat in self.repeats for inner in repeat.every)

    def around(self, key: str) -> tuple[IndexLoop, ...]:
        """The loops in whose rounds a value is made, the outermost first."""
        return tuple(loop for loop in self.every_repeat if key in loop.inside)

    @cached_property
    def kept(self) -> Mapping[IndexLoop, tuple[str, ...]]:
        """For each of the loops in order the values that have one part for each round and are read after the last."""
        inner = {key: repeat for repeat in self.repeats for key in repeat.inside}
        read = {key for _, key in self.outputs} | {first for r in self.repeats for _, first, _ in r.states}
        read |= {key for e in self.equations for key in e.reads if inner.get(key) != inner.get(e.target)}
        return {repeat: tuple(e.target for e in self.equations if e.target in read & {*repeat.inside})
                for repeat in self.repeats}

    @cached_property
    def by_target(self) -> Definitions:
        """Each equation by the name of the tensor that it defines."""
        return Definitions(self.equations)

    def but(self, *, equations: Iterable[Equation] | None = None, tensors: Mapping[str, Tensor] | None = None,
            outputs: Iterable[tuple[str, str]] | None = None,
            loops: Iterable[BlockLoop | IndexLoop] | None = None) -> Self:
        """The program with what is given in place of its own; everything else stays."""
        return replace(self, equations=self.equations if equations is None else tuple(equations),
                       tensors=self.tensors if tensors is None else tensors,
                       outputs=self.outputs if outputs is None else tuple(outputs),
                       loops=self.loops if loops is None else tuple(loops))

    @classmethod
    def of(cls, program: Program) -> Self:
        """A program of this class with the fields of another: the caller answers for what the class says."""
        return cls(**{field.name: getattr(program, field.name) for field in fields(program)})

    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors asked of the caller, those that some equation reads, in the order declared."""
        read = {key for e in self.equations for key in e.reads}
        read |= {tensor for _, tensor in self.outputs} | {first for r in self.every_repeat for _, first, _ in r.states}
        known = read | self.by_target.keys()
        slots = [s for t in self.tensors.values() if t.key in known for s in t.slots]
        read |= {s.set.packed.lengths for s in slots if s.set.packed is not None}
        return tuple(t for t in self.tensors.values() if t.role not in ("local", "derived") and t.key in read)

    @property
    def terms(self) -> Iterator[Term]:
        """Every term of the equations, and every term in it."""
        return (t for e in self.equations for root in (*e.axes, e.domain, e.body) for t in walk(root))

    def block_of(self, condition: Term) -> tuple[Term, Tensor] | None:
        """The element and the block of `s ∈ B`."""
        match condition:
            case Apply("eq", (Read(tensor, (element,)), _)) if any(tensor == recur.member for recur in self.recurs):
                return element, self.tensors[tensor]
        return None

    def equation(self, key: str) -> Equation | None:
        """The equation that defines a tensor; None where the tensor is given."""
        return self.by_target.get(key)


def sets_of(term: Term) -> tuple[IndexSet, ...]:
    """The sets that a term names itself: those of its letters, of its pairs and of its parts."""
    match term:
        case Position(index):
            return (index.set,)
        case Join(index):
            return (*(i.set for i in bound_indices(term)), index.set)
        case Pack(_, sets, into):
            return (*sets, into)
        case Part(_, of, _, into):
            return (of, into)
    return tuple(i.set for i in bound_indices(term))


class TypedProgram(Program):
    """Checked: everything implied is written out."""


class NormalProgram(Program):
    """Normal: see `normalise.is_normal`."""
