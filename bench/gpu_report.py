"""The tables of a run on a GPU: each case beside its rivals and the ceilings, and what the tiles were worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.table import Table

from bench.carried.cases import CASES
from bench.record import Row
from bench.report import duration, written

TITLES = {case.case.name: case.case.title for case in CASES}
BYTES = {case.case.name for case in CASES if case.bytes_bound}
RIVALS = {"carried": "code of here", "sdpa-flash": "flash", "sdpa-cudnn": "cuDNN", "sdpa": "torch's choice",
          "flex": "Flex", "flex-tuned": "tuned Flex", "flex-mask": "Flex and its mask", "compiled": "compiled torch",
          "eager": "eager torch"}
MARK, END = "<!-- python -m bench.gpu report -->", "<!-- end of the report -->"
BEFORE = "## Tuning"  # the heading of a page before which they stand at first
ORDER = {case.case.name: number for number, case in enumerate(reversed(CASES))}


@dataclass(frozen=True)
class Sheet:
    """A table before it is drawn: a caption of whole sentences, headings, lines."""

    caption: str
    heads: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]


def sheets(rows: Sequence[Row]) -> Iterator[Sheet]:
    """For each device, its cases; then its tiles; then what failed."""
    for machine in _machines(rows):
        mine = [row for row in rows if row["machine"] == machine]
        tops = next((row for row in reversed(mine) if row["kind"] == "gpu-ceiling"), None)
        yield _cases(mine, machine, tops)
        tiles = _tiles(mine)
        if tiles.lines:
            yield tiles
        failed = _failed(mine)
        if failed.lines:
            yield failed


def _machines(rows: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if row["machine"] not in found:
            found.append(row["machine"])
    return found


def _groups(rows: Sequence[Row], kind: str) -> list[tuple[Row, dict[str, Row]]]:
    """Rows of one case, sizes and type together, by rival, in the order of the cases."""
    chosen = sorted((row for row in rows if row["kind"] == kind), key=_key)
    out = []
    for _, group in groupby(chosen, key=_key):
        lines = list(group)
        out.append((lines[0], {row["rival"]: row for row in lines}))
    return out


def _key(row: Row) -> tuple[int, str, str, tuple[int, ...]]:
    return -ORDER.get(row["case"], 0), row["case"], row["dtype"], tuple(row["sizes"].values())


# the tables


def _cases(rows: Sequence[Row], machine: Row, tops: Row | None) -> Sheet:
    heads = ("case", "sizes", "type", "ours", "with the host", "graph", "rate", "of the ceiling", "tuned",
             *RIVALS.values())
    lines = []
    for place, by in _groups(rows, "gpu"):
        ours, best = by.get("einc") or by.get("einc-tuned"), by.get("einc-tuned")
        if ours is None:
            continue
        where = (TITLES.get(place["case"], place["case"]), written(place["sizes"]), place["dtype"])
        if "seconds" not in ours:
            lines.append((*where, ours["status"], "", "", "", "", "", *("" for _ in RIVALS)))
            continue
        ratios = ours.get("ratios") or {}
        told = ((f"{ratios[name]:.2f}" if name in ratios else _missing(by.get(name))) for name in RIVALS)
        doubt = "~" * (ours["status"] != "ok")
        others = (duration(ours[name]) if name in ours else "–" * (name == "graph" and "uncaptured" in ours)
                  for name in ("eager", "graph"))
        tuned = f"{ours['seconds'] / best['seconds']:.2f}" if best is not None and "seconds" in best else ""
        lines.append((*where, doubt + duration(ours["seconds"]), *others, *_rate(ours, tops), tuned, *told))
    caption = f"{machine['gpu']}, torch {machine['torch']}, Triton {machine['triton']}. "
    if tops is not None:
        caption += (f"The ceilings, in the same run: {_tera(tops['flops']['bfloat16'])} of a product of 8192² in "
                    f"bfloat16, "
                    f"{_tera(tops['flops']['float32'])} in float32, {tops['bytes'] / 1e12:.2f} TB/s of a copy of 4 "
                    f"GiB. ")
    caption += ("Times are the device's own; beside them those with what the host takes to start a call, and of a "
                "captured graph. ")
    caption += ("Ours has the tile that it chooses by itself; `tuned` says how many times as fast the best tile is "
                "that was tried, where that is another. The columns of the rivals say how many times as fast as each "
                "ours is: medians of interleaved rounds with cold caches, each result checked against float64 first "
                "(~: farther from it than eager torch in the same type allows).")
    return Sheet(caption, heads, lines)


def _rate(row: Row, tops: Row | None) -> tuple[str, str]:
    rate, moved = row["flops"] / row["seconds"], row["bytes"] / row["seconds"]
    if row["case"] in BYTES:
        return f"{moved / 1e9:,.0f} GB/s", f"{moved / tops['bytes']:.0%}" if tops else ""
    top = tops["flops"].get(row["dtype"]) if tops else None
    return _tera(rate), f"{rate / top:.0%}" if top else ""


def _tera(rate: float) -> str:
    return f"{rate / 1e12:,.0f} TF/s" if rate >= 1e13 else f"{rate / 1e12:.2f} TF/s"


def _missing(row: Row | None) -> str:
    return "" if row is None else "–" if row["status"] == "cannot" else str(row["status"])


def _tiles(rows: Sequence[Row]) -> Sheet:
    """Each kernel's own choice beside the best tile."""
    lines = []
    for place, by in _groups(rows, "gpu-tile"):
        for kernel in dict.fromkeys(row["kernel"] for row in by.values()):
            tried = [row for row in by.values() if row["kernel"] == kernel]
            right = sorted((row for row in tried if "seconds" in row), key=lambda row: row["seconds"])
            own = next((row for row in tried if row["own"]), None)
            if not right or own is None:
                continue
            best, gain = right[0], own["seconds"] / right[0]["seconds"] if "seconds" in own else None
            others = ", ".join(f"{_tile(row)} {duration(row['seconds'])}" for row in right[1:4])
            lines.append((place["case"], written(place["sizes"]), place["dtype"], kernel, _tile(own), _tile(best),
                          duration(best["seconds"]), "" if gain is None else f"{gain:.2f}", _registers(best), others))
    heads = ("case", "sizes", "type", "kernel", "chosen", "best", "time", "gain", "registers", "next")
    return Sheet("Tiles: rows × columns, warps, stages. The gain is the chosen one's time over the best one's.", heads,
                 lines)


def _tile(row: Row) -> str:
    rows, columns, warps, stages = row["tile"]
    return f"{rows}×{columns} {warps}w {stages}s"


def _registers(row: Row) -> str:
    if "n_regs" not in row:
        return ""
    return f"{row['n_regs']}" + (f", {row['n_spills']} spilled" if row.get("n_spills") else "")


def _failed(rows: Sequence[Row]) -> Sheet:
    lines = [(row["case"], written(row["sizes"]), row["dtype"], row["rival"], row["status"],
              row["note"].replace("|", "/"))
             for row in rows if row["kind"] in ("gpu", "gpu-tile", "gpu-check")
             and row["status"] in ("inexact", "wrong", "failed")]
    return Sheet("What was inexact, wrong or failed.", ("case", "sizes", "type", "what", "status", "why"), lines)


# how they are drawn


def markdown(rows: Sequence[Row]) -> str:
    """All of it as a page."""
    parts = ["# On a GPU\n\nWritten by `python -m bench.gpu report`; the figures are in `gpu.jsonl`.\n"]
    for sheet in sheets(rows):
        lines = [sheet.caption, "", _line(sheet.heads), _line(tuple("---" for _ in sheet.heads)),
                 *map(_line, sheet.lines)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def placed(page: str, rows: Sequence[Row]) -> str | None:
    """The page with the tables of cases between two marks, in place of those of an earlier run; None where it has no
    place for them."""
    shown = [sheet for sheet in sheets(rows) if sheet.heads[:4] == ("case", "sizes", "type", "ours")]
    lines: list[str] = []
    for sheet in shown:
        lines += [sheet.caption, "", *map(_line, (sheet.heads, tuple("---" for _ in sheet.heads), *sheet.lines)), ""]
    text = "\n".join([MARK, *lines, END])
    if MARK in page and END in page:
        return page[: page.index(MARK)] + text + page[page.index(END) + len(END) :]
    return page.replace(f"\n{BEFORE}\n", f"\n{text}\n\n{BEFORE}\n", 1) if f"\n{BEFORE}\n" in page else None


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """All of it for a terminal."""
    for sheet in sheets(rows):
        out = Table(box=None, pad_edge=False, caption=sheet.caption + "\n", caption_justify="left")
        for head in sheet.heads:
            out.add_column(head)
        for cells in sheet.lines:
            out.add_row(*(cell.replace("[", "\\[") for cell in cells))
        yield out
