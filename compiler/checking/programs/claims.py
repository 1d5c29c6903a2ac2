"""Claims: both sides are read by the rules, and become two tensors over the indices that are free in them.

What only an assumption names is declared by it: defined where the other side has no further index, else given by the
caller. Proving is another command's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einc.checking.declarations.names import Name, head, index_name
from einc.checking.declarations.ragged import mentioned, one_axis, place_of
from einc.checking.declarations.scope import LinesSaid, Points, Signature
from einc.checking.declarations.scripts import Level
from einc.checking.declarations.signatures import left_side
from einc.checking.expressions.expressions import value
from einc.checking.expressions.predicates import restriction
from einc.checking.expressions.tensors import read
from einc.checking.expressions.values import Context, Made, Value
from einc.checking.programs.assemble import assemble
from einc.checking.programs.audit import ranges
from einc.checking.programs.elaborate import Work
from einc.checking.programs.packing import packed
from einc.errors.problems import BadDeclaration, ForeignIndex, NoRequest, NotYet, UnknownIndex
from einc.errors.report import Help, Report
from einc.ir.claimed import Claim
from einc.ir.indices import Index
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Tensor, slot_of
from einc.ir.terms import TRUE, Position, Read, Term, both, conjuncts, free_indices
from einc.syntax import tree as s


@dataclass(frozen=True)
class Stated:
    """A claim that was read: its sides and its assumptions as equations of their own, in `made`."""

    statement: s.Statement
    negated: bool
    pairs: tuple[tuple[Signature, Signature], ...]  # the claim's own first
    made: Made


def claims(work: Work, statements: Iterable[s.Statement]) -> list[Stated]:
    """Every claim of the text that says something."""
    out: list[Stated] = []
    for statement in statements:
        if statement.keyword == "claim":
            with work.scope.telling(statement):
                out.append(_claim(work, statement))
    return out


def built(work: Work, stated: Stated, recurs: list[BlockLoop], repeats: list[IndexLoop]) -> Claim | None:
    """The claim with the program that it speaks of; None where that has errors, which are in the report."""
    made = replace(work.made, tensors=[*work.made.tensors, *stated.made.tensors],
                   equations=[*work.made.equations, *stated.made.equations], owners=stated.made.owners)
    owners = {**work.owners, **dict.fromkeys((e.target for e in stated.made.equations), stated.made.owners.known)}
    chosen = [side for pair in stated.pairs for side in pair]
    report = Report()
    found = assemble(replace(work, made=made, report=report, owners=owners), stated.statement.span.source, chosen,
                     recurs, repeats)
    if found is not None:
        program, text = found
        ranges(program, text, report)
    for problem in report.problems:
        work.report.add(problem)
    if found is None or report.errors:
        return None
    (left, right), *given = [(text.names[a.key], text.names[b.key]) for a, b in stated.pairs]
    span = stated.statement.span
    return Claim(packed(program, text.ragged), left, right, tuple(given), stated.negated, " ".join(span.text.split()),
                 span)


def _claim(work: Work, statement: s.Statement) -> Stated:
    """Reads a claim and its assumptions, each as a pair of tensors over the same indices, under its restrictions.

    It raises ForeignIndex where a restricted index stands on neither side.
    """
    first, *rest = statement.clauses
    relation, negated = _relation(first)
    made = work.made.apart()
    context = Context(work.scope, Report(), made, "claim", None, value, work.settle, work.scope.text(statement.span))
    assumed = [c for c in statement.tail if isinstance(c.body, s.Relation | s.Logic)]
    pairs: list[tuple[Signature, Signature]] = []
    for clause in assumed:
        context, found = _assumed(context, clause)
        pairs += found
    withs = [c.body for c in rest if isinstance(c.body, s.Relation) and (c.after == "with" or ":=" in c.body.operators)]
    said = restriction(context, tuple(c for c in rest if c.body not in withs))
    context = replace(context, restrictions=tuple(c for c in conjuncts(said) if c != TRUE))
    for relation_ in withs:
        context = _with(context, relation_)
    left, right = map(context.value, relation.operands)
    own = _pair(context, left, right, relation, ("left", "right"))
    _requests(own[0], statement)
    for index in sorted({i for c in context.restrictions for i in free_indices(c)}, key=str):
        if index not in own[0].points.letters and index not in made.bound:
            raise ForeignIndex(f"index `{index}` is restricted, but nothing in the claim has it", statement.span,
                               helps=(Help(f"leave it out, or sum over `{index}`"),))
    known = {i for pair in (own, *pairs) for i in pair[0].points.letters}
    _quantified(context, [c for c in statement.tail if c not in assumed], known)
    return Stated(statement, negated, (own, *pairs), made)


def _requests(side: Signature, statement: s.Statement) -> None:
    """Raises where a side has a position of a request and no request, or two positions of one."""
    for at, slot in enumerate(side.slots):
        if slot.set.by and place_of(side.slots, at) is None:
            raise NoRequest(f"`{slot.name}` is a position of a request, and both sides are of no request",
                            statement.span, helps=(Help("leave the request free, or sum over its positions too"),))
        if slot.set.by and one_axis(side, at) is not None:
            raise NotYet("claims about two positions of one request are read, but this release does not try them",
                         statement.span, helps=(Help("claim it of one text: `index t : time(T)`"),))


def _relation(clause: s.Clause, what: str = "a claim is written `claim LEFT = RIGHT`") -> tuple[s.Relation, bool]:
    """The equation of a clause, and whether it is denied. Raises BadDeclaration, with the message `what`, where it is
    no equation."""
    match clause.body:
        case s.Relation(_, ("=",) | (":=",)) as found:
            return found, False
        case s.Logic("not", (s.Relation(_, ("=",) | (":=",)) as found,)) | s.Logic("not", (s.Group(_, _, (s.Relation(
                _, ("=",) | (":=",)) as found,)),)):
            return found, True
    raise BadDeclaration(what, clause.span, helps=(Help("give it two sides"),))


def _with(context: Context, relation: s.Relation) -> Context:
    """`with NAME := …` holds for this claim alone."""
    left = left_side(context.scope, relation.operands[0], "local", declare=False)
    letters = tuple(i for axis in left.axes for i in axis)
    found = replace(context, left=frozenset(letters)).value(relation.operands[1])
    return _named(context, left.signature, letters, found, relation)


def _named(context: Context, signature: Signature, letters: tuple[Index, ...], found: Value,
           relation: s.Relation) -> Context:
    bound = context.let(signature.name.python, found, relation.span.text, letters)
    return _known(context, signature, letters, bound)


def _known(context: Context, signature: Signature, letters: tuple[Index, ...], found: Value) -> Context:
    slots: tuple[tuple[Index, Level], ...] = tuple((i, x.level) for i, x in zip(letters, signature.slots, strict=True))
    return context.knowing(signature.name, slots, found)


def _assumed(context: Context, clause: s.Clause) -> tuple[Context, list[tuple[Signature, Signature]]]:
    """`assuming LEFT = RIGHT`: what is new on one side is defined by the other, or an input of which no more is known.
    Changes `context.made.tensors`. Raises BadDeclaration."""
    relation, negated = _relation(clause, "an assumption is an equation")
    if negated:
        raise BadDeclaration("an assumption says what is equal", clause.span, helps=(Help("leave out `not`"),))
    for new, other in (relation.operands, relation.operands[::-1]):
        if head(new) is None or read(context, new, ask=True) is not None:
            continue
        left = left_side(context.scope, new, "local", declare=False)
        letters = tuple(i for axis in left.axes for i in axis)
        found = context.value(other)
        if free_indices(found.term) | free_indices(found.domain) <= set(letters):
            return _named(context, left.signature, letters, found, relation), []
        key = context.made.fresh(left.signature.name.python)
        context.made.tensors.append(Tensor(key, left.signature.name.text, left.signature.slots, "input", span=new.span))
        context = _known(context, left.signature, letters, Value(Read(key, tuple(map(Position, letters)))))
        break
    sides = [context.value(x) for x in relation.operands]
    return context, [_pair(context, sides[0], sides[1], relation, ("given", "same"))]


def _pair(context: Context, left: Value, right: Value, relation: s.Relation,
          stems: tuple[str, str]) -> tuple[Signature, Signature]:
    """Two equations over the indices that are free in either side, where both exist."""
    common = both(left.domain, right.domain)
    present = free_indices(left.term) | free_indices(right.term) | free_indices(common)
    trailing = [c for c in context.restrictions if free_indices(c) <= present]
    declared = [*context.scope.alphabet.indices]
    letters = tuple(sorted(present, key=lambda i: (i.name.count("'"), declared.index(i.name.rstrip("'")))))
    context.made.owners.rest(mentioned(left.term, right.term, common, *trailing), letters, relation.span)
    first, second = (_equation(context, letters, x, both(common, *trailing), node, stem)
                     for x, node, stem in zip((left, right), relation.operands, stems, strict=True))
    return first, second


def _equation(context: Context, letters: tuple[Index, ...], found: Value, domain: Term, node: s.Expression,
              stem: str) -> Signature:
    key, slots = context.made.fresh(stem), tuple(map(slot_of, letters))
    signature = Signature(Name(stem), slots, "local", node.span, key, said=LinesSaid(total=True),
                          points=Points(letters=letters))
    context.made.tensors.append(Tensor(key, key, slots, "local", span=node.span))
    source = " ".join(node.span.text.split())
    context.made.equations.append(Equation(key, tuple(map(Position, letters)), domain, found.term, source))
    return signature


def _quantified(context: Context, clauses: Iterable[s.Clause], known: set[Index]) -> None:
    """Raises a problem for `for all i, j` with an index that is not there; every index is meant for all of its values.
    """
    for clause in clauses:
        for node in _words(clause.body):
            name = index_name(node)
            index = context.vocabulary(frozenset()).index(name) if name is not None else None
            if index is None:
                raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span,
                                   helps=(Help("after `for all` stand indices: `for all t, s`"),))
            if index not in known:
                raise ForeignIndex(f"index `{index}` stands in nothing that is claimed or assumed", node.span,
                                   helps=(Help(f"leave `{index}` out"),))


def _words(node: s.Expression) -> Iterator[s.Expression]:
    match node:
        case s.Product(factors, _):
            yield from factors
        case _:
            yield node
