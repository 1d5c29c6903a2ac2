"""Papers are read in place: every formula is what stands between its dollars, and no text whatever is too much."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from helpers import examples
from hypothesis import strategies as st
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMathNode, LatexNode, LatexWalker

from einc.documents.document import Document, Macro
from einc.documents.reading import damage, read
from einc.errors.report import Report, Source, Span
from einc.syntax.macros import everywhere
from einc.syntax.tokens import Word, words

SEEDS = Path(__file__).parent.parent.parent / "shared" / "seeds"
PAPERS = {  # displays, inline formulas, characters in fences that are no formulas
    "einstein-transformer.md": (15, 121, 4),
    "einstein-transformer.mojibake.md": (15, 121, 4),
    "einstein-transformer.pdf.txt": (15, 57, 0),
    "transformer-with-pytorch.md": (87, 262, 22),
    "tensors-einsum-modern-tricks.txt": (2, 45, 0),
}


def seed(name: str) -> Source:
    if not (SEEDS / name).is_file():
        pytest.skip("the paper is not beside this repository")
    return Source(name, (SEEDS / name).read_text(encoding="utf-8"))


def shown(document: Document) -> list[tuple[str, str, bool]]:
    """Each formula that has an end, without its holes, its section and whether it is a display."""
    return [(kept(f.span.source.text, f.span.start, f.span.end, f.holes).strip(), document.title(f.section), f.display)
            for f in document.formulas if f.problem is None]


def kept(text: str, start: int, end: int, holes: tuple[tuple[int, int], ...]) -> str:
    ends = [start, *(b for _, b in holes)]
    starts = [*(a for a, _ in holes), end]
    return "".join(text[a:b] for a, b in zip(ends, starts, strict=True))


def formulas(text: str, name: str = "p.md") -> list[str]:
    return [f[0] for f in shown(read(Source(name, text)))]


# the papers


@pytest.mark.parametrize("name", PAPERS)
def test_every_formula_of_a_paper_is_what_stands_between_its_dollars(name: str) -> None:
    source = seed(name)
    document, (displays, inline, elsewhere) = read(source), PAPERS[name]
    formulas = [f for f in document.formulas if not f.code]
    assert [sum(f.display for f in formulas), sum(not f.display for f in formulas)] == [displays, inline]
    assert document.problems == ()
    assert source.text.count("$") == 4 * displays + 2 * inline + elsewhere
    for formula in formulas:
        dollars = "$" * (1 + formula.display)
        start, end = formula.span.start, formula.span.end
        assert source.text[start - len(dollars) : start] == dollars == source.text[end : end + len(dollars)]
        assert "$" not in formula.span.text
        assert all(start <= a < b <= end for a, b in formula.holes)


def test_the_sections_of_the_paper() -> None:
    document = read(seed("einstein-transformer.md"))
    displays = [document.title(f.section) for f in document.formulas if f.display]
    assert displays[10:13] == ["Grouped-Query Attention (GQA)", "Multi-Head Latent Attention (MLA)",
                               "Multi-Token Prediction (MTP)"]
    assert displays[-1] == "Appendix: Cross-Attention (Encoder--Decoder)"
    assert "🎯 Overview" in [h.title for h in document.headings]
    assert all(f.span.start > document.headings[f.section].span.end for f in document.formulas)


def test_the_copy_with_damaged_encoding_has_the_same_formulas() -> None:
    whole, damaged = seed("einstein-transformer.md"), seed("einstein-transformer.mojibake.md")
    assert [f.span.text for f in read(damaged).formulas] == [f.span.text for f in read(whole).formulas]
    assert damage(whole) == []
    assert len(damage(damaged)) > 50
    assert {"â€¢", "\ufffd"} <= {s.text for s in [*damage(damaged), *damage(Source("", "a\ufffdb"))]}


def test_the_sections_of_the_text_of_the_pdf() -> None:
    document = read(seed("einstein-transformer.pdf.txt"))
    titles = [h.title for h in document.headings]
    lines = document.source.text.split("\n")
    assert [t for t in titles if t[0].isdigit()] == [line for line in lines if re.match(r"\d[\d.]* \w", line)]
    assert titles[-1] == "Appendix: Cross-Attention (Encoder–Decoder)"
    assert len(titles) == 24


def test_headings_are_plain_words() -> None:
    document = read(seed("transformer-with-pytorch.md"))
    assert {"1.1 single query q", "3.1 K - V caching"} <= {h.title for h in document.headings}


# Markdown

MARKDOWN = r"""# *A* `b` $\mathbf{q}$ [link](x) &amp; 🎯
Costs $5 and $10, or 7$; $x$ and \$ 3, `$code$` and ``$a ` b$``, <a href="$y$">$z_t$</a> $ w $ a$b$c.

<h2 align="center">In <b>HTML</b></h2>
<p>also $h_t$</p>

> - quoted $a +
>   b$ and
>   $$
>   c = d \\
>   e = f
>   $$ (eq:q)
>
> | cell | $u \| v$ |
> |---|---|
> | $i_1$ | $j_2$ and `x` |

```ein
index t : time(T)
$not$
```
~~~
$$no$$
~~~
```math
m = n
```
Text, then
$$
p
- q
$$
and \(r_s\) or \[s = t\], and $$v = 1$$ in prose, `\[`.
\begin{align}
 w &= 2 \label{eq:w} \\
 x &= 3
\end{align}
<!-- ein: skip a figure -->

$$ y = 4 \tag{5} $$

$$\begin{aligned} z &= 5 \\ a &= 6 \end{aligned} \quad (7)$$

Setext $s$
---
$`k + 1`$ $$\newcommand{\R}[2]{R_{#1}{}^{#2}}$$

$$ unclosed

- $$
  n = 0
  $$
"""


def test_markdown() -> None:
    document = read(Source("p.md", MARKDOWN))
    one, two, three = "A b q link & 🎯", "In HTML", "Setext s"
    assert shown(document) == [
        (r"\mathbf{q}", one, False), ("x", one, False), ("z_t", one, False), ("w", one, False), ("b", one, False),
        ("h_t", two, False), ("a +\nb", two, False),
        ("c = d \\\\\n  e = f", two, True), (r"u \| v", two, False), ("i_1", two, False),
        ("j_2", two, False), ("m = n", two, True), ("p\n- q", two, True), ("r_s", two, False), ("s = t", two, True),
        ("v = 1", two, True), ("w &= 2  \\\\\n x &= 3", two, True), ("y = 4", two, True),
        (r"z &= 5 \\ a &= 6", two, True),
        ("s", three, False), ("k + 1", three, False), ("n = 0", three, True),
    ]
    assert [(h.title, h.level) for h in document.headings] == [(one, 1), (two, 2), (three, 2)]
    assert [f.span.text for f in document.fences] == ["index t : time(T)\n$not$"]
    assert [f.skip for f in document.formulas if f.skip] == ["a figure"]
    assert told(document) == {"R": (2, "R_{#1}{}^{#2}")}
    assert [f.problem.message for f in document.formulas if f.problem] == ["`$$` is not closed"]


def test_holes_are_what_markdown_put_at_the_beginning_of_a_line() -> None:
    text = "> ```ein\n> index t : time(T)\n>   dim W\n> ```\n>\n> > $$\n> > a = b\n> > $$\n"
    document = read(Source("p.md", text))
    (fence,), (formula,) = document.fences, document.formulas
    assert kept(text, fence.span.start, fence.span.end, fence.holes) == "index t : time(T)\n  dim W"
    assert kept(text, formula.span.start, formula.span.end, formula.holes).strip() == "a = b"


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_move_nothing(end: str) -> None:
    text = MARKDOWN.replace("\n", end)
    assert [" ".join(f.split()) for f in formulas(text)] == [" ".join(f.split()) for f in formulas(MARKDOWN)]


# LaTeX

LATEX = r"""\documentclass{article}
\newcommand{\R}{R_{t}{}_{d}{}^{k}} % a rotation
\renewcommand\vec[1]{\mathbf{#1}}
\DeclareMathOperator*{\softmax}{softmax}
\def\pair#1#2{(#1, #2)}
\title{A \emph{paper}}
%! index t, s : time(T)
%! index h : head(H)   # heads
\begin{document}
\section{Multi-Head \emph{Self}-Attention ($QK$)}
\label{sec:a} Costs \$5, 10\% of $a_t$ % and $not_this$
or \(b\), \verb|$c$|, and
\begin{equation}
  d = e, % of course $
  \label{eq:d}
\end{equation}
\begin{align*}
  f &= g \\
  h &= \begin{cases} 1 & x \\ 2 \end{cases}
\end{align*}
\subsection*{Next}
$$i = j$$ and \[
k = \text{if $l$} \] or \begin{math}m\end{math}
\begin{verbatim}
$n$
\end{verbatim}
%! skip a proof
\begin{gather} o = p \end{gather}
\begin{eqnarray} q &=& r \end{eqnarray} \begin{multline} s \\ = t \end{multline}
\begin{alignat}{2} u &= v \end{alignat}
\paragraph{More.} \begin{equation*}\begin{split} w &= x \end{split}\end{equation*}
\begin{ein}
input X_t^f
\end{ein}
$unclosed

$y$ \[ z
\end{document}
$after$
"""


def test_latex() -> None:
    document = read(Source("p.tex", LATEX))
    one, two, three = "Multi-Head Self-Attention (QK)", "Next", "More."
    assert shown(document) == [
        ("a_t", one, False), ("b", one, False), ("d = e,", one, True),
        ("f &= g \\\\\n  h &= \\begin{cases} 1 & x \\\\ 2 \\end{cases}", one, True),
        ("i = j", two, True), (r"k = \text{if $l$}", two, True), ("m", two, False), ("o = p", two, True),
        ("q &=& r", two, True),
        (r"s \\ = t", two, True), ("u &= v", two, True), ("w &= x", three, True), ("y", three, False),
    ]
    assert [(h.title, h.level) for h in document.headings] == [("A paper", 1), (one, 2), (two, 3), (three, 5)]
    assert told(document) == {
        "R": (0, "R_{t}{}_{d}{}^{k}"), "vec": (1, r"\mathbf{#1}"), "softmax": (0, r"\operatorname{softmax}"),
        "pair": (2, "(#1, #2)")}
    assert [kept(LATEX, f.span.start, f.span.end, f.holes).strip() for f in document.fences] == [
        "index t, s : time(T)\n index h : head(H)   # heads", "input X_t^f"]
    assert [(f.span.text.strip(), f.skip) for f in document.formulas if f.skip] == [("o = p", "a proof")]
    assert [(f.problem.message, f.span.text) for f in document.formulas if f.problem] == [
        ("`$` is not closed", "$"), ("`\\[` is not closed", "\\[")]


def walked(nodes: list[LatexNode]) -> list[tuple[int, int]]:
    """Where the formulas of a tree of pylatexenc begin and end, dollars and all."""
    out = []
    for node in nodes:
        name = node.environmentname.rstrip("*") if isinstance(node, LatexEnvironmentNode) else ""
        if (isinstance(node, LatexMathNode)
            or name in ("equation", "align", "gather", "eqnarray", "multline", "alignat", "math")):
            out.append((node.pos, node.pos + node.len))
        elif name == "document":
            out += walked(node.nodelist)
    return out


def test_latex_agrees_with_pylatexenc() -> None:
    text = LATEX[: LATEX.index("$unclosed")] + r"\end{document}"
    nodes, _, _ = LatexWalker(text).get_latex_nodes()
    found = [(f.span.start, f.span.end) for f in read(Source("p.tex", text)).formulas]
    assert len(found) == 12
    assert all(a < start <= end < b for (a, b), (start, end) in zip(walked(nodes), found, strict=True))


# macros

BODIES = {"R": (1, r"R_{#1}{}_{d}{}^{k}"), "two": (2, "(#2, #1)"), "soft": (0, r"\operatorname{softmax}"),
          "x": (0, r"\fraq{1}"),
          "loop": (0, r"1 + \loop"), "a": (0, r"\b\b\b\b"), "b": (0, r"\c\c\c\c"), "c": (0, "1 " * 10_000)}
MACROS = everywhere({name: Macro(n, body, Span(Source("", ""), 0, 0)) for name, (n, body) in BODIES.items()})


def told(document: Document) -> dict[str, tuple[int, str]]:
    """The macros that hold at the end of a document."""
    found = document.macros.seen(len(document.source.text))
    return {name: (m.arguments, m.body) for name, m in found.items()}


def lexed(text: str) -> tuple[list[Word], list[tuple[str, str]]]:
    report = Report()
    found = words(Source("p.ein", text), report, macros=MACROS)
    return found, [(p.message, p.span.text if p.span else "") for p in report.problems]


@pytest.mark.parametrize(("used", "meant"), [
    (r"a = \R{t} b", r"a = R_{t}{}_{d}{}^{k} b"), (r"\R s'", r"R_{s}{}_{d}{}^{k}'"),
    (r"\two{x}{\two y z} + \R\rho", "((z, y), x) + R_{ρ}_{d}^{k}"),
    (r"\soft_s(L)", r"\operatorname{softmax}_s(L)"),
])
def test_a_macro_is_what_it_stands_for_where_it_is_used(used: str, meant: str) -> None:
    (found, problems), (expected, _) = lexed(used), lexed(meant)
    assert problems == []
    assert [(w.type, w.value) for w in found] == [(w.type, w.value) for w in expected]
    assert all(0 <= w.start <= w.end <= len(used) for w in found)


@pytest.mark.parametrize(("text", "message", "where"), [
    (r"y = \x + 1", r"`\fraq` is not a macro of the language", r"\x"),
    (r"y = \loop", r"`\loop` comes to no end", r"\loop"),
    (r"\two{a", r"`\two` takes 2 arguments", r"\two"), (r"\a", r"`\a` stands for too much", r"\a"),
])
def test_what_is_wrong_with_a_macro_is_told_at_its_use(text: str, message: str, where: str) -> None:
    assert lexed(text)[1] == [(message, where)]


# any text

PIECES = [
    "$", "$$", "\n", "\n\n", "> ", "- ", "| ", "`", "```", "```ein\n", "a_t = b", "\\", "\\[", "\\]", "\\(",
    "\\begin{align}", "# ",
    "\\end{align}", "\\begin{ein}", "\\section{", "{", "}", "%! ", "%", "<!-- ein: skip", "-->", "<h2>", "</h2>",
    "<pre>", "\\verb",
    "\\newcommand{\\a}[1]{#1}", "\\tag{", "2.1 Aa", "\0", "\r", "\t", "\ue000", "é", "\\quad (1)", "\\def\\a",
    "|---|\n", "===\n",
]


@examples(50, 150, st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join),
       st.sampled_from([".md", ".tex", ".txt"]))
def test_any_text_is_read(text: str, ending: str) -> None:
    source = Source("p" + ending, text)
    document = read(source)
    pieces = sorted((f.span.start, f.span.end) for f in (*document.formulas, *document.fences))
    assert all(0 <= start <= end <= len(text) for start, end in pieces)
    assert all(first[1] <= second[0] for first, second in pairwise(pieces))
    for piece in (*document.formulas, *document.fences):
        ends = [piece.span.start, *(at for hole in piece.holes for at in hole), piece.span.end]
        assert ends == sorted(ends)
        assert -1 <= piece.section < len(document.headings)
    damage(source)


@examples(10, 25, st.data())
def test_any_piece_of_a_paper_is_read(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PAPERS)))
    text = seed(name).text
    start = data.draw(st.integers(0, len(text)))
    cut = text[start : start + data.draw(st.integers(0, 6_000))]
    for ending in (".md", ".tex", ".txt"):
        read(Source("p" + ending, cut))


OPENINGS = ["$$ x\n", "\\[ x\n", "\\begin{align} x\n", "<h1>a</h1>\n", "\\section{", "`` ` ", "<!--", "\\begin{ein}"]


@pytest.mark.parametrize("piece", OPENINGS)
@pytest.mark.parametrize("ending", [".md", ".tex"])
def test_a_long_file_of_openings_ends(piece: str, ending: str) -> None:
    """Work grows with the length: a search that found no end is not made again."""
    read(Source("p" + ending, piece * 3_000))
