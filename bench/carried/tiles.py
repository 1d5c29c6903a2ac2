"""A carried module and the tiles of its kernels: which fit, which one is held, and what the compiler says of each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Tile = tuple[int, ...]  # rows, columns, warps, stages
Used = Callable[[Callable[..., Any], dict[str, Any]], Any]  # a function and what it is given: one call

# Tiles that a module does not try by itself, for kernels of products. The estimate of registers does not hold them
# back.
MORE: tuple[Tile, ...] = (
    (128, 128, 8, 3), (128, 64, 8, 4), (128, 64, 8, 2), (128, 64, 4, 2), (128, 64, 4, 3), (128, 32, 4, 3),
    (64, 128, 4, 3), (64, 64, 4, 4), (64, 64, 4, 2), (64, 32, 4, 4), (64, 32, 4, 3), (32, 64, 4, 3), (32, 32, 4, 3),
    (16, 256, 8, 3), (16, 128, 8, 4), (16, 128, 4, 4), (16, 128, 4, 3), (16, 64, 4, 5), (16, 64, 4, 3), (16, 32, 4, 4),
)


def worth(own: Tile, found: list[Tile]) -> tuple[Tile, ...]:
    """The tiles to try: a kernel's own choice, then the others from the largest on,
    without those far smaller than its own."""
    rows, area = own[0], own[0] * own[1]
    near = [tile for tile in found if 4 * tile[0] >= rows and 8 * tile[0] * tile[1] >= area]
    return tuple(dict.fromkeys([own, *sorted(near, key=lambda tile: -tile[0] * tile[1])]))


class PastError(Exception):
    """A kernel of products has fewer tiles than that."""


class Carried:
    """A generated module, imported from its file. `seen` has the tiles that fit each kernel it has started, its own
    choice first; `held` makes it take another one."""

    def __init__(self, file: Path, entry: str, used: Used | None = None) -> None:
        found = importlib.util.spec_from_file_location(f"kernels_{file.stem}", file)
        assert found is not None and found.loader is not None
        self.module = importlib.util.module_from_spec(found)
        found.loader.exec_module(self.module)
        self.place = file, entry, used
        self.used = used or (lambda function, given: function(**given))
        self.entry: Callable[..., Any] = getattr(self.module, entry)
        self.seen: dict[str, tuple[Tile, ...]] = {}
        self.asked: dict[str, tuple[int, int]] = {}
        self._held: dict[str, Tile] = {}
        self._turn: int | None = None
        self._choose: Callable[..., Tile] | None = getattr(self.module, "_tile", None)
        if self._choose is not None:
            self.module.__dict__["_tile"] = self._tile

    def __call__(self, **given: Any) -> Any:
        return self.used(self.entry, given)

    def copied(self, tiles: dict[str, Tile]) -> Carried:
        """The same module once more, with these tiles."""
        made = Carried(*self.place)
        made.held = tiles
        return made

    @property
    def held(self) -> dict[str, Tile]:
        """The tiles that kernels take in place of their own choice."""
        return self._held

    @held.setter
    def held(self, tiles: dict[str, Tile]) -> None:
        if tiles != self._held:
            self._held = tiles
            self._forget()

    @property
    def turn(self) -> int | None:
        """The number of the tile that every kernel takes, where it has so many."""
        return self._turn

    @turn.setter
    def turn(self, number: int | None) -> None:
        self._turn = number
        self._forget()

    def _forget(self) -> None:
        """Has the module choose anew: it keeps how its kernels are started."""
        for value in vars(self.module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()

    def _tile(self, name: str, shapes: tuple[Tile, ...], rows: int, columns: int, *rest: Any, **how: Any) -> Tile:
        assert self._choose is not None
        own = tuple(self._choose(name, shapes, rows, columns, *rest, **how))
        products = shapes in [getattr(self.module, name, None) for name in ("_PRODUCTS", "_DEEP")]
        if name not in self.seen:
            found = list(self.module._fitting(shapes, rows, columns, *rest, **how))
            if products:
                found += self.module._fitting(MORE, rows, columns, *rest, **{**how, "registers": lambda *_: 0})
            self.seen[name] = worth(own, [tuple(tile) for tile in found])
            self.asked[name] = (rows, columns)
        if self.turn is None:
            return self.held.get(name, own)
        if self.turn < len(self.seen[name]):
            return self.seen[name][self.turn]
        if products:
            raise PastError
        return own

    def kernels(self) -> list[str]:
        """The kernels that were started, those over most elements first."""
        return sorted(self.seen, key=lambda name: -self.asked[name][0] * self.asked[name][1])

    def choice(self, name: str) -> Tile:
        return self.held.get(name, self.seen[name][0])

    @contextmanager
    def told(self) -> Iterator[dict[str, dict[str, int]]]:
        """By kernel, the registers and spilled registers of what is started meanwhile,
        where the compiler tells them."""
        found: dict[str, dict[str, int]] = {}
        kernels = {name: value for name, value in vars(self.module).items()
                   if re.search(r"_kernel\d*$", name) and hasattr(value, "run")}
        before = {name: kernel.__dict__.get("run") for name, kernel in kernels.items()}
        for name, kernel in kernels.items():
            kernel.run = _telling(kernel.run, found, name.removeprefix("_").removesuffix("_kernel"))
        try:
            yield found
        finally:
            for name, kernel in kernels.items():
                del kernel.run
                if before[name] is not None:
                    kernel.run = before[name]


def _telling(run: Callable[..., Any], found: dict[str, dict[str, int]], name: str) -> Callable[..., Any]:
    def running(*given: Any, **named: Any) -> Any:
        made = run(*given, **named)
        figures = {label: getattr(made, label, None) for label in ("n_regs", "n_spills")}
        found[name] = {label: value for label, value in figures.items() if isinstance(value, int)}
        return made

    return running
