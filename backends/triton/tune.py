"""Tiles found by timing: each kernel of a loaded file with several tiles on given data,
and what was found kept on disk."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any

import torch
from triton.testing import do_bench

from einc.backends.host import cache
from einc.backends.triton.progress import Show, bar
from einc.backends.triton.record import Emitted, Key, Refused, Tile, Trial, emitted, hold, reason, survey, text_of
from einc.errors.report import failure

BUDGET = 60.0  # seconds for all kernels of a call
BETTER = 0.98  # A tile is chosen over the default where its time is below this share of the default's: less is noise.
SEEN = 1024  # calls of different shapes whose tiles are remembered

Tensors = Mapping[str, Any]
Measure = Callable[[Trial], float]  # one kernel with one tile -> its time, in any unit


@dataclass(frozen=True, slots=True)
class Found:
    """The tile of one kernel for data of one size: `ratio` is the default's time over the
    tile's, `timed` how many were timed."""

    key: Key
    tile: Tile
    default: Tile
    ratio: float
    timed: int
    cached: bool = False


@dataclass(frozen=True)
class Tuning:
    """What is known after tuning, kernels in the order of the run; `lost` says why nothing could be kept on disk."""

    found: tuple[Found, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lost: str = ""

    @property
    def tiles(self) -> dict[Key, Tile]:
        """The best tile of each kernel and call that was timed, as the table TILES of the file is to hold it."""
        return {one.key: one.tile for one in self.found}


def device() -> torch.device:
    """The GPU that kernels are timed on. EincError where there is none."""
    if not torch.cuda.is_available():
        raise failure("tuning times kernels on a GPU, and there is none here",
                       "tune on the machine that will run the file; without tuning it has tiles that are good for most "
                       "sizes")
    return torch.device("cuda", torch.cuda.current_device())


def _timeable(trials: Mapping[Key, Trial]) -> None:
    device()
    elsewhere = next((trial.device for trial in trials.values() if trial.device.type != "cuda"), None)
    if elsewhere is not None:
        raise failure(f"the tensors are on {elsewhere}, and kernels are timed on the GPU",
                      "give tensors that are on the GPU")


def placed(tensors: Tensors) -> dict[str, Any]:
    """The inputs on the GPU. EincError where there is none."""
    return {name: x.to(device()) if isinstance(x, torch.Tensor) else x for name, x in tensors.items()}


def bench(trial: Trial) -> float:
    """The median time of a kernel in milliseconds, the cache of the device emptied before each run."""
    return float(do_bench(trial, warmup=10, rep=50, return_mode="median"))


def kept(function: Callable[..., Any], tensors: Tensors) -> Tuning:
    """What the cache has for a call of the loaded function; `missing` names the kernels that it has nothing for."""
    trials, names = _identified(emitted(function), tensors)
    return _known(trials, {key: _read(cache.read(names[key]), trial) for key, trial in trials.items()})


def tune(function: Callable[..., Any], tensors: Tensors, *, measure: Measure | None = None,
         clock: Callable[[], float] = time.monotonic, budget: float | None = None, show: Show | None = None,
         memory: dict[str, Found] | None = None) -> Tuning:
    """Times the kernels of a loaded function on the given tensors and sizes, and writes the best tiles into its TILES.

    What the cache has is not timed again, unless `EINC_FORCE_AUTOTUNE` is set; what is found is kept there. `budget` is
    in seconds by `clock`, and `EINC_AUTOTUNE_BUDGET_SECONDS` or 60 where it is None. EincError where there is no GPU,
    where the variable is no number, and where a kernel runs with no tile at all; what the function raises for its
    arguments. `show` is told how far it is; a bar on a terminal where it is None. What is in `memory` is not timed in
    any case, and what is known after the call is put there: it is for callers that ask again and again.
    """
    module = emitted(function)
    trials, names = _identified(module, tensors)
    memory = {} if memory is None else memory
    held = {key: memory.get(_label(names[key])) for key in trials}
    if not cache.switched("EINC_FORCE_AUTOTUNE"):
        held |= {key: _read(cache.read(names[key]), trials[key]) for key, one in held.items() if one is None}
    known = _known(trials, held)
    wanted = [key for key in trials if key not in known.tiles]
    if wanted:
        if measure is None:
            _timeable(trials)
        seconds = _seconds() if budget is None else budget
        with nullcontext(show) if show is not None else bar() as told_to:
            search = _Search(module, tensors, measure or bench, clock, seconds, told_to)
            new, lost = [], ""
            for one in search.run(known.tiles, wanted):
                new.append(one)
                lost = _keep(names[one.key], one) or lost  # At once: the next kernel may be interrupted.
        every = {one.key: one for one in (*known.found, *new)}
        known = Tuning(tuple(every[key] for key in trials), (), tuple(search.notes), lost)
    memory.update({_label(names[one.key]): one for one in known.found})
    if known.tiles:
        hold(module.space, {**module.space["TILES"], **known.tiles})
    return known


def _known(trials: Mapping[Key, Trial], held: Mapping[Key, Found | None]) -> Tuning:
    """The tuning before anything is timed: the tiles that were kept, and the kernels that have none yet."""
    found = tuple(replace(one, cached=True) for one in held.values() if one is not None)
    return Tuning(found, tuple(key[0] for key in trials if held[key] is None))


def _keep(name: Mapping[str, Any], one: Found) -> str:
    """Writes what was found to disk; why that failed, or the empty text."""
    try:
        cache.write(name, {"tile": one.tile, "default": one.default, "ratio": one.ratio, "timed": one.timed})
    except OSError as error:
        return f"{error.filename or cache.folder()}: {(error.strerror or str(error)).lower()}"
    return ""


def _read(value: Any, trial: Trial) -> Found | None:
    """A kept value, or None where it is not what this file writes, or names a tile that would not be tried today."""
    try:
        tile, default = tuple(value["tile"]), tuple(value["default"])
        ratio, timed = float(value["ratio"]), int(value["timed"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    good = tile in trial.candidates and default in trial.candidates
    return Found(trial.key, tile, default, ratio, timed) if good else None


# what a result is kept by


def _identified(module: Emitted, tensors: Tensors) -> tuple[dict[Key, Trial], dict[Key, dict[str, Any]]]:
    """The kernels that the call would run with their default tiles, and the key in the cache of each."""
    trials = survey(module, tensors, {}, starting=False)
    return trials, {key: _identity(module, trial) for key, trial in trials.items()}


def _identity(module: Emitted, trial: Trial) -> dict[str, Any]:
    """All that the fastest tile depends on, as plain data."""
    kernel, rows, columns = trial.key
    return {
        "kernel": kernel, "rows": rows, "columns": columns,
        # How many programs share the device weighs as much as how long their data is.
        "programs": [1 << max(0, int(n) - 1).bit_length() for s in trial.starts for n in s.grid],
        "text": text_of(module.source, tuple(s.name for s in trial.starts)),
        "types": [str(x.dtype) for s in trial.starts for x in s.values if isinstance(x, torch.Tensor)],
        "constants": [[name, str(value)] for s in trial.starts for name, value in sorted(s.constants.items())],
        **_machine(trial.device),
    }


def _label(identity: Mapping[str, Any]) -> str:
    return json.dumps(identity, sort_keys=True)


def _machine(where: torch.device) -> dict[str, Any]:
    name, capability = where.type, [0, 0]
    if where.type == "cuda":
        name, capability = torch.cuda.get_device_name(where), list(torch.cuda.get_device_capability(where))
    return {"device": name, "capability": capability, **{part: _version(part) for part in ("torch", "triton", "einc")}}


def _version(part: str) -> str:
    try:
        return version(part)
    except PackageNotFoundError:
        return "unknown"


# the search


@dataclass
class _Search:
    """Kernels one at a time, the others with their defaults; each has a share of the time by what its default takes."""

    module: Emitted
    tensors: Tensors
    measure: Measure
    clock: Callable[[], float]
    budget: float
    show: Show
    notes: list[str] = field(default_factory=list)
    standing: dict[Key, Tile] = field(default_factory=dict)
    refused: set[tuple[Key, Tile]] = field(default_factory=set)
    done: int = 0
    count: int = 0

    def run(self, known: Mapping[Key, Tile], wanted: list[Key]) -> Iterator[Found]:
        """What is found for each of the wanted kernels, the one that takes longest first."""
        end = self.clock() + self.budget
        trials = self._stand(known)
        self.count = sum(len(trials[key].candidates) for key in wanted) - len(self.refused)
        times = {key: self._timed(trials[key]) for key in wanted}
        left = sum(times.values())
        for key in sorted(wanted, key=lambda one: -times[one]):
            now = self.clock()
            share = times[key] / left if left > 0 else 1.0
            left -= times[key]
            yield self._kernel(trials[key], times[key], now + max(0.0, end - now) * min(1.0, share))

    def _stand(self, known: Mapping[Key, Tile]) -> dict[Key, Trial]:
        """A run in which every kernel starts; one whose default the device refuses gets the next tile."""
        self.standing = dict(known)
        plain = survey(self.module, self.tensors, {}, starting=False)
        while True:
            try:
                return survey(self.module, self.tensors, self.standing, starting=True)
            except Refused as error:
                self._note(error.key, error.tile, error.reason)
                self.refused.add((error.key, error.tile))
                left = [tile for tile in plain[error.key].candidates if (error.key, tile) not in self.refused]
                if not left:
                    raise failure(f"the kernel `{error.key[0]}` runs with no tile on this device: "
                                  f"{error.reason}") from error
                self.standing[error.key] = left[0]

    def _timed(self, trial: Trial) -> float:
        self._step(trial.key[0])
        return self.measure(trial)

    def _kernel(self, first: Trial, default: float, end: float) -> Found:
        """The best tile of one kernel among those that are timed before `end`. Changes `self.notes`."""
        best, least, timed, met = first.tile, default * BETTER, 1, [first.marks()]
        tiles = [tile for tile in first.candidates if tile != first.tile and (first.key, tile) not in self.refused]
        for n, tile in enumerate(tiles):
            if self.clock() >= end:
                self._step(first.key[0], len(tiles) - n)
                self.notes.append(f"{first.key[0]}: {timed} of {len(tiles) + 1} tiles were timed in its share of the "
                                  f"time")
                break
            self._step(first.key[0])
            try:
                trial = survey(self.module, self.tensors, {**self.standing, first.key: tile}, starting=True)[first.key]
                if trial.marks() in met:
                    continue
                met.append(trial.marks())
                if (spilled := max(trial.spills, default=0)) > max(first.spills, default=0):
                    self._note(first.key, tile, f"{spilled} registers find no place")
                    continue
                taken = self.measure(trial)
            except Exception as error:
                self._note(first.key, tile, error.reason if isinstance(error, Refused) else reason(error))
                continue
            timed += 1
            if taken < least:
                best, least = tile, taken
        return Found(first.key, best, first.tile, default / least if best != first.tile and least > 0 else 1.0, timed)

    def _note(self, key: Key, tile: Tile, why: str) -> None:
        self.notes.append(f"{key[0]}: {told(tile)} left out: {why}")

    def _step(self, name: str, by: int = 1) -> None:
        self.done += by
        self.show(name, self.done, self.count)


def told(tile: Tile) -> str:
    """A tile in words, for people: its rows and columns, warps and stages."""
    rows, columns, warps, stages = tile
    return f"{rows} × {columns}, {warps} warps, {stages} stage{'' if stages == 1 else 's'}"


# what uses it


class Tuned:
    """A loaded function that tunes itself in the first call for tensors of each shape, type and device."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.module, self.function, self.options = emitted(function), function, options
        self.seen: dict[tuple[Any, ...], dict[Key, Tile]] = {}
        self.memory: dict[str, Found] = {}
        update_wrapper(self, function)

    def __call__(self, *values: Any, **tensors: Any) -> Any:
        """The function's result. EincError where something is to be timed and there is no GPU."""
        tensors = {**dict(zip(signature(self.function).parameters, values, strict=False)), **tensors}
        shape = tuple((name, tuple(x.shape), x.dtype, x.device) if isinstance(x, torch.Tensor) else (name, x)
                      for name, x in tensors.items())
        if shape not in self.seen:
            found = tune(self.function, tensors, memory=self.memory, **self.options)
            if found.lost:
                warnings.warn(f"what tuning found is lost after this process: {found.lost}", stacklevel=2)
            if len(self.seen) >= SEEN:
                self.seen.clear()
            self.seen[shape] = found.tiles
        # The table of the file goes by sizes alone, and another call may have had other types.
        hold(self.module.space, self.seen[shape])
        return self.function(**tensors)


def tuning(function: Callable[..., Any]) -> Tuned:
    """The loaded function as one that tunes itself."""
    return Tuned(function)


def baked(source: str, tiles: Mapping[Key, Tile]) -> str:
    """The emitted file with the tiles in its table; a file without kernels as it is."""
    rows = "".join(f"    ({json.dumps(name)}, {r}, {c}): {tile},\n" for (name, r, c), tile in sorted(tiles.items()))
    return source.replace("\nTILES = {}", f"\nTILES = {{\n{rows}}}" if rows else "\nTILES = {}", 1)


def _seconds() -> float:
    text = os.environ.get("EINC_AUTOTUNE_BUDGET_SECONDS", "").strip()
    try:
        value = float(text) if text else BUDGET
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise failure(f"EINC_AUTOTUNE_BUDGET_SECONDS is `{text}`, which is no number of seconds",
                       "give one such as 120, or unset it")
    return value
