"""The decorator of immutable nodes: frozen dataclasses with slots, each of which computes its hash once.

Terms, indices and extents are keys of dictionaries and elements of sets many times over, and a term's hash goes over
all that is in it: keeping it makes look-ups take time that does not grow with the term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class Node:
    """What every class that `node` makes inherits from: the place of its hash."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots, whose instances keep their hash once it has been
    asked for. The class inherits from `Node`."""
    made = dataclass(frozen=True, slots=True)(cls)
    compute: Any = made.__hash__

    def kept(self: Any) -> int:
        try:
            found: int = self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, "_hash", found)
        return found

    made.__hash__ = kept  # type: ignore[method-assign]
    return made
