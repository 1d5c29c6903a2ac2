"""How the torch back end writes each primitive and fold: the tables from which it emits, and which answer what it can write."""

from __future__ import annotations

from collections.abc import Mapping

from einc.backends.host.code import ATOM, INFIX, LOOSE, POWER, UNARY, Form
from einc.backends.host.scalars import SCALARS
from einc.backends.host.spelled import FOLDED, spelled
from einc.backends.host.spelling import FUNCTIONS
from einc.ir.backend import Writable
from einc.ir.plan import Kind
from einc.ir.primitives import HASHES

FORMS: Mapping[str, Form] = {
    **{name: Form(f"torch.{spelling}({{}})", (LOOSE,), ATOM) for name, spelling in FUNCTIONS.items()},
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("~{}", (UNARY,), UNARY),
    "pow": Form("{} ** {}", (ATOM, UNARY), POWER),
    "ceildiv": Form("-(-{} // {})", (UNARY, ATOM), UNARY),
}
EXTREMES = frozenset({"max", "min"})  # of any number of operands, in pairs: torch.maximum, or torch.clamp with a number
REDUCTIONS = {"max": "amax", "min": "amin", "prod": "prod"}  # a sum is a product of matrices or an einsum, and no reduction


def spells(what: Writable, element: Kind) -> bool:
    """Whether the torch back end writes a primitive, a fold, an operation or a step for an element type."""
    return spelled(what, element, {*FORMS, *EXTREMES, *INFIX, *HASHES, "exact"}, SCALARS, FOLDED)
