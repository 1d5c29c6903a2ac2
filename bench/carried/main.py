"""The command line of a prepared folder: `python DIR/run.py`. It needs torch and Triton."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.carried.cases import BY_NAME, CALLS, CASES
from bench.carried.clock import Clock, HostClock, clock_of
from bench.carried.record import FILE, Record, machine, read
from bench.carried.run import LostError, Place, check, run
from bench.carried.supervise import Supervisor
from bench.carried.warm import warm

BUDGET = 400.0  # of a call; with what it takes to start, under seven minutes
CHECKING = 90.0  # of it, at most, for the check of all kernels


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="run.py",
        description="Check and time the carried kernels beside their rivals, the most important first. Figures are "
        f"appended to OUT/{FILE} as they come.")
    made.add_argument("--case", action="append", choices=list(BY_NAME), metavar="NAME",
                      help=f"which; all of: {', '.join(BY_NAME)}")
    made.add_argument("--call", type=int, choices=list(CALLS),
                      help="one of three calls that together measure every case; the first one checks all kernels "
                      "before. Cases that an earlier call ended are left out")
    made.add_argument("--again", action="store_true", help="with --call: those that were ended, too")
    made.add_argument("--budget", type=float, default=BUDGET, help="seconds for everything (default: %(default).0f)")
    made.add_argument("--out", type=Path, help="the folder of the figures (default: $OUT, else the prepared folder)")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="default: %(default)s")
    made.add_argument("--tiny", action="store_true", help="tiny sizes in float32, for Triton's interpreter")
    made.add_argument("--workers", type=int,
                      help="processes that fill the compilers' caches first (default: by cores; 0: none)")
    made.add_argument("--part", choices=["all", "check", "warm", "measure"], default="all",
                      help="all, or one of its parts in this process")
    made.add_argument("--share", default="0/1", help="with --part warm: which of how many")
    return made


def main(words: Sequence[str] | None = None, folder: Path | None = None, clock: Clock | None = None) -> int:
    """0 where every case came to its end, whatever was found, else 1; with `--part measure` 1 also where ours was not
    right in all of them, and 3 where the device was lost; 2 where the command cannot be done."""
    asked = parser().parse_args(words)
    if asked.device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        print("no GPU is here: set TRITON_INTERPRET=1 and give --tiny, and Triton's interpreter runs the kernels",
              file=sys.stderr)
        return 2
    folder = folder or Path(__file__).parent.parent.parent
    out: Path = asked.out or Path(os.environ.get("OUT") or folder)
    names = asked.case or [case.name for case in CASES]
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if asked.call is not None and not asked.case:
        done = {row["name"] for row in read(out / FILE)
                if row["kind"] == "gpu-end" and row["commit"] == manifest["commit"]}
        names = [name for name in CALLS[asked.call] if asked.again or name not in done]
    if asked.part == "all":
        return whole(asked, names, folder, out / FILE)
    device = torch.device(asked.device)
    clock = clock or (HostClock() if asked.part == "warm" else clock_of(device))
    record = Record(out / FILE, manifest["commit"], machine(device))
    place = Place(folder, manifest["entries"], device, clock, record, clock.now() + asked.budget, asked.tiny,
                  tuple(manifest.get("cubins", ())))
    try:
        cases = [BY_NAME[name] for name in names]
        if asked.part == "warm":
            number, of = map(int, asked.share.split("/"))
            print(f"warm {asked.share}: {warm(place, cases, number, of)}", flush=True)
            return 0
        return 0 if (check if asked.part == "check" else run)(place, cases) else 1
    except LostError as error:
        print(f"the device was lost: {error}", flush=True)
        return 3


def whole(asked: argparse.Namespace, names: Sequence[str], folder: Path, file: Path) -> int:
    """The parts in processes of their own, with caches that they share."""
    gpu = asked.device != "cpu"
    workers = asked.workers if asked.workers is not None else max(1, min(12, (os.cpu_count() or 2) - 2)) if gpu else 0
    common = ["--out", str(file.parent), "--device", asked.device, *["--tiny"] * asked.tiny]
    with tempfile.TemporaryDirectory() as caches:
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{caches}/triton",
                       "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                       "TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTHONUNBUFFERED": "1"}

        def start(words: list[str]) -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, str(folder / "run.py"), *common, *words], env=environment)

        supervisor = Supervisor(start, time.monotonic, time.sleep, file, asked.budget)
        if asked.call == 1:
            supervisor.check(min(CHECKING, 0.25 * asked.budget))
        missed = supervisor.run(names, workers)
    print(f"figures: {file}" + (f"; not ended: {', '.join(missed)}" if missed else ""), flush=True)
    return 1 if missed else 0
