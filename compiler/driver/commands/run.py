"""`einc run`: a spec on random or given data, timed, and held against the interpreter."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from einc.driver import back_ends, compiling
from einc.driver.commands import data, measure
from einc.driver.commands import hard as magnitudes
from einc.driver.commands.common import (
    DATA,
    DTYPE,
    FILE,
    NARROW,
    OWN,
    PLAN,
    SEED,
    SIZES,
    WHERE,
    Chosen,
    known_sizes,
    typed,
)
from einc.driver.commands.sizes import asked, default, names, shorter
from einc.driver.decoding.maps import written_map
from einc.driver.decoding.weights import entries, learn, mapped
from einc.driver.options import Options
from einc.errors.report import EincError, Help, Problem, failure
from einc.ir.programs import Program
from einc.meaning.interpret import interpret
from einc.meaning.sizes import solve_sizes

Tensors = Mapping[str, data.Array]

MAP = click.option("--map", "map_name", metavar="NAME",
                   help="Read weights from --data by a map of names: one that comes with einc, or a .toml file.")
PREFIX = click.option("--prefix", default="", metavar="TEXT",
                      help="What stands before every name of the map, such as h.0.")
VERIFY = click.option("--verify", is_flag=True, help="Compare with the float64 interpreter; status 1 beyond the bound.")
HARD = click.option(
    "--hard", is_flag=True,
    help="Verify on inputs of many magnitudes, from 0 to 1e4 and ∞, too: an error may be 16 times that of an eager "
    "evaluation in the same type, and NaN and ∞ have to stand where float64 has them. Sizes not given are at most 16 "
    "there.")
DRAWS = click.option("--draws", type=click.IntRange(min=1), metavar="N",
                     help="With --hard: at most N of its draws of inputs, spread evenly; all without it.")
OUTPUT = click.option("-o", "--output", type=click.Path(), metavar="FILE",
                      help="Save what comes out, as .npz or .safetensors.")
REPEAT = click.option("--repeat", default=3, show_default=True, type=click.IntRange(min=1),
                      help="Timed runs after a first one.")


@click.command("run")
@FILE
@SIZES
@DATA
@MAP
@PREFIX
@DTYPE
@SEED
@VERIFY
@HARD
@DRAWS
@OUTPUT
@WHERE
@REPEAT
@PLAN
@NARROW
@OWN
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, sizes: dict[str, int], data_file: str | None, map_name: str | None,
            prefix: str, dtype: str | None, seed: int, verify: bool, hard: bool, draws: int | None, output: str | None,
            backend: str, repeat: int, plan: str, narrow: bool, own: bool) -> None:
    """Run the spec FILE; show shapes, time and memory, and with --verify or --hard the error: with a plan in few bits
    that against the spec without it, too.
    \f Raises EincError where options exclude each other, data do not fit, or the emitted function fails."""
    if output is not None:
        data.check_output(output)
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    options = Options(backend, narrow=narrow, own=own, plan=plan)
    plain, options = compiling.parted(typed(file), options)
    known_sizes(sizes, names(plain), plain.sizes, plain.idle)
    program, wanted = compiling.asked(plain, options)
    if options.serves or wanted.meshed:
        raise failure(f"--plan {plan} is for a file that is called otherwise",
                      "`einc compile` writes it; run runs a function of whole inputs")
    if (map_name or prefix) and data_file is None:
        raise failure("--map and --prefix are for --data, which they read weights from")
    module = compiling.built(plain, options)
    runner = back_ends.runner(backend)
    place = runner.device(dtype or "float32")

    def ran(sizes: dict[str, int]) -> _Run:
        """Draws inputs of these sizes, calls the kernel `repeat` times, and waits for what was started."""
        inputs, numbers = gather(program, sizes, data_file, dtype, seed, map_name, prefix)

        def call() -> Any:
            value = module(**{key: tensor.to(place) for key, tensor in inputs.items()}, **numbers)
            runner.settle()
            return value

        with _progress(console) as progress:
            outputs, told = execute(program, call, repeat, progress)
        return _Run(sizes, inputs, numbers, outputs, told)

    found = ran(sizes) if data_file or sizes else _finite(program, ran, sizes)
    sizes, inputs, numbers, outputs = found.sizes, found.inputs, found.numbers, found.outputs
    console.print(_table(program, inputs, outputs))
    console.print("\n".join(found.told))
    if by := getattr(module, "ran", None):
        compiled = sum(by.values())
        console.print(f"kernels  {compiled} compiled for this processor, "
                      f"{len(by) - compiled} as torch's statements")
    if output is not None:
        data.save(output, outputs)
        console.print(f"wrote {output}")
    if verify or hard:
        with _progress(console) as progress:
            progress.add_task("interpreting", total=None)
            reference = interpret(program, {key: data.exact(tensor) for key, tensor in inputs.items()}, numbers)
        good, lines = compare(outputs, reference, lambda kind: magnitudes.rounded(program, inputs, numbers, kind, seed))
        if hard:
            chosen = (data_file, dtype, seed, map_name, prefix)
            fine, more = _hard(program, sizes, chosen, draws, module, place, console)
            good, lines = good and fine, [*lines, *more]
        if wanted.narrows:
            without = compiling.built(plain, replace(options, plan=""))
            lines += _beside(plain, inputs, numbers, outputs, without, place)
        console.print("\n".join(lines))
        ctx.exit(0 if good else 1)


def _beside(plain: Program, inputs: Tensors, numbers: Mapping[str, int], outputs: Tensors,
            without: Callable[..., Any], place: Any) -> list[str]:
    """A line on each output: how far it is from the exact value of the spec without its plan, and how far the spec
    without its plan is, computed in the same type of data."""
    exact = interpret(plain, {key: data.exact(tensor) for key, tensor in inputs.items()}, numbers)
    value = without(**{key: tensor.to(place) for key, tensor in inputs.items()}, **numbers)
    values = value if isinstance(value, tuple) else (value,)
    lines = []
    for (name, _), other in zip(plain.outputs, values, strict=True):
        few, all_bits = (measure.distance(data.exact(x), exact[name], data.dtype_of(x)) for x in (outputs[name], other))
        lines.append(f"few bits     {name}: relative {few.relative:.2e} from the spec without the plan, which is "
                     f"itself {all_bits.relative:.2e} from float64")
    return lines


@dataclass(frozen=True)
class _Run:
    """One run: the sizes that were given to it, what it ran on, what came out, and lines on what was measured."""

    sizes: dict[str, int]
    inputs: Tensors
    numbers: dict[str, int]
    outputs: dict[str, data.Array]
    told: list[str]

    @property
    def finite(self) -> bool:
        """Whether every number that came out is finite."""
        return all(bool(x.isfinite().all()) for x in self.outputs.values() if x.is_floating_point())


def _finite(program: Program, ran: Callable[[dict[str, int]], _Run], sizes: dict[str, int]) -> _Run:
    """A run on these sizes; or, where numbers leave the type's range in it, on the most of half, a quarter, … of the
    positions of loops on which none does. Where there are none such, the first run.
    """
    first = found = ran(sizes)
    while not found.finite:
        fewer = shorter(program, found.sizes)
        if fewer is None:
            return first
        found = ran(fewer)
    if found is first:
        return first
    listed = ", ".join(f"{name} = {number}" for name, number in found.sizes.items())
    note = f"sizes        {listed}: over more positions the states of these random numbers leave the type's range"
    return replace(found, told=[note, *found.told])


def _hard(program: Program, sizes: Mapping[str, int], chosen: tuple[str | None, str | None, int, str | None, str],
          draws: int | None, module: Callable[..., Any], place: Any, console: Console) -> tuple[bool, list[str]]:
    """Whether every output passes on inputs of many magnitudes, and a line on each; `draws` of these, or all."""
    data_file, dtype, seed, *_ = chosen
    few = sizes if data_file else magnitudes.small(default(program, sizes), sizes)
    base, numbers = gather(program, few, *chosen)
    kind = next((data.dtype_of(x) for x in base.values() if x.is_floating_point()), dtype or "float32")

    def call(inputs: Tensors) -> Tensors:
        value = module(**{key: x.to(place) for key, x in inputs.items()}, **numbers)
        values = value if isinstance(value, tuple) else (value,)
        return {name: each for (name, _), each in zip(program.outputs, values, strict=True)}

    with _progress(console) as progress:
        every = magnitudes.count(program, seed)
        done = min(draws or every, every)
        task = progress.add_task("drawing", total=done)
        found = magnitudes.tried(program, base, numbers, kind, seed, call, lambda: progress.advance(task), done)
    told = [f"draws        {done} of {every}"] if done < every else []
    return all(worst.good for worst in found.values()), [*magnitudes.lines(found, kind), *told]


def by_map(program: Program, sizes: Mapping[str, int], data_file: str, dtype: str | None, seed: int, name: str,
           prefix: str) -> tuple[dict[str, data.Array], dict[str, int]]:
    """Weights of another model under our names; the other inputs as the file has them under ours, or random; and the
    sizes. Raises EincError."""
    state = data.everything(data_file)
    where, written = written_map(name)
    try:
        weights, known = mapped(program, entries(program, written, where), state, prefix, sizes)
    except Problem as problem:
        raise EincError([problem]) from None
    given = {t.key: state[t.key] for t in program.inputs() if t.role == "input" and t.key in state}
    for tensor in program.inputs():
        if tensor.key in given:
            learn(tensor, tuple(given[tensor.key].shape), known)
    known = default(program, known)
    kind = dtype or next((data.dtype_of(x) for x in weights.values() if x.is_floating_point()), "float32")
    made = data.randoms(program, known, kind, seed)
    found = {key: x.to(made[key].dtype) for key, x in {**weights, **given}.items()}
    return {**made, **found}, {key: known[key] for key in asked(program)}


def gather(program: Program, sizes: Mapping[str, int], data_file: str | None, dtype: str | None,
           seed: int, map_name: str | None = None, prefix: str = "") -> tuple[Tensors, dict[str, int]]:
    """The tensors to run on, from the file or random, and the sizes that the module asks for beside them."""
    if data_file is None:
        known = default(program, sizes)
        inputs = data.randoms(program, known, dtype or "float32", seed)
        given = {name: known[name] for name in asked(program)}
    elif map_name or prefix:
        inputs, given = by_map(program, sizes, data_file, dtype, seed, map_name or program.name, prefix)
    else:
        inputs = data.load(data_file, program, dtype)
        given = dict(sizes)
    try:
        known = solve_sizes(program, {key: tuple(tensor.shape) for key, tensor in inputs.items()}, given)
    except Problem as problem:
        missing = ",".join(f"{name}=…" for name in asked(program) if name not in given)
        problem.helps += (Help(f"give --sizes {missing}"),) if missing else ()
        raise
    return inputs, {name + "_" * keyword.iskeyword(name): known[name] for name in asked(program)}


def execute(program: Program, call: Callable[[], Any], repeat: int,
            progress: Progress) -> tuple[dict[str, data.Array], list[str]]:
    """Run once to warm up, once for memory, and `repeat` times for time; the outputs by name, and what was measured."""
    task = progress.add_task("running", total=repeat + 2)

    def step() -> Any:
        try:
            value = call()
        except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
            raise failure(f"the module refused or failed: {error}") from error
        progress.advance(task)
        return value

    step()
    value, memory = measure.with_memory(step)
    times = [measure.seconds(step) for _ in range(repeat)]
    values = value if isinstance(value, tuple) else (value,)
    outputs = {name: each for (name, _), each in zip(program.outputs, values, strict=True)}
    of = "one run" if repeat == 1 else f"the median of {repeat} runs"
    return outputs, [f"time         {measure.duration(times)} ({of} after a first one)", f"peak memory  {memory}"]


def compare(outputs: Tensors, reference: Mapping[str, measure.Numbers],
            eager: Callable[[str], list[Mapping[str, measure.Numbers]]]) -> tuple[bool, list[str]]:
    """Whether every output is near enough, and a line on each. Where it is not, it is held against the `eager`
    evaluations in its type: these inputs may be such that rounding alone takes the formula that far."""
    good, lines = True, []
    for name, tensor in outputs.items():
        kind, asked = data.dtype_of(tensor), ""
        far = measure.distance(data.exact(tensor), reference[name], kind)
        if not far.good and np.isfinite(far.relative) and tensor.is_floating_point():
            worst = max(measure.distance(e[name], reference[name], kind).relative for e in eager(kind))
            if np.isfinite(worst) and magnitudes.MEAN * worst > far.bound:
                far = replace(far, bound=magnitudes.MEAN * worst)
                asked = f": {magnitudes.MEAN:g} times that of eager"
        good = good and far.good
        verdict = "ok" if far.good else "TOO FAR"
        lines.append(f"error        {name}: relative {far.relative:.2e}, largest {far.largest:.2e}; {verdict} "
                     f"(bound {far.bound:.0e} relative{asked or ','} {kind})")
    return good, lines


def _progress(console: Console) -> Progress:
    """A bar on a terminal while the work lasts, nothing elsewhere."""
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _table(program: Program, inputs: Tensors, outputs: Tensors) -> Table:
    """What goes in and what comes out: names, shapes, element types."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "name", "written", "shape", "type"):
        table.add_column(heading, no_wrap=True)
    keys = dict(program.outputs)
    for kind, tensors in (("in", inputs), ("out", outputs)):
        for name, tensor in tensors.items():
            written = program.tensors[keys[name] if kind == "out" else name].text
            table.add_row(kind, name, written, " × ".join(map(str, tensor.shape)) or "scalar", data.dtype_of(tensor))
    return table
