"""What `einc run` measures: time, memory of the process, and the distance from the interpreter."""

from __future__ import annotations

import ctypes
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from einc.driver.timing.judge import BOUNDS

Numbers = np.ndarray[Any, Any]


def _resident() -> tuple[int, int] | None:
    """Resident bytes of the process now and at their peak, where the system says."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    found = {name: int(kilo) * 1024 for name, kilo in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", text, re.M)}
    return (found["VmRSS"], found["VmHWM"]) if len(found) == 2 else None


def _reset_peak() -> bool:
    """Start the peak anew, with what earlier work freed given back first, since it would
    count as resident at the start."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5\n", encoding="ascii")
    except OSError:
        return False
    return True


def taken(work: Callable[[], Any]) -> tuple[Any, tuple[int, int] | None]:
    """What the work gives, with the bytes that were resident at its start and those above them at its peak; None where
    the system does not say.
    """
    before = _resident() if _reset_peak() else None
    value = work()
    after = _resident()
    return value, None if before is None or after is None else (before[0], after[1] - before[0])


def free() -> int | None:
    """The bytes that are free on this machine, where the system says."""
    about = Path("/proc/meminfo")
    found = re.search(r"MemAvailable:\s+(\d+) kB", about.read_text(encoding="ascii")) if about.exists() else None
    return None if found is None else 1024 * int(found[1])


def with_memory(work: Callable[[], Any]) -> tuple[Any, str]:
    """What the work gives, and a sentence on the memory it took."""
    value, found = taken(work)
    if found is not None:
        return value, f"{_mega(found[1])} above the {_mega(found[0])} resident at its start"
    unit = 1 if sys.platform == "darwin" else 1024
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return value, f"{_mega(whole)} resident at most since the process started (no finer figure on this system)"


def _mega(count: int) -> str:
    return f"{max(count, 0) / 1e6:,.1f} MB"


def seconds(work: Callable[[], Any]) -> float:
    """How many seconds the work takes, run once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def duration(times: list[float]) -> str:
    """The median, in the unit that suits it."""
    middle = statistics.median(times)
    return f"{middle:.3g} s" if middle >= 1 else f"{middle * 1e3:.3g} ms"


# As in comparisons of speed, but for float32: any text is run, and one that is worse conditioned is not wrong.
_VERIFIED = BOUNDS | {"float32": 1e-4}


@dataclass(frozen=True)
class Distance:
    """How far a result is from the reference, and how far it may be."""

    largest: float
    relative: float
    bound: float

    @property
    def good(self) -> bool:
        """Whether the relative distance is within the bound."""
        return self.relative <= self.bound


def distance(result: Numbers, reference: Numbers, dtype: str) -> Distance:
    """Largest difference, and root mean square of the difference over that of the reference; integers must be equal.

    Infinities and NaN must stand in the same places, as a root of a negative number is NaN; elsewhere they are as far
    away as can be.
    """
    bound = _VERIFIED.get(dtype, 0.0)
    if result.shape != reference.shape:
        return Distance(float("inf"), float("inf"), bound)
    same = ~np.isfinite(reference) & ((result == reference) | (np.isnan(result) & np.isnan(reference)))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(result - reference.astype(np.float64)))
    if difference.size == 0:
        return Distance(0.0, 0.0, bound)
    difference = np.where(np.isnan(difference), np.inf, difference)
    scale = _rms(np.where(np.isfinite(reference), reference, 0.0))
    return Distance(float(difference.max()), _rms(difference) / scale if scale > 0 else _rms(difference), bound)


def _rms(values: Numbers) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
