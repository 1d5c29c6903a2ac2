"""Where a name is defined, where else it stands, and the text with another name in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from einc.checking.edits import apply
from einc.driver.editor.names import Occurrence, Symbol
from einc.driver.editor.positions import START, Position, Range, range_of
from einc.driver.editor.text import Part, Text, path_of
from einc.errors.report import Help, Source, Span
from einc.syntax.spelling import GREEK

_NAME = re.compile(r"\\?[A-Za-z]+|[^\W\d_]")
_SIZE = re.compile(r"(?:[A-Za-z]+|[^\W\d_])(?:_(?:[A-Za-z0-9]|[A-Za-z]+|\{\\text\{[A-Za-z]+\}\}))?")


@dataclass(frozen=True)
class Location:
    """A place in the file at `path`."""

    path: str
    range: Range


class RefusedError(Exception):
    """Why a name cannot be changed, in a sentence."""


def definition(text: Text, place: Position) -> Location | None:
    """Where the name at a place is declared or defined, in this file or in one that it uses."""
    found = text.named(place)
    if found is None:
        return None
    part, occurrence = found
    home = occurrence.symbol.home
    if occurrence.symbol.kind == "size":
        home = next((x.span for x in part.names if x.symbol == occurrence.symbol), home)
    if home is None:
        return None
    here = text.range(home)
    if here is not None:
        return Location(text.source.name, here)
    return Location(path_of(home.source), START if occurrence.symbol.kind == "spec" else range_of(home))


def references(text: Text, place: Position) -> tuple[Range, ...]:
    """Every place of the file where the name at a place stands."""
    found = text.named(place)
    if found is None:
        return ()
    spans = (x.span for part in text.parts for x in part.names if x.symbol == found[1].symbol)
    return tuple(dict.fromkeys(here for span in spans if (here := text.range(span)) is not None))


def renamed(text: Text, place: Position, name: str) -> tuple[tuple[Range, str], ...]:
    """The edits that give the name at a place another one, in this file. They were tried: with them every name stands
    for what it stood for, and no error is new. Raises RefusedError where that is not so.
    """
    part, occurrence = renameable(text, place)
    symbol = occurrence.symbol
    wanted = _SIZE if symbol.kind == "size" else _NAME
    if not wanted.fullmatch(name):
        raise RefusedError(f"`{name}` is no name: write letters, or one Greek letter")
    spans = [x.span for x in part.names if x.symbol == symbol]
    if any(not _same(x.text, occurrence.span.text) for x in spans):
        raise RefusedError(f"`{symbol.text}` is written by a macro in some places")
    helps = [Help("", span, _written(span, name)) for span in sorted(dict.fromkeys(spans), key=lambda x: x.start)]
    after = Source(text.source.name, apply(text.source, helps))
    _tried(text, Text(after, text.sources.opened(after)), helps, symbol, name)
    return tuple((range_of(x.span), x.new) for x in helps if x.span is not None and x.new is not None)


def renameable(text: Text, place: Position) -> tuple[Part, Occurrence]:
    """The name at a place, where it may be changed. Raises RefusedError elsewhere."""
    if text.is_document:
        raise RefusedError("names are changed in specs: a document is its author's")
    found = text.named(place)
    if found is None:
        raise RefusedError("no name is known here")
    symbol = found[1].symbol
    if symbol.kind in ("class", "spec") or symbol.home is None:
        raise RefusedError(f"`{symbol.text}` is no name of this text")
    if text.range(symbol.home) is None:
        raise RefusedError(f"`{symbol.text}` is declared in {path_of(symbol.home.source)}: change it there")
    return found


def _written(span: Span, name: str) -> str:
    """A name in the place of another one: one of several letters takes braces where it is a script by itself."""
    hangs = span.source.text[max(span.start - 1, 0):span.start] in ("_", "^")
    return f"{{{name}}}" if hangs and len(name) > 1 and not name.startswith("\\") else name


def _same(one: str, other: str) -> bool:
    """Whether two spellings, such as `α` and `\\alpha`, are of one name."""
    def plain(text: str) -> str:
        return GREEK.get(text.removeprefix("\\"), text)

    return plain(one) == plain(other)


def _tried(text: Text, after: Text, helps: list[Help], symbol: Symbol, name: str) -> None:
    """Raises RefusedError where a text with another name has an error that is new, or where a name in it stands for
    something else than before.
    """
    if len(after.errors) > len(text.errors):
        said = after.errors[0].message
        raise RefusedError(f"with `{name}` for `{symbol.text}` there would be an error: {said}")
    if _bound(text, helps) != _bound(after, []):
        raise RefusedError(f"with `{name}` for `{symbol.text}` the text would mean something else")


def _bound(text: Text, helps: list[Help]) -> list[tuple[int, int]]:
    """Where each name of a text begins once edits are made, and at which of them its symbol stands first."""
    moved = [(x.span.start, len(x.new or "") - (x.span.end - x.span.start)) for x in helps if x.span is not None]
    braced = {x.span for x in helps if (x.new or "").startswith("{")}
    first: dict[Symbol, int] = {}
    out: list[tuple[int, int]] = []
    for number, found in enumerate(x for part in text.parts for x in part.names):
        start = found.span.start + sum(shift for at, shift in moved if at < found.span.start) + (found.span in braced)
        out.append((start, first.setdefault(found.symbol, number)))
    return out
