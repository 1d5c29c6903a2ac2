"""`einc bench`: a spec beside other ways to compute it. Nothing here looks at how long anything took."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from bench import repeat
from einc.driver import checking
from einc.driver.cli import main
from einc.driver.commands import measure
from einc.driver.timing import clock, growth
from einc.driver.timing import contest as contests
from einc.driver.timing.contest import Setting, checked_at, contest
from einc.driver.timing.rivals import Rival, rivals

SIZES = {"B": 1, "H": 2, "T": 24, "d_k": 8}
SETTING = Setting(SIZES, "float32", 0, "cpu", False, lambda: None)


def einc_(*args: str, status: int = 0) -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == status, result.output
    return result


def test_ways_take_turns_and_a_first_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round begins with another way; the clock is one that goes on by a second whenever it is read."""
    ran, now = list[str](), count()
    monkeypatch.setattr(clock.time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(clock, "busy_seconds", lambda: None)
    found = clock.interleaved({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, 2)
    assert ran == ["a", "b", "a", "b", "b", "a"]
    assert found == clock.Series({"a": [1.0, 1.0], "b": [1.0, 1.0]}, 0)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 20, 35])
def test_an_interval_claims_what_a_count_of_orders_gives(count: int) -> None:
    """The rate by drawing orders: which of the rounds of two runs are whose is all that it depends on."""
    draw, trials = random.Random(count), 4000
    found = clock.spread(range(count))
    assert found.low + found.high == count - 1 and found.middle == (count - 1) / 2
    hits = 0
    for _ in range(trials):
        values = draw.sample(range(10 * count), 2 * count)
        one = clock.spread(values[:count])
        hits += one.low <= clock.spread(values[count:]).middle <= one.high
    slack = 4 * (0.25 / trials) ** 0.5
    assert hits / trials >= found.rate - slack
    assert count % 2 == 0 or hits / trials <= found.rate + slack, "with an odd count the rate is exact"
    assert found.rate >= 0.95 or (found.low, found.high) == (0, count - 1)


def normal(draw: random.Random) -> float:
    return abs(draw.gauss(1.0, 0.05)) + 0.01


NOISE: dict[str, Callable[[random.Random], float]] = {
    "even": normal, "with a long tail": lambda draw: 0.02 * draw.paretovariate(1.2),
    "of two kinds": lambda draw: draw.choice((1.0, 1.6)) * normal(draw),
}


@pytest.mark.parametrize("drifts", [False, True], ids=["as fast throughout", "a machine that changes its speed"])
@pytest.mark.parametrize("noise", NOISE)
def test_another_run_agrees_as_often_as_the_interval_claims(noise: str, drifts: bool,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of runs on a clock whose calls take drawn times. Where the machine slows down and recovers from round to
    round, all ways meet it alike: the speeds agree still, and times that such runs give are not claimed to.
    """
    draw, now, pace, trials = random.Random(noise), [0.0], [1.0], 300
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clock, "busy_seconds", lambda: None)

    def takes(factor: float) -> None:
        now[0] += factor * NOISE[noise](draw) * pace[0]

    def a() -> None:
        pace[0] = max(0.3, pace[0] * draw.choice((0.8, 1.25))) if drifts else 1.0
        takes(1.0)

    def run() -> tuple[clock.Spread, clock.Spread]:
        times = clock.interleaved({"a": a, "b": lambda: takes(3.0)}, 9).times
        return clock.spread(times["b"]), clock.spread([y / x for x, y in zip(times["a"], times["b"], strict=True)])

    pairs = [(run(), run()) for _ in range(trials)]
    shares = [sum(one[n].low <= other[n].middle <= one[n].high for one, other in pairs) / trials for n in (0, 1)]
    slack = 3 * (0.97 * 0.03 / trials) ** 0.5
    assert shares[1] >= pairs[0][0][1].rate - slack - 0.02 * drifts
    assert (shares[0] >= pairs[0][0][0].rate - slack) == (not drifts)


def test_speeds_are_those_of_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that changes its speed from round to round leaves the speed of a way as it is."""
    rounds = {"eager": [1.0, 4.0, 2.0], "torch": [2.0, 8.0, 4.0]}
    monkeypatch.setattr(contests, "interleaved", lambda calls, count, tick: clock.Series(rounds, 0))
    program = checking.typed("sdpa")
    found = contest(program, rivals(program, ("eager",), ("torch",), False), SETTING, 3)
    assert [one.speed and (one.speed.middle, one.speed.low, one.speed.high) for one in found] == [
        (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)]
    assert [one.time and one.time.middle for one in found] == [2.0, 4.0]


def test_the_agreement_of_runs_is_that_of_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `python -m bench repeat` prints, of pages as `einc bench --json` prints them."""
    def page(middle: float, low: float, high: float) -> dict[str, Any]:
        one = {"middle": middle, "low": low, "high": high, "rate": 0.97}
        return {"ways": [{"name": "a", "time": one, "speed": {**one, "low": 0.0}}, {"name": "b", "time": None}]}

    (found,) = repeat.agreement([page(1.0, 0.9, 1.1), page(1.05, 1.02, 1.2), page(1.2, 1.0, 1.3)])
    assert (found.name, round(found.times * 6), round(found.speeds * 6), found.claimed) == ("a", 4, 5, 0.97)
    assert found.apart == pytest.approx(0.2)
    assert repeat.lines([found])[1].split() == ["a", "67%", "83%", "97%", "20.0%"]
    words = ["sdpa", "--sizes", "B=1,H=2,T=16,d_k=4", "--against", "eager", "--backend", "torch", "--rounds", "1"]
    monkeypatch.setattr(repeat.subprocess, "run", lambda words, **_: SimpleNamespace(
        returncode=0, stdout=einc_(*words[3:]).stdout, stderr=""))
    assert [one.name for one in repeat.agreement(repeat.run(words, 2))] == ["eager", "torch"]


@pytest.mark.parametrize("grad", [False, True])
def test_every_way_is_checked_and_those_that_are_right_are_timed(grad: bool) -> None:
    program = checking.typed("sdpa")
    right = rivals(program, ("eager", "library"), ("torch",), grad)
    assert right[0].function is not None
    wrong = Rival("wrong", lambda **given: right[0].function(**given) * 1.01)  # type: ignore[misc]
    fails = Rival("fails", lambda **given: 1 / 0)
    setting = Setting(SIZES, "float32", 0, "cpu", grad, lambda: None)
    ways = [*right, wrong, fails, Rival("none", None, "a reason")]
    found = {one.name: one for one in contest(program, ways, setting, 1)}
    assert {name: one.status for name, one in found.items()} == {
        "eager": "ok", "library": "ok", "torch": "ok", "wrong": "wrong", "fails": "cannot", "none": "cannot"}
    assert {name for name, one in found.items() if one.time is not None} == {"eager", "library", "torch"}
    assert all(one.time.low <= one.time.middle <= one.time.high for one in found.values() if one.time is not None)
    assert (found["none"].why, found["fails"].why) == ("a reason", "division by zero")
    assert "bound" in found["wrong"].why


def test_a_wrong_gradient_of_a_right_result_is_wrong() -> None:
    program = checking.typed("sdpa")
    (eager,) = rivals(program, ("eager",), (), True)

    def cut(**given: torch.Tensor) -> torch.Tensor:
        assert eager.function is not None
        return eager.function(**{**given, "V": given["V"] * 2 - given["V"].detach()})  # type: ignore[no-any-return]

    setting = Setting(SIZES, "float32", 0, "cpu", True, lambda: None)
    assert [one.status for one in contest(program, [eager, Rival("cut", cut)], setting, 1)] == ["ok", "wrong"]


def test_large_sizes_are_checked_with_fewer_positions() -> None:
    program, large = checking.typed("sdpa"), {**SIZES, "T": 2**20}
    small = checked_at(program, large)
    assert small["T"] < large["T"]
    assert {**small, "T": 0} == {**large, "T": 0}
    assert checked_at(program, SIZES) == SIZES


@pytest.mark.skipif(measure.free() is None, reason="the system does not say how much memory is free")
def test_what_does_not_fit_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each way by what it takes of fewer positions: one that has a number for each pair of them, and one that
    has not; and where the inputs themselves are too many.
    """
    program, most = checking.typed("sdpa"), list[int]()
    small, large = ({"B": 1, "H": 2, "T": n, "d_k": 8} for n in (24, 2**19))

    def pairs(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        most.append(Q.shape[2])
        logits = (Q @ K.mT / 8**0.5).masked_fill_(torch.ones(2 * (Q.shape[2],), dtype=torch.bool).triu(1), -torch.inf)
        return logits.softmax(-1) @ V

    (rows,) = rivals(program, ("sdpa",), (), False)
    ways = [Rival("pairs", pairs), rows]
    assert [contests._too_large(program, way, replace(SETTING, sizes=small)) for way in ways] == ["", ""]
    taken = [contests._too_large(program, way, replace(SETTING, sizes=large)) for way in ways]
    assert "it would take about" in taken[0] and "GB are free" in taken[0] and taken[1] == ""
    assert max(most) < 2**13
    monkeypatch.setattr(measure, "free", lambda: 10**6)
    assert "it would take about" in contests._too_large(program, rows, replace(SETTING, sizes=large))
    monkeypatch.undo()
    monkeypatch.setattr(contests, "_too_large", lambda program, way, setting: "too large" * (way.name == "pairs"))
    told = contest(program, ways, SETTING, 1)
    assert [(one.status, one.why) for one in told] == [("cannot", "too large"), ("ok", "")]


def test_what_is_no_number_is_said_so() -> None:
    program = checking.typed("sdpa")
    (one,) = contest(program, [Rival("nan", lambda **given: given["Q"] * torch.nan)], SETTING, 1)
    assert (one.status, one.error) == ("wrong", None) and "not a number" in one.why


@pytest.mark.parametrize("grad", [False, True])
def test_where_an_extent_is_nothing_torch_compiles_nothing(grad: bool) -> None:
    """Its kernels divide by extents, which ends the process; what is written in torch is run."""
    program, setting = checking.typed("sdpa"), replace(SETTING, sizes={"B": 1, "H": 2, "T": 0, "d_k": 8}, grad=grad)
    told = contest(program, rivals(program, ("eager", "compile", "flex", "sdpa"), ("torch",), grad), setting, 1)
    assert [(one.name, one.status, one.why) for one in told if one.name in ("compile", "flex")] == [
        (name, "cannot", "there is nothing to compute") for name in ("compile", "flex")]
    assert all(one.why != "there is nothing to compute" for one in told if one.name not in ("compile", "flex"))
    assert next((one.status, one.why) for one in told if one.name == "eager") == (
        "cannot", "torch has no such function of no elements, and T = 0")


def test_the_command() -> None:
    words = ["bench", "sdpa", "--sizes", "B=1,H=2,T=16,d_k=4", "--against", "eager", "--backend", "torch",
             "--rounds", "1"]
    done = einc_(*words)
    said = done.stdout
    assert "1 round says nothing of other runs" in done.stderr
    assert said.startswith("sdpa, float32 on cpu: B = 1, H = 2, T = 16, d_k = 4\n")
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["eager", "ok"], ["torch", "ok"]]
    page = json.loads(einc_(*words, "--json", "--grad").stdout)
    assert page["gradient"] is True
    assert [(way["name"], way["status"]) for way in page["ways"]] == [("eager", "ok"), ("torch", "ok")]
    assert all(way["error"] < 1e-4 for way in page["ways"])


def test_times_over_a_size_and_their_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    words = ["bench", "sdpa", "--sizes", "B=1,H=2,T=16,d_k=4", "--against", "eager", "--backend", "torch",
             "--rounds", "1"]
    done = einc_(*words, "--plot", str(tmp_path / "growth.png"))
    assert [line for line in done.stdout.splitlines() if line.startswith("sdpa")] == [
        f"sdpa, float32 on cpu: B = 1, H = 2, T = {n}, d_k = 4" for n in (2, 4, 8, 16)]
    assert "time grows as eager T^" in done.stderr and "torch T^" in done.stderr
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    pages = json.loads(einc_(*words, "--over", "d_k=2,8", "--json").stdout)
    assert [page["sizes"]["d_k"] for page in pages] == [2, 8]


def test_the_power_with_which_something_grows() -> None:
    assert growth.exponent([(n, 3e-6 * n**2) for n in (16, 64, 128)]) == pytest.approx(2.0)
    assert growth.exponent([(16, 1.0)]) is None
    assert growth.lengths(checking.typed("sdpa"), "", {"T": 6}) == ("T", [1, 3, 6])


@pytest.mark.parametrize(("words", "said"), [
    (["sdpa", "--over", "T=4"], "two whole numbers"), (["sdpa", "--over", "Q=4,8"], "`Q` is no size of the spec"),
    (["not_attention/geglu", "--over", "nothing"], "NAME=NUMBER"), (["sdpa", "--against", "eagr"], "mean `eager`?"),
    (["sdpa", "--against", "nope"], "there are eager, compile, library, flex, sdpa"),
    (["sdpa", "--plot", "times.xyz"], "there is no picture"),
    (["sdpa", "--plot", "no/such/times.png"], "no folder no/such"),
    (["sdpa", "--backend", "nope"], "there are torch, cpp, triton"), (["sdpa", "--sizes", "t=4"], "did you mean `T`?"),
])
def test_what_cannot_be_timed_is_a_line(words: list[str], said: str) -> None:
    assert said in einc_("bench", *words, status=1).stderr


def test_a_spec_that_torch_does_not_say_and_one_without_a_kernel_of_the_library() -> None:
    found = rivals(checking.typed("indexer"), ("eager", "compile"), (), False)
    assert all("einc to einsum" in one.why for one in found)
    (library,) = rivals(checking.typed("gallery/softcap"), ("library",), (), False)
    assert (library.function, library.why) == (None, "the library has no kernel for any part of it")
