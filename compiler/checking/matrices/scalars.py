"""Functions of numbers that a paper defines, `f(x) = x tanh(x)`: as `def` lines, which are applied to each entry."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.factors import BOLD
from einc.checking.matrices.functions import defines_function, parameters
from einc.checking.matrices.known import Applied
from einc.checking.matrices.shapes import mapped, parts
from einc.errors.report import Span
from einc.syntax import tree as s

_CONSTANTS = ("e", "π")
_COMPARED = ("<", "<=", ">", ">=", "=", "!=")  # in the conditions of cases
_SPELLED = re.compile(r"(?<![A-Za-z\\\\])[A-Za-z]+")


def of_numbers(tree: s.SyntaxTree, functions: Mapping[str, Applied]) -> tuple[s.SyntaxTree, frozenset[Span]]:
    """The text, in which a function of numbers is a `def` line, and the places of those lines; where everything in
    its brackets is declared and nothing applies it, it is the equation of its value. A function of numbers has a small
    letter that no line gives a shape in its brackets, and else numbers and other such functions on its right side.
    """
    lines = _own(tree.statements, functions)
    shaped = {x[0].base for line in lines if line.keyword in ("matrix", "vector") for c in line.clauses
              if (x := head(c.body)) is not None}
    given = {x[0].base for line in lines if line.keyword in ("input", "weight") for c in line.clauses
             if (x := head(c.body)) is not None and not x[1]}
    found = {id(x): x for x in lines if defines_function(x)}
    named = {key: _name(x) for key, x in found.items()}
    many = {name for name in named.values() if sum(x == name for x in named.values()) > 1}
    applied = {name for line in lines for c in line.clauses for name in calls(c.body, id(line) in found)}
    left = {key: x for key, x in found.items() if named[key] not in many and not (
        named[key] in functions and named[key] in applied)}
    own: set[str] = set()
    while more := {key for key, x in left.items() if _numeric(x, {*functions, *own} - _running(functions), shaped)}:
        own |= {named[key] for key in more}
        left = {key: x for key, x in left.items() if key not in more}
    mine = {key for key in found if named[key] in own and key not in left}
    value = {key for key in mine if named[key] not in applied and {*_given(found[key])} <= given}
    made = tuple(_line(x, id(x) in value) if id(x) in mine else x for x in lines)
    return replace(tree, statements=made), frozenset(found[key].span for key in mine - value)


def _own(lines: tuple[s.Statement, ...], functions: Container[str]) -> tuple[s.Statement, ...]:
    """The lines of a paper with the functions that it defines itself as it spells them, where the language has one
    that is spelled alike: `GELU` and not `gelu`, `ownLN` and not `LN`.
    """
    spelled = {_name(x): _SPELLED.findall(found[0].span.text) for x in lines if defines_function(x)
               if (found := parameters(x)) is not None}
    change = {name: f"own{name}" if words[-1] in functions else words[-1]
              for name, words in spelled.items() if name in functions and words}

    def own(node: s.Expression) -> s.Expression:
        """The expression with these names as the paper spells them."""
        if isinstance(node, s.Word) and node.text in change and (
                node.text != node.span.text or change[node.text].startswith("own")):
            return replace(node, text=change[node.text])
        return mapped(node, own)

    return tuple(line if line.rank is None or not change else replace(
        line, clauses=tuple(replace(c, body=own(c.body)) for c in line.clauses)) for line in lines)


def _line(line: s.Statement, value: bool) -> s.Statement:
    """The definition of a function as a `def` line, or as the equation of its `value`."""
    found, (first, *rest) = parameters(line), line.clauses
    if found is None or not isinstance(first.body, s.Relation):
        return line
    body, left = first.body, left_of(first.body)
    if value:
        left = found[0]
    elif isinstance(left, s.Product):
        left = replace(left, factors=(s.Word(_name(line), found[0].span), *left.factors[1:]))
    made = replace(first, body=replace(body, operands=(left, *body.operands[1:])))
    kept = replace(line, clauses=(made, *rest))
    return kept if value else replace(kept, keyword="def", rank=None)


def _name(line: s.Statement) -> str:
    """The name of the function that a line defines, without labels."""
    found = parameters(line)
    return found[0].text if found is not None and isinstance(found[0], s.Word) else ""


def _given(line: s.Statement) -> tuple[str, ...]:
    """The letters in the brackets of a function."""
    found = parameters(line)
    return tuple(x.base for x in found[1]) if found is not None else ()


def _running(functions: Mapping[str, Applied]) -> set[str]:
    """The functions of lines, which are not of numbers."""
    return {name for name, x in functions.items() if x.lines}


def _numeric(line: s.Statement, functions: Container[str], shaped: Collection[str]) -> bool:
    """Whether a function is of numbers: its brackets have small letters, and its right side these, and numbers."""
    left, body = left_of(line.clauses[0].body), line.clauses[0].body
    if not isinstance(left, s.Product) or not isinstance(left.factors[1], s.Group) or not isinstance(
            body, s.Relation) or not _name(line):
        return False
    given = left.factors[1].items
    if len(given) > 1:  # of several, a product may be one of matrices
        return False
    if not all(isinstance(x, s.Word) and len(x.text) == 1 and x.text.islower() and x.text not in {*shaped, *_CONSTANTS}
               and BOLD.match(x.span.text) is None for x in given):
        return False
    mine = {x.text for x in given if isinstance(x, s.Word)}
    return all(_number(x, mine, functions) for right in body.operands[1:] for x in parts(right))


def _number(node: s.Expression, mine: Container[str], functions: Container[str]) -> bool:
    """Whether a part of an expression is of numbers: one of `mine`, a function, a number, computed of such, or a
    comparison of such.
    """
    match node:
        case s.Word(text):
            return text in mine or text in functions or text in _CONSTANTS
        case s.Scripted(base, accents, scripts):
            powers = not accents and all(k.kind == "upper" for k in scripts)
            return powers and isinstance(base, s.Word | s.Group | s.Number)
        case s.Product(_, operators):
            return all(o in ("", "*", "/") for o in operators)
        case s.Relation(_, operators):
            return all(o in _COMPARED for o in operators)
        case s.Number() | s.Infinity() | s.Sum() | s.Fraction() | s.Root() | s.Logic():
            return True
        case s.Group(open_):
            return open_ in "([{"
    return False


def calls(node: s.Expression, definition: bool) -> Iterator[str]:
    """The names before parentheses in an expression, but on the left of a `definition`."""
    inner: Iterable[s.Expression] = node.operands[1:] if definition and isinstance(node, s.Relation) else (node,)
    for x in (y for one in inner for y in parts(one)):
        if isinstance(x, s.Product):
            yield from (w.text for w, after in zip(x.factors, x.factors[1:], strict=False)
                        if isinstance(w, s.Word) and isinstance(after, s.Group))
