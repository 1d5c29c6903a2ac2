"""Displays of which something cannot be read: each row is judged by itself, and goes on from the right left side."""

from __future__ import annotations

import pytest

from einc.documents import listings
from einc.driver import papers
from einc.driver.reports.coverage import account
from einc.errors.report import Report, Source

SIDE = "matrix A, B, C : N × N\n"
BROKEN = r"\\ Z &= \begin{cases} 1 \end{cases}"


def compiled(display: str) -> list[str]:
    """The right sides of what is compiled of a display, the last thing of which cannot be read."""
    text = f"# T\n\n$$\\begin{{aligned}} {display} {BROKEN} \\end{{aligned}}$$\n"
    paper = papers.paper(Source("t.md", text), Report(), Source("side.ein", SIDE))
    found = account(paper, kernels=False)
    return ["".join(x.span.text.replace("&", "").split())[-4:] for x in found.entries
            if x.display and x.status in ("compiled", "restates")]


@pytest.mark.parametrize(("display", "rows"), [
    (r"D &= A B", ["D=AB"]),
    (r"\implies D &= A B", ["D=AB"]),
    (r"D &= A B + C \\ &= C + A B", ["AB+C", "C+AB"]),
    (r"D &= A B \\ &\quad + C \\ &= C + A B", ["ad+C", "C+AB"]),
    (r"D &= A B \approx C \\ &= C C", []),  # the last row is of C, and no row of D is an equation alone
    (r"D &= A B \\ E &\approx A \\ &= C C", []),
    (r"D &= A B, E = C \\ &= C C", ["D=AB"]),
    (r"D &= A B \quad E = C \\ &= C C", ["D=AB"]),
])
def test_a_row_goes_on_from_the_row_before_it(display: str, rows: list[str]) -> None:
    assert [x for x in compiled(display) if not x.endswith("E=C")] == rows


ROWS = (r"K \equiv \underbrace{\begin{bmatrix} - & k_1 & - \\ - & \dots & - \\ - & k_m & - \end{bmatrix}}_{m \times d}"
        r" \tag{7}")


@pytest.mark.parametrize(("text", "read"), [
    (ROWS, True), (ROWS.replace(r"m \times", r"\in \mathbb{R}^{m \times").replace("d}", "d}}"), True),
    (ROWS.replace("k_m", "k_n"), False), (ROWS.replace("k_m", "q_m"), False),
    (ROWS.replace("- & k_1", "2 & k_1"), False),
    (ROWS.replace(r"\tag{7}", "W"), False), (ROWS.replace("k_1", "k_2"), False), (ROWS.replace(r"\times d", ""), False),
    (r"q = \underbrace{\begin{bmatrix} - & q & - \end{bmatrix}}_{1 \times d}", True),
    (r"q = \underbrace{\begin{bmatrix} - & k & - \end{bmatrix}}_{1 \times d}", False),
    (r"q = \underbrace{\begin{bmatrix} - & q & - \end{bmatrix}}_{2 \times d}", False),
])
def test_rows_written_out_say_a_shape(text: str, read: bool) -> None:
    assert bool(listings.rows(text)) is read
