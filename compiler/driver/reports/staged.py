"""Rounds as stages as text: what each kind of stage is given and hands on, in how many bytes, and how long it waits."""

from __future__ import annotations

from collections.abc import Mapping

from einc.driver.placing import on_rest
from einc.driver.reports.growth import human
from einc.driver.reports.placements import as_text as placed
from einc.driver.reports.table import is_known
from einc.driver.staging import Staging
from einc.ir.indices import Extent, number
from einc.ir.programs import Tensor
from einc.planning.placing.prices import bubble
from einc.syntax.printing.show import show

_REAL = 4  # bytes of an element of the data


def as_text(found: Staging, sizes: Mapping[str, int], grad: bool, full: bool, narrow: bool) -> str:
    """The stages in a line each, and what each kind is on the other axes of the mesh; `narrow` as for a file."""
    axis, parts, made = found.axis, found.parts, found.made
    lines = [f"{found.program.name} on {axis.name} = {axis.ranks}: stages of {made.count} / {axis.ranks} rounds, "
             f"{parts.letter} in {parts.count} parts by {parts.schedule}", ""]
    for place, word, one in found.kinds:
        given = ", ".join(t.key for t in one.inputs() if t.role == "input" and t.key not in (*made.handed, made.before))
        out = "returns " + ", ".join(name for name, _ in one.outputs) if one is made.last else (
            f"hands on {', '.join(made.handed)}")
        lines.append(f"{place:>7}  {word:7}  {f'is given {given}; ' * bool(given)}{out}")
    each = sum((_bytes(made.first.tensors[key]) for _, key in made.first.outputs), number(0))
    known = {**sizes, **({made.rounds: sizes[made.count] // axis.ranks} if made.count in sizes else {})}
    what = "and gets its gradient back" if grad else "and, for the gradient, gets as much back"
    lines += ["", f"a stage hands on {_figure(each, known)} of all parts together, {what}"]
    lines += [f"a rank waits for {bubble(axis.ranks, parts.count)} of the time: (P - 1) / (m + P - 1) of P = "
              f"{axis.ranks} stages and m = {parts.count} parts"]
    text = "\n".join(lines) + "\n"
    if found.rest:
        text += "".join(
            "\n" + placed(on_rest(found, one, known, grad), known, full, narrow) for _, _, one in found.kinds)
    return text


def as_specs(found: Staging) -> str:
    """Each kind of stage as a spec."""
    axis, parts = found.axis, found.parts
    out = []
    for place, _, one in found.kinds:
        said = f"{found.program.name} on {axis.name} = {axis.ranks}, {parts.letter} in {parts.count} parts"
        out.append(f"# {said}: stage {place}.\n{show(one)}")
    return "\n".join(out)


def _bytes(tensor: Tensor) -> Extent:
    """The bytes of a tensor."""
    return tensor.element.room((slot.set for slot in tensor.slots), _REAL)


def _figure(extent: Extent, known: Mapping[str, int]) -> str:
    """Bytes as a number where the sizes say it, else as a formula."""
    return human(float(extent.at(known)), "B") if is_known(extent, known) else f"{extent} B".replace(" * ", "·")
