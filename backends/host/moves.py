"""Moves of a plan as statements: a collective over the ranks of a group, between shapes in which composites are apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from einc.backends.host.contractions import element
from einc.backends.writer import Writer, folded, sized
from einc.ir.indices import Extent
from einc.ir.plan import Along, Buffer, Module, Move, Moved

FOLDS = {"sum": "sum", "max": "max", "min": "min", "prod": "product"}  # as torch calls them


def move(step: Move, module: Module, body: Writer, helpers: set[str],
         wanted: Mapping[str, tuple[str, str]] | None = None) -> None:
    """Writes one move. A tensor of `wanted` is sent only under a condition, its first text, and its second is what
    stands for it elsewhere."""
    given, made = list[str](), list[str]()
    for (source, name), one in zip(step.pairs, step.moved, strict=True):
        condition, nothing = (wanted or {}).get(name, ("", ""))
        sent = _given(step, one, module.buffers[source], helpers) if step.routes is None else _row(step, source, one)
        then = _made(step, one, name, module.buffers[source], module.buffers[name], helpers)
        given.append(f"{sent} if {condition} else None" if condition else sent)
        if then != name or condition:
            made.append(f"{name} = {then}" + (f" if {condition} else {nothing}" if condition else ""))
    for text in step.texts:
        body(f"# {text}")
    helper, more = _collective(step)
    helpers.add(helper)
    names = f"{', '.join(step.writes)}{',' * (len(given) == 1)}"
    lines = [f"{names} = {helper}([", *(f"    {x}," for x in given), f"], {more})"]
    lines = lines if len(given) > 1 else [f"{names} = {helper}([{given[0]}], {more})"]
    if step.routes is not None:
        before, after = _routes(step, helpers)
        lines, made = [*before, *lines], [*made, *after]
    for line in (*lines, *made):
        body.lines += folded(f"{'    ' * body.depth}{line}", 122)


def _collective(step: Move) -> tuple[str, str]:
    """The helper that does a move, and what it is told beside the tensors."""
    group, ranks, place = sized(step.group.told), step.group.ranks, sized(step.group.place)
    match step.kind:
        case "slice":
            return "_part", f"{ranks}, {place}"
        case "all_gather":
            return "_all_gather", f"{ranks}, {group}"
        case "all_to_all" if step.moved[0].relaid:
            ordered = step.moved[0].joined is not None and step.moved[0].joined.blocks > 1
            return "_relaid", f"{ordered}, {ranks}, {place}, {group}"
        case "all_to_all":
            return "_all_to_all", f"{ranks}, {group}"
        case "all_reduce":
            return "_all_reduce", f'"{FOLDS[step.fold]}", {group}'
        case "reduce_scatter":
            return "_reduce_scatter", f'"{FOLDS[step.fold]}", {ranks}, {group}'
        case "counts":
            return "_row_counts", f"goes, {ranks}, {group}"
        case "to_rows" | "from_rows":
            return f"_{step.kind}", f"routes, {group}"
    assert_never(step.kind)


def _routes(step: Move, helpers: set[str]) -> tuple[list[str], list[str]]:
    """The statements before and after a move of rows: where they go, and how many there are."""
    found = step.routes
    assert found is not None
    chosen, *came = step.beside or step.reads
    helpers |= {"_goes", "_routes"} if came else {"_goes"}
    goes = f"goes = _goes({chosen}, {found.packed}, {sized(found.part)}, {found.start}, {step.group.ranks})"
    if came:
        return [goes, f"routes = _routes(goes, {came[0]})"], []
    return [goes], [f"{sized(found.count)} = int({step.writes[0]}.sum())"]


def _row(step: Move, source: str, one: Moved) -> str:
    """A tensor as its rows are sent, with its axes that stand for those of a row."""
    assert step.routes is not None
    if step.kind == "counts":
        return source
    text = f"{source}.to(wide)" if one.wide else source
    return f"({text}, {step.routes.at[step.reads.index(source)]})"


def _given(step: Move, one: Moved, before: Buffer, helpers: set[str]) -> str:
    """A tensor as it is sent, with the axes of it that are joined and parted."""
    held = tuple(s.extent for s in before.sets)
    text = before.name + (f".reshape({_shape(one.shape)})" if one.shape != held else "")
    few, reduces = before.element.narrow is not None, step.kind in ("all_reduce", "reduce_scatter")
    text += ".to(wide)" if one.wide else ".to(dtype)" if few and reduces else ".view(torch.uint8)" if few else ""
    if one.parted is not None and one.parted.blocks > 1 and not one.relaid:
        helpers.add("_in_blocks")
        text = f"_in_blocks({text}, {one.parted.axis}, {step.group.ranks})"
    axes = dict.fromkeys(x.axis for x in (one.joined, one.parted) if x is not None)
    return f"({', '.join([text, *map(str, axes)])})" if axes else text


def _made(step: Move, one: Moved, name: str, before: Buffer, after: Buffer, helpers: set[str]) -> str:
    """What a tensor is once it has been sent."""
    few, reduces = before.element.narrow is not None, step.kind in ("all_reduce", "reduce_scatter")
    joined, made = one.joined or Along(0), name
    if step.routes is not None:
        if step.kind == "to_rows" and before.name in step.beside:  # by numbers of the rank's own part
            made += f" - ({sized(step.group.place)} - 1) * ({sized(step.routes.part)})"
        return f"{made}.to({element(after)})" if one.wide or element(before) != element(after) else made
    if joined.blocks > 1 and not one.relaid:
        helpers.add("_in_order")
        made = f"_in_order({made}, {joined.axis}, {step.group.ranks})"
    if len(one.shape) != len(after.sets):
        made += f".reshape({_shape(tuple(s.extent for s in after.sets))})"
    if few and not reduces:  # collectives carry bytes where they have no such type
        return f"{made}.view({element(after)})"
    return f"{made}.to({element(after)})" if one.wide or few or element(before) != element(after) else made


def _shape(extents: tuple[Extent, ...]) -> str:
    return ", ".join(map(sized, extents))
