"""The walk through a function: each statement is read as what it makes, or told as what was not read."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from einc.documents.python_source import arithmetic, calls
from einc.documents.python_source.naming import Names, initial
from einc.documents.python_source.outside import (
    BUILTINS,
    DEEPEST,
    LONGEST,
    ROOTS,
    alone,
    builtin,
    imported,
    loaded,
    of_library,
)
from einc.documents.python_source.primitives import known, sequence, shape, tensor
from einc.documents.python_source.state import ReturnedError, State, Unsaid
from einc.documents.python_source.values import (
    NONE,
    CannotSayError,
    Class,
    FollowsError,
    Function,
    Given,
    Instance,
    Lost,
    Method,
    Named,
    Plain,
    PlanBlock,
    Scalar,
    Scope,
    Several,
    Slice,
    Tensor,
    Value,
)


@dataclass
class Interpreter:
    """Reads statements in scopes; what is found out stands in the state."""

    state: State
    library: Scope
    names: Names
    flavour: str = ""  # the library whose methods arrays have
    given: dict[str, Value] = field(default_factory=dict)  # what the reader of the source was told
    depth: int = 0

    # statements

    def run(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        """Reads statements in order. What is not read is told where the outermost function is the author's."""
        for node in body:
            try:
                self.statement(node, scope)
            except CannotSayError as error:
                if error.node is None and scope.user:
                    error.node = node
                if self.depth > 1:
                    raise
                self.lose(node, scope, error)

    def lose(self, node: ast.stmt, scope: Scope, error: CannotSayError) -> None:
        """Tells what was not read, and forgets the names that the statement sets. Writes to the scope. Raises
        ReturnedError where the statement gives back the value that was not read."""
        if not isinstance(error, FollowsError):
            self.state.unsaid.append(Unsaid(scope.source, error.node or node, error.message, error.ways))
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=name, ctx=ast.Store()):
                    scope.names[name] = Lost()
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) if isinstance(
                        own := scope.find("self"), Instance):
                    own.values[name] = Lost()
                case (ast.Subscript(value=ast.Name(id=name), ctx=ast.Store())
                      | ast.Expr(ast.Call(ast.Attribute(value=ast.Name(id=name))))) if name in scope.names:
                    scope.names[name] = Lost()  # it may have been changed in place
                case ast.Return():
                    raise ReturnedError(Lost())
                case _:
                    pass

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        """Reads one statement. Writes to the scope. Raises ReturnedError with the value of a `return`, and
        CannotSayError for a statement that is not read."""
        match node:
            case ast.Assign(targets, value):
                if not self.declared(targets[0], value, scope):
                    found = self.evaluate(value, scope)
                    for target in targets:
                        self.set(target, found, scope)
            case ast.AnnAssign(target, _, value) if value is not None:
                self.set(target, self.evaluate(value, scope), scope)
            case ast.AugAssign(target, op, value):
                was = self.evaluate(loaded(target), scope)
                alone(self.state, target, was, scope)
                self.set(target, arithmetic.binary(self.state, op, was, self.evaluate(value, scope)), scope)
            case ast.Return(value):
                raise ReturnedError(NONE if value is None else self.evaluate(value, scope))
            case ast.If(test, body, orelse):
                if not (all(isinstance(x, ast.Raise) for x in body) and not orelse):
                    holds = arithmetic.truth(self.state, self.evaluate(test, scope))
                    self.inner(body if holds else orelse, scope)
            case ast.For(target, over, body, []):
                for item in self.rounds(self.evaluate(over, scope)):
                    self.set(target, item, scope)
                    self.inner(body, scope)
            case ast.With(_, body):
                self.inner(body, scope)
            case ast.FunctionDef(name):
                scope.names[name] = Function(node, scope)
            case ast.ClassDef(name):
                scope.names[name] = Class(node, scope)
            case ast.Expr(ast.Constant()) | ast.Assert() | ast.Pass() | ast.AnnAssign():
                return
            case ast.Expr(value):
                self.evaluate(value, scope)
            case ast.Import() | ast.ImportFrom():
                scope.names |= imported(node)
            case _:
                raise CannotSayError("this statement is not read",
                                     "write what it computes as assignments and a `return`")

    def inner(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        """Reads the statements of a block: one that is not read loses the whole block."""
        for node in body:
            self.statement(node, scope)

    def rounds(self, over: Value) -> tuple[Value, ...]:
        """What a loop goes over. CannotSayError where that is not known, or long."""
        items = sequence(self.state, over)
        if not isinstance(over, Several) or len(items) > LONGEST:
            raise CannotSayError("a loop over what the source does not list is not read")
        return items

    def declared(self, target: ast.expr, value: ast.expr, scope: Scope) -> bool:
        """`B, T, C = x.shape` of an argument of which nothing is known declares its axes."""
        match target, value:
            case ast.Tuple(names), (ast.Attribute(of, "shape") | ast.Call(ast.Attribute(of, "size"), [], [])):
                one = known(self.state, self.evaluate(of, scope))
                words = [n.id if isinstance(n, ast.Name) else "" for n in names]
                if isinstance(one, Tensor) and len(one.axes) == len(words):
                    self.names.witness(self.state, one, words, scope)
                if not isinstance(one, Given) or "" in words:
                    return False
                extents = [self.names.size(self.state, w) for w in words]
                made = self.state.array(one.name, tuple(extents), tuple(map(initial, words)))
                self.set(target, shape(self.state, made), scope)
                return True
        return False

    def set(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Gives a name, an attribute of an object, or several of them the value from now on. Raises CannotSayError."""
        match target:
            case ast.Name(name):
                scope.names[name] = self.named(name, value, scope, target)
            case ast.Attribute(of, name) if isinstance(own := self.evaluate(of, scope), Instance):
                own.values[name] = self.owned(own, name, value)
            case ast.Tuple(targets) | ast.List(targets):
                items = sequence(self.state, value)
                if len(items) != len(targets) or any(isinstance(x, ast.Starred) for x in targets):
                    raise CannotSayError(f"{len(items)} values for {len(targets)} names")
                for inner, item in zip(targets, items, strict=True):
                    self.set(inner, item, scope)
            case _:
                raise CannotSayError("an array is not changed in place")

    def named(self, name: str, value: Value, scope: Scope, node: ast.expr) -> Value:
        """A value under a name of the author's: an array becomes an equation, unless it is a view of one."""
        if not isinstance(value, Tensor) or not scope.user:
            return value
        found = self.names.equation(self.state, name, value)
        self.names.comment(self.state, found, node.lineno, name, scope)
        return found

    def owned(self, own: Instance, name: str, value: Value) -> Value:
        """A value as an attribute: an object learns where it stands."""
        items = value.items if isinstance(value, Several) else (value,)
        for at, item in enumerate(items):
            if isinstance(item, Instance) and item.holder is None:
                item.holder, item.name = own, name if value is item else f"{name}.{at}"
        return value

    # expressions

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """The value of an expression. CannotSayError has the innermost expression of the user's that is not read."""
        try:
            return self.expression(node, scope)
        except CannotSayError as error:
            if error.node is None and scope.user:
                error.node = node
            raise

    def expression(self, node: ast.expr, scope: Scope) -> Value:
        """The value of an expression by its kind. Raises CannotSayError for a kind that is not read."""
        match node:
            case ast.Constant(value) if value is None or isinstance(value, bool | int | float | str):
                return Plain(value)
            case ast.Constant(value) if value is ...:
                return Plain("...")
            case ast.Name(name):
                return self.looked_up(name, scope)
            case ast.Attribute(of, name):
                return self.attribute(self.evaluate(of, scope), name)
            case ast.BinOp(left, op, right):
                return arithmetic.binary(self.state, op, self.evaluate(left, scope), self.evaluate(right, scope))
            case ast.UnaryOp(op, operand):
                return arithmetic.unary(self.state, op, self.evaluate(operand, scope))
            case ast.Compare(left, [op], [right]):
                return arithmetic.compared(self.state, op, self.evaluate(left, scope), self.evaluate(right, scope))
            case ast.BoolOp(op, values):
                found: Value = NONE
                for one in values:
                    found = self.evaluate(one, scope)
                    if arithmetic.truth(self.state, found) is isinstance(op, ast.Or):
                        return found
                return found
            case ast.IfExp(test, body, orelse):
                holds = arithmetic.truth(self.state, self.evaluate(test, scope))
                return self.evaluate(body if holds else orelse, scope)
            case ast.Tuple(items) | ast.List(items):
                return Several(tuple(self.spread(items, scope)))
            case ast.Subscript(of, index):
                return arithmetic.item(self.state, self.evaluate(of, scope), self.evaluate(index, scope))
            case ast.Slice(lower, upper, step):
                return Slice(*(NONE if x is None else self.evaluate(x, scope) for x in (lower, upper, step)))
            case ast.Call():
                return self.call_of(node, scope)
            case ast.Lambda():
                return Function(node, scope)
            case _:
                raise CannotSayError("this expression is not read")

    def spread(self, items: Iterable[ast.expr], scope: Scope) -> list[Value]:
        """The values of a list, `*several` among them."""
        out: list[Value] = []
        for item in items:
            if isinstance(item, ast.Starred):
                out += self.rounds(self.evaluate(item.value, scope))
            else:
                out.append(self.evaluate(item, scope))
        return out

    def looked_up(self, name: str, scope: Scope) -> Value:
        """A name: of the source, of the library, or one that nothing sets, which the caller has to give. Raises
        FollowsError where a line that was not read would have set it."""
        found = scope.find(name)
        if isinstance(found, Lost):
            raise FollowsError("it follows from a line that was not read")
        if isinstance(found, Named):
            return of_library(self.library.names, found.name)
        if found is not None:
            return known(self.state, found) if isinstance(found, Given) else found
        if name in BUILTINS and scope.user:
            return Named(name)
        for prefix in dict.fromkeys((ROOTS.get(self.flavour, ""), "", "einops_")):
            if prefix + name in self.library.names:
                return self.library.names[prefix + name]
        if name.startswith("_") and not scope.user:
            return Named(name)
        self.state.note(f"`{name}` is no argument and nothing in the file sets it: the spec asks for it.")
        return known(self.state, Given(name))

    def attribute(self, of: Value, name: str) -> Value:
        """The value of `of.name`; an array that the function asks for so is noted in the state. Raises CannotSayError.
        """
        of = known(self.state, of)
        match of:
            case Named(path):
                return of_library(self.library.names, f"{path}.{name}")
            case Instance(values=values) if name in values:
                if isinstance(values[name], Lost):
                    raise FollowsError("it follows from a line that was not read")
                if isinstance(found := values[name], PlanBlock):
                    path = f"{of.path}.{name}" if of.path else name
                    self.state.array(path, found.extents, weight=True, said=f"self.{path}")
                    found = values[name] = Given(path)
                return known(self.state, found)
            case Instance():
                method = self.method(of.of, name)
                if method is not None:
                    return Function(method, of.of.scope, of)
                return Method(name, of) if name in {"register_buffer", "train", "eval"} else self.named_by(of, name)
            case Given(path):
                return Given(f"{path}.{name}") if f"{path}.{name}" not in self.given else self.given[f"{path}.{name}"]
            case Tensor() if name in {"T", "mT", "shape", "ndim", "data"}:
                return self.call(of_library(self.library.names, f"{self.flavour or 'torch'}.{name}"), [of], {})
            case Tensor() if name in {"dtype", "device", "is_cuda"}:
                return Named(name)
            case Tensor() | Scalar():
                return Method(name, of)
        raise CannotSayError(f"the attribute `{name}` is not read")

    def named_by(self, own: Instance, name: str) -> Value:
        """An attribute that nothing sets: it is for the caller to give, under its own name."""
        if f"self.{name}" in self.given:
            return self.given[f"self.{name}"]
        if name == "training":
            self.state.note("It is read as in evaluation: `self.training` is False.")
            return Plain(False)
        self.state.note(f"Nothing sets `self.{name}`: where it is read, the spec asks for it.")
        return known(self.state, Given(self.names.attribute(name)))

    def method(self, of: Class, name: str) -> ast.FunctionDef | None:
        """The function of a class, or of one that it is made from."""
        for node in of.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        for base in of.node.bases:
            with suppress(CannotSayError):
                one = self.evaluate(base, of.scope)
                found = self.method(one, name) if isinstance(one, Class) and one is not of else None
                if found is not None:
                    return found
        return None

    # calls

    def call_of(self, node: ast.Call, scope: Scope) -> Value:
        """What a call in the source gives: its function and arguments are evaluated first, and `*` and `**` are spread.
        Raises what the call itself does."""
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return Named("super()")
        called = self.evaluate(node.func, scope)
        positional = self.spread(node.args, scope)
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, scope)
            if keyword.arg is None:
                pairs = [sequence(self.state, item) for item in sequence(self.state, value)]
                named |= {str(k.value): v for k, v in pairs if isinstance(k, Plain)}
            else:
                named[keyword.arg] = value
        return self.call(called, positional, named)

    def call(self, called: Value, positional: list[Value], named: dict[str, Value]) -> Value:
        """The value of a call. Raises CannotSayError for what cannot be called."""
        match called:
            case Function(node, scope, own):
                return self.function(node, scope, [*([] if own is None else [own]), *positional], named)
            case Class():
                return self.made(called, positional, named)
            case Instance():
                method = self.method(called.of, "forward") or self.method(called.of, "__call__")
                if method is None:
                    raise CannotSayError("an object without a function is called")
                return self.function(method, called.of.scope, [called, *positional], named)
            case Method("register_buffer", Instance() as own) if len(positional) > 1 and isinstance(
                    positional[0], Plain):
                own.values[str(positional[0].value)] = self.owned(own, str(positional[0].value), positional[1])
                return NONE
            case Method(name, own):
                found = of_library(self.library.names, f"{self.flavour or 'torch'}.{name}")
                if isinstance(found, Named):
                    raise CannotSayError(f"`.{name}` of an array is not read")
                return self.call(found, [own, *positional], named)
            case Named(name):
                return builtin(self.state, name, positional, named)
            case Given(name) if "." in name:
                tensor(self.state, called)
            case Given(name):
                raise CannotSayError(f"`{name}` is called, and the source does not say what it is")
        raise CannotSayError("this is no function")

    def function(self, node: ast.FunctionDef | ast.Lambda, around: Scope, positional: list[Value],
                 named: dict[str, Value]) -> Value:
        """The value of a function, read with its arguments. Raises CannotSayError where functions call each other too
        deeply."""
        if self.depth > DEEPEST:
            raise CannotSayError("functions call each other too deeply")
        values = calls.bound(node.args, positional, named, lambda x: self.evaluate(x, around), not around.user)
        scope = Scope(around.source, values, around, around.user)
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, scope)
        self.depth += 1
        try:
            self.run(node.body, scope)
        except ReturnedError as found:
            return found.value
        finally:
            self.depth -= 1
        return NONE

    def made(self, of: Class, positional: list[Value], named: dict[str, Value]) -> Value:
        """A new object of a class whose `__init__`, where it has one, has been read with these arguments."""
        new = Instance(of)
        start = self.method(of, "__init__")
        if start is not None:
            self.function(start, of.scope, [new, *positional], named)
        return new
