"""What a step costs: flops, bytes and what it holds, as formulas in the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from einc.domains import Linear, facts
from einc.indices import Extent, Index, IndexSet, number
from einc.plan import Buffer, Cost, Dot, Let, Load, Map, Reduce, Select
from einc.terms import Position, Term

_NOMINAL = {"time": 4096, "request": 8, "batch": 4, "feature": 128, "latent": 512, "head": 16, "expert": 64, "vocab": 32768}
_BYTES = {"real": 4, "exact": 8, "integer": 8, "truth": 1, "scalar": 0}


def nominal(set_: IndexSet) -> int:
    """The extent to assume where the data has not said it yet."""
    constant = set_.extent.constant
    return _NOMINAL[set_.cls] if constant is None else max(1, int(constant))


def volume(sets: Iterable[IndexSet]) -> Extent:
    total = number(1)
    for set_ in sets:
        total = total * set_.extent
    return total


def size_of(buffer: Buffer) -> Extent:
    return volume(buffer.sets) * number(_BYTES[buffer.kind])


def points(domain: Term, axis: Index, grid: Index) -> Extent:
    """How many pairs of positions of the two axes a domain leaves, at most: exact for linear bounds that stay in range.

    An interval of fixed length counts whole in every row, also where it begins before the first position.
    """
    first = Linear((), number(axis.set.start))
    last = Linear((), axis.set.extent + number(axis.set.start - 1))
    lows: list[Linear] = []
    highs: list[Linear] = []
    for fact in facts(domain):
        c = fact.coefficient(Position(axis)).constant
        others = fact.without(Position(axis))
        if c is not None and abs(c) == 1 and all(a == Position(grid) for a, _ in others.atoms):
            (lows if c > 0 else highs).append(Linear((), number(0)).plus(others, number(-c)))
    pairs = [(low, high) for high in [last, *highs] for low in [first, *lows]]
    counts = [_rows(high.plus(low, number(-1)).plus(Linear((), number(1))), grid) for low, high in pairs]
    return min(counts, key=lambda count: _degree(count, axis, grid))


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
    open_ = axis.set.extent.sizes | grid.set.extent.sizes
    return max(((sum(p for n, p in m if n in open_), c) for m, c in count.terms), default=(0, Fraction(0)))


def lets_cost(
    lets: Iterable[Let],
    sets: Mapping[str, IndexSet],
    buffers: Mapping[str, Buffer],
    written: Iterable[str],
    held: Extent,
    visited: Mapping[tuple[str, str], Extent],
) -> Cost:
    """A kernel's cost over the whole grid; `visited` has the pairs of positions of two axes that its tiles reach."""
    flops, read, loaded = number(0), number(0), set()

    def work(axes: Iterable[str]) -> Extent:
        here = set(axes)
        pair = next((p for p in visited if here.issuperset(p)), ())
        return volume(sets[a] for a in here.difference(pair)) * (visited[pair] if pair else number(1))

    for let in lets:
        match let.op:
            case Map() | Select() if let.kind != "scalar":
                flops = flops + work(let.axes)
            case Dot(args, over):
                flops = flops + work({*let.axes, *over}) * number(2 if len(args) > 1 else 1)
            case Reduce(_, _, over):
                flops = flops + work({*let.axes, *over})
            case Load(buffer) if buffer not in loaded:
                loaded.add(buffer)
                read = read + size_of(buffers[buffer])
    out = number(0)
    for name in written:
        out = out + size_of(buffers[name])
    return Cost(flops, read, out, held)
