"""Where elements of tensors lie: the address of a load in its buffer, and of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from einc.backends.cpp.arguments import Arguments, stored
from einc.backends.cpp.schedule import Schedule, Unwritten
from einc.backends.cpp.values import At, Value, converted
from einc.ir.indices import Extent
from einc.ir.plan import AxisRef, Flatten, Gather, Let, Load, Module, Slice, Store, Subscript


@dataclass(frozen=True, slots=True)
class Address:
    """Elements of a buffer: the one of lane 0, the stride from row to row, and what lanes add to it.

    `gathers` are the values that lanes have computed, each with its stride and the extent of its slot, and behind it
    `, bad` where a value out of range leaves the call to torch, which says what is wrong.
    """

    pointer: str
    rows: str
    gathers: tuple[tuple[str, str, str], ...]
    type: str


@dataclass
class Addresses:
    """The addresses of one kernel. `at` has the storage positions of its units."""

    schedule: Schedule
    module: Module
    arguments: Arguments
    at: dict[str, str] = field(default_factory=dict)

    def extent(self, axis: str) -> Extent:
        """The extent of an axis of the kernel."""
        return self.schedule.kernel.axis(axis).set.extent

    def lane_gathers(self, let: Let) -> bool:
        """Whether lanes look up what is loaded at places that they have computed."""
        lets = self.schedule.lets()
        return any(self.schedule.has_rows(lets[a]) for a in let.args)

    def stride(self, let: Let, axis: str) -> str:
        """The stride of a load along an axis."""
        assert isinstance(let.op, Load)
        name = self.arguments.tensor(let.op.buffer)
        parts = [f"{factor} * {name}_{slot}" if factor != "1" else f"{name}_{slot}"
                 for slot, sub in enumerate(let.op.subs)
                 for where, factor in self._terms(sub) if where == axis]
        return f"({' + '.join(parts)})" if parts else "0"

    def _terms(self, sub: Subscript) -> list[tuple[str | Gather | int, str]]:
        """A subscript as a sum: axes and computed places with their factors; what is added to it is under the number
        0. Raises Unwritten for a subscript of another kind."""
        match sub:
            case AxisRef(axis):
                return [(axis, "1")]
            case Gather():
                return [(sub, "1")]
            case Slice(item, before, _):
                return [*self._terms(item), (0, self.arguments.size(before))]
            case Flatten(parts, sets):
                out: list[tuple[str | Gather | int, str]] = []
                for n, part in enumerate(parts):
                    after = [self.arguments.size(s.extent) for s in sets[n + 1:]]
                    out += [(where, " * ".join(x for x in [factor, *after] if x != "1") or "1")
                            for where, factor in self._terms(part)]
                return out
        raise Unwritten("it has a subscript of a new kind")

    def address(self, let: Let, at: At, value: Callable[[str, At], Value]) -> Address:
        """The elements that a load reads, where an expression stands; `value` gives the numbers that its subscripts
        speak of. Raises Unwritten where lanes would look up several places."""
        assert isinstance(let.op, Load)
        name = self.arguments.tensor(let.op.buffer)
        type_ = stored(self.module.buffers[let.op.buffer].element)
        parts, rows = [name], []
        gathers: list[tuple[str, str, str]] = []
        for slot, sub in enumerate(let.op.subs):
            for where, factor in self._terms(sub):
                stride = f"{name}_{slot}" if factor == "1" else f"{factor} * {name}_{slot}"
                if isinstance(where, Gather):
                    found = value(let.args[where.arg], at)
                    extent = self.arguments.size(where.set.extent)
                    self.arguments.not_zero.add(extent)
                    text = converted(found, "integer", found.lanes)
                    text = f"({text} - {where.set.start})" if where.set.start else text
                    extent += ", bad" * bool(where.told and not where.safe)
                    if found.lanes:
                        gathers.append((text, stride, extent))
                    else:
                        parts.append(f"inside({text}, {extent}) * {stride}")
                elif where == 0:
                    parts.append(stride)
                elif where == self.schedule.rows.name:
                    parts.append(f"first * {stride}")
                    rows.append(stride)
                else:
                    assert isinstance(where, str)
                    parts.append(f"{self._place(where, at)} * {stride}")
        if len(gathers) > 1:
            raise Unwritten("lanes look up an element at several places that they have computed")
        return Address(" + ".join(parts), " + ".join(rows) or "0", tuple(gathers), type_)

    def _place(self, axis: str, at: At) -> str:
        if axis == self.schedule.stream.name:
            return f"(from + {at.position})"
        return dict(at.features).get(axis) or self.at[axis]

    def slots(self, store: Store) -> dict[str, str]:
        """The stride of each axis of a stored value in its buffer."""
        name, out = self.arguments.tensor(store.buffer), dict[str, str]()
        for slot, axes in enumerate(store.axes):
            for n, axis in enumerate(axes):
                after = [self.arguments.size(self.extent(a)) for a in axes[n + 1:]]
                out[axis] = " * ".join([f"{name}_{slot}", *after])
        return out

    def base(self, store: Store, strides: dict[str, str], features: Sequence[tuple[str, str]] = ()) -> str:
        """The first element that a tile stores."""
        name, known = self.arguments.tensor(store.buffer), dict(features)
        parts = [name]
        for axis, stride in strides.items():
            if axis == self.schedule.rows.name:
                parts.append(f"first * {stride}")
            elif axis in known:
                parts.append(f"{known[axis]} * {stride}")
            elif axis in self.at:
                parts.append(f"{self.at[axis]} * {stride}")
        return " + ".join(parts)
