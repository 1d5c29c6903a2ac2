"""Sums over features of values that each pair of positions makes -> products of matrices.

Σ_k q_tk (u_sk + v_tk) makes a value for each t, s and k; Σ_k q_tk u_sk + Σ_k q_tk v_tk are products of matrices, and
the second has no s. Σ_k q_tk a_{f(t, s) k} is b_{t, f(t, s)} of b_tr = Σ_k q_tk a_rk, which has fewer values where a
has fewer rows than there are positions s.

A sum is pulled apart where what follows has no value with all letters any more, and where no digits are lost by it:
what is subtracted may be nearly as large, and either part alone would lose the digits of the difference. So the parts
of a sum are added, and are made of different tensors; and where several sums are multiplied, as in a power, whose
cancellation would show in every addend, all their parts are known not to be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from typing import TypeVar

from einc.ir.domains import Linear, facts, proves
from einc.ir.draft import unused
from einc.ir.extents import direction
from einc.ir.indices import DATA, Index, distinct, number
from einc.ir.letters import TIMES
from einc.ir.primitives import UNKNOWN
from einc.ir.programs import Equation, NormalProgram, Program, Tensor, local
from einc.ir.signs import sign
from einc.ir.sums import added, addends, factors, signed
from einc.ir.sums import product as multiplied
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    bound_indices,
    changed_under,
    const,
    free_indices,
    reads,
    rebuild,
    substitute,
    walk,
)
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.intervals import finite
from einc.transforms.normal.operands import is_position

P = TypeVar("P", bound=Program)
_OPENED = ("add", "sub", "neg", "mul", "pow")
_MOST = 4  # products of matrices that cost no more than one pass over all values with features


def with_products(program: P) -> P:
    """The program with sums over features of sums and of gathered rows as products of matrices made before, wherever
    no digits are lost by it; the program itself where there is no such sum."""
    if not any(_may_apply(t) for t in program.terms):
        return program
    work = _Work(program, dict(program.tensors))
    equations = list[Equation]()
    for equation in program.equations:
        changed = replace(equation, body=work.changed(equation.body, equation.domain))
        equations += [*work.taken(), changed if changed.body is not equation.body else equation]
    return program.but(equations=equations, tensors=work.tensors)


def left_whole(program: NormalProgram, equations: Iterable[Equation]) -> Iterator[str]:
    """A note on each of a program's equations that is such a sum, and no products of matrices only because that would
    lose digits.
    """
    work = _Work(program, dict(program.tensors))
    for equation in equations:
        if isinstance(fold := equation.body, Fold) and _may_apply(fold):
            ways = (work.apart(fold, equation.domain, losing) for losing in (False, True))
            if [way is None for way in ways] == [True, False]:
                yield f"not done: `{equation.target}` as products of matrices: their parts may cancel"


def _may_apply(term: Term) -> bool:
    """Whether a term is a sum over features alone of something that two indices of the data have."""
    return (isinstance(term, Fold) and term.op == "sum" and bool(term.bound)
            and not any(i.set.cls in DATA for i in term.bound)
            and sum(i.set.cls in DATA for i in free_indices(term.body)) > 1)


@dataclass
class _Work:
    """The sums of one program. `tensors` grows by what is made for them, whose equations `taken` hands out."""

    program: Program
    tensors: dict[str, Tensor]

    def __post_init__(self) -> None:
        self.known: Mapping[str, Equation] = self.program.by_target
        self.made: list[Equation] = []

    def taken(self) -> list[Equation]:
        """The equations that were made since the last call. They are forgotten."""
        found, self.made = self.made, []
        return found

    def changed(self, term: Term, given: Term) -> Term:
        """The term, which is read where `given` holds, with its sums as products of matrices."""
        if _may_apply(term):
            simple = simplify(term)
            if isinstance(simple, Fold):
                made = added([self._gathered(part, given) for part in self.apart(simple, given) or (simple,)])
            else:  # a factor has left the sum
                made = self.changed(simple, given)
            if made != simple:
                return made
        return changed_under(term, given, self.changed)

    def apart(self, fold: Fold, given: Term, losing: bool = False) -> list[Term] | None:
        """A sum as several, each a number times a sum of a product in which no factor has all letters, or the only one
        that does is read at a computed place. None where no factor has all letters, where that cannot be, or, unless it
        may be `losing` digits, where parts may cancel.
        """
        letters = free_indices(fold.body)
        body = self._opened(fold.body, letters, given)
        if not any(letters <= free_indices(f) for f in _powers(body)):
            return None
        found = _Expanded(self.known, letters, losing).of(body)
        if found is None or len(found) > _MOST:
            return None
        out = list[Term]()
        for atoms, count in found.items():
            wide = [a for a in atoms if letters <= free_indices(a)]
            if len(wide) > 1 or any(self._place(fold, a, atoms, given) is None for a in wide):
                return None
            if len(found) > 1 and not all(finite(a, self.known) for a in atoms):
                return None
            sum_ = Fold("sum", fold.bound, fold.domain, multiplied(atoms))
            out.append(sum_ if count == 1 else Apply("mul", (const(count), sum_)))
        return out

    def _opened(self, term: Term, letters: frozenset[Index], given: Term) -> Term:
        """The term with the sums, differences, products and powers with all letters that it reads in the place of their
        names, where they are there wherever `given` holds.
        """
        match term:
            case Read(tensor, subs) if tensor in self.known and letters <= free_indices(term):
                made = self.known[tensor]
                if (isinstance(made.body, Apply) and made.body.op in _OPENED and made.has_letters
                        and proves(given, substitute(made.domain, dict(zip(made.indices, subs, strict=True))))):
                    return self._opened(made.at(subs), letters, given)
            case Apply(op, args) if op in _OPENED:
                return rebuild(term, tuple(self._opened(kid, letters, given) for kid in args))
        return term

    def _place(self, fold: Fold, wide: Term, atoms: Sequence[Term], given: Term) -> int | None:
        """The slot at which a factor is read at a computed place, where a product may come before it: the place has an
        index of the data that no other factor has and that goes on with the data where `given` holds, the slot is as
        long as the model, and nothing is cut.
        """
        match wide:
            case Read(tensor, subs) if fold.domain == TRUE and self._whole(tensor):
                pass
            case _:
                return None
        at = [n for n, sub in enumerate(subs) if not is_position(sub)]
        rest = [a for a in atoms if a is not wide]
        if len(at) != 1 or not rest or not isinstance(subs[at[0]], Apply) or any(True for _ in reads(subs[at[0]])):
            return None
        own = (sub for sub in subs if sub is not subs[at[0]])
        others = frozenset[Index]().union(*(free_indices(x) for x in (*rest, *own)))
        here, slot = free_indices(subs[at[0]]), self.tensors[tensor].slots[at[0]]
        plain = all(is_position(sub) for x in rest for r in reads(x) for sub in r.subs)
        whole = all(self._whole(r.tensor) for x in rest for r in reads(x))
        gone = any(i.set.cls in DATA and not _short(i, given) for i in here - others)
        if not plain or not whole or not gone or here & {*fold.bound} or slot.set.cls in DATA or slot.set.packed:
            return None
        return at[0]

    def _whole(self, key: str) -> bool:
        """Whether a tensor has a value at every place, and no requests side by side."""
        made = self.known.get(key)
        return (made is None or made.domain == TRUE) and not any(s.set.packed for s in self.tensors[key].slots)

    def _gathered(self, term: Term, given: Term) -> Term:
        """A part of what `apart` gives, as what is read of a product that was formed before, where that may be. Adds
        the equation that forms the product."""
        match term:
            case Apply("mul", (Const() as count, Fold() as fold)):
                return Apply("mul", (count, self._gathered(fold, given)))
            case Fold(_, bound, _, body):
                atoms = factors(body)
            case _:
                return term
        wide, at = next(((a, at) for a in atoms if (at := self._place(term, a, atoms, given)) is not None), (None, 0))
        if not isinstance(wide, Read):
            return term
        slot = self.tensors[wide.tensor].slots[at]
        taken = {i.name for t in walk(term) for i in (*free_indices(t), *bound_indices(t))}
        (row,) = distinct((Index(slot.name, slot.set),), taken)
        read = replace(wide, subs=(*wide.subs[:at], Position(row), *wide.subs[at + 1 :]))
        formed = Fold("sum", bound, TRUE, multiplied([read if a is wide else a for a in atoms]))
        axes = tuple(sorted(free_indices(formed) - {row}, key=lambda i: (i.set.cls in DATA, i.name)))
        name = unused(TIMES.join([wide.tensor, *(r.tensor for a in atoms if a is not wide for r in reads(a))]),
                      self.tensors)
        self.tensors[name] = local(name, (*axes, row))
        self.made.append(Equation(name, (*map(Position, axes), Position(row)), TRUE, formed))
        return Read(name, (*map(Position, axes), wide.subs[at]))


def _short(index: Index, given: Term) -> bool:
    """Whether a condition leaves a known number of values of an index, such as the one block that a position is in."""
    here, forms = Position(index), facts(given)
    lower, upper = ([x for x in forms if direction(x.coefficient(here)) == way] for way in (1, -1))
    for low, high in product(lower, upper):
        up, down = low.coefficient(here), high.coefficient(here) * number(-1)
        width = Linear((), number(0)).plus(low, down).plus(high, up).without(here)
        length = None if width.atoms else width.constant.over(up * down)
        if length is not None and not any(mono for mono, count in length.terms if count > 0):
            return True
    return False


def _powers(term: Term) -> Iterator[Term]:
    """The factors of a product, those of a factor that is a negation or a whole power among them."""
    for factor in factors(term):
        match factor:
            case Apply("neg", (inner,)) | Apply("pow", (inner, Const())):
                yield from _powers(inner)
            case _:
                yield factor


Products = dict[tuple[Term, ...], int]  # the factors of each, and how often it is there


@dataclass
class _Expanded:
    """Products as sums of products: sums with all `letters` are pulled apart, into as few groups as have not all.

    None stands for what cannot be: digits would be lost, unless it may be `losing` them, or there are too many. `known`
    are the equations of tensors, `order` has the factors in the order in which they were met.
    """

    known: Mapping[str, Equation]
    letters: frozenset[Index]
    losing: bool
    order: dict[Term, int] = field(default_factory=dict)

    def of(self, term: Term) -> Products | None:
        """A term as a sum of products; None where it cannot be written so."""
        if not self.letters <= free_indices(term):
            return self._alone(term)
        match term:
            case Apply("pow", (inner, Const(Fraction(denominator=1) as power))) if 1 < power <= _MOST:
                return self._product([inner] * int(power))
            case Apply("mul", args):
                return self._product(args)
            case Apply("neg", (inner,)):
                found = self.of(inner)
                return None if found is None else {atoms: -count for atoms, count in found.items()}
            case Apply("add" | "sub"):
                return self._sum(term)
        return self._alone(term)

    def _alone(self, term: Term) -> Products:
        """The term as the one factor of a product."""
        self.order.setdefault(term, len(self.order))
        return {(term,): 1}

    def _sum(self, term: Term) -> Products | None:
        """The products of all groups of a sum, or None where these may cancel."""
        groups = _groups(term, self.letters)
        if not self.losing and self._may_cancel(groups):
            return None
        out: Products = {}
        for way, group in groups:
            found = self.of(group) if len(groups) > 1 else self._alone(group)
            if found is None:
                return None
            for atoms, count in found.items():
                out[atoms] = out.get(atoms, 0) + way * count
        return out

    def _may_cancel(self, groups: Sequence[tuple[int, Term]]) -> bool:
        """Whether groups are subtracted, or speak of one tensor, so that one may be what another takes away."""
        if self._nonnegative(groups):
            return False
        made = [frozenset(self._tensors(group)) for _, group in groups]
        shared = any(one & other for one, other in combinations(made, 2))
        return shared or len({way for way, _ in groups}) > 1

    def _nonnegative(self, groups: Sequence[tuple[int, Term]]) -> bool:
        """Whether all groups are added, and none has a negative value anywhere."""
        return all(count > 0 and sign(group, self.known) != UNKNOWN for count, group in groups)

    def _tensors(self, term: Term) -> Iterator[str]:
        """What a term is made of point by point: what it reads, and what that reads, up to sums and inputs."""
        for read in reads(term):
            made = self.known.get(read.tensor)
            if made is None or any(isinstance(x, Fold) for x in walk(made.body)):
                yield read.tensor
            else:
                yield from self._tensors(made.body)

    def _product(self, parts: Sequence[Term]) -> Products | None:
        """What some factors give, each a sum of products; None where two of them have several groups that may cancel,
        or there would be too many products.
        """
        wide = [_groups(part, self.letters) for part in parts if self.letters <= free_indices(part)]
        several = [groups for groups in wide if len(groups) > 1]
        if len(several) > 1 and not self.losing and not all(map(self._nonnegative, several)):
            return None
        out: Products = {(): 1}
        for part in parts:
            found = self.of(part)
            if found is None or len(found) * len(out) > 4 * _MOST:
                return None
            made: Products = {}
            for some, count in out.items():
                for more, times in found.items():
                    atoms = tuple(sorted((*some, *more), key=self.order.__getitem__))
                    made[atoms] = made.get(atoms, 0) + count * times
            out = made
        return out


def _groups(term: Term, letters: frozenset[Index]) -> list[tuple[int, Term]]:
    """The addends in groups that have not all letters, each with its sign; what has all letters stands alone."""
    groups: list[list[tuple[int, Term]]] = []
    for way, part in addends(term):
        mine = free_indices(part)
        home = next((g for g in groups if not letters <= mine.union(*(free_indices(x) for _, x in g))), None)
        if home is None:
            groups.append([(way, part)])
        else:
            home.append((way, part))
    return [(-1, signed([(1, x) for _, x in g])) if all(s < 0 for s, _ in g) else (1, signed(g)) for g in groups]
