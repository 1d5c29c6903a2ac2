"""A document with its declarations -> the syntax tree of each of its sections.

The first equation for a tensor holds everywhere, a later one in its own section; a formula in a line of text defines
only what no display does. What a side file says comes before both. A display that cannot be read leaves what it defines
unknown: no other equation is put in its place.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from einc.checking.declarations.names import head, index_name, left_of
from einc.documents import shapes
from einc.documents.assumed import FACT as ASSUMED
from einc.documents.assumed import about, orthogonal, other_meaning, unit
from einc.documents.axes import axes
from einc.documents.axes import lines as lines_of
from einc.documents.blocks import placed
from einc.documents.document import Document
from einc.documents.facts import shaped as names_of_shapes
from einc.documents.facts import sizes as names_of_sizes
from einc.documents.lefts import unknown
from einc.documents.lying import lying
from einc.documents.needs import meant, needed, reads
from einc.documents.rows import spoken as rows_spoken
from einc.documents.said import Said
from einc.documents.sentences import counted, index_lines
from einc.documents.symbols import Symbol
from einc.errors.problems import NoSuchSection
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.spelling import SHAPED

# Of several equations for one tensor the one with the highest rank holds.
SIDE_OWN, SIDE, OWN_DISPLAY, DISPLAY, OWN_INLINE, INLINE, OWN_FACT, FACT = range(7, s.LEAST - 1, -1)
_EQUALS = re.compile(r":?=|≔|←|\\leftarrow|\\gets|\\equiv|\\coloneqq")
_NUMBER = re.compile(r"^[0-9]+(?:\.[0-9]+)*\.?\s+")
_GIVEN = (*SHAPED, "input", "weight")  # the lines that declare a tensor
_UNSAFE = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Paper:
    """A document, its equations, the lines and `plan` blocks of its side file and fences, names of functions, and the
    stretches of the text that readers of words used.
    """

    document: Document
    said: tuple[Said, ...]
    lines: tuple[s.Statement, ...] = ()
    lost: frozenset[str] = frozenset()
    plans: tuple[s.Plan, ...] = ()
    functions: frozenset[str] = frozenset()
    heard: tuple[Span, ...] = ()

    @cached_property
    def sections(self) -> tuple[int, ...]:
        """The sections that say an equation of their own, or that two sides are equal, in the order of the file."""
        found = {x.formula.section: None for x in self.said
                 if x.sides or (x.statement is not None and not (x.indices or x.fact))}
        return tuple(found)

    @cached_property
    def _letters(self) -> frozenset[str]:
        """The letters that some line or some words of the text declare."""
        lines = (*walk_lines(self.lines), *(line for _, line in index_lines(self.document, self.said)))
        names = (index_name(c.body) for line in lines if line.keyword == "index" for c in line.clauses)
        return frozenset(x for x in names if x is not None)

    @cached_property
    def _first(self) -> dict[str, int]:
        """The place of the first display that defines a symbol or lists its rows, by the symbol."""
        out: dict[str, int] = {}
        for x in self.said:
            if x.formula.display and not (x.skip or x.indices or (x.fact and not x.rows)):
                for name in (_names(x) if not x.rows else {y.whole for y in x.rows}):
                    out.setdefault(name, x.formula.span.start)
        return out

    def _holds(self, said: Said, name: str, section: int) -> bool:
        """Whether what a display says of a symbol is meant in a section: it is the section's own, or the first."""
        start = said.formula.span.start
        return said.formula.section == section or self._first.get(name, start) >= start

    @cached_property
    def shaped(self) -> frozenset[str]:
        """The names that the words of the document give a shape, or speak of as rows or columns."""
        return names_of_shapes(self.document) | rows_spoken(self.document)

    @cached_property
    def sizes(self) -> frozenset[str]:
        """The bare names that the text writes as sizes."""
        return names_of_sizes(self.document)

    @cached_property
    def _spoken(self) -> frozenset[str]:
        """The names of which the words say something that is not read: an I that is no identity, a π that is a policy.
        """
        return other_meaning(self.document)

    @cached_property
    def homes(self) -> dict[int, tuple[s.Statement, ...]]:
        """What the side file says of each section. Problem where there is no such section, or more than one."""
        out: dict[int, tuple[s.Statement, ...]] = {}
        for line in self.lines:
            if line.keyword == "section":
                at = self.find(line.clauses[0].body)
                out[at] = (*out.get(at, ()), *line.block)
        return out

    def find(self, name: s.Word | s.Expression | str) -> int:
        """The section of a title: in full, else by its beginning, else by a part of it.
        Problem where that is not one."""
        text = name if isinstance(name, str) else name.text if isinstance(name, s.Word) else ""
        span = None if isinstance(name, str) else name.span
        many = len(self.document.headings) + len(self.document.algorithms)
        titles = [(n, title) for n in range(many) for title in _titles(self.document.title(n))]
        wanted = text.casefold().strip()
        tests = (wanted.__eq__, lambda t: t.startswith(wanted), lambda t: wanted in t)
        for test in tests:
            found = list(dict.fromkeys(n for n, title in titles if wanted and test(title)))
            found = [n for n in found if self.document.parent(n) is None] or found
            found = [n for n in found if n in self.sections] or found
            if len(found) == 1:
                return found[0]
            if found:
                listed = ", ".join(f"`{self.document.title(n)}`" for n in found[:6])
                raise NoSuchSection(f"`{text}` begins the title of {len(found)} sections", span,
                                    notes=(f"they are {listed}",),
                                    helps=(Help("give the whole title of one"),))
        listed = ", ".join(f"`{self.document.title(n)}`" for n in self.sections if n >= 0)
        notes = (f"sections with equations are {listed}",) if listed else ()
        raise NoSuchSection(f"there is no section `{text}`", span, notes=notes,
                            helps=(Help("give the title of a section, or how it begins"),))

    def own(self, section: int) -> Iterator[Said]:
        """The equations of a section that have a statement: neither definitions of letters nor facts about shapes and
        assumptions."""
        return (x for x in self.said if x.statement is not None and not x.indices
                and x.fact not in (shapes.FACT, ASSUMED)
                and x.formula.section == section)

    def _shapes(self, section: int, lines: Iterable[s.Statement], unread: Iterable[Said],
                without: Container[Span]) -> list[s.Statement]:
        """The lines of what the words give a shape, but not of what the `lines` declare, nor of what a display defines
        that is not read.
        """
        declared = {shapes.named(c.span.text) for line in lines for c in line.clauses
                    if line.keyword in _GIVEN}
        declared |= {x for said in unread for x in _names(said) if self._holds(said, x, section)}
        said = [(x.formula.section, x.statement) for x in self.said
                if x.fact == shapes.FACT and x.statement is not None and x.span not in without]
        around = self.document.around(section)
        found = shapes.chosen(said, around, declared, self._letters)
        return [replace(line, rank=OWN_FACT if at in around else FACT) for at, line in found]

    def tree(self, section: int, without: Container[Span] = (), *, every: bool = False) -> s.SyntaxTree:
        """What holds in a section, `without` the equations that stand in some places; with `every` equation of the
        other sections, also those that the section does not need.
        """
        own = [_ranked(x, section) for x in self.own(section) if x.span not in without]
        home = [_as(line, SIDE_OWN) for line in self._home(section, own) if not orthogonal(line.clauses[0].body)]
        named = {written(x) for x in own if x.rank not in (OWN_FACT, FACT)}
        unread = [x for x in self.said if x.formula.display and not (x.skip or x.indices or x.fact)
                  and (x.statement is None or x.span in without)]
        apart = frozenset().union(*(left_open(x) for x in unread if _computed(x)))
        unread = [x for x in unread if not _computed(x)]
        mine = {_unread(x) for x in unread if x.formula.section == section}
        rounds = any(line.keyword == "for" for line in home)
        listed = self._rows(section, (*home, *own))
        given = {Symbol.of(c.body) for line in home if line.keyword in _GIVEN for c in line.clauses if head(c.body)}
        shaped = (x.statement for x in self.said if x.fact == shapes.FACT and x.formula.section == section)
        given |= {Symbol.of(x.clauses[0].body) for x in shaped if x is not None}
        others = self._others(section, without, mine | named if rounds else mine)
        others = others if every else needed((*home, *own), others, self.sizes, listed, given)
        # A letter that the section itself defines as a tensor is no index there.
        lines = _unlike([*home, *(_as(x, SIDE) for x in self.lines if x.keyword not in ("section", "claim")),
                         *self._words(section)], named)
        outputs = [line for line in lines if line.keyword == "output"]
        outputs = [line for line in outputs if line in home] or outputs
        rest = [line for line in lines if line.keyword not in ("for", "output")]
        blocks = placed([line for line in lines if line.keyword == "for"], own)
        said = self._shapes(section, rest, unread, without)
        said = [x for x in said if x.rank != FACT or (Symbol.of(x.clauses[0].body) not in given
                                                      and reads((*own, *home, *others), x, listed))]
        statements = tuple(meant((*rest, *said, *outputs, *blocks, *others), (OWN_INLINE, INLINE)))
        ranks = (OWN_DISPLAY if any(x.rank == OWN_DISPLAY for x in own) else OWN_INLINE,)
        return s.SyntaxTree(self.document.source, statements, self.lost, ranks, self.name(section),
                            apart.union(self._spoken, map(_unread, unread), *map(left_open, unread)) - {""},
                            self.shaped,
                            axes=tuple(sorted(axes(self.document, self.functions, section).items())),
                            lines=tuple(sorted(({x: frozenset({"row"}) for x in listed.values()}
                                                | lines_of(self.document, section) | lying(self.document)).items())),
                            rows=tuple(sorted(listed.items())), counts=tuple(counted(self.said, section)))

    def assumed(self, section: int) -> tuple[s.Statement, ...]:
        """The facts that proofs of a section use: those of its side file, and its own. None of what an equation
        defines, which may be otherwise, and none with a letter I that has another meaning.
        """
        own = (x.statement for x in self.said if x.fact == ASSUMED and x.formula.section == section)
        found = [x for x in (*self.homes.get(section, ()), *own) if x is not None and x.clauses
                 and orthogonal(x.clauses[0].body)]
        if not found:
            return ()
        defined = {name for n in self.sections for x in self.own(n) if not x.fact for name in _names(x)}
        given = (c.span.text for x in walk_lines(self.lines) if x.keyword in _GIVEN for c in x.clauses)
        told = (x.statement.clauses[0].span.text for x in self.said if x.fact == shapes.FACT and x.statement)
        shown = defined | {*map(shapes.named, (*given, *told))}
        return tuple(line for line in found if shapes.named(about(line).span.text) not in defined
                     and shapes.named(unit(line)) not in shown)

    def _home(self, section: int, own: Iterable[s.Statement]) -> Iterator[s.Statement]:
        """What the side file says of a section. Of an algorithm it is also what it says of the section around it, but
        for what the algorithm's `own` equations define.
        """
        yield from self.homes.get(section, ())
        parent = self.document.parent(section)
        defined = frozenset().union(*map(_symbols, own)) if parent is not None else frozenset()
        for line in self.homes.get(parent, ()) if parent is not None else ():
            kept = tuple(c for c in line.clauses if shapes.named(left_of(c.body).span.text) not in defined)
            if line.keyword != "output" and kept:
                yield replace(line, clauses=kept) if line.keyword in _GIVEN else line

    def _rows(self, section: int, lines: Iterable[s.Statement]) -> dict[str, str]:
        """The letters of rows that the text lists, with those of their matrices: what the section and those around it
        list goes before others, which have to agree. None of what is given in the section or what its `lines` define.
        """
        taken = {found[0].base for line in lines if line.keyword in ("", *_GIVEN) for c in line.clauses
                 if (found := head(left_of(c.body))) is not None and (found[1] or line.keyword != "")}
        taken |= self._given(section)
        around = self.document.around(section)
        listed = [(x.formula.section, pair) for x in self.said for rows in x.rows if (pair := rows.alias) is not None]
        out: dict[str, str] = {}
        for row in {row for _, (row, _) in listed} - taken:
            told = [(at, whole) for at, (name, whole) in listed if name == row and name != whole]
            own = next((mine for at in around if (mine := {w for n, w in told if n == at})), {w for _, w in told})
            out |= {row: next(iter(own))} if len(own) == 1 else {}
        return out

    def _others(self, section: int, without: Container[Span], named: set[str]) -> list[s.Statement]:
        """The equations of other sections; not those of rounds and algorithms, whose names are their own, and none of
        what is `named`.
        """
        apart = {n for n, lines in self.homes.items() if any(line.keyword == "for" for line in lines)}
        apart |= {*range(len(self.document.headings), len(self.document.headings) + len(self.document.algorithms))}
        found = (_ranked(x, section) for n in self.sections if n != section and n not in apart
                 for x in self.own(n) if x.span not in without and not (x.unnamed or x.becomes))
        return [x for x in found if written(x) not in named]

    def _given(self, section: int) -> frozenset[str]:
        """The symbols of which a section says a shape itself, or which its own lines of the side file declare."""
        lines = [x.statement for x in self.said if x.fact == shapes.FACT and x.statement is not None
                 and x.formula.section == section]
        lines += [line for line in self.homes.get(section, ()) if line.keyword in _GIVEN]
        return frozenset(shapes.named(c.span.text) for line in lines for c in line.clauses)

    def _words(self, section: int) -> list[s.Statement]:
        """The index lines of the text, those of the section first."""
        found = list(index_lines(self.document, self.said))
        return [line for x, line in sorted(found, key=lambda pair: pair[0].formula.section != section)]

    def name(self, section: int) -> str:
        """The Python name of a section's program."""
        title = self.document.title(section) or "paper"
        made = _UNSAFE.sub("_", title.casefold()).strip("_") or "section"
        return made if not made[0].isdigit() else f"section_{made}"


def _titles(title: str) -> tuple[str, ...]:
    """A title with and without its number."""
    folded = title.casefold()
    return folded, _NUMBER.sub("", folded)


def _names(said: Said) -> frozenset[str]:
    """The symbols that a display may define."""
    sides = _EQUALS.split(said.span.text)[:-1]
    return frozenset().union(*map(shapes.defined, sides))


def _computed(said: Said) -> bool:
    """Whether what is said to be equal is computed on both sides, so that it defines nothing."""
    bodies = (line.clauses[0].body for line in said.sides[:1])
    return any(isinstance(x, s.Relation) and isinstance(x.operands[1], s.Product | s.Sum | s.Fraction) for x in bodies)


def _unread(said: Said) -> str:
    """The left side of a display that is not read, as it is written."""
    if said.statement is not None:
        return written(said.statement)
    left = _EQUALS.split(said.span.text, maxsplit=1)
    return "".join(left[0].replace("&", "").split()) if len(left) > 1 else ""


def left_open(said: Said) -> frozenset[str]:
    """The names that a display which is not read leaves unknown: those on its left sides. Of what is computed on both
    sides those that stand on the left alone.
    """
    if said.statement is not None and not said.unnamed:
        return unknown(f"{written(said.statement)} =")
    if not _computed(said):
        return unknown(said.span.text)
    left, right = (line.clauses[0].body.span.text for line in said.sides)
    return unknown(f"{left} =") - unknown(f"{right} =")


def written(line: s.Statement) -> str:
    """The left side of an equation as it is written."""
    return "".join(left_of(line.clauses[0].body).span.text.split())


def _symbols(line: s.Statement) -> frozenset[str]:
    """The symbols that an equation may define."""
    return shapes.defined(left_of(line.clauses[0].body).span.text)


def _ranked(said: Said, section: int) -> s.Statement:
    assert said.statement is not None
    own, other = ((OWN_FACT, FACT) if said.fact else (OWN_DISPLAY, DISPLAY) if said.formula.display
                  else (OWN_INLINE, INLINE))
    rank = own if said.formula.section == section else other
    if said.unnamed:  # nothing says that it is of one position, so it may read all of them
        span = said.statement.span
        return replace(said.statement, rank=rank, tail=(s.Clause(s.Word("all", span), None, span),))
    return replace(said.statement, rank=rank)


def _as(line: s.Statement, rank: int) -> s.Statement:
    """A line of a side file: its equations have a rank, and so have those of its blocks."""
    if line.keyword == "for":
        return replace(line, block=tuple(_as(x, rank) for x in line.block))
    return replace(line, rank=rank) if line.keyword == "" else line


def _unlike(lines: list[s.Statement], taken: set[str]) -> list[s.Statement]:
    """The lines, each index declared by the first that names it, and by none where the name is taken."""
    known = set(taken)
    out: list[s.Statement] = []
    for line in lines:
        if line.keyword != "index":
            out.append(line)
            continue
        names = [index_name(c.body) for c in line.clauses]
        kept = [n for n, name in enumerate(names) if name is None or name not in known]
        known |= {name for name in names if name is not None}
        if len(kept) == len(names):
            out.append(line)
        elif kept:
            tail = line.tail if len(line.tail) == 1 else tuple(line.tail[n] for n in kept)
            out.append(replace(line, clauses=tuple(line.clauses[n] for n in kept), tail=tail))
    return out


def walk_lines(lines: Iterable[s.Statement]) -> Iterator[s.Statement]:
    """The lines, and those of their blocks."""
    for line in lines:
        yield line
        yield from walk_lines(line.block)


def defined(line: s.Statement) -> str:
    """The name of the function that a `def` line defines, "" where it has none."""
    left = left_of(line.clauses[0].body)
    found = head(left.factors[0] if isinstance(left, s.Product) else left)
    return "" if found is None else found[0].base
