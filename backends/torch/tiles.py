"""A kernel of the plan as Python: loops over tiles, what is carried through a stream, statements for lets, stores."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from einc.backends.host.code import Code
from einc.backends.host.folding import start, step
from einc.backends.host.lets import masks_only, referred
from einc.backends.host.lets import uses as reads
from einc.backends.torch.bounds import Numbers
from einc.backends.torch.expressions import Scribe
from einc.backends.torch.memory import allot, near
from einc.backends.torch.resumed import begin, called, go_on, lasting, left_over, resume
from einc.backends.torch.stores import along, merged, results, write_store
from einc.backends.writer import Writer, identifier, sized
from einc.ir.elements import RANGED, REAL, WIDE
from einc.ir.plan import Axis, Dot, Iota, Kernel, Let, Load, Map, Module, PreviousCarry, Scalar, ScatterAdd, Select
from einc.ir.tiles import COLUMNS, ELEMENTS, FEW_ROWS, PASSED, ROWS, SHORT_ROWS, least_columns, multiplies, row, short


def write_kernel(module: Module, kernel: Kernel, body: Writer, scribe: Scribe) -> None:
    """Writes the statements of a kernel and of its stores: loops over tiles where it has a grid or a stream axis, else
    whole tensors. The variables that it makes are left in the scribe.
    """
    grid = kernel.grid
    uses = reads(kernel)
    if grid is None and kernel.stream is None:
        scribe.tile.widened = _meets_wide(module, kernel)
        _lets(module, kernel, body, scribe, uses, {let.name for let in kernel.lets})
        for store in kernel.stores:
            write_store(module, kernel, store, body, scribe)
        return
    for text in kernel.texts:
        body(f"# {text}")
    _prepare(module, kernel, body, scribe)
    parts = parts_of(kernel)
    _lets(module, kernel, body, scribe, uses, parts.before)
    scribe.numbers = Numbers(scribe, body)
    if grid is None:
        assert kernel.stream is not None
        _tile_lengths(module, kernel, grid, body, scribe)
        _ranges(kernel, scribe)
        scribe.tile.inside = True
        _streaming(module, kernel, kernel.stream, body, scribe, uses, parts)
        for store in kernel.stores:
            write_store(module, kernel, store, body, scribe)
        return
    low, high = (scribe.names.fresh(f"{identifier(grid.name)}{n}") for n in (0, 1))
    rows = _tile_lengths(module, kernel, grid, body, scribe)
    scribe.numbers.mark()
    _open_tiles(module, kernel, low, high, rows, body, scribe)
    scribe.tile.ranges[grid.name] = (low, high)
    scribe.tile.inside = True
    _ranges(kernel, scribe)
    left = left_over(kernel)  # after the stores: they still read what the tiles before have left
    if kernel.stream is None:
        _lets(module, kernel, body, scribe, uses, (parts.row | parts.stream | parts.after) - left, keep=left)
    else:
        _streaming(module, kernel, kernel.stream, body, scribe, uses, parts)
    for store in kernel.stores:
        if kernel.stream is None or not along(kernel, store, kernel.stream):
            write_store(module, kernel, store, body, scribe)
    kept = lasting(module, kernel)
    if kernel.resumed is not None:
        if kept:  # one new position may have nothing that it leaves to the next
            body.open(f"if {' < '.join(scribe.tile.ranges[kernel.resumed.name])}:")
        _lets(module, kernel, body, scribe, uses, left)
        if kept:
            body.close()
        resume(kernel.resumed, body, scribe)
    body.close()
    if kept:
        body(f'{kept}.leave("{called(module, kernel)}", {module.new}, {", ".join(_passed(kernel, scribe))})')
    merged(module, kernel, body)


def _meets_wide(module: Module, kernel: Kernel) -> bool:
    """Whether a kernel reads or makes what is wide: then it computes in that type."""
    loaded = {let.op.buffer for let in kernel.lets if isinstance(let.op, Load)}
    return any(module.buffers[name].element in (WIDE, RANGED) for name in loaded | {s.buffer for s in kernel.stores})


def _passed(kernel: Kernel, scribe: Scribe) -> list[str]:
    """The values that one tile passes to the next: the position that it reached, and the carried folds."""
    assert kernel.resumed is not None
    return [scribe.tile.ranges[kernel.resumed.name][0], *scribe.passing.carried.values()]


def _open_tiles(module: Module, kernel: Kernel, low: str, high: str, rows: str, body: Writer, scribe: Scribe) -> None:
    """Writes the head of the loop over the tiles of the grid axis, one after the other where values pass from one to
    the next.
    """
    assert kernel.grid is not None
    extent = sized(kernel.grid.set.extent)
    if kernel.resumed is not None:
        for let in kernel.lets:
            if let.carry is not None:
                _start(let, body, scribe)
        begin(kernel.resumed, body, scribe)
        if kept := lasting(module, kernel):
            body.open(f'if (found := {kept}.resumed("{called(module, kernel)}")) is not None:')
            body(f"{', '.join(_passed(kernel, scribe))} = found")
            body.close()
    if kernel.resumed is not None and kernel.resumed.bound is not None and kernel.resumed.bound.resumes == "back":
        done = scribe.names.fresh("done")
        body.open(f"for {done} in range(0, {extent}, {rows}):")
        body(f"{low}, {high} = max({extent} - {done} - {rows}, 0), {extent} - {done}")
        return
    body.open(f"for {low} in range(0, {extent}, {rows}):")
    body(f"{high} = min({low} + {rows}, {extent})")


def _prepare(module: Module, kernel: Kernel, body: Writer, scribe: Scribe) -> None:
    """Writes operands that are the same for every tile, in the arithmetic of the kernel; memory for its results."""
    scribe.tile.tiled = scribe.tile.widened = True
    moving = {a.name for a in (kernel.grid, kernel.stream) if a is not None}
    loads = [let for let in kernel.lets if isinstance(let.op, Load) and not moving & set(let.axes)]
    loads = [] if kernel.resumed is not None else loads
    loaded = [let.op.buffer for let in loads if isinstance(let.op, Load)]
    for name in dict.fromkeys(b for b in loaded if module.buffers[b].element in (REAL, RANGED)):
        scribe.stored.casts[name] = scribe.names.fresh(f"{name}_wide")
        body(f"{scribe.stored.casts[name]} = {identifier(name)}.to(wide)")
    results(module, kernel, body, scribe.helpers)


def _tile_lengths(module: Module, kernel: Kernel, grid: Axis | None, body: Writer, scribe: Scribe) -> str:
    """Writes how many rows (and columns) a tile has, so that its largest value stays near the cache."""
    stream = kernel.stream
    if grid is None:
        assert stream is not None
        scribe.tile.columns = scribe.names.fresh("columns")
        body(f"{scribe.tile.columns} = max({COLUMNS}, 2**{ELEMENTS - 1} // max(1, "
             f"{sized(row(kernel, stream), tight=True)}))")
        near(kernel, stream, body, scribe)
        return ""
    rows = scribe.names.fresh("rows")
    extent = sized(grid.set.extent)
    if grid.length is not None:
        body(f"{rows} = {grid.length}")
        return rows
    if stream is None:
        if grid.name not in kernel.largest:  # which each tile would make anew
            body(f"{rows} = max(1, {extent})")
            return rows
        most, least = (ELEMENTS, FEW_ROWS) if multiplies(kernel) else (PASSED, 1)
        body(f"{rows} = max({least}, min({extent}, 2**{most} // max(1, {sized(row(kernel, grid), tight=True)})))")
        return rows
    outer = sized(row(kernel, grid, (stream.name,)), tight=True)
    columns = scribe.names.fresh("columns")
    body(f"{rows} = min({SHORT_ROWS if short(stream, bool(module.past)) else ROWS}, max(1, {extent}))")
    body(f"{columns} = max({least_columns(stream)}, 2**{ELEMENTS - 1} // max(1, {rows} * {outer}))")
    scribe.tile.columns = columns
    allot(kernel, grid, stream, rows, columns, body, scribe)
    near(kernel, stream, body, scribe)
    return rows


def _streaming(
    module: Module, kernel: Kernel, stream: Axis, body: Writer, scribe: Scribe, uses: dict[str, int], parts: Parts
) -> None:
    """Writes one pass over the streamed axis: what is carried is merged tile by tile, then finished."""
    _lets(module, kernel, body, scribe, uses, parts.row, keep=parts.stream)
    low, high = scribe.tile.ranges.get(stream.name, ("0", sized(stream.set.extent)))
    for let in kernel.lets:
        if let.carry is not None:
            _start(let, body, scribe)
    first, last = (scribe.names.fresh(f"{identifier(stream.name)}_{n}") for n in ("from", "to"))
    columns, outside = scribe.tile.columns, set(scribe.variables)
    kept = [let.op.buffer for let in kernel.lets if isinstance(let.op, Load) and let.op.buffer in scribe.stored.laid]
    if kept:  # the cache says where its rows lie side by side
        spans = scribe.tile.pieces.get(stream.name, f"(({low}, {high}),)")
        body.open(f"for {first}, {last} in {kept[0]}.tiles({spans}, {columns}):")
    elif stream.name in scribe.tile.pieces:
        scribe.helpers.add("_pieces")
        body.open(f"for {first}, {last} in _pieces({scribe.tile.pieces[stream.name]}, {columns}):")
    else:
        body.open(f"for {first} in range({low}, {high}, {columns}):")
        body(f"{last} = min({first} + {columns}, {high})")
    scribe.tile.ranges[stream.name] = (first, last)
    if stream.bound is not None and stream.bound.within is not None:
        assert scribe.numbers is not None
        body(f"if not ({scribe.numbers.meets(stream, stream.bound.within)}):  # no point of the domain in this tile")
        body("    continue")
    _lets(module, kernel, body, scribe, uses, parts.stream)
    for store in kernel.stores:
        if along(kernel, store, stream):
            write_store(module, kernel, store, body, scribe)
    body.close()
    scribe.leave(outside)
    del scribe.tile.ranges[stream.name]
    for name, variable in scribe.passing.carried.items():
        scribe.variables[name] = variable
        scribe.owned.made[name] = body.depth
    _lets(module, kernel, body, scribe, uses, parts.after)


def _start(let: Let, body: Writer, scribe: Scribe) -> None:
    """Writes the neutral element of what a let carries, before the first tile."""
    assert let.carry is not None
    variable = scribe.names.fresh(let.name)
    scribe.passing.carried[let.name] = variable
    shape = ", ".join(scribe.extent(a) for a in let.axes)
    shape = f"({shape}{',' * (len(let.axes) == 1)})"
    kind = {"exact": "torch.float64", "integer": "torch.int64"}.get(let.kind, "wide")
    fold, helpers = let.carry.fold, scribe.helpers
    made = f"torch.zeros({shape}" if fold == "sum" else f"torch.full({shape}, {start(fold, helpers)}"
    body(f"{variable} = {made}, dtype={kind}, device=device)")


def _merge(let: Let, text: Code, body: Writer, scribe: Scribe) -> None:
    """Writes one tile's share, merged into what the tiles before gave; a reference that grows rescales what refers to
    it.
    """
    carry = let.carry
    assert carry is not None
    variable = scribe.passing.carried[let.name]
    before = {name for x in scribe.kernel.lets if isinstance(x.op, PreviousCarry) for name in x.args}
    kept = scribe.kernel.stream is not None and let.name in before
    scribe.variables[let.name] = variable
    if referred(scribe.kernel, let.name):
        _reference(let, variable, text, body, scribe, kept)
        return
    if kept:  # in this tile somebody still asks for what was there before
        scribe.passing.former[let.name] = scribe.names.fresh(f"{variable}_before")
        body(f"{scribe.passing.former[let.name]} = {variable}.clone()")
    if carry.reference is not None:
        scale = scribe.passing.scales[carry.reference]
        marks = scribe.spread_marks(scribe.lets[carry.reference].axes, let.axes)
        body(f"{variable}.mul_({scale}{marks}).add_({text.text})")
    elif carry.fold == "sum":
        body(f"{variable}.add_({text.text})")
    elif carry.fold == "prod":
        body(f"{variable}.mul_({text.text})")
    else:
        body(f"{variable} = {step(carry.fold, scribe.helpers)}({variable}, {text.text})")


def _reference(let: Let, variable: str, text: Code, body: Writer, scribe: Scribe, kept: bool) -> None:
    """Writes the running maximum, and the factor by which everything relative to it shrinks when it grows; with `kept`
    what it was stays.
    """
    assert let.carry is not None
    before, scale = scribe.names.fresh(f"{variable}_before"), scribe.names.fresh(f"{variable}_scale")
    scribe.passing.scales[let.name] = scale
    power = "exp2" if let.carry.base2 else "exp"
    body(f"{before}, {variable} = {variable}, torch.maximum({variable}, {text.text})")
    if kept:
        scribe.passing.former[let.name] = before
    less = "sub" if kept else "sub_"
    if let.carry.full:
        scribe.variables[let.name] = variable
        body(f"{scale} = {before}.{less}({variable}).{power}_()")
        return
    shift = scribe.names.fresh(f"{variable}_finite")
    scribe.helpers.add("math")
    body(f"{shift} = {variable}.masked_fill({variable} == -math.inf, 0)  # rows without a point so far")
    body(f"{scale} = {before}.{less}({shift}).{power}_()")
    scribe.variables[let.name] = shift


@dataclass(frozen=True)
class Parts:
    """The lets of a tiled kernel by where they stand: before the tiles, once a tile, once
    a step of the stream, after it."""

    before: set[str]
    row: set[str]
    stream: set[str]
    after: set[str]


def parts_of(kernel: Kernel) -> Parts:
    """Sorts the lets of a kernel by what they depend on: the tile, the streamed axis, what is carried along it."""
    stream = kernel.stream.name if kernel.stream is not None else None
    carried = {let.name for let in kernel.lets if let.carry is not None}
    late: set[str] = set()  # what depends on something carried
    for let in kernel.lets:
        if let.name in carried or isinstance(let.op, PreviousCarry) or any(a in late for a in let.reads):
            late.add(let.name)
    inner = {let.name for let in kernel.lets if stream in let.axes} | carried
    for let in reversed(kernel.lets):
        if let.name in inner:
            inner |= {a for a in let.reads if a in late}
    before = _hoisted(kernel, kernel.grid)
    after = late - inner
    row = {let.name for let in kernel.lets} - before - inner - after
    return Parts(before, row, inner, after)


def _ranges(kernel: Kernel, scribe: Scribe) -> None:
    assert scribe.numbers is not None
    scribe.numbers.mark()
    for axis in kernel.axes:
        if axis.bound is not None:
            _range(axis, scribe)


def _range(axis: Axis, scribe: Scribe) -> None:
    """Writes the reach of an axis for this tile, in storage positions."""
    assert axis.bound is not None and scribe.numbers is not None
    if axis.bound.resumes:
        go_on(axis, scribe)
        return
    ends = [scribe.numbers.ends(axis, span) for span in axis.bound.spans] or [("0", "0")]
    if len(ends) == 1:
        scribe.tile.ranges[axis.name] = ends[0]
    else:
        scribe.tile.pieces[axis.name] = f"({', '.join(f'({low}, {high})' for low, high in ends)})"


def _hoisted(kernel: Kernel, grid: Axis | None) -> set[str]:
    """The lets that are the same for every tile."""
    moving = {a.name for a in kernel.axes if a.bound is not None or a in (grid, kernel.stream)}
    out: set[str] = set()
    for let in kernel.lets:
        known = all(a in out for a in let.reads) and not isinstance(let.op, Load | Scalar | PreviousCarry)
        if known and not moving & set(let.axes):
            out.add(let.name)
    return out | {let.name for let in kernel.lets if isinstance(let.op, Scalar)}


def _lets(
    module: Module,
    kernel: Kernel,
    body: Writer,
    scribe: Scribe,
    uses: dict[str, int],
    chosen: set[str],
    keep: Collection[str] = (),
) -> None:
    """Writes a statement for each let that has a name of its own or is used more than once; the others stand where they
    are used.
    """
    stored, merging = {s.value for s in kernel.stores}, {s.value for s in kernel.merged}
    masking, inside = masks_only(kernel), scribe.tile.inside
    for let in kernel.lets:
        if let.name not in chosen or isinstance(let.op, Scalar | Iota | PreviousCarry) or let.name in scribe.variables:
            continue
        if let.carry is not None and isinstance(let.op, ScatterAdd):
            body(scribe.scatter_add(let, let.op, scribe.passing.carried[let.name]).text)
            scribe.variables[let.name] = scribe.passing.carried[let.name]
            continue
        if let.carry is not None:
            _merge(let, scribe.statement(let), body, scribe)
            continue
        if let.name in masking:
            continue
        if isinstance(let.op, Load) and not let.args and not let.text and not (inside and _twice(let, kernel)):
            continue
        if isinstance(let.op, Select) and let.op.cut is not None and inside and scribe.masks(let, let.op, body):
            continue
        named = bool(let.text) and (let.name not in stored or uses[let.name] > 1 or inside)
        moved = any(let.name in x.reads for x in kernel.lets if x.name in keep)
        if not named and not moved and uses.get(let.name, 0) < 2 and not (let.text and let.name in stored):
            continue
        if uses.get(let.name) == 1 and let.name in (merging if inside and not _at_once(let, kernel) else stored):
            continue
        wanted = let.name if not let.name.startswith("_") else _wanted(let.op)
        variable = scribe.names.fresh(f"{wanted}_tile" if wanted in stored and inside else wanted)
        text = scribe.statement(let).text
        if let.text and not inside and kernel.grid is None:
            body(f"# {let.text}")
        body.statement(f"{variable} = ", text)
        scribe.variables[let.name] = variable


def _at_once(let: Let, kernel: Kernel) -> bool:
    """Whether the last step of making a value may write it to where it is stored."""
    return kernel.stream is None and isinstance(let.op, Map) and let.kind == "real" and len(let.args) > 1


def _twice(let: Let, kernel: Kernel) -> bool:
    """Whether several statements would widen the same elements."""
    wide = [x for x in kernel.lets if let.name in x.reads and not (isinstance(x.op, Dot) and x.op.may_round)]
    return isinstance(let.op, Load) and let.kind == "real" and len(wide) > 1


def _wanted(op: object) -> str:
    if isinstance(op, Load):
        return f"{op.buffer}_tile"
    axis = getattr(op, "axis", None)
    return identifier(axis) if isinstance(axis, str) else "x"
