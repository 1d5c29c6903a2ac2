"""A program with rounds on a mesh -> the plan of what one rank does: of each piece its module, of rounds a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from einc.ir.choices import Choices
from einc.ir.indices import Extent
from einc.ir.plan import Buffer, Gradient, GradientLoop, Module, PerRank, Recurrence, SegmentedModule, StateScan, Step
from einc.ir.plan.gradients import group_of
from einc.ir.programs import IndexLoop, NormalProgram, Program, Tensor
from einc.ir.verify import verify
from einc.planning.placing.chains import Chain, Link, apart, linked
from einc.planning.placing.levels import Placed
from einc.planning.placing.modules import axes_of, buffer_of, cuts_of, derived, groups_of, in_bytes, module_of
from einc.planning.placing.routes import sizes_told
from einc.planning.placing.states import Axis, States
from einc.planning.planner import plan
from einc.planning.repeated import clamped, derived_loop, joined, loop
from einc.transforms.slicing.repeats import Round


def per_rank_rounds(normal: NormalProgram, mesh: tuple[Axis, ...], sizes: Mapping[str, int],
                    choices: Choices) -> PerRank:
    """The plan of one rank of a program with rounds. Raises Refused."""
    program, found = apart(normal, grad=False)
    chain, steps, checked = Chain(program, mesh, sizes, found), list[Step](), {t.key for t in program.inputs()}
    buffers, parts = dict[str, Buffer](), list[Module]()

    def place(piece: Program, one: Round | None) -> Link:
        """Plans a piece, and adds its steps."""
        placed = chain.place(NormalProgram.of(piece), one)
        made = module_of(placed, choices, {} if one else buffers, frozenset(program.tensors))
        made = replace(made, steps=tuple(clamped(step, {key for key, _ in made.keys} - checked) for step in made.steps))
        parts.append(made)
        if one is None:
            steps.extend(made.steps)
            buffers.update({key: b for key, b in made.buffers.items() if key not in buffers})
        else:
            kept = program.kept[one.repeat]
            steps.append(loop(one, made, kept))
            buffers.update(_shown(chain, (*(key for key, _, _ in one.repeat.states), *kept)))
        return Link(placed, None, one)

    def recur(loop: IndexLoop) -> None:
        """Adds the step of a recurrence."""
        steps.append(chain.recur(loop).step(program))
        buffers.update(_shown(chain, steps[-1].writes))

    links = [x for x in linked(program, place, recur=recur, found=found) if x is not None]
    keys = plan(normal, normal.inputs(), choices).keys
    asked = tuple(chain.local(t) for t in program.inputs())
    made = replace(_whole(chain, links, asked, buffers, parts), steps=tuple(steps), keys=keys)
    return _per_rank(made, chain, links)


def per_rank_rounds_gradient(program: Program, mesh: tuple[Axis, ...], sizes: Mapping[str, int], choices: Choices,
                             wanted: Mapping[str, States] = MappingProxyType({})) -> PerRank:
    """What each rank runs for a program with loops and for its gradient: pieces with gradients, one after the other.
    What is `wanted` lies so where it is made. Raises Refused."""
    program, found = apart(program, grad=True)
    chain = Chain(program, mesh, sizes, found, wanted=dict(wanted))
    asked = tuple(chain.local(t) for t in program.inputs())
    pieces, buffers = list[Gradient | GradientLoop | Recurrence | StateScan](), dict[str, Buffer]()

    def place(piece: Program, one: Round | None) -> Link:
        """Plans both halves of a piece."""
        body, first, second = derived(piece, mesh, sizes, choices, lambda normal, _: chain.place(normal, one))
        body = joined(body, asked)
        kept = () if one is None else program.kept[one.repeat]
        pieces.append(body if one is None else derived_loop(one, body, kept))
        made = (key for _, key in body.shown) if one is None else (*(key for key, _, _ in one.repeat.states), *kept)
        buffers.update(_shown(chain, made))
        return Link(first, second, one)

    def recur(loop: IndexLoop) -> None:
        """Adds the step of a recurrence, which torch differentiates."""
        pieces.append(step := chain.recur(loop).step(program))
        buffers.update(_shown(chain, step.writes))

    links = [x for x in linked(program, place, True, recur, found) if x is not None]
    halves = [half for one in pieces if isinstance(one, Gradient | GradientLoop)
              for half in (_gradient(one).forward, _gradient(one).backward)]
    whole = _whole(chain, links, asked, buffers, halves)
    return _per_rank(SegmentedModule(whole, tuple(pieces)), chain, links)


def _gradient(piece: Gradient | GradientLoop) -> Gradient:
    """The two halves of a piece; loops in rounds are refused before."""
    body = piece.body if isinstance(piece, GradientLoop) else piece
    assert isinstance(body, Gradient)
    return body


def _shown(chain: Chain, keys: Iterable[str]) -> dict[str, Buffer]:
    """The buffers of what a rank has of some tensors of the whole."""
    return {key: buffer_of(chain.local(chain.program.tensors[key])) for key in keys}


def _groups(links: Iterable[Link]) -> tuple[tuple[str, ...], ...]:
    """The sets of axes over which something is sent."""
    return tuple(dict.fromkeys(group for half in _halves(links) for group in groups_of(half)))


def _halves(links: Iterable[Link]) -> Iterator[Placed]:
    """The programs of all pieces, each with that of its gradient."""
    return (half for link in links for half in (link.forward, link.backward) if half is not None)


def _whole(chain: Chain, links: Iterable[Link], asked: tuple[Tensor, ...], buffers: Mapping[str, Buffer],
           parts: Iterable[Module]) -> Module:
    """The module around the pieces, without their steps. Its sizes are those of its inputs and of what they name."""
    program, known = chain.program, {t.key: buffer_of(t) for t in asked}
    known |= {key: b for key, b in buffers.items() if key not in known}
    for _, key in program.outputs:
        known[key] = replace(known[key], role="output")
    extents: list[Extent] = [*(s.set.extent for t in asked for s in t.slots),
                             *(repeat.index.set.extent for repeat in program.repeats)]
    sizes = {name for extent in extents for name in extent.sizes} | {name for part in parts for name in part.sizes}
    sizes |= {axis.place for axis in chain.mesh if not axis.around} | {group_of(axes) for axes in _groups(links)}
    sizes -= frozenset[str]().union(*map(sizes_told, _halves(links)))
    sets = dict.fromkeys([*(s.set for t in asked for s in t.slots), *(s for part in parts for s in part.sets),
                          *(repeat.index.set for repeat in program.repeats),
                          *(one for t in asked for one in in_bytes(t, chain.states[t.key]))])
    return Module(program.name, program.source or program.name, asked, program.outputs, known, (), dict(program.sizes),
                  frozenset(sizes - program.sizes.keys()), tuple(sets), ())


def _per_rank(body: Module | SegmentedModule, chain: Chain, links: Iterable[Link]) -> PerRank:
    """The plan with how its inputs and outputs lie."""
    cuts = tuple(cuts_of(chain.whole, chain.program.outputs))
    whole = PerRank(body, axes_of(chain.mesh), cuts, _groups(links))
    verify(whole)
    return whole
