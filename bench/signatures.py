"""Functions as their callers see them: drawn signatures with their docstrings and without bodies.

A reader who has seen nothing else says of each what it does and what it mutates; the same draw with its bodies shows
whether that was right. Who can be drawn is who has to have a docstring: public functions, and others that are long.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from bench.house import FUNCTION, LONG, read


@dataclass(frozen=True)
class Shown:
    """A function: where it stands, the class that it is a method of, its signature with its docstring, and its body."""

    place: str
    within: str
    head: str
    body: str

    def text(self, bodies: bool) -> str:
        """The function as it is printed, with its body where that is asked for."""
        return "\n".join([self.place, *([self.within] * bool(self.within)), self.head, *([self.body] * bodies)])


def drawn(checkout: Path, count: int, seed: int) -> list[Shown]:
    """So many functions of a checkout, all of them where there are no more; the same ones for the same seed."""
    every = [shown for file in read(checkout) if not file.is_runtime for shown in _functions(file.path, file.tree)]
    return random.Random(seed).sample(every, min(count, len(every)))


def _functions(path: Path, tree: ast.Module) -> Iterator[Shown]:
    """The functions of a file, and the methods of its classes, that have to have a docstring."""
    for node in tree.body:
        if isinstance(node, FUNCTION):
            yield from _shown(path, node, "")
        elif isinstance(node, ast.ClassDef):
            about = (ast.get_docstring(node) or "").replace("\n", "\n    ")
            for inner in node.body:
                if isinstance(inner, FUNCTION):
                    yield from _shown(path, inner, f"class {node.name}: {about}", node.name.startswith("_"))


def _shown(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef, within: str,
           hidden: bool = False) -> Iterator[Shown]:
    """The function, where it is public, as no method of a `hidden` class is, or of more than a few lines."""
    if (hidden or node.name.startswith("_")) and (node.end_lineno or node.lineno) - node.lineno < LONG:
        return
    described = ast.get_docstring(node, clean=False) is not None
    shown = copy(node)
    shown.body = node.body[:described]
    body = "\n".join(f"    {line}" for x in node.body[described:] for line in ast.unparse(x).split("\n"))
    yield Shown(f"{path.as_posix()}:{node.lineno}", within, ast.unparse(shown), body)
