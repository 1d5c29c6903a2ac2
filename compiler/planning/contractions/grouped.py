"""Contractions with one matrix for each element that a row names: a product for each
element, over the rows that name it.

U_{t r}^e = Σ_f H_t^f W_{C_{t r} f}^e reads W once where the rows of one element stand together; row by row it
would be read, or copied, once for each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.ir.draft import Draft
from einc.ir.indices import Extent, Index, number
from einc.ir.plan import Buffer, Cost, GroupedMatmul, TopK
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors, product
from einc.ir.terms import TRUE, Fold, Position, Read, Term, free_indices
from einc.planning.analysis.cost import size_of, volume
from einc.planning.contractions.nested import split_fold
from einc.syntax.printing.show import equation_text
from einc.transforms.laws.simplify import picked


def with_matrices(program: NormalProgram) -> NormalProgram:
    """The program with a matrix for each row read in its contraction, where it is no value of its own."""
    program = _row_by_row(program)
    by = program.by_target
    out: list[Equation] = []
    for equation in program.equations:
        body = equation.body
        if isinstance(body, Fold) and body.op == "sum" and body.domain == TRUE:
            parts = factors(body.body)
            opened = [p for p in parts if _is_matrix(p, by, equation, program)]
            if len(opened) == 1:
                (read,) = opened
                assert isinstance(read, Read)
                here = _put(by[read.tensor], read)
                body = replace(body, body=product(tuple(here if p is read else p for p in parts)))
                equation = replace(equation, body=body)
        out.append(equation)
    kept = {key for _, key in program.outputs} | {key for e in out for key in e.reads}
    return replace(program, equations=tuple(e for e in out if e.target in kept))


def _row_by_row(program: NormalProgram) -> NormalProgram:
    """Sums over rows and more of products with a row's matrix: over the rest first, for
    each row, and then over the rows."""
    by, draft = program.by_target, Draft(program.tensors)
    for equation in program.equations:
        body = equation.body
        rows = _folded_rows(equation, body, by, program) if isinstance(body, Fold) and body.op == "sum" else ()
        if rows and isinstance(body, Fold):
            letters = (*(i for i in equation.indices if i in free_indices(body.body)), *rows)
            equation = split_fold(draft, equation, body, "each", rows, letters)
        draft.add(equation)
    return draft.done(program)


def _folded_rows(equation: Equation, fold: Fold, by: Mapping[str, Equation],
                 program: NormalProgram) -> tuple[Index, ...]:
    """The indices of a sum that name which matrix is read, as t and r do in W_{C_{t r}}, where the sum also runs over
    an axis of that matrix, the result has another one, and the domain has conditions on the rows alone. Empty where one
    of these does not hold."""
    for part in factors(fold.body):
        inner = by.get(part.tensor) if isinstance(part, Read) else None
        if inner is None or not isinstance(part, Read) or not isinstance(inner.body, Read):
            continue
        plain = all(isinstance(s, Position) for s in (*part.subs, *inner.axes, *equation.axes))
        found = _named(_put(inner, part), program) if plain else None
        rows = tuple(b for b in fold.bound if found is not None and b in free_indices(found))
        others, mine = {*fold.bound} - {*rows}, free_indices(part) - free_indices(found or part)
        if rows and others and mine & others and mine & {*equation.indices} and not free_indices(fold.domain) & others:
            return rows
    return ()


def _put(inner: Equation, read: Term) -> Read:
    """What a value that is a read is, where it is read itself."""
    assert isinstance(read, Read)
    found = inner.at(read.subs)
    assert isinstance(found, Read)
    return found


def _is_matrix(part: Term, by: Mapping[str, Equation], equation: Equation, program: NormalProgram) -> bool:
    """Whether a factor is a matrix that a row names: it has an index of its own in the
    result, and the row stands there too."""
    if not isinstance(part, Read) or part.tensor not in by:
        return False
    inner = by[part.tensor]
    if not isinstance(inner.body, Read) or not all(isinstance(s, Position) for s in (*part.subs, *inner.axes)):
        return False
    found = _named(_put(inner, part), program)
    if found is None:
        return False
    rows, result = free_indices(found), set(equation.indices)
    plain = all(isinstance(a, Position) for a in equation.axes)
    return plain and rows <= result and bool((free_indices(part) - rows) & result)


def _named(read: Read, program: NormalProgram) -> Read | None:
    """The one subscript that a tensor of whole numbers gives, all others being positions that stand once."""
    plain = [s.index for s in read.subs if isinstance(s, Position)]
    names = [s for s in read.subs if isinstance(s, Read)]
    if len(names) != 1 or len(plain) + 1 != len(read.subs) or len(set(plain)) < len(plain):
        return None
    (name,) = names
    whole = program.tensors[name.tensor].integer and all(isinstance(s, Position) for s in name.subs)
    rows = [s.index for s in name.subs if isinstance(s, Position)]
    return name if whole and len(set(rows)) == len(rows) and not set(rows) & set(plain) else None


def grouped(program: NormalProgram, equation: Equation, buffers: Mapping[str, Buffer]) -> GroupedMatmul | None:
    """The contraction group by group; None where the equation is something else."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or body.domain != TRUE:
        return None
    parts = [p for p in factors(body.body) if isinstance(p, Read)]
    matrices = [p for p in parts if not all(isinstance(s, Position) for s in p.subs)]
    if len(matrices) != 1 or len(parts) < len(factors(body.body)):
        return None
    (matrix,) = matrices
    name = _named(matrix, program)
    if name is None or any(buffers[p.tensor].element.kind == "integer" for p in parts):
        return None
    rows = tuple(s.index for s in name.subs if isinstance(s, Position))
    at = matrix.subs.index(name)
    element = program.tensors[matrix.tensor].slots[at].set
    others = [p for p in parts if p is not matrix]
    across = volume(i.set for i in {*free_indices(body.body), *body.bound})
    read = size_of(buffers[name.tensor])
    for part in parts:
        read = read + size_of(buffers[part.tensor])
    cost = Cost(across * number(2), read, size_of(buffers[equation.target]), number(0))
    axes = tuple(s.index.name if isinstance(s, Position) else "" for s in matrix.subs)
    return GroupedMatmul(
        reads=(name.tensor, *(p.tensor for p in others), matrix.tensor), writes=(equation.target,),
        texts=(equation_text(program, equation),), cost=cost, axes=tuple(i.name for i in equation.indices),
        rows=tuple(i.name for i in rows), letters=(*map(_letters, others), axes), set=element,
        count=_rank(program, name))


def _rank(program: NormalProgram, name: Read) -> Extent | None:
    """How many elements each row names, of a set; None where the names are data."""
    equation = program.equation(name.tensor)
    found = None if equation is None else picked(equation)
    return None if found is None else found[1].set.extent


def _letters(read: Read) -> tuple[str, ...]:
    return tuple(s.index.name for s in read.subs if isinstance(s, Position))


def pick(program: NormalProgram, equation: Equation, buffers: Mapping[str, Buffer]) -> TopK | None:
    """The elements by rank; None where the equation is something else."""
    ordered = picked(equation)
    if ordered is None:
        return None
    fold, rank = ordered
    assert isinstance(fold.body, Read)
    (element,) = fold.bound
    names = [i.name for i in equation.indices if i != rank]
    operand = [s.index.name for s in fold.body.subs if isinstance(s, Position)]
    order = tuple(operand.index(name) for name in [*names, element.name])
    source = buffers[fold.body.tensor]
    cost = Cost(volume(source.sets), size_of(source), size_of(buffers[equation.target]), number(0))
    return TopK(reads=(fold.body.tensor,), writes=(equation.target,), texts=(equation_text(program, equation),),
                cost=cost,
                order=order, at=equation.indices.index(rank), count=rank.set.extent, set=element.set)
