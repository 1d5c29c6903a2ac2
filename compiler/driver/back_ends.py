"""The back ends by their names: what each can do, the modules that do it, and one table
of the targets of all of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from einc.errors.report import EincError, failure
from einc.syntax.spelling import nearest

if TYPE_CHECKING:  # the names of back ends are options of every command, and plans are made by few
    from einc.ir.backend import BackEnd, Binder, Builder, Emitter, Function, Loader, Target, Tuner
    from einc.ir.plan import Gradient, Module, ModuleClass, PerRank, SegmentedModule

AUTO = "auto"  # no back end: which one computes is decided at the call
_AUTOMATIC = "einc.driver.automatic"


@cache
def names() -> tuple[str, ...]:
    """The names of the back ends, in the order in which `einc.backends` lists them."""
    listed: tuple[str, ...] = import_module("einc.backends").BACK_ENDS
    return listed


@cache
def record(name: str) -> BackEnd:
    """The record of a back end. EincError where there is none of the name."""
    if name not in (*names(), AUTO):
        raise failure(f"`{name}` is no back end", f"the back ends are {', '.join(names())}, or {AUTO}")
    found: BackEnd = import_module(f"einc.backends.{written(name)}").BACKEND
    return found


def written(name: str) -> str:
    """The back end whose file is written under a name: of `auto` the one for the CPU."""
    return str(import_module(_AUTOMATIC).CPU) if name == AUTO else name


@cache
def tuned() -> tuple[str, ...]:
    """The names of the back ends that have tiles to choose."""
    return tuple(name for name in names() if record(name).tune)


@cache
def targets() -> MappingProxyType[str, tuple[str, Target]]:
    """Every architecture that kernels can be compiled for: its name -> the name of its back end, and its row."""
    rows = [(name, target) for name in names() for target in record(name).devices]
    return MappingProxyType({target.name: (name, target) for name, target in rows})


def targeted(name: str, backend: str | None = None) -> tuple[str, Target]:
    """The back end that compiles for an architecture, and the row of that. EincError where it is not
    known, or where `backend` is another one.
    """
    if backend is not None and not record(backend).devices:
        raise _lacking(backend, "has no kernels of a device: --target and --emit are not for it",
                       [targets()[name][0]] if name in targets() else [x for x in names() if record(x).devices])
    if name not in targets():
        near = nearest(name, targets())
        said = f"`{name}` is no target" + (f"; did you mean `{near}`?" if near else "")
        raise failure(said, f"the targets are {', '.join(targets())}")
    owner, row = targets()[name]
    if backend is not None and backend != owner:
        raise failure(f"`{name}` is a target of the back end `{owner}`",
                      f"give --backend {owner}, or leave --backend out")
    return owner, row


def chosen(names: str, backend: str | None = None) -> tuple[str, tuple[Target, ...]]:
    """The back end that compiles for architectures between commas, and their rows. EincError where one is not known,
    or they are not of one back end, or where `backend` is another one.
    """
    found = [targeted(name.strip(), backend) for name in names.split(",")]
    owners = {owner: row.name for owner, row in found}
    if len(owners) > 1:
        told = " and ".join(f"`{name}` of the back end `{owner}`" for owner, name in owners.items())
        raise failure(f"there are targets of several back ends, {told}", "give those of one at a time")
    return found[0][0], tuple(row for _, row in found)


def emit(module: Module | Gradient | SegmentedModule | PerRank, backend: str = "torch",
         module_class: ModuleClass | None = None) -> str:
    """The text of the Python file that computes the plan; with a module class it has a class that holds the weights."""
    emitter: Emitter = _imported(backend, record(backend).emit)
    return emitter.emit(module, module_class)


def load(source: str, name: str, backend: str = "torch") -> Function:
    """Executes the text of an emitted file by its back end, and gives the function of that name."""
    return runner(backend).load(source, name)


def runner(backend: str) -> Loader:
    """What loads the files of a back end and knows where they run."""
    loader: Loader = import_module(_AUTOMATIC) if backend == AUTO else _imported(backend, record(backend).load)
    return loader


def tuner(backend: str) -> Tuner:
    """What a back end chooses its tiles with. EincError where it has none to choose."""
    if not record(backend).tune:
        raise _lacking(backend, "has nothing to tune", tuned())
    made: Tuner = _imported(backend, record(backend).tune)
    return made


def builder(target: str) -> Builder:
    """What compiles kernels for an architecture of the table. EincError where it is not in the table."""
    name, _ = targeted(target)
    made: Builder = _imported(name, record(name).offline)
    return made


def binder(backend: str) -> Binder:
    """What makes the libraries that lie beside a file of a back end."""
    made: Binder = _imported(backend, record(backend).beside)
    return made


def _imported(backend: str, module: str) -> Any:
    """A module of a back end. EincError where a library that it needs is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if name == "einc":
            raise
        said = f"{name} is not installed, which the back end `{backend}` needs"
        raise failure(said, f"`pip install {name}`" + (
            ", or compile for the torch back end, which runs anywhere" if backend != "torch" else "")) from None


def _lacking(backend: str, lack: str, able: tuple[str, ...] | list[str]) -> EincError:
    return failure(f"the back end `{backend}` {lack}", f"give {' or '.join(f'--backend {name}' for name in able)}")
