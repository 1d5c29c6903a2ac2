"""Folds over the axis that is cut in tiles: each tile has a share of the result, and the shares are merged.

A fold over both axes of a tile is one over its rows of what the pass folds along each of them, so that nothing of the
size of both is stored. What else such a fold runs over, heads say, is folded afterwards, over a small stored result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from einc.ir.dependence import behind
from einc.ir.draft import Draft, unused
from einc.ir.finite import surely_finite
from einc.ir.folds import FOLDS
from einc.ir.indices import SEQUENCE, WIDTH, Index
from einc.ir.programs import Equation, NormalProgram, Tensor
from einc.ir.sums import factors, product
from einc.ir.terms import Fold, Position, Read, Term, both, conjuncts, free_indices, reads
from einc.ir.witnesses import witnessed
from einc.planning.analysis.cost import nominal
from einc.planning.analysis.scatters import named_by, scattered
from einc.planning.contractions.materialise import unstored
from einc.planning.contractions.nested import split_fold, with_batches
from einc.planning.streaming.passes import CarriedFold, Streamed
from einc.planning.streaming.stream import unbounded


def nested(program: NormalProgram, ordered: bool) -> NormalProgram:
    """Folds of unstored values over positions and more: over the positions first, each on its own.

    Where tiles run in `order` a fold over one of the positions runs over the rest at
    once: nothing is stored for each of it. Elsewhere one program has the pairs of one head.
    """
    program = program if ordered else with_batches(program)
    virtual = unstored(program, {key for _, key in program.outputs})
    wide = {e.target for e in program.equations
            if e.target in virtual and sum(i.set.cls in SEQUENCE for i in e.indices) > 1}
    draft = Draft(program.tensors)
    for equation in program.equations:
        body = equation.body
        if isinstance(body, Fold) and not FOLDS[body.op].ordered and any(r.tensor in wide for r in reads(body.body)):
            rest = tuple(b for b in body.bound if b not in _placed(body.bound))
            asked = (c for c in conjuncts(body.domain) if free_indices(c) & {*_placed(body.bound)})
            used = free_indices(body.body).union(*map(free_indices, asked))
            if len(_placed(body.bound)) > ordered and rest and used >= {*rest}:
                letters = (*rest, *(i for i in equation.indices if i in used))
                equation = split_fold(draft, equation, body, "each", rest, letters)
        draft.add(equation)
    return draft.done(program)


@dataclass(frozen=True)
class PartialReductions:
    """A kernel's equations once its tiles are cut along `grid`: those of the pass, and those of each tile's partial
    result, its share.

    `late` shares are made after the pass, of rows that it made; `direct` ones in each of its steps, of what stands
    `beside`, and those that `grow` are merged step by step.
    """

    grid: Index
    passed: tuple[Equation, ...]
    late: tuple[Equation, ...]
    direct: tuple[Equation, ...] = ()
    beside: tuple[Equation, ...] = ()
    grow: tuple[CarriedFold, ...] = ()
    stream: Index | None = None

    @property
    def rows(self) -> frozenset[str]:
        """What the pass makes for the shares after it."""
        made = {e.target for e in self.passed}
        return frozenset(r.tensor for e in self.late for r in reads(e.body) if r.tensor in made)

    def joined(self, passed: Streamed) -> Streamed:
        """The pass, in it the values that direct shares need, and the shares."""
        known = {e.target for e in passed.equations}
        if self.grow and (passed.carries or not any(self.stream in _bound(e) for e in self.passed)):
            passed = replace(passed, index=self.stream, carries=(*passed.carries, *self.grow))
        beside = (e for e in self.beside if e.target not in known)
        return replace(passed, equations=(*passed.equations, *beside, *self.direct, *self.late), grid=self.grid)


def partial_reductions(equations: tuple[Equation, ...], kept: frozenset[str], program: NormalProgram,
           ordered: bool) -> PartialReductions | None:
    """How the results of a kernel fold the axis of its tiles away; None where all keep a place, or no axis serves all.

    Where tiles run in `order`, a result may keep the axis of the pass: each step adds to its own part of it.
    """
    stored = [e for e in equations if e.target in kept]
    if any(all(i in e.indices for e in stored) for i in stored[0].indices if i.set.cls in SEQUENCE):
        return None
    bound = dict.fromkeys(i for e in stored for i in (*e.indices, *_bound(e)) if i.set.cls in SEQUENCE)
    fitting = [g for g in bound if all(g in e.indices or _folds(e, g, equations, ordered) for e in stored)]
    if not fitting:
        return None
    grid = max(fitting, key=lambda i: (sum(i in e.indices for e in stored), nominal(i.set)))
    by = {e.target: e for e in equations}
    names, passed, late, direct, grow = (set(program.tensors), list[Equation](), list[Equation](), list[Equation](),
                                         list[CarriedFold]())
    stream = {b for e in stored for b in _bound(e) if b.set.cls in SEQUENCE} - {grid}
    for equation in equations:
        body = equation.body
        if not isinstance(body, Fold) or equation.target not in kept or grid in equation.indices:
            passed.append(equation)
        elif _placed(body.bound) == (grid,):
            direct.append(equation)
        elif len(stream) == 1 and _counted(equation, body, program.tensors):
            direct.append(equation)
            grow.append(CarriedFold(equation.target, body.op))
        else:
            name = unused(f"{equation.target}_row", names)
            row, share = _by_rows(equation, body, grid, name, {**program.by_target, **by})
            names.add(row.target)
            passed.append(row)
            late.append(share)
    beside = _behind(direct, equations, kept)
    needed = behind(by, (key for e in direct for key in e.reads))
    if any(_placed(_bound(by[key])) for key in needed if key in by):
        return None  # a step of the pass would read what is known after its last one
    if len(direct) > len(grow) and any(unbounded(e.body, by) for e in beside):
        return None
    return PartialReductions(grid, tuple(passed), tuple(late), tuple(direct), beside, tuple(grow),
                             next(iter(stream), None))


def _counted(equation: Equation, fold: Fold, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a result is summed by a number, each point of a tile once."""
    found = scattered(equation, fold, lambda key: key in tensors and tensors[key].integer)
    own = free_indices(fold.body) & set(equation.indices)
    return found is not None and not any(i.set.cls in WIDTH for i in own)


def _by_rows(equation: Equation, fold: Fold, grid: Index, name: str,
             known: Mapping[str, Equation]) -> tuple[Equation, Equation]:
    """The fold along each row of the tile, and over the rows what is made of it; what does not run along a row scales
    it, where it is a finite number even for a row without a point: `known` says what it is made of."""
    over = tuple(b for b in fold.bound if b != grid)
    apart = [c for c in conjuncts(fold.domain) if _of_rows(c, equation, fold, grid)]
    outer = [f for f in factors(fold.body)
             if FOLDS[fold.op].linear and grid in free_indices(f) and not free_indices(f) & set(over)]
    outer = [f for f in outer if witnessed(fold.domain, over, (*equation.indices, grid)) or surely_finite(f, known)]
    inner = product(tuple(f for f in factors(fold.body) if f not in outer)) if outer else fold.body
    domain = both(*(c for c in conjuncts(fold.domain) if c not in apart))
    used = free_indices(inner) | free_indices(domain)
    axes = (*(Position(i) for i in equation.indices if i in used), Position(grid))
    row = Equation(name, axes, equation.domain, replace(fold, bound=over, domain=domain, body=inner))
    return row, replace(equation, body=Fold(fold.op, (grid,), both(*apart), product((*outer, Read(name, axes)))))


def _of_rows(atom: Term, equation: Equation, fold: Fold, grid: Index) -> bool:
    """Whether a condition only names an element of the result for each row."""
    named = named_by(atom, equation)
    return named is not None and free_indices(named[1]) <= {grid} and named[0] not in free_indices(fold.body)


def _bound(equation: Equation) -> tuple[Index, ...]:
    return equation.body.bound if isinstance(equation.body, Fold) else ()


def _folds(equation: Equation, grid: Index, all_: Iterable[Equation], ordered: bool) -> bool:
    """Whether a result is made of the shares of tiles: folded over both axes, or over the
    rows where tiles run in order."""
    bound = _bound(equation)
    if _placed(bound) == (grid,) and (ordered or len(bound) == 1):
        passed = {b for e in all_ if grid in e.indices for b in _bound(e) if b.set.cls in SEQUENCE}
        return ordered and len(passed) == 1 and passed <= set(equation.indices)
    return grid in bound and len(bound) == 2 and all(b.set.cls in SEQUENCE for b in bound)


def _placed(bound: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(b for b in bound if b.set.cls in SEQUENCE)


def _behind(wanted: Iterable[Equation], source: tuple[Equation, ...], kept: frozenset[str]) -> tuple[Equation, ...]:
    """The values that some equations are made of and that are not kept."""
    found = behind({e.target: e for e in source if e.target not in kept}, (key for e in wanted for key in e.reads))
    return tuple(e for e in source if e.target in found)


def early(equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
    """The folds of a pass as soon as what they read is there: what one of them masks,
    values made of it after that need not."""
    out: list[Equation] = []
    pending = list(equations)
    while pending:
        left = {e.target for e in pending}
        ready = (e for e in pending if isinstance(e.body, Fold) and left.isdisjoint(r.tensor for r in reads(e.body)))
        out.append(next(ready, pending[0]))
        pending.remove(out[-1])
    return tuple(out)
