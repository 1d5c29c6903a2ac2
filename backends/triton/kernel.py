"""A kernel of the plan as one Triton function: what a program is, its tile, its passes, what it stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.backends.host.code import Code
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.bounds import Numbers
from einc.backends.triton.folds import Folder
from einc.backends.triton.layout import Dim, Layout, layout
from einc.backends.triton.loads import extent_text
from einc.backends.triton.stages import Pass, Stages, stages
from einc.backends.triton.tile import NEUTRAL, TYPES, uses
from einc.backends.writer import Writer, identifier
from einc.plan import Axis, Before, Dot, Kernel, Let, Load, Module, Place, Reduce, Scan, Select, Store, arguments

_SPLIT = "phase != 1"


@dataclass
class Written:
    """The text of a kernel, and what the host has to know of it."""

    layout: Layout
    arguments: Arguments
    lines: list[str]
    counts: dict[str, str]  # program axis, or cut dimension -> how many of it there are, for the host
    split: bool  # whether whole tiles are told from others
    stages: Stages
    deep: set[str] = field(default_factory=set)  # whole dimensions that may be cut: only products run along them
    helpers: set[str] = field(default_factory=set)


def write_kernel(module: Module, kernel: Kernel) -> Written:
    made = layout(kernel)
    given = Arguments(module, kernel)
    body = Writer(depth=1)
    scribe = Folder(module, kernel, made, given, set(), body)
    order = stages(kernel, made)
    writer = _Kernel(scribe, order, Numbers(scribe))
    writer.write()
    return Written(made, given, body.lines, writer.counts, writer.split, order, scribe.deep, scribe.helpers)


@dataclass
class _Kernel:
    scribe: Folder
    stages: Stages
    numbers: Numbers
    counts: dict[str, str] = field(default_factory=dict)
    split: bool = False
    states: dict[str, str] = field(default_factory=dict)  # let -> the variable that is merged
    scales: dict[str, str] = field(default_factory=dict)  # reference -> the factor of this tile

    def __post_init__(self) -> None:
        self.kernel, self.layout, self.given = self.scribe.kernel, self.scribe.layout, self.scribe.arguments
        self.body = self.scribe.body
        self.uses = uses(dict(self.scribe.lets), [s.value for s in self.kernel.stores])

    def fresh(self, wanted: str) -> str:
        return self.given.names.fresh(wanted)

    def write(self) -> None:
        self._programs()
        self._whole()
        for dim in self.layout.dims:
            if dim.role == "columns" or (dim.role == "rows" and self.kernel.resumed is None):
                self._pack(dim, f"{self.scribe.at[f'tile {dim.name}']} * {self.given.block(dim.name)}")
        if self.kernel.resumed is not None:
            self._in_order()
        else:
            self._tile()

    # programs

    def _programs(self) -> None:
        """What this program has: a tile of the rows, the heaviest first, and one element of every other axis."""
        cut = [d for d in self.layout.dims if d.role in ("rows", "columns") and not (d.role == "rows" and self.kernel.resumed)]
        axes = list(self.layout.programs)
        if not cut and not axes:
            return
        self.body("program = tl.program_id(0).to(OFFSET)")
        rest = "program"
        parts: list[tuple[str, str, str]] = []
        for dim in cut:
            total = extent_text(self.given, self.kernel, dim.axes)
            block = self.given.block(dim.name)
            self.counts[dim.name] = f"-(-{Folder.tight(total)} // {block})"
            parts.append((f"{dim.name}_tile", f"tl.cdiv({total}, {block})", dim.name))
        for axis in reversed(axes):
            name = self.fresh(identifier(axis))
            self.scribe.at[axis] = name
            self.counts[axis] = extent_text(self.given, self.kernel, (axis,))
            parts.append((name, self.counts[axis], ""))
        for n, (name, count, dim) in enumerate(parts):
            if dim:
                name = self.scribe.at[f"tile {dim}"] = self.fresh(name)
            last = n == len(parts) - 1
            text = rest if last else f"{rest} % {Folder.tight(count)}"
            if dim and self._longest_last():
                self.body(f"{name} = {count} - 1 - {text}  # the longest first")
            else:
                self.body(f"{name} = {text}")
            rest = f"{rest} // {Folder.tight(count)}"

    def _longest_last(self) -> bool:
        """Whether later rows reach farther."""
        stream = self.kernel.stream
        spans = stream.bound.spans if stream is not None and stream.bound is not None else ()
        return any(s.high and not s.low for s in spans)

    def _whole(self) -> None:
        for dim in self.layout.dims:
            if dim.role == "whole":
                (axis,) = dim.axes
                at = self.scribe.at[axis] = self.fresh(f"{dim.name}_at")
                self.body(f"{at} = tl.arange(0, {self.given.block(dim.name)}).to(OFFSET)")
                self._mask(dim, at, self.scribe.extent(dim))

    def _mask(self, dim: Dim, at: str, extent: str) -> None:
        name = self.scribe.inside[dim.name] = self.fresh(f"{dim.name}_in")
        self.body(f"{name} = {at} < {extent}")

    def _pack(self, dim: Dim, start: str) -> None:
        """The positions of a cut dimension in this tile, and where the tile ends along its slowest axis."""
        total = extent_text(self.given, self.kernel, dim.axes)
        block = self.given.block(dim.name)
        first = self.fresh(f"{dim.name}0")
        self.body(f"{first} = {start}")
        at = self.fresh(f"{dim.name}_at")
        self.body(f"{at} = {first} + tl.arange(0, {block})")
        self._mask(dim, at, total)
        last = self.fresh(f"{dim.name}1")
        self.body(f"{last} = tl.minimum({first} + {block}, {total}) - 1")
        if len(dim.axes) == 1:
            self.scribe.at[dim.axes[0]] = at
            self.numbers.ends[dim.axes[0]] = (first, last)
            return
        rest = at
        for n, axis in reversed(list(enumerate(dim.axes))):
            extent = extent_text(self.given, self.kernel, (axis,))
            name = self.scribe.at[axis] = self.fresh(f"{identifier(axis)}_at")
            if n:
                self.body(f"{name} = {rest} % {Folder.tight(extent)}")
                rest = f"{rest} // {Folder.tight(extent)}"
            else:
                self.body(f"{name} = {rest}")
        later = extent_text(self.given, self.kernel, dim.axes[1:])
        later = later if later.isidentifier() else f"({later})"
        self.numbers.ends[dim.axes[0]] = (f"({first} // {later})", f"({last} // {later})")

    # the order within a program

    def _tile(self) -> None:
        self._lets(self.stages.head)
        for one in self.stages.passes:
            self._pass(one)
            self._lets(one.after)
        for store in self.stages.stores:
            self._store(store)

    def _store(self, store: Store) -> None:
        self.scribe.store(store)

    def _in_order(self) -> None:
        """Tiles one after the other: what is carried goes from each to the next."""
        grid, passed = self.kernel.grid, self.kernel.resumed
        assert grid is not None and passed is not None and passed.bound is not None
        for let in self.kernel.lets:
            if let.carry is not None:
                self._start(let)
        rows, block = self.layout.role("rows"), self.given.block(identifier(grid.name))
        assert rows is not None
        extent = extent_text(self.given, self.kernel, (grid.name,))
        on = passed.bound.resumes == "on"
        done = self.fresh("done")
        edge = self.fresh(f"{identifier(passed.name)}_{'from' if on else 'to'}")
        self.body(f"{edge} = {'0' if on else extent_text(self.given, self.kernel, (passed.name,))}")
        self.body.open(f"for {done} in range(0, {extent}, {block}):")
        start = done if on else f"(tl.cdiv({extent}, {block}) - 1) * {block} - {done}"
        self._pack(rows, f"tl.cast({start}, OFFSET)")
        (span,) = passed.bound.spans
        low, high = self.numbers.reach(passed, span)
        first, last = (self.fresh(f"{identifier(passed.name)}{n}") for n in (0, 1))
        self.body(f"{first} = {edge if on else f'tl.minimum({edge}, {low})'}")
        self.body(f"{last} = {f'tl.maximum({edge}, {high})' if on else edge}")
        for let in self.kernel.lets:
            if isinstance(let.op, Before):
                self._before(let, let.op)
        self.ends = (first, last)
        self._tile()
        self.body(f"{edge} = {last if on else first}")
        self.body.close()

    def _before(self, let: Let, op: Before) -> None:
        name = self.fresh(f"{self.states[op.of]}_before")
        self.body(f"{name} = {self.states[op.of]}")
        self.scribe.variables[let.name] = Code(name)

    # passes

    def _pass(self, one: Pass) -> None:
        dim = self.layout.role("passed")
        assert dim is not None
        axis = self.kernel.axis(dim.axes[0])
        for let in one.folds:
            if self.kernel.resumed is None or let.carry is None:
                self._start(let)
        for let in one.inner:
            if isinstance(let.op, Scan):
                self._start(let)
        outside = dict(self.scribe.variables), dict(self.scribe.loaded)
        for low, high in self._reaches(axis):
            self._loops(one, dim, axis, low, high)
        self.scribe.variables, self.scribe.loaded = dict(outside[0]), dict(outside[1])
        self.scribe.when = ""
        for let in one.folds:
            self.scribe.variables[let.name] = Code(self.states[let.name])

    def _reaches(self, axis: Axis) -> list[tuple[str, str]]:
        """The pieces of the axis that this tile needs, as names."""
        if self.kernel.resumed is not None:
            return [self.ends]
        scan = next((let.op for let in self.kernel.lets if isinstance(let.op, Scan)), None)
        extent = extent_text(self.given, self.kernel, (axis.name,))
        if scan is not None:
            shift = self.given.size(scan.shift)
            self.scribe.shift[scan.over] = shift
            count = extent_text(self.given, self.kernel, (scan.over,))
            return [(f"tl.minimum(0, {count} - {extent} - ({shift}))" if scan.back else f"tl.minimum(0, -({shift}))",
                     f"tl.maximum({extent}, {count} - ({shift}))" if scan.back else extent)]
        if axis.bound is None:
            return [("0", extent)]
        pieces = [self._named(axis, self.numbers.reach(axis, span)) for span in axis.bound.spans]
        return pieces if len(pieces) < 2 else self._sorted(axis, pieces)

    def _named(self, axis: Axis, ends: tuple[str, str]) -> tuple[str, str]:
        names = tuple(self.fresh(f"{identifier(axis.name)}{n}") for n in (0, 1))
        for name, text in zip(names, ends, strict=True):
            self.body(f"{name} = {text}")
        return names[0], names[1]

    def _sorted(self, axis: Axis, pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pieces from left to right, each from where the ones before it end."""
        pieces = list(pieces)
        for end in range(len(pieces) - 1, 0, -1):
            for n in range(end):
                (a, b), (c, d) = pieces[n], pieces[n + 1]
                pieces[n] = self._named(axis, (f"tl.minimum({a}, {c})", f"tl.where({a} <= {c}, {b}, {d})"))
                pieces[n + 1] = self._named(axis, (f"tl.maximum({a}, {c})", f"tl.where({a} <= {c}, {d}, {b})"))
        out = [pieces[0]]
        for low, high in pieces[1:]:
            before = out[-1]
            out.append(self._named(axis, (f"tl.maximum({low}, tl.maximum({before[0]}, {before[1]}))", high)))
        return out

    def _loops(self, one: Pass, dim: Dim, axis: Axis, low: str, high: str) -> None:
        """One loop over tiles, or one text for three: cut on the left, whole, cut on the right."""
        block = self.given.block(dim.name)
        start = self.fresh(f"{dim.name}_from")
        cuts = self.numbers.cuts(axis) if self.kernel.stream is not None else None
        if cuts is None or (axis.bound is not None and len(axis.bound.spans) > 1):
            self.scribe.when = "True"
            self.body.open(f"for {start} in range({low}, {high}, {block}):")
            self._step(one, dim, start, high)
            self.body.close()
            return
        self.split = True
        begins, ends = cuts
        whole, upto = (self.fresh(f"{dim.name}_{n}") for n in ("whole", "upto"))
        begin = low
        for text in begins:
            begin = f"tl.maximum({begin}, {text})"
        self.body(f"{whole} = {low}" if begin == low else f"{whole} = {low} + tl.cdiv({begin} - {low}, {block}) * {block}")
        end = high
        for text in ends:
            end = f"tl.minimum({end}, {text})"
        self.body(f"{upto} = {whole} + tl.maximum({end} - {whole}, 0) // {block} * {block} if SPLIT else {whole}")
        first = 0 if begins else 1
        note = "cut on the left, whole, cut on the right" if begins else "whole tiles, then those that are cut"
        self.body.open(f"for phase in tl.static_range({first}, 3):  # {note}")
        before = (f"{low} if phase == 0 else ", f"tl.minimum({whole}, {high}) if phase == 0 else ") if begins else ("", "")
        self.body(f"first = {before[0]}{whole} if phase == 1 else {upto}")
        self.body(f"last = {before[1]}{upto} if phase == 1 else {high}")
        self.scribe.when = _SPLIT
        self.body.open(f"for {start} in range(first, last, {block}):")
        self._step(one, dim, start, high)
        self.body.close()
        self.body.close()

    def _step(self, one: Pass, dim: Dim, start: str, high: str) -> None:
        """One tile of the passed axis."""
        block, scribe = self.given.block(dim.name), self.scribe
        scan = next((let.op for let in one.inner if isinstance(let.op, Scan)), None)
        if scan is not None and scan.back:
            turned = self.fresh(f"{dim.name}_back")
            low, end = (f"({x})" for x in self._reaches(self.kernel.axis(dim.axes[0]))[0])
            self.body(f"{turned} = {low} + (tl.cdiv({end} - {low}, {block}) - 1) * {block} - ({start} - {low})")
            start = turned
        scribe.start = start
        scribe.lanes[dim.name] = f"tl.arange(0, {block}).to(OFFSET)"
        at = self.fresh(f"{dim.name}_at")
        self.body(f"{at} = {start} + tl.arange(0, {block})")
        scribe.at[dim.axes[0]] = at
        mask = scribe.inside[dim.name] = self.fresh(f"{dim.name}_in")
        if scan is not None:
            self._scan_masks(scan, dim, at, mask)
        else:
            self.body(f"{mask} = {at} < {high}")
        kept, loaded = dict(scribe.variables), dict(scribe.loaded)
        if self.kernel.stream is not None:
            for let in one.inner:
                if isinstance(let.op, Before):
                    self._before(let, let.op)
        self._lets(one.inner, ends={let.name for let in one.folds})
        for store in one.stores:
            self._store(store)
        scribe.variables, scribe.loaded = kept, loaded

    def _scan_masks(self, scan: Scan, dim: Dim, at: str, mask: str) -> None:
        extent, count = (extent_text(self.given, self.kernel, (a,)) for a in (scan.axis, scan.over))
        self.body(f"{mask} = ({at} >= 0) & ({at} < {extent})")
        if scan.over == scan.axis:
            self.scribe.inside[scan.over] = mask
            return
        other = self.scribe.at[scan.over] = self.fresh(f"{identifier(scan.over)}_at")
        shift = self.scribe.shift[scan.over]
        self.body(f"{other} = {at}" if shift == "0" else f"{other} = {at} + ({shift})")
        inside = self.scribe.inside[scan.over] = self.fresh(f"{identifier(scan.over)}_in")
        self.body(f"{inside} = ({other} >= 0) & ({other} < {count})")

    # lets

    def _lets(self, lets: tuple[Let, ...], ends: frozenset[str] | set[str] = frozenset()) -> None:
        """A statement for each let that is a fold, has a name of its own or is used more than once."""
        names = {let.name for let in lets}
        masking = _masking(self.kernel) if self.scribe.when == _SPLIT else set()
        for let in lets:
            if let.name in self.scribe.variables or self.given.is_number(let.name) or isinstance(let.op, Place | Before):
                continue
            if let.name in ends or let.carry is not None:
                self._merge(let)
            elif isinstance(let.op, Scan):
                self.scribe.scan(let, let.op, self.states[let.name])
            elif let.name in masking:
                continue
            elif isinstance(let.op, Load):
                self.scribe.variables[let.name] = self.scribe.load(let)
            elif isinstance(let.op, Dot | Reduce):
                code = self.scribe.fold(let)[0]
                if code.text.isidentifier():
                    self.scribe.variables[let.name] = code
                else:
                    self._statement(let, code)
            elif isinstance(let.op, Select) and let.op.cut is not None and self.scribe.when == _SPLIT and self._passes(let):
                self._masked(let, let.op)
            elif (let.kind in ("truth", "integer") and len(self.scribe.value(let.name).text) < 80) or self._inline(let, names):
                continue
            else:
                self._statement(let, self.scribe.value(let.name))

    def _passes(self, let: Let) -> bool:
        return any(d.role == "passed" for d in self.scribe.shape(let.name))

    def _inline(self, let: Let, names: set[str]) -> bool:
        """Whether a let stands where it is used: once, nearby, and short."""
        users = [x.name for x in self.kernel.lets if let.name in arguments(x.op)]
        if len(users) == 1 and self.scribe._stored(let.name) is not None:
            return True
        if self.uses.get(let.name, 0) != 1 or not users or users[0] not in names or (let.text and not self._passes(let)):
            return False
        by = self.scribe.lets[users[0]]
        if isinstance(by.op, Select) and by.op.cut is not None:
            return False
        return len(self.scribe.value(let.name).text) < 70

    def _statement(self, let: Let, code: Code) -> None:
        name = self.fresh(let.name.removesuffix("_masked") if not let.name.startswith("_") else "x")
        if name in self.given.pointers.values():
            name = self.fresh(f"{let.name}_tile")
        self.body.statement(f"{name} = ", code.text)
        self.scribe.variables[let.name] = Code(name)

    def _masked(self, let: Let, op: Select) -> None:
        """A selection that whole tiles do without."""
        scribe, shape = self.scribe, self.scribe.shape(let.name)
        then = scribe.chosen(let, op)
        again = any(x.name != let.name and op.then in arguments(x.op) for x in self.kernel.lets)
        name = then.text
        if again or op.then not in scribe.variables or not name.isidentifier():
            name = self.fresh("x" if let.name.startswith("_") else let.name.removesuffix("_masked"))
            self.body(f"{name} = {then.text}")
        kept, loaded = dict(scribe.variables), dict(scribe.loaded)
        self.body.open(f"if {_SPLIT}:  # the domain cuts this tile")
        self.body(f"{name} = tl.where({scribe.condition(op, shape).text}, {name}, {scribe.otherwise(let, op)})")
        self.body.close()
        scribe.variables, scribe.loaded = kept, loaded
        scribe.variables[let.name] = Code(name)

    # what is merged

    def _start(self, let: Let) -> None:
        """The neutral element, before the first tile."""
        op = let.op
        fold = let.carry.fold if let.carry is not None else op.fold if isinstance(op, Reduce | Scan) else "sum"
        if isinstance(op, Scan):
            shape = tuple(d for d in self.scribe.shape(op.arg) if d.role != "passed")
            kind = "tl.float64" if fold in ("sum", "prod") else "WIDE"
        else:
            shape, kind = self.scribe.shape(let.name), TYPES[let.kind]
        name = self.fresh(f"{let.name}_run" if isinstance(op, Scan) else let.name if not let.name.startswith("_") else "fold")
        blocks = ", ".join(self.given.block(d.name) for d in shape)
        self.body(f"{name} = tl.full(({blocks}{',' * (len(shape) == 1)}), {NEUTRAL[fold]}, {kind})")
        self.states[let.name] = name

    def _merge(self, let: Let) -> None:
        """One tile's share, merged into what the tiles before gave; a reference that grows rescales what refers to it."""
        name, carry, scribe = self.states[let.name], let.carry, self.scribe
        fold = carry.fold if carry is not None else let.op.fold if isinstance(let.op, Reduce) else "sum"
        scale = self.scales.get(carry.reference, "") if carry is not None and carry.reference is not None else ""
        if scale and carry is not None and carry.reference is not None:
            scale += scribe.marks(scribe.shape(carry.reference), scribe.shape(let.name))
        if not isinstance(let.op, Dot | Reduce):
            share, merged = scribe.expression(let), False
        else:
            share, merged = scribe.fold(let, f"{name} * {scale}" if scale else name if fold == "sum" else "")
        referred = any(x.carry is not None and x.carry.reference == let.name for x in self.kernel.lets)
        scribe.variables[let.name] = Code(name)
        if merged:
            self.body(f"{name} = {share.text}")
        elif fold == "sum":
            self.body(f"{name} = {f'{name} * {scale}' if scale else name} + {share.at(6)}")
        elif fold == "prod":
            self.body(f"{name} = {name} * {share.at(8)}")
        elif not referred:
            self.body(f"{name} = tl.{fold}imum({name}, {share.text})")
        else:
            self._reference(let, name, share)

    def _reference(self, let: Let, name: str, share: Code) -> None:
        """The running maximum, and the factor by which everything relative to it shrinks when it grows."""
        assert let.carry is not None
        before, scale = self.fresh(f"{name}_before"), self.fresh(f"{name}_scale")
        self.scales[let.name] = scale
        power = "exp2" if let.carry.base2 else "exp"
        self.body(f"{before} = {name}")
        self.body(f"{name} = tl.maximum({name}, {share.text})")
        shift = name
        if not let.carry.full:
            shift = self.fresh(f"{name}_finite")
            self.body(f'{shift} = tl.where({name} == float("-inf"), 0.0, {name})  # rows without a point so far')
            self.scribe.variables[let.name] = Code(shift)
        text = f"tl.{power}({before} - {shift})"
        self.body(f"{scale} = {text}.to(WIDE)" if let.kind == "exact" else f"{scale} = {text}")


def _masking(kernel: Kernel) -> set[str]:
    """What only masks need: whole tiles do without."""
    users: dict[str, list[Let]] = {}
    for let in kernel.lets:
        for arg in arguments(let.op):
            users.setdefault(arg, []).append(let)
    out: set[str] = set()
    stream = kernel.stream.name if kernel.stream is not None else None
    for let in reversed(kernel.lets):
        mine = users.get(let.name, [])
        inner = stream in let.axes and let.carry is None
        if mine and inner and all(u.name in out or _masked_by(u, let.name) for u in mine):
            out.add(let.name)
    return out


def _masked_by(let: Let, name: str) -> bool:
    return isinstance(let.op, Select) and let.op.cut is not None and let.op.condition == name != let.op.then




