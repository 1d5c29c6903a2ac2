r"""Letters that the words of a section count up to one size, $i = 1, …, d/2$, and that stand alone in an equation where
a name has another, `u_i` with $u \in \mathbb{R}^d$: a part of it may be meant, or the letter is used twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, index_name
from einc.checking.declarations.sets import extent_of
from einc.checking.matrices.factors import binds, bound
from einc.checking.matrices.shapes import dimensions, parts
from einc.documents.said import Said, ranged, scripts
from einc.documents.shapes import FACT
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem
from einc.syntax import tree as s


@dataclass(frozen=True)
class _Words:
    """What the words of a text say: of letters of a section, or of a display at its place, the sizes up to which they
    count, each with these words; of names their sides, "" for one that is no single size; and the sizes of which it
    says that they equal others.
    """

    ranges: Mapping[tuple[int, int, str], Mapping[str, str]]
    sides: Mapping[str, tuple[str, ...] | None]
    equal: frozenset[str]


def other_sizes(found: list[Said]) -> list[Said]:
    """The equations, of which those are questions in which a letter stands at a side of another size than the words of
    its section say, and no big operator in the equation says its range.
    """
    known = _Words(_ranges(found), dict(_sides(found)), _equal(found))
    if not known.ranges or not known.sides:
        return found
    return [x if (problem := _question(x, known)) is None else replace(
        x, statement=None, sides=(), fact="", problem=problem) for x in found]


def _ranges(found: Iterable[Said]) -> dict[tuple[int, int, str], dict[str, str]]:
    """The letters that words count from 1, with the sizes up to which they count."""
    said: dict[tuple[int, int, str], dict[str, str]] = {}
    for x in (x for x in found if x.indices and x.statement is not None):
        over = ranged(x.statement.clauses[-1].body) if x.statement is not None else None
        size = _size(over.high) if over is not None and over.low == s.Number("1", over.low.span) else ""
        for letter in filter(None, map(index_name, x.indices)) if size else ():
            key = x.formula.section, x.formula.span.start if x.formula.display else -1, letter
            said.setdefault(key, {})[size] = x.span.text.strip()
    return said


def _size(node: s.Expression) -> str:
    """A size as the language writes it, "" for what is none."""
    try:
        return str(extent_of(node))
    except Problem:
        return ""


def _sides(found: Iterable[Said]) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """The names of a text that have a shape and no scripts, each with its sides; None where the text says two."""
    said: dict[str, set[tuple[str, ...]]] = {}
    for x in found:
        line = x.statement
        if x.fact == FACT and line is not None and line.tail and line.keyword in ("matrix", "vector"):
            for clause in line.clauses:
                named = head(clause.body)
                if named is not None and not scripts(clause.body):
                    sides = tuple(side[0] if len(side) == 1 else "" for side in dimensions(line.tail[0].body))
                    said.setdefault(named[0].base, set()).add(sides)
    yield from ((name, next(iter(sides)) if len(sides) == 1 else None) for name, sides in said.items())


def _equal(found: Iterable[Said]) -> frozenset[str]:
    """The sizes of which a text says that they equal others."""
    bodies = (x.statement.clauses[0].body for x in found if x.fact == "equal sizes" and x.statement is not None)
    return frozenset(_size(y) for x in bodies if isinstance(x, s.Relation) for y in x.operands)


def _question(said: Said, known: _Words) -> Problem | None:
    """The question of an equation in which a letter stands at a side of another size; None where none does."""
    lines = said.sides or (() if said.statement is None else (said.statement,))
    if said.indices or said.fact not in ("", "a value") or said.formula.code:
        return None
    nodes = [x for line in lines for c in line.clauses for x in parts(c.body)]
    apart = {x for node in nodes if binds(node) and _limited(node) for x in bound(node)}
    for node in (x for x in nodes if isinstance(x, s.Scripted) and not binds(x)):
        named = head(node)
        places = list(_places(node))
        sides = known.sides.get(named[0].base) if named is not None else None
        for letter, side in zip(places, sides, strict=True) if sides is not None and len(sides) == len(places) else ():
            counted = next((x for at in (said.formula.span.start, -1)
                            if (x := known.ranges.get((said.formula.section, at, letter)))), {})
            if letter not in apart and counted and side and side not in counted and not {side, *counted} & known.equal:
                return OpenReading(f"`{next(iter(counted.values()))}` says how a letter of it counts, and "
                                   f"`{node.span.text}` has {side} places for it", node.span, helps=(
                    Help(f"write the range into the equation, `\\sum_{{{letter}=1}}^{{{side}}}`, or another letter"),))
    return None


def _limited(binder: s.Expression) -> bool:
    """Whether a big operator says over what its letters run."""
    return len(scripts(binder)) > 1 or any(isinstance(x, s.Relation) for k in scripts(binder) if k.content is not None
                                           for x in parts(k.content))


def _places(node: s.Scripted) -> Iterator[str]:
    """The letters that stand alone at the places below a name, "" for what else stands there."""
    for content in (k.content for k in node.scripts if k.kind == "lower"):
        for item in content.items if isinstance(content, s.Group) and content.open == "{" else (content,):
            match item:
                case s.Word(text) if not item.quoted and 1 < len(text) <= 2 and text.islower() and text.isascii():
                    yield from text
                case s.Word(text) if not item.quoted:
                    yield text
                case s.Product(factors) if all(isinstance(x, s.Word) for x in factors):
                    yield from (x.span.text for x in factors)
                case _:
                    yield ""
