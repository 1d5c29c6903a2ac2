"""A program -> the plan of a step that adds positions to those that a cache has, chosen by cost among the sound ways
to keep the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.ir.choices import PLAIN, Choices
from einc.ir.indices import IndexSet
from einc.ir.plan import Generation, Module
from einc.ir.programs import TypedProgram
from einc.planning.contractions.associate import usual
from einc.planning.contractions.choose import reckoned
from einc.planning.planner import plan
from einc.transforms.normal.normalise import normalise
from einc.transforms.serving.cached import append_stability, asked, dropping, growing, numbered, ways
from einc.transforms.serving.handed import Handed, handed
from einc.transforms.serving.step import Step
from einc.transforms.slicing.lags import with_lags

GAIN = 2  # how much cheaper a step must be that makes more of the past again
LONG = 4096  # positions of the past at which it is reckoned what as many more would cost


def generation(program: TypedProgram, choices: Choices = PLAIN, keep: frozenset[str] = frozenset(),
               page: int = 0) -> Module:
    """The plan of a step that keeps the tensors `keep` of each position, or where none are named what is cheapest
    where one position is added to many. A page of its memory has `page` positions, 0 where that is left open.

    Raises Refused where no positions grow, or where a tensor of `keep` may still change when positions are added.
    """
    program = with_lags(program)
    along = growing(program)
    steps = [dropping(program, along, step) for step in _ways(program, along, keep)]
    return _cheapest(program, along, steps, choices, page)[1]


def as_function(program: TypedProgram, choices: Choices = PLAIN, keep: frozenset[str] = frozenset()) -> Handed:
    """The step that generates, as a function that takes the past of all that it keeps. Raises Refused as `generation`
    does."""
    program = with_lags(program)
    along = growing(program)
    return handed(_cheapest(program, along, _ways(program, along, keep), choices, 0)[0])


def _ways(program: TypedProgram, along: IndexSet, keep: frozenset[str]) -> list[Step]:
    """The ways to make a step. Raises Refused."""
    known = append_stability(program, along)
    return [asked(program, along, known, keep)] if keep else ways(program, along, known, usual(normalise(program)))


def _cheapest(program: TypedProgram, along: IndexSet, steps: list[Step], choices: Choices,
              page: int) -> tuple[Step, Module]:
    """The way to make a step that costs least where one position is added to many, with its plan."""
    found = [(step, _module(program, along, step, choices, page)) for step in steps]
    if len(found) == 1:
        return found[0]
    sizes = usual(normalise(program))
    costs = [_cost(along, step, module, sizes) for step, module in found]
    least = min(range(len(costs)), key=costs.__getitem__)
    return found[least if GAIN * costs[least] < costs[0] else 0]


def _module(program: TypedProgram, along: IndexSet, step: Step, choices: Choices, page: int) -> Module:
    """The plan of one way to make a step."""
    (new,) = along.extent.sizes
    given = tuple(step.program.tensors[t.key] for t in program.inputs() if not step.caches and not step.states)
    own = replace(step.program, own=(new, step.past, *filter(None, [step.dropped])))
    several = numbered(own)
    given += tuple(t for t in several.tensors.values() if given and t.key not in own.tensors)
    module = plan(normalise(several), given or several.inputs(), choices)
    outputs = module.outputs[:len(module.outputs) - len(step.states)]
    told = Generation(step.past, new, step.dropped, step.back, page, step.states)
    return replace(module, outputs=outputs, generation=told,
                   sizes=module.sizes | {step.past, *filter(None, [step.dropped])})


def _cost(along: IndexSet, step: Step, module: Module, sizes: Mapping[str, int]) -> float:
    """What LONG more positions of the past cost a step of one new position, in operations."""
    (new,) = along.extent.sizes
    at = {**sizes, new: 1, step.past: LONG, step.dropped: 1}
    return reckoned(module, {**at, step.past: 2 * LONG}) - reckoned(module, at)
