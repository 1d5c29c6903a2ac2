"""Which moves of a program on a mesh are one message.

Moves of one level that wait for the same are one collective where that is of one kind, over the same ranks, and, where
it folds what they have, with the same fold of elements of one type. Slices send nothing. Moves in hops are each by
themselves here: all that goes round in a hop is one message (`traffic.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from einc.planning.placing.levels import Placed, Transfer
from einc.planning.placing.states import SILENT, States


@dataclass(frozen=True)
class Message:
    """Moves that are made at once before a level."""

    level: int
    transfers: tuple[Transfer, ...]


def messages(placed: Placed, narrow: bool = False) -> list[Message]:
    """All messages, in an order in which they can be sent. A move has its turn in the level as soon as what it is made
    of is there: its tensor, and what a share is relative to. `narrow` if sums are sent in the type of the data.
    """
    there: dict[tuple[str, States], tuple[int, int]] = {}  # the level and the turn in which a tensor is in some states
    found: dict[tuple[int, int, object], list[Transfer]] = {}
    for one in placed.transfers:
        move, key = one.move, one.move.tensor
        needed = [(key, one.now), *placed.beside(key, move.axes, one.now, one.then)]
        turns = [there[made] for made in needed if made in there]
        if move.apart:  # what is to be relative to a maximum may come with it
            turns = [(at, max(0, turn - 1)) for at, turn in turns]
        level, turn = max([(one.arrival.level, 0), *turns])
        there[key, one.then] = level, turn + 1
        alike = len(found) if move.around or move.kind in SILENT else move.alike(narrow)
        found.setdefault((level, turn, alike), []).append(one)
    ordered = sorted(found.items(), key=lambda pair: pair[0][:2])
    return [Message(level, tuple(transfers)) for (level, _, _), transfers in ordered]
