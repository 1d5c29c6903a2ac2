"""What the steps of a plan make and cost, as formulas."""

from __future__ import annotations

from dataclasses import dataclass

from einc.driver import compiling
from einc.driver.options import Options
from einc.driver.reports.costing import BYTES, account, modules
from einc.errors.report import EincError, Problem
from einc.ir.indices import Extent
from einc.ir.programs import TypedProgram

_MOST = 120  # characters of a formula


@dataclass(frozen=True)
class Priced:
    """A step: its number, the tensors that it makes, and its floating-point operations and bytes."""

    name: str
    makes: tuple[str, ...]
    flops: str
    bytes: str


def steps(program: TypedProgram) -> tuple[Priced, ...]:
    """The steps of a program's plan, along the first way where it has several; none where it has no plan."""
    try:
        planned = compiling.planned(program, Options())
    except (EincError, Problem, RecursionError):
        return ()
    ways = (account(title, module, count, {}, BYTES["float32"]).ways[0] for title, module, count in modules(planned))
    return tuple(Priced(p.name, p.makes, formula(p.cost.flops), formula(p.cost.read + p.cost.written))
                 for way in ways for p in way.parts)


def formula(extent: Extent) -> str:
    """An extent on one line; a long one is cut."""
    text = str(extent).replace(" * ", "·").replace(" / ", "/")
    return text if len(text) <= _MOST else f"{text[:_MOST - 1]}…"
