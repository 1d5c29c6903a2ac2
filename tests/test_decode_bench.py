"""`python -m bench decode` on tiny sizes: every way takes the right step, and what is wrong is not timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from cpp_texts import NEEDED

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import decode, record
from bench.cli import main
from bench.shares import shares_of
from einc.driver.timing import clock

TINY = {**{name: {"B": 2, "H": 4, "G": 2, "S": 9, "D": 8} for name in ("grouped", "codes")},
        "sage": {"S": 24, "N": 6, "P": 4, "H": 2, "d_k": 8},
        "weights": {"B": 2, "S": 5, "H": 4, "G": 2, "d_k": 6, "N": 3, "P": 4, "C": 5},
        "latents": {"S": 9, "H": 3, "d_model": 16, "r": 8, "r_Q": 12, "d_h": 6, "d_k": 4}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "SAMPLE", 1e-4)
    monkeypatch.setattr(decode, "READ", 2**10)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tiny(name: str, dtype: str) -> decode.Task:
    case = decode.CASES[name]
    return decode.Task(case, TINY[name], dtype,
                       *case.make(TINY[name], decode.DTYPES[dtype], torch.Generator().manual_seed(0)))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", decode.CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_way_is_right(name: str, dtype: str) -> None:
    task = tiny(name, dtype)
    found = decode.timed(task, task.case.ways, rounds=1)
    assert {one.rival for one in found} == set(task.case.ways)
    assert {one.rival: one.note for one in found if one.status == "wrong"} == {}
    assert all(one.seconds and one.bandwidth and one.part and one.limit for one in found)
    assert all(set(one.ratios) == set(task.case.ways) - {one.rival} for one in found)


def test_a_cache_that_is_wrong_is_not_timed() -> None:
    def shorter(*given: object) -> object:
        cache = decode.contiguous(*given)  # type: ignore[arg-type]
        cache.kept["K"].store = cache.kept["K"].store.flip(2)
        return cache

    task = tiny("grouped", "float32")
    (one,) = decode.timed(task, {"einc": decode.stepped(decode.GROUPED, shorter)}, rounds=1)
    assert one.status == "wrong" and one.seconds is None


@NEEDED
def test_a_compiled_kernel_has_a_share_of_its_own() -> None:
    """A kernel is no operation of torch, and takes nearly all of a step over a long cache."""
    case, sizes = decode.CASES["grouped"], {"B": 1, "H": 16, "G": 2, "S": 20000, "D": 64}
    task = decode.Task(case, sizes, "float32", *case.make(sizes, torch.float32, torch.Generator().manual_seed(0)))
    call = case.ways["einc-cpp"](task)
    found = shares_of(call)
    assert found[0].operation.startswith("einc::k") and found[0].part > 0.5 and found[0].runs == 1
    assert sum(one.part for one in found) == pytest.approx(1)
    assert decode.limit(call).startswith("einc::k")


def test_the_command_writes_rows_that_the_report_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = replace(decode.CASES["grouped"], sizes=lambda B, S: {**TINY["grouped"], "B": B, "S": S})
    monkeypatch.setitem(decode.CASES, "grouped", case)
    words = ["decode", "--case", "grouped", "--length", "5", "--batch", "1", "--dtype", "float32", "--rounds", "1"]
    done = CliRunner().invoke(main, [*words, "--patience", "0", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = record.read(tmp_path / "decode.jsonl")
    assert [row["rival"] for row in rows] == list(case.ways) and "library-rows" in done.output
