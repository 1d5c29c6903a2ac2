"""What the sentences of a document say of names: each reader of words gives what it understood with the words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from einc.checking.declarations.names import left_of
from einc.documents import assumed, multiplied, rows, shapes
from einc.documents.applied import called_functions
from einc.documents.braces import braces
from einc.documents.document import Document
from einc.documents.named import Told
from einc.documents.numeric import numeric, valued
from einc.documents.parted import in_words
from einc.documents.said import Known, Said
from einc.documents.worded import sized, worded
from einc.errors.report import Report, Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s
from einc.syntax.parse import parse_formula


def in_sentences(document: Document, found: list[Said], functions: frozenset[str],
                 known: Known) -> Iterator[tuple[Said, tuple[Span, ...]]]:
    """What the sentences say of names, each with the words that say it: rows, but for those that a display computes,
    pieces, functions, shapes, numbers.
    """
    names = partial(names_in, document, functions)
    computed = {left_of(x.statement.clauses[0].body).span.text for x in found
                if x.statement is not None and x.formula.display and not x.fact}
    named = [x for x in rows.rows(document, names) if left_of(x.line.clauses[0].body).span.text not in computed]
    named += [*in_words(document, names), *rows.whole_rows(document, names)]
    said = (*braces(document, names), *worded(document, names), *sized(document, names), *numeric(document, names),
            *valued(found, known.indices | known.sizes | known.tensors))
    kinds: tuple[tuple[str, tuple[Told, ...]], ...] = (
        (rows.FACT, tuple(named)), (multiplied.FACT, tuple(multiplied.multiplied(document, names))),
        (assumed.FACT, tuple(assumed.said_orthogonal(document, names))),
        ("", tuple(called_functions(document, names, functions | PRIMITIVES.keys()))), (shapes.FACT, said))
    yield from ((Said(x.formula, x.line.span, x.line, fact=fact), x.words) for fact, told in kinds for x in told)


def names_in(document: Document, functions: frozenset[str], span: Span) -> Iterator[s.Expression]:
    """The names or equations of a formula, without the set in which they lie."""
    for line in parse_formula(document.source, Report(), functions, (span.start, span.end), (), document.macros):
        for clause in line.clauses:
            yield shapes.without(clause).body if shapes.shape(clause.body) is not None else clause.body
