"""Compiled kernels: C++ text to functions. The compiler runs once for each text, type of data, set of flags and
processor.

What is compiled is kept in the folder `native` of einc's cache. A library that is loaded from there lies in a folder of
this user alone, is this user's file, and has the hash that was written beside it. Where libraries were written together
with the file, those are asked first: one is loaded if its hash is the one that stands in the file.
"""

from __future__ import annotations

import array
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
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode

_NATIVE_TYPES = {torch.float32: "float", torch.bfloat16: "bf16", torch.float16: "f16"}
_NATIVE_FLAGS = (
    "-std=gnu++17", "-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-w",
    "-x", "c++", "-", "-lm",
)
# The libraries beside this file, which `einc compile --target` writes in: for each processor its machine, what it must
# have, and by type of data and vectors of a tile of rows the name of a library, and the hash of its bytes and the text
# of the kernels. Of several processors that fit the first is taken.
_NATIVE_BESIDE: tuple[tuple[str, str, dict[tuple[str, int], tuple[str, str]]], ...] = ()
_NATIVE_TOLD: set[str] = set()  # what was told already
_NATIVE_LIMIT = 256 * 2**20  # bytes of libraries that are kept; the oldest go first
_NATIVE_ROOM = 2**21  # numbers of memory that a thread keeps for its next calls; more is given back
_LIBRARIES: dict[tuple[str, torch.dtype, int], Any] = {}
_NATIVE_ENTRIES: dict[tuple[Any, str], tuple[Any, Any]] = {}  # by library and name what is called
_RAN: dict[str, bool] = {}  # by the name of a kernel whether its last call ran compiled
_NATIVE_PATIENCE = [0.0]  # operations of a thread that calls have to have before kernels are compiled; `auto` sets it
_NATIVE_DONE = [0.0]  # what they have had
_NATIVE_LOCKS = {os.getpid(): threading.Lock()}  # one a process: what another one held when it forked is never freed
_NATIVE_ONE_RUN: list[torch.Tensor] = []  # see `_native_one_run`
_NATIVE_ROOMS = threading.local()  # the memory of a thread for its calls, one after the other
_NATIVE_PROCESS = os.getpid()  # the threads of OpenMP do not live on in a child of it


def _native_wanted() -> bool:
    """Whether compiled kernels may run: not where $EINC_NATIVE is 0, false, no or off."""
    return os.environ.get("EINC_NATIVE", "").strip().lower() not in ("0", "false", "no", "off")


def _native_compiler() -> str:
    """The C++ compiler that is used, as a path; empty where there is none, or none is wanted."""
    if not _native_wanted() or platform.system() != "Linux":
        return ""
    names = (os.environ.get("EINC_CXX"), os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), "")


def _native_folder() -> Path:
    """The folder of compiled kernels, of this user alone. OSError where there can be none."""
    given, home = os.environ.get("EINC_CACHE_DIR"), Path(os.path.expanduser("~"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    usual = ((Path(base) if os.path.isabs(base) else home / ".cache") if home.is_absolute()
             else Path(tempfile.gettempdir()))
    folder = (Path(given).expanduser() if given else usual / "einc") / "native"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user alone")
    return folder


def _native_features() -> str:
    """What the processor can do, as the system lists it."""
    path = Path("/proc/cpuinfo")
    about = path.read_text(errors="replace").splitlines() if path.exists() else []
    found = next((line for line in about if line.startswith(("flags", "Features"))), platform.processor())
    return found.partition(":")[2].strip() or found


def _native_flags(dtype: torch.dtype, vectors: int) -> tuple[str, ...]:
    """The flags of the compiler for data of a type, and tiles of so many vectors of rows."""
    return (*_NATIVE_FLAGS, f"-DDATA={_NATIVE_TYPES[dtype]}", f"-DHALF={int(dtype != torch.float32)}",
            f"-DBF16={int(dtype == torch.bfloat16)}", f"-DQV={vectors}")


def _native_key(compiler: str, flags: tuple[str, ...], text: str) -> str:
    """The hash of all that a library depends on: its text, the flags, the compiler and the processor."""
    done = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60)
    version = done.stdout.decode(errors="replace")
    parts = [text, *flags, compiler, version, platform.machine(), _native_features()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _native_compiled(compiler: str, flags: tuple[str, ...], text: str, folder: Path) -> Path:
    """Compiles a text into a new folder within a folder; the library. SubprocessError where the compiler fails."""
    room = Path(tempfile.mkdtemp(prefix="making-", dir=folder))
    made = room / "kernels.so"
    logging.getLogger("einc").info("compiling kernels for this processor with %s", compiler)
    try:
        subprocess.run([compiler, *flags, "-o", str(made)], input=text.encode(), cwd=room, capture_output=True,
                       check=True, timeout=600)
    except BaseException:
        shutil.rmtree(room, ignore_errors=True)
        raise
    return made


def _native_whole(path: Path) -> bool:
    """Whether a library is this user's, and is what was written."""
    try:
        found = path.lstat()
        told = path.with_suffix(".sha256").read_bytes()
        return (stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
                and hashlib.sha256(path.read_bytes()).hexdigest().encode() == told)
    except OSError:
        return False


def _native_kept(path: Path, made: Path) -> None:
    """Moves a library to its place in the cache, its hash before it."""
    told = made.with_suffix(".sha256")
    told.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
    os.replace(told, path.with_suffix(".sha256"))
    os.replace(made, path)


def _native_swept(folder: Path) -> None:
    """Deletes the oldest libraries beyond the limit, and what processes that were killed have left;
    never the newest.
    """
    ages: list[tuple[float, int, Path]] = []
    for one in folder.glob("*"):
        with suppress(OSError):  # another process may delete at the same time
            found = one.lstat()
            if stat.S_ISDIR(found.st_mode) and time.time() - found.st_mtime > 3600:
                shutil.rmtree(one, ignore_errors=True)
            elif one.suffix == ".so":
                ages.append((found.st_mtime, found.st_size, one))
    total = 0
    for n, (_, size, one) in enumerate(sorted(ages, reverse=True)):
        total += size
        if n and total > _NATIVE_LIMIT:
            one.unlink(missing_ok=True)
            one.with_suffix(".sha256").unlink(missing_ok=True)


def _native_opened(path: Path) -> Any:
    """A library with the functions that it has to have. OSError where it is something else."""
    library = ctypes.CDLL(str(path))
    try:
        library.complete.restype = ctypes.c_longlong
    except AttributeError as failure:
        raise OSError(f"{path} is no library of kernels") from failure
    return library


def _native_loaded(compiler: str, text: str, dtype: torch.dtype, vectors: int) -> Any:
    """The library of a text, compiled if no earlier run has left it; what cannot be loaded is compiled anew, and not
    kept. OSError or SubprocessError where that fails.
    """
    flags = _native_flags(dtype, vectors)
    if os.environ.get("EINC_SKIP_CACHE", "").strip().lower() not in ("", "0", "false", "no", "off"):
        with tempfile.TemporaryDirectory(prefix="einc-") as room:
            return _native_opened(_native_compiled(compiler, flags, text, Path(room)))
    folder = _native_folder()
    path = folder / f"{_native_key(compiler, flags, text)}.so"
    if _native_whole(path):
        with suppress(OSError):
            return _native_opened(path)
    made = _native_compiled(compiler, flags, text, folder)
    try:
        library = _native_opened(made)
        _native_kept(path, made)
        _native_swept(folder)
    finally:
        shutil.rmtree(made.parent, ignore_errors=True)
    return library


def _native_beside(text: str, dtype: torch.dtype, vectors: int) -> Any:
    """The library beside this file for this processor, or None. One that is missing, or is not what was written with
    the file, is not loaded, which is told.
    """
    have, folder = set(_native_features().split()), Path(globals().get("__file__") or "kernels.py").resolve().parent
    for machine, needed, libraries in _NATIVE_BESIDE:
        name, told = libraries.get((str(dtype).partition(".")[2], vectors), ("", ""))
        if not name or machine != platform.machine() or not have.issuperset(needed.split()):
            continue
        try:
            if hashlib.sha256((folder / name).read_bytes() + text.encode()).hexdigest() == told:
                return _native_opened(folder / name)
            said = "is not the library that was written with this file"
        except OSError as failure:
            said = f"cannot be loaded: {failure}"
        logging.getLogger("einc").warning("%s, so it is not used: copy all files that `einc compile --target` wrote, "
                                          "or write them again", f"{folder / name} {said}")
    return None


def _native_lacking(dtype: torch.dtype) -> None:
    """Tells once why kernels are not compiled; where none need be, as for `auto`, to those alone who ask."""
    if platform.system() != "Linux":
        said = "kernels are compiled on Linux alone"
    elif _NATIVE_BESIDE:
        kind = str(dtype).partition(".")[2]
        said = (f"there is no compiler, and no library beside this file that is for this processor and {kind}: "
                "`einc compile --target native --emit so` writes some on such a machine")
    else:
        said = "no C++ compiler is found: install g++ or clang++, or name one in EINC_CXX"
    if said not in _NATIVE_TOLD:
        _NATIVE_TOLD.add(said)
        logging.getLogger("einc").log(logging.INFO if _NATIVE_PATIENCE[0] else logging.WARNING,
                                      "torch computes, for %s", said)


def _native_found(text: str, dtype: torch.dtype, vectors: int) -> Any:
    """The library of a text for data of a type that kernels have: from beside the file, or compiled. None where torch's
    statements have to do. OSError or SubprocessError where compiling fails.
    """
    library = _native_beside(text, dtype, vectors)
    if library is None and (compiler := _native_compiler()):
        return _native_loaded(compiler, text, dtype, vectors)
    if library is None:
        _native_lacking(dtype)
    return library


def _native_said(failure: Exception) -> str:
    """What a compiler that failed, or its linker, said first."""
    said = getattr(failure, "stderr", None)
    lines = said.decode(errors="replace").splitlines() if isinstance(said, bytes) else []
    return next((line for line in lines if "error" in line or "cannot find" in line), str(failure))


def _native_library(text: str, dtype: torch.dtype, vectors: int = 2) -> Any:
    """The loaded library of a text whose tiles of rows have so many vectors, or None where torch's statements have to
    do; a failure is told once.
    """
    if (text, dtype, vectors) not in _LIBRARIES:
        with _NATIVE_LOCKS.setdefault(os.getpid(), threading.Lock()):
            if (text, dtype, vectors) not in _LIBRARIES:
                library = None
                try:
                    if dtype in _NATIVE_TYPES and _native_wanted():
                        library = _native_found(text, dtype, vectors)
                except (OSError, subprocess.SubprocessError) as failure:
                    logging.getLogger("einc").warning("torch computes, for no kernels were compiled: %s",
                                                      _native_said(failure))
                _LIBRARIES[text, dtype, vectors] = library
    return _LIBRARIES[text, dtype, vectors]


def _native_pays(text: str, work: int, dtype: torch.dtype, vectors: int) -> bool:
    """Whether kernels are compiled, or calls have by now had the operations for which that pays, with these."""
    if (text, dtype, vectors) in _LIBRARIES:
        return True
    _NATIVE_DONE[0] += work / torch.get_num_threads()
    return _NATIVE_DONE[0] >= _NATIVE_PATIENCE[0]


def _native_ready(text: str, work: int, device: torch.device, dtype: torch.dtype, vectors: int = 2) -> bool:
    """Whether compiled kernels run where the tensors are, and a call of so many operations pays them."""
    if device.type != "cpu" or dtype not in _NATIVE_TYPES or torch.compiler.is_compiling():
        return False
    return _native_pays(text, work, dtype, vectors) and _native_library(text, dtype, vectors) is not None


def _native_plain(x: torch.Tensor) -> bool:
    """Whether a tensor is no more than numbers in memory of the CPU."""
    return (type(x) in (torch.Tensor, torch.nn.Parameter) and x.is_cpu
            and not x.is_neg() and not x._is_zerotensor())


def _native_pieces(*kept: Any) -> list[torch.Tensor]:
    """The memory of what a cache keeps, and the runs in which all of it lies: the first position of each, and how far
    on it lies. Empty where some lies in other runs than the rest.
    """
    if all(x.single for x in kept):
        return [*(x.whole() for x in kept), _native_one_run()]
    table = kept[0].table
    if table is None or any(x.table is not table for x in kept):
        return []
    return [*(x.spread() for x in kept), table.moved()]


def _native_one_run() -> torch.Tensor:
    """The list of runs of what lies in one: it begins at position 0, and lies where the memory begins."""
    if _NATIVE_ONE_RUN and _get_current_dispatch_mode() is None:
        return _NATIVE_ONE_RUN[0]
    run = torch.zeros(1, 2, dtype=torch.int64, device="cpu")
    if _get_current_dispatch_mode() is None:  # else it may be no tensor of the CPU
        _NATIVE_ONE_RUN.append(run)
    return run


def _native_traced() -> bool:
    """Whether somebody records or differentiates what torch computes, and would miss what is computed here."""
    return (torch._C._get_tracing_state() is not None or forward_ad._current_level >= 0
            or _get_current_dispatch_mode() is not None)


def _native(text: str, name: str, tensors: list[torch.Tensor], sizes: list[int], numbers: list[float], work: int,
            dtype: torch.dtype, vectors: int = 2) -> bool:
    """Runs a compiled kernel of so many operations on tensors whose types and shapes are known, in tiles of so many
    vectors of rows; the results are among the tensors.

    False where it has not run: torch's statements then compute the results.
    """
    if torch.compiler.is_compiling():
        return False
    _RAN[name] = False
    given = _native_given(text, tensors, sizes, numbers, work, dtype, vectors)
    if given is None:
        return False
    needed, run = _native_entry(_native_library(text, dtype, vectors), name, name, len(given))
    pointers, whole, reals = [one.buffer_info()[0] for one in given]
    _RAN[name] = _native_in_memory(name, run, needed(whole), pointers, whole, reals)
    return _RAN[name]


def _native_in_memory(name: str, run: Any, each: int, *given: int) -> bool:
    """Whether a kernel could do all its work, with memory of so many numbers for each thread: it is told, behind what
    it is given, where that begins, how much of it a thread has, and how many threads there are. Profiles of torch show
    it by its name.
    """
    threads = torch.get_num_threads() if os.getpid() == _NATIVE_PROCESS else 1
    room = _native_room(threads * each + 16)
    profiled = torch.autograd.profiler._is_profiler_enabled
    with torch.profiler.record_function(f"einc::{name}") if profiled else nullcontext():
        return bool(run(*given, room.data_ptr() + -room.data_ptr() % 64, each, threads) == 0)


def _native_room(numbers: int) -> torch.Tensor:
    """Memory for at least so many numbers. A thread has the same again and again, so that the system need not hand it
    out page by page at each call.
    """
    room: torch.Tensor | None = getattr(_NATIVE_ROOMS, "room", None)
    if room is None or room.numel() < numbers:
        room = torch.empty(numbers, dtype=torch.float32, device="cpu")
        if numbers <= _NATIVE_ROOM:
            _NATIVE_ROOMS.room = room
    return room


def _native_entry(library: Any, name: str, entry: str, addresses: int) -> tuple[Any, Any]:
    """The functions of a library that say what memory a kernel needs, and that run it: `entry` is given so many
    addresses, a memory, how much of it a thread has, and the number of threads.
    """
    found = _NATIVE_ENTRIES.get((library, entry))
    if found is None:
        needed, run = getattr(library, f"{name}_room"), getattr(library, entry)
        needed.restype = run.restype = ctypes.c_longlong
        needed.argtypes = [ctypes.c_void_p]
        run.argtypes = [ctypes.c_void_p] * (addresses + 1) + [ctypes.c_longlong] * 2
        found = _NATIVE_ENTRIES[library, entry] = needed, run
    return found


def _native_given(text: str, tensors: list[torch.Tensor], sizes: list[int], numbers: list[float], work: int,
                  dtype: torch.dtype, vectors: int) -> tuple[array.array[Any], ...] | None:
    """What a call of a compiled kernel is given: pointers, strides with sizes, real numbers. None where it cannot run,
    or does not pay.
    """
    if not all(map(_native_plain, tensors)) or _native_traced():
        return None
    if not _native_ready(text, work, tensors[0].device, dtype, vectors):
        return None
    try:
        pointers = array.array("Q", [x.data_ptr() for x in tensors])
    except RuntimeError:  # a tensor of a transformation has no memory of its own
        return None
    whole = [n for x in tensors for n in x.stride()]
    return pointers, array.array("q", [*whole, *sizes, 0]), array.array("d", [*numbers, 0])
