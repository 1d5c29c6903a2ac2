"""What an emitted file does where it is called on a mesh of ranks: finds the mesh, compares what the ranks were given,
takes the rank's part of each input, and says of results how they lie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor  # noqa: F401 - the table of a file names it
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: F401 - the table of a file names it

from einc.backends.host.runtime.moves import _c10d

_MESHES: dict[object, DeviceMesh] = {}  # of all ranks, by their group and kind of device
_AGREED: set[object] = set()  # the meshes whose ranks were found to be given the same


def _mesh(axes: dict[str, int], mesh: DeviceMesh | None, given: dict[str, Any]) -> DeviceMesh:
    """The mesh: what the caller gives, that of a DTensor among the inputs, or one of all ranks that run. Raises
    ValueError where it has other axes than the file is for."""
    found = next((x.device_mesh for x in given.values() if isinstance(x, DTensor)), None)
    mesh = found if mesh is None else mesh
    said = ", ".join(f"{name} = {ranks}" for name, ranks in axes.items())
    if mesh is None:
        return _of_all(axes, said, next((x.device.type for x in given.values() if isinstance(x, torch.Tensor)), "cpu"))
    names = mesh.mesh_dim_names or ()
    if not set(axes) <= set(names):
        raise ValueError(f"this file is for a mesh with {said}, and the mesh has the axes {', '.join(names) or 'none'}")
    mesh = mesh if names == tuple(axes) else mesh[tuple(axes)]
    if tuple(mesh.shape) != tuple(axes.values()):
        other = ",".join(f"{name}={ranks}" for name, ranks in zip(axes, mesh.shape))
        raise ValueError(f"this file is for a mesh with {said}: compile one for another mesh with --mesh {other}")
    return mesh


def _of_all(axes: dict[str, int], said: str, kind: str) -> DeviceMesh:
    """The mesh of all ranks of the process group, made once. Says how to start where there is none. Raises
    RuntimeError there, and ValueError where other processes run than the file is for."""
    count = 1
    for ranks in axes.values():
        count *= ranks
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(f"this function is for {count} processes, {said}, and none were started: run your program "
                           f"with `torchrun --nproc-per-node {count} PROGRAM.py`, and call "
                           f"torch.distributed.init_process_group() in it first")
    if dist.get_world_size() != count:
        raise ValueError(f"{dist.get_world_size()} processes run, and this file is for {count}, {said}: start "
                         f"`torchrun --nproc-per-node {count}`, or give the mesh, `mesh=`")
    key = dist.group.WORLD, kind, tuple(axes.items())
    if key not in _MESHES:
        _MESHES[key] = init_device_mesh(kind, tuple(axes.values()), mesh_dim_names=tuple(axes))
    return _MESHES[key]


def _ranks_of(mesh: DeviceMesh, *axes: str) -> str:
    """The name of the group of the ranks that differ from this one on some axes alone."""
    if len(axes) == 1:
        return str(mesh.get_group(axes[0]).group_name)
    some = mesh if axes == mesh.mesh_dim_names else mesh[axes]
    return str(some._flatten().get_group().group_name)


def _place(mesh: DeviceMesh, axis: str) -> int:
    """The place of this rank on an axis, from 1."""
    return int(mesh.get_local_rank(axis)) + 1


def _held(name: str, x: Any, mesh: DeviceMesh, placements: tuple[Placement, ...] | None,
          parts: tuple[tuple[int, int], ...] = ()) -> Any:
    """What this rank has of an input: a DTensor's part, once it lies as the table says; a plain tensor is it already.
    `parts` are the axes of the tensor that are cut, each with the number of its parts. Raises TypeError or ValueError
    for a DTensor that cannot lie so."""
    if not isinstance(x, DTensor):
        return x
    if placements is None:
        raise TypeError(f"{name} is cut within one of its axes in a way that no placement of a DTensor says: "
                        f"give each rank its own part, as a plain tensor")
    lies = x.device_mesh
    if lies is not mesh and lies != mesh:
        raise ValueError(f"{name} lies on {lies}, and this call is for {mesh}")
    for axis, count in parts:
        if axis < x.ndim and x.shape[axis] % count:
            over = " * ".join(axis_of_mesh for axis_of_mesh, placed in zip(mesh.mesh_dim_names or (), placements)
                              if getattr(placed, "dim", None) == axis)
            raise ValueError(f"{name} has {x.shape[axis]} elements along its axis {axis}, "
                             f"no multiple of {over} = {count}")
    if x.placements != placements:
        x = x.redistribute(placements=placements)
    return x.to_local(grad_placements=placements)


def _as_dtensor(x: torch.Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> DTensor:
    """What the ranks have of a result, as one DTensor."""
    return DTensor.from_local(x, mesh, placements, run_check=False)


def _parted(module: Any, state: dict[str, Any], prefix: str, *others: Any) -> None:
    """Puts into a state that is loaded the rank's parts in place of weights that come whole."""
    for name, mine in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        given = state.get(prefix + name)
        if not isinstance(mine, DTensor) or not isinstance(given, torch.Tensor) or isinstance(given, DTensor):
            continue
        if given.shape in (mine.shape, module._flat.get(name)):  # else torch says what differs
            state[prefix + name] = distribute_tensor(given.to(mine.device).reshape(mine.shape), mine.device_mesh,
                                                     mine.placements, src_data_rank=None)


def _agree(mesh: DeviceMesh, file: str, given: dict[str, Any]) -> None:
    """Compares once, at the first call on a mesh, what the ranks were given: each says the same, and each is told.
    Raises ValueError on each where they differ."""
    key = mesh, file
    if key in _AGREED or torch.compiler.is_compiling() or dist.get_backend(mesh.get_group(0)) == "fake":
        return
    lines = [f"the file is {file}", f"the mesh is {mesh.mesh_dim_names} {tuple(mesh.shape)}"]
    lines += [f"{name} is {_given(x)}" for name, x in given.items()]
    text = "\n".join(lines).encode()
    mark = int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)
    marks = _from_all(torch.tensor([mark, len(text)]), mesh)
    if len(set(marks[:, 0].tolist())) > 1:
        most = int(marks[:, 1].max())
        told = _from_all(torch.tensor([*text, *[32] * (most - len(text))]), mesh).tolist()
        with suppress(RuntimeError):  # a rank that has left here has seen that all were told
            _from_all(torch.zeros(1), mesh)
        raise ValueError(_differences([bytes(row).decode().rstrip().split("\n") for row in told]))
    _AGREED.add(key)


def _from_all(x: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """A row of each rank of a mesh, in their order."""
    rows = x.to(mesh.device_type)[None]
    for axis in reversed(range(mesh.ndim)):
        group = mesh.get_group(axis).group_name
        rows = _c10d("all_gather_into_tensor", rows, mesh.size(axis), group)
    return rows.cpu()


def _given(x: Any) -> str:
    """A description of an input that has to be the same on all ranks: shape, type, device and placements."""
    if not isinstance(x, torch.Tensor):
        return repr(x)
    lies = f", {x.placements}" if isinstance(x, DTensor) else ""
    return f"{tuple(x.shape)} of {x.dtype} on {x.device.type}{lies}{', with a gradient' * x.requires_grad}"


def _differences(rows: list[list[str]]) -> str:
    """What the ranks say differently, with the ranks that say it."""
    out = []
    for some in zip(*rows):
        said: dict[str, list[int]] = {}
        for rank, line in enumerate(some):
            said.setdefault(line, []).append(rank)
        if len(said) > 1:
            out.append("; ".join(f"on rank {', '.join(map(str, ranks))} {line}" for line, ranks in said.items()))
    return "the ranks of the mesh were given different things: " + " | ".join(out[:3])


def _function(forward: Callable[..., Any], save: Callable[..., None], derive: Callable[..., Any]) -> Any:
    """A function of torch with a gradient that is computed by another one: nothing differentiates a collective."""
    made: Any = type("Derived", (torch.autograd.Function,), {
        "forward": staticmethod(forward), "setup_context": staticmethod(save),
        "backward": staticmethod(once_differentiable(derive))})
    return made.apply
