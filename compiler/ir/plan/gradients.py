"""What stands around modules: a class with weights, the two halves of a gradient, pieces in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from einc.ir.indices import Extent, Index, number
from einc.ir.plan.modules import Module
from einc.ir.plan.operations import Recurrence, StateScan
from einc.ir.programs import Tensor


@dataclass(frozen=True, slots=True)
class Weight:
    """How a weight begins: ones where it scales, zeros where it is added, else normal;
    `over` is how many products a sum takes."""

    key: str
    start: Literal["ones", "zeros", "normal"]
    over: Extent


@dataclass(frozen=True, slots=True)
class ModuleClass:
    """A class around the function. `rates` are scalars that chance is compared with,
    `seeds` those that it is made of."""

    weights: tuple[Weight, ...]
    rates: frozenset[str]
    seeds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Gradient:
    """A module in two halves. `forward` gives the outputs, and after them what is saved; `backward` takes inputs of
    `forward`, what was saved, and a cotangent for each output of numbers, and gives the gradients.

    `saved` are (output of `forward`, input of `backward`), `cotangents` (output, input of `backward`), `gradients`
    (input of `forward`, output of `backward`), all by their keys; inputs that both halves have, have one key in both.
    `plain` is `forward` with nothing saved, where that is faster: it has the same inputs. `declared` are the
    functions that a gradient passes by a slope that is not that of their meaning.
    """

    forward: Module
    backward: Module
    saved: tuple[tuple[str, str], ...]
    cotangents: tuple[tuple[str, str], ...]
    gradients: tuple[tuple[str, str], ...]
    plain: Module | None = None
    declared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the forward module, which is that of the function."""
        return self.forward.name

    @property
    def asked(self) -> tuple[Tensor, ...]:
        """The tensors that a caller hands over: the inputs of the forward program."""
        return self.forward.inputs

    @property
    def sizes(self) -> frozenset[str]:
        """The sizes that a caller gives or data fix."""
        return self.forward.sizes.union(self.plain.sizes if self.plain else ())

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The outputs that a caller sees: all up to the last that is not merely saved."""
        merely = {key for key, _ in self.saved} - {key for key, _ in self.cotangents}
        last = max(n for n, (_, key) in enumerate(self.forward.outputs) if key not in merely)
        return self.forward.outputs[: last + 1]


@dataclass(frozen=True, slots=True)
class GradientLoop:
    """Rounds in order where one round has a gradient: `Loop` but for its body, in pieces where loops stand in a round.
    What `body` asks for is given, and those outputs of it that are not merely saved are the next values of the
    states and the parts of what is kept. Of `every` so many rounds nothing is saved but what they begin with: for the
    gradient they are made again. 0: what a gradient needs is saved.
    """

    index: Index
    body: Gradient | SegmentedModule
    given: tuple[tuple[str, str, int | None], ...]
    counter: str
    states: tuple[tuple[str, str, str], ...]
    kept: tuple[tuple[str, str, int], ...]
    sizes: tuple[tuple[str, str], ...]
    every: int = 0


@dataclass(frozen=True, slots=True)
class SegmentedModule:
    """A program with rounds, in pieces that have gradients. `whole` has what the caller gives and gets,
    and no steps: the pieces read inputs and buffers of it by their keys, and what one of them gives
    that is not merely saved is a buffer of it. Steps among the pieces are differentiated by torch.
    `declared` is that of `Gradient`.
    """

    whole: Module
    pieces: tuple[Gradient | GradientLoop | Recurrence | StateScan, ...]
    declared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the whole module, which is that of the function."""
        return self.whole.name

    @property
    def asked(self) -> tuple[Tensor, ...]:
        """The tensors that a caller hands over: the inputs of the whole program."""
        return self.whole.inputs

    @property
    def sizes(self) -> frozenset[str]:
        """The sizes that a caller gives or data fix."""
        return self.whole.sizes

    @property
    def gradients(self) -> Iterator[tuple[Gradient, Extent]]:
        """The pieces that have a backward half, those of loops too, in order, each with how often it runs."""
        for piece in self.pieces:
            match piece:
                case Gradient():
                    yield piece, number(1)
                case GradientLoop(index, Gradient() as body):
                    yield body, index.set.extent
                case GradientLoop(index, SegmentedModule() as body):
                    yield from ((inner, index.set.extent * count) for inner, count in body.gradients)


@dataclass(frozen=True, slots=True)
class PerRank:
    """What one rank of a mesh does: a module, the two halves of a gradient, or pieces with gradients, with moves among
    their steps.

    `axes` are those of the mesh with their ranks. `cuts` say for each input and each output, by its key, what a rank
    has of it on each axis: its part of a slot, with the extent of what stands before the part that is cut in a
    composite, or, where it is None, all of it. On each axis a rank is told its place, a size, and the group of the
    ranks that it sends to, for each set of axes in `groups`. With `stages` it is the first of these.
    """

    body: Module | Gradient | SegmentedModule
    axes: tuple[tuple[str, int], ...]
    cuts: tuple[tuple[str, tuple[tuple[int, Extent] | None, ...]], ...]
    groups: tuple[tuple[str, ...], ...]
    stages: Stages | None = None

    @property
    def name(self) -> str:
        """The name of the module that the ranks run, of its stages where it has some."""
        return self.body.name if self.stages is None else self.stages.name

    @property
    def forward(self) -> Module:
        """What is computed first, or, of a program in pieces, what stands around them."""
        match self.body:
            case Gradient():
                return self.body.forward
            case SegmentedModule():
                return self.body.whole
        return self.body

    @property
    def told(self) -> tuple[str, ...]:
        """The sizes that are said of the rank itself."""
        return (*(place_of(axis) for axis, _ in self.axes), *map(group_of, self.groups))


@dataclass(frozen=True, slots=True)
class Stages:
    """The rounds of a program as stages, one for each of the `ranks` of an axis: the kinds of stages, the first, those
    between if there are such, and the last, each with what a class of its weights needs to know.

    `handed` are the inputs that a stage has from the one before. `rounds` are the sizes that count all rounds, and
    those of a stage; `before` is the input that counts those before, if any. `parts` of the data go through in the
    order of a `schedule`: of the inputs that are cut the slots are in `along`, of the outputs in `joined`.
    """

    name: str
    axis: str
    ranks: int
    kinds: tuple[tuple[PerRank, ModuleClass], ...]
    handed: tuple[str, ...]
    rounds: tuple[str, str]
    before: str
    schedule: str
    parts: int
    along: tuple[tuple[str, int], ...]
    joined: tuple[int, ...]


def place_of(axis: str) -> str:
    """The size that is the place of a rank on an axis, counted from 1. No name of the language has a dot."""
    return f"{axis}.rank"


def group_of(axes: tuple[str, ...]) -> str:
    """The size that stands for the ranks with which a rank shares its places on all other axes."""
    return f"{'_'.join(axes)}.group"


def modules(plan: Module | Gradient | SegmentedModule) -> Iterator[tuple[str, Module, Extent]]:
    """The modules of a plan in the order in which they run, each with a title and how often it runs."""
    match plan:
        case Module():
            yield "", plan, number(1)
        case Gradient():
            yield "forward", plan.forward, number(1)
            yield from [("backward", plan.backward, number(1))] if plan.gradients else []
        case SegmentedModule():
            halves = [*plan.gradients]
            for n, (half, count) in enumerate(halves, 1):
                yield f"forward of piece {n}", half.forward, count
            for n, (half, count) in reversed([*enumerate(halves, 1)]):
                yield from [(f"backward of piece {n}", half.backward, count)] if half.gradients else []
