"""What a back end can write, by the names in its tables."""

from __future__ import annotations

from collections.abc import Container
from typing import assert_never, get_args

from einc.ir.backend import Writable
from einc.ir.folds import FOLDS, FoldRow
from einc.ir.plan import Kind, Op, Step
from einc.ir.primitives import Primitive

FOLDED = frozenset(row.name for row in FOLDS.values() if not row.ordered)  # folds that are spelled, or derived from their step
_NUMBERS = frozenset({"real", "exact", "integer"})
_KINDS = frozenset((*get_args(Op), *get_args(Step)))  # `host` writes every step around the kernels, and each back end every let


def spelled(what: Writable, element: Kind, primitives: Container[str], scalars: Container[str], folds: Container[str]) -> bool:
    """Whether a back end with these tables can write something for an element type: see `BackEnd.spells`.

    `primitives` are those that its kernels compute on tensors, `scalars` those that are done on numbers of the host.
    """
    match what:
        case Primitive():
            return what.name in (scalars if element == "scalar" else primitives) and element in _elements(what)
        case FoldRow():
            return what.name in folds and element in _NUMBERS
        case type():
            return what in _KINDS
    assert_never(what)


def _elements(row: Primitive) -> frozenset[str]:
    """The element types of which a primitive gives a value; of a relation those that it compares."""
    if row.whole:
        return frozenset({"integer"} if row.exact else {"real", "exact"})
    match row.kind:
        case "value":
            return (_NUMBERS if row.exact else _NUMBERS - {"integer"}) | {"scalar"}
        case "relation":
            return _NUMBERS | {"scalar"}
        case "logic":
            return frozenset({"truth", "scalar"})
    assert_never(row.kind)
