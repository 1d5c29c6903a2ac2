"""The suite itself: which tests run, the seconds it counts, and the bugs that it is to catch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import costs
import pytest
from conftest import CHECKED, chosen, drawn, left_out, share

from bench import mutants

ROOT = Path(__file__).parent.parent
NAMES = [f"tests/test_x.py::test_y[{n}]" for n in range(300)]


def test_shares_are_all_of_the_slow_tests_and_nothing_else() -> None:
    found = [[name for name in NAMES if chosen(name, True, f"{part}/7")] for part in range(1, 8)]
    assert sorted(name for names in found for name in names) == sorted(NAMES)
    assert all(20 < len(names) < 70 for names in found)
    assert not any(chosen(name, False, "1/7") for name in NAMES)


def test_without_a_share_all_run_or_the_quick_ones() -> None:
    assert [chosen("x", marked, asked) for asked in (None, "all")
            for marked in (False, True)] == [True, False, True, True]


def test_a_draw_has_one_of_so_many_and_always_one() -> None:
    def runs(count: int, *mark: int) -> list[int]:
        return [n for n in range(count) if drawn(n, count, *mark)]

    assert (runs(9, 4), runs(9, 4, 3), runs(1, 4), runs(1, 4, 3)) == ([0, 4, 8], [3, 7], [0], [0])
    assert all(runs(count, every, first) for count in range(1, 9) for every in range(1, 9) for first in range(9))


def test_what_always_runs_is_left_out_by_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def item(n: int) -> Any:
        marks = {"drawn": pytest.mark.drawn(4).mark} | ({"always": pytest.mark.always.mark} if n in (1, 4) else {})
        return Mock(nodeid=NAMES[n], get_closest_marker=marks.get)

    items = [item(n) for n in range(9)]
    assert [n for n, one in enumerate(items) if one not in left_out(items)] == [0, 1, 4, 8]
    monkeypatch.setattr(costs, "catchers", lambda: frozenset({NAMES[2]}))
    assert [n for n, one in enumerate(items) if one not in left_out(items)] == [0, 1, 2, 4, 8]


def test_tests_cost_the_same_on_average_whatever_one_takes() -> None:
    names, key = [f"{NAMES[0]}-{n}]" for n in range(1000)], costs.function(NAMES[0])
    for seconds in (0.3, 0.9, 3.0):
        out = costs.left_out(names, {key: seconds})
        assert 0.5 * costs.SECONDS < (len(names) - len(out)) * seconds / len(names) < 2 * costs.SECONDS
        assert out == costs.left_out(reversed(names), {key: seconds})
    assert not any(costs.left_out(names, table) for table in ({}, {key: costs.SECONDS}, {"tests/test_x.py::z": 9.0}))


def test_a_function_that_is_not_too_dear_keeps_one_test() -> None:
    for name in NAMES:
        few = {name, name.replace("test_y", "test_z")}
        assert not costs.left_out(few, {costs.function(one): 0.9 * costs.KEPT for one in few})
    assert len(costs.left_out(NAMES[:3], {costs.function(NAMES[0]): 0.99 * costs.KEPT})) == 2
    assert len([name for name in NAMES if costs.left_out([name], {costs.function(name): 5.0})]) > 250


def test_what_is_dearer_leaves_tests_out_and_draws_no_others() -> None:
    key = costs.function(NAMES[0])
    found = [costs.left_out(NAMES, {key: seconds}) for seconds in (0.1, 0.2, 0.4, 3.0)]
    assert all(less < more for less, more in pairwise(found))


def test_what_caught_a_bug_always_runs(tmp_path: Path) -> None:
    (record := tmp_path / "mutants.jsonl").write_text(f'{{"caught_by": "{NAMES[7]}"}}\n{{"caught_by": ""}}\n')
    key, caught = costs.function(NAMES[0]), costs.catchers(record)
    assert costs.left_out(NAMES[:9], {key: 99.0}, caught) == set(NAMES[:9]) - {NAMES[7]}
    assert not costs.catchers(tmp_path / "none")
    assert len(costs.catchers()) > 400  # the record is where the draw looks for it


def test_the_table_of_costs_has_what_was_measured_last_and_is_there() -> None:
    old = {"a": 9.0, "b": 9.0, "gone": 9.0, "cheaper": 9.0}
    assert costs.updated(old, {"a[1]": 1, "a[2]": 3, "cheaper": 0.1, "new": 5}, {"a", "b", "cheaper", "new"}) == {
        "a": 2.0, "b": 9.0, "new": 5.0}
    assert costs.updated({"as written": 0.15}, {"b": 0.12}, {"as written", "b"}) == {"as written": 0.15}
    assert "tests/test_pages.py::TestRequests::runTest" in costs.defined()


def test_the_table_of_costs_is_what_is_written(tmp_path: Path) -> None:
    costs.write(table := costs.read(), tmp_path / "costs.txt")
    assert (tmp_path / "costs.txt").read_text() == costs.TABLE.read_text() and len(table) > 100


def test_nothing_is_checked_before_the_first_test(pytestconfig: pytest.Config) -> None:
    """Every worker collects all tests: what their parameters ask of a compiler is paid for by each."""
    assert pytestconfig.stash[CHECKED] == 0


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "a/b", "-1/3", "tests/test_x.py", ""])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="share K/N"):
        share(text)


def test_every_mutant_still_applies() -> None:
    """Each to a file that is there, at one place, which it changes; and the tests that it names are there."""
    table = mutants.mutants()
    mutants.check(table.values())
    assert len(table) >= 30 and all(one.old != one.new for one in table.values())
    files = {name for one in table.values() for name in one.tests}
    assert all(one.tests for one in table.values()) and all((ROOT / "tests" / name).is_file() for name in files)


def test_every_wing_and_back_end_has_a_mutant() -> None:
    wings = {entry.name for entry in (ROOT / "compiler").iterdir()
             if entry.is_dir() and (entry / "__init__.py").is_file()}
    ends = {entry.name for entry in (ROOT / "backends").iterdir()
            if entry.is_dir() and (entry / "__init__.py").is_file()}
    found = {one.wing.partition("/")[0] for one in mutants.mutants().values()}
    assert found - {""} == wings | ends  # what all back ends share stands in none of their folders


def test_a_mutant_that_no_longer_applies_names_its_file() -> None:
    one = mutants.Mutant("gone", "compiler/x.py", "a = 1", "a = 2", ())
    for text, count in (("", 0), ("a = 1\na = 1", 2)):
        with pytest.raises(mutants.StaleError,
                           match=rf"^compiler/x\.py: the old text of the mutant `gone` stands {count} times"):
            one.applied(text)


CONFTEST = """\
import pytest
def pytest_addoption(parser): parser.addoption("--whole", nargs="?", const="all")
def pytest_collection_modifyitems(config, items):
    runs = {None: (False,), "1/1": (True,), "all": (False, True)}[config.getoption("--whole")]
    items[:] = [i for i in items if (i.get_closest_marker("whole") is not None) in runs]
"""
TESTS = """\
import pytest
from a import x, y
def test_first(): assert x == 1
@pytest.mark.parametrize("n", [1, 2])
def test_each(n): assert x == 1 or n != 2
@pytest.mark.whole
def test_rare(): assert y == 1
def test_last(): assert x != 3
def test_broken(): assert x == 1 and False
"""


@pytest.mark.whole
def test_what_catches_a_mutant(tmp_path: Path) -> None:
    """The first test that fails, the one that caught it last before all others; a rare one where no other does, what
    fails without the bug, and a run that ends before its tests, are told."""
    (tmp_path / "import").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "test_a.py").write_text(TESTS.rpartition("def")[0])
    files, test = ("test_a.py",), "tests/test_a.py::test_"
    found = [(mutants.Mutant("x", "a.py", *words, files), likely) for words, likely in (
        (("x = 1", "x = 2"), ""), (("x = 1", "x = 2"), f"{test}each[2]"), (("x = 1", "x = 3"), f"{test}last"),
        (("y = 1", "y = 2"), ""), (("y = 1", "y = 1  "), ""), (("y = 1", "y ="), ""),
        (("y = 1", "import os; os._exit(3)"), ""))]
    outcomes = [mutants.tried(one, tmp_path, True, likely) for one, likely in found]
    assert [(one.caught_by, one.left_out) for one in outcomes] == [
        (f"{test}first", False), (f"{test}each[2]", False), (f"{test}last", False), (f"{test}rare", True), ("", False),
        ("tests/test_a.py", False), ("the process of the tests crashed", False)]
    assert not mutants.tried(found[3][0], tmp_path, False).caught_by
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 1\n"
    (tmp_path / "tests" / "test_a.py").write_text(TESTS)
    names = [f"{test}broken", "no end", "", f"{test}rare", f"{test}each[2]"]
    assert mutants.unsound(names, tmp_path) == {
        f"{test}broken": "fails without the bug too", "no end": "no test failed"}
