"""Rounds over the positions of each request -> rounds in which a state begins anew at the first position of a request.

The rounds then run over all positions, packed one after the other, and a state and what a round makes anew belong to
the request of the round: they need no axis for it. What is read of a state after the last round is its value after the
last position of the request. This is done while positions still stand beside their requests; `packing` drops the axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.declarations.ragged import Ragged
from einc.errors.problems import BadLoop, NotYet
from einc.errors.report import Help, Problem, Span
from einc.ir.draft import renamed, unused
from einc.ir.indices import Index, distinct
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Slot, Tensor, TypedProgram
from einc.ir.rounds import place_of
from einc.ir.terms import ONE, TRUE, ZERO, Apply, Position, Read, Term, Where, reads


@dataclass(frozen=True)
class Restarts:
    """A program whose rounds over positions of requests begin anew at each: `alone` are the tensors that lose the axis
    of the request, with its place, and `rounds` the index of the rounds that an equation stands in.
    """

    program: TypedProgram
    ragged: Ragged
    alone: Mapping[str, int]
    rounds: Mapping[str, Index]


def restarted(program: TypedProgram, ragged: Ragged) -> Restarts:
    """The same program where no rounds run over positions of requests."""
    work = _Work(program, dict(program.tensors), dict(ragged.owners))
    loops = [work.loop(x, ragged.lengths[x.index.set]) if isinstance(x, IndexLoop) and x.index.set in ragged.lengths
             else x for x in program.loops]
    if tuple(loops) == program.loops:
        return Restarts(program, ragged, {}, {})
    made = program.but(equations=_live(work.equations(), program, loops), tensors=work.tensors, loops=loops)
    rounds = {key: x.index for x in made.repeats if x.index.set in ragged.lengths for key in x.inside}
    return Restarts(made, replace(ragged, owners=work.owners), work.alone, rounds)


def _live(equations: Iterator[Equation], program: TypedProgram, loops: list[BlockLoop | IndexLoop]) -> list[Equation]:
    """The equations without what states start with where nothing reads that."""
    made = list(equations)
    starts = {first for x in program.repeats for _, first, _ in x.states}
    read = {key for _, key in program.outputs}.union(*(e.reads for e in made))
    read |= {first for x in loops if isinstance(x, IndexLoop) for _, first, _ in x.states}
    return [e for e in made if e.target not in starts or e.target in read]


@dataclass
class _Work:
    """What becomes of the tensors and equations of a program: `tensors` and `owners` grow; an equation of `changed`
    takes the place of the one with its target, those of `before` and `after` stand before and behind it.
    """

    program: TypedProgram
    tensors: dict[str, Tensor]
    owners: dict[str, Mapping[Index, Index]]
    alone: dict[str, int] = field(default_factory=dict)
    changed: dict[str, Equation] = field(default_factory=dict)
    before: dict[str, list[Equation]] = field(default_factory=dict)
    after: dict[str, list[Equation]] = field(default_factory=dict)

    def equations(self) -> Iterator[Equation]:
        """All equations, each after what it reads."""
        for e in self.program.equations:
            yield from self.before.get(e.target, ())
            yield self.changed.get(e.target, e)
            yield from self.after.get(e.target, ())

    def loop(self, loop: IndexLoop, lengths: str) -> IndexLoop:
        """One loop with states that begin anew."""
        by = [e for e in self.program.equations if e.target in loop.inside]
        for e in by:
            at = _request(self.program.tensors[e.target].slots, self.program.tensors[lengths].slots[0])
            if at is not None and place_of(loop.index, e) is None:
                self.alone[e.target] = at
        states, inside = list[tuple[str, str, str]](), list(loop.inside)
        here = dict[str, str]()
        for state, first, following in loop.states:
            at = _request(self.tensors[state].slots, self.program.tensors[lengths].slots[0])
            assert at is not None, "`refused` tells of a state without a request"
            here[state], last, zero = self._anew(loop, state, first, at, by)
            inside.append(here[state])
            states.append((last, zero, following))
            if self._read_after(state, loop):
                inside += self._left(state, first, following, loop, lengths, by[-1].target, at)
        for e in by:
            self.changed[e.target] = e.map(lambda term: renamed(term, here))
        return replace(loop, states=tuple(states), inside=tuple(dict.fromkeys(inside)))

    def _anew(self, loop: IndexLoop, state: str, first: str, at: int, by: list[Equation]) -> tuple[str, str, str]:
        """A state whose request is axis `at`, as one of all rounds: what a round reads of it, which begins anew at each
        first position; what the round before left; and zeros, with which the rounds start.
        """
        known = self.tensors[state]
        here, last, zero = (self._tensor(f"{state}_{end}", known) for end in ("here", "before", "zero"))
        self.alone |= {here: at, last: at}
        slots = tuple(slot for n, slot in enumerate(known.slots) if n != at)
        self.tensors[zero] = replace(self.tensors[zero], slots=slots)
        letters = _letters(known, loop.index)
        self.owners[here] = {loop.index: letters[at]}
        rest = tuple(Position(i) for n, i in enumerate(letters) if n != at)
        reader = next(e.target for e in by if state in e.reads or e is by[-1])
        begin = replace(self._begin(last, first, letters, loop.index), target=here)
        self.before.setdefault(reader, []).extend([Equation(zero, rest, TRUE, ZERO), begin])
        return here, last, zero

    def _tensor(self, stem: str, like: Tensor) -> str:
        key = unused(stem, self.tensors)
        self.tensors[key] = Tensor(key, key, like.slots, "local", like.element, like.span)
        return key

    def _begin(self, last: str, first: str, letters: tuple[Index, ...], index: Index) -> Equation:
        """The state before a round: what the round before it left, or at a first position what the state starts with.
        """
        axes, one = tuple(map(Position, letters)), Apply("lt", (ONE, Position(index)))
        kept, start = Where(one, Read(last, axes)), self.program.equation(first)
        if start is not None and start.domain == TRUE and start.body == ZERO:
            return Equation(last, axes, TRUE, kept)
        new = Where(Apply("eq", (Position(index), ONE)), Read(first, axes))
        return Equation(last, axes, TRUE, Apply("add", (kept, new)))

    def _read_after(self, state: str, loop: IndexLoop) -> bool:
        """Whether something reads a state after the last round."""
        read = {key for _, key in self.program.outputs}
        read |= {first for x in self.program.repeats for _, first, _ in x.states}
        return state in read.union(*(e.reads for e in self.program.equations if e.target not in loop.inside))

    def _left(self, state: str, first: str, following: str, loop: IndexLoop, lengths: str, last: str, at: int
              ) -> tuple[str, ...]:
        """What a state is after the last position of its request: an equation behind the rounds. Returns the value
        that the rounds make for this, the state at every position, where they did not make it before. Adds the
        equation, its tensor and the value.
        """
        letters, new = _letters(self.tensors[state], loop.index), tuple[str, ...]()
        made, key = next(e for e in self.program.equations if e.target == following), following
        there = place_of(loop.index, made)
        if there is None:
            there, key = at + 1, self._tensor(f"{state}_after", self.tensors[state])
            new = (key,)
            slot = Slot(loop.index.set, "lower", loop.index.name)
            slots = self.tensors[key].slots
            self.tensors[key] = replace(self.tensors[key], slots=(*slots[:there], slot, *slots[there:]))
            inner = tuple(map(Position, letters))
            axes = (*inner[:there], Position(loop.index), *inner[there:])
            self.after.setdefault(last, []).append(Equation(key, axes, TRUE, Read(following, inner)))
            self.owners[key] = {loop.index: letters[at]}
        count, axes = Read(lengths, (Position(letters[at]),)), tuple(map(Position, letters))
        places: tuple[Term, ...] = (*axes[:there], count, *axes[there:])
        body = Apply("add", (Where(Apply("le", (ONE, count)), Read(key, places)),
                             Where(Apply("lt", (count, ONE)), Read(first, axes))))
        self.after.setdefault(last, []).append(Equation(state, axes, TRUE, body))
        return new


def _request(slots: tuple[Slot, ...], request: Slot) -> int | None:
    """The place of the request among the slots."""
    return next((n for n, slot in enumerate(slots) if slot.set == request.set), None)


def _letters(tensor: Tensor, index: Index) -> tuple[Index, ...]:
    """A letter for each slot; none is that of the rounds."""
    return distinct((Index(slot.name, slot.set) for slot in tensor.slots), {index.name})


def refused(program: TypedProgram, ragged: Ragged, spans: Mapping[str, Span], places: Mapping[Term, Span]
            ) -> Iterator[Problem]:
    """What rounds over the positions of requests may not do: keep a state for several requests, and read in a round
    what was made of another request.
    """
    for loop in program.every_repeat:
        if loop.index.set not in ragged.lengths:
            continue
        if loop not in program.repeats:
            yield NotYet(f"rounds over the positions of requests, for {loop.index}, in each round of others are read, "
                         "but this release does not compile them", spans.get(next(iter(loop.inside))),
                         helps=(Help("give all requests one length: `index t : time(T)`, and serve them, each with a "
                                     "past of its own"),))
            continue
        request = program.tensors[ragged.lengths[loop.index.set]].slots[0]
        for state, _, _ in loop.states:
            if any(slot.set in ragged.lengths for slot in program.tensors[state].slots):
                yield NotYet(f"rounds over the positions of requests in which each position has a "
                             f"`{program.tensors[state].text}` of its own are read, but this release does not compile "
                             f"them", spans.get(state), helps=(Help("give all requests one length: "
                                                                    "`index t : time(T)`, and gate with `δ`"),))
            elif _request(program.tensors[state].slots, request) is None:
                yield BadLoop(f"`{program.tensors[state].text}` has no request, and the rounds run over the positions "
                              f"of each request", spans.get(state),
                              helps=(Help(f"give each request a state of its own: `_{{{request.name}}}`"),))
        mine = {*loop.inside, *(state for state, _, _ in loop.states)}
        for e in program.equations:
            if e.target not in loop.inside:
                continue
            at = _request(program.tensors[e.target].slots, request)
            own = e.axes[at] if at is not None else None
            for read in (r for term in (e.domain, e.body) for r in reads(term) if r.tensor in mine):
                place = _request(program.tensors[read.tensor].slots, request)
                if place is not None and read.subs[place] != own:
                    yield NotYet("rounds that read values of other requests are read, but this release does not "
                                 "compile them", places.get(read, spans.get(e.target)),
                                 helps=(Help("read them after the rounds"),))
