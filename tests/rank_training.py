"""A class of weights of an emitted file on one rank of a team: loaded whole, trained, saved and loaded again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def trained(job: dict[str, Any], module: Any, given: Mapping[str, torch.Tensor],
            mesh: DeviceMesh) -> dict[str, torch.Tensor]:
    """The weights after some steps, and the result that they give then, put together; what a checkpoint gives back is
    compared here.
    """
    one = next(x for x in vars(module).values() if isinstance(x, type) and issubclass(x, torch.nn.Module))
    made = fresh(one, job["sizes"], mesh)
    weights = {key: x for key, x in given.items() if key in made.state_dict()}
    made.load_state_dict(weights)
    inputs = {key: distribute_tensor(x, mesh, module.PLACEMENTS[key], src_data_rank=None)
              for key, x in given.items() if key not in weights}
    steps(made, inputs, job["optimizer"], job["steps"])
    out = {f"w/{key}": whole(x) for key, x in made.state_dict().items()} | {"out": whole(first(made(**inputs)))}
    dcp.save(made.state_dict(), storage_writer=HuggingFaceStorageWriter(job["folder"], save_distributed=True))
    dist.barrier()
    other = fresh(one, job["sizes"], mesh)
    state = other.state_dict()
    dcp.load(state, storage_reader=HuggingFaceStorageReader(job["folder"]))
    other.load_state_dict(state)
    for key, x in made.state_dict().items():
        assert isinstance(x, DTensor)
        assert x.placements == state[key].placements and torch.equal(x.to_local(), state[key].to_local()), key
    plain = {key: x.to_local() for key, x in inputs.items()}
    assert torch.equal(first(other(**plain)), first(made(**inputs)).to_local())  # a rank may give what it has
    return out


def shared(job: dict[str, Any], module: Any, given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights after some steps of ranks in rows and columns: the file's mesh is a row, and down each column torch
    keeps gradients and the optimizer's state in parts, each rank with texts of its own.
    """
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("texts", *module.MESH))
    one = next(x for x in vars(module).values() if isinstance(x, type) and issubclass(x, torch.nn.Module))
    made = fresh(one, job["sizes"], mesh)
    made.load_state_dict({key: x for key, x in given.items() if key in made.state_dict()})
    fully_shard(made, mesh=mesh["texts"], reshard_after_forward=False)
    mine = {key: x.chunk(2)[mesh.get_local_rank("texts")] for key, x in given.items() if key not in made.state_dict()}
    steps(made, mine, job["optimizer"], job["steps"])
    return {f"w/{key}": whole(x) for key, x in made.state_dict().items()}


def fresh(one: Any, sizes: Mapping[str, int], mesh: DeviceMesh | None = None) -> Any:
    """A class of weights, made anew in float64."""
    asked = inspect.signature(one).parameters
    extra = {} if mesh is None else {"mesh": mesh}
    return one(**{key: n for key, n in sizes.items() if key in asked}, dtype=torch.float64, **extra)


def steps(made: torch.nn.Module, inputs: Mapping[str, torch.Tensor], optimizer: str, count: int) -> None:
    """Trains a module for so many steps by an optimizer of torch."""
    trainer = getattr(torch.optim, optimizer)(made.parameters(), lr=1e-3)
    for _ in range(count):
        trainer.zero_grad()
        first(made(**inputs)).square().mean().backward()
        trainer.step()


def first(made: Any) -> Any:
    """The first of several results."""
    return made[0] if isinstance(made, tuple) else made


def whole(x: torch.Tensor) -> torch.Tensor:
    """What the ranks have, put together."""
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone()


def staged(job: dict[str, Any], module: Any, given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the stages of a file make of texts, the loss of a target `y`, and gradients and weights, put together from
    the ranks of all stages.
    """
    mesh = init_device_mesh("cpu", tuple(module.MESH.values()), mesh_dim_names=tuple(module.MESH))
    own = job["own"][dist.get_rank()] if "own" in job else {}
    made = module.stage(mesh, **{**job["sizes"], **own}, dtype=torch.float64)
    state = {name: x for name, x in given.items() if name in module.WEIGHTS}
    made.load_state_dict(dict(state))
    losses: list[torch.Tensor] = []
    steps_ = module.schedule(made, lambda o, y: (o - y).square().mean(), mesh)
    inputs = {name: x for name, x in given.items() if name not in state and name != "y"}
    trainer = torch.optim.AdamW(made.parameters(), lr=1e-3)
    mine: dict[str, torch.Tensor] = {}
    for step in range(max(job["steps"], 1)):
        trainer.zero_grad()
        losses.clear()
        out = steps_.step(**inputs, target=given["y"], losses=losses)
        if not step:
            mine |= {f"d/{name}": whole(x.grad) for name, x in made.named_parameters() if x.grad is not None}
            mine |= {} if out is None else {"out": out.detach(), "loss": torch.stack(losses).mean().detach()}
        if job["steps"]:
            trainer.step()
    mine |= {f"w/{name}": whole(x) for name, x in made.state_dict().items()}
    return together(mine, module, mesh)


def together(mine: Mapping[str, torch.Tensor], module: Any, mesh: DeviceMesh) -> dict[str, torch.Tensor]:
    """What stages have, put together: layers one after the other, in the order of the stages."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, dict(mine))
    first = [every[int(rank)] for rank in mesh.mesh.reshape(mesh.size(0), -1)[:, 0]]
    out: dict[str, torch.Tensor] = {}
    for key in dict.fromkeys(key for one in first for key in one):
        parts = [one[key] for one in first if key in one]
        at = module.LAYERS.get(key.partition("/")[2])
        out[key] = parts[0] if at is None else torch.cat(parts, at)
    return out
