"""Sums of which each place of an axis has one term: the terms laid side by side."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, Code
from einc.backends.torch.loads import Reader
from einc.ir.plan import Iota, Let, Map, Scalar, Select
from einc.ir.terms import Const


@dataclass
class Stacker(Reader):
    """A reader that writes such sums."""

    def stacked(self, let: Let, args: tuple[str, ...]) -> Code | None:
        """1[1 = p] x + 1[2 = p] y along an axis p of two places is x beside y; None for other sums."""
        found = [self._placed_at(a) for a in args]
        places = {f for f in found if f is not None}
        axes = {axis for axis, _ in places}
        if len(places) < len(args) or len(axes) != 1:
            return None
        (axis,) = axes
        set_, rest = self.sets[axis], tuple(a for a in let.axes if a != axis)
        parts = {place - set_.start: one
                 for (_, place), one in zip(sorted(places), self._selected_terms(args, found), strict=True)}
        count = len(args)
        whole = axis not in self.tile.ranges and set_.extent.constant == count and parts.keys() == {*range(count)}
        if not whole or any(set(self.lets[p].axes) != set(rest) for p in parts.values()):
            return None
        texts = ", ".join(self._permuted(self.value(p), self.lets[p].axes, rest).text for p in parts.values())
        return Code(f"torch.stack(({texts}), {let.axes.index(axis)})", ATOM, True)

    def _selected_terms(self, args: tuple[str, ...], found: list[tuple[str, int] | None]) -> list[str]:
        """The values of the selections in the order of their places."""
        order = sorted(range(len(args)), key=lambda n: found[n] or ("", 0))
        return [let.args[1] for n in order if isinstance((let := self.lets[args[n]]).op, Select)]

    def _placed_at(self, name: str) -> tuple[str, int] | None:
        """The axis and the place at which alone a let is not 0."""
        op, args = self.lets[name].op, self.lets[name].args
        if name in self.variables or not isinstance(op, Select) or op.otherwise != 0:
            return None
        match self.lets[args[0]]:
            case Let(op=Map("eq"), args=(a, b)):
                for one, other in ((a, b), (b, a)):
                    match self.lets[one].op, self.lets[other].op:
                        case Scalar(Const(number)), Iota(axis) if number == int(number):
                            return axis, int(number)
        return None
