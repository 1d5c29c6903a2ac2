"""What rounding costs: attention and products in few bits against the same formula in float64.

Everything is computed in float64, so that the error is that of the rounding alone, which is the same in every run.
A spec is first held against plain torch with torch's own casts (`rounded`). Nothing is timed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

import click
import torch
from rich.table import Table
from torch import Tensor

import einc
from bench import narrow_training
from bench.cli import HELP, OUT, progress, wide_console
from bench.record import Row, Run, write
from bench.rounded import ROWS, Rounder, Tensors, products, sage, seen
from bench.rounded import dequantised as scaled

SPECS = Path(__file__).parent.parent / "specs"
SEEDS = (0, 1, 2)
APART = 1e-10  # from the other implementation
DECLARED = re.compile(r"\s*(#|index |input |weight |map |dim |$)")
PER_TENSOR = """index t : time(T)
index f : feature(d_in)
index e : feature(d_out)
input X_t^f
weight W_f^e
σ = max_{t ∈ 1..T} max_f |X_t^f| / 448
ω = max_f max_e |W_f^e| / 448
output Y_t^e : all
Y_t^e = σ ω e4m3(X_t^f / σ) e4m3(W_f^e / ω)
"""


def text_of(name: str) -> str:
    """The text of a spec of `specs/precision`."""
    return (SPECS / "precision" / f"{name}.ein").read_text(encoding="utf-8")


def equations(text: str) -> int:
    """The lines of a text beside comments, plans, and declarations of indices, inputs, weights and maps."""
    return sum(DECLARED.match(line) is None for line in text.partition("\nplan ")[0].splitlines())


def without_mean(text: str) -> str:
    """SageAttention's text with keys as they are: the equation of C is gone, and K stands in its place."""
    kept = [line for line in text.splitlines() if not line.startswith("C_")]
    return "\n".join(kept).replace("C_{", "K_{") + "\n"


def in_bits(text: str, bits: int) -> str:
    """The text with whole numbers of so many bits."""
    largest = {8: "127", 4: "7"}[bits]
    return re.sub(r"\bint[48]\(", f"int{bits}(", re.sub(r"/ (127|7)$", f"/ {largest}", text, flags=re.MULTILINE))


# what goes in


def normal(random: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=random, dtype=torch.float64)


def outliers(random: torch.Generator) -> Tensors:
    """FlashAttention-3's: N(0, 1) + N(0, 100) · Bernoulli(0.001) for every operand; 1,024 positions, a head of 128."""
    shape = (1024, 1, 128)
    return {name: normal(random, *shape) + 10 * normal(random, *shape) * (torch.rand(shape, generator=random) < 1e-3)
            for name in "QKV"}


def hadamard(width: int, random: torch.Generator) -> Tensor:
    """An orthogonal matrix of ± 1 / √width, the signs of its rows drawn."""
    out = torch.ones(1, 1, dtype=torch.float64)
    while len(out) < width:
        out = torch.cat([torch.cat([out, out], 1), torch.cat([out, -out], 1)])
    signs = torch.randint(0, 2, (width, 1), generator=random) * 2.0 - 1
    return signs * out / math.sqrt(width)


def plain_outliers(random: torch.Generator) -> Tensors:
    """Those outliers, and a turn that turns nothing."""
    return outliers(random) | {"U": torch.eye(128, dtype=torch.float64)}


def turned_outliers(random: torch.Generator) -> Tensors:
    """Those outliers, and a Hadamard matrix."""
    return outliers(random) | {"U": hadamard(128, random)}


def offsets(random: torch.Generator) -> Tensors:
    """Keys of which a quarter of the channels have an offset of spread 8, and queries with offsets of spread 2; 256
    positions, two heads of 64."""
    Q, K, V = (normal(random, 256, 2, 64) for _ in range(3))
    away = 8 * normal(random, 1, 2, 64) * (torch.rand((1, 2, 64), generator=random) < 0.25)
    return {"Q": Q + 2 * normal(random, 1, 2, 64), "K": K + away, "V": V}


def loud_channel(random: torch.Generator) -> Tensors:
    """256 rows of 512 features, one of which is 100 times as large as the others, and 256 columns."""
    X = normal(random, 256, 512)
    X[:, 37] *= 100
    return {"X": X, "W": normal(random, 512, 256) / math.sqrt(512)}


def gaussian(random: torch.Generator) -> Tensors:
    """256 rows of 512 features, and 256 columns."""
    return {"X": normal(random, 256, 512), "W": normal(random, 512, 256) / math.sqrt(512)}


# what is compared


def attention(Q: Tensor, K: Tensor, V: Tensor, **_: Tensor) -> Tensor:
    """Causal attention without a rounding."""
    return seen(products(Q, K), V)


def full_attention(Q: Tensor, K: Tensor, V: Tensor, **_: Tensor) -> Tensor:
    """Attention of all positions to all, without a rounding."""
    return torch.einsum("hts,shd->thd", torch.softmax(products(Q, K), -1), V)


def product(X: Tensor, W: Tensor) -> Tensor:
    """A product without a rounding."""
    return X @ W


def per_tensor(r: Rounder, X: Tensor, W: Tensor) -> Tensor:
    """One scale for each operand."""
    return scaled(X, r.e4m3, 448, (0, 1)) @ scaled(W, r.e4m3, 448, (0, 1))


def in_bfloat16(r: Rounder, X: Tensor, W: Tensor) -> Tensor:
    """Both operands and the result in bfloat16."""
    del r
    return (X.bfloat16() @ W.bfloat16()).double()


@dataclass(frozen=True)
class Case:
    """One way of rounding: its text, empty where torch computes it; data; another implementation; what is exact.

    `sizes` are those that the text asks for; `published` is what the paper prints for its own data.
    """

    name: str
    title: str
    text: str
    draw: Callable[[torch.Generator], Tensors]
    other: Callable[..., Tensor]
    exact: Callable[..., Tensor]
    sizes: Mapping[str, int] = field(default_factory=dict)
    published: str = ""

    def wanted(self, given: Tensors) -> Tensor:
        """By the other implementation."""
        return self.other(Rounder(), **given, **({"P": self.sizes["P"]} if "P" in self.sizes else {}))

    def found(self, given: Tensors) -> Tensor:
        """By the spec."""
        if not self.text:
            return self.wanted(given)
        result: Tensor = einc.compile(self.text)(**given, **self.sizes)
        return result


def _flash(name: str, title: str, draw: Callable[[torch.Generator], Tensors], block: int, published: str) -> Case:
    """Attention with all operands in e4m3; a block of all positions is a scale for each tensor and head."""
    return Case(f"fp8-{name}", title, text_of("fp8_attention"), draw, ROWS["fp8_attention"].result, full_attention,
                {"N": 1024 // block, "P": block}, published)


def _sage(bits: int, keys: bool, queries: bool, published: str = "") -> Case:
    """SageAttention with so many bits, in blocks of 64 positions."""
    text = in_bits(text_of("sage2" if queries else "sage1"), bits)
    what = "keys and queries smoothed" if queries else "keys smoothed" if keys else "as they are"
    return Case(f"int{bits}{'-keys' * keys}{'-queries' * queries}", f"int{bits} a block of 64, {what}",
                text if keys else without_mean(text), offsets, sage(bits, keys, queries), attention,
                {"N": 4, "P": 64}, published)


@cache
def cases() -> Mapping[str, Case]:
    """All, by name, in the order of the table."""
    found = (
        _flash("tensor", "Q, K, P, V in e4m3, a scale for each tensor", plain_outliers, 1024, "RMSE 2.4e-2"),
        _flash("block", "the same, a scale for each 128 positions", plain_outliers, 128, ""),
        _flash("tensor-turned", "a scale for each tensor, Q and K turned", turned_outliers, 1024, ""),
        _flash("block-turned", "a scale for each 128 positions, turned", turned_outliers, 128, "RMSE 9.1e-3"),
        *(_sage(bits, keys, queries, published) for bits, keys, queries, published in (
            (8, False, False, ""), (8, True, False, ""), (8, True, True, ""),
            (4, False, False, "cosine 0.80"), (4, True, False, ""), (4, True, True, "cosine 0.995"))),
        Case("e4m3-tensor", "e4m3, a scale for each tensor", PER_TENSOR, loud_channel, per_tensor, product),
        Case("e4m3-block", "e4m3, tiles of 1 × 128 and blocks of 128 × 128", text_of("fp8_blockwise"), loud_channel,
             ROWS["fp8_blockwise"].result, product, {"N": 4, "P": 128, "M": 2}),
        Case("bfloat16", "bfloat16 throughout", "", gaussian, in_bfloat16, product),
        Case("int4-weights", "weights in int4, groups of 32", text_of("int4_linear"), gaussian,
             ROWS["int4_linear"].result, product, {"N": 16, "P": 32}),
    )
    return {case.name: case for case in found}


DRAWS: Mapping[Callable[[torch.Generator], Tensors], str] = {
    plain_outliers: "outliers N(0,1) + N(0,100)·Bern(0.001)", turned_outliers: "outliers N(0,1) + N(0,100)·Bern(0.001)",
    offsets: "keys and queries with channel offsets", loud_channel: "a product, one channel × 100",
    gaussian: "a product, normal numbers",
}


def errors(got: Tensor, want: Tensor) -> dict[str, float]:
    """How far a result is: the cosine of both, the sum of differences over that of values, and the root of the mean of
    squares, by itself and over that of the values."""
    away = got - want
    return {
        "cosine": float(torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), 0)),
        "l1": float(away.abs().sum() / want.abs().sum()), "rmse": float(away.square().mean().sqrt()),
        "relative": float(away.norm() / want.norm()),
    }


def measured(case: Case, seeds: Sequence[int] = SEEDS) -> Row:
    """The means over seeds; status `wrong` where the spec and plain torch part."""
    rows = list[dict[str, float]]()
    apart = 0.0
    for seed in seeds:
        given = case.draw(torch.Generator().manual_seed(seed))
        got, want = case.found(given), case.wanted(given)
        apart = max(apart, float((got - want).norm() / want.norm()))
        rows.append(errors(got, case.exact(**given)))
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    short = {name: float(f"{value:.{7 if name == 'cosine' else 4}g}") for name, value in means.items()}
    return {"case": case.name, "sizes": dict(case.sizes), "dtype": "float64", "rival": "einc" if case.text else "torch",
            "status": "ok" if apart <= APART else "wrong", "apart": float(f"{apart:.2g}"), "seeds": list(seeds),
            "lines": equations(case.text), "published": case.published, **short}


def table(rows: Sequence[Row]) -> Table:
    """One line for each case, under the data that it was tried on."""
    out = Table("data", "what is rounded", "equations", "cosine", "relative L1", "RMSE", "relative RMSE", "published",
                box=None, pad_edge=False)
    before = ""
    for row in rows:
        case = cases()[row["case"]]
        data = DRAWS[case.draw]
        figures = [f"{row['cosine']:.5f}", *(f"{row[name]:.2e}" for name in ("l1", "rmse", "relative"))]
        out.add_row(data if data != before else "", case.title, str(row["lines"] or "–"),
                    *(figures if row["status"] == "ok" else ["wrong", f"{row['apart']:.0e} apart", "", ""]),
                    row["published"])
        before = data
    return out


def run(names: Sequence[str], seeds: Sequence[int] = SEEDS) -> Iterator[Row]:
    """The figures of the cases, one after the other."""
    for name in names:
        yield measured(cases()[name], seeds)


def _train(steps: int, seeds: Sequence[int], out: Path) -> NoReturn:
    """Train, print and keep the losses, and end the command."""
    console, here, rows = wide_console(), Run(), list[Row]()
    with progress(console, 3 * len(seeds)) as (tell, step):
        for row in narrow_training.run(steps, seeds, tell):
            rows.append(here.row("training", **row))
            step()
    write(out / "precision.jsonl", rows)
    console.print(narrow_training.table(rows))
    console.print(f"wrote {out / 'precision.jsonl'}")
    raise SystemExit(0 if narrow_training.near(rows) else 1)


@click.command("precision", context_settings=HELP)
@click.option("--case", "names", multiple=True, help="Which cases, by name as in the results; all without it.")
@click.option("--seed", "seeds", multiple=True, type=int, default=SEEDS, show_default=True, help="Which data.")
@click.option("--training", "steps", type=click.IntRange(min=1),
              help="Train a language model for so many steps in e4m3, bfloat16 and float32 instead.")
@OUT
def command(*, names: tuple[str, ...], seeds: tuple[int, ...], steps: int | None, out: Path) -> None:
    """What rounding to few bits costs against float64, beside what papers publish; status 1 where a spec is wrong.

    Each spec is first held against plain torch with torch's own casts. Figures are means over the seeds. What is
    published was measured on the papers' own sizes and, for SageAttention2, on the tensors of a model. With --training
    the status is 1 where the loss in e4m3 is further from that in bfloat16 than 0.25 % of it and than its spread.
    """
    if steps is not None:
        _train(steps, seeds, out)
    if unknown := [name for name in names if name not in cases()]:
        raise click.UsageError(f"no case is called {unknown[0]}: they are {', '.join(cases())}")
    console, here, rows = wide_console(), Run(), list[Row]()
    with progress(console, len(names or cases())) as (tell, step):
        for row in run(names or tuple(cases()), seeds):
            tell(row["case"])
            rows.append(here.row("precision", **row))
            step()
    write(out / "precision.jsonl", rows)
    console.print(table(rows))
    console.print(f"wrote {out / 'precision.jsonl'}")
    raise SystemExit(0 if all(row["status"] == "ok" for row in rows) else 1)
