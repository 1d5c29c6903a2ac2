"""Document -> its prose as HTML, with room for its formulas and for what stands under its headings.

Formulas and headings are marked in the text by characters of no meaning before it is rendered, and the
marks are filled after: so what is shown is exactly what was read. No tag of the paper gets through but a
few that say nothing of scripts or places.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from einc.documents.document import Document
from einc.documents.pieces import outside

Fill = Callable[[int], str]

_MARKS = "\ue000\ue001\ue002\ue003\ue004\ue005"
_NO_MARKS = dict.fromkeys(map(ord, _MARKS), " ")
_HEADING, _FENCE = (re.compile(f"{_MARKS[n]}(\\d+){_MARKS[n + 1]}") for n in (2, 4))
# and the stops after it, which stay on its line
_FORMULA = re.compile(f"{_MARKS[0]}(\\d+){_MARKS[1]}([).,;:!?’”\\]]*)")
_MARK = re.compile(f"[{_MARKS[::2]}]\\d+[{_MARKS[1::2]}]")
_TITLE = re.compile(rf"<(h[1-6])>((?:(?!</?h[1-6]>).)*?){_MARKS[2]}(\d+){_MARKS[3]}((?:(?!</?h[1-6]>).)*)</\1>", re.S)
_TAGS = frozenset("""
    p br hr b strong i em u s sub sup code pre kbd blockquote ul ol li h1 h2 h3 h4 h5 h6 details summary
""".split())  # noqa: SIM905, as a text they read better
_CLOSED = re.compile(r"[ \t]+#+[ \t]*\Z")


def body(rendered: str, names: list[str], formula: Fill, heading: Fill) -> str:
    """The paper as HTML from its prose as its format renders it: `formula` says how one is shown, `heading` what
    stands under one, by their places in the document; `names` are those of the headings.
    """

    def title(found: re.Match[str]) -> str:
        n = int(found[3])
        return f'<{found[1]} id="{names[n]}">{found[2]}{found[4]}</{found[1]}>\n{heading(n)}'

    rendered = _TITLE.sub(title, rendered)
    rendered = _HEADING.sub(lambda m: heading(int(m[1])), rendered)
    return _FORMULA.sub(lambda m: f'<span class="keep">{formula(int(m[1]))}{m[2]}</span>' if m[2]
                        else formula(int(m[1])), rendered)


def slugs(document: Document) -> list[str]:
    """The names of headings as GitHub makes them, so that the paper's own links reach."""
    out: dict[str, int] = {}
    for heading in document.headings:
        kept = (c for c in heading.title.lower() if c.isalnum() or c in " -_" or unicodedata.category(c)[0] == "M")
        stem = slug = escape("".join(kept).replace(" ", "-"))
        while slug in out:
            out[stem] += 1
            slug = f"{stem}-{out[stem]}"
        out[slug] = 0
    return list(out)


def _marked(document: Document, headings: list[tuple[int, int, str]]) -> str:
    """The text with a mark for each formula, and with what is given in place of other stretches."""
    text = document.source.text
    places = [(*outside(text, f.span.start, f.span.end, f.display), f"{_MARKS[0]}{n}{_MARKS[1]}")
              for n, f in enumerate(document.formulas)]
    text = text.translate(_NO_MARKS)
    out, at = [], 0
    for start, end, mark in sorted([*places, *headings]):
        if start >= at:
            out += [text[at:start], mark]
            at = end
    return "".join([*out, text[at:]])


# Markdown


def markdown(document: Document) -> str:
    """The prose of a Markdown file as HTML, with a mark for each formula and heading."""
    text, headings = document.source.text, []
    for n, heading in enumerate(document.headings):
        closed = _CLOSED.search(text, heading.span.start, heading.span.end)
        at = closed.start() if closed else heading.span.end
        headings.append((at, at, f" {_MARKS[2]}{n}{_MARKS[3]}"))
    html = str(_PARSER.render(_marked(document, headings)))
    return html + "</details>" * max(html.count("<details") - html.count("</details"), 0)


def _parser() -> MarkdownIt:
    """Markdown-it with nothing of the paper's HTML but plain tags, and with no picture:
    that would be asked of the network."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])

    def raw(_: Any, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        return allowed(tokens[at].content)

    def image(_: Any, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        return f'<span class="picture">{escape(tokens[at].content)}</span>'

    parser.add_render_rule("html_block", raw)
    parser.add_render_rule("html_inline", raw)
    parser.add_render_rule("image", image)
    return parser


class _Allowed(HTMLParser):
    """The text of HTML, with the tags that are known and none of their attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in ("script", "style")
        if tag == "img":
            self.out.append(escape(dict(attrs).get("alt") or ""))
        elif tag in _TAGS:
            self.out.append("<details open>" if tag == "details" else f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in ("script", "style") and self.silent > 0
        if tag in _TAGS and tag not in ("br", "hr"):
            self.out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.out.append(escape(data))


def allowed(html: str) -> str:
    """HTML of a paper without what a page may not have: comments, scripts, and tags or attributes that are not listed.
    """
    out, at = [], 0
    while (start := html.find("<!--", at)) >= 0 and (end := html.find("-->", start)) >= 0:
        out.append(html[at:start])
        at = end + 3
    parser = _Allowed()
    parser.feed("".join([*out, html[at:].replace("<!--", "&lt;!--")]))
    parser.close()
    return "".join(parser.out)


_PARSER = _parser()

# plain text, and LaTeX as plain text

_STYLED = {"emph": "em", "textit": "em", "textbf": "strong", "texttt": "code", "textsc": "span", "text": "span",
           "underline": "u"}
_MACROS = re.compile(
    rf"\\(?P<style>{'|'.join(_STYLED)})\s*\{{(?P<inner>[^{{}}]*)\}}|\\(?P<cite>cite[a-z]*|ref|eqref|autoref|cref)\*?"
    r"(?:\[[^\]]*\])*\{(?P<key>[^{}]*)\}"
    r"|\\item\b(?:\[(?P<item>[^\]]*)\])?\s*"
    r"|\\(?:begin|end|label|usepackage|documentclass|input|bibliography[a-z]*|author|date|title)"
    r"\*?\s*(?:\[[^\]]*\])*\{[^{}]*\}(?:\[[^\]]*\])?|\\(?P<sign>[%$&#_{}])|\\\\|\\[A-Za-z]+\*?|(?P<brace>[{}])")
_SIGNS = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("~", " "))


def plain(document: Document) -> str:
    """The page of a plain text, as HTML; an empty line ends a paragraph."""
    return _paragraphs(document, _marked(document, _titles(document)))


def _titles(document: Document) -> list[tuple[int, int, str]]:
    return [(h.span.start, h.span.end, f"\n\n{_MARKS[2]}{n}{_MARKS[3]}\n\n") for n, h in enumerate(document.headings)]


def latex(document: Document) -> str:
    """The page of a LaTeX text, as HTML: the words of its paragraphs, without the commands that set them."""
    text = document.source.text
    others = _titles(document)
    for n, fence in enumerate(document.fences):
        start = text.rfind("\n", 0, fence.span.start) + 1
        others.append((start, fence.span.end, f"\n\n{_MARKS[4]}{n}{_MARKS[5]}\n\n"))
    others += [(span.start, span.end, "") for span in document.definitions()]
    marked = re.sub(r"(?<!\\)%[^\n]*\n?", "", _marked(document, others))
    begin = marked.find(r"\begin{document}")
    kept = "\n\n".join(m[0] for m in _MARK.finditer(marked, 0, begin)) if begin >= 0 else ""
    return _paragraphs(document, kept + "\n\n" + marked[max(begin, 0) :], latex=True)


def _paragraphs(document: Document, text: str, latex: bool = False) -> str:
    """Text with marks as HTML, paragraph by paragraph: headings and fences from the document, the rest as words."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        words = paragraph.strip()
        if title := _HEADING.fullmatch(words):
            heading = document.headings[int(title[1])]
            kind = f"h{min(heading.level, 6)}"
            out.append(f"<{kind}>{escape(heading.title.translate(_NO_MARKS))}{words}</{kind}>")
        elif fence := _FENCE.fullmatch(words):
            out.append(
                f"<pre><code>{escape(document.fences[int(fence[1])].span.text.translate(_NO_MARKS))}</code></pre>")
        elif words:
            shown = _prose(words) if latex else escape(words)
            out += [f"<p>{shown}</p>"] if shown.strip() else []
    return "\n".join(out)


def _prose(text: str) -> str:
    """A paragraph of LaTeX in words: styles as tags, other macros left out."""

    def shown(found: re.Match[str]) -> str:
        if found["style"]:
            tag = _STYLED[found["style"]]
            return f"<{tag}>{found['inner']}</{tag}>"
        if found["cite"]:
            return f"[{found['key']}]"
        if found[0].startswith("\\item"):
            return f"<br>• {found['item'] or ''}"
        return found["sign"] or ""

    text = escape(text, quote=False)
    for spelled, sign in _SIGNS:
        text = text.replace(spelled, sign)
    return _MACROS.sub(shown, text)
