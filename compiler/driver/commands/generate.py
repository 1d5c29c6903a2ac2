"""`einc generate`: a spec of a language model, with weights from a file, goes on with texts, token after token."""

from __future__ import annotations

import keyword
import math
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from einc.checking.plans import chosen
from einc.driver import back_ends, compiling
from einc.driver.commands import data
from einc.driver.commands.common import (
    BACKEND,
    DTYPE,
    FILE,
    MESH,
    NARROW,
    OWN,
    SIZES,
    Chosen,
    counted,
    known_sizes,
    typed,
)
from einc.driver.commands.configs import agreed, beside
from einc.driver.commands.prompts import Coder, Reader, coder, numbers
from einc.driver.commands.sizes import asked, extent, names
from einc.driver.compiled import Compiled
from einc.driver.decoding.engine import Engine, Request
from einc.driver.decoding.maps import written_map
from einc.driver.decoding.sampling import Sampler
from einc.driver.decoding.vocabulary import Roles, roles
from einc.driver.decoding.weights import entries, mapped
from einc.driver.options import Options, names_of
from einc.errors.report import EincError, failure
from einc.ir.plan import Module
from einc.ir.programs import Program
from einc.ir.requested import Cache, Mesh
from einc.meaning.sizes import solve_sizes

Sizes = Mapping[str, int]
Told = Any  # says what is being done, on a terminal
PAGE, RANKED = 16, "einc.driver.integrations.ranked"


@click.command("generate")
@FILE
@click.option("--weights", "path", required=True, type=click.Path(), metavar="FILE",
              help="A .safetensors or .npz file, or a folder of them.")
@click.option("--map", "map_name", metavar="NAME",
              help="How the file names the weights, where it is not as the spec does: a map that comes with einc, or a "
                   ".toml file.")
@click.option("--prefix", default="", metavar="TEXT", help="What stands before every name of the map.")
@SIZES
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT",
              help="A text to go on with; several are several texts.")
@click.option("--ids", "lists", multiple=True, metavar="1,2,3", help="The same as tokens; tokens are printed.")
@click.option("--tokenizer", type=click.Path(), metavar="FILE",
              help="A tokenizer.json; without it each byte of a text is a token.")
@click.option("--count", default=64, show_default=True, type=click.IntRange(min=1),
              help="How many tokens are made at most.")
@click.option("--stop", default="", metavar="2,13", help="Tokens that end a text; they are not printed.")
@click.option("--temperature", default=0.0, show_default=True, help="0 takes the likeliest token; above, one is drawn.")
@click.option("--top-k", type=int, metavar="K", help="Draw from the K likeliest.")
@click.option("--top-p", type=float, metavar="P", help="Draw from the fewest that have the probability P together.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Which draws.")
@click.option("--samples", default=1, show_default=True, type=click.IntRange(min=1), metavar="N",
              help="How many texts go on from each prompt; they share what is kept of it.")
@click.option("--budget", default=512, show_default=True, type=click.IntRange(min=1), metavar="N",
              help="Tokens that a step reads: one of each text that is being made, and of prompts up to N in all.")
@click.option("--pages", type=click.IntRange(1, 2**24), metavar="N",
              help="Keep the past in a pool of N pages, in which texts wait for room; without it each has a room of "
                   "its own.")
@click.option("--page", type=click.IntRange(1, 256), metavar="N",
              help="Positions in a page of the pool.  [default: what the spec says in `plan serve`, else 16]")
@click.option("--keep", default="", metavar="K,V",
              help="What the cache keeps of each position, instead of what is cheapest.")
@MESH
@click.option("--plan", "plan", default="", metavar="NAME,…",
              help="With --mesh: the `plan` blocks that say what is cut; else those that cut over its axes.")
@DTYPE
@BACKEND
@NARROW
@OWN
def command(*, file: Chosen, path: str, map_name: str | None, prefix: str, sizes: dict[str, int],
            prompts: tuple[str, ...], lists: tuple[str, ...], tokenizer: str | None, count: int, stop: str,
            temperature: float, top_k: int | None, top_p: float | None, seed: int, samples: int, budget: int,
            pages: int | None, page: int | None, keep: str, mesh: dict[str, int], plan: str,
            dtype: str | None, backend: str, narrow: bool, own: bool) -> None:
    """Let the language model of the spec FILE go on with texts; what it says goes to standard output as it is made.

    With --mesh the processes that `torchrun --nproc-per-node 2 -m einc generate FILE --mesh tp=2 …` starts each hold a
    part of the model and of what is kept, and the first of them prints.
    \f Raises EincError where the spec gives no next token, or prompts, weights or options do not fit it."""
    if "RANK" in os.environ:  # one of several processes
        click.get_current_context().with_resource(import_module(RANKED).together())
    if bool(prompts) == bool(lists):
        raise failure("give what to go on with, --prompt or --ids" + ", and not both" * bool(prompts))
    if page is not None and pages is None:
        raise failure("--page is of a pool, and there is none", "say how many pages it has: --pages")
    if samples > 1 and temperature == 0:
        raise failure("--samples makes several texts of each prompt, and at temperature 0 they are all the same",
                      "draw them: --temperature 1")
    try:
        taking = Sampler(temperature, top_k, top_p, seed)
    except ValueError as error:
        raise failure(str(error).replace("top_", "--top-")) from None
    program = typed(file)
    meshed = bool(mesh or plan) or any(chosen(program.plans, ("serve",)).asked(Mesh).ranks.values())
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
        asks = chosen(program.plans, ("serve",))
        told("compiling")
        how = Options(backend, narrow=narrow, own=own, plan=",".join(filter(None, ["serve", plan])),
                      keep=names_of(keep))
        place = back_ends.runner(backend).device(_kind(weights))
        given = {**{key: x.to(place) for key, x in weights.items()}, **_numbers(program, known)}
        many = import_module(RANKED).ranked(program, how, mesh, given, known, asks, pages) if meshed else None
        made: Any = compiling.built(program, how) if many is None else many
        page = page or asks.asked(Cache).page or PAGE
        pool = _pool(made, pages, page, max(map(len, texts)) + count - 1)
        engine, pace = Engine(made, given, budget=budget, pool=pool), Pace()
        several = [text for text in texts for _ in range(samples)]
        shown = Shown(words, several, told, _labels(len(texts), samples) if prompts else [""] * len(several))
        for row, text in enumerate(several):
            engine.add(text, count, **asdict(taking), stop=ends, row=row)
        failed = dict[int, EincError]()
        while engine.busy:
            shown.step(engine, _step(engine, pace, failed), failed)
    for row in sorted(failed) if len(several) > 1 else []:
        click.echo(f"note: text {row + 1} of {len(several)} ends early", err=True)
    if failed:
        raise failed[min(failed)]
    keeps = kept(made.plan, known, weights) if many is None else [many.line()]
    click.echo("\n".join([*pace.lines(), *_shared_lines(engine, pages, page), *keeps]), err=True)


# what is given


def loaded(program: Program, about: Roles, sizes: Sizes, path: str, dtype: str | None, map_name: str | None,
           prefix: str) -> tuple[dict[str, data.Array], dict[str, int]]:
    """The weights, and whatever else the spec asks for beside the tokens, from a file; and every size. Raises
    EincError where one is missing or is of another kind, and where `sizes` names what the prompts tell."""
    grow = about.along.extent.sizes | (about.batch.extent.sizes if about.batch else frozenset())
    if told := sorted(grow & sizes.keys()):
        raise failure(f"`{told[0]}` is told by the prompts: how many they are, and how long")
    known_sizes(sizes, [name for name in names(program) if name not in grow], program.sizes, program.idle)
    sizes = _with_config(program, sizes, path, map_name)
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


def _with_config(program: Program, sizes: Sizes, path: str, map_name: str | None) -> Sizes:
    """The sizes, with those that the weights' own config tells: a spec that comes with einc is held against it."""
    try:
        _, written = written_map(map_name or program.name)
    except EincError:
        return sizes
    presumed = written if map_name is None else {"sizes": written.get("sizes", {})}
    return agreed(presumed, beside(path), program.name, sizes)


def _state(path: str) -> dict[str, data.Array]:
    """All that stands in a file, or in those of a folder. Raises EincError where the folder has none."""
    if not Path(path).is_dir():
        return data.everything(path)
    files = sorted(file for file in Path(path).iterdir() if file.suffix == ".safetensors")
    if not files:
        raise failure(f"the folder {path} has no .safetensors file")
    return {name: x for file in files for name, x in data.everything(str(file)).items()}


def _named(program: Program, state: Mapping[str, data.Array], path: str, map_name: str | None, prefix: str,
           sizes: Sizes) -> dict[str, data.Array]:
    """The weights: by the names of the spec where the file has these, else by a map. EincError for those it has not."""
    weights = [tensor for tensor in program.inputs() if tensor.role == "weight"]
    lacking = [tensor for tensor in weights if tensor.key not in state]
    if 0 < len(lacking) < len(weights) and not (map_name or prefix):
        listed = ", ".join(f"`{tensor.key}`" for tensor in lacking)
        raise failure(f"{path} has no {listed}, which the spec asks for beside those it has",
                      "give a file that has all of them, or --map, how another file names them")
    if not (map_name or prefix or lacking):
        return {tensor.key: state[tensor.key] for tensor in weights}
    try:
        where, written = written_map(map_name or program.name)
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


def _within(ids: list[int], vocabulary: int) -> list[int]:
    """Tokens, at least one, each of the vocabulary. Raises EincError where they are not."""
    if not ids:
        raise failure("there is nothing to go on with: a text has no token",
                      "give at least one, such as a first token by --ids")
    if wrong := [n for n in ids if n >= vocabulary]:
        raise failure(f"{wrong[0]} is no token of this model: they are 0 to {vocabulary - 1}")
    return ids


def _note(program: Program, known: Sizes, longest: int, plain: bool) -> None:
    """Prints what a reader of the text should know."""
    if plain:
        click.echo("note: each byte of a text is a token; another way is --tokenizer", err=True)
    for tensor in program.inputs():
        for slot in tensor.slots:
            if tensor.role == "weight" and slot.set.cls == "time" and extent(slot.set.extent, known) < longest:
                click.echo(f"note: texts may come to {longest} positions, and `{tensor.key}` has "
                           f"{extent(slot.set.extent, known)}: "
                           "beyond these the model has learned nothing", err=True)


# what is done


def _pool(made: Compiled, pages: int | None, page: int, longest: int) -> Any:
    """The pool that is asked for. EincError where a text may come to more than it has,
    and nothing of one is ever dropped."""
    if pages is None:
        return None
    assert isinstance(made.plan, Module)
    if longest > pages * page and not made.plan.dropped:
        has = f"{counted(pages, 'page')} of {page} {'has' if pages == 1 else 'have'} {pages * page}"
        raise failure(f"a text may come to {counted(longest, 'position')}, and {has}",
                      f"give --pages {-(-longest // page)} or more", "make fewer tokens: --count")
    return made.pool(pages, page)


@dataclass(slots=True)
class Pace:
    """How many tokens were read and made, and the seconds that both took."""

    read: int = 0
    reading: float = 0.0
    made: int = 0
    making: float = 0.0

    def add(self, read: int, made: int, took: float) -> None:
        """Adds what a step read and made. The seconds of a step that did both are shared out by the tokens."""
        self.read, self.made = self.read + read, self.made + made
        self.reading += took * read / max(read + made, 1)
        self.making += took * made / max(read + made, 1)

    def lines(self) -> list[str]:
        """A line each for the tokens that were read and made, with tokens per second; none where there were none."""
        told = [("prefill", self.read, self.reading), ("steps", self.made, self.making)]
        return [f"{name:8} {counted(n, 'token')}, {n / max(took, 1e-9):,.4g} tokens/s" for name, n, took in told if n]


def _step(engine: Engine, pace: Pace, failed: dict[int, EincError]) -> list[tuple[Request, int]]:
    """One step and what it took; what fails of a text ends that one."""
    pool, texts = engine.pool, (*engine.running, *engine.waiting)
    begun, read, grown = time.perf_counter(), engine.read, engine.grown
    made = engine.step()
    pace.add(engine.read - read, engine.grown - grown, time.perf_counter() - begun)
    for text in texts:
        if pool is not None and isinstance(text.error, engine.model.made.named("Exhausted")):
            pages = f"give --pages {-(-text.most // pool.page)}"
            failed[text.row] = failure(str(text.error), pages, "make fewer tokens: --count")
        elif text.error is not None:
            failed[text.row] = failure(f"the module refused or failed: {text.error}")
    return made


def _shared_lines(engine: Engine, pages: int | None, page: int) -> list[str]:
    """What texts had of others, and of the pool."""
    out = [f"shared   {counted(engine.shared, 'token')} of beginnings"] if engine.shared else []
    if pages is not None:
        back = f"; {counted(engine.back, 'text')} put back" if engine.back else ""
        out.append(f"pool     {engine.held} of {counted(pages, 'page')} in use at most, {counted(page, 'position')} "
                   f"each{back}")
    return out


def kept(plan: Any, known: Sizes, weights: Mapping[str, data.Array]) -> list[str]:
    """How many bytes the cache has for each position of a text, and how many for its states."""
    assert isinstance(plan, Module)
    states = dict(plan.generation.states) if plan.generation is not None else {}
    one = {**known, plan.past: 1}
    width = getattr(data.framework(), _kind(weights)).itemsize
    out = []
    for what, of in (("position", False), ("text", True)):
        caches = [t for t in plan.inputs if t.role == "cache" and (t.key in states) == of]
        bytes_ = max(width, 4) if of else width  # states are float32 at least
        total = sum(math.prod(extent(slot.set.extent, one) for slot in t.slots) * t.element.size(bytes_)
                    for t in caches)
        listed = ", ".join(t.key.removesuffix("_past") for t in caches)
        out += [f"cache    {total:,} bytes a {what}: {listed}"] if caches else []
    return out


# what is shown


@contextmanager
def _telling() -> Iterator[Told]:
    """A line on the terminal of the error stream that says what is being done; where there is no terminal, nothing."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal,
                        redirect_stdout=False)
    task = progress.add_task("")

    def told(what: str) -> None:
        if what:
            progress.update(task, description=what)
            progress.start()
        else:
            progress.stop()

    try:
        yield told
    finally:
        progress.stop()


def _labels(prompts: int, samples: int) -> list[str]:
    """What stands before each text, where there are several."""
    several = [[f"[{n}]" for n in range(1, count + 1)] if count > 1 else [""] for count in (prompts, samples)]
    return [f"{first}{second} ".replace("][", ".").lstrip() for first in several[0] for second in several[1]]


class Shown:
    """One text is printed as it is made; several are, each with its label, in the order in which they were given."""

    def __init__(self, words: Coder, texts: list[list[int]], told: Told, labels: list[str]) -> None:
        self.readers, self.told, self.labels = [Reader(words, text) for text in texts], told, labels
        self.parts: list[list[str]] = [[label] for label in labels]
        self.over = [False] * len(texts)
        self.next = self.made = 0  # the first one that is not printed yet; tokens

    def step(self, engine: Engine, made: list[tuple[Request, int]], failed: Collection[int]) -> None:
        """Notes and shows what a step of the engine made; texts that failed are over."""
        self.made += len(made)
        alone = len(self.parts) == 1
        waits = f", {counted(len(engine.waiting), 'text')} waiting" if engine.waiting else ""
        self.told("" if alone and sys.stdout.isatty() else f"{counted(self.made, 'token')} made{waits}")
        for text, token in made:
            new = "" if token in text.stop else self.readers[text.row].add(token)
            new += self.readers[text.row].rest() if text.over else ""
            self.over[text.row] = text.over
            if alone:
                click.echo(new, nl=False)
            else:
                self.parts[text.row].append(new)
        for row in failed:
            self.over[row] = True
        while self.next < len(self.parts) and self.over[self.next]:
            self.told("")
            click.echo("" if alone else "".join(self.parts[self.next]))
            self.next += 1
