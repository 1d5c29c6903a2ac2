"""Rounds that are made again for the gradient, so that less is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from einc.ir.plan import Gradient, GradientLoop, Module, PerRank, SegmentedModule

P = TypeVar("P", bound=Module | Gradient | SegmentedModule | PerRank)


def recomputed(plan: P, rounds: Mapping[str, int]) -> P:
    """The plan in which so many rounds of each letter are made again together; without a gradient it is the same."""
    if not rounds:
        return plan
    if isinstance(plan, PerRank):
        stages = plan.stages
        if stages is not None:
            kinds = tuple((recomputed(one, rounds), module_class) for one, module_class in stages.kinds)
            stages = replace(stages, kinds=kinds)
        return replace(plan, body=recomputed(plan.body, rounds), stages=stages)
    if not isinstance(plan, SegmentedModule):
        return plan
    pieces = tuple(replace(piece, every=rounds.get(piece.index.name, 0), body=recomputed(piece.body, rounds))
                   if isinstance(piece, GradientLoop) else piece for piece in plan.pieces)
    return replace(plan, pieces=pieces)
