"""Texts as tokens and back: by a tokenizer's file, byte by byte, or not at all."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from einc.driver.files import size
from einc.errors.report import failure

BYTES = 256
BROKEN = "\ufffd"  # a character of which some bytes are still to come,
PARTS = 4  # at most so many in all


@dataclass(frozen=True, slots=True)
class Coder:
    """A prompt to its tokens, and tokens to their text."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    before: int = 8  # on so many tokens before it the text of one may hang


def coder(tokenizer: str | None, vocabulary: int, texts: bool) -> Coder:
    """What turns prompts into tokens: `texts` says that there are some. EincError where nothing can."""
    if tokenizer is not None:
        return _from_file(tokenizer)
    if not texts:
        return Coder(numbers, lambda ids: " ".join(map(str, ids)), 0)
    if vocabulary < BYTES:
        raise failure(f"the vocabulary has {vocabulary} tokens, and a text has {BYTES} different bytes",
                      "give the tokens, --ids 1,2,3", "give --tokenizer tokenizer.json")
    return Coder(lambda text: list(_utf8(text)), _from_bytes)


def _utf8(text: str) -> bytes:
    """What stood on the command line, if it was no text too."""
    return text.encode("utf-8", "surrogateescape")


def numbers(text: str) -> list[int]:
    """`1,2,3` as numbers. Raises EincError where one is no whole number."""
    pieces = [piece.strip() for piece in text.split(",")] if text.strip() else []
    for piece in pieces:
        if not re.fullmatch(r"[0-9]{1,15}", piece):
            raise failure(f"`{piece}` is no token: they are whole numbers from 0", "write --ids 1,2,3")
    return list(map(int, pieces))


def _from_bytes(ids: list[int]) -> str:
    """Runs of bytes as UTF-8, and tokens that are no bytes by their numbers."""
    out, run = "", bytearray()
    for n in [*ids, BYTES]:
        if n < BYTES:
            run.append(n)
            continue
        out, run = out + run.decode("utf-8", "replace") + f"<{n}>", bytearray()
    return out.removesuffix(f"<{BYTES}>")


def _from_file(path: str) -> Coder:
    """The coder of a tokenizer file. EincError where the file cannot be read, or tokenizers is not installed."""
    size(path)
    with open(path, "rb"):
        pass  # A file that is not there or not readable is told as for every other file.
    try:
        tokenizers: Any = importlib.import_module("tokenizers")
    except ModuleNotFoundError:
        raise failure("tokenizers is not installed, which --tokenizer needs",
                      "`pip install tokenizers`, or give --ids") from None
    try:
        made = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # whatever the library says of a file that it does not understand
        raise failure(f"{path} cannot be read as a tokenizer: {error}") from error
    return Coder(lambda text: list(made.encode(_utf8(text).decode("utf-8", "replace")).ids),
                 lambda ids: str(made.decode(ids)))


class Reader:
    """The text that each new token adds to a text.

    It may hang on the tokens before (a blank in front, a character in several parts), so
    a few are read again, and some wait.
    """

    def __init__(self, coder: Coder, prompt: list[int]) -> None:
        self.decode, self.ids = coder.decode, prompt[max(len(prompt) - coder.before, 0) :]
        self.start, self.told = 0, len(self.ids)

    def add(self, token: int) -> str:
        """The text that a token adds, which is empty while a character in several parts still waits."""
        self.ids.append(token)
        return self._new(waits=True)

    def rest(self) -> str:
        """The text that the reader held back and gives out now, since no more tokens come."""
        return self._new(waits=False)

    def _new(self, waits: bool) -> str:
        before, now = self.decode(self.ids[self.start : self.told]), self.decode(self.ids[self.start :])
        broken = now.endswith(BROKEN) and len(self.ids) - self.told < PARTS
        if len(now) <= len(before) or (waits and broken):
            return ""
        self.start, self.told = self.told, len(self.ids)
        return now[len(before) :]
