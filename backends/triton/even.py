"""What grows evenly from place to place of the axis that a program passes over: sums of positions, and such sums times
what stays as it is.

Such a value is one number of a row at the first place of a tile, and how far each place is from there, which is the
same in all tiles: neither needs the exact arithmetic that the value itself is declared in.
"""

from __future__ import annotations

from collections.abc import Mapping

from einc.ir.plan import Iota, Kernel, Let, Map

Lets = Mapping[str, Let]


def grows(lets: Lets, name: str, passed: tuple[str, ...]) -> bool:
    """Whether a let grows evenly along the first of the axes that are passed."""
    let = lets[name]
    if not set(let.axes) & {*passed}:
        return False
    if let.kind == "exact" and let.op == Map("mul"):
        moving = [a for a in let.args if set(lets[a].axes) & {*passed}]
        still = [a for a in let.args if a not in moving]
        return len(moving) == 1 and _sums(lets, moving[0], passed) and all(_stays(lets, a, passed) for a in still)
    return _sums(lets, name, passed)


def _sums(lets: Lets, name: str, passed: tuple[str, ...]) -> bool:
    """Whether a let is a sum of positions and of whole numbers that stay."""
    let = lets[name]
    if not set(let.axes) & {*passed}:
        return let.kind in ("integer", "scalar") and _stays(lets, name, passed)
    if let.kind != "integer":
        return False
    match let.op:
        case Iota(axis):
            return axis == passed[0]
        case Map("add" | "sub") if len(let.args) == 2:
            return all(_sums(lets, a, passed) for a in let.args)
    return False


def _stays(lets: Lets, name: str, passed: tuple[str, ...]) -> bool:
    """Whether nothing that a let is made of moves in the pass."""
    return not set(lets[name].axes) & {*passed} and all(_stays(lets, a, passed) for a in lets[name].reads)


def moved_by(lets: Lets, let: Let, passed: tuple[str, ...]) -> int | None:
    """Which operand of a real sum or difference grows evenly, beside one that moves in another way."""
    if let.op not in (Map("add"), Map("sub")) or let.kind != "real" or len(let.args) != 2:
        return None
    for n, name in enumerate(let.args):
        other = lets[let.args[1 - n]]
        if other.kind == "real" and set(other.axes) & {*passed} and lets[name].kind != "real" and (
                grows(lets, name, passed)):
            return n
    return None


def apart(kernel: Kernel, lets: Lets, name: str, passed: tuple[str, ...]) -> bool:
    """Whether a let grows evenly and is only what others are moved by, or made of for that: no tile holds it."""
    if not grows(lets, name, passed):
        return False
    users = [x for x in kernel.lets if name in x.reads]
    return bool(users) and all(_moves(lets, x, name, passed) or apart(kernel, lets, x.name, passed) for x in users)


def _moves(lets: Lets, let: Let, name: str, passed: tuple[str, ...]) -> bool:
    """Whether a let is a sum or a difference whose operand of this name is what moves it."""
    which = moved_by(lets, let, passed)
    return which is not None and let.args[which] == name
