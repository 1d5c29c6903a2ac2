"""The stream of a tile in parts, which are joined by the law of each fold."""

from __future__ import annotations

import math

import pytest
import torch
from cpp_texts import NEEDED, emitted, loaded, running
from helpers import arrays, tensors, typed
from test_cpp import BOUNDS, near

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

HEAD = """index t : time(T)
index s : time(S)
index h : head(H)
index d, c : feature(D)
input q_{t h}^d, k_s^d, v_s^d, b_s
"""
SOFTMAX = "A_{t s}^{(h)} = softmax_s(L_{t s}^{(h)})\noutput y_{t h}^d = Σ_s A_{t s}^{(h)} v_s^d"
BODIES = {
    "softmax": f"mask L^{{(h)}}_{{t s}} : all\nL_{{t s}}^{{(h)}} = q_{{t h}}^c k_{{s c}}\n{SOFTMAX}",
    "maximum": "mask L_{t s}^{(h)} : all\nL_{t s}^{(h)} = q_{t h}^c k_{s c}\noutput y_{t h} = max_s L_{t s}^{(h)}",
    "sums": "mask L_{t s}^{(h)} : all\nL_{t s}^{(h)} = exp(-(q_{t h}^c k_{s c})^2)\n"
            "output y_{t h}^d = Σ_s L_{t s}^{(h)} v_s^d",
    "window": f"mask L_{{t s}}^{{(h)}} : 40 < s ≤ 70\nL_{{t s}}^{{(h)}} = q_{{t h}}^c k_{{s c}}\n{SOFTMAX}",
    "bias": f"mask L_{{t s}}^{{(h)}} : s ≤ 20 t\nL_{{t s}}^{{(h)}} = q_{{t h}}^c k_{{s c}} + b_s\n{SOFTMAX}",
}
SIZES = ((1, 1, 3, 100), (3, 2, 5, 257), (1, 20, 4, 300), (2, 33, 7, 90), (9, 1, 2, 31), (1, 5, 3, 15))


@pytest.mark.drawn(15)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("numbers", SIZES)
@pytest.mark.parametrize("name", BODIES)
def test_parts_are_joined(name: str, numbers: tuple[int, ...], dtype: torch.dtype) -> None:
    """Few tiles over many positions: what the interpreter gives, also where some parts have no positions."""
    program = typed(HEAD + BODIES[name])
    sizes = dict(zip("THDS", numbers, strict=True))
    assert "last_of(parts, states)" in emitted(program).partition("_tile {")[2]
    ran = near(loaded(program), program, tensors(arrays(program, sizes, {}), dtype), sizes, BOUNDS[dtype], least=1.0)
    assert any(ran.values())


def test_the_parts_of_one_body_are_joined() -> None:
    test_parts_are_joined("softmax", SIZES[0], torch.float32)


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_depend_on_sizes_alone(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits for any number of threads, whichever part is done last."""
    program = typed(HEAD + BODIES["softmax"])
    sizes = {"T": 1, "H": 20, "D": 6, "S": 500}
    given, function = tensors(arrays(program, sizes, {}), torch.float32), loaded(program)
    want = function(**given)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for _ in range(20):
        with running(function) as ran:
            assert torch.equal(function(**given), want)
        assert any(ran.values())


def test_what_is_no_number_stays_in_its_rows() -> None:
    """A NaN in one part reaches its row and no other, and ∞ is ∞."""
    program = typed(HEAD + BODIES["maximum"])
    sizes = {"T": 3, "H": 2, "D": 2, "S": 200}
    given = tensors(arrays(program, sizes, {}), torch.float32)
    given["q"][1, 0, 0] = math.nan
    given["q"][2, 1] = torch.tensor([math.inf, 1.0])
    got = loaded(program)(**given)
    assert torch.equal(got.isnan(), torch.tensor([[False, False], [True, False], [False, False]]))
    assert got[2, 1] == math.inf
