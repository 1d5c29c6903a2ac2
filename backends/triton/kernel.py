"""A kernel of the plan as one Triton function, and as a second one where several programs share the pass of a tile."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.backends.host.code import PRODUCT, SUM, UNARY, Code
from einc.backends.host.lets import masks_only, uses
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.bounds import Numbers
from einc.backends.triton.even import apart, moved_by
from einc.backends.triton.layout import Layout, layout
from einc.backends.triton.loads import SPLIT, extent_text
from einc.backends.triton.loops import Passer
from einc.backends.triton.merging import shared
from einc.backends.triton.phases import phases
from einc.backends.triton.resources import Room
from einc.backends.triton.scatters import ScatterWriter
from einc.backends.triton.tile import Even, Shifted
from einc.backends.writer import Writer, identifier
from einc.ir.plan import Dot, Iota, Kernel, Let, Load, Map, Module, PreviousCarry, Reduce, Scan, ScatterAdd, Select


@dataclass
class Written:
    """The text of a kernel, and what the host has to know of it."""

    layout: Layout
    room: Room
    arguments: Arguments
    lines: list[str]
    counts: dict[str, str]  # program axis, or cut dimension -> how many of it there are, for the host
    split: bool  # whether whole tiles are told from others
    states: str = ""  # numbers that a program leaves where several share a pass
    uneven: str = ""  # of tiles that reach farther and farther, how many there are
    deep: set[str] = field(default_factory=set)  # whole dimensions that may be cut: only products run along them
    paired: set[str] = field(default_factory=set)  # dimensions along which both numbers of a byte are in a tile
    helpers: set[str] = field(default_factory=set)
    joined: Written | None = None  # the kernel that joins what several programs left


def write_kernel(module: Module, kernel: Kernel, laid: Mapping[str, int]) -> Written:
    """The kernel; where its pass can be shared, also the one that joins the parts. `laid` are buffers that may lie in
    pages, with the slot of their positions.
    """
    made = _kernel_text(module, kernel, shared(kernel), False, laid)
    if shared(kernel):
        made.joined = _kernel_text(module, kernel, True, True, laid)
    return made


def _kernel_text(module: Module, kernel: Kernel, parts: bool, join: bool, laid: Mapping[str, int]) -> Written:
    """The text of one kernel: with `join` the one that joins the parts of a shared pass, else the kernel itself;
    `parts` says whether several programs may share its pass.
    """
    made = layout(kernel)
    given = Arguments(module, kernel, laid=laid)
    body = Writer(depth=1)
    scribe = ScatterWriter(module, kernel, made, given, set(), body)
    order = phases(kernel, made)
    writer = _Kernel(scribe, order, Numbers(scribe), parts)
    writer.join_parts() if join else writer.write()
    lines = _pruned(body.lines)
    states = writer.numel() if parts else ""
    rows = made.role("rows")
    uneven = writer.counts[rows.name] if parts and rows is not None and writer.longest() == "last" else ""
    return Written(made, writer.room, given, lines, writer.counts, writer.split, states, uneven, scribe.deep,
                   scribe.place.paired, scribe.helpers)


def _pruned(lines: list[str]) -> list[str]:
    """Without statements whose name is in no other line."""
    statements = _statements(lines)
    while True:
        words = [set(re.findall(r"\w+", text)) for text in statements]
        kept = []
        for n, text in enumerate(statements):
            match = re.match(r" *(\w+) = ", text)
            if match is None or f"= {match[1]} " in text or any(match[1] in w for m, w in enumerate(words) if m != n):
                kept.append(text)
        if len(kept) == len(statements):
            return [line for text in kept for line in text.split("\n")]
        statements = kept


def _statements(lines: list[str]) -> list[str]:
    """The lines, those of one assignment whose brackets stay open as one text."""
    out: list[str] = []
    left = 0
    for line in lines:
        if left > 0:
            out[-1] += f"\n{line}"
        else:
            out.append(line)
        if left > 0 or re.match(r" *\w+ = ", line):
            left += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
    return out


@dataclass
class _Kernel(Passer):
    """Writes the body of one kernel: its passes over tiles, what it stores, and what several programs of it join."""

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each let is read."""
        return uses(self.kernel)

    def write(self) -> None:
        """Writes the body of the kernel: one tile, rows in order, or a pass, which several programs may share so that
        another kernel joins their parts."""
        self.place()
        if self.kernel.resumed is not None:
            self._in_order()
        elif not self.parts:
            self._tile()
        else:
            (only,) = self.stages.passes
            self.lets(self.stages.head)
            self.run(only)
            self.body.open("if SHARED:  # the pass is shared: another kernel joins the parts")
            self.leave()
            self.body.close()
            self.body.open("else:")
            self._finish(only.after)
            self.body.close()

    def join_parts(self) -> None:
        """Writes the body of the kernel that joins the parts of a tile."""
        self.parts = False
        self.place()
        self.parts = True
        self.lets(self.stages.head)
        self.join()
        self._finish(self.stages.passes[0].after)

    def _tile(self) -> None:
        self.lets(self.stages.head)
        for one in self.stages.passes:
            self.run(one)
            self.lets(one.after)
        for store in self.stages.stores:
            self.scribe.store(store)

    def _finish(self, after: tuple[Let, ...]) -> None:
        self.lets(after)
        for store in self.stages.stores:
            self.scribe.store(store)

    def _in_order(self) -> None:
        """Writes tiles one after the other: what is carried goes from each to the next."""
        grid, passed = self.kernel.grid, self.kernel.resumed
        assert grid is not None and passed is not None and passed.bound is not None
        for let in self.kernel.lets:
            if let.carry is not None:
                self.start(let)
        rows, block = self.layout.role("rows"), self.given.block(identifier(grid.name))
        assert rows is not None
        extent = extent_text(self.given, self.kernel, (grid.name,))
        on = passed.bound.resumes == "on"
        done = self.fresh("done")
        edge = self.fresh(f"{identifier(passed.name)}_{'from' if on else 'to'}")
        self.body(f"{edge} = tl.cast({'0' if on else extent_text(self.given, self.kernel, (passed.name,))}, OFFSET)")
        self.body.open(f"for {done} in range(0, {extent}, {block}):")
        start = done if on else f"(tl.cdiv({extent}, {block}) - 1) * {block} - {done}"
        self.pack(rows, f"tl.cast({start}, OFFSET)")
        (span,) = passed.bound.spans
        low, high = self.numbers.reach(passed, span)
        first, last = (self.fresh(f"{identifier(passed.name)}{n}") for n in (0, 1))
        self.body(f"{first} = {edge if on else f'tl.minimum({edge}, {low})'}")
        self.body(f"{last} = {f'tl.maximum({edge}, {high})' if on else edge}")
        for let in self.kernel.lets:
            if isinstance(let.op, PreviousCarry):
                self.before(let)
        self.ends = (first, last)
        self._tile()
        self.body(f"{edge} = tl.cast({last if on else first}, OFFSET)  # of one type in all rounds")
        self.body.close()

    # lets

    def lets(self, lets: tuple[Let, ...], ends: frozenset[str] = frozenset()) -> None:
        """Writes a statement for each let that is a fold, has a name of its own or is used more than once."""
        names = {let.name for let in lets}
        masking = masks_only(self.kernel) if self.scribe.passed.when == SPLIT else set()
        for let in lets:
            if (let.name in self.scribe.variables or self.given.is_number(let.name)
                or isinstance(let.op, Iota | PreviousCarry)):
                continue
            if let.name in ends or let.carry is not None:
                self.merge(let)
            elif isinstance(let.op, Scan):
                self.scribe.scan(let, let.op, self.states[let.name])
            elif let.name in masking:
                continue
            elif isinstance(let.op, Load):
                self.scribe.variables[let.name] = self.scribe.load(let)
            elif isinstance(let.op, ScatterAdd):
                self.start(let)
                self.merge(let)
            elif isinstance(let.op, Dot | Reduce):
                self.scribe.put(let, self._wanted(let))
            elif isinstance(let.op, Select) and self._cuts(let, let.op):
                self._masked(let, let.op)
            elif (even := self._even(let)) is not None:
                self._shift(let, *even)
            elif self._apart(let) or ((let.kind in ("truth", "integer") and len(self.scribe.value(let.name).text) < 80)
                  or self._inline(let, names)):
                continue
            else:
                self._statement(let, self.scribe.value(let.name))

    def _even(self, let: Let) -> tuple[int, Even] | None:
        """Which operand of a sum or a difference in the pass grows evenly along it, beside one that does not."""
        passed = self.layout.role("passed")
        which = moved_by(self.scribe.lets, let, passed.axes) if passed is not None else None
        found = self.scribe.even(let.args[which]) if which is not None else None
        return None if which is None or found is None else (which, found)

    def _apart(self, let: Let) -> bool:
        """Whether no tile holds a let, which grows evenly."""
        passed = self.layout.role("passed")
        return (passed is not None and bool(self.scribe.place.start)
                and apart(self.kernel, self.scribe.lets, let.name, passed.axes))

    def _shift(self, let: Let, which: int, even: Even) -> None:
        """Writes a sum with what grows evenly: what differs from place to place is added to each, and what a row has in
        common waits."""
        scribe, shape = self.scribe, self.scribe.shape(let.name)
        first, less = let.op == Map("sub") and which == 0, let.op == Map("sub") and which == 1
        other = scribe.aligned(let.args[1 - which], shape, "real")
        beyond = Code(even.beyond.at(PRODUCT) + scribe.marks(even.across, shape), PRODUCT)
        sign = "-" if even.rises == less else "+"
        text = f"-{other.at(UNARY)} {sign} {beyond.text}" if first else f"{other.at(SUM)} {sign} {beyond.text}"
        name, by = self.fresh(self._wanted(let)), self.fresh("row")
        self.body(f"{name} = {text}")
        self.body(f"{by} = {f'-{even.first.at(UNARY)}' if less else even.first.text}")
        scribe.shift(let.name, Shifted(name, by, even.shape))

    def _cuts(self, let: Let, op: Select) -> bool:
        """Whether a selection is one that whole tiles do without."""
        return op.cut is not None and self._passes(let) and self.scribe.passed.when == SPLIT

    def _passes(self, let: Let) -> bool:
        return any(d.role == "passed" for d in self.scribe.shape(let.name))

    def _inline(self, let: Let, names: set[str]) -> bool:
        """Whether a let stands where it is used: once, nearby, and short."""
        users = [x.name for x in self.kernel.lets if let.name in x.reads]
        if len(users) == 1 and self.scribe.stored(let.name) is not None:
            return True
        if (self.uses.get(let.name, 0) != 1 or not users or users[0] not in names
            or (let.text and not self._passes(let))):
            return False
        by = self.scribe.lets[users[0]]
        if isinstance(by.op, Select) and by.op.cut is not None:
            return False
        return len(self.scribe.value(let.name).text) < 70

    def _statement(self, let: Let, code: Code) -> None:
        name = self.fresh(self._wanted(let))
        self.body.statement(f"{name} = ", code.text)
        self.scribe.variables[let.name] = Code(name)

    @staticmethod
    def _wanted(let: Let) -> str:
        return let.name.removesuffix("_masked") if not let.name.startswith("_") else "x"

    def _masked(self, let: Let, op: Select) -> None:
        """Writes a selection that whole tiles do without."""
        scribe, shape, chosen = self.scribe, self.scribe.shape(let.name), let.args[1]
        then, factor, moved = scribe.chosen(let), "", None
        if (chosen in scribe.scaled and (op.otherwise == 0 or math.isinf(op.otherwise))
            and scribe.shape(chosen) == shape):
            raw, factor = scribe.scaled[chosen]  # 0 and infinity are what they are times the number, too
            then = Code(raw)
        elif chosen in scribe.shifted and math.isinf(op.otherwise) and scribe.shape(chosen) == shape:
            moved = scribe.shifted[chosen]
            then = Code(moved.variable)
        again = any(x.name != let.name and chosen in x.reads for x in self.kernel.lets)
        name = then.text
        if again or chosen not in scribe.variables or not name.isidentifier():
            name = self.fresh("x" if let.name.startswith("_") else let.name.removesuffix("_masked"))
            self.body(f"{name} = {then.text}")
        kept, loaded = dict(scribe.variables), dict(scribe.loaded)
        self.body.open(f"if {scribe.passed.when}:  # the domain cuts this tile")
        self.body(f"{name} = tl.where({scribe.condition(let, shape).text}, {name}, {scribe.otherwise(let, op)})")
        self.body.close()
        scribe.variables, scribe.loaded = kept, loaded
        if factor:
            scribe.keep(let.name, name, factor)
        elif moved is not None:
            scribe.shift(let.name, replace(moved, variable=name))
        else:
            scribe.variables[let.name] = Code(name)
