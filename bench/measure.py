"""How things are measured: interleaved rounds, peak memory in a process per rival, error against float64."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench import cases, rivals
from bench.case import CannotError, Prepared, Sizes, Task, make

Call = Callable[[], Any]

SAMPLE = 0.01  # a call shorter than this is repeated within one sample
MEMORY_LIMIT = 600.0


def seconds(call: Call, repeat: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def busy_seconds() -> float | None:
    """Processor seconds that the machine has spent so far, what its host took from it
    included; None where it does not say."""
    try:
        fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _, _, hard, soft, steal = fields
    return (user + nice + system + hard + soft + steal) / os.sysconf("SC_CLK_TCK")


class Quiet:
    """Whether this process has the machine to itself. A second busy process does not cost a tenth: parallel sections
    wait for the thread that lost its core, and what has many short ones becomes many times slower."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def disturbance(self, work: Call) -> float:
        """Do the work; the processor seconds that others took meanwhile, beyond a tenth
        of the time and what clocks err."""
        before, own, start = busy_seconds(), time.process_time(), time.perf_counter()
        work()
        after = busy_seconds()
        if before is None or after is None:
            return 0.0
        others = after - before - (time.process_time() - own)
        return max(0.0, others - 0.03 - 0.1 * (time.perf_counter() - start))

    def wait(self) -> None:
        """Until the machine is quiet, as long as the patience lasts."""
        while self.patience > 0 and self.disturbance(lambda: time.sleep(0.2)) > 0:
            self.patience -= 0.2


@dataclass(frozen=True)
class Series:
    """Seconds by name, a round per place, and how many of these rounds other processes disturbed."""

    times: dict[str, list[float]]
    disturbed: int


def interleaved(calls: Mapping[str, Call], rounds: int, patience: float = 0.0,
                tick: Callable[[str], None] = lambda name: None) -> Series:
    """Seconds of each call in each round. Every round runs all of them, each time starting with another one.

    A round that others disturbed is run again, up to twice as many rounds in all; the least disturbed ones count.
    """
    names = list(calls)
    repeats = {name: max(1, math.ceil(SAMPLE / max(seconds(call), 1e-7))) for name, call in calls.items()}
    quiet = Quiet(patience)
    found: list[tuple[float, dict[str, float]]] = []

    def once(order: list[str], into: dict[str, float]) -> None:
        for name in order:
            tick(name)
            into[name] = seconds(calls[name], repeats[name])

    while names and len(found) < 2 * rounds and sum(far == 0 for far, _ in found) < rounds:
        quiet.wait()
        first, taken = len(found) % len(names), dict[str, float]()
        found.append((quiet.disturbance(partial(once, names[first:] + names[:first], taken)), taken))
    best = sorted(found, key=lambda pair: pair[0])[:rounds]
    return Series({name: [taken[name] for _, taken in best] for name in names}, sum(far > 0 for far, _ in best))


GEMM = 2048


def gemm(dtype: torch.dtype) -> Call:
    """A product of two square matrices by the faster route, to hold the rates of a run against."""
    a, b = torch.randn(GEMM, GEMM).to(dtype), torch.randn(GEMM, GEMM).to(dtype)
    calls: list[Call] = [lambda: a @ b]
    if dtype == torch.float32 and rivals.onednn_is_exact():
        calls.append(rivals.onednn(lambda: a @ b))
    return min(calls, key=lambda call: min(seconds(call) for _ in range(4)))


def load_average() -> float | None:
    """The load of the last minute, where the system says."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def first(task: Task, rival: rivals.Rival) -> tuple[Prepared, torch.Tensor, float]:
    """The rival made ready, its first result, and the seconds that both took: what it compiles is in them."""
    start = time.perf_counter()
    with torch.no_grad():
        prepared = rival.prepare(task)
        result = prepared.call()
    return prepared, result, time.perf_counter() - start


# memory


def _resident() -> dict[str, int]:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return {name: int(kilo) * 1024 for name, kilo in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", text, re.M)}


def peak(call: Call) -> int | None:
    """Bytes by which a call raises the resident memory of this process at its peak; None where the system does not say.

    What earlier calls freed is given back first: pages that the allocator keeps would hide the growth.
    """
    try:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        Path("/proc/self/clear_refs").write_text("5\n", encoding="ascii")
        before = _resident()["VmRSS"]
        call()
        return max(0, _resident()["VmHWM"] - before)
    except OSError:
        return None


def memory_of(case: str, sizes: Sizes, dtype: str, rival: str) -> int | None:
    """The peak growth of a second call, with the data drawn anew: this runs in a process of its own."""
    torch._dynamo.reset()
    task = make(cases.BY_NAME[case], sizes, dtype)
    try:
        prepared, _, _ = first(task, rivals.BY_NAME[rival])
    except CannotError:
        return None
    with torch.no_grad():
        return peak(prepared.call)


class Memory:
    """A process per rival, started when it is first asked, so that none finds the memory another one left."""

    def __init__(self, measured: Callable[[str, Sizes, str, str], int | None] = memory_of) -> None:
        self.measured = measured
        self.workers: dict[str, ProcessPoolExecutor] = {}

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.shutdown(cancel_futures=True)

    def of(self, case: str, sizes: Sizes, dtype: str, rival: str) -> int | None:
        if rival not in self.workers:
            self.workers[rival] = ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn"), torch.set_num_threads, (torch.get_num_threads(),))
        try:
            return self.workers[rival].submit(self.measured, case, dict(sizes), dtype, rival).result(MEMORY_LIMIT)
        except BrokenProcessPool:  # killed, most likely for its memory
            del self.workers[rival]
        except Exception:  # whatever a rival's compiler raises: the row says that there is no figure
            pass
        return None
