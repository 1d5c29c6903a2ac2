"""Loads: elements of stored tensors as views, slices, and general gathers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.backends.host.code import ATOM, SUM, Code, letters_of, some
from einc.backends.torch.ownership import Ownership
from einc.backends.writer import Names, Writer, identifier, sized
from einc.ir.elements import RANGED, REAL
from einc.ir.indices import IndexSet
from einc.ir.plan import (
    AxisRef,
    Flatten,
    Gather,
    Iota,
    Kernel,
    Let,
    Load,
    Map,
    Module,
    Scalar,
    Select,
    Slice,
    Subscript,
    axes_of,
)
from einc.ir.terms import Const


@dataclass
class Stored:
    """How the buffers that a kernel reads lie in memory."""

    casts: dict[str, str] = field(default_factory=dict)  # buffer -> name of its wide copy, or of its codes
    laid: frozenset[str] = frozenset()  # buffers that are objects of the cache, which hands out their tiles
    spent: frozenset[str] = frozenset()  # buffers that nothing reads after this kernel, which reads them once


@dataclass
class Tiled:
    """The tile that statements are written for: how far its axes reach, and whether they stand in a loop over tiles."""

    ranges: dict[str, tuple[str, str]] = field(default_factory=dict)  # axis -> its slice within the tile
    pieces: dict[str, str] = field(default_factory=dict)  # axis -> its spans, where it has several
    inside: bool = False  # inside the loop over tiles
    columns: str = ""  # how many elements of the streamed axis a step takes
    tiled: bool = False  # a loop over tiles
    widened: bool = False  # in the wide type: loads are widened, tile by tile


@dataclass
class Carried:
    """What goes from tile to tile: the variables that live through the stream, and what a tile changes of them."""

    carried: dict[str, str] = field(default_factory=dict)  # let -> the variable that lives through the stream
    # let -> what it was when this tile began, where it has grown since
    former: dict[str, str] = field(default_factory=dict)
    scales: dict[str, str] = field(default_factory=dict)  # reference -> the factor of this step


@dataclass
class Memory:
    """Memory that every tile uses again: of lets, of lets in another type, and for what is widened."""

    memory: dict[str, str] = field(default_factory=dict)  # let -> memory
    converted: dict[tuple[str, str], str] = field(default_factory=dict)  # let, type -> memory for it
    near: str = ""  # memory in which what is passed over is widened


@dataclass
class Reader:
    """What is known while one kernel is written: the names of its axes and lets, the
    slices of its tile. It reads buffers."""

    module: Module
    kernel: Kernel
    names: Names
    helpers: set[str]
    variables: dict[str, str] = field(default_factory=dict)  # let -> Python name
    write: Writer = field(default_factory=Writer)  # a statement in front of the one being made
    places: dict[tuple[str, IndexSet], str] = field(default_factory=dict)  # whole axes that have a variable already
    stored: Stored = field(default_factory=Stored)
    tile: Tiled = field(default_factory=Tiled)
    passing: Carried = field(default_factory=Carried)
    again: Memory = field(default_factory=Memory)

    @cached_property
    def lets(self) -> Mapping[str, Let]:
        """The lets of the kernel by their names."""
        return {let.name: let for let in self.kernel.lets}

    @cached_property
    def owned(self) -> Ownership:
        """Which values a statement may write over."""
        return Ownership(self.kernel)

    @cached_property
    def sets(self) -> Mapping[str, IndexSet]:
        """The sets of the axes of the kernel."""
        return {a.name: a.set for a in self.kernel.axes}

    @cached_property
    def letters(self) -> Mapping[str, str]:
        """A letter for each axis of the kernel, as products of torch have them."""
        return letters_of([a.name for a in self.kernel.axes])

    @property
    def real(self) -> str:
        """The element type of real values: the wide one within a loop over tiles or
        beside what is wide, else the data's."""
        return "wide" if self.tile.widened else "dtype"

    def value(self, name: str) -> Code:
        """The text of a let as an operand. NotImplementedError: a class that inherits from this one says how."""
        raise NotImplementedError(name)

    def _canonical(self, let: Let) -> Code:
        assert isinstance(let.op, Load)
        code, axes = self.raw(let)
        whole = let.op.buffer in self.stored.spent and let.op.subs == tuple(map(AxisRef, let.axes))
        return replace(self._permuted(self._widened(code, let.op), axes, let.axes), fresh=code.fresh or whole)

    def _widened(self, code: Code, load: Load) -> Code:
        """Elements as the kernel computes with them; what was widened before the tiles stays as it is."""
        found = self.module.buffers[load.buffer].element
        if found.narrow is not None:
            return Code(f"{code.at(ATOM)}.to({'wide' if self.tile.widened else 'dtype'})", ATOM, True)
        wide = load.buffer in self.stored.casts or found not in (REAL, RANGED)
        if not self.tile.widened or wide:
            return code
        return Code(f"{code.at(ATOM)}.to(wide)", raw=code.at(ATOM))

    def _permuted(self, code: Code, mine: tuple[str, ...], wanted: tuple[str, ...]) -> Code:
        if mine == wanted:
            return code
        if len(mine) > 1 and mine[:-2] == wanted[:-2] and mine[-2:] == wanted[:-3:-1]:
            return Code(f"{code.at(ATOM)}.mT", ATOM, code.fresh)
        return Code(f"{code.at(ATOM)}.permute({', '.join(str(mine.index(a)) for a in wanted)})", ATOM, code.fresh)

    def raw(self, let: Let) -> tuple[Code, tuple[str, ...]]:
        """A load with its axes in the order in which they lie in memory."""
        load, args = let.op, let.args
        assert isinstance(load, Load)
        base = self.stored.casts.get(load.buffer, identifier(load.buffer))
        if load.buffer not in self.stored.laid:
            base = some(base, load.subs, self.module.buffers[load.buffer].sets)
        flat = [a for s in load.subs for a in axes_of(s)]
        if len(set(flat)) < len(flat) or not self._simple(let):
            return self._selected(base, load, args) or self._gathered(base, load, args)
        base, tile = self._tile(base, load)
        text, axes, dim = base, [], 0
        slices: list[str] = []
        picks: list[tuple[int, str]] = []
        views: list[str] = []
        for sub in load.subs:
            for piece in self._pieces(sub, dim, views):
                match piece:
                    case AxisRef(axis):
                        low, high = self.tile.ranges.get(axis, ("", "")) if axis != tile else ("", "")
                        slices.append(f"{low if low != '0' else ''}:{high}" if high else ":")
                        axes.append(axis)
                    case Gather(arg) if not self.lets[args[arg]].axes:
                        slices.append(self._index(args[arg], piece))
                    case Gather(arg):
                        at = len(axes)
                        picks.append((at, f".flip({at})" if self._reversed(args[arg])
                                      else self._index(args[arg], piece)))
                        axes.append(self.lets[args[arg]].axes[0])
                        slices.append(":")
                dim += 1
        text = base + "".join(views)
        if any(s != ":" for s in slices):
            while slices[-1] == ":":
                slices.pop()
            text += f"[{', '.join(slices)}]"
        for at, index in picks:
            text += index if index.startswith(".") else f"[{', '.join([':'] * at + [index])}]"
        return Code(text), tuple(axes)

    def _tile(self, base: str, load: Load) -> tuple[str, str]:
        """Of an object of the cache the tile at which the stream stands, and the axis that is done with it."""
        stream = self.kernel.stream
        if load.buffer not in self.stored.laid or stream is None:
            return base, ""
        return f"{base}.tile({', '.join(self.tile.ranges[stream.name])})", stream.name

    def follows(self, let: Let, dim: int) -> bool:
        """Whether slot `dim` of the buffer that a let loads runs along the streamed axis, so that a tile of it is a
        slice: each axis stands in one slot alone, and a computed subscript varies along one axis of its own."""
        load = let.op
        assert isinstance(load, Load)
        flat = [a for s in load.subs for a in axes_of(s)]
        stream = self.kernel.stream
        along = stream is not None and load.subs[dim] == AxisRef(stream.name)
        return along and len(set(flat)) == len(flat) and self._simple(let)

    def _pieces(self, sub: Subscript, dim: int, views: list[str]) -> list[AxisRef | Gather]:
        """The dimensions of a subscript once its view is taken. Changes `views`."""
        match sub:
            case Flatten(parts, sets):
                views.append(f".unflatten({dim}, ({', '.join(sized(s.extent) for s in sets)}))")
                out: list[AxisRef | Gather] = []
                for n, part in enumerate(parts):
                    out += self._pieces(part, dim + n, views)
                return out
            case Slice(item, before, extent):
                views.append(f".narrow({dim}, {sized(before)}, {sized(extent)})")
                return self._pieces(item, dim, views)
            case AxisRef() | Gather():
                return [sub]

    def _simple(self, let: Let) -> bool:
        """Every computed subscript of a load is a number, or varies along one axis of its own."""
        assert isinstance(let.op, Load)
        plain = {a for s in let.op.subs for a in axes_of(s)}
        mine = [self.lets[v].axes for v in let.args if not isinstance(self.lets[v].op, Scalar)]
        return (all(len(m) == 1 for m in mine) and len({m for m in mine}) == len(mine)
                and not any(m[0] in plain for m in mine))

    def _reversed(self, value: str) -> bool:
        """Whether the subscript runs through its whole axis backwards."""
        match self.lets[value]:
            case Let(op=Map("sub"), args=(last, place)):
                match self.lets[last].op, self.lets[place].op:
                    case Scalar(Const(number)), Iota(axis) if axis not in self.tile.ranges:
                        set_ = self.sets[axis]
                        return set_.extent.constant == number - 2 * set_.start + 1
        return False

    def _index(self, value: str, sub: Gather) -> str:
        """Storage positions of a computed subscript whose number is the value. Changes `self.helpers`."""
        code, start, extent = self.value(value), sub.set.start, sized(sub.set.extent)
        text = (str(int(code.text) - start) if code.text.isdigit() else f"{code.at(SUM)} - {start}" if start
                else code.text)
        if not sub.safe and sub.told:
            self.helpers.add("_reached")
            return (f"_reached({json.dumps(sub.told, ensure_ascii=False)}, {text}, "
                    f"{extent}{f', {start}' if start else ''}{self._guard(value)})")
        if not sub.safe and not self.lets[value].axes and isinstance(self.lets[value].op, Scalar):
            text = f"min(max({text}, 0), {extent} - 1)"
        elif not sub.safe:
            text = f"({text}).clamp(0, max(0, {extent} - 1))"
        return text

    def _guard(self, value: str) -> str:
        """As an argument, where a computed subscript is read: elsewhere it is the first place, which an empty axis has
        not."""
        let = self.lets[value]
        if not isinstance(let.op, Select) or self.lets[let.args[0]].axes != let.axes:
            return ""
        return f", reads={self.value(let.args[0]).text}"

    def _selected(self, base: str, load: Load, args: tuple[str, ...]) -> tuple[Code, tuple[str, ...]] | None:
        """One number of several axes names an element for all the others: a row of places, and its axes again. Writes
        the line that makes it."""
        plain = [s.axis if isinstance(s, AxisRef) else s for s in load.subs]
        numbers = [s for s in plain if isinstance(s, Gather)]
        if len(numbers) != 1 or any(not isinstance(s, str) for s in plain if s not in numbers):
            return None
        mine, at = self.lets[args[numbers[0].arg]].axes, plain.index(numbers[0])
        if len(mine) < 2 or set(mine) & set(plain) or len(set(plain)) < len(plain):
            return None
        slices = [":".join(self.tile.ranges[s]) if isinstance(s, str) and s in self.tile.ranges else ":" for s in plain]
        place = self._index(args[numbers[0].arg], numbers[0])
        index = self.names.fresh("at")
        self.write(f"{index} = {place}")
        text = base if all(s == ":" for s in slices) else f"{base}[{', '.join(slices)}]"
        text += f".index_select({at}, {index}.flatten()).unflatten({at}, {index}.shape)"
        return Code(text, ATOM, True), tuple(str(s) for s in (*plain[:at], *mine, *plain[at + 1:]))

    def _gathered(self, base: str, load: Load, args: tuple[str, ...]) -> tuple[Code, tuple[str, ...]]:
        """The general read: an index for every dimension, all of them broadcast together."""
        wanted = {a for s in load.subs for a in axes_of(s)} | {a for v in args for a in self.lets[v].axes}
        order = tuple(a.name for a in self.kernel.axes if a.name in wanted)
        views: list[str] = []
        indices: list[str] = []
        dim = 0
        for sub in load.subs:
            for piece in self._pieces(sub, dim, views):
                if isinstance(piece, AxisRef):
                    low, high = self.tile.ranges.get(piece.axis, ("0", sized(self.sets[piece.axis].extent)))
                    indices.append(self._expanded(f"torch.arange({low}, {high}, device=device)", (piece.axis,), order))
                else:
                    inner = self.lets[args[piece.arg]].axes
                    text = self._index(args[piece.arg], piece)
                    indices.append(self._expanded(f"({text})", inner, order) if inner else text)
                dim += 1
        # Numbers alone, also as tensors without axes, index a view.
        return Code(f"{base}{''.join(views)}[{', '.join(indices)}]", ATOM, bool(order)), order

    def _expanded(self, text: str, mine: tuple[str, ...], axes: tuple[str, ...]) -> str:
        if not mine:
            return text
        return f"{text}[{', '.join(':' if a in mine else 'None' for a in axes[axes.index(mine[0]) :])}]"
