"""`python -m bench equal` on tiny sizes: both texts of a pair mean the same, and its table has a line for each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import einc
from einc.driver.timing import clock

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import equal
from bench.cli import main
from einc.driver.timing.judge import relative_error


@pytest.mark.parametrize("name", equal.PAIRS)
def test_both_texts_mean_the_same(name: str) -> None:
    pair = equal.PAIRS[name]
    data = {key: x.double().numpy() for key, x in pair.data({"T": 6, "H": 2, "D": 3, "W": 2}).items()}
    (one,), (other,) = (einc.interpret(text, data).values() for text in pair.texts().values())
    assert relative_error(torch.from_numpy(one), torch.from_numpy(other)) < 1e-13


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clock, "SAMPLE", 1e-4)
    monkeypatch.setattr(equal, "BACKENDS", ("torch",))
    done = CliRunner().invoke(main, ["equal", "--case", "table", "--sizes", "T=8,H=1,D=2,W=3", "--rounds", "1",
                                     "--patience", "0", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "vectors of distances" in done.output
    assert len((tmp_path / "equal.jsonl").read_text().splitlines()) == 2
