"""The memory of forward and backward over T: what is alive at most during a call, by the allocator's own account.

Unlike the resident memory of a process these figures are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from torch.profiler import ProfilerActivity, profile

from bench import gradients
from bench.case import CannotError, Sizes
from bench.report import exponent

LENGTHS = (1024, 2048, 4096, 8192)
CASES = ("causal", "slopes", "table", "window")
LINEAR = 1.1  # the exponent that is still called linear
DENSE = 2048  # up to this length what stores all pairs is measured too


def alive(call: Callable[[], Any]) -> int:
    """The bytes that a call has in use at its peak, beyond those that were in use before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    assert seen.profiler is not None
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    return max(accumulate((e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())), initial=0))


def sizes_of(case: gradients.Pass, length: int, heads: int = 2) -> Sizes:
    return {**case.quick[0], "H": heads, "T": length}


def points(name: str, way: str, lengths: Sequence[int] = LENGTHS,
           tell: Callable[[str], None] = lambda text: None) -> Iterator[
        tuple[int, int]]:
    """Lengths, and the bytes of forward and backward; nothing where the way cannot do the case."""
    case = gradients.CASES[name]
    for length in lengths:
        if way in ("eager", "naive") and length > DENSE:
            return
        tell(f"{name} T={length}: memory of {way}")
        task = gradients.make(case, sizes_of(case, length), "float32")
        try:
            call = gradients.both(gradients.WAYS[way](task), task.tensors)
        except CannotError:
            return
        call()
        yield length, alive(call)


def figures(names: Sequence[str], ways: Sequence[str], lengths: Sequence[int] = LENGTHS,
            tell: Callable[[str], None] = lambda text: None) -> Iterator[dict[str, Any]]:
    """A row for each case and way: the points, and the exponent of bytes over T."""
    for name in names:
        for way in ways:
            found = list(points(name, way, lengths, tell))
            if found:
                spans, held = [x for x, _ in found], [y for _, y in found]
                slope, last = exponent(spans, held), exponent(spans[-2:], held[-2:])
                yield {"case": f"memory-{name}", "sizes": sizes_of(gradients.CASES[name], 0) | {"T": spans[-1]},
                       "dtype": "float32",
                       "rival": way, "lengths": spans, "bytes": held, "exponent": _short(slope),
                       "last_step": _short(last)}


def steep(row: dict[str, Any]) -> bool:
    """Whether memory grows faster than linearly over the last step, in which what is constant weighs least."""
    return row["rival"] == "einc" and (row["last_step"] or 0.0) > LINEAR


def _short(slope: float | None) -> float | None:
    return None if slope is None else round(slope, 3)
