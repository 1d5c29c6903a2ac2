"""Words -> words: what stands for a whole side in a script, `A_{i,:}`, `A_{i:}`, `A_{*,j}`, `A[i, :]`, is a word."""

from __future__ import annotations

from dataclasses import replace

from einc.syntax.brackets import Word

WHOLE = ":"
_CLOSERS = {"LBRACE": "RBRACE", "LSQB": "RSQB"}
_NAMES = ("WORD", "GREEK", "TEXT", "RBRACE", "PRIME", "LABEL_LOW", "LABEL_UP")
_OPENERS, _ENDS = ("LPAR", "LSQB", "LBRACE"), ("RPAR", "RSQB", "RBRACE")


def sliced(found: list[Word]) -> list[Word]:
    """The words, in which each colon, star or dot that has a place of a script for itself is the word of a whole side,
    with commas around it; square brackets with such a word behind a name are a script.
    """
    if not any(map(_mark, found)):
        return found
    opened: list[int] = []
    pairs: dict[int, int] = {}
    inner: dict[int, list[int]] = {}  # of each bracket the places of its marks
    for at, word in enumerate(found):
        if word.type in _OPENERS:
            opened.append(at)
        elif word.type in _ENDS and opened:
            pairs[opened.pop()] = at
        elif opened and _mark(word):
            inner.setdefault(opened[-1], []).append(at)
    marks: set[int] = set()
    turned: dict[int, str] = {}
    for start, places in inner.items():
        end = pairs.get(start)
        if end is None or end - start < 3 or not _is_script(found, start):
            continue
        mine = {n for n in places if _apart(found, n, start, end)}
        marks |= mine
        turned |= {start: "LBRACE", end: "RBRACE"} if mine and found[start].type == "LSQB" else {}
    return _written(found, marks, turned)


def _mark(word: Word) -> bool:
    return word.type == "COLON" or (word.type == "OP" and word.value == "*")


def _is_script(found: list[Word], start: int) -> bool:
    """Whether a bracket is that of a lower script, or a square one directly behind a name."""
    before = found[start - 1] if start else None
    if before is None or found[start].type not in _CLOSERS:
        return False
    if found[start].type == "LBRACE":
        return before.type == "LOW"
    return before.type in _NAMES and before.end == found[start].start


def _apart(found: list[Word], at: int, start: int, end: int) -> bool:
    """Whether a mark stands at an end of the bracket, or beside a comma."""
    return at in (start + 1, end - 1) or found[at - 1].type == "COMMA" or found[at + 1].type == "COMMA"


def _written(found: list[Word], marks: set[int], turned: dict[int, str]) -> list[Word]:
    """The words with marks as words between commas, and brackets as those of scripts."""
    out: list[Word] = []
    for at, word in enumerate(found):
        if at in turned:
            out += [Word("LOW", "_", word.start, word.start)] if turned[at] == "LBRACE" else []
            out.append(Word(turned[at], "{" if turned[at] == "LBRACE" else "}", word.start, word.end))
        elif at in marks:
            comma = Word("COMMA", ",", word.start, word.start)
            out += [comma] if found[at - 1].type not in ("COMMA", *_OPENERS) else []
            out.append(replace(word, type="WORD", value=WHOLE))
            out += [comma] if found[at + 1].type not in ("COMMA", *_ENDS) else []
        else:
            out.append(word)
    return out
