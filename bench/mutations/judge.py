"""Each mutant before the checker: what it says, whether it had to, and whether what it says is what a reader needs.

`wrong` is the referee's word, given without the checker. Of what is wrong and refused: was it said with one error; is
that error (its carets, or for `strict` the first carets alone) where the text was changed; is its code one for the rule
that is broken; and does the first way out that is text give the original back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

from bench.mutations.mutators import Mutant, mutants
from bench.mutations.referee import EXPECTED, judged
from einc.driver import pipeline
from einc.errors.report import Help, Problem, Report, Source, Span
from einc.ir.programs import Equation, Program, TypedProgram
from einc.ir.terms import canonical


@dataclass(frozen=True)
class Outcome:
    """One mutant: the rules it breaks, the errors it gave, and what they were worth."""

    spec: str
    mutator: str
    what: str
    rules: tuple[str, ...]
    codes: tuple[str, ...]
    touched: bool = False  # by the primary error or one of its labels
    strict: bool = False  # by the primary error's own span
    family: bool = False
    offered: bool = False  # a way out that is text
    restored: bool = False
    fixed: str = ""  # what `check --fix` makes of it: the original, sound, broken; empty where nothing is certain
    kind: str = ""  # of an accepted one: the same, or another program
    text: str = ""
    message: str = ""

    @property
    def wrong(self) -> bool:
        return bool(self.rules)

    @property
    def refused(self) -> bool:
        return bool(self.codes)


def outcome(mutant: Mutant) -> Outcome:
    """What the checker says of a mutant, and what the referee does."""
    report = Report()
    program = pipeline.check(mutant.source, report)
    rules = tuple(judged(mutant.source).rules)
    if rules:
        pipeline.advise(mutant.source, report)
    errors = [p for p in report.sorted() if p.severity == "error"]
    name = mutant.original.name
    if not errors:
        before = original(mutant.original)
        same = (program is not None
                and (alike(program, before) or alike(pipeline.normal(program), pipeline.normal(before))))
        return Outcome(name, mutant.mutator, mutant.what, rules, (), kind="same" if same else "other", text=mutant.text)
    first = errors[0]
    spans = [first.span, *(x.span for x in first.labels)]
    wanted: set[str] = set().union(*(EXPECTED[x] for x in rules))
    fix = next((h for h in first.helps if h.span is not None and h.new is not None), None)
    return Outcome(
        name, mutant.mutator, mutant.what, rules, tuple(p.code for p in errors),
        touched=any(touches(x, mutant) for x in spans), strict=touches(first.span, mutant), family=first.code in wanted,
        offered=fix is not None, restored=fix is not None and restores(applied(mutant.source, [fix]), mutant.original),
        fixed=fixed(mutant, report), text=mutant.text, message=first.message)


def touches(span: Span | None, mutant: Mutant) -> bool:
    """Whether a span and a change have a place in common, or meet."""
    if span is None or span.source.name != mutant.original.name:
        return False
    return any(span.start <= end and start <= span.end for start, end in (*mutant.changes, *mutant.about))


def applied(source: Source, fixes: Iterable[Help]) -> Source:
    """The text with the fixes made, from the end backwards."""
    text = source.text
    for fix in sorted(fixes, key=lambda h: h.span.start if h.span else 0, reverse=True):
        assert fix.span is not None
        text = text[: fix.span.start] + (fix.new or "") + text[fix.span.end :]
    return Source(source.name, text)


def restores(source: Source, before: Source) -> bool:
    """Whether a text means what it meant before the slip."""
    if source.text.split() == before.text.split():
        return True
    program = pipeline.check(source, Report())
    return program is not None and alike(program, original(before))


def fixed(mutant: Mutant, report: Report) -> str:
    """What the fixes that are certain make of a mutant."""
    edits = certain(report.problems, mutant.original.name)
    if not edits:
        return ""
    after = applied(mutant.source, edits)
    found = Report()
    program = pipeline.check(after, found)
    if program is None:
        return "broken" if len(found.errors) >= len(report.errors) else "better"
    return "original" if alike(program, original(mutant.original)) else "sound"


def certain(problems: list[Problem], name: str) -> list[Help]:
    """As `einc check --fix` takes them: one way out, certain, in this file, apart from each other."""
    edits = []
    for problem in problems:
        ways = [h for h in problem.helps if h.span is not None and h.new is not None]
        if len(ways) == 1 and ways[0].certain and ways[0].span is not None and ways[0].span.source.name == name:
            edits.append(ways[0])
    out: list[Help] = []
    for edit in sorted(edits, key=lambda h: (h.span.start, h.span.end) if h.span else (0, 0)):
        if (not out or (edit.span and out[-1].span and edit.span.start >= out[-1].span.end
                        and edit.span.start > out[-1].span.start)):
            out.append(edit)
    return out


@cache
def original(source: Source) -> TypedProgram:
    program = pipeline.check(source, Report())
    assert program is not None, f"{source.name} is not sound"
    return program


def alike(a: Program, b: Program) -> bool:
    """Whether two programs say the same, each equation and each name, whatever their texts."""
    return len(a.equations) == len(b.equations) and shape(a) == shape(b)


def shape(program: Program) -> tuple[object, ...]:
    """A program without its places in a text and without the names of its indices."""
    def plain(equation: Equation) -> tuple[object, ...]:
        own = equation.indices
        return (equation.target, *(canonical(x, own) for x in (*equation.axes, equation.domain, equation.body)))

    equations = {e.target: plain(e) for e in program.equations}
    tensors = {t.key: (t.role, t.integer, tuple((x.set, x.level) for x in t.slots)) for t in program.inputs()}
    rounds = [[plain(e) for e in (*x.starts, *x.inside, *x.updates)] for x in program.recurs]
    return equations, tensors, program.outputs, dict(program.sizes), rounds, program.repeats


def _of(job: tuple[Source, int | None]) -> list[Outcome]:
    return [outcome(m) for m in mutants(*job)]


def outcomes(sources: list[Source], each: int | None, workers: int = 1) -> Iterator[list[Outcome]]:
    """The outcomes of every spec, a spec at a time."""
    jobs = [(source, each) for source in sources]
    if workers == 1:
        yield from map(_of, jobs)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_of, jobs)
