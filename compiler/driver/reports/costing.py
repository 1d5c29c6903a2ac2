"""What a plan costs, step by step and as a whole, for every way through it: the account that `einc cost` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from einc.driver.reports.table import is_known, numbers, taken_way, tile_lengths, within
from einc.ir.indices import Extent, number
from einc.ir.plan import (
    Choose,
    Cost,
    Hops,
    Loop,
    Module,
    PerRequest,
    RowBlocks,
    Step,
    modules,
)
from einc.planning.analysis.memory import first_way, largest, standing, work
from einc.planning.contractions.choose import price

__all__ = ["BYTES", "ModuleCost", "Part", "Way", "account", "is_known_all", "modules", "turn", "value"]

BYTES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}
_WAYS = 8  # at most; of several choices each is then taken as its first option
_FARTHEST = 1 << 24  # the greatest size at which two ways are compared


@dataclass(frozen=True, slots=True)
class Part:
    """One step: its number, what it does, what it makes, its cost over all rounds, and the buffers in memory while it
    runs.

    `known` are the sizes that have a number, the lengths of its tiles among them.
    """

    name: str
    does: str
    makes: tuple[str, ...]
    cost: Cost
    alive: Extent
    known: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a plan: of each choice one option. `peak` are the moments of which none has the most for
    certain.
    """

    label: str
    parts: tuple[Part, ...]

    @property
    def flops(self) -> Extent:
        """The floating-point operations of all steps together, by the sizes."""
        return sum((p.cost.flops for p in self.parts), number(0))

    @property
    def read(self) -> Extent:
        """The bytes that all steps read together, by the sizes."""
        return sum((p.cost.read for p in self.parts), number(0))

    @property
    def written(self) -> Extent:
        """The bytes that all steps write together, by the sizes."""
        return sum((p.cost.written for p in self.parts), number(0))

    @property
    def peak(self) -> tuple[Extent, ...]:
        """The bytes in memory at the moments that may be the largest."""
        return largest(p.alive for p in self.parts)


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """The cost of one module: the text calls it `title`; `choices` are its steps that choose, by their numbers."""

    title: str
    ways: tuple[Way, ...]
    choices: tuple[tuple[int, Choose], ...]
    known: Mapping[str, int]


def account(title: str, module: Module, count: Extent, sizes: Mapping[str, int], real: int) -> ModuleCost:
    """What a module costs that runs so often, its data in elements of `real` bytes."""
    known = numbers(module, sizes)
    choices = tuple((n, s) for n, s in enumerate(module.steps, 1) if isinstance(s, Choose))
    options = [[way] if (way := taken_way(s, known)) is not None else range(len(s.options)) for _, s in choices]
    picks = list(product(*options))
    places = [n for n, _ in choices]
    ways = tuple(_way(module, dict(zip(places, pick, strict=True)), count, known, real) for pick in picks[:_WAYS])
    return ModuleCost(title, ways, choices, known)


def _way(module: Module, pick: Mapping[int, int], count: Extent, known: Mapping[str, int], real: int) -> Way:
    """The way that takes these options, by the numbers of the steps that choose."""
    named: list[tuple[str, Step]] = []
    labels = []
    for n, step in enumerate(module.steps, 1):
        if isinstance(step, Choose):
            letter, (option, steps) = chr(ord("a") + pick[n]), step.ways[pick[n]]
            labels.append(f"{letter} {option.label}" if len(pick) == 1 else f"{n}{letter} {option.label}")
            named += [(f"{letter}{k}", s) for k, s in enumerate(steps, 1)]
        else:
            named.append((str(n), step))
    alive = standing(module, [s for _, s in named], real)
    parts = [part for (name, step), here in zip(named, alive, strict=True)
             for part in _parts(module, name, step, count, here, known, real)]
    return Way("; ".join(labels), tuple(parts))


def _parts(module: Module, name: str, step: Step, count: Extent, alive: Extent, known: Mapping[str, int],
           real: int) -> Iterator[Part]:
    """The parts of one step, which runs `count` times; those of rounds and of requests are the parts of their steps."""
    match step:
        case Choose():
            raise AssertionError("one way is taken")
        case RowBlocks():
            for n, inner in enumerate(first_way(step.throughout.steps), 1):
                yield from _parts(step.throughout, f"{name}.{n}", inner, count, alive, within(step, known), real)
        case Hops() | Loop() | PerRequest():
            times = step.index.set.extent if isinstance(step, Loop) else number(
                step.around.group.ranks if isinstance(step, Hops) else 1)
            for n, inner in enumerate(first_way(step.body.steps), 1):
                yield from _parts(step.body, f"{name}.{n}", inner, count * times, alive, known, real)
        case _:
            cost = work(step, module, real)
            often = Cost(cost.flops * count, cost.read * count, cost.written * count, cost.held)
            lengths = tile_lengths(step, known, bool(module.past))
            yield Part(name, step.does, step.writes, often, alive, {**known, **lengths})


def turn(step: Choose, known: Mapping[str, int], name: str) -> list[tuple[int, int]]:
    """Where the call changes its way as one size grows from 1, the others known: (the first value, the place of the
    option).
    """
    sizes = {n for o in step.options for _, flops, moved in o.prices for n in (flops + moved).sizes}
    if not is_known_all(sizes - {name}, known):
        return []

    def best(value: int) -> int:
        prices = [price(step, o, {**known, name: value}) for o in step.options]
        return prices.index(min(prices))

    out, low = [(1, best(1))], 1
    while low < _FARTHEST:
        high = 2 * low
        if best(high) != out[-1][1]:
            first, last = low, high
            while last - first > 1:
                middle = (first + last) // 2
                first, last = (middle, last) if best(middle) == out[-1][1] else (first, middle)
            out.append((last, best(last)))
        low = high
    return out


def is_known_all(names: set[str], known: Mapping[str, int]) -> bool:
    """Whether every one of some sizes has a number."""
    return names <= known.keys()


def value(extent: Extent, known: Mapping[str, int]) -> float | None:
    """The number, where the sizes say it."""
    return float(extent.at(known)) if is_known(extent, known) else None
