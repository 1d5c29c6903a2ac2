"""Laws of exp and log, and what cancels: used where folds are separated and finished, not in the normal form.

They hold over the reals; in floats they are what makes the difference between a scaled number and an overflow.
"""

from __future__ import annotations

from fractions import Fraction

from einc.ir.sums import added, addends, factors, product, signed
from einc.ir.terms import ONE, ZERO, Apply, Const, Term, const
from einc.transforms.laws.rule import Rule, a, add, mul, u, v, w


def exp(term: Term) -> Term:
    """The exponential of a term, as it stands."""
    return Apply("exp", (term,))





def _merge_exp(term: Term) -> Term | None:
    """exp(p) exp(q) = exp(p + q), also across a stroke."""
    match term:
        case Apply("mul", args):
            inside = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            if len(inside) < 2:
                return None
            rest = [x for x in args if not (isinstance(x, Apply) and x.op == "exp")]
            return product([*rest, exp(added(inside))])
        case Apply("div", (above, below)):
            top, under = factors(above), factors(below)
            up = [x.args[0] for x in top if isinstance(x, Apply) and x.op == "exp"]
            down = [x.args[0] for x in under if isinstance(x, Apply) and x.op == "exp"]
            if not down:
                return None
            numerator = [x for x in top if not (isinstance(x, Apply) and x.op == "exp")]
            denominator = [x for x in under if not (isinstance(x, Apply) and x.op == "exp")]
            power = exp(added([*up, *(Apply("neg", (d,)) for d in down)]))
            return Apply("div", (product([*numerator, power]), product(denominator)))
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
            return added([*powers, Apply("log", (product(rest),))])
    return None



def _cancel(term: Term) -> Term | None:
    """p − p = 0 inside a sum, wherever the two stand."""
    if not (isinstance(term, Apply) and term.op in ("add", "sub")):
        return None
    parts = addends(term)
    for n, (sign, part) in enumerate(parts):
        for m in range(n + 1, len(parts)):
            if parts[m] == (-sign, part):
                return signed([p for k, p in enumerate(parts) if k not in (n, m)])
    return None



def _common(term: Term) -> Term | None:
    """(p exp(x)) / (q + s exp(x)) = p / (q exp(−x) + s): the scale of a numerator leaves
    with that of its denominator."""
    match term:
        case Apply("div", (above, Apply("add", terms) as below)):
            powers = [x for x in factors(above) if isinstance(x, Apply) and x.op == "exp"]
            scaled = [t for t in terms if powers and powers[0] in factors(t)]
            if not powers or not scaled:
                return None
            inverse = exp(Apply("neg", (powers[0].args[0],)))
            rest = [x for x in factors(above) if x is not powers[0]]
            new = [product([f for f in factors(t) if f != powers[0]]) if t in scaled else mul(t, inverse)
                   for t in terms]
            assert isinstance(below, Apply)
            return Apply("div", (product(rest), added(new)))
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
            outer = mul(c, added(inside)) if inside and power > 0 else None
        case Apply("sqrt", (Apply("mul", args),)):
            inside = [x.args[0] for x in args if isinstance(x, Apply) and x.op == "exp"]
            outer = mul(const(Fraction(1, 2)), added(inside)) if inside else None
        case _:
            return None
    if outer is None:
        return None
    assert isinstance(term, Apply)
    rest = product([x for x in args if not (isinstance(x, Apply) and x.op == "exp")])
    return mul(Apply(term.op, (rest, *term.args[1:])), exp(outer))


RULES = (
    Rule(
        "merge exp",
        "exp(p) exp(q) = exp(p + q)",
        "reals",
        _merge_exp,
        (mul(exp(u), v, exp(w)), Apply("div", (mul(u, exp(v)), exp(w)))),
    ),
    Rule("exp zero", "exp(0) = 1, exp(log p) = p", "reals", _exp_zero,
         (exp(ZERO), exp(Apply("log", (Apply("abs", (u,)),))))),
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
