"""`for ℓ in 1..N:` -> an `IndexLoop`: what a round makes, what its states start with, and
what it makes their next values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einc.checking.declarations.scope import Rounds, Signature
from einc.checking.programs.elaborate import Work
from einc.errors.problems import BadLoop, Circular, RoundValue
from einc.errors.report import Help, Label
from einc.ir.dependence import reached
from einc.ir.programs import Equation, IndexLoop, Tensor
from einc.ir.terms import TRUE, Position, Read


def layers(work: Work, ordered: list[IndexLoop]) -> list[IndexLoop]:
    """Every block of rounds in order, of the text and of the specs that it calls; `ordered` are those over elements."""
    own = [found for rounds in work.collected.rounds
           if rounds.layers and (found := _repeat(work, rounds)) is not None]
    by = {e.target: e for e in [*work.made.equations, *work.equations.values()]}
    out = nested([*work.made.repeats, *own, *ordered])
    called = {loop.inside for repeat in work.made.repeats for loop in repeat.every}
    for repeat in (inner for loop in out for inner in loop.every if inner.inside not in called):
        _outside(work, repeat, by)
    for repeat in (loop for loop in out if loop.inside not in called):
        _acyclic(work, repeat, out, by)
    return out


def nested(loops: Iterable[IndexLoop]) -> list[IndexLoop]:
    """The loops, those whose every value is one of a round of another standing in the rounds of that."""
    out = list[IndexLoop]()
    for loop in sorted(loops, key=lambda loop: -len(loop.inside)):
        around = next((n for n, other in enumerate(out) if {*loop.inside} <= {*other.inside}), None)
        if around is None:
            out.append(loop)
        else:
            out[around] = replace(out[around], loops=tuple(nested([*out[around].loops, loop])))
    return [loop for one in loops for loop in out if loop.inside == one.inside]


def _repeat(work: Work, rounds: Rounds) -> IndexLoop | None:
    """Makes the loop over layers of one block; None where a problem was found, which is then in the report.

    It removes the equations that start the states from `work.equations` and names start and next value of each state.
    """
    assert rounds.index is not None
    with work.scope.telling():
        if not any(x.loop.rounds is rounds for x in work.collected.updates) and not work.report.errors:
            raise BadLoop("nothing is updated in the rounds", rounds.span,
                          helps=(Help("write what a round changes: `H_t^f ← …`"),))
        updates = {e.target: e for e in work.blocks.updates.get(rounds, [])}
        inside = dict.fromkeys(e.target for e in work.blocks.inner.get(rounds, []))
        states: list[tuple[str, str, str]] = []
        for identity, start in [(k, e) for k, e in work.equations.items() if e.target in updates]:
            signature = next(x for x in work.scope.signatures if id(x) == identity)
            following = _copied(work, updates[start.target], signature, inside)
            if following is None:
                following = _named(work, f"{start.target}_next", updates[start.target], signature, True)
                inside[following] = None
            first = _copied(work, start, signature, [e.target for e in work.equations.values()])
            if first is None or first in updates:
                first = _named(work, f"{start.target}_start", start, signature, False)
            del work.equations[identity]
            states.append((start.target, first, following))
        return IndexLoop(rounds.index, tuple(states), tuple(inside))
    return None


def _copied(work: Work, equation: Equation, signature: Signature, among: Iterable[str]) -> str | None:
    """What an equation of a state copies, where that is made by one of these equations: it needs no second name."""
    match equation.body:
        case Read(tensor, subs) if tensor in among and subs == equation.axes and equation.domain == TRUE:
            known: list[Tensor | Signature] = [*work.made.tensors, *work.scope.signatures]
            slots = next((t.slots for t in known if t.key == tensor), ())
            if len(slots) == len(signature.slots) and all(isinstance(axis, Position) for axis in subs):
                return tensor
    return None


def _named(work: Work, stem: str, equation: Equation, signature: Signature, updated: bool) -> str:
    key = work.made.fresh(stem)
    spans = (x.span for x in work.collected.updates if x.left.signature is signature and updated)
    work.made.tensors.append(Tensor(key, key, signature.slots, "local", signature.element, next(spans, signature.span)))
    work.made.equations.append(replace(equation, target=key))
    return key


def _signature(work: Work, key: str) -> Signature | None:
    return next((x for x in work.scope.signatures if x.key == key), None)


def _tensor(work: Work, key: str) -> Tensor | None:
    return next((x for x in work.made.tensors if x.key == key), None)


def _outside(work: Work, repeat: IndexLoop, by: dict[str, Equation]) -> None:
    """Reports reads outside of rounds of what is made anew in each of them."""
    inside = {key for key in repeat.inside if repeat.index not in by[key].indices}
    readers: Iterable[tuple[str, frozenset[str]]] = [
        *((e.target, e.reads) for e in by.values() if e.target not in repeat.inside),
        *((x.key, frozenset({x.key})) for x in work.collected.outputs),
    ]
    for key, found in readers:
        for inner in sorted(found & inside):
            made, reader = _signature(work, inner), _signature(work, key) or _tensor(work, key)
            name = made.name.text if made is not None else inner
            labels = (Label(made.span, "made here"),) if made is not None and key != inner else ()
            work.report.add(RoundValue(f"`{name}` is made anew in each round, so it has no value outside",
                                       None if reader is None else reader.span, "", *labels,
                                       helps=(Help("make it a state: start it above the block and update it with "
                                                   "`←`"),)))


def _acyclic(work: Work, repeat: IndexLoop, repeats: list[IndexLoop], by: dict[str, Equation]) -> None:
    """Reports circles: what a round reads is there before the first one, so no equation on the way may read what the
    rounds give.
    """
    mine, states = repeat.made, {state for state, _, _ in repeat.states}
    owners = {state: r for r in repeats for state, _, _ in r.states}
    start = [first for _, first, _ in repeat.states] + [r for k in repeat.inside
                                                        for r in sorted(by[k].reads - mine)]

    def after(key: str) -> list[str]:
        inside, others = owners[key].inside if key in owners else (), owners[key].states if key in owners else ()
        found = frozenset[str]().union(*(by[k].reads for k in ([key] if key in by else inside)))
        return [*(first for _, first, _ in others), *sorted(found - {state for state, _, _ in others})]

    key = next((key for key in reached(start, after) if key in states), None)
    if key is not None:
        made = _signature(work, key)
        name, span = (key, None) if made is None else (made.name.text, made.span)
        work.report.add(Circular(f"the rounds read what is made of `{name}` after the last one", span,
                                 helps=(Help("write in the block what a round reads of a state"),)))
