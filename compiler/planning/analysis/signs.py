"""What one program tells another of the values that it makes for it: their signs, and whether they are finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from einc.ir.primitives import NONNEGATIVE, POSITIVE, UNKNOWN
from einc.ir.programs import Definitions, Equation, Program
from einc.ir.signs import sign
from einc.ir.terms import TRUE, ZERO, Apply, Const, Read

_TOLD: dict[int, Literal["", "nonnegative", "positive"]] = {POSITIVE: "positive", NONNEGATIVE: "nonnegative",
                                                            UNKNOWN: ""}


def least(program: Program, keys: Iterable[str]) -> dict[str, Literal["", "nonnegative", "positive"]]:
    """What is known of the signs of some values of a program."""
    by = program.by_target
    return {key: _TOLD[sign(Read(key, ()), by)] if key in by else "" for key in keys}


def known_of(program: Program) -> Definitions:
    """The equations of a program, and for each input of which something is known one that has it, as far as signs and
    infinities go."""
    found = {t.key: t for t in program.tensors.values() if t.least or t.infinite}
    some = {"positive": "exp", "nonnegative": "abs", "": "neg"}
    facts = (Equation(key, (), TRUE, Apply(some[t.least], (Const(math.inf) if t.infinite else ZERO,)))
             for key, t in found.items())
    return Definitions((*facts, *program.equations))
