"""Tensors of a model of transformers as the slots of a spec's part stand, and its result as the model has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from einc.driver.parts import Part
from einc.errors.report import EincError, Help, Problem
from einc.ir.indices import IndexSet
from einc.ir.programs import Slot

# of [batch, heads, positions, width]
AXES = {"batch": 0, "request": 0, "head": 1, "time": 2, "feature": 3, "latent": 3}


def refuse(said: str, help_: str) -> NoReturn:
    """Raises EincError with one problem and one way out; where torch traces, RuntimeError with their words, which it
    hands on."""
    if torch.compiler.is_compiling():
        raise RuntimeError(f"{said}: {help_}")
    raise EincError([Problem(said, helps=(Help(help_),))])


@dataclass(frozen=True)
class Layout:
    """How the tensors of a part stand, and those of a model: queries, keys and values of the axes [batch, heads,
    positions, width], and what is given besides in the order of the spec's own slots.
    """

    part: Part

    @property
    def name(self) -> str:
        """The spec's name as messages have it."""
        return f"`{self.part.plain.program.name}`"

    @property
    def keys(self) -> tuple[str, str, str]:
        """The names of queries, keys and values in the spec."""
        return self.part.facts.new, self.part.facts.met, self.part.facts.taken

    @property
    def result(self) -> str:
        """The name of the result in the spec."""
        (_, result), = self.part.plain.program.outputs
        return result

    @property
    def headless(self) -> bool:
        """Whether the spec is of one head, so that heads are rows of its batch."""
        return 1 not in self.axes(self.keys[0])

    def slots(self, key: str) -> tuple[Slot, ...]:
        """The slots of a tensor of the part."""
        found: tuple[Slot, ...] = self.part.plain.program.tensors[key].slots
        return found

    def axes(self, key: str) -> list[int]:
        """Which of the model's axes each slot is."""
        return [AXES.get(slot.set.cls, -1) for slot in self.slots(key)]

    def check(self) -> None:
        """Refuses a spec whose queries, keys, values or result have other axes than a model's."""
        for key in (*self.keys, self.result):
            axes = self.axes(key)
            if (sorted({1, *axes}) != [0, 1, 2, 3] or len(set(axes)) != len(axes) or (1 in axes) > (not self.headless)):
                shown = ", ".join(f"`{s.name}` : {s.set.cls}" for s in self.slots(key))
                refuse(f"`{key}` of {self.name} has the axes {shown}",
                       "a model's have a position, a width, and perhaps a head")
        if (1 in self.axes(self.result)) < (not self.headless):
            refuse(f"{self.name} sums over heads before its result", "a model merges heads itself")

    def main(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> dict[str, torch.Tensor]:
        """Queries, keys and values as the spec's slots stand: keys of fewer heads once for each head that reads them,
        where the spec has one index for both.
        """
        heads, shared = query.shape[1], {s.set for s in self.slots(self.keys[0])}
        out = {}
        for name, x in zip(self.keys, (query, key, value), strict=True):
            axes, head = self.axes(name), next((s.set for s in self.slots(name) if s.set.cls == "head"), None)
            if self.headless or (head in shared and x.shape[1] != heads):
                x = x.repeat_interleave(heads // x.shape[1], 1)
            if self.headless:
                x = x.flatten(0, 1).unsqueeze(1)
            if 1 not in axes and x.shape[1] != 1:
                refuse(f"the model has {x.shape[1]} heads in `{name}`, and {self.name} one for all",
                       "write it with an index of heads")
            x = x if 1 in axes else x.squeeze(1)
            out[name] = x.permute([a - (a > 1 and 1 not in axes) for a in axes])
        return out

    def further(self, given: Mapping[str, Any], main: Mapping[str, torch.Tensor], query: torch.Tensor,
                key: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the model gives besides, each tensor with the spec's own slots. Refuses one of another shape or type."""
        sizes = {s.set: n for name in self.keys for s, n in zip(self.slots(name), main[name].shape, strict=True)}
        return {name: self.one(name, value, sizes, (query.shape[1], key.shape[1]), query)
                for name, value in given.items() if name in self.part.plain.program.tensors}

    def one(self, name: str, value: Any, sizes: Mapping[IndexSet, int], heads: tuple[int, int],
            query: torch.Tensor) -> torch.Tensor:
        """A tensor that the model gives besides, for rows of a batch and heads that it leaves out once for each."""
        slots, axes = self.slots(name), self.axes(name)
        kind = self.kind(name, query)
        try:
            x = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=kind)
        except (TypeError, ValueError):
            refuse(f"`{name}` is given as {value!r:.40}, which is no number, and {self.name} takes {self.shown(name)}",
                   "give a tensor with these axes, in this order; that of the batch may be left out")
        x = x.to(query.device, x.dtype if kind.is_floating_point or x.is_floating_point() else kind)
        x = self.rows(x, axes.index(0) if 0 in axes else -1, len(slots), query)
        for n, slot in enumerate(slots[:x.ndim]):
            if slot.set.cls == "head" and x.shape[n] == heads[1] != sizes.get(slot.set) == heads[0]:
                x = x.repeat_interleave(heads[0] // heads[1], n)
        wanted = [sizes.get(slot.set) for slot in slots]
        if x.ndim != len(slots) or any(n not in (None, m) for n, m in zip(wanted, x.shape, strict=True)):
            refuse(f"`{name}` has the shape {tuple(value.shape) if isinstance(value, torch.Tensor) else ()}, and "
                   f"{self.name} takes {self.shown(name, wanted)}", self.way(name, x, wanted))
        if x.dtype != kind:
            refuse(f"`{name}` holds {x.dtype}, and {self.name} takes {kind} beside queries of {query.dtype}",
                   f"give `{name}.to({kind})`")
        return x

    def kind(self, name: str, query: torch.Tensor) -> torch.dtype:
        """The type of the elements of a tensor, beside queries."""
        tensor = self.part.plain.program.tensors[name]
        if tensor.integer or tensor.element.narrow is not None:
            kind: torch.dtype = getattr(torch, tensor.element.storage)
            return kind
        return query.dtype

    def rows(self, x: torch.Tensor, at: int, axes: int, query: torch.Tensor) -> torch.Tensor:
        """A tensor with an axis of rows at a place, where the spec has one: without it, it is the same for all; where
        heads are rows, it has one for each head, in an axis after that of the batch, or is the same for all.
        """
        batch, heads = query.shape[:2]
        if at < 0:
            return x
        if x.ndim == axes - 1:
            return x.unsqueeze(at).expand(*x.shape[:at], batch * heads if self.headless else batch, *x.shape[at:])
        if self.headless and x.ndim == axes and x.shape[at] == batch:
            return x.repeat_interleave(heads, at)
        if self.headless and x.ndim == axes + 1 and x.shape[at:at + 2] == (batch, heads):
            return x.flatten(at, at + 1)
        return x

    def shown(self, name: str, wanted: Sequence[int | None] = ()) -> str:
        """The axes that a tensor is to have, with their sizes as far as others tell them."""
        wanted = wanted or [None] * len(self.slots(name))
        kinds = {0: "batch and heads" if self.headless else "batch", 1: "heads", 2: "positions"}
        parts = []
        for slot, axis, n in zip(self.slots(name), self.axes(name), wanted, strict=True):
            kind = "keys" if axis == 2 and name in self.part.facts.past else kinds.get(axis, slot.set.cls)
            parts.append(kind if n is None else f"{kind} = {n}")
        return f"[{', '.join(parts)}]"

    def way(self, name: str, x: torch.Tensor, wanted: list[int | None]) -> str:
        """What to do about a tensor of another shape."""
        at = next((n for n, a in enumerate(self.axes(name)) if a == 2), None)
        if name in self.part.facts.past and at is not None and x.ndim == len(wanted) and x.shape[at] != wanted[at]:
            return ("it has one value for each key, those in the model's cache too: keep it there, as a further column "
                    "of the values for instance")
        return "give one with these axes, in this order; that of the batch may be left out"

    def unlaid(self, made: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """The result as [batch, positions, heads, width]."""
        axes = self.axes(self.result)
        if 1 in axes:
            return made.permute([axes.index(a) for a in (0, 2, 1, 3)]).contiguous()
        flat = made.permute([axes.index(a) for a in (0, 2, 3)])
        return flat.reshape(len(query), query.shape[1], *flat.shape[1:]).transpose(1, 2).contiguous()
