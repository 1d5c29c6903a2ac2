"""What starts a kernel: its results' memory, the numbers it is given, the tile, the programs; and its definition as text."""

from __future__ import annotations

import re

from einc.backends.host.module import Page
from einc.backends.triton.kernel import Written, write_kernel
from einc.backends.triton.loads import extent_text
from einc.backends.triton.room import room, text
from einc.backends.writer import Writer, identifier, sized
from einc.plan import Kernel

_COLUMNS, _DEPTH = 256, 256  # the longest columns, and the longest depth of a product, that a tile holds whole
_STEP = 64  # of a depth that it does not
_ELEMENTS = {"integer": "torch.int64", "exact": "torch.float64"}


def launch(kernel: Kernel, page: Page) -> list[str]:
    """Writes the statements that run the kernel on the page; the lines that define it."""
    made = write_kernel(page.module, kernel)
    page.helpers |= made.helpers | {"_tl_type", "_offset"} | ({"_precision"} if _uses(made, "PRECISION") else set())
    body, name = page.body, page.names.fresh(f"_{identifier(kernel.name)}_kernel")
    for text in kernel.texts[-1:]:
        body(f"# {text}")
    for store in kernel.stores:
        buffer = page.module.buffers[store.buffer]
        shape = ", ".join(sized(s.extent) for s in buffer.sets)
        kind = _ELEMENTS.get(buffer.kind, "dtype")
        body(f"{identifier(store.buffer)} = torch.empty(({shape}{',' * (len(buffer.sets) == 1)}), dtype={kind}, device=device)")
    for parameter, text in made.arguments.prepared.items():
        body(f"{parameter} = {text}")
    blocks = _tile(kernel, made, page)
    count = " * ".join(made.counts.values()) or "1"
    for parameter, block in blocks.items():
        count = re.sub(rf"\b{parameter}\b", block, count)
    if count != "1":
        programs = page.names.fresh("programs")
        body(f"{programs} = {count}")
        body.open(f"if {programs}:")
        count = programs
    body.open(f"{name}[({count},)](")
    for line in _values(made, blocks):
        body(line)
    body.close()
    body(")")
    if count != "1":
        body.close()
    return _definition(name, kernel, made)


def _values(made: Written, blocks: dict[str, str]) -> list[str]:
    """What the kernel is called with, in the order of its parameters."""
    given = made.arguments
    tensors = list(given.pointers.values())
    strides = [f"*{pointer}.stride()" for key, pointer in given.pointers.items() if (key, 0) in given.strides]
    sizes = [s for s in given.sizes if s not in given.static]
    numbers = [text if text.startswith("float(") else f"float({text})" for text, _ in given.numbers]
    constants = [f"{s}={s}" for s in given.static] + [f"{parameter}={text}" for parameter, text in blocks.items()]
    types = ["DTYPE=_tl_type(dtype)", "WIDE=wide", f"OFFSET=_offset({', '.join(tensors)})"]
    types += ["PRECISION=_precision(device)"] * _uses(made, "PRECISION")
    last = [*["SPLIT=True"] * made.split, "num_warps=warps", "num_stages=stages"]
    groups = [tensors, strides, [*sizes, *given.whole.values(), *numbers], constants, types, last]
    return [", ".join(group) + "," for group in groups if group]


def _uses(made: Written, word: str) -> bool:
    return any(word in line for line in made.lines)


def _tile(kernel: Kernel, made: Written, page: Page) -> dict[str, str]:
    """The tile: whole dimensions padded, the others as the device has room for them."""
    given, body = made.arguments, page.body
    products = _uses(made, "tl.dot(")
    rows, passed = made.layout.role("rows"), made.layout.role("passed")
    page.helpers |= {"_padded", "_tile"}
    lengths: dict[str, str] = {}
    for dim in made.layout.dims:
        if dim.role in ("whole", "columns"):
            lengths[dim.name] = page.names.fresh(f"block_{dim.name}")
            extent = extent_text(given, kernel, dim.axes)
            most = f", {_COLUMNS}" if dim.role == "columns" else ""
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
    needed = room(kernel, made.layout, made.stages)
    shared = [text(needed.kept, lengths), text(needed.moved, lengths)]
    shared = [*([shared[0]] if shared[0] != "0" else []), *([f"stages * ({shared[1]})"] if shared[1] != "0" else [])]
    body("rows, columns, warps, stages = _tile(")
    body(f'    "{identifier(kernel.name)}", {shapes}, {many}, {long}, device,')
    body(f"    registers=lambda rows, columns: {text(needed.registers, lengths)},")
    body(f"    shared=lambda rows, columns, stages: {'dtype.itemsize * (' + ' + '.join(shared) + ')' if shared else '0'},")
    body(")")
    return {given.block(name): length for name, length in lengths.items()}


def _definition(name: str, kernel: Kernel, made: Written) -> list[str]:
    """The function as text: parameters in groups, the equations, the statements."""
    given, out = made.arguments, Writer()
    out()
    out()
    out("@triton.jit")
    out.open(f"def {name}(")
    tensors = list(given.pointers.values())
    groups = [tensors, list(given.strides.values()), [*(s for s in given.sizes if s not in given.static), *given.whole],
              [f'{p}: "fp64"' for p in given.numbers.values()]]
    constants = [*given.static, *given.blocks.values(), "DTYPE", "WIDE", "OFFSET", *["PRECISION"] * _uses(made, "PRECISION"),
                 *["SPLIT"] * made.split]
    groups.append([f"{c}: tl.constexpr" for c in constants])
    for group in groups:
        for n in range(0, len(group), 8):
            out(", ".join(group[n : n + 8]) + ",")
    out.close()
    out("):")
    out.depth += 1
    out('"""')
    for text in kernel.texts:
        out(text)
    out('"""')
    for (_, kind), parameter in given.numbers.items():
        out(f"{parameter} = tl.full((), {parameter}, {kind})")
    out.lines += made.lines
    return out.lines


