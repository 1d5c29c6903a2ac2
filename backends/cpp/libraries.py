"""The libraries of an emitted file, for processors that need not be here: they lie beside the file, which knows them by
their hashes and takes the one for the processor at hand. The file itself compiles them.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import unwrap
from pathlib import Path
from typing import Any

from einc.backends.cpp.load import lacking
from einc.backends.cpp.targets import TARGETS, Cpu
from einc.backends.host.load import load
from einc.errors.report import failure

TYPES = ("float32", "bfloat16", "float16")  # those of data that kernels have
_VECTORS = (2, 1)  # of a tile of many rows, and of few
_TABLE = "\n_NATIVE_BESIDE = ()\n"


@dataclass(frozen=True)
class Library:
    """A library: its file and what it is for. `hash` is that of its bytes and the text that it was compiled of."""

    name: str
    code: bytes
    hash: str
    target: str
    needs: tuple[str, ...]
    kind: str
    vectors: int


def libraries(source: str, entry: str, name: str, targets: Sequence[str], dtype: str | None) -> list[Library]:
    """The libraries of a file for some targets, for data of one type or of all; their names begin with one. EincError
    where nothing is compiled, or the compiler fails.
    """
    names = unwrap(load(source, entry)).__globals__
    if "_CPP" not in names:
        raise failure(f"no kernel of `{name}` is written in C++: torch computes all of it",
                      "leave out --target, and give --backend torch")
    if dtype is not None and dtype not in TYPES:
        raise failure(f"no kernels are compiled for {dtype}: torch computes", f"give --dtype {' or '.join(TYPES)}")
    if not names["_native_compiler"]():
        raise lacking()
    kinds = TYPES if dtype is None else (dtype,)
    return [_library(names, f"{name}.{one}.{kind}.{vectors}.so", TARGETS[one], kind, vectors)
            for one in dict.fromkeys(targets) for kind in kinds for vectors in _VECTORS]


def bound(source: str, libraries: Sequence[Library]) -> str:
    """The file with its libraries in the table: those first that need most of a processor."""
    targets = {one.target: one.needs for one in libraries}
    rows = [_row(name, [one for one in libraries if one.target == name])
            for name in sorted(targets, key=lambda name: -len(targets[name]))]
    assert source.count(_TABLE) == 1
    return source.replace(_TABLE, f"\n_NATIVE_BESIDE = (\n{''.join(rows)})\n")


def _row(target: str, libraries: Sequence[Library]) -> str:
    """The row of a processor."""
    needs = "\n".join(f'        "{line} "' for line in textwrap.wrap(" ".join(libraries[0].needs), 100) or [""])
    files = "".join(f'        ("{one.kind}", {one.vectors}): (\n            "{one.name}",\n            "{one.hash}",\n'
                    "        ),\n" for one in libraries)
    return f'    ("{TARGETS[target].machine or platform.machine()}", (\n{needs}\n    ), {{\n{files}    }}),\n'


def _library(names: Mapping[str, Any], name: str, cpu: Cpu, kind: str, vectors: int) -> Library:
    """One library, compiled as the file with these names would for the processor at hand. Raises EincError with what
    the compiler said where that fails."""
    text, compiler = names["_CPP"], names["_native_compiler"]()
    flags = [f"-march={cpu.architecture}" if flag.startswith("-march=") else flag
             for flag in names["_native_flags"](getattr(names["torch"], kind), vectors)]
    with tempfile.TemporaryDirectory(prefix="einc-") as room:
        try:
            code = names["_native_compiled"](compiler, tuple(flags), text, Path(room)).read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise failure(f"{compiler} does not compile the kernels for {cpu.name} and {kind}: "
                          f"{names['_native_said'](error)}",
                          "name a compiler for that processor in the environment variable EINC_CXX, or leave out the "
                          "target or the type") from error
    needs = cpu.needs if cpu.machine else names["_native_features"]()
    return Library(name, code, hashlib.sha256(code + text.encode()).hexdigest(), cpu.name, tuple(sorted(needs.split())),
                   kind, vectors)
