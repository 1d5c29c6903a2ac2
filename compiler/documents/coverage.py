"""Account: what has become of every equation of a document. Nothing of it is told anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from einc.documents.document import Document
from einc.errors.report import Problem, Span

Status = Literal["compiled", "restates", "definition", "fact", "skipped"]
# How sure the reading of an equation is: the least of what it speaks of, "doubtful" where sentences beside it are not
# understood. "" where it is not compiled.
Sure = Literal["", "doubtful", "inferred", "bound", "declared"]
LEVELS: tuple[Sure, ...] = get_args(Sure)


@dataclass(frozen=True)
class Inferred:
    """An input that nothing declares and nothing defines: its text, and where it is read first."""

    text: str
    span: Span


@dataclass(frozen=True)
class Entry:
    """One equation: a formula may hold several.

    `section` is the place of its heading in the document's; `restates` the number of the entry it is
    proved equal to; `explicit` its LaTeX with every implied sum written, where it is compiled; `shapes`
    the shapes of its tensors by their text.
    """

    number: int
    span: Span
    formula: Span
    display: bool
    section: int
    status: Status
    reason: str = ""
    restates: int | None = None
    explicit: str = ""
    shapes: Mapping[str, str] | None = None
    problems: tuple[Problem, ...] = ()
    sure: Sure = ""


@dataclass(frozen=True)
class Made:
    """The program of a section: what it takes and returns, what was inferred, the text of its kernel, what was derived,
    and pictures of it as SVG, each with what it shows.
    """

    section: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inferred: tuple[Inferred, ...]
    kernel: str
    recurrences: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    pictures: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Unheard:
    """Sentences that nothing understands and that may change an equation: those `beside` it or with its number, which
    make it doubtful, and the first of those `elsewhere` that name a letter or a function of it; `more`: there are
    others.
    """

    beside: tuple[Span, ...]
    elsewhere: tuple[Span, ...]
    more: bool = False


@dataclass(frozen=True)
class Account:
    """Every equation of the document with its status, and the programs of its sections. `unheard` are the sentences
    that nothing understands, by the numbers of the equations that they may change.
    """

    document: Document
    entries: tuple[Entry, ...]
    made: tuple[Made, ...]
    problems: tuple[Problem, ...] = ()
    unheard: Mapping[int, Unheard] = field(default_factory=dict)
