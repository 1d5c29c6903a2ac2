"""What is sound and looks like a slip: weights summed over another index than theirs,
another's tensor beside one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from einc.checking.declarations.names import Name
from einc.checking.declarations.scope import Signature
from einc.checking.programs.elaborate import Work
from einc.errors.problems import OtherLine, OtherTensor
from einc.errors.report import Help, Label, Span
from einc.ir.indices import Index
from einc.ir.programs import Equation
from einc.ir.terms import (
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    bound_indices,
    canonical,
    children,
    free_indices,
    reads,
    substitute,
)
from einc.syntax import tree as s


def other_lines(work: Work, tree: s.SyntaxTree) -> None:
    """Tells of sums of the text itself that run over another index than their weights add up to 1 along."""
    equations = {e.target: e for e in (*work.made.equations, *work.equations.values())}
    for equation in equations.values():
        for fold, held in _sums(equation.body, frozenset()):
            place = work.made.places.get(fold)
            if (place is not None and place.source == tree.source
                and (along := _other_line(fold, held, equations)) is not None):
                under = " ".join(i.name for i in fold.bound)
                work.report.add(OtherLine(f"these weights add up to 1 along `{along}`, and are summed over `{under}`",
                                          place,
                                          helps=(Help(f"normalise over `{under}`, or sum over `{along}`"),)))


def _sums(term: Term, held: frozenset[Index]) -> Iterator[tuple[Fold, frozenset[Index]]]:
    """Every sum in a term, with the indices that are bound around it."""
    if isinstance(term, Fold) and term.op == "sum":
        yield term, held
    inner = held.union(bound_indices(term))
    for kid in children(term):
        yield from _sums(kid, inner)


def _other_line(fold: Fold, held: frozenset[Index], equations: Mapping[str, Equation]) -> Index | None:
    """The free index along which a factor of a sum is a share, where none is along an
    index of the sum that weighs another."""
    factors, bound = list(_factors(fold.body)), frozenset(fold.bound)
    lines = {factor: found for factor in factors if (found := _shares(factor, equations))}
    if not lines or bound & frozenset().union(*lines.values()):
        return None
    for factor, found in lines.items():
        with_it = bound & free_indices(factor)
        weighed = any(with_it & free_indices(other) for other in factors if other != factor)
        free = sorted(found - held, key=lambda i: i.name)
        if with_it and weighed and free:
            return free[0]
    return None


def _factors(term: Term) -> Iterator[Term]:
    match term:
        case Apply("mul", args):
            for arg in args:
                yield from _factors(arg)
        case Where(_, then):
            yield from _factors(then)
        case _:
            yield term


def _shares(term: Term, equations: Mapping[str, Equation]) -> frozenset[Index]:
    """The indices along which a term is divided by its own sum."""
    match term:
        case Apply("div", (above, Fold("sum", (index,), _, below))):
            return frozenset(i for i in free_indices(above) if i.set == index.set
                             and canonical(substitute(below, {index: Position(i)})) == canonical(above))
        case Read(key, subs) if key in equations:
            made = equations[key]
            own = dict(zip(made.axes, subs, strict=True))
            found = (own.get(Position(i)) for i in _shares(made.body, equations))
            return frozenset(sub.index for sub in found if isinstance(sub, Position))
    return frozenset()


def instead(work: Work, tree: s.SyntaxTree, unread: Iterable[Signature]) -> Iterator[Signature]:
    """Tells of tensors of the text that nothing reads, where a line of it reads one of the
    same name of a used spec; gives them."""
    entries, by = work.collected.entries, {x.key: x for x in work.scope.signatures}
    foreign: dict[tuple[Name, int], tuple[Signature, Span]] = {}
    for identity, equation in work.equations.items():
        entry = entries.get(identity)
        if entry is not None and entry.span.source == tree.source:
            found = (by[r.tensor] for t in (equation.body, equation.domain) for r in reads(t) if r.tensor in by)
            for x in found:
                if x.span.source != tree.source:
                    foreign.setdefault((x.name, len(x.slots)), (x, entry.span))
    for own in unread:
        if (own.name, len(own.slots)) in foreign:
            other, span = foreign[own.name, len(own.slots)]
            work.report.add(OtherTensor(
                f"`{other.text}` is that of {other.span.source.name}, and nothing reads `{own.text}` of this text",
                span, "read here", Label(own.span, "defined here"),
                helps=(Help(f"read `{own.text}`, or leave it out"),)))
            yield own
