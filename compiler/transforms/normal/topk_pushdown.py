"""Folds over chosen elements become folds over their ranks, and what is read at chosen
elements alone is made there alone.

Σ_{s ∈ S_t} f(s) = Σ_r f(S_{t r}), over the ranks that have an element: S_{t r} names each element of S_t once.
Non-goals: how the elements are found, in which order they are summed, what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from einc.ir.dependence import reached
from einc.ir.domains import proves
from einc.ir.draft import unused
from einc.ir.folds import FOLDS
from einc.ir.indices import Index, distinct
from einc.ir.programs import Equation, Program, Tensor, slot_of
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
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
from einc.transforms.laws.simplify import picked


@dataclass(frozen=True)
class _Set:
    """A set by the tensor of its elements by rank: of `letters`, with candidates `element` in `domain`."""

    chosen: str
    letters: tuple[Index, ...]
    rank: Index
    element: Index
    domain: Term

    def known(self, owners: tuple[Term, ...], item: Term) -> tuple[Term, ...]:
        """What holds of every element of the set of these owners."""
        by = {**dict(zip(self.letters, owners, strict=True)), self.element: item}
        return conjuncts(substitute(self.domain, by))

    def there(self, item: Read) -> Term:
        """A rank has an element."""
        return Apply("le", (const(self.element.set.start), item))


def at_chosen(program: Program) -> Program:
    """The program with every set read by rank, where something is folded over it or read at its elements."""
    sets = _sets(program)
    if not sets:
        return program
    by = dict(program.by_target)
    work = _Work(sets, {s.chosen: s for s in sets.values()}, by, dict(program.tensors))
    found = work.needed([key for _, key in program.outputs])
    return replace(program, tensors=work.tensors, equations=tuple(found))


def _sets(program: Program) -> dict[str, _Set]:
    """The sets by the tensors that are 1 on their elements: M_s = Σ_r 𝟙[S_r = s] over all
    ranks, for an S that picks by rank."""
    by = program.by_target
    out: dict[str, _Set] = {}
    for equation in program.equations:
        match equation.body:
            case Fold("sum", (rank,), domain, Where(Apply("eq", (Read(chosen, subs), item)), then)) if chosen in by:
                *owners, last = equation.axes
                plain = all(isinstance(a, Position) for a in equation.axes) and {equation.domain, domain} == {TRUE}
                if plain and then == ONE and item == last and subs == (*owners, Position(rank)):
                    found = _set(by[chosen], equation.indices, rank)
                    out |= {} if found is None else {equation.target: found}
    return out


def _set(equation: Equation, letters: tuple[Index, ...], rank: Index) -> _Set | None:
    """The set whose elements an equation picks, the rank its last axis; each rank has another element."""
    ordered = picked(equation)
    if (ordered is None or equation.axes[-1] != Position(ordered[1])
        or not all(isinstance(a, Position) for a in equation.axes)):
        return None
    (candidate,) = ordered[0].bound
    names = dict(zip((*equation.indices[:-1], candidate), map(Position, letters), strict=True))
    return _Set(equation.target, letters[:-1], rank, letters[-1], substitute(ordered[0].domain, names))


@dataclass
class _Work:
    """`by` are the equations by target, `ranked` those already read by rank, `made` those
    of what is read at chosen elements."""

    sets: dict[str, _Set]
    picks: dict[str, _Set]
    by: dict[str, Equation]
    tensors: dict[str, Tensor]
    ranked: dict[str, Equation] = field(default_factory=dict)
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
        """The fold over the ranks of a set that it runs over; None where there is none.
        What is ordered keeps its elements."""
        for condition in () if FOLDS[fold.op].ordered else conjuncts(fold.domain):
            found = self._asked(condition)
            if found is None:
                continue
            one, owners, item = found
            if not isinstance(item, Position) or item.index not in fold.bound or item.index in _letters(owners):
                continue
            taken = {i.name for i in (*fold.bound, *free_indices(fold), *_inside(fold))}
            (rank,) = distinct((one.rank,), taken)
            element = Read(one.chosen, (*owners, Position(rank)))
            known = one.known(owners, item)
            rest = [c for c in conjuncts(fold.domain)
                    if c != condition and c not in known and not proves(both(*known), c)]
            by: dict[Index, Term] = {item.index: element}
            bound = tuple(rank if b == item.index else b for b in fold.bound)
            domain = both(one.there(element), *(substitute(c, by) for c in rest))
            return Fold(fold.op, bound, domain, substitute(fold.body, by))
        return None

    def _asked(self, condition: Term) -> tuple[_Set, tuple[Term, ...], Term] | None:
        """The set, its owners and the item of `item ∈ S`."""
        match condition:
            case Apply("eq", (one, Read(tensor, (*owners, item)))) if one == ONE and tensor in self.sets:
                return self.sets[tensor], tuple(owners), item
        return None

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
        chosen = [s for s in read.subs if isinstance(s, Read)]
        return bool(chosen) and len(free_indices(read)) <= len(equation.axes)

    def _plain(self, sub: Term) -> bool:
        match sub:
            case Position():
                return True
            case Read(tensor, subs):
                return tensor in self.picks and all(isinstance(s, Position) for s in subs)
        return False

    def _at(self, read: Read) -> Read:
        """The read of the equation that holds for the chosen elements alone."""
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
            there = [self.picks[s.tensor].there(s) for s in read.subs if isinstance(s, Read)]
            domain = both(*there, self._domain(substitute(equation.domain, by)))
            body = self._folds(substitute(equation.body, by))
            self.by[name] = Equation(name, tuple(map(Position, order)), domain, body, equation.source)
        return Read(self.made[key], tuple(map(Position, order)))


def _own(sub: Term) -> Iterable[Index]:
    """The indices of a subscript as they stand in it."""
    match sub:
        case Position(index):
            return (index,)
        case Read(_, subs):
            return [s.index for s in subs if isinstance(s, Position)]
    return sorted(free_indices(sub), key=lambda i: i.name)


def _last(item: Term) -> tuple[Term, ...]:
    return item.subs[-1:] if isinstance(item, Read) else ()


def _letters(terms: Iterable[Term]) -> frozenset[Index]:
    return frozenset().union(*map(free_indices, terms))


def _inside(fold: Fold) -> list[Index]:
    return [i for x in walk(fold) if isinstance(x, Fold) for i in x.bound]
