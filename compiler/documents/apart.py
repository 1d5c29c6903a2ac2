"""A display of which something cannot be read, cut where a left side begins: a broken row spoils itself alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from einc.documents.document import Document, Formula, Holes
from einc.documents.pieces import without

_MARKS = re.compile(r"\\begin\s*\{(?P<begin>[A-Za-z*]+)\}|\\end\s*\{(?P<end>[A-Za-z*]+)\}"
                    r"|(?P<cut>\\\\|\\q?quad(?![A-Za-z]))"
                    r"|(?P<word>\\(?:text|mbox|textrm)\s*\{\s*(?:where|and|with)\s*\})"
                    r"|(?P<align>&(?:\s*(?::?=|\\(?:equiv|coloneqq)(?![A-Za-z]))\s*&)?)|\\."
                    r"|(?P<open>[{(\[])|(?P<close>[})\]])", re.S)
_LAYOUT = ("aligned", "alignedat", "gathered", "split")
_BLANK = rf"(?:[\s&]|\\[,;:! ]|\\(?:begin|end)\{{(?:{'|'.join(_LAYOUT)})\}}|\\q?quad(?![A-Za-z])|\\\\)*"
# A word of an argument before an equation: it follows from what stands before it.
_STEP = r"(?:\\(?:implies|Rightarrow|Longrightarrow|therefore)(?![A-Za-z])|[⟹⇒∴])"
# A left side: names with scripts and what stands in their brackets, then a sign of equality.
_BEGINS = re.compile(rf"{_BLANK}(?:{_STEP}{_BLANK})?(?P<left>"
                     r"(?!\\(?:times|cdot|odot|circ|oplus|otimes|in|le|ge|leq|geq|implies|text)(?![A-Za-z]))[A-Za-z\\]"
                     r"[^=&+\-*/<>]*)&?\s*(?P<sign>=|:=|\\equiv(?![A-Za-z])|\\coloneqq|\\leftarrow|\\gets)", re.S)
_STEPS = re.compile(rf"{_BLANK}{_STEP}{_BLANK}")
# In a column of its own the set in which something lies: `S &= Q K^\top & Q &\in \mathbb{R}^{N \times d}`.
_LIES = re.compile(rf"&{_BLANK}(?=[A-Za-z\\][^=&+\-*/<>]*&?\s*(?:\\in(?![A-Za-z])|∈))")
_GOES_ON = re.compile(rf"{_BLANK}(?P<sign>=|\\equiv(?![A-Za-z]))", re.S)
_WRAPS = re.compile(rf"{_BLANK}(?:[+\-]|\\(?:times|cdot|odot|circ|oplus|otimes)(?![A-Za-z]))", re.S)
# Behind one of these a sign of equality may say something else than the left side: a list, words, another relation.
_ENDS = re.compile(r"(?<!\\)[,;:]|[<>≤≥≈∝∼≠→⇒⟹]|\\(?:approx|sim|simeq|cong|propto|leq?|geq?|ll|gg|neq?|in|to|iff"
                   r"|(?:[Ll]ong)?(?:[Ll]eft)?[Rr]ightarrow|mapsto|implies|q?quad)(?![A-Za-z])")
_WORDS = re.compile(r"\\(?:text[a-z]*|mbox)\s*\{[^{}]*\}(?!\s*(?:[(\[_^]|\\left))")  # and no function
_BLANKS = " \t\r\n,;.&\\"  # what ends a row and says nothing
_LAST = re.compile(r"(?:\(\s*)?\\(?:text[a-z]*|mbox)\s*\{\s*\(?(?:by|from|as|since|see|using)\b[^{}]*\}(?:\s*\))?\Z"
                   r"|\\(?:text|mbox|textrm)\s*\{\s*(?:where|and|with)\s*\}\Z")
_RELATES = re.compile(r"[=<>≤≥≈∝∼≠]|\\(?:equiv|coloneqq|triangleq|leftarrow|gets|approx|sim|simeq|cong|propto"
                      r"|leq?|geq?)(?![A-Za-z])")
# A left side that is computed: `x_t + z_t = …`.
_COMPUTED = re.compile(r"\s*(?P<left>(?:[^={}\\&]|\\(?!begin).|\{[^{}]*\})+)&?\s*(?P<sign>=)", re.S)
_BRACKETS = re.compile(r"\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]")


@dataclass(frozen=True)
class Piece:
    """A part of a formula that begins with a left side; `holes` are the rows inside it that are of other parts."""

    start: int
    end: int
    holes: Holes = ()


def parts(text: str, formula: Formula) -> list[Piece]:
    """The pieces of a formula that each begin with a left side; the whole where there is none. A row that begins with a
    sign of equality goes on from the rows before it: its piece begins with their left side.
    """
    return _pieces(text, formula)[0]


def before(document: Document) -> Iterator[tuple[int, Formula]]:
    """Where the displays begin that start with a sign of equality, and the display of their section from which they go
    on.
    """
    last: Formula | None = None
    for formula in document.formulas:
        if not formula.display:
            continue
        if begun(document.source.text, formula) is None:
            last = formula
        elif last is not None and last.section == formula.section:
            yield formula.span.start, last


def begun(text: str, formula: Formula) -> tuple[int, int] | None:
    """The place of the sign of equality with which a display begins; None where it begins with something else."""
    found = _GOES_ON.match(text, formula.span.start, formula.span.end)
    return None if found is None else found.span("sign")


def left(text: str, formula: Formula) -> tuple[int, int] | None:
    """The place of the left side from which a display after this one may go on; None where it leaves none open. All of
    a display without any relation is the left side of the one after it.
    """
    start, end = formula.span.start, formula.span.end
    inner = _outside(_ended(text[start:end]))
    if not _RELATES.search(text, start, end) and not _ENDS.search(inner) and "\\\\" not in inner and inner.strip():
        return start, start + len(_ended(text[start:end]))
    open_ = _pieces(text, formula)[1]
    first = _COMPUTED.match(text, start, end) if open_ is None and "\\\\" not in inner else None
    if first is not None and not closed(text, formula):
        return first.start("left"), first.start("sign")
    return open_


def closed(text: str, formula: Formula) -> bool:
    """Whether a display is a list or says another relation: then nothing tells what a display after it goes on from."""
    inner = without(text, formula.span.start, formula.span.end, formula.holes)
    return _ENDS.search(_outside(_ended(inner))) is not None


def _pieces(text: str, formula: Formula) -> tuple[list[Piece], tuple[int, int] | None]:
    """The pieces of a formula, and the place of the left side that is open at its end."""
    start, end = formula.span.start, formula.span.end
    out: list[Piece] = []
    left: tuple[int, int] | None = None  # where the left side stands from which the next row may go on
    for a, b in pairwise([start, *_cuts(text, start, end), end]):
        goes_on = _GOES_ON.match(text, a, b)
        begins = _BEGINS.match(text, a, b) if goes_on is None else None
        found = begins or goes_on
        if found is None and a != start and not _ended(text[a:b]):
            continue
        step = (_STEPS.match(text, a, b) or _LIES.match(text, a, b)) if found is None else None
        if begins is not None:
            out.append(Piece(begins.start("left"), b))
            left = None if text.startswith(r"\q", a) else (begins.start("left"), begins.start("sign"))
        elif goes_on is not None and left is not None:
            out.append(Piece(left[0], b, ((left[1], goes_on.start("sign")),)))
        elif step is not None:  # whatever stands on its left
            out.append(Piece(step.end(), b))
        elif out:
            out[-1] = replace(out[-1], end=b)
        elif text[a:b].strip():
            out.append(Piece(a, b))
        if (found is None and text[a:b].strip() and _WRAPS.match(text, a, b) is None) or _ENDS.search(
                _outside(_ended(text[a if found is None else found.end() : b]))):
            left = None
    return out, left


def columns(text: str, formula: Formula) -> bool:
    """Whether a display has equations beside each other, in columns of an alignment."""
    return any(text.startswith("&", at) for at in _cuts(text, formula.span.start, formula.span.end))


def _ended(text: str) -> str:
    """A row without the punctuation, the spaces and the words at its end, which say nothing."""
    before = ""
    while before != text:
        before, text = text, text.rstrip(_BLANKS).removesuffix(r"\qquad").removesuffix(r"\quad")
        text = _LAST.sub("", text)
    return text


def _outside(text: str) -> str:
    """What stands in no brackets, words as a comma."""
    text = _WORDS.sub(",", text)
    while (shorter := _BRACKETS.sub(" ", text)) != text:
        text = shorter
    return text


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    """The places of line ends and wide spaces that stand in no brackets and no environment but one of layout."""
    depth = aligned = 0
    for found in _MARKS.finditer(text, start, end):
        match found.lastgroup:
            case "align" if depth <= 0:
                aligned += 1
                if aligned % 2 == 0:  # marks for alignment stand inside of columns and between them by turns
                    yield found.start()
            case "begin" | "end" if found[found.lastgroup] not in _LAYOUT:
                depth += 1 if found.lastgroup == "begin" else -1
            case "open" | "close":
                depth += 1 if found.lastgroup == "open" else -1
            case "word" if depth <= 0:
                yield from found.span()
            case "cut" if depth <= 0:
                aligned = 0 if found[0] == r"\\" else aligned
                yield found.start()
