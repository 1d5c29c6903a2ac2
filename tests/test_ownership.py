"""Memory that a statement writes over: a value that is still read keeps its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import examples
from hypothesis import strategies as st

import einc

HEAD = "index t : time(T)\nindex d : feature(D)\ninput r, c^d, g_t^d\n"
SUM = "(Σ_d g_t^d c^d)"
LEAVES = st.sampled_from([SUM, SUM, "r", "exp(r)", "2"])
TERMS = st.recursive(LEAVES, lambda inner: st.one_of(
    st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda x: f"({' '.join(x)})"),
    inner.map(lambda x: f"tanh({x})"), inner.map(lambda x: f"({x})^2")), max_leaves=6)


def agrees(term: str) -> None:
    text = f"{HEAD}output y_t = {term} + 0 {SUM} + 0 r"
    random = np.random.default_rng(0)
    given_ = {"r": random.normal(size=()), "c": random.normal(size=3), "g": random.normal(size=(5, 3))}
    function = einc.compile(text, backend="torch")
    asked = {t.key for t in function.plan.inputs}
    got = function(**{key: torch.from_numpy(np.asarray(x)) for key, x in given_.items() if key in asked})
    want = einc.interpret(text, {key: x for key, x in given_.items() if key in asked})["y"]
    assert np.allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("term", [f"r {SUM} + exp(r) {SUM}", f"{SUM} + {SUM} tanh(r)", f"{SUM} exp(r) - {SUM}^2",
                                  f"{SUM} {SUM}"])
def test_a_value_that_is_read_twice(term: str) -> None:
    agrees(term)


@examples(10, 25, term=TERMS)
def test_a_value_that_is_read_often(term: str) -> None:
    agrees(term)
