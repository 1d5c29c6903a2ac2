"""`einc doctor`: what of einc runs on this machine, found by running it."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from inspect import unwrap
from typing import Any

import click
import numpy as np

from einc.driver import back_ends, compiling
from einc.driver.checking import typed
from einc.driver.commands import data, measure
from einc.driver.options import Options
from einc.driver.starting import first
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram
from einc.meaning.interpret import interpret

SIZES = {"T": 33, "D": 8}
NEEDED = ("torch", "triton", "numpy", "lark", "sympy", "opt_einsum", "safetensors")
EXTRA = {"matplotlib": "einc draw -o out.svg, einc bench --plot", "transformers": "layers of transformers",
         "tokenizers": "einc generate --tokenizer"}


@dataclass(frozen=True)
class Finding:
    """One line: what is meant, whether it is there and works, and more of it."""

    about: str
    good: bool
    said: str


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="As data for programs.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """Say what of einc runs on this machine: versions, the C++ compiler, the GPU, and each back end, for which a small
    kernel is compiled, run and held against the interpreter. Status 1 where the back end torch does not work.
    """
    found = [*_versions(), _compiler(), _gpu(), *map(_tried, back_ends.names()), _kept()]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    else:
        wide = max(len(one.about) for one in found)
        for one in found:
            click.echo(f"{'ok' if one.good else '- '}  {one.about:{wide}}  {one.said}")
    if not next(one.good for one in found if one.about == "back end torch"):
        ctx.exit(1)


def _versions() -> list[Finding]:
    """Python, einc, and the libraries that it needs or can use."""
    found = [Finding("Python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for name in ("einc", *NEEDED, *EXTRA):
        try:
            found.append(Finding(name, True, metadata.version(name)))
        except metadata.PackageNotFoundError:
            use = f": it is for {EXTRA[name]}" if name in EXTRA else ""
            found.append(Finding(name, False, f"not installed{use}"))
    return found


def _compiler() -> Finding:
    """The C++ compiler that the back end cpp takes."""
    path = compiler()
    said = f"{path}" if path else "none is found: install g++ or clang++, or name one in EINC_CXX"
    return Finding("C++ compiler", bool(path), said)


def compiler() -> str:
    """The path of the C++ compiler that files of the back end cpp take; empty where there is none."""
    program = _program()
    source = back_ends.emit(compiling.planned(program, Options("cpp", own=True)), "cpp")
    names = unwrap(back_ends.load(source, program.name, "torch")).__globals__
    return str(names["_native_compiler"]()) if "_native_compiler" in names else ""


def _gpu() -> Finding:
    """The GPU that torch finds."""
    torch = data.framework()
    if torch.cuda.is_available():
        return Finding("GPU", True, ", ".join(torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())))
    return Finding("GPU", False, "torch finds none: Triton's kernels can be written and compiled for a target, "
                                 "`einc compile --target sm_90`, not run")


def _tried(name: str) -> Finding:
    """Whether a back end computes what the language says."""
    about = f"back end {name}"
    try:
        runner = back_ends.runner(name)
        return Finding(about, *_ran(name, runner.device("float32"), runner.settle))
    except EincError as error:
        return Finding(about, False, error.problems[0].message)
    except Exception as error:  # whatever a compiler, a driver or a library may raise: it is what is asked
        return Finding(about, False, f"a small kernel fails: {str(error).strip().splitlines()[-1:] or type(error)}")


def _ran(name: str, place: str, settle: Any) -> tuple[bool, str]:
    """Whether a small kernel of the back end computes right at a place, and how it ran."""
    program = _program()
    inputs = data.randoms(program, SIZES, "float32", 0)
    if name == "triton" and place == "cpu" and not import_module("einc.backends.host.cache").switched(
            "TRITON_INTERPRET"):
        return False, "runs on a GPU; without one under TRITON_INTERPRET=1 alone, slowly"
    made = compiling.built(program, Options(name, own=True))
    if name == "cpp":
        made.prepare()
    value = made(**{key: tensor.to(place) for key, tensor in inputs.items()})
    settle()
    right = interpret(program, {key: data.exact(tensor) for key, tensor in inputs.items()}, {})["Y"]
    far = measure.distance(data.exact(value), np.asarray(right), "float32")
    how = "compiled kernels" if any(made.ran.values()) else "kernels of Triton" if name == "triton" else (
        "torch's statements")
    where = "the GPU" if place == "cuda" else "the CPU"
    return far.good, f"{how} on {where}, " + ("right" if far.good else f"WRONG by {far.relative:.1e}")


def _program() -> TypedProgram:
    """What is tried: a fold over the past, which every back end writes as a kernel."""
    return typed(first())


def _kept() -> Finding:
    """Where einc keeps what it has tuned and compiled, and the room there."""
    folder = import_module("einc.backends.host.cache").folder()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return Finding("cache", True, f"{folder}, {shutil.disk_usage(there).free / 2**30:.0f} GiB free"
                                  f"{'' if sys.platform == 'linux' else '; compiled kernels are for Linux alone'}")
