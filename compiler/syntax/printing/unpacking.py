"""A packed axis as it was written: requests and their positions, for texts. The inverse of `checking.packing`.

An element of the axis is a request and a position, `r t`; its request is r, and positions are counted
from 0 offsets. The letter of a request depends on the position's alone, where that is free: what is told
in several lines speaks of the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from einc.ir.indices import Extent, Index, IndexSet, Packed, number, primed, size
from einc.ir.programs import Equation, Program, Slot, Tensor
from einc.ir.terms import (
    ZERO,
    Apply,
    Fold,
    Pack,
    Position,
    Read,
    Size,
    Term,
    bound_indices,
    children,
    conjuncts,
    const,
    rebuild,
    walk,
)


def unpacked(program: Program) -> Program:
    """The program with requests and positions for packed axes; the same one where there are none."""
    view = Unpacking(program)
    return replace(view.told, equations=tuple(map(view.equation, program.equations))) if view.any else program


@dataclass(frozen=True)
class Unpacking:
    """How a program's packed axes are told."""

    program: Program

    @cached_property
    def any(self) -> bool:
        """Whether the program has an axis of packed requests."""
        return bool(self._packed)

    @cached_property
    def told(self) -> Program:
        """The program in whose tensors the equations and terms of this view are told."""
        return replace(self.program, tensors=self._tensors) if self.any else self.program

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """The tensors with a slot for a request before that of its position; what follows from the lengths is gone."""
        return {key: replace(t, slots=self._slots(t)) for key, t in self.program.tensors.items() if t.role != "derived"}

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """For each letter of a position how many primes the letter of its request has."""
        names = (s.name.rstrip("'") for t in self.program.tensors.values() for s in t.slots
                 if s.set.packed is not None and t.role != "derived")
        return {name: n for n, name in enumerate(dict.fromkeys(names))}

    def set(self, over: IndexSet) -> IndexSet:
        """Returns the set of one request's positions for a packed set, and any other set unchanged."""
        if over.packed is None:
            return over
        letter = over.packed.letter
        text = f"{self.program.tensors[over.packed.lengths].text}_{letter if len(letter) == 1 else f'{{{letter}}}'}"
        return IndexSet(over.cls, size(text), over.start, by=letter)

    def index(self, index: Index) -> Index:
        """Returns the index over the set that is told in place of its own."""
        return Index(index.name, self.set(index.set))

    def _slots(self, tensor: Tensor) -> tuple[Slot, ...]:
        out: list[Slot] = []
        for slot in tensor.slots:
            if (packed := slot.set.packed) is not None and tensor.key not in self._members:
                out.append(Slot(packed.requests, "lower",
                                primed(packed.letter, {s.name for s in (*tensor.slots, *out)})))
            out.append(replace(slot, set=self.set(slot.set)))
        return tuple(out)

    def equation(self, equation: Equation) -> Equation:
        """An equation with a letter for the request of each element."""
        if not self.any:
            return equation
        names = self._requests(*equation.axes, equation.domain, equation.body)
        slots = self.program.tensors[equation.target].slots if equation.target in self.program.tensors else ()
        axes = tuple(x for n, axis in enumerate(equation.axes)
                     for x in ((self._pair if slots and slots[n].set.packed else self._one)(axis, names)))
        return replace(equation, axes=axes, domain=self._term(equation.domain, names),
                       body=self._term(equation.body, names))

    def term(self, term: Term) -> Term:
        """A term that stands in no equation, its positions told by the request and the place in it."""
        return self._term(term, self._requests(term)) if self.any else term

    def fixed(self, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        """Indices with the requests of positions among them."""
        names = self._requests(*map(Position, indices))
        return tuple(x for i in indices for x in ((names[i], self.index(i)) if i in names else (i,)))

    def _requests(self, *terms: Term) -> dict[Index, Index]:
        """A request for every element of a packed axis that the terms speak of."""
        found = [i for term in terms for x in walk(term)
                 for i in ((x.index,) if isinstance(x, Position) else bound_indices(x))]
        taken, names = {i.name for i in found}, dict[Index, Index]()
        for index in found:
            if (packed := index.set.packed) is not None and index not in names:
                primes = "'" * self._ranks.get(index.name.rstrip("'"), 0)
                names[index] = Index(primed(packed.letter + primes, taken), packed.requests)
                taken.add(names[index].name)
        return names

    def _one(self, sub: Term, names: Mapping[Index, Index]) -> tuple[Term, ...]:
        return (self._term(sub, names),)

    def _pair(self, sub: Term, names: Mapping[Index, Index]) -> tuple[Term, ...]:
        """An element of a packed axis as a request and a position."""
        for inner in walk(sub):
            match inner:
                case Position(index) if index in names:
                    return Position(names[index]), self._term(sub, names)
                case Read(tensor, (request,)) if tensor in self._starts:
                    return self._term(request, names), self._term(sub, names)
        # The number of a round, which stands for a position and its request.
        of = self._packed[0]
        return Position(Index(of.letter, of.requests)), self._term(sub, names)

    @cached_property
    def _packed(self) -> list[Packed]:
        found = (s.set.packed for t in self.program.tensors.values() for s in t.slots)
        return list(dict.fromkeys(x for x in found if x is not None))

    @cached_property
    def _requests_of(self) -> frozenset[str]:
        return frozenset(x.request for x in self._packed)

    @cached_property
    def _starts(self) -> frozenset[str]:
        return frozenset(x.start for x in self._packed)

    @cached_property
    def _zeros(self) -> frozenset[str]:
        """The names of tensors that positions of packed requests are counted from."""
        return self._starts | frozenset(x.offset for x in self._packed)

    @cached_property
    def _members(self) -> frozenset[str]:
        """Blocks, which are sets of positions whatever their request."""
        return frozenset(recur.member for recur in self.program.recurs)

    def _term(self, term: Term, names: Mapping[Index, Index]) -> Term:
        """Rewrites a term over packed elements as one over requests (`names`) and their positions."""
        match term:
            case Position(index):
                return Position(self.index(index))
            case Read(tensor, (sub,)) if tensor in self._requests_of:
                return self._pair(sub, names)[0]
            case Read(tensor) if tensor in self._zeros:
                return ZERO
            case Read(tensor, subs) if tensor in self.program.tensors and tensor not in self._members:
                slots = zip(subs, self.program.tensors[tensor].slots, strict=True)
                return Read(tensor, tuple(x for s, slot in slots
                                          for x in (self._pair if slot.set.packed else self._one)(s, names)))
            case Fold(op, bound, domain, body):
                blocks = [found[0] for c in conjuncts(domain) if (found := self.program.block_of(c)) is not None]
                pairs: list[Index] = []
                for index in bound:
                    pairs += [names[index]] if index in names and Position(index) not in blocks else []
                    pairs.append(self.index(index))
                return Fold(op, tuple(pairs), self._term(domain, names), self._term(body, names))
            case Apply("le" | "lt" as op, (at, Size(end))) if (length := self._length(at, end, names)) is not None:
                return Apply(op, (self._term(at, names), length))
            case Apply("add" | "sub" as op, args) if kept := self._without_zeros(op, args):
                inner = tuple(self._term(a, names) for a in kept)
                return inner[0] if len(inner) == 1 else Apply(op, inner)
        return rebuild(term, tuple(self._term(kid, names) for kid in children(term)))

    def _length(self, at: Term, end: Extent, names: Mapping[Index, Index]) -> Term | None:
        """The end of a packed axis, which an element is compared with, as that of the element's request."""
        index = next((x.index for x in walk(at) if isinstance(x, Position) and x.index in names), None)
        if index is None or index.set.packed is None or (more := (end - index.set.extent).constant) is None:
            return None
        length = Read(index.set.packed.lengths, (Position(names[index]),))
        return length if more == 0 else Apply("add", (length, const(more)))

    def _without_zeros(self, op: str, args: tuple[Term, ...]) -> list[Term]:
        zero = [isinstance(a, Read) and a.tensor in self._zeros and (op == "add" or n > 0) for n, a in enumerate(args)]
        return [a for a, gone in zip(args, zero, strict=True) if not gone]


def numbered(pack: Pack) -> Term:
    """The number of a pair: in a value the letters beside each other would be a product."""
    total: list[Term] = []
    for at, (part, one) in enumerate(zip(pack.parts, pack.sets, strict=True)):
        stride = number(1)
        for later in pack.sets[at + 1 :]:
            stride = stride * later.extent
        first = Apply("sub", (part, const(one.start))) if at < len(pack.parts) - 1 else part
        times = Size(stride) if stride.constant is None else const(stride.constant)
        total.append(first if stride == number(1) else Apply("mul", (times, first)))
    shift = pack.into.start - pack.sets[-1].start
    return Apply("add", (*total, const(shift))) if shift else Apply("add", tuple(total))
