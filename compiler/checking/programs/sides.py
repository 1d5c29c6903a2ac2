"""What both sides of an equation have to agree on: which indices stand free in them, and which are restricted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from einc.checking.declarations.scope import Rounds
from einc.checking.expressions.collect import Entry
from einc.checking.expressions.values import Context, Value
from einc.errors.problems import BadLoop, ForeignIndex, FreeOnLeft, FreeOnRight
from einc.errors.report import Help, Label
from einc.ir.indices import Index
from einc.ir.terms import TRUE, Term, free_indices, reads

_NONE: Mapping[Index, Index] = MappingProxyType({})


def balanced(result: Value, left: frozenset[Index], entry: Entry, domain: Term = TRUE,
              owners: Mapping[Index, Index] = _NONE) -> None:
    """Raises FreeOnRight or FreeOnLeft where a free index does not stand on both sides; a number alone needs none, and
    a position stands for its request, too.
    """
    on_left(result, left)
    present = free_indices(result.term) | free_indices(result.domain) | result.free.keys()
    present |= {owners[i] for i in present | free_indices(domain) if i in owners}
    if present or any(True for _ in reads(result.term)):
        rounds = entry.loop.rounds
        given = {*entry.left.carried, *(one.index for one in (() if rounds is None else rounds.every))}
        for index in sorted(left - present - given, key=lambda i: i.name):
            raise FreeOnLeft(f"index `{index}` stands on the left, but nothing on the right has it", entry.span,
                             helps=(Help(f"remove `{index}` from the left"),))


def restricting(context: Context, left: frozenset[Index], entry: Entry) -> None:
    """Raises ForeignIndex for a restriction of an index that neither stands on the left nor is run over in the
    equation.
    """
    for restriction_ in context.restrictions:
        for index in sorted(free_indices(restriction_) - left - context.made.bound, key=lambda i: i.name):
            raise ForeignIndex(f"index `{index}` is restricted, but nothing in the equation has it",
                               entry.restrictions[0].span,
                               helps=(Help(f"leave it out, or sum over `{index}`"),))


def on_left(result: Value, left: frozenset[Index]) -> None:
    """Raises FreeOnRight for an index that stands free on the right and not on the left."""
    for index, found in result.free.items():
        if index not in left:
            how = f"write `Σ_{index}`" + ("" if not index.set.summed else ", or pair it with one on the other level")
            raise FreeOnRight(f"index `{index}` stands on the right, but not on the left", found[0].span, "",
                              helps=(Help(f"put `{index}` on the left, or {how}"),))


def anew(entry: Entry, start: Entry | None, rounds: Rounds) -> None:
    """Raises BadLoop for a state of rounds in each round of others that starts outside of these."""
    if rounds.around is None or rounds.index is None or start is None or start.loop.rounds is rounds.around:
        return
    signature, letter = entry.left.signature, f"`{rounds.around.index}`"
    raise BadLoop(f"the rounds begin anew in each round for {letter}, and `{signature.text}` starts outside of those",
                  entry.span, "changed here", Label(start.span, "starts here"),
                  helps=(Help(f"put what it starts with into the block for {letter}, above these rounds"),))
