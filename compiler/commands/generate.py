"""`einc generate`: a spec of a language model, with weights from a file, goes on with texts, token after token."""

from __future__ import annotations

import keyword
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from einc import front
from einc.commands import data
from einc.commands.common import BACKEND, FILE, NARROW, OWN, SIZES, counted, failure, known_sizes, typed
from einc.commands.prompts import Coder, Reader, coder, numbers
from einc.commands.run import DTYPE
from einc.commands.sizes import asked, extent, names
from einc.errors import EincError
from einc.generate import grown
from einc.plan import Module
from einc.sizes import solve_sizes
from einc.taking import Taking
from einc.terms import Program
from einc.vocabulary import Roles, Spoken, roles
from einc.weights import entries, mapped

Sizes = Mapping[str, int]
Told = Any  # says what is being done, on a terminal


@click.command("generate")
@FILE
@click.option("--weights", "path", required=True, type=click.Path(), metavar="FILE",
              help="A .safetensors or .npz file, or a folder of them.")
@click.option("--map", "map_name", metavar="NAME",
              help="How the file names the weights, where it is not as the spec does: a map that comes with einc, or a .toml file.")
@click.option("--prefix", default="", metavar="TEXT", help="What stands before every name of the map.")
@SIZES
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="A text to go on with; several are several texts.")
@click.option("--ids", "lists", multiple=True, metavar="1,2,3", help="The same as tokens; tokens are printed.")
@click.option("--tokenizer", type=click.Path(), metavar="FILE", help="A tokenizer.json; without it each byte of a text is a token.")
@click.option("--count", default=64, show_default=True, type=click.IntRange(min=1), help="How many tokens are made at most.")
@click.option("--stop", default="", metavar="2,13", help="Tokens that end a text; they are not printed.")
@click.option("--temperature", default=0.0, show_default=True, help="0 takes the likeliest token; above, one is drawn.")
@click.option("--top-k", type=int, metavar="K", help="Draw from the K likeliest.")
@click.option("--top-p", type=float, metavar="P", help="Draw from the fewest that have the probability P together.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Which draws.")
@click.option("--keep", default="", metavar="K,V", help="What the cache keeps of each position, instead of what is cheapest.")
@DTYPE
@BACKEND
@NARROW
@OWN
def command(*, file: str, path: str, map_name: str | None, prefix: str, sizes: dict[str, int], prompts: tuple[str, ...],
            lists: tuple[str, ...], tokenizer: str | None, count: int, stop: str, temperature: float, top_k: int | None,
            top_p: float | None, seed: int, keep: str, dtype: str | None, backend: str, narrow: bool, own: bool) -> None:
    """Let the language model of the spec FILE go on with texts; what it says goes to standard output as it is made."""
    if bool(prompts) == bool(lists):
        raise failure("give what to go on with, --prompt or --ids" + ", and not both" * bool(prompts))
    try:
        taking = Taking(temperature, top_k, top_p, seed)
    except ValueError as error:
        raise failure(str(error).replace("top_", "--top-")) from None
    program = typed(file)
    about = roles(program)
    with _telling() as told:
        told("reading weights")
        weights, known = loaded(program, about, sizes, path, dtype, map_name, prefix)
        vocabulary = extent(about.vocabulary.extent, known)
        words = coder(tokenizer, vocabulary, bool(prompts))
        texts = [_within(words.encode(text), vocabulary) for text in (*prompts, *lists)]
        ends = _within(numbers(stop), vocabulary) if stop else []
        told("")
        _note(program, known, max(map(len, texts)) + count, bool(prompts) and tokenizer is None)
        told("compiling")
        made = front.built(program, backend, narrow=narrow, own=own, plan="serve", keep=_names(keep))
        place = front.runner(backend).device(_kind(weights))
        model = Spoken(made, {**{key: x.to(place) for key, x in weights.items()}, **_numbers(program, known)})
        shown, pace = Shown(words, texts, told, bool(prompts)), Pace()
        for rows in groups(texts, about.batch is not None):
            ids = data.framework().tensor([texts[row] for row in rows], device=place)
            shown.show(rows, timed(grown(model, ids, count, taking, ends, rows), ids.numel(), pace), ends)
    click.echo("\n".join([*pace.lines(), *kept(made.plan, known, weights)]), err=True)


# what is given


def loaded(program: Program, about: Roles, sizes: Sizes, path: str, dtype: str | None, map_name: str | None,
           prefix: str) -> tuple[dict[str, data.Array], dict[str, int]]:
    """The weights, and whatever else the spec asks for beside the tokens, from a file; and every size."""
    grow = about.along.extent.sizes | (about.batch.extent.sizes if about.batch else frozenset())
    if told := sorted(grow & sizes.keys()):
        raise failure(f"`{told[0]}` is told by the prompts: how many they are, and how long")
    known_sizes(sizes, [name for name in names(program) if name not in grow], program.sizes, program.idle)
    state = _state(path)
    found = _named(program, state, path, map_name, prefix, sizes)
    for tensor in program.inputs():
        if tensor.key not in found and tensor.key != about.ids:
            if tensor.key not in state:
                raise failure(f"{path} has no `{tensor.key}`, which the spec asks for beside the tokens",
                              "give a file that has it: its weights and other inputs by their names in the spec")
            found[tensor.key] = state[tensor.key]
    kind = getattr(data.framework(), dtype or _kind(found))
    for tensor in program.inputs():
        if tensor.key in found:
            if found[tensor.key].is_floating_point() == tensor.integer:
                raise failure(f"`{tensor.key}` in {path} has elements of type {data.dtype_of(found[tensor.key])}")
            found[tensor.key] = found[tensor.key].to(data.framework().int64 if tensor.integer else kind)
    one = {about.ids: (1,) * (1 + (about.batch is not None))}
    return found, solve_sizes(program, {key: tuple(x.shape) for key, x in found.items()} | one, sizes)


def _state(path: str) -> dict[str, data.Array]:
    """All that stands in a file, or in those of a folder."""
    if not Path(path).is_dir():
        return data.everything(path)
    files = sorted(file for file in Path(path).iterdir() if file.suffix == ".safetensors")
    if not files:
        raise failure(f"the folder {path} has no .safetensors file")
    return {name: x for file in files for name, x in data.everything(str(file)).items()}


def _named(program: Program, state: Mapping[str, data.Array], path: str, map_name: str | None, prefix: str,
           sizes: Sizes) -> dict[str, data.Array]:
    """The weights: by the names of the spec where the file has these and no map is asked for, else by a map."""
    weights = [tensor for tensor in program.inputs() if tensor.role == "weight"]
    lacking = [tensor for tensor in weights if tensor.key not in state]
    if not (map_name or prefix or lacking):
        return {tensor.key: state[tensor.key] for tensor in weights}
    try:
        where, written = front.written_map(map_name or program.name)
    except EincError:
        if map_name or prefix:
            raise
        listed = ", ".join(f"`{tensor.key}`" for tensor in lacking)
        raise failure(f"{path} has no {listed}, which the spec asks for",
                      "give --map, a .toml file that says where each weight of the spec comes from") from None
    return mapped(program, entries(program, written, where), state, prefix, sizes)[0]


def _kind(found: Mapping[str, data.Array]) -> str:
    """The element type of the first weight of real numbers."""
    return next((data.dtype_of(x) for x in found.values() if x.is_floating_point()), "float32")


def _numbers(program: Program, known: Sizes) -> dict[str, int]:
    """The sizes that no tensor tells."""
    return {name + "_" * keyword.iskeyword(name): known[name] for name in asked(program)}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _within(ids: list[int], vocabulary: int) -> list[int]:
    """Tokens, at least one, each of the vocabulary."""
    if not ids:
        raise failure("there is nothing to go on with: a text has no token", "give at least one, such as a first token by --ids")
    if wrong := [n for n in ids if n >= vocabulary]:
        raise failure(f"{wrong[0]} is no token of this model: they are 0 to {vocabulary - 1}")
    return ids


def _note(program: Program, known: Sizes, longest: int, plain: bool) -> None:
    """What a reader of the text should know."""
    if plain:
        click.echo("note: each byte of a text is a token; another way is --tokenizer", err=True)
    for tensor in program.inputs():
        for slot in tensor.slots:
            if tensor.role == "weight" and slot.set.cls == "time" and extent(slot.set.extent, known) < longest:
                click.echo(f"note: texts may come to {longest} positions, and `{tensor.key}` has {extent(slot.set.extent, known)}: "
                           "beyond these the model has learned nothing", err=True)


# what is done


def groups(texts: list[list[int]], together: bool) -> list[list[int]]:
    """The numbers of the texts that run side by side: those of one length."""
    if not together:
        return [[row] for row in range(len(texts))]
    lengths = dict.fromkeys(map(len, texts))
    return [[row for row, text in enumerate(texts) if len(text) == length] for length in lengths]


@dataclass(slots=True)
class Pace:
    """How many tokens were read and made, and the seconds that both took."""

    read: int = 0
    reading: float = 0.0
    made: int = 0
    making: float = 0.0

    def lines(self) -> list[str]:
        told = [("prefill", self.read, self.reading), ("steps", self.made, self.making)]
        return [f"{name:8} {counted(n, 'token')}, {n / max(took, 1e-9):,.4g} tokens/s" for name, n, took in told if n]


def timed(tokens: Iterator[data.Array], read: int, pace: Pace) -> Iterator[list[int]]:
    """The tokens of each step as numbers, and what they took; the first ones come with the prefill."""
    while True:
        begun = time.perf_counter()
        try:
            new = next(tokens, None)
            found: list[int] = [] if new is None else new.tolist()
        except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
            raise failure(f"the module refused or failed: {error}") from error
        if not found:
            return
        took = time.perf_counter() - begun
        if read:
            pace.read, pace.reading, read = pace.read + read, pace.reading + took, 0
        else:
            pace.made, pace.making = pace.made + len(found), pace.making + took
        yield found


def kept(plan: Any, known: Sizes, weights: Mapping[str, data.Array]) -> list[str]:
    """How many bytes the cache has for each position of a text."""
    assert isinstance(plan, Module)
    caches = [t for t in plan.inputs if t.role == "cache"]
    one = {**known, plan.past: 1}
    width = getattr(data.framework(), _kind(weights)).itemsize
    sizes = [math.prod(extent(slot.set.extent, one) for slot in t.slots) * (8 if t.integer else width) for t in caches]
    listed = ", ".join(t.key.removesuffix("_past") for t in caches)
    return [f"cache    {sum(sizes):,} bytes a position: {listed}"] if caches else []


# what is shown


@contextmanager
def _telling() -> Iterator[Told]:
    """A line on the terminal of the error stream that says what is being done, while that is something; elsewhere none."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False)
    task = progress.add_task("")

    def told(what: str) -> None:
        progress.update(task, description=what)
        if what:
            progress.start()
        else:
            progress.stop()

    try:
        yield told
    finally:
        progress.stop()


class Shown:
    """One text is printed as it is made; several are, each with its number, in the order in which they were given."""

    def __init__(self, words: Coder, texts: list[list[int]], told: Told, numbered: bool) -> None:
        self.readers, self.told, self.numbered = [Reader(words, text) for text in texts], told, numbered
        self.parts: list[list[str]] = [[] for _ in texts]
        self.over = [False] * len(texts)
        self.next = 0  # the first one that is not printed yet

    @property
    def alone(self) -> bool:
        return len(self.parts) == 1

    def show(self, rows: list[int], steps: Iterator[list[int]], stop: list[int]) -> None:
        ended, made = set[int](), 0
        for tokens in steps:
            made += len(tokens)
            self.told("" if self.alone and sys.stdout.isatty() else f"{counted(made, 'token')} made")
            new = dict(zip(rows, tokens, strict=True))
            ended |= {row for row, token in new.items() if token in stop}
            for row in new.keys() - ended:
                self.add(row, self.readers[row].add(new[row]))
        for row in rows:
            self.add(row, self.readers[row].rest())
            self.over[row] = True
        self.told("")
        while self.next < len(self.parts) and self.over[self.next]:
            number = f"[{self.next + 1}] " if self.numbered and not self.alone else ""
            click.echo(number + "".join(self.parts[self.next]))
            self.next += 1

    def add(self, row: int, text: str) -> None:
        if self.alone:
            click.echo(text, nl=False)
        else:
            self.parts[row].append(text)
