"""What a text asks of its file beside its meaning: a record for each kind of line of its `plan` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeVar

from einc.errors.report import Span


@dataclass(frozen=True, slots=True)
class Cache:
    """`cache K, V as e4m3 per 64 paged 16`: the tensors that are kept of each position, by their keys; the number of
    positions in a page of memory, 0 where the line does not say; and of those that are rounded the type, with how many
    numbers of the last axis have one scale, 0 where all have.
    """

    tensors: tuple[str, ...] = ()
    page: int = 0
    few: tuple[tuple[str, tuple[str, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Mesh:
    """`mesh dp = 16, tp`: the axes of a mesh of devices with the ranks on each, 0 where that is left to the call."""

    axes: tuple[tuple[str, int], ...] = ()

    @property
    def ranks(self) -> dict[str, int]:
        """The number of ranks on each axis."""
        return dict(self.axes)


@dataclass(frozen=True, slots=True)
class Pass:
    """`pass s by swap h`: what is done where two letters of the set that is cut stand in one equation. `way` is a word
    of `WAYS`; `by` is empty where the way takes no letter.
    """

    letter: str
    way: str
    by: str = ""


MOST_RANKS = 1 << 20  # of an axis of a mesh


# The ways of a pass, and whether each takes a letter.
WAYS = {"gather": False, "merge": False, "ring": False, "swap": True, "rows": False, "once": False}
ROWS = ("rows", "once")  # those of a letter that data chooses


# The orders in which stages work on parts of the data, as `torch.distributed.pipelining` calls them.
SCHEDULES = ("GPipe", "1F1B")


@dataclass(frozen=True, slots=True)
class Parts:
    """`n in 8 parts by 1F1B`: the letter whose parts go from stage to stage, their number, a word of `SCHEDULES`."""

    letter: str
    count: int
    schedule: str


@dataclass(frozen=True, slots=True)
class Cut:
    """What is cut over one axis of a mesh: letters in the order in which they are tried, and passes. Where it is
    `balanced`, what goes round is laid so that all ranks have as much to do. Where rounds are cut, which are stages
    then, `parts` says what goes through these.
    """

    axis: str
    letters: tuple[str, ...]
    passes: tuple[Pass, ...] = ()
    balanced: bool = False
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """`shard n, else f over dp`: what is cut over some axes of a mesh."""

    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """`store q, p as int8`: tensors, by their keys, each with the type of few bits in which it is stored."""

    kinds: tuple[tuple[str, str], ...] = ()


SHARES = {"tensor": False, "row": False, "block": True}  # what has one scale, and whether its size is said


@dataclass(frozen=True, slots=True)
class Products:
    """`products of W_1, W_2 by e4m3 per block 128`: tensors, by their keys, each with the type to which both factors of
    its products are rounded, with a word of `SHARES` that says which numbers have one scale, and with the size of a
    block, 0 where there is none.
    """

    kinds: tuple[tuple[str, tuple[str, str, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Relative:
    """`round E about its running maximum`: tensors, by their keys, that are rounded relative to the largest so far."""

    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recompute:
    """`recompute ℓ every 4`: letters that count rounds, each with how many rounds are made again together for the
    gradient, of which nothing is saved but what they begin with.
    """

    rounds: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """`keep H_tilde gathered`: tensors, by their keys, that the gradient is given as the program gathers them."""

    tensors: tuple[str, ...] = ()


Record = Cache | Keep | Mesh | Products | Recompute | Relative | Shard | Store
Said = TypeVar("Said", bound=Record)


def joined(one: Said, other: Said) -> Said | None:
    """What two lines of one kind ask for together; None where they contradict each other.

    A field of a record is a number, which is 0 where a line says none, or names, or names each with what is said of it.
    Both lines have to say the same of a name that they share, and of a number that both say.
    """
    both = {field.name: _joined(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}
    return None if None in both.values() else replace(one, **both)


def _joined(one: Any, other: Any) -> Any:
    """The value of one field for two lines; None where these contradict each other."""
    if isinstance(one, int):
        return one or other if one == other or 0 in (one, other) else None
    found: dict[str, Any] = {}
    for item in (*one, *other):
        name = item if isinstance(item, str) else item.axis if isinstance(item, Cut) else item[0]
        match found.setdefault(name, item), item:
            case (str(), int(before)), (str(), int(after)) if before == 0 or after == 0:
                found[name] = name, before or after
            case before, after if before != after:
                return None
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Asked:
    """A line of a `plan` block: its first word, what it asks for, and where it stands."""

    word: str
    record: Record
    span: Span


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A `plan` block by its name, or the blocks that are chosen together under the name of the kind of file that they
    are for.

    No two of its lines contradict each other: that is checked where they are chosen.
    """

    name: str
    lines: tuple[Asked, ...] = ()

    def asked(self, kind: type[Said]) -> Said:
        """What its lines of one kind ask for together: nothing where there are none."""
        some = (line.record for line in self.lines if isinstance(line.record, kind))
        return reduce(lambda one, other: joined(one, other) or one, some, kind())

    @property
    def meshed(self) -> bool:
        """Whether its lines speak of a mesh of devices."""
        return any(isinstance(line.record, Mesh | Shard) for line in self.lines)

    @property
    def narrows(self) -> bool:
        """Whether its lines store, keep, multiply or round something in few bits."""
        return bool(self.asked(Cache).few) or any(isinstance(x.record, Products | Relative | Store) for x in self.lines)

    def cuts(self) -> Iterator[tuple[Cut, Span]]:
        """What its lines cut over axes of a mesh, each with the line that says it."""
        return ((cut, line.span) for line in self.lines if isinstance(line.record, Shard) for cut in line.record.cuts)
