"""What every reader needs: a document as it grows, what inside a formula is layout, and
macros that the author defines."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from pylatexenc.latex2text import LatexNodes2Text

from einc.documents.document import Document, Fence, Formula, Heading, Holes, Macro
from einc.errors.problems import Unclosed
from einc.errors.report import Help, Source, Span

ENVIRONMENTS = "equation|align|alignat|flalign|gather|multline|eqnarray|displaymath|dmath|math"
MAX_TITLE = 1_000
MAX_BODY = 1_000

_LAYOUT = re.compile(
    r"\\(?:begin|end)\{(?:aligned|alignedat|gathered|split)\*?\}(?:\[[tbc]\]|\{\d+\})?|\\(?:label|tag)\*?\{[^{}]*\}"
    r"|\\q?quad\s*\(\d{1,4}[a-z]?\)\s*(?=\Z|\\\\|\\end\b|\\begin\b)")
DEFINES = re.compile(
    r"\\(?P<new>(?:re|provide)?newcommand|renewcommand|providecommand|DeclareMathOperator|def)\*?\s*"
    r"(?:\{\s*\\(?P<braced>[A-Za-z]+)\s*\}|\\(?P<bare>[A-Za-z]+))\s*(?:\[(?P<count>[1-9])\])?\s*"
    r"(?P<marks>(?:\#[1-9])*)\s*(?=\{)")
_BRACE = re.compile(r"\\.|%[^\n]*|[{}]", re.S)
_OUTSIDE = {  # of a display and of a formula in a line, what stands before it and after
    True: (re.compile(r"(?:\$\$|\\\[|\\begin\s*\{[a-z*]+\}(?:\s*\{\d+\})?|(?:```+|~~~+)[ \t]*math[^\n]*\n[> \t]*)\Z"),
           re.compile(r"\$\$|\\\]|\\end\s*\{[a-z*]+\}|\n[> \t]*(?:```+|~~~+)")),
    False: (re.compile(r"(?:\$`?|\\\(|\\begin\s*\{[a-z*]+\})\Z"), re.compile(r"`?\$|\\\)|\\end\s*\{[a-z*]+\}")),
}
# what a heading cannot say is no matter for the terminal
logging.getLogger("pylatexenc").addHandler(logging.NullHandler())
_TO_TEXT = LatexNodes2Text(math_mode="text", strict_latex_spaces=False)
_TEX = re.compile(r"[\\${}%~]|--|``|''")
_COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?[ \t]*")


@dataclass
class Draft:
    """The pieces so far; readers put them in as they stand in the file."""

    source: Source
    headings: list[Heading] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)
    waiting: str = ""  # why the next formula is not to be read

    def heading(self, title: str, level: int, start: int, end: int) -> None:
        """Adds a heading; blanks and line breaks in its title become single spaces."""
        self.headings.append(Heading(" ".join(title.split()), level, self._span(start, end)))

    def formula(self, start: int, end: int, display: bool, holes: Holes = ()) -> None:
        """A formula, unless it is empty or all of it defines macros."""
        text = self.source.text
        defined = list(definitions(self.source, start, end)) if "\\" in text[start:end] else []
        self.macros |= {name: macro for name, macro in defined}
        layout = [(start + m.start(), start + m.end()) for m in _LAYOUT.finditer(text[start:end])]
        found = merged([*holes, *((m.span.start, m.span.end) for _, m in defined), *layout])
        if not without(text, start, end, found).strip(" \t\r\n$"):
            return
        self.formulas.append(Formula(self._span(start, end), display, len(self.headings) - 1, found, self.waiting))
        self.waiting = ""

    def fence(self, start: int, end: int, holes: Holes = ()) -> None:
        """Adds a block of declarations under the last heading; `holes` are places in it that are not read."""
        self.fences.append(Fence(self._span(start, end), len(self.headings) - 1, holes))

    def unclosed(self, opener: str, start: int, closer: str) -> None:
        """A formula without an end is one that cannot be read; the rest of the document can."""
        where = self._span(start, start + len(opener))
        problem = Unclosed(f"`{opener}` is not closed", where, "opened here",
                           notes=("a formula ends before the next empty line",),
                           helps=(Help(f"close it with `{closer}` before the next empty line; a formula has no empty "
                                       f"line in it"),))
        display = opener not in ("$", "\\(", "\\begin{math}")
        self.formulas.append(Formula(where, display, len(self.headings) - 1, (), self.waiting, problem))
        self.waiting = ""

    def done(self) -> Document:
        """The document made of all that was added."""
        return Document(self.source, tuple(self.headings), tuple(self.formulas), tuple(self.fences), self.macros)

    def _span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)


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


def definitions(source: Source, start: int, end: int) -> Iterator[tuple[str, Macro]]:
    """The macros that a stretch of TeX defines."""
    at = start
    while found := DEFINES.search(source.text, at, end):
        at = found.end()
        if (macro := definition(source, found, end)) is not None:
            at = macro[1].span.end
            yield macro


def definition(source: Source, found: re.Match[str] | None, end: int) -> tuple[str, Macro] | None:
    """The macro that begins where `DEFINES` matches; one with an optional argument is none."""
    closed = closing(source.text, found.end(), min(end, found.end() + MAX_BODY)) if found else None
    if found is None or closed is None:
        return None
    body = _COMMENT.sub("", source.text[found.end() + 1 : closed])
    if found["new"] == "DeclareMathOperator":
        body = rf"\operatorname{{{body}}}"
    arguments = int(found["count"] or 0) or len(found["marks"]) // 2
    return found["braced"] or found["bare"], Macro(arguments, body, Span(source, found.start(), closed + 1))


def closing(text: str, at: int, end: int) -> int | None:
    """The place of the brace that closes the one at `at`."""
    depth = 0
    for brace in _BRACE.finditer(text, at, end):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0:
            return brace.start()
    return None


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
