"""Expression -> Value: sums, products, big operators, applications, names."""

from __future__ import annotations

import math
from fractions import Fraction

from einc.checking.declarations.names import Name, head, index_name, literal, size_name, titled
from einc.checking.expressions.calls import below_a_root, call, is_function
from einc.checking.expressions.ordering import place
from einc.checking.expressions.predicates import binder, is_condition, predicate
from einc.checking.expressions.rules import closed, idle, refuse_indicator
from einc.checking.expressions.spec_calls import is_spec_call, spec_call, spec_name
from einc.checking.expressions.tensors import map_value, read, same
from einc.checking.expressions.values import Context, Occurrence, Value, merged, multiplied, once
from einc.errors.problems import (
    AmbiguousQuotient,
    BadPart,
    BoundTwice,
    CutDomain,
    DoubleScript,
    NeedsArguments,
    NoNumber,
    NotApplicable,
    PartialOutput,
    RelationAsValue,
    TooDeep,
    TwoEquals,
    TwoMeanings,
    Unbound,
)
from einc.errors.report import Help, Label, Silent, Span
from einc.ir.domains import proves
from einc.ir.folds import FOLDS
from einc.ir.indices import WITHOUT_NUMBERS, Index
from einc.ir.indices import size as named_size
from einc.ir.primitives import PRIMITIVES
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Size,
    Term,
    Where,
    both,
    canonical,
    conjuncts,
    const,
    free_indices,
)
from einc.syntax import tree as s

MAX_TERMS = 500
MAX_BINDERS = 40


def value(context: Context, node: s.Expression) -> Value:
    """What an expression means, with its implied sums written out. A Problem where it is a relation or a range."""
    match node:
        case s.Sum(terms, signs):
            return _added(context, terms, signs, node.span)
        case s.Product():
            return closed(context, _product(context, node.factors, node.operators), node.span)
        case s.Relation(_, operators) if "=" in operators or ":=" in operators:
            raise TwoEquals("an equals sign inside a value", node.span, helps=(Help("write two equations"),))
        case s.Relation() | s.Logic():
            raise RelationAsValue(f"`{node.span.text}` is a comparison, not a number", node.span,
                                  helps=(Help("`1[…]` is 1 where it holds and 0 elsewhere", node.span,
                                              f"1[{node.span.text}]",
                                              False),))
        case s.DirectSum() | s.Matrix():
            raise BadPart("`⊕` stands only between whole right sides", node.span,
                          helps=(Help("give it an equation of its own"),))
        case s.Range():
            raise RelationAsValue(f"`{node.span.text}` is a range, not a number", node.span,
                                  helps=(Help("a range stands after `in`: `s ∈ 1..T`"),))
    return closed(context, _factor(context, node), node.span)


# sums


def _added(context: Context, terms: tuple[s.Expression, ...], signs: tuple[str, ...], span: Span) -> Value:
    """Returns the value of a sum; its terms must exist on one domain, and too many of them raise TooDeep."""
    if len(terms) > MAX_TERMS:
        raise TooDeep(f"a sum of {len(terms)} terms", span, helps=(Help("name its parts in equations of their own"),))
    values = [once(value(context, term)) for term in terms]
    if len(values) == 1:
        return values[0] if signs[0] == "+" else _negated(values[0])
    domain = _common_domain(context, values, terms)
    total = Apply("neg", (values[0].term,)) if signs[0] == "-" else values[0].term
    for item, sign in zip(values[1:], signs[1:], strict=True):
        if sign == "-":
            total = Apply("sub", (total, item.term))
        else:
            before = total.args if isinstance(total, Apply) and total.op == "add" else (total,)
            total = Apply("add", (*before, item.term))
    return once(merged(values, total, domain, whole=True))


def _negated(inner: Value) -> Value:
    if isinstance(inner.term, Const):
        return merged([inner], Const(-inner.term.value), inner.domain, whole=True)
    return merged([inner], Apply("neg", (inner.term,)), inner.domain, whole=True)


def _common_domain(context: Context, values: list[Value], terms: tuple[s.Expression, ...]) -> Term:
    """An addend without a restriction takes the other's. Raises PartialOutput where two differ."""
    placed = context.held.union(context.left or ())
    given = both(*(r for r in context.restrictions if free_indices(r) <= placed))
    restricted = [(v, t) for v, t in zip(values, terms, strict=True) if v.domain != TRUE]
    common = restricted[0][0].domain if restricted else TRUE
    for value_, term in restricted[1:]:
        first, domain = restricted[0][0], value_.domain
        if (canonical(domain) == canonical(common)
            or (proves(both(given, domain), common) and proves(both(given, common), domain))):
            continue
        if not (_along_others(first, domain) and _along_others(value_, common)):
            raise PartialOutput("two different restrictions in one sum", restricted[0][1].span, "exists in one domain",
                                Label(term.span, "and this in another"), helps=(Help("write two sums, or one mask"),))
        common = both(common, domain)
    return common


def _along_others(value_: Value, domain: Term) -> bool:
    """Whether another domain restricts the value, which says nothing itself, only where it does not depend on it."""
    own = free_indices(value_.term) | free_indices(value_.domain)
    return all(proves(value_.domain, c) or not free_indices(c) <= own for c in conjuncts(domain))


# products


def _product(context: Context, factors: tuple[s.Expression, ...], operators: tuple[str, ...]) -> Value:
    """Factors side by side; a big operator takes the rest. TooDeep for too many factors."""
    above: list[Value] = []
    below: list[Value] = []
    at = 0
    if len(factors) > MAX_TERMS:
        raise TooDeep(f"a product of {len(factors)} factors", factors[0].span.to(factors[-1].span),
                      helps=(Help("name its parts in equations of their own"),))
    while at < len(factors):
        factor, operator = factors[at], operators[at]
        fold = _big(factor)
        if fold is not None:
            found = _folded(context, fold, factor, factors[at + 1 :], operators[at + 1 :])
            at = len(factors)
        else:
            if operator == "/":
                _quotient(context, factors, operators, at)
            if isinstance(factor, s.Fraction) and operator != "/":
                # `\frac{1}{n} x` is `1/n x`.
                above.append(once(value(context, factor.above)))
                below.append(once(value(context, factor.below)))
                at += 1
                continue
            found, at = _applied(context, factors, operators, at)
        made = found if isinstance(factor, s.Word | s.Scripted) else once(found)
        (below if operator == "/" else above).append(made)
    return multiplied(above, below)


def _quotient(context: Context, factors: tuple[s.Expression, ...], operators: tuple[str, ...], at: int) -> None:
    """Raises AmbiguousQuotient for `a / b c`, which people read in two ways; a number beside the stroke settles it."""
    end = at + 1
    if end < len(factors) and operators[end] == "" and _applies(context, factors[at], factors[end]):
        end += 1
    beside = factors[max(at - 1, 0) : at + 1]
    if end >= len(factors) or operators[end] or any(literal(factor) is not None for factor in beside):
        return
    span = factors[max(at - 1, 0)].span.to(factors[end].span)
    raise AmbiguousQuotient(f"`{span.text}` has two readings", span, helps=(Help("write `(a / b) c` or `a / (b c)`"),))


def _applies(context: Context, factor: s.Expression, following: s.Expression) -> bool:
    """Whether the two are an application, of a function or a map."""
    found = _function(context, factor)
    called = found is not None and (is_function(context, found[0]) or index_name(factor) in context.scope.maps)
    return called and _arguments(following)[0] is not None


def _big(factor: s.Expression) -> str | None:
    """The fold that a big operator names; names of primitives, as max, are functions where they have no script."""
    found = head(factor)
    if found is None or found[0].python not in FOLDS or FOLDS[found[0].python].ordered or found[0].labels:
        return None
    name, scripts = found
    if not scripts and name.python in PRIMITIVES:
        return None
    return name.python


def _folded(context: Context, fold: str, operator: s.Expression, rest: tuple[s.Expression, ...],
            operators: tuple[str, ...]) -> Value:
    """A big operator such as `Σ`, which binds its indices in all of `rest`. Raises Unbound, BoundTwice or TooDeep."""
    found = head(operator)
    assert found is not None
    if not found[1]:
        raise Unbound(f"`{operator.span.text}` without an index to run over", operator.span,
                      helps=(Help("write the index and its domain below it: `sum_{s ≤ t}`"),))
    if not rest or operators[0] == "/":
        raise Unbound(f"`{operator.span.text}` has nothing to run over", operator.span,
                      notes=("a sign begins a new term: what is summed with its sign stands in parentheses",),
                      helps=(Help("write what it runs over after it"),))
    if len(context.held) > MAX_BINDERS:
        raise TooDeep(f"more than {MAX_BINDERS} big operators inside each other", operator.span,
                      helps=(Help("name an inner one in an equation of its own"),))
    under = binder(context, found[1], operator.span)
    bound = frozenset(under.bound)
    for index in under.bound:
        if index in context.held:
            raise BoundTwice(f"index `{index}` is bound already around this", operator.span,
                             helps=(Help(f"write `{index}'` for the inner one"),))
    context.made.bound.update(under.bound)
    context.made.owners.bound(under.bound, operator.span)
    inner_context = context.holding(*under.bound)
    inner = closed(inner_context, _product(inner_context, rest, ("", *operators[1:])), rest[0].span.to(rest[-1].span))
    if math.isinf(FOLDS[fold].start):
        refuse_indicator(inner.term, bound, rest[0].span, "under the function")
    full = both(under.domain, context.restricted(under.bound), inner.domain)
    _not_cut(inner, bound, full, under.said, operator.span)
    idle(context, bound, inner, operator.span, rest[0].span.to(rest[-1].span))
    term = Fold(fold, under.bound, full, inner.term)
    context.made.places.setdefault(term, context.inside.site or operator.span)
    context.made.runs_over(term, under.whole | inner.whole_lines)
    free = {i: o for i, o in inner.free.items() if i not in bound}
    return Value(term, TRUE, free, inner.stated - bound, {i: d for i, d in inner.lines.items() if i not in bound},
                 inner.bound.union(bound), inner.summed, whole_lines=inner.whole_lines - bound)


def _not_cut(inner: Value, bound: frozenset[Index], domain: Term, said: bool, span: Span) -> None:
    """Raises CutDomain for a sum over fewer points than its body was normalised over."""
    for index, line in inner.lines.items():
        if said and index in bound and not proves(line, domain):
            raise CutDomain(f"the sum over `{index}` cuts the domain over which its body was normalised", span,
                            helps=(Help(f"write `Σ_{index}`, or give the body the same mask"),))


# applications


def _applied(context: Context, factors: tuple[s.Expression, ...], operators: tuple[str, ...],
             at: int) -> tuple[Value, int]:
    """One factor, or a name with the parenthesis it is applied to; the position after it. Raises NotApplicable."""
    factor = factors[at]
    following = factors[at + 1] if at + 1 < len(factors) and operators[at + 1] == "" else None
    group, power = _arguments(following)
    if _is_one(factor) and isinstance(following, s.Group) and following.open == "[" and is_condition(following):
        return _indicator(context, following, factor.span.to(following.span)), at + 2
    name = _function(context, factor)
    if name is not None and group is not None:
        span = factor.span.to(group.span)
        if index_name(factor) in context.indices:
            raise NotApplicable(f"`{factor.span.text}` is an index, so `{span.text}` has two readings", factor.span,
                                helps=(Help("write `*` for a product"),))
        if _orders(name[0]):
            return _powered(context, place(context, name[1], group, span), power), at + 2
        if is_function(context, name[0]) and not _is_parameter(context, factor):
            return _powered(context, call(context, name[0], name[1], group, span), power), at + 2
        if (called := index_name(factor)) in context.scope.maps:
            return _powered(context, map_value(context, called, group.items, span), power), at + 2
        if (found := _spec(context, factor, group, span)) is not None:
            return _powered(context, found, power), at + 2
    if (problem := below_a_root(context, factors, at)) is not None:
        raise problem
    return _factor(context, factor), at + 1


def _function(context: Context, factor: s.Expression) -> tuple[Name, tuple[s.Script, ...]] | None:
    """The head of a factor; of a function, with the label of its script."""
    found = titled(factor)
    return found if found is not None and is_function(context, found[0]) else head(factor)


def _orders(name: Name) -> bool:
    """Whether a name is that of a fold that gives points in order."""
    return name.python in FOLDS and FOLDS[name.python].ordered and not name.labels


def _is_one(factor: s.Expression) -> bool:
    return isinstance(factor, s.Number) and Fraction(factor.text) == 1


def _indicator(context: Context, group: s.Group, span: Span) -> Value:
    condition = both(*(predicate(context, item) for item in group.items))
    free = {i: (Occurrence("label", span),) for i in free_indices(condition)}
    asked = both(*(c for c in conjuncts(condition) if not same(c)))  # `1[s = s]` is 1 and has the index s
    return Value(ONE if asked == TRUE else Where(asked, ONE), TRUE, free, integer=True)


def _spec(context: Context, factor: s.Expression, group: s.Group, span: Span) -> Value | None:
    """`spec(X = …)`: arguments by name are those of a spec. Raises Silent for a name whose declaration is wrong."""
    name = spec_name(factor)
    if name is None or not is_spec_call(group):
        return None
    found = head(factor)
    if found is not None and (found[0].base in context.scope.lost or found[0].python in context.scope.lost):
        raise Silent("told with its declaration")
    return spec_call(context, name, group, span)


def _is_parameter(context: Context, node: s.Expression) -> bool:
    found = head(node)
    return found is not None and any(p.name == found[0] for p in context.inside.params)


def _arguments(node: s.Expression | None) -> tuple[s.Group | None, tuple[s.Script, ...]]:
    match node:
        case s.Group("(", ")"):
            return node, ()
        case s.Scripted(s.Group("(", ")") as group, (), scripts):
            return group, scripts
    return None, ()


# single factors


def _factor(context: Context, node: s.Expression) -> Value:
    """The value of a number, group, fraction, root, power or name. Raises NotApplicable or NeedsArguments."""
    match node:
        case s.Number(text):
            return Value(const(Fraction(text)), integer=Fraction(text).denominator == 1)
        case s.Infinity():
            return Value(Const(float("inf")))
        case s.Group(_, _, (inner,)):
            return once(value(context, inner))
        case s.Group():
            raise NotApplicable(f"`{node.span.text}` is a list, not a value", node.span,
                                helps=(Help("write one value in the parentheses"),))
        case s.Fraction(above, below):
            return multiplied([once(value(context, above))], [once(value(context, below))])
        case s.Root(inner):
            root = once(value(context, inner))
            return merged([root], Apply("sqrt", (root.term,)), root.domain)
        case s.Scripted(base, _, scripts) if not isinstance(base, s.Word):
            return _powered(context, _factor(context, base), scripts)
        case s.Scripted(s.Word("e"), (), (s.Script("upper", exponent),)) if (
            exponent is not None and not context.scope.named(_name(node))
        ):
            power = once(value(context, exponent))
            return merged([power], Apply("exp", (power.term,)), power.domain)
        case s.Word() | s.Scripted():
            if (name := head(node)) is not None and _orders(name[0]):
                raise NeedsArguments(f"`{node.span.text}` needs its arguments in parentheses", node.span,
                                     helps=(Help("write what is compared, and which place: `topk_{s ≤ t}(x_s, 1)`"),))
            if _big(node) is not None and not _is_parameter(context, node):
                return _folded(context, "sum", node, (), ())
            return _named(context, node)
    return once(value(context, node))


def _name(node: s.Expression) -> Name:
    found = head(node)
    assert found is not None
    return found[0]


def _powered(context: Context, base: Value, scripts: tuple[s.Script, ...]) -> Value:
    """The value to the powers that hang on it, one after the other. Raises DoubleScript or TooDeep."""
    if len(scripts) > MAX_BINDERS:
        raise TooDeep(f"{len(scripts)} powers on each other", scripts[0].span, helps=(Help("write one power"),))
    for script in scripts:
        if script.kind != "upper" or script.content is None:
            raise DoubleScript(f"`{script.span.text}` hangs on something that has no scripts", script.span,
                               helps=(Help("give the inner expression a name, in an equation of its own"),))
        exponent = once(value(context, script.content))
        made = Apply("pow", (base.term, exponent.term)) if exponent.term != ZERO else ONE  # whatever the number is
        base = merged([once(base), exponent], made, both(base.domain, exponent.domain))
    return base


def _named(context: Context, node: s.Expression) -> Value:
    """An index, an extent, a scalar, or with scripts a tensor or such an extent. Raises TwoMeanings or NoNumber."""
    name = index_name(node)
    index = context.vocabulary(frozenset()).index(name) if name is not None else None
    size = size_name(node)
    known_size = size if context.inside.letters is None and size in context.scope.numbers.sizes else None
    own = index is not None and name is not None and context.own_letter(name.rstrip("'"), known_size)
    known_size = None if own else known_size
    found = None if own else read(context, node, ask=index is not None or known_size is not None)
    meanings = [what for what, meaning in (("an index", index), ("an extent", known_size), ("a tensor", found))
                if meaning is not None]
    if len(meanings) > 1:
        raise TwoMeanings(f"`{node.span.text}` is {' and '.join(meanings)}", node.span,
                          helps=(Help("rename one of them"),))
    if index is not None:
        if index.set.cls in WITHOUT_NUMBERS:
            raise NoNumber(f"`{index}` is an index of class `{index.set.cls}`, which has no numbers", node.span,
                           helps=(Help("declare it with another class if its positions mean something"),))
        return Value(Position(index), free={index: (Occurrence("label", node.span),)}, integer=True)
    if known_size is not None:
        return Value(Size(named_size(known_size)), integer=True)
    assert found is not None
    return found[0] if found[1] is None else _powered(context, found[0], (found[1],))
