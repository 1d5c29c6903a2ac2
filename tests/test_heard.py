"""Sentences that nothing understands are told under the equations that they may change; `--strict` refuses these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from einc.documents.asking import side_file
from einc.documents.coverage import Unheard
from einc.documents.report import as_text, sentence
from einc.driver.cli import main
from einc.driver.reports.coverage import account
from tests.sentences_beside import ALL, HARMLESS, HOSTILE, SHAPES
from tests.test_sections import entries, paper

SHAPED = r"Let $X \in \mathbb{R}^{n \times d}$ and $W \in \mathbb{R}^{d \times d}$." + "\n\n"
NONE = Unheard((), ())
LISTED = 10  # of the harmless sentences, those that are told all the same


def told(text: str, side: str = "") -> list[list[str]]:
    """The sentences that are told under each equation of the displays that is compiled."""
    found = account(paper(text, side), kernels=False)
    return [[sentence(y) for part in (found.unheard.get(x.number, NONE),) for y in (*part.beside, *part.elsewhere)]
            for x in found.entries if x.display and x.status == "compiled"]


@pytest.mark.parametrize(("words", "equation"), HOSTILE, ids=[x[0] for x in HOSTILE])
def test_words_that_change_a_formula_are_a_question_or_told(words: str, equation: str) -> None:
    found = account(paper(f"{SHAPES}\n\n{words}\n\n$$ {equation} $$"), kernels=False)
    entry = found.entries[-1]
    assert entry.status == "skipped" or (entry.sure == "doubtful" and [
        sentence(x) for x in found.unheard[entry.number].beside] == [words])


def test_harmless_sentences_are_no_question_and_seldom_told() -> None:
    listed = 0
    for words in HARMLESS:
        found = [x for x in account(paper(ALL.replace("SENTENCE", words)), kernels=False).entries if x.display]
        assert {x.status for x in found} == {"compiled"}, words
        listed += any(x.sure == "doubtful" for x in found)
    assert listed <= LISTED


@pytest.mark.parametrize(("text", "wanted"), [
    # the paragraph of a display, the one before it and the one behind it, up to a heading or another display
    ("It flips.\n\n$$ Y = X W $$", [["It flips."]]),
    ("It flips.\n$$ Y = X W $$\nIt flops.", [["It flips.", "It flops."]]),
    ("It flips.\n\nWe compute this.\n\n$$ Y = X W $$", [[]]),
    ("It flips.\n\nWe compute\n$$ Y = X W $$", [["It flips."]]),
    ("$$ Y = X W $$\n\nIt flops.", [["It flops."]]),
    ("$$ Y = X W $$\n\n# Next\n\nIt flops.", [[]]),
    ("It flips.\n\n# Next\n\n$$ Y = X W $$", [[]]),
    ("It flips.\n\n$$ Y = X W $$\n\n$$ Z = X + X $$", [["It flips."], ["It flips."]]),
    ("It flips.\n\n$$ Y = X W $$\n\nWe compute\n\n$$ Z = X + X $$", [["It flips."], []]),
    # letters, functions and numbers, anywhere
    ("$$ Y = X W $$\n\n# Next\n\n$W$ flips.", [["$W$ flips."]]),
    ("$$ Y = X W $$\n\n# Next\n\n$V$ flips.", [[]]),
    ("$$ Y = \\log(X) $$\n\n# Next\n\nLogarithms flip.", [["Logarithms flip."]]),
    ("$$ Y = \\mathrm{softmax}(X X^\\top) X $$\n\n# Next\n\nScores flip.", [["Scores flip."]]),
    ("$$ Y = X W \\tag{7} $$\n\n# Next\n\nEquation (7) flips.", [["Equation (7) flips."]]),
    ("$$ Y = X W \\tag{7} $$\n\n# Next\n\nEquation (8) flips.", [[]]),
    # what is no prose
    ("<!-- It flips. -->\n\n$$ Y = X W $$", [[]]), ("`It flips.`\n\n$$ Y = X W $$", [[]]),
    # an entry in a line of text
    ("We set $W_{11} = 0$.\n\n$$ Y = X W $$", [["We set $W_{11} = 0$."]]),
])
def test_which_sentences_are_told_of_an_equation(text: str, wanted: list[list[str]]) -> None:
    assert told(SHAPED + text) == wanted


TEXT = SHAPED + 'Rows "swap" places. It is\n\n$$ Y = X W $$\n\nand then\n\n$$ Z = Y W $$\n\n$W$ flips.\n'


def test_the_report_tells_each_sentence_in_full_once() -> None:
    shown = as_text(account(paper(TEXT), kernels=False))
    assert shown.count("flips.") == 1 and shown.count("elsewhere that name a part of it: lines 11") == 1
    assert 'sentence not understood (line 3): Rows "swap" places.' in shown
    assert shown.count("doubtful") == 2


def test_a_side_file_says_that_a_sentence_changes_nothing() -> None:
    asked = side_file(account(paper(TEXT), kernels=False))
    assert '# ignore "$W$ flips."  # line 11' in asked
    settled = asked.replace("# ignore", "ignore")
    assert told(TEXT, settled) == [[], []] and "Nothing is open" in side_file(account(paper(TEXT, settled)))
    assert told(TEXT, 'ignore "swap"\n') == [["$W$ flips."], ["$W$ flips."]]


def test_the_report_counts_the_sentences_that_are_ignored() -> None:
    text = SHAPED + "Rows swap. They flip.\n\n$$ Y = X W $$\n\nRows swap again."
    shown = as_text(account(paper(text, 'ignore "Rows swap"\nignore "They flip"\n'), kernels=False))
    assert "ignored:  2 sentences with `Rows swap` (line 3, line 7)" in shown
    assert "ignored:  1 sentence with `They flip` (line 3)" in shown


def test_what_is_ignored_asks_no_question() -> None:
    text = SHAPED + "$X$ is first negated.\n\n$$ Y = X W $$"
    assert entries(text)[-1].status == "skipped"
    assert entries(text, 'ignore "is first negated"\n')[-1].status == "compiled"


def invoked(*args: str) -> tuple[int, str]:
    """The status and all output of a command."""
    found = CliRunner().invoke(main, [*args])
    return found.exit_code, found.output


def test_strict_refuses_equations_with_sentences_that_are_not_understood(tmp_path: Path) -> None:
    file, side = tmp_path / "a.md", tmp_path / "side.ein"
    file.write_text(SHAPED + "Rows swap.\n\n$$ Y = X W $$\n", encoding="utf-8")
    side.write_text('ignore "Rows swap"\n', encoding="utf-8")
    status, shown = invoked("doc", str(file), "--strict")
    assert status == 1 and "skipped" in shown and '`ignore "Rows swap."`' in shown
    for command in (("check",), ("compile", "-o", str(tmp_path / "a.py"))):
        assert invoked(command[0], str(file), "--strict", *command[1:])[0] == 1
    assert invoked("doc", str(file), "--strict", "--with", str(side))[0] == 0
    assert invoked("check", str(file), "--strict", "--with", str(side))[0] == 0


def test_words_that_no_sentence_has_are_an_error(tmp_path: Path) -> None:
    file, side = tmp_path / "a.md", tmp_path / "side.ein"
    file.write_text(SHAPED + "$$ Y = X W $$\n", encoding="utf-8")
    for words in ("of nothing", "", " "):
        side.write_text(f'ignore "{words}"\n', encoding="utf-8")
        status, shown = invoked("doc", str(file), "--with", str(side))
        assert status == 1 and "E0804" in shown and "no sentence" in shown
    side.write_text("ignore it\n", encoding="utf-8")
    assert invoked("doc", str(file), "--with", str(side))[0] == 1


def test_data_and_page_have_the_sentences(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text(SHAPED + "Rows <, swap>, see $X$.\n\n$$ Y = X W $$\n", encoding="utf-8")
    data = json.loads(invoked("doc", str(file), "--format", "json")[1])
    assert data["equations"][-1]["unheard"] == [
        {"file": str(file), "line": 3, "column": 1, "text": "Rows <, swap>, see $X$."}]
    page = invoked("doc", str(file), "--format", "html")[1]
    assert "sentence not understood" in page and "Rows &lt;, swap&gt;" in page


def test_python_is_no_spec(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("def f(x):\n    return x\n", encoding="utf-8")
    for command in (("compile",), ("to", "einsum"), ("show",)):
        status, shown = invoked(*command, str(file))
        assert status != 0 and "is Python, and no spec" in shown and f"einc from {file}::FUNCTION" in shown


def test_a_sign_for_sections_is_no_mark_of_the_reader(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    for words in ("The mask is multiplied as in §3.", "Here $W$ is divided by what §3 says.", "Not § 3: this."):
        file.write_text(f"{SHAPED}{words}\n\n$$ Y = X W $$\n", encoding="utf-8")
        assert invoked("doc", str(file))[0] in (0, 1)


@pytest.mark.parametrize("words", ["The entries of this are Negated.", "The model is NEGATED.", "The inverse is used.",
                                   "A residual connection is used around this.", "This is the Hadamard product."])
def test_names_and_operations_that_no_formula_has_are_told(words: str) -> None:
    assert told(f"{SHAPED}{words}\n\n$$ Y = X W $$") in ([[words]], [])


def test_what_is_ignored_are_whole_words(tmp_path: Path) -> None:
    file, side = tmp_path / "a.md", tmp_path / "side.ein"
    file.write_text(SHAPED + "Rows swap.\n\n$$ Y = X W $$\n", encoding="utf-8")
    for words, status in ((".", 1), ("s", 1), ("swap", 0)):
        side.write_text(f'ignore "{words}"\n', encoding="utf-8")
        assert invoked("doc", str(file), "--strict", "--with", str(side))[0] == status, words
