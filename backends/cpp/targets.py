"""The targets of the C++ back end: the processors that its kernels can be compiled for. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.ir.backend import Target


@dataclass(frozen=True, slots=True)
class Cpu:
    """A kind of processor: the compiler's name for it, its machine and the features that it needs, as the system names
    both. Of `native`, the processor at hand, these two are empty here.
    """

    target: Target
    architecture: str
    machine: str
    needs: str

    @property
    def name(self) -> str:
        """The name of its target, such as `x86-64-v3`."""
        return self.target.name


def _cpu(name: str, architecture: str, machine: str, needs: str) -> Cpu:
    return Cpu(Target(name, ("so",), frozenset({"so"})), architecture, machine, needs)


_V3 = ("abm avx avx2 bmi1 bmi2 cx16 f16c fma lahf_lm movbe pni popcnt sse4_1 sse4_2 ssse3 xsave")
_V4 = f"{_V3} avx512bw avx512cd avx512dq avx512f avx512vl"
_CPUS = (
    _cpu("x86-64", "x86-64", "x86_64", ""), _cpu("x86-64-v3", "x86-64-v3", "x86_64", _V3),
    _cpu("x86-64-v4", "x86-64-v4", "x86_64", _V4), _cpu("aarch64", "armv8-a", "aarch64", ""),
    _cpu("native", "native", "", ""),
)
TARGETS: Mapping[str, Cpu] = {cpu.name: cpu for cpu in _CPUS}
