"""Texts in colour: a lexer of Pygments, which `pygmentize`, Sphinx, MkDocs and notebooks find by its entry point.

Its words are those of the language's own tables, so that a new one is known without a line here.
"""

from __future__ import annotations

import re
from importlib.resources import files

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from einc.ir.indices import CLASSES
from einc.syntax.spelling import BUILT_IN, HEADS, KEYWORDS

_DEFINED = re.compile(r"^def ([A-Za-z_]+?)(?:_\{[^}]*\})?\(", re.M)


def defined() -> tuple[str, ...]:
    """The names of the functions that the prelude defines, for the colours of editors."""
    text = files("einc.grammar").joinpath("prelude.ein").read_text(encoding="utf-8")
    return tuple(_DEFINED.findall(text))


def _among(names: tuple[str, ...], after: str = r"(?![A-Za-z])") -> words:
    return words(sorted(names, key=len, reverse=True), prefix=r"(?<![A-Za-z_\\])", suffix=after)


class EinLexer(RegexLexer):
    """Words, scripts and signs of `.ein`, in its three spellings."""

    name = "ein"
    aliases = ("ein", "einc")
    filenames = ("*.ein",)
    url = "https://github.com/einc-lang/einc"
    tokens = {  # noqa: RUF012, the library reads it from the class
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"\\(?:text|mathrm|operatorname|mathbf|boldsymbol|mathsf|textbf|textrm)\*?\s*\{[^{}\n]*\}", Name.Label),
            (_among(("plan", *HEADS)), Keyword.Declaration),
            (_among((*sorted(KEYWORDS - {"plan", *HEADS}), "all")), Keyword),
            (_among(CLASSES, r"(?=\s*\()"), Keyword.Type),
            (_among((*defined(), *BUILT_IN), r"(?![A-Za-z])(?=\s*[_({\\]|\s)"), Name.Function),
            (r"\\[A-Za-z]+", Name.Builtin),
            (r"[Σ∑∏√]", Name.Builtin),
            (r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|[∞𝟙]", Number),
            (r"[_^](?:hat|tilde|bar)\b", Name.Label),
            (r"[A-Za-z][A-Za-z0-9]*|[α-ωΑ-Ωϵϕϑϱµℓℒ⊤]['′″‴]*", Name.Variable),
            (r"<=|>=|!=|:=|<-|\(\+\)|\.\.\.?|[…=<>≤≥≠≔←∈⊆⊕⊙∘+\-−*·×/¬∧∨|⌈⌉⌊⌋ᵀ]", Operator),
            (r"\\.|[\u0302-\u0305'′″‴]|[_^{}()\[\],;:.&~$]", Punctuation),
            (r"\s+", Text.Whitespace),
            (r".", Text),
        ],
    }
