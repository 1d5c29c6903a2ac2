"""The specs that come with einc: what each is, where the paper has it, and what it is given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from einc.driver import flow, sources
from einc.errors.report import Report, Source
from einc.ir.programs import Tensor, TypedProgram

_SECTION = re.compile(r"\bpaper(?:'s)?,? (?:§(?P<number>[\d.]*\d)|(?P<word>appendix))")
_STOP = re.compile(r"\.(?=$| [A-ZΑ-Ω])")


@dataclass(frozen=True)
class Spec:
    """A spec that comes with einc, by the name under which every command finds it."""

    name: str
    source: Source

    @property
    def about(self) -> str:
        """The comment at its head, as one line."""
        lines: list[str] = []
        for line in self.source.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.removeprefix("#").strip())
        return " ".join(lines)

    @property
    def line(self) -> str:
        """The first sentence of what is said about the spec, up to a full stop that stands in no parentheses or quotes.
        """
        for stop in _STOP.finditer(self.about):
            before = self.about[:stop.start()]
            if before.count("(") == before.count(")") and before.count('"') % 2 == 0:
                return before
        return self.about

    @property
    def section(self) -> str:
        """The section of the paper that it stands for, empty where it names none."""
        found = _SECTION.search(self.about)
        return "" if found is None else f"§{found['number']}" if found["number"] else found["word"]

    @cached_property
    def program(self) -> TypedProgram | None:
        """What it means; None for a side file, which means something beside its paper alone."""
        return flow.check_spec(self.source, Report(), proved=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it is given, with the weights: names, and the extents of their axes."""
        found = () if self.program is None else self.program.inputs()
        return tuple(f"{t.key} ({', '.join(_axes(t))})" for t in found)

    def data(self) -> dict[str, Any]:
        """All of it for programs. `inputs` and `outputs` are null of a side file."""
        program = self.program
        told = None if program is None else [
            {"name": t.key, "role": t.role, "axes": _axes(t)}
            for t in program.inputs()]
        return {"name": self.name, "about": self.about, "section": self.section or None, "inputs": told,
                "outputs": None if program is None else [name for name, _ in program.outputs]}

    def has(self, words: Iterable[str]) -> bool:
        """Whether each of the words stands in its name or its comment, in capitals or not."""
        text = f"{self.name} {self.about}".lower()
        return all(word.lower() in text for word in words)


def specs() -> list[Spec]:
    """All of them, those in no folder first."""
    return [Spec(name, found) for name in sources.names() if (found := sources.shipped(name)) is not None]


def _axes(tensor: Tensor) -> list[str]:
    return [str(slot.set.extent) for slot in tensor.slots]
