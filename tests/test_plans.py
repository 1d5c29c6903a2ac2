"""`plan` blocks: what a text asks for is the same as by options, blocks are joined, and a line that nothing reads is
an error.
"""

from __future__ import annotations

import inspect
import re
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from einc.checking.edits import apply
from einc.checking.plans import KINDS, ROWS
from einc.driver import flow, front, pipeline
from einc.driver.cli import main
from einc.errors.report import EincError, Report, Source, render
from einc.ir.requested import Cache, Cut, Keep, Mesh, Products, Recompute, Record, Relative, Shard, Store, joined

SPEC = 'use "attention"\nplan serve:\n    {}\n'


def test_what_is_kept_and_in_which_pages() -> None:
    made = front.compile(SPEC.format("cache K, V paged 32  # unturned"), plan="serve")
    assert {t.key for t in made.plan.inputs if t.role == "cache"} == {"K_past", "V_past"}
    own = inspect.unwrap(made.function).__globals__
    assert own["Pool"](4).page == 32
    assert {t.key for t in front.compile(SPEC.format("cache K, V"), plan="serve", keep=["K_hat", "V"]).plan.inputs
            if t.role == "cache"} == {"K_hat_past", "V_past"}
    assert not any(t.role == "cache" for t in front.compile(SPEC.format("cache K, V")).plan.inputs)


@pytest.mark.parametrize(("line", "said"), [
    ("cache", "not how a line about what is kept reads"), ("cache K V", "not how a line"),
    ("cache K paged", "not how a line"),
    ("cache K, Z", "`Z` is no tensor"), ("cache K, V paged 0", "from 1 to"),
    ("cache K, V paged 1.5", "a page has from 1 to"), ("cache K, V as e4m3 per 2.5", "a block has from 1 to"),
    ("products of K by e4m3 per block 1.5", "a block has from 1 to"),
    ("cache K, V paged 99999999999999999999999", "a page has from 1 to 16,777,216 positions"),
    ("cach K, V", "`cach` is no word of a plan"),
])
def test_a_line_that_asks_for_nothing(line: str, said: str) -> None:
    with pytest.raises(EincError, match=said) as refused:
        front.compile(SPEC.format(line))
    (problem,) = refused.value.problems
    assert problem.code == "E0119" and problem.span.text in line and problem.helps


def shown(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["show", *words])
    return done.exit_code, done.output


def test_the_plan_of_a_step_is_shown_with_what_a_request_costs() -> None:
    code, text = shown("gqa", "--stage", "plan", "--plan", "serve", "--sizes",
                       "T=1,past=4000,H=16,G=4,d_k=64,d_model=512")
    assert code == 0
    (line,) = [line for line in text.splitlines() if "each" in line.split()]
    assert "Y of one request" in line and "16.7 M" in line
    assert "for each request: Y" in shown("gqa", "--stage", "plan", "--plan", "serve", "--full")[1]
    assert "def prefill(" in shown("gqa", "--stage", "source", "--plan", "serve")[1]


@pytest.mark.parametrize(("words", "said"), [
    (("--stage", "typed"), "--plan serve is not for the stage typed"),
    (("--stage", "plan", "--grad"), "what serves has no gradient"),
    (("--stage", "plan", "--sizes", "pats=3"), "`pats` is no size of the spec"),
])
def test_what_cannot_be_shown_of_a_step(words: tuple[str, ...], said: str) -> None:
    code, text = shown("gqa", "--plan", "serve", *words)
    assert code == 1 and said in text


def test_a_plan_of_another_name_keeps_nothing() -> None:
    with pytest.raises(EincError, match="nothing is kept in a plan `serv`"):
        front.compile(SPEC.replace("serve", "serv").format("cache K, V"))


def test_a_pool_has_the_pages_that_the_text_says() -> None:
    made = front.compile(SPEC.format("cache K, V paged 3"), plan="serve")
    assert made.pool(5).page == 3 and made.pool(5, page=4).page == 4


HEAD = "index t, s : time(T)\ninput K_t, V_t\noutput y_t = Σ_{s ≤ t} K_s V_s\n"
ROUNDS = """index n : batch(B)
input x_n
r_n = x_n
for ℓ in 1..N:
    weight w
    r_n ← w r_n
output q_n = r_n
mask E_{t s} : s ≤ t
M_t = max_{s ≤ t} V_s
E_{t s} = exp(V_s - M_t)
output z_t = Σ_s e4m3(E_{t s}) V_s
"""


def problems(text: str) -> list[str]:
    report = Report()
    pipeline.check(Source("a.ein", text), report)
    return [render(p) for p in report.sorted()]


@pytest.mark.parametrize("name", ["serve", "call", "train", "long"])
@pytest.mark.parametrize("line", ["grid dp=8", "place h : dp", "tile 64 x", "- dtype", "fp8 per-tensor \\text{#} $$",
                                  "3"])
def test_a_line_that_no_row_reads_is_an_error_in_any_plan(name: str, line: str) -> None:
    """And the way out works: without the line the text is sound."""
    source, report = Source("a.ein", f"{HEAD}plan {name}:\n    {line}  # why\n"), Report()
    assert pipeline.check(source, report) is None
    (problem,) = report.problems
    assert problem.code == "E0119" and "is no word of a plan" in problem.message
    assert problem.span is not None and line.startswith(problem.span.text) and problem.span.text
    (way,) = problem.helps
    assert way.span is not None and way.span.text == line and not way.certain
    assert problems(apply(source, [way])) == []


def test_every_wrong_line_is_told_and_so_is_the_mathematics() -> None:
    text = f"{HEAD}z_t = q_t\nplan train: grid dp=8\n    place h\n"
    assert [re.match(r"error\[(.*)\]", said)[1] for said in problems(text)] == ["E0201", "E0119", "E0119"]  # type: ignore[index]


@pytest.mark.parametrize("word", ROWS)
def test_a_row_reads_its_own_example(word: str) -> None:
    """A row that is added is tried here: its example is read as its record, in a plan of its kind and in one of
    another name.
    """
    row = ROWS[word]
    examples = [x for x in re.findall(r"`(.*?)`", row.usage) if x.startswith(word)]
    assert row.files <= set(KINDS) and row.files and examples
    for name, example in product((*row.files, "another"), examples):
        text = f"{HEAD}{ROUNDS}plan beside:\n    shard t over p\nplan {name}:\n    {example}\n"  # for `keep`
        program = flow.check_spec(Source("a.ein", text), Report())
        assert program is not None
        (line,) = program.plans[-1].lines
        assert line.word == row.word and isinstance(line.record, row.record)


def test_the_way_out_of_a_word_that_is_almost_one_works() -> None:
    source, report = Source("a.ein", f"{HEAD}plan serv:\n    cach K, V\n"), Report()
    pipeline.check(source, report)
    once = Source("a.ein", apply(source, list(report.problems[0].helps)))
    again = Report()
    pipeline.check(once, again)
    assert [p.message for p in again.problems] == ["nothing is kept in a plan `serv`"]
    assert problems(apply(once, list(again.problems[0].helps))) == []


@pytest.mark.parametrize(("page", "said"), [("16777217", "from 1 to"), ("9" * 5000, "from 1 to"), ("0", "from 1 to")])
def test_a_page_has_a_sensible_size(page: str, said: str) -> None:
    (told,) = problems(f"{HEAD}plan serve:\n    cache K paged {page}\n")
    assert said in told


JOINED = (HEAD + "plan serve:\n    cache K\nplan long:\n    cache V paged 64\nplan short:\n    cache V paged 4\nplan "
                 "empty:\n")


def caches(plan: str) -> tuple[set[str], int]:
    made = front.compile(JOINED, plan=plan)
    return {t.key for t in made.plan.inputs if t.role == "cache"}, made.plan.generation.page


def test_chosen_blocks_are_joined() -> None:
    assert caches("serve,long") == caches("long, serve,empty") == ({"K_past", "V_past"}, 64)
    assert caches("serve,short")[1] == 4


@pytest.mark.parametrize(("plan", "said"), [
    ("serve,none", "those there are: `call`, `serve`, `long`, `short`, `empty`"),
    ("train", "there is no plan `train`"),
    ("serve,call", "`call` and `serve` contradict each other"),
    ("serve,long,short", "two lines say different things of what is kept"),
    ("long", "nothing is kept in a plan `call`"),
])
def test_what_cannot_be_joined(plan: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(EincError, match=re.escape(said)):
        front.compile(JOINED, plan=plan)
    file = tmp_path / "a.ein"
    file.write_text(JOINED, encoding="utf-8")
    for command in (["compile", str(file)], ["show", str(file), "--stage", "plan"]):
        done = CliRunner().invoke(main, [*command, "--plan", plan])
        assert done.exit_code == 1 and said in done.output and "Traceback" not in done.output


def test_contradicting_blocks_are_shown_together() -> None:
    with pytest.raises(EincError) as refused:
        front.compile(JOINED, plan="serve,long,short")
    (problem,) = refused.value.problems
    assert problem.code == "E0120" and problem.span is not None
    assert [problem.span.text, *(x.span.text for x in problem.labels)] == ["cache V paged 4", "cache V paged 64"]


def test_the_way_out_of_a_block_alone_works() -> None:
    with pytest.raises(EincError) as refused:
        front.compile(JOINED, plan="long")
    (names,) = re.findall(r"`(.*?)`", refused.value.problems[0].helps[0].text)
    assert caches(names) == caches("serve,long")


def test_lines_of_one_block_are_joined_and_may_not_contradict() -> None:
    assert problems(f"{HEAD}plan serve:\n    cache K paged 16\n    cache V paged 16\nplan serve: cache K\n") == []
    (told,) = problems(f"{HEAD}plan serve:\n    cache K paged 16\nplan serve:\n    cache V paged 32\n")
    assert "E0120" in told


def test_a_used_spec_asks_for_nothing(tmp_path: Path) -> None:
    """Its plans are of its own file."""
    (tmp_path / "base.ein").write_text(f"{HEAD}plan serve:\n    grid dp=8\n", encoding="utf-8")
    report = Report()
    program = pipeline.check(Source(str(tmp_path / "top.ein"), 'use "base"\n'), report)
    assert program is not None and program.plans == () and not report.problems


def test_a_section_of_a_paper_has_the_plans_of_its_side_file() -> None:
    side = Source("side.ein",
                  "index t, s : time(T)\ninput x_t\noutput y_t\nplan serve:\n    cache x paged 8\n    grid 1\n")
    paper, report = Source("a.md", "# A\n$$ y_t = \\sum_{s \\le t} x_s $$\n"), Report()
    assert pipeline.check(paper, report, side=side) is None
    assert [(p.code, p.span and p.span.text) for p in report.problems] == [("E0119", "grid")]
    sound = Source("side.ein", side.text.replace("    grid 1\n", ""))
    program = pipeline.check(paper, Report(), side=sound)
    assert program is not None and program.plans[0].asked(Cache).page == 8


def test_a_word_of_before_says_what_took_its_place() -> None:
    (told,) = problems(HEAD + "plan serve:\n    dtype bf16, accumulate fp32\n")
    assert "E0119" in told and "`products of`" in told and "cache … as" in told


@pytest.mark.parametrize(("one", "other", "both"), [
    (Cache(("K",)), Cache(("V", "K"), 16), Cache(("K", "V"), 16)), (Cache(page=8), Cache(page=16), None),
    (Cache(few=(("K", ("e4m3", 0)),)), Cache(few=(("K", ("e4m3", 64)),)), None),
    (Mesh((("p", 2), ("q", 0))), Mesh((("q", 4), ("p", 2))), Mesh((("p", 2), ("q", 4)))),
    (Mesh((("p", 2),)), Mesh((("p", 4),)), None), (Keep(("H",)), Keep(("H", "X")), Keep(("H", "X"))),
    (Shard((Cut("p", ("t",)),)), Shard((Cut("q", ("h",)),)), Shard((Cut("p", ("t",)), Cut("q", ("h",))))),
    (Shard((Cut("p", ("t",)),)), Shard((Cut("p", ("h",)),)), None),
    (Store((("K", "int8"),)), Store((("V", "e4m3"),)), Store((("K", "int8"), ("V", "e4m3")))),
    (Store((("K", "int8"),)), Store((("K", "e4m3"),)), None),
    (Products((("K", ("e4m3", "block", 4)),)), Products((("K", ("e4m3", "block", 8)),)), None),
    (Relative(("E",)), Relative(("F",)), Relative(("E", "F"))),
    (Recompute((("n", 1),)), Recompute((("n", 4),)), None),
])
def test_two_lines_of_one_kind_say_it_together_or_contradict_each_other(one: Record, other: Record,
                                                                        both: Record | None) -> None:
    assert joined(one, other) == both and joined(type(one)(), one) == one == joined(one, one)
