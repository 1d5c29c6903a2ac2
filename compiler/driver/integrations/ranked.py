"""A model that serves on a mesh of devices, as an engine sees it: each process holds its part of every weight and of
what is kept of each text, and all make the same tokens.

Non-goals: how the processes are started, and what is shared out among them by pages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from inspect import unwrap
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from einc.driver import back_ends, placing
from einc.driver.commands.sizes import asked, extent
from einc.driver.compiling import choices
from einc.driver.decoding.vocabulary import roles
from einc.driver.narrowing import narrowed
from einc.driver.options import Options
from einc.errors.report import EincError, Help, Problem, failure
from einc.ir import requested
from einc.ir.programs import Tensor, TypedProgram
from einc.transforms.serving.handed import Handed, Rows

Array = torch.Tensor
_ROOM = 64  # positions that there is room for at first


@dataclass(frozen=True)
class Turn:
    """Of positions that go to so many `ranks` in turn this process holds those of one, the `first` from 0, or all."""

    ranks: int = 1
    every: bool = True
    first: int = 0

    def held(self, length: int) -> int:
        """How many of the first positions are held."""
        return length if self.every else -((self.first - length) // self.ranks)


@dataclass
class Kept:
    """This process's part of the rows of one tensor, of which there are `length`, with room for more. What is dealt out
    in turn has an axis more, of the ranks.
    """

    room: Array
    slot: int
    length: int = 0
    turn: Turn = Turn()

    @property
    def rows(self) -> Array:
        """The rows that there are, of each rank as many."""
        if self.turn.ranks == 1:
            return self.room.narrow(self.slot, 0, self.length)
        rows, beside = -(-self.length // self.turn.ranks), self.turn.ranks if self.turn.every else 1
        shape = self.room.shape
        held = self.room.narrow(self.slot, 0, rows * beside)
        return held.reshape(*shape[:self.slot], rows, beside, *shape[self.slot + 1:])

    def add(self, rows: Array) -> None:
        """Adds at the end those rows that are held here."""
        count, turn = rows.shape[self.slot], self.turn
        if not turn.every:
            mine = range((turn.first - self.length) % turn.ranks, count, turn.ranks)
            rows = rows.index_select(self.slot, torch.tensor([*mine], dtype=torch.long, device=rows.device))
        begun, need = (turn.held(n) for n in (self.length, self.length + count))
        if need + turn.ranks - 1 > self.room.shape[self.slot]:  # other ranks may have a row more
            shape = list(self.room.shape)
            shape[self.slot] = max(need + turn.ranks - 1, 2 * shape[self.slot], _ROOM)
            larger = self.room.new_zeros(shape)
            larger.narrow(self.slot, 0, begun).copy_(self.room.narrow(self.slot, 0, begun))
            self.room = larger
        self.room.narrow(self.slot, begun, need - begun).copy_(rows)
        self.length += count

    def fork(self, count: int) -> Kept:
        """A copy of the first rows that this rank has of so many positions; what is written into it is not seen here.
        """
        most = self.turn.held(count) + self.turn.ranks - 1
        return Kept(self.room.narrow(self.slot, 0, most).clone(), self.slot, count, self.turn)


@dataclass
class Cache:
    """What is kept of one text, by the name of each input that is the past of it; `length` positions."""

    kept: dict[str, Kept]
    length: int = 0
    dropped: int = 0
    states: Collection[str] = field(default=())

    def fork(self, count: int) -> Cache:
        """A copy of the cache for its first positions; what is written into it is not seen here."""
        return Cache({key: one.fork(count) for key, one in self.kept.items()}, count)


class Ranked:
    """A step on a mesh as a compiled spec that serves: `cache` makes an empty cache, a call adds new tokens to some.

    `given` are whole weights and the sizes that no tensor tells; each process takes its part of these.
    """

    def __init__(self, program: TypedProgram, step: Handed, function: Any, mesh: DeviceMesh, given: Mapping[str, Any],
                 known: Mapping[str, int]) -> None:
        """Raises EincError where a weight lies in a way that torch has no word for."""
        self.program, self.step, self.function, self.mesh = program, step, function, mesh
        self.placements, self.ids = unwrap(function).__globals__["PLACEMENTS"], roles(program).ids
        self.prefill = function  # that it serves
        self.given: dict[str, Any] = {}
        for key, x in given.items():
            if hasattr(x, "ndim"):
                self.given[key] = distribute_tensor(x, mesh, self.placed(key))
            elif key in asked(step.program):
                self.given[key] = x
        self.like = next(x for x in given.values() if hasattr(x, "ndim") and x.is_floating_point())
        self.known = {**known, step.past: 0}

    def placed(self, key: str) -> Any:
        """How a tensor lies on the mesh. Raises EincError where no placement says it."""
        found = self.placements[key]
        if found is None:
            raise EincError([Problem(f"`{key}` is cut inside of one of its axes, in a way that depends on its sizes: a "
                                     "weight that is whole cannot be given so", helps=(
                Help("cut another letter, or give the parts of that axis letters of their own"),))])
        return found

    def cache(self, *, pool: object = None) -> Cache:
        """A cache without positions, for a text that begins; `pool` is there for engines, and is not used."""
        return Cache({one.past: Kept(self.like.new_empty(self.shape(one)), one.slot, 0, self.turn(one))
                      for one in self.step.rows})

    def shape(self, one: Rows) -> tuple[int, ...]:
        """The shape of this process's part of rows, of which there are none."""
        out = [extent(slot.set.extent, self.known) for slot in self.tensor(one).slots]
        for placed, ranks in zip(self.placed(one.past), self.mesh.shape, strict=True):
            if hasattr(placed, "dim"):
                out[placed.dim] //= ranks
        return (*out[:one.slot + 1], *out[one.slot + 1 + (self.step.ranks > 1):])

    def turn(self, one: Rows) -> Turn:
        """Which positions of rows this process holds."""
        cut = [n for n, placed in enumerate(self.placed(one.past)) if getattr(placed, "dim", -1) == one.slot + 1]
        if self.step.ranks == 1 or not cut:
            return Turn(self.step.ranks)
        return Turn(self.step.ranks, False, self.mesh.get_local_rank(cut[0]))

    def tensor(self, one: Rows) -> Tensor:
        """The tensor of the step's program whose rows are cached."""
        return self.step.program.tensors[one.past]

    def __call__(self, caches: Sequence[Cache], *, lengths: Sequence[int], latest: bool = True, **given: Any) -> Any:
        """The logits after the new tokens of each text, which stand one after another."""
        made = [self.one(cache, ids) for cache, ids in zip(caches, given[self.ids].split(list(lengths), -1),
                                                           strict=True)]
        return torch.cat(made, -2)

    def one(self, cache: Cache, ids: Array) -> Array:
        """The logits after the last new token of one text. Adds the rows of the new tokens to the cache."""
        past = {one.past: DTensor.from_local(cache.kept[one.past].rows, self.mesh, self.placed(one.past),
                                             run_check=False) for one in self.step.rows}
        count = {self.step.past: cache.length} if self.step.ranks > 1 else {}
        words = DTensor.from_local(ids, self.mesh, self.placed(self.ids), run_check=False)
        with torch.no_grad():
            made = self.function(**{self.ids: words}, **past, **count, **self.given)
        names = [name for name, _ in self.step.program.outputs]
        by = dict(zip(names, made if len(names) > 1 else [made], strict=True))
        for one in self.step.rows:
            cache.kept[one.past].add(by[one.made].to_local())
        cache.length += ids.shape[-1]
        logits: Array = by[roles(self.program).logits].full_tensor()
        return logits[..., -1:, :]

    def line(self) -> str:
        """A line that says how many bytes this process caches for each position."""
        at = {**self.known, self.step.past: self.step.ranks}
        total = 0
        for one in self.step.rows:
            parts = math.prod(extent(s.set.extent, at) for s in self.tensor(one).slots)
            for placed, ranks in zip(self.placed(one.past), self.mesh.shape, strict=True):
                parts //= ranks if hasattr(placed, "dim") else 1
            total += parts * self.tensor(one).element.size(self.like.element_size())
        listed = ", ".join(one.past.removesuffix("_past") for one in self.step.rows)
        return f"cache    {total / self.step.ranks:,.10g} bytes a position on each device: {listed}"


def ranked(program: TypedProgram, options: Options, ranks: Mapping[str, int], given: Mapping[str, Any],
           known: Mapping[str, int], wanted: requested.PlanBlock, pages: int | None = None) -> Ranked:
    """The model on the mesh, in each of the processes that torchrun has started. EincError where these are none, or
    too many, where the mesh or the step cannot be had, and where `pages` are asked for.
    """
    if pages is not None:
        raise failure("--pages is for one device", "leave it out: on several each text has a room of its own")
    program, wanted = narrowed(program, wanted)
    keep = options.keep or frozenset(wanted.asked(requested.Cache).tensors)
    plan, step = placing.served(program, options.plans, ranks, frozenset(keep), choices(options))
    mesh = _mesh(dict(plan.axes), next(x.device.type for x in given.values() if hasattr(x, "device")))
    function = back_ends.load(back_ends.emit(plan, options.backend, None), step.program.name, options.backend)
    return Ranked(program, step, function, mesh, given, known)


def _mesh(axes: Mapping[str, int], kind: str) -> DeviceMesh:
    """The mesh of all processes. EincError where there are none, or not so many."""
    count, there = math.prod(axes.values()), int(os.environ.get("WORLD_SIZE", "1"))
    if there != count:
        said = ", ".join(f"{name} = {ranks}" for name, ranks in axes.items())
        raise EincError([Problem(f"{said} needs {count} processes, and there {'is' if there == 1 else 'are'} {there}",
                                 helps=(Help(f"run it by `torchrun --nproc-per-node {count} -m einc generate …`"),))])
    if not dist.is_initialized():
        dist.init_process_group("gloo" if kind == "cpu" else "nccl")
    return init_device_mesh(kind, tuple(axes.values()), mesh_dim_names=tuple(axes))


@contextmanager
def together() -> Iterator[None]:
    """The work of one of several processes: the first alone is heard, and all leave their group in the end."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, ExitStack() as stack:
        if os.environ.get("RANK", "0") != "0":
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield
        if dist.is_initialized():
            dist.destroy_process_group()
