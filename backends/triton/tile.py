"""Lets -> expressions of Triton. Text only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einc.backends.host.code import ATOM, COMPARE, INFIX, LOOSE, POSITIVE, PRODUCT, SUM, UNARY, Code, infix
from einc.backends.host.scalars import number_text
from einc.backends.triton.even import grows
from einc.backends.triton.layout import Dim
from einc.backends.triton.loads import Reader, Shape
from einc.backends.triton.padding import Outside
from einc.backends.triton.spelling import FORMS, HELPED, spelled
from einc.ir.indices import MODEL
from einc.ir.plan import Dot, Iota, Let, Load, Map, PreviousCarry, Reduce, Scalar, Scan, ScatterAdd, Select
from einc.ir.primitives import HASHES
from einc.ir.terms import Const

_TURNED = {"le": ">=", "lt": ">", "eq": "==", "ne": "!="}
_SMALL = 64  # positions have 32 bits: up to 2**25 of them
TYPES = {"real": "WIDE", "exact": "tl.float64", "integer": "tl.int64", "scalar": "WIDE", "truth": "tl.int1"}


@dataclass(frozen=True, slots=True)
class Even:
    """What grows evenly along the passed axis, as reals: its value at the first place of the tile, and how far each
    place is from that, up to the sign of `rises`; both with their dimensions."""

    first: Code
    shape: Shape
    beyond: Code
    across: Shape
    rises: bool


@dataclass(frozen=True, slots=True)
class Shifted:
    """A let as a variable plus a number for each row, under a name with its dimensions."""

    variable: str
    by: str
    shape: Shape


@dataclass
class Scribe(Reader):
    """A reader that writes what is computed from what it reads. `shifted` are lets whose rows are yet to be moved: what
    is taken relative to a fold of them need not be.
    """

    shifted: dict[str, Shifted] = field(default_factory=dict)

    def value(self, name: str) -> Code:
        """A let as an operand: its variable, or its expression."""
        if name in self.variables:
            return self.variables[name]
        let = self.lets[name]
        if not self.arguments.is_number(name):
            return self.expression(let)
        code = self.arguments.number(name)
        long = code.text.lstrip("-").isdigit() and abs(int(code.text)) >= 2**31
        return Code(f"tl.full((), {code.text}, tl.int64)", sign=code.sign, finite=True) if long else code

    def wide(self, name: str, kind: str = "real") -> Code:
        """An operand in the arithmetic of a real, or an exact, result."""
        let = self.lets[name]
        if self.arguments.is_number(name):
            return self.arguments.number(name, exact=kind == "exact")
        target = TYPES[kind]
        if kind == "real" and let.kind == "exact" and let.op == Map("mul") and name not in self.variables:
            return self._rounded(let)
        code = self.value(name)
        as_it_is = isinstance(let.op, Load) and let.kind == "real"  # a load is in the type of its tensor
        if let.kind == kind and not as_it_is:
            return code
        return Code(f"{code.at(ATOM)}.to({target})") if let.axes or not code.text[0].isdigit() else code

    def _rounded(self, let: Let) -> Code:
        """An exact product that is only used as a real one: what does not move in the
        pass is exact, the rest is rounded."""
        still = [a for a in let.args if not any(d.role == "passed" for d in self.shape(a))]
        moving = [a for a in let.args if a not in still]
        if not moving or not still:
            return Code(f"{self.expression(let).at(ATOM)}.to(WIDE)")
        (factor, shape), whole = self._exactly(still), self.shape(let.name)
        return infix("mul", [Code(factor.text + self.marks(shape, whole)),
                             *(self.aligned(a, whole, "real") for a in moving)])

    # what grows evenly from place to place of the passed axis

    def even(self, name: str) -> Even | None:
        """A whole number that is a sum of positions, or such a number times what does not move in the pass, as an even
        number of reals; None for anything else, and outside the pass."""
        let, passed = self.lets[name], self.layout.role("passed")
        if passed is None or not self.place.start or name in self.variables or not grows(self.lets, name, passed.axes):
            return None
        shape = tuple(d for d in self.shape(name) if d != passed)
        still = [a for a in let.args if passed not in self.shape(a)] if let.kind == "exact" else []
        first, step = self._sum(next(a for a in let.args if a not in still) if still else name, shape, passed.axes[0])
        lane, start = f"{self.place.lanes[passed.name]}.to(WIDE)", Code(f"tl.cast({first.text}, WIDE)")
        times = [Code(str(abs(step)))] * (abs(step) != 1)
        if not still:
            return Even(start, shape, Code(self.hoist(infix("mul", [*times, Code(lane)]).text, "even")), (passed,),
                        step >= 0)
        factor, of = self._exactly(still)
        factor = Code(self.hoist(factor.text, "slope")) if not factor.text.isidentifier() else factor
        across = self.layout.shape((*(a for d in of for a in d.axes), *passed.axes))
        marked = [Code(factor.text + self.marks(of, across)), Code(lane + self.marks((passed,), across))]
        column = infix("mul", [*times, *marked])
        return Even(infix("mul", [Code(f"{factor.text}{self.marks(of, shape)}"), start]), shape,
                    column if of else Code(self.hoist(column.text, "even")), across, step >= 0)

    def shift(self, name: str, moved: Shifted) -> None:
        """Notes that a let is a variable whose rows are yet to be moved."""
        self.shifted[name] = moved
        self.variables[name] = Code(f"{moved.variable} + {moved.by}{self.marks(moved.shape, self.shape(name))}", SUM)

    def _sum(self, name: str, shape: Shape, axis: str) -> tuple[Code, int]:
        """A sum of positions at the first place of the tile, and by how much it grows to the next place."""
        let = self.lets[name]
        if axis not in let.axes:
            return self.aligned(name, shape), 0
        if isinstance(let.op, Iota):
            return Code(f"{self.place.start} + {self.sets[axis].start}", SUM), 1
        assert isinstance(let.op, Map)
        (a, m), (b, n) = (self._sum(x, shape, axis) for x in let.args)
        return infix(let.op.op, [a, b]), m + n if let.op.op == "add" else m - n

    def _exactly(self, names: list[str]) -> tuple[Code, Shape]:
        """The exact product of what does not move in the pass, rounded once, and its dimensions."""
        tensors = [a for a in names if not self.arguments.is_number(a)]
        shape = self.layout.shape(tuple(x for a in tensors for x in self.lets[a].axes))
        made = infix("mul", [self.aligned(a, shape, "exact") for a in names])
        return Code(f"({made.text}).to(WIDE)" if tensors else made.at(ATOM)), shape

    def aligned(self, name: str, shape: Shape, kind: str = "") -> Code:
        """A let as an operand that broadcasts against these dimensions; in the arithmetic of `kind`, or as it is."""
        code = self.wide(name, kind) if kind else self.value(name)
        if marks := self.marks(self.shape(name), shape):
            return Code(f"{code.at(ATOM)}{marks}")
        return code

    def expression(self, let: Let) -> Code:
        """The expression that computes a let. Raises AssertionError for what has a statement of its own: products,
        folds, scans and what was carried before.
        """
        match let.op:
            case Scalar():
                return self.arguments.number(let.name)
            case Iota(axis):
                return self._place(axis)
            case Load():
                return self.load(let)
            case Map(op):
                return self._map(let, op)
            case Select():
                return self.select(let, let.op)
            case Dot() | Reduce() | Scan() | ScatterAdd() | PreviousCarry():
                raise AssertionError(f"{let.name} has a statement of its own")

    def _place(self, axis: str, start: bool = True) -> Code:
        axis = self.layout.same.get(axis, axis)
        text, first = self.place.at[axis], self.sets[axis].start if start else 0
        return Code(f"{text} + {first}", SUM) if first else Code(text)

    # points

    def _map(self, let: Let, op: str) -> Code:
        """A primitive on operands aligned with the let's dimensions, in the arithmetic of its kind. Changes
        `self.helpers`."""
        if op == "spread":
            return self._spread(let, let.args[0])
        if op in ("real", "exact"):
            return self._converted(let.args[0], TYPES[op])
        shape = self.layout.shape(let.axes)
        if let.kind == "truth":
            return self._truth(op, let.args, shape)
        if op in HASHES:
            self.helpers.add(f"_{op}")
            operands = ", ".join(self.aligned(a, shape).text for a in let.args)
            return Code(f"_{op}({operands}{', WIDE' if op == 'chance' else ''})")
        if let.kind in ("real", "exact"):
            return self._real(let, op, shape)
        return self._integer(let, op, shape)

    def _converted(self, name: str, target: str) -> Code:
        if self.arguments.is_number(name):
            return Code(f"tl.full((), {self.arguments.number(name, exact=True).text}, {target})")
        let = self.lets[name]
        if let.kind == "exact" and target == "WIDE":
            return self.wide(name)
        return Code(f"{self.value(name).at(ATOM)}.to({target})")

    def _spread(self, let: Let, arg: str) -> Code:
        blocks = "".join(f"{self.arguments.block(d.name)}, " for d in self.layout.shape(let.axes))
        kind = let.kind if let.kind in ("real", "exact") else "integer"
        if self.lets[arg].axes:
            return Code(f"tl.broadcast_to({self.aligned(arg, self.layout.shape(let.axes), kind).text}, ({blocks}))")
        return Code(f"tl.full(({blocks}), {self.wide(arg, kind).text}, {TYPES[kind]})")

    def _truth(self, op: str, args: tuple[str, ...], shape: Shape) -> Code:
        """A comparison, or a connective of conditions. Positions that are counted from the same start are compared in
        storage positions, and a number that the host knows stands on the right.
        """
        if op == "not":
            code = self.aligned(args[0], shape)
            return Code(f"(not {code.at(ATOM)})") if self._known(args[0]) else FORMS["not"].of([code])
        if op in ("and", "or"):
            return infix(op, [self._condition(a, shape) for a in args])
        if op not in INFIX:
            raise AssertionError(op)
        left, right = args
        starts = [self.sets[p.axis].start for p in (self.lets[a].op for a in args) if isinstance(p, Iota)]
        if len(starts) == 2 and starts[0] == starts[1]:
            a, b = (self._bare_place(x, shape) for x in args)
            return infix(op, [a, b])
        a, b = (self._compared(x, shape) for x in (left, right))
        if self._known(left):
            return Code(f"{b.at(SUM)} {_TURNED[op]} {a.at(SUM)}", COMPARE)
        return infix(op, [a, b])

    def _compared(self, name: str, shape: Shape) -> Code:
        kind = self.lets[name].kind
        return self.aligned(name, shape, kind if kind in ("real", "exact") else "")

    def _bare_place(self, name: str, shape: Shape) -> Code:
        op = self.lets[name].op
        assert isinstance(op, Iota)
        return Code(f"{self._place(op.axis, False).text}{self.marks(self.shape(name), shape)}")

    def _known(self, name: str) -> bool:
        return self.arguments.is_number(name)

    def _condition(self, name: str, shape: Shape) -> Code:
        code = self.aligned(name, shape)
        return Code(f"({code.text} != 0)") if self._known(name) else code

    def _integer(self, let: Let, op: str, shape: Shape) -> Code:
        """A primitive whose result is whole numbers. A product has 64 bits, unless its axes are never long or a factor
        is a small constant. Changes `self.helpers`.
        """
        codes = [self.aligned(a, shape) for a in let.args]
        if op == "sub" and all(isinstance(self.lets[a].op, Iota) for a in let.args):
            starts = {self.sets[self.lets[a].op.axis].start for a in let.args}  # type: ignore[union-attr]
            if len(starts) == 1:
                codes = [self._bare_place(a, shape) for a in let.args]
        if op in ("floor", "ceil"):
            inner = self.lets[let.args[0]]
            return codes[0] if inner.kind == "integer" else Code(f"tl.{op}({codes[0].text}).to(tl.int64)")
        if op == "ceildiv":
            self.helpers |= {"_floordiv"}
            return Code(f"-_floordiv(-{codes[0].at(UNARY)}, {codes[1].text})", UNARY)
        if op == "mul" and not all(self._few(x) for x in let.axes) and not any(self._small(a) for a in let.args):
            codes[0] = Code(f"tl.cast({codes[0].text}, tl.int64)")
        return self._spelled(op, codes)

    def _few(self, axis: str) -> bool:
        """Whether an axis is of those that are never long: heads and features, not positions."""
        return self.sets[axis].cls in MODEL

    def _small(self, name: str) -> bool:
        """Whether a factor is so small that its product with a position has 32 bits."""
        op = self.lets[name].op
        return isinstance(op, Scalar) and isinstance(op.term, Const) and abs(float(op.term.value)) <= _SMALL

    def _real(self, let: Let, op: str, shape: Shape) -> Code:
        """A primitive on real or exact numbers. Where the divisor is a number of the host's that may be 0, a quotient
        with 0 above is 0. Changes `self.helpers`.
        """
        kind = "exact" if let.kind == "exact" else "real"
        if op == "pow":
            return self._power(let.args, shape, kind)
        if op == "sub" and (moved := self._relative(let, shape)) is not None:
            return moved
        codes = [self.aligned(a, shape, kind) for a in let.args]
        if op == "div" and self._once(let, shape):
            part, marks = self.wide(let.args[1]).at(PRODUCT + 1), self.marks(self.shape(let.args[1]), shape)
            return infix("mul", [codes[0], Code(f"(1.0 / {part}){marks}")])
        if op == "mod":  # of whole numbers it is another
            self.helpers.add("_beyond")
            return Code(f"_beyond({codes[0].text}, {codes[1].text})")
        if op == "div" and self._known(let.args[1]) and codes[1].sign < POSITIVE:
            return Code(f"tl.where({codes[0].text} == 0, 0.0, {infix('div', codes).text})")
        return self._spelled(op, codes)

    def _once(self, let: Let, shape: Shape) -> bool:
        """Whether a quotient is by one number for many, which is a sum relative to its greatest term, so that it has a
        reciprocal."""
        below = self.lets[let.args[1]]
        return (let.kind == "real" and below.carry is not None and below.carry.reference is not None
                and len(self.shape(below.name)) < len(shape))

    def _relative(self, let: Let, shape: Shape) -> Code | None:
        """What is yet to be moved, less a number for each row: that number is moved the other way instead."""
        first, second = let.args
        moved, rows = self.shifted.get(first), self.shape(second)
        if moved is None or any(d.role == "passed" for d in rows) or not set(moved.shape) <= set(rows):
            return None
        less = infix("sub", [self.aligned(second, rows, "real"), Code(moved.by + self.marks(moved.shape, rows))])
        own = Code(moved.variable + self.marks(self.shape(first), shape))
        return infix("sub", [own, Code(less.at(ATOM) + self.marks(rows, shape))])

    def _power(self, args: tuple[str, ...], shape: Shape, kind: str) -> Code:
        """A power: for the constant exponent 2 a product, else a call of the helper, which is added to `helpers`."""
        base, exponent = args
        constant = self.lets[exponent].op
        code = self.aligned(base, shape, kind)
        if isinstance(constant, Scalar) and isinstance(constant.term, Const) and constant.term.value == 2:
            if len(code.text) < 24:
                return infix("mul", [code, code])
            self.helpers.add("_square")
            return Code(f"_square({code.text})")
        self.helpers.add(HELPED["pow"])
        parts = [f"tl.full((), {self.aligned(a, shape, kind).text}, {TYPES[kind]})" if self._known(a) else
                 self.aligned(a, shape, kind).text for a in (base, exponent)]
        return Code(f"{HELPED['pow']}({', '.join(parts)})")

    def _spelled(self, op: str, codes: list[Code]) -> Code:
        return spelled(op, codes, self.helpers)

    # selections

    def select(self, let: Let, op: Select) -> Code:
        """`then` where the condition holds and, in a pass, where the tile lies inside."""
        condition = self.condition(let, self.layout.shape(let.axes))
        return Code(f"tl.where({condition.text}, {self.chosen(let).text}, {self.otherwise(let, op)})")

    def condition(self, let: Let, shape: Shape) -> Code:
        """The condition of a selection and, in a pass, that the place lies inside."""
        code = self._condition(let.args[0], shape)
        dim = next((d for d in shape if d.role == "passed"), None)
        if not self.passed.when or dim is None or self._ends(let.args[0], dim):
            return code
        return Code(f"{code.at(ATOM)} & {self.within(let, dim)}{self.marks((dim,), shape)}", LOOSE)

    def _ends(self, name: str, dim: Dim) -> bool:
        """Whether a condition fails beyond the end of the pass for all rows that there are: where it says that a place
        does not come after one of an axis as long. A pass of one piece with one end has no other places outside."""
        let, bound = self.lets[name], self.kernel.axis(dim.axes[0]).bound
        if (bound is None or len(bound.spans) != 1 or len(bound.spans[0].high) > 1
            or any(isinstance(x.op, Scan) for x in self.kernel.lets)):
            return False
        match let.op:
            case Map("and"):
                return any(self._ends(a, dim) for a in let.args)
            case Map("le" | "lt"):
                places = [op.axis for op in (self.lets[a].op for a in let.args) if isinstance(op, Iota)]
                return (len(places) == 2 and places[0] == dim.axes[0] != places[1]
                        and self.sets[places[0]] == self.sets[places[1]])
        return False

    def chosen(self, let: Let) -> Code:
        """The text of a value that counts where its condition holds alone: a constant is spread over the tile, in the
        type of its kind."""
        kind = let.kind if let.kind in ("real", "exact") else ""
        then = self.aligned(let.args[1], self.layout.shape(let.axes), kind)
        return Code(f"tl.full((), {then.text}, {TYPES[let.kind]})") if self._known(let.args[1]) else then

    @staticmethod
    def otherwise(let: Let, op: Select) -> str:
        """What a selection gives where its condition fails, as a number of the kernel's text."""
        number = number_text(op.otherwise)
        if "inf" in number:
            return f'float("{number.replace("math.", "")}")'
        return number if let.kind == "integer" else f"{float(op.otherwise)}"

    def outside(self, dim_name: str) -> Outside:
        """What is known of lets outside a dimension of the layout, which is given by its name."""
        dim = next(d for d in self.layout.dims if d.name == dim_name)
        passed = dim.role == "passed"
        return Outside(self.lets, replace(dim, axes=self._all(dim.axes)), passed, self.passed.filled if passed else {})

    def _all(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return (*axes, *(a for a, kept in self.layout.same.items() if kept in axes))
