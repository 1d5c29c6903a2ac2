"""What is found of a loop of one state: its operands, as tensors outside of the loop."""

from __future__ import annotations

from dataclasses import dataclass

from einc.ir.indices import Index


@dataclass(frozen=True)
class Operand:
    """A tensor with a letter for each of its axes."""

    tensor: str
    letters: tuple[Index, ...]


@dataclass(frozen=True)
class Affine:
    """S_t = g_t S_{t-1} + Σ k v + Σ u (c + w · S_{t-1}), and what is read of it: S_t where the flag is set.

    `letters` are those of the state in its order; each is of the `batch`, `met` or `passing`.
    """

    letters: tuple[Index, ...]
    batch: tuple[Index, ...]
    met: tuple[Index, ...]
    passing: tuple[Index, ...]
    gate: Operand
    known: tuple[tuple[Operand, Operand], ...]
    unknown: tuple[tuple[Operand, Operand, Operand], ...]
    reads: tuple[tuple[str, Operand, bool], ...]


@dataclass(frozen=True)
class Scanned:
    """S_t = g_t S_{t-1} + x_t, element by element, or, where it is the `largest`, S_t = max(g_t + S_{t-1}, x_t);
    `letters` are those of the state."""

    letters: tuple[Index, ...]
    gate: Operand
    added: Operand
    largest: bool
    before: str  # what holds the state before each round, if anything reads that
