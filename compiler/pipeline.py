"""The whole flow on one screen: text -> syntax -> typed -> normal -> plan. Back ends take it from there."""

from __future__ import annotations

import os
from functools import cache
from importlib.resources import files
from pathlib import Path

from einc.checker import Specs
from einc.checker import check as check_tree
from einc.errors import Help, Report, Source, Span
from einc.normalise import normalise
from einc.parse import parse, plain, read_bytes
from einc.problems import NotText
from einc.proof import unproved
from einc.syntax import SyntaxTree
from einc.terms import NormalProgram, TypedProgram


def read_source(path_or_text: str | Path, report: Report) -> Source:
    """A file's text, or the text itself where it is one (more than a line, or with an equals sign)."""
    if isinstance(path_or_text, str) and ("\n" in path_or_text or "\r" in path_or_text or "=" in path_or_text):
        return Source("<text>", plain(path_or_text))
    try:
        path = Path(path_or_text)
        if not path.exists() and not path.suffix and (found := _shipped(str(path_or_text))) is not None:
            return found
        return read_bytes(str(path), path.read_bytes(), report)
    except OSError as error:
        report.add(_unread(f"cannot read {path_or_text}: {(error.strerror or str(error)).lower()}"))
    except ValueError:
        report.add(_unread("the name of the file has a character that no file name can have"))
    return Source(str(path_or_text), "")


def _unread(message: str) -> NotText:
    return NotText(message, helps=(Help("give a file, the name of a spec that comes with einc, or the text of a spec"),))


def _shipped(name: str) -> Source | None:
    """A spec that comes with einc."""
    if not all(part.replace("_", "").replace("-", "").isalnum() for part in name.split("/")):
        return None
    found = files("einc.specs").joinpath(f"{name}.ein")
    return Source(f"specs/{name}.ein", found.read_text(encoding="utf-8")) if found.is_file() else None


def find(source: Source, name: str, report: Report) -> Source | None:
    """A used spec: beside the file that uses it, else one of einc's."""
    try:
        # One name for one file, or a spec that uses itself by another way round would do so for ever.
        beside = Path(os.path.normpath(Path(source.name).parent / f"{name}.ein"))
        if not source.name.startswith("<") and beside.is_file():
            return read_bytes(str(beside), beside.read_bytes(), report)
        return _shipped(name)
    except (OSError, ValueError):
        return None


@cache
def _prelude() -> SyntaxTree:
    report = Report()
    tree = parse(Source("prelude.ein", files("einc.grammar").joinpath("prelude.ein").read_text(encoding="utf-8")), report)
    assert not report.problems, [p.message for p in report.problems]
    return tree


@cache
def _functions() -> frozenset[str]:
    """The names that the prelude defines: a macro may spell them."""
    names = (s.span.text.split("(")[0].split("_{")[0].split()[-1] for s in _prelude().statements)
    return frozenset(names)


def syntax(source: Source, report: Report) -> SyntaxTree:
    """What is written; statements that cannot be read are in the report."""
    return parse(source, report, _functions())


def check(source: Source, report: Report, *, strict: bool = False, proved: bool = True) -> TypedProgram | None:
    """What it means; None where there are errors. `strict` makes every warning an error.

    Rounds mean something where their result is `proved` not to depend on how their domain is cut.
    """
    if report.errors:
        return None
    tree = syntax(source, report)
    if not tree.statements and not report.errors:
        report.add(NotText("there is no statement in it", Span(source, 0, 0), helps=(Help("write declarations and equations"),)))
    program = check_tree(tree, Specs(_prelude(), find, syntax, _prove), report)
    if program is not None and proved:
        _prove(program, report)
    return None if report.errors or (strict and report.warnings) else program


def _prove(program: TypedProgram, report: Report) -> None:
    """Reports rounds whose result may depend on how their domain is cut."""
    for recur in program.recurs:
        for found in unproved(recur):
            report.add(found.problem())


def normal(program: TypedProgram) -> NormalProgram:
    """The same program with gates eliminated and folds at the root."""
    return normalise(program)
