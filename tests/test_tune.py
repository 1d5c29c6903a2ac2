"""Tuning: which tiles are tried, what is kept on disk and when it counts, the budget, and
the commands; no test times anything.

Kernels are stood for by ones that only note their starts, so nothing here needs a GPU or Triton's interpreter.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import KernelInterface

import einc
from einc.backends.host import cache, source
from einc.backends.host.source import Definition
from einc.backends.triton import record, tune
from einc.driver import back_ends, front
from einc.driver.cli import main
from einc.errors.report import EincError

SPEC = """index t, s : time(T)
index d : feature(D)
input Q_t^d, K_s^d, V_s^d
A_{t s} = softmax_{s ≤ t}(Q_t^d K_{s d})
Z_t^d = Σ_{s ≤ t} A_{t s} V_s^d
output Y_t^d = tanh(Z_t^d)
"""
LINEAR = ("index t : time(T)\nindex f : feature(F)\nindex d : feature(D)\ninput X_t^f\nweight W_f^d\noutput Y_t^d = "
          "X_t^f W_f^d\n")
Tile = tuple[int, int, int, int]


READY = Definition('def _ready(device, dtype):\n    """Nothing is asked."""', frozenset())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and none of the variables that a user may have set."""
    for name in ("EINC_SKIP_CACHE", "EINC_FORCE_AUTOTUNE", "EINC_AUTOTUNE_BUDGET_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EINC_CACHE_DIR", str(tmp_path / "cache"))
    usual = source.definition
    # The kernels here are fakes, which run anywhere.
    monkeypatch.setattr(source, "definition", lambda of, name: READY if name == "_ready" else usual(of, name))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


class Fake(KernelInterface):  # type: ignore[misc]
    """A kernel that notes the tiles it is started with, and refuses some of them."""

    def __init__(self, refuses: Callable[[Tile], bool]) -> None:
        self.started: list[Tile] = []
        self.refuses = refuses

    def run(self, *args: Any, grid: Any, warmup: bool, **constants: Any) -> None:
        del args, grid, warmup
        blocks = [n for name, n in constants.items() if name.startswith("BLOCK_")]
        tile = (blocks[-2] if len(blocks) > 1 else blocks[-1], blocks[-1], constants["num_warps"],
                constants["num_stages"])
        if self.refuses(tile):
            raise OutOfResources(300_000, 232_448, "shared memory")
        self.started.append(tile)


def faked(text: str = SPEC, refuses: Callable[[Tile], bool] = lambda tile: False) -> tuple[Any, dict[str, Any]]:
    """A loaded file whose kernels are fakes, and its names."""
    function = einc.compile(text, backend="triton", own=True).function
    space = record.emitted(function).space
    for name in record.emitted(function).kernels:
        space[name] = Fake(refuses)
    return function, space


def tensors(length: int = 256, width: int = 64, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(length, width, dtype=dtype) for name in "QKV"}


class Watch:
    """A measure by formula, which notes what it is asked; each answer takes a second on its clock."""

    def __init__(self, time: Callable[[record.Trial], float]) -> None:
        self.time, self.asked, self.now = time, list[tuple[str, Tile]](), 0.0

    def __call__(self, trial: record.Trial) -> float:
        self.asked.append((trial.key[0], trial.tile))
        self.now += 1.0
        trial()
        return self.time(trial)

    def clock(self) -> float:
        return self.now


def fewest_warps(trial: record.Trial) -> float:
    """Four warps and four stages are the best, by far."""
    return 100.0 + trial.tile[2] - trial.tile[3] * 10 + (50.0 if trial.tile != trial.candidates[0] else 90.0)


def run(function: Any, inputs: Mapping[str, Any], watch: Watch, **options: Any) -> tune.Tuning:
    found: tune.Tuning = tune.tune(function, inputs, measure=watch, clock=watch.clock, **{"budget": 1e9, **options})
    return found


# what is tried


def test_candidates_are_the_list_and_what_is_near_it() -> None:
    function, _ = faked()
    trials = record.survey(record.emitted(function), tensors(), {}, starting=False)
    (trial,) = trials.values()
    default, *others = trial.candidates
    assert trial.tile == default
    assert len(set(trial.candidates)) == len(trial.candidates) <= record.MOST
    assert {w for _, _, w, _ in others} == {4, 8}
    assert {s for *_, s in others} == {1, 2, 3, 4}
    assert all(r <= 256 and c <= 256 for r, c, *_ in others)


def test_a_survey_starts_nothing_and_leaves_no_trace() -> None:
    function, space = faked()
    before = dict(space)
    trials = record.survey(record.emitted(function), tensors(), {}, starting=False)
    assert trials
    assert space == before
    assert all(not k.started for k in space.values() if isinstance(k, Fake))


def test_what_does_not_fit_is_no_candidate() -> None:
    """Wider rows hold more: the bounds of the file are those of its defaults."""
    function, _ = faked()
    module = record.emitted(function)
    narrow, wide = (record.survey(module, tensors(256, width), {}, starting=False) for width in (16, 256))
    largest = [max(r * c for trial in found.values() for r, c, *_ in trial.candidates[:1]) for found in (narrow, wide)]
    assert largest[1] < largest[0]


@pytest.mark.parametrize(("over", "tried"), [(1.0, True), (1.19, True), (1.21, False)])
def test_an_estimate_keeps_no_tile_from_being_tried_that_is_a_little_beyond_it(over: float, tried: bool) -> None:
    """What a default may hold is an estimate; what may be tried is up to a fifth more."""
    def fitting(shapes: Any, *rest: Any, registers: Any, shared: Any) -> Any:
        del rest, shared
        return (tile for tile in shapes if registers(*tile[:3]) <= 1000)

    tiles = [(128, 128, 8, 2), (64, 64, 4, 2)]
    found = record.candidates(fitting, tiles[1], tiles, 256, 256, registers=lambda rows, *_: rows * 1000 * over / 128,
                              shared=lambda *_: 0)
    assert (tiles[0] in found) == tried and found[0] == tiles[1]


def test_what_spills_more_than_the_default_is_not_timed() -> None:
    """Kernels say how many registers found no place."""
    function, space = faked()
    for kernel in space.values():
        if isinstance(kernel, Fake):
            kernel.run = spilling(kernel.run)  # type: ignore[method-assign]
    seen: list[Tile] = []
    found = run(function, tensors(), Watch(lambda trial: seen.append(trial.tile) or 1.0))
    default = found.found[0].default
    assert default[2] == 8 or default in seen
    assert any("find no place" in note for note in found.notes)
    assert all(tile == default or tile[3] != 3 for tile in seen)


def spilling(usual: Callable[..., None]) -> Callable[..., SimpleNamespace]:
    """A way to run in which tiles of three stages spill."""
    def run_it(*args: Any, **named: Any) -> SimpleNamespace:
        usual(*args, **named)
        return SimpleNamespace(n_spills=7 * (named["num_stages"] == 3))

    return run_it


def test_points_have_no_stages_to_choose() -> None:
    function, _ = faked("index t : time(T)\ninput x_t\noutput y_t = tanh(x_t)\n")
    (trial,) = record.survey(record.emitted(function), {"x": torch.zeros(5000)}, {}, starting=False).values()
    assert {s for *_, s in trial.candidates} == {1}
    assert {w for _, _, w, _ in trial.candidates} == {4, 8}


# the search


def test_the_best_tile_is_written_into_the_table() -> None:
    function, space = faked()
    watch = Watch(fewest_warps)
    found = run(function, tensors(), watch)
    assert found.found
    for one in found.found:
        assert space["TILES"][one.key] == one.tile
        assert one.tile[2] == 4
        assert one.timed > 3
    assert any(one.ratio > 1 and one.tile != one.default for one in found.found)
    for kernel in (k for k in space.values() if isinstance(k, Fake)):
        kernel.started.clear()
    function(**tensors())
    started = [k.started[0] for k in space.values() if isinstance(k, Fake) and k.started]
    assert sorted(t[2:] for t in started) == sorted(one.tile[2:] for one in found.found)


def test_the_same_search_finds_the_same() -> None:
    found = []
    for _ in range(2):
        function, _ = faked()
        watch = Watch(fewest_warps)
        found.append((run(function, tensors(), watch), watch.asked))
        cache.clear()
    assert found[0] == found[1]


@pytest.mark.parametrize("gain", [0.0, 0.01])
def test_the_default_stays_on_ties(gain: float) -> None:
    function, _ = faked()
    found = run(function, tensors(), Watch(lambda trial: 1.0 if trial.tile == trial.candidates[0] else 1.0 - gain))
    assert all(one.tile == one.default and one.ratio == 1.0 for one in found.found)


def test_what_is_refused_is_left_out_with_a_note() -> None:
    function, _ = faked(refuses=lambda tile: tile[3] == 4)
    found = run(function, tensors(), Watch(fewest_warps))
    assert all(one.tile[3] < 4 for one in found.found)
    assert any("4 stages left out: out of resource: shared memory" in note for note in found.notes)


def test_a_default_that_is_refused_is_replaced() -> None:
    function, _ = faked(refuses=lambda tile: tile[3] >= 2)
    found = run(function, tensors(), Watch(fewest_warps))
    assert found.found
    assert all(one.tile[3] == 1 and one.default[3] == 1 for one in found.found)


def test_a_kernel_that_runs_with_no_tile_is_an_error() -> None:
    function, space = faked(refuses=lambda tile: True)
    with pytest.raises(EincError, match="runs with no tile on this device: out of resource"):
        run(function, tensors(), Watch(fewest_warps))
    assert space["TILES"] == {}


def test_the_budget_is_kept() -> None:
    function, _ = faked()
    watch = Watch(fewest_warps)
    found = run(function, tensors(), watch, budget=10.0)
    assert len(found.found) <= len(watch.asked) <= 10 + len(found.found)
    assert any("were timed in its share of the time" in note for note in found.notes)


def test_no_budget_times_the_defaults_alone() -> None:
    function, _ = faked()
    watch = Watch(fewest_warps)
    found = run(function, tensors(), watch, budget=0.0)
    assert len(watch.asked) == len(found.found)
    assert all(one.tile == one.default for one in found.found)


def test_the_time_goes_to_what_takes_longest() -> None:
    text = ("index t : time(T)\nindex d : feature(D)\ninput Q_t^d, V_t^d\noutput a_t = Σ_d exp(Q_t^d)\noutput b_t = "
            "max_d(V_t^d)\n")
    function, _ = faked(text)
    watch = Watch(lambda trial: 9.0 if trial.key[0].startswith("a") else 1.0)
    run(function, {"Q": torch.zeros(256, 300), "V": torch.zeros(256, 300)}, watch, budget=12.0)
    names = [name[0] for name, _ in watch.asked]
    assert names.count("a") > 2 * names.count("b") > 0


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_budget_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("EINC_AUTOTUNE_BUDGET_SECONDS", text)
    function, _ = faked()
    with pytest.raises(EincError, match=f"EINC_AUTOTUNE_BUDGET_SECONDS is `{text}`"):
        tune.tune(function, tensors(), measure=Watch(fewest_warps))


def test_the_budget_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINC_AUTOTUNE_BUDGET_SECONDS", "0")
    function, _ = faked()
    watch = Watch(fewest_warps)
    found = run(function, tensors(), watch, budget=None)
    assert len(watch.asked) == len(found.found)


def test_progress_reaches_its_end() -> None:
    function, _ = faked(refuses=lambda tile: tile[3] >= 3)
    told: list[tuple[str, int, int]] = []
    run(function, tensors(), Watch(fewest_warps), show=lambda *words: told.append(words), budget=20.0)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1] == told[-1][2]


def test_products_alone_have_nothing_to_tune() -> None:
    function, _ = faked(LINEAR)
    found = run(function, {"X": torch.zeros(8, 8), "W": torch.zeros(8, 8)}, Watch(fewest_warps))
    assert found == tune.Tuning(())
    source = einc.compile(LINEAR, backend="triton").source
    assert tune.baked(source, found.tiles) == source


PARTED = """
import torch
import triton


@torch.no_grad()
def parted(*, x):
    rows, columns, warps, stages = _tile("y", _POINTS, x.shape[0], 1, x.device, registers=lambda r, c: r, shared=lambda r, c, s: 0)
    parts = 2 if rows <= 64 else 1
    states = torch.empty(parts, rows)
    _y_kernel[(1,)](x, states, BLOCK_x=rows, PARTS=parts, num_warps=warps, num_stages=stages)
    if parts > 1:
        _y_join[(1,)](x, states, BLOCK_x=rows, PARTS=parts, num_warps=warps, num_stages=stages)
    return states


def _y_kernel():
    pass


def _y_join():
    pass


_POINTS = ((256, 1, 4, 1), (64, 1, 4, 1))
TILES = {}


def _padded(n):
    return 1 << max(0, n - 1).bit_length()


def _fitting(shapes, rows, columns, device, registers, shared):
    yield from shapes


def _tile(name, shapes, rows, columns, device, registers, shared):
    return TILES.get((name, _padded(rows), _padded(columns))) or shapes[0]
"""


def test_all_that_a_tile_starts_is_timed_with_it() -> None:
    """Where a tile has its pass shared by several programs, what joins their results is
    part of its time; its memory is its own."""
    function = front.load(PARTED, "parted", "triton")
    space = inspect.unwrap(function).__globals__
    space |= {"_y_kernel": Fake(lambda tile: False), "_y_join": Fake(lambda tile: False)}
    starts = {}

    def taken(trial: record.Trial) -> float:
        starts[trial.tile] = [start.name for start in trial.starts]
        assert all(start.values[1].shape == (start.constants["PARTS"], trial.tile[0]) for start in trial.starts)
        return 1.0

    run(function, {"x": torch.zeros(256)}, Watch(taken))
    assert starts[256, 1, 4, 1] == ["_y_kernel"]
    assert starts[64, 1, 8, 1] == ["_y_kernel", "_y_join"]


# what is kept


def test_what_is_kept_is_not_timed_again(home: Path) -> None:
    first = run(faked()[0], tensors(), Watch(fewest_warps))
    function, space = faked()
    watch = Watch(fewest_warps)
    second = run(function, tensors(), watch)
    assert watch.asked == []
    assert space["TILES"] == first.tiles == second.tiles
    assert all(one.cached for one in second.found)
    assert len(list(home.iterdir())) == len(first.found)


@pytest.mark.parametrize("other", [
    lambda: tensors(dtype=torch.float16), lambda: tensors(1000), lambda: tensors(width=48),
], ids=["type", "length", "width"])
def test_other_data_is_timed(other: Callable[[], dict[str, torch.Tensor]]) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    watch = Watch(fewest_warps)
    run(faked()[0], other(), watch)
    assert watch.asked


def test_lengths_of_one_bucket_are_timed_once() -> None:
    run(faked()[0], tensors(250), Watch(fewest_warps))
    watch = Watch(fewest_warps)
    run(faked()[0], tensors(256), watch)
    assert watch.asked == []


@pytest.mark.parametrize("part", ["torch", "triton", "einc"])
def test_another_version_is_timed(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    versions = tune.version
    monkeypatch.setattr(tune, "version", lambda name: "9.9" if name == part else versions(name))
    watch = Watch(fewest_warps)
    run(faked()[0], tensors(), watch)
    assert watch.asked


def test_another_device_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    monkeypatch.setattr(tune, "_machine", lambda where: {"device": "another"})
    watch = Watch(fewest_warps)
    run(faked()[0], tensors(), watch)
    assert watch.asked


def test_another_text_is_timed() -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    watch = Watch(fewest_warps)
    run(faked(SPEC.replace("tanh(Z_t^d)", "tanh(2 Z_t^d)"))[0], tensors(), watch)
    assert watch.asked


def test_the_text_of_a_kernel_is_its_own_and_its_helpers() -> None:
    source = einc.compile(SPEC, backend="triton", own=True).source
    module = record.emitted(faked()[0])
    assert module.source == source
    user = next(name for name in module.kernels if "_tanh(" in source.split(f"def {name}(")[1].split("@triton.jit")[0])
    plain = record.text_of(source, (user,))
    helper = source.replace("def _tanh(x):\n", "def _tanh(x):\n    x = x + 0\n")
    other = source.replace("def _expect(", "def _expected(")
    assert source not in (helper, other)
    assert record.text_of(helper, (user,)) != plain
    assert record.text_of(other, (user,)) == plain


@pytest.mark.drawn(2)
@pytest.mark.parametrize("damage",
                         ["", "{", "[]", "null", '{"key": {}, "value": 1}', '{"key": 1}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_ignored_and_written_anew(home: Path, damage: str) -> None:
    found = run(faked()[0], tensors(), Watch(fewest_warps))
    whole = {file: file.read_text(encoding="utf-8") for file in home.iterdir()}
    for file in whole:
        file.write_text(damage, encoding="utf-8")
    watch = Watch(fewest_warps)
    assert run(faked()[0], tensors(), watch) == found
    assert watch.asked
    assert {file: file.read_text(encoding="utf-8") for file in home.iterdir()} == whole


@pytest.mark.drawn(2)
@pytest.mark.parametrize("value", [
    None, 3, [], {}, {"tile": 3, "default": 4, "ratio": 1, "timed": 1},
    {"tile": [7, 7, 4, 1], "default": [7, 7, 4, 1], "ratio": 1, "timed": 1},
    {"tile": ["a"] * 4, "default": [], "ratio": 1, "timed": 1},
    {"tile": [[1]] * 4, "default": [], "ratio": 1, "timed": 1},
    {"tile": [], "default": [], "ratio": "x", "timed": 1},
    {"tile": [], "default": [], "ratio": 1, "timed": float("inf")},
])
def test_a_value_that_tuning_does_not_write_is_ignored(home: Path, value: object) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    for file in home.iterdir():
        found = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**found, "value": value}), encoding="utf-8")
    assert tune.kept(faked()[0], tensors()).found == ()


def test_a_cache_that_is_skipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINC_SKIP_CACHE", "1")
    run(faked()[0], tensors(), Watch(fewest_warps))
    assert not home.exists()
    monkeypatch.setenv("EINC_SKIP_CACHE", "0")
    run(faked()[0], tensors(), Watch(fewest_warps))
    monkeypatch.setenv("EINC_SKIP_CACHE", "1")
    watch = Watch(fewest_warps)
    run(faked()[0], tensors(), watch)
    assert watch.asked


def test_tuning_that_is_forced_replaces_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    monkeypatch.setenv("EINC_FORCE_AUTOTUNE", "1")
    found = run(faked()[0], tensors(), Watch(lambda trial: 1.0))
    assert all(one.tile == one.default for one in found.found)
    assert tune.kept(faked()[0], tensors()).tiles == found.tiles


def test_a_folder_that_cannot_be_written_in(home: Path) -> None:
    home.write_text("a file")
    found = run(faked()[0], tensors(), Watch(fewest_warps))
    assert found.found
    assert str(home) in found.lost


def test_a_write_that_fails_leaves_no_half(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write({"a": 1}, "first")

    def full(*names: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        cache.write({"a": 1}, "second")
    assert len(list(home.iterdir())) == 1
    assert cache.read({"a": 1}) == "first"


def test_what_was_found_before_an_interrupt_is_kept(home: Path) -> None:
    text = ("index t : time(T)\nindex d : feature(D)\ninput Q_t^d, V_t^d\noutput a_t = Σ_d exp(Q_t^d)\noutput b_t = "
            "max_d(V_t^d)\n")
    inputs = {"Q": torch.zeros(256, 300), "V": torch.zeros(256, 300)}

    def interrupted(trial: record.Trial) -> float:
        if trial.key[0] == "b" and trial.tile != trial.candidates[0]:
            raise KeyboardInterrupt
        return 9.0 if trial.key[0] == "a" else 1.0

    with pytest.raises(KeyboardInterrupt):
        run(faked(text)[0], inputs, Watch(interrupted))
    assert len(list(home.iterdir())) == 1
    assert tune.kept(faked(text)[0], inputs).missing == ("b",)


def test_two_keys_of_one_file_are_two(home: Path) -> None:
    cache.write({"a": 1}, "one")
    (file,) = home.iterdir()
    file.write_text(file.read_text().replace('"a": 1', '"a": 2'))
    assert cache.read({"a": 1}) is None


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="these have folders of their own")
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.folder() == Path(os.environ["EINC_CACHE_DIR"])
    monkeypatch.delenv("EINC_CACHE_DIR")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.folder() == Path("/caches/einc")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache.folder() == Path("/home/someone/.cache/einc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.folder() == Path("/home/someone/.cache/einc")


# the front door


def test_without_tuning_the_cache_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    run(faked()[0], tensors(), Watch(fewest_warps))
    monkeypatch.setattr(cache, "read", lambda key: pytest.fail("the cache was read"))
    function, space = faked()
    function(**tensors())
    assert space["TILES"] == {}


def test_a_tuned_function_tunes_at_the_first_call_of_each_shape() -> None:
    function, space = faked()
    watch = Watch(fewest_warps)
    tuned = tune.Tuned(function, measure=watch, clock=watch.clock)
    tuned(**tensors())
    asked = len(watch.asked)
    assert asked
    table = dict(space["TILES"])
    tuned(**tensors())
    assert len(watch.asked) == asked
    tuned(**tensors(dtype=torch.float16))
    assert len(watch.asked) > asked
    asked = len(watch.asked)
    tuned(**tensors())
    assert (len(watch.asked), space["TILES"]) == (asked, table)


@pytest.mark.parametrize("variable", ["EINC_SKIP_CACHE", "EINC_FORCE_AUTOTUNE"])
def test_a_tuned_function_times_a_bucket_once(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A sequence that grows by one at each call is of one bucket for long, whatever is on disk."""
    monkeypatch.setenv(variable, "1")
    watch = Watch(fewest_warps)
    tuned = tune.Tuned(faked()[0], measure=watch, clock=watch.clock)
    tuned(**tensors(250))
    asked = len(watch.asked)
    for length in (251, 252, 256):
        tuned(**tensors(length))
    assert len(watch.asked) == asked
    tuned(**tensors(257))
    assert len(watch.asked) > asked


def test_the_tiles_of_one_type_are_not_those_of_another() -> None:
    """The table goes by sizes; calls of two types in turn have each their own."""
    function, space = faked()
    watch = Watch(lambda trial: float(trial.tile[3] if "fp16" in str(trial.marks()) else 9 - trial.tile[3]))
    tuned = tune.Tuned(function, measure=watch, clock=watch.clock, budget=1e9)
    tables = {}
    for dtype in (torch.float16, torch.float32, torch.float16, torch.float32):
        tuned(**tensors(dtype=dtype))
        assert tables.setdefault(dtype, space["TILES"]) == space["TILES"]
    assert tables[torch.float16] != tables[torch.float32]


def test_a_tuned_function_warns_where_nothing_is_kept(home: Path) -> None:
    home.write_text("a file")
    watch = Watch(fewest_warps)
    with pytest.warns(UserWarning, match="is lost after this process"):
        tune.Tuned(faked()[0], measure=watch, clock=watch.clock)(**tensors())


def test_compile_tunes_where_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    made = einc.compile(SPEC, backend="triton", own=True, tune=True)
    with pytest.raises(EincError, match="there is none here"):
        made(**tensors())
    monkeypatch.setattr(tune, "device", lambda: torch.device("cuda"))
    with pytest.raises(EincError, match="the tensors are on cpu"):
        made(**tensors())
    with pytest.raises(ValueError, match="axes are expected"):
        made(**{**tensors(), "Q": torch.zeros(3)})
    run(faked()[0], tensors(), Watch(fewest_warps))
    for name in (kernels := record.emitted(made).kernels):
        record.emitted(made).space[name] = Fake(lambda tile: False)
    assert kernels
    made(**tensors())  # What is kept needs no GPU to be found.
    assert record.emitted(made).space["TILES"]


def test_a_back_end_without_tiles() -> None:
    with pytest.raises(EincError, match="`auto` has nothing to tune"):
        einc.compile(SPEC, tune=True)


def test_a_baked_file_has_its_tiles() -> None:
    found = run(faked()[0], tensors(), Watch(fewest_warps))
    text = tune.baked(einc.compile(SPEC, backend="triton", own=True).source, found.tiles)
    function = front.load(text, einc.compile(SPEC, backend="triton", own=True).plan.name, "triton")
    assert record.emitted(function).space["TILES"] == found.tiles


# the commands


@pytest.fixture
def spec(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file to tune, on a machine whose GPU times by formula."""
    del home
    Path("one.ein").write_text(SPEC, encoding="utf-8")
    monkeypatch.setattr(tune, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(tune, "_timeable", lambda trials: None)
    monkeypatch.setattr(tune, "bench", fewest_warps)
    load = back_ends.load

    def loaded(source: str, name: str, backend: str = "torch") -> Any:
        function = load(source, name, backend)
        for kernel in record.emitted(function).kernels:
            record.emitted(function).space[kernel] = Fake(lambda tile: False)
        return function

    monkeypatch.setattr(back_ends, "load", loaded)
    return "one.ein"


def einc_(*args: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


def test_the_command_tunes_and_says_what_it_keeps(spec: str, home: Path) -> None:
    said = einc_("tune", spec, "--sizes", "T=256,D=64", "--own").stdout
    assert "\nY       256 × 256  " in said
    assert "4 warps, 4 stages" in said
    assert f"cache  {home}" in said
    assert "EINC_FORCE_AUTOTUNE=1" in said
    assert "kept" in einc_("tune", spec, "--sizes", "T=256,D=64", "--own").stdout.split("cache ")[0]


def test_compile_tuned_bakes_what_is_kept(spec: str) -> None:
    options = ["--sizes", "T=256,D=64", "--own"]
    said = einc_("compile", spec, "--backend", "triton", "--tuned", *options, status=1).stderr
    assert "no tile is kept for" in said
    assert "run `einc tune one.ein`" in said
    einc_("tune", spec, *options)
    text = einc_("compile", spec, "--backend", "triton", "--tuned", *options).stdout
    assert "4, 4),\n}" in text.split("TILES = {")[1]
    einc_("compile", spec, "--backend", "triton", "--tuned", *options, "--dtype", "bfloat16", status=1)


def test_the_command_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (["tune", "gqa"], ["compile", "gqa", "--backend", "triton", "--tuned"]):
        said = einc_(*command, status=1).stderr
        assert said.startswith("error: tuning times kernels on a GPU, and there is none here\nhelp: ")


def test_the_errors_of_the_commands(spec: str, home: Path) -> None:
    assert "no such file" in einc_("tune", "nope.ein", status=1).stderr
    assert "`Z` is no size" in einc_("tune", spec, "--sizes", "Z=3", status=1).stderr
    assert "--sizes is for --tuned" in einc_("compile", spec, "--sizes", "T=3", status=1).stderr
    assert "`torch` has nothing to tune" in einc_("compile", spec, "--tuned", status=1).stderr
    assert "not one of" in einc_("cache", "burn", status=2).stderr
    home.write_text("a file")
    assert "could not be kept" in einc_("tune", spec, "--own", status=1).stderr


def test_what_the_module_refuses_is_told(spec: str) -> None:
    del spec
    Path("rows.ein").write_text("index t : time(T)\nindex v : vocab(0..V-1)\nindex d : feature(D)\ninput w_t : "
                                "int\nweight E_v^d\n"
                                "output y_t^d = tanh(E_{w_t}^d)\n", encoding="utf-8")
    np.savez("rows.npz", w=np.array([1, 9]), E=np.zeros((3, 2), dtype=np.float32))
    for command in (["tune", "rows.ein"], ["compile", "rows.ein", "--backend", "triton", "--tuned"]):
        said = einc_(*command, "--data", "rows.npz", status=1).stderr
        assert said == "error: the module refused or failed: w holds values from 1 to 9, 0 to 2 are expected\n"


def test_a_spec_without_kernels(spec: str) -> None:
    del spec
    Path("linear.ein").write_text(LINEAR, encoding="utf-8")
    assert "there is nothing to tune" in einc_("tune", "linear.ein").stdout
    assert "TILES" not in einc_("compile", "linear.ein", "--backend", "triton", "--tuned").stdout


def test_the_cache_is_listed_and_cleared(spec: str, home: Path) -> None:
    assert f"0 tiles in {home}" in einc_("cache").stdout
    einc_("tune", spec, "--sizes", "T=256,D=64", "--own")
    count = len(list(home.iterdir()))
    (home / "mine.txt").write_text("not a tile")
    (home / "tile-broken.json").write_text("{")
    said = einc_("cache", "list").stdout
    assert f"torch {torch.__version__}" in said
    assert "tile-broken.json" in said
    assert f"{count + 1} tiles in {home}" in said
    assert f"{count + 1} tiles cleared" in einc_("cache", "clear").stdout
    assert [file.name for file in home.iterdir()] == ["mine.txt"]


# with real kernels, as Triton's interpreter runs them

INTERPRETED = """
import sys
import torch, einc
from einc.backends.triton import tune
made = einc.compile(sys.argv[1], backend="triton", own=True)
torch.manual_seed(0)
inputs = {name: torch.randn(20, 8) for name in "QKV"}
wanted = einc.compile(sys.argv[1], own=True)(**inputs)
ticks = iter(range(1000))
found = tune.tune(made, inputs, measure=lambda trial: trial() or sum(trial.tile), clock=lambda: next(ticks), budget=12)
assert any(one.tile != one.default for one in found.found), found
torch.testing.assert_close(made(**inputs), wanted, rtol=1e-5, atol=1e-5)
print(len(found.found))
"""


@pytest.mark.whole
def test_tuned_kernels_mean_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", INTERPRETED, SPEC], capture_output=True, text=True, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
