"""The cases against the rivals: each result is checked, then what is right is timed in interleaved rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from bench import measure
from bench.case import DTYPES, CannotError, Case, Prepared, Sizes, Task, make
from bench.record import Figures
from bench.rivals import REFERENCES, Rival
from einc.driver.timing.judge import BOUNDS, ratio, relative_error

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run."""

    cases: Sequence[Case]
    rivals: Sequence[Rival]
    dtypes: Sequence[str]
    full: bool = False
    rounds: int = 5
    spread: float = 1.0
    memory: bool = True
    patience: float = 0.0

    def steps(self) -> list[tuple[Case, Sizes, str]]:
        """Cases over many sizes show growth; in the quick set one element type is enough for that."""
        return [(case, sizes, dtype) for case in self.cases for dtype in self.dtypes for sizes in case.sizes(self.full)
                if self.full or dtype == self.dtypes[0] or len(case.sizes(False)) == 1]


def run(plan: Plan, tell: Tell) -> Iterator[list[Figures]]:
    """The figures, a case at one size and element type at a time."""
    with measure.Memory() if plan.memory else nullcontext() as memory:
        for case, sizes, dtype in plan.steps():
            torch._dynamo.reset()
            task = make(case, sizes, dtype, plan.spread)
            found = timed(task, plan.rivals, plan.rounds, plan.patience, tell)
            for one in found:
                if memory is not None and one.status == "ok":
                    tell(f"{_place(task)}: memory of {one.rival}")
                    one.memory = memory.of(case.name, sizes, dtype, one.rival)
            yield found


def _place(task: Task) -> str:
    return f"{task.case.name} {task.dtype} T={task.sizes['T']}"


def timed(task: Task, rivals: Sequence[Rival], rounds: int, patience: float = 0.0,
          tell: Tell = lambda text: None) -> list[Figures]:
    """Every rival on one task."""
    rows = task.case.rows(task.sizes)
    exact = task.case.exact(task, rows)
    flops = task.case.flops(task)
    found: dict[str, Figures] = {}
    ready: dict[str, Prepared] = {}
    for rival in rivals:
        tell(f"{_place(task)}: first call of {rival.name}")
        found[rival.name] = one = Figures(task.case.name, task.sizes, task.dtype, rival.name, flops=flops)
        prepared = checked(task, rival, one, exact, rows)
        if prepared is not None:
            ready[rival.name] = prepared
    with torch.no_grad():
        calls = {name: prepared.call for name, prepared in ready.items()} | {"GEMM": measure.gemm(DTYPES[task.dtype])}
        series = measure.interleaved(calls, rounds, patience, lambda name: tell(f"{_place(task)}: timing {name}"))
    times = series.times
    gemm = 2 * measure.GEMM**3 / statistics.median(times.pop("GEMM"))
    reference = next((name for name in REFERENCES if name in times), None)
    for name, taken in times.items():
        one = found[name]
        one.gemm = gemm
        one.seconds, one.fastest, one.rounds, one.disturbed = (
            statistics.median(taken), min(taken), len(taken), series.disturbed)
        if reference is not None:
            one.reference, one.ratio = reference, ratio(times[reference], taken)
    return list(found.values())


def checked(task: Task, rival: Rival, one: Figures, exact: torch.Tensor, rows: torch.Tensor) -> Prepared | None:
    """The rival ready to be timed, if its result is right; else the figures say why it is not."""
    try:
        prepared, result, one.first = measure.first(task, rival)
    except CannotError as reason:
        one.status, one.note = "cannot", str(reason)
        return None
    except Exception as error:  # what a rival's compiler raises is its own affair, and the others go on
        one.status, one.note = "failed", f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:120]}"
        return None
    one.error = relative_error(task.case.picked(result, rows), exact)
    if not one.error <= BOUNDS[task.dtype]:
        one.status, one.note = "wrong", f"relative error {one.error:.1e}"
        return None
    one.held = prepared.held_bytes
    return prepared
