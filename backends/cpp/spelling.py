"""How C++ writes the primitives: by name, with a place for each operand.
Functions of `runtime/lanes.h` have an underscore.
"""

from __future__ import annotations

from collections.abc import Mapping

INFIX: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "le": "<=", "lt": "<", "eq": "==", "ne": "!=",
    "and": "&", "or": "|",
}
FUNCTIONS: Mapping[str, str] = {
    "exp": "exp_", "exp2": "exp2_", "expm1": "expm1_", "log": "logarithm", "log1p": "log1p_", "sqrt": "root",
    "sin": "sine", "cos": "cosine", "tanh": "tanh_", "erf": "erf_", "erfc": "erfc_", "abs": "size",
    "floor": "floor_", "ceil": "ceil_", "pow": "power", "max": "larger", "min": "smaller",
    "floordiv": "floored", "ceildiv": "ceiled", "mod": "rest",
}
COMPARED = frozenset({"le", "lt", "eq", "ne"})
# Two values of a fold merged.
STEPS: Mapping[str, str] = {"sum": "{} + {}", "prod": "{} * {}", "max": "larger({}, {})", "min": "smaller({}, {})"}
