"""Buffers in which several numbers lie in a byte.

Kernels read them as they lie, and contractions do slice by slice. All other steps read and write numbers that have a
byte each, and a step of its own, before or after them, makes the one of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from einc.ir.draft import unused
from einc.ir.indices import number
from einc.ir.plan import (
    AxisRef,
    Buffer,
    Choose,
    Contract,
    Cost,
    Flatten,
    InSlices,
    Kernel,
    Leaf,
    Load,
    Repack,
    Step,
    Subscript,
    makes,
    renamed,
    takes,
)
from einc.planning.analysis.cost import size_of


def with_bytes(steps: Sequence[Step], buffers: Mapping[str, Buffer]) -> tuple[tuple[Step, ...], dict[str, Buffer]]:
    """The steps with those that make the one of the other, and the buffers that these need."""
    shared = [name for name, buffer in buffers.items() if buffer.element.shared]
    if not shared:
        return tuple(steps), {}
    names = {name: unused(f"{name}_codes", buffers) for name in shared}
    apart = {codes: replace(buffers[name], name=codes, element=buffers[name].element.apart, role="local")
             for name, codes in names.items()}
    made = frozenset[str]().union(*map(makes, steps)) & names.keys()
    out = [_with_codes(step, names, made) for step in steps]
    read = frozenset[str]().union(*map(takes, out))
    before = [_repack(name, codes, buffers[name], apart[codes]) for name, codes in names.items()
              if name not in made and codes in read]
    after = [_repack(codes, name, apart[codes], buffers[name]) for name, codes in names.items() if name in made]
    needed = {name for step in (*before, *after) for name in (*step.reads, *step.writes)}
    return (*before, *out, *after), {codes: buffer for codes, buffer in apart.items() if codes in needed}


def _with_codes(step: Step, names: Mapping[str, str], made: frozenset[str]) -> Step:
    """The step, in which kernels and contractions read what is given as it lies, and all else is read and written by
    codes."""
    if isinstance(step, Choose):
        bodies = tuple(tuple(cast(Leaf, _with_codes(inner, names, made)) for inner in body) for body in step.bodies)
        return replace(step, writes=tuple(names.get(x, x) for x in step.writes), bodies=bodies)
    inner = step.contractions if isinstance(step, InSlices) else (step,)
    lying = frozenset(name for one in inner if isinstance(one, Contract)
                      for name, view in zip(one.reads, one.views, strict=True) if _as_it_lies(view))
    lying |= frozenset(step.reads) if isinstance(step, Kernel) else frozenset()
    known = {name: codes for name, codes in names.items() if name not in lying or name in made}
    return renamed(step, lambda name: known.get(name, name), lambda kernel: _kernel(kernel, known))


def _as_it_lies(view: tuple[Subscript, ...]) -> bool:
    """Whether a view has the last slot of its buffer whole, as one letter or a composite of letters."""
    last = view[-1] if view else None
    return isinstance(last, AxisRef) or (isinstance(last, Flatten) and all(isinstance(x, AxisRef) for x in last.parts))


def _kernel(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """A kernel with other names for what it loads and stores."""
    lets = tuple(replace(let, op=replace(let.op, buffer=names.get(let.op.buffer, let.op.buffer)))
                 if isinstance(let.op, Load) else let for let in kernel.lets)
    stores = tuple(replace(store, buffer=names.get(store.buffer, store.buffer)) for store in kernel.stores)
    return replace(kernel, name=names.get(kernel.name, kernel.name), lets=lets, stores=stores)


def _repack(name: str, target: str, before: Buffer, after: Buffer) -> Repack:
    """The step that makes the one buffer of the other."""
    cost = Cost(number(0), size_of(before), size_of(after), number(0))
    return Repack(reads=(name,), writes=(target,), texts=("",), cost=cost, count=before.sets[-1].extent)
