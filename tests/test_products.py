"""Sums over features of what each pair of positions makes: values, gradients, and equal cost of equal formulas."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from helpers import arrays, assert_close, called, examples, meaning, tensors, typed
from hypothesis import strategies as st

import einc
from einc.driver import front, pipeline
from einc.driver.commands import hard
from einc.driver.reports.costing import account, modules
from einc.driver.reports.screen import screen
from einc.transforms.normal.products import left_whole

HEAD = """index h : head(H)
index t, s : time(T)
index k : feature(D)
index e : feature(E)
dim W
index r : latent(0..W)
index p : latent(0..2 W)
input q_{t h}^k, u_{s h}^k, v_s^e, g_t
weight c^k, a_r^k, b_{p h}^k
"""
# By pairs of equal formulas: the first as papers write it, the second as products of matrices.
PAIRS = {
    "a table added to keys": ("q_{t h}^k (u_{s h k} + a_{min(t - s, W)}_k)",
                              "q_{t h}^k u_{s h k} + Σ_r 1[min(t - s, W) = r] q_{t h}^k a_{r k}"),
    "a table on both sides": ("q_{t h}^k (u_{s h k} + b_{max(min(t - s, W), -W) + W, h}_k)",
                              "q_{t h}^k u_{s h k} + Σ_p 1[max(min(t - s, W), -W) + W = p] q_{t h}^k b_{p h k}"),
    "a table alone": ("q_{t h}^k a_{min(t - s, W)}_k", "Σ_r 1[min(t - s, W) = r] q_{t h}^k a_{r k}"),
    "a gate of rows": ("Σ_k q_{t h}^k (u_{s h}^k + g_t c^k)", "q_{t h}^k u_{s h k} + g_t q_{t h}^k c_k"),
    "a square": ("Σ_k (exp(q_{t h}^k) + abs(u_{s h}^k))^2",
                 "Σ_k exp(q_{t h}^k)^2 + 2 (Σ_k exp(q_{t h}^k) abs(u_{s h}^k)) + Σ_k (u_{s h}^k)^2"),
    "two sums": ("Σ_k (q_{t h}^k + c^k) (u_{s h}^k + c^k + g_t)",
                 "Σ_k (q_{t h}^k + c^k) (u_{s h}^k + c^k) + Σ_k (q_{t h}^k + c^k) g_t"),
    "two sums with all letters": ("Σ_k (exp(q_{t h}^k) + abs(u_{s h}^k)) (abs(g_t) + 1 + exp(u_{s h}^k))",
                                  "Σ_k exp(q_{t h}^k) (abs(g_t) + 1) + Σ_k exp(q_{t h}^k) exp(u_{s h}^k) + "
                                  "Σ_k abs(u_{s h}^k) (abs(g_t) + 1) + Σ_k abs(u_{s h}^k) exp(u_{s h}^k)"),
    "a number and a sign": ("-2 q_{t h}^k (u_{s h k} + a_{min(t - s, W)}_k)",
                            "-2 q_{t h}^k u_{s h k} - 2 (Σ_r 1[min(t - s, W) = r] q_{t h}^k a_{r k})"),
}
SIZES = [{"H": 2, "T": 7, "D": 3, "E": 2, "W": 3}, {"H": 1, "T": 3, "D": 2, "E": 1, "W": 5},
         {"H": 2, "T": 1, "D": 1, "E": 2, "W": 1}]


def text(body: str) -> str:
    """A text whose logits are the body."""
    return (f"{HEAD}mask L_{{h t s}} : s ≤ t\nL_{{h t s}} = {body}\n"
            "output y_{h t}^e = Σ_s softmax_s(L_{h t s}) v_s^e\n")


def apart(body: str) -> bool:
    """Whether no value of the normal form has features for each pair of positions."""
    program = pipeline.normal(typed(text(body)))
    return not any({"t", "s", "k"} <= {i.name for i in e.indices} for e in program.equations)


def compiled(body: str, sizes: Iterable[dict[str, int]] = SIZES) -> None:
    """The compiled text and its normal form mean what the interpreter says of the text as it is written."""
    program = typed(text(body))
    function, normal = einc.compile(text(body), backend="torch"), pipeline.normal(program)
    asked = {tensor.key for tensor in normal.inputs()}
    for known in sizes:
        inputs = arrays(program, known, {}, 0)
        want = meaning(program, inputs, known)
        given_ = {key: x for key, x in inputs.items() if key in asked}
        assert_close(meaning(normal, given_, known), want, 1e-12, 1.0)
        assert_close(called(function, program, tensors(inputs), known), want, 1e-12, 1.0)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", PAIRS)
def test_equal_formulas_mean_the_same_and_cost_the_same(name: str) -> None:
    one, other = PAIRS[name]
    compiled(one)
    assert apart(one)
    known = SIZES[0]
    programs = [typed(text(x)) for x in (one, other)]
    inputs = arrays(programs[0], known, {}, 1)
    assert_close(meaning(programs[0], inputs, known), meaning(programs[1], inputs, known), 1e-12, 1.0)
    assert flops(one) <= 1.3 * flops(other)


def flops(body: str) -> float:
    """The operations of a plan at usual sizes."""
    ((title, module, count),) = modules(front.plan(typed(text(body))))
    ways = account(title, module, count, {"T": 512, "D": 64, "H": 8, "E": 64, "W": 16}, 4).ways
    return min(sum(float(part.cost.flops.at(part.known)) for part in way.parts) for way in ways)


ATOMS = ["q_{t h}^k", "u_{s h}^k", "c^k", "g_t", "a_{min(t - s, W)}^k", "b_{max(s - t, -W) + W, h}^k", "2", "u_{t h}^k"]


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A sum over features of products, sums, differences and squares of these."""
    def some(depth: int) -> str:
        if not depth:
            return draw(st.sampled_from(ATOMS))
        parts = [some(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        match draw(st.sampled_from(["product", "sum", "difference", "square"])):
            case "product":
                return " ".join(f"({x})" for x in parts)
            case "sum":
                return " + ".join(f"({x})" for x in parts)
            case "difference":
                return " - ".join(f"({x})" for x in parts)
        return f"({parts[0]})^2"

    return f"Σ_k 0.1 ({some(draw(st.integers(1, 3)))}) q_{{t h}}^k (u_{{s h}}^k + c^k)"


@examples(6, 40, body=bodies())
def test_drawn_sums(body: str) -> None:
    compiled(body, SIZES[:2])


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PAIRS)
def test_the_gradient(name: str) -> None:
    program, known = typed(text(PAIRS[name][0])), SIZES[0]
    function = einc.compile(text(PAIRS[name][0]), grad=True, backend="torch")
    inputs = tensors(arrays(program, known, {}, 2))
    leaves = {key: x.requires_grad_() for key, x in inputs.items() if x.is_floating_point()}

    def call(*given_: torch.Tensor) -> torch.Tensor:
        (y,) = called(function, program, {**inputs, **dict(zip(leaves, given_, strict=True))}, known).values()
        return y

    assert torch.autograd.gradcheck(call, tuple(leaves.values()))


CANCELLING = {
    "a distance": "Σ_k (q_{t h}^k - u_{s h}^k)^2",
    "a table": "q_{t h}^k (u_{s h k} - a_{min(t - s, W)}_k)",
    "a square": "Σ_k (q_{t h}^k + u_{s h}^k)^2",
    "two sums": "Σ_k (q_{t h}^k + u_{s h}^k) (v_s^1 + g_t + u_{s h}^k)",
    "one tensor": "Σ_k q_{t h}^k (q_{t h}^k + cos(3) q_{s h}^k)",
}


@pytest.mark.parametrize("body", CANCELLING.values(), ids=CANCELLING)
def test_what_a_difference_would_lose_is_told(body: str) -> None:
    assert not apart(body)
    assert "not done:" in screen(front.plan(typed(text(body))))
    compiled(body)


@pytest.mark.parametrize("body", ["Σ_k abs(q_{t h}^k - u_{s h}^k)", "q_{t h}^k u_{s h k}",
                                  "Σ_k (q_{t h}^k - c^k) (u_{s h}^k - c^k)"])
def test_what_is_no_product_of_matrices_and_what_is_one_needs_no_word(body: str) -> None:
    program = pipeline.normal(typed(text(body)))
    assert not list(left_whole(program, program.equations))


def test_a_named_sum_is_opened_where_it_is_there() -> None:
    named = text("q_{t h}^k M_{h t s k}").replace(
        "mask L", "M_{h t s}^k = u_{s h}^k + a_{min(t - s, W)}^k, s ≤ t\nmask L")
    program = typed(named)
    normal = pipeline.normal(program)
    assert not any({"t", "s", "k"} <= {i.name for i in e.indices} for e in normal.equations)
    inputs = arrays(program, SIZES[0], {}, 0)
    want = meaning(program, inputs, SIZES[0])
    assert_close(called(einc.compile(named, backend="torch"), program, tensors(inputs), SIZES[0]), want, 1e-12, 1.0)


@pytest.mark.parametrize("line", ["z_{s h}^k = -q_{s h}^k", "z_{s h}^k = (0 - 1) q_{s h}^k",
                                  "z_{s h}^k = 1 - q_{s h}^k"])
@pytest.mark.parametrize("body", ["Σ_k (q_{t h}^k + z_{s h}^k)^2", "Σ_k q_{t h}^k (q_{t h}^k + z_{s h}^k)"])
def test_a_difference_behind_a_name_keeps_its_digits(line: str, body: str) -> None:
    head = "index h : head(H)\nindex t, s : time(T)\nindex k : feature(D)\ninput q_{t h}^k\n"
    program = typed(f"{head}{line}\noutput y_{{h t s}} = {body} : all")
    normal = pipeline.normal(program)
    assert any({"t", "s", "k"} <= {i.name for i in e.indices} for e in normal.equations)


def test_a_table_as_long_as_the_text_is_read_first() -> None:
    """A product with all rows of such a table would store pairs of positions."""
    long = text("q_{t h}^k a_{min(t - s, W)}_k").replace("r : latent(0..W)", "r : time(0..T)")
    program = pipeline.normal(typed(long.replace("min(t - s, W)", "t - s")))
    assert any({"t", "s", "k"} <= {i.name for i in e.indices} for e in program.equations)


def worst(spec: str, runs: str = "") -> float:
    """The largest error of a text on inputs of many magnitudes, as a multiple of the eager one; or that of another text
    that `runs` in its place.
    """
    program = typed(spec)
    used = {name for slot in (s for x in program.inputs() for s in x.slots) for name in slot.set.extent.sizes}
    known = {key: n for key, n in {"H": 2, "T": 6, "D": 8, "E": 2, "W": 3}.items() if key in used}
    function = einc.compile(runs or spec, backend="torch")
    base = {key: x.float() for key, x in tensors(arrays(program, known, {}, 3)).items()}

    def call(given_: hard.Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        made: dict[str, torch.Tensor] = called(function, program, dict(given_), known)
        return made

    found = hard.tried(program, base, known, "float32", 0, call, lambda: None)
    return max(x.ratio for x in found.values())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["a table added to keys", "a square", "two sums"])
def test_digits_of_many_magnitudes(name: str) -> None:
    """What is pulled apart has no error beyond four times that of an eager evaluation of the text as it is written."""
    assert worst(text(PAIRS[name][0])) <= 4


def test_a_table_of_places_in_a_block_is_read_first() -> None:
    """Each position is in one block: a product with every row of the table would take as many times the work."""
    text_ = """index s : time(T)
index j : time(J)
index d, e : feature(D)
dim B
index i : latent(1..B)
input x_s^d
weight φ_i^{d e}
output c_j^e = Σ_{s ∈ (j B - B, j B]} φ_{s - (j B - B)}^{d e} x_{s d} : all
"""
    program = pipeline.normal(typed(text_))
    assert not any({"i"} & {i.name for i in e.indices} for e in program.equations)


def test_a_distance_pulled_apart_would_lose_digits() -> None:
    """Why the plan says `not done`: by hand it is further off than a law may be."""
    head = "index h : head(H)\nindex t, s : time(T)\nindex k : feature(D)\ninput q_{t h}^k, u_{s h}^k\n"
    written, by_hand = (f"{head}output y_{{h t s}} = {body} : all\n" for body in (
        "Σ_k (q_{t h}^k - u_{s h}^k)^2", "Σ_k (q_{t h}^k)^2 + Σ_k (u_{s h}^k)^2 - 2 q_{t h}^k u_{s h k}"))
    assert worst(written) <= 4 < worst(written, by_hand)
