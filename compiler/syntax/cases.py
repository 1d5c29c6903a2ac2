r"""Words -> words: `\begin{cases} a & p \\ b & \text{otherwise} \end{cases}` is `(1[p] (a) + 1[not p] (b))`.

Of the rows whose conditions hold the first counts. A row without a condition, or with `otherwise`, holds elsewhere;
where there is none, the conditions must leave nothing out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor, inf

from einc.errors.problems import CasesLeaveOut, Unexpected
from einc.errors.report import Help, Label, Report, Source, Span
from einc.syntax.brackets import Word

BEGIN = re.compile(r"\\begin\s*\{d?cases\}|\\left\s*\\\{\s*\\begin\s*\{array\}\s*\{[lcr|\s]*\}")
END = re.compile(r"\\end\s*\{d?cases\}|\\end\s*\{array\}\s*\\right\s*\.")
ROW = re.compile(r"\\\\(?:\s*\[-?[0-9.]+(?:pt|em|ex|mm|cm)\])?")
_ELSE = ("otherwise", "else", "elsewhere")
_IF = ("if", "for", "when", "where")
_End = tuple[float, int]  # of an interval: where it is, and 1 or -1 where it lies just above or below that
_HOLDS = {"<": {-1}, ">": {1}, "<=": {-1, 0}, ">=": {0, 1}, "=": {0}, "!=": {-1, 1}}  # of the sign of left - right


@dataclass(frozen=True)
class _Row:
    """A value and the conditions under which it is meant, all of them; None is everywhere else."""

    value: list[Word]
    conditions: list[list[Word]] | None


def chosen(found: list[Word], source: Source, report: Report) -> list[Word]:
    """The words with every choice between cases as a sum of indicators; one that leaves something out is reported."""
    out: list[Word] = []
    at = 0
    while at < len(found):
        if found[at].type == "CASES" and (end := partner(found, at, "CASES", "ENDCASES")) is not None:
            inner = chosen(found[at + 1 : end], source, report)
            out += _sum(list(_rows(inner)), found[at], found[end], source, report)
            at = end + 1
        else:
            out.append(found[at])
            at += 1
    return out


def partner(found: list[Word], at: int, opening: str, closing: str) -> int | None:
    """The place of the word of the type `closing` that closes what begins at a place; None where nothing does."""
    depth = 0
    for n in range(at, len(found)):
        depth += (found[n].type == opening) - (found[n].type == closing)
        if depth == 0:
            return n
    return None


def _rows(inner: list[Word]) -> Iterator[_Row]:
    """The rows, without line ends and the commas that close a cell; what holds otherwise is the last."""
    last: list[_Row] = []
    for words in cut([w for w in inner if w.type != "NEWLINE"], "ROW"):
        value, *rest = (closed(x) for x in cut(words, "CELL"))
        cell = [w for x in rest for w in (*x, Word("CELL", "&", words[-1].end, words[-1].end))][:-1]
        if cell and cell[0].type in ("TEXT", "WORD") and cell[0].value.strip() in _IF:
            cell = cell[1:]
        otherwise = len(cell) == 1 and cell[0].type in ("TEXT", "WORD") and cell[0].value.strip(" .,;") in _ELSE
        if value and otherwise:
            last.append(_Row(value, None))
        elif value:
            yield _Row(value, cut(cell, "COMMA") if cell else None)
    yield from last


def cut(words: list[Word], kind: str) -> list[list[Word]]:
    """The words between those of a kind that stand in no brackets."""
    out: list[list[Word]] = [[]]
    depth = 0
    for word in words:
        depth += (word.type in ("LPAR", "LSQB", "LBRACE")) - (word.type in ("RPAR", "RSQB", "RBRACE"))
        if word.type == kind and depth == 0:
            out.append([])
        else:
            out[-1].append(word)
    return out


def closed(words: list[Word]) -> list[Word]:
    """The words without the marks of a sentence at their end."""
    while words and words[-1].value in (",", ".", ";"):
        words = words[:-1]
    return words


def _sum(rows: list[_Row], first: Word, last: Word, source: Source, report: Report) -> list[Word]:
    """The sum over the rows, of each the indicators of its conditions and of what the rows before it leave. Problems go
    to the report.
    """
    place = first.start
    conditions = [row.conditions for row in rows]
    for row in rows[:-1]:
        if row.conditions is None:
            span = Span(source, row.value[0].start, row.value[-1].end)
            report.add(Unexpected("a row without a condition stands before another", span, helps=(
                Help(r"say when it is meant: `… & x > 0`; what holds otherwise is the last row"),)))
    if not rows or (None not in conditions and not _complete([x for x in conditions if x is not None])):
        span = Span(source, first.start, last.end)
        report.add(CasesLeaveOut("what is it where none of these conditions holds?", span, helps=(
            Help(r"say it in a last row: `0 & \text{otherwise}`"),)))
    for one, other in combinations(rows, 2):
        if _clash(one, other):
            span = Span(source, other.value[0].start, other.value[-1].end)
            report.add(Unexpected("two of these conditions hold at once, with two values", span, "", Label(
                Span(source, one.value[0].start, one.value[-1].end), "the other"), helps=(
                    Help(r"take what holds in both from one of them: `<` for `\le`"),)))
    terms: list[Word] = []
    for n, row in enumerate(rows):
        if [w.value for w in row.value] == ["0"]:
            continue
        before = [x for x in conditions[:n] if x is not None and not _apart(x, row.conditions)]
        terms += [Word("SIGN", "+", place, place)] if terms else []
        for denied in before:
            terms += _indicator(_joined([_denied(x, place) for x in denied], place), place)
        for holds in row.conditions or []:
            terms += _indicator(holds, place)
        terms += [Word("LPAR", "(", place, place), *row.value, Word("RPAR", ")", place, place)]
    terms = terms or [Word("NUMBER", "0", place, place)]
    return [Word("LPAR", "(", first.start, first.end), *terms, Word("RPAR", ")", last.start, last.end)]


def _indicator(condition: list[Word], place: int) -> list[Word]:
    return [Word("NUMBER", "1", place, place), Word("LSQB", "[", place, place), *condition,
            Word("RSQB", "]", place, place)]


def _denied(condition: list[Word], place: int) -> list[Word]:
    """The opposite of a condition; `x ≤ 0` is none of `x > 0`, for x may be NaN."""
    return [Word("NOT", "not", place, place), *condition]


def _joined(conditions: list[list[Word]], place: int) -> list[Word]:
    """Any of some conditions."""
    out = conditions[0]
    for x in conditions[1:]:
        out = [*out, Word("OR", "or", place, place), *x]
    return out


def _compared(condition: list[Word]) -> int | None:
    """The place of the sign of a condition that compares two numbers, None for another."""
    signs = [n for n, w in enumerate(condition) if w.type in ("REL", "IN", "AND", "OR", "NOT")]
    return signs[0] if len(signs) == 1 and condition[signs[0]].value in _HOLDS else None


def _sides(conditions: list[list[Word]]) -> tuple[tuple[tuple[str, ...], ...], set[int]] | None:
    """What a single comparison compares, and the signs of their difference for which it holds."""
    at = _compared(conditions[0]) if len(conditions) == 1 else None
    if at is None:
        return None
    left, right = (tuple(w.value for w in x) for x in (conditions[0][:at], conditions[0][at + 1 :]))
    holds = _HOLDS[conditions[0][at].value]
    return ((left, right), holds) if left <= right else ((right, left), {-x for x in holds})


def _apart(one: list[list[Word]], other: list[list[Word]] | None) -> bool:
    """Whether two comparisons of the same numbers never hold at once."""
    a, b = _sides(one), None if other is None else _sides(other)
    return a is not None and b is not None and a[0] == b[0] and not a[1] & b[1]


def _clash(one: _Row, other: _Row) -> bool:
    """Whether two rows, each of a single comparison, are both meant somewhere and say different things there. A row may
    be narrower than a later one, for of two that hold the first counts.
    """
    a, b = (_sides(x.conditions) if x.conditions is not None else None for x in (one, other))
    values = [tuple(w.value for w in x.value) for x in (one, other)]
    if a is None or b is None or values[0] == values[1]:
        return False
    if a[0] == b[0]:
        shared = a[1] & b[1] if not a[1] < b[1] else set()
        return _differ(one, other, a[0]) if shared == {0} else bool(shared)
    first, second = _interval(*a), _interval(*b)
    return first is not None and second is not None and first[0] == second[0] and _crossed(first[1], second[1])


def _differ(one: _Row, other: _Row, equal: tuple[tuple[str, ...], ...]) -> bool:
    """Whether two values are certainly not the same where two things are `equal`: numbers that differ, names that stand
    for other entries, a name and a number; what is computed may be the same.
    """
    first, second = sorted(equal, key=lambda x: len(x) == 1 and _number(x[0]) is not None)
    found = [_put(tuple(w.value for w in x.value), first, second) for x in (one, other)]
    letters = len(first) == len(second) == 1 and first[0].isalpha() and second[0].isalpha()
    return found[0] != found[1] and (letters or all(map(_atom, (one, other))))


def _put(words: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """The words with some that stand side by side as others."""
    out: tuple[str, ...] = ()
    while words:
        same = words[: len(old)] == old
        out, words = (*out, *(new if same else words[:1])), words[len(old) if same else 1 :]
    return out


def _atom(row: _Row) -> bool:
    """Whether a value is a number, or one name with its scripts."""
    first, *hung = (w for w in row.value if w.type != "NEWLINE")
    if not hung:
        return first.type in ("NUMBER", "WORD", "INF")
    braced = len(hung) > 1 and hung[1].type == "LBRACE" and hung[-1].type == "RBRACE"
    return first.type == "WORD" and hung[0].value in ("_", "^") and (braced or len(hung) == 2)


def _number(text: str) -> float | None:
    """The number that a word is, None for another."""
    try:
        return float(text)
    except ValueError:
        return None


def _interval(sides: tuple[tuple[str, ...], ...],
              signs: set[int]) -> tuple[tuple[str, ...], tuple[_End, _End]] | None:
    """What is compared with a number that is written out, and the ends between which the comparison holds; None for
    another comparison.
    """
    numbers = [None if len(x) != 1 else _number(x[0]) for x in sides]
    at = next((n for n, x in enumerate(numbers) if x is not None), None)
    if at is None or None not in numbers or signs == {-1, 1}:
        return None
    edge, signs = numbers[at] or 0.0, signs if at == 1 else {-x for x in signs}
    low = (edge, int(0 not in signs)) if -1 not in signs else (-inf, 0)
    high = (edge, -int(0 not in signs)) if 1 not in signs else (inf, 0)
    return sides[1 - at], (low, high)


def _crossed(first: tuple[_End, _End], second: tuple[_End, _End]) -> bool:
    """Whether two intervals share a whole number and the first is no narrower than the second."""
    (low, above), (high, below) = max(first[0], second[0]), min(first[1], second[1])
    least = low if low == -inf else floor(low) + 1 if above else ceil(low)
    most = high if high == inf else ceil(high) - 1 if below else floor(high)
    return least <= most and (first == second or not (second[0] <= first[0] and first[1] <= second[1]))


def _complete(conditions: list[list[list[Word]]]) -> bool:
    """Whether one of the conditions always holds: comparisons of the same numbers that leave no sign out."""
    found = [x for x in map(_sides, conditions) if x is not None]
    return len(found) == len(conditions) and len({x[0] for x in found}) == 1 and (
        set().union(*(x[1] for x in found)) == {-1, 0, 1})
