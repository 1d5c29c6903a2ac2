"""Emitted text -> callable, and where it runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from inspect import unwrap
from typing import Any

from einc.backends.host.load import load as loaded
from einc.errors.report import EincError, Help, Problem

_OFF = ("0", "false", "no", "off")


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of an emitted file. EincError where its kernels have no compiler on this machine, unless the
    environment variable EINC_NATIVE says that none is wanted, or the system is one for which none are compiled.
    """
    function = loaded(source, entry)
    names = unwrap(function).__globals__
    wanted = os.environ.get("EINC_NATIVE", "").strip().lower() not in _OFF and platform.system() == "Linux"
    if wanted and "_native_compiler" in names and not names["_native_compiler"]():
        raise lacking()
    return function


def lacking() -> EincError:
    """The error where the back end `cpp` finds no C++ compiler."""
    return EincError([Problem("no C++ compiler is found, which the back end `cpp` needs", helps=(
        Help("install g++ or clang++, or name one in the environment variable EINC_CXX"),
        Help("compile for the torch back end, which needs none")))])


def device(dtype: str) -> str:
    """Where tensors of the type are put when nobody says where."""
    del dtype
    return "cpu"


def settle() -> None:
    """Does nothing: every call is over when it returns."""
