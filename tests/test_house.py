"""`python -m bench house` and `python -m bench paired` on made-up checkouts. No time is asserted."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import checkouts, house, paired, signatures
from bench.cli import main

TOP = '''"""A file."""
from einc import low
from einc.wing import inner


class Wide:
    """Fields."""
    a: int
    b: int

    def __init__(self):
        self.c = self.d = 1
        self.e, self.a = 2, 3


class Wider(Wide):
    f: int
    g = h = i = 0

    def method(self, x):
        """Says."""
        def helper():
            return x
        self.j = [self.k for self.k in x]
        return helper


def _private():
    return 1
'''


def checkout(folder: Path, files: dict[str, str]) -> Path:
    """A checkout of einc with these files; the other rooms that a checkout has are empty."""
    for name in ("compiler", *checkouts.ROOMS):
        (folder / name).mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "FIELDS", 6)
    found = house.measure(checkout(tmp_path, {
        "compiler/README.md": "text", "compiler/__init__.py": "", "compiler/low.py": '"""Low."""\n',
        "compiler/top.py": TOP, "compiler/wing/inner.py": "import einc.wing.other\n\nx = 1\n",
        "compiler/wing/other.py": "from einc.wing.inner import x\n" + "y = 1  # " + "-" * 120 + "\n",
        "backends/a/emit.py": "from importlib import import_module\n\ndef f():\n    import_module('einc.low')\n",
        "backends/a/runtime/kept.py": "def text():\n    pass\n"}))
    assert (found.entries, found.files, found.wide) == (4, 7, 1)  # the package itself, low, top and wing
    assert found.arrows == 3 and found.floors == 2  # top -> low, top -> wing, the back ends -> low
    assert found.circles == [("einc.wing.inner", "einc.wing.other")]
    assert found.statements == 18 + 2 + 2 + 3
    assert {(one.place.partition(":")[2], one.public, one.described) for one in found.functions} == {
        ("__init__", False, False), ("method", True, True), ("helper", False, False), ("_private", False, False),
        ("f", True, False)}
    assert found.classes == {"compiler/top.py:Wider": 8}
    assert dict(found.rows())["without a docstring: public"] == "1"


@pytest.mark.parametrize(("body", "unsaid"), [
    ('"""Half."""\n    if n: raise ValueError(n)', ("ValueError",)),
    ('"""Half; ValueError where n is odd."""\n    raise ValueError(n)', ()),
    ('"""Half. Raises what wrong(n) gives."""\n    raise wrong(n)', ()),
    ('"""Half."""\n    raise wrong.kind(n)', ("kind",)),
    ('"""Half."""\n    def inner(): raise ValueError\n    return inner', ()),
    ('"""Half."""\n    try: g()\n    except ValueError: raise', ()),
    ('"""Half."""\n    raise AssertionError(n)', ()),
    ('raise ValueError(n)', ()),
])
def test_what_a_docstring_does_not_say_is_raised(tmp_path: Path, body: str, unsaid: tuple[str, ...]) -> None:
    found = house.measure(checkout(tmp_path, {"compiler/a.py": f"def half(n):\n    {body}\n"}))
    assert next(one.unsaid for one in found.functions if one.place.endswith(":half")) == unsaid


def test_components_are_those_that_reach_each_other() -> None:
    """Against what a walk from every node reaches, on graphs drawn at random."""
    draw = random.Random(7)
    for _ in range(60):
        names = [f"n{i}" for i in range(draw.randint(1, 9))]
        graph = {name: {other for other in names if draw.random() < 0.2} - {name} for name in names}

        def reached(name: str, graph: dict[str, set[str]] = graph) -> set[str]:
            seen = {name}
            while more := {other for one in seen for other in graph[one]} - seen:
                seen |= more
            return seen

        every = {name: reached(name) for name in names}
        wanted = {tuple(sorted(other for other in every[name] if name in every[other])) for name in names}
        assert sorted(house.components(graph)) == sorted(wanted)
        chain = house.longest_chain(graph)
        assert 1 <= chain <= len(wanted)
        assert chain == max(sum(1 for _ in _descent(graph, every, name)) for name in names)


def _descent(graph: dict[str, set[str]], every: dict[str, set[str]], name: str) -> list[str]:
    """A longest way down from one node over the others, one node for each component."""
    below = [other for one in every[name] if name in every[one] for other in graph[one] if name not in every[other]]
    return [name, *max((_descent(graph, every, other) for other in below), key=len, default=[])]


@pytest.mark.whole
def test_the_table_has_a_column_for_each_checkout(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["house", str(checkout(tmp_path, {"compiler/a.py": "x = 1\n"}))])
    assert done.exit_code == 0
    assert re.search(r"^statements +1 +\d\d,\d\d\d *$", done.stdout, re.M)
    wrong = CliRunner().invoke(main, ["house", str(tmp_path / "specs")])
    assert wrong.exit_code == 1 and "it has no folder compiler/" in wrong.output


def test_signatures_are_drawn_without_bodies(tmp_path: Path) -> None:
    text = ('class One:\n    """A thing."""\n    def method(self, n: int) -> int:\n        """Twice n."""\n'
            "        return 2 * n\n\ndef _short():\n    return 1\n")
    place = checkout(tmp_path, {"compiler/a.py": text})
    (one,) = signatures.drawn(place, 5, 3)
    shown = 'compiler/a.py:3\nclass One: A thing.\ndef method(self, n: int) -> int:\n    """Twice n."""'
    assert one.text(False) == shown and one.text(True) == f"{shown}\n    return 2 * n"


@pytest.mark.whole
def test_the_same_signatures_are_drawn_each_time() -> None:
    done = CliRunner().invoke(main, ["signatures", "--count", "2"])
    assert done.exit_code == 0 and done.stdout == CliRunner().invoke(main, ["signatures", "--count", "2"]).stdout


SAYS = "import sys\nprint({!r}, *sys.argv[1:])\nsys.exit('no' if 'fail' in sys.argv else 0)\n"


def test_pairs_of_commands(tmp_path: Path) -> None:
    """Each checkout runs its own code, whatever its layout; what they print is compared, and failing is told."""
    places = [checkout(tmp_path / name, {"compiler/__init__.py": "", "compiler/__main__.py": SAYS.format(text)})
              for name, text in (("old", "a"), ("same", "a"), ("other", "b"))]
    told: list[str] = []
    same = paired.run(places[0], places[1], ["check", "x"], 3, tmp_path, told.append)
    assert same.same_text and len(same.old) == len(same.new) == 3
    assert [text.partition(",")[0] for text in told] == ["old", "new", "old", "new", "new", "old", "old", "new"]
    assert not paired.run(places[0], places[2], ["check"], 1, tmp_path).same_text
    with pytest.raises(paired.FailedError, match=r"einc fail ends with status 1 in .*old:\nno$"):
        paired.run(places[0], places[1], ["fail"], 1, tmp_path)


def test_both_are_run_from_bytecode_whatever_the_caller_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time is that of compiling the sources, which an installed package is spared."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    says = "import einc.other\nprint(einc.other.__cached__)\n"
    files = {"compiler/__init__.py": "", "compiler/__main__.py": says, "compiler/other.py": ""}
    place = checkout(tmp_path / "a", files)
    with checkouts.environment(place) as variables:
        kept = Path(checkouts.ended([], tmp_path, variables).stdout.strip())
        assert kept.is_file() and not kept.is_relative_to(place)
    assert not kept.exists()


def test_the_median_and_the_quartiles_of_the_ratios() -> None:
    found = paired.Paired((1.0, 2.0, 1.0, 4.0, 1.0), (3.0, 2.0, 2.0, 2.0, 4.0), True, (None, None))
    assert found.quartiles() == (1.0, 2.0, 3.0)
    assert paired.Paired((2.0,), (1.0,), True, (None, None)).quartiles() == (0.5, 0.5, 0.5)


@pytest.mark.whole
def test_the_command_runs_this_checkout_beside_another() -> None:
    done = CliRunner().invoke(main, ["paired", str(house.ROOT), "--runs", "1", "--", "explain", "E0306"])
    assert done.exit_code == 0, done.output
    assert "both print the same" in done.stdout and "load of the machine" in done.stdout
