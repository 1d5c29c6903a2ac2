"""How the torch back end writes each primitive and fold: the tables from which it emits."""

from __future__ import annotations

from collections.abc import Mapping

from einc.backends.host.code import ATOM, LOOSE, POWER, UNARY, Form
from einc.backends.host.spelling import FUNCTIONS

FORMS: Mapping[str, Form] = {
    **{name: Form(f"torch.{spelling}({{}})", (LOOSE,), ATOM) for name, spelling in FUNCTIONS.items()},
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("~{}", (UNARY,), UNARY),
    "pow": Form("{} ** {}", (ATOM, UNARY), POWER),
    "ceildiv": Form("-(-{} // {})", (UNARY, ATOM), UNARY),
}
EXTREMES = frozenset({"max", "min"})  # of any number of operands, in pairs: torch.maximum, or torch.clamp with a number
# a sum is a product of matrices or an einsum, and no reduction
REDUCTIONS = {"max": "amax", "min": "amin", "prod": "prod"}
