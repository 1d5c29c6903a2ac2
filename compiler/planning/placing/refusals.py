"""Why a program cannot be put on a mesh: the whole list of reasons, and the checks that need no cutting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from einc.ir.indices import IndexSet, number
from einc.ir.programs import Program, Tensor, sets_of
from einc.planning.analysis.cost import volume
from einc.planning.placing.states import Axis, Part, States

Reason = Literal["rounds", "requests", "multiple", "meeting"]


class Refused(Exception):  # noqa: N818 - what a plan asks for cannot be had, which a person is told
    """What a plan asks for cannot be had, for one of the reasons; `said` and `help` are for a person.

    `rounds`: the program has rounds that run in order. `requests`: it has positions of requests of different lengths.
    `multiple`: the ranks of an axis do not divide what is cut over it. `meeting`: an equation has two letters of the
    set that is cut, and none by which the plan says to cut it then.
    """

    def __init__(self, reason: Reason, said: str, help: str) -> None:
        super().__init__(said)
        self.reason, self.said, self.help = reason, said, help


def examine(program: Program, mesh: Sequence[Axis], sizes: Mapping[str, int]) -> None:
    """Raises Refused where a program cannot be put on a mesh, as far as that is seen before it is cut."""
    sets = {s for t in program.terms for s in sets_of(t)} | {s.set for t in program.tensors.values() for s in t.slots}
    if program.repeats:
        (first, *_), names = program.repeats, sorted({r.index.name for r in program.repeats})
        raise Refused("rounds", f"`{program.name}` has rounds that run in order, for {', '.join(names)}: these are "
                      f"not put on several devices yet",
                      f"put what one round does on several devices: a spec without `for {first.index.name}`")
    if any(s.by or s.packed is not None for s in sets):
        raise Refused("requests", f"`{program.name}` has positions of requests of different lengths: these are not "
                      "put on several devices yet", "say it for requests of one length")
    for axis in mesh:
        for one in (*axis.sets, *(m.by for m in axis.meetings if m.by is not None)):
            if one in sets or any(one in parts for parts in program.splits.values()):
                multiple(one, axis, sizes, axis.blocks(one))


def whole_bytes(tensor: Tensor, states: States, splits: Mapping[IndexSet, Sequence[IndexSet]], mesh: Sequence[Axis],
                sizes: Mapping[str, int]) -> None:
    """Raises Refused where a rank's part of a tensor would begin or end inside of a byte that several numbers share."""
    each = tensor.element.together
    if each == 1:
        return
    for axis, state in zip(mesh, states, strict=True):
        if isinstance(state, Part) and state.slot == len(tensor.slots) - 1:
            whole = tensor.slots[-1].set
            parts = splits.get(whole, ())
            inside = volume(parts[state.component + 1:]) if state.component >= 0 else number(1)
            if inside.sizes <= sizes.keys() and inside.at(sizes) % each:
                multiple(parts[state.component] if state.component >= 0 else whole, axis, sizes, each,
                         f" with {each} numbers of `{tensor.text}` in a byte")


def multiple(of: IndexSet, axis: Axis, sizes: Mapping[str, int], blocks: int = 1, why: str = "") -> None:
    """Raises Refused where the ranks of an axis, each with so many blocks, do not divide the extent of a set that is
    cut over it; `why` says what else than blocks.
    """
    if not of.extent.sizes <= sizes.keys():
        return
    extent, ranks = of.extent.at(sizes), axis.ranks * blocks
    if extent.denominator == 1 and extent % ranks == 0:
        return
    below = int(extent // ranks) * ranks
    first, second = [n for n in (below, below + ranks, below + 2 * ranks) if n][:2]
    said = f"{of.extent} = {extent}" if of.extent.sizes else f"an extent of {extent}"
    over = f"{axis.name} = {axis.ranks}" + (why or (f" with {blocks} blocks each" if blocks > 1 else ""))
    name = f"{of.extent} =" if of.extent.sizes else "an extent of"
    raise Refused("multiple", f"{said} is no multiple of {over}, so it cannot be cut over {axis.name}",
                  f"{name} {first} would do, or {second}; or give {axis.name} other ranks")
