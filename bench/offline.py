"""`python -m bench.offline`: what the Triton kernels of the specs need on each target, compiled without a device."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import torch
import triton
from rich.table import Table
from triton import knobs

import einc
from bench.cli import HELP, OUT, progress, wide_console
from bench.record import Row, Run, write
from einc.backends.triton.offline import TARGETS, Binary, Gpu, Launch, built, launches

ROOT = Path(__file__).parent.parent
# What stands beside a paper, and what only claims, is no module.
SPECS = {path.stem: path for path in sorted((ROOT / "specs").rglob("*.ein"))
         if not re.search(r"^(section|claim) ", path.read_text("utf-8"), re.M)}
SIZES = {"T": 4096, "S": 4096, "U": 4096, "N": 4096, "V": 4096, "W": 512, "P": 512, "H": 16, "G": 4, "B": 2,
         "d_model": 1024, "r": 512, "T_sum": 4096, "R": 2, "C": 1024, "M": 128, "E": 16, "L": 512, "n": 4, "m": 4,
         "w": 32,
         "d_ff": 2816, "d_c": 64, "d_h": 64, "d_s": 2816, "d_x": 64, "r_Q": 384, "H_I": 64, "d_I": 128}
WIDTHS = frozenset({"d", "d_k", "d_v", "D"})


def sizes(names: frozenset[str], width: int) -> dict[str, int]:
    """A size for each name; the widths of heads are what varies."""
    return {name: width if name in WIDTHS else SIZES.get(name, 16) for name in names}


KINDS = {"int64": torch.int64, "wide": torch.float32, "float64": torch.float64}  # of buffers; others are in bfloat16


def starts(name: str, width: int, target: Gpu, what: str = "", page: int = 0) -> list[Launch]:
    """What a call of the spec, of its gradient (`grad`), or of a step over a cache (`serve`) starts in bfloat16."""
    module = einc.compile(SPECS[name], backend="triton", own=True, grad=what == "grad", plan="serve" if what == "serve"
                          else "")
    if what == "serve":
        return step(module, width, target, page)
    plan, entry = (module.plan.backward, "_backward") if what else (module.plan, module.plan.name)
    asked = sizes(plan.sizes, width)
    # every gradient is asked for
    return launches(module.source, entry, given(plan, asked), {**asked, "wanted": -1}, target)


def step(module: Any, width: int, target: Gpu, page: int) -> list[Launch]:
    """One new position after as many as the size says, the pass over them shared by 8
    programs; in pages, or in a row."""
    plan = module.plan
    asked = sizes(plan.sizes, width)
    before = given(plan, {**asked, plan.past: 0})
    new = given(plan, {**asked, plan.past: asked[plan.new], plan.new: 1})
    return launches(module.source, "step", new, asked, target, parts=8, first=before, page=page)


def given(plan: Any, asked: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """What the caller gives, at these sizes and without data."""
    return {
        tensor.key: torch.empty([int(s.set.extent.at(asked)) for s in tensor.slots], device="meta",
                                dtype=KINDS.get(plan.buffers[tensor.key].element.storage, torch.bfloat16))
        for tensor in plan.given
    }


def wanted(names: tuple[str, ...], widths: tuple[int, ...], target: Gpu, what: str,
           page: int) -> dict[str, tuple[str, int, Launch]]:
    """The kernels of the specs, each text and tile once, under the first spec and width that have it;
    those that have no gradient are left out of gradients, as are those of which a tile would hold too
    much, and of steps those that do not grow."""
    out: dict[str, tuple[str, int, Launch]] = {}
    for name in names:
        for width in widths:
            try:
                found = starts(name, width, target, what, page)
            except (einc.EincError, ValueError, AttributeError) as error:
                if not what:
                    raise
                click.echo(f"{name}: {str(error).strip().splitlines()[0]}", err=True)
                continue
            for launch in found:
                out.setdefault(launch.key,
                               (f"{name}/{what}{page or ''}{'/' * bool(what)}{launch.kernel}", width, launch))
    return out


def figures(launch: Launch, target: Gpu, found: Binary | Exception) -> dict[str, Any]:
    """What a kernel needs, or why there is none; whether it can be started."""
    out: dict[str, Any] = {"tile": launch.tile, "warps": launch.named["num_warps"],
                           "stages": launch.named["num_stages"]}
    if isinstance(found, Exception):
        lines = str(found).strip().splitlines()
        return {**out, "status": "failed", "note": f"{type(found).__name__}: {lines[-1][:200] if lines else ''}"}
    counts = {name: n for name, n in found.counts.items() if n}
    fits = found.shared <= target.shared
    return {**out, "status": "ok" if fits else "cannot", "note": "" if fits
            else f"has {target.shared} bytes of shared memory",
            "registers": found.registers, "spills": found.spills, "shared": found.shared, "instructions": counts}


def measured(names: tuple[str, ...], widths: tuple[int, ...], target: Gpu, workers: int,
             what: str = "", page: int = 0) -> Iterator[tuple[int, Row]]:
    """A row for each kernel, as soon as it is there; with each, how many there will be."""
    found = wanted(names, widths, target, what, page)
    done = built([launch for *_, launch in found.values()], target, workers)
    for (case, width, _), (launch, made) in zip(found.values(), done, strict=True):
        row = {"case": case, "sizes": {"d": width}, "dtype": "bfloat16", "rival": target.name,
               "triton": triton.__version__}
        yield len(found), {**row, **figures(launch, target, made)}


def told(counts: Mapping[str, int]) -> str:
    return " ".join(f"{name} {n}" for name, n in counts.items())


def table(rows: list[Row]) -> Table:
    out = Table(box=None, pad_edge=False)
    for heading in ("kernel", "d", "target", "tile", "warps", "stages", "registers", "spills", "shared",
                    "instructions"):
        out.add_column(heading, justify="left" if heading in ("kernel", "target", "tile", "instructions") else "right")
    for row in rows:
        numbers = [str(row.get(name, "")) for name in ("warps", "stages", "registers", "spills", "shared")]
        tile = " ".join(f"{name}{n}" for name, n in row["tile"].items())
        said = (told(row.get("instructions", {})) if row["status"] == "ok"
                else f"{row['status'].upper()}: it {row['note']}")
        out.add_row(row["case"], str(row["sizes"]["d"]), row["rival"], tile, *numbers, said,
                    style="bold" if row["status"] != "ok" or row["spills"] else None)
    return out


def cold(name: str, width: int, target: Gpu) -> tuple[int, float]:
    """Kernels of a spec, and the seconds from its text to their machine code, with nothing kept from before."""
    usual = knobs.cache.dir
    with tempfile.TemporaryDirectory() as folder:
        knobs.cache.dir = folder
        try:
            begin = time.perf_counter()
            found = {launch.key: launch for launch in starts(name, width, target)}
            made = list(built(list(found.values()), target))
            return len(made), time.perf_counter() - begin
        finally:
            knobs.cache.dir = usual


@click.command(context_settings=HELP)
@click.option("--cold", "timed", is_flag=True,
              help="Instead, the seconds from each spec to machine code, nothing kept.")
@click.option("--grad", "what", flag_value="grad", help="The kernels of gradients.")
@click.option("--serve", "what", flag_value="serve", help="Those of one new position over a cache of the others.")
@click.option("--page", type=click.IntRange(min=0), default=0,
              help="With --serve: the cache is in pages of so many positions.")
@click.option("--spec", "names", multiple=True, type=click.Choice(list(SPECS)), help="Which specs; all without it.")
@click.option("--target", "targets", multiple=True, type=click.Choice(list(TARGETS)),
              help="Which targets; all without it.")
@click.option("--width", "widths", multiple=True, type=click.IntRange(min=1), default=(64, 128), show_default=True,
              help="Widths of heads.")
@click.option("--workers", type=click.IntRange(min=1), default=os.cpu_count() or 1,
              help="Kernels that are compiled at a time.")
@OUT
def main(*, timed: bool, what: str | None, page: int, names: tuple[str, ...], targets: tuple[str, ...],
         widths: tuple[int, ...],
         workers: int, out: Path) -> None:
    """Compile the kernels of the specs in bfloat16 and print what they need: registers of a thread,
    spilled ones, bytes of shared memory, and instructions that tell how products and copies are done.
    Bold lines have spills or cannot be started.

    Figures replace those of the same kernel, width and target in OUT/offline.jsonl.
    """
    console, here = wide_console(), Run()
    rows: list[Row] = []
    for name in names or tuple(SPECS) if timed else ():
        for target in targets or ("sm_90",):
            kernels, seconds = cold(name, widths[0], TARGETS[target])
            console.print(f"{name:24} {target:8} {kernels:2} kernels  {seconds:6.2f} s")
    if timed:
        return
    for target in targets or tuple(TARGETS):
        with progress(console, None) as (tell, _):
            found = []
            for count, row in measured(names or tuple(SPECS), widths, TARGETS[target], workers, what or "", page):
                found.append(here.row("offline", **row))
                tell(f"{target}: {len(found)} of {count} kernels")
        write(out / "offline.jsonl", found)
        rows += found
    console.print(table(rows))
    console.print(f"wrote {out / 'offline.jsonl'}")


if __name__ == "__main__":
    main(prog_name="python -m bench.offline")
