"""Lines of Python in a document -> equations: assignments of arrays, read by `ast` and never run.

A stretch of code is read where it holds a string of einsum or einops at its top level; what functions define is theirs,
and `einc from` reads them. Comments such as `# q[B, H, L, d_h]` say the axes of arrays.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from einc.checking.notation import BY_POSITION
from einc.documents.changes import MODULES, Changes, changes, names
from einc.documents.document import Formula
from einc.documents.python_source.outside import ROOTS
from einc.documents.python_source.patterns import Shape, shapes
from einc.documents.python_source.places import offset
from einc.documents.said import Said
from einc.documents.shapes import FACT
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Problem, Source, Span
from einc.syntax import tree as s

_AXIS = ("dim", "axis")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class Line:
    """An assignment, or the axes that a comment says of an array, where it stands. `name` is what it assigns, ""
    where a comment says it; `called` are the names of the functions and modules that it calls, `reads` all its names.
    """

    start: int
    end: int
    name: str = ""
    called: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stretch:
    """The lines of a stretch of Python, and what it does to names. `foreign` are functions and modules that it makes or
    takes from libraries of which nothing is known: what these compute, their names do not say. `assigned` are the
    names of assignments with the places of these, `changes` what else may change what names hold.
    """

    lines: tuple[Line, ...] = ()
    foreign: frozenset[str] = frozenset()
    assigned: tuple[tuple[str, int], ...] = ()
    changes: Changes = field(default_factory=Changes)


def stretch(source: Source, start: int, end: int) -> Stretch:
    """The assignments in a stretch of a text, and the comments that say axes, in order; no lines where it is no Python
    or has no string of axes at its top level.
    """
    text = source.text[start:end]
    module = _module(text)
    if module is None:
        return Stretch()
    own = Source("", text)
    found = [node for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    assigned = tuple((name, start + offset(own, node.lineno, node.col_offset)) for node in found
                     for target in _targets(node) for name in names(target))
    made = Stretch((), frozenset(_foreign(module)), assigned, changes(module))
    if not any(_called(node) for node in found):
        return made
    out = [Line(start + offset(own, node.lineno, node.col_offset),
                start + offset(own, node.end_lineno or node.lineno, node.end_col_offset or 0),
                _target(node), frozenset(_calls(node)), names(node)) for node in found]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            at = start + own.start(token.start[0]) + token.start[1]
            places = dict.fromkeys((x.start, x.end) for x in shapes(token.string) if x.name)
            out += [Line(at + first, at + last) for first, last in places]
    return replace(made, lines=tuple(sorted(out, key=lambda x: x.start)))


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


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    """The name that an assignment is of, "" for several."""
    (first, *rest) = _targets(node)
    return first.id if not rest and isinstance(first, ast.Name) else ""


def _called(node: ast.AST) -> bool:
    return any(isinstance(x, ast.Call) and _function(x.func) in BY_POSITION for x in ast.walk(node))


def _function(node: ast.expr) -> str:
    """The last part of a function's name: `einsum` of `torch.einsum`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def read(span: Span) -> list[s.Statement]:
    """The equation of an assignment, or the `tensor` lines of what a comment says. Raises BadDeclaration."""
    if said := axes(span.text):
        return [_tensor(x.name, x.sizes, span) for x in said]
    (node,) = ast.parse(span.text).body
    assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    target = _targets(node)[0]
    if not _target(node):
        raise _unread(node, span)
    reader = _Reader(span, Source("", span.text))
    left, right = reader.name(_target(node), reader.span(target)), reader.expression(node.value)
    relation = s.Relation((left, right), ("=",), span)
    return [s.Statement("", False, (s.Clause(relation, None, span),), (), span)]


def axes(text: str) -> list[Shape]:
    """The axes that a text says and no more, `q[B, H, L, d_h]` or `q, k: (B, d)` of each name; none of another text."""
    found = shapes(text)
    return found if all((x.start, x.end) == (0, len(text)) and x.name for x in found) else []


def _tensor(name: str, sizes: tuple[str, ...], span: Span) -> s.Statement:
    """`tensor q : B × H × L × d_h`."""
    reader = _Reader(span, Source("", span.text))
    items = tuple(s.Number(x, span) if x.isdigit() else reader.name(x, span) for x in sizes)
    shape = items[0] if len(items) == 1 else s.Product(items, ("", *("*",) * (len(items) - 1)), span)
    at = span.start + (found.start() if (found := re.search(rf"\b{re.escape(name)}\b", span.text)) else 0)
    place = Span(span.source, at, at + len(name))
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
        """The place of a node of Python in the document that the line stands in."""
        start = offset(self.line, node.lineno, node.col_offset)
        end = offset(self.line, node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Span(self.whole.source, self.whole.start + start, self.whole.start + end)

    def name(self, text: str, span: Span) -> s.Expression:
        """`W_Q` as the name that a formula gives it: W with the label Q. Raises BadDeclaration for `x_` and `x__q`."""
        base, *labels = text.split("_")
        if not base or "" in labels:
            raise BadDeclaration(f"`{text}` is no name that a formula can have", span, helps=(
                Help("write single `_` between words: `W_Q`"),))
        scripts = tuple(s.Script("label_lower", None, x, span) for x in labels)
        word = s.Word(base, span, quoted=len(base) > 1)  # several letters are no product of names here
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
            case ast.BinOp(left, ast.Pow(), ast.Constant(int() | float() as power)) if not isinstance(power, bool):
                raised = s.Script("upper", s.Number(repr(power), span), "", span)
                base = s.Group("(", ")", (self.expression(left),), span)
                return s.Group("(", ")", (s.Scripted(base, (), (raised,), span),), span)
            case ast.Call(function, arguments, keywords):
                return self.call(function, arguments, keywords, span)
        raise _unread(node, span)

    def call(self, function: ast.expr, arguments: list[ast.expr], keywords: list[ast.keyword],
             span: Span) -> s.Expression:
        """`torch.exp(x)`, `x.sum(dim=-1)`, `sqrt(d)`. Raises the problem of `_unread` for a function without a name,
        and for `**` among the arguments."""
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
        return isinstance(function, ast.Name) and function.id in MODULES

    def argument(self, keyword: ast.keyword, span: Span) -> s.Relation:
        """`dim=-1`, which is `axis = -1` here, `h=8`."""
        name = "axis" if keyword.arg in _AXIS else keyword.arg or ""
        value = self.expression(keyword.value)
        if isinstance(value, s.Group) and isinstance(value.items[0], s.Sum):
            value = value.items[0]
        return s.Relation((s.Word(name, span), value), ("=",), span)


def equations(formula: Formula) -> Iterator[Said]:
    """The equation of a line of Python, or the axes that a comment says."""
    try:
        for line in read(formula.span):
            yield Said(formula, formula.span, line, fact=FACT if line.keyword else "")
    except Problem as problem:
        yield Said(formula, formula.span, problem=problem)
