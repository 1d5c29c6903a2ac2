"""Factors that are 1 or 0: a product with one is a choice, which needs no memory and no multiplication of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einc.ir.plan import Let, Map, Scalar, Select
from einc.ir.terms import ONE


def indicator(lets: Mapping[str, Let], args: Sequence[str]) -> tuple[str, str, str] | None:
    """An indicator among the factors of a sum, its condition, and another factor that has all its axes."""
    for arg in args:
        match lets[arg]:
            case Let(op=Select(0.0, None), args=(guard, one)) if _is_one(lets, one):
                for other in args:
                    if other != arg and lets[other].kind == "real" and set(lets[arg].axes) <= set(lets[other].axes):
                        return arg, guard, other
    return None


def _is_one(lets: Mapping[str, Let], value: str) -> bool:
    let = lets[value]
    return let.op == Map("spread") and lets[let.args[0]].op == Scalar(ONE)
