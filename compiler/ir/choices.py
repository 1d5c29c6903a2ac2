"""What a plan may choose that is not mathematics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from einc.ir.elements import Element
from einc.ir.plan import LibraryCall
from einc.ir.programs import Equation


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """A kernel of a library: the equations it computes, and its call with operands by their names.

    `shared` is its call where all the operands `shares` have one element for a run of the last batch; with `repeats`
    such elements may be repeated for it. `inputs` have the words of the call; `beside` are equations outside the
    kernel, of what it alone reads.
    """

    library: LibraryCall
    equations: tuple[Equation, ...]
    beside: tuple[Equation, ...]
    inputs: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    elements: Mapping[str, Element]
    shared: str = ""
    shares: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LibraryRow:
    """A row of a library before its spec is read: how many results its kernel gives, and what makes the kernel, which
    is asked for where a plan has one of so many."""

    results: int
    kernel: Callable[[], LibraryKernel]


@dataclass(frozen=True, slots=True)
class Choices:
    """What is not mathematics. `narrow`: every product of half inputs may be rounded to their type, for speed; `rows`
    are those of a library whose kernels may be called. `ordered`: the back end runs the tiles of a kernel one after the
    other, so that each may add to what those before it made. `compiled`: it compiles every kernel, so that a sum of
    products of elements at the same place is one pass over them. `states`: a pass carries them also where pairs of
    positions cost less at usual extents.
    """

    narrow: bool = False
    rows: tuple[LibraryRow, ...] = ()
    ordered: bool = False
    compiled: bool = False
    states: bool = False


PLAIN = Choices()
