"""What a run leaves behind: one JSON line per figure, each with the commit, the date and
the machine it was taken on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bench.measure import load_average

Row = dict[str, Any]

BUSY = 1.5
KEY = ("kind", "case", "sizes", "dtype", "rival", "machine")
ROOT = Path(__file__).parent.parent


def _commit() -> str:
    """The commit, with a + where the compiler, the back ends or the specs differ from it."""
    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", *words]  # others commit while this runs
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "compiler", "backends", "specs", "grammar", "bench/*.py")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


@dataclass(frozen=True)
class Run:
    """What all figures of one run share. `busy` says that others used the machine when it began."""

    commit: str = field(default_factory=_commit)
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"))
    machine: Mapping[str, Any] = field(default_factory=lambda: {
        "cpu": _cpu(), "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__})
    load: float | None = field(default_factory=load_average)

    def row(self, kind: str, **figures: Any) -> Row:
        load = None if self.load is None else round(self.load, 2)
        return {"kind": kind, **figures, "commit": self.commit, "date": self.date, "machine": self.machine,
                "load": load, "busy": load is not None and load > BUSY}


@dataclass
class Figures:
    """One rival on one case. `status` is ok, cannot, wrong or failed; only what is right is timed."""

    case: str
    sizes: Mapping[str, int]
    dtype: str
    rival: str
    status: str = "ok"
    note: str = ""
    seconds: float | None = None     # the median of the rounds
    fastest: float | None = None
    rounds: int = 0
    disturbed: int = 0               # rounds in which other processes ran
    ratio: float | None = None       # times as fast as the reference, the median over rounds
    reference: str | None = None
    error: float | None = None       # relative root mean square against float64
    first: float | None = None       # seconds to the first result, compilers included
    memory: int | None = None        # bytes of peak growth of a call
    held: int | None = None          # bytes made beforehand: masks, biases
    flops: int | None = None
    gemm: float | None = None        # flop/s of the best matrix product on this machine in this run

    def shown(self) -> Row:
        """As a row, with the figures at the precision that they have."""
        short = {name: float(f"{value:.4g}") for name, value in asdict(self).items() if isinstance(value, float)}
        return {**asdict(self), "sizes": dict(self.sizes), **short}


def identity(row: Row) -> str:
    return json.dumps([row.get(name) for name in KEY], sort_keys=True)


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def write(file: Path, rows: Iterable[Row]) -> None:
    """Put the rows into the file: each takes the place of an older one of the same case, rival and machine."""
    kept = {identity(row): row for row in [*read(file), *rows]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept.values()), encoding="utf-8")
