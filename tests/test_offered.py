"""Edits that are offered: each was tried, leaves no new error, and changes no equation that is not marked as wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import meaning, typed
from programs import CASES
from test_errors import KINDS

import einc
from bench.mutations.judge import applied
from bench.mutations.mutators import Mutant, mutants
from einc.driver import flow, pipeline
from einc.driver.cli import main
from einc.errors.report import Help, Problem, Report, Source, Span
from einc.ir.programs import Equation, TypedProgram
from einc.ir.terms import canonical

PARTS, STEP = 40, 7
TEXTS = [Source(f"{case.name}.ein", case.text) for case in CASES if len(case.text) < 700 and "use " not in case.text]


INTERVALS = Source("intervals.ein", """
index t, s, u : time(T)
dim W
input g_t, x_t
y_t = Σ_{s ≤ t} x_s Σ_{u ∈ (min(s, t), max(s, t)]} g_u
z_t = Σ_{s < t} x_s Σ_{u, s < u ≤ t or u ≤ min(s, W)} g_u
output w_t = max_{u, max(t - W, 0) < u ≤ t} (y_u + z_u)
""")
REQUESTS = Source("requests.ein", """
index r : request(R)
index t, s, u : time(T_r)
index d : feature(D)
input Q_{r t}^d, K_{r t}^d, g_{r t}
mask L_{r t s} : s ≤ t
L_{r t s} = Q_{r t}^d K_{r s d} + Σ_{u ∈ (s, t]} g_{r u}
output y_{r t}^d = Σ_s softmax_s(L_{r t s}) K_{r s}^d
""")


@cache
def drawn(part: int) -> tuple[Mutant, ...]:
    """Faulty texts, drawn from the mutants of one part of the small programs: the same ones in every run."""
    some = [m for source in TEXTS[part::PARTS] for m in mutants(source, 1)][::STEP]
    return tuple(m for m in some if pipeline.check(m.source, Report()) is None)


def told(source: Source) -> Report:
    """What is wrong with a text, with the edits that are offered."""
    report = Report()
    pipeline.check(source, report)
    pipeline.advise(source, report)
    return report


def offered(report: Report) -> list[tuple[Problem, Help]]:
    return [(p, h) for p in report.errors for h in p.helps if h.new is not None and h.span is not None]


def lines(spans: list[Span]) -> set[int]:
    """The lines of a text that some spans touch."""
    return {n for s in spans for n in range(s.source.position(s.start)[0], s.source.position(s.end)[0] + 1)}


def plain(equation: Equation) -> tuple[object, ...]:
    own = equation.indices
    return tuple(canonical(x, own) for x in (*equation.axes, equation.domain, equation.body))


def assert_sound(source: Source, before: TypedProgram | None = None, changed: set[int] | None = None) -> int:
    """Every edit that is offered leaves fewer errors and no new one; of the program that a slip
    was made in, the equations mean the same that stand in no line of the slip, of the carets and
    of the edit. How many edits are offered."""
    report = told(source)
    known = {(p.code, p.message) for p in report.errors}
    for problem, edit in offered(report):
        again = Report()
        after = pipeline.check(applied(source, [edit]), again)
        assert len(again.errors) < len(report.errors), (edit, source.text)
        assert {(p.code, p.message) for p in again.errors} <= known, (edit, source.text)
        assert not {p.code for p in again.warnings} & {"W0310",
                                                       "W0905"} - {p.code for p in report.warnings}, (edit, source.text)
        if after is None or before is None or changed is None or edit.span is None or problem.span is None:
            continue
        marked = lines([problem.span, *(x.span for x in problem.labels), edit.span]) | changed
        for equation in after.equations:
            there = before.equation(equation.target)
            line = next((n for n, text in enumerate(source.text.splitlines(), 1)
                         if equation.source and equation.source in text), 0)
            if there is not None and line and line not in marked:
                assert plain(there) == plain(equation), (edit, equation.source, source.text)
    return len(offered(report))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("code", "kind"), KINDS)
def test_an_edit_of_an_example_mends_it(code: str, kind: type[Problem]) -> None:
    assert_sound(Source("example.ein", kind.example))


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.whole) for n in range(1, PARTS))])
def test_an_edit_of_a_drawn_text_mends_it(part: int) -> None:
    faulty, found = drawn(part), 0
    assert faulty
    for mutant in faulty:
        places = [Span(mutant.source, *change) for change in (*mutant.changes, *mutant.about)]
        in_declaration = any(
            mutant.text.splitlines()[n - 1].split()[:1] in (["index"], ["input"], ["dim"], ["mask"], ["weight"])
                             for n in lines(places))
        before = None if in_declaration else pipeline.check(mutant.original, Report())
        found += assert_sound(mutant.source, before, lines(places))
    assert found >= len(faulty) // 6


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.whole) for n in range(2, PARTS))])
@pytest.mark.parametrize("of", [INTERVALS, REQUESTS], ids=["intervals", "requests"])
def test_an_edit_of_intervals_and_requests_mends_them(of: Source, seed: int) -> None:
    faulty = [m for m in mutants(of, seed) if pipeline.check(m.source, Report()) is None]
    assert faulty
    for mutant in faulty[:: 6 if seed == 1 else 1]:
        assert_sound(mutant.source)


@pytest.mark.parametrize(("within", "edits"), [
    ("u ∈ (min(s, t), max(s, t) + 1]", [", u ≤ t"]),
    ("min(s, t) < u ≤ max(s, t) + W", [", u ≤ t"]),
    ("u, s < u ≤ t or t < u ≤ s + 1", [", u ≤ t"]),
    ("u, u ≥ t", ["≤", ", u ≤ t", ", u ≤ s"]),
])
def test_an_interval_stays_one(within: str, edits: list[str]) -> None:
    """A sign of a chain of comparisons is not turned: what it says then is no interval."""
    text = f"index t, s, u : time(T)\ndim W\ninput g_t, x_t\noutput y_t = Σ_{{s ≤ t}} x_s Σ_{{{within}}} g_u\n"
    (problem,) = told(Source("a.ein", text)).errors
    assert problem.code == "E0501" and [x[3] for x in offers(problem)] == edits


def test_an_index_of_another_extent_is_offered_that_of_the_slot() -> None:
    text = 'use "rope_half"\nindex c, k : feature(D)  # one head\ninput x_t^c\noutput y_t^k = x_t^c R_{t c}^k\n'
    (problem,) = told(Source("a.ein", text)).errors
    assert problem.code == "E0401" and [x[3] for x in offers(problem)] == ["feature(d_k)"]
    assert not problem.helps[0].certain


@pytest.mark.parametrize("other", ["", "index u : time(T)\n"])
def test_a_position_without_its_request_is_offered_one_and_no_other_position(other: str) -> None:
    """A position of a text without requests would be another thing, though the equation would be sound with it."""
    text = f"index r : request(R)\nindex t : time(T_r)\n{other}input x_{{r t}}\noutput y_t = 2 x_{{r t}}\n"
    (problem,) = told(Source("a.ein", text)).errors
    assert problem.code == "E0408" and [x[3] for x in offers(problem)] == ["{r t}"]


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.whole) for n in range(1, 32))])
def test_every_door_offers_the_same_edits(part: int, tmp_path: Path) -> None:
    """`einc.check`, what is raised, and the commands: for drawn texts, and examples whose own edits do not all mend."""
    sources = [m.source for m in drawn(part)[::6]]
    sources += [Source("a.ein", kind.example) for code, kind in KINDS[part::32]
                if code.startswith("E") and "\n" in kind.example]
    for source in sources:
        path = tmp_path / "a.ein"
        path.write_text(source.text, encoding="utf-8")
        wanted = [(p.code, p.message, offers(p)) for p in told(Source(str(path), source.text)).sorted()]
        assert [(p.code, p.message, offers(p)) for p in einc.check(path)] == wanted
        if einc_errors := [x for x in wanted if x[0].startswith("E")]:
            with pytest.raises(einc.EincError) as raised:
                einc.compile(path)
            assert [(p.code, p.message, offers(p)) for p in raised.value.problems] == wanted, einc_errors


def offers(problem: Problem) -> list[tuple[str, int, int, str | None]]:
    return [(h.text, h.span.start, h.span.end, h.new) for h in problem.helps if h.span is not None]


@pytest.mark.parametrize("command", ["check", "fmt", "tex", "show", "prove", "derive"])
def test_commands_that_only_read_offer_what_mends(command: str, tmp_path: Path) -> None:
    """Of a bracket that is closed twice one edit is offered; it is the same one in every command."""
    path = tmp_path / "a.ein"
    path.write_text("index t : time(T)\ninput x_t\noutput y_t = 2 x_t)\n", encoding="utf-8")
    done = CliRunner().invoke(main, [command, str(path)])
    assert done.exit_code == 1
    assert done.output.count("help: ") == 1
    assert "3 | output y_t = 2 x_t\n" in done.output


def test_an_edit_of_a_file_that_is_used_is_tried_there(tmp_path: Path) -> None:
    """The one that does not mend the text is not offered, whichever file it stands in."""
    base, top = tmp_path / "base.ein", tmp_path / "top.ein"
    base.write_text(INDICES + ROUNDS.format("0.9 S^d + Σ_{s ∈ B} 0.1 x_s^d"), encoding="utf-8")
    top.write_text('use "base"\noutput z_t^d = 2 y_t^d\n', encoding="utf-8")
    (problem,) = einc.check(top)
    assert problem.code == "E0704" and offers(problem) == []
    base.write_text("index t, u : time(T)\ninput A_{t u}, v_u : all\noutput y_t = A_{t u} v_u : all\n",
                    encoding="utf-8")
    (problem,) = [p for p in einc.check(top) if p.code == "E0306"]
    assert [x[3] for x in offers(problem)] == ["Σ_u "]


@pytest.mark.parametrize(("text", "near"), [
    ('use "sdpaa"\n', "sdpa"), ('use "gallery/linaer"\n', "gallery/linear"),
    ('use "my_bas"\noutput z_t = y_t\n', "my_base"),
    ('index t : time(T)\ninput w_t\noutput z_t = "my_bsae"(x = w_t)\n', "my_base")])
def test_a_spec_with_a_similar_name_is_offered(text: str, near: str, tmp_path: Path) -> None:
    """One beside the file, or one of einc's."""
    (tmp_path / "my_base.ein").write_text("index t : time(T)\ninput x_t\noutput y_t = 2 x_t\n", encoding="utf-8")
    (tmp_path / "top.ein").write_text(text, encoding="utf-8")
    (problem,) = einc.check(tmp_path / "top.ein")
    assert problem.code == "E0212"
    assert [x[3] for x in offers(problem)] == [near]


INDICES = "index t, s, u : time(T)\nindex k, d : feature(d_k)\n"
ROUNDS = ("input x_s^d, a_s^d\nfor t:\n    S^d = 0\n    for B ⊆ {{s ≤ t}}:\n        S^d ← {}\n"
          "    output y_t^d = S^d\n")


@pytest.mark.parametrize("update", ["0.9 S^d + Σ_{s ∈ B} 0.1 x_s^d", "2 S^d + Σ_{s ∈ B} a_s^d",
                                    "S^d (1 - Σ_{s ∈ B} a_s^d) + Σ_{s ∈ B} x_s^d"])
def test_rounds_are_not_made_provable_by_another_letter(update: str) -> None:
    """That edit leaves the rounds as unproved as they were."""
    (problem,) = told(Source("a.ein", INDICES + ROUNDS.format(update))).errors
    assert problem.code == "E0704"
    assert [h for h in problem.helps if h.new is not None] == []


@pytest.mark.parametrize(("text", "code", "made"), [
    ("input x_t^k\noutput y_t^k = d_k^{-1/4} x_t^k", "E0201", ["(d_k)^{-1/4}"]),
    ("input x_t^k\noutput y_t^k = √abs(x_t^k)", "E0111", ["(abs(x_t^k))"]),
    ("input x_t^k\noutput y_t^k = 2 \\sqrt exp(x_t^k) x_t^k", "E0111", ["{exp(x_t^k)}"]),
    ("input x_t^k\noutput y_t^k = x_t^k - √softcap(x_t^k, 2)", "E0111", ["(softcap(x_t^k, 2))"]),
    ("input x_t^k\noutput y_t = \\sqrt mean_k(x_t^k)", "E0111", ["{mean_k(x_t^k)}"]),
    ("input x_t^k\noutput y_t^k = √exp x_t^k", "E0111", []),
    ("input x_t^k\noutput y_t^k = exp(x_{t'}^k) x_t^k'", "E0108", []),
    ("input x_t^k\noutput y_t = Σ_{k'} x_t^k'", "E0108", ["^{k'}"]),
    ("input X'_t^k\noutput y_t^k = 2 X_t^k'", "E0108", ["'_t^k"]),
    ("input a_t, b_t\noutput y_{t s} = Σ_{u ∈ (s, t]} -exp(a_u) b_u : all", "E0106", ["(-exp(a_u) b_u)"]),
    ("dim B\nindex j : head(sin(T / B))\ninput x_t\noutput y_t = x_t", "E0210", []),
    ("input X_{s q}\noutput y_s = Σ_q X_{s q}", "E0215", []),
    ("input x_t^k\noutput y_t = Π_{k} x_t^k", "E0201", ["∏"]),
    ("input x_t^k\noutput y_t^k = \\Pi_{s ≤ t} x_s^k", "E0201", ["∏"]),
    ("input x_t^k\noutput y_t^k = P_{s ≤ t} x_s^k", "E0201", []),
])
def test_what_is_offered_for_a_slip(text: str, code: str, made: list[str]) -> None:
    report = told(Source("a.ein", INDICES + text + "\n"))
    assert {p.code for p in report.errors} == {code}
    assert [h.new for _, h in offered(report)][:1] == made
    assert not any(h.text.startswith("declare it: `input d_k") for p in report.errors for h in p.helps)
    assert_sound(Source("a.ein", INDICES + text + "\n"))


def test_no_class_is_guessed_for_an_index() -> None:
    """Whether it is a position or a feature decides what is summed."""
    for text in ("input X_s\noutput y_s = Σ_q X_s", "input X_s\nfor q in 1..T:\n    z ← z + X_q\noutput z"):
        helps = [h.text for p in told(Source("a.ein", INDICES + text + "\n")).errors for h in p.helps]
        assert not any(f": {name}(" in h for h in helps for name in ("time", "feature", "head"))


def test_a_misspelt_class_is_one_error() -> None:
    """Of an index of some small programs a letter of the class is left out: nothing follows from that."""
    texts = [case.text for case in CASES if len(case.text) < 900][::4]
    seen = 0
    for number, text in enumerate(texts):
        heads = [n for n, line in enumerate(text.splitlines()) if line.startswith("index ")]
        if not heads:
            continue
        rows = text.splitlines()
        at = heads[number % len(heads)]
        left, _, right = rows[at].partition(": ")
        rows[at] = f"{left}: {right[0]}{right[2:]}"
        report = Report()
        pipeline.check(Source("a.ein", "\n".join(rows) + "\n"), report)
        assert [p.code for p in report.errors] == ["E0210"], rows
        seen += 1
    assert seen > 20


def test_a_range_that_a_mask_leaves_is_told_in_the_mask() -> None:
    text = ("index j : head(J)\ndim B, n\ninput G_{t j}, x_s\nmap β(s) = ceil(s / B) : j\nset S_t = topk_{j B < "
            "t}(G_{t j}, n)\n"
            "mask L_{t s} : s ≤ t and β(s) ∈ S_t\nL_{t s} = x_s + x_t\noutput y_t = Σ_s softmax_s(L_{t s})\noutput y_t "
            ": all\n")
    (problem,) = told(Source("a.ein", INDICES + text)).errors
    assert problem.code == "E0601"
    assert problem.span is not None
    assert problem.span.text == "β(s)"
    assert problem.span.source.line(problem.span.source.position(problem.span.start)[0]).startswith("mask")


def test_an_equation_is_known_by_its_line_whatever_else_is_wrong() -> None:
    """What `flow.meanings` says of an equation does not change with the errors and the names of other lines."""
    text = INDICES + "input x_t\ny_t = 2 x_t\nz_t = y_t + q_t\noutput w_t = Σ_{s ≤ t} x_s y_s\n"
    before = flow.meanings(Source("a.ein", text))
    after = flow.meanings(Source("a.ein", text.replace("q_t", "x_t").replace("z_t", "y'_t")))
    same = {place for place in before if after[place].meaning == before[place].meaning}
    assert same == before.keys()
    assert len(same) == 2
    changed = flow.meanings(Source("a.ein", text.replace("s ≤ t", "s < t")))
    assert {place for place in before if changed[place].meaning != before[place].meaning} == {("a.ein", 6, 0)}


@pytest.mark.parametrize(("right", "value"), [
    ("x_t + e", "e = 2.718281828459045"), ('"pi" * x_t', '"pi" = 3.141592653589793')])
def test_a_letter_for_a_number_is_defined_and_no_other_letter_is_written_for_it(right: str, value: str) -> None:
    text = f"index t : time(T)\ninput x_t\noutput y_t = {right}\n"
    report = Report()
    source = Source("a.ein", text)
    pipeline.check(source, report)
    pipeline.advise(source, report)
    (problem,) = report.problems
    name = value.partition(" ")[0]
    assert [help_.text for help_ in problem.helps] == [f"define it: `{value}`", f"declare it: `input {name}`"]
    again = Report()
    assert pipeline.check(Source("a.ein", f"{text}{value}\n"), again) is not None and not again.errors


@pytest.mark.parametrize("spelled", ["π", "pi", r"\pi"])
def test_pi_is_its_number_where_no_line_gives_it_another(spelled: str) -> None:
    text = f"index t : time(T)\ninput x_t\noutput y_t = {spelled} * x_t\n"
    given = {"x": np.array([1.0, -2.0])}
    for more, number in (("", np.pi), (f"{spelled} = 3\n", 3.0)):
        (found,) = meaning(typed(text + more), given, {"T": 2}).values()
        assert np.array_equal(found, number * given["x"])
    assert typed(f"{text}input {spelled}\n").inputs()[-1].key == "pi"


def test_two_labels_are_offered_where_a_composite_is_none() -> None:
    text = ("index t, s : time(T)\nindex g, r : head(G), head(R)\nindex d : feature(D)\n"
            "input Q_{t g r}^d, K_{s g}^d\nmask L_{t s}^{(g r)} : s ≤ t\n"
            "L_{t s}^{(g r)} = Q_{t g r}^d K_{s g d}\noutput Y_{t g r} = max_s L_{t s}^{(g r)}\n")
    report = Report()
    pipeline.check(Source("a.ein", text), report)
    offered = {help_.text for problem in report.problems for help_ in problem.helps}
    assert "for two indices write `(g) (r)`" in offered
    again = Report()
    assert pipeline.check(Source("a.ein", text.replace("(g r)", "(g) (r)")), again) is not None and not again.errors


@pytest.mark.parametrize(("extent", "offered"), [("T", 1), ("S", 0)])
def test_a_bound_is_offered_among_positions_of_one_set(extent: str, offered: int, tmp_path: Path) -> None:
    file = tmp_path / "made.ein"
    file.write_text(f"index t : time(T)\nindex s : time({extent})\nindex d : feature(D)\ninput Q_t^d, K_s^d, V_s^d\n"
                    "L_{t s} = Q_t^d K_{s d}\noutput Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d : all\n", encoding="utf-8")
    said = CliRunner().invoke(main, ["check", str(file)])
    assert said.exit_code == 1 and "E0503" in said.output
    assert said.output.count("write `{s ≤ t}` for `s`") == offered and "≤ d" not in said.output


@pytest.mark.parametrize(("value", "there"), [("x_{t-1}", True), ("2 x_t x_{t-1}", True), ("x_{t-1} / 3", True),
                                                ("1 / x_{t-1}", False), ("exp(x_{t-1})", False)])
def test_an_indicator_is_offered_where_its_addend_is_0_then(value: str, there: bool) -> None:
    """What is outside is 0: not so below a stroke, nor under a function."""
    report = told(Source("a.ein", f"index t : time(T)\ninput x_t\noutput y_t = {value}\n"))
    assert any("1[1 ≤ t - 1] " in (edit.new or "") for _, edit in offered(report)) == there
