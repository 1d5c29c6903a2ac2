"""Contractions: matrix products where the axes are batches, rows, columns and sums; einsum for every other pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.backends.host.code import ATOM, Code
from einc.backends.host.pointwise import Axes, aligned, pair, summed, within
from einc.backends.torch.loads import Reader
from einc.ir.plan import Dot, Let, Load


@dataclass
class Multiplier(Reader):
    """The part of the scribe that writes contractions."""

    def extent(self, axis: str) -> str:
        """The extent of an axis within the tile; the scribe knows how."""
        raise NotImplementedError(axis)

    def dot(self, let: Let, op: Dot) -> Code:
        """A contraction. In a tiled kernel one that may round its operands is converted to the wide type, unless it is
        merged into a carry, which has that type.
        """
        made = self._product(let, let.args, op.over)
        if self.tile.tiled and op.may_round and let.carry is None:
            return self._into(let.name, made, "wide")
        return made

    def _into(self, name: str, code: Code, kind: str) -> Code:
        """A value in another type, in memory that every tile uses again where there is some."""
        if (name, kind) not in self.again.converted:
            return Code(f"{code.at(ATOM)}.to({kind})", ATOM, kind == "wide")
        self.helpers.add("_into")
        return Code(f"_into({self.again.converted[name, kind]}, {code.text})", ATOM, kind == "wide")

    def _product(self, let: Let, args: tuple[str, ...], over: tuple[str, ...]) -> Code:
        """The sum over some axes of the product of the named lets, in the order of the result's axes. The shapes decide
        how: a sum, a sum of products point by point, `matmul`, or `einsum` for all others.
        """
        operands = _paired([self._operand(a, let) for a in args], let.axes)
        if len(operands) == 1:
            text, axes = operands[0]
            dims = [n for n, a in enumerate(axes) if a in over]
            total = f"{text.at(ATOM)}.sum({dims[0] if len(dims) == 1 else tuple(dims)})"
            return self._permuted(Code(total, ATOM, True), tuple(a for a in axes if a not in over), let.axes)
        first, *others = sorted(operands, key=lambda o: -len(o[1]))
        if len(others) == 1 and over and within(first[1], others[0][1], let.axes):
            return Code(summed(_times(first, others[0]), first[1], let.axes), ATOM, True)
        if len(operands) == 2 and (product := self._matmul(let, operands, over)) is not None:
            return product
        left = ",".join("".join(self.letters[a] for a in axes) for _, axes in operands)
        out = "".join(self.letters[a] for a in let.axes)
        return Code(f'torch.einsum("{left}->{out}", {", ".join(c.text for c, _ in operands)})', ATOM, True)

    def _matmul(self, let: Let, operands: list[tuple[Code, tuple[str, ...]]], over: tuple[str, ...]) -> Code | None:
        """A batched matrix product: batches, then rows, then columns, each of any number of axes; None for other
        patterns. Changes `self.helpers`."""
        if not self.tile.inside or not over or let.kind != "real":
            return None
        codes = [self._codes(a) for a in let.args]
        whole = all(codes) and len(codes) == 2
        (a, left), (b, right) = [x for x in codes if x is not None] if whole else operands
        if not let.axes or not set(over) <= set(left) & set(right):
            return None
        if let.axes[-1] in left:
            (a, left), (b, right) = (b, right), (a, left)
        batch, rows, columns = (
            tuple(x for x in let.axes if (x in left, x in right) == kind)
            for kind in ((True, True), (True, False), (False, True))
        )
        if (*batch, *rows, *columns) != let.axes or not rows or not columns:
            return None
        if {*left} != {*batch, *rows, *over} or {*right} != {*batch, *columns, *over}:
            return None
        stream = self.kernel.stream.name if self.kernel.stream is not None and self.again.near else None
        passed = stream in columns or (stream in over and let.carry is not None)
        bare = Code(b.raw) if b.raw and passed else b
        first = self._merged(self._permuted(a, left, (*batch, *rows, *over)), len(batch), len(rows), len(over))
        second = self._merged(self._permuted(bare, right, (*batch, *over, *columns)), len(batch), len(over),
                              len(columns))
        memory = self.again.memory.get(let.name)
        out = ""
        if memory is not None:
            shape = ", ".join([*(self.extent(x) for x in batch), self._volume(rows), self._volume(columns)])
            out = f", out={memory}[: {self._volume(let.axes)}].view({shape})"
        text = f"torch.matmul({first.text}, {second.text}{out})"
        if whole:
            self.helpers.add("_whole_product")
            text = f"_whole_product({first.text}, {second.text}, {self.real}{out})"
        elif passed:
            self.helpers |= {"_shares" if stream in over else "_columns"}
            helper = "_columns" if stream in columns else "_shares"
            text = f"{helper}({self.again.near}, {first.text}, {second.text}{out})"
        for axes, at in ((columns, -1), (rows, -1 - len(columns))):
            if len(axes) > 1:
                text += f".unflatten({at}, ({', '.join(self.extent(x) for x in axes)}))"
        return Code(text, ATOM, True)

    def _codes(self, name: str) -> tuple[Code, tuple[str, ...]] | None:
        """An operand that is stored as whole numbers of few bits, as it lies; None for every other."""
        let = self.lets[name]
        if not isinstance(let.op, Load) or name in self.variables:
            return None
        found = self.module.buffers[let.op.buffer].element.narrow
        return self.raw(let) if found is not None and found.whole else None

    def _merged(self, code: Code, batch: int, first: int, second: int) -> Code:
        """The axes after the batches as two: the first so many as one, the others as one."""
        text = code.at(ATOM)
        if second > 1:
            text += f".flatten({batch + first}, {batch + first + second - 1})"
        if first > 1:
            text += f".flatten({batch}, {batch + first - 1})"
        return Code(text, ATOM, code.fresh) if text != code.at(ATOM) else code

    def _volume(self, axes: tuple[str, ...]) -> str:
        extents = [self.extent(x) for x in axes]
        return extents[0] if len(extents) == 1 else " * ".join(f"({e})" if " " in e else e for e in extents)

    def _operand(self, name: str, out: Let) -> tuple[Code, tuple[str, ...]]:
        """An operand of a contraction, with its axes in the order in which it lies."""
        let = self.lets[name]
        may_round = self.tile.tiled and isinstance(out.op, Dot) and out.op.may_round
        if isinstance(let.op, Load) and name not in self.variables:
            code, axes = self.raw(let)
            code = code if may_round else self._widened(code, let.op)
        else:
            code, axes = self.value(name), let.axes
        if may_round:
            return replace(self._into(name, code, "ranged"), raw=code.at(ATOM) if isinstance(let.op, Load)
                           else ""), axes
        if out.kind == "real" and let.kind in ("exact", "integer"):
            code = Code(f"{code.at(ATOM)}.to({self.real})")
        elif out.kind == "exact" and let.kind == "integer":
            code = Code(f"{code.at(ATOM)}.double()")
        return code, axes


def _paired(operands: list[tuple[Code, Axes]], out: Axes) -> list[tuple[Code, Axes]]:
    """The operands; of more than two, those that lie within others are multiplied with these."""
    while len(operands) > 2 and (two := pair([axes for _, axes in operands], out)) is not None:
        first, second = (operands[n] for n in two)
        made = Code(_times(first, second), ATOM, True)
        operands = [*(o for n, o in enumerate(operands) if n not in two), (made, first[1])]
    return operands


def _times(first: tuple[Code, Axes], second: tuple[Code, Axes]) -> str:
    """A product point by point, of which the first operand has all axes."""
    return f"({first[0].at(ATOM)} * {aligned(second[0].at(ATOM), second[1], first[1])})"
