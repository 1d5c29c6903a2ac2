"""A text to begin with: the smallest whole one, a variant of a spec, or a copy of it."""

from __future__ import annotations

import re
from importlib.resources import files

from einc.driver import flow
from einc.driver.sources import Sources
from einc.errors.report import Report, Source
from einc.syntax.tree import Statement


def first() -> str:
    """The smallest whole text, which stands in a file."""
    return files("einc.grammar").joinpath("first.ein").read_text(encoding="utf-8")


def variant(name: str, source: Source, sources: Sources) -> str:
    """A text that uses a spec, and has what can be replaced in it as comments, each a line that may be taken in."""
    lines = [f'# A variant of {name}: take a line in by deleting its "# ", and change it.', f'use "{name}"', ""]
    return "\n".join([*lines, *(f"# {line}" for line in _replaceable(source, sources))]) + "\n"


def _replaceable(source: Source, sources: Sources) -> list[str]:
    """The equations and masks of a spec and of those that it uses, as they would be replaced; of several equations for
    one tensor the one that holds, of several masks all that hold together.
    """
    found: dict[str, str] = {}
    for tree in reversed(flow.used(flow.syntax(source, Report()), sources)):
        for statement in tree.statements:
            left, sign, right = _parts(statement)
            key = f"{statement.keyword == 'mask'} {re.sub(r'[ {}]', '', left)}"
            if sign == ":" and key in found and not statement.override:
                found[key] += f" and ({right})" if " or " in right else f" and {right}"
            elif sign:
                found[key] = f"override {left} {sign} {right}"
    return list(found.values())


def _parts(statement: Statement) -> tuple[str, str, str]:
    """An equation or a mask as its two sides and the sign between them; empty texts for anything else."""
    text = " ".join(statement.span.text.split())
    match statement.keyword:
        case "mask":
            text, sign = text.removeprefix("override "), ":"
        case "" | "output":
            text, sign = re.sub(r"^((override|output) )+|( :|,) all$", "", text), "="
        case _:
            return "", "", ""
    left, found, right = text.partition(f" {sign} ")
    usual = found and len(statement.clauses) == 1 and not statement.block and not text.startswith("$")
    return (left, sign, right) if usual else ("", "", "")
