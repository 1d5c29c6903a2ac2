r"""Words -> words: a matrix that is written out, `\begin{bmatrix} a & b \\ c & d \end{bmatrix}` and `[a; b]`, in
brackets with a mark before each further cell and row.

A row of dashes around names, `- & q_1 & -`, is a row of these. Rows that hold dots alone stand for those that
are left out.
"""

from __future__ import annotations

import re
from dataclasses import replace

from einc.errors.problems import Unexpected
from einc.errors.report import Help, Report, Source, Span
from einc.syntax.brackets import Word
from einc.syntax.cases import closed, cut, partner

_KINDS = r"\s*\{(?:[bp]?matrix|smallmatrix|array)\}"
BEGIN = re.compile(rf"\\begin{_KINDS}(?:(?<=array}})\s*\{{[lcr|\s]*\}})?")
END = re.compile(rf"\\end{_KINDS}")
_SPREAD, _WIDE = re.compile(r"\\(?:l?dots)(?![A-Za-z])|…"), re.compile(r"\\q?quad(?![A-Za-z])|\\ ")
_APART = ("CELL", "BREAK", "COMMA", "REL", "IN", "AND", "OR", "WITH")  # in no list with dots alone
_OPENERS, _CLOSERS = ("LPAR", "LSQB", "LBRACE"), ("RPAR", "RSQB", "RBRACE")


def marked(found: list[Word], source: Source, report: Report) -> list[Word]:
    """The words with every matrix as a list in square brackets whose cells and rows have marks between them; an empty
    cell is reported.
    """
    return _listed(_environments(found, source, report), source)


def _environments(found: list[Word], source: Source, report: Report) -> list[Word]:
    """The words with every environment of a matrix in square brackets. Problems go to the report."""
    out: list[Word] = []
    at = 0
    while at < len(found):
        end = partner(found, at, "MATRIX_", "ENDMATRIX") if found[at].type == "MATRIX_" else None
        if end is None:
            out.append(found[at])
            at += 1
            continue
        inner = [w for w in _environments(found[at + 1 : end], source, report) if w.type != "NEWLINE"]
        rows = _filled(_noted([(x, _cells(x)) for x in map(closed, cut(inner, "ROW")) if x]))
        first, last = found[at], found[end]
        if not rows or any(not words for _, cells in rows for words in cells):
            report.add(Unexpected("a cell of this matrix is empty", Span(source, first.start, last.end), helps=(
                Help("write what stands in it, such as `0`"),)))
            rows = []
        out += [replace(first, type="LSQB", value="["), *_bracketed(rows), replace(last, type="RSQB", value="]")]
        at = end + 1
    return out


def _noted(rows: list[tuple[list[Word], list[list[Word]]]]) -> list[tuple[list[Word], list[list[Word]]]]:
    """The rows without those that say the shapes of the cells above them, `T \\times d_k & & T \\times d_k`: no cell
    of these stands below dots.
    """
    out = rows[:1]
    for row in rows[1:]:
        above, cells = out[-1][1], row[1]
        below = len(above) == len(cells) and any(map(_dots, above)) and all(
            not x if _dots(y) else _shape(x) for x, y in zip(cells, above, strict=True))
        out += [] if below else [row]
    return out


def _filled(rows: list[tuple[list[Word], list[list[Word]]]]) -> list[tuple[list[Word], list[list[Word]]]]:
    """The rows of a square matrix with 0 in the cells that are empty, where all of these stand above the diagonal, or
    all below it.
    """
    empty = {(n > k) - (n < k) for n, (_, cells) in enumerate(rows) for k, x in enumerate(cells) if not x}
    if empty not in ({1}, {-1}) or not 2 < len(rows) == max(len(cells) for _, cells in rows):
        return rows
    return [(row, [x or [Word("NUMBER", "0", row[0].start, row[0].start)] for x in cells]) for row, cells in rows]


def _shape(words: list[Word]) -> bool:
    """Whether the words of a cell are a shape: names with a cross between two of them."""
    return [w.value for w in words].count("*") == 1 and all(
        w.type in ("OP", "WORD", "TEXT", "LOW", "NUMBER", "LBRACE", "RBRACE") for w in words)


def _cells(row: list[Word]) -> list[list[Word]]:
    """The cells of a row: what stands between dashes is one, and of dots alone one is kept."""
    cells = [closed(x) for x in cut(row, "CELL")]
    kept = [x for x in cells if not _dash(x)]
    some = [x for x in kept if x]
    if some and all(_dots(x) for x in some):
        return [some[0]]
    return some if _lines(cells) else cells


def _lines(cells: list[list[Word]]) -> bool:
    """Whether each cell of a row that is not empty stands between dashes."""
    found = [_dash(x) for x in cells if x]
    return len(found) > 2 and found == [n % 2 == 0 for n in range(len(found))] and found[-1]


def _bracketed(rows: list[tuple[list[Word], list[list[Word]]]]) -> list[Word]:
    """The words of the rows with a mark before each further cell and row; one between rows of dashes says so."""
    lines = any(not _dots(cells[0]) and _lines([closed(x) for x in cut(row, "CELL")]) for row, cells in rows)
    out: list[Word] = []
    for n, (_, cells) in enumerate(rows):
        for k, words in enumerate(cells):
            place = words[0].start
            if k:
                out.append(Word("CELL", "&", place, place))
            elif n:
                out.append(Word("BREAK", "-" if lines else "\\\\", place, place))
            out += words
    return out


def _dash(words: list[Word]) -> bool:
    return len(words) > 0 and all(w.type == "SIGN" and w.value == "-" for w in words)


def _dots(words: list[Word]) -> bool:
    return len(words) == 1 and words[0].type == "DOTS"


def _listed(found: list[Word], source: Source) -> list[Word]:
    """The words with the semicolons of a list in square brackets as marks between rows, and with marks between the
    cells of one with dots, `[x_1 \\ … \\ x_n]`; not those of a condition.
    """
    out: list[Word] = []
    inside: list[bool] = []
    marks = _marks(found, source)
    for n, word in enumerate(found):
        if n in marks:
            out.append(Word("CELL", "&", word.start, word.start))
        if word.type in _OPENERS:
            inside.append(_is_list(found, n))
        elif word.type in _CLOSERS:
            inside = inside[:-1]
        elif word.value == ";" and inside and inside[-1]:
            word = replace(word, type="BREAK")
        out.append(word)
    return out


def _is_list(found: list[Word], at: int) -> bool:
    """Whether a bracket is a square one, and not that of a condition, `1[…]`."""
    return found[at].type == "LSQB" and (at == 0 or found[at - 1].value != "1")


def _marks(found: list[Word], source: Source) -> set[int]:
    """Before which words a mark between cells stands: around the dots of each list in square brackets that has no
    other marks, and where a wide space stands in it.
    """
    out: set[int] = set()
    open_: list[list[int]] = []  # of each bracket the places of its own words, its opener first
    for n, word in enumerate(found):
        if word.type in _OPENERS:
            if open_:
                open_[-1].append(n)
            open_.append([n])
        elif word.type in _CLOSERS and open_:
            out |= _between(found, open_.pop(), source)
        elif open_:
            open_[-1].append(n)
    return out


def _between(found: list[Word], places: list[int], source: Source) -> set[int]:
    """The places of the marks in one bracket, of which `places` are the words, its opener first."""
    first, *inner = places
    dots = [n for n in inner if found[n].type == "DOTS" and _SPREAD.match(source.text, found[n].start)]
    if not dots or not _is_list(found, first) or any(
            found[n].type in _APART or found[n].value == ";" for n in inner):
        return set()
    wide = {n for n in inner[1:] if _WIDE.search(source.text, found[n - 1].end, found[n].start)}
    return wide | {*dots} | {n + 1 for n in dots}
