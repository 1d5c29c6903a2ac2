"""Term, TypedProgram and NormalProgram: what a text means.

One closed union serves values, index expressions and predicates. In a `TypedProgram` nothing is implied: every sum is
a `Fold` with its domain, every equation has the domain it exists on. A `NormalProgram` holds the same terms under a
predicate that `normalise` asserts: folds stand only at the root of an equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import is_
from typing import Any, Literal, Self, assert_never, get_args

from einc.errors.report import Span
from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.nodes import Node, node
from einc.ir.requested import Wanted


@node
class Const(Node):
    """A number; whole and rational ones are exact. ±inf are floats."""

    value: Fraction | float


@node
class Truth(Node):
    value: bool


@node
class Size(Node):
    """An extent as a number."""

    extent: Extent


@node
class Position(Node):
    """The number an index stands at, in the values of its set."""

    index: Index


@node
class Pack(Node):
    """The element of a composite set that its parts make; the first varies slowest."""

    parts: tuple[Term, ...]
    sets: tuple[IndexSet, ...]
    into: IndexSet


@node
class Part(Node):
    """The element of a direct sum that an element of one part is; `before` is the extent of the parts before it."""

    item: Term
    of: IndexSet
    before: Extent
    into: IndexSet


@node
class Read(Node):
    """An element of a tensor; each subscript is an integer term in the values of the slot's set."""

    tensor: str
    subs: tuple[Term, ...]


@node
class Apply(Node):
    """A scalar primitive; the table is `primitives.PRIMITIVES`."""

    op: str
    args: tuple[Term, ...]


@node
class Where(Node):
    """`then` where the condition holds, 0 elsewhere, where `then` is not read."""

    condition: Term
    then: Term


@node
class Fold(Node):
    """An index (or several) taken away by a monoid, over the points of the domain; the table is `folds.FOLDS`."""

    op: str
    bound: tuple[Index, ...]
    domain: Term
    body: Term


@node
class Join(Node):
    """A direct sum along `index`: for each part, its own index and its value."""

    index: Index
    parts: tuple[tuple[Index, Term], ...]


Term = Const | Truth | Size | Position | Pack | Part | Read | Apply | Where | Fold | Join

TRUE, FALSE = Truth(True), Truth(False)
ZERO, ONE = Const(Fraction(0)), Const(Fraction(1))


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
class Tensor:
    """A tensor of the program. `key` is its Python name, one per program; `text` the way it was written."""

    key: str
    text: str
    slots: tuple[Slot, ...]
    role: Literal["input", "weight", "cache", "place", "local", "derived"]  # kept; where new positions stand; follows from lengths
    integer: bool = False
    span: Span | None = None
    wide: bool = False  # kept in float32 where the data is narrower
    least: Literal["", "nonnegative", "positive"] = ""  # what is known of an input that another program made
    each: bool = False  # of several requests each has one of its own


def local(key: str, indices: Iterable[Index], integer: bool = False) -> Tensor:
    """A tensor that no caller sees, with a slot for each index."""
    return Tensor(key, key, tuple(map(slot_of, indices)), "local", integer)


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


@dataclass(frozen=True, slots=True)
class Recur:
    """Rounds over blocks of a domain: each gives every state its next value, all at once.

    `member` is a tensor that is 1 on the block, whose elements are `index`; it is empty where a round is one element, in
    order, which then stands free in the equations. `starts` hold before the first round, `inside` is made anew in each.
    """

    name: str
    fixed: tuple[Index, ...]
    index: Index
    domain: Term
    member: str
    starts: tuple[Equation, ...]
    inside: tuple[Equation, ...]
    updates: tuple[Equation, ...]
    places: Mapping[str, tuple[str, Span]] = field(default_factory=dict, compare=False)  # each state as written, and its update

    @property
    def targets(self) -> frozenset[str]:
        """What the rounds give values to."""
        return frozenset(e.target for e in (*self.inside, *self.updates))

    def map(self, change: Callable[[Equation], Equation]) -> Recur:
        """The recurrence with every equation changed."""
        return replace(self, starts=tuple(map(change, self.starts)), inside=tuple(map(change, self.inside)),
                       updates=tuple(map(change, self.updates)))


@dataclass(frozen=True, slots=True)
class Repeat:
    """Rounds in order, one for each value of `index`, which stands free in the equations of a round, those of `inside`.

    A state, which has no equation, is (its tensor, its value before the first round, what a round makes the next one).
    """

    index: Index
    states: tuple[tuple[str, str, str], ...]
    inside: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """What typed and normal programs have in common: `sizes` are fixed by a `dim`, `source` names the file.

    What is written as rounds stands in `loops`, in an order in which each finds what it reads. The equations of a `Recur` are
    those of one round over all, the same for every cut of it.
    """

    name: str
    tensors: Mapping[str, Tensor]
    equations: tuple[Equation, ...]
    outputs: tuple[tuple[str, str], ...]  # (Python name, tensor)
    sizes: Mapping[str, int]
    splits: Mapping[IndexSet, tuple[IndexSet, ...]]  # composite sets and their parts
    sums: Mapping[IndexSet, tuple[Index, ...]] = field(default_factory=dict)  # direct sums and their parts
    source: str = ""
    loops: tuple[Recur | Repeat, ...] = ()
    idle: frozenset[str] = frozenset()  # sizes that the text declares and no output depends on
    plans: tuple[Wanted, ...] = ()  # what its text asks for beside its meaning
    own: tuple[str, ...] = ()  # sizes that are each request's own where several are treated at once, that of new positions first

    @cached_property
    def recurs(self) -> tuple[Recur, ...]:
        """The loops over blocks of a domain."""
        return tuple(loop for loop in self.loops if isinstance(loop, Recur))

    @cached_property
    def repeats(self) -> tuple[Repeat, ...]:
        """The loops that run in order, once for each value of an index."""
        return tuple(loop for loop in self.loops if isinstance(loop, Repeat))

    @cached_property
    def by_target(self) -> Mapping[str, Equation]:
        """Each equation by the name of the tensor that it defines."""
        return {e.target: e for e in self.equations}

    def but(self, *, equations: Iterable[Equation] | None = None, tensors: Mapping[str, Tensor] | None = None,
            outputs: Iterable[tuple[str, str]] | None = None, loops: Iterable[Recur | Repeat] | None = None) -> Self:
        """The program with what is given in place of its own; everything else stays."""
        return replace(self, equations=self.equations if equations is None else tuple(equations),
                       tensors=self.tensors if tensors is None else tensors,
                       outputs=self.outputs if outputs is None else tuple(outputs),
                       loops=self.loops if loops is None else tuple(loops))

    @classmethod
    def of(cls, program: Program) -> Self:
        """The same fields as a program of this class: whoever calls it answers for what the class says."""
        return cls(**{field.name: getattr(program, field.name) for field in fields(program)})

    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors asked of the caller, those that some equation reads, in the order declared."""
        read = {key for e in self.equations for key in e.reads}
        read |= {tensor for _, tensor in self.outputs} | {first for r in self.repeats for _, first, _ in r.states}
        known = read | self.by_target.keys()
        slots = [s for t in self.tensors.values() if t.key in known for s in t.slots]
        read |= {s.set.packed.lengths for s in slots if s.set.packed is not None}
        return tuple(t for t in self.tensors.values() if t.role not in ("local", "derived") and t.key in read)

    def block_of(self, condition: Term) -> tuple[Term, Tensor] | None:
        """The element and the block of `s ∈ B`."""
        match condition:
            case Apply("eq", (Read(tensor, (element,)), _)) if any(tensor == recur.member for recur in self.recurs):
                return element, self.tensors[tensor]
        return None

    def equation(self, key: str) -> Equation | None:
        """The equation that defines a tensor; None where the tensor is given."""
        return self.by_target.get(key)


class TypedProgram(Program):
    """Checked: everything implied is written out."""


class NormalProgram(Program):
    """Normal: see `normalise.is_normal`."""


_CHILDREN: Mapping[type, Callable[[Any], tuple[Term, ...]]] = {
    Const: lambda term: (),
    Truth: lambda term: (),
    Size: lambda term: (),
    Position: lambda term: (),
    Pack: lambda term: term.parts,
    Apply: lambda term: term.args,
    Read: lambda term: term.subs,
    Part: lambda term: (term.item,),
    Where: lambda term: (term.condition, term.then),
    Fold: lambda term: (term.domain, term.body),
    Join: lambda term: tuple(body for _, body in term.parts),
}
assert set(_CHILDREN) == set(get_args(Term)), "every kind of term has children"


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term, in the order in which `rebuild` takes them."""
    return _CHILDREN[type(term)](term)


def rebuild(term: Term, kids: tuple[Term, ...]) -> Term:
    """The term with other children; the same object if nothing changed."""
    if all(map(is_, kids, children(term))):
        return term
    match term:
        case Const() | Truth() | Size() | Position():
            return term
        case Pack():
            return replace(term, parts=kids)
        case Apply():
            return replace(term, args=kids)
        case Read():
            return replace(term, subs=kids)
        case Part():
            return replace(term, item=kids[0])
        case Where():
            return Where(*kids)
        case Fold():
            return replace(term, domain=kids[0], body=kids[1])
        case Join(index, parts):
            return Join(index, tuple((i, kid) for (i, _), kid in zip(parts, kids, strict=True)))
    assert_never(term)


def bound_indices(term: Term) -> tuple[Index, ...]:
    match term:
        case Fold(_, bound):
            return bound
        case Join(_, parts):
            return tuple(i for i, _ in parts)
    return ()


@lru_cache(maxsize=1 << 16)
def free_indices(term: Term) -> frozenset[Index]:
    """The indices that stand in a term and that nothing inside it binds."""
    match term:
        case Position(index):
            return frozenset({index})
        case Join(index, parts):
            inner = frozenset().union(*(free_indices(body) - {i} for i, body in parts))
            return inner | {index}
    inside: frozenset[Index] = frozenset().union(*map(free_indices, children(term)))
    return inside.difference(bound_indices(term))


def walk(term: Term) -> Iterable[Term]:
    """The term and everything in it."""
    stack = [term]
    while stack:
        here = stack.pop()
        yield here
        stack += children(here)[::-1]


def reads(term: Term) -> Iterable[Read]:
    return (t for t in walk(term) if isinstance(t, Read))


def transform(term: Term, change: Callable[[Term], Term]) -> Term:
    """`change` applied everywhere, from the leaves up."""
    kids = children(term)
    return change(rebuild(term, tuple([transform(kid, change) for kid in kids])) if kids else term)


def substitute(term: Term, by: Mapping[Index, Term]) -> Term:
    """Free indices replaced by index terms; binders in the way are renamed."""
    if not by:
        return term
    match term:
        case Position(index):
            return by.get(index, term)
        case Fold(op, bound, domain, body):
            bound, by = _avoid(bound, by)
            return Fold(op, bound, substitute(domain, by), substitute(body, by))
        case Join(index, parts):
            new = []
            for part, body in parts:
                (fresh,), inner = _avoid((part,), by)
                new.append((fresh, substitute(body, inner)))
            match by.get(index):
                case None:
                    return Join(index, tuple(new))
                case Position(other):
                    return Join(other, tuple(new))
            raise AssertionError("a direct sum is read whole")
    return rebuild(term, tuple(substitute(kid, by) for kid in children(term)))


def _avoid(bound: tuple[Index, ...], by: Mapping[Index, Term]) -> tuple[tuple[Index, ...], dict[Index, Term]]:
    inner = {i: t for i, t in by.items() if i not in bound}
    arriving = {i.name for t in inner.values() for i in free_indices(t)}
    fresh: list[Index] = []
    for index in bound:
        new = index
        while new.name in arriving or new in fresh:
            new = Index(new.name + "'", new.set)
        if new != index:
            inner[index] = Position(new)
        fresh.append(new)
    return tuple(fresh), inner


def canonical(term: Term, free: tuple[Index, ...] = ()) -> Term:
    """The term with its binders numbered and the given free indices too: equal up to names means equal."""
    names: dict[Index, Term] = {index: Position(Index(f"#{n}", index.set)) for n, index in enumerate(free)}
    return _number(substitute(term, names), [0])


def _number(term: Term, count: list[int]) -> Term:
    match term:
        case Fold(op, bound, domain, body):
            count[0] += len(bound)
            new = tuple(Index(f"%{count[0] - n}", b.set) for n, b in enumerate(bound))
            by = {old: Position(fresh) for old, fresh in zip(bound, new, strict=True)}
            return Fold(op, new, _number(substitute(domain, by), count), _number(substitute(body, by), count))
    return rebuild(term, tuple(_number(kid, count) for kid in children(term)))


def const(value: int | Fraction | float) -> Const:
    return Const(value if isinstance(value, float) else Fraction(value))


def both(*conditions: Term) -> Term:
    """Their conjunction, flat, without repeats."""
    out: list[Term] = []
    for condition in conditions:
        for atom in conjuncts(condition):
            if atom == FALSE:
                return FALSE
            if atom != TRUE and atom not in out:
                out.append(atom)
    return TRUE if not out else out[0] if len(out) == 1 else Apply("and", tuple(out))


def conjuncts(condition: Term) -> tuple[Term, ...]:
    match condition:
        case Apply("and", args):
            return tuple(a for arg in args for a in conjuncts(arg))
    return (condition,)
