"""Families that a document writes as sets: `\\Theta = \\{\\theta_i = 10000^{-2(i-1)/d}, i \\in [1, 2, …, d/2]\\}`."""

from __future__ import annotations

from einc.checking.declarations.names import head
from einc.syntax import tree as s


def members(body: s.Expression) -> tuple[s.Relation, s.Relation] | None:
    """The equation of the members of a set that an equation names, and the range of their letter; None for others."""
    match body:
        case s.Relation((name, s.Group("{", "}", (s.Relation((member, _), ("=",)) as equation, s.Relation(
                (letter, _), ("in",)) as over))), ("=",)) if head(name) and head(member) and isinstance(letter, s.Word):
            return equation, over
    return None


def named(body: s.Expression) -> bool:
    """Whether an equation says no more than how the members of a set are named: `Q = \\{q_i\\}`."""
    match body:
        case s.Relation((name, s.Group("{", "}", (s.Scripted() as member,))), ("=",)):
            return head(name) is not None and head(member) is not None
    return False
