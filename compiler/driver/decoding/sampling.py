"""The next token of a text from its logits: the likeliest one, or one drawn by a seed.

A draw is made of the seed, the row and the position alone, so a text goes on as it would have, with a cache or without,
whatever stands beside it, and is the same on every device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import index
from typing import Any

from einc.ir.mixing import chance, hashed

Array = Any  # a tensor of torch, by its methods
Stop = int | Collection[int] | None
_TOKENS = 2**63  # tokens stand in tensors of whole numbers of 64 bits


def whole(name: str, value: object, least: int | None = None) -> int:
    """The value of an argument as a whole number. ValueError, which names it, where it is none, or below `least`."""
    try:
        found = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None or (least is not None and found < least):
        raise ValueError(f"{name} = {value!r}, a whole number{'' if least is None else f' from {least}'} is expected")
    return found


def _finite(value: Any) -> bool:
    """Whether a value is a finite number."""
    try:
        return isfinite(value)
    except (TypeError, OverflowError):
        return False


def endings(stop: Stop) -> tuple[int, ...]:
    """The tokens at which a text ends. ValueError where something else is given."""
    plain: Any = getattr(stop, "tolist", lambda: stop)()
    several = isinstance(plain, Collection) and not isinstance(plain, str)
    given = () if plain is None else tuple(plain) if several else (plain,)
    try:
        found = tuple(whole("stop", token, 0) for token in given)
    except ValueError:
        found = (_TOKENS,)
    if any(token >= _TOKENS for token in found):
        raise ValueError(f"stop = {stop!r}, a token or several are expected: whole numbers from 0, below 2^63")
    return found


@dataclass(frozen=True, slots=True)
class Sampler:
    """How the next token is taken: at temperature 0 the likeliest; else one is drawn, after `top_k` among the k
    likeliest, after `top_p` among the fewest that have this probability together.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Brings the numbers to their types; ValueError where one is out of its range or says nothing."""
        if not (_finite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature = {self.temperature!r}, a finite number from 0 is expected: "
                             "0 takes the likeliest token")
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise ValueError("top_k and top_p say what is drawn from, and at temperature 0 nothing is drawn: give a "
                             "temperature")
        if self.top_p is not None and not (_finite(self.top_p) and 0 < self.top_p <= 1):
            raise ValueError(f"top_p = {self.top_p!r}, a number above 0 and up to 1 is expected")
        object.__setattr__(self, "temperature", float(self.temperature))
        object.__setattr__(self, "top_p", None if self.top_p is None else float(self.top_p))
        object.__setattr__(self, "top_k", None if self.top_k is None else whole("top_k", self.top_k, 1))
        object.__setattr__(self, "seed", whole("seed", self.seed))

    def __call__(self, last: Array, rows: Sequence[int], positions: Sequence[int]) -> Array:
        """The token of each row, from its logits (B, V); a row is drawn by its number and
        the position the token comes to."""
        return self.taken(last, [self.draw(row, position) for row, position in zip(rows, positions, strict=True)])

    def draw(self, row: int, position: int) -> float:
        """A number in [0, 1) for one token; where nothing is drawn it is 0."""
        return chance(hashed(self.seed, row), position) if self.temperature else 0.0

    def taken(self, last: Array, draws: Sequence[float]) -> Array:
        """The token of each row by what was drawn for it."""
        if not self.temperature:
            return last.argmax(-1)
        scores = last.double()
        return _drawn((scores - scores.amax(-1, keepdim=True)) / self.temperature, self.top_k, self.top_p, draws)

    @property
    def way(self) -> Sampler:
        """This sampler with seed 0: equal for two that draw the same way."""
        return replace(self, seed=0)


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
