"""The scalar primitives of the language: one row each, with everything that a pass or a back end may ask about it.

A row is complete in itself: a primitive that no back end spells is computed by its expansion, and one whose slope is
given has a gradient. Slopes and expansions are terms in the variables `X` and `Y` (the arguments), `VALUE` (the value
of the primitive at them) and `REST` (the other arguments of an n-ary primitive, combined by the primitive itself).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from einc.ir.narrow import NARROW, Narrow
from einc.ir.terms import ONE, ZERO, Apply, Const, Read, Term, Where, const, transform

POSITIVE, NONNEGATIVE, UNKNOWN = 2, 1, 0
X, Y, VALUE, REST = (Read(name, ()) for name in ("x", "y", "value", "rest"))

SAID = frozenset({"nonpositive", "relative"})  # each is its argument, of which it says something
Kind = Literal["value", "relation", "logic"]
Trait = Literal["exact", "callable", "whole", "declared"]
Slope = tuple[Term, ...] | Literal["taken"] | None
Sign = Literal["", "positive", "nonnegative", "argument", "rounded", "largest", "smallest"]
Interval = tuple[float, float]

REALS: Interval = (-math.inf, math.inf)
FROM_ZERO: Interval = (0.0, math.inf)
CHEAP, COSTLY, LONG = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Primitive:
    """One scalar primitive.

    `arity`: the number of arguments; 0 stands for any number from two, combined from left to right. `meaning`: the
    function of float64 numpy arrays that defines it, by its name in `einc.meaning.functions`. `slope`: its partial
    derivatives, one term for each argument (one term for all arguments where the arity is 0); "taken" is declared: the
    derivative is 1 for the one argument that is taken, the first of equal ones; None where the value is constant
    between jumps, so that no gradient passes. `sign`: what is known of the value: its sign, or that it has the sign of
    its argument, of its largest, of its smallest one; "rounded" is that of its argument, or 0. `range`: the closed
    interval that holds every value. `domain`: the closed interval of an argument on which the value of a unary
    primitive is a finite number (overflow is not counted). `at_zero`: the value of a unary primitive at 0. `cost`:
    CHEAP is one instruction, COSTLY is worth an equation of its own, LONG also needs registers of its own on the way.
    `expansion`: the same value by other primitives, in a form that neither overflows nor cancels where this can be
    avoided; None where every back end has to spell the primitive. For n-ary primitives it combines two arguments.
    `traits`: "exact" gives integers for integers and may stand in an index expression; "callable" may be applied by
    name in a spec; "whole" takes whole numbers alone, and any index for its number; "declared" has a slope that is not
    that of its meaning.
    """

    name: str
    arity: int
    kind: Kind
    meaning: str
    slope: Slope
    traits: frozenset[Trait] = frozenset()
    sign: Sign = ""
    range: Interval = REALS
    domain: Interval = REALS
    at_zero: float | None = None
    cost: int = CHEAP
    expansion: Term | None = None

    @property
    def exact(self) -> bool:
        """Whether it gives integers for integers and may stand in an index expression."""
        return "exact" in self.traits

    @property
    def callable(self) -> bool:
        """Whether a spec may call the primitive by its name."""
        return "callable" in self.traits

    @property
    def whole(self) -> bool:
        """Whether the primitive takes whole numbers and no others."""
        return "whole" in self.traits

    @property
    def declared(self) -> bool:
        """Whether its slope is declared: not what differences of its values tell."""
        return "declared" in self.traits

    @property
    def tangent(self) -> Fraction | None:
        """The number that a unary primitive multiplies small arguments by; None unless it
        is 0 at 0 and has a slope there."""
        if self.arity != 1 or not isinstance(self.slope, tuple) or self.at_zero != 0 or self.declared:
            return None
        return _rational(filled(self.slope[0], {"x": ZERO, "value": ZERO}))


def filled(template: Term, by: Mapping[str, Term]) -> Term:
    """The template of a row with terms in place of its variables."""
    return transform(template, lambda t: by.get(t.tensor, t) if isinstance(t, Read) and not t.subs else t)


def sign_of(op: str, signs: Sequence[int]) -> int:
    """POSITIVE, NONNEGATIVE or UNKNOWN: the sign of a primitive's value from the signs of its arguments."""
    match op:
        case "add":
            return UNKNOWN if UNKNOWN in signs else max(signs)
        case "mul":
            return min(signs)
        case "div" if signs[1] == POSITIVE:
            return signs[0]
        case "div":
            return UNKNOWN if UNKNOWN in signs else NONNEGATIVE  # 0 / 0 is 0
        case "pow":
            return signs[0]
    known = {"positive": POSITIVE, "nonnegative": NONNEGATIVE, "": UNKNOWN}
    sign = PRIMITIVES[op].sign
    if sign == "rounded":
        return min(*signs, NONNEGATIVE)
    return known[sign] if sign in known else min(signs) if sign == "smallest" else max(signs)


def unsaid(term: Term, said: Set[str] = SAID) -> Term:
    """A term without these words that say something of a value, each of which is its argument."""
    return transform(term, lambda t: t.args[0] if isinstance(t, Apply) and t.op in said else t)


def _rational(term: Term) -> Fraction | None:
    """The value of a closed term of arithmetic, and of unary primitives at 0, where it is a rational number."""
    if isinstance(term, Const):
        return term.value if isinstance(term.value, Fraction) else None
    if not isinstance(term, Apply):
        return None
    args = [found for a in term.args if (found := _rational(a)) is not None]
    if len(args) != len(term.args):
        return None
    match term.op, args:
        case "add", _:
            return sum(args, Fraction(0))
        case "mul", _:
            return math.prod(args, start=Fraction(1))
        case "sub", (a, b):
            return a - b
        case "neg", (a,):
            return -a
        case "div", (a, b):
            return a / b if b else None
    at_zero = PRIMITIVES[term.op].at_zero if args == [0] else None
    return Fraction(at_zero) if at_zero is not None and math.isfinite(at_zero) else None


def _(op: str, *args: Term) -> Term:
    return Apply(op, args)


def _real(value: float) -> Const:
    """A real number in as many digits as it has."""
    return const(Fraction(repr(value)))


def _traits(*traits: Trait) -> frozenset[Trait]:
    return frozenset(traits)


_EXACT, _CALLABLE, _BOTH = _traits("exact"), _traits("callable"), _traits("exact", "callable")
_STEP = _("sub", Where(_("lt", ZERO, X), ONE), Where(_("lt", X, ZERO), ONE))
_BELL = _("exp", _("neg", _("mul", X, X)))
_NEAR, _HALF = _("add", ONE, X), const(Fraction(1, 2))
# Of one value in the logarithm of a sum of exponentials.
_SHARE = Where(_("lt", Const(-math.inf), X), _("exp", _("sub", X, VALUE)))
_DISTANCE = Where(_("ne", X, Y), _("abs", _("sub", X, Y)))  # the difference of equal infinite numbers would be none


def _half_to_even(x: Term) -> Term:
    """The nearest whole number; of two that are equally near, the even one."""
    above = _("add", x, _HALF)
    return _("sub", _("floor", above), Where(_("eq", _("mod", above, const(2)), ONE), ONE))


def _nearest(row: Narrow) -> Term:
    """The number of a narrow type that is nearest to X, as `ir.narrow` says it.

    The step is a power of two. A logarithm that is a little off chooses the wrong one of two steps only beside a power
    of two, which is a multiple of both, and to which both round.
    """
    inside = _("min", _("max", X, const(row.low)), const(row.high))
    size = _("max", _("abs", inside), _("exp2", const(row.least)))
    binade = _("max", _("floor", _("div", _("log", size), _real(math.log(2)))), const(row.least))
    step = _("exp2", _("sub", binade, const(row.bits)))
    return _half_to_even(inside) if row.whole else _("mul", step, _half_to_even(_("div", inside, step)))


def _rounding(row: Narrow) -> Primitive:
    """Rounding to a narrow type. Its slope is declared, since that of its meaning is 0 wherever it has one: it is 1
    between the ends of the type and half a step beyond them, and 0 farther out. So it does not turn on the last digit
    of a quotient by a scale that takes the largest value to an end.
    """
    low, high = row.reach
    within = _("and", _("le", _real(low), X), _("le", X, _real(high)))
    return Primitive(
        row.name, 1, "value", row.name, (Where(within, ONE),), _traits("callable", "declared"), sign="rounded",
        range=(row.low, row.high), at_zero=0.0, cost=LONG, expansion=_nearest(row))


_ROWS = (
    Primitive("add", 0, "value", "add", (ONE,), _EXACT),
    Primitive("sub", 2, "value", "subtract", (ONE, const(-1)), _EXACT),
    Primitive("mul", 0, "value", "multiply", (REST,), _EXACT),
    Primitive("div", 2, "value", "divide", (_("div", ONE, Y), _("neg", _("div", X, _("mul", Y, Y)))), cost=COSTLY),
    Primitive("neg", 1, "value", "negative", (const(-1),), _EXACT, at_zero=0.0),
    Primitive(
        "pow", 2, "value", "power", (_("mul", Y, _("pow", X, _("sub", Y, ONE))), _("mul", VALUE, _("log", X))),
        cost=LONG),
    Primitive(
        "exp", 1, "value", "exp", (VALUE,), _CALLABLE, sign="positive", range=FROM_ZERO, at_zero=1.0, cost=COSTLY),
    Primitive(
        "exp2", 1, "value", "exp2", (_("mul", VALUE, _real(math.log(2))),), sign="positive", range=FROM_ZERO,
        at_zero=1.0,
        cost=COSTLY, expansion=_("exp", _("mul", X, _real(math.log(2))))),
    Primitive(
        "expm1", 1, "value", "expm1", (_("exp", X),), _CALLABLE, sign="argument", range=(-1.0, math.inf), at_zero=0.0,
        cost=LONG, expansion=_("mul", _("tanh", _("div", X, const(2))), _("add", _("exp", X), ONE))),
    Primitive(
        "log", 1, "value", "log", (_("div", ONE, X),), _CALLABLE, domain=(math.ulp(0.0), math.inf), at_zero=-math.inf,
        cost=COSTLY),
    Primitive(  # what the sum 1 + x lost by rounding is added to first order
        "log1p", 1, "value", "log1p", (_("div", ONE, _NEAR),), _CALLABLE, sign="argument",
        domain=(math.nextafter(-1.0, 0.0), math.inf), at_zero=0.0, cost=LONG,
        expansion=_("add", _("log", _NEAR), _("div", _("sub", X, _("sub", _NEAR, ONE)), _NEAR))),
    Primitive(
        "sqrt", 1, "value", "sqrt", (_("div", ONE, _("mul", const(2), VALUE)),), _CALLABLE, sign="argument",
        range=FROM_ZERO,
        domain=FROM_ZERO, at_zero=0.0, cost=COSTLY),
    Primitive("sin", 1, "value", "sin", (_("cos", X),), _CALLABLE, range=(-1.0, 1.0), at_zero=0.0, cost=LONG),
    Primitive("cos", 1, "value", "cos", (_("neg", _("sin", X)),), _CALLABLE, range=(-1.0, 1.0), at_zero=1.0, cost=LONG),
    Primitive(
        "tanh", 1, "value", "tanh", (_("sub", ONE, _("mul", VALUE, VALUE)),), _CALLABLE, sign="argument",
        range=(-1.0, 1.0),
        at_zero=0.0, cost=LONG),
    Primitive(
        "erf", 1, "value", "erf", (_("mul", _real(2 / math.sqrt(math.pi)), _BELL),), _CALLABLE, sign="argument",
        range=(-1.0, 1.0), at_zero=0.0, cost=LONG),
    Primitive(
        "erfc", 1, "value", "erfc", (_("mul", _real(-2 / math.sqrt(math.pi)), _BELL),), _CALLABLE, sign="positive",
        range=(0.0, 2.0), at_zero=1.0, cost=LONG, expansion=_("sub", ONE, _("erf", X))),
    Primitive(
        "abs", 1, "value", "abs", (_STEP,), _BOTH, sign="nonnegative", range=FROM_ZERO, at_zero=0.0,
        expansion=_("max", X, _("neg", X))),
    Primitive("floor", 1, "value", "floor", None, _BOTH, at_zero=0.0),
    Primitive("ceil", 1, "value", "ceil", None, _BOTH, at_zero=0.0, expansion=_("neg", _("floor", _("neg", X)))),
    Primitive("mod", 2, "value", "mod", (ONE, _("neg", _("floor", _("div", X, Y)))), _BOTH),
    Primitive("pick", 2, "value", "", None, _EXACT),  # the n-th point of an ordered fold: see `meaning.blocks.picked`
    Primitive("max", 0, "value", "maximum", "taken", _BOTH, sign="largest"),
    Primitive("min", 0, "value", "minimum", "taken", _BOTH, sign="smallest"),
    Primitive(
        "logaddexp", 0, "value", "logaddexp", (_SHARE,), _CALLABLE, sign="largest", cost=LONG,
        expansion=_("add", _("max", X, Y), _("log1p", _("exp", _("neg", _DISTANCE))))),
    Primitive("hash", 2, "value", "hashed", None, _traits("exact", "callable", "whole"), sign="nonnegative",
              range=FROM_ZERO),
    Primitive("chance", 2, "value", "chance", None, _traits("callable", "whole"), sign="nonnegative", range=(0.0, 1.0)),
    # x, of which it is known that x ≤ 0
    Primitive("nonpositive", 1, "value", "positive", (ONE,), _CALLABLE, at_zero=0.0),
    # x, a rounding of which may be one relative to the largest exponential that a sum has met so far
    Primitive("relative", 1, "value", "positive", (ONE,), _CALLABLE, sign="argument", at_zero=0.0),
    Primitive("exact", 1, "value", "positive", (ONE,), sign="argument", at_zero=0.0),  # x itself, computed in float64
    *(_rounding(row) for row in NARROW.values()),
    Primitive("le", 2, "relation", "less_equal", None),
    Primitive("lt", 2, "relation", "less", None),
    Primitive("eq", 2, "relation", "equal", None),
    Primitive("ne", 2, "relation", "not_equal", None),
    Primitive("and", 0, "logic", "logical_and", None),
    Primitive("or", 0, "logic", "logical_or", None),
    Primitive("not", 1, "logic", "logical_not", None),
)

PRIMITIVES: dict[str, Primitive] = {row.name: row for row in _ROWS}
CONSTANTS: dict[str, Const] = {"π": _real(math.pi)}  # what a name is where a text gives it no other meaning
HASHES = frozenset(row.name for row in _ROWS if row.whole)
