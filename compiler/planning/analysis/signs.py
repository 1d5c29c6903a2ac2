"""What one program tells another of the values that it makes for it: their signs, and whether they are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

from einc.ir.indices import SEQUENCE, Index, IndexSet
from einc.ir.primitives import NONNEGATIVE, POSITIVE, UNKNOWN
from einc.ir.programs import Definitions, Equation, Program, Told
from einc.ir.programs import Sign as Word
from einc.ir.signs import sign
from einc.ir.sums import inverse_of, joined, product
from einc.ir.terms import TRUE, ZERO, Apply, Const, Fold, Read, Term, free_indices

_WORDS: dict[int, Word] = {POSITIVE: "positive", NONNEGATIVE: "nonnegative", UNKNOWN: ""}


def told(program: Program, key: str, infinite: bool) -> Told:
    """What is known of the sign of a value of a program, and where: `infinite` says whether it may be no finite number.
    """
    by = program.by_target
    if key not in by:
        return Told(infinite=infinite)
    found = sign(Read(key, ()), by)
    over = _over(program, by[key]) if found == NONNEGATIVE else None
    return Told(_WORDS[found], (), infinite) if over is None else Told("positive", over, infinite)


def _over(program: Program, equation: Equation) -> tuple[IndexSet, ...] | None:
    """The sets that must have a point for a value to be positive wherever it exists; None where that does not do."""
    value = Read(equation.target, equation.axes)
    if not equation.has_letters:
        return None
    sets = dict.fromkeys(s.set for t in program.tensors.values() for s in t.slots if s.set.cls not in SEQUENCE)
    beside = {one: Index(f"{one.cls}{n}", one) for n, one in enumerate(sets) if one not in {*(
        i.set for i in equation.indices)}}
    if not beside or sign(value, program.by_target, TRUE, beside.values()) != POSITIVE:
        return None
    for one in tuple(beside):
        rest = [index for other, index in beside.items() if other != one]
        if rest and sign(value, program.by_target, TRUE, rest) == POSITIVE:
            del beside[one]
    return tuple(beside)


def multiplied(parts: Sequence[Term], known: Definitions) -> Term:
    """The product of factors, some of them reciprocals. Where no divisor may be 0 each stays a factor, so that a sum of
    such products is one of matrices; else they are `joined`, since 0 / 0 is 0, and 0 times 1 / 0 is not."""
    divisors = [y for f in parts if (y := inverse_of(f)) is not None]
    letters = [i for f in parts for i in free_indices(f)]
    return product(parts) if all(sign(y, known, TRUE, letters) == POSITIVE for y in divisors) else joined(parts)


def known_of(program: Program) -> Definitions:
    """The equations of a program, and for each input of which something is known one that has it, as far as signs and
    infinities go."""
    return Definitions((*(_fact(t.key, t.told) for t in program.tensors.values() if t.told.least or t.told.infinite),
                        *program.equations))


def _fact(key: str, known: Told) -> Equation:
    some = {"positive": "exp", "nonnegative": "abs", "": "neg"}[known.least]
    value = Apply(some, (Const(math.inf) if known.infinite else ZERO,))
    bound = tuple(Index(f"{one.cls}{n}", one) for n, one in enumerate(known.over))
    return Equation(key, (), TRUE, Fold("sum", bound, TRUE, value) if bound else value)
