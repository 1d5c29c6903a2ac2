"""Lines of Python in a document: equations where strings of axes stand in them, else nothing; never run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from einc.documents.coverage import Account, Entry
from einc.documents.reading import read
from einc.driver import papers
from einc.driver.cli import main
from einc.driver.reports.coverage import account, section_of
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

BLOCK = """
# Input: x[B, L, d]; weights W_Q[d, H, d_h], W_K[d, H, d_h], W_V[d, H, d_h], W_O[H, d_h, d]; bias[L, L]
q = einsum("bld,dhk->bhlk", x, W_Q)
k = torch.einsum('bld,dhk->bhlk', x, W_K)
v = einsum("bld,dhk->bhlk", x, W_V)              # v[B, H, L, d_h]
scores = einsum("bhlk,bhmk->bhlm", q, k) / math.sqrt(d_h)
attn   = softmax(2 * scores - bias * 1.5, dim=-1)
out    = einsum("bhlm,bhmk->bhlk", attn, v)
y = einsum("bhlk,hkd->bld", out, W_O)
"""
MARKDOWN = f"# A block\n\nWords.\n\n```python\n{BLOCK}```\n\nMore words.\n"
SIDE = "index l, m : feature(L)\n"
SIZES = {"B": 2, "L": 4, "d": 3, "H": 2, "d_h": 5}


def told(text: str, name: str = "block.md", side: str = "") -> Account:
    found = papers.paper(Source(name, text), Report(), Source("side.ein", side) if side else None)
    return account(found, kernels=False)


def lines(found: Account) -> list[Entry]:
    return [x for x in found.entries if x.display]


@pytest.mark.parametrize(("name", "text"), [
    ("block.md", MARKDOWN), ("block.txt", f"A Block\n\nWords.\n{BLOCK}\nMore.\n")])
def test_the_lines_of_a_block_are_what_torch_makes_of_them(name: str, text: str) -> None:
    assert {x.status for x in lines(told(text, name, SIDE))} == {"compiled"}
    paper = papers.paper(Source(name, text), Report(), Source("side.ein", SIDE))
    program = section_of(paper, paper.sections[0]).program
    assert program is not None
    draw = torch.Generator().manual_seed(3)
    given = {t.key: torch.randn([int(n.set.extent.at(SIZES)) for n in t.slots], dtype=torch.float64, generator=draw)
             for t in program.inputs()}
    (got,) = interpret(program, {k: v.numpy() for k, v in given.items()}).values()
    q, k, v = (torch.einsum("bld,dhk->bhlk", given["x"], given[w]) for w in ("W_Q", "W_K", "W_V"))
    scores = torch.einsum("bhlk,bhmk->bhlm", q, k) / 5 ** 0.5
    out = torch.einsum("bhlm,bhmk->bhlk", (2 * scores - given["bias"] * 1.5).softmax(-1), v)
    want = torch.einsum("bhlk,hkd->bld", out, given["W_O"])
    torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-9, atol=1e-9)


def test_what_decides_is_asked() -> None:
    reasons = [x.reason for x in lines(told(MARKDOWN)) if x.status == "skipped"]
    assert reasons[0] == "is `m`, along which `softmax` runs, time?"


@pytest.mark.parametrize("code", [
    "x = 1\ny = x + 2\n",
    "def f(x):\n    return einsum('ij->ji', x)\n",
    "def f(x):\n    y = einsum('ij->ji', x)\n    return y\n",
    "$ pip install torch\ny = einsum('ij->ji', x)\n",
    "y = einsum('ij->ji', x\n",
    "import os\nos.remove('x')\n",
])
def test_other_code_says_nothing(code: str) -> None:
    assert told(f"# T\n\n```python\n{code}```\n").entries == ()
    assert not [x for x in read(Source("t.md", f"# T\n\n```c\n{BLOCK}```\n")).formulas if x.code]


@pytest.mark.parametrize(("line", "reason"), [
    ("a, b = einsum('ij->ji', x)", "not read"),
    ("y = einsum('ij->ji', x)[0]", "not read"),
    ("y = einsum('ij->ji', x) if x else 2", "not read"),
    ("y = einsum('ij->ji', x) @ z", "not read"),
    ("y = einsum('ij->ji', *x)", "not read"),
    ("y = einsum('ij-ji', x)", "is no letter"),
])
def test_a_line_that_is_not_read_is_told(line: str, reason: str) -> None:
    (entry,) = lines(told(f"# T\n\n```python\n{line}\n```\n"))
    assert entry.status == "skipped"
    assert reason in entry.reason


@pytest.mark.parametrize("more", [
    "x = einsum('ij->ji', x)\n", "x *= 2\n", "x.mul_(2)\n", "for i in range(3):\n    x = 2 * x\n", "x[0] = 1\n",
    "update(x)\n", "```\n\nWords.\n\n```python\nx = einsum('ij->ji', a)\n",
])
def test_what_is_assigned_twice_is_not_read(more: str) -> None:
    """The place of a line says which value it reads; an equation holds everywhere."""
    code = f"x = einsum('ij,jk->ik', a, b)\n{more}y = einsum('ij,ij->ij', x, c)\n"
    found = lines(told(f"# T\n\n```python\n{code}```\n"))
    assert {x.status for x in found} == {"skipped"}
    assert found[0].reason in ("`x` is assigned more than once", "other code may change what `x` holds")


FENCE = "```\n\nWords.\n\n```python\n"


@pytest.mark.parametrize(("code", "kept"), [
    (f"{FENCE}x = 2 * x\n{FENCE}y = einsum('ik->ki', x)\n", 0),
    (f"{FENCE}x.mul_(2)\n{FENCE}y = einsum('ik->ki', x)\n", 0),
    ("a *= 2\ny = einsum('ij->ji', a)\n", 0), ("for t in range(3): a = 2 * a\ny = einsum('ij->ji', a)\n", 0),
    ("a: Tensor = 2 * a\ny = einsum('ij->ji', a)\n", 0), ("z = x\nz *= 2\ny = einsum('ik->ki', x)\n", 0),
    ("z = np.exp(x, out=x)\ny = einsum('ik->ki', x)\n", 0), ("y = einsum('ik->ki', z)\nz = 2 * x\n", 2),
    ("x_ = 2 * x\ny = einsum('ik->ki', x_)\n", 1), ("y = einsum('ik,kj->ij', *w)\n", 1),
    ("y = np.sum(x, axis=0, initial=5)\n", 1), ("y = np.max(x, c, axis=0)\n", 1),
    ("y = einops.einsum(x, b, 'ab cd, cd ef -> ab ef')\n", 1), ("y: Tensor = einsum('ik->ki', x)\n", 2),
    ("plt.imshow(x)\ny = einsum('ik->ki', x)\n", 2),
])
def test_a_name_holds_one_value(code: str, kept: int) -> None:
    text = f"# T\n\n```python\nx = einsum('ij,jk->ik', a, b)\n{code}```\n"
    found = lines(told(text, side="index i, k : feature(N)\nindex j : feature(M)\n"))
    assert [x.status for x in found].count("compiled") == kept, [(x.status, x.reason) for x in found]


@pytest.mark.parametrize("more", [
    "def softmax(x, dim):\n    return x\n", "from mine import softmax\n", "from .layers import softmax\n",
    "softmax = lambda x, dim: x\n", "from torch import exp as softmax\n", "class softmax:\n    pass\n",
    "```\n\nWords.\n\n## Later\n\n```python\ndef softmax(x, dim):\n    return x\n",
])
def test_what_other_code_computes_is_not_read(more: str) -> None:
    code = f"x = einsum('ij,jk->ik', a, b)\ny = softmax(x, dim=-1)\n{more}"
    found = lines(told(f"# T\n\n```python\n{code}```\n", side="index i, k : feature(N)\nindex j : feature(M)\n"))
    assert [x.status for x in found][:2] == ["compiled", "skipped"]
    assert found[1].reason.startswith("what `softmax` computes is said by other code")


def test_known_libraries_are_read() -> None:
    code = "import torch.nn.functional as F\nfrom einops import einsum\nx = einsum('ij,jk->ik', a, b)\n"
    code += "y = F.softmax(x, dim=-1)\n"
    found = lines(told(f"# T\n\n```python\n{code}```\n", side="index i, k : feature(N)\nindex j : feature(M)\n"))
    assert [x.status for x in found] == ["compiled", "compiled"]


def test_lines_that_only_python_ends() -> None:
    told("# T\n\n```python\na = 1\rx = einsum('ij,jk->ik', a, b)\r\fy = softmax(x, dim=-1)\n```\n")


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "run"
    told(f"# T\n\n```python\ny = einsum('ij->ji', open({str(mark)!r}, 'w'))\n```\n")
    assert not mark.exists()


def test_the_lines_of_the_deck_are_read() -> None:
    path = Path(__file__).resolve().parents[2] / "shared" / "seeds" / "tensors-einsum-modern-tricks.txt"
    if not path.exists():
        pytest.skip("the seeds are not beside this checkout")
    side = "tensor \\text{mask} : L × L\nindex l, m : feature(L)\n"
    found = [x for x in told(path.read_text(), path.name, side).entries if "einsum(" in x.span.text
             and "texttt" not in x.span.text]
    assert [x.status for x in found] == ["compiled"] * 6


def test_a_page_shows_code_as_it_stands(tmp_path: Path) -> None:
    paper, page = tmp_path / "block.md", tmp_path / "block.html"
    paper.write_text(MARKDOWN, encoding="utf-8")
    result = CliRunner().invoke(main, ["doc", str(paper), "-o", str(page)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    shown = page.read_text(encoding="utf-8")
    assert "<code>q = einsum(&quot;bld,dhk-&gt;bhlk&quot;, x, W_Q)</code>" in shown
    assert "More words." in shown
