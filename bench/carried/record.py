"""What a run on a device writes: JSON lines as they come, in the form of the other
results of the bench, and a line to read."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton

from bench.carried.cases import Measured

Row = dict[str, Any]
FILE = "gpu.jsonl"


def machine(device: torch.device) -> Row:
    """The device and the versions that its figures depend on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "none: Triton's interpreter"
    return {"gpu": name, "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton.__version__,
            "python": platform.python_version()}


def clocks(device: torch.device) -> Row:
    """Megahertz of processors and memory, watts and degrees, as the driver's own tool tells them; empty without it."""
    asked = {"sm": "clocks.sm", "memory": "clocks.mem", "watts": "power.draw", "degrees": "temperature.gpu"}
    command = ["nvidia-smi", f"--query-gpu={','.join(asked.values())}", "--format=csv,noheader,nounits", "-i",
               str(device.index or 0)]
    if device.type != "cuda":
        return {}
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip().split(",")
        return {name: float(value) for name, value in zip(asked, told, strict=True)}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def short(value: Any) -> Any:
    """Numbers at the precision that they have; what is not finite as null."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {key: short(one) for key, one in value.items()}
    return value


@dataclass(frozen=True)
class Record:
    """Where rows go, and what all of a run share."""

    file: Path
    commit: str
    machine: Row

    def write(self, kind: str, case: Measured | None = None, **figures: Any) -> Row:
        """Append a row; it is in the file when this returns."""
        about = {} if case is None else {"case": case.case.name, "sizes": dict(case.sizes), "dtype": case.dtype}
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
        row = {"kind": kind, **about, **short(figures), "commit": self.commit, "date": date, "machine": self.machine}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        return row


def read(file: Path) -> list[Row]:
    """The whole rows of a file: a process that was ended may have left half a line."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def line(row: Row, tops: Mapping[str, float], copy: float) -> str:
    """A row of a rival as a person reads it while the run goes on."""
    head = f"  {row['rival']:12}"
    if "seconds" not in row:
        return f"{head} {row['status']}: {row['note']}"
    rate, moved = row["flops"] / row["seconds"], row["bytes"] / row["seconds"]
    told: str = (f"{head} {row['seconds'] * 1e3:9.3f} ms {rate / 1e12:7.1f} TF/s ({rate / tops[row['dtype']]:4.0%} of "
                 f"a product)")
    told += f" {moved / 1e9:6.0f} GB/s ({moved / copy:4.0%} of a copy)  error {row['error']:.1e}"
    told += f" {row['status']}: {row['note']}" * (row["status"] != "ok")
    ratios = row.get("ratios") or {}
    return told + ("  times as fast as: " + ", ".join(f"{name} {x:.2f}" for name, x in ratios.items()) if ratios
                   else "")
