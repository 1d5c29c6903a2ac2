"""One rank of a team: it runs emitted files on the tensors that it is told of, and needs torch and numpy alone.

A job is a line of JSON on standard input, and so is the answer on standard output. After an error there is no more,
unless the job is `early`: what it is about comes before anything is sent, so that the ranks are still together.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from rank_training import shared, staged, trained
from torch._dynamo.backends.common import aot_autograd
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

HANG = timedelta(seconds=120)  # only what waits for a rank that never comes takes as long


def main(rank: int, ranks: int, meeting: str) -> None:
    """Joins the others and works until there are no more jobs."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=HANG)
    meshes: dict[str, DeviceMesh] = {}
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = run(job, rank, meshes)
        except BaseException as error:  # the answer says it, and this rank is gone; torch's checkpoints raise such
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
            if job.get("early"):
                continue
            sys.stdin.read()  # until whoever asked ends the team, for others may still listen
            os._exit(1)
        print(json.dumps(answer), flush=True)


def run(job: dict[str, Any], rank: int, meshes: dict[str, DeviceMesh]) -> dict[str, Any]:
    """One job: the collectives by kind, forward and for the gradient; rank 0 writes the results."""
    module = loaded(job["file"])
    given = {key: torch.from_numpy(array) for key, array in np.load(job["data"]).items()}
    own = {key: torch.from_numpy(np.load(job["own"][rank])[key]) for key in job.get("differs", ())}
    if job.get("stages"):
        return written(job, staged(job, module, given), rank)
    if job.get("shared"):
        return written(job, shared(job, module, given), rank)
    if str(module.MESH) not in meshes:
        meshes[str(module.MESH)] = init_device_mesh("cpu", tuple(module.MESH.values()),
                                                    mesh_dim_names=tuple(module.MESH))
    mesh, where = meshes[str(module.MESH)], module.PLACEMENTS
    if "steps" in job:
        return written(job, trained(job, module, given, mesh), rank)
    names = [key for key in given if not key.startswith("d/")]
    inputs = {key: placed(given[key], mesh, where[key], job["plain"]) for key in names} | own
    for key, x in inputs.items():
        x.requires_grad_(job["grad"] and x.is_floating_point() and key in job.get("some", [key]))
    call = getattr(module, job["entry"])
    asked = inspect.signature(call).parameters.keys() - inputs.keys() - {"mesh"}
    extra = {name: job["sizes"][name.removesuffix("_size")] for name in asked}
    extra |= {"mesh": mesh} if job["plain"] else {}
    graphs = [Counter[str](), Counter[str]()]  # of each half
    if job["traced"]:
        torch.compiler.reset()
        call = torch.compile(call, backend=aot_autograd(fw_compiler=partial(graphed, graphs[0]),
                                                        bw_compiler=partial(graphed, graphs[1]),
                                                        partition_fn=min_cut_rematerialization_partition),
                             fullgraph=True)
    call(**inputs, **extra)  # the first call compares what the ranks are given
    count = nullcontext if job["traced"] else CommDebugMode  # torch compiles nothing under a mode
    with count() as forward:
        made = call(**inputs, **extra)
    made = dict(zip(job["outputs"], made if isinstance(made, tuple) else (made,), strict=True))
    found = {key: whole(x, mesh, where[key]) for key, x in made.items()}
    counts = [] if job["traced"] else [told(forward)]
    if job["grad"]:
        real = [key for key, x in made.items() if x.is_floating_point()]
        asked = [key for key, x in inputs.items() if x.requires_grad]
        cotangents = [placed(given[f"d/{key}"], mesh, where[key], job["plain"]) for key in real]
        with count() as backward:
            slopes = torch.autograd.grad([made[key] for key in real], [inputs[key] for key in asked], cotangents,
                                         allow_unused=True)
        found |= {f"d/{key}": whole(x, mesh, where[key]) for key, x in zip(asked, slopes, strict=True) if x is not None}
        counts += [] if job["traced"] else [told(backward)]
    return written(job, found, rank, graphs if job["traced"] else counts)


def written(job: dict[str, Any], found: Mapping[str, torch.Tensor], rank: int, counts: Any = ()) -> dict[str, Any]:
    """The answer to a job whose results rank 0 writes."""
    if rank == 0:
        np.savez(job["out"], **{key: x.detach().numpy() for key, x in found.items()})
    dist.barrier()
    return {"counts": [*counts]}


def graphed(found: Counter[str], graph: torch.fx.GraphModule, examples: Any) -> Any:
    """Counts what is called in a graph of `torch.compile`, operators of einc as levels, and runs it as it is."""
    graph.graph.eliminate_dead_code()  # torch leaves calls in it whose results nobody reads
    called = [str(node.target).removesuffix(".default") for node in graph.graph.nodes if node.op == "call_function"]
    found.update("level" if name.startswith("einc.") else name.removeprefix("_c10d_functional.")
                 for name in called if name.startswith(("einc.", "_c10d_functional.")))
    return make_boxed_func(graph.forward)


def loaded(path: str) -> Any:
    """An emitted file as a module of its own."""
    spec = importlib.util.spec_from_file_location("emitted", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def placed(x: torch.Tensor, mesh: DeviceMesh, placements: Any, plain: bool) -> torch.Tensor:
    """A tensor that every rank has whole, as a DTensor or as what this rank has of it."""
    spread = distribute_tensor(x.clone(), mesh, placements, src_data_rank=None)
    return spread.to_local().clone() if plain else spread


def whole(x: torch.Tensor, mesh: DeviceMesh, placements: Any) -> torch.Tensor:
    """What the ranks have, put together."""
    spread = x.detach() if isinstance(x, DTensor) else DTensor.from_local(x.detach(), mesh, placements)
    assert isinstance(spread, DTensor)
    return spread.full_tensor()


def told(mode: CommDebugMode) -> Mapping[str, int]:
    """The collectives by their names."""
    return {str(op).rpartition("c10d_functional.")[2].rstrip("')>"): n for op, n in mode.get_comm_counts().items()}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
