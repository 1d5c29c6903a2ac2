"""Which input of a spec holds the tokens of texts, and which output says what comes next:
a spec as a function of logits.

Non-goals: how a token is taken; what a token stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from einc.errors.report import EincError, Help, Problem
from einc.ir.indices import IndexSet
from einc.ir.programs import Program, Tensor

Array = Any  # a tensor of torch


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the tokens and of the logits, and over what they run."""

    ids: str
    logits: str
    along: IndexSet
    batch: IndexSet | None  # several texts side by side
    vocabulary: IndexSet


def roles(program: Program) -> Roles:
    """Which input of a spec has the tokens, and which output the logits. EincError where it does not have one of
    each.
    """
    outputs = [(name, program.tensors[key]) for name, key in program.outputs]
    logits = [(name, _sets(t)) for name, t in outputs if _classes(t) in (("batch", "time", "vocab"), ("time", "vocab"))]
    if len(logits) != 1:
        raise _refused(program, "logits for the next token", [name for name, _ in logits],
                       "an output over positions and a vocabulary, `output O_{n t}^v` for instance, says what comes "
                       "next")
    ((name, (*places, vocabulary)),) = logits
    ids = [t.key for t in program.inputs() if t.integer and list(_sets(t)) == places]
    if len(ids) != 1:
        raise _refused(program, "tokens", ids,
                       f"they are an input over the positions of `{name}`, `input w_{{n t}} : int`")
    if vocabulary.start:
        raise EincError([Problem(f"the tokens of `{program.name}` count from {vocabulary.start}, and those of texts "
                                 f"from 0",
                                 helps=(Help(f"declare `index v : vocab(0..{vocabulary.extent}-1)`"),))])
    return Roles(ids[0], name, places[-1], places[0] if len(places) > 1 else None, vocabulary)


def _single(program: Program, along: IndexSet) -> bool:
    """Whether each thing that is given or returned is of one position of a text, or of none."""
    tensors = [*program.inputs(), *(program.tensors[key] for _, key in program.outputs)]
    return all(sum(bool(s.extent.sizes & along.extent.sizes) for s in _sets(t)) < 2 for t in tensors)


def _sets(tensor: Tensor) -> tuple[IndexSet, ...]:
    return tuple(slot.set for slot in tensor.slots)


def _classes(tensor: Tensor) -> tuple[str, ...]:
    return tuple(slot.set.cls for slot in tensor.slots)


def _refused(program: Program, what: str, found: list[str], way: str) -> EincError:
    several = f"several that could be {what}: {', '.join(f'`{name}`' for name in found)}"
    return EincError([Problem(f"`{program.name}` has {several if found else f'no {what}'}", helps=(Help(way),))])


class Spoken:
    """A compiled spec with its weights and sizes, as a function of tokens, (T,) or (B, T).

    One that serves gives the logits of the last token alone: its `prefill` with a cache, which it takes before new
    tokens. `beside` says that a step may be of several texts, side by side.
    """

    def __init__(self, made: Any, given: Mapping[str, Any]) -> None:
        self.made, self.given, self.roles = made, given, roles(made.program)
        self.beside = _single(made.program, self.roles.along)
        self.names = [name for name, _ in made.program.outputs]
        self.prefill = self._first if hasattr(made, "prefill") else None
        self.latest = {"latest": True} if hasattr(made, "prefill") else {}

    def __call__(self, *cache_and_ids: Array) -> Array:
        *cache, ids = cache_and_ids
        return self._logits(lambda **given: self.made(*cache, **given, **self.latest), ids)

    def step(self, caches: Sequence[Any], new: Sequence[int], counts: Sequence[int]) -> Array:
        """The logits (R, V) after new tokens of several texts, so many of each, one text after another. Raises
        TypeError."""
        like = next((x for x in self.given.values() if hasattr(x, "new_zeros")), None)
        if like is None:
            raise TypeError(f"no tensor is given of what `{self.made.program.name}` takes beside the tokens")
        ids = like.new_zeros(0).long().new_tensor(new)
        return self._logits(lambda **given: self.made(caches, lengths=counts, **given, **self.latest), ids)

    def _first(self, ids: Array) -> tuple[Array, Any]:
        cache: list[Any] = []

        def prefill(**given: Any) -> Any:
            value, made = self.made.prefill(**given, latest=True)
            cache.append(made)
            return value

        return self._logits(prefill, ids), cache[0]

    def _logits(self, run: Callable[..., Any], ids: Array) -> Array:
        """The logits of the tokens; the batch is laid around or taken off where the spec and the ids differ in it.
        Raises ValueError."""
        single, batch = ids.ndim == 1, self.roles.batch is not None
        if not single and not batch and len(ids) != 1:
            raise ValueError(f"`{self.made.program.name}` has no batch: it takes one text at a time, and {len(ids)} "
                             f"are given; "
                             "a list of them will do")
        rows = ids[None] if single and batch else ids[0] if not single and not batch else ids
        value = run(**{self.roles.ids: rows}, **self.given)
        value = value[self.names.index(self.roles.logits)] if len(self.names) > 1 else value
        return value[0] if single and batch else value[None] if not single and not batch else value
