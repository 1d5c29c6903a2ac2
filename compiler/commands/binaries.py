"""What `einc compile --target` writes: the machine code of every kernel, and a file that says how to start each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from einc import front
from einc.commands.common import back_ends, failure
from einc.plan import Module

ABLE = back_ends("offline.py")
KINDS = ("ptx", "cubin", "ttgir", "llir", "amdgcn", "hsaco")
TARGET = click.option("--target", metavar="ARCH",
                      help="Compile the kernels for a device that need not be here: sm_80, sm_90, sm_100, gfx942.")
EMIT = click.option("--emit", "kind", type=click.Choice(KINDS), help="What to write of each kernel; cubin, or hsaco for AMD.")


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
        raise failure("the plan of this spec has no kernel of its own",
                      "give --own, where a library has one for the same equations")
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
    click.echo(f"wrote {len(made)} kernels and {meta}", err=True)


def _print(made: list[Any], kind: str) -> None:
    if len(made) > 1:
        names = ", ".join(f"`{one.binary.kernel}`" for one in made)
        raise failure(f"there are {len(made)} kernels: {names}", "give a folder with -o")
    code = made[0].binary.asm[kind]
    if isinstance(code, bytes):
        raise failure(f"{kind} is no text", "give a folder with -o")
    click.echo(code)
