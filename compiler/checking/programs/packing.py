"""Positions of requests -> one packed axis: a request and its position are one element of it.

A pair (r, t) becomes the element p. What an equation says of r reads the request of p, a position is p less the offset
of its request; a sum over s of a request is one over the elements q of that request. Where two requests are the same,
positions in both are counted from one offset, so that a comparison of them is one of p and q. Non-goal: to check
anything. That is done while positions still stand beside their requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.declarations.ragged import Owners, Ragged, mentioned, place_of
from einc.checking.expressions.values import by_class
from einc.checking.programs.restarts import restarted
from einc.ir.domains import Linear, linear, proves
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import Extent, Index, IndexSet, Packed, number, size
from einc.ir.letters import labelled
from einc.ir.programs import Equation, IndexLoop, Slot, Tensor, TypedProgram, local
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    both,
    children,
    conjuncts,
    const,
    free_indices,
    reads,
    rebuild,
    substitute,
)

_COMPARED, _ADDED = ("le", "lt", "eq", "ne"), ("add", "sub", "neg")


def packed(program: TypedProgram, ragged: Ragged) -> TypedProgram:
    """The program with packed axes; the same one where no request has positions of its own."""
    if not ragged.lengths:
        return program
    found = restarted(program, ragged)
    program, ragged = found.program, found.ragged
    sets = {over: _packed_set(program, over, key) for over, key in ragged.lengths.items()}
    tensors = {key: replace(t, slots=_slots(t.slots, sets, found.alone.get(key))) for key, t in program.tensors.items()}
    equations: list[Equation] = []
    for equation in program.equations:
        work = _Packing(dict(program.tensors), sets, ragged.owners.get(equation.target, {}), equation.target,
                        frozenset(tensors), found.alone, found.rounds.get(equation.target))
        equations += work.everything(equation)
        tensors |= {key: replace(t, slots=_slots(t.slots, sets)) for key, t in work.tensors.items()
                    if key not in tensors}
    used = {key for e in equations for key in e.reads}
    for over in sets.values():
        tensors |= {t.key: t for t in of_lengths(over) if t.key in used}
    loops = [replace(x, index=Index(x.index.name, sets[x.index.set]))
             if isinstance(x, IndexLoop) and x.index.set in sets else x for x in program.loops]
    return program.but(tensors=tensors, equations=equations, loops=loops)


def _packed_set(program: TypedProgram, over: IndexSet, lengths: str) -> IndexSet:
    """The set of all requests' positions one after the other, with names for what says where each request is."""
    taken = {*program.tensors, *program.sizes,
             *(n for t in program.tensors.values() for s in t.slots for n in s.set.extent.sizes)}

    def fresh(name: str) -> str:
        taken.add(key := unused(name, taken))
        return key

    requests = program.tensors[lengths].slots[0].set
    what = Packed(lengths, requests, over.by, *(fresh(f"{lengths}_{part}") for part in ("request", "offset", "start")))
    return IndexSet(over.cls, size(fresh(f"{lengths}_sum")), over.start, packed=what)


def of_lengths(over: IndexSet) -> Iterable[Tensor]:
    """The tensors that the lengths of requests fix: for a position its request and offset, for a request its start."""
    assert over.packed is not None
    for key, along in ((over.packed.request, over), (over.packed.offset, over),
                       (over.packed.start, over.packed.requests)):
        yield Tensor(key, key, (Slot(along, "lower", over.packed.letter),), "derived", INTEGER)


def _slots(slots: tuple[Slot, ...], sets: Mapping[IndexSet, IndexSet], alone: int | None = None) -> tuple[Slot, ...]:
    """The slots with one for a request and its position; a request without positions keeps its own, but `alone`."""
    gone = {place_of(slots, at) for at, slot in enumerate(slots) if slot.set in sets} | {alone}
    return tuple(replace(slot, set=sets.get(slot.set, slot.set)) for at, slot in enumerate(slots) if at not in gone)


@dataclass(frozen=True)
class _Scope:
    """What stands for requests (`terms`) and for their positions (`places`), the offsets from which these are counted,
    and requests that are the same as others (`same`).
    """

    terms: Mapping[Index, Term] = field(default_factory=dict)
    places: Mapping[Index, Index] = field(default_factory=dict)
    offsets: Mapping[tuple[Index, IndexSet], Term] = field(default_factory=dict)
    same: Mapping[Index, Index] = field(default_factory=dict)

    def one(self, request: Index) -> Index:
        """The request that stands for all that are the same as this one."""
        while request in self.same:
            request = self.same[request]
        return request

    def term(self, request: Index) -> Term:
        return self.terms.get(request, Position(request))

    def equal(self, domain: Term, rank: Iterable[Index] = ()) -> _Scope:
        """The scope in which requests that the domain equates are one: of two the one that comes first."""
        same, order = dict(self.same), list(rank)
        for a, b in _equated(domain):
            a, b = replace(self, same=same).one(a), replace(self, same=same).one(b)
            if a != b:
                first, second = (a, b) if a in order and (b not in order or order.index(a) < order.index(b)) else (b, a)
                same[second] = first
        return replace(self, same=same)


def _equated(domain: Term) -> list[tuple[Index, Index]]:
    out = []
    for atom in conjuncts(domain):
        match atom:
            case Apply("eq", (Position(a), Position(b))) if a.set.cls == b.set.cls == "request":
                out.append((a, b))
    return out


@dataclass(frozen=True)
class _Packing:
    """One equation: the tensors as they were written, the packed set of each ragged one, the request of each position.

    `alone` has the place of the request in what belongs to the request of a round, `round` the index of the rounds.
    """

    tensors: dict[str, Tensor]
    sets: Mapping[IndexSet, IndexSet]
    owners: Mapping[Index, Index]
    target: str
    taken: frozenset[str]
    alone: Mapping[str, int]
    round: Index | None
    apart: list[Equation] = field(default_factory=list)

    def everything(self, equation: Equation) -> list[Equation]:
        """The equation, after what it needs once for each request."""
        own = self._round_of(equation)
        work = self if own is None or self.round is None else replace(self, owners={**self.owners, self.round: own})
        made = work.equation(equation)
        return [*self.apart, made]

    def equation(self, equation: Equation) -> Equation:
        """Rewrites an equation so that a request and its position on the left become one element of a packed axis."""
        gone = self._gone(equation.target)
        axes = tuple(Position(self._at(a.index)) if isinstance(a, Position) and a.index.set in self.sets else a
                     for n, a in enumerate(equation.axes) if n not in gone)
        scope, conditions = _Scope().equal(equation.domain, equation.indices), list[Term]()
        owners = {i: self.owners[i] for i in equation.indices if i.set in self.sets}
        if self.round is not None and self.round in self.owners:
            owners = {self.round: self.owners[self.round], **owners}
        for index, owner in owners.items():
            scope, condition = self._entered(scope, index, owner, owner not in scope.terms)
            conditions.append(condition)
        domain = both(*conditions, *(self._condition(c, scope) for c in self._said(equation.domain)))
        return replace(equation, axes=axes, domain=domain, body=self.term(equation.body, scope))

    def _round_of(self, equation: Equation) -> Index | None:
        """The request whose positions the rounds around an equation run over; None where it speaks of none."""
        at = self.alone.get(equation.target)
        axis = None if at is None else equation.axes[at]
        return axis.index if isinstance(axis, Position) else None

    def _gone(self, key: str) -> set[int | None]:
        """The places of requests that have no axis of their own."""
        slots = self.tensors[key].slots
        return {place_of(slots, at) for at, slot in enumerate(slots) if slot.set in self.sets} | {self.alone.get(key)}

    def _at(self, index: Index) -> Index:
        return Index(index.name, self.sets[index.set])

    def _entered(self, scope: _Scope, index: Index, owner: Index, first: bool) -> tuple[_Scope, Term]:
        """The scope with one more position, and what says to which request it belongs:
        nothing if it is the first there."""
        over, place = self.sets[index.set], self._at(index)
        assert over.packed is not None
        here, key = Read(over.packed.request, (Position(place),)), (scope.one(owner), index.set)
        condition = TRUE if first else Apply("eq", (scope.term(owner), here))
        offset = scope.offsets.get(key, Read(over.packed.offset, (Position(place),)))
        terms = {**scope.terms, owner: here} if first else scope.terms
        return replace(scope, terms=terms, places={**scope.places, index: place},
                       offsets={**scope.offsets, key: offset}), condition

    def _said(self, domain: Term) -> Iterable[Term]:
        """The domain without what the lengths say anyway."""
        for atom in conjuncts(domain):
            here = [i for i in sorted(free_indices(atom), key=lambda i: i.name)
                    if i in self.owners and i.set in self.sets]
            lengths = {of.packed.lengths for of in self.sets.values() if of.packed is not None}
            known = [Apply("le", (Position(i), Read(of.packed.lengths, (Position(self.owners[i]),)))) for i in here
                     if (of := self.sets[i.set]).packed is not None]
            if not any(r.tensor in lengths for r in reads(atom)) or not proves(both(*known), atom):
                yield atom

    def _condition(self, atom: Term, scope: _Scope) -> Term:
        match atom:
            case Apply("eq", (Position(a), Position(b))) if a.set.cls == b.set.cls == "request":
                left, right = scope.term(a), scope.term(b)
                return TRUE if left == right else Apply("eq", (left, right))
        return self.term(atom, scope)

    # terms

    def term(self, term: Term, scope: _Scope) -> Term:
        """A term over packed axes: a position in a request is one of the axis less the offset of its request."""
        match term:
            case Position(index) if index in scope.places:
                place, offset = scope.places[index], scope.offsets[scope.one(self.owners[index]), index.set]
                return Apply("sub", (Position(place), offset))
            case Position(index) if index.set.cls == "request":
                return scope.term(scope.one(index))
            case Read():
                return self._read(term, scope)
            case Apply("pick", (Fold() as fold, rank)) if any(i.set in self.sets for i in fold.bound):
                return self._picked(fold, self.term(rank, scope), scope)
            case Fold():
                once = self._once(term, scope)
                return self._fold(term, scope) if once is None else once
            case Apply("and", args):
                return both(*(self._condition(c, scope) for a in args for c in conjuncts(a)))
            case Apply("eq"):
                return self._shorter(self._condition(term, scope)) if _equated(term) else self._rebuilt(term, scope)
        return self._rebuilt(term, scope)

    def _picked(self, fold: Fold, rank: Term, scope: _Scope) -> Term:
        """The position that an ordered fold picks, which is the element of the packed axis less what comes before."""
        (index,) = (i for i in fold.bound if i.set in self.sets)
        over = self.sets[index.set].packed
        assert over is not None
        owner = scope.equal(fold.domain).one(self.owners[index])
        offset = scope.offsets.get((owner, index.set), Read(over.start, (scope.term(owner),)))
        return Apply("sub", (Apply("pick", (self._fold(fold, scope), rank)), offset))

    def _rebuilt(self, term: Term, scope: _Scope) -> Term:
        return self._shorter(rebuild(term, tuple(self.term(kid, scope) for kid in children(term))))

    def _read(self, read: Read, scope: _Scope) -> Term:
        """Rewrites a read: a position becomes an element of the packed axis, and its request's subscript is dropped."""
        slots, gone = self.tensors[read.tensor].slots, self._gone(read.tensor)
        subs = []
        for at, (slot, sub) in enumerate(zip(slots, read.subs, strict=True)):
            by = place_of(slots, at)
            if slot.set in self.sets and by is not None:
                subs.append(self._element(read.subs[by], slot.set, sub, scope))
            elif at not in gone:
                subs.append(self.term(sub, scope))
        return Read(read.tensor, tuple(subs))

    def _element(self, request: Term, over: IndexSet, sub: Term, scope: _Scope) -> Term:
        """Where a position of a request stands on the packed axis."""
        assert isinstance(request, Position)
        owner = scope.one(request.index)
        if isinstance(sub, Position) and sub.index in scope.places and scope.one(self.owners[sub.index]) == owner:
            return Position(scope.places[sub.index])
        packed_ = self.sets[over].packed
        assert packed_ is not None
        offset = scope.offsets.get((owner, over), Read(packed_.start, (scope.term(owner),)))
        return self._shorter(Apply("add", (offset, self.term(sub, scope))))

    def _once(self, fold: Fold, scope: _Scope) -> Term | None:
        """A fold that is the same at every position of a request, as a read of what is made once for each request.
        Adds the equation that makes it, and its tensor."""
        if any(r.tensor in self.alone for r in reads(fold)):
            return None
        same = {i: Position(scope.one(i)) for i in free_indices(fold) if scope.one(i) != i}
        free = {scope.one(i) for i in free_indices(fold)}
        requests = {i for i in free if i.set.cls == "request"}
        owners = {i: scope.one(owner) for i, owner in self.owners.items()}
        if not any(isinstance(scope.term(r), Read) and not any(owners.get(i) == r for i in free) for r in requests):
            return None
        work = replace(self, owners=owners, round=None)
        indices = Owners(dict(owners)).arranged(tuple(sorted(free, key=by_class)))
        key = unused(labelled(fold.op, self.target), {*self.taken, *self.tensors})
        self.tensors[key] = local(key, indices)
        axes = tuple(map(Position, indices))
        self.apart.append(work.equation(Equation(key, axes, TRUE, substitute(fold, same))))
        return work.term(Read(key, axes), scope)

    def _fold(self, fold: Fold, scope: _Scope) -> Term:
        """Rewrites a fold over positions as one over packed elements, with conditions that fix the request of each."""
        kept = frozenset(fold.bound)
        outer = [i for i in mentioned(fold.domain) if i not in kept]
        inner = scope.equal(fold.domain, (*outer, *fold.bound))
        # A request that is the same as one around the fold is no index of its own.
        own = {i for i in fold.bound if i.set.cls == "request" and inner.one(i) == i}
        bound, conditions = dict.fromkeys(i for i in fold.bound if i in own or i.set.cls != "request"), list[Term]()
        for index in (i for i in fold.bound if i.set in self.sets):
            owner = inner.one(self.owners[index])
            first = owner in own and owner not in inner.terms
            if first:
                del bound[owner]
            inner, condition = self._entered(inner, index, owner, first)
            conditions.append(condition)
        # What is the same around the fold, or bound to be, is not asked again.
        said = (c for c in self._said(fold.domain)
                if not any(kept & {a, b} or scope.one(a) == scope.one(b) for a, b in _equated(c)))
        domain = both(*conditions, *(self._condition(c, inner) for c in said))
        places = tuple(self._at(i) if i.set in self.sets else i for i in bound)
        return Fold(fold.op, places, domain, self.term(fold.body, inner))

    def _shorter(self, term: Term) -> Term:
        """Numbers without offsets that cancel each other: in a comparison on both sides, in a sum within it. The
        smaller or larger of two positions is that of their places, less the offset of both.
        """
        match term:
            case Apply(op, (a, b)) if op in _COMPARED:
                left, right = linear(a), linear(b)
                if left is None or right is None or not (common := self._offsets(left) & self._offsets(right)):
                    return term
                for atom in common:
                    if left.coefficient(atom) == right.coefficient(atom):
                        left, right = left.without(atom), right.without(atom)
                return Apply(op, (_term(left), _term(right)))
            case Apply("min" | "max" as op, args) if len(ends := [f for a in args if (f := linear(a))]) == len(args):
                shared = [x for x in frozenset.intersection(*map(self._offsets, ends))
                          if all(f.coefficient(x) == number(-1) for f in ends)]
                return term if len(shared) != 1 else Apply("sub", (
                    Apply(op, tuple(_term(f.without(shared[0])) for f in ends)), shared[0]))
            case Apply(op, args) if op in _ADDED:
                forms = [linear(a) for a in args]
                known = [self._offsets(f) for f in forms if f is not None]
                whole = linear(term)
                if whole is not None and len(known) == len(args) and self._offsets(whole) < frozenset().union(*known):
                    return _term(whole)
        return term

    def _offsets(self, form: Linear) -> frozenset[Term]:
        keys = {key for over in self.sets.values() if (of := over.packed) is not None for key in (of.offset, of.start)}
        return frozenset(atom for atom, _ in form.atoms if isinstance(atom, Read) and atom.tensor in keys)


def _term(form: Linear) -> Term:
    """The form as it is written by hand."""
    above: list[Term] = []
    below: list[Term] = []
    for atom, coefficient in (*form.atoms, (ONE, form.constant)):
        for mono, number_ in coefficient.terms:
            factor = Extent(((mono, abs(number_)),))
            times = Size(factor) if mono else const(abs(number_))
            one = atom if times == ONE else times if atom == ONE else Apply("mul", (times, atom))
            (above if number_ > 0 else below).append(one)
    total = ZERO if not above else above[0] if len(above) == 1 else Apply("add", tuple(above))
    for one in below:
        total = Apply("neg", (one,)) if total == ZERO else Apply("sub", (total, one))
    return total
