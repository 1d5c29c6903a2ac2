"""Account -> the side file that would settle what is open: inputs that were inferred, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from einc.documents.coverage import Account, Entry
from einc.documents.heard import quoted
from einc.errors.problems import UnknownIndex
from einc.errors.report import Span
from einc.ir.indices import CLASSES

_CLASSES = ", ".join(sorted(CLASSES))


def side_file(account: Account) -> str:
    """The text of a side file: a line for each letter that nothing declares, to be filled in, and one for each input
    that was inferred, to be kept where it is right; and in comments one for each sentence beside an equation that
    nothing understands, to be taken out of its comment where it changes nothing. A text of comments where nothing is
    open.
    """
    letters, inputs, told = list(_letters(account)), list(_inputs(account)), list(_sentences(account))
    name = PurePath(account.document.source.name).name
    if not (letters or inputs or told):
        return f"# Nothing is open in {name}.\n"
    out = [f"# What {name} leaves open. Fill in what is marked with `?`, keep what is right, and give this file with "
           "`--with`."]
    if letters:
        out += ["", f"# Over what these letters run: one of {_CLASSES}, and how many.", *letters]
    if inputs:
        out += ["", "# Inputs that nothing declares. A letter that a line has not is none of the tensor.", *inputs]
    if told:
        out += ["", "# Sentences that are not understood. Take the `#` away before one that changes no formula; state "
                "what another one says as a formula.", *told]
    return "\n".join(out) + "\n"


def _letters(account: Account) -> Iterator[str]:
    """`index j : ?(?)`, with the lines of the equations that wait for it."""
    waiting: dict[str, list[str]] = {}
    for entry in account.entries:
        for letter in _unknown(entry):
            waiting.setdefault(letter, []).append(_line(entry.span))
    for letter, lines in waiting.items():
        many = f"{len(lines)} equations wait, the first in" if len(lines) > 1 else "an equation waits in"
        yield f"index {letter} : ?(?)  # {many} {lines[0]}"


def _unknown(entry: Entry) -> list[str]:
    """The letters for which an equation is skipped."""
    found = (p.span.text for p in entry.problems if isinstance(p, UnknownIndex) and p.span is not None)
    return list(dict.fromkeys(x for x in found if not any(c in x for c in "\n{}")))


def _inputs(account: Account) -> Iterator[str]:
    """`input W_{h f}^{d}`, with the first line that reads it; of inputs of several sections each once."""
    first: dict[str, Span] = {}
    for made in account.made:
        for one in made.inferred:
            first.setdefault(one.text, one.span)
    for text, span in first.items():
        yield f"input {text}  # {_line(span)}"


def _sentences(account: Account) -> Iterator[str]:
    """`ignore "…"` with a sentence, in a comment, and the line where it stands; each sentence once."""
    for one in sorted({x for told in account.unheard.values() for x in told.beside}, key=lambda x: x.start):
        yield f'# ignore "{quoted(one)}"  # {_line(one)}'


def _line(span: Span) -> str:
    return span.source.place(span.start).within(span.source.name)
