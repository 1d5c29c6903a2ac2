"""The flow of a spec on one screen: text -> syntax -> typed -> normal. Plans and back ends take it from there.

What few texts need is loaded by name where one needs it: other notations, proofs about rounds, edits that mend an
error, the printer, the normal form. A check of a sound spec has read none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from einc.checking.checker import Specs, checked, meant
from einc.checking.checker import worked as worked_out
from einc.checking.declarations.scope import Outcomes
from einc.checking.notation import Elaborated, is_indexed
from einc.checking.programs.elaborate import Work
from einc.checking.programs.readings import Place, Reading
from einc.driver.sources import DISK, Sources
from einc.errors.problems import NotText
from einc.errors.report import Help, Problem, Report, Source, Span
from einc.ir.claimed import Claim
from einc.ir.programs import BlockLoop, NormalProgram, Program, TypedProgram
from einc.syntax.parse import parse
from einc.syntax.texts import plain
from einc.syntax.tree import Statement, SyntaxTree, Word

if TYPE_CHECKING:
    from einc.meaning.proof import Open
    from einc.syntax.printing.names import Names
    from einc.syntax.printing.writer import Spelling

PRINTING = "einc.syntax.printing"


def read_source(path_or_text: str | Path, report: Report, sources: Sources = DISK) -> Source:
    """A file's text, or the text itself where it is one (more than a line, or with an equals sign). What cannot be
    read is in the report, and its text is empty.
    """
    if isinstance(path_or_text, str) and ("\n" in path_or_text or "\r" in path_or_text or "=" in path_or_text):
        return Source("<text>", plain(path_or_text))
    found = sources.named(path_or_text)
    if isinstance(found, Problem):
        report.add(found)
        return Source(str(path_or_text), "")
    return found


def find(source: Source, name: str, report: Report, sources: Sources = DISK) -> Source | None:
    """Finds a used spec: beside the file that uses it, else one of einc's. None where there is none, which is reported.
    Changes `report`.
    """
    found = sources.used(source, name)
    if isinstance(found, Problem):
        report.add(found)
        return None
    return found


@cache
def _prelude() -> SyntaxTree:
    report = Report()
    tree = parse(Source("prelude.ein", files("einc.grammar").joinpath("prelude.ein").read_text(encoding="utf-8")),
                 report)
    assert not report.problems, [p.message for p in report.problems]
    return tree


@cache
def functions() -> frozenset[str]:
    """The names that the prelude defines: a macro may spell them."""
    names = (s.span.text.split("(")[0].split("_{")[0].split()[-1] for s in _prelude().statements)
    return frozenset(names)


def syntax(source: Source, report: Report) -> SyntaxTree:
    """What is written; statements that cannot be read are in the report."""
    tree = _sound(source)
    return parse(source, report, functions()) if tree is None else tree


@lru_cache(maxsize=64)
def _sound(source: Source) -> SyntaxTree | None:
    """The tree of a text that can be read without a word, kept: the specs that others use are read again and again."""
    report = Report()
    tree = parse(source, report, functions())
    return None if report.problems else tree


def used(tree: SyntaxTree, sources: Sources = DISK) -> list[SyntaxTree]:
    """The tree, and those of the specs that it uses, and that they use."""
    found: dict[str, SyntaxTree] = {tree.source.name: tree}
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        for name in (s.clauses[0].body for s in here.statements if s.keyword == "use"):
            source = find(here.source, name.text, Report(), sources) if isinstance(name, Word) else None
            if source is not None and source.name not in found:
                found[source.name] = syntax(source, Report())
                waiting.append(found[source.name])
    return list(found.values())


def known(trees: Iterable[SyntaxTree]) -> Names:
    """The names of some texts and of the prelude."""
    found: Names = import_module(f"{PRINTING}.names").names(trees, functions())
    return found


def formatted(source: Source, spelling: Spelling, report: Report, sources: Sources = DISK) -> str | None:
    """The text in one spelling and one layout; None where it cannot be read. What it means is the same, or it is
    refused.
    """
    out = _in_spelling(source, spelling, report, sources)
    again = Source(source.name, out)
    if report.errors:
        return None
    if _meant(source, sources) != _meant(again, sources) or _in_spelling(again, spelling, Report(), sources) != out:
        report.add(Problem("the text cannot be printed so that it is read as the same again", Span(source, 0, 0),
                           helps=(Help("this is a fault of einc; the text is left as it is"),)))
        return None
    return out


def indexed(source: Source, spelling: Spelling, report: Report) -> str | None:
    """The text with its matrix notation as index notation; None where it cannot be read. Problems go to the report."""
    tree = _elaborated(syntax(source, report), _prelude().statements, report).tree
    return None if report.errors else _printed(tree, spelling, known([tree]))


def _in_spelling(source: Source, spelling: Spelling, report: Report, sources: Sources) -> str:
    tree = syntax(source, report)
    return _printed(tree, spelling, known(used(tree, sources)))


def _printed(tree: SyntaxTree, spelling: Spelling, names: Names) -> str:
    text: str = import_module(f"{PRINTING}.layout").printed(tree, spelling, names)
    return text


def _meant(source: Source, sources: Sources) -> str | None:
    """What a text means and asks for, as text; None where it has errors."""
    program = check_spec(source, Report(), proved=False, sources=sources)
    if program is None:
        return None
    shown = import_module(f"{PRINTING}.show").show(program)
    return f"{shown}{[(plan.name, line.record) for plan in program.plans for line in plan.lines]}"


def check_spec(source: Source, report: Report, *, strict: bool = False, proved: bool = True,
               sources: Sources = DISK) -> TypedProgram | None:
    """What a spec means; None where there are errors. `strict` makes every warning an error. Rounds mean something
    where their result is `proved` not to depend on how their domain is cut. Problems go to the report.
    """
    if report.errors:
        return None
    tree = syntax(source, report)
    if not tree.statements and not report.errors:
        report.add(NotText("there is no statement in it", Span(source, 0, 0), helps=(
            Help("write declarations and equations"),)))
    return check_tree(tree, report, strict=strict, proved=proved, sources=sources)[0]


def check_tree(tree: SyntaxTree, report: Report, *, strict: bool = False, proved: bool = True,
               sources: Sources = DISK) -> tuple[TypedProgram | None, Outcomes]:
    """What a parsed text means, None where there are errors, and what became of its equations where it is a paper's;
    as `check_spec` for a text. Problems go to the report."""
    found = checked(tree, _specs(sources), report, linted=tree.own is None)
    program = None if found is None else found.program
    if program is not None and proved:
        _prove(program, report)
    report.settle()
    return ((None if report.errors or (strict and report.warnings) else program), Outcomes() if found is None
            else found.account)


def claims(source: Source, report: Report, sources: Sources = DISK) -> tuple[Claim, ...]:
    """What a text claims; none where it has errors. Problems go to the report."""
    found = checked(syntax(source, report), _specs(sources), report) if not report.errors else None
    if found is None:
        return ()
    for recur in dict.fromkeys(recur for claim in found.claims for recur in claim.program.recurs):
        for left in _unproved(recur):
            report.add(left.problem())
    return () if report.errors else found.claims


def _specs(sources: Sources) -> Specs:
    return Specs(_prelude(), partial(find, sources=sources), sources.similar, syntax, _prove,
                 lambda recur: frozenset(x.update.target for x in _unproved(recur)), _elaborated)


def _elaborated(tree: SyntaxTree, prelude: Iterable[Statement], report: Report) -> Elaborated:
    """The text in index notation, which most texts are in as they stand. Problems go to the report."""
    if is_indexed(tree):
        return Elaborated(tree)
    made: Elaborated = import_module("einc.checking.matrices.elaborate").elaborated(tree, prelude, report)
    return made


def meanings(source: Source, sources: Sources = DISK) -> Mapping[Place, Reading]:
    """What each equation of a text means that has a meaning by itself, whatever else is wrong with the text."""
    return meant(syntax(source, Report()), _specs(sources))


def worked(tree: SyntaxTree, sources: Sources = DISK) -> Work | None:
    """The names and equations of a text, as far as they can be read; None where a spec that it uses is not there."""
    return worked_out(tree, _specs(sources))


def advise(source: Source, report: Report, sources: Sources = DISK) -> None:
    """Gives the errors of a text the edits that mend them, tried one by one; an edit of a file that it uses too."""
    def with_(text: Source) -> tuple[Source, Sources]:
        return (text, sources) if text.name == source.name else (source, sources.opened(text))

    def program(text: Source, found: Report) -> TypedProgram | None:
        again, beside = with_(text)
        return check_spec(again, found, sources=beside)

    def equations(text: Source) -> Mapping[Place, Reading]:
        return meanings(*with_(text))

    if report.errors:
        fixits = import_module("einc.checking.fixits")
        fixits.mend(source, report, fixits.Checks(program, equations), functions())


def _prove(program: TypedProgram, report: Report) -> None:
    """Reports rounds whose result may depend on how their domain is cut."""
    for recur in program.recurs:
        for found in _unproved(recur):
            report.add(found.problem())


def _unproved(recur: BlockLoop) -> tuple[Open, ...]:
    """The states of rounds of which it is not proved that their result does not depend on how the domain is cut."""
    found: tuple[Open, ...] = import_module("einc.meaning.proof").unproved(recur)
    return found


def normal(program: Program) -> NormalProgram:
    """The program in normal form: gates eliminated, folds at the root of equations."""
    made: NormalProgram = import_module("einc.transforms.normal.normalise").normalise(program)
    return made
