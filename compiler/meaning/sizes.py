"""Every named size of a program: from the spec, from arguments, or solved from the shapes of the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any, SupportsIndex

import numpy as np

from einc.errors.problems import NotYet, WrongData, WrongType
from einc.errors.report import listed
from einc.ir.indices import Extent, IndexSet, number, size
from einc.ir.programs import Program, Slot, Tensor, sets_of
from einc.ir.terms import Join, Pack, Part, Size
from einc.meaning.blocks import Array
from einc.meaning.bytes import from_bytes
from einc.meaning.functions import function


def solve_sizes(program: Program, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> dict[str, int]:
    """Every named size: from the spec, an argument, or the shapes of the inputs (by key).
    WrongData where they disagree."""
    axes = _axes(program, shapes)
    known, origin = dict(program.sizes), dict.fromkeys(program.sizes, "fixed by the spec")
    names = known.keys() | {name for extent in _extents(program) for name in extent.sizes}
    for name, value in sizes.items():
        if name in program.idle:
            raise WrongData(f"the size `{name}` is declared, but nothing that is returned depends on it: leave it out")
        if name not in names:
            raise WrongData(f"`{name}` is no size of the program: its sizes are {listed(sorted(names))}")
        if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value < 0:
            raise WrongData(f"the size `{name}` is given as {value}: a size is a whole number, 0 or more")
        if known.setdefault(name, int(value)) != value:
            raise WrongData(f"the size `{name}` is given as {value}, but the spec fixes it to {known[name]}")
        origin.setdefault(name, "given as an argument")
    facts = [(slot.set.extent - number(n), f"read from `{t.key}` along `{slot.name}`") for t, slot, n in axes]
    facts.sort(key=lambda fact: not any((fact[0] - size(name)).constant is not None for name in fact[0].sizes))
    facts += [(whole - parts, f"what makes {whole} = {parts}") for whole, parts in _identities(program)]
    while found := next(((name, value, why) for fact, why in facts for name, value in _solved(fact, known)), None):
        name, exact, why = found
        if exact.denominator != 1 or exact < 0:
            raise WrongData(f"the size `{name}` would be {exact}, {why}: a size is a whole number, 0 or more")
        known[name], origin[name] = int(exact), why
    _check(program, axes, known, origin)
    return known


def _axes(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[Tensor, Slot, int]]:
    """The axes of the inputs with their extents; WrongData for a name too few or too many and for a wrong rank."""
    inputs = program.inputs()
    if missing := [t for t in inputs if t.key not in shapes]:
        raise WrongData(f"no array is given for {listed(t.key for t in missing)}", missing[0].span)
    if extra := sorted(shapes.keys() - {t.key for t in inputs}):
        raise WrongData(f"{listed(extra)} is no input of the program: its inputs are {listed(t.key for t in inputs)}")
    for tensor in inputs:
        if (rank := len(shapes[tensor.key])) != len(tensor.slots):
            axes = ", ".join(slot.name for slot in tensor.slots)
            raise WrongData(f"`{tensor.key}` has the axes ({axes}), but the array given for it has rank {rank}",
                            tensor.span)
    return [(t, slot if extent == slot.set.extent else replace(slot, set=replace(slot.set, extent=extent)), n)
            for t in inputs for slot, extent, n in zip(t.slots, t.extents, shapes[t.key], strict=True)]


def packed(program: Program, arrays: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The extents of axes that hold the positions of all requests, and what follows from
    the lengths; WrongData if they lie."""
    sizes: dict[str, int] = {}
    made: dict[str, list[int]] = {}
    for over in dict.fromkeys(s for s in _sets(program) if s.packed is not None):
        assert over.packed is not None
        found = arrays.get(over.packed.lengths)
        if found is None or len(found.shape) != 1 or found.dtype.kind not in "iu":
            continue  # told with the other inputs
        lengths = [int(n) for n in found]
        if min(lengths, default=0) < 0:
            raise WrongData(f"`{over.packed.lengths}` holds {min(lengths)}: a length is a whole number, 0 or more")
        total, (name,) = sum(lengths), over.extent.sizes
        for tensor in program.inputs():
            for n, slot in enumerate(tensor.slots):
                shape = arrays[tensor.key].shape if tensor.key in arrays else ()
                if slot.set == over and len(shape) == len(tensor.slots) and shape[n] != total:
                    raise WrongData(f"`{over.packed.lengths}` adds up to {total}, but `{tensor.key}` holds {shape[n]} "
                                    f"positions",
                                    tensor.span)
        starts = [sum(lengths[:n]) for n in range(len(lengths))]
        sizes[name], made[over.packed.start] = total, starts
        made[over.packed.request] = [n + over.packed.requests.start for n, length in enumerate(lengths)
                                     for _ in range(length)]
        made[over.packed.offset] = [start for start, length in zip(starts, lengths, strict=True) for _ in range(length)]
    return sizes, made


def _sets(program: Program) -> Iterator[IndexSet]:
    """The sets that the tensors and the equations run over."""
    used = {t.key for t in program.inputs()} | {e.target for e in program.equations}
    yield from (slot.set for key in sorted(used) for slot in program.tensors[key].slots)
    yield from (repeat.index.set for repeat in program.every_repeat)
    yield from (found for term in program.terms for found in sets_of(term))


def _extents(program: Program) -> Iterator[Extent]:
    yield from (s.extent for s in _sets(program))
    yield from (t.extent if isinstance(t, Size) else t.before for t in program.terms if isinstance(t, Size | Part))


def _identities(program: Program) -> Iterator[tuple[Extent, Extent]]:
    """The extents of composites and direct sums, and what their parts make."""
    packs = [(t.into, t.sets) for t in program.terms if isinstance(t, Pack)]
    for into, sets in dict.fromkeys([*program.splits.items(), *packs]):
        yield into.extent, reduce(Extent.__mul__, (s.extent for s in sets), number(1))
    for term in program.terms:
        if isinstance(term, Join):
            yield term.index.set.extent, reduce(Extent.__add__, (i.set.extent for i, _ in term.parts), number(0))


def _solved(fact: Extent, known: Mapping[str, int]) -> list[tuple[str, Fraction]]:
    """The only size not known, with the value that makes `fact` 0; nothing where it is
    not c · size + constant, c ≠ 0."""
    unknown = fact.sizes - known.keys()
    powers = [(n, p) for mono, _ in fact.terms for n, p in mono if isinstance(n, str)]
    inside = frozenset(n for x in fact.roundings for n in x.of.sizes)
    if len(unknown) != 1 or unknown & inside or any(
            p != 1 if n in unknown else p < 0 and known[n] == 0 for n, p in powers):
        return []
    name, = unknown
    at_0, at_1 = (fact.at({**known, name: n}) for n in (0, 1))
    return [(name, -at_0 / (at_1 - at_0))] if at_1 != at_0 else []


def _check(program: Program, axes: list[tuple[Tensor, Slot, int]], known: Mapping[str, int],
           origin: Mapping[str, str]) -> None:
    """Raises WrongData where a size is unknown, an array does not have its extents, an extent is no whole number, or
    parts do not make their whole; NotYet for a ragged set. `origin` says in the message where each size comes from.
    """
    def why(extent: Extent) -> str:
        return "".join(f"; `{name}` = {known[name]} is {origin[name]}" for name in sorted(extent.sizes))

    if unknown := sorted({name for extent in _extents(program) for name in extent.sizes} - known.keys()):
        raise WrongData(f"the size `{unknown[0]}` is fixed by no tensor: pass it as an argument, `{unknown[0]}=…`")
    for tensor, slot, n in axes:
        extent = slot.set.extent
        if (value := at(extent, known)) != n:
            raise WrongData(f"`{tensor.key}` has extent {n} along `{slot.name}`, but {extent} is {value}{why(extent)}",
                            tensor.span)
    for over in _sets(program):
        if over.by:
            raise NotYet(f"`{over}` is ragged, which is not interpreted yet")
        value = at(over.extent, known)
        if isinstance(value, float) or value.denominator != 1 or value < 0:
            raise WrongData(f"the extent {over.extent} is {value}, not a whole number{why(over.extent)}")
    for whole, parts in _identities(program):
        if whole.sizes | parts.sizes <= known.keys() and at(whole, known) != at(parts, known):
            raise WrongData(f"{whole} is {at(whole, known)}, but its parts make {parts} = "
                            f"{at(parts, known)}{why(whole + parts)}")


def at(extent: Extent, sizes: Mapping[str, int]) -> Fraction | float:
    """The value of an extent at the sizes; infinity where it divides by a size that is 0."""
    try:
        return extent.at(sizes)
    except ZeroDivisionError:
        return math.inf


def typed(tensor: Tensor, array: Array, sizes: Mapping[str, int]) -> Array:
    """The array of a tensor in the interpreter's own element type. WrongType where its own type is another one."""
    row = tensor.element.narrow
    if row is not None and tensor.element.shared:
        if array.dtype != np.uint8:
            raise WrongType(f"`{tensor.key}` is stored with {row.together} numbers a byte, but the array given for it "
                            f"is {array.dtype}: pack it with einc.in_bytes", tensor.span)
        array = from_bytes(array, int(tensor.slots[-1].set.extent.at(sizes)), row)
    if array.dtype.kind not in ("iu" if tensor.integer else "iuf"):
        kind = "integers" if tensor.integer else "real numbers"
        raise WrongType(f"`{tensor.key}` holds {kind}, but the array given for it is {array.dtype}", tensor.span)
    plain = array.astype(np.int64 if tensor.integer else np.float64, copy=False)
    if row is None:
        return plain
    return np.where(np.isinf(plain) & row.infinite, plain, function(row.name)(plain))
