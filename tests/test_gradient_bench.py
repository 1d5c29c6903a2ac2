"""`python -m bench gradients` on tiny sizes: every way gives the same gradients, and what is wrong is not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import einc
from einc.driver.timing import clock

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import footprint, gradients, measure, record
from bench.cli import main
from einc.driver.timing.judge import relative_error

KERNELS = [name for name, case in gradients.CASES.items() if len(case.quick) == 1]
TINY = {"B": 2, "H": 3, "T": 29, "D": 8, "W": 5}
LEARNED = {"slopes": "m", "table": "b"}


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


def tiny(name: str, dtype: str = "float32") -> gradients.Task:
    case = gradients.CASES[name]
    return gradients.make(case, {key: TINY[key] for key in case.quick[0]}, dtype)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_rivals_are_right_or_say_why_not(name: str, dtype: str) -> None:
    found = {one.rival: one for one in gradients.timed(tiny(name, dtype), ["library", "naive", "eager"], rounds=1)}
    assert {one.rival: one.note for one in found.values() if one.status in ("wrong", "failed")} == {}
    assert {one.rival for one in found.values()
            if one.status == "cannot"} == ({"library"} if name in LEARNED else set())
    assert all(one.seconds and one.ratio and one.error is not None for one in found.values() if one.status != "cannot")
    assert {one.reference for one in found.values() if one.seconds} == {"eager" if name in LEARNED else "library"}


@pytest.mark.parametrize("name", KERNELS)
def test_the_exact_answer_is_the_meaning_of_the_spec(name: str) -> None:
    """The result is the interpreter's; the gradients are those of all heads at once."""
    task = tiny(name, "float64")
    want = gradients.exact(task)
    assert list(want) == ["Y", "dQ", "dK", "dV", *(f"d{key}" for key in LEARNED.get(name, ""))]
    arrays = {key: tensor.numpy() for key, tensor in task.tensors.items() if key != gradients.ABOVE}
    (meant,) = einc.interpret(task.case.spec, arrays, {key: task.sizes[key] for key in task.case.asks}).values()
    assert relative_error(torch.from_numpy(meant), want["Y"]) < 1e-13
    dense = gradients.both(gradients.eager(task), task.tensors)()
    assert all(relative_error(dense[key], want[key]) < 1e-13 for key in want)


def test_flops_count_what_is_seen() -> None:
    assert gradients.CASES["causal"].flops({"B": 1, "H": 2, "T": 9, "D": 4}) == 14 * 2 * 4 * 45
    assert gradients.CASES["window"].flops({"B": 1, "H": 1, "T": 9, "D": 1, "W": 1}) == 14 * 9


def test_one_wrong_gradient_is_told_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *above: torch.Tensor) -> torch.Tensor:
            return 1.001 * above[0]

    def off(task: gradients.Task) -> gradients.Forward:
        right = gradients.eager(task)
        return lambda x: right({**x, "K": Twice.apply(x["K"])})

    monkeypatch.setitem(gradients.WAYS, "off", off)
    one, beside = gradients.timed(tiny("causal"), ["off", "eager"], rounds=1)
    assert (one.status, one.seconds, beside.status) == ("wrong", None, "ok")
    assert one.note.startswith("dK: ")


def test_a_failing_way_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: Exception) -> Callable[[gradients.Task], gradients.Forward]:
        def way(task: gradients.Task) -> gradients.Forward:
            raise error
        return way

    monkeypatch.setitem(gradients.WAYS, "lacks",
                        fails(NotImplementedError("has no backward on CPU. Please do something")))
    monkeypatch.setitem(gradients.WAYS, "fails", fails(ValueError("what\never")))
    found = gradients.timed(tiny("causal"), ["lacks", "fails", "library"], rounds=1)
    assert [one.status for one in found] == ["cannot", "failed", "ok"]
    assert [one.note for one in found] == ["has no backward on CPU", "ValueError: what", ""]


def test_memory_is_of_both_passes() -> None:
    found = gradients.memory_of("causal", {"B": 1, "H": 2, "T": 512, "D": 16}, "float32", "eager")
    assert found is None or found > 2 * 2 * 512 * 512 * 4


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = tuple({"B": 1, "H": 1, "T": T, "D": 4} for T in (8, 16, 32))
    for name, sizes in (("causal", grown[:1]), ("growth-causal", grown)):
        monkeypatch.setitem(gradients.CASES, name, gradients.Pass(name, name, "sdpa", sizes))
    asked = ["--case", "causal", "--case", "growth-causal", "--rival", "library", "--rival", "eager"]
    words = ["--no-memory", "--rounds", "1", "--patience", "0", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["gradients", *asked, *words])
    assert done.exit_code == 0, done.output
    rows = record.read(tmp_path / "gradients.jsonl")
    assert {row["kind"] for row in rows} == {"gradient"} and len(rows) == 2 * 2 + 2 * 3
    assert "8…32" in done.output and "H1 T8 D4" in done.output


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_derived_is_as_near_as_eager(name: str, dtype: str) -> None:
    (one,) = gradients.timed(tiny(name, dtype), ["einc"], rounds=1)
    assert (one.status, one.note) == ("ok", "")


def test_what_is_alive_is_counted() -> None:
    x = torch.ones(1000)
    assert footprint.alive(lambda: None) == 0
    assert 8000 <= footprint.alive(lambda: (x + 1) * 2 + x) < 9000


def test_memory_of_a_gradient_is_linear_in_its_length() -> None:
    """With so many heads a tile is short, and what is alive at the longer of two lengths is at most twice as much."""
    bytes_at = [footprint.alive(_called("causal", {"B": 1, "H": 64, "T": length, "D": 4})) for length in (512, 1024)]
    assert bytes_at[1] < 2.1 * bytes_at[0]


def _called(name: str, sizes: dict[str, int]) -> Callable[[], object]:
    task = gradients.make(gradients.CASES[name], sizes, "float32")
    model = einc.compile(task.case.spec, grad=True, own=True)
    call = gradients.both(lambda x: model(**x), task.tensors)
    call()
    return call


def test_the_command_of_memory(tmp_path: Path) -> None:
    words = ["memory", "--case", "causal", "--rival", "library", "--rival", "eager", "--longest", "2048", "--out",
             str(tmp_path)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    rows = record.read(tmp_path / "memory.jsonl")
    assert [(row["rival"], row["lengths"]) for row in rows] == [("library", [1024, 2048]), ("eager", [1024, 2048])]
    assert rows[0]["exponent"] < 1.2 < rows[1]["exponent"] and not any(map(footprint.steep, rows))
    assert footprint.steep({**rows[1], "rival": "einc"})
