"""Planning a step that adds positions to a cache. Loaded where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from einc.checking.plans import chosen
from einc.errors.report import EincError, Help, Problem
from einc.ir.choices import PLAIN, Choices
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram
from einc.planning import generation as steps
from einc.transforms.serving.cached import Refused


def generation(program: TypedProgram, choices: Choices = PLAIN, keep: Iterable[str] = (),
               plans: Sequence[str] = ("serve",)) -> Module:
    """The plan of a step that adds positions to those before, of which it keeps what `keep` names, else what the
    text's `plans` of these names say, else what is cheapest where one position is added to many. EincError where
    nothing grows, where what is to be kept may change later, or where there is no such plan.
    """
    try:
        cache = chosen(program.plans, plans).cache()
        return steps.generation(program, choices, frozenset(keep) or frozenset(cache.tensors), cache.page)
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
    except Problem as problem:
        raise EincError([problem]) from None
