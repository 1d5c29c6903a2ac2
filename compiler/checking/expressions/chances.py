"""`uniform(x, seed)`: a number in [0, 1) for each element of x, made of the seed, of
where it is written, and of positions.

Nothing else goes into it: no tile, no order of work, no state. Two calls differ by the name of what they
stand in, so that lines may change their order and others may be added. Batch and request indices have no
values in the language, but here their number may serve: nobody can read a position off it. A composite index
counts as it is written, as one index or as two.
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from einc.checking.declarations.names import index_name
from einc.checking.declarations.scope import UNIFORM
from einc.checking.expressions.values import Context, Occurrence, Value, merged, once
from einc.errors.problems import WrongArguments
from einc.errors.report import Help, Span
from einc.ir.indices import Index
from einc.ir.terms import Apply, Position, Read, Term, const, free_indices, walk
from einc.syntax import tree as s


def uniform(context: Context, group: s.Group, span: Span) -> Value:
    """The seed hashed with the place in the program, then with the position of each index of the first argument. Raises
    WrongArguments."""
    if len(group.items) != 2:
        raise WrongArguments(f"`{UNIFORM}` takes 2 arguments, not {len(group.items)}", span,
                             notes=(f"`{UNIFORM}(x, seed)` is a number in [0, 1) for each element of x",))
    of, seed = once(context.value(group.items[0])), counted(context, group.items[1])
    place = crc32(context.made.fresh(f"{context.owner}_{UNIFORM}").encode()) >> 1
    numbers: list[Term] = [seed.term, const(place), *map(Position, _indices(context, of.term))]
    made = numbers[0]
    for number in numbers[1:-1]:
        made = Apply("hash", (made, number))
    return once(merged([of, seed], Apply("chance", (made, numbers[-1])), seed.domain))


def counted(context: Context, node: s.Expression) -> Value:
    """An argument that is a whole number, or an index of any class. Raises WrongArguments."""
    name = index_name(node)
    bound = {p.name.text for p in context.inside.params}
    index = context.indices.get(name) if name is not None and name not in bound else None
    if index is not None:
        return Value(Position(index), free={index: (Occurrence("label", node.span),)}, integer=True)
    found = once(context.value(node))
    if not found.integer:
        raise WrongArguments(f"`{node.span.text}` is not always a whole number", node.span,
                             helps=(Help("declare what is given `: int`, or round it with `floor`"),))
    return replace(found, integer=True)


def _indices(context: Context, term: Term) -> list[Index]:
    """The free indices in the order they are first written, those of time last: a pass
    over time mixes each element once.

    A round that takes one element counts too: what it makes has no index for it.
    """
    free = free_indices(term)
    helpers = {e.target: e.body for e in context.made.equations}
    body = helpers.get(term.tensor, term) if isinstance(term, Read) else term
    written = [x.index for root in (body, term) for x in walk(root) if isinstance(x, Position) and x.index in free]
    rounds = context.loop.rounds
    round_ = [one.index for one in (() if rounds is None else rounds.every) if not one.block and one.index is not None]
    return sorted(dict.fromkeys([*round_, *written]), key=lambda i: i.set.cls == "time")
