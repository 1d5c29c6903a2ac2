"""What is wrong with a text, as an editor marks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from einc.driver.editor.positions import START, Position, Range, range_of
from einc.driver.editor.text import Text, path_of
from einc.errors.report import Problem, Span


@dataclass(frozen=True)
class Related:
    """Another place that a problem speaks of, in the file at `path`."""

    path: str
    range: Range
    message: str


@dataclass(frozen=True)
class Diagnostic:
    """A problem at the place in the text where it is marked."""

    range: Range
    severity: Literal["error", "warning"]
    code: str
    message: str
    related: tuple[Related, ...]
    problem: Problem


def diagnostics(text: Text) -> tuple[Diagnostic, ...]:
    """Every problem of a text. One of another file is marked where the text uses that file, and says where it stands.
    """
    return tuple(_diagnostic(text, problem) for problem in text.problems)


def _diagnostic(text: Text, problem: Problem) -> Diagnostic:
    here = None if problem.span is None else text.range(problem.span)
    related = [_related(text, label.span, label.text or "here too") for label in problem.labels]
    if here is None and problem.span is not None:
        related.insert(0, _related(text, problem.span, problem.label or problem.message))
    severity: Literal["error", "warning"] = "warning" if problem.severity == "warning" else "error"
    found = here or (START if problem.span is None else _user(text, problem.span))
    return Diagnostic(_seen(found), severity, problem.code, "\n".join(_message(problem)), tuple(related), problem)


def _seen(found: Range) -> Range:
    """A range of at least one character: an empty one is not shown."""
    if found.start != found.end:
        return found
    return Range(found.start, Position(found.end.line, found.end.character + 1))


def _message(problem: Problem) -> Iterator[str]:
    """The message with its notes, and the ways out that are sentences: those that are edits are code actions."""
    yield problem.message + (f" ({problem.label})" if problem.label else "")
    yield from (f"note: {note}" for note in problem.notes)
    yield from (f"help: {help_.text}" for help_ in problem.helps)


def _related(text: Text, span: Span, message: str) -> Related:
    here = text.range(span)
    if here is not None:
        return Related(text.source.name, here, message)
    return Related(path_of(span.source), range_of(span), message)


def _user(text: Text, span: Span) -> Range:
    """The place where a text names the file of a span; its start where it does so by way of another one."""
    stem = PurePath(span.source.name).stem
    named = (x.span for part in text.parts for x in part.names
             if x.symbol.kind == "spec" and PurePath(x.symbol.text).name == stem)
    return next((here for x in named if (here := text.range(x)) is not None), START)
