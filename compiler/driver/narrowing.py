"""What the lines of a plan about few bits do to a program: products and caches that
are rounded first, then what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einc.checking.programs.causality import owed
from einc.driver.storing import stored
from einc.errors.problems import CutOff, PlanLine, ScaleLeft
from einc.errors.report import EincError, Help, Problem, Source
from einc.ir.narrow import NARROW
from einc.ir.programs import Program, TypedProgram
from einc.ir.requested import Asked, Cache, PlanBlock, Products, Relative
from einc.transforms.relative_roundings import loosened
from einc.transforms.rounded_tensors import kept
from einc.transforms.rounding import Rounding, UnroundableError, rounded
from einc.transforms.scales import slips


def narrowed(program: TypedProgram, wanted: PlanBlock) -> tuple[TypedProgram, PlanBlock]:
    """The program that a plan asks for, and what the plan still asks for of it. EincError where a line cannot be
    followed.
    """
    made, lines = program, list[Asked]()
    for line in wanted.lines:
        if isinstance(line.record, Products):
            made = _multiplied(made, line, line.record)
        elif isinstance(line.record, Relative):
            made = _loosened(made, line, line.record)
        elif isinstance(line.record, Cache) and line.record.few:
            made, line = _cached(made, line, line.record)
        lines.append(line)
    return stored(made, wanted), replace(wanted, lines=tuple(lines))


def refused(program: TypedProgram) -> tuple[Problem, ...]:
    """What is wrong with the lines of all plans of a program that store or multiply in few bits."""
    found: list[Problem] = []
    for plan in program.plans:
        try:
            narrowed(program, plan)
        except EincError as error:
            found += error.problems
    return tuple(found)


def doubtful(program: TypedProgram, source: Source) -> Iterator[Problem]:
    """What is told of the roundings of a text itself that look like slips."""
    for slip in slips(program):
        written = program.tensors[_written(program, slip.target)]
        place, text = written.span, written.text
        if place is None or place.source != source:
            continue
        if slip.row is not None:
            low, high = slip.row.low, slip.row.high
            yield CutOff(f"`{slip.row.name}` cuts off what lies beyond {low} and {high}, and it is not known of what "
                         f"`{text}` rounds that it does not", place, helps=(
                Help(f"divide by a scale, the largest of the same numbers over {min(high, -low)}"),
                Help(f"say that they are cut off: `{slip.row.name}(min(max(…, {low}), {high}))`")))
        else:
            scale = program.tensors[slip.scale].text
            yield ScaleLeft(f"roundings divide by `{scale}`, and `{text}` is not multiplied by it again, once and with "
                            f"the same letters", place, helps=(
                Help("multiply each product of rounded numbers by the scale of each"),))


def _written(program: Program, target: str) -> str:
    """The value that a text has a name for and that is made of a value first: of what a function of the text is given
    the one in which that stands; the value itself where there is none.
    """
    found = [target]
    for key in found:
        if program.tensors[key].span is not None:
            return key
        found += [e.target for e in program.equations if key in e.reads and e.target not in found]
    return target


def _multiplied(program: TypedProgram, line: Asked, record: Products) -> TypedProgram:
    """The program with the products of one line rounded. EincError where there are none, or where an output would
    depend on positions that its text keeps from it.
    """
    made = program
    for word, share, count in dict.fromkeys(how for _, how in record.kinds):
        keys = frozenset(key for key, how in record.kinds if how == (word, share, count))
        try:
            made = rounded(made, keys, Rounding(NARROW[word], share, count))
        except UnroundableError as problem:
            helps = (Help("name a tensor that is multiplied and summed, as a weight is"),)
            raise EincError([PlanLine(str(problem), line.span, helps=helps)]) from None
        late = _late(program, made)
        if late:
            said = f"with one scale for each {share}, `{late}` reads positions after its own"
            other = Help("say `per row`, where what one sum takes together has a scale of its own") if (
                share != "row") else Help("leave out what is summed over positions")
            raise EincError([PlanLine(said, line.span, notes=(
                "the largest of all numbers that share a scale is not known before the last of them is",), helps=(
                other, Help("say that the future is meant: `output … : all`")))])
    return made


def _loosened(program: TypedProgram, line: Asked, record: Relative) -> TypedProgram:
    """The program whose roundings of multiples of the tensors of one line may be relative. EincError where one has
    none."""
    made = program
    for key in record.tensors:
        try:
            made = loosened(made, key)
        except UnroundableError as problem:
            helps = (Help("name an exponential, `E_{t s} = exp(L_{t s} - M_t)` with `M_t = max_s L_{t s}`, of which "
                          "the text rounds a multiple: `e4m3(448 E_{t s})`"),)
            raise EincError([PlanLine(str(problem), line.span, helps=helps)]) from None
    return made


def _cached(program: TypedProgram, line: Asked, record: Cache) -> tuple[TypedProgram, Asked]:
    """The program that reads what is kept as rounded numbers and scales, and the line with the names of both. EincError
    where the scales are not settled with the numbers.
    """
    made, few, names = program, dict(record.few), list[str]()
    for key in record.tensors:
        if key not in few:
            names.append(key)
            continue
        word, count = few[key]
        try:
            found = kept(made, key, NARROW[word], count)
        except UnroundableError as problem:
            raise EincError([PlanLine(str(problem), line.span, helps=(
                Help("keep it with all its bits, or round it in an equation of its own"),))]) from None
        made, names = found.program, [*names, found.few, found.scale]
    return made, replace(line, record=Cache(tuple(names), record.page))


def _late(before: Program, after: Program) -> str:
    """The first output that depends on positions or requests on which it did not depend, and whose text does not say
    that it does; empty where there is none."""
    old, new = owed(before), owed(after)
    keys = (key for _, key in after.outputs if not after.tensors[key].everywhere)
    return next((key for key in keys if new.get(key, {}).keys() - old.get(key, {}).keys()), "")
