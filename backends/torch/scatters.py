"""Sums by a number: each element of a value is added to the one of the result that its number names."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, Code
from einc.backends.torch.loads import Reader
from einc.ir.plan import Let, ScatterAdd


@dataclass
class ScatterWriter(Reader):
    """A reader that writes such sums."""

    def extent(self, axis: str) -> str:
        """The extent of an axis within the tile; the scribe knows how."""
        raise NotImplementedError(axis)

    def scatter_add(self, let: Let, op: ScatterAdd, total: str = "") -> Code:
        """The text of a call that adds each value of a tile to the element that its index names. They are added to
        `total` where that is not empty, else to a new tensor of zeros. Adds the helper that it calls to `helpers`."""
        arg, number = (self.lets[name] for name in let.args)
        kept = tuple(a for a in let.axes if a != op.axis)
        x, index = self.value(arg.name), self.value(number.name)
        if let.kind == "real" and arg.kind == "exact":
            x = Code(f"{x.at(ATOM)}.to({self.real})")
        mine = tuple(a for a in kept if a in number.axes)
        texts = [self._permuted(code, axes, (*front, *op.over)).at(ATOM) + self._flat(len(front), len(op.over))
                 for code, axes, front in ((x, arg.axes, kept), (index, number.axes, mine))]
        if (low := self.tile.ranges.get(op.axis, ("0", ""))[0]) != "0":  # the elements of a tile count from its first
            texts[1] = f"({texts[1]} - {low})"
        if mine and mine != kept:
            texts[1] += f"[{', '.join(':' if a in mine else 'None' for a in kept)}]"
        if not total:
            shape = "".join(f"{self.extent(a)}, " for a in (*kept, op.axis))
            kind = "torch.float64" if let.kind == "exact" else self.real
            total = f"torch.zeros(({shape.rstrip()}), dtype={kind}, device=device)"
        elif let.axes != (*kept, op.axis):
            total += f".movedim({let.axes.index(op.axis)}, -1)"
        self.helpers.add("_tally")
        made = Code(f"_tally({total}, {', '.join(texts[::-1])})", ATOM, True)
        return made if ".movedim(" in total else self._permuted(made, (*kept, op.axis), let.axes)

    @staticmethod
    def _flat(first: int, count: int) -> str:
        return f".flatten({first})" if count > 1 else ""
