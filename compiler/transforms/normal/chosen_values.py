"""What an item may be wherever a condition holds, by rank: `⌈s/B⌉ ∈ S_t` leaves it the elements of a set, and
`⌈s/B⌉ = ⌈t/B⌉ or ⌈s/B⌉ ∈ S_t` one value more, each of them once.

Non-goals: what is folded over the positions that have these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase

from einc.ir.domains import negation, proves
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import INDEX_CLASSES, Extent, Index, IndexSet, distinct, number, primed
from einc.ir.programs import Equation, Tensor, local
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    canonical,
    conjuncts,
    const,
    free_indices,
    reads,
    substitute,
)
from einc.transforms.normal.chosen_sets import ChosenSet
from einc.transforms.normal.delta_elimination import axis_order
from einc.transforms.normal.preimages import Item, bounds_of_image, item_of, negative, plus, steady

GATHERED = 128  # positions that all rows share cost about as much as one that a row has for itself


@dataclass(frozen=True)
class Chosen:
    """What a condition of a fold asks of an item: to be one of the `values` that `owners` have."""

    condition: Term
    item: Item
    values: ChosenSet
    owners: tuple[Term, ...]

    def pays(self, letter: Index) -> bool:
        """Whether the positions of chosen values cost less than all positions of the letter, at usual extents where
        they are not known. An element for each rank always does: a set of elements is asked for at no other place.
        """
        length, ranks = self.item.map.length, self.values.rank.set.extent
        if length == number(1):
            return True
        return GATHERED * _usual(ranks, "feature") * _usual(length, "feature") <= _usual(
            letter.set.extent, letter.set.cls)

    def at(self, rank: Term) -> Read:
        """The value that stands at a rank of the chosen set."""
        return Read(self.values.chosen, (*self.owners, rank))


def _usual(extent: Extent, cls: str) -> float:
    """An extent, or the usual one of a class of indices where it is not known."""
    return float(extent.constant or INDEX_CLASSES[cls].usual)


@dataclass(frozen=True)
class _Part:
    """What an alternative leaves: a value for each rank, where it is `valid`."""

    rank: Index
    value: Term
    valid: tuple[Term, ...]


@dataclass
class Values:
    """Finds what items may be; equations and tensors of lists of values are added. `listed` finds a list again, and
    `letters` are those of the program with what they run over.
    """

    sets: dict[str, ChosenSet]
    picks: dict[str, ChosenSet]
    by: dict[str, Equation]
    tensors: dict[str, Tensor]
    letters: dict[str, IndexSet]
    listed: dict[Term, str] = field(default_factory=dict)

    def of(self, fold: Fold) -> Chosen | None:
        """What the first condition of a fold that asks for chosen elements leaves; None where none does."""
        for condition in conjuncts(fold.domain):
            options = alternatives(condition)
            for member, owners, term in (x for option in options for x in self.asked(option)):
                item = item_of(term, fold.bound)
                if item is None or any(item.letter in free_indices(owner) for owner in owners):
                    continue
                found = self._chosen(fold, condition, item, member)
                if found is not None:
                    return found
        return None

    def letter(self, stem: str, along: IndexSet) -> Index:
        """A letter that runs over a set here, and over no other set anywhere in the program."""
        names = (stem, *(f"{stem}{more}" for more in ascii_lowercase))
        name = next((x for x in names if self.letters.setdefault(x, along) == along), None)
        return Index(name or primed(stem, self.letters), along)

    def asked(self, condition: Term) -> Iterator[tuple[ChosenSet, tuple[Term, ...], Term]]:
        """The set, its owners and the item of each `item ∈ S` that has to hold."""
        for one in conjuncts(condition):
            match one:
                case Apply("eq", (truth, Read(tensor, (*owners, item)))) if truth == ONE and tensor in self.sets:
                    yield self.sets[tensor], tuple(owners), item

    def _chosen(self, fold: Fold, condition: Term, item: Item, member: ChosenSet) -> Chosen | None:
        """What a condition leaves of an item, if each of its alternatives leaves a number that no position changes."""
        (letter,) = distinct((member.element,), {i.name for i in (*free_indices(fold), *fold.bound)})
        here = Position(letter)
        outside = [c for c in conjuncts(fold.domain) if c != condition]
        given = [c for x in (*outside, *bounds_of_image(item, outside)) if (c := item.at(x, here)) is not None]
        options = [item.at(option, here) for option in alternatives(condition)]
        found = [None if o is None else self._part(o, letter, both(*given)) for o in options]
        if any(part is None for part in found):
            return None
        known = [(o, p) for o, p in zip(options, found, strict=True) if o is not None and p is not None]
        known.sort(key=lambda pair: any(True for _ in self.asked(pair[0])))
        first, more = known[0][1], known[1:]
        if not more and not first.valid and isinstance(first.value, Read):
            return Chosen(condition, item, self.picks[first.value.tensor], first.value.subs[:-1])
        parts = [(p, both(*self._once(p, letter, [o for o, _ in known[:n]]))) for n, (_, p) in enumerate(known)]
        values = self._list(parts, letter)
        return Chosen(condition, item, values, tuple(map(Position, values.letters)))

    def _part(self, option: Term, letter: Index, given: Term) -> _Part | None:
        """What an alternative leaves of a letter: the elements of a set, or as many values as its bounds do."""
        for member, owners, item in self.asked(option):
            if item == Position(letter):
                element = Read(member.chosen, (*owners, Position(member.rank)))
                known = both(*member.known(owners, element), member.there(element))
                rest = [c for x in conjuncts(option) if (member, owners, item) not in self.asked(x)
                        and not proves(known, c := substitute(x, {letter: element}))]
                return _Part(member.rank, element, tuple(rest))
        found = steady(option, letter, given)
        if found is None or not proves(both(option, given), Apply("le", (const(letter.set.start), Position(letter)))):
            return None
        low, count = found
        rank = Index("rank", IndexSet(letter.set.cls, count))
        value = low if count == number(1) else plus(low, Position(rank), const(-1))
        asked = (substitute(c, {letter: value}) for c in (Apply("le", (const(letter.set.start), Position(letter))),
                                                          *conjuncts(option)))
        return _Part(rank, value, tuple(c for c in asked if not proves(TRUE, c)))

    def _once(self, part: _Part, letter: Index, before: list[Term]) -> tuple[Term, ...]:
        """Where a rank of an alternative has a value that no alternative before it has, too."""
        twice = [negation(substitute(option, {letter: part.value})) for option in before]
        asked = (*part.valid, *twice)
        there = [Apply("le", (const(letter.set.start), part.value))] if asked and reads(part.value) else []
        return (*there, *asked)

    def _list(self, parts: list[tuple[_Part, Term]], letter: Index) -> ChosenSet:
        """The list of the values of several alternatives, one after the other, as an equation: a rank without a value
        has the number before the first. Adds the equation and its tensor."""
        inside = frozenset[Index]().union(*(free_indices(x) - {p.rank} for p, valid in parts for x in (p.value, valid)))
        letters = tuple(sorted(inside, key=axis_order))
        ends = [number(0)]
        for part, _ in parts:
            ends.append(ends[-1] + part.rank.set.extent)
        rank = self.letter("rank", IndexSet(letter.set.cls, ends[-1]))
        none, here, addends = const(letter.set.start - 1), Position(rank), list[Term]()
        for (part, valid), first, last in zip(parts, ends, ends[1:], strict=False):
            by: dict[Index, Term] = {part.rank: plus(here, Size(first * number(-1)))}
            own = both(Apply("lt", (Size(first), here)) if first.terms else TRUE,
                       Apply("le", (here, Size(last))) if last != ends[-1] else TRUE, substitute(valid, by))
            value = substitute(plus(part.value, negative(none)), by)
            addends.append(value if own == TRUE else Where(own, value))
        body = plus(*addends, none)
        key = canonical(body, (*letters, rank))
        if key not in self.listed:
            target = self.listed[key] = unused(f"{letter.name}_chosen", self.tensors)
            self.tensors[target] = local(target, (*letters, rank), INTEGER)
            self.by[target] = Equation(target, tuple(map(Position, (*letters, rank))), TRUE, body)
            self.picks[target] = ChosenSet(target, letters, rank, letter, TRUE)
        return self.picks[self.listed[key]]


def alternatives(condition: Term) -> tuple[Term, ...]:
    """The alternatives of a condition; a condition without any is its only one."""
    match condition:
        case Apply("or", args):
            return tuple(a for arg in args for a in alternatives(arg))
    return (condition,)
