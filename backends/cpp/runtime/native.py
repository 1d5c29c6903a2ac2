"""Compiled kernels: C++ text to functions. The compiler runs once for each text, type of data, set of flags and processor."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

_DATA = {torch.float32: "float", torch.bfloat16: "bf16", torch.float16: "f16"}
_FLAGS = ("-std=gnu++17", "-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-Wno-psabi", "-w")
_LIBRARIES: dict[tuple[str, torch.dtype], Any] = {}
_LOCK = threading.Lock()
_FORKED = [False]
if hasattr(os, "register_at_fork"):  # the threads of OpenMP do not live on in a child
    os.register_at_fork(after_in_child=lambda: _FORKED.__setitem__(0, True))


def _native_compiler() -> str:
    """The C++ compiler that is used, as a path; empty where there is none, or none is wanted."""
    if os.environ.get("EINC_NATIVE") == "0" or platform.system() != "Linux":
        return ""
    names = (os.environ.get("EINC_CXX"), os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), "")


def _native_folder() -> Path:
    """The folder of compiled kernels, of this user alone. OSError where there can be none."""
    given = os.environ.get("EINC_CACHE_DIR")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "einc"
    folder = base / "native"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a folder of this user alone")
    return folder


def _native_identity(compiler: str) -> str:
    """What a compiled kernel depends on beside its text: the compiler and the processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines() if Path("/proc/cpuinfo").exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{compiler}\n{version}\n{platform.machine()}\n{features}"


def _native_built(compiler: str, text: str, dtype: torch.dtype) -> Path:
    """The library of a text, compiled if no earlier run has left it. OSError or SubprocessError where that fails."""
    flags = (*_FLAGS, f"-DDATA={_DATA[dtype]}", f"-DHALF={int(dtype != torch.float32)}")
    key = hashlib.sha256("\0".join([text, *flags, _native_identity(compiler)]).encode()).hexdigest()
    keep = os.environ.get("EINC_SKIP_CACHE") not in ("1", "true")
    folder = _native_folder() if keep else Path(tempfile.mkdtemp(prefix="einc-"))
    path, mark = folder / f"{key}.so", folder / f"{key}.sha256"
    try:
        data = path.read_bytes()
        if path.lstat().st_uid == os.getuid() and mark.read_text() == hashlib.sha256(data).hexdigest():
            return path
    except OSError:
        pass
    logging.getLogger("einc").info("compiling kernels for this processor with %s", compiler)
    with tempfile.TemporaryDirectory(dir=folder) as room:
        made = Path(room) / "kernels.so"
        subprocess.run([compiler, *flags, "-x", "c++", "-", "-o", str(made), "-lm"], input=text.encode(), cwd=room,
                       capture_output=True, check=True, timeout=600)
        told = Path(room) / "told"
        told.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        os.replace(made, path)
        os.replace(told, mark)
    return path


def _native_library(text: str, dtype: torch.dtype) -> Any:
    """The loaded library of a text, or None where torch's statements have to do."""
    if (text, dtype) in _LIBRARIES:
        return _LIBRARIES[text, dtype]
    with _LOCK:
        if (text, dtype) not in _LIBRARIES:
            library, compiler = None, _native_compiler()
            if compiler and dtype in _DATA:
                try:
                    library = ctypes.CDLL(str(_native_built(compiler, text, dtype)))
                except (OSError, subprocess.SubprocessError) as failure:
                    logging.getLogger("einc").warning("no kernels are compiled, torch computes instead: %s", _native_said(failure))
            _LIBRARIES[text, dtype] = library
    return _LIBRARIES[text, dtype]


def _native_said(failure: Exception) -> str:
    """What a compiler that failed said first."""
    said = getattr(failure, "stderr", None)
    lines = said.decode(errors="replace").splitlines() if isinstance(said, bytes) else []
    return next((line for line in lines if "error" in line), str(failure))


def _native_ready(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether compiled kernels run where the tensors are."""
    return (device.type == "cpu" and dtype in _DATA and not torch.compiler.is_compiling()
            and _native_library(_CPP, dtype) is not None)  # noqa: F821


def _native(name: str, dtype: torch.dtype, tensors: list[torch.Tensor], sizes: list[int], numbers: list[float]) -> bool:
    """Runs a compiled kernel on tensors whose types and shapes are known. False where it has not run: the results are then
    torch's to compute."""
    plain = (torch.Tensor, torch.nn.Parameter)
    if dtype not in _DATA or torch.compiler.is_compiling() or any(
            type(x) not in plain or x.device.type != "cpu" or x.is_neg() for x in tensors):
        return False
    library = _native_library(_CPP, dtype)  # noqa: F821
    if library is None:
        return False
    try:
        pointers = (ctypes.c_void_p * len(tensors))(*(x.data_ptr() for x in tensors))
    except RuntimeError:  # a tensor of a transformation has no memory of its own
        return False
    whole = [n for x in tensors for n in x.stride()] + sizes
    integers = (ctypes.c_longlong * max(1, len(whole)))(*whole)
    reals = (ctypes.c_double * max(1, len(numbers)))(*numbers)
    threads = 1 if _FORKED[0] else torch.get_num_threads()
    needed = getattr(library, f"{name}_room")
    needed.restype = ctypes.c_longlong
    each = needed(integers)
    room = torch.empty(threads * each + 16, dtype=torch.float32)
    start = room.data_ptr() + -room.data_ptr() % 64
    run = getattr(library, name)
    run.restype = ctypes.c_longlong
    done = run(pointers, integers, reals, ctypes.c_void_p(start), ctypes.c_longlong(each), ctypes.c_longlong(threads))
    return bool(done == 0)
