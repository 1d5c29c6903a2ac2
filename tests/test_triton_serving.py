"""Serving with the Triton back end, in its interpreter: steps are the whole, in any tiles, and the past shared among programs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from inspect import unwrap
from typing import Any

import numpy as np
import pytest
from helpers import arrays, typed_of
from programs import Case
from test_serving import GROWING, LATER, SLOW, expected, stepwise
from triton_modes import interpreted, space, tiled

from einc import front
from einc.front import Compiled

SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
STEPPING = [case for case in GROWING if case.name not in LATER.split()]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@cache
def planned(case: Case) -> tuple[Any, str]:
    plan = front.generation(typed_of(case), front.choices(backend="triton"))
    return plan, front.emit(plan, "triton")


def served(case: Case, tiles: dict[str, tuple[int, int, int, int]] | None) -> Compiled:
    plan, source = planned(case)
    function = tiled(source, "step", None if tiles is None else lambda kind, rows, columns: tiles[kind])
    return Compiled(typed_of(case), plan, source, function, prefill=space(unwrap(function))["prefill"])


@pytest.mark.parametrize("case", STEPPING, ids=lambda c: c.name)
def test_steps_are_the_whole(case: Case, pytestconfig: pytest.Config) -> None:
    """In small tiles, the pass of each shared by three programs; slow ones in the tiles of the file."""
    if case.name in SLOW.split() and not pytestconfig.getoption("--whole"):
        pytest.skip("slow: `--whole` has it")
    sizes = {**case.sizes, "T": 9}
    made = served(case, SMALL)
    given = arrays(made.program, sizes, case.ranges, 1)
    cuts = [3, 1, 1, 4]
    want = expected(made.program, given, sizes, cuts)
    for name, x in stepwise(made, given, sizes, cuts).items():
        np.testing.assert_allclose(x, np.where(np.isnan(x), x, want[name]), rtol=1e-9, atol=1e-9)
