"""A written recurrence beside the one that was found: what each state is in its letters,
and whether the two are proved equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.driver.reports.recurrence import Recurrence, guarded, line_text, recurrences
from einc.ir.programs import BlockLoop, Equation, NormalProgram, Tensor, TypedProgram, slot_of
from einc.ir.rounds import bodies, lifted
from einc.ir.terms import TRUE, Read, conjuncts, reads
from einc.meaning.proof import unproved
from einc.syntax.printing.show import equation_text, text
from einc.transforms.normal.normalise import normalise


@dataclass(frozen=True)
class State:
    """A written update with what it reads of its round, what the state is in the found
    letters, and the lines found for these."""

    update: tuple[str, ...]
    line: int
    proved: bool
    meaning: str
    found: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """A recurrence as it is written, state by state."""

    cut: str
    line: int
    states: tuple[State, ...]

    @property
    def proved(self) -> bool:
        """Whether each state of the recurrence was proved equal to what is derived."""
        return all(state.proved for state in self.states)


def written(program: TypedProgram) -> list[Written]:
    """Every recurrence that the text writes out, with the proof that each state is what is derived."""
    states = tuple((e.target, e.target) for recur in program.recurs for e in recur.updates)
    normal = normalise(replace(program, outputs=states, loops=program.repeats))
    found = recurrences(normal) if states else []
    return [_compared(normal, found, recur) for recur in program.recurs]


def _compared(normal: NormalProgram, found: list[Recurrence], recur: BlockLoop) -> Written:
    """One written recurrence beside the found ones, with the proof of each of its states."""
    wrong = {x.update.target for x in unproved(recur)}
    states = []
    for update in recur.updates:
        meaning, lines = next(_lines_of(found, update.target), ("", ()))
        closed = next(e for e in normal.equations if e.target == update.target)
        proved = update.target not in wrong
        meaning = meaning or (equation_text(normal, closed) if proved else _round(normal, recur, update))
        states.append(State(_sources(recur, update), _line(recur, update), proved, meaning, lines))
    said = ", ".join(text(normal, c) for c in conjuncts(recur.domain)) if recur.domain != TRUE else recur.index.name
    return Written(said, min(s.line for s in states), tuple(states))


def _round(normal: NormalProgram, recur: BlockLoop, update: Equation) -> str:
    """What one round over a block makes of a state: what is not proved to be one fold has
    no closed form that says as much."""
    whole = lifted(recur)
    block = Tensor(whole.member, recur.name or "B", (slot_of(recur.index),), "local")
    shown = replace(normal, tensors={**normal.tensors, block.key: block}, loops=(whole, *normal.repeats))
    return f"{text(shown, Read(update.target, update.axes))} ← {text(shown, bodies(whole)[update.target].body)}"


def _sources(recur: BlockLoop, update: Equation) -> tuple[str, ...]:
    """The lines that the update depends on, as they are written, in their order, and the update itself."""
    needed = {r.tensor for r in reads(update.body)}
    lines: list[str] = []
    for equation in reversed(recur.inside):
        if equation.target in needed:
            needed |= {r.tensor for r in reads(equation.body)}
            lines.append(equation.source)
    return (*reversed(lines), update.source)


def _line(recur: BlockLoop, update: Equation) -> int:
    _, span = recur.places[update.target]
    return span.source.place(span.start).line


def _lines_of(found: list[Recurrence], target: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The finish of a state, and the lines of the block that its letters are on the left of."""
    for recurrence in found:
        for line in recurrence.finish:
            if line.left.tensor == target:
                shown = replace(line, right=guarded(line.right))
                letters = {r.tensor for r in reads(shown.right)}
                lines = (x for x in recurrence.block if x.left.tensor.replace("'", "") in letters)
                yield line_text(recurrence.program, shown), tuple(line_text(recurrence.program, x) for x in lines)


def as_text(item: Written, name: str, sign: str = "#") -> str:
    """What is proved, as comments; where something is not, both sides."""
    if item.proved:
        lines = [f"{sign} the rounds over {{{item.cut}}} written in {name}:{item.line} are proved equal to this, for "
                 f"every cut:"]
        lines += [f"{sign}     {state.meaning}" for state in item.states]
        return "\n".join(lines) + "\n"
    lines = [f"{sign} the rounds over {{{item.cut}}} written in {name}:{item.line} are not proved equal to this:"]
    for state in item.states:
        if not state.proved:
            lines.append(f"{sign} line {state.line}")
            for head, said in (("written", state.update), ("found", (*state.found, state.meaning))):
                lines += [f"{sign}     {head if n == 0 else '':9} {x}" for n, x in enumerate(said)]
    return "\n".join(lines) + "\n"
