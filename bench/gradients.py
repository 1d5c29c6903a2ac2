"""Forward and backward: kernels with what is learned in them, and the ways to their
gradients, each judged before it is timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import einc
from bench import measure
from bench.attention import Mask, Score, causal, dense
from bench.case import DTYPES, CannotError, Entry, Sizes, Tensors, room_for
from bench.cases import WINDOW
from bench.record import Figures
from bench.run import Tell
from einc.driver.timing.judge import Verdict, judge, ratio

FEW = 64
ABOVE = "dY"  # what comes from above in the backward pass
CHANGED = "override L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k}"
SLOPES = f'use "sdpa"\nweight m_h\n{CHANGED} - m_h (t - s)\n'
TABLE = f'use "sdpa"\nindex p : feature(0..T-1)\nweight b_{{h p}}\n{CHANGED} + b_{{h, t - s}}\n'


@dataclass(frozen=True)
class Pass(Entry):
    """A kernel over Q, K, V of (B, H, T, D), causal; the gradients of all three and of
    what changes its logits are wanted."""

    mask: Callable[[Sizes], Mask] = lambda sizes: causal
    learned: Callable[[Sizes], Tensors] = lambda sizes: {}
    score: Callable[[Tensors], Score] | None = None

    def tensors(self, sizes: Sizes, dtype: str, seed: int = 0) -> Tensors:
        B, H, T, D = (sizes[name] for name in "BHTD")
        random = torch.Generator().manual_seed(seed)
        drawn = {name: torch.randn(B, H, T, D, generator=random) for name in ("Q", "K", "V", ABOVE)}
        return {name: x.to(DTYPES[dtype]) for name, x in {**drawn, **self.learned(sizes)}.items()}

    def hidden(self, sizes: Sizes) -> torch.Tensor:
        """Where the mask is not, for every head alike."""
        zero, at = torch.zeros((), dtype=torch.long), torch.arange(sizes["T"])
        return ~self.mask(sizes)(zero, zero, at[:, None], at)

    def whole(self, x: Tensors, sizes: Sizes, hidden: torch.Tensor | None = None,
              heads: slice = slice(None)) -> torch.Tensor:
        """All logits at once, of some heads; the mask is made anew where it is not given."""
        at = torch.arange(sizes["T"])
        place = (torch.zeros((), dtype=torch.long), torch.arange(sizes["H"])[heads, None, None], at[:, None], at)
        hidden = self.hidden(sizes) if hidden is None else hidden

        def change(logits: torch.Tensor) -> torch.Tensor:
            if self.score is not None:
                logits = self.score(x)(logits, *place)
            return logits.masked_fill(hidden, -math.inf)

        q, k, v = (x[name][:, heads] for name in "QKV")
        return dense(q, k, v, change)

    def flops(self, sizes: Sizes) -> int:
        """Two products forward and five backward, of which one is made again, over visible pairs."""
        B, H, T, D = (sizes[name] for name in "BHTD")
        return 7 * 2 * B * H * D * (T * T - int(self.hidden(sizes).sum()))


@dataclass(frozen=True)
class Task:
    """A case at one size and one element type, with its data."""

    case: Pass
    sizes: Sizes
    dtype: str
    tensors: Tensors

    def place(self) -> str:
        return f"{self.case.name} {self.dtype} T={self.sizes['T']}"


def make(case: Pass, sizes: Sizes, dtype: str) -> Task:
    return Task(case, sizes, dtype, case.tensors(sizes, dtype))


Forward = Callable[[Tensors], torch.Tensor]


def both(forward: Forward, given: Tensors) -> Callable[[], Tensors]:
    """A call that gives the result and the gradient of every input."""
    leaves = {name: x.detach().requires_grad_() for name, x in given.items() if name != ABOVE}

    def call() -> Tensors:
        y = forward(leaves)
        found = torch.autograd.grad(y, list(leaves.values()), given[ABOVE])
        return {"Y": y.detach(), **{f"d{name}": x for name, x in zip(leaves, found, strict=True)}}

    return call


def exact(task: Task) -> Tensors:
    """By plain torch in float64, head after head: what is dense in all of them is large."""
    x = {name: tensor.double() for name, tensor in task.tensors.items()}
    found: list[Tensors] = []
    for h in range(task.sizes["H"]):
        found.append(both(partial(_of_heads, task=task, heads=slice(h, h + 1)), {**x, ABOVE: x[ABOVE][:, h:h + 1]})())
    first, *rest = found
    return {name: torch.cat([one[name] for one in found], 1) if name == "Y"
            else sum((one[name] for one in rest), first[name])
            for name in first}


def _of_heads(x: Tensors, task: Task, heads: slice) -> torch.Tensor:
    return task.case.whole(x, task.sizes, heads=heads)


# the ways


def ours(task: Task, backend: str = "torch") -> Forward:
    model = einc.compile(task.case.spec, backend, grad=True)
    asked = {name: task.sizes[name] for name in task.case.asks}
    return lambda x: model(**x, **asked)


def library(task: Task) -> Forward:
    """torch's own kernel, with the mask that it needs as booleans."""
    if task.case.score is not None:
        raise CannotError("has no gradient of a bias: it falls back to eager code")
    seen = None if task.case.mask(task.sizes) is causal else ~task.case.hidden(task.sizes)
    return lambda x: scaled_dot_product_attention(x["Q"], x["K"], x["V"], attn_mask=seen, is_causal=seen is None)


def flex(task: Task) -> Forward:
    T, score = task.sizes["T"], task.case.score
    blocks = create_block_mask(task.case.mask(task.sizes), None, None, T, T, device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False)

    def forward(x: Tensors) -> torch.Tensor:
        y: torch.Tensor = compiled(x["Q"], x["K"], x["V"], score_mod=score and score(x), block_mask=blocks)
        return y

    return forward


def eager(task: Task) -> Forward:
    _fits(task, 4 * DTYPES[task.dtype].itemsize)
    hidden = task.case.hidden(task.sizes)
    return lambda x: task.case.whole(x, task.sizes, hidden)


def naive(task: Task) -> Forward:
    _fits(task, 4 * 4)
    return torch.compile(lambda x: task.case.whole(x, task.sizes), dynamic=False)


def _fits(task: Task, each: int) -> None:
    room_for(each * task.sizes["B"] * task.sizes["H"] * task.sizes["T"]**2)


def ours_cpp(task: Task) -> Forward:
    return ours(task, "cpp")


WAYS: dict[str, Callable[[Task], Forward]] = {
    "einc": ours, "einc-cpp": ours_cpp, "library": library, "flex": flex, "naive": naive, "eager": eager,
}
REFERENCES = ("library", "eager")


def _kernel(**changes: int) -> Sizes:
    return {"B": 1, "H": 8, "T": 2048, "D": 64, **changes}


def _slopes(sizes: Sizes) -> Tensors:
    return {"m": torch.exp2(-8.0 * torch.arange(1, sizes["H"] + 1) / sizes["H"])}


def _table(sizes: Sizes) -> Tensors:
    return {"b": torch.randn(sizes["H"], sizes["T"], generator=torch.Generator().manual_seed(1))}


def _by_slope(x: Tensors) -> Score:
    return lambda logits, b, h, t, s: logits - x["m"][h] * (t - s)


def _by_table(x: Tensors) -> Score:
    return lambda logits, b, h, t, s: logits + x["b"][h, (t - s).clamp(min=0)]


def _near(sizes: Sizes) -> Mask:
    width = sizes["W"]
    return lambda b, h, t, s: (s <= t) & (s > t - width)


GROWTH = tuple(_kernel(H=2, T=512 * 2**i) for i in range(4))
CASES = {case.name: case for case in (
    Pass("causal", "causal", "sdpa", (_kernel(),)),
    Pass("slopes", "ALiBi, its slopes learned", SLOPES, (_kernel(),), learned=_slopes, score=_by_slope),
    Pass("table", "a learned number for each distance", TABLE, (_kernel(),), learned=_table, score=_by_table),
    Pass("window", "a window of 256", WINDOW, (_kernel(W=256),), asks=("W",), mask=_near),
    Pass("growth-causal", "causal over T", "sdpa", GROWTH),
    Pass("growth-table", "a learned number for each distance, over T", TABLE, GROWTH, learned=_table, score=_by_table),
)}


# what is right, and how fast it is


@dataclass(frozen=True)
class Plan:
    """What to run."""

    cases: Sequence[Pass]
    ways: Sequence[str]
    dtypes: Sequence[str]
    rounds: int = 5
    memory: bool = True
    patience: float = 0.0

    def steps(self) -> list[tuple[Pass, Sizes, str]]:
        """One element type is enough to show growth."""
        return [(case, sizes, dtype) for case in self.cases for dtype in self.dtypes for sizes in case.quick
                if dtype == self.dtypes[0] or len(case.quick) == 1]


def run(plan: Plan, tell: Tell) -> Iterator[list[Figures]]:
    """The figures, a case at one size and element type at a time."""
    with measure.Memory(memory_of) if plan.memory else nullcontext() as memory:
        for case, sizes, dtype in plan.steps():
            torch._dynamo.reset()
            task = make(case, sizes, dtype)
            found = timed(task, plan.ways, plan.rounds, plan.patience, tell)
            for one in found:
                if memory is not None and one.seconds is not None:
                    tell(f"{task.place()}: memory of {one.rival}")
                    one.memory = memory.of(case.name, sizes, dtype, one.rival)
            yield found


def timed(task: Task, ways: Sequence[str], rounds: int, patience: float = 0.0,
          tell: Tell = lambda text: None) -> list[Figures]:
    """Every way of one task: judged by what float64 gives and by how far eager torch in the same type is from that."""
    want, flops = exact(task), task.case.flops(task.sizes)
    beside = both(eager(task), task.tensors)()
    found, calls = dict[str, Figures](), dict[str, Callable[[], Tensors]]()
    for way in ways:
        tell(f"{task.place()}: first call of {way}")
        found[way] = one = Figures(task.case.name, task.sizes, task.dtype, way, flops=flops)
        call = checked(task, way, one, want, beside)
        if call is not None:
            calls[way] = call
    known = {**calls, "GEMM": measure.gemm(DTYPES[task.dtype])}
    series = measure.interleaved(known, rounds, patience, lambda name: tell(f"{task.place()}: timing {name}"))
    times = series.times
    gemm = 2 * measure.GEMM**3 / median(times.pop("GEMM"))
    reference = next((name for name in REFERENCES if name in times), None)
    for way, taken in times.items():
        one = found[way]
        one.gemm, one.seconds, one.fastest = gemm, median(taken), min(taken)
        one.rounds, one.disturbed = len(taken), series.disturbed
        if reference is not None:
            one.reference, one.ratio = reference, ratio(times[reference], taken)
    return list(found.values())


def checked(task: Task, way: str, one: Figures, want: Tensors, beside: Tensors) -> Callable[[], Tensors] | None:
    """The way ready to be timed, if its result and every gradient are right; else the figures say why it is not."""
    began = time.perf_counter()
    try:
        call = both(WAYS[way](task), task.tensors)
        found = call()
    except (CannotError, NotImplementedError) as reason:
        one.status, one.note = "cannot", str(reason).partition(". ")[0]
        return None
    except Exception as error:  # what a rival's compiler raises is its own affair, and the others go on
        one.status, one.note = "failed", f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:120]}"
        return None
    one.first = time.perf_counter() - began
    verdicts = {name: _judged(found[name], want[name], beside[name], task.dtype) for name in want}
    one.error = max(verdict.error for verdict in verdicts.values())
    name, worst = max(verdicts.items(), key=lambda pair: (_RANKS.index(pair[1].status), pair[1].beside))
    if worst.status != "ok":
        one.status, one.note = worst.status, f"{name}: {_said(worst)}"
    return None if worst.status == "wrong" else call


def _judged(result: torch.Tensor, want: torch.Tensor, eager: torch.Tensor, dtype: str) -> Verdict:
    """By the rule; what has few numbers by the bounds alone, for it is luck how near eager torch comes to those."""
    verdict = judge(result, want, eager, dtype)
    few = verdict.status == "inexact" and want.numel() < FEW
    return replace(verdict, status="ok", note="") if few else verdict


_RANKS = ("ok", "inexact", "wrong")


def _said(verdict: Verdict) -> str:
    return verdict.note or f"relative error {verdict.error:.1e}"


def memory_of(case: str, sizes: Sizes, dtype: str, way: str) -> int | None:
    """The peak growth of a second call, with the data drawn anew: this runs in a process of its own."""
    torch._dynamo.reset()
    task = make(CASES[case], sizes, dtype)
    call = both(WAYS[way](task), task.tensors)
    call()
    return measure.peak(call)
