"""What a person sees: a table of a run, growth exponents, and plots of time and memory over T."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from rich.table import Table

from bench.cases import BY_NAME
from bench.record import BUSY, Row
from bench.rivals import BY_NAME as RIVALS

matplotlib.use("Agg")

SWEEP = 3  # a case over so many sizes has a growth


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The slope of log value over log size, by least squares; None where it has no meaning."""
    points = [(math.log(x), math.log(y)) for x, y in zip(sizes, values, strict=True) if x > 0 and y > 0]
    if len({x for x, _ in points}) < 2:
        return None
    middle_x, middle_y = (sum(side) / len(points) for side in zip(*points, strict=True))
    return float(sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points))


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    scale, unit = next(((x, name) for x, name in ((1.0, "s"), (1e3, "ms")) if seconds * x >= 1), (1e6, "µs"))
    return f"{seconds * scale:.3g} {unit}"


def mega(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:,.1f}"


def written(sizes: dict[str, int]) -> str:
    return " ".join(f"{name}{value}" for name, value in sizes.items() if (name, value) != ("B", 1))


def table(rows: Iterable[Row], caption: str = "") -> Table:
    """A line per rival; one that could not do the case says why in its place."""
    out = Table(box=None, pad_edge=False, caption=caption or None, caption_justify="left")
    for heading in ("case", "sizes", "type", "threads", "rival"):
        out.add_column(heading, no_wrap=heading != "sizes")
    for heading in ("time", "speed", "GF/s", "of GEMM", "error", "MB", "held", "first call"):
        out.add_column(heading, justify="right", no_wrap=True)
    for _, group in groupby(rows, key=_place):
        for number, row in enumerate(group):
            place = _place(row) if number == 0 else ("", "", "", "")
            out.add_row(*place, row["rival"], *_figures(row), style="bold" if row["rival"].startswith("einc") else None)
        out.add_section()
    return out


def _place(row: Row) -> tuple[str, str, str, str]:
    return row["case"], written(row["sizes"]), row["dtype"], str(row["machine"]["threads"])


def _figures(row: Row) -> list[str]:
    if row["seconds"] is None:
        return [f"[dim]{row['status']}: {row['note']}[/dim]"]
    rate = row["flops"] / row["seconds"]
    far = "" if row["status"] == "ok" else "!"
    doubt = "~" if 2 * row["disturbed"] >= row["rounds"] else ""
    return [doubt + duration(row["seconds"]), "" if row["ratio"] is None else f"{row['ratio']:.2f}×",
            f"{rate / 1e9:,.0f}",
            "" if row["gemm"] is None else f"{rate / row['gemm']:.0%}", f"{far}{row['error']:.0e}", mega(row["memory"]),
            mega(row["held"]) if row["held"] else "", duration(row["first"])]


def caption(rows: Sequence[Row]) -> str:
    """How the table is read, and what to doubt in it."""
    lines = ["speed: times as fast as the reference (library: torch's own kernel; else eager) in the same run, median "
             "over rounds",
             "error: relative RMS against float64; MB: peak growth of a call, its output included; held: masks, biases "
             "made before",
             "of GEMM: of the rate of a 2048³ matrix product in the same rounds"]
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        rates = [row["gemm"] / 1e9 for row in rows if row["dtype"] == dtype and row["gemm"]]
        lines[-1] += f"; {dtype}: {min(rates):,.0f} to {max(rates):,.0f} GF/s" if rates else ""
    if far := [f"{row['case']} of {row['rival']}, {row['note']}" for row in rows if row["status"] == "inexact"]:
        lines.append(f"! farther from float64 than eager torch in the same type by more than its rule allows: "
                     f"{'; '.join(far)}")
    if any(row["busy"] for row in rows):
        lines.append(f"the machine was busy: load average {max(row['load'] or 0 for row in rows)} (over {BUSY}) at the "
                     f"start")
    if any(row["disturbed"] for row in rows):
        lines.append("~ other processes ran in half of the rounds or more: doubt the time, and what has many short "
                     "steps most")
    return "\n".join(lines)


# growth


def sweeps(rows: Iterable[Row]) -> list[tuple[str, str, int, dict[str, list[Row]]]]:
    """Case, element type, threads, and by rival the rows over T, for the cases that have a growth."""
    found: dict[tuple[str, str, int], dict[str, list[Row]]] = {}
    for row in rows:
        if row["kind"] in ("kernel", "gradient") and row["status"] in ("ok", "inexact"):
            key = (row["case"], row["dtype"], row["machine"]["threads"])
            found.setdefault(key, {}).setdefault(row["rival"], []).append(row)
    out = []
    for (case, dtype, threads), by_rival in found.items():
        lines = {rival: sorted(line, key=lambda row: row["sizes"]["T"]) for rival, line in by_rival.items()
                 if len({row["sizes"]["T"] for row in line}) >= SWEEP}
        if lines and case.startswith("growth"):
            out.append((case, dtype, threads, lines))
    return out


def memory(row: Row) -> int:
    """Bytes of a call and of what is held for it; 0 where the call was not measured."""
    return 0 if row["memory"] is None else row["memory"] + (row["held"] or 0)


def exponents(lines: dict[str, list[Row]]) -> dict[str, tuple[float | None, float | None]]:
    """By rival, how time and memory grow with T."""
    return {rival: (exponent([row["sizes"]["T"] for row in line], [row["seconds"] for row in line]),
                    exponent([row["sizes"]["T"] for row in line], [memory(row) for row in line]))
            for rival, line in lines.items()}


def growth_table(rows: Sequence[Row]) -> Table | None:
    out = Table(box=None, pad_edge=False, caption="seconds ~ T^x, bytes (call and held) ~ T^x", caption_justify="left")
    for heading in ("growth", "type", "threads", "rival", "T", "time", "memory"):
        out.add_column(heading, no_wrap=True)
    for case, dtype, threads, lines in sweeps(rows):
        for rival, (time, space) in exponents(lines).items():
            spans = [row["sizes"]["T"] for row in lines[rival]]
            slopes = ("" if x is None else f"{x:.2f}" for x in (time, space))
            out.add_row(case, dtype, str(threads), rival, f"{spans[0]}…{spans[-1]}", *slopes)
    return out if out.row_count else None


def memories(rows: Sequence[Row]) -> Table:
    """Peak memory over T, a line for each case and rival."""
    lengths = sorted({length for row in rows for length in row["lengths"]})
    out = Table(box=None, pad_edge=False, caption="MB alive at the peak of forward and backward; bytes ~ T^x",
                caption_justify="left")
    for heading in ("case", "rival", *(f"T = {length}" for length in lengths), "x", "over the last step"):
        out.add_column(heading, justify="left" if heading in ("case", "rival") else "right", no_wrap=True)
    for row in rows:
        at = dict(zip(row["lengths"], row["bytes"], strict=True))
        slopes = ("" if row[name] is None else f"{row[name]:.2f}" for name in ("exponent", "last_step"))
        out.add_row(row["case"], row["rival"], *(mega(at.get(length)) for length in lengths), *slopes)
    return out


def plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """A picture for each sweep: time and memory over T, both on logarithmic scales."""
    out = []
    for case, dtype, threads, lines in sweeps(rows):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
        fits = exponents(lines)
        for rival, line in lines.items():
            spans, (time, space) = [row["sizes"]["T"] for row in line], fits[rival]
            color = f"C{list(RIVALS).index(rival) if rival in RIVALS else 9}"
            style: dict[str, Any] = {"marker": "o", "color": color, "linewidth": 2.4 if rival == "einc" else 1.2}
            left.plot(spans, [row["seconds"] for row in line], label=_label(rival, time), **style)
            if all(memory(row) for row in line):
                right.plot(spans, [memory(row) / 1e6 for row in line], label=_label(rival, space), **style)
        for axes, title in ((left, "seconds"), (right, "MB: growth of a call, and held masks")):
            axes.set(xscale="log", yscale="log", xlabel="T", title=title)
            axes.set_xticks(sorted({row["sizes"]["T"] for line in lines.values() for row in line}), minor=False)
            axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
            axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            axes.grid(True, which="major", alpha=0.3)
            if axes.lines:
                axes.legend(fontsize=8)
        machine = next(iter(lines.values()))[0]["machine"]
        title = BY_NAME[case].title if case in BY_NAME else case
        figure.suptitle(f"{title}, {dtype}; {machine['cpu']}, threads: {threads}, torch {machine['torch']}")
        out.append(folder / f"{case}-{dtype}-{threads}.png")
        figure.savefig(out[-1], dpi=110)
        pyplot.close(figure)
    return out


def training(rows: Sequence[Row]) -> Table:
    """Each that was trained: where its losses began and ended, the time of a step, and its distance from the last."""
    told = ("loss in nats a byte; apart: the largest difference from the last line's curve; speed: times as fast, "
            "median over steps")
    out = Table(box=None, pad_edge=False, caption=told, caption_justify="left")
    out.add_column("trained")
    for heading in ("steps", "first loss", "last loss", "apart", "a step", "speed"):
        out.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        ends = (f"{row['losses'][at]:.4f}" for at in (0, -1))
        out.add_row(row["rival"], str(row["steps"]), *ends, f"{row['apart']:.1e}", duration(row["seconds"]),
                    f"{row['ratio']:.2f}×")
    return out


def curves(rows: Sequence[Row], file: Path) -> Path:
    """The losses over the steps, and below them how far each is from the last."""
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained",
                                             height_ratios=(3, 1))
    beside = rows[-1]
    for number, row in enumerate(rows):
        above.plot(row["losses"], label=row["rival"], color=f"C{number}", linewidth=3 - number,
                   linestyle=("-", "--")[number % 2])
        if row is not beside:
            far = [max(abs(a - b), 1e-9) for a, b in zip(row["losses"], beside["losses"], strict=True)]
            below.plot(far, color=f"C{number}", linewidth=1)
    above.set(title=f"{beside['case']}, {beside['dtype']}, torch {beside['machine']['torch']}",
              ylabel="loss, nats a byte")
    above.legend()
    below.set(yscale="log", xlabel="step", ylabel="difference")
    for axes in (above, below):
        axes.grid(True, alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return file


def _label(rival: str, slope: float | None) -> str:
    title = RIVALS[rival].title if rival in RIVALS else rival
    return title if slope is None else f"{title}, T^{slope:.2f}"
