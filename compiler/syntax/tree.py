"""SyntaxTree: what was written, and where. Nothing here knows what a name means."""

from __future__ import annotations

from typing import Literal

from einc.errors.report import Source, Span
from einc.ir.nodes import Node, node


@node
class Number(Node):
    """A number as it is written."""

    text: str
    span: Span


@node
class Infinity(Node):
    span: Span


@node
class Word(Node):
    """A run of letters, a Greek letter, or a quoted label (`\\text{…}`)."""

    text: str
    span: Span
    quoted: bool = False


@node
class Script(Node):
    """One script of a name: what hangs below or above, a written label (`_hat`), or primes."""

    kind: Literal["lower", "upper", "label_lower", "label_upper", "prime"]
    content: Expression | None
    text: str
    span: Span


@node
class Scripted(Node):
    """A base with accents and scripts, in the order written."""

    base: Expression
    accents: tuple[str, ...]
    scripts: tuple[Script, ...]
    span: Span


@node
class Product(Node):
    """Factors side by side; `operators[i]` stands before factor i: "" (juxtaposed), "*" or "/"."""

    factors: tuple[Expression, ...]
    operators: tuple[str, ...]
    span: Span


@node
class Sum(Node):
    """Terms with a sign before each: "+" or "-"."""

    terms: tuple[Expression, ...]
    signs: tuple[str, ...]
    span: Span


@node
class DirectSum(Node):
    """`a ⊕ b`: what stands side by side along one axis."""

    parts: tuple[Expression, ...]
    span: Span


@node
class Relation(Node):
    """A chain `a < b <= c`; operators are canonical: = := <- <= >= < > != in subset."""

    operands: tuple[Expression, ...]
    operators: tuple[str, ...]
    span: Span


@node
class Logic(Node):
    """Conditions joined by a word."""

    operator: Literal["and", "or", "not"]
    operands: tuple[Expression, ...]
    span: Span


@node
class Group(Node):
    """Something in brackets: `(`…`)`, `[`…`]`, `{`…`}`, or a half-open interval."""

    open: str
    close: str
    items: tuple[Expression, ...]
    span: Span


@node
class Matrix(Node):
    """A matrix that is written out, its cells row by row; None are dots, which stand for what is left out. In `form`
    "list" it is written in a line, `[a; b]`, and in "rows" each row stands between dashes and is a row of its name.
    """

    cells: tuple[tuple[Expression | None, ...], ...]
    form: Literal["grid", "list", "rows"]
    span: Span

    @property
    def written(self) -> tuple[Expression, ...]:
        """The cells that are no dots, row by row."""
        return tuple(x for row in self.cells for x in row if x is not None)


@node
class Fraction(Node):
    """`\\frac{above}{below}`."""

    above: Expression
    below: Expression
    span: Span


@node
class Root(Node):
    """`√inner`."""

    inner: Expression
    span: Span


@node
class Range(Node):
    """`a..b`"""

    low: Expression
    high: Expression
    span: Span


Expression = (
    Number | Infinity | Word | Scripted | Product | Sum | DirectSum | Relation | Logic | Group | Matrix | Fraction
    | Root | Range
)


@node
class Clause(Node):
    """One piece of a comma list, with the name that `as` gives it."""

    body: Expression
    alias: str | None
    span: Span
    after: Literal["", ",", "with"] = ""


@node
class PlanWord(Node):
    """A word of a line of a plan: an identifier, a number, or any other mark."""

    kind: Literal["NAME", "DIGITS", "MARK"]
    text: str
    span: Span


@node
class PlanLine(Node):
    """A line of a `plan` block. Which kind of line it is, its first word says; `checking.plans` knows the kinds."""

    words: tuple[PlanWord, ...]
    span: Span


@node
class Plan(Node):
    """A `plan` block: what a text asks of its file beside the mathematics."""

    name: PlanWord
    lines: tuple[PlanLine, ...]
    span: Span


LEAST = 0  # the rank of what the words of other sections say


@node
class Statement(Node):
    """One line: a keyword ("" for an equation), its clauses, and what follows a colon.

    `broken`: something in it was reported already, so nothing more is said about it. `rank`: of several equations for
    one signature the one of the highest rank holds, as of those of a paper; without ranks two are an error.
    """

    keyword: str
    override: bool
    clauses: tuple[Clause, ...]
    tail: tuple[Clause, ...]
    span: Span
    block: tuple[Statement, ...] = ()
    broken: bool = False
    rank: int | None = None


@node
class SyntaxTree(Node):
    """The statements of a text and its `plan` blocks, which say nothing of its meaning; `lost` are names in lines
    that could not be read, which nothing else is blamed for.

    `own`: of a paper, the ranks of the equations that are asked for. Of the others only what these need is read, and
    what nothing declares is given by the caller, but not what one of its equations defines that cannot be read: the
    `unknown`, as they are written, nor the `shaped`, which its words say are vectors and matrices. `name` is the
    program's, where it is not the file's. `axes`: of functions what the words say that they run along, `row`, `column`,
    the name of a size, or `?` where they deny something. `lines`: of matrices whether the words speak of their rows or
    their columns, and under `all vectors` as which these lie. `rows`: of letters that name the rows of a matrix, `k_i`,
    the letter of that matrix. `counts`: of letters the size up to which the words count them.
    """

    source: Source
    statements: tuple[Statement, ...]
    lost: frozenset[str] = frozenset()
    own: tuple[int, ...] | None = None
    name: str = ""
    unknown: frozenset[str] = frozenset()
    shaped: frozenset[str] = frozenset()
    plans: tuple[Plan, ...] = ()
    axes: tuple[tuple[str, frozenset[str]], ...] = ()
    lines: tuple[tuple[str, frozenset[str]], ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    counts: tuple[tuple[str, str], ...] = ()
