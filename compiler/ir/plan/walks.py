"""Walks over steps and the steps within them: what they make and take, and the same with others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

from einc.ir.plan.kernels import Kernel
from einc.ir.plan.modules import Choose, Hops, Loop, PerRequest, RowBlocks, Step
from einc.ir.plan.operations import Leaf


def within(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps and all that stand in their bodies. Modules that loops call are functions
    of their own and not among them."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from within(body)


def leaves(steps: Iterable[Step]) -> Iterator[Leaf]:
    """The steps, and in place of a choice those of every way; loops, and what is done for
    each request or for each block of rows, are not among them."""
    for step in steps:
        match step:
            case Choose():
                yield from (s for body in step.bodies for s in body)
            case Hops() | Loop() | PerRequest() | RowBlocks():
                pass
            case _:
                yield step


def makes(step: Step) -> frozenset[str]:
    """The buffers that a step writes, those of its bodies among them."""
    return frozenset(step.writes).union(*(makes(inner) for body in step.bodies for inner in body))


def takes(step: Step) -> frozenset[str]:
    """The buffers whose elements a step reads, or a step in one of its bodies, and which
    that body has not made itself."""
    inner = (takes_all(body) for body in step.bodies)
    return frozenset(step.reads).union(*inner)


def takes_all(steps: Iterable[Step]) -> frozenset[str]:
    """The buffers that some steps, done one after the other, find made."""
    known = tuple(steps)
    return frozenset[str]().union(*map(takes, known)) - frozenset[str]().union(*map(makes, known))


def replaced(step: Step, change: Callable[[Kernel], Kernel]) -> Step:
    """The step with every kernel in it changed, in its bodies too; a loop calls modules
    of its own, which stay as they are."""
    if isinstance(step, Kernel):
        return change(step)
    bodies = tuple(tuple(cast(Leaf, replaced(inner, change)) for inner in body) for body in step.bodies)
    return step if bodies == step.bodies else replace(step, bodies=bodies)


def renamed(step: Step, names: Callable[[str], str], kernel: Callable[[Kernel], Kernel]) -> Step:
    """The step with other names for buffers; `kernel` renames those that a kernel has in its lets and bounds."""
    if isinstance(step, Kernel):
        return kernel(step)
    bodies = tuple(tuple(cast(Leaf, renamed(inner, names, kernel)) for inner in body) for body in step.bodies)
    return replace(step, reads=tuple(map(names, step.reads)), writes=tuple(map(names, step.writes)), bodies=bodies)
