"""A step whose positions are dealt out over the ranks of one axis of a mesh, one to each in turn.

Of W ranks, rank q has the positions q, q + W, q + 2 W, and so on, as rows 1, 2, 3. So a letter s over all positions
becomes two, a row i and a rank q, with s = W (i - 1) + q wherever it stands as a number, and what is kept has two slots
in place of one. All else follows when q is cut: what is summed over positions is a share of each rank, and is merged. A
new position goes to the next rank, so that none is ever moved and all ranks have as much to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.ir.domains import proves
from einc.ir.folds import FOLDS
from einc.ir.indices import Extent, Index, IndexSet, number, rounded, size
from einc.ir.programs import Equation, Slot, Tensor, TypedProgram
from einc.ir.sums import added, product
from einc.ir.terms import (
    ONE,
    Apply,
    Fold,
    Join,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    children,
    const,
    rebuild,
    substitute,
)
from einc.transforms.serving.cached import Refused
from einc.transforms.serving.handed import Handed


def dealt(step: Handed, along: IndexSet, ranks: int) -> tuple[Handed, IndexSet]:
    """The step with its positions dealt out over so many ranks, and the set of these, which is to be cut; `along` is
    the set of the new positions. Raises Refused where a composite is made of positions, or an output has all of them.
    """
    work = _Dealing(step.program, along, size(step.past), ranks)
    work.examine({one.past for one in step.rows})
    return replace(step, program=work.done(), ranks=ranks), work.ranks


@dataclass
class _Dealing:
    """A step of new positions, those `along`, whose positions are dealt out over so many ranks. `rows` has for the set
    of those of the past, and for that of all, the set of a rank's rows.
    """

    program: TypedProgram
    along: IndexSet
    past: Extent
    count: int
    rows: dict[IndexSet, IndexSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Finds the rows."""
        self.ranks = IndexSet("rank", number(self.count))
        for extent in (self.past, self.along.extent + self.past):
            part = rounded(extent * number(Fraction(1, self.count)), up=True)
            self.rows[replace(self.along, extent=extent)] = replace(self.along, extent=part)

    def examine(self, kept: Set[str]) -> None:
        """Raises Refused for what cannot have its positions dealt out; what is `kept` a rank has so."""
        program = self.program
        for whole, parts in program.splits.items():
            if {whole, *parts} & self.rows.keys():
                raise self.refused(f"{whole} is a composite")
        for name, key in program.outputs:
            if self.has_positions(program.tensors[key]):
                raise self.refused(f"the output `{name}` has all of them")
        for tensor in program.inputs():
            if tensor.key not in kept and self.has_positions(tensor):
                raise self.refused(f"the caller gives `{tensor.text}` for all of them")
        if program.recurs:
            raise self.refused("rounds take blocks of them")

    def has_positions(self, tensor: Tensor) -> bool:
        """Whether a slot of a tensor has positions of the past."""
        return any(slot.set in self.rows for slot in tensor.slots)

    def refused(self, why: str) -> Refused:
        """What is said of positions that cannot be dealt out."""
        return Refused(f"positions of `{self.program.name}` cannot be dealt out over ranks: {why}",
                       "cut letters of other sets, such as those of heads")

    def done(self) -> TypedProgram:
        """The program."""
        tensors = {key: self.tensor(t) for key, t in self.program.tensors.items()}
        sums = {whole: parts for whole, parts in self.program.sums.items() if whole not in self.rows}
        equations = [self.equation(e) for e in self.program.equations]
        return replace(self.program.but(equations=equations, tensors=tensors), sums=sums)

    def tensor(self, tensor: Tensor) -> Tensor:
        """A tensor with a row and a rank for each slot of positions."""
        if not self.has_positions(tensor):
            return tensor
        slots: list[Slot] = []
        for slot in tensor.slots:
            if slot.set in self.rows:
                slots += [replace(slot, set=self.rows[slot.set]), Slot(self.ranks, slot.level, f"q_{slot.name}")]
            else:
                slots.append(slot)
        return replace(tensor, slots=tuple(slots), told=replace(tensor.told, gone=()))

    def pair(self, index: Index) -> tuple[Index, ...]:
        """The row and the rank that a letter becomes; the letter itself where it is of another set."""
        if index.set not in self.rows:
            return (index,)
        return Index(index.name, self.rows[index.set]), Index(f"q_{index.name}", self.ranks)

    def number(self, index: Index) -> Term:
        """The number of a position by its row and its rank."""
        row, rank = self.pair(index)
        before = product((const(self.count), Apply("sub", (Position(row), ONE))))
        return added((before, Position(rank)))

    def equation(self, equation: Equation) -> Equation:
        """An equation with two letters for each letter of positions."""
        axes: list[Term] = []
        for axis in equation.axes:
            axes += map(Position, self.pair(axis.index)) if isinstance(axis, Position) else [axis]
        joined = isinstance(equation.body, Join) and equation.body.index.set in self.rows
        body = self.joined(equation.body) if joined and isinstance(equation.body, Join) else self.term(equation.body)
        return replace(equation, axes=tuple(axes), domain=self.term(equation.domain), body=body)

    def joined(self, term: Join) -> Term:
        """What a rank has of all positions: of the past what is kept, behind it what is new."""
        (was, old), (mine, new) = term.parts
        here, past, every = self.number(term.index), Size(self.past), Size(self.along.extent + self.past)
        old = self.term(substitute(old, {was: Position(term.index)}))
        new = substitute(self.term(new), {mine: Apply("sub", (here, past))})
        return added((Where(Apply("le", (here, past)), old),
                      Where(both(Apply("lt", (past, here)), Apply("le", (here, every))), new)))

    def term(self, term: Term, plain: Set[Index] = frozenset()) -> Term:
        """A term with two letters for each letter of positions but those that are `plain`, along which ordered folds
        run: these are of all ranks. Raises Refused for a direct sum inside of it.
        """
        match term:
            case Position(index):
                return self.number(index) if self.in_turn(index, plain) else term
            case Read(tensor, subs):
                slots = self.program.tensors[tensor].slots
                places = (self.places(sub, slot.set, plain) for sub, slot in zip(subs, slots, strict=True))
                return Read(tensor, tuple(one for place in places for one in place))
            case Fold(op, bound, domain, body) if FOLDS[op].ordered:
                return Fold(op, bound, self.term(domain, plain | {*bound}), self.term(body, plain | {*bound}))
            case Fold(op, bound, domain, body):
                letters = tuple(one for index in bound for one in self.pair(index))
                there = self.term(domain, plain)
                ends = (one for index in bound for one in self.there(index) if not proves(there, one, some=frozenset()))
                return Fold(op, letters, both(there, *ends), self.term(body, plain))
            case Join(index) if index.set in self.rows:
                raise self.refused("they are laid together inside of an equation")
        return rebuild(term, tuple(self.term(kid, plain) for kid in children(term)))

    def in_turn(self, index: Index, plain: Set[Index]) -> bool:
        """Whether a letter is one of a row and one of a rank."""
        return index.set in self.rows and index not in plain

    def there(self, index: Index) -> Iterator[Term]:
        """The condition that a row of a rank is one of the positions."""
        if index.set in self.rows:
            yield Apply("le", (self.number(index), Size(index.set.extent)))

    def places(self, sub: Term, of: IndexSet, plain: Set[Index]) -> tuple[Term, ...]:
        """The places of an element in the slots that one slot becomes."""
        if of not in self.rows:
            return (self.term(sub, plain),)
        if isinstance(sub, Position) and self.in_turn(sub.index, plain):
            return tuple(map(Position, self.pair(sub.index)))
        from_0, ranks = Apply("sub", (self.term(sub, plain), ONE)), const(self.count)
        row = Apply("floor", (Apply("div", (from_0, ranks)),))
        return added((row, ONE)), added((Apply("mod", (from_0, ranks)), ONE))
