"""Predicates and binders: what stands under a big operator, in a mask, after a comma."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, index_name
from einc.checking.declarations.scripts import readings
from einc.checking.declarations.sets import undeclared
from einc.checking.expressions.tensors import member
from einc.checking.expressions.values import Context
from einc.errors.problems import (
    BadLoop,
    BoundAndFree,
    BoundTwice,
    ForeignIndex,
    NoNumber,
    NotApplicable,
    OutOfRange,
    RelationAsValue,
    Unbound,
    UnknownIndex,
)
from einc.errors.report import Help, Silent, Span
from einc.ir.domains import Linear, difference, negation, proves
from einc.ir.indices import WITHOUT_NUMBERS, Index, number, size
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Position,
    Read,
    Size,
    Term,
    both,
    conjuncts,
    const,
    free_indices,
    substitute,
    walk,
)
from einc.syntax import tree as s

_RELATIONS = {"<=": ("le", False), "<": ("lt", False), ">=": ("le", True), ">": ("lt", True), "=": ("eq", False),
              "!=": ("ne", False)}


def is_condition(node: s.Expression) -> bool:
    """Whether the node is a comparison, joins several by `and` or `or`, or is a group of such."""
    match node:
        case s.Relation() | s.Logic():
            return True
        case s.Group(_, _, items):
            return bool(items) and all(map(is_condition, items))
    return False


def predicate(context: Context, node: s.Expression) -> Term:
    """The node as a condition on indices. Raises RelationAsValue."""
    match node:
        case s.Relation(operands, operators):
            return both(*(_related(context, a, o, b)
                          for a, o, b in zip(operands, operators, operands[1:], strict=False)))
        case s.Logic("and", operands):
            return both(*(predicate(context, x) for x in operands))
        case s.Logic("or", operands):
            return Apply("or", tuple(predicate(context, x) for x in operands))
        case s.Logic("not", (inner,)):
            return negation(predicate(context, inner))
        case s.Group(_, _, items) if items:
            return both(*(predicate(context, x) for x in items))
    raise RelationAsValue(f"`{node.span.text}` is no condition", node.span,
                          notes=("a condition compares: `s ≤ t`, `s ∈ (t-W, t]`, `doc_t = doc_s`",))


def _related(context: Context, left: s.Expression, operator: str, right: s.Expression) -> Term:
    """Returns the condition of one comparison or membership; raises RelationAsValue for any other operator."""
    if operator == "in":
        found = member(context, item := context.value(left), left.span, right)
        return _member(context, item.term, right) if found is None else both(item.domain, found)
    if operator not in _RELATIONS:
        raise RelationAsValue(f"`{left.span.to(right.span).text}` compares no positions", left.span.to(right.span),
                              notes=("a condition compares with = ≠ < ≤ > ≥, or says `in` an interval",))
    op, flipped = _RELATIONS[operator]
    pair = _numberless(context, left), _numberless(context, right)
    if any(pair):
        return _same(pair, op, left.span.to(right.span))
    a, b = context.value(left), context.value(right)
    return both(a.domain, b.domain, Apply(op, (b.term, a.term) if flipped else (a.term, b.term)))


def upwards(context: Context, node: s.Expression) -> s.Expression:
    """A condition on the elements of rounds. A range `T..1` is `1..T`: one element at most is lacking to what runs down
    from its first end to the second, be the sizes as they may, and more may be lacking to what runs up. Raises BadLoop
    where neither is proved and no round is left of a range that runs up once sizes are large, and where the index
    stands in an end of its range."""
    match node:
        case s.Relation((item, s.Range(low, high) as found), ("in",)):
            pass
        case _:
            return node
    first, last = context.value(low).term, context.value(high).term
    own = context.vocabulary(frozenset()).index(index_name(item) or "")
    if own is not None and own in free_indices(first) | free_indices(last):
        whole = f"{own.set.start}..{own.set.extent + number(own.set.start - 1)}"
        raise BadLoop(f"the rounds run over `{own}`, and it stands in an end of its own range", node.span,
                      helps=(Help(f"write another index there, or a size: `{whole}`", found.span, whole,
                                  certain=False),))
    sizes = {n for term in (first, last) for x in walk(term) if isinstance(x, Size) for n in x.extent.sizes}
    given = both(*(Apply("le", (ONE, Size(size(n)))) for n in sorted(sizes)))
    up, down = (Apply("le", (a, Apply("add", (b, ONE)))) for a, b in ((first, last), (last, first)))
    if proves(given, up) or not proves(given, down):
        excess = None if proves(given, up) else difference(last, first)
        if excess is not None and not excess.atoms and all(n > 0 for mono, n in excess.constant.terms if mono) and any(
                mono for mono, _ in excess.constant.terms):
            first_, last_ = low.span.text, high.span.text
            down_, up_ = f"{item.span.text} in {first_}..1, {last_} ≤ {item.span.text}", f"{last_}..{first_}"
            raise BadLoop(f"`{node.span.text}` runs up, and has no round where sizes are large", node.span,
                          notes=("a range runs down where that is proved for all sizes from 1",),
                          helps=(Help(f"run down from the last element, and say where it ends: `{down_}`", node.span,
                                      down_, certain=False),
                                 Help(f"write the smaller end first: `{up_}`", found.span, up_, certain=False)))
        return node
    return replace(node, operands=(item, replace(found, low=high, high=low)))


def _numberless(context: Context, node: s.Expression) -> Index | None:
    """The index of a class without numbers that a node is."""
    name = index_name(node)
    index = context.vocabulary(frozenset()).index(name) if name is not None else None
    return index if index is not None and index.set.cls in WITHOUT_NUMBERS else None


def _same(pair: tuple[Index | None, Index | None], op: str, span: Span) -> Term:
    """Elements of a set without numbers are the same or not, and no more can be asked of them. Raises NoNumber for any
    other comparison."""
    a, b = pair
    if a is not None and b is not None and a.set == b.set and op in ("eq", "ne"):
        return Apply(op, (Position(a), Position(b)))
    raise NoNumber(f"`{a or b}` has no number, so it can only be the same as an index of its set or not", span,
                   helps=(Help("compare it with `=` or `≠` to an index of its set"),))


def _member(context: Context, item: Term, node: s.Expression) -> Term:
    """`s ∈ (t-W, t]`, `s ∈ 1..T`, `s ∈ {1, 4}`. Raises Silent or NotApplicable."""
    match node:
        case s.Range(low, high) | s.Group("{", "}", (s.Range(low, high),)):
            return both(Apply("le", (context.value(low).term, item)), Apply("le", (item, context.value(high).term)))
        case s.Group("(" | "[" as opening, ")" | "]" as closing, (low, high)):
            below = Apply("le" if opening == "[" else "lt", (context.value(low).term, item))
            return both(below, Apply("le" if closing == "]" else "lt", (item, context.value(high).term)))
        case s.Group("{", "}", items) if items:
            options = tuple(Apply("eq", (item, context.value(x).term)) for x in items)
            return options[0] if len(options) == 1 else Apply("or", options)
    rounds = context.loop.rounds
    if rounds is not None and rounds.index is not None and rounds.block and index_name(node) == rounds.block:
        return both(Apply("eq", (Read(rounds.key, (item,)), ONE)), substitute(rounds.domain, {rounds.index: item}))
    found = head(node)
    if found is not None and (found[0].base in context.scope.lost or found[0].python in context.scope.lost):
        raise Silent("told with the set")
    raise NotApplicable(f"`{node.span.text}` is no interval and no set", node.span,
                        helps=(Help("write `s ∈ (t-W, t]` or `s ∈ 1..T`"),))


@dataclass(frozen=True, slots=True)
class Binder:
    """The indices that a script names, their domain, whether anything was said about it, and of which all was named."""

    bound: tuple[Index, ...]
    domain: Term
    said: bool
    whole: frozenset[Index] = frozenset()


def binder(context: Context, scripts: tuple[s.Script, ...], span: Span, own: bool = False) -> Binder:
    """What the scripts of a big operator bind; with `own`, what those of a function name, which binds nothing. Raises
    Unbound or BoundTwice."""
    lower = [x for x in scripts if x.kind == "lower"]
    upper = [x for x in scripts if x.kind == "upper"]
    if len(lower) != 1 or len(upper) > 1 or lower[0].content is None:
        raise Unbound(f"`{span.text}` needs one script that says what it runs over", span,
                      helps=(Help("write it below: `_{s ≤ t}`"),))
    content = lower[0].content
    items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
    # A condition is read as in a claim: which index it binds is not known yet, so no rule can say that one is missing.
    asked = replace(context, left=None)
    if upper:
        found = _from_to(asked, items, upper[0])
        conditions, bound = list(conjuncts(found.domain)), list(found.bound)
    else:
        bound, conditions = [], []
        for item in items:
            names = _names(context, item)
            if names is None:
                conditions.append(predicate(asked, item))
            else:
                bound += names
    if not bound:
        around = context.held.union(context.left or ())
        named = [i for item in items for i in _alone(context, item)] + [i for c in conditions for i in _in_order(c)]
        # A claim does not say which indices are free: the first one is meant.
        meant = named[:1] if context.left is None else named
        bound += named[:1] if own and context.left is None else [i for i in meant if i not in around][:1]
        bound += named[:1] if own and not bound else []
    if not bound:
        raise BoundTwice(f"`{span.text}` binds no new index", lower[0].span,
                         helps=(Help("write a primed index for the inner one"),))
    _in_scope(context, bound, conditions, lower[0].span, own)
    said = both(*conditions)
    whole = frozenset(i for i in bound if _end_to_end(i, said))
    return Binder(tuple(bound), both(*(c for c in conjuncts(said) if not proves(TRUE, c))), bool(conditions), whole)


def _end_to_end(index: Index, said: Term) -> bool:
    """Whether a script names the first and the last element of the index and asks for no more: `s ∈ 1..T`."""
    here, over = Position(index), index.set
    first, last = const(over.start), Size(over.extent + number(over.start - 1))
    about = [c for c in conjuncts(said) if index in free_indices(c)]
    ends = [Apply("le", (first, here)), Apply("le", (here, last))]
    return len(about) == len(ends) and all(any(_alike(c, end) for c in about) for end in ends)


def _alike(a: Term, b: Apply) -> bool:
    """Whether two comparisons say the same of the same."""
    zero = Linear((), number(0))
    return (isinstance(a, Apply) and a.op == b.op
            and all(difference(x, y) == zero for x, y in zip(a.args, b.args, strict=True)))


def _alone(context: Context, node: s.Expression) -> list[Index]:
    """The indices that a condition names on their own: `s` in `s ≤ t`, in `s ∈ (t-W, t]`, in `t-W < s ≤ t`."""
    operands = node.operands if isinstance(node, s.Relation) else ()
    if isinstance(node, s.Relation) and node.operators[0] == "in":
        operands = operands[:1]
    names = [index_name(x) for x in operands]
    found = [context.vocabulary(frozenset()).index(n) for n in names if n is not None]
    return [i for i in found if i is not None]


def _from_to(context: Context, items: tuple[s.Expression, ...], upper: s.Script) -> Binder:
    """`Σ_{j=1}^{n}` is `Σ_{1 ≤ j ≤ n}`. Raises UnknownIndex or Unbound."""
    match items:
        case (s.Relation((left, low), ("=",)),) if (
            (index := index_name(left)) is not None and upper.content is not None
        ):
            found = context.vocabulary(frozenset()).index(index)
            if found is None:
                raise UnknownIndex(f"`{index}` is no declared index", left.span, once=index,
                                   helps=(undeclared(index),))
            here = Position(found)
            least, high = context.value(low).term, context.value(upper.content).term
            _within(found, least, high, low.span.to(upper.span))
            return Binder((found,), both(Apply("le", (least, here)), Apply("le", (here, high))), True)
    raise Unbound("bounds are written `Σ_{j=1}^{n}`", upper.span,
                  helps=(Help("write the domain below: `Σ_{1 ≤ j ≤ n}`"),))


def _within(index: Index, low: Term, high: Term, span: Span) -> None:
    """Raises OutOfRange where bounds surely leave the values of the index: what is not there would be left out without
    a word.
    """
    over = index.set
    first, last = const(over.start), Size(over.extent + number(over.start - 1))
    before = proves(TRUE, Apply("lt", (low, first)))
    top = Size(high.index.set.extent + number(high.index.set.start - 1)) if isinstance(high, Position) else high
    if before or proves(TRUE, Apply("lt", (last, top))):
        end = f"begins at {over.start}" if before else f"ends at {over.extent + number(over.start - 1)}"
        zero = Help(f"where counting from 0 is meant, declare it: `index {index} : {over.cls}(0..{over.extent}-1)`")
        raise OutOfRange(f"`{index}` {end}, and the sum goes beyond", span,
                         helps=(zero if before else Help("end with the last value"),))


def _in_scope(context: Context, bound: list[Index], conditions: list[Term], span: Span, own: bool) -> None:
    """Raises BoundAndFree for a bound index that stands on the left, and ForeignIndex for one that is not in scope."""
    if context.left is None:
        return
    scope = context.held.union(context.left)
    for index in bound:
        if index in context.left and index not in context.held and not own:
            raise BoundAndFree(f"index `{index}` is bound here, but stands on the left", span,
                               helps=(Help(f"write `{index}'` for the bound one"),))
    for index in (i for condition in conditions for i in _in_order(condition)):
        if index not in scope and index not in bound:
            raise ForeignIndex(f"index `{index}` is not in scope here", span,
                               notes=(f"in scope are {', '.join(sorted(f'`{i}`' for i in {*scope, *bound}))}",),
                               helps=(_also(bound, index),) if bound else ())


def _also(bound: list[Index], index: Index) -> Help:
    """How an operator runs over one more index: those that it runs over stand before its conditions."""
    return Help(f"to run over `{index}` too, name it before the conditions: `{' '.join(map(str, bound))} {index}, …`")


def _in_order(term: Term) -> list[Index]:
    match term:
        case Position(index):
            return [index]
    found: list[Index] = []
    for inner in getattr(term, "args", ()) or getattr(term, "subs", ()):
        found += [i for i in _in_order(inner) if i not in found]
    return found or sorted(free_indices(term), key=lambda i: i.name)


def _names(context: Context, node: s.Expression) -> list[Index] | None:
    """The indices of a plain list such as `s`, `s h` or, for a composite, `(y x)`; None for a condition. Raises Silent
    or UnknownIndex."""
    match node:
        case s.Group("(", ")", (s.Product(_, operators) as inner,)) if not any(operators):
            return _names(context, inner)
    if not isinstance(node, s.Word | s.Scripted | s.Product):
        return None
    found = readings((s.Script("lower", node, "", node.span),), context.vocabulary(frozenset()))
    plain = [r for r in found if r and all(i.kind == "index" for i in r)]
    if len(plain) != 1:
        if any(c in context.scope.lost for c in (*node.span.text, node.span.text)):
            raise Silent("told with the index")
        raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span, once=node.span.text,
                           helps=(undeclared(node.span.text),) if isinstance(node, s.Word) else (),
                           notes=(f"the indices are {', '.join(f'`{i}`' for i in context.indices) or 'none'}",))
    return [i.index for i in plain[0] if i.index is not None]


def restriction(context: Context, clauses: tuple[s.Clause, ...]) -> Term:
    """The condition that all conditions of a list with commas hold; true where there are none."""
    return both(*(predicate(context, c.body) for c in clauses)) if clauses else TRUE
