"""Values of pairs of positions that no pass can do without, a block of rows at a time: their numbers and gradients, and
what plans and costs say of them."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import arrays, assert_close, called, meaning, tensors, typed
from triton_modes import interpreted

import einc
from einc.backends.host import loops
from einc.driver import pipeline
from einc.driver.gradients import gradient
from einc.driver.reports.costing import account, modules
from einc.driver.reports.growth import growth
from einc.ir.plan import Gradient, RowBlocks
from einc.planning import plan
from einc.planning.row_blocks import pairs

HEAD = ("index t, s, u : time(T)\nindex d, e : feature(D)\nindex h : head(H)\n"
        "input q_{t h}^d, k_{s h}^d, v_{s h}^d\n")
PAIRS = {
    "stick": "b_{h t s} = sigmoid(q_{t h}^e k_{s h e})\n"
             "output y_{t h}^d = Σ_{s < t} b_{h t s} (∏_{u ∈ (s, t)} (1 - b_{h t u})) v_{s h}^d",
    "gates of both signs": "b_{h t s} = q_{t h}^e k_{s h e}\n"
                           "output y_{t h}^d = Σ_{s ≤ t} (∏_{u ∈ (s, t]} b_{h t u}) v_{s h}^d",
    "all positions": "b_{h t s} = q_{t h}^e k_{s h e}\n"
                     "output y_{t h}^d = Σ_s b_{h t s} (∏_{u, u > s} tanh(b_{h t u})) v_{s h}^d : all",
    "sums between": "b_{h t s} = q_{t h}^e k_{s h e}\n"
                    "L_{h t s} = b_{h t s} + Σ_{u ∈ (s, t]} sigmoid(b_{h t u})\n"
                    "output y_{t h}^d = Σ_{s ≤ t} softmax_{s ≤ t}(L_{h t s}) v_{s h}^d",
    "a number of each row between": "b_{h t s} = q_{t h}^e k_{s h e}\n"
                                    "P_{h t s} = b_{h t s} ∏_{u ∈ (s, t)} tanh(b_{h t u})\n"
                                    "n_{h t} = 1 + Σ_{s ≤ t} P_{h t s}^2\n"
                                    "output y_{t h}^d = Σ_{s ≤ t} (P_{h t s} / n_{h t}) v_{s h}^d",
    "two in turn": "b_{h t s} = q_{t h}^e k_{s h e}\n"
                   "x_{t h}^d = Σ_{s < t} (∏_{u ∈ (s, t)} tanh(b_{h t u})) v_{s h}^d\n"
                   "c_{h t s} = x_{t h}^e k_{s h e}\n"
                   "output y_{t h}^d = Σ_{s < t} (∏_{u ∈ (s, t)} tanh(c_{h t u})) x_{s h}^d",
}
NAMES = [*PAIRS]
DERIVED = ["stick", "sums between"]  # the gradients of other gates go through a loop over positions, which stores pairs


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five rows, so that few positions need several."""
    monkeypatch.setattr(loops, "LEAST_ROWS", 5)
    monkeypatch.setattr(loops, "PAIRS", 0)


def stick_breaking(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Position by position, from each one back: "Scaling Stick-Breaking Attention" as a loop in plain torch."""
    rows = []
    for t in range(len(q)):
        made, left = torch.zeros_like(v[0]), torch.ones_like(q[0, :, 0])
        for s in range(t - 1, -1, -1):
            share = torch.sigmoid((q[t] * k[s]).sum(-1))
            made, left = made + (share * left)[:, None] * v[s], left * (1 - share)
        rows.append(made)
    return torch.stack(rows)


def drawn(count: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(count)
    q, k, v = (torch.randn(count, 2, 3, dtype=torch.float64) for _ in range(3))
    return (scale * q).requires_grad_(), k.requires_grad_(), v.requires_grad_()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("backend", "count", "scale"), [("torch", 1, 1.0), ("torch", 5, 1.0), ("torch", 23, 1.0),
                                                         ("torch", 23, 200.0), ("cpp", 23, 200.0)])
def test_stick_breaking_is_that_of_a_loop_in_plain_torch(backend: str, count: int, scale: float) -> None:
    """Shares of 0 and of 1 among them, which leave nothing of the stick."""
    given_, text = drawn(count, scale), f"{HEAD}{PAIRS['stick']}"
    want, weight = stick_breaking(*given_), torch.randn(count, 2, 3, dtype=torch.float64)
    with torch.no_grad():
        got = einc.compile(text, backend)(*given_)
    assert (got - want).abs().max() <= 1e-10
    made = einc.compile(text, backend, grad=True)(*given_)
    assert (made - want).abs().max() <= 1e-10
    if count > 1:
        slopes = torch.autograd.grad((want * weight).sum(), given_)
        for ours, theirs in zip(torch.autograd.grad((made * weight).sum(), given_), slopes, strict=True):
            assert (ours - theirs).abs().max() <= 1e-10 * max(1.0, float(theirs.abs().max()))


@pytest.mark.usefixtures("few")
def test_stick_breaking_by_triton_is_that_of_a_loop_in_plain_torch() -> None:
    given_, weight = drawn(11), torch.randn(11, 2, 3, dtype=torch.float64)
    want = stick_breaking(*given_)
    with interpreted():
        made = einc.compile(f"{HEAD}{PAIRS['stick']}", "triton", grad=True)(*given_)
        found = torch.autograd.grad((made * weight).sum(), given_)
    assert (made - want).abs().max() <= 1e-10
    for ours, theirs in zip(found, torch.autograd.grad((want * weight).sum(), given_), strict=True):
        assert (ours - theirs).abs().max() <= 1e-10


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_rows_mean_what_the_text_means(name: str) -> None:
    program, function = typed(HEAD + PAIRS[name]), einc.compile(HEAD + PAIRS[name], "torch")
    for count in (0, 1, 5, 13):
        sizes = {"T": count, "D": 2, "H": 2}
        inputs = arrays(program, sizes, {}, count)
        assert_close(called(function, program, tensors(inputs), sizes), meaning(program, inputs, sizes), 1e-10, 1.0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_blocks_are_those_of_differences(name: str) -> None:
    function, given_ = einc.compile(HEAD + PAIRS[name], "torch", grad=True), drawn(7, 0.5)
    assert torch.autograd.gradcheck(function, given_, atol=1e-6)


@pytest.mark.parametrize(("name", "grad"), [*((name, False) for name in NAMES), *((name, True) for name in DERIVED)])
def test_plans_say_that_memory_grows_with_positions(name: str, grad: bool) -> None:
    program = typed(HEAD + PAIRS[name])
    made = gradient(program) if grad else plan(pipeline.normal(program))
    halves = (made.forward, made.backward) if isinstance(made, Gradient) else (made,)
    assert any(isinstance(step, RowBlocks) for half in halves for step in half.steps)
    for half in halves:
        assert not pairs(half) and not any("stores pairs" in line for line in growth(half))
    for title, module, count in modules(made):
        way = account(title, module, count, {}, 4).ways[0]
        powers = [dict(mono).get("T", 0) for extent in way.peak for mono, _ in extent.terms]
        assert max(powers, default=0) <= 1


def test_lengths_of_blocks_are_those_that_a_file_takes() -> None:
    made = plan(pipeline.normal(typed(HEAD + PAIRS["stick"])))
    (step,) = (one for one in made.steps if isinstance(one, RowBlocks))
    assert step.rows.lengths({"T": 100, "H": 2}) == {"rows": 100}
    assert step.rows.lengths({"T": 2**15, "H": 2}) == {"rows": 64}
    assert step.rows.lengths({"T": 2**12, "H": 2}) == {"rows": 512}
    assert step.rows.lengths({"T": 100}) == {}
    source = einc.compile(HEAD + PAIRS["stick"], "torch").source
    assert re.search(r"max\(64, 4194304 // max\(1, (H \* T|T \* H)\)\)", source)


def test_what_a_caller_asks_for_is_whole() -> None:
    """Pairs that are an output are stored; what is made of them besides is not."""
    text = f"{HEAD}b_{{h t s}} = tanh(q_{{t h}}^e k_{{s h e}})\noutput P_{{h t s}} = ∏_{{u ∈ (s, t)}} b_{{h t u}} : all"
    program, sizes = typed(text), {"T": 7, "D": 2, "H": 2}
    inputs = arrays(program, sizes, {}, 0)
    assert_close(called(einc.compile(text, "torch"), program, tensors(inputs), sizes),
                 meaning(program, inputs, sizes), 1e-10, 1.0)


@pytest.mark.usefixtures("few")
def test_what_stands_after_blocks_takes_no_name_of_what_stands_before() -> None:
    """The gradient's sum over places, which is made after the blocks, had the name of a value that is made before."""
    text = ("index t, s, u : time(T)\nindex d : feature(D)\ninput k_t^d\n"
            "output y_{t d} = prod_{s} tanh(prod_{u, s ≥ t} tanh(k_{max(t - 2, 1), d})) : all\n")
    keys = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    places = torch.arange(7)
    read = keys[(places - 2).clamp(min=0)].tanh()[:, None]
    inner = torch.where((places[:, None] <= places)[:, :, None], read ** 7, 1.0)
    (want,) = torch.autograd.grad(inner.tanh().prod(1).sum(), [keys])
    (found,) = torch.autograd.grad(einc.compile(text, "torch", grad=True)(k=keys).sum(), [keys])
    torch.testing.assert_close(found, want)
