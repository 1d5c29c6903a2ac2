"""Lines of Python in a document -> equations: assignments of arrays, read by `ast` and never run.

A stretch of code is read where it holds a string of einsum or einops at its top level; what functions define is theirs,
and `einc from` reads them. Comments such as `# q[B, H, L, d_h]` say the axes of arrays.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from einc.checking.arrays.calls import NAMES
from einc.documents.python_source.outside import ROOTS
from einc.documents.python_source.patterns import Shape, shapes
from einc.documents.python_source.places import offset
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Source, Span
from einc.syntax import tree as s

_AXIS = ("dim", "axis")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_MODULES = {*ROOTS, "np", "jnp", "F", "math", "nn", "functional", "einops", "special"}


@dataclass(frozen=True)
class Line:
    """An assignment, or the axes that a comment says of an array, where it stands. `name` is what it assigns, ""
    where a comment says it; `again`: something else in the same stretch changes that too. `called` are the names of
    the functions and modules that it calls.
    """

    start: int
    end: int
    name: str = ""
    again: bool = False
    called: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stretch:
    """The lines of a stretch of Python, and the names of functions and modules that it makes or takes from libraries
    of which nothing is known: what these compute, their names do not say.
    """

    lines: tuple[Line, ...] = ()
    foreign: frozenset[str] = frozenset()


def stretch(source: Source, start: int, end: int) -> Stretch:
    """The assignments in a stretch of a text, and the comments that say axes, in order; no lines where it is no Python
    or has no string of axes at its top level.
    """
    text = source.text[start:end]
    module = _module(text)
    if module is None:
        return Stretch()
    foreign = frozenset(_foreign(module))
    found = [node for node in module.body if isinstance(node, ast.Assign)]
    if not any(_called(node) for node in found):
        return Stretch((), foreign)
    own = Source("", text)
    changed = list(_changed(module))
    out = [Line(start + offset(own, node.lineno, node.col_offset),
                start + offset(own, node.end_lineno or node.lineno, node.end_col_offset or 0),
                name := _target(node), changed.count(name) > 1, frozenset(_calls(node))) for node in found]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            at = start + own.start(token.start[0]) + token.start[1]
            out += [Line(at + x.start, at + x.end) for x in shapes(token.string) if x.name]
    return Stretch(tuple(sorted(out, key=lambda x: x.start)), foreign)


def _foreign(module: ast.Module) -> Iterator[str]:
    """The names that a stretch defines as functions or classes, or imports from what is none of the known libraries."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Assign(targets, ast.Lambda()):
                yield from (x.id for x in targets if isinstance(x, ast.Name))
            case ast.Import(names):
                yield from (x.asname or x.name.partition(".")[0] for x in names if _root(x.name) not in ROOTS)
            case ast.ImportFrom(source, names) if node.level or _root(source or "") not in ROOTS:
                yield from (x.asname or x.name for x in names)
            case ast.ImportFrom(_, names):
                yield from (x.asname for x in names if x.asname not in (None, x.name))


def _root(path: str) -> str:
    return path.partition(".")[0]


def _calls(node: ast.AST) -> Iterator[str]:
    """The first name of each function that is called: `F` of `F.relu(x)`."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            function = call.func
            while isinstance(function, ast.Attribute):
                function = function.value
            if isinstance(function, ast.Name):
                yield function.id


def _module(text: str) -> ast.Module | None:
    """The tree of a Python text; None where it is none, or where its lines are not those of the document."""
    if "\r" in text.replace("\r\n", ""):
        return None
    try:
        list(tokenize.generate_tokens(io.StringIO(text).readline))
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None


def _target(node: ast.Assign) -> str:
    """The name that an assignment is of, "" for several."""
    return node.targets[0].id if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) else ""


def _changed(module: ast.Module) -> Iterator[str]:
    """The names that the statements of a stretch assign or may change, one entry for each time."""
    for node in module.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Assert():
                pass
            case ast.Assign(targets):
                yield from (x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name))
            case ast.Expr(ast.Call(ast.Name("print"))):
                pass
            case _:  # a loop, a condition, a call that may change what it is given
                yield from (x.id for x in ast.walk(node) if isinstance(x, ast.Name) for _ in range(2))


def twice(span: Span, name: str) -> BadDeclaration:
    """What is wrong with an assignment of a name that has another one: which of them a line reads, its place says."""
    return BadDeclaration(f"`{name}` is assigned more than once", span, helps=(
        Help("give each value a name of its own: an equation holds everywhere"),))


def unknown(span: Span, name: str) -> BadDeclaration:
    """What is wrong with an assignment that calls what other code defines."""
    return BadDeclaration(f"what `{name}` computes is said by other code, which is not read here", span, helps=(
        Help("`einc from FILE.py::FUNCTION` reads functions; or write what it computes as an equation"),))


def _called(node: ast.AST) -> bool:
    return any(isinstance(x, ast.Call) and _function(x.func) in NAMES for x in ast.walk(node))


def _function(node: ast.expr) -> str:
    """The last part of a function's name: `einsum` of `torch.einsum`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def read(span: Span) -> list[s.Statement]:
    """The equation of an assignment, or the `tensor` line of what a comment says. Raises BadDeclaration."""
    if (said := axes(span.text)) is not None:
        return [_tensor(said.name, said.sizes, span)]
    (node,) = ast.parse(span.text).body
    assert isinstance(node, ast.Assign)
    if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        raise _unread(node, span)
    reader = _Reader(span, Source("", span.text))
    left, right = reader.name(node.targets[0].id, reader.span(node.targets[0])), reader.expression(node.value)
    relation = s.Relation((left, right), ("=",), span)
    return [s.Statement("", False, (s.Clause(relation, None, span),), (), span)]


def axes(text: str) -> Shape | None:
    """The axes that a text says and no more, `q[B, H, L, d_h]`."""
    found = shapes(text)
    return found[0] if len(found) == 1 and (found[0].start, found[0].end) == (0, len(text)) and found[0].name else None


def _tensor(name: str, sizes: tuple[str, ...], span: Span) -> s.Statement:
    """`tensor q : B × H × L × d_h`."""
    reader = _Reader(span, Source("", span.text))
    items = tuple(s.Number(x, span) if x.isdigit() else reader.name(x, span) for x in sizes)
    shape = items[0] if len(items) == 1 else s.Product(items, ("", *("*",) * (len(items) - 1)), span)
    place = Span(span.source, span.start, span.start + len(name))
    return s.Statement("tensor", False, (s.Clause(reader.name(name, place), None, place),),
                       (s.Clause(shape, None, span),), span)


def _unread(node: ast.AST, span: Span) -> BadDeclaration:
    return BadDeclaration("this line of Python is not read", span, helps=(
        Help("`einc from FILE.py::FUNCTION` reads functions with more of the language"),))


@dataclass(frozen=True)
class _Reader:
    """Reads expressions of Python as those of the language. `whole` is where the line stands, `line` its text."""

    whole: Span
    line: Source

    def span(self, node: ast.expr) -> Span:
        """Where a part of the line stands."""
        start = offset(self.line, node.lineno, node.col_offset)
        end = offset(self.line, node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Span(self.whole.source, self.whole.start + start, self.whole.start + end)

    def name(self, text: str, span: Span) -> s.Expression:
        """`W_Q` as the name that a formula gives it: W with the label Q."""
        base, *labels = [x for x in text.split("_") if x] or [text]
        scripts = tuple(s.Script("label_lower", None, x, span) for x in labels)
        word = s.Word(base, span)
        return s.Scripted(word, (), scripts, span) if scripts else word

    def expression(self, node: ast.expr) -> s.Expression:
        """An expression. Raises BadDeclaration for what is not read."""
        span = self.span(node)
        match node:
            case ast.Constant(bool()):
                raise _unread(node, span)
            case ast.Constant(int() | float() as value):
                return s.Number(repr(value), span)
            case ast.Constant(str(text)):
                return s.Word(text, span, quoted=True)
            case ast.Name(name):
                return self.name(name, span)
            case ast.UnaryOp(ast.USub(), inner):
                return s.Group("(", ")", (s.Sum((self.expression(inner),), ("-",), span),), span)
            case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
                terms = (self.expression(left), self.expression(right))
                return s.Group("(", ")", (s.Sum(terms, ("+", _SIGNS[type(sign)]), span),), span)
            case ast.BinOp(left, ast.Mult() | ast.Div() as sign, right):
                factors = (self.expression(left), self.expression(right))
                return s.Group("(", ")", (s.Product(factors, ("", _SIGNS[type(sign)]), span),), span)
            case ast.Call(function, arguments, keywords):
                return self.call(function, arguments, keywords, span)
        raise _unread(node, span)

    def call(self, function: ast.expr, arguments: list[ast.expr], keywords: list[ast.keyword],
             span: Span) -> s.Expression:
        """`torch.exp(x)`, `x.sum(dim=-1)`, `sqrt(d)`."""
        name = _function(function)
        own = [] if isinstance(function, ast.Name) or self.module(function) else [function]
        first = [x.value for x in own if isinstance(x, ast.Attribute)]
        inner = tuple(self.expression(x) for x in (*first, *arguments))
        if not name or any(k.arg is None for k in keywords):
            raise _unread(function, span)
        if name == "sqrt" and len(inner) == 1 and not keywords:
            return s.Root(inner[0], span)
        named = tuple(self.argument(k, span) for k in keywords)
        return s.Product((s.Word(name, self.span(function)), s.Group("(", ")", (*inner, *named), span)), ("", ""), span)

    def module(self, function: ast.expr) -> bool:
        """Whether a function is one of a module, and none of an array."""
        while isinstance(function, ast.Attribute):
            function = function.value
        return isinstance(function, ast.Name) and function.id in _MODULES

    def argument(self, keyword: ast.keyword, span: Span) -> s.Relation:
        """`dim=-1`, which is `axis = -1` here, `h=8`."""
        name = "axis" if keyword.arg in _AXIS else keyword.arg or ""
        value = self.expression(keyword.value)
        if isinstance(value, s.Group) and isinstance(value.items[0], s.Sum):
            value = value.items[0]
        return s.Relation((s.Word(name, span), value), ("=",), span)
