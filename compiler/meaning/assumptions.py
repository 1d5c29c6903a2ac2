"""What is assumed to be equal, as a rule on forms: where the factors of one side stand in
a product, the other side stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from einc.ir.indices import Index
from einc.ir.terms import TRUE, Position, Read, Term, both, free_indices
from einc.meaning.polynomial_form import folded, opened, put, remade, renamed
from einc.meaning.polynomials import (
    Atom,
    Form,
    Monomial,
    Unformed,
    added,
    atom,
    exponential,
    free,
    multiplied,
    number,
    raised,
    times,
)

_ROUNDS = 20


@dataclass(frozen=True)
class Rule:
    """A product of reads over some bound indices, and what it is; `letters` stand for anything."""

    factors: tuple[tuple[Read, int], ...]
    bound: frozenset[Index]
    letters: frozenset[Index]
    result: Form


def rule(left: Form, right: Form) -> Rule | None:
    """The side with more factors is rewritten to the other; None where neither is a product of reads."""
    sides = [(found, b) for a, b in ((left, right), (right, left)) if (found := _product(a)) is not None]
    sides.sort(key=lambda x: -(len(x[0][0]) + len(x[0][1])))
    if not sides:
        return None
    (factors, bound, coefficient), result = sides[0]
    letters = (free(left) | free(right)) - bound
    by = {i: Index(f"&{i.name}", i.set) for i in letters}
    places: dict[Index, Term] = {i: Position(new) for i, new in by.items()}
    named = [(_with(x, places), n) for x, n in factors]
    return Rule(tuple(named), bound, frozenset(by.values()), times(renamed(result, by), number(1 / coefficient)))


def _with(read: Read, by: dict[Index, Term]) -> Read:
    return Read(read.tensor, tuple(by.get(x.index, x) if isinstance(x, Position) else x for x in read.subs))


def _product(found: Form) -> tuple[list[tuple[Read, int]], frozenset[Index], Fraction] | None:
    """The reads of a product, its bound indices and its coefficient."""
    if len(found) != 1:
        return None
    (monomial, coefficient), = found
    bound: tuple[Index, ...] = ()
    if len(monomial.powers) == 1 and monomial.powers[0][0].op == "fold sum" and monomial.powers[0][1] == 1:
        _, ((monomial, _),), _, bound = opened(monomial.powers[0][0])
    out = []
    for x, n in monomial.powers:
        match x.terms:
            case (Read(_, subs) as read,) if (
                x.op == "term" and n > 0 and all(isinstance(sub, Position) for sub in subs)
            ):
                out.append((read, n))
            case _:
                return None
    return (out, frozenset(bound), coefficient) if out and not monomial.exponent else None


def rewritten(found: Form, rules: tuple[Rule, ...]) -> Form:
    """The form with every rule applied wherever it can be."""
    return added(*(_rewritten(m, c, rules) for m, c in found)) if rules else found


def _rewritten(found: Monomial, coefficient: Fraction, rules: tuple[Rule, ...]) -> Form:
    powers = (raised(_atom(x, rules), n) for x, n in found.powers)
    made = multiplied([number(coefficient), exponential(rewritten(found.exponent, rules)), *powers])
    for _ in range(_ROUNDS):
        applied = [(_applied(m, (), rules), m, c) for m, c in made]
        if not any(new for new, _, _ in applied):
            return made
        made = added(*(((m, c),) if new is None else times(new[0], number(c)) for new, m, c in applied))
    raise Unformed


def _atom(found: Atom, rules: tuple[Rule, ...]) -> Form:
    """An atom with the rules applied inside it and, where it is a sum, to the product that is summed."""
    if not found.forms:
        return atom(found)
    if not found.op.startswith("fold "):
        return remade(found, tuple(rewritten(f, rules) for f in found.forms))
    op, inner, terms, bound = opened(found)
    inner = rewritten(inner, rules)
    new = _applied(inner[0][0], bound, rules) if op == "sum" and len(inner) == 1 and not terms else None
    if new is None:
        return folded(op, bound, both(*terms), inner)
    made, left = times(new[0], number(inner[0][1])), new[1]
    return rewritten(folded(op, left, TRUE, made) if left else made, rules)


def _applied(found: Monomial, bound: tuple[Index, ...],
             rules: tuple[Rule, ...]) -> tuple[Form, tuple[Index, ...]] | None:
    """What a product over bound indices is by the first rule that fits, with the indices that are still bound."""
    for one in rules:
        for by, used in _matches(one, list(one.factors), dict(found.powers), {}):
            left = tuple((x, n - used.get(x, 0)) for x, n in found.powers)
            rest = Monomial(found.exponent, tuple((x, n) for x, n in left if n))
            gone = {x.index for i in one.bound if isinstance(x := by.get(i), Position)}
            if len(gone) == len(one.bound) and gone <= set(bound) and not gone & (rest.free | _used(one, by)):
                result = put(one.result, {i: t for i, t in by.items() if i in one.letters})
                return times(((rest, Fraction(1)),), result), tuple(i for i in bound if i not in gone)
    return None


def _used(one: Rule, by: dict[Index, Term]) -> frozenset[Index]:
    return frozenset[Index]().union(*(free_indices(by[i]) for i in one.letters if i in by))


def _matches(one: Rule, left: list[tuple[Read, int]], powers: dict[Atom, int], by: dict[Index, Term]
             ) -> Iterator[tuple[dict[Index, Term], dict[Atom, int]]]:
    """Every way to find the factors among those of a product: what the letters are, and
    how often each factor is used."""
    if not left:
        yield by, {}
        return
    (wanted, n), *others = left
    for x, power in powers.items():
        match x.terms:
            case (Read(tensor, subs),) if x.op == "term" and tensor == wanted.tensor and power >= n:
                if (now := _unified(wanted, subs, by, one)) is not None:
                    for found, used in _matches(one, others, {**powers, x: power - n}, now):
                        yield found, {**used, x: used.get(x, 0) + n}


def _unified(wanted: Read, subs: tuple[Term, ...], by: dict[Index, Term], one: Rule) -> dict[Index, Term] | None:
    now = dict(by)
    for want, sub in zip(wanted.subs, subs, strict=True):
        assert isinstance(want, Position)
        if want.index in one.letters | one.bound:
            if now.setdefault(want.index, sub) != sub:
                return None
        elif want != sub:
            return None
    return now
