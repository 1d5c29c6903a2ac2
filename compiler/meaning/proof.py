"""Whether rounds give the same result however their domain is cut: proved by normal form, or told to be open.

What one round over a set makes of the states' starts is G. The rounds compute G where a round over B,
from G over D, is G over D and B together: by induction over the blocks, for every cut. G itself is the
closed form that the typed program holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from einc.errors.problems import CutDependent
from einc.errors.report import Help
from einc.ir.folds import FOLDS
from einc.ir.programs import BlockLoop, Equation
from einc.ir.rounds import bodies, lifted, member, opened, resolved
from einc.ir.terms import ONE, Apply, Const, Fold, Read, Term, conjuncts, const, reads, substitute, transform
from einc.meaning.equality import equal
from einc.transforms.laws.empty_folds import over_nothing


@dataclass(frozen=True)
class Open:
    """A state whose next value is not proved to be that of the blocks taken together."""

    recur: BlockLoop
    update: Equation
    start: bool  # it is the start that does not fit: a round over nothing changes it

    def problem(self) -> CutDependent:
        """The problem that is reported of the state."""
        name, span = self.recur.places[self.update.target]
        if self.start:
            return CutDependent(f"what `{name}` starts with is not what a round over nothing leaves", span, notes=(
                "where the domain is empty the state keeps its start, and the fold over nothing is another value",
            ), helps=(Help("start with the neutral element of the update: 0 for a sum, -∞ for a maximum"),))
        states = {e.target for e in self.recur.updates} - {self.update.target}
        others = any(r.tensor in states for e in (*self.recur.inside, self.update) for r in reads(e.body))
        scaled = Help("rescale what was summed before when what it is relative to changes: `z ← z exp(m - m') + …`")
        beside = Help("see it beside what one round over all makes of it: `einc derive`")
        return CutDependent(f"the rounds of `{name}` are not proved to be one fold of their blocks", span, notes=(
            "a round over one block, then one over another, is not found equal to one round over both",
        ), helps=(scaled, beside) if others else (beside,))


def unproved(recur: BlockLoop) -> tuple[Open, ...]:
    """The states for which the proof fails of itself, not because a state that they read
    has failed; none where all is proved."""
    whole = lifted(recur)
    updates = bodies(whole)
    starts = {e.target: e for e in recur.starts}
    fresh = _Blocks(whole)
    first = {t: fresh.over(body, starts, fresh.one(1)) for t, body in updates.items()}
    made = {t: replace(starts[t], axes=update.axes, body=first[t].body) for t, update in updates.items()}
    failed: dict[str, Open] = {}
    for target, body in updates.items():
        update = next(e for e in recur.updates if e.target == target)
        then = fresh.over(body, made, fresh.one(2))
        together = fresh.over(body, starts, fresh.both)
        if fresh.left(together.body) or not equal(then.body, together.body):
            failed[target] = Open(recur, update, False)
        elif not _same_start(fresh.over(body, starts, fresh.none), starts[target]):
            failed[target] = Open(recur, update, True)
    needs = {t: {r.tensor for r in reads(body.body)} - {t} for t, body in updates.items()}
    roots = tuple(x for t, x in failed.items() if not needs[t] & failed.keys())
    return roots or tuple(failed.values())


def _same_start(nothing: Equation, start: Equation) -> bool:
    by = dict(zip(start.indices, nothing.axes, strict=True))
    body = substitute(start.body, by)
    found = over_nothing(nothing.body)
    return found == body or equal(found, body)


@dataclass(frozen=True)
class _Blocks:
    """A round's folds over one block, over two that have nothing in common, and over none."""

    recur: BlockLoop

    def over(self, update: Equation, states: Mapping[str, Equation], split: Callable[[Fold], Term]) -> Equation:
        """The update with the states' values in place, and each fold over the block split."""
        shell = replace(self.recur, inside=(), updates=(update,))
        marked = resolved(replace(shell, updates=(update, *(x for x in self.recur.updates
                                                            if x.target != update.target))),
                          lambda read: opened(read, dict(states)), lambda x: member(self.recur, x))[0]

        def change(term: Term) -> Term:
            return split(term) if isinstance(term, Fold) and self._here(term) else term

        return replace(marked, body=transform(marked.body, change))

    def _here(self, fold: Fold) -> bool:
        return any(self._is_member(c) for c in conjuncts(fold.domain))

    def _is_member(self, condition: Term) -> bool:
        match condition:
            case Apply("eq", (Read(tensor), _)):
                return tensor == self.recur.member
        return False

    def left(self, term: Term) -> bool:
        """Whether the block is spoken of elsewhere than in the domain of a fold."""
        return any(r.tensor == self.recur.member for r in reads(term))

    def one(self, number: int) -> Callable[[Fold], Term]:
        """A function that puts block `number` in place of the block in the domain of a fold."""
        def split(fold: Fold) -> Term:
            def change(term: Term) -> Term:
                match term:
                    case Apply("eq", (Read(tensor, subs), _)) if tensor == self.recur.member:
                        return Apply("eq", (Read(f"{tensor}·{number}", subs), ONE))
                return term

            return replace(fold, domain=transform(fold.domain, change))

        return split

    def both(self, fold: Fold) -> Term:
        return FOLDS[fold.op].merged(self.one(1)(fold), self.one(2)(fold))

    def none(self, fold: Fold) -> Term:
        start = FOLDS[fold.op].start
        return const(int(start)) if abs(start) < 2 else Const(start)
