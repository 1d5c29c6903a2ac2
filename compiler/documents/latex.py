"""LaTeX -> Document: formulas, headings, macros and declarations, read in one pass over the marks of the file.

Pylatexenc reads the words of headings. Its tree is not built: it nests as deep as the file does, and what is not closed
takes the rest of the file with it. Here a formula ends before the next empty line, as in TeX.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

from einc.documents.definitions import DEFINES, HOWS, closing, definition
from einc.documents.document import Document
from einc.documents.pieces import BEGINS, MAX_TITLE, Draft, plain
from einc.documents.scanning import reason
from einc.errors.report import Source

LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
          "subparagraph": 6, "title": 1}

_MARKS = re.compile(
    rf"(?P<said>^[ \t]*%!)|(?P<comment>%)|{BEGINS}"
    r"|\\begin\s*\{(?P<quoted>verbatim\*?|lstlisting|minted|comment|ein)\}|(?P<verb>\\verb\*?(?![A-Za-z]))"
    rf"|\\(?P<heading>{'|'.join(LEVELS)})\b\*?\s*(?:\[[^\[\]]{{0,500}}\]\s*)?(?=\{{)"
    rf"|\\(?P<defines>{HOWS})(?![A-Za-z])"
    r"|(?P<dead>\\iffalse(?![A-Za-z]))|(?P<dollars>\$\$?|\\\(|\\\[)|(?P<end>\\end\s*\{document\})"
    r"|\\begin\s*\{(?P<begin>[A-Za-z]+\*?)\}|\\end\s*\{(?P<leave>[A-Za-z]+\*?)\}"
    r"|(?P<open>\{|\\b(?:egin)?group(?![A-Za-z]))|(?P<close>\}|\\e(?:nd)?group(?![A-Za-z]))|\\.", re.S | re.M)
_CONDITION = re.compile(r"\\(fi|else|if(?!f\b)[A-Za-z]*)(?![A-Za-z])")
_CLOSERS = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_BLANK = re.compile(r"\n(?=[ \t\r]*\n)")
_INNER = re.compile(r"(?P<comment>%[^\n]*(?:\n[ \t]*)?)|\\[()\[\]]|\\end\s*\{[A-Za-z]+\*?\}|\\.|\$\$?", re.S)
_SAID = re.compile(r"%!(?P<text>[^\n]*)")
_SKIP = re.compile(r"\s*(?:ein\s*:?\s*)?skip\b:?(?P<reason>.*)")
_LINES = re.compile(r"(?:^[ \t]*%![^\n]*(?:\n|\Z))+", re.M)


def read_latex(source: Source) -> Document:
    """The headings, formulas, macros and declarations of a text in LaTeX; `%!` begins a line of declarations."""
    reader = _Reader(source.text, Draft(source, local=True), [m.start() for m in _BLANK.finditer(source.text)])
    at = 0
    while found := _MARKS.search(source.text, at):
        at = reader.mark(found)
    return reader.draft.done()


@dataclass
class _Reader:
    """What each mark begins; a method returns the place after it."""

    text: str
    draft: Draft
    blanks: list[int]
    # where the end of a formula was looked for in vain
    absent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def mark(self, found: re.Match[str]) -> int:
        """Puts what begins at a mark into the draft, and returns the place from which to read on."""
        match found.lastgroup:
            case "said":
                return self._said(found.start())
            case "comment":
                return self._past("\n", found.end())
            case "math":
                name = found["math"]
                return self._formula(found, rf"\end{{{name}}}", name != "math")
            case "dollars":
                return self._formula(found, _CLOSERS[found[0]], found[0] in ("$$", "\\["))
            case "quoted":
                return self._quoted(found)
            case "verb":
                return self._past(self.text[found.end() : found.end() + 1] or "\n", found.end() + 1)
            case "heading":
                return self._heading(found)
            case "defines":
                return self._define(found)
            case "dead":
                return self._dead(found.end())
            case "end":
                return len(self.text)
            case "begin" | "open":
                self.draft.scopes.open(found["begin"] or "{")
            case "leave" | "close":
                self.draft.scopes.close(found["leave"] or "{", found.start())
        return found.end()

    def _past(self, what: str, at: int) -> int:
        end = self.text.find(what, at)
        return end + len(what) if end >= 0 else len(self.text)

    def _dead(self, at: int) -> int:
        """The place after `\\iffalse … \\fi`, or after its `\\else`; conditions inside have their own."""
        depth = 1
        for found in _CONDITION.finditer(self.text, at):
            depth += {"fi": -1, "else": 0}.get(found[1], 1)
            if depth == 0 or (depth == 1 and found[1] == "else"):
                return found.end()
        return len(self.text)

    def _said(self, at: int) -> int:
        """Lines that begin with `%!`: why the next formula is skipped, or declarations, their marks being holes."""
        block = _LINES.match(self.text, at)
        assert block is not None
        lines = [(m, _SKIP.match(m["text"])) for m in _SAID.finditer(self.text, at, block.end())]
        for _, skip in lines:
            if skip is not None:
                self.draft.waiting = reason(skip["reason"])
        declared = [m for m, skip in lines if skip is None]
        if declared:
            start, end = declared[0].start("text"), declared[-1].end()
            kept = [(m.start("text"), m.end()) for m in declared]
            holes = [(before[1], after[0]) for before, after in pairwise(kept)]
            # The line end stays: it ends a statement.
            self.draft.fence(start, end, tuple((a + 1, b) for a, b in holes))
        return block.end()

    def _quoted(self, found: re.Match[str]) -> int:
        """An environment whose text is taken as it is: `ein` holds declarations, others are passed over. One that is
        not closed is kept with its problem.
        """
        name = found["quoted"]
        closer = rf"\end{{{name}}}"
        known = self.absent.get(closer, (0, 0))
        end = -1 if known[1] else self.text.find(closer, found.end())
        if end < 0:
            self.absent[closer] = (found.end(), len(self.text))
            self.draft.unclosed(found[0], found.start(), closer)
            return found.end()
        if name == "ein":
            self.draft.fence(found.end(), end)
        return end + len(closer)

    def _heading(self, found: re.Match[str]) -> int:
        end = closing(self.text, found.end(), min(len(self.text), found.end() + MAX_TITLE))
        if end is None:
            return found.end()
        words = plain(self.text[found.end() + 1 : end])
        self.draft.heading(words, LEVELS[found["heading"]], found.start(), end + 1)
        return end + 1

    def _define(self, found: re.Match[str]) -> int:
        defined = definition(self.draft.source, DEFINES.match(self.text, found.start()), len(self.text))
        if defined is None:
            return found.end()
        self.draft.scopes.define(defined)
        return defined.macro.span.end

    def _formula(self, found: re.Match[str], closer: str, display: bool) -> int:
        """A formula up to its end; comments in it are holes. One that is not closed is
        told, and what follows it read."""
        holes = []
        start = found.end()
        limit = self._limit(start)
        known = self.absent.get(closer, (0, 0))
        for inner in _INNER.finditer(self.text, start, start if known[0] <= start < known[1] else limit):
            mark = re.sub(r"\s", "", inner[0])
            if inner["comment"]:
                holes.append((inner.start(), inner.start() + len(inner[0].rstrip())))
            elif mark == closer or (closer == "$" and mark == "$$"):
                self.draft.formula(start, inner.start(), display, tuple(holes))
                return inner.start() + 1 if closer == "$" else inner.end()
        if not known[0] <= start < known[1]:
            self.absent[closer] = (start, limit)
        self.draft.unclosed(found[0], found.start(), closer)
        return start

    def _limit(self, at: int) -> int:
        """The offset of the first blank line from AT on, where the paragraph ends, or the end of the text."""
        after = bisect_left(self.blanks, at)
        return self.blanks[after] if after < len(self.blanks) else len(self.text)
