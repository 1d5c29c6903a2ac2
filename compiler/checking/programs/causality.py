"""Causality and isolation: what an output at t reads comes no later than t, what it reads for request r belongs to r.

Every read is an obligation. A tensor that is read at position p needs p ≤ q for some position q of the tensor whose
equation reads it, wherever all conditions on the way to the read hold: the domain of the equation, those of the
folds and indicators around the read, and the conditions beside it that are asked first. A tensor of which all is
proved depends on positions up to its own and on no others, by induction over the equations; so a reader has to prove
no more than where it reads it. Of a tensor with several positions, all of whose reads come no later than one of them,
`A_{t s}` with s ≤ t for instance, that one is where it is read. What is not proved is passed on: it becomes an
obligation of each reader, at its subscripts and under its conditions too. What an output still owes is an error. A
proof is a search in `ir.domains`; what it does not find is refused, true or not.

What a loop over positions makes in the round of a position is at that position, whether it has an axis for it or not;
a state is there what the rounds before left. After the last round a state depends on every position. Where the states
have an axis of positions themselves, each of which takes rounds of its own, that is the position of all that is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from einc.checking.declarations.slots import standing
from einc.errors.report import Span
from einc.ir.domains import proves
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet
from einc.ir.programs import Equation, IndexLoop, Program, Slot
from einc.ir.reading import Seen, everything
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Pack,
    Position,
    Read,
    Size,
    Term,
    both,
    conjuncts,
    free_indices,
    reads,
    substitute,
    walk,
)

_MOST = 12  # obligations of one tensor in one set; with more, none of them is followed further


@dataclass(frozen=True)
class Owed:
    """A read of which it is not proved that it comes in time.

    `position` and the conditions `given` speak of the indices of the tensor that owes it, and of others that stand for
    themselves; without a position nothing that a reader knows can prove it. `what` is read in the equation of `where`.
    """

    position: Term | None
    given: Term
    what: str
    where: str
    span: Span | None = None

    @property
    def computed(self) -> bool:
        """Whether the position is made of data, so that no proof could know it."""
        return self.position is not None and any(True for _ in reads(self.position))


Debts = dict[str, dict[IndexSet, tuple[Owed, ...]]]


@dataclass(frozen=True)
class Told:
    """What is known of the text behind a program: the folds of which it says that all is
    meant, and where things stand."""

    meant: frozenset[Term]
    places: Mapping[Term, Span]
    spans: Mapping[str, Span]


def owed(program: Program, told: Told | None = None) -> Debts:
    """What each tensor that is not proved to be in time owes, in each set."""
    told = Told(frozenset(), {}, {}) if told is None else told
    states: Debts = {}
    while True:
        found = _Flow(program, told, dict(states)).run()
        # What a round owes of a state, it owes in every later round too: how far that leads nobody follows.
        after: Debts = {state: {into: (replace(debts[0], position=None, given=TRUE),)
                                for key in (following, first) for into, debts in found.get(key, {}).items()}
                        for repeat in program.every_repeat for state, first, following in repeat.states}
        after = {state: debts for state, debts in after.items() if debts}
        if {k: x.keys() for k, x in after.items()} == {k: x.keys() for k, x in states.items()}:
            return found
        states = after


def leaking(program: Program) -> dict[str, dict[IndexSet, str]]:
    """For each tensor the sets in which it is not proved to be in time, and the tensor in
    whose equation that is seen."""
    return {key: {into: debts[0].where for into, debts in found.items()} for key, found in owed(program).items()}


@dataclass(frozen=True)
class _Flow:
    """One walk over the equations, each after what it reads; `debts` grows, and so does `last`: for a tensor and a set
    the positions of it that each are the last of all that it reads there.
    """

    program: Program
    told: Told
    debts: Debts
    last: dict[tuple[str, IndexSet], frozenset[Term]] = field(default_factory=dict)

    def run(self) -> Debts:
        """The debts of every tensor. Changes `self.debts` and `self.last`."""
        fresh = count()
        for equation in self.program.equations:
            found: dict[IndexSet, dict[tuple[Term | None, Term], Owed]] = {}
            for at in everything(equation):
                for into, debt in self._obligations(equation, at):
                    ends = frozenset() if debt.position is None else self._proved(equation, into, debt, at)
                    if not ends:
                        near = _near(debt)
                        found.setdefault(into, {}).setdefault((near.position, near.given), near)
                    place = equation.target, into
                    self.last[place] = self.last.get(place, ends) & ends
            if found:
                free = {*equation.indices, *self._here(equation)}
                self.debts[equation.target] = {into: _passed(free, tuple(debts.values()), fresh)
                                               for into, debts in found.items()}
        return self.debts

    def _apart(self, loop: IndexLoop) -> bool:
        """Whether each position has states of its own."""
        return bool(loop.states) and all(any(slot.set == loop.index.set for slot in self.program.tensors[state].slots)
                                         for state, _, _ in loop.states)

    def _here(self, equation: Equation) -> tuple[Index, ...]:
        """The position of the round that makes a value: none or one."""
        loop = self.rounds.get(equation.target)
        return () if loop is None else (loop.index,)

    @cached_property
    def rounds(self) -> Mapping[str, IndexLoop]:
        """The loop over positions in order whose states, or whose values of a round, these are."""
        return {key: repeat for repeat in self.program.every_repeat if INDEX_CLASSES[repeat.index.set.cls].before
                for key in (*repeat.inside, *(state for state, _, _ in repeat.states))}

    def _obligations(self, equation: Equation, at: Seen) -> Iterator[tuple[IndexSet, Owed]]:
        """What has to be proved of one read: where it reads, and what the tensor that it reads owes."""
        program, told = self.program, self.told
        last = self.rounds.get(at.read.tensor)
        if (last is not None and last != self.rounds.get(equation.target) and at.read.tensor not in last.inside
                and not self._apart(last)):
            yield last.index.set, Owed(None, TRUE, at.read.tensor, equation.target, told.spans.get(equation.target))
        slots = program.tensors[at.read.tensor].slots
        span = next((told.places[f] for f in reversed(at.folds) if f in told.places),
                    told.places.get(at.read) or told.spans.get(equation.target))
        made = program.equation(at.read.tensor)
        for slot, sub in self._where_read(at.read, made):
            said = any(f in told.meant and any(i.set == slot.set for i in free_indices(sub) & set(f.bound))
                       for f in at.folds)
            if said:
                self.last[equation.target, slot.set] = frozenset()
            elif INDEX_CLASSES[slot.set.cls].before:
                yield slot.set, Owed(sub, at.given, at.read.tensor, equation.target, span)
        for into, debts in self.debts.get(at.read.tensor, {}).items():
            for debt in debts:
                if debt.position is None or made is None:
                    yield into, replace(debt, position=None, given=TRUE)
                    continue
                axes = tuple(_letters(axis) for axis in made.axes)
                by = standing(axes, at.read.subs, program.splits, tuple(slot.set for slot in slots))
                yield into, replace(debt, position=substitute(debt.position, by),
                                    given=both(at.given, substitute(debt.given, by)))

    def _where_read(self, read: Read, made: Equation | None) -> Iterator[tuple[Slot, Term]]:
        """The slots that say where a tensor is read, and their subscripts: of those of one set a single one that is the
        last of all that the tensor reads there, else all of them.
        """
        slots = self.program.tensors[read.tensor].slots
        for n, (slot, sub) in enumerate(zip(slots, read.subs, strict=True)):
            last = [] if made is None else [x for x in made.axes if x in self.last.get((read.tensor, slot.set), ())]
            if not last or made is None or made.axes[n] == last[0]:
                yield slot, sub

    def _proved(self, equation: Equation, into: IndexSet, debt: Owed, at: Seen) -> frozenset[Term]:
        """The positions of the equation's own tensor, or of its round, that a position is at or before."""
        assert debt.position is not None
        slots, rule = self.program.tensors[equation.target].slots, INDEX_CLASSES[into.cls].before
        here = self._here(equation)
        own = [axis for slot, axis in zip(slots, equation.axes, strict=True)
               if slot.set == into and at.bound.isdisjoint(free_indices(axis))]
        if here and not self._apart(self.rounds[equation.target]):
            own += [Position(index) for index in here if index.set == into]
        scope = (*equation.indices, *here, *at.bound, *free_indices(debt.position), *free_indices(debt.given))
        some = frozenset(n for i in scope for n in _counted(i))
        given = both(debt.given, *_roundings(Apply("and", (debt.given, debt.position)))) if own else TRUE
        return frozenset(axis for axis in own if axis == debt.position
                         or proves(given, Apply(rule, (debt.position, axis)), self.program.sizes, some=some))


def _counted(index: Index) -> frozenset[str]:
    """The sizes that are at least 1 since the index stands somewhere."""
    return index.set.extent.sizes if len(index.set.extent.terms) == 1 else frozenset()


def _letters(axis: Term) -> tuple[Index, ...]:
    """The indices of an axis of an equation."""
    parts = axis.parts if isinstance(axis, Pack) else (axis,)
    return tuple(x.index for x in parts if isinstance(x, Position))


def _near(debt: Owed) -> Owed:
    """The debt with those conditions alone that bear on its position, directly or through each other."""
    if debt.position is None:
        return debt
    known, about = list(conjuncts(debt.given)), set(free_indices(debt.position))
    while more := [c for c in known if not about.isdisjoint(free_indices(c)) and not free_indices(c) <= about]:
        about.update(*map(free_indices, more))
    return replace(debt, given=both(*(c for c in known if not about.isdisjoint(free_indices(c)))))


def _passed(free: Set[Index], debts: tuple[Owed, ...], fresh: Iterator[int]) -> tuple[Owed, ...]:
    """The debts of an equation for its readers: indices that are not `free` in it get names that no text has."""
    if len(debts) > _MOST or any(debt.position is None for debt in debts):
        return (replace(debts[0], position=None, given=TRUE),)
    out = []
    for debt in debts:
        assert debt.position is not None
        inner = (free_indices(debt.position) | free_indices(debt.given)).difference(free)
        by: dict[Index, Term] = {i: Position(Index(f"{i.name.split('·')[0]}·{next(fresh)}", i.set))
                                 for i in sorted(inner, key=lambda i: i.name)}
        out.append(replace(debt, position=substitute(debt.position, by), given=substitute(debt.given, by)))
    return tuple(out)


def _roundings(term: Term) -> tuple[Term, ...]:
    """What rounded quotients in a term say of what is rounded: b ⌊a/b⌋ ≤ a < b ⌊a/b⌋ + b, b ⌈a/b⌉ - b < a ≤ b ⌈a/b⌉."""
    out: dict[Term, None] = {}
    for part in walk(term):
        match part:
            case Apply("floor" | "ceil" as op, (Apply("div", (a, b)),)) if _positive_number(b):
                whole = Apply("mul", (b, part))
                low, high = (whole, Apply("add", (whole, b))) if op == "floor" else (Apply("sub", (whole, b)), whole)
                signs = ("le", "lt") if op == "floor" else ("lt", "le")
                out |= dict.fromkeys((Apply(signs[0], (low, a)), Apply(signs[1], (a, high))))
    return tuple(out)


def _positive_number(term: Term) -> bool:
    """Whether a divisor is a size, or a number above 0."""
    return isinstance(term, Size) or (isinstance(term, Const) and term.value > 0)
