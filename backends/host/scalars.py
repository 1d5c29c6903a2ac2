"""Numbers made of constants and sizes, in Python's own arithmetic where that refuses nothing.

Python raises where the language has a value: 1/0 is infinite, 0/0 is 0, log(-1) is no number. So what is known of a
number goes with its text, and wherever Python might refuse a helper stands in place of the operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from einc.backends.host.code import (
    ATOM,
    COMPARE,
    INFIX,
    LOOSE,
    NONNEGATIVE,
    POSITIVE,
    POWER,
    SUM,
    UNARY,
    UNKNOWN,
    Code,
    Form,
    infix,
)
from einc.backends.host.spelling import FUNCTIONS
from einc.backends.writer import sized
from einc.ir.primitives import PRIMITIVES, sign_of
from einc.ir.terms import Apply, Const, Size, Term, Truth, Where

_WHOLE = 1 << 53  # from here on numbers are real
_TORCH = {"max": "maximum", "min": "minimum", "pow": "pow", **FUNCTIONS}
# What Python computes for every number, and what for every finite one; anything else may raise OverflowError.
_TAKES_ALL = frozenset({*INFIX, "ceildiv", "neg", "not", "abs", "tanh", "erf", "erfc"})
_TAKES_NUMBERS = frozenset({"sin", "cos", "floor", "ceil", "max", "min"})
_BUILT_IN = frozenset({"max", "min", "abs"})  # functions of Python's own, of any number of operands

FORMS: Mapping[str, Form] = {
    **{name: Form(f"math.{name}({{}})", (LOOSE,), ATOM, frozenset({"math"}))
       for name in FUNCTIONS if name not in _BUILT_IN},
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("not {}", (COMPARE,), LOOSE),
    "pow": Form("{} ** {}", (ATOM, UNARY), POWER),
    "ceildiv": Form("-(-{} // {})", (UNARY, ATOM), UNARY),
}
SCALARS = frozenset({*FORMS, *_BUILT_IN, *INFIX})  # the operations that can be done on numbers


def scalar(term: Term) -> Code:
    """The text of a number, and what is known of it for all sizes."""
    match term:
        case Const(value):
            sign = POSITIVE if value > 0 else NONNEGATIVE if value == 0 else UNKNOWN
            text = number_text(value)
            calls = frozenset({"math"} if text.endswith("math.inf") else ())
            finite = not text.endswith(("inf", "nan"))
            return Code(text, ATOM if value >= 0 else UNARY, sign=sign, finite=finite, calls=calls)
        case Truth(value):
            return Code(str(value))
        case Size(extent):
            text = sized(extent)
            sign = NONNEGATIVE if all(c > 0 for _, c in extent.terms) else UNKNOWN
            level = ATOM if text.isidentifier() or text.isdigit() else SUM
            return Code(text, level, sign=sign, finite=True)
        case Apply(op, args):
            return scalar_map(op, [scalar(a) for a in args])
        case Where(condition, then):
            made, test = scalar(then), scalar(condition)
            return Code(f"({made.text} if {test.text} else 0)", calls=made.calls | test.calls)
    raise AssertionError(term)


def scalar_map(op: str, codes: list[Code]) -> Code:
    """An operation on numbers, and what is known of its result."""
    made = _mapped(op, codes)
    return replace(made, calls=made.calls.union(*(c.calls for c in codes)))


def _mapped(op: str, codes: list[Code]) -> Code:
    """A primitive of numbers of Python, without what its operands call."""
    finite = all(c.finite for c in codes)
    if op == "div" and codes[1].sign == POSITIVE:
        return replace(infix(op, codes), sign=codes[0].sign, finite=finite)
    if op == "div":
        return quotient(codes, codes[0].sign if codes[1].sign else UNKNOWN)
    made = replace(_operation_text(op, codes), sign=_sign(op, codes), finite=finite)
    if _refused(op, codes):
        text = f"_number(torch.{_TORCH[op]}, {', '.join(c.text for c in codes)})"
        return Code(text, sign=made.sign, calls=frozenset({"_number"}))
    return made


def quotient(codes: list[Code], sign: int = UNKNOWN) -> Code:
    """What is divided by a number that may be 0."""
    text = f"_over({codes[0].text}, {codes[1].text})"
    return Code(text, ATOM, True, min(sign, NONNEGATIVE), calls=frozenset({"_over"}))


def _refused(op: str, codes: list[Code]) -> bool:
    """Whether Python may raise, or take what is no number for one."""
    least = PRIMITIVES[op].domain[0] if op in FUNCTIONS else -math.inf
    if least > -math.inf:
        return codes[0].sign < (NONNEGATIVE if least <= 0 else POSITIVE)
    if op in _TAKES_ALL:
        return False
    return op not in _TAKES_NUMBERS or not all(c.finite for c in codes)


def _sign(op: str, codes: list[Code]) -> int:
    """The sign of a primitive of numbers of Python: as of real numbers, but that a positive one may be so small that
    Python has 0 for it."""
    found = sign_of(op, [c.sign for c in codes]) if op in PRIMITIVES else UNKNOWN
    return min(found, NONNEGATIVE) if op == "pow" or (op in PRIMITIVES and PRIMITIVES[op].sign == "positive") else found


def _operation_text(op: str, codes: list[Code]) -> Code:
    """An operation on Python's numbers as text. A quotient or remainder of whole numbers is 0 where the divisor is 0;
    what else Python refuses is not guarded here.
    """
    match op:
        case "floordiv" | "ceildiv" | "mod" if codes[1].sign < POSITIVE:
            inner = _operation_text(op, [codes[0], replace(codes[1], sign=POSITIVE)])
            return Code(f"({inner.text} if {codes[1].text} else 0)", calls=inner.calls)
        case "and" | "or":
            return Code(f" {op} ".join(c.at(COMPARE) for c in codes), LOOSE)
        case _ if op in _BUILT_IN:
            return Code(f"{op}({', '.join(c.text for c in codes)})")
        case _ if op in FORMS:
            return FORMS[op].of(codes)
    return infix(op, codes)


def number_text(value: Fraction | float) -> str:
    """A number of Python's: whole as long as it is exact as a real one."""
    exact = value if isinstance(value, Fraction) else None
    if exact is not None and exact.denominator == 1 and abs(exact) < _WHOLE:
        return str(exact.numerator)
    try:
        real = float(value)
    except OverflowError:
        real = math.copysign(math.inf, value)
    if math.isinf(real):
        return "math.inf" if real > 0 else "-math.inf"
    return str(int(real)) if exact is None and real == int(real) and abs(real) < _WHOLE else repr(real)
