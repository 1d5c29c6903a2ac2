"""Chance as arithmetic: the same bits from every back end, for any tiles and types; even,
independent, and fixed by a seed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Arrays, Tiles, cut, distance, meaning, plan_of, source_of, typed
from programs import FILES
from torch.nn import functional
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front
from einc.driver.cli import main
from einc.driver.pipeline import check
from einc.errors.report import Report, Source, render
from einc.ir.mixing import chance, hashed

Array = np.ndarray[Any, Any]
SPEC = next(case for case in FILES if case.name == "attention_dropout")
NOISE = """index n : batch(B)
index t, s : time(T)
index h : head(H)
input x_{n t s h}, p
input seed : int
output u_{n t s h} = uniform(x_{n t s h}, seed)
output v_{n t s h} = uniform(x_{n t s h}, seed)
output y_{n t s h} : all
y_{n t s h} = dropout(x_{n t s h}, p, seed)
"""


# what it means


def mixed(x: Array) -> Array:
    """In 32 bits that overflow, as hardware has them: nothing is shared with what is tested."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
    return x ^ (x >> np.uint32(15))


def short(x: Any) -> Array:
    x = np.asarray(x, dtype=np.int64)
    return (x ^ (x >> 32)).astype(np.uint32)


def bits(*numbers: Any) -> Array:
    """Each number mixed into those before it."""
    state = short(numbers[0])
    with np.errstate(over="ignore"):
        for number in numbers[1:]:
            state = mixed(state ^ mixed(short(number) + np.uint32(0x5851F42D)))
    return state


def drawn(place: str, seed: int, *positions: Any) -> Array:
    """What `uniform` gives there."""
    return (bits(seed, crc32(place.encode()) >> 1, *positions) >> np.uint32(8)) / 2**24


def axes(*lengths: int) -> list[Array]:
    return [np.arange(1, n + 1).reshape([-1 if k == at else 1 for k in range(len(lengths))])
            for at, n in enumerate(lengths)]


def test_a_hash_is_what_32_bits_make_of_it() -> None:
    numbers = [0, 1, -1, 7, 2**31, -2**31, 2**32 - 1, 2**32, 2**40 + 5, -2**62, 2**63 - 1]
    want = bits(*np.meshgrid(numbers, numbers))
    assert np.array_equal(hashed(*np.meshgrid(numbers, numbers)), want)
    assert [hashed(a, b) for b in numbers for a in numbers] == want.ravel().tolist()
    assert len({hashed(a, b) for a in range(64) for b in range(64)}) == 4096, "the order of the numbers matters"
    assert 0 <= chance(3, 4) < 1


@cache
def noise() -> Any:
    return typed(NOISE, "noise.ein")


def noisy(sizes: tuple[int, int, int], seed: int, p: float = 0.0) -> Arrays:
    n, t, h = sizes
    x = np.ones((n, t, t, h))
    return meaning(noise(), {"x": x, "p": np.asarray(p), "seed": np.asarray(seed)}, {})


def test_a_draw_is_made_of_seed_place_and_positions() -> None:
    """Batches and heads before time; the two calls differ, and nothing else goes in."""
    small, large = noisy((2, 5, 3), 11), noisy((3, 9, 4), 11)
    n, h, t, s = axes(2, 3, 5, 5)
    for name in ("u", "v"):
        assert np.array_equal(small[name], drawn(f"{name}_uniform", 11, n, h, t, s).transpose(0, 2, 3, 1))
        assert np.array_equal(small[name], large[name][:2, :5, :5, :3]), "the length of an axis does not matter"
    assert not np.any(small["u"] == small["v"])
    assert not np.any(small["u"] == noisy((2, 5, 3), 12)["u"])


def test_names_of_indices_and_the_order_of_lines_do_not_matter() -> None:
    lines = ["output a_{t s} = x_{t s} + uniform(x_{t s}, seed)", "output b_{t s} = uniform(2 x_{t s} + 1, seed)"]
    given = {"x": np.zeros((4, 4)), "seed": np.asarray(3)}
    heads = "index {0}, {1} : time(T)\ninput x_{{{0} {1}}}\ninput seed : int\n"
    first = meaning(typed(heads.format("t", "s") + "\n".join(lines)), given, {})
    turned = "\n".join(lines[::-1]).replace("t s", "v u")
    second = meaning(typed(heads.format("v", "u") + turned), given, {})
    assert all(np.array_equal(first[name], second[name]) for name in ("a", "b"))


# even and independent


def correlation(a: Array, b: Array) -> float:
    """In units of what chance gives."""
    a, b = a.ravel() - 0.5, b.ravel() - 0.5
    return float(12 * (a * b).mean() * math.sqrt(a.size))


def test_draws_are_even_and_independent() -> None:
    """Moments, bins, neighbours along every index, squares, two seeds, two places: within four of their spreads."""
    made, other = noisy((6, 40, 8), 1), noisy((6, 40, 8), 2)
    u = made["u"]
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) * math.sqrt(12 * u.size) < 4
    assert abs(u.var() - 1 / 12) * math.sqrt(180 * u.size) < 4
    counts = np.bincount((u.ravel() * 64).astype(int), minlength=64)
    assert abs(((counts - u.size / 64) ** 2).sum() / (u.size / 64) - 63) < 4 * math.sqrt(2 * 63)
    for axis in range(4):
        for far in (1, 2, 4):
            assert abs(correlation(u.take(range(far, u.shape[axis]), axis),
                                   u.take(range(u.shape[axis] - far), axis))) < 4
    low, high = np.tril_indices(40, -1)
    assert abs(correlation(u[:, low, high], u[:, high, low])) < 4
    assert abs(correlation(u[:, :-1, :-1], u[:, 1:, 1:])) < 4
    assert abs(correlation(u, other["u"])) < 4 and abs(correlation(u, made["v"])) < 4
    last = ((u * 2**24).astype(np.int64) & 255) / 256
    assert abs(last.mean() - 255 / 512) * math.sqrt(12 * u.size) < 4, "the low bits too"
    assert np.unique(u).size > 0.99 * u.size * (1 - u.size / 2**25)


def test_what_is_dropped() -> None:
    """Nothing at p = 0, exactly; the part p, and the rest grows by 1 / (1 - p); all at p = 1."""
    kept = noisy((2, 30, 4), 3, 0.2)["y"]
    assert set(np.unique(kept)) == {0.0, 1 / (1 - 0.2)}
    assert abs((kept == 0).mean() - 0.2) < 4 * math.sqrt(0.16 / kept.size)
    assert np.array_equal(noisy((2, 5, 3), 3)["y"], np.ones((2, 5, 5, 3)))
    assert not noisy((2, 5, 3), 3, 1.0)["y"].any()


# one result everywhere


def given(p: float, seed: int, dtype: torch.dtype = torch.float64, **sizes: int) -> dict[str, torch.Tensor]:
    """Weights with logits of some spread."""
    n, t, h, f, d = (({"B": 2, "T": 37, "H": 3, "f": 7, "d": 5} | sizes)[name] for name in ("B", "T", "H", "f", "d"))
    random = np.random.default_rng(0)
    shapes = {"X": (n, t, f), "W_qkv": (f, 3 * h * d), "b_qkv": (3 * h * d,), "W_O": (h, d, f), "b_O": (f,)}
    out = {name: torch.from_numpy(random.standard_normal(shape)).to(dtype) for name, shape in shapes.items()}
    return {**out, "p": torch.tensor(p, dtype=dtype), "seed": torch.tensor(seed)}


def plain(x: Mapping[str, torch.Tensor], kept: torch.Tensor, left: torch.Tensor, p: float) -> torch.Tensor:
    """The notes' own code with the masks given; kept (n, h, t, s) and left (n, t, f)."""
    heads, width, _ = x["W_O"].shape
    q, k, v = ((x["X"] @ x["W_qkv"] + x["b_qkv"]).unflatten(2, (3, heads, width)).permute(2, 0, 3, 1, 4))
    scores = (q @ k.mT / width**0.5).masked_fill(~torch.ones(q.shape[2], q.shape[2]).tril().bool(), -torch.inf)
    y = (functional.softmax(scores, -1) * kept / (1 - p)) @ v
    return (y.transpose(1, 2).flatten(2) @ x["W_O"].flatten(0, 1) + x["b_O"]) * left / (1 - p)


def masks(x: Mapping[str, torch.Tensor], p: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    n, t, f = x["X"].shape
    kept = drawn("A_dropout_uniform", seed, *axes(n, x["W_O"].shape[0], t, t)) >= p
    b, features, time = axes(n, f, t)
    return torch.from_numpy(kept), torch.from_numpy((drawn("O_dropout_uniform", seed, b, features, time)
                                                     >= p).transpose(0, 2, 1))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_what_torch_makes_of_the_same_bits(p: float) -> None:
    for seed, sizes in ((0, {}), (-7, {"T": 1}), (2**40, {"T": 5, "B": 1})):
        x = given(p, seed, **sizes)
        want = plain(x, *masks(x, p, seed), p).numpy()
        meant = meaning(noise_free(), {key: a.numpy() for key, a in x.items()}, {})
        assert distance(meant["O"], want) < 1e-12
        for tiles in (None, (3, 4), (16, 5)):
            assert distance(emitted(tiles)(**x).numpy(), want) < 1e-12, tiles


@cache
def noise_free() -> Any:
    return typed(SPEC.text, "specs/attention_dropout.ein")


@cache
def emitted(tiles: Tiles | None) -> Any:
    source = source_of(SPEC)
    return load(cut(source, tiles) if tiles else source, plan_of(SPEC).name)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gpu_kernels_draw_the_same_bits(dtype: torch.dtype) -> None:
    p, source = 0.25, front.emit(plan_of(SPEC), "triton")
    exact = given(p, 2**33 + 9, B=1, H=2, T=19)
    want = plain(exact, *masks(exact, p, 2**33 + 9), p).numpy()
    x = {key: a if key == "seed" else a.to(dtype) for key, a in exact.items()}
    with interpreted():
        made = tiled(source, "attention_dropout", lambda kind, rows, columns: (16, 16, 4, 1))(**x)
    assert distance(made.double().numpy(), want) < (1e-9 if dtype == torch.float64 else 1e-4)


def test_one_pass_and_nothing_square() -> None:
    """The weights that are dropped are those of the numerator alone: the sum below it stays that of all."""
    body = source_of(SPEC).split("for s_from in")[1].split("Y_tile = ")[0]
    (dropped,) = re.findall(r"(\w+)\.masked_fill_?\(\w+ > _chance\(", body)
    assert f"{dropped}.sum(3)" in body and source_of(SPEC).count("for s_from in") == 1
    square = [b.name for b in plan_of(SPEC).buffers.values() if sum("T" in s.extent.sizes for s in b.sets) > 1]
    assert square == []


def test_the_mean_over_seeds_is_what_is_not_dropped() -> None:
    x = given(0.0, 0, T=6, B=1)
    x["X"] *= 0.5
    calm, total, square = emitted(None)(**x), 0.0, 0.0
    for seed in range(400):
        y = emitted(None)(**{**x, "p": torch.tensor(0.3, dtype=torch.float64), "seed": torch.tensor(seed)})
        total, square = total + y / 400, square + y**2 / 400
    spread = ((square - total**2) / 400).sqrt()
    assert ((total - calm).abs() < 4.5 * spread).all()


def test_random_data_drop_some_and_not_all() -> None:
    """`einc run` takes a rate for what chance is compared with."""
    sizes = "B=1,T=5,H=1,d_model=3,d_k=2"
    done = CliRunner().invoke(main, ["run", "attention_dropout", "--sizes", sizes, "--verify", "--repeat", "1"])
    assert done.exit_code == 0 and "ok" in done.output and "relative 0.00e+00" not in done.output


# what is said of it


@pytest.mark.parametrize(("wrong", "said"), [
    ("y_t = uniform(x_t)", "takes 2 arguments"),
    ("y_t = uniform(x_t, p)", "`p` is not always a whole number"),
    ("y_t = x_t hash(t, p)", "`p` is not always a whole number"),
    ("y_t = x_t hash(t)", "takes 2 arguments"),
    ("y_t = dropout(x_t, p, p)", "is not always a whole number"),
    ("y_t = x_t chance(n, 1)", "`n`"),
])
def test_lessons(wrong: str, said: str) -> None:
    report = Report()
    text = f"index t : time(T)\nindex n : batch(B)\ninput x_t, p\n{wrong}"
    assert check(Source("a.ein", text), report) is None
    assert said in "\n".join(map(render, report.problems))


def test_chance_in_a_called_spec_is_other_in_each_call_round_and_batch(tmp_path: Path) -> None:
    (tmp_path / "drop.ein").write_text(
        "index t : time(T)\ninput x_t, p\ninput seed : int\noutput y_t = dropout(x_t, p, seed)\n", encoding="utf-8")
    call = "drop(x = {}, p = p, seed = seed)"
    (tmp_path / "calls.ein").write_text(
        "index n : batch(B)\nindex t : time(T)\ninput x_{n t}, p\ninput seed : int\nh_{n t} = x_{n t}\n"
        f"for ℓ in 1..2:\n    h_{{n t}} ← h_{{n t}} + {call.format('h_{n t}')}\n"
        f"output a_{{n t}} = {call.format('x_{n t}')}\noutput b_{{n t}} = {call.format('x_{n t}')}\noutput h_{{n t}}\n",
        encoding="utf-8")
    given = {"x": np.ones((2, 64)), "p": np.array(0.5), "seed": np.array(3)}
    found = einc.interpret(tmp_path / "calls.ein", given)
    kept = [found["a"][0] > 0, found["a"][1] > 0, found["b"][0] > 0, found["h"][0] == 3]
    for at, one in enumerate(kept):
        assert 16 < one.sum() < 48
        assert not any((one == other).all() for other in kept[at + 1:])
    assert set(np.unique(found["h"])) == {1.0, 3.0, 9.0}, "the two rounds do not drop the same"
    module = einc.compile(tmp_path / "calls.ein")
    made = module(**{key: torch.from_numpy(value) for key, value in given.items()})
    for name, value in found.items():
        np.testing.assert_array_equal(getattr(made, name), value)
