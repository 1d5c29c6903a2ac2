"""How torch spells primitives of one argument: what stands in its kernels, and on the host where Python's own numbers do not do."""

from __future__ import annotations

from einc.backends.host.code import INFIX
from einc.ir.primitives import HASHES

FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
    "tanh": "tanh", "erf": "special.erf", "erfc": "special.erfc", "abs": "abs", "floor": "floor", "ceil": "ceil",
}


def spells(op: str) -> bool:
    """Whether torch spells a primitive; any other is expanded."""
    return op in FUNCTIONS or op in INFIX or op in HASHES or op in ("max", "min", "neg", "not", "pow", "exact")
