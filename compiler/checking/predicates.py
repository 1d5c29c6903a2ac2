"""Predicates and binders: what stands under a big operator, in a mask, after a comma."""

from __future__ import annotations

from einc import syntax as s
from einc.checking.names import index_name
from einc.checking.scripts import readings
from einc.checking.values import Context
from einc.domains import proves
from einc.errors import Help, Span
from einc.indices import Index
from einc.problems import BoundAndFree, BoundTwice, ForeignIndex, NotApplicable, RelationAsValue, Unbound, UnknownIndex
from einc.terms import TRUE, Apply, Position, Term, both, conjuncts, free_indices

_RELATIONS = {"<=": ("le", False), "<": ("lt", False), ">=": ("le", True), ">": ("lt", True), "=": ("eq", False), "!=": ("ne", False)}


def predicate(context: Context, node: s.Expression) -> Term:
    """The node as a condition on indices."""
    match node:
        case s.Relation(operands, operators):
            return both(*(_related(context, a, o, b) for a, o, b in zip(operands, operators, operands[1:], strict=False)))
        case s.Logic("and", operands):
            return both(*(predicate(context, x) for x in operands))
        case s.Logic("or", operands):
            return Apply("or", tuple(predicate(context, x) for x in operands))
        case s.Logic("not", (inner,)):
            return Apply("not", (predicate(context, inner),))
        case s.Group(_, _, (inner,)):
            return predicate(context, inner)
    raise RelationAsValue(f"`{node.span.text}` is no condition", node.span, notes=("a condition compares: `s ≤ t`, `s ∈ (t-W, t]`, `doc_t = doc_s`",))


def _related(context: Context, left: s.Expression, operator: str, right: s.Expression) -> Term:
    if operator == "in":
        return _member(context, context.value(left).term, right)
    if operator not in _RELATIONS:
        raise RelationAsValue(f"`{operator}` is no comparison of positions", left.span.to(right.span))
    op, flipped = _RELATIONS[operator]
    a, b = context.value(left), context.value(right)
    return both(a.domain, b.domain, Apply(op, (b.term, a.term) if flipped else (a.term, b.term)))


def _member(context: Context, item: Term, node: s.Expression) -> Term:
    """`s ∈ (t-W, t]`, `s ∈ 1..T`, `s ∈ {1, 4}`."""
    match node:
        case s.Range(low, high) | s.Group("{", "}", (s.Range(low, high),)):
            return both(Apply("le", (context.value(low).term, item)), Apply("le", (item, context.value(high).term)))
        case s.Group("(" | "[" as opening, ")" | "]" as closing, (low, *between, high)) if all(isinstance(x, s.Range) for x in between):
            below = Apply("le" if opening == "[" else "lt", (context.value(low).term, item))
            return both(below, Apply("le" if closing == "]" else "lt", (item, context.value(high).term)))
        case s.Group("{", "}", items):
            options = tuple(Apply("eq", (item, context.value(x).term)) for x in items)
            return options[0] if len(options) == 1 else Apply("or", options)
    raise NotApplicable(f"`{node.span.text}` is no interval and no set", node.span, helps=(Help("write `s ∈ (t-W, t]` or `s ∈ 1..T`"),))


def _said(context: Context, node: s.Expression) -> list[Index]:
    """The indices that a condition names on their own: `s` in `s ≤ t`, in `s ∈ (t-W, t]`, in `t-W < s ≤ t`."""
    operands = node.operands if isinstance(node, s.Relation) else ()
    if isinstance(node, s.Relation) and node.operators[0] == "in":
        operands = operands[:1]
    names = [index_name(x) for x in operands]
    found = [context.vocabulary(frozenset()).index(n) for n in names if n is not None]
    return [i for i in found if i is not None]


def binder(context: Context, scripts: tuple[s.Script, ...], span: Span, own: bool = False) -> tuple[tuple[Index, ...], Term, bool]:
    """The indices that the scripts bind, their domain, and whether anything was said about it."""
    lower = [x for x in scripts if x.kind == "lower"]
    upper = [x for x in scripts if x.kind == "upper"]
    if len(lower) != 1 or len(upper) > 1 or lower[0].content is None:
        raise Unbound(f"`{span.text}` needs one script that says what it runs over", span)
    content = lower[0].content
    items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
    if upper:
        return _from_to(context, items, upper[0])
    bound: list[Index] = []
    conditions: list[Term] = []
    for item in items:
        names = _names(context, item)
        if names is not None:
            bound += names
        else:
            conditions.append(predicate(context, item))
    scope = context.held.union(context.left or ())
    if not bound:
        named = [i for item in items for i in _said(context, item)] + [i for c in conditions for i in _in_order(c)]
        bound += [i for i in named if i not in scope][:1] or (named[:1] if own else [])
    if not bound:
        raise BoundTwice(f"`{span.text}` binds no new index", lower[0].span, helps=(Help("write a primed index for the inner one"),))
    _in_scope(context, bound, conditions, lower[0].span, own)
    said = both(*conditions)
    return tuple(bound), both(*(c for c in conjuncts(said) if not proves(TRUE, c))), bool(conditions)


def _from_to(context: Context, items: tuple[s.Expression, ...], upper: s.Script) -> tuple[tuple[Index, ...], Term, bool]:
    """`Σ_{j=1}^{n}` is `Σ_{1 ≤ j ≤ n}`."""
    match items:
        case (s.Relation((left, low), ("=",)),) if (index := index_name(left)) is not None and upper.content is not None:
            found = context.vocabulary(frozenset()).index(index)
            if found is None:
                raise UnknownIndex(f"`{index}` is no declared index", left.span)
            here = Position(found)
            high = context.value(upper.content).term
            domain = both(Apply("le", (context.value(low).term, here)), Apply("le", (here, high)))
            return (found,), both(*(c for c in conjuncts(domain) if not proves(TRUE, c))), True
    raise Unbound("bounds are written `Σ_{j=1}^{n}`", upper.span)


def _in_scope(context: Context, bound: list[Index], conditions: list[Term], span: Span, own: bool) -> None:
    scope = context.held.union(context.left or ())
    for index in bound:
        if context.left is not None and index in context.left and not own:
            raise BoundAndFree(f"index `{index}` is bound here, but stands on the left", span, helps=(Help(f"write `{index}'` for the bound one"),))
    for condition in conditions:
        for index in _in_order(condition):
            if context.left is not None and index not in scope and index not in bound:
                raise ForeignIndex(f"index `{index}` is not in scope here", span,
                                   notes=(f"in scope are {', '.join(sorted(f'`{i}`' for i in [*scope, *bound]))}",))


def _in_order(term: Term) -> list[Index]:
    match term:
        case Position(index):
            return [index]
    found: list[Index] = []
    for inner in getattr(term, "args", ()) or getattr(term, "subs", ()):
        found += [i for i in _in_order(inner) if i not in found]
    return found or sorted(free_indices(term), key=lambda i: i.name)


def _names(context: Context, node: s.Expression) -> list[Index] | None:
    """The indices of a plain list such as `s` or `s h`; None for a condition."""
    if not isinstance(node, s.Word | s.Scripted | s.Product):
        return None
    found = readings((s.Script("lower", node, "", node.span),), context.vocabulary(frozenset()))
    plain = [r for r in found if r and all(i.kind == "index" for i in r)]
    if len(plain) != 1:
        raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span,
                           helps=(Help(f"declare it: `index {node.span.text} : time(T)`"),) if isinstance(node, s.Word) else ())
    return [i.index for i in plain[0] if i.index is not None]


def restriction(context: Context, clauses: tuple[s.Clause, ...]) -> Term:
    """A comma list of conditions."""
    return both(*(predicate(context, c.body) for c in clauses)) if clauses else TRUE
