"""Cost formulas by sympy: an extent as a simplified expression, how it grows, where two are equal, as text and as
LaTeX.

This is the one file of the compiler that imports sympy, which takes half a second: only `einc cost` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import sympy
from sympy import Add, Expr, Max, Mul, Pow, Rational, Symbol

from einc.ir.indices import Extent
from einc.syntax.printing.tex import size_tex

Formula: TypeAlias = Any  # an expression of sympy, which states no types
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MANY = 40  # terms from which a formula is only collected by its leading size, not factorised
_LONG = 70  # characters beyond which a solution says too little to be printed


def symbol(name: str) -> Symbol:
    """The size of that name for sympy, which takes it for a positive number."""
    return Symbol(name, positive=True)


def expression(extent: Extent) -> Expr:
    """The extent as it is, term by term; quotients are not rounded."""
    return Add(*(_number(c) * Mul(*(symbol(str(n)) ** p for n, p in mono)) for mono, c in extent.smooth.terms))


def maximum(found: list[Formula]) -> Formula:
    """The largest of some formulas, of which none is known to be it."""
    return Max(*found, evaluate=False) if len(found) > 1 else found[0] if found else sympy.S.Zero


def _number(value: Fraction) -> Rational:
    return Rational(value.numerator, value.denominator)


@dataclass(frozen=True)
class Growth:
    """How an extent grows: the exponent of each size, the term that leads where all sizes grow alike, the size that
    leads it, and from where on, in that size, what has its highest power is larger than what has the next one; None
    where nothing else grows.
    """

    exponents: tuple[tuple[str, int], ...]
    leading: Expr
    dominant: str
    overtakes: Expr | None


class Formulas:
    """Expressions of some sizes; `usual` are the numbers by which terms are ordered, the largest first."""

    def __init__(self, usual: Mapping[str, float]) -> None:
        self.usual = {symbol(name): value for name, value in usual.items()}

    def size_of(self, expr: Expr) -> float:
        """The absolute value of a formula at the usual sizes, 64 for a size of which none is known."""
        return abs(float(expr.subs({s: self.usual.get(s, 64) for s in expr.free_symbols})))

    def dominant(self, extent: Extent) -> str:
        """The size with the highest exponent, of equal ones the one that is usually longest; empty for a number."""
        highest = {n: max(dict(m).get(n, 0) for m, _ in extent.smooth.terms) for n in extent.sizes}
        return max(highest, key=lambda n: (highest[n], self.usual.get(symbol(n), 64), n), default="")

    def readable(self, extent: Extent) -> Expr:
        """The shortest of a few forms: term by term, as factors, in powers of the dominant size; common factors
        stand outside.
        """
        plain = expression(extent)
        if len(extent.terms) < 2:
            return plain
        size = symbol(self.dominant(extent))
        collected = sympy.collect(plain, size, sympy.factor_terms)
        forms = [plain, sympy.factor_terms(collected)]
        forms += [sympy.factor(plain), collected] if len(extent.terms) <= _MANY else []
        return min(forms, key=lambda e: len(self.text(e)))

    def growth(self, extent: Extent) -> Growth | None:
        """How it grows; None for a number."""
        if not extent.sizes:
            return None
        extent = extent.smooth
        exponents = tuple((n, max(dict(m).get(n, 0) for m, _ in extent.terms)) for n in sorted(extent.sizes))
        name = self.dominant(extent)
        terms = [({str(n): p for n, p in m}, expression(Extent(((m, c),)))) for m, c in extent.terms]
        lead = max(terms, key=lambda t: (sum(t[0].values()), t[0].get(name, 0), self.size_of(t[1])))[1]
        return Growth(exponents, lead, name, self._overtakes(name, terms))

    def _overtakes(self, name: str, terms: list[tuple[dict[str, int], Expr]]) -> Expr | None:
        """Where the largest term with the highest power of a size equals the largest of those with the next one."""
        powers = sorted({mono.get(name, 0) for mono, _ in terms}, reverse=True)
        if len(powers) < 2:
            return None
        first, second = (max((e for m, e in terms if m.get(name, 0) == p), key=self.size_of) for p in powers[:2])
        ratio = sympy.cancel(second / first * symbol(name) ** (powers[0] - powers[1]))
        return sympy.powdenest(Pow(ratio, Rational(1, powers[0] - powers[1])), force=True)

    def equal_at(self, one: Extent, other: Extent, name: str) -> list[Expr]:
        """The positive values of a size at which two extents are equal, where they can be written down in few signs."""
        here = symbol(name)
        above = sympy.numer(sympy.together(expression(one - other)))
        found = sympy.Poly(above, here)
        if not 0 < found.degree() <= 2:
            return []
        solved = (_turned(sympy.factor(x)) for x in sympy.solve(found.as_expr(), here))
        return [x for x in solved if x.is_positive is not False and not x.has(sympy.I) and len(self.text(x)) <= _LONG]

    def ratio(self, above: Extent, below: Extent) -> Expr:
        """The quotient of two extents, cancelled, and factored where that is shorter."""
        found = sympy.cancel(expression(above) / expression(below))
        return min((found, sympy.factor(found)), key=lambda e: len(self.text(e)))

    def limit(self, above: Extent, below: Extent) -> Expr | None:
        """What the quotient comes to as the dominant size of the numerator grows; None where it has none or grows
        without end.
        """
        name = self.dominant(above)
        if not name:
            return None
        found = sympy.limit(self.ratio(above, below), symbol(name), sympy.oo)
        return None if found.has(sympy.oo, sympy.zoo, sympy.nan) else sympy.factor(found)

    # as text

    def text(self, expr: Expr) -> str:
        """In as few signs as can be, the largest term first: `2·H·T²·d_k`."""
        return self._text(expr)[0]

    def _text(self, expr: Expr) -> tuple[str, int]:
        """The text and how tightly it binds: 0 a sum, 1 a product or a quotient, 2 an atom."""
        match expr:
            case Rational():
                return decimal(expr), 2 if expr >= 0 and expr.q == 1 else 1
            case Symbol():
                return expr.name, 2
            case Add():
                return self._sum(self.ordered(expr)), 0
            case Mul():
                return self._product(expr)
            case Pow() if expr.exp == Rational(1, 2):
                return f"√({self.text(expr.base)})", 2
            case Pow() if expr.exp.is_Integer and expr.exp > 0:
                return self.at(expr.base, 2) + str(expr.exp).translate(_POWERS), 2
            case Pow() if expr.exp.is_Rational and expr.exp < 0:
                return f"1/{self.at(1 / expr, 2)}", 1
            case sympy.Max():
                return f"max({', '.join(map(self.text, self.ordered(expr)))})", 2
        return str(expr), 2

    def ordered(self, expr: Expr) -> list[Expr]:
        """The arguments of a sum or a maximum, the largest at usual sizes first."""
        return sorted(expr.args, key=lambda e: (-self.size_of(e), str(e)))

    def at(self, expr: Expr, level: int) -> str:
        """The text, in parentheses where it binds less tightly."""
        shown, mine = self._text(expr)
        return f"({shown})" if mine < level else shown

    def _sum(self, terms: Iterable[Expr]) -> str:
        first, *rest = (self.at(t, 1) for t in terms)
        return first + "".join(f" - {t[1:]}" if t.startswith("-") else f" + {t}" for t in rest)

    def _product(self, expr: Expr) -> tuple[str, int]:
        """The text of a product, its numbers first and its divisors after `/`, and 1, which is how tightly it binds."""
        number, rest = expr.as_coeff_Mul()
        above, below = sympy.fraction(rest)
        divisor = []
        if not decimal(abs(number)).replace(".", "").isdigit():  # no short decimal is exact
            number, divisor = sympy.Integer(number.p), [str(number.q)]
        said = [decimal(abs(number))] if abs(number) != 1 else []
        said += sorted((self.at(f, 2) for f in Mul.make_args(above) if f != 1), key=lambda t: ("(" in t, t))
        divisor += sorted((self.at(f, 2) for f in Mul.make_args(below) if f != 1), key=lambda t: ("(" in t, t))
        under = "·".join(divisor)
        shown = "-" * bool(number < 0) + ("·".join(said) or "1")
        return shown + (f"/({under})" if len(divisor) > 1 else f"/{under}" if under else ""), 1

    # as LaTeX

    def tex(self, expr: Expr) -> str:
        """In the same order, by sympy's printer."""
        names = {s: _name_tex(s.name) for s in expr.free_symbols}
        if isinstance(expr, Add):
            first, *rest = (sympy.latex(t, symbol_names=names) for t in self.ordered(expr))
            return str(first) + "".join(f" - {t[1:]}" if t.startswith("-") else f" + {t}" for t in rest)
        return str(sympy.latex(expr, symbol_names=names))


def _name_tex(name: str) -> str:
    axis = name.removeprefix("tile(").removesuffix(")")
    return size_tex(name) if axis == name else rf"\tau_{{{size_tex(axis)}}}"


def _turned(quotient: Expr) -> Expr:
    """The quotient with signs that are no minus before the whole where that can be."""
    above, below = sympy.fraction(quotient)
    return -above / sympy.expand(-below) if above.could_extract_minus_sign() and not below.is_Number else quotient


def decimal(value: Rational) -> str:
    """`2.5`, and a quotient where no short decimal is exact."""
    shown = f"{float(value):g}"
    return shown if "e" not in shown and Fraction(shown) == Fraction(int(value.p), int(value.q)) else str(value)
