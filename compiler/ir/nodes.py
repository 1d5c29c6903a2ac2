"""The decorator of immutable nodes: dataclasses with slots, each of which computes its hash once.

Terms, indices and extents are keys of dictionaries and elements of sets many times over, and a term's hash goes over
all that is in it: keeping it makes look-ups take time that does not grow with the term.

mypy refuses to assign to a field of a node. Python does not refuse it: with the check of a frozen dataclass it takes
more than twice the time to build a node, and passes build a great many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class Node:
    """What every class that `node` makes inherits from: the place of its hash."""

    __slots__ = ("_hash",)
    _hash: int

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the fields alone, and computes its own hash: in another process that of a text is another."""
        return type(self), tuple(getattr(self, name) for name in self.__slots__)


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """A dataclass with slots that nothing changes, whose instances keep their hash once it has been asked for.

    The class inherits from `Node`.
    """
    made = dataclass(slots=True, unsafe_hash=True)(cls)
    compute: Any = made.__hash__
    keep: Any = Node.__dict__["_hash"].__set__

    def kept(self: Any) -> int:
        found: int | None = getattr(self, "_hash", None)
        if found is None:
            found = compute(self)
            keep(self, found)
        return found

    made.__hash__ = kept  # type: ignore[method-assign]
    return made
