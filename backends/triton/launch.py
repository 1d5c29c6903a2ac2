"""What starts a kernel: its results' memory, the numbers it is given, the tile, the programs; and its definition as text."""

from __future__ import annotations

from einc.backends.host.module import Page
from einc.backends.triton.kernel import Written, write_kernel
from einc.backends.triton.layout import Dim, product
from einc.backends.triton.loads import extent_text
from einc.backends.writer import Writer, identifier, sized
from einc.plan import Dot, Kernel, Let, Load, Map, Module

_ELEMENTS = {"integer": "torch.int64", "exact": "torch.float64"}


def launch(kernel: Kernel, page: Page) -> list[str]:
    """Writes the statements that run the kernel on the page; the lines that define it."""
    made = write_kernel(page.module, kernel)
    page.helpers |= made.helpers | {"_tl_type", "_offset"}
    page.helpers |= {"_precision"} if _uses(made, "PRECISION") else set()
    body, name = page.body, f"_{identifier(kernel.name)}_kernel"
    name = page.names.fresh(name)
    for text in kernel.texts[-1:]:
        body(f"# {text}")
    for store in kernel.stores:
        buffer = page.module.buffers[store.buffer]
        shape = ", ".join(sized(s.extent) for s in buffer.sets)
        kind = _ELEMENTS.get(buffer.kind, "dtype")
        body(f"{identifier(store.buffer)} = torch.empty(({shape}{',' * (len(buffer.sets) == 1)}), dtype={kind}, device=device)")
    given = made.arguments
    for parameter, text in given.prepared.items():
        body(f"{parameter} = {text}")
    blocks = _blocks(kernel, made, page)
    programs = " * ".join(made.counts.values()) or "1"
    for parameter, block in blocks.items():
        programs = programs.replace(parameter, block)
    if page.module.inputs and programs != "1":
        count = page.names.fresh("programs")
        body(f"{count} = {programs}")
        body.open(f"if {count}:")
    else:
        count = "1"
        body.open("if True:") if False else None
    body.open(f"{name}[({count},)](")
    for line in _values(made, blocks, page.module):
        body(line)
    body.close()
    body(")")
    if count != "1":
        body.close()
    return _definition(name, kernel, made)


def _values(made: Written, blocks: dict[str, str], module: Module) -> list[str]:
    """What the kernel is called with, in the order of its parameters."""
    given = made.arguments
    tensors = list(given.pointers.values())
    lines = [", ".join(tensors) + ","] if tensors else []
    strides = [f"*{pointer}.stride()" for key, pointer in given.pointers.items() if (key, 0) in given.strides]
    lines += [", ".join(strides) + ","] if strides else []
    sizes = [s for s in given.sizes if s not in given.static]
    rest = [*sizes, *given.whole.values(), *(text if text.startswith("float(") else f"float({text})" for text, _ in given.numbers)]
    lines += [", ".join(rest) + ","] if rest else []
    constants = [f"{s}={s}" for s in given.static]
    constants += [f"{parameter}={text}" for parameter, text in blocks.items()]
    lines += [", ".join(constants) + ","] if constants else []
    lines.append(f"DTYPE=_tl_type(dtype), WIDE=wide, OFFSET=_offset({', '.join(tensors)}), PRECISION=_precision(device),"
                 if _uses(made, "PRECISION") else f"DTYPE=_tl_type(dtype), WIDE=wide, OFFSET=_offset({', '.join(tensors)}),")
    lines.append(f"{'SPLIT=True, ' if made.split else ''}num_warps=warps, num_stages=stages,")
    return lines


def _uses(made: Written, word: str) -> bool:
    return any(word in line for line in made.lines)


def _blocks(kernel: Kernel, made: Written, page: Page) -> dict[str, str]:
    """The tile: whole dimensions padded, the others as the device has room for them."""
    given, body = made.arguments, page.body
    products = any(isinstance(let.op, Dot) and product(kernel, let) for let in kernel.lets) and _uses(made, "tl.dot(")
    least = ", 16" if products else ""
    out: dict[str, str] = {}
    page.helpers |= {"_padded", "_tile"}
    for dim in made.layout.dims:
        if dim.role in ("whole", "columns"):
            parameter = given.block(dim.name)
            out[parameter] = f"_padded({extent_text(given, kernel, dim.axes)}{least})"
    rows, passed = made.layout.role("rows"), made.layout.role("passed")
    whole = [d for d in made.layout.dims if d.role in ("whole", "columns")]
    if rows is not None:
        out[given.block(rows.name)] = "rows"
    if passed is not None:
        out[given.block(passed.name)] = "columns"
    held, kept, moved = _held(kernel, made, whole)
    many = extent_text(given, kernel, rows.axes) if rows is not None else "1"
    long = extent_text(given, kernel, passed.axes[:1]) if passed is not None else "1"
    if kernel.grid is not None and kernel.grid.length is not None and kernel.resumed is not None:
        many = f"min({many}, {kernel.grid.length})"
    for parameter in [p for p in out if out[p].startswith("_padded")]:
        variable = page.names.fresh(parameter.lower())
        body(f"{variable} = {out[parameter]}")
        out[parameter] = variable
    for parameter, block in out.items():
        held, kept, moved = (text.replace(parameter, block) for text in (held, kept, moved))
    key = f'"{identifier(kernel.name)}"'
    shapes = "_PRODUCTS" if products else "_POINTS" if passed is None else "_SUMS"
    page.helpers.add(shapes)
    body("rows, columns, warps, stages = _tile(")
    body(f"    {key}, {shapes}, {many}, {long}, device,")
    body(f"    held=lambda rows, columns: {held},")
    body(f"    shared=lambda rows, columns, stages: ({kept} + stages * ({moved})) * dtype.itemsize,")
    body(")")
    return out


def _held(kernel: Kernel, made: Written, whole: list[Dim]) -> tuple[str, str, str]:
    """Numbers that a program holds at once; elements that stay in shared memory; elements of a tile that pass through it."""
    carried = {let.name for let in kernel.lets if let.carry is not None}
    values = [let for let in kernel.lets if let.name in carried or isinstance(let.op, Dot)]
    moving = _shapes(made, [let for let in kernel.lets if isinstance(let.op, Load) and _role(made, let, "passed")])
    still = _shapes(made, [let for let in kernel.lets if isinstance(let.op, Load) and not _role(made, let, "passed")])
    held = _shapes(made, values)
    mapped = [let for let in kernel.lets if isinstance(let.op, Map)]
    if not held:
        held = _shapes(made, [let for let in [*mapped, *(x for x in kernel.lets if isinstance(x.op, Load))]][:1] or list(kernel.lets[-1:]))
    return " + ".join(held) or "1", " + ".join(still) or "0", " + ".join(moving) or "0"


def _role(made: Written, let: Let, role: str) -> bool:
    return any(d.role == role for d in made.layout.shape(let.axes))


def _shapes(made: Written, lets: list[Let]) -> list[str]:
    """The number of elements of each value, those with two dimensions or more once each."""
    out: list[str] = []
    for let in lets:
        shape = made.layout.shape(let.axes)
        names = ["rows" if d.role == "rows" else "columns" if d.role == "passed" else made.arguments.block(d.name) for d in shape]
        if names and (len(names) > 1 or len(made.layout.dims) == 1):
            out.append(" * ".join(names))
    return list(dict.fromkeys(out))


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


