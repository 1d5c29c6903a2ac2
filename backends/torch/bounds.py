"""Closed forms of the plan as Python's own whole numbers: the reach of an axis, and whether a tile meets a span.

What is read from tensors becomes lists once, before the loops; what a tile of rows needs once gets a name at its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, assert_never

from einc.backends.host.bounds import Arithmetic, limits, nonnegative, search, text, total
from einc.backends.host.code import tight
from einc.backends.torch.loads import Reader
from einc.backends.writer import Writer, identifier, sized
from einc.ir.indices import Extent, Index, number, size
from einc.ir.plan import Axis, Interval
from einc.ir.terms import TRUE, Fold, Position, Read, Term, free_indices

_LISTS = {
    "values": ("list", "", ""),
    "rising": ("rising", ".cummax(-1).values", "  # the greatest so far"),
    "falling": ("falling", ".flip(-1).cummin(-1).values.flip(-1)", "  # the least from there on"),
}


@dataclass
class Numbers:
    """Terms in the ends of tiles as Python. `marks` are the lines, with their depth, before the loops and at the head
    of a tile of rows; statements are put there as they are needed.
    """

    reader: Reader
    body: Writer
    marks: list[tuple[int, int]] = field(default_factory=list)
    known: dict[object, str] = field(default_factory=dict)
    letters: dict[Index, str] = field(default_factory=dict)  # what the generator being written counts
    spare: dict[Index, str] = field(default_factory=dict)  # the letters of all generators

    def mark(self) -> None:
        """Marks the end of the text so far as a place at which statements can be inserted later."""
        self.marks.append((len(self.body.lines), self.body.depth))

    def _put(self, level: int, wanted: str, key: object, text: str) -> str:
        """A statement at a mark, once."""
        if key not in self.known:
            self.known[key] = self.reader.names.fresh(wanted)
            at, depth = self.marks[min(level, len(self.marks) - 1)]
            self.body.lines.insert(at, f"{'    ' * depth}{self.known[key]} = {text}")
            self.marks = [(line + (line >= at), deep) for line, deep in self.marks]
        return self.known[key]

    # closed forms: see `host.bounds`

    def arithmetic(self, op: Arithmetic, args: Sequence[str]) -> str:
        """An operation on whole numbers, as an expression of Python."""
        match op:
            case "min" | "max" | "abs":
                return f"{op}({', '.join(args)})"
            case "floor":
                return f"({' // '.join(map(tight, args))})"
            case "ceil":
                return f"(-(-{' // '.join(map(tight, args))}))"
            case "mod" | "mul":
                return f"({(' % ' if op == 'mod' else ' * ').join(map(tight, args))})"
        assert_never(op)

    def number(self, total: Extent) -> str:
        """A sum of extents as an expression of Python, without parentheses around it."""
        return _bare(sized(total))

    def needs(self, extent: Extent) -> None:
        """Does nothing: the function has a name for every size."""

    def end(self, axis: str, which: Literal["first", "last"]) -> Extent:
        """An end of a tile, of which the loop knows the first position and the one after the last."""
        low, high = self.reader.tile.ranges[axis]
        return size(low) if which == "first" else size(high) - number(1)

    def place(self, index: Index) -> str:
        """The variable of the generator that counts this letter."""
        return self.letters[index]

    def element(self, read: Read) -> str:
        """An element of a tensor, read from the list that its values have been made into."""
        return self._element(read, None, "values")

    def fold(self, fold: Fold, inline: bool) -> Extent:
        """A search in a sorted list, or the least or greatest of what a generator gives."""
        if (found := search(fold)) is not None:
            kind, side = ("rising", "left") if found.first else ("falling", "right")
            self.reader.helpers.add(f"bisect_{side}")
            made = f"bisect_{side}({self._element(found.read, found.axis, kind)}, {text(found.limit, self)})"
            shift = found.axis.set.start - (not found.first)
        elif isinstance(fold.body, Read):
            made, shift = self._extreme(fold.op, fold.bound, fold.domain, fold.body), 0
        else:
            with_letters = self._counting(fold.bound)
            inner = total(fold.body, self, inline=True)
            shift = int(dict(inner.terms).get((), 0))
            made = f"{fold.op}(({sized(inner - number(shift))}{with_letters}), default=0)"
            for index in fold.bound:
                del self.letters[index]
        return size(made if inline else self._named(fold, _wanted(fold), made)) + number(shift)

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
        part = ":".join(self.reader.tile.ranges[rows.name]) if rows is not None else ""
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

    def ends(self, axis: Axis, span: Interval) -> tuple[str, str]:
        """Writes the span within the axis, in storage positions, under names."""
        extent = sized(axis.set.extent)
        lows, highs = limits(axis, span, self, inline=True)
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
            text += f" if {' and '.join(nonnegative(t, self) for t in span.when)} else {low}"
        self.body(f"{high} = {text}")
        return low, high

    def _end(self, axis: Axis, least: int = 0) -> str:
        """A name for an end of a span: s0, s1, and so on."""
        stem, taken = identifier(axis.name), self.reader.names.taken
        return self.reader.names.fresh(next(f"{stem}{n}" for n in count(least) if f"{stem}{n}" not in taken))

    def meets(self, axis: Axis, spans: tuple[Interval, ...]) -> str:
        """Whether the tile of the axis meets one of the spans."""
        low, high = self.reader.tile.ranges[axis.name]
        out: list[str] = []
        for span in spans:
            lows, highs = limits(axis, span, self)
            parts = [f"{high} > {x}" for x in lows] + [f"{low} < {x}" for x in highs]
            parts += [f"{x} < {y}" for x in lows for y in highs]  # a span of both sides may be empty itself
            parts += [nonnegative(t, self) for t in span.when]
            both = " and ".join(parts)
            out.append(f"({both})" if len(parts) > 1 and len(spans) > 1 else both)
        return " or ".join(out)

    def within(self, axis: Axis, span: Interval) -> tuple[str, str]:
        """The places between which a span lies, the second one after its last; empty
        where it has no bound on that side."""
        lows, highs = limits(axis, span, self)
        return ", ".join(lows), ", ".join(highs)


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
        case (Fold(_, _, _, Position()),) | (Fold(_, _, _, Fold(_, _, _, Position())),):
            return True
    return False


def _bare(text: str) -> str:
    """The text without brackets that stand around the whole of it."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text
