"""Closed forms of the plan as numbers of a program: the reach of an axis in its tile, and where the domain cuts that reach."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from einc.backends.triton.folds import Folder
from einc.backends.writer import identifier, sized
from einc.ir.domains import linear
from einc.ir.indices import Extent, Index, number, size
from einc.ir.plan import Axis, Select, Span
from einc.ir.terms import Apply, Fold, Position, Read, Term

_RUNNING = {"min": ("rising", "{0}.cummax(-1).values"), "max": ("falling", "{0}.flip(-1).cummin(-1).values.flip(-1)")}
_FARTHEST = {"min": "2**62", "max": "-(2**62)"}


def _long(found: re.Match[str]) -> str:
    """A whole number as the kernel's text has it: one of 64 bits needs a type."""
    return f"tl.full((), {found[0]}, tl.int64)" if int(found[0]) >= 2**31 else found[0]


@dataclass
class Numbers:
    """Terms in the ends of tiles. `ends` are the first and last storage positions of a tiled axis, as text."""

    scribe: Folder
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    known: dict[Term, str] = field(default_factory=dict)

    def total(self, term: Term) -> Extent:
        """The term as a sum of names and of small expressions that stand for names."""
        form = linear(term)
        assert form is not None
        total = form.constant
        self.scribe.arguments.size(total)
        for atom, coefficient in form.atoms:
            self.scribe.arguments.size(coefficient)
            total = total + coefficient * self._atom(atom)
        return total

    def text(self, term: Term, shift: int = 0) -> str:
        match term:
            case Apply("min" | "max" as op, args):
                text = self.text(args[0], shift)
                for other in args[1:]:
                    text = f"tl.{op}imum({text}, {self.text(other, shift)})"
                return text
        return re.sub(r"\b\d{10,}\b", _long, sized(self.total(term) + number(shift)))

    def _atom(self, atom: Term) -> Extent:
        match atom:
            case Position(index) if " " in index.name:
                which, axis = index.name.split(" ")
                return size(self.ends[axis][which == "last"]) + number(index.set.start)
            case Position(index):
                return size(self._position(index)) + number(index.set.start)
            case Fold(op, over, domain, body):
                return self._fold(atom, op, over, domain, body)
            case Read():
                return size(self._named(atom, f"tl.load({self._pointer(atom)})"))
            case Apply("floor" | "ceil" as op, (Apply("div", (above, below)),)):
                self.scribe.helpers.add("_floordiv")
                a, b = self.text(above), self.text(below)
                return size(f"_floordiv({a}, {b})" if op == "floor" else f"(-_floordiv(-({a}), {b}))")
            case Apply("min" | "max", _):
                return size(self.text(atom))
            case Apply("abs", (a,)):
                return size(f"tl.abs({self.text(a)})")
            case Apply("mod", (a, b)):
                self.scribe.helpers |= {"_mod", "_floordiv"}
                return size(f"_mod({self.text(a)}, {self.text(b)})")
            case Apply("mul", args):
                return size(f"({' * '.join(f'({self.text(a)})' for a in args)})")
        raise AssertionError(atom)

    def _position(self, index: Index) -> str:
        """Storage positions of an axis that a fold runs over: those of the program, or of its tile."""
        return self.scribe.at[index.name]

    def _fold(self, term: Term, op: str, over: tuple[Index, ...], domain: Term, body: Term) -> Extent:
        if term in self.known:
            return size(self.known[term])
        match domain, body:
            case Apply("le", (low, high)), Position(axis):
                read, limit = (high, low) if op == "min" else (low, high)
                assert isinstance(read, Read)
                return self._search(term, op, read, limit, axis)
        own = [i for i in over if self.scribe.layout.dim(i.name) is not None]  # of the others the program has one
        text = self._elements(body) if isinstance(body, Read) else self.text(body)
        for dim in {self.scribe.layout.dim(i.name) for i in own}:
            assert dim is not None
            text = f"tl.{op}(tl.where({self.scribe.inside[dim.name]}, {text}, {_FARTHEST[op]}), 0)"
        return size(self._named(term, text))

    def _named(self, term: Term, text: str) -> str:
        if term not in self.known:
            self.known[term] = self.scribe.arguments.names.fresh("end")
            self.scribe.body(f"{self.known[term]} = {text}")
        return self.known[term]

    # tensors

    def _elements(self, read: Read) -> str:
        dims = {self.scribe.layout.dim(s.index.name) for s in read.subs if isinstance(s, Position)} - {None}
        (mask,) = [f", mask={self.scribe.inside[d.name]}, other=0" for d in dims if d is not None] or [""]
        pointer = self._pointer(read)
        if pointer in self.scribe.loaded:
            return self.scribe.loaded[pointer].text
        return f"tl.load({pointer}{mask})"

    def _pointer(self, read: Read, without: Index | None = None, key: str = "") -> str:
        text = [self.scribe.arguments.pointers[key] if key else self.scribe.arguments.pointer(read.tensor)]
        for slot, sub in enumerate(read.subs):
            assert isinstance(sub, Position)
            if sub.index != without:
                text.append(f"{self.scribe.at[sub.index.name]} * {self.scribe.arguments.strides[key or read.tensor, slot]}")
        return " + ".join(text)

    def _search(self, term: Term, op: str, read: Read, limit: Term, axis: Index) -> Extent:
        """The first (last) position at which the running greatest (least) so far is as great (small) as the limit."""
        wanted, text = _RUNNING[op]
        slot = next(n for n, s in enumerate(read.subs) if isinstance(s, Position) and s.index == axis)
        last = len(read.subs) - 1
        base = identifier(read.tensor)
        made = text.format(base if slot == last else f"{base}.movedim({slot}, -1)")
        made = made if slot == last else f"({made}).movedim(-1, {slot})"
        arguments = self.scribe.arguments
        running = f"{read.tensor} {wanted} {slot}"
        arguments.running(running, read.tensor, f"{base}_{wanted}", made)
        key = self.text(limit) if op == "min" else self.text(limit, 1)
        given = [self._pointer(read, axis, running), arguments.strides[running, slot], arguments.size(axis.set.extent), key]
        dims = {self.scribe.layout.dim(s.index.name) for s in read.subs if isinstance(s, Position) and s.index != axis} - {None}
        helper = "_counts" if dims else "_count"  # one search, or one for each element of a dimension
        self.scribe.helpers.add(helper)
        count = f"{helper}({', '.join([*given, *(self.scribe.inside[d.name] for d in dims if d is not None)])})"
        return size(self._named(term, count)) + number(axis.set.start - (op == "max"))

    # spans

    def reach(self, axis: Axis, span: Span) -> tuple[str, str]:
        """Where a span begins and ends within the axis, in storage positions."""
        start, extent = axis.set.start, self.scribe.arguments.size(axis.set.extent)
        low, high = "0", extent
        for term in span.low:
            low = f"tl.maximum({low}, {self.text(term, -start)})"
        for term in span.high:
            high = f"tl.minimum({high}, {self.text(term, 1 - start)})"
        for term in span.when:
            high = f"tl.where({self.text(term)} >= 0, {high}, {low})"
        return low, high

    def cuts(self, axis: Axis) -> tuple[list[str], list[str]] | None:
        """Where whole tiles may begin and where they must end; None where nothing is known to be whole."""
        start = axis.set.start
        begins: list[str] = []
        ends: list[str] = []
        for let in self.scribe.kernel.lets:
            if not isinstance(let.op, Select) or let.op.cut is None or axis.name not in let.axes:
                continue
            for span in let.op.cut:
                if not span.low and not span.high:
                    return None
                terms = span.low or span.high
                side, shift, fold = (ends, -start, "tl.maximum") if span.low else (begins, 1 - start, "tl.minimum")
                text = self.text(terms[0], shift)
                for term in terms[1:]:  # the span begins at the greatest of its lower bounds
                    text = f"{fold}({text}, {self.text(term, shift)})"
                for term in span.when:
                    never = "2**31 - 1" if span.low else "0"
                    text = f"tl.where({self.text(term)} >= 0, {text}, {never})"
                side += [text] * (text not in side)
        return begins, ends


