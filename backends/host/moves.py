"""Moves of a plan as statements: a collective over the ranks of a group, between shapes in which composites are apart.
"""

from __future__ import annotations

from typing import assert_never

from einc.backends.host.contractions import element
from einc.backends.writer import Writer, sized
from einc.errors.report import EincError, Help, Problem
from einc.ir.indices import Extent
from einc.ir.plan import Along, Module, Move

FOLDS = {"sum": "sum", "max": "max", "min": "min", "prod": "product"}  # as torch calls them


def move(step: Move, module: Module, body: Writer, helpers: set[str]) -> None:
    """Writes one move. EincError where no collective folds so."""
    before, after = module.buffers[step.operand], module.buffers[step.out]
    held = tuple(s.extent for s in before.sets)
    text = step.operand + (f".reshape({_shape(step.shape)})" if step.shape != held else "")
    few, reduces = before.element.narrow is not None, step.kind in ("all_reduce", "reduce_scatter")
    text += ".to(wide)" if step.wide else ".to(dtype)" if few and reduces else ".view(torch.uint8)" if few else ""
    group, ranks, place = sized(step.group.told), step.group.ranks, sized(step.group.place)
    if step.fold not in FOLDS:
        raise EincError([Problem(f"the `{step.fold}` of what devices have is no collective", helps=(
            Help(f"cut a letter that `{step.out}` is not folded over"),))])
    fold = FOLDS[step.fold]
    joined, parted = step.joined or Along(0), step.parted or Along(0)
    relaid = step.kind == "all_to_all" and joined.axis == parted.axis
    if parted.blocks > 1 and not relaid:
        helpers.add("_in_blocks")
        text = f"_in_blocks({text}, {parted.axis}, {ranks})"
    match step.kind:
        case "slice":
            helper, given = "_part", f"{parted.axis}, {ranks}, {place}"
        case "all_gather":
            helper, given = "_all_gather", f"{joined.axis}, {ranks}, {group}"
        case "all_to_all" if relaid:
            helper, given = "_relaid", f"{joined.axis}, {joined.blocks > 1}, {ranks}, {place}, {group}"
        case "all_to_all":
            helper, given = "_all_to_all", f"{joined.axis}, {parted.axis}, {ranks}, {group}"
        case "all_reduce":
            helper, given = "_all_reduce", f'"{fold}", {group}'
        case "reduce_scatter":
            helper, given = "_reduce_scatter", f'"{fold}", {parted.axis}, {ranks}, {group}'
        case _:
            assert_never(step.kind)
    helpers.add(helper)
    made = f"{helper}({text}, {given})"
    if joined.blocks > 1 and not relaid:
        helpers.add("_in_order")
        made = f"_in_order({made}, {joined.axis}, {ranks})"
    if len(step.shape) != len(after.sets):
        made += f".reshape({_shape(tuple(s.extent for s in after.sets))})"
    if few and not reduces:  # collectives carry bytes where they have no such type
        made += f".view({element(after)})"
    elif step.wide or few or element(before) != element(after):
        made += f".to({element(after)})"
    body(f"# {step.text}")
    body(f"{step.out} = {made}")


def _shape(extents: tuple[Extent, ...]) -> str:
    return ", ".join(map(sized, extents))
