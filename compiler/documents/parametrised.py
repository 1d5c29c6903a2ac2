r"""Functions with a parameter below their name: after `F_\beta(x) = x \sigma(\beta x)`, `F_1(y)` is of that with 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einc.checking.matrices.shapes import mapped, parts, plain, within
from einc.documents.said import Said
from einc.syntax import tree as s


def parametrised(found: list[Said]) -> Iterator[Said]:
    """The equations, each definition of such a function followed by one for every value that another equation has in
    place of its parameter, under a name of its own, which stands where it is applied.
    """
    own = [(x, pair) for x in found if (pair := _parameter(x)) is not None]
    names = [name for _, (name, _) in own]
    applied = [x for said in found for line in _lines(said) for c in line.clauses for x in _rights(c.body)]
    for said in found:
        pair = next((pair for x, pair in own if x is said), None)
        values = {} if pair is None else {
            plain(value): value for x in applied if (value := _value(x, pair[0])) is not None}
        general = pair is None or not values or plain(pair[1]) in values
        yield from [_changed(said, names)] * general
        if pair is not None:
            name, letter = pair
            for value in (value for key, value in values.items() if key != plain(letter)):
                assert said.statement is not None
                clauses = tuple(replace(c, body=_put(_named(c.body, name, value), letter, value))
                                for c in said.statement.clauses)
                yield replace(said, statement=replace(said.statement, clauses=clauses))


def _lines(said: Said) -> tuple[s.Statement, ...]:
    """The equations that something says."""
    return said.sides or (() if said.statement is None else (said.statement,))


def _changed(said: Said, names: list[s.Scripted]) -> Said:
    """What is said, with the functions under their own names where they are applied to values of their parameters."""
    def change(node: s.Expression) -> s.Expression:
        """The expression with these names."""
        if isinstance(node, s.Product):
            given = [*(isinstance(x, s.Group) for x in node.factors[1:]), False]
            node = replace(node, factors=tuple(
                _own(x, value) if before and isinstance(x, s.Scripted) and (value := _of(x, names)) is not None else x
                for x, before in zip(node.factors, given, strict=True)))
        return mapped(node, change)

    if not names or said.statement is None or said.fact or _parameter(said) is not None:
        return said
    clauses = tuple(replace(c, body=change(c.body)) for c in said.statement.clauses)
    return replace(said, statement=replace(said.statement, clauses=clauses))


def _of(node: s.Scripted, names: list[s.Scripted]) -> s.Number | s.Word | None:
    """The value below one of these names."""
    return next((value for x in names if (value := _value(node, x)) is not None), None)


def _own(node: s.Scripted, value: s.Number | s.Word) -> s.Word:
    """The name of a function for one value of its parameter."""
    assert isinstance(node.base, s.Word)
    return s.Word(f"{node.base.text}{value.text}", node.span, quoted=True)


def _named(body: s.Expression, name: s.Scripted, value: s.Number | s.Word) -> s.Expression:
    """An equation for a function under its own name for a value."""
    assert isinstance(body, s.Relation) and isinstance(body.operands[0], s.Product)
    left = replace(body.operands[0], factors=(_own(name, value), *body.operands[0].factors[1:]))
    return replace(body, operands=(left, *body.operands[1:]))


def _parameter(said: Said) -> tuple[s.Scripted, s.Word] | None:
    """The name of the function that an equation defines and the letter below it, which its right side reads."""
    if said.statement is None or said.fact:
        return None
    match said.statement.clauses[0].body:
        case s.Relation((s.Product((s.Scripted() as name, s.Group("(", ")")), ("", "")), right), ("=" | ":=",)):
            letter = _below(name)
            alone = isinstance(letter, s.Word) and not letter.quoted and len(letter.text) == 1
            if alone and isinstance(letter, s.Word) and _number(right, letter):
                return name, letter
    return None


def _number(node: s.Expression, letter: s.Word) -> bool:
    """Whether a letter stands in an expression as a number and in none of its scripts, where it would count something.
    """
    def found(x: s.Expression) -> int:
        """How often it stands there, but for scripts."""
        return plain(x) == plain(letter) or sum(map(found, within(x)))

    return found(node) == sum(plain(x) == plain(letter) for x in parts(node)) > 0


def _below(name: s.Expression) -> s.Expression | None:
    """The one item in the only script of a name where that is a subscript, or None."""
    if not isinstance(name, s.Scripted) or not isinstance(name.base, s.Word) or len(name.scripts) != 1:
        return None
    script = name.scripts[0]
    content = script.content
    inner = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
    return inner if script.kind == "lower" else None


def _rights(body: s.Expression) -> Iterator[s.Expression]:
    """The names on the right side of an equation in front of parentheses."""
    for right in body.operands[1:] if isinstance(body, s.Relation) else (body,):
        for x in (x for x in parts(right) if isinstance(x, s.Product)):
            yield from (a for a, b in zip(x.factors, x.factors[1:], strict=False) if isinstance(b, s.Group))


def _value(node: s.Expression, name: s.Scripted) -> s.Number | s.Word | None:
    """What stands below a name that is the same but for that, where it is a number or a letter."""
    same = isinstance(node, s.Scripted) and plain(node.base) == plain(name.base) and node.accents == name.accents
    found = _below(node) if same else None
    return found if isinstance(found, s.Number | s.Word) else None


def _put(node: s.Expression, letter: s.Word, value: s.Expression) -> s.Expression:
    """The expression with a value in place of a letter."""
    if isinstance(node, s.Word) and plain(node) == plain(letter):
        return value
    return mapped(node, lambda x: _put(x, letter, value), scripts=True)
