"""What a document says of single entries of a name, or of all of them, that no equation takes in: `A_{1,2} = 3` beside
a matrix `A`. What the name is then is a question, and no equation reads it as if nothing had been said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.shapes import is_name, parts
from einc.documents import shapes
from einc.documents.said import Said, left_text, neighbours, scripts
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Label
from einc.syntax import tree as s

_VALUE = "a value"
_NUMBER: tuple[tuple[str, ...], ...] = ((),)  # the sides of what lies in ℝ
_ENTRY = re.compile(r"\s*(?P<base>\\?[A-Za-z]+)\s*_\s*\{\s*(?P<places>[a-z\d](?:\s*,?\s*[a-z\d])*)\s*\}\s*=")


@dataclass(frozen=True)
class _Part:
    """A name with what stands below it: letters and numbers, none where it stands alone."""

    base: str
    above: str
    places: tuple[str, ...]

    @property
    def single(self) -> bool:
        """Whether it has some entries and not all: a number below it, `A_{1j}`, or one letter twice, `A_{ii}`."""
        return any(x.isdigit() for x in self.places) or len({*self.places}) < len(self.places)

    def of(self, whole: _Part, sides: int = 0) -> bool:
        """Whether it is entries of another name that has `sides` beside its letters."""
        many, own = len(whole.places) + sides, len(self.places)
        own = len(self.places[0]) if own == 1 and sides == 2 else own  # `A_{11}`
        return (self.base, self.above) == (whole.base, whole.above) and not whole.single and self.places != () and (
            many == own or (not many and own > 1))


def with_questions(found: tuple[Said, ...]) -> tuple[Said, ...]:
    """The equations. Where a section says something of some entries of a name, or in a display that is not read of any
    of them, or gives a whole matrix a number, that and what else defines the name are questions.
    """
    out = {n: x for n, x in enumerate(found) if x.fact == shapes.FACT or x.formula.display or x.fact == _VALUE}
    shaped = [(n, part, sides) for n, x in out.items() if x.fact == shapes.FACT and x.statement is not None
              and (part := _part(x.statement.clauses[0].body)) is not None for sides in [shapes.sides(x.statement)]]
    made = list(found)
    for n, x in out.items():
        part = None if x.fact == shapes.FACT or x.skip else _of(x)
        if part is None:
            continue
        if not part.places and x.formula.display:
            for _, whole, sides in shaped:
                if part == whole and sides != _NUMBER and (x.fact == _VALUE or _identity(x)):
                    made[n] = _open(x, x, "a whole matrix is said to be this, and nothing takes it in")
        elif part.single or x.problem is not None:
            for at in _wholes(part, x, out, shaped) if x.formula.display or x.problem is None else ():
                made[at] = made[at] if made[at].problem else _open(made[at], x)
                made[n] = made[n] if made[n].problem else _open(x, x)
    return tuple(made)


def _wholes(part: _Part, said: Said, found: dict[int, Said],
            shaped: list[tuple[int, _Part, tuple[tuple[str, ...], ...]]]) -> list[int]:
    """What says of the whole name what it is, of which a section says entries; none where this goes on from the entry,
    as a recurrence does from its start, or is made of the entry.
    """
    mine = [(n, x) for n, x in found.items() if x.formula.section == said.formula.section and x.fact != shapes.FACT
            and x.statement is not None and x is not said]
    own = [(n, x) for n, x in mine if (whole := _of(x)) is not None and part.of(whole) and not x.fact]
    for _, x in own:
        if _recurs(x) or _reads(x, part):
            return []
    if own:
        return [n for n, _ in own]
    # `h_0 = …` and `W_1 = …` may be names of their own.
    label = part.places == ("0",) or (len(part.places) == 1 and said.fact != _VALUE)
    given = [n for n, whole, sides in shaped if part.of(whole, len(sides)) and not label]
    if not said.formula.display:
        return given
    beside = said.fact == _VALUE and not label and any(part.of(y) for _, x in mine for y in _rights(x))
    read = any(_reads(x, part) for _, x in mine)
    return [n for n, x in found.items() if x is said and (given or (beside and not read))]


def _recurs(said: Said) -> bool:
    """Whether an equation reads a neighbour of what it defines."""
    named = None if said.statement is None else head(left_of(said.statement.clauses[0].body))
    return named is not None and said.statement is not None and any(
        True for c in said.statement.clauses for _ in neighbours(c.body, named[0].base))


def _of(said: Said) -> _Part | None:
    """What a left side names; None where it is no name with letters and numbers below it."""
    if said.statement is not None:
        return _part(left_of(said.statement.clauses[0].body))
    inline = _ENTRY.match(said.span.text) if said.fact == _VALUE or said.problem is not None else None
    if inline is None or inline["places"].isdigit():
        return None
    return _Part(inline["base"], "", tuple(re.findall(r"[a-z]|\d+", inline["places"])))


def _part(node: s.Expression) -> _Part | None:
    """A name with what stands below it; None where something else stands there."""
    named = head(node)
    if named is None:
        return None
    lower = [x for k in scripts(node) if k.kind == "lower" for x in _places(k.content)]
    above = " ".join(k.content.span.text for k in scripts(node) if k.kind == "upper" and k.content is not None)
    base = node.base.span.text if isinstance(node, s.Scripted) else node.span.text
    return None if "" in lower else _Part(base, above, tuple(lower))


def _places(node: s.Expression | None) -> Iterator[str]:
    """The letters and numbers of a script; "" for anything else."""
    match node:
        case s.Group(items=inner) | s.Product(factors=inner):
            for x in inner:
                yield from _places(x)
        case s.Number(text) if text.isdigit():
            yield text
        case s.Word(text, quoted=False) if text.islower() and text.isascii() and len(text) <= 3:
            yield from text
        case _:
            yield ""


def _rights(said: Said) -> Iterator[_Part]:
    """The names that an equation reads."""
    assert said.statement is not None
    first, *rest = (c.body for c in said.statement.clauses)
    rights = first.operands[1:] if isinstance(first, s.Relation) else ()
    names = (x for body in (*rights, *rest) for x in parts(body) if is_name(x))
    return (found for x in names if (found := _part(x)) is not None)


def _reads(said: Said, part: _Part) -> bool:
    """Whether an equation reads a name as it is."""
    return part in _rights(said)


def _identity(said: Said) -> bool:
    """Whether a name is said to be the identity."""
    body = said.statement.clauses[0].body if said.statement is not None else None
    return said.fact != "" and isinstance(body, s.Relation) and re.fullmatch(
        r"(?:\\mathbf\s*\{?|\\mathbb\s*\{?)?[I1]\}?(?:_\s*\{?\w\}?)?", body.operands[-1].span.text.strip()) is not None


def _open(said: Said, entry: Said, why: str = "") -> Said:
    """An equation that is a question, for what the text says of an entry."""
    message = why or f"the text says `{entry.span.text.strip()}` of some entries, and no equation takes that in"
    problem = BadDeclaration(message, said.span, "", *(() if said is entry else (Label(entry.span, "said here"),)),
                             helps=(Help("write one equation for all entries, by cases"),
                                    Help(f"if it is another tensor, give it a label: `{left_text(said) or 'NAME'}`")))
    return replace(said, statement=None, fact="", problem=problem)
