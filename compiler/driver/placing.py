"""A spec on a mesh of devices: the axes that its plans and the caller name, and the program, and its gradient, on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from einc.checking.placements import RANKS_RULE, letters_of
from einc.checking.plans import KINDS, chosen
from einc.driver import pipeline
from einc.driver.gradients import by_declaration, constant, library_with_halves
from einc.driver.meshes import axis_of, without_rows
from einc.driver.narrowing import narrowed
from einc.driver.options import Grad
from einc.driver.staging import Staging, kept_gathered, staged, staging
from einc.errors.report import EincError, Help, Problem, listed
from einc.ir.choices import Choices
from einc.ir.indices import LAYER
from einc.ir.plan import Module, PerRank, Recurrence, StateScan
from einc.ir.programs import IndexLoop, NormalProgram, Program, TypedProgram
from einc.ir.requested import MOST_RANKS, ROWS, Cache, Keep, Mesh, PlanBlock
from einc.planning import generation as steps
from einc.planning import halves
from einc.planning.placing import Axis, Placed, Refused, placed, with_rings
from einc.planning.placing.chains import Chain, Link, apart, linked
from einc.planning.placing.layouts import laid
from einc.planning.placing.modules import between, merely_saved, per_rank, per_rank_gradient
from einc.planning.placing.recurred import Found
from einc.planning.placing.rounds import per_rank_rounds, per_rank_rounds_gradient
from einc.planning.placing.together import ALONE, beside, together
from einc.planning.repeated import with_wide
from einc.syntax.printing.show import show
from einc.transforms.gradients.backward import Derived
from einc.transforms.serving.cached import Refused as Unserved
from einc.transforms.serving.cached import growing
from einc.transforms.serving.dealt import dealt
from einc.transforms.serving.handed import Handed
from einc.transforms.slicing.repeats import Round


@dataclass(frozen=True)
class OnMesh:
    """A program and, where that is asked for, its gradient on a mesh, in pieces where it has rounds. `mesh` has the
    axes with more than one rank.
    """

    mesh: tuple[Axis, ...]
    links: tuple[Link, ...]

    @property
    def forward(self) -> Placed:
        """The program, or the first piece of it."""
        return self.links[0].forward

    @property
    def backward(self) -> Placed | None:
        """Its gradient, if it was asked for."""
        return self.links[0].backward


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
    with told():
        mesh = _balanced(program, _mesh(program, plans, ranks), sizes)
        program, _ = narrowed(program, chosen(program.plans, _names(program, plans, ranks)))
        return OnMesh(mesh, put(pieces(program, grad), mesh, sizes)[0])


def in_stages(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int]) -> Staging | None:
    """The stages of a program on a mesh as `on_mesh` has it; None where none of its axes cuts rounds."""
    with told():
        program, _ = narrowed(program, wanted := chosen(program.plans, _names(program, plans, ranks)))
        return staging(program, wanted, _mesh(program, plans, ranks))


def on_rest(found: Staging, one: TypedProgram, sizes: Mapping[str, int], grad: bool) -> OnMesh:
    """A stage on the other axes of a mesh. EincError as for `on_mesh`."""
    with told():
        mesh = _balanced(one, found.rest, sizes)
        return OnMesh(mesh, put(pieces(one, grad), mesh, sizes)[0])


@contextmanager
def told() -> Iterator[None]:
    """A block in which Refused and Problem become EincError, which is told to a person as any error of a text."""
    try:
        yield
    except Refused as refused:
        raise EincError([Problem(refused.said, helps=(Help(refused.help),))]) from None
    except Problem as problem:
        raise EincError([problem]) from None


def _mesh(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int]) -> tuple[Axis, ...]:
    """The axes that the plans of some names say; see `on_mesh`. Raises Problem."""
    return axes(program, chosen(program.plans, _names(program, plans, ranks)), ranks)


def _balanced(program: TypedProgram, mesh: tuple[Axis, ...], sizes: Mapping[str, int]) -> tuple[Axis, ...]:
    """The mesh with parts laid so that all ranks have as much to do, where that is asked for."""
    return laid(mesh, sizes, lambda plain: (link.forward for link in put(pieces(program, False), plain, sizes)[0]))


def _names(program: Program, plans: Sequence[str], ranks: Mapping[str, int]) -> tuple[str, ...]:
    """The plans that are meant: those that are named, else those that cut something over one of the ranks' axes; with
    what the text says of every file that serves, where it says so of a mesh. It is said of no other file.
    """
    kind = [plan.name for plan in program.plans if plan.name == "serve" and plan.name in plans and plan.meshed]
    return (*kind, *([name for name in plans if name not in ("", *KINDS)]
                     or [name for name in _over(program, ranks) if name != "serve"]))


def planned(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], grad: Grad,
            choices: Choices) -> PerRank | None:
    """The plan of one rank of the mesh, with `grad` that of the gradient, too; None where the mesh has one rank alone.
    EincError as for `on_mesh`, and where an exact gradient passes a declared slope.
    """
    with told():
        mesh = _balanced(program, _mesh(program, plans, ranks), {})
        if not mesh:
            return None
        if any(axis.sets[0].cls == LAYER for axis in mesh):
            return staged(program, chosen(program.plans, _names(program, plans, ranks)), mesh, grad, choices)
        if not grad and program.repeats:
            return per_rank_rounds(pipeline.normal(program), mesh, {}, choices)
        if not grad:
            return per_rank(pipeline.normal(program), mesh, {}, choices)[0]
        if all(t.constant for t in program.inputs()):
            raise constant(program)
        inner = replace(choices, rows=library_with_halves()) if choices.rows else choices
        passed = by_declaration(program, grad == "exact")
        made = (per_rank_rounds_gradient if program.repeats else _both)(program, mesh, {}, inner)
        assert not isinstance(made.body, Module)
        kept_gathered([made], {name for axis in mesh for name in axis.gathered})
        return replace(made, body=replace(made.body, declared=passed))


def served(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], keep: frozenset[str],
           choices: Choices) -> tuple[PerRank, Handed]:
    """The plan of one rank of a step that adds positions to those before, and the step: of what is kept each rank has
    the part that the plans cut. EincError as for `on_mesh`, where the mesh has one rank, and where no step can be had.
    """
    with told():
        step, mesh = _step(program, plans, ranks, keep, choices)
        normal = pipeline.normal(step.program)
        if step.program.repeats:
            return per_rank_rounds(normal, mesh, _one_position(program), choices), step
        return per_rank(normal, mesh, _one_position(program), choices)[0], step


def served_on_mesh(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], sizes: Mapping[str, int],
                   choices: Choices) -> OnMesh:
    """Such a step on the mesh as `on_mesh` has a program. EincError as for `served`."""
    with told():
        step, mesh = _step(program, plans, ranks, frozenset(chosen(program.plans, plans).asked(Cache).tensors), choices)
        return OnMesh(mesh, put(pieces(step.program, grad=False), mesh, {**_one_position(program), **sizes})[0])


def _one_position(program: TypedProgram) -> dict[str, int]:
    """The sizes at which what a step sends is priced, as it is most often of one position."""
    return dict.fromkeys(growing(program).extent.sizes, 1)


def _step(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], keep: frozenset[str],
          choices: Choices) -> tuple[Handed, tuple[Axis, ...]]:
    """A step, and the mesh that it is put on. Raises Problem."""
    mesh = _mesh(program, plans, ranks)
    if not mesh:
        raise Problem("the mesh has one rank", helps=(Help("leave out --mesh: one device generates alone"),))
    try:
        return _dealt(program, steps.as_function(program, choices, keep), mesh)
    except Unserved as refused:
        raise Problem(refused.said, helps=(Help(refused.help),)) from None


def _dealt(program: TypedProgram, step: Handed, mesh: tuple[Axis, ...]) -> tuple[Handed, tuple[Axis, ...]]:
    """A step and the axes of its mesh, where one of these cuts positions with these dealt out over its ranks. Raises
    Unserved for what a step has few of, and for parts that go round.
    """
    along = growing(program)
    for axis in mesh:
        for one in axis.sets:
            few = "texts" if one.cls == "batch" else "positions"
            if few == "texts" or (one != along and one.extent.sizes & along.extent.sizes):
                raise Unserved(f"`{axis.name}` cuts {one}, and a step is of few {few}, often of one",
                               f"cut letters of other sets over `{axis.name}`, such as those of heads")
    over = [axis for axis in mesh if along in axis.sets]
    for axis in over:
        for meeting in axis.meetings:
            if meeting.way in ROWS:
                raise Unserved(*without_rows(meeting.letter, meeting.way))
            if meeting.way != "merge":
                raise Unserved(f"`{axis.name}` passes {meeting.letter} by {meeting.way}, and the past of a step stays "
                               "where it is: what each rank sums of it is merged",
                               f"say `pass {meeting.letter} by merge`, or leave it out")
    if not over:
        return step, mesh
    step, ranks = dealt(step, along, over[0].ranks)
    return step, tuple(replace(axis, sets=tuple(ranks if one == along else one for one in axis.sets), meetings=())
                       if axis in over else axis for axis in mesh)


def _both(program: TypedProgram, mesh: tuple[Axis, ...], sizes: Mapping[str, int], choices: Choices) -> PerRank:
    """The plan of one rank of a program and its gradient. Raises Refused."""
    made, _, backward = per_rank_gradient(program, mesh, sizes, choices)
    if backward is None:
        raise constant(program)
    return made


def on_all(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int], grad: bool = False,
           claimed: bool = False) -> str:
    """The program, or its gradient, on all ranks of a mesh as one spec; `claimed` has it beside what one device makes,
    and claims that both make the same. EincError as for `on_mesh`.
    """
    if program.repeats:
        with told():
            _several(program, plans, ranks)
        raise EincError([Problem(f"`{program.name}` has rounds, so what all devices do is no single text", helps=(
            Help("`einc show --stage plan` prints what each does of every piece"),))])
    found = on_mesh(program, plans, ranks, {}, grad)
    one = found.backward or found.forward
    said = ", ".join(f"{axis.name} = {axis.ranks}" for axis in found.mesh if not axis.around) or "one device"
    what = f"The gradient of {program.name}" if grad else program.name
    text = _claimed(*beside(one)) if claimed else show(together(one))
    return f"# {what} on {said}: what is each device's own has its number.\n{text}"


def _several(program: TypedProgram, plans: Sequence[str], ranks: Mapping[str, int]) -> None:
    """Raises Problem where a mesh has one rank."""
    if not _mesh(program, plans, ranks):
        cuts = chosen(program.plans, _names(program, plans, ranks)).cuts()
        one = "stage" if any(cut.parts is not None for cut, _ in cuts) else "device"
        raise Problem(f"the mesh has one rank, and one {one} is the whole of `{program.name}`", helps=(
            Help("`einc show` prints it; give an axis of the mesh 2 ranks or more to print what each has"),))


def _claimed(program: NormalProgram, count: int) -> str:
    """The text of a program of which so many of the last equations are claims, and the second half of the outputs is
    said to be what the first half is."""
    made, said = program.equations[:-count or None], program.equations[len(program.equations) - count:]
    said = tuple(replace(e, target=e.target.removesuffix(f" of {ALONE}")) for e in said)  # as the value is called
    lines = show(program.but(equations=(*made, *said))).splitlines()
    outputs = [n for n, line in enumerate(lines) if line.startswith("output ")]
    words = [lines[n].removeprefix("output ").partition(" : ")[0].partition(" as ")[0] for n in outputs]
    first, half = outputs[0] - count, len(words) // 2
    values = [f"claim {line}" for line in lines[first : outputs[0]]]
    results = [f"claim {a} = {b}" for a, b in zip(words[:half], words[half:], strict=True)]
    return "\n".join([*lines[:first], *lines[outputs[0] :], *dict.fromkeys([*values, *results])]) + "\n"


def _over(program: Program, ranks: Mapping[str, int]) -> Iterator[str]:
    """The names of the plans that cut something over one of some axes."""
    for plan in program.plans:
        if any(cut.axis in ranks for cut, _ in plan.cuts()):
            yield plan.name


def axes(program: TypedProgram, wanted: PlanBlock, ranks: Mapping[str, int]) -> tuple[Axis, ...]:
    """The axes of a mesh in their order, without those of one rank: they cut nothing. Raises Problem."""
    mesh, letters = {**wanted.asked(Mesh).ranks, **ranks}, letters_of(program)
    cuts = {cut.axis: (cut, span) for cut, span in wanted.cuts()}
    for name, (_, span) in cuts.items():
        if not mesh.get(name):
            said = f"the mesh has no axis `{name}`" if name not in mesh else f"nothing says how many ranks `{name}` has"
            raise Problem(said, span, helps=(Help(f"say `mesh {name} = 2` in the plan, or `--mesh {name}=2`"),))
    out = []
    for name, number in mesh.items():
        if name not in cuts:
            if any(plan.name == "serve" and cut.axis == name for plan in program.plans for cut, _ in plan.cuts()):
                raise Problem(f"`plan serve` alone cuts something over `{name}`, for a step that serves", helps=(
                    Help(f"ask for that step: `--plan serve --mesh {name}={number}`"),
                    Help(f"or cut all in a plan of another name: `shard {next(iter(letters), 't')} over {name}`")))
            there, new = _every(program), Help(f"say it in a plan: `shard {next(iter(letters), 't')} over {name}`")
            raise Problem(f"no `shard` says what is cut over `{name}`", helps=(new,) if not there else (
                Help(f"plans of this text cut something over {listed(there)}: say `--mesh {there[0]}={number}`"), new))
        if number not in range(1, MOST_RANKS + 1):
            raise Problem(f"{RANKS_RULE.format(f'{MOST_RANKS:,}')}, and `{name}` has {number:,}", helps=(
                Help(f"say `mesh {name} = 2` in the plan, or `--mesh {name}=2`, for instance"),))
        if number > 1:
            kept = frozenset(wanted.asked(Keep).tensors)
            out.append(replace(axis_of(cuts[name][0], number, letters), gathered=kept))
    if not mesh:
        raise Problem("nothing says what the mesh is", helps=(Help("say `--mesh tp=2`, or `mesh tp = 2` in a plan"),))
    return with_rings(out)


def _every(program: Program) -> list[str]:
    """The axes over which some plan of a text cuts something."""
    return list(dict.fromkeys(cut.axis for plan in program.plans for cut, _ in plan.cuts()))


@dataclass(frozen=True)
class Piece:
    """A program, or a piece of one with rounds, before it is put on a mesh, with its gradient where it has one."""

    forward: NormalProgram
    round: Round | None = None
    derived: Derived | None = None
    backward: NormalProgram | None = None


@dataclass(frozen=True)
class Pieces:
    """A program with its pieces in their order, one where it has no rounds; recurrences are loops among them."""

    program: Program
    found: Found
    every: tuple[Piece | IndexLoop, ...]


def pieces(program: TypedProgram, grad: bool) -> Pieces:
    """The pieces of a program. EincError where a gradient is asked for and there is none. Raises Refused for rounds in
    rounds."""
    def one(piece: Program, here: Round | None) -> Piece:
        if not grad:
            return Piece(NormalProgram.of(piece), here)
        found, first = halves.derived(piece)
        forward = with_wide(pipeline.normal(first))
        second = halves.second(found, forward.tensors)
        return Piece(forward, here, found, with_wide(pipeline.normal(second)) if found.gradients else None)

    def same(loop: IndexLoop) -> Piece | IndexLoop:
        return loop

    whole: Program = program if grad else pipeline.normal(program)
    found: Found = {}
    made: list[Piece | IndexLoop] = []
    if program.repeats:
        whole, found = apart(whole, grad)
        made += linked(whole, one, grad, same, found)
    else:
        made.append(one(whole if grad else with_wide(whole), None))
    if grad and not found and all(isinstance(piece, Piece) and piece.backward is None for piece in made):
        raise constant(program)
    return Pieces(whole, found, tuple(made))


def put(some: Pieces, mesh: tuple[Axis, ...],
        sizes: Mapping[str, int]) -> tuple[tuple[Link, ...], tuple[Recurrence | StateScan, ...]]:
    """The pieces of a program on a mesh, and what a rank does of its recurrences: what the first half of a gradient
    saved, and its results' cotangents, come to the second as they are, and each gradient is left as its input is given.
    Raises Refused.
    """
    chain = Chain(some.program, mesh, sizes, some.found) if some.program.repeats else None
    out, steps = list[Link](), list[Recurrence | StateScan]()
    for piece in some.every:
        if isinstance(piece, IndexLoop):
            assert chain is not None
            steps.append(chain.recur(piece).step(some.program))
            continue
        kept = frozenset() if piece.derived is None else merely_saved(piece.derived, piece.forward)
        forward = (placed(piece.forward, mesh, sizes, kept=kept) if chain is None
                   else chain.place(piece.forward, piece.round))
        backward = None
        if piece.backward is not None and piece.derived is not None:
            backward = placed(piece.backward, mesh, sizes, *between(piece.derived, forward))
        out.append(Link(forward, backward, piece.round))
    return tuple(out), tuple(steps)
