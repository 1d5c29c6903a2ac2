"""Equal formulas, as papers write them and as they are cheapest, side by side: `python -m bench equal`.

Both texts mean the same; einc compiles each. The ratio says how many times as long the first takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from rich.table import Table

import einc
from bench import measure
from bench.case import Sizes, Tensors
from bench.record import Figures, Row
from bench.report import duration
from bench.run import Tell
from einc.driver.timing.judge import BOUNDS, ratio, relative_error

USUAL: Sizes = {"T": 1024, "H": 8, "D": 64, "W": 32}
BACKENDS = ("torch", "cpp")
DTYPE = "float32"
HEAD = """index h : head(H)
index t, s : time(T)
index k, d : feature(D)
input q_{t h}^k, u_{s h}^k, v_{s h}^d
"""
TABLE = "dim W\nindex r : latent(0..W)\nweight a_r^k\n"


@dataclass(frozen=True)
class Pair:
    """Logits as a paper writes them, and as products of matrices, with the lines that these need `before` them; `table`
    where they have vectors of distances."""

    name: str
    title: str
    written: str
    cheap: str
    before: str = ""
    table: bool = False

    def texts(self) -> dict[str, str]:
        """The whole texts, by which of the two they are."""
        head = HEAD + TABLE * self.table
        return {way: f"{head}{before}mask L_{{h t s}} : s ≤ t\nL_{{h t s}} = 1/√D ({body})\n"
                     f"output y_{{t h}}^d = Σ_s softmax_s(L_{{h t s}}) v_{{s h}}^d\n"
                for way, body, before in (("written", self.written, ""), ("cheap", self.cheap, self.before))}

    def data(self, sizes: Sizes) -> Tensors:
        """Normal numbers."""
        generator = torch.Generator().manual_seed(0)
        shapes = {name: (sizes["T"], sizes["H"], sizes["D"]) for name in ("q", "u", "v")}
        shapes |= {"a": (sizes["W"] + 1, sizes["D"])} if self.table else {}
        return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


_ROWS = "b_{h t r} = q_{t h}^k a_{r k}\n"
PAIRS = {pair.name: pair for pair in (
    Pair("table", "vectors of distances added to keys", "q_{t h}^k (u_{s h k} + a_{min(t - s, W)}_k)",
         "q_{t h}^k u_{s h k} + b_{h t, min(t - s, W)}", _ROWS, table=True),
    Pair("gates", "a vector of the query's added to keys", "q_{t h}^k (u_{s h k} + exp(v_{t h k}))",
         "q_{t h}^k u_{s h k} + q_{t h}^k exp(v_{t h k})"),
    Pair("distance", "the square of a difference", "-(Σ_k (q_{t h}^k - u_{s h}^k)^2)",
         "2 q_{t h}^k u_{s h k} - Σ_k (q_{t h}^k)^2 - Σ_k (u_{s h}^k)^2"),
)}


def run(pairs: Sequence[Pair], sizes: Sizes, rounds: int, patience: float, tell: Tell) -> Iterator[list[Figures]]:
    """The figures of both texts of a pair by every back end, a pair at a time."""
    for pair in pairs:
        data = pair.data(sizes)
        exact = einc.compile(pair.texts()["written"], backend="torch")(**{k: x.double() for k, x in data.items()})
        found = list[Figures]()
        for backend in BACKENDS:
            tell(f"{pair.name}: {backend}")
            found += timed(pair, backend, sizes, data, exact, rounds, patience)
        yield found


def timed(pair: Pair, backend: str, sizes: Sizes, data: Tensors, exact: torch.Tensor, rounds: int, patience: float
          ) -> list[Figures]:
    """Both texts of a pair by one back end, where both are right; the reference is the cheap text."""
    rows, calls = dict[str, Figures](), dict[str, measure.Call]()
    for way, text in pair.texts().items():
        model = einc.compile(text, backend=backend)
        rows[way] = one = Figures(pair.name, sizes, DTYPE, f"{way}-{backend}", reference=f"cheap-{backend}")
        one.error = relative_error(model(**data), exact)
        calls[way] = partial(model, **data)
        if not one.error <= BOUNDS[DTYPE]:
            one.status, one.note = "wrong", f"relative error {one.error:.1e}"
    if any(one.status != "ok" for one in rows.values()):
        return list(rows.values())
    series = measure.interleaved(calls, rounds, patience, lambda name: None)
    for way, taken in series.times.items():
        one = rows[way]
        one.seconds, one.fastest, one.rounds, one.disturbed = median(taken), min(taken), len(taken), series.disturbed
        one.ratio = ratio(series.times["cheap"], taken)
    return list(rows.values())


def table(rows: Sequence[Row]) -> Table:
    """How many times as long the text as written takes."""
    loads = [row["load"] for row in rows if row["load"] is not None]
    out = Table("pair", "back end", "as written", "by hand", "as written / by hand", "error, error by hand", box=None,
                pad_edge=False, caption=f"load of the machine at the start: {max(loads)}" if loads else None)
    by = {(row["case"], row["rival"]): row for row in rows}
    for name, pair in PAIRS.items():
        for backend in BACKENDS:
            one, other = by.get((name, f"written-{backend}")), by.get((name, f"cheap-{backend}"))
            if one is None or other is None:
                continue
            if not one["ratio"]:
                out.add_row(pair.title, backend, one["note"] or "right", other["note"] or "right")
            else:
                out.add_row(pair.title, backend, duration(one["seconds"]), duration(other["seconds"]),
                            f"{1 / one['ratio']:.2f}", f"{one['error']:.1e}, {other['error']:.1e}")
    return out
