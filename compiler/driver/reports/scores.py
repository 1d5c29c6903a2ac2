"""A pass of a plan as a call of a library that leaves open what stands between its two products.

A pass carries a greatest value and sums of exponentials beside it. Where one of the sums is of the exponentials alone,
and another of these times a value of the other side, and the exponent is made of one product of the two sides, then the
pass is: a product, a function of its value and of the positions, weights that add up to 1, a second product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from einc.driver.reports.einsums import UnsaidError, factors
from einc.ir.indices import Index
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import product
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Where,
    children,
    conjuncts,
    free_indices,
    reads,
    rebuild,
    transform,
    walk,
)
from einc.meaning.polynomial_form import form
from einc.planning.contractions.materialise import peeled
from einc.planning.fusing.fuse import FusedGroup, groups
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.stream import stream
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import is_number, simplify

SCORE = Read(" score", ())  # the value of the first product, in `Scored.score`
# What a call gives: the second product, and the logarithm of what it is divided by.
MEAN, LOGARITHM = " mean", " logarithm"
NOWHERE = Const(float("-inf"))


@dataclass(frozen=True)
class Places:
    """The indices of a score: those of all sides, the row, and the column, over which weights are summed."""

    outer: tuple[Index, ...]
    row: Index
    column: Index

    @property
    def rows(self) -> tuple[Index, ...]:
        """The indices that a value of a row has: the outer ones and the row."""
        return (*self.outer, self.row)

    @property
    def columns(self) -> tuple[Index, ...]:
        """The indices that a value of a column has: the outer ones and the column."""
        return (*self.outer, self.column)


@dataclass(frozen=True)
class Sides:
    """What is multiplied: `left` over rows and `inner`, `right` over columns and `inner`, `value` over columns and
    `width`.
    """

    left: Term
    right: Term
    value: Term
    inner: tuple[Index, ...]
    width: tuple[Index, ...]


@dataclass(frozen=True)
class Scored:
    """One pass: `score` is the exponent, made of `scale` times the product; `mask` says which columns a row has."""

    results: tuple[Equation, ...]
    places: Places
    sides: Sides
    scale: Term
    score: Term
    mask: Term
    names: tuple[str, str] = (MEAN, LOGARITHM)  # of what the call gives

    @property
    def greatest(self) -> bool:
        """Whether the results read the logarithm of the sum of all exponentials."""
        return any(read.tensor == self.names[1] for e in self.results for read in reads(e.body))




@dataclass(frozen=True)
class Steps:
    """A program as equations that stand by themselves and passes, in an order in which each finds what it reads."""

    program: NormalProgram
    steps: tuple[Equation | Scored, ...]


def steps(program: NormalProgram) -> Steps:
    """The program in its steps. UnsaidError where one of its passes is no such call, or where it has none."""
    program = peeled(program)
    if program.loops or program.own:
        raise UnsaidError("it has rounds" if program.loops else "its requests have different lengths")
    out: list[Equation | Scored] = []
    for group in groups(program):
        passed = _passed(program, group)
        out += group.equations if passed is None else [_Pass(group, passed).scored()]
    if not any(isinstance(step, Scored) for step in out):
        raise UnsaidError("no pass of its plan carries sums from tile to tile")
    return Steps(program, tuple(out))


def _passed(program: NormalProgram, group: FusedGroup) -> Streamed | None:
    """The pass that a group is; None where it carries nothing."""
    if not group.virtual or group.along is not None:
        return None
    mine = {e.target for e in group.equations}
    kept = {key for e in program.equations if e.target not in mine for key in e.reads}
    kept |= {key for _, key in program.outputs}
    passed = stream(group.equations, group.virtual, frozenset(kept) - group.virtual, frozenset(program.tensors))
    if passed.index is None or not passed.carries:
        return None
    return passed


class _Pass:
    """One pass, taken apart."""

    def __init__(self, group: FusedGroup, passed: Streamed) -> None:
        """`group` is what the pass is made of."""
        assert passed.index is not None
        self.column, self.passed = passed.index, passed
        self.by: Mapping[str, Equation] = {e.target: e for e in passed.equations}
        self.carried = {c.target: c for c in passed.carries}
        self.inside = group.virtual

    def scored(self) -> Scored:
        """The pass as a call. UnsaidError where it is none."""
        greatest, total, mean = self._sums()
        exponent = self._inlined(self._exponent(total, greatest))
        row = self._row(total)
        fold, scale, score = _product(exponent, row, self.column)
        places = Places(tuple(i for i in total.indices if i != row), row, self.column)
        left, right, inner = _sides(fold, row, self.column)
        value = self._value(mean, total, row)
        width = tuple(i for i in mean.indices if i not in total.indices)
        results = tuple(e for e in self.passed.equations if e.target not in self.carried and self._is_result(e))
        made = (Read(LOGARITHM, tuple(map(Position, places.rows))), ONE,
                Read(MEAN, tuple(map(Position, (*places.rows, *width)))))
        results = tuple(_finished(e, (greatest.target, total.target, mean.target), made) for e in results)
        return Scored(results, places, Sides(left, right, value, inner, width), scale, score,
                      self._mask(greatest, total, mean))

    def _is_result(self, equation: Equation) -> bool:
        return equation.target not in self.inside and self.column not in equation.indices

    def _sums(self) -> tuple[Equation, Equation, Equation]:
        """What a pass carries: the greatest exponent, the sum of the exponentials, and their sum with a value. Raises
        UnsaidError."""
        firsts = [c for c in self.carried.values() if c.fold == "max" and c.reference is None]
        if len(firsts) != 1:
            raise UnsaidError(f"its pass carries {', '.join(self.carried)}, and no sums beside a greatest value")
        (first,) = firsts
        sums = [self.by[c.target] for c in self.carried.values() if c is not first]
        if not all(c is first or (c.fold == "sum" and c.reference == first.target) for c in self.carried.values()):
            raise UnsaidError(f"its pass carries {', '.join(self.carried)}, which are not all sums of exponentials")
        alone = [e for e in sums if isinstance(e.body, Fold) and isinstance(e.body.body, Apply)
                 and e.body.body.op == "exp"]
        if len(alone) != 1 or len(sums) != 2:
            many = "one sum" if len(sums) == 1 else f"{len(sums)} sums"
            raise UnsaidError(f"its pass carries {many}; a call has that of the weights and that of the values")
        return self.by[first.target], alone[0], next(e for e in sums if e is not alone[0])

    def _exponent(self, total: Equation, greatest: Equation) -> Term:
        """The exponent of the sum, which is also what the greatest is of. Raises UnsaidError where it is of something
        else."""
        match total.body, greatest.body:
            case Fold("sum", (column,), _, Apply("exp", (Apply("sub", (found, Read(key))),))), Fold(
                "max", (other,), _, of) if key == greatest.target and column == other == self.column and of == found:
                return found
        raise UnsaidError("the greatest value that its pass carries is not that of its exponents")

    def _inlined(self, term: Term) -> Term:
        """A term with the values of the pass that are not stored put in where they are read."""
        def change(inner: Term) -> Term:
            if isinstance(inner, Read) and inner.tensor in self.inside and inner.tensor in self.by:
                return self._inlined(self.by[inner.tensor].at(inner.subs))
            return inner

        return transform(term, change)

    def _row(self, total: Equation) -> Index:
        """The index of the other side of the tile, which is of the same class. Raises UnsaidError where there is none,
        or several are."""
        open_ = [i for i in total.indices if i.set.cls == self.column.set.cls]
        if len(open_) != 1:
            raise UnsaidError(f"{len(open_)} indices of its weights run over positions beside the one that is summed")
        return open_[0]

    def _value(self, mean: Equation, total: Equation, row: Index) -> Term:
        """What the weights are summed with. Raises UnsaidError where that has the positions of both sides."""
        assert isinstance(mean.body, Fold) and isinstance(total.body, Fold)
        above, below = factors(mean.body.body)
        left = [x for x in above if x != total.body.body]
        found = self._inlined(product(tuple(left))) if len(left) == len(above) - 1 else None
        if found is None or row in free_indices(found) or below:
            raise UnsaidError("what its weights are summed with has the positions of both sides")
        return found

    def _mask(self, *folded: Equation) -> Term:
        """The domain of the sums, which is one. Raises UnsaidError where they have several."""
        domains = [e.body.domain for e in folded if isinstance(e.body, Fold)]
        if any({*conjuncts(one)} != {*conjuncts(domains[0])} for one in domains):
            raise UnsaidError("its sums have different domains")
        return self._inlined(domains[0])


def _finished(result: Equation, keys: tuple[str, str, str], made: tuple[Term, Term, Term]) -> Equation:
    """A result as made of what the call gives: its sums relative to the logarithm of their sum, which is then 1.

    That is the same where the result does not change with what the sums are relative to. Raises UnsaidError.
    """
    body = _ungated(result.body, keys[0])

    def put(terms: tuple[Term, Term, Term]) -> Term:
        known = dict(zip(keys, terms, strict=True))
        return transform(body, lambda term: known.get(term.tensor, term) if isinstance(term, Read) else term)

    at, shift, one, other = (Read(f" {n}", ()) for n in range(4))
    smaller = Apply("exp", (Apply("neg", (shift,)),))
    moved = put((Apply("add", (at, shift)), Apply("mul", (one, smaller)), Apply("mul", (other, smaller))))
    if form(moved) != form(put((at, one, other))):
        raise UnsaidError("a result is made of its sums in a way that changes with what they are relative to")
    return replace(result, body=simplify(put(made), ALL))


def _ungated(body: Term, greatest: str) -> Term:
    """The term without the condition that there is a point at all: where there is none a call gives 0, too."""
    def change(term: Term) -> Term:
        match term:
            case Where(Apply("lt" | "ne", (low, Read(tensor))), then) if low == NOWHERE and tensor == greatest:
                return then
        return term

    return transform(body, change)


def _product(exponent: Term, row: Index, column: Index) -> tuple[Fold, Term, Term]:
    """The one product of both sides in an exponent, the number before it, and the exponent as made of both. Raises
    UnsaidError."""
    folds = [x for x in walk(exponent) if isinstance(x, Fold)]
    both = [x for x in dict.fromkeys(folds) if {row, column} <= free_indices(x)]
    if len(both) != 1 or len({*folds}) != 1:
        raise UnsaidError(f"its exponent has {len({*folds})} sums, of which {len(both)} are a product of both sides; a "
                          "call has one sum, which is that" if folds else "its exponent has no product of both sides")
    (fold,) = both
    if fold.op != "sum" or fold.domain != TRUE:
        raise UnsaidError("the product in its exponent is not a plain sum")
    found: list[Term] = []
    return fold, *_scaled(exponent, fold, found)


def _scaled(term: Term, fold: Fold, found: list[Term]) -> tuple[Term, Term]:
    """The number that stands before a product, and the term with `SCORE` in place of both. Raises UnsaidError."""
    def number(inner: Term) -> Term | None:
        """The number before the product where a term is that; None where it is not."""
        if inner == fold:
            return ONE
        match inner:
            case Apply("div", (above, below)) if is_number(below) and (of := number(above)) is not None:
                return Apply("div", (of, below))
            case Apply("mul", args):
                rest = [x for x in args if not is_number(x)]
                if len(rest) == 1 and (of := number(rest[0])) is not None:
                    return product((*(x for x in args if is_number(x)), of))
        return None

    def change(inner: Term) -> Term:
        scale = number(inner)
        if scale is not None:
            found.append(simplify(scale, ALL))
            return SCORE
        return rebuild(inner, tuple(map(change, children(inner))))

    score = change(term)
    if len({*found}) != 1:
        raise UnsaidError("the product in its exponent stands there twice, with different numbers")
    return found[0], score


def _sides(fold: Fold, row: Index, column: Index) -> tuple[Term, Term, tuple[Index, ...]]:
    """The factors of a product by the side that they have; what has neither goes with the rows. Raises UnsaidError."""
    above, below = factors(fold.body)
    mine = [x for x in above if column not in free_indices(x)]
    theirs = [x for x in above if column in free_indices(x)]
    if any(row in free_indices(x) for x in theirs) or below:
        raise UnsaidError("a factor of the product in its exponent has the positions of both sides")
    one, other = (frozenset().union(*map(free_indices, side)) for side in (mine, theirs))
    inner = tuple(i for i in fold.bound if i in one and i in other)
    if not inner:
        raise UnsaidError("its exponent has no product of both sides")
    left, right = (_summed(fold.bound, inner, side) for side in (mine, theirs))
    return left, right, inner


def _summed(bound: tuple[Index, ...], inner: tuple[Index, ...], side: list[Term]) -> Term:
    """The factors of one side, summed over what the other side does not have."""
    found = product(tuple(side))
    mine = tuple(i for i in bound if i not in inner and i in free_indices(found))
    return Fold("sum", mine, TRUE, found) if mine else found
