"""The axes of a mesh as lines of a plan say them, and what is wrong with these lines whatever the ranks are.

Non-goals: what the caller says of the mesh, and the program on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from einc.checking.placements import letters_of
from einc.driver import flow
from einc.errors.problems import PlanLine
from einc.errors.report import Help, Span
from einc.ir.indices import IndexSet
from einc.ir.programs import TypedProgram
from einc.ir.requested import ROWS, WAYS, Cut, Mesh, PlanBlock
from einc.planning.placing import Axis, Meeting, Placed, Refused, Way, placed, with_rings
from einc.planning.placing.cutting import Cutting
from einc.planning.placing.states import OWN, Owned, rows_of


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
    mesh = with_rings(axis_of(cuts[name][0], ranks.get(name) or 2, letters) for name in order
                      if ranks.get(name) != 1)
    try:
        found = placed(flow.normal(program), mesh)
    except Refused as problem:
        span = next(at for cut, at in cuts.values() if any(x.by or x.way in ROWS for x in cut.passes))
        return [PlanLine(problem.said, span, helps=(Help(problem.help),))] if problem.reason == "meeting" else []
    return [_without_rows(found, axis, meeting, cutting, cuts[axis.name][1])
            for axis, cutting in zip(found.mesh, found.cuttings, strict=True) for meeting in axis.meetings
            if meeting.way in ROWS and not any(
                rows.base == meeting.by for cut in cutting.cuts.values() if (rows := rows_of(cut.state)) is not None)]


def _without_rows(found: Placed, axis: Axis, meeting: Meeting, cutting: Cutting, span: Span) -> PlanLine:
    """What is said of a letter whose rows are to be sent, and there are none."""
    letter = meeting.letter
    chooses = [cut.state.chosen for cut in cutting.cuts.values() if isinstance(cut.state, Owned)
               and cut.state.base == meeting.by]
    if not chooses:
        return PlanLine(f"nothing that has {letter} is read at an element that data chooses, so no rows are sent", span,
                        helps=(Help(f"leave out `pass {letter} by {meeting.way}`"),))
    slots = found.program.tensors[chooses[0]].slots
    own = "" if meeting.by is None else meeting.by.cls
    first = next((slot.name for slot in slots if slot.name.isalpha() and slot.set.cls != own), "t")
    return PlanLine(f"`{axis.name}` cuts no letter of what chooses {letter} before {letter} itself, so every rank has "
                    f"all rows and none are sent", span, helps=(
        Help(f"cut it first: `shard {first}, else {letter} over {axis.name}, pass {letter} by {meeting.way}`"),
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
