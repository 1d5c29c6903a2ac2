"""The lines of a spec from queries, keys and values to the output: what `register` puts into a model of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from einc.driver import pipeline
from einc.driver.checking import typed
from einc.errors.report import EincError, Help, Problem
from einc.meaning.interpret import interpret
from einc.meaning.sizes import solve_sizes
from einc.planning import usual
from einc.transforms.serving.cached import Refused
from einc.transforms.serving.core import Middle, middle
from einc.transforms.serving.interface import Facts, facts


@dataclass(frozen=True)
class Part:
    """The part of a spec that stands between another model's projections: as it is, where padding is, and what they
    agree on.
    """

    plain: Middle
    padded: Middle
    facts: Facts

    def scale(self, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> float:
        """What new values are multiplied by, for tensors of these shapes. EincError where they do not fit."""
        try:
            program = replace(self.facts.scale, sizes=solve_sizes(self.plain.program, shapes, sizes))
            return float(interpret(program, {})["scale"])
        except Problem as problem:
            raise EincError([problem]) from None


def part(path_or_text: str | Path, named: frozenset[str] = frozenset()) -> Part:
    """The part of a spec for another model, which gives the tensors that are `named` besides. EincError where the spec
    has errors, or no such part.
    """
    program = typed(path_or_text)
    try:
        sizes = usual(pipeline.normal(program))
        plain, padded = (middle(program, sizes, padded=one, named=named & program.tensors.keys())
                         for one in (False, True))
        return Part(plain, padded, facts(plain))
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
