"""`python -m bench launch`: what a repeated call of an emitted Triton file costs the host, beside what Triton's own
launches of the same kernels cost it. There is no device: the launcher in C is a stub, and nothing is compiled."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import torch
from rich.table import Table

import einc
from bench.carried.cases import GQA_DECODE
from bench.cases import ALIBI
from bench.record import Row
from bench.stub import kernels, space, stubbed
from einc.backends.triton.offline import load

AIM = 0.5  # our share, of Triton's own launch
TRITON = "/triton/"  # what stands in a folder of this name is Triton's


@dataclass(frozen=True)
class Work:
    """A call to be counted: a spec, the shapes of its inputs; for a step over a cache, how many positions that has."""

    name: str
    spec: str
    shapes: Mapping[str, tuple[int, ...]]
    integers: Mapping[str, tuple[int, ...]]
    past: int = 0

    def ready(self) -> tuple[Callable[..., Any], Callable[[], Any]]:
        """The loaded function, and a call of it that can be made again and again."""
        module = einc.compile(self.spec, backend="triton", own=True, plan="serve" if self.past else "")
        function = load(module.source, "step" if self.past else module.plan.name)
        given = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in self.shapes.items()}
        given |= {name: torch.zeros(shape, dtype=torch.int64) for name, shape in self.integers.items()}
        if not self.past:
            return function, partial(function, **given)
        names = space(function)
        caches: list[Any] = []

        def step() -> Any:
            if not caches:
                before = {**given, "X": torch.zeros(self.past, *self.shapes["X"][1:], dtype=torch.bfloat16)}
                caches.append(names["prefill"](**before)[1])
            return names["step"](caches[0], **given)

        return function, step


def _head(*shape: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(("Q", "K", "V"), shape)


WORKS = (
    Work("causal", "sdpa", _head(1, 8, 1024, 64), {}),
    Work("alibi", ALIBI, _head(1, 8, 1024, 64), {}),
    Work("documents", "gallery/documents", _head(1, 8, 1024, 64), {"doc": (1024,)}),
    Work("decode-gqa", GQA_DECODE, {"Q": (1, 32, 1, 128), "K": (1, 8, 4096, 128), "V": (1, 8, 4096, 128)}, {}),
    Work("step", "gqa", {"X": (1, 64), "W_Q": (8, 64, 64), "W_O": (8, 64, 64), "W_K": (2, 64, 64), "W_V": (2, 64, 64)},
         {}, past=1024),
)
BY_NAME = {work.name: work for work in WORKS}


@dataclass(frozen=True)
class Count:
    """What the interpreter of Python did: calls of functions, in Python or in C, and instructions of its own."""

    calls: int
    instructions: int


def counted(call: Callable[[], Any]) -> tuple[Count, Count]:
    """Ours and Triton's part of a call. Both are exact, and the same on every machine with these versions."""
    calls, instructions = {True: 0, False: 0}, {True: 0, False: 0}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "c_call"):
            calls[_inside(frame)] += 1

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        instructions[_inside(frame)] += event == "opcode"
        return trace

    for begin, watch in ((sys.setprofile, profile), (sys.settrace, trace)):
        begin(watch)
        try:
            call()
        finally:
            begin(None)
    return Count(calls[False], instructions[False]), Count(calls[True], instructions[True])


def _inside(frame: FrameType | None) -> bool:
    """Whether the frame is Triton's, or was called from there."""
    while frame is not None:
        if TRITON in frame.f_code.co_filename and "/einc" not in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def launches(function: Callable[..., Any], call: Callable[[], Any]) -> list[Callable[[], Any]]:
    """Triton's own launches of what the call starts, to be made again by themselves."""
    found: list[Callable[[], Any]] = []
    runs = {name: kernel.run for name, kernel in kernels(function).items()}
    for kernel in kernels(function).values():
        kernel.run = partial(_noted, found, type(kernel).run, kernel)
    try:
        call()
    finally:
        for name, kernel in kernels(function).items():
            kernel.run = runs[name]
    return found


def _noted(found: list[Callable[[], Any]], run: Callable[..., Any], kernel: Any, *given: Any, **named: Any) -> Any:
    found.append(partial(run, kernel, *given, **named))
    return run(kernel, *given, **named)


def timed(call: Callable[[], Any], alone: Sequence[Callable[[], Any]], rounds: int,
          each: int = 200) -> dict[str, float]:
    """Seconds of a call that are ours, and of Triton's launches by themselves: the medians of interleaved rounds."""
    def launch() -> None:
        for one in alone:
            one()

    taken: dict[str, list[float]] = {"whole": [], "triton": []}
    for turn in range(rounds):
        for name, what in sorted((("whole", call), ("triton", launch)), reverse=turn % 2 == 1):
            begin = time.perf_counter()
            for _ in range(each):
                what()
            taken[name].append((time.perf_counter() - begin) / each)
    ours = [whole - triton for whole, triton in zip(taken["whole"], taken["triton"], strict=True)]
    ratio = [a / b for a, b in zip(ours, taken["triton"], strict=True)]
    return {"seconds": statistics.median(ours), "triton": statistics.median(taken["triton"]),
            "ratio": statistics.median(ratio)}


def measured(names: Sequence[str], rounds: int) -> Iterator[Row]:
    """A row for each call; `rounds` of 0 times nothing."""
    for name in names:
        function, call = BY_NAME[name].ready()
        with stubbed(function) as noted, torch.no_grad():
            for _ in range(3):
                call()
            noted.launched.clear()
            call()
            alone = launches(function, call)
            ours, theirs = counted(call)
            figures = timed(call, alone, rounds) if rounds else {}
        yield {"case": name, "sizes": {}, "dtype": "bfloat16", "rival": "einc", "launches": len(alone),
               "calls": ours.calls, "instructions": ours.instructions, "triton_calls": theirs.calls,
               "triton_instructions": theirs.instructions, **({"figures": figures} if figures else {})}


def table(rows: Sequence[Row]) -> Table:
    """The rows for a terminal: ours over Triton's."""
    out = Table(box=None, pad_edge=False, caption_justify="left", caption=(
        "Of a repeated call: functions called, and instructions of Python, ours and those of Triton's own launches of "
        f"the same kernels. The aim is ours ≤ {AIM} of Triton's. Seconds mean something on a quiet machine alone."))
    for head in ("call", "launches", "calls", "Triton's", "ratio", "instructions", "Triton's", "ratio", "µs",
                 "Triton's", "ratio"):
        out.add_column(head, justify="left" if head == "call" else "right")
    for row in rows:
        found = row.get("figures") or {}
        times = [f"{found['seconds'] * 1e6:.1f}", f"{found['triton'] * 1e6:.1f}",
                 f"{found['ratio']:.2f}"] if found else ["", "", ""]
        out.add_row(row["case"], str(row["launches"]), str(row["calls"]), str(row["triton_calls"]),
                    f"{row['calls'] / row['triton_calls']:.2f}", str(row["instructions"]),
                    str(row["triton_instructions"]), f"{row['instructions'] / row['triton_instructions']:.2f}",
                    *times)
    return out
