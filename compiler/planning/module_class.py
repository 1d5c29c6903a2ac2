"""TypedProgram -> ModuleClass: how each weight begins, by what the equations do with it,
and which scalars speak of chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einc.ir.indices import Index, number
from einc.ir.plan import ModuleClass, Weight
from einc.ir.primitives import HASHES
from einc.ir.programs import Program, Tensor
from einc.ir.terms import Apply, Fold, Pack, Part, Position, Read, Term, children, free_indices, reads, walk

_SCALES, _ADDS = frozenset({"mul", "div"}), frozenset({"add", "sub", "neg"})


@dataclass(frozen=True)
class _Use:
    """One place where a weight is read: what is summed there, whether elements are
    picked, and the operation around it."""

    summed: frozenset[Index]
    picked: bool
    op: str


def class_of(program: Program) -> ModuleClass:
    """The weights of a program and how each is initialised: what a torch.nn.Module class for the program is made of."""
    scalars = [t for t in program.inputs() if not t.slots]
    compared = set(_compared(program))
    mixed = {r.tensor for t in _terms(program) if isinstance(t, Apply) and t.op in HASHES for r in reads(t)}
    return ModuleClass(
        tuple(_weight(program, t) for t in program.inputs() if t.role == "weight" and not t.constant),
        frozenset(t.key for t in scalars if not t.integer and t.key in compared),
        frozenset(t.key for t in scalars if t.integer and t.key in mixed),
    )


def _terms(program: Program) -> Iterator[Term]:
    return (t for e in program.equations for root in (e.domain, e.body) for t in walk(root))


def _weight(program: Program, tensor: Tensor) -> Weight:
    """Normal where it is summed over, with a spread that keeps that of what it
    multiplies, or where elements are picked."""
    uses = [use for e in program.equations for use in _uses(e.body, tensor.key, frozenset(), "")]
    over, sums = number(1), sorted((u.summed for u in uses if not u.picked), key=len)
    for index in sorted(sums[-1] if sums else (), key=lambda i: i.name):
        over = over * index.set.extent
    if any(u.summed or u.picked for u in uses):
        return Weight(tensor.key, "normal", over)
    return Weight(tensor.key, "ones" if any(u.op in _SCALES for u in uses) else "zeros", over)


def _uses(term: Term, key: str, bound: frozenset[Index], op: str) -> Iterator[_Use]:
    match term:
        case Read(tensor, subs) if tensor == key:
            yield _Use(bound & free_indices(term), not all(isinstance(s, Position | Pack | Part) for s in subs), op)
        case Fold(_, inner, _, body):
            yield from _uses(body, key, bound | set(inner), "")
            return
    around = term.op if isinstance(term, Apply) and term.op in _SCALES | _ADDS else ""
    for kid in children(term):
        yield from _uses(kid, key, bound, around)


def _compared(program: Program) -> Iterator[str]:
    """Yields the names of tensors that are compared with a value of chance, and of what those are made of."""
    by = {e.target: e.body for e in program.equations}
    random = {e.target for e in program.equations
              if any(isinstance(t, Apply) and t.op == "chance" for t in walk(e.body))}

    def made_of_chance(term: Term) -> bool:
        return any((isinstance(t, Apply) and t.op == "chance") or (isinstance(t, Read) and t.tensor in random)
                   for t in walk(term))

    for term in _terms(program):
        match term:
            case Apply("le" | "lt", args) if sum(map(made_of_chance, args)) == 1:
                stack = [r.tensor for a in args if not made_of_chance(a) for r in reads(a)]
                while stack:
                    yield (key := stack.pop())
                    stack += [r.tensor for r in reads(by[key])] if key in by else []
