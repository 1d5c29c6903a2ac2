"""What a back end is: its name, what it can write, the targets it compiles for, and the modules that do its work.

A back end is a package of `backends/` with a constant `BACKEND`, which is such a record. The parts of its work are
modules by their full names; the driver imports one where it is needed, so that reading the record needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from einc.ir.elements import Kind
from einc.ir.folds import FoldRow
from einc.ir.plan import Gradient, Module, ModuleClass, Op, PerRank, SegmentedModule, Step
from einc.ir.primitives import Primitive

Writable = Primitive | FoldRow | type[Op] | type[Step]
Spells = Callable[[Writable, Kind], bool]
Function = Callable[..., Any]  # an emitted function: tensors in, a tensor or a named tuple of tensors out


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture that kernels can be compiled for where no such device is present.

    `forms` are the forms in which a compiled kernel can be written, the usual one first; those in `binary` are no text.
    """

    name: str
    forms: tuple[str, ...]
    binary: frozenset[str]

    @property
    def texts(self) -> tuple[str, ...]:
        """The forms of compiled code that are text, and can be printed."""
        return tuple(form for form in self.forms if form not in self.binary)


@dataclass(frozen=True, slots=True)
class BackEnd:
    """One back end.

    `ordered`: it runs the tiles of a kernel one after the other, so that each may add to what those before it made.
    `compiled`: every kernel is compiled, however little it does, so that only what it stores passes through memory.
    `spells(what, element)`: whether it can write a primitive, a fold, an operation of a let or a step of a plan, for
    values of the element type: those of the result, or where a primitive is a relation those of its operands. `emit`,
    `load`, `tune`, `offline` and `beside` are the modules that satisfy `Emitter`, `Loader`, `Tuner`, `Builder` and
    `Binder`. The last three are empty where a back end has no tiles to choose, or no target to compile for: for its
    targets it has either kernels of a call, or libraries that lie beside a file.
    """

    name: str
    ordered: bool
    compiled: bool
    spells: Spells
    devices: tuple[Target, ...]
    emit: str
    load: str
    tune: str = ""
    offline: str = ""
    beside: str = ""


# What the modules have to offer.


class Emitter(Protocol):
    """A module that writes files."""

    def emit(self, plan: Module | Gradient | SegmentedModule | PerRank, module_class: ModuleClass | None = None) -> str:
        """The text of a Python file that computes the plan, and with `module_class` of a class that has the weights."""
        ...


class Loader(Protocol):
    """A module that runs files."""

    def load(self, source: str, entry: str) -> Function:
        """The function `entry` of an emitted file."""
        ...

    def device(self, dtype: str) -> str:
        """Where tensors of the type are put when nobody says where. EincError where there is no such place."""
        ...

    def settle(self) -> None:
        """Waits for the work that was started."""
        ...


class Timed(Protocol):
    """The tile that was found for one kernel; `key` is the kernel with the rows and columns of its data."""

    @property
    def key(self) -> tuple[str, int, int]:
        """The kernel's name with the number of rows and columns of its data."""
        ...

    @property
    def tile(self) -> tuple[int, int, int, int]:
        """The fastest tile that was found for it: rows, columns, warps and stages."""
        ...

    @property
    def default(self) -> tuple[int, int, int, int]:
        """The tile that the kernel has without tuning."""
        ...

    @property
    def ratio(self) -> float:
        """The default tile's time over the found tile's."""
        ...

    @property
    def timed(self) -> int:
        """The number of different tiles that were timed."""
        ...

    @property
    def cached(self) -> bool:
        """Whether the tile was read from the cache on disk."""
        ...


class Timings(Protocol):
    """What tuning found: `missing` are kernels of which nothing is known, `lost` says why
    nothing could be written to disk."""

    @property
    def found(self) -> Sequence[Timed]:
        """The tiles that are known, one for each kernel."""
        ...

    @property
    def missing(self) -> Sequence[str]:
        """The kernels of which nothing is known."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know of the run, such as tiles that were left out."""
        ...

    @property
    def lost(self) -> str:
        """Why nothing could be written to disk; empty where nothing is lost."""
        ...

    @property
    def tiles(self) -> Mapping[tuple[str, int, int], tuple[int, int, int, int]]:
        """The table of tiles, by kernel, rows and columns."""
        ...


class Tuner(Protocol):
    """A module that chooses the tiles of kernels by timing them."""

    def device(self) -> object:
        """The device that kernels are timed on. EincError where there is none."""
        ...

    def placed(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs, copied to the device that is timed."""
        ...

    def tune(self, function: Function, tensors: Mapping[str, Any]) -> Timings:
        """Times the kernels of a loaded function on the given tensors and sizes, and
        writes the best tiles into its table."""
        ...

    def kept(self, function: Function, tensors: Mapping[str, Any]) -> Timings:
        """What an earlier run found for such a call."""
        ...

    def told(self, tile: tuple[int, int, int, int]) -> str:
        """A tile in words, for people."""
        ...

    def baked(self, source: str, tiles: Mapping[tuple[str, int, int], tuple[int, int, int, int]]) -> str:
        """An emitted file with the tiles in its table."""
        ...

    def tuning(self, function: Function) -> Function:
        """A function that tunes itself in the first call for tensors of each shape, type and device."""
        ...


class Compiled(Protocol):
    """One kernel of a call, compiled: its name, and its code by the names of the forms."""

    @property
    def kernel(self) -> str:
        """The name of the kernel that was compiled."""
        ...

    @property
    def code(self) -> Mapping[str, str | bytes]:
        """The code by the name of its form."""
        ...

    def described(self) -> dict[str, Any]:
        """What a loader must know to start the kernel, as plain data."""
        ...


class Builder(Protocol):
    """A module that compiles kernels for targets."""

    def kernels(self, plan: Module, source: str, sizes: Mapping[str, int], dtype: str,
                target: str) -> Sequence[Compiled]:
        """Every kernel that a call of the emitted file at these sizes starts, compiled for the target of that name.
        Raises what the function or the compiler raises.
        """
        ...


class Beside(Protocol):
    """A library of a file's kernels: the name of its file, which lies beside that of Python, and what is in it."""

    @property
    def name(self) -> str:
        """The name of the file of this library."""
        ...

    @property
    def code(self) -> bytes:
        """The bytes that are written into the file of this library."""
        ...


class Binder(Protocol):
    """A module that makes libraries for targets, of which an emitted file takes the one for the processor at hand."""

    def libraries(self, source: str, entry: str, name: str, targets: Sequence[str],
                  dtype: str | None) -> Sequence[Beside]:
        """The libraries of an emitted file for the targets of these names, for data of one type or of all; their names
        begin with one. EincError where that fails.
        """
        ...

    def bound(self, source: str, libraries: Sequence[Any]) -> str:
        """The text of an emitted file that knows these libraries and takes them in place of a compiler."""
        ...
