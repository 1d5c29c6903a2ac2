"""Which results each step is for: what is only for results that nobody asks for is not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from einc.backends.host.cache_views import reads
from einc.backends.host.contractions import PROMOTED, element
from einc.backends.host.loops import Dialect, Page
from einc.backends.host.module import counts, step
from einc.ir.plan import Module, makes


def purposes(module: Module, results: Sequence[str]) -> list[int]:
    """For each step the results that it is for, a bit for each."""
    needed = {key: 1 << n for n, key in enumerate(results)}
    out: list[int] = []
    for one in reversed(module.steps):
        bits = 0
        for key in makes(one):
            bits |= needed.get(key, 0)
        for key in reads(one):
            needed[key] = needed.get(key, 0) | bits
        out.append(bits)
    return out[::-1]


def steps_for(page: Page, dialect: Dialect, results: Sequence[str], bits: Sequence[int]) -> tuple[int, ...]:
    """Writes the steps; those that are not for every result where `wanted` says that one of theirs is asked for.

    For each result those with which it is made.
    """
    body, every, counted = page.body, (1 << len(results)) - 1, set[str]()
    made = {key: b or every for one, b in zip(page.module.steps, bits, strict=True) for key in makes(one)}
    body()
    for key in (key for key in results if made.get(key, every) != every):
        body(f"{key} = torch.empty(0, dtype={element(page.module.buffers[key], PROMOTED)}, device=device)")
    for some, found in groupby(zip(bits, page.module.steps, strict=True), key=lambda pair: pair[0]):
        steps = [one for _, one in found]
        for one in steps:
            counts(one, body, counted)
        here = page
        if some not in (0, every):
            body()
            own = [key for n, key in enumerate(results) if some >> n & 1]
            body.open(f"if wanted & {some}:  # {', '.join(own)}")
            here = replace(page, places=dict(page.places))
        for at, one in enumerate(steps):
            if at or here is page:
                body()
            step(one, here, dialect)
        if here is not page:
            body.close()
    return tuple(made.get(key, every) for key in results)
