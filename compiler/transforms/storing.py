"""Which values a type of few bits can store: those of which it is known that the type holds each of them.

To store is never to round: a value that is stored in fewer bits is the same value. What is known comes from the
roundings in an equation, from the types of what it copies, and from the range of what holds whole numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.ir.elements import Element
from einc.ir.narrow import NARROW, Narrow
from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Program
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, Where
from einc.transforms.normal.reach import Reaches


def holds(program: Program, key: str, element: Element) -> bool:
    """Whether every value of a tensor is known to be a number of a type of few bits."""
    assert element.narrow is not None
    return _Known(program).held(Read(key, ()), element.narrow)


@dataclass
class _Known:
    """What is known of the values of a program. A tensor that is being looked at holds what its equation is made of."""

    program: Program
    passing: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.equations = {e.target: e for e in self.program.equations}
        self.reaches = Reaches(self.equations)

    def held(self, term: Term, row: Narrow) -> bool:
        """Whether a type holds every value of a term. Every type holds 0, which a condition leaves behind. Changes
        `self.passing`."""
        match term:
            case Apply(op) if op in NARROW and _within(NARROW[op], row):
                return True
            case Where(_, then):
                return self.held(then, row)
            case Apply("max" | "min" | "nonpositive" | "relative" | "exact", args):
                return all(self.held(a, row) for a in args)
            case Fold():
                return False  # what a fold makes keeps all bits of the data
            case Read(tensor) if (found := self.program.tensors[tensor].element.narrow) is not None:
                return _within(found, row)
            case Read(tensor) if tensor in self.equations and tensor not in self.passing:
                self.passing.add(tensor)
                known = self.held(self.equations[tensor].body, row)
                self.passing.discard(tensor)
                if known:
                    return True
        low, high = self.reaches.interval(term)
        most = 2 ** (row.bits + 1)  # the whole numbers up to here are among its own
        return self.whole(term) and max(row.low, -most) <= low and high <= min(row.high, most)

    def whole(self, term: Term) -> bool:
        """Whether every value of a term is a whole number. Changes `self.looked`."""
        match term:
            case Const(value):
                return value == value // 1
            case Size() | Position():
                return True
            case Where(_, then):
                return self.whole(then)
            case Read(tensor):
                found = self.program.tensors[tensor]
                if found.integer or (found.element.narrow is not None and found.element.narrow.whole):
                    return True
                if tensor not in self.equations or tensor in self.looked:
                    return False  # what reads itself may hold anything
                self.looked.add(tensor)
                known = self.whole(self.equations[tensor].body)
                self.looked.discard(tensor)
                return known
            case Apply("floor" | "ceil"):
                return True
            case Apply(op) if op in NARROW:
                return NARROW[op].whole
            case Apply(op, args):
                return PRIMITIVES[op].exact and PRIMITIVES[op].kind == "value" and all(map(self.whole, args))
        return False


def _within(inner: Narrow, outer: Narrow) -> bool:
    """Whether each number of one type is one of another."""
    return (inner.bits <= outer.bits and inner.least - inner.bits >= outer.least - outer.bits
            and outer.low <= inner.low and inner.high <= outer.high)
