"""Seconds of a call with cold caches, by the device's own events: of the device alone, with the host's part, and of a
graph that was captured; the two ceilings that every rate is held against."""

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
FLUSHED = 2**30  # bytes written before each sample: many times the cache
HIDDEN = 4_000_000  # cycles, about 2 ms, that the device waits while the host starts a call


class Clock(Protocol):
    """`now` is for budgets, the others are for figures."""

    def now(self) -> float: ...
    def sample(self, call: Call) -> float:
        """Seconds that the device takes for one call."""
    def whole(self, call: Call) -> float:
        """Seconds of one call, with what the host takes to start it where that is longer."""
    def captured(self, call: Call) -> Call:
        """The call as a graph that is replayed. Raises what the device says where it cannot be one."""


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
        return self._between(call, HIDDEN)

    def whole(self, call: Call) -> float:
        self.junk.zero_()
        torch.cuda.synchronize(self.device)
        return self._between(call, 0)

    def captured(self, call: Call) -> Call:
        side: Any = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # what a first call makes is not to be captured
            call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def _between(self, call: Call, hidden: int) -> float:
        """Seconds between two events around a call; the host has so many cycles to start it before the first."""
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        if hidden:
            self.junk.zero_()
            torch.cuda._sleep(hidden)
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

    def whole(self, call: Call) -> float:
        return self.sample(call)

    def captured(self, call: Call) -> Call:
        return call


@dataclass(frozen=True)
class WithHost:
    """A clock whose samples have the host's part in them."""

    clock: Clock

    def now(self) -> float:
        return self.clock.now()

    def sample(self, call: Call) -> float:
        return self.clock.whole(call)

    def whole(self, call: Call) -> float:
        return self.clock.whole(call)

    def captured(self, call: Call) -> Call:
        return self.clock.captured(call)


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
