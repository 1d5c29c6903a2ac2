"""Folds of which torch has only the step: over axes, and running along one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


def _folded(
    step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, dims: Iterable[int], start: float
) -> torch.Tensor:
    """The fold of x over some axes, in pairs; the start where there is nothing."""
    for dim in sorted(dims, reverse=True):
        while (count := x.shape[dim]) > 1:
            half = count // 2
            pairs = step(x.narrow(dim, 0, half), x.narrow(dim, half, half))
            x = torch.cat((pairs, x.narrow(dim, count - 1, 1)), dim) if count % 2 else pairs
        x = x.select(dim, 0) if count else x.new_full((*x.shape[:dim], *x.shape[dim + 1 :]), start)
    return x


def _running(step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, dim: int) -> torch.Tensor:
    """The fold of all values so far along an axis."""
    done, count = 1, x.shape[dim]
    while done < count:
        later = step(x.narrow(dim, done, count - done), x.narrow(dim, 0, count - done))
        x, done = torch.cat((x.narrow(dim, 0, done), later), dim), 2 * done
    return x
