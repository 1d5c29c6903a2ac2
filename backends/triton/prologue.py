"""What a program is: its element of every program axis, its tile of the others, the positions of that tile."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from einc.backends.host.code import tight
from einc.backends.triton.bounds import Numbers
from einc.backends.triton.layout import Dim, Layout
from einc.backends.triton.loads import extent_text
from einc.backends.triton.phases import Phases
from einc.backends.triton.resources import Room, measured
from einc.backends.triton.resources import text as polynomial
from einc.backends.triton.scatters import ScatterWriter
from einc.backends.writer import identifier
from einc.ir.plan import Kernel, Let


@dataclass
class Frame:
    """The text of a kernel in the making. `parts`: several programs may share the passed axis of one tile."""

    scribe: ScatterWriter
    stages: Phases
    numbers: Numbers
    parts: bool = False
    # program axis, or cut dimension -> how many of it, for the host
    counts: dict[str, str] = field(default_factory=dict)
    tiles: dict[str, str] = field(default_factory=dict)  # cut dimension -> which of its tiles the program has

    def __post_init__(self) -> None:
        self.given, self.body = self.scribe.arguments, self.scribe.body

    @property
    def kernel(self) -> Kernel:
        """The kernel of the plan whose text is written."""
        return self.scribe.kernel

    @property
    def layout(self) -> Layout:
        """How the axes of the kernel lie in a tile."""
        return self.scribe.layout

    @cached_property
    def room(self) -> Room:
        """What one program of the kernel holds in registers and shared memory, estimated from its tiles."""
        return measured(self.kernel, self.layout, self.stages)

    def fresh(self, wanted: str) -> str:
        """A name that the kernel does not have yet: as wanted, or with a number after it. It is taken from now on."""
        return self.given.names.fresh(wanted)

    def lets(self, lets: tuple[Let, ...], ends: frozenset[str] = frozenset()) -> None:
        """Writes the statements of lets; the kernel knows how."""
        raise NotImplementedError(lets, ends)

    def place(self) -> None:
        """Writes where the program stands along every axis that does not move while it runs."""
        self._programs()
        for dim in self.layout.dims:
            if dim.role == "whole":
                (axis,) = dim.axes
                at = self.scribe.place.at[axis] = self.fresh(f"{dim.name}_at")
                self.body(f"{at} = tl.arange(0, {self.given.block(dim.name)}).to(OFFSET)")
                self._mask(dim, at, self.scribe.extent(dim))
                self._bytes(dim, "", self.scribe.extent(dim))
        for dim in self.layout.dims:
            if dim.role == "columns" or (dim.role == "rows" and self.kernel.resumed is None):
                self.pack(dim, f"{self.tiles[dim.name]} * {self.given.block(dim.name)}")

    def _programs(self) -> None:
        """Writes which element or tile each program has: a tile of the rows, the heaviest first, of the columns, and
        one element of every other axis.
        """
        cut = [d for d in self.layout.dims
               if d.role in ("rows", "columns") and not (d.role == "rows" and self.kernel.resumed)]
        digits: list[tuple[str, str]] = []
        for dim in cut:
            total, block = self._total(dim), self.given.block(dim.name)
            self.counts[dim.name] = f"-(-{tight(extent_text(self.given, self.kernel, dim.axes))} // {block})"
            name = self.tiles[dim.name] = self.fresh(f"{dim.name}_tile")
            self.scribe.place.which = name if dim.role == "rows" else self.scribe.place.which
            digits.append((name, f"tl.cdiv({total}, {block})"))
        for axis in reversed(self.layout.programs):
            name = self.scribe.place.at[axis] = self.fresh(identifier(axis))
            self.counts[axis] = extent_text(self.given, self.kernel, (axis,))
            digits.append((name, self.counts[axis]))
        longest = self.longest() if cut and cut[0].role == "rows" else ""
        place = "tl.program_id(0).to(OFFSET)"
        if len(digits) + self.parts > 1:
            self.body(f"program = {place}")
            place = "program"
        if longest and len(digits) > 1:
            self._in_bands(digits, longest)
        else:
            self._digits([*digits, *[("part", "parts")] * self.parts], place, longest)

    def _digits(self, digits: list[tuple[str, str]], place: str = "program", longest: str = "") -> None:
        """Writes the digits of the number of a program, which stands at `place`: each with its name and its base, the
        lowest first. Where the `longest` tile is the last one, the greatest value of the lowest digit comes first."""
        for n, (name, count) in enumerate(digits):
            last, turned = n == len(digits) - 1, n == 0 and longest == "last"
            many = self._counted(name, count) if turned or not last else count
            text = place if last else f"{place} % {tight(many)}"
            self.body(f"{name} = {f'{many} - 1 - {text}  # the longest first' if turned else text}")
            if not last:
                self.body(f"program = program // {tight(many)}")

    def _in_bands(self, digits: list[tuple[str, str]], longest: str) -> None:
        """Writes the digits where some tiles of rows take longer than others. The longest of all the other digits come
        first, so that no processor begins one when the rest are done; in bands of as many others as the cache of the
        device holds what they read."""
        (name, count), *rest = digits
        rows = self._counted(name, count)
        others = self.fresh("others")
        self.body(f"{others} = {' * '.join(tight(many) for _, many in rest)}")
        if self.parts:
            self.body(f"part = program // ({rows} * {others})")
            self.body(f"program = program % ({rows} * {others})")
        bands = self.given.bands(" * ".join(list(self.counts.values())[1:]), self._reads())
        self.scribe.helpers.add("_in_bands")
        self.body(f"{name}, program = _in_bands(program, {rows}, {others}, {bands})")
        if longest == "last":
            self.body(f"{name} = {rows} - 1 - {name}  # the longest first")
        self._digits(rest)

    def _counted(self, name: str, count: str) -> str:
        """How many tiles there are, under a name."""
        if not count.startswith("tl.cdiv"):
            return count
        self.body(f"{(many := self.fresh(f'{name}s'))} = {count}")
        return many

    def _reads(self) -> str:
        """How many elements the tiles of one pass read together, for the host."""
        passed = self.layout.role("passed")
        lengths = {dim.name: self.given.block(dim.name) for dim in self.layout.dims}
        if passed is not None:
            lengths[passed.name] = tight(extent_text(self.given, self.kernel, passed.axes[:1]))
        return polynomial(self.room.moved, lengths)

    def longest(self) -> Literal["first", "last", ""]:
        """Whether the first or the last rows reach farthest, "" where none do or it is not known."""
        stream = self.kernel.stream
        spans = stream.bound.spans if stream is not None and stream.bound is not None else ()
        if any(s.high and not s.low for s in spans):
            return "last"
        return "first" if any(s.low and not s.high for s in spans) else ""

    def _total(self, dim: Dim) -> str:
        """The elements of a cut dimension; of a pack there may be more than 32 bits count."""
        first, *others = (extent_text(self.given, self.kernel, (a,)) for a in dim.axes)
        return " * ".join([f"tl.cast({first}, OFFSET)", *map(tight, others)]) if others else first

    def _mask(self, dim: Dim, at: str, extent: str) -> None:
        name = self.scribe.place.inside[dim.name] = self.fresh(f"{dim.name}_in")
        self.body(f"{name} = {at} < {extent}")

    def _bytes(self, dim: Dim, first: str, extent: str) -> None:
        """Writes the bytes of the numbers of a dimension, of which two lie in each, where the kernel reads such."""
        if any(self.scribe.module.buffers[name].element.shared for name in self.kernel.reads):
            at, inside = self.fresh(f"{dim.name}_bytes"), self.fresh(f"{dim.name}_bytes_in")
            self.body(f"{at} = {first}tl.arange(0, {self.given.block(dim.name)} // 2).to(OFFSET)")
            self.body(f"{inside} = {at} < tl.cdiv({extent}, 2)")
            self.scribe.place.bytes[dim.name] = at, inside

    def pack(self, dim: Dim, start: str) -> None:
        """Writes the positions of a cut dimension in this tile, and where the tile ends along its slowest axis."""
        total, block = self._total(dim), self.given.block(dim.name)
        first, at = self.fresh(f"{dim.name}0"), self.fresh(f"{dim.name}_at")
        self.body(f"{first} = {start}")
        self.body(f"{at} = {first} + tl.arange(0, {block})")
        if len(dim.axes) > 1:  # sizes have 32 bits, and their product may not
            factors = [tight(extent_text(self.given, self.kernel, (axis,))) for axis in dim.axes]
            total = " * ".join([f"tl.cast({factors[0]}, OFFSET)", *factors[1:]])
        self._mask(dim, at, total)
        last = self.fresh(f"{dim.name}1")
        self.body(f"{last} = tl.minimum({first} + {block}, {total}) - 1")
        if len(dim.axes) == 1 and dim.role == "columns":
            self._bytes(dim, f"{first} // 2 + ", total)
        if len(dim.axes) == 1:
            self.scribe.place.at[dim.axes[0]] = at
            self.numbers.ends[dim.axes[0]] = (first, last)
            return
        rest = at
        for n, axis in reversed(list(enumerate(dim.axes))):
            extent = tight(extent_text(self.given, self.kernel, (axis,)))
            name = self.scribe.place.at[axis] = self.fresh(f"{identifier(axis)}_at")
            self.body(f"{name} = {rest} % {extent}" if n else f"{name} = {rest}")
            rest = f"{rest} // {extent}"
        later = tight(extent_text(self.given, self.kernel, dim.axes[1:]))
        self.numbers.ends[dim.axes[0]] = (f"({first} // {later})", f"({last} // {later})")
