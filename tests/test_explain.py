"""The error index: made from the classes alone, up to date, and true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from einc.checking.edits import apply, certain
from einc.driver import pipeline
from einc.driver.cli import main
from einc.driver.commands import error_index, kinds
from einc.errors.report import Problem, Report, Source

PAGE = Path(__file__).parent.parent / "specs" / "ERRORS.md"
DOCUMENTS = [kind for _, kind in sorted(Problem.registry.items()) if not kind.example_name.endswith(".ein")]


def test_the_page_is_up_to_date() -> None:
    made = error_index.index()
    assert PAGE.read_text(
        encoding="utf-8") == made, "look at the change, then: einc explain --markdown > specs/ERRORS.md"


def test_every_code_has_one_anchor_that_the_contents_link_to() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r'<a id="([ew]\d{4})">', page)) == sorted(code.lower() for code in Problem.registry)
    assert sorted(re.findall(r"\(#([ew]\d{4})\)", page)) == sorted(code.lower() for code in Problem.registry)
    assert {code[1:3] for code in Problem.registry} == error_index.FAMILIES.keys()


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.code)
def test_a_document_that_is_an_example_gives_its_own_problem(kind: type[Problem]) -> None:
    problems = kinds.problems_of(kind)
    assert problems
    for problem in problems:
        assert type(problem) is kind
        assert problem.span is not None
        assert problem.notes or problem.helps, "an error says what could be done"


def test_what_is_certain_mends_the_example() -> None:
    mended = 0
    for kind in Problem.registry.values():
        if kind.example_name.endswith(".ein") and (edits := certain(kinds.problems_of(kind), kind.example_name)):
            report = Report()
            pipeline.check(Source(kind.example_name, apply(Source(kind.example_name, kind.example), edits)), report)
            assert kind.code not in {p.code for p in report.problems}
            mended += 1
    assert mended
    assert PAGE.read_text(encoding="utf-8").count("`einc check --fix` makes of it\n") == mended


def test_the_page_is_printed_by_the_command() -> None:
    assert CliRunner().invoke(main, ["explain", "--markdown"]).stdout == PAGE.read_text(encoding="utf-8")
    refused = CliRunner().invoke(main, ["explain", "--markdown", "E0306"])
    assert refused.exit_code == 1
    assert "all codes" in refused.output
