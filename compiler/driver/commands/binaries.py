"""What `einc compile --target` writes: the machine code of every kernel, and a file that says how to start each; or the
Python file, and libraries beside it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from einc.driver import back_ends
from einc.driver.commands.common import counted
from einc.errors.report import failure
from einc.ir.backend import Compiled, Target
from einc.ir.plan import Module

ROWS = [row for _, row in back_ends.targets().values()]
TARGET = click.option("--target", metavar="ARCH,…",
                      help=f"Compile the kernels for a device that need not be here, or for several processors: "
                           f"{', '.join(row.name for row in ROWS)}.")
EMIT = click.option("--emit", "kind",
                    type=click.Choice(list(dict.fromkeys(form for row in ROWS for form in row.forms))),
                    help="What to write of each kernel; the machine code without it.")


def check_place(targets: Sequence[Target], kind: str | None, output: str | None) -> str:
    """The form in which kernels are written. EincError, before the work is done, where a target has no such form, or
    the result cannot go to where it is wanted.
    """
    for target in targets:
        if kind is not None and kind not in target.forms:
            raise failure(f"there is no {kind} for {target.name}", f"there is {', '.join(target.forms)}")
    target = targets[0]
    form = kind or target.forms[0]
    if output is None and form in target.binary:
        texts = f", or --emit {target.texts[0]} for a text" if target.texts else ""
        raise failure(f"{kind or 'machine code'} is no text to be printed", f"give a folder with -o{texts}")
    if output is not None and Path(output).exists() and not Path(output).is_dir():
        raise failure(f"{output} is a file: every kernel is a file of its own", "give a folder with -o")
    if len(targets) > 1 and target.texts:
        raise failure(f"there are {len(targets)} targets: {', '.join(row.name for row in targets)}",
                      "give one device at a time, each a folder of its own")
    return form


def write_beside(text: str, entry: str, name: str, backend: str, targets: Sequence[Target], dtype: str | None,
                 output: str) -> None:
    """Writes the Python file of a spec in the folder `output`, and its libraries for the targets beside it."""
    binder = back_ends.binder(backend)
    made = binder.libraries(text, entry, name, [row.name for row in targets], dtype)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for one in made:
        _replaced(folder / one.name, one.code)
    _replaced(folder / f"{name}.py", binder.bound(text, made).encode())
    click.echo(f"wrote {folder / f'{name}.py'} and {len(made)} libraries beside it", err=True)


def _replaced(path: Path, content: bytes) -> None:
    """Writes a file in place of one that somebody may have loaded: who has keeps the old one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def write(plan: Module, text: str, target: str, form: str, sizes: Mapping[str, int], dtype: str,
          output: str | None) -> None:
    """Writes every kernel that a call at these sizes starts: to the folder `output`, or a single one's text to
    standard output. Raises EincError where they cannot be compiled, or the call starts none."""
    try:
        made = back_ends.builder(target).kernels(plan, text, sizes, dtype, target)
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
        raise failure(f"the kernels cannot be compiled for {target}: {error}") from error
    if not made:
        empty = ", ".join(f"{name} = 0" for name, n in sizes.items() if not n)
        raise failure(f"a call at these sizes starts no kernel{f': {empty}' if empty else ''}",
                      "give sizes from 1" if empty
                      else "give --own, where a library has a kernel for the same equations")
    if output is None:
        _print(made, form)
        return
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    described = []
    for n, one in enumerate(made):
        file = folder / f"{n:02}_{one.kernel}.{form}"
        code = one.code[form]
        file.write_bytes(code if isinstance(code, bytes) else code.encode())
        described.append({"file": file.name, **one.described()})
    head = {"spec": plan.name, "target": target, "dtype": dtype, "sizes": dict(sizes)}
    meta = folder / f"{plan.name}.json"
    meta.write_text(json.dumps({**head, "kernels": described}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"wrote {counted(len(made), 'kernel')} and {meta}", err=True)


def _print(made: Sequence[Compiled], form: str) -> None:
    if len(made) > 1:
        names = ", ".join(f"`{one.kernel}`" for one in made)
        raise failure(f"there are {len(made)} kernels: {names}", "give a folder with -o")
    click.echo(made[0].code[form])
