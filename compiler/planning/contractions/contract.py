"""An unrestricted sum of products of reads that are views -> a contraction: the library's
own matrix product does it best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.ir.indices import Index, IndexSet
from einc.ir.plan import AxisRef, Buffer, Contract, Flatten, Slice, Subscript
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors
from einc.ir.terms import ONE, TRUE, Fold, Pack, Part, Position, Read, Term, free_indices
from einc.planning.analysis.cost import path_cost
from einc.planning.contractions.order import pairs, path
from einc.syntax.printing.show import equation_text


def contraction(
    program: NormalProgram, equation: Equation, buffers: dict[str, Buffer], usual: Mapping[str, int],
    compiled: bool = False,
) -> Contract | None:
    """None where the equation is something else, and where kernels are `compiled` and no element is read twice: that is
    one pass over memory. `usual` sizes decide the order of more than two operands."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or body.domain != TRUE or body.body == ONE:
        return None
    parts = [p for p in factors(body.body) if isinstance(p, Read)]
    views = [_view(p, buffers[p.tensor]) for p in parts]
    if len(parts) < len(factors(body.body)) or not all(views):
        return None
    slots = [_slot(axis, into) for axis, into in zip(equation.axes, buffers[equation.target].sets, strict=True)]
    if (not all(isinstance(slot, AxisRef) or (isinstance(slot, Flatten) and _plain(slot)) for slot in slots)
        or any(buffers[p.tensor].element.kind == "integer" for p in parts)):
        return None
    covered = {i for p in parts for i in free_indices(p)}
    if not {*body.bound, *equation.indices} <= covered:
        return None
    letters = tuple(tuple(i for s in p.subs for i in _letters(s)) for p in parts)
    if compiled and len(letters) > 1 and all(covered == {*own} for own in letters):
        return None
    found = path(letters, equation.indices, usual)
    return Contract(
        reads=tuple(p.tensor for p in parts),
        writes=(equation.target,),
        texts=(equation_text(program, equation),),
        axes=tuple(i.name for i in equation.indices),
        letters=tuple(tuple(i.name for i in o) for o in letters),
        path=found,
        cost=path_cost(
            tuple(pairs(letters, equation.indices, found)),
            [replace(buffers[p.tensor], sets=tuple(i.set for i in o)) for p, o in zip(parts, letters, strict=True)],
            buffers[equation.target],
        ),
        views=tuple(v for v in views if v is not None),
        slots=tuple(len(_letters(axis)) for axis in equation.axes),
    )


def _plain(slot: Flatten) -> bool:
    """Whether a slot is made of letters alone."""
    return all(isinstance(part, AxisRef) for part in slot.parts)


def _view(read: Read, buffer: Buffer) -> tuple[Subscript, ...] | None:
    """Where the axes of a read lie in its buffer; None where it is more than a view."""
    found = [_slot(sub, into) for sub, into in zip(read.subs, buffer.sets, strict=True)]
    letters = [i for sub in read.subs for i in _letters(sub)]
    return tuple(s for s in found if s is not None) if all(found) and len(set(letters)) == len(letters) else None


def _slot(sub: Term, into: IndexSet) -> Subscript | None:
    """A subscript as a view of a slot of the set `into`; None where it is computed."""
    match sub:
        case Position(index) if index.set == into:
            return AxisRef(index.name)
        case Pack(parts, sets):
            inner = [_slot(p, s) for p, s in zip(parts, sets, strict=True)]
            return Flatten(tuple(x for x in inner if x is not None), sets) if all(inner) else None
        case Part(item, of, before):
            part = _slot(item, of)
            return Slice(part, before, of.extent) if part is not None else None
    return None


def _letters(sub: Term) -> list[Index]:
    match sub:
        case Position(index):
            return [index]
        case Pack(parts):
            return [i for p in parts for i in _letters(p)]
        case Part(item):
            return _letters(item)
    return []
