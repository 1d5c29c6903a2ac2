"""Account -> one HTML file: the paper, beside each equation what became of it, under each heading what was made of it.

Nothing is asked of the network and nothing runs: sums and shapes show on hover and on focus, kernels open by a click.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib.resources import files
from itertools import pairwise

from einc.documents.coverage import Account, Entry, Made, Unheard
from einc.documents.mathml import mathml
from einc.documents.naming import Named, name_of
from einc.documents.naming import names as names_in
from einc.documents.pieces import without
from einc.documents.prose import body, slugs
from einc.documents.python import highlighted
from einc.documents.reading import prose_of
from einc.documents.report import counts, equation, problems, sentence, why
from einc.errors.report import Problem, Span, render

_CODE = re.compile(r"`([^`]+)`")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(account: Account) -> str:
    """The HTML page of a paper's account."""
    return _Page(account).html()


@dataclass
class _Page:
    """The parts of the page; equations, programs and problems are found by their places in the account."""

    account: Account
    by_number: dict[int, Entry] = field(init=False)

    def __post_init__(self) -> None:
        self.by_number = {entry.number: entry for entry in self.account.entries}

    @cached_property
    def problems(self) -> list[Problem]:
        return problems(self.account)

    @cached_property
    def places(self) -> dict[tuple[str, str, Span | None], int]:
        return {(p.code, p.message, p.span): n for n, p in enumerate(self.problems)}

    @cached_property
    def named(self) -> tuple[Named, ...]:
        return names_in(self.account.document)

    @cached_property
    def names(self) -> list[str]:
        return slugs(self.account.document)

    @cached_property
    def entries(self) -> dict[int, list[Entry]]:
        """The equations of each formula, by the formula's place in the document."""
        starts = [f.span.start for f in self.account.document.formulas]
        out: dict[int, list[Entry]] = {}
        for entry in sorted(self.account.entries, key=lambda e: e.span.start):
            out.setdefault(bisect_right(starts, entry.span.start) - 1, []).append(entry)
        return out

    def html(self) -> str:
        """The whole page as HTML text: the overview, the paper with the status of its equations, and what is wrong."""
        document = self.account.document
        name = escape(document.title(0) if document.headings else document.source.name)
        style = files("einc.documents").joinpath("page.css").read_text(encoding="utf-8")
        paper = body(prose_of(document), self.names, self.formula, self.programs)
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
            f"<title>{name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
            f"{self.overview()}\n<main>\n{self.programs(-1)}<article>\n{paper}\n</article>\n"
            f"{self.wrong()}</main>\n</body>\n</html>\n"
        )

    # one equation

    def formula(self, n: int) -> str:
        """A formula with the status of each of its equations."""
        document = self.account.document
        formula, entries = document.formulas[n], self.entries.get(n, [])
        kind = "display" if formula.display else "inline"
        if not entries:
            shown = self.whole(n)
            return f'<span class="{kind}"><span class="row"><span class="eq plain">{shown}</span></span></span>' \
                if formula.display else f'<span class="eq plain">{shown}</span>'
        pieces = self.pieces(n, entries)
        if formula.display:
            return f'<span class="display">{"".join(self.row(e, shown) for e, shown in pieces)}</span>'
        return " ".join(self.inline(e, shown) for e, shown in pieces)

    def pieces(self, n: int, entries: list[Entry]) -> list[tuple[Entry, str]]:
        """Each equation as MathML, with what stands between it and the next; one that has
        no shape alone goes with the first."""
        document = self.account.document
        formula = document.formulas[n]
        if len(entries) == 1:
            return [(entries[0], self.whole(n))]
        starts = [formula.span.start, *(e.span.start for e in entries[1:]), formula.span.end]
        cut = [without(document.source.text, a, b, tuple(h for h in formula.holes if a <= h[0] < b))
               for a, b in pairwise(starts)]
        macros = document.macros.seen(formula.span.end)
        shown = [mathml(text, formula.display, macros) for text in cut]
        if None in shown:
            whole = self.whole(n)
            return [(e, whole if e is entries[0] else "") for e in entries]
        return [(e, text or "") for e, text in zip(entries, shown, strict=True)]

    def whole(self, n: int) -> str:
        """A formula as MathML, a line of code as it stands."""
        formula = self.account.document.formulas[n]
        if formula.code:
            return f"<code>{escape(formula.span.text)}</code>"
        return self.math(self.written(n), formula.display, formula.span)

    def written(self, n: int) -> str:
        """The formula as its author laid it out, without what Markdown or a comment put into it."""
        document = self.account.document
        formula, text = document.formulas[n], document.source.text
        layout = (r"\begin", r"\end", r"\tag", r"\quad", r"\qquad")
        holes = tuple(h for h in formula.holes if not text[h[0] : h[1]].startswith(layout))
        return without(text, formula.span.start, formula.span.end, holes)

    def math(self, tex: str, display: bool, where: Span | None = None) -> str:
        """The formula as MathML, with the macros that hold where it stands, else at the end of the paper."""
        document = self.account.document
        macros = document.macros.seen(len(document.source.text) if where is None else where.end)
        return mathml(tex, display, macros) or f"<code>{escape(tex.strip())}</code>"

    def row(self, entry: Entry, shown: str) -> str:
        return (f'<span class="row {entry.status}" id="eq.{entry.number}">'
                f'<span class="eq" tabindex="0" aria-describedby="tip.{entry.number}">{shown}</span>'
                f'{self.badge(entry, True)}<a class="no" '
                f'href="#eq.{entry.number}">{entry.number}</a>{self.tip(entry)}</span>')

    def inline(self, entry: Entry, shown: str) -> str:
        return (f'<span class="eq inline {entry.status}" id="eq.{entry.number}" tabindex="0" '
                f'aria-describedby="tip.{entry.number}">'
                f"{shown}{self.badge(entry, False)}{self.tip(entry)}</span>")

    def badge(self, entry: Entry, words: bool) -> str:
        """What became of it, in words beside a display."""
        status = f"{entry.status}, {entry.sure}" if entry.sure else entry.status
        said = worded(f"{status}: {entry.reason}" if entry.reason else status) if words else ""
        if entry.restates is not None:
            said = f'{"restates " if words else "="}{self.link(entry.restates)}'
        wrong = [f' <a class="error" href="#problem.{self.place(p)}">{escape(p.code or p.severity)}</a>'
                 for p in entry.problems]
        return f'<span class="badge">{said}{"".join(wrong)}</span>'

    def link(self, number: int) -> str:
        return f'<a href="#eq.{number}">{number}</a>' if number in self.by_number else str(number)

    def place(self, problem: Problem) -> int:
        return self.places[problem.code, problem.message, problem.span]

    def tip(self, entry: Entry) -> str:
        """What shows on hover: the equation with every sum written, and the shapes of its tensors."""
        source = entry.span.source
        place = source.place(entry.span.start)
        name = name_of(self.named, entry.span)
        number = f"{entry.number}, {escape(name)}" if name else str(entry.number)
        parts = [f"<b>{number}</b>, {escape(place.within(source.name))}:{place.column}: {escape(entry.status)} "
                 f"{worded(why(self.account, entry))}"]
        if entry.explicit:
            parts.append('<span class="what">with every sum written</span>'
                         + self.math(entry.explicit, True, entry.formula))
        parts += [self.doubts(entry)] if entry.number in self.account.unheard else []
        parts += [f"<code>{escape(name)}</code> {escape(shape)}" for name, shape in (entry.shapes or {}).items()]
        inner = "".join(f"<span>{part}</span>" for part in parts)
        return f'<span class="tip" role="tooltip" id="tip.{entry.number}"><span class="box">{inner}</span></span>'

    def doubts(self, entry: Entry) -> str:
        """The sentences that nothing understands and that may change an equation."""
        found, source = self.account.unheard.get(entry.number, Unheard((), ())), entry.span.source
        parts = [f'<span class="what">sentence not understood</span> {escape(sentence(x))} ' for x in found.beside]
        lines = dict.fromkeys(source.place(x.start).within(source.name) for x in found.elsewhere)
        parts += [f'<span class="what">sentences elsewhere that name a part of it</span> {escape(", ".join(lines))}'
                  ] if lines else []
        return "".join(parts)

    # what stands around

    def overview(self) -> str:
        """How many equations have each status, and a list of all of them."""
        account, document = self.account, self.account.document
        cards = "".join(f'<li class="{status}"><b>{n}</b> {status}</li>'
                        for status, n in counts(account.entries).items())
        displays = [e for e in account.entries if e.display]
        inferred = sum(len(made.inferred) for made in account.made)
        facts = [f"{len(displays)} in displays, {len(account.entries) - len(displays)} in the text"]
        facts += [_many(len(account.made), "program")] if account.made else []
        facts += [f"{_many(inferred, 'input')} inferred"] if inferred else []
        facts += ([f'<a class="error" href="#problems">{_many(len(self.problems), "problem")}</a>'] if self.problems
                  else [])
        head = "<thead><tr><th>#<th>line<th>section<th>equation<th>sure<th>status</thead>"
        rows = "".join(self.listed(entry) for entry in account.entries)
        listed = (f"<details><summary>All {_many(len(account.entries), 'equation')}</summary>"
                  f"<table>{head}<tbody>{rows}</tbody></table></details>") if rows else ""
        return (f'<header class="overview"><h1>What became of the equations of {escape(document.source.name)}</h1>\n'
                f'<ul class="counts">{cards}</ul>\n<p>{", ".join(facts)}</p>\n{self.contents()}{listed}</header>')

    def contents(self) -> str:
        """Links to the programs."""
        document = self.account.document
        links = [f'<li><a href="#program.{n}">{escape(document.title(made.section) or made.name)}</a></li>'
                 for n, made in enumerate(self.account.made)]
        return f"<details><summary>Programs by section</summary><ul>{''.join(links)}</ul></details>\n" if links else ""

    def listed(self, entry: Entry) -> str:
        """The row of an equation in the table of all: its number, its place, and what became of it."""
        document = self.account.document
        section = escape(document.title(entry.section))
        home = self.home(entry.section)
        where = f'<a href="#{self.names[home]}">{section}</a>' if home >= 0 else section
        said = worded(entry.reason)
        said = said if entry.restates is None else f"{self.link(entry.restates)} {said}"
        return (f'<tr class="{entry.status}"><td><a href="#eq.{entry.number}">{entry.number}</a>'
                f"<td>{escape(entry.span.source.place(entry.span.start).short(entry.span.source.name))}<td>{where}"
                f"<td>{self.short(entry)}<td>{entry.sure}"
                f'<td><span class="badge">{entry.status}</span> {said}{self.doubts(entry)}')

    def short(self, entry: Entry) -> str:
        text = equation(self.account, entry)
        return self.math(text, False, entry.formula) if len(text) <= 240 else f"<code>{escape(text[:120])}…</code>"

    def home(self, section: int) -> int:
        """The section under whose heading something stands: that around it, for an algorithm."""
        parent = self.account.document.parent(section)
        return section if parent is None else parent

    def programs(self, section: int) -> str:
        return "".join(self.program(n, made) for n, made in enumerate(self.account.made)
                       if self.home(made.section) == section)

    def program(self, n: int, made: Made) -> str:
        """What a section was compiled to: its signature, what was inferred, what was
        derived, and the pictures and the kernel behind a click."""
        signature = f"{made.name}({', '.join(made.inputs)}) → {', '.join(made.outputs)}"
        lines = [f"<b>compiled here:</b> <code>{escape(signature)}</code>"]
        if made.inferred:
            shown = ", ".join(self.math(self.account.document.text(x.span), False) for x in made.inferred)
            lines.insert(0, f"inferred inputs, which nothing declares or defines: {shown}")
        derived = "".join(f"<figure><figcaption>derived, beside what is "
                          f"written</figcaption>{self.recurrence(tex)}</figure>"
                          for tex in made.recurrences)
        kernel = (f'<details class="kernel" id="kernel.{n}"><summary>the kernel</summary>'
                  f"<pre><code>{highlighted(made.kernel)}</code></pre></details>") if made.kernel else ""
        drawn = "".join(f"<figure>{svg}<figcaption>{escape(title)}</figcaption></figure>"
                        for title, svg in made.pictures)
        pictures = f"<details><summary>masks and plan</summary>{drawn}</details>" if drawn else ""
        wrong = "".join(f'<p class="error"><a href="#problem.{self.place(p)}">{escape(p.message)}</a></p>'
                        for p in made.problems)
        facts = "".join(f"<p>{line}</p>" for line in lines)
        return f'<aside class="made" id="program.{n}">{facts}{wrong}{derived}{pictures}{kernel}</aside>\n'

    def recurrence(self, tex: str) -> str:
        """A derived recurrence; its comments say what it holds for."""
        said = [line.lstrip("% ") for line in tex.splitlines() if line.startswith("%")]
        rest = "\n".join(line for line in tex.splitlines() if not line.startswith("%"))
        words = "".join(f"<p>{escape(_words(line))}</p>" for line in said)
        return words + (self.math(rest, True) if rest.strip() else "")

    def wrong(self) -> str:
        """Every problem as a terminal shows it."""
        if not self.problems:
            return ""
        shown = "".join(f'<pre class="problem" id="problem.{n}">{escape(render(p))}</pre>\n'
                        for n, p in enumerate(self.problems))
        return f'<section id="problems"><h2>Problems</h2>\n{shown}</section>\n'


def worded(text: str) -> str:
    """Text of a message as HTML: what stands between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


_SIGNS = {r"\subseteq": "⊆", r"\le": "≤", r"\{": "{", r"\}": "}"}


def _words(text: str) -> str:
    """A comment of TeX on a screen."""
    for macro, sign in _SIGNS.items():
        text = text.replace(macro, sign)
    return text
