"""The orders in which a network may be run: each a few equations that give its value.

A value that is never stored is met once: what removes its streamed index stands in the same equation, everything else
before it or after it. The order within a plain contraction is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from einc.ir.domains import proves
from einc.ir.finite import surely_finite
from einc.ir.indices import DATA, Index
from einc.ir.letters import TIMES
from einc.ir.programs import Equation
from einc.ir.reading import seen
from einc.ir.terms import TRUE, Apply, Fold, Position, Read, Term, both, conjuncts, free_indices, reads, substitute
from einc.ir.witnesses import witnessed
from einc.planning.contractions.networks import Network, Scale, indices_of
from einc.transforms.normal.delta_elimination import axis_order

Order = tuple[Equation, ...]


def orders(net: Network, virtual: frozenset[str], known: Mapping[str, Equation]) -> tuple[Order, ...]:
    """Every order of the network; the last equation of each defines its root. No order where it cannot be run at all.
    `known` says what the factors are made of.
    """
    every = (_narrowed(order, net.root.domain) for order in _found(net, virtual, known))
    found = tuple(order for order in every if all(_scaled_in_time(e) and _exists(e, known) for e in order))
    return found or (((net.root,),) if net.written or not net.opened else ())


def _scaled_in_time(equation: Equation) -> bool:
    """Whether nothing scales a value by what moves along an index that is summed before."""
    return free_indices(equation.body) <= set(equation.indices)


def _narrowed(order: Order, domain: Term) -> Order:
    """The order of which each equation has of the root's domain what its letters say without data: elsewhere nothing
    reads it, and what it reads may have no value.
    """
    *before, root = order
    atoms = [c for c in conjuncts(domain) if c != TRUE and not reads(c)]
    return *(replace(e, domain=both(e.domain, *(c for c in atoms if free_indices(c) <= {*e.indices}))) if atoms else e
             for e in before), root


def _exists(equation: Equation, known: Mapping[str, Equation]) -> bool:
    """Whether everything that an equation reads surely has a value there, but for what data decide: a factor that is
    taken out of a sum meets rows in which the sum has no point.
    """
    for one in seen(equation.body, equation.domain):
        of = known.get(one.read.tensor)
        if of is not None and of.domain != TRUE and of.has_letters and len(of.axes) == len(one.read.subs):
            by = dict(zip(of.indices, one.read.subs, strict=True))
            asked = (substitute(c, by) for c in conjuncts(of.domain) if not reads(c))
            if not proves(one.given, both(*asked)):
                return False
    return True


def _found(net: Network, virtual: frozenset[str], known: Mapping[str, Equation]) -> Iterator[Order]:
    """The candidate orders of a network by its kind: as written, pointwise, into a virtual value, or over virtual
    values."""
    inner = virtual & {f.tensor for f in net.factors}
    if (net.written and len(net.factors) < 3) or not (net.bound or net.opened):
        yield (net.root,)
    elif not net.bound:
        yield _ends(net, net.factors, (), net.scales)
    elif net.root.target in virtual:
        if not inner and net.domain == TRUE:
            yield from _into(net)
    elif inner:
        yield from _through(net, virtual, known)
    elif net.domain == TRUE and not net.scales:
        yield _ends(net, net.factors, net.bound, ())


def _into(net: Network) -> Iterator[Order]:
    """A value that is not stored, from two that are: each side of the last product is made before."""
    wide = {i for i in net.root.indices if i.set.cls in DATA}
    first, *others = net.factors
    for count in range(len(others)):
        for more in combinations(others, count):
            left, right = (first, *more), tuple(f for f in others if f not in more)
            sides = _Side.of(net, left, indices_of(right)), _Side.of(net, right, indices_of(left))
            if all(s is not None and not (len(wide) > 1 and wide <= free_indices(s.value)) for s in sides):
                made = tuple(e for s in sides if s is not None for e in s.equations)
                gone = {i for e in made if isinstance(e.body, Fold) for i in e.body.bound}
                bound = tuple(b for b in net.bound if b not in gone)
                yield *made, *_ends(net, tuple(s.value for s in sides if s is not None), bound, net.scales)


def _through(net: Network, virtual: frozenset[str], known: Mapping[str, Equation]) -> Iterator[Order]:
    """A sum that takes in values that are not stored: with them goes all that holds the index they are summed over."""
    inner = tuple(f for f in net.factors if f.tensor in virtual)
    touched = indices_of(inner) | free_indices(net.domain)
    for gone in (b for b in net.bound if b in touched and b.set.cls in DATA):
        if all(gone in free_indices(c) for c in conjuncts(net.domain) if c != TRUE):
            yield from _along(net, inner, gone, known)


def _along(net: Network, inner: tuple[Read, ...], gone: Index, known: Mapping[str, Equation]) -> Iterator[Order]:
    plain = [f for f in net.factors if f not in inner]
    must = tuple(f for f in plain if gone in free_indices(f))
    others = [f for f in plain if f not in must]
    for count in range(len(others) + 1):
        for more in combinations(others, count):
            rest = tuple(f for f in others if f not in more)
            made = _streamed(net, inner, (*must, *more), rest, gone)
            if made is not None and (_has_rows(net, gone, made) or all(surely_finite(f, known) for f in rest)):
                yield made


def _has_rows(net: Network, gone: Index, made: Order) -> bool:
    """Whether the sum over `gone` has a point in each row: its 0 over none may not meet what is infinite."""
    summed = next(e for e in made if isinstance(e.body, Fold) and gone in e.body.bound)
    return witnessed(net.domain, (gone,), summed.indices)


def _streamed(
    net: Network, inner: tuple[Read, ...], chosen: tuple[Read, ...], rest: tuple[Read, ...], gone: Index
) -> Order | None:
    """The sum over `gone` of the values not stored with what is chosen, then what scales it, then the rest."""
    touched = indices_of(inner) | free_indices(net.domain)
    side = _Side.of(net, chosen, touched | indices_of(rest) | indices_of(t for _, t in net.scales)) if chosen else None
    if chosen and side is None:
        return None
    parts = (*inner, side.value) if side is not None else inner
    kept = indices_of(parts) - {gone}
    if not free_indices(net.domain) <= kept | {gone}:
        return None
    before = side.equations if side is not None else ()
    bound = tuple(b for b in net.bound if b in kept or b in indices_of(rest))
    whole = not rest and not bound
    if whole and not net.scales:
        return *before, Equation(net.root.target, net.root.axes, net.root.domain, _sum((gone,), net.domain, parts),
                                 net.root.source)
    name = net.root.target if whole else TIMES.join([net.root.target, *(f.tensor for f in chosen)])
    axes = net.root.axes if whole else _axes(kept)
    here = tuple(s for s in net.scales if free_indices(s[1]) <= kept)
    after = tuple(s for s in net.scales if s not in here)
    if whole and after:
        return None
    summed = Equation(f"{name}_sum".replace(TIMES, "_") if here else name, axes, TRUE, _sum((gone,), net.domain, parts))
    value = Read(summed.target, axes)
    if whole:
        return *before, summed, Equation(net.root.target, axes, net.root.domain, _times(value, here), net.root.source)
    made: Order = (*before, summed)
    if here:
        made = *made, Equation(name, axes, TRUE, _times(value, here))
        value = Read(name, axes)
    return *made, *_ends(net, (value, *rest), bound, after)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand: a factor, or the contraction of several."""

    value: Read
    equations: Order

    @staticmethod
    def of(net: Network, parts: tuple[Read, ...], outside: frozenset[Index]) -> _Side | None:
        """None where the parts do not hang together, so that nothing is won by joining them."""
        letters = indices_of(parts)
        kept = letters & (outside | set(net.root.indices))
        bound = tuple(b for b in net.bound if b in letters - kept)
        if not bound:
            return _Side(parts[0], ()) if len(parts) == 1 else None
        if not _connected(parts):
            return None
        name, axes = TIMES.join(p.tensor for p in parts), _axes(kept)
        return _Side(Read(name, axes), (Equation(name, axes, TRUE, _sum(bound, TRUE, parts)),))


def _connected(parts: tuple[Read, ...]) -> bool:
    reached, left = free_indices(parts[0]), list(parts[1:])
    while near := next((p for p in left if free_indices(p) & reached), None):
        reached |= free_indices(near)
        left.remove(near)
    return not left


def _axes(kept: frozenset[Index]) -> tuple[Position, ...]:
    return tuple(Position(i) for i in sorted(kept, key=lambda i: (axis_order(i), i.name)))


def _sum(bound: tuple[Index, ...], domain: Term, parts: tuple[Read, ...]) -> Fold:
    return Fold("sum", bound, domain, parts[0] if len(parts) == 1 else Apply("mul", parts))


def _times(value: Term, scales: tuple[Scale, ...]) -> Term:
    above = [t for op, t in scales if op == "mul"]
    value = Apply("mul", (value, *above)) if above else value
    for op, term in scales:
        value = Apply("div", (value, term)) if op == "div" else value
    return value


def _ends(net: Network, parts: tuple[Read, ...], bound: tuple[Index, ...], scales: tuple[Scale, ...]) -> Order:
    """The root as the last product, and what scales it."""
    root = net.root
    body: Term = _sum(bound, TRUE, parts) if bound else Apply("mul", parts) if len(parts) > 1 else parts[0]
    if not (bound and scales):
        return (Equation(root.target, root.axes, root.domain, _times(body, scales), root.source),)
    total = Equation(f"{root.target}_sum", root.axes, root.domain, body)
    return total, Equation(root.target, root.axes, root.domain, _times(Read(total.target, root.axes), scales),
                           root.source)
