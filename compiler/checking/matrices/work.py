"""What reading the equations of matrices of a text writes: its symbols, and what became of its lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.checking.declarations.names import Name
from einc.checking.matrices.masks import Mask
from einc.checking.matrices.reading import Side
from einc.checking.matrices.shapes import Key, Symbol
from einc.errors.report import Problem, Span
from einc.syntax import tree as s


@dataclass
class Table:
    """The symbols of a text, and what is known of each."""

    symbols: dict[Key, Symbol] = field(default_factory=dict)
    defined: dict[Key, s.Statement] = field(default_factory=dict)
    named: set[Key] = field(default_factory=set)  # what equations of matrices define
    rows: dict[Key, Key] = field(default_factory=dict)  # the matrices of vectors that are their rows
    entries: set[Key] = field(default_factory=set)  # the masks whose entries some equation reads
    lies: dict[Key, Side | None] = field(default_factory=dict)  # the sides of vectors in the equations that are read
    first: dict[Key, tuple[s.Statement, Side]] = field(default_factory=dict)  # where vectors are read first, and how
    masks: dict[Key, Mask] = field(default_factory=dict)
    elsewhere: frozenset[Key] = frozenset()  # what only the words of other sections give a shape
    used: set[Key | None] = field(default_factory=set)  # what stands in equations of matrices


@dataclass
class Result:
    """What stands in place of each line, by its identity, and what could not be read."""

    made: dict[int, tuple[s.Statement, ...]] = field(default_factory=dict)
    faults: dict[int, Problem] = field(default_factory=dict)  # of equations, by their identity
    guessed: dict[Span, str] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    broken: set[Name] = field(default_factory=set)  # what equations define that cannot be read
    inlined: frozenset[Span] = frozenset()
    unread: frozenset[str] = frozenset()  # what equations of other sections define that are not read
