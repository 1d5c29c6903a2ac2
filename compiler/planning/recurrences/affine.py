"""Loops over positions whose states are affine in themselves -> the same program with loops of one form.

A state S is affine where a round makes of it S ↦ g S + Σ k v + Σ u (w · S): sums of products with one read of S each.
Of its letters those are *met* that some product sums over; the others are of the *batch* where a gate or a vector over
the met letters has them, and else *pass* through. Where letters are met and letters pass, positions go in tiles: what
they write is found by a triangular system (`Affine`). Where nothing is summed in the update, every element goes its own
way (`Scanned`). What else the rounds compute is computed for all positions at once, before or after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from einc.ir.draft import renamed, unused
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.programs import Equation, IndexLoop, Program, local
from einc.ir.rounds import place_of
from einc.ir.sums import added, product
from einc.ir.terms import (
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    children,
    free_indices,
    rebuild,
    substitute,
)
from einc.planning.recurrences.apart import with_states_apart
from einc.planning.recurrences.found import Affine, Operand, Scanned
from einc.planning.recurrences.products import NotAffine, Product, Products
from einc.planning.recurrences.readers import holding, with_readers
from einc.planning.recurrences.states import State, live, state_of
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.delta_elimination import axis_order
from einc.transforms.slicing.repeats import in_order

P = TypeVar("P", bound=Program)


Found = Mapping[IndexLoop, Affine | Scanned]


def with_affine(program: P) -> tuple[P, Found]:
    """The program with each loop over positions whose states are affine written as loops of one state each, and what
    these are; other loops stay as they are.
    """
    found: dict[IndexLoop, Affine | Scanned] = {}
    for repeat in program.repeats:
        if repeat in program.repeats and not repeat.loops and INDEX_CLASSES[repeat.index.set.cls].before:
            program = with_states_apart(program, repeat)
    for number in (n for n, repeat in enumerate(program.repeats) if not repeat.loops):
        program = with_readers(program, program.repeats[number])
    for repeat in program.repeats:
        for tiled in (True, False) if INDEX_CLASSES[repeat.index.set.cls].before and not repeat.loops else ():
            if repeat not in program.repeats:  # nothing reads it any more
                break
            try:
                program, made = _Rewriting(program, repeat, tiled).run()
            except NotAffine:
                continue
            found |= made
            break
    return program, found


class _Rewriting(Generic[P]):
    """One loop, whose states go in tiles or, where not `tiled`, element by element.

    `made` grows by the equations that stand outside of the new loops, `reads` by what is read of each state that goes
    in tiles, and `tensors` by what is new.
    """

    def __init__(self, program: P, repeat: IndexLoop, tiled: bool) -> None:
        """Multiplies out the updates of all states, and finds which values hold one. Raises NotAffine."""
        self.program, self.repeat, self.tensors = program, repeat, dict(program.tensors)
        self.by = {e.target: e for e in program.equations if e.target in repeat.inside}
        names = {state for state, _, _ in repeat.states}
        moving = holding(self.by, names)
        still = {key: e for key, e in self.by.items() if key not in moving}
        updates = Products(names, moving, still, program.by_target)
        self.states = {s: state_of(self.index, (s, first, self.by[f]), updates) for s, first, f in repeat.states}
        kept = {*program.kept[repeat]}
        self.tiled = {s.tensor for s in self.states.values() if tiled and s.following.target not in kept}
        whole = self.tiled | {key for key, s in self.ends.items() if s.tensor in self.tiled}
        held = {k: e for k, e in holding(self.by, whole).items() if k not in self.ends}
        self.results = Products(whole, held, still, program.by_target)
        self.met: dict[str, tuple[int, ...]] = {}
        self.reads: dict[str, list[tuple[str, Term, bool]]] = {s: [] for s in self.states}
        self.made: dict[str, Equation] = {}
        self.names: dict[str, str] = {}
        self.befores: dict[str, str] = {}

    @property
    def index(self) -> Index:
        """The index of the rounds."""
        return self.repeat.index

    @property
    def ends(self) -> Mapping[str, State]:
        """Each state by the value that it has after a round."""
        return {state.following.target: state for state in self.states.values()}

    def run(self) -> tuple[P, Mapping[IndexLoop, Affine | Scanned]]:
        """The program with the new loops, and what they are. Raises NotAffine where a state does not go that way."""
        for state in self.states.values():
            for p in state.products:
                if p.read is not None and p.bound:
                    self._meets(state, p)
        if any(s not in self.tiled for s in self.met):
            raise NotAffine(Read(next(iter(self.met)), ()))
        for key in self.program.kept[self.repeat]:
            if key not in self.ends:
                self._hoisted(key)
        self._name_reads()
        loops: dict[IndexLoop, Affine | Scanned] = {}
        for state in self.states.values():
            loop, found = self._tiles(state) if state.tensor in self.tiled else self._scan(state)
            loops[loop] = found
        return self._program(loops), loops

    def _name_reads(self) -> None:
        """Gives what is read of a state the name of a value of the text, where it is one. Writes into `self.reads` and
        `self.made`."""
        names: dict[str, str] = {}
        read = {name for found in self.reads.values() for name, _, _ in found}
        for key, equation in list(self.made.items()):
            match equation.body:
                case Read(name, subs) if name in read - names.keys() and subs == equation.axes and (
                        equation.domain == TRUE):
                    names[name] = key
                    del self.made[key]
        self.made = {key: e.map(lambda term: renamed(term, names)) for key, e in self.made.items()}
        self.reads = {state: [(names.get(name, name), q, own) for name, q, own in found]
                      for state, found in self.reads.items()}

    def _program(self, loops: Mapping[IndexLoop, Affine | Scanned]) -> P:
        """The program with the new loops in place of the old one, without what nothing reads any more."""
        others = [loop for loop in self.program.repeats if loop != self.repeat]
        at = self.program.repeats.index(self.repeat)
        repeats = [*others[:at], *loops, *others[at:]]
        by = {e.target: e for e in self.program.equations if e.target not in self.by} | self.made
        alive = live(by, repeats, [key for _, key in self.program.outputs])
        by = {key: e for key, e in by.items() if key in alive}
        tensors = {key: t for key, t in self.tensors.items() if t.role != "local" or key in alive}
        repeats = [loop for loop in repeats if not alive.isdisjoint(loop.inside)]
        blocks = [loop for loop in self.program.loops if not isinstance(loop, IndexLoop)]
        ordered = [by[key] for key in in_order(by, repeats)]
        return self.program.but(equations=ordered, tensors=tensors, loops=(*blocks, *repeats))

    # what stands outside

    def _hoisted(self, key: str) -> str:
        """A value of the round for all positions at once; the name under which it stands. Adds its equation."""
        if key in self.names:
            return self.names[key]
        equation = self.by[key]
        if place_of(self.index, equation) is not None:
            self.names[key] = key
        else:
            self.names[key] = self._tensor(f"{key}_all", (self.index, *equation.indices))
            equation = replace(equation, target=self.names[key], axes=(Position(self.index), *equation.axes))
        self.made[self.names[key]] = replace(equation, body=self._outside(equation.body),
                                             domain=self._outside(equation.domain))
        return self.names[key]

    def _outside(self, term: Term) -> Term:
        """A term of the round with what the rounds give read from outside. Raises NotAffine."""
        if self.results.holds(term):
            try:
                return added([self._result(p) for p in self.results.of(term)])
            except NotAffine:
                if isinstance(term, Read) and term.tensor in self.results.states:
                    raise
        if isinstance(term, Read) and term.tensor in self.states:
            return Read(self._before(self.states[term.tensor]), (Position(self.index), *term.subs))
        if isinstance(term, Read) and term.tensor in self.by:
            part = place_of(self.index, self.by[term.tensor]) is not None
            found = self._every(self.ends[term.tensor]) if term.tensor in self.ends else self._hoisted(term.tensor)
            return Read(found, term.subs if part else (Position(self.index), *term.subs))
        return rebuild(term, tuple(map(self._outside, children(term))))

    def _result(self, p: Product) -> Term:
        """A product of a result: what is read of the state for all positions, times the other factors. Raises
        NotAffine where those have other letters than the state, or the state is read at a computed place."""
        if p.read is None:
            return product(map(self._outside, p.factors))
        state = self.ends.get(p.read.tensor) or self.states[p.read.tensor]
        subs = self._subs(p.read)
        met = self._meets(state, p)
        by: dict[Index, Term] = {}
        for letter, sub in zip(state.letters, subs, strict=True):
            if not isinstance(sub, Position) or sub.index in by:
                raise NotAffine(p.read)
            by[sub.index] = Position(letter)
        inside, rest = _split(p.factors, {*p.bound})
        vector = substitute(product(inside), by)
        if not free_indices(vector) <= {*state.letters, self.index}:
            raise NotAffine(vector)
        through = [sub for n, sub in enumerate(subs) if n not in met]
        name = self._read(state, simplify(vector), p.read.tensor in self.ends)
        return product([*map(self._outside, rest), Read(name, (Position(self.index), *through))])

    def _read(self, state: State, vector: Term, own: bool) -> str:
        """The name of what a vector reads of a state. Asks for that where nothing has asked before."""
        for name, other, after in self.reads[state.tensor]:
            if (other, after) == (vector, own):
                return name
        through = [i for n, i in enumerate(state.letters) if n not in self.met[state.tensor]]
        name = self._tensor(f"{state.tensor}_read", (self.index, *through))
        self.reads[state.tensor].append((name, vector, own))
        return name

    def _meets(self, state: State, p: Product) -> tuple[int, ...]:
        """The places of a state's letters that a product sums over: the same in each. Raises NotAffine."""
        assert p.read is not None
        met = tuple(n for n, sub in enumerate(self._subs(p.read)) if isinstance(sub, Position) and sub.index in p.bound)
        if not met or len(met) != len(p.bound) or self.met.setdefault(state.tensor, met) != met:
            raise NotAffine(p.read)
        return met

    def _subs(self, read: Read) -> tuple[Term, ...]:
        """Where a state, or what a round makes of it, is read, without the round."""
        made = self.ends.get(read.tensor)
        at = None if made is None else place_of(self.index, made.following)
        return read.subs if at is None else (*read.subs[:at], *read.subs[at + 1 :])

    # states element by element

    def _every(self, state: State) -> str:
        """The values of a state after each round. Writes its equations. Raises NotAffine where the state is made in
        tiles."""
        if state.tensor in self.tiled:
            raise NotAffine(Read(state.tensor, ()))
        target = state.following.target
        if place_of(self.index, state.following) is not None:
            return target
        if target not in self.names:
            self.names[target] = self._tensor(f"{target}_all", (self.index, *state.letters))
        return self.names[target]

    def _before(self, state: State) -> str:
        """The values of a state before each round."""
        self._every(state)
        if state.tensor not in self.befores:
            self.befores[state.tensor] = self._tensor(f"{state.tensor}_before", (self.index, *state.letters))
        return self.befores[state.tensor]

    def _scan(self, state: State) -> tuple[IndexLoop, Scanned]:
        """The loop of a state each of whose elements goes its own way."""
        if state.largest:
            return self._scanned(state, *(product(p.factors) for p in state.products))
        gates = [product(p.factors) for p in state.products if p.read is not None]
        more = [product(p.factors) for p in state.products if p.read is None]
        return self._scanned(state, added(gates) if gates else ZERO, added(more) if more else ZERO)

    def _scanned(self, state: State, times: Term, more: Term) -> tuple[IndexLoop, Scanned]:
        """The loop that multiplies a state and adds to it, or adds to it and takes the larger one."""
        gate, plus = self._operand(f"{state.tensor}_gate", times), self._operand(f"{state.tensor}_added", more)
        every, letters = self._every(state), tuple(map(Position, state.letters))
        at = place_of(self.index, state.following) or 0
        axes = (*letters[:at], Position(self.index), *letters[at:])
        outer, inner = ("max", "add") if state.largest else ("add", "mul")
        body = Apply(outer, (Apply(inner, (_of(gate), Read(state.tensor, letters))), _of(plus)))
        self.made[every] = Equation(every, axes, TRUE, body)
        before = self.befores.get(state.tensor, "")
        if before:
            self.made[before] = Equation(before, (Position(self.index), *letters), TRUE, Read(state.tensor, letters))
        loop = IndexLoop(self.index, ((state.tensor, state.first, every),), (every, *([before] if before else [])))
        return loop, Scanned(state.letters, gate, plus, state.largest, before)

    # states in tiles

    def _tiles(self, state: State) -> tuple[IndexLoop, Affine]:
        """The loop of a state that goes in tiles. Raises NotAffine where no letter is met, or none passes and many are
        left."""
        if state.tensor not in self.met:
            raise NotAffine(Read(state.tensor, ()))
        met = tuple(state.letters[n] for n in self.met[state.tensor])
        gates, writes, unknown = self._updates(state, met)
        outer = {i for term in (*gates, *writes, *(x for u, w, _ in unknown for x in (u, *w)),
                                *(q for _, q, _ in self.reads[state.tensor])) for i in free_indices(term)}
        passing = tuple(i for i in state.letters if i not in met and i not in outer)
        batch = tuple(i for i in state.letters if i not in met and i not in passing)
        if not passing and any(INDEX_CLASSES[i.set.cls].width for i in batch):
            raise NotAffine(Read(state.tensor, ()))  # a product of pairs for each of so many
        stem = state.tensor
        known = [(self._operand(f"{stem}_write", k), self._operand(f"{stem}_value", added(v)))
                 for k, v in writes.items() if k not in {u for u, _, _ in unknown}]
        made = [(self._operand(f"{stem}_write", u), self._operand(f"{stem}_reading", added(list(w))),
                 self._operand(f"{stem}_value", added(c) if c else ZERO)) for u, w, c in unknown]
        vectors = [(name, self._operand(f"{stem}_vector", q), own) for name, q, own in self.reads[stem]]
        gate = self._operand(f"{stem}_gate", added(gates) if gates else ZERO)
        found = Affine(state.letters, batch, met, passing, gate, tuple(known), tuple(made), tuple(vectors))
        return self._loop(state, found), found

    def _updates(self, state: State, met: tuple[Index, ...]) -> tuple[
            list[Term], dict[Term, list[Term]], list[tuple[Term, tuple[Term, ...], list[Term]]]]:
        """The gates of a state, its known writes by their vectors over the letters that are met, and its unknown ones:
        for each such vector what reads the state for it, and what is known of it. Raises NotAffine.
        """
        gates, writes, unknown = list[Term](), dict[Term, list[Term]](), dict[Term, list[Term]]()
        for p in state.products:
            if p.read is not None and not p.bound:
                gates.append(product(map(self._outside, p.factors)))
                continue
            by: dict[Index, Term] = {}
            if p.read is not None:
                by = {sub.index: Position(i) for i, sub in zip(state.letters, p.read.subs, strict=True)
                      if isinstance(sub, Position)}
                own = Read(state.tensor, tuple(map(Position, state.letters)))
                if substitute(p.read, by) != own or any(by[i] != Position(i) for i in by if i not in p.bound):
                    raise NotAffine(p.read)
            inside, rest = _split(p.factors, {*p.bound})
            vector, rest = _split(rest, {*met})
            if {*met} & {i for f in inside for i in free_indices(f)}:
                raise NotAffine(product(inside))  # a matrix over the letters that are met
            key = simplify(product(map(self._outside, vector)))
            factor = substitute(product(map(self._outside, (*rest, *inside))), by)
            (writes if p.read is None else unknown).setdefault(key, []).append(factor)
        return gates, writes, [(u, tuple(w), writes.get(u, [])) for u, w in unknown.items()]

    def _loop(self, state: State, found: Affine) -> IndexLoop:
        """The loop as equations, which say what is computed. Adds them, and what they read."""
        letters = tuple(map(Position, state.letters))
        inner = {i: Index(f"{i.name}'", i.set) for i in found.met}
        by: dict[Index, Term] = {i: Position(j) for i, j in inner.items()}

        def summed(vector: Operand, read: str, own: bool) -> Term:
            subs = tuple(substitute(x, by) for x in letters)
            whole = self._at_round(state, subs) if own else Read(read, subs)
            return Fold("sum", tuple(inner.values()), TRUE, Apply("mul", (substitute(_of(vector), by), whole)))

        parts: list[Term] = [Apply("mul", (_of(found.gate), Read(state.tensor, letters)))]
        parts += [Apply("mul", (_of(k), _of(v))) for k, v in found.known]
        parts += [Apply("mul", (_of(u), Apply("add", (_of(c), summed(w, state.tensor, False)))))
                  for u, w, c in found.unknown]
        target = state.following.target
        self.made[target] = replace(state.following, domain=TRUE, body=added(parts))
        through = tuple(Position(i) for i in state.letters if i not in found.met)
        for name, q, own in found.reads:
            self.made[name] = Equation(name, (Position(self.index), *through), TRUE, summed(q, state.tensor, own))
        return IndexLoop(self.index, ((state.tensor, state.first, target),),
                         (target, *(name for name, _, _ in found.reads)))

    def _at_round(self, state: State, subs: tuple[Term, ...]) -> Read:
        at = place_of(self.index, state.following)
        return Read(state.following.target, subs if at is None else (*subs[:at], Position(self.index), *subs[at:]))

    # operands

    def _operand(self, stem: str, term: Term) -> Operand:
        """A term outside of the rounds as a tensor, a new one where it is not one already. Adds its equation then."""
        term = simplify(self._outside(term))
        if isinstance(term, Read):
            letters = tuple(sub.index for sub in term.subs if isinstance(sub, Position))
            if len({*letters}) == len(term.subs):
                return Operand(term.tensor, letters)
        letters = tuple(sorted(free_indices(term), key=lambda i: (i != self.index, axis_order(i), i.name)))
        name = self._tensor(stem, letters)
        self.made[name] = Equation(name, tuple(map(Position, letters)), TRUE, term)
        return Operand(name, letters)

    def _tensor(self, stem: str, letters: Iterable[Index]) -> str:
        name = unused(stem, self.tensors)
        self.tensors[name] = local(name, letters)
        return name


def _split(parts: Iterable[Term], letters: set[Index]) -> tuple[list[Term], list[Term]]:
    """The factors with one of the letters, and the others."""
    inside, rest = list[Term](), list[Term]()
    for part in parts:
        (inside if free_indices(part) & letters else rest).append(part)
    return inside, rest


def _of(operand: Operand) -> Read:
    return Read(operand.tensor, tuple(map(Position, operand.letters)))
