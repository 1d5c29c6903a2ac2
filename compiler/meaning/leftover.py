"""A form as short text, for messages about what two sides do not have in common."""

from __future__ import annotations

from fractions import Fraction

from einc.checking.expressions.rules import show_domain
from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.terms import Position, Term, free_indices, substitute
from einc.meaning.polynomials import INFINITY, Atom, Form, Monomial

_TERMS, _LETTERS = 3, "ijklmn"


def first_terms(found: Form) -> str:
    """The first terms of a form; bound indices have letters of their own."""
    shown = " ".join(_signed(m, c, n == 0) for n, (m, c) in enumerate(found[:_TERMS])) or "0"
    more = len(found) - _TERMS
    return f"{shown} and {more} more" if more > 0 else shown


def _all(found: Form) -> str:
    return " ".join(_signed(m, c, n == 0) for n, (m, c) in enumerate(found)) or "0"


def _signed(found: Monomial, coefficient: Fraction, first: bool) -> str:
    sign = "-" if coefficient < 0 else "" if first else "+"
    factors = [f"e^({_all(found.exponent)})"] if found.exponent else []
    factors += [_power(x, n) for x, n in found.powers]
    if abs(coefficient) != 1 or not factors:
        factors.insert(0, str(abs(coefficient)))
    return f"{sign}{'' if first else ' '}{' '.join(factors)}"


def _power(found: Atom, power: int) -> str:
    text = _atom(found)
    return text if power == 1 else f"({text})^{power}"


def _atom(found: Atom) -> str:
    """An atom as text: a size by its name, a condition as an indicator, a fold with its bound indices and domain."""
    if found == INFINITY or found.op.startswith("|"):
        return found.op.strip("|")
    if found.op in ("term", "if"):
        text = show_domain(_lettered(found.terms[0]))
        return f"1[{text}]" if found.op == "if" else text
    if found.op.startswith("fold "):
        sign = "Σ" if FOLDS[found.op[5:]].linear else found.op[5:]
        where = "".join(f", {show_domain(_lettered(t))}" for t in found.terms)
        return f"{sign}_{{{' '.join(_letter(i) for i in found.bound)}{where}}} ({_all(found.forms[0])})"
    return f"{'' if found.op == 'sum' else found.op}({', '.join(_all(f) for f in found.forms)})"


def _letter(index: Index) -> str:
    """A letter for the name that a bound index has by its place."""
    if not index.name.startswith("%"):
        return index.name
    height, _, n = index.name[1:].partition(".")
    return (_LETTERS[int(n)] if int(n) < len(_LETTERS) else f"i{n}") + "'" * (int(height) - 1)


def _lettered(term: Term) -> Term:
    found = [i for i in free_indices(term) if i.name.startswith("%")]
    return substitute(term, {i: Position(Index(_letter(i), i.set)) for i in found})
