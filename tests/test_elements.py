"""Elements are rows: one more is declared, checked, planned and written by both back ends without another table."""

from __future__ import annotations

import ast

import pytest
import torch

import einc
from einc.backends.host.contractions import element as spelled
from einc.checking.declarations import signatures
from einc.driver import checking, front
from einc.ir.elements import ELEMENTS, OF_KIND, Element
from einc.ir.plan import Buffer
from einc.syntax.printing.show import show

TEXT = """
index t : time(T)
index v : vocab(V)
index f : feature(F)
input w_t : {word}
input E_v^f
output y_t^f = E_{{w_t}}^f
"""

BIAS = """
index t, s : time(T)
index d : feature(D)
input n_s : {word}
input q_t^d, k_s^d, v_s^d
mask L_{{t s}} : s ≤ t
L_{{t s}} = q_t^d k_{{s d}} + n_s
A_{{t s}} = softmax_s(L_{{t s}})
output y_t^d = Σ_s A_{{t s}} v_s^d
"""


@pytest.mark.parametrize("row", [e for e in ELEMENTS if e.storage], ids=lambda e: e.storage)
def test_every_storage_has_a_spelling(row: Element) -> None:
    """A type of its own by torch's name, or one that follows the data; and its bytes are those of that type."""
    text = spelled(Buffer("x", (), (), row, "local"), named=False)
    found = eval(text, {"torch": torch, "dtype": torch.float32})
    assert found.itemsize == row.bytes == row.size(4) and row.size(8) >= row.bytes
    assert OF_KIND[row.kind].kind == row.kind


def test_one_more_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of two bytes that name rows of a table."""
    short = Element("integer", "int16", 2, "short")
    monkeypatch.setattr(signatures, "DECLARED", {**signatures.DECLARED, short.word: short})
    text = TEXT.format(word="short")
    program = checking.typed(text)
    plan = front.plan(program)
    assert plan.buffers["w"].element == short and "input w_{t} : short" in show(program)
    for back_end in ("torch", "triton", "cpp"):
        ast.parse(front.emit(plan, back_end))
    # A pass that reads these has no type in C++, so torch's statements run it.
    for word, compiled in (("int", True), ("short", False)):
        assert ("_native" in front.emit(front.plan(checking.typed(BIAS.format(word=word))), "cpp")) == compiled
    w, table = torch.tensor([3, 1, 2], dtype=torch.int16), torch.randn(3, 2, dtype=torch.float64)
    assert torch.equal(einc.compile(text)(w=w, E=table), table[[2, 0, 1]])
