"""Markdown -> Document. Markdown-it says what is a paragraph, a heading, a cell or code;
formulas are found in its lines.

The text is parsed with every character in its place, so each block knows where its lines
begin behind `> ` and list marks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from einc.documents.document import Document, Holes
from einc.documents.pieces import MAX_TITLE, Draft, outside, plain
from einc.documents.scanning import OPENING, scan
from einc.errors.report import Source

Lines = tuple[tuple[int, int], ...]
Rule = Callable[[StateBlock, int, int, bool], bool]

_OPENER = re.compile(rf"\$\$|\\\[|{OPENING.pattern}")
_AFTER = re.compile(r"[ \t]*(?:\([^()$]*\)|\{[^{}$]*\})?[ \t]*[.,;]?[ \t]*\Z")
_HTML_HEADING = re.compile(r"<h([1-6])\b[^<>]{0,500}>(.{0,500}?)</h\1\s*>", re.S | re.I)
_HTML_TAG = re.compile(r"<[^<>]*>")
_SPAN = "\ue000"


def read_markdown(source: Source) -> Document:
    """The headings, formulas and `ein` fences of a text in Markdown."""
    draft = Draft(source)
    parser = blocks()
    tokens: list[Token] = []
    parser.block.parse(with_line_feeds(source.text), parser, {}, tokens)
    cell = (-1, 0)  # the row that the last cell stood in, and where that cell ended
    for at, token in enumerate(tokens):
        lines: Lines = token.meta.get("lines", ())
        match token.type:
            case "display":
                start, end = token.meta["inside"]
                draft.formula(start, end, True, _prefixes(source.text, lines, start, end))
            case "fence":
                _fence(draft, token, lines)
            case "html_block":
                _html(draft, _Text(source.text, lines))
            case "inline" if tokens[at - 1].type == "heading_open":
                level = int(tokens[at - 1].tag[1:])
                text = _Text(source.text, lines)
                draft.heading(title(token.content), level, lines[0][0], lines[-1][1])
                _prose(draft, text)
            case "inline" if tokens[at - 1].type in ("th_open", "td_open"):
                row = lines[0]
                found = source.text.find(token.content.replace("|", "\\|"), cell[1] if cell[0] == row[0] else row[0],
                                         row[1])
                if token.content and found >= 0:
                    cell = (row[0], found + len(token.content) + token.content.count("|"))
                    _prose(draft, _Text(source.text, ((found, cell[1]),)))
            case "inline":
                _prose(draft, _Text(source.text, lines))
    return draft.done()


def with_line_feeds(text: str) -> str:
    """The text with every line end a line feed, no character moved."""
    return text.replace("\r\n", " \n").replace("\r", "\n").replace("\0", "\ufffd")


def blocks() -> MarkdownIt:
    """A parser of blocks, those of GitHub with displays, each of which is told its lines."""
    parser = MarkdownIt("commonmark").enable("table")
    ruler = parser.block.ruler
    ruler.before("fence", "display", _display, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    for rule in ruler.__rules__:
        ruler.at(rule.name, _with_places(rule.fn), {"alt": rule.alt})
    return parser


def _with_places(rule: Rule) -> Rule:
    """The rule, with the places of its lines left in each of its tokens that has text."""

    def told(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        before = len(state.tokens)
        if not rule(state, start, end, silent):
            return False
        for token in state.tokens[before:]:
            if token.map is not None and "lines" not in token.meta:
                shifted = token.type == "inline"
                token.meta["lines"] = tuple((state.bMarks[n] + shifted * state.tShift[n], state.eMarks[n])
                                            for n in range(*token.map))
        return True

    return told


def _display(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule of markdown-it: a display at the beginning of a line, closed at the end of
    one before the next empty line."""
    first = state.bMarks[start] + state.tShift[start]
    opening = _OPENER.match(state.src, first, state.eMarks[start])
    if opening is None or state.is_code_block(start):
        return False
    closer = {"$$": "$$", "\\[": "\\]"}.get(opening[0]) or rf"\end{{{opening['math']}}}"
    absent: dict[str, tuple[int, int]] = state.env.setdefault("absent", {})
    known = absent.get(closer, (0, 0))
    if known[0] <= start < known[1]:
        return False
    line, at = start, opening.end()
    while line < end and not (line > start and (state.isEmpty(line) or state.sCount[line] < state.blkIndent)):
        found = state.src.find(closer, at, state.eMarks[line])
        if found >= 0:
            after = _AFTER.match(state.src, found + len(closer), state.eMarks[line])
            if after is None or not state.src[opening.end():found].strip():
                return False
            if not silent:
                token = state.push("display", "math", 0)
                token.map, token.meta["inside"] = [start, line + 1], (opening.end(), found)
                state.line = line + 1
            return True
        line += 1
        at = state.bMarks[line]
    absent[closer] = (start, line)
    return False


@dataclass(frozen=True)
class _Text:
    """Lines of the file as one text, and back from its places to those of the file."""

    source: str
    lines: Lines

    def joined(self) -> str:
        return "\n".join(self.source[start:end] for start, end in self.lines)

    def starts(self) -> list[int]:
        out = [0]
        for start, end in self.lines:
            out.append(out[-1] + end - start + 1)
        return out


def _prose(draft: Draft, text: _Text) -> None:
    """Adds the formulas of a paragraph, a heading or a cell."""
    joined, starts = text.joined(), text.starts()

    def place(at: int) -> int:
        line = min(bisect_right(starts, at), len(text.lines)) - 1
        return text.lines[line][0] + at - starts[line]

    for piece in scan(joined):
        start, end = place(piece.start), place(piece.end)
        match piece.kind:
            case "skip":
                draft.waiting = piece.text
            case "unclosed":
                draft.unclosed(joined[piece.start : piece.end], start, piece.text)
            case _:
                draft.formula(start, end, piece.kind == "display", _prefixes(text.source, text.lines, start, end))


def _prefixes(source: str, lines: Lines, start: int, end: int) -> Holes:
    """What stands at the beginning of a formula's further lines and is Markdown's, such as `> `."""
    out = []
    for begin, _ in lines[bisect_right(lines, (start, len(source))) : bisect_right(lines, (end, len(source)))]:
        line = max(source.rfind("\n", start, begin), source.rfind("\r", start, begin)) + 1
        out += [(line, begin)] if source[line:begin].strip() else []
    return tuple(out)


def _fence(draft: Draft, token: Token, lines: Lines) -> None:
    """Puts a fenced block into the draft: `math` is a display formula, `ein` are declarations, and the lines of
    `python` are equations where strings of axes stand in them; others are left out.
    """
    words = token.info.split()
    inside = lines[1 : 1 + token.content.count("\n")]
    if words[:1] in (["python"], ["py"]) and inside and not _prefixes(draft.source.text, inside, inside[0][0],
                                                                       inside[-1][1]):
        draft.code(inside[0][0], inside[-1][1])
    if not words or words[0] not in ("ein", "math") or not inside:
        return
    start, end = inside[0][0], inside[-1][1]
    holes = _prefixes(draft.source.text, inside, start, end)
    if words[0] == "math":
        draft.formula(start, end, True, holes)
    else:
        draft.fence(start, end, holes)


def _html(draft: Draft, text: _Text) -> None:
    """Reads a block of HTML: its headings, and formulas in its text."""
    joined, starts = text.joined(), text.starts()
    at = 0
    for found in _HTML_HEADING.finditer(joined):
        _prose(draft, _cut(text, starts, at, found.start()))
        line = bisect_right(starts, found.start()) - 1
        where = text.lines[line][0] + found.start() - starts[line]
        draft.heading(title(_HTML_TAG.sub("", found[2])), int(found[1]), where, where + len(found[0]))
        at = found.end()
    _prose(draft, _cut(text, starts, at, len(joined)))


def _cut(text: _Text, starts: list[int], start: int, end: int) -> _Text:
    """The part of the lines between two places of their joined text."""
    out = []
    for line in range(max(bisect_right(starts, start) - 1, 0), min(bisect_right(starts, end), len(text.lines))):
        (begin, stop), at = text.lines[line], starts[line]
        first, last = max(begin, begin + start - at), min(stop, begin + end - at)
        out += [(first, last)] if first <= last else []
    return _Text(text.source, tuple(out))


_INLINE = MarkdownIt("commonmark")


def title(text: str) -> str:
    """The words of a heading: no markup, formulas as words."""
    if len(text) > MAX_TITLE:
        return text
    out, at, formulas = [], 0, []
    for piece in scan(text):
        if piece.kind in ("inline", "display"):
            left, right = outside(text, piece.start, piece.end, piece.kind == "display")
            out.append(text[at:left])
            formulas.append(plain(text[piece.start : piece.end]))
            at = right
    marked = _SPAN.join([*out, text[at:]])
    words = "".join(map(_words, _INLINE.parseInline(marked)[0].children or []))
    for formula in formulas:
        words = words.replace(_SPAN, formula, 1)
    return words


def _words(token: Token) -> str:
    match token.type:
        case "text" | "code_inline" | "text_special":
            return token.content
        case "softbreak" | "hardbreak":
            return " "
        case "image":
            return "".join(map(_words, token.children or []))
    return ""
