"""How things are measured: interleaved rounds, peak memory in a process per rival, error against float64."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch

from bench import cases, rivals
from bench.case import CannotError, Prepared, Sizes, Task, make
from einc.driver.commands.measure import taken
from einc.driver.timing.clock import Call, interleaved, seconds

__all__ = ["Call", "interleaved", "seconds"]

MEMORY_LIMIT = 600.0
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


def peak(call: Call) -> int | None:
    """Bytes by which a call raises the resident memory of this process at its peak; None where the system is silent."""
    _, found = taken(call)
    return None if found is None else max(0, found[1])


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
