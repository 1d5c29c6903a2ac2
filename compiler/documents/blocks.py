"""Equations of a section -> the `for` blocks that its side file heads: what depends on a round stands inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from einc.checking.declarations.names import head, index_name, left_of
from einc.syntax import tree as s

_Known = tuple[object, ...]


def placed(blocks: list[s.Statement], own: list[s.Statement]) -> list[s.Statement]:
    """The equations and blocks: those that fix indices hold all of them, rounds what is made anew in each."""
    out: list[s.Statement] = []
    for block in blocks:
        inside = own if _fixes(block) else _dependent(block, own)
        own = [x for x in own if x not in inside]
        inner = [x for x in block.block if x.keyword == "for"]
        lines = [x for x in block.block if x.keyword != "for"]
        out.append(replace(block, block=(*lines, *placed(inner, inside))))
    return [*own, *out]


def _fixes(block: s.Statement) -> bool:
    """`for t, h:`"""
    return all(index_name(c.body) is not None for c in block.clauses)


def _dependent(block: s.Statement, own: list[s.Statement]) -> list[s.Statement]:
    """The updates, and what says the block's name or reads what such an equation makes."""
    first = block.clauses[0].body
    name = index_name(first.operands[0]) if isinstance(first, s.Relation) else None
    states = {_left(x) for x in own if updates(x)}
    found = [x for x in own if updates(x) or (name is not None and name in _words(x.clauses))]
    grown = True
    while grown:
        made = {_left(x) for x in found} - states
        more = [x for x in own if x not in found and made & set(_names(_right(x)))]
        found, grown = [*found, *more], bool(more)
    return [x for x in own if x in found]


def updates(line: s.Statement) -> bool:
    """Whether an equation is the update of a state: `m ← max(m, …)`."""
    body = line.clauses[0].body
    return isinstance(body, s.Relation) and body.operators[0] == "<-"


def _left(line: s.Statement) -> _Known:
    return next(_names(left_of(line.clauses[0].body)), ())


def _right(line: s.Statement) -> list[object]:
    body, *rest = (c.body for c in line.clauses)
    return [*(body.operands[1:] if isinstance(body, s.Relation) else ()), *rest]


def _names(node: object) -> Iterator[_Known]:
    """What stands for a tensor in an expression: its name, and the words of its scripts
    that begin with a capital or are quoted."""
    for inner in _walk(node):
        if isinstance(inner, s.Word | s.Scripted):
            found = head(inner)
            if found is not None:
                labels = tuple(w.text for script in found[1] for w in _walk(script)
                               if isinstance(w, s.Word) and _label(w))
                yield (found[0], labels)


def _label(word: s.Word) -> bool:
    return word.quoted or word.text[0].isupper()


def _words(node: object) -> set[str]:
    return {x.text for x in _walk(node) if isinstance(x, s.Word)}


def _walk(node: object) -> Iterator[object]:
    """The node and everything in it, but not the words of which a name is made."""
    yield node
    if isinstance(node, s.Scripted):
        yield from (x for script in node.scripts for x in _walk(script.content))
        return
    inner: Iterable[object] = ()
    if isinstance(node, list | tuple):
        inner = node
    elif is_dataclass(node):
        inner = [getattr(node, f.name) for f in fields(node) if f.name != "span"]
    for x in inner:
        yield from _walk(x)
