"""From where a value is read to where its cotangent goes: the adjoint of a read.

X is read at subscripts by an equation that runs over some letters; what this adds to the cotangent of X at its own
letters is a sum over all points that read it there. A letter that stands in a slot alone is that slot's letter, one
that stands there shifted is solved for; what else a slot holds stays as an equality in the domain of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einc.ir.domains import linear, proves
from einc.ir.indices import Extent, Index, IndexSet, distinct, number
from einc.ir.programs import Equation, Tensor
from einc.ir.terms import (
    TRUE,
    ZERO,
    Apply,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    substitute,
)


@dataclass(frozen=True, slots=True)
class Share:
    """What one read of a tensor adds to its cotangent: `term` at `subs`, for all points of
    `condition`; letters are free in all."""

    subs: tuple[Term, ...]
    term: Term
    condition: Term
    letters: tuple[Index, ...]
    seldom: bool = False  # the value that it is a share of has points that no output may depend on


def letters_of(tensor: Tensor) -> tuple[Index, ...]:
    """A letter for each slot, each another one."""
    out: list[Index] = []
    for slot in tensor.slots:
        name = slot.name
        while any(i.name == name for i in out):
            name += "'"
        out.append(Index(name, slot.set))
    return tuple(out)


def routed(share: Share, letters: tuple[Index, ...], given: Term) -> tuple[Term, Term]:
    """The share at the letters of the slots, where `given` holds.."""
    share = _apart_from(share, letters)
    by: dict[Index, Term] = {}
    equal: list[Term] = []
    for sub, letter in zip(share.subs, letters, strict=True):
        match sub:
            case Position(index) if index not in by and index.set == letter.set:
                by[index] = Position(letter)
            case _ if not isinstance(sub, Position):
                pass
            case _:
                equal.append(Apply("eq", (sub, Position(letter))))
    for sub, letter in zip(share.subs, letters, strict=True):
        if not isinstance(sub, Position):
            solved = _solved(substitute(sub, by), letter, set(share.letters) - by.keys())
            if solved is None:
                equal.append(Apply("eq", (sub, Position(letter))))
            else:
                index, value, inside = solved
                by[index] = value
                equal.append(inside)
    condition = both(*(substitute(c, by) for c in (*equal, *conjuncts(share.condition))))
    term, left = substitute(share.term, by), tuple(i for i in share.letters if i not in by)
    condition = both(*(c for c in conjuncts(condition) if not proves(given, c)))
    inner = both(*(c for c in conjuncts(condition) if free_indices(c) & set(left)))
    outer = both(*(c for c in conjuncts(condition) if not free_indices(c) & set(left)))
    if left:
        term = Fold("sum", left, inner, term)
    return term, outer


def where(condition: Term, term: Term) -> Term:
    """The term under a condition, if there is one."""
    return term if condition == TRUE else Where(condition, term)


def _apart_from(share: Share, letters: tuple[Index, ...]) -> Share:
    """The share with letters of its own that no slot has."""
    own = distinct(share.letters, {i.name for i in letters})
    by: dict[Index, Term] = dict(zip(share.letters, map(Position, own), strict=True))
    subs = tuple(substitute(s, by) for s in share.subs)
    return Share(subs, substitute(share.term, by), substitute(share.condition, by), own, share.seldom)


def _solved(sub: Term, letter: Index, open_: set[Index]) -> tuple[Index, Term, Term] | None:
    """The one open letter i of ±i + c = letter, its value, and that the value is in its set."""
    form, free = linear(sub), free_indices(sub) & open_
    if form is None or len(free) != 1:
        return None
    (index,) = free
    factor = form.coefficient(Position(index)).constant
    rest = form.without(Position(index))
    if factor not in (1, -1) or any(index in free_indices(atom) for atom, _ in rest.atoms):
        return None
    there = substitute(sub, {index: const(0)})
    value: Term = Apply("sub", (Position(letter), there)) if factor == 1 else Apply("sub", (there, Position(letter)))
    if factor == 1 and not rest.atoms and (before := rest.constant.constant) is not None and before < 0:
        value = Apply("add", (Position(letter), const(-before)))
    low, high = const(index.set.start), Size(index.set.extent + number(index.set.start - 1))
    return index, value, both(Apply("le", (low, value)), Apply("le", (value, high)))


# slots that are read by their parts


def packed(share: Share) -> bool:
    """Whether some slot is read as a pair, or as a part of a direct sum."""
    return any(isinstance(sub, Pack | Part) for sub in share.subs)


def apart(share: Share, tensor: Tensor, key: str, by: Mapping[IndexSet, str]) -> Equation:
    """The share as an equation of its own, whose axes are pairs where pairs are read;
    `by` has a letter for each set."""
    letters = letters_of(tensor)
    axes: list[Term] = []
    subs: list[Term] = []
    flat: list[Index] = []
    for sub, letter in zip(share.subs, letters, strict=True):
        match sub:
            case Pack(parts, sets, into):
                own = _own(parts, sets, {*letters, *flat}, by)
                flat += own
                axes.append(Pack(tuple(map(Position, own)), sets, into))
                subs += parts
            case _:
                axes.append(Position(letter))
                flat.append(letter)
                subs.append(sub)
    term, inside = routed(Share(tuple(subs), share.term, share.condition, share.letters), tuple(flat), TRUE)
    return Equation(key, tuple(axes), TRUE, where(inside, term))


def _own(parts: tuple[Term, ...], sets: tuple[IndexSet, ...], taken: set[Index],
         by: Mapping[IndexSet, str]) -> tuple[Index, ...]:
    """Letters for the parts of a pair: those that it is read with, where no slot has them."""
    wanted = (Index(part.index.name if isinstance(part, Position) else by[set_], set_)
              for part, set_ in zip(parts, sets, strict=True))
    return distinct(wanted, {i.name for i in taken})


def united(equations: Iterable[Equation]) -> list[Equation]:
    """Shares that are equations of their own, those of the same pairs as one."""
    out: list[Equation] = []
    for equation in equations:
        for n, other in enumerate(out):
            by = _letters_in(equation, other)
            if by is not None:
                out[n] = replace(other, body=Apply("add", (other.body, substitute(equation.body, by))))
                break
        else:
            out.append(equation)
    return out


def _letters_in(equation: Equation, other: Equation) -> dict[Index, Term] | None:
    """Another's letters in place of an equation's own, where they run over the same in the same slots."""
    mine, theirs = equation.indices, other.indices
    if [i.set for i in mine] != [i.set for i in theirs]:
        return None
    by: dict[Index, Term] = dict(zip(mine, map(Position, theirs), strict=True))
    return by if tuple(substitute(a, by) for a in equation.axes) == other.axes else None


def part_read(share: Share) -> int | None:
    """The slot that is read as a part of a direct sum, if one is."""
    return next((n for n, sub in enumerate(share.subs) if isinstance(sub, Part)), None)


def joined(shares: Sequence[Share], at: int, tensor: Tensor, key: str,
           sums: Mapping[IndexSet, tuple[Index, ...]]) -> Equation:
    """The shares of the parts of a direct sum, which one slot is, as a direct sum; a part
    that nothing reads has none."""
    letters, found = letters_of(tensor), dict[tuple[IndexSet, Extent], list[Term]]()
    for share in shares:
        sub = share.subs[at]
        assert isinstance(sub, Part)
        own = tuple(Index(i.name, sub.of) if n == at else i for n, i in enumerate(letters))
        term, inside = routed(replace(share, subs=(*share.subs[:at], sub.item, *share.subs[at + 1:])), own, TRUE)
        found.setdefault((sub.of, sub.before), []).append(where(inside, term))
    before, parts = number(0), list[tuple[Index, Term]]()
    for index in sums[letters[at].set]:
        terms = [substitute(t, {Index(letters[at].name, index.set): Position(index)})
                 for t in found.get((index.set, before), [])]
        parts.append((index, Apply("add", tuple(terms)) if len(terms) > 1 else terms[0] if terms else ZERO))
        before = before + index.set.extent
    return Equation(key, tuple(map(Position, letters)), TRUE, Join(letters[at], tuple(parts)))


def read_of(equation: Equation, letters: tuple[Index, ...]) -> Read:
    """The equation read at the letters of slots."""
    return Read(equation.target, tuple(map(Position, letters)))
