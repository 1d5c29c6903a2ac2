"""Machine code that was compiled where einc is, started through the driver: what runs is what was counted, whichever
Triton is here. The host's part is that of the carried module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

LARGE = 48 * 1024  # bytes of shared memory beyond which the driver has to be asked
_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
Row = dict[str, Any]


class MissingError(Exception):
    """No machine code was carried for a call."""


class Driver:
    """The few functions of NVIDIA's driver that a launch takes; each says by its number that it went well."""

    def __init__(self, library: Any = None) -> None:
        self.library = library or ctypes.CDLL("libcuda.so.1")

    def ask(self, name: str, *given: Any) -> None:
        """Calls one. RuntimeError where it does not go well."""
        code = getattr(self.library, name)(*given)
        if code:
            raise RuntimeError(f"{name} of the driver answers {code}")

    def function(self, code: bytes, symbol: str, shared: int) -> ctypes.c_void_p:
        """A kernel of a cubin, with as much shared memory as it needs."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.ask("cuModuleLoadData", ctypes.byref(module), code)
        self.ask("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared > LARGE:
            self.ask("cuFuncSetAttribute", function, _MOST_SHARED, shared)
        return function

    def launch(self, function: ctypes.c_void_p, programs: int, threads: int, shared: int,
               values: Sequence[Any]) -> None:
        """Starts it on torch's stream; `values` are numbers of C."""
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else None)
        self.ask("cuLaunchKernel", function, programs, 1, 1, threads, 1, 1, shared, stream, places, None)


def key(parameters: Sequence[Any], given: Sequence[Any], constants: Mapping[str, Any]) -> str:
    """What machine code is made for: the types of the arguments, what is known of each, constants and options."""
    kinds = []
    for parameter, value in zip(parameters, given, strict=False):
        if isinstance(value, torch.Tensor):
            kinds.append(f"{value.dtype} {value.data_ptr() % 16 == 0}")
        elif isinstance(value, int):
            known = () if parameter.do_not_specialize else (value == 1, value % 16 == 0)
            kinds.append(f"int {value.bit_length() > 31} {known}")
        else:
            kinds.append(type(value).__name__)
    return "; ".join([*kinds, *(f"{name}={constants[name]}" for name in sorted(constants))])


def packed(parameters: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The arguments that the code reads, as numbers of C, and two pointers to memory for Triton's own use, here null.
    What it was made for, a 1 or nothing, is no argument."""
    out: list[Any] = []
    for parameter, value in zip(parameters, given, strict=False):
        if isinstance(value, torch.Tensor):
            out.append(ctypes.c_void_p(value.data_ptr()))
        elif isinstance(value, float):
            out.append(ctypes.c_double(value))
        elif value is not None and (parameter.do_not_specialize or value != 1):
            out.append((ctypes.c_int64 if value.bit_length() > 31 else ctypes.c_int32)(value))
    return [*out, ctypes.c_void_p(None), ctypes.c_void_p(None)]


@dataclass
class Loaded:
    """Stands in a module for one of its kernels. `codes` are rows of the manifest by `key`."""

    name: str
    parameters: Sequence[Any]
    codes: Mapping[str, Row]
    folder: Path
    driver: Driver

    def __post_init__(self) -> None:
        self.functions: dict[str, ctypes.c_void_p] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """As with Triton's own kernels: a function that starts it with so many programs."""
        def start(*given: Any, **constants: Any) -> None:
            asked = key(self.parameters, given, constants)
            row = self.codes.get(asked)
            if row is None:
                raise MissingError(f"no machine code of {self.name} was carried for {asked}")
            if asked not in self.functions:
                code = (self.folder / row["file"]).read_bytes()
                self.functions[asked] = self.driver.function(code, row["symbol"], row["shared"])
            self.driver.launch(self.functions[asked], grid[0], row["threads"], row["shared"],
                               packed(self.parameters, given))
        return start


def load(module: Any, rows: Sequence[Row], folder: Path, driver: Driver) -> None:
    """Has the kernels of a module be what was carried for them."""
    for name in {row["kernel"] for row in rows}:
        kernel = getattr(module, name)
        codes = {row["key"]: row for row in rows if row["kernel"] == name}
        setattr(module, name, Loaded(name, kernel.params, codes, folder, driver))
