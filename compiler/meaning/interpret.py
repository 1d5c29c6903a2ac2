"""The meaning of a program: float64 numpy, one axis for each free index, no tricks that could be wrong.

A value is computed at every point, also where it does not exist; what exists is carried along as conditions (`live`),
and a select, never a product, takes the rest away. So a point outside a domain does no harm to its neighbours.

0 / 0 is 0 (a row whose domain is empty is 0); everything else is IEEE. Integers and positions are exact, and so are
rational arguments of floor, ceil, comparisons and subscripts. Non-goal: speed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from graphlib import TopologicalSorter
from typing import Any, assert_never

import numpy as np

from einc.errors.problems import WrongData
from einc.ir.domains import linear
from einc.ir.folds import FOLDS
from einc.ir.indices import Index, IndexSet
from einc.ir.primitives import HASHES, PRIMITIVES
from einc.ir.programs import BlockLoop, Equation, Program, Slot, Tensor
from einc.ir.rounds import Cut, OrderedLoop, needs, run, steps, thirds
from einc.ir.terms import (
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    conjuncts,
    free_indices,
    reads,
    walk,
)
from einc.meaning.blocks import EXACT, Array, Block, Pair, Rounding, picked, union
from einc.meaning.functions import folded, function
from einc.meaning.sizes import at, packed, solve_sizes, typed
from einc.meaning.wide import applied, total

_MOST_BYTES = 8 * 2**30
_MOST_EXACT = 2**62
_SAFE = 1e-150  # a sum of which any addend that no float64 holds is no part


def interpret(program: Program, arrays: Mapping[str, Array], sizes: Mapping[str, int] | None = None,
              cut: Cut = thirds, rounded: Rounding = EXACT) -> dict[str, Array]:
    """The outputs by Python name, one axis per slot, float64 or int64; `cut` says into which blocks rounds go.
    `rounded` is applied to each result that is a real number: what the program gives in a narrower type, step by step.
    WrongData where the arrays do not fit each other or a read leaves its range; WrongType for a wrong element type.
    """
    given = {key: np.asarray(array) for key, array in arrays.items()}
    sums, derived = packed(program, given)
    solved = solve_sizes(program, {key: array.shape for key, array in given.items()}, {**(sizes or {}), **sums})
    machine = _Machine(program, solved, {t.key: typed(t, given[t.key], solved) for t in program.inputs()}, rounded)
    machine.values.update({key: np.array(found, dtype=np.int64) for key, found in derived.items()})
    by_target = steps(program)
    read = {key: needs(step) for key, step in by_target.items()}
    order = [key for key in TopologicalSorter(read).static_order() if key in by_target]
    last = {key: at for at, target in enumerate(order) for key in read[target]}
    kept = {tensor for _, tensor in program.outputs}
    with np.errstate(all="ignore"):
        for at, target in enumerate(order):
            match by_target[target]:
                case Equation() as equation:
                    machine.values[target] = machine.solve(equation)
                case BlockLoop() as recur if target not in machine.values:
                    _rounds(machine, recur, cut)
                case OrderedLoop() as turns if target not in machine.values:
                    turns.run(machine.values, machine.solve, machine.extent)
            for key in [k for k in machine.values if last.get(k, at) <= at and k not in kept]:
                del machine.values[key]
    return {name: machine.values[tensor].copy() for name, tensor in program.outputs}


def _rounds(machine: _Machine, recur: BlockLoop, cut: Cut) -> None:
    known = recur.index.set.extent.sizes <= machine.sizes.keys()
    extent = machine.extent(recur.index.set) if known else 1  # where no size is asked for, any number of rounds will do

    def mark(block: Sequence[int]) -> Array:
        return np.isin(np.arange(extent), list(block)).astype(np.int64)

    blocks = cut(extent) if recur.member else [[place] for place in range(extent)]
    run(recur, machine.values, machine.solve, blocks, mark)


Live = tuple[Block, ...]


def _scalar(value: Fraction | float) -> Block:
    if isinstance(value, Fraction) and value.denominator == 1 and abs(value) < _MOST_EXACT:
        return Block((), np.asarray(int(value)))
    try:
        return Block((), np.asarray(float(value)))
    except OverflowError:
        return Block((), np.asarray(math.inf if value > 0 else -math.inf))


@dataclass(frozen=True, slots=True)
class _Machine:
    """What a term is evaluated with. `live` is a conjunction: where it fails nothing is read and any value will do."""

    program: Program
    sizes: Mapping[str, int]
    values: dict[str, Array]
    rounded: Rounding = EXACT
    wide: dict[str, tuple[Array, Pair]] = field(default_factory=dict)  # of the arrays that no float64 may hold

    def extent(self, over: IndexSet) -> int:
        return int(over.extent.at(self.sizes))

    def shape(self, indices: Iterable[Index], item: int = 8) -> tuple[int, ...]:
        """The extents; WrongData where an array over the indices would not fit."""
        shape = tuple(self.extent(i.set) for i in indices)
        if (needed := math.prod(shape) * item) > _MOST_BYTES:
            over = ", ".join(i.name for i in indices)
            raise WrongData(f"the interpreter would need {needed / 2**30:.0f} GB for an array over ({over}): use "
                            f"smaller sizes")
        return shape

    def map(self, function: Callable[..., Array], *blocks: Block, item: int = 8) -> Block:
        """A function of numpy arrays, point by point."""
        indices = union(blocks)
        self.shape(indices, item)
        made = np.asarray(function(*(block.over(indices) for block in blocks)))
        return Block(indices, self.rounded(made) if made.dtype.kind == "f" else made)

    def every(self, conditions: Iterable[Block]) -> Block:
        return reduce(lambda a, b: self.map(np.logical_and, a, b, item=1), conditions, Block((), np.asarray(True)))

    def where(self, conditions: Live, block: Block, otherwise: float = 0) -> Block:
        if not conditions:
            return block
        select = self.every(conditions)
        made = self.map(lambda c, x: np.where(c, x, otherwise), select, block)
        if block.wide is None or otherwise:
            return made
        v, m = (self.map(lambda c, x: np.where(c, x, 0), select, Block(block.indices, x)).array for x in block.wide)
        return Block(made.indices, made.array, (v, m))

    def found(self, wrong: Block, live: Live, shown: Block) -> str:
        """What is shown at a live point that is wrong; empty where there is none."""
        for condition in live if wrong.array.any() else ():
            wrong = self.map(np.logical_and, wrong, condition, item=1)
        if not wrong.array.any():
            return ""
        point = dict(zip(wrong.indices, np.argwhere(wrong.array)[0], strict=True))
        place = ", ".join(f"{i.name} = {n + i.set.start}" for i, n in point.items())
        return f"{shown.array[tuple(point[i] for i in shown.indices)]}" + f" (at {place})" * bool(place)

    def solve(self, equation: Equation) -> Array:
        """The array of the target, 0 where the equation has no points. Changes `self.wide`."""
        tensor, indices = self.program.tensors[equation.target], equation.indices
        live = self.conditions(equation.domain, ())
        body = (self.whole(equation.body, live, f"`{tensor.key}`, declared to hold integers,") if tensor.integer else
                self.value(equation.body, live))
        body, shape = self.where(live, body), [self.extent(slot.set) for slot in tensor.slots]

        def laid(array: Array) -> Array:
            full = np.broadcast_to(Block(body.indices, array).over(indices), self.shape(indices))
            return np.array(full, dtype=np.int64 if tensor.integer else np.float64, order="C").reshape(shape)

        made = laid(body.array)
        if body.wide is not None and not tensor.integer:  # of this array: rounds put parts of it into another one
            self.wide[equation.target] = made, (laid(body.wide[0]), laid(body.wide[1]))
        return made

    def value(self, term: Term, live: Live) -> Block:
        """The term at every point: int64 for integers, bool for predicates, else float64."""
        match term:
            case Const(value):
                return _scalar(value)
            case Truth(holds):
                return Block((), np.asarray(holds))
            case Size(extent):
                return _scalar(at(extent, self.sizes))
            case Position(index):
                return Block((index,), np.arange(self.extent(index.set)) + index.set.start)
            case Pack(parts, sets, into):
                total = Block((), np.asarray(0))
                for part, over in zip(parts, sets, strict=True):
                    scaled = Block(total.indices, total.array * self.extent(over) - over.start)
                    total = self.map(np.add, scaled, self.whole(part, live))
                return Block(total.indices, total.array + into.start)
            case Part(item, of, before, into):
                shift = _scalar(before.at(self.sizes) + into.start - of.start)
                return self.map(np.add, shift, self.whole(item, live))
            case Read():
                return self.read(term, live)
            case Apply():
                return self.apply(term, live)
            case Where(condition, then):
                here = self.conditions(condition, live)
                return self.where(here, self.value(then, (*live, *here)))
            case Fold():
                return self.fold(term, live)
            case Join():
                return self.join(term, live)
        assert_never(term)

    def apply(self, term: Apply, live: Live) -> Block:
        """The value of a function of terms; `live` are the conditions under which it is read."""
        match term:
            case Apply("and"):
                return self.every(self.conditions(term, live))
            case Apply("or", args):
                return self.map(np.logical_not, self.every(self.in_turn(args, live, np.logical_not)), item=1)
            case Apply("le" | "lt" | "eq" | "ne" as op, args) if exact := self.exact(Apply("sub", args), live):
                return self.map(function(op), exact[0], _scalar(Fraction(0)), item=1)
            case Apply("floor", (a,)) if exact := self.exact(a, live):
                return self.map(np.floor_divide, *exact)
            case Apply("ceil", (a,)) if exact := self.exact(a, live):
                return self.map(lambda above, below: -(-above // below), *exact)
            case Apply("pick", (Fold(_, bound, domain, body), rank)):
                live = tuple(condition.reduced(np.any, bound) for condition in live)
                here = self.conditions(domain, live)
                points = self.where(here, self.value(body, (*live, *here)), -math.inf)
                return picked(points, bound[0], self.extent(bound[0].set), self.whole(rank, live))
        meaning, item = function(term.op), 8 if PRIMITIVES[term.op].kind == "value" else 1
        blocks = [self.whole(arg, live) if term.op in HASHES else self.value(arg, live) for arg in term.args]
        if len(blocks) == 1:
            return applied(term.op, blocks, self.rounded) or self.map(meaning, blocks[0], item=item)
        return reduce(lambda x, y: applied(term.op, (x, y), self.rounded) or self.map(meaning, x, y, item=item), blocks)

    def conditions(self, term: Term, live: Live) -> Live:
        """The conjuncts, each over its own indices."""
        return self.in_turn([atom for atom in conjuncts(term) if atom != Truth(True)], live, np.asarray)

    def in_turn(self, args: Sequence[Term], live: Live, then: Callable[..., Array]) -> Live:
        """Conditions, each read only where those before it hold; those that read nothing come first."""
        done: Live = ()
        for arg in sorted(args, key=lambda a: any(True for _ in reads(a))):
            done = (*done, self.map(then, self.value(arg, (*live, *done)), item=1))
        return done

    def exact(self, term: Term, live: Live) -> tuple[Block, Block] | None:
        """Numerator and positive denominator, int64; None where the term is no rational number, or too large."""
        if any(isinstance(t, Fold) or (isinstance(t, Read) and not self.program.tensors[t.tensor].integer)
               for t in walk(term)):
            return None
        match linear(term), term:
            case None, Apply("div", (a, b)):
                above, below = self.value(a, live), self.value(b, live)
                pair = self.map(lambda x, y: np.where(y < 0, -x, x), above, below), self.map(np.abs, below)
                return pair if above.array.dtype.kind == below.array.dtype.kind == "i" else None
            case None, _:
                return None
            case form, _:
                atoms, factors = [_scalar(Fraction(1))], [at(form.constant, self.sizes)]
        for atom, coefficient in form.atoms:
            atoms.append(self.value(atom, live))
            factors.append(at(coefficient, self.sizes))
        common = math.lcm(*(f.denominator for f in factors if isinstance(f, Fraction)))
        if math.inf in factors or any(atom.array.dtype.kind != "i" for atom in atoms):
            return None
        times = [int(factor * common) for factor in factors]
        if sum(abs(n) * int(np.abs(a.array).max(initial=1))
               for n, a in zip(times, atoms, strict=True)) + common >= _MOST_EXACT:
            return None
        scaled = [Block(a.indices, np.asarray(a.array * n)) for n, a in zip(times, atoms, strict=True)]
        return reduce(lambda a, b: self.map(np.add, a, b), scaled), _scalar(Fraction(common))

    def whole(self, term: Term, live: Live, what: str = "an index expression") -> Block:
        """The term as int64; WrongData where it is not whole at a live point."""
        block = self.value(term, live)
        if block.array.dtype.kind == "i":
            return block
        if exact := self.exact(term, live):
            block = self.map(np.true_divide, *exact)
        near = np.nan_to_num(np.rint(block.array)).clip(-_MOST_EXACT, _MOST_EXACT).astype(np.int64)
        rounded = Block(block.indices, near)
        if found := self.found(self.map(np.not_equal, rounded, block, item=1), live, block):
            raise WrongData(f"{what} is {found}, not a whole number")
        return rounded

    def read(self, term: Read, live: Live) -> Block:
        """The stored array, relabelled where a slot is read along its own set, gathered where not."""
        tensor, array, kept = self.program.tensors[term.tensor], self.values[term.tensor], self.wide.get(term.tensor)
        pair = kept[1] if kept is not None and kept[0] is array else None
        uses = Counter(i for sub in term.subs for i in free_indices(sub))
        plain: dict[int, Index] = {}
        chosen: dict[int, Block] = {}
        for axis, (sub, slot) in enumerate(zip(term.subs, tensor.slots, strict=True)):
            match sub:
                case Position(i) if (
                    uses[i] == 1 and (self.extent(i.set), i.set.start) == (array.shape[axis], slot.set.start)
                ):
                    plain[axis] = i
                case _:
                    chosen[axis] = self.storage(tensor, slot, sub, live)
        if not chosen:
            return Block(tuple(plain.values()), array, pair)
        indices = union(chosen.values())
        shape = self.shape((*indices, *plain.values()))
        if any(array.shape[axis] == 0 for axis in chosen):
            return Block((*indices, *plain.values()), np.zeros(shape, array.dtype))
        places = tuple(block.over(indices) for block in chosen.values())

        def taken(array: Array) -> Array:
            return np.asarray(array.transpose([*chosen, *plain])[places])

        return Block((*indices, *plain.values()), taken(array), None if pair is None
                     else (taken(pair[0]), taken(pair[1])))

    def storage(self, tensor: Tensor, slot: Slot, sub: Term, live: Live) -> Block:
        """Where a subscript is stored; clamped where it is not live, WrongData where it is and leaves its range."""
        block, n, start = self.whole(sub, live), self.extent(slot.set), slot.set.start
        outside = self.map(lambda x: (x < start) | (x >= start + n), block, item=1)
        if found := self.found(outside, live, block):
            raise WrongData(f"`{tensor.key}` is read at `{slot.name}` = {found}, outside {start}..{start + n - 1}",
                            tensor.span)
        return self.map(lambda x: (x - start).clip(0, max(n - 1, 0)), block)

    def join(self, term: Join, live: Live) -> Block:
        """The values of the parts, one after the other along the index of the sum."""
        pieces, before = [], 0
        for part, body in term.parts:
            piece = slice(before, before := before + self.extent(part.set))
            here = tuple(c.reduced(np.any, (part,)).along(term.index, part, piece) for c in live)
            pieces.append(self.value(body, here).along(part, term.index, slice(None)))
        rest = tuple(i for i in union(pieces) if i != term.index)
        self.shape((*rest, term.index))
        arrays = [np.broadcast_to(block.over((*rest, term.index)), (*self.shape(rest), self.extent(part.set)))
                  for block, (part, _) in zip(pieces, term.parts, strict=True)]
        return Block((*rest, term.index), np.concatenate(arrays, axis=-1))

    def fold(self, term: Fold, live: Live) -> Block:
        """The body over the points of the domain: a sum of a product contracted, all else laid out and reduced."""
        live = tuple(condition.reduced(np.any, term.bound) for condition in live)
        here = self.conditions(term.domain, live)
        if term.op == "sum":
            factors = self.selected(here, self.factors(term.body, (*live, *here)))
            if all(np.isfinite(f.array).all() for f in factors):
                found = self.contract(factors, term.bound)
                if all(f.wide is None for f in factors) or (np.abs(found.array) > _SAFE).all():
                    return found
        row = FOLDS[term.op]
        body = self.where(here, self.value(term.body, (*live, *here)), row.start)
        indices = tuple(dict.fromkeys((*body.indices, *term.bound)))
        if body.wide is not None and term.op == "sum":
            return total(body, term.bound, self.shape(indices), self.rounded)
        full = Block(indices, np.broadcast_to(body.over(indices), self.shape(indices)).astype(np.float64, copy=False))
        if term.op != "sum":
            return full.reduced(lambda x, axis: self.rounded(folded(term.op, x, axis)), term.bound)
        return full.reduced(lambda x, axis: self.rounded.total(x.sum(axis), lambda n: (np.abs(x)**n).sum(axis)),
                            term.bound)

    def factors(self, term: Term, live: Live) -> list[Block]:
        """Factors whose product is the term at live points, if they are finite: 0 · ∞ is to be laid out instead."""
        match term:
            case Apply("mul", args):
                return [factor for arg in args for factor in self.factors(arg, live)]
            case Apply("neg", (a,)):
                return [*self.factors(a, live), _scalar(Fraction(-1))]
            case Apply("div", (a, b)):
                below = self.value(b, live)
                if below.wide is None and not self.found(self.map(lambda x: x == 0, below, item=1), live, below):
                    return [*self.factors(a, live), self.map(lambda x: np.where(x == 0, 0.0, 1 / x), below)]
            case Where(condition, then):
                here = self.conditions(condition, live)
                return self.selected(here, self.factors(then, (*live, *here)))
        return [self.value(term, live)]

    def selected(self, conditions: Live, factors: list[Block]) -> list[Block]:
        """The factors, 0 where a condition fails: it selects in those with its indices, and is one more if none has."""
        for condition in sorted(conditions, key=lambda c: -len(c.indices)):
            inside = [set(condition.indices) <= set(f.indices) for f in factors]
            factors = [self.where((condition,), f) if i else f for f, i in zip(factors, inside, strict=True)]
            factors += [condition] * (not any(inside))
        return factors

    def contract(self, factors: list[Block], bound: tuple[Index, ...]) -> Block:
        """Σ over `bound` of a product of finite factors."""
        factors = [*factors, *(Block((i,), np.ones(self.extent(i.set))) for i in bound if i not in union(factors))]
        indices = union(factors)
        free = tuple(i for i in indices if i not in bound)
        self.shape(free)

        def sum_of(arrays: Iterable[Array]) -> Array:
            operands: list[Any] = []
            for array, f in zip(arrays, factors, strict=True):
                operands += [array, [indices.index(i) for i in f.indices]]
            return np.asarray(np.einsum(*operands, [indices.index(i) for i in free],
                                        optimize=("greedy", _MOST_BYTES // 8)))

        arrays = [f.array.astype(np.float64, copy=False) for f in factors]
        return Block(free, self.rounded.total(sum_of(arrays), lambda n: sum_of(np.abs(x)**n for x in arrays)))
