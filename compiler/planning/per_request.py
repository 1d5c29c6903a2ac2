"""Several requests: the plan of what is done for all of them at once, and of what is done
for each, as of programs of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from einc.ir.indices import IndexSet
from einc.ir.plan import Buffer, Generation, Module, PerRequest, Share, Step, summed
from einc.ir.programs import NormalProgram, Program, Tensor
from einc.planning.repeated import beside, trusting, whole, with_wide
from einc.transforms.slicing.requests import is_new, marked, stretches

Plan = Callable[[NormalProgram, tuple[Tensor, ...]], Module]


def apart(program: NormalProgram, asked: tuple[Tensor, ...], plan: Plan) -> Module:
    """The pieces in their order, each planned by itself."""
    program = with_wide(marked(program))
    steps, buffers, checked = list[Step](), dict[str, Buffer](), {t.key for t in asked}
    keys: list[tuple[str, IndexSet]] = []
    for each, piece in stretches(program):
        piece = beside(piece, program, buffers)
        made = plan(piece, piece.inputs())
        keys += made.keys
        made = trusting(made, {key for key, _ in made.keys} - checked)
        steps += [_each(program, made)] if each else made.steps
        stored = {key for _, key in made.outputs} | {t.key for t in made.inputs} if each else made.buffers.keys()
        buffers |= {k: v for k, v in made.buffers.items() if k in stored and k not in buffers}
    found = whole(program, asked, buffers, tuple(steps), tuple(dict.fromkeys(k for k in keys if k[0] in checked)))
    return replace(found, sizes=found.sizes - {*program.own[1:]})


def _each(program: Program, body: Module) -> PerRequest:
    """The `PerRequest` step that runs `body` once for each request.
    It says for each input and output which axis is cut into requests, and which sizes are each request's own."""

    def share(key: str) -> Share:
        tensor = program.tensors[key]
        places = [n for n, slot in enumerate(tensor.slots) if is_new(slot.set, program)]
        return "own" if tensor.each else places[0] if places else None

    past, dropped = (*program.own[1:], "")[:2]
    body = replace(body, generation=Generation(past, program.own[0], dropped))
    kinds: dict[str, Literal["new", "past",
                             "dropped"]] = dict(zip(program.own, ("new", "past", "dropped"), strict=False))
    own = tuple((name, kinds[name]) for name in sorted(body.sizes) if name in kinds)
    sizes = tuple((name, name) for name in sorted(body.sizes - kinds.keys()))
    given = tuple((t.key, share(t.key)) for t in body.inputs)
    made = tuple((key, share(key)) for _, key in body.outputs)
    return PerRequest(reads=tuple(key for key, _ in given), writes=tuple(key for key, _ in made), body=body,
                      given=given, made=made,
                      own=own, sizes=sizes, cost=summed(step.cost for step in body.steps))
