"""The text of each stage for a few specs; `pytest tests/test_golden.py --update-golden` writes it anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import normal_of, plan_of, source_of, typed_of
from programs import FILES, Case

from einc.backends.triton.emit import emit
from einc.driver.reports.screen import screen
from einc.driver.reports.table import table
from einc.syntax.printing.show import show

GOLDEN = Path(__file__).parent / "golden"
SPECS = ["attention", "alibi", "gqa", "sliding_window", "llama_attention"]
STAGES = {
    "typed": lambda case: show(typed_of(case)),
    "normal": lambda case: show(normal_of(case)),
    "plan": lambda case: table(plan_of(case)),
    "screen": lambda case: screen(plan_of(case)),
    "source": source_of,
    "kernels": lambda case: emit(plan_of(case)),
}
WHERE = {name: [GOLDEN / name / f"{stage}.txt" for stage in STAGES] for name in SPECS}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", [case for case in FILES if case.name in SPECS], ids=lambda case: case.name)
def test_the_text_of_a_stage(case: Case, stage: str, pytestconfig: pytest.Config) -> None:
    path = GOLDEN / case.name / f"{stage}.txt"
    found = STAGES[stage](case)
    if pytestconfig.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.read_text(
        encoding="utf-8") == found, f"{path.name} of {case.name} has changed: look at it, then --update-golden"


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_a_text_is_the_same_in_every_process(backend: str) -> None:
    """Sets of names stand in another order where their hashes differ."""
    texts = set()
    for seed in ("0", "1", "2"):
        code = (f"from einc.driver import checking, front; print(front.emit(front.plan(checking.typed('gqa')), "
                f"{backend!r}))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONHASHSEED": seed})
        texts.add(done.stdout)
    assert len(texts) == 1


def test_no_golden_text_is_left_over() -> None:
    assert sorted(GOLDEN.rglob("*.txt")) == sorted(path for paths in WHERE.values() for path in paths)
