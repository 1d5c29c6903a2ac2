"""A spec whose rounds are stages: the plan of each kind of stage, on the axes of a mesh that are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from einc import planning
from einc.checking.placements import letters_of
from einc.driver.gradients import by_declaration, library_with_halves
from einc.driver.options import Grad
from einc.errors.report import Help, Problem
from einc.ir.choices import Choices
from einc.ir.indices import LAYER
from einc.ir.plan import Gradient, Move, PerRank, SegmentedModule, Stages
from einc.ir.programs import TypedProgram
from einc.ir.requested import Cut, Keep, Parts, PlanBlock
from einc.planning.placing import Axis
from einc.planning.placing.cuts import first_part
from einc.planning.placing.rounds import per_rank_rounds_gradient
from einc.planning.placing.states import State, States
from einc.transforms.slicing.stages import Stages as Programs
from einc.transforms.slicing.stages import Unstaged, stages


def staged(program: TypedProgram, wanted: PlanBlock, mesh: tuple[Axis, ...], grad: Grad, choices: Choices) -> PerRank:
    """The plan of the first stage, with those of all kinds of stages. Raises Problem."""
    if not grad:
        raise Problem("stages are for training, and no gradient was asked for", helps=(
            Help("say `--grad`, or `grad=True`"),))
    found = staging(program, wanted, mesh)
    assert found is not None
    axis, parts, made = found.axis, found.parts, found.made
    inner = replace(choices, rows=library_with_halves()) if choices.rows else choices
    kinds = [one for _, _, one in found.kinds]
    plans = [_planned(one, made, found.rest, grad, inner) for one in kinds]
    kept_gathered(plans, wanted.asked(Keep).tensors)
    along = letters_of(program)[parts.letter]
    given = {t.key: n for t in program.inputs() if t.role == "input" for n, s in enumerate(t.slots) if s.set == along}
    joined = tuple([s.set for s in program.tensors[key].slots].index(along) for _, key in program.outputs)
    return replace(plans[0], stages=Stages(
        program.name, axis.name, axis.ranks, tuple(zip(plans, map(planning.class_of, kinds), strict=True)), made.handed,
        (made.count, made.rounds), made.before, parts.schedule, parts.count, tuple(given.items()), joined))


@dataclass(frozen=True)
class Staging:
    """A program whose rounds are stages over an axis, what goes through them, the programs of the stages, and the other
    axes of the mesh.
    """

    program: TypedProgram
    axis: Axis
    parts: Parts
    rest: tuple[Axis, ...]
    made: Programs

    @property
    def kinds(self) -> tuple[tuple[str, str, TypedProgram], ...]:
        """The kinds of stages that there are: their numbers, a word, and the program."""
        last, made = self.axis.ranks, self.made
        between = f"2 to {last - 1}" if last > 3 else "2"
        some = [("1", "first", made.first), (between, "between", made.between), (str(last), "last", made.last)]
        return tuple(one for one in some if last > 2 or one[1] != "between")


def staging(program: TypedProgram, wanted: PlanBlock, mesh: tuple[Axis, ...]) -> Staging | None:
    """The stages of a program on a mesh; None where no axis cuts rounds. Raises Problem."""
    if all(axis.sets[0].cls != LAYER for axis in mesh):
        return None
    axis, parts, rest = of_rounds(program, wanted, mesh)
    return Staging(program, axis, parts, rest, programs(program, axis, parts))


def kept_gathered(plans: Iterable[PerRank], wanted: Iterable[str]) -> None:
    """Raises Problem where a tensor that is to be kept gathered is not gathered, or not saved for a gradient."""
    saved, gathered = set[str](), set[str]()
    for body in (plan.body for plan in plans):
        halves = [body] if isinstance(body, Gradient) else [one for one, _ in body.gradients] if isinstance(
            body, SegmentedModule) else []
        saved |= {key for half in halves for key, _ in half.saved}
        gathered |= {key for half in halves for step in half.forward.steps
                     if isinstance(step, Move) and step.kind == "all_gather" for key in step.writes}
    for name in sorted(wanted):
        if name not in saved & gathered:
            what = "is gathered nowhere" if name in saved else "is not saved for the gradient"
            listed = ", ".join(f"`{key}`" for key in sorted(saved))
            raise Problem(f"`{name}` {what}, so it cannot be kept gathered", helps=(
                Help("`einc show --stage plan --mesh` prints what is gathered"), Help(f"saved are {listed}")))


def of_rounds(program: TypedProgram, wanted: PlanBlock,
              mesh: tuple[Axis, ...]) -> tuple[Axis, Parts, tuple[Axis, ...]]:
    """The axis over which rounds are cut, what goes through them, and the other axes. Raises Problem."""
    over = [axis for axis in mesh if axis.sets[0].cls == LAYER]
    if len(over) > 1:
        raise Problem(f"`{over[0].name}` and `{over[1].name}` both cut rounds, and stages are one after the other",
                      helps=(Help("cut them over one axis"),))
    cut: Cut = next(cut for cut, _ in wanted.cuts() if cut.axis == over[0].name)
    assert cut.parts is not None  # else its line is an error
    return over[0], cut.parts, tuple(axis for axis in mesh if axis is not over[0])


def programs(program: TypedProgram, axis: Axis, parts: Parts) -> Programs:
    """The programs of the stages. Raises Problem."""
    try:
        return stages(program, axis.sets[0], axis.name, axis.ranks, letters_of(program)[parts.letter])
    except Unstaged as refused:
        raise Problem(refused.said, helps=(Help(refused.help),)) from None


def _planned(one: TypedProgram, made: Programs, mesh: tuple[Axis, ...], grad: Grad, choices: Choices) -> PerRank:
    """The plan of one kind of stage: what is handed on lies as the next stage is given it. Raises Refused."""
    passed = by_declaration(one, grad == "exact")
    plan = per_rank_rounds_gradient(one, mesh, {}, choices, _lying(made, mesh))
    assert isinstance(plan.body, SegmentedModule)
    return replace(plan, body=replace(plan.body, declared=passed))


def _lying(made: Programs, mesh: tuple[Axis, ...]) -> Mapping[str, States]:
    """The placements of the tensors that a stage hands to the next: those that inputs have on each axis of the mesh."""
    out: dict[str, States] = {}
    for key in made.handed:
        states: list[State] = []
        for axis in mesh:
            states.append(first_part(made.last.tensors[key].slots, made.last.splits, axis.given, states))
        out[key] = tuple(states)
    return out
