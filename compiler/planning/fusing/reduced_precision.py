"""Which contractions may be done in the type of the data: those whose result only meets
sums and scalings before it is stored.

An error of a logit is multiplied by what an exponential makes of it; an error of a share of a sum stays what it was.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from einc.ir.plan import Dot, Let, Load, Map, Scalar, ScatterAdd, Select, Store
from einc.ir.terms import ZERO


def mark_roundable(lets: tuple[Let, ...], stores: Iterable[Store], wide: Container[str], ranged: Container[str],
                   every: bool = False) -> tuple[Let, ...]:
    """The lets with such contractions marked, or with every one. What `wide` buffers
    hold, or are to hold, is not rounded, nor what `ranged` ones hold, which may be beyond the range."""
    by = {let.name: let for let in lets}
    kept = {s.value for s in stores if s.buffer not in wide}
    whole = {s.value for s in stores if s.buffer in wide}
    readers: dict[str, list[Let]] = {let.name: [] for let in lets}
    for let in lets:
        for name in let.reads:
            readers[name].append(let)
    linear: dict[str, bool] = {}
    for let in reversed(lets):
        linear[let.name] = let.carry is None or let.carry.fold == "sum"
        linear[let.name] &= all(_tests(let.name, x, by) or (_scales(let.name, x) and linear[x.name])
                                for x in readers[let.name])
        linear[let.name] &= (bool(readers[let.name]) or let.name in kept) and let.name not in whole
    pairs = {let.name for let in lets if isinstance(let.op, Dot) and len(let.args) == 2
             and any(isinstance(op := by[a].op, Load) and (op.buffer in wide or op.buffer in ranged) for a in let.args)}
    return tuple(_marked(let, by) if every or (linear[let.name] and let.name not in pairs) else let for let in lets)


def _marked(let: Let, lets: Mapping[str, Let]) -> Let:
    """The let marked, if it is a product of matrices: of two that each have an axis which the other lacks."""
    match let.op:
        case Dot() if let.kind == "real":
            axes = [set(lets[a].axes) for a in let.args]
            if any(a - b and b - a for a in axes for b in axes):
                return replace(let, op=replace(let.op, may_round=True))
    return let


def _tests(name: str, reader: Let, lets: Mapping[str, Let]) -> bool:
    """Whether the reader only asks if the value is zero."""
    match reader:
        case Let(op=Map("ne"), args=(value, other)):
            return value == name and lets[other].op == Scalar(ZERO)
    return False


def _scales(name: str, reader: Let) -> bool:
    """Whether the reader is linear in the value."""
    match reader:
        case Let(op=Map("add" | "sub" | "neg" | "spread")):
            return True
        case Let(op=Map("mul")):
            return reader.args.count(name) == 1
        case Let(op=Map("div") | ScatterAdd(), args=(first, second)):
            return first == name != second
        case Let(op=Select(), args=(condition, then)):
            return then == name and condition != name
    return False
