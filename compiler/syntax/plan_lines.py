"""The words of one line of a `plan` block, read by the grammar of its kind. Non-goals: which kinds there are, what a
line asks for.
"""

from __future__ import annotations

from functools import cache

from lark import Lark, Token, UnexpectedInput

from einc.errors.problems import PlanLine
from einc.errors.report import Help, Report, Span
from einc.syntax import tree as s
from einc.syntax.brackets import Word
from einc.syntax.parse import WordLexer


@cache
def _parser(grammar: str) -> tuple[Lark, dict[str, str]]:
    """The parser of one kind of line, and the type of each word that its grammar names in quotes."""
    parser = Lark(f"start: {grammar}\n%declare NAME DIGITS MARK", parser="lalr", lexer=WordLexer)
    return parser, {str(x.pattern.value): x.name for x in parser.terminals if x.pattern is not None}


def plan_words(line: s.PlanLine, grammar: str) -> list[s.PlanWord]:
    """The words behind the first one of a line, without those that the grammar names in quotes.

    `grammar` is the right side of a rule of lark over NAME, DIGITS, MARK and words in quotes. Raises PlanLine where
    the line is not of the grammar, with the span of the first word that cannot stand where it does, or of the line
    where its end is missing.
    """
    parser, quoted = _parser(grammar)
    words = [Word(quoted.get(x.text, x.kind), x.text, x.span.start, x.span.end) for x in line.words[1:]]
    try:
        tree = parser.parse(words)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        if token is None or token.type == "$END":
            raise PlanLine("the line stops too early", line.span) from None
        raise PlanLine(f"`{token}` cannot stand here", Span(line.span.source, token.start_pos, token.end_pos)) from None
    kept = {x.start_pos for x in tree.scan_values(lambda x: isinstance(x, Token))}
    return [x for x in line.words if x.span.start in kept]


def whole_number(word: s.PlanWord, most: int, said: str, usage: str, report: Report) -> int:
    """The whole number from 1 to the most that a word is; any other number goes to the report, and is 0 here.

    `said` is the rule, with braces for the most, `usage` words that keep it.
    """
    digits = word.text.isascii() and word.text.isdecimal() and len(word.text) <= len(str(most))
    if digits and 0 < (found := int(word.text)) <= most:
        return found
    report.add(PlanLine(said.format(f"{most:,}"), word.span, helps=(Help(f"say `{usage}`, for instance"),)))
    return 0
