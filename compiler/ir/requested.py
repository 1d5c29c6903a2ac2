"""What a text asks of its file beside its meaning: a record for each kind of line of its `plan` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einc.errors.report import Span


@dataclass(frozen=True, slots=True)
class Cache:
    """`cache K, V paged 16`: the tensors that are kept of each position, by their keys, and the number of positions
    in a page of memory, 0 where the line does not say.
    """

    tensors: tuple[str, ...]
    page: int = 0

    def joined(self, other: Record) -> Cache | None:
        """What both lines ask for; None where their pages have two sizes."""
        if not isinstance(other, Cache) or (self.page and other.page and self.page != other.page):
            return None
        return Cache(tuple(dict.fromkeys((*self.tensors, *other.tensors))), self.page or other.page)


@dataclass(frozen=True, slots=True)
class Noted:
    """A line that is read and by which no file is made yet: the user is told so where a file is asked for."""

    text: str

    def joined(self, other: Record) -> Noted | None:
        """The later line: each is told by itself."""
        return other if isinstance(other, Noted) else None


Record = Cache | Noted


@dataclass(frozen=True, slots=True)
class Asked:
    """A line of a `plan` block: its first word, what it asks for, and where it stands."""

    word: str
    record: Record
    span: Span


@dataclass(frozen=True, slots=True)
class Wanted:
    """A `plan` block by its name, or the blocks that are chosen together under the name of the kind of file that they
    are for.

    No two of its lines contradict each other: they are joined by `Record.joined` where that is checked.
    """

    name: str
    lines: tuple[Asked, ...] = ()

    def cache(self) -> Cache:
        """What its lines keep of each position: nothing where none says it."""
        found = Cache(())
        for line in self.lines:
            if isinstance(line.record, Cache):
                found = found.joined(line.record) or found
        return found

    def noted(self) -> Iterator[Noted]:
        """The lines by which no file is made yet."""
        return (line.record for line in self.lines if isinstance(line.record, Noted))
