"""What a text asks of its file beside its meaning: a record for each kind of line of its `plan` blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einc.errors.report import Span


@dataclass(frozen=True, slots=True)
class Cache:
    """`cache K, V as e4m3 per 64 paged 16`: the tensors that are kept of each position, by their keys; the number of
    positions in a page of memory, 0 where the line does not say; and of those that are rounded the type, with how many
    numbers of the last axis have one scale, 0 where all have.
    """

    tensors: tuple[str, ...]
    page: int = 0
    few: tuple[tuple[str, tuple[str, int]], ...] = ()

    def joined(self, other: Record) -> Cache | None:
        """What both lines ask for; None where their pages have two sizes, or one tensor two types."""
        if not isinstance(other, Cache) or (self.page and other.page and self.page != other.page):
            return None
        found = dict(self.few)
        if any(found.setdefault(key, how) != how for key, how in other.few):
            return None
        return Cache(tuple(dict.fromkeys((*self.tensors, *other.tensors))), self.page or other.page,
                     tuple(found.items()))


@dataclass(frozen=True, slots=True)
class Mesh:
    """`mesh dp = 16, tp`: the axes of a mesh of devices with the ranks on each, 0 where that is left to the call."""

    axes: tuple[tuple[str, int], ...]

    def joined(self, other: Record) -> Mesh | None:
        """The axes of both lines; None where one axis has two numbers of ranks."""
        if not isinstance(other, Mesh):
            return None
        found = dict(self.axes)
        for name, ranks in other.axes:
            if ranks and found.get(name) and found[name] != ranks:
                return None
            found[name] = found.get(name) or ranks
        return Mesh(tuple(found.items()))


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

    cuts: tuple[Cut, ...]

    def joined(self, other: Record) -> Shard | None:
        """What both lines cut; None where they cut different things over one axis."""
        if not isinstance(other, Shard):
            return None
        found = {cut.axis: cut for cut in self.cuts}
        if any(found.setdefault(cut.axis, cut) != cut for cut in other.cuts):
            return None
        return Shard(tuple(found.values()))


@dataclass(frozen=True, slots=True)
class Store:
    """`store q, p as int8`: tensors, by their keys, each with the type of few bits in which it is stored."""

    kinds: tuple[tuple[str, str], ...]

    def joined(self, other: Record) -> Store | None:
        """What both lines store; None where one tensor has two types."""
        if not isinstance(other, Store):
            return None
        found = dict(self.kinds)
        if any(found.setdefault(key, word) != word for key, word in other.kinds):
            return None
        return Store(tuple(found.items()))


SHARES = {"tensor": False, "row": False, "block": True}  # what has one scale, and whether its size is said


@dataclass(frozen=True, slots=True)
class Products:
    """`products of W_1, W_2 by e4m3 per block 128`: tensors, by their keys, each with the type to which both factors of
    its products are rounded, with a word of `SHARES` that says which numbers have one scale, and with the size of a
    block, 0 where there is none.
    """

    kinds: tuple[tuple[str, tuple[str, str, int]], ...]

    def joined(self, other: Record) -> Products | None:
        """What both lines round; None where they round one tensor in two ways."""
        if not isinstance(other, Products):
            return None
        found = dict(self.kinds)
        if any(found.setdefault(key, how) != how for key, how in other.kinds):
            return None
        return Products(tuple(found.items()))


@dataclass(frozen=True, slots=True)
class Relative:
    """`round E about its running maximum`: tensors, by their keys, that are rounded relative to the largest so far."""

    tensors: tuple[str, ...]

    def joined(self, other: Record) -> Relative | None:
        """One line for what this line and another ask to be rounded, each tensor once; None where the other is of
        another kind."""
        both = (*self.tensors, *other.tensors) if isinstance(other, Relative) else ()
        return Relative(tuple(dict.fromkeys(both))) if both else None


@dataclass(frozen=True, slots=True)
class Recompute:
    """`recompute ℓ every 4`: letters that count rounds, each with how many rounds are made again together for the
    gradient, of which nothing is saved but what they begin with.
    """

    rounds: tuple[tuple[str, int], ...]

    def joined(self, other: Record) -> Recompute | None:
        """What both lines say; None where they say two numbers of one letter."""
        if not isinstance(other, Recompute):
            return None
        found = dict(self.rounds)
        if any(found.setdefault(letter, every) != every for letter, every in other.rounds):
            return None
        return Recompute(tuple(found.items()))


@dataclass(frozen=True, slots=True)
class Keep:
    """`keep H_tilde gathered`: tensors, by their keys, that the gradient is given as the program gathers them."""

    tensors: tuple[str, ...]

    def joined(self, other: Record) -> Keep | None:
        """One line for what this line and another ask to be kept, each tensor once; None where the other is of another
        kind."""
        return Keep(tuple(dict.fromkeys((*self.tensors, *other.tensors)))) if isinstance(other, Keep) else None


Record = Cache | Keep | Mesh | Products | Recompute | Relative | Shard | Store


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

    def mesh(self) -> Mapping[str, int]:
        """The axes of the mesh that its lines speak of, with their ranks."""
        found = Mesh(())
        for line in self.lines:
            if isinstance(line.record, Mesh):
                found = found.joined(line.record) or found
        return dict(found.axes)

    def recomputed(self) -> Mapping[str, int]:
        """The letters of rounds that its lines make again, each with how many rounds together."""
        found = Recompute(())
        for line in self.lines:
            if isinstance(line.record, Recompute):
                found = found.joined(line.record) or found
        return dict(found.rounds)

    def gathered(self) -> frozenset[str]:
        """The tensors that its lines keep gathered."""
        return frozenset(key for line in self.lines if isinstance(line.record, Keep) for key in line.record.tensors)

    @property
    def meshed(self) -> bool:
        """Whether its lines speak of a mesh of devices."""
        return any(isinstance(line.record, Mesh | Shard) for line in self.lines)

    @property
    def narrows(self) -> bool:
        """Whether its lines store, keep, multiply or round something in few bits."""
        return bool(self.cache().few) or any(isinstance(x.record, Products | Relative | Store) for x in self.lines)

    def cuts(self) -> Iterator[tuple[Cut, Span]]:
        """What its lines cut over axes of a mesh, each with the line that says it."""
        return ((cut, line.span) for line in self.lines if isinstance(line.record, Shard) for cut in line.record.cuts)
