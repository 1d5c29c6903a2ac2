"""Arithmetic on memory that nobody reads afterwards: each step writes over its first operand."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, PRODUCT, UNARY, Code
from einc.backends.torch.loads import Reader
from einc.backends.torch.powers import is_far
from einc.ir.plan import Let, Map


@dataclass
class Overwriter(Reader):
    """A reader that writes such steps."""

    def in_place(self, let: Let, op: str, args: tuple[str, ...], codes: list[Code]) -> Code | None:
        """The operation on memory that nobody reads afterwards."""
        whole = [self.lets[a].axes == let.axes and self.lets[a].kind == "real" for a in args]
        first = next((n for n, c in enumerate(codes) if c.fresh and whole[n] and (n == 0 or op in ("add", "mul"))),
                     None)
        if first is None:
            return None
        text, last = codes[first].at(ATOM), None
        rest = [(a, c) for n, (a, c) in enumerate(zip(args, codes, strict=True)) if n != first]
        if not rest and is_far(let, self.lets, self.kernel):
            self.helpers.add("_normal")
            text = f"_normal({codes[first].text})"
        if not rest:
            return Code(f"{text}.{op}_()", ATOM, True)
        for arg, other in self._small_first(rest, let) if op == "mul" else rest:
            last, before = (text, op, other.text), text
            text += f".{op}_({other.text})"
            if op == "add" and other.last is not None and other.last[1] == "mul" and self._of_tensors(arg):
                last, text = None, f"{before}.addcmul_({other.last[0]}, {other.last[2]})"
        return Code(text, ATOM, True, last=last)

    def _small_first(self, factors: list[tuple[str, Code]], let: Let) -> list[tuple[str, Code]]:
        """Numbers times the smallest factor, if that is less than the whole; they are the first factors in any case."""
        numbers = [f for f in factors if self.lets[f[0]].kind == "scalar"]
        others = sorted((f for f in factors if f not in numbers), key=lambda f: len(self.lets[f[0]].axes))
        if not numbers or not others or len(self.lets[others[0][0]].axes) == len(let.axes):
            return numbers + others
        (name, code), *more = others
        text = " * ".join([code.at(PRODUCT), *(c.at(UNARY) for _, c in numbers)])
        return [(name, Code(text, PRODUCT, True)), *more]

    def _of_tensors(self, name: str) -> bool:
        """Whether a product that stands inside a text is of two tensors at least, so that the last factor is one."""
        let = self.lets[name]
        args = let.args if let.op == Map("mul") and name not in self.variables and self.tile.inside else ()
        return sum(self.lets[a].kind != "scalar" for a in args) > 1
