"""The front door: a spec to a callable, a list of problems, or its meaning. Back ends are loaded by name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, update_wrapper
from importlib import import_module
from importlib.resources import files
from inspect import unwrap
from pathlib import Path
from typing import Any

from einc.driver import back_ends, pipeline
from einc.driver.back_ends import emit, load
from einc.driver.decoding.weights import entries, mapped
from einc.errors.report import EincError, Help, Problem, Report
from einc.ir.choices import PLAIN, Choices, Row
from einc.ir.plan import Call, Chain, Generation, Gradient, Module, Shell, leaves
from einc.ir.requested import Wanted
from einc.ir.terms import Program, Tensor, TypedProgram

PLANS = ("", "serve")
GAIN = 2  # how much cheaper a step must be that makes more of the past again
LONG = 4096  # positions of the past at which it is reckoned what as many more would cost


@dataclass(eq=False, repr=False)
class Compiled:
    """A compiled spec: call it with the declared names. `source` is the emitted file, `plan` how it was cut.

    One that serves is called with a cache first, which `prefill` makes.
    """

    program: TypedProgram
    plan: Module | Gradient | Chain
    source: str
    function: Callable[..., Any]
    module: type[Any] | None = None  # the class that holds the weights, where it was asked for
    prefill: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        update_wrapper(self, self.function, updated=())  # What the function itself holds stays its own.

    def __repr__(self) -> str:
        return f"<einc.Compiled {self.program.name}: {', '.join(t.key for t in self.program.inputs())}>"

    def __call__(self, *cache: Any, **tensors: Any) -> Any:
        return self.function(*cache, **tensors)

    def cache(self, chunk: int = 256, pool: Any = None) -> Any:
        """A cache of no position yet, for steps: its room grows by at least `chunk` positions, or in pages of a pool."""
        return self.named("Cache")(chunk) if pool is None else self.named("Cache")(chunk, pool)

    def pool(self, pages: int, page: int = 0) -> Any:
        """Memory for so many pages of so many positions each, by default as the spec says it, else 16; caches share them."""
        return self.named("Pool")(pages, page) if page else self.named("Pool")(pages)

    def named(self, name: str) -> Any:
        """What the emitted file calls so. TypeError where nothing is kept."""
        if self.prefill is None:
            raise TypeError(f'{self!r} keeps nothing from one call to the next: compile it with plan="serve"')
        return unwrap(self.function).__globals__[name]


def _typed(path_or_text: str | Path, strict: bool = False, section: str = "", side: str | Path | None = None) -> TypedProgram:
    report = Report()
    beside = None if side is None else pipeline.read_source(side, report)
    program = pipeline.check(pipeline.read_source(path_or_text, report), report, strict=strict, section=section, side=beside)
    if program is None:
        raise EincError(report.sorted())
    return program


@cache
def library(halves: bool = False) -> tuple[Row, ...]:
    """The kernels of torch that a plan may call, each with the spec of what it computes: `specs/library/rows.toml`.

    With `halves` those, too, that compute a spec with what its gradient needs, or its gradient.
    """
    rows = tomllib.loads(files("einc.specs").joinpath("library", "rows.toml").read_text(encoding="utf-8"))["row"]
    return tuple(_row(r) for r in rows if halves or "half" not in r)


def _row(told: Mapping[str, Any]) -> Row:
    """One row as it is written: of a gradient d before a name is what belongs to it, and `saved` is what is no output."""
    half = told.get("half")
    program: Program = _typed(told["spec"])
    words: dict[str, str] = {}
    if half is not None:
        (found, forward), shown = _derived(program), {key for _, key in program.outputs}
        if half == "backward":
            program = _second(found, plan(forward))
            words = {d: f"d{key}" for key, d in found.cotangents} | {made: f"d{key}" for key, made in found.gradients}
            words |= {key: made if made in shown else "saved" for made, key in found.saved}
        else:
            program, words = forward, {made: "saved" for made, _ in found.saved if made not in shown}
    by = {words.get(key, key): key for _, key in program.outputs}
    results = tuple(by[word] for word in told["results"]) if half is not None else None
    made: Row = import_module("einc.planning").row(
        told["spec"], pipeline.normal(program), told["call"], told["where"], told.get("shared", ""),
        tuple(told.get("shares", ())), told.get("flat", False), told.get("repeats", False), words, results,
        told.get("pieces", False))
    return made


def choices(narrow: bool = False, own: bool = False, backend: str = "torch") -> Choices:
    """The choices of a plan by the words of the command line."""
    return Choices(narrow, () if own else library(), back_ends.record(backend).ordered)


def plan(program: Program, choices: Choices = PLAIN, asked: tuple[Tensor, ...] | None = None) -> Module:
    """How the program is cut into steps; `asked` are its inputs, read or not. EincError where it returns nothing, as a text
    that is about its claims.
    """
    if not program.outputs:
        raise EincError([Problem(f"`{program.name}` has no output, so there is nothing to compile", helps=(
            Help("say what is returned: `output Y_t^d`"), Help("what it claims is proved by `einc prove`")))])
    inputs = program.inputs() if asked is None else asked
    made: Module = import_module("einc.planning").plan(pipeline.normal(program), inputs, choices)
    return made


def gradient(program: TypedProgram, choices: Choices = PLAIN) -> Gradient | Chain:
    """The plans of a program and of its gradient with respect to every input of real numbers. EincError where it has none."""
    if not program.outputs or all(t.integer for t in program.inputs()):
        raise constant(program)
    if program.repeats:
        made: Chain = import_module("einc.planning").chained(program, program.inputs(), lambda piece: _halves(piece, choices))
        return made
    return _halves(program, choices)


def constant(program: Program) -> EincError:
    """What is said of a program that has no gradient."""
    return EincError([Problem(f"`{program.name}` has no gradient: nothing it returns depends on an input of real numbers",
                              helps=(Help("return something that changes with one: what is rounded, counted or compared does not"),
                                     Help("leave the gradient out")))])


def _halves(program: Program, choices: Choices) -> Gradient:
    """The two plans; where no output depends on an input of real numbers the second is of nothing."""
    planning = import_module("einc.planning")
    found, first = _derived(program)
    inner = replace(choices, rows=library(halves=True)) if choices.rows else choices
    forward = plan(first, inner, program.inputs())
    if not found.gradients:
        return Gradient(forward, replace(forward, inputs=(), outputs=(), buffers={}, steps=(), keys=()), (), (), ())
    backward = planning.trusting(plan(_second(found, forward), inner), frozenset(key for _, key in found.saved))
    plain = plan(program, choices)
    called = any(isinstance(step, Call) for step in leaves(plain.steps))  # a library that does not give what is saved
    return Gradient(forward, backward, found.saved, found.cotangents, found.gradients, plain if called else None)


def generation(program: TypedProgram, choices: Choices = PLAIN, keep: Iterable[str] = ()) -> Module:
    """The plan of a step that adds positions to those before, of which it keeps what `keep` names, else what the text itself
    names in `plan serve`, else what is cheapest where one position is added to many. EincError where nothing grows, or what is to
    be kept may change later.
    """
    serving, planning = import_module("einc.transforms.serving.kept"), import_module("einc.planning")
    written = next((one for one in program.plans if one.name == "serve"), Wanted("serve"))
    keep = frozenset(keep) or frozenset(written.kept)
    try:
        along = serving.growing(program)
        known = serving.settled(program, along)
        usual = planning.usual(pipeline.normal(program))
        steps = [serving.asked(program, along, known, keep)] if keep else serving.ways(program, along, known, usual)
    except serving.Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
    (new,) = along.extent.sizes
    made = []
    for step in (serving.dropping(program, along, step) for step in steps):
        asked = tuple(step.program.tensors[t.key] for t in program.inputs() if not step.caches)
        one = replace(step.program, own=(new, step.past, *filter(None, [step.dropped])))
        several = serving.numbered(one)
        asked += tuple(t for t in several.tensors.values() if asked and t.key not in one.tensors)
        module = plan(several, choices, asked or None)
        module = replace(module, generation=Generation(step.past, new, step.dropped, step.back, written.page),
                         sizes=module.sizes | {step.past, *filter(None, [step.dropped])})
        sizes = usual | {new: 1, step.past: LONG, step.dropped: 1}
        once, twice = (planning.reckoned(module, sizes | {step.past: n * LONG}) if len(steps) > 1 else 0 for n in (1, 2))
        made.append((twice - once, module))
    first, least = made[0], min(made, key=lambda x: x[0])
    best: Module = (least if GAIN * least[0] < first[0] else first)[1]
    return best


@dataclass(frozen=True)
class Part:
    """The part of a spec that stands between another model's projections: as it is, where padding is, and what they agree on."""

    plain: Any
    padded: Any
    facts: Any

    def scale(self, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> float:
        """What new values are multiplied by, for tensors of these shapes. EincError where they do not fit."""
        try:
            known = import_module("einc.meaning.sizes").__dict__["solve_sizes"](self.plain.program, shapes, sizes)
            program = replace(self.facts.scale, sizes=known)
            return float(import_module("einc.meaning.interpret").__dict__["interpret"](program, {})["scale"])
        except Problem as problem:
            raise EincError([problem]) from None


def part(path_or_text: str | Path) -> Part:
    """The part of a spec for another model. EincError where the spec has errors, or no such part."""
    program, serving = _typed(path_or_text), import_module("einc.transforms.serving.facts")
    middle = import_module("einc.transforms.serving.middle").__dict__["middle"]
    try:
        usual = import_module("einc.planning").usual(pipeline.normal(program))
        plain, padded = (middle(program, usual, padded=one) for one in (False, True))
        return Part(plain, padded, serving.facts(plain))
    except import_module("einc.transforms.serving.kept").Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None


def _derived(program: Program) -> tuple[Any, Program]:
    """What the gradient of a program is, and the first of its two programs as it is planned."""
    found = import_module("einc.transforms.gradients.backward").derive(program)
    planning = import_module("einc.planning")
    shown = {key for _, key in program.outputs}
    return found, planning.kept_wide(found.forward, {made for made, _ in found.saved} - shown)


def _second(found: Any, forward: Module) -> Program:
    """The second: what the first keeps in a wider type it is given in it."""
    signs = import_module("einc.planning").least(pipeline.normal(found.forward), [made for made, _ in found.saved])
    tensors = dict(found.backward.tensors)
    tensors |= {key: replace(tensors[key], wide=forward.buffers[made].kind == "wide", least=signs[made])
                for made, key in found.saved}
    made: Program = replace(found.backward, tensors=tensors)
    return made


def shell(program: Program) -> Shell:
    """What a class around the function needs to know, so that it holds the weights."""
    made: Shell = import_module("einc.planning").shell(program)
    return made


def cut(program: TypedProgram, choices: Choices = PLAIN, grad: bool = False) -> Module | Gradient | Chain:
    """What a file is written from; with `grad` it has the gradient, too."""
    return gradient(program, choices) if grad else plan(program, choices)


def compile(path_or_text: str | Path, backend: str = "torch", *, strict: bool = False, narrow: bool = False,
            own: bool = False, tune: bool = False, module: bool = False, grad: bool = False, plan: str = "",
            keep: Iterable[str] = (), section: str = "", side: str | Path | None = None) -> Compiled:
    """A spec (a path, the name of one that comes with einc, or the text itself) as a callable.

    With `narrow` every product of half inputs is rounded to their type: faster where the machine multiplies them faster,
    and less exact. With `own` no kernel of a library is called for what a plan's own kernel computes.
    With `tune` the first call for tensors of other shapes times the kernels on a GPU, where the cache on disk does not know
    the fastest tiles; without it tiles are chosen by sizes alone, the same ones in every run.
    With `grad` its results can be differentiated with respect to every input of real numbers: the file has the gradient, too.
    With `plan="serve"` it generates: `.prefill` gives the first positions and a cache, the result itself, called with the cache,
    the next ones; `keep` names what is kept of each position, else that is decided by cost.
    With `module` the result's `.module` is a `torch.nn.Module` class whose parameters are the weights.
    Of a paper (.md, .tex) one `section` is compiled; `side` is a spec with the declarations that the paper lacks.
    EincError where the spec has errors, or the back end has nothing to tune; the message is the rendered problems.
    """
    return built(_typed(path_or_text, strict, section, side), backend, narrow=narrow, own=own, tune=tune, module=module,
                 grad=grad, plan=plan, keep=keep)


def built(program: TypedProgram, backend: str = "torch", *, narrow: bool = False, own: bool = False, tune: bool = False,
          module: bool = False, grad: bool = False, plan: str = "", keep: Iterable[str] = ()) -> Compiled:
    """The same of a program that has been checked."""
    if plan not in PLANS or (plan and (module or grad or tune)) or (keep and not plan):
        said = f"`{plan}` is no plan" if plan not in PLANS else "what serves has no gradient, class or tuned tiles"
        raise EincError([Problem(said if plan else "what is kept is of a plan that serves", helps=(
            Help('say `plan="serve"`, and none of the others'),))])
    how = choices(narrow, own, backend)
    made_of = generation(program, how, keep) if plan else cut(program, how, grad)
    source = emit(made_of, backend, shell(program) if module else None)
    function = load(source, "step" if plan else program.name, backend)
    if plan:
        return Compiled(program, made_of, source, function, prefill=unwrap(function).__globals__["prefill"])
    made = next((x for x in unwrap(function).__globals__.values() if hasattr(x, "state_dict")), None) if module else None
    if tune:
        function = back_ends.tuner(backend).tuning(function)
    if made is not None:
        unwrap(made.forward).__globals__[function.__name__] = function  # So the class calls what is tuned, and told.
    return Compiled(program, made_of, source, function, made)


def written_map(name: str) -> tuple[str, dict[str, Any]]:
    """A map of weights, a file or one that comes with einc, and what to call it. EincError where there is none."""
    shipped = files("einc.specs").joinpath("maps")
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8") if path.suffix == ".toml" else shipped.joinpath(f"{name}.toml").read_text("utf-8")
        return (name if path.suffix == ".toml" else f"the map `{name}`"), tomllib.loads(text)
    except (OSError, ValueError) as error:
        known = ", ".join(sorted(x.name.removesuffix(".toml") for x in shipped.iterdir()))
        said = "is no map of weights" if isinstance(error, OSError) else f"cannot be read: {error}"
        raise EincError([Problem(f"`{name}` {said}", helps=(
            Help(f"those that come with einc are {known}; another is a .toml file"),))]) from None


def load_weights(spec: str | Path | Compiled, state: Mapping[str, Any], *, map: str | None = None, prefix: str = "",
                 **sizes: int) -> dict[str, Any]:
    """The weights of a spec out of another model's `state_dict()`, by a written map: that of the spec's own name, or another.

    `prefix` stands before every name of the map: `h.0.` for the first layer of a GPT-2. Sizes that no shape tells, such as
    the number of heads, are given by name. EincError where something is missing or does not fit.
    """
    program = spec.program if isinstance(spec, Compiled) else _typed(spec)
    where, written = written_map(map or program.name)
    try:
        return mapped(program, entries(program, written, where), state, prefix, sizes)[0]
    except Problem as problem:
        raise EincError([problem]) from None


def check(path_or_text: str | Path, *, strict: bool = False) -> list[Problem]:
    """Every problem of a spec, in the order of the text; none means that it is sound."""
    report = Report()
    pipeline.check(pipeline.read_source(path_or_text, report), report, strict=strict)
    return report.sorted()


def interpret(path_or_text: str | Path, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What a spec means: its outputs in float64, by the interpreter. EincError where data and spec do not fit."""
    program = _typed(path_or_text)
    try:
        found: dict[str, Any] = import_module("einc.meaning.interpret").__dict__["interpret"](program, arrays, sizes)
    except Problem as problem:
        raise EincError([problem]) from None
    return found
