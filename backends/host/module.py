"""Plan -> the text of a Python file: the equation above each step, sizes read at the
call. A dialect writes the kernels."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from einc.backends.host import serving
from einc.backends.host.cache_views import laid, view
from einc.backends.host.contractions import contract, stored
from einc.backends.host.described import describe, parameters, told
from einc.backends.host.hops import hops
from einc.backends.host.inputs import read_sizes
from einc.backends.host.loops import Dialect, Page, each, in_blocks, repeat
from einc.backends.host.module_class import write_class
from einc.backends.host.moves import move
from einc.backends.host.naming import Named, entry_name, named, tuple_name, with_names
from einc.backends.host.recurrences import recur
from einc.backends.host.scalars import scalar
from einc.backends.host.segments import segment
from einc.backends.host.source import Import, Library, Source
from einc.backends.host.topk import grouped, pick
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.elements import RANGED
from einc.ir.plan import (
    Append,
    BroadcastView,
    Call,
    Choose,
    Concat,
    Contract,
    GroupedMatmul,
    Hops,
    InSlices,
    Kernel,
    Leaf,
    Loop,
    Module,
    ModuleClass,
    Move,
    PerRequest,
    Recurrence,
    Repack,
    RowBlocks,
    SegmentSum,
    StateScan,
    Step,
    TopK,
    leaves,
)

# The modules of helpers for files of every back end: those before the dialect's own, and those after them.
_RUNTIME = "einc.backends.host.runtime"
_FIRST = (
    *(Source(f"{_RUNTIME}.{name}") for name in ("checks", "values", "whole", "slices", "bytes")),
    *(Source(f"{_RUNTIME}.{name}", annotated=True) for name in ("cache", "cache_view", "exhausted", "pool", "pages")),
    *(Source(f"{_RUNTIME}.{name}")
      for name in ("saved", "requests", "groups", "affine", "moves", "hops", "ranks", "stages")),
)
_LAST = (Source(f"{_RUNTIME}.samples"), Source(f"{_RUNTIME}.operators"), Source(f"{_RUNTIME}.underived"))
_IMPORTS = (Import("math"), Import("bisect", "bisect_left"), Import("bisect", "bisect_right"),
            Import("functools", "lru_cache"), Import("functools", "partial"),
            Import("torch.utils.checkpoint", "checkpoint"))  # for statements


def write(plan: Module, dialect: Dialect, module_class: ModuleClass | None = None) -> str:
    """The whole file; with a module class, the class that holds the weights too."""
    body = Writer(depth=1)
    helpers: set[str] = {"_expect", "_underived"}
    naming = named(plan, serving.NAMES if plan.past else ())
    module = naming.module
    page = Page(module, body, Names(set(naming.taken)), helpers)
    asked = read_sizes(naming, body, helpers, dialect.types(module))
    ahead = serving.shared(module)
    steps(page, dialect, module.steps[:ahead])
    if module.past:
        body()
        serving.latest(module, ahead, body)
        page.places.clear()
        steps(page, dialect, module.steps[ahead:])
    body()
    if module.past:
        serving.end(naming, body, page.names)
    body(f"return {result(module)}")
    definitions = [*page.functions, *dialect.definitions()]
    known = library(dialect)
    above = known.needed(serving.CLASSES if module.past else ())
    needed = known.needed(helpers) | above
    out = Writer()
    head(naming, dialect, out, known.imports(needed))
    out.lines += serving.classes(module, known.texts(above))
    signature(naming, out, asked, "@torch.no_grad()")
    out.lines += body.lines
    if module.past:
        public = [naming.public[t.key] for t in module.given]
        names = parameters(public, [naming.size(name) for name in asked], module.past)
        out.lines += serving.prefill(naming, asked, names, returned(module))
    if module_class is not None:
        out.lines += write_class(naming, module_class, asked)
    out.lines += definitions
    out.lines += below(known.texts(needed - above))
    entry = "step" if module.past else entry_name(module.name)
    out.lines += ["", "", f"{entry} = _underived({entry})"]
    return out.text


def library(dialect: Dialect) -> Library:
    """The helpers of the files of a dialect."""
    return Library((*_FIRST, *dialect.runtime, *_LAST), _IMPORTS)


def below(texts: Sequence[str]) -> list[str]:
    """The lines of definitions that stand one after the other, below others."""
    return [line for text in texts for line in ("", "", *text.split("\n"))]


def steps(page: Page, dialect: Dialect, some: Sequence[Step] | None = None) -> None:
    """Writes the statements of all steps, or of some."""
    counted: set[str] = set()
    page.laid = laid(page.module, dialect.streams)
    for one in page.module.steps if some is None else some:
        page.body()
        counts(one, page.body, counted)
        step(one, page, dialect)


def step(one: Step, page: Page, dialect: Dialect) -> None:
    """Writes the statements of one step of a plan into the page, by its kind: a choice, hops, a loop, one request at a
    time, blocks of rows, or a step of the dialect."""
    match one:
        case Choose():
            _choose(one, page, dialect)
        case Hops():
            hops(one, page, dialect, steps)
        case Loop():
            repeat(one, page, dialect, steps)
        case PerRequest():
            each(one, page, dialect, steps)
        case RowBlocks():
            in_blocks(one, page, dialect, steps)
        case _:
            _step(one, page, dialect)


def head(naming: Named, dialect: Dialect, out: Writer, imports: Sequence[str], notes: Sequence[str] = ()) -> None:
    """Writes the file's first lines: what it computes of what, notes on it, its imports, and the class of its results.
    `imports` are those of its statements and helpers, beside the ones that every file of the dialect has.
    """
    module = naming.module
    source = module.source.replace("\\", "/").replace('"', "'")
    out(f'"""{module.name}: written by einc from {" ".join(source.split())}. It needs {dialect.needs}.')
    out()
    out.lines += told(naming)
    for note in notes:
        out(note)
    out('"""')
    out()
    own = [line for line in imports if line not in dialect.imports]
    own += ["from typing import NamedTuple"] if len(module.outputs) > 1 else []
    out.lines += [*own, ""] if own else []
    for line in dialect.imports:
        out(line)
    named_tuple(naming, out)
    out()
    out()


def named_tuple(naming: Named, out: Writer) -> None:
    """Writes the class of the results into the file, where there are several."""
    if len(naming.module.outputs) > 1:
        out()
        out()
        out.open(f"class {tuple_name(naming.module.name)}(NamedTuple):")
        for name in naming.outputs:
            out(f"{name}: torch.Tensor")
        out.close()


def result(module: Module) -> str:
    """The expression that the function returns: its only output, or all outputs as a named tuple."""
    keys = [key for _, key in module.outputs]
    return keys[0] if len(keys) == 1 else f"{tuple_name(module.name)}({', '.join(keys)})"


def signature(naming: Named, out: Writer, asked: list[str], decorator: str = "", mesh: str = "") -> None:
    """Writes the head of the caller's function; where a declared name is not free inside, it hands its arguments to
    another. It is given a `mesh`, if that is a name: `mesh` inside.
    """
    module = naming.module
    entry = "step" if module.past else entry_name(module.name)
    inside = [t.key for t in module.given]
    public = [naming.public[key] for key in inside]
    sizes = [naming.size(name) for name in asked]
    returns, cache = returned(module), "cache: Cache | list[Cache], " if module.past else ""
    lengths = ", lengths: list[int] | None = None, latest: bool = False" if module.past else ""
    meshed = ": DeviceMesh | None = None"
    apart = public + sizes != inside + asked or mesh not in ("", "mesh")
    if apart:
        out.lines += folded(f"def {entry}({cache}{parameters(public, sizes, module.past)}{lengths}"
                            f"{f', {mesh}{meshed}' * bool(mesh)}) -> {returns}:")
        out.depth += 1
        describe(naming, sizes, out)
        handed = zip(inside + asked, public + sizes, strict=True)
        also = ", lengths=lengths, latest=latest" if module.past else f", mesh={mesh}" if mesh else ""
        out(f"return "
            f"_computed({'cache, ' if cache else ''}{', '.join(f'{name}={given}' for name, given in handed)}{also})")
        out.close()
        out()
        out()
    if decorator:
        out(decorator)
    name = "_computed" if apart else entry
    out.lines += folded(f"def {name}({cache}{parameters(inside, asked, module.past)}{lengths}"
                        f"{f', mesh{meshed}' * bool(mesh)}) -> {returns}:")
    out.depth += 1
    if not apart:
        describe(naming, sizes, out)


def returned(module: Module) -> str:
    """The type that the function of a module returns: a tensor, or the named tuple of its results."""
    return "torch.Tensor" if len(module.outputs) == 1 else tuple_name(module.name)


def counts(step: Step, body: Writer, counted: set[str]) -> None:
    """Writes the number of runs wherever a step is the first that speaks of it."""
    for one in leaves((step,)):
        if isinstance(one, BroadcastView) and one.count not in counted:
            counted.add(one.count)
            onto, of = sized(one.onto, tight=True), sized(one.of, tight=True)
            body(f"{one.count} = {onto} if {onto} and {of} % {onto} == 0 else {of}")


def _choose(step: Choose, page: Page, dialect: Dialect) -> None:
    """Writes the price of each way as a number, and the steps of the cheapest."""
    body = page.body
    body(f"# {len(step.options)} orders of the same products; the price of a step is the larger of its operations and")
    body(f"# {step.balance} times the bytes it moves.")
    prices = []
    for option in step.options:
        prices.append(page.names.fresh("price"))
        body(f"# {option.label}:")
        for n, (name, flops, moved) in enumerate(option.prices):
            left = f"{prices[-1]} {'+=' if n else '='} "
            body(f"{left}max({sized(flops)}, {step.balance} * {sized(moved, tight=True)})  # {name}")
    for n, ((option, way), price) in enumerate(zip(step.ways, prices, strict=True)):
        others = prices[n + 1 :]
        test = f"{price} <= {others[0]}" if len(others) == 1 else f"{price} <= min({', '.join(others)})"
        body.open(("elif " if n else "if ") + f"{test}:  # {option.label}" if others else f"else:  # {option.label}")
        here = replace(page, places=dict(page.places), wholes=dict(page.wholes))
        for at, inner in enumerate(way):
            if at:
                body()
            _step(inner, here, dialect)
        body.close()


def _step(step: Leaf, page: Page, dialect: Dialect) -> None:
    """Writes the statements of a step that is no choice, no loop and no round of requests. A buffer that lies tile by
    tile and is read as a whole is first put together under another name, which is added to the page.
    """
    step = _whole(step, page)
    module, body = page.module, page.body
    match step:
        case Contract() | InSlices() if dialect.contracted(step, page):
            pass
        case Contract() | InSlices() | Repack():
            contract(module, step, body, page.names, page.helpers)
        case Concat():
            body(f"# {step.text}")
            body(f"{step.out} = torch.cat(({', '.join(stored(module, p, step.out) for p in step.reads)}), {step.axis})")
        case Append():
            body(f"# {step.text}")
            made = serving.append(module, step.out, step.reads, step.axis)
            body(f"{step.out} = {made}" + ("" if page.laid is not None and step.out in page.laid.axes else ".whole()"))
        case Recurrence() | StateScan():
            recur(step, module, body, page.names.fresh, page.helpers, dialect.recurrence)
        case Move():
            move(step, module, body, page.helpers)
        case TopK():
            pick(step, body, page.helpers)
        case GroupedMatmul():
            grouped(step, module.buffers[step.out], body, page.names, page.helpers,
                    lambda name: stored(module, name, step.out))
        case SegmentSum():
            segment(step, module, body, page.names, page.helpers)
        case BroadcastView():
            view(module, step, body, page.laid, page.helpers)
            body.open("else:")
            here = replace(page, places={}, wholes=dict(page.wholes))
            _step(step.kernel, here, dialect)
            if page.laid is not None and step.out in page.laid.axes:
                body(f"{step.out} = _CacheView({step.out}, {page.laid.axes[step.out]})")
            body.close()
        case Call():
            _call(step, page, dialect.ahead(step.kernel, page))
            body.open("else:")
            here = replace(page, places={}, wholes=dict(page.wholes))
            for at, inner in enumerate(step.steps):
                if at:
                    body()
                _step(inner, here, dialect)
            body.close()
        case Kernel():
            dialect.kernel(step, page)
        case _:
            assert_never(step)


def _whole(step: Leaf, page: Page) -> Leaf:
    """Writes under one name what lies tile by tile, and returns the step with names for all rows at once of what it
    does not take tile by tile.
    """
    names = page.laid.whole(page.module, step) if page.laid is not None else []
    for name in names:
        if name not in page.wholes:
            page.wholes[name] = page.names.fresh(f"{name}_whole")
            page.body(f"{page.wholes[name]} = {name}.whole()")
        buffer = replace(page.module.buffers[name], name=page.wholes[name])
        page.module = replace(page.module, buffers={**page.module.buffers, buffer.name: buffer})
    return with_names(step, {name: page.wholes[name] for name in names}) if names else step


def _call(step: Call, page: Page, ahead: str) -> None:
    """Writes one call of a library, its operands as batches of matrices; what is laid tile by tile has to be in one
    piece. `ahead` is the condition under which the back end's own kernel is preferred.
    """
    body, laid = page.body, page.laid.axes if page.laid is not None else dict[str, int]()
    page.helpers |= _helpers(step)
    into, back = _batched(step)
    library = step.library
    buffers = {key: f"{buffer}.whole()" if buffer in laid else buffer for key, buffer, _ in step.given}
    operands = {key: _turned(buffers[key], order) for key, order in step.operands}
    for key, at, count in step.repeats:
        operands[key] += f".repeat_interleave({sized(step.batch[at], tight=True)} // {count}, {at})"
    operands = {key: text + into for key, text in operands.items()}
    where = library.where.format(**buffers, **{name: sized(extent, tight=True) for name, extent in step.sizes})
    pieces = list(dict.fromkeys(buffer for buffer in step.reads if buffer in laid))
    parted = bool(pieces) and library.pieces
    single = [f"{buffer}.single" for buffer in pieces]
    where = where if parted else " and ".join([*single, where])
    where = f"not ({ahead}) and {where}" if ahead else where
    made = ", ".join(step.writes)
    if len(step.results) == 1:
        body.open(f"if {where}:  # one call of the library computes what follows: {library.name}")
        (order,) = step.results
        whole = f"{made} = {_turned(library.call.format(**operands) + back, order)}"
        if parted:
            tiles = {key: _turned(f"{buffer}.tile(*_at)", order) for key, buffer, order in step.given if buffer in laid}
            page.helpers.add("_cuts")
            operands |= {key: f"({text}{into} for _at in _cuts({', '.join(pieces)}))" for key, text in tiles.items()}
            body.open(f"if {' and '.join(single)}:")
            body(whole)
            body.close()
            body.open("else:  # a call for each piece, and these joined")
            body(f"{made} = {_turned(library.call.format(**operands) + back, order)}")
            body.close()
        else:
            body(whole)
    else:
        body(f"# One call of the library computes what follows: {library.name}.")
        body.lines += folded(f"{'    ' * body.depth}if {where}:")
        body.depth += 1
        body.lines += folded(f"{'    ' * body.depth}{made} = {library.call.format(**operands)}")
        for buffer, order in zip(step.writes, step.results, strict=True):
            if (turned := _turned(f"{buffer}{back}", order)) != buffer:
                body(f"{buffer} = {turned}")
    for name in (x for x in step.writes if page.module.buffers[x].element == RANGED):
        body(f"{name} = {name}.to(ranged)")
    for place, scale in step.scales:
        factor = scalar(scale)
        page.helpers |= factor.calls
        body(f"{step.writes[place]}.mul_({factor.text})")
    body.close()


def _helpers(step: Call) -> set[str]:
    """The helpers that the row of a library names in its call: what is called without the name of a module in front."""
    call = ast.parse(step.library.call.format(**{key: key for key, _, _ in step.given}), mode="eval")
    return {node.func.id for node in ast.walk(call) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _batched(step: Call) -> tuple[str, str]:
    """What makes batches of an operand the two axes that the call knows, and of a result the batches again."""
    ranks = len(step.batch)
    if step.library.flat and ranks > 1:
        return f".flatten(0, {ranks - 1})[:, None]", f"[:, 0].unflatten(0, ({', '.join(sized(x) for x in step.batch)}))"
    if step.library.flat and ranks == 1:
        return "[:, None]", "[:, 0]"
    if ranks > 2:
        return f".flatten(0, {ranks - 2})", f".unflatten(0, ({', '.join(sized(x) for x in step.batch[:-1])}))"
    none = ranks == 2
    return ("", "") if none else (f"[{', '.join(['None'] * (2 - ranks))}]", f"[{', '.join(['0'] * (2 - ranks))}]")


def _turned(text: str, order: tuple[int, ...]) -> str:
    return text if order == tuple(sorted(order)) else f"{text}.permute({', '.join(map(str, order))})"
