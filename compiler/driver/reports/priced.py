"""The account of what a plan costs as text, as LaTeX and as data: formulas with their numbers, growth, and where
ways cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from textwrap import indent, wrap
from typing import Any

from einc.driver.reports.costing import ModuleCost, Part, Way, turn, value
from einc.driver.reports.formulas import Formula, Formulas, maximum
from einc.ir.indices import DATA, Extent, size
from einc.ir.plan import Choose, Module
from einc.ir.tiles import ROWS, tile_name
from einc.planning.analysis.cost import nominal
from einc.planning.contractions.choose import leading

WIDTH = 120
_FLOPS, _BYTES = "FLOP", "B"
_NOTE = "a multiply-add is two flops; each step reads and writes its bytes once; inputs are no part of memory"
_LONG = 70  # signs of a quotient beyond which its largest terms say more
_FEW = 3  # moments at which memory may be largest that are printed
ModuleCosts = Sequence[Sequence[ModuleCost]]
Figure = tuple[str, Extent, str]


class Told:
    """The formulas of some modules at some sizes, of which any may be given."""

    def __init__(self, modules: Iterable[Module], sizes: Mapping[str, int], dtype: str) -> None:
        sets = [s for m in modules for s in m.sets]
        usual: dict[str, float] = {n: nominal(s) for s in sets for n in s.extent.sizes if s.extent == size(n)}
        self.open = {n for s in sets if s.cls in DATA for n in s.extent.sizes}
        self.formulas = Formulas(usual | dict(sizes))
        self.formulas.usual |= {s: ROWS for s in self.formulas.usual if s.name.startswith(tile_name("")[:-1])}
        self.sizes, self.dtype = sizes, dtype

    # text

    def text(self, names: Sequence[str], costs: ModuleCosts) -> str:
        """For each plan its steps and the whole, then where ways through it, and the plans, cost the same."""
        lines = []
        for name, accounts in zip(names, costs, strict=True):
            for one in accounts:
                title = f" ({one.title})" if one.title else ""
                lines += [f"cost of {name}{title}, elements of {self.dtype}", "", *self._account(one)]
        if len(costs) > 1:
            lines += self._between(names, [_whole(x) for x in costs], _known(costs))
        lines.append(_NOTE)
        return "\n".join(lines) + "\n"

    def _account(self, one: ModuleCost) -> Iterator[str]:
        """The lines of one account: steps and totals of each way, where ways cost the same, when each is taken."""
        for way in one.ways:
            yield from [f"way {way.label}", ""] if way.label else []
            for part in way.parts:
                yield f"{part.name:>4}  {part.does} {', '.join(part.makes)}"
                yield from self._wrapped([self._figure(f, part.known) for f in _of_part(part)])
            yield from ["", "      the whole", *self._totals(way, one.known), ""]
        if len(one.ways) > 1:
            yield from self._between([w.label.split()[0] for w in one.ways], one.ways, one.known)
        for number_, step in one.choices:
            yield from self._turns(number_, step, one.known)

    def _wrapped(self, pieces: Iterable[str], pad: int = 6) -> list[str]:
        """Pieces side by side as far as they fit; one that is too long for a line is broken where it has blanks."""
        lines: list[str] = []
        for piece in filter(None, pieces):
            if lines and len(lines[-1]) + 3 + len(piece) <= WIDTH:
                lines[-1] += f"   {piece}"
            else:
                lines += wrap(piece, WIDTH, initial_indent=" " * pad, subsequent_indent=" " * (pad + 2),
                              break_long_words=False, break_on_hyphens=False)
        return lines

    def _figure(self, figure: Figure, known: Mapping[str, int]) -> str:
        name, extent, unit = figure
        if not extent.terms:
            return ""
        shown = self.formulas.text(self.formulas.readable(extent))
        found = value(extent, known)
        return f"{name} {shown}" + (f" = {human(found, unit)}" if found is not None and extent.sizes else "")

    def _totals(self, way: Way, known: Mapping[str, int]) -> Iterator[str]:
        for name, extent, unit in _of_way(way):
            yield from self._wrapped([self._figure((name, extent, unit), known) or f"{name} 0"])
            yield from self._wrapped(self._grows(extent), 8) if name == "flops" else []
        for line in self._peak(way, known):
            yield from self._wrapped([line])
        yield from self._wrapped([self._intensity(way, known)])

    def _grows(self, extent: Extent) -> list[str]:
        """A line on the powers with which an extent grows in each size and which term leads; empty where there is no
        such law."""
        found = self.formulas.growth(extent)
        if found is None:
            return []
        steepest = sorted(found.exponents, key=lambda x: (-x[1], x[0]))
        powers = ", ".join(n if p == 1 else f"{n}^{p}" for n, p in steepest if p)
        said = f"grows as {powers}; {self.formulas.text(found.leading)} leads"
        if found.overtakes is not None and found.overtakes.free_symbols:
            name, at = found.dominant, self.formulas.text(found.overtakes)
            said += f"; what has the highest power of {name} leads from {name} = {at}"
        return [said]

    def _peak(self, way: Way, known: Mapping[str, int]) -> Iterator[str]:
        """What is in memory when most is: the larger of a few formulas where no one is larger for certain; and the
        largest tile.
        """
        numbers = [value(x, known) for x in way.peak]
        shown = self.formulas.text(self.peak(way))
        if len(shown) > WIDTH - 20:
            shown = f"{self.formulas.text(self._moments(way)[0])} at usual sizes"
        found = [x for x in numbers if x is not None]
        yield f"memory {shown}" + (f" = {human(max(found), _BYTES)}" if found and len(found) == len(numbers) else "")
        tile = max((p for p in way.parts if p.cost.held.terms), key=self._tile, default=None)
        if tile is not None:
            yield f"beside it {self._figure(('a tile of', tile.cost.held, _BYTES), tile.known)}"

    def _moments(self, way: Way) -> list[Formula]:
        """What is in memory at the moments of which none has most for certain, the largest at usual sizes first."""
        return sorted(map(self.formulas.readable, way.peak), key=self.formulas.size_of, reverse=True)

    def peak(self, way: Way) -> Formula:
        """The largest of what is in memory at each step."""
        return maximum(self._moments(way)[:_FEW])

    def _tile(self, part: Part) -> float:
        found = value(part.cost.held, part.known)
        return found if found is not None else self.formulas.size_of(self.formulas.readable(part.cost.held))

    def _intensity(self, way: Way, known: Mapping[str, int]) -> str:
        """The flops per byte moved, with the limit as the dominant size grows; empty without flops or bytes."""
        moved = way.read + way.written
        if not moved.terms or not way.flops.terms:
            return ""
        shown = self.formulas.text(self.formulas.ratio(way.flops, moved))
        limit, name = self.formulas.limit(way.flops, moved), self.formulas.dominant(way.flops)
        said = f"flops per byte {shown if len(shown) <= _LONG else 'about ' + self.formulas.text(self._leading(way))}"
        flops, bytes_ = value(way.flops, known), value(moved, known)
        said += f" = {flops / bytes_:.3g}" if flops is not None and bytes_ and (way.flops + moved).sizes else ""
        far = "" if limit is None else self.formulas.text(limit)
        return said + (f", towards {far} as {name} grows" if 0 < len(far) <= _LONG and far != shown else "")

    def _leading(self, way: Way) -> Formula:
        """The quotient of the terms that lead."""
        above, below = self.formulas.growth(way.flops), self.formulas.growth(way.read + way.written)
        assert above is not None and below is not None
        return above.leading / below.leading

    # where two cost the same

    def crossings(self, one: Way, other: Way, known: Mapping[str, int]) -> Iterator[tuple[str, str, Formula | None]]:
        """(what, a size, its value) where two ways are equal: exactly where the other sizes are given, else by their
        largest terms; the sizes are those of the data, if there are any. A size is empty where the two are equal
        everywhere."""
        for what, a, b in _beside(one, other):
            left = a - b
            if not left.terms:
                yield what, "", None
            for name in sorted(left.sizes & self.open) or sorted(left.sizes):
                here = {n: v for n, v in known.items() if n != name}
                pair = (a.fixed(here), b.fixed(here))
                exact = all(x.sizes <= {name} for x in pair)
                first, second = pair if exact else (leading(a.fixed(here)), leading(b.fixed(here)))
                found = self.formulas.equal_at(first, second, name)
                yield from ((what, name, x) for x in found if not x.is_number or x >= 1)

    def _between(self, names: Sequence[str], ways: Sequence[Way], known: Mapping[str, int]) -> Iterator[str]:
        for (n, one), (m, other) in combinations(zip(names, ways, strict=True), 2):
            found = list(self.crossings(one, other, known))
            for what, name, at in found:
                said = f"at {name} = {self._solution(at)}" if at is not None else "at all sizes"
                yield from self._wrapped([f"{what} of {n} and {m} are equal {said}"], 0)
            for what, a, b in _beside(one, other):
                if what not in {w for w, _, _ in found} and (less := self._less(a, b)):
                    yield f"{n if less < 0 else m} has fewer {what} than {m if less < 0 else n} at all sizes"
        yield ""

    def _solution(self, found: Formula) -> str:
        return f"{float(found):.6g}" if found.is_number else self.formulas.text(found)

    def _less(self, a: Extent, b: Extent) -> int:
        """-1 where a is smaller for certain, 1 where b is, else 0."""
        signs = {1 if c > 0 else -1 for _, c in (a - b).terms}
        return signs.pop() if len(signs) == 1 else 0

    def _turns(self, number_: int, step: Choose, known: Mapping[str, int]) -> Iterator[str]:
        """Which way a call takes as a size grows, the others given."""
        used = {n for o in step.options for _, flops, moved in o.prices for n in (flops + moved).sizes}
        for name in sorted(used & self.open):
            found = turn(step, known, name)
            if len(found) > 1:
                said = ", ".join(f"{chr(ord('a') + at)} from {name} = {first}" for first, at in found)
                yield f"step {number_}: as {name} grows the call takes way {said}"

    # LaTeX and data

    def tex(self, names: Sequence[str], costs: ModuleCosts) -> str:
        """A display for each way: a line for each step that costs anything, and one for the whole."""
        return "".join(self._display(name, one, way) for name, accounts in zip(names, costs, strict=True)
                       for one in accounts for way in one.ways)

    def _display(self, name: str, one: ModuleCost, way: Way) -> str:
        columns = "flops, bytes read, bytes written, memory"
        head = "% " + ", ".join(x for x in (name, one.title, way.label, columns) if x)
        rows = [(r"\text{" + (f"{p.name} " + ", ".join(p.makes)).replace("_", r"\_") + "}",
                 (p.cost.flops, p.cost.read, p.cost.written), self.formulas.readable(p.alive)) for p in way.parts]
        rows.append((r"\text{the whole}", (way.flops, way.read, way.written), self.peak(way)))
        lines = [" & ".join([left, *(self.formulas.tex(x) for x in (*map(self.formulas.readable, figures), last))])
                 for left, figures, last in rows]
        body = indent(" \\\\\n".join(lines), "  ")
        return f"{head}\n\\begin{{array}}{{lllll}}\n{body}\n\\end{{array}}\n"

    def data(self, names: Sequence[str], costs: ModuleCosts) -> dict[str, Any]:
        """All costs as plain data for JSON, with formulas as texts that sympy reads: each plan with its modules, and
        the sizes at which two plans cost the same."""
        plans = [{"name": name, "modules": [self._module(one) for one in accounts]}
                 for name, accounts in zip(names, costs, strict=True)]
        pairs = [(n, m, one.ways[i], one.ways[j], one.known) for accounts in costs for one in accounts
                 for i, j in combinations(range(len(one.ways)), 2)
                 for n, m in [(one.ways[i].label.split()[0], one.ways[j].label.split()[0])]]
        pairs += [(names[0], names[1], _whole(costs[0]), _whole(costs[1]), _known(costs))] if len(costs) > 1 else []
        equal = [{"of": [n, m], "what": what, "size": name, "at": None if at is None else str(at)}
                 for n, m, a, b, known in pairs for what, name, at in self.crossings(a, b, known)]
        return {"dtype": self.dtype, "sizes": dict(self.sizes), "plans": plans, "equal": equal}

    def _module(self, one: ModuleCost) -> dict[str, Any]:
        found = [(n, name, turn(step, one.known, name)) for n, step in one.choices for name in sorted(self.open)]
        turns = [{"step": n, "size": name, "from": [{"at": first, "way": chr(ord("a") + at)} for first, at in places]}
                 for n, name, places in found if len(places) > 1]
        return {"title": one.title, "ways": [self._way(w, one.known) for w in one.ways], "turns": turns}

    def _way(self, way: Way, known: Mapping[str, int]) -> dict[str, Any]:
        steps = [{"step": p.name, "does": p.does, "makes": list(p.makes),
                  **{name: self._datum(x, p.known) for name, x, _ in _of_part(p)}} for p in way.parts]
        whole: dict[str, Any] = {name: self._datum(x, known) for name, x, _ in _of_way(way)}
        whole["memory"] = [self._datum(x, known) for x in way.peak]
        found = self.formulas.growth(way.flops)
        growth = {} if found is None else {
            "exponents": dict(found.exponents), "leading": str(found.leading), "dominant": found.dominant,
            "leads_from": None if found.overtakes is None else str(found.overtakes)}
        return {"way": way.label, "steps": steps, **whole, "growth": growth}

    def _datum(self, extent: Extent, known: Mapping[str, int]) -> dict[str, Any]:
        return {"formula": str(self.formulas.readable(extent)), "value": value(extent, known)}


def _of_way(way: Way) -> tuple[Figure, ...]:
    return ("flops", way.flops, _FLOPS), ("read", way.read, _BYTES), ("written", way.written, _BYTES)


def _beside(one: Way, other: Way) -> tuple[tuple[str, Extent, Extent], ...]:
    """The figures by which two ways are compared, each with its value for both: flops, and bytes moved."""
    return ("flops", one.flops, other.flops), ("bytes", one.read + one.written, other.read + other.written)


def _of_part(part: Part) -> tuple[Figure, ...]:
    cost = part.cost
    return (("flops", cost.flops, _FLOPS), ("read", cost.read, _BYTES), ("written", cost.written, _BYTES),
            ("memory", part.alive, _BYTES), ("tile", cost.held, _BYTES))


def _whole(accounts: Sequence[ModuleCost]) -> Way:
    """The first ways of all modules of a plan, one after the other."""
    return Way("", tuple(p for one in accounts for p in one.ways[0].parts))


def _known(costs: ModuleCosts) -> dict[str, int]:
    return {n: v for accounts in costs for one in accounts for n, v in one.known.items()}


def human(number_: float, unit: str) -> str:
    """Three digits and a prefix: powers of 1000 for operations, of 1024 for bytes."""
    step, kind, at = (1024, "i", 0) if unit == _BYTES else (1000, "", 0)
    prefixes = ("", *(prefix + kind for prefix in ("kMGTP" if unit != _BYTES else "KMGTP")))
    while abs(number_) >= step and at < len(prefixes) - 1:
        number_, at = number_ / step, at + 1
    return f"{number_:.4g} {prefixes[at]}{unit}" if number_ < 1000 else f"{number_:.0f} {prefixes[at]}{unit}"
