"""One process on the device: each case is checked, its tiles tried, then it is timed beside its rivals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.carried.cases import Measured
from bench.carried.clock import Call, Ceilings, Clock, WithHost, ceilings, interleaved, quick
from bench.carried.cubins import Driver, MissingError, load
from bench.carried.record import Record, Row, clocks, line
from bench.carried.rivals import COMPILED, RIVALS
from bench.carried.tiles import Carried, Tile
from bench.case import DTYPES, CannotError, Prepared, Task
from bench.judge import BOUNDS, Verdict, judge, ratio, relative_error

LONGEST = 45.0   # seconds that a case may have, where few are left
REPEATED = 1.5   # seconds of timed rounds
CARRIED = "carried"  # our module with machine code that was compiled elsewhere
SPOILED = 2**29  # numbers, 2 GiB of them: more than any result takes


class LostError(Exception):
    """The device does not answer any more: what is left needs another process."""


@dataclass(frozen=True)
class Place:
    """What a run has at hand: the carried kernels, the device, the clock, and when it has to end."""

    folder: Path
    entries: dict[str, str]  # kernel -> the function in its file
    device: torch.device
    clock: Clock
    record: Record
    end: float
    tiny: bool = False
    cubins: tuple[Row, ...] = ()  # of the manifest
    driver: Any = None  # a library in place of NVIDIA's


@dataclass
class Ready:
    """A case with its data and its exact answer; what is known of each way to do it."""

    case: Measured
    task: Task
    rows: torch.Tensor
    exact: torch.Tensor
    eager: torch.Tensor
    given: dict[str, Any]
    calls: dict[str, Call] = field(default_factory=dict)
    facts: dict[str, Row] = field(default_factory=dict)

    def judged(self, result: torch.Tensor) -> Verdict:
        """Ours: as near as eager torch in the same type, and numbers everywhere."""
        if result.is_floating_point() and not bool(torch.isfinite(result).all()):
            return Verdict("wrong", float("inf"), float("inf"), "holds what is not a number")
        return judge(self.task.case.picked(result, self.rows), self.exact, self.eager, self.case.dtype)


def run(place: Place, cases: Sequence[Measured]) -> bool:
    """Every case in its share of the time that is left; whether ours was right in all of them."""
    tops = ceilings(place.clock, place.device, place.tiny)
    row = place.record.write("gpu-ceiling", flops=dict(tops.flops), bytes=tops.bytes)
    print(f"ceilings: {', '.join(f'{name} {x / 1e12:.0f} TF/s' for name, x in row['flops'].items())}, "
          f"copy {row['bytes'] / 1e9:.0f} GB/s", flush=True)
    right = True
    for number, case in enumerate(cases):
        left = place.end - place.clock.now()
        if left <= 0:
            print(f"no time is left for {', '.join(one.name for one in cases[number:])}", flush=True)
            return False
        share = min(LONGEST, 2 * left / (len(cases) - number), left)
        right &= attempt(place, tops, case.shrunk() if place.tiny else case, case.name, share)
    return right


def attempt(place: Place, tops: Ceilings, case: Measured, name: str, share: float) -> bool:
    """One case; what goes wrong in it is told and ends there."""
    place.record.write("gpu-begin", name=name)
    start = place.clock.now()
    print(f"{name}: {' '.join(f'{key}{value}' for key, value in case.sizes.items())} {case.dtype}", flush=True)
    try:
        right = measure(place, tops, case, start + share)
    except LostError:
        raise
    except Exception as error:
        place.record.write("gpu", case, rival="einc", status="failed", note=said(error))
        print(f"  failed: {said(error)}", flush=True)
        alive(place.device, error)
        right = False
    forget(place.device)
    place.record.write("gpu-end", name=name, seconds=place.clock.now() - start)
    return right


def measure(place: Place, tops: Ceilings, case: Measured, until: float) -> bool:
    """The figures of a case, each in the file as soon as it is known."""
    ready = prepared(place, case)
    module = carried(place, case)
    found = tune(place, ready, module, place.clock.now() + 0.5 * (until - place.clock.now()))
    binaries(place, ready)
    for name in case.rivals:
        admit(place, ready, name, until)
    taken = interleaved(place.clock, ready.calls, 0.0 if place.tiny else REPEATED) if ready.calls else {}
    state = clocks(place.device)  # as the rounds left them
    started(place, ready)
    moved = sum(x.numel() * x.element_size()
                for x in ready.task.tensors.values()) + ready.facts["einc"].pop("written", 0)
    with torch.device(place.device):
        flops = case.case.flops(ready.task)
    for name, facts in ready.facts.items():
        times = taken.get(name, [])
        if times:
            facts |= {"seconds": statistics.median(times), "fastest": min(times), "rounds": len(times)}
            facts |= {"flops": flops, "bytes": moved, "clocks": state}
        if times and name.startswith("einc"):
            facts["ratios"] = {rival: ratio(taken[rival], times) for rival in taken if not rival.startswith("einc")}
            facts["tiles"] = {kernel: list(tile) for kernel, tile in found.get(name, {}).items()}
        print(line(place.record.write("gpu", case, rival=name, **facts), tops.flops, tops.bytes), flush=True)
    return all(facts["status"] == "ok" for name, facts in ready.facts.items() if name.startswith("einc"))


def started(place: Place, ready: Ready) -> None:
    """What each way takes with the host's part, and as a graph; why it cannot be one."""
    if not ready.calls:
        return
    seconds = 0.0 if place.tiny else REPEATED / 3
    whole = interleaved(WithHost(place.clock), ready.calls, seconds)
    graphs: dict[str, Call] = {}
    for name, call in ready.calls.items():
        ready.facts[name]["eager"] = statistics.median(whole[name])
        try:
            graphs[name] = place.clock.captured(call)
        except Exception as error:
            ready.facts[name]["uncaptured"] = said(error)
            alive(place.device, error)
    for name, times in (interleaved(place.clock, graphs, seconds) if graphs else {}).items():
        ready.facts[name]["graph"] = statistics.median(times)


def check(place: Place, cases: Sequence[Measured]) -> bool:
    """Every kernel at small sizes in the type of its case: whether all are right. Nothing is timed."""
    right = True
    for kernel, case in {case.kernel + case.dtype: case for case in cases}.items():
        small = case.shrunk() if place.tiny else replace(case, sizes=case.tiny)
        try:
            ready = prepared(place, small)
            module = carried(place, case)
            with torch.no_grad():
                verdict = ready.judged(module(**ready.given))
            facts = _of(verdict)
        except Exception as error:
            facts = {"status": "failed", "note": said(error)}
            alive(place.device, error)
        place.record.write("gpu-check", small, rival="einc", **facts)
        print(f"  {kernel}: {facts['status']} {facts['note']}", flush=True)
        right &= facts["status"] == "ok"
    return right


def prepared(place: Place, case: Measured) -> Ready:
    """The data, and the rows that are compared."""
    with torch.device(place.device), torch.no_grad():
        task = drawn(place, case)
        rows = case.case.rows(case.sizes)
        exact, eager = (case.case.exact(task, rows, dtype) for dtype in (torch.float64, DTYPES[case.dtype]))
    return Ready(case, task, rows, exact, eager, given(task))


def drawn(place: Place, case: Measured) -> Task:
    """Data drawn on the device."""
    with torch.device(place.device), torch.no_grad():
        wide = case.case.tensors(case.sizes, torch.Generator(place.device).manual_seed(0), 1.0)
        tensors = {name: x.to(DTYPES[case.dtype]) if x.is_floating_point() else x for name, x in wide.items()}
    return Task(case.case, case.sizes, case.dtype, tensors)


def carried(place: Place, case: Measured) -> Carried:
    """Our module of a case."""
    return Carried(place.folder / "kernels" / f"{case.kernel}.py", place.entries[case.kernel], case.case.used)


def given(task: Task) -> dict[str, Any]:
    """What our module is called with."""
    return {**task.tensors, **{name: task.sizes[name] for name in task.case.asks}}


# ours


def tune(place: Place, ready: Ready, module: Carried, until: float) -> dict[str, dict[str, Tile]]:
    """Our module with the tiles that it chooses, and with the best ones that are right:
    the ways to be timed, with their tiles.

    Each kernel's tiles are tried one after the other while the others keep theirs, as long as the time lasts.
    """
    with torch.no_grad():
        spoil(place.device)
        start = time.perf_counter()
        with module.told() as told:
            result = module(**ready.given)
        finish(place.device)
        taken = time.perf_counter() - start
        verdict = ready.judged(result)
        facts = _of(verdict)
        ready.facts["einc"] = {**facts, "first": taken, "compiled": dict(told),
                               "written": result.numel() * result.element_size()}
        print(f"  first call {taken:.1f} s, error {verdict.error:.1e}, {verdict.beside:.2f} times that of eager torch"
              f"{': ' + verdict.note if verdict.note else ''} {told}", flush=True)
        best = {kernel: tried(place, ready, module, kernel, until) for kernel in module.kernels()}
    own = {kernel: module.seen[kernel][0] for kernel in best}
    ways = {"einc": own} if verdict.status != "wrong" else {}
    chosen = {kernel: tile for kernel, (tile, _) in best.items() if tile is not None}
    if chosen and chosen != own and len(chosen) == len(own):
        ways["einc-tuned"] = chosen
        last = next(verdict for _, verdict in reversed(best.values()) if verdict is not None)
        ready.facts["einc-tuned"] = _of(last)
    for name, tiles in ways.items():
        mine = module.copied(tiles)  # by itself: a module keeps how its kernels are started
        ready.calls[name] = partial(mine, **ready.given)
    return ways


def binaries(place: Place, ready: Ready) -> None:
    """Our module with the machine code that was carried, where some was; it is checked as the others are."""
    rows = [row for row in place.cubins if row["module"] == ready.case.kernel]
    if not rows or (place.device.type != "cuda" and place.driver is None):
        return
    facts: Row = {"status": "ok", "note": ""}
    try:
        mine = carried(place, ready.case)
        load(mine.module, rows, place.folder, Driver(place.driver))
        with torch.no_grad():
            facts |= _of(ready.judged(mine(**ready.given)))
        if facts["status"] != "wrong":
            ready.calls[CARRIED] = partial(mine, **ready.given)
    except MissingError as why:
        facts |= {"status": "cannot", "note": str(why)[:160]}
    except Exception as error:
        facts |= {"status": "failed", "note": said(error)}
        alive(place.device, error)
    ready.facts[CARRIED] = facts


def _of(verdict: Verdict) -> Row:
    return {"status": verdict.status, "note": verdict.note, "error": verdict.error, "beside": verdict.beside}


def tried(place: Place, ready: Ready, module: Carried, kernel: str, until: float) -> tuple[Tile | None, Verdict | None]:
    """The fastest right tile of a kernel; it stays held."""
    best: tuple[float, Tile, Verdict] | None = None
    for number, tile in enumerate(module.seen[kernel][:2] if place.tiny else module.seen[kernel]):
        if number and place.clock.now() > until:
            break
        module.held = {**module.held, kernel: tile}
        facts: Row = {"rival": f"{kernel} {' '.join(map(str, tile))}", "kernel": kernel, "tile": list(tile),
                      "own": number == 0}
        try:
            spoil(place.device)
            with module.told() as told:
                verdict = ready.judged(module(**ready.given))
            facts |= {"status": verdict.status, "note": verdict.note, **told.get(kernel, {})}
            if verdict.status != "wrong":
                facts["seconds"] = seconds = quick(place.clock, lambda: module(**ready.given), 1 if place.tiny else 5)
                best = min(best or (seconds, tile, verdict), (seconds, tile, verdict), key=lambda one: one[0])
        except Exception as error:  # what the compiler cannot make of a tile is a figure too
            facts |= {"status": "failed", "note": said(error)}
            place.record.write("gpu-tile", ready.case, **facts)
            alive(place.device, error)
            continue
        place.record.write("gpu-tile", ready.case, **facts)
    module.held = {**module.held, kernel: best[1] if best else module.seen[kernel][0]}
    return (best[1], best[2]) if best else (None, None)


# rivals


def admit(place: Place, ready: Ready, name: str, until: float) -> None:
    """A rival that is right is timed too; another says why not."""
    facts: Row = {"status": "ok", "note": ""}
    try:
        if place.clock.now() > until:
            raise CannotError("had no time left")
        if name in COMPILED and place.device.type != "cuda":
            raise CannotError("is compiled on a GPU alone")
        start = time.perf_counter()
        with torch.no_grad():
            with torch.device(place.device):
                made: Prepared = RIVALS[name](ready.task)
            result = made.call()
        finish(place.device)
        facts["first"], facts["held"] = time.perf_counter() - start, made.held_bytes
        facts["error"] = relative_error(ready.task.case.picked(result, ready.rows), ready.exact)
        if not facts["error"] <= BOUNDS[ready.case.dtype]:
            raise CannotError(f"relative error {facts['error']:.1e}")
        ready.calls[name] = torch.no_grad()(made.call)
    except CannotError as why:
        facts |= {"status": "wrong" if "error" in facts else "cannot", "note": str(why)}
    except Exception as error:
        facts |= {"status": "failed", "note": said(error)}
        alive(place.device, error)
    ready.facts[name] = facts


# the device


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def alive(device: torch.device, error: Exception) -> None:
    """LostError where the device answers nothing after an error."""
    try:
        finish(device)
        torch.ones(1, device=device).item()
    except Exception:
        raise LostError(said(error)) from error


def spoil(device: torch.device) -> None:
    """Make what the next result is written to hold no numbers, so that an element that is never written shows."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what is free now is no smaller piece that would fit better
        torch.full((SPOILED,), float("nan"), device=device)


def forget(device: torch.device) -> None:
    """What compilers and allocators keep of a case."""
    if device.type == "cuda":
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
