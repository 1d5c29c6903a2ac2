"""The axes of a mesh as lines of a plan say them, and what is wrong with these lines whatever the ranks are.

Non-goals: what the caller says of the mesh, and the program on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from einc.checking.placements import letters_of
from einc.driver import flow
from einc.errors.problems import PlanLine
from einc.errors.report import Help
from einc.ir.indices import IndexSet
from einc.ir.programs import TypedProgram
from einc.ir.requested import WAYS, Cut, PlanBlock
from einc.planning.placing import Axis, Meeting, Refused, Way, placed, with_rings
from einc.planning.placing.states import OWN


def refused(program: TypedProgram) -> list[PlanLine]:
    """What is wrong with the lines by which another letter is cut instead of two that meet: an equation has none. An
    axis without a number has two ranks here.
    """
    asked = (plan for plan in program.plans if any(one.by for cut, _ in plan.cuts() for one in cut.passes))
    found = (_refused(program, plan) for plan in asked)
    return [problem for problem in found if problem is not None]


def _refused(program: TypedProgram, plan: PlanBlock) -> PlanLine | None:
    """The first problem of placing the program as one `plan` block says; None where it has none."""
    cuts, ranks = {cut.axis: (cut, span) for cut, span in plan.cuts()}, plan.mesh()
    order = dict.fromkeys((*(name for name in ranks if name in cuts), *cuts))
    letters = letters_of(program)
    mesh = with_rings(axis_of(cuts[name][0], ranks.get(name) or 2, letters) for name in order
                      if ranks.get(name) != 1)
    try:
        placed(flow.normal(program), mesh)
    except Refused as problem:
        span = next(at for cut, at in cuts.values() if any(x.by for x in cut.passes))
        return PlanLine(problem.said, span, helps=(Help(problem.help),)) if problem.reason == "meeting" else None
    return None


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
