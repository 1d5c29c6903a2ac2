"""What a compiled kernel is given: pointers with strides, whole numbers, real numbers. Names in C++ are made here.

No name or text of a spec reaches the compiler as it is: a name becomes letters and digits of ASCII with a number behind
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from einc.backends.cpp.schedule import Schedule, Unwritten
from einc.backends.host.code import Code
from einc.backends.host.scalars import scalar, scalar_map
from einc.backends.writer import identifier, sized
from einc.ir.elements import Element
from einc.ir.indices import Extent
from einc.ir.narrow import NARROW
from einc.ir.plan import Let, Map, Module, Scalar
from einc.ir.terms import Term

STORED = {"data": "DATA", "wide": "float", "ranged": "RANGED", "float64": "double", "int64": "L", "bool": "bool"}


@cache
def read_as_they_lie() -> frozenset[str]:
    """The types of few bits that kernels read: those for which `lanes.h` has a function `near`."""
    text = (resources.files("einc.backends.cpp.runtime") / "lanes.h").read_text(encoding="utf-8")
    return frozenset(NARROW) & frozenset(re.findall(r"^INL V near\(const (\w+)\*", text, re.M))


def stored(element: Element) -> str:
    """The C++ type of elements in memory; raises Unwritten for a storage that has none here."""
    if element.word in read_as_they_lie():
        return element.word
    if element.storage not in STORED:
        raise Unwritten(f"numbers that are stored as {element.word or element.storage} have no type here")
    return STORED[element.storage]


def _together(type_: str) -> int:
    """How many numbers of a C++ type lie in a byte; 1 where each has a byte or more of its own."""
    return NARROW[type_].together if type_ in NARROW else 1


def made(text: str, taken: set[str]) -> str:
    """A name of C++ for a name of the plan; it is added to those that are taken."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", identifier(text)).strip("_") or "x"
    stem = stem if stem[0].isalpha() else f"x{stem}"
    number = 1
    while f"{stem}_{number}" in taken:
        number += 1
    taken.add(f"{stem}_{number}")
    return f"{stem}_{number}"


@dataclass
class Arguments:
    """The arguments of one kernel in their order, by what the Python statement passes for them."""

    module: Module
    helpers: set[str]
    taken: set[str] = field(default_factory=set)
    tensors: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # text in Python: name, type, axes
    sizes: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    not_zero: set[str] = field(default_factory=set)  # the names of sizes and numbers; where one is 0 torch computes
    inverses: dict[str, str] = field(default_factory=dict)  # by the names of numbers
    written: set[str] = field(default_factory=set)  # the names of tensors that the kernel stores to
    grown: frozenset[str] = frozenset()  # buffers to which tiles add: they are float while they grow
    spread: dict[str, str] = field(default_factory=dict)  # objects of a cache: what has all their memory, in Python

    def fresh(self, wanted: str) -> str:
        """A name like the wanted one that nothing else in the kernel has. Adds it to those that are taken."""
        return made(wanted, self.taken)

    def _strided(self, wanted: str, axes: int) -> str:
        """A name for a pointer, where nothing else has it or the name of one of its strides. The name is taken then."""
        while self.taken & {f"{wanted}_{k}" for k in range(axes)}:
            wanted += "_"
        name = self.fresh(wanted)
        self.taken |= {f"{name}_{k}" for k in range(axes)}
        return name

    def tensor(self, buffer: str) -> str:
        """The pointer of a buffer; its strides are this name with `_0`, `_1` and so on behind it. They become
        arguments of the kernel."""
        found = self.module.buffers[buffer]
        text = identifier(buffer)
        if text not in self.tensors:
            type_ = "float" if buffer in self.grown else stored(found.element)
            self.tensors[text] = (self._strided(text, len(found.sets)), type_, len(found.sets))
        return self.tensors[text][0]

    def running(self, text: str, wanted: str, axes: int) -> str:
        """The pointer of a tensor of whole numbers that the Python statement makes. It becomes an argument of the
        kernel."""
        if text not in self.tensors:
            self.tensors[text] = (self._strided(wanted, axes), "L", axes)
        return self.tensors[text][0]

    def length(self, text: str) -> str:
        """The length of what stands in Python. It becomes an argument of the kernel; returns its name."""
        return self.sizes.setdefault(f"len({text})", self.sizes.get(f"len({text})") or self.fresh("length"))

    def size(self, extent: Extent) -> str:
        """An extent: a number, or the name of an argument. That becomes one of the kernel."""
        text = sized(extent)
        if text.isdigit():
            return text
        if text not in self.sizes:
            self.sizes[text] = self.fresh(text if text.isidentifier() else "size")
        return self.sizes[text]

    def number(self, term: Term) -> str:
        """A number made of constants and sizes."""
        return self.computed(scalar(term).text, scalar(term).calls)

    def computed(self, text: str, calls: frozenset[str]) -> str:
        """A number that the Python statement computes. It becomes an argument of the kernel; returns its name."""
        self.helpers |= calls
        if text not in self.numbers:
            self.numbers[text] = self.fresh("number")
        return self.numbers[text]

    def inverse(self, number: str) -> str:
        """The inverse of a number that the Python statement computes, formed once; returns its name."""
        if number not in self.inverses:
            self.inverses[number] = self.fresh("inverse")
        return self.inverses[number]

    def pointers(self) -> list[str]:
        """The statements that give the tensors their names; addresses count numbers where several lie in a byte."""
        kinds = [(name, type_, type_ if name in self.written else f"const {type_}")
                 for name, type_, _ in self.tensors.values()]
        return [f"{type_}* {name} = {f'numbers_at(p[{n}])' if _together(bare) > 1 else f'({type_}*)p[{n}]'};"
                for n, (name, bare, type_) in enumerate(kinds)]

    def whole(self) -> list[str]:
        """The statements that give strides and sizes their names; strides count numbers where several lie in a byte,
        one after the other along the last axis."""
        lines, at = list[str](), 0
        for name, type_, axes in self.tensors.values():
            each = _together(type_)
            strides = [f"{name}_{k} = n[{at + k}]{f' * {each}' if each > 1 else ''}" for k in range(axes)]
            strides[axes - 1:] = [f"{name}_{axes - 1} = 1"] if each > 1 else strides[axes - 1:]
            lines += [f"const L {', '.join(strides)};"] * bool(strides)
            at += axes
        return lines + [f"const L {name} = n[{at + k}];" for k, name in enumerate(self.sizes.values())]

    def reals(self) -> list[str]:
        """The statements that give numbers and their inverses their names."""
        lines = [f"const double {name} = x[{k}];" for k, name in enumerate(self.numbers.values())]
        return lines + [f"const float {name} = (float)(1 / {number});" for number, name in self.inverses.items()]

    def call(self, kept: Collection[str]) -> str:
        """The arguments of the Python statement; those that are `kept` are objects of a cache, in one piece or in
        memory over which they are spread.
        """
        texts = {identifier(name): f"{identifier(name)}.whole()" for name in kept} | self.spread
        texts |= {text: f"{text}.contiguous()" for text, (_, type_, _) in self.tensors.items() if _together(type_) > 1}
        tensors = ", ".join(texts.get(name, name) for name in self.tensors)
        sizes, numbers = ", ".join(self.sizes), ", ".join(self.numbers)
        return f"[{tensors}], [{sizes}], [{numbers}]"


def host_code(let: Let, schedule: Schedule) -> Code:
    """A number that Python computes. Raises Unwritten for a choice."""
    lets = schedule.lets()
    match let.op:
        case Scalar(term):
            return scalar(term)
        case Map(op):
            return scalar_map(op, [host_code(lets[a], schedule) for a in let.args])
    raise Unwritten("it chooses between numbers of the host")
