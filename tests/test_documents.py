"""Papers: what becomes of their equations, and whether the program of a section is that of the spec."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from einc.documents.coverage import Account, Entry
from einc.documents.sections import Paper
from einc.driver import pipeline
from einc.driver.cli import main
from einc.driver.reports.coverage import account
from einc.errors.report import Report, Source, render
from einc.ir.programs import TypedProgram
from einc.meaning.interpret import interpret

ROOT = Path(__file__).parent.parent
SEEDS = ROOT.parent / "shared" / "seeds"
SIDE = ROOT / "specs" / "paper.ein"
Arrays = dict[str, Any]

LAYER = r"""
# A layer

**Temporal indices $t, s$ are never summed.** Here $t,s\in\{1..T\}$, $f \in \{1..D\}$ and $e \in \{1..E\}$ (experts).

## The first

$$
y_t{}^{f} = W_{e}{}^{f} x_t{}^{e}, \quad z_t = \sum_{s \le t} y_s{}^f v_f.
$$

As $y_t{}^{f} = x_t{}^{e} W_{e}{}^{f}$ says, and not $y_t^f = 2 x_t^e W_e^f$, with $a_f := a^e \delta_{e f}$.

## The second

$$
z_t = 3 y_t{}^f v_f
$$

<!-- ein: skip a remark -->
$$
z_t \approx 3
$$
"""


@cache
def paper_of(name: str, side: Path | None = SIDE) -> Paper:
    path = SEEDS / name
    if not path.is_file():
        pytest.skip("the papers are not beside this repository")
    report = Report()
    found = pipeline.paper(pipeline.read_source(path, report), report, None if side is None
                           else pipeline.read_source(side, report))
    assert report.errors == []
    return found


def made(text: str, side: str = "", name: str = "paper.md") -> Account:
    report = Report()
    found = pipeline.paper(Source(name, text), report, Source("side.ein", side) if side else None)
    assert report.errors == [], "\n".join(map(render, report.errors))
    return account(found, kernels=False)


def entry(found: Account, text: str) -> Entry:
    (one,) = [e for e in found.entries if text in " ".join(e.span.text.split())]
    return one


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


# what becomes of an equation


def test_every_equation_has_a_status() -> None:
    found = made(LAYER)
    assert [(e.status, e.display) for e in found.entries] == [
        ("definition", False), ("definition", False), ("definition", False), ("compiled", True), ("compiled", True),
        ("restates", False), ("skipped", False), ("definition", False), ("compiled", True), ("skipped", True)]
    assert entry(found, "x_t{}^{e} W_{e}{}^{f}").restates == 4
    assert "`and not`" in entry(found, "2 x_t").reason  # the words beside it deny it
    assert entry(found, "a_f").reason == "no output needs it"
    assert entry(found, "z_t = 3").reason == "a variant of 5 for this section"
    assert entry(found, "approx").reason == "the author says so: a remark"


def test_the_words_of_the_paper_declare_its_indices() -> None:
    assert [e.reason for e in made(LAYER).entries[:3]] == ["index t, s : time(T)", "index f : feature(D)",
                                                           "index e : expert(E)"]


def test_a_section_has_its_own_variant_and_the_first_of_everything_else() -> None:
    report = Report()
    found = pipeline.paper(Source("paper.md", LAYER), report)
    x, w, v = np.arange(6.0).reshape(3, 2), np.ones((2, 2)), np.array([1.0, 2.0])
    y = x @ w @ v
    for title, want in (("The first", np.cumsum(y)), ("the sec", 3 * y)):
        program = pipeline.check(Source("paper.md", LAYER), Report(), section=title)
        assert program is not None
        assert program.name == {"The first": "the_first", "the sec": "the_second"}[title]
        assert np.allclose(interpret(program, {"x": x, "W": w, "v": v})["z"], want)
    assert [found.document.title(n) for n in found.sections] == ["The first", "The second"]


@pytest.mark.parametrize(("text", "side", "reason"), [
    (r"$$ \mathbf{Q} = \mathbf{X} \mathbf{W}_Q $$", "", "has no indices, and nothing says what it is"),
    (r"$$ y_t = \text{if it rains} x_t $$", "index t : time(T)", "has no indices"),
    (r"$$ y_t = \begin{bmatrix} 1 & 2 \end{bmatrix} $$", "index t : time(T)", "is a matrix that is written out"),
    (r"$$ f(t) = x_t $$", "index t : time(T)", "a function is defined here, which is no name of a tensor"),
    (r"$$ y_t = \sigma(x_t) $$", "index t : time(T)", "nothing declares or defines `\\sigma`"),
    (r"$$ x_t \le 3 $$", "index t : time(T)", "there is no equation in it"),
    (r"$$ y_t = x_t y_t $$", "index t : time(T)", "`y_{t}` depends on itself"),
    (r"$$ y_t = x_t, \\ y_t = 2 x_t $$", "index t : time(T)", "it is not equal to 1"),
    (r"$$ y_t = x_t $$", "index t : time(T)\ninput y_t", "says what it is"),
])
def test_what_is_left_out_has_a_reason(text: str, side: str, reason: str) -> None:
    found = made(f"# A section\n\n{text}\n", side)
    last = found.entries[-1]
    assert last.status == "skipped"
    assert reason in last.reason
    assert last.problems


# Each of these was once read as something that its author did not say.
WRONG = "# A\n\nLet $t,s\\in\\{1..T\\}$ (time), $d\\in\\{1..D\\}$.\n\n"


@pytest.mark.parametrize(("text", "statuses"), [
    (r"## B" "\n\n" r"$$ L_{t s} = q_t k_s $$ $$ Y_t = \sum_{s \le t} L_{t s} $$" "\n\n## C\n\n"
     r"$$ L_{t s} = q_t k_s + \mystery{t} $$ $$ Y_t = \sum_{s \le t} L_{t s} $$",
     ["compiled", "compiled", "skipped", "skipped"]),
    (r"$$ k_s = \foo x_s $$ $$ Y_t = \sum_{s \le t} k_s x_s $$", ["skipped", "skipped"]),
    (r"$$ a_t = 2 x_t \quad b_t = 3 x_t $$", ["compiled", "compiled"]),
    (r"$$ K_{s d} = X_s{}^e W_{e d} $$", ["skipped"]),
    (r"$$ F_t = x_t + \tanh^{x_t} $$", ["skipped"]),
    (r"$$ F_t = x_t + \exp^{2}_t x_t $$", ["skipped"]),
    (r"$$ a_t = b_t $$ $$ b_t = a_t $$", ["skipped", "skipped"]),
    (r"## B" "\n\n" r"$$ B_{t s} = q_t{}^d k_{s d}, \quad s \le t $$ $$ Y_t = \sum_s B_{t s} $$" "\n\n## C\n\n"
     r"Here $B_{t s} = 9 v_s, s > t$.", ["compiled", "compiled", "skipped"]),
], ids=["an unread variant", "an unread name", "a wide space", "an undeclared letter", "a function with a script",
        "a function with two", "a circle",
        "another domain"])
def test_nothing_is_read_as_something_else(text: str, statuses: list[str]) -> None:
    assert [e.status for e in made(WRONG + text + "\n").entries][2:] == statuses


def test_a_condition_is_no_equation() -> None:
    found = made(WRONG + r"$$ m_t = 0, \quad t = 1 $$" + "\n")
    assert len(found.entries) == 3
    assert "," in found.entries[-1].span.text


def test_a_section_with_a_display_that_cannot_be_read_is_refused() -> None:
    report = Report()
    text = WRONG + r"$$ y_t = x_t + \mystery{t} $$ $$ z_t = x_t $$" + "\n"
    assert pipeline.check(Source("paper.md", text), report, section="A") is None
    assert [p.code for p in report.errors] == ["E0109"]


def test_what_a_side_file_says_comes_first() -> None:
    found = made("# A\n\n$$ y_t = x_t $$\n\n$$ z_t = y_t $$\n", "index t : time(T)\ny_t = 5 x_t\n")
    assert [e.status for e in found.entries] == ["skipped", "compiled"]
    assert found.entries[0].reason == "side.ein:2 says what it is: `y_t = 5 x_t`"


def test_elements_that_are_listed_are_a_range() -> None:
    found = made("# A\n\nFor $j = 0, 1, \\dots, N - 1$\n\n$$ y_t = x_t $$\n", "index t : time(T)")
    assert [(e.status, e.reason) for e in found.entries] == [("definition", "a range"), ("compiled", "")]


def test_a_chain_of_equals_signs_is_a_definition_and_a_restatement() -> None:
    found = made("# A\n\n$$ y_t &= x_t (x_t + 1) \\\\ &= x_t + (x_t)^2 $$\n", "index t : time(T)")
    assert [e.status for e in found.entries] == ["compiled", "restates"]


def test_an_annotation_below_a_brace_is_for_readers() -> None:
    text = r"y_t = \underbrace{2 x_t}_{\text{twice}} + \overbrace{w_t}^{1} \quad \text{and} \quad z_t = y_t"
    found = made(f"# A\n\n$$ {text} $$\n", "index t : time(T)")
    assert [e.status for e in found.entries] == ["compiled", "compiled"]


def test_an_equation_that_fails_does_not_take_others_with_it() -> None:
    found = made("# A\n\n$$ y_t = x_t $$ $$ z_q = x_t $$ $$ u_t = 2 y_t $$\n", "index t : time(T)")
    assert [e.status for e in found.entries] == ["compiled", "skipped", "compiled"]


def test_a_damaged_file_is_told() -> None:
    found = made("# A\n\nâ€¢ ðŸ“– first\n\n$$ y_t = x_t $$\n", "index t : time(T)")
    assert [p.code for p in found.document.problems] == ["W0801"]
    assert [e.status for e in found.entries] == ["compiled"]


def test_a_range_that_its_declaration_contradicts() -> None:
    found = made("# A\n\nFor $t \\in \\{1..N\\}$\n\n$$ y_t = x_t $$\n", "index t : time(T)")
    assert [p.code for p in found.problems] == ["E0802"]
    assert made("# A\n\nFor $v \\in \\{1..V\\}$\n\n$$ y_v = x_v $$\n", "index v : vocab(0..V-1)").problems == ()


# the paper


@cache
def accounted(name: str, side: Path | None = SIDE) -> Account:
    """What becomes of the equations of a paper; the tests share it."""
    return account(paper_of(name, side), kernels=False)


def test_where_rounds_begin_is_no_fact() -> None:
    found = accounted("einstein-transformer.md")
    assert [entry(found, text).status for text in (r"m=-\infty", "z=0")] == ["compiled"] * 2


def test_every_display_of_the_paper_is_compiled() -> None:
    found = accounted("einstein-transformer.md")
    displays = [e for e in found.entries if e.display]
    assert len(displays) == 32
    assert [e for e in displays if e.status != "compiled"] == []
    assert found.problems == ()
    assert {e.span.text: e.restates for e in found.entries if e.status == "restates"} == {
        r"\widehat K_{s h}{}^{k}=K_{s h}{}^{d}R_{s}{}_{d}{}^{k}": 22,
        r"Y_{t h}{}^{d}=z_{t h}{}^{\rho} Q_{h \rho}{}^{d}": 51 - 26,
        r"\widehat Q_{t h}{}^{k}=Q_{t h}{}^{d} R_{t}{}_{d}{}^{k}": 21, r"A_t{}^{f}=Y_{t h}{}^{d} W_{O h d}{}^{f}": 26}
    assert all(e.reason for e in found.entries if e.status == "skipped")


def test_the_side_file_is_short() -> None:
    assert len(SIDE.read_text(encoding="utf-8").splitlines()) <= 40


@pytest.mark.whole
def test_the_damaged_copy_does_as_well() -> None:
    whole, damaged = (accounted(f"einstein-transformer{x}.md") for x in ("", ".mojibake"))
    assert [(e.status, e.restates) for e in damaged.entries] == [(e.status, e.restates) for e in whole.entries]
    assert [p.code for p in damaged.document.problems] == ["W0801"]


def test_the_text_of_the_pdf_does_as_well_as_its_equations_allow() -> None:
    found = accounted("einstein-transformer.pdf.txt")
    displays = [e for e in found.entries if e.display]
    assert sum(e.status == "compiled" for e in displays) >= 15
    assert all(e.reason for e in displays if e.status == "skipped")


# its programs against the specs


def program_of(section: str) -> TypedProgram:
    path = SEEDS / "einstein-transformer.md"
    if not path.is_file():
        pytest.skip("the papers are not beside this repository")
    report = Report()
    found = pipeline.check(pipeline.read_source(path, report), report, section=section,
                           side=pipeline.read_source(SIDE, report))
    assert found is not None, "\n".join(map(render, report.problems))
    return found


def spec(name: str) -> TypedProgram:
    report = Report()
    found = pipeline.check(pipeline.read_source(name, report), report)
    assert found is not None
    return found


T, H, D, F, G, R, U, N, V = 5, 4, 6, 3, 2, 2, 7, 3, 8
RNG = np.random.default_rng(11)


def random(*shape: int) -> Any:
    return RNG.normal(size=shape)


def rotations(steps: int) -> Any:
    """R_t over pairs side by side, as `rope` has it."""
    out = np.zeros((steps, D, D))
    for t in range(steps):
        for i in range(D // 2):
            angle = t * 10_000.0 ** (-2 * i / D)
            c, s = np.cos(angle), np.sin(angle)
            out[t, 2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[c, s], [-s, c]]
    return out


def heads(name: str = "X") -> Arrays:
    return {name: random(T, F), "W_Q": random(H, F, D), "W_K": random(H, F, D), "W_V": random(H, F, D),
            "W_O": random(H, D, F)}


def given_to(program: TypedProgram, arrays: Arrays) -> Arrays:
    return {t.key: arrays[t.key] for t in program.inputs()}


def outcome(program: TypedProgram, arrays: Arrays, **sizes: int) -> Any:
    (found,) = interpret(program, given_to(program, arrays), sizes).values()
    return found


def test_its_attention_is_that_of_the_spec() -> None:
    arrays = heads()
    given = arrays | {"H_tilde": arrays["X"], "R": rotations(T)}
    assert np.allclose(outcome(program_of("Multi-Head Self-Attention"), given), outcome(spec("attention"), arrays),
                       atol=1e-10)


def test_its_bias_is_that_of_the_spec() -> None:
    arrays = heads()
    slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
    assert np.allclose(outcome(program_of("ALiBi (score bias)"), arrays | {"H_tilde": arrays["X"], "m": slopes}),
                       outcome(spec("alibi"), arrays), atol=1e-10)


def test_its_requests_are_those_of_the_spec() -> None:
    arrays = {name: random(R, T, H, D) for name in "QKV"}
    assert np.allclose(outcome(program_of("Continuous batching"), arrays), outcome(spec("requests"), arrays),
                       atol=1e-10)


def test_its_groups_are_those_of_the_spec() -> None:
    """The paper's section takes K and V of the groups, and has no rotation: the spec's is left out."""
    arrays = heads() | {"W_K": random(G, F, D), "W_V": random(G, F, D)}
    x = arrays["X"]
    given = arrays | {name: np.einsum("sf,gfd->sgd", x, arrays[f"W_{name}"]) for name in "KV"} | {"H_tilde": x}
    assert np.allclose(outcome(program_of("Grouped-Query Attention (GQA)"), given),
                       outcome(spec('use "gqa"\noverride θ_i = 0 * i\n'), arrays), atol=1e-10)


def test_its_latents_are_those_of_the_spec() -> None:
    arrays = {"H_tilde": random(T, F), "W_Q": random(H, F, D), "W_O": random(H, D, F), "U": random(F, R),
              "P": random(H, R, D),
              "Q": random(H, R, D)}
    assert np.allclose(outcome(program_of("Multi-Head Latent"), arrays), outcome(spec("mla"), arrays), atol=1e-10)


def test_its_loss_is_that_of_the_spec() -> None:
    """Its ℒ is that of one position: the spec's is, with one head, the mean over those that have a next token."""
    arrays = {"H_final": random(T, F), "w": RNG.integers(0, V, size=T), "W_O": random(1, F, V)}
    each = outcome(program_of("Multi-Token"), arrays)
    assert np.allclose(each[: T - 1].mean(), outcome(spec("mtp"), arrays), atol=1e-10)
    assert each[T - 1] == 0


def test_its_cross_attention_is_that_of_the_spec() -> None:
    arrays = {"H_tilde": random(T, F), "E": random(U, F),
              **{f"W_{x}_x": random(H, F, D) for x in "QKV"}, "W_O_x": random(H, D, F)}
    given = arrays | {"R": rotations(T), "R2": rotations(U)}
    merged = np.einsum("thd,hdf->tf", outcome(program_of("Appendix"), given), arrays["W_O_x"])
    assert np.allclose(merged, outcome(spec("cross_attention_rope"), arrays), atol=1e-10)


def test_its_recurrence_is_proved_to_be_what_is_derived() -> None:
    found = account(paper_of("einstein-transformer.md"))
    (flash,) = [m for m in found.made if m.name.startswith("flashattention")]
    assert any("proved" in x for x in flash.recurrences)
    assert "torch.matmul" in flash.kernel


# the command line


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paper, side = tmp_path / "paper.md", tmp_path / "side.ein"
    paper.write_text(LAYER, encoding="utf-8")
    side.write_text("dim W\n", encoding="utf-8")
    return paper, side


def test_doc_as_data_and_as_a_page(files: tuple[Path, Path], tmp_path: Path) -> None:
    paper, side = files
    found = json.loads(run("doc", str(paper), "--with", str(side), "--format", "json").stdout)
    assert {"line", "section", "display", "source", "status", "reason"} <= found["equations"][0].keys()
    assert [e["status"] for e in found["equations"]].count("compiled") == 3
    assert run("doc", str(paper), "-o", str(tmp_path / "out.html")).exit_code == 0
    assert "<math" in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("args", "said"), [
    (("compile", "--section", "nothing"), "there is no section `nothing`"),
    (("compile",), "2 sections with equations"),
    (("compile", "--section", "The"), "begins the title of 2 sections"),
    (("check", "--with", "no_such.ein"), "cannot read"),
    (("run", "--section", "The first", "--sizes", "T=3,D=2,E=2", "--verify"), ""),
    (("check", "--section", "The first"), ""),
    (("check",), ""),
    (("derive", "--section", "The first"), ""),
])
def test_commands_read_a_section(files: tuple[Path, Path], args: tuple[str, ...], said: str) -> None:
    result = run(args[0], str(files[0]), *args[1:])
    assert result.exit_code == (1 if said else 0), result.output
    assert said in result.output


@pytest.mark.parametrize("command", ["doc", "check", "compile"])
@pytest.mark.parametrize("option", ["--section", "--equation", "--with"])
def test_an_option_with_nothing_behind_it_is_no_default(files: tuple[Path, Path], command: str, option: str) -> None:
    """A variable of a shell that is empty chose all of the paper."""
    result = run(command, str(files[0]), option, "")
    assert result.exit_code == 1 and f"error: {option} is given nothing" in result.output


@pytest.mark.parametrize("option", ["--section", "--equation", "--with"])
def test_an_option_of_papers_is_not_passed_over_for_a_spec(option: str) -> None:
    result = run("check", "sdpa", option, "The first")
    assert result.exit_code == 1 and f"error: {option} is of a paper, and sdpa is none" in result.output


def test_an_empty_paper_has_no_equation_and_no_status(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("", encoding="utf-8")
    assert run("check", str(tmp_path / "empty.md")).stdout == f"ok: {tmp_path / 'empty.md'}, 0 equations\n"


def test_doc_refuses_a_spec(tmp_path: Path) -> None:
    assert "is no document" in run("doc", "attention").output


def test_compile_writes_the_module_of_a_section(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("compile", str(files[0]), "--section", "The first", "-o", str(tmp_path / "first.py")).exit_code == 0
    assert "def the_first(" in (tmp_path / "first.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("args", [("prove",), ("tex",), ("fmt",), ("show", "--stage", "syntax")])
def test_what_is_for_specs_refuses_a_paper(files: tuple[Path, Path], args: tuple[str, ...]) -> None:
    result = run(args[0], str(files[0]), *args[1:])
    assert result.exit_code == 1
    assert "is a paper, and this is for specs" in result.output


def test_doc_tells_of_one_section(files: tuple[Path, Path]) -> None:
    found = json.loads(run("doc", str(files[0]), "--section", "The second", "--format", "json").stdout)
    assert {e["section"] for e in found["equations"]} == {"The second"}
    assert "there is no section" in run("doc", str(files[0]), "--section", "none").output
    assert "is a paper" in run("doc", str(files[0]), "--with", str(files[0])).output


# formulas without an end

AROUND = ("# A layer\n\nFor $t \\in \\{{1..T\\}}$ (time) it is\n\n$$ y_t = 2 x_t $$\n\n{}\n\n"
          "and then $z_t = 3 x_t$ and\n\n$$ w_t = 4 y_t $$\n")
ENDLESS = {
    "an align with an empty line": ("\\begin{align}\na_t &= x_t \\\\\n\nb_t &= 2 x_t\n\\end{align}", "p.md"),
    "an align with an empty line, in TeX": ("\\begin{align}\na_t &= x_t \\\\\n\nb_t &= 2 x_t\n\\end{align}", "p.tex"),
    "an align that has no end": ("\\begin{align}\na_t &= x_t", "p.md"),
    "dollars that have no end": ("$$\na_t = x_t", "p.md"),
    "brackets that have no end": ("\\[ a_t = x_t", "p.tex"),
    "in plain text": ("\\begin{equation} a_t = x_t", "p.txt"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_formula_without_an_end_is_skipped_and_the_rest_read(name: str, tmp_path: Path) -> None:
    formula, file = ENDLESS[name]
    path = tmp_path / file
    path.write_text(AROUND.format(formula), encoding="utf-8")
    done = CliRunner().invoke(main, ["doc", str(path), "--format", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["equations"]
    assert [x["status"] for x in found if x["display"]] == ["compiled", "skipped", "compiled"]
    (endless,) = (x for x in found if x["status"] == "skipped")
    assert "is not closed" in endless["reason"]
    assert CliRunner().invoke(main, ["doc", str(path), "--strict"]).exit_code == 1
    page = tmp_path / "p.html"
    assert CliRunner().invoke(main, ["doc", str(path), "-o", str(page)]).exit_code == 0
    assert "is not closed" in page.read_text(encoding="utf-8")


def test_formulas_that_are_cut_anywhere_leave_an_account(tmp_path: Path) -> None:
    """The end or the beginning of some formula of a document taken away, wherever: every other display has an entry."""
    whole = AROUND.format("\\begin{align}\na_t &= x_t \\\\\nb_t &= 2 x_t\n\\end{align}")
    draw = Random(7)
    marks = [m.start() for m in re.finditer(r"\\end\{align\}|\$\$\n|\\begin\{align\}", whole)]
    for _ in range(12):
        at = draw.choice(marks)
        mark = re.match(r"\\(?:end|begin)\{align\}|\$\$", whole[at:])
        assert mark is not None
        path = tmp_path / draw.choice(["p.md", "p.tex", "p.txt"])
        path.write_text(whole[:at] + whole[at + len(mark[0]) :], encoding="utf-8")
        done = CliRunner().invoke(main, ["doc", str(path), "--format", "json"])
        assert done.exit_code == 0, (whole[:at], done.output)
        assert len([x for x in json.loads(done.stdout)["equations"] if x["display"]]) >= 2
