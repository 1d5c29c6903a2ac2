"""An operation with one of the lets it reads under another name."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from einc.ir.plan import (
    Along,
    Before,
    Computed,
    Dot,
    Load,
    Map,
    Op,
    Packed,
    Place,
    Reduce,
    Scalar,
    Scan,
    Select,
    Subscript,
    Tally,
    Within,
    arguments,
)


def renamed(op: Op, old: str, new: str) -> Op:
    """The operation with one of the lets it reads under another name."""
    if old not in arguments(op):
        return op
    match op:
        case Load(buffer, subs):
            return Load(buffer, tuple(_renamed(s, old, new) for s in subs))
        case Map(name, args):
            return Map(name, tuple(new if a == old else a for a in args))
        case Dot(args):
            return replace(op, args=tuple(new if a == old else a for a in args))
        case Reduce() | Scan():
            return replace(op, arg=new)
        case Select(condition, then):
            return replace(op, condition=new if condition == old else condition, then=new if then == old else then)
        case Tally(arg, number):
            return replace(op, arg=new if arg == old else arg, number=new if number == old else number)
        case Place() | Scalar() | Before():
            return op
    assert_never(op)


def _renamed(sub: Subscript, old: str, new: str) -> Subscript:
    match sub:
        case Packed(parts, sets):
            return Packed(tuple(_renamed(p, old, new) for p in parts), sets)
        case Within(item):
            return replace(sub, item=_renamed(item, old, new))
        case Computed(value):
            return replace(sub, value=new if value == old else value)
        case Along():
            return sub
    assert_never(sub)
