"""Where the values of a kernel stand while its C++ is written: variables, arrays, memory, and loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from einc.backends.cpp.addresses import Addresses
from einc.backends.cpp.arguments import Arguments, host_code
from einc.backends.cpp.growing import Grown, closed, opened
from einc.backends.cpp.narrow import Pairing
from einc.backends.cpp.schedule import Schedule, Unwritten, in_memory, only_multiplied, product_at_end
from einc.backends.cpp.values import At, Reference, Value, begun, converted, fold_of, mapped, selected, stepped, type_of
from einc.backends.host.scalars import scalar
from einc.backends.writer import Writer
from einc.ir.elements import Kind
from einc.ir.narrow import NARROW
from einc.ir.plan import Dot, Iota, Let, Load, Map, Reduce, Scalar, Select
from einc.ir.terms import Const

_KINDS: dict[str, Kind] = {**dict.fromkeys(("DATA", "RANGED", "float", *NARROW), "real"),
                           "double": "exact", "L": "integer", "bool": "truth"}


@dataclass
class Places:
    """The values of one kernel. `body` has the statements written so far, `memory` how many numbers each piece of
    memory holds, `strides` the operands along the stream, `turned` tiles of rows whose rows stand one after the other.
    """

    addresses: Addresses
    body: Writer = field(default_factory=Writer)
    names: dict[str, str] = field(default_factory=dict)
    refs: dict[str, Reference] = field(default_factory=dict)
    strides: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # of operands along the stream
    sources: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # where those lie that are loaded
    listed: dict[str, str] = field(default_factory=dict)  # tiles of few rows whose rows stand one after the other
    grown: dict[str, str] = field(default_factory=dict)  # sums whose rows do, and where
    turned: dict[str, tuple[str, str]] = field(default_factory=dict)
    pairing: Pairing = field(default_factory=Pairing)
    memory: list[tuple[str, str]] = field(default_factory=list)
    within: list[tuple[Let, str]] = field(default_factory=list)

    @property
    def schedule(self) -> Schedule:
        """What the kernel keeps, folds and stores, in its parts."""
        return self.addresses.schedule

    @property
    def arguments(self) -> Arguments:
        """The arguments of the C++ function, which grow as addresses ask for more."""
        return self.addresses.arguments

    # names and memory

    def refer(self, let: Let, reference: Reference) -> None:
        """Says how a value is referred to from now on."""
        self.refs[let.name] = reference

    def vectors(self, let: Let, name: str) -> None:
        """Says that a value of real numbers stands in the vectors of a name."""
        self.refer(let, lambda at: Value(f"{name}[{at.vector}]", "real", True))

    def tiled(self, let: Let, memory: str) -> None:
        """Says that a value of blocks stands in memory, for all positions of the tile."""
        self.refer(let, lambda at: Value(f"ld({memory} + ({at.position}) * M + {at.vector} * W)", "real", True))

    def variable_of(self, let: Let, name: str) -> None:
        """Says that a value of a block stands in a variable."""
        self.refer(let, lambda _: Value(name, let.kind, True))

    def forget(self, let: Let) -> None:
        """Forgets a value of a block after it."""
        self.refs.pop(let.name, None)

    def leave(self) -> None:
        """Ends the stream: after it a running maximum is what it is."""
        for let, name in self.within:
            self.vectors(let, name)

    def allot(self, name: str, amount: str) -> None:
        """Allots memory of a tile for so many numbers, under a name."""
        self.memory.append((name, amount))

    def count(self, let: Let) -> str:
        """How many features a value has for each row or position."""
        return " * ".join(self.arguments.size(self.addresses.extent(a)) for a in self.schedule.features(let)) or "1"

    def flat(self, let: Let, at: At) -> str:
        """The place of a value's features among them all."""
        places, text = dict(at.features), ""
        for axis in self.schedule.features(let):
            extent = self.arguments.size(self.addresses.extent(axis))
            text = f"({text}) * {extent} + {places[axis]}" if text else places[axis]
        return f"({text})" if text else "0"

    # values

    def value(self, name: str, at: At) -> Value:
        """A value where it stands: its variable or memory, or its expression."""
        if name in self.refs:
            return self.refs[name](at)
        return self.expression(self.schedule.lets()[name], at)

    def expression(self, let: Let, at: At) -> Value:
        """The expression that computes a value; what it folds needs statements, which are written. Raises Unwritten
        for an operation that has no expression."""
        if let.kind == "scalar":
            code = host_code(let, self.schedule)
            return Value(self.arguments.computed(code.text, code.calls), "scalar", False)
        match let.op:
            case Scalar(term):
                code = scalar(term)
                return Value(self.arguments.computed(code.text, code.calls), "scalar", False)
            case Iota(axis):
                return self._position(axis, at)
            case Map("pow") if (exponent := self._whole(let.args[1])) is not None:
                base = self.value(let.args[0], at)
                return Value(f"whole_power<{exponent}>({converted(base, let.kind, base.lanes)})", let.kind, base.lanes)
            case Map("mul") if let.kind == "exact" and (split := self._split(let, at)) is not None:
                return split
            case Map("div") if self.schedule.lets()[let.args[1]].kind == "scalar":
                return self._divided(let, at)
            case Map(op):
                return mapped(op, let.kind, [self.value(a, at) for a in let.args])
            case Select(otherwise):
                condition, then = (self.value(a, at) for a in let.args)
                return selected(condition, then, otherwise, let.kind)
            case Load():
                return self._loaded(let, at)
            case Dot() | Reduce():
                return self._folded(let, at)
        raise Unwritten(f"it has `{let.name}`")

    def _split(self, let: Let, at: At) -> Value | None:
        """An exact product of whole numbers in lanes that is only rounded: of rounded factors."""
        lets = self.schedule.lets()
        moving = [a for a in let.args if {self.schedule.rows.name, self.schedule.stream.name} & set(lets[a].axes)]
        users = [x for x in self.schedule.kernel.lets if let.name in x.reads]
        if len(moving) != 1 or lets[moving[0]].kind != "integer" or any(x.kind != "real" for x in users):
            return None
        fixed = mapped("mul", "exact", [self.value(a, at) for a in let.args if a not in moving])
        value = self.value(moving[0], at)
        return mapped("mul", "real", [Value(f"(float){fixed.text}", "real", False), value])

    def _divided(self, let: Let, at: At) -> Value:
        """A quotient by a number of the whole call: a product with its inverse, but where the last bit counts."""
        above, below = (self.value(a, at) for a in let.args)
        self.arguments.not_zero.add(below.text)
        rounds = any(isinstance(x.op, Map) and x.op.op in NARROW for x in self.schedule.kernel.lets)
        if rounds or let.kind != "real":
            return mapped("div", let.kind, [above, below])
        return mapped("mul", "real", [above, Value(self.arguments.inverse(below.text), "real", False)])

    def _whole(self, name: str) -> int | None:
        """The whole number that a power has for its exponent, if it is one."""
        match self.schedule.lets()[name].op:
            case Scalar(Const(Fraction(numerator=number, denominator=1))) if 0 < number < 9:
                return number
        return None

    def _position(self, axis: str, at: At) -> Value:
        """The numbers at which an axis stands."""
        start = self.schedule.kernel.axis(axis).set.start
        if axis == self.schedule.rows.name:
            return Value(f"(splat(first + {at.vector} * W + {start}) + iota)", "integer", True)
        if axis == self.schedule.stream.name:
            return Value(f"(from + {at.position} + {start})", "integer", False)
        place = dict(at.features).get(axis) or self.addresses.at[axis]
        return Value(f"({place} + {start})", "integer", False)

    def _loaded(self, let: Let, at: At) -> Value:
        """An element, or one for each lane at places that lanes have computed. Raises Unwritten where such an element
        is no real number."""
        found = self.addresses.address(let, at, self.value)
        kind = _KINDS[found.type]
        if found.gathers:
            ((index, stride, extent),) = found.gathers
            if kind != "real":
                raise Unwritten("lanes look up what is no real number")
            base = found.pointer if found.rows == "0" else f"{found.pointer} + {at.vector} * W * ({found.rows})"
            return Value(f"gather({base}, {index}, {stride}, {found.rows}, rows - {at.vector} * W, {extent})",
                         "real", True)
        if found.rows != "0":
            self._lanes(let, name := self.arguments.fresh(let.name), at)
            return Value(f"{name}[{at.vector}]", kind, True)
        text = f"num(*({found.pointer}))"
        return Value(f"whole({text}, bad)" if kind == "integer" else text, kind, False)

    def _lanes(self, let: Let, name: str, at: At) -> None:
        """Writes statements that load a vector for each part of the tile of rows."""
        found = self.addresses.address(let, at, self.value)
        kind = _KINDS[found.type]
        self.body(f"{type_of(kind, True)} {name}[QV];")
        self.body(f"lanes({found.pointer}, {found.rows}, rows, {name}{', bad' if kind == 'integer' else ''});")

    def _folded(self, let: Let, at: At) -> Value:
        """A fold over features, by a loop that is written before the expression. Raises Unwritten for a fold over rows
        or the stream."""
        fold = fold_of(let)
        if {self.schedule.rows.name, self.schedule.stream.name} & set(let.over):
            raise Unwritten(f"it folds `{let.name}`")
        lets, name = self.schedule.lets(), self.arguments.fresh(let.name)
        lanes = any(self.schedule.has_rows(lets[a]) for a in let.args)
        grown, loops = [Grown(name, fold, lanes)], self.loops(let.over)
        opened(self.body, grown, loops)
        inner = at.inside(let.over, loops)
        values = [converted(self.value(a, inner), "real", lanes) for a in let.args]
        self.body(f"{name} = {stepped(fold, name, ' * '.join(values))};")
        closed(self.body, grown, loops)
        return Value(name, "real", lanes)

    def loops(self, axes: Sequence[str]) -> list[tuple[str, str]]:
        """The variable of a loop over each of some features, and how many there are."""
        return [(self.arguments.fresh(axis), self.arguments.size(self.addresses.extent(axis))) for axis in axes]

    def open(self, axes: Sequence[str], at: At) -> At:
        """Opens a loop for each of these axes and gives the place inside them. `close` ends them."""
        loops = self.loops(axes)
        for place, extent in loops:
            self.body.open(f"for (L {place} = 0; {place} < {extent}; {place}++) {{")
        return at.inside(axes, loops)

    def close(self, axes: Sequence[str]) -> None:
        """Closes one loop for each of these axes."""
        for _ in axes:
            self.body.close()
            self.body("}")

    # statements

    def make(self, let: Let) -> None:
        """Writes the statements that make a value outside of blocks; one that is cheaper to repeat stands where it is
        read.
        """
        schedule = self.schedule
        if let.kind == "scalar" or isinstance(let.op, Iota | Scalar):
            return
        rows, streams = schedule.has_rows(let), schedule.streams(let)
        if schedule.features(let):
            if in_memory(let, schedule) and not self._once(let) and (rows or streams or not isinstance(let.op, Load)):
                self.body.lines += self.pairing.before(let.name)
                self._array(let)
                self.body.lines += self.pairing.after(let.name)
            return
        name = self.arguments.fresh(let.name)
        self.names[let.name] = name
        if rows:
            self._row(let, name)
        elif streams:
            self.body(f"{type_of(let.kind, False)} {name}[TILE];")
            self.body.open("for (L s = 0; s < count; s++) {")
            value = converted(self.expression(let, At(position="s")), let.kind, False)
            self.body(f"{name}[s] = {value};")
            self.close("s")
            self.refer(let, lambda at: Value(f"{name}[{at.position}]", let.kind, False))
        else:
            value = converted(self.expression(let, At()), let.kind, False)
            self.body(f"const {type_of(let.kind, False)} {name} = {value};")
            self.refer(let, lambda _: Value(name, let.kind, False))

    def _once(self, let: Let) -> bool:
        """Whether a value with features is made where it is read: by one step, for each of its elements once."""
        schedule = self.schedule
        users = [x for x in schedule.kernel.lets if let.name in x.reads]
        stored = any(store.value == let.name for store in schedule.kernel.stores)
        if stored or len(users) != 1 or not isinstance(let.op, Map | Select) or let.carry is not None:
            return False
        (user,) = users
        blocks = isinstance(user.op, Dot) and (schedule.streams(user) or bool(product_at_end(user, schedule)))
        features = {*schedule.features(user), *user.over}
        return not blocks and features == set(schedule.features(let)) and not user.reads.count(let.name) > 1

    def _row(self, let: Let, name: str) -> None:
        """Writes a value for each row, in the vectors of the tile."""
        found = self.addresses.address(let, At(), self.value) if isinstance(let.op, Load) else None
        if found is not None and not found.gathers:
            self._lanes(let, name, At())
        else:
            self.body(f"{type_of(let.kind, True)} {name}[QV];")
            self.body.open("for (int i = 0; i < QV; i++) {")
            self.body(f"{name}[i] = {converted(self.expression(let, At()), let.kind, True)};")
            self.close("i")
        self.refer(let, lambda at: Value(f"{name}[{at.vector}]", let.kind, True))

    def begin(self, let: Let, fold: str) -> None:
        """Writes vectors in which a fold grows, at its start."""
        name = self.arguments.fresh(let.name)
        self.names[let.name] = name
        self.body(f"V {name}[QV];")
        self.body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] = splat((float){begun(fold)});")
        self.vectors(let, name)

    def variable(self, let: Let, at: At) -> None:
        """Writes a value of a block, in a variable."""
        name = self.arguments.fresh(let.name)
        self.body(f"const {type_of(let.kind, True)} {name} = {converted(self.expression(let, at), let.kind, True)};")
        self.refer(let, lambda _: Value(name, let.kind, True))

    def load_block(self, let: Let) -> None:
        """Writes what is loaded for the rows of one position of a block."""
        name = self.arguments.fresh(let.name)
        self._lanes(let, name, At(position="s"))
        self.refer(let, lambda at: Value(f"{name}[{at.vector}]", let.kind, True))

    # arrays: values with features

    def features(self, let: Let, name: str) -> None:
        """Says that a value stands in memory, all features of the tile of rows."""
        self.names[let.name] = name
        self.refer(let, lambda at: Value(f"ld({name} + {self.flat(let, at)} * M + {at.vector} * W)", "real", True))

    def _array(self, let: Let) -> None:
        """Writes all features of a value, in memory of the tile."""
        schedule, name = self.schedule, self.arguments.fresh(let.name)
        features, count = schedule.features(let), self.count(let)
        self.names[let.name] = name
        if schedule.has_rows(let):
            self.allot(name, f"{count} * M")
            if isinstance(let.op, Load) and not bool(let.args):
                inner = self.open(features[:-1], At())
                found = self.addresses.address(let, At(features=(*inner.features, (features[-1], "0"))), self.value)
                step = self.addresses.stride(let, features[-1])
                last = self.arguments.size(self.addresses.extent(features[-1]))
                flat = self.flat(let, At(features=(*inner.features, (features[-1], "0"))))
                self.body(f"pack({found.pointer}, {found.rows}, {step}, rows, {last}, {name} + {flat} * M);")
                self.close(features[:-1])
            else:
                inner = self.open(features, At())
                self.body.open("UNROLL for (int i = 0; i < QV; i++) {")
                value = converted(self.expression(let, inner), "real", True)
                self.body(f"st({name} + {self.flat(let, inner)} * M + i * W, {value});")
                self.close(("i", *features))
            self.features(let, name)
        elif schedule.streams(let):
            self._streamed(let, name, features, count)
        else:
            self.allot(name, count)
            inner = self.open(features, At())
            self.body(f"{name}[{self.flat(let, inner)}] = {converted(self.expression(let, inner), 'real', False)};")
            self.close(features)
            self.refer(let, lambda at: Value(f"{name}[{self.flat(let, at)}]", "real", False))

    def _streamed(self, let: Let, name: str, features: tuple[str, ...], count: str) -> None:
        """Finds or writes features of a tile of the stream: where they lie if they are float, else in memory of the
        tile.
        """
        pointer, s, f = f"{name}_at", f"{name}_s", f"{name}_f"
        self.strides[let.name] = pointer, s, f
        self.refer(let, lambda at: Value(f"{pointer}[({at.position}) * {s} + {self.flat(let, at)} * {f}]",
                                         "real", False))
        single = isinstance(let.op, Load) and not bool(let.args) and len(features) == 1
        if single:
            found = self.addresses.address(let, At(features=((features[0], "0"),)), self.value)
            along, step = self.addresses.stride(let, self.schedule.stream.name), self.addresses.stride(let, features[0])
            self.sources[let.name] = f"({found.pointer})", f"({along})", f"({step})"
            if varies := found.type in ("DATA", "RANGED"):
                self.body.lines.append("#if HALF")
            if found.type != "float":
                self.allot(name, f"TILE * {count}")
                many = f"if (QV > 1 || rows > FEW || {step} != 1) " if only_multiplied(let, self.schedule) else ""
                self.body(f"{many}widen({found.pointer}, {along}, {step}, count, {count}, {name});")
                self.body(f"const float* const {pointer} = {name}; const L {s} = {count}, {f} = 1;")
            if varies:
                self.body.lines.append("#else")
            if varies or found.type == "float":
                self.body(f"const float* const {pointer} = {found.pointer}; const L {s} = {along}, {f} = {step};")
            if varies:
                self.body.lines.append("#endif")
            return
        self.allot(name, f"TILE * {count}")
        self.body.open("for (L s = 0; s < count; s++) {")
        inner = self.open(features, At(position="s"))
        value = converted(self.expression(let, inner), "real", False)
        self.body(f"{name}[s * {count} + {self.flat(let, inner)}] = {value};")
        self.close(("s", *features))
        self.body(f"const float* const {pointer} = {name}; const L {s} = {count}, {f} = 1;")

    def operand(self, let: Let) -> tuple[str, str, str]:
        """Of a value along the stream its first element, and its strides along the stream and its features. Raises
        Unwritten where it is not in memory."""
        if let.name not in self.strides:
            raise Unwritten(f"`{let.name}` is an operand that is not in memory")
        return self.strides[let.name]

    def turn(self, let: Let) -> None:
        """Writes a tile of rows with features once more, its rows one after the other."""
        if let.name not in self.turned:
            name = self.arguments.fresh(f"{let.name}_rows")
            across = self.across(let)
            self.allot(name, f"M * {across}")
            self.body.lines += self.pairing.before(let.name)
            self.body(f"rows_of({self.names[let.name]}, {self.count(let)}, {across}, {name});")
            self.body.lines += self.pairing.after(let.name)
            self.turned[let.name] = name, across

    def across(self, let: Let) -> str:
        """From one row to the next where rows stand one after the other: whole vectors."""
        return f"((({self.count(let)}) + M - 1) / M * M)"
