"""Products of few bits: each factor is divided by the largest of those of its numbers that share a scale, rounded, and
multiplied by the scale again.

This changes values: it is what a `products` line of a plan asks for, and the equations are those that a text would say
itself. A sum stays a sum of exact products: no scale depends on a letter that is summed beside the rounded numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from string import ascii_lowercase

from einc.ir.draft import Draft, unused
from einc.ir.elements import DECLARED, REAL, WIDE
from einc.ir.indices import Index, IndexSet, distinct, number
from einc.ir.narrow import Narrow
from einc.ir.programs import IndexLoop, TypedProgram
from einc.ir.sums import fraction, inverse
from einc.ir.sums import joined as times
from einc.ir.terms import (
    ONE,
    ZERO,
    Apply,
    Fold,
    Pack,
    Position,
    Read,
    Term,
    Where,
    both,
    canonical,
    changed_under,
    conjuncts,
    const,
    free_indices,
    substitute,
    walk,
)


class UnroundableError(Exception):
    """Why a program cannot be rounded as a plan says; the message is one statement."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """How the factors of products are rounded: to which type, and, by a word of `SHARES`, which numbers have one scale:
    all of a tensor, those that one product sums (a row), or each `count` of these in turn (a block).
    """

    type: Narrow
    share: str
    count: int = 0


def rounded(program: TypedProgram, keys: frozenset[str], rounding: Rounding) -> TypedProgram:
    """The program with both factors rounded in each product of these tensors that is summed. Raises UnroundableError
    where one of them has none, or where blocks do not fit.
    """
    work = _Products(program, keys, rounding)
    again = {x: x for x in program.loops}
    for equation in program.equations:
        before, loops = len(work.draft.equations), program.around(equation.target)
        changed = replace(equation, body=work.changed(equation.body, equation.domain, _At(equation.target, loops)))
        for loop, grown in again.items():
            if isinstance(grown, IndexLoop):
                again[loop] = grown.beside(equation.target, (e.target for e in work.draft.equations[before:]))
        work.draft.add(changed)
    for key in sorted(keys - work.found):
        raise UnroundableError(f"`{key}` stands in no product that is summed over one of its letters")
    found = work.draft.done(program)
    return replace(found, loops=tuple(again.get(x, x) for x in found.loops), splits={**found.splits, **work.splits})


def fresh_letter(program: TypedProgram, of: IndexSet, others: Iterable[Index] = ()) -> Index:
    """A letter over a set that nothing else in a program has, nor one of the `others`."""
    used = {x.index.name for x in program.terms if isinstance(x, Position)} | program.tensors.keys()
    used |= {i.name for i in others}
    return Index(next((x for x in ascii_lowercase if x not in used), unused(ascii_lowercase[0], used)), of)


def blocks_of(of: IndexSet, count: int, program: TypedProgram) -> tuple[IndexSet, IndexSet]:
    """The sets of blocks of `count` elements and of places in one. Raises UnroundableError where a set has none."""
    found = of.extent.over(number(count))
    if found is None or of.start != 1 or of in program.sums:
        raise UnroundableError(f"{of} cannot be cut into blocks")
    if found.constant is not None and found.constant.denominator != 1:
        raise UnroundableError(f"{of.extent} is no multiple of {count}")
    parts = replace(of, extent=found), replace(of, extent=number(count))
    if program.splits.get(of, parts) != parts:
        raise UnroundableError(f"{of} is made of other parts already")
    return parts


def scaled(draft: Draft, stem: str, term: Term, letters: tuple[Index, ...], kept: tuple[Index, ...],
           known: tuple[Term, ...], row: Narrow) -> tuple[Read, Read]:
    """A scale for each value of the letters that are `kept`, and a term divided by it and rounded; their equations,
    where the conditions hold that are `known` of the term's letters, are added to the draft.
    """
    gone = tuple(i for i in letters if i not in kept)
    beside = both(*(c for c in known if free_indices(c) <= {*kept}))
    size: Term = Apply("abs", (term,))
    most = Apply("max", (Fold("max", gone, both(*known), size), ZERO)) if gone else size  # 0 where there is no number
    largest = draft.value(f"{stem}_largest", kept, most, beside, WIDE)
    zeros = Where(Apply("eq", (largest, ZERO)), ONE)  # numbers that are all 0 have the scale 1
    part = Apply("div", (largest, const(min(row.high, -row.low))))
    scale = draft.value(f"{stem}_scale", kept, Apply("add", (part, zeros)), beside, WIDE)
    few = draft.value(f"{stem}_{row.name}", letters, Apply(row.name, (Apply("div", (term, scale)),)), both(*known),
                      DECLARED[row.name] if row.storage else REAL)
    return scale, few


@dataclass(frozen=True, slots=True)
class _Product:
    """A product that is summed: the letters of the sum, the points of it, factors without these letters that stand
    outside of the sum or stay inside, the named factor and what it is multiplied by."""

    bound: tuple[Index, ...]
    domain: Term
    outside: tuple[Term, ...]
    inside: tuple[Term, ...]
    sides: tuple[Read, Term]


@dataclass(frozen=True, slots=True)
class _At:
    """Where a product stands: in the equation of a tensor, in each round of loops where there are such, whose letters
    then stand free."""

    target: str
    loops: tuple[IndexLoop, ...]

    @property
    def fixed(self) -> tuple[Index, ...]:
        """The letters that stand free and are no axes."""
        return tuple(loop.index for loop in self.loops)


@dataclass
class _Products:
    """The work on one program. `made`: the scale and the rounded numbers of what was rounded already, by the loops in
    which it was."""

    program: TypedProgram
    keys: frozenset[str]
    rounding: Rounding
    found: set[str] = field(default_factory=set)
    made: dict[tuple[tuple[IndexLoop, ...], Term, Term, tuple[int, ...]], tuple[str, str]] = field(default_factory=dict)
    splits: dict[IndexSet, tuple[IndexSet, IndexSet]] = field(default_factory=dict)
    letters: dict[IndexSet, Index] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draft = Draft(self.program.tensors)

    def changed(self, term: Term, given: Term, at: _At) -> Term:
        """A term with its products rounded, where `given` holds; what they need is added to the draft."""
        product = _product(term, self.keys)
        if product is None:
            return changed_under(term, given, lambda x, under: self.changed(x, under, at))
        self.found |= {x.tensor for x in product.sides if isinstance(x, Read) and x.tensor in self.keys}
        bound, domain = product.bound, product.domain
        within = both(given, domain)
        sides: tuple[Term, ...] = tuple(self.changed(x, within, at) for x in product.sides)
        inner = bound
        if self.rounding.share == "block":
            cut = self._blocks(product, within)
            bound, inner = (*bound[:-1], cut.letters[0]), cut.letters[1:]
            domain, within = substitute(domain, cut.by), substitute(within, cut.by)
            sides = tuple(substitute(x, cut.by) for x in sides)
        scales, factors = zip(*(self._rounded(x, inner, within, at) for x in sides), strict=True)
        outside = tuple(self.changed(x, given, at) for x in product.outside)
        if inner == bound:
            return times((*outside, *scales, Fold("sum", bound, domain, times((*product.inside, *factors)))))
        here = [c for c in conjuncts(domain) if free_indices(c) & {*inner}]
        total = Fold("sum", inner, both(*here), times((*product.inside, *factors)))
        over = both(*(c for c in conjuncts(domain) if c not in here))
        return times((*outside, Fold("sum", bound, over, times((*scales, total)))))

    def _blocks(self, product: _Product, within: Term) -> _Cut:
        """The last letter of the sum as a block and a place in it. The set of the letter is split so from now on."""
        letter = product.bound[-1]
        blocks, places = self.splits[letter.set] = blocks_of(letter.set, self.rounding.count, self.program)
        terms = (within, *product.sides, *product.outside)
        taken = {i.name for t in terms for i in free_indices(t)} | {i.name for i in product.bound}
        for of in (blocks, places):
            self.letters.setdefault(of, fresh_letter(self.program, of, self.letters.values()))
        block, place = distinct((self.letters[blocks], self.letters[places]), taken)
        return _Cut((block, place), {letter: Pack((Position(block), Position(place)), (blocks, places), letter.set)})

    def _rounded(self, term: Term, summed: tuple[Index, ...], within: Term, at: _At) -> tuple[Read, Read]:
        """A factor's scale and its rounded numbers, whose product is about the factor. Changes `self.made`."""
        letters = tuple(i for i in _in_order(term) if i not in at.fixed)
        kept = () if self.rounding.share == "tensor" else tuple(i for i in letters if i not in summed)
        known = tuple(c for c in conjuncts(within) if free_indices(c) <= {*letters, *at.fixed})
        label = (at.loops, canonical(term, letters), canonical(both(*known), letters), tuple(map(letters.index, kept)))
        if label not in self.made:
            stem = term.tensor if isinstance(term, Read) else f"{at.target}_factor"
            if not isinstance(term, Read):
                term = self.draft.value(stem, letters, term, both(*known))
            pair = scaled(self.draft, stem, term, letters, kept, known, self.rounding.type)
            self.made[label] = pair[0].tensor, pair[1].tensor
        scale, few = self.made[label]
        return Read(scale, tuple(map(Position, kept))), Read(few, tuple(map(Position, letters)))


@dataclass(frozen=True, slots=True)
class _Cut:
    """The letters of a block and of a place in it, and what stands for the letter that is cut."""

    letters: tuple[Index, Index]
    by: dict[Index, Term]


def _product(term: Term, keys: frozenset[str]) -> _Product | None:
    """The term as a sum of products in which one of the tensors is a factor and has a letter of the sum; None else."""
    bound, domain, body = tuple[Index, ...](), both(), term
    while isinstance(body, Fold) and body.op == "sum":
        bound, domain, body = (*bound, *body.bound), both(domain, body.domain), body.body
    if not bound:
        return None
    found, conditions = _parts(body)
    shared = [x for x in found if free_indices(x) & {*bound}]
    mine = [x for x in shared if isinstance(x, Read) and x.tensor in keys]
    if not mine or len(shared) < 2:
        return None
    rest = [x for x in shared if x is not mine[0]]
    beside = tuple(x for x in found if not free_indices(x) & {*bound})
    # Over nothing, what stands beside the sum may be no number: it stays inside, where it is not read.
    outside, inside = ((), beside) if conditions else (beside, ())
    return _Product(bound, both(domain, *conditions), outside, inside, (mine[0], times(rest)))


def _parts(term: Term) -> tuple[list[Term], list[Term]]:
    """What a term is a product of, and the conditions under which it is not 0."""
    above, below = fraction(term)
    factors, conditions = list[Term](), list[Term]()
    for x in above:
        inner, beside = ([x], []) if not isinstance(x, Where) else _parts(x.then)
        factors += inner
        conditions += [*beside, x.condition] if isinstance(x, Where) else []
    return [*factors, *map(inverse, below)], conditions


def _in_order(term: Term) -> tuple[Index, ...]:
    """The free letters of a term in the order in which they stand."""
    free = free_indices(term)
    return tuple(dict.fromkeys(x.index for x in walk(term) if isinstance(x, Position) and x.index in free))
