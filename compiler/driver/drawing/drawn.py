"""What is drawn of a program, by the word for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from einc.driver import compiling
from einc.driver.commands import data
from einc.driver.commands.common import known_sizes
from einc.driver.commands.sizes import default, names, sets
from einc.driver.drawing.domains import domains, weights
from einc.driver.drawing.graphs import graph
from einc.driver.drawing.pictures import Cells, Pictures
from einc.driver.drawing.tiles import tiles
from einc.driver.options import DEFAULTS, Options
from einc.errors.report import failure
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram

WORDS = ("mask", "tiles", "plan", "weights")
SMALL, LARGE = 32, 2048  # positions where nobody says how many: of a picture of points, and of one of tiles


def drawn(program: TypedProgram, what: str, sizes: Mapping[str, int], *, options: Options = DEFAULTS,
          data_file: str | None = None, seed: int = 0, of: str = "", tile: tuple[int, int] = (0, 0)) -> Pictures:
    """The pictures of a program that a word asks for, each with a `text`, an `svg` and a page of its own. Sizes that
    are not given are those of the data, else usual ones. Raises EincError for another word or for sizes that the
    program has not.
    """
    if what not in WORDS:
        raise failure(f"`{what}` is nothing that is drawn", f"what is: {', '.join(WORDS)}")
    known_sizes(sizes, names(program), program.sizes)
    if what == "plan":
        return Pictures([graph(planned(program, options), sizes)])
    known, arrays = _given(program, sizes, LARGE if what == "tiles" else SMALL, data_file, seed)
    if what == "tiles":
        return Pictures(tiles(planned(program, options), known, arrays, *tile))
    return Pictures((domains if what == "mask" else weights)(program, known, arrays, of))


def planned(program: TypedProgram, options: Options) -> Module:
    """The plan of a program. EincError where the options ask for the plans of a gradient."""
    made = compiling.planned(program, options)
    if not isinstance(made, Module):
        raise failure("a gradient has several plans, and one is drawn", "leave the gradient out")
    return made


def _given(program: TypedProgram, sizes: Mapping[str, int], most: int, data_file: str | None,
           seed: int) -> tuple[dict[str, int], Mapping[str, Cells]]:
    """A number for each size, and the inputs: those of a file, or random ones, which are drawn once one is read."""
    if data_file is not None:
        found = data.load(data_file, program, None)
        arrays = {key: data.exact(tensor) for key, tensor in found.items()}
        shapes = {key: array.shape for key, array in arrays.items()}
        return {**default(program, sizes), **_read(program, shapes), **sizes}, arrays
    positions = {name for one in sets(program) if one.cls == "time" for name in one.extent.sizes}
    usual = {name: (most if name in positions else n) for name, n in default(program, sizes).items()}
    known = {**usual, **program.sizes, **sizes}
    return known, _Random(program, known, seed)


@dataclass(frozen=True, eq=False)
class _Random(Mapping[str, Cells]):
    """Random inputs of a program at these sizes. All are drawn when the first is read: a domain may read none, and at
    large sizes the picture is refused before."""

    program: TypedProgram
    sizes: Mapping[str, int]
    seed: int

    @cached_property
    def arrays(self) -> dict[str, Cells]:
        """Each input by its key."""
        found = data.randoms(self.program, self.sizes, "float32", self.seed)
        return {key: data.exact(x) for key, x in found.items()}

    def __getitem__(self, key: str) -> Cells:
        return self.arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def _read(program: TypedProgram, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes that shapes tell."""
    return {name: n for tensor in program.inputs() if tensor.key in shapes
            for slot, n in zip(tensor.slots, shapes[tensor.key], strict=False)
            if len(slot.set.extent.sizes) == 1 and str(slot.set.extent) in slot.set.extent.sizes
            for name in slot.set.extent.sizes}
