"""The order in which programs of a kernel take their tiles: every tile once, the longest of all heads first, in bands
of heads whose data a cache holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from helpers import arrays, assert_close, called, examples, meaning, tensors, typed
from hypothesis import strategies as st
from triton_modes import interpreted, space, tiled

from einc.backends.triton.runtime.device import _in_bands
from einc.backends.triton.runtime.launch import _spread
from einc.backends.triton.runtime.tiles import _DEEP, _POINTS, _PRODUCTS, _SUMS, Tile, _bands, _tile
from einc.driver import front
from einc.ir.plan import Kernel
from einc.ir.programs import TypedProgram

NEAR = 1e-9
SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
WHERE: Callable[..., tuple[int, int]] = _in_bands.fn  # type: ignore[attr-defined]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@examples(60, 400, st.integers(1, 9), st.integers(1, 30), st.integers(1, 30))
def test_every_program_has_a_tile_of_its_own_and_goes_through_a_band_row_by_row(tiles: int, others: int, bands: int
                                                                                ) -> None:
    bands = min(bands, others)
    found = [WHERE(n, tiles, others, bands) for n in range(tiles * others)]
    assert sorted(found) == [(tile, other) for tile in range(tiles) for other in range(others)]
    band_of = {other: sum(other >= others * b // bands for b in range(1, bands)) for other in range(others)}
    assert found == sorted(found, key=lambda place: (band_of[place[1]], *place))
    wide = [sum(b == band for b in band_of.values()) for band in range(bands)]
    assert max(wide) - min(wide) <= 1


@pytest.mark.parametrize(("others", "read", "bands"), [(64, 2**20, 4), (64, 2**17, 1), (5, 2**30, 5), (1, 2**30, 1),
                                                       (0, 2**20, 1), (64, 0, 1), (2**20, 2**30, 2**10)])
def test_a_band_reads_what_half_of_the_cache_holds(others: int, read: int, bands: int, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=2**25))
    assert _bands(others, read, torch.device("cuda", 0)) == bands


TEXT = """
index n : batch(B)
index h : head(H)
index t, s : time(T)
index d, k : feature(D)
input Q_{n h t}^k, K_{n h s}^k, V_{n h s}^d
mask L_{n t s}^{(h)} : DOMAIN
L_{n t s}^{(h)} = Q_{n h t}^k K_{n h s k}
output Y_{n h t}^d = Σ_s softmax_s(L_{n t s}^{(h)}) V_{n h s}^d : all
"""


@cache
def emitted(domain: str) -> tuple[TypedProgram, str]:
    program = typed(TEXT.replace("DOMAIN", domain))
    return program, front.emit(front.plan(program, front.choices(own=True, backend="triton")), "triton")


@pytest.mark.parametrize("domain", ["s ≤ t", "s ≥ t"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("texts", "heads", "length", "bands"), [
    (2, 3, 37, 4), *(pytest.param(*drawn, marks=pytest.mark.whole) for drawn in [
        (1, 1, 70, 1), (3, 1, 1, 2), (1, 5, 16, 5), (2, 2, 48, 3), (3, 3, 33, 9)])])
def test_a_result_is_the_same_in_any_number_of_bands(texts: int, heads: int, length: int, bands: int, parts: int,
                                                     domain: str) -> None:
    program, source = emitted(domain)
    sizes = {"B": texts, "H": heads, "T": length, "D": 3}
    inputs = arrays(program, sizes, {}, length)
    function = tiled(source, "text", lambda kind, rows, columns: SMALL[kind])
    asked = []
    space(function).update(_bands=lambda others, *_: asked.append(others) or bands, _parts=lambda *_: parts)
    assert_close(called(function, program, tensors(inputs), sizes), meaning(program, inputs, sizes), NEAR)
    assert set(asked) <= {texts * heads} and (asked or texts * heads == 1)


@pytest.mark.parametrize("domain", ["s > t - 3 and s ≤ t", "s > t - 9 and s ≤ t + 2"])
def test_tiles_of_one_length_have_no_bands(domain: str) -> None:
    assert "_bands(" not in emitted(domain)[1]


@pytest.mark.parametrize("shapes", [_PRODUCTS, _DEEP, _SUMS, _POINTS])
@pytest.mark.parametrize("whole", [1, 7, 64, 512, 1408])
def test_no_tile_that_is_chosen_holds_more_than_the_threads_have_registers_for(shapes: tuple[Tile, ...], whole: int
                                                                               ) -> None:
    """But for the smallest, which is taken where none fits."""
    chosen = _tile("made", shapes, 1, 4096, torch.device("meta"),
                   lambda rows, columns, warps: rows * columns * whole, lambda rows, columns, stages: 0)
    rows, columns, warps, _ = chosen
    assert rows * columns * whole <= warps * 32 * 256 or chosen == shapes[-1]


def test_rows_of_512_features_are_shared_by_eight_warps() -> None:
    """64 rows of latents in registers of Hopper, the latents of two stages in its shared memory."""
    given = dict(registers=lambda rows, columns, warps: rows * (512 + columns) + _spread(rows, warps) * 512,
                 shared=lambda rows, columns, stages: 2 * 512 * (rows + stages * columns))
    hopper = SimpleNamespace(shared_memory_per_block_optin=232448, multi_processor_count=132)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_properties", lambda _: hopper)
        patch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
        assert _tile("made", _PRODUCTS, 8192, 16384, torch.device("cuda", 0), **given) == (64, 64, 8, 2)


SUMS = """
index n : batch(B)
index t : time(T)
index d : feature(D)
input x_{n t}^d, y_{n t}^d, w^d
output z_{n t} = Σ_d x_{n t}^d y_{n t}^d
output v_{n t} = Σ_d x_{n t}^d w^d
output u_{n t} = Σ_d x_{n t}^d
"""


@pytest.mark.parametrize("backend", ["torch", "cpp", "triton"])
def test_a_sum_of_products_that_are_read_once_is_a_kernel_where_all_are_compiled(backend: str) -> None:
    program = typed(SUMS)
    plan = front.plan(program, front.choices(own=True, backend=backend))
    kernels = {step.name for step in plan.steps if isinstance(step, Kernel)}
    assert kernels == ({"z"} if backend == "triton" else set())
    if backend == "triton":
        sizes = {"B": 2, "T": 7, "D": 70}
        given = arrays(program, sizes, {})
        function = tiled(front.emit(plan, backend), "text", lambda kind, rows, columns: SMALL[kind])
        found, wanted = called(function, program, tensors(given), sizes), meaning(program, given, sizes)
        assert_close(found, wanted, NEAR)
