"""Paper -> Account: every equation compiled, proved to restate another, a definition, or left out with a reason."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from einc.checking.declarations.names import index_name, left_of
from einc.checking.declarations.scope import Outcomes
from einc.documents.coverage import LEVELS, Account, Entry, Inferred, Made, Sure
from einc.documents.heard import refused, unheard_of
from einc.documents.needs import Needs
from einc.documents.ranges import unlike
from einc.documents.said import Said, left_symbol, left_text
from einc.documents.sections import Paper, left_open
from einc.documents.sentences import index_lines
from einc.documents.shapes import FACT as SHAPE
from einc.documents.unnamed import nothing
from einc.driver import back_ends, compiling, pipeline
from einc.driver.drawing.small import drawn
from einc.driver.options import Options
from einc.driver.reports.compared import compared, disputed, holding, inside
from einc.driver.reports.recurrence import as_tex as recurrence_tex
from einc.driver.reports.recurrence import recurrences
from einc.driver.reports.restated import example, named, words
from einc.driver.reports.shown import explicit, shapes, spoken
from einc.driver.reports.written import as_text as told
from einc.driver.reports.written import written
from einc.errors.problems import BadDeclaration, Circular, NotAccounted, NotRestated, UpdateOutside
from einc.errors.report import EincError, Help, Label, Problem, Report, Span
from einc.ir.programs import Tensor, TypedProgram
from einc.meaning.prove import Proved, Refuted, Verdict
from einc.syntax import tree as s

MOST_TRIES = 60  # a section with more broken equations than this is given up


@dataclass(frozen=True)
class Section:
    """A section: its program if it has one, what became of its equations, what is wrong with others, and its lines."""

    number: int
    program: TypedProgram | None
    became: Outcomes
    problems: tuple[Problem, ...]
    broken: Mapping[Span, Problem]
    needs: Needs

    @cached_property
    def defining(self) -> dict[Span, list[Span]]:
        """The equations in whose place another one holds, by that one."""
        passed = self.became.passed
        return {winner: [other for other in passed if passed[other] == winner] for winner in passed.values()}


def account(paper: Paper, *, backend: str = "torch", kernels: bool = True, strict: bool = False,
            step: Callable[[str], None] = lambda _: None) -> Account:
    """Every equation of a document and the programs of its sections. `step` is called with the title of each section.
    Without `kernels` no kernel is written and no recurrence derived; `strict` leaves doubtful equations out.
    """
    paper = refused(paper) if strict else paper
    found: dict[int, Section] = {}
    for number in paper.sections:
        step(paper.document.title(number))
        found[number] = section_of(paper, number)
    work = _Account(paper, found, {x: n for n, x in enumerate(paper.said, 1)})
    told = {work.numbers[x]: sentences for x, sentences in unheard_of(paper).items()}
    doubtful = {n for n, sentences in told.items() if sentences.beside}
    entries = tuple(replace(x, sure="doubtful") if x.number in doubtful and x.status != "skipped" else x
                    for x in map(work.entry, paper.said))
    programs = [x for x in found.values() if x.program is not None and x.program.outputs and returns(paper, x.number)]
    made = tuple(_made(x, backend, kernels) for x in programs)
    unheard = {x.number: told[x.number] for x in entries if x.number in told and x.status != "skipped"}
    return Account(paper.document, entries, made, tuple(unlike(paper)), unheard)



def returns(paper: Paper, number: int) -> bool:
    """Whether a section is a program: it has a display, or its side file says what it returns."""
    home = paper.homes.get(number, ())
    return any(x.keyword == "output" for x in home) or any(
        x.formula.display and x.formula.section == number and x.statement is not None and not x.fact
        for x in paper.said)


def section_of(paper: Paper, number: int) -> Section:
    """The program of a section without the equations that have errors there; nobody knows what those define."""
    broken: dict[Span, Problem] = {}
    for _ in range(MOST_TRIES):
        report, tree = Report(), paper.tree(number, broken.keys())
        program, became = pipeline.check_tree(tree, report)
        needs = Needs(tree, became.passed)
        wrong = (_wrong(paper, report.errors, broken.keys()) if program is None else
                 _failed(paper, became, broken.keys()) or disputed(paper, number, became, needs, broken.keys()))
        if not wrong:
            return Section(number, program, became, tuple(report.sorted()), broken, needs)
        broken |= wrong
        broken |= _wholes(paper, number, broken)
    return Section(number, None, Outcomes(), (), broken, Needs(paper.tree(number, broken.keys()), ()))


def _wholes(paper: Paper, number: int, broken: Mapping[Span, Problem]) -> dict[Span, Problem]:
    """The displays of a section that define a whole name of which another one, that is broken, says the entries."""
    mine = [(x, symbol) for x in paper.own(number) if x.formula.display and not x.fact
            and (symbol := left_symbol(x)) is not None]
    out: dict[Span, Problem] = {}
    for x, entry in ((x, symbol) for x, symbol in mine if x.span in broken and symbol.scripts):
        for y in (y for y, symbol in mine if symbol == replace(entry, scripts=0) and y.span not in broken):
            message = f"`{left_text(x)}` is said of its entries, and that is not read"
            out[y.span] = BadDeclaration(message, y.span, "", Label(x.span, "said here"), helps=(
                Help("mend what is said of the entries, or give one of the two a label"),))
    return out


def _failed(paper: Paper, became: Outcomes, known: Container[Span]) -> dict[Span, Problem]:
    """The displays that can be no equations of a program, each with its problem: what they define is not known. Of what
    one of them updates, nobody knows either what the other displays of its section say.
    """
    out: dict[Span, Problem] = {}
    for x in (x for x in paper.said if x.formula.display and not x.fact and x.statement is not None):
        if x.span not in became.failed or x.span in known:
            continue
        out[x.span] = became.failed[x.span]
        for y in paper.own(x.formula.section) if isinstance(became.failed[x.span], UpdateOutside) else ():
            if y.span not in known and y.span not in became.failed and left_symbol(y) == left_symbol(x):
                message = f"`{left_text(y)}` is updated, and the update is not read"
                out[y.span] = BadDeclaration(message, y.span, "", Label(x.span, "the update"), helps=(
                    Help("give what the update makes a name of its own, or a loop in a side file: `for … in …:`"),))
    return out


def _wrong(paper: Paper, errors: Iterable[Problem], known: Container[Span]) -> dict[Span, Problem]:
    """The equations in which errors stand, those left out that are known to be broken, each with its last error."""
    spans = sorted((x.span for x in paper.said if x.statement is not None and x.span not in known),
                   key=lambda x: x.start)
    starts, ends = [x.start for x in spans], list(accumulate((x.end for x in spans), max))
    out: dict[Span, Problem] = {}
    for problem in errors:
        if problem.span is not None:
            at = bisect_right(starts, problem.span.start) - 1
            # Equations of one chain, `a = b = c`, lie in one another: `ends` are the last ends of those up to a place.
            while at >= 0 and ends[at] >= problem.span.start:
                out |= {spans[at]: problem} if inside(problem.span, spans[at]) else {}
                at -= 1
    return out


@dataclass
class _Account:
    """Says of each equation what became of it."""

    paper: Paper
    sections: Mapping[int, Section]
    numbers: Mapping[Said, int]
    by: dict[Span, Said] = field(init=False)
    lines: dict[Said, s.Statement] = field(init=False)

    def __post_init__(self) -> None:
        self.by = {_place(x): x for x in self.paper.said if x.statement is not None}
        self.lines = dict(index_lines(self.paper.document, self.paper.said))

    def entry(self, said: Said) -> Entry:
        """What is told of an equation: whether it was compiled, restates another, defines something or was skipped,
        and why."""
        formula = said.formula
        plain = Entry(self.numbers[said], said.span, formula.span, formula.display, formula.section, "skipped")
        if said.skip:
            return replace(plain, reason=f"the author says so: {said.skip}")
        if said.indices:
            return replace(plain, status="definition", reason=self._declaration(said))
        section = self.sections.get(formula.section)
        problem = said.problem or (section.broken.get(said.span) if section is not None else None)
        if said.fact and said.sides and said.statement not in self.paper.assumed(formula.section):
            return self._equal(plain, said)
        if said.fact and problem is None and (said.statement is None or not self._runs(_place(said))):
            return replace(plain, status="fact", reason=said.fact)
        if problem is not said.problem and any(said.span in x.became.inlined for x in self.sections.values()):
            problem = None
        if isinstance(problem, Circular) and self._identity(said):
            return replace(plain, status="definition", reason="it holds of every tensor: upper and lower are one")
        if problem is not None:
            problem = nothing(said.span, problem.message) if said.unnamed else problem
            return self._skipped(plain, problem.message, problem)
        assert section is not None
        if said.sides:
            return self._equal(plain, said)
        if any(said.span in x.became.inlined for x in self.sections.values()):
            return replace(plain, status="definition", reason="read where other equations use it")
        return self._read(plain, said, section)

    def _equal(self, plain: Entry, said: Said) -> Entry:
        """Whether two expressions are equal, as an equation without a name on its left says."""
        one, other = said.sides
        verdict, wrong = self._compared(said, named(one, "given"), named(other, "restated"), (one, other))
        match verdict:
            case Proved(how):
                facts = " and ".join(dict.fromkeys(
                    f"`{x.span.text}`" for x in self.paper.assumed(said.formula.section)))
                more = f", with {facts}" if facts and how.endswith("assumed") else ""
                return replace(plain, status="fact", reason=f"both sides are proved equal{more}")
            case _ if wrong is not None:
                return self._skipped(plain, wrong.message, wrong)
            case Refuted():
                message, notes = "its two sides differ", example(verdict)
            case _:
                message, notes = "nothing here is defined, and its sides are not proved equal", ()
        return self._skipped(plain, message, NotRestated(message, plain.span, notes=notes, helps=(
            Help("give what it defines a name: `NAME = …`"),)))

    def _skipped(self, plain: Entry, reason: str, *problems: Problem) -> Entry:
        """Left out; a display that its author has not marked so is a problem of the document."""
        if plain.display and not any(p.code.startswith("E08") for p in problems):
            problems = (*problems, NotAccounted(f"this equation is not compiled: {reason}", plain.span, helps=(
                Help("mend it, or say above it that it is meant for readers: `<!-- ein: skip … -->`"),)))
        return replace(plain, reason=reason, problems=problems)

    def _declaration(self, said: Said) -> str:
        """The declaration that a sentence of the paper makes, or that of the side file which goes before it."""
        line = self.lines.get(said)
        if line is None:
            return "a range"
        first = index_name(line.clauses[0].body)
        for side in (x for x in self.paper.lines if x.keyword == "index"):
            if first in {index_name(c.body) for c in side.clauses}:
                return f"{' '.join(side.span.text.split())} ({side.span.source.name})"
        names = ", ".join(c.body.span.text for c in line.clauses)
        set_ = line.tail[0].body
        assert isinstance(set_, s.Product)
        cls, extent = set_.factors
        over = extent.items[0] if isinstance(extent, s.Group) else extent
        inner = f"{over.low.span.text}..{over.high.span.text}" if isinstance(over, s.Range) else over.span.text
        return f"index {names} : {cls.text if isinstance(cls, s.Word) else ''}({inner})"

    def _read(self, plain: Entry, said: Said, section: Section) -> Entry:
        """What became of an equation of a section: compiled, restated, a definition, or skipped and why."""
        became, place = section.became, _place(said)
        if section.program is None:
            why = next((p.message for p in section.problems if p.severity == "error"), "too much is wrong")
            return self._skipped(plain, f"its section does not check: {why}")
        if place in became.kept and (self._runs(place) or plain.display):
            return self._compiled(plain, said, section)
        if said.span in became.failed:
            problem = became.failed[said.span]
            return self._skipped(plain, problem.message, problem)
        if place in became.passed:
            return self._restated(plain, said, became.passed[place])
        if plain.display and not self._read_again(place, section):
            return self._skipped(plain, "no output of its section needs it")
        return replace(plain, status="definition", reason="read by what restates another" if plain.display
                       else "no output needs it")

    def _read_again(self, place: Span, section: Section) -> bool:
        """Whether an equation that is proved to restate another one reads what an equation defines, as `d_0 = 0`."""
        again = [x for x in self.paper.said if x.statement is not None and _place(x) in section.became.passed
                 and x.formula.section == section.number]
        return any(place in {c.span for line in section.needs.of((x.statement,)).statements for c in line.clauses}
                   and isinstance(self._same(x, x)[0], Proved) for x in again if x.statement is not None)

    def _runs(self, place: Span) -> bool:
        """Whether an equation is part of some program."""
        return place in self._running

    @cached_property
    def _running(self) -> frozenset[Span]:
        """The equations that are part of some program."""
        return frozenset(place for n, x in self.sections.items() if returns(self.paper, n) for place in x.became.kept)

    def _identity(self, said: Said) -> bool:
        """Whether what is defined by itself is itself."""
        assert said.statement is not None
        left = left_of(said.statement.clauses[0].body)
        names = {x.text for x in words(said.statement.clauses[0].body)} - {"δ"}
        own = left.base if isinstance(left, s.Scripted) else left
        if not isinstance(own, s.Word) or names != {own.text}:
            return False
        whole = s.Relation((left, left), ("=",), left.span)
        given = s.Statement("output", False, (s.Clause(whole, None, left.span),), (), left.span)
        return isinstance(self._compared(said, named(given, "given"), named(said.statement, "restated"))[0], Proved)

    def _compiled(self, plain: Entry, said: Said, section: Section) -> Entry:
        """Part of a program; where an earlier equation is proved to be the same, it restates that one."""
        program, key = section.program, section.became.kept[_place(said)]
        assert program is not None
        shown = replace(plain, status="compiled", explicit=explicit(program, key, _place(said)),
                        shapes=shapes(program, key), sure=self._sure(section, program, key))
        arrow = "what the arrow leads to is what the name is in this section" if said.becomes else ""
        if (guess := "; ".join(x for x in (arrow, section.became.guessed.get(_place(said), "")) if x)):
            shown = replace(shown, sure="inferred", reason=guess)
        others = [x for x in self._defining(said, section) if self.numbers[x] < plain.number]
        if not others:
            return shown
        first = others[0]
        if isinstance(self._same(said, first)[0], Proved):
            return replace(shown, status="restates", restates=self.numbers[first],
                           reason="with what its section says of the rest")
        variant = f"a variant of {self.numbers[first]} for this section"
        return replace(shown, reason="; ".join(x for x in (variant, shown.reason) if x))

    def _sure(self, section: Section, program: TypedProgram, key: str) -> Sure:
        """The least of three: something that it reads is inferred, words of the text declare an index, the rest."""
        found: list[Sure] = ["declared"]
        names, letters = spoken(program, key)
        found += ["inferred"] if names & section.became.inferred.keys() else []
        places = (program.tensors[x].span for x in names if x in program.tensors)
        found += ["bound"] if letters & self._spoken or any(x in self._shaped for x in places) else []
        return min(found, key=LEVELS.index)

    @cached_property
    def _shaped(self) -> frozenset[Span]:
        """The places where words of the text give a symbol its shape."""
        return frozenset(x.statement.clauses[0].span for x in self.paper.said if x.fact == SHAPE and x.statement)

    @cached_property
    def _spoken(self) -> frozenset[str]:
        """The letters that only words of the text declare."""
        said = {index_name(c.body) for x in self.lines.values() for c in x.clauses}
        own = {index_name(c.body) for x in self.paper.lines if x.keyword == "index" for c in x.clauses}
        return frozenset(x for x in said - own if x is not None)

    def _defining(self, said: Said, section: Section) -> list[Said]:
        """The displays that define the same tensor, and that this one holds in place of."""
        found = (self.by.get(other) for other in section.defining.get(_place(said), ()))
        return [x for x in found if x is not None and x.formula.display]

    def _restated(self, plain: Entry, said: Said, winner: Span) -> Entry:
        """What another equation holds in place of: it says the same, or it says something else."""
        first = self.by.get(winner)
        if first is None:
            place = winner.source.place(winner.start)
            return self._skipped(plain, f"{place.name}:{place.line} says what it is: `{winner.text}`")
        (verdict, wrong), number = self._same(said, said), self.numbers[first]
        if isinstance(verdict, Proved):
            return replace(plain, status="restates", restates=number)
        if wrong is not None:
            return self._skipped(plain, wrong.message, wrong)
        if not plain.display:
            told_ = f"it is not {number}" if isinstance(verdict, Refuted) else f"it is not proved to be {number}"
            return replace(plain, reason=f"{told_}, and a formula in a line of text defines only what no display does")
        notes = (example(verdict) if isinstance(verdict, Refuted)
                 else ("neither a proof nor a counterexample was found",))
        message = f"this is not equal to the equation that it restates, number {number}"
        problem = NotRestated(message, plain.span, "here", Label(first.span, "defined here"), notes=tuple(notes),
                              helps=(Help("give one of the two another name, or a section of its own"),))
        return self._skipped(plain, f"it is not equal to {number}", problem)

    def _same(self, said: Said, other: Said) -> tuple[Verdict, Problem | None]:
        """Whether what holds for a tensor in the section of `said` is the same as what another equation says of it.

        Where the other cannot be read there, what is wrong with it.
        """
        assert said.statement is not None and other.statement is not None
        asked, again = holding(said.statement), named(other.statement, "restated")
        found = self._compared(said, asked, again)
        if isinstance(found[0], Proved) or other.formula.section == said.formula.section:
            return found
        section = self.sections[said.formula.section]  # what the other reads may be what this section does not need
        every = self.paper.tree(section.number, section.broken.keys(), every=True)
        return self._compared(said, asked, again, needs=Needs(every, section.became.passed))

    def _compared(self, said: Said, one: s.Statement, other: s.Statement,
                  blamed: tuple[s.Statement, ...] = (), needs: Needs | None = None) -> tuple[Verdict, Problem | None]:
        """Whether two equations of a section are the same; what is wrong with the other, or with those to be blamed."""
        needs = needs or self.sections[said.formula.section].needs
        return compared(self.paper, said.formula.section, needs.but(left_open(said)) if blamed else needs, one, other,
                        blamed)


def _place(said: Said) -> Span:
    assert said.statement is not None
    return said.statement.clauses[0].span


def _made(section: Section, backend: str, kernels: bool) -> Made:
    """The program as the account shows it."""
    program = section.program
    assert program is not None
    kernel, problems = "", section.problems
    derived, pictures = tuple[str, ...](), tuple[tuple[str, str], ...]()
    if kernels:
        try:
            plan = compiling.plan(program, compiling.choices(Options(backend)))
            kernel, pictures = back_ends.emit(plan, backend), drawn(program, plan)
            derived = tuple(recurrence_tex(x) for x in recurrences(pipeline.normal(program)))
            derived += tuple(told(x, program.source, "%") for x in written(program))
        except EincError as error:
            problems = (*problems, *error.problems)
    given = tuple(_declared(t) for t in program.inputs())
    places = ((text, program.tensors[key].span) for key, text in section.became.inferred.items())
    guessed = tuple(Inferred(text, span) for text, span in places if span is not None)
    returned = tuple(_declared(program.tensors[key]) for _, key in program.outputs)
    return Made(section.number, program.name, given, returned, guessed, kernel, derived, problems,
                pictures)


def _declared(tensor: Tensor) -> str:
    """A tensor with its shape."""
    return f"{tensor.key} ({', '.join(str(slot.set.extent) for slot in tensor.slots)})"
