"""Pieces of Python text: how tightly they bind, numbers, letters of contractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einc.backends.writer import identifier, sized
from einc.errors.report import EincError, Help, Problem
from einc.ir.indices import IndexSet
from einc.ir.plan import Gather, Subscript

UNKNOWN, NONNEGATIVE, POSITIVE = 0, 1, 2
ATOM, UNARY, POWER, PRODUCT, SUM, SHIFT, COMPARE, LOOSE = 9, 8, 8, 7, 6, 5, 4, 1


INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT),
    "le": ("<=", COMPARE),
    "lt": ("<", COMPARE),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "and": ("&", SHIFT - 0),
    "or": ("|", SHIFT - 0),
}


@dataclass(frozen=True)
class Code:
    """An expression, how tightly it binds, whether its memory is its own, and what is known of it where it is a number.

    `last` is its last step, where that writes over memory: what it writes over, a function of torch, the other operand.
    `raw` is the text before it was widened. `calls` are the helpers and imports that the text of a number names.
    """

    text: str
    level: int = ATOM
    fresh: bool = False
    sign: int = UNKNOWN
    finite: bool = False
    factor: str = ""  # a number that the text is yet to be multiplied with
    last: tuple[str, str, str] | None = None
    raw: str = ""
    calls: frozenset[str] = frozenset()

    def at(self, level: int) -> str:
        """The text for a place that asks for this level of binding: in brackets where it binds less tightly."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Form:
    """How an operation of a fixed number of operands is written: a text with a place for each of them,
    how tightly each operand has to bind to stand in its place, how tightly the whole binds, and the
    helpers and imports that the text names.
    """

    text: str
    operands: tuple[int, ...]
    level: int
    calls: frozenset[str] = frozenset()

    def of(self, codes: Sequence[Code], fresh: bool = False) -> Code:
        """The operation on these operands; `fresh` where the result has memory of its own. The `calls` of the result
        are those of the operation alone, without those of its operands.
        """
        text = self.text.format(*(c.at(n) for c, n in zip(codes, self.operands, strict=True)))
        return Code(text, self.level, fresh, calls=self.calls)


def letters_of(axes: list[str]) -> dict[str, str]:
    """One ASCII letter for each axis, its own where it has one."""
    out: dict[str, str] = {}
    for axis in axes:
        wanted = identifier(axis)[0]
        free = [c for c in wanted + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in out.values()]
        out[axis] = free[0]
    return out


def tight(text: str) -> str:
    """A text as an operand of anything: in brackets, unless it is a name or a number."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def some(base: str, subs: Sequence[Subscript], sets: Sequence[IndexSet]) -> str:
    """A tensor that may be empty along what is read at places which need not be in it:
    there another one with an element."""
    loose = [isinstance(sub, Gather) and not sub.safe for sub in subs]
    if not any(loose):
        return base
    extents = [sized(s.extent) for s in sets]
    full = " and ".join(tight(n) for n, free in zip(extents, loose, strict=True) if free)
    shape = ", ".join("1" if free else n for n, free in zip(extents, loose, strict=True))
    return f"({base} if {full} else {base}.new_zeros(({shape}{',' * (len(extents) == 1)})))"


def infix(op: str, codes: list[Code]) -> Code:
    """An operation between its operands. EincError where it has no such sign, so that the
    back end cannot write it at all."""
    if op not in INFIX:
        raise EincError([Problem(f"this back end cannot write `{op}`", helps=(Help("compile for another back end"),))])
    sign, level = INFIX[op]
    if op in ("and", "or"):
        return Code(f" {sign} ".join(c.at(ATOM) for c in codes), SHIFT, True)
    text = codes[0].at(level)
    for code in codes[1:]:
        text += f" {sign} {code.at(level + 1)}"
    return Code(text, level, True)
