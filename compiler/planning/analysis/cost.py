"""What a step costs: flops, bytes and what it holds, as formulas in the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import product
from typing import assert_never

from einc.ir.domains import Linear, difference, linear
from einc.ir.elements import REAL
from einc.ir.indices import INDEX_CLASSES, Extent, Index, IndexSet, number
from einc.ir.plan import (
    Buffer,
    Cost,
    Dot,
    Interval,
    Iota,
    Let,
    Load,
    Map,
    PreviousCarry,
    Reduce,
    Scalar,
    Scan,
    ScatterAdd,
    Select,
    end,
)
from einc.ir.terms import Apply, Position, Size, Term, const, substitute
from einc.planning.analysis.ends import Tile, denominator
from einc.planning.analysis.ranges import spans

BALANCE = 10  # operations that a machine does in the time in which it moves a byte


def nominal(set_: IndexSet) -> int:
    """The extent to assume where the data has not said it yet."""
    constant = set_.extent.constant
    return INDEX_CLASSES[set_.cls].usual if constant is None else max(1, int(constant))


def volume(sets: Iterable[IndexSet]) -> Extent:
    """The number of elements of a tensor over these sets: the product of their extents."""
    total = number(1)
    for set_ in sets:
        total = total * set_.extent
    return total


def size_of(buffer: Buffer, real: int = REAL.bytes) -> Extent:
    """The bytes of a buffer, where an element of the data has `real` bytes; what is wide has four at least."""
    return buffer.element.room(buffer.sets, real)


def path_cost(
    steps: Iterable[tuple[tuple[frozenset[Index], ...], frozenset[Index]]], operands: Iterable[Buffer], out: Buffer
) -> Cost:
    """Of a contraction in pairs: what is made between two of them is written and read."""
    flops, read, written = number(0), number(0), size_of(out)
    *before, last = steps
    for taken, _ in (*before, last):
        flops = flops + volume(i.set for i in frozenset[Index]().union(*taken)) * number(2)
    for _, made in before:
        between = volume(i.set for i in made) * number(REAL.bytes)
        read, written = read + between, written + between
    for operand in operands:
        read = read + size_of(operand)
    return Cost(flops, read, written, number(0))


def points(domain: Term, axis: Index, grid: Index) -> Extent:
    """How many pairs of positions of the two axes a domain leaves, at most: exact for linear bounds that stay in range.

    An interval of fixed length counts whole in every row, also where it begins before the first position; a rounded
    bound is what it is on the average, so that whole pages are exact.
    """
    first, last = const(axis.set.start), Size(axis.set.extent + number(axis.set.start - 1))
    row: dict[Index, Term] = {end(grid, "first").index: Position(grid), end(grid, "last").index: Position(grid)}
    total = number(0)
    for low, high in (ends for span in spans(domain, Tile(axis, grid, {})) for ends in _pieces(span)):
        lows, highs = ([substitute(t, row) for t in terms] for terms in (low, high))
        widths = [_smooth(difference(a, b)) for b in (last, *highs) for a in (first, *lows)]
        flat = [w for w in widths if w is not None and all(a == Position(grid) for a, _ in w.atoms)]
        counts = [_rows(w.plus(Linear((), number(1))), grid) for w in flat]
        total = total + min(counts, key=lambda count: _degree(count, axis, grid))
    whole = axis.set.extent * grid.set.extent
    return min((whole, total), key=lambda count: _degree(count, axis, grid))


def _pieces(span: Interval) -> Iterable[tuple[tuple[Term, ...], tuple[Term, ...]]]:
    """The lower and upper ends of spans that have its points between them: what ends at the later of two is two."""
    return product(product(*(_options("min", t) for t in span.low)), product(*(_options("max", t) for t in span.high)))


def _options(op: str, term: Term) -> tuple[Term, ...]:
    return term.args if isinstance(term, Apply) and term.op == op else (term,)


def _smooth(width: Linear | None) -> Linear | None:
    """A width with the mean of every rounded number in it: with n below the fraction, floors lose (1 − 1/n) / 2."""
    if width is None:
        return None
    for atom, coefficient in width.atoms:
        match atom:
            case Apply("floor" | "ceil" as op, (inner,)) if (form := linear(inner)) is not None:
                part = number(1).over(denominator(form))
                assert part is not None
                lost = (number(1) - part) * number(Fraction(-1 if op == "floor" else 1, 2))
                width = width.without(atom).plus(form.plus(Linear((), lost)), coefficient)
    return width


def _rows(width: Linear, grid: Index) -> Extent:
    """Σ over the grid's positions of a width that is linear in them; never less than there are, and never below 0."""
    rows, start = grid.set.extent, number(grid.set.start)
    slope, constant = width.coefficient(Position(grid)), width.constant
    if (slope.constant or 0) < 0:  # counted from the last row, where it is smallest
        constant = constant + slope * (rows + start - number(1))
        slope, start = slope * number(-1), number(0)
    least = Fraction(-(slope.constant or 0) * (start.constant or 0))
    kept = Extent(tuple((m, c if m else max(c, least)) for m, c in constant.terms if c > 0 or not m))
    return slope * ((rows * rows - rows) * number(Fraction(1, 2)) + rows * start) + kept * rows


def _degree(count: Extent, axis: Index, grid: Index) -> tuple[int, Fraction]:
    """How a count grows with the two axes, and the number before what grows fastest: the smallest is the narrowest."""
    open_ = {n for i in (axis, grid) for m, _ in i.set.extent.smooth.terms for n, p in m if p > 0}
    return max(((sum(p for n, p in m if n in open_), c) for m, c in count.smooth.terms), default=(0, Fraction(0)))


def lets_cost(
    lets: tuple[Let, ...],
    sets: Mapping[str, IndexSet],
    buffers: Mapping[str, Buffer],
    written: Iterable[str],
    held: Extent,
    visited: Mapping[tuple[str, str], Extent],
) -> Cost:
    """The flops, and the bytes read and written, of a kernel whose body are these lets, over its whole grid.
    `written` are the buffers that it stores, `held` the bytes of a tile's values. `visited` gives for two
    axes how many pairs of their positions the tiles of the kernel reach, where the domain leaves some out."""
    flops, read, loaded = number(0), number(0), set()
    axes = {let.name: let.axes for let in lets}

    def work(axes: Iterable[str]) -> Extent:
        here = set(axes)
        pair = next((p for p in visited if here.issuperset(p)), ())
        return volume(sets[a] for a in here.difference(pair)) * (visited[pair] if pair else number(1))

    for let in lets:
        match let.op:
            case Map() | Select() if let.kind != "scalar":
                flops = flops + work(let.axes)
            case Dot(over):
                flops = flops + work({*let.axes, *over}) * number(2 if len(let.args) > 1 else 1)
            case Reduce(_, over):
                flops = flops + work({*let.axes, *over})
            case Scan() | ScatterAdd():
                flops = flops + work(axes[let.args[0]])
            case Load(buffer) if buffer not in loaded:
                loaded.add(buffer)
                read = read + size_of(buffers[buffer])
            case Load() | Map() | Select() | Iota() | Scalar() | PreviousCarry():
                pass  # numbers of the host, and what is counted already
            case _:
                assert_never(let.op)
    out = number(0)
    for name in written:
        out = out + size_of(buffers[name])
    return Cost(flops, read, out, held)
