"""Index sets that start at any whole number: values, back ends, gradients, ids, labels, recurrences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import arrays, assert_close, called, meaning, tensors, typed
from test_sequences import SMALL
from triton_modes import interpreted, tiled

import einc
from einc.driver import front
from einc.ir.indices import Index, IndexSet, number
from einc.ir.primitives import NONNEGATIVE, POSITIVE, UNKNOWN
from einc.ir.signs import sign
from einc.ir.terms import Position
from einc.transforms.normal.reach import Reaches

TEXTS = {
    "a convolution": ("""index t : time(T)
index o : feature(-2..2)
index d : feature(D)
input x_t^d
weight c_o^d
output y_t^d = Σ_{o, t + o ≥ 1, t + o ≤ T} c_o^d x_{t+o}^d : all
""", {"T": 9, "D": 3}),
    "distances on both sides": ("""index t, s : time(T)
index o : latent(-3..3)
index d : feature(D)
input q_t^d, v_s^d
weight c_o^d
mask L_{t s} : all
L_{t s} = q_t^d c_{max(min(t - s, 3), -3)}_d
output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d : all
""", {"T": 9, "D": 3}),
    "the index as a number": ("""index o : feature(-2..3)
index t : time(T)
input x_t
output y_{t o} = o x_t + 1[o = 0] + o o
output m_t = max_o (x_t - o)
output z_t = Σ_o o o x_t
""", {"T": 4}),
    "signs": ("""index o : feature(-2..3)
index t : time(-3..T)
input x_t
output y_t = Σ_o abs(o) x_t + abs(t) + sqrt(t t) + max(t, 0) + abs(t)^0.5
output z_t = exp(x_t) / (1 + abs(Σ_o o exp(x_t))) + (Σ_o o x_t) / max(t, 1)
output m_t = max_o exp(0.1 o x_t t) + floor(t / 2) + mod(t, 3)
""", {"T": 4}),
    "chance": ("""index o : feature(-2..3)
index t : time(-3..T)
input x_{t o}
output y_{t o} = dropout(x_{t o}, 0.5, 7)
""", {"T": 4}),
    "labels": ("""index o : feature(-2..3)
index t : time(T)
input a_{t o}, b_t^o
output y_t = a_{t (-2)} + 2 a_{t 0} + a_{t 3} + b_t^{-2}
""", {"T": 4}),
    "chosen elements": ("""index o : latent(-2..3)
index t : time(T)
input a_{t o}, b_{t o}
set S_t = topk_{o}(a_{t o}, 2)
output y_t = Σ_{o ∈ S_t} b_{t o}
output z_t = topk_o(a_{t o}, 1) + 0 b_{t 0}
""", {"T": 4}),
    "a composite": ("""index o : feature(-1..1)
index p : feature(2..4)
index m : feature(M) = (o p)
index t : time(T)
input a_t^m, b^o
output y_t^p = Σ_o a_t^{(o p)} b^o
""", {"T": 4, "M": 9}),
    "positions from 5": ("""index t, s : time(5..T)
index d : feature(D)
input x_t^d
output y_t^d = Σ_{s ≤ t} x_s^d (t - s)
output z_t^d = 1[t > 5] x_{t-1}^d
output w_t^d = Σ_s softmax_{s ≤ t}(x_s^d)
""", {"T": 12, "D": 2}),
    "a recurrence from -2": ("""index t : time(-2..T)
input x_t, a_t
S = 0
for t in -2..T:
    S ← tanh(a_t) S + t x_t
    output y_t = S
""", {"T": 6}),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_compiled_means_the_text(name: str, backend: str) -> None:
    text, sizes = TEXTS[name]
    program = typed(text)
    inputs = arrays(program, sizes, {}, 0)
    want = meaning(program, inputs, sizes)
    assert_close(called(einc.compile(text, backend=backend), program, tensors(inputs), sizes), want, 1e-12, 1.0)


@pytest.mark.parametrize("name", ["a convolution", "distances on both sides", "positions from 5"])
def test_the_kernels_of_triton(name: str) -> None:
    text, sizes = TEXTS[name]
    program = typed(text)
    inputs = arrays(program, sizes, {}, 0)
    plan = front.plan(program)
    with interpreted():
        function = tiled(front.emit(plan, "triton"), plan.name, lambda kind, *_: SMALL[kind])
        got = called(function, program, tensors(inputs), sizes)
    assert_close(got, meaning(program, inputs, sizes), 1e-12, 1.0)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [x for x in TEXTS if x != "chosen elements"])
def test_gradients(name: str) -> None:
    text, sizes = TEXTS[name]
    program, function = typed(text), einc.compile(text, backend="torch", grad=True)
    given = {key: x.requires_grad_() for key, x in tensors(arrays(program, sizes, {}, 1)).items()}

    def call(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(called(function, program, dict(zip(given, values, strict=True)), sizes).values())

    assert torch.autograd.gradcheck(call, tuple(given.values()))


def test_labels_are_elements_by_their_numbers() -> None:
    a, b = np.arange(24.0).reshape(4, 6), 100 * np.arange(24.0).reshape(4, 6)
    found = einc.interpret(TEXTS["labels"][0], {"a": a, "b": b})["y"]
    np.testing.assert_array_equal(found, a[:, 0] + 2 * a[:, 2] + a[:, 5] + b[:, 0])


def test_ids_are_held_against_the_range() -> None:
    text = "index v : vocab(-2..3)\nindex t : time(T)\ninput w_t : int\nweight E_v\noutput y_t = E_{w_t}\n"
    function, table = einc.compile(text, backend="torch"), torch.arange(6.0)
    torch.testing.assert_close(function(w=torch.tensor([-2, 3, 0]), E=table), torch.tensor([0.0, 5.0, 2.0]))
    for wrong in (-3, 4):
        with pytest.raises(IndexError, match="-2 to 3 are expected"):
            function(w=torch.tensor([wrong]), E=table)


@pytest.mark.parametrize(("range_", "code"), [("T..9", "E0210"), ("1/2..3", "E0210"), ("3..2", ""), ("-W..W", "E0210"),
                                              ("-3..-1", "")])
def test_ranges_that_are_none(range_: str, code: str) -> None:
    problems = einc.check(f"index o : feature({range_})\nindex t : time(T)\ndim W\ninput x_{{t o}}\n"
                          "output y_t = Σ_o x_{t o}\n")
    assert ([code] if code else []) == [p.code for p in problems if p.code.startswith("E")][:1]


@pytest.mark.parametrize("start", [-2, 0, 1, 5])
def test_what_is_known_of_a_position(start: int) -> None:
    here = Position(Index("o", IndexSet("feature", number(4), start)))
    low, high = Reaches({}, frozenset()).interval(here)
    assert low <= start
    assert high >= start + 3
    assert sign(here, {}) == (UNKNOWN if start < 0 else NONNEGATIVE if start == 0 else POSITIVE)


@pytest.mark.parametrize("start", [3_000_000_000, -3_000_000_000])
def test_positions_of_more_than_32_bits(start: int) -> None:
    """Lanes have not so many: the call is torch's."""
    text = f"""index t, s : time(T)
index o : feature({start}..{start + 3})
input x_s, w_o
output y_t = Σ_{{s ≤ t}} tanh(x_s) exp(-(t - s)) + exp(x_t) (Σ_o w_o floor((o + t) / 3) 1e-9)
"""
    random = np.random.default_rng(0)
    given = {"x": random.normal(size=40), "w": random.normal(size=4)}
    want = einc.interpret(text, given)["y"]
    for backend in ("torch", "cpp"):
        made = einc.compile(text, backend=backend)(**{key: torch.from_numpy(x).float() for key, x in given.items()})
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-5, atol=1e-5)
