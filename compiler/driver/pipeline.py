"""The whole flow on one screen: text -> syntax -> typed -> normal -> plan. Back ends take it from there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from einc.checking.checker import Specs, checked
from einc.checking.declarations.names import index_name
from einc.checking.declarations.scope import Account
from einc.checking.mending import mend
from einc.documents.equations import said
from einc.documents.reading import damage, read, reads
from einc.documents.sections import Paper, defined, walk_lines
from einc.errors.problems import Damaged, NoSuchSection, NotText
from einc.errors.report import Help, Problem, Report, Source, Span
from einc.ir.claimed import Claim
from einc.ir.terms import NormalProgram, Program, TypedProgram
from einc.meaning.proof import unproved
from einc.syntax.parse import parse, parse_part
from einc.syntax.plans import read as read_plans
from einc.syntax.printing.layout import printed
from einc.syntax.printing.names import Names, names
from einc.syntax.printing.show import show
from einc.syntax.printing.writer import Spelling
from einc.syntax.texts import plain, read_bytes
from einc.syntax.tree import SyntaxTree, Word
from einc.transforms.normal.normalise import normalise


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
    tree = _sound(source)
    return parse(source, report, _functions()) if tree is None else tree


@lru_cache(maxsize=64)
def _sound(source: Source) -> SyntaxTree | None:
    """The tree of a text that can be read without a word, kept: the specs that others use are read again and again."""
    report = Report()
    tree = parse(source, report, _functions())
    return None if report.problems else tree


def used(tree: SyntaxTree) -> list[SyntaxTree]:
    """The tree, and those of the specs that it uses, and that they use."""
    found: dict[str, SyntaxTree] = {tree.source.name: tree}
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        for name in (s.clauses[0].body for s in here.statements if s.keyword == "use"):
            source = find(here.source, name.text, Report()) if isinstance(name, Word) else None
            if source is not None and source.name not in found:
                found[source.name] = syntax(source, Report())
                waiting.append(found[source.name])
    return list(found.values())


def known(trees: Iterable[SyntaxTree]) -> Names:
    """The names of some texts and of the prelude."""
    return names(trees, _functions())


def formatted(source: Source, spelling: Spelling, report: Report) -> str | None:
    """The text in one spelling and one layout; None where it cannot be read. What it means is the same, or it is refused."""
    out = _written(source, spelling, report)
    again = Source(source.name, out)
    if report.errors:
        return None
    if _meant(source) != _meant(again) or _written(again, spelling, Report()) != out:
        report.add(Problem("the text cannot be printed so that it is read as the same again", Span(source, 0, 0),
                           helps=(Help("this is a fault of einc; the text is left as it is"),)))
        return None
    return out


def _written(source: Source, spelling: Spelling, report: Report) -> str:
    tree = syntax(source, report)
    return printed(tree, spelling, known(used(tree)))


def _meant(source: Source) -> str | None:
    """What a text means, as text; None where it has errors."""
    program = check(source, Report(), proved=False)
    return None if program is None else show(program)


def check(source: Source, report: Report, *, strict: bool = False, proved: bool = True, section: str = "",
          side: Source | None = None) -> TypedProgram | None:
    """What it means; None where there are errors. `strict` makes every warning an error.

    Rounds mean something where their result is `proved` not to depend on how their domain is cut.
    Of a document one `section` is meant; `side` is a file with the declarations that the document lacks.
    """
    if report.errors:
        return None
    if reads(source.name):
        whole = paper(source, report, side)
        number = _section(whole, section, report)
        if number is None:
            return None
        for one in whole.said:
            if one.formula.section == number and one.formula.display and one.problem is not None:
                report.add(one.problem)
        return check_tree(whole.tree(number), report, strict=strict, proved=proved)[0]
    tree = syntax(source, report)
    if not tree.statements and not report.errors:
        report.add(NotText("there is no statement in it", Span(source, 0, 0), helps=(Help("write declarations and equations"),)))
    program = check_tree(tree, report, strict=strict, proved=proved)[0]
    if program is None or not (asked := read_plans(source, program.tensors, report)):
        return program
    return None if report.errors else replace(program, plans=asked)


def check_tree(tree: SyntaxTree, report: Report, *, strict: bool = False,
               proved: bool = True) -> tuple[TypedProgram | None, Account]:
    """The same for a text that is parsed, and what became of its equations where it is a paper's."""
    found = checked(tree, _specs(), report, linted=tree.own is None)
    program = None if found is None else found.program
    if program is not None and proved:
        _prove(program, report)
    report.settle()
    return (None if report.errors or (strict and report.warnings) else program), Account() if found is None else found.account


def paper(source: Source, report: Report, side: Source | None = None) -> Paper:
    """A document with what declares its names: its own `ein` fences, and a side file."""
    document = read(source)
    if (found := damage(source)):
        many = f"{len(found)} places have" if len(found) > 1 else "one place has"
        garbled = Damaged(f"the text was decoded as something that it is not: {many} letters like these", found[0], notes=(
            "equations in plain letters are read all the same",), helps=(Help("decode the original as UTF-8"),))
        document = replace(document, problems=(*document.problems, garbled))
    for problem in document.problems:
        report.add(problem)
    trees = [parse_part(source, report, _functions(), (f.span.start, f.span.end), f.holes) for f in document.fences]
    trees += [syntax(side, report)] if side is not None and side.text.strip() else []
    lines = tuple(line for tree in reversed(trees) for line in tree.statements)
    declared = {index_name(c.body) for line in walk_lines(lines) if line.keyword == "index" for c in line.clauses}
    functions = _functions() | {n for line in lines if line.keyword == "def" for n in [defined(line)] if n}
    # What the text itself declares is known before a comma is read as an equation or as a condition.
    first = said(document, functions, ())
    declared |= {index_name(x) for found in first for x in found.indices}
    equations = said(document, functions, {n for n in declared if n is not None})
    return Paper(document, equations, lines, frozenset().union(*(tree.lost for tree in trees)))


def _section(found: Paper, section: str, report: Report) -> int | None:
    """The section that is meant: the one named, or the only one."""
    try:
        if section:
            return found.find(section)
        if len(found.sections) == 1:
            return found.sections[0]
        titles = ", ".join(f"`{found.document.title(n)}`" for n in found.sections)
        raise NoSuchSection(f"{found.document.source.name} has {len(found.sections)} sections with equations",
                            notes=(f"they are {titles}",) if titles else (), helps=(
                                Help('say which is meant: `--section "…"`') if titles else Help("write an equation between `$$`"),))
    except NoSuchSection as problem:
        report.add(problem)
        return None


def claims(source: Source, report: Report) -> tuple[Claim, ...]:
    """What a text claims; none where it has errors."""
    found = checked(syntax(source, report), _specs(), report) if not report.errors else None
    if found is None:
        return ()
    for recur in dict.fromkeys(recur for claim in found.claims for recur in claim.program.recurs):
        for left in unproved(recur):
            report.add(left.problem())
    return () if report.errors else found.claims


def _specs() -> Specs:
    return Specs(_prelude(), find, syntax, _prove)


def advise(source: Source, report: Report) -> None:
    """Gives the errors of a text the edits that mend them, tried one by one."""
    if report.errors:
        mend(source, report, lambda text, found: check(text, found, proved=False), _functions())


def _prove(program: TypedProgram, report: Report) -> None:
    """Reports rounds whose result may depend on how their domain is cut."""
    for recur in program.recurs:
        for found in unproved(recur):
            report.add(found.problem())


def normal(program: Program) -> NormalProgram:
    """The same program with gates eliminated and folds at the root."""
    return normalise(program)
