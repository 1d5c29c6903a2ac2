"""What a back end can write, by the names in its tables, and what torch can, which the
host's helpers are written in."""

from __future__ import annotations

from collections.abc import Container
from typing import assert_never, get_args

from einc.backends.host.code import INFIX
from einc.backends.host.scalars import SCALARS
from einc.backends.host.spelling import FUNCTIONS
from einc.ir.backend import Writable
from einc.ir.elements import Kind
from einc.ir.folds import FoldRow
from einc.ir.narrow import NARROW
from einc.ir.plan import Op, Step
from einc.ir.primitives import HASHES, Primitive

# primitives, on tensors
TORCH = frozenset({*FUNCTIONS, *INFIX, *HASHES, *NARROW, "max", "min", "neg", "not", "pow", "exact"})
_NUMBERS = frozenset({"real", "exact", "integer"})
# `host` writes every step around the kernels, and each back end every let
_KINDS = frozenset((*get_args(Op), *get_args(Step)))


def spells(what: Writable, element: Kind) -> bool:
    """Whether torch writes a primitive, a fold, an operation or a step for an element type."""
    return spelled(what, element, TORCH)


def spelled(what: Writable, element: Kind, primitives: Container[str]) -> bool:
    """Whether a back end can write something for an element type: see `BackEnd.spells`.

    `primitives` are those that its kernels compute on tensors. Numbers are the host's for every back end. A fold that
    has no spelling is derived from its step; an ordered one gives no number, and stands in no kernel.
    """
    match what:
        case Primitive():
            return what.name in (SCALARS if element == "scalar" else primitives) and element in _elements(what)
        case FoldRow():
            return not what.ordered and element in _NUMBERS
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
            return _NUMBERS | {"scalar", "truth"}
        case "logic":
            return frozenset({"truth", "scalar"})
    assert_never(row.kind)
