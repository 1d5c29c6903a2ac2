"""Laws of exp and log, and what cancels: used where folds are separated and finished, not in the normal form.

They hold over the reals; in floats they are what makes the difference between a scaled number and an overflow.
"""

from __future__ import annotations

from fractions import Fraction

from einc.ir.terms import ONE, ZERO, Apply, Const, Term, const
from einc.transforms.laws.rule import Rule, a, add, mul, u, v, w


def exp(term: Term) -> Term:
    """The exponential of a term, as it stands."""
    return Apply("exp", (term,))


def _factors(term: Term) -> tuple[Term, ...]:
    return term.args if isinstance(term, Apply) and term.op == "mul" else (term,)


def _product(factors: list[Term]) -> Term:
    return ONE if not factors else factors[0] if len(factors) == 1 else mul(*factors)


def _sum(terms: list[Term]) -> Term:
    return terms[0] if len(terms) == 1 else add(*terms)


def _merge_exp(term: Term) -> Term | None:
    """exp(p) exp(q) = exp(p + q), also across a stroke."""
    match term:
        case Apply("mul", args):
            inside = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            if len(inside) < 2:
                return None
            rest = [x for x in args if not (isinstance(x, Apply) and x.op == "exp")]
            return _product([*rest, exp(_sum(inside))])
        case Apply("div", (above, below)):
            top, under = _factors(above), _factors(below)
            up = [x.args[0] for x in top if isinstance(x, Apply) and x.op == "exp"]
            down = [x.args[0] for x in under if isinstance(x, Apply) and x.op == "exp"]
            if not down:
                return None
            numerator = [x for x in top if not (isinstance(x, Apply) and x.op == "exp")]
            denominator = [x for x in under if not (isinstance(x, Apply) and x.op == "exp")]
            power = exp(_sum([*up, *(Apply("neg", (d,)) for d in down)]))
            return Apply("div", (_product([*numerator, power]), _product(denominator)))
    return None


def _exp_zero(term: Term) -> Term | None:
    match term:
        case Apply("exp", (x,)) if x == ZERO:
            return ONE
        case Apply("exp", (Apply("log", (x,)),)):
            return x
    return None


def _log_product(term: Term) -> Term | None:
    """log(exp(p) q) = p + log(q)."""
    match term:
        case Apply("log", (Apply("exp", (x,)),)):
            return x
        case Apply("log", (Apply("mul", args),)) if any(isinstance(x, Apply) and x.op == "exp" for x in args):
            powers = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            rest = [x for x in args if not (isinstance(x, Apply) and x.op == "exp")]
            return _sum([*powers, Apply("log", (_product(rest),))])
    return None


def _terms(term: Term, sign: int = 1) -> list[tuple[int, Term]]:
    match term:
        case Apply("add", args):
            return [t for x in args for t in _terms(x, sign)]
        case Apply("sub", (x, y)):
            return _terms(x, sign) + _terms(y, -sign)
        case Apply("neg", (x,)):
            return _terms(x, -sign)
    return [(sign, term)]


def _cancel(term: Term) -> Term | None:
    """p − p = 0 inside a sum, wherever the two stand."""
    if not (isinstance(term, Apply) and term.op in ("add", "sub")):
        return None
    parts = _terms(term)
    for n, (sign, part) in enumerate(parts):
        for m in range(n + 1, len(parts)):
            if parts[m] == (-sign, part):
                return signed([p for k, p in enumerate(parts) if k not in (n, m)])
    return None


def signed(parts: list[tuple[int, Term]]) -> Term:
    """The sum of signed terms."""
    if not parts:
        return ZERO
    ordered = sorted(parts, key=lambda p: -p[0])
    sign, total = ordered[0]
    if sign < 0:
        total = Apply("neg", (total,))
    for sign, part in ordered[1:]:
        total = Apply("add", (total, part)) if sign > 0 else Apply("sub", (total, part))
    return total


def _common(term: Term) -> Term | None:
    """(p exp(x)) / (q + s exp(x)) = p / (q exp(−x) + s): the scale of a numerator leaves with that of its denominator."""
    match term:
        case Apply("div", (above, Apply("add", terms) as below)):
            powers = [x for x in _factors(above) if isinstance(x, Apply) and x.op == "exp"]
            scaled = [t for t in terms if powers and powers[0] in _factors(t)]
            if not powers or not scaled:
                return None
            inverse = exp(Apply("neg", (powers[0].args[0],)))
            rest = [x for x in _factors(above) if x is not powers[0]]
            new = [_product([f for f in _factors(t) if f != powers[0]]) if t in scaled else mul(t, inverse) for t in terms]
            assert isinstance(below, Apply)
            return Apply("div", (_product(rest), _sum(new)))
    return None


def _power(term: Term) -> Term | None:
    """c^x = exp(x log c) for a number c > 0."""
    match term:
        case Apply("pow", (Const(Fraction() as base), x)) if base > 0 and not isinstance(x, Const):
            return exp(mul(x, Apply("log", (const(base),))))
    return None


def _scaled_power(term: Term) -> Term | None:
    """(p e^x)^c = p^c e^(c x) for a number c, and so for the root: a power of a scaled number is one."""
    match term:
        case Apply("pow", (Apply("mul", args), Const(Fraction() as power) as c)):
            inside = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            outer = mul(c, _sum(inside)) if inside and power > 0 else None
        case Apply("sqrt", (Apply("mul", args),)):
            inside = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            outer = mul(const(Fraction(1, 2)), _sum(inside)) if inside else None
        case _:
            return None
    if outer is None:
        return None
    assert isinstance(term, Apply)
    rest = _product([x for x in args if not (isinstance(x, Apply) and x.op == "exp")])
    return mul(Apply(term.op, (rest, *term.args[1:])), exp(outer))


RULES = (
    Rule(
        "merge exp",
        "exp(p) exp(q) = exp(p + q)",
        "reals",
        _merge_exp,
        (mul(exp(u), v, exp(w)), Apply("div", (mul(u, exp(v)), exp(w)))),
    ),
    Rule("exp zero", "exp(0) = 1, exp(log p) = p", "reals", _exp_zero, (exp(ZERO), exp(Apply("log", (Apply("abs", (u,)),))))),
    Rule(
        "log product",
        "log(exp(p) q) = p + log(q)",
        "reals",
        _log_product,
        (Apply("log", (mul(exp(u), Apply("abs", (v,))),)), Apply("log", (exp(u),))),
    ),
    Rule("cancel", "p − p = 0", "reals", _cancel, (Apply("sub", (add(u, v), u)), add(a, Apply("neg", (a,)), w))),
    Rule(
        "common scale",
        "p e^x / (q + s e^x) = p / (q e^-x + s)",
        "reals",
        _common,
        (Apply("div", (mul(u, exp(a)), add(Apply("abs", (v,)), mul(Apply("abs", (w,)), exp(a))))),),
    ),
    Rule(
        "scaled power",
        "(p e^x)^c = p^c e^(c x)",
        "reals",
        _scaled_power,
        (Apply("pow", (mul(u, exp(a)), const(2))), Apply("sqrt", (mul(Apply("abs", (v,)), exp(a), exp(w)),))),
    ),
    Rule("power", "c^x = exp(x log c)", "reals", _power, (Apply("pow", (const(2), u)),)),
)
