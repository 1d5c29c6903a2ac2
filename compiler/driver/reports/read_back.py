"""A recurrence that was found, read back as source: whether the language says it, and whether it is proved."""

from __future__ import annotations

from dataclasses import replace

from einc.driver import pipeline
from einc.driver.reports.recurrence import Recurrence, as_text
from einc.errors.problems import CutDependent
from einc.errors.report import Report, Source
from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import reads
from einc.planning.contractions.materialise import peeled
from einc.syntax.printing.show import show

_HEAD = ("index", "dim", "input", "weight", "output")


def source_of(program: NormalProgram, found: Recurrence) -> str:
    """The program as a spec in which the recurrence stands in place of the equations that it comes from. What one of
    its lines defines and an equation outside reads stands there, too, under another name."""
    program = _beside(peeled(program), found)
    lines = (*found.start, *found.block, *found.finish)
    defined = {x.left.tensor for x in lines}
    needed = {read.tensor for t in (found.domain, *(x.right for x in lines)) for read in reads(t)}
    needed = (needed | {key for _, key in program.outputs}) - defined
    results = {x.left.tensor for x in found.finish}
    kept: list[Equation] = []
    for equation in reversed(program.equations):
        if equation.target in needed and equation.target not in results:
            kept.append(equation)
            needed |= equation.reads
    twice = {e.target for e in kept} & defined
    program = replace(program, tensors={key: replace(t, text=f"other_{key}") if key in twice else t
                                        for key, t in program.tensors.items()})
    head = [x for x in show(program).splitlines() if x.split(" ")[0] in _HEAD]
    body = [x for x in show(replace(program, equations=tuple(reversed(kept)))).splitlines()
            if x.split(" ")[0] not in _HEAD]
    ends = len(head) - len(program.outputs)
    return "\n".join([*head[:ends], *body, as_text(found), *head[ends:]])


def _beside(program: NormalProgram, found: Recurrence) -> NormalProgram:
    """The program with other names for what is called as a value of the recurrence is."""
    made = {t.text for key, t in found.program.tensors.items() if key not in program.tensors}
    mine = {e.target for e in program.equations} - {key for _, key in program.outputs}
    mine -= {line.left.tensor for line in found.finish}
    tensors = {key: replace(t, text=f"other_{key}") if key in mine and t.text.replace("_prime", "'") in made else t
               for key, t in program.tensors.items()}
    return replace(program, tensors=tensors)


def doubts(program: NormalProgram, found: Recurrence) -> tuple[str, ...]:
    """What keeps the text of a recurrence from being a text that compiles; nothing where it is proved for every cut."""
    report = Report()
    pipeline.check(Source(program.name, source_of(program, found)), report)
    return tuple(f"not proved: {x.message}" if isinstance(x, CutDependent) else f"no text that compiles: {x.message}"
                 for x in report.errors)
