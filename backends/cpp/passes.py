"""A kernel without a stream as one pass over memory: its lanes are neighbours in memory.

The lanes are the axis along which most of what the kernel reads and stores lies; each point of its other axes is a
unit. A fold over the lanes ends a loop over the vectors of a unit: what depends on its result comes in the next loop,
and what that loop reads of this one is stored in memory of the thread, or made again where it is not a real number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from einc.backends.cpp.growing import Grown, closed, opened
from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import NONE, WORTH, Schedule, Unwritten, check_spelled, tiled
from einc.backends.cpp.values import At, Value, begun, converted, fold_of, stepped, type_of
from einc.backends.cpp.wrapping import wrapped
from einc.backends.writer import Writer
from einc.ir.plan import Axis, AxisRef, Flatten, Iota, Kernel, Let, Load, Scalar, Store, Subscript

WIDTH = 1024  # lanes of a piece where nothing is folded over them all
PIECE = 4096  # lanes of a piece of work


def scheduled(kernel: Kernel, lanes: str = "") -> Schedule:
    """The places of a kernel's values: a pass where it can be one, else tiles of rows, whose lanes are positions of its
    grid axis, or of the axis that is named.

    Raises Unwritten where the kernel has something that this back end does not write.
    """
    if kernel.stream is None and not lanes:
        with suppress(Unwritten):
            return passed(kernel)
    return tiled(kernel, lanes)


def passed(kernel: Kernel) -> Schedule:
    """A kernel as a pass over memory. Raises Unwritten where it can be none, or is not worth one."""
    if kernel.resumed is not None or any(axis.bound is not None for axis in kernel.axes) or kernel.merged:
        raise Unwritten("its tiles depend on each other")
    lanes = _lanes(kernel)
    held = [{a for part in store.axes for a in part} - {lanes.name} for store in kernel.stores]
    widest = max(kernel.stores, key=lambda store: sum(map(len, store.axes)))
    units = tuple(kernel.axis(a) for part in widest.axes for a in part if a != lanes.name)
    known = {axis.name for axis in units}
    if any(axes != known for axes in held):
        raise Unwritten("its results have different axes")
    work = [let for let in kernel.lets if let.kind == "real" and not isinstance(let.op, Load)
            and (lanes.name in let.axes or lanes.name in let.over)]
    if len(work) < WORTH:
        raise Unwritten("its values are made in few passes over memory")
    stages = _levels(kernel, lanes.name)
    made = Schedule(kernel, lanes, NONE, units, stages, _kept(kernel, stages, lanes.name), frozenset(), passes=True)
    for let in kernel.lets:
        check_spelled(let)
        if set(let.over) - {lanes.name} or set(let.axes) - known - {lanes.name} or let.carry is not None:
            raise Unwritten(f"`{let.name}` has axes that are neither units nor lanes")
        if let.over:
            fold_of(let)
    if any(made.lets()[store.value].kind != "real" for store in kernel.stores):
        raise Unwritten("it stores what is no real number")
    return made


def _lanes(kernel: Kernel) -> Axis:
    """The axis along which most of what has the most axes lies in memory. Raises Unwritten where nothing has any."""
    found = [(len(let.axes), _last(let.op.subs[-1])) for let in kernel.lets
             if isinstance(let.op, Load) and let.op.subs and let.kind == "real"]
    found += [(sum(map(len, store.axes)), store.axes[-1][-1]) for store in kernel.stores
              if store.axes and store.axes[-1]]
    most = max((axes for axes, name in found if name), default=0)
    votes = Counter(name for axes, name in found if name and axes == most)
    if not votes:
        raise Unwritten("nothing that it reads or stores has axes")
    return kernel.axis(votes.most_common(1)[0][0])


def _last(sub: Subscript) -> str:
    """The axis along which neighbours in a slot lie; empty where it is none."""
    match sub:
        case AxisRef(axis):
            return axis
        case Flatten(parts, _):
            return _last(parts[-1])
    return ""


def _levels(kernel: Kernel, lanes: str) -> dict[str, int]:
    """How many folds over the lanes stand, one after the other, before each value."""
    folds = {let.name for let in kernel.lets if lanes in let.over}
    levels: dict[str, int] = {}
    for let in kernel.lets:
        levels[let.name] = max((levels[a] + (a in folds) for a in let.reads), default=0)
    return levels


def _kept(kernel: Kernel, levels: dict[str, int], lanes: str) -> frozenset[str]:
    """The values of lanes that stand in memory for a later loop: real numbers that are computed."""
    kept = {let.name for let in kernel.lets
            if let.kind == "real" and lanes in let.axes and not isinstance(let.op, Load)}
    return frozenset(a for let in kernel.lets for a in let.reads if a in kept and levels[a] < levels[let.name])


@dataclass
class Pass:
    """Writes a kernel that is a pass; `body` has the statements of a piece of work."""

    places: Places
    body: Writer = field(default_factory=lambda: Writer(depth=1))

    @property
    def schedule(self) -> Schedule:
        """What the kernel keeps, folds and stores, in its parts."""
        return self.places.schedule

    @property
    def lanes(self) -> str:
        """The name of the axis of the lanes."""
        return self.schedule.rows.name

    def text(self, name: str) -> str:
        """The C++ text of a kernel of this name: its functions for one piece of work, for a call and for a queue."""
        places, schedule = self.places, self.schedule
        places.body = self.body
        arguments = places.arguments
        arguments.written = {arguments.tensor(store.buffer) for store in schedule.kernel.stores}
        extent = arguments.size(schedule.rows.set.extent)
        kernel = schedule.kernel
        whole = any(let.over for let in kernel.lets) or not all(map(self._has_lanes, kernel.stores))
        tiles = "1" if whole else f"(({extent} + {WIDTH - 1}) / {WIDTH})"
        digits = [(arguments.fresh(axis.name), arguments.size(axis.set.extent)) for axis in schedule.units]
        places.addresses.at |= {axis.name: place for axis, (place, _) in zip(schedule.units, digits, strict=True)}
        digits += [] if whole else [("tile", tiles)]
        self._counted(digits, extent, whole)
        for level in range(max(schedule.stages.values(), default=0) + 1):
            self._level(level, extent)
        for store in schedule.kernel.stores:
            if not self._has_lanes(store):
                place = places.addresses.base(store, places.addresses.slots(store))
                value = converted(places.value(store.value, At()), "real", False)
                self.body(f"put({place}, {value});")
        self._stepped(digits)
        self.body.close()
        self.body("}")
        counts = [f"const L units = {' * '.join(count for _, count in digits) or '1'};",
                  f"const L several = {PIECE} / ({extent if whole else WIDTH} + 1) + 1;"]
        piece = "one(p, n, x, work * several, (work + 1) * several < units ? (work + 1) * several : units, own, bad);"
        return wrapped(places, self.body, name, "L begin, L end", "(units + several - 1) / several", piece, counts)

    def _has_lanes(self, store: Store) -> bool:
        """Whether what is stored has a number for each lane."""
        return self.schedule.has_rows(self.schedule.lets()[store.value])

    def _counted(self, digits: Sequence[tuple[str, str]], extent: str, whole: bool) -> None:
        """Writes the head of the loop over units: their places count up like the digits of a number."""
        self.body("L digits = begin;")
        for place, count in reversed(digits):
            self.body(f"L {place} = digits % {count}; digits /= {count};")
        self.body.open("for (L unit = begin; unit < end; unit++) {")
        if whole:
            self.body(f"const L first = 0, rows = {extent};")
        else:
            self.body(f"const L first = tile * {WIDTH};")
            self.body(f"const L rows = {extent} - first < {WIDTH} ? {extent} - first : {WIDTH};")

    def _stepped(self, digits: Sequence[tuple[str, str]]) -> None:
        """Writes the step to the next unit."""
        for place, count in reversed(digits):
            self.body.open(f"if (++{place} == {count}) {{")
            self.body(f"{place} = 0;")
        for _ in digits:
            self.body.close()
            self.body("}")

    # a loop over the vectors of a unit

    def _level(self, level: int, extent: str) -> None:
        """Writes what depends on so many folds: numbers of the unit, a loop over its vectors, the folds at its end."""
        schedule, places = self.schedule, self.places
        mine = [let for let in schedule.kernel.lets if schedule.stages[let.name] == level]
        for let in mine:
            if not schedule.has_rows(let) and not let.over:
                places.make(let)
        folds = [let for let in mine if let.over]
        stores = [store for store in schedule.kernel.stores
                  if schedule.stages[store.value] == level and self._has_lanes(store)]
        kept = [let for let in mine if let.name in schedule.kept]
        if not folds and not stores and not kept:
            return
        for let in (*folds, *kept):
            places.names[let.name] = places.arguments.fresh(let.name)
        for let in kept:
            places.allot(places.names[let.name], f"{extent} + W")
        self._vectors(self._needed([x.name for x in (*folds, *kept)] + [s.value for s in stores], level), folds, stores)
        for let in folds:
            self._folded(let)
        for let in kept:
            self._again(let, places.names[let.name])

    def _again(self, let: Let, memory: str) -> None:
        """Says that a value of lanes stands in memory of the thread."""
        self.places.refer(let, lambda at: Value(f"ld({memory} + {at.vector} * W)", "real", True))

    def _needed(self, wanted: Iterable[str], level: int) -> list[Let]:
        """The values of lanes that a loop makes, so that these are known."""
        schedule, names = self.schedule, set(wanted)
        for let in reversed(schedule.kernel.lets):
            if let.name in names and not (let.name in schedule.kept and schedule.stages[let.name] < level):
                names |= set(let.reads)
        return [let for let in schedule.kernel.lets if let.name in names and schedule.has_rows(let)
                and not (let.name in schedule.kept and schedule.stages[let.name] < level)]

    def _vectors(self, lets: Sequence[Let], folds: Sequence[Let], stores: Sequence[Store]) -> None:
        """Writes a loop over the rows of a tile, a vector of them at a time: the values in it, the folds that go on
        over it, and the stores. Lanes behind the last row count for nothing."""
        places, at = self.places, At()
        grown = [Grown(places.names[let.name], fold_of(let), True) for let in folds]
        loops = [("i", "(rows + W - 1) / W")]
        opened(self.body, grown, loops)
        for let in lets:
            self._value(let, at)
            if let.name in self.schedule.kept and let.name in places.names:
                self.body(f"st({places.names[let.name]} + i * W, {places.value(let.name, at).text});")
        for let in folds:
            name, values = places.names[let.name], [converted(places.value(a, at), "real", True) for a in let.args]
            there = f"choose(leading(rows - i * W), {' * '.join(values)}, splat((float){begun(fold_of(let))}))"
            self.body(f"{name} = {stepped(fold_of(let), name, there)};")
        for store in stores:
            strides = places.addresses.slots(store)
            along, base = strides[self.lanes], places.addresses.base(store, strides)
            value = converted(places.value(store.value, at), "real", True)
            self.body(f"save({base} + i * W * {along}, {along}, rows - i * W, {value});")
        closed(self.body, grown, loops)
        for let in lets:
            places.forget(let)

    def _value(self, let: Let, at: At) -> None:
        """Writes a value of lanes, in a variable; one that is cheaper to repeat stands where it is read."""
        places = self.places
        if isinstance(let.op, Iota | Scalar):
            return
        name = places.arguments.fresh(let.name)
        found = places.addresses.address(let, at, places.value) if isinstance(let.op, Load) else None
        if found is not None and not found.gathers:
            told = ", bad" if let.kind == "integer" else ""
            text = f"some({found.pointer} + {at.vector} * W * {found.rows}, {found.rows}, rows - {at.vector} * W{told})"
        else:
            text = converted(places.expression(let, at), let.kind, True)
        self.body(f"const {type_of(let.kind, True)} {name} = {text};")
        places.variable_of(let, name)

    def _folded(self, let: Let) -> None:
        """Writes the number that a fold over the lanes is."""
        places, fold = self.places, fold_of(let)
        name = places.arguments.fresh(let.name)
        step = f"[](V a, V b) {{ return {stepped(fold, 'a', 'b')}; }}"
        self.body(f"const float {name} = across({places.names[let.name]}, {step});")
        places.refer(let, lambda _: Value(name, "real", False))
