"""What specs/ERRATA.md quotes of the checker is what the checker says."""

from __future__ import annotations

import re

import pytest
from programs import FILES, SPECS

from einc.driver import pipeline
from einc.errors.report import Report, Source

TEXT = (SPECS / "ERRATA.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^```ein\n(.*?)^```\n\neinc check: ([^\n]+)$", flags=re.MULTILINE | re.DOTALL)
TITLES = re.compile(r"^## (.+)$", flags=re.MULTILINE)


def title(position: int) -> str:
    return [found[1] for found in TITLES.finditer(TEXT) if found.start() < position][-1]


ENTRIES = [pytest.param(found[1], found[2], id=title(found.start()).split(":")[0]) for found in ENTRY.finditer(TEXT)]


@pytest.mark.parametrize(("text", "codes"), ENTRIES)
def test_the_checker_says_so_of_the_original(text: str, codes: str) -> None:
    report = Report()
    pipeline.check(Source("original.ein", text), report)
    assert sorted({problem.code for problem in report.problems}) == ([] if codes == "ok" else codes.split())


def test_every_original_has_a_verdict_and_every_spec_that_is_named_is_there() -> None:
    assert TEXT.count("```ein") == len(ENTRIES)
    names = {case.name for case in FILES}
    named = set(re.findall(r"`(?:gallery/)?([a-z_]+)`", re.sub(r"```ein.*?```", "", TEXT, flags=re.DOTALL)))
    assert {"attention", "mtp", "yarn_parts", "mla_rope"} <= named & names
    assert named - names <= {"h", "ok", "einc"}
