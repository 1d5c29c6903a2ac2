"""`einc compile --target` as it is met by who types it: what it writes, what it refuses,
and parts that are not installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from triton import knobs

import einc
from einc.driver import back_ends
from einc.driver.cli import main
from einc.errors.report import EincError

ROWS = """
index s : time(T)
index b : batch(B)
input x_{b s}
output y_b = Σ_s exp(x_{b s})
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "rows.ein"
    file.write_text(ROWS, encoding="utf-8")
    return str(file)


def refused(*args: str) -> str:
    result = ended(*args)
    assert result.exit_code == 1, result.output
    return result.stderr


def ended(*args: str) -> Result:
    result = CliRunner().invoke(main, args)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_folder_of_code_and_how_to_start_it(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    out = tmp_path / "made"
    result = ended("compile", spec, "--target", "sm_90", "--sizes", "T=4096", "-o", str(out))
    assert result.exit_code == 0, result.stderr
    meta = json.loads((out / "rows.json").read_text(encoding="utf-8"))
    assert [(meta["target"], meta["dtype"], meta["sizes"]["T"])] == [("sm_90", "bfloat16", 4096)]
    assert all((out / one["file"]).read_bytes()[:4] == b"\x7fELF" for one in meta["kernels"])
    assert f"wrote {len(meta['kernels'])} kernel" in result.stderr


@pytest.mark.parametrize(("args", "said"), [
    (["--emit", "ptx"], "--emit is for --target"),
    (["--target", "sm_42", "-o", "o"], "the targets are x86-64, "),
    (["--target", "sm_90"], "machine code is no text to be printed"),
    (["--target", "gfx942", "--emit", "hsaco"], "hsaco is no text to be printed"),
    (["--target", "sm_90", "-o", __file__], "is a file: every kernel is a file of its own"),
    (["--target", "sm_90", "-o", "o", "--tuned"], "one of them at a time"),
    (["--target", "sm_90", "-o", "o", "--backend", "torch"], "give --backend triton"),
    (["--target", "sm_90", "-o", "o", "--sizes", "Z=1"], "`Z` is no size of the spec"),
])
def test_what_is_refused_before_any_work(spec: str, args: list[str], said: str) -> None:
    assert said in refused("compile", spec, *args)


def test_a_call_that_starts_nothing(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    said = refused("compile", spec, "--target", "sm_90", "--sizes", "B=0", "-o", str(tmp_path / "o"))
    assert "starts no kernel: B = 0" in said and "give sizes from 1" in said


@pytest.mark.parametrize("part", ["tune", "offline"])
def test_triton_that_is_not_installed(spec: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "triton" or name.startswith("triton.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"einc.backends.triton.{part}", raising=False)
    args = ["tune", spec] if part == "tune" else ["compile", spec, "--target", "sm_90", "-o", "o"]
    said = refused(*args)
    assert "triton is not installed" in said and "pip install triton" in said


def test_a_back_end_that_is_none() -> None:
    with pytest.raises(EincError, match="the back ends are torch, cpp, triton"):
        einc.compile(ROWS, backend="host")
    with pytest.raises(EincError, match="give --backend triton"):
        back_ends.targeted("sm_90", "torch")
