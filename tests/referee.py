"""What terms mean, a second time and by sympy: a program at concrete sizes, each element of an input a symbol or a
number.

Written from the description of the language in `ir/terms` alone; it shares no algebra with the compiler. It is slow:
every point of every fold is visited, so sizes are from 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import reduce
from itertools import product
from random import Random
from typing import Any

import sympy
from sympy import Expr

from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.programs import Equation, Program
from einc.ir.terms import Apply, Const, Fold, Join, Pack, Part, Position, Read, Size, Term, Truth, Where

DIGITS = 50
Element = Callable[[str, tuple[int, ...]], Any]
Point = Mapping[Index, int]


class UndecidedError(Exception):
    """A comparison of symbols, or a primitive that has no place in algebra."""


def symbols(**assumptions: bool) -> Element:
    """Each element of a tensor is a symbol of its own, real unless something else is assumed."""
    kind = assumptions or {"real": True, "nonzero": True}
    return lambda key, at: sympy.Symbol(f"{key}[{','.join(map(str, at))}]", **kind)


def rationals(seed: int, whole: Iterable[str] = ()) -> Element:
    """Each element is a random rational number that is not 0; those of `whole` tensors are 1 or 2."""
    integers = frozenset(whole)

    def element(key: str, at: tuple[int, ...]) -> Any:
        random = Random(f"{seed} {key} {at}")
        if key in integers:
            return sympy.Integer(random.randint(1, 2))
        return sympy.Rational(random.choice([-1, 1]) * random.randint(1, 24), random.randint(5, 12))

    return element


def exact(value: Fraction | float) -> Expr:
    return sympy.Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else sympy.sympify(value)


class Referee:
    """A program at some sizes. With `digits` functions of numbers are decimals of so many digits, else they stay as
    they are.
    """

    def __init__(self, program: Program, sizes: Mapping[str, int], element: Element, digits: int = 0) -> None:
        self.program, self.sizes, self.element, self.digits = program, {**program.sizes, **sizes}, element, digits
        self.by = {e.target: e for e in program.equations}
        self.known: dict[tuple[str, tuple[int, ...]], Any] = {}

    # sets

    def extent(self, extent: Extent) -> int:
        value = extent.at(self.sizes)
        assert value.denominator == 1, f"{extent} is {value}"
        return int(value)

    def places(self, over: IndexSet) -> range:
        return range(over.start, over.start + self.extent(over.extent))

    def points(self, bound: Iterable[Index], domain: Term, at: Point) -> Iterator[dict[Index, int]]:
        """The points of a domain, each with what is known around it."""
        letters = tuple(bound)
        for values in product(*(self.places(i.set) for i in letters)):
            here = {**at, **dict(zip(letters, values, strict=True))}
            if self.value(domain, here):
                yield here

    # values

    def read(self, key: str, at: tuple[int, ...]) -> Any:
        """An element of a tensor: what its equation says, 0 where that says nothing, or of an input the element
        itself.
        """
        if (key, at) not in self.known:
            equation = self.by.get(key)
            self.known[key, at] = self.element(key, at) if equation is None else self._made(equation, at)
        return self.known[key, at]

    def _made(self, equation: Equation, at: tuple[int, ...]) -> Any:
        here: dict[Index, int] = {}
        for axis, value in zip(equation.axes, at, strict=True):
            match axis:
                case Position(index):
                    here[index] = value
                case Pack(parts, sets, into):
                    rest = value - into.start
                    for part, over in reversed(list(zip(parts, sets, strict=True))):
                        assert isinstance(part, Position)
                        rest, digit = divmod(rest, self.extent(over.extent))
                        here[part.index] = digit + over.start
        return self.value(equation.body, here) if self.value(equation.domain, here) else sympy.S.Zero

    def value(self, term: Term, at: Point) -> Any:
        """The term where its free indices stand at these positions."""
        match term:
            case Const(number):
                return exact(number)
            case Truth(holds):
                return holds
            case Size(extent):
                return exact(extent.at(self.sizes))
            case Position(index):
                return sympy.Integer(at[index])
            case Pack(parts, sets, into):
                total = 0
                for part, over in zip(parts, sets, strict=True):
                    total = total * self.extent(over.extent) + int(self.value(part, at)) - over.start
                return sympy.Integer(total + into.start)
            case Part(item, of, before, into):
                return self.value(item, at) - of.start + self.extent(before) + into.start
            case Read(tensor, subs):
                return self.read(tensor, tuple(int(self.value(sub, at)) for sub in subs))
            case Where(condition, then):
                return self.value(then, at) if self.value(condition, at) else sympy.S.Zero
            case Fold():
                return self.fold(term, at)
            case Join(index, parts):
                return self.joined(index, parts, at)
            case Apply("pick", (Fold() as ordered, rank)):
                return self.picked(ordered, int(self.value(rank, at)), at)
            case Apply("and" | "or" as op, args):  # as far as is needed: what follows may not be read
                return (all if op == "and" else any)(self.value(arg, at) for arg in args)
            case Apply(op, args):
                return self.applied(op, [self.value(arg, at) for arg in args])

    def fold(self, fold: Fold, at: Point) -> Any:
        values = [self.value(fold.body, here) for here in self.points(fold.bound, fold.domain, at)]
        match fold.op:
            case "sum":
                return sympy.Add(*values)
            case "prod":
                return sympy.Mul(*values)
            case "max":
                return sympy.Max(*values) if values else -sympy.oo
            case "min":
                return sympy.Min(*values) if values else sympy.oo
        raise UndecidedError(fold.op)

    def joined(self, index: Index, parts: tuple[tuple[Index, Term], ...], at: Point) -> Any:
        place = at[index] - index.set.start
        for part, body in parts:
            if place < (count := self.extent(part.set.extent)):
                return self.value(body, {**at, part: place + part.set.start})
            place -= count
        raise AssertionError("a position beyond the last part")

    def picked(self, ordered: Fold, rank: int, at: Point) -> Any:
        """Where the element of a rank stands, the largest first, of equal ones the first; before the first where
        none is left.
        """
        (element,) = ordered.bound
        points = self.points(ordered.bound, ordered.domain, at)
        found = [(self.value(ordered.body, here), here[element]) for here in points]
        if not all(x.is_number for x, _ in found):
            raise UndecidedError("pick")
        found = sorted(((x, n) for x, n in found if x != -sympy.oo), key=lambda pair: (-pair[0], pair[1]))
        return sympy.Integer(found[rank - 1][1] if rank <= len(found) else element.set.start - 1)

    def applied(self, op: str, args: list[Any]) -> Any:
        if op in _RELATIONS:
            return _RELATIONS[op](*args)
        if op == "not":
            return not args[0]
        if op not in _FUNCTIONS:
            raise UndecidedError(op)
        found = _FUNCTIONS[op](*args)
        return sympy.N(found, self.digits) if self.digits and op in _REAL and found.is_finite else found


def _divided(a: Expr, b: Expr) -> Expr:
    return sympy.S.Zero if a == 0 and b == 0 else a / b


def _decided(found: Any) -> bool:
    if found not in (True, False, sympy.true, sympy.false):
        raise UndecidedError(str(found))
    return bool(found)


def _rounded(bits: int, least: int, low: int, high: int) -> Callable[[Expr], Expr]:
    """Rounding of a rational number to multiples of 2^(e - bits), where 2^e is the power of two below it, of 2^least at
    least; of two that are equally near to the even one; and to the nearer end beyond the ends."""

    def found(x: Expr) -> Expr:
        if not x.is_Rational:
            raise UndecidedError(str(x))
        inside = min(max(Fraction(int(x.p), int(x.q)), Fraction(low)), Fraction(high))
        step = Fraction(2) ** (least - bits)
        while abs(inside) >= step * 2 ** (bits + 1):
            step *= 2
        return exact(round(inside / step) * step)

    return found


_REAL = {"exp", "exp2", "log", "sqrt", "sin", "cos", "tanh", "erf", "pow"}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": sympy.Add, "sub": lambda a, b: a - b, "mul": sympy.Mul, "div": _divided,
    "neg": lambda a: -a, "pow": sympy.Pow, "exp": sympy.exp, "exp2": lambda a: sympy.Pow(2, a), "log": sympy.log,
    "sqrt": sympy.sqrt, "sin": sympy.sin, "cos": sympy.cos, "tanh": sympy.tanh, "erf": sympy.erf, "abs": sympy.Abs,
    "floor": sympy.floor, "ceil": sympy.ceiling, "mod": sympy.Mod, "max": sympy.Max, "min": sympy.Min,
    "nonpositive": lambda a: a,
    "relative": lambda a: a,
    "e4m3": _rounded(3, -6, -448, 448), "e5m2": _rounded(2, -14, -57344, 57344), "e2m1": _rounded(1, 0, -6, 6),
    "int8": _rounded(7, 7, -128, 127), "int4": _rounded(3, 3, -8, 7),
}  # fmt: skip
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "le": lambda a, b: _decided(a <= b), "lt": lambda a, b: _decided(a < b),
    "eq": lambda a, b: _decided(sympy.Eq(a, b)), "ne": lambda a, b: not _decided(sympy.Eq(a, b)),
}


def equal(one: Any, other: Any, seed: int = 0) -> bool:
    """Whether two expressions are: by expanding their difference, else by its value to fifty digits at three rational
    points.

    What is no number, or infinite, is equal to nothing but itself.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return bool(one == other)
    if one == other:
        return True
    left = sympy.sympify(one) - other
    if left.has(sympy.nan, sympy.zoo, sympy.oo):
        return False
    free = sorted(left.free_symbols, key=str)
    if free and sympy.expand(left) == 0:
        return True
    element = rationals(seed)
    for trial in range(3 if free else 1):
        by = {s: abs(x) if s.is_positive else x for s in free for x in [element(f"{s.name} {trial}", ())]}
        found, size = (sympy.N(x.subs(by), DIGITS) for x in (left, sympy.Abs(sympy.sympify(one)) + sympy.Abs(other)))
        if not found.is_number or abs(found) > sympy.Float(10) ** (10 - DIGITS) * (1 + abs(size)):
            return False
    return True


# sizes


def small(program: Program, seed: int, most: int = 3) -> dict[str, int]:
    """Sizes from 1 to 3 at which every extent is a whole number; one of 4 where an extent is a half of it."""
    random, sets = Random(seed), _sets(program)
    names = sorted({n for s in sets for n in s.extent.sizes} | {n for e in _extents(program) for n in e.sizes})
    for _ in range(5000):
        sizes = {n: program.sizes.get(n, random.randint(1, most + 1 if seed % 2 else most)) for n in names}
        if _fits(program, sizes, sets):
            return sizes
    raise AssertionError(f"no small sizes fit {program.name}")


def _fits(program: Program, sizes: Mapping[str, int], sets: list[IndexSet]) -> bool:
    whole = all((n := s.extent.at(sizes)).denominator == 1 and n >= 1 for s in sets)
    return whole and all(into.extent.at(sizes) == reduce(lambda n, part: n * part.extent.at(sizes), parts, Fraction(1))
                         for into, parts in program.splits.items())


def _sets(program: Program) -> list[IndexSet]:
    tensors = (*program.inputs(), *(program.tensors[e.target] for e in program.equations))
    found = [slot.set for t in tensors for slot in t.slots]
    for term in _terms(program):
        match term:
            case Position(index) | Join(index):
                found.append(index.set)
            case Fold(_, bound):
                found += [i.set for i in bound]
            case Pack(_, sets, into):
                found += [*sets, into]
            case Part(_, of, _, into):
                found += [of, into]
    return list(dict.fromkeys(found))


def _extents(program: Program) -> list[Extent]:
    return [t.extent for t in _terms(program) if isinstance(t, Size)]


def _terms(program: Program) -> Iterator[Term]:
    from_equations = [root for e in program.equations for root in (*e.axes, e.domain, e.body)]
    while from_equations:
        term = from_equations.pop()
        yield term
        match term:
            case Pack(parts) | Apply(_, parts) | Read(_, parts):
                from_equations += parts
            case Part(item):
                from_equations.append(item)
            case Where(condition, then):
                from_equations += [condition, then]
            case Fold(_, _, domain, body):
                from_equations += [domain, body]
            case Join(_, parts):
                from_equations += [body for _, body in parts]
