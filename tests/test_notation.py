"""Which texts are handed to the checker as they stand, and which are written in index notation first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from einc.checking.matrices.elaborate import elaborated
from einc.checking.notation import Elaborated, is_indexed
from einc.driver import flow
from einc.errors.report import Report, Source
from einc.syntax.tree import SyntaxTree

ROOT = Path(__file__).parent.parent
PRELUDE = (ROOT / "grammar" / "prelude.ein").read_text(encoding="utf-8")
SPECS = sorted((ROOT / "specs").rglob("*.ein"))
HEAD = "index t, s : time(T)\nindex d, e : feature(D)\ninput x_t^d\n"
FOREIGN = {
    "a matrix": "matrix X : T × D",
    "a vector": "vector X : D",
    "a tensor": "tensor X : T × D",
    "a transpose": "output y_t = (X^⊤)_t",
    "a product by entries": "output y_t = x_t ⊙ x_t",
    "a matrix that is written out": "output y_t = \\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}",
    "einsum": 'output y = einsum("td->t", x)',
    "einops": 'output y = rearrange(x, "t d -> d t")',
    "in a script": "output y_{X^⊤} = 1",
    "in a block": "for t in 1..T:\n    y_t = x_t ⊙ x_t",
    "after a colon": "mask L_{t s} : s ⊙ t",
}


def tree_of(text: str) -> SyntaxTree:
    return flow.syntax(Source("a.ein", text), Report())


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_what_is_taken_as_it_stands_is_left_as_it_stands_by_the_elaboration(file: Path) -> None:
    tree = tree_of(file.read_text(encoding="utf-8"))
    if not is_indexed(tree):
        return
    report = Report()
    assert elaborated(tree, flow.syntax(Source("p.ein", PRELUDE), Report()).statements, report) == Elaborated(tree)
    assert report.problems == []


def test_most_specs_are_taken_as_they_stand() -> None:
    taken = [file.stem for file in SPECS if is_indexed(tree_of(file.read_text(encoding="utf-8")))]
    assert "attention" in taken
    assert len(taken) > len(SPECS) / 2


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)
def test_each_sign_of_another_notation_is_seen(line: str) -> None:
    """Beside lines of index notation, and before them."""
    assert is_indexed(tree_of(HEAD))
    assert not is_indexed(tree_of(f"{HEAD}{line}\n"))
    assert not is_indexed(tree_of(f"{line}\n{HEAD}"))


def test_a_paper_may_use_all_of_them_undeclared() -> None:
    """Its equations have ranks, by which they are told from those of a spec."""
    tree = tree_of(f"{HEAD}output y_t = x_t^d\n")
    *head, last = tree.statements
    assert is_indexed(tree)
    assert not is_indexed(replace(tree, statements=(*head, replace(last, rank=1))))
