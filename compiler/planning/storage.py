"""What a program stores: a buffer for each tensor, each part of a direct sum a tensor of its own; the sizes and sets in use."""

from __future__ import annotations

from einc.indices import Index, IndexSet
from einc.plan import Buffer, Kind
from einc.planning.prefix import running_sum
from einc.terms import (
    Equation,
    Fold,
    Join,
    NormalProgram,
    Position,
    Program,
    Read,
    Slot,
    Tensor,
    Term,
    reads,
    walk,
)


def sizes_of(equation: Equation) -> set[str]:
    out = {n for i in equation.indices for n in i.set.extent.sizes}
    for term in (equation.domain, equation.body, *equation.axes):
        for inner in walk(term):
            match inner:
                case Fold(_, bound):
                    out |= {n for b in bound for n in b.set.extent.sizes}
                case _ if hasattr(inner, "extent"):
                    out |= set(inner.extent.sizes)
    return out


def sets_of(program: Program) -> tuple[IndexSet, ...]:
    """The sets of the program, each with what it is split into."""
    found: dict[IndexSet, None] = {}
    for tensor in program.inputs():
        found.update(dict.fromkeys(s.set for s in tensor.slots))
    for equation in program.equations:
        found.update(dict.fromkeys(i.set for i in indices_of(equation)))
    for whole, parts in program.splits.items():
        if whole in found:
            found.update(dict.fromkeys(parts))
    return tuple(found)


def with_parts(program: NormalProgram) -> NormalProgram:
    """Each part of a direct sum is an equation of its own, which the result lays side by side."""
    tensors = dict(program.tensors)
    out: list[Equation] = []
    for equation in program.equations:
        body = equation.body
        if isinstance(body, Join):
            parts: list[tuple[Index, Term]] = []
            for n, (index, part) in enumerate(body.parts):
                key = f"{equation.target}_part{n + 1}"
                while key in tensors:
                    key += "_"
                axes = tuple(Position(index) if a == Position(body.index) else a for a in equation.axes)
                slots = tuple(
                    Slot(index.set, s.level, index.name) if a == Position(body.index) else s
                    for a, s in zip(equation.axes, tensors[equation.target].slots, strict=True)
                )
                tensors[key] = Tensor(key, key, slots, "local")
                out.append(Equation(key, axes, equation.domain, part))
                parts.append((index, Read(key, axes)))
            equation = Equation(equation.target, equation.axes, equation.domain, Join(body.index, tuple(parts)), equation.source)
        out.append(equation)
    return NormalProgram(
        program.name, tensors, tuple(out), program.outputs, program.sizes, program.splits, program.sums, program.source
    )


def buffers_of(program: Program) -> dict[str, Buffer]:
    """A buffer for each tensor; values made of sizes alone are exact."""
    outputs = {key for _, key in program.outputs}
    kinds: dict[str, Kind] = {t.key: "integer" if t.integer else "real" for t in program.tensors.values() if t.role != "local"}
    for equation in program.equations:
        inner = {kinds[r.tensor] for r in reads(equation.body)}
        integer = program.tensors[equation.target].integer
        exact = inner <= {"exact"} or running_sum(equation)
        kinds[equation.target] = "integer" if integer else "exact" if exact and equation.target not in outputs else "real"
    return {
        t.key: Buffer(
            t.key,
            tuple(s.name for s in t.slots),
            tuple(s.set for s in t.slots),
            kinds[t.key],
            "output" if t.key in outputs and t.role == "local" else t.role,
        )
        for t in program.tensors.values()
        if t.key in kinds
    }


def indices_of(equation: Equation) -> list[Index]:
    out = list(equation.indices)
    if isinstance(equation.body, Fold):
        out += equation.body.bound
    return out
