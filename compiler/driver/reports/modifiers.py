"""A term at one place as an expression of Python: what a library calls with a score and the numbers of a place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.driver.reports.einsums import JOINED, SAME, SIGNS, UNSAID, UnsaidError, python
from einc.driver.reports.scores import SCORE
from einc.ir.indices import Index
from einc.ir.programs import Program
from einc.ir.terms import Apply, Const, Pack, Position, Read, Size, Term, Where

_SHIFTS = {"sub", "le", "lt", "eq", "ne"}  # what is the same of two places that count from another number


@dataclass(frozen=True)
class _Said:
    """An expression; whether it is a tensor, whether it is a whole number, and whether it needs no parentheses. Of a
    place that does not count from 0, `base` is what is counted from there, and `start` what the text adds.
    """

    text: str
    tensor: bool
    whole: bool = False
    simple: bool = True
    base: str = ""
    start: int = 0

    @property
    def inner(self) -> str:
        """The text as a part of another."""
        return self.text if self.simple else f"({self.text})"


@dataclass(frozen=True)
class Modifier:
    """`letters` are the names of the places, which count from 0; `score` is the name of the score, if there is one;
    `names` are what some tensors are called.
    """

    program: Program
    letters: Mapping[Index, str]
    score: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    def text(self, term: Term) -> str:
        """The expression. UnsaidError for what is none at one place."""
        return self._said(term).text

    def _said(self, term: Term) -> _Said:
        """A term as an expression, with what is known of that. Raises UnsaidError."""
        match term:
            case Const(value):
                return _number(value)
            case Size(extent):
                text = python(extent)
                return _Said(text, False, True, text.isidentifier() or text.isdigit())
            case Position(index):
                start = index.set.start
                base = self.letters[index]
                return _Said(f"{base} + {start}" if start else base, True, True, not start, base, start)
            case Read() if term == SCORE:
                return _Said(self.score, True)
            case Read(key, subs):
                return self._read(key, subs)
            case Where(condition, then):
                return self._where(self._said(condition), self._said(then))
            case Apply("floor" | "ceil" as op, (Apply("div", (above, below)),)):
                return self._rounded(op, self._said(above), self._said(below))
            case Apply(op, args):
                return self._applied(op, [self._said(a) for a in args])
        raise UnsaidError("a sum between its two products")

    def _read(self, key: str, subs: Sequence[Term]) -> _Said:
        tensor, key = self.program.tensors[key], self.names.get(key, key)
        at = [self._place(sub, slot.set.start, f"{key}.shape[{n}] - 1")
              for n, (sub, slot) in enumerate(zip(subs, tensor.slots, strict=True))]
        return _Said(f"{key}[{', '.join(at)}]" if at else key, True, tensor.integer)

    def _place(self, sub: Term, start: int, last: str) -> str:
        """A subscript, which counts from 0. A computed one that a condition hides is the nearest place there is."""
        match sub:
            case Position(index) if index.set.start == start:
                return self.letters[index]
            case Const(value):
                return str(int(value) - start)
            case Pack(parts, sets, _):
                text = ""
                for part, of in zip(parts, sets, strict=True):
                    own = self._place(part, of.start, f"{python(of.extent)} - 1")
                    text = f"({text}) * ({python(of.extent)}) + {own}" if text else own
                return text
        found = self._said(sub)
        if not found.tensor:
            return f"{found.inner} - {start}"
        whole = found.inner if found.whole else f"{found.inner}.long()"
        return f"({whole} - {start}).clamp(0, {last})" if start else f"{whole}.clamp(0, {last})"

    def _real(self, found: _Said) -> str:
        """A number that is no whole one, in the type of the score where that is known."""
        return f"{found.inner}.to({self.score}.dtype)" if found.tensor and found.whole and self.score else found.inner

    def _where(self, condition: _Said, then: _Said) -> _Said:
        if then.tensor:
            return _Said(f"torch.where({condition.text}, {then.text}, 0)", True, then.whole)
        return _Said(f"{self._real(_Said(condition.inner, condition.tensor, True))} * {then.inner}", condition.tensor,
                     then.whole, False)

    def _rounded(self, op: str, above: _Said, below: _Said) -> _Said:
        """A quotient that is rounded: of whole numbers exactly."""
        if above.whole and below.whole:
            text = f"{above.inner} // {below.inner}" if op == "floor" else f"-(-{above.inner} // {below.inner})"
            return _Said(text, above.tensor or below.tensor, True, False)
        return self._applied(op, [self._applied("div", [above, below])])

    def _applied(self, op: str, args: Sequence[_Said]) -> _Said:
        """A function or a sign of numbers and tensors. Raises UnsaidError."""
        tensor, whole = any(a.tensor for a in args), all(a.whole for a in args)
        if op in UNSAID:
            raise UnsaidError(f"`{op}`")
        if op in SAME:
            return args[0]
        if op in {"neg", "not"}:
            return _Said(f"{'-' if op == 'neg' else '~'}{args[0].inner}", tensor, whole, False)
        if op in {"div", "pow", "power"}:
            left, right = (self._real(a) if whole else a.inner for a in args)
            return _Said(f"{left} {'/' if op == 'div' else '**'} {right}", tensor, False, False)
        if op in _SHIFTS and args[0].base and args[1].base and args[0].start == args[1].start:
            args = [replace(a, text=a.base, simple=True) for a in args]
        if op in SIGNS:
            return _Said(f" {SIGNS[op]} ".join(a.inner for a in args), tensor, whole, False)
        if op in JOINED:
            return self._joined(op, args)
        if not tensor:
            return _Said(f"math.{op}({args[0].text})", False)
        return _Said(f"torch.{op}({', '.join(self._real(a) for a in args)})", True)

    def _joined(self, op: str, args: Sequence[_Said]) -> _Said:
        """The greatest or the least of several."""
        found = args[0]
        for other in args[1:]:
            whole = found.whole and other.whole
            if not found.tensor and not other.tensor:
                found = _Said(f"{op}({found.text}, {other.text})", False, whole)
            elif found.tensor and other.tensor:
                found = _Said(f"torch.{JOINED[op]}({found.text}, {other.text})", True, whole)
            else:
                one, number = (found, other) if found.tensor else (other, found)
                found = _Said(f"{one.inner}.clamp({'min' if op == 'max' else 'max'}={number.text})", True, whole)
        return found


def _number(value: Fraction | float) -> _Said:
    if isinstance(value, float) and math.isinf(value):
        return _Said("math.inf" if value > 0 else "-math.inf", False, False, value > 0)
    if isinstance(value, Fraction) and value.denominator == 1:
        return _Said(str(value.numerator), False, True, value >= 0)
    return _Said(repr(float(value)), False, False, value >= 0)
