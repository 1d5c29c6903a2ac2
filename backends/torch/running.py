"""Folds that run along an axis: one pass gives the results of all points."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, Code
from einc.backends.host.folding import start, step
from einc.backends.torch.loads import Reader
from einc.backends.writer import sized
from einc.ir.folds import FOLDS
from einc.ir.plan import Let, Load, Scan

# torch.cumsum and so on, and what they give of it
_RUNNING = {"sum": "", "prod": "", "max": ".values", "min": ".values"}


@dataclass
class Runner(Reader):
    """A reader that writes running folds."""

    def running(self, let: Let, op: Scan) -> Code:
        """One pass along the axis; where the results stand at other points than the elements they are moved there.
        Changes `self.helpers`."""
        arg = self.lets[let.args[0]]
        plain = isinstance(arg.op, Load) and arg.name not in self.variables
        code, axes = self.raw(arg) if plain else (self.value(arg.name), arg.axes)
        if isinstance(arg.op, Load) and plain and self.module.buffers[arg.op.buffer].element.narrow is not None:
            code = self._widened(code, arg.op)
        dim = axes.index(op.over)
        text = f"{code.at(ATOM)}.flip({dim})" if op.back else code.text
        rounds = FOLDS[op.fold].rounds
        if op.fold in _RUNNING:
            text = f"torch.cum{op.fold}({text}, {dim}{', dtype=torch.float64' if rounds else ''}){_RUNNING[op.fold]}"
        else:
            self.helpers.add("_running")
            text = f"({text}).double()" if rounds else text
            text = f"_running({step(op.fold, self.helpers)}, {text}, {dim})"
        text += f".flip({dim})" if op.back else ""
        if op.shift.terms or self.sets[op.over].extent != self.sets[op.axis].extent:
            helper = "_from" if op.back else "_upto"
            self.helpers.add(helper)
            extent = sized(self.sets[op.axis].extent)
            text = f"{helper}({text}, {dim}, {sized(op.shift)}, {extent}, {start(op.fold, self.helpers)})"
        placed = tuple(op.axis if a == op.over else a for a in axes)
        return self._permuted(Code(text, ATOM, True), placed, let.axes)
