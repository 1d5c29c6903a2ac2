"""Closed forms of the plan as Python's own whole numbers: the reach of an axis, and whether a tile meets a span.

What is read from tensors becomes lists once, before the loops; what a tile of rows needs once gets a name at its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from einc.backends.torch.loads import Reader
from einc.backends.writer import Writer, identifier, sized
from einc.ir.domains import linear
from einc.ir.indices import Extent, Index, number, size
from einc.ir.plan import Axis, Span
from einc.ir.terms import TRUE, Apply, Fold, Position, Read, Term, free_indices

_LISTS = {
    "values": ("list", "", ""),
    "rising": ("rising", ".cummax(-1).values", "  # the greatest so far"),
    "falling": ("falling", ".flip(-1).cummin(-1).values.flip(-1)", "  # the least from there on"),
}


@dataclass
class Numbers:
    """Terms in the ends of tiles as Python. `marks` are the lines, with their depth, before the loops and at the head of
    a tile of rows; statements are put there as they are needed.
    """

    reader: Reader
    body: Writer
    marks: list[tuple[int, int]] = field(default_factory=list)
    known: dict[object, str] = field(default_factory=dict)
    letters: dict[Index, str] = field(default_factory=dict)  # what the generator being written counts
    spare: dict[Index, str] = field(default_factory=dict)  # the letters of all generators

    def mark(self) -> None:
        self.marks.append((len(self.body.lines), self.body.depth))

    def _put(self, level: int, wanted: str, key: object, text: str) -> str:
        """A statement at a mark, once."""
        if key not in self.known:
            self.known[key] = self.reader.names.fresh(wanted)
            at, depth = self.marks[min(level, len(self.marks) - 1)]
            self.body.lines.insert(at, f"{'    ' * depth}{self.known[key]} = {text}")
            self.marks = [(line + (line >= at), deep) for line, deep in self.marks]
        return self.known[key]

    # terms

    def total(self, term: Term, inline: bool = False) -> Extent:
        """The term as a sum of names and of small expressions that stand for names."""
        form = linear(term)
        assert form is not None
        total = form.constant
        for atom, coefficient in form.atoms:
            total = total + coefficient * self._atom(atom, inline)
        return total

    def text(self, term: Term, shift: int = 0, inline: bool = False) -> str:
        match term:
            case Apply("min" | "max" as op, args):
                return f"{op}({', '.join(self.text(a, shift, inline) for a in args)})"
        return _bare(sized(self.total(term, inline) + number(shift)))

    def _atom(self, atom: Term, inline: bool) -> Extent:
        match atom:
            case Position(index) if " " in index.name:
                which, axis = index.name.split(" ")
                low, high = self.reader.ranges[axis]
                return size(low) + number(index.set.start) if which == "first" else size(high) + number(index.set.start - 1)
            case Position(index):
                return size(self.letters[index]) + number(index.set.start)
            case Fold(op, over, domain, body):
                return self._fold(atom, op, over, domain, body, inline)
            case Read():
                return size(self._element(atom, None, "values"))
            case Apply("floor" | "ceil" as op, (Apply("div", (above, below)),)):
                a, b = _tight(self.text(above)), _tight(self.text(below))
                return size(f"({a} // {b})" if op == "floor" else f"(-(-{a} // {b}))")
            case Apply("min" | "max" | "abs" as op, args):
                return size(f"{op}({', '.join(self.text(a) for a in args)})")
            case Apply("mod" | "mul" as op, args):
                return size(f"({(' % ' if op == 'mod' else ' * ').join(_tight(self.text(a)) for a in args)})")
        raise AssertionError(atom)

    def _fold(self, term: Term, op: str, over: tuple[Index, ...], domain: Term, body: Term, inline: bool) -> Extent:
        match domain, body:
            case Apply("le", (low, high)), Position(axis):
                read, limit, kind, side = (high, low, "rising", "left") if op == "min" else (low, high, "falling", "right")
                assert isinstance(read, Read)
                text = f"bisect_{side}({self._element(read, axis, kind)}, {self.text(limit)})"
                shift = axis.set.start - (op == "max")
            case _, Read():
                text, shift = self._extreme(op, over, domain, body), 0
            case _:
                with_letters = self._counting(over)
                inner = self.total(body, inline=True)
                shift = int(dict(inner.terms).get((), 0))
                text = f"{op}(({sized(inner - number(shift))}{with_letters}), default=0)"
                for index in over:
                    del self.letters[index]
        return size(text if inline else self._named(term, _wanted(term), text)) + number(shift)

    def _named(self, term: Term, wanted: str, text: str) -> str:
        """The text under a name, as far out as what it reads allows; as it is where it moves with what is innermost."""
        moving = free_indices(term)
        grid = self.reader.kernel.grid
        if any(i in self.letters or (grid is None or i.name.split(" ")[-1] != grid.name) for i in moving):
            return text
        return self._put(1 if moving else 0, wanted, term, text)

    def _counting(self, over: Sequence[Index]) -> str:
        for index in over:
            if index not in self.spare:
                self.spare[index] = self.reader.names.fresh(index.name)
            self.letters[index] = self.spare[index]
        return "".join(f" for {self.letters[i]} in range({sized(i.set.extent)})" for i in over)

    # tensors

    def _extreme(self, op: str, over: tuple[Index, ...], domain: Term, read: Read) -> str:
        """The greatest or least element: of a slice of rows, and of axes that are whole."""
        rows = next((i for i in over if domain != TRUE and Position(i) in _places(domain)), None)
        last = rows or over[-1]
        others = [i for i in over if i != last]
        loops = self._counting(others)
        part = ":".join(self.reader.ranges[rows.name]) if rows is not None else ""
        element = self._element(read, last, "values")
        text = f"{op}({element}[{part}])" if part else f"{op}({element}, default=0)"
        for index in others:
            del self.letters[index]
        return f"{op}(({text}{loops}), default=0)" if others else text

    def _element(self, read: Read, last: Index | None, kind: str) -> str:
        """An element of the tensor's list, or its row along `last`."""
        places = [s.index for s in read.subs if isinstance(s, Position)]
        base = identifier(read.tensor)
        if last is not None and places[-1] != last:
            base += f".movedim({places.index(last)}, -1)"
        wanted, change, why = _LISTS[kind] if places else ("number", "", "")
        key = (read.tensor, kind, last and places.index(last))
        name = self._put(0, f"{read.tensor}_{wanted}", key, f"{base}{change}.tolist(){why}")
        return name + "".join(f"[{self.letters[i]}]" for i in places if i != last)

    # spans

    def ends(self, axis: Axis, span: Span) -> tuple[str, str]:
        """The span within the axis, in storage positions, under names."""
        start, extent = axis.set.start, sized(axis.set.extent)
        lows = [self.text(t, -start, True) for t in span.low]
        highs = [self.text(t, 1 - start, True) for t in span.high]
        low = "0"
        if lows:
            low = self._end(axis)
            text = lows[0] if _searched(span.low) else f"min(max(0, {', '.join(lows)}), {extent})"
            self.body(f"{low} = {text}")
        if not highs and not span.when:
            return low, extent
        high = self._end(axis, 1 if low == "0" else 0)
        text = highs[0] if _searched(span.high) else f"min({', '.join([extent, *highs])})" if highs else extent
        text = f"max({low}, {text})"
        if span.when:
            text += f" if {' and '.join(self._nonnegative(t) for t in span.when)} else {low}"
        self.body(f"{high} = {text}")
        return low, high

    def _end(self, axis: Axis, least: int = 0) -> str:
        """A name for an end of a span: s0, s1, and so on."""
        stem, taken = identifier(axis.name), self.reader.names.taken
        return self.reader.names.fresh(next(f"{stem}{n}" for n in count(least) if f"{stem}{n}" not in taken))

    def meets(self, axis: Axis, spans: tuple[Span, ...]) -> str:
        """Whether the tile of the axis meets one of the spans."""
        low, high = self.reader.ranges[axis.name]
        start = axis.set.start
        out: list[str] = []
        for span in spans:
            parts = [f"{high} > {self.text(t, -start)}" for t in span.low]
            parts += [f"{low} < {self.text(t, 1 - start)}" for t in span.high]
            parts += [self._nonnegative(t) for t in span.when]
            both = " and ".join(parts)
            out.append(f"({both})" if len(parts) > 1 and len(spans) > 1 else both)
        return " or ".join(out)

    def within(self, axis: Axis, span: Span) -> tuple[str, str]:
        """The places between which a span lies, the second one after its last; empty where it has no bound on that side."""
        start = axis.set.start
        lows = [self.text(t, -start) for t in span.low]
        highs = [self.text(t, 1 - start) for t in span.high]
        return ", ".join(lows), ", ".join(highs)

    def _nonnegative(self, term: Term) -> str:
        total = self.total(term)
        above = Extent(tuple((m, c) for m, c in total.terms if c > 0))
        return f"{_bare(sized(above - total))} <= {_bare(sized(above))}"


def _wanted(term: Term) -> str:
    """A name for what a fold finds: a place, or an element."""
    op = ""
    while isinstance(term, Fold):
        op, term = term.op, term.body
    match term:
        case Position(index):
            return f"{index.name}_{'first' if op == 'min' else 'end'}"
        case Read(tensor):
            return f"{tensor}_{'least' if op == 'min' else 'most'}"
    raise AssertionError(term)


def _places(domain: Term) -> set[Term]:
    return {Position(i) for i in free_indices(domain) if " " not in i.name}


def _searched(bounds: tuple[Term, ...]) -> bool:
    """Whether the only bound is the place that a search finds: that lies within the axis."""
    match bounds:
        case (Fold(_, _, _, Position()),):
            return True
        case (Fold(_, _, _, Fold(_, _, _, Position())),):
            return True
    return False


def _tight(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _bare(text: str) -> str:
    """The text without brackets that stand around the whole of it."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text
