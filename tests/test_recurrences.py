"""Written recurrences: their meaning for every cut, the proof that it is one, what is
refused, and what `einc derive` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Arrays, arrays, assert_close, each, examples, typed, typed_of
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import DRAWN, FILES, WITH_ROUNDS, Case

import einc
from einc.driver import pipeline
from einc.driver.cli import main
from einc.driver.reports.read_back import doubts, source_of
from einc.driver.reports.recurrence import Recurrence, by_piece, recurrences
from einc.driver.reports.written import written
from einc.errors.report import Problem, Report, Source, render
from einc.ir.programs import Equation, Program, TypedProgram
from einc.ir.rounds import Cut
from einc.ir.terms import Apply, Read, Term, canonical, const
from einc.meaning.equality import equal
from einc.meaning.interpret import interpret
from einc.meaning.proof import unproved
from einc.syntax.printing.show import show

SPECS = {case.name: case for case in FILES}
PAPER = SPECS["online_softmax"].text
SIZES = {"T": 7, "H": 2, "d_k": 3, "N": 6, "D": 2, "d_v": 2}

HEAD = "index t, s : time(T)\nindex h : head(H)\nindex d : feature(D)\ninput x_s, y_s, V_s^d, L_{t s}, g_t\n"
BLOCK = """for t:
    m = {m}
    z = {z}
    N^d = 0
    for B ⊆ {{{domain}}}:
        m' = max(m, max_{{s ∈ B}} L_{{t s}})
        z ← z e^{{m - m'}} + Σ_{{s ∈ B}} e^{{L_{{t s}} - m'}}
        N^d ← N^d e^{{m - m'}} + Σ_{{s ∈ B}} e^{{L_{{t s}} - m'}} V_s^d
        m ← m'
    output Y_t^d = N^d / z : all
"""
ELEMENT = "{starts}\nfor s in 1..T:\n{lines}\noutput {outputs}"


def element(starts: str, lines: str, outputs: str) -> str:
    """Rounds over the elements of 1..T, a line for each equation or update."""
    rows = [f"    {line.strip()}" for line in lines.split(";")]
    return HEAD + ELEMENT.format(starts=starts.replace(";", "\n"), lines="\n".join(rows), outputs=outputs)


# A sum of e^L (L - m) about a running maximum m, which moves with it. `{gate}`: before the first point m is −∞.
MOMENT = """for t:
    m = -∞
    z = 0
    M = 0
    for B ⊆ {{s ≤ t}}:
        m' = max(m, max_{{s ∈ B}} L_{{t s}})
        z' = z e^{{m - m'}} + Σ_{{s ∈ B}} e^{{L_{{t s}} - m'}}
        M ← M e^{{m - m'}} + Σ_{{s ∈ B}} e^{{L_{{t s}} - m'}} (L_{{t s}} - m') + {gate}e^{{m - m'}} (m - m') {z}
        m ← m'
        z ← z'
    output Y_t = M / z : all
"""
COUNTED = """for t:
    m = -∞
    c = 0
    for B ⊆ {s ≤ t}:
        m' = max(m, max_{s ∈ B} L_{t s})
        c ← c + 1[-∞ < m'] Σ_{s ∈ B} 1
        m ← m'
    output Y_t = c : all
"""

RIGHT = {
    "paper": PAPER,
    "three loops": SPECS["three_loops"].text,
    "two loops": SPECS["two_loops"].text,
    "one loop": SPECS["one_loop"].text,
    "causal": HEAD + BLOCK.format(m="-∞", z="0", domain="s ≤ t"),
    "window": "dim W\n" + HEAD + BLOCK.format(m="-∞", z="0", domain="s ≤ t, t - W < s"),
    "may be empty": HEAD + BLOCK.format(m="-∞", z="0", domain="s + 2 ≤ t"),
    "everything": HEAD + BLOCK.format(m="-∞", z="0", domain="s"),
    "a start that takes part": HEAD + BLOCK.format(m="g_t", z="1", domain="s ≤ t"),
    "sum": element("z = 0", "z ← z + x_s", "z"),
    "difference": element("z = 0", "z ← z - x_s + 2 y_s", "z"),
    "product": element("p = 1", "p ← p x_s", "p"),
    "minimum": element("p = ∞", "p ← min(p, x_s)", "p"),
    "not from the neutral element": element("z = 3", "z ← x_s + z", "z"),
    "count and mean": element("n = 0; a = 0", "n' = n + 1; a ← a + (x_s - a) / n'; n ← n'", "a"),
    "second moment": element("n = 0; a = 0; v = 0", "n' = n + 1; a' = a + (x_s - a) / n'; v ← v + (x_s - a)(x_s - a');"
                             "a ← a'; n ← n'", "v"),
    "logarithm of a sum": element("l = -∞", "l ← log(exp(l) + exp(x_s))", "l"),
    "a value of its own index": element("z = 0", "w_s = x_s y_s; z ← z + w_s", "z"),
    "rows of elements": HEAD + "for t:\n    z = 0\n    for s ≤ t:\n        z ← z + x_s\n    output Y_t = z",
    "moment about a maximum": HEAD + MOMENT.format(gate="1[-∞ < m] ", z="z"),
    "an update reads another": element("z = 0; p = 0", "z' = z + x_s; z ← z'; p ← p + 2 x_s", "p, z"),
}

# Each with the state that is told, and what the two sides of `einc derive` have to show.
WRONG = {
    "no rescale": (PAPER.replace(r"\alpha z +", "z +"), ["z"], r"z \leftarrow z +", "z ← α z + Σ_{s ∈ B}"),
    "wrong sign": (PAPER.replace("exp(m - m')", "exp(m' - m)"), ["N", "z"], r"\alpha = \exp(m' - m)",
                   "z ← α z + Σ_{s ∈ B}"),
    "no maximum": (PAPER.replace(r"\max(m, m_B)", "m_B"), ["m"], "m' = m_B", "m' = max(m, max_{s ∈ B}"),
    "wrong reference": (PAPER.replace(r"\exp(ℓ_s - m') V", r"\exp(ℓ_s - m) V"), ["N"], "exp(ℓ_s - m) V", "N^{d} ← α"),
    "one loop as printed": (SPECS["one_loop"].text.replace(r"\frac{e^m}{e^{m'}}", r"\frac{e^{m'}}{e^m}"), ["o"],
                            r"\frac{e^{m'}}{e^m}", "o^{c} = N^{c} / z"),
    "old sum": (SPECS["two_loops"].text.replace("d e^{m - m'} +", "d +"), ["d"], "d ← d + ", "z ← α z +"),
}
ELEMENTS = {"one loop as printed", "old sum"}
ORDERED = {
    "moment without its gate": HEAD + MOMENT.format(gate="", z="z"),
    "moment with the new sum": HEAD + MOMENT.format(gate="1[-∞ < m] ", z="z'"),
    "gate beside what is not 0": HEAD + COUNTED,
    "start of its own": HEAD + BLOCK.format(m="-∞", z="1", domain="s ≤ t"),
    "block as a number": HEAD + """for t:
    z = 0
    for B ⊆ {s ≤ t}:
        z ← z + Σ_{s ≤ t} 1[s ∈ B] x_s
    output Y_t = z
""",
}


@cache
def program_of(text: str, proved: bool = True) -> TypedProgram:
    report = Report()
    program = pipeline.check(Source("spec.ein", text), report, proved=proved)
    assert program is not None, "\n".join(map(render, report.problems))
    return program


def given_for(program: Program, seed: int = 0) -> tuple[Arrays, dict[str, int]]:
    sizes = {**SIZES, **({"W": 3} if "W" in show(program) else {})}
    names = {n for t in program.inputs() for slot in t.slots for n in slot.set.extent.sizes} | ({"W"} & sizes.keys())
    found = {n: sizes[n] for n in sorted(names)}
    return arrays(program, found, {}, seed), found


def cuts() -> st.SearchStrategy[Cut]:
    """Every way to cut places into blocks, in any order and some of them empty."""
    def cut(labels: list[int]) -> Cut:
        return lambda extent: [[n for n in range(extent) if labels[n % len(labels)] == k] for k in (2, 0, 3, 1)]

    return st.lists(st.integers(0, 3), min_size=1, max_size=9).map(cut)


def whole(extent: int) -> Sequence[Sequence[int]]:
    return [range(extent)]


def single(extent: int) -> Sequence[Sequence[int]]:
    return [[n] for n in range(extent)]


# the meaning


@cache
def folds(name: str) -> Arrays:
    """What the folds give that the rounds stand for."""
    program = program_of(RIGHT[name])
    given_arrays, sizes = given_for(program)
    return interpret(pipeline.normal(program), given_arrays, sizes)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", RIGHT)
@settings(max_examples=6)
@given(cut=cuts())
def test_the_rounds_give_the_folds_for_every_cut(name: str, cut: Cut) -> None:
    program = program_of(RIGHT[name])
    given_arrays, sizes = given_for(program)
    assert_close(interpret(program, given_arrays, sizes, cut), folds(name))


def test_the_paper_is_what_others_compute() -> None:
    program = program_of(PAPER)
    given_arrays, sizes = given_for(program)
    q, k, v, b = (torch.from_numpy(given_arrays[n]) for n in ("Q_hat", "K_hat", "V", "b"))
    logits = torch.einsum("thk,shk->hts", q, k) / SIZES["d_k"] ** 0.5 + b.permute(2, 0, 1)
    later = torch.ones(logits.shape[1:], dtype=torch.bool).triu(1)
    expected = torch.einsum("hts,shd->thd", logits.masked_fill(later, -torch.inf).softmax(-1), v)
    for cut in (whole, single):
        assert_close(interpret(program, given_arrays, sizes, cut), {"Y": expected.numpy()})
    made = einc.compile(PAPER)(Q_hat=q, K_hat=k, V=v, b=b)
    assert torch.allclose(made, expected)


def test_moments_are_those_of_numpy() -> None:
    x = np.random.default_rng(0).normal(size=9) + 100
    assert np.allclose(einc.interpret(RIGHT["second moment"], {"x": x})["v"], x.var() * 9)
    assert np.allclose(einc.interpret(RIGHT["count and mean"], {"x": x})["a"], x.mean())


def test_a_row_without_elements_keeps_its_start() -> None:
    text = HEAD + "for t:\n    z = 5\n    for s + 2 ≤ t:\n        z ← z + x_s\n    output Y_t = z"
    x = np.arange(1.0, 5)
    for program in (program_of(text), pipeline.normal(program_of(text))):
        assert interpret(program, {"x": x})["Y"].tolist() == [5, 5, 6, 8]


def test_all_updates_of_a_round_take_effect_together() -> None:
    text = element("a = 1; b = 2", "a ← b; b ← a + x_s - x_s", "a, b")
    program = program_of(text, proved=False)
    for extent, (a, b) in enumerate([(1, 2), (2, 1), (1, 2), (2, 1)]):
        found = interpret(program, {"x": np.ones(extent)})
        assert (found["a"], found["b"]) == (a, b)


# the proof


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_proved(name: str) -> None:
    program = program_of(RIGHT[name])
    assert program.recurs
    assert [unproved(recur) for recur in program.recurs] == [()] * len(program.recurs)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", [*WRONG, *ORDERED])
def test_what_is_wrong_is_refused(name: str) -> None:
    """Rounds over blocks; those of one element each run in order, and a state that is relative to another is told."""
    text = WRONG[name][0] if name in WRONG else ORDERED[name]
    assert text not in RIGHT.values()
    found = [p for p in einc.check(text) if p.code.endswith("704")]
    assert {p.code for p in found} == {"E0704" if name in WRONG.keys() - ELEMENTS or "B ⊆" in text else "W0704"}
    if name in WRONG:
        assert sorted(re.findall(r"`(\w+)`", p.message)[0] for p in found) == WRONG[name][1]


@pytest.mark.parametrize(("update", "last"), [("z e^{-1} + x_s", lambda z, x: z / np.e + x), ("x_s", lambda z, x: x),
                                              ("2 z + x_s", lambda z, x: 2 * z + x)])
def test_elements_that_are_no_fold_are_taken_in_order(update: str, last: Callable[[float, float], float]) -> None:
    text = element("z = 0", f"z ← {update}", "z")
    assert not [p for p in einc.check(text) if p.code.endswith("704")]
    x = np.random.default_rng(0).normal(size=7)
    want = reduce(last, x, 0.0)
    assert np.allclose(einc.interpret(text, {"x": x})["z"], want)
    assert np.allclose(einc.compile(text)(x=torch.from_numpy(x)), want)


@pytest.mark.parametrize("name", ["no rescale", "wrong sign"])
def test_what_is_refused_depends_on_the_cut(name: str) -> None:
    program = program_of(WRONG[name][0], proved=False)
    given_arrays, sizes = given_for(program)
    one, other = (interpret(program, given_arrays, sizes, cut)["Y"]
                  for cut in (single, lambda n: [range(2), range(2, n)]))
    assert not np.allclose(one, other)


@pytest.mark.parametrize("name", ["one loop as printed", "old sum"])
def test_what_is_refused_is_not_what_was_meant(name: str) -> None:
    """The notes print the scale of eq. 87 upside down: the loop as printed gives something else than its own sum."""
    program = program_of(WRONG[name][0], proved=False)
    right = program_of(RIGHT["one loop" if "one" in name else "two loops"])
    same = []
    for seed in range(4):
        given_arrays, sizes = given_for(program, seed)
        (one,), (other,) = interpret(program, given_arrays,
                                     sizes).values(), interpret(right, given_arrays, sizes).values()
        same.append(np.allclose(one, other))
    assert not all(same)


def test_a_spec_with_open_rounds_is_not_compiled() -> None:
    with pytest.raises(einc.EincError, match="E0704"):
        einc.compile(WRONG["no rescale"][0])


STEPS = ("m", "max(m, max_{s ∈ B} L_{t s})", "max_{s ∈ B} L_{t s}", "m + Σ_{s ∈ B} L_{t s}",
         "min(m, min_{s ∈ B} L_{t s})", "m + 1")
SCALES = ("", "e^{m - m'}", "e^{m' - m}", "2", "e^{m}", "m", "(m / m')")
SHARES = ("x_s", "e^{L_{t s} - m'}", "e^{L_{t s}}", "m' x_s", "m x_s", "1", "x_s y_s e^{-m'}", "z x_s", "(x_s - m')",
          "1[-∞ < m'] x_s", "1[-∞ < m] e^{L_{t s} - m'}", "1[-∞ < m'] e^{L_{t s}}")


@examples(40, 150, *map(st.sampled_from,
            (["0", "1", "-∞", "∞", "g_t"], ["0", "1", "g_t"], STEPS, SCALES, SHARES, ["s ≤ t", "s < t"])), cuts())
def test_what_is_proved_is_the_same_for_every_cut(m: str, z: str, step: str, scale: str, share: str, domain: str,
                                                  cut: Cut) -> None:
    """Of random rounds some are proved, and these agree with the folds that they stand for wherever both are finite;
    some logits are −∞."""
    report = Report()
    lines = (f"for t:\n    m = {m}\n    z = {z}\n    for B ⊆ {{{domain}}}:\n        m' = {step}\n"
             f"        z ← z {scale} + Σ_{{s ∈ B}} {share}\n        m ← m'\n    output Y_t = z, M_t = m : all")
    program = pipeline.check(Source("spec.ein", HEAD + lines), report)
    assert {p.code for p in report.errors} <= {"E0704"}
    if program is not None:
        given_arrays, sizes = given_for(program)
        normal, sizes = pipeline.normal(program), {**sizes, "T": SIZES["T"]}
        for _ in range(2):
            with np.errstate(all="ignore"):
                found = interpret(program, given_arrays, sizes, cut)
                expected = interpret(normal, {x.key: given_arrays[x.key] for x in normal.inputs()}, sizes)
            for name, there in expected.items():
                known = np.isfinite(found[name]) & np.isfinite(there)
                assert np.allclose(found[name][known], there[known])
            if "L" in given_arrays:
                given_arrays["L"][:, ::3] = -np.inf


LEAVES = st.sampled_from(["a", "b", "c"]).map(lambda n: Read(n, ())) | st.integers(-2, 2).map(const)
TERMS: st.SearchStrategy[Term] = st.recursive(LEAVES, lambda kids: st.one_of(
    st.tuples(st.sampled_from(["add", "sub", "mul", "div", "max", "min"]), kids,
              kids).map(lambda x: Apply(x[0], x[1:])),
    st.tuples(st.sampled_from(["exp", "neg", "tanh"]), kids).map(lambda x: Apply(x[0], x[1:])),
), max_leaves=6)


def value(term: Term, at: dict[str, float]) -> float:
    match term:
        case Read(name):
            return at[name]
        case Apply(op, args):
            names = {"sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "max": "maximum",
                     "min": "minimum"}
            return float(getattr(np, names.get(op, op))(*(value(x, at) for x in args)))
    return float(term.value)  # type: ignore[union-attr, arg-type]


@settings(max_examples=300)
@given(TERMS, TERMS, st.integers(0, 99))
def test_equal_forms_are_equal_numbers(one: Term, other: Term, seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = dict(zip("abc", rng.uniform(0.5, 1.5, 3), strict=True))
    with np.errstate(all="ignore"):
        x, y = value(one, at), value(other, at)
        if np.isfinite(x) and np.isfinite(y) and equal(one, other):
            assert np.isclose(x, y, rtol=1e-6)
        shaken = Apply("div", (Apply("mul", (Apply("add", (other, one)), Apply("exp", (other,)))),
                               Apply("exp", (other,))))
        if all(np.isfinite(value(t, at)) for t in (one, other, shaken)) and abs(y) < 50:
            assert equal(shaken, Apply("sub", (one, Apply("neg", (other,))))) or _open(one) or _open(other)


def _open(term: Term) -> bool:
    """Whether a quotient by a difference that is always 0, or the like, makes the term one without a form."""
    return not equal(term, term)


# what is found, and what is written


def found_in(case: Case) -> list[Recurrence]:
    return recurrences(pipeline.normal(typed_of(case)))


OPEN_TEXTS = {
    "requests_packed": "rounds over the positions of requests run over two indices, which the language does not say",
}


# The specs in which one recurrence is found; named, so that nothing is checked before the first test runs.
ALONE = """
alibi alibi_any_heads attention attention_dropout cross_attention cross_attention_rope
deepseek_attention forgetting_transformer block_diagonal blocks_before cope cosine decode dilated
documents entropy_penalty fire gated head_windows kerple linear local_global log_n memory_layer
mla_decode neighbourhood one_loop perceiver performer prefix_lm qk_norm relative_table relu_squared
retention shared_logits shaw sigmoid sinks_window softcap softmax1 t5_bias tanh_gate three_loops
top_keys two_loops gpt2_block gqa indexer causal full latest linear_cross_entropy llama_attention
mla mla_rope moba moe_balance collision entropy focal kl min_plus norm_projection prefix two_domains
variance z_loss online_softmax paged_window partial_rotary preblock preblock_relu preblock_silu
based fp8_block fp8_turned int8_cache sage1 sage2
ssd_sum stick_breaking requests requests_packed sdpa selective_attention sliding_window swiglu_block""".split()  # noqa: SIM905 - as a list it has many quotes


# What is found in a round is told as text of that round, not of the whole.
@each([case for case in FILES if case.name not in WITH_ROUNDS], {}, few=DRAWN)
def test_in_which_specs_one_recurrence_is_found(case: Case) -> None:
    found = found_in(case)
    assert (len(found) == 1 and not found[0].note) == (case.name in ALONE)


@pytest.mark.drawn(8)
@each([case for case in FILES if case.name in ALONE], OPEN_TEXTS, few=DRAWN)
def test_what_is_found_is_a_spec_that_is_proved(case: Case) -> None:
    """The text of `einc derive` is source: read back, it is proved for every cut, and means what it was found in."""
    program = typed_of(case)
    again = program_of(source_of(pipeline.normal(program), found_in(case)[0]))
    assert len(again.recurs) == 1
    for seed, sizes in enumerate(case.trials()):
        given_arrays = arrays(program, sizes, case.ranges, seed)
        assert_close(interpret(again, given_arrays, sizes), interpret(program, given_arrays, sizes))


QUICK = {"stick_breaking": [pytest.mark.always],  # what a line of the pass defines is read outside
         "distillation": [], "nsa": [], "clip_loss": [],  # several passes, of which one's letters are names of another
         "norm_projection": []}  # what another value reads of a block is the new one


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=QUICK.get(c.name, [pytest.mark.whole]))
                                  for c in FILES if c.name not in OPEN_TEXTS])
def test_every_pass_that_is_told_is_proved(case: Case) -> None:
    """Each pass of each piece in place of its equations: there is nothing that `einc derive` has to say of it."""
    pieces = by_piece(pipeline.normal(typed_of(case)))
    assert not [told for piece, items in pieces for x in items if not x.note for told in doubts(piece, x)]


def derived(text: str, *options: str) -> tuple[int, str]:
    """The status of `einc derive` of a file with the text, and what it prints, the file by its name."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "spec.ein"
        file.write_text(text, encoding="utf-8")
        done = CliRunner().invoke(main, ["derive", str(file), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output.replace(str(file), "spec.ein")


@pytest.mark.parametrize("options", [(), ("--tex",)])
def test_derive_proves_the_paper(options: tuple[str, ...]) -> None:
    code, said = derived(PAPER, *options)
    sign = "%" if options else "#"
    line = 1 + PAPER[: PAPER.index(r"z \leftarrow")].count("\n")
    assert code == 0
    place = f"the rounds over {{s ≤ t}} written in spec.ein:{line}"
    assert f"{sign} {place} are proved equal to this, for every cut:" in said
    assert f"{sign}     N_{{t h}}^{{d}} = N^{{d}}\n" in said
    for shown in ((r"m' &= \max\left(m, \max_{s \in B}", r"z &\leftarrow \alpha \, z + \sum_{s \in B}") if options
                  else (
            "m' = max(m, max_{s ∈ B}", "α = exp(m - m')", "z ← α z + Σ_{s ∈ B} exp(")):
        assert shown in said


def test_derive_says_of_what_it_prints_what_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds over two indices are no text that compiles, and neither is what is not proved; both are told above it."""
    def said(name: str) -> str:
        return CliRunner().invoke(main, ["derive", name]).output

    assert said("requests_packed").startswith("# no text that compiles: rounds run over one index, and here are `r'`")
    assert not said("not_attention/entropy").startswith("#")
    monkeypatch.setattr("einc.meaning.proof.equal", lambda one, other: False)
    assert said("not_attention/entropy").startswith("# not proved: the rounds of `m` are not proved to be one fold of")


def test_three_loops_become_two_and_one() -> None:
    """Eq. 72–74 give 80–81; with the weighted sum as output they give 87, whose output is
    the numerator over the sum."""
    three = RIGHT["three loops"]
    assert "z ← α z + Σ_{j ∈ B} exp(x_{j} - m')" in derived(three)[1]
    assert "N^" not in derived(three)[1]
    shown = {text: derived(text)[1].split("#")[0] for text in (three, RIGHT["two loops"])}
    assert len(set(shown.values())) == 1
    summed = three.replace("input x_j", "index c : feature(d_v)\ninput x_j, v_j^c").replace(
        "output a_j : all", "output o^c = Σ_j a_j v_j^c")
    code, said = derived(summed)
    assert code == 0
    assert "N^{c} ← α N^{c} + Σ_{j ∈ B} exp(x_{j} - m') v_{j}^{c}" in said
    code, said = derived(RIGHT["one loop"])
    assert code == 0
    assert "#     o^{c} = N^{c} / z\n#     d = z\n#     m = m\n" in said


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ELEMENTS])
def test_derive_shows_both_sides_of_a_line_that_differs(name: str) -> None:
    text, states, ours, theirs = WRONG[name]
    code, said = derived(text)
    assert code == 1
    assert "are not proved equal to this:" in said
    told = said[said.index("are not proved equal to this:"):]
    assert told.count("written") == told.count("found") == len(states)
    assert ours in told
    assert theirs in told


@pytest.mark.parametrize("name", RIGHT)
def test_every_state_has_a_meaning_in_found_letters(name: str) -> None:
    for recurrence in written(program_of(RIGHT[name])):
        assert recurrence.proved
        assert all(" = " in state.meaning for state in recurrence.states)


# the text


def meaning(program: TypedProgram) -> object:
    def equations(found: Sequence[Equation]) -> list[Equation]:
        return [replace(e, source="", domain=canonical(e.domain), body=canonical(e.body)) for e in found]

    rounds = [(r.name, r.fixed, r.index, canonical(r.domain), *map(equations, (r.starts, r.inside, r.updates)))
              for r in program.recurs]
    return rounds, equations(program.equations), program.outputs


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("explicit", [False, True])
def test_typed_rounds_parse_back(name: str, explicit: bool) -> None:
    program = program_of(RIGHT[name])
    again = typed(show(program, explicit), "spec.ein")
    assert meaning(again) == meaning(program)


@pytest.mark.parametrize("start", ["z", "z_{t h}", "z_t"])
@pytest.mark.parametrize("state", ["z", "z_{t h}", "z_t"])
@pytest.mark.parametrize("read", ["z", "z_{t h}"])
def test_what_a_for_fixes_is_written_or_not(start: str, state: str, read: str) -> None:
    text = f"{HEAD}for t, h:\n    {start} = 0\n    for B ⊆ {{s ≤ t}}:\n        {state} ← {read} + Σ_{{s ∈ B}} x_s\n"
    x = np.arange(1.0, 5)
    found = einc.interpret(text + "output Y_{t h} = z_{t h}", {"x": x}, {"H": 2})["Y"]
    assert np.array_equal(found, np.stack([x.cumsum()] * 2, axis=1))


@pytest.mark.parametrize("use", ["S_k^v", "S_{k v}", "S_{t h k}^v", "S^{k v}"])
def test_what_a_for_fixes_may_be_left_out_of_what_is_lowered(use: str) -> None:
    text = ("index t : time(T)\nindex h : head(H)\nindex k, v : feature(3), feature(4)\ninput q_{t h}^k, r_{t h k}, "
            "w_{t h}^v\n"
            "for t, h:\n    S^{k v} = r_{t h k} w_{t h}^v\n    output y_{t h}^v = ")
    factor = "q_{t h k}" if use == "S^{k v}" else "q_{t h}^k"
    plain, low = "Σ_k q_{t h}^k S_{t}^{(h) k v}", f"Σ_k {factor} {use}"
    given = {k: np.random.default_rng(0).normal(size=(2, 5, n)) for k, n in (("q", 3), ("r", 3), ("w", 4))}
    one, other = (einc.interpret(text + body, given, {})["y"] for body in (plain, low))
    assert np.array_equal(one, other)


# what is refused


BAD = {
    "z = 0\nz ← z + Σ_{s in 1..T} x_s\noutput z": "E0705",
    "for s in 1..T:\n    z ← z + x_s\noutput z": "E0702",
    "for s in 1..T:\n    z = 0\n    z ← z + x_s\noutput z": "E0702",
    "z = 0\nfor i in 1..T:\n    z ← z + x_s\noutput z": "E0215",
    "z = 0\nfor i:\n    z ← z + x_s\noutput z": "E0118",
    "z = 0\nfor B ⊆ {s ≤ t}:\n    z ← z + Σ_{s ∈ B} x_s\noutput z": "E0118",
    "m_s = max(m_{s-2}, x_s)\noutput m_s": "E0601",
    "m_s = max(m_{s-1}, x_s)\noutput m_s": "E0601",
    "m_s = max(m_s, x_s)\noutput m_s": "E0406",
    "m_s = max(1[s < T] m_{s+1}, x_s)\noutput m_s": "E0406",
    "m_s = max(max_{t ≤ s} m_t, x_s)\noutput m_s": "E0406",
    "z = 0\nfor s in 1..T:\n    w_s = z + x_s\n    output a_s = z + Σ_t w_t : all\n    z ← w_s": "E0703",
    "z = 0\nfor s in 1..T:\noutput z": "E0103",
    "z = 0\nfor s in 1..T\n    z ← z + x_s\noutput z": "E0103",
    "z = 0\nfor s in 1..T:\n    z ←\noutput z": "E0103",
    "z = 0\nfor B ⊆ {}:\n    z ← z + 1\noutput z": "E0103",
    "z = 0\nfor s in 1..T:\n    z ← z + x_s\n    z ← 2 z\noutput z": "E0209",
    "z = 0\nfor s in 1..T:\n    z ← z + x_s\nfor s in 1..T:\n    z ← z + x_s\noutput z": "E0209",
    "z = 0\nfor s in 1..T:\n    w = z + x_s\n    z ← w\noutput v = 2 w": "E0703",
    "z = 0\nfor s in 1..T:\n    w = z + x_s\n    z ← w\noutput w": "E0703",
    "for s in 1..T:\n    x_s ← 2 x_s\noutput w_s = x_s": "E0405",
    "z = 0\nfor s in 1..T:\n    for t ≤ s:\n        z ← z + x_s\noutput z": "E0118",
    "z = 0\nfor s in 1..T:\n    for h:\n        z ← z + x_s\noutput z": "E0118",
    "for t, t:\n    z = 0\noutput Y_t = z_t": "E0118",
    "for t:\n    for B ⊆ {s ≤ t}:\n        z = Σ_{s ∈ B} x_s\noutput Y_t = 1": "E0118",
    "for t:\n    z = 0\n    for B ⊆ {s ≤ t}:\n        z ← z + Σ_{s ∈ C} x_s\noutput Y_t = z_t": "E0202",
    "z = Σ_{s ∈ B} x_s\noutput z": "E0202",
    "for t:\n    input q_t\noutput Y_t = q_t": "E0118",
    "for 3:\n    z = 0\noutput z": "E0118",
    "z = 0\nfor 3 ⊆ {s}:\n    z ← z + 1\noutput z": "E0118",
    "z = 0\nfor h ⊆ {s}:\n    z ← z + 1\noutput z": "E0118",
    "z = 0\nfor s in 1..T:\n    z ← z + x_s y_t\noutput z": "E0301",
    "z = 0\nfor s in 1..T:\n    z ← z + V_s^d\noutput z": "E0301",
    "z = 0\nw = 2 z\nfor s in 1..T:\n    z ← z + x_s w\noutput z": "E0406",
    "z = 0\nfor s in 1..T:\n    z ← w ← x_s\noutput z": "E0104",
    "z = 0\nfor s in 1..T:\n    override z ← z + x_s\noutput z": "E0118",
    "z = 0\nfor s in 1..T:\n    z ← z + x_{s+1}\noutput z": "E0601",
    "for t:\n    z = 0\n    for s in 1..T:\n        z ← z + x_s\n    output Y_t = z": "E0501",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("text", BAD)
def test_a_bad_loop_is_one_clear_error(text: str) -> None:
    found = einc.check(HEAD + text)
    assert [p.code for p in found] == [BAD[text]], "\n".join(map(render, found))
    assert all(p.helps or p.notes for p in found)


LINES = PAPER.splitlines()
CHANGES = ["drop", "twice", "left", "right", "for", "B", "⊆", "{s ≤ t}", ":", "←", "z", "m'", "s ∈ B",
           "for s in 1..t:", "$$",
           "output", "    ", "\n", "t, h", "Σ_{s ∈ B}"]


@examples(3, 120, st.lists(st.tuples(st.integers(0, len(LINES) - 1), st.sampled_from(CHANGES)), max_size=3))
def test_no_change_of_the_paper_gives_a_traceback(changes: list[tuple[int, str]]) -> None:
    lines = list(LINES)
    for at, change in changes:
        match change:
            case "drop":
                lines[at] = ""
            case "twice":
                lines[at] = f"{lines[at]}\n{lines[at]}"
            case "left":
                lines[at] = lines[at].removeprefix("    ")
            case "right":
                lines[at] = "    " + lines[at]
            case _:
                lines[at] = f"{lines[at]} {change}"
    assert all(isinstance(p, Problem) for p in einc.check("\n".join(lines)))


# rounds that are no fold of their blocks

DECAYS = ["0.9 S^c + 0.1 x_s^c", "a_s S^c + x_s^c", "S^c - a_s S^c x_s^c + x_s^c", "(1 - a_s) S^c + a_s x_s^c"]


@pytest.mark.parametrize("update", DECAYS)
def test_rounds_in_order_are_told_with_all_that_a_round_reads(update: str, tmp_path: Path) -> None:
    """Nothing of the text is lost, and the folds that other texts have are not spoken of."""
    file = tmp_path / "rounds.ein"
    file.write_text("index t, s : time(T)\nindex c : feature(C)\ninput x_t^c, a_t\nfor t:\n    S^c = 0\n    for s in "
                    "1..t:\n"
                    f"        S^c ← {update}\n    output y_t^c = S^c\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["derive", str(file)])
    assert done.exit_code == 0
    (found,) = [line for line in done.output.splitlines() if line.startswith("    S_{s}")]
    right = found.split("=")[1]
    assert all(name in right for name in ("S_round", "x_{s}", "a_{s}") if name[0] in update)
    assert "One position after the other" in done.output
    assert "nothing is folded" not in done.output


@pytest.mark.parametrize(("body", "folds"), [
    ("Σ_{s ≤ t} exp(x_s y_t) exp(-Σ_{u ∈ (s, t]} x_u y_t^2)", True),
    ("Σ_{s ≤ t} tanh(x_s + y_t) x_s", True),
    ("Σ_{s ≤ t} Σ_{u ≤ t} tanh(x_s y_u + y_t) x_s", True),
    ("x_t + exp(y_t)", False),
])
def test_nothing_is_folded_is_said_of_plans_without_folds(body: str, folds: bool, tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text(f"index t, s, u : time(T)\ninput x_t, y_t\noutput z_t = {body}\n", encoding="utf-8")
    said = CliRunner().invoke(main, ["derive", str(file)]).output
    assert ("nothing is folded" in said) is not folds, said
