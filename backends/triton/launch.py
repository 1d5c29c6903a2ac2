"""What starts a kernel, its results' memory and a call; and its definition as text."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from textwrap import wrap

from einc.backends.host.contractions import element
from einc.backends.host.folding import step
from einc.backends.host.loops import Page
from einc.backends.host.naming import with_names
from einc.backends.triton.kernel import Written, write_kernel
from einc.backends.triton.start import TYPED, Paging, Start, growing, numbered, read, shares, uses
from einc.backends.writer import Writer, folded, identifier, sized
from einc.ir.elements import RANGED, REAL
from einc.ir.folds import FOLDS
from einc.ir.plan import Kernel, Store, takes

_JOINED = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin"}  # methods of the host's tensors
_FIXED = "\u00a0"  # a space at which no line is broken


def launch(kernel: Kernel, page: Page) -> list[str]:
    """Writes the statements that run the kernel on the page; the lines that define it."""
    kernel, paging = _laid(kernel, page)
    made = write_kernel(page.module, kernel, paging.slots)
    page.helpers |= {"_ready"} | made.helpers | (made.joined.helpers if made.joined is not None else set())
    constants = {**dict.fromkeys(TYPED, "_tl_type"), "OFFSET": "_offset", "PRECISION": "_precision"}
    page.helpers |= {helper for constant, helper in constants.items() if uses(made, constant)}
    body, name = page.body, page.names.fresh(f"_{identifier(kernel.name)}_kernel")
    for text in kernel.texts[-1:]:
        body(f"# {text}")
    if paging.line:
        body(paging.line)
    for store in kernel.stores:
        if not store.merge:
            body(f"{identifier(store.buffer)} = torch.empty({_memory(store, page)}")
    for parameter, text in made.arguments.tensors.prepared.items():
        body(f"{parameter} = {text}")
    # A name that another kernel of the file has too is no name to keep tiles by.
    usual = identifier(kernel.name)
    start = Start(kernel, page, paging, made, usual if name == f"_{usual}_kernel" else name.removeprefix("_"))
    lines, asked = start.written(f"{name.removesuffix('_kernel')}_start", name)
    lines += _definition(name, kernel.texts, made)
    if made.joined is not None:
        lines += _shared(kernel, made, paging, name, asked, page)
    else:
        _alone(kernel, made, paging, name, asked, page)
    return lines


def _alone(kernel: Kernel, made: Written, paging: Paging, name: str, asked: str, page: Page) -> None:
    """Writes the start of a kernel, and what joins the shares of its tiles where it merges results."""
    page.helpers.add("_run")
    asked = _room(kernel, made, asked, page)
    page.body.lines += folded(f"{'    ' * page.body.depth}_run({', '.join([name, asked, *_tensors(made, paging)])})")
    _merged(kernel, made, page)


def _room(kernel: Kernel, made: Written, asked: str, page: Page) -> str:
    """Writes the memory in which tiles leave their shares of merged results; the start of the kernel then."""
    if not kernel.merged:
        return asked
    body = page.body
    begun, tiles = (page.names.fresh(word) for word in ("start", "tiles"))
    body.lines += folded(f"{'    ' * body.depth}{begun}, {tiles} = {asked}")
    for store in kernel.merged:
        first = "" if store.merge == "sum" else f", {_number(FOLDS[store.merge].start)}"
        many = tiles if store.merge == "sum" else f"max(1, {tiles})"
        body(f"{shares(made, store)} = torch.{'full' if first else 'empty'}({_memory(store, page, many, first)}")
    return begun


def _merged(kernel: Kernel, made: Written, page: Page) -> None:
    """Writes the results that are folded of the shares of all tiles."""
    for store in kernel.merged:
        joined = _joined(store, shares(made, store), page.helpers)
        buffer = page.module.buffers[store.buffer]
        behind = f".to({element(buffer)})" * (buffer.element in (REAL, RANGED))
        page.body(f"{identifier(store.buffer)} = {joined}{behind}")


def _shared(kernel: Kernel, made: Written, paging: Paging, name: str, asked: str, page: Page) -> list[str]:
    """Writes the start of a kernel of which several programs may share the pass of a tile, and of a second one that
    then joins them; the lines that define that one."""
    assert made.joined is not None
    page.helpers.add("_run_shared")
    second, asked = page.names.fresh(f"{name.removesuffix('_kernel')}_join"), _room(kernel, made, asked, page)
    tensors, joined = (f"({', '.join(x)}{',' * (len(x) == 1)})"
                       for x in (_tensors(made, paging), _tensors(made.joined, paging)))
    page.body.lines += folded(f"{'    ' * page.body.depth}_run_shared({name}, {second}, {asked}, wide, device, "
                              f"{tensors}, {joined})")
    _merged(kernel, made, page)
    return _definition(second, (f"What the programs of {name} left for one tile, joined.", *kernel.texts[-1:]),
                       made.joined)


def _number(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else f"float('{value}')"


def _joined(store: Store, shares: str, helpers: set[str]) -> str:
    """The fold of the shares of all tiles, on the host."""
    if store.merge in _JOINED:
        return f"{shares}.{_JOINED[store.merge]}(0)"
    helpers.add("_folded")
    return f"_folded({step(store.merge, helpers)}, {shares}, (0,), {_number(FOLDS[store.merge].start)})"


def _laid(kernel: Kernel, page: Page) -> tuple[Kernel, Paging]:
    """The kernel with names for the memory of what it takes tile by tile, which are in the module from now on."""
    mine = sorted(takes(kernel) & page.laid.axes.keys()) if page.laid is not None else []
    if page.laid is None or not mine:
        return kernel, Paging({})
    names = {buffer: page.names.fresh(f"{identifier(buffer)}_rows") for buffer in mine}
    pages, length = page.names.fresh("pages"), page.names.fresh("page")
    page.helpers.add("_pages")
    line = f"{', '.join([*names.values(), pages, length])} = _pages({', '.join(map(identifier, mine))})"
    memory = {name: replace(page.module.buffers[buffer], name=name) for buffer, name in names.items()}
    page.module = replace(page.module, buffers={**page.module.buffers, **memory})
    inner = with_names(kernel, names)
    assert isinstance(inner, Kernel)
    return inner, Paging({name: page.laid.axes[buffer] for buffer, name in names.items()}, pages, length, line)


def _memory(store: Store, page: Page, tiles: str = "", start: str = "") -> str:
    """The shape of a result, or of the shares of it that tiles have, and the type of its elements."""
    buffer = page.module.buffers[store.buffer]
    extents = [tiles] * bool(tiles) + [sized(s.extent) for s in buffer.sets]
    kind = "wide" if store.merge and buffer.element in (REAL, RANGED) else element(buffer)
    return f"({', '.join(extents)}{',' * (len(extents) == 1)}){start}, dtype={kind}, device=device)"


def _tensors(made: Written, paging: Paging) -> list[str]:
    """The tensors that the kernel is called with, in the order of its parameters."""
    given = read(made)
    return [*given.tensors.pointers.values(), *[paging.pages] * bool(given.paging[0])]


def _definition(name: str, texts: tuple[str, ...], made: Written) -> list[str]:
    """The function as text: parameters in groups, the equations, the statements."""
    given, out = read(made), Writer()
    out()
    out()
    grows = growing(made)
    for line in folded(f"@triton.jit(do_not_specialize={json.dumps(grows)})") if grows else ["@triton.jit"]:
        out(line)
    out.open(f"def {name}(")
    tensors = list(given.tensors.pointers.values())
    sizes = [*(s for s in given.sizes if s not in given.static), *given.whole, *["parts"] * bool(made.states)]
    numbers = [f'{p}:{_FIXED}"fp64"' for p in given.numbers.values()]
    pages = [given.paging[0]] if given.paging[0] else []
    groups = [[*tensors, *pages, *["states"] * bool(made.states)], list(given.tensors.strides.values()), sizes, numbers]
    constants = [*given.static, *given.blocks.values(), *[given.paging[1]] * len(pages),
                 *["SHARED"] * (made.joined is not None)]
    constants += [*(c for c in (*TYPED, "OFFSET", "PRECISION") if uses(made, c)), *["SPLIT"] * made.split]
    groups.append([f"{c}:{_FIXED}tl.constexpr" for c in constants])
    for group in groups:
        if group:
            for line in wrap(", ".join(group) + ",", 110, break_long_words=False, break_on_hyphens=False):
                out(line.replace(_FIXED, " "))
    out.close()
    out("):")
    out.depth += 1
    first, *others = texts
    out(f'r"""{first}')
    for text in others:
        out(text)
    out('"""')
    for line in numbered(made):
        out(line)
    out.lines += [part for line in made.lines for part in folded(line)]
    return out.lines


