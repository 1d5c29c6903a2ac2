"""Definitions of macros in TeX: what one says, and from where to where it holds.

A definition holds up to the end of the group that it stands in, as in TeX: a pair of braces, an environment, or a
formula. `\\gdef` and `\\global` hold to the end of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from einc.documents.document import Macro
from einc.errors.report import Source, Span
from einc.syntax.macros import Macros, Timeline, optional

MAX_BODY = 1_000

HOWS = (r"newcommand|renewcommand|providecommand|DeclareRobustCommand|DeclareMathOperator|[gex]?def|let"
        r"|(?:New|Renew|Provide|Declare)DocumentCommand")
DEFINES = re.compile(
    rf"\\(?P<new>{HOWS})(?![A-Za-z])\*?\s*(?:\{{\s*\\(?P<braced>[A-Za-z]+)\s*\}}|\\(?P<bare>[A-Za-z]+))")
_COUNT = re.compile(r"\s*\[\s*(?P<count>[0-9])\s*\]")
_MARKS = re.compile(r"\s*(?P<marks>(?:\#[1-9])*)\s*(?=\{)")
_TAKES = re.compile(r"\s*\{\s*(?:O\s*\{(?P<default>[^{}]*)\}\s*)?(?P<others>(?:m\s*)*)\}")
_LET = re.compile(r"\s*=?\s*(?P<other>\\(?:[A-Za-z]+|.))")
_BODY = re.compile(r"\s*(?=\{)")
_GLOBAL = re.compile(r"\\global\s*\Z")
_BRACE = re.compile(r"\\.|%[^\n]*|[{}]", re.S)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?[ \t]*")
_INSIDE = re.compile(
    rf"(?P<defines>{DEFINES.pattern})|(?P<open>\{{|\\b(?:egin)?group(?![A-Za-z]))"
    r"|(?P<close>\}|\\e(?:nd)?group(?![A-Za-z]))"
    r"|\\begin\s*\{(?P<begin>[A-Za-z]+\*?)\}|\\end\s*\{(?P<end>[A-Za-z]+\*?)\}|%[^\n]*|\\.", re.S)

Scope = Literal["here", "where new", "everywhere", "as another"]


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition. `scope` says where it holds; one `as another` gives a name the meaning that its body has there."""

    name: str
    macro: Macro
    scope: Scope = "here"


def definition(source: Source, found: re.Match[str] | None, end: int) -> Defined | None:
    """The definition that begins where `DEFINES` matches; None for one of a kind that is not read, as with arguments
    that words end.
    """
    if found is None:
        return None
    text, at, new, default = source.text, found.end(), found["new"], None
    name = found["braced"] or found["bare"]
    if new == "let":
        other = _LET.match(text, at, end)
        return Defined(name, Macro(0, other["other"], Span(source, found.start(), other.end())), "as another") \
            if other else None
    count = 0
    if new.endswith("DocumentCommand"):
        takes = _TAKES.match(text, at, end)
        if takes is None:
            return None
        default, at = takes["default"], takes.end()
        count = takes["others"].count("m") + (default is not None)
    elif new.endswith("def"):
        marks = _MARKS.match(text, at, end)
        if marks is None:
            return None
        count, at = len(marks["marks"]) // 2, marks.end()
    elif (counted := _COUNT.match(text, at, end)) is not None:
        count, at = int(counted["count"]), counted.end()
        if count and (given := optional(text, at)) is not None:
            default, at = given
    start = _BODY.match(text, at, end)
    closed = closing(text, start.end(), min(end, start.end() + MAX_BODY)) if start else None
    if start is None or closed is None:
        return None
    body = _COMMENT.sub("", text[start.end() + 1 : closed])
    if new == "DeclareMathOperator":
        body = rf"\operatorname{{{body}}}"
    return Defined(name, Macro(count, body, Span(source, found.start(), closed + 1), default), _scope(text, found))


def _scope(text: str, found: re.Match[str]) -> Scope:
    if found["new"] in ("providecommand", "ProvideDocumentCommand"):
        return "where new"
    before = text[max(0, found.start() - 20) : found.start()]
    return "everywhere" if found["new"] in ("gdef", "xdef") or _GLOBAL.search(before) else "here"


def closing(text: str, at: int, end: int) -> int | None:
    """The place of the brace that closes the one at `at`."""
    depth = 0
    for brace in _BRACE.finditer(text, at, end):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0:
            return brace.start()
    return None


@dataclass
class Scopes:
    """The meanings of macros along a text that is read from left to right, and the groups that are open.

    A group keeps what its definitions took the place of; `sealed` counts the definitions of a name that hold
    everywhere, after which no end of a group brings back what stood before.
    """

    lines: dict[str, Timeline] = field(default_factory=dict)
    groups: list[tuple[str, dict[str, tuple[int, Macro | None]]]] = field(default_factory=list)
    openers: Counter[str] = field(default_factory=Counter)
    sealed: Counter[str] = field(default_factory=Counter)

    def define(self, found: Defined) -> None:
        """Takes a definition in, from its end on."""
        name, macro = found.name, found.macro
        known = self._now(name)
        if found.scope == "where new" and known is not None:
            return
        if found.scope == "as another" and (other := self._now(macro.body.removeprefix("\\"))) is not None:
            macro = replace(other, span=macro.span)
        if found.scope == "everywhere":
            self.sealed[name] += 1
        elif self.groups:
            self.groups[-1][1].setdefault(name, (self.sealed[name], known))
        self._put(name, macro.span.end, macro)

    def open(self, opener: str) -> None:
        """Begins a group: `{`, or the name of an environment."""
        self.groups.append((opener, {}))
        self.openers[opener] += 1

    def close(self, opener: str, at: int) -> None:
        """Ends a group at a place, and those inside of it that were left open. A brace closes no environment."""
        if not self.openers[opener] or (opener == "{" and self.groups[-1][0] != "{"):
            return
        while True:
            ended, before = self.groups.pop()
            self.openers[ended] -= 1
            for name, (sealed, macro) in before.items():
                if sealed == self.sealed[name]:
                    self._put(name, at, macro)
            if ended == opener:
                return

    def formula(self, source: Source, start: int, end: int, local: bool) -> Iterator[Span]:
        """Takes in the definitions inside a formula, each of which is given back. `local`: they end with the formula,
        beside those in braces and environments of it, which always do.
        """
        if DEFINES.search(source.text, start, end) is None:
            return
        depth, at = len(self.groups), start
        if local:
            self.open("formula")
        while found := _INSIDE.search(source.text, at, end):
            at = found.end()
            if found["defines"]:
                defined = definition(source, DEFINES.match(source.text, found.start(), end), end)
                if defined is not None:
                    at = defined.macro.span.end
                    yield defined.macro.span
                    self.define(defined)
            elif found["open"] or found["begin"]:
                self.open(found["begin"] or "{")
            elif found["close"] or found["end"]:
                self.close(found["end"] or "{", found.start())
        while len(self.groups) > depth:
            self.close(self.groups[-1][0], end + 1)

    def done(self) -> Macros:
        """All macros of the text, each with the places where it holds."""
        return Macros(self.lines)

    def _now(self, name: str) -> Macro | None:
        found = self.lines[name][1][-1] if name in self.lines else None
        assert found is None or isinstance(found, Macro)
        return found

    def _put(self, name: str, at: int, macro: Macro | None) -> None:
        places, meanings = self.lines.setdefault(name, ([], []))
        places.append(max(at, places[-1]) if places else at)
        meanings.append(macro)
