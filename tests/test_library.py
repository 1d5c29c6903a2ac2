"""Rows of a library: used where the equations are those of the kernel, in whatever spelling, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

import einc
from einc.backends.host.runtime.values import _in_parts
from einc.driver import compiling, gradients, library
from einc.driver.checking import typed
from einc.driver.front import Compiled
from einc.ir.choices import LibraryRow
from einc.ir.plan import Call, Gradient, PerRequest, leaves

HEAD = """
index n : batch(B)
index h : head(H)
index g : head(G)
index t, s : time(T)
index d, k : feature(D)
index e : feature(E)
map π(h) = ceil(h G / H) : g
input Q_{n h t}^d, K_{n h s}^d, V_{n h s}^d, k_{n g s}^d, v_{n g s}^d, U_{n h s}^e, b_{n h s}
mask L_{n h t s} : s ≤ t
"""
LOGITS = "L_{n h t s} = 1/√D Q_{n h t}^k K_{n h s k}\n"
SAME = {
    "as the row": LOGITS + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "factors in another order": LOGITS.replace("Q_{n h t}^k K_{n h s k}", "K_{n h s}^k Q_{n h t k}")
    + "output Y_{n h t}^d = Σ_s V_{n h s}^d softmax_s(L_{n h t s})",
    "by hand": LOGITS
    + "z_{n h t} = Σ_s exp(L_{n h t s})\noutput Y_{n h t}^d = Σ_s exp(L_{n h t s}) V_{n h s}^d / z_{n h t}",
    "shared heads": LOGITS.replace("K_{n h s k}", "k_{n, π(h), s k}")
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) v_{n, π(h), s}^d",
    "a result in other axes": LOGITS + "output Y_{t n h}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
}
OTHER = {
    "another scale": LOGITS.replace("1/√D", "2/√D") + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "another domain": LOGITS
    + "mask L_{n h t s} : t - s < 3\noutput Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "an addend": LOGITS.strip() + " + b_{n h s}\noutput Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "another width": LOGITS + "output Y_{n h t}^e = Σ_s softmax_s(L_{n h t s}) U_{n h s}^e",
    "heads shared in one operand": LOGITS.replace("K_{n h s k}", "k_{n, π(h), s k}")
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "a second result": LOGITS
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d\noutput l_{n h t} = logsumexp_s(L_{n h t s})",
}


def calls(text: str, **options: bool) -> list[str]:
    return [step.library.name for step in leaves(einc.compile(HEAD + text, **options).plan.steps)
            if isinstance(step, Call)]


def test_the_spec_of_a_row_is_read_where_a_plan_may_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without a pass over a domain asks for none, one that a row computes for no later row; of rows of a
    gradient those whose kernels have as many results.
    """
    asked: list[str] = []

    def noted(row: LibraryRow) -> LibraryRow:
        return LibraryRow(row.results, lambda: asked.append(row.kernel().library.call) or row.kernel())

    rows, halves = (tuple(map(noted, made())) for made in (library.library, gradients.library_with_halves))
    monkeypatch.setattr(compiling, "library", lambda: rows)
    monkeypatch.setattr(gradients, "library_with_halves", lambda: halves)
    einc.compile("index t : time(T)\ninput x_t\noutput y_t = tanh(x_t)", "torch")
    assert asked == []
    einc.compile(HEAD + SAME["as the row"], "torch")
    assert len(asked) == 1 and "is_causal=True" in asked[0]
    asked.clear()
    einc.compile(HEAD + SAME["as the row"], "torch", grad=True)
    assert [call.partition("(")[0].rpartition(".")[2] for call in asked] == [
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
        "scaled_dot_product_attention"]


def test_every_row_gives_as_many_results_as_it_says() -> None:
    assert [len(row.kernel().results) for row in gradients.library_with_halves()] == [
        row.results for row in gradients.library_with_halves()]


@pytest.mark.parametrize("spelling", SAME)
def test_one_thing_in_every_spelling(spelling: str) -> None:
    assert calls(SAME[spelling]) == ["library/causal"]
    assert calls(SAME[spelling], own=True) == []


@pytest.mark.parametrize("spelling", OTHER)
def test_what_is_not_the_same_is_not_called(spelling: str) -> None:
    assert calls(OTHER[spelling]) == []


WEIGHED = """
index t : time(T)
index s : time({})
index d, k : feature(D)
dim P
input Q_t^d, K_s^d, V_s^d
output Y_t^d = Σ_s exp(Q_t^k K_{{s k}}) V_s^d : all
"""


@pytest.mark.parametrize(("length", "called"), [("P + T", 1), ("T + P", 1), ("S", 0), ("P + 2 T", 0), ("T", 0)])
def test_a_size_of_several_is_that_of_the_row(length: str, called: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the row names P is told by nothing but the whole, so the whole decides."""
    made = library.made_row({"spec": "sums", "call": "torch.sums({Q}, {K}, {V})", "where": "True"},
                            typed(WEIGHED.format("P + T")))
    monkeypatch.setattr(compiling, "library", lambda: (LibraryRow(1, lambda: made),))
    plan = einc.compile(WEIGHED.format(length), "torch").plan
    assert sum(isinstance(step, Call) for step in leaves(plan.steps)) == called


@pytest.mark.drawn(4)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1), (6, 4)])
@pytest.mark.parametrize("spelling", SAME)
def test_the_call_gives_what_the_kernel_gives(spelling: str, heads: tuple[int, int]) -> None:
    H, G = heads
    torch.manual_seed(H + G)
    shapes = {"Q": (2, H, 7, 4), "K": (2, H, 7, 4), "V": (2, H, 7, 4), "k": (2, G, 7, 4), "v": (2, G, 7, 4)}
    module = einc.compile(HEAD + SAME[spelling])
    asked = {tensor.key for tensor in module.plan.inputs}
    given = {name: torch.randn(shape) for name, shape in shapes.items() if name in asked}
    wide = {name: tensor.double() for name, tensor in given.items()}
    torch.testing.assert_close(module(**given).double(), module(**wide), rtol=1e-5, atol=1e-5)


# gradients: both halves, each a call of several results


def halves(text: str, **options: bool) -> list[list[str]]:
    plan = einc.compile(HEAD + text, grad=True, **options).plan
    assert isinstance(plan, Gradient)
    return [[step.library.name for step in leaves(half.steps) if isinstance(step, Call)]
            for half in (plan.forward, plan.backward)]




ONE = "heads shared in one operand"  # is repeated
ALSO = {**SAME, ONE: OTHER[ONE]}
EVERYWHERE = HEAD.replace("mask L_{n h t s} : s ≤ t",
                          "index u : time(S)\ninput X_{n h u}^d, Z_{n h u}^d\nmask M_{n h t u} : all")
EVERYWHERE += "M_{n h t u} = 1/√D Q_{n h t}^k X_{n h u k}\noutput Y_{n h t}^d = Σ_u softmax_u(M_{n h t u}) Z_{n h u}^d"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("spelling", ALSO)
def test_both_halves_in_every_spelling(spelling: str) -> None:
    assert halves(ALSO[spelling]) == [["library/causal"], ["library/causal"]]
    assert halves(ALSO[spelling], own=True) == [[], []]


@pytest.mark.parametrize("spelling", [name for name in OTHER if name not in ("a second result", ONE)])
def test_a_gradient_of_something_else_is_not_called(spelling: str) -> None:
    assert halves(OTHER[spelling]) == [[], []]


def test_a_gradient_of_two_results_is_not_called() -> None:
    """What comes in for the logarithm has a part in the gradient, of which the row knows nothing."""
    assert halves(OTHER["a second result"])[1] == []


def test_what_only_the_kernel_reads_is_made_where_the_kernel_runs() -> None:
    plan = einc.compile(HEAD + ALSO["as the row"], grad=True).plan
    assert isinstance(plan, Gradient)
    (call,) = plan.backward.steps
    assert isinstance(call, Call) and call.kernel is call.steps[-1] and len(call.steps) > 1
    assert {*call.writes} == {made for _, made in plan.gradients}


Laid = Callable[[torch.Tensor], torch.Tensor]
LAID: dict[str, Laid] = {
    "as they are": lambda x: x,
    "positions outside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "features outside": lambda x: x.transpose(1, 3).contiguous().transpose(1, 3),
    "one number": lambda x: x[:1, :1, :1, :1].expand(x.shape),
}


@pytest.mark.drawn(10)
@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("spelling", ALSO)
@pytest.mark.parametrize(("shape", "groups", "dtype"), [
    ((2, 4, 7, 4), 2, torch.float32), ((1, 2, 40, 8), 1, torch.bfloat16), ((2, 3, 5, 4), 2, torch.float32),
    ((2, 3, 0, 4), 3, torch.float32)])
def test_gradients_are_those_of_float64(spelling: str, laid: str, shape: tuple[int, ...], groups: int,
                                        dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    module = _compiled(ALSO[spelling])
    assert isinstance(module.plan, Gradient)
    names = [tensor.key for tensor in module.plan.forward.inputs]
    shapes = [(shape[0], groups, *shape[2:]) if name in "kv" else shape for name in names]
    given = [LAID[laid](torch.randn(x)).to(dtype).requires_grad_() for x in shapes]
    wide = [x.detach().double().requires_grad_() for x in given]
    small, exact = (module(**dict(zip(names, x, strict=True))) for x in (given, wide))
    above = LAID[laid](torch.randn(exact.shape)).to(dtype)
    found = torch.autograd.grad(small, given, above)
    bound = 1e-5 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(small.double(), exact, rtol=bound, atol=bound)
    for mine, theirs in zip(found, torch.autograd.grad(exact, wide, above.double()), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=bound, atol=bound)


@cache
def _compiled(text: str) -> Compiled:
    return einc.compile(HEAD + text, grad=True)


def test_a_gradient_over_other_positions() -> None:
    torch.manual_seed(5)
    module = einc.compile(EVERYWHERE, grad=True)
    assert isinstance(module.plan, Gradient)
    assert [step.library.name for step in leaves(module.plan.backward.steps)
            if isinstance(step, Call)] == ["library/full"]
    for many in (5, 0):
        given = {name: torch.randn(2, 3, n, 4).requires_grad_() for name, n in {"Q": 7, "X": many, "Z": many}.items()}
        wide = {name: x.detach().double().requires_grad_() for name, x in given.items()}
        found, exact = (torch.autograd.grad(module(**data).sum(), list(data.values())) for data in (given, wide))
        for mine, theirs in zip(found, exact, strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-5)


def test_results_that_differ_by_a_number_are_scaled() -> None:
    """What follows the gradient of Q takes the scale of the logits to itself."""
    torch.manual_seed(6)
    module = einc.compile("mla", grad=True)
    assert isinstance(module.plan, Gradient)
    (call,) = (step for step in leaves(module.plan.backward.steps) if isinstance(step, Call))
    assert call.scales
    sizes = {"B": 2, "T": 6, "H": 2, "d_k": 4, "d_model": 8, "d_ff": 16, "r": 3}
    given = {t.key: torch.randn([int(s.set.extent.at(sizes)) for s in t.slots]) * 0.3
             for t in module.plan.forward.inputs}
    wide = {key: x.double() for key, x in given.items()}
    found, exact = [], []
    for data, out in ((given, found), (wide, exact)):
        leaves_ = {key: x.requires_grad_() for key, x in data.items()}
        out += torch.autograd.grad(module(**leaves_).square().sum(), list(leaves_.values()))
    for mine, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-3, atol=1e-4)


# one position after those of a cache

GENERATED = {
    "each head its own": HEAD + SAME["as the row"],
    "shared heads": HEAD + SAME["shared heads"],
}


def served(text: str, **options: bool) -> list[str]:
    steps = einc.compile(text, plan="serve", **options).plan.steps
    own = [inner for step in steps for inner in (step.body.steps if isinstance(step, PerRequest) else (step,))]
    return [step.library.name for step in leaves(own) if isinstance(step, Call)]


@pytest.mark.parametrize("name", GENERATED)
def test_a_step_calls_what_one_position_at_the_end_is(name: str) -> None:
    assert served(GENERATED[name]) == ["library/latest"]
    assert served(GENERATED[name], own=True) == []


@pytest.mark.parametrize("name", OTHER)
def test_a_step_of_something_else_calls_nothing(name: str) -> None:
    assert served(HEAD + OTHER[name]) == []


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1), (6, 4), (1, 1)])
@pytest.mark.parametrize("name", GENERATED)
def test_steps_that_call_give_what_the_kernel_gives(name: str, heads: tuple[int, int], dtype: torch.dtype) -> None:
    H, G = heads
    torch.manual_seed(H + G)
    shapes = {"Q": (2, H, 9, 4), "K": (2, H, 9, 4), "V": (2, H, 9, 4), "k": (2, G, 9, 4), "v": (2, G, 9, 4)}
    module, own = (einc.compile(GENERATED[name], plan="serve", own=own) for own in (False, True))
    asked = {tensor.key for tensor in module.plan.inputs}
    given = {key: torch.randn(shape).to(dtype) for key, shape in shapes.items() if key in asked}
    found: list[torch.Tensor] = []
    for each in (module, own):
        parts = [{key: x[:, :, first:last] for key, x in given.items()}
                 for first, last in ((0, 1), (1, 5), (5, 6), (6, 9))]
        y, cache = each.prefill(**parts[0], chunk=4)
        found.append(torch.cat([y, *(each(cache, **part) for part in parts[1:])], 2))
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(*found, rtol=bound, atol=bound)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("length", [1, 1023, 2048, 4099, 9001])
@pytest.mark.parametrize("heads", [(1, 1, 4), (2, 1, 1), (1, 3, 2)])
def test_parts_of_the_past_are_merged(heads: tuple[int, int, int], length: int, threads: int,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """As many parts as there are processors without rows, none of them short, give what all of the past gives."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    B, G, rows = heads
    torch.manual_seed(length)
    x, room = torch.randn(B, G, rows, 8), torch.randn(2, B, G, length + 3, 8)
    k, v = room[0, :, :, :length], room[1, :, :, :length]
    lengths: list[int] = []

    def call(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.append(given[1].shape[2])
        logits = given[0] @ given[1].mT
        return torch.softmax(logits, -1) @ given[2], logits.logsumexp(-1)

    want = torch.softmax(x @ k.mT, -1) @ v
    torch.testing.assert_close(_in_parts(call, x, k, v), want, rtol=1e-4, atol=1e-5)
    assert (length not in lengths) == (threads >= 2 * B * G and length >= 2048)
    pieces = (iter(p.split((length + 1) // 2, 2)) for p in (k, v))
    torch.testing.assert_close(_in_parts(call, x, *pieces), want, rtol=1e-4, atol=1e-5)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        narrow = [z.to(dtype) for z in (x, k, v)]
        wide = torch.nn.functional.scaled_dot_product_attention(*(z.double() for z in narrow))
        found = _in_parts(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, *narrow)
        torch.testing.assert_close(found.double(), wide, rtol=bound, atol=bound)
