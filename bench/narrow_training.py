"""A language model whose layers multiply in e4m3, beside the same one in bfloat16 and in float32: losses in training.

All three begin with the same weights in float32, read the same batches and are updated in float32; they differ in what
the products see. Gradients go straight through what is rounded.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from rich.table import Table

import einc
from bench import train
from bench.record import Row

SIZES = {"B": 4, "T": 32, "C": 32, "N": 2, "H": 2, "d_k": 16, "d_model": 32, "d_ff": 64, "V": train.LETTERS}
TILE = 16
LAST = 0.1  # the share of the steps, at the end, of which the mean loss is taken
BOUND = 0.0025  # of the loss in bfloat16: what DeepSeek-V3 reports


def ways(backend: str = "torch") -> Mapping[str, train.Loss]:
    """The three models, by what their products see."""
    narrow = einc.compile(train.SPEC.replace('"decoder_lm"', '"precision/fp8_lm"'), backend=backend, grad=True)
    wide = train.derived(backend)

    def rounded(weights: train.Tensors, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = narrow(w=words, y=following, D=TILE, **weights).mean()
        return loss

    def half(weights: train.Tensors, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return wide({name: x.bfloat16() for name, x in weights.items()}, words, following).float()

    return {"e4m3": rounded, "bfloat16": half, "float32": wide}


def run(steps: int, seeds: Sequence[int], tell: Callable[[str], None], text: torch.Tensor | None = None,
        sizes: Mapping[str, int] = SIZES) -> Iterator[Row]:
    """A row for each seed and way: the losses, and the mean of the last tenth of them."""
    models = ways()
    for seed in seeds:
        tell(f"seed {seed}")
        setup = train.Setup(steps, seed, 3e-3, sizes=sizes)
        for name, curve in train.train(models, train.corpus() if text is None else text, setup).items():
            last = statistics.fmean(curve.losses[-max(1, round(LAST * steps)):])
            yield {"case": f"training seed {seed}", "sizes": dict(sizes), "dtype": name, "rival": "einc", "seed": seed,
                   "steps": steps, "falls": train.falls(curve), "mean": round(last, 6),
                   "losses": [round(loss, 6) for loss in curve.losses]}


def means(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The mean losses of each way, a number for each seed."""
    return {name: [row["mean"] for row in rows if row["dtype"] == name] for name in dict.fromkeys(
        row["dtype"] for row in rows)}


def apart(rows: Sequence[Row]) -> tuple[float, float]:
    """How much larger the loss in e4m3 is than that in bfloat16, on average over seeds and as a share of it; and the
    spread over seeds of the loss in bfloat16, as a share of it."""
    found = means(rows)
    base = statistics.fmean(found["bfloat16"])
    spread = statistics.stdev(found["bfloat16"]) if len(found["bfloat16"]) > 1 else 0.0
    return statistics.fmean(found["e4m3"]) / base - 1, spread / base


def near(rows: Sequence[Row]) -> bool:
    """Whether all losses fall, and that in e4m3 is as near that in bfloat16 as the bound, or the spread, says."""
    away, spread = apart(rows)
    return all(row["falls"] for row in rows) and abs(away) <= max(BOUND, spread)


def table(rows: Sequence[Row]) -> Table:
    """The mean loss of the last tenth of the steps, by way and seed, and how far e4m3 is from bfloat16."""
    away, spread = apart(rows)
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    out = Table("products in", *(f"seed {seed}" for seed in seeds), "mean", box=None, pad_edge=False, caption=(
        f"mean loss of the last tenth of {rows[0]['steps']} steps; e4m3 is {away:+.2%} from bfloat16, "
        f"whose spread over seeds is {spread:.2%}"))
    for name, losses in means(rows).items():
        out.add_row(name, *(f"{loss:.4f}" for loss in losses), f"{statistics.fmean(losses):.4f}")
    return out
