"""What `einc run` measures, and the sizes it chooses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import typed

from einc.driver import pipeline
from einc.driver.commands import measure, sizes
from einc.errors.report import Report, Source

CLASSES = """index t : time(T)
index h : head(H)
index g : head(G)
index d : feature(d_k)
index i : feature(d_k / 2)
index n : batch(B)
dim W
input Q_{n t h}^d, K_{n t g}^d, c^i
q_{n t h}^d = Q_{n t h}^d
k_{n t g}^d = K_{n t g}^d
b^i = c^i
u_t = 1[t <= W]
"""


def test_default_sizes_go_by_class() -> None:
    program = pipeline.check(Source("<text>", CLASSES), Report())
    assert program is not None
    assert sizes.default(program, {"T": 5}) == {"T": 5, "H": 8, "G": 2, "d_k": 64, "B": 2, "W": 16}
    assert sizes.names(program) == ["B", "T", "H", "d_k", "G", "W"]
    assert sizes.asked(program) == ["W"]


def test_positions_in_blocks_are_as_many_as_others() -> None:
    program = typed("index b : time(N)\nindex u : time(P)\nindex t : time(N P) = (b u)\n"
                    "input x_t, p_b, q_u\noutput y_t = 2 x_t\noutput z_b = p_b\noutput w_u = q_u\n")
    assert sizes.default(program, {}) == {"N": 16, "P": 16}
    assert sizes.default(program, {"P": 4}) == {"N": 16, "P": 4}


def test_distance() -> None:
    reference = np.array([3.0, 4.0, -np.inf])
    assert measure.distance(reference, reference, "float64").good
    far = measure.distance(np.array([3.0, 4.5, -np.inf]), reference, "float32")
    assert far.largest == pytest.approx(0.5)
    assert far.relative == pytest.approx(0.1)
    assert not far.good
    assert measure.distance(np.zeros((0, 3)), np.zeros((0, 3)), "float64").good
    assert measure.distance(np.zeros(3), np.zeros(3), "float64").good


@pytest.mark.parametrize("result", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 2.0], [1.0]])
def test_distance_of_what_is_not_finite(result: list[float]) -> None:
    far = measure.distance(np.array(result), np.array([1.0, 1.0]), "bfloat16")
    assert not far.good
    assert far.relative == np.inf


def test_distance_of_integers_is_equality() -> None:
    assert measure.distance(np.array([1, 2]), np.array([1, 2]), "int64").good
    assert not measure.distance(np.array([1, 2]), np.array([1, 3]), "int64").good


def test_memory_is_that_of_the_work() -> None:
    value, said = measure.with_memory(lambda: float(np.ones(8_000_000).sum()))
    assert value == 8_000_000
    assert "resident" in said
