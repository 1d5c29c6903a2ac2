"""How far back a step reads: a fixed number of positions, or all of them.

What is behind that need not be kept. A position that an equation has for its own asks for no more than what reads the
equation's tensor does.
"""

from __future__ import annotations

from collections.abc import Iterator

from einc.ir.domains import Linear, facts, linear
from einc.ir.indices import Extent, IndexSet, number, size
from einc.ir.programs import Equation
from einc.ir.reading import Seen, seen
from einc.ir.terms import Position, Term
from einc.transforms.serving.step import Step


def back(step: Step, whole: IndexSet, new: IndexSet) -> tuple[Extent, ...] | None:
    """Numbers of positions before the new ones, of which the largest is enough; None where all may be read."""
    program = step.program
    if any(s.set == whole for _, key in program.outputs for s in program.tensors[key].slots):
        return None
    found: dict[Extent, None] = {}
    for equation in program.equations:
        for at, sub in _read(step, equation, whole):
            depth = _depth(sub, at.given, whole, new, step.past)
            if depth is None:
                return None
            found[depth] = None
    return tuple(found) or None


def _read(step: Step, equation: Equation, whole: IndexSet) -> Iterator[tuple[Seen, Term]]:
    """Where an equation reads at positions that are not its own."""
    own = {Position(i) for i in equation.indices}
    for term, given in ((equation.body, equation.domain), (equation.domain, equation.domain)):
        for at in seen(term, given):
            slots = step.program.tensors[at.read.tensor].slots
            for slot, sub in zip(slots, at.read.subs, strict=True):
                if slot.set == whole and sub not in own:
                    yield at, sub


def _depth(sub: Term, given: Term, whole: IndexSet, new: IndexSet, past: str) -> Extent | None:
    """How many positions before the new ones are enough for a read at a place."""
    form = linear(sub)
    if form is None:
        return None
    nothing = Linear((), number(0))
    forms = [nothing.plus(f.without(sub), number(-1)) for f in facts(given) if f.coefficient(sub) == number(1)]
    least = next((low for f in [form, *forms] if (low := _least(f, new)) is not None), None)
    if least is None:
        return None
    depth = size(past) + number(1) - least
    return None if past in depth.sizes or depth.sizes & new.extent.sizes else depth


def _least(form: Linear, new: IndexSet) -> Extent | None:
    """The least value of a form in new positions alone."""
    total = form.constant
    for atom, coefficient in form.atoms:
        if not isinstance(atom, Position) or atom.index.set != new or coefficient != number(1):
            return None
        total = total + number(new.start)
    return total
