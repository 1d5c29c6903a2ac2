"""How much a program holds: numbers in registers where most are alive at once, and elements in shared memory.

Both are polynomials in the lengths of the tile, as text for the host. Values made point by point take the place of what
they are made from; an operand that is rounded for a product stands beside what it was rounded from, if others than
folds have yet to read that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from einc.backends.triton.even import apart, moved_by
from einc.backends.triton.layout import Dim, Layout
from einc.backends.triton.phases import Pass, Phases
from einc.ir.plan import Dot, Kernel, Let, Load, Map, PreviousCarry, Reduce, Select
from einc.ir.primitives import LONG, PRIMITIVES

_COUNTED = frozenset({"floordiv", "ceildiv", "mod"})  # of positions
# of what a tile of rows holds: the columns of a thread stand in 16 rows, and half of such values at a time
_BESIDE = 0.25
# of a value in float64 beside one in float32: two registers, and what is subtracted from it needs all at a time
_EXACT = 4
_STRICT = 3  # an operand of a product in full precision that is no load: itself, and the two parts that it is formed of
_USUAL = {"rows": 128, "passed": 64, "whole": 64, "columns": 64}
Held = defaultdict[tuple[Dim, ...], float]


def _held(of: Mapping[tuple[Dim, ...], float] | None = None) -> Held:
    return defaultdict(float, of or {})


@dataclass(frozen=True, slots=True)
class Room:
    """Polynomials: registers, shared memory that stays, shared memory of one stage; the
    last two in elements of the data.

    `fed`: for each row what products of the pass take from outside it, which tiles of few rows hold in registers, too.
    """

    registers: Held
    kept: Held
    moved: Held
    fed: Held


def measured(kernel: Kernel, layout: Layout, stages: Phases) -> Room:
    """The registers and the shared memory that a program needs; of several passes the fullest one counts."""
    measure = _Measure(kernel, layout)
    alive = [measure.alive(one, stages) for one in stages.passes] or [measure.walk(stages.head, _held(), set())]
    registers = max(alive, key=_size)
    return Room(registers, *measure.shared())


def text(held: Held, names: dict[str, str]) -> str:
    """The polynomial in the host's names for the lengths."""
    terms = []
    for shape, many in held.items():
        number = [f"{many:g}"] if many != 1 else []
        terms.append(" * ".join([*number, *(names[d.name] for d in shape)]) or "1")
    return " + ".join(terms) or "0"


def _size(held: Held) -> float:
    total = 0.0
    for shape, many in held.items():
        elements = 1
        for dim in shape:
            elements *= _USUAL[dim.role]
        total += many * elements
    return total


@dataclass
class _Measure:
    """What the values of one kernel weigh while a program of it runs, by how a tile is laid out."""

    kernel: Kernel
    layout: Layout

    def __post_init__(self) -> None:
        self.lets = {let.name: let for let in self.kernel.lets}
        self.users: dict[str, list[str]] = {}
        for let in self.kernel.lets:
            for name in let.reads:
                self.users.setdefault(name, []).append(let.name)

    def shape(self, name: str) -> tuple[Dim, ...]:
        return self.layout.shape(self.lets[name].axes)

    def weight(self, let: Let) -> float:
        """Registers for an element: of a tile of pointers three, of what goes to shared memory none."""
        if len(self.shape(let.name)) < min(2, len(self.layout.dims)) or let.kind in ("truth", "scalar"):
            return 0
        if isinstance(let.op, Load):
            roles = {d.role for d in self.shape(let.name)}
            if {"rows", "passed"} <= roles:
                return 3
            return 0 if all(self._product(u) for u in self.users.get(let.name, [])) else 1
        if isinstance(let.op, Map) and self._product(let.name):
            return 0  # the product is scaled instead
        passed = self.layout.role("passed")
        if passed is not None and apart(self.kernel, self.lets, let.name, passed.axes):
            return 0  # a number for each row, and one for each place
        double = 2 if let.kind == "exact" else 1
        return double if isinstance(let.op, Dot | Reduce | Map | Select | PreviousCarry) else 0.5

    def _product(self, name: str) -> bool:
        """Whether a let is a product of matrices, or scales what goes into one."""
        let = self.lets[name]
        if isinstance(let.op, Map) and let.op.op == "mul" and sum(len(self.shape(a)) > 0 for a in let.args) == 1:
            return all(isinstance(self.lets[u].op, Dot) for u in self.users.get(name, []))
        return isinstance(let.op, Dot) and len(let.args) > 1

    def alive(self, one: Pass, stages: Phases) -> Held:
        """The most that one step of a pass holds, with what is merged in all of them and what waits for its end."""
        base = _held()
        for let in stages.head:
            later = {x.name for x in (*one.inner, *one.after)}
            if not isinstance(let.op, Load) and later & set(self.users.get(let.name, [])):
                base[self.shape(let.name)] += self.weight(let)
        for let in self.kernel.lets:
            if let in one.folds or let.carry is not None:
                base[self.shape(let.name)] += 2 if let.kind == "exact" else 1
        rows, passed = self.layout.role("rows"), self.layout.role("passed")
        if rows is not None and passed is not None:
            base[(rows, passed)] += _BESIDE * self.beside(one, passed)
        return self.walk(one.inner, base,
                         {let.name for let in one.folds} | {x.name for x in self.kernel.lets if x.carry})

    def beside(self, one: Pass, passed: Dim) -> int:
        """Values with a number for each place of the passed axis, which every thread holds for all
        its columns, but for the places themselves: what is loaded, and what places are counted by;
        and what is added place by place;
        beside products of places all have 64 bits."""
        mine = [let for let in one.inner if self.shape(let.name) == (passed,)]
        loads = {let.op.buffer: _EXACT if let.kind == "exact" else 1 for let in mine if isinstance(let.op, Load)}
        counted = [let for let in mine if isinstance(let.op, Map) and let.op.op in _COUNTED]
        whole = [let.op for let in self.kernel.lets if let.kind == "integer" and let.axes]
        even = [let for let in one.inner if moved_by(self.lets, let, passed.axes) is not None]
        bound = self.kernel.axis(passed.axes[0]).bound
        pieces = len(bound.spans) - 1 if bound is not None and bound.spans else 0
        products = sum(isinstance(op, Map) and op.op == "mul" for op in whole)
        return sum(loads.values()) + len(even) + len(counted) + products + pieces

    def walk(self, lets: tuple[Let, ...], base: Held, merged: set[str]) -> Held:
        """The most that is held at once while these lets are computed in order, beside `base`, which counts the
        `merged` ones already. A value is held until its last use among them; what has no dimension is left out.
        """
        place = {let.name: n for n, let in enumerate(lets)}
        last = {name: max((place[u] for u in self.users.get(name, []) if u in place), default=-1) for name in place}
        alive: dict[str, float] = {}
        most, at = base, _size(base)
        for n, let in enumerate(lets):
            if let.name not in merged:
                alive[let.name] = self.weight(let)
            here = _held(base)
            for name, weight in alive.items():
                dies = (last[name] == n and not isinstance(let.op, Dot | Reduce)
                        and self.shape(name) == self.shape(let.name))
                here[self.shape(name)] += 0 if dies and name != let.name else weight
            if isinstance(let.op, Map) and let.op.op in PRIMITIVES and PRIMITIVES[let.op.op].cost >= LONG:
                here[self.shape(let.name)] += 1
            if isinstance(let.op, Dot) and any(len(self.shape(name)) > 2 for name in let.args):
                # What is summed stands beside its operands, a number for each point of three axes.
                here[self.layout.shape(tuple(a for name in let.args for a in self.lets[name].axes))] += 1
            if isinstance(let.op, Dot):
                for shape, many in self._operands(let, let.op).items():
                    here[shape] += many
            if _size(here) > at:
                most, at = here, _size(here)
            alive = {name: w for name, w in alive.items() if last[name] > n}
        return _held({shape: many for shape, many in most.items() if many and shape})

    def _operands(self, let: Let, op: Dot) -> Held:
        """What a product's operands take beside what they were made of: rounded, or as
        float32 in the registers of all threads."""
        out = _held()
        made = [name for name in let.args if not isinstance(self.lets[name].op, Load) and self.shape(name)]
        folded = set(self.layout.shape(let.over))
        deep = sum(bool(folded & set(self.shape(name))) for name in let.args)
        plain = deep < 3 and all(self.weight(self.lets[name]) == 0 for name in made)
        if op.may_round:
            for name in made:
                only_folded = all(isinstance(self.lets[u].op, Dot) for u in self.users.get(name, []))
                out[self.shape(name)] += 0 if only_folded else 0.5  # it takes the place of what it was
        elif len(self.shape(let.name)) == 2 and not plain:
            for name in let.args:
                out[self.shape(name)] += _STRICT if len(self.shape(name)) > 1 else 0
        return out

    def shared(self) -> tuple[Held, Held, Held]:
        """What stays, and what passes through: loads of products, and operands that were
        computed; what rows are fed with."""
        kept, moved, fed = _held(), _held(), _held()
        seen: set[tuple[str, tuple[Dim, ...]]] = set()
        for let in self.kernel.lets:
            shape = self.shape(let.name)
            if isinstance(let.op, Load) and len(shape) > 1 and not self.weight(let):
                key = (let.op.buffer, shape)
                if key not in seen:
                    (moved if any(d.role == "passed" for d in shape) else kept)[shape] += 1
                    if self.kernel.stream is not None and {d.role for d in shape} == {"rows", "whole"}:
                        fed[tuple(d for d in shape if d.role == "whole")] += 1
                seen.add(key)
            if isinstance(let.op, Dot) and len(let.args) > 1 and len(self.shape(let.name)) == 2:
                for computed, many in self._computed(let, let.op).items():
                    kept[computed] += many
        return kept, moved, fed

    def _computed(self, let: Let, op: Dot) -> Held:
        """Operands of a product that do not come from memory and do not stand as its rows."""
        out = _held()
        folded = self.layout.shape(let.over)
        rows = self.shape(let.name)[0]
        for name in let.args:
            shape = self.shape(name)
            made = not isinstance(self.lets[name].op, Load) and set(folded) <= set(shape) and len(shape) > 1
            if made and self.weight(self.lets[name]) and shape[0] != rows:
                out[shape] += 1 if op.may_round else 2
        return out
