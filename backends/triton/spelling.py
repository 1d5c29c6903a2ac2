"""How the Triton back end writes each primitive and fold: the tables from which it emits, and which answer what it can write."""

from __future__ import annotations

from collections.abc import Mapping

from einc.backends.host.code import ATOM, INFIX, LOOSE, UNARY, Form
from einc.backends.host.scalars import SCALARS
from einc.backends.host.spelled import spelled
from einc.ir.backend import Writable
from einc.ir.plan import Kind

_PLAIN = ("exp", "exp2", "log", "sqrt", "sin", "cos", "erf", "abs", "floor", "ceil")

FORMS: Mapping[str, Form] = {
    **{name: Form(f"tl.{name}({{}})", (LOOSE,), ATOM) for name in _PLAIN},
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("~{}", (ATOM,), UNARY),
}
HELPED = {"tanh": "_tanh", "floordiv": "_floordiv", "mod": "_mod", "pow": "_power"}  # functions that stand in the file
HASHES = {"hash": ("_mixed", "_short", "_hash"), "chance": ("_mixed", "_short", "_chance")}  # with what each of them needs
PAIRED = {"max": "_larger", "min": "_smaller"}  # of any number of operands, in pairs; what is no number stays none

REDUCE = {"max": "tl.max({0}, {1})", "min": "tl.min({0}, {1})", "prod": "tl.reduce({0}, {1}, _times)", "sum": "tl.sum({0}, {1})"}
NEUTRAL = {"sum": "0.0", "prod": "1.0", "max": 'float("-inf")', "min": 'float("inf")'}
JOINED = {"sum": "{} + {}", "prod": "{} * {}", **{fold: f"{helper}({{}}, {{}})" for fold, helper in PAIRED.items()}}


def spells(what: Writable, element: Kind) -> bool:
    """Whether the Triton back end writes a primitive, a fold, an operation or a step for an element type."""
    folds = REDUCE.keys() & NEUTRAL.keys() & JOINED.keys()
    return spelled(what, element, {*FORMS, *HELPED, *HASHES, *PAIRED, *INFIX}, SCALARS, folds)
