"""Several plans of one program -> the one that is always good, or a choice among a few by their prices at the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from einc.ir.indices import Atom, Extent, IndexSet, number
from einc.ir.plan import (
    Buffer,
    Choose,
    Hops,
    Kernel,
    Leaf,
    Loop,
    Module,
    Option,
    PerRequest,
    PreviousCarry,
    RowBlocks,
    Step,
    makes,
    summed,
    takes,
)
from einc.planning.analysis.cost import BALANCE

_ENOUGH = 1.1  # a plan that costs so much more than the best is not worth another text
_MOST = 3
_STEP = 10**6  # operations in the time that it takes to begin a step, so that little work is no reason for another text


@dataclass(frozen=True)
class Cut:
    """One program's steps, what they store, and the integer inputs whose elements are positions. `spare`: some of its
    passes could carry states.
    """

    steps: tuple[Leaf, ...]
    buffers: Mapping[str, Buffer]
    keys: tuple[tuple[str, IndexSet], ...]
    spare: bool = False


def chosen(cuts: list[Cut], sizes: Iterable[Mapping[str, int]]) -> tuple[tuple[Step, ...], list[Cut]]:
    """The steps, and the plans they are of. The first is kept alone where it is never much worse than any other."""
    if len(cuts) > 1:
        cuts = _few(cuts, [[_price(cut, at) for cut in cuts] for at in sizes])
    return (cuts[0].steps if len(cuts) == 1 else _joined(cuts)), cuts


def _few(cuts: list[Cut], table: list[list[float]]) -> list[Cut]:
    """As few as are enough at all sizes: first the one that does least harm alone, then those that repair most."""

    def harm(some: list[int]) -> float:
        return max(min(row[n] for n in some) / min(row) for row in table)

    picked = [0] if harm([0]) <= _ENOUGH else []
    while len(picked) < _MOST and (not picked or harm(picked) > _ENOUGH):
        left = [n for n in range(len(cuts)) if n not in picked]
        picked.append(min(left, key=lambda n: (harm([*picked, n]),
                                               sum(min(row[m] for m in [*picked, n]) for row in table))))
    return [cuts[n] for n in sorted(picked)]


def _price(cut: Cut, sizes: Mapping[str, int]) -> float:
    return _total(cut.steps, sizes)


def _total(steps: Iterable[Leaf], sizes: Mapping[str, int]) -> float:
    return sum(
        max(float(flops.at(sizes)), BALANCE * float(moved.at(sizes))) + _STEP
        for flops, moved in ((s.cost.flops, s.cost.read + s.cost.written) for s in steps)
    )


def _joined(cuts: list[Cut]) -> tuple[Step, ...]:
    """What all have in common before, the choice, and what all have in common after."""
    common = [s for s in cuts[0].steps if all(s in c.steps for c in cuts)]
    before: list[Leaf] = []
    local = {name for c in cuts for s in c.steps for name in makes(s)}
    for step in common:
        if takes(step) & local <= {name for s in before for name in makes(s)}:
            before.append(step)
    after: list[Leaf] = []
    for step in reversed(common):
        others = (s for c in cuts for s in c.steps if s not in before and s not in after)
        if step not in before and not any(makes(step) & takes(s) for s in others):
            after.insert(0, step)
    kept = [[s for s in c.steps if s not in before and s not in after] for c in cuts]
    shared = set.intersection(*({n for s in steps for n in makes(s)} for steps in kept))
    options = tuple(Option(_label(steps, shared), tuple(map(_priced, steps))) for steps in kept)
    ways = tuple(map(tuple, kept))
    read, made = (dict.fromkeys(n for way in ways for s in way for n in sorted(of(s))) for of in (takes, makes))
    choice = Choose(reads=tuple(n for n in read if n not in made), writes=tuple(n for n in made if n in shared),
                    bodies=ways, cost=summed(s.cost for s in ways[0]), balance=BALANCE, options=options)
    return *before, choice, *after


def _label(steps: Iterable[Leaf], shared: set[str]) -> str:
    """What this way stores and another does not."""
    made = tuple(steps)
    own = [name for s in made for name in sorted(makes(s)) if name not in shared]
    going_on = any(isinstance(let.op, PreviousCarry) for s in made if isinstance(s, Kernel) for let in s.lets)
    return f"through {', '.join(own)}" if own else "with states between tiles in order" if going_on else "at once"


def _priced(step: Leaf) -> tuple[str, Extent, Extent]:
    return ", ".join(sorted(makes(step))), leading(step.cost.flops), leading(step.cost.read + step.cost.written)


def leading(extent: Extent) -> Extent:
    """Without the terms that a larger one contains: at sizes from 1 they decide nothing."""

    def within(small: Mapping[Atom, int], large: Mapping[Atom, int]) -> bool:
        return small != large and all(0 < p <= large.get(n, 0) for n, p in small.items())

    # A size at the call may be 0, so none divides.
    whole = reduce(Extent.__add__, (Extent(((tuple((n, p) for n, p in m if p > 0), c),)) for m, c in extent.terms),
                   number(0))
    grown = [dict(m) for m, c in whole.terms if c > 0]
    return Extent(tuple((m, c) for m, c in whole.terms if not any(within(dict(m), p) for p in grown)))


def taken(module: Module, sizes: Mapping[str, int]) -> tuple[Leaf, ...]:
    """The steps that a call at these sizes takes."""
    known = {**module.fixed, **sizes}
    out: list[Leaf] = []
    for step in module.steps:
        if isinstance(step, Choose):
            _, way = min(step.ways, key=lambda way: price(step, way[0], known))
            out += way
        elif isinstance(step, Loop):
            out += taken(step.body, known) * int(step.index.set.extent.at(known))
        elif isinstance(step, Hops):
            out += taken(step.body, known) * step.around.group.ranks
        elif isinstance(step, PerRequest):
            out += taken(step.body, known)
        elif isinstance(step, RowBlocks):
            rows = {step.rows.before: 0, **step.rows.lengths(known)}
            put = {n: number(k) for n, k in rows.items()}
            out += [replace(one, cost=one.cost.put(put)) for one in taken(step.throughout, {**known, **rows})]
        else:
            out.append(step)
    return tuple(out)


def price(step: Choose, option: Option, sizes: Mapping[str, int]) -> float:
    """What one way costs at given sizes, as the call reckons it."""
    return float(sum(max(flops.at(sizes), step.balance * moved.at(sizes)) for _, flops, moved in option.prices))


def reckoned(module: Module, sizes: Mapping[str, int]) -> float:
    """What a call costs at given sizes, in operations."""
    return _total(taken(module, sizes), sizes)
