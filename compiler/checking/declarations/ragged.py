"""Positions of requests: to which request each belongs. In a tensor that is the request index nearest before it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from einc.checking.declarations.scope import Scope, Signature
from einc.errors.problems import NoRequest, NotYet, WrongType
from einc.errors.report import Help, Report, Silent, Span
from einc.ir.elements import INTEGER
from einc.ir.indices import Index, IndexSet
from einc.ir.programs import BlockLoop, Equation, Slot
from einc.ir.terms import (
    Apply,
    Fold,
    Position,
    Read,
    Term,
    both,
    bound_indices,
    children,
    conjuncts,
    free_indices,
    walk,
)


def place_of(slots: tuple[Slot, ...], at: int) -> int | None:
    """The slot of the request to which the slot of a position belongs."""
    return next((n for n in reversed(range(at)) if slots[n].set.cls == "request"), None)


def counted(scope: Scope) -> None:
    """Adds the tensors of lengths to the scope as inputs, where no line declares them; reports one that is declared
    otherwise.
    """
    for lengths in scope.sets.lengths.values():
        found = scope.find(lengths.name, (lengths.of.set,))
        if found is None:
            slot = Slot(lengths.of.set, "lower", lengths.of.name)
            scope.add(Signature(lengths.name, (slot,), "input", lengths.span, element=INTEGER))
        elif not found.integer:
            scope.report.add(WrongType(f"`{found.text}` counts positions, so it holds whole numbers", found.span,
                                       helps=(Help(f"declare it `input {found.text} : int`, or leave that out"),)))


def counts(scope: Scope, signature: Signature) -> bool:
    """Whether the tensor holds the lengths of requests."""
    return any(scope.find(lengths.name, (lengths.of.set,)) is signature for lengths in scope.sets.lengths.values())


def check_requests(scope: Scope) -> None:
    """Reports tensors in which not every position has its request before it, and what is given has the two side by
    side: they are one axis.
    """
    for signature in scope.signatures if scope.sets.lengths else ():
        for at, slot in enumerate(signature.slots):
            if not slot.set.by:
                continue
            by, own = place_of(signature.slots, at), scope.sets.lengths[slot.set].of
            if by is None or signature.slots[by].set != own.set:
                scope.lost.add(signature.name.base)
                scope.report.add(NoRequest(f"`{slot.name}` is a position of a request, and `{signature.text}` has none "
                                           f"before it",
                                           signature.span,
                                           helps=(Help(f"write the request: `{own.name} {slot.name}`"),)))
                break
            if signature.role != "local" and (problem := one_axis(signature, at)) is not None:
                scope.report.add(problem)
                break


def one_axis(signature: Signature, at: int) -> NoRequest | None:
    """What is wrong with a position in what the caller gives or gets: it stands right after a request of its own."""
    slots, by = signature.slots, place_of(signature.slots, at)
    assert by is not None
    pair = f"{slots[by].name} {slots[at].name}"
    if by != at - 1 or any(slots[n].set.by and place_of(slots, n) == by for n in range(len(slots)) if n != at):
        return NoRequest(f"`{pair}` is one axis in what the caller sees, so the two stand side by side", signature.span,
                         helps=(Help(f"write `{pair}` in `{signature.text}`, one position to a request"),))
    return None


@dataclass
class Owners:
    """To which request each position of one equation belongs."""

    known: dict[Index, Index]

    def told(self, slots: tuple[Slot, ...], subs: tuple[Term, ...], span: Span) -> None:
        """Notes what a read, or a left side, says of the requests of positions. Raises NoRequest."""
        for at, slot in enumerate(slots):
            if not slot.set.by:
                continue
            if (by := place_of(slots, at)) is None:
                raise Silent("told with the tensor")
            request = subs[by]
            for index in dict.fromkeys(_bare(subs[at])):
                if not isinstance(request, Position):
                    raise NoRequest(f"`{index}` is a position of a request that only the data know", span,
                                    helps=(Help("use a request index, and a domain that says which it is"),))
                self.one(index, request.index, span)

    def one(self, index: Index, request: Index, span: Span) -> None:
        """Notes the request of one position. Raises NoRequest where it had another one."""
        before = self.known.setdefault(index, request)
        if before != request:
            raise NoRequest(f"`{index}` is a position of request `{before}`, and here of `{request}`", span,
                            helps=(Help(f"write `{index}'` for one of the two"),))

    def bound(self, indices: tuple[Index, ...], span: Span) -> None:
        """Notes that in what a big operator runs over a position belongs to the request nearest before it, too."""
        for at, index in enumerate(indices):
            before = next((i for i in reversed(indices[:at]) if i.set.cls == "request"), None)
            if index.set.by and before is not None:
                self.one(index, before, span)

    def moved(self, by: Mapping[Index, Term], span: Span) -> None:
        """Notes that what stands at the places of positions belongs to what stands at the places of their requests."""
        for place, sub in by.items():
            owner = self.known.get(place)
            for index in dict.fromkeys(_bare(sub)) if owner is not None else ():
                request = by.get(owner or place, Position(owner or place))
                if isinstance(request, Position):
                    self.one(index, request.index, span)

    def rest(self, indices: Iterable[Index], seen: Iterable[Index], span: Span | None) -> None:
        """Notes that positions of which no tensor says it belong to the only request that there is. Raises
        NoRequest."""
        requests = {i for i in seen if i.set.cls == "request"} | set(self.known.values())
        for index in indices:
            if index.set.by and index not in self.known:
                if len(requests) != 1:
                    raise NoRequest(f"nothing says to which request `{index}` belongs", span, helps=(
                        Help(f"read a tensor at it first, after its request: `x_{{{index.set.by} {index}}}`"),))
                self.known[index] = next(iter(requests))

    def arranged(self, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        """The indices, each position after its request, which is added where it lacks."""
        out: dict[Index, None] = {}
        for index in indices:
            first = self.known[index] if index.set.by else index
            for one in (first, *(i for i in indices if i.set.by and self.known[i] == first)):
                out[one] = None
        return tuple(out)


def _bare(term: Term) -> Iterator[Index]:
    """The positions in an index expression, but for those in tensors that it reads."""
    if isinstance(term, Position) and term.index.set.by:
        yield term.index
    for kid in () if isinstance(term, Read) else children(term):
        yield from _bare(kid)


def mentioned(*terms: Term) -> list[Index]:
    """Every index of the terms, bound ones too."""
    out: dict[Index, None] = {}
    for inner in (x for term in terms for x in walk(term)):
        match inner:
            case Position(index):
                out[index] = None
            case Fold(_, bound):
                out.update(dict.fromkeys(bound))
    return list(out)


@dataclass(frozen=True)
class Ragged:
    """What is known of the positions of a program: the tensor of the lengths of each set,
    and the requests of each equation."""

    lengths: Mapping[IndexSet, str]
    owners: Mapping[str, Mapping[Index, Index]]

    def refused(self, outputs: Iterable[Signature], recurs: Iterable[BlockLoop], report: Report) -> None:
        """Reports outputs that have not one axis for a request and its position, as what is given."""
        for signature in outputs:
            for at, slot in enumerate(signature.slots):
                if slot.set.by and (problem := one_axis(signature, at)) is not None:
                    report.add(problem)
        for recur in recurs:
            indices = [*recur.fixed, recur.index, *(i for e in recur.equations for i in e.indices)]
            if any(i.set.by for i in indices):
                report.add(NotYet("rounds over the positions of requests are read, but this release does not compile "
                                  "them",
                                  next((span for _, span in recur.places.values()), None),
                                  helps=(Help("write the sums without rounds: the pass is found"),)))

    def stray(self, equation: Equation) -> Index | None:
        """A position that an equation speaks of where its request is none of the indices around."""
        owners = self.owners.get(equation.target, {})

        def found(term: Term, around: frozenset[Index]) -> Index | None:
            around = around.union(bound_indices(term))
            lost = [i for i in bound_indices(term) if i.set in self.lengths and owners.get(i) not in around]
            inner = (found(kid, around) for kid in (() if lost else children(term)))
            return lost[0] if lost else next((x for x in inner if x is not None), None)

        return found(equation.body, frozenset(equation.indices))

    def within(self, target: str, at: int, slots: tuple[Slot, ...], subs: tuple[Term, ...], given: Term,
               around: Iterable[Index]) -> tuple[Term, Term] | None:
        """The last position that a slot has, and what is known of the positions around;
        None where all requests are alike."""
        key = self.lengths.get(slots[at].set)
        by = place_of(slots, at) if key is not None else None
        if key is None or by is None:
            return None
        owners = self.owners.get(target, {})
        free = sorted(free_indices(given).union(*map(free_indices, subs)), key=lambda i: i.name)
        here = [i for i in (*around, *free) if i in owners and i.set in self.lengths]
        known = [Apply("le", (Position(i), Read(self.lengths[i.set], (Position(owners[i]),)))) for i in here]
        return Read(key, (subs[by],)), both(given, *known)


def over_requests(scope: Scope, found: frozenset[Index], conditions: list[Term], span: Span
                  ) -> tuple[frozenset[Index], list[Term]]:
    """The indices and conditions of rounds without what says that they take all positions of each request.
    Raises NotYet where they run down.
    """
    places, owners = [i for i in found if i.set.by], [i for i in found if i.set.cls == "request"]
    if len(places) != 1 or len(owners) != 1:
        return found, conditions
    lengths = scope.find(scope.sets.lengths[places[0].set].name, (owners[0].set,))
    assert lengths is not None
    place, last = Position(places[0]), Read(lengths.key, (Position(owners[0]),))
    said = [c for condition in conditions for c in conjuncts(condition)]
    if Apply("le", (last, place)) in said:
        raise NotYet("rounds down over the positions of requests are read, but this release does not compile them",
                     span, helps=(Help(f"let the rounds run up: `for {places[0]} in 1..{lengths.text}:`"),))
    rest = [c for c in said if c != Apply("le", (place, last))]
    if any(owners[0] in free_indices(c) for c in rest):
        return found, conditions
    return found - {owners[0]}, rest


def lengths_of(scope: Scope, equations: Iterable[Equation], keys: Container[str], others: Iterable[IndexSet] = ()
               ) -> dict[IndexSet, str]:
    """The tensors of the lengths of all that the equations, and the tensors of the keys, speak of, and of others."""
    used = {x.set for signature in scope.signatures if signature.key in keys for x in signature.slots}
    used |= {*others} | {i.set for e in equations for i in mentioned(*e.axes, e.domain, e.body)}
    found = {over: scope.find(lengths.name, (lengths.of.set,)) for over, lengths in scope.sets.lengths.items()}
    return {over: x.key for over, x in found.items() if x is not None and (over in used or x.key in keys)}
