"""Macros of an author, from which place of the text on each means what, and what a macro takes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

_ARGUMENT = re.compile(r"\s*(?:(\{)|(\\[A-Za-z]+|\\.|[^\s\\{}$&#]))", re.S)
_OPTIONAL = re.compile(r"\s*\[")
_BRACE = re.compile(r"\\.|[{}]", re.S)
_BRACKET = re.compile(r"\\.|[{}\]]", re.S)
_NUMBERED = re.compile(r"#([1-9])")
MAX_OF_TEXT = 4_000_000  # characters that all macros of a text may come to
MAX_OPTIONAL = 1_000


class Meaning(Protocol):
    """What a macro stands for: its body with #1 … #9 in it, and the default of its first argument where that is
    optional.
    """

    @property
    def arguments(self) -> int:
        """The number of arguments that the macro takes."""

    @property
    def body(self) -> str:
        """Its text, with #1 … #9 in it."""

    @property
    def default(self) -> str | None:
        """The default of its first argument; None where that is not optional."""


# Of a name the places at which its meaning changes, in their order, and what it means from each of them on.
Timeline = tuple[list[int], list[Meaning | None]]


@dataclass(frozen=True)
class Macros:
    """The macros of a text. `left` is how many characters they may still come to, which reading the text spends."""

    lines: Mapping[str, Timeline]
    left: list[int] = field(default_factory=lambda: [MAX_OF_TEXT], compare=False)

    def at(self, name: str, place: int) -> Meaning | None:
        """What a name means at a place of the text, None where it is no macro there."""
        places, meanings = self.lines.get(name, ((), ()))
        found = bisect_right(places, place) - 1
        return meanings[found] if found >= 0 else None

    def seen(self, place: int) -> Mapping[str, Meaning]:
        """The macros that hold at a place."""
        return _Seen(self, place)


NONE = Macros({})


def everywhere(meanings: Mapping[str, Meaning]) -> Macros:
    """Macros that hold in the whole of a text."""
    return Macros({name: ([0], [meaning]) for name, meaning in meanings.items()})


@dataclass(frozen=True)
class _Standard:
    """A macro that every author may use: it stands for its last argument."""

    arguments: int
    body: str
    default: str | None = None


_STANDARD = {"textcolor": _Standard(2, "#2"), "mathcolor": _Standard(2, "#2")}


def standard(macros: Macros, entrywise: Iterable[str] = ()) -> Macros:
    """The macros of a text, of which nothing is spent, with those that colour a formula where it defines none, and with
    signs that its words say to be the product entry by entry.
    """
    signs = {x: _Standard(0, r"\odot ") for x in entrywise}
    return Macros({**everywhere({**_STANDARD, **signs}).lines, **macros.lines})


@dataclass(frozen=True)
class _Seen(Mapping[str, Meaning]):
    """The macros at one place, looked up one by one: a text may have many macros, and many places where they are used.
    """

    macros: Macros
    place: int

    def __getitem__(self, name: str) -> Meaning:
        found = self.macros.at(name, self.place)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.macros.lines if self.macros.at(name, self.place) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def arguments(text: str, at: int, meaning: Meaning) -> tuple[list[str], int]:
    """What stands after a macro for its arguments, as far as they are there, and the place after them."""
    out: list[str] = []
    if meaning.default is not None:
        given = optional(text, at)
        out.append(meaning.default if given is None else given[0])
        at = at if given is None else given[1]
    while len(out) < meaning.arguments and (found := argument(text, at)):
        at = found[1]
        out.append(found[0])
    return out, at


def filled(body: str, given: list[str], most: int) -> str | None:
    """The body with its arguments in place, None where it has more than `most` characters."""
    taken = [int(n) for n in _NUMBERED.findall(body)]
    if len(body) + sum(len(given[n - 1]) for n in taken if n <= len(given)) > most:
        return None
    return _NUMBERED.sub(lambda m: given[int(m[1]) - 1] if int(m[1]) <= len(given) else "", body)


def argument(text: str, at: int) -> tuple[str, int] | None:
    """What a macro takes at a place: a group without its braces, a macro or a character; and the place after it."""
    found = _ARGUMENT.match(text, at)
    if found is None:
        return None
    if found[2] is not None:
        return found[2], found.end()
    depth = 1
    for brace in _BRACE.finditer(text, found.end()):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0:
            return text[found.end() : brace.start()], brace.end()
    return None


def optional(text: str, at: int) -> tuple[str, int] | None:
    """What stands between brackets at a place, and the place after it; a bracket inside of braces is no end, and braces
    around all of it are left out.
    """
    found = _OPTIONAL.match(text, at)
    if found is None:
        return None
    depth = 0
    for mark in _BRACKET.finditer(text, found.end(), found.end() + MAX_OPTIONAL):
        depth += (mark[0] == "{") - (mark[0] == "}")
        if depth < 0:
            return None
        if depth == 0 and mark[0] == "]":
            inner = text[found.end() : mark.start()]
            grouped = argument(inner, 0) if inner.startswith("{") else None
            return (grouped[0] if grouped and grouped[1] == len(inner) else inner), mark.end()
    return None
