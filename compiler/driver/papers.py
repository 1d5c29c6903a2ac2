"""The flow of a paper: document -> its equations and what declares their names -> the program of a section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einc.checking.declarations.names import head, index_name
from einc.checking.matrices.shapes import parts
from einc.documents.algorithms import placed
from einc.documents.document import Document
from einc.documents.entrywise import with_questions
from einc.documents.equations import said
from einc.documents.heard import refused
from einc.documents.ignored import ignored
from einc.documents.naming import alone, find
from einc.documents.reading import damage, read
from einc.documents.said import Said
from einc.documents.sections import Paper, defined, walk_lines
from einc.documents.shapes import named
from einc.driver.beside import beside
from einc.driver.flow import check_tree, functions, syntax
from einc.driver.sources import DISK, Sources
from einc.errors.problems import Damaged, NoSuchSection, NotTaken
from einc.errors.report import Help, Problem, Report, Source, Span
from einc.ir.programs import TypedProgram
from einc.syntax import tree as s
from einc.syntax.parse import parse_part
from einc.syntax.spelling import SHAPED
from einc.syntax.texts import MAX_STATEMENTS, too_many


def check_section(source: Source, report: Report, *, strict: bool = False, proved: bool = True, section: str = "",
                  equation: str = "", side: Source | None = None, sources: Sources = DISK) -> TypedProgram | None:
    """What one section of a document means, or one `equation` of it; None where there are errors. `side` is a file with
    the declarations that it lacks. Problems go to the report.
    """
    if report.errors:
        return None
    whole = paper(source, report, side, sources)
    whole = refused(whole) if strict else whole
    found = _meant(whole, section, equation, report)
    if found is None:
        return None
    number, asked = found
    for one in asked or whole.said:
        if one.formula.section == number and one.formula.display and one.problem is not None:
            report.add(one.problem)
    tree = replace(whole.tree(number), plans=whole.plans)
    tree = alone(tree, asked) if asked else tree
    return check_tree(tree, report, strict=strict, proved=proved, sources=sources)[0]


def paper(source: Source, report: Report, side: Source | None = None, sources: Sources = DISK) -> Paper:
    """A document with what declares its names: its own `ein` fences, and a side file. One without anything where its
    text could not be read. Problems go to the report.
    """
    if report.errors:
        return Paper(Document(source, (), ()), ())
    document = placed(read(source, beside(source.name, sources)))
    if (found := damage(document.source)):
        many = f"{len(found)} places have" if len(found) > 1 else "one place has"
        garbled = Damaged(f"the text was decoded as something that it is not: {many} letters like these", found[0],
                          notes=(
            "equations in plain letters are read all the same",), helps=(Help("decode the original as UTF-8"),))
        document = replace(document, problems=(*document.problems, garbled))
    for problem in document.problems:
        report.add(problem)
    if (formulas := len(document.formulas)) > MAX_STATEMENTS:
        report.add(too_many(f"the document has {formulas:,} formulas", Span(document.source, 0, 0)))
        return Paper(document, (), (), frozenset(), ())
    trees = [parse_part(document.source, report, functions(), (f.span.start, f.span.end), f.holes)
             for f in document.fences]
    trees += [syntax(side, report)] if side is not None and side.text.strip() else []
    lines = tuple(line for tree in reversed(trees) for line in tree.statements)
    document = replace(document, ignored=ignored(document, lines, report))
    lines = tuple(replace(x, block=tuple(y for y in x.block if y.keyword != "ignore")) for x in lines
                  if x.keyword != "ignore")
    declared = {index_name(c.body) for line in walk_lines(lines) if line.keyword == "index" for c in line.clauses}
    known = functions() | {n for line in lines if line.keyword == "def" for n in [defined(line)] if n}
    # What the text itself declares is known before a comma is read as an equation or as a condition.
    first = said(document, known, ()).said
    stated = dict(_lows(lines))
    declared |= {index_name(x) for found in first for x in found.indices}
    shown = {named(c.span.text) for line in walk_lines(lines) if line.keyword in SHAPED for c in line.clauses}
    tensors = {name[0].base for line in walk_lines(lines) if line.keyword in ("input", "weight", *SHAPED)
               for c in line.clauses if (name := head(c.body)) is not None}
    reading = said(document, known, {n for n in declared if n is not None}, tensors, stated, shown)
    return Paper(document, with_questions(reading.said), lines, frozenset().union(*(tree.lost for tree in trees)),
                 tuple(plan for tree in trees for plan in tree.plans), known, reading.heard)


def _lows(lines: tuple[s.Statement, ...]) -> Iterator[tuple[str, int]]:
    """The letters of index lines, with where they begin to count."""
    for line in (x for x in walk_lines(lines) if x.keyword == "index" and x.tail):
        for at, clause in enumerate(line.clauses):
            tail = line.tail[at if len(line.tail) > 1 and at < len(line.tail) else 0].body
            low = next((x.low for x in parts(tail) if isinstance(x, s.Range)), None)
            begins = 1 if low is None else int(low.text) if isinstance(low, s.Number) and low.text.isdigit() else -1
            yield from ((name, begins) for name in [index_name(clause.body)] if name is not None)


def unread(report: Report) -> list[Problem]:
    """The errors that leave no document: where only a part of it was not taken in, the rest is read."""
    return [problem for problem in report.errors if not isinstance(problem, NotTaken)]


def _meant(found: Paper, section: str, equation: str, report: Report) -> tuple[int, tuple[Said, ...]] | None:
    """The section that is meant, the one named or the only one, and its equations that are, none where it is all.
    Problems go to the report.
    """
    try:
        if equation:
            return find(found, equation)
        if section:
            return found.find(section), ()
        if len(found.sections) == 1:
            return found.sections[0], ()
        refused = [x.problem for x in found.said if x.formula.display and x.problem is not None]
        if not found.sections and refused:
            for problem in refused:
                report.add(problem)
            return None
        titles = ", ".join(f"`{found.document.title(n)}`" for n in found.sections)
        raise NoSuchSection(f"{found.document.source.name} has {len(found.sections)} sections with equations",
                            notes=(f"they are {titles}",) if titles else (), helps=(
                                Help('say which is meant: `--section "…"`, or `--equation`') if titles
                                else Help("write an equation between `$$`"),))
    except Problem as problem:
        report.add(problem)
        return None


