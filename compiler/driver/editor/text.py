"""A text as an editor has it open, and what is known of it: each thing is found out when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from einc.checking.fixits import untried
from einc.checking.programs.elaborate import Work
from einc.driver import flow, pipeline
from einc.driver.editor.costs import Priced, steps
from einc.driver.editor.names import Occurrence, occurrences
from einc.driver.editor.positions import Position, Range, offset, range_of
from einc.driver.sources import Sources
from einc.errors.report import Problem, Report, Source, Span
from einc.ir.programs import TypedProgram
from einc.syntax.tree import SyntaxTree

if TYPE_CHECKING:
    from einc.documents.sections import Paper

PRELUDE = "prelude.ein"


@dataclass(frozen=True, eq=False)
class Part:
    """What is checked by itself: a spec, or one section of a document. `work` has its names and equations as far as
    they can be read; None where a spec that it uses is not there.
    """

    tree: SyntaxTree
    work: Work | None
    names: tuple[Occurrence, ...]


@dataclass(frozen=True, eq=False)
class Text:
    """A text with the others that are open. A document is one with an `ein` fence: others are no business of einc."""

    source: Source
    sources: Sources

    @cached_property
    def is_document(self) -> bool:
        """Whether the file is a paper by the ending of its name, and not a spec."""
        return pipeline.is_document(self.source.name)

    @cached_property
    def _found(self) -> tuple[Report, TypedProgram | None]:
        """What is wrong with the text, and its program where it is a spec without an error."""
        report, program = Report(), None
        if self.is_document:
            for problem in _problems(self.paper, report):
                report.add(problem)
        else:
            program = pipeline.check(self.source, report, sources=self.sources)
        return report, program

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the text, in its order, with the ways out that were tried."""
        report = self._found[0]
        if self.is_document:
            untried(report.problems)
        else:
            pipeline.advise(self.source, report, self.sources)
        return tuple(report.sorted())

    @property
    def errors(self) -> list[Problem]:
        """The errors among what is wrong; no way out is tried for them."""
        return self._found[0].errors

    @property
    def program(self) -> TypedProgram | None:
        """What a spec means; None where it has errors, and for a document."""
        return self._found[1]

    @cached_property
    def steps(self) -> tuple[Priced, ...]:
        """What the steps of its plan make and cost; none where there is no plan."""
        return () if self.program is None else steps(self.program)

    @cached_property
    def paper(self) -> Paper | None:
        """The document with what declares its names; None for a spec and for a document without an `ein` fence."""
        if not self.is_document:
            return None
        found: Paper = import_module("einc.driver.papers").paper(self.source, Report(), None, self.sources)
        return found if found.document.fences else None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The text, or the sections of a document."""
        if not self.is_document:
            return (self._part(flow.syntax(self.source, Report())),)
        paper = self.paper
        return () if paper is None else tuple(self._part(paper.tree(number)) for number in paper.sections)

    def _part(self, tree: SyntaxTree) -> Part:
        work = flow.worked(tree, self.sources)
        return Part(tree, work, () if work is None else occurrences(tree.statements, work, self._used))

    def _used(self, by: Source, name: str) -> Source | None:
        found = self.sources.used(by, name)
        return found if isinstance(found, Source) else None

    @property
    def whole(self) -> Source:
        """The text that places are meant in: of a document that takes files in, it is put together of them."""
        return self.paper.document.source if self.paper is not None else self.source

    def at(self, place: Position) -> int:
        """The offset of a place of the open file in `whole`."""
        here = offset(self.source, place)
        own = [x for x in self.whole.pieces if x.name == self.source.name and x.offset <= here]
        return here if not own else own[-1].start + here - own[-1].offset

    def named(self, place: Position) -> tuple[Part, Occurrence] | None:
        """The name at a place, with the part that it stands in: the shortest where several begin and end there."""
        at = self.at(place)
        found = [(part, x) for part in self.parts for x in part.names if x.span.start <= at <= x.span.end
                 and x.span.source.name == self.whole.name]
        return min(found, key=lambda x: (x[1].span.end == at, x[1].span.end - x[1].span.start), default=None)

    def range(self, span: Span) -> Range | None:
        """The places of a span in the open file; None where it stands in another one."""
        if span.source.name != self.whole.name:
            return None
        first, last = span.source.place(span.start), span.source.place(span.end, span.start)
        if first.name != self.source.name:
            return None
        here = self.source if span.source.pieces else span.source
        return range_of(Span(here, first.offset, last.offset))


def _problems(paper: Paper | None, report: Report) -> list[Problem]:
    """What `einc check` tells of a document: what a line of text says in passing is left to `einc doc`."""
    if paper is None:
        return []
    account = import_module("einc.driver.reports.coverage").account(paper, kernels=False)
    told: list[Problem] = import_module("einc.documents.report").problems(account)
    return [p for p in (*paper.document.problems, *told)
            if p.span is None or p.code[:3] in ("E08", "W08") or p.severity == "warning"]


def path_of(source: Source) -> str:
    """The path of a text on the disk: those that come with einc have names of their own."""
    if PurePath(source.name).is_absolute() or Path(source.name).exists():
        return str(Path(source.name).absolute())
    if source.name == PRELUDE:
        return str(files("einc.grammar").joinpath(PRELUDE))
    return str(files("einc.specs").joinpath(source.name.removeprefix("specs/")))
