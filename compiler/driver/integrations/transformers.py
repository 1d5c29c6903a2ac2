"""A spec as the attention of a model of transformers, under a name: `model.set_attn_implementation("einc")`.

What the model passes is used, found to be what the spec says itself, or refused; nothing is dropped. Non-goals: what
stands before and after, projections and positions that are turned, which are the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function, sdpa_mask

from einc.driver.compiling import built
from einc.driver.options import Options
from einc.driver.parts import Part, part
from einc.errors.report import EincError, Help, Problem
from einc.ir.programs import Slot

Given = int | float | str
# of [batch, heads, positions, width]
AXES = {"batch": 0, "request": 0, "head": 1, "time": 2, "feature": 3, "latent": 3}
# What else a model may pass, and what it says. A word that `register` is given for an input of the spec is taken from
# here.
WORDS = {
    "dropout": "drops weights by chance", "softcap": "caps its logits", "s_aux": "adds sinks", "sinks": "adds sinks",
    "position_bias": "adds a bias of positions", "cache": "keeps its past in pages", "indices": "chooses positions",
    "block_indices": "chooses blocks of positions", "head_mask": "masks heads", "cu_seq_lens_q": "packs sequences",
    "cu_seq_lens_k": "packs sequences", "output_attentions": "asks for the weights, which are never there as a whole",
}


def register(spec: str | Path, name: str = "einc", *, backend: str = "torch", **given: Given) -> None:
    """Makes the spec (a path, the name of one that comes with einc, or the text itself) an attention of transformers.

    `given` are sizes and further inputs of the spec: numbers, or what the model calls them, `W="sliding_window"` or
    `sink="s_aux"`: an argument of its attention, or of its config. EincError where the spec has no part that stands
    between queries, keys and values, or later where the model passes what the spec has not.
    """
    kernel = _Kernel(part(spec), backend, given)
    kernel.check()
    AttentionInterface.register(name, kernel.attend)
    AttentionMaskInterface.register(name, kernel.mask)


def _refuse(said: str, help_: str) -> NoReturn:
    raise EincError([Problem(said, helps=(Help(help_),))])


@dataclass(eq=False)
class _Kernel:
    """A spec's part, compiled when it is first called with and without padding, with and without gradients."""

    part: Part
    backend: str
    given: Mapping[str, Given]
    functions: dict[tuple[bool, bool], Callable[..., torch.Tensor]] = field(default_factory=dict)
    seen: Callable[..., torch.Tensor] | None = None
    agreed: set[tuple[Any, ...]] = field(default_factory=set)
    scales: dict[tuple[Any, ...], float] = field(default_factory=dict)

    # the spec

    @property
    def name(self) -> str:
        return f"`{self.part.plain.program.name}`"

    @property
    def keys(self) -> tuple[str, str, str]:
        return self.part.facts.new, self.part.facts.met, self.part.facts.taken

    def slots(self, key: str) -> tuple[Slot, ...]:
        found: tuple[Slot, ...] = self.part.plain.program.tensors[key].slots
        return found

    def axes(self, key: str) -> list[int]:
        """Which of the model's axes each slot is."""
        return [AXES.get(slot.set.cls, -1) for slot in self.slots(key)]

    def check(self) -> None:
        """Refuses a spec whose tensors have other axes than a model's, and what is given for nothing."""
        (_, result), = self.part.plain.program.outputs
        for key in (*self.keys, result):
            axes = self.axes(key)
            if (sorted({1, *axes}) != [0, 1, 2, 3] or len(set(axes)) != len(axes)
                or (1 in axes) > (1 in self.axes(self.keys[0]))):
                shown = ", ".join(f"`{s.name}` : {s.set.cls}" for s in self.slots(key))
                _refuse(f"`{key}` of {self.name} has the axes {shown}",
                        "a model's have a position, a width, and perhaps a head")
        if (1 in self.axes(result)) < (1 in self.axes(self.keys[0])):
            _refuse(f"{self.name} sums over heads before its result", "a model merges heads itself")
        for word in sorted(self.given.keys() - self.part.facts.asked):
            _refuse(f"{self.name} asks for no `{word}` between queries, keys and values", "leave it out")
        for word in sorted(self.part.facts.asked - self.given.keys()):
            _refuse(f"{self.name} asks for `{word}`, which no shape tells",
                    f'give a number, or what it is called in the model: `register(…, {word}="…")`')

    def function(self, padded: bool, grad: bool) -> Callable[..., torch.Tensor]:
        if (padded, grad) not in self.functions:
            program = (self.part.padded if padded else self.part.plain).program
            self.functions[padded, grad] = built(program, Options(self.backend, grad=grad)).function
        return self.functions[padded, grad]

    # what the model says

    def attend(self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
               attention_mask: torch.Tensor | None = None, scaling: float | None = None,
               **told: Any) -> tuple[torch.Tensor, None]:
        """What the model calls: [batch, heads, positions, width] in, [batch, positions, heads, width] out."""
        self.unused(told)
        if attention_mask is not None and attention_mask.shape != (len(key), key.shape[2]):
            _refuse(f"the model's mask is a tensor of shape {tuple(attention_mask.shape)}, and that of {self.name} is "
                    f"its own text",
                    "give the model a mask of shape [batch, positions] or none: which positions are padding")
        used = self.found(told, module, key.shape[2])
        if not torch.compiler.is_compiling():  # what is traced goes through `mask`, which is not
            self.expect(module, query, key.shape[2], told, used)
        tensors = self.laid(query, key, value, used, scaling)
        if attention_mask is not None:
            each = len(tensors[self.keys[0]]) // len(key)
            tensors[self.part.padded.present] = attention_mask.long().repeat_interleave(each, 0)
        tracing = torch.compiler.is_compiling()
        grad = torch.is_grad_enabled() and (tracing or any(t.requires_grad for t in tensors.values()))
        sizes = {word: number for word, number in used.items() if word not in tensors}
        made = self.function(attention_mask is not None, grad)(**tensors, **sizes)
        return self.unlaid(made, query), None

    def unused(self, told: Mapping[str, Any]) -> None:
        """Refuses what says something that the spec does not take."""
        for word, said in WORDS.items():
            value = told.get(word)
            nothing = value is None or value is False or (word == "dropout" and value == 0)
            if not nothing and word not in self.given.values():
                way = (f'register a spec that takes it, `register(…, x="{word}")` for its input `x`, or turn it off in '
                       f'the model')
                _refuse(f"the model {said} (`{word}`), and {self.name} does not", way)

    def found(self, told: Mapping[str, Any], module: Any, keys: int) -> dict[str, Any]:
        """What was given to `register`, by its value here: an argument, else of the config, else of the layer."""
        return {word: _found(word, value, told, module, keys) for word, value in self.given.items()}

    def laid(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, used: Mapping[str, Any],
             scaling: float | None) -> dict[str, torch.Tensor]:
        """The tensors as the spec's slots stand, and what else it takes."""
        heads, (new, met, taken) = query.shape[1], self.keys
        shared = {s.set for s in self.slots(new)}
        out = {}
        for name, x in ((new, query), (met, key), (taken, value)):
            axes, head = self.axes(name), next((s.set for s in self.slots(name) if s.set.cls == "head"), None)
            if 1 not in self.axes(new) or (head in shared and x.shape[1] != heads):
                x = x.repeat_interleave(heads // x.shape[1], 1)
            if 1 not in self.axes(new):
                x = x.flatten(0, 1).unsqueeze(1)
            if 1 not in axes and x.shape[1] != 1:
                _refuse(f"the model has {x.shape[1]} heads in `{name}`, and {self.name} one for all",
                        "write it with an index of heads")
            x = x if 1 in axes else x.squeeze(1)
            out[name] = x.permute([a - (a > 1 and 1 not in axes) for a in axes])
        out |= {name: self.further(name, x, query) for name, x in used.items()
                if name in self.part.plain.program.tensors}
        ratio = (query.shape[3] ** -0.5 if scaling is None else scaling) / self.scale(out, used)
        return out if abs(ratio - 1) < 1e-6 else out | {new: out[new] * ratio}

    def further(self, name: str, value: Any, query: torch.Tensor) -> torch.Tensor:
        """An input that the model gives besides: one for all rows of a batch where the spec has one for each."""
        tensor = (value if isinstance(value, torch.Tensor)
                  else torch.tensor(value, dtype=query.dtype, device=query.device))
        rows = [n for n, axis in enumerate(self.axes(name)) if axis == 0]
        if rows and tensor.ndim < len(self.slots(name)):
            return tensor.unsqueeze(rows[0]).expand(*tensor.shape[:rows[0]], len(query), *tensor.shape[rows[0]:])
        return tensor

    def unlaid(self, made: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """The result as [batch, positions, heads, width]."""
        (_, result), = self.part.plain.program.outputs
        axes = self.axes(result)
        if 1 in axes:
            return made.permute([axes.index(a) for a in (0, 2, 1, 3)]).contiguous()
        flat = made.permute([axes.index(a) for a in (0, 2, 3)])
        return flat.reshape(len(query), query.shape[1], *flat.shape[1:]).transpose(1, 2).contiguous()

    def scale(self, tensors: Mapping[str, torch.Tensor], used: Mapping[str, Any]) -> float:
        """What the spec itself multiplies queries by: a number that widths and heads tell."""
        shapes = tuple((name, tuple(1 if a in (0, 2) else n for a, n in zip(self.axes(name), x.shape, strict=True)))
                       for name, x in tensors.items())
        needed = self.part.facts.scaling
        sizes = tuple((word, x if word in needed else 1) for word, x in used.items() if word not in tensors)
        if (shapes, sizes) not in self.scales:
            self.scales[shapes, sizes] = self.scale_of(shapes, sizes)
        return self.scales[shapes, sizes]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def scale_of(self, shapes: tuple[tuple[str, tuple[int, ...]], ...], sizes: tuple[tuple[str, int], ...]) -> float:
        return self.part.scale(dict(shapes), dict(sizes))

    # masks

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def mask(self, batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0,
             mask_function: Callable[..., Any] = causal_mask_function, attention_mask: torch.Tensor | None = None,
             local_size: int | None = None, use_vmap: bool = False, **told: Any) -> torch.Tensor | None:
        """What the model asks for before its layers: which positions are there, nothing where all are. Refused
        where the model's own mask is not the spec's.
        """
        if q_offset + q_length != kv_offset + kv_length:
            _refuse("the model's keys go on after its queries, as in a cache of a fixed length",
                    f"{self.name} has the new positions last: use a cache that grows, transformers' usual one")
        if kv_offset and self.part.facts.absolute:
            _refuse(f"the model has dropped {int(kv_offset)} positions of its past, and {self.name} counts from the "
                    f"first one",
                    "let it depend on distances, `t - s`, alone")
        used = self.numbers({"sliding_window": local_size, **told}, told.get("config"), kv_length)
        about = (q_length, kv_length, int(q_offset), int(kv_offset), *used.items())
        if mask_function is not causal_mask_function or about not in self.agreed:
            theirs = sdpa_mask(batch_size, q_length, kv_length, int(q_offset), int(kv_offset), mask_function, None,
                               allow_is_causal_skip=False, use_vmap=use_vmap, device=told.get("device", "cpu"))
            assert theirs is not None
            self.compare(theirs, q_length, kv_length, getattr(told.get("config"), "num_attention_heads", 0), used)
            self.agreed |= {about} if mask_function is causal_mask_function else set()
        if attention_mask is not None and (attention_mask.ndim != 2 or attention_mask.shape[1] < kv_offset + kv_length):
            _refuse(f"the model's padding has shape {tuple(attention_mask.shape)} for {int(kv_offset) + kv_length} "
                    f"positions",
                    "say of each position, past ones too, whether it is there: a mask of shape [batch, positions]")
        here = None if attention_mask is None else attention_mask[:, kv_offset:kv_offset + kv_length].bool()
        if here is not None and bool(here.all()):
            here = None
        if here is not None and self.part.facts.absolute and not bool(here[:, 0].all()):
            _refuse(f"the model has padding before a text, and {self.name} counts from the first position",
                    "pad behind the text, or let the spec depend on distances, `t - s`, alone")
        self.function(here is not None, torch.is_grad_enabled())  # compiled here, and not while torch traces a layer
        return here

    def numbers(self, told: Mapping[str, Any], config: Any, keys: int) -> dict[str, Any]:
        """The sizes among what was given: all that a mask can depend on."""
        given = {w: v for w, v in self.given.items() if w not in self.part.plain.program.tensors}
        return {word: _found(word, value, told, config, keys) for word, value in given.items()}

    def expect(self, module: Any, query: torch.Tensor, keys: int, told: Mapping[str, Any],
               used: Mapping[str, Any]) -> None:
        """Checks that the spec reads what the layer says without a mask: all positions, or those before, or the last of
        these.
        """
        heads, new = query.shape[1:3]
        forward, width = told.get("is_causal"), told.get("sliding_window")
        forward = getattr(module, "is_causal", True) if forward is None else forward
        sizes = {word: x for word, x in used.items() if word not in self.part.plain.program.tensors}
        about = ("layer", bool(forward), width, new, keys, *sizes.items())
        if about in self.agreed:
            return
        here, there = torch.arange(keys - new, keys)[:, None], torch.arange(keys)[None]
        theirs = (there <= here) if forward else torch.ones(new, keys, dtype=torch.bool)
        self.compare(theirs & (there > here - width) if width is not None else theirs, new, keys, heads, sizes)
        self.agreed.add(about)

    def heads(self, count: int) -> dict[str, int]:
        """The size that counts heads, where the spec has them."""
        return {n: count for s in self.slots(self.keys[0]) if s.set.cls == "head" for n in s.set.extent.sizes}

    def compare(self, theirs: torch.Tensor, new: int, keys: int, heads: int, sizes: Mapping[str, Any]) -> None:
        """Refuses a mask that is not the spec's, with the first pair of positions that tells."""
        if self.seen is None:
            self.seen = built(self.part.facts.seen).function
        takes = {**dict(zip(self.part.facts.counted, (new, keys - new), strict=True)), **sizes, **self.heads(heads)}
        own = self.seen(**{word: takes[word] for word in signature(self.seen).parameters}).bool()
        theirs = theirs.to(own.device)
        if not bool((theirs == own).all()):
            *_, at, to = (theirs != own).nonzero()[0].tolist()
            more = bool(theirs.reshape(-1, new, keys)[:, at, to].any())
            theirs_does, own_does = ("reads", "does not") if more else ("does not read", "does")
            _refuse(f"in the model position {keys - new + at + 1} {theirs_does} position {to + 1}, and {self.name} "
                    f"{own_does}",
                    "register a spec with the model's mask, or give the model the spec's")


def _found(word: str, value: Given, told: Mapping[str, Any], where: Any, keys: int) -> Any:
    """What a spec asks for: the value itself, or what the call or the model calls so. Refuses what neither has."""
    if not isinstance(value, str):
        return value
    places = (getattr(where, "config", where), where)
    found = (told[value] if value in told
             else next((x for p in places if (x := getattr(p, value, None)) is not None), None))
    if found is None and value == "sliding_window":  # none is one that holds all positions
        return keys
    if found is None:
        _refuse(f"the model has no `{value}`, which `{word}` was to be", "give a number, or another name")
    return found
