"""Letters that a paper does not declare and whose size its equations tell: `x_n` beside a declared `x_m`, the entries
of `L_{ij}`, what `Σ_{j=1}^{N}` counts.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.declarations.names import head, index_name, left_of, size_name
from einc.checking.matrices.factors import binds, bound
from einc.checking.matrices.known import Known
from einc.checking.matrices.lines import index, taken
from einc.checking.matrices.shapes import Key, Symbol, Waiting, is_name, mapped, parts, words
from einc.checking.matrices.slots import substituted
from einc.checking.matrices.typing import Typing
from einc.checking.matrices.uses import declared, letters_in, split
from einc.errors.report import Problem, Span
from einc.syntax import tree as s


@dataclass(frozen=True)
class _Text:
    """What is known of a text: its letters and sizes, its declared symbols, its names, and what its words count."""

    known: Known
    symbols: Mapping[Key, Symbol]
    names: frozenset[str] = frozenset()
    counts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> frozenset[str]:
        """The sizes of its shapes and letters."""
        return frozenset((*self.known.classes, *(x for y in self.symbols.values() for side in y.sides for x in side)))


def sizes(statements: Iterable[s.Statement], known: Known) -> frozenset[str]:
    """The sizes of the shapes and letters of a text."""
    return _Text(known, dict(_symbols(statements, known)), frozenset()).sizes


def localised(statements: Iterable[s.Statement], known: Known, counts: Mapping[str, str],
              defined: Mapping[Key, Symbol]) -> tuple[
        tuple[s.Statement, ...], Known, dict[Span, str]]:
    """The lines of a paper with an index line for each such letter, what is known with them, and which equations read
    a letter as another one of a stack. A letter that has another size elsewhere is renamed in its equation. `counts`
    are the sizes up to which the words count letters, and `defined` what equations define, as far as it is known.
    """
    lines = tuple(statements)
    names = taken(lines)
    lines = tuple(_unprimed(line, known, names) if line.rank is not None else line for line in lines)
    text = _Text(known, {**defined, **dict(_symbols(lines, known))}, taken(lines), counts)
    found = {id(line): _letters(line, text) for line in lines if line.rank is not None}
    letters = dict(known.letters)
    out: list[s.Statement] = []
    for line in lines:
        change: dict[str, str] = {}
        for letter, size in found.get(id(line), {}).items():
            if letters.setdefault(letter, size) != size:
                mine = list(words(c.body for c in line.clauses))
                own = {x for w in mine for x in (w.text, *_single(w))} | {*change.values()}
                change[letter] = _other(size, letters, own, text)
                letters[change[letter]] = size
        out.append(line if not change else replace(line, clauses=tuple(
            replace(c, body=_renamed(c.body, change)) for c in line.clauses)))
    made = [index(x, known.kind(size), (size,), (), lines[0].span)
            for x, size in letters.items() if x not in known.letters]
    return (*made, *out), replace(known, letters=letters), dict(_guessed(lines, found, text))


def _guessed(lines: tuple[s.Statement, ...], found: Mapping[int, Mapping[str, str]],
             text: _Text) -> Iterator[tuple[Span, str]]:
    """The equations in which a letter may be a label, for it stands where a symbol has another letter, beside how it is
    read.
    """
    stacks = {x.key.name: x.stack for x in text.symbols.values() if x.stack}
    for line in lines:
        letters = {*found.get(id(line), {})}
        for node in (x for c in line.clauses for x in parts(c.body) if is_name(x)) if letters else ():
            use = split(node, {*text.known.letters, *letters})
            mine = letters & {w.text for w in words(use.places)} if use is not None and use.name in stacks else set()
            if use is not None and mine:
                other, = stacks[use.name][:1]
                yield line.clauses[0].span, f"`{min(mine)}` counts what `{other}` does in `{use.name.python}`"


def _symbols(lines: Iterable[s.Statement], known: Known) -> Iterator[tuple[Key, Symbol]]:
    for line in lines:
        if line.keyword in ("matrix", "vector"):
            try:
                yield from ((x.key, x) for x in declared(line, known.letters))
            except Problem:
                continue


def _letters(line: s.Statement, text: _Text) -> dict[str, str]:
    """The letters of an equation that are not declared, or that count something else, each with the one size that the
    equation tells. Only those of its left side and those that a big operator binds.
    """
    body = line.clauses[0].body
    if line.keyword not in ("", "output") or not isinstance(body, s.Relation):
        return {}
    binders = [x for x in parts(body) if isinstance(x, s.Scripted) and binds(x)]
    named = head(left_of(body))
    own = {x for k in (named[1] if named is not None else ()) if k.content is not None for w in words((k.content,))
           for x in _single(w)}
    free = {x for x in (*own, *(b for x in binders for b in bound(x))) if x not in text.sizes and len(x) == 1}
    if not free:
        return {}
    told: dict[str, set[str]] = {}
    said = ((x, size) for x, size in text.counts.items() if x in free and x not in text.known.letters)
    for letter, size in (*said, *_ranges(binders, text), *_placed(body, free, text)):
        told.setdefault(letter, set()).add(size)
    return {x: next(iter(sizes)) for x, sizes in told.items() if len(sizes) == 1 and x in free and sizes <= text.sizes
            and text.known.letters.get(x) != next(iter(sizes))}


def _unprimed(line: s.Statement, known: Known, names: frozenset[str]) -> s.Statement:
    """A line in which the letter with primes of a big operator that says its range, `Σ_{j'=1}^{m}`, is one without them
    that nothing in the text has; not where the text declares it.
    """
    change: dict[str, str] = {}
    for x in (x for c in line.clauses for x in parts(c.body) if isinstance(x, s.Scripted) and binds(x)):
        content = x.scripts[0].content
        inner = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
        letter = index_name(inner.operands[0]) if isinstance(inner, s.Relation) and inner.operators == ("=",) else None
        if letter is not None and letter.endswith("'") and letter not in known.letters and len(x.scripts) == 2:
            free = (y for y in "pqruvabcefghlmoxyzijkdnst" if y not in {*names, *known.letters, *known.classes,
                                                                         *change.values()})
            if (made := change.get(letter) or next(free, None)) is not None:
                change[letter] = made
    return line if not change else replace(line, clauses=tuple(
        replace(c, body=_without_primes(c.body, change)) for c in line.clauses))


def _without_primes(node: s.Expression, change: Mapping[str, str]) -> s.Expression:
    """The expression with letters that have primes under other names, in scripts those side by side apart."""
    name = index_name(node) if isinstance(node, s.Scripted) else None
    if name is not None and name in change:
        return s.Word(change[name], node.span)
    if name is not None and name[:1].isalpha() and name[1:] in change:  # `ij'`, letters side by side
        return s.Product((s.Word(name[0], node.span), s.Word(change[name[1:]], node.span)), ("", ""), node.span)
    return mapped(node, lambda x: _without_primes(x, change), scripts=True)


def _single(word: s.Word) -> Iterator[str]:
    """The letters of a word in a script: `ij` may be i and j."""
    if not word.quoted and word.text.islower() and len(word.text) <= 2:
        yield from word.text


def _ranges(binders: Iterable[s.Scripted], text: _Text) -> Iterator[tuple[str, str]]:
    """The size that the letter of `Σ_{j=1}^{N}` counts, N or that of the letter N; of `Σ_{j=1}^{N+1}` it is another."""
    for binder in binders:
        upper = next((k.content for k in binder.scripts if k.kind == "upper"), None)
        end = upper.items[0] if isinstance(upper, s.Group) and len(upper.items) == 1 else upper
        size = None if end is None else size_name(end)
        if isinstance(end, s.Sum) and isinstance(end.terms[0], s.Word) and end.terms[0].text in text.known.letters:
            size = end.terms[0].text  # `t - 1`, which counts what t does
        elif isinstance(end, s.Sum):
            yield from ((x, "".join(end.span.text.split())) for x in bound(binder))
        size = text.known.letters.get(size, size) if size is not None else None
        yield from ((x, size) for x in bound(binder) if size is not None and size in text.sizes)


def _placed(body: s.Expression, free: set[str], text: _Text) -> Iterator[tuple[str, str]]:
    """Pairs of a letter and the size that it counts to: it stands at a place of that size in a declared symbol."""
    letters = {*text.known.letters, *free}
    for node in parts(body):
        yield from _taken(node, free, text)
        exact = split(node, text.known.letters) if is_name(node) else None
        if exact is None or exact.key in text.symbols:
            continue
        use = split(node, letters)
        for symbol in text.symbols.values():
            if use is None or symbol.key.name != use.name:
                continue
            beside = len(use.places) - symbol.key.letters
            sides = symbol.sides if beside == len(symbol.sides) else ()
            if beside == 1 and len(symbol.sides) == 2 and text.known.lines.get(
                    use.name.python, text.known.lines.get("", frozenset())) == {"row"}:
                sides = symbol.sides[:1]
            if not sides and len(use.places) != symbol.key.letters:
                continue
            counted = (*(text.known.letters.get(x, "") for x in symbol.stack),
                       *(side[0] if len(side) == 1 else "" for side in sides))
            for place, size in zip(use.places, counted, strict=True):
                yield from ((w.text, size) for w in words((place,)) if w.text in free and size)


def _taken(node: s.Expression, free: set[str], text: _Text) -> Iterator[tuple[str, str]]:
    """The sizes that letters count as places of an expression in parentheses, `(A B)_{ij}`."""
    if not isinstance(node, s.Scripted) or not isinstance(node.base, s.Group):
        return
    lower = [k.content for k in node.scripts if k.kind == "lower" and k.content is not None]
    found = list(letters_in(lower[0], free | {*text.known.letters})) if len(lower) == 1 else []
    if len(found) != 2 or None in found:
        return
    try:
        shape = Typing(text.known, text.symbols, frozenset(), "columns").of(node.base).shape
    except (Problem, Waiting):
        return
    for place, side in zip(found, (shape.rows, shape.columns), strict=True):
        if isinstance(place, s.Word) and place.text in free and len(side) == 1:
            yield place.text, side[0]


def _other(size: str, letters: Mapping[str, str], own: Container[str], text: _Text) -> str:
    """Another name for a letter: one that counts this size and that the equation does not have of its `own`, else a
    letter that nothing in the text has.
    """
    singles = "ijkabcdefghlmnopqrsuvwxyz"
    options = (*singles, *(a + b for a in singles for b in singles))
    same = (x for x, counted in letters.items() if counted == size and x not in own and x in options)
    free = (x for x in options if not (x in letters or x in own or x in text.sizes or x in text.names))
    return next(same, None) or next(free)


def _renamed(node: s.Expression, change: Mapping[str, str]) -> s.Expression:
    """The expression with letters under other names, those side by side apart."""
    if isinstance(node, s.Word) and not node.quoted and len(node.text) == 2 and any(x in change for x in node.text):
        apart = tuple(substituted(replace(node, text=x), change) for x in node.text)
        return s.Product(apart, ("", ""), node.span)
    if isinstance(node, s.Word):
        return substituted(node, change)
    return mapped(node, lambda x: _renamed(x, change), scripts=True)
