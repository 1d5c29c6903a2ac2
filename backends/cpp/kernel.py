"""A scheduled kernel as a C++ function: one tile of rows of one unit, and around it the units and tiles of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from einc.backends.cpp.addresses import Addresses
from einc.backends.cpp.arguments import Arguments
from einc.backends.cpp.bounds import Ends
from einc.backends.cpp.joining import joined, splits
from einc.backends.cpp.narrow import narrow, spared
from einc.backends.cpp.pairs import list_pairs, list_rows, pack_pairs, pack_quads, pair_rows
from einc.backends.cpp.passes import Pass
from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import Schedule, folds_pairs, loaded_as_it_lies, product_at_end, spreads
from einc.backends.cpp.stages import Stages
from einc.backends.cpp.stores import write_store
from einc.backends.cpp.values import type_of
from einc.backends.cpp.wrapping import wrapped
from einc.backends.writer import Writer, identifier
from einc.ir.plan import Dot, Let, Module

NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Function:
    """The C++ text of a kernel, and the arguments of the statement that calls it."""

    text: str
    call: str
    spread: bool  # what is kept may lie in several runs


def function(schedule: Schedule, module: Module, name: str, helpers: set[str], kept: Mapping[str, int] = NOTHING,
             pieces: str = "") -> Function:
    """The function of a scheduled kernel; `kept` are the tensors that are objects of a cache, with the axis along which
    each lies, and `pieces` is the list of the memory of each and of the runs in which they lie.

    Raises Unwritten where something of it has no text.
    """
    places = Places(Addresses(schedule, module, Arguments(module, helpers)))
    if schedule.passes:
        text = Pass(places).text(name)
        return Function(text, places.arguments.call(kept), False)
    writer = _Kernel(places)
    if kept and pieces and spreads(schedule, kept):
        writer.pieces, writer.kept = pieces, kept
    return Function(writer.text(name), writer.places.arguments.call(kept), bool(writer.pieces))


@dataclass
class _Kernel:
    """The text of one kernel in the making: the values that its functions have, and the statements around them."""

    places: Places
    body: Writer = field(default_factory=lambda: Writer(depth=1))
    pieces: str = ""  # the list of memory and runs in Python, where what is kept may lie in several
    kept: Mapping[str, int] = field(default_factory=dict)
    states: str = ""  # numbers of the state of a part, where the stream may be cut into parts

    @property
    def schedule(self) -> Schedule:
        return self.places.schedule

    def text(self, name: str) -> str:
        """All definitions of the kernel: the tile, the memory that it needs, the call."""
        places, schedule = self.places, self.schedule
        places.body = self.body
        places.pairing.narrow = narrow(schedule, places.addresses.module)
        places.pairing.spared = spared(schedule, places.pairing.narrow)
        arguments = places.arguments
        rows = schedule.rows
        arguments.grown = frozenset(store.buffer for store in schedule.kernel.merged)
        arguments.written = {arguments.tensor(store.buffer) for store in schedule.kernel.stores}
        rows_count = arguments.size(rows.set.extent)
        units = [(axis, arguments.size(axis.set.extent)) for axis in schedule.units]
        for axis, extent in reversed(units):
            place = arguments.fresh(axis.name)
            places.addresses.at[axis.name] = place
            self.body(f"const L {place} = unit % {extent}; unit /= {extent};")
        self.body(f"const L first = tile * M, rows = {rows_count} - first < M ? {rows_count} - first : M;")
        ends = Ends(schedule, arguments, self.body, dict(places.addresses.at),
                    {rows.name: ("first", "(first + rows - 1)")})
        before = [let for let in schedule.kernel.lets if let.name not in schedule.stages
                  and let.name not in schedule.after and not schedule.streams(let)]
        self._made([let for let in before if not schedule.turns(let)])
        self._turned()
        self._carried()
        self._few()
        if schedule.kernel.stream is not None:
            self._around(ends, [let for let in before if schedule.turns(let)])
        self._finished()
        return self._whole(name, rows_count, [extent for _, extent in units])

    def _whole(self, name: str, rows: str, units: Sequence[str]) -> str:
        """The text around the statements of a tile."""
        counts = [f"const L units = {' * '.join(units) or '1'}, tiles = ({rows} + M - 1) / M;"]
        if self.schedule.kernel.merged:  # the tiles of a unit add to the same results, one after the other
            piece = "for (L t = 0; t < tiles; t++) one(p, n, x, work, t, own, bad);"
            return wrapped(self.places, self.body, name, "L unit, L tile", "units", piece, counts)
        # where rows see what is before them, the last ones see most and come first
        if not self.states:
            piece = "one(p, n, x, work % units, tiles - 1 - work / units, own, bad);"
            return wrapped(self.places, self.body, name, "L unit, L tile", "units * tiles", piece, counts)
        extent = self.places.arguments.size(self.schedule.stream.set.extent)
        counts += [f"const L whole = units * tiles, parts = parts_of(whole, {extent});"]
        piece = ("one(p, n, x, work % units, tiles - 1 - work / units % tiles, work / whole, parts, "
                 f"common + work % whole * states_of(parts, {self.states}), own, bad);")
        return wrapped(self.places, self.body, name, "L unit, L tile, L part, L parts, float* states",
                       "whole * parts", piece, counts, f"parts > 1 ? whole * states_of(parts, {self.states}) : 0")

    # outside the stream

    def _made(self, lets: Sequence[Let]) -> None:
        """Writes values of a unit or of a tile of rows."""
        for let in lets:
            self.places.make(let)

    def _turned(self) -> None:
        """Writes operands of sums over rows with their rows one after the other, and of products of pairs as pairs."""
        lets, places = self.schedule.lets(), self.places
        for let in self.schedule.kernel.lets:
            found = places.pairing.narrow.get(let.name)
            if product_at_end(let, self.schedule) == "rows":
                places.turn(next(lets[a] for a in let.args if self.schedule.features(lets[a])))
                if found is not None:
                    pair_rows(places, lets[found.rows])
            elif found is not None and found.rows:
                (pack_pairs if found.where == "PAIRS" else pack_quads)(places, lets[found.rows])

    def _carried(self) -> None:
        """Writes the start of what is carried along the stream."""
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
                places.begin(let, let.carry.fold)

    def _few(self) -> None:
        """Writes operands of products of few rows: rows one after the other, and which sums grow so."""
        places, schedule = self.places, self.schedule
        lets = schedule.lets()
        for let in schedule.kernel.lets:
            wide = [lets[a] for a in let.args if schedule.features(lets[a])]
            passed = [a for a in wide if schedule.streams(a)]
            lie = all(loaded_as_it_lies(a, schedule) for a in passed)
            if not isinstance(let.op, Dot) or not lie or folds_pairs(let, schedule):
                continue
            if product_at_end(let, schedule) == "stream":
                stride = places.addresses.stride(wide[0], schedule.features(wide[0])[0])
                places.grown[let.name] = f"rows <= FEW && {stride} == 1"
            elif schedule.streams(let) and schedule.has_rows(let):
                list_rows(places, next(a for a in wide if schedule.has_rows(a)))
                found = places.pairing.narrow.get(let.name)
                if found is not None and found.where == "PAIRS":
                    list_pairs(places, found)

    # the stream

    def _around(self, ends: Ends, turning: Sequence[Let]) -> None:
        """Writes the stream within loops over the axes that are folded with it, which make some values each time. What
        a sum has by then is added up in double, so that many short streams lose no more than a long one.
        """
        schedule, places, body, in_parts = self.schedule, self.places, self.body, splits(self.schedule)
        sums = [places.names[let.name] for let in schedule.kernel.lets
                if schedule.around and let.carry is not None and let.carry.fold == "sum"]
        for name in sums:
            body(f"{type_of('exact', True)} {name}_runs[QV] = {{}};")
        for axis in schedule.around:
            place = places.addresses.at[axis.name] = ends.places[axis.name] = places.arguments.fresh(axis.name)
            body.open(f"for (L {place} = 0; {place} < {places.arguments.size(axis.set.extent)}; {place}++) {{")
        self._made(turning)
        self._stream(ends, in_parts)
        for name in sums:
            body(f"UNROLL for (int i = 0; i < QV; i++) {name}_runs[i] += exact({name}[i]), {name}[i] = V{{}};")
        for _ in schedule.around:
            body.close()
            body("}")
        for name in sums:
            body(f"UNROLL for (int i = 0; i < QV; i++) {name}[i] = real({name}_runs[i]);")
        self._as_lanes()
        places.leave()
        if in_parts:
            self.states = joined(places, body)

    def _stream(self, ends: Ends, in_parts: bool) -> None:
        """Writes the loop over the tiles of the stream."""
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
        elif in_parts:
            body(f"const L all_low = {found[0][0]}, all_high = {found[0][1]};")
            body("const L each = ((all_high - all_low + parts - 1) / parts + TILE - 1) / TILE * TILE;")
            body("const L low = all_low + part * each, high = low + each < all_high ? low + each : all_high;")
        else:
            body(f"const L low = {found[0][0]}, high = {found[0][1]};")
        if self.pieces:
            self._runs()
        else:
            body.open("for (L from = low; from < high; from += TILE) {")
            body("const L count = high - from < TILE ? high - from : TILE;")
        ends.ends[stream.name] = ("from", "(from + count - 1)")
        places.addresses.at[stream.name] = "from"
        if stream.bound is not None and stream.bound.within is not None:
            body(f"if (!({ends.meets(stream, stream.bound.within)})) continue;")
        Stages(places, body).write(ends)
        body.close()
        body("}")
        if several:
            body.close()
            body("}")

    def _runs(self) -> None:
        """Writes the head of a loop whose tiles end where what is kept lies elsewhere: in it the pointers are those of
        the run that holds the tile.
        """
        arguments, body = self.places.arguments, self.body
        arguments.spread = {identifier(name): f"{self.pieces}[{n}]" for n, name in enumerate(self.kept)}
        runs, moved = arguments.running(f"{self.pieces}[-1]", "runs", 2), arguments.fresh("moved")
        many, run = arguments.length(f"{self.pieces}[-1]"), arguments.fresh("run")
        found = {name: arguments.tensor(name) for name in self.kept}
        for pointer in found.values():
            body(f"const auto {pointer}_all = {pointer};")
        body.open(f"for (L from = low, count = 0, {run} = 0; from < high; from += count) {{")
        body(f"while ({run} + 1 < {many} && {runs}[({run} + 1) * {runs}_0] <= from) {run}++;")
        body("count = high - from < TILE ? high - from : TILE;")
        body(f"if ({run} + 1 < {many} && {runs}[({run} + 1) * {runs}_0] - from < count)")
        body(f"    count = {runs}[({run} + 1) * {runs}_0] - from;")
        body(f"const L {moved} = {runs}[{run} * {runs}_0 + {runs}_1];")
        for name, pointer in found.items():
            body(f"const auto {pointer} = {pointer}_all + {moved} * {pointer}_{self.kept[name]};")

    def _as_lanes(self) -> None:
        """Writes sums that have grown with their rows one after the other, as lanes again."""
        places, lets = self.places, self.schedule.lets()
        for name, where in places.grown.items():
            other = places.arguments.fresh("other")
            count = places.count(lets[name])
            places.allot(other, f"{count} * M")
            self.body.lines.append("#if QV == 1")
            self.body(f"if ({where}) as_lanes({places.names[name]}, rows, {count}, {other});")
            self.body.lines.append("#endif")

    # after the stream

    def _finished(self) -> None:
        """Writes what is made of the results of the stream, and the stores."""
        schedule, places = self.schedule, self.places
        self._made([let for let in schedule.kernel.lets if let.name in schedule.after])
        for store in schedule.kernel.stores:
            let = schedule.lets()[store.value]
            if not store.merge and not schedule.streams(let):
                write_store(places, store)

