"""A plan in full: each step with its equations, loops, flops and bytes, as whole formulas and, for given sizes, as numbers."""

from __future__ import annotations

from collections.abc import Mapping

from einc.ir.indices import Extent, number
from einc.ir.plan import (
    Append,
    BroadcastView,
    Call,
    Choose,
    Concat,
    Contract,
    GroupedMatmul,
    Kernel,
    Leaf,
    Loop,
    Module,
    PerRequest,
    SegmentSum,
    Step,
    TopK,
    leaves,
    makes,
)
from einc.ir.tiles import lengths
from einc.planning.analysis.cost import size_of
from einc.planning.contractions.choose import price


def table(module: Module, sizes: Mapping[str, int] | None = None) -> str:
    """One block per step."""
    known = numbers(module, sizes or {})
    lines = [f"plan of {module.name}: {_steps(len(module.steps))}", ""]
    for n, step in enumerate(module.steps, 1):
        block = _block(step, known, bool(module.past))
        lines += [f"{n:>3}  {line}" if at == 0 else f"     {line}".rstrip() for at, line in enumerate(block)]
    lines += _memory(module, known)
    lines.append("bytes are for float32; flops are those of the points in range")
    return "\n".join(lines) + "\n"


def numbers(module: Module, sizes: Mapping[str, int]) -> dict[str, int]:
    """Every size that is known when these are: those that the text fixes, and the number of runs along an axis, at most."""
    known = {**module.fixed, **sizes}
    bodies = [s.body for s in module.steps if isinstance(s, Loop | PerRequest)]
    runs = [s for m in (module, *bodies) for s in leaves(m.steps) if isinstance(s, BroadcastView) and is_known(s.onto, known)]
    return {**{s.count: int(s.onto.at(known)) for s in runs}, **known}


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def memory(module: Module, known: Mapping[str, int]) -> tuple[Extent, list[tuple[int, list[Extent]]]]:
    """What stands in memory in the end: of ways to choose from, that of the one taken, else of each apart."""
    views = {step.out for step in leaves(module.steps) if isinstance(step, BroadcastView)}
    sizes = {b.name: size_of(b) for b in module.buffers.values() if b.name not in views}
    stored, more = sum(sizes.values(), number(0)), []
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
    if isinstance(step, PerRequest):
        made = ", ".join(step.writes)
        inner = (f"   {line}".rstrip() for s in step.body.steps for line in _block(s, known, few))
        return [f"for each request: {made}", "", *inner]
    lines = [_title(step), *(f"| {t}" for t in _texts(step))]
    cost = step.cost
    figures = [("flops", cost.flops), ("read", cost.read), ("written", cost.written)] + (
        [("tile", cost.held)] if cost.held.terms else []
    )
    tiled = {**known, **tile_lengths(step, known, few)}
    lines.append("   ".join(f"{name} {_figure(value, tiled, name != 'flops')}" for name, value in figures))
    if is_known(cost.flops, known) and is_known(cost.read + cost.written, known):
        moved = cost.read.at(known) + cost.written.at(known)
        if moved:
            lines.append(f"intensity {float(cost.flops.at(known) / moved):.1f} flops per byte")
    return [*lines, ""]


def tile_lengths(step: Leaf, known: Mapping[str, int], few: bool) -> dict[str, int]:
    """The lengths of a step's tiles, where the sizes say them."""
    kernel = step.kernel if isinstance(step, Call) else step
    return lengths(kernel, known, few) if isinstance(kernel, Kernel) else {}


def _rounds(step: Loop, known: Mapping[str, int], few: bool) -> list[str]:
    """How often, the steps of one round, and what all rounds cost."""
    over, states = step.index.set, ", ".join(step.writes)
    count, last = over.extent, over.extent + number(over.start - 1)
    lines = [f"for {step.index.name} in {over.start}..{last}: {states} after each round", ""]
    for inner in step.body.steps:
        lines += [f"   {line}".rstrip() for line in _block(inner, known, few)]
    costs = [s.cost for s in some_way(step.body.steps, known)]
    flops, read = sum((c.flops for c in costs), number(0)) * count, sum((c.read for c in costs), number(0)) * count
    written = sum((c.written for c in costs), number(0)) * count
    figures = (("flops", flops), ("read", read), ("written", written))
    total = "   ".join(f"{name} {_figure(value, known, name != 'flops')}" for name, value in figures)
    return [*lines, f"all rounds: {total}", ""]


def some_way(steps: tuple[Step, ...], known: Mapping[str, int]) -> list[Leaf]:
    """The steps of one way: the one that is taken, where the sizes say it, else the first."""
    out: list[Leaf] = []
    for step in steps:
        match step:
            case Choose():
                out += step.bodies[taken_way(step, known) or 0]
            case Loop():
                pass  # rounds stand in no rounds
            case PerRequest():
                out += some_way(step.body.steps, known)
            case _:
                out.append(step)
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


def _title(step: Leaf) -> str:
    """The heading of one step: its kind, what it makes and from what, and how it runs."""
    match step:
        case Contract():
            return f"contract {step.out} from {', '.join(step.reads)}"
        case BroadcastView():
            return f"view {step.out} of {step.operand} by {step.count}; a copy where {step.onto} does not divide {step.of}"
        case Call():
            otherwise = "; ".join(map(_title, step.steps))
            return (f"call {step.library.name} of {', '.join(step.reads)} for {', '.join(step.writes)} where {condition(step)}: "
                    f"{step.library.call}; else {otherwise}")
        case TopK():
            return f"pick {step.out} from {step.operand}: {step.count} of {step.set.extent}"
        case GroupedMatmul():
            saved = f", instead of {_formula(step.instead)} flops" if step.instead is not None else ""
            return f"contract {step.out} from {', '.join(step.reads[1:])}, grouped by {step.names}{saved}"
        case SegmentSum():
            given = ", ".join(name for name, _ in step.operands) or "1"
            return f"sum {step.out} from {given}, sorted by {', '.join(ids for ids, _, _ in step.names)}"
        case Concat() | Append():
            return f"concatenate {step.out} from {', '.join(step.reads)}"
        case Kernel(name, axes):
            grid, stream = step.grid, step.stream
            loops = f"tiles of {grid.name}" if grid else "whole"
            if stream:
                carried = [let.name for let in step.lets if let.carry is not None]
                loops += f", one pass over {stream.name} carrying {', '.join(carried)}"
            elif step.resumed:
                carried = [let.name for let in step.lets if let.carry is not None]
                loops += f" in order, each resuming {step.resumed.name} and carrying {', '.join(carried)}"
            loops += f", shares of {', '.join(s.buffer for s in step.merged)}" if step.merged else ""
            ranged = [a.name for a in axes if a.bound and not a.bound.resumes]
            return f"kernel {name}: {loops}" + (f", range of {', '.join(ranged)} per tile" if ranged else "")


def condition(step: Call) -> str:
    """Where a call is made, in the words of the program."""
    buffers = {key: buffer for key, buffer, _ in step.given}
    return step.library.where.format(**buffers, **{name: str(x) for name, x in step.sizes})


def _texts(step: Leaf) -> tuple[str, ...]:
    match step:
        case Call():
            return tuple(text for inner in step.steps for text in _texts(inner))
        case Kernel():
            return (*step.texts, *step.notes)
    return step.texts


def is_known(extent: Extent, sizes: Mapping[str, int]) -> bool:
    """Whether the sizes say its value."""
    return extent.sizes <= sizes.keys()


def _figure(extent: Extent, sizes: Mapping[str, int], size: bool) -> str:
    formula = _formula(extent)
    if not is_known(extent, sizes) or not extent.terms:
        return formula
    return f"{formula} = {human(float(extent.at(sizes)), 'B' if size else '')}"


def _formula(extent: Extent) -> str:
    return str(extent).replace("**", "^").replace(" * ", "·")


def human(value: float, unit: str) -> str:
    """Three digits and a prefix."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            return f"{value:.3g} {prefix}{unit}".rstrip()
        value /= 1000
    return f"{value:.3g} P{unit}"
