"""Seconds of a call with cold caches, by the device's own events; the two ceilings that every rate is held against."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch

Call = Callable[[], Any]

SLOW = 0.5
FLUSHED = 2**30  # bytes written before each sample: many times the cache, and longer than it takes to launch a call


class Clock(Protocol):
    """`now` is for budgets, `sample` for figures."""

    def now(self) -> float: ...
    def sample(self, call: Call) -> float:
        """Seconds of one call."""


@dataclass
class DeviceClock:
    """Events around the call, after all of the cache has been written over."""

    device: torch.device
    junk: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.junk = torch.empty(FLUSHED, dtype=torch.int8, device=self.device)

    def now(self) -> float:
        return time.monotonic()

    def sample(self, call: Call) -> float:
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        self.junk.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


class HostClock:
    """Where there is no device: the whole path runs, and its figures mean nothing."""

    def now(self) -> float:
        return time.monotonic()

    def sample(self, call: Call) -> float:
        before = time.perf_counter()
        call()
        return time.perf_counter() - before


def clock_of(device: torch.device) -> Clock:
    return DeviceClock(device) if device.type == "cuda" else HostClock()


def interleaved(clock: Clock, calls: Mapping[str, Call], seconds: float, most: int = 30) -> dict[str, list[float]]:
    """Seconds of each call in rounds that run all of them, each round starting with another one; as
    many rounds as fit into so many seconds of calls, `most` at most, and fewer than 5 only where calls
    are very slow; after one that warms up."""
    names = list(calls)
    once = sum(clock.sample(calls[name]) for name in names)
    rounds = max(1, min(5, int(4 * seconds / max(once, 1e-6))), min(most, int(seconds / max(once, 1e-6))))
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(clock.sample(calls[name]))
    return taken


def quick(clock: Clock, call: Call, samples: int = 5) -> float:
    """The median of a few samples after one that warms up; of a slow call, that one."""
    first = clock.sample(call)
    return first if first > SLOW else statistics.median(clock.sample(call) for _ in range(samples))


@dataclass(frozen=True)
class Ceilings:
    """What the device does at best in this run: flop/s by type, and bytes/s of a copy, read and written."""

    flops: Mapping[str, float]
    bytes: float


def ceilings(clock: Clock, device: torch.device, tiny: bool) -> Ceilings:
    """A product of two matrices of 8192² random elements in each type, and a copy of 4 GiB."""
    side, count = (64, 2**16) if tiny else (8192, 2**32)
    flops = {}
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        flops[name] = 2 * side**3 / quick(clock, partial(torch.mm, a, b, out=out), 10)
    source, target = (torch.ones(count, dtype=torch.int8, device=device) for _ in range(2))
    return Ceilings(flops, 2 * count / quick(clock, lambda: target.copy_(source), 10))
