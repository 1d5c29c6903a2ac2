"""A spec as the attention of a model of transformers, under a name: `model.set_attn_implementation("einc")`.

What the model passes is used, found to be what the spec says itself, or refused; nothing is dropped. Non-goals: what
stands before and after, projections and positions that are turned, which are the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function, sdpa_mask

from einc.driver.compiling import built
from einc.driver.integrations.laid import AXES, Layout, refuse
from einc.driver.options import Options
from einc.driver.parts import Part, part

Given = int | float | str | torch.Tensor
# What else a model may pass, and what it says. A word that `register` is given for an input of the spec is taken from
# here.
WORDS = {
    "dropout": "drops weights by chance", "softcap": "caps its logits", "s_aux": "adds sinks", "sinks": "adds sinks",
    "position_bias": "adds a bias of positions", "cache": "keeps its past in pages", "indices": "chooses positions",
    "block_indices": "chooses blocks of positions", "head_mask": "masks heads", "cu_seq_lens_q": "packs sequences",
    "cu_seq_lens_k": "packs sequences", "output_attentions": "asks for the weights, which are never there as a whole",
}
ABSENT, PRESENT, LATER = 0, 1, 2  # of a key: padding, there, behind the last query in a cache of a fixed length


def register(spec: str | Path, name: str = "einc", *, backend: str = "torch", **given: Given) -> None:
    """Makes the spec (a path, the name of one that comes with einc, or the text itself) an attention of transformers.

    Which tensors are queries, keys and values is found by their indices. `given` are sizes and further tensors of the
    spec: numbers, tensors, or what the model calls them, `W="sliding_window"`, `sink="s_aux"` or `f="forget_gate"`: a
    keyword argument of its attention, or of its config or its layer. A further input that is not named here has its own
    name there. It has the axes of the spec, in their order, and the batch first where the spec has none: one for
    positions of keys has one value for each key, those in the model's cache too. A tensor that the spec makes is taken
    as it is given where it is named. EincError where the spec has no part that stands between queries, keys and values,
    or later where the model passes what the spec has not, or lacks what it has.
    """
    found = part(spec, frozenset(given))
    own = {word: word for word in sorted(found.facts.asked) if word in found.plain.program.tensors}
    kernel = _Kernel(Layout(found), backend, {**own, **given})
    kernel.check()
    AttentionInterface.register(name, kernel.attend)
    AttentionMaskInterface.register(name, kernel.mask)


@dataclass(eq=False)
class _Function:
    """One function of a part, which is compiled when it is first asked for."""

    part: Part
    backend: str
    padded: bool
    grad: bool
    made: Callable[..., torch.Tensor] | None = None

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def build(self) -> None:
        """Compiles it, unless it is compiled: torch does not trace how."""
        if self.made is None:
            program = (self.part.padded if self.padded else self.part.plain).program
            self.made = built(program, Options(self.backend, grad=self.grad)).function


@dataclass(eq=False)
class _Kernel:
    """A spec's part, compiled when it is first called with and without padding, with and without gradients."""

    layout: Layout
    backend: str
    given: Mapping[str, Given]
    functions: dict[tuple[bool, bool], _Function] = field(default_factory=dict)
    seen: Callable[..., torch.Tensor] | None = None
    agreed: set[tuple[Any, ...]] = field(default_factory=set)
    scales: dict[tuple[Any, ...], float] = field(default_factory=dict)
    place: int = -1  # among all that are registered: what an operator in a graph of torch is told

    def __post_init__(self) -> None:
        """Takes a place among all kernels."""
        self.functions |= {(padded, grad): _Function(self.part, self.backend, padded, grad)
                           for padded in (False, True) for grad in (False, True)}
        self.place = len(_KERNELS)
        _KERNELS.append(self)

    @property
    def part(self) -> Part:
        """The part of the spec."""
        return self.layout.part

    @property
    def name(self) -> str:
        """The spec's name as messages have it."""
        return self.layout.name

    def check(self) -> None:
        """Refuses a spec whose tensors have other axes than a model's, and what is given for nothing."""
        self.layout.check()
        for word in sorted(self.given.keys() - self.part.facts.asked):
            refuse(f"{self.name} asks for no `{word}` between queries, keys and values", "leave it out")
        for word in sorted(self.part.facts.asked - self.given.keys()):
            refuse(f"{self.name} asks for `{word}`, which no shape tells",
                   f'give a number, or what it is called in the model: `register(…, {word}="…")`')
        for word, value in self.given.items():
            self.given_is_sound(word, value)

    def given_is_sound(self, word: str, value: Given) -> None:
        """Refuses what is neither a name nor numbers, and one number for a tensor of several."""
        layout = self.layout
        called = f'what it is called in the model: `register(…, {word}="…")`'
        if value == "" if isinstance(value, str) else not isinstance(value, int | float | torch.Tensor):
            refuse(f"`{word}` of {self.name} is given as {value!r:.40}, which is neither a number nor a name",
                   f"give a number, a tensor, or {called}")
        one = isinstance(value, int | float) and word in self.part.plain.program.tensors
        if one and any(axis != AXES["batch"] for axis in layout.axes(word)):
            refuse(f"`{word}` is given as {value}, and {self.name} takes {layout.shown(word)}",
                   f"give a tensor with these axes, or {called}")

    def function(self, padded: bool, grad: bool) -> Callable[..., torch.Tensor]:
        """The kernel with or without padding, with or without its gradient."""
        found = self.functions[padded, grad]
        found.build()
        assert found.made is not None
        return found.made

    # what the model says

    def attend(self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
               attention_mask: torch.Tensor | None = None, scaling: float | None = None,
               **told: Any) -> tuple[torch.Tensor, None]:
        """What the model calls: [batch, heads, positions, width] in, [batch, positions, heads, width] out."""
        self.unused(told)
        if attention_mask is not None and attention_mask.shape != (len(key), key.shape[2]):
            refuse(f"the model's mask is a tensor of shape {tuple(attention_mask.shape)}, and that of {self.name} is "
                   f"its own text",
                   "give the model a mask of shape [batch, positions] or none: which positions are padding")
        used, laid = self.found(told, module, key.shape[2]), self.layout
        main = laid.main(query, key, value)
        further = laid.further(used, main, query, key)
        if attention_mask is not None and attention_mask.dtype == torch.int8:
            attention_mask, main, further = self.last(attention_mask, main, further)
        if not torch.compiler.is_compiling():  # what is traced goes through `mask`, which compares there
            self.expect(module, query, main[laid.keys[1]].shape[laid.axes(laid.keys[1]).index(2)], told, used)
        tensors = self.scaled({**main, **further}, used, query.shape[3] ** -0.5 if scaling is None else scaling)
        if attention_mask is not None:
            each = len(tensors[laid.keys[0]]) // len(key)
            tensors[self.part.padded.present] = attention_mask.long().repeat_interleave(each, 0)
        # With its gradient it is an operator, which torch does not trace: loops over tiles may depend on data.
        grad = torch.compiler.is_compiling() or (torch.is_grad_enabled()
                                                 and any(t.requires_grad for t in tensors.values()))
        sizes = {word: number for word, number in used.items() if word not in tensors}
        made = self.function(attention_mask is not None, grad)(**tensors, **sizes)
        return laid.unlaid(made, query), None

    def unused(self, told: Mapping[str, Any]) -> None:
        """Refuses what says something that the spec does not take."""
        taken = [value for value in self.given.values() if isinstance(value, str)]
        for word, value in told.items():
            says = WORDS.get(word) or ("passes further numbers" if isinstance(value, torch.Tensor) and
                                       value.is_floating_point() else "")
            nothing = value is None or value is False or (word == "dropout" and value == 0)
            if says and not nothing and word not in taken:
                refuse(f"the model {says} (`{word}`), and {self.name} does not take them" if word not in WORDS else
                       f"the model {says} (`{word}`), and {self.name} does not",
                       f'register a spec that takes it, `register(…, x="{word}")` for its input `x`, or turn it off in '
                       f'the model')

    def found(self, told: Mapping[str, Any], module: Any, keys: int) -> dict[str, Any]:
        """What was given to `register`, by its value here: an argument, else of the config, else of the layer."""
        return {word: self.value(word, value, told, module, keys) for word, value in self.given.items()}

    def value(self, word: str, value: Given, told: Mapping[str, Any], where: Any, keys: int) -> Any:
        """What a spec asks for: the value itself, or what the call or the model calls so. Refuses what neither has."""
        if not isinstance(value, str):
            return value
        places = (getattr(where, "config", where), where)
        found = (told[value] if value in told
                 else next((x for p in places if (x := getattr(p, value, None)) is not None), None))
        if found is None and value == "sliding_window":  # none is one that holds all positions
            return keys
        if found is None and word in self.part.plain.program.tensors:
            refuse(f"the model passes no `{value}`, which {self.name} takes for its `{word}`",
                   f"pass the attention of the model `{value}=…` with the axes {self.layout.shown(word)}, or say what "
                   f"it is called there: `register(…, {word}=\"…\")`")
        if found is None:
            refuse(f"the model has no `{value}`, which `{word}` was to be", "give a number, or another name")
        if isinstance(found, str):
            refuse(f"`{value}` of the model is {found!r:.40}, which is no number, and {self.name} takes it for its "
                   f"`{word}`", f"give a number or a tensor there, or say another name: `register(…, {word}=\"…\")`")
        return found

    def scaled(self, tensors: dict[str, torch.Tensor], used: Mapping[str, Any],
               scaling: float) -> dict[str, torch.Tensor]:
        """The tensors, with queries times what the model scales by beyond what the spec does itself."""
        ratio, new = scaling / self.scale(tensors, used), self.part.facts.new
        return tensors if abs(ratio - 1) < 1e-6 else tensors | {new: tensors[new] * ratio}

    def scale(self, tensors: Mapping[str, torch.Tensor], used: Mapping[str, Any]) -> float:
        """What the spec itself multiplies queries by: a number that widths and heads tell."""
        shapes = tuple((name, tuple(1 if a in (0, 2) else n
                                    for a, n in zip(self.layout.axes(name), x.shape, strict=True)))
                       for name, x in tensors.items())
        needed = self.part.facts.scaling
        sizes = tuple((word, x if word in needed else 1) for word, x in used.items() if word not in tensors)
        if (shapes, sizes) not in self.scales:
            self.scales[shapes, sizes] = self.scale_of(shapes, sizes)
        return self.scales[shapes, sizes]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def scale_of(self, shapes: tuple[tuple[str, tuple[int, ...]], ...], sizes: tuple[tuple[str, int], ...]) -> float:
        """What `scale` gives for tensors of these shapes; torch computes it once where it traces."""
        return self.part.scale(dict(shapes), dict(sizes))

    def last(self, mask: torch.Tensor, main: dict[str, torch.Tensor], further: dict[str, torch.Tensor],
             ) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """A mask, and what is given for keys, without the keys behind the last query: cut off, or where torch traces
        moved before the first ones as padding, so that no shape depends on data.
        """
        there, count = mask[0] != LATER, mask.shape[1]
        if torch.compiler.is_compiling():
            order = (torch.arange(count, device=mask.device) + there.sum()) % count
        else:
            order = torch.arange(int(there.sum()), device=mask.device)

        def kept(name: str, x: torch.Tensor) -> torch.Tensor:
            axes = [n for n, axis in enumerate(self.layout.axes(name)) if axis == 2]
            past = name in (*self.layout.keys[1:], *self.part.facts.past)
            return x.index_select(axes[0], order) if past else x

        return ((mask == PRESENT)[:, order], {k: kept(k, x) for k, x in main.items()},
                {k: kept(k, x) for k, x in further.items()})

    # masks

    def mask(self, batch_size: int, q_length: int, kv_length: int, q_offset: int | torch.Tensor = 0, kv_offset: int = 0,
             mask_function: Callable[..., Any] = causal_mask_function, attention_mask: torch.Tensor | None = None,
             local_size: int | None = None, use_vmap: bool = False, **told: Any) -> torch.Tensor | None:
        """What the model asks for before its layers: which positions are there, nothing where all are. Refused
        where the model's own mask is not the spec's.
        """
        tracing, device = torch.compiler.is_compiling(), told.get("device", "cpu")
        used = self.numbers({"sliding_window": local_size, **told}, told.get("config"), kv_length)
        if not tracing:
            q_offset = int(q_offset)
        theirs = None
        if mask_function is not causal_mask_function:
            start: Any = q_offset  # a tensor too, where a cache has a fixed length
            theirs = sdpa_mask(batch_size, q_length, kv_length, start, kv_offset, mask_function, None,
                               allow_is_causal_skip=False, use_vmap=use_vmap, device=device)
        offset, fixed = (q_offset, 0) if isinstance(q_offset, torch.Tensor) else (None, q_offset)
        heads = getattr(told.get("config"), "num_attention_heads", 0)
        lengths = [q_length, kv_length, fixed, kv_offset, heads]
        if tracing:
            torch._assert_async(_compared(theirs, attention_mask, offset, self.place, lengths, list(used.values()),
                                          torch.device(device)), "the mask of a model is that of the spec")
        else:
            self.expected(theirs, attention_mask, lengths, used)
        here = None if attention_mask is None else attention_mask[:, kv_offset:kv_offset + kv_length].bool()
        if offset is not None or fixed + q_length != kv_offset + kv_length:
            return _coded(here, batch_size, kv_length, q_offset + q_length - kv_offset, device)
        if here is not None and not tracing and bool(here.all()):
            here = None
        self.function(here is not None, tracing or torch.is_grad_enabled())
        return here

    def expected(self, theirs: torch.Tensor | None, padding: torch.Tensor | None, lengths: Sequence[int],
                 used: Mapping[str, Any]) -> None:
        """Refuses a mask of the model, none for the usual one, and a padding that the spec has not."""
        new, keys, before, behind, heads = lengths
        end = before + new - behind
        if end > keys:
            refuse("the model's queries go on after its keys", f"{self.name} has the new positions last")
        if behind and self.part.facts.absolute:
            refuse(f"the model has dropped {behind} positions of its past, and {self.name} counts from the first one",
                   "let it depend on distances, `t - s`, alone")
        about = (*lengths, *used.items())
        if theirs is not None or about not in self.agreed:
            if theirs is None:
                theirs = torch.ones(new, end, dtype=torch.bool).tril(end - new)
                self.agreed.add(about)
            if bool(theirs[..., end:].any()):
                refuse(f"the model reads positions after its last query, and {self.name} has none there",
                       "give the model a cache that grows, transformers' usual one")
            self.compare(theirs[..., :end], new, end, heads, used)
        if padding is not None and (padding.ndim != 2 or padding.shape[1] < before + new):
            refuse(f"the model's padding has shape {tuple(padding.shape)} for {before + new} positions",
                   "say of each position, past ones too, whether it is there: a mask of shape [batch, positions]")
        if padding is not None and self.part.facts.absolute and not bool(padding[:, 0].all()):
            refuse(f"the model has padding before a text, and {self.name} counts from the first position",
                   "pad behind the text, or let the spec depend on distances, `t - s`, alone")

    def numbers(self, told: Mapping[str, Any], config: Any, keys: int) -> dict[str, Any]:
        """The sizes among what was given: all that a mask can depend on."""
        given = {w: v for w, v in self.given.items() if w not in self.part.plain.program.tensors}
        return {word: self.value(word, value, told, config, keys) for word, value in given.items()}

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
        return {n: count for s in self.layout.slots(self.layout.keys[0]) if s.set.cls == "head"
                for n in s.set.extent.sizes}

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
            refuse(f"in the model position {keys - new + at + 1} {theirs_does} position {to + 1}, and {self.name} "
                   f"{own_does}",
                   "register a spec with the model's mask, or give the model the spec's")


_KERNELS: list[_Kernel] = []


@torch.library.custom_op("einc_transformers::compared", mutates_args=())
def _compared(theirs: torch.Tensor | None, padding: torch.Tensor | None, offset: torch.Tensor | None, place: int,
              lengths: Sequence[int], sizes: Sequence[int], device: torch.device) -> torch.Tensor:
    """Whether a model's mask and padding are those of a kernel, where a graph of torch runs; refuses others."""
    new, keys, before, behind, heads = lengths
    kernel, before = _KERNELS[place], before if offset is None else int(offset)
    words = (word for word in kernel.given if word not in kernel.part.plain.program.tensors)
    kernel.expected(theirs, padding, (new, keys, before, behind, heads), dict(zip(words, sizes, strict=True)))
    return torch.ones((), dtype=torch.bool, device=device)


@_compared.register_fake
def _(theirs: Any, padding: Any, offset: Any, place: int, lengths: Any, sizes: Any,
      device: torch.device) -> torch.Tensor:
    """The same without elements."""
    return torch.empty((), dtype=torch.bool, device=device)


def _coded(here: torch.Tensor | None, batch: int, keys: int, end: int | torch.Tensor, device: Any) -> torch.Tensor:
    """What each key of a cache of a fixed length is: `ABSENT`, `PRESENT` or `LATER`, behind the last query."""
    mask = torch.ones(batch, keys, dtype=torch.int8, device=device)
    if here is not None:
        some = here.to(torch.int8)
        mask = torch.nn.functional.pad(some, (0, keys - some.shape[1]))
    return torch.where(torch.arange(keys, device=device) < end, mask, LATER).to(torch.int8)
