"""What the page of a paper shows of an equation: all that it implies, and the shapes of its tensors."""

from __future__ import annotations

from einc.errors.report import Span
from einc.ir.programs import Equation, Program, Tensor, TypedProgram
from einc.ir.terms import Position, bound_indices, reads, walk
from einc.syntax.printing.tex import conditions, subscripted, tex


def explicit(program: TypedProgram, key: str, place: Span) -> str:
    """The equation as LaTeX with every implied sum written out; "" for what is no equation of the program by itself."""
    found = next((e for e in _equations_of(program, place) if e.target == key), None)
    if found is None:
        return ""
    return line(program, found)


def line(program: Program, found: Equation, mark: str = "") -> str:
    """One equation as LaTeX, with its domain; `mark` stands before the sign, as the `&` of an aligned display."""
    left = subscripted(program, program.tensors[found.target], found.axes)
    domain = "" if not (said := conditions(program, found.domain)) or said == "1 = 1" else rf",\quad {said}"
    sign = r"\leftarrow" if any(found in recur.updates for recur in program.recurs) else "="
    return f"{left} {mark}{sign} {tex(program, found.body)}{domain}"


def display(program: Program) -> str:
    """The equations of a program, nothing implied, as a display of LaTeX; those of rounds stand among them."""
    rounds = [e for recur in program.recurs for e in recur.equations]
    rows = [line(program, e, "&") for e in (*rounds, *program.equations)]
    return "$$\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}$$"


def _equations_of(program: TypedProgram, place: Span) -> list[Equation]:
    """The equations, those as they are written in rounds first."""
    updates = "←" in place.text or "leftarrow" in place.text
    rounds = [e for r in program.recurs for e in (*(r.updates if updates else r.starts), *r.inside)]
    return [*rounds, *program.equations]


def shapes(program: TypedProgram, key: str) -> dict[str, str]:
    """The shapes of the tensors of an equation, by their text."""
    found = [e for e in program.equations if e.target == key]
    names = dict.fromkeys([key, *(r.tensor for e in found for t in (e.domain, e.body) for r in reads(t))])
    return {_text(t): f"({', '.join(str(slot.set.extent) for slot in t.slots)})" for n in names
            if (t := program.tensors.get(n))}


def spoken(program: TypedProgram, key: str) -> tuple[frozenset[str], frozenset[str]]:
    """The tensors that the equations of a tensor read, and the letters of their indices without primes."""
    found = [e for e in program.equations if e.target == key]
    indices = {i for e in found for root in (*e.axes, e.domain, e.body) for t in walk(root)
               for i in (*bound_indices(t), *((t.index,) if isinstance(t, Position) else ()))}
    return frozenset().union(*(e.reads for e in found)), frozenset(i.name.rstrip("'") for i in indices)


def _text(tensor: Tensor) -> str:
    return tensor.span.text if tensor.span is not None else tensor.text
