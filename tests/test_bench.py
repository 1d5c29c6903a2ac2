"""The bench's machinery on tiny sizes: every way to do a case gives the same numbers; no time is asserted."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

import einc

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import cases, measure, record, report, rivals, starting
from bench.attention import Attention
from bench.case import CannotError, Case, Prepared, Sizes, make
from bench.cli import main
from bench.run import Plan, run, timed
from bench.shares import shares
from einc.driver.timing import clock, judge

TINY = {"B": 1, "H": 8, "G": 1, "T": 24, "S": 40, "D": 8, "W": 5, "P": 6, "F": 12, "V": 30, "R": 6}

NO_LIBRARY = ("softcap",)


def tiny(case: Case) -> Sizes:
    return {name: min(value, TINY[name]) for name, value in case.sizes(False)[0].items()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a compiler gets is run as it is, and the matrix product to compare with is
    small: the cases are what is tested."""
    def as_it_is(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        return function

    monkeypatch.setattr(torch, "compile", as_it_is)
    monkeypatch.setattr(measure, "GEMM", 64)
    monkeypatch.setattr(clock, "SAMPLE", 1e-4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", cases.BY_NAME)
def test_every_rival_does_every_case_or_says_why_not(name: str) -> None:
    case = cases.BY_NAME[name]
    task = make(case, tiny(case), "float64")
    ways = [rival for rival in rivals.RIVALS if rival.name != "flex"]
    found = {one.rival: one for one in timed(task, ways, rounds=1)}
    assert list(found) == [way.name for way in ways]
    assert {one.rival: one.note for one in found.values() if one.status not in ("ok", "cannot")} == {}
    cannot = {one.rival for one in found.values() if one.status == "cannot"}
    assert cannot - {"einc-own"} == {"einc-narrow", "einc-onednn"} | ({"library"} if name in NO_LIBRARY else set())
    right = [one for one in found.values() if one.status == "ok"]
    assert all(one.seconds and one.ratio and one.error is not None and one.error < 1e-12 for one in right)
    assert {one.reference for one in right} == {"eager" if name in NO_LIBRARY else "library"}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", ["causal", "alibi", "documents", "decode", "layer", "cross-entropy", "mla-decode"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_in_the_types_that_are_timed(name: str, dtype: str) -> None:
    case = cases.BY_NAME[name]
    found = timed(make(case, tiny(case), dtype), [rival for rival in rivals.RIVALS if rival.name != "flex"], rounds=1)
    assert [one.note for one in found if one.status not in ("ok", "cannot")] == []


@pytest.mark.parametrize("name", ["gqa", "prefix", "window", "decode", "cross-entropy", "mla-decode"])
def test_the_exact_answer_is_the_meaning_of_the_spec(name: str) -> None:
    case = cases.BY_NAME[name]
    sizes = tiny(case)
    task = make(case, sizes, "float64")
    arrays = {key: tensor.numpy() for key, tensor in task.tensors.items()}
    (meant,) = einc.interpret(case.spec, arrays, {key: sizes[key] for key in case.asks}).values()
    assert judge.relative_error(torch.from_numpy(meant), case.exact(task, case.rows(sizes))) < 1e-13


def test_some_rows_stand_for_many() -> None:
    case = cases.BY_NAME["window"]
    sizes = {"H": 1, "T": 3000, "D": 2, "W": 9}
    rows = case.rows(sizes)
    assert (int(rows[0]), int(rows[-1]), len(rows), len(set(rows.tolist()))) == (0, 2999, 512, 512)
    task = make(case, sizes, "float64")
    whole = rivals.BY_NAME["library"].prepare(task).call()
    assert judge.relative_error(case.picked(whole, rows), case.exact(task, rows)) < 1e-13
    assert case.flops(task) == 4 * 2 * (9 * 3000 - 36)


def test_packed_documents_are_sorted_and_fill_the_sequence() -> None:
    for length in (1, 19, 24, 2048):
        ids = cases.document_ids({"T": length})["doc"]
        assert ids.shape == (length,)
        assert ids[0] == 1
        assert bool((ids.diff() >= 0).all())


# what is not right


def _case(spec: str) -> Attention:
    return Attention("mine", "mine", spec, ({"H": 2, "T": 8, "D": 4},))


def test_a_wrong_result_is_told_and_not_timed() -> None:
    task = make(_case(cases.ALIBI), {"H": 2, "T": 8, "D": 4}, "float32")
    (one,) = timed(task, [rivals.BY_NAME["einc"]], rounds=1)
    assert (one.status, one.seconds) == ("wrong", None)
    assert "relative error" in one.note


def test_a_failing_rival_does_not_stop_the_others() -> None:
    task = make(_case("index t : time("), {"H": 2, "T": 8, "D": 4}, "float32")
    found = timed(task, [rivals.BY_NAME["einc"], rivals.BY_NAME["library"]], rounds=1)
    assert [one.status for one in found] == ["failed", "ok"]


def test_what_does_not_fit_the_machine_is_not_tried() -> None:
    task = make(cases.BY_NAME["causal"], {"H": 2, "T": 8, "D": 4}, "float32")
    huge = type(task)(task.case, {"H": 10**6, "T": 10**6, "D": 4}, "float32", task.tensors)
    for way in (task.case.eager, task.case.naive):
        with pytest.raises(CannotError, match="would need"):
            way(huge)


def test_errors_are_relative_and_nan_is_far_away() -> None:
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert judge.relative_error(exact * 1.01, exact) == pytest.approx(0.01)
    assert judge.relative_error(torch.tensor([3.0, math.nan]), exact) == math.inf
    assert judge.relative_error(torch.zeros(3), exact) == math.inf


# measuring


def test_rounds_are_interleaved_and_start_with_another_each() -> None:
    said: list[str] = []
    series = measure.interleaved({name: lambda: None for name in "abc"}, 3, tick=said.append)
    assert {name: len(times) for name, times in series.times.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(said)[:9] == "abcbcacab"
    assert measure.interleaved({}, 3).times == {}


def test_disturbed_rounds_are_run_again_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter(x for i in range(100) for x in (0.0, 5.0 if i in (0, 2) else 0.0))
    monkeypatch.setattr(clock, "busy_seconds", lambda: next(busy))
    said: list[str] = []
    assert measure.interleaved({"a": lambda: None}, 3, tick=said.append).disturbed == 0
    assert len(said) == 5
    monkeypatch.setattr(clock, "busy_seconds", iter(range(0, 10**6, 9)).__next__)
    assert measure.interleaved({"a": lambda: None}, 3).disturbed == 3


def test_the_ratio_is_taken_within_rounds() -> None:
    assert judge.ratio([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]) == 2.0


def test_peak_memory_is_that_of_the_call() -> None:
    measure.peak(lambda: torch.ones(10))
    found = measure.peak(lambda: torch.ones(2**24).sum())
    assert found is None or 64e6 <= found < 100e6
    held = Prepared(lambda: torch.ones(1), (torch.ones(5), torch.ones(3, dtype=torch.bool))).held_bytes
    assert held == 23


@pytest.mark.whole
def test_memory_is_measured_in_a_process_of_its_own() -> None:
    with measure.Memory() as memory:
        found = memory.of("causal", {"B": 1, "H": 2, "T": 512, "D": 64}, "float32", "eager")
        assert found is None or found > 512 * 512 * 2 * 4
    assert measure.memory_of("softcap", {"B": 1, "H": 2, "T": 8, "D": 4}, "float32", "library") is None


def test_process_time_counts_the_start() -> None:
    assert process_time_of("--version") > 0.01
    with pytest.raises(RuntimeError, match="einc check"):
        process_time_of("check", "specs/no_such_spec.ein")


def process_time_of(*words: str) -> float:
    return starting.process_seconds(words, os.environ)


def test_the_generated_spec_is_sound() -> None:
    text = starting.generated(13)
    assert einc.check(text) == []
    assert len([line for line in text.splitlines() if line.startswith("Z_")]) == 13


# records and reports


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.5])
def test_exponents_are_fitted_right(slope: float) -> None:
    sizes = [512.0 * 2**i for i in range(6)]
    assert report.exponent(sizes, [3e-7 * x**slope for x in sizes]) == pytest.approx(slope, abs=1e-9)
    noisy = [x**slope * (1.05 if i % 2 else 0.95) for i, x in enumerate(sizes)]
    assert report.exponent(sizes, noisy) == pytest.approx(slope, abs=0.05)


def test_no_exponent_where_there_is_none() -> None:
    assert report.exponent([512], [1.0]) is None
    assert report.exponent([512, 1024], [0, 0]) is None


def test_durations_are_in_the_unit_that_suits() -> None:
    assert [report.duration(x) for x in (12.3456, 0.0123456, 1.2e-5, None)] == ["12.3 s", "12.3 ms", "12 µs", ""]


def growth(spans: tuple[int, ...], rounds: int = 1) -> list[record.Row]:
    case = Attention("growth", "tiny", "sdpa", tuple({"B": 1, "H": 2, "T": span, "D": 4} for span in spans))
    plan = Plan([case], [rivals.BY_NAME["library"], rivals.BY_NAME["eager"]], ("float32", "bfloat16"), rounds=rounds,
                memory=False)
    return [record.Run().row("kernel", **one.shown()) for found in run(plan, lambda text: None) for one in found]


def test_a_run_becomes_json_lines_a_table_and_plots(tmp_path: Path) -> None:
    rows = growth((8, 16, 32))
    assert {row["dtype"] for row in rows} == {"float32"}, "the quick set shows growth in one type"
    file = tmp_path / "deep" / "kernels.jsonl"
    record.write(file, rows)
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert read == rows
    assert {"commit", "date", "machine", "load", "busy", "case", "sizes", "dtype", "rival", "seconds", "ratio",
            "error", "memory",
            "disturbed"} <= set(read[0])
    assert set(read[0]["machine"]) == {"cpu", "cores", "threads", "torch"}
    for row in read:
        row["memory"] = row["sizes"]["T"] ** 2
    console = Console(width=200, record=True, file=(tmp_path / "table.txt").open("w", encoding="utf-8"))
    console.print(report.table(read, report.caption(read)))
    grown = report.growth_table(read)
    assert grown is not None
    console.print(grown)
    told = console.export_text()
    assert "H2 T32 D4" in told
    assert "8…32" in told
    assert "2.00" in told
    pictures = report.plots(read, tmp_path)
    assert [picture.name for picture in pictures] == [f"growth-float32-{torch.get_num_threads()}.png"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_new_figures_take_the_place_of_old_ones(tmp_path: Path) -> None:
    file = tmp_path / "kernels.jsonl"
    same = {"kind": "kernel", "case": "causal", "sizes": {"T": 8}, "dtype": "float32", "seconds": 1.0}
    rows = [{**same, "rival": name} for name in "ab"]
    record.write(file, rows)
    record.write(file, [{**rows[0], "seconds": 2.0}, {**rows[0], "sizes": {"T": 9}}])
    found = [(row["rival"], row["sizes"]["T"], row["seconds"]) for row in record.read(file)]
    assert found == [("a", 8, 2.0), ("b", 8, 1.0), ("a", 9, 1.0)]


def test_a_rival_that_cannot_stands_in_the_table() -> None:
    figures = record.Figures("softcap", {"T": 8}, "float32", "library", "cannot", "has no function of the logits",
                             rounds=0)
    row = record.Run(load=9.0).row("kernel", **figures.shown())
    assert row["busy"]
    console = Console(width=200, record=True)
    console.print(report.table([row], report.caption([row])))
    told = console.export_text()
    assert "cannot: has no function of the logits" in told
    assert "the machine was busy" in told


def test_the_command(tmp_path: Path) -> None:
    words = ["--case", "decode", "--rival", "library", "--rival", "eager", "--dtype", "float32", "--no-memory",
             "--rounds", "1",
             "--patience", "0"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert len(record.read(tmp_path / "kernels.jsonl")) == 2
    again = CliRunner().invoke(main, ["report", "--out", str(tmp_path)])
    assert "decode" in again.output
    assert CliRunner().invoke(main, ["report", "--out", str(tmp_path / "none")]).exit_code == 1
    for asked in (["parse", "-h"], ["first-call", "-h"], ["-h"]):
        assert "--out" in CliRunner().invoke(main, asked).output


def test_the_shares_of_a_call_are_all_of_it() -> None:
    case = cases.BY_NAME["causal"]
    found = shares(make(case, tiny(case), "float32"), "einc-own")
    assert sum(share.part for share in found) == pytest.approx(1)
    assert {"bmm", "exp2_", "amax"} <= {share.operation for share in found}
    assert all(one.part >= other.part for one, other in itertools.pairwise(found))


def test_shares_of_what_a_rival_cannot_do() -> None:
    done = CliRunner().invoke(main, ["shares", "--case", "causal", "--rival", "einc-narrow"])
    assert done.exit_code == 1
    assert "einc-narrow cannot do causal in float32: it is for half types" in done.output
