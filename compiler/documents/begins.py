"""Recurrences whose first value a text says by an equation of its own: where t counts from 1, `h_1 = x_1` beside
`h_t = a h_{t-1} + x_t` are one equation by cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from einc.checking.declarations.names import head, index_name, left_of
from einc.checking.matrices.shapes import alike, mapped, parts
from einc.documents.said import Said, neighbours, ranged, scripts
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Span
from einc.syntax import tree as s

FACT = "the start of a recurrence"


def starting(found: list[Said], lows: Mapping[str, int]) -> Iterator[Said]:
    """The equations, where a recurrence has its start in it; of two starts which holds is a question. `lows` says from
    where the letters count that lines beside the text declare.
    """
    first = {**_lows(found), **lows}
    starts = {n: x for n, x in enumerate(found) if _number(_equation(x)) is not None}
    named: dict[tuple[int, str], list[int]] = {}
    for n, x in enumerate(found):
        if starts and (key := _named(x)) is not None:
            named.setdefault(key, []).append(n)
    made: dict[int, Said] = {}
    for n, start in starts.items():
        near = named.get(_named(start) or (0, ""), [])
        at = [m for m in near if m != n and found[m].formula.display and _letter(start, found[m]) is not None]
        one = _together(start, found[at[0]], first, found) if len(at) == 1 else None
        if one is None:
            continue
        others = [starts[m] for m in near if m in starts and m != n and _letter(starts[m], found[at[0]]) is not None]
        if others:
            made |= {n: _open(start, others[0]), at[0]: _open(found[at[0]], start)}
        else:
            made |= {at[0]: one, n: replace(start, statement=None, fact=FACT)}
            made |= {m: replace(x, indices=(), statement=None, fact="a range") for m, x in enumerate(found)
                     if x.formula is one.formula and _behind(x, start, found[at[0]])}
    yield from (made.get(n, x) for n, x in enumerate(found))


def _named(said: Said) -> tuple[int, str] | None:
    """The section of an equation, and the letter of the name that it defines."""
    body = _equation(said)
    name = head(body.operands[0]) if body is not None else None
    return None if name is None else (said.formula.section, name[0].base)


def _open(said: Said, other: Said) -> Said:
    """An equation that is a question, for the text says two starts."""
    return replace(said, statement=None, fact="", problem=BadDeclaration(
        f"`{other.span.text.strip()}` says another start of the recurrence, and which holds is a question", said.span,
        helps=(Help("keep one of them"),)))


def _behind(said: Said, start: Said, recurrence: Said) -> bool:
    """Whether the range of a recurrence begins right after its start, as `t = 2, …, T` does after `x_1 = …`."""
    number, letter = _number(_equation(start)), _letter(start, recurrence)
    return bool(said.indices) and number is not None and _lows([said]) == {letter: int(number.text) + 1}


def _lows(found: Iterable[Said]) -> dict[str, int]:
    """The first value of each letter that a range gives one."""
    out: dict[str, int] = {}
    for x in found:
        over = ranged(x.statement.clauses[-1].body) if x.indices and x.statement is not None else None
        if over is not None and isinstance(over.low, s.Number):
            names = (index_name(n) for n in x.indices if isinstance(over.low, s.Number) and over.low.text.isdigit())
            out = {**{name: int(over.low.text) for name in names if name}, **out}
    return out


def _equation(said: Said) -> s.Relation | None:
    """The equation of one name; None for what is no such."""
    if said.statement is None or said.indices or said.fact not in ("", "a value", "a second name") or said.sides:
        return None
    body = said.statement.clauses[0].body
    one = isinstance(body, s.Relation) and body.operators == ("=",) and head(left_of(body)) is not None
    return body if one and isinstance(body, s.Relation) else None


def _number(body: s.Relation | None) -> s.Number | None:
    """The one number below the name on a left side."""
    found = [x for k in scripts(body.operands[0]) if k.kind == "lower" and k.content is not None
             for x in parts(k.content) if isinstance(x, s.Number)] if body is not None else []
    return found[0] if len(found) == 1 and found[0].text.isdigit() else None


def _letter(start: Said, said: Said) -> str | None:
    """The letter of a recurrence whose left side is that of the start with it in place of the number; None for another
    equation.
    """
    first, body = _equation(start), _equation(said)
    number = _number(first)
    if first is None or body is None or number is None or (name := head(body.operands[0])) is None:
        return None
    letters = {x for right in body.operands[1:] for x in neighbours(right, name[0].base)}
    return next((x for x in letters if alike(_put(first.operands[0], number.text, x), body.operands[0])), None)


def _together(start: Said, said: Said, lows: Mapping[str, int], found: list[Said]) -> Said | None:
    """The recurrence by cases; None where its letter does not count from the start on, or it says another domain."""
    first, body, letter = _equation(start), _equation(said), _letter(start, said)
    number = _number(first)
    if first is None or body is None or letter is None or number is None or start.statement is None or (
            said.statement is None) or len(start.statement.clauses) > 1 or lows.get(letter) != int(number.text):
        return None
    begins = int(number.text)
    ranges = (_lows([x]).get(letter, begins) for x in found if x.formula is said.formula and x.indices)
    if any(low not in (begins, begins + 1) for low in ranges) or not all(
            _later(c.body, letter, begins) for c in said.statement.clauses[1:]):
        return None
    beside = (y.statement for y in found if y.formula.section == start.formula.section and y is not start)
    section = [x for line in beside if line is not None for c in line.clauses for x in parts(c.body)]
    own = _moved(first.operands[1], number.text, letter, section)
    span = body.operands[1].span
    cases = (_case(letter, "=", number, own, span), _case(letter, ">", number, body.operands[1], span))
    whole = replace(body, operands=(body.operands[0], s.Sum(cases, ("+", "+"), span)))
    clause = replace(said.statement.clauses[0], body=whole)
    return replace(said, statement=replace(said.statement, clauses=(clause,)))


def _later(condition: s.Expression, letter: str, first: int) -> bool:
    """Whether a condition says that a letter is behind the first: `t > 1`, `t ≥ 2`."""
    match condition:
        case s.Relation((s.Word(name), s.Number(low)), (sign,)) if name == letter:
            return (sign, low) in ((">", str(first)), (">=", str(first + 1)))
        case s.Relation((s.Word(name), s.Range(s.Number(low))), (sign,)) if name == letter:
            return (sign, low) == ("=", str(first + 1))
    return False


def _case(letter: str, sign: str, number: s.Number, value: s.Expression, span: Span) -> s.Product:
    """`1[t = 1] (…)`."""
    said = s.Relation((s.Word(letter, span), replace(number, span=span)), (sign,), span)
    return s.Product((s.Number("1", span), s.Group("[", "]", (said,), span), s.Group("(", ")", (value,), span)),
                     ("", "", ""), span)


def _moved(node: s.Expression, number: str, letter: str, names: list[s.Expression]) -> s.Expression:
    """The first value at the letter: `x_t` for `x_1` where the section has `x_t`; other numbers are labels."""
    if isinstance(node, s.Scripted):
        there = _put(node, number, letter)
        return there if not alike(there, node) and any(alike(there, x) for x in names) else node
    return mapped(node, lambda x: _moved(x, number, letter, names))


def _put(node: s.Expression, number: str, letter: str) -> s.Expression:
    """A name with a letter in place of a number below it."""
    def change(x: s.Expression) -> s.Expression:
        """The place with the letter."""
        return s.Word(letter, x.span) if isinstance(x, s.Number) and x.text == number else mapped(x, change)

    if not isinstance(node, s.Scripted):
        return node
    hung = tuple(replace(k, content=change(k.content)) if k.kind == "lower" and k.content else k for k in node.scripts)
    return replace(node, scripts=hung)
