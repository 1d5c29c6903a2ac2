"""Printing: what is printed means the same and is printed as itself, in every spelling;
comments, lines and blocks stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner
from helpers import examples
from hypothesis import strategies as st
from programs import SPECS as FOLDER
from programs import TEXTS
from random_programs import cascades, contractions
from test_seed import BLOCKS, SPECS

from einc.driver import pipeline
from einc.driver.cli import main
from einc.errors.report import Report, Source, Span, render
from einc.syntax.printing.layout import alike, printed
from einc.syntax.printing.show import show
from einc.syntax.printing.writer import Spelling
from einc.syntax.spelling import ACCENTS, LATIN, UPRIGHT, WRITTEN
from einc.syntax.tokens import words

SPELLINGS: tuple[Spelling, ...] = ("latex", "unicode", "ascii")
# What stands beside a paper means nothing alone.
CORPUS = {f"specs/{x.relative_to(FOLDER).as_posix()}": text for x in sorted(FOLDER.rglob("*.ein"))
          if "\nsection " not in (text := x.read_text(encoding="utf-8"))}
CORPUS |= {name: dedent(text) for name, (text, _, _) in TEXTS.items()} | SPECS | {"blocks": BLOCKS["blocks"]}


def written(source: Source, spelling: Spelling) -> str:
    """The printed text of a source that can be read."""
    report = Report()
    tree = pipeline.syntax(source, report)
    assert not report.problems, "\n".join(map(render, report.problems))
    return printed(tree, spelling, pipeline.known(pipeline.used(tree)))


def meant(source: Source) -> str:
    report = Report()
    program = pipeline.check(source, report, proved=False)
    assert program is not None, source.text + "\n".join(map(render, report.errors))
    return show(program)


def assert_kept(source: Source) -> None:
    """In every spelling, the text means the same and is printed as itself."""
    want = meant(source)
    for spelling in SPELLINGS:
        again = Source(source.name, written(source, spelling))
        assert meant(again) == want, again.text
        assert written(again, spelling) == again.text
        code = [line.split("#")[0] for line in again.text.splitlines()]
        assert spelling == "unicode" or all(line.isascii() for line in code), again.text


def fmt(text: str, spelling: Spelling = "unicode") -> str:
    return written(Source("<text>", dedent(text)), spelling)


# what is printed


@pytest.mark.drawn(25)
@pytest.mark.parametrize("name", CORPUS)
def test_a_printed_spec_is_the_same_program(name: str) -> None:
    assert_kept(Source(name if name.startswith("specs/") else f"<{name}>", CORPUS[name]))


@pytest.mark.parametrize("name", ["specs/attention.ein", "specs/yarn_parts.ein", "layer", "blocks", "cross", "latent"])
def test_spellings_lead_to_each_other(name: str) -> None:
    """From LaTeX to ASCII to Unicode: the detour leaves the program as it is."""
    source = Source(name if name.startswith("specs/") else f"<{name}>", CORPUS[name])
    want, text = meant(source), CORPUS[name]
    for spelling in (*SPELLINGS, *reversed(SPELLINGS)):
        text = written(Source(source.name, text), spelling)
    assert meant(Source(source.name, text)) == want


@examples(5, 15, case=st.one_of(cascades(), contractions()))
def test_a_printed_random_program_is_the_same(case: Any) -> None:
    assert_kept(Source("<text>", case.text))


HEADER = r"""index t, s, s' : time(T)
index d : feature(D)
index ρ : latent(R)
input x_t, a_t, c, b, \widehat q_t^d, k_{t d}, w_\rho, u^ρ, \mathcal L_t, H''_t, W^{\text{up}}_{\text{no} t}, g_model_t, doc_t
def σ(x) = x / (1 + abs(x))
def ramp_up(x) = max(x, 0)
y_t = """.replace("s, s'", "s")
ATOMS = ("x_t", "a_t", "c", "2", "0.5", "doc_t", r"\widehat{q}_t{}^{d} k_{t d}", "q_hat_t^d k_{td}",
         r"w_{\rho} u^{rho}", "ℒ_t",
         "H''_t", r"W^{up}_{\text{no} t}", r"g_{\text{model} t}", "x_t^2", "e^{-x_t}", "(t - 1)", "x_{min(t + 1, T)}")
FORMS = (
    r"\frac{{{a}}}{{{b}}}", r"{a} \frac{{{b}}}{{{c}}} \cdot {a}", r"\frac{{{a}}}{{2}} {b}", "{a} / ({b} {c})",
    "{a} {b} / ({c})",
    "1/√c {a} {b}", r"\sqrt{{{a}}} {b}", "sqrt(abs({a}))^2 {b}", "√(abs({a}))", r"\left({a}\right)^{{{b}}}",
    "({a} + {b})",
    "({a} - {b} + {c})", "(-{a} * {b})", r"\exp({a}) / {b}", "σ({a}) · {b}", r"\text{{ramp_up}}({a}) {b}",
    "ramp_up({a}) / {b}",
    "1[s ≤ {b}] {a}", r"\mathbb{{1}}[t \ge 2 \land {a} \neq 1] {b}", r"\frac{{{a}}}{{{b}}} \frac{{{c}}}{{{a}}}",
    "({a}) / 2 / ({b})",
    r"2^{{\frac{{{a}}}{{{b}}}}}", "{a} Σ_{{s<=t, not (s = 2)}} x_s / ({b})",
    r"\sum_{{s\in(t-2, t]}}\frac{{a_s}}{{c}} ({b})",
    r"(\max_{{s' \le t}} (x_{{s'}} + {a})) {b}", r"{a} \cdot 3 {b}", "{a} (1/2) {b}", r"\frac{{1}}{{2}} {a} / ({b})",
    "[{a}] [{b}]",
    r"\operatorname{{softmax}}_{{s \le t}}(x_s) Σ_{{s, s ≤ t}} a_s {b}", "{a} ({b}) / {c}",
)


@st.composite
def formulas(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """A value at t in mixed spellings."""
    def value(depth: int) -> str:
        if not depth:
            return str(draw(st.sampled_from(ATOMS)))
        form = draw(st.sampled_from([x for x in FORMS if "x_s" not in x or depth == 1]))
        return str(form).format(**{name: value(draw(st.integers(0, depth - 1))) for name in "abc"})

    return value(draw(st.integers(1, 3)))


@examples(12, 35, formula=formulas())
def test_a_printed_formula_is_the_same(formula: str) -> None:
    source = Source("<text>", HEADER + formula)
    if pipeline.check(source, Report(), proved=False) is not None:
        assert_kept(source)
    else:
        for spelling in SPELLINGS:
            again = Source("<text>", written(source, spelling))
            assert written(again, spelling) == again.text
            assert pipeline.check(again, Report(), proved=False) is None, "what has two readings must keep them"


BITS = (r"\frac", r"\sqrt", "{", "}", "(", ")", "_", "^", "Σ", "'", "$$", r"\\", "\n", "#c\n", "for t:\n  ", "with ",
        " as x", ",",
        "/", "*", "+", "-", "=", ":", "∈", "..", "…", "√", r"\text{a b}", "𝟙[", "]", " K̂ ", "ℒ", "t", "θ", "1",
        "e^{x}", "not ",
        "mask ", '"q"', r"\left", r"\widehat", "d_k", "_hat", "\nplan a:\n  x\n")


@examples(35, 100, data=st.data())
def test_what_can_be_read_is_printed_as_itself(data: Any) -> None:
    """Also where it means nothing: some lines of a spec with a few things put in."""
    lines = CORPUS[data.draw(st.sampled_from(sorted(CORPUS)))].splitlines()
    first = data.draw(st.integers(0, len(lines) - 1))
    text = "\n".join(lines[first : first + data.draw(st.integers(1, 5))])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(BITS)) + text[at + data.draw(st.integers(0, 2)) :]
    report = Report()
    tree = pipeline.syntax(Source("<text>", text), report)
    for spelling in SPELLINGS if not report.problems else ():
        out = printed(tree, spelling, pipeline.known([tree]))
        again = pipeline.syntax(Source("<text>", out or "# nothing"), report)
        assert not report.problems, (text, out)
        assert printed(again, spelling, pipeline.known([again])) == (out or "# nothing\n")


@pytest.mark.parametrize("word", WRITTEN)
def test_what_is_written_for_a_word_is_read_as_it(word: str) -> None:
    """Each spelling in the table is one and the same token."""
    found = {tuple((w.type, w.value) for w in words(Source("", text), Report())) for text in WRITTEN[word]}
    assert len(found) == 1
    assert all(text.isascii() for text in (WRITTEN[word][0], WRITTEN[word][2]))


def test_every_letter_has_a_macro_and_every_accent_a_mark() -> None:
    assert all(fmt(f"{letter}_t = 1", "latex") == f"\\{name}_t = 1\n" for letter, name in LATIN.items())
    assert all(fmt(f"{letter}_t = 1", "ascii") == f"{name}_t = 1\n" for letter, name in LATIN.items())
    for accent, (macro, mark) in ACCENTS.items():
        assert fmt(f"{macro} K_t = 1", "latex") == f"{macro}{{K}}_t = 1\n"
        assert not mark or fmt(f"K_{accent}_t = 1") == f"K{mark}_t = 1\n"
    assert all(fmt(f"y = {name}(x)", "latex") == f"y = \\{name}(x)\n" for name in UPRIGHT)


# how it looks


@pytest.mark.parametrize(("text", "latex", "unicode", "ascii_"), [
    (r"L_{ts}^{(h)}=\tfrac1{\sqrt{d_k}}Q_{th}{}^d K_{shd}",
     r"L_{t s}^{(h)} = \frac{1}{\sqrt{d_k}} Q_{t h}{}^{d} K_{s h d}",
     "L_{t s}^{(h)} = 1/√d_k Q_{t h}^d K_{s h d}", "L_{t s}^{(h)} = 1/sqrt(d_k) Q_{t h}^d K_{s h d}"),
    ("y_t := sum_{s<=t} softmax_{s<=t}(x_s) z_s", r"y_t := \sum_{s \le t} \operatorname{softmax}_{s \le t}(x_s) z_s",
     "y_t ≔ Σ_{s ≤ t} softmax_{s ≤ t}(x_s) z_s", "y_t := sum_{s <= t} softmax_{s <= t}(x_s) z_s"),
    ("H''_tilde_t^f = x''_t^f with x''_t^f := 1",
     r"\widetilde{H}''_t{}^{f} = x''_t{}^{f} \text{with } x''_t{}^{f} := 1",
     "H̃''_t^f = x''_t^f with x''_t^f ≔ 1", "H''_tilde_t^f = x''_t^f with x''_t^f := 1"),
    (r"y=𝟙[t∈(s-W,t]∧¬(t=s)](d_{\text{model}}-∞)",
     r"y = \mathbb{1}[t \in (s - W, t] \land \neg (t = s)] (d_{\text{model}} - \infty)",
     "y = 𝟙[t ∈ (s - W, t] and not (t = s)] (d_model - ∞)", "y = 1[t in (s - W, t] and not (t = s)] (d_model - inf)"),
    ("z <- e^{m-m'} z", r"z \leftarrow e^{m - m'} z", "z ← e^{m - m'} z", "z <- e^{m - m'} z"),
    ("for B ⊆ {s≤t}:\n  z = 1", "for B \\subseteq \\{s \\le t\\}:\n    z = 1", "for B ⊆ {s ≤ t}:\n    z = 1",
     "for B \\subseteq {s <= t}:\n    z = 1"),
    ("index e : feature=c(+)ρ", r"index e : feature = c \oplus \rho", "index e : feature = c ⊕ ρ",
     "index e : feature = c (+) rho"),
    ("index v:vocab(0..V-1)", "index v : vocab(0..V-1)", "index v : vocab(0..V-1)", "index v : vocab(0..V-1)"),
    (r"O^{(j)}_{t}{}^{v} = \text{CE}\big(a, b\big)", r"O^{(j)}_t{}^{v} = \operatorname{CE}(a, b)",
     "O^{(j)}_t^v = CE(a, b)",
     "O^{(j)}_t^v = CE(a, b)"),
    ("y = a/b * c", r"y = \frac{a}{b} \cdot c", "y = a / b · c", "y = a / b * c"),
    (r"y = \frac{a}{b} c", r"y = \frac{a}{b} c", "y = a / b · c", "y = a / b * c"),
    ("y = a/b c", "y = a / b c", "y = a / b c", "y = a / b c"),
    (r"y = t \sqrt{a}^2", r"y = t \sqrt{a}^{2}", "y = t · (√a)^2", "y = t * (sqrt(a))^2"),
    (r"y = t \frac{a+b}{2}", r"y = t \frac{a + b}{2}", "y = t · (a + b) / 2", "y = t * (a + b) / 2"),
    ("y = Q_t^d K_{s d}/√d_k", r"y = Q_t{}^{d} K_{s d} / \sqrt{d_k}", "y = Q_t^d K_{s d} / √d_k",
     "y = Q_t^d K_{s d} / sqrt(d_k)"),
    ("map π(h)=ceil(h G/H):g", r"map \pi(h) = \operatorname{ceil}\left(\frac{h G}{H}\right) : g",
     "map π(h) = ceil(h G / H) : g",
     "map pi(h) = ceil(h G / H) : g"),
    ("claim a=b assuming c=1 for all t,s", "claim a = b assuming c = 1 for all t, s",
     "claim a = b assuming c = 1 for all t, s",
     "claim a = b assuming c = 1 for all t, s"),
    ('A_t^f="gpt2_block"(H=H_t^f,N=1)', 'A_t{}^{f} = "gpt2_block"(H = H_t{}^{f}, N = 1)',
     'A_t^f = "gpt2_block"(H = H_t^f, N = 1)',
     'A_t^f = "gpt2_block"(H = H_t^f, N = 1)'),
])
def test_how_a_line_looks(text: str, latex: str, unicode: str, ascii_: str) -> None:
    indices = "index t, s : time(T)\nindex h : head(H)\nindex d : feature(d_k)\n"
    for spelling, want in zip(SPELLINGS, (latex, unicode, ascii_), strict=True):
        out = fmt(indices + text, spelling)
        assert out.split("\n", 3)[3] == want + "\n"
        assert fmt(out, spelling) == out


def test_a_greek_letter_is_not_spelled_where_it_could_be_read_as_letters() -> None:
    text = "index p, i : feature(D)\nindex π : feature(E)\ninput x_π, z_{p i}\ny = x_π z_{pi}\n"
    assert fmt(text, "ascii").splitlines()[2:] == [r"input x_{\pi}, z_{p i}", r"y = x_{\pi} z_{pi}"]


LAID = r"""
    # What it is.


    index t,s : time(T)   # positions
    input x_t,m_t
    plan serve:
        dtype bf16,   accumulate fp32   # kept
    for t:
        z = 1
        # The end of the block.

    # Above a display.
    $$
    a_t = x_t
       + m_t, \\  # one
    b_t = a_t, c_t = b_t,
    d_t = c_t.
    $$
    output y_t = (a_t +   # inside
        d_t) \\ output w_t = b_t # last
    # The end.
"""
LAID_OUT = r"""
    # What it is.

    index t, s : time(T)  # positions
    input x_t, m_t
    plan serve:
        dtype bf16, accumulate fp32  # kept
    for t:
        z = 1
        # The end of the block.

    # Above a display.
    $$
    a_t = x_t
        + m_t \\  # one
    b_t = a_t, c_t = b_t,
    d_t = c_t
    $$
    # inside
    output y_t = (a_t
        + d_t)
    output w_t = b_t  # last
    # The end.
"""


def test_a_plan_block_stands_as_deep_as_its_lines() -> None:
    text = "for t:\n   plan a:\n       x  y\n   z = 1\nplan b:\n  u\n"
    assert fmt(text) == "for t:\n    plan a:\n        x y\n    z = 1\nplan b:\n    u\n"


def test_comments_blank_lines_and_broken_lines_stay() -> None:
    assert fmt(LAID) == dedent(LAID_OUT)[1:]
    assert fmt(LAID_OUT) == dedent(LAID_OUT)[1:]


@pytest.mark.parametrize(("one", "other", "same"), [
    (r"\widehat K_t{}^d = \frac{1}{\sqrt{d_k}} x_t", "K_hat_t^d = 1/√d_k x_t", True), ("y_t = x_t", "y_t=  x_t", True),
    ("y_t = x_t", "y_s = x_s", False), ("y_t = x_t z_t", "y_t = z_t x_t", False),
    (r"y = \text{relu}(x)", "y = relu (x)", True),
])
def test_when_two_lines_are_one(one: str, other: str, same: bool) -> None:
    assert alike(Span(Source("", one), 0, len(one)), Span(Source("", other), 0, len(other))) == same


# the command

DONE = "index t : time(T)\ninput x_t\noutput y_t = √(x_t + 1)\n"
ROUGH = "index t:time(T)\ninput x_t\noutput y_t=sqrt(x_t+1)\n"


def run(*args: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["fmt", *args])
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def test_the_command_prints_checks_and_rewrites(tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text(ROUGH, encoding="utf-8")
    assert run(str(file)) == DONE
    assert "is not written in unicode" in run(str(file), "--check", status=1)
    assert "+output y_t = √(x_t + 1)" in run(str(file), "--diff")
    assert file.read_text(encoding="utf-8") == ROUGH
    assert run(str(file), "-o", str(tmp_path / "b.ein")) == ""
    assert (tmp_path / "b.ein").read_text(encoding="utf-8") == DONE
    run(str(file), "-w")
    assert file.read_text(encoding="utf-8") == DONE
    assert run(str(file), "--check") == run(str(file), "--diff") == ""
    assert "exclude each other" in run(str(file), "-w", "--check", status=1)
    assert "is no file" in run("attention", "-w", status=1)
    assert "sum_s A_{t s}^{(h)}" in run("attention", "--spelling", "ascii")


def test_a_rewritten_file_keeps_its_line_ends_and_its_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_bytes(b"\xef\xbb\xbf" + ROUGH.replace("\n", "\r\n").encode())
    run(str(file), "-w")
    assert file.read_bytes() == b"\xef\xbb\xbf" + DONE.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("text", ["y = (", "", "$$ a = b", "y_t = \\foo x", "for t:\nx = 1"])
def test_what_cannot_be_read_is_told_and_left(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.ein"
    file.write_text(text, encoding="utf-8")
    assert "error[" in run(str(file), "-w", status=1)
    assert file.read_text(encoding="utf-8") == text


def test_a_spec_with_errors_of_meaning_is_printed_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text("index t:time(T)\ny_t=x_s", encoding="utf-8")
    assert run(str(file)) == "index t : time(T)\ny_t = x_s\n"
