"""How a spec is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Grad = bool | Literal["exact"]  # "exact": only where no slope is declared


PARTS = ("once", "rest")  # what makes tensors of weights alone, and what is given these in place of the weights


@dataclass(frozen=True)
class Options:
    """The keywords of `einc.compile`, whose docstring says what each does. `plan` has names of plans with commas
    between, and may have a word of `PARTS`.
    """

    backend: str = "torch"
    strict: bool = False
    narrow: bool = False
    own: bool = False
    tune: bool = False
    module: bool = False
    grad: Grad = False
    plan: str = ""
    keep: tuple[str, ...] = ()
    section: str = ""
    side: str | Path | None = None
    equation: str = ""

    @property
    def plans(self) -> tuple[str, ...]:
        """The names of the plans that are chosen."""
        return tuple(name for name in names_of(self.plan) if name not in PARTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The words of `PARTS` among the names."""
        return tuple(dict.fromkeys(name for name in names_of(self.plan) if name in PARTS))

    @property
    def part(self) -> str:
        """The part of the program that is meant; empty for the whole."""
        return next(iter(self.parts), "")

    @property
    def serves(self) -> bool:
        """Whether the file has a step that adds positions to a cache."""
        return "serve" in self.plans


DEFAULTS = Options()


def names_of(listed: str | None) -> tuple[str, ...]:
    """The names of an option's list with commas, `K, V` -> ("K", "V"); none where the option is not given."""
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())
