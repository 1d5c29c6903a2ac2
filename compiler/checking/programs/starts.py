"""What a text defines before the first position, `h_0 = …`, in place of reads at the position before the own one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.checking.declarations.scope import Signature
from einc.checking.programs.elaborate import Work
from einc.ir.domains import difference, proves
from einc.ir.indices import INDEX_CLASSES
from einc.ir.programs import Equation
from einc.ir.terms import (
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    children,
    const,
    free_indices,
    in_body,
    rebuild,
)


def with_starts(work: Work) -> None:
    """Changes every equation of the work that reads a value at the position before its own, where the text says what
    stands before the first.
    """
    if not any(label.isdigit() for x in work.scope.signatures for label in x.name.lower):
        return
    work.made.equations = [_started(work, e) for e in work.made.equations]
    changed = {key: _started(work, e) for key, e in list(work.equations.items())}
    work.equations = {**work.equations, **changed}
    for listed in (*work.blocks.inner.values(), *work.blocks.updates.values()):
        listed[:] = [_started(work, e) for e in listed]


def _started(work: Work, equation: Equation) -> Equation:
    """The equation with what stands before the first position, `h_0 = …`, where it reads a value at the position before
    its own.
    """
    body = _with_start(work, equation.body, equation.domain)
    return equation if body is equation.body else replace(equation, body=body)


def _with_start(work: Work, term: Term, given: Term) -> Term:
    """A term with what stands before the first position, where `given` holds and does not say that there is a position
    before.
    """
    match term:
        case Where(condition, then):
            return rebuild(term, (condition, _with_start(work, then, both(given, condition))))
        case Fold(_, _, domain, body):
            return rebuild(term, (domain, _with_start(work, body, in_body(given, term))))
        case Read(tensor, subs):
            for n, sub in enumerate(subs):
                first = _first(work, tensor, n) if is_last(sub) else None
                if first is None or proves(given, Apply("le", (const(first.start), sub))):
                    continue
                low, read = const(first.start), Read(first.key, (*subs[:n], *subs[n + 1 :]))
                return Apply("add", (Where(Apply("le", (low, sub)), term), Where(Apply("lt", (sub, low)), read)))
            return term
    return rebuild(term, tuple(_with_start(work, kid, given) for kid in children(term)))


def is_last(sub: Term) -> bool:
    """Whether a subscript is the position before that of a letter."""
    letters = free_indices(sub)
    if len(letters) != 1:
        return False
    found = difference(sub, Position(next(iter(letters))))
    return found is not None and not found.atoms and found.constant.constant == 1


@dataclass(frozen=True)
class _First:
    """What stands before the first position of a value: its tensor, and that position."""

    key: str
    start: int


def begun(work: Work, start: Signature) -> Signature | None:
    """What a value stands before the first position of, `h_t` for `h_0`; None for any other value."""
    if not start.name.lower:
        return None
    name = replace(start.name, lower=start.name.lower[:-1])
    return next((x for x in work.scope.signatures if x.name == name
                 for axis in range(len(x.slots)) if _begins(start, x, axis)), None)


def _begins(start: Signature, of: Signature, axis: int) -> bool:
    """Whether a value has the name and the other axes of what stands before the first position of another."""
    first, sets = of.slots[axis].set.start, [slot.set for n, slot in enumerate(of.slots) if n != axis]
    name = replace(of.name, lower=(*of.name.lower, str(first - 1)))
    return start.name == name and [slot.set for slot in start.slots] == sets


def _first(work: Work, key: str, axis: int) -> _First | None:
    """What a text defines for the position before the first one of an axis: `h_0` for `h_t`."""
    signature = next((x for x in work.scope.signatures if x.key == key), None)
    if signature is None or INDEX_CLASSES[signature.slots[axis].set.cls].before != "le":
        return None
    start = signature.slots[axis].set.start
    found = next((x for x in work.scope.signatures if _begins(x, signature, axis)), None)
    if found is not None:
        work.settle_chain(found)  # of a paper, an equation that nothing asked for until now
    return None if found is None else _First(found.key, start)
