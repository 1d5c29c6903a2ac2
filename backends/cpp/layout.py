"""A text of C++ in lines of at most 120 letters. What it means is the same: lines are broken at blanks alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 120
# What stands in one piece, and the mark of a comment up to the end of the line.
_WORDS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//|/\*.*?\*/|[()\[\]{}]| +|.')
_BETTER = {";": 0, "{": 0, "}": 0, ",": 1}  # how good a place after such a sign is; the lower the better


def laid_out(text: str) -> str:
    """The text with long lines broken, where the fewest brackets are open; comments beside them stand above."""
    out: list[str] = []
    continued = False  # whether the line before is a part of a directive and ends in a backslash
    for line in text.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        out += [line] if len(line) <= WIDTH else _broken(line, directive)
    return "\n".join(out)


def _broken(line: str, directive: bool) -> list[str]:
    """A long line as several. The lines of a directive but the last end in backslashes, and a comment behind it stays
    in one; so does what has no blanks.
    """
    pad = line[:len(line) - len(line.lstrip())]
    places, comment = _places(line)
    if comment >= 0 and not directive:
        words = _cut(line[comment + 2:].strip(), len(pad) + 3, None)
        code = line[:comment].rstrip()
        return [*(f"{pad}// {part}" for part in words), *(laid_out(code).split("\n") if code else [])]
    first, *rest = _cut(line[len(pad):], len(pad) + 4 + 2 * directive, {at - len(pad): how for at, how in places})
    lines = [pad + first, *(f"{pad}    {part}" for part in rest)]
    return [f"{part} \\" for part in lines[:-1]] + lines[-1:] if directive else lines


def _places(line: str) -> tuple[list[tuple[int, tuple[int, int]]], int]:
    """The ends of the blanks of a line that stand in no text, each with the brackets that are open there and what
    stands before it, and where a comment begins that the end of the line ends, or -1.
    """
    found: list[tuple[int, tuple[int, int]]] = []
    depth, before = 0, ""
    for word in _WORDS.finditer(line):
        text = word[0]
        if text == "//":
            return found, word.start()
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        if text.isspace() and before:
            found.append((word.end(), (depth, _BETTER.get(before, 2))))
        if text.startswith("/*"):
            found += [(word.start() + n + 1, (depth, 3)) for n in _blanks(text)]
        before = before if text.isspace() else text
    return found, -1


def _blanks(text: str) -> Iterator[int]:
    """Where the blanks of a comment stand, but for those beside its marks."""
    return (found.start() for found in re.finditer(r"(?<=[^* ]) (?=[^ *])", text))


def _cut(text: str, lead: int, places: dict[int, tuple[int, int]] | None) -> list[str]:
    """A text in pieces that have `lead` letters before them, cut at the best of the places, or at any blank."""
    places = {found.end(): (0, 0) for found in re.finditer(" +", text)} if places is None else places
    out, start, room = list[str](), 0, WIDTH - lead
    while len(text) - start > room:
        fit = [at for at in places if start + room // 2 < at <= start + room + 1]
        fit = fit or [at for at in places if start < at <= start + room + 1]
        fit = fit or sorted(at for at in places if at > start + room)[:1]
        if not fit:
            break
        best = min(fit, key=lambda at: (places[at], -at))
        out.append(text[start:best].rstrip())
        start = best
    return [*out, text[start:]]
