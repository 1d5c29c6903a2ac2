"""The session that README shows: the errors are printed as they stand there, and the file is mended as it says."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from einc.driver.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
SESSION = README.split("## Paste an equation", 1)[1].split("\n## ", 1)[0]


def test_the_session_of_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("mine.ein")
    text = re.findall(r"```ein\n(.*?)```", SESSION, re.S)[0]
    first, second = (dedent(x) for x in re.findall(r"(?:^    .*\n|^\n(?=    ))+", SESSION, re.M) if "error[" in x)
    file.write_text(text, encoding="utf-8")
    run = CliRunner()
    assert run.invoke(main, ["check", "mine.ein"]).output.startswith(first.strip("\n"))
    file.write_text(text.replace("\n\n$$", "\nmask L_{t s} : s ≤ t\n\n$$"), encoding="utf-8")
    said = run.invoke(main, ["check", "mine.ein"]).output
    shown = second.strip("\n")
    assert said.startswith(shown)
    assert run.invoke(main, ["check", "--fix", "mine.ein"]).exit_code == 0
    assert run.invoke(main, ["run", "mine.ein", "--sizes", "T=5,D=3", "--verify"]).exit_code == 0
