"""Which results each step is for: what is only for results that nobody asks for is not computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import or_

from einc.backends.host.cache_views import reads
from einc.backends.host.contractions import element
from einc.backends.host.loops import Dialect, Page
from einc.backends.host.module import counts, step
from einc.ir.plan import Module, Move, Step, makes


@dataclass(frozen=True)
class Asked:
    """The results that a caller may leave out, a bit for each, and for each step of some the results that it is for; so
    for each buffer, `needed`.
    """

    results: tuple[str, ...]
    bits: tuple[int, ...]
    needed: Mapping[str, int]

    @property
    def every(self) -> int:
        """The number whose bits say that all results are wanted."""
        return (1 << len(self.results)) - 1

    def of(self, some: int) -> list[str]:
        """The results that the bits of a number say are wanted."""
        return [key for n, key in enumerate(self.results) if some >> n & 1]

    @property
    def apart(self) -> bool:
        """Whether some step is not for every result."""
        return any(some not in (0, self.every) for some in self.bits)

    def made(self, module: Module, results: Sequence[str]) -> tuple[int, ...]:
        """For each of some results of a module, of whose steps the bits are, those with which it is made."""
        found = {key: some or self.every for one, some in zip(module.steps, self.bits, strict=True)
                 for key in makes(one)}
        return tuple(found.get(key, self.every) for key in results)


def purposes(module: Module, results: Sequence[str]) -> Asked:
    """For each step the results that it is for."""
    needed = {key: 1 << n for n, key in enumerate(results)}
    out: list[int] = []
    for one in reversed(module.steps):
        out.append(0)
        for made, read in _apart(one):
            bits = reduce(or_, (needed.get(key, 0) for key in made), 0)
            if isinstance(one, Move) and one.kind == "counts":  # whatever is wanted, sizes are
                bits = (1 << len(results)) - 1
            for key in read:
                needed[key] = needed.get(key, 0) | bits
            out[-1] |= bits
    return Asked(tuple(results), tuple(out[::-1]), needed)


def _apart(step: Step) -> Iterable[tuple[Iterable[str], Iterable[str]]]:
    """What a step makes with what it reads for that: tensors in one message have nothing to do with each other."""
    if isinstance(step, Move):
        return [([made], [read, *step.beside]) for read, made in step.pairs]
    return [(makes(step), reads(step))]


def steps_for(page: Page, dialect: Dialect, results: Sequence[str], asked: Asked) -> None:
    """Writes the steps; those that are not for every result where `wanted` says that one of theirs is asked for."""
    body, counted = page.body, set[str]()
    body()
    for key, made in zip(results, asked.made(page.module, results), strict=True):
        if made != asked.every:
            body(f"{key} = torch.empty(0, dtype={element(page.module.buffers[key], named=False)}, device=device)")
    for some, found in groupby(zip(asked.bits, page.module.steps, strict=True), key=lambda pair: pair[0]):
        steps = [one for _, one in found]
        for one in steps:
            counts(one, body, counted)
        here = page
        if some not in (0, asked.every):
            body()
            body.open(f"if wanted & {some}:  # {', '.join(asked.of(some))}")
            here = replace(page, places=dict(page.places))
        for at, one in enumerate(steps):
            if at or here is page:
                body()
            step(one, here, dialect)
        if here is not page:
            body.close()
