"""What a gradient keeps, stores and leaves out, so that a whole model trains with few passes over memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from helpers import typed

import einc
from einc.ir.plan import Gradient, SegmentedModule
from einc.ir.terms import Fold, reads, walk
from einc.transforms.gradients.backward import derive

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import train

HEAD = """
index n : batch(B)
index t : time(T)
index f : feature(F)
index e : feature(E)
input x_{n t}^f
"""
NORMAL = HEAD + "weight γ^f\noutput y_{n t}^f = γ^f LN(x_{n t}^f)"
LAYER = HEAD + """
weight W_f^e, U_e^f
u_{n t}^e = x_{n t}^f W_f^e
z_{n t}^e = gelu_tanh(u_{n t}^e)
output y_{n t}^f = z_{n t}^e U_e^f
"""
TURNED = """
use "rope_half"
index n    : batch(B)
index h    : head(H)
index f    : feature(F)
input X_{n t}^f
weight W_{h f}^d
output Q_{n t h}^k = X_{n t}^f W_{h f}^d R_t_d^k
"""
PARTS = """
index t : time(T)
index d : feature(D)
index c : feature(3)
index x : feature(3 D) = (c d)
input y_t^x
output z_t^d = y_t^{(1, d)} y_t^{(3, d)} + tanh(y_t^{(2, d)})
"""


def test_deviations_from_a_mean_are_not_summed() -> None:
    folds = [e for e in derive(typed(NORMAL)).backward.equations if any(isinstance(t, Fold) for t in walk(e.body))]
    places = [{i.set.cls for t in walk(e.body) if isinstance(t, Fold) for i in t.bound} for e in folds]
    assert places.count({"feature"}) == 2  # of the mean and of what divides
    assert places.count({"batch", "time"}) == 1


def test_what_a_product_reads_is_kept_and_slopes_share_their_factors() -> None:
    derived = derive(typed(LAYER))
    assert {there for there, _ in derived.saved} == {"u", "z"}
    (slope,) = (e for e in derived.backward.equations if e.target == "du")
    assert sum(r.tensor == "dz" for r in reads(slope.body)) == 1


def _plans(text: str) -> list[Gradient]:
    plan = einc.compile(text, grad=True).plan
    if isinstance(plan, SegmentedModule):
        return [p.body if hasattr(p, "body") else p for p in plan.pieces]
    assert isinstance(plan, Gradient)
    return [plan]


def test_pairs_that_turn_are_turned_back_before_they_meet_a_weight() -> None:
    (plan,) = _plans(TURNED)
    assert max(len(b.sets) for b in plan.backward.buffers.values()) == 4


def test_nothing_is_stored_for_each_word_of_each_of_a_batch() -> None:
    for plan in _plans(train.SPEC):
        for buffer in plan.backward.buffers.values():
            assert not {"batch", "vocab"} <= {s.cls for s in buffer.sets}


def test_parts_are_views_and_lie_side_by_side() -> None:
    source = einc.compile(PARTS, grad=True).source
    assert "torch.stack((" in source and "[:, 0]" in source


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_have_the_gradient_of_autograd(dtype: torch.dtype) -> None:
    y = torch.randn(5, 12, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    a, b, c = y.unflatten(1, (3, 4)).unbind(1)
    want = torch.autograd.grad((a * c + b.tanh()).square().sum(), y)[0]
    got = torch.autograd.grad(einc.compile(PARTS, grad=True)(y=y).square().sum(), y)[0]
    torch.testing.assert_close(got, want)
