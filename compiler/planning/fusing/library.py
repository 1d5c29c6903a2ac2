"""Kernels that a library has, each known by the equations it computes.

A row is a spec and a call. Both the row's equations and a kernel's are taken as the pass that is made of them, so that
every spelling of one thing is the same, and each value is compared where it is read. They are equal when indices, sizes
and tensors of the one can be named as those of the other. Indices that all operands and results share, and the row
lacks, are batches. Nothing is known here of what a row computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from einc.ir.choices import Choices, LibraryKernel
from einc.ir.elements import RANGED, REAL
from einc.ir.indices import Extent, Index
from einc.ir.plan import Buffer, Call, Contract, Kernel, Leaf, LibraryCall, makes, summed, takes
from einc.ir.primitives import unsaid
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors, product
from einc.ir.terms import (
    ONE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    children,
    reads,
    substitute,
    transform,
)
from einc.planning.analysis.signs import known_of
from einc.planning.analysis.storage import buffers_of, with_parts
from einc.planning.contractions.materialise import peeled
from einc.planning.fusing.fuse import FusedGroup, groups
from einc.planning.fusing.grouped_axes import GroupedAxis
from einc.planning.fusing.onepass import one_pass
from einc.planning.streaming.passes import Streamed
from einc.transforms.laws.simplify import is_number, simplify

_ORDERS = 3  # arguments of a sum or a product that are tried in every order


def row(name: str, program: NormalProgram, call: str, where: str, shared: str = "", shares: tuple[str, ...] = (),
        flat: bool = False, repeats: bool = False, operands: Mapping[str, str] | None = None,
        results: tuple[str, ...] | None = None, pieces: bool = False) -> LibraryKernel:
    """A row from its spec: one kernel, and what it alone reads. `operands` are the words of the call for its inputs,
    `results` what it gives, in order: its only output where nothing is said.
    """
    program = with_parts(peeled(program))
    made = results or tuple(key for _, key in program.outputs)
    (group,) = (g for g in groups(program, ordered=True) if g.virtual)
    inside = one_pass(program, known_of(program), group, frozenset(made), Choices(ordered=True)).equations
    beside = tuple(e for e in program.equations if e.target not in {x.target for x in group.equations})
    buffers = buffers_of(program)
    inputs = tuple((t.key, (operands or {}).get(t.key, t.key)) for t in program.inputs())
    elements = {key: buffers[key].element for key in (*made, *(key for key, _ in inputs))}
    told = _numbers_in_front(inside, frozenset(made)), _numbers_in_front(beside)
    library = LibraryCall(name, call, where, flat, pieces)
    return LibraryKernel(library, *told, inputs, made, elements, shared, shares, repeats)


def called(choices: Choices, kernel: Kernel, passed: Streamed, group: FusedGroup, program: NormalProgram,
           buffers: Mapping[str, Buffer], runs: Mapping[str, GroupedAxis]) -> Kernel | Call:
    """The kernel of a pass, or the call of the first row that computes the same."""
    rows = [r for r in choices.rows if r.results == len(kernel.stores)] if kernel.stream is not None else []
    if not rows:
        return kernel
    stored = frozenset(s.buffer for s in kernel.stores)
    inside = _numbers_in_front(passed.equations, stored)
    mine = {e.target for e in group.equations}
    beside = _numbers_in_front(e for e in program.equations if e.target not in mine)
    made = {k: r for k, run in runs.items() if (r := run.within(group.equations)) is not None}
    for found in (row.kernel() for row in rows):
        theirs = {e.target: e for e in inside}
        names = _same(found, theirs, {e.target: e for e in beside}, stored)
        call = None if names is None else _call(found, names, kernel, theirs, buffers, made)
        if call is not None:
            return call
    return kernel


def gathered(steps: list[Leaf], kept: frozenset[str]) -> list[Leaf]:
    """The steps; what only the steps of a call read, and the call itself does not, is made with them."""
    out = list(steps)
    for call in [s for s in steps if isinstance(s, Call)]:
        now: Call = call
        while (one := next((s for s in out if _is_only_for(s, now, out, kept)), None)) is not None:
            assert isinstance(one, Contract | Kernel)
            inside = (one, *now.steps)
            grown = replace(now, bodies=(inside,), cost=summed(s.cost for s in inside))
            out = [grown if s is now else s for s in out if s is not one]
            now = grown
    return out


def _is_only_for(step: Leaf, call: Call, steps: Iterable[Leaf], kept: frozenset[str]) -> bool:
    if not isinstance(step, Contract | Kernel) or not makes(step) & takes(call) or makes(step) & kept:
        return False
    others = (s for s in steps if s is not step and s is not call)
    read = frozenset(call.reads).union(*map(takes, others))
    return not makes(step) & read


# equations


def _numbers_in_front(equations: Iterable[Equation], kept: frozenset[str] = frozenset()) -> tuple[Equation, ...]:
    """The equations with numbers in front of their sums, and nothing said of values."""
    told = [replace(e, body=unsaid(e.body)) for e in equations]
    count: dict[str, int] = {}
    for read in (r for e in told for t in (e.body, e.domain) for r in reads(t)):
        count[read.tensor] = count.get(read.tensor, 0) + 1
    once = {e.target: e for e in told if count.get(e.target) == 1 and e.target not in kept and isinstance(e.body, Fold)}
    return tuple(replace(e, body=_scaled(e.body, once)) for e in told)


def _scaled(body: Term, once: Mapping[str, Equation]) -> Term:
    """A number times a sum as the number and the sum; the sum may be an equation that nothing else reads."""
    above, below, core = _numbers(body)
    if isinstance(core, Read) and core.tensor in once and core.subs == once[core.tensor].axes and (above or below):
        core = once[core.tensor].body
    if isinstance(core, Fold) and core.op == "sum":
        more, less, inner = _numbers(core.body)
        above, below, core = above + more, below + less, replace(core, body=inner)
    else:
        return body
    number = Apply("div", (product(above), product(below))) if below else product(above)
    return core if number == ONE else Apply("mul", (number, core))


def _numbers(term: Term) -> tuple[tuple[Term, ...], tuple[Term, ...], Term]:
    """The numbers that multiply and divide a product, and the rest of it."""
    match term:
        case Apply("div", (over, under)):
            (above, below, core), (less, more, rest) = _numbers(over), _numbers(under)
            return above + more, below + less, core if rest == ONE else Apply("div", (core, rest))
        case Apply("mul", args):
            parts = [_numbers(a) for a in args]
            above, below = tuple(x for a, _, _ in parts for x in a), tuple(x for _, b, _ in parts for x in b)
            return above, below, product(tuple(x for _, _, core in parts for x in factors(core)))
        case _ if is_number(term):
            return (() if term == ONE else (term,)), (), ONE
    return (), (), term


def _in_front(body: Term) -> tuple[Term, Term]:
    """The number before a sum, and the sum."""
    if isinstance(body, Apply) and body.op == "mul" and len(body.args) == 2 and is_number(body.args[0]):
        return body.args[0], body.args[1]
    return ONE, body


# what is the same


@dataclass(frozen=True)
class _Names:
    """What each index and tensor of a row is in the program: a tensor with the slots of its axes, and the
    letters of the rest. `sizes` are pairs still to be held against each other, `scales` the numbers before
    results that are the same but for these.
    """

    indices: Mapping[Index, Index] = field(default_factory=dict)
    tensors: Mapping[str, tuple[str, tuple[int, ...], tuple[Term, ...]]] = field(default_factory=dict)
    results: Mapping[str, tuple[str, tuple[int, ...], tuple[Index, ...]]] = field(default_factory=dict)
    scales: tuple[tuple[str, Term, Term], ...] = ()
    sizes: frozenset[tuple[Extent, Extent]] = frozenset()

    def index(self, a: Index, b: Index) -> _Names | None:
        if a in self.indices or b in self.indices.values():
            return self if self.indices.get(a) == b else None
        sizes = self.sizes | {(a.set.extent, b.set.extent)}
        return replace(self, indices={**self.indices, a: b}, sizes=sizes) if a.set.start == b.set.start else None

    def known(self) -> dict[str, Extent] | None:
        """What the sizes of the row are in the program, if they can be that."""
        known: dict[str, Extent] = {}
        for a, b in self.sizes:
            (name, *more) = a.sizes or ("",)
            if not more and a.put({name: b}) == b and known.setdefault(name, b) != b:
                return None
        return known if all(a.put(known) == b for a, b in self.sizes) else None


@dataclass(frozen=True)
class _Sides:
    """The equations of a row and of a program by their targets: those of the kernel, and those that stand beside it."""

    mine: Mapping[str, Equation]
    theirs: Mapping[str, Equation]
    my_others: Mapping[str, Equation]
    their_others: Mapping[str, Equation]

    def term(self, a: Term, b: Term, names: _Names) -> Iterator[_Names]:
        """Every extension of `names` under which term `a` of the row is term `b` of the program; none where they
        differ. Factors and addends may stand in another order, up to a number of arguments, and bound indices in
        any."""
        match a, b:
            case Position(i), Position(j):
                yield from [n] if (n := names.index(i, j)) is not None else []
            case Size(x), Size(y):
                yield replace(names, sizes=names.sizes | {(x, y)})
            case Read(x, subs), Read(y, others):
                yield from self.read(x, subs, y, others, names)
            case Fold(op, bound, domain, body), Fold(op2, bound2, domain2, body2) if (
                op == op2 and len(bound) == len(bound2)
            ):
                outer = {i: j for i, j in names.indices.items() if i not in bound and j not in bound2}
                for letters in permutations(bound2):
                    positions = zip(map(Position, bound), map(Position, letters), strict=True)
                    inner = replace(names, indices=outer)
                    for made in self.every([*positions, (domain, domain2), (body, body2)], inner):
                        back = {i: j for i, j in made.indices.items() if i not in bound}
                        yield replace(made, indices={**back, **names.indices})
            case Apply(op, args), Apply(op2, args2) if op == op2 and len(args) == len(args2):
                orders = permutations(args2) if op in ("add", "mul") and len(args) <= _ORDERS else [args2]
                for order in orders:
                    yield from self.every(list(zip(args, order, strict=True)), names)
            case Where(condition, then), Where(condition2, then2):
                yield from self.every([(condition, condition2), (then, then2)], names)
            case _ if a == b and not children(a):
                yield names

    def every(self, pairs: list[tuple[Term, Term]], names: _Names) -> Iterator[_Names]:
        if not pairs:
            yield names
            return
        for inner in self.term(*pairs[0], names):
            yield from self.every(pairs[1:], inner)

    def read(self, x: str, subs: tuple[Term, ...], y: str, others: tuple[Term, ...], names: _Names) -> Iterator[_Names]:
        for mine, theirs in ((self.mine, self.theirs), (self.my_others, self.their_others)):
            if x in mine:
                if y in theirs:
                    (domain, body), (domain2, body2) = _at(mine[x], subs), _at(theirs[y], others)
                    yield from self.every([(domain, domain2), (body, body2)], names)
                return
        if y not in self.theirs:
            yield from _operand(names, x, subs, y, others)


def _at(equation: Equation, subs: tuple[Term, ...]) -> tuple[Term, Term]:
    """The domain and the body of a value where it is read."""
    by = dict(zip(equation.indices, subs, strict=True)) if len(equation.indices) == len(subs) else {}
    return substitute(equation.domain, by), substitute(equation.body, by)


def _same(found: LibraryKernel, theirs: Mapping[str, Equation], others: Mapping[str, Equation],
          stored: frozenset[str]) -> _Names | None:
    """The names in the program for those of a library's row, where the equations of both agree; None where they do
    not. `stored` are results that the kernel has to store."""
    mine = {e.target: e for e in found.equations}
    sides = _Sides(mine, theirs, {e.target: e for e in found.beside}, others)

    def every(pairs: list[tuple[str, str]], names: _Names) -> Iterator[_Names]:
        """Every extension of `names` under which the results pair up as listed, up to scales in front of them."""
        if not pairs:
            yield names
            return
        (x, y), *rest = pairs
        a, b = mine[x], theirs[y]
        (number, core), (number2, core2) = _in_front(a.body), _in_front(b.body)
        for made in sides.every([(a.domain, b.domain), (core, core2)], replace(names, indices={})):
            same = next(sides.term(number, number2, made), None)
            made = same or replace(made, scales=(*made.scales, (y, number, number2)))
            letters = [made.indices.get(i) for i in a.indices]
            if all(isinstance(axis, Position) for axis in b.axes) and all(i in b.indices for i in letters):
                order = tuple(b.indices.index(i) for i in letters if i is not None)
                batch = tuple(i for i in b.indices if i not in letters)
                yield from every(rest, replace(made, results={**made.results, x: (y, order, batch)}))

    orders = (list(zip(found.results, order, strict=True)) for order in permutations(sorted(stored)))
    return next((n for pairs in orders for n in every(pairs, _Names()) if n.known() is not None), None)


def _operand(names: _Names, x: str, subs: tuple[Term, ...], y: str, others: tuple[Term, ...]) -> Iterator[_Names]:
    """A tensor from outside: it has the row's indices, and perhaps batches, always in the same slots."""
    letters = [s.index for s in others if isinstance(s, Position)]
    free = [s.index for s in subs if isinstance(s, Position)]
    if len(set(letters)) < len(others) or len(free) < len(subs) or len(free) > len(letters):
        return
    known = names.tensors.get(x)
    for places in permutations(range(len(letters)), len(free)):
        entry = (y, places, tuple(s for n, s in enumerate(others) if n not in places))
        made: _Names | None = replace(names, tensors={**names.tensors, x: entry}) if known in (None, entry) else None
        for a, place in zip(free, places, strict=True):
            made = made.index(a, letters[place]) if made is not None else None
        if made is not None:
            yield made


# the call


def _call(found: LibraryKernel, names: _Names, kernel: Kernel, theirs: Mapping[str, Equation],
          buffers: Mapping[str, Buffer], runs: Mapping[str, GroupedAxis]) -> Call | None:
    """The call, where everything that the row lacks is a batch of all operands and of the results."""
    _, _, batch = names.results[found.results[0]]
    operands: list[tuple[str, str, tuple[int, ...]]] = []
    for key, word in found.inputs:
        buffer, places, rest = names.tensors[key]
        if (len(rest) != len(batch) or {*rest} != {*map(Position, batch)}
            or buffers[buffer].element != found.elements[key]):
            return None
        slots = [n for n in range(len(rest) + len(places)) if n not in places]
        operands.append((word, buffer, (*(slots[rest.index(Position(i))] for i in batch), *places)))
    results: list[tuple[str, tuple[int, ...]]] = []
    for key in found.results:
        buffer, places, more = names.results[key]
        kept = buffers[buffer].element
        if {*more} != {*batch} or (REAL if kept == RANGED else kept) != found.elements[key]:
            return None
        indices = theirs[buffer].indices
        there = [*batch, *(indices[n] for n in places)]
        results.append((buffer, tuple(there.index(i) for i in indices)))
    mine = {word: runs[buffer] for word, buffer, _ in operands if buffer in runs}
    text, sizes = _spoken(found, mine, batch), names.known()
    if text is None or sizes is None:
        return None
    flat = found.library.flat and all(order == tuple(sorted(order)) for _, order in results)
    asked = tuple((name, extent) for name, extent in sorted(sizes.items()) if f"{{{name}}}" in found.library.where)
    made = [buffer for buffer, _ in results]
    scales = tuple((made.index(y), simplify(Apply("div", (here, _sized(number, sizes)))))
                   for y, number, here in names.scales)
    plain = text == found.library.call
    again = tuple((word, batch.index(run.index), run.count) for word, run in mine.items()) if plain else ()
    return Call(
        reads=tuple(buffer for _, buffer, _ in operands), writes=tuple(buffer for buffer, _ in results),
        bodies=((kernel,),),
        cost=kernel.cost, library=replace(found.library, call=text, flat=flat),
        operands=tuple((word, order) for word, _, order in operands), batch=tuple(i.set.extent for i in batch),
        results=tuple(order for _, order in results), sizes=asked, scales=scales, repeats=again)


def _sized(number: Term, sizes: Mapping[str, Extent]) -> Term:
    return transform(number, lambda t: Size(t.extent.put(sizes)) if isinstance(t, Size) else t)


def _spoken(found: LibraryKernel, runs: Mapping[str, GroupedAxis], batch: tuple[Index, ...]) -> str | None:
    """The words of the call; None where it cannot be made of operands that runs share."""
    if not runs:
        return found.library.call
    along = {run.index for run in runs.values()}
    if found.repeats and along <= {*batch}:
        return found.library.call
    if not found.shared or runs.keys() != set(found.shares) or along != {*batch[-1:]}:
        return None
    counts = {run.count for run in runs.values()}
    return found.shared.replace("{runs}", counts.pop()) if len(counts) == 1 else None
