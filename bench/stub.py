"""A driver of Triton without a device: kernels of an emitted file are specialised and launched by Triton's own code, up
to the call of the launcher in C, which is noted. Nothing is compiled."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from einc.backends.triton.offline import TARGETS, Gpu

_KERNEL = re.compile(r"_(kernel|join)\d*$")  # several of one value are numbered
PROCESSORS, CACHE = 132, 50 * 2**20  # of an H200; bytes of its level-two cache
_OF_A_DEVICE = ("_ready", "_room", "_numbers", "_parts", "_bands", "_precision")  # helpers that ask for the device


@dataclass(frozen=True)
class Launched:
    """What the launcher in C would be given: a kernel, its programs, and its arguments in the order of its text."""

    kernel: str
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]


@dataclass
class Noted:
    """What was launched, in order, and what would have been compiled: kernels with Triton's key of each."""

    launched: list[Launched] = field(default_factory=list)
    binaries: list[tuple[str, str]] = field(default_factory=list)


class _Binary:
    """A compiled kernel that is none."""

    function, packed_metadata = 1, ()

    def __init__(self, name: str, noted: Noted) -> None:
        self.name, self.noted = name, noted

    def launch_metadata(self, *_: Any) -> None:
        """What tools that watch launches are given."""

    def run(self, x: int, y: int, z: int, *rest: Any) -> None:
        """Called as the launcher in C is: the stream, the function, its metadata and three that tools ask for come
        before the arguments."""
        self.noted.launched.append(Launched(self.name, (x, y, z), rest[6:]))


class _Cuda:
    """A device of CUDA as the helpers of a file see it."""

    type = "cuda"


CUDA = _Cuda()


class _Driver:
    """What Triton asks of a driver before it launches."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def get_current_target(self) -> GPUTarget:
        """The kind of the device."""
        return GPUTarget(self.gpu.driver, self.gpu.architecture, self.gpu.warp)

    def get_current_device(self) -> int:
        """The number of the device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The stream of the device."""
        del device
        return 0


def space(function: Callable[..., Any]) -> dict[str, Any]:
    """The names of the file that a loaded function stands in."""
    names: dict[str, Any] = inspect.unwrap(function).__globals__
    return names


def kernels(function: Callable[..., Any]) -> dict[str, JITFunction[Any]]:
    """The kernels of the file that a loaded function stands in."""
    return {name: one for name, one in space(function).items()
            if isinstance(one, JITFunction) and _KERNEL.search(name)}


@contextmanager
def properties(gpu: Gpu, processors: int = PROCESSORS) -> Iterator[None]:
    """torch answers for a device that is not here."""
    found = SimpleNamespace(multi_processor_count=processors, shared_memory_per_block_optin=gpu.shared,
                            L2_cache_size=CACHE,
                            major=int(gpu.architecture) // 10, minor=int(gpu.architecture) % 10)
    with (patch.object(torch.cuda, "get_device_properties", lambda *_: found),
          patch.object(torch.cuda, "get_device_capability", lambda *_: (found.major, found.minor))):
        yield


@contextmanager
def stubbed(function: Callable[..., Any], target: str = "sm_90", processors: int = PROCESSORS) -> Iterator[Noted]:
    """Calls of a loaded function on tensors of the CPU go all the way to the launcher of such a device, and no farther.

    The file has to be loaded where Triton's interpreter is off, and is not to be used for anything else.
    """
    noted, before = Noted(), driver._active
    _pretend(function)
    for name, kernel in kernels(function).items():
        kernel._do_compile = _compiler(name, kernel, noted)
    driver.set_active(_Driver(TARGETS[target]))
    try:
        with properties(TARGETS[target], processors):
            yield noted
    finally:
        driver._active = before


def _pretend(function: Callable[..., Any]) -> None:
    """Has the helpers of a file take every device for one of CUDA."""
    names = space(function)
    for name in names.keys() & _OF_A_DEVICE:
        names[name] = _asked(names[name])


def _asked(helper: Callable[..., Any]) -> Callable[..., Any]:
    """A helper that is told of another device than that of the tensors. What precision torch allows may change."""
    if helper.__name__ == "_precision":
        return lambda device: helper(CUDA)
    return lru_cache(lambda *given: helper(*(CUDA if isinstance(x, torch.device) else x for x in given)))


def _compiler(name: str, kernel: JITFunction[Any], noted: Noted) -> Callable[..., Any]:
    """In place of compiling: notes Triton's key, by which it would find the binary again."""
    def compiled(key: str, signature: Any, device: int, *_: Any) -> _Binary:
        noted.binaries.append((name, key))
        made = _Binary(name, noted)
        kernel.device_caches[device][0][key] = made
        return made
    return compiled


class SynchronisedError(Exception):
    """The host would wait for the device, or copy between their memories; a graph cannot capture either."""


class _Refusing(TorchDispatchMode):
    """Copies between the host and the device are errors; what reads a tensor without data is one by itself."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation; SynchronisedError where that moves data from the one to the other."""
        made = func(*args, **(kwargs or {}))
        moves = func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_)
        if moves and len({x.device for x in (*args, made) if isinstance(x, torch.Tensor)}) > 1:
            raise SynchronisedError(f"{func} copies between the host and the device")
        return made


class _NoTables(TorchFunctionMode):
    """A tensor of numbers that the host has is an error where it is to stand on a device.

    `torch.tensor` itself stays what it is: torch.compile makes a table of torch's functions once for the process.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of torch; SynchronisedError where that is `torch.tensor` for a device."""
        named = kwargs or {}
        if func is torch.tensor and torch.device(named.get("device") or "cpu").type != "cpu":
            raise SynchronisedError("torch.tensor copies from the host to the device")
        return func(*args, **named)


@contextmanager
def refusing(gpu: Gpu, processors: int = PROCESSORS) -> Iterator[None]:
    """Within it tensors without data stand for those of a device, and whatever would wait for that is an error."""
    def waits(*_: Any) -> None:
        raise SynchronisedError("torch.cuda.synchronize waits for the device")

    with (properties(gpu, processors), patch.object(torch.cuda, "synchronize", waits), torch.device("meta"),
          _NoTables(), _Refusing()):
        yield


def path(function: Callable[..., Any], inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int],
         target: str = "sm_90") -> list[str]:
    """The kernels that a call on inputs of this layout starts on a device, in order. An error of torch, or
    SynchronisedError, where the host would have to wait for the device on its way.

    The inputs stand in the order of the function's parameters: in a file a tensor has a name of its own where a size
    has its letter.
    """
    names, gpu = list[str](), TARGETS[target]
    _pretend(function)
    for name, kernel in kernels(function).items():
        kernel.run = partial(_named, names, name)
    asked = [*inspect.signature(inspect.unwrap(function)).parameters][len(inputs):]
    with refusing(gpu):
        inspect.unwrap(function)(*inputs.values(), **{name: n for name, n in sizes.items() if name in asked})
    return names


def _named(names: list[str], name: str, *_: Any, **__: Any) -> None:
    names.append(name)
