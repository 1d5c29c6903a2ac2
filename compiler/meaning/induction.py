"""Proofs by induction over positions: what rounds make, or an equation that reads itself earlier, is what a claim says.

A claim z_t = G(t), where G reads nothing that the rounds make, holds where G does what the equation of z says: at the
first position, and at a later one with G(t - 1) for what the round before left. For the equations have one solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from einc.ir.claimed import Claim
from einc.ir.indices import INDEX_CLASSES, Index, number
from einc.ir.programs import Equation, IndexLoop, TypedProgram
from einc.ir.terms import ONE, TRUE, Apply, Position, Read, Size, Term, Where, const, reads, substitute, transform
from einc.meaning.unfolding import Unfolding

_HERE = "·t"  # the letter of the position, which no text has


class Unknown(Exception):  # noqa: N818, it is an answer
    """A value of the rounds of which no claim says what it is."""


@dataclass(frozen=True)
class Step:
    """What the equation makes and what the claim says, at positions where `given` holds."""

    given: Term
    here: Index
    made: Term
    claimed: Term


def steps(claim: Claim) -> Iterator[tuple[str, list[Step]]]:
    """For each side that rounds make the letter of the induction, and its first position and every later one."""
    by = claim.program.by_target
    for one, other in ((claim.left, claim.right), (claim.right, claim.left)):
        loop = rounds_of(claim.program, by[one])
        if loop is not None:
            yield from _cases(claim.program, loop, by[one], by[other])


def rounds_of(program: TypedProgram, side: Equation) -> IndexLoop | None:
    """The rounds over positions that make every element of what the side of a claim is; None where it is no more than
    some, or no value of rounds."""
    match side.body:
        case Read(key, subs) if side.domain == TRUE and sorted(map(str, side.axes)) == sorted(map(str, subs)):
            found = next((loop for loop in program.repeats if key in loop.inside and key in _open(program)), None)
            if (found is not None and INDEX_CLASSES[found.index.set.cls].before == "le" and not found.index.set.by
                    and found.index.set.packed is None
                    and Position(found.index) in program.by_target[key].axes
                    and program.by_target[key].domain == TRUE and len(set(subs)) == len(subs)):
                return found
    return None


def learned(claim: Claim) -> Mapping[str, Equation]:
    """What a claim that is proved says of a value, in terms that do not come to it: of a value of rounds what the other
    side is, of another one where it stands in a tensor that the other side names, which is then read in its place.
    """
    program = claim.program
    for one, other in ((claim.left, claim.right), (claim.right, claim.left)):
        left, right = program.by_target[one], program.by_target[other]
        if not isinstance(left.body, Read) or left.body.tensor in _behind(program, right):
            continue
        if rounds_of(program, left) is not None and right.domain == TRUE:
            body = Unfolding(program, definitions(program)).term(right.at(left.axes))
            return {left.body.tensor: Equation(left.body.tensor, left.body.subs, TRUE, body)}
        domain = _named_domain(program, left)
        if domain is not None and domain == _named_domain(program, right, left.axes):
            return {left.body.tensor: Equation(left.body.tensor, left.body.subs, domain, right.at(left.axes))}
    return {}


def _named_domain(program: TypedProgram, side: Equation, axes: tuple[Term, ...] | None = None) -> Term | None:
    """Where a tensor exists of which a side of a claim is every element, or, at the letters `axes` of the other side,
    some; None where a side is more than a tensor, or one of rounds."""
    match side.body:
        case Read(key, subs) if key in definitions(program):
            made = program.by_target[key]
            plain = all(isinstance(sub, Position) for sub in subs) and len(set(subs)) == len(subs) == len(side.axes)
            if not plain and axes is None:
                return None
            if made.domain == TRUE:
                return TRUE
            if all(isinstance(axis, Position) for axis in made.axes):
                domain = substitute(made.domain, dict(zip(made.indices, subs, strict=True)))
                return domain if axes is None else replace(side, body=domain).at(axes)
    return None


def missing(claim: Claim) -> list[str]:
    """The values of rounds that the sides of a claim come to and do not name, and of which nothing is known."""
    by, open_ = definitions(claim.program), _open(claim.program)
    named, found, todo = {claim.left, claim.right}, set[str](), [claim.left, claim.right]
    while todo:
        new = by[todo.pop()].reads - found
        found |= new
        todo += sorted(new & by.keys())
    text = "" if claim.span is None else claim.span.source.text  # what a pass has named is no help
    written = {key for key in found & open_ if claim.program.tensors[key].text in text}
    return sorted(written - {key for side in named for key in by[side].reads})


def definitions(program: TypedProgram) -> dict[str, Equation]:
    """The equations that hold at every position by themselves: not those of what depends on the rounds before, and
    with what a round names for itself in place, and what the last one made, if that is known, for a state behind them.
    """
    out = {key: e for key, e in program.by_target.items() if key not in _open(program)}
    for loop in program.repeats:
        named = {key for key in loop.inside if key in out and Position(loop.index) not in out[key].axes}
        mine = {key: out.pop(key) for key in named}
        unfolding = Unfolding(program, mine)
        for key in loop.inside:
            if key in out and out[key].reads & named:
                out[key] = out[key].map(unfolding.term)
        for state, _, after in loop.states:
            if after in out and (at := _place(program, loop, after)) is not None:
                last = Size(loop.index.set.extent + number(loop.index.set.start - 1))
                for key in out.keys() - {*loop.inside}:
                    out[key] = out[key].map(partial(_after, state=state, after=after, at=at, last=last))
    return out


def _place(program: TypedProgram, loop: IndexLoop, key: str) -> int | None:
    """The slot of a value that says of which round it is."""
    slots = program.tensors[key].slots
    return next((n for n, x in enumerate(slots) if (x.name, x.set) == (loop.index.name, loop.index.set)), None)


def _after(term: Term, state: str, after: str, at: int, last: Term) -> Term:
    """A term behind the rounds with what the last one made in place of a state."""
    def change(inner: Term) -> Term:
        match inner:
            case Read(tensor, subs) if tensor == state:
                return Read(after, (*subs[:at], last, *subs[at:]))
        return inner

    return transform(term, change)


def _open(program: TypedProgram) -> frozenset[str]:
    """What depends on the rounds before: states, what reads one, and what comes to itself."""
    inside = {key for loop in program.repeats for key in loop.inside}
    found = {state for loop in program.every_repeat for state, _, _ in loop.states}
    found |= {key for key in inside if key in _behind(program, program.by_target[key])}
    while more := {key for key in inside - found if program.by_target[key].reads & found}:
        found |= more
    return frozenset(found)


def _behind(program: TypedProgram, equation: Equation) -> frozenset[str]:
    """Every name that an equation comes to."""
    found, todo = set[str](), [equation]
    while todo:
        new = todo.pop().reads - found
        found |= new
        todo += [program.by_target[key] for key in new if key in program.by_target]
    return frozenset(found)


def _cases(program: TypedProgram, loop: IndexLoop, one: Equation, other: Equation) -> Iterator[tuple[str, list[Step]]]:
    """The induction for every case of the other letters."""
    assert isinstance(one.body, Read)
    unfolding = Unfolding(program, definitions(program))
    at = program.by_target[one.body.tensor].axes.index(Position(loop.index))
    letter = one.body.subs[at]
    assert isinstance(letter, Position)
    here, start = Index(_HERE, letter.index.set), const(loop.index.set.start)
    claimed = unfolding.term(other.at(one.axes))
    rounds = _Rounds(program, loop, one.body, at, claimed, here)
    for by in unfolding.cases(tuple(i for i in one.indices if i != letter.index)):
        places = {**by, letter.index: Position(here)}
        made = unfolding.term(rounds.first(tuple(substitute(sub, places) for sub in one.body.subs)))
        yield letter.index.name, [Step(given, here, made, substitute(claimed, places)) for given in (
            Apply("le", (Position(here), start)), Apply("lt", (start, Position(here))))]


@dataclass
class _Rounds:
    """The values of one round, with what the claim says in place of what the round before left.

    `told` is the value that the claim is of, with the letters of its places, `at` its place of the position. What the
    claim reads of rounds stays as it is, and so does the value itself where the claim says how its elements depend on
    each other.
    """

    program: TypedProgram
    loop: IndexLoop
    told: Read
    at: int
    claimed: Term
    here: Index
    inside: frozenset[str] = field(init=False)
    kept: frozenset[str] = field(init=False)
    twin: str = field(init=False)  # a state that is the same value, before its round

    def __post_init__(self) -> None:
        """Finds which tensors are unfolded, which of them the claim keeps, and the state that is the same value."""
        named = {x for x in self.loop.inside if Position(self.loop.index) not in self.program.by_target[x].axes}
        self.kept = frozenset(read.tensor for read in reads(self.claimed))
        self.inside = (_open(self.program) | named) - self.kept
        equation = self.program.by_target[self.told.tensor]
        others = tuple(a for n, a in enumerate(equation.axes) if n != self.at)
        states = {state for state, _, _ in self.loop.states}
        match equation.body:
            case Read(state, subs) if state in states and subs == others:
                self.twin = state
            case _:
                self.twin = ""

    def first(self, subs: tuple[Term, ...]) -> Term:
        """What its equation makes of the value that is told."""
        return self._made(self.told.tensor, subs, Position(self.here))

    def _term(self, term: Term, at: Term) -> Term:
        """A term of the round of a position, with what is told in place."""
        def change(inner: Term) -> Term:
            match inner:
                case Read(tensor, subs) if tensor in self.inside:
                    return self._value(tensor, subs, at)
            return inner

        return transform(term, change)

    def _value(self, tensor: str, subs: tuple[Term, ...], at: Term) -> Term:
        """A value of the round of a position; raises Unknown for a state of an earlier round."""
        now = at == Position(self.here)
        if tensor == self.told.tensor:
            return self._told(subs)
        if tensor == self.twin and not now and self.told.tensor not in self.kept:
            return self._told((*subs[:self.at], at, *subs[self.at:]))
        state = next((x for x in self.loop.states if x[0] == tensor), None)
        if state is None:
            return self._made(tensor, subs, at)
        if not now:
            raise Unknown(tensor)
        return self._left(state[1], state[2], subs, at)

    def _left(self, first: str, after: str, subs: tuple[Term, ...], at: Term) -> Term:
        """A state: what it begins with, or what the round before made."""
        before = Apply("sub", (at, ONE))
        start = const(self.loop.index.set.start)
        axes = self.program.by_target[after].axes
        n = axes.index(Position(self.loop.index)) if Position(self.loop.index) in axes else None
        places = subs if n is None else (*subs[:n], before, *subs[n:])
        made = self._value(after, places, before) if after in self.inside else Read(after, places)
        return Apply("add", (Where(Apply("le", (at, start)), Read(first, subs)),
                             Where(Apply("lt", (start, at)), made)))

    def _made(self, tensor: str, subs: tuple[Term, ...], at: Term) -> Term:
        """What an equation of the round makes; an element that another round made stays as it is. Raises Unknown."""
        equation = self.program.by_target.get(tensor)
        if equation is None or tensor not in self.loop.inside:
            raise Unknown(tensor)
        places: dict[Index, Term] = {self.loop.index: at}
        for axis, sub in zip(equation.axes, subs, strict=True):
            if not isinstance(axis, Position) or (axis.index == self.loop.index and sub != at):
                return Read(tensor, subs)
            places[axis.index] = sub
        return self._term(substitute(equation.body, places), at)

    def _told(self, subs: tuple[Term, ...]) -> Term:
        letters = [sub.index for sub in self.told.subs if isinstance(sub, Position)]
        return substitute(self.claimed, dict(zip(letters, subs, strict=True)))
