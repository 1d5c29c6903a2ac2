"""How torch spells a fold: its start, its step on two tensors, and what is derived from
them where it has no function for it."""

from __future__ import annotations

import re
from collections.abc import Callable

from einc.backends.host.code import INFIX, UNARY, Code, infix
from einc.backends.host.legal import straight
from einc.backends.host.scalars import number_text, scalar
from einc.backends.host.source import Generated, Part, Source
from einc.backends.host.spelled import spells
from einc.backends.host.spelling import FUNCTIONS
from einc.ir.folds import FOLDS
from einc.ir.plan import Let, Map, Scalar, Select
from einc.ir.terms import Const

STEPS = {"sum": "torch.add", "prod": "torch.mul", "max": "torch.maximum", "min": "torch.minimum"}


def start(fold: str, helpers: set[str]) -> str:
    """The neutral element as a number of Python's; what it names is added to the helpers."""
    code = scalar(Const(FOLDS[fold].start))
    helpers |= code.calls
    return code.text


def step(fold: str, helpers: set[str]) -> str:
    """The function of two tensors that merges two values of a fold; a helper where torch has none. Changes
    `helpers`."""
    if fold in STEPS:
        return STEPS[fold]
    helpers.add(f"_{fold}_step")
    return f"_{fold}_step"


def definitions() -> tuple[Generated, ...]:
    """The helpers that merge two values of the folds without a function of torch."""
    rows = [row for row in FOLDS.values() if not row.ordered and row.name not in STEPS]
    return tuple(Generated(f"_{row.name}_step", _definition(row.name, row.step)) for row in rows)


def _definition(fold: str, op: str) -> str:
    lines = statements(straight(op, ("a", "b"), spells), _step_text)
    return "\n".join([f"def _{fold}_step(a, b):", f'    """Two values of the fold {fold}, merged."""', *lines])


def statements(lets: tuple[Let, ...], written: Callable[[Let], str]) -> list[str]:
    """A statement for each let, the last of which is returned."""
    lines = [f"    {'return' if let is lets[-1] else f'{let.name} ='} {written(let)}" for let in lets]
    return [re.sub(r"\b_(\d+)\b", r"x\1", line) for line in lines]


def _step_text(let: Let) -> str:
    match let:
        case Let(op=Scalar(term)):
            return scalar(term).text
        case Let(op=Select(otherwise), args=(condition, then)):
            return f"torch.where({condition}, {then}, {number_text(otherwise)})"
        case Let(op=Map(op), args=args):
            return _mapped(op, args)
    raise AssertionError(let)


def _mapped(op: str, args: tuple[str, ...]) -> str:
    """A primitive in the step of a fold as text for torch, on operands that are names. Raises AssertionError for one
    that has no spelling here.
    """
    if op in FUNCTIONS:
        return f"torch.{FUNCTIONS[op]}({args[0]})"
    if op in INFIX:
        return infix(op, [Code(a) for a in args]).text
    if op in ("max", "min"):
        return f"torch.{op}imum({', '.join(args)})"
    if op in ("neg", "not"):
        return f"{'-' if op == 'neg' else '~'}{Code(args[0]).at(UNARY)}"
    if op == "pow":
        return f"{args[0]} ** {args[1]}"
    raise AssertionError(op)


# The helpers that the spelling of a fold may name.
RUNTIME: tuple[Part, ...] = (Source("einc.backends.host.runtime.folding"), *definitions())
