"""What a let is at the places of a tile that lie outside an axis.

Loads are 0 there and selections take what stands for a failed condition; positions are what they are. A fold may run
over such places where that makes its argument neutral; otherwise the argument is masked first. A value without the axis
counts as an ordinary number: where it is infinite, so is what the elements inside the axis make of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.backends.triton.layout import Dim
from einc.ir.folds import FOLDS
from einc.ir.plan import Dot, Let, Load, Map, Select
from einc.ir.primitives import PRIMITIVES


@dataclass(frozen=True)
class Outside:
    """Values outside one dimension. `selects`: whether the conditions of selections are made to fail there; `filled`
    are values that have been put there."""

    lets: Mapping[str, Let]
    dim: Dim
    selects: bool
    filled: Mapping[str, float] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a let runs along the dimension, by one of its axes."""
        return any(a in self.lets[name].axes for a in self.dim.axes)

    def value(self, name: str) -> float | None:
        """The number, or None where it is unknown."""
        let = self.lets[name]
        if name in self.filled:
            return self.filled[name]
        match let:
            case Let(op=Load()):
                return 0.0 if let.kind in ("real", "exact") else None
            case Let(op=Select(otherwise), args=(condition, then)):
                # A condition is made to fail by the mask only where the selection itself runs along the axis.
                return otherwise if self.selects and (self.has(condition) or self.has(then)) else None
            case Let(op=Map(op)):
                return self._map(op, let.args)
            case Let(op=Dot()):
                mine = [self.value(a) for a in let.args if self.has(a)]
                return 0.0 if 0.0 in mine and all(v is not None and math.isfinite(v) for v in mine) else None
        return None

    def _map(self, op: str, args: tuple[str, ...]) -> float | None:
        """The number that a primitive gives outside, or None where it is unknown. Operands without the dimension count
        as ordinary numbers.
        """
        known = [self.value(a) for a in args if self.has(a)]
        if not known or any(v is None for v in known):
            return None
        values = [v for v in known if v is not None]
        alone = len(known) == len(args)
        first = values[0]
        match op:
            case "real" | "exact" | "spread":
                return first
            case "mul" if 0.0 in values and all(map(math.isfinite, values)):
                return 0.0
            case "add" if alone or not all(map(math.isfinite, values)):
                return sum(values)
            case "sub" if self.has(args[0]) and math.isinf(first):
                return first if not alone or math.isfinite(values[1]) else None
            case "sub" if alone and all(map(math.isfinite, values)):
                return first - values[1]
            case "exp" | "exp2" if first == -math.inf:
                return 0.0
            case "neg" if math.isinf(first):
                return -first
            case _ if first == 0.0 and op in PRIMITIVES and alone:
                found = PRIMITIVES[op].at_zero
                return found if found is not None and math.isfinite(found) else None
        return None

    def masked(self, fold: str, args: tuple[str, ...]) -> tuple[str, ...]:
        """The arguments of a fold that have to be made neutral before it runs over the dimension."""
        mine = [a for a in args if self.has(a)]
        neutral = FOLDS[fold].start
        if len(args) == 1:
            return () if self.value(args[0]) == neutral else args
        known = {a: self.value(a) for a in mine}
        unsure = tuple(a for a, v in known.items() if v is None or not math.isfinite(v))
        return unsure if unsure or 0.0 in known.values() else tuple(mine[:1])
