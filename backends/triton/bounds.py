"""Closed forms of the plan as numbers of a program: the reach of an axis in its tile, and
where the domain cuts that reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal, assert_never

from einc.backends.host.bounds import Arithmetic, Search, limits, search, text
from einc.backends.triton.folds import Folder
from einc.backends.writer import identifier, sized
from einc.ir.indices import Extent, Index, number, size
from einc.ir.plan import Axis, Interval, Select
from einc.ir.terms import Apply, Fold, Position, Read, Term, free_indices

_RUNNING = {True: ("rising", "{0}.cummax(-1).values"), False: ("falling", "{0}.flip(-1).cummin(-1).values.flip(-1)")}
_SPELLED = {"floor": "_floordiv({}, {})", "ceil": "(-_floordiv(-({}), {}))", "mod": "_mod({}, {})", "abs": "tl.abs({})"}
_HELPERS = {"floor": {"_floordiv"}, "ceil": {"_floordiv"}, "mod": {"_mod"}}
_FARTHEST = {"min": "2**62", "max": "-(2**62)"}


def _long(found: re.Match[str]) -> str:
    """A whole number as the kernel's text has it: one of 64 bits needs a type."""
    return f"tl.full((), {found[0]}, tl.int64)" if int(found[0]) >= 2**31 else found[0]


@dataclass(frozen=True, slots=True)
class Cut:
    """Positions at which a tile needs masks, as texts: from `first` on, and before `past`; empty where there is no
    end."""

    first: str
    past: str


@dataclass
class Numbers:
    """Terms in the ends of tiles. `ends` are the first and last storage positions of a tiled axis, as text."""

    scribe: Folder
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    known: dict[Term, str] = field(default_factory=dict)

    # closed forms: see `host.bounds`

    def arithmetic(self, op: Arithmetic, args: Sequence[str]) -> str:
        """In Triton's arithmetic of scalars, with helpers for quotients of what may be negative. Changes
        `self.scribe.helpers`."""
        self.scribe.helpers |= _HELPERS.get(op, set())
        match op:
            case "min" | "max":
                return reduce(lambda a, b: f"tl.{op}imum({a}, {b})", args)
            case "mul":
                return f"({' * '.join(f'({a})' for a in args)})"
            case "abs" | "mod" | "floor" | "ceil":
                return _SPELLED[op].format(*args)
        assert_never(op)

    def number(self, total: Extent) -> str:
        """A sum, its numbers of 64 bits with their type."""
        return re.sub(r"\b\d{10,}\b", _long, sized(total))

    def needs(self, extent: Extent) -> None:
        """Adds the sizes of an extent to the parameters of the kernel."""
        self.scribe.arguments.size(extent)

    def end(self, axis: str, which: Literal["first", "last"]) -> Extent:
        """The first or the last place along an axis that a program's tile holds."""
        return size(self.ends[axis][which == "last"])

    def place(self, index: Index) -> str:
        """Storage positions of an axis that a fold runs over: those of the program, or of its tile."""
        return self.scribe.place.at[index.name]

    def element(self, read: Read) -> str:
        """Writes the load of one element, once; the name that it has."""
        return self._named(read, f"tl.load({self._pointer(read)})")

    def fold(self, fold: Fold, inline: bool) -> Extent:
        """A search by a helper, or the least or greatest in the tile; under a name in any case."""
        if fold in self.known:
            return size(self.known[fold])
        if (found := search(fold)) is not None:
            return self._search(fold, found)
        own = [i for i in fold.bound if self.scribe.layout.dim(i.name) is not None]  # of the others the program has one
        made = self._elements(fold.body) if isinstance(fold.body, Read) else text(fold.body, self)
        for dim in {self.scribe.layout.dim(i.name) for i in own}:
            assert dim is not None
            made = f"tl.{fold.op}(tl.where({self.scribe.place.inside[dim.name]}, {made}, {_FARTHEST[fold.op]}), 0)"
        return size(self._named(fold, made))

    def _named(self, term: Term, made: str) -> str:
        if term not in self.known:
            self.known[term] = self.scribe.arguments.names.fresh("end")
            self.scribe.body(f"{self.known[term]} = {made}")
        return self.known[term]

    # tensors

    def _elements(self, read: Read) -> str:
        dims = {self.scribe.layout.dim(s.index.name) for s in read.subs if isinstance(s, Position)} - {None}
        (mask,) = [f", mask={self.scribe.place.inside[d.name]}, other=0" for d in dims if d is not None] or [""]
        pointer = self._pointer(read)
        if pointer in self.scribe.loaded:
            return self.scribe.loaded[pointer].text
        return f"tl.load({pointer}{mask})"

    def _pointer(self, read: Read, without: Index | None = None, key: str = "") -> str:
        parts = [self.scribe.arguments.tensors.pointers[key] if key else self.scribe.arguments.pointer(read.tensor)]
        for slot, sub in enumerate(read.subs):
            assert isinstance(sub, Position)
            if sub.index != without:
                parts.append(f"{self.scribe.place.at[sub.index.name]} * "
                             f"{self.scribe.arguments.tensors.strides[key or read.tensor, slot]}")
        return " + ".join(parts)

    def _search(self, fold: Fold, found: Search) -> Extent:
        """The position that a search finds, in a tensor of running extremes that the host makes."""
        read, axis = found.read, found.axis
        wanted, running = _RUNNING[found.first]
        slot = next(n for n, s in enumerate(read.subs) if isinstance(s, Position) and s.index == axis)
        last = len(read.subs) - 1
        base = identifier(read.tensor)
        made = running.format(base if slot == last else f"{base}.movedim({slot}, -1)")
        made = made if slot == last else f"({made}).movedim(-1, {slot})"
        arguments = self.scribe.arguments
        name = f"{read.tensor} {wanted} {slot}"
        arguments.running(name, read.tensor, f"{base}_{wanted}", made)
        key = text(found.limit, self, 0 if found.first else 1)
        given = [self._pointer(read, axis, name), arguments.tensors.strides[name, slot],
                 arguments.size(axis.set.extent), key]
        dims = {self.scribe.layout.dim(s.index.name) for s in read.subs
                if isinstance(s, Position) and s.index != axis} - {None}
        helper = "_counts" if dims else "_count"  # one search, or one for each element of a dimension
        self.scribe.helpers.add(helper)
        count = f"{helper}({', '.join([*given, *(self.scribe.place.inside[d.name] for d in dims if d is not None)])})"
        return size(self._named(fold, count)) + number(axis.set.start - (not found.first))

    # spans

    def reach(self, axis: Axis, span: Interval) -> tuple[str, str]:
        """Where a span begins and ends within the axis, in storage positions."""
        extent = self.scribe.arguments.size(axis.set.extent)
        lows, highs = limits(axis, span, self)
        low, high = self.arithmetic("max", ["0", *lows]), self.arithmetic("min", [extent, *highs])
        for term in span.when:
            high = f"tl.where({text(term, self)} >= 0, {high}, {low})"
        return low, high

    def cuts(self, axis: Axis) -> list[Cut] | None:
        """Where the domain cuts tiles; None where nothing is known to be whole."""
        out: list[Cut] = []
        for let in self.scribe.kernel.lets:
            if not isinstance(let.op, Select) or let.op.cut is None or axis.name not in let.axes:
                continue
            for span in let.op.cut:
                here = free_indices(Apply("and", (*span.low, *span.high, *span.when)))
                if not (span.low or span.high) or any(i.name.split(" ")[-1] == axis.name for i in here):
                    return None  # what a tile of the axis itself decides is not known before its tiles
                cut = Cut(self._edge("max", span.low, -axis.set.start, span.when, "2**31 - 1"),
                          self._edge("min", span.high, 1 - axis.set.start, span.when, "0"))
                out += [cut] * (cut not in out)
        return out

    def _edge(self, op: Arithmetic, terms: Sequence[Term], shift: int, when: Sequence[Term], never: str) -> str:
        """An end of a span, a number that cuts nothing where a condition fails; empty for no end."""
        edge = self.arithmetic(op, [text(t, self, shift) for t in terms]) if terms else ""
        for term in when if edge else ():
            edge = f"tl.where({text(term, self)} >= 0, {edge}, {never})"
        return edge
