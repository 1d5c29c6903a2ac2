"""The lines of a block of rounds -> a recurrence, and the equations that stand for it; or a loop in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace

from einc.checking.declarations.scope import Rounds
from einc.checking.programs.elaborate import Work
from einc.checking.programs.sequences import sequence
from einc.errors.problems import BadLoop, Circular, OrderDependent, RoundValue
from einc.errors.report import Help, Label, Span
from einc.ir.dependence import reached
from einc.ir.indices import Index
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Slot, Tensor
from einc.ir.rounds import bodies, one_round, order
from einc.ir.terms import Apply, both, conjuncts, free_indices, reads, walk

# Operations in which a state may stand beside another one: sums, products, maxima and comparisons.
_LINEAR = ("add", "sub", "mul", "neg", "max", "min", "and", "or", "le", "lt", "eq", "ne")


def recurrences(work: Work, unproved: Callable[[BlockLoop], frozenset[str]], claimed: Set[str]
                ) -> tuple[list[BlockLoop], list[IndexLoop]]:
    """Every recurrence of the program; its targets are `closed` by one round over the whole domain. `claimed` is what
    claims read.

    Rounds of one element each become a loop in order where something outside reads a value that they give for each
    element, where of some state it is `unproved` that they are one fold, and over the positions of requests.
    """
    out, ordered = list[BlockLoop](), list[IndexLoop]()
    owners: dict[str, BlockLoop] = {}
    for rounds, fixed in work.collected.rounds.items():
        if rounds.layers:
            continue
        with work.scope.telling():
            recur = _recurrence(work, rounds, fixed)
            if recur is None:
                continue
            shown = _shown(work, recur, claimed)
            left = frozenset() if rounds.block or work.report.errors else unproved(recur)
            ragged = rounds.index is not None and bool(rounds.index.set.by)
            within = rounds.around is not None
            if not rounds.block and not work.report.errors and (shown or left or ragged or within):
                if not shown and left:
                    _relative(work, recur, left)
                mine = [_without_conditions(rounds, e) for e in work.blocks.inner.get(rounds, [])]
                before = {e.target for e in _defined(work)}
                ordered.append(sequence(work, _with_all(work, recur, mine), shown, rounds.down))
                for around in rounds.every[1:]:
                    new = [e for e in _defined(work) if e.target not in before]
                    known = {e.target for e in _defined(work)}
                    listed = work.blocks.inner.setdefault(around, [])
                    listed[:] = [*(e for e in listed if e.target in known), *new]
            else:
                out.append(recur)
                owners.update(dict.fromkeys(recur.targets, recur))
                work.blocks.closed.update({e.target: e for e in one_round(recur)})
    if not work.report.errors:  # what is wrong elsewhere may be why a value seems to be no part of the rounds
        _outside(work, owners)
    _acyclic(work, out)
    return out, ordered


def _defined(work: Work) -> tuple[Equation, ...]:
    """Every equation of the program as it stands."""
    return (*work.made.equations, *work.equations.values())


def _without_conditions(rounds: Rounds, equation: Equation) -> Equation:
    """An equation of a round without what the rounds say of it."""
    said = rounds.conditions_on(frozenset(equation.indices))
    return replace(equation, domain=both(*(c for c in conjuncts(equation.domain) if c not in said)))


def _with_all(work: Work, recur: BlockLoop, mine: list[Equation]) -> BlockLoop:
    """The rounds with each value of their block that nothing outside reads, be it the same in each round or not."""
    states, known = {e.target for e in recur.updates}, {e.target for e in recur.inside}
    by = {e.target: e for e in (*work.made.equations, *work.equations.values()) if e.target not in states}
    inside = known | ({e.target for e in mine} - states)
    while True:
        read = {*(x.key for x in work.collected.outputs), *(key for k, e in by.items() if k not in inside
                                                            for key in e.reads)}
        more = (inside & read) - known
        if not more:
            return order(replace(recur, inside=tuple(e for e in mine if e.target in inside)))
        inside -= more


def _shown(work: Work, recur: BlockLoop, claimed: Set[str]) -> set[str]:
    """The values with a part for each round that something outside of the rounds reads, a claim too, or that are
    outputs."""
    parts = {e.target for e in recur.inside if recur.index in e.indices}
    readers = [e for e in (*work.made.equations, *work.equations.values()) if e.target not in recur.targets]
    return parts & {*claimed, *(x.key for x in work.collected.outputs), *(key for e in readers for key in e.reads)}


def _relative(work: Work, recur: BlockLoop, unproved: frozenset[str]) -> None:
    """Warns of each of the states that is scaled by a function of another one; only their last values are read."""
    states = {e.target for e in recur.updates}
    for target, equation in bodies(recur).items():
        held = {r.tensor for x in walk(equation.body) if isinstance(x, Apply) and x.op not in _LINEAR for r in reads(x)}
        if target in unproved and target in equation.reads and held & states - {target}:
            name, span = recur.places[target]
            work.report.add(OrderDependent(
                f"`{name}` is scaled by a function of another state, so it depends on the order of the rounds", span,
                notes=("it is not found that the rounds are one fold",),
                helps=(Help("rescale what was summed before when what it is relative to changes: `z ← z exp(m - m') + "
                            "…`"),)))


def _recurrence(work: Work, rounds: Rounds, fixed: tuple[Index, ...]) -> BlockLoop | None:
    """Makes the recurrence of one `for` block; None where it has no index, no updates or a state without a start.

    For a block of elements it adds the block's tensor of members to `work.made`. It raises BadLoop where nothing is
    updated.
    """
    updates = work.blocks.updates.get(rounds, [])
    mine = [_without_conditions(rounds, e) for e in work.blocks.inner.get(rounds, [])]
    if rounds.index is None or not updates:
        if (rounds.block and rounds.index is not None
            and not any(x.loop.rounds is rounds for x in work.collected.updates)):
            raise BadLoop("nothing is updated in the rounds", rounds.span,
                          helps=(Help("write what a round changes: `z ← z + …`"),))
        return None
    by, states = {e.target: e for e in work.equations.values()}, {e.target for e in updates}
    if not states <= by.keys():
        return None  # told with what it starts with
    if rounds.block:
        work.made.tensors.append(Tensor(rounds.key, rounds.block,
                                        (Slot(rounds.index.set, "lower", rounds.index.name),), "local"))
    anew = {e.target for e in updates} | {rounds.key}
    grown = True
    while grown:
        before = len(anew)
        anew |= {e.target for e in mine if e.reads & anew}
        anew |= {e.target for e in mine if not rounds.block and rounds.index in free_indices(e.body) - set(e.indices)}
        grown = len(anew) > before
    inside = tuple(e for e in mine if e.target in anew and e.target not in states)
    places = {x.left.signature.key: (x.left.signature.name.text, x.span) for x in work.collected.updates
              if x.loop.rounds is rounds}
    return order(BlockLoop(rounds.block, fixed, rounds.index, rounds.domain, rounds.key,
                       tuple(by[t] for t in by if t in states), inside, tuple(updates), places))


def _spans(work: Work) -> dict[str, Span]:
    return {x.key: x.span for x in work.scope.signatures}


def _outside(work: Work, owners: dict[str, BlockLoop]) -> None:
    """Reports reads outside of rounds of what is made anew in each of them."""
    spans = _spans(work)
    anew = {e.target for recur in owners.values() for e in recur.inside
            if recur.member or recur.index not in e.indices}
    readers: Iterable[tuple[str, frozenset[str]]] = [
        *((e.target, e.reads) for e in [*work.made.equations, *work.equations.values()] if e.target not in anew),
        *((x.key, frozenset({x.key})) for x in work.collected.outputs),
    ]
    for key, found in readers:
        for inner in sorted(found & anew):
            span, name = spans.get(key), next((x.name.text for x in work.scope.signatures if x.key == inner), inner)
            labels = (Label(spans[inner], "made here"),) if inner in spans and key != inner else ()
            work.report.add(RoundValue(f"`{name}` is made anew in each round, so it has no value outside", span, "",
                                       *labels,
                                       helps=(Help("make it a state: start it above the block and update it with "
                                                   "`←`"),)))


def _acyclic(work: Work, recurs: list[BlockLoop]) -> None:
    """Reports circles: what a round reads is there before the first one, so no equation on the way may read what the
    rounds give.
    """
    by = {e.target: e for e in [*work.made.equations, *work.equations.values()]}

    def inner(key: str) -> frozenset[str]:
        """What a value reads; one that rounds give, all that they read."""
        other = next((x for x in recurs if key in x.targets), None)
        equations = () if key not in by else (by[key],) if other is None else other.equations
        return frozenset[str]().union(*(e.reads for e in equations))

    for recur in recurs:
        mine = recur.targets
        start = [r for e in recur.equations for r in sorted(e.reads - mine)]
        for key in reached(start, lambda key: sorted(inner(key) - mine)):  # noqa: B023
            if inner(key) & {e.target for e in recur.updates}:
                state = sorted(inner(key) & mine)[0]
                name = next(x.name.text for x in work.scope.signatures if x.key == state)
                work.report.add(Circular(f"the rounds read what is made of `{name}` after the last one",
                                         _spans(work).get(key),
                                         helps=(Help("write in the block what a round reads of a state"),)))
                break
