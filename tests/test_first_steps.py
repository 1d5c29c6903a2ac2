"""What a person does first: find a spec, begin a text, check it as it is saved, and ask what runs here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest
from click.testing import CliRunner, Result

from einc.driver import catalogue, flow, starting
from einc.driver.cli import main
from einc.driver.commands import draw, listing, watching
from einc.driver.sources import DISK, names, shipped
from einc.errors.report import Report, Source

BROKEN = "index t : time(T)\ninput x_t\ny_t = x_t)\n"
BESIDE = "index t : time(T)\ninput x_t\noutput y_t = 2 x_t\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def einc_(*args: str, status: int = 0, given: str = "") -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args), input=given)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


# list


def test_the_list_has_every_spec_with_its_comment_and_section() -> None:
    lines = einc_("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == names()
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["gqa"].endswith("share G heads of keys and values through π(h) (paper §6.1)")
    assert all(len(line.split(None, 1)) == 2 for line in lines)


def test_a_spec_is_found_by_words() -> None:
    found = [line.split()[0] for line in einc_("list", "ROTARY", "llama").stdout.splitlines()]
    assert found == ["llama_attention", "llama_lm", "rope_half"]
    assert "`gqa`" in einc_("list", "gqaa", status=1).stderr
    assert "einc list" in einc_("list", "no such words", status=1).stderr


def test_the_list_says_what_each_is_given() -> None:
    assert "given X (T, d_model), W_Q (H, d_model, d_k)" in einc_("list", "grouped-query", "--inputs").stdout
    (gqa,) = json.loads(einc_("list", "grouped-query", "--json").stdout)
    assert (gqa["name"], gqa["section"], gqa["outputs"]) == ("gqa", "§6.1", ["A"])
    assert gqa["inputs"][0] == {"name": "X", "role": "input", "axes": ["T", "d_model"]}
    assert json.loads(einc_("list", "no such words", "--json").stdout) == []
    (side,) = json.loads(einc_("list", "what the paper leaves", "--json").stdout)
    assert (side["inputs"], side["outputs"]) == (None, None)


def test_a_narrow_terminal_has_whole_lines(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the list and of a picture ends where the terminal does; what goes elsewhere has its usual width."""
    wide = einc_("list", "rotary").stdout
    for command in (listing, draw):
        monkeypatch.setattr(command, "columns", lambda: 56)
    lines = einc_("list", "rotary").stdout.splitlines()
    assert max(map(len, lines)) <= 56 < max(map(len, wide.splitlines())) and len(wide.splitlines()) == len(lines)
    shown = einc_("draw", "sliding_window", "mask", "--sizes", "T=100,W=10").stdout.splitlines()
    assert {len(line) for line in shown[1:-1]} == {56} and "a sign for 3.12 × 1.79" in shown[0]


@pytest.mark.parametrize(("about", "line"), [
    ("A (b. C) d. E", "A (b. C) d"),
    ("A (Li et al. 2023): b.", "A (Li et al. 2023): b"),
    ('A ("B. C"). D', 'A ("B. C")'),
    ("A, eq. 3", "A, eq. 3"),
])
def test_the_first_sentence_of_a_comment(about: str, line: str) -> None:
    assert catalogue.Spec("x", Source("x", f"# {about}\ny = 1\n")).line == line


# new


def test_a_new_text_is_sound_and_nothing_is_overwritten(room: Path) -> None:
    einc_("new", "mine")
    before = Path("mine.ein").read_text(encoding="utf-8")
    assert einc_("check", "mine.ein").stdout == "ok: mine, 2 equations\n"
    for more in ([], ["--like", "gqa"], ["--like", "gqa", "--copy"]):
        assert "not overwritten" in einc_("new", "mine", *more, status=1).stderr
    assert Path("mine.ein").read_text(encoding="utf-8") == before


def test_a_variant_is_changed_by_taking_a_line_in(room: Path) -> None:
    einc_("new", "mine", "--like", "gqa")
    text = Path("mine.ein").read_text(encoding="utf-8")
    line = "# override mask L_{t s}^{(h)} : s ≤ t\n"
    assert line in text
    Path("mine.ein").write_text(text.replace(line, line[2:].replace("s ≤ t", "s ∈ (t - 4, t]")), encoding="utf-8")
    assert "t - 4 < s" in einc_("show", "mine.ein").stdout


def offered() -> list[str]:
    """The specs of which a variant can be begun: all but side files, and claims that nothing but the whole states."""
    return [name for name in names() if name not in ("paper", "transformer_with_pytorch", "lemma_collapse",
                                                    "claims/smoothing")]


@pytest.mark.drawn(25)
@pytest.mark.parametrize("name", offered())
def test_every_line_that_a_variant_offers_can_be_taken_in(name: str) -> None:
    source = shipped(name)
    assert source is not None
    text = starting.variant(name, source, DISK)
    for line in [line for line in text.splitlines() if line.startswith("# override")]:
        report = Report()
        assert flow.check_spec(Source("<mine>", text.replace(line, line[2:])), report, proved=False), (
            line, report.errors)


def test_a_copy_is_the_text_itself(room: Path) -> None:
    einc_("new", "mine", "--like", "gallery/softcap", "--copy")
    source = shipped("gallery/softcap")
    assert source is not None
    assert Path("mine.ein").read_text(encoding="utf-8") == source.text


@pytest.mark.parametrize(("words", "said"), [
    (["2x"], "no name of a spec"), (["a b"], "no name of a spec"), (["mine", "--copy"], "--copy is of a spec"),
    (["mine", "--like", "gqaa"], "`gqa`"), (["mine", "--like", "lemma_collapse"], "--copy"),
    (["mine", "--like", "claims/smoothing"], "--copy"), (["nowhere/mine"], "no such file or directory"),
    (["mine", "--like", "sub/other.ein"], "another folder"),
])
def test_what_cannot_be_begun_is_a_line(room: Path, words: list[str], said: str) -> None:
    Path("sub").mkdir()
    Path("sub/other.ein").write_text(BESIDE, encoding="utf-8")
    assert said in einc_("new", *words, status=1).stderr


def test_a_variant_of_a_file_beside_it(room: Path) -> None:
    Path("other.ein").write_text(BESIDE, encoding="utf-8")
    einc_("new", "mine", "--like", "other.ein")
    assert Path("mine.ein").read_text(encoding="utf-8").endswith('use "other"\n\n# override y_t = 2 x_t\n')


# standard input


@pytest.mark.parametrize("words", [
    ["check", "-"], ["compile", "-"], ["show", "-"], ["show", "-", "--stage", "plan"], ["fmt", "-"], ["tex", "-"],
    ["derive", "-"], ["cost", "-"], ["to", "einsum", "-"], ["run", "-", "--sizes", "T=5", "--repeat", "1"],
    ["cost", "sdpa", "--against", "-"],
])
def test_a_spec_may_come_from_standard_input(words: list[str]) -> None:
    assert einc_(*words, given=BESIDE).stdout


def test_other_texts_may_come_from_standard_input() -> None:
    claim = BESIDE.replace("output", "claim").replace("y_t =", "x_t + x_t =")
    assert "proved" in einc_("prove", "-", given=claim).stdout
    assert "1 compiled" in einc_("doc", "-", given="For $t \\in \\{1..T\\}$ (time)\n\n$$ y_t = 2 x_t $$\n").stdout
    assert "y_" in einc_("from", "::f", given="def f(x):\n    # x: (T, D)\n    y = 2 * x\n    return y\n").stdout


# --watch


def pauses(monkeypatch: pytest.MonkeyPatch, *saves: Callable[[], object]) -> None:
    """Between two looks at the files one of these is done instead of waiting, and then Ctrl-C is pressed."""
    left = list(saves)

    def pause(_: float) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    monkeypatch.setattr(watching.time, "sleep", pause)


def test_a_file_is_checked_again_when_it_is_saved(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("mine.ein")
    file.write_text(BROKEN, encoding="utf-8")
    pauses(monkeypatch, lambda: None, lambda: file.write_text(BESIDE, encoding="utf-8"), file.unlink)
    result = einc_("check", "mine.ein", "--watch")
    assert "error[" in result.stderr
    assert result.stdout == "ok: mine, 1 equation\n"
    assert result.stderr.count("changed: mine.ein") == 2
    assert result.stderr.count("watching") == 3
    assert "no such file" in result.stderr


def test_a_file_that_is_used_is_looked_at_before_it_is_there(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = Path("mine.ein"), Path("other.ein")
    file.write_text('use "other"\n', encoding="utf-8")
    pauses(monkeypatch, lambda: other.write_text(BESIDE, encoding="utf-8"),
           lambda: other.write_text(BESIDE.replace("2 x", "3 x"), encoding="utf-8"))
    result = einc_("show", "mine.ein", "--watch")
    assert "y_{t} = 2 x_{t}" in result.stdout
    assert "y_{t} = 3 x_{t}" in result.stdout


def test_a_paper_is_looked_at_with_what_it_takes_in(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("parts").mkdir()
    Path("main.tex").write_text("\\documentclass{article}\\begin{document}\\input{parts/a}\\end{document}",
                                encoding="utf-8")
    part = Path("parts/a.tex")
    pauses(monkeypatch, lambda: part.write_text("$$ \\mathrm{x} \\mapsto y $$", encoding="utf-8"))
    result = einc_("check", "main.tex", "--watch")
    assert "changed: a.tex" in result.stderr
    assert "parts/a.tex:1" in result.stderr


@pytest.mark.whole
def test_a_process_watches_until_it_is_interrupted(room: Path) -> None:
    """Each save waits for what the process says, and nothing sleeps: its own pause lies between two looks."""
    file = Path("mine.ein")
    file.write_text(BROKEN, encoding="utf-8")
    with subprocess.Popen([sys.executable, "-u", "-m", "einc", "check", "mine.ein", "--watch"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None and process.stdout is not None
            said = next(line for line in process.stderr if "error[" in line)
            assert "E0102" in said
            assert any("watching; Ctrl-C ends it" in line for line in process.stderr)
            file.write_text(BESIDE, encoding="utf-8")
            assert next(process.stderr) == "changed: mine.ein\n"
            assert process.stdout.readline() == "ok: mine, 1 equation\n"
            assert next(process.stderr) == "watching; Ctrl-C ends it\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
            assert (process.returncode, out, err) == (0, "", "")
        finally:
            process.kill()


def test_a_fix_is_made_once(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.ein").write_text(BROKEN, encoding="utf-8")
    pauses(monkeypatch)
    result = einc_("check", "mine.ein", "--watch", "--fix")
    assert result.stdout.count("fixed mine.ein") == 1
    assert "standard input" in einc_("check", "-", "--watch", status=1).stderr


# what was meant


@pytest.mark.parametrize(("words", "said", "status"), [
    (["show", "gqa", "--stage", "plann"], "Did you mean 'plan'?", 2), (["draw", "gqa", "maske"], "mean 'mask'?", 2),
    (["compile", "gqa", "--backend", "tritn"], "Did you mean 'triton'?", 2), (["to", "flux", "gqa"], "mean 'flex'?", 2),
    (["chek", "gqa"], "Did you mean 'check'?", 2), (["show", "gqa", "--stge", "plan"], "--stage", 2),
    (["show", "gqaa"], "`gqa`", 1), (["show", "gqa.ein"], "`gqa`", 1), (["show", "softcp"], "`gallery/softcap`", 1),
    (["run", "gqa", "--sizes", "t=4"], "did you mean `T`?", 1),
    (["run", "gqa", "--sizes", "dk=4"], "did you mean `d_k`?", 1),
    (["run", "gqa", "--sizes", "d_mdel=4"], "did you mean `d_model`?", 1),
    (["run", "gqa", "--sizes", "Q=4"], "the sizes that can be given: `T`, `d_model`", 1),
])
def test_what_was_meant_is_said(room: Path, words: list[str], said: str, status: int) -> None:
    assert said in einc_(*words, status=status).stderr


def test_a_shell_completes_commands_and_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, offered in (("einc che", "check"), ("einc check gallery/soft", "gallery/softcap")):
        done = CliRunner().invoke(main, env={
            "_EINC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)},
            prog_name="einc")
        assert f"plain,{offered}" in done.output.splitlines()
        assert "file," not in done.output, "a shell that is told of files forgets what it was told before"


def test_a_folder_that_is_not_there_is_said(room: Path) -> None:
    for words in (["new", "no/such/mine"], ["draw", "sdpa", "mask", "-o", "no/such/mask.svg"],
                  ["compile", "sdpa", "-o", "no/such/k.py"]):
        assert "there is no folder no/such" in einc_(*words, status=1).stderr
    assert "help" not in einc_("run", "sdpa", "--data", "none.npz", status=1).stderr


def test_a_shell_completes_files_beside_specs(room: Path) -> None:
    (room / "mlp_mine.ein").write_text(BESIDE, encoding="utf-8")
    (room / "mldir").mkdir()

    def offered(begun: str) -> list[str]:
        return CliRunner().invoke(main, env={"_EINC_COMPLETE": "bash_complete", "COMP_WORDS": f"einc check {begun}",
                                             "COMP_CWORD": "2"}, prog_name="einc").output.splitlines()

    assert offered("ml") == ["plain,mldir/", "plain,mlp_mine.ein", "plain,mla", "plain,mla_rope"]
    assert offered("zz") == ["file,zz"]


SHELLS = {
    "bash": ("--norc", "-c", 'eval "$(_EINC_COMPLETE=bash_source einc)"; COMP_WORDS=({words}); COMP_CWORD={at}; '
             'COMP_LINE="{words}"; _einc_completion einc; printf "%s\\n" "${{COMPREPLY[@]}}"'),
    "fish": ("--no-config", "-c", "_EINC_COMPLETE=fish_source einc | source; complete --do-complete '{words}'"),
}


@pytest.mark.whole
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("words", "offered"), [
    ("einc che", "check"), ("einc check gallery/soft", "gallery/softcap"), ("einc bench sdpa --ag", "--against"),
    ("einc draw sdpa ti", "tiles")])
def test_a_real_shell_completes(shell: str, words: str, offered: str, tmp_path: Path) -> None:
    """What the line of the reference does in a shell of its own, with the command as it is installed."""
    program, command = which(shell), Path(sys.executable).parent / "einc"
    if program is None or not command.exists():
        pytest.skip(f"no {shell} here" if program is None else "einc is not installed as a command")
    *flags, script = SHELLS[shell]
    env = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    said = subprocess.run([program, *flags, script.format(words=words, at=len(words.split()) - 1)], cwd=tmp_path,
                          env=env, capture_output=True, text=True, check=False)
    assert offered in said.stdout.split(), said.stderr


# doctor


def test_the_doctor_runs_what_is_here() -> None:
    said = einc_("doctor").stdout
    assert "ok  back end torch" in said
    found = {one["about"]: one for one in json.loads(einc_("doctor", "--json").stdout)}
    assert {"einc", "torch", "C++ compiler", "GPU", "back end cpp", "back end triton", "cache"} <= found.keys()
    assert found["back end torch"]["said"].endswith("right")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_a_shell_are_those_that_it_reads(shell: str) -> None:
    page = (Path(__file__).parent.parent / "grammar/README.md").read_text(encoding="utf-8")
    assert f"_EINC_COMPLETE={shell}_source einc" in page
    done = CliRunner().invoke(main, env={"_EINC_COMPLETE": f"{shell}_source"}, prog_name="einc")
    assert "_EINC_COMPLETE" in done.output
