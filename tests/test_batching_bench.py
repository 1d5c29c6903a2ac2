"""The bench of texts of many lengths: both ways make the same, and what is counted is what ran."""

from __future__ import annotations

import pytest
import torch

from bench import batching


@pytest.mark.parametrize("texts", [
    batching.Texts("prefill", (0, 0), (5, 9)), batching.Texts("decode", (4, 8), (1, 1)),
    batching.Texts("both", (4, 3), (1, 6)),
], ids=lambda texts: texts.name)
def test_both_ways_make_the_same(texts: batching.Texts) -> None:
    weights, rows = batching.data("float32", [5, 9])
    ours, padded = batching.Ours(texts, weights, rows), batching.Padded(texts, weights, rows)
    with batching.Counted() as counted:
        made = ours()
    torch.testing.assert_close(made, padded(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made.double(), batching.exact(texts, weights, rows), rtol=1e-4, atol=1e-5)
    assert counted.flops >= batching.useful(texts, batching.SIZES)
    assert (counted.flops == batching.useful(texts, batching.SIZES)) == (texts.name == "decode")
