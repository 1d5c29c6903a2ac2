"""Emitted text -> callable."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import torch

from einc.backends.host.naming import entry_name


def filename(source: str, entry: str) -> str:
    """The name under which the lines of an emitted module show in tracebacks."""
    return f"<einc {entry} {abs(hash(source)):x}>"


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of an emitted module; its lines show in tracebacks."""
    name = filename(source, entry)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": f"einc.emitted.{entry}"}
    # Without the future statements of this file: Triton reads the annotations of parameters as they are.
    exec(compile(source, name, "exec", dont_inherit=True), space)
    del space["__name__"]  # No such module can be imported, which torch.compile would otherwise do.
    function: Callable[..., Any] = space[entry_name(entry)]
    return function


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    return torch.cuda.is_available()
