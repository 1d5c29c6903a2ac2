"""Emitted text -> callable."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from einc.backends.host.naming import entry_name


def filename(source: str, entry: str) -> str:
    """The name under which the lines of an emitted module show in tracebacks."""
    return f"<einc {entry} {abs(hash(source)):x}>"


@contextmanager
def listed(name: str) -> Iterator[None]:
    """While this lasts, Python lists a module that has this file. For each operator that a text registers, torch asks
    Python for the place of the call, and Python looks through every module that is loaded for one with that file: once
    for a file that a module has, and again each time for one that none has.
    """
    module = ModuleType(name)
    module.__file__ = name
    sys.modules[name] = module
    try:
        yield
    finally:
        sys.modules.pop(name, None)


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of an emitted module; its lines show in tracebacks."""
    name = filename(source, entry)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": f"einc.emitted.{entry}"}
    # Without the future statements of this file: Triton reads the annotations of parameters as they are.
    with listed(name):
        exec(compile(source, name, "exec", dont_inherit=True), space)
    del space["__name__"]  # No such module can be imported, which torch.compile would otherwise do.
    function: Callable[..., Any] = space[entry_name(entry)]
    return function


def has_gpu() -> bool:
    """Whether torch can use a GPU on this machine."""
    return torch.cuda.is_available()
