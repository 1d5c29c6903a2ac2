"""Reads: a name with its scripts -> the one signature they fit, its subscripts, its domain."""

from __future__ import annotations

from dataclasses import replace

from einc import syntax as s
from einc.checking.names import Name, head
from einc.checking.scope import Scope, Signature
from einc.checking.scripts import Item, Level, Reading, labelled, readings
from einc.checking.values import Context, Occurrence, Parameter, Value, literal, merged, once
from einc.errors import Help, Span
from einc.indices import Index, IndexSet, number
from einc.problems import (
    AmbiguousScript,
    BadScript,
    NoSuchLabel,
    NoSuchSignature,
    Undeclared,
    UnreadableScript,
    WrongArguments,
    WrongSet,
    WrongType,
)
from einc.terms import TRUE, Apply, Pack, Part, Position, Read, Slot, Term, Where, ONE, both, const, free_indices, substitute
from einc.spelling import edit_distance


def read(context: Context, node: s.Expression, ask: bool = False) -> Value | None:
    """The value of a name; with `ask`, None where no tensor has it."""
    found = head(node)
    assert found is not None
    stem, scripts = found
    special = _kronecker(context, stem, scripts, node.span)
    if special is not None:
        return special
    plain, power = scripts, None
    matches = _matches(context, stem, plain)
    if not matches and scripts and scripts[-1].kind == "upper" and scripts[-1].content is not None:
        number_ = literal(scripts[-1].content)
        if number_ is not None:
            plain, power = scripts[:-1], const(number_)
            matches = _matches(context, stem, plain)
    if len(matches) > 1:
        _ambiguous(matches, node.span)
    if not matches:
        if ask:
            return None
        raise _unmatched(context, stem, scripts, node)
    (target, items), = matches
    value = _parameter(context, target, items) if isinstance(target, Parameter) else _tensor(context, target, items, node.span)
    value = replace(value, free={i: tuple(replace(o, factor=node.span) for o in found) for i, found in value.free.items()})
    if power is not None:
        value = merged([once(value)], Apply("pow", (value.term, power)), value.domain)
    return value


_Match = tuple[Signature | Parameter, tuple[Item, ...]]


def _matches(context: Context, stem: Name, scripts: tuple[s.Script, ...]) -> list[_Match]:
    out: list[_Match] = []
    for param in context.params:
        if param.name.stem == stem.stem:
            for reading in readings(scripts, context.vocabulary(param.name.labels)):
                name, items = labelled(stem, reading)
                if name == param.name and len(items) == len(param.slots):
                    ordered = match_slots(context.scope, tuple(Slot(i.set, level, i.name) for i, level in param.slots), items)
                    out += [(param, ordered)] if ordered is not None else []
    if out or context.letters is not None:
        return out
    signatures = context.scope.named(stem)
    seen: set[tuple[int, str]] = set()
    for reading in readings(scripts, context.vocabulary(context.scope.labels(stem))):
        name, items = labelled(stem, reading)
        for signature in signatures:
            if signature.name == name and (ordered := match_slots(context.scope, signature.slots, items)) is not None:
                identity = (id(signature), " ".join(i.text for i in ordered))
                if identity not in seen:
                    seen.add(identity)
                    out.append((signature, ordered))
    return out


def match_slots(scope: Scope, slots: tuple[Slot, ...], items: tuple[Item, ...]) -> tuple[Item, ...] | None:
    """The items in the order of the slots: lower with lower and upper with upper, else in the order written."""
    if len(slots) != len(items):
        return None
    lower = [i for i in items if i.level == "lower"]
    upper = [i for i in items if i.level != "lower"]
    if len(lower) == sum(x.level == "lower" for x in slots):
        ordered = tuple(lower.pop(0) if x.level == "lower" else upper.pop(0) for x in slots)
        if all(_fits(scope, x, i) for x, i in zip(slots, ordered, strict=True)):
            return ordered
    return items if all(_fits(scope, x, i) for x, i in zip(slots, items, strict=True)) else None


def _fits(scope: Scope, slot: Slot, item: Item) -> bool:
    match item.kind:
        case "index" if item.index is not None:
            parts = scope.sums.get(slot.set, ())
            return item.index.set == slot.set or any(p.set == item.index.set for p in parts)
        case "pack":
            sets = scope.splits.get(slot.set, ())
            pairs = zip(item.parts, sets, strict=False)
            return len(sets) == len(item.parts) and all(p.index is None or p.index.set == x for p, x in pairs)
        case "expression":
            called = _called_map(item)
            return called not in scope.maps or scope.maps[called].target.set == slot.set
    return False


def _called_map(item: Item) -> str | None:
    match item.expression:
        case s.Product((s.Word(name), s.Group("(", ")")), _):
            return name
    return None


def _ambiguous(matches: list[_Match], span: Span) -> None:
    texts = sorted({" ".join(i.text for i in items) for _, items in matches})
    if len(texts) == 1:
        raise AmbiguousScript(f"`{span.text}` fits {len(matches)} tensors", span)
    raise AmbiguousScript(f"the scripts of `{span.text}` can be read in {len(texts)} ways", span,
                          " or ".join(f"`{t}`" for t in texts), helps=(Help(f"write spaces: {' or '.join(f'`{{{t}}}`' for t in texts)}"),))


def _parameter(context: Context, param: Parameter, items: tuple[Item, ...]) -> Value:
    by: dict[Index, Term] = {}
    values: list[Value] = []
    for (slot, _), item in zip(param.slots, items, strict=True):
        value = subscript(context, Slot(slot.set, "lower", slot.name), item)
        by[slot] = value.term
        values.append(value)
    inner = param.value
    domain = substitute(inner.domain, by)
    lines = {i.index: substitute(d, by) for x, d in inner.lines.items() if isinstance(i := by.get(x, Position(x)), Position)}
    out = merged(values, substitute(inner.term, by), domain)
    stated = frozenset(i for x in inner.stated for i in free_indices(by.get(x, Position(x))))
    return replace(out, stated=stated, lines=lines, bound=inner.bound, integer=inner.integer)


def _tensor(context: Context, signature: Signature, items: tuple[Item, ...], span: Span) -> Value:
    context.demand(signature, span)
    values = [subscript(context, slot, item) for slot, item in zip(signature.slots, items, strict=True)]
    subs = tuple(v.term for v in values)
    by = dict(zip(signature.letters, subs, strict=True))
    domain = TRUE if signature.domain is None else substitute(signature.domain, by)
    term = Read(signature.key, subs)
    context.made.places.setdefault(term, span)
    stated = free_indices(domain)
    if signature.total:
        stated = stated.union(*(free_indices(x) for x in subs))
    lines = {sub.index: substitute(signature.lines[n], by) for n, sub in enumerate(subs) if n in signature.lines and isinstance(sub, Position)}
    out = merged(values, term, both(domain))
    return replace(out, stated=frozenset(stated), lines=lines, integer=signature.integer)


def subscript(context: Context, slot: Slot, item: Item) -> Value:
    """An item as an integer term in the values of the slot's set."""
    match item.kind:
        case "index" if item.index is not None:
            return Value(_in_set(context, slot.set, item.index), free={item.index: (Occurrence(item.level, item.span),)})
        case "pack":
            sets = context.scope.splits[slot.set]
            inner = [subscript(context, Slot(x, slot.level, ""), part) for x, part in zip(sets, item.parts, strict=True)]
            return merged(inner, Pack(tuple(v.term for v in inner), sets, slot.set), TRUE)
    assert item.expression is not None
    value = once(context.value(item.expression))
    if not value.integer:
        raise WrongType(f"`{item.text}` stands in a slot, but is no whole number", item.span,
                        helps=(Help("declare the tensor `: int`, or round with `floor` or `ceil`"),))
    return value


def _in_set(context: Context, into: IndexSet, index: Index) -> Term:
    if index.set == into:
        return Position(index)
    before = number(0)
    for part in context.scope.sums[into]:
        if part.set == index.set:
            return Part(Position(index), part.set, before, into)
        before = before + part.set.extent
    raise AssertionError("match_slots lets only parts through")


def map_value(context: Context, name: str, args: tuple[s.Expression, ...], span: Span) -> Value:
    """π(h): the map's body at its argument, a whole number."""
    found = context.scope.maps[name]
    if len(args) != len(found.params):
        raise WrongArguments(f"map `{name}` takes {len(found.params)} index{'es' * (len(found.params) > 1)}, not {len(args)}", span)
    values = [once(context.value(arg)) for arg in args]
    inner = replace(context, params=(), letters=None, held=frozenset(found.params), restrictions=()).value(found.body)
    term = substitute(inner.term, dict(zip(found.params, (v.term for v in values), strict=True)))
    return replace(merged(values, term, TRUE), integer=True)


def _kronecker(context: Context, stem: Name, scripts: tuple[s.Script, ...], span: Span) -> Value | None:
    """δ_a^b: a gate over a class that is never summed, 0 or 1 over others. ε_a^b: ±1 on two values."""
    if stem not in (Name("δ"), Name("ε")) or context.scope.named(stem) or not scripts:
        return None
    found = [r for r in readings(scripts, context.vocabulary(frozenset())) if len(r) == 2 and all(i.index is not None for i in r)]
    if len(found) != 1:
        raise UnreadableScript(f"`{span.text}` needs two indices", span, helps=(Help("write `δ_r^{r'}`"),))
    a, b = found[0]
    assert a.index is not None and b.index is not None
    if a.index.set != b.index.set:
        raise WrongSet(f"`{a.index}` and `{b.index}` run over different sets: {a.index.set} and {b.index.set}", span)
    free = {a.index: (Occurrence(a.level, a.span),)}
    free[b.index] = (*free.get(b.index, ()), Occurrence(b.level, b.span))
    x, y = Position(a.index), Position(b.index)
    if stem == Name("ε"):
        if a.index.set.extent.constant != 2:
            raise WrongSet(f"ε has two values an index, `{a.index}` runs over {a.index.set}", span)
        start = a.index.set.start
        other = Apply("sub", (const(2 * start + 1), y))
        return Value(Where(Apply("eq", (x, other)), Apply("sub", (Apply("mul", (const(2), y)), const(2 * start + 1)))), TRUE, free)
    same = Apply("eq", (x, y))
    if a.index.set.summed:
        return Value(Where(same, ONE), TRUE, free)
    return Value(ONE, same, free, frozenset({a.index, b.index}))


def _unmatched(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> Exception:
    """Which of the ways a name can fail this one is."""
    text = node.span.text
    signatures = [] if context.letters is not None else context.scope.named(stem)
    params = [p for p in context.params if p.name.stem == stem.stem]
    if not signatures and not params:
        return _undeclared(context, stem, scripts, node)
    known = frozenset().union(*(p.name.labels for p in params), context.scope.labels(stem) if signatures else ())
    found = readings(scripts, context.vocabulary(known))
    have = tuple(f"`{x.text}`" for x in signatures) or tuple(f"`{p.name.text}` with {len(p.slots)} indices" for p in params)
    note = (f"declared {'is' if len(have) == 1 else 'are'} {', '.join(have)}",)
    if not found:
        return _unreadable(context, stem, scripts, node, known, note)
    names = {labelled(stem, r)[0] for r in found}
    same_count = [x for x in signatures if any(labelled(stem, r)[0] == x.name and len(labelled(stem, r)[1]) == len(x.slots) for r in found)]
    if same_count:
        return _wrong_set(context, same_count[0], stem, found, node, note)
    if signatures and not any(x.name in names for x in signatures) and context.scope.labels(stem):
        labels = ", ".join(f"`{x}`" for x in sorted(context.scope.labels(stem)))
        return NoSuchLabel(f"`{text}` is none of the tensors named `{stem.base}`", node.span, notes=(*note, f"its labels are {labels}"))
    return NoSuchSignature(f"no `{stem.text}` has these slots", node.span, notes=note)


def _wrong_set(context: Context, signature: Signature, stem: Name, found: list[Reading], node: s.Expression, note: tuple[str, ...]) -> Exception:
    for reading in found:
        name, items = labelled(stem, reading)
        if name == signature.name and len(items) == len(signature.slots):
            for slot, item in zip(signature.slots, items, strict=True):
                if not _fits(context.scope, slot, item) and item.index is not None:
                    return WrongSet(f"index `{item.text}` runs over {item.index.set}, but the slot is {slot.set}", item.span, notes=note)
    return WrongSet(f"`{node.span.text}` has an index in a slot of another set", node.span, notes=note)


def _unreadable(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression, known: frozenset[str],
                note: tuple[str, ...]) -> Exception:
    for script in scripts:
        if not readings((script,), context.vocabulary(known)):
            loose = readings((script,), context.vocabulary(None))
            new = sorted({i.text for r in loose for i in r if i.kind == "label"}, key=len)
            if new and context.scope.labels(stem) and len(new) == 1:
                labels = ", ".join(f"`{x}`" for x in sorted(known))
                return NoSuchLabel(f"`{new[0]}` is no label of `{stem.base}` and no index", script.span, notes=(f"its labels are {labels}",))
            return UnreadableScript(f"`{script.span.text}` has no reading", script.span,
                                    notes=(*note, f"the indices are {', '.join(f'`{i}`' for i in context.indices)}"))
    return UnreadableScript(f"the scripts of `{node.span.text}` have no reading", node.span, notes=note)


def _undeclared(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> Exception:
    text = node.span.text
    if stem.lower and not scripts and len(stem.lower) == 1 and not context.letters:
        letters = stem.lower[0]
        if all(c in context.scope.indices for c in letters):
            return BadScript(f"after a bare `_` several letters are a label, so `{text}` is one name", node.span, helps=(
                Help(f"for two indices write `{stem.base}_{{{' '.join(letters)}}}`"),))
    known = {x.name.stem.text for x in context.scope.signatures} | {p.name.text for p in context.params}
    if context.letters is None:
        known |= set(context.scope.sizes)
    near = min(known, key=lambda k: edit_distance(k, stem.text), default=None)
    close = near is not None and edit_distance(near, stem.text) <= max(1, len(stem.text) // 3) and near[0] == stem.text[0]
    if not scripts and len(stem.base) > 1 and all(any(x.name.base == c for x in context.scope.signatures) for c in stem.base):
        return Undeclared(f"`{text}` is one name, and nothing declares it", node.span,
                          helps=(Help(f"for a product write `{' '.join(stem.base)}`", node.span, " ".join(stem.base)),))
    helps: tuple[Help, ...] = (Help(f"there is a name that is similar: `{near}`"),) if close else ()
    if context.letters is None:
        helps += (Help(f"declare it: `input {text}`"),)
    return Undeclared(f"nothing declares or defines `{text}`", node.span, helps=helps)


def left_out(context: Context, node: s.Expression) -> tuple[Value, Index] | None:
    """`O_t^{(j)}` for a tensor with one more upper slot: the value with that slot free, and its index."""
    found = head(node) if isinstance(node, s.Word | s.Scripted) else None
    if found is None:
        return None
    stem, scripts = found
    for reading in readings(scripts, context.vocabulary(context.scope.labels(stem))):
        name, items = labelled(stem, reading)
        for signature in context.scope.named(stem):
            missing = [n for n, x in enumerate(signature.slots) if x.level == "upper"]
            for n in missing if signature.name == name and len(items) == len(signature.slots) - 1 else []:
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
