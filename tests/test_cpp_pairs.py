"""Compiled folds over features of what each row makes with each position, against the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cpp_texts import NEEDED, emitted, kernels, loaded
from helpers import arrays, examples, meaning, tensors, typed
from hypothesis import strategies as st
from random_programs import numbered
from test_cpp import BOUNDS, TYPES, near

import einc
from einc.driver import front, gradients
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]
HEAD = """index h : head(H)
index t, s : time(T)
index k : feature(D)
index p : feature(P)
index e : feature(E)
input q_{t h}^k, u_{s h}^k, v_s^e, g_t, w_s, x_{t h p k}, y_{s p}
weight c^k, a_r^k
dim W
index r : latent(0..W)
"""
BODIES = {
    "a distance": "-(Σ_k (q_{t h}^k - u_{s h}^k)^2)",
    "a sum of differences": "-(Σ_k abs(q_{t h}^k - u_{s h}^k))",
    "an additive score": "Σ_k c^k tanh(q_{t h}^k + u_{s h}^k)",
    "a largest difference": "-max_k abs(q_{t h}^k - u_{s h}^k)",
    "a least product": "min_k (q_{t h}^k + g_t) u_{s h}^k",
    "a product of features": "∏_k (1 + 0.1 tanh(q_{t h}^k - u_{s h}^k))",
    "a condition on the data": "Σ_k 1[q_{t h}^k < u_{s h}^k] c^k + g_t w_s",
    "a table": "Σ_k c^k tanh(q_{t h}^k + a_{min(t - s, W)}^k)",
    "two features": "Σ_{p, k} tanh(x_{t h p k} - y_{s p}) c^k + w_s (Σ_k q_{t h}^k u_{s h}^k)",
    "two folds": "Σ_k tanh(q_{t h}^k - u_{s h}^k) - max_k abs(q_{t h}^k - w_s)",
}


def text(body: str) -> str:
    """A text whose logits are the body, with the declarations that it needs."""
    head = HEAD if "a_{" in body else HEAD.replace(", a_r^k", "").split("dim W")[0]
    return (f"{head}mask L_{{h t s}} : s ≤ t\nL_{{h t s}} = {body}\n"
            "output z_{h t}^e = Σ_s softmax_s(L_{h t s}) v_s^e\n")


def compared(body: str, sizes: dict[str, int], processor: str = "native", dtype: torch.dtype = torch.float32) -> None:
    """One kernel is written, and it runs; a table without rows is torch's."""
    program = typed(text(body))
    sizes = {key: n for key, n in sizes.items() if key != "W" or "a_{" in body}
    given_ = tensors(arrays(program, sizes, {}, 0), dtype)
    ran = near(loaded(program, processor=processor), program, given_, sizes, BOUNDS[dtype])
    assert ran and all(ran.values()), ran


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", BODIES)
def test_a_fold_of_pairs_runs_compiled(name: str) -> None:
    for T, D in ((1, 1), (7, 3), (65, 16), (33, 5)):
        compared(BODIES[name], {"H": 2, "T": T, "D": D, "P": 3, "E": 9, "W": 4})


@pytest.mark.parametrize("dtype", [TYPES["bfloat16"], TYPES["float16"]])
def test_of_narrow_data(dtype: torch.dtype) -> None:
    compared(BODIES["an additive score"], {"H": 1, "T": 40, "D": 8, "E": 8}, dtype=dtype)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("T", "dtype"), [
    pytest.param(T, dtype, id=f"{T}-{name}") for T in (1, 3, 7, 8, 40) for name, dtype in TYPES.items()])
def test_few_rows_read_what_the_fold_alone_multiplies(T: int, dtype: torch.dtype) -> None:
    program = typed("""index t, s : time(T)
index k : feature(D)
input q_t^k, u_s^k, v_s^k
output y_t = Σ_{s ≤ t} tanh(Σ_k tanh(q_t^k + u_s^k) v_s^k)
""")
    ones = {key: torch.ones(T, 5, dtype=dtype) for key in ("q", "u", "v")}
    result = loaded(program)(**ones)
    torch.testing.assert_close(result.float(), torch.arange(1.0, T + 1), rtol=2e-2, atol=0)


@pytest.mark.parametrize("processor", ["x86-64-v3", "x86-64"])
@pytest.mark.parametrize("name", ["a distance", pytest.param("a table", marks=pytest.mark.whole),
                                  pytest.param("two features", marks=pytest.mark.whole)])
def test_for_other_processors(name: str, processor: str) -> None:
    compared(BODIES[name], {"H": 2, "T": 37, "D": 5, "P": 2, "E": 3, "W": 4}, processor)


PARTS = ["q_{t h}^k", "u_{s h}^k", "c^k", "g_t", "w_s", "2"]


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A fold over k of a drawn expression."""
    def some(depth: int) -> str:
        if not depth:
            return draw(st.sampled_from(PARTS))
        one, other = some(depth - 1), some(depth - 1)
        return draw(st.sampled_from([f"({one} + {other})", f"({one}) ({other})", f"abs({one} - {other})",
                                     f"tanh({one})", f"max({one}, {other})"]))

    fold = draw(st.sampled_from(["Σ_k", "max_k", "min_k"]))
    return f"{fold} 0.3 ({some(draw(st.integers(1, 3)))}) + {fold} tanh(q_{{t h}}^k u_{{s h}}^k)"


@examples(1, 8, body=bodies())
def test_drawn_folds(body: str) -> None:
    program, sizes = typed(text(body)), {"H": 1, "T": 19, "D": 3, "E": 2}
    given_ = tensors(arrays(program, sizes, {}, 0), torch.float32)
    assert kernels(emitted(program))
    near(loaded(program), program, given_, sizes, 2e-4)


def test_what_is_no_number_reaches_what_it_should() -> None:
    body, sizes = BODIES["a distance"], {"H": 1, "T": 20, "D": 4, "E": 2}
    program = typed(text(body))
    given_ = tensors(arrays(program, sizes, {}, 0), torch.float32)
    given_["u"][9] = torch.nan
    result = loaded(program)(**given_)
    assert torch.isfinite(result[:, :9]).all()
    assert result[:, 9:].isnan().all()


def test_gradients_of_a_fold_of_pairs() -> None:
    program, sizes = typed(text(BODIES["an additive score"])), {"H": 2, "T": 9, "D": 3, "E": 2}
    functions = [einc.compile(text(BODIES["an additive score"]), backend=b, grad=True) for b in ("cpp", "torch")]
    slopes = []
    for function, dtype in zip(functions, (torch.float32, torch.float64), strict=True):
        given_ = {k: x.requires_grad_() for k, x in tensors(arrays(program, sizes, {}, 0), dtype).items()}
        result = function(**given_)
        want = torch.as_tensor(meaning(program, arrays(program, sizes, {}, 0), sizes)["z"], dtype=dtype)
        torch.testing.assert_close(result.detach(), want, rtol=1e-4, atol=1e-5)
        slopes.append(torch.autograd.grad(result.square().sum(), list(given_.values())))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


def test_a_factor_of_whole_numbers() -> None:
    """A distance that is multiplied with what is summed is no value of a block in memory."""
    head = "index t, s : time(T)\nindex e : feature(E)\ninput v_s^e\n"
    program, sizes = typed(f"{head}output z_t^e = Σ_{{s ≤ t}} v_s^e (t - s)"), {"T": 37, "E": 9}
    given_ = tensors(arrays(program, sizes, {}, 0), torch.float32)
    ran = near(loaded(program), program, given_, sizes, BOUNDS[torch.float32])
    assert ran and all(ran.values())


def test_positions_below_0_stand_in_lanes() -> None:
    head = "index t, s : time(-3..T)\nindex e : feature(E)\ninput v_s^e\n"
    program, sizes = typed(f"{head}output z_t^e = Σ_{{s ≤ t, abs(t) < 20 + s}} v_s^e abs(t - 2 s)"), {"T": 37, "E": 9}
    given_ = tensors(arrays(program, sizes, {}, 0), torch.float32)
    ran = near(loaded(program), program, given_, sizes, BOUNDS[torch.float32])
    assert ran and all(ran.values())


@pytest.mark.drawn(6)
@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("T", [3, 40])
@pytest.mark.parametrize("logits", ["b_{t s k} u_s^k", "b_{t s k} q_t^k", "Σ_k b_{t s}^k q_t^k u_s^k", "Σ_k b_{t s}^k"])
def test_what_is_loaded_for_pairs(logits: str, T: int, dtype: torch.dtype) -> None:
    """A bias with features is no operand that stands in memory of the tile, nor as pairs of narrow numbers."""
    program = typed(f"""index t, s : time(T)
index k : feature(D)
index e : feature(E)
input q_t^k, u_s^k, b_{{t s}}^k, v_s^e
L_{{t s}} = {logits}
output z_t^e = Σ_s softmax_{{s ≤ t}}(L_{{t s}}) v_s^e
""")
    sizes = {"T": T, "D": 6, "E": 9}
    given_ = tensors(arrays(program, sizes, {}, 0), dtype)
    near(loaded(program), program, given_, sizes, BOUNDS[dtype])


@pytest.mark.parametrize("fold", ["logaddexp_k (q_{t h}^k + u_{s h}^k)", "Σ_k floor(q_{t h}^k + u_{s h}^k)",
                                  "Σ_k (t + s)"])
def test_a_fold_without_a_text_is_torchs(fold: str) -> None:
    program, sizes = typed(text(f"{fold} + Σ_k q_{{t h}}^k u_{{s h}}^k")), {"H": 1, "T": 19, "D": 3, "E": 2}
    want = meaning(program, arrays(program, sizes, {}, 0), sizes)["z"]
    result = einc.compile(text(f"{fold} + Σ_k q_{{t h}}^k u_{{s h}}^k"), backend="cpp")(
        **tensors(arrays(program, sizes, {}, 0), torch.float32))
    torch.testing.assert_close(result.double(), torch.as_tensor(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", [pytest.param(n, marks=[pytest.mark.whole] * (n > 0)) for n in range(0, 400, 8)])
def test_a_text_is_written_for_any_program(start: int) -> None:
    """Eight drawn programs, and the gradients of some, are written without a fall."""
    for number in range(start, start + 8):
        program = typed(numbered(0, number).text)
        options = front.choices(own=True, backend="cpp")
        front.emit(front.plan(program, options), "cpp")
        if number % 5 == 0 and (plan := derived(program, options)) is not None:
            front.emit(plan, "cpp")


def derived(program: TypedProgram, options: Any) -> Any:
    """The plan of the gradient; None where nothing moves an output."""
    try:
        return gradients.gradient(program, options)
    except EincError:
        return None
