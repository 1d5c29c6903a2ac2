"""A recurrence -> equations: what one round over the whole of its domain makes, and the round as blocks do it.

Where the result does not depend on how the domain is cut, one block is as good as many; `proof` asks whether it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from einc.ir.dependence import in_order
from einc.ir.domains import negation
from einc.ir.folds import FOLDS
from einc.ir.indices import Index, IndexSet
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Program
from einc.ir.terms import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    free_indices,
    reads,
    substitute,
    transform,
)

# The block of a recurrence that is written for one element a round: no name of the language has a dot.
_BLOCK = "·"


def member(recur: BlockLoop, element: Term) -> Term:
    """The condition that an element is in the block."""
    return Apply("eq", (Read(recur.member, (element,)), ONE))


def one_round(recur: BlockLoop) -> tuple[Equation, ...]:
    """Every target's equation where the block is the whole domain and the states are what they start with."""
    starts = {e.target: e for e in recur.starts}

    def before(read: Read) -> Term:
        return opened(read, starts)

    return tuple(replace(e, body=transform(e.body, _neutral)) for e in resolved(lifted(recur), before, lambda _: TRUE))


def _neutral(term: Term) -> Term:
    """What a state starts with says nothing where it is the neutral element of what it is merged by."""
    if term == Apply("exp", (Const(-math.inf),)):
        return ZERO
    for row in FOLDS.values():
        match term:
            case Apply(op, args) if op == row.step:
                kept = tuple(x for x in args if not (isinstance(x, Const) and x.value == row.start))
                return term if len(kept) == len(args) or not kept else kept[0] if len(kept) == 1 else Apply(op, kept)
    return term


def opened(read: Read, by: dict[str, Equation]) -> Term:
    """The body of the tensor's equation at the place where it is read."""
    equation = by[read.tensor]
    return equation.at(read.subs)


def resolved(recur: BlockLoop, old: Callable[[Read], Term], inside: Callable[[Term], Term]) -> tuple[Equation, ...]:
    """The equations of a round: `old` for what a state was before it, `inside` for being an element of the block."""
    states = {e.target for e in recur.updates}

    def change(term: Term) -> Term:
        match term:
            case Read(tensor) if tensor in states:
                return old(term)
            case Apply("eq", (Read(tensor, (element,)), _)) if tensor == recur.member:
                return inside(element)
            case Apply("and", args):
                return both(*args)
        return term

    return tuple(e.map(lambda t: transform(t, change))
                 for e in (*recur.inside, *recur.updates))


def lifted(recur: BlockLoop) -> BlockLoop:
    """The round for a block of any size, whose instance for one element is the round as it is written.

    What an update adds to its state becomes the fold over the block; so does what is added in a value that is the next
    one of a state. Every other value of an element is put where it is read. A reading among several: whether the blocks
    then agree is for the proof to say.
    """
    if recur.member:
        return recur
    recur = replace(recur, member=_BLOCK)
    by: dict[str, Equation] = {}
    inside: list[Equation] = []
    following = {e.body.tensor: e.target for e in recur.updates if isinstance(e.body, Read)}
    for equation in recur.inside:
        equation = replace(equation, body=_open(equation.body, by))
        if recur.index not in equation.indices and equation.target in following:
            inside.append(replace(equation, body=_over_block(recur, following[equation.target], equation.body)))
        elif recur.index in equation.indices or recur.index not in free_indices(equation.body):
            inside.append(equation)
        else:
            by[equation.target] = equation
    updates = tuple(replace(e, body=_over_block(recur, e.target, _open(e.body, by)) if not _is_next(e, following)
                            else e.body)
                    for e in recur.updates)
    return replace(recur, inside=tuple(inside), updates=updates)


def bodies(recur: BlockLoop) -> dict[str, Equation]:
    """Each state's next value, with everything that a round makes put in place."""
    by: dict[str, Equation] = {}
    for equation in recur.inside:
        by[equation.target] = replace(equation, body=_open(equation.body, by))
    return {e.target: replace(e, body=_open(e.body, by)) for e in recur.updates}


def _open(term: Term, by: dict[str, Equation]) -> Term:
    return transform(term, lambda t: opened(t, by) if isinstance(t, Read) and t.tensor in by else t)


def _is_next(update: Equation, following: dict[str, str]) -> bool:
    return isinstance(update.body, Read) and following.get(update.body.tensor) == update.target


def _over_block(recur: BlockLoop, state: str, body: Term) -> Term:
    """p x + q_j -> p x + Σ_{j ∈ B} q_j for the state x, and so for the step of every fold, in a function too."""
    for row in FOLDS.values():
        parts = _parts(body, row.step)
        still = tuple(x for x in parts
                      if recur.index not in free_indices(x) and any(r.tensor == state for r in reads(x)))
        moving = tuple(x for x in parts if x not in still)
        if still and moving and len(parts) > 1:
            return Apply(row.step,
                         (*still, _fold(recur, row.name, moving[0] if len(moving) == 1 else Apply(row.step, moving))))
    match body:
        case Apply(op, (inner,)):
            return Apply(op, (_over_block(recur, state, inner),))
    return body if recur.index not in free_indices(body) else _fold(recur, "sum", body)


def _fold(recur: BlockLoop, op: str, body: Term) -> Fold:
    return Fold(op, (recur.index,), both(member(recur, Position(recur.index)), recur.domain), body)


def _parts(term: Term, step: str) -> tuple[Term, ...]:
    match term:
        case Apply(op, args) if op == step:
            return tuple(x for arg in args for x in _parts(arg, step))
        case Apply("sub", (a, b)) if step == "add":
            return (*_parts(a, step), *(Apply("neg", (x,)) for x in _parts(b, step)))
    return (term,)


def order(recur: BlockLoop) -> BlockLoop:
    """Each value of a round after what it reads."""
    by = {e.target: e for e in recur.inside}
    found = in_order(by, lambda key: [r.tensor for r in by[key].elements if r.tensor in by])
    return replace(recur, inside=tuple(by[key] for key in found))


def stepped(recur: BlockLoop, element: Term | None = None) -> BlockLoop:
    """The round as it changes the states: a state stays where no element of the block is in the domain.

    `element` is the one of this round, where that is how rounds are written.
    """
    index, here = recur.index, both(recur.domain, TRUE)
    if element is None:
        inside = both(member(recur, Position(index)), recur.domain)
        here = Apply("lt", (ZERO, Fold("sum", (index,), inside, ONE)))

    def kept(equation: Equation) -> Equation:
        old = Where(negation(here), Read(equation.target, equation.axes))
        return replace(equation, body=Apply("add", (Where(here, equation.body), old)))

    recur = replace(recur, updates=tuple(map(kept, recur.updates)))
    return recur if element is None else recur.map(lambda e: _at(e, index, element))


def _at(equation: Equation, index: Index, element: Term) -> Equation:
    if index in equation.indices:
        return equation
    by = {index: element}
    return equation.map(lambda t: substitute(t, by))


Cut = Callable[[int], Sequence[Sequence[int]]]
Values = dict[str, Any]


def thirds(extent: int) -> Sequence[Sequence[int]]:
    """Every third place, from three starts out of order: what is right for these blocks is no accident of the cut."""
    return [range(start, extent, 3) for start in (1, 0, 2)]


@dataclass(frozen=True, slots=True)
class OrderedLoop:
    """A loop whose rounds run in order, with what is made in each, other such loops among it. `kept` are the values
    with one part for each round that are read after the last.
    """

    repeat: IndexLoop
    body: tuple[Equation | OrderedLoop, ...]
    kept: tuple[str, ...]

    @property
    def equations(self) -> Iterator[Equation]:
        """Every equation of a round, those of loops in it too."""
        for step in self.body:
            yield from step.equations if isinstance(step, OrderedLoop) else (step,)

    def run(self, values: Values, solve: Callable[[Equation], Any], extent: Callable[[IndexSet], int]) -> None:
        """The states after the last round, and what is kept of each; what a round makes anew is gone."""
        self._turn(values, solve, extent, {})
        for key in values.keys() & (self.repeat.made - {state for state, _, _ in self.repeat.states} - {*self.kept}):
            del values[key]

    def _turn(self, values: Values, solve: Callable[[Equation], Any], extent: Callable[[IndexSet], int],
              around: Mapping[Index, int]) -> None:
        """All rounds of the loop in the rounds `around` it, each told by its place. Changes `values`."""
        index, states, by = self.repeat.index, self.repeat.states, {e.target: e for e in self.equations}
        values.update({state: values[first] for state, first, _ in states})
        for e in by.values():
            if place_of(index, e) is not None and e.target not in values:
                values[e.target] = solve(replace(e, domain=FALSE, body=ZERO))
        for place in range(extent(index.set)):
            places = {**around, index: place}
            here = {i: Const(Fraction(at + i.set.start)) for i, at in places.items()}
            for step in self.body:
                if isinstance(step, OrderedLoop):
                    step._turn(values, solve, extent, places)
                    continue
                made, part = solve(step.map(partial(substitute, by=here))), _part(step, places)
                if part == ():
                    values[step.target] = made
                else:
                    values[step.target][part] = made[part]
            # Later rounds change the parts of a value where they stand.
            values.update({state: values[key][part].copy() if key in by and (part := _part(by[key], places)) != ()
                           else values[key].copy() for state, _, key in states})


def _part(equation: Equation, places: Mapping[Index, int]) -> tuple[slice | int, ...]:
    """Where the part of these rounds stands in a value; () where it is made anew in each."""
    found = tuple(places.get(axis.index, slice(None)) if isinstance(axis, Position) else slice(None)
                  for axis in equation.axes)
    return found if any(isinstance(at, int) for at in found) else ()


def place_of(index: Index, equation: Equation) -> int | None:
    """The axis of a value that counts rounds; None where the value is made anew in each."""
    return next((n for n, axis in enumerate(equation.axes) if axis == Position(index)), None)


def steps(program: Program) -> dict[str, Equation | BlockLoop | OrderedLoop]:
    """What gives each tensor its value: its equation, or the rounds that it is a state of."""
    inner = {key for repeat in program.repeats for key in repeat.inside}
    out: dict[str, Equation | BlockLoop | OrderedLoop] = {}
    out |= {e.target: e for e in program.equations if e.target not in inner}
    out |= {key: recur for recur in program.recurs for key in recur.targets}
    for repeat in program.repeats:
        turns = _ordered(program, repeat, program.kept[repeat])
        out |= dict.fromkeys([*(state for state, _, _ in repeat.states), *turns.kept], turns)
    return out


def _ordered(program: Program, repeat: IndexLoop, kept: tuple[str, ...]) -> OrderedLoop:
    """The loop with what each round makes, each equation and each loop in it after what it reads."""
    by: dict[str, Equation | OrderedLoop] = {e.target: e for e in program.equations if e.target in repeat.inside}
    for loop in repeat.loops:
        by |= dict.fromkeys(loop.made, _ordered(program, loop, loop.inside))
    if not repeat.loops:
        return OrderedLoop(repeat, tuple(by.values()), kept)

    def before(step: Equation | OrderedLoop) -> list[Equation | OrderedLoop]:
        return [by[key] for key in sorted(needs(step)) if key in by and by[key] is not step]

    return OrderedLoop(repeat, tuple(in_order(dict.fromkeys(by.values()), before)), kept)


def needs(step: Equation | BlockLoop | OrderedLoop) -> Set[str]:
    """The tensors that must be there before."""
    if isinstance(step, OrderedLoop):
        firsts = {first for _, first, _ in step.repeat.states}
        return firsts.union(*map(needs, step.body)) - step.repeat.made
    if isinstance(step, Equation):
        return step.reads
    found = {r.tensor for r in reads(step.domain)}
    return found.union(*(needs(e) for e in step.equations)) - step.targets - {step.member}


def run(recur: BlockLoop, values: Values, solve: Callable[[Equation], Any], blocks: Sequence[Sequence[int]],
        mark: Callable[[Sequence[int]], Any]) -> None:
    """Puts into `values` the states after the last round, the updates of each taking effect together; what a round
    makes is gone.

    `solve` evaluates an equation with what is in `values`; `mark` is 1 on a block of places and 0 elsewhere.
    """
    values.update({e.target: solve(e) for e in recur.starts})
    for block in blocks:
        element = None if recur.member else Const(Fraction(block[0] + recur.index.set.start))
        if recur.member:
            values[recur.member] = mark(block)
        step = stepped(recur, element)
        for equation in step.inside:
            values[equation.target] = solve(equation)
        values.update({e.target: solve(e) for e in step.updates})
    for key in ({recur.member} | recur.targets - {e.target for e in recur.updates}) & values.keys():
        del values[key]
