"""A plan as a graph of its steps: what each makes, of which shape, with its operations and bytes, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from einc.driver.reports.growth import human
from einc.driver.reports.table import numbers
from einc.ir.indices import Extent
from einc.ir.plan import Module, Step, leaves

_HIGH, _WIDE, _GAP = 46, 300, 26


@dataclass(frozen=True)
class Node:
    """One step: what it does, what it makes, its figures, and the numbers of the steps that make what it reads."""

    does: str
    makes: str
    figures: str
    given: tuple[str, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """The steps of a plan in their order."""

    title: str
    nodes: tuple[Node, ...]

    @property
    def text(self) -> str:
        """A line for each step, and below what it reads."""
        out = [self.title]
        for n, node in enumerate(self.nodes, 1):
            read = [*(f"{m + 1}" for m in node.after), *node.given]
            out += [f"{n:3}  {node.does}  {node.makes}   {node.figures}", f"     └ of {', '.join(read) or 'nothing'}"]
        return "\n".join(out) + "\n"

    @property
    def svg(self) -> str:
        """Boxes below each other, with a line from each to those that read it."""
        step, width = _HIGH + _GAP, _WIDE + 40 + 14 * max(1, len(self.nodes))
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(self.nodes) * step + 10}" '
               f'role="img" aria-label="{escape(self.title)}">',
               "<style>text{font:12px sans-serif;fill:currentColor}</style>"]
        for n, node in enumerate(self.nodes):
            top = 5 + n * step
            out.append(f'<rect x="10" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="4" fill="none" '
                       'stroke="currentColor"/>')
            out.append(f'<text x="18" y="{top + 18}">{n + 1} {escape(node.does)} {escape(node.makes)}</text>')
            out.append(f'<text x="18" y="{top + 36}" opacity="0.7">{escape(node.figures)}</text>')
            for m in node.after:
                start, end, out_by = 5 + m * step + _HIGH / 2, top + _HIGH / 2, _WIDE + 18 + 14 * (n - m)
                out.append(f'<path d="M{_WIDE + 10} {start} H{out_by} V{end} H{_WIDE + 10}" fill="none" '
                           'stroke="#3465a4" stroke-opacity="0.6"/>')
        return "\n".join([*out, "</svg>"])

    def _repr_html_(self) -> str:
        return f"<figure>{self.svg}<figcaption>{escape(self.title)}</figcaption></figure>"

    def __str__(self) -> str:
        return self.text


def graph(module: Module, sizes: Mapping[str, int]) -> Graph:
    """The graph of a plan; figures are numbers where the sizes say them."""
    known = numbers(module, sizes)
    made: dict[str, int] = {}
    nodes: list[Node] = []
    for n, step in enumerate(module.steps):
        read = [name for one in leaves((step,)) for name in one.reads]
        after = sorted({made[name] for name in read if name in made})
        given = tuple(dict.fromkeys(name for name in read if name not in made and name not in step.writes))
        nodes.append(Node(step.does, ", ".join(_shaped(module, name, known) for name in step.writes),
                          _figures(step, known), given, tuple(after)))
        made |= dict.fromkeys(step.writes, n)
    return Graph(f"plan of {module.name}", tuple(nodes))


def _shaped(module: Module, name: str, known: Mapping[str, int]) -> str:
    buffer = module.buffers.get(name)
    return name if buffer is None else f"{name} ({' × '.join(_said(s.extent, known) for s in buffer.sets)})"


def _figures(step: Step, known: Mapping[str, int]) -> str:
    cost = getattr(step, "cost", None)
    if cost is None:
        return ""
    return (f"{_said(cost.flops, known, True)} flops, {_said(cost.read, known, True)} B read, "
            f"{_said(cost.written, known, True)} B written")


def _said(extent: Extent, known: Mapping[str, int], short: bool = False) -> str:
    """An extent as a number where the sizes say it, else as a formula."""
    if extent.sizes <= known.keys():
        value = float(extent.at(known))
        return human(value, "").strip() if short else f"{value:.0f}"
    return str(extent).replace("**", "^").replace(" * ", "·")
