"""Sums of shares in rows, which are one share, and values that are better made in rows than sent to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from fractions import Fraction

from einc.ir.draft import unused
from einc.ir.indices import number, size
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import addends, signed
from einc.ir.terms import TRUE, Fold, Position, Read, Term
from einc.planning.placing.cuts import Cut, Letter
from einc.planning.placing.larger import Sent
from einc.planning.placing.rows import in_rows
from einc.planning.placing.states import Part, Rows, Share, State


def added_in_rows(equation: Equation, state: Callable[[str], State]) -> Cut | None:
    """The cut of a sum of shares that lie in the same rows, which is one itself; None of any other equation."""
    parts = addends(equation.body)
    found = {_in_rows(part, equation, state) for _, part in parts}
    (rows, *others) = found
    if rows is None or others or len(parts) < 2:
        return None
    letters = _letters(equation, rows)
    needs = {part.tensor: state(part.tensor) for _, part in parts if isinstance(part, Read)}
    return Cut(Share("sum", rows=rows), letters, needs, f"linear in {', '.join(sorted(needs))}")


def apart_in_rows(equation: Equation, program: NormalProgram,
                  state: Callable[[str], State]) -> tuple[NormalProgram, *tuple[Equation, ...]]:
    """An equation, and before it, where some of its addends and not all are shares in the same rows, the one of their
    sum, with the program that has the tensor of that."""
    parts, by = addends(equation.body), dict[Rows, list[tuple[int, Term]]]()
    for sign, part in parts:
        if (rows := _in_rows(part, equation, state)) is not None:
            by.setdefault(rows, []).append((sign, part))
    some = next((some for some in by.values() if 1 < len(some) < len(parts)), None)
    if some is None:
        return program, equation
    key = unused(f"{equation.target}_rows", program.tensors)
    made = replace(program.tensors[equation.target], key=key, text=key, role="local")
    rest = signed([*(one for one in parts if one not in some), (1, Read(key, equation.axes))])
    return (program.but(tensors={**program.tensors, key: made}),
            Equation(key, equation.axes, TRUE, signed(some)), replace(equation, body=rest))


def _in_rows(term: Term, equation: Equation, state: Callable[[str], State]) -> Rows | None:
    """The rows in which an addend lies as a share, at the letters of the equation; None where it does not."""
    if not isinstance(term, Read) or term.subs != equation.axes or equation.domain != TRUE:
        return None
    found = state(term.tensor)
    return found.rows if isinstance(found, Share) and found.fold == "sum" else None


def better_in_rows(program: NormalProgram, cuts: Mapping[str, Cut], state: Callable[[str], State],
                   wants: Mapping[str, Set[State]], sent: Sent) -> Iterator[tuple[str, Rows]]:
    """What is made point by point in parts, and is read in rows alone, where less is sent if it is made in them."""
    shown = {key for _, key in program.outputs}
    for key, made in cuts.items():
        equation, (want, *others) = program.by_target[key], wants.get(key) or {made.state}
        if others or not isinstance(want, Rows) or not isinstance(made.state, Part) or key in shown:
            continue
        there = None if isinstance(equation.body, Fold) else made_in_rows(equation, program, want, {
            one: needed for one, needed in made.needs.items() if not isinstance(needed, Part)})
        if there is not None and sum((sent(one, state(one), rows) for one, rows in there.needs.items()
                                      if isinstance(rows, Rows) and rows not in wants.get(one, ())),
                                     Fraction(0)) < sent(key, made.state, want):
            yield key, want


def made_in_rows(equation: Equation, program: NormalProgram, rows: Rows | None,
                 needs: Mapping[str, State]) -> Cut | None:
    """The cut of a value that is made in rows; None where nothing says that it is, or it cannot be."""
    if rows is None:
        return None
    letters = _letters(equation, rows)
    wanted = in_rows(equation, program, rows, letters, needs, ()) if len(letters) == len(rows.packed) else None
    return None if wanted is None else Cut(rows, letters, wanted)


def _letters(equation: Equation, rows: Rows) -> tuple[Letter, ...]:
    """The letters of an equation at the slots of its result that stand for those of a row."""
    found = [equation.axes[n] for n in rows.at if n >= 0]
    return tuple(Letter(x.index, x.index.set, row=number(1) if k else size(rows.count))
                 for k, x in enumerate(found) if isinstance(x, Position))
