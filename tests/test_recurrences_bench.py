"""`python -m bench recurrences` on tiny sizes: every contender is right, and what is wrong or slow is not timed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import einc
from einc.driver.timing import clock

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import record, recurrences, recurrent
from bench.cli import main
from einc.driver.timing.judge import relative_error

TINY = {"T": 70, "H": 2, "d": 4}
NAMES = list(recurrences.CASES)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a compiler gets is run as it is: the chunks are what is tested."""
    def as_it_is(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        return function

    monkeypatch.setattr(torch, "compile", as_it_is)
    monkeypatch.setattr(clock, "SAMPLE", 1e-4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", NAMES)
def test_the_loop_is_the_meaning_of_the_text(name: str) -> None:
    case = recurrences.CASES[name]
    data = case.data({**TINY, "T": 5}, torch.float64)
    (meant,) = einc.interpret(case.text, {key: x.numpy() for key, x in data.items()}).values()
    assert relative_error(torch.from_numpy(meant), recurrent.LOOPS[name](data)) < 1e-13


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [64, 32])
def test_chunks_are_the_loop(name: str, size: int) -> None:
    """Where gates have no bound, also with gates that no float32 divides by."""
    case = recurrences.CASES[name]
    strong = case if name == "rwkv7" else replace(case, gate=lambda x: 40 * case.gate(x))
    for one in (case, strong):
        data = one.data(TINY, torch.float64)
        assert relative_error(recurrent.chunked(name, size)(data), recurrent.LOOPS[name](data)) < 1e-12
        single = {key: x.float() for key, x in data.items()}
        assert relative_error(recurrent.chunked(name, size)(single), recurrent.LOOPS[name](data)) < 1e-5


def test_what_is_wrong_slow_or_broken_is_told_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> recurrent.Layer:
        raise ValueError("what\never")

    monkeypatch.setattr(recurrences, "PATIENCE", 0.2)
    monkeypatch.setattr(recurrences, "CHECKED", 9)
    monkeypatch.setitem(recurrences.WAYS, "off", lambda name: lambda x: 1.001 * recurrent.LOOPS[name](x))
    monkeypatch.setitem(recurrences.WAYS, "slow", lambda name: lambda x: time.sleep(1))
    monkeypatch.setitem(recurrences.WAYS, "fails", fails)
    found = recurrences.timed(recurrences.CASES["gla"], {**TINY, "T": 8}, ["off", "slow", "fails", "loop"], rounds=1)
    assert [one.status for one in found] == ["wrong", "cannot", "failed", "ok"]
    assert [one.note for one in found][1:] == ["takes over 0.2 s to its first result", "ValueError: what", ""]
    assert [one.seconds is None for one in found] == [True, True, True, False]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "CHECKED", 67)
    words = ["--sizes", "H=1,d=4", "--length", "9", "--length", "70", "--rounds", "1", "--patience", "0",
             "--cases", "gated_delta", "--cases", "ssd", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["recurrences", *words])
    assert done.exit_code == 0, done.output
    rows = record.read(tmp_path / "recurrences.jsonl")
    assert {(row["kind"], row["status"]) for row in rows} == {("recurrence", "ok")}
    assert len(rows) == 2 * 2 * len(recurrences.WAYS)
    assert all(row["seconds"] and row["ratio"] and row["error"] < 1e-5 and "load" in row for row in rows)
    assert {row["reference"] for row in rows} <= set(recurrent.RIVALS)
    assert "9…70" in done.output and "time / best rival's" in done.output


@pytest.mark.whole
def test_every_contender_of_a_case_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        found = recurrences.timed(recurrences.CASES[name], TINY, list(recurrences.WAYS), rounds=1)
        assert {one.rival: one.note for one in found if one.status != "ok"} == {}
