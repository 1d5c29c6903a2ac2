"""Roundings to few bits that look like slips: of numbers that the type may cut off, and by scales that do not come out.

A number is known to lie within a type where it was divided by the largest of the numbers that it is one of. What is
divided by a scale and rounded has to be multiplied by it again: an analysis as of units, in which a scale is a unit, a
rounding changes none, and a result has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, prod

from einc.ir.indices import Index
from einc.ir.narrow import NARROW, Narrow
from einc.ir.primitives import PRIMITIVES, SAID, unsaid
from einc.ir.programs import Equation, Program
from einc.ir.sums import fraction
from einc.ir.terms import (
    Apply,
    Const,
    Fold,
    Pack,
    Position,
    Read,
    Size,
    Term,
    Where,
    children,
    free_indices,
    substitute,
    walk,
)
from einc.transforms.normal.reach import Reaches

Unit = Mapping[Term, Fraction]
# What no case of `_Units._unit` follows, and whose slope is another one elsewhere.
_CURVED = frozenset(row.name for row in PRIMITIVES.values() if row.arity != 2 and isinstance(row.slope, tuple)
                    and not all(isinstance(slope, Const) for slope in row.slope))


class _Unknown(Exception):  # noqa: N818 - it is no error: nothing is said then
    """A value whose unit the analysis does not follow."""


class _Differs(Exception):  # noqa: N818 - it is what is looked for
    """A value that changes with a scale in a way that no multiplication takes back."""


@dataclass(frozen=True, slots=True)
class Slip:
    """In the equation of `target` a rounding of the type `row` may cut off; or `target` changes with `scale`."""

    target: str
    row: Narrow | None = None
    scale: str = ""


def slips(program: Program) -> Iterator[Slip]:
    """The roundings of a program that look like slips."""
    own = [(e, t) for e in program.equations for t in walk(e.body) if isinstance(t, Apply) and t.op in NARROW]
    known = Bounds(program)
    for equation, term in own:
        row = NARROW[term.op]
        if known.most(term.args[0]) > max(row.high, -row.low):
            yield Slip(equation.target, row)
    for key in dict.fromkeys(read.tensor for _, term in own for read in _divisors(term.args[0], known.equations)):
        target = _Units(program, key).left()
        if target is not None:
            yield Slip(target, scale=key)


def _divisors(term: Term, equations: Mapping[str, Equation]) -> Iterator[Read]:
    """The defined tensors by which a term is divided, cut off or not."""
    if isinstance(term, Apply) and term.op in ("min", "max"):
        for x in term.args:
            yield from _divisors(x, equations)
    else:
        _, below = _fraction(_opened(term, equations))
        yield from (x for x in below if isinstance(x, Read) and x.tensor in equations)


def _opened(term: Term, equations: Mapping[str, Equation]) -> Term:
    """A term with the right side in place of each factor that is a product or a quotient without a fold."""
    match term:
        case Read(tensor, subs) if (e := equations.get(tensor)) is not None and e.has_letters and (
                isinstance(e.body, Apply) and e.body.op in ("mul", "div", "neg")
                and not any(isinstance(x, Fold) for x in walk(e.body))):
            return _opened(e.at(subs), equations)
        case Apply("mul" | "div" | "neg", args):
            return Apply(term.op, tuple(_opened(x, equations) for x in args))
    return term


def _fraction(term: Term) -> tuple[list[Term], list[Term]]:
    """The factors of a term above and below the stroke but for signs and conditions, powers of -1 among those below."""
    above, below = fraction(term)
    found, under = list[Term](), below
    for x in above:
        match x:
            case Apply("abs", (y,)) | Where(_, y):
                inner = _fraction(y)
            case Apply("pow", (y, Const(value))) if value == -1:
                inner = _fraction(y)[::-1]
            case _:
                inner = [x], []
        found, under = [*found, *inner[0]], [*under, *inner[1]]
    return found, under


@dataclass
class Bounds:
    """How large the values of a program are known to be."""

    program: Program

    def __post_init__(self) -> None:
        self.equations = dict(self.program.by_target)
        self.reaches = Reaches(self.equations)

    def most(self, term: Term) -> float:
        """A number that no absolute value of a term exceeds; ∞ where none is known."""
        term = unsaid(term)
        low, high = self.reaches.interval(term)
        return min(float(max(-low, high)), self._quotient(term), self._quotient(_opened(term, self.equations)))

    def _quotient(self, term: Term) -> float:
        """That number for a quotient by the largest of the numbers of which the numerator is one, and for a constant
        times a share; ∞ for all else."""
        above, below = _fraction(term)
        number = abs(prod((float(x.value) for x in above if isinstance(x, Const)), start=1.0))
        number /= abs(prod((float(x.value) for x in below if isinstance(x, Const)), start=1.0)) or 1.0
        mine, others = ([x for x in side if not isinstance(x, Const)] for side in (above, below))
        if not others and len(mine) == 1 and self.share(mine[0]):
            return number
        if len(mine) == len(others) == 1:
            ends = [end for end, y in self._largest(others[0]) if _is_one_of(mine[0], y)]
            return number * float(min(ends)) if ends else inf
        return inf

    def share(self, term: Term) -> bool:
        """Whether a term is the exponential of a number less the largest of the numbers that it is one of."""
        if isinstance(term, Read) and (e := self.equations.get(term.tensor)) is not None and e.has_letters:
            return self.share(e.at(term.subs))
        match term:
            case Apply("exp", (Apply("sub", (x, y)),)):
                return any(_is_one_of(x, inner) for _, inner in self._largest(y, signed=True))
        return False

    def _largest(self, term: Term, signed: bool = False) -> Iterator[tuple[Fraction, _Largest]]:
        """Each x, with a number c, such that a term is at least the largest |x| over c, or the largest x."""
        if isinstance(term, Read) and (e := self.equations.get(term.tensor)) is not None and e.has_letters:
            term = e.at(term.subs)
        match term:
            case Apply("max" | "add", args):
                for x in args:
                    yield from self._largest(x, signed)
            case Apply("div", (x, Const(value))) if value > 0:
                yield from ((c * Fraction(value), y) for c, y in self._largest(x, signed))
            case Apply("mul", (Const(value), x)) if value > 0:
                yield from ((c / Fraction(value), y) for c, y in self._largest(x, signed))
            case Fold("max", bound, _, body):
                inner = self._largest(body, signed)
                if signed and not isinstance(body, Fold):
                    inner = iter([(Fraction(1), _Largest((), body))])
                yield from ((c, _Largest((*bound, *y.bound), y.body)) for c, y in inner)
            case Apply("abs", (x,)) if not signed:
                yield Fraction(1), _Largest((), x)


@dataclass(frozen=True)
class _Largest:
    """The numbers of which one is the largest: a term and the letters that run."""

    bound: tuple[Index, ...]
    body: Term


def _is_one_of(term: Term, among: _Largest) -> bool:
    """Whether a term is the body at some values of the letters that run."""
    return _matched(among.body, term, {*among.bound}, {})


def _matched(pattern: Term, term: Term, free: set[Index], found: dict[Index, Term]) -> bool:
    """Whether a term is a pattern with terms in place of its free letters, which are added to `found`."""
    match pattern, term:
        case Position(index), _ if index in free:
            return found.setdefault(index, term) == term
        case Pack((block, Position(place)), (_, inner)), _ if place in free and not isinstance(term, Pack):
            here = Apply("ceil", (Apply("div", (term, Size(inner.extent))),))
            return _matched(block, here, free, found)
        case Fold(op, bound, _, body), Fold(other, others, _, inside) if (op, len(bound)) == (other, len(others)):
            return _matched(body, inside, free | {*bound}, found)
    kids, others_ = children(pattern), children(term)
    if type(pattern) is not type(term) or len(kids) != len(others_):
        return False
    if not kids:
        return pattern == term
    same = {Read: "tensor", Apply: "op"}.get(type(pattern))
    if same is not None and getattr(pattern, same) != getattr(term, same):
        return False
    return all(_matched(a, b, free, found) for a, b in zip(kids, others_, strict=True))


@dataclass
class _Units:
    """How often values have one scale as a factor, by the letters that it has there."""

    program: Program
    scale: str
    known: dict[str, Unit] = field(default_factory=dict)

    def left(self) -> str | None:
        """The first value that changes with the scale, other than rounded numbers and the scale itself; None where
        there is none, or where it is not known."""
        equations = self.program.by_target
        states = {key for loop in self.program.every_repeat for state in loop.states for key in state}
        try:
            for equation in self.program.equations:
                if equation.target == self.scale or self._codes(equation.body):
                    continue
                try:
                    unit = self._unit(equation.body)
                except _Differs:
                    return equation.target
                if unit and equation.target in states:
                    return None
            for _, key in self.program.outputs:
                if key == self.scale or key not in equations or self._codes(equations[key].body):
                    continue
                body = equations[key].body
                if not (isinstance(body, Read) and body.tensor == self.scale) and self._of(equations[key]):
                    return key
        except _Unknown:
            return None
        return None

    def _codes(self, body: Term) -> bool:
        """Whether a term is rounded numbers, which a result may be."""
        if isinstance(body, Read) and body.tensor in self.program.by_target and body.tensor != self.scale:
            return self._codes(self.program.by_target[body.tensor].body)
        return isinstance(body, Apply) and body.op in NARROW

    def _of(self, equation: Equation) -> Unit:
        """The unit of what an equation defines, in its own letters."""
        if equation.target not in self.known:
            self.known[equation.target] = {}  # what reads itself
            self.known[equation.target] = self._unit(equation.body)
        return self.known[equation.target]

    def _unit(self, term: Term) -> Unit:
        """The unit of a term. Raises _Differs where parts of it have several, _Unknown where it is not followed."""
        match term:
            case Read(tensor) if tensor == self.scale:
                return {term: Fraction(1)}
            case Read(tensor, subs):
                equation = self.program.equation(tensor)
                unit = {} if equation is None else self._of(equation)
                if not unit or equation is None:
                    return {}
                return _sum((_at(equation, key, subs), n) for key, n in unit.items())
            case Apply("mul", args):
                return _sum(x for arg in args for x in self._unit(arg).items())
            case Apply("div", (x, y)):
                return _sum([*self._unit(x).items(), *((key, -n) for key, n in self._unit(y).items())])
            case Apply("add" | "sub" | "max" | "min", args):
                return self._same([x for x in args if x != Const(Fraction(0))])
            case Apply(op, (x,)) if op in NARROW or op in SAID or op in ("neg", "abs", "exact"):
                return self._unit(_uncut(x) if op in NARROW else x)
            case Apply("pow", (x, Const(value))) if isinstance(value, Fraction):
                return {key: n * value for key, n in self._unit(x).items()}
            case Apply("sqrt", (x,)):
                return {key: n / 2 for key, n in self._unit(x).items()}
            case Where(_, then):
                return self._unit(then)
            case Fold(op, bound, _, body):
                unit = self._unit(body)
                if unit and op not in ("sum", "max", "min"):
                    raise _Unknown
                if any(free_indices(key) & {*bound} for key in unit):
                    raise _Differs
                return unit
        if any(self._unit(kid) for kid in children(term)):
            raise _Differs if isinstance(term, Apply) and term.op in _CURVED else _Unknown
        return {}

    def _same(self, terms: list[Term]) -> Unit:
        """The one unit of some values. Raises _Differs where they have several."""
        first, *others = [self._unit(x) for x in terms] or [{}]
        if any(x != first for x in others):
            raise _Unknown if any(isinstance(t, Where) for t in terms) else _Differs
        return first


def _uncut(term: Term) -> Term:
    """What is rounded, without the numbers at which it is cut off before, as a rounding itself cuts off."""
    match term:
        case Apply("min" | "max", (x, Const()) | (Const(), x)):
            return _uncut(x)
    return term


def _at(equation: Equation, key: Term, subs: tuple[Term, ...]) -> Term:
    """A scale that a value has, in the letters of a reader. Raises _Unknown where these are no letters of it."""
    by: dict[Index, Term] = {}
    for axis, sub in zip(equation.axes, subs, strict=True):
        match axis, sub:
            case Position(index), _:
                by[index] = sub
            case Pack(parts), Pack(others):
                by |= {p.index: x for p, x in zip(parts, others, strict=True) if isinstance(p, Position)}
    if not free_indices(key) <= by.keys():
        raise _Unknown
    return substitute(key, by)


def _sum(found: Iterable[tuple[Term, Fraction]]) -> Unit:
    """Exponents added up, without those that are 0."""
    total: dict[Term, Fraction] = {}
    for key, n in found:
        total[key] = total.get(key, Fraction(0)) + n
    return {key: n for key, n in total.items() if n}
