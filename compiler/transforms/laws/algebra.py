"""Neutral elements, constants, flat sums and products, quotients of quotients."""

from __future__ import annotations

from fractions import Fraction

from einc.ir.terms import ONE, ZERO, Apply, Const, Term, Truth, const
from einc.transforms.laws.rule import Rule, a, add, mul, u, v, w


def _flatten(term: Term) -> Term | None:
    match term:
        case Apply("add" | "mul" as op, args) if any(isinstance(x, Apply) and x.op == op for x in args):
            return Apply(op, tuple(y for x in args for y in (x.args if isinstance(x, Apply) and x.op == op else (x,))))
        case Apply("add" | "mul", (only,)):
            return only
    return None


def _neutral(term: Term) -> Term | None:
    """Removes neutral elements (0 of a sum, 1 of a product or divisor) and double negation; a product with 0 is 0."""
    match term:
        case Apply("add", args) if ZERO in args:
            rest = tuple(x for x in args if x != ZERO)
            return ZERO if not rest else rest[0] if len(rest) == 1 else Apply("add", rest)
        case Apply("mul", args) if ONE in args:
            rest = tuple(x for x in args if x != ONE)
            return ONE if not rest else rest[0] if len(rest) == 1 else Apply("mul", rest)
        case Apply("mul", args) if ZERO in args:
            return ZERO
        case Apply("sub", (x, y)) if y == ZERO:
            return x
        case Apply("div", (x, y)) if y == ONE:
            return x
        case Apply("div", (x, _)) if x == ZERO:
            return ZERO
        case Apply("pow", (x, y)) if y == ONE:
            return x
        case Apply("neg", (Apply("neg", (x,)),)):
            return x
    return None


def _constants(term: Term) -> Term | None:
    """Evaluates operations and comparisons whose arguments are constants; sums and products combine their rational
    ones."""
    match term:
        case Apply("neg", (Const(value),)):
            return Const(-value)
        case Apply("le" | "lt" | "eq" | "ne" as op, (Const(p), Const(q))):
            return Truth({"le": p <= q, "lt": p < q, "eq": p == q, "ne": p != q}[op])
        case Apply("not", (Truth(value),)):
            return Truth(not value)
        case Apply("and" | "or" as op, args) if any(isinstance(x, Truth) for x in args):
            return _logic(op, args)
        case Apply("sub", (Const(Fraction() as p), Const(Fraction() as q))):
            return const(p - q)
        case Apply("div", (Const(Fraction() as p), Const(Fraction() as q))) if q:
            return const(p / q)
        case Apply("add" | "mul" as op, args):
            numbers = [x.value for x in args if isinstance(x, Const) and isinstance(x.value, Fraction)]
            if len(numbers) < 2:
                return None
            total = Fraction(op == "mul")
            for value in numbers:
                total = total * value if op == "mul" else total + value
            rest = tuple(x for x in args if not (isinstance(x, Const) and isinstance(x.value, Fraction)))
            return Apply(op, (const(total), *rest)) if rest else const(total)
    return None


def _logic(op: str, args: tuple[Term, ...]) -> Term:
    """Truth values leave a conjunction or a disjunction, or decide it."""
    decides = Truth(op == "or")
    rest = tuple(x for x in args if not isinstance(x, Truth))
    if decides in args:
        return decides
    return Truth(op == "and") if not rest else rest[0] if len(rest) == 1 else Apply(op, rest)


def _quotients(term: Term) -> Term | None:
    """Writes nested quotients, and products with a quotient among their factors, as one quotient."""
    match term:
        case Apply("div", (Apply("div", (p, q)), s)):
            return Apply("div", (p, mul(q, s)))
        case Apply("div", (p, Apply("div", (q, s)))):
            return Apply("div", (mul(p, s), q))
        case Apply("mul", args) if (
            at := next((n for n, x in enumerate(args) if isinstance(x, Apply) and x.op == "div"), None)
        ) is not None:
            quotient = args[at]
            assert isinstance(quotient, Apply)
            return Apply("div", (mul(*args[:at], quotient.args[0], *args[at + 1 :]), quotient.args[1]))
    return None


def _signs(term: Term) -> Term | None:
    """Moves signs and negative constants out of products and numerators."""
    match term:
        case Apply("mul", args) if any(isinstance(x, Apply) and x.op == "neg" for x in args):
            bare = tuple(x.args[0] if isinstance(x, Apply) and x.op == "neg" else x for x in args)
            odd = sum(isinstance(x, Apply) and x.op == "neg" for x in args) % 2
            return Apply("neg", (mul(*bare),)) if odd else mul(*bare)
        case Apply("mul", args) if (
            at := next((n for n, x in enumerate(args) if isinstance(x, Const) and x.value < 0), None)
        ) is not None:
            number = args[at]
            assert isinstance(number, Const)
            return Apply("neg", (mul(*args[:at], Const(-number.value), *args[at + 1 :]),))
        case Apply("div", (Apply("neg", (p,)), q)):
            return Apply("neg", (Apply("div", (p, q)),))
    return None


RULES = (
    Rule("flatten", "(p + q) + s = p + q + s, and for products", "reals", _flatten,
         (add(add(u, v), w), mul(u, mul(v, w)))),
    Rule(
        "neutral",
        "p + 0 = p, 1 p = p, 0 p = 0, p/1 = p",
        "reals",
        _neutral,
        (add(u, ZERO), mul(ONE, u, w), mul(ZERO, w), Apply("div", (u, ONE)), Apply("neg", (Apply("neg", (v,)),))),
    ),
    Rule(
        "constants",
        "numbers are added and multiplied exactly",
        "reals",
        _constants,
        (mul(const(2), u, const(Fraction(1, 3))), add(const(2), const(5)), Apply("div", (const(1), const(4)))),
    ),
    Rule(
        "quotients",
        "(p/q)/s = p/(q s), p/(q/s) = p s/q, p (q/s) = p q/s",
        "reals",
        _quotients,
        (Apply("div", (Apply("div", (u, v)), w)), Apply("div", (u, Apply("div", (v, w)))),
         mul(a, Apply("div", (u, v)), w)),
    ),
    Rule(
        "signs",
        "(-p) q = -(p q)",
        "floats",
        _signs,
        (mul(Apply("neg", (u,)), v), mul(const(-2), u), Apply("div", (Apply("neg", (u,)), v))),
    ),
)
