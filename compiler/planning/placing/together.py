"""The programs of all ranks as one, in which the rank is an index: what each rank has is a tensor with its rank first,
and a collective is an equation.

A share is summed over the ranks, what is gathered is read at the rank that has it. So the text that is printed of it is
a spec as any other, which makes what the program on one device makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from einc.ir.draft import unused
from einc.ir.indices import INDEX_CLASSES, Extent, Index, IndexSet, number, size
from einc.ir.programs import Equation, NormalProgram, Slot, Tensor
from einc.ir.sums import added, product, reached
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Pack,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    const,
    free_indices,
    transform,
)
from einc.planning.placing.levels import Arrival, Placed
from einc.planning.placing.local import Rewriting
from einc.planning.placing.resized import lettered, resized
from einc.planning.placing.schedule import without_rows
from einc.planning.placing.states import WHOLE, Axis, Owned, Part, Share, States, clash, cut_slots, moved
from einc.planning.placing.two_blocks import CLASS, ByNumbers, InTwo, before, by_numbers, in_halves, in_two

ALONE = "alone"  # what is made on one device has names that end so


def together(placed: Placed) -> NormalProgram:
    """The programs of all ranks as one, with the same inputs and the same outputs as on one device."""
    return _Together(without_rows(placed)).program(False)[0]


def beside(placed: Placed) -> tuple[NormalProgram, int]:
    """The same program with what one device makes beside it, whose outputs stand behind. Its last equations, so many,
    say of each value, in the order in which they are made, what it is on one device; they have the names of the values.
    """
    return _Together(without_rows(placed)).program(True)


@dataclass
class _Together:
    """The program while it is made. `letters` are the ranks on each axis, `others` those that something comes from,
    `halves` what stands for letters over parts in two blocks in the equation that is being written.
    """

    of: Placed
    names: dict[tuple[str, States], str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    splits: dict[IndexSet, tuple[IndexSet, ...]] = field(default_factory=dict)
    halves: dict[Index, Pack] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Chooses two letters for each axis of the mesh that nothing in the program has: for the rank, and for one
        that data come from."""
        program = self.of.program
        taken = {s.name for t in program.tensors.values() for s in t.slots} | {
            i.name for t in program.terms for i in free_indices(t)}
        self.letters, self.others = list[Index](), list[Index]()
        for axis in self.of.mesh:
            for found in (self.letters, self.others):
                name = next(x for x in (*"pqrwzyxuvnmabcdefghijklo", *(f"p'{n}" for n in taken)) if x not in taken)
                taken.add(name)
                found.append(Index(name, IndexSet(CLASS, number(axis.ranks))))

    # what an equation asks

    def name(self, key: str, states: States) -> str:
        """The name of a tensor in some states: its own where it is whole on every rank. Makes its tensor where it is
        not there yet."""
        if (key, states) not in self.names:
            tensor, program = self.of.program.tensors[key], self.of.program
            plain = all(state == WHOLE for state in states)
            numbered = any(other.removeprefix(f"{key}_").isdigit() for other in program.tensors)  # or a rank, in O_1
            mine = plain if self.shown(key) else states == self.of.states(key) and (
                plain or (key in self.of.levels and not numbered))
            name = key if mine else unused(f"{key}_{'whole' if plain else 'part'}", {*program.tensors, *self.tensors})
            ranks = [Slot(i.set, "label", i.name) for i, state in zip(self.letters, states, strict=True)
                     if state != WHOLE]
            slots = (*ranks, *cut_slots(tensor.slots, states, self.of.mesh))
            self.names[key, states] = name
            self.tensors[name] = replace(tensor, key=name, text=tensor.text if mine else name, slots=slots,
                                         role=tensor.role if mine else "local")
            self.components(key, states)
        return self.names[key, states]

    @cached_property
    def relative(self) -> frozenset[str]:
        """The tensors that are relative to each rank's own maximum, and these maxima."""
        cuts = [(e.target, cut) for e in self.of.program.equations for cut in self.of.cuts(e.target)]
        found = [(key, cut.tag.reference) for key, cut in cuts if cut.tag is not None]
        found += [(key, cut.state.reference) for key, cut in cuts if isinstance(cut.state, Share)]
        return frozenset(name for pair in found if pair[1] for name in pair)

    def shown(self, key: str) -> bool:
        """Whether a tensor is an output of the program."""
        return any(key == tensor for _, tensor in self.of.program.outputs)

    def components(self, key: str, states: States) -> None:
        """Notes the components of composites of which a rank has a part by one."""
        for axis, state in zip(self.of.mesh, states, strict=True):
            if isinstance(state, Part) and state.component >= 0:
                whole = self.of.program.tensors[key].slots[state.slot].set
                parts = [replace(s, extent=axis.part(s.extent)) if n == state.component else s
                         for n, s in enumerate(self.of.program.splits[whole])]
                self.splits[replace(whole, extent=axis.part(whole.extent))] = tuple(parts)

    def lead(self, states: States) -> tuple[Term, ...]:
        """The ranks, on each axis on which they have different things."""
        return tuple(Position(i) for i, state in zip(self.letters, states, strict=True) if state != WHOLE)

    def before(self, axis: Axis, of: Extent) -> Term:
        """How many elements the ranks before this one have."""
        return before(self.letters[self.of.mesh.index(axis)], axis.part(of))

    def in_blocks(self, axis: Axis, index: Index, own: Index) -> Term:
        """The number of an element of a part in two blocks: that of the block, and the place in it."""
        rank = self.letters[self.of.mesh.index(axis)]
        if index.set in self.of.program.splits:
            return by_numbers(axis, rank, index, own, True).place
        found = in_two(self.splits, axis, rank, index.set, own, True)
        self.halves[own] = found.own
        return found.number

    def first(self, axis: Axis) -> Term:
        """The condition that this is the first rank."""
        return Apply("eq", (Position(self.letters[self.of.mesh.index(axis)]), ONE))

    def begun(self, before: Term, start: int, place: Term) -> Apply:
        """The condition that a number, where the first is `start`, is not among those of the ranks before: of numbers
        that are none of the whole, too, each is on one rank, as a proof needs it.
        """
        return Apply("lt", (added((before, Size(number(start - 1)))), place))

    def element(self, axis: Axis, index: Index, own: Index) -> Term | None:
        """Of a set without numbers the element that a rank and its own make."""
        return None if INDEX_CLASSES[index.set.cls].numbered else self.pair(
            self.letters[self.of.mesh.index(axis)], index.set, own)

    def pair(self, rank: Index, whole: IndexSet, own: Index) -> Pack:
        """An element of a set as that of a composite of the ranks and their parts."""
        self.splits.setdefault(whole, (rank.set, own.set))
        return Pack((Position(rank), Position(own)), (rank.set, own.set), whole)

    # the program

    def program(self, alone: bool) -> tuple[NormalProgram, int]:
        """Inputs in parts, levels with the collectives before each, and outputs put together; with `alone` also what
        one device makes, and at the end what each value is of that, with the number of these equations."""
        program = self.of.program
        for tensor in program.inputs():
            self.moves(tensor.key, (WHOLE,) * len(self.of.mesh), self.of.states(tensor.key), tensor.key)
        for level in range(max([*self.of.levels.values(), *(a.level for a in self.of.arrivals)], default=0) + 1):
            for arrival in self.of.arrivals:
                if arrival.level == level:
                    self.arrive(arrival)
            for e in program.equations:
                if self.of.levels[e.target] == level:
                    self.halves.clear()
                    self.equations.append(in_halves(Rewriting(self, e).equation(), self.halves))
        for _, key in program.outputs:
            self.moves(key, self.of.ends[key], (WHOLE,) * len(self.of.mesh))
        unread = {k: t for k, t in program.tensors.items() if t.role not in ("local", "derived")}
        tensors, outputs = {**unread, **self.tensors}, list(program.outputs)
        equations = _needed(self.equations, {key for _, key in outputs})
        said = list[tuple[str, Equation]]()
        if alone:
            named = {e.target: unused(f"{e.target}_{ALONE}", tensors) for e in program.equations}
            tensors |= {new: replace(program.tensors[key], key=new, text=new) for key, new in named.items()}
            made, equations = equations, [*equations, *(_called(e, named) for e in program.equations)]
            outputs += [(named[key], named[key]) for _, key in program.outputs]
            said = [(e.target, one) for e in made if (one := self.same(e.target, named)) is not None]
            for target, equation in said:
                tensors[equation.target] = replace(tensors[target], key=equation.target)
            equations += [equation for _, equation in said]
        found = replace(program.but(equations=equations, tensors=tensors, outputs=outputs, loops=()),
                        splits={**program.splits, **self.splits}, plans=(), idle=frozenset(), name=program.name)
        return lettered(resized(found, self.sizes())), len(said)

    def same(self, target: str, named: Mapping[str, str]) -> Equation | None:
        """The equation by which a value is what one device makes, or a part of it; None of a share, of an input, of
        what is relative to a rank's own maximum, and of such a maximum."""
        key, states = next((pair for pair, name in self.names.items() if name == target), ("", ()))
        if key not in named or key in self.relative or not all(isinstance(x, Part) or x == WHOLE for x in states):
            return None
        place = _Place(self, key, tuple(range(len(states))), (WHOLE,) * len(states), states)
        return Equation(f"{target} of {ALONE}", (*self.lead(states), *place.here), TRUE, Read(named[key], tuple(
            place.there)))

    def sizes(self) -> dict[str, Extent]:
        """For sizes that are cut what they are of those of a part, so that every extent is a whole number."""
        by: dict[str, Extent] = {}
        for axis in self.of.mesh:
            for one in (*axis.sets, *(m.by for m in axis.meetings if m.by is not None)):
                extent = one.extent.put(by)
                left = axis.part(extent) * number(Fraction(1, axis.blocks(one)))
                if all(c.denominator == 1 for _, c in left.terms) or len(extent.terms) != 1:
                    continue
                name = min(extent.sizes)
                own = size(f"{name}_{axis.name}") * left.denominator
                by = {k: v.put({name: own}) for k, v in by.items()} | ({} if name in by else {name: own})
        return by

    def moves(self, key: str, have: States, want: States, source: str = "") -> None:
        """A tensor from some states to others, an equation for each step, the first one of `source`."""
        now = have
        for axes, then in moved(have, want, self.of.mesh):
            for after in _by_whole(axes, now, then):
                self.move(key, axes, now, after, source or self.name(key, now))
                now, source = after, ""

    def arrive(self, arrival: Arrival) -> None:
        """The equations of a tensor in other states."""
        self.moves(arrival.tensor, self.of.states(arrival.tensor), arrival.states)

    def move(self, key: str, axes: tuple[int, ...], now: States, then: States, source: str) -> None:
        """One step of a tensor that has the name `source` before. Adds the equation that makes it in the new states,
        unless it stands already."""
        if any(e.target == self.names.get((key, then)) for e in self.equations):
            return
        place = _Place(self, key, axes, now, then)
        made, read = self.name(key, then), Read(source, (*place.source(now), *place.there))
        body: Term = place.scaled(read)
        bound = tuple(self.others[n] for n in axes if isinstance(now[n], Share | Owned))
        if bound:
            first = now[axes[0]]
            body = Fold(first.fold if isinstance(first, Share) else "sum", bound, TRUE, body)
        self.equations.append(Equation(made, (*self.lead(then), *place.here), TRUE, body))


class _Place:
    """The letters of a move: at each slot where the result stands, and where it is read; and the ranks that it is read
    at.
    """

    def __init__(self, all_: _Together, key: str, axes: tuple[int, ...], now: States, then: States) -> None:
        self.all, self.key, self.axes, self.now, self.then = all_, key, axes, now, then
        self.here, self.there, self.ranks = list[Term](), list[Term](), dict[int, Term]()
        for n, slot in enumerate(all_.of.program.tensors[key].slots):
            here, there = self.slot(n, slot, now, then)
            self.here.append(here)
            self.there.append(there)

    def source(self, states: States) -> tuple[Term, ...]:
        """The ranks that a tensor comes from: others on the axes of the move."""
        return tuple(self.ranks.get(n, Position(self.all.others[n] if n in self.axes else self.all.letters[n]))
                     for n, state in enumerate(states) if state != WHOLE)

    def slot(self, n: int, slot: Slot, now: States, then: States) -> tuple[Term, Term]:
        """Where one slot of the result stands, and where it is read."""
        components = any(isinstance(p, Part) and p.slot == n and p.component >= 0 for p in (*now, *then))
        letter = slot.name if slot.name.isalpha() else f"c_{n}"
        if not components:
            return self.atom(Part(n), Index(letter, slot.set), slot.set not in self.all.of.program.splits)
        sets = self.all.of.program.splits[slot.set]
        found = [self.atom(Part(n, k), Index(f"c_{n}{k}", s), False) for k, s in enumerate(sets)]
        here, there = (self.packed(n, states, [pair[side] for pair in found])
                       for side, states in enumerate((then, now)))
        return here, there

    def packed(self, n: int, states: States, parts: list[Term]) -> Pack:
        """The element of a composite slot in some states."""
        of, sets = self.all.of, list(self.all.of.program.splits[self.all.of.program.tensors[self.key].slots[n].set])
        for k, one in enumerate(sets):
            axis = self.on(Part(n, k), states)
            sets[k] = one if axis is None else replace(one, extent=of.mesh[axis].part(one.extent))
        return Pack(tuple(parts), tuple(sets), cut_slots(of.program.tensors[self.key].slots, states, of.mesh)[n].set)

    def on(self, part: Part, states: States) -> int | None:
        """The axis on which something is cut."""
        return next((m for m, state in enumerate(states) if isinstance(state, Part) and
                     (state.slot, state.component) == (part.slot, part.component)), None)

    def atom(self, part: Part, letter: Index, apart: bool) -> tuple[Term, Term]:
        """How a slot, or one component of it, is read before the move and written after it. `apart`: it is no
        composite yet, so that it can be made one of the ranks and their parts."""
        was, becomes = self.on(part, self.now), self.on(part, self.then)
        at = was if becomes is None else becomes
        if at is None:
            return Position(letter), Position(letter)
        axis = self.all.of.mesh[at]
        own = Index(letter.name, replace(letter.set, extent=axis.part(letter.set.extent)))
        if was == becomes:
            return Position(own), Position(own)
        if was is not None and becomes is not None and self.all.of.mesh[max(was, becomes)].around:
            self.ranks[was] = Position(self.all.letters[becomes])  # a part on one axis, the same on the other
            return Position(own), Position(own)
        if axis.blocks(letter.set) > 1:
            return self.blocks(at, letter, own, apart, becomes is not None)
        if becomes is not None:
            rank = self.all.letters[at]
            whole = self.all.pair(rank, letter.set, own) if apart else added(
                (Position(own), before(rank, own.set.extent)))
            return Position(own), whole
        if apart:
            return self.all.pair(self.all.others[at], letter.set, own), Position(own)
        # the rank and the place in its part, by the number of the element
        size_, from_0 = Size(own.set.extent), Apply("sub", (Position(letter), const(letter.set.start)))
        self.ranks[at] = added((Apply("floor", (Apply("div", (from_0, size_)),)), ONE))
        return Position(letter), added((Apply("mod", (from_0, size_)), const(letter.set.start)))

    def blocks(self, at: int, letter: Index, own: Index, apart: bool, parted: bool) -> tuple[Term, Term]:
        """The same on an axis on which a rank's part of the set is in two blocks, or in order of two: it is so after
        the move where that has `parted` the slot, else before it."""
        axis, rank = self.all.of.mesh[at], self.all.letters[at]
        state = (self.then if parted else self.now)[at]
        ends = isinstance(state, Part) and state.blocks > 1
        found: InTwo | ByNumbers = in_two(self.all.splits, axis, rank, letter.set, own, ends) if apart else by_numbers(
            axis, rank, letter, own, ends)
        if parted:
            return found.own, found.place
        self.ranks[at] = found.holder
        return found.at, found.there

    def scaled(self, read: Read) -> Term:
        """What a rank adds: a share relative to the reference of all, of owned values its own."""
        axis, state = self.axes[0], self.now[self.axes[0]]
        needed = self.all.of.beside(self.key, (axis,), self.now, self.then)
        beside = [self.beside(key, states, state.places) for key, states in needed if isinstance(state, Share | Owned)]
        match state:
            case Share(_, reference, _, power) if reference:
                own, whole = beside
                scale = Apply("exp", (product((const(power), Apply("sub", (own, whole)))),))
                # A rank without a point has no maximum and adds nothing, and so where no rank has one.
                return Where(reached(own), product((read, scale)))
            case Owned(_, _, base):
                (chosen,), part = beside, self.all.of.mesh[axis].part(base.extent)
                low = before(self.all.others[axis], part)
                ends = (Apply("le", (added((low, const(base.start))), chosen)),
                        Apply("le", (chosen, added((low, Size(part + number(base.start - 1)))))))
                return Where(both(*ends), read)
        return read

    def beside(self, key: str, states: States, places: tuple[int, ...]) -> Read:
        """A read of what a tensor is relative to, at the same place: as a rank had it before the move, or as it lies
        after it.
        """
        if any(isinstance(states[n], Part) for n in self.axes):
            return Read(self.all.name(key, states), (*self.all.lead(states), *(self.here[n] for n in places)))
        return Read(self.all.name(key, states), (*self.source(states), *(self.there[n] for n in places)))


def _called(equation: Equation, named: Mapping[str, str]) -> Equation:
    """The equation with other names for tensors."""
    def change(term: Term) -> Term:
        return Read(named.get(term.tensor, term.tensor), term.subs) if isinstance(term, Read) else term

    return replace(equation.map(lambda term: transform(term, change)), target=named[equation.target])


def _needed(equations: Iterable[Equation], later: set[str]) -> list[Equation]:
    """The equations without those that nothing of `later` needs."""
    out = list[Equation]()
    for equation in reversed([*equations]):
        if equation.target in later:
            later = later | equation.reads
            out.insert(0, equation)
    return out


def _by_whole(axes: tuple[int, ...], now: States, then: States) -> Iterator[States]:
    """The states after a move: of a part that is laid in other blocks, which is put together first, both."""
    if all(isinstance(now[n], Part) and isinstance(then[n], Part) and clash(now[n], then[n]) for n in axes):
        yield tuple(WHOLE if n in axes else state for n, state in enumerate(now))
    yield then
