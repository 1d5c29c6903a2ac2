"""Words -> statements: where one ends and the next begins, and whether its brackets have their partners."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from einc.errors.problems import StrayCloser, TooDeep, Unclosed, Unexpected
from einc.errors.report import Help, Label, Report, Source, Span
from einc.syntax.brackets import Word
from einc.syntax.macros import NONE, Macros
from einc.syntax.spelling import HEADS, KEYWORDS, nearest
from einc.syntax.texts import MAX_STATEMENTS, column, too_many
from einc.syntax.tokens import words

MAX_DEPTH = 100
MAX_OPEN_LINES = 64

_CONTINUES = {"REL", "SIGN", "OP", "OPLUS", "AND", "OR", "NOT", "IN", "ROOT", "DOTS", "WITH"}
_CONTINUED_BY = _CONTINUES - {"NOT", "ROOT"} | {"ASSUMING"}
_HEADS = {"PLAN", *(word.upper() for word in HEADS)}
_OPENERS = {"LPAR": "(", "LSQB": "[", "LBRACE": "{"}
_CLOSERS = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}
_PARTNERS = {"LPAR": ")", "LSQB": "]", "LBRACE": "}"}
_NAMES = ("WORD", "GREEK", "ACCENT", "TEXT")
_QUAD = re.compile(r"\\q?quad\b")
_BREAKS = ("NEWLINE", "LINEEND")
# after its first name
_NO_EQUATION = ("WORD", "GREEK", "NUMBER", "TEXT", "ACCENT", "STRING", *(word.upper() for word in KEYWORDS))
_SHORTEST = 2
_END = Word("LINEEND", "", 0, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """The words of one statement, and the column it starts in.

    `broken`: something in it was reported already; `unread`: so much that it cannot be read.
    """

    words: tuple[Word, ...]
    column: int
    broken: bool = False
    unread: bool = False


def lines(source: Source, report: Report, functions: frozenset[str] = frozenset(),
          skip: tuple[tuple[int, int], ...] = (), within: tuple[int, int] | None = None) -> list[Line]:
    """Every statement of the text, none where they are too many; see `tokens.words`. Problems go to the report."""
    before = len(report.problems)
    found = words(source, report, functions, skip, within)
    bad = sorted(p.span.start for p in report.problems[before:] if p.span is not None)
    out, pieces = [], list(_split(source, found, report))
    if len(pieces) > MAX_STATEMENTS:
        report.add(too_many(f"the text has {len(pieces):,} statements", Span(source, 0, 0)))
        return []
    for start, piece in pieces:
        here = bisect_left(bad, piece[0].start)
        touched = here < len(bad) and bad[here] <= piece[-1].end
        out.append(Line(tuple(piece), column(source, start), touched, not _balanced(source, piece, report)))
    return out


def formula(source: Source, report: Report, functions: frozenset[str], within: tuple[int, int],
            skip: tuple[tuple[int, int], ...] = (), macros: Macros = NONE) -> list[Line]:
    """The statements of a formula, which is a part of the text; a line end inside carries no meaning, `\\\\` does.
    Problems go to the report.
    """
    before = len(report.problems)
    # `\text{and}` between equations is a comma.
    found = (replace(w, type="COMMA") if w.type == "TEXT" and w.value in ("and", "where") else w
             for w in words(source, report, functions, skip, within, macros, digits=False))
    pieces = _pieces(_spaced(source, _ranged(list(found))))
    broken = len(report.problems) > before
    return [Line(tuple(piece), 0, broken, not _balanced(source, piece, report)) for piece in pieces]


def _ranged(found: list[Word]) -> list[Word]:
    """`= 1, 2, …, N` and `{1, …, N}` as the range `1..N`; of the numbers before the dots the first is the beginning.
    Changes `found`."""
    out: list[Word] = []
    for n, word in enumerate(found):
        out.append(word)
        if word.type != "DOTS" or [w.type for w in (*out[-2:-1], *found[n + 1 : n + 2])] != ["COMMA", "COMMA"]:
            continue
        first = len(out) - 2
        while first >= 1 and out[first].type == "COMMA" and out[first - 1].type == "NUMBER":
            first -= 2
        before = out[first] if first >= 0 else None
        counts = [w.value for w in out[first + 1 : -2] if w.type == "NUMBER"]
        if any(not a.isdigit() or not b.isdigit() or int(b) != int(a) + 1 for a, b in pairwise(counts)):
            continue  # in steps of two and more
        if first < len(out) - 2 and before is not None and (_equates(before) or before.type in ("LBRACE", "LSQB")):
            out[first + 2:] = [word]
            found[n + 1] = replace(found[n + 1], type="NEWLINE")
    return out


def _spaced(source: Source, found: list[Word]) -> list[Word]:
    """A wide space between two equations is a comma, where none stands."""
    out: list[Word] = []
    depth, equals = 0, False
    equated = _equated(found)
    for n, word in enumerate(found):
        before = next((w for w in reversed(out[-8:]) if w.type != "NEWLINE"), None)
        ended = before is not None and before.type not in _CONTINUES | {"COMMA", "STOP"}
        if before is not None and ended and depth == 0 and equals and word.type in _NAMES and equated[n] \
                and _QUAD.search(source.text, before.end, word.start):
            out.append(Word("COMMA", ",", before.end, before.end))
        depth += (word.type in _OPENERS) - (word.type in _CLOSERS)
        equals = (equals and word.type != "LINEEND") or (depth == 0 and _equates(word))
        out.append(word)
    return out


def _equated(found: list[Word]) -> list[bool]:
    """Of each word whether an equals sign comes before the next comma, point or line end."""
    out, ahead = [False] * len(found), False
    for n in reversed(range(len(found))):
        if found[n].type in ("COMMA", "STOP", "LINEEND") or _equates(found[n]):
            ahead = _equates(found[n])
        out[n] = ahead
    return out


def _equates(word: Word) -> bool:
    return word.type == "REL" and word.value in ("=", ":=", "<-")


def _split(source: Source, found: list[Word], report: Report) -> Iterator[tuple[int, list[Word]]]:
    """The pieces, each with the place whose column says how deep it is indented."""
    at = 0
    while at < len(found):
        if found[at].type in (*_BREAKS, "STOP"):
            at += 1
        elif found[at].type == "DISPLAY":
            start = found[at].start
            at, pieces = _display(source, found, at, report)
            yield from ((start, piece) for piece in pieces)
        else:
            at, piece = _statement(source, found, at)
            yield piece[0].start, piece


def _display(source: Source, found: list[Word], at: int, report: Report) -> tuple[int, list[list[Word]]]:
    """The statements between two `$$`."""
    end = next((i for i in range(at + 1, len(found)) if found[i].type == "DISPLAY"), None)
    if end is None:
        report.add(Unclosed("`$$` is not closed", Span(source, found[at].start, found[at].end), "opened here",
                            helps=(Help("close the display with `$$`"),)))
        return at + 1, []
    return end + 1, _pieces(found[at + 1 : end])


def _pieces(found: list[Word]) -> list[list[Word]]:
    """The words of a formula, cut where a line ends and the next does not go on with an operator."""
    out: list[list[Word]] = []
    piece: list[Word] = []
    told = [*(w for w in found if w.type != "NEWLINE"), _END, _END]
    for word, following in pairwise(told):
        if word.type == "LINEEND" and following.type in _CONTINUED_BY and piece:
            continue
        if word.type == "LINEEND":
            while piece and piece[-1].type == "STOP":
                piece.pop()
            out += [_stops(piece)] if piece else []
            piece = []
        elif piece or word.type != "COMMA" or word.value == ",":  # `where` after a line end says nothing
            piece.append(word)
    return out


def _stops(piece: list[Word]) -> list[Word]:
    """Inside a display a comma at a line's end still separates equations; a full stop is nothing."""
    return [Word("COMMA", w.value, w.start, w.end) if w.type == "STOP" else w for w in piece
            if w.type != "STOP" or w.value != "."]


def _statement(source: Source, found: list[Word], start: int) -> tuple[int, list[Word]]:
    """The place after a statement, and its words: a line, and what an open bracket or an operator joins to it."""
    piece: list[Word] = []
    at, depth, opened = start, 0, 0
    first_end: int | None = None
    while at < len(found) and found[at].type != "DISPLAY":
        word = found[at]
        if word.type in _BREAKS:
            following = next((w for w in found[at + 1 : at + 400] if w.type not in (*_BREAKS, "STOP")), None)
            first_end = at if first_end is None and depth > 0 else first_end
            opened += depth > 0
            if following is None or opened > MAX_OPEN_LINES or not _joined(piece, following, depth):
                break
            if depth == 0 and _blank(source, word, found[at + 1]):
                break
        else:
            if word.type == "STOP" and word.value in ",;" and depth > 0:
                word = Word("COMMA", word.value, word.start, word.end)
            depth += (word.type in _OPENERS) - (word.type in _CLOSERS)
            piece += [word] if word.type != "STOP" else []
        at += 1
    if depth > 0 and first_end is not None:
        # A bracket that is never closed takes its own line and no more.
        at = first_end
        piece = [w for w in found[start:first_end] if w.type != "STOP"]
    return at, piece


def _blank(source: Source, word: Word, following: Word) -> bool:
    """Whether an empty line follows, which ends a statement; a comment does not."""
    return following.type == "NEWLINE" and not source.text[word.end:following.start].strip()


def _joined(piece: list[Word], following: Word, depth: int) -> bool:
    """Whether a line goes on: inside a bracket unless a keyword starts the next, after an operator, before one."""
    if depth > 0:
        return following.type not in _HEADS
    return bool(piece) and (piece[-1].type in _CONTINUES or following.type in _CONTINUED_BY)


def _balanced(source: Source, piece: list[Word], report: Report) -> bool:
    """Whether every bracket of the statement has its partner; `(` may close with `]`, as an interval does. Problems go
    to the report.
    """
    stack: list[Word] = []
    prefixes = 0
    for word in piece:
        prefixes = prefixes + 1 if word.type in ("ROOT", "NOT") else 0
        if word.type in _OPENERS:
            stack.append(word)
        if max(len(stack), prefixes) > MAX_DEPTH:
            report.add(TooDeep(f"brackets are nested more than {MAX_DEPTH} deep", Span(source, word.start, word.end),
                               helps=(Help("name an inner expression in an equation of its own"),)))
            return False
        if word.type in _CLOSERS:
            if not stack or (stack[-1].type == "LBRACE") != (word.type == "RBRACE"):
                _stray(source, stack, word, report)
                return False
            stack.pop()
    if stack:
        first, last = stack[-1], piece[-1]
        closer = _PARTNERS[first.type]
        report.add(Unclosed(f"`{_OPENERS[first.type]}` is not closed", Span(source, first.start, first.end),
                            "opened here",
                            helps=(Help(f"insert `{closer}` where it ends", Span(source, last.end, last.end), closer,
                                        False),)))
    return not stack


def _stray(source: Source, stack: list[Word], word: Word, report: Report) -> None:
    """Reports a bracket that closes nothing, or not the one that was opened last."""
    span = Span(source, word.start, word.end)
    if not stack:
        report.add(StrayCloser(f"`{_CLOSERS[word.type]}` closes nothing", span,
                               helps=(Help("remove it", span, "", False),)))
        return
    opener = stack[-1]
    closer = _PARTNERS[opener.type]
    report.add(Unclosed(f"`{_OPENERS[opener.type]}` is not closed before `{_CLOSERS[word.type]}`",
                        Span(source, opener.start, opener.end), "opened here", Label(span, "found here"),
                        helps=(Help(f"insert `{closer}` before it", span.before(), closer, False),)))


def headed(source: Source, line: Line, report: Report) -> Line:
    """A line that begins with a word that is almost one of the language, read as if it were; an equation has a name
    there. Problems go to the report.
    """
    first, after = line.words[0], line.words[1] if len(line.words) > 1 else None
    near = nearest(first.value, HEADS) if first.type == "WORD" and first.value not in HEADS else None
    if near is None or after is None or after.type not in _NO_EQUATION or len(first.value) < _SHORTEST:
        return line
    span = Span(source, first.start, first.end)
    report.add(Unexpected(f"no line begins with `{first.value}`", span,
                          helps=(Help(f"there is a word that is similar: `{near}`", span, near),)))
    return replace(line, words=(Word(near.upper(), near, first.start, first.end), *line.words[1:]), broken=True)
