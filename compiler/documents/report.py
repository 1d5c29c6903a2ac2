"""Account -> a table for a terminal, and plain data."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, get_args

from einc.documents.coverage import Account, Entry, Made, Status, Unheard
from einc.documents.naming import Named, name_of
from einc.documents.naming import names as names_in
from einc.errors import report as errors
from einc.errors.report import Problem, Span, render, width

COLUMNS = 120
_NUMBER, _LINE, _LONGEST_LINE, _STATUS, _SURE, _EQUATION = 4, 5, 16, 10, 8, 44
_REASON = COLUMNS - 2 - _NUMBER - _STATUS - _SURE - _EQUATION - 5 * 2  # with the column of lines
_SHOWN = 8  # places of sentences on a line
STATUSES: tuple[Status, ...] = get_args(Status)


def as_text(account: Account) -> str:
    """The equations section by section, then how many there are of each status, what was
    inferred, and what is wrong."""
    out = [f"{account.document.source.name}: {summary(account.entries)}", ""]
    named = names_in(account.document)
    wide = min(max((width(_line(e.span)) for e in account.entries), default=0), _LONGEST_LINE)
    wide = max(wide, _LINE)
    if account.entries:
        out.append(_row(wide, "#", "line", "status", "sure", "equation", "reason"))
    told: set[Span] = set()
    for section, entries in groupby(account.entries, lambda e: e.section):
        out += ["", _short(account.document.title(section) or "before the first heading", COLUMNS)]
        for entry in entries:
            out += [*_rows(account, entry, wide, named), *_doubts(account, entry, told)]
    out += ["", f"displays: {summary([e for e in account.entries if e.display])}",
            f"inline:   {summary([e for e in account.entries if not e.display])}"]
    out += [f"ignored:  {len(x.sentences)} sentence{'s' * (len(x.sentences) != 1)} with `{x.words}` "
            f"({', '.join(map(_where, x.sentences[:_SHOWN]))}{', …' * (len(x.sentences) > _SHOWN)})"
            for x in account.document.ignored]
    for made in account.made:
        out += ["", *_program(account, made)]
    said = [x for x in problems(account) if x.code != "E0801" or x.span not in _explained(account)]
    out += [f"\n{render(problem).rstrip()}" for problem in said]
    return "\n".join(line.rstrip() for line in out) + "\n"


def problems(account: Account) -> list[Problem]:
    """Every problem of the account once, those of the document first."""
    everything = [*account.document.problems, *account.problems]
    everything += [p for entry in account.entries for p in entry.problems]
    everything += [p for made in account.made for p in made.problems]
    return list({(p.code, p.message, p.span): p for p in everything}.values())


def _explained(account: Account) -> set[Span | None]:
    """The equations whose own problem says why they are not compiled."""
    return {entry.span for entry in account.entries if len(entry.problems) > 1}


def counts(entries: tuple[Entry, ...] | list[Entry]) -> dict[Status, int]:
    """How many entries there are of each status, 0 included."""
    found = Counter(entry.status for entry in entries)
    return {status: found[status] for status in STATUSES}


def summary(entries: tuple[Entry, ...] | list[Entry]) -> str:
    """How many equations there are, and how many of each status that occurs: `3 equations (2 compiled, 1 skipped)`."""
    parts = [f"{n} {status}" for status, n in counts(entries).items() if n]
    return f"{len(entries)} equation{'' if len(entries) == 1 else 's'}" + (f" ({', '.join(parts)})" if parts else "")


def equation(account: Account, entry: Entry) -> str:
    """The equation on one line, as it was written."""
    return " ".join("".join(c if c.isprintable() else " " for c in account.document.text(entry.span)).split())


def why(account: Account, entry: Entry) -> str:
    """The reason, or which equation is restated and where that stands."""
    if entry.restates is None:
        return entry.reason
    other = next((e for e in account.entries if e.number == entry.restates), None)
    where = f" ({_where(other.span)})" if other else ""
    return f"of {entry.restates}{where}" + (f"; {entry.reason}" if entry.reason else "")


def _rows(account: Account, entry: Entry, wide: int, named: tuple[Named, ...]) -> Iterator[str]:
    name = name_of(named, entry.span)
    said = " ".join(x for x in (name, equation(account, entry)) if x)
    reasons = textwrap.wrap(" ".join(why(account, entry).split()), _REASON - wide) or [""]
    line = _short(_line(entry.span), wide)
    yield _row(wide, str(entry.number), line, entry.status, entry.sure, said, reasons[0])
    for more in reasons[1:]:
        yield _row(wide, "", "", "", "", "", more)


def _doubts(account: Account, entry: Entry, told: set[Span]) -> Iterator[str]:
    """The sentences under an equation that nothing understands. One that was `told` before, or that stands elsewhere,
    is told by its line. Adds to `told`."""
    found = account.unheard.get(entry.number)
    if found is None:
        return
    new, old = ([x for x in found.beside if (x in told) == known] for known in (False, True))
    pad = " " * (2 + _NUMBER + 2)
    for one in new:
        told.add(one)
        yield from textwrap.wrap(f"sentence not understood ({_where(one)}): {sentence(one)}", COLUMNS,
                                 initial_indent=pad, subsequent_indent=f"{pad}  ", break_on_hyphens=False)
    for some, said in ((old, "not understood, as told above"), (found.elsewhere, "elsewhere that name a part of it")):
        if some:
            lines = [*dict.fromkeys(_where(x).removeprefix("line ") for x in some)]
            more = f" and {len(lines) - _SHOWN} others, which `--format json` has" if len(lines) > _SHOWN else ""
            if found.more and some is found.elsewhere:
                more = " and others, the first of which `--format json` has"
            yield from textwrap.wrap(f"sentences {said}: lines {', '.join(lines[:_SHOWN])}{more}", COLUMNS,
                                     initial_indent=pad, subsequent_indent=f"{pad}  ", break_on_hyphens=False)


def sentence(span: Span) -> str:
    """A sentence on one line, as its author wrote it."""
    return " ".join(span.text.split())


def _row(wide: int, number: str, line: str, status: str, sure: str, text: str, reason: str) -> str:
    """A row of the table, in which lines have a column so wide."""
    shown = _short(text, _EQUATION)
    pad = " " * (_EQUATION - width(shown))
    first = f"  {number:>{_NUMBER}}  {line:>{wide}}  {status:<{_STATUS}}  {sure:<{_SURE}}"
    return f"{first}  {shown}{pad}  {_short(reason, _REASON - wide)}"


def _short(text: str, most: int) -> str:
    """The text, cut where it takes more columns."""
    if width(text) <= most:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += width(char)
        if taken > most - 1:
            return text[:at] + "…"
    return text


def _program(account: Account, made: Made) -> list[str]:
    title = account.document.title(made.section)
    out = [_short(f"{made.name}" + (f": {title}" if title else ""), COLUMNS)]
    inferred = tuple(f"{x.text} ({_where(x.span)})" for x in made.inferred)
    for word, names in (("inferred", inferred), ("takes", made.inputs), ("returns", made.outputs)):
        if names:
            lines = textwrap.wrap(", ".join(names), COLUMNS - 12, break_on_hyphens=False)
            out += [f"  {word if at == 0 else '':<8}  {line}" for at, line in enumerate(lines)]
    return out


def _line(span: Span) -> str:
    """The line of a place, for the table."""
    return span.source.place(span.start).short(span.source.name)


def _where(span: Span) -> str:
    """The line of a place, for a sentence."""
    return span.source.place(span.start).within(span.source.name)


def as_json(account: Account) -> dict[str, Any]:
    """The account of a document as plain data for JSON: its equations, what was made of each section, how many there
    are of each status, and the problems."""
    title, named = account.document.title, names_in(account.document)
    return {
        "document": account.document.source.name,
        "equations": [_entry(account, entry, named) for entry in account.entries],
        "sections": [_made(made, title(made.section)) for made in account.made],
        "counts": counts(account.entries),
        "problems": [errors.as_json(p) for p in (*account.document.problems, *account.problems)],
    }


def _entry(account: Account, entry: Entry, named: tuple[Named, ...]) -> dict[str, Any]:
    """What became of one equation, as data for programs."""
    document = account.document
    return {
        "number": entry.number, "name": name_of(named, entry.span), **_placed(entry.span),
        "section": document.title(entry.section),
        "display": entry.display, "source": document.text(entry.span), "status": entry.status,
        "reason": entry.reason, "sure": entry.sure, "restates": entry.restates, "explicit": entry.explicit,
        "shapes": dict(entry.shapes or {}),
        "problems": [errors.as_json(p) for p in entry.problems],
        **_unheard(account.unheard.get(entry.number)),
    }


def _unheard(found: Unheard | None) -> dict[str, list[dict[str, Any]]]:
    """The sentences that nothing understands, as data for programs."""
    beside, elsewhere = ((), ()) if found is None else (found.beside, found.elsewhere)
    return {name: [{**_placed(x), "text": sentence(x)} for x in some]
            for name, some in (("unheard", beside), ("unheard_elsewhere", elsewhere))}


def _placed(span: Span) -> dict[str, Any]:
    """Where a piece of a document begins, as data for programs."""
    place = span.source.place(span.start)
    cell = {"cell": place.cell} if place.cell else {}
    return {"file": place.name, **cell, "line": place.line, "column": place.column}


def _made(made: Made, section: str) -> dict[str, Any]:
    return {
        "section": section, "name": made.name, "inputs": list(made.inputs), "outputs": list(made.outputs),
        "inferred": [x.text for x in made.inferred], "kernel": made.kernel, "recurrences": list(made.recurrences),
        "problems": [errors.as_json(p) for p in made.problems],
    }
