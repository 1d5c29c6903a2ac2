"""How values change when some of them are scaled: an analysis as of dimensions.

Let exp(c) times a seed stand for the seed, c a number for each row. A value then takes c a number of times into its
scale, or is shifted by c a number of times, or does not change, or changes in another way. What no output feels is a
reference: it may be any number, and has no slope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, assert_never

from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.programs import Equation
from einc.ir.terms import ZERO, Apply, Const, Fold, Join, Pack, Part, Position, Read, Size, Term, Truth, Where, reads


@dataclass(frozen=True, slots=True)
class Degree:
    """`times`: exp(power · c) is a factor; `plus`: power · c is added. `letters` are the
    equation's own, a slot of c each."""

    kind: Literal["times", "plus"]
    power: Fraction
    letters: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Degrees:
    """The values that change, and those that were shifted and are taken as they are."""

    found: Mapping[str, Degree]
    shut: frozenset[str]


class Mixed(Exception):  # noqa: N818 - it is no error: the analysis says no
    """A value that changes in another way."""


def degrees(equations: Iterable[Equation], seeds: Mapping[str, Degree], *, closed: bool) -> Degrees | None:
    """The degree of every value that changes; None where one changes in another way.

    With `closed` a value that is shifted is taken as it is, c added: what reads it feels nothing of c.
    """
    found, shut, by = dict(seeds), set[str](), {e.target: e for e in equations}
    for equation in by.values():
        if (equation.target in found
            or not any(r.tensor in found for t in (equation.body, equation.domain) for r in reads(t))):
            continue
        if any(r.tensor in found for r in reads(equation.domain)):
            return None
        try:
            degree = degree_of(equation.body, found, by)
        except Mixed:
            return None
        if degree is not None and not set(degree.letters) <= set(equation.indices):
            return None
        if degree is not None and closed and degree.kind == "plus":
            shut.add(equation.target)
        elif degree is not None:
            found[equation.target] = degree
    return Degrees(found, frozenset(shut))


def degree_of(term: Term, known: Mapping[str, Degree], by: Mapping[str, Equation]) -> Degree | None:
    """The degree of a term; Mixed where it changes in another way."""
    match term:
        case Read(tensor, subs):
            return _read(tensor, subs, known, by)
        case Where(condition, then):
            inner = degree_of(then, known, by)
            if _touched(condition, known) or (inner is not None and inner.kind == "plus"):
                raise Mixed
            return inner
        case Fold(op, bound, domain, body):
            inner = degree_of(body, known, by)
            if _touched(domain, known):
                raise Mixed
            row = FOLDS[op]
            if (inner is not None
                and (set(inner.letters) & set(bound) or not (row.scales if inner.kind == "times" else row.shifts))):
                raise Mixed
            return inner
        case Join(_, parts):
            return _same([degree_of(part, known, by) for _, part in parts])
        case Apply(op, args):
            return _applied(op, args, [degree_of(a, known, by) for a in args])
        case Pack() | Part():
            if _touched(term, known):
                raise Mixed
            return None
        case Const() | Truth() | Size() | Position():
            return None
    assert_never(term)


def _touched(term: Term, known: Mapping[str, Degree]) -> bool:
    return any(r.tensor in known for r in reads(term))


def _read(tensor: str, subs: tuple[Term, ...], known: Mapping[str, Degree],
          by: Mapping[str, Equation]) -> Degree | None:
    """The degree of a read, with the letters of its subscripts; None where the tensor does not change.
    Mixed where a subscript changes, or a letter of the degree is read at anything but a position."""
    if any(_touched(sub, known) for sub in subs):
        raise Mixed
    if tensor not in known:
        return None
    degree, letters = known[tensor], list[Index]()
    for letter in degree.letters:
        places = [n for n, axis in enumerate(by[tensor].axes) if axis == Position(letter)]
        if len(places) != 1 or not isinstance(here := subs[places[0]], Position):
            raise Mixed
        letters.append(here.index)
    return replace(degree, letters=tuple(letters))


def _applied(op: str, args: tuple[Term, ...], inner: list[Degree | None]) -> Degree | None:
    """The degree of a primitive's result from those of its arguments (`inner`); None where no argument changes.
    Mixed where the result has no degree."""
    some = [d for d in inner if d is not None]
    if not some:
        return None
    match op:
        case "mul" | "div" if all(d.kind == "times" for d in some):
            return _product(op, inner)
        case "mul" | "div" if len(some) == 1:
            number = _numbers(op, args, inner)
            return None if number is None else _times(some[0], number)
        case "neg":
            return some[0] if some[0].kind == "times" else _times(some[0], Fraction(-1))
        case "add" | "sub" if any(d.kind == "plus" for d in some):
            return _shifts(op, inner)
        case "add" | "sub" | "max" | "min":
            return _same([d for a, d in zip(args, inner, strict=True) if a != ZERO or some[0].kind == "plus"])
        case "abs" if some[0].kind == "times":
            return some[0]
        case "nonpositive" | "relative":
            return some[0]
        case "exp" if some[0].kind == "plus":
            return replace(some[0], kind="times")
        case "log" if some[0].kind == "times":
            return replace(some[0], kind="plus")
        case "sqrt" if some[0].kind == "times":
            return _times(some[0], Fraction(1, 2))
        case "pow" if inner[1] is None and some[0].kind == "times":
            match args[1]:
                case Const(Fraction() as power):
                    return _times(some[0], power)
    raise Mixed


def _numbers(op: str, args: tuple[Term, ...], inner: list[Degree | None]) -> Fraction | None:
    """What a shifted value is multiplied with, where that is known. Raises Mixed."""
    total = Fraction(1)
    for place, (arg, degree) in enumerate(zip(args, inner, strict=True)):
        if degree is not None and op == "div" and place == 1:
            raise Mixed
        if degree is None:
            if not isinstance(arg, Const) or not isinstance(arg.value, Fraction) or arg.value == 0:
                raise Mixed
            total = total / arg.value if op == "div" else total * arg.value
    return total


def _times(degree: Degree, number: Fraction) -> Degree | None:
    return replace(degree, power=degree.power * number) if number else None


def _product(op: str, inner: list[Degree | None]) -> Degree | None:
    power, letters = Fraction(0), None
    for place, degree in enumerate(inner):
        if degree is not None:
            power += -degree.power if op == "div" and place == 1 else degree.power
            if letters not in (None, degree.letters):
                raise Mixed
            letters = degree.letters
    return Degree("times", power, letters) if power and letters is not None else None


def _shifts(op: str, inner: list[Degree | None]) -> Degree | None:
    power, letters = Fraction(0), None
    for place, degree in enumerate(inner):
        if degree is not None:
            if degree.kind != "plus" or letters not in (None, degree.letters):
                raise Mixed
            power += -degree.power if op == "sub" and place == 1 else degree.power
            letters = degree.letters
    return Degree("plus", power, letters) if power and letters is not None else None


def _same(inner: list[Degree | None]) -> Degree | None:
    if any(d != inner[0] for d in inner):
        raise Mixed
    return inner[0]
