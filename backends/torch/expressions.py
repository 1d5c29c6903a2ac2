"""Lets -> Python expressions of torch. Text only: torch is not needed to write for it."""

from __future__ import annotations

from dataclasses import dataclass

from einc.backends.host.code import ATOM, INFIX, POSITIVE, SUM, UNARY, Code, infix
from einc.backends.host.folding import start, step
from einc.backends.host.scalars import quotient, scalar, scalar_map
from einc.backends.host.spelling import FUNCTIONS, rounding
from einc.backends.torch.bounds import Numbers
from einc.backends.torch.overwriting import Overwriter
from einc.backends.torch.products import Multiplier
from einc.backends.torch.running import Runner
from einc.backends.torch.scatters import ScatterWriter
from einc.backends.torch.spelling import EXTREMES, FORMS, REDUCTIONS
from einc.backends.torch.stacked import Stacker
from einc.backends.writer import Writer, sized
from einc.ir.elements import Kind
from einc.ir.folds import FOLDS
from einc.ir.narrow import NARROW
from einc.ir.plan import (
    Axis,
    Dot,
    Interval,
    Iota,
    Let,
    Load,
    Map,
    PreviousCarry,
    Reduce,
    Scalar,
    Scan,
    ScatterAdd,
    Select,
)
from einc.ir.primitives import HASHES
from einc.ir.terms import Const, Size

_OPPOSITE = {"le": ">", "lt": ">=", "eq": "!=", "ne": "=="}
_IN_PLACE = frozenset({"add", "sub", "mul", "div", "neg", *FUNCTIONS}) - {"floor", "ceil"}


@dataclass
class Scribe(Multiplier, Overwriter, Runner, Stacker, ScatterWriter):
    """Lets as expressions, by what is known while one kernel is written."""

    numbers: Numbers | None = None

    def value(self, name: str) -> Code:
        """A let as an operand: its variable, or its expression where it is used once."""
        if name in self.variables:
            return Code(self.variables[name], ATOM, self.tile.inside and self.owned.free(name, self.write.depth))
        if isinstance(self.lets[name].op, Iota):
            return self._placed(name)
        return self.expression(self.lets[name])

    def noted(self, code: Code) -> Code:
        """A number that stands in the text: the file has what it calls."""
        self.helpers |= code.calls
        return code

    def _placed(self, name: str) -> Code:
        """A name for the positions of an axis, one for the function where it is whole. Writes the line that makes
        them."""
        op = self.lets[name].op
        assert isinstance(op, Iota)
        key = (op.axis, self.sets[op.axis])
        if op.axis not in self.tile.ranges and key in self.places:
            self.variables[name] = self.places[key]
        else:
            self.variables[name] = self.names.fresh(op.axis)
            self.write(f"{self.variables[name]} = {self._place(op.axis).text}")
            if not self.tile.inside:
                self.places[key] = self.variables[name]
        return Code(self.variables[name])

    def statement(self, let: Let) -> Code:
        """The expression of a let that gets a statement of its own."""
        self._begin(let)
        code = self.expression(let)
        if let.carry is None:
            self.owned.end(let.name, self.write.depth, code.fresh)
        else:
            self.owned.merged()
        return code

    def _begin(self, let: Let) -> None:
        """Notes what the statement makes and reads: lets without a variable stand inside it."""
        made, read = {let.name}, dict[str, int]()
        stack = [let]
        while stack:
            for name in stack.pop().reads:
                if name in self.variables:
                    read[name] = read.get(name, 0) + 1
                else:
                    made.add(name)
                    stack.append(self.lets[name])
        self.owned.begin(made, read)

    def expression(self, let: Let) -> Code:
        """The expression that computes a let; operands that have no variable stand inside it."""
        match let.op:
            case Scalar(term):
                return self.noted(scalar(term))
            case Iota(axis):
                return self._place(axis)
            case Load():
                return self._canonical(let)
            case Map(op):
                return self._map(let, op, let.args)
            case Dot():
                return self.dot(let, let.op)
            case Reduce(fold, over, full):
                return self._reduce(fold, let.args[0], over, full)
            case Select():
                return self._select(let, let.op)
            case PreviousCarry():
                return Code(self.passing.former.get(let.args[0], self.passing.carried[let.args[0]]))
            case Scan():
                return self.running(let, let.op)
            case ScatterAdd():
                return self.scatter_add(let, let.op)

    def extent(self, axis: str) -> str:
        """The length of an axis as text, not in brackets: of its tile where it is cut in tiles, else of its set."""
        if axis in self.tile.ranges:
            low, high = self.tile.ranges[axis]
            return high if low == "0" else f"{high} - {low}"
        return sized(self.sets[axis].extent)

    def _place(self, axis: str) -> Code:
        low, high = self.tile.ranges.get(axis, ("0", sized(self.sets[axis].extent)))
        start = self.sets[axis].start
        first = f"{low} + {start}" if start and low != "0" else str(start) if start else low
        return Code(
            f"torch.arange({first}, {high} + {start}, device=device)" if start
            else f"torch.arange({low}, {high}, device=device)"
        )

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
        """An operand in the arithmetic of its result: whole numbers in float64 for exact
        values, exact ones rounded for real."""
        code, kind = self.aligned(name, axes), self.lets[name].kind
        if let.kind == "exact" and kind == "integer":
            return Code(f"{code.at(ATOM)}.double()", ATOM, True)
        if let.kind == "real" and kind == "exact" and self.lets[name].axes:
            return Code(f"{code.at(ATOM)}.to(wide)", ATOM)
        return code

    def _map(self, let: Let, op: str, args: tuple[str, ...]) -> Code:
        """A primitive on operands aligned with the let's axes, written over one of them where that memory is free."""
        if let.kind == "scalar":
            return self.noted(scalar_map(op, [self.value(a) for a in args]))
        if op == "spread":
            return self._spread(let, args[0])
        if op in ("real", "exact"):
            converted = self.lets[args[0]].kind in ("integer", "truth")
            return Code(f"{self.value(args[0]).at(ATOM)}{f'.to({self.real})' if op == 'real' else '.double()'}", ATOM,
                        converted)
        if op in HASHES:
            return self._hashed(op, args, let.axes)
        if (joined := self._outer_added(let, op, args)
            or (self.stacked(let, args) if op == "add" else None)) is not None:
            return joined
        codes = [self._as_real(let, a, let.axes) for a in args]
        if let.kind == "truth" and op in INFIX:
            codes = [self.aligned(a, let.axes) for a in args]
        scalars = [self.lets[a].kind == "scalar" for a in args]
        # without a real tensor beside them, torch takes whole numbers for its default type
        if let.kind == "real" and (any(scalars) or not any(self.lets[a].kind in ("real", "exact") for a in args)):
            codes = [Code(f"{c.at(ATOM)}.to(wide)", ATOM, True) if self.lets[a].kind == "integer" else c
                     for c, a in zip(codes, args, strict=True)]
        if op == "div" and scalars[1] and codes[1].sign < POSITIVE and not self._empty_at_zero(args[1], let.axes):
            return self.noted(quotient(codes))
        if (self.tile.inside or self.stored.spent) and op in _IN_PLACE and let.kind == "real" and (
                found := self.in_place(let, op, args, codes)) is not None:
            return found
        if op in ("floor", "ceil") and let.kind == "integer":
            return (codes[0] if self.lets[args[0]].kind == "integer"
                    else Code(f"torch.{op}({codes[0].text}).long()", ATOM, True))
        if op in EXTREMES:
            return self._extreme(op, codes, scalars)
        if op in NARROW:
            return Code(rounding(op, codes[0].text, self.helpers), ATOM, True)
        return FORMS[op].of(codes, fresh=True) if op in FORMS else infix(op, codes)

    def _hashed(self, op: str, args: tuple[str, ...], axes: tuple[str, ...]) -> Code:
        """Whole numbers mixed; where no operand is a tensor yet, the first one becomes one. Asks for the helper."""
        self.helpers.add(f"_{op}")
        texts = [self.aligned(a, axes).text for a in args]
        if all(map(self._is_number, args)):
            texts[0] = f"torch.tensor({texts[0]}, device=device)"
        return Code(f"_{op}({', '.join(texts)}{f', {self.real}' if op == 'chance' else ''})", ATOM, True)

    def _empty_at_zero(self, name: str, axes: tuple[str, ...]) -> bool:
        """Whether a number is a size that is 0 only where a tensor along these axes has no elements."""
        op = self.lets[name].op
        extent = op.term.extent if isinstance(op, Scalar) and isinstance(op.term, Size) else None
        known = [set(self.sets[a].extent.sizes) for a in axes if len(self.sets[a].extent.terms) == 1]
        return extent is not None and len(extent.terms) == 1 and any(set(extent.sizes) <= k for k in known)

    def _outer_added(self, let: Let, op: str, args: tuple[str, ...]) -> Code | None:
        """x ± a b, where a b varies along more axes than either: added in one pass, the product is never stored."""
        if (not self.tile.inside or op not in ("add", "sub") or len(args) != 2 or let.kind != "real"
            or args[1] in self.variables):
            return None
        if self.lets[args[0]].kind == "scalar":
            return None
        product = self.lets[args[1]]
        if not isinstance(product.op, Map) or product.op.op != "mul":
            return None
        tile = {a.name for a in (self.kernel.grid, self.kernel.stream) if a is not None}
        inner = max(product.args, key=lambda a: (len(tile & set(self.lets[a].axes)), len(self.lets[a].axes)))
        outer = tuple(a for a in product.args if a != inner)
        axes = tuple(a for a in product.axes if any(a in self.lets[x].axes for x in outer))
        if (not axes or set(product.axes) in (set(axes), set(self.lets[inner].axes))
            or len(outer) + 1 != len(product.args)):
            return None
        base = self._as_real(let, args[0], let.axes)
        kind: Kind = "exact" if any(self.lets[x].kind in ("exact", "integer") for x in outer) else "real"
        left = (self._map(Let("", axes, kind, Map("mul"), outer), "mul", outer) if len(outer) > 1
                else self.value(outer[0]))
        a = f"{left.at(ATOM)}{self.spread_marks(axes, let.axes)}{'.to(wide)' if kind == 'exact' else ''}"
        b = f"{self.aligned(inner, let.axes).at(ATOM)}{'' if self.lets[inner].kind == 'real' else '.to(wide)'}"
        sign = ", value=-1" if op == "sub" else ""
        if base.fresh and self.lets[args[0]].axes == let.axes:
            return Code(f"{base.at(ATOM)}.addcmul_({a}, {b}{sign})", ATOM, True)
        return Code(f"torch.addcmul({base.text}, {a}, {b}{sign})", ATOM, True)

    def _extreme(self, op: str, codes: list[Code], scalars: list[bool]) -> Code:
        tensors = [c for c, s in zip(codes, scalars, strict=True) if not s]
        text = tensors[0].text
        for other in tensors[1:]:
            text = f"torch.{op}imum({text}, {other.text})"
        for bound in (c for c, s in zip(codes, scalars, strict=True) if s):
            text = f"torch.clamp({text}, {'min' if op == 'max' else 'max'}={bound.text})"
        return Code(text, ATOM, True)

    def _spread(self, let: Let, arg: str) -> Code:
        shape = ", ".join(self.extent(a) for a in let.axes)
        if self.lets[arg].kind == "scalar":
            return Code(
                f"torch.full(({shape}{',' * (len(let.axes) == 1)}), {self.value(arg).text}, dtype=torch.float64, "
                f"device=device)"
            )
        return Code(f"{self.aligned(arg, let.axes).at(ATOM)}.expand({shape})")

    def _select(self, let: Let, op: Select) -> Code:
        """A selection: an `if` of Python's for a condition on numbers, else `masked_fill` or `torch.where`."""
        (guarding, chosen), axes = let.args, let.axes
        then, condition = self.lets[chosen], self.lets[guarding]
        number = self.noted(scalar(Const(op.otherwise))).text
        if not condition.axes and self._is_number(guarding):
            kept, guard = self.value(chosen), self.value(guarding)
            other = number if then.kind == "scalar" else f"torch.full_like({kept.text}, {number})"
            return Code(f"({kept.text} if {guard.text} else {other})")
        if then.axes == axes and then.kind in ("real", "exact"):
            value = self.value(chosen)
            opposite = self._opposite(guarding, axes)
            in_place = "_" if self.tile.inside and value.fresh else ""
            return Code(f"{value.at(ATOM)}.masked_fill{in_place}({opposite}, {number})", ATOM, True)
        value = self.aligned(chosen, axes)
        return Code(f"torch.where({self.aligned(guarding, axes).text}, {value.text}, {number})", ATOM, True)

    def spread_marks(self, mine: tuple[str, ...], axes: tuple[str, ...]) -> str:
        """The subscript that aligns a value with more axes; empty where it is aligned."""
        wanted = axes[axes.index(mine[0]) :] if mine else ()
        return "" if wanted == mine else f"[{', '.join(':' if a in mine else 'None' for a in wanted)}]"

    def masks(self, let: Let, op: Select, write: Writer) -> bool:
        """A mask only where the tile is cut by the domain: `if` the tile is not full. Writes its lines."""
        stream = self.kernel.stream
        guarding, chosen = let.args
        then = self.lets[chosen]
        if (op.cut is None or stream is None or self.numbers is None or then.axes != let.axes
            or then.kind not in ("real", "exact")):
            return False
        self._begin(let)
        value = self.value(chosen)
        kept = value.text.isidentifier() and not value.fresh  # somebody reads it unmasked later
        name = (
            value.text
            if value.text.isidentifier() and not kept
            else self.names.fresh("x" if let.name.startswith("_") else let.name if kept
                                  else let.name.removesuffix("_masked"))
        )
        if name != value.text:
            write(f"{name} = {value.text}")
        whole = self.tile.ranges[stream.name]
        narrow = all(span.low or span.high for span in op.cut)  # one that is as wide as the tile masks for all of them
        parts = value.fresh and narrow and len(op.cut) < 4 and self._positional(guarding)
        for spans in [(span,) for span in op.cut] if parts else [op.cut] if op.cut else []:
            kept_names = dict(self.variables)
            write.open(f"if {self.numbers.meets(stream, spans)}:  # the domain cuts this tile")
            target = self._narrowed(name, let, stream, spans[0], write) if parts else name
            failing = f"{self._opposite(guarding, let.axes)}, {self.noted(scalar(Const(op.otherwise))).text}"
            write(f"{target}.masked_fill_({failing})" if value.fresh else f"{name} = {name}.masked_fill({failing})")
            write.close()
            if parts:
                self.tile.ranges[stream.name] = whole
            self.variables = kept_names  # what is made where the tile is cut is there, and only there
        self.owned.end(let.name, self.write.depth, value.fresh)
        self.variables[let.name] = name
        return True

    def _positional(self, name: str) -> bool:
        """Whether a condition is made of positions, numbers and elements alone: it can be
        asked of a part of the tile."""
        let = self.lets[name]
        return (isinstance(let.op, Iota | Scalar | Load)
                or (isinstance(let.op, Map) and all(map(self._positional, let.args))))

    def _narrowed(self, name: str, let: Let, stream: Axis, span: Interval, write: Writer) -> str:
        """The columns of the tile that a span may reach, the range of the axis from here on. Writes their bounds."""
        assert self.numbers is not None
        low, high = self.tile.ranges[stream.name]
        first, last = self.numbers.within(stream, span)
        begin, end = low, high
        if first:
            begin = self.names.fresh(f"{stream.name}_cut")
            write(f"{begin} = max({low}, {first})")
        if last:
            end = self.names.fresh(f"{stream.name}_upto")
            write(f"{end} = min({high}, {last})")
        self.tile.ranges[stream.name] = (begin, end)
        for made in [n for n in self.variables if stream.name in self.lets[n].axes and self._positional(n)]:
            del self.variables[made]
        columns = f"{f'{begin} - {low}' if first else ''}:{f'{end} - {low}' if last else ''}"
        if columns == ":":
            return name
        dim = let.axes.index(stream.name)
        places = f"..., {columns}" if dim == len(let.axes) - 1 else ", ".join([":"] * dim + [columns])
        return f"{name}[{places}]"

    def leave(self, outside: set[str]) -> None:
        """Forgets the variables of a block that may not have run: only what had one before it has one."""
        self.variables = {name: variable for name, variable in self.variables.items() if name in outside}

    def _is_number(self, name: str) -> bool:
        """Whether a let is a number or a truth value of Python's."""
        op, args = self.lets[name].op, self.lets[name].args
        return (isinstance(op, Scalar)
                or (isinstance(op, Map) and op.op not in HASHES and all(map(self._is_number, args))))

    def _opposite(self, name: str, axes: tuple[str, ...]) -> str:
        """The negation of a condition, by the opposite comparison where it is one, expanded to these axes."""
        let = self.lets[name]
        if name not in self.variables and isinstance(let.op, Map) and let.op.op in _OPPOSITE:
            a, b = (self.aligned(x, let.axes) for x in let.args)
            text = f"{a.at(SUM)} {_OPPOSITE[let.op.op]} {b.at(SUM)}"
            return (
                text
                if let.axes[:1] and axes[axes.index(let.axes[0]) :] == let.axes
                else self._expanded(f"({text})", let.axes, axes)
            )
        return f"~{self.aligned(name, axes).at(UNARY)}"

    # reductions

    def _has_some(self, axis: str) -> bool:
        """Whether an axis has an element here: of a tile, of a set as large as one that
        is cut in tiles, or of one never empty."""
        extent = self.sets[axis].extent
        cut = [a for a in (self.kernel.grid, self.kernel.stream) if a is not None and a.name in self.tile.ranges]
        return axis in self.tile.ranges or any(a.set.extent == extent for a in cut) or (extent.constant or 0) > 0

    def _reduce(self, fold: str, arg: str, over: tuple[str, ...], full: bool) -> Code:
        """The fold of a let over axes; by a helper where a row may be empty or torch has no function for it."""
        axes = self.lets[arg].axes
        dims = tuple(n for n, a in enumerate(axes) if a in over)
        code = self.value(arg)
        dim = str(dims[0]) if len(dims) == 1 else str(dims)
        if fold == "prod":
            text = f"{code.at(ATOM)}.to(wide)" if self.lets[arg].kind == "real" else code.at(ATOM)
            for n in reversed(dims):
                text += f".prod({n})"
            return Code(text, ATOM, True)
        if fold not in REDUCTIONS:
            self.helpers.add("_folded")
            shown = f"({dims[0]},)" if len(dims) == 1 else str(dims)
            text = f"{code.at(ATOM)}.to(wide)" if FOLDS[fold].rounds and self.lets[arg].kind == "real" else code.text
            return Code(f"_folded({step(fold, self.helpers)}, {text}, {shown}, {start(fold, self.helpers)})", ATOM,
                        True)
        if full and all(map(self._has_some, over)):
            return Code(f"{code.at(ATOM)}.{REDUCTIONS[fold]}({dim})", ATOM, True)
        self.helpers.add(f"_{REDUCTIONS[fold]}")
        return Code(f"_{REDUCTIONS[fold]}({code.text}, {dim})", ATOM, True)

