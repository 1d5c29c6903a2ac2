"""Lets -> Python expressions of torch. Text only: torch is not needed to write for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from einc.backends.writer import Names, Writer, identifier, sized
from einc.domains import linear
from einc.indices import IndexSet, number, size
from einc.plan import (
    Along,
    Computed,
    Dot,
    Kernel,
    Let,
    Load,
    Map,
    Module,
    Packed,
    Place,
    Reduce,
    Scalar,
    Select,
    Subscript,
    Within,
    arguments,
    computed,
)
from einc.terms import Apply, Const, Position, Size, Term, Truth

ATOM, UNARY, POWER, PRODUCT, SUM, SHIFT, COMPARE, LOOSE = 9, 8, 8, 7, 6, 5, 4, 1
_INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "floordiv": ("//", PRODUCT),
          "mod": ("%", PRODUCT), "le": ("<=", COMPARE), "lt": ("<", COMPARE), "eq": ("==", COMPARE), "ne": ("!=", COMPARE),
          "and": ("&", SHIFT - 0), "or": ("|", SHIFT - 0)}
_OPPOSITE = {"le": ">", "lt": ">=", "eq": "!=", "ne": "=="}
_IN_PLACE = frozenset({"add", "sub", "mul", "div", "exp", "exp2", "neg", "tanh", "sqrt", "abs", "log", "cos", "sin", "erf"})
_FUNCTIONS = frozenset({"exp", "exp2", "log", "sqrt", "sin", "cos", "tanh", "erf", "abs", "floor", "ceil"})
_REDUCTIONS = {"max": "amax", "min": "amin", "prod": "prod"}


@dataclass(frozen=True)
class Code:
    """An expression, how tightly it binds, and whether its memory is its own."""

    text: str
    level: int = ATOM
    fresh: bool = False

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class Scribe:
    """What is known while one kernel is written: the names of its axes and lets, the slices of its tile."""

    module: Module
    kernel: Kernel
    names: Names
    helpers: set[str]
    variables: dict[str, str] = field(default_factory=dict)  # let -> Python name
    casts: dict[str, str] = field(default_factory=dict)  # buffer -> name of its wide copy
    ranges: dict[str, tuple[str, str]] = field(default_factory=dict)  # axis -> its slice within the tile
    inside: bool = False  # inside the loop over tiles
    write: Callable[[str], None] = print  # a statement in front of the one being made
    places: dict[tuple[str, IndexSet], str] = field(default_factory=dict)  # whole axes that have a variable already
    remaining: dict[str, int] = field(default_factory=dict)
    carried: dict[str, str] = field(default_factory=dict)  # let -> the variable that lives through the stream
    memory: dict[str, str] = field(default_factory=dict)  # let -> memory that every tile uses again
    aliases: set[str] = field(default_factory=set)  # lets whose variable may be another's memory
    scales: dict[str, str] = field(default_factory=dict)  # reference -> the factor of this step

    def __post_init__(self) -> None:
        self.lets: Mapping[str, Let] = {let.name: let for let in self.kernel.lets}
        self.sets = {a.name: a.set for a in self.kernel.axes}
        self.letters = _letters([a.name for a in self.kernel.axes])

    # values

    def value(self, name: str) -> Code:
        """A let as an operand: its variable, or its expression where it is used once."""
        if name in self.variables:
            self.remaining[name] = self.remaining.get(name, 0) - 1
            last = self.remaining[name] == 0 and isinstance(self.lets[name].op, Map | Dot | Select) and self._owns(name)
            return Code(self.variables[name], ATOM, last)
        if isinstance(self.lets[name].op, Place):
            return self._placed(name)
        return self.expression(self.lets[name])

    def _placed(self, name: str) -> Code:
        """The positions of an axis, under a name: one for the function where the axis is whole."""
        op = self.lets[name].op
        assert isinstance(op, Place)
        key = (op.axis, self.sets[op.axis])
        if op.axis not in self.ranges and key in self.places:
            self.variables[name] = self.places[key]
        else:
            self.variables[name] = self.names.fresh(op.axis)
            self.write(f"{self.variables[name]} = {self._place(op.axis).text}")
            if not self.inside:
                self.places[key] = self.variables[name]
        return Code(self.variables[name])

    def _owns(self, name: str) -> bool:
        op = self.lets[name].op
        return self.inside and name not in self.aliases and not (isinstance(op, Map) and op.op == "spread")

    def expression(self, let: Let) -> Code:
        match let.op:
            case Scalar(term):
                return scalar(term)
            case Place(axis):
                return self._place(axis)
            case Load():
                return self._canonical(let)
            case Map(op, args):
                return self._map(let, op, args)
            case Dot(args, over):
                return self._dot(let, args, over)
            case Reduce(fold, arg, over, full):
                return self._reduce(fold, arg, over, full)
            case Select():
                return self._select(let, let.op)

    def extent(self, axis: str) -> str:
        if axis in self.ranges:
            low, high = self.ranges[axis]
            return high if low == "0" else f"{high} - {low}"
        return sized(self.sets[axis].extent)

    def _place(self, axis: str) -> Code:
        low, high = self.ranges.get(axis, ("0", sized(self.sets[axis].extent)))
        start = self.sets[axis].start
        first = f"{low} + {start}" if start and low != "0" else str(start) if start else low
        return Code(f"torch.arange({first}, {high} + {start}, device=device)" if start else f"torch.arange({low}, {high}, device=device)")

    def aligned(self, name: str, axes: tuple[str, ...]) -> Code:
        """A let as an operand that broadcasts against these axes."""
        code, mine = self.value(name), self.lets[name].axes
        if not mine:
            return code
        wanted = axes[axes.index(mine[0]) :]
        if wanted == mine:
            return code
        marks = ", ".join(":" if a in mine else "None" for a in wanted)
        return Code(f"{code.at(ATOM)}[{marks}]", ATOM)

    def _as_real(self, let: Let, name: str, axes: tuple[str, ...]) -> Code:
        """An operand in the arithmetic of its result: whole numbers in float64 for exact values, exact ones rounded for real ones."""
        code, kind = self.aligned(name, axes), self.lets[name].kind
        if let.kind == "exact" and kind == "integer":
            return Code(f"{code.at(ATOM)}.double()", ATOM, True)
        if let.kind == "real" and kind == "exact" and self.lets[name].axes:
            return Code(f"{code.at(ATOM)}.to(wide)", ATOM)
        return code

    def _map(self, let: Let, op: str, args: tuple[str, ...]) -> Code:
        if let.kind == "scalar":
            return _scalar_map(op, [self.value(a) for a in args])
        if op == "spread":
            return self._spread(let, args[0])
        if op in ("real", "exact"):
            return Code(f"{self.value(args[0]).at(ATOM)}{'.to(wide)' if op == 'real' else '.double()'}", ATOM, True)
        codes = [self._as_real(let, a, let.axes) for a in args]
        if let.kind == "truth" and op in _INFIX:
            codes = [self.aligned(a, let.axes) for a in args]
        scalars = [self.lets[a].kind == "scalar" for a in args]
        if self.inside and op in _IN_PLACE and let.kind == "real" and (found := self._in_place(let, op, args, codes)) is not None:
            return found
        if op in ("floor", "ceil") and let.kind == "integer":
            return codes[0]
        if op in _FUNCTIONS:
            return Code(f"torch.{'special.' if op == 'erf' else ''}{op}({codes[0].text})", ATOM, True)
        if op in ("max", "min"):
            return self._extreme(op, codes, scalars)
        if op == "neg":
            return Code(f"-{codes[0].at(UNARY)}", UNARY, True)
        if op == "not":
            return Code(f"~{codes[0].at(UNARY)}", UNARY, True)
        if op == "pow":
            return Code(f"{codes[0].at(ATOM)} ** {codes[1].at(UNARY)}", POWER, True)
        if op == "ceildiv":
            return Code(f"-(-{codes[0].at(UNARY)} // {codes[1].at(ATOM)})", UNARY, True)
        return infix(op, codes)

    def _in_place(self, let: Let, op: str, args: tuple[str, ...], codes: list[Code]) -> Code | None:
        """The operation on memory that nobody reads afterwards."""
        first = next((n for n, (a, c) in enumerate(zip(args, codes, strict=True)) if c.fresh and self.lets[a].axes == let.axes
                      and self.lets[a].kind == "real" and (n == 0 or op in ("add", "mul"))), None)
        if first is None:
            return None
        text = codes[first].at(ATOM)
        rest = [c for n, c in enumerate(codes) if n != first]
        if not rest:
            return Code(f"{text}.{op}_()", ATOM, True)
        for other in rest:
            text += f".{op}_({other.text})"
        return Code(text, ATOM, True)

    def _extreme(self, op: str, codes: list[Code], scalars: list[bool]) -> Code:
        tensors = [c for c, s in zip(codes, scalars, strict=True) if not s]
        text = tensors[0].text
        for other in tensors[1:]:
            text = f"torch.{op}imum({text}, {other.text})"
        for number in (c for c, s in zip(codes, scalars, strict=True) if s):
            text = f"torch.clamp({text}, {'min' if op == 'max' else 'max'}={number.text})"
        return Code(text, ATOM, True)

    def _spread(self, let: Let, arg: str) -> Code:
        shape = ", ".join(self.extent(a) for a in let.axes)
        if self.lets[arg].kind == "scalar":
            return Code(f"torch.full(({shape}{',' * (len(let.axes) == 1)}), {self.value(arg).text}, dtype=torch.float64, device=device)")
        return Code(f"{self.aligned(arg, let.axes).at(ATOM)}.expand({shape})")

    def _select(self, let: Let, op: Select) -> Code:
        then, axes = self.lets[op.then], let.axes
        number = _number(op.otherwise)
        condition = self.lets[op.condition]
        if then.axes == axes and then.kind in ("real", "exact"):
            value = self.value(op.then)
            opposite = self._opposite(op.condition, axes)
            in_place = "_" if self.inside and value.fresh else ""
            return Code(f"{value.at(ATOM)}.masked_fill{in_place}({opposite}, {number})", ATOM, True)
        del condition
        value = self.aligned(op.then, axes)
        return Code(f"torch.where({self.aligned(op.condition, axes).text}, {value.text}, {number})", ATOM, True)

    def spread_marks(self, mine: tuple[str, ...], axes: tuple[str, ...]) -> str:
        """The subscript that aligns a value with more axes; empty where it is aligned."""
        wanted = axes[axes.index(mine[0]) :] if mine else ()
        return "" if wanted == mine else f"[{', '.join(':' if a in mine else 'None' for a in wanted)}]"

    def masks(self, let: Let, op: Select, write: Writer) -> bool:
        """A mask only where the tile is cut by the domain: `if` the tile is not full."""
        if op.full is None or not self.lets[op.then].axes == let.axes or self.lets[op.then].kind not in ("real", "exact"):
            return False
        value = self.value(op.then)
        kept = value.text.isidentifier() and not value.fresh  # somebody reads it unmasked later
        name = value.text if value.text.isidentifier() and not kept else self.names.fresh("x" if let.name.startswith("_") else let.name if kept else let.name.removesuffix("_masked"))
        if name != value.text:
            write(f"{name} = {value.text}")
        if kept:
            self.aliases.add(let.name)
        conditions = " or ".join(f"{_tile_end(t, self)} < 0" for t in op.full)
        write.open(f"if {conditions}:  # the domain cuts this tile")
        write(f"{name} = {name}.masked_fill({self._opposite(op.condition, let.axes)}, {_number(op.otherwise)})" if not value.fresh else
              f"{name}.masked_fill_({self._opposite(op.condition, let.axes)}, {_number(op.otherwise)})")
        write.close()
        for place in (x for x in (op.condition, *arguments(self.lets[op.condition].op)) if isinstance(self.lets[x].op, Place)):
            self.variables.pop(place, None)
        self.variables[let.name] = name
        return True

    def _opposite(self, name: str, axes: tuple[str, ...]) -> str:
        """Where the condition fails."""
        let = self.lets[name]
        if name not in self.variables and isinstance(let.op, Map) and let.op.op in _OPPOSITE:
            a, b = (self.aligned(x, let.axes) for x in let.op.args)
            text = f"{a.at(SUM)} {_OPPOSITE[let.op.op]} {b.at(SUM)}"
            return text if let.axes[:1] and axes[axes.index(let.axes[0]) :] == let.axes else self._expanded(f"({text})", let.axes, axes)
        return f"~{self.aligned(name, axes).at(UNARY)}"

    def _expanded(self, text: str, mine: tuple[str, ...], axes: tuple[str, ...]) -> str:
        if not mine:
            return text
        return f"{text}[{', '.join(':' if a in mine else 'None' for a in axes[axes.index(mine[0]):])}]"

    # contractions and reductions

    def _dot(self, let: Let, args: tuple[str, ...], over: tuple[str, ...]) -> Code:
        operands = [self._operand(a, let) for a in args]
        if len(operands) == 1:
            text, axes = operands[0]
            dims = [n for n, a in enumerate(axes) if a in over]
            summed = f"{text.at(ATOM)}.sum({dims[0] if len(dims) == 1 else tuple(dims)})"
            return self._permuted(Code(summed, ATOM, True), tuple(a for a in axes if a not in over), let.axes)
        if len(operands) == 2 and (product := self._matmul(let, operands, over)) is not None:
            return product
        left = ",".join("".join(self.letters[a] for a in axes) for _, axes in operands)
        out = "".join(self.letters[a] for a in let.axes)
        return Code(f'torch.einsum("{left}->{out}", {", ".join(c.text for c, _ in operands)})', ATOM, True)

    def _matmul(self, let: Let, operands: list[tuple[Code, tuple[str, ...]]], over: tuple[str, ...]) -> Code | None:
        """A batched matrix product, where the axes are batch, one row, one column and one sum; None for other patterns."""
        if not self.inside or len(over) != 1 or let.kind != "real":
            return None
        (a, left), (b, right) = operands
        batch = tuple(x for x in let.axes if x in left and x in right)
        if let.axes[: len(batch)] != batch or len(let.axes) != len(batch) + 2:
            return None
        row, column = let.axes[-2:]
        if row in right:
            (a, left), (b, right) = (b, right), (a, left)
        if set(left) != {*batch, row, *over} or set(right) != {*batch, column, *over}:
            return None
        first = self._permuted(a, left, (*batch, row, *over))
        second = self._permuted(b, right, (*batch, *over, column))
        memory = self.memory.get(let.name)
        if memory is None:
            return Code(f"torch.matmul({first.text}, {second.text})", ATOM, True)
        shape = ", ".join(self.extent(x) for x in let.axes)
        count = " * ".join(f"({e})" if " " in e else e for e in (self.extent(x) for x in let.axes))
        return Code(f"torch.matmul({first.text}, {second.text}, out={memory}[: {count}].view({shape}))", ATOM, True)

    def _operand(self, name: str, out: Let) -> tuple[Code, tuple[str, ...]]:
        """An operand of a contraction, with its axes in the order in which it lies."""
        let = self.lets[name]
        if isinstance(let.op, Load) and name not in self.variables:
            code, axes = self.raw(let.op)
        else:
            code, axes = self.value(name), let.axes
        if out.kind == "real" and let.kind in ("exact", "integer"):
            code = Code(f"{code.at(ATOM)}.to(wide)")
        elif out.kind == "exact" and let.kind == "integer":
            code = Code(f"{code.at(ATOM)}.double()")
        return code, axes

    def _reduce(self, fold: str, arg: str, over: tuple[str, ...], full: bool) -> Code:
        axes = self.lets[arg].axes
        dims = tuple(n for n, a in enumerate(axes) if a in over)
        code = self.value(arg)
        dim = str(dims[0]) if len(dims) == 1 else str(dims)
        if fold == "prod":
            text = code.at(ATOM)
            for n in reversed(dims):
                text += f".prod({n})"
            return Code(text, ATOM, True)
        if full:
            return Code(f"{code.at(ATOM)}.{_REDUCTIONS[fold]}({dim})", ATOM, True)
        self.helpers.add(f"_{_REDUCTIONS[fold]}")
        return Code(f"_{_REDUCTIONS[fold]}({code.text}, {dim})", ATOM, True)

    # loads

    def _canonical(self, let: Let) -> Code:
        assert isinstance(let.op, Load)
        code, axes = self.raw(let.op)
        return self._permuted(code, axes, let.axes)

    def _permuted(self, code: Code, mine: tuple[str, ...], wanted: tuple[str, ...]) -> Code:
        if mine == wanted:
            return code
        if len(mine) > 1 and mine[:-2] == wanted[:-2] and mine[-2:] == wanted[:-3:-1]:
            return Code(f"{code.at(ATOM)}.mT", ATOM, code.fresh)
        return Code(f"{code.at(ATOM)}.permute({', '.join(str(mine.index(a)) for a in wanted)})", ATOM, code.fresh)

    def raw(self, load: Load) -> tuple[Code, tuple[str, ...]]:
        """A load with its axes in the order in which they lie in memory."""
        base = self.casts.get(load.buffer, identifier(load.buffer))
        flat = [a for s in load.subs for a in _axes(s)]
        if len(set(flat)) < len(flat) or not self._simple(load):
            return self._gathered(base, load)
        text, axes, dim = base, [], 0
        slices: list[str] = []
        picks: list[tuple[int, str]] = []
        views: list[str] = []
        for sub in load.subs:
            for piece in self._pieces(sub, dim, views):
                match piece:
                    case Along(axis):
                        low, high = self.ranges.get(axis, ("", ""))
                        slices.append(f"{low if low != '0' else ''}:{high}" if high else ":")
                        axes.append(axis)
                    case Computed(value, set_, safe):
                        picks.append((dim, f".flip({dim})" if self._reversed(value) else self._index(value, set_, safe)))
                        axes.append(self.lets[value].axes[0])
                        slices.append(":")
                dim += 1
        text = base + "".join(views)
        if any(s != ":" for s in slices):
            while slices[-1] == ":":
                slices.pop()
            text += f"[{', '.join(slices)}]"
        for at, index in picks:
            text += index if index.startswith(".") else f"[{', '.join([':'] * at + [index])}]"
        return Code(text), tuple(axes)

    def _pieces(self, sub: Subscript, dim: int, views: list[str]) -> list[Along | Computed]:
        """The dimensions of a subscript once its view is taken."""
        match sub:
            case Packed(parts, sets):
                views.append(f".unflatten({dim}, ({', '.join(sized(s.extent) for s in sets)}))")
                out: list[Along | Computed] = []
                for n, part in enumerate(parts):
                    out += self._pieces(part, dim + n, views)
                return out
            case Within(item, before, extent):
                views.append(f".narrow({dim}, {sized(before)}, {sized(extent)})")
                return self._pieces(item, dim, views)
            case Along() | Computed():
                return [sub]

    def _simple(self, load: Load) -> bool:
        """Every computed subscript varies along one axis of its own."""
        values = [v for s in load.subs for v in computed(s)]
        plain = {a for s in load.subs for a in _axes(s) if not computed(s)}
        mine = [self.lets[v].axes for v in values]
        return all(len(m) == 1 for m in mine) and len({m for m in mine}) == len(mine) and not any(m[0] in plain for m in mine)

    def _reversed(self, value: str) -> bool:
        """Whether the subscript runs through its whole axis backwards."""
        match self.lets[value].op:
            case Map("sub", (last, place)):
                match self.lets[last].op, self.lets[place].op:
                    case Scalar(Const(number)), Place(axis) if axis not in self.ranges:
                        set_ = self.sets[axis]
                        return set_.extent.constant == number - 2 * set_.start + 1
        return False

    def _index(self, value: str, set_: object, safe: bool) -> str:
        """Storage positions of a computed subscript."""
        code = self.value(value)
        start: int = getattr(set_, "start")  # noqa: B009
        text = f"{code.at(SUM)} - {start}" if start else code.text
        if not safe:
            text = f"({text}).clamp(0, {sized(getattr(set_, 'extent'))} - 1)"  # noqa: B009
        return text

    def _gathered(self, base: str, load: Load) -> tuple[Code, tuple[str, ...]]:
        """The general read: an index for every dimension, all of them broadcast together."""
        wanted = set(_all_axes(load, self.lets))
        order = tuple(a.name for a in self.kernel.axes if a.name in wanted)
        views: list[str] = []
        indices: list[str] = []
        dim = 0
        for sub in load.subs:
            for piece in self._pieces(sub, dim, views):
                if isinstance(piece, Along):
                    low, high = self.ranges.get(piece.axis, ("0", sized(self.sets[piece.axis].extent)))
                    indices.append(self._expanded(f"torch.arange({low}, {high}, device=device)", (piece.axis,), order))
                else:
                    inner = self.lets[piece.value].axes
                    text = self._index(piece.value, piece.set, piece.safe)
                    indices.append(self._expanded(f"({text})", inner, order) if inner else text)
                dim += 1
        return Code(f"{base}{''.join(views)}[{', '.join(indices)}]", ATOM, True), order


def _tile_end(term: Term, scribe: Scribe) -> str:
    """A whole-number term in the ends of the tile, as Python."""
    form = linear(term)
    assert form is not None
    total = form.constant
    for atom, coefficient in form.atoms:
        assert isinstance(atom, Position)
        grid, stream = scribe.kernel.grid, scribe.kernel.stream
        assert grid is not None and stream is not None
        axis = stream if atom.index.name.startswith("stream") and stream is not None else grid
        low, high = scribe.ranges[axis.name]
        end = size(low) if atom.index.name.endswith("first") else size(high) - number(1)
        total = total + coefficient * (end + number(axis.set.start))
    return sized(total)


def _axes(sub: Subscript) -> tuple[str, ...]:
    match sub:
        case Along(axis):
            return (axis,)
        case Packed(parts):
            return tuple(a for p in parts for a in _axes(p))
        case Within(item):
            return _axes(item)
    return ()


def _all_axes(load: Load, lets: Mapping[str, Let]) -> list[str]:
    return [a for s in load.subs for a in _axes(s)] + [a for v in arguments(load) for a in lets[v].axes]


def _letters(axes: list[str]) -> dict[str, str]:
    """One ASCII letter for each axis, its own where it has one."""
    out: dict[str, str] = {}
    for axis in axes:
        wanted = identifier(axis)[0]
        free = [c for c in wanted + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in out.values()]
        out[axis] = free[0]
    return out


def infix(op: str, codes: list[Code]) -> Code:
    sign, level = _INFIX[op]
    if op in ("and", "or"):
        return Code(f" {sign} ".join(c.at(ATOM) for c in codes), SHIFT, True)
    text = codes[0].at(level)
    for code in codes[1:]:
        text += f" {sign} {code.at(level + 1)}"
    return Code(text, level, True)


def scalar(term: Term) -> Code:
    """A number made of constants and sizes, in Python's own arithmetic."""
    match term:
        case Const(value):
            return Code(_number(value), ATOM if value >= 0 else UNARY)
        case Truth(value):
            return Code(str(value))
        case Size(extent):
            text = sized(extent)
            return Code(text, ATOM if text.isidentifier() or text.isdigit() else SUM)
        case Apply(op, args):
            return _scalar_map(op, [scalar(a) for a in args])
    raise AssertionError(term)


def _scalar_map(op: str, codes: list[Code]) -> Code:
    match op:
        case "floordiv" | "add" | "sub" | "mul" | "div" | "mod" | "le" | "lt" | "eq" | "ne":
            return infix(op, codes)
        case "and" | "or":
            return Code(f" {op} ".join(c.at(COMPARE) for c in codes), LOOSE)
        case "not":
            return Code(f"not {codes[0].at(COMPARE)}", LOOSE)
        case "neg":
            return Code(f"-{codes[0].at(UNARY)}", UNARY)
        case "pow":
            return Code(f"{codes[0].at(ATOM)} ** {codes[1].at(UNARY)}", POWER)
        case "ceildiv":
            return Code(f"-(-{codes[0].at(UNARY)} // {codes[1].at(ATOM)})", UNARY)
        case "max" | "min" | "abs":
            return Code(f"{op}({', '.join(c.text for c in codes)})")
    return Code(f"math.{op}({', '.join(c.text for c in codes)})")


def _number(value: Fraction | float) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else repr(float(exact))
