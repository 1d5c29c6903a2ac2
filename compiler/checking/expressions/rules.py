"""The position rules of one product term: pairs are contracted, what stands once stays free, the rest is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from einc.checking.expressions.values import Context, Occurrence, Value
from einc.errors.problems import (
    BoundAndFree,
    FreeOnRight,
    IdleBinder,
    IndicatorFactor,
    SameLevel,
    TemporalSum,
    ThreeTimes,
    TwoReadings,
)
from einc.errors.report import Help, Label, Span
from einc.ir.indices import Index
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    children,
    conjuncts,
    free_indices,
    reads,
)

_PAIR = 2


def closed(context: Context, value: Value, span: Span) -> Value:
    """The value of a product term with its implied sums written out."""
    contracted: list[Index] = []
    free: dict[Index, tuple[Occurrence, ...]] = {}
    for index, found in value.free.items():
        here = context.left is not None and index in context.left
        if index in context.held:  # and on the left: what a function's script binds around its argument
            free.update({index: found[:1]} if here else {})
        elif here:
            _two_readings(index, found)
            free[index] = found[:1]
        elif _pairs(context, index, found, value):
            contracted.append(index)
        else:
            free[index] = found
    out = replace(value, free=free)
    if not contracted:
        return out
    inside = [c for c in conjuncts(value.domain) if free_indices(c) & set(contracted)]
    outside = [c for c in conjuncts(value.domain) if not free_indices(c) & set(contracted)]
    term = Fold("sum", tuple(contracted), both(*inside), value.term)
    context.made.places.setdefault(term, context.inside.site or span)
    if context.inside.site is None:
        context.scope.texts.implied[span] = tuple(contracted)
    return replace(out, term=term, domain=both(*outside), summed=value.summed.union(contracted), integer=False)


def _two_readings(index: Index, found: tuple[Occurrence, ...]) -> None:
    """Raises TwoReadings for an index of the left side, of a class whose pairs are summed, that stands above and
    below."""
    levels = [o.level for o in found]
    if index.set.summed and "upper" in levels and "lower" in levels:
        raise TwoReadings(f"index `{index}` is a pair and stands on the left too", found[0].span,
                          "lower" if levels[0] == "lower" else "upper", *(Label(o.span) for o in found[1:]),
                          notes=(f"`{index}` is of class `{index.set.cls}`: a pair is summed, an index on the left is "
                                 f"free",),
                          helps=(Help(f"write `({index})` in parentheses to label elements, or another letter to "
                                      f"sum"),))


def _pairs(context: Context, index: Index, found: tuple[Occurrence, ...], value: Value) -> bool:
    """Whether the occurrences are a pair to be summed; an error where the rules refuse them. Changes
    `context.report`."""
    first, *others = found
    if index in value.bound or (not others and index in value.summed):
        raise BoundAndFree(f"index `{index}` is bound inside and free outside", first.span, "free here",
                           helps=(Help(f"rename one of the two, `{index}'` for instance"),))
    if not others:
        return False
    labels = [Label(o.span, "second use" if n == 0 else "again") for n, o in enumerate(others)]
    if not index.set.summed:
        if context.left is None:
            return False
        raise _temporal(index, found, labels, value)
    levels = {o.level for o in found}
    if context.left is None and (len(found) != _PAIR or levels != {"upper", "lower"}):
        return False
    if len(found) > _PAIR:
        raise ThreeTimes(f"index `{index}` stands {len(found)} times in one term", first.span, "", *labels,
                         helps=(Help("write the sum that is meant, or rename one pair"),))
    if "label" in levels:
        raise FreeOnRight(f"index `{index}` stands in parentheses, so it is not summed, and it is not on the left",
                          first.span, "",
                          *labels,
                          helps=(Help(f"put `{index}` on the left, or write `Σ_{index}`"),))
    if len(levels) == 1:
        context.report.add(SameLevel(f"index `{index}` is summed, but both occurrences are "
                                     f"{'down' if 'lower' in levels else 'up'}",
                                     first.span, "", *labels, helps=(_sum("the explicit form", first, f"Σ_{index} "),)))
    return True


def _temporal(index: Index, found: tuple[Occurrence, ...], labels: list[Label], value: Value) -> TemporalSum:
    """The problem of an index of a line that is repeated without a sum, with the sum that may be meant."""
    domain = both(*(c for c in conjuncts(value.domain) if index in free_indices(c)))
    binder = f"Σ_{{{show_domain(domain)}}} " if domain != TRUE else f"Σ_{index} "
    masked = next((o.masked for o in found if o.masked), "")
    kind = {"time": "temporal", "request": "request", "batch": "batch"}.get(index.set.cls, index.set.cls)
    return TemporalSum(f"{kind} index `{index}` is repeated but would be summed implicitly", found[0].span,
                       "first use", *labels,
                       notes=(f"`{index}` is of class `{index.set.cls}`, which is only summed explicitly",),
                       helps=(_sum(f"sum over the domain of {masked}" if masked and domain != TRUE
                                   else "write the sum and its domain",
                                   found[0], binder, domain != TRUE),))


def _sum(text: str, first: Occurrence, binder: str, certain: bool = True) -> Help:
    return Help(text, first.factor.before() if first.factor else None, binder if first.factor else None, certain)


def idle(context: Context, bound: frozenset[Index], inner: Value, operator: Span, body: Span) -> None:
    """Reports a big operator over an index that nothing has, unless it counts: `Σ_{s ≤ t} 1`. A definition is not
    blamed for its argument.
    """
    present = free_indices(inner.term) | free_indices(inner.domain)
    if context.inside.letters is not None or not (present or any(True for _ in reads(inner.term))):
        return
    for index in sorted(bound - present, key=lambda i: i.name):
        context.report.add(IdleBinder(
            f"`{operator.text}` runs over `{index}`, which what stands after it does not have", operator, "",
            Label(body, f"has no `{index}`"),
            helps=(Help(f"write `{index}` where it is meant, or count on purpose: `({operator.text} 1)`"),)))


_SIGNS = {"le": "≤", "lt": "<", "eq": "=", "ne": "≠", "and": "and", "or": "or", "add": "+", "sub": "-", "mul": "",
          "div": "/"}


def _signed(terms: list[str]) -> str:
    """A sum, in which a term that begins with a minus is taken away: `i - s - 1`."""
    said = [text.removeprefix("-1 ") if text.startswith("-1 ") else text.removeprefix("-") for text in terms]
    minus = [text.startswith("-") for text in terms]
    first = terms[0] if terms[0] != f"-1 {said[0]}" else f"-{said[0]}"
    return first + "".join(f" {'-' if less else '+'} {text}" for text, less in zip(said[1:], minus[1:], strict=True))


def show_domain(term: Term) -> str:
    """A predicate as the language writes it, for messages."""
    match term:
        case Position(index):
            return index.name
        case Const(value):
            return str(value) if isinstance(value, Fraction) else "∞"
        case Size(extent):
            return str(extent)
        case Apply("and", args):
            return ", ".join(map(show_domain, args))
        case Apply("not" | "neg" as op, (inner,)):
            return f"not ({show_domain(inner)})" if op == "not" else f"-{show_domain(inner)}"
        case Apply("add", args):
            return _signed([show_domain(x) for x in args])
        case Apply(op, args) if op in _SIGNS:
            return f" {_SIGNS[op]} ".replace("  ", " ").join(map(show_domain, args))
        case Apply(op, args):
            return f"{op}({', '.join(map(show_domain, args))})"
        case Read(tensor, subs):
            return tensor + (f"_{{{' '.join(map(show_domain, subs))}}}" if subs else "")
    return "…"


def refuse_indicator(term: Term, own: frozenset[Index], span: Span, place: str) -> None:
    """Raises IndicatorFactor where a 0 meant as an absence takes part in a line; a restriction may stand at `place`."""
    stack = [term]
    while stack:
        inside = stack.pop()
        if isinstance(inside, Where) and free_indices(inside.condition) & own:
            raise IndicatorFactor("an indicator is a number here, so the places where it is 0 still take part", span,
                                  helps=(Help(f"write the restriction as a mask, or {place}"),))
        if isinstance(inside, Fold):
            return
        if not isinstance(inside, Read):  # in a slot it is a part of a position
            stack += children(inside)[::-1]
