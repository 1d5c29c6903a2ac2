"""Folds over chosen elements become folds over their ranks, and what is read at chosen
elements alone is made there alone.

Σ_{s ∈ S_t} f(s) = Σ_r f(S_{t r}), over the ranks that have an element: S_{t r} names each element of S_t once.
Non-goals: how the elements are found, in which order they are summed, what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einc.ir.dependence import reached
from einc.ir.domains import proves
from einc.ir.draft import unused
from einc.ir.folds import FOLDS
from einc.ir.indices import Extent, Index, IndexSet, distinct, number
from einc.ir.programs import Equation, Program, Tensor, slot_of
from einc.ir.terms import (
    ONE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    bound_indices,
    canonical,
    children,
    conjuncts,
    const,
    free_indices,
    rebuild,
    substitute,
    transform,
    walk,
)
from einc.transforms.normal.chosen_sets import ChosenSet, chosen_sets
from einc.transforms.normal.chosen_values import Chosen, Values
from einc.transforms.normal.preimages import negative, plus, times


def at_chosen(program: Program) -> Program:
    """The program with every set read by rank, where something is folded over it or read at its elements."""
    sets = chosen_sets(program)
    if not sets:
        return program
    by, picks, tensors = dict(program.by_target), {s.chosen: s for s in sets.values()}, dict(program.tensors)
    work = _Work(sets, picks, by, tensors, Values(sets, picks, by, tensors, _letters(program)))
    found = work.needed([key for _, key in program.outputs])
    return replace(program, tensors=work.tensors, equations=tuple(found))


@dataclass(frozen=True)
class _Element:
    """What holds of a chosen element in these letters: where there is one, that it is `inside` its set, and what is
    known of it there.
    """

    letters: tuple[Index, ...]
    there: tuple[Term, ...]
    inside: tuple[Term, ...]
    known: tuple[Term, ...]

    def of(self, letters: tuple[Index, ...]) -> _Element:
        """What holds of an element, in other letters."""
        by: dict[Index, Term] = dict(zip(self.letters, map(Position, letters), strict=True))
        there, inside, known = (tuple(substitute(c, by) for c in x) for x in (self.there, self.inside, self.known))
        return _Element(letters, there, inside, known)


@dataclass
class _Work:
    """`by` are the equations by target, `ranked` those already read by rank, `made` those of what is read at chosen
    elements, `elements` what holds of these."""

    sets: dict[str, ChosenSet]
    picks: dict[str, ChosenSet]
    by: dict[str, Equation]
    tensors: dict[str, Tensor]
    values: Values
    ranked: dict[str, Equation] = field(default_factory=dict)
    elements: dict[Term, _Element] = field(default_factory=dict)
    made: dict[tuple[str, tuple[Term, ...]], str] = field(default_factory=dict)

    def needed(self, outputs: list[str]) -> list[Equation]:
        """The equations that the outputs need, each after what it reads."""
        whole = self._whole(outputs)
        out: dict[str, Equation] = {}
        stack = [(key, False) for key in reversed(outputs)]
        while stack:
            key, ready = stack.pop()
            if ready or key in out or key not in self.by:
                continue
            equation = self._by_rank(key)
            equation = replace(equation, domain=self._moved(equation.domain, whole),
                               body=self._moved(equation.body, whole))
            inner = [r.tensor for r in equation.elements if r.tensor in self.by and r.tensor not in out]
            if not inner:
                out[key] = equation
                continue
            stack += [(key, False), *((r, False) for r in reversed(inner))]
        return list(out.values())

    def _whole(self, outputs: list[str]) -> frozenset[str]:
        """What is read at other places than chosen ones too: it is stored, so that chosen elements are read from it."""

        def after(key: str) -> frozenset[str]:
            return (self._by_rank(key).map(lambda term: self._moved(term, frozenset())).reads if key in self.by
                    else frozenset())

        return frozenset(key for key in {*reached(outputs, after)} & self.by.keys() if key not in self.made.values())

    def _by_rank(self, key: str) -> Equation:
        if key not in self.ranked:
            equation = self.by[key]
            self.ranked[key] = replace(equation, domain=self._domain(equation.domain), body=self._folds(equation.body))
        return self.ranked[key]

    # folds

    def _folds(self, term: Term) -> Term:
        """The term with every fold over a set as one over ranks, from the outside in."""
        match term:
            case Fold() if (found := self._member(term)) is not None:
                return self._folds(found)
            case Fold(op, bound, domain, body):
                return Fold(op, bound, self._domain(domain), self._folds(body))
            case Where(condition, then):
                return Where(self._domain(condition), self._folds(then))
        return rebuild(term, tuple(self._folds(kid) for kid in children(term)))

    def _member(self, fold: Fold) -> Fold | None:
        """The fold over the places of what its domain asks to be chosen; None where nothing is, or where all positions
        cost less. What is ordered keeps its elements.
        """
        chosen = None if FOLDS[fold.op].ordered else self.values.of(fold)
        if chosen is None or not chosen.pays(chosen.item.letter):
            return None
        letter, one = chosen.item.letter, chosen.values
        place, value, element = self._placed(fold, chosen)
        by: dict[Index, Term] = {letter: element}
        there, known = self._there(chosen, value, element), one.known(chosen.owners, value)
        asked = [chosen.item.at(c, value) or substitute(c, by) for c in conjuncts(fold.domain) if c != chosen.condition]
        rest = [c for c in asked if c not in known and not proves(both(*there, *known), c)]
        inside = [c for c in _in_range(letter, element) if not proves(both(*there, *known, *asked), c)]
        holds = (substitute(chosen.condition, by), *known)
        self._note(_Element(_own(element), there, _in_range(letter, element), holds), element)
        bound = tuple(place if index == letter else index for index in fold.bound)
        return Fold(fold.op, bound, both(*there, *inside, *rest), substitute(fold.body, by))

    def _placed(self, fold: Fold, chosen: Chosen) -> tuple[Index, Read, Term]:
        """A letter for the places of all values, one after the other, the value of a place, and the element there."""
        length, ranks = chosen.item.map.length, chosen.values.rank
        along = IndexSet(ranks.set.cls, ranks.set.extent * length)
        letter = ranks if length == number(1) else self.values.letter("place", along)
        (place,) = distinct((letter,), {i.name for i in (*fold.bound, *free_indices(fold), *_inside(fold))})
        rank, within = _split(place, length)
        value = chosen.at(rank)
        return place, value, plus(chosen.item.before(value), within)

    def _there(self, chosen: Chosen, value: Read, element: Term) -> tuple[Term, ...]:
        """What holds of the places of a value: its rank has one, and it is the item's, where intervals differ."""
        item = chosen.item
        whose = () if item.map.exact else (Apply("eq", (item.whole(element), value)),)
        return (chosen.values.there(value), *whose)

    def _note(self, found: _Element, element: Term) -> None:
        """Keeps what holds of an element."""
        self.elements[canonical(element, found.letters)] = found

    def _noted(self, sub: Term) -> _Element | None:
        """What holds of an element that a fold over chosen ones reads."""
        order = _own(sub)
        found = self.elements.get(canonical(sub, order)) if not isinstance(sub, Position) else None
        return found and found.of(order)

    def _asked(self, condition: Term) -> tuple[ChosenSet, tuple[Term, ...], Term] | None:
        """The set, its owners and the item of `item ∈ S`."""
        return next(self.values.asked(condition), None)

    def _domain(self, domain: Term) -> Term:
        """`S_{t r} ∈ S_t` where the rank has an element; what is known of elements is not asked again."""
        kept: list[Term] = []
        known: list[Term] = []
        for condition in conjuncts(domain):
            found = self._asked(condition)
            if found is not None and found[2] == Read(found[0].chosen, (*found[1], *_last(found[2]))):
                assert isinstance(found[2], Read)
                kept.append(found[0].there(found[2]))
                known += found[0].known(found[1], found[2])
            else:
                kept.append(rebuild(condition, tuple(self._folds(kid) for kid in children(condition))))
        return both(*(c for c in kept if c not in known and not (known and proves(both(*known), c))))

    # definitions

    def _moved(self, term: Term, whole: frozenset[str]) -> Term:
        """The term with definitions read at chosen elements replaced by what they are there."""
        def change(inner: Term) -> Term:
            return (self._at(inner) if isinstance(inner, Read) and inner.tensor not in whole and self._moves(inner)
                    else inner)

        return transform(term, change)

    def _moves(self, read: Read) -> bool:
        """Whether a definition is read at chosen elements, which take no more indices than it has."""
        equation = self.by.get(read.tensor)
        if equation is None or read.tensor in self.picks or read.tensor in self.sets:
            return False
        if not all(isinstance(a, Position) for a in equation.axes) or not all(self._plain(s) for s in read.subs):
            return False
        chosen = [s for s in read.subs if not isinstance(s, Position)]
        return bool(chosen) and len(free_indices(read)) <= len(equation.axes)

    def _plain(self, sub: Term) -> bool:
        match sub:
            case Position():
                return True
            case Read(tensor, subs) if tensor in self.picks and all(isinstance(s, Position) for s in subs):
                return True
        return self._noted(sub) is not None

    def _at(self, read: Read) -> Read:
        """The read of the equation that holds for the chosen elements alone. Adds that equation where it is new."""
        equation = self._by_rank(read.tensor)
        order = tuple(dict.fromkeys(i for s in read.subs for i in _own(s)))
        key = (read.tensor, tuple(canonical(s, order) for s in read.subs))
        if key not in self.made:
            name = self.made[key] = unused(f"{read.tensor}_at", self.tensors)
            old = self.tensors[read.tensor]
            slots = {s.index: x for s, x in zip(read.subs, old.slots, strict=True) if isinstance(s, Position)}
            given = tuple(replace(slots[i], name=i.name) if i in slots else slot_of(i) for i in order)
            self.tensors[name] = Tensor(name, name, given, "local", old.element)
            by = dict(zip(equation.indices, read.subs, strict=True))
            notes = [n for s in read.subs if (n := self._noted(s)) is not None]
            there = [c for n in notes for c in n.there]
            there += [self.picks[s.tensor].there(s) for s in read.subs if isinstance(s, Read)]
            known = [c for n in notes for c in n.known]
            asked = self._domain(both(*(c for c in conjuncts(substitute(equation.domain, by)) if c not in known)))
            rest = [c for c in conjuncts(asked) if not proves(both(*there, *known), c)]
            held = both(*there, *known, *rest)
            domain = both(*there, *(c for n in notes for c in n.inside if not proves(held, c)), *rest)
            body = self._folds(substitute(equation.body, by))
            self.by[name] = Equation(name, tuple(map(Position, order)), domain, body, equation.source)
        return Read(self.made[key], tuple(map(Position, order)))


def _own(sub: Term) -> tuple[Index, ...]:
    """The indices of a subscript as they stand in it."""
    return tuple(dict.fromkeys(x.index for x in walk(sub) if isinstance(x, Position)))


def _split(place: Index, length: Extent) -> tuple[Term, Term]:
    """The rank of a place among intervals of a length that follow each other, and the place in its interval, from 1."""
    here = Position(place)
    if length == number(1):
        return here, ONE
    rank = Apply("ceil", (Apply("div", (here, Size(length))),))
    return rank, plus(here, times(length, plus(negative(rank), ONE)))


def _in_range(letter: Index, element: Term) -> tuple[Term, Term]:
    """That an element is one of the set of a letter."""
    last = letter.set.extent + number(letter.set.start - 1)
    return Apply("lt", (const(letter.set.start - 1), element)), Apply("le", (element, Size(last)))


def _last(item: Term) -> tuple[Term, ...]:
    return item.subs[-1:] if isinstance(item, Read) else ()


def _letters(program: Program) -> dict[str, IndexSet]:
    """The letters of a program, and what they run over."""
    terms = (t for e in program.equations for part in (*e.axes, e.domain, e.body) for t in walk(part))
    return {i.name: i.set for t in terms for i in (*bound_indices(t), *((t.index,) if isinstance(t, Position) else ()))}


def _inside(fold: Fold) -> list[Index]:
    return [i for x in walk(fold) if isinstance(x, Fold) for i in x.bound]
