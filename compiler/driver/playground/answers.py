"""What the page shows of a text. It is checked, derived and written; nothing that is written is loaded or run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from einc.driver import back_ends, pipeline
from einc.driver.sources import Sources, shipped
from einc.errors.problems import NotText
from einc.errors.report import EincError, Help, Problem, Report, Source, render
from einc.ir.programs import TypedProgram
from einc.syntax.printing.show import show
from einc.syntax.texts import plain

NAME = "<text>"  # as a text without a file is called: nothing stands beside it
MOST = 60_000  # characters of a text
DERIVED = "einc.driver.editor.actions"
MASKS = "einc.driver.playground.mask"
SCREEN = "einc.driver.reports.screen"
OFFERS = "einc.driver.playground.offers"
PLANS = "einc.driver.playground.plans"
COMPILING = "einc.driver.compiling"


@dataclass(frozen=True)
class OwnSpecs(Sources):
    """The specs that come with einc, and no file: what a text uses is one of these or is not there."""

    def read(self, path: object) -> Source | Problem:
        """Reads no file, as a page may not read those of the machine: a problem that says so."""
        return NotText(f"{path} is not read", helps=(Help("write the text into the page"),))

    def used(self, by: Source, name: str) -> Source | None:
        """The spec of einc of this name."""
        return shipped(name)

    def similar(self, by: Source, name: str) -> str | None:
        """The spec of einc with a similar name."""
        return super().similar(Source(NAME, ""), name)

    def has(self, path: object) -> bool:
        """Whether there is a file of that name: to a page there is none."""
        return False


def answer(text: str, pane: str) -> dict[str, Any]:
    """What is wrong with a text, and one pane of what is made of it. Data that a page can show as it is."""
    if len(text) > MOST:
        said = f"the text has {len(text):,} characters, more than the {MOST:,} that the page takes"
        return {"problems": [_told(Problem(said, helps=(Help("use `einc check`"),)))], "sound": False, "shown": ""}
    source, report, sources = Source(NAME, plain(text)), Report(), OwnSpecs()
    program = pipeline.check(source, report, sources=sources)
    pipeline.advise(source, report, sources)
    problems = [_told(problem) for problem in report.sorted()]
    return {"problems": problems, "sound": program is not None, "pane": pane, **_summary(program),
            "shown": "" if program is None else _shown(program, pane)}


def _summary(program: TypedProgram | None) -> Mapping[str, str]:
    if program is None:
        return {}
    count = len(program.equations)
    return {"summary": f"{count} equation{'' if count == 1 else 's'}, "
                       f"{len(program.outputs)} output{'' if len(program.outputs) == 1 else 's'}"}


def _told(problem: Problem) -> dict[str, Any]:
    """A problem as the command line tells it, its place in the text, and the edits that were tried."""
    span = problem.span if problem.span is not None and problem.span.source.name == NAME else None
    ways = [h for h in problem.helps if h.span is not None and h.new is not None and h.span.source.name == NAME]
    return {"severity": problem.severity, "code": problem.code, "text": render(problem),
            "start": None if span is None else span.start, "end": None if span is None else span.end,
            "fixes": [{"text": h.text, "start": h.span.start, "end": h.span.end, "new": h.new}
                      for h in ways if h.span is not None]}


def _shown(program: TypedProgram, pane: str) -> str:
    """One pane, as text; why it is empty, where it is."""
    try:
        return PANES[pane](program)
    except EincError as error:
        return "\n".join(map(render, error.problems))
    except Problem as problem:
        return render(problem)
    except RecursionError:
        return "an expression is nested too deeply"


def _planned(program: TypedProgram) -> str:
    text: str = import_module(SCREEN).screen(import_module(COMPILING).plan(program))
    return text


def _serving(program: TypedProgram) -> str:
    text: str = import_module(PLANS).serving(program)
    return text


def _named(program: TypedProgram) -> str:
    text: str = import_module(PLANS).named(program)
    return text


def _derived(program: TypedProgram) -> str:
    text: str = import_module(DERIVED).derived(program)
    return text


def _masked(program: TypedProgram) -> str:
    text: str = import_module(MASKS).masks(program)
    return text


def _kernel(backend: str) -> Callable[[TypedProgram], str]:
    def written(program: TypedProgram) -> str:
        return back_ends.emit(import_module(COMPILING).plan(program), backend)

    return written


PANES: Mapping[str, Callable[[TypedProgram], str]] = {
    "equations": lambda program: show(program, explicit=True), "recurrence": _derived, "mask": _masked,
    "plan": _planned, "serving": _serving, "plans": _named, **{name: _kernel(name) for name in back_ends.names()},
}
