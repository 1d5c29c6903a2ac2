"""What an emitted file does where its rounds are stages: makes this rank's stage, loads what it has of whole weights,
and hands it to the schedules of torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.microbatch import TensorChunkSpec


def _stage(kinds: Sequence[Any], mesh: DeviceMesh, axis: str, rounds: tuple[str, str], before: str,
           sizes: Mapping[str, Any], made: Mapping[str, Any]) -> Any:
    """This rank's stage, a class of weights of the first, the last or another kind. What is drawn differs on stages."""
    whole, own = rounds
    place, ranks = mesh.get_local_rank(axis), mesh.size(mesh.mesh_dim_names.index(axis))  # type: ignore[union-attr]
    asked = {name for kind in kinds for name in inspect.signature(kind).parameters} - {own, before, *made, "mesh"}
    if unknown := sorted(sizes.keys() - asked - {whole}):
        raise TypeError(f"no stage has `{unknown[0]}`: the sizes are {', '.join(sorted(asked | {whole}))}")
    if missing := sorted((asked | {whole}) - sizes.keys()):
        raise TypeError(f"`{missing[0]}` is missing: the sizes are {', '.join(sorted(asked | {whole}))}")
    if sizes[whole] % ranks:
        raise ValueError(f"{whole} = {sizes[whole]} is no multiple of {axis} = {ranks}, so stages have no equal parts")
    each = sizes[whole] // ranks
    kind = kinds[0] if place == 0 else kinds[-1] if place == ranks - 1 else kinds[1]
    known = {**sizes, own: each, before: place * each, **made, "mesh": mesh}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch.initial_seed() + place)
        found = kind(**{name: known[name] for name in inspect.signature(kind).parameters if name in known})
    found._place = place, ranks
    return found


def _of_stage(names: Sequence[str], layers: Mapping[str, int], module: Any, state: dict[str, Any], prefix: str,
              *others: Any) -> None:
    """Puts into a state that is loaded the stage's own layers in place of those of all, and leaves out the weights of
    other stages.
    """
    place, ranks = module._place
    mine = dict((*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)))
    for name in names:
        given, at = state.get(prefix + name), layers.get(name)
        if name not in mine:
            state.pop(prefix + name, None)
        elif given is not None and at is not None and given.shape[at] == ranks * mine[name].shape[at]:
            state[prefix + name] = given.chunk(ranks, at)[place]


def _schedule(kind: Callable[..., Any], made: Any, loss_fn: Callable[..., Any] | None, mesh: DeviceMesh, axis: str,
              parts: int, along: Mapping[str, int], joined: Sequence[int]) -> Any:
    """A schedule of torch for this rank's stage, which takes the inputs by their names."""
    place, ranks = made._place
    device = next(made.parameters()).device
    stage = PipelineStage(made, place, ranks, device, group=mesh.get_group(axis))
    cut = {name: TensorChunkSpec(at) for name, at in along.items()}
    results = tuple(TensorChunkSpec(at) for at in joined)
    return kind(stage, n_microbatches=parts, loss_fn=loss_fn, kwargs_chunk_spec=cut,
                output_merge_spec=results if len(results) > 1 else results[0])
