"""Scripts, split against the declarations: a run of letters must have exactly one reading.

Non-goal: to know what a tensor is. Readings are returned, all of them; the caller keeps those that fit a signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from einc import syntax as s
from einc.checking.names import Name, index_name
from einc.errors import Span
from einc.indices import Index

Level = Literal["lower", "upper", "label"]


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
    scalars: frozenset[str] = frozenset()  # names without scripts whose value may stand in a slot

    def index(self, name: str) -> Index | None:
        """The index of this name; a primed one runs over the set of its stem."""
        found = self.indices.get(name)
        if found is None and name.endswith("'"):
            stem = self.indices.get(name.rstrip("'"))
            return None if stem is None else Index(name, stem.set)
        return found


def readings(scripts: tuple[s.Script, ...], words: Vocabulary) -> list[Reading]:
    """Every reading of a name's scripts."""
    per_script: list[list[Reading]] = []
    for script in scripts:
        level: Level = "lower" if script.kind == "lower" else "upper"
        assert script.content is not None
        content = script.content
        items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
        per_script.append([sum(c, ()) for c in product(*(_entry(item, level, words) for item in items))])
    return [sum(choice, ()) for choice in product(*per_script)]


def _entry(node: s.Expression, level: Level, words: Vocabulary) -> list[Reading]:
    """The readings of one comma-separated entry."""
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
    return [sum(choice, ()) for choice in product(*options)]


def _one(node: s.Expression, level: Level, words: Vocabulary) -> list[Reading]:
    match node:
        case s.Word(text, span, True):
            return [(Item("label", text, level, span),)]
        case s.Word(text, span):
            return _run(text, 0, level, span, words)
        case s.Scripted(s.Word(text, _, False), (), scripts, span) if all(x.kind == "prime" for x in scripts):
            return _run(text, sum(len(x.text) for x in scripts), level, span, words)
        case s.Scripted(s.Word(text, label_span), (), scripts, span) if _is_label(text, words):
            inner = readings(tuple(x for x in scripts if x.content is not None), words)
            return [(Item("label", text, level, label_span), *(_at(i, level) for i in r)) for r in inner]
        case s.Number(text, span):
            label = Item("label", text, level, span)
            value = Item("expression", text, level, span, expression=node)
            return [(label,)] if words.labels is None else [(label,), (value,)] if text in words.labels else [(value,)]
        case s.Group("(", ")", (inner,), span):
            return _parenthesis(inner, level, span, words)
        case s.Group("(", ")", items, span) if items:
            per_item = [_one(item, level, words) for item in items]
            return [(Item("pack", span.text, level, span, parts=sum(choice, ())),) for choice in product(*per_item)]
    return [(Item("expression", node.span.text, level, node.span, expression=node),)]


def _at(item: Item, level: Level) -> Item:
    return Item(item.kind, item.text, level, item.span, item.index, item.parts, item.expression)


def _is_label(text: str, words: Vocabulary) -> bool:
    if words.labels is None:
        return words.index(text) is None
    return text in words.labels


def _parenthesis(inner: s.Expression, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """`(h)` is a label slot, `(i a)` the parts of a composite."""
    out: list[Reading] = []
    for reading in _entry(inner, level, words):
        if len(reading) == 1 and reading[0].kind == "index":
            only = reading[0]
            out.append((Item("index", only.text, "label", span, only.index),))
        elif len(reading) > 1 and all(i.kind in ("index", "expression") for i in reading):
            out.append((Item("pack", span.text, level, span, parts=reading),))
        else:
            out.append((Item("expression", span.text, level, span, expression=inner),))
    return out


def _run(text: str, primes: int, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """A run of letters; primes belong to the last one."""
    marks = "'" * primes
    whole = _split(text, marks, level, span, words)
    if words.labels is not None:
        return whole
    if any(all(i.kind == "index" for i in r) for r in whole):
        return [r for r in whole if all(i.kind == "index" for i in r)]
    if primes:
        return whole
    out: list[Reading] = [(Item("label", text, level, span),)]
    for at in range(1, len(text)):
        tail = Span(span.source, span.start + at, span.end)
        for rest in _split(text[at:], marks, level, tail, words):
            if all(i.kind == "index" for i in rest):
                out.append((Item("label", text[:at], level, Span(span.source, span.start, span.start + at)), *rest))
    return out


def _split(text: str, marks: str, level: Level, span: Span, words: Vocabulary) -> list[Reading]:
    """All ways to write the run as declared indices and known labels."""
    if not text:
        return [()]
    out: list[Reading] = []
    for at in range(1, min(len(text), 12) + 1):
        name = text[:at] + (marks if at == len(text) else "")
        here = Span(span.source, span.start, span.start + at if at < len(text) else span.end)
        rest = Span(span.source, span.start + at, span.end)
        index = words.index(name)
        if index is not None:
            item = Item("index", name, level, here, index)
            out += [(item, *r) for r in _split(text[at:], marks, level, rest, words)]
        if index is None and name in words.scalars:
            value = Item("expression", name, level, here, expression=s.Word(name, here))
            out += [(value, *r) for r in _split(text[at:], marks, level, rest, words)]
        if words.labels is not None and name in words.labels:
            label = Item("label", name, level, here)
            out += [(label, *r) for r in _split(text[at:], marks, level, rest, words)]
    return out


def labelled(name: Name, reading: Reading) -> tuple[Name, tuple[Item, ...]]:
    """The name with the labels of its scripts, and the slots that are left."""
    lower = tuple(i.text for i in reading if i.kind == "label" and i.level == "lower")
    upper = tuple(i.text for i in reading if i.kind == "label" and i.level != "lower")
    full = Name(name.base, name.accents, name.primes, name.lower + lower, name.upper + upper)
    return full, tuple(i for i in reading if i.kind != "label")
