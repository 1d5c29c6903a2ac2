"""Reads: a name with its scripts -> the one signature they fit, its subscripts, its domain."""

from __future__ import annotations

from dataclasses import replace

from einc.checking.declarations.names import Name, head, literal
from einc.checking.declarations.raised import computed, exponent
from einc.checking.declarations.scope import Signature
from einc.checking.declarations.scripts import Item, Level, carrying, labelled, readings, spaced
from einc.checking.declarations.slots import match_slots, packed_set, standing
from einc.checking.expressions.inferred import applied, inferred, left_unread
from einc.checking.expressions.misses import unmatched
from einc.checking.expressions.values import Context, Occurrence, Parameter, Value, merged, once
from einc.errors.problems import (
    AmbiguousScript,
    IdleDelta,
    NotApplicable,
    UnreadableScript,
    WrongArguments,
    WrongSet,
    WrongType,
)
from einc.errors.report import Help, Problem, Silent, Span
from einc.ir.indices import Index, IndexSet, number
from einc.ir.primitives import CONSTANTS
from einc.ir.programs import Slot, slot_of
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Pack,
    Part,
    Position,
    Read,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    substitute,
)
from einc.syntax import tree as s

_Match = tuple[Signature | Parameter, tuple[Item, ...]]


def read(context: Context, node: s.Expression, ask: bool = False) -> tuple[Value, s.Script | None] | None:
    """The value of a name, and the script that raises it to a power where one does; with `ask`, None where no tensor
    has it.
    """
    found = head(node)
    assert found is not None
    stem, scripts = found
    special = _kronecker(context, stem, scripts, node.span)
    if special is not None:
        return special, None
    matches, raises = _in_range(_matches(context, stem, scripts, node.span)), bool(scripts) and _raises(scripts[-1])
    powered = _matches(context, stem, scripts[:-1], node.span) if raises else []
    if len(matches) + len(powered) > 1:
        raise _ambiguous(context, node, matches, powered)
    if not matches and not powered:
        if ask:
            return None
        if (number_ := _constant(context, stem, scripts, node)) is not None:
            return number_
        matches = [inferred(context, stem, scripts, node)]
    ((target, items),) = matches or powered
    value = (_parameter(context, target, items) if isinstance(target, Parameter)
             else _tensor(context, target, items, node.span))
    masked = "" if isinstance(target, Parameter) else _masked(target)
    value = replace(value, free={i: tuple(replace(o, factor=node.span, masked=masked) for o in found)
                                 for i, found in value.free.items()})
    return value, scripts[-1] if powered else None


def _constant(context: Context, stem: Name, scripts: tuple[s.Script, ...],
               node: s.Expression) -> tuple[Value, s.Script | None] | None:
    """The number that a name has where nothing declares it, and the script that raises it to a power. In a paper none
    that its words speak of, and none in front of parentheses, which may be a function.
    """
    free = not (context.scope.named(stem) or stem.base in context.scope.lost or stem.labels)
    spoken = context.scope.foreign.infers and (applied(node) or left_unread(context, node))
    if stem.base not in CONSTANTS or not free or spoken or len(scripts) > 1 or not all(map(_raises, scripts)):
        return None
    return Value(CONSTANTS[stem.base]), scripts[0] if scripts else None


def _masked(signature: Signature) -> str:
    """The tensor and the place of its mask, for messages; empty where it has none."""
    if not signature.said.masks:
        return ""
    span = signature.said.masks[-1].span
    return f"`{signature.name.text}` (declared at {span.source.name}:{span.source.position(span.start)[0]})"


def _raises(script: s.Script) -> bool:
    """Whether a script alone says that it is a power, where nothing declares it a label or a place: a number, or what
    is computed.
    """
    found = exponent(script)
    return found is not None and (computed(script) is not None or literal(found) is not None)


def _matches(context: Context, stem: Name, scripts: tuple[s.Script, ...], span: Span) -> list[_Match]:
    """Finds the parameters or signatures that a name with scripts fits, each with its items in the order of its slots.

    Parameters come first; signatures are searched only where no parameter fits and no definition is being expanded.
    """
    out: list[_Match] = []
    for param in context.inside.params:
        if param.name.stem == stem.stem:
            for reading in readings(scripts, context.vocabulary(param.name.labels)):
                name, items = labelled(stem, reading)
                if name == param.name and len(items) == len(param.slots):
                    ordered = match_slots(context.scope, tuple(Slot(i.set, level, i.name) for i, level in param.slots),
                                          items)
                    out += [(param, ordered)] if ordered is not None else []
    if out or context.inside.letters is not None:
        return out
    if not context.scope.named(stem):
        return out
    seen: set[tuple[int, str]] = set()
    for reading in readings(scripts, context.vocabulary(context.scope.labels(stem))):
        name, items = labelled(stem, reading)
        for signature in context.scope.exactly(name):
            ordered = match_slots(context.scope, signature.slots, items)
            if ordered is None and signature.carried:
                ordered = _carried(context, signature, items, scripts[0].span if scripts else span)
            if ordered is not None:
                identity = (id(signature), " ".join(i.text for i in ordered))
                if identity not in seen:
                    seen.add(identity)
                    out.append((signature, ordered))
    return out


def _in_range(matches: list[_Match]) -> list[_Match]:
    """The readings but for those with a number before the first one of its slot, where others are left: `h_0` is what
    stands before `h_t`.
    """
    kept = [(target, items) for target, items in matches if isinstance(target, Parameter) or not any(
        item.expression is not None and item.text.isdigit() and int(item.text) < slot.set.start
        for slot, item in zip(target.slots, items, strict=True))]
    return kept or matches


def _carried(context: Context, signature: Signature, items: tuple[Item, ...], span: Span) -> tuple[Item, ...] | None:
    """The items of a use that leaves out indices that its block fixes, with these in their slots."""
    written = {x.index for item in items for x in (item, *item.parts)}
    missing = {i: Item("index", i.name, slot_of(i).level, span, i) for i in (*context.loop.layer, *context.loop.fixed)
               if i in signature.carried and i not in written}
    ordered = match_slots(context.scope, signature.slots, carrying(items, missing, span))
    if ordered is not None or not missing.keys() <= set(signature.points.letters):
        return ordered
    places = list(zip(signature.points.letters, signature.slots, strict=True))
    # What is raised or lowered stands in the order of the slots that are written.
    rest = match_slots(context.scope, tuple(slot for letter, slot in places if letter not in missing), items)
    if rest is None:
        return None
    left = iter(rest)
    return tuple(missing[letter] if letter in missing else next(left) for letter, _ in places)


def _ambiguous(context: Context, node: s.Expression, matches: list[_Match], powered: list[_Match]) -> Problem:
    """Builds the problem of a name whose scripts have several readings, with a spelling that settles each."""
    span = node.span
    if powered:
        return AmbiguousScript(f"what stands above in `{span.text}` can be read as a power or as the value of a slot",
                               span,
                               helps=(Help("write a power in parentheses: `(x_t)^2`"),))
    product = next((i for _, items in matches for i in items if i.kind == "expression" and "·" in i.text), None)
    if product is not None and len({id(target) for target, _ in matches}) == 1:
        parts = product.text.replace("·", ", ")
        return AmbiguousScript(f"`{product.span.text}` in the scripts of `{span.text}` has two readings", product.span,
                               f"the pair `({parts})`, or the product `{product.text}`",
                               helps=(Help(f"write `({parts})` for the parts of a composite", product.span,
                                           f"({parts})", False),
                                      Help(f"write `{product.text}` for the product", product.span, product.text,
                                           False)))
    texts = sorted({" ".join(i.text for i in items) for _, items in matches})
    if len(texts) == 1:
        return AmbiguousScript(f"`{span.text}` fits {len(matches)} tensors", span,
                               notes=("they are "
                                      + ", ".join(f"`{x.text if isinstance(x, Signature) else x.name.text}`" for x,
                                                              _ in matches),))
    found = (_disambiguated(context, node, target.name, items) for target, items in matches)
    ways = [help_ for help_ in found if help_ is not None]
    return AmbiguousScript(f"the scripts of `{span.text}` can be read in {len(texts)} ways", span,
                           " or ".join(f"`{t}`" for t in texts),
                           helps=tuple(ways) or (Help(f"write spaces: {' or '.join(f'`{{{t}}}`' for t in texts)}"),))


def _disambiguated(context: Context, node: s.Expression, name: Name, items: tuple[Item, ...]) -> Help | None:
    """The edit after which only this one of several tensors is meant."""
    found = head(node)
    assert found is not None
    stem, scripts = found
    words = context.vocabulary(name.labels | context.scope.labels(stem))
    meant = (r for r in readings(scripts, words) if (x := labelled(stem, r))[0] == name and set(x[1]) == set(items))
    return next((help_ for r in meant if (help_ := spaced(r, words)) is not None), None)


def _parameter(context: Context, param: Parameter, items: tuple[Item, ...]) -> Value:
    """Returns a parameter's value with its slots replaced by the given items."""
    by: dict[Index, Term] = {}
    values: list[Value] = []
    for (slot, _), item in zip(param.slots, items, strict=True):
        value = subscript(context, Slot(slot.set, "lower", slot.name), item)
        by[slot] = value.term
        values.append(value)
    if items:
        context.made.owners.moved(by, items[0].span)
    inner = param.value
    domain = substitute(inner.domain, by)
    lines = {i.index: substitute(d, by) for x, d in inner.lines.items()
             if isinstance(i := by.get(x, Position(x)), Position)}
    out = merged(values, substitute(inner.term, by), domain)
    stated = frozenset(i for x in inner.stated for i in free_indices(by.get(x, Position(x))))
    whole = frozenset(i for x in inner.whole_lines for i in free_indices(by.get(x, Position(x))))
    return replace(out, stated=stated, lines=lines, integer=inner.integer, whole_lines=whole)


def member(context: Context, item: Value, of: Span, node: s.Expression) -> Term | None:
    """`s ∈ S_t`; None where nothing of the name is a set. Raises Silent, WrongType or WrongSet."""
    found = head(node)
    if found is None or context.inside.letters is not None or not any(x.members for x in context.scope.named(found[0])):
        return None
    sets = [(x, items) for x, items in _matches(context, *found, node.span) if isinstance(x, Signature) and x.members]
    if len(sets) != 1:
        raise _ambiguous(context, node, list(sets), []) if sets else unmatched(context, *found, node)
    ((signature, items),) = sets
    context.demand(signature, node.span)
    members = signature.members
    assert members is not None
    if members.index is None:
        raise Silent("told with the set")
    if not item.integer and not isinstance(item.term, Position):
        raise WrongType(f"`{of.text}` is no whole number, so it is no element of a set", of,
                        helps=(Help("round it with `floor`"),))
    if isinstance(item.term, Position) and item.term.index.set != members.index.set:
        raise WrongSet(f"`{of.text}` runs over {item.term.index.set}", of,
                       notes=(f"the elements of `{node.span.text}` are of {members.index.set}",))
    subs = tuple(subscript(context, slot, x).term for slot, x in zip(signature.slots, items, strict=True))
    by = {**dict(zip(signature.points.letters, subs, strict=True)), members.index: item.term}
    chosen = Read(members.key, (*subs, item.term))
    context.made.places.setdefault(chosen, of)
    return both(Apply("eq", (ONE, chosen)), substitute(members.domain, by))


def _tensor(context: Context, signature: Signature, items: tuple[Item, ...], span: Span) -> Value:
    """Reads a tensor at the given items, with the tensor's domain at that place.

    It has the tensor's own equation read first, notes the place of the read, and raises NotApplicable for a set.
    """
    if signature.members is not None:
        raise NotApplicable(f"`{span.text}` is a set, not a number", span,
                            helps=(Help(f"a set stands after `∈`: `Σ_{{s ∈ {span.text}}}`"),))
    context.demand(signature, span)
    values = [subscript(context, slot, item) for slot, item in zip(signature.slots, items, strict=True)]
    subs = tuple(v.term for v in values)
    context.made.owners.told(signature.slots, subs, span)
    by = standing(signature.points.axes, subs, context.scope.sets.splits, tuple(x.set for x in signature.slots))
    domain = TRUE if signature.points.domain is None else substitute(signature.points.domain, by)
    term = Read(signature.key, subs)
    context.made.places.setdefault(term, span)
    slots = range(len(subs)) if signature.said.total else signature.said.stated
    stated = free_indices(domain).union(*(free_indices(subs[n]) for n in slots))
    lines = {sub.index: substitute(signature.points.lines[n], by) for n,
             sub in enumerate(subs) if n in signature.points.lines and isinstance(sub, Position)}
    out = merged(values, term, both(*(c for c in conjuncts(domain) if not same(c))))
    said = signature.said
    meant = range(len(subs)) if any(mask.predicate is None for mask in said.masks) else said.whole_lines
    whole = frozenset().union(*(free_indices(subs[n]) for n in meant))
    return replace(out, stated=frozenset(stated), lines=lines, integer=signature.integer, whole_lines=whole)


def same(condition: Term) -> bool:
    """Whether it says that an index is itself, as of `r = r'` is left where both are read at r."""
    return isinstance(condition, Apply) and condition.op == "eq" and condition.args[0] == condition.args[1]


def subscript(context: Context, slot: Slot, item: Item) -> Value:
    """An item as an integer term in the values of the slot's set. Raises WrongType."""
    match item.kind:
        case "index" if item.index is not None:
            return Value(_in_set(context, slot.set, item.index),
                         free={item.index: (Occurrence(item.level, item.span),)})
        case "pack":
            into = packed_set(context.scope, slot.set, item)
            assert into is not None
            sets = context.scope.sets.splits[into]
            inner = [subscript(context, Slot(x, slot.level, ""), part)
                     for x, part in zip(sets, item.parts, strict=True)]
            return merged(inner, _within(context, slot.set, into, Pack(tuple(v.term for v in inner), sets, into)), TRUE)
    assert item.expression is not None
    value = once(context.value(item.expression))
    if not value.integer:
        raise WrongType(f"`{item.text}` stands in a slot, but is no whole number", item.span,
                        helps=(Help("declare the tensor `: int`, or round with `floor` or `ceil`"),))
    if isinstance(value.term, Position) and value.term.index.set != slot.set:
        # `1·l` in a slot of another set is the number of l: an index alone in a slot runs over all of it.
        return replace(value, term=Apply("floor", (value.term,)))
    return value


def _in_set(context: Context, into: IndexSet, index: Index) -> Term:
    return _within(context, into, index.set, Position(index))


def _within(context: Context, into: IndexSet, over: IndexSet, item: Term) -> Term:
    """An element of a set, or of a part of it, as one of the set."""
    if over == into:
        return item
    before = number(0)
    for part in context.scope.sets.sums[into]:
        if part.set == over:
            return Part(item, part.set, before, into)
        before = before + part.set.extent
    raise AssertionError("match_slots lets only parts through")


def map_value(context: Context, name: str, args: tuple[s.Expression, ...], span: Span) -> Value:
    """π(h): the map's body at its argument, a whole number. Raises WrongArguments or WrongSet."""
    found = context.scope.maps[name]
    if len(args) != len(found.params):
        raise WrongArguments(f"map `{name}` takes {len(found.params)} index{'es' * (len(found.params) > 1)}, not "
                             f"{len(args)}", span,
                             notes=(f"it is defined as `{found.span.text}`",))
    values = [once(context.value(arg)) for arg in args]
    for param, value, arg in zip(found.params, values, args, strict=True):
        if isinstance(value.term, Position) and value.term.index.set != param.set:
            raise WrongSet(f"map `{name}` is of an index of {param.set}, and `{arg.span.text}` runs over "
                           f"{value.term.index.set}",
                           arg.span,
                           notes=(f"it is defined as `{found.span.text}`",))
    inside = replace(context.inside, params=(), letters=None)
    inner = replace(context, inside=inside, held=frozenset(found.params), restrictions=(),
                    text=context.scope.text(found.span)).value(found.body)
    term = substitute(inner.term, dict(zip(found.params, (v.term for v in values), strict=True)))
    return replace(merged(values, term, TRUE), integer=True)


def _kronecker(context: Context, stem: Name, scripts: tuple[s.Script, ...], span: Span) -> Value | None:
    """δ_a^b: a gate over a class that is never summed, 0 or 1 over others. ε_a^b: ±1 on two values. Changes
    `context.report`. Raises UnreadableScript or WrongSet."""
    if stem not in (Name("δ"), Name("ε")) or context.scope.named(stem) or not scripts:
        return None
    found = [r for r in readings(scripts, context.vocabulary(frozenset()))
             if len(r) == 2 and all(i.index is not None for i in r)]
    if len(found) != 1:
        raise UnreadableScript(f"`{span.text}` needs two indices", span, helps=(Help("write `δ_r^{r'}`"),))
    a, b = found[0]
    assert a.index is not None and b.index is not None
    if a.index.set != b.index.set:
        raise WrongSet(f"`{a.index}` and `{b.index}` run over different sets: {a.index.set} and {b.index.set}", span,
                       notes=("both indices of δ and ε run over one set",))
    free = {a.index: (Occurrence(a.level, a.span, span),)}
    free[b.index] = (*free.get(b.index, ()), Occurrence(b.level, b.span, span))
    x, y = Position(a.index), Position(b.index)
    if stem == Name("ε"):
        if a.index.set.extent.constant != 2:
            raise WrongSet(f"ε has two values an index, `{a.index}` runs over {a.index.set}", span,
                           helps=(Help("declare the index over two values: `index a, b : feature(2)`"),))
        start = a.index.set.start
        other = Apply("sub", (const(2 * start + 1), y))
        sign = Apply("sub", (Apply("mul", (const(2), y)), const(2 * start + 1)))
        return Value(Where(Apply("eq", (x, other)), sign), TRUE, free, integer=True)
    same = Apply("eq", (x, y))
    if a.index == b.index and (not a.index.set.summed or a.level == b.level):
        context.report.add(IdleDelta(f"`{span.text}` is 1 everywhere", span, helps=(
            Help("leave it out, or prime one of its indices"),)))
    if a.index.set.summed:
        return Value(Where(same, ONE), TRUE, free, integer=True)
    return Value(ONE, same, free, frozenset({a.index, b.index}), integer=True)


def left_out(context: Context, node: s.Expression) -> tuple[Value, Index] | None:
    """`O_t^{(j)}` for a tensor with one more upper slot: the value with that slot free, and its index."""
    found = head(node) if isinstance(node, s.Word | s.Scripted) else None
    if found is None or context.inside.letters is not None:
        return None
    stem, scripts = found
    for reading in readings(scripts, context.vocabulary(context.scope.labels(stem))):
        name, items = labelled(stem, reading)
        for signature in context.scope.exactly(name):
            missing = [n for n, x in enumerate(signature.slots) if x.level == "upper"]
            for n in missing if len(items) == len(signature.slots) - 1 else []:
                slot = signature.slots[n]
                index = Index(slot.name, slot.set)
                level: Level = "upper"
                extra = Item("index", slot.name, level, node.span, index)
                at = sum(1 for x in signature.slots[:n] if x.level != "lower")
                upper = [i for i in items if i.level != "lower"]
                ordered = match_slots(context.scope, signature.slots,
                                      (*(i for i in items if i.level == "lower"), *upper[:at], extra, *upper[at:]))
                if ordered is not None:
                    return _tensor(context, signature, ordered, node.span), index
    return None
