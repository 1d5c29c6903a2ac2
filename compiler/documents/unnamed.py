"""Displays that give no name to what they say: expressions that are said to be equal, and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.factors import binds
from einc.checking.matrices.functions import at_rows, parameters
from einc.checking.matrices.shapes import parts, words
from einc.documents.assumed import FACT, denied, orthogonal
from einc.documents.called import called
from einc.documents.document import Formula
from einc.documents.roles import FACT as ROLE
from einc.documents.roles import called_so
from einc.documents.said import Known, Said, left_text, scripts
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Problem, Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s


def nothing(span: Span, why: str = "") -> Problem:
    """What is wrong with a display that has no equation, and as a value cannot be read: `why` is its problem."""
    notes = (f"as a value it is not read: {why}",) if why else ()
    helps = (Help("an equation is written `NAME = …`"),)
    return BadDeclaration("there is no equation in it", span, notes=notes, helps=helps)


def ahead(lead: Span) -> Problem:
    """What is wrong with an equation behind something that is none."""
    return BadDeclaration(f"nothing says what `{lead.text}` before the equation means", lead, helps=(
        Help("write one equation for each name, and a condition behind it"),))


def value(formula: Formula, statement: s.Statement, clauses: list[s.Clause], known: Known) -> Said:
    """What a display is that has no equation: an expression is the value of a name that `numbered` gives it."""
    span = clauses[0].span.to(clauses[-1].span)
    if called_so(span.text):
        return Said(formula, span, fact=ROLE)
    only = clauses[0].body
    if len(clauses) > 1 or isinstance(only, s.Relation | s.Range | s.Logic) or head(only) is not None:
        return Said(formula, span, problem=nothing(span))
    clause = replace(clauses[0], body=s.Relation((_new_name(only, known, "value"), only), ("=",), only.span))
    return Said(formula, span, replace(statement, clauses=(clause,), span=span), unnamed=True)


def of_function(body: s.Relation) -> bool:
    r"""Whether a display calls its value after a function, `\cos = [\cos(θ_1) …]`: that is no name of a tensor."""
    left = body.operands[0]
    return len(body.operands) == 2 and body.operators == ("=",) and isinstance(left, s.Word) and (
        left.span.text.startswith("\\") and left.text in PRIMITIVES)


def numbered(found: Iterable[Said]) -> Iterator[Said]:
    """The equations, the values without a name as `value_1`, `value_2` and so on."""
    count = 0
    for x in called(list(found)):
        if not x.unnamed or x.statement is None:
            yield x
            continue
        count += 1
        clause = x.statement.clauses[0]
        assert isinstance(clause.body, s.Relation)
        left, right = clause.body.operands
        number = s.Script("label_lower", None, str(count), left.span)
        name = replace(left, scripts=(number, *left.scripts)) if isinstance(left, s.Scripted) else s.Scripted(
            left, (), (number,), left.span)
        body = replace(clause.body, operands=(name, right))
        yield replace(x, statement=replace(x.statement, clauses=(replace(clause, body=body),)))


def again(found: list[Said], known: Known) -> Iterator[Said]:
    """The equations of one display: where a function has a second definition, the two are said to be equal."""
    first: dict[str, s.Statement] = {}
    for x in found:
        line = x.statement
        if line is None or x.fact or not is_function(line) or (before := first.setdefault(left_text(x), line)) is line:
            yield x
        else:
            one, other = before.clauses[0].body, line.clauses[0].body
            assert isinstance(one, s.Relation) and isinstance(other, s.Relation)
            yield replace(x, statement=None, sides=_sides(line, one.operands[-1], other.operands[-1], known))


def identity(formula: Formula, statement: s.Statement, clause: s.Clause,
              pair: tuple[s.Expression, s.Expression | None], known: Known) -> Said:
    """What says that two expressions are equal, of which the left one is no name; the other is the right side of the
    clause where the pair has none.
    """
    assert isinstance(clause.body, s.Relation)
    left, right = pair
    if orthogonal(clause.body) and "I" not in known.tensors and not denied(clause.span):
        line, unit = replace(statement, clauses=(clause,), span=clause.span), clause.body.operands[1]
        return Said(formula, clause.span, line, fact=FACT, sides=_sides(statement, left, unit, known))
    other = clause.body.operands[1] if right is None else right
    span = left.span.to(other.span)
    if not formula.display or (len(clause.body.operands) > 2 and right is None):
        helps = (Help("a tensor is a name with indices: what it depends on stands in its scripts"),)
        wrong = BadDeclaration(f"`{left.span.text}` is no name of a tensor", left.span, helps=helps)
        return Said(formula, clause.span, problem=wrong)
    return Said(formula, span, sides=_sides(statement, left, other, known))


def _sides(statement: s.Statement, left: s.Expression, right: s.Expression,
           known: Known) -> tuple[s.Statement, ...]:
    """Equations of two expressions for one name."""
    name = _new_name(left, known)
    return tuple(replace(statement, span=x.span, clauses=(s.Clause(
        s.Relation((name, x), ("=",), x.span), None, x.span),)) for x in (left, right))


def _new_name(node: s.Expression, known: Known, name: str = "sides") -> s.Expression:
    """A name for an expression, with the small letters in its scripts that are no sizes and that no big operator in it
    binds.
    """
    bound = {w.text for x in parts(node) if binds(x) for w in words(k.content for k in scripts(x) if k.content)}
    named = {id(x.base) for x in parts(node) if isinstance(x, s.Scripted)}  # `d` of `d_h` is no letter
    found = dict.fromkeys(w.text for x in parts(node) for k in scripts(x) if k.content is not None
                          for w in words((k.content,)) if len(w.text) == 1 and w.text.islower()
                          and not w.quoted and id(w) not in named)
    base = s.Word(name, node.span, quoted=True)
    free = tuple(s.Word(x, node.span) for x in found if x not in bound and (x in known.indices or x not in known.sizes))
    if not free:
        return base
    return s.Scripted(base, (), (s.Script("lower", s.Group("{", "}", free, node.span), "", node.span),), node.span)


def is_function(line: s.Statement) -> bool:
    """Whether an equation may define a function: `F(Q, K) = …`, `g(i) = …`, or its values at rows, `F(X_n) = …`."""
    return parameters(line) is not None or at_rows(line) is not None


def defines(found: Said) -> str:
    """The function that an equation defines, "" where it defines none."""
    left = left_of(found.statement.clauses[0].body) if found.statement is not None else None
    name = head(left.factors[0]) if isinstance(left, s.Product) and found.statement is not None and is_function(
        found.statement) else None
    return name[0].base if name is not None else ""
