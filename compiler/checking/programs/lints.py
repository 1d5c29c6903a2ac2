"""Lints: what is sound and still looks like a slip. Told of a text without errors, and of its own lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from einc.checking.declarations.borrowed import flat
from einc.checking.declarations.names import head, left_of, size_name
from einc.checking.declarations.scope import Signature
from einc.checking.programs.elaborate import Work
from einc.checking.programs.slips import instead, other_lines
from einc.errors.problems import CapturedExtent, Unread, Unused
from einc.errors.report import Help, Label, Span, listed
from einc.ir.programs import BlockLoop, IndexLoop
from einc.ir.terms import Read, reads
from einc.syntax import tree as s


def lints(work: Work, tree: s.SyntaxTree, recurs: list[BlockLoop], repeats: list[IndexLoop],
          chosen: list[Signature]) -> None:
    """Tells what the text declares or defines and never uses, and other slips. Indices
    are letters, and letters cost nothing."""
    lines = list(flat(tree.statements))
    read = _read(work, recurs, repeats)
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
                elif line.keyword == "dim" and name not in work.scope.numbers.fixed:
                    _captured(work, name, span)
    if chosen and tree.own is None:
        _returned(work, chosen)
        _unread(work, tree, read | {x.key for x in chosen}, spoken)
        other_lines(work, tree)


def _returned(work: Work, chosen: list[Signature]) -> None:
    """Says what is returned where outputs of the text stand in place of those of a used one."""
    lost = [(x, source) for x, source in work.collected.instead if x not in chosen]
    if lost:
        source = lost[-1][1]
        others = listed(x.text for x, of in lost if of == source)
        work.report.notes.append(f"what is returned is {listed(x.text for x in chosen)}, and not {others} of "
                                 f"{source.name}; to return both, say `output` of both")


_KINDS = {"dim": "size", "map": "map", "def": "definition"}


def _captured(work: Work, name: str, span: Span) -> None:
    """Tells of a size that a `dim` asks for and that is the extent of an index of another
    text, which the data then fix."""
    for letter, index in work.scope.alphabet.indices.items():
        there = work.scope.alphabet.spans.get(letter)
        if there is not None and there.source != span.source and name in index.set.extent.sizes:
            work.report.add(CapturedExtent(
                f"`dim {name}` is the extent of `{letter} : {index.set}` of {there.source.name}, so the caller is not "
                f"asked for it",
                span, "declared here", Label(there, "an extent here"),
                helps=(Help(f"choose another name if another number is meant; else leave `dim {name}` out"),)))
            return


def _unread(work: Work, tree: s.SyntaxTree, read: set[str], spoken: set[str]) -> None:
    """Tells of equations of the text that nothing reads, and what nothing else needs."""
    states = {key for repeat in work.made.repeats for loop in repeat.every for key, _, _ in loop.states}
    states |= {x.left.signature.key for x in work.collected.updates}
    lost = [x for x in work.scope.signatures
            if x.key not in read | states and x.members is None and x.name.base not in spoken
            and (entry := work.collected.entries.get(id(x))) is not None and entry.span.source == tree.source]
    told = {id(x) for x in instead(work, tree, lost)}
    readers: dict[str, set[str]] = {}
    for equation in (*work.made.equations, *work.equations.values()):
        for key in equation.reads:
            readers.setdefault(key, set()).add(equation.target)
    for signature in (x for x in lost if id(x) not in told):
        dead, before = {signature.key}, 0
        while before < (before := len(dead)):
            dead |= {key for key, by in readers.items() if by <= dead}
        behind = ", ".join(f"`{x.text}`" for x in work.scope.signatures if x.role != "local" and x.key in dead)
        span = work.collected.entries[id(signature)].span
        work.report.add(Unread(f"nothing reads `{signature.text}`", span, notes=(f"so nothing needs {behind}",)
                               if behind else (),
                               helps=(Help("read it, make it an `output`, or leave the equation out"),)))


def _tell(work: Work, what: str, span: Span) -> None:
    work.report.add(Unused(f"{what} is never used", span, helps=(Help("use it, or leave the declaration out"),)))


def _read(work: Work, recurs: list[BlockLoop], repeats: list[IndexLoop]) -> set[str]:
    """The tensors that some equation reads, or some rounds do."""
    everything = [*work.equations.values(), *work.made.equations]
    everything += [e for recur in recurs for e in recur.equations]
    found = {r.tensor for e in everything for term in (*e.axes, e.domain, e.body) for r in reads(term)}
    found |= {r.tensor for recur in recurs for r in reads(recur.domain)}
    found |= {x for repeat in work.made.repeats for x in repeat.inside}
    found |= {key for repeat in repeats for loop in repeat.every for state in loop.states for key in state}
    # What rounds read of a value under the name that they gave it is read.
    found |= {e.target for key, e in work.equations.items() if key < 0 and isinstance(e.body, Read)
              and any(e.body.tensor in other.reads for other in everything if other is not e)}
    keys = {x.members.key: x.key for x in work.scope.signatures if x.members is not None}
    lengths = {name.name for name in work.scope.sets.lengths.values()}
    return found | {keys[k] for k in found if k in keys} | {x.key for x in work.scope.signatures if x.name in lengths}


def _declared(line: s.Statement) -> Iterator[tuple[str, Span]]:
    """The names that a `dim`, `map` or `def` declares."""
    for clause in line.clauses if line.keyword == "dim" else line.clauses[:1]:
        node = left_of(clause.body)
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
