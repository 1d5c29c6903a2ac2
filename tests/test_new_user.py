"""The first hour of a new user, from the list of specs to a kept file that is checked, by the commands alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from einc.driver.cli import main

SMALL = "T=8,H=2,G=1,d_k=4,d_model=8"
SLIP = "override L_{t s}^{(h)} = 1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k - 2^{-h} (t - s"


@dataclass(frozen=True)
class Done:
    """What a command said, and its status."""

    out: str
    err: str
    status: int


Einc = Callable[..., Done]


def handled(*words: str) -> Done:
    """A command in this process."""
    done = CliRunner().invoke(main, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.stdout, done.stderr, done.exit_code)


def started(*words: str) -> Done:
    """A command as a process of its own."""
    done = subprocess.run([sys.executable, "-m", "einc", *words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return Done(done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize("einc", [handled, pytest.param(started, marks=pytest.mark.whole)],
                         ids=["handlers", "processes"])
def test_the_first_hour(einc: Einc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ok = 0

    # Find a spec and begin a variant of it.
    assert any(line.split()[0] == "gqa" for line in einc("list").out.splitlines() if line.strip())
    assert einc("new", "mine", "--like", "gqa").status == ok
    assert "not overwritten" in einc("new", "mine", "--like", "gqa").err
    mine = Path("mine.ein")
    begun = mine.read_text(encoding="utf-8")
    assert einc("check", "mine.ein").status == ok

    # Change a line, with a slip: the error shows it; mend it as the error says.
    mine.write_text(f"{begun}\n{SLIP}\n", encoding="utf-8")
    broken = einc("check", "mine.ein")
    assert broken.status == 1
    assert "error[E01" in broken.err and "- 2^{-h} (t - s" in broken.err
    assert "insert `)` where it ends" in broken.err
    mine.write_text(f"{begun}\n{SLIP})\n", encoding="utf-8")
    assert einc("check", "mine.ein", "--strict").status == ok

    # See it, run it against the definition, time it.
    assert "█" in einc("draw", "mine.ein", "mask", "--sizes", "T=4").out
    run = einc("run", "mine.ein", "--backend", "torch", "--sizes", SMALL, "--verify", "--repeat", "1")
    assert run.status == ok and "; ok (bound" in run.out, run
    timed = einc("bench", "mine.ein", "--sizes", SMALL, "--against", "eager,sdpa", "--backend", "torch",
                 "--rounds", "1", "--json")
    assert {way["name"]: way["status"] for way in json.loads(timed.out)["ways"]} == {
        "eager": "ok", "sdpa": "ok", "torch": "ok"}

    # Keep it, and know later what it was made of.
    assert einc("compile", "mine.ein", "-o", "mine.py").status == ok
    assert einc("check", "mine.py").status == ok
    mine.write_text(mine.read_text(encoding="utf-8").replace("2^{-h}", "3^{-h}"), encoding="utf-8")
    stale = einc("check", "mine.py")
    assert stale.status == 1 and "mine.ein" in stale.out + stale.err
    assert einc("compile", "mine.ein", "-o", "mine.py").status == ok
    assert einc("check", "mine.py").status == ok
