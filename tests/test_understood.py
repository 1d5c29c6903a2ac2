"""A sentence is understood where readers used its words: what of it none used is told, and so are words that stand in
brackets, headings, displays, links and other alphabets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from einc.documents.clauses import Prose
from einc.documents.heard import unheard, unheard_of
from einc.documents.understood import Understood
from einc.driver.papers import paper as read
from einc.errors.report import Report, Source
from tests.sentences_apart import APART, MENDED
from tests.sentences_beside import ALL, HARMLESS, HOSTILE, SCORES, SHAPES
from tests.sentences_further import HARMLESS_LATER, LATER, REVIEWED, SILENT
from tests.sentences_second import HARMLESS_SECOND, SECOND
from tests.test_documents_sources import calls
from tests.test_sections import entries, paper

PAPERS = Path(__file__).parent / "papers"
TOLD_LATER = 7  # of the later harmless sentences


def strangers(words: str, equation: str = "Z = X W") -> list[str]:
    """The sentences of a text before an equation that are not understood."""
    return [x.span.text for x in unheard(paper(f"{SHAPES}\n\n{words}\n\n$$ {equation} $$"))]


def doubted(words: str, equation: str) -> bool:
    """Whether an equation behind some words is a question, or doubtful."""
    found = paper(f"{SHAPES}\n\n{words}\n\n$$ {equation} $$")
    return found.said[-1].problem is not None or found.said[-1] in unheard_of(found)
# Of sentences that change a formula and of those that change none: how many are silent, and how many are told. These
# figures may only fall. Nothing was mended after those that are kept apart.
SILENT_SECOND, SILENT_MENDED, SILENT_APART, TOLD_SECOND = 11, 6, 6, 13


# What a reader used, with what no reader used behind it.
USED = [
    (r"where $\sigma$ is the logistic sigmoid", r"Z = \sigma(X W)"),
    (r"where $x_i$ is the $i$-th row of $X$", "Z = X W"),
    ("where the softmax is taken row-wise", SCORES),
    ("where the softmax is over each row", SCORES),
    (r"where $\odot$ denotes the Hadamard product", r"Z = X \odot Y"),
    (r"Here $\tau$ is a positive scalar", r"Z = \tau X"),
    ("All vectors are column vectors", "z = W u"),
    (r"where $t \in \{1, \dots, T\}$ (time)", "Z = X W"),
    (r"with pairwise biases $B \in \mathbb{R}^{n \times n}$", "Z = X W"),
    ("The dispatch weights are", "Z = X W"),
]


@pytest.mark.parametrize(("words", "equation"), USED, ids=[x[0] for x in USED])
def test_what_a_reader_used_is_understood_and_its_other_half_is_told(words: str, equation: str) -> None:
    assert not strangers(words, equation)
    for half in (f"{words}, and all of it is perturbed.", f"{words} without the usual sign."):
        assert strangers(half, equation)


@pytest.mark.parametrize(("formula", "wanted"), [
    ("W", True), ("X W", True), (r"d \times n", True), (r"\mathcal{O}(n^2 d)", True), (r"X, Y", True),
    (r"\beta > 0", True), (r"W^{-1}", False), (r"W^\top", False), ("W^2", False), ("2", False), (r"\alpha", False),
    ("i = 2", False), ("W = 2W", False), (r"\ell_1", False), ("d = 64", True)])
def test_a_formula_in_a_line_is_understood_where_it_is_read_or_names_what_equations_have(
        formula: str, wanted: bool) -> None:
    assert bool(strangers(f"Here we have ${formula}$.")) is not wanted


@pytest.mark.parametrize(("text", "wanted"), [
    ("Here (all weights are negated as in 2019) we go on.", True), ("The rows are negated (1234 times).", True),
    ("This is as usual (see Ba et al., 2016; Wu and He, 2018b).", False), ("This is as usual (Ba, 2016).", False),
    ("# All products are taken modulo two", True), ("## Attention without the mask", True),
    ("## Multi-head attention", False), ("Матрица $W$ транспонирована.", True), ("结果取负。", True),
    ("Here [all weights are negated](x.md).", True), ("See [the code](http://a.b).", False),
    ("Here 50% of the entries are negated.", True), ("We propose to negate the output.", True),
    ("We use it upside down.", True)])
def test_no_place_hides_words(text: str, wanted: bool) -> None:
    assert doubted(text, "Z = X W") is wanted


def test_words_of_a_display_are_heard() -> None:
    assert doubted("", r"Z = \overbrace{X}^{\text{halved and sorted}} W")


@pytest.mark.parametrize("nth", range(0, 127, 16))
def test_sentences_of_a_reviewer_are_no_longer_silent(nth: int) -> None:
    words, equation = REVIEWED[nth]
    assert doubted(words, equation) or entries(f"{SHAPES}\n\n{words}\n\n$$ {equation} $$")[-1].status == "skipped"


@pytest.mark.whole
@pytest.mark.parametrize(("words", "equation"), [*REVIEWED, *LATER], ids=lambda x: x)
def test_no_hostile_sentence_is_silent(words: str, equation: str) -> None:
    entry = entries(f"{SHAPES}\n\n{words}\n\n$$ {equation} $$")[-1]
    assert (entry.status == "skipped" or entry.sure == "doubtful") is (words not in SILENT)


@pytest.mark.whole
def test_later_harmless_sentences_are_no_question_and_seldom_told() -> None:
    listed = 0
    for words in HARMLESS_LATER:
        found = [x for x in entries(ALL.replace("SENTENCE", words)) if x.display]
        assert {x.status for x in found} == {"compiled"}, words
        listed += any(x.sure == "doubtful" for x in found)
    assert listed <= TOLD_LATER


@pytest.mark.whole
def test_few_sentences_of_a_second_reviewer_and_of_those_kept_apart_are_silent() -> None:
    silent = [sum(not doubted(*x) for x in some) for some in (SECOND, MENDED, APART)]
    assert silent == [SILENT_SECOND, SILENT_MENDED, SILENT_APART]
    told = sum(doubted(x, "Z = X W") for x in HARMLESS_SECOND)
    assert told == TOLD_SECOND


@pytest.mark.parametrize(("words", "equation", "wanted"), [
    ("The counterexample is", "Z = X W", True), ("The derivative of the loss is", "Z = X W", True),
    ("In the backward pass, we have", "Z = X W", True), ("One could believe that", "Z = X W", True),
    ("The first row of $Z$ is", "Z = X W", True), ("The output is", "Z = X W", False), ("We compute", "Z = X W", False),
    ("The dispatch weights are", "Z = X W", False), ("In matrix form the layer reads", "Z = X W", False),
    ("The norm is the variance.", r"z = u / \|u\|", True), ("The keys are the values.", SCORES, True),
    ("The softmax has a learned temperature.", SCORES, True), ("A bias enters the scores.", SCORES, True),
    ("$X$ is the output of the softmax.", "Z = X W", True)])
def test_what_a_lead_or_a_property_says_is_judged_by_its_place(words: str, equation: str, wanted: bool) -> None:
    assert doubted(words, equation) is wanted


@pytest.mark.whole
def test_what_readers_used_takes_doubts_from_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doubtful equations of all papers among the tests, and those that there are where no reader says its words."""
    texts = [Source(x.name, x.read_text(encoding="utf-8")) for x in sorted(PAPERS.rglob("*")) if x.suffix in (
        ".md", ".tex")]

    def doubtful() -> int:
        return sum(bool(x.beside) for text in texts for x in unheard_of(read(text, Report())).values())

    most = doubtful()
    assert most <= 178
    monkeypatch.setattr(Understood, "without", lambda self, sentence, words: words)
    assert doubtful() - most >= 30


def growing(times: int) -> Callable[[], object]:
    """The hearing of a text of so many parts, of which each has sentences that are understood and some that are not,
    and all name the same letters."""
    odd = [*HARMLESS, *(x for x, _ in HOSTILE)]
    parts = (f"where $\\sigma$ is the sigmoid, and $q_i$ is the $i$-th row of $X$. The matrix $W$ flips. {odd[n % 120]}"
             f"\n\n$$ Z_{{{n}}} = X W $$\n\n# Part {n}" for n in range(times))
    found = paper("\n\n".join((SHAPES, *parts)))
    return lambda: (Prose.of(found.document), unheard_of(found))


def test_work_grows_with_the_sentences() -> None:
    growing(2)()
    assert math.log(calls(growing(64)) / calls(growing(16)), 4) <= 1.2


def test_of_many_sentences_elsewhere_the_first_are_told() -> None:
    found = paper("\n\n".join((SHAPES, "$$ Z = X W $$", "# Next", *["The matrix $W$ flips."] * 60)))
    (told,) = unheard_of(found).values()
    assert len(told.elsewhere) == 50 and told.more and not told.beside
