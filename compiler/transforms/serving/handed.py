"""A step over a cache as a function: what is kept of the past is given, and the rows that new positions add to it are
returned behind the outputs, so that whoever calls it keeps them where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from einc.ir.draft import unused
from einc.ir.indices import Index
from einc.ir.programs import Equation, IndexLoop, Tensor, TypedProgram
from einc.ir.terms import TRUE, Join, Position, Read, Term
from einc.transforms.serving.cached import Refused
from einc.transforms.serving.step import Step


@dataclass(frozen=True)
class Rows:
    """What is kept of one tensor: the name of the input that is its past, that of the output that adds to it, and the
    slot of the positions.
    """

    past: str
    made: str
    slot: int


@dataclass(frozen=True)
class Handed:
    """The program of new positions, the size of the past, and what is kept. Where positions are dealt out over `ranks`,
    the slot of positions is that of a rank's rows, and the next one that of the ranks.
    """

    program: TypedProgram
    past: str
    rows: tuple[Rows, ...]
    ranks: int = 1


def handed(step: Step) -> Handed:
    """A step as a function. Raises Refused where it keeps states of loops, which are none of rows."""
    if step.states:
        raise Refused(f"`{step.states[0][1]}` of `{step.program.name}` is a state that a step leaves, and on several "
                      "devices only rows of positions are kept yet", "generate on one device")
    program, tensors = step.program, dict(step.program.tensors)
    added, rows = dict[str, Equation](), list[Rows]()
    for key, past, whole in step.caches:
        made = unused(f"{key}_rows", {*tensors})
        equation, slot = _new(program.by_target[whole], made)
        (new, *_), old = (r for r in equation.elements), tensors[past]
        slots = (*old.slots[:slot], replace(old.slots[slot], set=_at(equation, slot).set), *old.slots[slot + 1:])
        tensors[made] = Tensor(made, made, slots, "local", tensors[new.tensor].element)
        tensors[past] = replace(old, role="input")
        added[whole] = equation
        rows.append(Rows(past, made, slot))
    outputs = (*program.outputs, *((one.made, one.made) for one in rows))
    equations = [e for old in program.equations for e in (old, *([added[old.target]] if old.target in added else []))]
    loops = tuple(_with(loop, added) if isinstance(loop, IndexLoop) else loop for loop in program.loops)
    return Handed(replace(program.but(equations=equations, tensors=tensors, outputs=outputs, loops=loops), own=()),
                  step.past, tuple(rows))


def _new(whole: Equation, made: str) -> tuple[Equation, int]:
    """What the new positions add to rows that are laid together, at the places of those of the past, and the slot of
    the positions.
    """
    assert isinstance(whole.body, Join)
    (past, old), (mine, new) = whole.body.parts
    assert isinstance(old, Read)
    axes: tuple[Term, ...] = tuple(Position(mine) if sub == Position(past) else sub for sub in old.subs)
    return Equation(made, axes, TRUE, new), old.subs.index(Position(past))


def _at(equation: Equation, slot: int) -> Index:
    """The letter of a slot."""
    axis = equation.axes[slot]
    assert isinstance(axis, Position)
    return axis.index


def _with(loop: IndexLoop, added: Mapping[str, Equation]) -> IndexLoop:
    """Rounds with what is added to some of their tensors."""
    inside = [key for old in loop.inside for key in (old, *([added[old].target] if old in added else []))]
    return replace(loop, inside=tuple(inside))
