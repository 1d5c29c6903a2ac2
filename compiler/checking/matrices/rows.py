"""Names of rows in a paper that lists them: where `K` is `[– k_1 –; …; – k_m –]`, `k_i` is its row `K_i`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from einc.checking.declarations.names import head, size_name
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import TRANSPOSE, mapped
from einc.checking.matrices.uses import ROW, entries
from einc.syntax import tree as s


def renamed(statements: Iterable[s.Statement], rows: Mapping[str, str], known: Known,
            sizes: Set[str]) -> tuple[s.Statement, ...]:
    """The lines with each name of a row as the row of its matrix, `k_i^{(h)}` as `K_i^{(h)}`: of the letters in `rows`,
    where a number, a letter or one of the `sizes` stands in their scripts and no label.
    """
    if not rows:
        return tuple(statements)

    def row(node: s.Expression) -> s.Expression:
        """The expression with its rows under the names of their matrices."""
        if isinstance(node, s.Scripted) and isinstance(node.base, s.Word) and node.base.text in rows and _counts(
                node, known, sizes):
            scripts = tuple(replace(k, text=ROW) if k.kind == "lower" else k for k in node.scripts)
            return replace(node, base=replace(node.base, text=rows[node.base.text]), scripts=scripts)
        return mapped(node, row)

    return tuple(line if line.rank is None or line.keyword not in ("", "output") else replace(
        line, clauses=tuple(replace(c, body=row(c.body)) for c in line.clauses)) for line in statements)


def _counts(node: s.Scripted, known: Known, sizes: Set[str]) -> bool:
    """Whether the scripts of a name say which row it is: they hold no label."""
    named = head(node)
    if named is None or named[0].accents or named[0].primes or named[0].upper not in ((), (TRANSPOSE,), ("T",)):
        return False
    items = [x for k in node.scripts if k.content is not None for x in entries(k.content)]
    return bool(items) and all(map(lambda x: _place(x, known, sizes), items))


def _place(node: s.Expression, known: Known, sizes: Set[str]) -> bool:
    """Whether an entry of a script is a place: a number, a letter, a size, or the sum of such."""
    match node:
        case s.Number():
            return True
        case s.Word(text, quoted=quoted):
            return text in known.letters or text in sizes or text == TRANSPOSE or (
                not quoted and len(text) == 1 and text.islower())
        case s.Scripted():
            return size_name(node) in sizes
        case s.Sum(terms):
            return all(_place(x, known, sizes) for x in terms)
    return False
