"""Every operation on operands of every kind in a compiled kernel: lanes, numbers of the stream and of the host, whole
and real ones. Each has a kernel in C++, and means what the interpreter says.
"""

from __future__ import annotations

from random import Random

import pytest
import torch
from cpp_texts import NEEDED, emitted, kernels, loaded
from helpers import arrays, tensors, typed
from test_backends import FUNCTIONS, OPERATIONS
from test_cpp import BOUNDS, near

from einc.ir.primitives import PRIMITIVES

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

KINDS = ["x_t", "x_s", "i_t", "i_s", "t", "(t - s)", "(x_t + z_s)", "3", "0.5", "T", "c", "n"]
HEAD = """index t, s : time(T)
input x_t, z_t, c
input i_t, n : int
"""
OTHERS = {row.name: f"{row.name}({', '.join(['tanh({0})', 'tanh({1})'][:row.arity])})" for row in PRIMITIVES.values()
          if row.callable and not row.whole and row.arity in (1, 2) and row.name not in {*OPERATIONS, *FUNCTIONS}
          and row.domain[0] < -1}
ALL = OPERATIONS | FUNCTIONS | OTHERS
EACH = 10  # operations of a text


def bodies(random: Random, names: list[str]) -> list[str]:
    """The right sides of each operation: on real numbers of lanes and of the stream, and on operands of any kind."""
    return [ALL[name].format(*some) for name in names for some in (("x_t", "z_s"), random.choices(KINDS, k=2))]


def text(right: list[str]) -> str:
    """A sum over earlier positions of each body, which is weighed so that no product of matrices is left."""
    lines = [f"y{chr(97 + n)}_t = Σ_{{s ≤ t}} exp(-abs(x_t - z_s)) ({body})\noutput y{chr(97 + n)}_t : all"
             for n, body in enumerate(right)]
    return "\n".join([HEAD, *lines])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(12))
def test_every_operation_has_a_kernel_and_its_meaning(seed: int) -> None:
    random = Random(seed)
    names = sorted(ALL)
    for start in range(seed % 3 * EACH, len(names), 3 * EACH):
        source = text(bodies(random, names[start:start + EACH]))
        program, sizes = typed(source), {"T": 21}
        assert len(kernels(emitted(program))) >= 1, source
        given = tensors(arrays(program, sizes, {"i": ("1", "4"), "n": ("2", "3")}), torch.float32)
        ran = near(loaded(program), program, given, sizes, BOUNDS[torch.float32], least=1.0)
        assert ran and all(ran.values()), source


IN_A_PASS = ["x_t^f", "z_t^f", "r_t", "i_t", "j^f", "t", "f", "(t - f)", "3", "0.5", "F", "c", "n"]
PASS_HEAD = """index t : time(T)
index f : feature(F)
input x_t^f, z_t^f, r_t, c
input i_t, j^f, n : int
"""


@pytest.mark.drawn(12, 2)  # the seed whose operations have been hidden by a name
@pytest.mark.parametrize("seed", range(12))
def test_every_operation_in_a_pass(seed: int) -> None:
    """Over lanes that are neighbours in memory: on real numbers of lanes, and on operands of any kind."""
    random, names = Random(seed), sorted(ALL)
    for start in range(seed % 3 * EACH, len(names), 3 * EACH):
        right = [ALL[name].replace("x_t", "x_t^f").format(*some) for name in names[start:start + EACH]
                 for some in (("x_t^f", "z_t^f"), random.choices(IN_A_PASS, k=2))]
        source = PASS_HEAD + "".join(f"output y{chr(97 + n)}_t^f = exp(-abs(x_t^f - z_t^f)) ({body}) + tanh(x_t^f)\n"
                                     for n, body in enumerate(right))
        program, sizes = typed(source), {"T": 6, "F": 21}
        assert "L begin, L end" in emitted(program), source
        given = tensors(arrays(program, sizes, {"i": ("1", "4"), "j": ("1", "4"), "n": ("2", "3")}), torch.float32)
        ran = near(loaded(program), program, given, sizes, BOUNDS[torch.float32], least=1.0)
        assert ran and all(ran.values()), (ran, source)
