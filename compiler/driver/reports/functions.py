"""A program as the text of a plain Python function of torch: its head, its sizes, and lines for each equation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from einc.driver.reports.einsums import UnsaidError, python, right_side
from einc.ir.draft import unused, with_other_names
from einc.ir.indices import Extent, number, size
from einc.ir.programs import Equation, Program, Tensor
from einc.ir.terms import Size
from einc.planning.placing.resized import resized
from einc.syntax.printing.show import equation_text

P = TypeVar("P", bound=Program)


@dataclass
class Lines:
    """The lines of a function, and how many equations they leave out."""

    texts: list[str] = field(default_factory=list)
    unsaid: int = 0


Said = Callable[[Program, Equation], list[str]]


def assigned(program: Program, equation: Equation) -> list[str]:
    """The line that gives an equation's tensor its value."""
    return [f"{equation.target} = {right_side(program, equation)}"]


def lines(program: Program, said: Said = assigned, imports: Iterable[str] = (), more: Iterable[str] = ()) -> Lines:
    """The function that a program is, as text that `einc from` reads. `said` gives the lines of an equation, and raises
    UnsaidError where there are none. `more` are sizes that such lines speak of beside those of the program.
    """
    program = apart(program)
    given = [t for t in program.tensors.values() if t.role in {"input", "weight"}]
    fixed = _fixed(given)
    names = [t.key for t in given] + sorted(({*more} | sizes_of(program)) - fixed.keys() - program.sizes.keys())
    out = Lines(["import math", "", "import torch", "from torch import einsum", *imports, "", "",
                 f"def {function_name(program.name)}({', '.join(names)}):"])
    out.texts += [f"    # {t.key}: ({', '.join(python(s.set.extent) for s in t.slots)})" for t in given if t.slots]
    out.texts += [f"    {name} = {value}" for name, value in program.sizes.items()]
    out.texts += [f"    {name} = {value}" for name, value in fixed.items() if name not in program.sizes]
    if program.loops or program.own or any(one.packed or one.by for t in given for one in [s.set for s in t.slots]):
        out.texts.append(f"    # Not said: {'rounds' if program.loops else 'requests of different lengths'}")
        out.unsaid += 1
        return out
    for equation in program.equations:
        try:
            out.texts += [f"    {line}" if line else "" for line in said(program, equation)]
        except UnsaidError as error:
            told = " ".join(equation_text(program, equation).split())
            out.texts.append(f"    # Not said, {error}: {told}")
            out.unsaid += 1
    out.texts.append(f"    return {', '.join(key for _, key in program.outputs)}")
    return out


def apart(program: P) -> P:
    """The program in which no size has the name of a tensor, as `H` may be both: those of a caller keep theirs."""
    given = {key for key, t in program.tensors.items() if t.role in {"input", "weight"}}
    both = sizes_of(program) & program.tensors.keys()
    taken = sizes_of(program) | program.tensors.keys()
    program = resized(program, {name: size(unused(f"n_{name}", taken)) for name in sorted(both & given)})
    others = {name: unused(f"{name}_1", taken) for name in sorted(both - given)}
    outputs = [(name, others.get(key, key)) for name, key in program.outputs]
    return with_other_names(program, others).but(outputs=outputs)


def function_name(name: str) -> str:
    """The name of a program as one of Python."""
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return word if word.isidentifier() else f"spec_{word}"


def _fixed(given: Iterable[Tensor]) -> dict[str, str]:
    """Each size that the shape of an input tells, and how: the last that does."""
    axes = [(f"{t.key}.shape[{at}]", slot.set.extent) for t in given for at, slot in enumerate(t.slots)]
    return {name: text for shape, extent in reversed(axes) for name, text in _told(shape, extent)}


def _told(shape: str, extent: Extent) -> list[tuple[str, str]]:
    """The size of an extent that is one size, perhaps a whole number of times, and perhaps a whole number more."""
    for name in extent.sizes if len(extent.sizes) == 1 else ():
        at_0, at_1 = extent.at({name: 0}), extent.at({name: 1})
        factor = at_1 - at_0
        if extent == size(name) * number(factor) + number(at_0) and factor.denominator == at_0.denominator == 1:
            above = f"({shape} {'-' if at_0 > 0 else '+'} {abs(at_0)})" if at_0 else shape
            return [(name, above if factor == 1 else f"{above} // {factor}")]
    return []


def sizes_of(program: Program) -> set[str]:
    """Every size that the axes or the terms of a program have."""
    found = {name for t in program.tensors.values() for slot in t.slots for name in slot.set.extent.sizes}
    return found | {name for t in program.terms if isinstance(t, Size) for name in t.extent.sizes}
