"""An emitted text in lines of at most 120 letters. What it computes is the same: its syntax tree is."""

from __future__ import annotations

import io
import keyword
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

WIDTH = 120
_OPEN, _CLOSE = "([{", ")]}"
_SIGNS = frozenset({"+", "-", "*", "/", "//", "%", "@", "&", "|", "<", ">", "<=", ">=", "==", "!=", "and", "or", "if",
                    "else", "for", "in"})
_WHOLE = {getattr(tokenize, "FSTRING_START", -1): 1, getattr(tokenize, "FSTRING_END", -2): -1}


@dataclass(frozen=True)
class _Place:
    """A place where a line may be broken: how good it is, the lower the better, in how many brackets it stands, and
    the column at which the next line begins.
    """

    rank: int
    depth: int
    at: int


def laid_out(text: str, width: int = WIDTH) -> str:
    """The text with long lines broken, in brackets alone, as far out as can be; comments beside them stand above."""
    lines = text.split("\n")
    words: list[list[tokenize.TokenInfo]] = [[] for _ in lines]
    inside = [0] * (len(lines) + 1)  # the brackets that are open where a line begins
    kept, texts, depth = set[int](), set[int](), 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first, last = token.start[0] - 1, token.end[0] - 1
        if first != last and token.type == tokenize.STRING:
            (texts if _alone(token, words[first]) else kept).update(range(first, last + 1))
        if token.type == tokenize.OP:
            depth += (token.string in _OPEN) - (token.string in _CLOSE)
        if token.type in (tokenize.NL, tokenize.NEWLINE):
            inside[last + 1] = depth
        elif first < len(lines):
            words[first].append(token)
    out: list[str] = []
    for n, line in enumerate(lines):
        if len(line) <= width or n in kept:
            out.append(line)
        elif n in texts:
            out += _paragraph(line, width)
        else:
            out += _broken(line, words[n], inside[n], width)
    return "\n".join(out)


def _alone(token: tokenize.TokenInfo, before: list[tokenize.TokenInfo]) -> bool:
    """Whether a text in quotes stands by itself, as one that describes does."""
    return all(one.type in (tokenize.INDENT, tokenize.DEDENT) for one in before)


def _paragraph(line: str, width: int, mark: str = "") -> list[str]:
    """A line of words as several."""
    pad = line[:len(line) - len(line.lstrip())] + mark
    body = line.lstrip()[len(mark):] if mark else line.lstrip()
    return textwrap.wrap(body, width, initial_indent=pad, subsequent_indent=pad + ("" if mark else "    "),
                         break_long_words=False, break_on_hyphens=False)


def _broken(line: str, words: list[tokenize.TokenInfo], depth: int, width: int) -> list[str]:
    """A long line as several; in `depth` brackets where it begins."""
    above: list[str] = []
    if words and words[-1].type == tokenize.COMMENT:
        at = words[-1].start[1]
        pad = line[:len(line) - len(line.lstrip())]
        above = _paragraph(f"{pad}{line[at:]}", width, "# ")
        line, words = line[:at].rstrip(), words[:-1]
    if not line or len(line) <= width:
        return [*above, *([line] if line else [])]
    told = [word for word in words if word.type not in (tokenize.INDENT, tokenize.DEDENT)]
    if len(told) == 1 and not depth and told[0].string.endswith('"""'):
        return [*above, *_paragraph(line, width)]
    places = list(_places(words, depth))
    if not places and not depth:
        line, first, last = _wrapped(line)
        places = [_Place(p.rank, p.depth, p.at + 1) for p in _places(words, 1) if first <= p.at < last]
    cut = _cut(line, sorted(places, key=lambda place: place.at), width)
    return [*above, *(part for one in cut for part in (_quoted(one, width) if depth else [one]))]


def _quoted(line: str, width: int) -> list[str]:
    """A line in brackets that is one text in quotes, as several."""
    body = line.strip().removesuffix(",")
    if len(line) <= width or not (body[0] == body[-1] == '"') or '"' in body[1:-1] or "\\" in body:
        return [line]
    pad, comma = " " * (len(line) - len(line.lstrip())), "," * line.rstrip().endswith(",")
    parts = textwrap.wrap(body[1:-1], width - len(pad) - 4, drop_whitespace=False, break_on_hyphens=False)
    return [f'{pad}"{part}"{comma if n == len(parts) else ""}' for n, part in enumerate(parts, 1)]


def _places(words: list[tokenize.TokenInfo], depth: int) -> Iterator[_Place]:
    """The places at which a line of Python may be broken, each with its rank and the number of brackets around it."""
    within = 0  # of a formatted text
    for n, token in enumerate(words):
        within += _WHOLE.get(token.type, 0)
        if within or token.type not in (tokenize.OP, tokenize.NAME):
            continue
        after = words[n + 1].start[1] if n + 1 < len(words) else 0
        if token.string in _OPEN:
            depth += 1
            if after:
                yield _Place(2, depth, after)
        elif token.string in _CLOSE:
            depth -= 1
        elif depth and token.string == "," and after:
            yield _Place(0, depth, after)
        elif depth and token.string in _SIGNS and n and _binary(words[n - 1]):
            yield _Place(1, depth, token.start[1])
        elif depth and token.string == "." and n:
            yield _Place(3, depth, token.start[1])


def _binary(before: tokenize.TokenInfo) -> bool:
    """Whether a sign after this word stands between two values."""
    named = before.type == tokenize.NAME and (not keyword.iskeyword(before.string)
                                              or before.string in ("None", "True", "False"))
    return named or before.type in (tokenize.NUMBER, tokenize.STRING) or before.string in _CLOSE


def _wrapped(line: str) -> tuple[str, int, int]:
    """A statement without brackets to break it in, its longer side in brackets, and the columns of that before."""
    pad = len(line) - len(line.lstrip())
    left, found, right = line.partition(" = ")
    if found and len(left) - pad > len(right) and ", " in left:
        return f"{line[:pad]}({left[pad:]}) = {right}", pad, len(left)
    for mark in (" = ", "return "):
        left, found, right = line.partition(mark)
        if found and not right.endswith(":"):
            return f"{left}{found}({right})", len(left) + len(found), len(line)
    return line, 0, 0


def _cut(line: str, places: list[_Place], width: int) -> list[str]:
    """The line, broken at some of the places: as late as can be, where the fewest brackets are open."""
    pad = " " * (len(line) - len(line.lstrip()) + 4)
    out, start, lead = list[str](), 0, 0
    while len(line) - start + lead > width:
        room = start + width - lead
        fit = [place for place in places if start < place.at <= room]
        late = [place for place in fit if place.at > start + (room - start) // 2] or fit
        if not late:
            late = [place for place in places if place.at > start][:1]
        if not late:
            break
        best = min(late, key=lambda place: (place.depth, place.rank, -place.at))
        out.append(" " * lead + line[start:best.at].rstrip())
        start, lead = best.at, len(pad)
    return [*out, " " * lead + line[start:]]
