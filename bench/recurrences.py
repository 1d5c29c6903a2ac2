"""Layers that keep one state a head, as rounds over positions, beside plain torch: `python -m bench recurrences`.

einc gets the rounds alone. The rivals are those of bench/recurrent.py: the same rounds as a loop, chunks that are
written by hand, and these under torch.compile.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from rich.table import Table
from torch.nn.functional import logsigmoid, normalize

import einc
from bench import measure, recurrent
from bench.case import Sizes, Tensors
from bench.record import Figures, Row
from bench.report import duration, exponent, written
from bench.run import Tell
from einc.driver.timing.judge import BOUNDS, ratio, relative_error

USUAL: Sizes = {"T": 4096, "H": 4, "d": 64}
GROWTH = (1024, 2048, 4096, 8192, 16384)
CHECKED = 257   # positions of the first check, which no chunk divides
PATIENCE = 120  # seconds that a first call may take, compilers included
DTYPE = "float32"

HEAD = """index t : time(T)
index h : head(H)
index d, k : feature(D)
index e : feature(E)
input {inputs}
S_h^{{d e}} = 0
for t in 1..T:
{lines}
    output y_{{t h}}^e = {query} N_h^{{d e}}
    S_h^{{d e}} ← N_h^{{d e}}
"""
ERASED = "N_h^{d e} = R_h^{d e} + β_{t h} k_{t h}^d (v_{t h}^e - k_{t h k} R_h^{k e})"
ADDED = "N_h^{d e} = exp(g_{t h}^d) S_h^{d e} + k_{t h}^d v_{t h}^e"
REMOVED = ADDED + " - a_{t h}^d κ_{t h}^d κ_{t h k} S_h^{k e}"


def text(inputs: str, *lines: str, query: str = "q_{t h d}") -> str:
    return HEAD.format(inputs=inputs, query=query, lines="\n".join(f"    {line}" for line in lines))


@dataclass(frozen=True)
class Case:
    """A layer: its text, the letters of the axes of each input, and the logarithms of its gates from normal numbers."""

    name: str
    title: str
    text: str
    axes: Mapping[str, str]
    gate: Callable[[torch.Tensor], torch.Tensor]

    def data(self, sizes: Sizes, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensors:
        """Keys and queries of length 1, numbers between 0 and 1 where the layer has them, values as they are drawn."""
        generator, found = torch.Generator().manual_seed(seed), dict[str, torch.Tensor]()
        for name, letters in self.axes.items():
            drawn = torch.randn([sizes[letter] for letter in letters], generator=generator)
            made = {"g": self.gate, "beta": torch.sigmoid, "a": torch.sigmoid, "v": lambda x: x}
            found[name] = made.get(name, lambda x: normalize(x, dim=-1))(drawn).to(dtype)
        return found


def _mild(x: torch.Tensor) -> torch.Tensor:
    return logsigmoid(x + 3)


_KEYS = {"q": "THd", "k": "THd", "v": "THd"}
CASES = {case.name: case for case in (
    Case("gated_delta", "gated delta rule",
         text("k_{t h}^d, q_{t h}^d, v_{t h}^e, β_{t h}, g_{t h}", "R_h^{d e} = exp(g_{t h}) S_h^{d e}", ERASED),
         {**_KEYS, "beta": "TH", "g": "TH"}, _mild),
    Case("kda", "KDA: a gate for each channel and the delta rule",
         text("k_{t h}^d, q_{t h}^d, v_{t h}^e, β_{t h}, g_{t h}^d", "R_h^{d e} = exp(g_{t h}^d) S_h^{d e}", ERASED),
         {**_KEYS, "beta": "TH", "g": "THd"}, _mild),
    Case("ssd", "Mamba-2, keys and queries of all heads",
         text("k_t^d, q_t^d, v_{t h}^e, g_{t h}", "N_h^{d e} = exp(g_{t h}) S_h^{d e} + k_t^d v_{t h}^e",
              query="q_{t d}"),
         {"q": "Td", "k": "Td", "v": "THd", "g": "TH"}, _mild),
    Case("rwkv7", "RWKV-7",
         text("k_{t h}^d, q_{t h}^d, v_{t h}^e, κ_{t h}^d, a_{t h}^d, g_{t h}^d", REMOVED),
         {**_KEYS, "kappa": "THd", "a": "THd", "g": "THd"}, lambda x: -math.exp(-0.5) * torch.sigmoid(x)),
    Case("gla", "gated linear attention", text("k_{t h}^d, q_{t h}^d, v_{t h}^e, g_{t h}^d", ADDED),
         {**_KEYS, "g": "THd"}, lambda x: logsigmoid(x) / 16),
)}


def ours(name: str, backend: str = "torch") -> recurrent.Layer:
    """The layer by a back end of einc; the first call compiles."""
    model = einc.compile(CASES[name].text, backend=backend)
    return lambda x: model(**x)


OURS: dict[str, Callable[[str], recurrent.Layer]] = {"einc": ours, "einc-cpp": partial(ours, backend="cpp")}
WAYS = OURS | recurrent.RIVALS


@dataclass(frozen=True)
class Plan:
    """What to run: each case at each size."""

    cases: Sequence[Case]
    ways: Sequence[str]
    sizes: Sequence[Sizes]
    rounds: int = 5
    patience: float = 0.0

    def steps(self) -> list[tuple[Case, Sizes]]:
        return [(case, sizes) for case in self.cases for sizes in self.sizes]


def run(plan: Plan, tell: Tell) -> Iterator[list[Figures]]:
    """The figures, a case at one size at a time."""
    for case, sizes in plan.steps():
        torch._dynamo.reset()
        with torch.no_grad():
            yield timed(case, sizes, plan.ways, plan.rounds, plan.patience, tell)


def timed(case: Case, sizes: Sizes, ways: Sequence[str], rounds: int, patience: float = 0.0,
          tell: Tell = lambda text: None) -> list[Figures]:
    """Every way of one case: judged by a loop in float64 at 257 positions and at those that are timed."""
    place = f"{case.name} T={sizes['T']}"
    tell(f"{place}: float64")
    judged = [(data, exact(case, data)) for data in (case.data({**sizes, "T": CHECKED}), case.data(sizes))]
    found, calls = dict[str, Figures](), dict[str, measure.Call]()
    for way in ways:
        tell(f"{place}: first calls of {way}")
        found[way] = one = Figures(case.name, sizes, DTYPE, way)
        call = checked(case, way, one, judged)
        if call is not None:
            calls[way] = call
    series = measure.interleaved(calls, rounds, patience, lambda name: tell(f"{place}: timing {name}"))
    best = min((name for name in calls if name not in OURS), key=lambda name: median(series.times[name]), default=None)
    for way, taken in series.times.items():
        one = found[way]
        one.seconds, one.fastest, one.rounds, one.disturbed = median(taken), min(taken), len(taken), series.disturbed
        if best is not None:
            one.reference, one.ratio = best, ratio(series.times[best], taken)
    return list(found.values())


def exact(case: Case, data: Tensors) -> torch.Tensor:
    return recurrent.LOOPS[case.name]({name: x.double() for name, x in data.items()})


def checked(case: Case, way: str, one: Figures, judged: Sequence[tuple[Tensors, torch.Tensor]]) -> measure.Call | None:
    """The way ready to be timed on the last data, if it is right on each; else the figures say why it is not."""
    try:
        with at_most(PATIENCE):
            layer = WAYS[way](case.name)
            errors = [relative_error(layer(data), want) for data, want in judged[:-1]]
        data, want = judged[-1]
        began = time.perf_counter()
        with at_most(PATIENCE):
            errors.append(relative_error(layer(data), want))
        one.first = time.perf_counter() - began
    except SlowError:
        one.status, one.note = "cannot", f"takes over {PATIENCE} s to its first result"
        return None
    except Exception as error:  # what a compiler raises is its own affair, and the others go on
        one.status, one.note = "failed", f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:120]}"
        return None
    one.error = max(errors)
    if not one.error <= BOUNDS[DTYPE]:
        one.status, one.note = "wrong", f"relative error {one.error:.1e}"
        return None
    return lambda: layer(data)


class SlowError(BaseException):
    """A call that took too long; no `Exception`, since compilers catch those."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise SlowError in what takes longer, where the system has such a signal."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(number: int, frame: Any) -> None:
        raise SlowError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# what a person sees


def table(rows: Sequence[Row]) -> Table:
    """A line for each contender; one that is not timed says why."""
    out = Table("case", "sizes", "contender", "error", "time", "time / best rival's", "times as fast as it",
                "the best rival", box=None, pad_edge=False, caption=_caption(rows), caption_justify="left")
    last = None
    for row in rows:
        place = (row["case"], written(row["sizes"]))
        line = [*(("", "") if place == last else place), row["rival"],
                "" if row["error"] is None else f"{row['error']:.0e}"]
        if row["seconds"] is None:
            line.append(f"{row['status']}: {row['note']}")
        else:
            doubt = "~" if 2 * row["disturbed"] >= row["rounds"] else ""
            speed = ["", "", ""] if not row["ratio"] else [f"{1 / row['ratio']:.2f}", f"{row['ratio']:.2f}",
                                                           row["reference"]]
            line += [doubt + duration(row["seconds"]), *speed]
        out.add_row(*line, style="bold" if row["rival"] in OURS else None)
        last = place
    return out


def _caption(rows: Sequence[Row]) -> str:
    lines = ["error: relative RMS against a loop in float64, the larger of 257 positions and those that are timed",
             "time: median over rounds; time / best rival's: below 1 is faster; times as fast as it: above 1 is faster"]
    loads = [row["load"] for row in rows if row["load"] is not None]
    lines += [f"load of the machine at the start: {max(loads)}"] if loads else []
    if any(row["disturbed"] for row in rows):
        lines.append("~ other processes ran in half of the rounds or more: doubt the time")
    return "\n".join(lines)


def growth(rows: Sequence[Row]) -> Table | None:
    """The exponent of time over T by case and contender, where there are several lengths."""
    points: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row["seconds"] is not None:
            points.setdefault((row["case"], row["rival"]), {})[row["sizes"]["T"]] = row["seconds"]
    out = Table("case", "contender", "T", "seconds ~ T^x", box=None, pad_edge=False)
    for (case, rival), by in points.items():
        slope = exponent(list(by), list(by.values()))
        if slope is not None:
            out.add_row(case, rival, f"{min(by)}…{max(by)}", f"{slope:.2f}")
    return out if out.rows else None
