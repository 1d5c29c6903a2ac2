"""A fold over {s ≤ t + c} of Σ_k c_k(t) b_k(s): tiles of t in order, each with what the tiles before it left behind.

The same separation as in `stream`, between t and s. For a tile, all that lies before it enters through the carried sums
S_k = Σ b_k(s), and what lies inside is folded as it is written: work and traffic grow with T, not with T². A factor
exp(q_s) is carried relative to the running maximum of q, so that decay over a long past neither overflows nor dies out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import and_

from einc.ir.domains import linear
from einc.ir.draft import unused
from einc.ir.finite import surely_finite
from einc.ir.folds import FOLDS
from einc.ir.indices import Extent, Index, distinct
from einc.ir.letters import letter, words
from einc.ir.primitives import POSITIVE
from einc.ir.programs import Definitions, Equation
from einc.ir.signs import sign
from einc.ir.sums import added, inverse, joined, product, reached
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    const,
    free_indices,
    substitute,
    transform,
    walk,
)
from einc.planning.analysis.cost import nominal
from einc.planning.analysis.prefix import Prefix, prefix
from einc.planning.analysis.signs import multiplied
from einc.planning.streaming.moments import exponent
from einc.planning.streaming.passes import CarriedFold, ChunkedScan, Streamed
from einc.planning.streaming.separate import Entangled, Pair, every_factor, separate
from einc.planning.streaming.stream import spelled
from einc.transforms.laws import ALL
from einc.transforms.laws.empty_folds import either
from einc.transforms.laws.simplify import simplify

LENGTH = 128  # points of a tile, unless its largest value would then be too large
_LARGEST = 1 << 22
_TINY = Apply("pow", (const(10), const(-300)))  # the least base of a power, so that its logarithm is a number
_COPIES = 4  # the highest power that is multiplied out

Product = tuple[tuple[Index, ...], tuple[Term, ...]]  # what it is summed over, and its factors


def chunked(equations: tuple[Equation, ...], virtual: frozenset[str], taken: frozenset[str],
            known: Mapping[str, Equation]) -> tuple[Streamed, bool] | None:
    """The pass in tiles with a carried state, and whether that costs less at usual extents; None where a fold does not
    come apart. `known` are the equations of the whole program."""
    folds = [e for e in equations if isinstance(e.body, Fold) and e.target not in virtual]
    found = [prefix(e.body, e.indices) for e in folds if isinstance(e.body, Fold)]
    first = found[0] if found else None
    if first is None or any(f is None or (f.over, f.along, f.shift, f.back) != _ends(first) for f in found):
        return None
    work = _Chunks(first, {e.target: e for e in equations}, virtual, taken, known)
    try:
        for equation, own in zip(folds, found, strict=True):
            assert own is not None
            work.fold(equation, own.rest)
    except Entangled:
        return None
    kept = [e for e in equations if e.target not in virtual]
    if any(first.along not in e.indices or (first.over in e.indices and e.target not in work.totals) for e in kept):
        return None
    return work.result(equations), work.pays()


def _ends(found: Prefix) -> tuple[object, ...]:
    return found.over, found.along, found.shift, found.back


@dataclass
class _Chunks:
    """The equations of a scan in pieces while they are made: those of one piece, and what each leaves to the next."""
    found: Prefix
    by: Mapping[str, Equation]
    virtual: frozenset[str]
    taken: frozenset[str]
    known: Mapping[str, Equation]
    carried: dict[str, Equation] = field(default_factory=dict)
    carries: list[CarriedFold] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)  # what is read of a carried value, and its name
    totals: dict[str, list[Equation]] = field(default_factory=dict)  # a fold's equation as those that stand for it
    near: int = 0  # elements inside a tile for each pair of points, and of the state for each tile
    far: int = 0

    def _held(self, term: Term) -> bool:
        """What moves with t; how many positions there are stands with it, so that the
        state is the same however many follow."""
        return self.found.along in free_indices(term) or (not self._moves(term) and any(
            isinstance(x, Size) and x.extent.sizes & self.found.over.set.extent.sizes for x in walk(term)))

    def _moves(self, term: Term) -> bool:
        return self.found.over in free_indices(term)

    def _fresh(self, stem: str) -> str:
        return unused(stem, self._names())

    def _names(self) -> set[str]:
        made = (e.target for found in self.totals.values() for e in found)
        return {*self.taken, *self.by, *self.carried, *self.before, *made, *words(self.by.values())}

    def fold(self, equation: Equation, rest: Term) -> None:
        fold = equation.body
        assert isinstance(fold, Fold)
        near = replace(equation, target=self._fresh(f"{equation.target}_near"), source="")
        self.totals[equation.target] = [near]
        terms = self._sums(equation, fold, rest) if FOLDS[fold.op].linear else [self._extreme(equation, fold, rest)]
        total = FOLDS[fold.op].merged(Read(near.target, near.axes), *terms)
        self.totals[equation.target].append(replace(equation, body=total))
        self.near += _volume({*equation.indices, *fold.bound} - {self.found.over, self.found.along})

    # sums

    def _sums(self, equation: Equation, fold: Fold, rest: Term) -> list[Term]:
        """What the tiles before give, one term for each product of the separated body. Raises Entangled."""
        parts: list[tuple[tuple[Index, ...], Pair]] = []
        others = tuple(b for b in fold.bound if b != self.found.over)
        for bound, parted in self._products(fold.body):
            body = simplify(spelled(joined(parted)), ALL)
            parts += [((*others, *bound), pair) for pair in separate(body, self._held, self._moves)]
        powers = any(exponent(product(inside))[0] is not None for _, (_, inside) in parts)
        less = len(parts) > 1 and any(_negative(f) for _, (outside, inside) in parts for f in (*outside, *inside))
        if less and not powers and self._is_distance([pair for _, pair in parts]):
            raise Entangled(fold.body)  # summed apart its terms would cancel each other's digits
        return [self._term(equation, bound, pair, rest) for bound, pair in parts]

    def _is_distance(self, parts: list[Pair]) -> bool:
        """Whether a difference may be small wherever its terms are large: x_t − x_s is, and (x_t − x_s)², but not y_t
        x_s − z_t, where what is taken off is a level of what the two points make together."""
        sides = [[Counter(f for g in side for f in every_factor(g)) for side in pair] for pair in parts]
        shared = [reduce(and_, (pair[n] for pair in sides)) for n in (0, 1)]
        own = {(any(map(self._held, out - shared[0])), any(map(self._moves, inner - shared[1])))
               for out, inner in sides}
        return (True, True) not in own or (False, False) in own or {(True, False), (False, True)} <= own

    def _term(self, equation: Equation, bound: tuple[Index, ...], pair: Pair, rest: Term) -> Term:
        """c(t) S over what both share, S relative to the maximum of its exponent. Adds the equations that it reads."""
        up, outer = exponent(product(pair[0]))
        down, inner = exponent(product(pair[1]))
        free = frozenset().union(*(free_indices(f) for f in pair[0]))
        shared = tuple(b for b in bound if b in free)
        own = (self.found.over, *(b for b in bound if b not in free))
        reference: str | None = None
        exists: Term = TRUE
        if any(map(self._infinite, outer)):  # it must not meet the 0 of a sum over nothing
            counted = (self.found.over, *(b for b in own[1:] if b in free_indices(rest)))
            points = self._carry(f"{equation.target}_points", Fold("sum", counted, rest, ONE))
            exists = Apply("lt", (ZERO, self._before(points)))
        infinite = up is not None and self._infinite(up)
        if down is not None and self._moves(down):
            over = tuple(b for b in own if b in free_indices(down))
            reference = self._carry(letter("max", equation.target, self._names()), Fold("max", over, rest, down))
            inner = (Apply("exp", (Apply("sub", (down, self._read(reference))),)), *inner)
            known = self._before(reference)
            exists = both(exists, reached(known) if infinite else TRUE)
            up = known if up is None else simplify(Apply("add", (up, known)), ALL)
        elif down is not None:
            inner = (Apply("exp", (down,)), *inner)
        if reference is None and infinite and up is not None:
            exists = both(exists, Apply("lt", (up, Const(math.inf))))
        summed = multiplied(inner, Definitions(self.by.values(), self.known))
        state = self._carry(f"{equation.target}_state", Fold("sum", own, rest, summed), reference)
        self.far += _volume({*free, *self.carried[state].indices} - {self.found.along})
        factors = (*outer, *((Apply("exp", (up,)),) if up is not None else ()))
        inside = tuple(f for f in factors if free_indices(f) & set(shared))
        outside = tuple(f for f in factors if f not in inside)
        # A result over nothing less one over nothing is no number, nor is the exponential of one times a sum of
        # nothing.
        within = free_indices(exists) & set(shared)
        term = joined((*outside, self._folded(equation, "sum", shared, joined((*inside, self._before(state))),
                                              exists if within else TRUE)))
        return term if within or exists == TRUE else Where(exists, term)

    def _infinite(self, term: Term) -> bool:
        """Whether a term may be infinite; powers of what is finite are not thought of."""
        known = Definitions(self.by.values(), self.known)
        parts = (x for x in walk(term) if isinstance(x, Read) or (isinstance(x, Apply) and x.op != "pow"))
        return not all(surely_finite(x, known) for x in parts if not any(_is_power(y) for y in walk(x)))

    def _folded(self, equation: Equation, op: str, shared: tuple[Index, ...], body: Term, domain: Term = TRUE) -> Term:
        """Adds an equation: the body, folded over the indices of both sides where the domain holds; returns a read."""
        if not shared:
            return body
        letters = free_indices(body) - set(shared)
        axes = tuple(Position(i) for i in equation.indices if i in letters)
        target = self._fresh(f"{equation.target}_far")
        self.totals[equation.target].append(Equation(target, axes, TRUE, Fold(op, shared, domain, body)))
        return Read(target, axes)

    # maxima

    def _extreme(self, equation: Equation, fold: Fold, rest: Term) -> Term:
        """max_{s, d}(c_{t d} + x_{s d}) = max_d(c_{t d} + max_s x_{s d}). Entangled where a term has c and x."""
        outer: list[Term] = []
        inner: list[Term] = []
        for outside, inside in separate(simplify(spelled(self._opened(fold.body)), ALL), self._held, self._moves):
            held, moves = any(map(self._held, outside)), any(map(self._moves, inside))
            if held and moves:
                raise Entangled(fold.body)
            (outer if held else inner).append(product((*outside, *inside)))
        if not inner or (outer and not FOLDS[fold.op].shifts):
            raise Entangled(fold.body)
        free = frozenset().union(*map(free_indices, outer))
        shared = tuple(b for b in fold.bound if b in free)
        own = tuple(b for b in fold.bound if b not in free)
        state = self._carry(letter(fold.op, equation.target, self._names()),
                            Fold(fold.op, own, rest, added(inner)))
        self.far += _volume({*free, *self.carried[state].indices} - {self.found.along})
        before = self._before(state)
        # Over nothing so far the fold is infinite, and may not meet what may be no number.
        whole, start = Apply("add", (*outer, before)) if outer else before, Const(FOLDS[fold.op].start)
        some = Apply("ne", (before, start)) if any(map(self._infinite, outer)) else TRUE
        return self._folded(equation, fold.op, shared, whole, some) if shared else either(some, whole, start)

    # carried values

    def _carry(self, stem: str, fold: Fold, reference: str | None = None) -> str:
        """The name of the carried value of a fold, which is shared by all that carry an equal fold. A new one is
        added to `carried` and `carries`, and to `before` under the name by which a tile reads its last value."""
        for target, known in self.carried.items():
            if known.body == fold:
                return target
        target = self._fresh(stem)
        order = [i for e in self.by.values() for i in (*e.indices, *(e.body.bound if isinstance(e.body, Fold) else ()))]
        free = free_indices(fold)
        axes = tuple(map(Position,
                         dict.fromkeys([*(i for i in order if i in free), *sorted(free, key=lambda i: i.name)])))
        self.carried[target] = Equation(target, axes, TRUE, fold)
        self.carries.append(CarriedFold(target, fold.op, reference))
        self.before[self._fresh(f"{target}_before")] = target
        return target

    def _read(self, target: str) -> Read:
        return Read(target, self.carried[target].axes)

    def _before(self, target: str) -> Read:
        name = next(n for n, t in self.before.items() if t == target)
        return Read(name, self.carried[target].axes)

    # opening what is computed inside the tile

    def _opened(self, term: Term) -> Term:
        """Virtual pointwise values in their readers' place."""

        def change(inner: Term) -> Term:
            equation = self.by.get(inner.tensor) if isinstance(inner, Read) and inner.tensor in self.virtual else None
            if equation is not None and isinstance(inner, Read) and not isinstance(equation.body, Fold):
                return self._opened(equation.at(inner.subs))
            return inner

        return transform(term, change)

    def _products(self, term: Term) -> list[Product]:
        """The term as a sum of products, virtual contractions opened where they are factors. Raises Entangled."""
        match term:
            case Read(tensor, subs) if tensor in self.virtual:
                equation = self.by[tensor]
                body = equation.at(subs)
                if not isinstance(body, Fold):
                    return self._products(body)
                if body.op != "sum" or body.domain != TRUE:
                    raise Entangled(term)
                return [((*body.bound, *bound), factors) for bound, factors in self._products(body.body)]
            case Apply("mul", args):
                parts = [self._products(arg) for arg in args]
                if sum(len(p) > 1 for p in parts) > 1:
                    raise Entangled(term)  # a product of sums: multiplied out it might cancel itself away
                out: list[Product] = [((), ())]
                for options in parts:
                    out = [_beside(p, q, {i.name for i in free_indices(term)}) for p in out for q in options]
                return out
            case Apply("add", args):
                return [p for x in args for p in self._products(x)]
            case Apply("sub", (x, y)):
                return self._products(x) + [(b, (const(-1), *f)) for b, f in self._products(y)]
            case Apply("neg", (x,)):
                return [(b, (const(-1), *f)) for b, f in self._products(x)]
            case Apply("div", (x, y)) if not (self._held(y) and self._moves(y)):
                return [_beside(((), (inverse(y),)), p, set()) for p in self._products(x)]
            case Apply("pow", (x, Const(Fraction() as power))) if (
                self._held(x) and self._moves(x) and power.denominator == 1 and 1 < power <= _COPIES
            ):
                return self._products(Apply("mul", (x,) * int(power)))
        return [((), (self._power(self._opened(term)),))]

    def _power(self, term: Term) -> Term:
        """x^n = sgn(x)^n exp(n log|x|), for a whole n that comes apart between the two."""

        def change(inner: Term) -> Term:
            """One power as an exponential, where its base is the point's own and its exponent splits; any other node
            as it is."""
            match inner:
                case Apply("pow", (base, count)) if (
                    not self._held(base) and not self._moves(base) and not isinstance(count, Const)
                ):
                    ends = self._split(count)
                    if ends is None:
                        return inner
                    if sign(base, self.by) == POSITIVE:
                        return Apply("exp", (Apply("mul", (Apply("add", ends), Apply("log", (base,)))),))
                    size = Apply("log", (Apply("max", (Apply("abs", (base,)), _TINY)),))
                    signum = Apply("add", (ONE, Where(Apply("lt", (base, const(0))), const(-2))))
                    signs = tuple(Apply("pow", (signum, end)) for end in ends)
                    return Apply("mul", (Apply("exp", (Apply("mul", (Apply("add", ends), size)),)), *signs))
            return inner

        return transform(term, change)

    def _split(self, count: Term) -> tuple[Term, Term] | None:
        """A whole linear form as what depends on the point and what does not."""
        form = linear(count)
        if form is None or not all(isinstance(a, Position) and c.constant is not None for a, c in form.atoms):
            return None
        ends: tuple[list[Term], list[Term]] = ([_number(form.constant)], [ZERO])
        for atom, c in form.atoms:
            if c.constant is None or c.constant.denominator != 1:
                return None
            ends[self._moves(atom)].append(Apply("mul", (const(c.constant), atom)))
        if any(p < 0 or c.denominator != 1 for m, c in form.constant.terms for _, p in m or (("", 0),)):
            return None
        return simplify(Apply("add", tuple(ends[0]))), simplify(Apply("add", tuple(ends[1])))

    # the whole

    def length(self) -> int:
        """Points of a tile, so that its largest value is not too large."""
        pair = {self.found.over, self.found.along}
        widest = max(
            (_volume(set(e.indices) - pair) for e in self.by.values() if pair <= set(e.indices)),
            default=1,
        )
        return max(16, 1 << int(math.log2(max(1, min(LENGTH, math.isqrt(_LARGEST // max(1, widest)))))))

    def pays(self) -> bool:
        """Whether the state costs less than the pairs that it spares, at nominal extents. Changes `self.near`."""
        for equation in self.by.values():
            if isinstance(equation.body, Fold) and equation.target in self.virtual:
                self.near += _volume({*equation.indices, *equation.body.bound} - {self.found.over, self.found.along})
        pairs = nominal(self.found.over.set) // 2
        return 2 * self.far + self.length() * self.near < pairs * self.near

    def result(self, equations: tuple[Equation, ...]) -> Streamed:
        made = [x for e in equations for x in self.totals.get(e.target, [e])]
        first = {key for e in self.carried.values() for key in e.reads}  # what is carried is made of these
        for equation in reversed(made):
            first |= equation.reads if equation.target in first else frozenset()
        order = (*(e for e in made if e.target in first), *self.carried.values(),
                 *(e for e in made if e.target not in first))
        chunks = ChunkedScan(self.found, self.length())
        return Streamed(order, None, tuple(self.carries), before=dict(self.before), chunks=chunks)


def _beside(p: Product, q: Product, taken: set[str]) -> Product:
    """The product of two products; what both are summed over gets another letter, which is none of those taken."""
    bound = distinct(q[0], {i.name for i in p[0]} | {i.name for f in p[1] for i in free_indices(f)} | taken)
    by: dict[Index, Term] = dict(zip(q[0], map(Position, bound), strict=True))
    return (*p[0], *bound), (*p[1], *(substitute(f, by) for f in q[1]))


def _number(extent: Extent) -> Term:
    constant = extent.constant
    return Size(extent) if constant is None else const(constant)


def _negative(factor: Term) -> bool:
    return (isinstance(factor, Const) and factor.value < 0) or (isinstance(factor, Apply) and factor.op == "neg")


def _is_power(term: Term) -> bool:
    return isinstance(term, Apply) and term.op == "pow"


def _volume(indices: set[Index] | frozenset[Index]) -> int:
    return math.prod(nominal(i.set) for i in indices)

