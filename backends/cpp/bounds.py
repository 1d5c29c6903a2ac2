"""Closed forms of the plan as whole numbers of C++: where the stream of a tile begins and ends,
whether a mask cuts a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Literal, assert_never

from einc.backends.cpp.arguments import Arguments
from einc.backends.cpp.schedule import Schedule, Unwritten
from einc.backends.host.bounds import Arithmetic, limits, nonnegative, search, text, total
from einc.backends.writer import Writer, identifier, sized
from einc.ir.indices import Extent, Index, number, of_atom, size
from einc.ir.plan import Axis, Interval
from einc.ir.terms import Fold, Position, Read, Term

_RUNNING = {True: ("rising", ".cummax(-1).values"), False: ("falling", ".flip(-1).cummin(-1).values.flip(-1)")}


@dataclass
class Ends:
    """The spelling of closed forms for one kernel. `places` are the storage positions of its units; statements are
    written where the tile of rows begins."""

    schedule: Schedule
    arguments: Arguments
    body: Writer
    places: dict[str, str]
    # Of rows and stream: the first, the last storage position.
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    known: dict[Term, str] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)  # what the loop of a fold counts
    needed: set[str] = field(default_factory=set)  # sizes of the plan: every other name in a sum stands in parentheses

    def arithmetic(self, op: Arithmetic, args: Sequence[str]) -> str:
        """An operation on numbers of 64 bits, as an expression of C++."""
        match op:
            case "min" | "max":
                function = "smaller" if op == "min" else "larger"
                made = f"(L)({args[0]})"
                for other in args[1:]:
                    made = f"{function}({made}, (L)({other}))"
                return made
            case "abs":
                return f"size((L)({args[0]}))"
            case "floor" | "ceil" | "mod":
                function = {"floor": "floored", "ceil": "ceiled", "mod": "rest"}[op]
                return f"{function}((L)({args[0]}), (L)({args[1]}))"
            case "mul":
                return f"({' * '.join(f'({a})' for a in args)})"
        assert_never(op)

    def number(self, total: Extent) -> str:
        """A sum: a division of it by a number is exact, or rounds down. Raises Unwritten for a division by a size."""
        total = total.put({name: size(self.arguments.size(size(name))) for name in self.needed & total.sizes},
                          lambda atom: size(self.arguments.size(of_atom(atom))))
        written = sized(total)
        if "//" not in written:
            return f"({written})"
        denominator = lcm(*(coefficient.denominator for _, coefficient in total.terms))
        if any(power < 0 for monomial, _ in total.terms for _, power in monomial):
            raise Unwritten("its bounds divide by a size")
        return f"floored({sized(number(denominator) * total)}, {denominator})"

    def needs(self, extent: Extent) -> None:
        """Hands the sizes to the kernel under the names that the text has for them."""
        self.needed |= extent.sizes

    def end(self, axis: str, which: Literal["first", "last"]) -> Extent:
        """The first or the last storage position of a tile."""
        if axis not in self.ends:  # a unit has one position
            return size(f"({self.places[axis]})")
        return size(f"({self.ends[axis][which == 'last']})")

    def place(self, index: Index) -> str:
        """The storage position of a unit, or of what a loop counts. Raises Unwritten for another axis."""
        if index.name in self.counted:
            return f"({self.counted[index.name]})"
        if index.name not in self.places:
            raise Unwritten("its bounds fold over an axis that is no unit")
        return f"({self.places[index.name]})"

    def element(self, read: Read) -> str:
        """An element of a tensor of whole numbers."""
        return f"num({self._pointer(read)})"

    def fold(self, fold: Fold, inline: bool) -> Extent:
        """A search in a tensor that never falls, or the least or greatest of some numbers; under a name."""
        if fold in self.known:
            return size(f"({self.known[fold]})")
        if (found := search(fold)) is not None:
            running, change = _RUNNING[found.first]
            read, axis = found.read, found.axis
            slot = next(n for n, s in enumerate(read.subs) if isinstance(s, Position) and s.index == axis)
            base = identifier(read.tensor)
            moved = slot != len(read.subs) - 1
            tensor = f"{base}.movedim({slot}, -1)" if moved else base
            made = f"{tensor}{change}" + (f".movedim(-1, {slot})" if moved else "")
            name = self.arguments.running(made, f"{read.tensor}_{running}", len(read.subs))
            limit = text(found.limit, self)
            where = "".join(f" + {self.place(s.index)} * {name}_{n}" for n, s in enumerate(read.subs)
                            if isinstance(s, Position) and s.index != axis)
            function = "first_at" if found.first else "first_above"
            count = f"{function}({name}{where}, {name}_{slot}, {self.arguments.size(axis.set.extent)}, {limit})"
            return self._named(fold, count) + number(axis.set.start - (not found.first))
        return self._extreme(fold)

    def _extreme(self, fold: Fold) -> Extent:
        """Writes the search for the least or greatest over rows of the tile; over units there is the one of this piece
        of work. Raises Unwritten for another axis."""
        rows = self.schedule.rows
        over = [i for i in fold.bound if i.name not in self.places]
        if len(over) > 1 or any(i.name != rows.name for i in over):
            raise Unwritten("its bounds fold over an axis that is no unit")
        if not over:
            return total(fold.body, self)
        name, at = self.arguments.fresh("end"), self.arguments.fresh("at")
        low, high = self.ends[rows.name]
        self.counted[rows.name] = at
        made = text(fold.body, self)
        del self.counted[rows.name]
        function = "smaller" if fold.op == "min" else "larger"
        self.body(f"L {name} = 0;")
        merged = f"{at} == {low} ? (L)({made}) : {function}({name}, (L)({made}))"
        self.body(f"for (L {at} = {low}; {at} <= {high}; {at}++) {name} = {merged};")
        self.known[fold] = name
        return size(f"({name})")

    def _named(self, term: Term, made: str) -> Extent:
        self.known[term] = self.arguments.fresh("end")
        self.body(f"const L {self.known[term]} = {made};")
        return size(f"({self.known[term]})")

    def _pointer(self, read: Read) -> str:
        name = self.arguments.tensor(read.tensor)
        places = [self.place(s.index) for s in read.subs if isinstance(s, Position)]
        return f"{name}[{' + '.join(f'{place} * {name}_{n}' for n, place in enumerate(places)) or '0'}]"

    # spans

    def span(self, axis: Axis, span: Interval) -> tuple[str, str]:
        """The positions of a span within the axis: its first, and the one after its last."""
        extent = self.arguments.size(axis.set.extent)
        lows, highs = limits(axis, span, self)
        low = self.arithmetic("max", ["0", *lows])
        high = self.arithmetic("min", [extent, *highs])
        if span.when:
            high = f"({' && '.join(nonnegative(t, self) for t in span.when)} ? {high} : 0)"
        return low, high

    def meets(self, axis: Axis, spans: tuple[Interval, ...]) -> str:
        """Whether the tile of the stream meets one of the spans."""
        first, last = self.ends[axis.name]
        out: list[str] = []
        for span in spans:
            lows, highs = limits(axis, span, self)
            parts = [f"{last} >= {x}" for x in lows] + [f"{first} < {x}" for x in highs]
            parts += [f"{x} < {y}" for x in lows for y in highs]
            parts += [nonnegative(t, self) for t in span.when]
            out.append(f"({' && '.join(parts) or 'true'})")
        return " || ".join(out) or "false"
