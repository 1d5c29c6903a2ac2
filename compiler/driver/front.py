"""The front door by its former names, each from the module that makes it, loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from einc.driver.options import Options

_DOORS = {
    "Compiled": "compiled", "Part": "parts", "check": "checking", "compile": "compiling", "constant": "gradients",
    "cut": "compiling", "emit": "back_ends", "generation": "compiling", "gradient": "gradients",
    "interpret": "interpreting", "library": "library", "load": "back_ends", "load_weights": "decoding.maps",
    "part": "parts", "plan": "compiling", "runner": "back_ends", "class_of": "compiling", "tuner": "back_ends",
    "written_map": "decoding.maps",
}


_FORMER = {"shell": "class_of"}


def __getattr__(name: str) -> Any:
    """A name of the front door, from the module that makes it; a former name gives what has the present one. Raises
    AttributeError for any other name."""
    name = _FORMER.get(name, name)
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"einc.driver.{_DOORS[name]}"), name)


def choices(narrow: bool = False, own: bool = False, backend: str = "torch") -> Any:
    """The choices of a plan by the words of the command line: see `compiling.choices`."""
    return import_module(f"einc.driver.{_DOORS['compile']}").choices(Options(backend, narrow=narrow, own=own))


def built(program: Any, backend: str = "torch", **keywords: Any) -> Any:
    """A checked program as a callable, with the keywords of `compile`: see `compiling.built`."""
    keywords["keep"] = tuple(keywords.get("keep", ()))
    return import_module(f"einc.driver.{_DOORS['compile']}").built(program, Options(backend, **keywords))
