"""A picture of two axes: on a terminal, as SVG, as a page, and as a bitmap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from einc.errors.report import failure

Cells = np.ndarray[Any, Any]
Kind = Literal["domain", "tiles", "weights"]
WIDE, HIGH = 64, 32  # blocks on a terminal
SHADES = "·░▒▓█"
_SIDE, _MARGIN = 512, 40  # of an SVG
_STYLE = ("<style>figure{margin:1em 0}figcaption{font:13px sans-serif}svg text{font:12px sans-serif;fill:currentColor}"
          "</style>")


@dataclass(frozen=True, eq=False)
class Picture:
    """Numbers over two axes. In a domain 1 is inside and 0 outside; of tiles 1 is whole, 1/2 cut and 0 not visited."""

    title: str
    kind: Kind
    rows: str
    columns: str
    cells: Cells
    notes: tuple[str, ...] = ()

    def blocks(self, high: int = HIGH, wide: int = WIDE) -> Cells:
        """The means of at most so many blocks of cells; a block that is not all inside or all outside has neither 1
        nor 0.
        """
        height, width = self.cells.shape
        if not height or not width:
            return self.cells
        rows = np.unique(np.linspace(0, height, min(high, height), endpoint=False).astype(int))
        columns = np.unique(np.linspace(0, width, min(wide, width), endpoint=False).astype(int))
        total = np.add.reduceat(np.add.reduceat(self.cells.astype(float), rows, 0), columns, 1)
        return np.asarray(total / np.outer(np.diff([*rows, height]), np.diff([*columns, width])))

    @property
    def most(self) -> float:
        """The number that is darkest: of weights the largest, else 1, so that a tile that is cut is never as dark as a
        whole one.
        """
        return self._most_of(self.cells)

    def _most_of(self, cells: Cells) -> float:
        return (float(np.abs(cells).max(initial=0.0)) if self.kind == "weights" else 1.0) or 1.0

    @property
    def text(self) -> str:
        """The picture for a terminal: a block of it is one sign."""
        return self.within(WIDE)

    def within(self, columns: int) -> str:
        """The same with no more signs in a line than there are columns."""
        blocks = self.blocks(wide=min(WIDE, columns))
        most = self._most_of(blocks)
        lines = ["".join(self._sign(float(x) / most) for x in row) for row in blocks]
        (height, width), (high, wide) = self.cells.shape, blocks.shape
        by = f", a sign for {height / high:.3g} × {width / wide:.3g}" if (height, width) != (high, wide) else ""
        down, across = (f"1..{count}" if count else "of no position" for count in (height, width))
        head = f"{self.title}   {self.rows} down {down}, {self.columns} across {across}{by}"
        return "\n".join([head, *lines, *self.notes]) + "\n"

    def _sign(self, share: float) -> str:
        if self.kind == "tiles":
            return SHADES[0] if share <= 0 else SHADES[-1] if share >= 1 else SHADES[2]
        if share <= 0 or share >= 1:
            return SHADES[0] if share <= 0 else SHADES[-1]
        return SHADES[1 + min(2, int(share * 3))]

    @property
    def svg(self) -> str:
        """The picture as SVG, without a library."""
        blocks = self.blocks(128, 128)
        high, wide = blocks.shape
        most = self._most_of(blocks)
        side = _SIDE / max(high, wide, 1)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_MARGIN + wide * side:.0f}" '
               f'height="{_MARGIN + high * side:.0f}" role="img" aria-label="{escape(self.title)}">',
               f'<text x="{_MARGIN}" y="20">{escape(self.columns)} →</text>',
               f'<text x="4" y="{_MARGIN + 14}">{escape(self.rows)} ↓</text>',
               f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{wide * side:.2f}" height="{high * side:.2f}" fill="none" '
               f'stroke="currentColor" stroke-opacity="0.4"/>']
        alike = [0, *(np.flatnonzero(np.diff(blocks, axis=0).any(1)) + 1), high]  # rows that are the same are one
        for top, below in pairwise(alike):
            row = blocks[top] if below > top else np.zeros(0)
            for first, last in pairwise([0, *(np.flatnonzero(np.diff(row)) + 1), len(row)]):
                if last > first and row[first] != 0:
                    out.append(f'<rect x="{_MARGIN + first * side:.2f}" y="{_MARGIN + top * side:.2f}" '
                               f'width="{(last - first) * side:.2f}" height="{(below - top) * side:.2f}" '
                               f'fill="#3465a4" fill-opacity="{min(1.0, abs(float(row[first])) / most):.3g}"/>')
        return "\n".join([*out, "</svg>"])

    def _repr_html_(self) -> str:
        notes = "".join(f"<br>{escape(note)}" for note in self.notes)
        return f"<figure>{self.svg}<figcaption>{escape(self.title)}{notes}</figcaption></figure>"

    def __str__(self) -> str:
        return self.text


class Pictures(tuple[Any, ...]):
    """Several pictures, which a notebook shows below each other."""

    @property
    def text(self) -> str:
        """The pictures as text for a terminal, one below the other."""
        return self.within(WIDE)

    def within(self, columns: int) -> str:
        """The same for a terminal of so many columns; a plan has lines as long as its formulas."""
        return "\n".join(one.within(columns) if isinstance(one, Picture) else one.text for one in self)

    def _repr_html_(self) -> str:
        return "\n".join(one._repr_html_() for one in self)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def save(path: str, pictures: Sequence[Any]) -> None:
    """Writes pictures, or a plan's graph, into a file of the ending's kind. EincError for any other ending, for several
    in a file that takes one, and where a bitmap is asked for and its library is not installed.
    """
    ending = Path(path).suffix.lower()
    if ending in (".html", ".htm"):
        body = "\n".join(one._repr_html_() for one in pictures)
        title = escape(pictures[0].title)
        text = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>{title}</title>\n{_STYLE}\n{body}\n'
    elif ending == ".svg" and len(pictures) == 1:
        text = f"{pictures[0].svg}\n"
    elif ending == ".png":
        return _bitmap(path, pictures)
    elif ending == ".svg":
        raise failure(f"there are {len(pictures)} pictures, and {path} takes one",
                      "say which: --of NAME", "write them all on a page: -o out.html")
    else:
        raise failure(f"{path} has an ending for which there is no picture", "end it in .svg, .png or .html")
    Path(path).write_text(text, encoding="utf-8", newline="\n")
    return None


def curves(path: str, title: str, axes: tuple[str, str], lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Writes lines over one axis into a file, both axes by powers. EincError as `curves_for` has it."""
    figure = curves_for(path)
    plot = figure.subplots()
    for name, points in lines.items():
        plot.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
    plot.set_xscale("log", base=2)
    plot.set_yscale("log")
    plot.set_xlabel(axes[0])
    plot.set_ylabel(axes[1])
    plot.set_title(title, fontsize=10)
    plot.grid(which="major", alpha=0.3)
    plot.legend()
    figure.savefig(path, dpi=150)


def curves_for(path: str) -> Any:
    """The empty picture of curves for a file. EincError where matplotlib is not installed, the ending is that of no
    picture, or the folder is not there: what is drawn may take long, so that this is asked before.
    """
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise failure(f"{path} has an ending for which there is no picture", "end it in .png, .svg or .pdf")
    if not Path(path).parent.is_dir():
        raise failure(f"{path} cannot be written: there is no folder {Path(path).parent}", "make it, or name another")
    return _figure("curves", 7)


def _figure(what: str, wide: int, *otherwise: str) -> Any:
    """An empty figure of matplotlib; EincError where it is not installed, with what else can be done."""
    try:
        return import_module("matplotlib.figure").Figure(figsize=(wide, 5))
    except ModuleNotFoundError:
        raise failure(f"matplotlib is not installed, which draws {what}", "`pip install 'einc[draw]'`",
                      *otherwise) from None


def _bitmap(path: str, pictures: Sequence[Any]) -> None:
    """Writes pictures beside each other into a bitmap. Raises EincError for a graph, and where matplotlib is missing.
    """
    if not all(isinstance(one, Picture) for one in pictures):
        raise failure("a graph is drawn with lines, not as a bitmap", "end the name in .svg or .html")
    figure = _figure("bitmaps", 5 * len(pictures), "end the name in .svg or .html, for which nothing is needed")
    for one, axes in zip(pictures, figure.subplots(1, len(pictures), squeeze=False)[0], strict=True):
        height, width = one.cells.shape
        axes.imshow(np.abs(one.cells), cmap="Blues", interpolation="nearest", aspect="auto", vmin=0.0, vmax=one.most,
                    extent=(0.5, width + 0.5, height + 0.5, 0.5))
        axes.set_title(one.title, fontsize=8)
        axes.set_xlabel("\n".join([one.columns, *one.notes]))
        axes.set_ylabel(one.rows)
    figure.savefig(path, dpi=150, bbox_inches="tight")
