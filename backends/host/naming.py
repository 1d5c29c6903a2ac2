"""Python's names for what a module speaks of. Callers see declared names; inside, nothing
hides what the text needs for itself.

Sizes and tensors are called as they were declared where that name is free: no word of Python, no name of the emitted
text, not one name for a size and a tensor. Where a declared name is not free inside, the caller's function hands it on.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from einc.backends.writer import Names, identifier
from einc.ir.indices import Extent, size
from einc.ir.plan import (
    BroadcastView,
    Buffer,
    Call,
    Generation,
    Hops,
    Kernel,
    Leaf,
    Let,
    Load,
    Loop,
    Module,
    Move,
    PerRequest,
    RowBlocks,
    Select,
    leaves,
    renamed,
)
from einc.ir.terms import Read

BUILT_IN = frozenset({
    "range", "min", "max", "abs", "int", "bool", "tuple", "type", "isinstance", "ValueError", "TypeError",
    "IndexError", "sorted",
    "self", "super",
})  # fmt: skip
IMPORTED = frozenset({
    "torch", "triton", "tl", "math", "operator", "bisect_left", "bisect_right", "lru_cache", "NamedTuple",
})  # fmt: skip
KERNELS = frozenset({
    "float", "rows", "columns", "warps", "stages", "program", "phase", "first", "last", "part", "parts", "place",
    "states", "DTYPE", "WIDE", "OFFSET", "PRECISION", "SPLIT", "SHARED", "TILES",
})  # fmt: skip
OWN = BUILT_IN | IMPORTED | KERNELS | {"device", "dtype", "wide", "ranged"} | frozenset(keyword.kwlist)


def entry_name(name: str) -> str:
    """The function that callers see: beside the names that the file needs."""
    return f"{name}_" if name in OWN else name


def class_name(name: str) -> str:
    """The class that holds the weights of the function: not called like it."""
    made = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return made if made != entry_name(name) and made not in OWN else f"{made}Module"


def tuple_name(name: str) -> str:
    """The name of the class of results, for a function of this name with several outputs."""
    return "".join(word.capitalize() for word in name.split("_")) + "Output"


@dataclass(frozen=True)
class Named:
    """A module in names that are free inside; `public` and `declared` have what callers
    say for inputs and for sizes."""

    module: Module
    taken: frozenset[str]
    public: Mapping[str, str]  # the parameter of an input
    declared: Mapping[str, str]  # the size of the spec
    outputs: tuple[str, ...]  # the fields of the result

    def said(self, extent: Extent) -> Extent:
        """An extent in the names that the caller knows."""
        made: Extent = _sized(extent, self.declared)
        return made

    def inside(self, extent: Extent) -> Extent:
        """An extent of the spec in the names of the file."""
        made: Extent = _sized(extent, {declared: name for name, declared in self.declared.items()})
        return made

    def named(self, buffer: Buffer, name: str) -> Buffer:
        """A buffer of the spec as one of the file, under this name."""
        made: Buffer = _sized(replace(buffer, name=name), {key: size for size, key in self.declared.items()})
        return made

    def size(self, name: str) -> str:
        """The parameter of a size that no tensor fixes."""
        wanted = self.declared[name]
        wanted = f"{wanted}_" if keyword.iskeyword(wanted) else wanted
        return f"{wanted}_size" if wanted in self.public.values() else wanted


def named(module: Module, also: Iterable[str] = ()) -> Named:
    """The module in free names; `also` are names that its text needs for itself."""
    names = Names({*OWN, *also, tuple_name(module.name), class_name(module.name)})
    counts = {step.count for step in leaves(module.steps) if isinstance(step, BroadcastView)} | rows_counted(module)
    known = module.sizes | module.fixed.keys()
    sizes = {name: names.fresh(name) for name in [*sorted(known), *sorted(counts - known)]}
    first = [t.key for t in module.inputs]
    tensors = {key: names.fresh(key) for key in dict.fromkeys([*first, *module.buffers])}
    made: Module = _sized(module, sizes) if any(old != new for old, new in sizes.items()) else module
    made = replace(
        made,
        inputs=tuple(replace(t, key=tensors[t.key]) for t in made.inputs),
        outputs=tuple((name, tensors[key]) for name, key in made.outputs),
        buffers={tensors[key]: _buffer(buffer, tensors) for key, buffer in made.buffers.items()},
        steps=tuple(renamed(step, tensors.__getitem__, lambda kernel: _kernel(kernel, tensors)) for step in made.steps),
        fixed={sizes[name]: n for name, n in made.fixed.items()},
        sizes=frozenset(sizes[name] for name in made.sizes),
        keys=tuple((tensors[key], set_) for key, set_ in made.keys),
        lengths=tuple(one.named(tensors) for one in made.lengths if one.given in tensors),
        generation=None if made.generation is None else _told(made.generation, sizes, tensors),
    )
    outputs = tuple(identifier(name) for name, _ in made.outputs)
    return Named(
        made, frozenset(names.taken), {tensors[key]: identifier(key) for key in first},
        {b: a for a, b in sizes.items()}, outputs
    )


def rows_counted(module: Module) -> frozenset[str]:
    """The sizes that say how many rows come to a rank, which the moves of a module find out."""
    found = (step.routes.count for step in leaves(module.steps) if isinstance(step, Move) and step.routes is not None)
    return frozenset(name for count in found for name in count.sizes)


def _told(generation: Generation, sizes: Mapping[str, str], tensors: Mapping[str, str]) -> Generation:
    """What is said of a generation, with its sizes and states under their new names."""
    states = tuple((tensors[past], tensors[state]) for past, state in generation.states)
    past, new, dropped = (sizes.get(name, name) for name in (generation.past, generation.new, generation.dropped))
    return replace(generation, past=past, new=new, dropped=dropped, states=states)


def _buffer(buffer: Buffer, names: Mapping[str, str]) -> Buffer:
    return replace(buffer, name=names[buffer.name])


class _Same(dict[str, str]):
    """Names, of which those that are not told stay."""

    def __missing__(self, name: str) -> str:
        return name


def with_names(step: Leaf, names: Mapping[str, str]) -> Leaf:
    """A step with other names for some buffers."""
    known = _Same(names)
    return cast(Leaf, renamed(step, known.__getitem__, lambda kernel: _kernel(kernel, known)))


def _kernel(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    stores = tuple(replace(store, buffer=names[store.buffer]) for store in kernel.stores)
    lets = tuple(_let(let, names) for let in kernel.lets)
    axes = tuple(replace(axis, bound=_read(axis.bound, names)) for axis in kernel.axes)
    return replace(kernel, name=names.get(kernel.name, kernel.name), axes=axes, lets=lets, stores=stores)


def _let(let: Let, names: Mapping[str, str]) -> Let:
    match let.op:
        case Load(buffer):
            return replace(let, op=replace(let.op, buffer=names[buffer]))
        case Select():
            return replace(let, op=replace(let.op, cut=_read(let.op.cut, names)))
    return let


def _read(value: Any, names: Mapping[str, str]) -> Any:
    """Bounds with every tensor in them under its new name."""
    match value:
        case Read(tensor):
            return replace(value, tensor=names[tensor])
        case tuple():
            return tuple(_read(item, names) for item in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: _read(getattr(value, field.name), names) for field in fields(value)})
    return value


def _sized(value: Any, names: Mapping[str, str]) -> Any:
    """The value with every size in it under its new name."""
    match value:
        case Extent():
            return value.put({name: size(names[name]) for name in value.sizes if name in names})
        case Loop():
            # The body is a function with names of its own.
            return replace(value, index=_sized(value.index, names),
                           sizes=tuple((a, names.get(b, b)) for a, b in value.sizes))
        case Hops():
            return replace(value, around=_sized(value.around, names),
                           sizes=tuple((a, names.get(b, b)) for a, b in value.sizes))
        case RowBlocks():
            return replace(value, rows=_fields_sized(value.rows, names),
                           sizes=tuple((a, names.get(b, b)) for a, b in value.sizes))
        case PerRequest():
            return replace(value, sizes=tuple((a, names.get(b, b)) for a, b in value.sizes))
        case BroadcastView():
            return _fields_sized(replace(value, count=names.get(value.count, value.count)), names)
        case Call():
            return _fields_sized(replace(value, repeats=tuple((a, n, names.get(b, b)) for a, n, b in value.repeats)),
                                 names)
        case tuple():
            return tuple(_sized(item, names) for item in value)
        case dict():
            return {key: _sized(item, names) for key, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _fields_sized(value, names)
    return value


def _fields_sized(value: Any, names: Mapping[str, str]) -> Any:
    """A record with every size in its fields under its new name."""
    return replace(value, **{field.name: _sized(getattr(value, field.name), names) for field in fields(value)
                             if field.init})
