"""Machine code of the carried kernels, compiled here for a device that is elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.carried.cases import Measured
from bench.carried.cubins import key
from bench.case import DTYPES
from einc.backends.triton.offline import TARGETS, Binary, Launch, built, launches

SHARES = (1, 8)  # programs of a pass: alone, and several, whose number the code is not made for


def wanted(case: Measured, source: str, entry: str, target: str) -> list[Launch]:
    """What a call at the sizes of the case starts with its own tiles. Raises what torch raises for data that has to be
    there for other data to be made."""
    with FakeTensorMode():
        drawn = case.case.tensors(case.sizes, torch.Generator(), 1.0)
    inputs = {name: torch.empty_strided(x.shape, x.stride(), device="meta",
                                        dtype=DTYPES[case.dtype] if x.is_floating_point() else x.dtype)
              for name, x in drawn.items()}
    sizes = {name: case.sizes[name] for name in case.case.asks}
    return [one for parts in SHARES for one in launches(source, entry, inputs, sizes, TARGETS[target], parts)]


def compiled(cases: Sequence[Measured], sources: dict[str, str], entries: dict[str, str], folder: Path,
             target: str) -> Iterator[tuple[str, list[dict[str, Any]] | str]]:
    """For each case what was written into the folder, or why nothing was; code that several cases share is of the
    first."""
    seen: set[tuple[str, str, str]] = set()
    (folder / "cubins").mkdir(parents=True, exist_ok=True)
    for case in cases:
        try:
            found = wanted(case, sources[case.kernel], entries[case.kernel], target)
        except Exception as error:
            yield case.name, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
            continue
        rows, new = [], []
        for launch in found:
            name = launch.function.fn.__name__
            place = case.kernel, name, key(launch.function.params, launch.arguments, launch.named)
            if place not in seen:
                seen.add(place)
                new.append((place, launch))
        for (place, _), (_, made) in zip(new, built([launch for _, launch in new], TARGETS[target]), strict=True):
            if isinstance(made, Binary):
                rows.append({"module": place[0], "kernel": place[1], "key": place[2], **_written(made, folder)})
        yield case.name, rows


def _written(made: Binary, folder: Path) -> dict[str, Any]:
    """A file for the code, and what a launch has to know of it."""
    code = made.asm["cubin"]
    assert isinstance(code, bytes)
    file = f"cubins/{hashlib.sha256(code).hexdigest()[:16]}.cubin"
    (folder / file).write_bytes(code)
    return {"file": file, "symbol": made.symbol, "threads": made.warps * TARGETS[made.target].warp,
            "shared": made.shared, "registers": made.registers}
