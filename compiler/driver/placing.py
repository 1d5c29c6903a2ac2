"""A spec on a mesh of devices: the axes that its plans and the caller name, and the program, and its gradient, on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einc.checking.placements import letters_of
from einc.checking.plans import chosen
from einc.driver import pipeline
from einc.driver.gradients import constant, library_with_halves
from einc.errors.report import EincError, Help, Problem, listed
from einc.ir.choices import Choices
from einc.ir.indices import IndexSet
from einc.ir.plan import PerRank
from einc.ir.programs import Program, TypedProgram
from einc.ir.requested import WAYS, Cut, Wanted
from einc.planning.placing import Axis, Meeting, Placed, Refused, Way, placed
from einc.planning.placing.modules import between, per_rank, per_rank_gradient
from einc.planning.placing.together import together
from einc.syntax.printing.show import show
from einc.transforms.gradients.backward import derive


@dataclass(frozen=True)
class OnMesh:
    """A program and, where that is asked for, its gradient on a mesh. `mesh` has the axes with more than one rank."""

    mesh: tuple[Axis, ...]
    forward: Placed
    backward: Placed | None = None


def meshed(program: Program, plans: Sequence[str]) -> bool:
    """Whether the plans of these names speak of a mesh. EincError where there is no such plan."""
    try:
        return chosen(program.plans, plans).meshed
    except Problem as problem:
        raise EincError([problem]) from None


def on_mesh(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], sizes: Mapping[str, int],
            grad: bool = False) -> OnMesh:
    """A program on the mesh that its `plans` of these names say; `ranks` are numbers that the caller gives. Where no
    plan is named, those are meant that cut something over one of the axes that have such a number.

    EincError where there is no such plan, where an axis has no number, or nothing to cut, or what is asked for cannot
    be had.
    """
    try:
        names = tuple(plans) if any(name not in ("", "call") for name in plans) else tuple(_over(program, ranks))
        mesh = axes(program, chosen(program.plans, names), ranks)
        if not grad:
            return OnMesh(mesh, placed(pipeline.normal(program), mesh, sizes))
        return _with_gradient(program, mesh, sizes)
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
    except Problem as problem:
        raise EincError([problem]) from None


def planned(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], grad: bool,
            choices: Choices) -> PerRank | None:
    """The plan of one rank of the mesh, with `grad` that of the gradient, too; None where the mesh has one rank alone.
    EincError as for `on_mesh`.
    """
    mesh = on_mesh(program, plans, ranks, {}, grad).mesh
    if not mesh:
        return None
    try:
        if grad:
            inner = replace(choices, rows=library_with_halves()) if choices.rows else choices
            return per_rank_gradient(program, mesh, {}, inner)[0]
        return per_rank(pipeline.normal(program), mesh, {}, choices)[0]
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None


def on_all(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], grad: bool = False) -> str:
    """The program, or its gradient, on all ranks of a mesh as one spec. EincError as for `on_mesh`."""
    found = on_mesh(program, plans, ranks, {}, grad)
    one = found.backward or found.forward
    said = ", ".join(f"{axis.name} = {axis.ranks}" for axis in found.mesh) or "one device"
    what = f"The gradient of {program.name}" if grad else program.name
    return f"# {what} on {said}: what is each device's own has its number.\n{show(together(one))}"


def _over(program: Program, ranks: Mapping[str, int]) -> Iterator[str]:
    """The names of the plans that cut something over one of some axes."""
    for plan in program.plans:
        if any(cut.axis in ranks for cut, _ in plan.cuts()):
            yield plan.name


def axes(program: TypedProgram, wanted: Wanted, ranks: Mapping[str, int]) -> tuple[Axis, ...]:
    """The axes of a mesh in their order, without those of one rank: they cut nothing. Raises Problem."""
    mesh, letters = {**wanted.mesh(), **ranks}, letters_of(program)
    cuts = {cut.axis: (cut, span) for cut, span in wanted.cuts()}
    for name, (_, span) in cuts.items():
        if not mesh.get(name):
            said = f"the mesh has no axis `{name}`" if name not in mesh else f"nothing says how many ranks `{name}` has"
            raise Problem(said, span, helps=(Help(f"say `mesh {name} = 2` in the plan, or `--mesh {name}=2`"),))
    out = []
    for name, number in mesh.items():
        if name not in cuts:
            raise Problem(f"no `shard` says what is cut over `{name}`", helps=(
                Help(f"say it in a plan: `shard {next(iter(letters), 't')} over {name}`"),
                Help(f"the axes that plans of this text cut something over: {listed(_every(program))}")))
        if number > 1:
            out.append(_axis(cuts[name][0], number, letters))
    if not mesh:
        raise Problem("nothing says what the mesh is", helps=(Help("say `--mesh tp=2`, or `mesh tp = 2` in a plan"),))
    return tuple(out)


def _every(program: Program) -> list[str]:
    """The axes over which some plan of a text cuts something."""
    return list(dict.fromkeys(cut.axis for plan in program.plans for cut, _ in plan.cuts()))


def _axis(cut: Cut, ranks: int, letters: Mapping[str, IndexSet]) -> Axis:
    """One axis as the rules of placing know it."""
    ways: dict[str, Way] = {"gather": "gather", "merge": "merge", "swap": "swap"}
    assert ways.keys() == WAYS.keys()
    sets = tuple(dict.fromkeys(letters[name] for name in cut.letters))
    return Axis(cut.axis, ranks, sets, tuple(Meeting(x.letter, ways[x.way], letters[x.by] if x.by else None)
                                             for x in cut.passes))


def _with_gradient(program: TypedProgram, mesh: tuple[Axis, ...], sizes: Mapping[str, int]) -> OnMesh:
    """Both programs: what the first saved, and its results' cotangents, come to the second as they are, and each
    gradient is left as its input is given.
    """
    if program.repeats:
        placed(pipeline.normal(program), mesh, sizes)  # which refuses it with the reason
    found = derive(program)
    if not found.gradients:
        raise constant(program)
    first, second = pipeline.normal(found.forward), pipeline.normal(found.backward)
    forward = placed(first, mesh, sizes)
    known, asked = between(found, forward)
    return OnMesh(mesh, forward, placed(second, mesh, sizes, known, asked))
