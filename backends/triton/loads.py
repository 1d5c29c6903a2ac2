"""Elements of stored tensors as tiles: pointers, and masks for what lies outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einc.backends.host.code import ATOM, SUM, Code, some, tight
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.layout import Dim, Layout
from einc.backends.writer import Writer, identifier, sized
from einc.ir.plan import AxisRef, Flatten, Gather, Kernel, Let, Load, Module, Slice, Store, Subscript

Shape = tuple[Dim, ...]
SPLIT = "phase != 1"  # which tiles of a pass are masked, where the text of each kind stands apart


_NAMES = {"float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}  # where Triton has another than torch


@dataclass(frozen=True, slots=True)
class Step:
    """A share of a storage position: some text along some dimensions, times a number of elements."""

    text: str
    shape: Shape = ()
    times: str = ""
    moves: bool = False  # whether it changes from tile to tile of a pass


@dataclass
class TilePlace:
    """Where the tile stands: the positions of its axes, the masks of their places, and what the passed axis adds."""

    at: dict[str, str] = field(default_factory=dict)  # axis -> its storage positions in the tile
    lanes: dict[str, str] = field(default_factory=dict)  # passed axis -> its places within a tile
    inside: dict[str, str] = field(default_factory=dict)  # dimension -> the mask of its places
    bytes: dict[str, tuple[str, str]] = field(default_factory=dict)  # dimension -> bytes of its numbers, their mask
    paired: set[str] = field(default_factory=set)  # dimensions along which both numbers of a byte are in a tile
    start: str = ""  # where the tile of the passed axis begins
    shift: dict[str, str] = field(default_factory=dict)  # axis -> how far it stands from the passed one
    which: str = ""  # which tile of the rows the program has
    moved: str = ""  # how far the positions of the tile lie from where they would in a row


@dataclass
class Passed:
    """The pass whose loops are being written: which of its tiles are masked, and what stands before its loops."""

    when: str = ""  # the tiles that are masked, as a condition
    mark: tuple[int, int] | None = None  # the line, and its depth, before the loops
    hoisted: dict[str, str] = field(default_factory=dict)  # text -> its name there
    filled: dict[str, float] = field(default_factory=dict)  # let -> what this tile has in its place outside


@dataclass
class Reader:
    """What is known while the text of one kernel is written."""

    module: Module
    kernel: Kernel
    layout: Layout
    arguments: Arguments
    helpers: set[str]
    body: Writer
    variables: dict[str, Code] = field(default_factory=dict)  # let -> its value in this block
    place: TilePlace = field(default_factory=TilePlace)
    passed: Passed = field(default_factory=Passed)

    def __post_init__(self) -> None:
        self.lets: Mapping[str, Let] = {let.name: let for let in self.kernel.lets}
        self.sets = {a.name: a.set for a in self.kernel.axes}
        self.loaded: dict[str, Code] = {}

    def shape(self, name: str) -> Shape:
        """The dimensions of a let in the tile."""
        return self.layout.shape(self.lets[name].axes)

    def value(self, name: str) -> Code:
        """A let as an operand; the scribe knows how."""
        raise NotImplementedError(name)

    def marks(self, mine: Shape, wanted: Shape) -> str:
        """The subscript that aligns a value with more dimensions."""
        if mine == wanted or not mine:
            return ""
        return f"[{', '.join(':' if d in mine else 'None' for d in wanted)}]"

    # addresses

    def load(self, let: Let) -> Code:
        """Writes the tile of a load under a name, in the type of its tensor; what is stored in few bits becomes a
        number of the data's type where it is read, and `raw` is the tile as it is stored.
        """
        assert isinstance(let.op, Load)
        shape, element = self.layout.shape(let.axes), self.module.buffers[let.op.buffer].element
        if element.shared:
            return self._in_bytes(let, let.op, shape)
        pointer = self._pointer(let.op.buffer, let.op.subs, shape, args=let.args)
        if pointer in self.loaded:
            return self.loaded[pointer]
        name = self.arguments.names.fresh(f"{identifier(let.op.buffer)}_tile")
        outside = "0.0" if element.storage.startswith("float8") else "0"
        self.body(f"{name} = {self._masked(let, pointer, shape, outside)}")
        self.loaded[pointer] = Code(name) if element.narrow is None else Code(f"{name}.to(DTYPE)", ATOM, raw=name)
        return self.loaded[pointer]

    def _masked(self, let: Let, pointer: str, shape: Shape, outside: str) -> str:
        """The text that loads the tile of a let, 0 outside of where the let has points."""
        usual = dict(self.place.inside)
        self.place.inside |= {dim.name: self.within(let, dim) for dim in shape if dim.name in self.place.inside}
        text = self._read(pointer, shape, outside)
        self.place.inside = usual
        return text

    def _in_bytes(self, let: Let, load: Load, shape: Shape) -> Code:
        """Writes the tile of a load of whose numbers several lie in a byte: both of each byte that is loaded, where
        there are two and the last dimension of the tile is the last axis of the tensor as it lies; else the one that is
        wanted.
        """
        dim, sub, each = shape[-1] if shape else None, load.subs[-1], self.module.buffers[load.buffer].element.together
        if dim is None or dim.name not in self.place.bytes or sub != AxisRef(dim.axes[0]) or each != 2:
            at = self._numbers(sub, let.args, shape)
            step, helper = Step(f"({at.text} // {each})", at.shape, moves=at.moves), "_of_bytes"
            behind = f"{at.text}, {each}"
        else:
            step, helper = Step(self.place.bytes[dim.name][0], (dim,)), "_both"
            behind = f"{self.mask((dim,), shape)}, {self.extent(dim)} % 2"
            self.place.paired.add(dim.name)
        pointer = self._pointer(load.buffer, load.subs, shape, args=let.args, last=step)
        if pointer not in self.loaded:
            name = self.arguments.names.fresh(f"{identifier(load.buffer)}_tile")
            usual = self.place.inside
            if helper == "_both" and dim is not None:
                self.place.inside = {**usual, dim.name: self.place.bytes[dim.name][1]}
            self.helpers.add(helper)
            self.body(f"{name} = {helper}({self._masked(let, pointer, shape, '0')}, {behind})")
            self.place.inside = usual
            self.loaded[pointer] = Code(f"{name}.to(DTYPE)", ATOM, raw=name)
        return self.loaded[pointer]

    def _numbers(self, sub: Subscript, args: tuple[str, ...], shape: Shape) -> Step:
        """The place of each number along a slot, of which several lie in a byte, as one step under a name."""
        steps = self.steps(sub, args)
        texts = [" * ".join(x for x in (step.text + self.marks(step.shape, shape), step.times) if x) for step in steps]
        text, moves = " + ".join(texts), any(step.moves for step in steps)
        if self.passed.mark is not None and not moves:
            return Step(self.hoist(text, "number"), shape)
        name = self.arguments.names.fresh("number")
        self.body(f"{name} = {text}")
        return Step(name, shape, moves=moves)

    def within(self, let: Let, dim: Dim) -> str:
        """The mask of the places that a value has along a dimension: beside the passed axis a scan folds another, which
        begins and ends elsewhere."""
        over = (a for a in self.place.shift if a in let.axes and a in self.place.inside and self.layout.dim(a) == dim)
        return self.place.inside[next(over, dim.name)]

    def _read(self, pointer: str, shape: Shape, outside: str) -> str:
        """The text that loads a tile; `outside` it is 0, as a number of its type. In a pass, where a mask may be left
        out, it calls the helper `_read` with the condition on which each mask is needed, and adds it to the helpers.
        """
        moving = any(d.role == "passed" for d in shape)
        near = [d for d in shape if d.role in ("rows", "passed")]
        known = [d for d in shape if d.role in ("whole", "columns")]
        if not shape:
            return f"tl.load({pointer})"
        sure = self.passed.when == "True"
        if not moving or (sure and not known):
            return f"tl.load({pointer}, mask={self.mask(shape, shape)}, other={outside})"
        self.helpers.add("_read")
        cut = (f"{self.extent(d)} % {self.arguments.block(d.name)} != 0 or {self.extent(d)} == 0" for d in known)
        padded = " or ".join(cut) or "False"
        inside = self.mask(tuple(known), shape) if known else self.mask(shape, shape)
        asked = "True" if sure or len(near) > 1 else self.passed.when
        return f"_read({pointer}, {self.mask(tuple(near), shape)}, {inside}, {asked}, {padded})"

    def extent(self, dim: Dim) -> str:
        """The elements of a dimension, known to the compiler."""
        for axis in dim.axes:
            self.arguments.size(self.sets[axis].extent, static=True)
        text = extent_text(self.arguments, self.kernel, dim.axes)
        return text if len(dim.axes) == 1 else f"({text})"

    def mask(self, dims: Shape, shape: Shape) -> str:
        """The mask of these dimensions as text, aligned with the shape; empty for none."""
        return " & ".join(f"{self.place.inside[d.name]}{self.marks((d,), shape)}" for d in dims)

    def _pointer(self, buffer: str, subs: tuple[Subscript, ...], shape: Shape, tile: str = "",
                 args: tuple[str, ...] = (), last: Step | None = None) -> str:
        """Base, what moves in a pass, and the offsets of the tile; the first and the last stand before the loops.
        `last` is the storage position along the last slot where it is another than that of its subscript.
        """
        key = buffer if tile else self._some(buffer, subs)
        pointer, strides = self.arguments.pointer(key), self.arguments.tensors.strides
        parts: dict[tuple[bool, bool], list[str]] = {}
        if tile:
            parts[False, False] = [f"{tile} * {strides[buffer, 0]}"]
        for slot, sub in enumerate(subs, bool(tile)):
            own = last is not None and slot == len(subs) - 1
            for step in [*([last] if own and last is not None else self.steps(sub, args)), *self._moved(buffer, slot)]:
                factors = [step.text + self.marks(step.shape, shape), step.times, strides[key, slot]]
                parts.setdefault((bool(step.shape), step.moves), []).append(" * ".join(f for f in factors if f))
        base = " + ".join([pointer, *parts.get((False, False), [])])
        offsets = " + ".join(parts.get((True, False), []))
        many = len(parts.get((True, False), [])) > 1
        if self.passed.mark is not None:
            base = self.hoist(base, f"{pointer}_base") if base != pointer else base
            offsets, many = (self.hoist(offsets, f"{pointer}_offsets"), False) if offsets else ("", False)
        moving = [*parts.get((False, True), []), *parts.get((True, True), [])]
        return " + ".join([base, *moving, *([f"({offsets})" if many else offsets] if offsets else [])])

    def _some(self, buffer: str, subs: tuple[Subscript, ...]) -> str:
        """The key of a buffer, or of what the host gives in its place where it may be
        empty and is read all the same."""
        base = identifier(buffer)
        made = some(base, subs, self.module.buffers[buffer].sets) if buffer not in self.arguments.laid else base
        if made != base:
            self.arguments.running(made, buffer, f"{base}_some", made[1:-1])
        return buffer if made == base else made

    def _moved(self, buffer: str, slot: int) -> list[Step]:
        passed = self.layout.role("passed")
        paged = self.arguments.laid.get(buffer) == slot
        return [Step(self.place.moved, (passed,), moves=True)] if passed and paged else []

    def hoist(self, text: str, wanted: str) -> str:
        """The text under a name before the loops of the pass. Changes `self.passed.hoisted`, `self.body.lines` and
        `self.passed.mark`."""
        assert self.passed.mark is not None
        if text not in self.passed.hoisted:
            self.passed.hoisted[text] = self.arguments.names.fresh(wanted)
            line, depth = self.passed.mark
            self.body.lines.insert(line, f"{'    ' * depth}{self.passed.hoisted[text]} = {text}")
            self.passed.mark = (line + 1, depth)
        return self.passed.hoisted[text]

    def steps(self, sub: Subscript, args: tuple[str, ...] = ()) -> list[Step]:
        """The storage position of a subscript as a sum; `args` are the arguments of the load that it stands in."""
        match sub:
            case AxisRef(axis):
                return self._along(axis)
            case Slice(item, before, _):
                return [*self.steps(item, args), Step(tight(self.arguments.size(before)))]
            case Flatten(parts, sets):
                out = []
                for n, part in enumerate(parts):
                    later = " * ".join(tight(self.arguments.size(s.extent)) for s in sets[n + 1 :])
                    made = self.steps(part, args)
                    out += [replace(s, times=" * ".join(x for x in (s.times, later) if x)) for s in made]
                return out
            case Gather(arg, set_, safe):
                code = self.value(args[arg])
                text = f"{code.at(SUM)} - {set_.start}" if set_.start else code.text
                if not safe:
                    text = f"tl.maximum(tl.minimum({text}, {self.arguments.size(set_.extent)} - 1), 0)"
                return [Step(f"tl.cast({text}, OFFSET)", self.shape(args[arg]), moves=self.passed.mark is not None)]

    def _along(self, axis: str) -> list[Step]:
        dim = self.layout.dim(axis)
        if dim is None or dim.role != "passed":
            return [Step(self.place.at[self.layout.same.get(axis, axis)], () if dim is None else (dim,))]
        first = f"tl.cast({self.place.start}, OFFSET)"
        if axis in self.place.shift:
            first = f"({first} + {self.place.shift[axis]})"
        return [Step(first, moves=True), Step(self.place.lanes[dim.name], (dim,))]

    # stores

    def store(self, store: Store) -> None:
        """Writes the store of a value into its buffer, composites flat."""
        let = self.lets[store.value]
        flat = tuple(a for axes in store.axes for a in axes)
        shape = self.layout.shape(flat)
        subs = tuple(AxisRef(axes[0]) if len(axes) == 1
                     else Flatten(tuple(map(AxisRef, axes)), tuple(self.sets[a] for a in axes))
                     for axes in store.axes)
        if store.merge:
            pointer = self._pointer(self.arguments.share(store.buffer), subs, shape, self.place.which)
        else:
            pointer = self._pointer(store.buffer, subs, shape)
        code, storage = self.value(store.value), self.module.buffers[store.buffer].element.storage
        # What has the type of more range is converted to it where it is stored.
        known = {"data": "WIDE" if store.merge else "DTYPE", "wide": "WIDE", "ranged": "WIDE"}
        kind = known.get(storage, f"tl.{_NAMES.get(storage, storage)}")
        marks = self.marks(self.shape(store.value), shape)
        # A literal becomes a number of 32 bits when it is cast, one of its own type when a tensor is filled with it.
        single = "full((), " if self.arguments.is_number(store.value) else "cast("
        text = f"tl.{single}{code.at(ATOM)}{marks}, {kind})" if not let.axes else f"{code.at(ATOM)}{marks}.to({kind})"
        masked = f", mask={self.mask(shape, shape)}" if shape else ""
        self.body.statement(f"tl.store({pointer}, ", f"{text}{masked})")


def extent_text(arguments: Arguments, kernel: Kernel, axes: tuple[str, ...]) -> str:
    """The elements of a pack of axes."""
    sets = [kernel.axis(a).set for a in axes]
    for s in sets:
        arguments.size(s.extent)
    return " * ".join(sized(s.extent, tight=len(sets) > 1) for s in sets) or "1"
