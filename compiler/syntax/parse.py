"""str -> SyntaxTree. With `plan_lines` the only file that knows lark.

Does not: resolve names, split scripts, or decide what is an application; that needs the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.lexer import Lexer

from einc.errors.problems import NotText, Unexpected
from einc.errors.report import Help, Report, Source, Span
from einc.syntax import tables
from einc.syntax import tree as s
from einc.syntax.brackets import Word
from einc.syntax.lines import Line, formula, headed, lines
from einc.syntax.lists import taken, with_signs, written
from einc.syntax.macros import NONE, Macros
from einc.syntax.spelling import KEYWORDS
from einc.syntax.texts import MAX_CHARACTERS, too_large


class WordLexer(Lexer):
    """Hands lark the words that `tokens` made."""

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, state: Any, _: Any = None) -> Iterator[Token]:
        """The words of a statement as tokens of the parser, at their places in the text."""
        for word in state:
            yield Token(word.type, word.value, start_pos=word.start, end_pos=word.end)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Lark's reductions -> syntax nodes, bottom up, while it parses."""

    def __init__(self) -> None:
        super().__init__()
        self.source = Source("", "")

    def _span(self, *parts: Any) -> Span:
        spans = [self._place(p) for p in parts if p is not None]
        return Span(self.source, min(x.start for x in spans), max(x.end for x in spans))

    def _place(self, part: Any) -> Span:
        if isinstance(part, Token):
            return Span(self.source, part.start_pos or 0, part.end_pos or 0)
        if isinstance(part, tuple):
            return self._span(*part)
        span: Span = part.span
        return span

    # atoms

    def word(self, token: Token) -> s.Word:
        return s.Word(str(token), self._place(token))

    def quoted(self, token: Token) -> s.Word:
        return s.Word(str(token), self._place(token), quoted=True)

    def braced_word(self, left: Token, token: Token, right: Token) -> s.Word:
        return s.Word(str(token), self._span(left, right), token.type == "TEXT")

    def braced_accent(self, left: Token, accent: Token, inner: Any, right: Token) -> s.Scripted:
        return replace(self.accent(accent, inner), span=self._span(left, right))

    def number(self, token: Token) -> s.Number:
        return s.Number(str(token), self._place(token))

    def infinity(self, token: Token) -> s.Infinity:
        return s.Infinity(self._place(token))

    def group(self, left: Token, items: tuple[s.Clause, ...], right: Token) -> s.Group:
        return s.Group(str(left), str(right), tuple(c.body for c in items), self._span(left, right))

    braced = group

    def gap(self, *tokens: Token) -> tuple[Token, ...]:
        return tokens

    def matrix(self, left: Token, *items: Any) -> s.Matrix:
        *parts, right = items
        marks = [[(m.type, str(m)) for m in gap] for gap in parts[1::2]]
        cells, form = written([[c.body for c in x] for x in parts[::2]], marks)
        return s.Matrix(cells, form, self._span(left, right))

    def empty(self, left: Token, right: Token) -> s.Group:
        return s.Group(str(left), str(right), (), self._span(left, right))

    def fraction(self, macro: Token, l1: Token, above: Any, r1: Token, l2: Token, below: Any, r2: Token) -> s.Fraction:
        return s.Fraction(self._only(above), self._only(below), self._span(macro, r2))

    def square_root(self, macro: Token, left: Token, inner: Any, right: Token) -> s.Root:
        return s.Root(self._only(inner), self._span(macro, right))

    def root(self, sign: Token, inner: s.Expression) -> s.Root:
        return s.Root(inner, self._span(sign, inner))

    def _only(self, items: tuple[s.Clause, ...]) -> s.Expression:
        return items[0].body if len(items) == 1 else s.Group("(", ")", tuple(c.body for c in items), self._span(*items))

    def accent(self, accent: Token, inner: s.Word | s.Scripted) -> s.Scripted:
        """An accent over a name; the one nearest to the letter stands first."""
        span = self._span(accent, inner)
        if isinstance(inner, s.Scripted):
            return s.Scripted(inner.base, (*inner.accents, str(accent)), (), span)
        return s.Scripted(inner, (str(accent),), (), span)

    # scripts

    def lower(self, sign: Token, content: s.Expression) -> s.Script:
        return s.Script("lower", content, "", self._span(sign, content))

    def upper(self, sign: Token, content: s.Expression) -> s.Script:
        return s.Script("upper", content, "", self._span(sign, content))

    def label_lower(self, token: Token) -> s.Script:
        return s.Script("label_lower", None, str(token), self._place(token))

    def label_upper(self, token: Token) -> s.Script:
        return s.Script("label_upper", None, str(token), self._place(token))

    def prime(self, token: Token) -> s.Script:
        return s.Script("prime", None, str(token), self._place(token))

    def scripted(self, base: s.Expression, *scripts: s.Script) -> s.Expression:
        if not scripts:
            return base
        span = self._span(base, *scripts)
        if isinstance(base, s.Scripted):
            return s.Scripted(base.base, base.accents, base.scripts + scripts, span)
        return s.Scripted(base, (), scripts, span)

    # operators; a level with one item is that item

    def _lone(self, items: tuple[Any, ...]) -> s.Expression:
        only: s.Expression = items[0]
        return only

    def multiply(self, *items: Any) -> s.Expression:
        """The factors of a product with the sign before each, which is empty where they stand side by side."""
        return self._lone(items) if len(items) == 1 else taken(s.Product(*with_signs(items, ""), self._span(*items)))

    def add(self, *items: Any) -> s.Expression:
        """The terms of a sum with the sign before each; one term after a plus is that term."""
        if len(items) == 1 or (len(items) == 2 and items[0] == "+"):
            return self._lone(items[-1:])
        return s.Sum(*with_signs(items, "+"), self._span(*items))

    def span(self, *items: Any) -> s.Expression:
        return s.Range(items[0], items[2], self._span(*items)) if len(items) > 1 else self._lone(items)

    def join(self, *items: Any) -> s.Expression:
        if len(items) == 1:
            return self._lone(items)
        return s.DirectSum(tuple(x for x in items if not isinstance(x, Token)), self._span(*items))

    def relator(self, token: Token) -> Token:
        return token

    def relate(self, *items: Any) -> s.Expression:
        if len(items) == 1:
            return self._lone(items)
        operands = tuple(x for x in items if not isinstance(x, Token))
        operators = tuple(str(x) for x in items if isinstance(x, Token))
        return s.Relation(operands, operators, self._span(*items))

    def both(self, *items: Any, operator: Literal["and", "or"] = "and") -> s.Expression:
        if len(items) == 1:
            return self._lone(items)
        return s.Logic(operator, tuple(x for x in items if not isinstance(x, Token)), self._span(*items))

    def either(self, *items: Any) -> s.Expression:
        return self.both(*items, operator="or")

    def negate(self, sign: Token, inner: s.Expression) -> s.Logic:
        return s.Logic("not", (inner,), self._span(sign, inner))

    # lists and statements

    def clause(self, body: s.Expression, *alias: Token) -> s.Clause:
        return s.Clause(body, str(alias[1]) if alias else None, self._span(body, *alias))

    def separator(self, *tokens: Token) -> str:
        return "with" if any(t.type == "WITH" for t in tokens) else ","

    def list(self, *items: Any) -> tuple[s.Clause, ...]:
        out: list[s.Clause] = []
        after: Any = ""
        for item in items:
            if isinstance(item, str):
                after = item
            else:
                out.append(s.Clause(item.body, item.alias, item.span, after))
        return tuple(out)

    def key(self, token: Token) -> Token:
        return token

    def _statement(self, keyword: str, override: bool, clauses: Any, tail: Any, *parts: Any) -> s.Statement:
        return s.Statement(keyword, override, clauses, tail, self._span(*parts))

    def equation(self, clauses: Any) -> s.Statement:
        return self._statement("", False, clauses, (), clauses)

    def override(self, token: Token, clauses: Any) -> s.Statement:
        return self._statement("", True, clauses, (), token, clauses)

    def declaration(self, key: Token, clauses: Any, *rest: Any) -> s.Statement:
        return self._statement(str(key), False, clauses, rest[1] if rest else (), key, clauses, *rest)

    def override_declaration(self, token: Token, key: Token, clauses: Any, *rest: Any) -> s.Statement:
        return self._statement(str(key), True, clauses, rest[1] if rest else (), token, clauses, *rest)

    def quoting(self, token: Token, name: Token, *colon: Token) -> s.Statement:
        word = s.Clause(s.Word(str(name), self._place(name), True), None, self._place(name))
        return self._statement(str(token), False, (word,), (), token, name, *colon)

    def for_block(self, token: Token, clauses: Any, colon: Token) -> s.Statement:
        return self._statement("for", False, clauses, (), token, clauses, colon)

    def claim(self, token: Token, clauses: Any, *rest: Any) -> s.Statement:
        tail = tuple(c for x in rest if isinstance(x, tuple) for c in x)
        return self._statement("claim", False, clauses, tail, token, clauses, *rest)

    def plan(self, token: Token, name: Token, colon: Token) -> s.Plan:
        return s.Plan(s.PlanWord("NAME", str(name), self._place(name)), (), self._span(token, colon))

    def plan_line(self, *tokens: Any) -> s.PlanLine:
        return s.PlanLine(tuple(s.PlanWord(x.type, str(x), self._place(x)) for x in tokens), self._span(*tokens))


Parsed = s.Statement | s.Plan | s.PlanLine  # a line: a statement, the head of a plan, or a line of one


@cache
def _parser() -> tuple[Lark, _Build]:
    build = _Build()
    return tables.parser(WordLexer, build), build


_HUMAN = {
    "WORD": "a name", "GREEK": "a name", "TEXT": "a name", "NUMBER": "a number", "LPAR": "`(`", "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`", "LBRACE": "`{`", "RBRACE": "`}`", "COMMA": "`,`", "COLON": "`:`", "REL": "a relation",
    "SIGN": "`+` or `-`",
    "OP": "`*` or `/`", "STRING": "a quoted name", "$END": "the end of the statement", "LOW": "a script",
    "UP": "a script",
    "OPLUS": "`⊕`", "IN": "`in`", "AS": "`as`", "ALL": "`all`",
}


def _unexpected(source: Source, words: tuple[Word, ...], error: UnexpectedInput) -> Unexpected:
    """Builds the problem of lark's parse error: where it stands, and what could stand there if that is short to say."""
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        last = words[-1]
        return Unexpected(f"the statement stops after `{source.text[last.start:last.end]}`",
                          Span(source, last.start, last.end), "something is missing after this",
                          helps=(Help("complete it, or remove what is left over"),))
    span = Span(source, token.start_pos or 0, token.end_pos or 0)
    accepts = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    names = sorted({_HUMAN[name] for name in accepts if name in _HUMAN})
    notes: tuple[str, ...] = (f"here may stand {', '.join(names[:-1])} or {names[-1]}",) if 1 < len(names) <= 4 else ()
    if span.text in KEYWORDS:
        notes += (f"`{span.text}` is a word of the language; as a label it is `\\text{{{span.text}}}`",)
    shown = "a line end" if not span.text.strip() else f"`{span.text}`"
    return Unexpected(f"{shown} cannot stand here", span, notes=notes,
                      helps=(Help(f"remove it, or write what is missing before {shown}"),))


def _parse_line(source: Source, line: Line, report: Report) -> Parsed | None:
    """What a line is; of a broken one if it can be read all the same, without a further word. Problems go to the
    report.
    """
    if line.unread:
        return None
    parser, build = _parser()
    build.source = source
    line = headed(source, line, report)
    try:
        read: Parsed = parser.parse(line.words)  # type: ignore[assignment]
        return replace(read, broken=line.broken) if isinstance(read, s.Statement) else read
    except UnexpectedInput as error:
        if not line.broken:
            report.add(_unexpected(source, line.words, error))
        return None


def parse(source: Source, report: Report, functions: frozenset[str] = frozenset()) -> s.SyntaxTree:
    """Every statement that can be read; what cannot is in the report.

    `functions` are names, besides those that the text defines, that a macro may spell: \\name for name.
    """
    if not source.text.strip():
        report.add(NotText("there is nothing to read", Span(source, 0, 0),
                           helps=(Help("write a spec: declarations and equations"),)))
        return s.SyntaxTree(source, ())
    if len(source.text) > MAX_CHARACTERS:
        report.add(too_large(f"the text has {len(source.text):,}", Span(source, 0, 0)))
        return s.SyntaxTree(source, ())
    return parse_part(source, report, functions, (0, len(source.text)))


def parse_part(source: Source, report: Report, functions: frozenset[str], within: tuple[int, int],
               holes: tuple[tuple[int, int], ...] = ()) -> s.SyntaxTree:
    """The statements of a part of a text; `holes` are ranges inside that are none of it. Problems go to the report."""
    own = frozenset(_DEFINED.findall(source.text, *within))
    found: list[tuple[int, Parsed | None]] = []
    lost: list[str] = []
    headless: int | None = None  # the column of a block whose head cannot be read: its lines go with it
    for line in lines(source, report, functions | own, holes, within):
        statement = _parse_line(source, line, report)
        if headless is not None and line.column <= headless:
            headless = None
        if statement is None and headless is None and line.words[0].type in ("FOR", "SECTION", "PLAN"):
            headless = line.column
        known = statement if headless is None else None
        found.append((line.column, known))
        lost += _names(line) if known is None else []
    mathematics = [(column, x) for column, x in found if x is None or isinstance(x, s.Statement)]
    return s.SyntaxTree(source, tuple(_nest(mathematics, report)), frozenset(lost), plans=tuple(_plans(found)))


def _plans(found: list[tuple[int, Parsed | None]]) -> Iterator[s.Plan]:
    """The `plan` blocks, each with the lines below it that are deeper."""
    for at, (column, head) in enumerate(found):
        if isinstance(head, s.Plan):
            end = next((n for n in range(at + 1, len(found)) if found[n][0] <= column), len(found))
            lines = tuple(x for _, x in found[at + 1 : end] if isinstance(x, s.PlanLine))
            yield replace(head, lines=lines, span=head.span.to((lines or (head,))[-1].span))


def parse_formula(source: Source, report: Report, functions: frozenset[str], within: tuple[int, int],
                  skip: tuple[tuple[int, int], ...] = (), macros: Macros = NONE) -> list[s.Statement]:
    """The statements of a formula in a larger text, with their places in it. Problems go to the report.

    `skip` are ranges inside that are none of it, `macros` the author's own.
    """
    found = (_parse_line(source, line, report) for line in formula(source, report, functions, within, skip, macros))
    return [statement for statement in found if isinstance(statement, s.Statement)]


_DEFINED = re.compile(r"^[ \t]*def[ \t]+([A-Za-z][A-Za-z0-9]*)", re.M)


def _names(line: Line) -> list[str]:
    """What a line that cannot be read would have said: the names before its equals sign, or all of them."""
    out = []
    for word in line.words:
        if word.type == "REL" and word.value in ("=", ":=",
                                                 "<-") and line.words[0].type in ("WORD", "GREEK", "ACCENT", "OUTPUT",
                                                                                       "OVERRIDE"):
            break
        if word.type in ("WORD", "GREEK", "TEXT"):
            out.append(word.value)
    return out


def _nest(found: list[tuple[int, s.Statement | None]], report: Report, inside: bool = False) -> list[s.Statement]:
    """Lines deeper than a `for` or `section` belong to it; those that cannot be read only hold its place. Problems go
    to the report.

    Inside of a section a `for` may be empty: its lines are the document's.
    """
    out: list[s.Statement] = []
    at = 0
    while at < len(found):
        column, statement = found[at]
        at += 1
        if statement is None:
            continue
        if statement.keyword in ("for", "section"):
            end = at
            while end < len(found) and found[end][0] > column:
                end += 1
            block = tuple(_nest(found[at:end], report, inside or statement.keyword == "section"))
            if end == at and not inside:
                report.add(Unexpected(f"the `{statement.keyword}` has no lines below it", statement.span,
                                      helps=(Help("indent what belongs to it"),)))
            statement = replace(statement, block=block)
            at = end
        out.append(statement)
    return out


if __name__ == "__main__":  # python -m einc.syntax.parse > grammar/ein.json, where the grammar or lark has changed
    print(tables.tables(WordLexer), end="")
