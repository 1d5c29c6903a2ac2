"""How the torch back end writes each primitive and fold: the tables from which it emits, and which answer what it can write."""

from __future__ import annotations

from collections.abc import Mapping

from einc.backends.host.code import ATOM, INFIX, LOOSE, POWER, UNARY, Form
from einc.backends.host.scalars import SCALARS
from einc.backends.host.spelled import spelled
from einc.ir.backend import Writable
from einc.ir.plan import Kind
from einc.ir.primitives import HASHES

_PLAIN = ("exp", "exp2", "log", "sqrt", "sin", "cos", "tanh", "abs", "floor", "ceil")

FORMS: Mapping[str, Form] = {
    **{name: Form(f"torch.{name}({{}})", (LOOSE,), ATOM) for name in _PLAIN},
    "erf": Form("torch.special.erf({})", (LOOSE,), ATOM),
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("~{}", (UNARY,), UNARY),
    "pow": Form("{} ** {}", (ATOM, UNARY), POWER),
    "ceildiv": Form("-(-{} // {})", (UNARY, ATOM), UNARY),
}
EXTREMES = frozenset({"max", "min"})  # of any number of operands, in pairs: torch.maximum, or torch.clamp with a number
REDUCTIONS = {"max": "amax", "min": "amin", "prod": "prod"}  # a sum is a product of matrices or an einsum, and no reduction
STARTS = {"sum": "0", "prod": "1", "max": "-math.inf", "min": "math.inf"}  # of running folds and of those over tiles


def spells(what: Writable, element: Kind) -> bool:
    """Whether the torch back end writes a primitive, a fold, an operation or a step for an element type."""
    return spelled(what, element, {*FORMS, *EXTREMES, *INFIX, *HASHES}, SCALARS, {*REDUCTIONS, "sum"} & STARTS.keys())
