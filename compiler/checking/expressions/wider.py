"""A definition over one index, `f_{s}(x_s)`, as one over several, `f_{s, u}(x_{s u})`.

Wherever a script has the index of the definition it has all of them, with as many primes: what runs over one index runs
over the points of several, and what is read at one is read at several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from einc.checking.declarations.names import index_name
from einc.checking.declarations.scope import Function
from einc.syntax import tree as s


def over_several(function: Function, count: int) -> Function | None:
    """A definition that binds one index as one that binds `count` of them, in whose body each argument has all of them.
    None where the definition binds another number of indices, where it reads an argument at anything but its index, and
    where no letters are left."""
    if len(function.letters) != 1:
        return None
    (letter,), nodes = function.letters, (function.body, *function.withs)
    arguments = {p.name.base for p in function.params if p.letters}
    for node in (x for one in nodes for x in _nodes(one)):
        if isinstance(node, s.Scripted) and isinstance(node.base, s.Word) and node.base.text in arguments and any(
                script.content is None or not _is_letter(script.content, letter) for script in node.scripts):
            return None
    taken = {x.text for one in nodes for x in _nodes(one) if isinstance(x, s.Word)} | {letter}
    others = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in taken][: count - 1]
    if len(others) < count - 1:
        return None
    letters = (letter, *others)
    params = tuple(replace(p, letters=tuple((x, level) for _, level in p.letters for x in letters))
                   for p in function.params)
    body, *withs = (_wider(one, letter, others) for one in nodes)
    return replace(function, own=letters, params=params, body=body, withs=tuple(withs))


def _nodes(node: Any) -> Iterator[Any]:
    """A piece of the syntax tree and all in it."""
    if isinstance(node, tuple):
        for one in node:
            yield from _nodes(one)
    elif is_dataclass(node):
        yield node
        for field in fields(node):
            yield from _nodes(getattr(node, field.name)) if field.name != "span" else ()


def _inner(node: s.Expression) -> s.Expression:
    """The expression within a pair of braces that hold nothing else, or the expression itself."""
    match node:
        case s.Group("{", "}", (one,)):
            return one
    return node


def _is_letter(node: s.Expression, letter: str) -> bool:
    """Whether a script is the letter, with any primes."""
    return (index_name(_inner(node)) or "").rstrip("'") == letter


def _wider(node: Any, letter: str, others: list[str]) -> Any:
    """A node of the syntax tree in which every script that is `letter` alone has the `others` behind it, too."""
    if isinstance(node, tuple):
        return tuple(_wider(one, letter, others) for one in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, s.Script) and node.content is not None and _is_letter(node.content, letter):
        one = _inner(node.content)
        items = (one, *(_renamed(one, letter, other) for other in others))
        return replace(node, content=s.Group("{", "}", items, node.content.span))
    changed = {field.name: _wider(getattr(node, field.name), letter, others) for field in fields(node)
               if field.name != "span"}
    return replace(node, **changed)


def _renamed(node: Any, letter: str, other: str) -> Any:
    """An index with another letter and the same primes."""
    match node:
        case s.Word(text) if text == letter:
            return replace(node, text=other)
        case s.Scripted(base=base):
            return replace(node, base=_renamed(base, letter, other))
    return node
