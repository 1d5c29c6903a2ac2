"""NormalProgram -> Module: the steps of planning in their order, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from einc.ir.choices import PLAIN, Choices
from einc.ir.draft import unused, with_other_names
from einc.ir.elements import RANGED, WIDE
from einc.ir.indices import DATA, OUTER, SEQUENCE, Index, IndexSet, number
from einc.ir.letters import with_letters
from einc.ir.plan import (
    Append,
    Axis,
    Bound,
    BroadcastView,
    Buffer,
    Concat,
    Cost,
    Kernel,
    Leaf,
    Let,
    Module,
    Role,
    Store,
    makes,
)
from einc.ir.programs import Definitions, Equation, NormalProgram, Tensor, slot_of
from einc.ir.terms import Fold, Join, Position, Read, Term, walk
from einc.ir.verify import verify
from einc.planning.analysis import storage
from einc.planning.analysis.cost import lets_cost, nominal, points, size_of
from einc.planning.analysis.ends import Tile
from einc.planning.analysis.held import held, live
from einc.planning.analysis.packing import with_bytes
from einc.planning.analysis.prefix import alone
from einc.planning.analysis.scatters import scattered
from einc.planning.analysis.signs import known_of
from einc.planning.contractions.associate import Candidate, as_written, associate, samples
from einc.planning.contractions.choose import Cut, chosen
from einc.planning.contractions.contract import contraction
from einc.planning.contractions.grouped import grouped, pick, with_matrices
from einc.planning.contractions.materialise import peeled
from einc.planning.contractions.nested import with_rows
from einc.planning.contractions.partial_sums import with_partial_sums
from einc.planning.contractions.segments import segment, with_segments
from einc.planning.contractions.slices import in_slices
from einc.planning.fusing.fuse import FusedGroup, groups
from einc.planning.fusing.given import LoweringInput, Passing
from einc.planning.fusing.grouped_axes import GroupedAxis, paired, shared
from einc.planning.fusing.library import called, gathered
from einc.planning.fusing.onepass import one_pass, tiled
from einc.planning.fusing.reduced_precision import mark_roundable
from einc.planning.fusing.scans import Scanning, exactly
from einc.planning.fusing.visits import agreed, bound
from einc.planning.per_request import apart
from einc.planning.repeated import repeated
from einc.planning.row_blocks import row_by_row
from einc.planning.streaming.exp2 import in_base_two
from einc.planning.streaming.partials import early, nested
from einc.planning.streaming.passes import Streamed, silent
from einc.syntax.printing.show import equation_text, text
from einc.transforms.laws.simplify import picked
from einc.transforms.normal.products import left_whole
from einc.transforms.slicing.requests import in_order, marked


def plan(program: NormalProgram, inputs: tuple[Tensor, ...] | None = None, choices: Choices = PLAIN) -> Module:
    """How the program is cut: what is fused, what is stored, in which order, in which tiles.

    `inputs` are those that a caller gives, by default those that are still read. EincError where the plan breaks a rule
    of `ir.verify`, which is a fault of planning.
    """
    made = _module(program, inputs, choices, associate)
    verify(made)
    return made


def plan_as_written(program: NormalProgram, inputs: tuple[Tensor, ...] | None = None,
                    choices: Choices = PLAIN) -> Module:
    """The plan of the program as it stands, its products in the order in which they are written."""
    return _module(program, inputs, choices, as_written)


def _module(
    program: NormalProgram,
    inputs: tuple[Tensor, ...] | None,
    choices: Choices,
    candidates: Callable[[NormalProgram], list[Candidate]],
) -> Module:
    """The plan of a program, not yet verified: loops and packed requests are planned piece by piece through this
    function. Of the orders of its products that `candidates` lists, the plan with the lowest price is taken."""
    asked = program.inputs() if inputs is None else inputs
    if program.own:
        program = marked(program)

    def inner(piece: NormalProgram, given: tuple[Tensor, ...]) -> Module:
        return _module(piece, given, choices, candidates)

    if len(program.repeats) > len(in_order(program)):
        return repeated(program, asked, inner)
    if program.own:  # a loop over new positions is one of each request
        return apart(program, asked, inner)

    def straight(piece: NormalProgram, given: tuple[Tensor, ...]) -> Module:
        return _straight(piece, given, choices, candidates)

    return row_by_row(with_partial_sums(program), asked, straight, inner)


def _straight(program: NormalProgram, asked: tuple[Tensor, ...], choices: Choices,
              candidates: Callable[[NormalProgram], list[Candidate]]) -> Module:
    """The plan of a program without loops: its steps one after the other, each of all positions at once."""
    program = with_letters(with_segments(program), program.tensors)
    program = storage.with_parts(peeled(with_rows(program, later=True)))
    taken: dict[str, Tensor] = {}
    ways = [replace(c, program=with_letters(c.program, program.tensors)) for c in candidates(program)]
    found = [cut for way in ways for cut in _cuts(way, choices, taken)]
    steps, cuts = chosen(found, samples(program, narrow=any(cut.spare for cut in found)))
    steps, apart = with_bytes(steps, {k: v for cut in cuts for k, v in cut.buffers.items()})
    sizes = frozenset(n for t in asked for s in t.slots for n in s.set.extent.sizes)
    sizes |= frozenset(n for e in program.equations for n in storage.sizes_of(e)) - program.sizes.keys()
    buffers = {k: v for cut in cuts for k, v in cut.buffers.items()} | apart
    sets = storage.sets_of(program)
    return Module(
        program.name, program.source or program.name,
        asked,
        program.outputs,
        buffers,
        steps,
        dict(program.sizes),
        sizes - program.sizes.keys(),
        sets,
        tuple(dict.fromkeys(k for cut in cuts for k in cut.keys)),
        storage.lengths_of(sets, buffers),
    )


def _cuts(candidate: Candidate, choices: Choices, taken: dict[str, Tensor]) -> list[Cut]:
    """The steps of one program; where passes over pairs could carry states instead, also those of that way."""
    made = _cut_up(candidate, choices, taken)
    return [made, _cut_up(candidate, replace(choices, states=True), taken)] if made.spare else [made]


def _cut_up(candidate: Candidate, choices: Choices, taken: dict[str, Tensor]) -> Cut:
    """The steps of one program. `taken`, what other candidates call their tensors, grows by those of this one."""
    program = nested(with_matrices(with_rows(candidate.program)), choices.ordered)
    # The steps of all candidates stand in one module, in which a name means one tensor.
    clashes = [key for key, tensor in program.tensors.items() if taken.get(key, tensor).slots != tensor.slots]
    program = with_other_names(program, {key: unused(f"{key}_prime", {**taken, **program.tensors}) for key in clashes})
    taken |= program.tensors
    buffers = storage.buffers_of(program)
    equations = known_of(program)
    steps: list[Leaf] = []
    keys: list[tuple[str, IndexSet]] = []
    stored = set(buffers)
    made = groups(program, choices.ordered and not choices.states)
    runs = shared(made, [tiled(g) for g in made], buffers)
    for run in runs.values():
        buffers[run.target] = _along_runs(buffers[run.target], run)
    whole = _Whole(program, equations, buffers, keys, runs, choices, [])
    for group in made:
        step = _alone(whole, group, candidate.sizes) or _step(whole, group, _kept(program, group, made))
        steps.append(step)
        stored -= {e.target for e in group.equations} - makes(step)
    # a scaled sum is one
    stored -= {e.target for e in program.equations} - {e.target for g in made for e in g.equations}
    left = gathered(storage.without_copies(program, steps, buffers), frozenset(key for _, key in program.outputs))
    stored -= {s.name for s in steps if isinstance(s, Kernel)} - frozenset[str]().union(*map(makes, left))
    left = in_slices(left, buffers, frozenset(key for _, key in program.outputs))
    return Cut(tuple(left), {k: v for k, v in buffers.items() if k in stored}, tuple(keys), bool(whole.spare))


def _alone(whole: _Whole, group: FusedGroup, sizes: Mapping[str, int]) -> Leaf | None:
    """The step that is no kernel of the plan's own, of a group of one equation."""
    if len(group.equations) > 1:
        return None
    (only,), program, buffers = group.equations, whole.program, whole.buffers
    return (pick(program, only, buffers) or segment(program, only, buffers) or grouped(program, only, buffers)
            or contraction(program, only, buffers, sizes, whole.choices.compiled))  # fmt: skip


@dataclass(frozen=True)
class _Whole:
    """What every step of a program is made from; `keys` grow as kernels find whole numbers that stand in slots, and
    `spare` by the results of passes that could carry states."""

    program: NormalProgram
    equations: Definitions
    buffers: dict[str, Buffer]
    keys: list[tuple[str, IndexSet]]
    runs: dict[str, GroupedAxis]
    choices: Choices
    spare: list[str]


def _step(whole: _Whole, group: FusedGroup, kept: frozenset[str]) -> Leaf:
    only = group.equations[0]
    if len(group.equations) == 1 and isinstance(only.body, Join):
        return _side_by_side(whole, only, only.body)
    passed = one_pass(whole.program, whole.equations, group, kept, whole.choices)
    whole.spare.extend(kept if passed.spare else ())
    kernel = _kernel(whole, group, kept, passed)
    if only.target in whole.runs:
        return _view(kernel, whole.runs[only.target], only)
    return called(whole.choices, kernel, passed, group, whole.program, whole.buffers, whole.runs)


def _side_by_side(whole: _Whole, equation: Equation, join: Join) -> Concat | Append:
    """The step of a direct sum; where its first part is a cache, the others are appended and nothing is moved."""
    parts = tuple(r.tensor for _, r in join.parts if isinstance(r, Read))
    texts = (equation_text(whole.program, equation),)
    appends = whole.buffers[parts[0]].role == "cache"
    moved = size_of(whole.buffers[parts[-1] if appends else equation.target])
    made = Append if appends else Concat
    return made(reads=parts, writes=(equation.target,), texts=texts, cost=Cost(number(0), moved, moved, number(0)),
                axis=equation.axes.index(Position(join.index)))


def _view(kernel: Kernel, run: GroupedAxis, equation: Equation) -> BroadcastView:
    """The kernel that copies, to be run only where the runs are not of one length."""
    places = [run.place if n == run.axis else run.operand.subs.index(axis) for n, axis in enumerate(equation.axes)]
    return BroadcastView(
        reads=(run.operand.tensor,), writes=(equation.target,), texts=kernel.texts[:1], bodies=((kernel,),),
        order=tuple(places), onto=run.onto.extent, of=run.index.set.extent, count=run.count)


def _along_runs(buffer: Buffer, run: GroupedAxis) -> Buffer:
    """The buffer of a copy with one element for each run."""
    each, _ = run.parts()
    return replace(buffer, sets=tuple(each.set if n == run.axis else s for n, s in enumerate(buffer.sets)))


def _kernel(whole: _Whole, group: FusedGroup, kept: frozenset[str], found: Streamed) -> Kernel:
    """The kernel of a group by the pass `found`, which stores the values in `kept`; `whole.keys` grows by the index
    tensors that it reads.
    """
    buffers, runs, cut = whole.buffers, whole.runs, tiled(group)
    passed, texts, said = _passed(whole, group, kept, found)
    made = frozenset([*(e.target for e in passed.equations), *passed.before]) - {e.target for e in group.equations}
    prefixes, chunks = alone(group.equations) if not cut else {}, passed.chunks
    group = replace(group, equations=passed.equations if chunks else early(passed.equations))
    indices = list(dict.fromkeys(i for e in group.equations for i in storage.indices_of(e)))
    grid = chunks.found.along if chunks else passed.grid or _grid(group, indices, kept) if cut else None
    folded = [i for i in indices if any(isinstance(e.body, Fold) and i in e.body.bound for e in group.equations)]
    order = _axis_order(group, indices, grid, folded, cut)
    inner = Definitions(group.equations, whole.equations)
    streamed = passed.index if passed.carries else None
    stored = _searchable(whole, group)
    work = Scanning(
        LoweringInput(inner, buffers, group.virtual | made, order, frozenset(e.target for e in group.equations), said),
        Passing(
            stream=passed.index,
            tile=Tile(streamed, grid, stored) if streamed is not None else None,
            carries={c.target: c for c in passed.carries},
            before=passed.before,
            resumed=chunks.found.over if chunks else None,
            uniform=len(_domains(group, passed.index, buffers)) < 2,
            base2=passed.base2,
            late=chunks is not None and chunks.late, tiled=grid is not None,
        ),
        prefixes=prefixes,
    )
    work.sets.update((i.name, i.set) for i in indices)
    for equation in group.equations:
        work.equation(equation, texts.get(equation.target, equation.target))
    work.resolved()
    whole.keys.extend(work.keys)
    # A result is written whole: where another one has no points along an axis of it, it has its own.
    written = [e for e in group.equations if e.target in kept and (grid is None or grid in e.indices)]
    whole_axes = {i for e in written for i in e.indices}
    bounds = {i.name: bound(group.equations, Tile(i, grid, stored), i != streamed) for i in folded
              if cut and i not in (grid, *whole_axes)}
    axes = _axes(work, order, passed, grid, {i.name: chunks.bound(i) for i in folded} if chunks else bounds)
    work.stores = [replace(s, merge=_merged(group, s, grid)) for s in work.stores if s.buffer in kept]
    wide, ranged = ({k for k, b in buffers.items() if b.element == kind} for kind in (WIDE, RANGED))
    lets = mark_roundable(live(work.lets, work.stores), work.stores, wide, ranged, whole.choices.narrow)
    visited = {(i.name, grid.name): points(agreed(group.equations, i, grid), i, grid) for i in folded
               if grid is not None and i != grid}
    visited = chunks.visited() if chunks else visited
    cost = lets_cost(lets, work.sets, buffers, [s.buffer for s in work.stores], held(lets, axes) if cut else number(0),
                     visited)
    cost = cost.put({run.count: run.onto.extent for run in runs.values()})
    notes = (*passed.notes, f"not stored: {', '.join(sorted(group.virtual))}") if group.virtual else ()
    return Kernel(group.equations[-1].target, axes, lets, tuple(work.stores), tuple(texts.values()),
                  (*notes, *left_whole(whole.program, group.equations)), cost, _largest(lets, work) if cut else ())


def _searchable(whole: _Whole, group: FusedGroup) -> dict[str, tuple[IndexSet, ...]]:
    """The stored whole numbers in which bounds of tiles may search for positions, with their sets.

    What is picked comes in the order of ranks, in which a search for positions finds nothing.
    """
    unsorted = {e.target for e in (*group.equations, *(x for x in whole.program.equations if picked(x)))}
    return {k: b.sets for k, b in whole.buffers.items() if b.element.kind == "integer" and k not in unsorted}


def _axes(work: Scanning, order: tuple[str, ...], passed: Streamed, grid: Index | None,
          bounds: Mapping[str, Bound | None]) -> tuple[Axis, ...]:
    """The axes of a kernel in their order, each with what it is for and how far it reaches in a tile."""
    role: dict[str, Role] = {} if grid is None else {grid.name: "grid"}
    role |= {passed.index.name: "stream"} if passed.index is not None and passed.carries else {}
    lengths = {passed.chunks.found.along.name: passed.chunks.length} if passed.chunks else {}
    return tuple(Axis(a, work.sets[a], role.get(a, "whole"), bounds.get(a), lengths.get(a)) for a in order
                 if a in work.sets)


def _merged(group: FusedGroup, store: Store, grid: Index | None) -> str:
    """The fold that merges what each tile stores: that of a result without the tiles' axis."""
    body = next(e.body for e in group.equations if e.target == store.buffer)
    apart = grid is not None and all(grid.name not in axes for axes in store.axes)
    return body.op if apart and isinstance(body, Fold) else ""


def _kept(program: NormalProgram, group: FusedGroup, made: list[FusedGroup]) -> frozenset[str]:
    """What other groups read: values that are not stored stand in each group that needs them."""
    outside = {r.tensor for g in made if g is not group for e in g.equations for r in e.elements}
    return frozenset(outside | {key for _, key in program.outputs}) - group.virtual


def _passed(whole: _Whole, group: FusedGroup, kept: frozenset[str],
            found: Streamed) -> tuple[Streamed, dict[str, str], dict[Read, str]]:
    """The equations of the pass as the kernel computes them, their texts, and those of reads at what is computed."""
    program, runs = whole.program, whole.runs
    passed = silent(found, {"nonpositive"})  # signs have been heard
    texts, said = _texts(program, silent(found))
    passed = exactly(passed) if passed.chunks else in_base_two(passed, group.virtual, kept)
    new = frozenset([*(e.target for e in passed.equations), *passed.before])
    mine = [r for run in runs.values() if (r := run.within(passed.equations)) is not None]
    return replace(passed, equations=paired(passed.equations, mine, (group.virtual | new) - kept)), texts, said


def _texts(program: NormalProgram, passed: Streamed) -> tuple[dict[str, str], dict[Read, str]]:
    """Each equation of a pass as the language writes it, and each read at what is computed of data."""
    tensors = dict(program.tensors)
    for equation in passed.equations:
        slots = tuple(slot_of(i) for i in equation.indices)
        if equation.target not in tensors or len(tensors[equation.target].slots) != len(equation.axes):
            tensors[equation.target] = Tensor(equation.target, equation.target, slots, "local")
    for name, target in passed.before.items():
        tensors[name] = replace(tensors[target], key=name, text=name)
    shown = program.but(equations=passed.equations, tensors=tensors, outputs=())
    found = {r for e in passed.equations for r in e.elements
             if any(isinstance(x, Read) for s in r.subs for x in walk(s))}
    return {e.target: equation_text(shown, e) for e in passed.equations}, {r: text(shown, r) for r in found}


def _grid(group: FusedGroup, indices: list[Index], stored: frozenset[str]) -> Index | None:
    """The open index that every stored result keeps and that is longest: its tiles bound what is held at once.

    Of equal ones it is the one that is first in the last result, so that its tiles are written in one piece.
    """
    kept = [e.indices for e in group.equations if e.target in stored]
    common = [i for i in (*kept[-1], *indices) if all(i in k for k in kept) and i.set.cls in DATA]
    times = [i for i in common if i.set.cls == "time"] or common
    return max(times, key=lambda i: nominal(i.set)) if times else None


def _axis_order(group: FusedGroup, indices: list[Index], grid: Index | None, folded: list[Index],
                cut: bool) -> tuple[str, ...]:
    """Batches and heads outside, then the tiled axis, what is folded, the features; alone, as the target has it."""
    if not cut:
        own = [i.name for i in group.equations[0].indices]
        return tuple(own + [i.name for i in indices if i.name not in own])

    def rank(index: Index) -> tuple[int, int]:
        if index == grid:
            return 1, 0
        if index in folded and index.set.cls in ("time", "vocab", "request"):
            return 2, indices.index(index)
        return (0 if index.set.cls in OUTER else 1 if index.set.cls == "time" else 3), indices.index(index) + 1

    return tuple(i.name for i in sorted(indices, key=rank))


def _domains(group: FusedGroup, index: Index | None, buffers: Mapping[str, Buffer]) -> set[Term]:
    """Where the folds that meet the points of a tile have theirs."""
    folds = [(e, e.body) for e in group.equations
             if isinstance(e.body, Fold) and (index is None or index in (*e.body.bound, *e.indices))]
    found = [(scattered(e, fold, lambda key: buffers[key].element.kind == "integer"), fold) for e, fold in folds
             if _placed(fold)]
    return {fold.domain if named is None else named.rest for named, fold in found}


def _placed(fold: Fold) -> bool:
    return any(b.set.cls in SEQUENCE for b in fold.bound)


def _largest(lets: tuple[Let, ...], work: Scanning) -> tuple[str, ...]:
    """The axes of the largest value, by nominal extents."""

    def size(axes: tuple[str, ...]) -> int:
        total = 1
        for axis in axes:
            total *= nominal(work.sets[axis])
        return total

    return max((let.axes for let in lets), key=size, default=())
