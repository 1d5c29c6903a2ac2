"""One axis of a mesh: for every equation which letter is cut, and the state of what it makes.

The equations go in order, each by the first rule that says something of it. What a rule supposes of later equations
may turn out wrong (a share that is needed whole anyway, a reference that somebody reads): then all is done again
without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from einc.ir.draft import unused
from einc.ir.indices import IndexSet
from einc.ir.programs import Equation, NormalProgram, local
from einc.ir.requested import ROWS
from einc.ir.terms import TRUE, Fold, Pack, Position, Read, Term, free_indices, reads, transform, walk
from einc.planning.placing.cuts import (
    Cut,
    Knowledge,
    Letter,
    alike,
    as_numbers,
    equals,
    first_part,
    joined,
    letters,
    no_meeting,
    packed,
    placed_at,
    read_whole,
    shown_place,
)
from einc.planning.placing.in_rows import added_in_rows, apart_in_rows, better_in_rows, made_in_rows
from einc.planning.placing.larger import larger, of_what_comes
from einc.planning.placing.linear import linear_in
from einc.planning.placing.owners import owned, owned_at
from einc.planning.placing.references import relative
from einc.planning.placing.states import WHOLE, Axis, Owned, Part, Rows, Share, State


@dataclass(frozen=True)
class Cutting:
    """What became of a program on one axis: each given tensor's state and each equation's cut. The program may have an
    equation more for a place that is read of data.
    """

    program: NormalProgram
    given: Mapping[str, State]
    cuts: Mapping[str, Cut]
    ends: Mapping[str, State]  # in which state each output is left

    def state(self, key: str) -> State:
        """How a tensor lies on the mesh: as its equation has been cut, or else as it is given."""
        return self.cuts[key].state if key in self.cuts else self.given[key]


def cut(program: NormalProgram, axis: Axis, before: Iterable[Cutting], usual: Mapping[str, int],
        sizes: Mapping[str, int], given: Mapping[str, State], refused: frozenset[str] = frozenset()) -> Cutting:
    """Cuts a program over one axis. `before` are the cuttings over the axes before it: what they cut is not cut again.
    `given` are states of inputs that are known, on this axis; `refused` are shares that are folded at once. Raises
    Refused.
    """
    earlier, late, rowed = tuple(before), frozenset[str](), dict[str, Rows]()
    while True:
        work = _Work(program, Knowledge(axis, usual, sizes), earlier, refused, late, rowed)
        work.inputs(given)
        for equation in program.equations:
            work.add(equation)
        wants = work.wants()
        found, later = frozenset(work.wrong(wants)), frozenset(work.larger(wants))
        made = program.but(equations=work.equations, tensors=work.program.tensors)
        there = dict(better_in_rows(made, work.cuts, work.state, wants, partial(work.knowledge.sent, made)))
        if found <= refused and later <= late and there.keys() <= rowed.keys():
            return work.done()
        refused, late, rowed = refused | found, late | later, {**there, **rowed}


@dataclass
class _Work:
    """A program while it is cut. `refused` are shares that are folded at once, and references that are; what is `late`
    every rank makes, of what is sent, and what is `rowed` of what is sent to rows.
    """

    program: NormalProgram
    knowledge: Knowledge
    before: tuple[Cutting, ...]
    refused: frozenset[str]
    late: frozenset[str]
    rowed: Mapping[str, Rows]
    given: dict[str, State] = field(default_factory=dict)
    cuts: dict[str, Cut] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    equations: list[Equation] = field(default_factory=list)

    # what the rules ask

    def state(self, key: str) -> State:
        """The state of a tensor that is given or made."""
        return self.cuts[key].state if key in self.cuts else self.given[key]

    def reads_of(self, equation: Equation, choice: Letter | None,
                 but: Mapping[str, State] | None = None) -> dict[str, State]:
        """The state in which each tensor is read where a letter is cut; `but` says it of some."""
        fixed = but or {}
        return joined((r.tensor, fixed[r.tensor] if r.tensor in fixed else self.wanted(r, choice))
                      for r in equation.elements)

    def wanted(self, read: Read, choice: Letter | None) -> State:
        """A part where the cut letter stands, or where a place that is computed of it stays in the rank's part."""
        if choice is None:
            return WHOLE
        slots = self.program.tensors[read.tensor].slots
        found = placed_at(read.subs, (s.set for s in slots), choice)
        if found is not None:
            return found
        here = self.state(read.tensor)
        for n, (sub, slot) in enumerate(zip(read.subs, slots, strict=True)):
            if here == Part(n) and self.knowledge.stays(sub, slot.set, choice):
                return Part(n)
        return WHOLE

    # the walk

    def inputs(self, known: Mapping[str, State]) -> None:
        """The states of what the caller gives: by the first set of the axis that a tensor has."""
        for tensor in self.program.inputs():
            self.given[tensor.key] = known.get(tensor.key) or self.first_part(tensor.key)

    def first_part(self, key: str) -> State:
        """The part of a tensor by the first set that it has and that no axis before has cut; whole where there is none.
        """
        taken = [cutting.state(key) for cutting in self.before]
        return first_part(self.program.tensors[key].slots, self.program.splits, self.knowledge.axis.given, taken)

    def add(self, equation: Equation) -> None:
        """Cuts an equation, after those that it needs for places that are read of data."""
        for gathered, read, part in self.hoisted(equation):
            if gathered is equation:
                self.gather(equation, read, part)
                return
            self.gather(gathered, read, part)
            equation = equation.map(partial(_instead, read, Read(gathered.target, gathered.axes)))
        self.program, *some = apart_in_rows(equation, self.program, self.state)
        for one in some:
            self.keep(one, self.rule(one))

    def keep(self, equation: Equation, found: Cut) -> None:
        """Notes an equation and how it is cut. A rank reads its own part of what it has whole where it stands."""
        hop = self.before[-1] if self.knowledge.axis.around else None
        needs = {key: want if self.state(key) != WHOLE or (hop is not None and alike(want, hop.state(key))) else WHOLE
                 for key, want in found.needs.items()}
        self.equations.append(equation)
        self.cuts[equation.target] = replace(found, needs=needs)

    def rule(self, equation: Equation) -> Cut:
        """The cut by the first rule that says something of the equation."""
        found = owned(equation, self.program, self.state, self.reads_of, self.knowledge.axis, self.asks,
                      self.count)
        found = found or added_in_rows(equation, self.state) or made_in_rows(
            equation, self.program, self.rowed.get(equation.target), self.reads_of(equation, None))
        if found is not None:
            return found
        if not isinstance(equation.body, Fold) and equation.reads <= self.free:
            self.free.add(equation.target)  # made of positions and sizes alone: each rank makes it
            return Cut(WHOLE, needs=self.reads_of(equation, None))
        choice = None if equation.target in self.late else self.choice(equation)
        if (choice is None or self.of_shares(equation, choice)) and (found := self.linear(equation)) is not None:
            return found
        if choice is None:
            return Cut(WHOLE, needs=self.reads_of(equation, None))
        return relative(equation, choice, self.cuts, self.refused, self.reads_of) or self.plain(equation, choice)

    def plain(self, equation: Equation, choice: Letter) -> Cut:
        """A part where the letter is free, a share where the fold takes it away."""
        needs = self.reads_of(equation, choice)
        if choice.index in equation.indices:
            return Cut(self.result(equation, choice), (choice,), needs)
        assert isinstance(equation.body, Fold)
        if (other := self.same_part(equation, choice)) is not None:
            return Cut(self.result(equation, other), (choice, other), needs)
        return Cut(Share(equation.body.op), (choice,), needs, f"{equation.body.op} over {choice.index.name}")

    def result(self, equation: Equation, letter: Letter) -> Part:
        """The slot of the result at which a letter stands."""
        sets = (s.set for s in self.program.tensors[equation.target].slots)
        found = placed_at(equation.axes, sets, letter)
        assert found is not None
        return found

    def same_part(self, equation: Equation, choice: Letter) -> Letter | None:
        """The letter g of a sum over {h : π(h) = g} where π stays in a rank's part."""
        body = equation.body
        if not isinstance(body, Fold):
            return None
        for g, place in equals(body.domain):
            if isinstance(g, Position) and g.index in equation.indices and self.knowledge.stays(
                    place, g.index.set, choice):
                return Letter(g.index, g.index.set)
        return None

    # which letter

    def choice(self, equation: Equation) -> Letter | None:
        """The letter that is cut: of the first set of the axis that the equation has; of several the cheapest. Raises
        Refused where a text names two that meet and no third is there to be cut."""
        axis = self.knowledge.axis
        all_of = [list(self.of_set(equation, base)) for base in axis.sets]
        found: list[Letter] = next(filter(None, all_of), [])
        for meeting in [m for m in axis.meetings if found and m.way not in ROWS]:
            both = [x for x in found if x.base == found[0].base]
            named = [x for x in both if x.index.name.rstrip("'") == meeting.letter]
            if meeting.way == "swap" and meeting.by is not None:
                others = list(self.of_set(equation, meeting.by))
                if len(both) > 1 and named and not others:
                    raise no_meeting(equation.target, both, meeting)
                if len(both) > 1 and others:
                    found = others
                elif others and not isinstance(equation.body, Fold):
                    found = [*found, *others]
            elif len(both) > 1 and named:
                found = named if meeting.way == "merge" else [x for x in both if x not in named] or both
        return min(found, key=lambda x: self.price(equation, x), default=None)

    def of_set(self, equation: Equation, base: IndexSet) -> Iterator[Letter]:
        """The letters of an equation that a set cuts, those that an axis before cuts left out."""
        taken = {x.index for c in self.before if equation.target in c.cuts for x in c.cuts[equation.target].letters}
        axis = self.knowledge.axis
        if axis.around and not self.in_hops(equation, base):
            return
        numbers = as_numbers(equation, self.program)
        for index in letters(equation):
            if index in taken or (axis.around and all(index.name.rstrip("'") != m.letter for m in axis.meetings)):
                continue
            if index.set == base:
                blocks = axis.blocks(base) if not packed(equation, index) else 1
                if not axis.around or blocks == axis.blocks(base):
                    yield Letter(index, base, blocks=blocks)
            elif index not in numbers and not axis.around:
                for n, component in enumerate(self.program.splits.get(index.set, ())):
                    if component == base:
                        yield Letter(index, base, n)
                        break

    def in_hops(self, equation: Equation, base: IndexSet) -> bool:
        """Whether an equation is done in hops: what the axis that they go around cuts, and what is linear in shares of
        such equations, so that the share is sent once.
        """
        over = self.before[-1].cuts[equation.target]
        if of_what_comes(equation, over, self.before[-1].state):
            return True
        shares = [key for key, want in over.needs.items() if isinstance(want, Share)]
        linear = bool(shares) and not over.letters and not over.once and isinstance(over.state, Share)
        blocks = self.knowledge.axis.blocks(base)
        return any(x.base == base and x.blocks == blocks for x in over.letters) or (
            linear and all(isinstance(self.state(key), Part) for key in shares))

    def price(self, equation: Equation, choice: Letter) -> Fraction:
        """How many elements are sent for what the equation reads, and for its result where that is a share."""
        total = Fraction(0)
        for key, want in self.reads_of(equation, choice).items():
            total += self.knowledge.sent(self.program, key, self.state(key), want)
        if choice.index not in equation.indices and self.same_part(equation, choice) is None:
            total += self.count(equation.target)
        return total

    def asks(self, key: str, have: State, want: State) -> Fraction:
        """How many elements more a rank sends so that a tensor is in another state, too: none where it is so already.
        """
        here = any(made.needs.get(key) == want for made in self.cuts.values())
        return Fraction(0) if here else self.knowledge.sent(self.program, key, have, want)

    def count(self, key: str) -> Fraction:
        """The number of elements of a tensor."""
        return self.knowledge.count(self.program, key)

    # shares

    def of_shares(self, equation: Equation, choice: Letter) -> bool:
        """Whether an equation that could be cut is made of shares, so that these may be folded after it: point by point
        of what no rank has in parts, or a sum of shares alone at which the letter stands.
        """
        states = [self.state(key) for key in equation.reads]
        if not isinstance(equation.body, Fold):
            return not any(isinstance(s, Part | Owned) for s in states)
        return choice.index in equation.indices and all(isinstance(s, Share) for s in states)

    def linear(self, equation: Equation) -> Cut | None:
        """A share that is made of shares, where that leaves fewer elements to be folded."""
        shared = {key for key in equation.reads if self.state(key) == Share("sum")}
        found = linear_in(equation, shared)
        if found is None or 1 not in found or shared & self.refused or self.knowledge.axis.around:
            return None
        left, before = self.count(equation.target), sum(self.count(key) for key in shared)
        copied = isinstance(equation.body, Fold) and isinstance(equation.body.body, Read)  # its sums leave no more
        if left > before or (left == before and not copied):
            return None
        needs = self.reads_of(equation, None, {key: Share("sum") for key in shared})
        return Cut(Share("sum"), (), needs, f"linear in {', '.join(sorted(shared))}",
                   once=frozenset(shared) if 0 in found else frozenset())

    def wants(self) -> Mapping[str, Set[State]]:
        """For each tensor the states in which it is read."""
        wants: dict[str, set[State]] = {}
        for made in self.cuts.values():
            for key, want in made.needs.items():
                wants.setdefault(key, set()).add(want)
        return wants

    def larger(self, wants: Mapping[str, Set[State]]) -> Iterator[str]:
        """What is better made of what is sent than sent itself."""
        if not self.knowledge.axis.around:
            made = self.program.but(equations=self.equations)
            yield from larger(made, self.cuts, self.state, wants, partial(self.knowledge.sent, made))

    def wrong(self, wants: Mapping[str, Set[State]]) -> Iterator[str]:
        """What is better not kept as it was: a share that is folded all the same, and a reference where something that
        is relative to it is read in another way than supposed.
        """
        shown = {key for _, key in self.program.outputs}
        for made in self.cuts.values():
            for key in made.needs:
                tag = self.cuts[key].tag if key in self.cuts else None
                if tag is not None and made.tag is None and not (isinstance(made.state, Share)
                                                                 and made.state.reference):
                    yield tag.reference
        for key in dict.fromkeys((*shown, *wants)):
            mine, found = self.cuts.get(key), {*wants.get(key, ()), *([WHOLE] if key in shown else [])}
            if Share("sum") in found and len(found) > 1:
                yield key
            if mine is not None and mine.tag is not None and (key in shown or found != {mine.state}):
                yield mine.tag.reference

    def shared(self, found: Cut) -> Cut:
        """An equation reads its part of what comes whole to the rank anyway: there is one collective then."""
        if self.knowledge.axis.around:
            return found
        wholes = {key for made in self.cuts.values() for key, want in made.needs.items() if want == WHOLE}
        return replace(found, needs=read_whole(found.needs, self.state, wholes))

    # places that are read of data

    def hoisted(self, equation: Equation) -> Iterator[tuple[Equation, Read, Part]]:
        """Reads at such places of slots that are cut, each as an equation of its own; the equation itself where that
        is all of it. Adds those to `self.program`."""
        if isinstance(equation.body, Fold) or self.knowledge.axis.around:
            return
        for read in dict.fromkeys(equation.elements):
            state = self.state(read.tensor)
            if not isinstance(state, Part) or not self.by_data(read, state):
                continue
            if read == equation.body and read not in reads(equation.domain):
                yield equation, read, state
                return
            inside = [i for i in equation.indices if i in free_indices(read)]
            if not free_indices(read) <= {*equation.indices} or any(isinstance(x, Read) and x != read and self.by_data(
                    x, self.state(x.tensor)) for x in walk(read)):
                continue
            key = unused(f"{equation.target}_at", self.program.tensors)
            made = local(key, inside, self.program.tensors[read.tensor].element)
            self.program = self.program.but(tensors={**self.program.tensors, key: made})
            yield Equation(key, tuple(map(Position, inside)), TRUE, read), read, state

    def by_data(self, read: Read, state: State) -> bool:
        """Whether the slot that is cut is read at a place that is read itself."""
        if not isinstance(state, Part) or state.component >= 0 or state.blocks > 1:
            return False
        place = read.subs[state.slot]
        return not isinstance(place, Position | Pack) and any(isinstance(x, Read) for x in walk(place))

    def gather(self, equation: Equation, read: Read, part: Part) -> None:
        """What a rank has at such a place, 0 where another has it: a share, or its owner's where all that says the
        place is known where it is used.
        """
        needs, place = self.reads_of(equation, None, {read.tensor: part}), read.subs[part.slot]
        if read.tensor in {r.tensor for r in (*reads(equation.domain), *reads(place))}:
            self.keep(equation, Cut(WHOLE, needs=self.reads_of(equation, None)))
            return
        reason = f"{read.tensor} is read at {shown_place(place)}"
        found = owned_at(equation, read, part.slot, self.program, self.state, needs, self.knowledge.axis)
        self.keep(equation, replace(found or Cut(Share("sum"), needs=needs), reason=reason, gathered=(read, part)))

    def done(self) -> Cutting:
        """The cutting."""
        ends = {key: self.state(key) for _, key in self.program.outputs}
        ends = {key: self.first_part(key) if isinstance(state, Share | Owned) or self.knowledge.axis.around else state
                for key, state in ends.items()}
        cuts = {target: self.shared(found) for target, found in self.cuts.items()}
        return Cutting(self.program.but(equations=self.equations), self.given, cuts, ends)


def _instead(old: Read, new: Read, term: Term) -> Term:
    """The term with another read in place of one."""
    return transform(term, lambda x: new if x == old else x)
