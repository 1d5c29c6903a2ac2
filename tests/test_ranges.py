"""Tiles of a domain against brute force: no empty or full one is ever wrong, and how many
are needlessly called partial."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import arrays, assert_close, called, cut, examples, meaning, tensors, typed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.ir.indices import Index, IndexSet, size
from einc.ir.plan import Bound, Interval
from einc.ir.programs import TypedProgram
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, Truth, const
from einc.planning.analysis import ends, ranges
from einc.planning.analysis.ends import Tile
from einc.planning.analysis.ranges import cut as cut_by
from einc.planning.analysis.ranges import reach

Array = np.ndarray[Any, Any]
T, S, N = IndexSet("time", size("T")), IndexSet("time", size("S"), 0), IndexSet("batch", size("N"))
t, s, n = Index("t", T), Index("s", S), Index("n", N)
STORED = {"at": (T,), "ids": (S,), "many_at": (N, T), "many": (N, S), "ends": (N,), "last": ()}
READS: tuple[Term, ...] = (
    Read("at", (Position(t),)), Read("ids", (Position(s),)), Read("many_at", (Position(n), Position(t))),
    Read("many", (Position(n), Position(s))), Read("ends", (Position(n),)), Read("last", ()),
)  # fmt: skip
W = Size(size("W"))


def ap(op: str, *args: Term | int) -> Apply:
    return Apply(op, tuple(const(a) if isinstance(a, int) else a for a in args))


def quotient(above: Term, below: Term | int) -> Term:
    return ap("floor", ap("div", above, below))


# brute force


@dataclass(frozen=True)
class World:
    """Sizes and integer tensors."""

    sizes: Mapping[str, int]
    data: Mapping[str, Array]

    def extent(self, index: Index) -> tuple[int, int]:
        count = int(index.set.extent.at(self.sizes))
        return index.set.start, index.set.start + count - 1


def value(term: Term, at: Mapping[str, Any], world: World) -> Any:
    """A whole number or a truth value, at positions or at arrays of them. Folds run over all points, one by one."""
    match term:
        case Const(number):
            return int(number) if float(number).is_integer() else float(number)
        case Truth(holds):
            return holds
        case Size(extent):
            return int(extent.at(world.sizes))
        case Position(index):
            return at[index.name]
        case Read(tensor, subs):
            places = tuple(value(x, at, world) - i.start for x, i in zip(subs, STORED[tensor], strict=True))
            return world.data[tensor][places]
        case Fold(op, (index, *more), domain, body):
            low, high = world.extent(index)
            inner = body if not more else Fold(op, tuple(more), domain, body)
            points = [{**at, index.name: p} for p in range(low, high + 1)]
            found = [value(inner, p, world) for p in points if more or value(domain, p, world)]
            return min(found, default=high + 1) if op == "min" else max(found, default=low - 1)
        case Apply("floor" | "ceil" as op, (Apply("div", (a, b)),)):
            above, below = value(a, at, world), value(b, at, world)
            return above // below if op == "floor" else -(-above // below)
        case Apply(op, args):
            found = [value(a, at, world) for a in args]
            return OPS[op](*found)
    raise AssertionError(term)


def joined(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(first: Any, *rest: Any) -> Any:
        for other in rest:
            first = step(first, other)
        return first

    return run


OPS: dict[str, Callable[..., Any]] = {
    "add": joined(np.add), "sub": np.subtract, "neg": np.negative, "mul": joined(np.multiply), "mod": np.mod,
    "div": np.divide,
    "min": joined(np.minimum), "max": joined(np.maximum), "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "le": np.less_equal, "lt": np.less, "eq": np.equal, "ne": np.not_equal,
    "and": joined(np.logical_and), "or": joined(np.logical_or), "not": np.logical_not,
}  # fmt: skip


def points(condition: Term, world: World) -> Array:
    """Which (t, s) are in the domain for some n, and which for all, as two layers."""
    (t0, t1), (s0, s1), (n0, n1) = (world.extent(i) for i in (t, s, n))
    grid = np.meshgrid(*(np.arange(a, b + 1) for a, b in ((n0, n1), (t0, t1), (s0, s1))), indexing="ij")
    at = dict(zip("nts", grid, strict=True))
    held = np.broadcast_to(value(condition, at, world), at["t"].shape)
    return np.stack([held.any(0), held.all(0)])


def meets(span: Interval, at: Mapping[str, Any], world: World) -> bool:
    return (
        all(value(b, at, world) <= at["last s"] for b in span.low)
        and all(value(b, at, world) >= at["first s"] for b in span.high)
        and all(value(b, at, world) >= 0 for b in span.when)
    )


def reaches(span: Interval, at: Mapping[str, Any], world: World) -> bool:
    """Whether the loop over the span comes to the tile: a span that ends before it begins has none."""
    bounds = [(value(low, at, world), value(high, at, world)) for low in span.low for high in span.high]
    return meets(span, at, world) and all(low <= high for low, high in bounds)


@dataclass
class Count:
    """Tiles, and those that are called partial though they are empty or full."""

    tiles: int = 0
    needless: int = 0


@cache
def called_by(condition: Term) -> tuple[Bound | None, tuple[Interval, ...] | None]:
    return reach([condition], Tile(s, t, STORED), False), cut_by(condition, Tile(s, t, STORED))


def judge(condition: Term, world: World, lengths: tuple[int, int], count: Count, *, each: bool = False) -> None:
    """Asserts that no tile is called empty or full wrongly; `each`: that every tile is called what it is."""
    bound, full = called_by(condition)
    some, every = points(condition, world)
    (t0, t1), (s0, s1) = world.extent(t), world.extent(s)
    for first in range(t0, t1 + 1, lengths[0]):
        last = min(first + lengths[0] - 1, t1)
        for begin in range(s0, s1 + 1, lengths[1]):
            end = min(begin + lengths[1] - 1, s1)
            at = {"first t": first, "last t": last, "first s": begin, "last s": end}
            here = np.s_[first - t0 : last - t0 + 1, begin - s0 : end - s0 + 1]
            empty = bound is not None and not any(reaches(x, at, world) for x in bound.spans)
            empty = (empty or bool(bound and bound.within is not None
                                   and not any(meets(x, at, world) for x in bound.within)))
            whole = full is not None and not any(meets(x, at, world) for x in full)
            assert not (empty and some[here].any()), ("called empty", condition, world, at, bound)
            assert not (whole and not every[here].all()), ("called full", condition, world, at, full)
            count.tiles += 1
            needless = (not empty and not some[here].any()) or (not whole and bool(every[here].all()))
            count.needless += needless
            assert not (each and needless), ("needlessly partial", condition, world, at, bound, full)


# random predicates


PARTS = {"place": 0, "number": 0, "read": 0, "sum": 2, "times": 1, "quotient": 1, "mod": 1, "least": 2, "abs": 1}


def wholes(draw: Callable[..., Any], depth: int) -> Term:
    """A whole-number term."""
    kind = draw(st.sampled_from(["place", *(k for k, parts in PARTS.items() if depth or not parts)]))
    inner = [wholes(draw, depth - 1) for _ in range(PARTS[kind])]
    by = draw(st.sampled_from([const(2), const(3), W]))
    match kind:
        case "place":
            return Position(draw(st.sampled_from([t, s])))
        case "number":
            return draw(st.sampled_from([const(0), const(1), const(3), W]))
        case "read":
            return draw(st.sampled_from(READS))
        case "sum":
            return ap(draw(st.sampled_from(["add", "sub"])), *inner)
        case "times":
            return ap("mul", draw(st.sampled_from([const(2), const(-1), W])), *inner)
        case "quotient":
            return ap(draw(st.sampled_from(["floor", "ceil"])), ap("div", inner[0], by))
        case "mod":
            return ap("mod", inner[0], by)
        case "least":
            return ap(draw(st.sampled_from(["min", "max"])), *inner)
    return ap("abs", *inner)


@st.composite
def conditions(draw: Callable[..., Any], depth: int = 2) -> Term:
    kind = draw(st.sampled_from(["atom", "and", "or", "not"])) if depth else "atom"
    if kind == "atom":
        return ap(draw(st.sampled_from(["le", "lt", "eq", "ne", "le"])), wholes(draw, 2), wholes(draw, 2))
    parts = [draw(conditions(depth - 1)) for _ in range(1 if kind == "not" else 2)]
    return ap(kind, *parts)


@st.composite
def worlds(draw: Callable[..., Any]) -> World:
    sizes = {name: draw(st.integers(1, most)) for name, most in (("T", 9), ("S", 9), ("N", 2), ("W", 4))}
    make = np.random.default_rng(draw(st.integers(0, 1000)))
    return world_of(make, sizes, draw(st.booleans()))


def world_of(make: np.random.Generator, sizes: Mapping[str, int], rising: bool) -> World:
    data = {name: make.integers(0, 6, [int(x.extent.at(sizes)) for x in sets]) for name, sets in STORED.items()}
    return World(sizes, {k: np.sort(v, -1) if rising and v.ndim else v for k, v in data.items()})


@examples(100, 250, conditions(), worlds(), st.tuples(st.integers(1, 4), st.integers(1, 4)),
          suppress_health_check=list(HealthCheck))
def test_no_tile_is_called_empty_or_full_wrongly(condition: Term, world: World, lengths: tuple[int, int]) -> None:
    judge(condition, world, lengths, Count())


# exact ones

HERE, THERE = Position(t), Position(s)
PAGE = [quotient(ap("sub", HERE, 1), W), quotient(ap("sub", THERE, 1), W)]
PAST = ap("le", THERE, HERE)
SAME = ap("eq", READS[0], READS[1])
EXACT = {
    **{f"up to t + {k}": ap("le", THERE, ap("add", HERE, k)) for k in (-3, -1, 0, 2)},
    "before t": ap("lt", THERE, HERE),
    "the last T of S": ap("le", THERE, ap("sub", ap("add", HERE, Size(size("S"))), Size(size("T")))),
    "the other way": ap("not", PAST),
    "a prefix": ap("or", PAST, ap("le", THERE, W)),
    "a prefix by data": ap("or", PAST, ap("lt", THERE, READS[5])),
    "pages": ap("eq", *PAGE),
    "the past of a page": ap("and", ap("eq", *PAGE), PAST),
    "the pages before": ap("lt", PAGE[1], PAGE[0]),
    "one of W": ap("le", ap("mul", THERE, W), HERE),
    "every t": ap("le", 0, THERE),
    "no t": ap("lt", THERE, 0),
}
SORTED = {
    "documents": SAME,
    "the past of a document": ap("and", SAME, PAST),
    "documents before": ap("lt", READS[1], READS[0]),
    "other documents": ap("not", SAME),
    "a document of a batch": ap("eq", READS[2], READS[3]),
    "times": ap("and", ap("le", READS[1], READS[0]), PAST),
}


def shapes(seed: int, rising: bool, batch: int = 1) -> list[World]:
    make = np.random.default_rng(seed)
    sizes = [{"T": a, "S": b, "N": batch, "W": w}
             for a, b, w in ((1, 1, 1), (7, 7, 3), (9, 5, 2), (4, 11, 4), (12, 12, 5))]
    return [world_of(make, x, rising) for x in sizes]


@pytest.mark.parametrize("name", EXACT)
def test_every_tile_is_called_what_it_is(name: str) -> None:
    for world in shapes(0, False):
        for lengths in ((1, 1), (3, 2), (2, 4), (5, 5)):
            judge(EXACT[name], world, lengths, Count(), each=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", SORTED)
def test_every_tile_of_sorted_documents_is_called_what_it_is(name: str) -> None:
    """Both tensors hold the same ids, each twice or more often, as a packed sequence does."""
    for seed, (length, rows, columns) in enumerate([(8, 2, 2), (12, 3, 4), (12, 4, 3), (13, 5, 5), (9, 1, 2)]):
        make = np.random.default_rng(seed)
        ids = np.sort(make.integers(0, 4, length))
        data = {"at": ids, "ids": ids, "many_at": ids[None], "many": ids[None], "ends": ids[:1], "last": ids[0]}
        judge(SORTED[name], World({"T": length, "S": length, "N": 1, "W": 2}, data), (rows, columns), Count(),
              each=True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the scale of these tests every gap is short: only spans that touch are one."""
    called_by.cache_clear()
    monkeypatch.setattr(ranges, "NEAR", 1)
    monkeypatch.setattr(ends, "NEAR", 1)
    yield
    called_by.cache_clear()


def rate(chosen: Sequence[Term], worlds: Sequence[World]) -> float:
    count = Count()
    for condition in chosen:
        for world in worlds:
            for lengths in ((2, 2), (3, 4)):
                judge(condition, world, lengths, count)
    return count.needless / count.tiles


KNOWN = {
    "the last W": (ap("and", PAST, ap("lt", ap("sub", HERE, W), THERE)), 0.0),
    "near": (ap("le", ap("abs", ap("sub", HERE, THERE)), W), 0.0),
    "the first and the last W": (ap("and", PAST, ap("or", ap("le", THERE, 2), ap("lt", ap("sub", HERE, W), THERE))),
                                 0.06),
    "pages near": (ap("and", PAST, ap("le", ap("sub", *PAGE), 1)), 0.0),
    "all but one": (ap("and", PAST, ap("ne", HERE, THERE)), 0.12),
    "stripes": (ap("le", ap("mod", THERE, ap("mul", 2, W)), W), 0.0),
    "every other page": (ap("eq", ap("mod", ap("sub", *PAGE), 2), 0), 0.12),
    "dilated": (ap("and", PAST, ap("eq", ap("mod", ap("sub", HERE, THERE), W), 0)), 0.12),
    "a document of a batch": (SORTED["a document of a batch"], 0.2),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", KNOWN)
def test_how_many_tiles_are_needlessly_partial(name: str) -> None:
    condition, most = KNOWN[name]
    found = rate([condition], [*shapes(1, True), shapes(2, True, 2)[3]])
    print(f"{name}: {found:.1%} of the tiles are needlessly partial")
    assert found <= most


@pytest.mark.usefixtures("small")
def test_how_many_tiles_of_random_domains_are_needlessly_partial() -> None:
    """Drawn from the same predicates as above, by a fixed seed."""
    chosen: list[Term] = []

    @settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(conditions())
    def draw(condition: Term) -> None:
        chosen.append(condition)

    draw()
    found = rate(chosen, shapes(3, False)[1:2])
    print(f"random domains: {found:.1%} of the tiles are needlessly partial")
    assert found <= 0.15


# modules

DATA = """
index t, s : time(T)
index h    : head(H)
index n    : batch(N)
index d    : feature(D)
dim W
input q_{n h t}^d, k_{n h s}^d
input doc_t : int
input packed_{n t} : int
input ends_n : int
input reach_h : int
input p : int
mask L_{n h t s} : PREDICATE
L_{n h t s} = q_{n h t}^d k_{n h s d}
output y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) k_{n h s}^d : all
"""
MASKS = (
    "s ≤ t",
    "s ≤ t or s ≤ W",
    "s ≤ t or s ≤ p",
    "s ≤ t and (s ≤ 2 or s > t - W)",
    "s ≤ 1 or s > t - W, s ≤ t",
    "s = 2 or s = 7 or s > t - 2, s ≤ t",
    "abs(t - s) ≤ W",
    "floor((s - 1) / W) = floor((t - 1) / W)",
    "s ≤ t, floor((t - 1) / W) - floor((s - 1) / W) ≤ 1",
    "s ≤ t, mod(t - s, W) = 0",
    "mod(floor((s - 1) / W) - floor((t - 1) / W), 2) = 0",
    "not (s = t)",
    "s W ≤ t",
    "2 s ≤ t + 1",
    "doc_s = doc_t",
    "doc_s = doc_t, s ≤ t",
    "packed_{n s} = packed_{n t}, s ≤ t",
    "doc_s ≥ doc_t",
    "doc_s ≤ 2 or s ≤ t",
    "s ≤ ends_n",
    "s ≤ ends_n or s > t - W, s ≤ t",
    "s > t - reach_h, s ≤ t",
    "not (doc_s = doc_t and s ≤ t)",
    "t ≤ W or s ≤ t",
    "t ≤ W and s ≥ t",
    "s ≤ max(t, p)",
    "doc_t ≤ 2 and s ≤ t or s = t",
)
RANGES = {"doc": ("1", "4"), "packed": ("1", "3"), "ends": ("0", "T"), "reach": ("0", "T"), "p": ("0", "T")}


@cache
def made(predicate: str) -> tuple[TypedProgram, str, str]:
    program = typed(DATA.replace("PREDICATE", predicate))
    module = front.plan(program)
    return program, front.emit(module), module.name


@pytest.mark.drawn(6)
@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("predicate", MASKS)
def test_modules_under_masks_mean_what_the_interpreter_says(predicate: str, rising: bool) -> None:
    program, source, name = made(predicate)
    for seed, sizes in enumerate([{"T": 11, "N": 2, "H": 2, "D": 3, "W": 3}, {"T": 6, "N": 1, "H": 1, "D": 1, "W": 5}]):
        inputs = arrays(program, sizes, RANGES, seed)
        inputs |= {key: np.sort(inputs[key]) for key in ("doc", "packed") if key in inputs and rising}
        want = meaning(program, inputs, sizes)
        for tiles in (None, (4, 3), (1, 2), (2, 20)):
            function = load(cut(source, tiles) if tiles else source, name)
            assert_close(called(function, program, tensors(inputs), sizes), want)


SAID = {"at": "doc_t", "ids": "doc_s", "many_at": "packed_{n t}", "many": "packed_{n s}", "ends": "ends_n", "last": "p"}
INFIX = {"add": "+", "sub": "-", "mul": "", "div": "/", "le": "≤", "lt": "<", "eq": "=", "ne": "≠", "and": "and",
         "or": "or"}


def said(term: Term) -> str:
    """A term as the language writes it."""
    match term:
        case Const(number):
            return str(number)
        case Size(extent):
            return str(extent)
        case Position(index):
            return index.name
        case Read(tensor):
            return SAID[tensor]
        case Apply(op, args) if op in INFIX:
            return f"({f' {INFIX[op]} '.join(map(said, args))})"
        case Apply("not" | "neg" as op, (inner,)):
            return f"({'not' if op == 'not' else '-'} {said(inner)})"
        case Apply(op, args):
            return f"{op}({', '.join(map(said, args))})"
    raise AssertionError(term)


@examples(4, 20, conditions(), st.integers(0, 100), st.booleans(), suppress_health_check=list(HealthCheck))
def test_modules_under_random_masks_mean_what_the_interpreter_says(condition: Term, seed: int, rising: bool) -> None:
    report = Report()
    program = pipeline.check(Source("<text>", DATA.replace("PREDICATE", f"s ≤ t + W, {said(condition)}")), report)
    if program is None:  # it is the same for all positions, say
        return
    module = front.plan(program)
    source = front.emit(module)
    sizes = {"T": 7, "N": 2, "H": 1, "D": 2, "W": 3}
    inputs = arrays(program, sizes, RANGES, seed)
    inputs |= {key: np.sort(inputs[key]) for key in ("doc", "packed") if key in inputs and rising}
    want = meaning(program, inputs, sizes)
    for tiles in (None, (3, 2), (1, 3)):
        function = load(cut(source, tiles) if tiles else source, module.name)
        assert_close(called(function, program, tensors(inputs), sizes), want)


@pytest.mark.parametrize("predicate",
                         ["s ≤ t", "s ≤ 1 or s > t - W, s ≤ t", "s ≤ t or s ≤ W", "s = 1 or mod(t - s, W) = 0, s ≤ t"])
def test_rows_that_all_have_the_first_position_need_no_guard(predicate: str) -> None:
    """No reach leaves out a point, so the first tile holds the first position, whatever
    comes between it and the rest."""
    assert "rows without a point so far" not in made(predicate)[1]


@pytest.mark.parametrize("predicate",
                         ["s > t - W, s ≤ t", "s = 2 or s > t - W, s ≤ t", "mod(s, 2) = 0", "doc_s = doc_t"])
def test_rows_that_may_wait_for_their_first_point_are_guarded(predicate: str) -> None:
    assert "rows without a point so far" in made(predicate)[1]


class Counting(TorchDispatchMode):
    """How often each operation runs while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket).removeprefix("aten.")
        self.ran[name] = self.ran.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


SIZES = {"T": 32, "N": 1, "H": 1, "D": 2, "W": 8}
VISITED = {  # for tiles of 4 by 4: those with a point, and those with a mask
    "s ≤ t": (36, 8),
    "s < t": (36, 8),
    "s ≤ t or s ≤ W": (2 + 2 + sum(range(3, 9)), 6),
    "floor((s - 1) / W) = floor((t - 1) / W)": (16, 0),
    "s ≤ t, floor((s - 1) / W) = floor((t - 1) / W)": (12, 8),
    "s ≤ 4 or s ≥ t, s ≤ t": (15, 8),
    "doc_s = doc_t": (4 * 4, 0),
    "doc_s = doc_t, s ≤ t": (12, 8),
    "packed_{n s} = packed_{n t}, s ≤ t": (12, 8),
    "s ≤ t, s ≤ ends_n": (3 + 3 * 6, 3),
    "mod(floor((s - 1) / W) - floor((t - 1) / W), 2) = 0": (32, 0),
    "s ≤ t, t - s < 5": (15, 15),
}


@pytest.mark.parametrize("predicate", VISITED)
def test_empty_tiles_are_not_visited_and_full_ones_have_no_mask(predicate: str) -> None:
    program, source, name = made(predicate)
    inputs = arrays(program, SIZES, RANGES)
    ids = np.repeat([1, 2, 5, 7], 8)
    inputs |= {key: value for key, value in {"doc": ids, "packed": ids[None], "ends": np.array([12])}.items()
               if key in inputs}
    counted = re.sub(r"if (.*):  # the domain cuts this tile", r"if (\1) and not cuts.add((t0, s_from)):",
                     cut(source, (4, 4)))
    function = load("cuts = set()\n" + counted, name)
    with Counting() as counting:
        called(function, program, tensors(inputs), SIZES)
    visited, masked = VISITED[predicate]
    assert (counting.ran["bmm"], len(inspect.unwrap(function).__globals__["cuts"])) == (2 * visited, masked)
    assert not re.search(r"^ {12}(?! )(?!if ).*(arange|masked_fill_\(~)", source,
                         re.MULTILINE), "a mask beside its condition"
