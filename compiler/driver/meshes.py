"""The axes of a mesh as lines of a plan say them, and what is wrong with these lines whatever the ranks are.

Non-goals: what the caller says of the mesh, and the program on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from einc.checking.placements import letters_of
from einc.driver import flow
from einc.errors.problems import PlanLine
from einc.errors.report import Help, Span
from einc.ir.indices import LAYER, IndexSet
from einc.ir.programs import TypedProgram
from einc.ir.requested import ROWS, WAYS, Cut, Mesh, PlanBlock
from einc.ir.terms import Position, Read
from einc.planning.placing import Axis, Meeting, Placed, Refused, Way, with_rings
from einc.planning.placing.chains import each_placed
from einc.planning.placing.cuts import shown_place
from einc.planning.placing.states import OWN, Part, rows_of


def refused(program: TypedProgram) -> list[PlanLine]:
    """What is wrong with the lines by which another letter is cut instead of two that meet, which an equation has none
    of, or by which rows are sent to what they chose, where there are none. An axis without a number has two ranks here.
    """
    asked = (plan for plan in program.plans if any(
        one.by or one.way in ROWS for cut, _ in plan.cuts() for one in cut.passes))
    return [problem for plan in asked for problem in _refused(program, plan)]


def _refused(program: TypedProgram, plan: PlanBlock) -> list[PlanLine]:
    """The problems of placing the program as one `plan` block says."""
    cuts, ranks = {cut.axis: (cut, span) for cut, span in plan.cuts()}, plan.asked(Mesh).ranks
    order = dict.fromkeys((*(name for name in ranks if name in cuts), *cuts))
    letters = letters_of(program)
    if plan.name == "serve":
        steps = [(*without_rows(one.letter, one.way), span) for cut, span in plan.cuts() for one in cut.passes
                 if one.way in ROWS]
        if steps:
            return [PlanLine(said, span, helps=(Help(way),)) for said, way, span in steps]
    mesh = with_rings(axis_of(cuts[name][0], ranks.get(name) or 2, letters) for name in order
                      if ranks.get(name) != 1 and all(letters[x].cls != LAYER for x in cuts[name][0].letters))
    try:
        found = each_placed(flow.normal(program), mesh)
    except Refused as problem:
        span = next(at for cut, at in cuts.values() if any(x.by or x.way in ROWS for x in cut.passes))
        return [PlanLine(problem.said, span, helps=(Help(problem.help),))] if problem.reason == "meeting" else []
    return [_without_rows(found, n, meeting, cuts[axis.name][1]) for n, axis in enumerate(mesh)
            for meeting in axis.meetings if meeting.way in ROWS and not any(
                rows.base == meeting.by for one in found for cut in one.cuttings[n].cuts.values()
                if (rows := rows_of(cut.state)) is not None)]


def without_rows(letter: str, way: str) -> tuple[str, str]:
    """What is said, and the way out, where a step over a cache is to send rows."""
    return (f"every rank has all new positions of a step, so none is sent as a row to what it chose of {letter}",
            f"leave out `pass {letter} by {way}`")


def _without_rows(found: list[Placed], n: int, meeting: Meeting, span: Span) -> PlanLine:
    """What is said of a letter whose rows are to be sent over an axis, and there are none."""
    letter, axis = meeting.letter, found[0].mesh[n].name
    leave = Help(f"leave out `pass {letter} by {meeting.way}`")
    reads = [(one, *cut.gathered) for one in found for cut in one.cuttings[n].cuts.values() if cut.gathered is not None]
    chosen = [(one, read, read.subs[part.slot]) for one, read, part in reads
              if one.program.tensors[read.tensor].slots[part.slot].set == meeting.by]
    if not chosen:
        return PlanLine(f"nothing that `{axis}` cuts by {letter} is read at an element that data chooses, so no rows "
                        "are sent", span, helps=(leave,))
    one, read, place = chosen[0]
    name = one.program.tensors[read.tensor].text
    if not isinstance(place, Read) or not all(isinstance(x, Position) for x in place.subs):
        said = shown_place(place)
        return PlanLine(f"`{name}` is read at a place that is made of `{said}`, and not at `{said}` itself with a "
                        "single letter in each slot: rows go to elements that one tensor names", span, helps=(
                            Help("define a tensor that is this place, with a single letter in each slot, and read "
                                 f"`{name}` at it"), leave))
    slots, states = one.program.tensors[place.tensor].slots, one.states(place.tensor)
    here = states[n]
    if isinstance(here, Part) and here.component >= 0:
        return PlanLine(f"`{axis}` cuts what chooses {letter} inside of a composite, {slots[here.slot].name}, and a "
                        "row has letters of its own", span, helps=(
                            Help(f"define what chooses {letter} with the letters of the composite apart"), leave))
    if isinstance(here, Part):
        return PlanLine(f"`{name}` has a letter of what chooses {letter} in another slot, too: a row of it would be "
                        "needed where that lies, and where its choice lies", span, helps=(leave,))
    cutter = next((one.mesh[m].name for m, state in enumerate(states) if isinstance(state, Part)), "")
    own = "" if meeting.by is None else meeting.by.cls
    cut = next((state.slot for state in states if isinstance(state, Part)), -1)
    first = slots[cut].name if cutter else next(
        (slot.name for slot in slots if slot.name.isalpha() and slot.set.cls != own), "t")
    if cutter:
        return PlanLine(f"`{cutter}` cuts what chooses {letter}, and `{axis}` cuts {letter}: rows are sent among the "
                        "ranks of one axis", span, helps=(
                            Help(f"cut both over it: `shard {first}, else {letter} over {cutter}, pass {letter} by "
                                 f"{meeting.way}`"), leave))
    return PlanLine(f"`{axis}` cuts no letter of what chooses {letter} before {letter} itself, so every rank has "
                    f"all rows and none are sent", span, helps=(
        Help(f"cut it first: `shard {first}, else {letter} over {axis}, pass {letter} by {meeting.way}`"),
        Help(f"or leave out `pass {letter} by {meeting.way}`")))


def axis_of(cut: Cut, ranks: int, letters: Mapping[str, IndexSet]) -> Axis:
    """One axis as the rules of placing know it."""
    ways: dict[str, Way] = {"gather": "gather", "merge": "merge", "ring": "ring", "swap": "swap",
                            "rows": "rows", "once": "once"}
    assert ways.keys() == WAYS.keys()
    sets = tuple(dict.fromkeys(letters[name] for name in cut.letters))
    meetings = tuple(Meeting(x.letter, ways[x.way], letters[x.letter] if x.way in OWN else
                             letters[x.by] if x.by else None) for x in cut.passes)
    round_ = next((m.by for m in meetings if m.way == "ring"), None)
    return Axis(cut.axis, ranks, sets, meetings, balanced=round_ if cut.balanced else None)
