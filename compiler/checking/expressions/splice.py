"""A checked spec as part of another program: the same equations under names, letters and extents that are free there.

Does not: decide what a call gives to which input; that is `spec_calls`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

from einc.checking.declarations.borrowed import LETTERS
from einc.checking.declarations.scope import Called, Scope
from einc.checking.expressions.values import Made
from einc.errors.report import Span
from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.programs import Equation, Slot, Tensor, TypedProgram, slot_of
from einc.ir.terms import (
    Apply,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    children,
    const,
    rebuild,
    substitute,
    walk,
)


@dataclass(frozen=True)
class Given:
    """What an input is given: a term, the caller's index for each slot, and the indices that pass through."""

    term: Term
    slots: tuple[Index, ...]
    extra: tuple[Index, ...]


@dataclass
class Copy:
    """One copy of a called program. `sizes` are its extents in terms of the caller's;
    `layer` is what the asked tensors carry."""

    called: Called
    scope: Scope
    made: Made
    name: str
    span: Span
    given: Mapping[str, Given]
    sizes: Mapping[str, Extent]
    layer: tuple[Index, ...]
    letters: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    extra: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    here: tuple[Index, ...] = ()  # what the equation that is being copied carries

    @property
    def program(self) -> TypedProgram:
        """The typed program of the spec that is called."""
        return self.called.program

    def spliced(self) -> None:
        """Adds everything of the copy to what is made; what the call does not give is asked for."""
        program = self.program
        self._choose_letters()
        self._pass_through()
        inputs = [t for t in program.inputs() if t.key not in self.given]
        states = {state for repeat in program.every_repeat for state, _, _ in repeat.states}
        locals_ = [t for t in program.tensors.values() if t.key in states or program.equation(t.key) is not None]
        for tensor in (*inputs, *locals_):
            wanted = tensor.key if tensor.key not in self.made.taken else f"{tensor.key}_{self.name}"
            self.keys[tensor.key] = self.made.fresh(wanted)
        for tensor in inputs:
            slots = (*map(slot_of, self.layer), *map(self._slot, tensor.slots))
            self.made.tensors.append(replace(tensor, key=self.keys[tensor.key], slots=slots, span=self.span))
            self.made.asked[self.keys[tensor.key]] = (tensor.key, self.span)
        for tensor in locals_:
            self.made.tensors.append(self._local(tensor))
        self.made.equations += [self._equation(e) for e in program.equations]
        self.made.repeats += [repeat.change(self.keys.__getitem__, self.index) for repeat in program.repeats]
        for fold in map(self.term, self.called.meant):
            self.made.meant.setdefault(fold, True)
        for into, parts in program.splits.items():
            self.scope.sets.splits.setdefault(self.over(into), tuple(map(self.over, parts)))
        for into, letters in program.sums.items():
            self.scope.sets.sums.setdefault(self.over(into), tuple(map(self.index, letters)))

    def over(self, old: IndexSet) -> IndexSet:
        """Returns an index set of the called program with its extent in the caller's sizes."""
        return replace(old, extent=old.extent.put(self.sizes))

    def index(self, old: Index) -> Index:
        """Returns an index of the called program under the caller's letter and over the caller's set."""
        base = old.name.rstrip("'")
        return Index(self.letters.get(base, base) + old.name[len(base):], self.over(old.set))

    def term(self, term: Term) -> Term:
        """A term of the called program as one of the caller's. Changes `self.made.places`."""
        kids = tuple(self.term(kid) for kid in children(term))
        match term:
            case Size(extent):
                return Size(extent.put(self.sizes))
            case Position(index):
                return Position(self.index(index))
            case Pack(_, sets, into):
                return Pack(kids, tuple(map(self.over, sets)), self.over(into))
            case Part(_, of, before, into):
                return Part(kids[0], self.over(of), before.put(self.sizes), self.over(into))
            case Read(tensor):
                return self._read(tensor, kids)
            case Fold(op, bound):
                made = Fold(op, tuple(map(self.index, bound)), *kids)
                self.made.places.setdefault(made, self.span)
                return made
            case Apply("chance"):
                return Apply("chance", (self._apart(kids[0]), kids[1]))
            case Join(index, parts):
                pairs = zip(parts, kids, strict=True)
                return Join(self.index(index), tuple((self.index(i), kid) for (i, _), kid in pairs))
        return rebuild(term, kids)

    def _apart(self, seed: Term) -> Term:
        """What chance is made of, other in each call, in each round and for each index that passes through."""
        call = const(crc32(" ".join(self.keys.values()).encode()) >> 1)
        numbers: list[Term] = [call, *map(Position, (*self.layer, *self.here))]
        for number in numbers:
            seed = Apply("hash", (seed, number))
        return seed

    def _read(self, tensor: str, subs: tuple[Term, ...]) -> Term:
        if tensor in self.given:
            given = self.given[tensor]
            return substitute(given.term, dict(zip(given.slots, subs, strict=True)))
        made = Read(self.keys[tensor], (*map(Position, self._carried(tensor)), *subs))
        self.made.places.setdefault(made, self.span)
        return made

    def _carried(self, tensor: str) -> tuple[Index, ...]:
        """The indices in front of the tensor's own."""
        return self.extra.get(tensor, ()) if self.program.tensors[tensor].role == "local" else self.layer

    def _slot(self, slot: Slot) -> Slot:
        base = slot.name.rstrip("'")
        return Slot(self.over(slot.set), slot.level, self.letters.get(base, base) + slot.name[len(base):])

    def _local(self, tensor: Tensor) -> Tensor:
        key = self.keys[tensor.key]
        slots = (*map(slot_of, self.extra[tensor.key]), *map(self._slot, tensor.slots))
        known = {x.name.text for x in self.scope.signatures}
        text = tensor.text if key == tensor.key and tensor.text not in known else key
        return Tensor(key, text, slots, "local", tensor.element, self.span)

    def _equation(self, equation: Equation) -> Equation:
        self.here = self.extra[equation.target]
        axes = (*map(Position, self.here), *map(self.term, equation.axes))
        return Equation(self.keys[equation.target], axes, self.term(equation.domain), self.term(equation.body),
                        equation.source)

    def _pass_through(self) -> None:
        """Finds for each tensor the indices that pass through what it is made of; chance, all that pass through the
        call. Changes `self.extra`.
        """
        program = self.program
        into: dict[str, set[str]] = {e.target: {*e.reads} for e in program.equations}
        for repeat in program.every_repeat:
            for state in repeat.states:
                for key in state:
                    into.setdefault(key, set()).update(state)
        found = {key: dict.fromkeys(given.extra) for key, given in self.given.items()}
        everything = dict.fromkeys(i for given in self.given.values() for i in given.extra)
        chance = (e.target for e in program.equations for x in walk(e.body)
                  if isinstance(x, Apply) and x.op == "chance")
        found |= {key: dict(everything) for key in chance}
        grown = True
        while grown:
            before = sum(map(len, found.values()))
            for key, sources in into.items():
                mine = found.setdefault(key, {})
                for source in sorted(sources):
                    mine.update(found.get(source, {}))
            grown = sum(map(len, found.values())) > before
        self.extra = {key: tuple(indices) for key, indices in found.items()}

    def _choose_letters(self) -> None:
        """Chooses letters for the copy, since one letter is over one set in a program: the spec's own letters where
        they are free or over the same set.
        """
        alphabet = self.scope.alphabet
        known = {**{name: index.set for name, index in alphabet.indices.items()}, **alphabet.letters}
        used = {i.name.rstrip("'") for given in self.given.values() for i in given.extra} | {i.name for i in self.layer}
        wanted = dict.fromkeys((base, set_) for base, set_ in self._bases())
        for base, set_ in wanted:
            if base not in self.letters and base not in used and known.get(base, self.over(set_)) == self.over(set_):
                self._take(base, base, set_, known, used)
        avoided = self.scope.reserved | self.scope.numbers.sizes.keys() | {x.name.base for x in self.scope.signatures}
        for base, set_ in wanted:
            if base not in self.letters:
                same = (x for x, mine in known.items() if mine == self.over(set_) and x not in used)
                free = (x for x in (*LETTERS, *(a + b for a in LETTERS for b in LETTERS))
                        if x not in known and x not in used)
                self._take(base, next(same, None) or next(x for x in free if x not in avoided), set_, known, used)

    def _take(self, base: str, letter: str, set_: IndexSet, known: dict[str, IndexSet], used: set[str]) -> None:
        self.letters[base] = letter
        used.add(letter)
        known[letter] = self.scope.alphabet.letters[letter] = self.over(set_)

    def _bases(self) -> Iterator[tuple[str, IndexSet]]:
        """Every letter of the called program, without its primes, and its set."""
        program = self.program
        found = [Index(slot.name, slot.set) for t in program.tensors.values() for slot in t.slots]
        found = [i for i in found if i.name.replace("'", "").isalpha()]
        found += [i for e in program.equations for term in (*e.axes, e.domain, e.body) for i in mentioned(term)]
        found += [repeat.index for repeat in program.every_repeat]
        found += [i for parts in program.sums.values() for i in parts]
        yield from ((i.name.rstrip("'"), i.set) for i in found)


def mentioned(term: Term) -> Iterator[Index]:
    """Every index in a term, free or bound."""
    for inner in walk(term):
        match inner:
            case Position(index):
                yield index
            case Fold(_, bound):
                yield from bound
            case Join(index, parts):
                yield from (index, *(i for i, _ in parts))
