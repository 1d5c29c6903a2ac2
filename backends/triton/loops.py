"""Loops over the passed axis: the pieces that a tile needs, whole tiles apart from those that the domain cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from einc.backends.host.code import Code
from einc.backends.triton.bounds import Cut
from einc.backends.triton.layout import Dim
from einc.backends.triton.loads import SPLIT, extent_text
from einc.backends.triton.merging import Merger
from einc.backends.triton.phases import Pass
from einc.backends.writer import identifier
from einc.ir.folds import FOLDS
from einc.ir.plan import Axis, PreviousCarry, Scan


@dataclass
class Passer(Merger):
    """A merger that writes loops. `split`: whole tiles are told from others; `ends`: what
    the tiles before left to this one."""

    split: bool = False
    ends: tuple[str, str] = ("", "")

    def run(self, one: Pass) -> None:
        """Writes a pass: the neutral elements of its folds and scans, unless tiles before left a value, then the loops
        over its tiles. Afterwards its folds have variables, but no other let of the pass has. It needs a passed axis.
        """
        dim = self.layout.role("passed")
        assert dim is not None
        axis = self.kernel.axis(dim.axes[0])
        for let in one.folds:
            if self.kernel.resumed is None or let.carry is None:
                self.start(let)
        for let in one.inner:
            if isinstance(let.op, Scan):
                self.start(let)
        variables, loaded = dict(self.scribe.variables), dict(self.scribe.loaded)
        reaches = self._reaches(axis)
        cuts = self.numbers.cuts(axis) if self.kernel.stream is not None else None
        scribe = self.scribe
        lane = scribe.place.lanes[dim.name] = self.fresh(f"{dim.name}_lane")
        self.body(f"{lane} = tl.arange(0, {self.given.block(dim.name)}).to(OFFSET)")
        scribe.passed.mark, scribe.passed.hoisted = (len(self.body.lines), self.body.depth), {}
        with self._each(reaches, dim) as (low, high):
            self._loops(one, dim, cuts, *(self._part(axis, dim, low, high) if self.parts else (low, high)))
        scribe.variables, scribe.loaded, scribe.passed.when, scribe.passed.mark = variables, loaded, "", None
        for let in one.folds:
            self.scribe.variables[let.name] = Code(self.states[let.name])

    @contextmanager
    def _each(self, reaches: list[tuple[str, str]], dim: Dim) -> Iterator[tuple[str, str]]:
        """Writes the ends of a piece; of several, one text for all."""
        if len(reaches) == 1:
            yield reaches[0]
            return
        piece = self.fresh("piece")
        self.body.open(f"for {piece} in range(0, {len(reaches)}):")
        low, high = (self.fresh(f"{dim.name}_{end}") for end in ("low", "high"))
        for n, name in enumerate((low, high)):
            text = reaches[-1][n]
            for at in range(len(reaches) - 2, -1, -1):
                text = f"tl.where({piece} == {at}, {reaches[at][n]}, {text})"
            self.body(f"{name} = {text}")
        yield low, high
        self.body.close()

    # how far

    def _reaches(self, axis: Axis) -> list[tuple[str, str]]:
        """The pieces of the axis that this tile needs, as names. Changes `self.scribe.place.shift`."""
        if self.kernel.resumed is not None:
            return [self.ends]
        scan = next((let.op for let in self.kernel.lets if isinstance(let.op, Scan)), None)
        extent = extent_text(self.given, self.kernel, (axis.name,))
        if scan is not None:
            shift = self.given.size(scan.shift)
            self.scribe.place.shift[scan.over] = shift
            count = extent_text(self.given, self.kernel, (scan.over,))
            if scan.back:
                return [(f"tl.minimum(0, {count} - {extent} - ({shift}))",
                         f"tl.maximum({extent}, {count} - ({shift}))")]
            return [(f"tl.minimum(0, -({shift}))", extent)]
        if axis.bound is None:
            return [("0", extent)]
        pieces = [self._named(axis, self.numbers.reach(axis, span)) for span in axis.bound.spans]
        return pieces if len(pieces) < 2 else self._sorted(axis, pieces)

    def _named(self, axis: Axis, ends: tuple[str, str]) -> tuple[str, str]:
        names = tuple(self.fresh(f"{identifier(axis.name)}{n}") for n in (0, 1))
        for name, text in zip(names, ends, strict=True):
            self.body(f"{name} = {text}")
        return names[0], names[1]

    def _part(self, axis: Axis, dim: Dim, low: str, high: str) -> tuple[str, str]:
        """Writes the share of this program in a piece: a whole number of tiles."""
        block = self.given.block(dim.name)
        named = low.isidentifier() and high != extent_text(self.given, self.kernel, (axis.name,))
        first, last = (low, high) if named else self._named(axis, (low, high))
        self.body.open("if SHARED:")
        share = self.fresh("share")
        self.body(f"{share} = tl.cdiv(tl.cdiv(tl.maximum({last} - {first}, 0), parts), {block}) * {block}")
        self.body(f"{first} = {first} + part * {share}")
        self.body(f"{last} = tl.minimum({last}, {first} + {share})")
        self.body.close()
        return first, last

    def _sorted(self, axis: Axis, pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pieces from left to right, each from where the ones before it end. Changes `pieces`."""
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

    # tile by tile

    def _loops(self, one: Pass, dim: Dim, cuts: Sequence[Cut] | None, low: str, high: str) -> None:
        """Writes one loop over all tiles where nothing is known of whole ones; else one text for two loops, the first
        of which has the whole tiles, or for three where what a tile leaves depends on the tiles before it.
        """
        start = self.fresh(f"{dim.name}_from")
        if cuts is None:
            self.scribe.passed.when = "True"
            self._loop(one, dim, start, (low, high), high)
            return
        self.split = True
        whole, upto = self._whole(dim, cuts, low, high)
        self.scribe.passed.when = SPLIT
        left, moved = any(cut.past for cut in cuts), ""
        if left and self._ordered():
            ends = [(low, f"tl.minimum({whole}, {high})"), (whole, upto), (upto, high)]
        else:
            ends = [(whole, upto), (low, f"{high} - ({upto} - {whole})") if left else (upto, high)]
            moved = f"tl.where({{0}} < {whole}, 0, {upto} - {whole})" if left else ""
        begin = 3 - len(ends)
        said = "whole tiles, then those that are cut" if begin else "in order: those of phase 1 are whole tiles"
        self.body.open(f"for phase in tl.static_range({begin}, 3):  # {said}")
        for name, texts in zip(("first", "last"), zip(*ends, strict=True), strict=True):
            choice = "".join(f"{text} if phase == {n} else " for n, text in enumerate(texts[:-1], begin))
            self.body(f"{name} = {choice}{texts[-1]}")
        self._loop(one, dim, start, ("first", "last"), high, moved)
        self.body.close()

    def _ordered(self) -> bool:
        """Whether the tiles of the pass have to come from left to right."""
        lets = self.kernel.lets
        return (self.kernel.resumed is not None or any(isinstance(let.op, PreviousCarry | Scan) for let in lets)
                or any(let.carry is not None and FOLDS[let.carry.fold].ordered for let in lets))

    def _whole(self, dim: Dim, cuts: Sequence[Cut], low: str, high: str) -> tuple[str, str]:
        """Writes where the tiles begin that the domain does not cut, and where they end. What it cuts in the midst is
        left of them where it reaches the first tile, else right of them.
        """
        block = self.given.block(dim.name)
        whole, upto = (self.fresh(f"{dim.name}_{n}") for n in ("whole", "upto"))
        begin, end = low, high
        for cut in cuts:
            first, past = cut.first, cut.past
            if first and past:
                first, past = (self._kept(dim, x) for x in (first, past))
                past, first = (f"tl.where({first} <= {low}, {past}, {low})",
                               f"tl.where(({first} > {low}) & ({first} < {past}), {first}, {high})")
            begin = f"tl.maximum({begin}, {past})" if past else begin
            end = f"tl.minimum({end}, {first})" if first else end
        self.body(f"{whole} = {low}" if begin == low
                  else f"{whole} = {low} + tl.cdiv({begin} - {low}, {block}) * {block}")
        self.body(f"{upto} = {whole} + tl.maximum({end} - {whole}, 0) // {block} * {block} if SPLIT else {whole}")
        return whole, upto

    def _kept(self, dim: Dim, text: str) -> str:
        """A number under a name."""
        if text.isidentifier() or text.isdigit():
            return text
        self.body(f"{(name := self.fresh(f'{dim.name}_cut'))} = {text}")
        return name

    def _loop(self, one: Pass, dim: Dim, start: str, ends: tuple[str, str], high: str, moved: str = "") -> None:
        """Writes a loop. `moved`: how far the tiles that are cut lie beyond the number that the loop counts."""
        counted = self.fresh(f"{dim.name}_next") if moved else start
        self.body.open(f"for {counted} in range({ends[0]}, {ends[1]}, {self.given.block(dim.name)}):")
        if moved:
            self.body(f"{start} = {counted} if phase == 1 else {counted} + {moved.format(counted)}")
        self._step(one, dim, start, high)
        self.body.close()

    def _step(self, one: Pass, dim: Dim, start: str, high: str) -> None:
        """Writes one tile of the passed axis."""
        block, scribe = self.given.block(dim.name), self.scribe
        scan = next((let.op for let in one.inner if isinstance(let.op, Scan)), None)
        if scan is not None and scan.back:
            turned = self.fresh(f"{dim.name}_back")
            low, end = (f"({x})" for x in self._reaches(self.kernel.axis(dim.axes[0]))[0])
            self.body(f"{turned} = {low} + (tl.cdiv({end} - {low}, {block}) - 1) * {block} - ({start} - {low})")
            start = turned
        scribe.place.start = start
        at = scribe.place.at[dim.axes[0]] = self.fresh(f"{dim.name}_at")
        self.body(f"{at} = {start} + tl.arange(0, {block})")
        mask = scribe.place.inside[dim.name] = self.fresh(f"{dim.name}_in")
        if scan is not None:
            self._scan_masks(scan, at, mask)
        else:
            self.body(f"{mask} = {at} < {high}")
        if self.given.laid:
            scribe.helpers.add("_moved")
            scribe.place.moved = self.fresh(f"{dim.name}_moved")
            pages, page = self.given.pages()
            self.body(f"{scribe.place.moved} = _moved({pages}, {at}, {mask}, {page}, OFFSET)")
        kept, loaded = dict(scribe.variables), dict(scribe.loaded)
        if self.kernel.stream is not None:
            for let in one.inner:
                if isinstance(let.op, PreviousCarry):
                    self.before(let)
        self.lets(one.inner, frozenset(let.name for let in one.folds))
        for store in one.stores:
            scribe.store(store)
        scribe.variables, scribe.loaded, scribe.passed.filled = kept, loaded, {}
        scribe.shifted = {}

    def _scan_masks(self, scan: Scan, at: str, mask: str) -> None:
        """Writes the mask of a scan's tile, which may begin before the axis; if the scan folds another axis, also the
        shifted positions and the mask of that one, and names both in the scribe.
        """
        extent, count = (extent_text(self.given, self.kernel, (a,)) for a in (scan.axis, scan.over))
        self.body(f"{mask} = ({at} >= 0) & ({at} < {extent})")
        if scan.over == scan.axis:
            self.scribe.place.inside[scan.over] = mask
            return
        other = self.scribe.place.at[scan.over] = self.fresh(f"{identifier(scan.over)}_at")
        shift = self.scribe.place.shift[scan.over]
        self.body(f"{other} = {at}" if shift == "0" else f"{other} = {at} + ({shift})")
        inside = self.scribe.place.inside[scan.over] = self.fresh(f"{identifier(scan.over)}_in")
        self.body(f"{inside} = ({other} >= 0) & ({other} < {count})")
