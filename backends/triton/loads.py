"""Elements of stored tensors as tiles: pointers, and masks for what lies outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.backends.host.code import ATOM, SUM, Code
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.layout import Dim, Layout
from einc.backends.writer import Writer, identifier, sized
from einc.plan import Along, Computed, Kernel, Let, Load, Module, Packed, Store, Subscript, Within

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A share of a storage position: some text along some dimensions, times a number of elements."""

    text: str
    shape: Shape = ()
    times: str = ""


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
    at: dict[str, str] = field(default_factory=dict)  # axis -> its storage positions in the tile
    lanes: dict[str, str] = field(default_factory=dict)  # passed axis -> its places within a tile
    inside: dict[str, str] = field(default_factory=dict)  # dimension -> the mask of its places
    start: str = ""  # where the tile of the passed axis begins
    shift: dict[str, str] = field(default_factory=dict)  # axis -> how far it stands from the passed one
    when: str = ""  # in a pass: the tiles that are masked, as a condition known to the compiler

    def __post_init__(self) -> None:
        self.lets: Mapping[str, Let] = {let.name: let for let in self.kernel.lets}
        self.sets = {a.name: a.set for a in self.kernel.axes}
        self.loaded: dict[str, Code] = {}

    def shape(self, name: str) -> Shape:
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
        """The tile of a load in the type of its tensor, under a name."""
        assert isinstance(let.op, Load)
        shape = self.layout.shape(let.axes)
        pointer = self._pointer(let.op.buffer, let.op.subs, shape)
        if pointer in self.loaded:
            return self.loaded[pointer]
        name = self.arguments.names.fresh(f"{identifier(let.op.buffer)}_tile")
        self.body(f"{name} = {self._read(pointer, shape)}")
        self.loaded[pointer] = Code(name)
        return self.loaded[pointer]

    def _read(self, pointer: str, shape: Shape) -> str:
        moving = any(d.role == "passed" for d in shape)
        near = [d for d in shape if d.role != "whole"]
        padded = [d for d in shape if d.role == "whole"]
        if not shape:
            return f"tl.load({pointer})"
        if not moving or self.when == "True" or len(near) > 1:
            return f"tl.load({pointer}, mask={self.mask(shape, shape)}, other=0)"
        self.helpers.add("_read")
        known = " or ".join(f"{self.arguments.block(d.name)} != {self.extent(d)}" for d in padded) or "False"
        inside = self.mask(tuple(padded), shape) if padded else self.mask(shape, shape)
        return f"_read({pointer}, {self.mask(tuple(near), shape)}, {inside}, {self.when}, {known})"

    def extent(self, dim: Dim) -> str:
        """The elements of a whole dimension."""
        return self.arguments.size(self.sets[dim.axes[0]].extent, static=True)

    def mask(self, dims: Shape, shape: Shape) -> str:
        return " & ".join(f"{self.inside[d.name]}{self.marks((d,), shape)}" for d in dims)

    def _pointer(self, buffer: str, subs: tuple[Subscript, ...], shape: Shape) -> str:
        text = self.arguments.pointer(buffer)
        alone: list[str] = []
        spread: list[str] = []
        for slot, sub in enumerate(subs):
            for step in self.steps(sub):
                factors = [step.text + self.marks(step.shape, shape), step.times, self.arguments.strides[buffer, slot]]
                (spread if step.shape else alone).append(" * ".join(f for f in factors if f))
        return " + ".join([text, *alone, *([f"({' + '.join(spread)})"] if len(spread) > 1 else spread)])

    def steps(self, sub: Subscript) -> list[Step]:
        """The storage position of a subscript as a sum."""
        match sub:
            case Along(axis):
                return self._along(axis)
            case Within(item, before, _):
                return [*self.steps(item), Step(self.tight(self.arguments.size(before)))]
            case Packed(parts, sets):
                out = []
                for n, part in enumerate(parts):
                    later = " * ".join(self.tight(self.arguments.size(s.extent)) for s in sets[n + 1 :])
                    out += [Step(s.text, s.shape, " * ".join(x for x in (s.times, later) if x)) for s in self.steps(part)]
                return out
            case Computed(value, set_, safe):
                code = self.value(value)
                text = f"{code.at(SUM)} - {set_.start}" if set_.start else code.text
                if not safe:
                    text = f"tl.minimum(tl.maximum({text}, 0), {self.arguments.size(set_.extent)} - 1)"
                return [Step(f"tl.cast({text}, OFFSET)", self.shape(value))]

    def _along(self, axis: str) -> list[Step]:
        dim = self.layout.dim(axis)
        if dim is None or dim.role != "passed":
            return [Step(self.at[self.layout.same.get(axis, axis)], () if dim is None else (dim,))]
        first = f"tl.cast({self.start}, OFFSET)"
        if axis in self.shift:
            first = f"({first} + {self.shift[axis]})"
        return [Step(first), Step(self.lanes[dim.name], (dim,))]

    @staticmethod
    def tight(text: str) -> str:
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    # stores

    def store(self, store: Store) -> None:
        """A value into its buffer, composites flat."""
        let = self.lets[store.value]
        flat = tuple(a for axes in store.axes for a in axes)
        shape = self.layout.shape(flat)
        subs = tuple(Along(axes[0]) if len(axes) == 1 else Packed(tuple(map(Along, axes)), tuple(self.sets[a] for a in axes))
                     for axes in store.axes)
        pointer = self._pointer(store.buffer, subs, shape)
        code = self.value(store.value)
        kind = {"integer": "tl.int64", "exact": "tl.float64"}.get(self.module.buffers[store.buffer].kind, "DTYPE")
        marks = self.marks(self.shape(store.value), shape)
        text = f"tl.cast({code.at(ATOM)}{marks}, {kind})" if not let.axes else f"{code.at(ATOM)}{marks}.to({kind})"
        masked = f", mask={self.mask(shape, shape)}" if shape else ""
        self.body.statement(f"tl.store({pointer}, ", f"{text}{masked})")


def extent_text(arguments: Arguments, kernel: Kernel, axes: tuple[str, ...]) -> str:
    """The elements of a pack of axes."""
    sets = [kernel.axis(a).set for a in axes]
    for s in sets:
        arguments.size(s.extent)
    return " * ".join(sized(s.extent, tight=len(sets) > 1) for s in sets) or "1"
