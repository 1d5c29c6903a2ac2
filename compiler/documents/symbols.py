"""Symbols of a document as its equations write them, before it is known which of their scripts are letters."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from einc.checking.declarations.names import head
from einc.checking.matrices.shapes import TRANSPOSE, parts
from einc.syntax import tree as s


@dataclass(frozen=True)
class Symbol:
    """What tells one tensor from another before its letters are known: its name, and how many places it has."""

    base: str
    dress: tuple[object, ...] = ()
    scripts: int = 0

    @classmethod
    def of(cls, node: s.Expression) -> Symbol:
        """The symbol of a name; transposes are no part of it."""
        found = head(node)
        assert found is not None
        name, scripts = found
        upper = tuple(x for x in name.upper if x != "T")
        hung = [x.content for x in scripts if x.content is not None]
        return cls(name.base, (name.accents, name.primes, name.lower, upper), sum(map(_places, hung)))


def fixed(node: s.Expression, letters: Container[str]) -> tuple[str, ...]:
    """What stands in the scripts of a name and is none of the `letters` that count something."""
    found = head(node)
    inside = [k.content for k in (found[1] if found is not None else ()) if k.content is not None]
    leaves = (x for content in inside for x in parts(content) if isinstance(x, s.Word | s.Number))
    return tuple(x.text for x in leaves if isinstance(x, s.Number) or x.quoted or x.text not in letters)


def _places(node: s.Expression) -> int:
    """How many letters, numbers and sums of them stand in a script, without transposes."""
    match node:
        case s.Word(text, quoted=quoted):
            return len(text) if text.islower() and not quoted else int(text not in ("T", TRANSPOSE))
        case s.Product(factors=inner) | s.Group(items=inner):
            return sum(map(_places, inner))
    return 1
