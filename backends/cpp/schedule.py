"""Where each value of a kernel stands in its C++ function, or why the kernel cannot be written so.

The lanes of a vector are rows of a tile: positions of the grid axis. Axes that every value of a tile has, and that
nothing folds, are units: each of their points is a piece of work of its own. What has neither rows nor the streamed
axis is made once a unit, what has rows once a tile of rows, what has the streamed axis alone once a tile of the stream,
and what has both is made in blocks of a few positions of the stream, whose values stay in registers. A fold over the
stream that later values of the same tile read ends a stage: those values belong to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from einc.backends.cpp.around import along_one
from einc.backends.cpp.spelling import STEPS
from einc.ir.indices import DATA, IndexSet, number
from einc.ir.plan import (
    Axis,
    AxisRef,
    Dot,
    Kernel,
    Let,
    Load,
    Map,
    PreviousCarry,
    Reduce,
    Scan,
    ScatterAdd,
    Select,
    axes_of,
)
from einc.ir.primitives import HASHES


class Unwritten(Exception):  # noqa: N818 - what a kernel has that this back end does not write
    """A kernel has something for which this back end has no text: torch's statements compute it."""


NONE = Axis("", IndexSet("", number(1)), "stream")  # the stream of a kernel that has none
WORTH = 4  # values of rows that torch would make in a pass over memory each


@dataclass(frozen=True, slots=True)
class Schedule:
    """A kernel with the parts of its function: see the head of the module.

    `stages` are the numbers of the stages in which values of the stream are made, `kept` the values of blocks that are
    stored for the tile because a later stage or a product reads them, `after` what is made after the stream.
    """

    kernel: Kernel
    rows: Axis
    stream: Axis
    units: tuple[Axis, ...]
    stages: Mapping[str, int]
    kept: frozenset[str]
    after: frozenset[str]
    passes: bool = False  # the lanes are neighbours in memory, and all of them one tile: see `passes`
    around: tuple[Axis, ...] = ()  # axes that are folded together with the streamed one, by loops around it

    def lets(self) -> Mapping[str, Let]:
        """The values of the kernel by their names."""
        return {let.name: let for let in self.kernel.lets}

    def features(self, let: Let) -> tuple[str, ...]:
        """The axes of a let that are neither units nor rows nor the streamed one, nor folded with that."""
        others = {axis.name for axis in (*self.units, *self.around)} | {self.rows.name, self.stream.name}
        return tuple(a for a in let.axes if a not in others)

    def has_rows(self, let: Let) -> bool:
        """Whether a value has the axis of rows, and so one number in each lane."""
        return self.rows.name in let.axes

    def streams(self, let: Let) -> bool:
        """Whether a value has the axis that the kernel streams over."""
        return self.stream.name in let.axes

    def turns(self, let: Let) -> bool:
        """Whether a value is made anew in the loops around the stream."""
        return not {axis.name for axis in self.around}.isdisjoint(let.axes)

    @property
    def columns(self) -> bool:
        """Whether the stream is folded without tiles of rows: the lanes are what lies side by side in the results."""
        return self.kernel.grid is None and self.kernel.stream is not None

    @property
    def count(self) -> int:
        """The number of passes over the streamed axis, at least one."""
        return 1 + max(self.stages.values(), default=0)


def shared(kernel: Kernel) -> str:
    """An axis whose points share all that is read along the stream, so that they may be lanes where rows are few; empty
    for none.

    Raises Unwritten where the kernel has something that this back end does not write.
    """
    made = tiled(kernel)
    if kernel.merged or kernel.stream is None or made.columns:
        return ""
    wide = [let for let in kernel.lets if made.streams(let) and not made.has_rows(let) and made.features(let)]
    return next((a.name for a in made.units if all(a.name not in let.axes for let in wide)), "")


def tiled(kernel: Kernel, lanes: str = "") -> Schedule:
    """The places of a kernel's values; the lanes are positions of its grid axis, or of the axis that is named.

    Raises Unwritten where it has something that this back end does not write.
    """
    kernel, around = along_one(kernel)
    rows, stream = kernel.grid or _longest(kernel), kernel.stream or NONE
    if kernel.resumed is not None or any(a.bound is not None for a in kernel.axes if a is not stream):
        raise Unwritten("its tiles depend on each other")
    units = _units(kernel, rows, stream) if kernel.stream is not None else _pieces(kernel, rows)
    if lanes:
        units = (*(a for a in units if a.name != lanes), rows)
        rows = kernel.axis(lanes)
    late = _late(kernel)
    inner = {let.name for let in kernel.lets if stream.name in let.axes or folds_stream(let, kernel)}
    for let in reversed(kernel.lets):
        if let.name in inner:
            inner |= {a for a in let.reads if a in late}
    stages = _stages(kernel, inner)
    made = Schedule(kernel, rows, stream, units, stages, frozenset(), frozenset(late - inner), around=around)
    for let in kernel.lets:
        _check(let, made)
    _check_stores(made)
    return replace(made, kept=_kept(made))


def _longest(kernel: Kernel) -> Axis:
    """The axis whose positions are the rows of a kernel that has no tiles: the first that is as long as the data. Those
    of a stream are what lies side by side in its results, so that what is added up along it is read as it lies.

    Raises Unwritten where there is none.
    """
    if not kernel.stores:
        raise Unwritten("it stores nothing")
    held = [{a for part in store.axes for a in part} for store in kernel.stores]
    folded = {a for let in kernel.lets for a in let.over}
    if kernel.stream is not None:
        found = [kernel.axis(a) for store in kernel.stores for a in (store.axes[-1] if store.axes else ())
                 if a != kernel.stream.name and a not in folded and all(a in axes for axes in held)]
        if not found:
            raise Unwritten("it has a stream, and no tiles of rows")
        return found[-1]
    found = [a for a in kernel.axes
             if a.set.cls in DATA and a.name not in folded and all(a.name in axes for axes in held)]
    if not found:
        raise Unwritten("its results have no axis that is as long as the data")
    return next((a for a in found if a.set.cls == "time"), found[0])


def _pieces(kernel: Kernel, rows: Axis) -> tuple[Axis, ...]:
    """The units of a kernel without a stream: axes of all results that no fold has, but for those of neighbours in
    memory. Raises Unwritten where its values are made in few passes over memory anyway."""
    work = [let for let in kernel.lets if let.kind == "real" and rows.name in let.axes and not isinstance(let.op, Load)]
    if len(work) < WORTH:
        raise Unwritten("its values are made in few passes over memory")
    held = [{a for part in store.axes for a in part} for store in kernel.stores]
    near = {a for store in kernel.stores for a in (store.axes[-1] if store.axes else ())}
    near |= {a for let in kernel.lets for a in let.over}
    return tuple(a for a in kernel.axes
                 if a is not rows and a.name not in near and all(a.name in axes for axes in held))


def _units(kernel: Kernel, rows: Axis, stream: Axis) -> tuple[Axis, ...]:
    """The axes whose points are pieces of work. Raises Unwritten where results are sums over one of them."""
    tile = {rows.name, stream.name}
    folded = {a for let in kernel.lets for a in let.over}
    held = {a for store in kernel.stores for part in store.axes for a in part}
    among = kernel.largest if kernel.grid is not None else [a.name for a in kernel.axes if a.name in held]
    names = [a for a in among if a not in tile | folded]
    for store in kernel.stores:
        axes = {a for part in store.axes for a in part}
        if not axes.issuperset(names):
            raise Unwritten("its results are sums over what its tiles share")
    return tuple(kernel.axis(a) for a in names)


def _late(kernel: Kernel) -> set[str]:
    """What depends on something that is carried along the stream."""
    late: set[str] = set()
    for let in kernel.lets:
        if folds_stream(let, kernel) or isinstance(let.op, PreviousCarry) or any(a in late for a in let.reads):
            late.add(let.name)
    return late


def _stages(kernel: Kernel, inner: set[str]) -> dict[str, int]:
    """The stage of each value that is made within the stream."""
    lets = {let.name: let for let in kernel.lets}
    stages: dict[str, int] = {}
    for let in kernel.lets:
        if let.name not in inner:
            continue
        before = [stages[a] + folds_stream(lets[a], kernel) for a in let.reads if a in stages]
        if let.carry is not None and let.carry.reference is not None:
            before.append(stages[let.carry.reference] + 1)
        stages[let.name] = max(before, default=0)
    return stages


def folds_stream(let: Let, kernel: Kernel) -> bool:
    """Whether a value is known only after all positions of the tile: it is carried, or a fold of this tile alone."""
    return let.carry is not None or (kernel.stream is not None and kernel.stream.name in let.over)


def shown(let: Let, schedule: Schedule) -> bool:
    """Whether a running maximum is in a result, or in what chooses between results, with nothing beside it that is
    relative to it: what is no number would show in that.
    """
    lets = schedule.lets()

    def within(last: str) -> set[str]:
        """All values that this one is made of, itself too."""
        read, stack = set[str](), [last]
        while stack:
            read.add(name := stack.pop())
            stack += [a for a in lets[name].reads if a not in read]
        return read

    def alone(last: str) -> bool:
        read = within(last)
        relative = any(one.reference == let.name for name in read if (one := lets[name].carry) is not None)
        return let.name in read and not relative

    results = [store.value for store in schedule.kernel.stores]
    choices = {lets[name].args[0] for last in results for name in within(last) if isinstance(lets[name].op, Select)}
    return any(map(alone, {*results, *choices}))


def _kept(schedule: Schedule) -> frozenset[str]:
    """The values of blocks that are read after their block."""
    lets, kept = schedule.lets(), set[str]()
    for let in schedule.kernel.lets:
        late = isinstance(let.op, Dot) and bool(product_at_end(let, schedule))
        for name in let.reads:
            arg = lets[name]
            block = arg.kind == "real" and schedule.streams(arg) and schedule.has_rows(arg)  # others are made again
            if block and (late or schedule.stages[name] < schedule.stages.get(let.name, 0)):
                kept.add(name)
    return frozenset(kept)


def product_at_end(let: Let, schedule: Schedule) -> str:
    """Which product of blocks that are stored ends a stage: over the "stream", over the "rows", or none."""
    if not isinstance(let.op, Dot):
        return ""
    if let.over == (schedule.stream.name,) and schedule.features(let):
        return "stream"
    return "rows" if schedule.rows.name in let.over else ""


def check_spelled(let: Let) -> None:
    """Raises Unwritten for a step that has no text here, whatever the places of its values."""
    if isinstance(let.op, Scan | ScatterAdd) or (isinstance(let.op, Map) and let.op.op in HASHES):
        raise Unwritten("it has a running fold, a scatter or numbers drawn at random")
    if isinstance(let.op, Map) and let.op.op in ("floor", "ceil", "pick") and let.kind == "integer":
        raise Unwritten("it rounds numbers to whole ones")


def _check(let: Let, schedule: Schedule) -> None:
    """Raises Unwritten for a let that is not written yet."""
    features, rows, streams = schedule.features(let), schedule.has_rows(let), schedule.streams(let)
    lets = schedule.lets()
    check_spelled(let)
    if features and schedule.around:
        raise Unwritten("it folds several axes together, and values have features beside them")
    if rows and streams and features:
        _check_in_pairs(let, schedule)
    if let.carry is not None:
        _check_carried(let, schedule)
    elif isinstance(let.op, Reduce) and {schedule.rows.name, schedule.stream.name} & set(let.over):
        raise Unwritten("it folds over rows, or over the stream what is not carried")
    if isinstance(let.op, PreviousCarry) and (features or lets[let.args[0]].carry is None):
        raise Unwritten("it reads what many features were before the tile")
    if (let.name in schedule.stages and not rows and schedule.rows.name not in let.over
            and let.name not in _early(schedule)):
        raise Unwritten(f"`{let.name}` depends on what is carried, and has no rows")
    if isinstance(let.op, Dot):
        _check_product(let, schedule)


def in_pairs(let: Let, schedule: Schedule) -> bool:
    """Whether a row and a position of the stream make a value for each feature."""
    return schedule.has_rows(let) and schedule.streams(let) and bool(schedule.features(let))


def folds_pairs(let: Let, schedule: Schedule) -> bool:
    """Whether a value is a fold over features of what a row and a position of the stream make for each."""
    lets = schedule.lets()
    return isinstance(let.op, Dot | Reduce) and any(in_pairs(lets[a], schedule) for a in let.args)


def _check_in_pairs(let: Let, schedule: Schedule) -> None:
    """Raises Unwritten unless what pairs have for each feature is made where a fold over the features reads it."""
    users = [x for x in schedule.kernel.lets if let.name in x.reads]
    near = all(schedule.stages.get(x.name) == schedule.stages.get(let.name) for x in users)
    folded = all(in_pairs(x, schedule) if isinstance(x.op, Map | Select) else
                 folds_pairs(x, schedule) and schedule.has_rows(x) and schedule.streams(x) for x in users)
    stored = any(store.value == let.name for store in schedule.kernel.stores)
    if not isinstance(let.op, Map | Select | Load) or not users or not near or not folded or stored:
        raise Unwritten(f"`{let.name}` has rows, the streamed axis and features, and no fold reads it at once")


def _early(schedule: Schedule) -> set[str]:
    """What has the streamed axis and depends on nothing that is carried."""
    late = _late(schedule.kernel)
    return {let.name for let in schedule.kernel.lets if let.name not in late}


def loaded_as_it_lies(let: Let, schedule: Schedule) -> bool:
    """Whether an operand is a load without computed places whose only features lie along one slot."""
    return isinstance(let.op, Load) and not let.args and len(schedule.features(let)) == 1


def spreads(schedule: Schedule, kept: Mapping[str, int]) -> bool:
    """Whether all that is kept is read along the stream alone, a tile's positions by their places on an axis of it:
    then tiles may lie anywhere.
    """
    loads = [(let, let.op) for let in schedule.kernel.lets if isinstance(let.op, Load) and let.op.buffer in kept]
    return schedule.kernel.stream is not None and all(
        schedule.streams(let) and op.subs[kept[op.buffer]] == AxisRef(schedule.stream.name)
        and not any(schedule.stream.name in axes_of(sub) for n, sub in enumerate(op.subs) if n != kept[op.buffer])
        for let, op in loads)


def only_multiplied(let: Let, schedule: Schedule) -> bool:
    """Whether products with bodies of their own are all that reads a value along the stream."""
    users = [x for x in schedule.kernel.lets if let.name in x.reads]
    return all(isinstance(x.op, Dot) and schedule.has_rows(x) and not folds_pairs(x, schedule) for x in users)


def in_memory(let: Let, schedule: Schedule) -> bool:
    """Whether the features of a value stand in memory: those of real numbers, and of exact ones that are only rounded.
    Any other value with features is computed where it is read.
    """
    if let.kind == "real":
        return True
    users = [x for x in schedule.kernel.lets if let.name in x.reads]
    return let.kind == "exact" and isinstance(let.op, Load) and all(x.kind == "real" for x in users)


def _check_carried(let: Let, schedule: Schedule) -> None:
    assert let.carry is not None
    if let.kind != "real" or not schedule.has_rows(let):
        raise Unwritten(f"`{let.name}` is carried, and has no real numbers for each row")
    if schedule.features(let) and not (isinstance(let.op, Dot) and let.carry.fold == "sum"):
        raise Unwritten(f"`{let.name}` is a fold of many features that is no sum of products")
    if let.carry.fold not in STEPS:
        raise Unwritten(f"`{let.name}` is a fold `{let.carry.fold}`")


def _check_product(let: Let, schedule: Schedule) -> None:
    """Raises Unwritten unless a product has operands that one of its bodies takes."""
    if folds_pairs(let, schedule):
        return
    lets, over = schedule.lets(), set(let.over)
    args = [lets[a] for a in let.args]
    rows, stream = schedule.rows.name, schedule.stream.name
    if over == {stream}:
        if let.carry is None and (schedule.features(let) or rows not in let.axes or let.kind != "real"):
            raise Unwritten("it sums over the stream what is not carried")
        many = [a for a in args if schedule.features(a)]
        if len(many) > 1 or any(rows in a.axes or stream not in a.axes for a in many):
            raise Unwritten(f"`{let.name}` is a product of more than one operand with features")
        if schedule.features(let) and not any(rows in a.axes for a in args):
            raise Unwritten(f"`{let.name}` has no operand with rows")
    elif over == {rows}:
        many = [a for a in args if schedule.features(a)]
        if (len(many) != 1 or rows not in many[0].axes or stream in many[0].axes
                or not any(stream in a.axes for a in args)):
            raise Unwritten(f"`{let.name}` sums over rows something else than a product of a block and features")
    elif rows in over or stream in over:
        raise Unwritten(f"`{let.name}` sums over rows or the stream together with another axis")
    elif rows in let.axes and stream in let.axes:
        left = [a for a in args if rows in a.axes and over & set(a.axes)]
        right = [a for a in args if stream in a.axes and over & set(a.axes)]
        both = left + right
        if len(left) != 1 or len(right) != 1 or any(set(schedule.features(a)) != over for a in both):
            raise Unwritten(f"`{let.name}` is no product of rows and the stream")
        if any(a not in both and schedule.features(a) for a in args):
            raise Unwritten(f"`{let.name}` has a third operand with features")


def _check_stores(schedule: Schedule) -> None:
    """Raises Unwritten where a store is neither a sum of products that tiles share nor a real number for each row."""
    lets = schedule.lets()
    for store in schedule.kernel.stores:
        let = lets[store.value]
        if store.merge:
            if store.merge != "sum" or product_at_end(let, schedule) != "rows":
                raise Unwritten("tiles share a result that is no sum of products")
        elif not schedule.has_rows(let) or let.kind != "real":
            raise Unwritten(f"`{let.name}` is stored, and has no real numbers for each row")
        elif schedule.streams(let) and let.name in schedule.after:
            raise Unwritten(f"`{let.name}` is stored after the stream, along it")
