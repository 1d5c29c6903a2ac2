"""The scalar operations: arity, kind and meaning, one row each. Back ends spell these and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Primitive:
    """`arity` 0 stands for any number of arguments from two. `meaning` is numpy's name of it (`erf`: the math module's, `hash`
    and `chance`: those of `mixing`)."""

    name: str
    arity: int
    kind: Literal["value", "relation", "logic"]
    meaning: str
    exact: bool = False  # integers in, integers out: may stand in an index expression
    callable: bool = False  # may be applied by name in a spec
    whole: bool = False  # takes whole numbers alone, and any index for its number


_ROWS = (
    Primitive("add", 0, "value", "add", exact=True),
    Primitive("sub", 2, "value", "subtract", exact=True),
    Primitive("mul", 0, "value", "multiply", exact=True),
    Primitive("div", 2, "value", "divide"),
    Primitive("neg", 1, "value", "negative", exact=True),
    Primitive("pow", 2, "value", "power"),
    Primitive("exp", 1, "value", "exp", callable=True),
    Primitive("exp2", 1, "value", "exp2"),
    Primitive("log", 1, "value", "log", callable=True),
    Primitive("sqrt", 1, "value", "sqrt", callable=True),
    Primitive("sin", 1, "value", "sin", callable=True),
    Primitive("cos", 1, "value", "cos", callable=True),
    Primitive("tanh", 1, "value", "tanh", callable=True),
    Primitive("erf", 1, "value", "erf", callable=True),
    Primitive("abs", 1, "value", "abs", exact=True, callable=True),
    Primitive("floor", 1, "value", "floor", exact=True, callable=True),
    Primitive("ceil", 1, "value", "ceil", exact=True, callable=True),
    Primitive("mod", 2, "value", "mod", exact=True, callable=True),
    Primitive("pick", 2, "value", "", exact=True),  # the n-th point of an ordered fold: see `interpret.picked`
    Primitive("max", 0, "value", "maximum", exact=True, callable=True),
    Primitive("min", 0, "value", "minimum", exact=True, callable=True),
    Primitive("hash", 2, "value", "hashed", exact=True, callable=True, whole=True),
    Primitive("chance", 2, "value", "chance", callable=True, whole=True),
    Primitive("nonpositive", 1, "value", "positive", callable=True),  # x itself, of which it is known that it is at most 0
    Primitive("le", 2, "relation", "less_equal"),
    Primitive("lt", 2, "relation", "less"),
    Primitive("eq", 2, "relation", "equal"),
    Primitive("ne", 2, "relation", "not_equal"),
    Primitive("and", 0, "logic", "logical_and"),
    Primitive("or", 0, "logic", "logical_or"),
    Primitive("not", 1, "logic", "logical_not"),
)

PRIMITIVES: dict[str, Primitive] = {row.name: row for row in _ROWS}
HASHES = frozenset(row.name for row in _ROWS if row.whole)
