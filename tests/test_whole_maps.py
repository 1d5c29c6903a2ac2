"""Maps to whole numbers: anywhere a number or an index expression may stand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import einc

HEAD = """index t, s : time(T)
dim W
index r : latent(0..W)
input x_s, a_r
map away(t, s) = min(abs(t - s), W)
"""


@pytest.mark.parametrize("grad", [False, True])
def test_a_map_in_a_subscript_and_as_a_number(grad: bool) -> None:
    text = f"{HEAD}output y_t = Σ_{{s ≤ t}} a_{{away(t, s)}} x_s / (1 + away(t, s))"
    x, a = np.random.default_rng(0).normal(size=7), np.random.default_rng(1).normal(size=4)
    far = np.minimum(np.abs(np.arange(7)[:, None] - np.arange(7)), 3)
    want = np.tril(a[far] / (1 + far)) @ x
    function = einc.compile(text, backend="torch", grad=grad)
    given = {"x": torch.from_numpy(x), "a": torch.from_numpy(a)}
    torch.testing.assert_close(function(**given), torch.from_numpy(want))
    np.testing.assert_allclose(einc.interpret(text, {"x": x, "a": a})["y"], want)
    if grad:
        leaves = {key: value.clone().requires_grad_() for key, value in given.items()}
        torch.autograd.gradcheck(lambda x, a: function(x=x, a=a), tuple(leaves.values()))


def test_a_map_of_a_map_and_in_a_mask() -> None:
    text = f"""{HEAD}map twice(t, s) = 2 away(t, s) + 1
mask L_{{t s}} : away(t, s) < 2
L_{{t s}} = x_s + away(t, s)
output y_t = Σ_s softmax_s(L_{{t s}}) twice(t, s) : all
output b_t = Σ_{{s, away(t, s) ≤ 1}} a_{{away(t, s)}} x_s : all
"""
    x, a = np.random.default_rng(0).normal(size=6), np.random.default_rng(1).normal(size=3)
    far = np.minimum(np.abs(np.arange(6)[:, None] - np.arange(6)), 2)
    weights = np.where(far < 2, np.exp(x + far), 0)
    found = einc.interpret(text, {"x": x, "a": a})
    np.testing.assert_allclose(found["y"], (weights * (2 * far + 1)).sum(1) / weights.sum(1))
    np.testing.assert_allclose(found["b"], np.where(far <= 1, a[far], 0) @ x)


@pytest.mark.parametrize(("line", "code"), [
    ("map far(t, s) = abs(t - s) / 2", "E0602"), ("map far(t) = t - s", "E0602"), ("map far(t, s) = t : r, s", "E0602"),
    ("map far(t, s) = abs(t - s)", "E0601"), ("map far(t, s) = t - s", "E0601"),
])
def test_maps_that_are_none_or_leave_their_range(line: str, code: str) -> None:
    problems = einc.check(f"{HEAD}{line}\noutput y_t = Σ_{{s ≤ t}} a_{{far(t, s)}} x_s : all")
    assert code in [p.code for p in problems]


@pytest.mark.parametrize("name", ["map", "sum", "max", "len", "tuple"])
def test_a_file_with_the_name_of_a_function_of_python(name: str, tmp_path: object) -> None:
    """What emitted files call keeps its meaning."""
    file = str(tmp_path) + f"/{name}.ein"
    with open(file, "w", encoding="utf-8") as out:
        out.write(f"{HEAD}output y_t = Σ_{{s ≤ t}} a_{{away(t, s)}} x_s")
    function = einc.compile(file, backend="torch")
    made = function(x=torch.ones(4, dtype=torch.float64), a=torch.tensor([1.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(made, torch.tensor([1.0, 3.0, 5.0, 7.0], dtype=torch.float64))
