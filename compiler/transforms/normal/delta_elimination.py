"""Equations that are zero but for an equality of their indices: never stored, put where they are read."""

from __future__ import annotations

from dataclasses import replace

from einc.ir.draft import Draft
from einc.ir.indices import INDEX_CLASSES, Index, distinct
from einc.ir.programs import Equation, Program
from einc.ir.sums import factors
from einc.ir.terms import (
    TRUE,
    Apply,
    Fold,
    Join,
    Pack,
    Position,
    Read,
    Term,
    Where,
    both,
    conjuncts,
    free_indices,
    reads,
    substitute,
    transform,
    walk,
)
from einc.transforms.laws.simplify import simplify


def inline_gates(program: Program) -> Program:
    """Reads of δ-like equations replaced by what they stand for; composites are split where that needs it."""
    gated = {e.target: e for e in program.equations if is_gate(e)}
    draft = Draft(program.tensors)
    for equation in [e for one in program.equations for e in _parts(one, gated, draft)]:
        for _ in range(len(gated) + 1):
            inner = next((r for r in reads(equation.body) if r.tensor in gated and r.tensor != equation.target), None)
            if inner is None:
                break
            equation = _inlined(_apart(equation, gated, draft), gated, program)
        draft.add(replace(equation, body=simplify(equation.body)))
    return program.but(equations=draft.equations, tensors=draft.tensors)


def _parts(equation: Equation, gated: dict[str, Equation], draft: Draft) -> list[Equation]:
    """A part of a direct sum that reads a gate is an equation of its own, in which its index can be split."""
    if not isinstance(equation.body, Join):
        return [equation]
    whole, slots = equation.body.index, draft.tensors[equation.target].slots
    out: list[Equation] = []
    parts: list[tuple[Index, Term]] = []
    for index, part in equation.body.parts:
        if any(r.tensor in gated for r in reads(part)):
            axes = tuple(Position(index) if axis == Position(whole) else axis for axis in equation.axes)
            own = (replace(x, set=index.set, name=index.name) if axis == Position(whole) else x
                   for x, axis in zip(slots, equation.axes, strict=True))
            key = draft.tensor(f"{equation.target}_part", own)
            out.append(Equation(key, axes, equation.domain, part))
            part = Read(key, axes)
        parts.append((index, part))
    return [*out, replace(equation, body=Join(whole, tuple(parts)))]


def _apart(equation: Equation, gated: dict[str, Equation], draft: Draft) -> Equation:
    """Σ_{f d} x_f w_f^d R_d^k: what a gate does not touch is summed first, so that elimination never repeats it."""
    def change(term: Term) -> Term:
        """A sum with the factors and indices that no gate touches summed first, in a new value of `draft`; any other
        node as it is."""
        if not isinstance(term, Fold) or term.op != "sum":
            return term
        bound, domain, body = _flat_sum(term)
        parts = factors(body)
        gates = tuple(p for p in parts if isinstance(p, Read) and p.tensor in gated)
        rest = tuple(p for p in parts if p not in gates)
        touched = {i for g in gates for i in free_indices(g)}
        first = tuple(b for b in bound if b not in touched)
        if not gates or not first or any(free_indices(g) & set(first) for g in conjuncts(domain)):
            return term
        inner = Fold("sum", first, TRUE, rest[0] if len(rest) == 1 else Apply("mul", rest))
        whole = draft.value(f"{equation.target}_sum", sorted(appearance(inner, TRUE), key=axis_order), inner)
        body = Apply("mul", (whole, *gates))
        return Fold("sum", tuple(b for b in bound if b not in first), domain, body)

    return replace(equation, body=transform(equation.body, change))


def _flat_sum(fold: Fold) -> tuple[tuple[Index, ...], Term, Term]:
    """The indices, the domain and the body of directly nested sums."""
    bound, domain = fold.bound, fold.domain
    body = fold.body
    while isinstance(body, Fold) and body.op == "sum" and not {*body.bound} & ({*bound} | free_indices(domain)):
        bound, domain, body = bound + body.bound, both(domain, body.domain), body.body
    return bound, domain, simplify(body)


def is_gate(equation: Equation) -> bool:
    """Whether a value is zero but where two of its own indices are equal."""
    if not isinstance(equation.body, Where):
        return False
    own = set(equation.indices)
    return any(
        isinstance(c, Apply)
        and c.op == "eq"
        and all(isinstance(x, Position) and x.index in own and x.index.set.summed for x in c.args)
        for c in conjuncts(equation.body.condition)
    )


def _inlined(equation: Equation, gated: dict[str, Equation], program: Program) -> Equation:
    """Every read of a gate in one equation, after its composite indices are split into the gate's parts."""
    for inner in [r for r in reads(equation.body) if r.tensor in gated]:
        for axis, sub in zip(gated[inner.tensor].axes, inner.subs, strict=True):
            if isinstance(axis, Pack) and isinstance(sub, Position):
                equation = _split(equation, sub.index, axis)

    def change(term: Term) -> Term:
        if not isinstance(term, Read) or term.tensor not in gated:
            return term
        gate, by = gated[term.tensor], {}
        for axis, sub in zip(gate.axes, term.subs, strict=True):
            pairs = (zip(axis.parts, sub.parts, strict=True) if isinstance(axis, Pack) and isinstance(sub, Pack)
                     else [(axis, sub)])
            by.update({a.index: x for a, x in pairs if isinstance(a, Position)})
        return substitute(gate.body, by)

    return replace(equation, body=transform(equation.body, change))


def _split(equation: Equation, index: Index, like: Pack) -> Equation:
    """A composite index of the equation, free or bound, written as its parts."""
    taken = {i.name for x in (equation.body, equation.domain, *equation.axes) for i in _all_indices(x)}
    parts = distinct((part.index for part in like.parts if isinstance(part, Position)), taken)
    assert len(parts) == len(like.parts)
    pack = Pack(tuple(map(Position, parts)), like.sets, like.into)

    def change(term: Term) -> Term:
        match term:
            case Position(here) if here == index:
                return pack
            case Fold(op, bound, domain, body) if index in bound:
                return Fold(op, tuple(y for b in bound for y in (parts if b == index else (b,))), domain, body)
        return term

    axes = tuple(pack if axis == Position(index) else axis for axis in equation.axes)
    return Equation(equation.target, axes, transform(equation.domain, change), transform(equation.body, change),
                    equation.source)


def _all_indices(term: Term) -> set[Index]:
    out: set[Index] = set()
    for inner in walk(term):
        match inner:
            case Position(index):
                out.add(index)
            case Fold(_, bound):
                out |= set(bound)
    return out


def appearance(term: Term, domain: Term) -> tuple[Index, ...]:
    """Free indices in the order in which they first stand in the term."""
    free = free_indices(term) | free_indices(domain)
    out: dict[Index, None] = {}
    for inner in [*walk(term), *walk(domain)]:
        if isinstance(inner, Position) and inner.index in free:
            out[inner.index] = None
    return tuple(out)


def axis_order(index: Index) -> int:
    """Where an index stands among the axes of a helper tensor."""
    return INDEX_CLASSES[index.set.cls].place
