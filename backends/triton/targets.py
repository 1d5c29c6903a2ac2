"""The targets of the Triton back end: what its kernels can be compiled for where there is no such device. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from einc.ir.backend import Target


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU as Triton's compiler knows it: its driver, architecture and threads of a warp; bytes of shared
    memory of a program, how products of float32 are formed on it, and how many numbers a thread may hold."""

    target: Target
    driver: Literal["cuda", "hip"]
    architecture: int | str
    warp: int
    shared: int
    precision: str
    numbers: int = 178

    @property
    def name(self) -> str:
        """The name of its target, such as `sm_90`."""
        return self.target.name


def _nvidia(number: int, kilobytes: int) -> Gpu:
    target = Target(f"sm_{number}", ("cubin", "ptx", "ttgir", "llir"), frozenset({"cubin"}))
    return Gpu(target, "cuda", number, 32, kilobytes * 1024, "tf32x3", 178 if number >= 90 else 120)


def _amd(name: str, kilobytes: int) -> Gpu:
    target = Target(name, ("hsaco", "amdgcn", "ttgir", "llir"), frozenset({"hsaco"}))
    return Gpu(target, "hip", name, 64, kilobytes * 1024, "ieee")


_GPUS = (_nvidia(80, 163), _nvidia(90, 227), _nvidia(100, 227), _amd("gfx942", 64))
TARGETS: Mapping[str, Gpu] = {gpu.name: gpu for gpu in _GPUS}
