"""The account of a paper as a page in a real browser, as a table and as data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from browser import BINARY, DRIVER, Browser
from hypothesis import given, settings
from hypothesis import strategies as st

from einc.documents.coverage import Account, Entry, Inferred, Made
from einc.documents.document import Macro
from einc.documents.mathml import mathml
from einc.documents.page import page
from einc.documents.prose import allowed
from einc.documents.reading import read
from einc.documents.report import COLUMNS, STATUSES, as_json, as_text
from einc.driver import pipeline
from einc.driver.reports import coverage
from einc.errors.problems import UnknownMacro
from einc.errors.report import Report, Source, Span, width

SEEDS = Path(__file__).parent.parent.parent / "shared" / "seeds"

PAPER = r"""# A paper 🎯

Some $x_t$ and $H_t{}^{f}=\text{LN}(X_t{}^f)$, see [below](#the-rest-of-it); <b>bold</b> &amp; costs $5.

$$
Q_{t h}{}^{d}=\widetilde H_t{}^{f} W_{Q h f}{}^{d},
K_{s h}{}^{d}=\widetilde H_s{}^{f} W_{K h f}{}^{d}.
$$

<script>window.hurt = 1</script> <img src="http://localhost:1/pixel.png" onerror="window.hurt = 2" alt="a picture"> <div></div>
![another](http://localhost:1/other.png) $\text{<img src=x onerror="window.hurt = 3">}$ $\unknown{<b>}$ $\left( broken$

<details><summary>More</summary>

## The rest of it

> $$\begin{aligned} m' &= \max(m, m_B) \\
> z &\leftarrow \alpha z \end{aligned} \tag{3}$$

| $a$ | b |
|---|---|
| $c_1 = d$ | `e` |
"""
KERNEL = 'def kernel(x):  # <the> kernel\n    return "</code>" + str(3)\n'


def account(text: str = PAPER, name: str = "paper.md") -> Account:
    """An entry for every part of a formula with a sign of equality or an arrow."""
    document = read(Source(name, text))
    entries: list[Entry] = []
    word = r"(?:[^,\\]|,(?!\s*\n)|\\(?!\\))*"
    for formula in document.formulas:
        start = formula.span.start
        for part in re.finditer(rf"{word}(?:=|\\leftarrow){word}", formula.span.text):
            span = Span(document.source, start + part.start(), start + part.end())
            n = len(entries) + 1
            entry = Entry(n, span, formula.span, formula.display, formula.section, STATUSES[n % 4], f"because of <{n}>")
            if entry.status == "restates":
                entry = replace(entry, restates=1, reason="")
            if entry.status == "compiled":
                entry = replace(entry, explicit=r"Q_{t h}^{d} = \sum_{f} H_t^f W_{Q h f}^d",
                                shapes={"Q_{t h}^d": "T × H × d_k"})
            entries.append(entry)
    wrong = UnknownMacro("`<x>` is not known", entries[0].span)
    entries[0] = replace(entries[0], problems=(wrong,))
    derived = "% over B \\subseteq \\{s \\le t\\}\nz \\leftarrow \\alpha z\n"
    at = max(document.source.text.find("W_{Q h f}"), 0)
    guessed = Inferred("W_{Q h f}^d", Span(document.source, at, at + len("W_{Q h f}{}^{d}") * (at > 0)))
    made = Made(1, "rest", ("X_t^f",), ("A_t^f",), (guessed,), KERNEL, (derived,))
    return Account(document, tuple(entries), (made, replace(made, section=-1, name="all", recurrences=())))


# in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if BINARY is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver here")
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Browser:
    (tmp_path / "page.html").write_text(page(account()), encoding="utf-8")
    browser.asked()
    browser.open(tmp_path / "page.html")
    return browser


def test_a_page_asks_for_nothing_and_runs_nothing(shown: Browser) -> None:
    assert [address.rpartition("/")[2] for address in shown.asked()] == ["page.html"]
    assert shown.console() == []
    assert shown.run("return window.hurt") is None
    assert shown.run("return document.querySelectorAll('script, img, iframe, object, "
                     "link[rel=stylesheet]').length") == 0
    assert "a picture" in shown.run("return document.body.innerText")


def test_every_equation_is_mathematics_with_its_status_beside_it(shown: Browser) -> None:
    found = account()
    told = shown.run("""return [...document.querySelectorAll('[id^="eq."]')].map(e => [
        e.id, e.querySelectorAll('math').length > 0, [...e.classList].pop(),
        e.querySelector('math').getBoundingClientRect().width])""")
    assert [row[:3] for row in told] == [[f"eq.{e.number}", True, e.status] for e in found.entries]
    assert all(row[3] > 5 for row in told)
    assert shown.run("return document.querySelectorAll('article math').length") >= len(found.document.formulas) - 1
    assert shown.run(
        "return [...document.querySelectorAll('article .eq > code')].map(e => e.textContent)") == [r"\left( broken"]
    assert shown.run("return document.querySelector('.counts').innerText.split(/\\s+/)") == [
        word for status in STATUSES for word in (str(sum(e.status == status for e in found.entries)), status)]
    assert shown.run("return document.querySelector('math').namespaceURI").endswith("MathML")


def visible(browser: Browser, name: str) -> bool:
    return bool(browser.run("return getComputedStyle(document.getElementById(arguments[0])).visibility === 'visible'",
                            name))


def test_sums_and_shapes_show_on_hover_and_on_focus(shown: Browser) -> None:
    compiled = next(e for e in account().entries if e.status == "compiled")
    tip = f"tip.{compiled.number}"
    assert not visible(shown, tip)
    shown.hover(f'[id="eq.{compiled.number}"] math')
    assert visible(shown, tip)
    assert shown.run("return document.getElementById(arguments[0]).querySelectorAll('math munder, math msub').length",
                     tip) > 0
    assert "T × H × d_k" in shown.run("return document.getElementById(arguments[0]).innerText", tip)
    shown.hover(".overview h1")
    assert not visible(shown, tip)
    shown.run("document.querySelector(`[aria-describedby=\"${arguments[0]}\"]`).focus()", tip)
    assert visible(shown, tip)


def test_no_tip_leaves_the_window(shown: Browser) -> None:
    assert shown.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    for entry in account().entries:
        shown.hover(f'[id="eq.{entry.number}"] math')
        assert shown.run(
            """const box = document.getElementById(arguments[0]).querySelector('.box').getBoundingClientRect();
            return box.left >= 0 && box.right <= innerWidth && box.width > 40""", f"tip.{entry.number}"), entry.number


def test_a_click_opens_the_kernel(shown: Browser) -> None:
    text = "return document.querySelector('[id=\"kernel.0\"]').innerText"
    assert "def kernel" not in shown.run(text)
    shown.click('[id="kernel.0"] summary')
    assert KERNEL.strip() in shown.run(text)
    assert shown.run("return document.querySelector('[id=\"kernel.0\"] .k').textContent") == "def"


def test_programs_stand_under_their_headings_beside_what_was_derived(shown: Browser) -> None:
    assert shown.run(
        "return document.querySelector('[id=\"program.0\"]').previousElementSibling.innerText") == "The rest of it"
    words = shown.run("return document.querySelector('[id=\"program.0\"]').innerText")
    assert "rest(X_t^f) → A_t^f" in words
    assert "over B ⊆ {s ≤ t}" in words
    assert shown.run("return document.querySelectorAll('[id=\"program.0\"] figure math').length") == 1


def test_every_link_reaches(shown: Browser) -> None:
    links = shown.run("return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => "
                      "decodeURIComponent(a.hash.slice(1)))")
    assert {"eq.1", "problem.0", "problems", "program.0", "the-rest-of-it"} <= set(links)
    assert [name for name in links if not shown.run("return !!document.getElementById(arguments[0])", name)] == []
    ids = shown.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_problems_are_told_as_on_a_terminal(shown: Browser) -> None:
    told = shown.run("return document.getElementById('problem.0').textContent")
    assert told.startswith("error[E0109]: `<x>` is not known\n --> paper.md:3:")


def test_dark_and_print(shown: Browser) -> None:
    ink = "return getComputedStyle(document.body).color"
    light = shown.run(ink)
    shown.media(features={"prefers-color-scheme": "dark"})
    assert shown.run(ink) != light
    shown.media("print")
    assert shown.run("return getComputedStyle(document.querySelector('.tip')).display") == "none"
    shown.media()


@pytest.mark.parametrize("name", ["einstein-transformer.md", "einstein-transformer.pdf.txt",
                                  "transformer-with-pytorch.md"])
def test_the_page_of_a_paper(browser: Browser, tmp_path: Path, name: str) -> None:
    if not (SEEDS / name).is_file():
        pytest.skip("the paper is not beside this repository")
    found = account((SEEDS / name).read_text(encoding="utf-8"), name)
    (tmp_path / "page.html").write_text(page(found), encoding="utf-8")
    browser.asked()
    browser.open(tmp_path / "page.html")
    assert browser.console() == []
    assert len(browser.asked()) == 1
    assert browser.run("return document.querySelectorAll('[id^=\"eq.\"]').length") == len(found.entries)
    assert browser.run("return document.querySelectorAll('article math').length") >= len(found.document.formulas) - 1
    assert browser.run("return document.body.innerText.match(/[\\ue000-\\ue005]/g)") is None
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


# without one

LATEX = r"""\documentclass{article}\newcommand{\R}{R_{t}}\title{A \emph{paper}}
%! index t : time(T)
\begin{document}\maketitle
\section{One} Words with \textbf{weight} 10\% and \cite{a}, <b>. % not this
\begin{align} \R &= 1 \\ b &= 2 \end{align}
\begin{itemize}\item first \item second\end{itemize}
\end{document}
"""


def test_latex_is_shown_as_words() -> None:
    found = page(account(LATEX, "paper.tex"))
    paper = found[found.index("<article>") : found.index("</article>")]
    assert "<strong>weight</strong> 10% and [a], &lt;b&gt;." in paper
    assert re.search(r"<h2 id=\"one\">One\s*</h2>", paper)
    assert "• first" in paper
    assert "not this" not in paper and "\\" not in paper
    assert paper.count("<math") >= 1
    assert "index t : time(T)" in paper


HOSTILE = [
    "<a onclick=x>y</a>", "<script>x</script>", "<p style=x>", "<!-- x -->", "<iframe src=x>", "<svg/onload=x>", "<p",
    "</",
    "<details open onx=y>", "&lt;script&gt;", "<style>x</style>", "<img src=x alt='<b>'>",
]


PIECES = [
    "$", "$$", "\n", "\n\n", "> ", "- ", "| ", "`", "```", "a = b", "\\", "\\[", "\\]", "\\begin{align}", "# ",
    "\\end{align}", "<",
    "\\section{", "{", "}", "%! ", "%", "<!--", "<h2>", "</h2>", "<pre>", "\\newcommand{\\a}[1]{#1}", "2.1 Aa", "\0",
    "\r",
    "\ue000", "\ue0020\ue003", "|---|\n", "===\n", "\\emph{", "</details>", "<details>", "\\begin{document}",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.sampled_from([".md", ".tex", ".txt"]))
def test_any_text_has_a_page(text: str, ending: str) -> None:
    document = read(Source("p" + ending, text))
    found = page(Account(document, (), ()))
    paper = found[found.index("<article>") : found.index("</article>")]
    assert not re.search(r"<script|<!--", paper)
    assert "\ue002" not in paper or any("\ue002" in f.span.text for f in document.formulas)
    assert found.count("<main>") == found.count("</main>") == found.count("</article>") == 1


def test_a_name_is_text() -> None:
    """Of a document without headings the page's title is the file's name."""
    assert "<title>&lt;/title&gt;&lt;b&gt;.txt</title>" in page(
        Account(read(Source("</title><b>.txt", "words\n")), (), ()))


@pytest.mark.parametrize("html", HOSTILE)
def test_only_plain_tags_get_through(html: str) -> None:
    found = allowed(html)
    assert re.fullmatch(r"(?:[^<>]|</?(?:p|details|details open)>)*", found)


def test_formulas_side_by_side_are_all_shown() -> None:
    text = "# A\n\n## B\n\n$a = b$$c = d$ and $$e = f$$$$g = h$$ <!-- unclosed $i = j$\n"
    found = page(account(text))
    assert all(f'id="eq.{n}"' in found for n in range(1, 6))
    assert [f.span.text for f in read(Source("p.md", text)).formulas] == ["a = b", "c = d", "e = f", "g = h", "i = j"]


TEX = [
    r"\frac", "{", "}", "_", "^", "x", r"\text{", "<b>", "&", r"\\", r"\begin{aligned}", r"\end{aligned}", "'",
    r"\left(",
    r"\right)", r"\href{javascript:x}{y}", r"\tag{1}", r"\R", "$", "#1", "\0", "é", r"\mathbf{a1}",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(TEX), max_size=12).map("".join))
def test_any_formula_is_mathml_or_nothing(tex: str) -> None:
    found = mathml(tex, True, {"R": Macro(1, r"\R{#1}", Span(Source("", ""), 0, 0))})
    if found is not None:
        root = fromstring(found)
        assert root.tag == "math"
        assert not {"href", "style", "class", "id"} & {name for element in root.iter() for name in element.attrib}
        assert {element.tag[0] for element in root.iter()} == {"m"}


@pytest.mark.parametrize(("tex", "holds"), [
    (r"H_t{}^{f}", "<mphantom>"), (r"\mathbf{qK}", "𝐪"), (r"\mathbb{1}[s]", "𝟙"), ("a := b", "≔"), (r"x \tag{3}", "3"),
    (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"), (r"a &= b \\ c &= d", "<mtable"),
    (r"m = -\infty", 'form="prefix"'),
    (r"\widehat Q", 'accent="true"'), ("s ≤ t", "<mo>≤</mo>"), (r"\R{s}", "<mi>R</mi>"),
])
def test_what_the_library_stumbles_over(tex: str, holds: str) -> None:
    assert holds in (mathml(tex, True, {"R": Macro(1, "R_{#1}", Span(Source("", ""), 0, 0))}) or "")


# as a table, and as data


def test_the_table_fits_a_terminal() -> None:
    found = account()
    text = as_text(found)
    table = text[: text.index("error[")]
    assert all(width(line) <= COLUMNS for line in table.splitlines())
    assert table.startswith(f"paper.md: {len(found.entries)} equations")
    assert all(re.search(rf"^ +{e.number} +\d+  {e.status}", table, re.M) for e in found.entries)
    assert "inferred  W_{Q h f}^d" in table
    assert "> z" not in table, "what Markdown puts at the beginning of a line is no part of an equation"


def test_the_data_has_every_equation() -> None:
    found = account()
    data = json.loads(json.dumps(as_json(found)))
    assert data["document"] == "paper.md"
    assert sum(data["counts"].values()) == len(found.entries) == len(data["equations"])
    keys = {"line", "column", "section", "display", "source", "status", "reason", "restates", "explicit", "shapes",
            "problems"}
    assert all(keys <= set(row) for row in data["equations"])
    places = [found.document.source.position(e.span.start) for e in found.entries]
    assert [(row["line"], row["column"]) for row in data["equations"]] == places
    assert all(a["line"] <= b["line"] for a, b in pairwise(data["equations"]))
    assert data["sections"][0]["section"] == "The rest of it"
    assert data["sections"][0]["kernel"] == KERNEL


@pytest.mark.parametrize("head", ["# Softmax\n\n", ""])
def test_a_page_has_the_algorithms_of_its_paper(head: str) -> None:
    """An algorithm is a section without a heading: its program stands below the heading around it, if there is one."""
    text = head + r"""For $i \in \{1..N\}$ (time) the sum is made in one loop:

$$ \begin{aligned} m_0 &= -\infty \\ \text{for } 1 \leq i \leq N \text{ do} \\ m_i &= \max(m_{i-1}, x_i) \\
\text{return } m_N \end{aligned} $$
"""
    made = coverage.account(pipeline.paper(Source("p.md", text), Report()), kernels=False)
    shown = page(made)
    assert len(made.made) == 1 and 'id="program.0"' in shown
    assert shown.count("compiled here") == 1


def test_a_page_has_the_masks_and_the_plan_of_its_programs() -> None:
    """The pictures of `einc draw`, at small sizes and without data."""
    text = ("For $t, s \\in \\{1..T\\}$ (time), $x_t$ a number:\n\n"
            "$$ y_t = \\sum_{s \\le t} \\exp(x_s - x_t) x_s $$\n")
    found = coverage.account(pipeline.paper(Source("p.md", text), Report()))
    (made,) = found.made
    assert made.pictures[0][0].startswith("y")
    assert len(made.pictures) == 2
    assert page(found).count("<svg") == 2
    assert "<summary>masks and plan</summary>" in page(found)


def test_at_500_pixels_nothing_but_formulas_is_wider(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(account()), encoding="utf-8")
    browser.ask("/window/rect", {"width": 500, "height": 900})
    try:
        browser.open(tmp_path / "page.html")
        assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        wide = browser.run("""const scrolls = e => e && (['auto', 'scroll', 'hidden'].includes(
            getComputedStyle(e).overflowX) || scrolls(e.parentElement));
            return [...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).visibility === 'visible' &&
                e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement)).length""")
        assert wide == 0
        assert browser.run("return [...document.querySelectorAll('p, td, li')].every(e => "
                           "getComputedStyle(e).wordBreak === 'normal')")
    finally:
        browser.ask("/window/rect", {"width": 1000, "height": 1200})
