"""What every reader needs: a document as it grows, and what inside a formula is layout."""

from __future__ import annotations

import logging
import re
import unicodedata
from dataclasses import dataclass, field, replace

from pylatexenc.latex2text import LatexNodes2Text

from einc.documents.changes import refused, unknown, unsettled
from einc.documents.code import Line, Stretch, axes, stretch
from einc.documents.definitions import Scopes
from einc.documents.document import Document, Fence, Formula, Heading, Holes
from einc.errors.problems import Unclosed
from einc.errors.report import Help, Source, Span

# The environments that are formulas, those that are given columns or options last; what they are given is none of it.
ENVIRONMENTS = "equation|align|flalign|gather|multline|eqnarray|displaymath|dmath|math"
BEGINS = (rf"\\begin\s*\{{(?P<math>(?:{ENVIRONMENTS})\*?|(?P<given>(?:x{{0,2}}alignat|IEEEeqnarray|empheq)\*?))\}}"
          r"(?(given)(?:\s*\[[^\[\]]*\])?(?:\s*\{[^{}]*\})?)")
MAX_TITLE = 1_000

_LAYOUT = re.compile(
    r"\\(?:begin|end)\{(?:aligned|alignedat|gathered|split)\*?\}(?:\[[tbc]\]|\{\d+\})?|\\(?:label|tag)\*?\{[^{}]*\}"
    r"|\\q?quad\s*\(\d{1,4}[a-z]?\)\s*(?=\Z|\\\\|\\end\b|\\begin\b)")
# A display that is an array of equations, and no matrix: each of its rows has a sign of equality beside a mark.
_ARRAY = re.compile(r"\s*(?P<begin>\\begin\s*\{(?P<name>array|IEEEeqnarraybox)\}(?:\[[^\[\]]*\])?\s*\{[^{}]*\})"
                    r"(?P<rows>(?:(?!\\begin\b).)*)(?P<end>\\end\s*\{(?P=name)\})\s*[.,;]?\s*", re.S)
_RELATED = re.compile(r"&\s*(?::?=|\\(?:equiv|coloneqq|leftarrow|gets)(?![A-Za-z]))")
_OUTSIDE = {  # of a display and of a formula in a line, what stands before it and after
    True: (re.compile(r"(?:\$\$|\\\[|\\begin\s*\{[A-Za-z*]+\}(?:\s*\[[^\[\]]*\])?(?:\s*\{[^{}]*\})?"
                      r"|(?:```+|~~~+)[ \t]*math[^\n]*\n[> \t]*)\Z"),
           re.compile(r"\$\$|\\\]|\\end\s*\{[A-Za-z*]+\}|\n[> \t]*(?:```+|~~~+)")),
    False: (re.compile(r"(?:\$`?|\\\(|\\begin\s*\{[a-z*]+\})\Z"), re.compile(r"`?\$|\\\)|\\end\s*\{[a-z*]+\}")),
}
# what a heading cannot say is no matter for the terminal
logging.getLogger("pylatexenc").addHandler(logging.NullHandler())
_TO_TEXT = LatexNodes2Text(math_mode="text", strict_latex_spaces=False)
_TEX = re.compile(r"[\\${}%~]|--|``|''")


@dataclass
class Draft:
    """The pieces so far; readers put them in as they stand in the file."""

    source: Source
    headings: list[Heading] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    scopes: Scopes = field(default_factory=Scopes)
    local: bool = False  # definitions in a formula end with it
    stretches: list[tuple[int, Stretch]] = field(default_factory=list)  # of code, with their sections
    lines: dict[int, Line] = field(default_factory=dict)  # the lines of code, by their formulas
    waiting: str = ""  # why the next formula is not to be read

    def heading(self, title: str, level: int, start: int, end: int) -> None:
        """Adds a heading; blanks and line breaks in its title become single spaces."""
        self.headings.append(Heading(" ".join(title.split()), level, self._span(start, end)))

    def formula(self, start: int, end: int, display: bool, holes: Holes = ()) -> None:
        """Adds a formula, unless it is empty or all of it defines macros."""
        text = self.source.text
        defined = self.scopes.formula(self.source, start, end, self.local)
        layout = [(start + m.start(), start + m.end()) for m in _LAYOUT.finditer(text[start:end])]
        found = merged([*holes, *((span.start, span.end) for span in defined), *layout, *_array(text, start, end)])
        if not without(text, start, end, found).strip(" \t\r\n$"):
            return
        self.formulas.append(Formula(self._span(start, end), display, len(self.headings) - 1, found, self.waiting))
        self.waiting = ""

    def code(self, start: int, end: int) -> bool:
        """Adds the equations of a stretch of Python; False where it has none."""
        found = stretch(self.source, start, end)
        section = len(self.headings) - 1
        self.stretches.append((section, found))
        for line in found.lines:
            self.lines[len(self.formulas)] = line
            span = self._span(line.start, line.end)
            self.formulas.append(Formula(span, not axes(span.text), section, (), self.waiting, code=True))
        self.waiting = "" if found.lines else self.waiting
        return bool(found.lines)

    def fence(self, start: int, end: int, holes: Holes = ()) -> None:
        """Adds a block of declarations under the last heading; `holes` are places in it that are not read."""
        self.fences.append(Fence(self._span(start, end), len(self.headings) - 1, holes))

    def unclosed(self, opener: str, start: int, closer: str) -> None:
        """Adds a formula without an end as one that cannot be read; the rest of the document can."""
        where = self._span(start, start + len(opener))
        problem = Unclosed(f"`{opener}` is not closed", where, "opened here",
                           notes=("a formula ends before the next empty line",),
                           helps=(Help(f"close it with `{closer}` before the next empty line; a formula has no empty "
                                       f"line in it"),))
        display = opener not in ("$", "\\(", "\\begin{math}")
        self.formulas.append(Formula(where, display, len(self.headings) - 1, (), self.waiting, problem))
        self.waiting = ""

    def done(self) -> Document:
        """The document made of all that was added. A line of code is not read that calls what any code here defines, or
        whose names do not hold one value each.
        """
        foreign = frozenset(x for _, found in self.stretches for x in found.foreign)
        changed = unsettled(found.changes for _, found in self.stretches)
        assigned: dict[int, list[tuple[str, int]]] = {}
        for section, found in self.stretches:
            assigned.setdefault(section, []).extend(found.assigned)
        for at, line in self.lines.items():
            formula = self.formulas[at]
            problem = unknown(formula.span, min(line.called & foreign)) if line.called & foreign else refused(
                formula.span, line.name, line.reads, changed, assigned[formula.section])
            self.formulas[at] = replace(formula, problem=problem)
        return Document(self.source, tuple(self.headings), tuple(self.formulas), tuple(self.fences),
                        self.scopes.done())

    def _span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)


def _array(text: str, start: int, end: int) -> Holes:
    """Where an array of equations begins and ends that is all of a display."""
    found = _ARRAY.fullmatch(text, start, end)
    rows = [row for row in found["rows"].split("\\\\") if row.strip()] if found else []
    if found is None or not rows or not all(map(_RELATED.search, rows)):
        return ()
    return found.span("begin"), found.span("end")


def merged(holes: list[tuple[int, int]]) -> Holes:
    """The holes in their order, those that overlap as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(holes):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return tuple(out)


def without(text: str, start: int, end: int, holes: Holes) -> str:
    """What stands between two places, and in no hole."""
    out = []
    for first, last in holes:
        out.append(text[start:first])
        start = last
    return "".join([*out, text[start:end]])


def outside(text: str, start: int, end: int, display: bool) -> tuple[int, int]:
    """A formula with its dollars, or with whatever else it stands between."""
    before, after = _OUTSIDE[display]
    left, right = before.search(text, max(0, start - 60), start), after.match(text, end)
    return left.start() if left else start, right.end() if right else end


def plain(tex: str) -> str:
    """A short piece of TeX as words: `\\mathbf{q}` is q."""
    if not _TEX.search(tex):
        return tex
    try:
        return unicodedata.normalize("NFKC", _TO_TEXT.latex_to_text(tex, tolerant_parsing=True))
    except (RecursionError, ValueError, IndexError, AttributeError, TypeError):
        return tex
