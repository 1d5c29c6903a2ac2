r"""Steps of arguments in papers: arrows that say what a name becomes, and facts like `U^\top U = I` that proofs use."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

SIDE = "matrix X : T × d\nmatrix W, U, V : d × d\nindex i : head(h)\n"
SIDE += "matrix A^{(i)}, B^{(i)} : d × d\nindex t : time(T)\n"
BEFORE = "# P\n\nIn the beginning $K = X W$ and $M^{(i)} = X A^{(i)}$.\n\n"


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


# arrows


@pytest.mark.parametrize("arrow", [r"\longrightarrow", r"\rightarrow"])
def test_an_arrow_says_what_a_name_becomes(arrow: str) -> None:
    text = BEFORE + rf"This means that $$K {arrow} X U V$$ and $$S = K K^\top$$" + "\n"
    found = [x for x in entries(text, SIDE) if x.display]
    assert [(x.status, x.sure) for x in found] == [("compiled", "inferred"), ("compiled", "declared")]
    assert found[0].reason == "what the arrow leads to is what the name is in this section"
    x, u, v = draw(5, 3), draw(3, 3), draw(3, 4)[:, :3]
    made = returned(text, SIDE, {"X": x, "U": u, "V": v}, T=5, d=3)
    np.testing.assert_allclose(made["S"], (x @ u @ v) @ (x @ u @ v).T, rtol=1e-9)


def test_several_arrows_stand_below_each_other_and_hold_of_each_head() -> None:
    text = BEFORE + "We substitute:\n\n" + (
        r"$$\begin{aligned} M^{(i)} &\longrightarrow X B^{(i)} A^{(i)} \\ K &\longrightarrow X U \end{aligned}$$")
    assert [x.status for x in entries(text, SIDE) if x.display] == ["compiled", "compiled"]
    x, a, b, u = draw(5, 3), draw(2, 3, 3), draw(2, 3, 4)[:, :, :3], draw(3, 3)
    made = returned(text, SIDE, {"X": x, "A": a, "B": b, "U": u}, T=5, d=3, h=2)
    np.testing.assert_allclose(made["M"], x @ b @ a, rtol=1e-9)
    np.testing.assert_allclose(made["K"], x @ u, rtol=1e-9)


@pytest.mark.parametrize("shown", [
    r"$$K \longrightarrow K U$$",  # a step of a recurrence
    r"$$K \longrightarrow X$$", r"$$K \longrightarrow 0$$",  # a limit, a second name
    r"$$R \longrightarrow X U$$",  # of which nothing was said
    r"$$K \longrightarrow X U \longrightarrow X V$$",  # a diagram
    r"$$M^{(i)} \longrightarrow X U$$",  # the letter is lost
    r"$$K \longrightarrow U X$$", r"$$K \longrightarrow X U^\top W^\top X$$",  # sizes
    r"$$X W \longrightarrow X U$$", r"$$K = X W \longrightarrow X U$$",
    r"As d grows, this converges: $$K \longrightarrow X U$$", r"The map $$K \longrightarrow X U$$ is linear.",
    r"$$K \to X U$$", r"$$K \mapsto X U$$", r"Here $S = K K^\top$, and $$K \longrightarrow X U$$",
    r"In probability, as the number of heads grows, $$K \longrightarrow X U$$",
    r"We do not have $$K \longrightarrow X U$$",
])
def test_other_arrows_are_no_equations(shown: str) -> None:
    text = BEFORE + f"What is meant becomes clear:\n{shown}\n"
    (one,) = (x for x in entries(text, SIDE) if x.display)
    assert one.status == "skipped" and "depends on itself" not in one.reason


def test_an_arrow_without_words_is_no_equation() -> None:
    assert [x.status for x in entries(BEFORE + r"$$K \longrightarrow X U$$" "\n", SIDE) if x.display] == ["skipped"]


def test_what_a_name_becomes_is_not_meant_in_other_sections() -> None:
    text = BEFORE + "$$Y = X X^\\top X$$\n\n# Q\n\n"
    text += r"This means that $$K \longrightarrow X U$$" "\n\n# R\n\n" r"$$S = K K^\top$$" "\n"
    x, w = draw(5, 3), draw(3, 3)
    made = returned(text, SIDE, {"X": x, "W": w}, "R", T=5, d=3)
    np.testing.assert_allclose(made["S"], (x @ w) @ (x @ w).T, rtol=1e-9)


# facts that proofs use

ROTATED = r"$$(U q)^\top (U k) = q^\top k$$"
SQUARE = "matrix U : d × d\nvector q, k : d\n"


@pytest.mark.parametrize(("fact", "shown", "status"), [
    ("U^⊤ U = I", ROTATED, "fact"), ("U^⊤ U = I_d", ROTATED, "fact"), ("", ROTATED, "skipped"),
    ("U U^⊤ = I", ROTATED, "skipped"), ("U U = I", ROTATED, "skipped"), ("U^⊤ U = I_n", ROTATED, "skipped"),
    ("U U^⊤ = I", r"$$(U^\top q)^\top (U^\top k) = q^\top k$$", "fact"),
    ("U^⊤ U = I", r"$$(U q)^\top (U k) = 2 q^\top k$$", "skipped"),
    ("U^⊤ U = I", r"$$(U q)^\top k = q^\top k$$", "skipped"),
    ("U^⊤ U = I", r"$$(U q)^\top (U k) = q k$$", "skipped"),
    ("U^⊤ U = I", r"$$(U U q)^\top (U U k) = q^\top k$$", "fact"),
])
def test_an_orthogonal_matrix_keeps_products(fact: str, shown: str, status: str) -> None:
    side = SQUARE + (f'section "P":\n    {fact}\n' if fact else "")
    found = entries(f"# P\n\n{shown}\n", side)
    assert found[-1].status == status, found[-1].reason
    assert status == "skipped" or found[-1].reason == f"both sides are proved equal, with `{fact}`"


def test_a_paper_says_the_fact_itself() -> None:
    sets = r"$U \in \mathbb{R}^{n \times d}$, $q, k \in \mathbb{R}^{d}$"
    text = f"# P\n\nLet {sets} and " r"$U^\top U = I$." f"\n\n{ROTATED}\n"
    assert [x.reason for x in entries(text)] == [r"both sides are proved equal, with `U^\top U = I`"]
    shown = text.replace("$U^\\top U = I$", "$$U^\\top U = I$$")
    assert entries(shown)[0].reason == "a fact that proofs use"


@pytest.mark.parametrize("words", [
    "where $U^\\top U = I$ does not hold", "unless $U^\\top U = I$", "and a loss that leads to $U^\\top U = I$"])
def test_words_may_deny_the_fact(words: str) -> None:
    found = entries(f"# P\n\nLet all be as it is, {words}.\n\n{ROTATED}\n", SQUARE)
    assert [x.status for x in found] == ["skipped"]


def test_it_is_no_fact_of_what_an_equation_defines() -> None:
    text = "# P\n\n" r"$$U = V V^\top$$" f"\n\n{ROTATED}\n"
    side = 'matrix V : d × d\nvector q, k : d\nsection "P":\n    U^⊤ U = I\n'
    assert [x.status for x in entries(text, side)] == ["compiled", "skipped"]
    later = f"# P\n\n{ROTATED}\n\n# Q\n\n" r"$$U = V V^\top$$" "\n"
    assert [x.status for x in entries(later, side.replace("matrix V", "matrix U, V"))] == ["skipped", "compiled"]


def test_nothing_is_computed_of_it() -> None:
    text = "# P\n\n" r"$$y = U^\top U q$$" "\n"
    u, q = draw(3, 3), draw(3)
    made = returned(text, SQUARE + 'section "P":\n    U^⊤ U = I\n', {"U": u, "q": q}, d=3)
    np.testing.assert_allclose(made["y"], u.T @ u @ q, rtol=1e-9)


def test_sides_that_are_equal_define_none_of_their_names() -> None:
    side = SQUARE.replace("matrix U", "matrix V")
    text = "# P\n\nLet $U \\in \\mathbb{R}^{d \\times d}$.\n\n$$U^\\top U q = U^\\top (U q)$$\n\n$$y = U q$$\n"
    assert [x.status for x in entries(text, side) if x.display] == ["fact", "compiled"]


def test_a_letter_that_another_section_binds_is_none_of_what_a_name_becomes() -> None:
    text = BEFORE + "This means that " r"$$M^{(j)} \longrightarrow X U B^{(j)}$$" "\n\n# Q\n\n"
    text += "For each $j = 1, \\dots, J$ it is so.\n"
    assert [x.status for x in entries(text, SIDE) if x.display] == ["skipped"]


def test_a_set_in_a_column_of_its_own_is_no_factor() -> None:
    text = ("# P\n\nLet $Q, K \\in \\mathbb{R}^{N \\times d}$.\n\n" r"$$\begin{aligned} S &= Q K^\top & Q &\in "
            r"\mathbb{R}^{N \times d} \\ B &= S K & S &\in \mathbb{R}^{N \times N} \end{aligned}$$" "\n")
    found = [(x.status, x.reason) for x in entries(text)]
    assert [x for x in found if x[1] != "a shape"] == [("compiled", ""), ("compiled", "")]
    q, k = draw(4, 3), draw(4, 2)[:, [0, 1, 0]]
    np.testing.assert_allclose(returned(text, "", {"Q": q, "K": k}, N=4, d=3)["B"], q @ k.T @ k, rtol=1e-9)


@pytest.mark.parametrize("more", ["$$I = V V^\\top$$", "Let $I \\in \\mathbb{R}^{d \\times d}$."])
def test_a_letter_that_has_another_meaning_is_no_identity(more: str) -> None:
    text = f"# P\n\n$$U^\\top U = I$$\n\n{ROTATED}\n\n{more}\n"
    assert [x.status for x in entries(text, "matrix U, V : d × d\nvector q, k : d\n")][:2] == ["skipped", "skipped"]
