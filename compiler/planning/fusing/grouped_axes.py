"""x[ceil(h G / H)]: an element that a whole run of h reads is not copied for each of them.

Where G divides H, h is a pair: the element, and the place within its run. The copy along h is then a view along the
runs, and inside a kernel the pair's second part joins the rows of a product. Where G does not divide H a run is one h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einc.ir.domains import linear
from einc.ir.indices import DATA, Extent, Index, IndexSet, number, size
from einc.ir.plan import Buffer
from einc.ir.programs import Equation
from einc.ir.terms import TRUE, Apply, Fold, Pack, Position, Read, Term, free_indices, reads, transform
from einc.planning.fusing.fuse import FusedGroup


@dataclass(frozen=True)
class GroupedAxis:
    """A copy along `index`, as of the heads that share keys: each run of its elements reads one element of `onto`,
    at the slot `place` of its operand."""

    target: str
    operand: Read
    index: Index
    onto: IndexSet
    place: int
    axis: int  # of the copy

    @property
    def count(self) -> str:
        """The number of runs, a size of the emitted module: that of `onto`, or of the index itself."""
        return "runs_" + "_".join(re.sub(r"\W+", "_", str(s.extent)).strip("_") for s in (self.onto, self.index.set))

    def within(self, equations: Iterable[Equation]) -> GroupedAxis | None:
        """This run with the letter that these equations have for its index; None where they have several."""
        letters = {r.subs[self.axis] for e in equations for r in reads(e.body) if r.tensor == self.target}
        found = letters.pop() if len(letters) == 1 else None
        return replace(self, index=found.index) if isinstance(found, Position) else None

    def parts(self) -> tuple[Index, Index]:
        """The run, and the place within it."""
        each = self.index.set.extent.over(size(self.count))
        assert each is not None
        return (
            Index(f"{self.index.name}_run", IndexSet(self.index.set.cls, size(self.count))),
            Index(f"{self.index.name}_in", IndexSet(self.index.set.cls, each)),
        )


def grouped_axis(equation: Equation, onto: tuple[IndexSet, ...]) -> GroupedAxis | None:
    """The run that an equation copies along, if it is such a copy; `onto` are the sets of the operand's slots."""
    body = equation.body
    if not isinstance(body, Read) or equation.domain != TRUE or not all(isinstance(a, Position) for a in equation.axes):
        return None
    computed = [(n, s) for n, s in enumerate(body.subs) if not isinstance(s, Position)]
    if len(computed) != 1 or len(free_indices(computed[0][1])) != 1:
        return None
    place, sub = computed[0]
    (index,) = free_indices(sub)
    plain = [s for s in body.subs if isinstance(s, Position)]
    slot = onto[place]
    if ({*plain, Position(index)} != set(equation.axes) or len(plain) + 1 != len(equation.axes)
        or Position(index) in plain):
        return None
    axis = equation.axes.index(Position(index))
    return GroupedAxis(equation.target, body, index, slot, place, axis) if _runs(sub, index, slot) else None


def _runs(sub: Term, index: Index, onto: IndexSet) -> bool:
    """Whether the subscript takes the elements of `onto` one after the other, each for a run of the same length."""
    outer = linear(sub)
    ratio = onto.extent.over(index.set.extent)
    if outer is None or ratio is None or len(outer.atoms) != 1 or outer.atoms[0][1] != number(1) or ratio == number(1):
        return False
    match outer.atoms[0][0]:
        case Apply("ceil" | "floor" as rounding, (x,)):
            form = linear(x)
        case _:
            return False
    if form is None or form.coefficient(Position(index)) != ratio or len(form.atoms) != 1:
        return False
    first = form.constant + ratio * number(index.set.start)  # what is rounded at the first element of the first run
    begins, least = (ratio, 1) if rounding == "ceil" else (Extent(()), 0)
    return first == begins and outer.constant == number(onto.start - least)


def paired(equations: tuple[Equation, ...], runs: Iterable[GroupedAxis],
           virtual: frozenset[str]) -> tuple[Equation, ...]:
    """The equations of a kernel with the index of the runs as a pair, and the copies read along their runs.

    `virtual` values have the pair as two axes, stored ones as a composite axis.
    """
    chosen = {r.target: r for r in runs}
    for index in dict.fromkeys(r.index for r in chosen.values()):
        equations = _paired(equations, {t: r for t, r in chosen.items() if r.index == index}, index, virtual)
    return equations


def _paired(equations: tuple[Equation, ...], runs: dict[str, GroupedAxis], index: Index,
            virtual: frozenset[str]) -> tuple[Equation, ...]:
    """The equations with one index of runs replaced by the pair (run, place within it).
    All of `runs` must have this index; `virtual` values have the two as axes of their own."""
    run, inside = next(iter(runs.values())).parts()
    both = (Position(run), Position(inside))
    pack = Pack(both, (run.set, inside.set), index.set)

    def change(term: Term) -> Term:
        """One node of a term with the index replaced by the pair; a read of a copy takes the run alone."""
        match term:
            case Position() if term == Position(index):
                return pack
            case Read(name, subs) if name in runs:
                return Read(name, tuple(both[0] if s == pack else s for s in subs))
            case Read(name, subs) if name in virtual:
                return Read(name, _flat(subs, pack))
            case Fold(op, bound, domain, body) if index in bound:
                return Fold(op, tuple(i for b in bound for i in ((run, inside) if b == index else (b,))), domain, body)
        return term

    def changed(equation: Equation) -> Equation:
        axes = tuple(transform(a, change) for a in equation.axes)
        made = equation.map(lambda t: transform(t, change))
        return replace(made, axes=_flat(axes, pack) if equation.target in virtual else axes)

    return tuple(map(changed, equations))


def _flat(subs: tuple[Term, ...], pack: Pack) -> tuple[Term, ...]:
    return tuple(x for s in subs for x in (pack.parts if s == pack else (s,)))


def shared(groups: Sequence[FusedGroup], tiled: Sequence[bool],
           buffers: Mapping[str, Buffer]) -> dict[str, GroupedAxis]:
    """The copies that only tiled kernels read, each under one letter: they need not be made. An index that kernels pass
    over or cut in tiles stays one, and no pair."""
    found: dict[str, GroupedAxis] = {}
    for group in groups:
        only = group.equations[0]
        if len(group.equations) > 1 or not isinstance(only.body, Read) or buffers[only.target].role == "output":
            continue  # a result is whole
        run = grouped_axis(only, buffers[only.body.tensor].sets)
        if run is not None and run.index.set.cls not in DATA:
            found[run.target] = run
    for group, is_tiled in zip(groups, tiled, strict=True):
        for target in {key for e in group.equations for key in e.reads} & found.keys():
            others = {r.tensor for e in group.equations for r in reads(e.domain)}
            if not is_tiled or target in others or found[target].within(group.equations) is None:
                del found[target]
    return found
