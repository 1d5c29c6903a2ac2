"""What a layer of a transformer sends on a mesh: einc's files beside torch's own plans, counted as they run.

The group is torch's fake one, in one process: nothing is sent, every collective returns at once, and its kind and its
size are noted. Nothing is timed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from cProfile import Profile
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from pstats import Stats
from statistics import median
from time import perf_counter
from typing import Any

import click
import torch
import torch.distributed as dist
from rich.table import Table
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

import einc
from bench.cli import HELP, OUT, wide_console
from bench.record import Row, Run, write

RANKS = 8
SIZES = {"B": 8, "T": 64, "H": 8, "d_k": 8, "d_model": 64, "d_ff": 256}
SMALL = {"B": 1, "T": 1, "H": 8, "d_k": 1, "d_model": 8, "d_ff": 8}  # of which a layer has little to compute
PLANS = {"heads": "shard h, e over p", "heads, else positions": "shard h, e, else t over p",
         "texts, else weights": "shard n, else f over p"}
# Of each operation of torch its kind, and which share of the larger of its sides a rank sends, in (W - 1) / W.
OPERATIONS = {"all_reduce": ("all_reduce", 2), "allreduce_": ("all_reduce", 2),
              "all_gather_into_tensor": ("all_gather", 1), "_allgather_base_": ("all_gather", 1),
              "reduce_scatter_tensor": ("reduce_scatter", 1), "_reduce_scatter_base_": ("reduce_scatter", 1),
              "all_to_all_single": ("all_to_all", 1), "alltoall_base_": ("all_to_all", 1)}


FOLDS = ("sum", "max", "min", "product", "avg")  # as torch calls them: texts that name no group


@dataclass
class Sent:
    """What is sent: how many collectives there are of each kind, and the bytes that a rank sends in a ring."""

    counts: Counter[str] = field(default_factory=Counter)
    bytes: float = 0.0


class Counting(TorchDispatchMode):
    """Notes every collective that runs inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = Sent()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls an operation, and notes it if it is a collective; DTensor comes back with what it does."""
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented
        made = func(*args, **(kwargs or {}))
        space, _, name = func._schema.name.partition("::")
        if space in ("_c10d_functional", "c10d") and name in OPERATIONS:
            kind, times = OPERATIONS[name]
            tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs, made)) if isinstance(x, Tensor)]
            largest = max(x.numel() * x.element_size() for x in tensors)
            ranks = next((_resolve_process_group(x).size() for x in args if isinstance(x, str) and x not in FOLDS),
                         RANKS)
            self.sent.counts[kind] += 1
            self.sent.bytes += times * largest * (ranks - 1) / ranks
        return made


@contextmanager
def fake(**axes: int) -> Iterator[DeviceMesh]:
    """A mesh of ranks of which this process is the first, and the others are not there: one axis, p, unless told."""
    axes = axes or {"p": RANKS}
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=prod(axes.values()))
    try:
        yield init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    finally:
        dist.destroy_process_group()


class Attention(nn.Module):
    """Causal attention of the layer, of as many heads as its weights have."""

    def __init__(self) -> None:
        super().__init__()
        width = SIZES["H"] * SIZES["d_k"]
        self.q, self.k, self.v = (nn.Linear(SIZES["d_model"], width) for _ in range(3))
        self.o = nn.Linear(width, SIZES["d_model"])

    def forward(self, x: Tensor) -> Tensor:
        """The sum over heads."""
        q, k, v = (one(x).unflatten(-1, (-1, SIZES["d_k"])).transpose(1, 2) for one in (self.q, self.k, self.v))
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(made.transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """The layer of a GPT-2 in torch's own modules."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = (nn.LayerNorm(SIZES["d_model"]) for _ in range(2))
        self.attention = Attention()
        self.hidden = nn.Sequential(nn.Linear(SIZES["d_model"], SIZES["d_ff"]), nn.GELU(),
                                    nn.Linear(SIZES["d_ff"], SIZES["d_model"]))

    def forward(self, x: Tensor) -> Tensor:
        """What the layer adds to its input, and the input."""
        x = x + self.attention(self.before(x))
        return x + self.hidden(self.between(x))  # type: ignore[no-any-return]


def by_module(plan: str, mesh: DeviceMesh) -> tuple[Callable[..., Tensor], Tensor]:
    """The layer as torch puts it on a mesh by `parallelize_module` or FSDP2, and its input."""
    layer = Layer()
    shape = [SIZES["B"], SIZES["T"], SIZES["d_model"]]
    if plan == "texts, else weights":
        shape[0] //= RANKS
        return fully_shard(layer, mesh=mesh), torch.randn(shape, requires_grad=True)
    cut = {f"attention.{x}": ColwiseParallel() for x in "qkv"} | {"hidden.0": ColwiseParallel()}
    if plan == "heads":
        whole = {**cut, "attention.o": RowwiseParallel(), "hidden.2": RowwiseParallel()}
        return parallelize_module(layer, mesh, whole), torch.randn(shape, requires_grad=True)
    gathered = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    parts = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
    whole = {**cut, "before": SequenceParallel(), "between": SequenceParallel(), "attention": gathered,
             "hidden": gathered, "attention.o": parts, "hidden.2": parts}
    x = distribute_tensor(torch.randn(shape), mesh, [Shard(1)]).requires_grad_()
    return parallelize_module(layer, mesh, whole), x


def einc_layer(plan: str, mesh: DeviceMesh, sizes: Mapping[str, int] = SIZES) -> tuple[
        Callable[..., Tensor], dict[str, DTensor], dict[str, DTensor]]:
    """The layer as einc's file for the mesh has it, its input and its weights by name."""
    made = einc.compile(f'use "gpt2_block"\nplan it:\n    {PLANS[plan]}\n', "torch", plan="it", mesh={"p": RANKS},
                        grad=True, own=True)
    tables, given = made.function.__globals__["PLACEMENTS"], (dict[str, DTensor](), dict[str, DTensor]())
    for tensor in made.program.inputs():
        shape = [int(slot.set.extent.at(sizes)) for slot in tensor.slots]
        given[tensor.role == "weight"][tensor.key] = distribute_tensor(
            torch.randn(shape), mesh, tables[tensor.key]).requires_grad_()
    return made, *given


def by_einc(plan: str, mesh: DeviceMesh) -> tuple[Callable[..., Tensor], Tensor]:
    """The same as a function of the input."""
    made, inputs, weights = einc_layer(plan, mesh)
    ((key, x),) = inputs.items()
    return lambda y: made(**{key: y}, **weights), x


WAYS: Mapping[str, Callable[[str, DeviceMesh], tuple[Callable[..., Tensor], Tensor]]] = {
    "einc": by_einc, "torch": by_module}


def counted(way: str, plan: str) -> tuple[Sent, Sent]:
    """What forward sends, and what the gradient does."""
    with fake() as mesh:
        layer, x = WAYS[way](plan, mesh)
        with Counting() as forward:
            made = layer(x)
            made = made.wait() if hasattr(made, "wait") else made
        with Counting() as backward:
            made.backward(torch.ones_like(made))
    return forward.sent, backward.sent


def figures(plans: tuple[str, ...]) -> list[Row]:
    """A row for each plan and way."""
    out = list[Row]()
    for plan in plans:
        for way in WAYS:
            halves = counted(way, plan)
            out.append({"case": plan, "rival": way, "sizes": SIZES, "ranks": RANKS,
                        "forward": dict(sorted(halves[0].counts.items())), "forward_bytes": halves[0].bytes,
                        "gradient": dict(sorted(halves[1].counts.items())), "gradient_bytes": halves[1].bytes})
    return out


def boundary(measure: Callable[[Callable[[], object]], float], rounds: int, grad: bool = False) -> float:
    """How many times as much einc's file does to take DTensors in place of the tensors of a rank, and to return one,
    as is done by hand: `to_local` of each, and `from_local` of the result. Of medians over rounds; with `grad` while
    a gradient is recorded.
    """
    with fake() as mesh, torch.set_grad_enabled(grad):
        layer, x, given = einc_layer("heads", mesh, SMALL)
        whole, (key,) = {**x, **given}, x
        mine = {name: one.to_local().detach().requires_grad_() for name, one in whole.items()}
        placed = x[key].placements

        def by_hand() -> DTensor:
            for one in whole.values():
                one.to_local()
            return DTensor.from_local(mine[key], mesh, placed, run_check=False)

        calls = (lambda: layer(**whole), lambda: layer(**mine), by_hand)
        found: list[list[float]] = [[measure(call) for call in calls] for _ in range(rounds + 1)]
    spread, plain, hand = (median(column) for column in zip(*found[1:], strict=True))
    return (spread - plain) / hand


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begun = perf_counter()
    call()
    return perf_counter() - begun


def python_calls(call: Callable[[], object]) -> float:
    """How many functions a call calls: of the same machine it is the same each time, however busy that is."""
    with Profile() as profile:
        call()
    return float(Stats(profile).total_calls)  # type: ignore[attr-defined]


@click.command("collectives", context_settings=HELP)
@click.option("--plan", "plans", multiple=True, type=click.Choice(list(PLANS)), help="Which plans; all without it.")
@click.option("--boundary", "rounds", type=click.IntRange(min=1), metavar="N",
              help="Time in N rounds, and count, what it costs to take and return DTensors, beside doing so by hand, "
                   "instead.")
@OUT
def command(plans: tuple[str, ...], rounds: int | None, out: Path) -> None:
    """Count what a layer of a GPT-2 sends on eight ranks, forward and for the gradient, beside torch's own plans.

    These are `parallelize_module`, with and without `SequenceParallel`, and FSDP2. Bytes are those that a rank sends
    in a ring, in float32. Counts are the same on every machine; they replace those in OUT/collectives.jsonl.
    """
    console, here = wide_console(), Run()
    if rounds is not None:
        for said, measure, times in (("as long", seconds, rounds), ("as many calls of functions", python_calls, 1)):
            found = [f"{boundary(measure, times, grad):.2f}" for grad in (False, True)]
            console.print(f"the boundary takes {found[0]} times {said} as to_local and from_local by hand, "
                          f"and {found[1]} times where a gradient is recorded")
        return
    rows = [here.row("collectives", **row) for row in figures(plans or tuple(PLANS))]
    table = Table(box=None, pad_edge=False)
    for name in ("plan", "way", "forward", "KB", "gradient", "KB"):
        table.add_column(name, justify="right" if name == "KB" else "left")
    for row in rows:
        cells = [said for half in ("forward", "gradient") for said in (
            ", ".join(f"{n} {kind}" for kind, n in row[half].items()) or "nothing",
            f"{row[f'{half}_bytes'] / 1000:,.1f}")]
        table.add_row(row["case"], row["rival"], *cells)
    console.print(table)
    write(out / "collectives.jsonl", rows)
