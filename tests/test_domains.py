"""Conditions on positions in the words beside a display: they are its domain where its left side has their letters, and
else a question; and powers of e beside a tensor e.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

FEATURES = "Let $i, j \\in \\{1, \\dots, n\\}$.\n\n"
A, B = np.random.default_rng(4).normal(size=(2, 5))
SUM = "$$y_i = \\sum_j S_{ij}$$"


@pytest.mark.parametrize(("before", "behind"), [
    ("We have", "for $j \\le i$."), ("For $j \\le i$ let", "and"), ("For all $j \\le i$ we set", ""),
    ("If $j \\le i$, then", ""), ("Let", "where $j \\le i$, and"), ("Let", "whenever $j \\le i$. Then"),
    ("For $i \\ge j$ the scores are", "")])
def test_a_condition_in_the_words_is_the_domain(before: str, behind: str) -> None:
    text = f"{FEATURES}{before}\n\n$$S_{{ij}} = a_i b_j$$\n\n{behind}\n\n{SUM}"
    right = [sum(A[i] * B[j] for j in range(i + 1)) for i in range(5)]
    np.testing.assert_allclose(returned(text, "", {"a": A, "b": B})["y"], right)


@pytest.mark.parametrize(("before", "behind"), [
    ("We have", "if $j$ is at most $i$."), ("We have", "whenever $j$ precedes $i$."), ("If $j$ exceeds $i$, then", ""),
    ("Where $j$ is smaller than $i$,", ""), ("For past positions $j$,", ""), ("We have", "for earlier positions $j$."),
    ("We have", "unless $j \\le i$."), ("We have", "except for $j \\le i$."),
    ("For $j \\le i$ let", "and zero otherwise."), ("We have", "for $j \\le i$, and $0$ otherwise."),
    ("We have", "for $j \\le i$ and $-\\infty$ elsewhere.")])
def test_conditions_in_words_alone_are_a_question(before: str, behind: str) -> None:
    text = f"{FEATURES}{before}\n\n$$S_{{ij}} = a_i b_j$$\n\n{behind}\n\n{SUM}"
    assert [x.status for x in entries(text) if x.display] == ["skipped", "skipped"]


@pytest.mark.parametrize(("before", "behind"), [
    ("We have", "for all $i$ and $j$."), ("We have", "where $a_i$ is given."), ("Let $j \\le i$ be two places.", ""),
    ("We have", "The case $j \\le i$ comes later."), ("We know $j \\le i$ from above. Now let", "")])
def test_other_words_say_no_domain(before: str, behind: str) -> None:
    text = f"{FEATURES}{before}\n\n$$S_{{ij}} = a_i b_j$$\n\n{behind}\n\n{SUM}"
    np.testing.assert_allclose(returned(text, "", {"a": A, "b": B})["y"], A * B.sum())


def test_of_several_equations_of_a_display_it_is_the_domain_of_each() -> None:
    rows = "\\begin{align} S_{ij} &= a_i b_j \\\\ R_{ij} &= 2 a_i b_j \\end{align}"
    text = f"{FEATURES}{rows}\n\nfor $j \\le i$. Then\n\n$$y_i = \\sum_j S_{{ij}} + \\sum_j R_{{ij}}$$"
    right = [sum(3 * A[i] * B[j] for j in range(i + 1)) for i in range(5)]
    np.testing.assert_allclose(returned(text, "", {"a": A, "b": B})["y"], right)


def test_what_a_condition_limits_in_a_sum_is_a_question() -> None:
    found = entries(f"{FEATURES}$$y_i = \\sum_j a_i b_j$$\n\nfor $j \\le i$.")[-1]
    assert found.status == "skipped" and "limit what is summed" in found.reason
    assert entries(f"{FEATURES}$$y_i = \\sum_{{j \\le i}} a_i b_j$$\n\nfor $j \\le i$.")[-1].status == "compiled"


@pytest.mark.parametrize("power", ["e^{j}", "e^j", "e^2"])
def test_a_power_of_e_beside_a_tensor_e_is_a_question(power: str) -> None:
    assert entries(f"{FEATURES}$$y_j = {power} e_j$$")[-1].status == "skipped"
    assert entries(f"{FEATURES}$$y_j = {power} a_j$$\n\nwhere $e_j$ is given.")[0].status == "skipped"
    assert entries(f"{FEATURES}$$y_j = {power} a_j$$")[-1].status == "compiled"


def test_the_exponential_of_a_tensor_e() -> None:
    np.testing.assert_allclose(returned(f"{FEATURES}$$y_j = e^{{e_j}}$$", "", {"e": A})["y"], np.exp(A))
