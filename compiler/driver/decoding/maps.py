"""Maps of weights by name: those that come with einc, and files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from einc.driver.checking import typed
from einc.driver.commands.sizes import asked
from einc.driver.compiled import Compiled
from einc.driver.compiling import built, parted
from einc.driver.decoding.weights import entries, mapped
from einc.driver.files import contents
from einc.driver.options import Options
from einc.errors.report import EincError, Help, Problem
from einc.ir.programs import TypedProgram
from einc.syntax.texts import MAX_BYTES


def written_map(name: str) -> tuple[str, dict[str, Any]]:
    """A map of weights, a file or one that comes with einc, and what to call it. EincError where there is none."""
    shipped = files("einc.specs").joinpath("maps")
    path = Path(name)
    try:
        text = (contents(path, MAX_BYTES).decode() if path.suffix == ".toml"
                else shipped.joinpath(f"{name}.toml").read_text("utf-8"))
        return (name if path.suffix == ".toml" else f"the map `{name}`"), tomllib.loads(text)
    except (OSError, ValueError) as error:
        known = ", ".join(sorted(x.name.removesuffix(".toml") for x in shipped.iterdir()))
        said = "is no map of weights" if isinstance(error, OSError) else f"cannot be read: {error}"
        raise EincError([Problem(f"`{name}` {said}", helps=(
            Help(f"those that come with einc are {known}; another is a .toml file"),))]) from None


def load_weights(spec: str | Path | Compiled, state: Mapping[str, Any], *, map: str | None = None, prefix: str = "",
                 plan: str = "", **sizes: int) -> dict[str, Any]:
    """The weights of a spec out of another model's `state_dict()`, by a written map: that of the spec's own name, or
    another.

    `prefix` stands before every name of the map: `h.0.` for the first layer of a GPT-2. Sizes that no shape tells,
    such as the number of heads, are given by name. With a `plan`, what it makes of weights alone is made here, once:
    the result is what `einc.compile` with `rest` among its plans takes. EincError where something is missing or does
    not fit.
    """
    program = spec.program if isinstance(spec, Compiled) else typed(spec)
    where, written = written_map(map or program.name)
    try:
        found, known = mapped(program, entries(program, written, where), state, prefix, sizes)
    except Problem as problem:
        raise EincError([problem]) from None
    return _made(program, found, known, plan) if plan else found


def _made(program: TypedProgram, weights: dict[str, Any], known: Mapping[str, int], plan: str) -> dict[str, Any]:
    """The weights with what a plan makes of them alone in place of those that nothing else reads."""
    names = ",".join(Options(plan=plan).plans)
    once = built(program, Options(backend="torch", plan=f"{names},once"))
    rest, _ = parted(program, Options(plan=f"{names},rest"))
    sizes = {name: known[name] for name in asked(once.program)}
    value = once(**{t.key: weights[t.key] for t in once.program.inputs()}, **sizes)
    values = value if isinstance(value, tuple) else (value,)
    made = dict(zip((name for name, _ in once.program.outputs), values, strict=True))
    return {t.key: made[t.key] if t.key in made else weights[t.key] for t in rest.inputs() if t.role == "weight"}
