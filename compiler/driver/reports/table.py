"""A plan in full: each step with its equations, loops, flops and bytes, as whole formulas
and, for given sizes, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from einc.driver.reports.growth import growth, human
from einc.driver.reports.rows import row_of
from einc.ir.indices import Extent, number
from einc.ir.plan import (
    BroadcastView,
    Call,
    Choose,
    Cost,
    Hops,
    Kernel,
    Leaf,
    Loop,
    Module,
    PerRequest,
    RowBlocks,
    Step,
    leaves,
    makes,
    summed,
)
from einc.ir.tiles import lengths
from einc.planning.analysis.cost import size_of
from einc.planning.contractions.choose import price

_Place = TypeVar("_Place")


def table(module: Module, sizes: Mapping[str, int] | None = None) -> str:
    """The plan as a table in text: a block for each step, then the memory and what grows with a size. Numbers are given
    where sizes are known."""
    known = numbers(module, sizes or {})
    lines = [f"plan of {module.name}: {_steps(len(module.steps))}", ""]
    for n, step in enumerate(module.steps, 1):
        block = _block(step, known, bool(module.past))
        lines += [f"{n:>3}  {line}" if at == 0 else f"     {line}".rstrip() for at, line in enumerate(block)]
    lines += _memory(module, known)
    lines += [f"grows: {line}" for line in growth(module, known)]
    lines.append("bytes are for float32; flops are those of the points in range")
    return "\n".join(lines) + "\n"


def numbers(module: Module, sizes: Mapping[str, int]) -> dict[str, int]:
    """Every size that is known when these are: those that the text fixes, and the number
    of runs along an axis, at most."""
    known = {**module.fixed, **sizes}
    bodies = [s.body for s in module.steps if isinstance(s, Loop | PerRequest | RowBlocks)]
    runs = [s for m in (module, *bodies) for s in leaves(m.steps)
            if isinstance(s, BroadcastView) and is_known(s.onto, known)]
    return {**{s.count: int(s.onto.at(known)) for s in runs}, **known}


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def memory(module: Module, known: Mapping[str, int]) -> tuple[Extent, list[tuple[int, list[Extent]]]]:
    """What stands in memory in the end: of ways to choose from, that of the one taken, else of each apart."""
    views = {step.out for step in leaves(module.steps) if isinstance(step, BroadcastView)}
    sizes = {b.name: size_of(b) for b in module.buffers.values() if b.name not in views}
    stored, more = sum(sizes.values(), _of_blocks(module, known)), []
    for n, step in ((n, s) for n, s in enumerate(module.steps, 1) if isinstance(s, Choose)):
        written = [_buffers_written(way) & frozenset(sizes) for way in step.bodies]
        own = [sorted(w - frozenset.intersection(*written)) for w in written]
        extra = [sum((sizes[name] for name in names), number(0)) for names in own]
        stored = stored - sum((sizes[name] for name in frozenset[str]().union(*own)), number(0))
        taken = taken_way(step, known)
        if taken is not None:
            stored = stored + extra[taken]
        else:
            more.append((n, extra))
    return stored, more


def _of_blocks(module: Module, known: Mapping[str, int]) -> Extent:
    """What stands in memory within one block of rows, where most does; a block gives it back."""
    found = [number(0)]
    for step in (s for s in module.steps if isinstance(s, RowBlocks)):
        body = step.body
        own = body.buffers.keys() - {t.key for t in body.inputs} - {key for _, key in body.outputs}
        stored = sum((size_of(body.buffers[key]) for key in sorted(own)), _of_blocks(body, known))
        found.append(stored.fixed(step.rows.lengths(known)))
    return max(found, key=lambda extent: len(extent.terms))


def _memory(module: Module, known: Mapping[str, int]) -> list[str]:
    stored, more = memory(module, known)
    lines = [f"memory: all that is stored, inputs included, {_figure(stored, known, True)}; one tile beside it"]
    for n, extra in more:
        ways = (f"{chr(ord('a') + k)} {_figure(size, known, True)}" for k, size in enumerate(extra))
        lines.append(f"        beside it in step {n}: {', '.join(ways)}")
    return lines


def _buffers_written(steps: tuple[Leaf, ...]) -> frozenset[str]:
    """The buffers that steps write."""
    return frozenset[str]().union(*map(makes, steps))


def _block(step: Step, known: Mapping[str, int], few: bool) -> list[str]:
    """A step's lines, an empty one last; `few`: the tiles are those of a step that adds positions to a cache."""
    if isinstance(step, Choose):
        return _choice(step, known, few)
    if isinstance(step, Loop):
        return _rounds(step, known, few)
    if isinstance(step, Hops):
        inner = (f"   {line}".rstrip() for s in step.body.steps for line in _block(s, known, few))
        return [f"in {step.around.group.ranks} hops: {', '.join(step.writes)}", "", *inner]
    if isinstance(step, RowBlocks):
        inner = (f"   {line}".rstrip() for s in step.throughout.steps for line in _block(s, within(step, known), few))
        return [f"for each block of {step.rows.count} of {step.rows.over.extent} rows: {', '.join(step.writes)}", "",
                *inner]
    if isinstance(step, PerRequest):
        made = ", ".join(step.writes)
        inner = (f"   {line}".rstrip() for s in step.body.steps for line in _block(s, known, few))
        return [f"for each request: {made}", "", *inner]
    row, cost = row_of("", step), step.cost
    _, kind, makes, given = row.texts
    steps, call = (step.steps, (step.library.call,)) if isinstance(step, Call) else ((step,), ())
    texts = (f"| {text}" for one in steps for text in one.texts)
    lines = [f"{kind} {makes} from {given}" if given else f"{kind} {makes}", *call, *row.below, *texts]
    lines.append(_figures(cost, {**known, **tile_lengths(step, known, few)}))
    if is_known(cost.flops, known) and is_known(cost.read + cost.written, known):
        moved = cost.read.at(known) + cost.written.at(known)
        if moved:
            lines.append(f"intensity {float(cost.flops.at(known) / moved):.1f} flops per byte")
    return [*lines, ""]


def within(step: Step, known: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes that are known inside of a step."""
    return {**known, **step.rows.lengths(known)} if isinstance(step, RowBlocks) else known


def in_blocks(step: Step, cost: Cost, known: Mapping[str, int]) -> Cost:
    """What a step inside of another one costs, with the rows of a block as a number where the sizes say it."""
    rows = step.rows.lengths(known) if isinstance(step, RowBlocks) else {}
    return cost.put({name: number(count) for name, count in rows.items()})


def tile_lengths(step: Leaf, known: Mapping[str, int], few: bool) -> dict[str, int]:
    """The lengths of a step's tiles, where the sizes say them."""
    kernel = step.kernel if isinstance(step, Call) else step
    return lengths(kernel, known, few) if isinstance(kernel, Kernel) else {}


def _rounds(step: Loop, known: Mapping[str, int], few: bool) -> list[str]:
    """How often, the steps of one round, and what all rounds cost."""
    over, states = step.index.set, ", ".join(step.writes)
    last = over.extent + number(over.start - 1)
    lines = [f"for {step.index.name} in {over.start}..{last}: {states} after each round", ""]
    for inner in step.body.steps:
        lines += [f"   {line}".rstrip() for line in _block(inner, known, few)]
    return [*lines, f"all rounds: {_figures(all_rounds(step, known), known)}", ""]


def _figures(cost: Cost, known: Mapping[str, int]) -> str:
    """The work, the traffic and what a tile holds, each as a formula and, where the sizes say it, as a number."""
    figures = [("flops", cost.flops), ("read", cost.read), ("written", cost.written), ("tile", cost.held)]
    return "   ".join(f"{name} {_figure(x, known, name != 'flops')}" for name, x in figures
                      if name != "tile" or x.terms)


def all_rounds(step: Loop, known: Mapping[str, int]) -> Cost:
    """What all rounds of a loop cost together; tiles are those of one round."""
    return replace(summed((s.cost for s in some_way(step.body.steps, known)), step.index.set.extent), held=number(0))


def some_way(steps: tuple[Step, ...], known: Mapping[str, int]) -> list[Leaf]:
    """The steps of one way: the one that is taken, where the sizes say it, else the first."""
    return [leaf for leaf, _ in way_in(None, steps, known)]


def way_in(place: _Place, steps: tuple[Step, ...], known: Mapping[str, int]) -> list[tuple[Leaf, _Place | Module]]:
    """The steps of one way, each with the module whose buffers it reads and writes; `place` is that of `steps`."""
    out: list[tuple[Leaf, _Place | Module]] = []
    for step in steps:
        match step:
            case Choose():
                out += [(leaf, place) for leaf in step.bodies[taken_way(step, known) or 0]]
            case Loop():
                pass  # rounds stand in no rounds
            case Hops():
                out += way_in(step.body, step.body.steps, known) * step.around.group.ranks
            case PerRequest():
                out += way_in(step.body, step.body.steps, known)
            case RowBlocks():
                out += [(replace(leaf, cost=in_blocks(step, leaf.cost, known)), inner)
                        for leaf, inner in way_in(step.body, step.throughout.steps, within(step, known))]
            case _:
                out.append((step, place))
    return out


def _choice(step: Choose, known: Mapping[str, int], few: bool) -> list[str]:
    """The price of each way, which one is taken where the sizes say it, and the steps of each."""
    lines = ["choose the cheapest"]
    taken = taken_way(step, known)
    for n, (option, way) in enumerate(step.ways):
        formulas = [f"max({_formula(flops)}, {step.balance} ({_formula(moved)}))" for _, flops, moved in option.prices]
        figure = "" if taken is None else f" = {human(price(step, option, known), '')}" + "   <- taken" * (n == taken)
        lines += [f"{chr(ord('a') + n)}  {option.label}: price {' + '.join(formulas)}{figure}", ""]
        for inner in way:
            lines += [f"   {line}" for line in _block(inner, known, few)]
    return lines


def taken_way(step: Choose, known: Mapping[str, int]) -> int | None:
    """The place of the way with the lowest price, where the sizes say it."""
    if not all(is_known(flops + moved, known) for o in step.options for _, flops, moved in o.prices):
        return None
    prices = [price(step, o, known) for o in step.options]
    return prices.index(min(prices))


def is_known(extent: Extent, sizes: Mapping[str, int]) -> bool:
    """Whether an extent is a number once these sizes are given."""
    return extent.sizes <= sizes.keys()


def _figure(extent: Extent, sizes: Mapping[str, int], size: bool) -> str:
    formula = _formula(extent)
    if not is_known(extent, sizes) or not extent.terms:
        return formula
    return f"{formula} = {human(float(extent.at(sizes)), 'B' if size else '')}"


def _formula(extent: Extent) -> str:
    return str(extent).replace("**", "^").replace(" * ", "·")
