"""Search for numbers at which two tensors of a program differ: small sizes, random inputs
that honour what is assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from einc.errors.report import Problem
from einc.ir.claimed import Claim
from einc.ir.dependence import reached
from einc.ir.indices import Extent, IndexSet
from einc.ir.programs import BlockLoop, IndexLoop, Program, Tensor, sets_of
from einc.ir.terms import Apply, Position, Read, Size, Term, reads
from einc.meaning.blocks import Array
from einc.meaning.interpret import interpret

_TRIALS, _ENOUGH, _SHOWN = 80, 4, 6
_SMALL = {"time": 4, "vocab": 5, "expert": 3}  # elements of the first trial, of other classes 2
_CLOSE, _HONOURED = 1e-6, 1e-9
_STEPS, _MOST_UNKNOWN, _NUDGE = 30, 400, 1e-6
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Counterexample:
    """Where the two differ: the sizes, the letters of the indices, and points as (the indices' values, left, right)."""

    sizes: Mapping[str, int]
    letters: tuple[str, ...]
    points: tuple[tuple[tuple[int, ...], float, float], ...]
    total: int


@dataclass(frozen=True)
class Search:
    """The first difference that was found, and how many trials there were."""

    found: Counterexample | None
    trials: int


def search(claim: Claim, seed: int = 0, enough: int = _ENOUGH, zeros: bool = False) -> Search:
    """Looks for a difference at a few sizes, at random inputs, of which some and at first all are 0 where
    `zeros` are asked for."""
    done = 0
    for sizes, arrays in islice(_trials(claim, seed, zeros), _TRIALS):
        try:
            values = interpret(claim.program, arrays, sizes)
        except (Problem, ArithmeticError, ValueError, MemoryError):
            continue
        if any(not _same(values[a], values[b], _HONOURED).all() for a, b in claim.given):
            continue
        done += 1
        found = _difference(claim, values, sizes)
        if found is not None or done == enough:
            return Search(found, done)
    return Search(None, done)


def _difference(claim: Claim, values: Mapping[str, Array], sizes: Mapping[str, int]) -> Counterexample | None:
    left, right = values[claim.left], values[claim.right]
    wrong = ~_same(left, right, _CLOSE)
    if not wrong.any():
        return None
    slots = claim.program.tensors[claim.left].slots
    points = [(tuple(int(n) + slot.set.start for n, slot in zip(place, slots, strict=True)),
               float(left[tuple(place)]), float(right[tuple(place)])) for place in np.argwhere(wrong)[:_SHOWN]]
    return Counterexample(sizes, tuple(slot.name for slot in slots), tuple(points), int(wrong.sum()))


def _same(a: Array, b: Array, close: float) -> Array:
    """Where two arrays are equal as far as can be told; what is no number is not compared."""
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= close * (1 + np.abs(a) + np.abs(b))
    return np.asarray(near & np.isfinite(a) & np.isfinite(b) | (a == b) | np.isnan(a) | np.isnan(b))


# sizes and inputs


def _trials(claim: Claim, seed: int, zeros: bool) -> Iterator[tuple[dict[str, int], Arrays]]:
    """Endless trials for a counterexample: sizes with arrays for the inputs of the claim, the smallest sizes first. The
    arrays are empty where none were found that keep to what the claim assumes."""
    random, program = np.random.default_rng(seed), claim.program
    over = [x for x in _sets(program) if x.packed is None]
    names = sorted({n for x in over for n in x.extent.sizes} | {n for x in _extents(program) for n in x.sizes})
    total = {n for x in _sets(program) if x.packed is not None for n in x.extent.sizes}
    classes = {n: x.cls for x in over for n in x.extent.sizes}
    trial = 0
    while True:
        few = {n: _SMALL.get(classes.get(n, ""), 2) for n in names}
        sizes = {n: program.sizes.get(n, few[n] if trial == 0 else int(random.integers(1, few[n] + 3))) for n in names}
        _agreed(program, sizes)
        made = _inputs(program, sizes, random, positive=trial % 2 == 1)
        if made is not None and zeros:
            made = {key: x * random.integers(0, 2, x.shape) * (trial > 0) if x.dtype.kind == "f" else x
                    for key, x in made.items()}
        honoured = made if made is None or not claim.given else _honouring(claim, made, sizes)
        yield {n: x for n, x in sizes.items() if n not in total}, {} if honoured is None else honoured
        trial += 1


def _sets(program: Program) -> list[IndexSet]:
    """The sets that inputs, results and equations run over."""
    used = [slot.set for t in program.inputs() for slot in t.slots]
    used += [slot.set for e in program.equations for slot in program.tensors[e.target].slots]
    used += [found for term in program.terms for found in sets_of(term)]
    return list(dict.fromkeys([*used, *(repeat.index.set for repeat in program.every_repeat)]))


def _extents(program: Program) -> Iterator[Extent]:
    return (t.extent for t in program.terms if isinstance(t, Size))


def _agreed(program: Program, sizes: dict[str, int]) -> None:
    """Sets sizes that are all of a composite to what its parts make."""
    for into, parts in program.splits.items():
        match into.extent.terms:
            case ((((str(name), 1),), coefficient),) if (
                coefficient == 1 and name in sizes and name not in program.sizes
            ):
                if not any(name in part.extent.sizes for part in parts):
                    sizes[name] = int(np.prod([int(part.extent.at(sizes)) for part in parts]))


def _inputs(program: Program, sizes: dict[str, int], random: np.random.Generator, positive: bool) -> Arrays | None:
    """Random inputs for the sizes; None where the sizes do not fit. Changes `sizes`."""
    lengths = {x.packed.lengths: x for x in _sets(program) if x.packed is not None}
    out: Arrays = {}
    for tensor in sorted(program.inputs(), key=lambda t: t.key not in lengths):
        try:
            extents = [slot.set.extent.at(sizes) for slot in tensor.slots]
        except ZeroDivisionError:
            return None
        if any(n.denominator != 1 for n in extents):
            return None
        shape = tuple(map(int, extents))
        if tensor.key in lengths:
            out[tensor.key] = random.integers(1, 4, shape)
            (name,) = lengths[tensor.key].extent.sizes
            sizes[name] = int(out[tensor.key].sum())
        elif tensor.integer:
            low, high = _range(program, tensor, sizes)
            out[tensor.key] = random.integers(low, max(low, high) + 1, shape)
        else:
            out[tensor.key] = np.asarray(random.uniform(0.5, 1.5, shape) if positive else random.standard_normal(shape))
    return out


def _range(program: Program, tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The values that an integer tensor may have: those of a slot that it stands in, or
    of a position it is compared with."""
    places: list[IndexSet] = []
    for term in program.terms:
        match term:
            case Read(outer, subs):
                slots = program.tensors[outer].slots
                places += [slot.set for slot, sub in zip(slots, subs, strict=True) if _about(sub, tensor)]
            case Apply("le" | "lt" | "eq", (a, b)):
                places += [y.index.set for x, y in ((a, b), (b, a)) if isinstance(y, Position) and _about(x, tensor)]
    return (places[0].start, places[0].start + int(places[0].extent.at(sizes)) - 1) if places else (1, 3)


def _about(term: Term, tensor: Tensor) -> bool:
    return any(r.tensor == tensor.key for r in reads(term))


# inputs that honour what is assumed


def _honouring(claim: Claim, arrays: Arrays, sizes: dict[str, int]) -> Arrays | None:
    """The inputs moved to the nearest ones for which the assumptions hold, by Newton's steps; None where that fails."""
    program = _part(claim.program, [key for pair in claim.given for key in pair])
    known = {t.key for t in program.inputs()}
    free = [key for key in sorted(known) if arrays[key].dtype.kind == "f"]
    names = {n for x in _sets(program) for n in x.extent.sizes} | {n for x in _extents(program) for n in x.sizes}
    shapes = [arrays[key].shape for key in free]
    point = np.concatenate([arrays[key].ravel() for key in free] or [np.zeros(0)])
    if point.size > _MOST_UNKNOWN:
        return None

    def given(at: Array) -> Arrays:
        pieces = np.split(at, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
        return {**arrays, **{key: x.reshape(shape) for key, x, shape in zip(free, pieces, shapes, strict=True)}}

    def left(at: Array) -> Array:
        inputs = {key: x for key, x in given(at).items() if key in known}
        values = interpret(program, inputs, {n: x for n, x in sizes.items() if n in names})
        return np.concatenate([(values[a] - values[b]).ravel() for a, b in claim.given])

    try:
        for _ in range(_STEPS):
            here = left(point)
            if not np.isfinite(here).all():
                return None
            if np.abs(here).max(initial=0) < _HONOURED / 100:
                return given(point)
            slopes = np.stack([(left(point + _NUDGE * unit) - here) / _NUDGE for unit in np.eye(point.size)], axis=1)
            point = point - np.linalg.lstsq(slopes, here, rcond=1e-8)[0]
    except (Problem, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None
    return None


def _part(program: Program, keys: Iterable[str]) -> Program:
    """The program of a few of its tensors, with the whole of the rounds that make them."""
    outputs, by = [(key, key) for key in keys], program.by_target
    parts = {loop: _parts(loop) for loop in program.loops}

    def before(key: str) -> Iterator[str]:
        yield from by[key].reads if key in by else ()
        for names in parts.values():
            yield from names if key in names else ()

    found = set(reached((key for key, _ in outputs), before))
    return program.but(equations=(e for e in program.equations if e.target in found), outputs=outputs,
                       loops=(loop for loop in program.loops if found & parts[loop]))


def _parts(loop: BlockLoop | IndexLoop) -> frozenset[str]:
    """Every name of what rounds make, and of what that begins with."""
    if isinstance(loop, IndexLoop):
        return loop.made.union(key for one in loop.every for state in one.states for key in state)
    return loop.targets.union(*(e.reads for e in loop.equations))
