"""0-or-value terms, and the elimination of an equality: δ, gates, the metric and one-hot maps are all this."""

from __future__ import annotations

from einc.ir.domains import linear, proves
from einc.ir.indices import DATA, Index, number
from einc.ir.terms import (
    FALSE,
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    substitute,
)
from einc.transforms.laws.rule import I, J, Rule, add, eq, i, j, le, mul, u, v, w, x


def _itself(term: Term) -> Term | None:
    match term:
        case Where(condition, then) if (rest := _without_itself(condition)) != condition:
            return Where(rest, then)
        case Fold(op, bound, domain, body) if (rest := _without_itself(domain)) != domain:
            return Fold(op, bound, rest, body)
    return None


def _without_itself(condition: Term) -> Term:
    """The condition without saying of positions that they are themselves."""

    def said(atom: Term) -> bool:
        match atom:
            case Apply("eq", (Position() as a, b)):
                return a != b
        return True

    atoms = conjuncts(condition)
    return condition if all(map(said, atoms)) else both(*filter(said, atoms))


def _where(term: Term) -> Term | None:
    """Resolves a decided `Where`, joins nested ones, and moves one out of a product, a numerator or a negation."""
    match term:
        case Where(condition, then) if condition == TRUE:
            return then
        case Where(condition, _) if condition == FALSE:
            return ZERO
        case Where(_, then) if then == ZERO:
            return ZERO
        case Where(outer, Where(inner, then)):
            return Where(both(outer, inner), then)
        case Apply("mul", args) if any(isinstance(y, Where) for y in args):
            conditions = both(*(y.condition for y in args if isinstance(y, Where)))
            return Where(conditions, mul(*(y.then if isinstance(y, Where) else y for y in args)))
        case Apply("div", (Where(condition, then), below)):
            return Where(condition, Apply("div", (then, below)))
        case Apply("neg", (Where(condition, then),)):
            return Where(condition, Apply("neg", (then,)))
    return None


def _into_sum(term: Term) -> Term | None:
    match term:
        case Fold("sum", bound, domain, Where(condition, then)) if bound:
            return Fold("sum", bound, both(domain, condition), then)
        case Fold("sum", (), domain, body):
            return Where(domain, body) if domain != TRUE else body
    return None


def _eliminate(term: Term) -> Term | None:
    """Σ_{i : i = e} f(i) = f(e), where e lies in the range of i."""
    match term:
        case Fold("sum", bound, domain, body):
            for atom in conjuncts(domain):
                found = _solved(atom, bound)
                if found is not None:
                    index, value = found
                    rest = both(*(c for c in conjuncts(domain) if c is not atom), *_in_range(index, value))
                    by = {index: value}
                    kept = tuple(b for b in bound if b != index)
                    return Fold("sum", kept, substitute(rest, by), substitute(body, by))
    return None


def _solved(atom: Term, bound: tuple[Index, ...]) -> tuple[Index, Term] | None:
    """The bound index that an equation fixes, and the value that it fixes it at; None where it fixes none."""
    match atom:
        case Apply("eq", (Position(index), value)) if (
            index in bound and index not in free_indices(value) and _whole(index, value)
        ):
            return index, value
        case Apply("eq", (value, Position(index))) if (
            index in bound and index not in free_indices(value) and _whole(index, value)
        ):
            return index, value
        case Apply("eq", (value, form)):
            return _moved(value, form, bound) or _moved(form, value, bound)
    return None


def _moved(value: Term, form: Term, bound: tuple[Index, ...]) -> tuple[Index, Term] | None:
    """The letter of the model's in a form e ± i that is equal to a value; one of the data's stays where it streams."""
    found = [i for i in free_indices(form) if i in bound and i.set.cls not in DATA]
    whole = (len(found) == 1 and found[0] not in free_indices(value) and _whole(found[0], value)
             and _whole(found[0], form))
    inner = linear(form) if whole else None
    if inner is None or (factor := inner.coefficient(Position(found[0])).constant) not in (1, -1):
        return None
    if any(found[0] in free_indices(atom) for atom, _ in inner.without(Position(found[0])).atoms):
        return None
    rest = substitute(form, {found[0]: const(0)})
    return found[0], Apply("sub", (value, rest) if factor == 1 else (rest, value))


def _whole(index: Index, value: Term) -> bool:
    """Positions and whole-number arithmetic on them; data may hold anything."""
    match value:
        case Position() | Size():
            return True
        case Apply("add" | "sub" | "mul" | "neg" | "floor" | "ceil" | "mod" | "min" | "max", args):
            return all(_whole(index, y) for y in args)
    return value == const(0) or (hasattr(value, "value") and getattr(value.value, "denominator", 0) == 1)


def _in_range(index: Index, value: Term) -> list[Term]:
    if isinstance(value, Position) and value.index.set == index.set:
        return []
    low = Apply("le", (const(index.set.start), value))
    high = Apply("le", (value, Size(index.set.extent + number(index.set.start - 1))))
    return [c for c in (low, high) if not proves(TRUE, c)]


def _gated(term: Term, bound: tuple[Index, ...]) -> bool:
    """A sum with an addend that an elimination would shorten."""
    match term:
        case Apply("add" | "sub", args):
            return any(_gated(y, bound) for y in args)
        case Apply("neg", (y,)):
            return _gated(y, bound)
        case Where(condition, _):
            return any(_solved(c, bound) is not None for c in conjuncts(condition))
    return False


def _distribute(term: Term) -> Term | None:
    """Σ p (q + s) = Σ p q + Σ p s, where that lets a δ be eliminated."""
    match term:
        case Fold("sum", bound, domain, body):
            factors = body.args if isinstance(body, Apply) and body.op == "mul" else (body,)
            for at, factor in enumerate(factors):
                if isinstance(factor, Apply) and factor.op in ("add", "sub") and _gated(factor, bound):
                    parts = tuple(Fold("sum", bound, domain, mul(*factors[:at], y, *factors[at + 1 :]))
                                  for y in factor.args)
                    return Apply(factor.op, parts)
    return None


RULES = (
    Rule(
        "itself",
        "𝟙[i = i, p] x = 𝟙[p] x",
        "floats",
        _itself,
        (Where(both(eq(i, i), le(i, j)), w), Fold("sum", (I,), both(eq(i, i), le(i, j)), w)),
    ),
    Rule(
        "where",
        "𝟙[p] 𝟙[q] x = 𝟙[p, q] x, (𝟙[p] x) y = 𝟙[p] x y",
        "floats",
        _where,
        (Where(le(i, j), Where(eq(i, j), w)), mul(u, Where(le(i, j), w), v), Apply("div", (Where(le(i, j), w), x))),
    ),
    Rule("gate into sum", "Σ_i 𝟙[p] x = Σ_{i : p} x", "floats", _into_sum,
         (Fold("sum", (I,), TRUE, Where(le(i, j), w)),)),
    Rule(
        "eliminate",
        "Σ_{i : i = j} f(i) = f(j)",
        "floats",
        _eliminate,
        (Fold("sum", (I,), eq(i, j), mul(u, w)), Fold("sum", (I, J), both(eq(j, i), le(i, j)), mul(u, w)),
         Fold("sum", (I,), eq(j, Apply("sub", (const(3), i))), mul(u, w))),
    ),
    Rule(
        "distribute",
        "Σ p (q + s) = Σ p q + Σ p s, where a gate then goes",
        "reals",
        _distribute,
        (Fold("sum", (I,), TRUE, mul(u, add(Where(eq(i, j), x), Where(le(i, j), w)))),),
    ),
)
