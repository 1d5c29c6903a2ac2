"""Rounds from the last element down -> rounds from the first one up, over elements counted from the end.

The value that a round gives for each element has a tensor of its own, counted from the end; the one of the text is read
from it. Non-goals: which rounds run down, which `elaborate` tells from the ends of their range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.checking.programs.elaborate import Work
from einc.ir.indices import Index, distinct, number
from einc.ir.programs import BlockLoop, Equation, Tensor
from einc.ir.terms import Apply, Fold, Position, Read, Size, Term, children, rebuild, substitute


def mirrored(work: Work, recur: BlockLoop, known: dict[str, Tensor]) -> tuple[BlockLoop, tuple[Equation, ...]]:
    """The rounds upwards, and the equations outside of them of what has a value for each element.

    `known` are the tensors of what the rounds make; the new ones are added to `work.made`.
    """
    parts = {e.target: e.axes.index(Position(recur.index)) for e in recur.inside if Position(recur.index) in e.axes}
    turned = _Turned(recur.index, parts, {key: work.made.fresh(f"{key}_down") for key in parts})
    for key, name in turned.names.items():
        work.made.tensors.append(replace(known[key], key=name, text=name))
    outside = tuple(
        replace(e, body=Read(turned.names[e.target], tuple(
            turned.across(a) if n == parts[e.target] else a for n, a in enumerate(e.axes))))
        for e in recur.inside if e.target in parts)
    return replace(recur, domain=turned.term(recur.domain), inside=tuple(map(turned.equation, recur.inside)),
                   updates=tuple(map(turned.equation, recur.updates))), outside


@dataclass(frozen=True)
class _Turned:
    """Rounds over one index. `parts` are what they give for each element, with the axis that counts it, and `names` the
    tensors that have the same, counted from the end.
    """

    index: Index
    parts: dict[str, int]
    names: dict[str, str]

    def equation(self, equation: Equation) -> Equation:
        """An equation of a round, over elements counted from the end."""
        return replace(equation.map(self.term), target=self.names.get(equation.target, equation.target))

    def term(self, term: Term) -> Term:
        """A term of a round. What is read at the round's own element is read at its own element again."""
        (own,) = distinct((self.index,), {self.index.name})
        return substitute(self._read(term, own, True), {self.index: self.across(Position(self.index)),
                                                        own: Position(self.index)})

    def across(self, place: Term) -> Term:
        """The element that is as far from the end as another is from the beginning."""
        return Apply("sub", (Size(self.index.set.extent + number(2 * self.index.set.start - 1)), place))

    def _read(self, term: Term, own: Index, free: bool) -> Term:
        """The term with what the rounds give for each element read by its number from the end; `free`: the letter of
        the rounds is not that of a sum around it."""
        free = free and not (isinstance(term, Fold) and self.index in term.bound)
        made = rebuild(term, tuple(self._read(kid, own, free) for kid in children(term)))
        if not isinstance(made, Read) or made.tensor not in self.parts:
            return made
        at = self.parts[made.tensor]
        place = Position(own) if free and made.subs[at] == Position(self.index) else self.across(made.subs[at])
        return Read(self.names[made.tensor], (*made.subs[:at], place, *made.subs[at + 1 :]))
