"""A prime after a bare script, which the name may have or its index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from einc.errors.problems import BadScript
from einc.errors.report import Help, Source, Span


class Placed(Protocol):
    """A word of a text, by its kind and its place."""

    @property
    def type(self) -> str:
        """The kind of the token, as the grammar names it."""
        ...

    @property
    def start(self) -> int:
        """The place of its first character in the text."""
        ...

    @property
    def end(self) -> int:
        """The place behind its last character in the text."""
        ...


def two_primes(source: Source, words: Sequence[Placed], marks: str, span: Span) -> BadScript:
    """The problem of a prime at `span` after these words, with both ways to write it; the
    last two are a sign and its script."""
    at, (begin, named) = words[-2].start, _name(words)
    text = source.text
    name, scripts, script = text[begin:named], text[named:at], text[at : span.start]
    braced = f"{script[0]}{{{script[1:].strip()}{marks}}}"
    return BadScript(f"a prime after `{script}` could belong to the name or to the script", span, helps=(
        Help(f"write `{name}{marks}{scripts}{script}` if the name has the prime",
             Span(source, named, span.end), f"{marks}{scripts}{script}", False),
        Help(f"write `{name}{scripts}{braced}` if the index has it", Span(source, at, span.end), braced, False)))


def in_shape(source: Source, words: Sequence[Placed]) -> bool:
    """Whether the next word stands in the braces of a shape, `\\mathbb{R}^{d_c' \\times d}`."""
    depth = 0
    for at in range(len(words) - 1, 1, -1):
        depth += (words[at].type == "RBRACE") - (words[at].type == "LBRACE")
        if depth < 0:
            return words[at - 1].type == "UP" and source.text.startswith("\\mathbb", words[at - 2].start)
    return False


def _name(words: Sequence[Placed]) -> tuple[int, int]:
    """The place of the name whose scripts the last words are: after each sign what stands in braces, or one word."""
    at = len(words)
    while at > 1:
        inner = at - 1
        if words[inner].type == "RBRACE":
            while inner > 0 and words[inner].type != "LBRACE":
                inner -= 1
        if inner < 2 or words[inner - 1].type not in ("LOW", "UP"):
            break
        at = inner - 1
    return words[at - 1].start, words[at - 1].end
