"""One new position over a cache in pages, against the same cache in rows: pages of
requests that grew together, and the worst.

`grown`: three requests that grew side by side have the pool, as it comes about when texts are continued. `scattered`:
no two neighbours of a text lie side by side.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import torch

import einc
from bench.decode import GROUPED
from bench.record import Row

HEADS, GROUPS, WIDTH = 32, 8, 128
WAYS = ("grown", "scattered")


@cache
def compiled() -> Any:
    return einc.compile(GROUPED, "torch", plan="serve")


@dataclass(frozen=True)
class Sizes:
    batch: int
    length: int
    page: int
    dtype: torch.dtype


def tensors(sizes: Sizes, count: int) -> dict[str, torch.Tensor]:
    heads = {"Q": HEADS, "K": GROUPS, "V": GROUPS}
    return {name: torch.randn(sizes.batch, h, count, WIDTH).to(sizes.dtype) for name, h in heads.items()}


def fill(sizes: Sizes, one: Any, others: tuple[Any, ...], seed: int = 0) -> None:
    """The same random rows for every cache `one`; `others` grow beside it. A step of one
    position says how they are laid."""
    torch.manual_seed(seed)
    first, counts = tensors(sizes, 1), random.Random(seed)
    for each in (one, *others):
        compiled()(each, **first)
    while one.length < sizes.length:
        count = min(counts.randint(1, 900), sizes.length - one.length)
        new = tensors(sizes, count)
        for each in (one, *others):
            each.reserve(count)
            for name in ("K", "V"):
                laid = each[name] if each.pool is None else each.pool.stores[name]
                each[name].append(new[name], laid.axis, laid.order)
            each.length += count


def caches(sizes: Sizes) -> dict[str, Any]:
    """The cache in rows and those in pages, all of the same contents."""
    make, pages = compiled().named("Cache"), -(-(sizes.length + 1) // sizes.page)
    made = {"rows": make()}
    fill(sizes, made["rows"], ())
    pool = compiled().pool(3 * pages + 8, sizes.page)
    made["grown"] = make(pool=pool)
    fill(sizes, made["grown"], (make(pool=pool), make(pool=pool)))
    table = [*range(0, 2 * pages, 2)]
    random.Random(0).shuffle(table)
    made["scattered"] = make(pool=compiled().pool(2 * pages, sizes.page), table=table)
    fill(sizes, made["scattered"], ())
    return made


def figures(sizes: Sizes, rounds: int) -> Iterator[Row]:
    """Each way's time over that of rows: the median over rounds in which each takes its turn."""
    made, new = caches(sizes), tensors(sizes, 1)
    times: dict[str, list[float]] = {name: [] for name in made}
    found: dict[str, torch.Tensor] = {}
    for turn in range(rounds + 2):
        for name, one in made.items():
            begun = time.perf_counter()
            found[name] = compiled()(one, **new)
            spent = time.perf_counter() - begun
            one.length -= 1
            if turn >= 2:
                times[name].append(spent)
    bound = 1e-5 if sizes.dtype == torch.float32 else 2e-2
    for name in WAYS:
        torch.testing.assert_close(found[name], found["rows"], rtol=bound, atol=bound)
        yield {"case": name, "sizes": {"B": sizes.batch, "S": sizes.length, "page": sizes.page},
               "dtype": str(sizes.dtype).removeprefix("torch."), "runs": len(made[name].table.runs),
               "seconds": median(times[name]), "rows_seconds": median(times["rows"]),
               "ratio": median(a / b for a, b in zip(times[name], times["rows"], strict=True))}
