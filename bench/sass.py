"""The loops of compiled kernels: how many instructions of NVIDIA's machine code a warp issues for a tile of scores.

Kernels are compiled as a call would compile them, without a device; Triton keeps machine code by the hash of its text,
so only what changed is compiled again. The tile is the largest that fits, whose loop has least beside the scores: the
text is counted, and not the tile that a device is fastest with. A loop is what a backward branch closes.
Of its ways to the branch the shortest counts: it is that of a tile which no mask cuts.
"""

from __future__ import annotations

import ast
import heapq
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import triton
from rich.table import Table

import einc
from bench.carried.cases import FULL, GQA_DECODE, LATENTS
from bench.cases import ALIBI, GQA, WINDOW
from bench.cli import HELP, OUT, progress, wide_console
from bench.offline import given
from bench.record import Row, Run, write
from einc.backends.triton.offline import TARGETS, Binary, Gpu, Launch, built, launches, scores

SIZES = {"B": 4, "H": 16, "T": 8192, "S": 8192, "W": 1024}
KINDS: Mapping[str, str] = {  # a kind of instruction -> the names that begin so
    "product": r"[HQI]GMMA|HMMA|IMMA|QMMA|UTC\w*MMA", "exp2": r"MUFU\.EX2", "special": "MUFU", "fma": "FFMA",
    "mul": "FMUL", "add": "FADD", "max": "FMNMX", "half": "F2FP",
    "float64": r"D(ADD|MUL|FMA|SETP|MNMX)|(F2F|I2F|F2I|MUFU)\..*64",
    "select": "FSEL|SEL", "compare": "ISETP|FSETP", "shuffle": "SHFL", "shared": "LDS|STS|MOVM",
    "barrier": "BAR|SYNCS|WARPGROUP|WARPSYNC", "spill": "LDL|STL", "load": "LDGSTS|UTMALDG|LDG(?!DEP)",
}  # fmt: skip
ORDER = ("float64", *(kind for kind in KINDS if kind != "float64"))  # F2F of float64 before what is named F2F, too


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel of a spec: `spec` is its name or text; `sizes` those that differ from the usual ones; `what` is `grad`
    for the kernels of the gradient; `parts` programs share a pass."""

    spec: str
    sizes: Mapping[str, int]
    what: str = ""
    parts: int = 1


CASES: Mapping[str, Case] = {
    "causal": Case("sdpa", {}),
    "gqa": Case(GQA, {"H": 32, "G": 4}),
    "full": Case(FULL, {}),
    "alibi": Case(ALIBI, {}),
    "softcap": Case("gallery/softcap", {}),
    "window": Case(WINDOW, {}),
    "sinks": Case("gallery/sinks_window", {}),
    "documents": Case("gallery/documents", {}),
    "gradient": Case("sdpa", {}, "grad"),
    "decode": Case(GQA_DECODE, {"B": 16, "H": 64, "G": 8, "T": 1, "S": 16384}, parts=2),
    "latents": Case(LATENTS, {"B": 64, "H": 128, "T": 1, "S": 16384, "r": 512}),
}


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions by kind on the shortest way through a loop; `kinds` has only those that are there, and `all`."""

    kinds: Mapping[str, int]

    @property
    def all(self) -> int:
        return self.kinds["all"]


@dataclass(frozen=True)
class Read:
    """A compiled kernel of a case and the loops of its machine code that multiply matrices, the leanest first;
    `scores` are the elements of a tile of rows by the passed axis."""

    launch: Launch
    binary: Binary
    scores: int

    @cached_property
    def loops(self) -> list[Loop]:
        return sorted(loops(self.binary.disassembled), key=lambda loop: loop.all)

    @property
    def rate(self) -> float:
        """Instructions of a warp for 1,000 scores in the leanest loop, that of whole tiles."""
        return float(self.loops[0].all * self.binary.warps * 1000 / self.scores)


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    target: str  # the label that it may branch to
    goes_on: bool  # whether what stands after it may follow


def loops(text: str) -> list[Loop]:
    """The innermost loops with a product of matrices, from the disassembled text of one kernel."""
    lines, labels = _lines(text)
    heads: dict[int, set[int]] = {}
    for n, line in enumerate(lines):
        head = labels.get(line.target, n)
        if head < n:
            heads.setdefault(head, set()).add(n)
    found = {}
    for head, tails in heads.items():
        way = _shortest(lines, labels, head, tails)
        kinds = _kinds([lines[n].name for n in way])
        if kinds.get("product"):
            found[head] = (max(tails), kinds)
    return [Loop(kinds) for head, (tail, kinds) in found.items()
            if not any(head < other <= tail for other in found)]


def _lines(text: str) -> tuple[list[_Line], dict[str, int]]:
    """The instructions, and where each label stands among them."""
    lines: list[_Line] = []
    labels: dict[str, int] = {}
    for row in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", row):
            labels[label[1]] = len(lines)
            continue
        made = re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:\{\s*)?(@\S+\s+)?([A-Z][\w.]*)(.*?);", row)
        if made is None:
            continue
        name, rest = made[2], made[3]
        jumps = name.split(".")[0] in ("BRA", "EXIT", "RET")
        target = re.search(r"`\((\.L_x_\d+)\)", rest) if name.startswith("BRA") else None
        asked = bool(made[1]) or re.match(r"\s*!?U?P\d", rest) is not None
        lines.append(_Line(name, target[1] if target else "", asked or not jumps))
    return lines, labels


def _shortest(lines: list[_Line], labels: Mapping[str, int], head: int, tails: set[int]) -> list[int]:
    """The fewest instructions from the head of a loop to a branch back to it."""
    waiting: list[tuple[int, int]] = [(1, head)]
    before: dict[int, int] = {head: -1}
    while waiting:
        many, n = heapq.heappop(waiting)
        if n in tails:
            way = [n]
            while before[way[-1]] >= 0:
                way.append(before[way[-1]])
            return way[::-1]
        line = lines[n]
        after = [labels[line.target]] if line.target in labels else []
        after += [n + 1] if line.goes_on and n + 1 < len(lines) else []
        for other in after:
            if other not in before:
                before[other] = n
                heapq.heappush(waiting, (many + 1, other))
    return []


def _kinds(names: list[str]) -> dict[str, int]:
    found = Counter(next((kind for kind in ORDER if re.match(KINDS[kind], name)), "other") for name in names)
    return {**{kind: found[kind] for kind in (*KINDS, "other") if found[kind]}, "all": len(names)}


def largest_first(source: str) -> str:
    """An emitted file that tries the tiles of products from the largest on."""
    begin = source.find("_PRODUCTS = (")
    if begin < 0:
        return source
    end = source.index("\n)\n", begin) + 2
    tiles = ast.literal_eval(source[begin:end].partition("=")[2].strip())
    ordered = sorted(tiles, key=lambda tile: -tile[0] * tile[1])
    return f"{source[:begin]}_PRODUCTS = {tuple(ordered)}{source[end:]}"


def starts(case: Case, width: int, target: Gpu) -> Iterator[tuple[Launch, int]]:
    """The kernels with products of matrices that a call of the case starts, and the scores of a tile of each."""
    module: Any = einc.compile(case.spec, backend="triton", own=True, grad=case.what == "grad")
    plan, entry = (module.plan.backward, "_backward") if case.what else (module.plan, module.plan.name)
    sizes = {**SIZES, "d_k": width, **case.sizes}
    asked = {**sizes, "wanted": -1} if case.what else sizes
    for launch in launches(largest_first(module.source), entry, given(plan, sizes), asked, target, case.parts):
        if "tl.dot(" in launch.function.src and (count := scores(plan, launch)):
            yield launch, count


def read(case: Case, width: int, target: Gpu = TARGETS["sm_90"]) -> list[Read]:
    """The compiled kernels of a case. Raises what the compiler raises."""
    found = list(starts(case, width, target))
    out = []
    for (launch, made), (_, count) in zip(built([launch for launch, _ in found], target), found, strict=True):
        if isinstance(made, Exception):
            raise made
        out.append(Read(launch, made, count))
    return out


def figures(name: str, width: int, target: Gpu) -> Iterator[Row]:
    """A row for each kernel of a case."""
    for one in read(CASES[name], width, target):
        binary = one.binary
        yield {"case": f"{name}/{one.launch.kernel}", "sizes": {"d": width}, "dtype": "bfloat16", "rival": target.name,
               "triton": triton.__version__, "tile": one.launch.tile, "warps": binary.warps, "stages": binary.stages,
               "registers": binary.registers, "shared": binary.shared, "spills": binary.spills,
               "per_1000_scores": round(one.rate), "whole": dict(one.loops[0].kinds),
               "others": [loop.all for loop in one.loops[1:]]}


def table(rows: list[Row]) -> Table:
    """Rows of figures for a reader."""
    out = Table(box=None, pad_edge=False)
    for heading in ("kernel", "d", "tile", "warps", "stages", "registers", "shared", "spills", "per 1,000", "all",
                    "cut", "by kind"):
        out.add_column(heading, justify="left" if heading in ("kernel", "tile", "by kind") else "right")
    for row in rows:
        tile = " ".join(f"{name}{n}" for name, n in row["tile"].items())
        facts = [str(row[name]) for name in ("warps", "stages", "registers", "shared", "spills", "per_1000_scores")]
        kinds = " ".join(f"{kind} {n}" for kind, n in row["whole"].items() if kind != "all")
        out.add_row(row["case"], str(row["sizes"]["d"]), tile, *facts, str(row["whole"]["all"]),
                    " ".join(map(str, row["others"])), kinds)
    return out


@click.command("sass", context_settings=HELP)
@click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), help="Which cases; all without it.")
@click.option("--width", "widths", multiple=True, type=click.IntRange(min=1), default=(64, 128), show_default=True,
              help="Widths of heads.")
@click.option("--target", type=click.Choice([name for name, gpu in TARGETS.items() if gpu.driver == "cuda"]),
              default="sm_90", show_default=True, help="The architecture.")
@OUT
def command(names: tuple[str, ...], widths: tuple[int, ...], target: str, out: Path) -> None:
    """Compile attention kernels in bfloat16, without a device, and count the instructions of their loops.

    Counted are those that a warp issues for one tile that no mask cuts, by kind; `per 1,000` is for 1,000 scores, so
    that tiles can be compared; `cut` are those of the other loops, for tiles that masks cut. Compiling is
    deterministic: the same text gives the same figures on every machine. They replace those of the same kernel in
    OUT/sass.jsonl.
    """
    console, here, rows = wide_console(), Run(), list[Row]()
    with progress(console, None) as (tell, _):
        for name in names or tuple(CASES):
            for width in widths:
                tell(f"{name}, d = {width}")
                rows += [here.row("sass", **row) for row in figures(name, width, TARGETS[target])]
    write(out / "sass.jsonl", rows)
    console.print(table(rows))
    console.print(f"wrote {out / 'sass.jsonl'}")
