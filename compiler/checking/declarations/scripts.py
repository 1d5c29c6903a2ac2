"""Scripts, split against the declarations: a run of letters must have exactly one reading.

Non-goal: to know what a tensor is. Readings are returned, all of them; the caller keeps those that fit a signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from einc.checking.declarations.names import Name, index_name
from einc.errors.problems import AmbiguousScript
from einc.errors.report import Help, Span
from einc.ir.indices import Index
from einc.ir.programs import slot_of
from einc.syntax import tree as s
from einc.syntax.spelling import GREEK

Level = Literal["lower", "upper", "label"]
MAX_READINGS = 64
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a script: a label, an index, several packed in parentheses, or an index expression."""

    kind: Literal["label", "index", "pack", "expression"]
    text: str
    level: Level
    span: Span
    index: Index | None = None
    parts: tuple[Item, ...] = ()
    expression: s.Expression | None = None


Reading = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What may stand in a script: indices, labels (None: any new word is one), and names that are applied (maps)."""

    indices: Mapping[str, Index]
    labels: frozenset[str] | None
    applied: frozenset[str] = frozenset()
    scalars: Set[str] = frozenset()  # names without scripts whose value may stand in a slot

    def index(self, name: str) -> Index | None:
        """The index of this name; a primed one runs over the set of its stem."""
        found = self.indices.get(name)
        if found is None and name.endswith("'"):
            stem = self.indices.get(name.rstrip("'"))
            return None if stem is None else Index(stem.name + name[len(name.rstrip("'")):], stem.set)
        return found


def carrying(items: Reading, fixed: Iterable[Index], span: Span) -> Reading:
    """The items with the indices that a `for` fixes, those that are not written: in front
    of the others of their level."""
    written = {x.index for item in items for x in (item, *item.parts)}
    missing = [Item("index", i.name, slot_of(i).level, span, i) for i in fixed if i not in written]
    at = next((n for n, item in enumerate(items) if item.level != "lower"), len(items))
    lower = [x for x in missing if x.level == "lower"]
    return (*lower, *items[:at], *(x for x in missing if x.level != "lower"), *items[at:])


def readings(scripts: tuple[s.Script, ...], words: Vocabulary) -> list[Reading]:
    """Every way in which the scripts of a name can be read, as lists of indices, labels and places."""
    per_script: list[list[Reading]] = []
    for script in scripts:
        level: Level = "lower" if script.kind == "lower" else "upper"
        assert script.content is not None
        content = script.content
        items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
        per_script.append(_each((_entry(item, level, words) for item in items), script.span))
    return _each(per_script, scripts[0].span if scripts else None)


def _each(options: Iterable[list[Reading]], span: Span | None) -> list[Reading]:
    """One reading of each, in every way; too many ways are refused here, since nobody could list them."""
    out: list[Reading] = [()]
    for choices in options:
        out = [(*before, *choice) for before in out for choice in choices]
        if len(out) > MAX_READINGS:
            raise AmbiguousScript(f"the scripts can be read in more than {MAX_READINGS} ways", span,
                                  helps=(Help("write spaces between the indices"),))
    return out


def _entry(node: s.Expression, level: Level, words: Vocabulary) -> list[Reading]:
    """The readings of what stands between two commas of a script: letters side by side are one each or parts of longer
    names, and a function in front of parentheses is a computed index."""
    if not isinstance(node, s.Product) or any(node.operators):
        return _one(node, level, words)
    options: list[list[Reading]] = []
    at = 0
    while at < len(node.factors):
        factor = node.factors[at]
        following = node.factors[at + 1] if at + 1 < len(node.factors) else None
        name = index_name(factor)
        if name in words.applied and isinstance(following, s.Group) and following.open == "(":
            call = s.Product((factor, following), ("", ""), factor.span.to(following.span))
            options.append([(Item("expression", call.span.text, level, call.span, expression=call),)])
            at += 2
            continue
        options.append(_one(factor, level, words))
        at += 1
    return [*_each(options, node.span), *_multiple(node, level, words)]


def _multiple(node: s.Product, level: Level, words: Vocabulary) -> list[Reading]:
    """`2 g` between commas may be one number; where 2 is a label it is none."""
    first = node.factors[0]
    if not isinstance(first, s.Number) or words.labels is None or first.text in words.labels:
        return []
    return [(Item("expression", node.span.text, level, node.span, expression=node),)]


def _one(node: s.Expression, level: Level, words: Vocabulary) -> list[Reading]:
    """Returns every reading of one entry of a script; an entry that is no index, label or pack is one expression."""
    match node:
        case s.Word(text, span, True):
            return [(Item("label", text, level, span),)]
        case s.Word(text, span):
            return _word(text, 0, level, span, words)
        case s.Scripted(s.Word(text, _, False), (), scripts, span) if all(x.kind == "prime" for x in scripts):
            return _word(text, sum(len(x.text) for x in scripts), level, span, words)
        case s.Scripted(s.Word(text, label_span), (), scripts, span) if _is_label(text, words):
            inner = readings(tuple(x for x in scripts if x.content is not None), words)
            return [(Item("label", text, level, label_span), *(replace(i, level=level) for i in r)) for r in inner]
        case s.Number(text, span):
            label = Item("label", text, level, span)
            value = Item("expression", text, level, span, expression=node)
            return [(label,)] if words.labels is None else [(label,), (value,)] if text in words.labels else [(value,)]
        case s.Group("(", ")", (inner,), span):
            return _parenthesis(inner, level, span, words)
        case s.Group("(", ")", items, span) if items:
            found = _each((_one(item, level, unlabelled(words)) for item in items), span)
            return [(Item("pack", _packed(reading), level, span, parts=reading),) for reading in found]
    return [(Item("expression", node.span.text, level, node.span, expression=node),)]


def _multiplies(node: s.Product) -> bool:
    """Whether factors side by side could be a number of times something, and not numbers alone."""
    numbers = [isinstance(x, s.Number) for x in node.factors]
    return not any(node.operators) and numbers[0] and not all(numbers)


def unlabelled(words: Vocabulary) -> Vocabulary:
    """What may stand in parentheses: all but the labels that are known."""
    return words if words.labels is None else replace(words, labels=frozenset())


def _is_label(text: str, words: Vocabulary) -> bool:
    if words.labels is None:
        return words.index(text) is None
    return text in words.labels


def _parenthesis(inner: s.Expression, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """`(h)` is a label slot, `(i a)` the parts of a composite; `(2 l)` is these or a
    product. No label stands in parentheses."""
    out: list[Reading] = []
    found = _entry(inner, level, unlabelled(words) if isinstance(inner, s.Product) else words)
    if isinstance(inner, s.Product) and _multiplies(inner) and words.labels is not None:
        text = "·".join(x.span.text for x in inner.factors)
        out.append((Item("expression", text, level, span, expression=inner),))
        found = [r for r in found if len(r) > 1]
    for reading in found:
        if len(reading) == 1 and reading[0].kind == "index":
            only = reading[0]
            out.append((Item("index", only.text, "label", span, only.index),))
        elif len(reading) > 1 and all(i.kind in ("index", "expression") for i in reading):
            out.append((Item("pack", _packed(reading), level, span, parts=reading),))
        else:
            out.append((Item("expression", span.text, level, span, expression=inner),))
    return out


def _packed(parts: Reading) -> str:
    """One text for a pair however it is spelled: it becomes the name of a slot."""
    return f"({' '.join(x.text for x in parts)})"


def _word(text: str, primes: int, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """A run of letters; one that spells a Greek letter may also be several Latin ones."""
    spelled = span.text.rstrip("'")
    found = _run(text, primes, level, span, words)
    if text != spelled and GREEK.get(spelled) == text and (words.labels is not None or words.index(text) is None):
        latin = _run(spelled, primes, level, span, words)
        found = (found + latin if words.labels is not None else [r for r in latin if all(i.kind == "index" for i in r)]
                 or found)
    return found


def _run(text: str, primes: int, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """A run of letters; primes belong to the last one."""
    marks = "'" * primes
    if len(text) > _LONGEST:
        return [(Item("label", text, level, span),)] if words.labels is None or text in words.labels else []
    ways = _split(text, marks, level, span, words)
    whole = ways[0]
    if words.labels is not None:
        return whole
    if any(all(i.kind == "index" for i in r) for r in whole):
        return [r for r in whole if all(i.kind == "index" for i in r)]
    if primes:
        return whole
    out: list[Reading] = [(Item("label", text, level, span),)]
    for at in range(1, len(text)):
        for rest in ways[at]:
            if all(i.kind == "index" for i in rest):
                out.append((Item("label", text[:at], level, Span(span.source, span.start, span.start + at)), *rest))
    return out[: MAX_READINGS + 1]


def _split(text: str, marks: str, level: Level, span: Span, words: Vocabulary) -> list[list[Reading]]:
    """For each place in the run, all ways to write what follows as declared indices and known labels."""
    ways: list[list[Reading]] = [[] for _ in text] + [[()]]
    for start in reversed(range(len(text))):
        for end in range(start + 1, len(text) + 1):
            name = text[start:end] + (marks if end == len(text) else "")
            here = Span(span.source, span.start + start, span.start + end if end < len(text) else span.end)
            if ways[end]:
                ways[start] += [(item, *rest) for item in _items(name, level, here, words) for rest in ways[end]]
        del ways[start][MAX_READINGS + 1 :]
    return ways


def _items(name: str, level: Level, span: Span, words: Vocabulary) -> list[Item]:
    """What one name in a run of letters can be: an index, a scalar at that place, or a label."""
    out: list[Item] = []
    index = words.index(name)
    if index is not None:
        out.append(Item("index", name, level, span, index))
    elif name in words.scalars:
        out.append(Item("expression", name, level, span, expression=s.Word(name, span)))
    if words.labels is not None and name in words.labels:
        out.append(Item("label", name, level, span))
    return out


def labelled(name: Name, reading: Reading) -> tuple[Name, tuple[Item, ...]]:
    """The name with the labels of its scripts, and the slots that are left."""
    lower = tuple(i.text for i in reading if i.kind == "label" and i.level == "lower")
    upper = tuple(i.text for i in reading if i.kind == "label" and i.level != "lower")
    full = Name(name.base, name.accents, name.primes, name.lower + lower, name.upper + upper)
    return full, tuple(i for i in reading if i.kind != "label")


def spaced(reading: Reading, words: Vocabulary) -> Help | None:
    """The edit after which the scripts have this reading alone; None where nothing has to be changed."""
    items = sorted(reading, key=lambda i: i.span.start)
    if not items or any(a.span.end > b.span.start for a, b in pairwise(items)):
        return None
    whole = items[0].span.to(items[-1].span)
    text, at = "", whole.start
    for item in items:
        gap = whole.source.text[at:item.span.start]
        ways = {tuple((i.kind, i.text) for i in r)
                for r in _run(item.text.rstrip("'"), 0, item.level, item.span, words)}
        if item.kind == "index" and len(ways) > 1:
            return Help(f"to mean the index `{item.text}`, rename it: other names are spelled so too")
        quoted = item.kind == "label" and len(ways) > 1 and item.span.text == item.text
        text += (gap or " " * bool(text)) + (f"\\text{{{item.text}}}" if quoted else item.span.text)
        at = item.span.end
    return Help(f"write `{text}`", whole, text, False) if text != whole.text else None
