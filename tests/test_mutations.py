"""Specs with one slip in them: what is wrong is refused, once, where it was changed; and what mends it, mends it."""

from __future__ import annotations

from functools import cache

import pytest
from programs import CASES

from bench.mutations.__main__ import REACH, figures, sources
from bench.mutations.judge import Outcome, applied, certain, fixed, outcome
from bench.mutations.mutators import MUTATORS, Mutant, mutants
from bench.mutations.referee import EXPECTED, judged
from einc.driver import pipeline
from einc.driver.commands import check
from einc.errors.report import Problem, Report, Source, render

SPECS = ("sdpa", "not_attention/variance", "not_attention/layer_norm")


@cache
def sampled() -> tuple[tuple[Mutant, Outcome], ...]:
    """A few mutants of every mutator over specs of different forms."""
    found = [m for source in sources(SPECS) for m in mutants(source, 1)]
    return tuple((m, outcome(m)) for m in found)


# the checker


def test_what_the_language_can_know_to_be_wrong_is_refused() -> None:
    missed = [(o.spec, o.mutator, o.what, o.rules) for _, o in sampled() if o.wrong and not o.refused]
    assert missed == []


def test_an_error_is_one_and_stands_where_the_text_was_changed() -> None:
    found = figures([o for _, o in sampled()])
    assert found["wrong"] > 15
    assert {name: found[name] for name, least in REACH.items() if found[name] < least} == {}


def test_no_mutant_is_told_with_a_traceback_or_without_a_place() -> None:
    for mutant, _ in sampled():
        report = Report()
        pipeline.check(mutant.source, report)
        assert all(p.span is not None and render(p) and p.code in Problem.registry for p in report.problems)


def test_a_fix_that_is_certain_leaves_nothing_worse() -> None:
    made = [o for _, o in sampled() if o.fixed]
    assert made
    assert [(o.spec, o.mutator, o.what) for o in made if o.fixed == "broken"] == []
    assert sum(o.fixed == "original" for o in made) >= 0.8 * len(made)


def test_a_fix_is_made_once() -> None:
    """What is fixed is sound, so that a second run finds nothing to do."""
    for mutant, found in sampled():
        if found.fixed in ("original", "sound"):
            report = Report()
            pipeline.check(mutant.source, report)
            pipeline.advise(mutant.source, report)
            edits = certain(report.problems, mutant.original.name)
            assert edits == check.certain(report.problems,
                                          mutant.original.name), "the suite makes the fixes that the command makes"
            after = applied(mutant.source, edits)
            again = Report()
            assert pipeline.check(after, again) is not None
            assert certain(again.problems, mutant.original.name) == []


# the suite itself


def test_a_mutant_is_changed_where_it_says() -> None:
    """Outside of its changes the text is the one it was; the specs have a mutant of each mutator."""
    made = [m for source in sources((*SPECS, "mla_rope", "requests_packed", "online_softmax"))
            for m in mutants(source, 8)]
    assert len({m.mutator for m in made}) == len(MUTATORS)
    for mutant in made:
        assert mutant.text != mutant.original.text
        assert all(0 <= a <= b <= len(mutant.text) for a, b in (*mutant.changes, *mutant.about))
        first, last = min(a for a, _ in mutant.changes), max(b for _, b in mutant.changes)
        assert mutant.original.text.startswith(mutant.text[:first])
        assert mutant.original.text.endswith(mutant.text[last:])


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.whole)])
def test_the_referee_has_no_word_about_what_is_sound(every: int) -> None:
    texts = [*sources()[::every], *(Source(case.name, case.text) for case in CASES[::every])]
    assert [(x.name, judged(x).rules) for x in texts if judged(x).rules] == []


@pytest.mark.parametrize("code", [
    "E0101", "E0102", "E0103", "E0201", "E0204", "E0205", "E0207", "E0209", "E0213", "E0215", "E0301", "E0302",
    "E0304", "E0305",
    "E0306", "E0401", "E0503", "E0506",
])
def test_the_referee_sees_what_an_error_is_about(code: str) -> None:
    """On the example of a kind of error it finds a rule for which that kind is expected."""
    found = judged(Source("example.ein", Problem.registry[code].example)).rules
    assert any(code in EXPECTED[rule] for rule in found)


def test_mutants_are_the_same_in_every_run() -> None:
    (source,) = sources(("gqa",))
    assert [m.text for m in mutants(source, 3)] == [m.text for m in mutants(source, 3)]


# what mends


@pytest.mark.parametrize(("text", "old", "new"), [
    ("index t, s : time(T)\nindex h : head(H)\ninput x_{t h}\noutput y_{t h = x_{t h}\n", "y_{t h ", "y_{t h} "),
    ("index t, s : timeT)\ninput x_t\noutput y_t = x_t\n", "timeT)", "time(T)"),
    ("inzex t : time(T)\ninput x_t\noutput y_t = x_t\n", "inzex", "index"),
    ("index t : tme(T)\ninput x_t\noutput y_t = x_t\n", "tme", "time"),
    ("index t : time(T)\nindex f : feature(D)\nweight gain^f\ninput x_t^f\noutput y_t^f = gaim^f x_t^f\n", "gaim",
     "gain"),
])
def test_the_only_edit_that_mends_is_certain(text: str, old: str, new: str) -> None:
    source, report = Source("a.ein", text), Report()
    pipeline.check(source, report)
    pipeline.advise(source, report)
    assert applied(source, certain(report.problems, "a.ein")).text == text.replace(old, new)


def test_an_edit_is_not_certain_where_another_mends_as_well() -> None:
    text = "index t : time(T)\nindex f : feature(D)\ninput x_t^f, z_t\noutput y_t^f = exp(x_t^f + z_t\n"
    source, report = Source("a.ein", text), Report()
    pipeline.check(source, report)
    pipeline.advise(source, report)
    (problem,) = report.errors
    assert problem.code == "E0101"
    assert len([h for h in problem.helps if h.new == ")"]) > 1
    assert certain(report.problems, "a.ein") == []


def test_of_a_mutant_that_is_sound_nothing_is_fixed() -> None:
    (source,) = sources(("gqa",))
    assert fixed(Mutant(source, "none", "", source.text, ()), Report()) == ""
