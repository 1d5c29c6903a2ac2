"""A program point by point on single numbers of torch: nothing is read, divided or compared that no result asks for.

It shares no code with the interpreter, and torch differentiates it. For programs of plain letters, without rounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import torch

from einc.ir.folds import FOLDS
from einc.ir.indices import Index, IndexSet
from einc.ir.programs import Program
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, Truth, Where

Value = Any  # a whole number or a truth value of Python, or a number of torch
Point = Mapping[Index, int]


class Naive:
    """The values of one program for inputs by name; `inputs` are tensors of torch, whole
    numbers in those of integers."""

    def __init__(self, program: Program, inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int]) -> None:
        self.program, self.inputs, self.sizes = program, inputs, sizes
        self.known: dict[tuple[str, tuple[int, ...]], Value] = {}

    def outputs(self) -> dict[str, torch.Tensor]:
        """Every output as a tensor."""
        out = {}
        for name, key in self.program.outputs:
            shape = [int(slot.set.extent.at(self.sizes)) for slot in self.program.tensors[key].slots]
            places = itertools.product(*(self.range(slot.set) for slot in self.program.tensors[key].slots))
            found = [torch.as_tensor(self.element(key, place), dtype=torch.float64) for place in places]
            out[name] = torch.stack(found).reshape(shape) if found else torch.zeros(shape, dtype=torch.float64)
        return out

    def range(self, over: IndexSet) -> range:
        return range(over.start, over.start + int(over.extent.at(self.sizes)))

    def element(self, key: str, place: tuple[int, ...]) -> Value:
        """An element of a tensor: 0 where it does not exist."""
        if key in self.inputs:
            starts = (slot.set.start for slot in self.program.tensors[key].slots)
            assert all(n in self.range(slot.set)
                       for n, slot in zip(place, self.program.tensors[key].slots, strict=True))
            found = self.inputs[key][tuple(n - start for n, start in zip(place, starts, strict=True))]
            return found if found.is_floating_point() else int(found)
        if (key, place) not in self.known:
            equation = self.program.by_target[key]
            point = dict(zip(equation.indices, place, strict=True))
            self.known[key, place] = self.value(equation.body, point) if self.value(equation.domain, point) else 0
        return self.known[key, place]

    def value(self, term: Term, at: Point) -> Value:
        match term:
            case Const(value):
                return int(value) if isinstance(value, Fraction) and value.denominator == 1 else float(value)
            case Truth(value):
                return value
            case Size(extent):
                found = extent.at(self.sizes)
                return int(found) if found.denominator == 1 else float(found)
            case Position(index):
                return at[index]
            case Read(tensor, subs):
                return self.element(tensor, tuple(int(self.value(s, at)) for s in subs))
            case Where(condition, then):
                return self.value(then, at) if self.value(condition, at) else 0
            case Fold(op, bound, domain, body):
                points = ({**at, **dict(zip(bound, place, strict=True))}
                          for place in itertools.product(*(self.range(i.set) for i in bound)))
                return _folded(op, [self.value(body, p) for p in points if self.value(domain, p)])
            case Apply("and", args):
                return all(self.value(a, at) for a in sorted(args, key=_reads))
            case Apply("or", args):
                return any(self.value(a, at) for a in sorted(args, key=_reads))
            case Apply(op, args):
                return _applied(op, [self.value(a, at) for a in args])
        raise TypeError(f"{type(term).__name__} is not for this evaluation")


def _reads(term: Term) -> bool:
    """Whether a condition reads data: those that do not are asked first."""
    return "Read(" in repr(term)


def _plain(value: Value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _folded(op: str, values: list[Value]) -> Value:
    """Of several that attain a maximum each has an equal part in its slope."""
    if not values:
        return FOLDS[op].start
    match op:
        case "sum":
            return sum(values)
        case "prod":
            return math.prod(values)
        case "max" | "min":
            best = (max if op == "max" else min)(map(_plain, values))
            ties = [v for v in values if _plain(v) == best]
            return sum(ties) / len(ties) if math.isfinite(best) else best
    return torch.logsumexp(torch.stack([torch.as_tensor(v, dtype=torch.float64) for v in values]), 0)


def _applied(op: str, args: list[Value]) -> Value:
    match op, args:
        case "add", _:
            return sum(args)
        case "mul", _:
            return math.prod(args)
        case "sub", (a, b):
            return a - b
        case "neg", (a,):
            return -a
        case "div", (a, b):
            return 0 if _plain(a) == 0 == _plain(b) else torch.as_tensor(a, dtype=torch.float64) / b
        case "pow", (a, b):
            return a**b
        case ("max" | "min"), _:
            return reduce(max if op == "max" else min, args)
        case "le", (a, b):
            return bool(a <= b)
        case "lt", (a, b):
            return bool(a < b)
        case "eq", (a, b):
            return bool(a == b)
        case "ne", (a, b):
            return bool(a != b)
        case "not", (a,):
            return not a
        case "mod", (a, b):
            return a % b
        case "floor", (a,):
            return math.floor(a)
        case ("exp" | "log" | "tanh" | "abs" | "sqrt" | "sin" | "cos"), (a,):
            return getattr(torch, op)(torch.as_tensor(a, dtype=torch.float64))
    raise TypeError(f"`{op}` is not for this evaluation")
