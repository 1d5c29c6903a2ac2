"""Documents as people have them: macros with scopes, notebooks, sources of TeX in several files, folders and archives;
what names an equation; and what is refused.
"""

from __future__ import annotations

import pytest

from einc.documents.document import Document
from einc.documents.reading import read
from einc.driver import pipeline
from einc.driver.reports.coverage import account
from einc.errors.report import Report, Source, render
from einc.syntax.macros import MAX_OF_TEXT

# macros


def meanings(document: Document, *names: str) -> list[list[str | None]]:
    """What each name stands for where each formula of the document ends."""
    seen = [document.macros.seen(f.span.end) for f in document.formulas]
    return [[at[name].body if name in at else None for name in names] for at in seen]


@pytest.mark.parametrize(("text", "expected"), [
    (r"\newcommand{\a}{1} $\a$ \renewcommand{\a}{2} $\a$", ["1", "2"]),
    (r"$\a$ \def\a{1} $\a$", [None, "1"]),
    (r"\def\a{1} {\def\a{2} $\a$ {\renewcommand\a{3}$\a$} $\a$} $\a$", ["2", "3", "2", "1"]),
    (r"\begin{figure}\newcommand\a{1} $\a$\end{figure} $\a$", ["1", None]),
    (r"\begingroup\def\a{1} $\a$ \bgroup\def\a{2} $\a$\egroup $\a$\endgroup $\a$", ["1", "2", "1", None]),
    (r"{\gdef\a{1} $\a$} $\a$ {\def\a{2} \global\def\a{3}} $\a$", ["1", "1", "3"]),
    (r"\def\a{1} \providecommand{\a}{2} $\a$ \providecommand\b{3}", ["1"]),
    (r"\def\b{1} \let\a\b \def\b{2} $\a$ \let\a=\alpha $\a$", ["1", r"\alpha"]),
    (r"\DeclareMathOperator*{\a}{arg\,max} $\a$", [r"\operatorname{arg\,max}"]),
    (r"$\def\a{1} \a$ $\a$", ["1", None]), (r"$ { \def\a{1} \a } + 1 $", [None]),
    (r"{ \def\a{1} $\a$ \begin{center} } $\a$ \end{center} $\a$ } $\a$", ["1", "1", "1", None]),
    (r"\end{x} } \def\a{1} $\a$", ["1"]), (r"{\def\a{1} \end{document} } $\a$", []),
    (r"\newcommand{\a}[1][", []), (r"\NewDocumentCommand{\a}{s m}{1} $\a{}$", [None]),
    (r"\verb|{\def\a{1}| % {\def\a{2}" "\n" r"$\a$", [None]),
])
def test_a_macro_holds_from_its_definition_to_the_end_of_its_group(text: str, expected: list[str | None]) -> None:
    assert [found[0] for found in meanings(read(Source("p.tex", text)), "a")] == expected


def test_in_markdown_a_formula_defines_macros_for_those_after_it() -> None:
    text = "$\\a$ $$\\newcommand{\\a}[2][x]{#1_#2} \\def\\b{1}$$ $\\a t$ ${\\def\\b{2} \\b}$ $\\b$"
    assert meanings(read(Source("p.md", text)), "a", "b") == [[None, None], ["#1_#2", "1"], ["#1_#2", "1"],
                                                              ["#1_#2", "1"]]


LAYER = r"""%! index t : time(T)
%! index f : feature(D)
%! input x_t^f, z_t^f
"""


def told(text: str, name: str = "p.tex") -> list[str]:
    """What became of each equation, and why."""
    report = Report()
    found = pipeline.paper(Source(name, text), report)
    assert report.errors == [], "\n".join(map(render, report.errors))
    return [f"{e.status} {e.reason}".strip() for e in account(found, kernels=False).entries]


@pytest.mark.parametrize(("definition", "used"), [
    (r"\newcommand{\X}[2][x]{#1_{#2}^f}", r"\X{t} + \X[z]{t}"), (r"\newcommand*\X[1][x_t^f]{#1}", r"\X + \X[z_{t}^f]"),
    (r"\NewDocumentCommand{\X}{O{x} m}{#1_{#2}^f}", r"\X{t} + \X[{z}]{t}"),
    (r"\newcommand{\X}[1]{#1_{\I}^f}\newcommand{\I}{t}", r"\X x + \X z"),
    (r"\newcommand{\X}[1][x]{#1_t^f}\let\Y\X", r"\Y + \Y[z]"),
])
def test_an_optional_argument_has_its_default(definition: str, used: str) -> None:
    text = f"{LAYER}{definition}\n$$ y_t^f = {used} $$\n\n$$ y_t^f = x_t^f + z_t^f $$"
    assert told(text) == ["compiled", "restates"]


def test_a_local_macro_means_what_it_does_where_it_is_used() -> None:
    text = LAYER + r"""\newcommand{\X}{x}
{ \renewcommand{\X}{z} $$ y_t^f = 2 \X_t^f $$ }
$$ w_t^f = 2 \X_t^f $$ $$ w_t^f = 2 x_t^f $$ $$ y_t^f = 2 z_t^f $$"""
    assert told(text) == ["compiled", "compiled", "restates", "restates"]


@pytest.mark.parametrize("bomb", [
    r"\def\a#1{\b{#1#1#1#1#1#1#1#1#1#1}}\def\b#1{\c{#1#1#1#1#1#1#1#1#1#1}}\def\c#1{\d{#1#1#1#1#1#1#1#1#1#1}}"
    r"\def\d#1{\e{#1#1#1#1#1#1#1#1#1#1}}\def\e#1{\f{#1#1#1#1#1#1#1#1#1#1}}\def\f#1{}",
    "".join(rf"\def\{a}{{{chr(92) + b}" + (chr(92) + b) * 99 + "}" for a, b in ("ab", "bc", "cd", "de", "ef"))
    + r"\def\f{}"])
def test_macros_that_come_to_too_much_are_refused(bomb: str) -> None:
    (reason,) = told(f"{LAYER}{bomb}$$ y_t^f = \\a{{xxxxxxxxxx}} x_t^f $$")
    assert reason == "skipped `\\a` stands for too much"


def test_all_macros_of_a_text_come_to_a_bounded_length() -> None:
    """Each formula for itself is within the bounds of a formula."""
    body = r"\def\a{" + "{}" * 400 + r"}\def\b{" + r"\a" * 100 + "}"
    found = told(LAYER + body + r"$$ y_t^f = \b x_t^f $$" * (MAX_OF_TEXT // 80_000 + 3))
    assert found[-1] == "skipped `\\b` stands for too much" and found[0] == "compiled"
