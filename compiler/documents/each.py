r"""Letters that a sentence counts and a left side leaves out: after "for each head $i$ we have", `k_t = W^{(i)} x_t` is
an equation for `k_{t i}`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.factors import binds, bound
from einc.checking.matrices.shapes import TRANSPOSE, is_name, mapped, parts, words
from einc.documents.document import Document, Formula
from einc.documents.said import Known, Said, scripts
from einc.documents.shapes import FACT as SHAPE
from einc.documents.stops import SENTENCE
from einc.documents.symbols import Symbol, fixed
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Span
from einc.syntax import tree as s

REACH = 300  # characters beside a display that are looked at
_COUNT = r"(?:each|every|all|any)"
_LETTER = r"(?:\$|\\\()\s*(\\?[A-Za-z]+)\s*(?:(?:=|\\in(?![A-Za-z]))[^$]*?)?\s*(?:\$|\\\))"
_FIRST = re.compile(rf"\bfor\s+{_COUNT}\s+(?:[\w-]+\s+){{0,2}}{_LETTER}", re.I)
_NEXT = re.compile(rf"\s*,?\s*(?:and\s+)?(?:for\s+)?(?:{_COUNT}\s+)?"
                   rf"(?:(?!(?:we|let|the|with|is|are)\b)[\w-]+\s+)?{_LETTER}", re.I)
# Words of one value for all that is counted: they say that the letter is not left out.
_TOGETHER = re.compile(r"\b(?:sum\w*|averag\w*|means?|total\w*|shar\w+|same|common|not|never|concat\w*|add\w*"
                       r"|aggregat\w*|over)\b", re.I)
_MARKS = re.compile(r"(?:\$\$|\\\[|\\begin\{[a-z]+\*?\}|\\label\{[^{}]*\}|[\s:,&])+\Z")


_Key = tuple[Symbol, tuple[str, ...]]  # a name, and what stands in its scripts beside letters


@dataclass(frozen=True)
class _Lifted:
    """A name of a section whose left side leaves out letters, in the order in which they follow its own."""

    section: int
    letters: tuple[str, ...]


def each(document: Document, found: list[Said], known: Known) -> Iterator[Said]:
    """The equations, with the letters that their left sides leave out. What reads such a name stands below the same
    words or has the letter itself; elsewhere it is a question which one is meant.
    """
    free = {n: tuple(i for i in left_out(x, known.indices) if i in counted(document, x.formula))
            for n, x in enumerate(found) if _equation(x)}
    paired = {n: letter for n, letters in free.items() if (letter := _paired(found[n], letters))}
    free = {n: () if n in paired else letters for n, letters in free.items()}
    lefts = {n: key for n in free if (key := _left(found[n], known.indices)) is not None}
    lifted: dict[_Key, _Lifted] = {}
    for n, key in lefts.items():
        if free[n]:
            lifted.setdefault(key, _Lifted(found[n].formula.section, free[n]))
    for n, key in lefts.items():  # a name that also has an equation without them keeps its places
        if key in lifted and found[n].formula.section == lifted[key].section and not (
                {*lifted[key].letters} <= {*left_out(found[n], known.indices)}):
            del lifted[key]
    plain = {(found[n].formula.section, key) for n, key in lefts.items()}
    for n, x in enumerate(found):
        here = {key: one for key, one in lifted.items() if one.section == x.formula.section
                or (x.formula.section, key) not in plain} if lifted else lifted
        if n in paired:
            yield replace(x, statement=None, problem=BadDeclaration(
                f"is `{paired[n]}` summed, as a pair, or is it one equation for each, as the words say?", x.span,
                helps=(Help(f"write `\\sum_{paired[n]}`, or `{paired[n]}` on the left"),)))
        else:
            reads = here and (n in free or x.sides or x.fact == SHAPE)
            yield _with(x, here, free.get(n, ()), known.indices) if reads else x


def counted(document: Document, formula: Formula) -> Mapping[str, Span]:
    """The letters that the sentence of a display counts, "for each head $i$ and each token $t$", each with the words
    that say so.
    """
    text, own = document.source.text, formula.span
    lead = _MARKS.sub("", text[max(own.start - REACH, 0) : own.start])
    before = SENTENCE.split(lead)[-1]
    rest = text[own.end : own.end + REACH]
    behind = rest.lstrip(" \t\n$,\\]")
    ended = own.text.rstrip()[-1:] == "." or not behind.startswith("for ")
    after = own.end + len(rest) - len(behind)
    behind = "" if ended else SENTENCE.split(behind)[0]
    out: dict[str, Span] = {}
    for at, words_ in ((max(own.start - REACH, 0) + len(lead) - len(before), before), (after, behind)):
        first = None if _TOGETHER.search(words_) else _FIRST.search(words_)
        while first is not None:
            out.setdefault(first[1].removeprefix("\\"), Span(document.source, at + first.start(), at + first.end()))
            first = _NEXT.match(words_, first.end())
    return out


def heard(document: Document, found: Iterable[Said]) -> Iterator[Span]:
    """The words beside displays by which they count letters."""
    yield from (x for said in found if _equation(said) for x in counted(document, said.formula).values())


def left_out(said: Said, letters: Set[str]) -> tuple[str, ...]:
    """The letters in the scripts of names on a right side that no big operator binds and the left does not have."""
    body = said.statement.clauses[0].body if said.statement is not None else None
    if not isinstance(body, s.Relation):
        return ()
    nodes = [x for right in body.operands[1:] for x in parts(right)]
    inner = [k.content for x in nodes if is_name(x) and not binds(x) for k in scripts(x) if k.content is not None]
    taken = {x for node in nodes if binds(node) for x in bound(node)} | {*_split(words((left_of(body),)), letters)}
    return tuple(dict.fromkeys(x for x in _split(words(inner), letters) if x in letters and x not in taken))


def _split(found: Iterable[s.Word], letters: Set[str]) -> Iterator[str]:
    """The words of scripts, those that are letters side by side, `ij`, as these letters."""
    for word in found:
        apart = word.text not in letters and not word.quoted and {*word.text} <= letters
        yield from word.text if apart else (word.text,)


def _paired(said: Said, letters: tuple[str, ...]) -> str:
    """A letter that stands both below a name and above one, so that it may be summed; "" where none does."""
    body = said.statement.clauses[0].body if said.statement is not None else None
    hung = [k for x in (parts(body) if body is not None else ()) if is_name(x) and not binds(x) for k in scripts(x)]
    above, below = ({k.content.text for k in hung if k.kind == kind and isinstance(k.content, s.Word)}
                    | {w.text for k in hung if k.kind == kind and isinstance(k.content, s.Group)
                       and k.content.open == "{" for w in words(k.content.items) if "(" not in k.span.text}
                    for kind in ("upper", "lower"))
    return next((x for x in letters if x in above & below), "")


def _equation(said: Said) -> bool:
    """Whether it is an equation in a display that defines a name."""
    return said.formula.display and not (said.fact or said.indices or said.unnamed) and _left(said, ()) is not None


def _left(said: Said, letters: Container[str]) -> _Key | None:
    """The name that an equation defines."""
    left = left_of(said.statement.clauses[0].body) if said.statement is not None else None
    return None if left is None or head(left) is None else _key(left, letters)


def _key(node: s.Expression, letters: Container[str]) -> _Key:
    """What tells a name from others, whatever its letters are."""
    return Symbol.of(node), tuple(x for x in fixed(node, letters) if x not in ("T", TRANSPOSE))


def _with(said: Said, lifted: dict[_Key, _Lifted], own: tuple[str, ...], indices: Set[str]) -> Said:
    """An equation with the letters that are left out in it; a question where it reads such a name and nothing says of
    which letter.
    """
    left = _left(said, indices)
    one = lifted.get(left) if left is not None and not said.sides else None
    if said.fact and (one is None or said.statement is None):
        return said
    mine = {*own, *(one.letters if one is not None else ())}
    open_: list[s.Expression] = []

    def change(node: s.Expression) -> s.Expression:
        """The expression with the letters behind each name that leaves them out."""
        name = lifted.get(_key(node, indices)) if head(node) is not None else None
        if name is None:
            return mapped(node, change)
        if not {*name.letters} <= mine:
            open_.append(node)
        base = node if isinstance(node, s.Scripted) else s.Scripted(node, (), (), node.span)
        more = tuple(s.Script("lower", s.Word(x, node.span), "", node.span) for x in name.letters)
        return replace(base, scripts=(*base.scripts, *more))

    def line(statement: s.Statement) -> s.Statement:
        """The line with its letters."""
        body = statement.clauses[0].body
        if left is not None and isinstance(body, s.Relation):
            mine.update(_split(words((left_of(body),)), indices))
        return replace(statement, clauses=tuple(replace(c, body=change(c.body)) for c in statement.clauses))

    statement = None if said.statement is None else line(said.statement)
    sides = tuple(map(line, said.sides))
    if open_:
        letters = ", ".join(f"`{x}`" for x in lifted[_key(open_[0], indices)].letters)
        return replace(said, statement=None, sides=(), problem=BadDeclaration(
            f"`{open_[0].span.text}` is one for each {letters}: which is meant?", open_[0].span,
            helps=(Help(f"write its letters: {letters}"),)))
    return replace(said, statement=statement, sides=sides)
