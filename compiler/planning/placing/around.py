"""Hops: the parts that ranks have of some tensors come to each rank one after the other, and what it makes of each is
merged by the folds' own rules.

Which parts a rank needs follows from the domains: from the least and the greatest number that each letter may have in
the rank's own block and in the block that comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import cache

from einc.ir.folds import FOLDS
from einc.ir.indices import Index, number
from einc.ir.programs import Equation, NormalProgram, Tensor
from einc.ir.sums import factors, product, reached
from einc.ir.terms import (
    FALSE,
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    both,
    const,
    walk,
)
from einc.planning.placing.states import Share

Ends = tuple[Term | None, Term | None]  # the least and the greatest value, None where that is not known
_NONE: Ends = (None, None)
_FLIPPED = {"le": "lt", "lt": "le"}  # what holds where the other does not, the sides turned around


def meets(program: NormalProgram) -> Term:
    """Whether the block that comes has points for what is made of it: a condition on the places of both blocks. It
    holds where that is not known.
    """
    found = [points(program.by_target[key], program) for _, key in program.outputs]
    unique = list(dict.fromkeys(found))
    return unique[0] if len(unique) == 1 else TRUE if TRUE in unique else Apply("or", tuple(unique))


def points(equation: Equation, program: NormalProgram) -> Term:
    """When an equation may make anything but what a fold of nothing is: where it has points, and where each sum of
    which it sums a multiple has.
    """
    body = equation.body
    if not isinstance(body, Fold):
        return TRUE
    inner = [program.by_target.get(x.tensor) for x in factors(body.body) if isinstance(x, Read)]
    sums = [e for e in inner if e is not None and isinstance(e.body, Fold) and e.body.op == "sum"]
    return both(possible(both(equation.domain, body.domain)), *(points(e, program) for e in sums if body.op == "sum"))


def of_blocks(condition: Term, places: Set[str], others: Set[str]) -> Term:
    """What a condition says of the places of two blocks, whatever the places on other axes of the mesh are: it may hold
    where it names one of these, and where it names neither block.
    """
    match condition:
        case Apply("and", args):
            return both(*(of_blocks(x, places, others) for x in args))
        case Apply("or", args):
            found = [of_blocks(x, places, others) for x in args]
            return TRUE if TRUE in found else Apply("or", tuple(found))
        case Truth():
            return condition
    named = {name for x in walk(condition) if isinstance(x, Size) for name in x.extent.sizes}
    return condition if named & places and not named & others else TRUE


def possible(condition: Term) -> Term:
    """Whether a condition may hold for some numbers of its letters."""
    match condition:
        case Apply("and", args):
            return both(*map(possible, args))
        case Apply("or", args):
            found = [possible(x) for x in args]
            return TRUE if TRUE in found else Apply("or", tuple(found))
        case Apply("not", (Apply("le" | "lt" as op, (a, b)),)):
            return possible(Apply(_FLIPPED[op], (b, a)))
        case Apply("le" | "lt" as op, (a, b)):
            low, high = ends(a)[0], ends(b)[1]
            return TRUE if low is None or high is None else Apply(op, (low, high))
        case Apply("eq", (a, b)):
            return both(possible(Apply("le", (a, b))), possible(Apply("le", (b, a))))
        case Truth(False):
            return FALSE
    return TRUE


def ends(term: Term) -> Ends:
    """The least and the greatest value of a number whose letters run over all that they may."""
    match term:
        case Const() | Size():
            return term, term
        case Position(index):
            return const(index.set.start), Size(index.set.extent + number(index.set.start - 1))
        case Apply("add" | "min" | "max" as op, args):
            return _each(op, [ends(x) for x in args])
        case Apply("floor" | "ceil" as op, (x,)):
            return _each(op, [ends(x)])
        case Apply("neg", (x,)):
            low, high = ends(x)
            return _negative(high), _negative(low)
        case Apply("sub", (a, b)):
            return ends(Apply("add", (a, Apply("neg", (b,)))))
        case Apply("mul", args) | Apply("div", args):
            return _scaled(term.op, args)
    return _NONE


def _each(op: str, found: list[Ends]) -> Ends:
    """The ends of what grows with each of its operands."""
    def side(ends: list[Term | None]) -> Term | None:
        """One end; None where that of an operand is not known."""
        there = [x for x in ends if x is not None]
        return Apply(op, tuple(there)) if len(there) == len(ends) else None

    return side([low for low, _ in found]), side([high for _, high in found])


def _scaled(op: str, args: tuple[Term, ...]) -> Ends:
    """The ends of a number times, or through, one that has a sign; nothing is known where none has."""
    fixed = [x for x in args if isinstance(x, Const | Size)]
    others = [x for x in args if not isinstance(x, Const | Size)]
    if len(others) != 1 or (op == "div" and args[0] is not others[0]):
        return _NONE
    signs = [_sign(x) for x in fixed]
    if 0 in signs:
        return _NONE
    low, high = ends(others[0])
    low, high = (low, high) if math.prod(signs) > 0 else (high, low)
    return (None if low is None else Apply(op, tuple(low if x is others[0] else x for x in args)),
            None if high is None else Apply(op, tuple(high if x is others[0] else x for x in args)))


def _sign(term: Term) -> int:
    """1 of a positive number, -1 of a negative one, 0 where that is not known."""
    match term:
        case Const(value):
            return (value > 0) - (value < 0)
        case Size(extent):
            return int(bool(extent.terms) and all(c > 0 for _, c in extent.terms))
    return 0


def _negative(term: Term | None) -> Term | None:
    return None if term is None else Apply("neg", (term,))


# what hops made, merged


def merged(shares: Iterable[tuple[Tensor, Share]], program: NormalProgram, naming: Callable[[str], str],
           ) -> NormalProgram:
    """The program that merges what a hop made with what those before it made: of each share it is given what was made
    before, `_before`, and here, `_here`, in this order. What a share is relative to is called by `naming`.
    """
    found = {tensor.key: (tensor, share) for tensor, share in shares}
    names = tuple((f"{key}_before", f"{key}_here", f"{key}_merged") for key in found)
    tensors: dict[str, Tensor] = {}
    equations = list[Equation]()
    for (before, here, made), (tensor, share) in zip(names, found.values(), strict=True):
        slots = tuple(replace(s, name=f"i_{n}") for n, s in enumerate(tensor.slots))
        for key in (before, here, made):
            role = "local" if key == made else "input"
            tensors[key] = replace(tensor, key=key, text=key, slots=slots, role=role)  # type: ignore[arg-type]
        letters = tuple(Position(Index(s.name, s.set)) for s in slots)
        addends = [_addend(Read(key, letters), share, letters, naming, end)
                   for key, end in ((before, "_before"), (here, "_here"))]
        equations.append(Equation(made, letters, TRUE, FOLDS[share.fold].merged(*addends)))
    equations.sort(key=lambda e: len(e.reads))  # references before what is relative to them
    whole = program.but(equations=tuple(equations), tensors=tensors, loops=(),
                       outputs=tuple((name, name) for _, _, name in names))
    return replace(whole, plans=(), idle=frozenset())


def _addend(read: Read, share: Share, letters: tuple[Position, ...], naming: Callable[[str], str], end: str) -> Term:
    """A share relative to the reference of both; where there is no point, and so no reference, nothing."""
    if not share.reference:
        return read
    there = tuple(letters[n] for n in share.places)
    own, both_ = (Read(naming(share.reference) + x, there) for x in (end, "_merged"))
    scale = Apply("exp", (product((const(share.power), Apply("sub", (own, both_)))),))
    return Where(reached(own), product((read, scale)))


# which blocks meet, in numbers


def met(condition: Term, first: str, second: str, count: int, sizes: Mapping[str, int]) -> list[list[bool]]:
    """For each of so many blocks the blocks that it meets, at these sizes; `first` and `second` are the places, counted
    from 1, of the rank's own block and of the one that comes.
    """
    value = _value(condition, first, second, sizes)
    return [[bool(value(i + 1, j + 1)) for j in range(count)] for i in range(count)]


Value = Callable[[int, int], float | bool]  # of the places of two blocks


def _value(term: Term, first: str, second: str, sizes: Mapping[str, int]) -> Value:
    """A number or a condition in sizes."""
    match term:
        case Const(value) | Truth(value):
            return lambda i, j: float(value)
        case Size(extent):
            used = tuple(name in extent.sizes for name in (first, second))

            @cache
            def number_at(i: int, j: int) -> float:
                return float(extent.at({**sizes, first: i, second: j}))

            return lambda i, j: number_at(i if used[0] else 0, j if used[1] else 0)
        case Apply(op, args):
            made, found = _VALUES[op], [_value(x, first, second, sizes) for x in args]
            return lambda i, j: made(*[x(i, j) for x in found])
    raise AssertionError(term)


_VALUES: Mapping[str, Callable[..., float | bool]] = {
    "add": lambda *x: sum(x), "mul": lambda *x: math.prod(x), "sub": lambda x, y: x - y, "neg": lambda x: -x,
    "div": lambda x, y: x / y, "floor": math.floor, "ceil": math.ceil, "min": min, "max": max,
    "le": lambda x, y: x <= y, "lt": lambda x, y: x < y, "and": lambda *x: all(x), "or": lambda *x: any(x),
}
