"""Texts that an editor has open stand before those on the disk, wherever a text is read: as a file, a used spec, a
called one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from einc.driver import pipeline
from einc.driver.sources import DISK, Sources, is_spec
from einc.errors.report import Problem, Report, Source
from einc.ir.programs import TypedProgram

BASE = "index t : time(T)\ninput x_t\noutput y_t = 2 x_t\n"
BROKEN = "index t : time(T)\ninput x_t\noutput y_t = 2 q_t\n"


def checked(path: Path, sources: Sources) -> tuple[TypedProgram | None, list[str]]:
    report = Report()
    program = pipeline.check(pipeline.read_source(path, report, sources), report, sources=sources)
    return program, [p.code for p in report.problems]


def test_an_open_text_stands_before_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text(BASE, encoding="utf-8")
    assert checked(file, Sources({str(file): BROKEN}))[1] == ["E0201"]
    assert checked(file, DISK)[1] == []
    assert checked(tmp_path / "new.ein", Sources({str(tmp_path / "new.ein"): BASE}))[1] == []
    assert checked(tmp_path / "new.ein", DISK)[1] == ["E0114"]


@pytest.mark.parametrize("other", ["{0}/x/../a.ein", "{0}//a.ein", "{0}/./a.ein"])
def test_a_path_is_one_file_however_it_is_written(tmp_path: Path, other: str) -> None:
    assert checked(tmp_path / "a.ein", Sources({other.format(tmp_path): BASE}))[0] is not None


@pytest.mark.parametrize("top", ['use "base"\noutput z_t = y_t\n',
                                 "index t : time(T)\ninput w_t\noutput z_t = base(x = w_t)\n"])
def test_open_specs_use_and_call_one_another(tmp_path: Path, top: str) -> None:
    """Neither is on the disk; then one of them is, and its open text is the one that is read."""
    names = {name: str(tmp_path / f"{name}.ein") for name in ("top", "base")}
    program, found = checked(Path(names["top"]), Sources({names["top"]: top, names["base"]: BASE}))
    assert program is not None and found == []
    (tmp_path / "base.ein").write_text(BASE, encoding="utf-8")
    assert checked(Path(names["top"]), Sources({names["top"]: top}))[1] == []
    program, found = checked(Path(names["top"]), Sources({names["top"]: top, names["base"]: BROKEN}))
    assert program is None and "E0201" in found


def test_fixes_and_layout_see_open_texts(tmp_path: Path) -> None:
    """An edit is offered where it mends the text with what is open beside it."""
    sources = Sources({str(tmp_path / "base.ein"): BASE})
    source, report = Source(str(tmp_path / "top.ein"), 'use "base"\noutput z_t = y_t)\n'), Report()
    pipeline.check(source, report, sources=sources)
    pipeline.advise(source, report, sources)
    (problem,) = report.problems
    assert [h.new for h in problem.helps] == [""]
    sound = Source(source.name, source.text.replace(")", ""))
    assert pipeline.formatted(sound, "unicode", Report(), sources) == 'use "base"\noutput z_t = y_t\n'
    assert len(pipeline.used(pipeline.syntax(sound, Report()), sources)) == 2
    assert pipeline.find(sound, "base", Report(),
                         sources) is not None and pipeline.find(sound, "base", Report()) is None


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "bytes.ein").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.ein", tmp_path, tmp_path / "bytes.ein", "a\0.ein"):
        assert isinstance(DISK.read(path), Problem)
    assert isinstance(DISK.named("attention"), Source)
    assert isinstance(Sources({"attention": BASE}).named("attention"), Source)
    assert Sources({"attention": BASE}).named("attention").text == BASE  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "spec"), [
    ("a.ein", True), ("A.EIN", True), ("attention", True), ("<text>", True), ("a.md", False)])
def test_specs_by_name(name: str, spec: bool) -> None:
    assert is_spec(name) is spec and pipeline.is_document(name) is not spec


def test_a_spec_of_einc_uses_specs_of_einc_whatever_stands_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`alibi` uses `attention`; a reader's own `specs/attention.ein` is for the reader's files beside it."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "attention.ein").write_text(BASE, encoding="utf-8")
    (tmp_path / "specs" / "mine.ein").write_text('use "attention"\noutput z_t = y_t\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert checked(Path("alibi"), DISK)[1] == []
    program, found = checked(Path("specs/mine.ein"), DISK)
    assert found == []
    assert program is not None
    assert [name for name, _ in program.outputs][-1:] == ["z"]
