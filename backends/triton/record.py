"""A loaded file as tuning sees it: runs in which each kernel's tile is given and its starts are noted."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from triton.runtime.jit import KernelInterface

Tile = tuple[int, int, int, int]  # rows, columns, warps, stages
# kernel, rows and columns of the data as powers of two: what TILES of an emitted file goes by
Key = tuple[str, int, int]

WARPS, STAGES = (4, 8), (1, 2, 3, 4)
MOST = 48  # candidates of a kernel
OVER = 1.2  # of the numbers that a program is thought to hold: the compiler may find place for more


@dataclass(frozen=True)
class Emitted:
    """The names and the text of a loaded file, and the kernels that its functions start."""

    function: Callable[..., Any]
    space: dict[str, Any]
    source: str
    kernels: Mapping[str, Any]


@dataclass(frozen=True)
class Start:
    """One start of a kernel. A call starts it again on the same memory."""

    name: str
    kernel: Any
    grid: Any
    values: tuple[Any, ...]
    constants: Mapping[str, Any]

    def __call__(self) -> Any:
        """Starts the kernel, and returns what Triton compiled for it, or None."""
        return self.kernel[self.grid](*self.values, **self.constants)


@dataclass(frozen=True)
class Trial:
    """What a choice of tile led to: the starts that follow it, and the tiles that could
    have been chosen, the default first.

    A call starts them again on the same memory: results are written there, and what a kernel reads it does not change.
    """

    key: Key
    tile: Tile
    candidates: tuple[Tile, ...]
    device: Any
    starts: list[Start]
    spills: list[int] = field(default_factory=list)  # registers of each that found no place, where they were started

    def __call__(self) -> None:
        for start in self.starts:
            start()

    def marks(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """What the starts are compiled for and how many programs they have; equal for
        tiles between which nothing differs."""
        return [(s.name, str(s.grid), sorted((name, str(value)) for name, value in s.constants.items()))
                for s in self.starts]


class Refused(Exception):  # noqa: N818, it is what the device did
    """A kernel that could not be compiled or started with a tile."""

    def __init__(self, key: Key, tile: Tile, error: Exception) -> None:
        self.key, self.tile, self.reason = key, tile, reason(error)
        super().__init__(f"{key[0]}: {self.reason}")


def reason(error: Exception) -> str:
    """The last line of what an error says."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (said[-1] if said else type(error).__name__)[:160]


def emitted(function: Callable[..., Any]) -> Emitted:
    """The file that a loaded function stands in."""
    entry = inspect.unwrap(function)
    space: dict[str, Any] = entry.__globals__
    hosts = [inspect.unwrap(value) for value in space.values() if isinstance(value, FunctionType)]
    codes = [host.__code__ for host in hosts if host.__globals__ is space]
    names = dict.fromkeys(name for code in codes for name in code.co_names)
    kernels = {name: space[name] for name in names if isinstance(space.get(name), KernelInterface)}
    # The name in the file, not what was given: that may be a wrapper that tunes before it calls.
    return Emitted(space[entry.__name__], space, "".join(linecache.getlines(entry.__code__.co_filename)), kernels)


@lru_cache(maxsize=256)
def text_of(source: str, names: tuple[str, ...]) -> str:
    """A number for the text of some functions of a file and of all that they call in it."""
    nodes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    stack, met = list(names), dict[str, str]()
    while stack:
        name = stack.pop()
        if name in nodes and name not in met:
            met[name] = ast.get_source_segment(source, nodes[name]) or ""
            stack += [node.id for node in ast.walk(nodes[name]) if isinstance(node, ast.Name)]
    return hashlib.sha256("\n\n".join(met[name] for name in sorted(met)).encode()).hexdigest()


def survey(module: Emitted, tensors: Mapping[str, Any], tiles: Mapping[Key, Tile], starting: bool) -> dict[Key, Trial]:
    """Runs the function with the given tiles, defaults for the rest; what each kernel's
    tile led to, in the order of the run.

    Without `starting` no kernel runs and results hold whatever their memory held: it is for finding out what would run.
    With it, Refused where a kernel cannot be compiled or started.
    """
    if "_tile" not in module.space:
        return {}
    trials: dict[Key, Trial] = {}
    current: list[Trial] = []
    default, padded = module.space["_tile"], module.space["_padded"]

    def tile(name: str, shapes: Sequence[Tile], rows: int, columns: int, *rest: Any, **bounds: Any) -> Tile:
        key = (name, padded(rows), padded(columns))
        first: Tile = default(name, shapes, rows, columns, *rest, **bounds)
        around = candidates(module.space["_fitting"], first, shapes, rows, columns, *rest, **bounds)
        trial = Trial(key, tiles.get(key, first), around, rest[0], [])
        # One start says enough of a kernel that rounds start again and again, and holds the memory of one.
        current[:] = [] if key in trials else [trials.setdefault(key, trial)]
        return trial.tile

    def start(name: str, grid: Any, values: tuple[Any, ...], constants: Mapping[str, Any]) -> None:
        """Notes a start, and starts it where that is wanted. Raises Refused where the tile that is tried cannot start.
        """
        started = Start(name, module.kernels[name], grid, values, constants)
        for trial in current:
            trial.starts.append(started)
        if not starting:
            return
        try:
            made = started()
            for trial in current:
                trial.spills.append(int(getattr(made, "n_spills", 0) or 0))
        except Exception as error:
            raise (Refused(current[0].key, current[0].tile, error) if current else error) from error

    watched = {name: _Watched(name, start) for name in module.kernels}
    anew = {name: value.__wrapped__ for name, value in module.space.items() if name in _keeping(module.space)}
    with _replaced(module.space, {"_tile": tile, "TILES": {}, **anew, **watched}):
        _both_halves(module, tensors)
    return {key: trial for key, trial in trials.items() if trial.starts}


def _keeping(space: Mapping[str, Any]) -> set[str]:
    """The functions of a file that keep what they found: how kernels are started, and with that their tiles."""
    return {name for name, value in space.items() if hasattr(value, "cache_clear")}


def hold(space: dict[str, Any], tiles: Mapping[Key, Tile]) -> None:
    """Has the kernels of a file take these tiles from now on."""
    if space["TILES"] != tiles:
        space["TILES"] = dict(tiles)
        for name in _keeping(space):
            space[name].cache_clear()


def _both_halves(module: Emitted, tensors: Mapping[str, Any]) -> None:
    """Calls the function; where the file has its gradient, that too."""
    if "_library" not in module.space:
        module.function(**tensors)
        return
    given = {name: x.detach().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
             for name, x in tensors.items()}
    with torch.enable_grad():
        made = module.function(**given)
    results = [x for x in (made if isinstance(made, tuple) else (made,)) if x.requires_grad]
    wanted = [x for x in given.values() if isinstance(x, torch.Tensor) and x.requires_grad]
    torch.autograd.grad(results, wanted, [torch.ones_like(x) for x in results], allow_unused=True)


def candidates(fitting: Callable[..., Iterator[Tile]], default: Tile, shapes: Sequence[Tile], rows: int, columns: int,
               *rest: Any, **bounds: Any) -> tuple[Tile, ...]:
    """The default, the others of its list that may fit, then these with more or fewer warps and stages, the nearest
    first. What a program holds is an estimate, which keeps no tile from being tried that is only a little beyond it.
    """
    held = bounds["registers"]
    bounds = {**bounds, "registers": lambda *tile: held(*tile) / OVER}
    plain = list(dict.fromkeys(fitting(shapes, rows, columns, *rest, **bounds)))
    shared = bounds["shared"]
    near: list[tuple[float, Tile]] = []
    for rank, (r, c, warps, stages) in enumerate(plain):
        depths = STAGES if shared(r, c, 2) != shared(r, c, 1) else (stages,)  # Nothing passes through: no pipeline.
        for w in WARPS:
            near += [(rank + abs(math.log2(w / warps)) + abs(s - stages), (r, c, w, s)) for s in depths]
    # The last of a list is the least that its tiles may be.
    wide = [*(tile for _, tile in sorted(near, key=lambda one: one[0])), shapes[-1]]
    more = fitting(wide, rows, columns, *rest, **bounds)
    return tuple(dict.fromkeys([default, *plain, *more]))[:MOST]


@dataclass(frozen=True)
class _Watched:
    """Stands for a kernel while its starts are noted."""

    name: str
    start: Callable[..., None]

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *values, **constants: self.start(self.name, grid, values, constants)


@contextmanager
def _replaced(space: dict[str, Any], names: Mapping[str, Any]) -> Iterator[None]:
    before = {name: space[name] for name in names}
    space.update(names)
    try:
        yield
    finally:
        space.update(before)
