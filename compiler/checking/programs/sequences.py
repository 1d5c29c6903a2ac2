"""Rounds of one element each that are no fold, or that give a value for each round -> an `IndexLoop` over the elements.

Where the rounds are `for s in 1..t:` and t says nothing but where they end, the states of all t are those of one loop
over every s: the state that belongs to t is what the round of s = t leaves. Else the states of each t go their own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from einc.checking.programs.elaborate import Work
from einc.checking.programs.mirrored import mirrored
from einc.errors.problems import RoundValue
from einc.errors.report import Help
from einc.ir.dependence import behind
from einc.ir.domains import negation, proves
from einc.ir.draft import renamed
from einc.ir.indices import Index
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Tensor
from einc.ir.reading import everything
from einc.ir.rounds import place_of
from einc.ir.terms import (
    TRUE,
    Apply,
    Position,
    Read,
    Term,
    Where,
    both,
    conjuncts,
    free_indices,
    reads,
    substitute,
    transform,
)


def sequence(work: Work, recur: BlockLoop, outside: Set[str], down: bool = False) -> IndexLoop:
    """The loop in order that the rounds are. `outside` are the values of a round that something else reads. With `down`
    they run from the last element to the first.

    The equations of the rounds in `work` are replaced by those of the loop, and its new tensors are added.
    """
    gone = {e.target for e in recur.equations}
    end = _end(recur, outside, down)
    recur = _guarded(recur, None if end is None else end.index)
    if end is not None:
        recur = _ended(work, recur, end)
    work.equations = {k: e for k, e in work.equations.items() if e.target not in gone}
    work.made.equations = [e for e in work.made.equations if e.target not in gone]
    _earlier(work, recur, down)
    if down:
        recur, counted = mirrored(work, recur, {e.target: _tensor(work, e.target) for e in recur.inside})
        for equation in counted:
            _add(work, equation)
    states = []
    for update in recur.updates:
        start = next(e for e in recur.starts if e.target == update.target)
        first, following = _copy_of(work, start), _copied(recur, update)
        if first is None:
            first = work.made.fresh(f"{update.target}_start")
            work.made.tensors.append(replace(_tensor(work, update.target), key=first, text=first))
            _add(work, replace(start, target=first))
        if following is None:
            following = work.made.fresh(f"{update.target}_next")
            work.made.tensors.append(replace(_tensor(work, update.target), key=following, text=following))
            work.owners[following] = work.owners.get(update.target, {})
            recur = replace(recur, inside=(*recur.inside, replace(update, target=following)))
        states.append((update.target, first, following))
    for equation in recur.inside:
        _add(work, equation)
    after = _after(recur, {key for state, _, following in states for key in (state, following)})
    return IndexLoop(recur.index, tuple(states), tuple(e.target for e in recur.inside if e.target not in after))


def _after(recur: BlockLoop, states: Set[str]) -> set[str]:
    """The values of each element that the rounds do not need and that need nothing of a round but other such values:
    they are made after the last round.
    """
    made, parts = {e.target: e for e in recur.inside}, {e.target for e in recur.inside if recur.index in e.indices}
    out: set[str] = set()
    while True:
        read = {key for e in recur.inside if e.target not in out for key in e.reads}
        more = {key for key in parts - out - states - read if not made[key].reads & (states - parts)
                and not made[key].reads & (made.keys() - parts)}
        if not more:
            return out
        out |= more


def _earlier(work: Work, recur: BlockLoop, down: bool) -> None:
    """Reports a value that a round reads of another round, where it is not proved that it is there already. Raises
    RoundValue."""
    index, after = recur.index, _after(recur, _states(recur))
    by = {e.target: e for e in (*recur.inside, *recur.updates) if e.target not in after}
    parts = {key: at for key, e in by.items() if (at := place_of(index, e)) is not None}
    for key, equation in by.items():
        for seen in everything(equation):
            at = parts.get(seen.read.tensor)
            if at is None or (seen.read.subs[at] == Position(index) and index not in seen.bound):
                continue
            rule = "lt" if key in behind(by, [seen.read.tensor]) else "le"
            pair = (seen.read.subs[at], Position(index))
            if index in seen.bound or not proves(seen.given, Apply(rule, pair[::-1] if down else pair)):
                made = next((x for x in work.scope.signatures if x.key == seen.read.tensor), None)
                name = seen.read.tensor if made is None else made.text
                raise RoundValue(
                    f"`{name}` is read where it is not proved that an earlier round made it",
                    work.made.places.get(seen.read), helps=(
                        Help(f"read it at elements of earlier rounds alone: `{index} {'+' if down else '-'} 1`, or in "
                             f"a sum over `… {'>' if down else '<'} {index}`"),))


def _states(recur: BlockLoop) -> set[str]:
    """The states, and the values of the round that they become."""
    return {e.target for e in recur.updates} | {key for e in recur.updates if (key := _copied(recur, e)) is not None}


def _copied(recur: BlockLoop, update: Equation) -> str | None:
    """What a state becomes, where that has a name: a value of the round, or the round's part of one."""
    match update.body:
        case Read(tensor, subs) if update.domain == TRUE:
            made = next((e for e in recur.inside if e.target == tensor), None)
            if (made is not None and subs == made.axes
                    and tuple(a for a in subs if a != Position(recur.index)) == update.axes):
                return tensor
    return None


def _add(work: Work, equation: Equation) -> None:
    """Puts an equation behind those of the text; no signature has its key."""
    work.equations[min((0, *work.equations)) - 1] = equation


def _copy_of(work: Work, start: Equation) -> str | None:
    """What a state starts with, where that is a value of the text."""
    match start.body:
        case Read(tensor, subs) if subs == start.axes and start.domain == TRUE:
            made = next((e for e in (*work.made.equations, *work.equations.values()) if e.target == tensor), None)
            return tensor if made is not None and len(made.axes) == len(start.axes) else None
    return None


def _tensor(work: Work, key: str) -> Tensor:
    """The tensor of a name of the text, or of one that was made for it."""
    made = next((t for t in work.made.tensors if t.key == key), None)
    if made is not None:
        return made
    signature = next(x for x in work.scope.signatures if x.key == key)
    return Tensor(key, key, signature.slots, "local", signature.element, signature.span)


@dataclass(frozen=True)
class _End:
    """The fixed index that says where the rounds end and nothing else; `strict`: its own element is left out."""

    index: Index
    strict: bool


def _end(recur: BlockLoop, outside: Set[str], down: bool) -> _End | None:
    """The index t of `s ≤ t` or `s < t`, or with `down` of `t ≤ s` or `t < s`, in rounds over s: it has no other
    condition, no value that is read outside has it, and what a round computes speaks of it only where it reads, at t,
    what rounds make. None where there is no such index."""
    targets = {e.target: e for e in recur.equations}
    for index in recur.fixed:
        pair = (Position(index), Position(recur.index)) if down else (Position(recur.index), Position(index))
        ends = {Apply("le", pair): False, Apply("lt", pair): True}
        said = [c for c in conjuncts(recur.domain) if index in free_indices(c)]
        shown = any(index in e.indices for e in recur.inside if e.target in outside)
        if len(said) == 1 and said[0] in ends and index.set == recur.index.set and not shown and all(
                _lacks(t, index, targets) for e in recur.equations for t in (e.domain, e.body)):
            return _End(index, ends[said[0]])
    return None


def _guarded(recur: BlockLoop, end: Index | None) -> BlockLoop:
    """The rounds over every element: where one is not in the domain, a state stays as it is, and there is no value
    of it.
    """
    said = both(*(c for c in conjuncts(recur.domain) if end is None or end not in free_indices(c)))
    if said == TRUE:
        return replace(recur, domain=TRUE)
    data = both(*(c for c in conjuncts(said) if any(True for _ in reads(c))))
    plain = both(*(c for c in conjuncts(said) if not any(True for _ in reads(c))))
    # What reads data is asked only where the rest holds.
    updates = tuple(_unless(plain, _unless(data, e.body, e), e) for e in recur.updates)
    inside = tuple(replace(e, domain=both(said, e.domain)) if recur.index in e.indices else e for e in recur.inside)
    return replace(recur, domain=TRUE, updates=updates, inside=inside)


def _unless(condition: Term, body: Term | Equation, update: Equation) -> Equation:
    """An update that leaves the state as it is where a condition fails."""
    then = body.body if isinstance(body, Equation) else body
    if condition == TRUE:
        return replace(update, body=then)
    old = Where(negation(condition), Read(update.target, update.axes))
    return replace(update, body=Apply("add", (Where(condition, then), old)))


def _ended(work: Work, recur: BlockLoop, end: _End) -> BlockLoop:
    """The rounds without the index that ends them: a state has new names inside, and under its own the value that
    belongs to each element. Changes `work.made.tensors` and `work.owners`.
    """
    targets = {e.target: e for e in recur.equations}
    names = {key: work.made.fresh(f"{key}_round") for key, e in targets.items() if end.index in e.indices}
    for key, name in names.items():
        tensor, at = _tensor(work, key), targets[key].axes.index(Position(end.index))
        slots = (*tensor.slots[:at], *tensor.slots[at + 1 :])
        work.made.tensors.append(replace(tensor, key=name, text=name, slots=slots))
        work.owners[name] = work.owners.get(key, {})

    def changed(equation: Equation) -> Equation:
        made = equation.map(lambda t: renamed(_without(t, end.index, targets), names))
        axes = tuple(a for a in equation.axes if a != Position(end.index))
        return replace(made, target=names.get(equation.target, equation.target), axes=axes)

    here, values, updates = {end.index: Position(recur.index)}, list[Equation](), list[Equation]()
    for update in recur.updates:
        inner = changed(update)
        axes = tuple(substitute(a, here) for a in update.axes)
        value = Read(inner.target, inner.axes) if end.strict else inner.body
        values.append(replace(inner, target=update.target, axes=axes, body=value))
        updates.append(inner if end.strict else replace(inner, body=Read(update.target, axes)))
    return replace(recur, starts=tuple(map(changed, recur.starts)), updates=tuple(updates),
                   inside=(*map(changed, recur.inside), *values), fixed=tuple(i for i in recur.fixed if i != end.index))


def _lacks(term: Term, index: Index, targets: Mapping[str, Equation]) -> bool:
    """Whether a term speaks of an index only where it reads, at that very index, what the rounds make."""
    left = _without(term, index, targets)
    return index not in free_indices(left) and not any(
        len(r.subs) == len(targets[r.tensor].axes) for r in reads(left)
        if r.tensor in targets and index in targets[r.tensor].indices)


def _without(term: Term, index: Index, targets: Mapping[str, Equation]) -> Term:
    """The term with what the rounds make read without the axis of an index, where it is read at that index."""
    def change(t: Term) -> Term:
        if isinstance(t, Read) and t.tensor in targets and Position(index) in targets[t.tensor].axes:
            at = targets[t.tensor].axes.index(Position(index))
            return replace(t, subs=(*t.subs[:at], *t.subs[at + 1 :])) if t.subs[at] == Position(index) else t
        return t

    return transform(term, change)
