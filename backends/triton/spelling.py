"""How Triton spells primitives and folds; what it does not spell is expanded, or derived
from the start and the step of a fold."""

from __future__ import annotations

import math
from collections.abc import Mapping

from einc.backends.host.code import ATOM, INFIX, LOOSE, UNARY, Code, Form, infix
from einc.backends.host.folding import statements
from einc.backends.host.legal import straight
from einc.backends.host.scalars import number_text
from einc.backends.host.source import Generated
from einc.backends.host.spelled import spelled as known
from einc.backends.host.spelling import rounding
from einc.ir.backend import Writable
from einc.ir.elements import Kind
from einc.ir.folds import FOLDS
from einc.ir.narrow import NARROW
from einc.ir.plan import Let, Map, Scalar, Select
from einc.ir.primitives import HASHES
from einc.ir.terms import Const

_PLAIN = ("exp", "exp2", "log", "sqrt", "sin", "cos", "erf", "abs", "floor", "ceil")

FORMS: Mapping[str, Form] = {
    **{name: Form(f"tl.{name}({{}})", (LOOSE,), ATOM) for name in _PLAIN},
    "neg": Form("-{}", (UNARY,), UNARY),
    "not": Form("~{}", (ATOM,), UNARY),
}
HELPED = {"tanh": "_tanh", "tangent": "_tangent", "floordiv": "_floordiv", "mod": "_mod",
          "pow": "_power"}  # functions that stand in the file
_TYPED = {"tangent": ("DTYPE",)}  # what some of them are given after their operands
PAIRED = {"max": "_larger", "min": "_smaller"}  # of any number of operands, in pairs; what is no number stays none
_TENSORS = frozenset({*FORMS, *HELPED, *HASHES, *NARROW, *PAIRED, *INFIX, "exact"})  # primitives, on tensors

STEPS = {"sum": "", "prod": "_times", **PAIRED}  # helpers that merge two values; of a sum: +
_REDUCE = {"max": "tl.max({0}, {1})", "min": "tl.min({0}, {1})", "sum": "tl.sum({0}, {1})"}
_MERGED = {"sum": "{} + {}", "prod": "{} * {}"}
_RUNNING = {"sum": "tl.cumsum", "prod": "tl.cumprod"}


def spells(what: Writable, element: Kind) -> bool:
    """Whether the Triton back end writes a primitive, a fold, an operation or a step for an element type."""
    return known(what, element, _TENSORS)


def spelled(op: str, codes: list[Code], helpers: set[str]) -> Code:
    """A spelled primitive of real numbers, or of whole ones; adds the helpers that it needs to `helpers`."""
    if op in HELPED:
        helpers.add(HELPED[op])
        return Code(f"{HELPED[op]}({', '.join([*(c.text for c in codes), *_TYPED.get(op, ())])})")
    if op in NARROW:
        return Code(rounding(op, codes[0].text, helpers))
    if op in PAIRED:
        text = codes[0].text
        helpers.add(PAIRED[op])
        for other in codes[1:]:
            text = f"{PAIRED[op]}({text}, {other.text})"
        return Code(text)
    return FORMS[op].of(codes) if op in FORMS else infix(op, codes)


def start(fold: str) -> str:
    """The value with which a fold starts, as an expression of Triton; an infinite one is a float by its name."""
    value = FOLDS[fold].start
    return f"{value}" if math.isfinite(value) else f'float("{value}")'


def step(fold: str, helpers: set[str]) -> str:
    """The device function that merges two values of a fold, which is added to the helpers. A sum has none."""
    if fold in STEPS:
        helpers |= {STEPS[fold]} - {""}
        return STEPS[fold]
    helpers.add(f"_{fold}_pair")
    return f"_{fold}_pair"


def merged(fold: str, before: str, share: str, helpers: set[str]) -> str:
    """The text that puts two values of a fold together. Adds the helper that it calls to `helpers`."""
    return _MERGED[fold].format(before, share) if fold in _MERGED else f"{step(fold, helpers)}({before}, {share})"


def reduced(fold: str, text: str, axis: int, quick: bool, helpers: set[str]) -> str:
    """The fold over an axis. Triton's own maximum leaves out what is no number: it is for what is `quick` alone."""
    if fold in _REDUCE and (quick or fold == "sum"):
        return _REDUCE[fold].format(text, axis)
    return f"tl.reduce({text}, {axis}, {step(fold, helpers)})"


def running(fold: str, text: str, axis: int, turned: str, helpers: set[str]) -> str:
    """The fold of all values so far along an axis."""
    if fold in _RUNNING:
        return f"{_RUNNING[fold]}({text}, {axis}{turned})"
    return f"tl.associative_scan({text}, {axis}, {step(fold, helpers)}{turned})"


def definitions() -> tuple[Generated, ...]:
    """The helpers that merge two values of the folds that have no other."""
    folds = [row.name for row in FOLDS.values() if not row.ordered and row.name not in STEPS]
    return tuple(Generated(f"_{fold}_pair", _definition(fold)) for fold in folds)


def _definition(fold: str) -> str:
    """The text of the device function that merges two values of a fold, written from the fold's step."""

    def written(let: Let) -> str:
        match let:
            case Let(op=Scalar(Const(value))):
                return number_text(value)
            case Let(op=Select(otherwise), args=(condition, then)):
                return f"tl.where({condition}, {then}, {float(otherwise)})"
            case Let(op=Map(op), args=args):
                return spelled(op, [Code(a) for a in args], set()).text
        raise AssertionError(let)

    lines = statements(straight(FOLDS[fold].step, ("a", "b"), spells), written)
    head = ["@triton.jit", f"def _{fold}_pair(a, b):", f'    """Two values of the fold {fold}, merged."""']
    return "\n".join([*head, *lines])
