"""`cache K, V as int8 paged 16`: what is kept is rounded, with a scale that is settled with each position."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from helpers import pairs_in_turn
from test_products_of_few_bits import cast
from triton_modes import interpreted

import einc
from einc.driver.cli import main
from einc.driver.commands.generate import kept
from einc.ir.narrow import NARROW
from einc.ir.plan import PerRequest

TEXT = """
index t, s : time(T)
index h : head(H)
index d : feature(D)
input Q_{t h}^d, K_{s h}^d, V_{s h}^d
mask L_{t s}^{(h)} : s ≤ t
L_{t s}^{(h)} = 1/√D Q_{t h}^d K_{s h d}
output Y_{t h}^d = Σ_s softmax_s(L_{t s}^{(h)}) V_{s h}^d
plan serve:
    cache K, V WAY
"""
SHARED = TEXT.replace("head(H)\n", "head(H)\nindex g : head(G)\n", 1).replace(
    "K_{s h}^d, V_{s h}^d", "K_{s g}^d, V_{s g}^d").replace("mask", "map π(h) = ceil(h G / H) : g\nmask", 1).replace(
    "K_{s h d}", "K_{s, π(h), d}").replace("V_{s h}^d", "V_{s, π(h)}^d")
LAYERS = """
index t, s : time(T)
index d, e : feature(D)
input X_t^d
H_t^d = X_t^d
for ℓ in 1..N:
    weight A_d^{e (ℓ)}, B_d^{e (ℓ)}
    K_s^e = H_s^d A_d^{e (ℓ)}
    V_s^e = H_s^d B_d^{e (ℓ)}
    mask L_{t s} : s ≤ t
    L_{t s} = H_t^d K_{s d}
    H_t^e ← H_t^e + Σ_s softmax_s(L_{t s}) V_s^e
output H_t^d
plan serve:
    cache K, V as int8
"""


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def few(x: torch.Tensor, word: str, count: int = 0) -> torch.Tensor:
    """The numbers that a cache gives back of what it was given, by torch's casts."""
    parts = x.unflatten(-1, (-1, count or x.shape[-1]))
    largest = parts.abs().amax(-1, keepdim=True)
    scale = largest / min(NARROW[word].high, -NARROW[word].low) + (largest == 0)
    return (cast(word)(parts / scale) * scale).flatten(-2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf)
    return torch.einsum("hts,shd->thd", scores.softmax(-1), v)


def served(made: Any, inputs: dict[str, torch.Tensor], cuts: list[int], **weights: torch.Tensor) -> torch.Tensor:
    """The results of a prefill and of steps over the given numbers of positions."""
    out, state, at = [], None, 0
    for count in cuts:
        now = {key: x[at:at + count] for key, x in inputs.items()} | weights
        if state is None:
            y, state = made.prefill(**now)
        else:
            y = made(state, **now)
        out.append(y)
        at += count
    return torch.cat(out)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
@pytest.mark.parametrize(("word", "count"), [("int8", 0), ("e4m3", 0), ("e4m3", 4), ("int8", 1)])
def test_steps_read_rounded_numbers_and_their_scales(word: str, count: int, backend: str) -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(11, 3, 8) * torch.logspace(-1, 1, 11)[:, None, None] for _ in range(3))
    k[4], v[2, 1] = 0, 0
    per = f" per {count}" if count else ""
    made = einc.compile(TEXT.replace("WAY", f"as {word}{per}"), backend=backend, plan="serve")
    got = served(made, {"Q": q, "K": k, "V": v}, [5, 1, 1, 3, 1])
    want = attention(q.double(), few(k.double(), word, count), few(v.double(), word, count))
    whole = attention(q.double(), k.double(), v.double())
    assert (got - want).norm() <= 0.05 * (whole - want).norm() + 1e-6 * want.norm()


@pairs_in_turn("backend, width, word", ["torch", "cpp", "triton"], [8, 33], ["int8", "e4m3", "e5m2"], every=3)
def test_codes_that_heads_share_are_read_where_they_lie(backend: str, width: int, word: str) -> None:
    """Nobody makes numbers of the data of all that is kept: a step reads codes."""
    torch.manual_seed(4)
    q, k, v = (torch.randn(13, heads, width) for heads in (4, 2, 2))
    made = einc.compile(SHARED.replace("WAY", f"as {word}"), backend=backend, plan="serve")
    elements = {b.name: b.element.word for step in made.plan.steps if isinstance(step, PerRequest)
                for b in step.body.buffers.values()}
    got = served(made, {"Q": q, "K": k, "V": v}, [9, 1, 2, 1])
    k, v = (few(x.double(), word).repeat_interleave(2, 1) for x in (k, v))
    want = attention(q.double(), k, v)
    assert (got - want).norm() <= 1e-5 * want.norm()
    assert elements[f"K_{word}_all_at"] == elements[f"V_{word}_all_at"] == word, elements


def test_the_cache_has_few_bits_and_pages() -> None:
    made = einc.compile(TEXT.replace("WAY", "as int8"), backend="torch", plan="serve")
    _, cache = made.prefill(**{key: torch.randn(5, 2, 4) for key in "QKV"})
    assert {name: rows.store.dtype for name, rows in cache.kept.items()} == {
        "K_int8": torch.int8, "V_int8": torch.int8, "K_scale": torch.float32, "V_scale": torch.float32}
    paged = einc.compile(TEXT.replace("WAY", "as int8 paged 4"), backend="torch", plan="serve")
    assert paged.plan.generation is not None and paged.plan.generation.page == 4


def test_layers_keep_rounded_numbers() -> None:
    torch.manual_seed(3)
    x, a, b = torch.randn(9, 6), torch.randn(6, 6, 2) / 3, torch.randn(6, 6, 2) / 3
    made = einc.compile(LAYERS, backend="torch", plan="serve")
    h = x.double()
    for n in range(2):
        k, v = (few(h @ w[..., n].double(), "int8") for w in (a, b))
        scores = (h @ k.T).masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
        h = h + scores.softmax(-1) @ v
    got = served(made, {"X": x}, [4, 1, 3, 1], A=a, B=b)
    assert (got - h).norm() <= 2e-3 * h.norm()


WRONG = [
    ("as float8", "`float8` is no type that numbers are stored in"),
    ("as int4", "`int4` is no type that numbers are stored in"),
    ("as int8 per 0", "a block has from 1 to"),
    ("paged 0", "a page has from 1 to"),
    ("as int8 paged", "the line stops too early"),
    ("per 4", "`per` cannot stand here"),
]


@pytest.mark.parametrize(("way", "said"), WRONG)
def test_what_cannot_be_kept_so_is_told_by_check(way: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(TEXT.replace("WAY", way))
    found = CliRunner().invoke(main, ["check", str(tmp_path / "a.ein")])
    assert found.exit_code == 1 and said in found.output, found.output


def test_scales_over_positions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text("""
index t, s : time(T)
index d : feature(D)
input Q_t^d, K^d_s
output Y_t = Σ_{s ≤ t} Q_t^d K_{d s}
plan serve:
    cache K as int8
""".replace("K^d_s", "K_{d s}"))
    found = CliRunner().invoke(main, ["check", str(tmp_path / "a.ein")])
    assert found.exit_code == 1 and "one of positions, over which no scale is settled" in found.output, found.output


@pytest.mark.parametrize("ways", [("as int8", "as e4m3"), ("as int8", ""), ("", "as int8"),
                                  ("as e4m3", "as e4m3 per 4")])
def test_a_saved_cache_of_another_type_is_refused(ways: tuple[str, str], tmp_path: Path) -> None:
    made, other = (einc.compile(TEXT.replace("WAY", way), backend="torch", plan="serve") for way in ways)
    inputs = {key: torch.randn(5, 2, 8) for key in "QKV"}
    _, cache = made.prefill(**inputs)
    cache.save(str(tmp_path / "cache"))
    again = type(cache).load(str(tmp_path / "cache"))
    assert made(again, **inputs).shape == (5, 2, 8)
    of_other = inspect.unwrap(other.function).__globals__["Cache"].load(str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"the cache (has 5 positions but no|keeps)"):
        other(of_other, **inputs)


def test_a_position_takes_the_bytes_of_the_types() -> None:
    made = einc.compile(TEXT.replace("WAY", "as int8"), backend="torch", plan="serve")
    (line,) = kept(made.plan, {"H": 3, "D": 8}, {"w": torch.zeros(1)})
    assert line.split(": ")[0] == f"cache    {2 * (3 * 8 + 4 * 3)} bytes a position"
