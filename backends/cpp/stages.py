"""What is done for one tile of the stream: values of blocks, folds of rows, and the products that end a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from einc.backends.cpp.bounds import Ends
from einc.backends.cpp.growing import Grown, closed, opened
from einc.backends.cpp.narrow import Narrow
from einc.backends.cpp.pairs import pair_stream, raw_stream
from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import Schedule, Unwritten, folds_pairs, in_pairs, product_at_end, shown
from einc.backends.cpp.stores import store_block, target
from einc.backends.cpp.values import At, Value, converted, fold_of, stepped, type_of
from einc.backends.writer import Writer
from einc.ir.plan import Dot, Iota, Let, Load, PreviousCarry, Reduce, Scalar, Select


@dataclass
class Stages:
    """The statements of a tile of the stream. `memory` has where values of blocks are stored for the tile."""

    places: Places
    body: Writer
    memory: dict[str, str] = field(default_factory=dict)

    @property
    def schedule(self) -> Schedule:
        """The order in which the kernel computes its lets."""
        return self.places.schedule

    def write(self, ends: Ends) -> None:
        """Writes all statements, within the loop over tiles."""
        schedule = self.schedule
        self._former()
        for let in schedule.kernel.lets:
            if schedule.streams(let) and not schedule.has_rows(let) and schedule.rows.name not in let.over:
                self.places.make(let)
        self._pairs()
        self._kept()
        self._cut(ends)
        for stage in range(schedule.count):
            self._stage(stage)

    def _pairs(self) -> None:
        """Writes operands along the stream for products of pairs."""
        lets = self.schedule.lets()
        for name, found in self.places.pairing.narrow.items():
            if product_at_end(lets[name], self.schedule) == "stream":
                pair_stream(self.places, lets[found.stream])
            elif found.stream:
                raw_stream(self.places, lets[found.stream], found.where)

    def _former(self) -> None:
        """Writes what is read as it was before this tile."""
        for let in self.schedule.kernel.lets:
            if isinstance(let.op, PreviousCarry):
                name, before = self.places.arguments.fresh(f"{let.args[0]}_before"), self.places.names[let.args[0]]
                self.body(f"V {name}[QV];")
                self.body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] = {before}[i];")
                self.places.vectors(let, name)

    def _kept(self) -> None:
        """Allots memory for the values of blocks that are read after their block. Raises Unwritten where one is no
        real number."""
        lets = self.schedule.lets()
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
        """Allots memory for the product of the operands that have no features, where that is not one real value of
        blocks.
        """
        assert isinstance(let.op, Dot)
        lets = self.schedule.lets()
        plain = [a for a in let.args if not self.schedule.features(lets[a])]
        one = lets[plain[0]] if len(plain) == 1 else None
        if one is None or one.kind != "real" or not self.schedule.streams(one) or not self.schedule.has_rows(one):
            self.memory[f"{let.name} factor"] = self.places.arguments.fresh("factor")
            self.places.allot(self.memory[f"{let.name} factor"], "TILE * M")

    def _cut(self, ends: Ends) -> None:
        """Writes whether the domain cuts this tile of the stream."""
        selects = [let for let in self.schedule.kernel.lets if isinstance(let.op, Select) and let.op.cut is not None
                   and self.schedule.streams(let)]
        tests = [ends.meets(self.schedule.stream, let.op.cut) for let in selects
                 if isinstance(let.op, Select) and let.op.cut]
        self.body(f"const bool cut = {' || '.join(tests) or 'false'};")

    def _stage(self, stage: int) -> None:
        """Writes one stage: its blocks, then the products and references that end it."""
        schedule, places, body = self.schedule, self.places, self.body
        lets = [let for let in schedule.kernel.lets if schedule.stages.get(let.name) == stage]
        block = [let for let in lets if schedule.streams(let) and schedule.has_rows(let)]
        carried = [let for let in lets if schedule.stream.name in let.over and not schedule.features(let)]
        ending = [let for let in lets if product_at_end(let, schedule)]
        for let in lets:
            if not schedule.streams(let) and let not in (*carried, *ending) and not isinstance(let.op, PreviousCarry):
                self._of_rows(let)
        referred = {let.carry.reference for let in schedule.kernel.lets
                    if let.carry is not None and let.carry.reference}
        for let in carried:
            if let.carry is None:  # of this tile alone
                places.begin(let, "sum")
                continue
            name = places.names[let.name]
            if let.name in referred:
                body(f"V {name}_before[QV];")
                body(f"UNROLL for (int i = 0; i < QV; i++) {name}_before[i] = {name}[i];")
            if let.carry.reference:
                body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] *= {places.names[let.carry.reference]}_scale[i];")
            if let.carry.fold == "sum":  # a sum of sums of tiles loses less than one long sum
                body(f"V {name}_part[QV] = {{}};")
        factors = [let for let in ending if f"{let.name} factor" in self.memory]
        if block or carried or factors:
            self._blocks(stage, block, carried, factors, referred)
        for let in carried:
            if let.carry is not None and let.carry.fold == "sum":
                name = places.names[let.name]
                body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] += {name}_part[i];")
            if let.name in referred:
                self._reference(let)
        for let in ending:
            self._product(let)

    def _blocks(self, stage: int, block: Sequence[Let], carried: Sequence[Let], factors: Sequence[Let],
                referred: set[str]) -> None:
        """Writes values of a few positions of the stream at a time."""
        schedule, places, body = self.schedule, self.places, self.body
        name = f"stage_{stage}"
        body.open(f"auto {name} = [&](auto many, auto cuts, L j) __attribute__((always_inline)) {{")
        body("constexpr int N = decltype(many)::value;")
        body("constexpr bool CUT = decltype(cuts)::value;")
        folds = [let for let in block if folds_pairs(let, schedule)]
        dots = [let for let in block if isinstance(let.op, Dot) and let not in folds]
        for let in dots:
            self._products(let)
        for let in folds:
            self._folded(let)
        body.open("UNROLL for (int r = 0; r < N; r++) {")
        body("const L s = j + r;")
        once = [let for let in block if let not in folds and not in_pairs(let, schedule)]
        loads = [let for let in once if isinstance(let.op, Load) and not places.addresses.lane_gathers(let)]
        for let in loads:
            places.load_block(let)
        body.open("UNROLL for (int i = 0; i < QV; i++) {")
        at = At("i", "s")
        for let in block:
            if let in dots:
                self._third(let, at)
            elif let in once and let not in loads:
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
                store_block(places, store, at)
        body.close()
        body("}")
        body.close()
        body("}")
        body.close()
        body("};")
        body(f"blocks(count, cut, {name});")
        for let in block:  # a later stage finds them in memory
            if let.name in self.memory:
                places.tiled(let, self.memory[let.name])
            else:
                places.forget(let)

    def _products(self, let: Let) -> None:
        """Writes a product of features for the positions of a block."""
        places, schedule = self.places, self.schedule
        lets = schedule.lets()
        assert isinstance(let.op, Dot)
        left, right = (next(lets[a] for a in let.args if axis in lets[a].axes and set(let.over) & set(lets[a].axes))
                       for axis in (schedule.rows.name, schedule.stream.name))
        name = places.arguments.fresh(let.name)
        pointer, s, f = places.operand(right)
        self.body(f"V {name}[N][QV];")
        found = places.pairing.narrow.get(let.name)
        if left.name in places.listed:
            source, along, step = places.sources[right.name]
            self.body.lines.append("#if QV == 1")
            self.body(f"if (rows <= FEW && {step} == 1) {{")
            given = f"rows, {source} + j * {along}, {along}, {places.count(left)}, {name}"
            both = found is not None and found.where == "PAIRS"
            if both and found is not None:
                self.body.lines.append("#if PAIRS")
                (pairs,) = places.pairing.pairs[f"{found.rows} features"]
                self.body(f"few_products<N>({places.listed[pairs]}, {given});")
                self._scaled(name, found)
                self.body.lines.append("#else")
            self.body(f"few_products<N>({places.listed[left.name]}, {given});")
            self.body.lines += ["#endif"] * both
            self.body("} else {")
            self.body.lines.append("#endif")
        if found is not None:
            paired = places.pairing.pairs
            (pairs,), (raw, along) = paired[f"{found.rows} features"], paired[f"{found.stream} raw"]
            self.body.lines.append(f"#if {found.where}")
            bits = 16 if found.where == "PAIRS" else 8
            self.body(f"products{bits}<N>({pairs}, {raw} + j * {along}, {along}, {places.count(left)}, {name});")
            self._scaled(name, found)
            self.body.lines.append("#else")
        self.body(f"products<N>({places.names[left.name]}, {pointer} + j * {s}, {s}, {f}, {places.count(left)}, "
                  f"{name});")
        self.body.lines += ["#endif"] * (found is not None)
        if left.name in places.listed:
            self.body.lines.append("#if QV == 1")
            self.body("}")
            self.body.lines.append("#endif")
        places.refer(let, lambda at: Value(f"{name}[r][{at.vector}]", "real", True))

    def _scaled(self, name: str, found: Narrow) -> None:
        """Writes that a product is multiplied by the numbers that were taken out of it."""
        if found.factors:
            self.body("UNROLL for (int r = 0; r < N; r++)")
            factor = f"splat({self._factors(found.factors)})"
            self.body(f"    UNROLL for (int i = 0; i < QV; i++) {name}[r][i] *= {factor};")

    def _folded(self, let: Let) -> None:
        """Writes a fold over features of what each row makes with each position of a block, all of them at a time."""
        places, body, fold = self.places, self.body, fold_of(let)
        name = places.arguments.fresh(let.name)
        every = "UNROLL for (int r = 0; r < N; r++) UNROLL for (int i = 0; i < QV; i++) "
        grown, loops = [Grown(name, fold, True, "[N][QV]", "[r][i]", every)], places.loops(let.over)
        opened(body, grown, loops)
        at = At("i", "s").inside(let.over, loops)
        body.open("UNROLL for (int r = 0; r < N; r++) {")
        body("const L s = j + r;")
        body.open("UNROLL for (int i = 0; i < QV; i++) {")
        values = [converted(places.value(a, at), "real", True) for a in let.args]
        body(f"{name}[r][i] = {stepped(fold, f'{name}[r][i]', ' * '.join(values))};")
        places.close(("i", "r"))
        closed(body, grown, loops)
        places.refer(let, lambda at: Value(f"{name}[r][{at.vector}]", "real", True))

    def _factors(self, names: Sequence[str]) -> str:
        """The numbers by which a product is multiplied."""
        return " * ".join(converted(self.places.value(a, At()), "real", False) for a in names) or "1.f"

    def _third(self, let: Let, at: At) -> None:
        """Writes the operands of a product that have no features."""
        lets = self.schedule.lets()
        others = [a for a in let.args if not set(let.over) & set(lets[a].axes)]
        if others:
            text = self.places.value(let.name, at).text
            for other in others:
                self.body(f"{text} *= {converted(self.places.value(other, at), 'real', True)};")

    def _value(self, let: Let, at: At) -> None:
        """Writes a value of a block, in a variable."""
        places = self.places
        if isinstance(let.op, Select) and let.op.cut is not None:
            then = places.value(let.args[1], at)
            name = places.arguments.fresh(let.name)
            self.body(f"{type_of(let.kind, True)} {name} = {converted(then, let.kind, True)};")
            self.body(f"if constexpr (CUT) {name} = {converted(places.expression(let, at), let.kind, True)};")
            places.variable_of(let, name)
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
        """Writes one position's share of what is carried for each row. Raises Unwritten where that is no fold."""
        fold, name = let.carry.fold if let.carry is not None else "sum", self.places.names[let.name]
        name += "_part" * (let.carry is not None and fold == "sum")
        if isinstance(let.op, Dot):
            value = self._multiplied(let, at)
        elif isinstance(let.op, Reduce):
            value = converted(self.places.value(let.args[0], at), "real", True)
        else:
            raise Unwritten(f"it carries `{let.name}`")
        hidden = referred and fold == "max" and not shown(let, self.schedule)
        merged = f"top({name}[i], {value})" if hidden else stepped(fold, f"{name}[i]", value)
        self.body(f"{name}[i] = {merged};")

    def _reference(self, let: Let) -> None:
        """Writes what a running maximum is where a row has no point so far, and how all that is relative to it shrinks.
        """
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
        """Writes a product of blocks that are stored, at the end of a stage. Raises Unwritten for a sum over rows that
        is not stored."""
        places, schedule, body = self.places, self.schedule, self.body
        lets = schedule.lets()
        wide = next(lets[a] for a in let.args if schedule.features(lets[a]))
        factor = self.memory.get(f"{let.name} factor")
        if factor is None:
            factor = self.memory[next(a for a in let.args if not schedule.features(lets[a]))]
        found = places.pairing.narrow.get(let.name)
        if product_at_end(let, schedule) == "stream":
            pointer, s, f = places.operand(wide)
            assert let.carry is not None
            scale = f"{places.names[let.carry.reference]}_scale" if let.carry.reference else "ones"
            paired = self._halved(let) if found is not None else ""
            if paired:
                self._where("PAIRS", f"pair_up({factor}, count, (u32*){paired});")
            if let.name in places.grown:
                source, along, _ = places.sources[wide.name]
                body.lines.append("#if QV == 1")
                pairs = f"PAIRS ? (const u32*){paired} : nullptr" if paired else "nullptr"
                given = f"{factor}, {pairs}, {source}, {along}, count, rows, {places.count(let)}"
                body(f"if ({places.grown[let.name]}) few_carry({given}, {places.names[let.name]}, {scale});")
                body("else {")
                body.lines.append("#endif")
            if found is not None:
                body.lines.append("#if PAIRS")
                streamed = places.pairing.pairs[f"{found.stream} stream"][0]
                body(f"carry16((const u32*){paired}, {streamed}, (count + 1) / 2, "
                     f"{places.count(let)}, {places.names[let.name]}, {scale});")
                body.lines.append("#else")
            body(f"carry({factor}, {pointer}, {s}, {f}, count, {places.count(let)}, "
                 f"{places.names[let.name]}, {scale});")
            body.lines += ["#endif"] * (found is not None)
            if let.name in places.grown:
                body.lines.append("#if QV == 1")
                body("}")
                body.lines.append("#endif")
            return
        store = next((x for x in schedule.kernel.stores if x.value == let.name and x.merge), None)
        if store is None:
            raise Unwritten(f"`{let.name}` is a sum over rows that is not stored")
        natural, across = places.turned[wide.name]
        pointer, s, f = target(places, let, store)
        if found is not None:
            halved = self._halved(let)
            body.lines.append("#if PAIRS")
            body(f"halve({factor}, count, rows, (u32*){halved});")
            rows = places.pairing.pairs[f"{found.rows} rows"][0]
            body(f"spread16((const u32*){halved}, {rows}, {across}, rows, count, "
                 f"{places.count(let)}, {pointer}, {s}, {f}, {self._factors(found.factors)});")
            body.lines.append("#else")
        body(f"spread({factor}, {natural}, {across}, rows, count, {places.count(let)}, {pointer}, {s}, {f});")
        body.lines += ["#endif"] * (found is not None)

    def _where(self, condition: str, statement: str) -> None:
        """Writes a statement for where a condition of the preprocessor holds."""
        self.body.lines.append(f"#if {condition}")
        self.body(statement)
        self.body.lines.append("#endif")

    def _halved(self, let: Let) -> str:
        """Memory for a factor of a product in half the width."""
        name = self.places.arguments.fresh(f"{let.name}_half")
        self.places.allot(name, "TILE / 2 * M")
        return name

    def _of_rows(self, let: Let) -> None:
        """Writes a value of the rows between two stages; one that is carried is merged into what it was."""
        if let.carry is None:
            self.places.make(let)
            return
        name = self.places.names[let.name]
        self.body.open("for (int i = 0; i < QV; i++) {")
        value = converted(self.places.expression(let, At()), "real", True)
        if let.carry.reference:
            self.body(f"{name}[i] *= {self.places.names[let.carry.reference]}_scale[i];")
        self.body(f"{name}[i] = {stepped(let.carry.fold, f'{name}[i]', value)};")
        self.body.close()
        self.body("}")
