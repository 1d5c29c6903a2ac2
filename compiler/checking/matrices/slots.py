"""What stands in scripts: letters, labels, sizes and conditions as the parser gives them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from einc.checking.declarations.names import head, index_name
from einc.checking.matrices.shapes import mapped
from einc.errors.report import Span
from einc.syntax import tree as s

Letters = tuple[str, ...]  # one for each size of a dimension


def label(level: Literal["lower", "upper"], text: str, span: Span) -> s.Script:
    """A label: in quotes where it could be letters."""
    if text.islower():
        return s.Script(level, s.Word(text, span, quoted=True), "", span)
    return s.Script("label_lower" if level == "lower" else "label_upper", None, text, span)


def braced(*items: s.Expression) -> s.Expression:
    """The items in braces, as the argument of a macro; several in one row are a product without a sign."""
    span = items[0].span
    if not all(isinstance(x, s.Word | s.Scripted | s.Group) for x in items):
        return s.Group("{", "}", items, span)
    inner = items[0] if len(items) == 1 else s.Product(items, ("",) * len(items), span)
    return s.Group("{", "}", (inner,), span)


def entered(letters: Letters, span: Span, alone: bool = False) -> s.Expression:
    """What stands in a slot: a letter, or several in parentheses, or one that is `alone` and makes no pair."""
    items = tuple(spelled(letters, span))
    if alone or any(isinstance(x, s.Number) for x in items):
        return s.Group("(", ")", items, span)
    return items[0] if len(items) == 1 else s.Group("(", ")", (s.Product(items, ("",) * len(items), span),), span)


def places(letters: Letters, span: Span) -> tuple[s.Expression, ...]:
    """Letters as expressions that may stand in a script."""
    return tuple(spelled(letters, span))


def letter(place: s.Expression) -> str:
    """A place that is a letter, as it is named, or a number."""
    return place.text if isinstance(place, s.Number) else index_name(place) or place.span.text


def spelled(letters: Letters, span: Span) -> Iterator[s.Expression]:
    """Letters as the parser gives them, with their primes as scripts."""
    for letter in letters:
        stem = letter.rstrip("'")
        primes = letter[len(stem):]
        if stem.isdigit():
            yield s.Number(stem, span)
            continue
        yield s.Scripted(s.Word(stem, span), (), (s.Script("prime", None, primes, span),), span) if primes else s.Word(
            stem, span)


def sized(name: str, span: Span) -> s.Expression:
    """A size as an expression: `d_k` is d with the label k."""
    if name.isdigit():
        return s.Number(name, span)
    if "+" in name:
        terms = tuple(sized(x.strip(), span) for x in name.split("+"))
        return s.Sum(terms, ("+",) * len(terms), span)
    if " / " in name:
        above, _, below = name.partition(" / ")
        return s.Product((sized(above, span), sized(below, span)), ("", "/"), span)
    base, *labels = name.split("_")
    if not labels:
        return s.Word(base, span, quoted=len(base) > 1)
    scripts = tuple(s.Script("lower", s.Word(x, span, quoted=len(x) > 1), "", span) for x in labels)
    return s.Scripted(s.Word(base, span), (), scripts, span)


def undressed(node: s.Expression, sizes: Container[str] = ()) -> s.Expression:
    """A size with primes, `d_c'`, or with a label below and one above, `d_h^R`, under a name all of whose marks are
    labels, as sizes have them. What else it is stays as it is, and so does what may be a power, for one of the `sizes`
    stands above.
    """
    found = head(node)
    if found is None or not isinstance(node, s.Scripted) or node.accents:
        return node
    name, hung = found
    uppers = [x for x in hung if x.kind == "upper"]
    contents = [x.content.items[0] if isinstance(x.content, s.Group) and len(x.content.items) == 1 else x.content
                for x in uppers]
    labels = [x.text for x in contents if isinstance(x, s.Word) and x.text.isalpha()]
    open_ = labels and (len(hung) == len(uppers) or any(x in sizes for x in labels))
    if not (name.primes or labels or name.upper) or len(labels) < len(contents) or open_:
        return node
    marks = ["prime"] * (name.primes == 1) + [f"prime{name.primes}"] * (name.primes > 1)
    kept = tuple(x for x in node.scripts if x.kind in ("lower", "label_lower"))
    made = (s.Script("lower", s.Word(x, node.span, quoted=True), "", node.span) for x in (*name.upper, *labels, *marks))
    return replace(node, scripts=(*kept, *made))


def substituted(node: s.Expression, change: Mapping[str, str]) -> s.Expression:
    """The expression with some letters in place of others."""
    if isinstance(node, s.Word) and node.text in change:
        return next(spelled((change[node.text],), node.span))
    return mapped(node, lambda x: substituted(x, change), scripts=True)
