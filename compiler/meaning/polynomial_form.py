"""Term -> Form. A sum of products over any indices, nested in any way, is one
contraction, its bound indices named by their place.

What does not move with a bound index stands outside; sums are distributed; an index that a condition gives is put in
place; the domain of a sum is a product of indicators. So two sums are equal if their forms are, whatever the order they
were written in. Why sympy does not serve here is said in `forms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count

from einc.ir.domains import Linear, is_whole, linear, negation, proves
from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.indices import number as exactly
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    canonical,
    conjuncts,
    const,
    substitute,
)
from einc.meaning.conditions import indicator, needed, normal_condition, oriented, sum_of, tidied
from einc.meaning.labels import ordered
from einc.meaning.one_part import in_one_part
from einc.meaning.polynomials import (
    INFINITY,
    MINUS,
    NOTHING,
    ONE,
    UNIT,
    Atom,
    Form,
    Monomial,
    Unformed,
    added,
    applied,
    atom,
    collected,
    exponential,
    extent,
    free,
    infinite,
    multiplied,
    number,
    raised,
    spelled,
    times,
    written,
)

_FRESH = count()  # of names that no text has and no form keeps


@lru_cache(4_096)
def form(term: Term) -> Form:
    """The term as a polynomial over its atoms. Terms with equal forms are equal; what has no form of its own, such as a
    fold whose order counts, is one atom."""
    match term:
        case Const(value):
            sign = number(1 if value > 0 else -1)
            return number(value) if isinstance(value, Fraction) else times(sign, atom(INFINITY))
        case Size(size):
            return extent(size)
        case Pack() | Part():
            found = linear(term)
            if found is not None:
                return added(extent(found.constant), *(times(extent(c), form(x)) for x, c in found.atoms))
        case Apply(op, args) if op != "pick" and not any(isinstance(x, Fold) and FOLDS[x.op].ordered for x in args):
            return applied(op, tuple(map(form, args)))
        case Where(condition, then):
            holds = indicator(condition)
            return times(holds, form(then)) if holds else NOTHING
        case Fold(op, bound, domain, body) if not FOLDS[op].ordered:
            return folded(op, bound, domain, form(body))
        case Position() | Read():
            return atom(Atom("term", terms=(tidied(term),)))
    return atom(Atom("term", terms=(canonical(term),)))


# other names, and other things in place of names


def renamed(found: Form, by: Mapping[Index, Index]) -> Form:
    """The form with other names for free indices; no two become one."""
    return collected((_renamed(m, by), c) for m, c in found)


def _renamed(found: Monomial, by: Mapping[Index, Index]) -> Monomial:
    if not found.free & by.keys():
        return found
    powers = ((_other(x, by), n) for x, n in found.powers)
    return Monomial(renamed(found.exponent, by), tuple(sorted(powers, key=lambda x: x[0].text)))


def _other(found: Atom, by: Mapping[Index, Index]) -> Atom:
    if not found.free & by.keys():
        return found
    places: dict[Index, Term] = {i: Position(new) for i, new in by.items()}
    forms = tuple(renamed(f, by) for f in found.forms)
    if found.op in ("max", "min"):
        forms = tuple(sorted(forms, key=written))
    way = {"if": oriented, "term": tidied}.get(found.op, oriented)
    return Atom(found.op, forms, tuple(sorted((way(substitute(t, places)) for t in found.terms), key=spelled)),
                found.bound)


@dataclass(frozen=True)
class Change:
    """What stands in place of terms and conditions that hold one of the moving indices
    (all: None), and of a fold's conditions."""

    leaf: Callable[[Atom], Form]
    condition: Callable[[Term], Term]
    moving: frozenset[Index] | None = None

    def touches(self, found: Atom | Monomial) -> bool:
        """Whether the change concerns an atom or a monomial: it holds a moving index, or `moving` is None."""
        return self.moving is None or bool(found.free & self.moving)


def rebuilt(found: Form, change: Change) -> Form:
    """The form made again with a change to its leaves."""
    return added(*(_again(m, c, change) for m, c in found))


def _again(found: Monomial, coefficient: Fraction, change: Change) -> Form:
    if not change.touches(found):
        return ((found, coefficient),)
    powers = (raised(_made(x, change), n) if change.touches(x) else atom(x, n) for x, n in found.powers)
    return multiplied([number(coefficient), exponential(rebuilt(found.exponent, change)), *powers])


def _made(found: Atom, change: Change) -> Form:
    if found.op.startswith("fold "):
        op, inner, terms, bound = opened(found)
        return folded(op, bound, both(*map(change.condition, terms)), rebuilt(inner, change))
    if found.forms:
        return remade(found, tuple(rebuilt(f, change) for f in found.forms))
    return change.leaf(found)


def remade(found: Atom, forms: tuple[Form, ...]) -> Form:
    """A function, or the sum that something is divided by, of other forms."""
    return forms[0] if found.op == "sum" else applied(found.op, forms)


def complemented(found: Form) -> Form:
    """The form with one condition in place of two of which one holds where the other does not: 1[p] is 1 - 1[not p]."""
    def leaf(here: Atom) -> Form:
        other = oriented(negation(here.terms[0])) if here.op == "if" else None
        if other is None or other == here.terms[0] or spelled(here.terms[0]) < spelled(other):
            return atom(here)
        return added(ONE, times(MINUS, atom(Atom("if", terms=(other,)))))

    return rebuilt(found, Change(leaf, lambda condition: condition))


def opened(found: Atom) -> tuple[str, Form, tuple[Term, ...], tuple[Index, ...]]:
    """A fold's kind, body, conditions and indices, under names of their own."""
    by = {i: Index(f"&{next(_FRESH)}", i.set) for i in found.bound}
    places: dict[Index, Term] = {i: Position(new) for i, new in by.items()}
    terms = tuple(oriented(substitute(t, places)) for t in found.terms)
    return found.op.removeprefix("fold "), renamed(found.forms[0], by), terms, tuple(by.values())


def put(found: Form, by: Mapping[Index, Term]) -> Form:
    """The form with terms in place of free indices."""
    def leaf(here: Atom) -> Form:
        if not here.free & by.keys():
            return atom(here)
        term = substitute(here.terms[0], by)
        return indicator(term) if here.op == "if" else form(term)

    return rebuilt(found, Change(leaf, lambda condition: substitute(condition, by), frozenset(by)))


# folds


def folded(op: str, bound: tuple[Index, ...], domain: Term, body: Form) -> Form:
    """What does not move with the bound indices leaves the fold, by the law of its kind. Raises Unformed."""
    if FOLDS[op].linear:
        if infinite(body):
            raise Unformed
        whole = times(indicator(domain), body)
        return added(*(times(number(c), _contracted(bound, m)) for m, c in whole))
    conditions = needed(normal_condition(c) for c in conjuncts(domain) if normal_condition(c) != TRUE)
    if conditions is None:
        return form(const(FOLDS[op].start if math.isinf(FOLDS[op].start) else int(FOLDS[op].start)))
    moving = frozenset(bound)
    if FOLDS[op].start in (math.inf, -math.inf):
        inner = tuple((m, c) for m, c in body if m.free & moving)
        if not inner and not conditions:
            return body
        return added(tuple(x for x in body if x not in inner), atom(_labelled(op, bound, inner, conditions)))
    if FOLDS[op].step == "mul" and len(body) == 1:
        return _by_factors(op, bound, conditions, *body[0])
    return atom(_labelled(op, bound, body, conditions))


def _by_factors(op: str, bound: tuple[Index, ...], conditions: tuple[Term, ...], found: Monomial,
                coefficient: Fraction) -> Form:
    """The fold of a product by multiplication: the product of the folds of its factors, and for exponentials that of
    the sum of their exponents. What divides stays in the fold, where it may be 0."""
    apart = [(x, n) for x, n in found.powers if n > 0]
    rest = Monomial((), tuple(x for x in found.powers if x not in apart))
    if infinite(found.exponent) or (len(apart) == 1 and apart[0][1] == 1 and not found.exponent
                                    and rest == UNIT and coefficient == 1):
        return atom(_labelled(op, bound, ((found, coefficient),), conditions))
    made = [exponential(folded("sum", bound, both(*conditions), found.exponent))] if found.exponent else []
    made += [raised(atom(_labelled(op, bound, atom(x), conditions)), n) for x, n in apart]
    if rest != UNIT or coefficient != 1:
        made.append(atom(_labelled(op, bound, ((rest, coefficient),), conditions)))
    return multiplied(made)


def _contracted(bound: tuple[Index, ...], found: Monomial) -> Form:
    """The sum of one product over the indices."""
    for x, _ in found.powers:
        given = solved(x.terms[0], bound) if x.op == "if" else None
        if given is not None:
            index, value, conditions = given
            rest = _without(found, x)
            inner = times(indicator(both(*conditions)), put(((rest, Fraction(1)),), {index: value}))
            left = tuple(i for i in bound if i != index)
            return folded("sum", left, TRUE, inner) if left else inner
    for index in bound:
        counted = _counted(found, index) or in_one_part(found, index)
        if counted is not None:
            left = tuple(i for i in bound if i != index)
            return folded("sum", left, TRUE, counted) if left else counted
    moving = frozenset(bound)
    for x, n in found.powers:
        if x.op == "fold sum" and n > 0 and x.free & moving:
            product: Form = ((_without(found, x), Fraction(1)),)
            indices = bound
            for _ in range(n):
                _, inner, _, more = opened(x)
                product, indices = times(product, inner), indices + more
            return folded("sum", indices, TRUE, product)
    return multiplied(_parts(bound, found))


def _counted(found: Monomial, index: Index) -> Form | None:
    """The sum over an index that stands in comparisons alone: from the one below it to
    the one above it there are so many."""
    about = [x for x, _ in found.powers if index in x.free]
    if index in free(found.exponent) or not about or any(x.op != "if" for x in about):
        return None
    bounds = {1: [Linear((), exactly(index.set.start))],
              -1: [Linear((), index.set.extent + exactly(index.set.start - 1))]}
    for x in about:
        side = x.terms[0].args[1] if isinstance(x.terms[0], Apply) and x.terms[0].op == "le" else None
        form_ = None if side is None else linear(side)
        sign = None if form_ is None else form_.coefficient(Position(index)).constant
        if form_ is None or sign not in (1, -1) or not is_whole(form_):
            return None
        bounds[int(sign)].append(Linear((), exactly(0)).plus(form_.without(Position(index)), exactly(-sign)))
    given = both(*(x.terms[0] for x, _ in found.powers if x.op == "if" and x not in about))
    ends = [_furthest(bounds[sign], sign, given) for sign in (1, -1)]
    if ends[0] is None or ends[1] is None:
        return None
    low, high = map(sum_of, (ends[0], ends[1]))
    rest = collected([(Monomial(found.exponent, tuple(x for x in found.powers if x[0] not in about)), Fraction(1))])
    none = proves(given, Apply("le", (low, Apply("add", (high, const(1))))))  # then the number is 0, as it should be
    some = ONE if none else indicator(Apply("le", (low, high)))
    return times(rest, times(some, added(form(high), times(MINUS, form(low)), ONE)))


def _furthest(bounds: list[Linear], sign: int, given: Term) -> Linear | None:
    """The bound that says the most, wherever the others are; None where no one does."""
    for one in bounds:
        pairs = ((sum_of(other), sum_of(one)) if sign > 0 else (sum_of(one), sum_of(other)) for other in bounds)
        if all(proves(given, Apply("le", pair)) for pair in pairs):
            return one
    return None


def _without(found: Monomial, x: Atom) -> Monomial:
    return Monomial(found.exponent, tuple((y, n) for y, n in found.powers if y != x))


def solved(condition: Term, bound: tuple[Index, ...]) -> tuple[Index, Term, tuple[Term, ...]] | None:
    """An index that an equation gives, its value, and what says that the value is in its range."""
    match condition:
        case Apply("eq", (Size(), side)):
            found = linear(side)
        case _:
            return None
    if found is None or not all(isinstance(x, Position) for x, _ in found.atoms):
        return None
    for index in bound:
        c = found.coefficient(Position(index)).constant
        if c in (1, -1):
            rest = found.without(Position(index))
            if all(x.denominator == 1 for e in (rest.constant, *(e for _, e in rest.atoms)) for _, x in e.terms):
                value = sum_of(Linear((), exactly(0)).plus(rest, exactly(-c)))
                low = Apply("le", (Size(exactly(index.set.start)), value))
                high = Apply("le", (value, Size(index.set.extent + exactly(index.set.start - 1))))
                same = isinstance(value, Position) and value.index.set == index.set
                return index, value, () if same else (low, high)
    return None


def _parts(bound: tuple[Index, ...], found: Monomial) -> Iterator[Form]:
    """Factors that share no index are sums of their own."""
    moving = frozenset(bound)
    pieces = [m for ((m, _),) in _pieces(found)]
    for piece in pieces:
        if not piece.free & moving:
            yield ((piece, Fraction(1)),)
    pieces = [p for p in pieces if p.free & moving]
    left = list(bound)
    while left:
        group, reached = set[Index](), {left[0]}
        while reached != group:
            group = set(reached)
            reached |= {i for p in pieces if p.free & group for i in p.free & moving}
        left = [i for i in left if i not in group]
        yield _one_sum(tuple(i for i in bound if i in group), [p for p in pieces if p.free & group])


def _one_sum(bound: tuple[Index, ...], pieces: list[Monomial]) -> Form:
    """The sum of a product of pieces over the bound indices; without pieces, the number of points. It is 0 where their
    conditions contradict each other; conditions that follow from others are left out.
    """
    if not pieces:
        return multiplied(extent(i.set.extent) for i in bound)
    conditions = needed(t for p in pieces for x, _ in p.powers if x.op == "if" for t in x.terms)
    if conditions is None:
        return NOTHING
    holds = {Atom("if", terms=(c,)) for c in conditions}
    kept = [p for p in pieces if not p.powers or p.powers[0][0].op != "if" or p.powers[0][0] in holds]
    if len(kept) < len(pieces):  # what is left may fall apart
        return multiplied(_parts(bound, _joined(kept)))
    return atom(_labelled("sum", bound, ((_joined(kept), Fraction(1)),), ()))


def _joined(pieces: Iterable[Monomial]) -> Monomial:
    pieces = list(pieces)
    exponent = collected(x for p in pieces for x in p.exponent)
    return Monomial(exponent, tuple(sorted((x for p in pieces for x in p.powers), key=lambda x: x[0].text)))


def _labelled(op: str, bound: tuple[Index, ...], body: Form, conditions: tuple[Term, ...]) -> Atom:
    """The fold, its indices named by how many folds are inside and by where they stand."""
    holds = [((Monomial((), ((Atom("if", terms=(c,)), 1),)), Fraction(1)),) for c in conditions]
    items = [piece for x in body for piece in (_pieces(x[0]) if FOLDS[op].linear else [(x,)])]
    order = ordered([*items, *holds], bound, free, lambda x, names: written(renamed(x, names)))
    height = 1 + max((n for m, _ in body for n in _heights(m)), default=0)
    by = {i: Index(f"%{height}.{n}", i.set) for n, i in enumerate(order)}
    places: dict[Index, Term] = {i: Position(new) for i, new in by.items()}
    terms = tuple(sorted((oriented(substitute(c, places)) for c in conditions), key=spelled))
    return Atom(f"fold {op}", (renamed(body, by),), terms, tuple(by.values()))


def _pieces(found: Monomial) -> list[Form]:
    """The factors of a product."""
    factors = [*(Monomial((x,), ()) for x in found.exponent), *(Monomial((), (x,)) for x in found.powers)]
    return [((x, Fraction(1)),) for x in factors]


def _heights(found: Monomial) -> Iterator[int]:
    """How deep the folds of a monomial are nested."""
    for inner, _ in found.exponent:
        yield from _heights(inner)
    for x, _ in found.powers:
        yield x.op.startswith("fold ") + max((n for f in x.forms for m, _ in f for n in _heights(m)), default=0)
