"""Where the tensors of a program exist, as a picture of characters: a row for each position, a column for another."""

from __future__ import annotations

from collections.abc import Iterator

from einc.checking.expressions.rules import show_domain
from einc.driver.commands.sizes import default, names, sets
from einc.errors.report import EincError, Problem
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.programs import Equation, Program, Slot, Tensor, TypedProgram
from einc.ir.terms import ONE, TRUE, Position, Where, conjuncts, free_indices, reads
from einc.meaning.interpret import interpret
from einc.syntax.printing.show import display

_POSITIONS, _OTHER = 24, 4
_MARKS = ("·", "█")


def masks(program: TypedProgram) -> str:
    """Every tensor that exists at some pairs of positions alone, at small sizes."""
    sizes = default(program, _small(program))
    told: list[str] = []
    drawn: dict[tuple[str, ...], str] = {}
    for equation in program.equations:
        name, *picture = (*_picture(program, equation, sizes), "")
        like = drawn.setdefault(tuple(picture), name.partition(":")[0])
        if name:
            told += [name, *picture] if like == name.partition(":")[0] else [f"{name}, as {like}", ""]
    if not told:
        return "every tensor exists at every pair of positions\n"
    given = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    return "\n".join([f"at {given}", "", *told])


def _small(program: Program) -> dict[str, int]:
    """Numbers with which a picture is small: positions, and what stands beside them, such as a width."""
    out: dict[str, int] = {}
    for one in sets(program):
        row = INDEX_CLASSES[one.cls]
        for name in one.extent.sizes if row.sequence else ():
            if name not in program.sizes:
                out[name] = _POSITIONS
    used = {name for name in default(program, {}) if not any(name in one.extent.sizes for one in sets(program))}
    return {**dict.fromkeys(used - program.sizes.keys(), _OTHER), **out}


def _picture(program: Program, equation: Equation, sizes: dict[str, int]) -> Iterator[str]:
    """The picture of one tensor: its last two indices over positions; of the others the first element is meant."""
    letters = [i for i in equation.indices if INDEX_CLASSES[i.set.cls].sequence]
    said = free_indices(equation.domain)
    if equation.domain == TRUE or len(letters) < 2 or len(said.intersection(letters)) < 2:
        return
    name = display(program.tensors[equation.target]) if equation.target in program.tensors else equation.target
    domain = ", ".join(map(show_domain, conjuncts(equation.domain)))
    yield f"{name}: {domain}"
    if any(True for _ in reads(equation.domain)):
        yield "    depends on data"
        return
    rows, columns = [i for i in letters if i in said][-2:]
    try:
        found = _marked(program, equation, sizes, rows, columns)
    except (EincError, Problem, ZeroDivisionError) as error:
        yield f"    not drawn: {error.message if isinstance(error, Problem) else 'the sizes do not fit'}"
        return
    yield f"    rows {rows}, columns {columns}"
    yield from (f"    {''.join(_MARKS[bool(x)] for x in row)}" for row in found)


def _marked(program: Program, equation: Equation, sizes: dict[str, int], rows: Index,
            columns: Index) -> list[list[float]]:
    """1 where the tensor exists, else 0, as the interpreter computes the indicator of the domain."""
    free = sorted(free_indices(equation.domain) - {rows, columns}, key=lambda i: i.name)
    indices = (*free, rows, columns)
    key = "mask"
    tensor = Tensor(key, key, tuple(Slot(i.set, "lower", i.name) for i in indices), "local")
    drawn = Equation(key, tuple(map(Position, indices)), TRUE, Where(equation.domain, ONE))
    alone = program.but(equations=(drawn,), tensors={key: tensor}, outputs=((key, key),), loops=())
    found = interpret(alone, {}, {name: sizes[name] for name in names(alone)})[key]
    for _ in free:
        found = found[0]
    out: list[list[float]] = found.tolist()
    return out
