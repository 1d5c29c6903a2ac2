"""The checker against the language page, section by section: what is accepted, what it means, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import examples
from hypothesis import strategies as st
from programs import is_module
from texts import INDICES, codes, meaning, problems, typed

import einc
from einc.checking.declarations.names import Name
from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.programs import TypedProgram
from einc.ir.terms import Apply, Fold, Read, free_indices, reads, walk
from einc.syntax.printing.show import equation_text, show

SPECS = [x for x in sorted((Path(__file__).parent.parent / "specs").rglob("*.ein"))
         if is_module(x.read_text(encoding="utf-8"))]


def lines(text: str) -> list[str]:
    """The equations of a program with everything implied written out."""
    program = typed(text)
    return [equation_text(program, e) for e in program.equations]


def line(text: str) -> str:
    """The last equation."""
    return lines(text)[-1]


def same(one: str, other: str) -> bool:
    """Whether two texts are one program."""
    return meaning(typed(one)) == meaning(typed(other))


# §2: index sets


@pytest.mark.parametrize(("text", "wanted"), [
    ("index q : time(T)", IndexSet("time", size("T"))),
    ("index q : vocab(0..V-1)", IndexSet("vocab", size("V"), 0)),
    ("index q : time(1..T)", IndexSet("time", size("T"))),
    ("index q : feature(d_k / 2)", IndexSet("feature", size("d_k") * number(1).over(number(2)))),  # type: ignore[operator]
    ("index q : feature(d_{\\text{model}})", IndexSet("feature", size("d_model"))),
    ("index q : feature(2 * d_k)", IndexSet("feature", size("d_k") * number(2))),
    ("index q : feature(\\frac{H d_k}{G})", IndexSet("feature", (size("H") * size("d_k")).over(size("G")))),
    # type: ignore[arg-type]
    ("index p, q : feature(A), latent(B)", IndexSet("latent", size("B"))),
])
def test_index_sets(text: str, wanted: IndexSet) -> None:
    assert typed(f"{text}\ninput x_q\ny_q = 2 x_q").tensors["x"].slots[0].set == wanted


@pytest.mark.parametrize("text", [
    "index q : moment(T)", "index q", "index q : time", "index q : time(1/2..T)", "index q' : time(T)",
    "index q_t : time(T)",
    "index q : time(-1)", "index q : feature(3/2)", "index q : feature(x / (y + 1))",
    "index p, q, w : time(T), time(U)",
    "index q : feature(d_k) = 2", "index q : feature(D) = (i j)", "dim 3", "dim W = x", "dim W = 1.5",
])
def test_declarations_that_declare_nothing(text: str) -> None:
    assert codes(text + "\ny = 1") in (["E0210"], ["E0103"])


@pytest.mark.parametrize(("text", "code"), [
    ("index t : time(U)", "E0209"), ("dim W = 2\ndim W = 3", "E0209"), ("index max : time(T)", "E0211"),
    ("index q : time(exp)", "E0211"),
    ("dim softmax", "E0211"), ("input LN_t", "E0211"), ("def silu(x) = x", "E0211"),
    ("index p : feature(5) = (a b)", "E0402"),
    ("dim d_k = 7\nindex p : feature(d_k / 2)\nindex q : feature(d_k) = (p a)", "E0402"),
    ("index p : feature(5)\nindex q : feature(10) = (p a)\nindex w : feature(11) = (p a)", "E0402"),
    ("index p : feature(d_k / 2)\nindex q : feature(d_k) = (p a)\nindex w : feature(d_k) = (a p)", "E0209"),
    ("index p : feature(D) = (q w)\nindex q : feature(D / 3)\nindex w : feature(2)", "E0402"),
])
def test_declarations_that_contradict(text: str, code: str) -> None:
    assert codes(text + "\ny = 1") == [code]


def test_the_same_line_twice_is_one() -> None:
    assert codes("index t : time(T)\ndim W = 2\ndim W = 2\nmap m(h) = h : h\nmap m(h) = h : h\ny = 1") == []


def test_a_primed_index_runs_over_the_same_set() -> None:
    assert codes("input x_{t t'}\ny_{t t'} = x_{t' t}") == []


def test_indices_of_one_class_and_extent_run_over_one_set() -> None:
    assert codes("index q : time(T)\ninput x_t\ny_q = x_q") == []
    assert codes("index q : time(0..T-1)\ninput x_t\ny_q = x_q") == ["E0401"]


@pytest.mark.parametrize("extent", ["0..T_r - 1", "1..T_r", "T_r + 1", "⌈T_r/2⌉"])
def test_lengths_of_requests_are_no_single_number(extent: str) -> None:
    assert codes(f"index r : request(R)\nindex q : time({extent})\ninput x_{{r q}}\noutput y_{{r q}} = x_{{r q}}") == [
        "E0210"]


def test_positions_count_from_where_the_set_starts() -> None:
    assert codes("index q : time(0..T-1)\ninput x_q\noutput y_q = 1[q ≤ T - 1] x_q") == []


@pytest.mark.parametrize("text", [
    "input x_n\ny_n = n x_n", "input x_r\ny_r = 1[r ≤ 2] x_r", "input x_{n t}\ny_{n t} = x_{n t} cos(n)",
    "input x_n, y_n\nz_n = x_n + n",
])
def test_batch_and_request_indices_have_no_numbers(text: str) -> None:
    assert codes(text) == ["E0407"]


def test_requests_are_the_same_or_not() -> None:
    assert codes("input x_r, y_r\noutput z_r = Σ_{r', r' = r} x_{r'} + y_r") == []
    assert codes("input x_r, y_n\noutput z_{r n} = 1[r = n] x_r y_n") == ["E0407"]


# §2: the position rules


@pytest.mark.parametrize(("text", "explicit"), [
    ("input p_d, q^d\ny = p_d q^d", "y = Σ_{d} p_{d} q^{d}"),
    ("input p_{d f}, q^{d f}\ny = p_{d f} q^{d f}", "y = Σ_{d f} p_{d f} q^{d f}"),
    ("input p_t^d, w_d^f\ny_t^f = p_t^d w_d^f + 1", "y_{t}^{f} = Σ_{d} p_{t}^{d} w_{d}^{f} + 1"),
    ("input p_t^d, w_d^f\ny_t^f = exp(p_t^d w_d^f)", "y_{t}^{f} = exp(Σ_{d} p_{t}^{d} w_{d}^{f})"),
    ("input p_d, q^d, m_k, o^k\ny = (p_d q^d) m_k o^k", "y = Σ_{k} (Σ_{d} p_{d} q^{d}) m_{k} o^{k}"),
    ("input p_d, q^d, m_d, o^d\ny = (p_d q^d) m_d o^d", "y = Σ_{d} (Σ_{d} p_{d} q^{d}) m_{d} o^{d}"),
])
def test_rule_1_a_pair_is_summed(text: str, explicit: str) -> None:
    assert line(text) == explicit


@pytest.mark.parametrize("text", [
    "input A_{t s}, x_s\ny_t = A_{t s} x_s", "input A_t, x^t\ny = A_t x^t", "input x_n, y_n\nz = x_n y_n",
    "input x_r, y^r\nz = x_r y^r",
    "input A_{t s}, x_s\ny_t = exp(A_{t s} x_s)", "input A_{t s}, x_s, z_s\ny_t = A_{t s} x_s z_s",
    "input w_d, K_s^d, A_s\ny = (w_d K_s^d) A_s",
])
def test_rule_1_time_is_never_summed_silently(text: str) -> None:
    assert codes(text) == ["E0306"]


@pytest.mark.parametrize("text", [
    "input Q_{t h}^d, K_{s h}^d\nL_{t s h} = Q_{t h}^d K_{s h d}", "input x_d, y_d, z_d\nw_d = x_d y_d z_d",
    "input x_t, z_t\ny_t = x_t z_t x_t",
    "input x_d, y^k\nz_d^k = x_d y^k",
])
def test_rule_2_what_stands_on_the_left_is_free(text: str) -> None:
    assert codes(text) == []


@pytest.mark.parametrize("text", ["input x_d, y^d\nz_d = x_d y^d", "input x_{d f}, y^{d f}\nz^f = x_{d f} y^{d f}",
                                  "input x_d, y^d\nz_d = exp(x_d y^d)"])
def test_rule_2_a_pair_on_the_left_has_two_readings(text: str) -> None:
    assert codes(text) == ["E0305"]


def test_rule_2_an_index_stands_once_on_the_left() -> None:
    assert codes("input x_{t t'}\ny_{t t} = x_{t t'}") == ["E0210"]


def test_rule_3_parentheses_make_a_label() -> None:
    assert codes("input x_d, y_d\nz_d = x_{(d)} y_d") == []
    assert codes("input A^{(h)}, x_h\ny = A^{(h)} x_h") == ["E0301"]
    assert codes("input A^{(h)}, x_h\ny_h = A^{(h)} x_h") == []


@pytest.mark.parametrize(("text", "explicit"), [
    ("input Y_{t h}^d, W_{h d}^f\nA_t^f = Y_{t h}^d W_{h d}^f", "A_{t}^{f} = Σ_{h d} Y_{t h}^{d} W_{h d}^{f}"),
    ("input x^d, y^d\nz = x^d y^d", "z = Σ_{d} x^{d} y^{d}"),
])
def test_rule_4_one_level_is_summed_with_a_warning(text: str, explicit: str) -> None:
    assert codes(text) == ["W0301"]
    assert line(text) == explicit
    (problem,) = problems(text)
    assert [h.new for h in problem.helps] == ["Σ_h " if "h" in explicit else "Σ_d "]
    assert codes(text, strict=True) == ["W0301"]


@pytest.mark.parametrize(("text", "code"), [
    ("input x_t^f\ny_t = 2 x_t^f", "E0301"), ("input x_t^f\ny_t = exp(x_t^f)", "E0301"),
    ("input x_f\ny = x_f + 1", "E0301"),
    ("input x_d, y^d, z_d\nw = x_d y^d z_d", "E0304"), ("input x_s, y_t\nz_t = y_t + x_s", "E0301"),
])
def test_rule_5_once_or_three_times(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_rule_6_a_lowered_index_is_the_same_slot() -> None:
    assert same("input K_t^d, q^d\ny_t = K_{t d} q^d", "input K_t^d, q^d\ny_t = Σ_d K_t^d q^d")
    assert same("input R_t_d^k, x^d\ny_t^k = R_{t d k} x^d", "input R_t_d^k, x^d\ny_t^k = R_t_d^k x^d")
    assert codes("input R_t_d^k, x^d\ny_{t k} = R_{t d k} x^d") == []


@pytest.mark.parametrize(("text", "code"), [
    ("input x_t, y\nz_t = x_t + y", None), ("input y\nz_t = y", "E0302"), ("z_t = 2", None), ("z_t = 1/√d_k", None),
    ("z_t = T", None),
    ("z_{t s} = t", "E0302"), ("z_{t s} = t - s", None), ("input x_t\nz_t^f = x_t", "E0302"),
    ("input x_t, w^f\nz_t^f = x_t + w^f", None),
    ("z_t = -∞", None), ("input x_s\nz_t = Σ_s x_s", "E0302"),
])
def test_an_index_of_the_left_stands_in_some_term(text: str, code: str | None) -> None:
    assert codes(text) == ([] if code is None else [code])


@pytest.mark.parametrize(("text", "code"), [
    ("input x_s, y_s\nz = (Σ_s x_s) y_s", "E0308"), ("input x_s, y_s, w_s\nz = (Σ_s x_s) y_s w_s", "E0308"),
    ("input x_s\ny_s = Σ_s x_s", "E0308"),
    ("input x_d, y^d, z_d\nw = (x_d y^d) z_d", "E0308"), ("input x_s\ny = Σ_s x_s Σ_s x_s", "E0309"),
    ("input x_s\ny = Σ_s max_s x_s", "E0309"),
    ("input x_s\ny = Σ_s x_s Σ_{s'} x_{s'}", None), ("input x_s\ny = (Σ_s x_s) (Σ_s x_s)", None),
    ("input L_{t s}, V_s\nmask L_{t s} : s ≤ t\noutput y_t = Σ_s softmax_s(L_{t s}) V_s", None),
])
def test_a_binder_owns_its_index(text: str, code: str | None) -> None:
    assert codes(text) == ([] if code is None else [code])


@pytest.mark.parametrize(("claim", "wanted"), [
    ("x_d = x_d", []), ("x_d z_d = z_d x_d", []), ("x_d = nothing_d", ["E0201"]), ("x_q = 2", ["E0204"]),
    ("x_d", ["E0210"]),
    ("x_d = p_d with p_d := 2 x_d", []), ("x_d z_d = M assuming x_d = M", []), ("A_{t s} = A_{s t} for all t, s", []),
])
def test_claims_are_read_by_the_rules(claim: str, wanted: list[str]) -> None:
    assert codes(f"input x_d, z_d, A_{{t s}}\nclaim {claim}\noutput y_d = x_d z_d A_{{1 1}}") == wanted


def test_a_claim_reads_nothing_for_the_outputs() -> None:
    program = typed("input x_d\nclaim y_d = x_d + x_d\noutput y_d = 2 x_d")
    assert [name for name, _ in program.outputs] == ["y"]


# §3: tensors


@pytest.mark.parametrize(("text", "wanted"), [
    ("input W_{Qhd}, W_{Khd}\ny_h^d = W_{Q h d}", ["E0203", "E0203"]),
    ("input W_{Q hd}\ny_h^d = W_{Qhd}", []),
    ("input W_{Q h d}\ny_{h d} = W_{Q, h, d} + W_{Qhd} + W_Q{}_h_d + W_{Q}_{h}_{d}", []),
    ("input x_{t h}\ny_{t h} = x_{th} + x_{t h} + x_{t,h} + x_t_h", []),
    ("input x_{t h}\ny_{t h} = x_{t q}", ["E0204"]),
    ("input W_{Q h}, W_{K h}\ny_h = W_{R h}", ["E0207"]),
    ("index q, w : feature(Q)\nindex qw : head(K)\ninput C_{q w}, C_{qw, h}\ny = C_{qwh}", ["E0203"]),
    ("index q, w : feature(Q)\nindex qw : head(K)\ninput C_{q w}\ny_{q w} = C_{qw}", []),
    ("index q, w : feature(Q)\nindex qw : head(K)\ninput C_{qw}", ["E0203"]),
    ("input x_{mu}\nindex m, γ2 : time(T)\ny = 1", ["E0108"]),
    ("index m : time(M)\ninput x_{m u}\ny_{m u} = x_{mu}", []),
    ("index μ : time(M)\ninput x_{mu}\ny_μ = x_{\\mu}", []),
])
def test_scripts_are_split_in_one_way(text: str, wanted: list[str]) -> None:
    assert codes(text) == wanted


def test_labels_belong_to_names() -> None:
    program = typed("weight W_{1 f}^e, W_{2 e}^f\ninput x^f\noutput y^f = x^{f'} W_{1 f'}^e W_{2 e}^f")
    assert list(program.tensors) == ["W_1", "W_2", "x", "y"]


def test_a_script_on_a_label_is_an_index() -> None:
    assert same("index j : head(J)\nweight W_{O j f}\noutput y_{j f} = W_{O_j f}",
                "index j : head(J)\nweight W_{O j f}\noutput y_{j f} = W_{O j f}")


def test_a_number_is_a_label_or_the_value_of_a_slot() -> None:
    assert line("dim D = 4\ninput x_{1 f}, z_f\noutput y_f = x_{1 f} + z_2") == "y_{f} = x_{1}_{f} + z_{2}"
    assert codes("input x_f\noutput y = x_2") == ["E0601"]


def test_a_power_and_an_element_are_told_apart() -> None:
    assert "(x_{t})^{2}" in line("input x_t\ny_t = x_t^2")
    assert codes("input x_t, x_t^f as xf\ny_t = x_t^2") == ["E0203"]
    assert "exp(x_{t})" in line("input x_t\ny_t = e^{x_t}")
    assert "x^{2}" in line("dim D = 8\ninput x^f\ny = x^2")


@pytest.mark.parametrize(("text", "wanted"), [
    ("input A_{t s}^{(h)}, A_t^f as A2\noutput y_t^f = A_{t t}^{(1)} A_t^f", []),
    ("input H_t^f, x_h\noutput y_{t h}^f = H_t^f x_h / H", []),
    ("input T\noutput y_t = t T", ["E0208"]),
    ("input h\noutput y_h = 2 h", ["E0208"]),
    ("input x_t^f\ny_t = x_t", ["E0205"]),
    ("input x_t\ny_t = x_t x_t^f", ["E0205"]),
    ("input x_f\ny_t = x_t", ["E0401"]),
    ("input x_t\ny_t = x_t\ny_t = 2 x_t", ["E0209"]),
    ("input x_t\ny_t = x_t\ny_s = 2 x_s", ["E0209"]),
    ("input x_{t f}\ny_{t f} = x_{t f}\ny_t^f = 2 x_{t f}", ["E0209"]),
    ("input x_t\ny_t = x_t\noverride y_t = 2 x_t", []),
    ("input x_t\ny_t = 2\nx_t = 2", ["E0405"]),
    ("weight x_t\nx_t = 2", ["E0405"]),
    ("input x_t, x_t", ["E0209"]),
    ("input y_t = 2", ["E0210"]),
    ("input x_t : big\ny = 1", ["E0210"]),
    ("x_t = y_t\ny_t = x_t", ["E0406"]),
    ("x_t = x_t + 1", ["E0406"]),
    ("input x_t\noutput z_t\ny_t = x_t", ["E0201"]),
    ("input x_t, x_t^f\ny_t^f = x_t x_t^f", ["E0214"]),
    ("input x_t as z, x_t^f\ny_t^f = x_t x_t^f", []),
    ("dim W\ninput W_t\noutput y_t = 1[t ≤ W] W_t", ["E0214"]),
])
def test_one_name_one_thing(text: str, wanted: list[str]) -> None:
    assert codes(text) == wanted


@pytest.mark.parametrize(("written", "python"), [
    ("\\widehat K_t", "K_hat"), ("K̂_t", "K_hat"), ("K_hat_t", "K_hat"), ("\\widetilde H_t", "H_tilde"),
    ("H'_t", "H_prime"),
    ("H''_t", "H_prime2"), ("ρ_t", "rho"), ("W_{Q t}", "W_Q"), ("H^{\\text{out}}_t", "H_out"),
    ("Q^{\\text{x}}_t", "Q_x"),
    ("W^{\\text{x}}_{Q t}", "W_Q_x"), ("\\mathcal L_t", "L_cal"), ("ℒ_t", "L_cal"), ("λ_t", "lambda_"),
    ("x_t as attn", "attn"),
    ("\\widehat K'_t", "K_hat_prime"), ("d_{\\text{max len} t}", "d_max_len"), ("μ_{ρ t}", "mu_rho"),
])
def test_python_names(written: str, python: str) -> None:
    plain = written.removesuffix(" as attn")
    assert [t.key for t in typed(f"input {written}\noutput y_t = 2 {plain}").inputs()] == [python]


def test_a_name_of_several_words_is_a_name_all_the_same() -> None:
    assert Name("W", (), 0, ("a b",)).python == "W_a_b"
    assert Name("1x").python.isidentifier()


def test_axes_stand_as_declared() -> None:
    program = typed("weight W_{Q h f}^d\noutput y_{h f}^d = W_{Q h f}^d")
    assert [x.name for x in program.tensors["W_Q"].slots] == ["h", "f", "d"]


@pytest.mark.parametrize(("text", "wanted"), [
    ("input w_t : int\ninput E_v^f\noutput y_t^f = E_{w_t}^f", []),
    ("input w_t, E_v^f\noutput y_t^f = E_{w_t}^f", ["E0404"]),
    ("input p : int\ninput E_v^f\noutput y^f = E_p^f", []),
    ("input p\ninput E_v^f\noutput y^f = E_p^f", ["E0204"]),
    ("input w_t : int\ninput E_v^f\noutput y_t^f = E_{w_t + 1}^f", []),
    ("input x_{t s}\noutput y_t = x_{t, t/2}", ["E0404"]),
    ("input doc_t : int\ninput x_s\noutput y_t = Σ_{s ≤ t, doc_t = doc_s} x_s", []),
    ("p_t = floor((t + 1) / 2)\ninput x_{t s}\noutput y_t = x_{t p_t} : all", []),
])
def test_what_stands_in_a_slot_is_whole(text: str, wanted: list[str]) -> None:
    assert codes(text) == wanted


def test_outputs() -> None:
    assert [n for n, _ in typed("input x_t\ny_t = x_t\nz_t = y_t\nw_t = 2 x_t").outputs] == ["z", "w"]
    assert [n for n, _ in typed("input x_t\noutput y_t, w_t\ny_t = x_t\nw_t = y_t").outputs] == ["y", "w"]
    assert [n for n, _ in typed("input x_t\noutput y_t = x_t, w_t = y_t").outputs] == ["y", "w"]
    assert [n for n, _ in typed("input x_t\noutput z_t, y_t = x_t\nz_t = 2 x_t").outputs] == ["z", "y"]
    assert [n for n, _ in typed("input x_t\noutput y_t as out\ny_t = x_t").outputs] == ["out"]
    assert list(typed(
        "input x_t, q_t\ny_t = x_t\nz_t = q_t\noutput y_t").tensors) == ["x", "y"], "what no output reads is not part"


def test_the_help_for_a_missing_tensor_is_its_declaration() -> None:
    (problem,) = problems("y_t = K_hat_{t h}\nindex q : time(T)")
    assert [h.text for h in problem.helps] == ["declare it: `input K_hat_{t h}`"]
    (problem,) = problems("input Q_t, K_t\ny = QK")
    assert [h.new for h in problem.helps] == ["Q K"]
    (problem,) = problems("input query_t\ny_t = qery_t")
    assert "similar" in problem.helps[0].text


# §4: expressions


@pytest.mark.parametrize(("one", "other"), [
    ("1/√d_k x_t z_t", "(x_t z_t) / √d_k"), ("2 x_t / 3 z_t", "(2 x_t z_t) / 3"), ("x_t / z_t / 2", "x_t / (z_t 2)"),
    ("x_t / z_t * 2", "(x_t 2) / z_t"), ("\\frac{x_t}{2} z_t", "(x_t z_t) / 2"),
    ("Σ_s x_s z_s + 1", "(Σ_s x_s z_s) + 1"),
    ("2 Σ_s x_s z_s / 3", "2 (Σ_s (x_s z_s / 3))"), ("-x_t z_t", "-(x_t z_t)"), ("√x_t z_t", "sqrt(x_t) z_t"),
    ("x_t^2 z_t", "(x_t)^2 z_t"),
    ("2^{x_t}", "2^{(x_t)}"), ("[x_t + 1] z_t", "(x_t + 1) z_t"), ("2 [x_t]", "2 x_t"),
    ("Σ_{s=1}^{T} x_s", "Σ_{1 ≤ s ≤ T} x_s"), ("max(x_t, z_t, 1)", "max(x_t, z_t, 1)"),
    ("c(x_t + z_t)", "c * (x_t + z_t)"),
    ("exp(x_t)^2", "(exp(x_t))^2"), ("e^{x_t + 1}", "exp(x_t + 1)"), ("1[t ≥ 2, t ≠ 4] x_t", "1[t ≥ 2] 1[t ≠ 4] x_t"),
])
def test_what_binds_how(one: str, other: str) -> None:
    head = "input x_t, z_t, c\noutput y_t = "
    assert same(f"{head}{one} + x_t 0 : all", f"{head}{other} + x_t 0 : all")


@pytest.mark.parametrize(("right", "code"), [
    ("x_t / z_t w_t", "E0115"), ("x_t / z_t (w_t)", "E0115"), ("x_t / exp(z_t) w_t", "E0115"),
    ("2 x_t / z_t w_t", "E0115"),
    ("x_t (t ≤ 2)", "E0110"), ("x_t = z_t", "E0104"), ("t ≤ 2", "E0110"), ("exp x_t", "E0111"), ("t(x_t)", "E0202"),
    ("d_k(x_t)", None),
    ("max x_t", "E0111"), ("sum x_t", "E0106"), ("Σ_s / x_s", "E0106"), ("Σ_q x_q", "E0215"), ("x_t ⊕ z_t", "E0604"),
    ("2 (x_t ⊕ z_t)", "E0604"),
    ("1..T", "E0110"), ("(x_t, z_t)", "E0202"), ("(x_t)_t", "E0107"), ("exp(x_t, z_t)", "E0216"), ("floor()", "E0216"),
    ("max(x_t)", "E0216"),
    ("softcap(x_t)", "E0216"), ("relu_{t}(x_t)", "E0216"), ("x_t @ 2", "E0112"), ("spec(X = x_t)", "E0212"),
    ("δ_t", "E0204"),
    ("δ_t^f", "E0401"),
    ("ε_t^s x_s", "E0401"), ("topk_{s}(x_s, 2)", "E0701"),
    ("topk_{s ≤ t}(x_s)", "E0216"), ("topk(x_t, 2)", "E0106"), ("topk", "E0111"),
    ("topk_{s ≤ t}(x_s, 1/2)", "E0404"),
])
def test_expressions_that_are_refused(right: str, code: str | None) -> None:
    assert codes(f"input x_t, z_t, w_t\ny_t = {right}") == ([] if code is None else [code])


# §4: functions


def test_a_definition_is_its_body() -> None:
    assert same("def twice(x, c) = c x + x\ninput p_t\noutput y_t = twice(p_t, 3)",
                "input p_t\noutput y_t = 3 p_t + p_t")


def test_an_argument_is_bound_and_never_copied() -> None:
    program = typed("def four(x) = x x x x\ninput p_t\noutput y_t = four(four(four(exp(p_t))))")
    assert sum(1 for e in program.equations for t in walk(e.body) if isinstance(t, Apply) and t.op == "exp") == 1
    assert sum(1 for e in program.equations for _ in walk(e.body)) < 40


@pytest.mark.parametrize(("one", "other"), [
    ("LN(H_t^f)", "LN_{f}(H_t^f)"), ("LN(H_t^f)", "LN_f(H_t^f)"), ("mean(H_t^f)", "mean_{f}(H_t^f)"),
    ("mean(H_t^f)", "(Σ_f H_t^f) / Σ_f 1"), ("softmax(H_t^f)", "softmax_f(H_t^f)"), ("relu(H_t^f)", "max(H_t^f, 0)"),
    ("sigmoid(H_t^f)", "1 / (1 + exp(-H_t^f))"),
])
def test_the_index_of_a_definition(one: str, other: str) -> None:
    left = "y_t^f" if "mean" not in one else "y_t"
    assert same(f"input H_t^f\noutput {left} = {one}", f"input H_t^f\noutput {left} = {other}")


def test_an_index_may_be_left_out_of_an_argument() -> None:
    head = "index j : head(J)\nindex w : vocab(0..V-1)\ninput O_t^{(j) w}\ninput tok_t : int\noutput l_{t j} = "
    assert same(head + "CE(O_t^{(j)}, tok_t)", head + "CE(O_t^{(j) w}, tok_t)")
    assert codes("input O_t^v\noutput l_t^v = O_t^v + LN(O_t)") == []


def test_the_line_of_a_definition_is_not_the_callers() -> None:
    """`v` is on the left, so the line that mean runs over is bound under another name."""
    program = typed("input O_t^v, z^v\noutput l_t^v = z^v mean(O_t)")
    (fold, *_) = [t for e in program.equations for t in walk(e.body) if isinstance(t, Fold)]
    assert fold.bound[0].name != "v"


@pytest.mark.parametrize("call", ["LN(x_t)", "LN(A_t^{f d})", "LN_{f d}(A_t^{f d})", "softmax_{d}(x_t)"])
def test_a_call_that_gives_no_index(call: str) -> None:
    assert codes(f"input x_t, A_t^{{f d}}\noutput y_t = {call} : all") in (["E0216"], ["E0301"])


def test_what_is_not_the_definitions_passes_through() -> None:
    program = typed("input x_{t h}^f\noutput y_{t h}^f = RMSNorm(x_{t h}^f)")
    assert {i.name for i in program.equations[-1].indices} == {"t", "h", "f"}
    assert codes("def sq(x) = sigmoid(x) sigmoid(x)\ninput x_t\noutput y_t = sq(x_t)") == []
    assert codes("def sq(x) = x tanh(softcap(x, 2))\ninput x_{t s}\noutput y_{t s} = sq(x_{t s})") == []


def test_a_body_sees_its_parameters_and_no_more() -> None:
    assert codes("def shift(x) = x + c\ninput c, x_t\noutput y_t = shift(x_t)") == ["E0201"]
    assert codes("def shift(x) = x + T\ninput x_t\noutput y_t = shift(x_t)") == ["E0201"]
    assert codes("def shift(x) = x t\ninput x_t\noutput y_t = shift(x_t)") == ["E0201"]
    assert codes("def shift(x) = x + c") == ["E0201"], "a definition that nothing calls is read too"
    assert codes("def one(x) = one(x)\ninput x_t\noutput y_t = one(x_t)") == ["E0406"]


def test_with_defines_for_one_equation_alone() -> None:
    assert codes("input x_t\ny_t = m_t x_t with m_t := 2 x_t\nz_t = m_t") == ["E0201"]
    program = typed("input K_s^d, Q_t^d\noutput L_{t s} = Q_t^d K_{s d} with K_{s d} := K_s^k δ_{k d} : all")
    assert {r.tensor for e in program.equations for r in reads(e.body)} >= {"K", "Q"}


@pytest.mark.parametrize("text", [
    "output y_{s s'} = softmax_{s ≤ s'}(x_s) + x_{s'} : all",
    "output y_{s s'} = softmax_s(x_s A_{s s'}) : all\nmask A_{s s'} : all",
    "output y_{s s' s''} = softmax_{s ≤ s''}(x_s x_{s'}) + x_{s''} : all",
])
def test_the_indices_of_a_definition_capture_nothing(text: str) -> None:
    """Wherever the caller uses s', the line that softmax runs over is bound under a name
    that the caller does not have."""
    program = typed(f"input x_s, A_{{s s'}}\n{text}")
    for equation in program.equations:
        outer = set(equation.indices)
        for term in walk(equation.body):
            if isinstance(term, Fold):
                assert not outer & set(term.bound)
    (target,) = [e for e in program.equations if e.target == "y"]
    assert {i.name for i in free_indices(target.body)} <= {i.name for i in target.indices}


# §4: maps, composites, direct sums


@pytest.mark.parametrize(("body", "code"), [
    ("ceil(h G / H)", None), ("ceil(h G / H) + 1", "E0601"), ("ceil(h G / H) - 1", "E0601"),
    ("floor((h - 1) G / H) + 1", None),
    ("mod(h, G) + 1", None), ("mod(h, G)", "E0601"), ("min(h, G)", None), ("max(h, G)", "E0601"),
    ("max(min(h, G), 1)", None),
    ("1", None),
    ("G", None), ("2", "E0601"), ("h G / H", "E0602"), ("h / 2", "E0602"), ("log(h)", "E0602"),
    ("floor(log(h)) + 1", "E0601"),
    ("h", "E0601"), ("G + 1 - ceil(h G / H)", None),
])
def test_maps_stay_in_range(body: str, code: str | None) -> None:
    assert codes(f"map π(h) = {body} : g\ninput K_g\noutput y_h = K_{{π(h)}} + h") == ([] if code is None else [code])


@pytest.mark.parametrize(("text", "code"), [
    ("map π(h) = ceil(h G / H) : g\ninput K_g\noutput y_t = K_{π(t)} + t", "E0401"),
    ("map π(h) = ceil(h G / H) : g\ninput K_g\noutput y_h = K_{π(h, h)} + h", "E0216"),
    ("map π(h) = ceil(h G / H) : g\ninput K_{s g}\noutput y_{s h} = K_{s, π(h)} : all", None),
    ("map π(h) = ceil(h G / H) : g\ninput K_{s g}\noutput y_{s h} = K_{s π(h)} : all", None),
    ("map π(h) = ceil(h G / H) : g\ninput K_{s g}^d\noutput y_{s h}^d = K_{s, π(h)}{}^d : all", None),
    ("map π(h) = ceil(h G / H) : g\ninput K_s\noutput y_{s h} = K_{π(h)} + s h : all", "E0401"),
    ("map grid(h, g) = (h - 1) G + g : t\ninput x_t\noutput y_{h g} = x_{min(grid(h, g), T)}", None),
    ("map π(h) = ceil(h G / H) : q\ny = 1", "E0215"), ("map π(h) = h : h, g\ny = 1", "E0602"),
    ("map t(h) = h : h\ny = 1", "E0602"),
    ("map π(h) = x_h : h\ninput x_h\ny = 1", "E0602"), ("map π(h) = h : h\nmap π(g) = g : g\ny = 1", "E0209"),
])
def test_maps(text: str, code: str | None) -> None:
    assert codes(text) == ([] if code is None else [code])


def test_an_expression_that_may_leave_its_range_has_three_ways_out() -> None:
    head = "index j : feature(n)\ninput w_t\noutput y_t = "
    (problem,) = problems(head + "Σ_j w_{t+j} : all", INDICES.replace("index n : batch(B)\n", ""))
    assert problem.code == "E0601"
    assert len(problem.helps) == 3
    for fixed in ("Σ_{j, t + j ≤ T} w_{t+j}", "Σ_j w_{t+j}, t + j ≤ T", "Σ_j 1[t + j ≤ T] w_{t+j}",
                  "Σ_j w_{min(t+j, T)}"):
        assert problems(head + fixed + " : all", INDICES.replace("index n : batch(B)\n", "")) == []


@pytest.mark.parametrize(("text", "code"), [
    ("Σ_{s, s < t} x_{s+1}", None), ("Σ_{s ≤ t} x_{s+1}", "E0601"), ("Σ_{s < t} x_{t-s}", None),
    ("Σ_{s ≤ t} x_{t-s}", "E0601"),
    ("Σ_{s ≤ t} x_{t-s+1}", None), ("1[t > 1] x_{t-1}", None), ("1[t ≥ 1] x_{t-1}", "E0601"), ("x_{max(t-1, 1)}", None),
    ("x_{floor((t+1)/2)}", None), ("x_{ceil(t/2)}", None), ("x_{floor(t/2)}", "E0601"),
    ("1[t > 1 and t > 2] x_{t-2}", None),
    ("1[t > 2 or t = 2] x_{t-1}", None), ("1[not t ≤ 1] x_{t-1}", None), ("1[t = 3] x_{t-2}", None), ("x_{T}", None),
    ("x_{T+1-t}", None), ("Σ_s x_{abs(t - s) + 1}", None), ("Σ_s x_{abs(t - s)}", "E0601"),
    ("Σ_s x_{abs(t - s) + 2}", "E0601"),
    ("Σ_s x_{T - abs(t - s)}", None), ("Σ_s x_{abs(s) + T - abs(t)}", "E0601"), ("1[abs(t - 2) ≤ 1] x_{t}", None),
    ("1[abs(t + 1) ≤ 2] x_{t}", None), ("x_{2 T - abs(t - 2 T)}", None),
    ("x_{2*t}", "E0601"), ("1[2 t ≤ T] x_{2*t}", None), ("x_{t + 0}", None), ("x_1", None), ("x_2", "E0601"),
])
def test_ranges_are_proved(text: str, code: str | None) -> None:
    assert codes(f"input x_t\noutput y_t = {text} + 0 t : all") == ([] if code is None else [code])


PAIRS = "index i, j : feature(d_k / 2)\nindex p, q : feature(d_k) = (i a)\n"


@pytest.mark.parametrize(("text", "code"), [
    ("input x_t^p\noutput y_{t i}^a = x_t^{(i a)}", None), ("input x_t^p\noutput y_{t i}^a = x_t^{(a i)}", "E0401"),
    ("input x_t^p\noutput y_t^{(i a)} = x_t^{(i a)} + x_t^{(i b)} δ_b^a", None),
    ("input x_t^p\noutput y_t^q = x_t^q", None),
    ("input θ_i\nR_{t (i a)}^{(j b)} = δ_i^j cos(t θ_i) δ_a^b\ninput x_t^p\noutput y_t^q = x_t^p R_t_p^q", None),
    ("input x_t^p\noutput y_t = x_t^{(1 2)}", "E0601"), ("input x_t^{(j b)}\noutput y_t^p = x_t^p", None),
    ("input x_t^{(b j)}\noutput y_t^p = x_t^p", "E0210"),
])
def test_composites(text: str, code: str | None) -> None:
    assert codes(PAIRS + text) == ([] if code is None else [code])


PARTS = "index c : latent(C)\nindex ρ : feature(R)\nindex z : feature = c ⊕ ρ\n"


@pytest.mark.parametrize(("text", "code"), [
    ("input x_t^c, w_t^ρ, q_t^z\nk_t^z = x_t^c ⊕ w_t^ρ\noutput l_t = q_t^z k_{t z}", None),
    ("input k_t^z\noutput y_t^c = k_t^c", None),
    ("input k_t^z, x_t^c\noutput y_t = k_t^c x_{t c} + k_t^ρ k_{t ρ}", None),
    ("input x_t^c, w_t^ρ\nk_t^z = w_t^ρ ⊕ x_t^c", "E0604"), ("input x_t^c, w_t^ρ\nk_t^z = x_t^c", "E0301"),
    ("input x_t^c, w_t^ρ\nk_t^z = x_t^c ⊕ w_t^ρ ⊕ w_t^ρ", "E0604"),
    ("input x_t^c, w_t^ρ\nk_t^c = x_t^c ⊕ w_t^ρ", "E0604"),
    ("input x_t^c, w_t^ρ\nk_t^z = 2 (x_t^c ⊕ w_t^ρ)", "E0604"), ("input x_t^c, w_s^ρ\nk_t^z = x_t^c ⊕ w_s^ρ", "E0301"),
    ("index y : feature = ρ ⊕ c\ny = 1", "E0209"), ("index y : feature = c ⊕ c\ny = 1", "E0604"),
    ("index y : feature(9) = c ⊕ ρ\ny = 1", "E0604"),
    ("index y : feature = c ⊕ nothing\nq = 1", "E0215"),
    ("index y : feature = z ⊕ f\ninput k_t^y\noutput l_t^f = k_t^f", None),
])
def test_direct_sums(text: str, code: str | None) -> None:
    assert codes(PARTS + text, INDICES.replace("feature(2)", "head(2)")) == ([] if code is None else [code])


@pytest.mark.parametrize(("right", "tail", "code"), [
    ("x_t", "", None), ("x_t", ", u_t = 2 y_t", None), ("x_t + m", ", m := 3", None), ("Σ_s x_s", ", s ≤ t", None),
    ("Σ_{s'} x_{s'} + x_t", ", s' < t", None),
    ("x_t", ", s ≤ t", "E0506"), ("Σ_s x_s + x_t", ", doc_t = doc_s", "E0501"), ("x_t", ", 3", "E0110"),
    ("x_t", " with 3", "E0110"),
])
def test_commas(right: str, tail: str, code: str | None) -> None:
    assert codes(f"input x_t\ninput doc_t : int\noutput y_t = {right}{tail}") == ([] if code is None else [code])


def test_a_trailing_restriction_holds_for_the_whole_equation() -> None:
    head = "input L_{t s}, x_s\n"
    assert "max_{s', s' ≤ t}" in lines(head + "A_{t s} = softmax_s(L_{t s}), s ≤ t\noutput y_t = Σ_s A_{t s} x_s")[0]
    assert "Σ_{s, s ≤ t}" in line("input x_s\noutput y_t = Σ_s x_s, s ≤ t")


# §5: domains


MASKED = "input L_{t s}, M_{t s}, x_s\nmask L_{t s} : s ≤ t\n"


@pytest.mark.parametrize(("text", "code"), [
    ("output y_t = Σ_s softmax_s(L_{t s}) x_s", None), ("output y_t = Σ_s softmax_s(L_{t s} + M_{t s}) x_s", None),
    ("output y_t = Σ_s softmax_s(2 L_{t s} exp(M_{t s})) x_s", None),
    ("P_{t s} = exp(L_{t s})\noutput y_t = Σ_s P_{t s} x_s", None),
    ("output y_t = Σ_s softmax_s(M_{t s}) x_s", "E0503"), ("output y_t = Σ_s softmax_{s ≤ t}(M_{t s}) x_s", None),
    ("output y_t = Σ_s softmax_{s ∈ 1..T}(M_{t s}) x_s", None), ("output y_t = Σ_{s ≤ t} softmax_s(L_{t s}) x_s", None),
    ("output y_t = Σ_{s < t} softmax_s(L_{t s}) x_s", "E0508"), 
    ("output y_t = L_{t t}", "E0508"), ("output A_{t s} = softmax_s(L_{t s})", "E0507"),
    ("output y_t = Σ_s 1[s ≤ t] x_s", None),
    ("mask M_{t s} : s < t\noutput y_t = Σ_s (softmax_s(L_{t s}) + softmax_s(M_{t s})) x_s", "E0507"),
    ("mask M_{t s} : s < t\noutput y_t = (Σ_s softmax_s(L_{t s}) x_s) + Σ_s softmax_s(M_{t s}) x_s", None),
    ("mask M_{t s} : t ≥ s\noutput y_t = Σ_s (softmax_s(L_{t s}) + softmax_s(M_{t s})) x_s", None),
    ("mask L_{t s} : s > t - 4\noutput y_t = Σ_s softmax_s(L_{t s}) x_s", None),
    ("mask L_{t s} : t < 2 u\noutput y_t = Σ_s softmax_s(L_{t s}) x_s", "E0204"),
    ("output y_t = Σ_s softmax_s(1[s < t] L_{t s}) x_s", "E0505"), ("output y_t = max_s 1[s < t] L_{t s}", "E0505"),
    ("output y_t = max_s (1[s < t] + L_{t s})", "E0505"), ("output y_t = Σ_s 1[s < t] L_{t s}", "E0508"),
    ("mask M_{t s} : s ≤ t, t > 4\nm_t = max_s M_{t s}, t > 4\noutput y_t = Σ_s (M_{t s} - m_t) x_s", None),
    ("m_t = x_t, t > 4\noutput y_t = Σ_s (L_{t s} - m_t) x_s", "E0507"),
    ("output y_t = Σ_{s ≤ t, u > s} x_s", "E0506"), ("output y_t = Σ_s softmax_{s, s ≤ u}(L_{t s}) x_s", "E0506"),
])
def test_domains_are_types(text: str, code: str | None) -> None:
    assert codes(MASKED + text) == ([] if code is None else [code])


@pytest.mark.parametrize(("mask", "shown"), [
    ("s ≤ t", "s ≤ t"), ("t ≥ s", "s ≤ t"), ("s ∈ (t-4, t]", "t - 4 < s, s ≤ t"), ("s ∈ [t-4, t)", "t - 4 ≤ s, s < t"),
    ("s ∈ (t-4, …, t]", "t - 4 < s, s ≤ t"), ("t - 4 < s ≤ t", "t - 4 < s, s ≤ t"), ("s ≤ t, s ≠ 3", "s ≤ t, s ≠ 3"),
    ("s ≤ t and s ≠ 3", "s ≤ t, s ≠ 3"), ("s ≤ t or s = 3", "(s ≤ t) or (s = 3)"), ("not s > t", "s ≤ t"),
    ("not (s > t or s = 3)", "s ≤ t, s ≠ 3"),
    ("s ∈ {1, 4}", "(s = 1) or (s = 4)"), ("s ∈ 1..4", "s ≤ 4"), ("s ≤ t, s ≥ 1", "s ≤ t"),
    ("floor((t-1)/4) = floor((s-1)/4)", "floor((t - 1) / 4) = floor((s - 1) / 4)"),
])
def test_predicates(mask: str, shown: str) -> None:
    text = lines(f"input L_{{t s}}, x_s\nmask L_{{t s}} : {mask}\noutput y_t = Σ_s L_{{t s}} x_s : all")[-1]
    assert text == f"y_{{t}} = Σ_{{s, {shown}}} L_{{t s}} x_{{s}}"


def test_all_is_a_domain_and_override_replaces_masks() -> None:
    head = "dim W\ninput L_{t s}, x_s\n"
    tail = "\noutput y_t = Σ_s softmax_s(L_{t s}) x_s"
    assert "s ≤" not in line(f"{head}mask L_{{t s}} : all{tail}")
    assert "s ≤ t, s > " not in line(f"{head}mask L_{{t s}} : all\noverride mask L_{{t s}} : s ≤ t{tail}")
    both = line(f"{head}mask L_{{t s}} : s ≤ t\nmask L_{{t s}} : s > t - W{tail}")
    assert "s ≤ t, t - W < s" in both
    assert "t - W" not in line(f"{head}mask L_{{t s}} : s > t - W\noverride mask L_{{t s}} : s ≤ t{tail}")


def test_delta_is_a_number_or_a_gate() -> None:
    assert line("input x_d\noutput y^k = δ_d^k x^d") == "y^{k} = Σ_{d} 1[d = k] x_{d}"
    text = lines("input Q_{r t}, K_{r s}\nL_{r t, r' s} = Q_{r t} K_{r' s} δ_r^{r'}\n"
                 "output y_{r t} = Σ_{r' s} L_{r t, r' s}, s ≤ t")
    assert "r = r'" in text[0]
    assert "r = r'" in text[-1]


@pytest.mark.parametrize(("text", "code"), [
    ("output y_t = Σ_{s ≤ t} x_s", None), ("output y_t = Σ_{s ≥ t} x_s", "E0501"),
    ("output y_t = Σ_{s < t + 1} x_s", None),
    ("output y_t = Σ_{s ≤ t + 1} x_s", "E0501"), ("output y_t = x_t + Σ_s x_s", "E0501"),
    ("output y_t = x_t + Σ_s x_s : all", None),
    ("output y_t = x_t + Σ_{s ∈ 1..T} x_s", None), ("m = Σ_s x_s\noutput y_t = x_t / m", "E0501"),
    ("output m = Σ_s x_s", None),
    ("z_s = x_s + 1\noutput y_t = Σ_{s ≤ t} z_s", None),
    ("z_s = x_s + Σ_{u ≥ s} x_u\noutput y_t = Σ_{s ≤ t} z_s", "E0501"),
    ("input L_{t s}\nmask L_{t s} : s ≥ t\noutput y_t = Σ_s softmax_s(L_{t s}) x_s", "E0501"),
    ("input L_{t s}\nmask L_{t s} : all\noutput y_t = Σ_s softmax_s(L_{t s}) x_s", None),
    ("input L_{t s}\nmask L_{t s} : s ≤ t\nz_t = Σ_s softmax_s(L_{t s}) x_s\noutput y_t = z_t + Σ_s x_s", "E0501"),
    ("output y_t = 1[t < T] x_{t+1}", "E0501"), ("output y_t = 1[t > 1] x_{t-1}", None),
    ("index q : time(U)\ninput z_q\noutput y_t = x_t + Σ_q z_q", None),
    ("input p_t : int\noutput y_t = Σ_{s, s < p_t, p_t ≤ t} x_s", None),
    ("output y_t = Σ_{s, s < t/2 + 5} x_s", "E0501"),
    ("output y_t = Σ_{s, s < t/2 + 1/2} x_s", None), ("output y_t = x_{max(t-1, 1)}", None),
    ("output y_t = x_{min(t+1, T)}", "E0501"),
    ("output y_t = Σ_{s, s ≤ t or s ≤ t - 3} x_s", None), ("output y_t = Σ_{s, s ≤ t or s ≤ 3} x_s", "E0501"),
])
def test_causality(text: str, code: str | None) -> None:
    assert codes(f"input x_t\n{text}") == ([] if code is None else [code])


@pytest.mark.parametrize(("text", "code"), [
    ("output y_r^f = x_r^f + Σ_{r'} x_{r'}^f", "E0502"), ("output y_r^f = x_r^f + Σ_{r', r' = r} x_{r'}^f", None),
    ("output y_r^f = Σ_{r'} δ_r^{r'} x_{r'}^f", None), ("output y^f = Σ_{r'} x_{r'}^f", None),
    ("output y_r^f = x_r^f + Σ_{r', r' ≠ r} x_{r'}^f", "E0502"),
])
def test_isolation(text: str, code: str | None) -> None:
    assert codes(f"input x_r^f\n{text}") == ([] if code is None else [code])


@pytest.mark.parametrize(("domain", "code"), [
    ("(s ≤ t and n_s = n_t) or s = 1 and t ≥ 1", None), ("s ≤ t and n_s = n_t or s = 1", None),
    ("s ≤ t or n_s = n_t", "E0501"),
    ("s ≤ t and n_s = n_t or s = 2", "E0501"), ("n_s = n_t and (s < t or s = t)", None),
])
def test_a_condition_within_or_is_read_under_those_beside_it(domain: str, code: str | None) -> None:
    text = f"input x_t\ninput n_t : int\noutput y_t = Σ_{{s, {domain}}} x_s"
    assert codes(text) == ([] if code is None else [code])


def test_a_function_of_one_index_runs_over_the_parts_of_a_composite() -> None:
    """Over both parts it is what it is over the composite."""
    text = """index y, v : time(M)
index x, u : time(C)
index t, s : time(M C) = (y x)
input L_{t s}
mask L_{(y x) (v u)} : y = v
output A_{(y x)} = %s : all"""
    whole, parts = "Σ_s softmax_s(L_{(y x) s}) s", "Σ_{v, u} softmax_{v u}(L_{(y x) (v u)}) ((v - 1) C + u)"
    L = np.random.default_rng(0).standard_normal((6, 6))
    one, other = (einc.interpret(text % body, {"L": L}, {"M": 2, "C": 3})["A"] for body in (whole, parts))
    np.testing.assert_allclose(one, other, rtol=1e-12)


# §6: use and override


def used(folder: Path, **texts: str) -> list[str]:
    """The codes of the spec `top` beside the others."""
    for name, text in texts.items():
        (folder / f"{name}.ein").write_text(text, encoding="utf-8")
    report = Report()
    pipeline.check(pipeline.read_source(folder / "top.ein", report), report)
    return [p.code for p in report.sorted()]


BASE = """index t, s : time(T)
input x_t, L_{t s}
mask L_{t s} : s ≤ t
A_{t s} = softmax_s(L_{t s})
output y_t = Σ_s A_{t s} x_s
"""


@pytest.mark.parametrize(("top", "wanted"), [
    ('use "base"\noverride A_{t s} = L_{t s} / (Σ_{s\'} L_{t s\'})', []),
    ('use "base"\nA_{t s} = L_{t s}', ["E0209"]),
    ('use "base"\ninput x_t', []),
    ('use "base"\ninput x_t : big', ["E0210"]),
    ('use "base"\nindex t, s : time(T)', []),
    ('use "base"\nindex t : time(U)', []),
    ('use "base"\nuse "base"', []),
    ('use "base"\nuse "other"', []),
    ('use "missing"', ["E0212"]),
    ('use "base"\noverride mask L_{t s} : all', []),
    ('use "base"\nmask L_{t s} : s > t - 4', []),
    ('use "base"\ninput z_t\noverride x_t = 2 z_t', []),
    ('use "base"\ninput z_t\nx_t = 2 z_t', ["E0405"]),
    ('use "base"\ninput z_t\noverride z_t = x_t', ["E0405"]),
])
def test_use_makes_the_lines_of_a_spec_yours(tmp_path: Path, top: str, wanted: list[str]) -> None:
    assert used(tmp_path, base=BASE, other='use "base"\n', top=top) == wanted


def program(folder: Path, **texts: str) -> TypedProgram:
    assert used(folder, **texts) == []
    report = Report()
    found = pipeline.check(pipeline.read_source(folder / "top.ein", report), report)
    assert found is not None
    return found


def test_your_output_replaces_theirs(tmp_path: Path) -> None:
    made = program(tmp_path, base=BASE, top='use "base"\noutput z_t = 2 y_t')
    assert [name for name, _ in made.outputs] == ["z"]
    assert made.name == "top"
    assert made.source.endswith("top.ein")


def test_an_input_that_is_overridden_is_not_asked_for(tmp_path: Path) -> None:
    made = program(tmp_path, base=BASE, top='use "base"\ninput z_t\noverride L_{t s} = z_t z_s\noverride x_t = 2 z_t')
    assert [t.key for t in made.inputs()] == ["z"]
    assert any("s ≤ t" in equation_text(made, e) for e in made.equations if e.target == "L")


def test_an_override_leaves_the_mask(tmp_path: Path) -> None:
    made = program(tmp_path, base=BASE.replace("input x_t, L_{t s}", "input x_t\nL_{t s} = x_t x_s"),
                   top='use "base"\noverride L_{t s} = x_t - x_s')
    assert any("s ≤ t" in equation_text(made, e) for e in made.equations if e.target == "L")
    assert "x_{t} - x_{s}" in equation_text(made, made.equations[0])


@pytest.mark.parametrize(("name", "stem"), [
    ("a/b/my-spec.ein", "my_spec"), ("<text>", "text"), ("2x.ein", "spec_2x"), ("lambda.ein", "lambda_"),
    ("é.ein", "spec"),
    ("x", "x"),
])
def test_a_program_is_named_by_its_file(name: str, stem: str) -> None:
    found = pipeline.check(Source(name, "y = 1"), Report())
    assert found is not None
    assert (found.name, found.source) == (stem, name)
    assert found.name.isidentifier()


# show


@pytest.mark.drawn(17)
@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
@pytest.mark.parametrize("explicit", [False, True])
def test_a_shipped_spec_parses_back(file: Path, explicit: bool) -> None:
    if file.stem in ("fp8_block", "fp8_lm"):
        pytest.xfail("an output that is overridden in pairs is printed with the letter of its first equation")
    report = Report()
    made = pipeline.check(pipeline.read_source(file, report), report)
    assert made is not None
    assert meaning(typed(show(made, explicit), "")) == meaning(made)


ATOMS = ["x_t", "x_s", "z_t^f", "z_s^f", "w^f", "w_f", "A_{t s}", "c", "2", "0.5", "t", "s", "T", "k_t", "δ_t^s",
         "δ_f^{f'}",
         "z_t^{f'}", "B_{t f}^k"]


def expressions() -> st.SearchStrategy[str]:
    """Texts of small right sides, most of which some rule refuses."""
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", " ", " "]), inner).map(" ".join).map(lambda x: f"({x})"),
            st.tuples(inner, inner).map(lambda x: f"{x[0]} {x[1]}"),
            st.tuples(inner, inner).map(lambda x: f"({x[0]}) / ({x[1]})"),
            st.tuples(st.sampled_from(["exp", "tanh", "sqrt", "silu", "relu"]), inner).map(lambda x: f"{x[0]}({x[1]})"),
            st.tuples(st.sampled_from(["Σ_s", "Σ_{s ≤ t}", "max_{s < t}", "Σ_f", "Σ_{s, t - 3 < s ≤ t}",
                                       "min_{s ≤ t or s = 2}",
                                       "Σ_{f f'}", "prod_f"]), inner)
            .map(lambda x: f"({x[0]} {x[1]})"),
            st.tuples(st.sampled_from(["1[s ≤ t]", "1[t > 2, s < t]", "1[not (s = t and s > 2)]"]),
                      inner).map(lambda x: f"{x[0]} {x[1]}"),
            st.tuples(st.sampled_from(["softmax_{s ≤ t}", "softmax_s", "mean_f", "LN_f", "logsumexp_{s < t}"]),
                      inner).map(lambda x: f"{x[0]}({x[1]})"),
            inner.map(lambda x: f"({x})^2"), inner.map(lambda x: f"-({x})"), inner.map(lambda x: f"max({x}, 1, t)"),
        )
    return st.recursive(st.sampled_from(ATOMS), extend, max_leaves=6)


SMALL = "input x_t, z_t^f, w^f, A_{t s}, c, k_t, B_{t f}^k\nmask A_{t s} : s ≤ t\n"


@examples(50, 200, st.sampled_from(["y", "y_t", "y_t^f", "y_{t s}", "y_t^{f f'}", "y_{t f}^k"]), expressions(),
       st.sampled_from(["", ", s ≤ t", ", t > 2"]))
def test_any_program_parses_back(left: str, right: str, tail: str) -> None:
    report = Report()
    made = pipeline.check(Source("spec.ein", f"{INDICES}{SMALL}output {left} = {right}{tail} : all"), report)
    if made is None:
        assert report.errors
        return
    for explicit in (False, True):
        assert meaning(typed(show(made, explicit), "")) == meaning(made)


def test_show_names_what_no_index_names() -> None:
    text = PAIRS + "dim W\ninput x_{t i}^a\noutput y_t^{(i a)} = 1[t ≤ W] x_{t i}^a"
    shown = show(typed(text))
    assert "dim W" in shown
    assert "= (i a)" in shown
    assert meaning(typed(shown, "")) == meaning(typed(text))


def test_show_explicit_writes_every_range() -> None:
    program = typed("input p_d, q^d\ny = p_d q^d")
    assert "Σ_{d, d ∈ 1..d_k}" in show(program, explicit=True)


def test_reads_are_by_signature() -> None:
    program = typed("input A_{t s}^{(h)}, A_t^f as A2\noutput y_t^f = Σ_h A_{t t}^{(h)} A_t^f")
    found = {r.tensor for e in program.equations for r in reads(e.body)}
    assert found == {"A", "A2"}
    assert all(isinstance(r, Read) for e in program.equations for r in reads(e.body))
    assert Index("t", IndexSet("time", size("T"))) in program.equations[-1].indices
