r"""Cases in a line of text, "$M_{ij} = 0$ if $i \ge j$, and $M_{ij} = -\infty$ otherwise", as one equation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from einc.checking.declarations.names import head
from einc.checking.matrices.shapes import plain
from einc.documents.document import Document, Formula
from einc.documents.named import NAME
from einc.documents.said import Said
from einc.documents.stops import CLAUSE
from einc.errors.report import Span
from einc.syntax import tree as s

FACT = "a case of an equation"  # the kind of fact that its further formulas are
Read = Callable[[Formula], s.Expression | None]  # the expression that a formula is
_IF = re.compile(r"[\s,$]*(?:\\\))?[\s,]*(?:if|when|whenever|where|for)(?:\s+(?:all|any|every))?\s*"
                 r"(?:\$|\\\()\s*", re.I)
_AND = re.compile(r"\s*(?:\$|\\\))[\s,;]*(?:and|but|or|while|whereas)?\s*(?:(?:it\s+)?is|equals|set\s+to)?\s*"
                  r"(?:\$|\\\()\s*", re.I)
_ELSE = re.compile(r"\s*(?:\$|\\\))?[\s,;]*(?:otherwise|elsewhere|else)\b", re.I)
_ELSE_IS = re.compile(r"\s*(?:\$|\\\))[\s,;]*(?:and|but)?\s*(?:otherwise|elsewhere|else)[\s,]*"
                      r"(?:it\s+is|is|we\s+set)?\s*(?:\$|\\\()\s*", re.I)
_NUMBER = re.compile(r"\s*(?:\$|\\\))[\s,;]*(?:and|but|or|while)?\s*(?:(?:it\s+)?is\s+)?(?P<value>zero|0|one|1)\s+"
                     r"(?:otherwise|elsewhere|else)\b", re.I)
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}
# What may stand before the two cases in their sentence, and behind them: other words may limit or deny them.
_LEAD = re.compile(rf"(?:[\s,]|{NAME}|\(\w*\)?|\b(?:and|here|where|with|we|set|let|define|use|have|take|put|that|is|are"
                   r"|the|an?|mask|matrix|entry|entries|whose|of|its|it|has|by|in|which|so|then|for|thus|hence|all|each)"
                   r"\b)*", re.I)
_ENDS = re.compile(r"\s*(?:\$|\\\))?\)?\s*(?:[.;]|\Z|\n[ \t>]*\n|\$\$|\\\[|\\begin"
                   r"|,\s+(?:and|so|where|then|we)\b)")
_OPEN = re.compile(r"\s*(?:\$|\\\()\s*\Z")


@dataclass(frozen=True)
class Choice:
    """What a name is in two cases: the formulas that say it, and where the words end that say it."""

    left: s.Expression
    condition: s.Expression
    then: s.Expression
    otherwise: s.Expression
    formulas: tuple[Formula, ...]
    end: int

    def line(self) -> s.Statement:
        """The equation: a sum of both values, each where it is meant."""
        span = self.left.span
        denied = s.Logic("not", (self.condition,), span)
        terms = [_gated(condition, value) for condition, value in (
            (self.condition, self.then), (denied, self.otherwise)) if not _nothing(value)]
        right = s.Sum(tuple(terms), ("+",) * len(terms), span) if terms else s.Number("0", span)
        body = s.Relation((self.left, s.Group("(", ")", (right,), span)), ("=",), self.formulas[0].span)
        clause = s.Clause(body, None, self.formulas[0].span)
        return s.Statement("", False, (clause,), (), self.formulas[0].span)


def choices(document: Document, read: Read) -> Mapping[Span, Choice | None]:
    """The formulas in lines of text that say what a name is in two cases, each with its choice, None behind the first.
    None of a name of which several say it.
    """
    found = [x for n in range(len(document.formulas)) for x in [_choice(document, n, read)] if x is not None]
    names = [plain(x.left) for x in found]
    return {x.span: choice if n == 0 else None for choice, name in zip(found, names, strict=True)
            if names.count(name) == 1 for n, x in enumerate(choice.formulas)}


def chosen(found: Iterable[Said], told: Mapping[Span, Choice | None]) -> Iterator[Said]:
    """The equations, with one for each choice between two cases in place of its formulas."""
    for x in found:
        choice = told.get(x.formula.span)
        if choice is not None:
            yield Said(x.formula, x.formula.span, choice.line())
        elif x.formula.span in told:
            yield Said(x.formula, x.span, fact=FACT)
        else:
            yield x


def heard(told: Mapping[Span, Choice | None]) -> Iterator[Span]:
    """The words that say the cases."""
    yield from (Span(x.left.span.source, x.formulas[0].span.start, x.end) for x in told.values() if x is not None)


def _choice(document: Document, n: int, read: Read) -> Choice | None:
    """The two cases that begin with a formula of a document, None where none do."""
    first, *rest = document.formulas[n : n + 4]
    text = document.source.text
    gaps = [Span(document.source, a.span.end, b.span.start) for a, b in zip((first, *rest), rest, strict=False)]
    if first.display or not rest or any(x.display for x in rest[:1]) or not _IF.fullmatch(gaps[0].text):
        return None
    before = _OPEN.sub(" ", text[max(first.span.start - 200, 0) : first.span.start])
    body, condition = read(first), read(rest[0])
    if not _LEAD.fullmatch(CLAUSE.split(before)[-1]) or not isinstance(body, s.Relation) or body.operators != (
            "=",) or head(body.operands[0]) is None or not isinstance(condition, s.Relation | s.Logic):
        return None
    left, then = body.operands
    number = _NUMBER.match(text, rest[0].span.end)
    if number is not None:
        value = s.Number("1" if number["value"].lower() in ("one", "1") else "0", left.span)
        return Choice(left, condition, then, value, (first, rest[0]), number.end()) if _ENDS.match(
            text, number.end()) else None
    other = _other(left, read(rest[1])) if len(rest) > 1 and not rest[1].display else None
    if other is None:
        return None
    end, many = rest[1].span.end, 3
    if _AND.fullmatch(gaps[1].text) is not None:
        last = _ELSE.match(text, end)
        more = len(gaps) > 2 and _IF.fullmatch(gaps[2].text) and _opposite(condition, read(rest[2]))
        if last is None and not more:
            return None
        end, many = (last.end(), 3) if last is not None else (rest[2].span.end, 4)
    elif not _ELSE_IS.fullmatch(gaps[1].text):
        return None
    return Choice(left, condition, then, other, (first, *rest)[:many], end) if _ENDS.match(text, end) else None


def _other(left: s.Expression, node: s.Expression | None) -> s.Expression | None:
    """The second value, which may be an equation for the same name; None for an equation for another."""
    if isinstance(node, s.Relation):
        same = node.operators == ("=",) and plain(node.operands[0]) == plain(left)
        return node.operands[1] if same else None
    return node


def _opposite(one: s.Expression, other: s.Expression | None) -> bool:
    """Whether of two comparisons always one holds."""
    return (isinstance(one, s.Relation) and isinstance(other, s.Relation) and len(one.operators) == 1
            and other.operators == (_OPPOSITE.get(one.operators[0]),)
            and plain(one.operands) == plain(other.operands))


def _nothing(node: s.Expression) -> bool:
    """Whether a value of a case is written as the number 0."""
    return isinstance(node, s.Number) and node.text == "0"


def _gated(condition: s.Expression, value: s.Expression) -> s.Expression:
    """A value where a condition holds."""
    span = value.span
    return s.Product((s.Number("1", span), s.Group("[", "]", (condition,), span), s.Group("(", ")", (value,), span)),
                     ("", "", ""), span)
