"""A short run of the fuzzer: the same inputs each time. `python -m bench.fuzz` is the long one."""

from __future__ import annotations

import json

import click
import pytest

from bench import fuzz, garble


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.whole)])
def test_no_input_gives_a_traceback_or_a_problem_without_a_place(count: int) -> None:
    total = fuzz.Tally()
    for number in range(count):
        total.add(fuzz.attempt(1, number))
    assert total.findings == []
    assert total.inputs == count
    assert 0 < total.clean < count / 2, "some of the texts are sound"
    assert len(total.told) > 15, "many kinds of problems are met"


@pytest.mark.parametrize("count", [25, pytest.param(250, marks=pytest.mark.whole)])
def test_no_paper_gives_a_traceback(count: int) -> None:
    total = fuzz.Tally()
    for number in range(count):
        total.add(fuzz.attempt(1, number, papers=True))
    assert total.findings == []
    assert total.clean > 0.4 * count, "most papers are accounted for"


def test_an_input_is_told_by_its_number() -> None:
    assert [garble.garbled(7, n) for n in range(40)] == [garble.garbled(7, n) for n in range(40)]
    assert {way for n in range(300) for way in [garble.garbled(7, n)[0]]} == set(garble.WAYS)
    assert {way for n in range(50) for way in [garble.garbled(7, n, papers=True)[0]]} == set(garble.PAPERS)


@click.command("check", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def falls() -> None:
    raise KeyError("nothing")


@click.command("check", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def tells_no_place() -> None:
    click.echo(json.dumps({"problems": [{"code": "E0201", "message": "m", "span": None}], "errors": 1}))


@pytest.mark.parametrize(("command", "kinds"), [(falls, ["traceback"]), (tells_no_place, ["place", "status"])])
def test_what_must_not_be_is_seen(command: click.Command, kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "einc", lambda: click.Group(commands=[command]))
    monkeypatch.setattr(fuzz.Attempt, "more", lambda self, sound: None)
    found = fuzz.attempt(1, 0).findings
    assert [x.kind for x in found] == kinds
    assert all(x.number == 0 and x.command.startswith("check FILE") for x in found)
