"""Compiled kernels over a cache in pages: read where they lie, in any order, without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from inspect import unwrap

import numpy as np
import pytest
import torch
from cpp_texts import NEEDED, quick, running, torch_computes
from helpers import Arrays, arrays, distance
from test_pages import classes, poisoned, scattered
from test_serving import named, served, stepwise

from einc.driver import front

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

NAMES = ["sdpa", "gqa", "mla_rope", "sliding_window", "mask_documents", "softcap", "alibi"]
COPIED = ["mask_documents"]  # whose numbers of documents are searched as a whole
CUTS = [9, *[1] * 7, 9, 3, 12]


@cache
def compiled(name: str) -> front.Compiled:
    """The steps of a case, its kernels compiled fast, with tiles of 16 positions."""
    made = front.built(served(named(name)).program, backend="cpp", plan="serve", own=True)
    function = front.load(quick(made.source), "step", "cpp")
    return replace(made, function=function, first_call=unwrap(function).__globals__["prefill"])


def given(name: str, dtype: torch.dtype) -> tuple[Arrays, dict[str, int]]:
    """Inputs of forty positions."""
    case = named(name)
    sizes = {**case.sizes, "T": sum(CUTS), **({"H": 4, "G": 2} if "G" in case.sizes else {})}
    found = arrays(served(case).program, sizes, case.ranges, 1)
    narrow = {key: torch.as_tensor(x).to(dtype) if x.dtype.kind == "f" else x for key, x in found.items()}
    return narrow, sizes  # type: ignore[return-value]


@contextmanager
def copies(made: front.Compiled) -> Iterator[list[int]]:
    """The numbers of pages that were copied together within."""
    found, store = list[int](), classes(made)["_Store"]
    kept = store.gather

    def gather(self: object, pages: list[int], memory: torch.Tensor | None) -> torch.Tensor:
        found.append(len(pages))
        result: torch.Tensor = kept(self, pages, memory)
        return result

    store.gather = gather
    try:
        yield found
    finally:
        store.gather = kept


@pytest.mark.drawn(9)
@pytest.mark.parametrize("name", NAMES)
def test_scattered_pages_are_read_in_place(name: str) -> None:
    """Pages of any size, neighbours or none, memory in between full of what is no number: what torch's statements give
    of rows in one piece. The kernels run, and nothing is copied together.
    """
    made, (inputs, sizes) = compiled(name), given(name, torch.float32)
    with torch_computes(made.function):
        want = stepwise(made, inputs, sizes, CUTS)
    for page in (1, 3, 16, 64):
        pool = scattered(made, -(-sum(CUTS) // page), page)
        with running(made.function) as ran, copies(made) as copied:
            found = stepwise(made, inputs, sizes, CUTS, pool, poisoned)
        assert ran and all(ran.values()) and (not copied or name in COPIED), (page, ran, copied)
        for key, x in want.items():
            assert distance(found[key], x) <= 2e-4, page


def test_scattered_pages_of_bfloat16() -> None:
    """Products of pairs of numbers begin where a run begins, too."""
    made = compiled("sdpa")
    random = torch.Generator().manual_seed(0)
    rows = {key: torch.randn(2, 3, sum(CUTS), 6, generator=random).bfloat16() for key in "QKV"}
    want = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in rows.values()), is_causal=True)
    for page in (1, 3, 16):
        pool, at, found, state = scattered(made, -(-sum(CUTS) // page), page), 0, list[torch.Tensor](), None
        with running(made.function) as ran:
            for count in CUTS:
                here = {key: x[:, :, at:at + count] for key, x in rows.items()}
                if state is None:
                    y, state = unwrap(made.function).__globals__["prefill"](**here, pool=pool)
                else:
                    y = made(state, **here)
                found.append(y)
                at += count
        assert ran and all(ran.values())
        assert distance(torch.cat(found, 2).double().numpy(), want.numpy()) <= 6e-2


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_bits_for_any_number_of_threads(threads: int) -> None:
    before = torch.get_num_threads()
    made, (inputs, sizes) = compiled("gqa"), given("gqa", torch.float32)
    want = stepwise(made, inputs, sizes, CUTS, scattered(made, 14, 3))
    torch.set_num_threads(threads)
    try:
        found = stepwise(made, inputs, sizes, CUTS, scattered(made, 14, 3))
    finally:
        torch.set_num_threads(before)
    assert all(np.array_equal(found[key], x) for key, x in want.items())


def test_one_run_is_one_run() -> None:
    """A cache in one piece, in a pool or not, has the same bits."""
    made, (inputs, sizes) = compiled("sdpa"), given("sdpa", torch.float32)
    whole = stepwise(made, inputs, sizes, CUTS)
    pooled = stepwise(made, inputs, sizes, CUTS, made.pool(20, 4))
    assert all(np.array_equal(pooled[key], x) for key, x in whole.items())
