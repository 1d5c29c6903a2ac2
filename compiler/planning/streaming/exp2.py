"""Exponentials of a pass in base two, and numbers moved to where they cost least.

exp2 is the machine's own exponential. log2(e) joins the numbers that stand in the exponent already, and a number that
scales a contraction scales one operand instead of the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from einc.ir.programs import Equation
from einc.ir.sums import addends, factors, product
from einc.ir.terms import Apply, Const, Fold, Read, Term, children, reads, transform
from einc.planning.streaming.passes import Streamed
from einc.transforms.laws.simplify import is_number, simplify


def in_base_two(streamed: Streamed, virtual: frozenset[str], kept: frozenset[str]) -> Streamed:
    """The same pass with exp2 in place of exp in each of its steps: log2(e) goes into the exponent's own factors."""
    references = {c.reference for c in streamed.carries if c.reference}
    by = {e.target: e for e in streamed.equations}
    moving = [by[c.target] for c in streamed.carries if not isinstance(by[c.target].body, Fold)]
    if not streamed.carries or references & kept or any(_reads(e, references, streamed) for e in moving):
        return streamed
    carried = {c.target for c in streamed.carries} - references
    if any(_cancels(e.body, references, carried) for e in streamed.equations if not isinstance(e.body, Fold)):
        return streamed
    scaled = {c.target for c in streamed.carries if c.reference}

    def opened(term: Term) -> Term:
        """The term with virtual pointwise values of the pass written out in place of their names."""

        def change(inner: Term) -> Term:
            equation = by.get(inner.tensor) if isinstance(inner, Read) else None
            if (
                isinstance(inner, Read)
                and equation is not None
                and equation.target in virtual
                and not isinstance(equation.body, Fold)
            ):
                return opened(equation.at(inner.subs))
            return inner

        return transform(term, change)

    products = {e.target for e in streamed.equations if e.target in virtual and isinstance(e.body, Fold)}
    if references and not any(_joins(opened(body.body), products) for r in references
                              if isinstance(body := by[r].body, Fold)):
        return streamed
    out: list[Equation] = []
    for equation in streamed.equations:
        body = equation.body
        if equation.target in references and isinstance(body, Fold):
            body = replace(body, body=_times(opened(body.body)))
        elif equation.target in scaled and isinstance(body, Fold):
            body = replace(body, body=product(tuple(_two(f, opened) for f in factors(body.body))))
        elif not isinstance(body, Fold) and streamed.index in equation.indices and equation.target in virtual:
            body = transform(
                body, lambda t: Apply("exp2", (_in_two(opened(t.args[0]), products),)) if _is_exp(t) else t)
        elif not isinstance(body, Fold):
            body = simplify(
                transform(
                    body, lambda t: Apply("mul", (t, Const(math.log(2)))) if isinstance(t, Read)
                    and t.tensor in references else t
                )
            )
        out.append(replace(equation, body=body))
    if not references and tuple(out) == streamed.equations:
        return streamed
    made = _needed(tuple(out), kept, virtual)
    return replace(streamed, equations=_scaled_operands(made, virtual), base2=bool(references))


def _joins(exponent: Term, products: set[str]) -> bool:
    """Whether log2(e) joins a number or a product of an exponent. Where it does not, each value would be rounded once
    more, and its difference from the maximum, which is exact where they are near, would lose digits."""
    return any(_takes(part, products) for _, part in addends(exponent))


def _takes(part: Term, products: set[str]) -> bool:
    """Whether log2(e) joins a number or a product of a part of an exponent."""
    above = part.args[0] if isinstance(part, Apply) and part.op == "div" and is_number(part.args[1]) else part
    return above != part or any(
        is_number(f) or (isinstance(f, Read) and f.tensor in products) for f in factors(part))


def _in_two(exponent: Term, products: set[str]) -> Term:
    """log2(e) times an exponent. Where it has a difference of values that log2(e) does not join, that is taken first:
    it is exact where they are near, and that of values which are rounded once more is not. A sum with a product of the
    pass is rounded anyway."""
    signs = {sign for sign, part in addends(exponent) if not _takes(part, products)}
    exact = len(signs) > 1 and not any(read.tensor in products for read in reads(exponent))
    return Apply("mul", (Const(math.log2(math.e)), exponent)) if exact else _times(exponent)


def _cancels(term: Term, references: set[str], carried: set[str]) -> bool:
    """Whether a sum has a reference and another sum of the pass, as log Σ e^x - Σ p x has, p = e^x / Σ e^x: it may be
    small where its parts are large, and has the digits of that difference only where both were made of one maximum."""
    parts = [part for _, part in addends(term)]
    bare = [part for part in parts if any(isinstance(f, Read) and f.tensor in references for f in factors(part))]
    others = [part for part in parts if part not in bare and not (isinstance(part, Apply) and part.op == "log")]
    if bare and any(read.tensor in carried for part in others for read in reads(part)):
        return True
    return any(_cancels(kid, references, carried) for kid in children(term) if not _is_exp(kid))


def _reads(equation: Equation, references: set[str], streamed: Streamed) -> bool:
    """Whether what is carried about a reference would lose digits if that were rounded to base two."""
    return any(streamed.before.get(key, key) in references for key in equation.reads)


def _needed(equations: tuple[Equation, ...], kept: frozenset[str], virtual: frozenset[str]) -> tuple[Equation, ...]:
    """Without virtual values that nobody reads any more."""
    while True:
        read = {key for e in equations for key in e.reads}
        left = tuple(e for e in equations if e.target in read or e.target in kept or e.target not in virtual)
        if len(left) == len(equations):
            return left
        equations = left


def _scaled_operands(equations: tuple[Equation, ...], virtual: frozenset[str]) -> tuple[Equation, ...]:
    """c · Σ_k p q -> Σ_k (c p) q, for a virtual contraction that is only read times one number."""
    numbers: dict[str, set[Term | None]] = {}
    for equation in equations:
        for term in (equation.body, equation.domain):
            for name, number in _read_with(term, None):
                numbers.setdefault(name, set()).add(number)
    chosen = {
        e.target: next(iter(numbers[e.target]))
        for e in equations
        if e.target in virtual and isinstance(e.body, Fold) and e.body.op == "sum"
        and len(numbers.get(e.target, ())) == 1
    }
    chosen = {k: v for k, v in chosen.items() if v is not None}

    def change(term: Term) -> Term:
        if isinstance(term, Apply) and term.op == "mul" and len(term.args) == 2 and is_number(term.args[0]):
            inner = term.args[1]
            if isinstance(inner, Read) and inner.tensor in chosen:
                return inner
        return term

    out = []
    for equation in equations:
        body = transform(equation.body, change)
        if equation.target in chosen and isinstance(body, Fold):
            number = chosen[equation.target]
            assert number is not None
            body = replace(body, body=Apply("mul", (number, *factors(body.body))))
        out.append(replace(equation, body=body))
    return tuple(out)


def _read_with(term: Term, number: Term | None) -> list[tuple[str, Term | None]]:
    """Every read with the number it is multiplied by."""
    if isinstance(term, Read):
        return [(term.tensor, number), *(x for s in term.subs for x in _read_with(s, None))]
    if isinstance(term, Apply) and term.op == "mul" and len(term.args) == 2 and is_number(term.args[0]):
        return _read_with(term.args[1], term.args[0])
    return [x for kid in children(term) for x in _read_with(kid, None)]


def _two(factor: Term, opened: Callable[[Term], Term]) -> Term:
    """exp(e − r) -> exp2(log2(e) e − r), where r is kept in base two; in a rounding, too."""
    match factor:
        case Apply("exp", (Apply("sub", (exponent, reference)),)):
            return Apply("exp2", (Apply("sub", (_times(opened(exponent)), reference)),))
        case Apply(op, (Apply("relative", (inner,)),)):
            return Apply(op, (Apply("relative", (product(tuple(_two(f, opened) for f in factors(inner))),)),))
    return factor


def _times(term: Term) -> Term:
    """log2(e) · term, the number joined with the numbers that stand in the term already."""
    match term:
        case Apply("add", args):
            return Apply("add", tuple(_times(a) for a in args))
        case Apply("sub", (x, y)):
            return Apply("sub", (_times(x), _times(y)))
        case Apply("neg" | "abs" | "min" | "max" as op, args):
            return Apply(op, tuple(map(_times, args)))
        case Apply("div", (above, below)) if is_number(below):
            return _scaled_by(above, Apply("div", (Const(math.log2(math.e)), below)))
        case Apply("mul", _):
            return _scaled_by(term, Const(math.log2(math.e)))
    return Apply("mul", (Const(math.log2(math.e)), term))


def _scaled_by(term: Term, number: Term) -> Term:
    numbers = [f for f in factors(term) if is_number(f)]
    rest = [f for f in factors(term) if not is_number(f)]
    joined = Apply("mul", (*numbers, number)) if numbers else number
    return Apply("mul", (joined, *rest))


def _is_exp(term: Term) -> TypeGuard[Apply]:
    return isinstance(term, Apply) and term.op == "exp"
