"""What is −∞ in a matrix: a function of lines for which such a point is as none runs over the others alone.

Where the entries at −∞ stand is seen through sums, scaling by what is above 0, and transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from einc.checking.declarations.names import size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.masks import Mask, infinite, opposite
from einc.checking.matrices.shapes import Key
from einc.checking.matrices.slots import Letters, entered, substituted
from einc.errors.report import Span
from einc.syntax import tree as s

Opened = tuple[y.Typed | None, tuple[s.Expression, ...]]  # what is left, None for 0, and where it is above −∞


@dataclass(frozen=True)
class Barred:
    """Where expressions between a `row` and a `column` are above −∞, said of the letter `own`. `masks` are the symbols
    that equations give by cases, `sizes` names of numbers above 0.
    """

    masks: Mapping[Key, Mask]
    sizes: Set[str]
    row: Letters
    column: Letters
    own: str
    span: Span

    def opened(self, node: y.Typed) -> Opened:
        """An expression without what is −∞ in it, and the conditions under which nothing is."""
        match node:
            case y.Triangle(inner) if node.above is not None and infinite(node.above):
                return inner, (kept(node, self.column, self.row, self.span),)
            case y.Leaf() if (mask := whole_mask(node, self.masks)) is not None and mask.barred:
                conditions = tuple(opposite(at_letters(x, mask, self.row, self.column), self.own) for x in mask.barred)
                return (None if mask.nothing else node), conditions
            case y.Turned(inner):
                found, conditions = replace(self, row=self.column, column=self.row).opened(inner)
                return (None if found is None else replace(node, inner=found)), conditions
            case y.Entries("sum"):
                return self._sum(node)
            case y.Entries("product", parts, marks):
                large = [n for n, x in enumerate(parts) if not x.shape.number]
                scaled = len(large) == 1 and marks[large[0]] != "/" and all(
                    self._positive(x) for x in parts if x.shape.number)
                return self._scaled(node, large[0]) if scaled else (node, ())
        return node, ()

    def _sum(self, node: y.Entries) -> Opened:
        found = [self.opened(x) if sign == "+" else (x, ()) for x, sign in zip(node.parts, node.marks, strict=True)]
        conditions = tuple(x for _, some in found for x in some)
        kept = [(x, sign) for (x, _), sign in zip(found, node.marks, strict=True) if x is not None]
        if not conditions or not kept:
            return (node, ()) if not conditions else (None, conditions)
        parts, signs = tuple(x for x, _ in kept), tuple(sign for _, sign in kept)
        return parts[0] if len(parts) == 1 and signs == ("+",) else replace(
            node, parts=parts, marks=signs), conditions

    def _scaled(self, node: y.Entries, at: int) -> Opened:
        inner, conditions = self.opened(node.parts[at])
        if inner is None or not conditions:
            return (node, ()) if not conditions else (None, conditions)
        return replace(node, parts=(*node.parts[:at], inner, *node.parts[at + 1 :])), conditions

    def _positive(self, node: y.Typed) -> bool:
        """Whether a number is above 0 whatever the sizes are."""
        return isinstance(node, y.Plain) and self._above_zero(node.expression)

    def _above_zero(self, node: s.Expression) -> bool:
        """Whether an expression of numbers and sizes is above 0: none of them is subtracted."""
        match node:
            case s.Number(text):
                return Fraction(text) > 0
            case s.Root(inner) | s.Group(_, _, (inner,)):
                return self._above_zero(inner)
            case s.Fraction(above, below_):
                return self._above_zero(above) and self._above_zero(below_)
            case s.Product(factors):
                return all(map(self._above_zero, factors))
        return size_name(node) in self.sizes


def holds_barred(node: Any, masks: Mapping[Key, Mask]) -> bool:
    """Whether a mask that is −∞ somewhere, or what was made of one, stands in an expression outside of functions of
    lines, which have no points there.
    """
    if isinstance(node, y.Lines):
        return False
    mask = whole_mask(node, masks) if isinstance(node, y.Leaf) else None
    inner = node if isinstance(node, tuple) else [getattr(node, x.name) for x in fields(node)] if isinstance(
        node, y.Typed) else ()
    return (mask is not None and bool(mask.barred or mask.loose)) or any(holds_barred(x, masks) for x in inner)


def whole_mask(node: y.Typed, masks: Mapping[Key, Mask]) -> Mask | None:
    """What is known of the entries of a symbol where the whole of it stands."""
    if not isinstance(node, y.Leaf) or node.at:
        return None
    found = masks.get(node.symbol.key)
    return found if found is not None and (found.apart or not node.stack) else None


def named(node: y.Typed, masks: Mapping[Key, Mask], sizes: Set[str], row: Letters, column: Letters) -> Mask | None:
    """What a matrix that an expression defines has at −∞, seen through it, and where a function of lines has points for
    it; None where nothing is, as far as is known.
    """
    if len(row) != 1 or len(column) != 1:
        return None
    if isinstance(node, y.Lines) and node.barred and node.indexed and (
            node.domain is None and node.shape == node.inner.shape):
        inner, there = Barred(masks, sizes, row, column, column[0], node.span).opened(node.inner)
        both = there[0] if len(there) == 1 else s.Logic("and", there, node.span) if there else None
        return None if inner is None or both is None else Mask((row[0], column[0]), both, (), False, True)
    _, conditions = Barred(masks, sizes, row, column, column[0], node.span).opened(node)
    barred = tuple(s.Logic("not", (x,), x.span) for x in conditions)
    loose = not barred and holds_barred(node, masks)
    return Mask((row[0], column[0]), None, barred, False, True, loose) if barred or loose else None


def kept(node: y.Triangle, column: Letters, row: Letters, span: Span) -> s.Relation:
    """Where the entries of a triangle stand, `s ≤ t`, of the letters of a column and a row."""
    place = entered(row, span)
    if node.by:
        place = s.Sum((place, s.Number(str(abs(node.by)), span)), ("+", "+" if node.by > 0 else "-"), span)
    return s.Relation((entered(column, span), place), (">=" if node.upper else "<=",), span)


def at_letters(condition: s.Expression, mask: Mask, row: Letters, column: Letters) -> s.Expression:
    """A condition of a mask at the letters of a row and a column."""
    return substituted(condition, dict(zip(mask.letters, (*row, *column), strict=True)))
