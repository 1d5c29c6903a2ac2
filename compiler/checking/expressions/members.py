"""Lines about what signatures hold: sets, which stand after `∈` and are read in `ordering`, and masks."""

from __future__ import annotations

from collections.abc import Iterable

from einc.checking.declarations.declare import defined_in
from einc.checking.declarations.names import Name
from einc.checking.declarations.scope import Loop, Mask, Members, Scope
from einc.checking.declarations.sets import extent, extent_of
from einc.checking.declarations.signatures import left_side, stem_of
from einc.checking.expressions.collect import Collected
from einc.errors.problems import BadDeclaration, DefinedTwice, OverridesNothing
from einc.errors.report import Help, Label, Silent
from einc.syntax import tree as s
from einc.syntax.printing.layout import alike


def declare_sets(scope: Scope, found: Collected, statements: Iterable[tuple[s.Statement, Loop]]) -> None:
    """Declares every set of the program; a line that is wrong is reported and left out."""
    for statement, loop in statements:
        if statement.keyword == "set":
            with scope.telling(statement, tuple(defined_in(statement))):
                _set(scope, found, statement, loop)


def declare_masks(scope: Scope, statements: Iterable[tuple[s.Statement, Loop]]) -> None:
    """Adds every mask to the tensor that it restricts."""
    for statement, loop in statements:
        if statement.keyword == "mask":
            with scope.telling(statement, (x for c in statement.clauses for x in stem_of(c.body))):
                _mask(scope, statement, loop)


def _set(scope: Scope, found: Collected, statement: s.Statement, loop: Loop) -> None:
    """Declares `set S_t = topk_{s ≤ t}(I_{t s}, n)`: a name that stands after `∈`. Raises BadDeclaration, DefinedTwice
    or OverridesNothing."""
    match statement.clauses:
        case (s.Clause(s.Relation((left, s.Product((_, s.Group("(", ")", (_, count))), ("", "")) as written),
                                  ("=" | ":=",))),):
            pass
        case _:
            raise BadDeclaration("a set is written `set S_t = topk_{s ≤ t}(I_{t s}, n)`", statement.span)
    signature = left_side(scope, left, "local", loop=loop).signature
    before = signature.members
    if id(signature) in found.entries or signature.role != "local" or (before is not None and not statement.override):
        if before is not None and before.span.source != statement.span.source and alike(before.span, statement.span):
            return
        raise DefinedTwice(f"`{signature.text}` is defined twice", statement.span, "again here",
                           Label(before.span if before is not None else signature.span, "defined here"),
                           helps=(Help("give one of the two another name"),))
    if before is None and statement.override:
        raise OverridesNothing(f"there is no set `{signature.text}` to override", statement.span,
                               helps=(Help("remove `override`, or `use` the spec that defines it"),))
    asked = {x.name.base for x in scope.signatures if x.role != "local" and not x.slots}
    if extent_of(count).sizes & asked:
        raise BadDeclaration(f"`{count.span.text}` is an input, and how many a set holds is a size", count.span,
                             helps=(Help(f"declare it: `dim {count.span.text}`"),))
    signature.members = Members(written, extent(scope, count), loop, statement.span)


def _mask(scope: Scope, statement: s.Statement, loop: Loop) -> None:
    """Adds a `mask` line to the signatures that it names; `override` replaces their earlier masks.

    It raises BadDeclaration for a mask without a condition, and OverridesNothing where nothing defines the tensor.
    """
    if not statement.tail:
        raise BadDeclaration("a mask says where a tensor exists", statement.span,
                             helps=(Help("write `mask L_{t s} : s ≤ t`, or `: all`"),))
    for clause in statement.clauses:
        left = left_side(scope, clause.body, "local", declare=False, loop=loop)
        signature = left.signature
        if signature not in scope.exactly(signature.name):
            if any(x in scope.lost for x in stem_of(clause.body)):
                raise Silent("told with the tensor")
            others = [x.text for x in scope.exactly(signature.name)]
            written = clause.body.span.text
            told = (f"`{written}` has other indices than the tensor of that name, `{others[0]}`" if others else
                    f"nothing defines `{written}`, so a mask has nothing to restrict")
            raise OverridesNothing(told, clause.span, once=(Name(stem_of(clause.body)[0]), "tensor"),
                                   helps=(Help(f"a mask names the tensor with its indices: `mask {others[0]} : …`"
                                               if others else "declare or define it with these indices"),))
        total = (len(statement.tail) == 1 and isinstance(statement.tail[0].body, s.Word)
                 and statement.tail[0].body.text == "all")
        if statement.override:
            signature.said.masks.clear()
            signature.said.total = False
        signature.said.total = signature.said.total or total
        signature.said.masks.append(Mask(left.axes, None if total else statement.tail, statement.span))
