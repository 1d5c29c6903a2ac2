"""Sums over sorted rows: those that name one element stand together, and each sum is made
in their order, the same in every run."""

from __future__ import annotations

from einc.backends.host.contractions import element, formed_in
from einc.backends.host.topk import at_rows
from einc.backends.writer import Names, Writer, identifier, lettered, sized
from einc.ir.indices import Extent, IndexSet, number
from einc.ir.plan import Buffer, Module, SegmentSum


def segment(step: SegmentSum, module: Module, body: Writer, names: Names, helpers: set[str]) -> None:
    """Writes the rows sorted, and their sums put in the order of the result's axes."""
    out, helpers_ = module.buffers[step.out], {"_numbered"}
    body(f"# {step.text}")
    sets = dict(zip(step.axes, out.sets, strict=True))
    named = [*(a for a in step.rows if a in sets), *(axis for _, _, axis in step.names)]
    count = number(1)
    for axis in named:
        count = count * sets[axis].extent
    numbered = names.fresh(f"{identifier(step.out)}_names")
    body(f"{numbered} = _numbered({', '.join(_numbers(step, sets))})")
    if len(step.operands) < 2:
        helpers_ |= {"_sorted"}
        code, rest = _sum(step, module, numbered, count, body, names)
    else:
        helpers_ |= {"_groups"}
        rest = _rest(step)
        code = (step.out if (*named, *rest) == step.axes and len(named) == 1
                else names.fresh(f"{identifier(step.out)}_each"))
        _products(step, module, code, numbered, count, body, names)
    helpers |= helpers_
    made, turned = (*named, *rest), ""
    if len(named) > 1:
        turned = f".unflatten(0, ({', '.join(sized(sets[a].extent) for a in named)}))"
    if made != step.axes:
        turned += f".permute({', '.join(str(made.index(a)) for a in step.axes)})"
    if turned and len(step.operands) < 2:
        body(f"{step.out} = {code}")
        code = step.out
    if code + turned != step.out:
        body(f"{step.out} = {code}{turned}")


def _numbers(step: SegmentSum, sets: dict[str, IndexSet]) -> list[str]:
    """For each axis that rows choose an element of: whole numbers along the rows, how
    many elements, the first one's number."""
    out = []
    for axis in step.rows:
        if axis in sets:
            first, extent = sets[axis].start, sets[axis].extent
            places = f"torch.arange({first}, {sized(extent + number(first))}, device=device)"
            out.append(f"({places}{_marks((axis,), step.rows)}, {sized(extent)}, {first})")
    for ids, axes, axis in step.names:
        order = tuple(sorted(axes, key=step.rows.index))
        turned = "" if order == axes else f".permute({', '.join(str(axes.index(a)) for a in order)})"
        out.append(f"({ids}{turned}{_marks(order, step.rows)}, {sized(sets[axis].extent)}, {sets[axis].start})")
    return out


def _marks(mine: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    return "" if mine == wanted else f"[{', '.join(':' if a in mine else 'None' for a in wanted)}]"


def _rest(step: SegmentSum) -> tuple[str, ...]:
    """The axes of the result that neither rows nor names have."""
    gone = {*step.rows, *(axis for _, _, axis in step.names)}
    return tuple(a for a in step.axes if a not in gone)


def _sum(step: SegmentSum, module: Module, numbered: str, count: Extent, body: Writer,
         names: Names) -> tuple[str, tuple[str, ...]]:
    """Writes each element's sum in the wide type, and its axes after the element's."""
    rows = {axis: names.fresh(axis) for axis in step.rows}
    ends, out = names.fresh("ends"), element(module.buffers[step.out])
    listed = f"{', '.join(rows.values())}{',' * (len(rows) == 1)}"
    body(f"({listed}), {ends} = _sorted({numbered}, {sized(count)})")
    if not step.operands:
        return f"({ends}[1:] - {ends}[:-1]).to({out})", ()
    ((name, axes),) = step.operands
    letters = lettered(["rows", *(a for a in axes if a not in rows)])
    spec, picked = at_rows(axes, rows, letters)
    rest = [a for a in axes if a not in rows]
    text = f"{name}{picked}"
    if letters["rows"] not in spec:
        text += f".expand({next(iter(rows.values()))}.numel(), {', '.join(['-1'] * len(rest))}).contiguous()"
    elif (at := spec.index(letters["rows"])) > 0:
        text += f".movedim({at}, 0).contiguous()"
    wide = "torch.float64" if _whole(module.buffers[name]) else "wide"
    summed = f'torch.segment_reduce({text}.to({wide}), "sum", offsets={ends}, axis=0)'
    return summed + (f".to({out})" if wide != out else ""), tuple(rest)


def _whole(buffer: Buffer) -> bool:
    return buffer.element.kind in ("integer", "exact")


def _products(step: SegmentSum, module: Module, every: str, numbered: str, count: Extent, body: Writer,
              names: Names) -> None:
    """Writes a product for each element that is named, over its rows."""
    rows = {axis: names.fresh(axis) for axis in step.rows}
    sets, rest = dict(zip(step.axes, module.buffers[step.out].sets, strict=True)), _rest(step)
    one = names.fresh(f"{identifier(step.out)}_at")
    shape = ", ".join(sized(x) for x in (count, *(sets[a].extent for a in rest)))
    kind = element(module.buffers[step.out])
    inside = formed_in(module, [name for name, _ in step.operands], step.out)
    body(f"{every} = torch.zeros(({shape}{',' * (not rest)}), dtype={kind}, device=device)")
    listed = f"{', '.join(rows.values())}{',' * (len(rows) == 1)}"
    body.open(f"for {one}, ({listed}) in _groups({numbered}, {sized(count)}):")
    letters = lettered(["rows", *(a for _, axes in step.operands for a in axes if a not in rows)])
    specs, given = [], []
    for name, axes in step.operands:
        spec, picked = at_rows(axes, rows, letters)
        specs.append(spec)
        mine = element(module.buffers[name])
        given.append(f"{name}{f'.to({inside})' * (mine not in (inside, 'torch.int64'))}{picked}")
    result = "".join(letters[a] for a in rest)
    body(f'{every}[{one}] = torch.einsum("{",".join(specs)}->{result}", {", ".join(given)})')
    body.close()
