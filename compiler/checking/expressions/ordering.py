"""Points in order: `topk_{s ≤ t}(x_{t s}, r)`, where the r-th largest stands, and the sets that are made of it."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase

from einc.checking.declarations.names import head
from einc.checking.declarations.scope import Members, Signature
from einc.checking.expressions.predicates import binder
from einc.checking.expressions.rules import closed
from einc.checking.expressions.values import Context, Value, once
from einc.errors.problems import BadDeclaration, BoundTwice, ChosenLater, WrongArguments, WrongType
from einc.errors.report import Help, Span
from einc.ir.domains import proves
from einc.ir.elements import INTEGER
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet
from einc.ir.programs import Equation, Tensor, slot_of
from einc.ir.terms import ONE, TRUE, Apply, Fold, Position, Read, Term, Where, both, free_indices
from einc.syntax import tree as s


def place(context: Context, scripts: tuple[s.Script, ...], group: s.Group, span: Span) -> Value:
    """Where the largest, second largest … stands; the number before the first element where there are fewer. Raises
    WrongArguments or WrongType."""
    if len(group.items) != 2:
        raise WrongArguments(f"`topk` takes 2 arguments, not {len(group.items)}", span, notes=(
            "they are what is compared, and which of the ordered elements is asked for: `topk_{s ≤ t}(I_{t s}, r)`",))
    rank = once(context.value(group.items[1]))
    if not rank.integer and not isinstance(rank.term, Position):
        raise WrongType(f"`{group.items[1].span.text}` is no whole number, so no element stands at that place",
                        group.items[1].span)
    found = _ordered(context, scripts, group.items[0], span)
    return replace(found, term=Apply("pick", (found.term, rank.term)), integer=True,
                   free={**found.free, **{i: o for i, o in rank.free.items() if i not in found.free}})


def _ordered(context: Context, scripts: tuple[s.Script, ...], node: s.Expression, span: Span) -> Value:
    """The points of the script's domain in the order of the values that they have. Changes `context.made.bound` and
    `context.made.places`. Raises WrongArguments or BoundTwice."""
    under = binder(context, scripts, span)
    if len(under.bound) != 1:
        raise WrongArguments(f"`topk` runs over one index, its script names {len(under.bound)}", span)
    (index,) = under.bound
    if index in context.held:
        raise BoundTwice(f"index `{index}` is bound already around this", span,
                         helps=(Help(f"write `{index}'` for the inner one"),))
    context.made.bound.add(index)
    inside = context.holding(index)
    inner = once(closed(inside, inside.value(node), node.span))
    domain = both(under.domain, context.restricted(under.bound), inner.domain)
    _in_time(context, index, domain, index in inner.whole_lines and index not in free_indices(domain), span)
    term = Fold("topk", under.bound, domain, inner.term)
    context.made.places.setdefault(term, span)
    context.made.runs_over(term, under.whole | inner.whole_lines)
    free = {i: o for i, o in inner.free.items() if i != index}
    return Value(term, TRUE, free, inner.stated - {index}, bound=inner.bound.union(under.bound), summed=inner.summed,
                 whole_lines=inner.whole_lines - {index})


def _in_time(context: Context, index: Index, domain: Term, meant: bool, span: Span) -> None:
    """Raises ChosenLater unless the domain provably has no later candidates or other requests, or all are `meant`."""
    rule = INDEX_CLASSES[index.set.cls].before or None
    owners = [i for i in context.left or () if i.set == index.set]
    if rule is None or not owners or meant:
        return
    if not any(proves(domain, Apply(rule, (Position(index), Position(i)))) for i in owners):
        owner = min(owners, key=lambda i: i.name)
        later = f"candidates after `{owner}`" if rule == "le" else f"candidates of other requests than `{owner}`"
        raise ChosenLater(f"the set of `{owner}` has {later}", span, helps=(
            Help(f"restrict them: `topk_{{{index} {'≤' if rule == 'le' else '='} {owner}}}(…)`"),
            Help("say of what is compared that all of it is meant: `mask … : all`")))


def choose(context: Context, signature: Signature, members: Members) -> None:
    """Makes the two tensors of a set: its elements by rank, and what is 1 on them. Raises BadDeclaration."""
    operator, group = members.written.factors if isinstance(members.written, s.Product) else (members.written, None)
    found = head(operator)
    if found is None or found[0].text != "topk" or not isinstance(group, s.Group):
        raise BadDeclaration(f"`{members.written.span.text}` is no set", members.written.span,
                             helps=(Help("write `set S_t = topk_{s ≤ t}(I_{t s}, n)`"),))
    ordered = _ordered(context, found[1], group.items[0], members.written.span)
    for index in ordered.free:
        if index not in signature.points.letters and index not in members.loop.layer:
            raise BadDeclaration(f"index `{index}` stands on the right, but the set `{signature.text}` does not have "
                                 f"it",
                                 members.span, helps=(Help(f"give the set the index, or sum over `{index}`"),))
    assert isinstance(ordered.term, Fold)
    for index in signature.points.letters:
        if index not in free_indices(ordered.term):
            raise BadDeclaration(f"the set `{signature.text}` does not depend on `{index}`", members.span,
                                 helps=(Help(f"remove `{index}` from it"),))
    members.index, members.domain = ordered.term.bound[0], ordered.term.domain
    members.key = _stored(context, signature, members, ordered.term)


def _stored(context: Context, signature: Signature, members: Members, ordered: Fold) -> str:
    """The equations of the elements by rank, and of membership; the key of the latter. Changes `context.made.tensors`
    and `context.made.equations`."""
    (element,) = ordered.bound
    set_ = IndexSet(element.set.cls, members.count)
    rank = Index(_letter(context, set_), set_)
    chosen, has = context.made.fresh(f"{signature.key}_chosen"), context.made.fresh(f"{signature.key}_has")
    axes = tuple(map(Position, signature.points.letters))
    slots = tuple(replace(x, name=i.name) for x, i in zip(signature.slots, signature.points.letters, strict=True))
    place, here = Position(rank), Position(element)
    same = Fold("sum", (rank,), TRUE, Where(Apply("eq", (Read(chosen, (*axes, place)), here)), ONE))
    source = " ".join(members.span.text.split())
    context.made.tensors.append(Tensor(chosen, chosen, (*slots, slot_of(rank)), "local", INTEGER))
    context.made.tensors.append(Tensor(has, has, (*slots, slot_of(element)), "local"))
    context.made.equations.append(Equation(chosen, (*axes, place), TRUE, Apply("pick", (ordered, place)), source))
    context.made.equations.append(Equation(has, (*axes, here), TRUE, same, source))
    return has


def _letter(context: Context, set_: IndexSet) -> str:
    """A letter for the ranks of a set, one for each number of elements."""
    names = ("rank", *(f"rank{letter}" for letter in ascii_lowercase))
    free = (x for x in names if x not in context.indices and context.made.ranks.get(x, set_) == set_)
    return next(x for x in free if context.made.ranks.setdefault(x, set_) == set_)
