"""A plan on one screen: a line for each step, a few more for a kernel with a pass,
leading terms where a formula is long.

Non-goals: equations and whole formulas, which are the table's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from textwrap import wrap
from typing import assert_never

from einc.driver.reports.growth import growth, human, returned
from einc.driver.reports.native import native
from einc.driver.reports.rows import Row, listed, row_of
from einc.driver.reports.table import (
    all_rounds,
    in_blocks,
    is_known,
    memory,
    numbers,
    some_way,
    taken_way,
    tile_lengths,
    within,
)
from einc.ir.indices import Extent, Monomial, number, size
from einc.ir.plan import (
    Choose,
    Cost,
    Gradient,
    Hops,
    Leaf,
    Loop,
    Module,
    PerRank,
    PerRequest,
    RowBlocks,
    SegmentedModule,
    leaves,
    modules,
    summed,
)
from einc.planning.analysis.cost import nominal
from einc.planning.contractions.choose import price

WIDTH = 120
_LINES = 50  # of a screen; what `auto` does is told where it fits
_GAP = "  "
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_HEADS = ("#", "step", "makes", "from", "flops", "bytes in", "bytes out", "flops/byte")
_UNITS = ("", "B", "B", "")
_LEAST = 8  # what a column of names keeps at any rate
_WAY = 24  # and what both keep together for a way's price


@dataclass(frozen=True, slots=True)
class _Formulas:
    """Extents as text: a number where all sizes are known, else the terms that are largest at usual sizes."""

    known: Mapping[str, int]
    usual: Mapping[str, int]

    def text(self, extent: Extent, room: int, unit: str) -> str:
        """As many terms as there is room for, the first at any rate."""
        if is_known(extent, self.known):
            return human(float(extent.at(self.known)), unit if extent.terms else "")
        first, *rest = self._terms(extent)
        for n, term in enumerate(rest, 1):
            longer = f"{first} - {term[1:]}" if term.startswith("-") else f"{first} + {term}"
            if len(longer) + len(" + …") * (n < len(rest)) > room:
                return f"{first} + …"
            first = longer
        return first

    def intensity(self, figures: tuple[Extent, ...]) -> list[str]:
        """Operations for each byte, where the sizes say it."""
        if not figures or not is_known(sum(figures, number(0)), self.known):
            return []
        flops, read, written = (float(x.at(self.known)) for x in figures)
        return [f"{flops / (read + written):.3g}" if read + written else "-"]

    def _terms(self, extent: Extent) -> list[str]:
        def value(term: tuple[Monomial, Fraction]) -> float:
            return abs(float(term[1])) * prod(float(self.usual.get(str(name), 64)) ** p for name, p in term[0])

        terms = sorted(extent.smooth.fixed(self.known).terms, key=value, reverse=True)
        return [_term(mono, coefficient) for mono, coefficient in terms]


def _term(mono: Monomial, coefficient: Fraction) -> str:
    """As few signs as can be: `2.5·H·T²`."""
    decimal = f"{float(coefficient):g}"
    said = decimal if Fraction(decimal) == coefficient else str(coefficient)
    powers = [str(name) + (str(p).translate(_POWERS) if p != 1 else "") for name, p in mono]
    if not powers or abs(coefficient) != 1:
        return "·".join([said, *powers])
    return "-" * (coefficient < 0) + "·".join(powers)


def screen(module: Module, sizes: Mapping[str, int] | None = None, shown: Set[str] | None = None) -> str:
    """The table, its totals and what stands in memory; `shown` are the keys of the results that the caller asks for."""
    known = numbers(module, sizes or {})
    usual = {n: nominal(s) for s in module.sets for n in s.extent.sizes if s.extent == size(n)}
    formulas = _Formulas(known, {**usual, **known})
    total = _total(module, known)
    in_line = [total] if is_known(sum(total.figures, number(0)), known) and total.figures else []
    count = len(module.steps)
    lines = [f"plan of {module.name}: {count} step{'s' * (count != 1)}", ""]
    lines += [*_aligned([*_rows(module, known), *in_line], formulas), ""]
    lines += _sums(total, formulas) if not in_line else []
    lines += _memory(module, formulas)
    lines += [f"grows: {line}" for line in growth(module, known, shown)]
    lines += [f"auto: {line}" for line in native(module, known, formulas.text)][: max(_LINES - len(lines) - 1, 0)]
    lines.append("bytes are for float32, flops those of the points in range; --full shows equations and whole formulas")
    return "\n".join(lines) + "\n"


def screens(plan: Module | Gradient | SegmentedModule | PerRank) -> str:
    """The table of a plan; of one with a gradient that of each half and of each piece, in the order in which they run;
    of one for a mesh those of one rank."""
    if isinstance(plan, PerRank):
        return screens(plan.body)
    return "\n".join(screen(module, shown=returned(plan)) for _, module, _ in modules(plan))


# rows


def _rows(module: Module, known: Mapping[str, int]) -> list[Row]:
    """The rows of all steps; of a choice every way, with the steps of the one taken, or of all if that is open."""
    rows: list[Row] = []
    for n, step in enumerate(module.steps, 1):
        if isinstance(step, Loop):
            rows += _rounds(str(n), step, known)
            continue
        if isinstance(step, Hops | PerRequest | RowBlocks):
            rows += _bodies(str(n), step, known)
            continue
        if not isinstance(step, Choose):
            rows.append(row_of(str(n), step))
            continue
        way = taken_way(step, known)
        rows.append(Row((str(n), "choose", f"the cheapest of {len(step.options)} ways")))
        for at, (option, steps) in enumerate(step.ways):
            letter = chr(ord("a") + at)
            said = (option.label if way is None
                    else f"price {human(price(step, option, known), '')}{'   <- taken' * (at == way)}")
            rows.append(Row((letter, "way", said), _sum(steps), (option.label,) * (way is not None)))
            rows += [row_of(f"{letter}{k}", s) for k, s in enumerate(steps, 1)] if way in (None, at) else []
    return rows


def _rounds(name: str, step: Loop, known: Mapping[str, int]) -> list[Row]:
    """What all rounds cost together, and the steps of one."""
    over, states = step.index.set, listed(step.writes)
    last = over.extent + number(over.start - 1)
    head = Row((name, "rounds", f"{states} for {step.index.name} in {over.start}..{last}"), all_rounds(step, known))
    inner = (replace(row, texts=(f"{name}.{row.texts[0]}", *row.texts[1:])) for row in _rows(step.body, known))
    return [head, *inner]


def _bodies(name: str, step: Hops | PerRequest | RowBlocks, known: Mapping[str, int]) -> list[Row]:
    """What one request costs, or all hops, or all blocks of rows, and the steps of one."""
    head = Row((name, step.does, f"{listed(step.writes)} of {_one(step, known)}"), _sum(some_way((step,), known)))
    body = step.throughout if isinstance(step, RowBlocks) else step.body
    return [head, *(replace(row, texts=(f"{name}.{row.texts[0]}", *row.texts[1:]),
                            cost=row.cost and in_blocks(step, row.cost, known))
                    for row in _rows(body, within(step, known)))]


def _one(step: Hops | PerRequest | RowBlocks, known: Mapping[str, int]) -> str:
    """Words for what the figures of inner steps are of: so many hops, one request, or all rows, some at a time."""
    match step:
        case Hops():
            return f"{step.around.group.ranks} hops"
        case PerRequest():
            return "one request"
        case RowBlocks():
            rows = step.rows
            return f"all {rows.over.extent} rows, {rows.lengths(known).get(rows.count, rows.count)} at a time"
    assert_never(step)


def _sum(steps: Iterable[Leaf]) -> Cost:
    return replace(summed(step.cost for step in steps), held=number(0))


def _total(module: Module, known: Mapping[str, int]) -> Row:
    """Of all steps; of a choice that the sizes do not make, none."""
    costs: list[Cost] = []
    beside = []
    for n, step in enumerate(module.steps, 1):
        if isinstance(step, Loop):
            costs.append(all_rounds(step, known))
        elif isinstance(step, Hops | PerRequest | RowBlocks):
            costs += [s.cost for s in some_way((step,), known)]
        elif not isinstance(step, Choose):
            costs.append(step.cost)
        elif (way := taken_way(step, known)) is not None:
            costs += [s.cost for s in step.bodies[way]]
        else:
            beside.append(f" beside step {n}")
    return Row(("", "total", "".join(beside)), summed(costs) if costs else None)


# lines


def _aligned(rows: list[Row], formulas: _Formulas) -> list[str]:
    """The rows in columns that fit the screen: the widest are cut first."""
    widths, least = _widths(rows, formulas)
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH and widths != least:
        at = max((n for n in range(len(widths)) if widths[n] > least[n]), key=lambda n: widths[n])
        widths[at] -= 1
    lines = [_line(_HEADS[: len(widths)], widths)]
    pad = " " * (widths[0] + widths[1] + 2 * len(_GAP))
    for row in rows:
        joined = sum(widths[2:4]) + len(_GAP) if row.figures else WIDTH
        wide = [*widths[:2], joined, *widths[4:]] if len(row.texts) == 3 else widths
        cells = [formulas.text(x, w, u) for x, w, u in zip(row.figures, widths[4:], _UNITS, strict=False)]
        lines += [""] * (row.texts[1]
                         == "total") + [_line([*row.texts, *cells, *formulas.intensity(row.figures)], wide)]
        for text in row.below:
            lines += [pad + x for x in wrap(text, WIDTH - len(pad), max_lines=2, placeholder=" …",
                                            subsequent_indent="  ")]
    return lines


def _widths(rows: list[Row], formulas: _Formulas) -> tuple[list[int], list[int]]:
    """What each column would like, and what it keeps at any rate."""
    told = [row.texts for row in rows if len(row.texts) == 4]
    widths = [max(len(_HEADS[n]), *(len(x[n]) for x in told), *(len(r.texts[n]) for r in rows if n < 2), 0)
              for n in range(4)]
    least = [*widths[:2], *(min(w, _LEAST) for w in widths[2:])]
    ways = max([len(row.texts[2]) - len(_GAP) for row in rows if len(row.texts) == 3 and row.figures], default=0)
    widths[3] = max(widths[3], ways - widths[2])
    least[3] = max(least[3], min(ways, _WAY) - least[2])
    figures = [row.figures for row in rows if row.figures]
    for n, unit in enumerate(_UNITS[:3]):
        for room, into in ((WIDTH, widths), (0, least)):
            into.append(max([len(_HEADS[n + 4]), *(len(formulas.text(x[n], room, unit)) for x in figures)]))
    if any(formulas.intensity(x) for x in figures if x[0].terms):
        widths.append(len(_HEADS[-1]))
        least.append(len(_HEADS[-1]))
    return widths, least


def _line(cells: Iterable[str], widths: list[int]) -> str:
    out = []
    for n, (cell, width) in enumerate(zip(cells, widths, strict=False)):
        shown = cell if len(cell) <= width else cell[: width - 1] + "…"
        out.append(f"{shown:>{width}}" if n == 0 else f"{shown:<{width}}")
    return _GAP.join(out).rstrip()


def _sums(total: Row, formulas: _Formulas) -> list[str]:
    """The totals as formulas, which want a line each."""
    said = [f"total{total.texts[2]} {name}" for name in _HEADS[4:7]]
    pad = max(map(len, said)) + len(_GAP)
    return [f"{name:{pad}}{formulas.text(x, WIDTH - pad, '')}" for name, x in zip(said, total.figures, strict=False)]


def _memory(module: Module, formulas: _Formulas) -> list[str]:
    """The most that stands at one time: nothing that is stored is freed before the call returns."""
    stored, ways = memory(module, formulas.known)
    tile = _largest_tile(module, formulas)
    lines = [f"peak memory, inputs included: {formulas.text(stored, WIDTH - 60, 'B')}"]
    lines += [f"and a tile beside it: {tile}"] if tile else []
    for n, extra in ways:
        said = (f"{chr(ord('a') + k)} {formulas.text(x, 28, 'B')}" for k, x in enumerate(extra))
        lines.append(f"and what step {n} stores: {', '.join(said)}")
    return lines


def _largest_tile(module: Module, formulas: _Formulas) -> str:
    """What the step holds whose tile is largest, at usual sizes where the sizes are not
    given; empty where there are no tiles."""
    few, found = bool(module.past), []
    for step in (s for s in leaves(module.steps) if s.cost.held.terms):
        usual = {**dict.fromkeys(step.cost.held.sizes, 64), **formulas.usual}
        usual |= tile_lengths(step, usual, few)
        known = {**formulas.known, **tile_lengths(step, formulas.known, few)}
        found.append((float(step.cost.held.at(usual)),
                      replace(formulas, known=known, usual=usual).text(step.cost.held, 90, "B")))
    return max(found, key=lambda x: x[0], default=(0.0, ""))[1]
