"""Which of the results that share unstored values share a kernel.

Results folded over one axis stand in one kernel, which passes along it. What is folded over both axes of a tile joins a
kernel that passes along one of them; where tiles run in order, results along the one and along the other axis join,
too, so that what both need is formed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.ir.dependence import behind
from einc.ir.indices import SEQUENCE, Index
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors, product
from einc.ir.terms import Apply, Fold, Read, Term, reads
from einc.planning.streaming.partials import partial_reductions
from einc.planning.streaming.stream import stream
from einc.transforms.laws.simplify import is_number

Key = frozenset[Index]
Equations = Mapping[str, Equation]


def split(program: NormalProgram, members: list[Equation], virtual: frozenset[str],
          ordered: bool) -> list[tuple[Equation, ...]]:
    """The members of each kernel; each computes for itself the virtual values that it needs."""
    by: Equations = {e.target: e for e in members}
    parts: dict[tuple[Key, bool], set[str]] = {}
    for target, key in _owners(by, virtual).items():
        shared = _wide(key) or (ordered and len(key) > 1 and any(i.set.cls in SEQUENCE for i in key))
        # what finishes a result whose shares are not all there yet
        if shared and not isinstance(by[target].body, Fold):
            by = _scaled(program, by, {target}) or by
            key = key if isinstance(by[target].body, Fold) else Key({Index(target, next(iter(key)).set)})
        # a kernel has tiles of a place that all its results keep
        stays = any(i.set.cls in SEQUENCE for i in by[target].indices)
        parts.setdefault((key, stays or _wide(key)), set()).add(target)
    made: list[set[str]] = []
    for key, stays in sorted(parts, key=lambda part: _wide(part[0])):
        mine = parts[key, stays] & by.keys()
        for other in made if _wide(key) or ordered else ():
            joined = _joined(program, by, virtual, other, mine, ordered)
            if joined is not None:
                by, all_ = joined
                other |= mine
                other &= all_
                break
        else:
            made.append(mine)
    return [needed(by, virtual, part) for part in made]


def needed(by: Equations, virtual: frozenset[str], wanted: set[str]) -> tuple[Equation, ...]:
    """Some of the stored values, with the virtual ones that they need."""
    found = behind({key: e for key, e in by.items() if key in virtual or key in wanted}, wanted)
    return tuple(e for e in by.values() if e.target in found)


def _owners(by: Equations, virtual: frozenset[str]) -> dict[str, Key]:
    """For each stored value what is folded away in it, or in what it finishes."""
    owner: dict[str, Key] = {}
    for equation in by.values():
        if equation.target in virtual:
            continue
        if isinstance(equation.body, Fold):
            owner[equation.target] = frozenset(equation.body.bound)
        else:
            owner[equation.target] = next((owner[r.tensor] for r in reads(equation.body) if r.tensor in owner),
                                          frozenset())
    return owner


def _wide(key: Key) -> bool:
    """Whether both axes of a tile are folded away."""
    return sum(i.set.cls in SEQUENCE for i in key) > 1


def _joined(program: NormalProgram, by: Equations, virtual: frozenset[str], one: set[str], other: set[str],
            ordered: bool) -> tuple[Equations, set[str]] | None:
    """Both in one kernel: the equations, where one pass gives all of them; None where it does not."""
    sides = [{e.target for e in needed(by, virtual, side)} & virtual for side in (one, other)]
    if not any(isinstance(by[v].body, Fold) for v in sides[0] & sides[1]):
        return None
    for scaled in ((), other, one):
        made = _scaled(program, by, set(scaled)) if scaled else by
        if made is None:
            continue
        wanted = (one | other) & made.keys()
        inside = needed(made, virtual, wanted)
        found = partial_reductions(inside, frozenset(wanted), program, ordered)
        if (found is not None
            and stream(found.passed, virtual, frozenset(wanted) | found.rows, frozenset(program.tensors)).carries):
            return made, wanted
    return None


def _scaled(program: NormalProgram, by: Equations, wanted: set[str]) -> Equations | None:
    """A sum that is only scaled by a number as the sum of what is scaled, so that nothing
    is left to be done after it."""
    outputs = {key for _, key in program.outputs}
    out = dict(by)
    for target in wanted:
        equation = by[target]
        if isinstance(equation.body, Fold):
            continue
        found = [r for r in reads(equation.body) if r.tensor in by]
        inner = by[found[0].tensor] if len(found) == 1 else None
        readers = [e for e in program.equations for r in reads(e.body)
                   if inner is not None and r.tensor == inner.target]
        body = inner.body if inner is not None else None
        if (inner is None or not isinstance(body, Fold) or body.op != "sum" or len(readers) != 1
            or inner.target in outputs):
            return None
        scaled = _times(equation.body, found[0], body.body)
        if scaled is None or found[0].subs != inner.axes or set(inner.indices) != set(equation.indices):
            return None
        out[target] = replace(equation, body=replace(body, body=scaled))
        del out[inner.target]
    return out if out.keys() != by.keys() else None


def _times(term: Term, read: Read, body: Term) -> Term | None:
    """The term with a body in place of what is read, where it is that times numbers."""
    match term:
        case Apply("div", (above, below)) if is_number(below):
            inner = _times(above, read, body)
            return None if inner is None else product((Apply("div", (product(()), below)), *factors(inner)))
        case Apply("mul", args) if sum(not is_number(a) for a in args) == 1:
            (only,) = (a for a in args if not is_number(a))
            inner = _times(only, read, body)
            return None if inner is None else product((*(a for a in args if a is not only), *factors(inner)))
    return body if term == read else None
