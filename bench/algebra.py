"""The compiler's own algebra against sympy's, on the same expressions: how many times longer sympy takes.

Each case makes both from one random description, so that neither gains from what it has seen before; the time is that
of the process, the least of a few rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from random import Random
from typing import Any

import sympy

from einc.ir.domains import proves
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.terms import Apply, Position, Read, Term, both, const
from einc.meaning.polynomial_form import form
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import simplify

_TIME = IndexSet("time", size("T"))
_INDICES = {name: Index(name, _TIME) for name in "tsu"}
_SIZES = ("T", "S", "H", "d_k", "d_model")
Pair = tuple[Any, Any]  # the same expression for the compiler and for sympy


@dataclass(frozen=True)
class Case:
    """What is done, where the compiler does it, and both ways to do it; `make` draws an expression."""

    name: str
    place: str
    make: Callable[[Random], Pair]
    ours: Callable[[Any], object]
    theirs: Callable[[Any], object]


@dataclass(frozen=True)
class Row:
    """Seconds for one expression, by the compiler and by sympy."""

    case: Case
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def _extents(random: Random) -> Pair:
    """Sums of a few products of sizes, four of them."""
    drawn = [[(random.randint(1, 9), [random.choice(_SIZES) for _ in range(random.randint(1, 3))]) for _ in range(3)]
             for _ in range(4)]
    ours = [[reduce(Extent.__mul__, map(size, names), number(n)) for n, names in terms] for terms in drawn]
    theirs = [[sympy.Mul(n, *(sympy.Symbol(name, positive=True) for name in names)) for n, names in terms]
              for terms in drawn]
    return [reduce(Extent.__add__, terms) for terms in ours], [sympy.Add(*terms) for terms in theirs]


def _product_and_sum(parts: list[Extent]) -> Extent:
    return parts[0] * parts[1] + parts[2] * parts[3]


def _consequence(random: Random) -> Pair:
    """Bounds of positions, and one that follows from them or just does not, as two terms
    and as what sympy has to refute."""
    near, far, more = random.randint(0, 9), random.randint(0, 9), random.choice([0, 0, 1, -1])
    s, t, u = (Position(_INDICES[name]) for name in "stu")

    def bound(low: Term, high: Term, by: int) -> Term:
        return Apply("le", (low, Apply("add", (high, const(by)))))

    a, b, c = (sympy.Symbol(name, real=True) for name in "stu")
    facts = sympy.And(sympy.Q.le(a, b + near), sympy.Q.le(b, c + far))
    ours = both(bound(s, t, near), bound(t, u, far)), bound(s, u, near + far + more)
    return ours, sympy.And(facts, sympy.Q.gt(a, c + near + far + more))


def _polynomial(random: Random, depth: int = 4) -> Pair:
    """Sums and products of elements of three tensors."""
    if not depth:
        name, index = random.choice("xyz"), random.choice("tsu")
        return Read(name, (Position(_INDICES[index]),)), sympy.Symbol(f"{name}_{index}")
    pairs = [_polynomial(random, depth - 1) for _ in range(2)]
    ours, theirs = zip(*pairs, strict=True)
    if random.random() < 0.5:
        return Apply("add", ours), sympy.Add(*theirs, evaluate=False)
    return Apply("mul", ours), sympy.Mul(*theirs, evaluate=False)


def _exponentials(random: Random) -> Pair:
    """A product of exponentials of differences, in which much cancels."""
    names = [(random.choice("xyz"), random.choice("xyz")) for _ in range(4)]
    read = {name: Read(name, (Position(_INDICES["t"]),)) for name in "xyz"}
    ours = Apply("mul", tuple(Apply("exp", (Apply("sub", (read[a], read[b])),)) for a, b in names))
    theirs = sympy.Mul(*(sympy.exp(sympy.Symbol(a) - sympy.Symbol(b), evaluate=False) for a, b in names),
                       evaluate=False)
    return ours, theirs


CASES = (
    Case("extents: a product and a sum", "ir/indices", _extents, _product_and_sum,
         lambda parts: sympy.expand(parts[0] * parts[1] + parts[2] * parts[3])),
    Case("a bound that follows from others", "ir/domains", _consequence, lambda pair: proves(*pair),
         lambda terms: sympy.satisfiable(terms, use_lra_theory=True)),
    Case("the normal form of a claim's side", "meaning/forming", _polynomial, form, sympy.expand),
    Case("exponentials that cancel", "transforms/laws", _exponentials, lambda term: simplify(term, ALL),
         sympy.simplify),
)


def run(count: int = 40, rounds: int = 3) -> list[Row]:
    """Every case on so many expressions."""
    return [Row(case, *(_least(case, which, count, rounds) for which in (0, 1))) for case in CASES]


def _least(case: Case, which: int, count: int, rounds: int) -> float:
    """Seconds for an expression, the least of some rounds, each of which has expressions of its own."""
    times = []
    for turn in range(rounds):
        drawn = [case.make(Random(f"{case.name} {turn} {n}"))[which] for n in range(count)]
        work = (case.ours, case.theirs)[which]
        before = time.process_time()
        for expression in drawn:
            work(expression)
        times.append((time.process_time() - before) / count)
    return min(times)
