"""How one equation is done on one axis of a mesh, and what every rule asks about: letters, the places at which they are
read, and what is known of places that are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import Any, Protocol

from einc.ir.domains import proves
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.programs import Equation, Program, Slot
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Position,
    Read,
    Size,
    Term,
    children,
    conjuncts,
    free_indices,
    reads,
    substitute,
    walk,
)
from einc.planning.placing.refusals import Refused
from einc.planning.placing.states import WHOLE, Axis, Meeting, Owned, Part, Rows, Share, State, clash, sent


@dataclass(frozen=True)
class Letter:
    """A letter of an equation that is cut: by its set, or by one component of it where that is a composite; the part of
    a rank is in so many blocks. Of a letter of rows `row` is how many of
    them a rank has.
    """

    index: Index
    base: IndexSet
    component: int = -1
    blocks: int = 1
    row: Extent | None = None


@dataclass(frozen=True)
class Tag:
    """A value that holds a factor exp(-power · m), where m, the reference, is each rank's own; `places` are the slots
    of the value at which m stands.
    """

    reference: str
    places: tuple[int, ...]
    power: int = 1


@dataclass(frozen=True)
class Cut:
    """One equation on one axis: what comes out, the letters that run over a rank's own part, and the state in which
    each tensor is read. `reason` is what made the result a share.

    `once` are shares that are added to others: what holds none of them counts on the first rank alone. `gathered` is a
    tensor of which the result is what a rank has at a place that is read of data, 0 where it has it not. `chosen` is
    what says whose the addends of a sum are, with the set of its values: each rank takes its own.
    """

    state: State
    letters: tuple[Letter, ...] = ()
    needs: Mapping[str, State] = field(default_factory=dict)
    reason: str = ""
    tag: Tag | None = None
    once: frozenset[str] = frozenset()
    gathered: tuple[Read, Part] | None = None
    chosen: tuple[Read, IndexSet] | None = None


def letters(equation: Equation) -> tuple[Index, ...]:
    """The letters by which an equation may be cut: all but those along which direct sums or ordered folds run."""
    body, out = equation.body, list(equation.indices)
    match body:
        case Fold(_, bound):
            out += bound
        case Join(index, parts):
            out = [i for i in out if i != index and i not in {own for own, _ in parts}]
        case Apply("pick", (_, rank)):
            out = [i for i in out if i not in free_indices(rank)]
    return tuple(dict.fromkeys(out))


def as_numbers(equation: Equation, program: Program) -> frozenset[Index]:
    """The letters whose numbers a value depends on, not only the place at which something stands."""
    found: set[Index] = set()

    def look(term: Term, into: IndexSet | None) -> None:
        """Notes the letters of a term that are no place in the set `into`."""
        match term:
            case Position(index):
                found.update(() if into == index.set else (index,))
            case Pack(parts, sets, whole) if whole == into:
                for part, over in zip(parts, sets, strict=True):
                    look(part, over)
            case Read(tensor, subs):
                for sub, slot in zip(subs, program.tensors[tensor].slots, strict=True):
                    look(sub, slot.set)
            case _:
                for kid in children(term):
                    look(kid, None)

    look(equation.domain, None)
    look(equation.body, None)
    return frozenset(found)


def plainly(sub: Term, into: IndexSet, letter: Letter) -> int | None:
    """The component, -1 for the set itself, by which a letter goes through a slot in which it stands plainly."""
    match sub:
        case Position(index) if index == letter.index and index.set == into:
            return letter.component
        case Pack(parts, sets, whole) if whole == into and letter.component < 0:
            for n, (part, over) in enumerate(zip(parts, sets, strict=True)):
                if part == Position(letter.index) and over == letter.base:
                    return n
    return None


def placed_at(terms: Iterable[Term], sets: Iterable[IndexSet], letter: Letter) -> Part | None:
    """The first slot at which a letter stands plainly."""
    for n, (term, into) in enumerate(zip(terms, sets, strict=True)):
        component = plainly(term, into, letter)
        if component is not None and (component < 0 or letter.blocks == 1):
            return Part(n, component, letter.blocks)
    return None


def packed(equation: Equation, index: Index) -> bool:
    """Whether a letter stands in a composite somewhere in an equation."""
    terms = (*equation.axes, equation.domain, equation.body)
    return any(isinstance(x, Pack) and index in free_indices(x) for term in terms for x in walk(term))


def alike(one: State, other: State) -> bool:
    """Whether two states cut the same slot, in blocks or not."""
    return isinstance(one, Part) and isinstance(other, Part) and (one.slot, one.component) == (
        other.slot, other.component)


class Needs(Protocol):
    """The state in which each tensor of an equation is read."""

    def __call__(self, equation: Equation, choice: Letter | None, but: Mapping[str, State] | None = None,
                 ) -> dict[str, State]:
        """`but` says it of some."""
        ...


@dataclass(frozen=True)
class Knowledge:
    """What the rules know beside the program: the axis, the sizes by which prices are compared, and those that are
    surely so.
    """

    axis: Axis
    usual: Mapping[str, int]
    sizes: Mapping[str, int]

    def stays(self, place: Term, into: IndexSet, letter: Letter) -> bool:
        """Whether a place that is computed from a cut letter is in the same rank's part of `into` as the letter is of
        its own set: groups of heads, for instance.
        """
        whole = letter.component < 0 and letter.blocks == 1
        if not whole or isinstance(place, Position | Pack) or free_indices(place) != {letter.index}:
            return False
        if into not in self.axis.sets or any(isinstance(x, Read | Fold) for x in walk(place)):
            return False
        return self._proved(place, into, letter) or self._seen(place, into, letter)

    def _proved(self, place: Term, into: IndexSet, letter: Letter) -> bool:
        """For all sizes that the ranks divide: sizes become those of a part, times the ranks."""
        named = {name: s for s in (into, letter.base) for name in s.extent.sizes if s.extent == size(name)}
        if {*named.values()} != {into, letter.base}:
            return False
        by = {name: size(name) * number(self.axis.ranks) for name in named}
        own = Index(letter.index.name, letter.base)  # the sizes are those of a part now
        rank = self.axis.rank
        number_of = Apply("add", (Position(own), Size(rank * letter.base.extent)))
        moved = substitute(_sized(place, by), {letter.index: number_of})
        low = Size(rank * into.extent + number(into.start))
        high = Size(rank * into.extent + into.extent + number(into.start - 1))
        some = frozenset(by)
        return proves(TRUE, Apply("le", (low, moved)), some=some) and proves(
            Const(Fraction(1)), Apply("le", (moved, high)), some=some)

    def _seen(self, place: Term, into: IndexSet, letter: Letter) -> bool:
        """At the sizes that are surely so."""
        named = {n for t in walk(place) if isinstance(t, Size) for n in t.extent.sizes}
        if not named | into.extent.sizes | letter.base.extent.sizes <= self.sizes.keys():
            return False
        whole, slots = int(letter.base.extent.at(self.sizes)), int(into.extent.at(self.sizes))
        ranks = self.axis.ranks
        if whole % ranks or slots % ranks or not whole or not slots:
            return False
        for k in range(whole):
            at = value_of(place, letter.index, k + letter.base.start, self.sizes)
            if at is None or floor(at - into.start) // (slots // ranks) != k // (whole // ranks):
                return False
        return True

    def count(self, program: Program, key: str) -> Fraction:
        """The number of elements of a tensor at the sizes by which prices are compared."""
        total = Fraction(1)
        for slot in program.tensors[key].slots:
            total *= slot.set.extent.at(self.usual)
        return total

    def sent(self, program: Program, key: str, have: State, want: State) -> Fraction:
        """How many elements a rank sends so that a tensor is in another state."""
        whole, ranks = self.count(program, key), self.axis.ranks
        match have, want:
            case _ if have == want:
                return Fraction(0)
            case Part(), Rows():
                return whole / ranks * want.copies.at(self.usual) * sent("to_rows", ranks).at({})
            case (Share(rows=Rows() as rows) | Owned(rows=Rows() as rows)), Part():
                return whole / ranks * rows.copies.at(self.usual) * sent("from_rows", ranks).at({})
            case Part(), Part():
                return whole / ranks * sent("all_to_all", ranks).at({})
            case Part(), _:
                return whole / ranks * sent("all_gather", ranks).at({})
            case (Share() | Owned()), Part():
                return whole * sent("reduce_scatter", ranks).at({})
            case (Share() | Owned()), _:
                return whole * sent("all_reduce", ranks).at({})
        return Fraction(0)


def first_part(slots: Sequence[Slot], splits: Mapping[IndexSet, Sequence[IndexSet]], sets: Iterable[IndexSet],
               taken: Sequence[State]) -> State:
    """The part of slots by the first of some sets that stands in them and of which nothing is taken; whole where there
    is none.
    """
    for base in sets:
        for n, slot in enumerate(slots):
            whole = [Part(n)] if slot.set == base else []
            parts = [Part(n, k) for k, component in enumerate(splits.get(slot.set, ())) if component == base]
            for found in (*whole, *parts):
                if not any(clash(found, one) for one in taken):
                    return found
    return WHOLE


def _sized(term: Term, by: Mapping[str, Extent]) -> Term:
    """The term with other extents for some sizes."""
    match term:
        case Size(extent):
            return Size(extent.put(by))
        case Apply(op, args):
            return Apply(op, tuple(_sized(x, by) for x in args))
    return term


_ARITHMETIC: Mapping[str, Any] = {
    "add": lambda *x: sum(x), "sub": lambda x, y: x - y, "neg": lambda x: -x, "floor": floor, "ceil": ceil,
    "mod": lambda x, y: x % y, "min": min, "max": max, "abs": abs,
}


def value_of(term: Term, index: Index, at: int, sizes: Mapping[str, int]) -> Fraction | None:
    """The number of a term in one letter; None where it is no sum, product or quotient of numbers, rounded or not."""
    match term:
        case Const(value):
            return Fraction(value) if isinstance(value, Fraction) else None
        case Size(extent):
            return extent.at(sizes)
        case Position(other):
            return Fraction(at) if other == index else None
        case Apply(op, args):
            found = [x for x in (value_of(arg, index, at, sizes) for arg in args) if x is not None]
            if len(found) < len(args):
                return None
            if op == "mul":
                total = Fraction(1)
                for x in found:
                    total *= x
                return total
            if op == "div":
                return found[0] / found[1] if found[1] else None
            return Fraction(_ARITHMETIC[op](*found)) if op in _ARITHMETIC else None
    return None


def equals(domain: Term) -> Iterator[tuple[Term, Term]]:
    """The pairs of terms that a domain says are equal, each pair both ways round."""
    for condition in conjuncts(domain):
        match condition:
            case Apply("eq", (a, b)):
                yield a, b
                yield b, a


def joined(wanted: Iterable[tuple[str, State]]) -> dict[str, State]:
    """For each tensor the state in which it is read; whole where it is read in several."""
    out: dict[str, State] = {}
    for key, state in wanted:
        out[key] = state if out.get(key, state) == state else WHOLE
    return out

def shown_place(place: Term) -> str:
    """The place in a few words: the tensor that says it."""
    return next((r.tensor for r in reads(place)), "a place")


def read_whole(needs: Mapping[str, State], state: Callable[[str], State], wholes: Set[str]) -> dict[str, State]:
    """The states in which an equation reads tensors, of which some come whole to the rank anyway."""
    return {key: WHOLE if isinstance(want, Part) and want != state(key) and key in wholes else want
            for key, want in needs.items()}


def no_meeting(target: str, both: list[Letter], meeting: Meeting) -> Refused:
    """What is said of an equation that has no letter by which it could be cut instead."""
    names = " and ".join(x.index.name for x in both)
    return Refused("meeting", f"`{target}` has {names}, which are of one set, and no letter of {meeting.by} "
                   f"that is not cut yet: it cannot be cut by that instead",
                   f"say `pass {meeting.letter} by gather`, or `by merge`")
