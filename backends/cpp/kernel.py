"""A scheduled kernel as a C++ function: one tile of rows of one unit, and around it the units and tiles of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from einc.backends.cpp.arguments import Arguments
from einc.backends.cpp.bounds import Ends
from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import Schedule, Unwritten, product_at_end
from einc.backends.cpp.values import STARTS, At, Value, converted, number, stepped, type_of
from einc.backends.writer import Writer
from einc.ir.plan import Dot, Iota, Let, Load, Module, PreviousCarry, Reduce, Scalar, Select


@dataclass(frozen=True)
class Function:
    """The C++ text of a kernel, and the arguments of the statement that calls it."""

    text: str
    call: str


def function(schedule: Schedule, module: Module, name: str, helpers: set[str]) -> Function:
    """The function of a scheduled kernel. Raises Unwritten where something of it has no text."""
    writer = _Kernel(Places(schedule, module, Arguments(module, helpers)))
    return Function(writer.text(name), writer.places.arguments.call())


def commented(text: str) -> str:
    """A text that stands in a block comment: nothing in it ends the comment, continues a line or ends a string of Python."""
    return text.replace("\\", "/").replace('"', "'").replace("*/", "* /").replace("/*", "/ *")


@dataclass
class _Kernel:
    places: Places
    body: Writer = field(default_factory=lambda: Writer(depth=1))

    @property
    def schedule(self) -> Schedule:
        return self.places.schedule

    def text(self, name: str) -> str:
        """All definitions of the kernel: the tile, the memory that it needs, the call."""
        places, schedule = self.places, self.schedule
        places.body = self.body
        arguments = places.arguments
        rows, stream = schedule.rows, schedule.stream
        arguments.grown = frozenset(store.buffer for store in schedule.kernel.merged)
        arguments.written = {arguments.tensor(store.buffer) for store in schedule.kernel.stores}
        rows_count = arguments.size(rows.set.extent)
        units = [(axis, arguments.size(axis.set.extent)) for axis in schedule.units]
        for axis, extent in reversed(units):
            place = arguments.fresh(axis.name)
            places.at[axis.name] = place
            self.body(f"const L {place} = unit % {extent}; unit /= {extent};")
        self.body(f"const L first = tile * M, rows = {rows_count} - first < M ? {rows_count} - first : M;")
        ends = Ends(schedule, arguments, self.body, dict(places.at), {rows.name: ("first", "(first + rows - 1)")})
        self._made([let for let in schedule.kernel.lets if let.name not in schedule.stages and let.name not in schedule.after
                    and not schedule.streams(let)])
        self._turned()
        self._carried()
        self._stream(ends)
        self._finished()
        return self._whole(name, rows_count, [extent for _, extent in units])

    def _whole(self, name: str, rows: str, units: Sequence[str]) -> str:
        """The text around the statements of a tile."""
        arguments, out = self.places.arguments, Writer()
        bounds = self.places.magnitudes()  # may add arguments
        whole, reals = arguments.whole(), arguments.reals()
        for text in self.schedule.kernel.texts:
            out(f"/* {commented(text)} */")
        out(f"namespace {name}_tile {{")
        out.open("static L needed(const L* n) {")
        out.lines += [f"    {line}" for line in whole]
        out("L total = 0;")
        for _, amount in self.places.memory:
            out(f"total += padded({amount});")
        out("return total;")
        out.close()
        out("}")
        out.open("static void one(void* const* p, const L* n, const double* x, L unit, L tile, float* room, int* bad) {")
        out.lines += [f"    {line}" for line in (*arguments.pointers(), *whole, *reals)]
        for piece, amount in self.places.memory:
            out(f"float* const {piece} = room; room += padded({amount});")
        out.close()
        out.lines += self.body.lines
        out("}")
        out("}")
        count = " * ".join(units) or "1"
        out(f'extern "C" L {name}_room(const L* n) {{ return {name}_tile::needed(n); }}')
        out.open(f'extern "C" L {name}(void* const* p, const L* n, const double* x, float* room, L each, L threads) {{')
        out.lines += [f"    {line}" for line in (*whole, *reals)]
        for bound in bounds:
            out(bound)
        out(f"const L units = {count}, tiles = ({rows} + M - 1) / M;")
        merged = bool(self.schedule.kernel.merged)  # the tiles of a unit add to the same results, one after the other
        out.open(f"return over({'units' if merged else 'units * tiles'}, threads, [&](L work, float* own, int* bad) {{")
        if merged:
            out(f"for (L t = 0; t < tiles; t++) {name}_tile::one(p, n, x, work, t, own, bad);")
        else:  # the last rows of a causal domain see most, and come first
            out(f"{name}_tile::one(p, n, x, work % units, tiles - 1 - work / units, own, bad);")
        out.close()
        out("}, room, each);")
        out.close()
        out("}")
        return out.text

    # outside the stream

    def _made(self, lets: Sequence[Let]) -> None:
        """Values of a unit or of a tile of rows."""
        for let in lets:
            self.places.make(let)

    def _turned(self) -> None:
        """Operands of sums over rows once more, with their rows one after the other."""
        lets = self.schedule.lets()
        for let in self.schedule.kernel.lets:
            if product_at_end(let, self.schedule) == "rows":
                self.places.turn(next(lets[a] for a in let.args if self.schedule.features(lets[a])))

    def _carried(self) -> None:
        """The start of what is carried along the stream."""
        places, schedule = self.places, self.schedule
        for let in schedule.kernel.lets:
            if let.carry is None:
                continue
            if schedule.features(let):
                name = places.arguments.fresh(let.name)
                places.names[let.name] = name
                count = places.count(let)
                places.allot(name, f"{count} * M")
                self.body(f"for (L f = 0; f < {count} * M; f += W) st({name} + f, V{{}});")
                places.features(let, name)
            else:
                self._begin(let, let.carry.fold)

    def _begin(self, let: Let, fold: str) -> None:
        """Vectors in which a fold grows, at its start."""
        name = self.places.arguments.fresh(let.name)
        self.places.names[let.name] = name
        self.body(f"V {name}[QV];")
        self.body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] = splat((float){number(STARTS[fold], 'real')});")
        self.places.refer(let, lambda at: Value(f"{name}[{at.vector}]", "real", True))

    def _of_rows(self, let: Let) -> None:
        """A value of the rows between two stages; one that is carried is merged into what it was."""
        if let.carry is None:
            self.places.make(let)
            return
        name = self.places.names[let.name]
        self.body.open("for (int i = 0; i < QV; i++) {")
        value = converted(self.places.expression(let, At()), "real", True)
        self.body(f"{name}[i] = {stepped(let.carry.fold, f'{name}[i]', value)};")
        self.body.close()
        self.body("}")

    # the stream

    def _stream(self, ends: Ends) -> None:
        """The loop over the tiles of the stream."""
        schedule, body, places = self.schedule, self.body, self.places
        stream = schedule.stream
        spans = stream.bound.spans if stream.bound is not None else None
        extent = places.arguments.size(stream.set.extent)
        found = [("0", extent)] if spans is None else [ends.span(stream, span) for span in spans]
        several = len(found) > 1
        if several:
            body(f"L spans[{len(found)}][2] = {{{', '.join(f'{{{low}, {high}}}' for low, high in found)}}};")
            body(f"ordered(spans, {len(found)});")
            body("L done = 0;")
            body.open(f"for (L span = 0; span < {len(found)}; span++) {{")
            body("const L low = spans[span][0] > done ? spans[span][0] : done, high = spans[span][1];")
            body("done = high > done ? high : done;")
        elif not found:
            body("const L low = 0, high = 0;")
        else:
            body(f"const L low = {found[0][0]}, high = {found[0][1]};")
        body.open("for (L from = low; from < high; from += TILE) {")
        body("const L count = high - from < TILE ? high - from : TILE;")
        ends.ends[stream.name] = ("from", "(from + count - 1)")
        places.at[stream.name] = "from"
        if stream.bound is not None and stream.bound.within is not None:
            body(f"if (!({ends.meets(stream, stream.bound.within)})) continue;")
        self._former()
        early = [let for let in schedule.kernel.lets if schedule.streams(let) and not schedule.has_rows(let)
                 and schedule.rows.name not in let.over]
        self._made(early)
        self._kept()
        self._cut(ends)
        for stage in range(schedule.count):
            self._stage(stage)
        body.close()
        body("}")
        if several:
            body.close()
            body("}")
        self.places.leave()

    def _former(self) -> None:
        """What is read as it was before this tile."""
        for let in self.schedule.kernel.lets:
            if isinstance(let.op, PreviousCarry):
                name, before = self.places.arguments.fresh(f"{let.args[0]}_before"), self.places.names[let.args[0]]
                self.body(f"V {name}[QV];")
                self.body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] = {before}[i];")
                self.places.refer(let, lambda at, name=name: Value(f"{name}[{at.vector}]", "real", True))

    def _kept(self) -> None:
        """Memory for the values of blocks that are read after their block."""
        lets = self.schedule.lets()
        self.memory: dict[str, str] = {}
        for let in self.schedule.kernel.lets:
            operands = product_at_end(let, self.schedule)
            if operands:
                self._factor(let)
        for name in sorted(self.schedule.kept):
            if lets[name].kind != "real":
                raise Unwritten("a later stage reads what is no real number")
            if name not in self.memory:
                self.memory[name] = self.places.arguments.fresh(f"{name}_tile")
                self.places.allot(self.memory[name], "TILE * M")

    def _factor(self, let: Let) -> None:
        """Memory for the product of the operands that have no features, where that is not one value of blocks."""
        assert isinstance(let.op, Dot)
        lets = self.schedule.lets()
        plain = [a for a in let.args if not self.schedule.features(lets[a])]
        if len(plain) != 1 or not self.schedule.streams(lets[plain[0]]) or not self.schedule.has_rows(lets[plain[0]]):
            self.memory[f"{let.name} factor"] = self.places.arguments.fresh("factor")
            self.places.allot(self.memory[f"{let.name} factor"], "TILE * M")

    def _cut(self, ends: Ends) -> None:
        """Whether the domain cuts this tile of the stream."""
        selects = [let for let in self.schedule.kernel.lets if isinstance(let.op, Select) and let.op.cut is not None
                   and self.schedule.streams(let)]
        tests = [ends.meets(self.schedule.stream, let.op.cut) for let in selects if isinstance(let.op, Select) and let.op.cut]
        self.body(f"const bool cut = {' || '.join(tests) or 'false'};")

    def _stage(self, stage: int) -> None:
        """One stage: its blocks, then the products and references that end it."""
        schedule, places, body = self.schedule, self.places, self.body
        lets = [let for let in schedule.kernel.lets if schedule.stages.get(let.name) == stage]
        block = [let for let in lets if schedule.streams(let) and schedule.has_rows(let)]
        carried = [let for let in lets if schedule.stream.name in let.over and not schedule.features(let)]
        ending = [let for let in lets if product_at_end(let, schedule)]
        for let in lets:
            if not schedule.streams(let) and let not in (*carried, *ending) and not isinstance(let.op, PreviousCarry):
                self._of_rows(let)
        referred = {let.carry.reference for let in schedule.kernel.lets if let.carry is not None and let.carry.reference}
        for let in carried:
            if let.carry is None:  # of this tile alone
                self._begin(let, "sum")
                continue
            name = places.names[let.name]
            if let.name in referred:
                body(f"V {name}_before[QV];")
                body(f"UNROLL for (int i = 0; i < QV; i++) {name}_before[i] = {name}[i];")
            if let.carry.reference:
                body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] *= {places.names[let.carry.reference]}_scale[i];")
        factors = [let for let in ending if f"{let.name} factor" in self.memory]
        if block or carried or factors:
            self._blocks(stage, block, carried, factors, referred)
        for let in carried:
            if let.name in referred:
                self._reference(let)
        for let in ending:
            self._product(let)

    def _blocks(self, stage: int, block: Sequence[Let], carried: Sequence[Let], factors: Sequence[Let], referred: set[str]) -> None:
        """Values of a few positions of the stream at a time."""
        schedule, places, body = self.schedule, self.places, self.body
        name = f"stage_{stage}"
        body.open(f"auto {name} = [&](auto many, auto cuts, L j) __attribute__((always_inline)) {{")
        body("constexpr int N = decltype(many)::value;")
        body("constexpr bool CUT = decltype(cuts)::value;")
        dots = [let for let in block if isinstance(let.op, Dot)]
        for let in dots:
            self._products(let)
        body.open("UNROLL for (int r = 0; r < N; r++) {")
        body("const L s = j + r;")
        loads = [let for let in block if isinstance(let.op, Load) and not places.lane_gathers(let)]
        for let in loads:
            places.load_block(let)
        body.open("UNROLL for (int i = 0; i < QV; i++) {")
        at = At("i", "s")
        for let in block:
            if let in dots:
                self._third(let, at)
            elif let not in loads:
                self._value(let, at)
            if let.name in self.memory:
                body(f"st({self.memory[let.name]} + s * M + i * W, {places.value(let.name, at).text});")
        for let in factors:
            product = self._multiplied(let, at)
            body(f"st({self.memory[f'{let.name} factor']} + s * M + i * W, {product});")
        for let in carried:
            self._merged(let, at, let.name in referred)
        for store in schedule.kernel.stores:
            if store.value in {let.name for let in block} and not store.merge:
                places.store_block(store, at)
        body.close()
        body("}")
        body.close()
        body("}")
        body.close()
        body("};")
        body(f"blocks(count, cut, {name});")
        for let in block:  # a later stage finds them in memory
            if let.name in self.memory:
                memory = self.memory[let.name]
                places.refer(let, lambda at, memory=memory: Value(f"ld({memory} + ({at.position}) * M + {at.vector} * W)", "real", True))
            else:
                places.forget(let)

    def _products(self, let: Let) -> None:
        """A product of features for the positions of a block."""
        places, schedule = self.places, self.schedule
        lets = schedule.lets()
        assert isinstance(let.op, Dot)
        left, right = (next(lets[a] for a in let.args if axis in lets[a].axes and set(let.over) & set(lets[a].axes))
                       for axis in (schedule.rows.name, schedule.stream.name))
        name = places.arguments.fresh(let.name)
        pointer, s, f = places.operand(right)
        self.body(f"V {name}[N][QV];")
        self.body(f"products<N>({places.names[left.name]}, {pointer} + j * {s}, {s}, {f}, {places.count(left)}, {name});")
        places.refer(let, lambda at, name=name: Value(f"{name}[r][{at.vector}]", "real", True))

    def _third(self, let: Let, at: At) -> None:
        """The operands of a product that have no features."""
        lets = self.schedule.lets()
        others = [a for a in let.args if not set(let.over) & set(lets[a].axes)]
        if others:
            text = self.places.value(let.name, at).text
            for other in others:
                self.body(f"{text} *= {converted(self.places.value(other, at), 'real', True)};")

    def _value(self, let: Let, at: At) -> None:
        """A value of a block, in a variable."""
        places = self.places
        if isinstance(let.op, Select) and let.op.cut is not None:
            then = places.value(let.args[1], at)
            name = places.arguments.fresh(let.name)
            self.body(f"{type_of(let.kind, True)} {name} = {converted(then, let.kind, True)};")
            self.body(f"if constexpr (CUT) {name} = {converted(places.expression(let, at), let.kind, True)};")
            places.refer(let, lambda _, name=name: Value(name, let.kind, True))
            return
        if isinstance(let.op, Iota | Scalar):
            return
        places.variable(let, at)

    def _multiplied(self, let: Let, at: At) -> str:
        """The product of the operands of a sum over the stream that have no features."""
        lets = self.schedule.lets()
        plain = [a for a in let.args if not self.schedule.features(lets[a])]
        return " * ".join(converted(self.places.value(a, at), "real", True) for a in plain) or "splat(1.f)"

    def _merged(self, let: Let, at: At, referred: bool) -> None:
        """One position's share of what is carried for each row."""
        fold, name = let.carry.fold if let.carry is not None else "sum", self.places.names[let.name]
        if isinstance(let.op, Dot):
            value = self._multiplied(let, at)
        elif isinstance(let.op, Reduce):
            value = converted(self.places.value(let.args[0], at), "real", True)
        else:
            raise Unwritten(f"it carries `{let.name}`")
        merged = f"top({name}[i], {value})" if referred and fold == "max" else stepped(fold, f"{name}[i]", value)
        self.body(f"{name}[i] = {merged};")

    def _reference(self, let: Let) -> None:
        """What a running maximum is where a row has no point so far, and how all that is relative to it shrinks."""
        name, carry, body = self.places.names[let.name], let.carry, self.body
        assert carry is not None
        body(f"V {name}_finite[QV], {name}_scale[QV];")
        body.open("UNROLL for (int i = 0; i < QV; i++) {")
        body(f"{name}_finite[i] = choose({name}[i] == splat(-INFINITE), V{{}}, {name}[i]);")
        body(f"{name}_scale[i] = {'exp2_' if carry.base2 else 'exp_'}({name}_before[i] - {name}_finite[i]);")
        body.close()
        body("}")
        self.places.refer(let, lambda at: Value(f"{name}_finite[{at.vector}]", "real", True))
        self.places.within.append((let, name))

    def _product(self, let: Let) -> None:
        """A product of blocks that are stored, at the end of a stage."""
        places, schedule, body = self.places, self.schedule, self.body
        lets = schedule.lets()
        wide = next(lets[a] for a in let.args if schedule.features(lets[a]))
        factor = self.memory.get(f"{let.name} factor")
        if factor is None:
            factor = self.memory[next(a for a in let.args if not schedule.features(lets[a]))]
        if product_at_end(let, schedule) == "stream":
            pointer, s, f = places.operand(wide)
            assert let.carry is not None
            scale = f"{places.names[let.carry.reference]}_scale" if let.carry.reference else "ones"
            body(f"carry({factor}, {pointer}, {s}, {f}, count, {places.count(let)}, {places.names[let.name]}, {scale});")
            return
        store = next((x for x in schedule.kernel.stores if x.value == let.name and x.merge), None)
        if store is None:
            raise Unwritten(f"`{let.name}` is a sum over rows that is not stored")
        natural, across = places.turned[wide.name]
        pointer, s, f = places.target(let, store)
        body(f"spread({factor}, {natural}, {across}, rows, count, {places.count(let)}, {pointer}, {s}, {f});")

    # after the stream

    def _finished(self) -> None:
        """What is made of the results of the stream, and the stores."""
        schedule, places = self.schedule, self.places
        self._made([let for let in schedule.kernel.lets if let.name in schedule.after])
        for store in schedule.kernel.stores:
            let = schedule.lets()[store.value]
            if not store.merge and not schedule.streams(let):
                places.store(store)

