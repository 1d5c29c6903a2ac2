"""Words -> words: what brackets that are no parentheses stand for, and the braces that TeX lets one leave out.

`|x|` is abs(x), `⌈x⌉` ceil(x) and `⌊x⌋` floor(x); `‖x‖_2` is the call of a function of the name `‖2`. A bar opens where
a number may begin and closes where one has ended; its partner stands on the same line, in the same brackets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.errors.problems import TwoBars
from einc.errors.report import Help, Report, Source, Span

UNITS = ("WORD", "GREEK", "NUMBER", "TEXT")
NORM = "‖"
NORMS = ("", "1", "2", "F", "∞")  # what may stand below the bars of a norm
_ENDS = (*UNITS, "INF", "RPAR", "RSQB", "RBRACE", "PRIME", "LABEL_LOW", "LABEL_UP", "CLOSE")  # of what is a number
_BEGINS = (*UNITS, "INF", "LPAR", "LSQB", "LBRACE", "ROOT", "SQRT", "FRAC", "ACCENT", "OPEN")


@dataclass(frozen=True, slots=True)
class Word:
    """A token: its type, its canonical value, and where it stands."""

    type: str
    value: str
    start: int
    end: int


# brackets that are applications


@dataclass
class _Level:
    """What stands in one pair of brackets: the places of the bars and halves that wait for a partner."""

    open: list[int] = field(default_factory=list)
    between: int | None = None  # the last bar with a number on both sides


def bracketed(found: list[Word], source: Source, report: Report) -> list[Word]:
    """The words with each pair of bars or halves as an application; what has no partner can stand nowhere. Problems go
    to the report.
    """
    if not any(w.type in ("BAR", "OPEN", "CLOSE") for w in found):
        return found
    pairs: dict[int, int] = {}
    levels = [_Level()]
    kinds = [w.type for w in found]
    for at, word in enumerate(found):
        match word.type:
            case "LPAR" | "LSQB" | "LBRACE":
                levels.append(_Level())
            case "RPAR" | "RSQB" | "RBRACE":
                levels[:] = levels[:-1] or [_Level()]
            case "NEWLINE" | "LINEEND" | "DISPLAY":
                levels[-1] = _Level()
            case "BAR" | "OPEN" | "CLOSE":
                _half(found, kinds, at, levels[-1], pairs, source, report)
    return _applied(found, pairs)


def _half(found: list[Word], kinds: list[str], at: int, level: _Level, pairs: dict[int, int], source: Source,
          report: Report) -> None:
    """Opens or closes a bracket; two bars between numbers, or two that are one bracket, are read in two ways. Problems
    go to the report.
    """
    before, after = (kinds[n] if 0 <= n < len(kinds) else "" for n in (at - 1, at + 1))
    first = level.open[-1] if level.open else None
    partner = first is not None and (found[first].value, found[first].type == "BAR") == (
        found[at].value, found[at].type == "BAR")
    closes = partner and before in _ENDS
    if found[at].type == "OPEN" or (found[at].type == "BAR" and not closes):
        level.open.append(at)
        kinds[at] = "OPEN"
    elif closes and first is not None:
        level.open.pop()
        pairs[first] = at
        kinds[at] = "CLOSE"
    if found[at].type != "BAR":
        return
    if pairs.get(first if first is not None else -1) == at and pairs.get((first or 0) + 1) == at - 1:
        _refuse(found, first or 0, at, "a norm or the absolute value of one", "for a norm write the root of the sum of "
                "squares, else `abs(…)`", source, report)
    between = before in _ENDS[:-1] and after in _BEGINS
    if between and level.between is not None and kinds[level.between] == "CLOSE" and kinds[at] == "OPEN":
        _refuse(found, level.between, at, "two absolute values or one inside of another", "write `abs(…)`", source,
                report)
    level.between = at if between else None


def _refuse(found: list[Word], first: int, last: int, what: str, way: str, source: Source, report: Report) -> None:
    report.add(TwoBars(f"these bars can be {what}", Span(source, found[first].start, found[last].end),
                       helps=(Help(way),)))


def _applied(found: list[Word], pairs: dict[int, int]) -> list[Word]:
    """The words with each bracket as a call of the function that it stands for, `|x|` as `|(x)`; a root takes what
    stands in the brackets behind it, and a bracket without a partner is bad.
    """
    rooted = {first for first in pairs if first and found[first - 1].type == "ROOT"}
    closing, twice = set(pairs.values()), {pairs[first] for first in rooted}
    labels = {first: _label(found, last) for first, last in pairs.items() if found[first].value == NORM}
    below = {n for _, places in labels.values() for n in places}
    out: list[Word] = []
    for at, word in enumerate(found):
        if at in pairs:
            out += [Word("LPAR", "(", word.start, word.start)] * (at in rooted)
            name = word.value + labels.get(at, ("", ()))[0]
            out += [Word("WORD", name, word.start, word.end), Word("LPAR", "(", word.end, word.end)]
        elif at in below:
            continue
        elif at in closing:
            out.append(Word("RPAR", ")", word.start, word.end))
            out += [Word("RPAR", ")", word.end, word.end)] * (at in twice)
        else:
            out.append(Word("BAD", word.value, word.start, word.end)
                       if word.type in ("BAR", "OPEN", "CLOSE") else word)
    return out


def _label(found: list[Word], end: int) -> tuple[str, tuple[int, ...]]:
    """What stands below the bars of a norm that end at a place, where that says which norm it is, and the places of it;
    a power may stand before it.
    """
    low = next((end + 1 + n for n, kinds in ((0, ["LOW"]), (2, ["UP", "NUMBER", "LOW"]))
                if [w.type for w in found[end + 1 : end + 2 + n]] == kinds), len(found))
    for width in (1, 3):
        inner = found[low + 1 : low + 1 + width]
        braces = width == 1 or (len(inner) == 3 and (inner[0].type, inner[2].type) == ("LBRACE", "RBRACE"))
        if braces and inner and inner[width // 2].value in NORMS:
            return inner[width // 2].value, tuple(range(low, low + 1 + width))
    return "", ()


# braces


def unnoted(found: list[Word]) -> list[Word]:
    """`\\underbrace{…}_{…}` is what stands in its braces; what stands below them is for the reader."""
    if not any(w.type == "NOTED" for w in found):
        return found
    out: list[Word] = []
    stack: list[str] = []  # for each open brace, the sign of its note, or ""
    at = 0
    while at < len(found):
        word = found[at]
        if word.type == "NOTED" and at + 1 < len(found) and found[at + 1].type == "LBRACE":
            stack.append("LOW" if word.value == "_" else "UP")
            out.append(Word("LBRACE", "{", word.start, found[at + 1].end))
            at += 2
            continue
        out += [word] if word.type != "NOTED" else []
        at += 1
        if word.type == "LBRACE":
            stack.append("")
        elif word.type == "RBRACE" and stack and (sign := stack.pop()):
            at = _after_note(found, at, sign)
    return out


def _after_note(found: list[Word], at: int, sign: str) -> int:
    """The place after `_{…}`, where that follows."""
    if at >= len(found) or found[at].type not in (sign, f"LABEL_{sign}"):
        return at
    if found[at].type != sign or at + 1 >= len(found) or found[at + 1].type != "LBRACE":
        return at + 1 + (found[at].type == sign)
    depth = 0
    for end in range(at + 1, len(found)):
        depth += (found[end].type == "LBRACE") - (found[end].type == "RBRACE")
        if not depth:
            return end + 1
    return len(found)


def hatted(found: list[Word]) -> list[Word]:
    """An accent over a name with scripts is one over the name: `\\widehat{A_{s}}` is `\\widehat{A}_{s}`."""
    out: list[Word] = []
    dropped: set[int] = set()
    for at, word in enumerate(found):
        if at in dropped:
            continue
        out.append(word)
        if word.type == "ACCENT" and at + 3 < len(found) and found[at + 1].type == "LBRACE" \
                and found[at + 2].type in ("WORD", "GREEK", "TEXT") and found[at + 3].type in ("LOW", "UP"):
            end = _closing(found, at + 1)
            inner = [w.type for w in found[at + 3 : end]] if end is not None else ["SIGN"]
            if end is not None and not {*inner} & {"SIGN", "OP", "REL", "FRAC", "SQRT"}:
                dropped |= {at + 1, end}
    return out


def raised(found: list[Word]) -> list[Word]:
    """`\\exp^{x}` of nothing else is `exp(x)`; `\\exp^2(x)` is a power of it."""
    out: list[Word] = []
    ends: set[int] = set()
    for at, word in enumerate(found):
        if word.type == "UP" and at and found[at - 1].type == "WORD" and found[at - 1].value == "exp" \
                and found[at + 1 : at + 2] and found[at + 1].type == "LBRACE":
            end = _closing(found, at + 1)
            after = found[end + 1] if end is not None and end + 1 < len(found) else None
            power = [w.type for w in found[at + 2 : end]] == ["NUMBER"]
            if end is not None and not power and (after is None or after.type not in ("LPAR", "LSQB", "LBRACE")):
                ends |= {at + 1, end}
                continue
        if at in ends:
            opening = word.type == "LBRACE"
            word = Word("LPAR" if opening else "RPAR", "(" if opening else ")", word.start, word.end)
        out.append(word)
    return out


def _closing(found: list[Word], at: int) -> int | None:
    """The place of the brace that closes the one at a place."""
    depth = 0
    for end in range(at, len(found)):
        depth += (found[end].type == "LBRACE") - (found[end].type == "RBRACE")
        if not depth:
            return end
    return None


def braced(found: list[Word]) -> list[Word]:
    """A fraction or a root takes one letter or digit where it has no braces: `\\frac12` is `\\frac{1}{2}`."""
    out: list[Word] = []
    rest, depth = found[::-1], 0
    waiting: list[list[int]] = []  # for each macro, how many arguments it still takes, and how deep in braces it stands
    while rest:
        word = rest.pop()
        if word.type in ("FRAC", "SQRT"):
            waiting.append([1 + (word.type == "FRAC"), depth])
        elif waiting and waiting[-1][1] == depth and word.type != "LBRACE":
            if word.type in UNITS:
                word, *more = _first(word)
                rest += more
                out += [Word("LBRACE", "{", word.start, word.start), word]
                word = Word("RBRACE", "}", word.end, word.end)
                waiting[-1][0] -= 1
            else:
                waiting[-1][0] = 0
        elif word.type == "RBRACE" and waiting and waiting[-1][1] == depth - 1:
            depth -= 1
            waiting[-1][0] -= 1
        else:
            depth += (word.type == "LBRACE") - (word.type == "RBRACE")
        out.append(word)
        while waiting and not waiting[-1][0]:
            waiting.pop()
    return out


def _first(word: Word) -> list[Word]:
    """The first letter or digit of a word, and what is left of it."""
    if (len(word.value) == 1 or word.type == "TEXT" or not word.value.isalnum()
        or word.end - word.start != len(word.value)):
        return [word]
    if word.type == "NUMBER" and not word.value.isdigit():
        return [word]  # `1e9` is one number here too
    return [Word(word.type, word.value[0], word.start, word.start + 1),
            Word(word.type, word.value[1:], word.start + 1, word.end)]
