"""Token after token from a function of logits: the likeliest one, or one drawn by a seed.

A function of the whole text computes it anew each time; one with a `prefill` gives a cache with its first logits, and from then
on takes the cache and the new tokens alone. A draw is made of the seed, the row and the position alone, so a text goes on as it
would have, with a cache or without, whatever stands beside it, and is the same on every device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from einc.mixing import chance, hashed
from einc.vocabulary import Spoken

Array = Any  # a tensor of torch, by its methods
Stop = int | Collection[int] | None
_PIECE = 1024  # so many positions of a text at a time have logits before there is a cache
_PATIENCE = 1.0  # seconds without a bar


@dataclass(frozen=True, slots=True)
class Taking:
    """How the next token is taken: at temperature 0 the likeliest; else one is drawn, after `top_k` among the k likeliest, after
    `top_p` among the fewest that have this probability together.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature = {self.temperature}, a number from 0 is expected: 0 takes the likeliest token")
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise ValueError("top_k and top_p say what is drawn from, and at temperature 0 nothing is drawn: give a temperature")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k = {self.top_k}, a whole number from 1 is expected")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p = {self.top_p}, a number above 0 and up to 1 is expected")

    def __call__(self, last: Array, rows: Sequence[int], positions: Sequence[int]) -> Array:
        """The token of each row, from its logits (B, V); a row is drawn by its number and the position the token comes to."""
        if self.temperature == 0:
            return last.argmax(-1)
        draws = [chance(hashed(self.seed, row), position) for row, position in zip(rows, positions, strict=True)]
        return _drawn(last.double() / self.temperature, self.top_k, self.top_p, draws)


def generate(logits: Callable[..., Any], ids: Array, steps: int, *, temperature: float = 0.0, top_k: int | None = None,
             top_p: float | None = None, seed: int = 0, stop: Stop = None, given: Mapping[str, Any] | None = None) -> Array:
    """The ids, (T,) or (B, T), with `steps` more at their end.

    `logits(ids)` gives (…, T, V), itself or as `.logits`; or it is a compiled spec, and `given` are its weights and sizes: with
    `plan="serve"` every step is of the new tokens alone. At temperature 0 the likeliest token is taken; else one is drawn, after
    `top_k` among the k likeliest, after `top_p` among the fewest that have this probability together. A row that has come to a
    token of `stop` stays there; when all have, nothing more is computed.
    """
    tokens = stream(logits, ids, steps, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stop, given=given)
    new = []
    with _bar(steps) as told:
        for token in tokens:
            new.append(token)
            told(len(new))
    text = _longer(ids, len(new))
    for n, token in enumerate(new, ids.shape[-1]):
        text[..., n] = token
    return text


def stream(logits: Callable[..., Any], ids: Array, steps: int, *, temperature: float = 0.0, top_k: int | None = None,
           top_p: float | None = None, seed: int = 0, stop: Stop = None,
           given: Mapping[str, Any] | None = None) -> Iterator[Array]:
    """The tokens that `generate` adds, one for each row, as they are made."""
    if getattr(ids, "ndim", None) not in (1, 2) or ids.is_floating_point() or not ids.shape[-1]:
        raise ValueError("ids is a tensor of whole numbers, (T,) or (B, T), with at least one token in each row")
    if steps < 0:
        raise ValueError(f"steps = {steps}, a whole number from 0 is expected")
    ends = () if stop is None else tuple(stop) if isinstance(stop, Collection) else (stop,)
    model = Spoken(logits, given or {}) if given is not None or hasattr(logits, "program") else logits
    return grown(model, ids, steps, Taking(temperature, top_k, top_p, seed), ends)


def grown(model: Callable[..., Any], ids: Array, steps: int, taking: Taking, stop: Collection[int] = (),
          rows: Sequence[int] | None = None) -> Iterator[Array]:
    """The same; `rows` are the numbers that the rows are drawn by."""
    going, single = _Growing(model, ids), ids.ndim == 1
    rows = range(1 if single else len(ids)) if rows is None else rows
    done: Any = None
    new: Any = None
    for step in range(steps):
        if new is not None:
            going.grow(new[0] if single else new)
        before, last = new, going.ahead()
        new = taking(last[None] if single else last, rows, [ids.shape[-1] + step] * len(rows)).to(ids.dtype)
        if stop:
            new = new if done is None else before.where(done, new)
            done = sum(new == token for token in stop) > 0
        yield new[0] if single else new
        if done is not None and bool(done.all()):
            return


class _Growing:
    """A text, and the logits of what comes next: with a cache from the new tokens alone, else from all of it."""

    def __init__(self, model: Callable[..., Any], ids: Array) -> None:
        self.model, self.text, self.cache = model, ids, None

    def grow(self, new: Array) -> None:
        self.text = _longer(self.text, 1)
        self.text[..., -1] = new

    def ahead(self) -> Array:
        prefill, ids = getattr(self.model, "prefill", None), self.text
        if prefill is None:
            made = self.model(ids)
        elif self.cache is None:
            first, *more = ids.split(_PIECE, -1)
            (made, self.cache), ids = prefill(first), first
            for ids in more:
                made = self.model(self.cache, ids)
        else:
            ids = ids[..., -1:]
            made = self.model(self.cache, ids)
        made = getattr(made, "logits", made)
        if made.ndim != ids.ndim + 1 or made.shape[:-1] != ids.shape:
            raise ValueError(f"the logits have shape {tuple(made.shape)}, and ({', '.join(map(str, ids.shape))}, V) is expected")
        last = made.detach()[..., -1, :]
        if not bool(last.amax(-1).isfinite().all()):
            raise ValueError(f"among the logits after {self.text.shape[-1]} tokens none is a finite greatest")
        return last


def _longer(text: Array, count: int) -> Array:
    """The text with room at its end."""
    out = text.new_empty((*text.shape[:-1], text.shape[-1] + count))
    out[..., : text.shape[-1]] = text
    return out


def _drawn(scores: Array, top_k: int | None, top_p: float | None, draws: Sequence[float]) -> Array:
    """One token for each row: where its draw falls among the probabilities side by side, the likeliest first."""
    ordered, tokens = scores.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -float("inf")
    likely = (ordered - ordered[:, :1]).exp()
    likely = likely / likely.sum(-1, keepdim=True)
    if top_p is not None:
        likely = likely.masked_fill(likely.cumsum(-1) - likely >= top_p, 0.0)
    upto = likely.cumsum(-1)
    at = (upto <= (upto.new_tensor(draws) * upto[:, -1])[:, None]).sum(-1)
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
