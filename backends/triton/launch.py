"""What starts a kernel: its results' memory, the numbers it is given, the tile, the
programs; and its definition as text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from textwrap import wrap

from einc.backends.host.code import tight
from einc.backends.host.contractions import element
from einc.backends.host.folding import step
from einc.backends.host.loops import Page
from einc.backends.host.naming import with_names
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.kernel import Written, write_kernel
from einc.backends.triton.loads import extent_text
from einc.backends.triton.resources import measured
from einc.backends.triton.resources import text as polynomial
from einc.backends.writer import Writer, folded, identifier, sized
from einc.ir.folds import FOLDS
from einc.ir.plan import Kernel, Store, takes

_COLUMNS, _DEPTH = 256, 256  # the longest columns, and the longest depth of a product, that a tile holds whole
_STEP = 64  # of a depth that it does not
_ORDERED = 64  # columns where tiles go in order: programs are few, and each holds a state
_JOINED = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin"}  # methods of the host's tensors
_FIXED = "\u00a0"  # a space at which no line is broken


def launch(kernel: Kernel, page: Page) -> list[str]:
    """Writes the statements that run the kernel on the page; the lines that define it."""
    kernel, paging = _laid(kernel, page)
    made = write_kernel(page.module, kernel, paging.slots)
    page.helpers |= {"_ready"} | made.helpers | (made.joined.helpers if made.joined is not None else set())
    constants = {"DTYPE": "_tl_type", "WIDE": "_tl_type", "OFFSET": "_offset", "PRECISION": "_precision"}
    page.helpers |= {helper for constant, helper in constants.items() if _uses(made, constant)}
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
    blocks = _tile(kernel, usual if name == f"_{usual}_kernel" else name.removeprefix("_"), made, page)
    for store in kernel.merged:
        name_of, (rows,) = _shares(made, store), (made.counts[d.name] for d in made.layout.dims if d.role == "rows")
        start = "" if store.merge == "sum" else f", {_number(FOLDS[store.merge].start)}"
        tiles = _hosted(rows, blocks) if store.merge == "sum" else f"max(1, {_hosted(rows, blocks)})"
        body(f"{name_of} = torch.{'full' if start else 'empty'}({_memory(store, page, tiles, start)}")
    count = _hosted(" * ".join(made.counts.values()) or "1", blocks)
    programs = page.names.fresh("programs") if count != "1" or made.joined is not None else "1"
    if programs != "1":
        body(f"{programs} = {count}")
        body.open(f"if {programs}:")
    lines = _definition(name, kernel.texts, made)
    if made.joined is None:
        _start(name, programs, _values(made, blocks, paging, page), page)
    else:
        lines += _shared(kernel, made, blocks, paging, name, programs, page)
    if programs != "1":
        body.close()
    for store in kernel.merged:
        joined = _joined(store, _shares(made, store), page.helpers)
        kept = element(page.module.buffers[store.buffer]) != "dtype"
        body(f"{identifier(store.buffer)} = {joined}{'' if kept else '.to(dtype)'}")
    return lines


def _number(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else f"float('{value}')"


def _joined(store: Store, shares: str, helpers: set[str]) -> str:
    """The fold of the shares of all tiles, on the host."""
    if store.merge in _JOINED:
        return f"{shares}.{_JOINED[store.merge]}(0)"
    helpers.add("_folded")
    return f"_folded({step(store.merge, helpers)}, {shares}, (0,), {_number(FOLDS[store.merge].start)})"


@dataclass(frozen=True, slots=True)
class Paging:
    """The slots of positions in buffers that may lie in pages; the host's names for the
    pages, and for the rows of one."""

    slots: dict[str, int]
    pages: str = ""
    page: str = ""
    line: str = ""  # what gives these names their values


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
    kind = element(buffer)
    kind = "torch.promote_types(dtype, torch.float32)" if store.merge and kind == "dtype" else kind
    return f"({', '.join(extents)}{',' * (len(extents) == 1)}){start}, dtype={kind}, device=device)"


def _shares(made: Written, store: Store) -> str:
    return made.arguments.tensors.pointers[made.arguments.share(store.buffer)]


def _start(name: str, programs: str, values: list[str], page: Page) -> None:
    page.body.open(f"{name}[({programs},)](")
    for line in values:
        page.body(line)
    page.body.close()
    page.body(")")


def _shared(kernel: Kernel, made: Written, blocks: dict[str, str], paging: Paging, name: str, programs: str,
            page: Page) -> list[str]:
    """Where tiles are too few for the device, several programs share the pass of each,
    and a second kernel joins them."""
    assert made.joined is not None
    body, passed = page.body, made.layout.role("passed")
    assert passed is not None
    page.helpers |= {"_parts"}
    parts, states = page.names.fresh("shares"), page.names.fresh("partial")
    long = tight(extent_text(made.arguments, kernel, passed.axes[:1]))
    uneven = f", {_hosted(made.uneven, blocks)} > 1" if made.uneven else ""
    body(f"{parts} = _parts({programs}, -(-{long} // columns), device{uneven})")
    numel = f"{programs} * {parts} * ({_hosted(made.states, blocks)})"
    body.lines += folded(f"{'    ' * body.depth}{states} = torch.empty({numel} if {parts} > 1 else 0, "
                         "dtype=wide, device=device)")
    _start(name, f"{programs} * {parts}", _values(made, blocks, paging, page, states, parts), page)
    second = page.names.fresh(f"{name.removesuffix('_kernel')}_join")
    body.open(f"if {parts} > 1:")
    _start(second, programs, _values(made.joined, blocks, paging, page, states, parts), page)
    body.close()
    return _definition(second, (f"What the programs of {name} left for one tile, joined.", *kernel.texts[-1:]),
                       made.joined)


def _hosted(text: str, blocks: dict[str, str]) -> str:
    """The text with the host's names for the lengths of the tile."""
    for parameter, block in blocks.items():
        text = re.sub(rf"\b{parameter}\b", block, text)
    return text


def _values(
    made: Written, blocks: dict[str, str], paging: Paging, page: Page, states: str = "", parts: str = ""
) -> list[str]:
    """What the kernel is called with, in the order of its parameters; the page has the helpers that this calls."""
    given = _read(made)
    for text in (*given.whole.values(), *(text for text, _ in given.numbers)):
        page.helpers |= given.calls[text]
    of, pages = given.tensors, [paging.pages] if given.paging[0] else []
    tensors = list(of.pointers.values())
    strides = [f"*{pointer}.stride()" for key, pointer in of.pointers.items() if (key, 0) in of.strides]
    sizes = [s for s in given.sizes if s not in given.static]
    numbers = [text if text.startswith("float(") else f"float({text})" for text, _ in given.numbers]
    mine = set(given.blocks.values())
    constants = [f"{s}={s}" for s in given.static] + [f"{p}={text}" for p, text in blocks.items() if p in mine]
    constants += [f"SHARED={parts} > 1"] * (made.joined is not None)
    typed = {"DTYPE": "_tl_type(dtype)", "WIDE": "_tl_type(wide)", "OFFSET": f"_offset({', '.join(tensors)})",
             "PRECISION": "_precision(device)"}
    types = [f"{constant}={text}" for constant, text in typed.items() if _uses(made, constant)]
    depth = f"2 * stages - 1 if {paging.page} else stages" if pages else "stages"  # they are read ahead, too
    last = [*["SPLIT=True"] * made.split, "num_warps=warps", f"num_stages={depth}", "enable_fp_fusion=True"]
    constants += [f"{given.paging[1]}={paging.page}"] * len(pages)
    whole = [*sizes, *given.whole.values(), *[parts] * bool(parts), *numbers]
    groups = [[*tensors, *pages, *[states] * bool(states)], strides, whole, constants, types, last]
    return [", ".join(group) + "," for group in groups if group]


def _uses(made: Written, word: str) -> bool:
    return any(word in line for line in [*made.lines, *_numbers(made)])


def _numbers(made: Written) -> list[str]:
    """Statements that give the numbers of the host their type."""
    return [f"{name} = tl.full((), {name}, {kind})" for (_, kind), name in made.arguments.numbers.items()]


def _read(made: Written) -> Arguments:
    """The arguments, without those that no statement reads: the host asks for the sizes of more than a kernel does."""
    given, words = made.arguments, set(re.findall(r"\w+", "\n".join(made.lines)))
    tensors = given.tensors
    for key, pointer in [*tensors.pointers.items()]:
        mine = {place: stride for place, stride in tensors.strides.items() if place[0] == key}
        if words.isdisjoint({pointer, *mine.values()}):
            del tensors.pointers[key]
            tensors.strides = {place: stride for place, stride in tensors.strides.items() if place not in mine}
    given.sizes = {name: text for name, text in given.sizes.items() if text in words}
    given.static = {name: text for name, text in given.static.items() if text in words}
    given.numbers = {key: name for key, name in given.numbers.items() if name in words}
    given.whole = {name: text for name, text in given.whole.items() if name in words}
    given.blocks = {dim: name for dim, name in given.blocks.items() if name in words}
    return given


def _tile(kernel: Kernel, name: str, made: Written, page: Page) -> dict[str, str]:
    """The tile, kept by the name: whole dimensions padded, the others as the device has room for them."""
    given, body = made.arguments, page.body
    products = _uses(made, "tl.dot(")
    rows, passed = made.layout.role("rows"), made.layout.role("passed")
    page.helpers |= {"_padded", "_tile"}
    lengths: dict[str, str] = {}
    for dim in made.layout.dims:
        if dim.role in ("whole", "columns"):
            lengths[dim.name] = page.names.fresh(f"block_{dim.name}")
            extent = extent_text(given, kernel, dim.axes)
            most = f", {_ORDERED if kernel.resumed is not None else _COLUMNS}" if dim.role == "columns" else ""
            padded = f"_padded({extent}{', 16' if products else ', 1' if most else ''}{most})"
            cut = f" if {extent} <= {_DEPTH} else {_STEP}" if dim.name in made.deep else ""
            body(f"{lengths[dim.name]} = {padded}{cut}")
    lengths |= {rows.name: "rows"} if rows is not None else {}
    lengths |= {passed.name: "columns"} if passed is not None else {}
    many = extent_text(given, kernel, rows.axes) if rows is not None else "1"
    if kernel.resumed is not None and kernel.grid is not None and kernel.grid.length is not None:
        many = f"min({many}, {kernel.grid.length})"
    long = extent_text(given, kernel, passed.axes[:1]) if passed is not None else "1"
    shapes = "_PRODUCTS" if products else "_POINTS" if passed is None else "_SUMS"
    page.helpers.add(shapes)
    needed = measured(kernel, made.layout, made.stages)
    shared = [polynomial(needed.kept, lengths), polynomial(needed.moved, lengths)]
    shared = [*([shared[0]] if shared[0] != "0" else []), *([f"stages * ({shared[1]})"] if shared[1] != "0" else [])]
    body("rows, columns, warps, stages = _tile(")
    body(f'    "{name}", {shapes}, {many}, {long}, device,')
    numbers, fed = polynomial(needed.registers, lengths), polynomial(needed.fed, lengths)
    page.helpers |= {"_twofold"} if products else set()
    numbers += f" + _spread(rows, warps) * {tight(fed)}" if fed != "0" else ""
    page.helpers |= {"_spread"} if fed != "0" else set()
    body(f"    registers=lambda rows, columns, warps: "
         f"{f'_twofold(dtype, 2.2) * ({numbers})' if products else numbers},")
    each = "_twofold(dtype, 1.7) * dtype.itemsize" if products else "dtype.itemsize"
    body(f"    shared=lambda rows, columns, stages: {f'{each} * (' + ' + '.join(shared) + ')' if shared else '0'},")
    body(")")
    return {given.block(name): length for name, length in lengths.items()}


def _definition(name: str, texts: tuple[str, ...], made: Written) -> list[str]:
    """The function as text: parameters in groups, the equations, the statements."""
    given, out = _read(made), Writer()
    out()
    out()
    out("@triton.jit")
    out.open(f"def {name}(")
    tensors = list(given.tensors.pointers.values())
    sizes = [*(s for s in given.sizes if s not in given.static), *given.whole, *["parts"] * bool(made.states)]
    numbers = [f'{p}:{_FIXED}"fp64"' for p in given.numbers.values()]
    pages = [given.paging[0]] if given.paging[0] else []
    groups = [[*tensors, *pages, *["states"] * bool(made.states)], list(given.tensors.strides.values()), sizes, numbers]
    constants = [*given.static, *given.blocks.values(), *[given.paging[1]] * len(pages),
                 *["SHARED"] * (made.joined is not None)]
    constants += [*(c for c in ("DTYPE", "WIDE", "OFFSET", "PRECISION") if _uses(made, c)), *["SPLIT"] * made.split]
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
    for line in _numbers(made):
        out(line)
    out.lines += [part for line in made.lines for part in folded(line)]
    return out.lines


