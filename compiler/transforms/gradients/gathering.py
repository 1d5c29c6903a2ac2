"""Sums of products by the factors that they share: x a + x b is x (a + b), which is formed in fewer steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from einc.ir.sums import added, factors
from einc.ir.terms import ONE, Apply, Const, Fold, Term, const, walk
from einc.transforms.laws.simplify import simplify


@dataclass(frozen=True)
class _Product:
    """A number times powers."""

    number: Term
    powers: Counter[Term]

    def over(self, base: Term, power: int) -> _Product:
        return _Product(self.number, self.powers - Counter({base: power}))

    def term(self) -> Term:
        parts = [base if n == 1 else Apply("pow", (base, const(n))) for base, n in self.powers.items()]
        kept = [p for p in (self.number, *parts) if p != ONE]
        return ONE if not kept else kept[0] if len(kept) == 1 else Apply("mul", tuple(kept))


def gathered(term: Term) -> Term:
    """A sum of products with the factor that most of them have taken out first; a term with folds stays as it is."""
    if not isinstance(term, Apply) or term.op != "add" or any(isinstance(x, Fold) for x in walk(term)):
        return term
    products = [_product(t) for t in term.args]
    return term if _common(products) is None else simplify(_sum(products))


def _sum(products: list[_Product]) -> Term:
    """The sum of the products with their commonest factors taken out, one after the other."""
    base = _common(products)
    if base is None:
        return added([p.term() for p in products])
    mine = [p for p in products if base in p.powers]
    power = min(p.powers[base] for p in mine)
    inner = _sum([p.over(base, power) for p in mine])
    out = Apply("mul", (base if power == 1 else Apply("pow", (base, const(power))), inner))
    rest = [p for p in products if base not in p.powers]
    return Apply("add", (_sum(rest), out)) if rest else out


def _common(products: list[_Product]) -> Term | None:
    """The factor that most of them have, of several the first."""
    counts = Counter(base for p in products for base in p.powers)
    best = max(counts, key=lambda b: counts[b], default=None)
    return best if best is not None and counts[best] > 1 else None


def _product(term: Term) -> _Product:
    """A term as a number times powers; powers with a whole, positive exponent are counted."""
    number, powers = Fraction(1), Counter[Term]()
    for part in _parts(term):
        match part:
            case Const(Fraction() as value):
                number *= value
            case Apply("pow", (base, Const(Fraction() as n))) if n.denominator == 1 and n > 0:
                powers[base] += int(n)
            case _:
                powers[part] += 1
    return _Product(const(number), powers)


def _parts(term: Term) -> Iterator[Term]:
    match term:
        case Apply("neg", (inner,)):
            yield const(-1)
            yield from _parts(inner)
        case Apply("mul"):
            for part in factors(term):
                yield from _parts(part)
        case _:
            yield term
