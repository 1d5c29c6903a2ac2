"""Recurrences by compiled kernels, position after position; torch computes where these cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from einc.backends.cpp.runtime.native import _LIBRARIES, _native
from einc.backends.host.runtime.affine import _affine, _scan, _scanned, _Vectors

_BORDER = 32  # positions between two states that are kept for the gradient


class _Listed:
    """The operands of `_affine` in one list, as kernels take them: reads of S_t before those of S_{t-1}."""

    def __init__(self, gate: torch.Tensor, first: torch.Tensor, known: Sequence[tuple[torch.Tensor, ...]],
                 unknown: Sequence[tuple[torch.Tensor, ...]], flags: list[bool], reads: list[torch.Tensor]) -> None:
        self.known, self.unknown, self.flags = len(known), len(unknown), flags
        self.order = sorted(range(len(flags)), key=lambda n: not flags[n])
        self.tensors = [gate, first, *(x for some in (*known, *unknown) for x in some), *(reads[n] for n in self.order)]

    def again(self, tensors: tuple[torch.Tensor, ...], tile: int) -> tuple[_Vectors, torch.Tensor]:
        """What torch makes of operands in this order."""
        gate, first, *rest = tensors
        known = [(rest[2 * n], rest[2 * n + 1]) for n in range(self.known)]
        rest = rest[2 * self.known:]
        unknown = [(rest[3 * n], rest[3 * n + 1], rest[3 * n + 2]) for n in range(self.unknown)]
        rest = rest[3 * self.unknown:]
        found, last = _affine(gate, first, known, unknown, [(x, self.flags[n]) for x, n in zip(rest, self.order)], tile)
        return found, last

    def sizes(self) -> list[int]:
        """Units, positions, rows and columns of a state, positions between two states that are kept."""
        gate, first = self.tensors[:2]
        return [gate.shape[0], gate.shape[1], first.shape[1], first.shape[2], _BORDER]


def _native_vectors(text: str, dtype: torch.dtype) -> int:
    """The vectors of rows of the library that is loaded already, if one is: a recurrence has no rows."""
    return 1 if (text, dtype, 1) in _LIBRARIES else 2


class _Affine(torch.autograd.Function):
    """What a kernel has made of the operands, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, run: tuple[str, str, int, torch.dtype, int], listed: _Listed, borders: torch.Tensor,
        made: list[torch.Tensor], *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(borders, *tensors)
        ctx.run, ctx.listed = run, listed
        return tuple(made)

    @staticmethod
    @once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The slopes in what the recurrence read, by the compiled kernel; where there is none, by torch through the
        blocks computed again."""
        borders, *tensors = ctx.saved_tensors
        (text, name, work, dtype, tile), listed = ctx.run, ctx.listed
        found = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in tensors]
        given = [*tensors, *slopes, borders, *found]
        if not _native(text, f"{name}_back", given, listed.sizes(), [], 4 * work, dtype, _native_vectors(text, dtype)):
            with torch.enable_grad():
                again = tuple(x.detach().requires_grad_() for x in tensors)
                some, last = listed.again(again, tile)
                found = list(torch.autograd.grad([*(some[n] for n in listed.order), last], again, slopes))
        return None, None, None, None, *found


def _native_affine(
    text: str, name: str, work: int, dtype: torch.dtype, gate: torch.Tensor, first: torch.Tensor,
    known: list[tuple[torch.Tensor, torch.Tensor]], unknown: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    reads: list[tuple[torch.Tensor, bool]], tile: int,
) -> tuple[_Vectors, torch.Tensor]:
    """`_affine` by the compiled kernel of this name, which has so many operations."""
    flags = [flag for _, flag in reads]
    listed = _Listed(gate, first, known, unknown, flags, [x for x, _ in reads])
    if torch.compiler.is_compiling() or any(x.dtype != torch.float32 for x in listed.tensors):
        return _affine(gate, first, known, unknown, reads, tile)
    count, points, _, width, border = listed.sizes()
    made = [torch.empty(count, points, width, dtype=first.dtype, device=first.device) for _ in reads]
    made.append(torch.empty(first.shape, dtype=first.dtype, device=first.device))
    graph = torch.is_grad_enabled() and any(x.requires_grad for x in listed.tensors)
    kept = -(-points // border) * count if graph else 0
    borders = torch.empty(kept, *first.shape[1:], dtype=first.dtype, device=first.device)
    if not _native(text, f"{name}_kept" if graph else name, [*listed.tensors, *made, *([borders] * graph)],
                   listed.sizes(), [], work, dtype, _native_vectors(text, dtype)):
        return _affine(gate, first, known, unknown, reads, tile)
    if graph:
        made = list(_Affine.apply((text, name, work, dtype, tile), listed, borders, made, *listed.tensors))
    found = [made[listed.order.index(n)] for n in range(len(reads))]
    return found, made[-1]


def _native_scan(text: str, name: str, work: int, dtype: torch.dtype, gate: torch.Tensor, added: torch.Tensor,
                 first: torch.Tensor, largest: bool) -> torch.Tensor:
    """`_scan` by the compiled kernel of this name, which has so many operations."""

    def run(gate: torch.Tensor, added: torch.Tensor, first: torch.Tensor, largest: bool = False) -> torch.Tensor:
        if not torch.compiler.is_compiling() and added.dtype == gate.dtype == first.dtype == torch.float32:
            given = [x.reshape(len(x), first.numel()).contiguous() for x in (gate, added)]
            out = torch.empty(given[1].shape, dtype=first.dtype, device=first.device)
            way = f"{name}_largest" if largest else name
            if _native(text, way, [*given, first.reshape(-1).contiguous(), out], [*out.shape], [], work, dtype,
                       _native_vectors(text, dtype)):
                return out.view(added.shape)
        return _scanned(gate, added, first, largest)

    return _scan(gate, added, first, largest, run)
