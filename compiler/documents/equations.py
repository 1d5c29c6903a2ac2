"""Formulas of a document -> its equations, one by one, each with what it could be read as."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from einc.checking.declarations.names import head, index_name, left_of
from einc.checking.matrices.progressions import listing
from einc.documents import abbreviations, algorithms, code, listings, shapes
from einc.documents.apart import before, begun, closed, columns, left
from einc.documents.apart import parts as parts_of
from einc.documents.becoming import becoming
from einc.documents.begins import starting
from einc.documents.blocks import updates
from einc.documents.conditions import in_cases, limited
from einc.documents.counting import counting
from einc.documents.denoted import Telling, by_formula, redefined
from einc.documents.document import Document, Formula
from einc.documents.domains import within
from einc.documents.doubtful import doubtful, exponential
from einc.documents.each import each
from einc.documents.each import heard as letters_heard
from einc.documents.facts import bare, fact, shaped, sizes
from einc.documents.families import members, named
from einc.documents.other_sizes import other_sizes
from einc.documents.parametrised import parametrised
from einc.documents.parted import parted
from einc.documents.pieces import merged
from einc.documents.rewritten import rewritten
from einc.documents.said import Known, Reading, Said, left_text, neighbours, ranged
from einc.documents.spelled import spelled
from einc.documents.spoken import conditioned
from einc.documents.synonyms import other_names
from einc.documents.twice import single
from einc.documents.unnamed import again, ahead, defines, identity, is_function, nothing, numbered, of_function, value
from einc.documents.worded import signs
from einc.documents.worded_cases import choices, chosen
from einc.documents.worded_cases import heard as cases_heard
from einc.documents.wording import in_sentences, names_in
from einc.documents.wrapped import unopened, wrapped
from einc.errors.problems import UnknownMacro
from einc.errors.report import Report, Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s
from einc.syntax.macros import standard
from einc.syntax.parse import parse_formula

_EQUALS = ("=", ":=", "<-")

# What an inline formula has that says something; others are names in a sentence.
_SAYS = re.compile(r"=|←|≔|≡|≜|∈|\\equiv|\\triangleq|\\leftarrow|\\gets|\\coloneqq|\\in(?![A-Za-z])")

def said(document: Document, functions: frozenset[str], indices: Iterable[str],
         tensors: Iterable[str] = (), beside: Mapping[str, int] | None = None,
         declared: Container[str] = ()) -> Reading:
    """Every equation in the order of the file, and which words were used. `functions` are names that a macro may spell,
    `indices` and `tensors` the declared ones, `beside` those indices that the lines beside the text declare, with where
    they begin to count, and `declared` the symbols that these give a shape.
    """
    known = Known(frozenset(indices), sizes(document), frozenset(tensors), dict(before(document)), shaped(document))
    document = replace(document, macros=standard(document.macros, signs(document.source.text)))
    found = [x for formula in document.formulas for x in _formula(document, formula, functions, known)]
    beside = beside or {}
    found = [*parametrised(found)]
    found = list(becoming(document, found, {*beside}, lambda text, x: _formula(text, x, functions, known)))
    called = functions | PRIMITIVES.keys() | set(filter(None, map(defines, found)))
    told = choices(document, lambda x: _alone(document, x, functions))
    apart = [x for x in in_cases(document, found, known) if x.formula.span not in told]
    meant = [*by_formula(document, partial(names_in, document, functions), functions)]
    read = {x for x, _, _ in meant}
    found = [*chosen([x if x.formula.code else _with_question(document, x, known, called, read) for x in found], told)]
    found = rewritten(document, found)
    found += [Said(formula, line.span, line) for _, formula, line in meant if line is not None]
    found = [*starting([*within(document, found, known, lambda x: _alone(document, x, functions))], beside)]
    further = [*in_sentences(document, found, functions, known)]
    counted = [*letters_heard(document, found)]
    found = [*each(document, [*found, *(x for x, _ in further)], known)]
    states = {(x.formula.section, left_text(x)) for x in found if x.statement is not None and updates(x.statement)}
    states |= {(x.formula.section, left_text(x)) for x in found for y in found
               if x.fact == "a value" and x.formula.section == y.formula.section and not y.fact and _begins(x, y)}
    found = list(numbered(found))
    short = abbreviations.declared(document, found, functions, known)
    found = list(abbreviations.spelled_out(document, found, short, apart))
    found = other_sizes(counting(document, found, beside, known.sizes))
    heard = (*(Span(document.source, x.name[0], y.span.end + 1) for x, y, _ in meant), *counted,
             *(y for _, spans in further for y in spans), *cases_heard(told),
             *(x.words for x in short if isinstance(x, abbreviations.Abbreviation)))
    return Reading(tuple(single([
        replace(x, statement=None) if x.fact and (x.formula.section, left_text(x)) not in states
        and _no_definition(x, known) else x for x in found], declared)), heard)


def _with_question(document: Document, found: Said, known: Known, functions: Container[str],
                   read: Container[Telling]) -> Said:
    """An equation, with the question that its writing or the words beside it leave open where they leave one."""
    lines = found.sides or (() if found.statement is None else (found.statement,))
    problem = (doubtful(lines, known.sizes, functions) or limited(document, found, known)
               or exponential(document, found, known.indices) or redefined(document, found, read))
    return found if problem is None else replace(found, statement=None, sides=(), fact="", problem=problem)


def _begins(value: Said, found: Said) -> bool:
    """Whether a value, `h_0 = 0`, is of what an equation computes from the one before it, `h_t = a h_{t-1}`."""
    if value.statement is None or found.statement is None:
        return False
    first, body = head(left_of(value.statement.clauses[0].body)), found.statement.clauses[0].body
    defined = head(left_of(body))
    if first is None or defined is None or first[0].base != defined[0].base or not isinstance(body, s.Relation):
        return False
    return any(letter for x in body.operands[1:] for letter in neighbours(x, defined[0].base))


def _no_definition(found: Said, known: Known) -> bool:
    """Whether a fact defines nothing: a number in prose, an example, and what is said of a size or of a letter that
    counts something.
    """
    prose = found.fact == "a value" and not found.formula.display
    return prose or left_text(found) in known.indices or bare(left_text(found)) in known.sizes


def _formula(document: Document, formula: Formula, functions: frozenset[str], known: Known) -> Iterator[Said]:
    """The equations of one formula. One that is skipped or cannot be read gives an entry that says so; inline ones
    without a relation give none.
    """
    span = formula.span
    if formula.skip:
        yield Said(formula, _trimmed(span), skip=formula.skip)
        return
    if formula.problem is not None:
        yield Said(formula, span, problem=formula.problem)
        return
    if formula.code:
        yield from code.equations(formula)
        return
    number = not formula.display and shapes.number(document.source.text, span.start)
    if not formula.display and not number and not _SAYS.search(span.text):
        return
    if formula.display and (sign := begun(document.source.text, formula)) is not None:
        yield from _going_on(document, formula, sign, functions, known)
        return
    beside = formula.display and columns(document.source.text, formula)
    if beside or _read(document, formula, functions)[1].errors:
        found: list[Said] = []
        for piece in parts_of(document.source.text, formula):
            holes = merged([*formula.holes, *piece.holes])
            part = replace(formula, span=Span(document.source, piece.start, piece.end), holes=holes)
            found += (replace(x, formula=formula) for x in _equations(document, part, functions, known))
        yield from again(found, known)
    else:
        yield from _equations(document, formula, functions, known)


def _going_on(document: Document, formula: Formula, sign: tuple[int, int], functions: frozenset[str],
              known: Known) -> Iterator[Said]:
    """The equations of a display that begins with a sign of equality at some place: it goes on from the display before
    it in its section where that leaves a left side open. It is a question where that is a list or says another
    relation, and else a value.
    """
    first, (start, end), span = known.before.get(formula.span.start), sign, formula.span
    open_ = left(document.source.text, first) if first is not None else None
    if first is not None and open_ is None and closed(document.source.text, first):
        yield Said(formula, _trimmed(span), problem=unopened(_trimmed(span), first.span))
        return
    holes = formula.holes if open_ is None else merged([*formula.holes, (open_[1], start)])
    part = replace(formula, span=Span(document.source, end if open_ is None else open_[0], span.end), holes=holes)
    if open_ is None and begun(document.source.text, part) is not None:
        yield Said(formula, _trimmed(span), problem=nothing(_trimmed(span)))
        return
    for x in (_formula if open_ is None else _equations)(document, part, functions, known):
        own = x.span if x.span.start >= span.start else Span(document.source, start, max(x.span.end, end))
        yield replace(x, formula=formula, span=own)


def _equations(document: Document, formula: Formula, functions: frozenset[str], known: Known) -> Iterator[Said]:
    """The equations of a formula, or of a part of one."""
    span = formula.span
    number = not formula.display and shapes.number(document.source.text, span.start)
    found, report = _read(document, formula, functions)
    found = [conditioned(line, known.indices | known.sizes) for line in found]
    if number and not _SAYS.search(span.text):
        lines = (shapes.line(c.body, s.Number("1", c.span), c.span) for x in found for c in x.clauses)
        yield from (Said(formula, x.span, x, fact=shapes.FACT) for x in lines if x is not None)
        return
    if formula.display and (listed := listings.rows(span.text)):
        yield Said(formula, _trimmed(span), fact="rows written out", rows=listed)
    elif report.errors or not found:
        # A macro that is not mathematics of indices says more than the brackets that it leaves open.
        problem = min(report.sorted(), key=lambda p: not isinstance(p, UnknownMacro)) if report.errors else None
        if formula.display or "=" in span.text or "←" in span.text or "leftarrow" in span.text:
            yield Said(formula, _trimmed(span), problem=problem or nothing(_trimmed(span)))
    else:
        ends = (*(x.span.start for x in found[1:]), span.end)
        open_ = wrapped(found, known.sizes | known.indices)
        for statement, end in zip(found, ends, strict=True):
            if (problem := open_.get(statement.span.start)) is not None:
                yield Said(formula, statement.span, problem=problem)
            else:
                yield from _statement(formula, statement, known, end)


def _read(document: Document, formula: Formula, functions: frozenset[str]) -> tuple[list[s.Statement], Report]:
    """The statements of a formula, or of a part of one, and what is wrong with it."""
    report, within = Report(), (formula.span.start, formula.span.end)
    holes = tuple(x for x in formula.holes if within[0] <= x[0] < within[1])
    found = parse_formula(document.source, report, functions, within, holes, document.macros)
    return [other_names(spelled(line, functions | PRIMITIVES.keys()), document) for line in found], report


def _alone(document: Document, formula: Formula, functions: frozenset[str]) -> s.Expression | None:
    """The one expression that a formula in a line of text is; None for another."""
    found, report = _read(document, formula, functions)
    return found[0].clauses[0].body if not report.errors and len(found) == 1 == len(found[0].clauses) else None


def _trimmed(span: Span) -> Span:
    text = span.text
    return Span(span.source, span.start + len(text) - len(text.lstrip()), span.start + len(text.rstrip()))


def _statement(formula: Formula, statement: s.Statement, known: Known, end: int) -> Iterator[Said]:
    """The equations of a list that ends at a place; what follows one and is none belongs to it."""
    groups: list[list[s.Clause]] = []
    lead: list[s.Clause] = []  # names that a range or a shape after them is said of
    for clause in statement.clauses:
        if (family := members(clause.body)) is not None and ranged(family[1]) is not None:
            member, over = (s.Clause(x, None, x.span) for x in family)
            yield _indices(formula, [over], known)
            yield from _chain(formula, statement, [member], known)
        if (sides := shapes.shape(clause.body, known.sizes | known.indices)) is not None:
            clause, whole = shapes.without(clause), clause.span
            equated = isinstance(clause.body, s.Relation)
            names = [clause.body.operands[0]] if isinstance(clause.body, s.Relation) else [
                *(x.body for x in lead), clause.body]
            for name in names:
                if (line := shapes.line(name, sides, name.span.to(whole))) is not None:
                    yield Said(formula, line.span, line, fact=shapes.FACT)
            lead = lead if equated else []
            if not equated:
                continue
        if ranged(clause.body) is not None and (not groups or _counts(clause)):
            yield _indices(formula, [*lead, clause], known)
            lead = []
        elif _starts(clause, known.indices, not groups):
            groups.append([clause])
        elif groups:
            groups[-1].append(clause)
        else:
            lead.append(clause)
    whole = lead[0].span.to(lead[-1].span) if lead else statement.span
    if lead and groups and formula.display:
        yield Said(formula, whole.to(groups[0][-1].span), problem=ahead(whole))
        lead, groups = [], groups[1:]
    if lead and not groups and formula.display and (kind := algorithms.kind(whole.text)):
        yield _step(formula, whole, kind)
    elif lead and not groups and formula.display:
        yield value(formula, statement, lead, known)
    ends = (*(group[0].span.start for group in groups[1:]), end)
    for group, last in zip(groups, ends, strict=False):
        text = statement.span.source.text[group[0].span.start : last].rstrip(" ,")
        if formula.display and (listed := listings.rows(text)):
            yield Said(formula, group[0].span.to(group[-1].span), fact="rows written out", rows=listed)
        else:
            yield from _chain(formula, statement, group, known)


def _step(formula: Formula, span: Span, kind: str) -> Said:
    """What a line of an algorithm says: what the letter of its loop counts, or what it returns."""
    over = algorithms.rounds(span)
    if over is None:
        return Said(formula, span, fact=kind)
    line = s.Statement("", False, (s.Clause(over, None, over.span),), (), over.span)
    return Said(formula, span, line, over.operands[:1])


def _counts(clause: s.Clause) -> bool:
    """`i = 1..h`, which no condition says."""
    return isinstance(clause.body, s.Relation) and clause.body.operators == ("=",)


def _starts(clause: s.Clause, indices: frozenset[str], first: bool) -> bool:
    body = clause.body
    if clause.after == "with" or not isinstance(body, s.Relation) or body.operators[0] not in _EQUALS:
        return False
    if first or body.operators[0] != "=":
        return True
    if _applied(body.operands[0]) or parted(*body.operands[:2]) or listing(body.operands[0], "") is not None:
        return True
    name = index_name(body.operands[0])
    return head(body.operands[0]) is not None and not (name is not None and name.rstrip("'") in indices)


def _applied(node: s.Expression) -> bool:
    """Whether it is a name of the text that is applied to what stands in parentheses: `g(i)`."""
    match node:
        case s.Product((name, s.Group("(", ")", given)), ("", "")):
            return head(name) is not None and bool(given)
    return False


def _chain(formula: Formula, statement: s.Statement, group: list[s.Clause], known: Known) -> Iterator[Said]:
    """`a = b = c` says a = b and a = c."""
    first, *rest = group
    assert isinstance(first.body, s.Relation)
    if not rest and formula.display and of_function(first.body):
        yield value(formula, statement, [replace(first, body=first.body.operands[1])], known)
        return
    if not rest and (kind := fact(first.body, known.sizes, known.indices, known.tensors, known.shaped)):
        yield from _facts(formula, statement, first, kind)
        return
    if not rest and named(first.body):
        yield Said(formula, first.span, fact="names of members")
        return
    function = is_function(replace(statement, clauses=(first,)))
    if listing(first.body.operands[0], "") is not None and first.body.operators[1:] in ((), ("=",)):
        yield from _listed(formula, statement, first, rest, known)
        return
    left, operators = first.body.operands[0], first.body.operators
    chained = len(operators) > 1 and all(o in ("=", ":=") for o in operators)
    name = head(left)
    if name is None and len(operators) == 1 and (each_of := parted(left, first.body.operands[1])):
        yield from (Said(formula, x.span, replace(x, clauses=(*x.clauses, *rest))) for x in each_of)
        return
    if (name is None or shapes.several(left, name[0].base)) and not function:
        for right in first.body.operands[1:] if chained else (None,):
            yield identity(formula, statement, first, (left, right), known)
        return
    rights = first.body.operands[1:] if chained else (None,)
    for n, right in enumerate(rights):
        if function and n > 0 and right is not None:
            yield identity(formula, statement, first, (first.body.operands[1], right), known)
            continue
        body = first.body if right is None else s.Relation((left, right), ("=",), left.span.to(right.span))
        clause = replace(first, body=body, span=body.span, after="")
        last = rest[-1].span if rest and right in (None, rights[-1]) else body.span
        span = body.span.to(last)
        yield Said(formula, span, replace(statement, clauses=(clause, *rest), span=span))


def _listed(formula: Formula, statement: s.Statement, clause: s.Clause, rest: list[s.Clause],
            known: Known) -> Iterator[Said]:
    """`[q_1; …; q_h] = q` says of what q consists, and `[q_1; …; q_h] = q = W x` also what q is."""
    assert isinstance(clause.body, s.Relation)
    left, name, *others = clause.body.operands
    span = left.span.to(name.span)
    first = replace(clause, body=s.Relation((left, name), ("=",), span), span=span)
    yield Said(formula, span, replace(statement, clauses=(first, *(() if others else rest)), span=span))
    if others:
        place = name.span.to(others[0].span)
        second = replace(clause, body=s.Relation((name, others[0]), ("=",), place), span=place)
        yield from _chain(formula, statement, [second, *rest], known)


def _facts(formula: Formula, statement: s.Statement, clause: s.Clause, kind: str) -> Iterator[Said]:
    """`m = n = T` says m = T and n = T; a product of sizes is no name that an equation could read."""
    assert isinstance(clause.body, s.Relation)
    *names, last = clause.body.operands
    for name in names:
        span = name.span.to(last.span)
        body = s.Relation((name, last), ("=",), span)
        line = replace(statement, clauses=(replace(clause, body=body, span=span, after=""),), span=span)
        yield Said(formula, span, line if head(name) is not None else None, fact=kind)


def _indices(formula: Formula, clauses: list[s.Clause], known: Known) -> Said:
    last = clauses[-1].body
    assert isinstance(last, s.Relation)
    span = clauses[0].span.to(clauses[-1].span)
    names = (*(c.body for c in clauses[:-1]), last.operands[0])
    over = ranged(last)
    if over is not None and index_name(over.high) in known.indices and last.operators == ("=",):
        return Said(formula, span, fact="a range up to one position")
    sized = replace(clauses[-1], body=shapes.counted(last))
    return Said(formula, span, s.Statement("", False, (*clauses[:-1], sized), (), span), names)
