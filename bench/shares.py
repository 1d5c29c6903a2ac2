"""Where the time of a call goes: the share of each operation of torch, so that a limit can be named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from bench import rivals
from bench.case import Sizes, Task, make
from bench.cases import BY_NAME
from bench.measure import first

CALLS = 5


@dataclass(frozen=True)
class Share:
    """An operation's own time as a part of all, and how often one call runs it."""

    operation: str
    part: float
    runs: float


def shares(task: Task, rival: str) -> list[Share]:
    """The operations of a call, the longest first; their parts sum to 1."""
    prepared, _, _ = first(task, rivals.BY_NAME[rival])
    with torch.no_grad():
        prepared.call()
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for _ in range(CALLS):
                prepared.call()
    events = found.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    made = [Share(event.key.removeprefix("aten::"), event.self_cpu_time_total / total, event.count / CALLS)
            for event in events]
    return sorted(made, key=lambda share: -share.part)


def table(case: str, dtype: str, rival: str, sizes: Sizes | None = None, most: int = 8) -> Table:
    task = make(BY_NAME[case], BY_NAME[case].sizes(False)[0] if sizes is None else sizes, dtype)
    out = Table(box=None, pad_edge=False, title=f"{case}, {dtype}, {rival}", title_justify="left")
    for heading in ("operation", "share", "runs"):
        out.add_column(heading, justify="left" if heading == "operation" else "right")
    lines: Sequence[Share] = shares(task, rival)[:most]
    for share in lines:
        out.add_row(share.operation, f"{share.part:.0%}", f"{share.runs:.0f}")
    return out
