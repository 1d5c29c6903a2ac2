"""The reference of the language, grammar/README.md: its examples run, and the sections that errors cite are there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import einc
from einc.checking.plans import ROWS
from einc.driver import pipeline
from einc.driver.cli import main
from einc.driver.reports.coverage import account
from einc.errors.report import Problem, Report, Source, render
from einc.ir.folds import FOLDS
from einc.ir.indices import CLASSES
from einc.ir.primitives import PRIMITIVES
from einc.syntax.spelling import GREEK, KEYWORDS, MACROS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "grammar" / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^(`{3,})([a-z]+)([^\n`]*)\n(.*?)^\1$", re.M | re.S)
SECTION = re.compile(r"^#{2,3} §(\d+(?:\.\d+)?) (.+)$", re.M)
UNUSED = "W0903"  # an example of one construct declares things that it does not go on to use


@dataclass(frozen=True)
class Example:
    """A fence of the page: the words after its language, its text, and the values that stand below it."""

    section: str
    words: tuple[str, ...]
    text: str
    values: str = ""


def fences() -> list[tuple[int, str, str, str]]:
    """Every fence: where it stands, its language, the words after that, and its text."""
    return [(m.start(), m[2], m[3].strip(), m[4]) for m in FENCE.finditer(PAGE)]


def section(at: int) -> str:
    """The number of the section in which a place of the page stands."""
    return next((m[1] for m in reversed(list(SECTION.finditer(PAGE, 0, at)))), "0")


def examples() -> list[Example]:
    """Every `ein` fence that is an example, with the `values` fence that follows it directly."""
    out: list[Example] = []
    for at, language, words, text in fences():
        if language == "ein" and words != "preamble":
            out.append(Example(section(at), tuple(words.split()), text))
        elif language == "values":
            last = out.pop()
            out.append(Example(last.section, last.words, last.text, text))
    return out


(PREAMBLE,) = (text for _, language, words, text in fences() if (language, words) == ("ein", "preamble"))
EXAMPLES = examples()
ENDINGS = {"markdown": "md", "latex": "tex"}
DOCUMENTS = [Example(section(at), tuple(words.split()), text, ENDINGS[language])
             for at, language, words, text in fences() if language in ENDINGS]
SECTIONS = {m[1]: m[2] for m in SECTION.finditer(PAGE)}


def whole(example: Example) -> str:
    """The text of an example with the preamble, where it is a fragment."""
    return PREAMBLE + example.text if example.words else example.text


def name(example: Example) -> str:
    lines = [line for line in example.text.splitlines() if not line.startswith("#")] or example.text.splitlines()
    return f"{example.section} {lines[0]}"


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_is_what_its_fence_says(example: Example) -> None:
    report = Report()
    pipeline.check(Source("example.ein", whole(example)), report)
    match example.words:
        case () | ("fragment",):
            wanted = []
        case ("error" | "warning", code):
            wanted = [code]
            said = f"# {code}: {Problem.registry[code].title}\n"
            assert example.text.startswith(said), "the mark of a fence is not shown to a reader"
        case _:
            pytest.fail(f"no fence is marked {' '.join(example.words)!r}")
    found = [p for p in report.problems if p.code != UNUSED or not example.words or UNUSED in wanted]
    assert [p.code for p in found] == wanted, "\n".join(map(render, found))


@pytest.mark.parametrize("example", [x for x in EXAMPLES if x.values], ids=name)
def test_the_interpreter_gives_the_values_that_are_shown(example: Example) -> None:
    said = {left.strip(): ast.literal_eval(right.strip().replace("inf", "1e999"))
            for left, right in (line.split("=", 1) for line in example.values.splitlines())}
    report = Report()
    program = pipeline.check(Source("example.ein", whole(example)), report)
    assert program is not None
    outputs = dict(program.outputs)
    inputs = {tensor.key for tensor in program.inputs()}
    sizes = {key: value for key, value in said.items() if key not in outputs and key not in inputs}
    found = einc.interpret(whole(example), {key: np.array(said[key]) for key in inputs}, sizes)
    assert said.keys() & outputs.keys(), "no output is shown"
    for key in said.keys() & outputs.keys():
        np.testing.assert_allclose(found[key], np.array(said[key], dtype=float), atol=5e-4, err_msg=key)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_document_on_the_page_is_what_its_fence_says(document: Example) -> None:
    """A fence names what becomes of each formula, or the problems that there are; so does the line above it."""
    before = PAGE[: PAGE.index(document.text)].splitlines()[-3]
    assert all(word in before for word in document.words), before
    found = Source(f"example.{document.values}", document.text)
    report = Report()
    try:
        made = account(pipeline.paper(found, report), kernels=False)
    except Problem as problem:
        assert document.words == (problem.code,)
        return
    problems = [*report.problems, *made.problems, *(p for entry in made.entries for p in entry.problems)]
    if re.match(r"[EW]\d{4}$", document.words[0]):
        assert document.words == tuple(p.code for p in problems)
    else:
        assert problems == []
        assert document.words == tuple(entry.status.split()[0] for entry in made.entries)


def test_sections_are_numbered_in_order() -> None:
    numbers = [tuple(map(int, number.split("."))) for number in SECTIONS]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(SECTION.findall(PAGE)), "a number stands twice"
    for chapter, *rest in numbers:
        assert not rest or rest[0] == 1 or (chapter, rest[0] - 1) in numbers


def test_every_section_with_a_rule_has_an_example() -> None:
    shown = {example.section for example in (*EXAMPLES, *DOCUMENTS)}
    chapters = {number for number in SECTIONS if f"{number}.1" in SECTIONS}
    assert SECTIONS.keys() - shown - chapters == set()


@pytest.mark.parametrize("code", sorted(Problem.registry))
def test_an_error_cites_a_section_that_is_there(code: str) -> None:
    kind = Problem.registry[code]
    assert kind.section in SECTIONS
    assert f"grammar/README.md §{kind.section}" in CliRunner().invoke(main, ["explain", code]).output


def test_an_error_is_named_in_the_section_that_it_cites() -> None:
    places = [(m.start(), m[1]) for m in SECTION.finditer(PAGE)] + [(len(PAGE), "")]
    texts = {number: PAGE[start:end] for (start, number), (end, _) in pairwise(places)}
    assert [code for code, kind in Problem.registry.items() if code not in texts[kind.section]] == []


def test_sections_that_the_sources_name_are_there() -> None:
    """In the compiler and its messages, and on the page itself."""
    for file in (ROOT / "compiler").rglob("*.py"):
        for number in re.findall(r"grammar/README\.md §(\d[\d.]*\d|\d)", file.read_text(encoding="utf-8")):
            assert number in SECTIONS, file
    assert set(re.findall(r"§(\d+(?:\.\d+)?)", PAGE)) <= SECTIONS.keys()


def test_every_word_of_the_language_is_on_the_page() -> None:
    """Keywords, classes, primitives, functions of the prelude, lines of plans: none is left out."""
    prelude = (ROOT / "grammar" / "prelude.ein").read_text(encoding="utf-8")
    defined = re.findall(r"^def (\w+?)(?:_\{\w\})?\(", prelude, re.M)
    callables = [row.name for row in PRIMITIVES.values() if row.callable]
    for word in (*KEYWORDS, *CLASSES, *FOLDS, *callables, *defined):
        assert re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", PAGE), word
    plans = PAGE.partition("\n## §12 Plans\n")[2].partition("\n## ")[0]
    assert all(re.search(rf"(?<![a-z]){word} ", plans) for word in ROWS)


def test_every_macro_of_the_language_is_on_the_page_or_a_greek_letter() -> None:
    known = {name for name in MACROS if name not in GREEK and name not in PRIMITIVES and name not in FOLDS}
    assert sorted(name for name in known if rf"\{name}" not in PAGE) == []
