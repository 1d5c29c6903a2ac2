"""What the bench knows of a case: its spec and its data, how each rival does it, and what the exact answer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

Sizes = Mapping[str, int]
Tensors = dict[str, torch.Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


class CannotError(Exception):
    """A rival has no way to do a case; the message says why."""


@dataclass(frozen=True)
class Prepared:
    """A rival ready to be called; `held` is what was made beforehand and stays: masks, biases, block tables."""

    call: Callable[[], torch.Tensor]
    held: tuple[torch.Tensor, ...] = ()

    @property
    def held_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.held)


@dataclass(frozen=True)
class Task:
    """A case at one size and one element type, with its data."""

    case: Case
    sizes: Sizes
    dtype: str
    tensors: Tensors

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device


@dataclass(frozen=True)
class Entry:
    """What every entry of the list of cases has; `asks` are the sizes that our module is given by name."""

    name: str
    title: str
    spec: str
    quick: tuple[Sizes, ...]
    full: tuple[Sizes, ...] = ()
    asks: tuple[str, ...] = ()
    grad: ClassVar[bool] = False  # whether our module is compiled with its gradient
    plan: ClassVar[str | None] = None  # of the text, by which our module is compiled

    def used(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """One call of our function."""
        return function(**given)

    def sizes(self, full: bool) -> tuple[Sizes, ...]:
        return self.quick + self.full if full else self.quick


class Case(Protocol):
    """One entry of the list of cases. A way that does not exist raises CannotError."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def spec(self) -> str:
        """The name of a spec that comes with einc, or its text."""
    @property
    def asks(self) -> tuple[str, ...]:
        """The sizes that our module is given by name."""
    @property
    def grad(self) -> bool:
        """Whether our module is compiled with its gradient."""
    @property
    def plan(self) -> str | None:
        """The plan of the text by which our module is compiled."""
    def used(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """One call of our function."""
    def sizes(self, full: bool) -> tuple[Sizes, ...]: ...
    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors: ...
    def eager(self, task: Task) -> Prepared:
        """Plain torch as a person writes it first."""
    def naive(self, task: Task) -> Prepared:
        """The same for `torch.compile`: one function of the tensors, masks from positions."""
    def library(self, task: Task) -> Prepared:
        """The library's own kernel, with what it needs materialised."""
    def flex(self, task: Task) -> Prepared: ...
    def rows(self, sizes: Sizes) -> torch.Tensor:
        """The rows of the result that are compared: all of them, or a spread of them with both ends."""
    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """These rows of the result by plain torch; in another type than float64 they show what that type costs."""
    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor: ...
    def flops(self, task: Task) -> int:
        """The multiplications and additions of the products over visible pairs, twice each pair."""


def make(case: Case, sizes: Sizes, dtype: str, spread: float = 1.0, seed: int = 0) -> Task:
    """Random data for a case, the same for every rival and in every process. `spread` scales the logits."""
    drawn = case.tensors(sizes, torch.Generator().manual_seed(seed), spread)
    return Task(case, sizes, dtype,
                {name: x.to(DTYPES[dtype]) if x.is_floating_point() else x for name, x in drawn.items()})


def available() -> int:
    """Bytes of memory that a new array may take; a guess of 8 GB where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 8 * 10**9
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), 8 * 10**9)


def room_for(count: int) -> None:
    """CannotError where so many bytes would take most of the machine."""
    if count > 0.6 * available():
        raise CannotError(f"would need {count / 1e9:.0f} GB")
