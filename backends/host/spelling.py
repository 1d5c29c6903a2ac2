"""How torch spells primitives of one argument: in its kernels, and on the host where Python's own numbers do not do."""

from __future__ import annotations

FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos",
    "tanh": "tanh", "erf": "special.erf", "erfc": "special.erfc", "abs": "abs", "floor": "floor", "ceil": "ceil",
}
