"""One new position of each text over keys and values in pages of a pool; those of the rivals lie in rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from bench.attention import Attention

PAGE = 64
GROUPED = """
index n : batch(B)
index h : head(H)
index g : head(G)
index t, s : time(T)
index d, k : feature(D)
map π(h) = ceil(h G / H) : g
input Q_{n h t}^d, K_{n g s}^d, V_{n g s}^d
mask L_{n h t s} : s ≤ t
L_{n h t s} = 1/√D Q_{n h t}^k K_{n, π(h), s k}
output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n, π(h), s}^d
"""
PAGED = f"{GROUPED}\nplan serve:\n    cache K, V paged {PAGE}\n"


@dataclass(frozen=True)
class Kept:
    """The caches of the texts, in pages of one pool, and the inputs of the step. `place` is the address of the keys
    that they were made of."""

    place: int
    caches: list[Any]
    new: dict[str, torch.Tensor]


_KEPT: WeakKeyDictionary[Callable[..., Any], Kept] = WeakKeyDictionary()  # a function's caches, which are made once


@dataclass(frozen=True)
class Paged(Attention):
    """Every text of the batch has a cache of its own, and a step adds a position to each."""

    plan = "serve"

    def used(self, function: Callable[..., Any], given: Mapping[str, Any]) -> torch.Tensor:
        """A step, after which the caches are as long as before it."""
        kept = _KEPT.get(function)
        if kept is None or kept.place != given["K"].data_ptr():
            _KEPT[function] = kept = filled(function, given)
        y: torch.Tensor = function(kept.caches, lengths=[1] * len(kept.caches), **kept.new)
        for one in kept.caches:
            one.length -= 1
        return y.permute(2, 1, 0, 3)


def filled(function: Callable[..., Any], given: Mapping[str, Any]) -> Kept:
    """The keys and values but the last of each text in pages of a pool, of which no two that follow one another in a
    text lie side by side but by chance; the last ones are those of the step."""
    texts, _, length, _ = given["K"].shape
    pages = -(-length // PAGE)
    module = function.__globals__
    pool = module["Pool"](texts * pages, PAGE)
    table = random.Random(0).sample(range(texts * pages), texts * pages)
    caches = [module["Cache"](pool=pool, table=table[n * pages : (n + 1) * pages]) for n in range(texts)]
    for n, one in enumerate(caches):
        rows = {name: given[name][n : n + 1, :, :-1] for name in ("K", "V")}
        function(one, Q=given["Q"][n : n + 1], **{name: x[:, :, :1] for name, x in rows.items()})
        one.reserve(length - 2)
        for name, x in rows.items():
            laid = pool.stores[name]
            one[name].append(x[:, :, 1:], laid.axis, laid.order)
        one.length += length - 2
    new = {name: given[name][:, :, -1].transpose(0, 1)[None] for name in ("K", "V")}
    return Kept(given["K"].data_ptr(), caches, {"Q": given["Q"].permute(2, 1, 0, 3), **new})
