"""Symbols of matrix notation where a line declares them and where they stand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from einc.checking.declarations.names import Name, head, index_name, size_name
from einc.checking.declarations.raised import exponent, parenthesised, unraised
from einc.checking.matrices.shapes import TRANSPOSE, Key, Symbol, dimensions, words
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help
from einc.syntax import tree as s
from einc.syntax.slices import WHOLE

ROW = "row"  # the mark of a script that stands for a row


@dataclass(frozen=True, slots=True)
class Use:
    """A symbol where it stands: its name, what its scripts hold beside labels, and whether it is transposed."""

    name: Name
    places: tuple[s.Expression, ...]
    turned: bool
    row: bool = False  # whether one of its places is that of a row, for the text names it so

    @property
    def key(self) -> Key:
        """The symbol that it is where nothing in its scripts stands for a side."""
        return Key(self.name, len(self.places))

    @property
    def letters(self) -> tuple[str, ...] | None:
        """Its places where each is a letter alone, else None."""
        found = tuple(x.text for x in self.places if isinstance(x, s.Word))
        return found if len(found) == len(self.places) else None


def reads(node: s.Expression, letters: Container[str]) -> list[Use]:
    """The symbols that a name may read: it, and what it may be a power of, D of `D^{-1}` and a of `a^2`."""
    raised = unraised(node)
    bare = raised[0] if raised is not None else node.base if isinstance(node, s.Scripted) and [
        x.kind for x in node.scripts] == ["label_upper"] else None
    return [x for x in (split(y, letters) for y in (node, bare) if y is not None) if x is not None]


def keyed(use: Use, keys: Iterable[Key]) -> Key | None:
    """The symbol of which a name is: the one of its name that has most letters, of which none is left over."""
    return next(iter(fitting(use, keys)), None)


def fitting(use: Use, keys: Iterable[Key]) -> list[Key]:
    """The symbols of which a name may be, those first that have most letters."""
    found = {k for k in keys if k.name == use.name and k.letters <= len(use.places) - use.row}
    return sorted(found, key=lambda k: -k.letters)


def split(node: s.Expression, letters: Container[str]) -> Use | None:
    """A symbol with the declared letters in its scripts and what is computed of them; None for what is no name.

    `W_Q^{(i)⊤}` is the transpose of `W_Q` with the letter i; what holds no letter is a label of the name.
    """
    if isinstance(node, s.Word):
        return _bare(node.text)
    found = head(node)
    if found is None:
        return None
    name, scripts = found
    stack: list[s.Expression] = []
    lower, upper, turned = list(name.lower), list(name.upper), False
    for script in scripts:
        if script.content is None:
            return None
        items = [(x, _word(x) or _label(x, letters)) for x in entries(script.content)]
        cut = script.kind == "lower" and WHOLE in [text for _, text in items]
        for item, text in items:
            if cut:  # beside `:` every entry is a place
                stack.append(item)
            elif text is None:
                counted = script.kind == "lower" and isinstance(item, s.Sum)  # `T + 1`, which is never a label
                if exponent(script) is not None or not (counted or any(w.text in letters for w in words((item,)))):
                    return None
                stack.append(item)
            elif text == TRANSPOSE and script.kind == "upper":
                turned = not turned
            elif text in letters:
                stack.append(s.Word(text, item.span))
            elif text == "T" and script.kind == "upper" and parenthesised(script):
                return None  # `V^{(T)}`: neither a transpose nor a label
            elif len(text) > 1 and all(x in letters for x in text):
                stack += (s.Word(x, item.span) for x in text)
            else:
                (lower if script.kind == "lower" else upper).append(text)
    made = Name(name.base, name.accents, name.primes, tuple(lower), tuple(upper))
    return Use(made, tuple(stack), turned, any(x.text == ROW for x in scripts))


@lru_cache(maxsize=4096)
def _bare(text: str) -> Use:
    """The symbol that a word without scripts is."""
    return Use(Name(text), (), False)


def entries(content: s.Expression) -> Iterator[s.Expression]:
    """The entries of a script: of a list, and of letters side by side."""
    match content:
        case s.Group("{", "}", items):
            for item in items:
                yield from entries(item)
        case s.Group("(", ")", (only,)):
            yield only
        case s.Product(factors, operators) if not any(operators) and not _applied(factors):
            for factor in factors:
                yield from entries(factor)
        case _:
            yield content


def letters_in(content: s.Expression, letters: Container[str]) -> Iterator[s.Expression | None]:
    """The places in a script, of which each is a letter, a number or `:`; what else stands in it is None."""
    for item in entries(content):
        text = _word(item) or ""
        if text in letters or text == WHOLE:
            yield s.Word(text, item.span)
        elif len(text) > 1 and all(x in letters for x in text):
            yield from (s.Word(x, item.span) for x in text)
        elif isinstance(item, s.Number):
            yield item
        else:
            yield from (None, None, None)


def turned(name: Name) -> Name | None:
    """K of the name `K^T`, where no letter and no label is named T; None for other names."""
    return replace(name, upper=name.upper[:-1]) if name.upper[-1:] == ("T",) else None


def _applied(factors: tuple[s.Expression, ...]) -> bool:
    """Whether a name is applied to what stands in parentheses, `g(i)`, and not a label beside a letter, `Q (i)`."""
    return isinstance(factors[0], s.Word) and len(factors) == 2 and isinstance(factors[1], s.Group) and (
        not factors[0].text.isupper() and factors[1].open == "(")


def _label(node: s.Expression, letters: Container[str]) -> str | None:
    """A name with a label of its own that stands below another name, `q_1` of `λ_{q_1}`; None for what has letters."""
    return None if any(w.text in letters for w in words((node,))) else size_name(node)


def _word(node: s.Expression) -> str | None:
    match node:
        case s.Word(text) | s.Number(text):
            return text
        case s.Scripted():
            return index_name(node)
    return None


def declared(statement: s.Statement, letters: Container[str]) -> Iterator[Symbol]:
    """The symbols of a line `matrix Q, K^{(i)} : T × d_k` or `vector b : d`. Raises BadDeclaration."""
    sides = 2 if statement.keyword == "matrix" else 1
    example = "matrix Q : T × d_k" if sides == 2 else "vector b : d_ff"
    if not statement.tail:
        raise BadDeclaration(f"nothing says which shape `{statement.clauses[0].span.text}` has", statement.span,
                             helps=(Help(f"write it after a colon: `{example}`"),))
    found = dimensions(statement.tail[0].body)
    if len(statement.tail) > 1 or len(found) != sides:
        raise BadDeclaration(f"a {statement.keyword} has {'rows and columns' if sides == 2 else 'one size'}",
                             statement.tail[0].span.to(statement.tail[-1].span),
                             helps=(Help(f"write it as in `{example}`"),))
    for clause in statement.clauses:
        parts = split(clause.body, letters)
        stack = None if parts is None or parts.turned else parts.letters
        if parts is None or stack is None:
            raise BadDeclaration(f"`{clause.span.text}` is no name of a {statement.keyword}", clause.span,
                                 helps=(Help(f"write it as in `{example}`"),))
        yield Symbol(parts.key, found, stack, clause.span)
