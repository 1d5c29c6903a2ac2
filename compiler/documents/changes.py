"""What lines of Python may do to what names hold: an equation holds everywhere, a value only until it is changed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from einc.documents.python_source.outside import ROOTS
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Span

MODULES = {*ROOTS, "np", "jnp", "F", "nn", "functional", "special"}  # the names of modules of functions
_SHOWN = {"print", "plt", "display", "logging", "logger", "assert_close", "len", "type"}
_OUT = ("out", "inplace")


@dataclass(frozen=True)
class Changes:
    """The names that a stretch changes in place, and names that may hold one array, by pairs."""

    changed: frozenset[str] = frozenset()
    shared: frozenset[tuple[str, str]] = frozenset()


def names(node: ast.AST) -> frozenset[str]:
    """The names of Python that occur anywhere in a syntax tree."""
    return frozenset(x.id for x in ast.walk(node) if isinstance(x, ast.Name))


def changes(module: ast.Module) -> Changes:
    """What the statements at the top level of a stretch may change."""
    return Changes(frozenset(_changed(module)), frozenset(_shared(module)))


def _changed(module: ast.Module) -> Iterator[str]:
    """Yields the names whose values the statements change in place, or may change; one name may come twice."""
    for node in module.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Assert():
                continue
            case ast.Assign(targets):
                yield from (x for target in targets if not isinstance(target, ast.Name | ast.Tuple)
                            for x in names(target))
                yield from (x for target in targets for x in names(target) & names(node.value))
            case ast.AnnAssign(target, value=value):
                yield from names(target) & names(value or target)
            case ast.Expr(value) if not any(isinstance(x, ast.Call) for x in ast.walk(value)) or _shows(value):
                continue
            case _:  # a loop, a condition, a call that may change what it is given
                yield from names(node)
        for x in ast.walk(node):
            if isinstance(x, ast.NamedExpr):
                yield from names(x)
            if isinstance(x, ast.Call) and (any(k.arg in _OUT for k in x.keywords) or _in_place(x.func)):
                yield from names(x)


def _shows(node: ast.expr) -> bool:
    """Whether it is a call that shows what it is given."""
    return _root(node) in _SHOWN


def _root(node: ast.expr) -> str:
    """The first name of a chain: `x` of `x.view(2).T`."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _in_place(function: ast.expr) -> bool:
    """Whether a method changes its array, as the underscore at its end says: `x.mul_(2)`."""
    return isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__")


def _shared(module: ast.Module) -> Iterator[tuple[str, str]]:
    """`z = x` and `z = x.T` may be one array; what is made of several, a sum or a product, is a new one."""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            calls = [x.func for x in ast.walk(node.value) if isinstance(x, ast.Call)]
            held = names(node.value) - {_root(x) for x in calls if isinstance(x, ast.Name) or _root(x) in MODULES}
            if len(held) == 1:
                yield from ((one, two) for target in node.targets for one in names(target) for two in held)


def unsettled(found: Iterable[Changes]) -> frozenset[str]:
    """The names that some code of a document changes in place, and those that may hold the same arrays."""
    every = list(found)
    out = {x for one in every for x in one.changed}
    pairs = [x for one in every for x in one.shared]
    while more := {x for pair in pairs for x in pair if out & {*pair}} - out:
        out |= more
    return frozenset(out)


def refused(span: Span, name: str, reads: frozenset[str], changed: frozenset[str],
            assigned: Sequence[tuple[str, int]]) -> BadDeclaration | None:
    """What is wrong with an assignment whose names do not hold one value each; None where nothing is. `assigned` are
    the assignments of its section, with their places.
    """
    help_ = Help("give each value a name of its own: an equation holds everywhere")
    count = Counter(x for x, _ in assigned)
    if name and count[name] > 1:
        return BadDeclaration(f"`{name}` is assigned more than once", span, helps=(help_,))
    if found := sorted(({name} | reads) & changed):
        return BadDeclaration(f"other code may change what `{found[0]}` holds", span, helps=(help_,))
    if later := sorted(x for x, at in assigned if x in reads and x != name and at > span.start):
        return BadDeclaration(f"`{later[0]}` is assigned after this line reads it", span, helps=(help_,))
    return None


def unknown(span: Span, name: str) -> BadDeclaration:
    """What is wrong with an assignment that calls what other code defines."""
    return BadDeclaration(f"what `{name}` computes is said by other code, which is not read here", span, helps=(
        Help("`einc from FILE.py::FUNCTION` reads functions; or write what it computes as an equation"),))
