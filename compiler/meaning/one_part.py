"""A sum over the parts of a set, each element of which is in one of them: ranks that each have some rows of a table."""

from __future__ import annotations

from fractions import Fraction

from einc.ir.domains import linear, proves
from einc.ir.indices import Index
from einc.ir.indices import number as exactly
from einc.ir.terms import TRUE, Apply, Position, Size, substitute
from einc.meaning.conditions import indicator
from einc.meaning.polynomials import Form, Monomial, collected, free, times


def in_one_part(found: Monomial, index: Index) -> Form | None:
    """The sum over an index that stands in 1[N (i - 1) < x] 1[x ≤ N i] alone: parts of N elements follow each other, so
    x is in one of them, unless it lies before the first or behind the last.
    """
    about = [x for x, _ in found.powers if index in x.free]
    if index in free(found.exponent) or len(about) != 2 or any(x.op != "if" for x in about):
        return None
    rest = collected([(Monomial(found.exponent, tuple(x for x in found.powers if x[0] not in about)), Fraction(1))])
    first, last = exactly(index.set.start), index.set.extent + exactly(index.set.start - 1)
    by = {x.terms[0].op: x.terms[0] for x in about if isinstance(x.terms[0], Apply)}
    if by.keys() != {"lt", "le"} or any(one.args[0] != Size(exactly(0)) for one in by.values()):
        return None
    above, below = linear(by["lt"].args[1]), linear(by["le"].args[1])
    if above is None or below is None or (whole := above.plus(below)).atoms:
        return None
    step = below.coefficient(Position(index))
    if step not in (whole.constant, whole.constant * exactly(-1)) or len(step.terms) != 1:
        return None
    down, up = ("lt", "le") if step == whole.constant else ("le", "lt")
    for op, end in ((down, first), (up, last)):
        at = substitute(by[op], {index: Size(end)})
        rest = rest if proves(TRUE, at) else times(rest, indicator(at))
    return rest
