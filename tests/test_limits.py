"""What is no file, or has more in it than is read, is refused with its size and the limit before it is read."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner, Result

from einc.driver.cli import main
from einc.driver.commands import data
from einc.driver.files import contents, same, size

SPEC = "index t : time(T)\ninput x_t\noutput y_t = 2 x_t\n"


def run(*words: str, given: str | None = None) -> Result:
    """The command; a pipe that is opened would wait for ever, so nothing that is refused may be."""
    done = CliRunner().invoke(main, list(words), input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def loop(folder: Path) -> Path:
    path = folder / "loop.ein"
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("command", ["check", "compile", "show", "fmt", "tex", "derive", "prove", "cost", "run"])
def test_a_device_and_a_pipe_are_refused_before_they_are_read(command: str, tmp_path: Path) -> None:
    device, pipe = tmp_path / "zeros.ein", tmp_path / "pipe.ein"
    device.symlink_to("/dev/zero")
    os.mkfifo(pipe)
    for path in (device, pipe):
        done = run(command, str(path))
        assert done.exit_code == 1
        assert "a device or a pipe" in done.output
        assert "help:" in done.output


@pytest.mark.parametrize("ending", ["md", "tex", "txt"])
def test_a_paper_that_is_a_pipe_is_refused(ending: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"p.{ending}"
    os.mkfifo(pipe)
    done = run("doc", str(pipe))
    assert done.exit_code == 1
    assert "a device or a pipe" in done.output


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ein"
    with open(path, "wb") as file:
        file.truncate(10**12)  # a hole: it takes no room
    monkeypatch.setattr("einc.driver.files.contents", lambda *_: pytest.fail("it is read"))
    done = run("check", str(path))
    assert done.exit_code == 1
    assert "1,000,000,000,000 bytes, more than the 2,000,000 characters" in done.output


@pytest.mark.parametrize("words", [
    ("compile", "{}", "-o", "{}.py"), ("compile", "{}", "-o", "{}"), ("doc", "{}", "-o", "{}.html"), ("check", "{}"),
    ("fmt", "{}", "-w"), ("run", "{}", "--verify"), ("prove", "{}"), ("show", "{}"),
])
def test_a_link_to_itself_is_told_in_a_line(words: tuple[str, ...], tmp_path: Path) -> None:
    path = loop(tmp_path)
    done = run(*(word.format(path) for word in words))
    assert done.exit_code == 1
    assert "error" in done.output


@pytest.mark.parametrize("target", ["out.py", "loop.ein"])
def test_an_output_that_is_a_link_to_itself_is_told_in_a_line(target: str, tmp_path: Path) -> None:
    spec = tmp_path / "a.ein"
    spec.write_text(SPEC, encoding="utf-8")
    loop(tmp_path)
    done = run("compile", str(spec), "-o", str(tmp_path / target))
    assert done.exit_code == (1 if target == "loop.ein" else 0), done.output
    link = tmp_path / "link.ein"
    link.symlink_to(spec)
    assert same(link, spec)
    assert "not overwritten" in run("compile", str(spec), "-o", str(link)).output


@pytest.mark.parametrize("factor", [2, 50])
def test_an_archive_that_unpacks_to_too_much_is_refused(factor: int, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "UNPACKED", 10_000)
    spec, bomb, plain = tmp_path / "a.ein", tmp_path / "bomb.npz", tmp_path / "plain.npz"
    spec.write_text(SPEC, encoding="utf-8")
    np.savez_compressed(bomb, x=np.zeros(5_000 * factor, np.float32))
    np.savez(plain, x=np.zeros(5_000 * factor, np.float32))
    assert run("run", str(spec), "--data", str(plain)).exit_code == 0
    done = run("run", str(spec), "--data", str(bomb))
    assert done.exit_code == 1
    with zipfile.ZipFile(bomb) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    assert f"unpacks to {unpacked:,} bytes, more than the" in done.output
    assert "numpy.savez" in done.output


@pytest.mark.parametrize("name", ["pipe.npz", "pipe.safetensors"])
def test_data_that_is_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    spec, pipe = tmp_path / "a.ein", tmp_path / name
    spec.write_text(SPEC, encoding="utf-8")
    os.mkfifo(pipe)
    done = run("run", str(spec), "--data", str(pipe))
    assert done.exit_code == 1
    assert "a device or a pipe" in done.output


@pytest.mark.parametrize(("name", "head", "line"), [
    ("a.ein", SPEC, "z{} = 2\n"), ("a.md", "For $t \\in \\{1..T\\}$ (time)\n\n", "and $z{}_t = y_t$\n\n"),
    ("a.md", "```ein\n", "input z{}\n")])
def test_more_equations_than_are_read_are_refused(name: str, head: str, line: str, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("syntax.lines", "checking.checker", "driver.papers", "syntax.texts"):
        monkeypatch.setattr(f"einc.{module}.MAX_STATEMENTS", 20)
    path = tmp_path / name
    end = "```\n" if "```" in head else ""
    for many, status in ((10, 0), (40, 1)):
        path.write_text(
            head + "".join(line.format("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"[n]) for n in range(many)) + end)
        done = run("doc" if name.endswith("md") else "check", str(path))
        assert done.exit_code == status, done.output
        assert ("more than the 20 that are read" in done.output) is bool(status), done.output
        assert not status or f"has {many + (3 if name == 'a.ein' else 'For' in head)} " in done.output


def test_the_specs_that_a_text_uses_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("syntax.lines", "checking.checker", "syntax.texts"):
        monkeypatch.setattr(f"einc.{module}.MAX_STATEMENTS", 20)
    (tmp_path / "base.ein").write_text(SPEC + "".join(f"{x} = 2\n" for x in "abcdefghijkl"), encoding="utf-8")
    (tmp_path / "top.ein").write_text('use "base"\n' + "".join(f"{x} = 2\n" for x in "ABCDEFGHIJKL"), encoding="utf-8")
    assert run("check", str(tmp_path / "base.ein")).exit_code == 0
    done = run("check", str(tmp_path / "top.ein"))
    assert done.exit_code == 1
    assert "with the specs that it uses the text has 27 statements, more than the 20 that are read" in done.output


def test_contents_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert contents(path, 5) == b"12345"
    assert size(path) == 5
    with pytest.raises(OSError, match="5 bytes, more than the 4"):
        contents(path, 4)


def test_standard_input_is_a_file_of_the_name_minus(tmp_path: Path) -> None:
    assert run("check", "-", given=SPEC).exit_code == 0
    done = run("check", "-", given=SPEC.replace("2 x_t", "2 q_t"))
    assert done.exit_code == 1
    assert "<stdin>:3:" in done.output
    assert "standard input is none" in run("check", "-", "--fix", given=SPEC).output
    assert "def stdin" in run("compile", "-", given=SPEC).output
    assert "more than the 2,000,000 characters" in run("check", "-", given="# " + "x" * 9_000_000).output


def test_a_spec_with_a_similar_name_is_named() -> None:
    """Of every spec that comes with einc one letter is doubled, left out or exchanged:
    the one that is named is there."""
    draw = Random(3)
    names = sorted(x.stem for x in (Path(__file__).parent.parent / "specs").glob("*.ein")
                   if len(x.stem) > 3 and x.stem != "paper")
    for name in draw.sample(names, 12):
        at = draw.randrange(1, len(name))
        slip = draw.choice([name[:at] + name[at] + name[at:], name[:at] + name[at + 1 :],
                            name[:at] + "q" + name[at + 1 :]])
        if slip in names:
            continue
        done = run("check", slip)
        near = re.search(r"a similar name: `([^`]+)`", done.output)
        assert near is not None, (slip, done.output)
        assert run("check", near[1]).exit_code == 0
    assert "similar" not in run("check", "xyzzyquux").output
