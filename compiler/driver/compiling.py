"""Compiling a spec: a checked program to a plan, to the text of a file, to a callable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import MappingProxyType
from typing import Any

from einc import planning
from einc.checking.plans import chosen
from einc.driver import automatic, back_ends, pipeline
from einc.driver.checking import typed
from einc.driver.compiled import Compiled, Loaded
from einc.driver.files import noting
from einc.driver.library import library
from einc.driver.narrowing import narrowed
from einc.driver.options import DEFAULTS, Grad, Options
from einc.driver.restoring import Origin, origin
from einc.errors.report import EincError, Help, Problem
from einc.ir.choices import PLAIN, Choices
from einc.ir.plan import Gradient, Module, ModuleClass, PerRank, SegmentedModule
from einc.ir.programs import Program, Tensor, TypedProgram
from einc.ir.requested import Cache, Mesh, PlanBlock, Products, Recompute, Relative, Store
from einc.planning.recomputed import recomputed

SERVING = "einc.driver.serving"  # loaded where a plan serves: other files need nothing of it
PLACING = "einc.driver.placing"  # the same where a mesh is named
ONCE = "einc.transforms.once"  # the same where a part is asked for
NO_MESH: Mapping[str, int] = MappingProxyType({})
GRADIENTS = "einc.driver.gradients"  # the same where a gradient is asked for


def choices(options: Options) -> Choices:
    """The choices of a plan that the options name."""
    back_end = back_ends.record(options.backend)
    return Choices(options.narrow, () if options.own else library(), back_end.ordered, back_end.compiled)


def plan(program: Program, choices: Choices = PLAIN, asked: tuple[Tensor, ...] | None = None) -> Module:
    """How the program is cut into steps; `asked` are its inputs, read or not. EincError where it returns nothing, as
    a text that is about its claims.
    """
    if not program.outputs:
        raise EincError([Problem(f"`{program.name}` has no output, so there is nothing to compile", helps=(
            Help("say what is returned: `output Y_t^d`"), Help("what it claims is proved by `einc prove`")))])
    return planning.plan(pipeline.normal(program), program.inputs() if asked is None else asked, choices)


def gradient(program: TypedProgram, choices: Choices = PLAIN, exact: bool = False) -> Gradient | SegmentedModule:
    """The plans of a program and of its gradient; see `gradients.gradient`."""
    made: Gradient | SegmentedModule = import_module(GRADIENTS).gradient(program, choices, exact)
    return made


def generation(program: TypedProgram, choices: Choices = PLAIN, keep: Iterable[str] = (),
               plans: Iterable[str] = ("serve",)) -> Module:
    """The plan of a step that adds positions to those before, as the text's `plans` of these names say; of `keep` see
    `serving.generation`."""
    program, wanted = asked(program, Options(plan=",".join(plans)))
    cache = wanted.asked(Cache)
    made: Module = import_module(SERVING).generation(program, choices, frozenset(keep) or frozenset(cache.tensors),
                                                     cache.page)
    return made


def class_of(program: Program) -> ModuleClass:
    """The weights of a program and how each is initialised, for a torch.nn.Module class that calls its function."""
    return planning.class_of(program)


def cut(program: TypedProgram, choices: Choices = PLAIN, grad: Grad = False) -> Module | Gradient | SegmentedModule:
    """What a file is written from; with `grad` it has the gradient, too. EincError where `grad` says nothing."""
    _kind(grad)
    return gradient(program, choices, grad == "exact") if grad else plan(program, choices)


def _kind(grad: Grad) -> None:
    """Refuses what is no kind of gradient."""
    if grad not in (False, True, "exact"):
        raise EincError([Problem(f"`{grad}` is no kind of gradient", helps=(
            Help('say `grad=True`, or `grad="exact"` where no slope may be declared'),))])


def asked(program: TypedProgram, options: Options) -> tuple[TypedProgram, PlanBlock]:
    """The program as the chosen plans change it, and what they ask for. EincError where the text has no plan of a name
    that is chosen, where the chosen ones contradict each other, or where a line cannot be followed.
    """
    try:
        wanted = chosen(program.plans, options.plans)
    except Problem as problem:
        raise EincError([problem]) from None
    return narrowed(program, wanted)


def parted(program: TypedProgram, options: Options) -> tuple[TypedProgram, Options]:
    """The part of a program that the options name, with what is left of them: what makes tensors of weights alone, or
    what takes these. EincError where nothing is made of weights alone.
    """
    if not options.part:
        return program, options
    if len(options.parts) > 1 or (options.part == "once" and (options.serves or options.module or options.grad)):
        raise EincError([Problem("`once` makes tensors of weights and nothing else", helps=(
            Help("choose it without `rest`, `serve`, a gradient or a class"),))])
    changed, wanted = asked(program, options)
    made = import_module(ONCE).parts(changed)
    if made is None:
        raise EincError([Problem(f"`{program.name}` makes nothing of its weights alone", helps=(
            Help(f"leave out `{options.part}`: the whole is one function"),))])
    lines = tuple(x for x in wanted.lines if not isinstance(x.record, Products | Relative | Store))
    left = replace(wanted, lines=lines)
    if options.part == "once":
        return made.once, Options(options.backend, options.strict, options.narrow, options.own)
    return replace(made.rest, plans=(left,)), replace(options, plan=wanted.name)


def planned(program: TypedProgram, options: Options) -> Module | Gradient | SegmentedModule:
    """What the options ask for of a program: a step, the program, or the program with its gradient. EincError where
    the text has no plan of a name that is chosen, or where the chosen ones contradict each other.
    """
    program, options = parted(program, options)
    if options.serves:
        return generation(program, choices(options), options.keep, options.plans)
    program, wanted = asked(program, options)
    if wanted.meshed:
        raise EincError([Problem("a plan on several devices is no plan of one", helps=(
            Help("`einc compile` writes a file for all of them, `einc show --stage plan` prints what each does"),))])
    return recomputed(cut(program, choices(options), options.grad), dict(wanted.asked(Recompute).rounds))


ON_SEVERAL = Problem("what serves on several devices is no file of its own", helps=(
    Help("`torchrun … -m einc generate FILE --plan serve` runs it; lines of a mesh in a block of another name are of "
         "those files alone for which it is chosen"),))


def on_ranks(program: TypedProgram, options: Options,
             ranks: Mapping[str, int]) -> PerRank | Module | Gradient | SegmentedModule:
    """What the options ask for of a program: where they or `ranks`, numbers of ranks by axis, name a mesh, the plan of
    each of its ranks, if it has more than one. EincError where what is asked for cannot be had on a mesh.
    """
    try:
        wanted = chosen(program.plans, options.plans)
        if not ranks and not (any(wanted.asked(Mesh).ranks.values()) if options.serves else wanted.meshed):
            return planned(program, options)
    except Problem as problem:
        raise EincError([problem]) from None
    if options.serves:
        raise EincError([ON_SEVERAL])
    if options.tune:
        raise EincError([Problem("tiles that are tuned cannot be had on several devices yet", helps=(
            Help("leave it out: write the function, with its gradient if you like"),))])
    _kind(options.grad)
    program, _ = narrowed(program, wanted)
    made: PerRank | None = import_module(PLACING).planned(program, options.plans, ranks, options.grad, choices(options))
    if made is not None and made.stages is not None and not options.module:
        raise EincError([Problem("a stage is a class of the weights of its rounds, and none was asked for", helps=(
            Help("say `--module`, or `module=True`"),))])
    plan = cut(program, choices(options), options.grad) if made is None else made
    return recomputed(plan, dict(wanted.asked(Recompute).rounds))


def compile(path_or_text: str | Path, backend: str = "auto", *, strict: bool = False, narrow: bool = False,
            own: bool = False, tune: bool = False, module: bool = False, grad: Grad = False, plan: str = "",
            keep: Iterable[str] = (), section: str = "", equation: str = "",
            side: str | Path | None = None, mesh: Mapping[str, int] | None = None) -> Compiled:
    """A spec (a path, the name of one that comes with einc, or the text itself) as a callable.

    The back end is torch, cpp or triton; `auto` decides at the call: Triton on a GPU, and on a CPU torch until, by
    estimate, the time is saved in which a C++ compiler makes faster kernels.
    With `narrow` every product of half inputs is rounded to their type: faster where the machine multiplies them
    faster, and less exact.
    With `own` no kernel of a library is called for what a plan's own kernel computes.
    With `tune` the first call for tensors of other shapes times the kernels on a GPU, where the cache on disk does not
    know the fastest tiles; without it tiles are chosen by sizes alone, the same ones in every run.
    With `grad` its results can be differentiated with respect to every input of real numbers; with `grad="exact"` it is
    an error where a gradient passes a rounding, whose slope is declared.
    With `plan="serve"` it generates: `.prefill` gives the first positions and a cache, the result itself, called with
    the cache, the next ones; `keep` names what is kept of each position, else that is decided by cost. Further names,
    as in `plan="serve,long"`, choose `plan` blocks of the text.
    With `module` the result's `.module` is a `torch.nn.Module` class whose parameters are the weights.
    With `mesh={"tp": 2}`, or a plan that says it, it is what each rank of a mesh of devices runs, which sends what the
    others need: `shard` lines of plans say what is cut over an axis.
    With `once` among its plans it is what makes tensors of weights alone, as scales and rounded numbers, and with
    `rest` what is given these in place of the weights: `load_weights` makes them once.
    Of a paper one `section` is compiled, or one `equation`, by its label, its number or tag, or the title of its
    section; `side` is a spec with the declarations that the paper lacks.

    EincError where the spec has errors, or the back end has nothing to tune; the message is the rendered problems.
    """
    options = Options(backend, strict, narrow, own, tune, module, grad, plan, tuple(keep), section, side, equation)
    with noting() as noted:
        program = typed(path_or_text, options)
    return built(program, options, None if mesh else origin(path_or_text, options, noted), mesh or {})


def built(program: TypedProgram, options: Options = DEFAULTS, of: Origin | None = None,
          mesh: Mapping[str, int] = NO_MESH) -> Compiled:
    """The callable of a program that has been checked; `of` is what a pickle of it would have. Raises EincError."""
    if options.serves and (options.module or options.grad or options.tune):
        raise EincError([Problem("what serves has no gradient, class or tuned tiles", helps=(
            Help('say `plan="serve"`, and none of the others'),))])
    if options.keep and not options.serves:
        raise EincError([Problem("what is kept is of a plan that serves", helps=(Help('say `plan="serve"`'),))])
    program, options = parted(program, options)
    made_of = on_ranks(program, options, mesh)
    if isinstance(made_of, PerRank):
        backend = "torch" if options.backend == back_ends.AUTO else options.backend
        text = back_ends.emit(made_of, backend, class_of(program) if options.module else None)
        if made_of.stages is not None:
            return Compiled(program, made_of, text, back_ends.load(text, "stage", backend))
        function = back_ends.load(text, program.name, backend)
        return Compiled(program, made_of, text, function, _class_in(function, options, of))
    source = back_ends.emit(made_of, options.backend, class_of(program) if options.module else None)
    entry = "step" if options.serves else program.name
    if options.backend == back_ends.AUTO:
        plain = not (options.serves or options.module or options.tune)
        gpu = replace(options, backend=automatic.GPU)
        function = automatic.function(source, entry, (lambda: built(program, gpu).function) if plain else None)
    else:
        function = back_ends.load(source, entry, options.backend)
    if options.serves:
        return Compiled(program, made_of, source, function, None, unwrap(function).__globals__["prefill"], of)
    if options.tune:
        function = back_ends.tuner(options.backend).tuning(function)
    return Compiled(program, made_of, source, function, _class_in(function, options, of), None, of)


def _class_in(function: Any, options: Options, of: Origin | None) -> type | None:
    """The class of weights of a file, if the options ask for one: it calls the function as it is given here, which may
    be tuned, and tells of itself.
    """
    names = unwrap(function).__globals__ if options.module else {}
    made = next((x for x in names.values() if hasattr(x, "state_dict")), None)
    if made is None:
        return None
    unwrap(made.forward).__globals__[function.__name__] = function
    return Loaded(made.__name__, (made,), {"__module__": made.__module__, "__doc__": made.__doc__, "_einc_origin": of})
