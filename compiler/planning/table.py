"""A plan as a table: each step with its loops, its flops and its bytes, as formulas and, for given sizes, as numbers."""

from __future__ import annotations

from collections.abc import Mapping

from einc.indices import Extent, number
from einc.plan import Concat, Contract, Kernel, Module, Runs, Step
from einc.planning.cost import size_of


def table(module: Module, sizes: Mapping[str, int] | None = None) -> str:
    """One block per step."""
    known = {**module.fixed, **(sizes or {})}
    lines = [f"plan of {module.name}: {len(module.steps)} steps", ""]
    for n, step in enumerate(module.steps, 1):
        lines += [f"{n:>3}  {_title(step)}", *(f"     | {t}" for t in _texts(step))]
        cost = step.cost
        figures = [("flops", cost.flops), ("read", cost.read), ("written", cost.written)] + (
            [("tile", cost.held)] if cost.held.terms else []
        )
        lines.append("     " + "   ".join(f"{name} {_figure(value, known, name != 'flops')}" for name, value in figures))
        if _known(cost.flops, known) and _known(cost.read + cost.written, known):
            moved = cost.read.at(known) + cost.written.at(known)
            if moved:
                lines.append(f"     intensity {float(cost.flops.at(known) / moved):.1f} flops per byte")
        lines.append("")
    stored = number(0)
    views = {step.out for step in module.steps if isinstance(step, Runs)}
    for buffer in (b for b in module.buffers.values() if b.name not in views):
        stored = stored + size_of(buffer)
    lines.append(f"memory: all that is stored, inputs included, {_figure(stored, known, True)}; one tile beside it")
    lines.append("bytes are for float32; flops are those of the points in range")
    return "\n".join(lines) + "\n"


def _title(step: Step) -> str:
    match step:
        case Contract(out, operands):
            return f"contract {out} from {', '.join(name for name, _ in operands)}"
        case Runs(_, operand):
            return f"view {step.out} of {operand} by {step.count}; a copy where {step.onto} does not divide {step.of}"
        case Concat(out, parts):
            return f"concatenate {out} from {', '.join(parts)}"
        case Kernel(name, axes):
            grid, stream = step.grid, step.stream
            loops = f"tiles of {grid.name}" if grid else "whole"
            if stream:
                carried = [let.name for let in step.lets if let.carry is not None]
                loops += f", one pass over {stream.name} carrying {', '.join(carried)}"
            ranged = [a.name for a in axes if a.bound]
            return f"kernel {name}: {loops}" + (f", range of {', '.join(ranged)} per tile" if ranged else "")


def _texts(step: Step) -> tuple[str, ...]:
    return (*step.texts, *step.notes) if isinstance(step, Kernel) else (step.text,)


def _known(extent: Extent, sizes: Mapping[str, int]) -> bool:
    return extent.sizes <= sizes.keys()


def _figure(extent: Extent, sizes: Mapping[str, int], size: bool) -> str:
    formula = str(extent).replace("**", "^").replace(" * ", "·")
    if not _known(extent, sizes) or not extent.terms:
        return formula
    return f"{formula} = {_human(float(extent.at(sizes)), 'B' if size else '')}"


def _human(value: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            return f"{value:.3g} {prefix}{unit}".rstrip()
        value /= 1000
    return f"{value:.3g} P{unit}"
