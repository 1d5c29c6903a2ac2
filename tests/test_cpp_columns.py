"""Compiled kernels that fold over positions what lies side by side at each: lanes are neighbours in memory."""

from __future__ import annotations

import math
from random import Random

import pytest
import torch
from cpp_texts import NEEDED, emitted, loaded, running
from helpers import arrays, tensors, typed
from test_cpp import BOUNDS, near

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

HEAD = """index t : time(T)
index h : head(H)
index f : feature(F)
input X_{t h}^f, Z_{t h}^f, r_{t h}, u^f, p_t
"""
SUMMED = ("tanh(X_{t h}^f)", "u^f tanh(Z_{t h}^f)", "X_{t h}^f / (1 + r_{t h}^2)",
          "Z_{t h}^f (X_{t h}^f - p_t) / (2 + p_t^2)", "1[f ≤ t] exp(-X_{t h}^f^2)", "t Z_{t h}^f / (T + r_{t h}^2)")
COMPARED = ("tanh(X_{t h}^f)", "u^f tanh(Z_{t h}^f)", "abs(X_{t h}^f - p_t)")
FOLDS = {"Σ_t ({0})": SUMMED, "Σ_{{t > 3}} ({0})": SUMMED, "Σ_t (p_t^2 + {0})": SUMMED,
         "max_t ({0})": COMPARED, "min_t ({0})": COMPARED}


def written(random: Random) -> str:
    """One or two folds, each of one term or of two."""
    def fold() -> str:
        found, bodies = random.choice([*FOLDS.items()])
        return found.format(" + ".join(random.choices(bodies, k=random.choice((1, 1, 2)))))

    folds = {fold(): name for name in "zy"}  # of equal ones each would only read what is made once
    return HEAD + "".join(f"output {name}_h^f = {one}\n" for one, name in folds.items())


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(30))
def test_columns_of_any_length(seed: int) -> None:
    """What the interpreter gives, in both types, with columns that are no neighbours too."""
    random = Random(seed)
    program = typed(written(random))
    sizes = {"T": random.choice((1, 5, 70, 300)), "H": random.choice((1, 2, 3)), "F": random.choice((8, 9, 17, 40, 67))}
    assert "const L low" in emitted(program)
    dtype = random.choice((torch.float32, torch.bfloat16))
    given = tensors(arrays(program, sizes, {}), dtype)
    if random.random() < 0.3:
        given["X"] = given["X"].transpose(0, -1).contiguous().transpose(0, -1)
    ran = near(loaded(program), program, given, sizes, BOUNDS[dtype], least=1.0)
    assert ran and all(ran.values()), ran


def of_several(random: Random) -> str:
    """A fold over positions, batches and heads together, some of which some of its factors do not have."""
    bodies = ("tanh(X_{n t h}^f) X_{n t h}^f", "X_{n t h}^f r_{n t} b_n / (1 + r_{n t}^2)", "b_n p_t X_{n t h}^f u^f",
              "(X_{n t h}^f - p_t) c_{n h} / (2 + c_{n h}^2)", "abs(c_{n h} X_{n t h}^f)")
    domain = random.choice(("n t h", "n h t, t > 2", "h n t, t ≤ 4", "h n t, c_{n h} > p_t", "h t n"))
    fold = random.choice(("Σ", "Σ", "max", "min"))
    head = HEAD.partition("input")[0]
    return (f"{head}index n : batch(B)\ninput X_{{n t h}}^f, r_{{n t}}, b_n, p_t, u^f, c_{{n h}}\n"
            f"output y^f = {fold}_{{{domain}}} ({' + '.join(random.choices(bodies, k=random.choice((1, 2))))} "
            "+ X_{n t h}^f^2)")


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(40))
def test_a_fold_over_several_axes_is_one_pass(seed: int) -> None:
    """As the gradient of a norm's weights over batches and positions; without a point, too."""
    random = Random(seed)
    program = typed(of_several(random))
    sizes = {"B": random.choice((0, 1, 3, 70)), "T": random.choice((0, 1, 5, 300)), "H": random.choice((1, 2)),
             "F": random.choice((8, 9, 40))}
    assert "const L low" in emitted(program)
    dtype = random.choice((torch.float32, torch.bfloat16))
    ran = near(loaded(program), program, tensors(arrays(program, sizes, {}), dtype), sizes, BOUNDS[dtype], least=1.0)
    assert ran and all(ran.values()), ran


def test_many_short_sums_lose_no_more_than_a_long_one() -> None:
    program = typed("index t : time(T)\nindex n : batch(B)\nindex f : feature(F)\ninput X_{n t}^f, r_{n t}\n"
                    "output y^f = Σ_{n t} X_{n t}^f (1 + X_{n t}^f) / (1 + r_{n t}^2)")
    x, r = torch.rand(50_000, 2, 16, generator=torch.Generator().manual_seed(0)) + 1, torch.zeros(50_000, 2)
    function = loaded(program)
    with running(function) as ran:
        y = function(X=x, r=r)
    want = (x.double() * (1 + x.double())).sum((0, 1))
    assert all(ran.values()) and ((y - want).abs() / want).max() < 2e-7


def test_what_is_no_number_stays_in_its_column() -> None:
    """A NaN reaches its column and no other, and ∞ is ∞."""
    program = typed(HEAD + "output y_h^f = max_t (X_{t h}^f - p_t)")
    given = tensors(arrays(program, {"T": 40, "H": 1, "F": 20}, {}), torch.float32)
    given["X"][7, 0, 3], given["X"][8, 0, 5] = math.nan, math.inf
    function = loaded(program)
    with running(function) as ran:
        y = function(**{key: given[key] for key in ("X", "p")})
    assert any(ran.values()) and y[0].isnan().nonzero().flatten().tolist() == [3] and y[0, 5] == math.inf




def test_few_columns_are_left_to_torch() -> None:
    """Most lanes of a vector would be empty."""
    program = typed(HEAD + "output y_h^f = Σ_t tanh(X_{t h}^f)")
    sizes = {"T": 20, "H": 2, "F": 7}
    assert not near(loaded(program), program, tensors(arrays(program, sizes, {}), torch.float32), sizes, 1e-6)
