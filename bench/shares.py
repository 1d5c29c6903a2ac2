"""Where the time of a call goes: the share of each operation of torch, of each compiled kernel and of all that happens
between them, so that a limit can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table
from torch.profiler import ProfilerActivity, profile, record_function

from bench import rivals
from bench.case import Sizes, Task, make
from bench.cases import BY_NAME
from bench.measure import first

CALLS = 5
BETWEEN = "between operations"  # Python, and what it calls that is no operation of torch


@dataclass(frozen=True)
class Share:
    """An operation's own time as a part of all, and how often one call runs it."""

    operation: str
    part: float
    runs: float


def shares_of(call: Callable[[], Any]) -> list[Share]:
    """The operations of a call, the longest first; their parts sum to 1. Kernels that are compiled to C++ are among
    them, and so is what happens between operations.
    """
    call()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(CALLS):
            with record_function(BETWEEN):
                call()
    events = found.key_averages()
    total = max(sum(event.self_cpu_time_total for event in events), 1e-9)
    made = [Share(event.key.removeprefix("aten::"), event.self_cpu_time_total / total, event.count / CALLS)
            for event in events]
    return sorted(made, key=lambda share: -share.part)


def shares(task: Task, rival: str) -> list[Share]:
    """The operations of a call of a rival."""
    prepared, _, _ = first(task, rivals.BY_NAME[rival])
    with torch.no_grad():
        return shares_of(prepared.call)


def table(case: str, dtype: str, rival: str, sizes: Sizes | None = None, most: int = 8) -> Table:
    task = make(BY_NAME[case], BY_NAME[case].sizes(False)[0] if sizes is None else sizes, dtype)
    out = Table(box=None, pad_edge=False, title=f"{case}, {dtype}, {rival}", title_justify="left")
    for heading in ("operation", "share", "runs"):
        out.add_column(heading, justify="left" if heading == "operation" else "right")
    lines: Sequence[Share] = shares(task, rival)[:most]
    for share in lines:
        out.add_row(share.operation, f"{share.part:.0%}", f"{share.runs:.0f}")
    return out
