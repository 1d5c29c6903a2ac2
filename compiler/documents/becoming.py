r"""Arrows that say what a name becomes: `K \longrightarrow X W_1 W_2` is an equation for K in its section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, index_name, left_of
from einc.checking.matrices.shapes import is_name, parts, words
from einc.documents.document import Document, Formula
from einc.documents.said import Said, scripts
from einc.documents.symbols import Symbol
from einc.syntax import tree as s
from einc.syntax.macros import Timeline

_ARROW = re.compile(r"\\(?:long)?rightarrow(?![A-Za-z])")
# Words beside an arrow that puts one thing in the place of another, and beside one that goes to a limit or to a set.
_INSTEAD = re.compile(r"\b(?:replac|substitut|becom|instead|means? that|turn(?:s|ed)? into|rewrit|rewrote|chang)", re.I)
_OTHER = re.compile(r"\b(?:converg|limit|tends?\b|tending|approach|asymptot|maps?\b|mapping|diagram|sends?\b|as \$"
                    r"|when \$|probab|distribut|grow|infin|not\b|never\b)", re.I)
Read = Callable[[Document, Formula], Iterator[Said]]


@dataclass(frozen=True)
class _Equals:
    """A macro that stands for a sign of equality."""

    arguments: int = 0
    body: str = "="
    default: str | None = None


def becoming(document: Document, found: list[Said], letters: Set[str], read: Read) -> Iterator[Said]:
    """The equations: of a display of arrows each row, where it says what a name becomes of which the text spoke before,
    holds in its section. The letters of the name are bound in the section, or are some of `letters`, which lines
    beside the text declare. `read` reads a formula.
    """
    lines: dict[str, Timeline] = {name: ([0], [_Equals()]) for name in ("longrightarrow", "rightarrow")}
    equal = replace(document, macros=replace(document.macros, lines={**document.macros.lines, **lines}))
    for x in found:
        shown = x.formula.display and x.problem is not None and _ARROW.search(x.formula.span.text)
        alone = shown and "=" not in x.formula.span.text and sum(y.formula is x.formula for y in found) == 1
        again = list(read(equal, x.formula)) if alone and _instead(x.formula) else []
        spoken = _spoken(found, x.formula.span.start) if again else frozenset()
        around = document.around(x.formula.section) if again else ()
        bound = {index_name(z) for y in found if y.formula.section in around for z in y.indices} | letters
        apart = len({y.span.start for y in again}) == len(again)
        if again and apart and all(_becomes(y, spoken, bound) for y in again) and not _read_before(again, found):
            yield from (replace(y, formula=x.formula, becomes=True) for y in again)
        else:
            yield x


def _instead(formula: Formula) -> bool:
    """Whether the words of its paragraph say that a display puts one thing in the place of another, and nothing of
    limits and maps.
    """
    text, span = formula.span.source.text, formula.span
    before = re.split(r"\n\s*\n", text[max(span.start - 300, 0) : span.start].rstrip(" \t\n$\\["))[-1]
    behind = re.split(r"\n\s*\n", text[span.end : span.end + 200].lstrip(" \t\n$\\]"))[0]
    said = f"{before} {behind}"
    return _INSTEAD.search(said) is not None and _OTHER.search(said) is None


def _read_before(again: list[Said], found: list[Said]) -> bool:
    """Whether an equation of the section before a display reads a name that becomes something else there, and is not
    said anew.
    """
    lefts = {Symbol.of(left_of(x.statement.clauses[0].body)) for x in again if x.statement is not None}
    for x in found:
        body = x.statement.clauses[0].body if x.statement is not None and not x.fact else None
        if x.formula.section != again[0].formula.section or not isinstance(body, s.Relation) or (
                x.span.start > again[0].span.start):
            continue
        left = left_of(body)
        inside = {Symbol.of(y) for right in body.operands[1:] for y in parts(right) if is_name(y)}
        if inside & lefts and not (head(left) is not None and Symbol.of(left) in lefts):
            return True
    return False


def _spoken(found: list[Said], start: int) -> frozenset[Symbol]:
    """The symbols in the equations before a place."""
    bodies = (c.body for x in found if x.statement is not None and x.span.start < start for c in x.statement.clauses)
    return frozenset(Symbol.of(node) for body in bodies for node in parts(body) if is_name(node))


def _becomes(said: Said, spoken: frozenset[Symbol], bound: Set[str | None]) -> bool:
    """Whether a row says what a name of which the text spoke becomes: an expression, in which the name does not stand
    and all letters of the name do, each of which is `bound`.
    """
    clauses = said.statement.clauses if said.statement is not None and not said.fact else ()
    body = clauses[0].body if len(clauses) == 1 else None
    if not isinstance(body, s.Relation) or body.operators != ("=",):
        return False
    left, right = left_of(body), body.operands[1]
    if head(left) is None or Symbol.of(left) not in spoken or not isinstance(right, s.Product | s.Sum | s.Fraction):
        return False
    own = {w.text for k in scripts(left) if k.content is not None for w in words((k.content,)) if w.text.islower()}
    inside = [Symbol.of(x) for x in parts(right) if is_name(x)]
    return Symbol.of(left) not in inside and own <= {w.text for w in words((right,))} & bound
