"""What names the equations of a document: labels, numbers as TeX counts them, tags, and the titles of sections."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from einc.documents.document import Document, Formula
from einc.documents.pieces import outside
from einc.documents.said import Said
from einc.documents.sections import SIDE_OWN, Paper
from einc.errors.problems import NoSuchSection
from einc.errors.report import Help, Span
from einc.syntax import tree as s

_ENVIRONMENT = re.compile(r"\\begin\s*\{(?P<name>[A-Za-z]+)(?P<star>\*?)\}"
                          r"(?:\s*\[[^\[\]]*\]\s*\{(?P<held>[a-z]+)(?P<bare>\*?)\})?")
_NUMBERED = frozenset({"equation", "align", "alignat", "flalign", "gather", "multline", "eqnarray", "dmath",
                       "xalignat", "xxalignat", "IEEEeqnarray"})
_ROWS = _NUMBERED - {"equation", "multline", "dmath"}
_INSIDE = re.compile(
    r"(?<!\\)%[^\n]*|\\label\s*\{(?P<label>[^{}]*)\}|\\tag\*?\s*\{(?P<tag>[^{}]*)\}"
    r"|(?P<none>\\(?:nonumber|notag|IEEEnonumber)(?![A-Za-z]))"
    r"|(?P<yes>\\IEEEyesnumber(?![A-Za-z]))"
    r"|\\q?quad\s*\((?P<beside>\d{1,4}[a-z]?)\)\s*(?=\Z|\\\\|\\end\b)|(?P<open>\\begin\b|\{)|(?P<close>\\end\b|\})"
    r"|(?P<row>\\\\)|\\.", re.S)
_COUNTED = re.compile(
    r"(?<!\\)%[^\n]*|(?P<sub>\\begin\s*\{subequations\})|(?P<over>\\end\s*\{subequations\})|(?P<appendix>\\appendix\b)"
    r"|\\(?P<how>set|addto)counter\s*\{equation\}\s*\{\s*(?P<number>-?\d{1,6})\s*\}"
    r"|\\(?:numberwithin|counterwithin)\*?\s*\{equation\}\s*\{(?P<within>section|chapter)\}|\\.", re.S)
_SECTION = 2  # the level of `\section`
_LISTED = 8
_CHOSEN = SIDE_OWN + 1  # the rank of an equation that is asked for

Step = Literal["sub", "over", "appendix", "set", "addto", "within", "section"]


@dataclass(frozen=True)
class Named:
    """A display, or a row of one, with its number or tag and its label, each "" where it has none."""

    span: Span
    number: str = ""
    label: str = ""

    def __str__(self) -> str:
        return " ".join(x for x in (f"({self.number})" if self.number else "", self.label) if x)


def names(document: Document) -> tuple[Named, ...]:
    """The displays of a document and their rows, those that have a name, in the order of the text."""
    counter = _Counter(document.source.name.lower().endswith(".tex"))
    steps = deque(sorted(_steps(document)) if counter.counts else ())
    out: list[Named] = []
    for formula in document.formulas:
        while steps and steps[0][0] < formula.span.start:
            _, kind, number = steps.popleft()
            counter.step(kind, number)
        out += [row for row in _rows(document, formula, counter) if row.number or row.label] if formula.display else []
    return tuple(out)


def name_of(named: tuple[Named, ...], span: Span) -> str:
    """The name of the equation in a place, "" where it has none."""
    at = bisect_right(named, span.start, key=lambda one: one.span.start) - 1
    return str(named[at]) if at >= 0 and span.start < named[at].span.end else ""


@dataclass
class _Counter:
    """The counter of equations of TeX. `counts`: the document has one; `within` is the number of the section, "" where
    equations are numbered through.
    """

    counts: bool
    value: int = 0
    letter: int = -1  # of the last equation in `subequations`, -1 outside
    sections: int = 0
    by_section: bool = False
    appended: bool = False

    def next(self) -> str:
        """The number of the next equation, "" where none are counted."""
        if not self.counts:
            return ""
        if self.letter < 0:
            self.value += 1
            return self._prefix() + str(self.value)
        self.letter += 1
        return f"{self._prefix()}{self.value}{_letters(self.letter)}"

    def step(self, kind: Step, number: int) -> None:
        """Does to the counter what a command of the text does."""
        match kind:
            case "sub":
                self.value, self.letter = self.value + 1, 0
            case "over":
                self.letter = -1
            case "set":
                self.value = number
            case "addto":
                self.value += number
            case "within":
                self.by_section = True
            case "appendix":
                self.sections, self.appended = 0, True
            case "section":
                self.sections += 1
                self.value = 0 if self.by_section else self.value

    def _prefix(self) -> str:
        if not self.by_section:
            return ""
        return f"{_letters(self.sections).upper() if self.appended else self.sections}."


def _letters(number: int) -> str:
    """1 is a, 26 is z; beyond that the number itself."""
    return chr(ord("a") + number - 1) if 1 <= number <= 26 else str(number)


def _steps(document: Document) -> Iterator[tuple[int, Step, int]]:
    """What counts in the text beside the equations, with its place."""
    text = document.source.text
    for heading in document.headings:
        if heading.level == _SECTION and text.startswith("\\section", heading.span.start) \
                and not text.startswith("\\section*", heading.span.start):
            yield heading.span.start, "section", 0
    for found in _COUNTED.finditer(text):
        kinds: tuple[Step, ...] = ("sub", "over", "appendix", "within")
        for kind in kinds:
            if found[kind]:
                yield found.start(), kind, 0
        if found["how"]:
            yield found.start(), "set" if found["how"] == "set" else "addto", int(found["number"])


def _rows(document: Document, formula: Formula, counter: _Counter) -> Iterator[Named]:
    """A display row by row; one that is no list of rows is one."""
    text, (start, end) = document.source.text, (formula.span.start, formula.span.end)
    left, _ = outside(text, start, end, True)
    environment = _ENVIRONMENT.match(text, left, start)
    kind = (environment["held"] or environment["name"]) if environment else ""
    rows = kind in _ROWS
    depth, begun = 0, start
    mute = kind not in _NUMBERED or environment is None or bool(environment["bare" if environment["held"] else "star"])
    row, silent = Named(formula.span), mute
    for found in [*_INSIDE.finditer(text, start, end), None]:
        if found is None or (found["row"] and rows and depth == 0):
            number = row.number or ("" if silent else counter.next())
            stop = end if found is None else found.start()
            yield replace(row, number=number, span=Span(document.source, begun, stop))
            row, silent, begun = Named(formula.span), mute, stop
            continue
        depth += bool(found["open"]) - bool(found["close"])
        silent = (silent or bool(found["none"])) and not found["yes"]
        number = found["tag"] or found["beside"] or ""
        row = replace(row, number=row.number or number.strip(), label=row.label or (found["label"] or "").strip())


def find(paper: Paper, name: str) -> tuple[int, tuple[Said, ...]]:
    """The section and the equations of a name: a label, a number or tag, or the title of a section, which stands for
    all that it says and gives no equations. Problem where it names none, or more than one.
    """
    named, wanted = names(paper.document), name.strip()
    bare = wanted[1:-1].strip() if wanted.startswith("(") and wanted.endswith(")") else wanted
    found = [one for one in named if wanted and one.label == wanted] or [one for one in named if one.number == bare]
    if not found:
        return _titled(paper, name, named), ()
    if len(found) > 1:
        lines = ", ".join(one.span.source.place(one.span.start).within(paper.document.source.name) for one in found[:6])
        raise NoSuchSection(f"`{name}` names {len(found)} equations", notes=(f"they stand in {lines}",), helps=(
            Help("give the label of one, or a tag of its own"),))
    span = found[0].span
    shown = [x for x in paper.said if x.formula.display and not x.indices]
    said = tuple(x for x in shown if span.start <= x.span.start < max(span.end, span.start + 1))
    # A display that cannot be read is told as a whole.
    said = said or tuple(x for x in shown if x.formula.span.start <= span.start < x.formula.span.end)
    if not any(x.statement is not None for x in said):
        if (problem := next((x.problem for x in said if x.problem is not None), None)) is not None:
            raise problem
        why = next((f"it is {x.fact}" if x.fact else f"the author says so: {x.skip}" for x in said), "")
        raise NoSuchSection(f"`{name}` is no equation that can be compiled" + (f": {why}" if why else ""), notes=(
            _there(named, paper),), helps=(Help("`einc doc` says what became of every equation"),))
    return said[0].formula.section, said


def _titled(paper: Paper, name: str, named: tuple[Named, ...]) -> int:
    try:
        return paper.find(name)
    except NoSuchSection:
        known = [x for one in named for x in (one.label, one.number) if x]
        known += [paper.document.title(n) for n in paper.sections if n >= 0]
        near = get_close_matches(name, known, _LISTED, 0.6)
        help_ = f"there is `{near[0]}`" if near else "give a label, a number, or the title of a section"
        notes = (_there(named, paper, near),)
        raise NoSuchSection(f"there is no equation `{name}`", notes=notes, helps=(Help(help_),)) from None


def alone(tree: s.SyntaxTree, said: tuple[Said, ...]) -> s.SyntaxTree:
    """The tree of a section in which these equations hold before all others, and are what is asked for."""
    places = {x.statement.clauses[0].span for x in said if x.statement is not None}

    def held(line: s.Statement) -> s.Statement:
        if line.block:
            return replace(line, block=tuple(map(held, line.block)))
        own = line.rank is not None and line.clauses[0].span in places
        return replace(line, rank=_CHOSEN) if own else line

    lines = tuple(held(line) for line in tree.statements if line.keyword != "output")
    return replace(tree, statements=lines, own=(_CHOSEN,))


def _there(named: tuple[Named, ...], paper: Paper, near: list[str] | tuple[str, ...] = ()) -> str:
    """The names that there are, those that are like the one that was asked for first."""
    titles = [paper.document.title(n) for n in paper.sections if n >= 0]
    known = list(dict.fromkeys([*near, *(one.label or f"({one.number})" for one in named), *titles]))
    listed = ", ".join(f"`{x}`" for x in known[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"what has a name is {listed}{more}" if known else "no equation has a label, a number or a tag"
