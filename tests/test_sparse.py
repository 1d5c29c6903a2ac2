"""Values of which single elements are read: these are computed where they are read, and the whole is never stored."""

from __future__ import annotations

import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed

from einc.backends.torch.load import load
from einc.driver import front

HEAD = """
index t, s, u : time(T)
index d, k : feature(D)
input Q_t^k, K_s^k, V_s^d
input w_t : int
"""
FEW = {
    "equal positions": "mask L_{t s} : s = t\nL_{t s} = Q_t^k K_{s k}\noutput y_t^d = Σ_s softmax_s(L_{t s}) V_s^d",
    "one before": "mask L_{t s} : s = t - 1\nL_{t s} = Q_t^k K_{s k}\nA_{t s} = softmax_s(L_{t s})\n"
                  "output y_t^d = Σ_s A_{t s} V_s^d",
    "diagonal beside the rows": "mask L_{t s} : s ≤ t\nL_{t s} = Q_t^k K_{s k}\nA_{t s} = softmax_s(L_{t s})\n"
                                "output y_t^d = Σ_s A_{t s} V_s^d\noutput p_t = A_{t t}",
    "chosen by a tensor": "output y_t : all\nA_{t s} = tanh(Q_t^k K_{s k})\ny_t = A_{t w_t} + A_{t t}",
    "a sum along the other index": "mask L_{t s} : s ≤ t\nL_{t s} = Q_t^k K_{s k}\nB_{t u} = Σ_{s ≤ u} L_{t s}^2\n"
                                   "output y_t = B_{t t}",
    "one row": "mask L_{t s} : all\nL_{t s} = Q_t^k K_{s k}\nA_{t s} = tanh(L_{t s} - max_{s'} L_{t s'})\noutput y_t = "
               "A_{t 1}",
}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("length", [1, 2, 7, 65])
def test_single_elements_are_computed_where_they_are_read(name: str, length: int) -> None:
    program, sizes = typed(HEAD + FEW[name]), {"T": length, "D": 3}
    plan = front.plan(program)
    assert not [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
    given = arrays(program, sizes, {"w": ("1", "T")})
    got = called(load(front.emit(plan), plan.name), program, tensors(given), sizes)
    assert_close(got, meaning(program, given, sizes))


def test_what_is_read_whole_is_stored_once() -> None:
    """An element beside a reader of everything is no reason to compute it again."""
    text = "output A_{t s} : all\nA_{t s} = tanh(Q_t^k K_{s k})\noutput p_t = A_{t t}"
    plan = front.plan(typed(HEAD + text))
    assert [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
