"""What another model must agree on with the part of a program that it runs: which tensor
is which, what is read, what multiplies.

Non-goals: what the other model says, and how it says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.ir.domains import difference
from einc.ir.draft import unused
from einc.ir.indices import WIDTH, Index, IndexSet, size
from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Equation, TypedProgram, local
from einc.ir.terms import (
    FALSE,
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    bound_indices,
    children,
    conjuncts,
    const,
    reads,
    rebuild,
    walk,
)
from einc.transforms.serving.cached import Refused
from einc.transforms.serving.core import Middle, reached

Way = tuple[tuple[Term, bool], ...]  # factors, and whether each stands above the line


@dataclass(frozen=True)
class Facts:
    """`seen` gives 1 where a new position may read another, `scale` what a new value is
    multiplied by; both know sizes alone."""

    new: str
    met: str  # the past that is summed away with what is new
    taken: str  # the past that the result is made of
    seen: TypedProgram
    scale: TypedProgram
    absolute: bool  # whether it matters where positions stand, and not how far they are apart alone
    scaling: frozenset[str]  # the sizes that the scale depends on
    counted: tuple[str, str]  # the sizes that count the new positions and those before
    asked: frozenset[str]  # inputs and sizes that neither these tensors nor the spec give
    past: frozenset[str]  # inputs besides these that are given for all positions, those of the past too


def facts(middle: Middle) -> Facts:
    """The facts of a part that makes one result of one new tensor and two of the past.
    Refused where it is made of others."""
    program, name = middle.program, f"`{middle.program.name}`"
    if len(middle.new) != 1 or len(middle.whole) != 2:
        of, past = (" and ".join(f"`{k}`" for k in keys) or "nothing" for keys in (middle.new, middle.whole))
        raise Refused(f"{name} makes `{middle.result}` of {of} of the new positions and {past} of the past",
                      "a model gives one tensor with features of new positions and two of the past: name what it gives "
                      "besides, `register(…, x=\"x\")` for a tensor `x` of the spec")
    taken = _taken(program, middle)
    if len(taken) != 1:
        raise Refused(f"{name} does not tell which of {' and '.join(f'`{k}`' for k in middle.whole)} its result is a "
                      f"sum of",
                      "write the result as a sum over one of them")
    (value,), (new,) = taken, middle.new
    (key,) = set(middle.whole) - taken
    here, whole = (next(s.set for s in program.tensors[k].slots if s.set.cls == "time") for k in (new, value))
    (count,), (past,) = here.extent.sizes, whole.extent.sizes - here.extent.sizes
    scale = _scale(program, new, key)
    scaling = frozenset(n for t in walk(scale.equations[0].body) if isinstance(t, Size) for n in t.extent.sizes)
    seen = _seen(program, value)
    return Facts(new, key, value, seen, scale, _absolute(program, here, whole, past), scaling,
                 (count, past), _asked(program, (new, key, value), seen), middle.further)


def _taken(program: TypedProgram, middle: Middle) -> frozenset[str]:
    """The tensors of the past whose features go unsummed to the result."""
    by, found = program.by_target, set[str]()
    (_, result), = program.outputs
    stack = [(result, n) for n, s in enumerate(program.tensors[result].slots) if s.set.cls in WIDTH]
    while stack:
        key, n = stack.pop()
        if key in middle.whole:
            found.add(key)
        elif key in by:
            axis = by[key].axes[n]
            stack += [(r.tensor, m) for r in reads(by[key].body) for m, sub in enumerate(r.subs) if sub == axis]
    return frozenset(found)


def _alone(program: TypedProgram, name: str, axes: tuple[Index, ...], body: Term) -> TypedProgram:
    """A program that returns one tensor, made of no data."""
    tensor = local(name, axes)
    made = Equation(name, tuple(map(Position, axes)), TRUE, body)
    return replace(program, name=name, tensors={name: tensor}, equations=(made,), outputs=((name, name),),
                   loops=program.repeats)


def _seen(program: TypedProgram, value: str) -> TypedProgram:
    """Where the sums of a tensor run, as far as no data restricts them: axes of heads if they differ, new positions,
    all. Raises Refused."""
    found: dict[tuple[Index, ...], list[Term]] = {}
    (over_all,) = (s.set for s in program.tensors[value].slots if s.set.cls == "time")
    same = {value, *(k for k in reached(program, frozenset({value}))
                     if any(s.set == over_all for s in program.tensors[k].slots))}
    for equation in program.equations:
        axes = tuple(axis.index for axis in equation.axes
                     if isinstance(axis, Position) and axis.index.set.cls in ("head", "time"))
        for fold in walk(equation.body):
            if isinstance(fold, Fold) and any(r.tensor in same for r in reads(fold.body)):
                over = [b for b in fold.bound if b.set.cls == "time"]
                parts = conjuncts(both(equation.domain, fold.domain))
                free = both(*(p for p in parts if not any(reads(p))))
                found.setdefault((*axes, *over), []).append(free)
    if len(found) != 1 or sum(i.set.cls == "time" for i in next(iter(found))) != 2:
        raise Refused(f"`{program.name}` reads `{value}` in more than one way", "sum over it once")
    ((axes, ways),) = found.items()
    where = ways[0] if len(set(ways)) == 1 else Apply("or", tuple(dict.fromkeys(ways)))
    used = {t.index for t in walk(where) if isinstance(t, Position)}
    body = Where(where, ONE) if where not in (TRUE, FALSE) else ONE
    shown = sorted((i for i in axes if i.set.cls == "time" or i in used), key=lambda i: i.set.cls)
    return _alone(program, "seen", tuple(shown), body)


def _scale(program: TypedProgram, new: str, past: str) -> TypedProgram:
    """The constants that a new value is multiplied by, with the past that it meets, up to a function that is not
    linear; one that is 0 at 0 and has a slope there counts as that slope: the scale is that of small values. Raises
    Refused."""
    far = frozenset({past, *reached(program, frozenset({past}))})
    ways = set(_ways(program, new, far))
    if not all(met for _, met in ways):
        raise Refused(f"`{program.name}` takes a function of `{new}` before it meets `{past}`, and a model scales "
                      f"their product",
                      f"make what `{past}` meets in an equation of its own, from what each position has")
    found = {_product(way) for way, _ in ways}
    if len(found) != 1:
        raise Refused(f"`{program.name}` multiplies `{new}` by one number here and by another there",
                      "multiply it once")
    return _alone(program, "scale", (), found.pop())


def _product(factors: Way) -> Term:
    made: Term = ONE
    for factor, above in factors:
        made = Apply("mul" if above else "div", (made, factor))
    return made


def _ways(program: TypedProgram, key: str, far: frozenset[str]) -> Iterator[tuple[Way, bool]]:
    """What a tensor is multiplied by on each way on, and whether it meets the past there."""
    for equation in program.equations:
        for way, met, linear in _inside(equation.body, key, far):
            further = list(_ways(program, equation.target, far)) if linear else []
            yield from [((*way, *more), met or then) for more, then in further] or [(way, met)]


def _inside(term: Term, key: str, far: frozenset[str]) -> Iterator[tuple[Way, bool, bool]]:
    """The ways from the reads of a tensor to the root of a term, whether they meet the
    past, whether the root is linear."""
    if isinstance(term, Read) and term.tensor == key:
        yield (), key in far, True
    kids = children(term)
    for n, kid in enumerate(kids):
        others = [other for m, other in enumerate(kids) if m != n]
        for way, met, linear in _inside(kid, key, far):
            if not linear:
                yield way, met, False
                continue
            match term:
                case Apply("mul"):
                    yield ((*way, *((k, True) for k in others if _known(k))), met
                           or any(_meets(k, far) for k in others), True)
                case Apply("div") if n == 0:
                    yield ((*way, (kids[1], False)) if _known(kids[1]) else way), met, True
                case Apply("add" | "sub" | "neg") | Where() | Fold("sum"):
                    yield way, met, True
                case Apply(op) if slope := PRIMITIVES[op].tangent:
                    yield (*way, (const(slope), True)) if slope != 1 else way, met, True
                case _:
                    yield way, met, False


def _meets(term: Term, far: frozenset[str]) -> bool:
    return any(r.tensor in far for r in reads(term))


def _known(term: Term) -> bool:
    return not any(isinstance(t, Read | Position | Fold) for t in walk(term))


def _absolute(program: TypedProgram, here: IndexSet, whole: IndexSet, past: str) -> bool:
    """Whether a value changes when all positions move on together: their distances alone stay the same."""
    step = size(unused("step", program.sizes.keys() | whole.extent.sizes))

    def moved(term: Term) -> Term:
        """The term with all positions and the past one step on; a comparison or difference that does not change is
        left as it is."""
        match term:
            case Position(index) if index.set == whole:
                return Apply("add", (term, Size(step)))
            case Size(extent) if past in extent.sizes:
                return Size(extent.put({past: size(past) + step}))
            case Read(key, subs):
                own = [s.set in (here, whole) for s in program.tensors[key].slots]
                return Read(key, tuple(sub if plain else moved(sub) for plain, sub in zip(own, subs, strict=True)))
        made = rebuild(term, tuple(map(moved, children(term))))
        match term:
            case Apply("le" | "lt" | "eq" | "ne", (left, right)) if isinstance(made, Apply):
                same = (difference(*made.args), difference(left, right))
            case Apply("add" | "sub" | "neg"):
                same = (difference(const(0), made), difference(const(0), term))
            case _:
                return made
        return term if same[0] is not None and same[0] == same[1] else made

    return any(moved(term) != term for e in program.equations for term in (e.domain, e.body))


def _asked(program: TypedProgram, given: tuple[str, ...], seen: TypedProgram) -> frozenset[str]:
    """The inputs besides those given, and the sizes that the shape of none of these tells, or none of the given ones
    where they say what is `seen`.
    """
    inputs = {t.key for t in program.inputs()}
    told, first = ({n for key in keys for s in program.tensors[key].slots for n in s.set.extent.sizes}
                   | program.sizes.keys() for keys in (inputs, given))
    return frozenset(inputs - set(given) | (_sizes(program) - told) | (_sizes(seen) - first))


def _sizes(program: TypedProgram) -> set[str]:
    """The sizes that the terms of a program have, and those of the sets over which it sums."""
    terms = [t for e in program.equations for root in (e.domain, e.body) for t in walk(root)]
    extents = [t.extent for t in terms if isinstance(t, Size)] + [i.set.extent for t in terms for i in bound_indices(t)]
    return {n for extent in extents for n in extent.sizes}
