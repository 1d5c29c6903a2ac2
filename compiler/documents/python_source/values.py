"""What a Python expression is, as far as the source says: an array, a number, a function, or what was not read."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.documents.python_source.terms import Axis, Condition, Constant, SizeOf, Term
from einc.errors.report import Source
from einc.ir.indices import Extent


class CannotSayError(Exception):
    """What stands here is not read; the message says why, and `ways` are ways out."""

    def __init__(self, message: str, *ways: str) -> None:
        super().__init__(message)
        self.message, self.ways = message, ways
        self.node: ast.AST | None = None


class FollowsError(CannotSayError):
    """A value is missing whose own line was told already."""


@dataclass(frozen=True)
class Tensor:
    """An array: where `condition` holds its elements are the term, and `other` elsewhere.

    `partial` says that the term itself exists at those points alone; `truth` that the elements are true or false.
    """

    axes: tuple[Axis, ...]
    term: Term
    condition: Condition | None = None
    other: float = 0.0
    partial: bool = False
    truth: bool = False


@dataclass(frozen=True)
class Plain:
    """A constant of Python: a number, a text, a truth value or None."""

    value: float | int | str | bool | None


@dataclass(frozen=True)
class Scalar:
    """A number that the caller has: a size, an argument, or what is computed of those."""

    term: Term
    extent: Extent | None = None


@dataclass(frozen=True)
class Given:
    """An argument or a variable of a class of which nothing is known yet but its name."""

    name: str


@dataclass(frozen=True)
class Several:
    """A tuple or a list."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Named:
    """A name of a library, with its dots."""

    name: str


@dataclass(frozen=True)
class Function:
    """A function with the names around it; `own` is the value that it is a method of."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    own: Value | None = None


@dataclass(frozen=True)
class Class:
    """A class of the file or of the library."""

    node: ast.ClassDef
    scope: Scope


@dataclass(eq=False)
class Instance:
    """An object of a class; what its initialiser sets stands in `values`."""

    of: Class
    values: dict[str, Value] = field(default_factory=dict)
    holder: Instance | None = None  # the object that has it as an attribute, and the attribute
    name: str = ""

    @property
    def path(self) -> str:
        """Where it stands: the attributes that lead to it, with dots."""
        before = self.holder.path if self.holder is not None else ""
        return f"{before}.{self.name}" if before else self.name


@dataclass(frozen=True)
class Method:
    """A function of an array, waiting for its other arguments."""

    name: str
    own: Value


@dataclass(frozen=True)
class Slice:
    """`start:stop` in brackets."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True)
class PlanBlock:
    """An array of which only the shape counts: a parameter, once it is set as one."""

    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class Lost:
    """What a line makes that was not read."""


Value = (Tensor | Plain | Scalar | Given | Several | Named | Function | Class | Instance | Method | Slice | PlanBlock
         | Lost)


@dataclass(eq=False)
class Scope:
    """Names and what they are; what is not found here is looked for in the scope around it."""

    source: Source
    names: dict[str, Value] = field(default_factory=dict)
    around: Scope | None = None
    user: bool = True  # whether its text is the author's

    def find(self, name: str) -> Value | None:
        """The value of a name; None where no scope has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return None


Bound = Mapping[str, Value]
NONE = Plain(None)


def plain(value: Value | None, what: str = "this") -> float | int | str | bool | None:
    """The constant of Python that a value is. CannotSayError where it is none."""
    match value:
        case None:
            return None
        case Plain(found):
            return found
        case Scalar(SizeOf(extent)) if (known := extent.constant) is not None and known.denominator == 1:
            return int(known)
        case Scalar(Constant(found)):
            return found
        case Lost():
            raise FollowsError("it follows from a line that was not read")
    raise CannotSayError(f"{what} has to be a constant that the source says")


def whole(value: Value | None, what: str = "this") -> int:
    """The whole number that a value is. CannotSayError where it is none."""
    found = plain(value, what)
    if isinstance(found, int):
        return found
    raise CannotSayError(f"{what} has to be a whole number that the source says")
