"""A hyperbolic tangent from which only exponents are made, by one exponential and one reciprocal.

tanh x = 1 - 2 / (1 + exp 2x) loses digits near 0, where it is right to the last digit of a 1 only. Under an exponent
that is what counts: what is added to it, not how many times larger it is than it should be. For data of float32 those
digits are of use, and the function that is called keeps them. Numbers that the tangent
and its argument are multiplied with are one number each then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einc.backends.host.code import NONNEGATIVE, POSITIVE
from einc.backends.host.lets import referred
from einc.backends.host.scalars import scalar
from einc.ir.plan import Kernel, Let, Map, Op, Reduce, Scalar, Select
from einc.ir.terms import Apply, Const, Term

TANGENT = "tangent"  # of x, the hyperbolic tangent of x / (2 log2 e)
_TWICE = 2 * math.log2(math.e)  # exp 2x is 2 to the power of so many x
_MOST = 1e38  # a number that 0 times is 0, in the place of an infinite one


def shortened(kernel: Kernel) -> Kernel:
    """The kernel with such tangents written out; the kernel itself where it has none."""
    lets = {let.name: let for let in kernel.lets}
    found = [let for let in kernel.lets
             if let.op == Map("tanh") and let.kind == "real" and _exponents(kernel, lets, let.name)]
    if not found:
        return kernel
    work = _Writing(kernel, lets)
    for let in kernel.lets:
        work.tangent(let) if let in found else work.lets.append(let)
    return replace(kernel, lets=_needed(kernel, work.lets))


def _exponents(kernel: Kernel, lets: Mapping[str, Let], name: str) -> bool:
    """Whether exponents are all that is made of a let, by steps that keep how far it is off, or by a number at most."""
    users = [let for let in kernel.lets if name in let.reads]
    stored = any(store.value == name for store in kernel.stores)
    return bool(users) and not stored and all(_keeps(kernel, lets, let, name) for let in users)


def _keeps(kernel: Kernel, lets: Mapping[str, Let], let: Let, name: str) -> bool:
    """Whether a let makes exponents alone of `name`, which it reads, as `_exponents` asks of all that read one."""
    match let.op:
        case Map("exp" | "exp2"):
            return True
        case Map("add" | "sub" | "neg"):
            return _exponents(kernel, lets, let.name)
        case Map("mul"):
            return (all(isinstance(lets[a].op, Scalar) for a in let.args if a != name) and let.args.count(name) == 1
                    and _exponents(kernel, lets, let.name))
        case Select():
            return let.args[1] == name and _exponents(kernel, lets, let.name)
        case Reduce(fold="max"):
            return referred(kernel, let.name)  # exponents are relative to it
    return False


def _needed(kernel: Kernel, lets: list[Let]) -> tuple[Let, ...]:
    """The lets that something is made of."""
    while True:
        read = {name for let in lets for name in let.reads} | {store.value for store in kernel.stores}
        kept = [let for let in lets if let.name in read or let.carry is not None]
        if len(kept) == len(lets):
            return tuple(lets)
        lets = kept


@dataclass
class _Writing:
    """The lets of the kernel that is written."""

    kernel: Kernel
    known: dict[str, Let]
    lets: list[Let] = field(default_factory=list)

    def tangent(self, let: Let) -> None:
        """Appends a tangent of what is multiplied with all numbers at once."""
        inner, factor = self._factors(let.args[0], Const(_TWICE))
        power = self._new(Map("mul"), let, inner, self._number(factor))
        self.lets.append(replace(let, op=Map(TANGENT), args=(power,)))

    def _factors(self, name: str, factor: Term) -> tuple[str, Term]:
        """What a let multiplies or divides by numbers, and these with the factor as one number."""
        let = self.known[name]
        numbers = [self.known[a].op for a in let.args]
        match let.op, numbers:
            case Map("div"), [_, Scalar(below)]:
                made: Term = Apply("div", (factor, below))
                if scalar(below).sign < POSITIVE:
                    made = Apply("min", (made, Const(_MOST)))
                if scalar(below).sign >= NONNEGATIVE:
                    return self._factors(let.args[0], made)
            case Map("mul"), [_, Scalar(times)]:
                return self._factors(let.args[0], Apply("mul", (factor, times)))
            case Map("mul"), [Scalar(times), _]:
                return self._factors(let.args[1], Apply("mul", (factor, times)))
        return name, factor

    def _number(self, term: Term) -> str:
        return self._append(Let(self._name(), (), "scalar", Scalar(term), ()))

    def _new(self, op: Op, like: Let, *args: str) -> str:
        return self._append(Let(self._name(), like.axes, like.kind, op, args))

    def _append(self, let: Let) -> str:
        self.known[let.name] = let
        self.lets.append(let)
        return let.name

    def _name(self) -> str:
        count = len(self.known)
        return next(f"_{n}" for n in range(count, 2 * count + 1) if f"_{n}" not in self.known)
