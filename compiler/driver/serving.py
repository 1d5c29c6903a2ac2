"""Planning a step that adds positions to a cache. Loaded where one is asked for."""

from __future__ import annotations

from einc.errors.report import EincError, Help, Problem
from einc.ir.choices import Choices
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram
from einc.planning import generation as steps
from einc.transforms.serving.cached import Refused


def generation(program: TypedProgram, choices: Choices, keep: frozenset[str], page: int) -> Module:
    """The plan of a step that adds positions to those before, of which it keeps what `keep` names, else what is
    cheapest where one position is added to many, in pages of so many positions, 0 without pages. EincError where
    nothing grows, or where what is to be kept may change later.
    """
    try:
        return steps.generation(program, choices, keep, page)
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
    except Problem as problem:
        raise EincError([problem]) from None
