"""What comes from outside of a function: libraries, functions of Python itself, imports."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress

from einc.documents.python_source.primitives import PRIMITIVES, extent, known
from einc.documents.python_source.state import State
from einc.documents.python_source.terms import Read
from einc.documents.python_source.values import (
    NONE,
    CannotSayError,
    Given,
    Named,
    Plain,
    Scalar,
    Scope,
    Several,
    Tensor,
    Value,
)
from einc.documents.python_source.views import VIEWS

DEEPEST, LONGEST = 60, 64  # calls inside of calls, rounds of a loop
ROOTS = {"torch": "", "numpy": "numpy_", "jax": "numpy_", "math": "math_", "einops": "einops_"}
BUILTINS = {"float", "int", "len", "range", "tuple", "list", "print", "isinstance", "super"}


def of_library(names: Mapping[str, Value], path: str) -> Value:
    """A name with dots: what the library's text says of it; else the name, which cannot be called."""
    root, name = path.partition(".")[0], path.rpartition(".")[2]
    if root not in ROOTS:
        return Named(path)
    if ROOTS[root] + name in names:
        return names[ROOTS[root] + name]
    return names[name] if (root in {"numpy", "jax"} and name in names) or name in {"inf", "pi"} else Named(path)


def builtin(state: State, name: str, positional: list[Value], named: dict[str, Value]) -> Value:
    """The value of a call of a function of Python itself, or of one that the library's text is made of. Raises
    CannotSayError for another function."""
    if name in PRIMITIVES or name in VIEWS:
        return {**PRIMITIVES, **VIEWS}[name](state, *positional, **named)
    match name, positional:
        case ("float", [Plain(value)]) if isinstance(value, str | int | float):
            with suppress(ValueError):
                return Plain(float(value))
        case ("int", [Plain() | Scalar() as value]):
            extent(state, value)
            return value
        case "len", [Several(items)]:
            return Plain(len(items))
        case ("range", [Plain(int(count))]) if 0 <= count <= LONGEST:
            return Several(tuple(map(Plain, range(count))))
        case ("tuple" | "list"), [Several() as value]:
            return value
        case "print" | "super().__init__", _:
            return NONE
    raise CannotSayError(f"`{name}` is not read")


def loaded(target: ast.expr) -> ast.expr:
    """The target of `x += 1` as what is read there. Raises CannotSayError where that is part of an array."""
    match target:
        case ast.Name(name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(of, name):
            return ast.copy_location(ast.Attribute(of, name, ast.Load()), target)
    raise CannotSayError("an array is not changed in place")


def base(value: Tensor) -> object:
    """The name of the array that a value is a view of, or the term of a value that is computed."""
    return value.term.name if isinstance(value.term, Read) else value.term


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, Value]:
    """The names that an import brings, by their dots."""
    if isinstance(node, ast.Import):
        return {a.asname or a.name.partition(".")[0]: Named(a.name if a.asname else a.name.partition(".")[0])
                for a in node.names}
    return {a.asname or a.name: Named(f"{node.module or ''}.{a.name}") for a in node.names}


def alone(state: State, target: ast.expr, was: Value, scope: Scope) -> None:
    """Raises CannotSayError for `x += y`, which changes the array itself, where it has another name that would change,
    too.
    """
    if not isinstance(was, Tensor):
        return
    other: Scope | None = scope
    while other is not None:
        for name, value in other.names.items():
            one = known(state, value) if isinstance(value, Given | Tensor) else value
            mine = isinstance(target, ast.Name) and name == target.id
            if (not mine and isinstance(one, Tensor) and base(one) == base(was)) or isinstance(one, Several):
                raise CannotSayError(f"this changes `{name}`, too, if both are one array",
                                     "write `x = x + y`, which makes a new array")
        other = other.around
    if not isinstance(target, ast.Name):
        raise CannotSayError("an array of an object is not changed in place")
