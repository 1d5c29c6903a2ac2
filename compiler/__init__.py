"""einc: equations in, kernels out. The front door; each name loads what it needs when it is first asked for."""

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_DOORS = {
    "compile": "einc.front",
    "check": "einc.front",
    "Engine": "einc.engine",
    "generate": "einc.generate",
    "stream": "einc.generate",
    "interpret": "einc.front",
    "load_weights": "einc.front",
    "install_hook": "einc.hook",
    "EincError": "einc.errors",
}

__all__ = ["EincError", "Engine", "__version__", "check", "compile", "generate", "install_hook", "interpret", "load_weights",
           "stream"]


class _Package(ModuleType):
    """The package itself, which keeps `einc.check` the function when the file `check.py` is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _DOORS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """A name of the front door, from the module that makes it."""
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_DOORS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
