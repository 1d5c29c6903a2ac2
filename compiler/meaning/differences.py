"""What two sides of a claim do not have in common, in normal form."""

from __future__ import annotations

from fractions import Fraction

from einc.ir.terms import Term
from einc.meaning.assumptions import Rule, rewritten
from einc.meaning.conditions import needed
from einc.meaning.equality import without_idle
from einc.meaning.leftover import first_terms
from einc.meaning.polynomial_form import complemented, put, solved
from einc.meaning.polynomials import MINUS, NOTHING, Atom, Form, Monomial, added, atom, times, without_quotients


def agree(domain: Form, left: Form, right: Form, rules: tuple[Rule, ...]) -> bool:
    """Whether both sides have one form where both exist."""
    total = _difference(domain, left, right, rules)
    return total == NOTHING or _substituted(complemented(total)) == NOTHING


def _difference(domain: Form, left: Form, right: Form, rules: tuple[Rule, ...]) -> Form:
    """What is left of left - right where both exist."""
    total = added(rewritten(left, rules), times(MINUS, rewritten(right, rules)))
    if total != NOTHING:
        total = rewritten(without_idle(_substituted(without_quotients(_substituted(times(domain, total))))), rules)
    return total


def _substituted(found: Form) -> Form:
    """Where indices are given by equations they are put in place; conditions that follow from others are left out."""
    return added(*(times(((Monomial((), ()), c),), _one(m, ())) for m, c in found))


def _one(found: Monomial, done: tuple[Term, ...]) -> Form:
    """One monomial with the values that its conditions give to indices in place of these, 0 if its conditions
    contradict each other; the conditions in `done` have been used already."""
    conditions = [x.terms[0] for x, _ in found.powers if x.op == "if"]
    for condition in conditions:
        known = tuple(sorted(found.free, key=lambda i: i.name, reverse=True))
        value = solved(condition, known) if condition not in done else None
        if value is not None:
            rest = Monomial(found.exponent,
                            tuple((x, n) for x, n in found.powers if x.terms != (condition,) or x.op != "if"))
            inner = put(((rest, Fraction(1)),), {value[0]: value[1]})
            here = atom(Atom("if", terms=(condition,)))
            return added(*(times(((Monomial((), ()), c),), _one(m, (*done, condition))) for m, c in times(here, inner)))
    kept = needed(conditions)
    if kept is None:
        return NOTHING
    return ((Monomial(found.exponent, tuple((x, n) for x, n in found.powers if x.op != "if" or x.terms[0] in kept)),
             Fraction(1)),)


def left_over(domain: Form, left: Form, right: Form, rules: tuple[Rule, ...]) -> str:
    """What is said of two sides whose forms differ."""
    return f"left - right leaves {first_terms(_difference(domain, left, right, rules))}"
