"""What a round makes, as a sum of products with at most one read of a state each.

Only what holds a state is multiplied out; everything else stays a factor. A value of the round that holds a state is
opened where it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import product as choices_of

from einc.ir.indices import Index
from einc.ir.primitives import NONNEGATIVE, POSITIVE
from einc.ir.programs import Equation
from einc.ir.signs import sign
from einc.ir.sums import factors, inverse, parted, product
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    children,
    const,
    free_indices,
    reads,
    substitute,
)


@dataclass(frozen=True)
class NotAffine(Exception):  # noqa: N818 - an answer, not a fault
    """A term that holds a state and is no sum of products."""

    term: Term


@dataclass(frozen=True)
class Product:
    """Factors without a state, the letters that are summed, and the read of a state, if there is one."""

    factors: tuple[Term, ...]
    bound: tuple[Index, ...] = ()
    read: Read | None = None

    def times(self, other: Product) -> Product:
        """The product of two; NotAffine where both read a state."""
        if self.read is not None and other.read is not None:
            raise NotAffine(Apply("mul", (self.read, other.read)))
        return Product((*self.factors, *other.factors), (*self.bound, *other.bound), self.read or other.read)


@dataclass
class Products:
    """The products of terms of one round: `states` are read as they are, and `moving` are the values that hold one.
    Of other values of the round, the `still`, those that are products are opened too: their factors may part.

    Letters that a fold binds get names that no text has, each time anew; `count` is how many there were. `known` are
    all equations of the program: a quotient parts where they say that its divisor is positive, since 0 / 0 is 0, which
    0 times 1 / 0 is not.
    """

    states: Set[str]
    moving: Mapping[str, Equation]
    still: Mapping[str, Equation]
    known: Mapping[str, Equation]
    count: int = field(default=0)

    def of(self, term: Term) -> list[Product]:
        """The products whose sum a term is. Raises NotAffine."""
        if not self.holds(term):
            return [Product(tuple(self._parted(term)))]
        match term:
            case Read(tensor) if tensor in self.states:
                return [Product((), (), term)]
            case Read(tensor, subs):
                return self._opened(self.moving[tensor], subs)
            case Apply("add", args):
                return [p for x in args for p in self.of(x)]
            case Apply("sub", (x, y)):
                return [*self.of(x), *(Product((const(-1),)).times(p) for p in self.of(y))]
            case Apply("neg", (x,)):
                return [Product((const(-1),)).times(p) for p in self.of(x)]
            case Apply("mul", args):
                out = [Product(())]
                for arg in args:
                    out = [p.times(q) for p in out for q in self.of(arg)]
                return out
            case Apply("div", (above, below)) if not self.holds(below):
                if not self._positive(below):
                    return [self._share(p, below) for p in self.of(above)]
                under = Product(tuple(map(inverse, self._factors(below))))
                return [p.times(under) for p in self.of(above)]
            case Where(condition, then) if not self.holds(condition):
                return [Product((Where(condition, ONE),)).times(p) for p in self.of(then)]
            case Fold("sum", bound, domain, body) if not self.holds(domain):
                return self._folded(bound, domain, body)
        raise NotAffine(term)

    def holds(self, term: Term) -> bool:
        """Whether a term reads a state, or a value that holds one."""
        return any(r.tensor in self.states or r.tensor in self.moving for r in reads(term))

    def _parted(self, term: Term) -> Iterator[Term]:
        for factor in self._factors(term):
            made = self.still.get(factor.tensor) if isinstance(factor, Read) else None
            if isinstance(factor, Read) and made is not None and made.domain == TRUE and _is_product(made.body):
                yield from self._parted(made.at(factor.subs))
            else:
                yield factor

    def _positive(self, divisor: Term) -> bool:
        """Whether a divisor is never 0, as far as the equations say so; a number made of sizes is not."""
        return not (free_indices(divisor) or any(reads(divisor))) or sign(divisor, self.known) == POSITIVE

    def _share(self, p: Product, total: Term) -> Product:
        """A product with some of its factors divided by a total that may be 0. These are an addend of the total, and no
        addend is negative: where the total is 0, so are they, and 0 / 0 is 0. Raises NotAffine where none are."""
        made = self.known.get(total.tensor) if isinstance(total, Read) else None
        whole = made.at(total.subs) if made is not None and isinstance(total, Read) and made.domain == TRUE else total
        if isinstance(whole, Fold) and whole.op == "sum" and sign(whole, self.known) >= NONNEGATIVE:
            here = sorted({i for f in p.factors for i in free_indices(f)}, key=lambda i: i.name)
            for letters in choices_of(*([i for i in here if i.set == j.set] for j in whole.bound)):
                by: dict[Index, Term] = {i: Position(j) for i, j in zip(whole.bound, letters, strict=True)}
                gate, addend = substitute(whole.domain, by), factors(substitute(whole.body, by))
                inside = gate == TRUE or Where(gate, ONE) in p.factors
                if len({*letters}) == len(letters) and inside and not Counter(addend) - Counter(p.factors):
                    rest = (Counter(p.factors) - Counter(addend)).elements()
                    return replace(p, factors=(*rest, Apply("div", (product(addend), total))))
        raise NotAffine(Apply("div", (product(p.factors), total)))

    def _factors(self, term: Term) -> tuple[Term, ...]:
        """The factors of a term, also within products, and below a stroke where nothing there is 0."""
        return tuple(f for f in parted(term, self._parts) if f != ONE)

    def _parts(self, quotient: Term) -> bool:
        """Whether a quotient has more than two factors, and a divisor that is not 0."""
        above, below = children(quotient)
        return (len(factors(above)) > 1 or len(factors(below)) > 1) and self._positive(below)

    def _opened(self, equation: Equation, subs: tuple[Term, ...]) -> list[Product]:
        domain = Equation(equation.target, equation.axes, TRUE, equation.domain).at(subs)
        body = equation.at(subs)
        return self.of(body if domain == TRUE else Where(domain, body))

    def _folded(self, bound: tuple[Index, ...], domain: Term, body: Term) -> list[Product]:
        self.count += 1
        by = {i: Index(f"{i.name}·{self.count}", i.set) for i in bound}
        letters: dict[Index, Term] = {i: Position(j) for i, j in by.items()}
        gate = () if domain == TRUE else (Where(substitute(domain, letters), ONE),)
        found = [Product(gate, tuple(by.values())).times(p) for p in self.of(substitute(body, letters))]
        return [p if p.read is not None else Product((Fold("sum", p.bound, TRUE, product(p.factors)),)) for p in found]


def _is_product(term: Term) -> bool:
    return isinstance(term, Read) or (isinstance(term, Apply) and term.op in ("mul", "div", "neg"))
