"""What a text says before its matrix equations are read: letters and their sizes, functions, names with indices."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.declarations.names import Name, head, index_name, left_of, size_name
from einc.checking.declarations.raised import exponent, transposes
from einc.checking.declarations.sets import extent_of
from einc.checking.matrices.functions import Function
from einc.checking.matrices.shapes import Dimension, longer, parts, within, words
from einc.errors.report import Problem
from einc.ir.indices import CLASSES, number
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s

PAST = "past"  # among the axes of a function: the words speak of what comes before
# Among the axes, what words say of tokens: that a function runs over them, of which matrices they are the columns, and
# which sizes count them.
TOKENS, COLUMNS, COUNTED = "over tokens", "tokens are the columns of", "sizes that count tokens"
ALL_VECTORS = "all vectors"  # of which words may say as what they lie


@dataclass(frozen=True)
class Applied:
    """What a function is applied to: each entry, or each of the `lines`, where `script` says that its own script has
    the index that runs along a line, and `number` that a line becomes a number. `barred`: a point at −∞ is as none.
    """

    lines: bool = False
    script: bool = False
    number: bool = False
    barred: bool = False
    unless: tuple[str, ...] = ()  # the arguments by name that it has where none is given, `eps = 1e-5`


@dataclass(frozen=True)
class Known:
    """`letters` are the declared indices with the size that each counts, `classes` the class of each size, `parts` the
    sizes of which a composite one is made, `composites` the letter of each such set by the sizes of its parts,
    `functions` what is applied, `indexed` the names of index notation, each with whether scripts hang on it beside its
    labels, `axes` what the words of a paper say that functions run along, `lines` of which matrices they say that they
    speak of rows or columns, `defined` its functions, None those of which it has several definitions, `shifted` where
    the indices of sizes begin that do not count from 1, None where they differ, `outer` those
    that a listing counts, and `upright` whether a row of a matrix is a column where it stands by itself.
    """

    letters: Mapping[str, str]
    classes: Mapping[str, str]
    parts: Mapping[str, Dimension]
    composites: Mapping[Dimension, str]
    functions: Mapping[str, Applied]
    indexed: frozenset[tuple[Name, bool]]
    axes: Mapping[str, frozenset[str]]
    lines: Mapping[str, frozenset[str]] = field(default_factory=dict)
    defined: Mapping[Name, Function | None] = field(default_factory=dict)
    shifted: Mapping[str, int | None] = field(default_factory=dict)
    outer: frozenset[str] = frozenset()
    upright: bool = False

    def numbered(self, name: Name, scripts: tuple[s.Script, ...]) -> bool:
        """Whether a name with the scripts beside its labels is of index notation: declared, or a power of a number."""
        return (name, bool(scripts)) in self.indexed or self._power(name, scripts)

    def powered(self, node: s.Expression) -> s.Expression:
        """A power of a number with the number in parentheses, so that what stands above it is no slot."""
        found = head(node)
        if found is None or not isinstance(node, s.Scripted) or not self._power(*found):
            return node
        kept = tuple(x for x in node.scripts if x not in found[1])
        base = replace(node, scripts=kept) if kept or node.accents else node.base
        return s.Scripted(s.Group("(", ")", (base,), node.span), (), found[1], node.span)

    def _power(self, name: Name, scripts: tuple[s.Script, ...]) -> bool:
        """Whether a name with scripts is a number to a power: as declared it has none. `w^T` may be a transpose."""
        power = bool(scripts) and all(exponent(x) is not None and not transposes(x) for x in scripts)
        return power and (name, False) in self.indexed and (name, True) not in self.indexed

    def kind(self, size: str) -> str:
        """The class of what counts a size: that of T for `T + 1`, and of a part of a direct sum."""
        found = longer(size)
        name = found[0] if found else size.partition("+")[0]
        return self.classes.get(size) or self.classes.get(name, "feature")

    def start(self, size: str) -> int | None:
        """Where the letters of a size begin to count; None where they differ."""
        return self.shifted.get(size, 1)

    def whole(self, dimension: Dimension) -> Dimension:
        """A dimension with every composite size as its parts. A product of sizes does not say which part varies
        slowest: it is one that a listing counts, but in a set that the text declares.
        """
        found = tuple(x for size in dimension for x in self.parts.get(size, (size,)))
        return found if found in self.composites else tuple(sorted(found, key=lambda x: x not in self.outer))


def known(prelude: Iterable[s.Statement], tree: s.SyntaxTree) -> Known:
    """What the definitions of the prelude and the lines of a text say."""
    lines = tree.statements
    letters: dict[str, str] = {}
    classes: dict[str, str] = {}
    pieces: dict[str, Dimension] = {}
    composites: dict[Dimension, str] = {}
    lows: dict[str, set[int]] = {}
    for line in (x for x in lines if x.keyword == "index"):
        for at, clause in enumerate(line.clauses):
            letter = index_name(clause.body)
            if letter is None or not line.tail:
                continue
            tail = line.tail[at if len(line.tail) > 1 and at < len(line.tail) else 0].body
            cls, size, inner = _set(tail)
            if size is not None:
                letters[letter], classes[size] = size, cls
                lows.setdefault(size, set()).add(_low(tail))
            made = tuple(letters[x] for x in inner if x in letters)
            if made and len(made) == len(inner) and isinstance(tail, s.Relation) and isinstance(
                    tail.operands[1], s.DirectSum):
                letters[letter], classes["+".join(made)] = "+".join(made), cls
            elif inner and len(made) == len(inner):
                composites[made] = letter
                if size is not None:
                    pieces[size] = made
    pieces |= {name: (number,) for line in lines if line.keyword == "dim" for c in line.clauses
               for name, number in [_fixed(c.body)] if name not in pieces and number}
    functions = {name: Applied() for name, row in PRIMITIVES.items() if row.callable}
    unread = [(Name("I"), True)] if "I" in tree.unknown else []  # which is no identity then
    functions |= dict(_function(x) for x in (*prelude, *lines) if x.keyword == "def" and x.clauses)
    return Known(letters, classes, pieces, composites, functions, frozenset((*_indexed(lines), *unread)),
                 dict(tree.axes), dict(tree.lines),
                 shifted={x: min(low) if len(low) == 1 else None for x, low in lows.items() if low != {1}})


def _fixed(node: s.Expression) -> tuple[str, str]:
    """A size and the number that a `dim` line gives it, "" for one without."""
    match node:
        case s.Relation((size, s.Number(text)), ("=",)) if (name := size_name(size)) is not None:
            return name, text
    return "", ""


def _set(node: s.Expression) -> tuple[str, str | None, tuple[str, ...]]:
    """The class of an index set, its size where that is one name, and the letters that it is a composite of."""
    inner: tuple[str, ...] = ()
    kind, made = node, None
    if isinstance(node, s.Relation):
        kind, made = node.operands[0], node.operands[1]
        inner = tuple(w.text for w in words((made,))) if isinstance(made, s.Group) else ()
    match kind:
        case s.Word(cls) if cls in CLASSES and isinstance(made, s.DirectSum):
            return cls, None, tuple(w.text for w in words(made.parts))
        case s.Product((s.Word(cls), s.Group("(", ")", (extent,)))) if cls in CLASSES:
            return cls, _size(extent), inner
    return "", None, inner


def _low(node: s.Expression) -> int:
    """Where an index set begins to count: 1 but for a range, `0..T-1`."""
    lows = [extent_of(x.low).constant for x in parts(node) if isinstance(x, s.Range)]
    return next((int(x) for x in lows if x is not None), 1)


def _size(extent: s.Expression) -> str | None:
    """The size that an index counts, by its name: T of `1..T` and of `0..T-1`, else as the extent is written."""
    name = extent.text if isinstance(extent, s.Number) else size_name(extent)
    if name is not None:
        return name
    try:
        if isinstance(extent, s.Range):
            return str(extent_of(extent.high) + number(1) + extent_of(extent.low) * number(-1))
        return str(extent_of(extent))
    except Problem:
        return None


def _function(line: s.Statement) -> tuple[str, Applied]:
    """The name of a `def` and what it is applied to; its index stands in its script or in that of its argument."""
    body = line.clauses[0].body
    left, right = left_of(body), body.operands[1] if isinstance(body, s.Relation) and len(body.operands) > 1 else body
    factors = left.factors if isinstance(left, s.Product) else (left,)
    found = head(factors[0])
    arguments = factors[1].items if len(factors) > 1 and isinstance(factors[1], s.Group) else ()
    first = head(arguments[0]) if arguments else None
    scripts = found[1] if found is not None else ()
    letters = {w.text for w in words(x.content for x in (scripts or (first[1] if first else ())) if x.content)}
    if not letters:
        return (found[0].base if found else ""), Applied()
    kept = letters & {w.text for w in _plain(right)}
    bodies = (right, *(c.body for c in line.clauses[1:]))
    barred = first is not None and all(_absent(x, first[0].base) for x in bodies)
    unless = tuple(x.span.text for x in arguments if isinstance(x, s.Relation))
    return (found[0].base if found else ""), Applied(True, bool(scripts), not kept, barred, unless)


def _absent(node: s.Expression, name: str, inside: bool = False) -> bool:
    """Whether a point at −∞ of a name adds nothing to an expression: it stands in exponents and under maxima alone."""
    match node:
        case s.Word(text):
            return text != name or inside
        case s.Scripted(s.Word(text)) if text == name:
            return inside
        case s.Product((s.Scripted(s.Word("max")), *rest)):
            return all(_absent(x, name, True) for x in rest)
        case s.Product(factors):
            called = [isinstance(x, s.Word) and x.text == "exp" for x in (None, *factors[:-1])]
            return all(_exponent(x, name) if given else _absent(x, name)
                       for x, given in zip(factors, called, strict=True))
    return all(_absent(x, name) for x in within(node))


def _exponent(node: s.Expression, name: str) -> bool:
    """Whether an exponent is −∞ where a name is: it is a term with a plus."""
    inner = node.items[0] if isinstance(node, s.Group) and len(node.items) == 1 else node
    if not isinstance(inner, s.Sum):
        return _absent(inner, name, True)
    return all(_absent(x, name, sign == "+") for x, sign in zip(inner.terms, inner.signs, strict=True))


def _plain(node: s.Expression) -> Iterator[s.Word]:
    """The words of a body that have no primes."""
    primed = {id(x.base) for x in parts(node) if isinstance(x, s.Scripted) and any(
        k.kind == "prime" for k in x.scripts)}
    return (w for w in words((node,)) if id(w) not in primed)


def _indexed(lines: Iterable[s.Statement]) -> Iterator[tuple[Name, bool]]:
    """The names that lines of index notation declare or define, in blocks too, each with whether it has indices. A name
    without indices that an equation defines is among them where it has a label, or is computed of numbers alone and no
    line gives it a shape.
    """
    lines = tuple(lines)
    shaped = {found[0] for line in lines if line.keyword in ("matrix", "vector") for c in line.clauses
              if (found := head(c.body)) is not None}
    numbers = _numbers(lines, shaped)
    for line in lines:
        if line.keyword in ("input", "weight", "output", "dim", ""):
            for clause in line.clauses:
                left = left_of(clause.body)
                found = head(left)
                if found is not None and (line.keyword not in ("", "output") or found[1] or found[0].labels
                                          or found[0] in numbers):
                    yield found[0], bool(found[1])
        yield from _indexed(line.block)


def _numbers(lines: tuple[s.Statement, ...], shaped: Container[Name]) -> frozenset[Name]:
    """The names that equations say to be numbers: they are computed of such names, of names that lines declare so,
    `vector α : 1`, and of the sizes of shapes. None of those that have a shape.
    """
    said = {found[0] for line in lines if line.keyword == "vector" for c, tail in zip(
        line.clauses, line.tail * len(line.clauses), strict=False) if (found := head(c.body)) is not None
        and not found[1] and isinstance(tail.body, s.Number) and tail.body.text == "1"}
    said |= {found[0] for line in lines if line.keyword in ("matrix", "vector") for tail in line.tail
             for x in parts(tail.body) if (found := head(x)) is not None and not found[1]}
    defined = [(found[0], c.body) for line in lines if line.keyword in ("", "output") for c in line.clauses[:1]
               if (found := head(left_of(c.body))) is not None and not found[1] and found[0] not in shaped]
    made: set[Name] = set()
    while more := {name for name, body in defined if name not in made and _of_numbers(body, said | made)}:
        made |= more
    return frozenset(made)


def _of_numbers(node: s.Expression, numbers: Container[Name]) -> bool:
    """Whether an equation says that a small letter is a number that is written out: `γ = 0.5`, `c = 1 - 2^{-5}`, or
    made of such `numbers`, `β = 1 - γ`. What is in bold, a capital or 0 may be a matrix.
    """
    if not isinstance(node, s.Relation) or node.operators != ("=",):
        return False
    if isinstance(node.operands[1], s.Number) and not node.operands[1].text.strip("0."):
        return False
    name = node.operands[0].span.text
    if name[:1].isupper() or re.match(r"\\(?:math|bold|bm|[A-Z])", name):
        return False
    inner = tuple(parts(node.operands[1]))
    return all(isinstance(x, s.Number | s.Sum | s.Product | s.Fraction | s.Root) or (
        isinstance(x, s.Scripted) and not isinstance(x.base, s.Word)) or (
        isinstance(x, s.Word | s.Scripted) and (found := head(x)) is not None and found[0] in numbers) or (
        isinstance(x, s.Group) and x.open in "({") for x in inner)
