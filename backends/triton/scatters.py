"""Sums by a number: each element of a tile is added to the one of the result that its number names."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, Code
from einc.backends.triton.folds import Folder
from einc.backends.triton.loads import Shape
from einc.ir.plan import Let, ScatterAdd


@dataclass
class ScatterWriter(Folder):
    """A folder that writes such sums."""

    def scatter_add(self, let: Let, op: ScatterAdd, total: str) -> str:
        """The total with the elements of this tile. Changes `self.helpers`."""
        neutral = self._neutral(let)
        arg, number = let.args
        shape, folded = self.shape(arg), self.folded_dims(let)
        kept = tuple(d for d in shape if d not in folded)
        named = self.layout.dim(op.axis)
        helper = {0: "_tally", 1: "_tally_rows"}.get(len(kept)) if named is not None else None
        if helper is not None and (not kept or (shape[:1] == kept and len(folded) == 1)):
            self.helpers.add(helper)
            count = self.arguments.size(self.sets[op.axis].extent)
            x = self._operand(arg, neutral, let.kind, shape)
            return f"{helper}({total}, {self.place.at[op.axis]}, {count}, {self.aligned(number, shape).text}, {x.text})"
        whole: Shape = self.layout.shape((*self.lets[arg].axes, op.axis))
        x = self._operand(arg, neutral, let.kind, whole)
        at = self.place.at[op.axis] + (self.marks((named,), whole) if named is not None else "")
        same = f"{self.aligned(number, whole).at(ATOM)} == {at}"
        return f"{total} + {self._reduced(Code(f'tl.where({same}, {x.text}, 0.0)'), 'sum', whole, folded).text}"
