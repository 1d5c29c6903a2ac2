"""The plans for so many devices that seem the fastest, with what each costs and why, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from einc.checking.placements import letters_of
from einc.driver.placing import pieces, put, told
from einc.driver.reports.growth import human
from einc.errors.report import EincError, failure
from einc.ir.indices import LAYER, IndexSet
from einc.ir.programs import TypedProgram
from einc.planning.placing import Axis
from einc.planning.placing.prices import OPERATIONS_PER_BYTE, Candidate, bubble, candidates

_SHOWN, _WIDTH = 5, 120
_NOTE = ("Held, sent and operations are of one device. Held is what is given, saved for the gradient and returned, "
         "without what an optimizer keeps or a kernel needs for a moment. Operations count every point of an equation. "
         "Time is that of the first, if a byte is sent in the time of "
         f"{OPERATIONS_PER_BYTE:,} operations and nothing is sent beside them: by count, not measured.")
_HEADS = ("", "held", "sent", "messages", "operations", "time", "plan")


def found(program: TypedProgram, devices: int, memory: int | None, grad: bool, sizes: Mapping[str, int],
          real: int) -> Mapping[str, Any]:
    """The best plans as data. EincError where the program cannot be cut, or nothing fits into so many bytes."""
    names: dict[IndexSet, str] = {}
    for name, of in letters_of(program).items():
        if of.cls != LAYER and of.extent.sizes:
            names.setdefault(of, name.rstrip("'"))
    with told():
        some = pieces(program, grad)
        tried = candidates(tuple(names), devices, sizes, real, lambda mesh: put(some, mesh, sizes))
    if not tried:
        raise _uncut(program, devices, names, sizes)
    fit = [one for one in tried if memory is None or one.price.held <= memory]
    if not fit:
        least = min(tried, key=lambda one: one.price.held)
        room = human(float(memory or 0), "B")
        raise failure(f"no plan of the {len(tried)} that were tried fits into {room} a device",
                      f"the smallest holds {human(float(least.price.held), 'B')}: {_said(least, names)}",
                      "give more devices, or smaller sizes")
    best = float(fit[0].price.time)
    rounds = [repeat.index for repeat in program.repeats]
    stages = [{"rounds": index.name, "stages": devices, "parts": parts, "waits": float(bubble(devices, parts))}
              for index in rounds if index.set.cls == LAYER and index.set.extent.at(sizes) % devices == 0
              for parts in (devices, 4 * devices)]
    return {"name": program.name, "devices": devices, "grad": grad, "tried": len(tried), "left_out": len(tried) - len(
        fit), "plans": [_row(one, names, best, sizes) for one in fit[:_SHOWN]], "stages": stages}


def _uncut(program: TypedProgram, devices: int, names: Mapping[IndexSet, str], sizes: Mapping[str, int]) -> EincError:
    """What is said of a program of which no letter is to be cut: there are none, or the devices divide no extent."""
    extents = ", ".join(f"{name} of {of.extent.at(sizes)}" for of, name in names.items())
    if any(s.by or s.packed is not None for s in names):
        return failure(f"`{program.name}` has positions of requests of different lengths, which are not cut")
    if not names:
        return failure(f"`{program.name}` has no letter whose extent is a size, so nothing of it can be cut",
                       "give an index a size for its extent: `index t : time(T)`")
    return failure(f"nothing of `{program.name}` can be cut over {devices} devices",
                   f"its letters have the extents {extents}: give sizes that {devices} divides",
                   "`einc show --stage plan --mesh` tells of one plan why it cannot be had")


def _row(one: Candidate, names: Mapping[IndexSet, str], best: float, sizes: Mapping[str, int]) -> Mapping[str, Any]:
    """One plan with its figures."""
    price = one.price
    why = [f"{move.kind} of {move.tensor} over {', '.join(one.mesh[n].name for n in move.axes)}: {move.reason}"
           for move in one.moves[:3]]
    return {"plan": _lines(one, names), "said": _said(one, names), "held": float(price.held), "sent": float(price.sent),
            "messages": price.messages, "operations": float(price.operations), "time": float(price.time) / best,
            "why": why or ["nothing is sent"]}


def _lines(one: Candidate, names: Mapping[IndexSet, str]) -> list[str]:
    """The lines of a plan."""
    mesh = ", ".join(f"{axis.name} = {axis.ranks}" for axis in one.mesh if not axis.around)
    return [f"mesh {mesh}", *(f"shard {_letters(axis.sets, names)} over {axis.name}{_passes(axis, names)}"
                              for axis in one.mesh)]


def _said(one: Candidate, names: Mapping[IndexSet, str]) -> str:
    """A plan in a few words."""
    return "; ".join(f"{_letters(axis.sets, names)} over {axis.ranks}{_passes(axis, names)}" for axis in one.mesh)


def _passes(axis: Axis, names: Mapping[IndexSet, str]) -> str:
    """How rows go to what they chose, as a line says it."""
    return "".join(f", pass {names[one.by]} by {one.way}" for one in axis.meetings if one.by is not None)


def _letters(sets: Sequence[IndexSet], names: Mapping[IndexSet, str]) -> str:
    """Letters in the order in which they are tried."""
    return ", ".join(names[of] for of in sets)


def as_text(told: Mapping[str, Any], memory: int | None) -> str:
    """The plans as a table, with the reasons below, and the best one to be copied."""
    what = f"{told['name']}{' and its gradient' * told['grad']}"
    lines = [f"{what} on {told['devices']} devices: the best of {told['tried']} plans"]
    rows = [(str(n), human(p["held"], "B"), human(p["sent"], "B"), str(p["messages"]), human(p["operations"], ""),
             f"{p['time']:.2f}", p["said"]) for n, p in enumerate(told["plans"], 1)]
    widths = [max(len(row[n]) for row in (_HEADS, *rows)) for n in range(len(_HEADS) - 1)]
    lines += ["", *("  ".join([*(f"{x:>{w}}" for x, w in zip(row, widths, strict=False)), row[-1]])
                    for row in (_HEADS, *rows)), ""]
    for n, p in enumerate(told["plans"], 1):
        for at, why in enumerate(p["why"]):
            lines += wrap(why, _WIDTH, initial_indent=f"{n}  " if at == 0 else "   ", subsequent_indent="     ")
    if told["left_out"]:
        lines += ["", f"{told['left_out']} plans hold more than {human(float(memory or 0), 'B')} a device"]
    lines += [""] if told["stages"] else []
    for one in told["stages"]:
        lines += wrap(
            f"as {one['stages']} stages for {one['rounds']}, which `shard {one['rounds']} over pp, n in {one['parts']} "
            f"parts by 1F1B` asks for, n the letter of a batch: a device waits {one['waits']:.0%} of the time", _WIDTH)
    lines += ["", "plan best:", *(f"    {line}" for line in told["plans"][0]["plan"]), ""]
    lines += wrap(_NOTE, _WIDTH)
    return "\n".join(lines) + "\n"
