"""Values of pairs of positions that no pass can do without: the plan of what makes and reads them, a block of rows at a
time, so that memory grows with the positions and not with their square."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod

from einc.ir.indices import INDEX_CLASSES, Extent, IndexSet, size
from einc.ir.plan import Buffer, Module, RowBlocks, Rows, Step, makes, summed
from einc.ir.programs import NormalProgram, Tensor
from einc.planning.analysis.cost import nominal, size_of, volume
from einc.planning.repeated import beside, buffer_of, clamped, trusting, whole, with_wide
from einc.transforms.slicing.row_blocks import Blocks, in_blocks

Plan = Callable[[NormalProgram, tuple[Tensor, ...]], Module]
Keys = tuple[tuple[str, IndexSet], ...]


def positions(sets: Iterable[IndexSet]) -> set[str]:
    """The sizes that count positions of a sequence."""
    return {n for s in sets if INDEX_CLASSES[s.cls].sequence and s.cls != "vocab" for n in s.extent.sizes}


def power(extent: Extent, names: set[str]) -> int:
    """The largest power of one of some sizes in a formula."""
    return max((int(p) for mono, _ in extent.smooth.terms for n, p in mono if n in names), default=0)


def pairs(module: Module) -> list[Buffer]:
    """The buffers that steps of a module make, and that grow faster than one number of positions; no outputs."""
    names, shown = positions(module.sets), {key for _, key in module.outputs}
    made = frozenset[str]().union(*map(makes, module.steps)) - shown
    return [b for key, b in module.buffers.items() if key in made and power(size_of(b), names) > 1]


def row_by_row(program: NormalProgram, asked: tuple[Tensor, ...], straight: Plan, plan: Plan) -> Module:
    """The plan of a program that `straight` makes, of all positions at once, or, where that stores pairs of positions
    that can come in blocks of rows, one of such blocks; `plan` makes the plans of what stands before and after them."""
    made = straight(program, asked)
    stored = {buffer.name for buffer in pairs(made)}
    if not stored or program.loops or any(t.role == "cache" for t in asked):  # a prefill goes in blocks of rows anyway
        return made
    program = with_wide(program)
    found = in_blocks(program, stored)
    if found is None:
        return made
    block = straight(found.body, found.body.inputs())
    if pairs(block):  # some of it is there for all pairs all the same
        return made
    checked, keys = {t.key for t in asked}, list[tuple[str, IndexSet]]()
    steps, buffers = list[Step](), dict[str, Buffer]()
    for piece in (found.first, found.body, found.rest):
        if not piece.equations:
            continue
        if piece is not found.body:
            piece = beside(piece, program, buffers)
        part = block if piece is found.body else plan(piece, piece.inputs())
        named = {key: found.taken.get(key, (key, None))[0] if piece is found.body else key for key, _ in part.keys}
        keys += [(named[key], over) for key, over in part.keys if named[key] in checked]
        new = {key for key in named if named[key] not in checked}
        if piece is found.body:
            steps.append(_blocks(found, trusting(part, new)))
        else:
            steps += [clamped(step, new) for step in part.steps]
            buffers |= {k: v for k, v in part.buffers.items() if k not in buffers}
    outer = {key for step in steps if isinstance(step, RowBlocks) for key in (*step.reads, *step.writes)}
    buffers |= {key: buffer_of(program.tensors[key]) for key in (*(t.key for t in asked), *outer) if key not in buffers}
    return whole(program, asked, buffers, tuple(steps), tuple(dict.fromkeys(keys)))


def _blocks(found: Blocks, body: Module) -> RowBlocks:
    """The step that runs the plan of a block for each of them."""
    given = tuple((t.key, found.taken[t.key][1]) for t in body.inputs)
    rows = Rows(found.over, found.count, found.before, _each(body, found.count))
    step = RowBlocks(
        reads=tuple(found.taken[key][0] for key, _ in given), writes=tuple(found.made), body=body, rows=rows,
        given=given, made=tuple(found.made.items()),
        sizes=tuple((name, name) for name in sorted(body.sizes - {found.count, found.before})))
    return replace(step, cost=step.whole(summed(one.cost for one in body.steps)))


def _each(body: Module, count: str) -> Extent:
    """The elements that the largest value of a block has for one row."""
    mine = [b.sets for b in body.buffers.values() if any(s.extent == size(count) for s in b.sets)]
    largest = max(mine, key=lambda sets: prod(map(nominal, sets)), default=())
    return volume(s for s in largest if s.extent != size(count))
