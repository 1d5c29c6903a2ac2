"""What a compiled plan costs, as one object: it prints as `einc cost` does, and has the same as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from einc.driver.reports.costing import BYTES, account, modules
from einc.driver.reports.priced import Told
from einc.errors.report import failure
from einc.ir.plan import Gradient, Module, SegmentedModule


@dataclass(frozen=True)
class Costs:
    """The account of a plan as text, and as data for programs."""

    text: str
    data: Any

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def costs(name: str, plan: Module | Gradient | SegmentedModule, sizes: Mapping[str, int], dtype: str) -> Costs:
    """The account of a plan at these sizes, for elements of the type. EincError for a type or a size that there is not.
    """
    if dtype not in BYTES:
        raise failure(f"`{dtype}` is no type of data", f"the types are {', '.join(BYTES)}")
    found = list(modules(plan))
    known = sorted({size for _, module, _ in found for size in module.sizes})
    for size in sizes:
        if size not in known:
            raise failure(f"`{size}` is no size of the spec", f"the sizes that can be given: {', '.join(known)}")
    told = Told([module for _, module, _ in found], dict(sizes), dtype)
    accounts = [[account(title, module, count, sizes, BYTES[dtype]) for title, module, count in found]]
    return Costs(told.text([name], accounts), told.data([name], accounts))
