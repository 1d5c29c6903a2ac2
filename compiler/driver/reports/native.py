"""Which steps of a plan the back end `auto` computes with C++ on a CPU, and from when on: its formula, with the numbers
of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from einc.driver.automatic import GAIN, OPERATIONS, PATIENCE, compiled
from einc.driver.reports.table import is_known, way_in
from einc.ir.indices import Extent, number
from einc.ir.plan import Leaf, Loop, Module

_ROOM = 60  # for the formula of a call


def native(module: Module, known: Mapping[str, int], text: Callable[[Extent, int, str], str]) -> list[str]:
    """The lines; none where no step has a kernel in C++. `text(formula, room, unit)` is how a formula is written."""
    found = [(place, work) for place, step, inner, work in _steps(module, known) if compiled(step, inner)]
    if not found:
        return []
    work = sum((work for _, work in found), number(0))
    places = ", ".join(dict.fromkeys(place for place, _ in found))
    steps = f"step{'s' * (',' in places)} {places}"
    line = (f"on a CPU, C++ for {steps} once calls have had {OPERATIONS:g} flops of them a thread "
            f"({PATIENCE:g} s over {GAIN:g} s)")
    told = f"a call has {text(work, _ROOM, '')}"
    if is_known(work, known) and (flops := float(work.at(known))) > 0:
        told += f": compiled at call ⌈{OPERATIONS / flops:.3g} n⌉ with n threads"
    return [line, told]


def _steps(module: Module, known: Mapping[str, int]) -> Iterator[tuple[str, Leaf, Module, Extent]]:
    """Each step of one way with its number, the module that it is in, and its operations in all rounds."""
    for n, step in enumerate(module.steps, 1):
        inside, steps = (step.body, step.body.steps) if isinstance(step, Loop) else (module, (step,))
        rounds = step.index.set.extent if isinstance(step, Loop) else number(1)
        for leaf, inner in way_in(inside, steps, known):
            yield str(n), leaf, inner, leaf.cost.flops * rounds
