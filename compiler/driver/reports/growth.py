"""What a plan costs beyond pairs of positions in time and positions in memory: one line for each step that takes time
beyond T², stores more than some numbers for each position, or takes positions one after the other.

Non-goals: how large the figures are for given sizes, which the tables print; what the caller asks for as a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from einc.ir.indices import Extent, Monomial
from einc.ir.plan import (
    Choose,
    Gradient,
    GradientLoop,
    Hops,
    Loop,
    Module,
    PerRequest,
    RowBlocks,
    SegmentedModule,
    Step,
    makes,
    modules,
)
from einc.planning.analysis.cost import size_of
from einc.planning.row_blocks import positions, power

_SQUARE, _LINE = 2, 1  # the powers of the number of positions that time and memory may have without a line


def growth(module: Module, known: Mapping[str, int] = MappingProxyType({}), shown: Set[str] | None = None) -> list[str]:
    """The lines, in the order of the steps, with their numbers; figures stand for formulas where sizes are known.
    `shown` are the results that the caller asks for: all, unless told.
    """
    shown = {key for _, key in module.outputs} if shown is None else shown
    told = _Told(module, positions(module.sets), known, shown)
    return [line for n, step in enumerate(module.steps, 1) for line in told.lines(str(n), step, module, 0)]


def growth_of(plan: Module | Gradient | SegmentedModule) -> Iterator[str]:
    """Yields the lines of a whole plan, those of a gradient with the half or the piece that they are of."""
    shown = returned(plan)
    for title, module, _ in modules(plan):
        yield from (f"{title}, {line}" if title else line for line in growth(module, shown=shown))
    for loop in (x for x in (plan.pieces if isinstance(plan, SegmentedModule) else ()) if isinstance(x, GradientLoop)):
        if power(loop.index.set.extent, positions([loop.index.set])):
            yield f"a piece {_in_turn(loop.index.set.extent)}"


def returned(plan: Module | Gradient | SegmentedModule) -> frozenset[str]:
    """The keys of what the caller asks for: outputs, and gradients of inputs. All else is stored between halves and
    pieces.
    """
    match plan:
        case Module():
            return frozenset(key for _, key in plan.outputs)
        case Gradient():
            return frozenset([*(key for _, key in plan.shown), *(made for _, made in plan.gradients)])
        case SegmentedModule():
            asked = {t.key for t in plan.asked}
            return frozenset([*(key for _, key in plan.whole.outputs),
                              *(made for half, _ in plan.gradients for of, made in half.gradients if of in asked)])
        case _:
            assert_never(plan)


def _in_turn(extent: Extent) -> str:
    return f"takes {extent} positions one after the other: not each of its states is affine in itself alone"


@dataclass(frozen=True)
class _Told:
    """`names` are the sizes that count positions, `known` those that have a number, and `shown` the keys of what the
    caller asks for of the module; what a body inside of it gives is made by the step around.
    """

    whole: Module
    names: set[str]
    known: Mapping[str, int]
    shown: Set[str]

    def lines(self, name: str, step: Step, module: Module, rounds: int) -> Iterator[str]:
        """Yields what is said of how the time of one step grows with the positions; the rounds of the loops around it
        grow with this power of the positions.
        """
        match step:
            case Choose():
                ways = [[x for one in way for x in self.lines(name, one, module, rounds)] for way in step.bodies]
                yield from min(ways, key=len)
            case Loop():
                over = self._power(step.index.set.extent)
                if over:
                    yield f"step {name} {_in_turn(step.index.set.extent)}"
                yield from self._inside(name, step.body, rounds + over)
            case RowBlocks():
                yield from self._inside(name, step.throughout, rounds)
            case Hops() | PerRequest():
                yield from self._inside(name, step.body, rounds)
            case _:
                yield from self._of_leaf(name, step, module, rounds)

    def _inside(self, name: str, body: Module, rounds: int) -> Iterator[str]:
        """What is said of the steps of a body."""
        for n, one in enumerate(body.steps, 1):
            yield from self.lines(f"{name}.{n}", one, body, rounds)

    def _of_leaf(self, name: str, step: Step, module: Module, rounds: int) -> Iterator[str]:
        """What is said of a step without steps inside: its time, with that of the loops around, and what it stores."""
        if self._power(step.cost.flops) + rounds > _SQUARE:
            flops = self._leading(step.cost.flops, "")
            yield f"step {name} takes time beyond the square of positions: {flops} flops"
        for key in sorted(makes(step) - (self.shown if module is self.whole else {key for _, key in module.outputs})):
            buffer = module.buffers.get(key)
            if buffer is not None and self._power(size_of(buffer)) > _LINE:
                yield f"step {name} stores pairs of positions: `{key}` has {self._leading(size_of(buffer), 'B')}"

    def _degree(self, mono: Monomial) -> int:
        """The largest power of one number of positions."""
        return max((int(power) for size, power in mono if size in self.names), default=0)

    def _power(self, extent: Extent) -> int:
        """The largest power of one number of positions in a formula."""
        return power(extent, self.names)

    def _leading(self, extent: Extent, unit: str) -> str:
        """The terms of the largest power, or their sum where it is known."""
        most, extent = self._power(extent), extent.smooth
        leading = Extent(tuple((m, c) for m, c in extent.terms if self._degree(m) == most))
        if leading.sizes <= self.known.keys():
            return human(float(leading.at(self.known)), unit)
        return str(leading).replace("**", "^").replace(" * ", "·") + " bytes" * bool(unit)


def human(value: float, unit: str) -> str:
    """A number with three digits and a prefix of its unit, in steps of 1,000: `1.05 MB`."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            return f"{value:.3g} {prefix}{unit}".rstrip()
        value /= 1000
    return f"{value:.3g} P{unit}"
