"""Slips of precision, one in a spec: what the checker says of each, and that the numbers show those that it accepts.

A text with a scale that is forgotten, or of another letter of the same set, is a sound text that means something else:
it is warned of. What no warning can know is that a mean should be added again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from helpers import distance, meaning
from programs import SPEC_TEXTS

import einc
from bench.rounded import ROWS
from einc.driver import pipeline
from einc.errors.report import EincError, Report, Source


@dataclass(frozen=True)
class Slip:
    """In the text of a spec `old`, wherever it stands, is `new`; `code` is what is told, empty where nothing is.
    """

    kind: str
    spec: str
    old: str
    new: str
    code: str = ""

    @property
    def text(self) -> str:
        text = SPEC_TEXTS[f"precision/{self.spec}"]
        assert self.old in text
        return text.replace(self.old, self.new)


SLIPS = (
    Slip("scale forgotten", "fp8_ffn", "gelu_tanh(σ ω_1 e4m3", "gelu_tanh(ω_1 e4m3", "W0912"),
    Slip("scale forgotten", "fp8_ffn", "= ρ ω_2 e4m3", "= ρ e4m3", "W0912"),
    Slip("scale forgotten", "fp8_rowwise", "= σ_t ω^e e4m3", "= σ_t e4m3", "W0912"),
    Slip("scale forgotten", "fp8_blockwise", "Σ_b σ_t^{(b)} ω^{(b) (c)}", "Σ_b ω^{(b) (c)}", "W0912"),
    Slip("scale forgotten", "sage1", "ρ_{β(s), h} q", "q", "W0912"),
    Slip("scale forgotten", "int8_cache", "σ_{s h} k_{s h d}", "k_{s h d}", "W0912"),
    Slip("scale forgotten", "int4_linear", "Σ_b ω^{(b) e}", "Σ_b", "W0912"),
    Slip("not divided", "fp8_rowwise", "e4m3(X_t^f / σ_t)", "e4m3(X_t^f)", "W0911"),
    Slip("not divided", "sage1", "int8(C_{s h}^d / ρ_{β(s), h})", "int8(C_{s h}^d)", "W0911"),
    Slip("applied twice", "fp8_ffn", "gelu_tanh(σ", "gelu_tanh(σ σ", "W0912"),
    Slip("applied twice", "fp8_blockwise", "Σ_b σ_t^{(b)}", "Σ_b σ_t^{(b)} σ_t^{(b)}", "W0912"),
    Slip("applied twice", "int8_cache", "ρ_{s h} v_{s h}^d", "ρ_{s h} ρ_{s h} v_{s h}^d", "W0912"),
    Slip("another letter", "fp8_rowwise", "σ_t ω^e", "σ_t ω^f", "E0401"),
    Slip("another letter", "fp8_rowwise", "X_t^f / σ_t)", "X_t^f / ω^f)", "E0401"),
    Slip("another letter", "fp8_blockwise", "Σ_b σ_t^{(b)}", "Σ_b σ_t^{(c)}", "E0401"),
    Slip("another letter", "fp8_blockwise", "ω^{(b) (c)} Σ", "ω^{(c) (b)} Σ", "E0401"),
    Slip("another letter", "sage1", "σ_{β(t), h} ρ_{β(s), h} q", "σ_{β(s), h} ρ_{β(t), h} q", "W0912"),
    Slip("another letter", "sage1", "ρ_{β(s), h} q", "ρ_{β(t), h} q", "W0912"),
    Slip("another letter", "int8_cache", "Q_{t h}^d σ_{s h}", "Q_{t h}^d σ_{t h}", "W0912"),
    Slip("another scale", "int8_cache", "K_{s h}^d / σ_{s h}", "K_{s h}^d / ρ_{s h}", "W0911 W0912"),
    Slip("rounded before it is smoothed", "sage1", "C_{s h}^d = K_{s h}^d", "C_{s h}^d = int8(K_{s h}^d)", "W0911"),
    Slip("rounded before it is smoothed", "sage2", "D_{t h}^d = Q_{t h}^d", "D_{t h}^d = int4(Q_{t h}^d)", "W0911"),
    Slip("rounded before it is turned", "fp8_turned", "= Q_{t h}^d U", "= e4m3(Q_{t h}^d) U", "W0911"),
    Slip("scale of what is not smoothed", "sage1", "|C_{(b u) h}^d|", "|K_{(b u) h}^d|", "W0911"),
    Slip("scale of what is not smoothed", "sage2", "|D_{(b u) h}^d|", "|Q_{(b u) h}^d|", "W0911"),
    Slip("a mean is not added again", "sage2", " + M_{β(t), h}^d C_{s h d})", ")"),
    Slip("largest number of another type", "sage2", "|D_{(b u) h}^d| / 7", "|D_{(b u) h}^d| / 127", "W0911"),
    Slip("largest number of another type", "fp8_rowwise", "|X_t^f| / 448", "|X_t^f| / 1000", "W0911"),
    Slip("no absolute value", "fp8_rowwise", "max_f |X_t^f|", "max_f X_t^f", "W0911"),
    Slip("another type", "int8_cache", "int8(K", "int4(K", "W0911"),
    Slip("scale of a block in a cache", "sage1", " : all\nY_{t h}^d = Σ", "\nY_{t h}^d = Σ", "E0501"),
    Slip("scale of a block in a cache", "sage2", " : all\nY_{t h}^d = Σ", "\nY_{t h}^d = Σ", "E0501"),
)


def name(slip: Slip) -> str:
    return f"{slip.spec}: {slip.kind}"


def told(slip: Slip) -> set[str]:
    """The codes of what the checker says, warnings among them."""
    report, source = Report(), Source(f"{slip.spec}.ein", slip.text)
    if pipeline.check(source, report) is not None:
        pipeline.advise(source, report)
    return {problem.code for problem in report.problems}


@pytest.mark.parametrize("slip", SLIPS, ids=name)
def test_what_the_checker_says_of_a_slip(slip: Slip) -> None:
    assert told(slip) == set(slip.code.split())


@pytest.mark.parametrize("slip", [slip for slip in SLIPS if not slip.code.startswith("E")], ids=name)
def test_numbers_show_what_the_checker_accepts(slip: Slip) -> None:
    """The result is another one than that of plain torch, by far more than two ways of computing it differ."""
    row = ROWS[slip.spec]
    given, want = row.clear(row.sizes, 0, 1e-9)
    program = pipeline.check(Source(f"{slip.spec}.ein", slip.text), Report())
    assert program is not None
    got = meaning(program, {key: x.numpy() for key, x in given.items()}, row.sizes)[row.output]
    assert distance(got, want.numpy()) > 1e-3 and torch.from_numpy(got).isfinite().all()


def test_a_cache_keeps_no_scale_that_later_positions_change() -> None:
    """The text says that all positions are meant; where it is served, later ones are not there yet."""
    slip = Slip("scale of a tensor in a cache", "int8_cache", "σ_{s h} = max_d", "σ_h = max_{s ∈ 1..T} max_d")
    with pytest.raises(EincError, match="reads later positions"):
        einc.compile(slip.text.replace("σ_{s h}", "σ_h"), plan="serve")


def test_most_slips_are_told() -> None:
    assert sum(bool(slip.code) for slip in SLIPS) >= 0.95 * len(SLIPS)


@pytest.mark.parametrize("spec", sorted(SPEC_TEXTS))
def test_no_spec_is_told_of_a_slip_that_it_has_not(spec: str) -> None:
    report, source = Report(), Source(f"{spec}.ein", SPEC_TEXTS[spec])
    if "int8" in source.text or "e4m3" in source.text or "int4" in source.text:
        pipeline.check(source, report)
    assert not {"W0911", "W0912"} & {problem.code for problem in report.problems}


SOUND = {
    "cut off on purpose": "y_t = σ_t int8(min(max(x_t^1, -3), 3)) / σ_t",
    "a scale with room": "y_t = ρ_t int8(x_t^1 / ρ_t)",
    "codes and scales as results": "k_t^d = int8(x_t^d / σ_t)\noutput k_t^d, σ_t\ny_t = 1",
    "a quotient cut off on purpose": "y_t = ρ_t int8(min(max(x_t^1 / ρ_t, -100), 100))",
    "a scale of other numbers": "y_t = max(|z_t|, 1) int8(min(127, max(-128, x_t^1 / max(|z_t|, 1))))",
    "weights of attention": "y_t = Σ_{s ≤ t} e4m3(448 exp(z_s - m_t)) / 448",
    "a named quotient": "a_t^d = x_t^d / σ_t\nc_t^d = int8(a_t^d)\ny_t = σ_t c_t^1",
    "a named inverse": "i_t = 1 / σ_t\ny_t = σ_t int8(x_t^1 i_t)",
    "a scale as a result of another name": "output n_t = σ_t\noutput k_t^d = int8(x_t^d / σ_t)\ny_t = 1",
    "a sum of two with one scale": "y_t = σ_t (int8(x_t^1 / σ_t) + int8(x_t^2 / σ_t))",
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_roundings_are_not_told(case: str) -> None:
    text = f"""index t, s : time(T)
index d : feature(4)
input x_t^d, z_t
σ_t = max_d |x_t^d| / 127
ρ_t = max(max_d |x_t^d|, 1) / 100
m_t = max_{{s ≤ t}} z_s
output y_t
{SOUND[case]}
"""
    report = Report()
    assert pipeline.check(Source("a.ein", text), report) is not None, [p.message for p in report.problems]
    assert not {"W0911", "W0912"} & {problem.code for problem in report.problems}


FORGOTTEN = ["y_t = Σ_d int8(min(max(x_t^d / σ_t, -127), 127)) z_t", "a_t^d = x_t^d / σ_t\ny_t = Σ_d int8(a_t^d) z_t",
             "y_t = gelu(int8(x_t^1 / σ_t))", "y_t = Σ_d int8(x_t^d / σ_t) / σ_t"]


@pytest.mark.parametrize("lines", FORGOTTEN)
def test_scales_that_are_forgotten_behind_other_words_are_told(lines: str) -> None:
    text = f"""index t : time(T)
index d : feature(4)
input x_t^d, z_t
σ_t = max_d |x_t^d| / 127
output y_t
{lines}
"""
    report = Report()
    pipeline.check(Source("a.ein", text), report)
    assert "W0912" in {problem.code for problem in report.problems}
