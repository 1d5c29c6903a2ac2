"""Kernels of the specs compiled without a device: every one compiles, and what each needs is there on the device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
import torch
from helpers import arrays, assert_close, called, extent, meaning, plan_of, tensors, typed_of
from programs import FILES, Case
from test_backends import case
from triton_modes import interpreted, tiled

from einc import front
from einc.backends.triton.offline import TARGETS, Binary, Launch, built, compiled, launches

TARGET = TARGETS["sm_90"]
SIZES = {"T": 2048, "S": 2048, "U": 2048, "N": 2048, "H": 8, "G": 2, "B": 2, "d_model": 512, "r": 512, "W": 256, "V": 4096, "P": 512}
WIDTHS = ("d", "d_k", "d_v", "D")


def shapes(one: Case, sizes: Mapping[str, int], dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    """Inputs that have no data."""
    out = {}
    for tensor in typed_of(one).inputs():
        shape = [extent(slot.set.extent, sizes) for slot in tensor.slots]
        out[tensor.key] = torch.empty(shape, dtype=torch.int64 if tensor.integer else dtype, device="meta")
    return out


@cache
def started(one: Case, width: int) -> list[Launch]:
    """What a call of the spec starts, at sizes of the kind that it is for."""
    sizes = {name: width if name in WIDTHS else SIZES[name] for name in one.sizes}
    return launches(front.emit(plan_of(one), "triton"), plan_of(one).name, shapes(one, sizes), sizes, TARGET)


def multiplies(launch: Launch) -> bool:
    return "tl.dot(" in launch.function.src


@cache
def distinct(width: int) -> dict[str, tuple[str, Launch]]:
    """The kernels of all specs, each text once, under the first spec that has it."""
    out: dict[str, tuple[str, Launch]] = {}
    for one in FILES:
        for launch in started(one, width):
            out.setdefault(launch.key, (f"{one.name}-{launch.kernel}", launch))
    return out


def binary(launch: Launch) -> Binary:
    ((_, made),) = built([launch], TARGET)
    assert isinstance(made, Binary), made
    return made
