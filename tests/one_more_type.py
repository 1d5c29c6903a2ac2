"""A program: adds a type of which four numbers lie in a byte to the table of types, before anything has read it, and
holds every text of the tests of `int4` in that type against its meaning. Run by `tests/test_bytes.py`."""

from __future__ import annotations

import sys

from einc.ir import narrow

WORD = "int2"
narrow.NARROW[WORD] = narrow.Narrow(WORD, 1, 1, -2, 1, "uint8", together=4)

import numpy as np  # noqa: E402 - what reads the table comes after the row
import test_bytes  # noqa: E402
import test_bytes_in_kernels  # noqa: E402
from helpers import called, meaning, typed  # noqa: E402
from triton_modes import interpreted  # noqa: E402

from einc.driver import front  # noqa: E402
from einc.driver.commands import data  # noqa: E402

SIZES = {"T": 5, "N": 3, "P": 5, "D": 7, "V": 9, "U": 2}
STORED = """index t : time(T)
index d : feature(D)
input x_t^d
q_t^d = int2(min(max(x_t^d, -2), 1))
output Y_t = Σ_d q_t^d
plan call:
    store q as int2
"""


def main(backend: str) -> None:
    """Prints the texts whose result is not their meaning, and how many there are."""
    texts = [*(test_bytes.HEAD + text for text in test_bytes.USES.values()),
             *(test_bytes_in_kernels.HEAD + text for text in test_bytes_in_kernels.USES.values()), STORED]
    wrong = []
    for text in (text.replace("int4", WORD) for text in texts):
        program = typed(text)
        given = data.randoms(program, SIZES, "float32", 3)
        want = meaning(program, {key: data.exact(x) for key, x in given.items()}, SIZES)["Y"]
        got = called(front.built(program, backend=backend), program, given, SIZES)["Y"].double().numpy()
        wrong += [text] * bool(np.abs(got - want).max() > 1e-5 * max(1, np.abs(want).max()))
    print(*wrong, f"{len(texts) - len(wrong)} of {len(texts)}", sep="\n")


with interpreted():
    main(sys.argv[1])
