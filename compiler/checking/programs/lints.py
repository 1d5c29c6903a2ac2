"""Lints: what is sound and still looks like a slip. Told of a text without errors, and of its own lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from einc.checking.declarations.names import head, size_name
from einc.checking.programs.elaborate import Work
from einc.errors.problems import Unused
from einc.errors.report import Help, Span
from einc.ir.terms import Recur, reads
from einc.syntax import tree as s


def lints(work: Work, tree: s.SyntaxTree, recurs: list[Recur]) -> None:
    """Tells what the text declares and never uses. Indices are letters, and letters cost nothing."""
    lines = list(_flat(tree.statements))
    read = _read(work, recurs)
    spoken = {word for line in lines if line.keyword in ("claim", "override") for word in _words(line)}
    for signature in work.scope.signatures:
        own = signature.span.source == tree.source and (signature.role != "local" or signature.members is not None)
        if own and signature.key not in read and signature.name.base not in spoken:
            what = "set" if signature.members is not None else signature.role
            _tell(work, f"the {what} `{signature.text}`", signature.span)
    for line in lines:
        if line.keyword in ("dim", "map", "def"):
            others = {word for other in lines if other is not line for word in _words(other, line.keyword == "dim")}
            for name, span in _declared(line):
                if name not in others:
                    _tell(work, f"the {_KINDS[line.keyword]} `{span.text}`", span)


_KINDS = {"dim": "size", "map": "map", "def": "definition"}


def _tell(work: Work, what: str, span: Span) -> None:
    work.report.add(Unused(f"{what} is never used", span, helps=(Help("use it, or leave the declaration out"),)))


def _read(work: Work, recurs: list[Recur]) -> set[str]:
    """The tensors that some equation reads, or some rounds do."""
    everything = [*work.equations.values(), *work.made.equations]
    everything += [e for recur in recurs for e in (*recur.starts, *recur.inside, *recur.updates)]
    found = {r.tensor for e in everything for term in (*e.axes, e.domain, e.body) for r in reads(term)}
    found |= {r.tensor for recur in recurs for r in reads(recur.domain)}
    found |= {x for repeat in work.made.repeats for x in repeat.inside}
    keys = {x.members.key: x.key for x in work.scope.signatures if x.members is not None}
    lengths = {name.name for name in work.scope.lengths.values()}
    return found | {keys[k] for k in found if k in keys} | {x.key for x in work.scope.signatures if x.name in lengths}


def _flat(statements: tuple[s.Statement, ...]) -> Iterator[s.Statement]:
    for statement in statements:
        yield statement
        yield from _flat(statement.block)


def _declared(line: s.Statement) -> Iterator[tuple[str, Span]]:
    """The names that a `dim`, `map` or `def` declares."""
    for clause in line.clauses if line.keyword == "dim" else line.clauses[:1]:
        node = clause.body.operands[0] if isinstance(clause.body, s.Relation) else clause.body
        node = node.factors[0] if isinstance(node, s.Product) else node
        name = size_name(node) if line.keyword == "dim" else None
        if name is None and (found := head(node)) is not None:
            name = found[0].python
        if name is not None:
            yield name, node.span


def _words(node: object, sizes: bool = False) -> Iterator[str]:
    """Every name that stands in a piece of syntax, or every one that could be a size's."""
    if isinstance(node, s.Word | s.Scripted):
        found, size = head(node), size_name(node)
        yield from (found[0].base, found[0].python) if found is not None and not sizes else ()
        yield from () if size is None else (size,)
    if isinstance(node, tuple):
        for item in node:
            yield from _words(item, sizes)
    elif is_dataclass(node) and not isinstance(node, Span):
        for field in fields(node):
            yield from _words(getattr(node, field.name), sizes)
