"""Term: one closed union for values, index expressions and predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any, assert_never, get_args

from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.nodes import Node, node


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


_CHILDREN: Mapping[type, Callable[[Any], tuple[Term, ...]]] = {
    Const: lambda term: (),
    Truth: lambda term: (),
    Size: lambda term: (),
    Position: lambda term: (),
    Pack: attrgetter("parts"),
    Apply: attrgetter("args"),
    Read: attrgetter("subs"),
    Part: lambda term: (term.item,),
    Where: attrgetter("condition", "then"),
    Fold: attrgetter("domain", "body"),
    Join: lambda term: tuple(body for _, body in term.parts),
}
assert set(_CHILDREN) == set(get_args(Term)), "every kind of term has children"


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term, in the order in which `rebuild` takes them."""
    return _CHILDREN[type(term)](term)


def rebuild(term: Term, kids: tuple[Term, ...]) -> Term:
    """The term with other children; the same object if nothing changed."""
    if all(map(is_, kids, _CHILDREN[type(term)](term))):
        return term
    match term:
        case Const() | Truth() | Size() | Position():
            return term
        case Apply(op):
            return Apply(op, kids)
        case Read(tensor):
            return Read(tensor, kids)
        case Fold(op, bound):
            return Fold(op, bound, *kids)
        case Where():
            return Where(*kids)
        case Pack():
            return replace(term, parts=kids)
        case Part():
            return replace(term, item=kids[0])
        case Join(index, parts):
            return Join(index, tuple((i, kid) for (i, _), kid in zip(parts, kids, strict=True)))
    assert_never(term)


def bound_indices(term: Term) -> tuple[Index, ...]:
    """Returns the indices that a fold or a direct sum binds itself; none for other terms."""
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
    """The term and everything in it, each term before its parts, from left to right."""
    stack = [term]
    while stack:
        here = stack.pop()
        yield here
        if kids := _CHILDREN[type(here)](here):
            stack += kids[::-1]


@lru_cache(maxsize=1 << 16)
def reads(term: Term) -> tuple[Read, ...]:
    """Every read in a term, in order, those inside of subscripts too."""
    return tuple(t for t in walk(term) if isinstance(t, Read))


def transform(term: Term, change: Callable[[Term], Term]) -> Term:
    """`change` applied everywhere, from the leaves up."""
    kids = _CHILDREN[type(term)](term)
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
    kids = _CHILDREN[type(term)](term)
    return rebuild(term, tuple([substitute(kid, by) for kid in kids])) if kids else term


def _avoid(bound: tuple[Index, ...], by: Mapping[Index, Term]) -> tuple[tuple[Index, ...], dict[Index, Term]]:
    """Primes bound indices that would capture a substituted one; returns them and the substitution inside."""
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
    """Returns the constant of a number: a float stays one, all others become fractions."""
    return Const(value if isinstance(value, float) else Fraction(value))


def both(*conditions: Term) -> Term:
    """The condition that all these hold: conjunctions within are opened, and what stands twice or is true is left out.
    False where one of them is."""
    found = dict.fromkeys(atom for condition in conditions for atom in conjuncts(condition))
    if FALSE in found:
        return FALSE
    out = tuple(atom for atom in found if atom != TRUE)
    return TRUE if not out else out[0] if len(out) == 1 else Apply("and", out)


def in_body(given: Term, fold: Fold) -> Term:
    """What holds in the body of a fold: its domain, and of what is given that which says
    nothing of the indices that it binds."""
    kept = (c for c in conjuncts(given) if not free_indices(c) & set(fold.bound))
    return both(*kept, fold.domain)


def changed_under(term: Term, given: Term, change: Callable[[Term, Term], Term]) -> Term:
    """The term with each of its parts changed by a function of the part and of what holds where it is read, `given` for
    the term itself. The condition of a `Where` and the domain of a fold stay as they are.
    """
    match term:
        case Where(condition, then):
            return rebuild(term, (condition, change(then, both(given, condition))))
        case Fold(_, _, domain, body):
            return rebuild(term, (domain, change(body, in_body(given, term))))
    return rebuild(term, tuple(change(kid, given) for kid in children(term)))


def conjuncts(condition: Term) -> tuple[Term, ...]:
    """Returns the parts of a condition joined by `and`, at any depth; any other condition is its only part."""
    match condition:
        case Apply("and", args):
            return tuple(a for arg in args for a in conjuncts(arg))
    return (condition,)
