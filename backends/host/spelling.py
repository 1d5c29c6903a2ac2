"""How torch spells primitives of one argument: in its kernels, and on the host where Python's own numbers do not do.
The call that rounds to few bits is that of Triton, too."""

from __future__ import annotations

from einc.ir.narrow import NARROW

FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos",
    "tanh": "tanh", "erf": "special.erf", "erfc": "special.erfc", "abs": "abs", "floor": "floor", "ceil": "ceil",
}


def rounding(op: str, value: str, helpers: set[str]) -> str:
    """The rounding of a value to a type of few bits; adds the function that it calls to `helpers`."""
    helpers.add("_rounded")
    return f"_rounded({', '.join([value, *map(str, NARROW[op].digits)])})"
