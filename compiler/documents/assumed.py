r"""Facts that proofs use: `U^\top U = I` says what U is, and no value is computed of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.applied import IDENTITY
from einc.checking.matrices.shapes import TRANSPOSE, plain
from einc.documents.document import Document
from einc.documents.named import Told
from einc.documents.stops import around, limited
from einc.errors.report import Span
from einc.syntax import tree as s

FACT = "a fact that proofs use"
_IS = re.compile(r"\s*(?:\$|\\\))\s*(?:be|is)\s+(?:an?\s+)?orthogonal\b(?:\s+(?:matrix|transformation))?"
                 r"(?=\s*(?:[.,;:]|and\b|then\b|\Z|\n))", re.I)
_MATRIX = re.compile(r"\borthogonal\s+matrix\s*(?:\$|\\\()\s*\Z", re.I)
_JOINED = re.compile(r"(?:\$|\\\))\s*(?:,|and)\s*(?:\$|\\\()\s*\Z")  # of several names it may be said of each other
_LIST = re.compile(r"\s*(?:\$|\\\))\s*(?:,|and)\s*(?:\$|\\\()")
# Words in a sentence by which it holds only nearly, at first, or as an aim.
_NEARLY = re.compile(r"\b(?:fails?|violat|only|approximate|nearly|almost|init|encourag|regulari|penal|loss)", re.I)
_OPEN, _CLOSE = re.compile(r"[\s$\\\[(`]+\Z"), re.compile(r"[\s$\\\]]+")

_LETTER = re.compile(r"\s*(?:\\[A-Za-z]+\s*\{?\s*)?I\s*\}?\s*"
                     r"(?:\Z|[=∈⊆⊂,]|\\(?:in|subset|subseteq|equiv|coloneqq)(?![A-Za-z]))")
_UNIT = re.compile(r"\b(?:identity|unit\s+matrix)\b", re.I)
# Letters with a meaning here: how a line of text names them, and the words of that meaning.
_MEANINGS = {"I": (_LETTER, _UNIT), r"\pi": (re.compile(r"\s*\\pi\s*(?:\Z|[=∈,]|\\in(?![A-Za-z]))"),
                                            re.compile(r"3\.14|\b(?:number|constant|circle)\b", re.I))}
# A π with something below it, an argument or a name above it is no number anywhere in the text.
_NAMED_PI = re.compile(r"\\pi\s*(?:_|'|(?:\\left\s*)?\(\s*[A-Za-z\\]+\s*[|,)]"
                       r"|\^\s*\{?\s*(?:\*|\\(?:star|prime|text|mathrm)))")


def orthogonal(node: s.Expression) -> bool:
    """Whether an equation says that a matrix times its transpose, or the other way round, is the identity."""
    match node:
        case s.Relation((s.Product((a, b), ("", "")), right), ("=",)) if _unit(right):
            one, other = plain(_turned(a)), plain(_turned(b))
            return (one is not None and one == plain(b)) or (other is not None and other == plain(a))
    return False


def denied(span: Span) -> bool:
    """Whether the sentence around a formula denies what it says, or limits it."""
    text = span.source.text
    start, end = _OPEN.search(text, max(span.start - 20, 0), span.start), _CLOSE.match(text, span.end)
    words = around(text, start.start() if start else span.start, end.end() if end else span.end)
    return any(limited(x) or _NEARLY.search(x) is not None for x in words)


def said_orthogonal(document: Document, names: Callable[[Span], Iterator[s.Expression]]) -> Iterator[Told]:
    """Both equations of each matrix that a sentence calls orthogonal: "let $U$ be orthogonal"."""
    text = document.source.text
    for formula in (x for x in document.formulas if not x.display):
        start, end = formula.span.start, formula.span.end
        said = _IS.match(text, end)
        if said is None and not _LIST.match(text, end):
            said = _MATRIX.search(text, max(start - 60, 0), start)
        joined = _JOINED.search(text, max(start - 20, 0), start)
        if said is None or joined or denied(formula.span):
            continue
        words = Span(document.source, min(start, said.start()), max(end, said.end()))
        for name in names(formula.span):
            if head(name) is None or not name.span.text.strip()[-1:]:
                continue
            base = name if isinstance(name, s.Scripted) else s.Scripted(name, (), (), name.span)
            sign = s.Script("upper", s.Word(TRANSPOSE, name.span), "", name.span)
            turned = replace(base, scripts=(*base.scripts, sign))
            for pair in ((turned, name), (name, turned)):
                left = s.Product(pair, ("", ""), name.span)
                body = s.Relation((left, s.Word("I", name.span)), ("=",), name.span)
                line = s.Statement("", False, (s.Clause(body, None, name.span),), (), name.span)
                yield Told(formula, line, (words,))


def both_sides(line: s.Statement, number: int) -> Iterator[s.Statement]:
    """The two sides of such an equation under names of their own: the right one is an identity as large as the left."""
    body = line.clauses[0].body
    assert isinstance(body, s.Relation)
    left, right = body.operands
    size = [k.content for k in right.scripts if k.content is not None] if isinstance(right, s.Scripted) else []
    given = s.Group("(", ")", (left, *size), right.span)
    whole = s.Product((s.Word(IDENTITY, right.span), given), ("", ""), right.span)
    for name, side in (("assumed", left), ("identity", whole)):
        label = s.Script("label_lower", None, str(number), left.span)
        named = s.Scripted(s.Word(name, left.span, quoted=True), (), (label,), left.span)
        relation = s.Relation((named, side), ("=",), body.span)
        yield replace(line, keyword="", clauses=(s.Clause(relation, None, body.span),), tail=())


def about(line: s.Statement) -> s.Expression:
    """The matrix of which such an equation speaks."""
    left = left_of(line.clauses[0].body)
    assert isinstance(left, s.Product)
    return next(x for x in left.factors if _turned(x) is None)


def unit(line: s.Statement) -> str:
    """How such an equation writes the identity."""
    body = line.clauses[0].body
    right = body.operands[1] if isinstance(body, s.Relation) else None
    return "I" if isinstance(right, s.Word) else right.span.text if right is not None else ""


def _unit(node: s.Expression) -> bool:
    """Whether it is written as the identity, `I` or `I_d`."""
    found = head(node)
    if found is None or found[0].base != "I" or found[0].accents or found[0].primes or found[0].upper:
        return False
    scripts = node.scripts if isinstance(node, s.Scripted) else ()
    return len(scripts) <= 1 and all(k.kind == "lower" for k in scripts)


def _turned(node: s.Expression) -> s.Expression | None:
    """A matrix without the transpose that stands above it; None where none does."""
    if not isinstance(node, s.Scripted) or not node.scripts or node.scripts[-1].kind != "upper":
        return None
    content = node.scripts[-1].content
    inner = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
    if not isinstance(inner, s.Word) or inner.text not in (TRANSPOSE, "T"):
        return None
    rest = node.scripts[:-1]
    return replace(node, scripts=rest) if rest or node.accents else node.base


def other_meaning(document: Document) -> frozenset[str]:
    """The letters of which a line of text speaks and does not call them what they mean here, the identity and the
    number π: "let $I$ be the set", "a policy $\\pi$".
    """
    text = document.source.text
    lone = [(x.span.text, max(x.span.start - 60, 0), min(x.span.end + 60, len(text))) for x in document.formulas
            if not x.display and not x.code]
    named_ = frozenset({r"\pi"} if _NAMED_PI.search(text) else ())
    return named_ | frozenset(letter for letter, (named, usual) in _MEANINGS.items() for name, start, end in lone
                     if named.match(name) and not usual.search(text, start, end))
