"""Which tile a program has, and how many programs share a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import torch

from einc.backends.triton.runtime.launch import _padded

Tile = tuple[int, int, int, int]  # rows, columns, warps, stages
Tuned = dict[tuple[str, int, int], Tile]
Registers = Callable[[int, int, int], float]  # of rows, columns and warps: numbers that a program holds
Shared = Callable[[int, int, int], float]  # of rows, columns and stages: bytes of shared memory


# Tiles in the order in which they are tried: rows, columns, warps, stages. Three stages hide the loads of a loop that
# two do not, and eight warps are worth it from 128 rows on: `bench/results/gpu.jsonl` has what each took on an H100.
# Where a row is too long for that, they share 64 rows. They do not share 64 x 32: of one such kernel of float32 Triton
# 3.6 makes code that reads where it may not, on an H100; the thirteen other tiles that were tried are right.
_PRODUCTS = (
    (64, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 3), (128, 32, 8, 3),
    (128, 32, 8, 2), (64, 32, 4, 2), (64, 64, 8, 2), (32, 64, 4, 2), (32, 32, 4, 2), (16, 64, 4, 3), (16, 64, 4, 2),
    (32, 32, 8, 2), (16, 32, 4, 2), (16, 16, 4, 2), (16, 16, 8, 1),
)


# The same where the depth of a product is too long for a tile, which then loads both operands anew for each step: the
# larger, the fewer loads.
_DEEP = ((128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 8, 3), *_PRODUCTS)


# Tiles of kernels without products of matrices: rows, columns, warps, stages.
_SUMS = (
    (32, 64, 4, 2), (16, 128, 4, 2), (8, 256, 4, 2), (4, 512, 4, 2), (1, 2048, 8, 2), (1, 1024, 4, 2), (1, 256, 4, 2),
    (1, 64, 4, 1), (1, 16, 4, 1),
)


# Tiles of kernels that compute point by point: elements, 1, warps, stages.
_POINTS = ((1024, 1, 4, 1), (256, 1, 4, 1), (64, 1, 4, 1), (16, 1, 4, 1), (1, 1, 4, 1))


TILES: Tuned = {}  # (kernel, rows, columns: powers of two) -> rows, columns, warps, stages of a tile: what tuning found


def _fitting(
    shapes: Sequence[Tile], rows: int, columns: int, device: torch.device, registers: Registers, shared: Shared
) -> Iterator[Tile]:
    """The tiles that are not much larger than the data and fit the registers and the shared memory of the device."""
    room, least = _room(device), shapes[-1]
    for r, c, warps, stages in shapes:
        c = min(c, _padded(columns, least[1]))
        if (r <= _padded(rows, least[0]) and _full(r, c, warps, device, registers) <= 1
            and shared(r, c, stages) <= room):
            yield r, c, warps, stages


def _full(rows: int, columns: int, warps: int, device: torch.device, registers: Registers) -> float:
    """Which part of the registers a tile takes. Of addresses and masks along the columns each thread has a quarter, as
    warps lie along the rows; where there is one row they lie along the columns, and a thread has few of these.
    """
    beside = columns // 4 if rows > 1 and columns > 32 else 0
    return registers(rows, columns, warps) / (warps * 32 * (_numbers(device) - beside))


def _tile(
    name: str,
    shapes: Sequence[Tile],
    rows: int,
    columns: int,
    device: torch.device,
    registers: Registers,
    shared: Shared,
) -> Tile:
    """Rows and columns of a program's tile, its warps and the stages of its pipeline. How much data there is counts as
    the power of two that holds it. Where the first tile that fits nearly fills the registers, one of twice the rows and
    warps is better: as many numbers a thread, and half the addresses. Raises ValueError where none fits the device."""
    tuned = TILES.get((name, _padded(rows), _padded(columns)))
    if tuned:
        return tuned
    if found := list(_fitting(shapes, rows, columns, device, registers, shared)):
        r, c, warps, stages = found[0]
        twice = 2 * r, c, 2 * warps, stages
        return twice if twice in found and _full(r, c, warps, device, registers) > 0.7 else found[0]
    for least in reversed(shapes):  # slow, for some registers find no place
        if shared(least[0], least[1], least[3]) <= _room(device) and registers(*least[:3]) < 2**20:
            return least
    r, c, warps, stages = shapes[-1]
    raise ValueError(
        f"no tile of {name} fits: {r} x {c} holds {registers(r, c, warps):.0f} numbers and {shared(r, c, stages):.0f} "
        f"bytes of "
        f"shared memory; a program may hold {2**20} and {_room(device)}. An axis that a tile holds whole is too long: "
        f"compile for "
        f"the torch back end, or cut the axis")


def _numbers(device: torch.device) -> int:
    """What a thread's 255 registers hold beside addresses and masks, as compiled kernels show. Before Hopper the
    operands of a product stand in registers, too."""
    before = device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device)[0] < 9
    return 120 if before else 178


def _room(device: torch.device) -> int:
    """Bytes of shared memory that a program may have."""
    if device.type != "cuda":
        return 2**40  # Triton's interpreter has no bound
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin  # type: ignore[attr-defined,no-any-return]


@lru_cache(1024)
def _parts(programs: int, tiles: int, device: torch.device, uneven: bool = False) -> int:
    """How many programs share the pass of one tile over so many tiles: the fewest of those that are done first.

    Processors take programs in rounds. A program takes the time of its share of the tiles, and of 2 to begin and to
    end; joining shares takes that of 4, and of half a tile for each. Rounds of uneven programs run into each other.
    """
    if device.type != "cuda":
        return 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count

    def time(n: int) -> float:
        rounds = max(1, programs * n / processors) if uneven else -(-programs * n // processors)
        return rounds * (-(-tiles // n) + 2) + (4 + n / 2 if n > 1 else 0)

    return min(range(1, max(1, min(tiles, 64, 8 * processors // programs)) + 1), key=time)


def _bands(others: int, read: int, device: torch.device) -> int:
    """In how many bands the programs of a kernel go over `others`, each of which reads so many bytes for all tiles of
    rows: half of the device's level-two cache holds what one band reads, where one of them fits at all."""
    if device.type != "cuda":
        return 1
    half = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 2**25) // 2
    return max(1, min(others, -(-others * read // half), 2**30 // max(1, others)))  # their product has 32 bits
