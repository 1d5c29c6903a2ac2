"""Ways out that were tried: an edit of the text without which there is an error, and with which there is none.

An edit is offered where two things hold: the text is sound with it, but for its other errors, and every equation that
is not marked as wrong means what it meant before. What an error itself offers is tried in the same way, and left out
where it fails. Where one edit of all that were tried mends an error, or all that do mean the same, it is offered as
certain; where several do, each is offered. Non-goal: to know the rules. What an edit is worth, the checker says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise

from einc.checking.programs.readings import Place, Reading
from einc.checking.tries import OF_BRACKETS, OF_NAMES, Edit, Text, edits
from einc.errors.problems import PlanLine
from einc.errors.report import Help, Label, Problem, Report, Source, Span
from einc.ir.folds import FOLDS
from einc.ir.indices import CLASSES
from einc.ir.programs import Equation, TypedProgram
from einc.ir.terms import canonical
from einc.syntax.lines import lines

MOST_ERRORS, MOST_TRIES, MOST_OFFERS = 2, 60, 3
MOST_READ = 40_000  # characters that are read again, edit by edit, for one error: a message is not waited for
_OF_NOTHING = ("W0310", "W0905")


@dataclass(frozen=True)
class Checks:
    """How a text is checked once it, or a file that it uses, is another one: `program` reports its errors, `meanings`
    says what each of its equations means by itself.
    """

    program: Callable[[Source, Report], TypedProgram | None]
    meanings: Callable[[Source], Mapping[Place, Reading]]


def mend(source: Source, report: Report, checks: Checks, functions: frozenset[str] = frozenset()) -> None:
    """Gives the first errors of a report the edits that mend them, and takes from all what was tried in vain or not
    tried.

    What an error offers may stand in a file that the text uses.
    """
    known = functions.union(FOLDS, CLASSES)
    trial = _Trial(Text(source, lines(source, Report(), functions), known), report, checks)
    tries = MOST_READ // max(1, len(source.text))
    for number, problem in enumerate(p for p in report.sorted() if p.severity == "error"):
        own = [h for h in problem.helps if h.new is not None and h.span is not None]
        tries -= len(own)
        if tries < 0 and number >= MOST_ERRORS:
            problem.helps = tuple(map(_in_words, problem.helps))
            continue
        enough = _kept(trial, problem, own) and problem.code not in (*OF_BRACKETS, *OF_NAMES)
        # Of a line of a plan an edit would only make one that nobody reads.
        here = problem.span is not None and problem.span.source == source and not isinstance(problem, PlanLine)
        if here and not enough and number < MOST_ERRORS and len(source.text) <= MOST_READ // 2:
            _offered(trial, problem)


def untried(problems: Iterable[Problem]) -> None:
    """Takes the edits from problems, and leaves their words: where none of them is tried."""
    for problem in problems:
        problem.helps = tuple(map(_in_words, problem.helps))


def _in_words(help_: Help) -> Help:
    return replace(help_, span=None, new=None)


@dataclass(frozen=True)
class _Trial:
    """A text with its errors, and how it is checked."""

    text: Text
    report: Report
    checks: Checks

    @cached_property
    def before(self) -> Mapping[Place, Reading]:
        """What the equations of the text mean that have a meaning."""
        return self.checks.meanings(self.text.source)

    def mends(self, problem: Problem, place: Span, new: str) -> tuple[bool, TypedProgram | None]:
        """Whether an edit leaves the other errors and equations as they are and makes no error; the program where there
        is none.

        An operator that does nothing is no way out either.
        """
        before = {(p.code, p.message) for p in self.report.problems if p is not problem}
        edited, after = _edited(place, new), Report()
        program = self.checks.program(edited, after)
        left = {(p.code, p.message) for p in after.problems if p.severity == "error" or p.code in _OF_NOTHING}
        mends = len(after.errors) < len(self.report.errors) and left <= before and self._untouched(problem, edited)
        return mends, program

    def _untouched(self, problem: Problem, edited: Source) -> bool:
        """Whether the equations without a caret of the problem mean what they meant."""
        carets = [x for x in (problem.span, *(label.span for label in problem.labels if label.caret)) if x is not None]
        rest = {place: found.meaning for place, found in self.before.items()
                if not any(span.meets(caret) for span in found.spans for caret in carets)}
        after = self.checks.meanings(edited) if rest else {}
        return all(place in after and after[place].meaning == meant for place, meant in rest.items())


def _kept(trial: _Trial, problem: Problem, own: list[Help]) -> bool:
    """Whether an edit that the error itself offers mends it: that one stands first, and what does not mend is left out.

    Where nothing else would be said, it stays as words.
    """
    mend = [h for h in own if h.span is not None and h.new is not None and trial.mends(problem, h.span, h.new)[0]]
    rest = [h for h in problem.helps if h not in own]
    said = bool(mend or rest or problem.notes)
    problem.helps = (*mend, *rest, *(() if said else map(_in_words, own)))
    return any(h.new is not None and "\n" not in h.new for h in mend)


def _offered(trial: _Trial, problem: Problem) -> None:
    """Adds to a problem the edits of the text near the error that mend it: certain where what was meant is evident, and
    no other meaning left.
    """
    found: list[tuple[Edit, bool, TypedProgram | None]] = []
    most = min(MOST_TRIES, MOST_READ // max(1, len(trial.text.source.text)))
    tried = dict.fromkeys(islice(edits(trial.text, problem), 2 * MOST_TRIES))
    for edit, evident in islice(tried, most):
        mends, program = trial.mends(problem, Span(trial.text.source, *edit[:2]), edit[2])
        if mends:
            found.append((edit, evident, program))
            if len(found) > MOST_OFFERS and not _alike([p for *_, p in found]):
                break
    if not found:
        return
    only = _alike([program for *_, program in found])
    chosen = found[:1] if only else found[:MOST_OFFERS]
    certain = only and len(tried) <= most and all(evident for _, evident, _ in found)
    rest = () if certain else tuple(h for h in problem.helps if h.new is None or "\n" in h.new)
    problem.helps = (*(_help(trial.text.source, problem, edit, certain) for edit, *_ in chosen), *rest)
    if only:
        _shown(problem, Span(trial.text.source, *chosen[0][0][:2]))


def _shown(problem: Problem, place: Span) -> None:
    """Shows the error at the one place where it can be mended."""
    if problem.code in OF_BRACKETS and problem.span is not None:
        # Where a bracket has no partner a reader of brackets finds it; where the partner belongs, it is missing.
        problem.labels = (Label(problem.span, problem.label or "without a partner"), *problem.labels)
        problem.span, problem.label = place, ""
    else:
        problem.labels = (*problem.labels, Label(place, "here it can be mended"))


def _alike(programs: list[TypedProgram | None]) -> bool:
    """Whether all programs are there and mean the same; one program alone does, even where it is None."""
    return len(programs) == 1 or (None not in programs and all(meaning(a) == meaning(b) for a, b in pairwise(programs)
                                                               if a is not None and b is not None))


def meaning(program: TypedProgram) -> tuple[object, ...]:
    """A program without its places in a text and without the letters of its indices."""
    def plain(equation: Equation) -> tuple[object, ...]:
        own = equation.indices
        return (equation.target, *(canonical(x, own) for x in (*equation.axes, equation.domain, equation.body)))

    rounds = [[plain(e) for e in x.equations] for x in program.recurs]
    given = {t.key: (t.role, t.element, tuple((x.set, x.level) for x in t.slots)) for t in program.inputs()}
    return ({e.target: plain(e) for e in program.equations}, given, program.outputs, dict(program.sizes), rounds,
            program.repeats)


def _edited(place: Span, new: str) -> Source:
    text = place.source.text
    return Source(place.source.name, text[: place.start] + new + text[place.end :])


def _help(source: Source, problem: Problem, edit: Edit, certain: bool) -> Help:
    """The edit in words: those of the error, if it offers the same."""
    start, end, new = edit
    own = next((h for h in problem.helps if h.span == Span(source, start, end) and h.new == new), None)
    if own is not None:
        return replace(own, certain=certain)
    old = source.text[start:end]
    said = f"write `{new.strip()}` for `{old.strip()}`" if old.strip() and new.strip() else (
        f"remove `{old.strip()}`" if old.strip() else f"insert `{new.strip()}`")
    return Help(said, Span(source, start, end), new, certain)


