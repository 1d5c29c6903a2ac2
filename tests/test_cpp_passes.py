"""Compiled kernels without a stream: lanes are neighbours in memory, and folds over them end a loop."""

from __future__ import annotations

from random import Random

import pytest
import torch
from cpp_texts import NEEDED, emitted, loaded
from helpers import arrays, tensors, typed
from test_cpp import BOUNDS, near

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

HEAD = """index t : time(T)
index h : head(H)
index f, g : feature(F)
input X_{t h}^f, Z_{t h}^f, r_{t h}, u^f
"""
BODIES = ("X_{t h}^f", "u^f Z_{t h}^f", "tanh(X_{t h}^f)", "r_{t h} X_{t h}^f",
          "(X_{t h}^f - a_{t h}) / (1 + b_{t h}^2)", "exp(X_{t h}^f - c_{t h})",
          "1[f ≤ t] Z_{t h}^f", "f X_{t h}^f / F", "Z_{t h}^f^2 b_{t h}")
FOLDS = ("Σ_f {0} / F", "max_f ({0})", "Σ_f u^f ({0}) / F", "min_f ({0})", "Σ_f X_{{t h}}^f Z_{{t h}}^f ({0}) / F")
PLAIN = (*BODIES[:4], BODIES[7])
SIZES = (1, 3, 15, 16, 17, 31, 40, 1023, 1025, 2500)


def written(random: Random) -> str:
    """A result for each lane, and one for each unit, of folds that follow from each other."""
    first, second, third = (random.choice(FOLDS).format(body) for body in
                            (random.choice(PLAIN), random.choice(BODIES[:5]), random.choice(BODIES[:5])))
    third = third if random.random() < 0.5 else "r_{t h}"
    second = second.replace("b_{t h}", "r_{t h}")
    lanes = " + ".join(["tanh(a_{t h} X_{t h}^f)", *random.choices(BODIES, k=3)])
    return f"""{HEAD}a_{{t h}} = {first}
b_{{t h}} = {second}
c_{{t h}} = {third.replace("c_{t h}", "r_{t h}")}
output y_{{t h}}^f = {lanes}
output w_{{t h}} = a_{{t h}} + b_{{t h}} c_{{t h}}
"""


@pytest.mark.drawn(6, 3)
@pytest.mark.parametrize("seed", range(30))
def test_passes_of_any_width(seed: int) -> None:
    random = Random(seed)
    source = written(random)
    program = typed(source)
    sizes = {"T": random.choice((5, 70)), "H": random.choice((2, 3)), "F": random.choice(SIZES)}
    assert "L begin, L end" in emitted(program), source
    dtype = random.choice((torch.float32, torch.bfloat16))
    given = tensors(arrays(program, sizes, {}), dtype)
    if random.random() < 0.3:  # features that are no neighbours in memory
        given["X"] = given["X"].transpose(0, -1).contiguous().transpose(0, -1)
    ran = near(loaded(program), program, given, sizes, BOUNDS[dtype], least=1.0)
    assert ran and all(ran.values()), ran
