"""Token after token from a function of logits: the likeliest one, or one drawn by a seed.

A function of the whole text computes it anew each time; one with a `prefill` gives a cache with its first logits, and
from then on takes the cache and the new tokens alone. Texts of different lengths go side by side through an engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from einc.driver.decoding.engine import Engine
from einc.driver.decoding.sampling import Sampler, Stop, endings, whole
from einc.driver.decoding.vocabulary import Spoken

Array = Any  # a tensor of torch, by its methods
_PIECE = 1024  # so many positions of a text at a time have logits before there is a cache
_PATIENCE = 1.0  # seconds without a bar


def generate(logits: Callable[..., Any], ids: Array | Sequence[Array], steps: int, *, temperature: float = 0.0,
             top_k: int | None = None, top_p: float | None = None, seed: int = 0, stop: Stop = None,
             given: Mapping[str, Any] | None = None) -> Any:
    """The ids, (T,) or (B, T), with `steps` more at their end; of a list of texts (T,), of any lengths, a list.

    `logits(ids)` gives (…, T, V), itself or as `.logits`; or it is a compiled spec, and `given` are its weights and
    sizes: with `plan="serve"` every step is of the new tokens alone, and those of a list go side by side. At
    temperature 0 the likeliest token is taken; else one is drawn, after `top_k` among the k likeliest, after `top_p`
    among the fewest that have this probability together. A row that has come to a token of `stop` stays there, and a
    text of a list ends with it; when all have, nothing more is computed.
    """
    tokens = stream(logits, ids, steps, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stop,
                    given=given)
    several = isinstance(ids, list | tuple)
    new: list[list[Array]] = [[] for _ in ids] if several else [[]]
    with _bar(steps * len(new)) as told:
        for made, token in enumerate(tokens, 1):
            n, token = token if several else (0, token)
            new[n].append(token)
            told(made)
    texts = [_extended(_wide(text), more) for text, more in zip(ids if several else [ids], new, strict=True)]
    return texts if several else texts[0]


def stream(logits: Callable[..., Any], ids: Array | Sequence[Array], steps: int, *, temperature: float = 0.0,
           top_k: int | None = None, top_p: float | None = None, seed: int = 0, stop: Stop = None,
           given: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """The tokens that `generate` adds, one for each row, as they are made; of a list pairs, the number of a text and
    its token. Raises ValueError."""
    several = isinstance(ids, list | tuple)
    texts: Sequence[Any] = list(map(_wide, ids)) if several else [_wide(ids)]
    ids = texts if several else texts[0]
    if not all(map(_is_text, texts)) or (several and any(text.ndim > 1 for text in texts)):
        raise ValueError("ids is a tensor of whole numbers, (T,) or (B, T), with at least one token in each row, or a "
                         "list of (T,)")
    steps = whole("steps", steps, 0)
    ends, taking = endings(stop), Sampler(temperature, top_k, top_p, seed)
    model = Spoken(logits, given or {}) if given is not None or hasattr(logits, "program") else logits
    if not several:
        return grown(model, ids, steps, taking, ends)
    if isinstance(model, Spoken) and model.prefill is not None:
        return _beside(Engine(model.made, model.given), texts, steps, taking, ends)
    return ((n, token) for n, text in enumerate(texts) for token in grown(model, text, steps, taking, ends, [n]))


def _wide(ids: Any) -> Any:
    """Whole numbers of few bits, as of a text's bytes, in a type that has room for every token."""
    return (ids.long() if hasattr(ids, "element_size") and not ids.is_floating_point() and ids.element_size() < 4
            else ids)


def _is_text(ids: Any) -> bool:
    return (hasattr(ids, "is_floating_point") and ids.ndim in (1, 2) and not ids.is_floating_point()
            and bool(ids.shape[-1]))


def _beside(engine: Engine, texts: Sequence[Array], steps: int, taking: Sampler,
            stop: Collection[int]) -> Iterator[Any]:
    """The tokens of texts that an engine makes, each with the number of its text. Raises the error with which a text
    ended."""
    how = {field.name: getattr(taking, field.name) for field in fields(taking)}
    handles = [engine.add(ids, steps, **how, stop=stop, row=row) for row, ids in enumerate(texts) if steps]
    while engine.busy:
        for text, token in engine.step():
            yield text.row, token
        for text in handles:
            if text.error is not None:
                raise text.error


def grown(model: Callable[..., Any], ids: Array, steps: int, taking: Sampler, stop: Collection[int] = (),
          rows: Sequence[int] | None = None) -> Iterator[Array]:
    """The new tokens of each step for all rows of `ids`, until each row has met a token of `stop`; `rows` are the
    numbers that the rows are drawn by."""
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
        """The logits (…, V) of the next token. Fills or uses the cache where the model has one; ValueError for logits
        of a wrong shape, or where a row has no finite greatest.
        """
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
        if made.ndim != ids.ndim + 1 or made.shape[:-1] not in (ids.shape, (*ids.shape[:-1], 1)):
            raise ValueError(f"the logits have shape {tuple(made.shape)}, and ({', '.join(map(str, ids.shape))}, V) is "
                             f"expected")
        last = made.detach()[..., -1, :]
        if not bool(last.amax(-1).isfinite().all()):
            raise ValueError(f"among the logits after {self.text.shape[-1]} tokens none is a finite greatest")
        return last


def _extended(ids: Array, new: Sequence[Array]) -> Array:
    """The ids with new ones at their end."""
    text = _longer(ids, len(new))
    for n, token in enumerate(new, ids.shape[-1]):
        text[..., n] = token
    return text


def _longer(text: Array, count: int) -> Array:
    """The text with room at its end."""
    out = text.new_empty((*text.shape[:-1], text.shape[-1] + count))
    out[..., : text.shape[-1]] = text
    return out


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
