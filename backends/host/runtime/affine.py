"""States that each position scales and adds to: many positions at once, in tiles.

Products of gates over the positions between two are one side of a middle times the other side, the middles found by
halving a tile, so that nothing is divided and no logarithm is taken: gates may be 0 or below 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_Vectors = list[torch.Tensor]
_GROUP = 1024  # positions whose pairs are in memory together


def _arranged(x: torch.Tensor, axes: str, groups: tuple[str, ...], sizes: dict[str, int]) -> torch.Tensor:
    """A tensor whose axes are letters as one with an axis for each group of letters, in the type in which sums are
    formed; it is the same along what it lacks."""
    whole = "".join(groups)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    x = x.permute([axes.index(letter) for letter in whole if letter in axes])
    for n, letter in enumerate(whole):
        x = x if letter in axes else x.unsqueeze(n)
    shape = []
    for group in groups:
        many = 1
        for letter in group:
            many = many * sizes[letter]
        shape.append(many)
    return x.expand([sizes[letter] for letter in whole]).reshape(shape)


def _apart(x: torch.Tensor, groups: tuple[str, ...], axes: str, sizes: dict[str, int]) -> torch.Tensor:
    """The inverse of `_arranged`, for a tensor that has every letter."""
    whole = "".join(groups)
    return x.reshape([sizes[letter] for letter in whole]).permute([whole.index(letter) for letter in axes])


class _Sides:
    """Products of gates from one side of a point, in blocks of every power of two of points: `before` of those of its
    block that come before it, `after` of those that follow it; `whole` is the product of a tile's gates.
    Gates are (N, tiles, L, 1 | d), and products (N, tiles, blocks, points of a block, 1 | d).
    """

    def __init__(self, gate: torch.Tensor) -> None:
        one, h, total = torch.ones_like(gate).unsqueeze(3), 1, gate.unsqueeze(3)
        self.points, self.single = gate.shape[2], gate.shape[3] == 1
        self.before, self.after = {1: one}, {1: one}
        while h < self.points:
            low, high = total[:, :, ::2], total[:, :, 1::2]
            before, after = self.before[h], self.after[h]
            h *= 2
            self.before[h] = torch.cat((before[:, :, ::2], before[:, :, 1::2] * low), 3)
            self.after[h] = torch.cat((after[:, :, ::2] * high, after[:, :, 1::2]), 3)
            total = low * high
        self.whole = total[:, :, 0, 0]

    def read(self, x: torch.Tensor) -> torch.Tensor:
        """Vectors (N, tiles, L, R, d) as they read the state before the tile, without the gates of their positions."""
        made: torch.Tensor = x * self.before[self.points][:, :, 0, :, None]
        return made

    def written(self, x: torch.Tensor) -> torch.Tensor:
        """Vectors as what they write stands in the state after the tile."""
        made: torch.Tensor = x * self.after[self.points][:, :, 0, :, None]
        return made


def _pairs(reads: torch.Tensor, writes: torch.Tensor, sides: _Sides) -> torch.Tensor:
    """reads_s · (product of the gates between u and s) · writes_u for u < s, else 0: from (N, tiles, L, R, d) and
    (N, tiles, L, W, d) to (N, tiles, R, L, W, L).
    """
    rows, tiles, points, count, _ = reads.shape
    many, h = writes.shape[3], points // 2
    if sides.single and reads.shape[-1] > 1:
        one = reads.new_ones(rows, tiles, points, 1, 1)
        pairs = _one_after_another(reads) @ _one_after_another(writes).mT
        made: torch.Tensor = pairs.view(rows, tiles, count, points, many, points) * _pairs(one, one, sides)
        return made
    out = reads.new_zeros(rows, tiles, count, points, many, points)
    while h:
        right, left = sides.before[h][:, :, 1::2, :, None], sides.after[h][:, :, ::2, :, None]
        x = (reads.unflatten(2, (-1, 2, h))[:, :, :, 1] * right).flatten(3, 4)
        y = (writes.unflatten(2, (-1, 2, h))[:, :, :, 0] * left).flatten(3, 4)
        found = (x @ y.mT).view(rows, tiles, -1, h, count, h, many)
        blocks = out.view(rows, tiles, count, -1, 2, h, many, points // (2 * h), 2, h)[:, :, :, :, 1, :, :, :, 0]
        blocks.diagonal(dim1=3, dim2=6).copy_(found.permute(0, 1, 4, 3, 6, 5, 2))
        h //= 2
    return out


def _together(some: _Vectors, axis: int) -> torch.Tensor:
    """The tensors one after the other along an axis; one alone is no copy."""
    return some[0] if len(some) == 1 else torch.cat(some, axis)


def _one_after_another(x: torch.Tensor) -> torch.Tensor:
    """(N, tiles, L, R, d) as (N, tiles, R L, d): one vector of all positions after another."""
    return x.transpose(2, 3).flatten(2, 3)


def _affine(
    gate: torch.Tensor, first: torch.Tensor, known: list[tuple[torch.Tensor, torch.Tensor]],
    unknown: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], reads: list[tuple[torch.Tensor, bool]], tile: int,
) -> tuple[_Vectors, torch.Tensor]:
    """What is read of S_t = gate_t S_{t-1} + Σ k_t v_t + Σ u_t (c_t + w_t · S_{t-1}), and the last S, from `first`.

    S is (N, d, e), gates are (N, T, 1) or (N, T, d), k, u, w and reads (N, T, d), v and c (N, T, e). A read sees S_t
    where its flag is set, else S_{t-1}; what it gives is (N, T, e). `tile` is a power of two.
    """
    found: list[_Vectors] = [[] for _ in reads]
    state = first
    for start in range(0, gate.shape[1], _GROUP):
        part = slice(start, start + _GROUP)
        given = [[tuple(x[:, part] for x in some) for some in many] for many in (known, unknown)]
        made, state = _group(gate[:, part], state, given, [(q[:, part], own) for q, own in reads], tile)
        for listed, one in zip(found, made):
            listed.append(one)
    empty = first.new_zeros(first.shape[0], 0, first.shape[2])
    return [torch.cat(listed, 1) if listed else empty for listed in found], state


def _affines(
    lengths: torch.Tensor, run: Callable[..., tuple[_Vectors, torch.Tensor]], gate: torch.Tensor, first: torch.Tensor,
    known: list[tuple[torch.Tensor, torch.Tensor]], unknown: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    reads: list[tuple[torch.Tensor, bool]], tile: int,
) -> tuple[_Vectors, torch.Tensor]:
    """`_affine`, or `run` in its place, for the positions of each request, which begins with the first state."""
    found: list[_Vectors] = [[] for _ in reads]
    state, start = first, 0
    for count in filter(None, lengths.tolist()):
        part = slice(start, start + count)
        given = [[tuple(x[:, part] for x in some) for some in many] for many in (known, unknown)]
        made, state = run(gate[:, part], first, *given, [(q[:, part], own) for q, own in reads], tile)
        for listed, one in zip(found, made):
            listed.append(one)
        start += count
    empty = first.new_zeros(first.shape[0], 0, first.shape[2])
    return [torch.cat(listed, 1) if listed else empty for listed in found], state


def _group(
    gate: torch.Tensor, state: torch.Tensor, given: list[list[tuple[torch.Tensor, ...]]],
    reads: list[tuple[torch.Tensor, bool]], tile: int,
) -> tuple[_Vectors, torch.Tensor]:
    """The same for positions whose pairs are in memory together; in order go the tiles' borders alone."""
    count = gate.shape[1]
    while tile > 1 and tile // 2 >= count:
        tile //= 2
    short = -count % tile

    def tiled(x: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
        x = x.unsqueeze(2)
        if short:
            x = torch.cat((x, x.new_full((x.shape[0], short, *x.shape[2:]), fill)), 1)
        made: torch.Tensor = x.unflatten(1, (-1, tile))
        return made

    gates, (known, unknown) = tiled(gate, fill=1.0), given
    sides, first = _Sides(gates[:, :, :, 0]), len(unknown)
    # A vector that reads S_t has the gates of its own position before it meets those of earlier ones.
    vectors = [*(tiled(w) for _, w, _ in unknown), *(tiled(q) * gates if own else tiled(q) for q, own in reads)]
    writes = [tiled(x[0]) for x in (*known, *unknown)]
    values = [tiled(v).flatten(2, 3) for _, v in known]
    writing = _together(writes, 3) if writes else gates
    between = _pairs(_together(vectors, 3), writing, sides) if vectors and writes else gates
    for n, (q, own) in enumerate(reads, first):
        if own and writes:  # what a position writes itself
            same = (tiled(q) * writing).sum(-1).movedim(3, 2)
            between[:, :, n].transpose(2, 3).diagonal(dim1=3, dim2=4).copy_(same)
    end = sides.written(writing) if writes else gates
    added = _one_after_another(end[:, :, :, : len(known)]).mT @ _together(values, 2) if known else None
    solve = _solution(between[:, :, :first], [tiled(c) for *_, c in unknown], vectors[:first], values,
                      sides) if unknown else None
    back = _one_after_another(end[:, :, :, len(known) :]).mT if unknown else gates
    borders, written = [], []
    for n in range(gates.shape[1]):
        borders.append(state)
        following = sides.whole[:, n, :, None] * state
        if added is not None:
            following = following + added[:, n]
        if solve is not None:
            written.append(torch.baddbmm(solve[0][:, n], solve[1][:, n], state))
            following = torch.baddbmm(following, back[:, n], written[-1])
        state = following
    before, found = torch.stack(borders, 1), []
    values += [torch.stack(written, 1)] if unknown else []
    every = _together(values, 2) if values else state
    for n, vector in enumerate(vectors[first:], first):
        y = sides.read(vector).flatten(2, 3) @ before
        y = y + between[:, :, n].flatten(3, 4) @ every if values else y
        found.append(y.flatten(1, 2)[:, :count])
    return found, state


def _solution(between: torch.Tensor, plus: _Vectors, vectors: _Vectors, values: _Vectors,
              sides: _Sides) -> tuple[torch.Tensor, torch.Tensor]:
    """What each position writes, x_s = c_s + w_s · S_{s-1}, for all of a tile: x = y + Y S with the state before it.

    It is the solution of a triangular system, whose right side holds that state and so has more columns than rows: the
    inverse is less work. Several writes go position by position in it.
    """
    many, points = len(plus), plus[0].shape[2]
    known, right = sum(x.shape[2] for x in values), _together([x.flatten(2, 3) for x in plus], 2)
    table, size = between.flatten(4, 5).flatten(2, 3), many * points
    if values:
        right = right + table[..., :known] @ _together(values, 2)
    system, order = table[..., known:], torch.arange(size, device=right.device).view(many, points).T.flatten()
    if many > 1:
        system = system[:, :, order][..., order]
    one = torch.eye(size, dtype=right.dtype, device=right.device)
    inverse = torch.linalg.solve_triangular(-system, one, upper=False, unitriangular=True)
    if many > 1:
        inverse = inverse[:, :, order.argsort()][..., order.argsort()]
    return inverse @ right, inverse @ _one_after_another(sides.read(_together(vectors, 3)))


_Scanned = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]


def _scanned(gate: torch.Tensor, added: torch.Tensor, first: torch.Tensor, largest: bool = False) -> torch.Tensor:
    """S_t = gate_t S_{t-1} + added_t, element by element along the first axis, from `first`: every S_t. Where it is the
    `largest`, S_t = max(gate_t + S_{t-1}, added_t).

    Stretches of about √T positions go side by side, one position after the other, and then their ends in order.
    """
    plus, times = (torch.maximum, torch.add) if largest else (torch.add, torch.mul)
    zero, one = (-math.inf, 0.0) if largest else (0.0, 1.0)
    count = added.shape[0]
    points = max(1, int(count**0.5))
    short = -count % points
    gate = torch.cat((gate, gate.new_full((short, *gate.shape[1:]), one))).unflatten(0, (-1, points))
    added = torch.cat((added, added.new_full((short, *added.shape[1:]), zero))).unflatten(0, (-1, points))
    state, product = torch.full_like(added[:, 0], zero), torch.full_like(gate[:, 0], one)
    states, products, borders = [], [], [first]
    for n in range(points):
        state, product = plus(times(gate[:, n], state), added[:, n]), times(gate[:, n], product)
        states.append(state)
        products.append(product)
    for n in range(added.shape[0]):
        borders.append(plus(times(products[-1][n], borders[-1]), states[-1][n]))
    start = torch.stack(borders[:-1]) if len(borders) > 1 else added[:, 0]
    made = torch.stack([plus(x, times(y, start)) for x, y in zip(states, products)], 1)
    return made.flatten(0, 1)[:count]


class _States(torch.autograd.Function):
    """`_scanned` with its gradient, which goes through the positions the other way in the same manner."""

    @staticmethod
    def forward(
        ctx: Any, gate: torch.Tensor, added: torch.Tensor, first: torch.Tensor, largest: bool, run: _Scanned
    ) -> torch.Tensor:
        states = run(gate, added, first, largest)
        ctx.save_for_backward(gate, added, first, states)
        ctx.largest, ctx.run = largest, run
        return states

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The slopes in the gate, in what is added and in the first state: the same recurrence, backwards in time."""
        gate, added, first, states = ctx.saved_tensors
        before = torch.cat((first[None], states))[:-1]
        share = gate
        if ctx.largest:  # two equal values share evenly
            share = 0.5 * ((gate + before > added).to(gate.dtype) + (gate + before >= added).to(gate.dtype))
        later = torch.cat((share, torch.zeros_like(share[:1])))[1:]
        slopes = ctx.run(later.flip(0), cotangent.flip(0), torch.zeros_like(first), False).flip(0)
        through = share * slopes
        rest = slopes - through if ctx.largest else slopes
        return through if ctx.largest else slopes * before, rest, through[:1].sum(0), None, None


def _scan(gate: torch.Tensor, added: torch.Tensor, first: torch.Tensor, largest: bool,
          run: _Scanned = _scanned) -> torch.Tensor:
    """The states that `_scanned` or an equal function makes; they have a gradient."""
    found: torch.Tensor = _States.apply(gate, added, first, largest, run)
    return found


def _scans(lengths: torch.Tensor, run: Callable[..., torch.Tensor], gate: torch.Tensor, added: torch.Tensor,
           first: torch.Tensor, largest: bool) -> torch.Tensor:
    """`_scan`, or `run` in its place, for the positions of each request, which begins with the first state."""
    pieces = zip(gate.split(lengths.tolist()), added.split(lengths.tolist()))
    states = [run(x, y, first, largest) for x, y in pieces if len(x)]
    return torch.cat(states) if states else added
