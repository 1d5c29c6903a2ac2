"""What the lines `store … as …` of a plan do to a program: tensors that are stored in few bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from einc.errors.problems import PlanLine
from einc.errors.report import EincError, Help, Problem
from einc.ir.elements import DECLARED
from einc.ir.programs import Equation, TypedProgram
from einc.ir.requested import Asked, Cache, PlanBlock, Store
from einc.transforms.storing import holds


def stored(program: TypedProgram, wanted: PlanBlock) -> TypedProgram:
    """The program with the elements that the lines of the plan ask for. EincError where one would change a value."""
    tensors = dict(program.tensors)
    problems = list[Problem]()
    for line, key, word in _asked(wanted):
        now = replace(program, tensors=tensors)
        problem = _refused(now, line, key, word) or _shared(wanted, line, key, word)
        if problem is None:
            tensors[key] = replace(tensors[key], element=DECLARED[word])
        else:
            problems.append(problem)
    if problems:
        raise EincError(problems)
    return replace(program, tensors=tensors)


def _asked(wanted: PlanBlock) -> Iterator[tuple[Asked, str, str]]:
    """Each tensor that a line stores in a type, with the line."""
    for line in wanted.lines:
        if isinstance(line.record, Store):
            yield from ((line, key, word) for key, word in line.record.kinds)


def _refused(program: TypedProgram, line: Asked, key: str, word: str) -> Problem | None:
    """Why a tensor cannot be stored in a type of few bits; None where it can."""
    tensor = program.tensors[key]
    made = {e.target: e for e in program.equations}
    if tensor.role != "local":
        return PlanLine(f"`{key}` is given by the caller, who says how it is stored", line.span, helps=(
            Help(f"declare it so: `{tensor.role} {tensor.text} : {word}`"),))
    if key not in made:
        return PlanLine(f"`{key}` is made by rounds, which carry it with all its bits", line.span, helps=(
            Help("store a tensor of one equation outside the rounds"),))
    if key in {of for _, of in program.outputs}:
        return PlanLine(f"`{key}` is a result, and a plan does not change what the caller gets", line.span, helps=(
            Help("store a tensor that it is made of"),))
    if tensor.integer:
        return PlanLine(f"`{key}` holds whole numbers that are counted with, as 64 bits do", line.span, helps=(
            Help(f"round it to the type, which makes real numbers of them: `{_rounded(program, key, word)}`"),))
    if _depends(made, key):
        return PlanLine(f"`{key}` is carried from position to position with all its bits", line.span, helps=(
            Help("store a tensor that does not read itself"),))
    if holds(program, key, DECLARED[word]):
        return None
    return PlanLine(f"`{key}` may hold numbers that `{word}` does not, and to store is not to round", line.span,
                    notes=("a rounding in its equation, or a range of whole numbers, has to tell that none changes",),
                    helps=(Help(f"round it in its equation, which changes values: `{_rounded(program, key, word)}`"),))


def _shared(wanted: PlanBlock, line: Asked, key: str, word: str) -> Problem | None:
    """Why a tensor cannot be stored with several numbers in a byte; None where it can."""
    if not DECLARED[word].shared or key not in wanted.asked(Cache).tensors:
        return None
    return PlanLine(f"`{key}` is kept of each position, and `{word}` puts several numbers in a byte, which inputs "
                    f"and weights have", line.span, helps=(
        Help(f"store the same numbers with a byte each: `store {key} as {DECLARED[word].apart.word}`"),))


def _rounded(program: TypedProgram, key: str, word: str) -> str:
    """The equation of a tensor with a rounding around its right side."""
    equation = next(e for e in program.equations if e.target == key)
    left, equals, right = equation.source.partition("=")
    return f"{left.strip()} = {word}({right.strip()})" if equals else f"{program.tensors[key].text} = {word}(…)"


def _depends(made: Mapping[str, Equation], key: str) -> bool:
    """Whether a tensor is made of itself, at another position."""
    seen, waiting = set[str](), [key]
    while waiting:
        for name in made[waiting.pop()].reads - seen:
            seen.add(name)
            waiting += [name] if name in made else []
    return key in seen
