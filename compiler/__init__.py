"""einc: equations in, kernels out. The front door; each name loads what it needs when it is first asked for."""

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import Any

__version__ = "0.2.0"

_DOORS = {
    "compile": "einc.driver.compiling",
    "check": "einc.driver.checking",
    "Engine": "einc.driver.decoding.engine",
    "generate": "einc.driver.decoding.generate",
    "stream": "einc.driver.decoding.generate",
    "interpret": "einc.driver.interpreting",
    "in_bytes": "einc.driver.bytes",
    "from_bytes": "einc.driver.bytes",
    "load_weights": "einc.driver.decoding.maps",
    "install_hook": "einc.driver.hook",
    "load_ipython_extension": "einc.driver.notebook",
    "unload_ipython_extension": "einc.driver.notebook",
    "EincError": "einc.errors.report",
}

__all__ = ["EincError", "Engine", "__version__", "check", "compile", "from_bytes", "generate", "in_bytes",
           "install_hook", "interpret", "load_weights", "stream"]


def __getattr__(name: str) -> Any:
    """A name of the front door, from the module that makes it. AttributeError for any other name."""
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_DOORS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Moved:
    """Finds modules by the names that they had before they moved."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("einc."):
            return None
        found: ModuleSpec | None = importlib.import_module("einc.driver.moved").find(name)
        return found


sys.meta_path.append(_Moved)
