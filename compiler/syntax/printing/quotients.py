"""Fractions as strokes and strokes as fractions, where the two mean the same: in a
product, what is above and below is collected.

A stroke that has two readings to people stays a stroke, so that the checker can refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einc.syntax import tree as s
from einc.syntax.brackets import NORM
from einc.syntax.spelling import is_fold

Pairs = list[tuple[s.Expression, str]]
Factors = tuple[tuple[s.Expression, ...], tuple[str, ...]]


def big(node: s.Expression) -> str | None:
    """The fold that a big operator names; it takes the rest of its product."""
    match node:
        case s.Scripted(s.Word(fold), (), scripts) if is_fold(fold):
            kinds = {x.kind for x in scripts}
            return fold if "lower" in kinds and kinds <= {"lower", "upper"} else None
    return None


def bare(node: s.Expression) -> s.Expression:
    """What stands in round brackets that something around them makes needless."""
    match node:
        case s.Group("(", ")", (inner,)):
            return bare(inner)
    return node


def is_indicator(factor: s.Expression, following: tuple[s.Expression, ...]) -> bool:
    """Returns whether the factor is the 1 of an indicator `1[…]` whose bracket holds a condition."""
    match factor, following:
        case s.Number("1"), (s.Group("[", "]", items), *_):
            return any(isinstance(x, s.Relation | s.Logic) for x in items)
    return False


def with_roots(factors: tuple[s.Expression, ...], operators: tuple[str, ...]) -> Factors:
    """The factors of a product with each `sqrt(x)` as a root sign over x."""
    out: Pairs = []
    for factor, operator in zip(factors, operators, strict=True):
        match out[-1:], factor, operator:
            case [(s.Word("sqrt") as name, before)], s.Group("(", ")", (inner,)), "":
                out[-1] = (s.Root(inner, name.span.to(factor.span)), before)
            case _:
                out.append((factor, operator))
    return _parted(out)


def _parted(pairs: Pairs) -> Factors:
    return tuple(x for x, _ in pairs), tuple(x for _, x in pairs)


# fractions -> strokes


def divided(factors: tuple[s.Expression, ...], operators: tuple[str, ...], functions: frozenset[str]) -> Factors:
    """The product with a stroke for each fraction; a sign where juxtaposition would have two readings."""
    out: Pairs = []
    parted = False  # whether what follows needs a sign
    for factor, operator in zip(factors, operators, strict=True):
        operator = "*" if parted and not operator else operator
        parted = False
        if not isinstance(factor, s.Fraction):
            # it gets parentheses
            inside = isinstance(factor, s.Scripted) and isinstance(factor.base, s.Root | s.Fraction)
            apart = (inside and out and not operator and isinstance(out[-1][0], s.Word | s.Scripted)
                     and big(out[-1][0]) is None)
            out.append((factor, "*" if apart else operator))
            continue
        if operator == "/":
            out.append((grouped(factor), operator))
            continue
        above, below = _above(factor.above, functions), _below(factor.below, functions)
        if out and not operator and big(out[-1][0]) is None and _touches(out[-1][0], above[0][0]):
            operator = "*"
        out += [(above[0][0], operator), *above[1:], (below[0][0], "/"), *below[1:]]
        parted = not (_literal(above[-1][0]) or _literal(below[0][0]))
    return _parted(out)


def _touches(before: s.Expression, after: s.Expression) -> bool:
    """Whether two factors side by side would not be read as a product, or hardly."""
    return isinstance(after, s.Number) or (isinstance(after, s.Group) and isinstance(before, s.Word | s.Scripted))


def grouped(node: s.Expression) -> s.Expression:
    """The expression with parentheses around it, at the same place in the text."""
    return s.Group("(", ")", (node,), node.span)


def _above(node: s.Expression, functions: frozenset[str]) -> Pairs:
    if isinstance(node, s.Product) and not _repeated(node.factors):
        factors, operators = with_roots(node.factors, node.operators)
        if "/" not in operators and all(map(_simple, factors)):
            return list(zip(factors, operators, strict=True))
    return _below(node, functions)


def _below(node: s.Expression, functions: frozenset[str]) -> Pairs:
    if isinstance(node, s.Product):
        factors, operators = with_roots(node.factors, node.operators)
        if len(factors) == 1 and _simple(factors[0]):
            return [(factors[0], "")]
        if len(factors) == 2 and not operators[1] and _is_application(factors[0], factors[1], functions):
            return list(zip(factors, operators, strict=True))
    return [(node if _simple(node) else grouped(node), "")]


# strokes -> fractions


def fractions(factors: tuple[s.Expression, ...], operators: tuple[str, ...], functions: frozenset[str]) -> Factors:
    """The product with a fraction for each stroke that says clearly what it divides; an application is one factor."""
    units = _units(factors, operators, functions)
    out: Pairs = []
    start = 0  # where the factors begin that a stroke may divide
    for at, (unit, operator) in enumerate(units):
        juxtaposed = at + 1 < len(units) and units[at + 1][1] == ""
        take = (_dividend([x for x, _ in out[start:]], [x for _, x in out[start:]], unit, juxtaposed)
                if operator == "/" else 0)
        if take:
            tail = out[-take:]
            above = (tail[0][0] if take == 1
                     else s.Product(*_parted([(tail[0][0], ""), *tail[1:]]), tail[0][0].span.to(unit.span)))
            out[-take:] = [(s.Fraction(above, unit, tail[0][0].span.to(unit.span)), tail[0][1])]
        else:
            out.append((unit, operator))
        start = len(out) if big(unit) is not None else start
    return _parted([pair for unit, operator in out for pair in _apart(unit, operator)])


def _apart(unit: s.Expression, operator: str) -> Pairs:
    """The factors of an application that stayed on the line."""
    if isinstance(unit, s.Product):
        return list(zip(unit.factors, (operator, *unit.operators[1:]), strict=True))
    return [(unit, operator)]


def _dividend(before: list[s.Expression], signs: list[str], below: s.Expression, juxtaposed: bool) -> int:
    """How many of the factors before a stroke go above the line, 0 where the stroke stays."""
    if not before or not _whole(below) or (juxtaposed and not _literal(before[-1]) and not _literal(below)):
        return 0
    if len(before) == 1 or (_literal(before[-1]) and signs[-1] != "/"):
        return 1 if _whole(before[-1]) else 0
    return len(before) if "/" not in signs and all(map(_whole, before)) and not _repeated(before) else 0


def _units(factors: tuple[s.Expression, ...], operators: tuple[str, ...], functions: frozenset[str]) -> Pairs:
    out: Pairs = []
    for factor, operator in zip(factors, operators, strict=True):
        before = out[-1][0] if out and not operator else None
        if before is not None and (_is_application(before, factor, functions) or is_indicator(before, (factor,))):
            out[-1] = (s.Product((before, factor), ("", ""), before.span.to(factor.span)), out[-1][1])
        else:
            out.append((factor, operator))
    return out


# what a factor is


def _is_application(name: s.Expression, argument: s.Expression, functions: frozenset[str]) -> bool:
    base = name.base if isinstance(name, s.Scripted) else name
    applied = isinstance(base, s.Word) and base.text in functions and big(name) is None
    return applied and isinstance(argument.base if isinstance(argument, s.Scripted) else argument, s.Group)


def _whole(node: s.Expression) -> bool:
    """Whether the node may stand above or below a line: one simple factor, or an application."""
    match node:
        case s.Product((s.Number(), s.Group()), _):
            return False
        case s.Product():
            return True
    return _simple(node)


def _simple(node: s.Expression) -> bool:
    """Whether the node is one factor that sums nothing by itself and takes nothing of what follows."""
    match node:
        case s.Number() | s.Infinity() | s.Word() | s.Root():
            return True
        case s.Group(_, _, (_,)):
            return True
        case s.Scripted():
            return big(node) is None and not _repeated((node,))
    return False


def _literal(node: s.Expression) -> bool:
    """Whether a number is written out, which settles what a stroke divides."""
    match node:
        case s.Number():
            return True
        case s.Sum((s.Number(),), ("-",)):
            return True
        case s.Group("{" | "(", _, (inner,)):
            return _literal(inner)
    return False


def _repeated(nodes: Iterable[s.Expression]) -> bool:
    """Whether a letter stands in the scripts of the nodes more than once, so that they may be summed over it."""
    found = [letter for node in nodes for letter in _letters(node)]
    return len(set(found)) < len(found)


def _letters(node: s.Expression) -> Iterator[str]:
    """The letters in the scripts of a factor; what is in brackets counts once."""
    match node:
        case s.Scripted(base, _, scripts):
            yield from _letters(base) if not isinstance(base, s.Word) else ()
            for script in scripts:
                yield from (letter for word in words(script.content)
                            for letter in (word.text if not word.quoted else ()))
        case s.Word() | s.Number() | s.Infinity():
            return
        case _:
            yield from sorted({letter for word in words(node) for letter in word.text})


def words(node: s.Expression | None) -> Iterator[s.Word]:
    """The words of a node: bare names, and those in scripts."""
    match node:
        case s.Word():
            yield node
        case s.Scripted(base, _, scripts):
            yield from words(base) if not isinstance(base, s.Word) else ()
            for script in scripts:
                yield from words(script.content)
        case (s.Group(_, _, inner) | s.Product(inner) | s.Sum(inner) | s.Relation(inner) | s.Logic(_, inner)
              | s.DirectSum(inner)):
            for part in inner:
                yield from words(part)
        case s.Matrix():
            for part in node.written:
                yield from words(part)
        case s.Fraction(one, other) | s.Range(one, other):
            yield from (*words(one), *words(other))
        case s.Root(one):
            yield from words(one)


def with_norms(factors: tuple[s.Expression, ...], operators: tuple[str, ...]) -> Factors:
    """The factors, of which the call of a norm is what stands between its bars, with its label as what closes it."""
    out: list[tuple[s.Expression, str]] = []
    for factor, operator in zip(factors, operators, strict=True):
        name = out[-1][0] if out else None
        given = factor.base if isinstance(factor, s.Scripted) else factor
        if isinstance(name, s.Word) and name.text.startswith(NORM) and isinstance(given, s.Group) and not operator:
            bars = replace(given, open=NORM, close=name.text.removeprefix(NORM).replace("∞", "{\\infty}"))
            out[-1] = (replace(factor, base=bars) if isinstance(factor, s.Scripted) else bars, out[-1][1])
        else:
            out.append((factor, operator))
    return tuple(x for x, _ in out), tuple(x for _, x in out)
