"""Folds over axes that may be empty, sums by an index, and running values."""

from __future__ import annotations

import math

import torch


def _amax(x: torch.Tensor, dim: int | tuple[int, ...]) -> torch.Tensor:
    """The maximum over an axis that may be empty: then -inf."""
    some = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    return x.amax(dim) if some else x.sum(dim) - math.inf


def _amin(x: torch.Tensor, dim: int | tuple[int, ...]) -> torch.Tensor:
    """The minimum over an axis that may be empty: then inf."""
    some = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    return x.amin(dim) if some else x.sum(dim) + math.inf


def _tally(total: torch.Tensor, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Each x added to the element of the last axis that its index names, if any does: the same bits in every run."""
    rows, count = total.shape[:-1], total.shape[-1]
    index = torch.where((index >= 0) & (index < count), index, count)
    summed = x.new_zeros(rows.numel(), count + 1)
    if index.ndim > 1:  # rows that name other elements are one row
        first = torch.arange(rows.numel(), device=x.device).view(*rows, 1) * (count + 1)
        index, summed, x = (index + first).flatten(), summed.view(1, -1), x.flatten()
    for row, values in zip(summed, x.reshape(len(summed), -1)):
        if x.device.type == "cpu":
            row.index_add_(0, index, values)
        else:
            row.index_put_((index,), values, accumulate=True)  # which sorts first
    return total.add_(summed.view(*rows, count + 1)[..., :count])


def _upto(x: torch.Tensor, dim: int, shift: int, extent: int, start: float) -> torch.Tensor:
    """Running values: element n is that of n + shift; before the first one the start, past the last one the last."""
    first = x.new_full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), start)
    at = (torch.arange(extent, device=x.device) + shift + 1).clamp(0, x.shape[dim])
    return torch.cat((first, x), dim).index_select(dim, at)


def _from(x: torch.Tensor, dim: int, shift: int, extent: int, start: float) -> torch.Tensor:
    """Values that run backwards: element n is that of n + shift; past the last one the
    start, before the first one the first."""
    last = x.new_full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), start)
    at = (torch.arange(extent, device=x.device) + shift).clamp(0, x.shape[dim])
    return torch.cat((x, last), dim).index_select(dim, at)
