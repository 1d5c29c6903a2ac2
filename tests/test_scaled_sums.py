"""Sums that a later factor brings back into the range of a half type, in every back end, with their gradients."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch
from cpp_texts import NEEDED
from helpers import typed
from triton_modes import interpreted

from einc.driver import front
from einc.ir.elements import RANGED, REAL

HEAD = """index n : batch(N)
index t : time(T)
index f : feature(F)
index e : feature(D)
"""
SIZES = {"n": 2, "t": 5, "f": 96, "e": 7}
READ = {"X": "X_{n t}^f", "W": "W_f^e", "v": "v^e", "b": "b^e", "omega": "ω^e", "c": "c", "r": "r_{n t}"}
BACKENDS = ["torch", pytest.param("cpp", marks=NEEDED), "triton"]
LARGE = {"X": 64.0, "W": 64.0, "v": 0.25, "b": 1024.0}
HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}

Tensors = Mapping[str, torch.Tensor]
Value = Callable[[Tensors], torch.Tensor]


@dataclass(frozen=True)
class Drawn:
    """A term with its letters, what it is in torch, the lines before it, and the inputs that it reads."""

    term: str
    letters: str
    value: Value
    lines: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()

    def then(self, term: str, value: Callable[[torch.Tensor, Tensors], torch.Tensor], letters: str = "",
             reads: str = "", line: str = "") -> Drawn:
        """What is made of it."""
        before = self.value
        return Drawn(term, letters or self.letters, lambda given: value(before(given), given),
                     (*self.lines, *[line] * bool(line)), self.reads | {*reads.split()})


def subscripts(letters: str) -> str:
    below, above = (" ".join(x for x in letters if (x in "nt") == low) for low in (True, False))
    return f"_{{{below}}}" * bool(below) + f"^{{{above}}}" * bool(above)


def drawn(seed: int) -> tuple[str, Drawn, dict[str, float]]:
    """A sum of products with numbers that are added, names, maxima and further sums between it and its scale, a text of
    which that is the output, and how large its inputs are."""
    turn = random.Random(seed)
    it = Drawn("(Σ_f X_{n t}^f W_f^e)", "nte", lambda x: torch.einsum("ntf,fe->nte", x["X"], x["W"]),
               reads=frozenset({"X", "W"}))
    for step in turn.choices(("added", "named", "largest", "weighted", "averaged"), k=turn.randrange(4)):
        if step == "added" and "e" in it.letters:
            it = it.then(f"({it.term} + b^e)", lambda y, x: y + x["b"], reads="b")
        elif step == "named":
            name = f"A_{len(it.lines) + 1}{subscripts(it.letters)}"
            it = it.then(name, lambda y, _: y, line=f"{name} = {it.term}")
        elif step == "largest":
            it = it.then(f"max({it.term}, 0)", lambda y, _: y.clamp(min=0))
        elif step == "weighted" and it.letters == "nte":
            it = it.then(f"(Σ_e v^e {it.term})", lambda y, x: y @ x["v"], "nt", "v")
        elif step == "averaged" and "t" in it.letters:
            it = it.then(f"(Σ_t {it.term})", lambda y, _: y.sum(1), it.letters.replace("t", ""))
    scale = turn.choice(["", "c", *["omega"] * ("e" in it.letters), *["r"] * ("t" in it.letters)])
    times = turn.random() < 0.5
    if scale:
        one, term = READ[scale], it.term
        it = it.then(f"{one} {term}" if times else f"{term} / {one}", lambda y, x: _scaled(y, x[scale], times),
                     reads=scale)
    else:
        it = it.then(f"{it.term} / 4096", lambda y, _: y / 4096)
    inputs = [f"input {READ[key]}" for key in sorted(it.reads)]
    text = HEAD + "\n".join([*inputs, *it.lines, f"output Y{subscripts(it.letters)} = {it.term}"]) + "\n"
    return text, it, LARGE | {scale: 1 / 4096 if times else 4096}


def _scaled(y: torch.Tensor, scale: torch.Tensor, times: bool) -> torch.Tensor:
    scale = scale[..., None] if y.ndim > scale.ndim > 1 else scale
    return y * scale if times else y / scale


def given(it: Drawn, large: Mapping[str, float], dtype: torch.dtype, seed: int) -> dict[str, torch.Tensor]:
    """Numbers of which sums are far beyond 65,504, which float16 does not hold."""
    made, out = torch.Generator().manual_seed(seed), dict[str, torch.Tensor]()
    for key in sorted(it.reads):
        letters = READ[key].removeprefix(key).removeprefix("ω")
        shape = [SIZES[x] for x in letters if x in SIZES]
        x = torch.rand(shape, generator=made, dtype=torch.float64)
        out[key] = ((0.5 + x) * large[key]).to(dtype)
    return out


def near(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    """Within some roundings to the type; the numbers that are wanted are in its range."""
    assert want.abs().max() < 65000 and got.dtype == dtype
    assert (got.double() - want).abs().max() <= 8 * torch.finfo(dtype).eps * want.abs().max()


def tried(seed: int, backend: str, dtype: torch.dtype, grad: bool) -> None:
    text, it, large = drawn(seed)
    with interpreted() if backend == "triton" else nullcontext():
        run = front.built(typed(text), backend=backend, grad=grad)
        x = given(it, large, dtype, seed)
        exact = {key: one.double().requires_grad_() for key, one in x.items()}
        want = it.value(exact)
        if not grad:
            near(run(**x), want, dtype)
            return
        dy = torch.rand(want.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) * 16
        want.backward(dy.double())
        made = {key: one.requires_grad_() for key, one in x.items()}
        run(**made).backward(dy)
        for key, one in made.items():
            if key in LARGE:  # the slope of a scale is a sum that nothing makes small
                near(one.grad, exact[key].grad, dtype)


FEW = [*range(3), *(pytest.param(n, marks=pytest.mark.whole) for n in range(3, 40))]


@pytest.mark.usefixtures("kernel_cache")
@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", FEW)
def test_sums_before_a_scale_stay_in_range(seed: int, backend: str, dtype: torch.dtype) -> None:
    tried(seed, backend, dtype, grad=False)


@pytest.mark.usefixtures("kernel_cache")
@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", FEW)
def test_gradients_of_sums_before_a_scale_stay_in_range(seed: int, backend: str, dtype: torch.dtype) -> None:
    tried(seed, backend, dtype, grad=True)


KINDS = {
    "ω^e Σ_f X_{n t}^f W_f^e": True,
    "(Σ_f X_{n t}^f W_f^e) / sqrt(F)": True,
    "tanh((Σ_f X_{n t}^f W_f^e) / r_{n t})": True,
    "ω^e max((Σ_f X_{n t}^f W_f^e) + b^e, 0)": True,
    "tanh(Σ_f X_{n t}^f W_f^e)": False,
    "2 Σ_f X_{n t}^f W_f^e": False,
    "G_{n t}^e Σ_f X_{n t}^f W_f^e": False,
}


@pytest.mark.parametrize("term", KINDS)
def test_which_sums_have_more_range(term: str) -> None:
    """What is multiplied by numbers that one operand could have been multiplied by: no gate, and no number that makes
    nothing smaller."""
    inputs = {**READ, "G": "G_{n t}^e", "c": "c"}
    text = HEAD + "".join(f"input {one}\n" for one in inputs.values()) + f"output Y_{{n t}}^e = {term}\n"
    assert any(b.element == RANGED for b in front.plan(typed(text)).buffers.values()) == KINDS[term]


def test_a_product_that_a_matrix_follows_has_the_type_of_the_data() -> None:
    text = HEAD + "index g : feature(G)\ninput X_t^f, W_f^e, V_e^g, b^e, r_t\n" \
        "output Y_t^g = (Σ_e max((Σ_f X_t^f W_f^e) + b^e, 0) V_e^g) / r_t\n"
    found = [b.element for b in front.plan(typed(text)).buffers.values() if b.role == "local"]
    assert found.count(RANGED) == 1 and REAL in found


def test_a_mean_that_is_multiplied_by_a_matrix() -> None:
    """The algebra divides by the number of positions last; logits, whose scale has no letters either, ask nothing."""
    text = HEAD + "input X_t^f, W_f^e\noutput Y^e = Σ_f (Σ_t X_t^f / T) W_f^e\n"
    x, w = torch.full((3000, 4), 32.0).half(), torch.ones(4, 2).half()
    assert torch.equal(front.built(typed(text), backend="torch")(X=x, W=w), torch.full((2,), 128.0).half())
    text = HEAD + "index s : time(T)\ninput X_t^f, W_f^e, K_s^e\nQ_t^e = Σ_f X_t^f W_f^e\n" \
        "output Y_{t s} : all\nY_{t s} = Σ_e Q_t^e K_s^e / sqrt(D)\n"
    assert all(b.element != RANGED for key, b in front.plan(typed(text)).buffers.items() if key == "Q")


def test_scales_that_stand_among_the_factors_of_a_chain() -> None:
    """The product of the first two matrices meets the scale, and then the third matrix."""
    x = {"A": torch.full((3, 700), 16.0), "B": torch.full((700, 900), 16.0), "w": torch.full((900,), 2.0**-10),
         "C": torch.full((900, 2000), 2.0**-5)}
    text = HEAD + "index g : feature(G)\ninput A_t^f, B_f^e, w^e, C_e^g\noutput Y_t^g = Σ_{f e} A_t^f B_f^e w^e C_e^g\n"
    run = front.built(typed(text), backend="torch")
    y = run(**{key: one.half() for key, one in x.items()})
    assert torch.equal(y.float(), (x["A"] @ x["B"] * x["w"] @ x["C"]).half().float())


@pytest.mark.parametrize("grad", [False, True])
def test_sums_that_rounds_scale(grad: bool) -> None:
    """A sum that is made before rounds, in a part of the program of its own."""
    text = HEAD.replace("index n : batch(N)\n", "") + \
        "input X_t^f, W_f^e, r_t, h_t^e\nS_t^e = Σ_f X_t^f W_f^e\ny_t^e = h_t^e\n" \
        "for i in 1..N:\n    y_t^e ← y_t^e + S_t^e / r_t\noutput Y_t^e = y_t^e\n"
    run = front.built(typed(text), backend="torch", grad=grad)
    x = {"X": torch.full((3, 96), 64.0), "W": torch.full((96, 2), 64.0), "r": torch.full((3,), 2048.0),
         "h": torch.zeros(3, 2)}
    half = {key: one.half().requires_grad_(grad) for key, one in x.items()}
    y = run(**half, N=3)
    assert torch.equal(y.float(), 3 * (x["X"] @ x["W"] / x["r"][:, None]).half().float())
    if grad:
        y.backward(torch.ones_like(y))
        assert torch.equal(half["X"].grad, torch.full((3, 96), 3 * 2 * 64 / 2048, dtype=torch.float16))


@pytest.mark.usefixtures("kernel_cache")
@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_that_are_operands_of_scores_before_their_scale(backend: str, dtype: torch.dtype) -> None:
    """The algebra takes the scales of both operands of a product out of it: it multiplies sums that have none yet."""
    text = HEAD + "index s : time(T)\ninput X_t^f, W_f^e, r_t, V_t^e\nA_t^e = (Σ_f X_t^f W_f^e) / r_t\n" \
        "mask L_{t s} : s ≤ t\nL_{t s} = Σ_e A_t^e A_s^e\noutput Y_t^e : all\nY_t^e = Σ_s softmax_s(L_{t s}) V_s^e\n"
    turn = torch.Generator().manual_seed(1)
    drawn = {"X": (33, 96), "W": (96, 2), "r": (33,), "V": (33, 2)}
    large = {"X": 32, "W": 32, "r": 2.0**15, "V": 1}
    x = {key: ((0.8 + 0.4 * torch.rand(shape, generator=turn)) * large[key]).to(dtype) for key, shape in drawn.items()}
    with interpreted() if backend == "triton" else nullcontext():
        got = front.built(typed(text), backend=backend)(**x)
    exact = {key: one.double() for key, one in x.items()}
    a = exact["X"] @ exact["W"] / exact["r"][:, None]
    near(got, torch.softmax((a @ a.T).masked_fill(torch.ones(33, 33).triu(1) > 0, -torch.inf), 1) @ exact["V"], dtype)
