"""One new position over a cache, and passes in few bits: times as fast as torch's own kernel, and how near to what the
memory gives.

Every way adds the position to its own cache and is judged by float64 before it is timed. All are timed in the same
rounds, with a sum over a large array, whose rate is what memory gives to one that only reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

import torch
from rich.table import Table
from torch.nn.functional import scaled_dot_product_attention

import einc
from bench import eight, layer, measure
from bench.carried.paged import GROUPED
from bench.case import DTYPES, CannotError, Sizes, Tensors, room_for
from bench.report import duration
from bench.run import Tell
from bench.shares import shares_of
from einc.driver.timing.judge import judge, ratio

CODED = GROUPED + """
plan codes:
    cache K, V as int8
"""
LATENTS, EXPANDED = "mla_rope", ("k_C", "k_R", "v")  # the layer, and what of it is kept where nothing is absorbed
SLOWER = ("einc-expanded",)  # of our ways the one that others are held against
CAPTION = """× a way: times as fast as it in the same rounds, the median
error: relative RMS against float64, ! over its rule
of reading: bytes of the cache a second, of those that a sum over a large array reads
limit: the longest operation of torch or compiled kernel
~ other processes ran in half of the rounds or more"""
READ = 2**26  # elements of the array that is read: more than caches hold
SUM = "reading"

Call = Callable[[], torch.Tensor]
Maker = Callable[[Any, Tensors, int, Tensors], Any]
"""Makes a cache of a module: what is kept of the past by its name, with room for one position more, and how long the
past is."""


@dataclass(frozen=True)
class Task:
    """A case at one size and one element type: what is kept of S - 1 positions, with room
    for the last, and its inputs."""

    case: Case
    sizes: Sizes
    dtype: str
    kept: Tensors
    given: Tensors

    def place(self) -> str:
        return f"{self.case.name} {self.dtype} B={self.sizes.get('B', 1)} S={self.sizes['S']}"


@dataclass(frozen=True)
class Case:
    """What is kept and given, the ways to do the step, of which the first is the reference, and its exact result."""

    name: str
    make: Callable[[Sizes, torch.dtype, torch.Generator], tuple[Tensors, Tensors]]
    ways: Mapping[str, Callable[[Task], Call]]
    exact: Callable[[Task, torch.dtype], torch.Tensor]
    sizes: Callable[[int, int], Sizes]
    reads: Callable[[Sizes], int]  # elements that a step must read of the cache


@dataclass
class Figures:
    """One way on one task."""

    case: str
    sizes: Sizes
    dtype: str
    rival: str
    status: str = "ok"
    note: str = ""
    seconds: float | None = None
    fastest: float | None = None
    rounds: int = 0
    disturbed: int = 0
    error: float | None = None
    beside: float | None = None               # mean distance from float64 over that of eager torch
    # times as fast as each of the others, the median over rounds
    ratios: dict[str, float] = field(default_factory=dict)
    bandwidth: float | None = None            # bytes a second that a sum reads, in the same rounds
    part: float | None = None                 # of it that the bytes of the cache are read at
    limit: str = ""                           # the operation in which most of the time is spent, and its part

    def shown(self) -> dict[str, Any]:
        short = {name: float(f"{value:.4g}") for name, value in asdict(self).items() if isinstance(value, float)}
        return {**asdict(self), "sizes": dict(self.sizes), **short,
                "ratios": {n: round(x, 3) for n, x in self.ratios.items()}}


# caches


def contiguous(module: Any, kept: Tensors, past: int, given: Tensors) -> Any:
    """The module's own cache; its rows are what is kept, where it lies."""
    cache = module.prefill(**given)[1]  # which says what it keeps
    for name, rows in cache.kept.items():
        rows.store = kept[name]
    cache.length = past
    return cache


def stepped(text: str, maker: Maker = contiguous, backend: str = "torch", plan: str = "serve",
            asked: Sequence[str] = (), **options: Any) -> Callable[[Task], Call]:
    """A way that takes the same step again and again: the cache is as long as before each time. `asked` are sizes that
    no array tells."""
    def way(task: Task) -> Call:
        module = einc.compile(text, backend, plan=plan, **options)
        given: dict[str, Any] = {**task.given, **{name: task.sizes[name] for name in asked}}
        cache = maker(module, task.kept, task.sizes["S"] - 1, given)

        def call() -> torch.Tensor:
            cache.length = task.sizes["S"] - 1
            found: torch.Tensor = module(cache, **given)
            return found

        return call
    return way


# grouped heads


def _grouped(sizes: Sizes, dtype: torch.dtype, random: torch.Generator) -> tuple[Tensors, Tensors]:
    B, H, G, S, D = (sizes[name] for name in "BHGSD")
    room_for(2 * B * G * S * D * dtype.itemsize)
    kept = {name: torch.zeros(B, G, S, D, dtype=dtype) for name in "KV"}
    for x in kept.values():
        for rows in x.flatten(0, 1):
            rows[:-1] = torch.randn(S - 1, D, generator=random)
    heads = {"Q": H, "K": G, "V": G}
    return kept, {name: torch.randn(B, count, 1, D, generator=random).to(dtype) for name, count in heads.items()}


def _coded(sizes: Sizes, dtype: torch.dtype, random: torch.Generator) -> tuple[Tensors, Tensors]:
    """Keys and values whose codes of eight bits are exact, and the codes: multiples of a 32nd, the largest of each
    position 127 of them. All that are kept are as they come from memory, so that each way reads its own.
    """
    kept, given = _grouped(sizes, dtype, random)
    for name in "KV":
        for x in (kept[name], given[name]):
            x.mul_(32).round_().clamp_(-127, 127)[..., 0] = 127
        kept[f"{name}_int8"] = kept[name].to(torch.int8)
        kept[f"{name}_scale"] = torch.full(kept[name].shape[:-1], 1 / 32)
        kept[name] /= 32
        given[name] /= 32
    return kept, given


def library(rows: bool) -> Callable[[Task], Call]:
    """torch's own kernel over a cache; heads that share keys and values as its rows, or as it groups them itself."""
    def way(task: Task) -> Call:
        S, G = task.sizes["S"], task.sizes["G"]
        keys, values = task.kept["K"], task.kept["V"]
        q, k, v = (task.given[name] for name in "QKV")

        def call() -> torch.Tensor:
            keys[:, :, S - 1 : S], values[:, :, S - 1 : S] = k, v
            if not rows:
                return scaled_dot_product_attention(q, keys, values, enable_gqa=True)
            return scaled_dot_product_attention(q.view(q.shape[0], G, -1, q.shape[3]), keys, values).reshape(q.shape)

        return call
    return way


def _whole(task: Task, dtype: torch.dtype) -> torch.Tensor:
    """Head by head, so that no other's keys are held in the wide type."""
    q, k, v = (task.given[name] for name in "QKV")
    out = torch.empty(q.shape, dtype=dtype)
    each = q.shape[1] // k.shape[1]
    for n in range(q.shape[0]):
        for g in range(k.shape[1]):
            keys, values = (torch.cat([task.kept[name][n, g, :-1], x[n, g]]).to(dtype)
                            for name, x in (("K", k), ("V", v)))
            x = q[n, g * each : (g + 1) * each, 0].to(dtype)
            weights = torch.softmax(x @ keys.mT / math.sqrt(x.shape[-1]), -1)
            out[n, g * each : (g + 1) * each, 0] = weights @ values
    return out


# a layer's weights


def by_matrices(task: Task) -> Call:
    """The layer in plain torch."""
    weights = {name: task.given[f"W_{name}"] for name in layer.MATRICES}
    return lambda: layer.step(task, DTYPES[task.dtype], weights)


def layered(text: str, few: bool, asked: Sequence[str]) -> Callable[[Task], Call]:
    """The layer by compiled kernels, with the weights that its text has."""
    way = stepped(text, backend="cpp", asked=asked)
    return lambda task: way(replace(task, given=layer.given_of(task, few)))


# latents


def _latents(sizes: Sizes, dtype: torch.dtype, random: torch.Generator) -> tuple[Tensors, Tensors]:
    """A layer's weights and its input; of the past the latents, and keys and values made of them."""
    S, H, F, R, Z, D, K = (sizes[name] for name in ("S", "H", "d_model", "r", "r_Q", "d_h", "d_k"))
    room_for(3 * H * S * D * dtype.itemsize)
    shapes = {"W_DQ": (F, Z), "W_UQ": (H, Z, D), "W_QR": (H, Z, K), "W_D": (F, R), "W_UK": (H, R, D), "W_UV": (H, R, D),
              "W_KR": (F, K), "W_O": (H, D, F)}
    given = {name: (torch.randn(shape, generator=random) * shape[-2] ** -0.5).to(dtype)
             for name, shape in shapes.items()}
    given["X"] = torch.randn(1, F, generator=random).to(dtype)
    kept = {name: torch.randn(S, width, generator=random).to(dtype) for name, width in (("c", R), ("k_R", K))}
    for name, weight in (("k_C", "W_UK"), ("v", "W_UV")):
        kept[name] = torch.matmul(kept["c"], given[weight]).transpose(0, 1)  # head by head in memory
    return kept, given


def by_hand(task: Task) -> Call:
    """The layer in plain torch, with whole keys and values of all heads in its cache."""
    S, K, D = (task.sizes[name] for name in ("S", "d_k", "d_h"))
    w, past = task.given, S - 1
    keys = torch.cat([task.kept["k_C"], task.kept["k_R"][:, None].expand(-1, task.sizes["H"], -1)],
                     2).transpose(0, 1).contiguous()
    values = task.kept["v"].transpose(0, 1)
    heads = {name: w[name].permute(1, 0, 2).flatten(1).contiguous() for name in ("W_UQ", "W_QR", "W_UK", "W_UV")}

    def each(x: torch.Tensor, name: str) -> torch.Tensor:
        return (x @ heads[name]).view(task.sizes["H"], 1, -1)

    def call() -> torch.Tensor:
        z, c = w["X"] @ w["W_DQ"], w["X"] @ w["W_D"]
        q = torch.cat([each(z, "W_UQ"), _turned(each(z, "W_QR"), past, K)], 2)
        keys[:, past:, :D], values[:, past:] = each(c, "W_UK"), each(c, "W_UV")
        keys[:, past:, D:] = _turned(w["X"] @ w["W_KR"], past, K)
        # torch's kernel takes keys and values of one width
        weights = torch.softmax((q @ keys.mT).mul_((D + K) ** -0.5), -1)
        y = weights @ values
        return y.view(1, -1) @ w["W_O"].flatten(0, 1)

    return call


def _turned(y: torch.Tensor, position: int, width: int) -> torch.Tensor:
    angle = position * 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    cos, sin, a, b = angle.cos().to(y.dtype), angle.sin().to(y.dtype), y[..., 0::2], y[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def _layer(task: Task, dtype: torch.dtype) -> torch.Tensor:
    """The layer as it is written, of its last position."""
    x = {name: tensor.to(dtype) for name, tensor in task.given.items()}
    S, K = task.sizes["S"], task.sizes["d_k"]
    z, c = x["X"] @ x["W_DQ"], torch.cat([task.kept["c"][:-1].to(dtype), x["X"] @ x["W_D"]])
    shared = torch.cat([task.kept["k_R"][:-1].to(dtype), _turned(x["X"] @ x["W_KR"], S - 1, K)])
    out = torch.zeros_like(x["X"])
    for h in range(task.sizes["H"]):
        logits = (z @ x["W_UQ"][h]) @ (c @ x["W_UK"][h]).mT + _turned(z @ x["W_QR"][h], S - 1, K) @ shared.mT
        weights = torch.softmax(logits / math.sqrt(task.sizes["d_h"] + K), -1)
        out += weights @ (c @ x["W_UV"][h]) @ x["W_O"][h]
    return out


CASES = {case.name: case for case in (
    Case("grouped", _grouped, {
        "library": library(rows=False), "library-rows": library(rows=True), "einc": stepped(GROUPED),
        "einc-cpp": stepped(GROUPED, backend="cpp"), "einc-own": stepped(GROUPED, own=True),
        "einc-narrow": stepped(GROUPED, own=True, narrow=True)},
        _whole, lambda B, S: {"B": B, "H": 32, "G": 8, "S": S, "D": 128},
        lambda sizes: 2 * sizes["B"] * sizes["G"] * sizes["S"] * sizes["D"]),
    Case("codes", _coded, {
        "library": library(rows=False), "einc-cpp": stepped(GROUPED, backend="cpp"),
        "einc-int8": stepped(CODED, backend="cpp", plan="serve,codes")},
        _whole, lambda B, S: {"B": B, "H": 32, "G": 8, "S": S, "D": 128},
        lambda sizes: 2 * sizes["B"] * sizes["G"] * sizes["S"] * sizes["D"]),
    Case("weights", layer.make, {
        "by-hand": by_matrices, "einc-cpp": layered(layer.plain(), False, "CNP"),
        "einc-int4": layered(layer.NARROW, True, "P")},
        layer.exact, lambda B, S: {"B": B, "S": S, "H": 32, "G": 8, "d_k": 128, "N": 128, "P": 32, "C": 448},
        layer.numbers),
    Case("sage", eight.make, {"library": eight.library, "einc-cpp": eight.plain, "einc-int8": eight.coded}, eight.exact,
         lambda B, S: {"S": S, "N": S // 128, "P": 128, "H": 8, "d_k": 64},
         lambda sizes: 2 * sizes["S"] * sizes["H"] * sizes["d_k"]),
    Case("latents", _latents, {
        "by-hand": by_hand, "einc-expanded": stepped(LATENTS, keep=EXPANDED), "einc": stepped(LATENTS),
        "einc-cpp": stepped(LATENTS, backend="cpp"), "einc-narrow": stepped(LATENTS, narrow=True)},
        _layer, lambda B, S: {"S": S, "H": 32, "d_model": 2048, "r": 512, "r_Q": 768, "d_h": 128, "d_k": 64},
        lambda sizes: sizes["S"] * (sizes["r"] + sizes["d_k"])),
)}


# what is right, and how fast it is


@dataclass(frozen=True)
class Plan:
    """What to run; of a case without batches the batch of one alone."""

    cases: Sequence[Case]
    ways: Sequence[str] = ()
    lengths: Sequence[int] = (1024, 4096, 16384, 65536)
    batches: Sequence[int] = (1, 8)
    dtypes: Sequence[str] = ("float32", "bfloat16")
    rounds: int = 9
    patience: float = 0.0

    def steps(self) -> list[tuple[Case, Sizes, str]]:
        sizes = [(case, case.sizes(B, S)) for case in self.cases for B in self.batches for S in self.lengths]
        once = {(case.name, tuple(each.items())): (case, each) for case, each in sizes}
        return [(case, each, dtype) for case, each in once.values() for dtype in self.dtypes]


def run(plan: Plan, tell: Tell) -> Iterator[list[Figures]]:
    for case, sizes, dtype in plan.steps():
        wanted = {name: way for name, way in case.ways.items() if not plan.ways or name in plan.ways}
        try:
            task = Task(case, sizes, dtype, *case.make(sizes, DTYPES[dtype], torch.Generator().manual_seed(0)))
        except CannotError as why:
            yield [Figures(case.name, sizes, dtype, name, "cannot", str(why)) for name in wanted]
            continue
        with torch.no_grad():
            yield timed(task, wanted, plan.rounds, plan.patience, tell)


def timed(task: Task, ways: Mapping[str, Callable[[Task], Call]], rounds: int, patience: float = 0.0,
          tell: Tell = lambda text: None) -> list[Figures]:
    """Every way of one task, with the sum that says what the memory gives."""
    tell(f"{task.place()}: the exact result")
    want, eager = task.case.exact(task, torch.float64), task.case.exact(task, DTYPES[task.dtype])
    found, calls = dict[str, Figures](), dict[str, Call]()
    for name, way in ways.items():
        tell(f"{task.place()}: {name}")
        found[name] = one = Figures(task.case.name, task.sizes, task.dtype, name)
        call = way(task)
        verdict = judge(call(), want, eager, task.dtype)
        one.status, one.note, one.error, one.beside = verdict.status, verdict.note, verdict.error, verdict.beside
        if verdict.status != "wrong":
            calls[name], one.limit = call, limit(call)
    large = torch.ones(READ)
    series = measure.interleaved({**calls, SUM: large.sum}, rounds, patience,
                                 lambda name: tell(f"{task.place()}: timing {name}"))
    rate = large.nbytes / min(series.times[SUM])
    count = task.case.reads(task.sizes) * DTYPES[task.dtype].itemsize
    for name in calls:
        one, taken = found[name], series.times[name]
        one.seconds, one.fastest, one.rounds, one.disturbed = median(taken), min(taken), len(taken), series.disturbed
        one.ratios = {other: ratio(series.times[other], taken) for other in calls if other != name}
        one.bandwidth, one.part = rate, count / min(taken) / rate
    return list(found.values())


def limit(call: Call) -> str:
    """The operation of torch or the compiled kernel that takes most of the time by itself, and its part of all."""
    most = shares_of(call)[0]
    return f"{most.operation} {most.part:.0%}"


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each way: its time, how it compares with the ways of others, and what holds it up."""
    others = list(dict.fromkeys(name for row in rows for name in row["ratios"]
                                if not name.startswith("einc") or name in SLOWER))
    out = Table(box=None, pad_edge=False, caption=CAPTION, caption_justify="left")
    for heading in ("case", "B", "S", "type", "way", "time", *(f"× {name}" for name in others), "of reading", "error",
                    "limit"):
        out.add_column(heading, justify="left" if heading in ("case", "type", "way", "limit") else "right",
                       no_wrap=True)
    place = None
    for row in rows:
        mine = (row["case"], str(row["sizes"].get("B", 1)), str(row["sizes"]["S"]), row["dtype"])
        shown, place = mine if mine != place else ("",) * 4, mine
        if row["seconds"] is None:
            out.add_row(*shown, row["rival"], f"[dim]{row['status']}: {row['note']}[/dim]")
            continue
        doubt = "~" if 2 * row["disturbed"] >= row["rounds"] else ""
        ratios = (f"{row['ratios'][name]:.2f}" if name in row["ratios"] else "" for name in others)
        far = "" if row["status"] == "ok" else "!"
        out.add_row(*shown, row["rival"], doubt + duration(row["seconds"]), *ratios, f"{row['part']:.0%}",
                    f"{far}{row['error']:.0e}", row["limit"], style="bold" if row["rival"] == "einc" else None)
    return out
