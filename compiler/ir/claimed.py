"""Claim: two tensors of a program that are said to be equal, and what is assumed of others."""

from __future__ import annotations

from dataclasses import dataclass

from einc.errors.report import Span
from einc.ir.programs import TypedProgram


@dataclass(frozen=True, slots=True)
class Claim:
    """`left` and `right` are outputs of the program, over the same indices; they are compared where both exist.

    So are the pairs in `given`, which are equal by assumption. `negated`: the claim says that the two differ somewhere.
    """

    program: TypedProgram
    left: str
    right: str
    given: tuple[tuple[str, str], ...] = ()
    negated: bool = False
    text: str = ""
    span: Span | None = None
