"""Token after token from any function that gives logits: the likeliest one, or one drawn by a seed.

Every step computes the whole text anew: a cache is the function's own affair. A draw is made of the seed, the row and the
position alone, so a text goes on as it would have, and is the same on every device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from einc.mixing import chance, hashed

Array = Any  # a tensor of torch, by its methods
_PATIENCE = 1.0  # seconds without a bar


def generate(logits: Callable[[Array], Any], ids: Array, steps: int, *, temperature: float = 0.0, top_k: int | None = None,
             top_p: float | None = None, seed: int = 0, stop: int | None = None) -> Array:
    """The ids, (T,) or (B, T), with `steps` more at their end.

    `logits(ids)` gives (…, T, V), itself or as `.logits`. At temperature 0 the likeliest token is taken; else one is drawn,
    after `top_k` among the k likeliest, after `top_p` among the fewest that have this probability together. A row that has
    come to the token `stop` stays there; when all have, nothing more is computed.
    """
    _refuse(ids, steps, temperature, top_k, top_p)
    text = ids if ids.ndim == 2 else ids[None]
    done = text.new_zeros(len(text)).bool()
    with _bar(steps) as told:
        for step in range(steps):
            last = _last(logits, text if ids.ndim == 2 else text[0], ids.ndim)
            new = last.argmax(-1) if temperature == 0 else _drawn(last.double() / temperature, top_k, top_p, seed, text.shape[1])
            new = new.to(text.dtype)
            if stop is not None:
                new = new.masked_fill(done, stop)
                done = done | (new == stop)
            longer = text.new_empty((len(text), text.shape[1] + 1))
            longer[:, :-1], longer[:, -1] = text, new
            text = longer
            told(step + 1)
            if stop is not None and bool(done.all()):
                break
    return text if ids.ndim == 2 else text[0]


def _refuse(ids: Array, steps: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    if getattr(ids, "ndim", None) not in (1, 2) or ids.is_floating_point() or not ids.shape[-1]:
        raise ValueError("ids is a tensor of whole numbers, (T,) or (B, T), with at least one token in each row")
    if steps < 0:
        raise ValueError(f"steps = {steps}, a whole number from 0 is expected")
    if not temperature >= 0:
        raise ValueError(f"temperature = {temperature}, a number from 0 is expected: 0 takes the likeliest token")
    if temperature == 0 and (top_k is not None or top_p is not None):
        raise ValueError("top_k and top_p say what is drawn from, and at temperature 0 nothing is drawn: give a temperature")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k = {top_k}, a whole number from 1 is expected")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p = {top_p}, a number above 0 and up to 1 is expected")


def _last(logits: Callable[[Array], Any], text: Array, axes: int) -> Array:
    """The logits of what comes next, (B, V)."""
    made = logits(text)
    made = getattr(made, "logits", made)
    if made.ndim != axes + 1 or made.shape[:-1] != text.shape:
        raise ValueError(f"the logits have shape {tuple(made.shape)}, and ({', '.join(map(str, text.shape))}, V) is expected")
    last = made.detach()[..., -1, :]
    last = last if axes == 2 else last[None]
    if not bool(last.amax(-1).isfinite().all()):
        raise ValueError(f"among the logits after {text.shape[-1]} tokens none is a finite greatest")
    return last


def _drawn(scores: Array, top_k: int | None, top_p: float | None, seed: int, position: int) -> Array:
    """One token for each row: where its draw falls among the probabilities side by side, the likeliest first."""
    ordered, tokens = scores.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -float("inf")
    likely = (ordered - ordered[:, :1]).exp()
    likely = likely / likely.sum(-1, keepdim=True)
    if top_p is not None:
        likely = likely.masked_fill(likely.cumsum(-1) - likely >= top_p, 0.0)
    upto = likely.cumsum(-1)
    draws = upto.new_tensor([chance(hashed(seed, row), position) for row in range(len(scores))])
    at = (upto <= (draws * upto[:, -1])[:, None]).sum(-1)
    last = (likely > 0).sum(-1) - 1  # rounding may carry a draw past the end
    return tokens.gather(1, at.minimum(last)[:, None])[:, 0]


@contextmanager
def _bar(steps: int) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal of the error stream where it takes long; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("tokens"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task, begun, shown = progress.add_task("", total=steps), time.monotonic(), False

    def told(step: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - begun > _PATIENCE:
            progress.start()
            shown = True
        progress.update(task, completed=step)

    try:
        yield told
    finally:
        if shown:
            progress.stop()
