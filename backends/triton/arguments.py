"""What a kernel is called with: pointers and strides of the tensors it touches, sizes,
numbers, and constants of its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from einc.backends.host.code import ATOM, UNARY, Code
from einc.backends.host.naming import OWN
from einc.backends.host.scalars import number_text, scalar, scalar_map
from einc.backends.writer import Names, identifier, sized
from einc.ir.indices import Extent
from einc.ir.plan import Kernel, Let, Map, Module, Scalar
from einc.ir.primitives import HASHES
from einc.ir.terms import Apply, Const, Size, Term

_WHOLE = frozenset({"add", "sub", "mul", "neg", "abs", "min", "max", "floordiv", "ceildiv", "mod"})
_TRUTH = frozenset({"le", "lt", "eq", "ne", "and", "or", "not"})


@dataclass
class Tensors:
    """The parameters of buffers and of running lists, which the host derives from buffers."""

    pointers: dict[str, str] = field(default_factory=dict)  # buffer or running list -> parameter
    strides: dict[tuple[str, int], str] = field(default_factory=dict)  # buffer or list, slot -> parameter
    prepared: dict[str, str] = field(default_factory=dict)  # parameter of a running list -> what the host computes


@dataclass
class Arguments:
    """The parameters of a kernel, in the order in which its text first needs them, and what the host gives for each."""

    module: Module
    kernel: Kernel
    names: Names = field(default_factory=lambda: Names(set(OWN)))
    tensors: Tensors = field(default_factory=Tensors)
    sizes: dict[str, str] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)  # sizes that the compiled text is made for
    numbers: dict[tuple[str, str], str] = field(default_factory=dict)  # what the host computes, its type -> parameter
    whole: dict[str, str] = field(default_factory=dict)  # parameter of a whole number -> what the host computes
    calls: dict[str, frozenset[str]] = field(default_factory=dict)  # what the host computes -> helpers in it
    blocks: dict[str, str] = field(default_factory=dict)  # dimension -> parameter
    # buffer of which positions may lie in pages -> the slot of these
    laid: Mapping[str, int] = field(default_factory=dict)
    paging: tuple[str, str] = ("", "")  # parameters: the pages, in the order of positions, and how many lie in one

    def __post_init__(self) -> None:
        for name in {*self.module.sizes, *self.module.fixed, *self.module.buffers}:
            self.names.taken.add(identifier(name))

    @cached_property
    def lets(self) -> Mapping[str, Let]:
        """The lets of the kernel by their names."""
        return {let.name: let for let in self.kernel.lets}

    # tensors

    def pointer(self, buffer: str) -> str:
        """The parameter of a buffer, or of what has been registered. Changes `self.tensors.pointers`."""
        if buffer not in self.tensors.pointers:
            self.tensors.pointers[buffer] = identifier(buffer)
            self._strides(buffer, identifier(buffer), self.module.buffers[buffer].axes)
        return self.tensors.pointers[buffer]

    def _strides(self, buffer: str, pointer: str, letters: tuple[str, ...]) -> None:
        for slot, letter in enumerate(letters):
            self.tensors.strides[buffer, slot] = self.names.fresh(f"{pointer}_{identifier(letter)}")

    def share(self, buffer: str) -> str:
        """Where each tile leaves its share of a result; the key of that tensor, whose first axis are the tiles. Changes
        `self.tensors.pointers`."""
        key = f"{buffer} of each tile"
        if key not in self.tensors.pointers:
            self.tensors.pointers[key] = self.names.fresh(f"{identifier(buffer)}_shares")
            self._strides(key, self.tensors.pointers[key], ("tile", *self.module.buffers[buffer].axes))
        return key

    def running(self, key: str, of: str, wanted: str, text: str) -> str:
        """A tensor that the host derives from another. Changes `self.tensors.pointers` and `self.tensors.prepared`."""
        if key not in self.tensors.pointers:
            self.tensors.pointers[key] = self.names.fresh(wanted)
            self._strides(key, self.tensors.pointers[key], self.module.buffers[of].axes)
            self.tensors.prepared[self.tensors.pointers[key]] = text
        return self.tensors.pointers[key]

    def pages(self) -> tuple[str, str]:
        """The parameters by which the kernel finds positions in pages. Changes `self.paging`."""
        if not self.paging[0]:
            self.paging = self.names.fresh("pages"), self.names.fresh("PAGE")
        return self.paging

    def bands(self, others: str, read: str) -> str:
        """The parameter for the number of bands in which programs go over `others`, each of which reads so many
        elements of the data. Changes `self.whole` and `self.calls`."""
        name, text = self.names.fresh("bands"), f"_bands({others}, ({read}) * dtype.itemsize, device)"
        self.whole[name], self.calls[text] = text, frozenset({"_bands"})
        return name

    # sizes and numbers

    def size(self, extent: Extent, static: bool = False) -> str:
        """An extent in the kernel; `static` where its text depends on it."""
        for name in sorted(extent.sizes):  # a set, whose order is not the same in every process
            (self.static if static else self.sizes)[name] = name
        return sized(extent)

    def block(self, name: str) -> str:
        """The parameter for the length of a tile along a dimension; the first call takes a fresh name for it."""
        return self.blocks.setdefault(name, self.names.fresh(f"BLOCK_{name}"))

    def is_number(self, name: str) -> bool:
        """Whether a let is a number without axes that the host computes before the launch."""
        op, args = self.lets[name].op, self.lets[name].args
        if self.lets[name].axes or (isinstance(op, Map) and (op.op in {"spread", *HASHES} or not args)):
            return False
        return isinstance(op, Scalar) or (isinstance(op, Map) and all(map(self.is_number, args)))

    def is_whole(self, name: str) -> bool:
        """Whether a let of the host's is surely a whole number, by its operations alone."""
        op, args = self.lets[name].op, self.lets[name].args
        if isinstance(op, Scalar):
            return _integral(op.term)
        return isinstance(op, Map) and op.op in _WHOLE and all(map(self.is_whole, args))

    def host(self, name: str) -> Code:
        """The let as the host computes it."""
        op = self.lets[name].op
        if isinstance(op, Scalar):
            return scalar(op.term)
        assert isinstance(op, Map)
        return scalar_map(op.op, [self.host(a) for a in self.lets[name].args])

    def number(self, name: str, exact: bool = False) -> Code:
        """The let in the kernel: a literal, a size, or a parameter; with what is known of its sign. Changes
        `self.calls`, `self.whole` and `self.numbers`."""
        let = self.lets[name]
        made = self.host(name)
        if isinstance(let.op, Scalar) and isinstance(let.op.term, Const):
            text = literal(let.op.term.value)
            return Code(text, ATOM if text[0] != "-" else UNARY, sign=made.sign, finite=made.finite)
        if isinstance(let.op, Scalar) and isinstance(let.op.term, Size):
            return Code(self.size(let.op.term.extent), made.level, sign=made.sign, finite=True)
        self.calls[made.text] = made.calls
        if self.is_whole(name) or let.kind == "truth":
            parameter = next((p for p, text in self.whole.items() if text == made.text), None) or self.names.fresh("n")
            self.whole[parameter] = made.text
            return Code(parameter, sign=made.sign, finite=True)
        key = (made.text, "tl.float64" if exact else "WIDE")
        if key not in self.numbers:
            self.numbers[key] = self.names.fresh("scale")
        return Code(self.numbers[key], sign=made.sign, finite=made.finite)


def literal(value: Fraction | float) -> str:
    """A number as the kernel's text has it."""
    text = number_text(value)
    return f'float("{text.replace("math.", "")}")' if "inf" in text or "nan" in text else text


def _integral(term: Term) -> bool:
    match term:
        case Const(value):
            return isinstance(value, Fraction) and value.denominator == 1
        case Size():
            return True
        case Apply(op, args):
            return op in _TRUTH or (op in _WHOLE and all(map(_integral, args)))
    return False
