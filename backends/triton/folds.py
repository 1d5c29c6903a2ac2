"""Folds of one tile: products of matrices on the tensor cores where the operands have
that shape, sums of products elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from einc.backends.host.code import ATOM, PRODUCT, SUM, Code, infix
from einc.backends.host.lets import referred
from einc.backends.triton import spelling
from einc.backends.triton.layout import Dim
from einc.backends.triton.loads import Shape
from einc.backends.triton.tile import TYPES, Scribe
from einc.ir.elements import RANGED, REAL, Element
from einc.ir.folds import FOLDS
from einc.ir.plan import AxisRef, Dot, Let, Load, Map, Reduce, Scan, ScatterAdd, Subscript


@dataclass
class Folder(Scribe):
    """A scribe that writes folds. `deep` are the whole dimensions that a tile may have a part of."""

    deep: set[str] = field(default_factory=set)
    # let -> the variable and the number ≥ 0 that it is times
    scaled: dict[str, tuple[str, str]] = field(default_factory=dict)

    def folded_dims(self, let: Let) -> Shape:
        """The dimensions of the tile that a let folds over."""
        return self.layout.shape(let.over)

    def masked(self, let: Let) -> dict[str, Shape]:
        """Arguments that must be made neutral first, and outside which dimensions; those of a pass first."""
        assert isinstance(let.op, Dot | Reduce | ScatterAdd)
        args = let.args if isinstance(let.op, Dot) else let.args[:1]
        fold = let.op.fold if isinstance(let.op, Reduce) else "sum"
        out: dict[str, Shape] = {}
        for dim in self.folded_dims(let):
            if dim.role == "passed" and not self.passed.when:
                continue
            for name in self.outside(dim.name).masked(fold, args):
                if not self.arguments.is_number(name):
                    out[name] = (*out.get(name, ()), dim)
        return out

    def put(self, let: Let, wanted: str) -> None:
        """Writes a fold of this tile alone under a name. A number that scales a product waits for what uses it: it may
        be one operation with what follows, and a maximum is scaled once a row.
        """
        code, _ = self.fold(let)
        if code.factor and code.sign and let.kind == "real":
            raw = code.text
            if not raw.isidentifier():
                raw = self.arguments.names.fresh(wanted)
                self.body.statement(f"{raw} = ", code.text)
            self.keep(let.name, raw, code.factor)
            return
        text = f"{code.text} * {code.factor}" if code.factor else code.text
        if not text.isidentifier():
            self.body.statement(f"{(name := self.arguments.names.fresh(wanted))} = ", text)
            text = name
        self.variables[let.name] = Code(text)

    def keep(self, name: str, variable: str, factor: str) -> None:
        """Notes that a let is a variable times a number."""
        self.scaled[name] = (variable, factor)
        self.variables[name] = Code(f"{variable} * {factor}", PRODUCT)

    def fold(self, let: Let, merged: str = "") -> tuple[Code, bool]:
        """One tile's share of a fold, up to the factor of the code; whether `merged`,
        what came before it, is in it already."""
        neutral = self._neutral(let)
        op = let.op
        if isinstance(op, Reduce):
            arg = let.args[0]
            shape = self.shape(arg)
            if arg in self.scaled and arg not in neutral and FOLDS[op.fold].scales:
                raw, factor = self.scaled[arg]
                return Code(f"{self._reduced(Code(raw), op.fold, shape, self.folded_dims(let)).text} * {factor}",
                            PRODUCT), False
            if arg in self.shifted and arg not in neutral and FOLDS[op.fold].shifts:
                moved = self.shifted[arg]
                code = self._reduced(Code(moved.variable), op.fold, shape, self.folded_dims(let))
                return Code(f"{code.text} + {moved.by}{self.marks(moved.shape, self.shape(let.name))}", SUM), False
            code = self._operand(arg, neutral, let.kind, shape)
            quick = referred(self.kernel, let.name)  # what is no number then shows in what is relative to it
            return self._reduced(code, op.fold, shape, self.folded_dims(let), quick), False
        assert isinstance(op, Dot)
        if let.kind == "real" and (made := self._product(let, op, neutral, merged)) is not None:
            return made, bool(merged) and made.text.startswith("tl.dot(") and f", {merged}, " in made.text
        shape = self.layout.shape(tuple(a for x in let.args for a in self.lets[x].axes))
        kind = "exact" if let.kind == "exact" else "real"
        codes = [self._operand(a, neutral, kind, shape) for a in let.args]
        return self._reduced(self._by_points(codes, shape), "sum", shape, self.folded_dims(let)), False

    def _neutral(self, let: Let) -> dict[str, Code]:
        """Writes the masked arguments: under a name, with the mask where it is needed."""
        assert isinstance(let.op, Dot | Reduce | ScatterAdd)
        fold = let.op.fold if isinstance(let.op, Reduce) else "sum"
        out: dict[str, Code] = {}
        for name, dims in self.masked(let).items():
            shape, kind = self.shape(name), "exact" if let.kind == "exact" else "real"
            masks = " & ".join(f"{self.place.inside[d.name]}{self.marks((d,), shape)}" for d in dims)
            if any(d.role != "passed" for d in dims) or self.passed.when in ("", "True"):
                out[name] = Code(f"tl.where({masks}, {self.wide(name, kind).text}, {spelling.start(fold)})")
            elif self.lets[name].kind == kind and not isinstance(self.lets[name].op, Load):
                self._fill(name, masks, fold)
            else:
                out[name] = self._cleared(self.wide(name, kind).text, masks, fold)
        return out

    def _cleared(self, text: str, masks: str, fold: str) -> Code:
        """Writes a value that is neutral for a fold where the masks fail, which only tiles that are cut ask."""
        variable = self.arguments.names.fresh("x")
        self.body(f"{variable} = {text}")
        self.body(f"if {self.passed.when}:")
        self.body(f"    {variable} = tl.where({masks}, {variable}, {spelling.start(fold)})")
        return Code(variable)

    def _fill(self, name: str, masks: str, fold: str) -> None:
        """Writes a let that is neutral for a fold where the masks fail, and stays so in this tile: what is made of it
        may need no mask then."""
        start = FOLDS[fold].start
        if name in self.scaled and (start == 0 or math.isinf(start)):  # they are what they are times a number, too
            raw, factor = self.scaled[name]
            self.keep(name, self._cleared(raw, masks, fold).text, factor)
        elif name in self.shifted and math.isinf(start):
            self.shift(name, replace(self.shifted[name], variable=self._cleared(self.shifted[name].variable, masks,
                                                                                fold).text))
        else:
            self.scaled.pop(name, None)
            self.shifted.pop(name, None)
            self.variables[name] = self._cleared(self.value(name).text, masks, fold)
        self.passed.filled[name] = start

    def _operand(self, name: str, neutral: dict[str, Code], kind: str, shape: Shape) -> Code:
        code = neutral[name] if name in neutral else self.wide(name, "exact" if kind == "exact" else "real")
        if not self.shape(name) and self.lets[name].axes == () and not shape:
            return code
        return (Code(f"{code.at(ATOM)}{self.marks(self.shape(name), shape)}") if self.marks(self.shape(name), shape)
                else code)

    def _reduced(self, code: Code, fold: str, shape: Shape, over_dims: Shape, quick: bool = True) -> Code:
        """The fold over dimensions. Triton's own maximum leaves out what is no number: it
        is for what is `quick` alone."""
        text = code.text
        for n in sorted((shape.index(d) for d in over_dims), reverse=True):
            text = spelling.reduced(fold, text, n, quick, self.helpers)
        return Code(text)

    @staticmethod
    def _by_points(codes: list[Code], shape: Shape) -> Code:
        """The product of operands point by point. Triton takes the sum of `a[:, :, None] * b[None, :, :]` for a product
        of matrices, and rounds its operands to tf32 whatever was asked; a fused multiply-add it leaves alone.
        """
        if len(codes) == 2 and len(shape) > 2:
            return Code(f"tl.fma({codes[0].text}, {codes[1].text}, 0.0)")
        return infix("mul", codes) if len(codes) > 1 else codes[0]

    # products of matrices

    def _product(self, let: Let, op: Dot, neutral: dict[str, Code], merged: str) -> Code | None:
        """A product of matrices by `tl.dot`, or None where the operands do not have that shape. The variable `merged`
        becomes its accumulator, unless the result has yet to be scaled. Changes `self.helpers`.
        """
        folded, result = self.folded_dims(let), self.shape(let.name)
        if len(folded) != 1 or len(result) != 2 or len(op.over) != 1:
            return None
        (depth,) = folded
        rows, columns = result
        groups = self._groups(let.args, rows, columns, depth)
        if groups is None:
            return None
        left, right, beside = groups
        may_round = op.may_round
        raw = all(len(g) == 1 and self.stored(g[0]) is not None and g[0] not in neutral for g in (left, right))
        kinds = {self._element(g[0]) for g in (left, right)} if raw else set()
        if kinds == {REAL} and not beside and self._may_be_deep(depth, result) and not merged:
            return self._deep(let, left[0], right[0], depth)
        factors: list[Code] = []
        operands = []
        for group, wanted in ((left, (rows, depth)), (right, (depth, columns))):
            if raw:
                name = self.stored(group[0])
                assert name is not None
                factors += self._factors(group[0])
                operands.append(self._oriented(self.value(name), wanted))
            else:
                operands.append(self._oriented(self._multiplied(group, neutral, may_round), wanted))
        if RANGED in kinds:  # of two operands the type with more range is that of both
            operands = [Code(f"{one.at(ATOM)}.to(RANGED)", ATOM) for one in operands]
        if beside or factors:
            merged = ""
        inner = f"{merged}, " if merged else ""
        text = f"tl.dot({operands[0].text}, {operands[1].text}, {inner}input_precision=PRECISION, out_dtype=WIDE)"
        if len(kinds) == 1 and not kinds <= {REAL, RANGED}:
            self.helpers.add("_few_bits")
            before = f"{merged} + " if merged else ""
            text = f"{before}_few_bits({operands[0].raw}, {operands[1].raw}, DTYPE, PRECISION, WIDE)"
        if not beside:
            return self._times(Code(text), factors)
        extra = [self.aligned(a, result, "real").at(PRODUCT + 1) for a in beside]
        return Code(" * ".join([text, *(f.at(PRODUCT + 1) for f in factors), *extra]), PRODUCT)

    @staticmethod
    def _times(code: Code, factors: list[Code]) -> Code:
        """A code with a factor, which is ≥ 0 where the sign of the code says so."""
        text = " * ".join(f.at(PRODUCT + 1) for f in factors)
        return replace(code, factor=text, sign=min((f.sign for f in factors), default=0))

    def _may_be_deep(self, depth: Dim, result: Shape) -> bool:
        """Whether a depth may be cut: only stored operands of such products run along it,
        and it is the last of both."""
        place = self.layout.dims.index
        if depth.role != "whole" or any(place(d) > place(depth) for d in result):
            return False
        for let in self.kernel.lets:
            if depth in self.shape(let.name):
                users = [x for x in self.kernel.lets if let.name in x.reads]
                stored = self.stored(let.name) is not None or let.name in self.variables
                plain = not isinstance(let.op, Load) or any(self._along_depth(sub, depth) for sub in let.op.subs)
                ends = all((isinstance(x.op, Dot) and self.folded_dims(x) == (depth,)) or self._scales(x)
                           for x in users)
                if not (stored and plain and ends):
                    return False
        return True

    def _scales(self, let: Let) -> bool:
        return (isinstance(let.op, Map) and let.op.op == "mul"
                and sum(not self.arguments.is_number(a) for a in let.args) == 1)

    def _deep(self, let: Let, left: str, right: str, depth: Dim) -> Code:
        """Writes a product whose depth the host may cut: whole where it is short, else in steps."""
        self.helpers.add("_deep")
        self.deep.add(depth.name)
        block, extent = self.arguments.block(depth.name), self.extent(depth)
        name = self.arguments.names.fresh(let.name if not let.name.startswith("_") else "x")
        given: list[str] = []
        for operand in (left, right):
            load = self.lets[self.stored(operand) or operand]
            assert isinstance(load.op, Load)
            shape = self.shape(load.name)
            slot = next(n for n, sub in enumerate(load.op.subs) if self._along_depth(sub, depth))
            step = self.arguments.tensors.strides[load.op.buffer, slot]
            others = tuple(d for d in shape if d != depth)
            given += [self._pointer(load.op.buffer, load.op.subs, shape, args=load.args), step,
                      self.mask(others, shape)]
        a, b = (self.value(self.stored(x) or x).text for x in (left, right))
        self.body(f"if {block} < {extent}:  # too long for one tile")
        self.body(f"    {name} = _deep({', '.join(given)}, {extent}, {block}, PRECISION, WIDE)")
        self.body("else:")
        self.body(f"    {name} = tl.dot({a}, tl.trans({b}), input_precision=PRECISION, out_dtype=WIDE)")
        return self._times(Code(name), [f for x in (left, right) for f in self._factors(x)])

    def _along_depth(self, sub: Subscript, depth: Dim) -> bool:
        return isinstance(sub, AxisRef) and self.layout.dim(sub.axis) == depth

    def _groups(self, args: tuple[str, ...], rows: Dim, columns: Dim,
                depth: Dim) -> tuple[list[str], list[str], list[str]] | None:
        """Operands left and right of the product, and those that scale its result."""
        left: list[str] = []
        right: list[str] = []
        beside: list[str] = []
        for name in args:
            shape = set(self.shape(name))
            if depth not in shape:
                beside.append(name)
            elif rows in shape and columns in shape:
                return None
            else:
                (right if columns in shape else left).append(name)
        full = [{d for x in side for d in self.shape(x)} for side in (left, right)]
        return (left, right, beside) if full == [{rows, depth}, {depth, columns}] else None

    def stored(self, name: str) -> str | None:
        """The load that an operand is, up to numbers that can scale the result as well."""
        let = self.lets[name]
        if isinstance(let.op, Load) and ((element := self.module.buffers[let.op.buffer].element)
                                         in (REAL, RANGED) or element.narrow is not None):
            return name
        if isinstance(let.op, Map) and let.op.op == "mul" and name not in self.variables:
            loads = [a for a in let.args if not self.arguments.is_number(a)]
            if len(loads) == 1 and len(let.args) > 1 and self.lets[loads[0]].axes == let.axes:
                return self.stored(loads[0])
        return None

    def _element(self, name: str) -> Element:
        """What is stored where an operand is loaded."""
        load = self.lets[self.stored(name) or name].op
        assert isinstance(load, Load)
        return self.module.buffers[load.buffer].element

    def _factors(self, name: str) -> list[Code]:
        let = self.lets[name]
        if not isinstance(let.op, Map):
            return []
        numbers = [a for a in let.args if self.arguments.is_number(a)]
        rest = next(a for a in let.args if a not in numbers)
        return [*self._factors(rest), *(self.arguments.number(a) for a in numbers)]

    def _multiplied(self, group: list[str], neutral: dict[str, Code], may_round: bool) -> Code:
        """The operands of one side as one value: rounded to the type of the data where that does no harm."""
        shape = self.layout.shape(tuple(a for x in group for a in self.lets[x].axes))
        only = self.lets[group[0]]
        loaded = self.stored(only.name) == only.name and only.name not in neutral
        if may_round and len(group) == 1 and loaded:
            return self.value(only.name)
        codes = [self._operand(a, neutral, "real", shape) for a in group]
        made = infix("mul", codes) if len(codes) > 1 else codes[0]
        return Code(f"{made.at(ATOM)}.to(DTYPE)") if may_round else made

    def _oriented(self, code: Code, wanted: Shape) -> Code:
        """A value with these two dimensions, in this order."""
        order = tuple(d for d in self.layout.dims if d in wanted)
        raw = f"tl.trans({code.raw})" if code.raw else ""
        return code if order == wanted else Code(f"tl.trans({code.text})", raw=raw)

    # running folds

    def scan(self, let: Let, op: Scan, carried: str) -> None:
        """Writes a running fold within the tile, and what came before it; the carry goes on to the next tile."""
        (arg,) = let.args
        shape = self.shape(arg)
        dim = next(d for d in shape if d.role == "passed")
        axis = shape.index(dim)
        kind = "exact" if FOLDS[op.fold].rounds else "real"
        target = TYPES[kind]
        inside = f"{self.place.inside[op.over]}{self.marks((dim,), shape)}"
        names = self.arguments.names
        x = names.fresh("x")
        self.body(f"{x} = tl.where({inside}, {self.wide(arg, kind).text}, {spelling.start(op.fold)}).to({target})")
        turned = ", reverse=True" if op.back else ""
        run = spelling.running(op.fold, x, axis, turned, self.helpers)
        rest = tuple(d for d in shape if d != dim)
        before = f"{carried}{self.marks(rest, shape)}"
        variable = names.fresh(let.name if not let.name.startswith("_") else "x")
        self.body(f"{variable} = {spelling.merged(op.fold, before, run, self.helpers)}")
        total = self._reduced(Code(x), op.fold, shape, (dim,), op.fold == "sum").text
        self.body(f"{carried} = {spelling.merged(op.fold, carried, total, self.helpers)}")
        code = Code(variable)
        if let.kind == "real" and kind == "exact":
            code = Code(f"{variable}.to(WIDE)")
        self.variables[let.name] = code
