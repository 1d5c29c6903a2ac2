"""What `einc compile --target` writes: the machine code of every kernel, and a file that says how to start each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from einc.driver import front
from einc.driver.commands.common import counted, failure
from einc.driver.front import back_ends
from einc.ir.plan import Module

ABLE = back_ends("offline.py")
KINDS = ("ptx", "cubin", "ttgir", "llir", "amdgcn", "hsaco")
NO_TEXT = frozenset({"cubin", "hsaco"})
TARGET = click.option("--target", metavar="ARCH",
                      help="Compile the kernels for a device that need not be here: sm_80, sm_90, sm_100, gfx942.")
EMIT = click.option("--emit", "kind", type=click.Choice(KINDS), help="What to write of each kernel; cubin, or hsaco for AMD.")


def check_place(kind: str | None, output: str | None) -> None:
    """Refuse, before the work is done, a place where its result cannot go."""
    if output is None and (kind is None or kind in NO_TEXT):
        raise failure(f"{kind or 'machine code'} is no text to be printed",
                      "give a folder with -o, or --emit ptx (amdgcn on AMD) for a text")
    if output is not None and Path(output).exists() and not Path(output).is_dir():
        raise failure(f"{output} is a file: every kernel is a file of its own", "give a folder with -o")


def write(plan: Module, text: str, backend: str, target: str, kind: str | None, sizes: Mapping[str, int], dtype: str,
          output: str | None) -> None:
    """Every kernel that a call at these sizes starts: to the folder `output`, or a single one's text to standard output."""
    builder = front.builder(backend)
    if target not in builder.TARGETS:
        raise failure(f"`{target}` is no target", f"the targets are {', '.join(builder.TARGETS)}")
    try:
        made = builder.kernels(plan, text, sizes, dtype, builder.TARGETS[target])
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
        raise failure(f"the kernels cannot be compiled for {target}: {error}") from error
    if not made:
        empty = ", ".join(f"{name} = 0" for name, n in sizes.items() if not n)
        raise failure(f"a call at these sizes starts no kernel{f': {empty}' if empty else ''}",
                      "give sizes from 1" if empty else "give --own, where a library has a kernel for the same equations")
    kind = kind or ("cubin" if "cubin" in made[0].binary.asm else "hsaco")
    if kind not in made[0].binary.asm:
        raise failure(f"there is no {kind} for {target}", f"there is {', '.join(k for k in KINDS if k in made[0].binary.asm)}")
    if output is None:
        _print(made, kind)
        return
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    described = []
    for n, one in enumerate(made):
        file = folder / f"{n:02}_{one.binary.kernel}.{kind}"
        code = one.binary.asm[kind]
        file.write_bytes(code if isinstance(code, bytes) else code.encode())
        described.append({"file": file.name, **one.described()})
    head = {"spec": plan.name, "target": target, "dtype": dtype, "sizes": dict(sizes)}
    meta = folder / f"{plan.name}.json"
    meta.write_text(json.dumps({**head, "kernels": described}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"wrote {counted(len(made), 'kernel')} and {meta}", err=True)


def _print(made: list[Any], kind: str) -> None:
    if len(made) > 1:
        names = ", ".join(f"`{one.binary.kernel}`" for one in made)
        raise failure(f"there are {len(made)} kernels: {names}", "give a folder with -o")
    click.echo(made[0].binary.asm[kind])
