"""The programs of one rank: what it does in each level, as a program of the same language.

A cut letter runs over the rank's own part, which has the extent of the whole through the number of ranks; its number is
that in the whole, so the elements of the ranks before are added. Extents as numbers stay those of the whole. The one
size that is new is the rank itself, on each axis of the mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from einc.ir.draft import unused
from einc.ir.elements import RANGED, REAL, WIDE
from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.programs import Equation, NormalProgram, Tensor
from einc.ir.sums import added
from einc.ir.terms import (
    ZERO,
    Apply,
    Fold,
    Join,
    Pack,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    children,
    const,
    free_indices,
    rebuild,
)
from einc.ir.terms import Part as DirectPart
from einc.planning.analysis.cost import volume
from einc.planning.placing.cuts import Cut, Letter
from einc.planning.placing.levels import Placed
from einc.planning.placing.linear import once
from einc.planning.placing.refusals import Refused
from einc.planning.placing.states import WHOLE, Axis, Owned, Part, Rows, Share, States, cut_slots, rows_of


class Ranks(Protocol):
    """Whose program an equation is written for: of one rank, or of all at once."""

    of: Placed

    def name(self, key: str, states: States) -> str:
        """The name of a tensor in some states."""
        ...

    def lead(self, states: States) -> tuple[Term, ...]:
        """The first subscripts of a tensor in some states: the ranks, where it is one tensor for all."""
        ...

    def before(self, axis: Axis, of: Extent) -> Term:
        """How many elements the ranks before this one have."""
        ...

    def in_blocks(self, axis: Axis, index: Index, own: Index) -> Term:
        """The number of an element of a part in two blocks: those of the second stand as far from the end as those of
        the first from the start.
        """
        ...

    def first(self, axis: Axis) -> Term:
        """The condition that this is the first rank."""
        ...

    def begun(self, before: Term, start: int, place: Term) -> Apply:
        """The condition that a whole number, where the first is `start`, is not among those of the ranks before."""
        ...

    def element(self, axis: Axis, index: Index, own: Index) -> Term | None:
        """An element of a set by the letter that runs over the rank's part of it, `own`; None for its number."""
        ...


@dataclass
class Local:
    """What a rank does. `names` has the name of each tensor in each of its states; what is new has no name of `taken`.
    """

    of: Placed
    taken: Set[str] = frozenset()
    names: dict[tuple[str, States], str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Names every tensor as it is given or made, or, of a result, as it is returned, under its own name."""
        for key in (*(t.key for t in self.of.program.inputs()), *self.of.levels):
            self.name(key, self.own(key))
            self.made(key)

    def own(self, key: str) -> States:
        """The states in which a tensor has its own name."""
        return self.of.ends.get(key) or self.of.states(key)

    def of_blocks(self, axis: int, count: int) -> Local:
        """What is done with one of so many blocks that each rank has, and one of those that come round."""
        mesh = tuple(replace(one, ranks=one.ranks * count, balanced=None) if n in (axis - 1, axis) else one
                     for n, one in enumerate(self.of.mesh))
        for arrival in self.of.arrivals:
            self.name(arrival.tensor, arrival.states)
        tensors = {name: replace(self.tensors[name], slots=cut_slots(self.of.program.tensors[key].slots, states, mesh))
                   for (key, states), name in self.names.items()}
        return Local(replace(self.of, mesh=mesh), self.taken, dict(self.names), tensors)

    def made(self, key: str) -> str:
        """The name of a tensor as it is given or made."""
        return self.name(key, self.of.states(key))

    def name(self, key: str, states: States) -> str:
        """The name of a tensor in some states. A sum that is relative to a maximum keeps its digits until it is scaled,
        and so does what is summed over hops.
        """
        if (key, states) not in self.names:
            tensor, own = self.of.program.tensors[key], states == self.own(key)
            shared = any(isinstance(s, Share) for s in states)
            name = key if own else unused(f"{key}_{'share' if shared else 'moved'}",
                                          {*self.of.program.tensors, *self.tensors, *self.taken})
            self.names[key, states] = name
            element = WIDE if tensor.element in (REAL, RANGED) and self.wide(key, states) else tensor.element
            self.tensors[name] = replace(tensor, key=name, text=tensor.text if own else name, element=element,
                                         slots=cut_slots(tensor.slots, states, self.of.mesh),
                                         role=tensor.role if own else "local")
        return self.names[key, states]

    def wide(self, key: str, states: States) -> bool:
        """Whether a tensor in some states keeps its digits: a share that is relative to a maximum, and one of hops."""
        if any(isinstance(s, Share) and s.reference for s in states):
            return True
        shared = any(isinstance(s, Share) for s in states)
        hops = [pair for axis, *pair in zip(self.of.mesh, states, self.of.states(key), strict=True) if axis.around]
        return states != self.of.ends.get(key) and any(
            (shared and now != WHOLE) or isinstance(made, Share) for now, made in hops)

    def lead(self, states: States) -> tuple[Term, ...]:
        """None: each rank has a tensor of its own."""
        return ()

    def before(self, axis: Axis, of: Extent) -> Term:
        """How many elements the ranks before this one have."""
        return axis.before(of)

    def in_blocks(self, axis: Axis, index: Index, own: Index) -> Term:
        """The number of an element of a part in two blocks, by that of the block."""
        block = own.set.extent * number(Fraction(1, 2))
        second = Apply("floor", (Apply("div", (Apply("sub", (Position(own), const(own.set.start))), Size(block))),))
        between = Size(block * number(2 * axis.ranks - 2) - axis.rank * block * number(2))
        return added((Position(own), Size(axis.rank * block), Apply("mul", (second, between))))

    def first(self, axis: Axis) -> Term:
        """The condition that this is the first rank."""
        return Apply("eq", (Size(axis.rank), ZERO))

    def begun(self, before: Term, start: int, place: Term) -> Apply:
        """The condition that a whole number, where the first is `start`, is not among those of the ranks before."""
        return Apply("le", (added((before, Size(number(start)))), place))

    def element(self, axis: Axis, index: Index, own: Index) -> Term | None:
        """None: a rank holds one part of each axis, so that its elements are told by the numbers of their letters
        alone."""
        return None

    @cached_property
    def programs(self) -> Mapping[int, NormalProgram]:
        """The program of each level, without what is done in hops. What is made elsewhere is its input."""
        return {level: program for (level, hops), program in self._parts.items() if hops is None}

    @cached_property
    def hops(self) -> Mapping[tuple[int, int], NormalProgram]:
        """What is done in each hop of a level, after its program, by the level and the axis of the hops."""
        return {(level, hops): program for (level, hops), program in self._parts.items() if hops is not None}

    @cached_property
    def _parts(self) -> Mapping[tuple[int, int | None], NormalProgram]:
        """The programs of all levels. What stands at pairs of positions and every rank makes itself is made in each
        that reads it.
        """
        for arrival in self.of.arrivals:
            self.name(arrival.tensor, arrival.states)
        made = {e.target: Rewriting(self, e).equation() for e in self.of.program.equations}
        where = {key: (level, self.of.hops(key)) for key, level in self.of.levels.items()}
        here: dict[tuple[int, int | None], Set[str]] = {
            at: {key for key in where if where[key] == at} for at in {*where.values()}}
        for at, targets in self.of.hopped.items():
            here[at] = targets
        needed = {at: {key for e in targets for key in made[e].reads} - {made[e].target for e in targets}
                  for at, targets in here.items()}
        moved = {key for a in self.of.arrivals for key in (a.tensor, *_beside(self.of, a.tensor))}
        shown = {self.made(key) for key in moved | {key for _, key in self.of.program.outputs}}
        return {at: self.program([made[key] for key in made if key in here[at]], shown.union(
            *(keys for other, keys in needed.items() if other != at)))
                for at in sorted(here, key=lambda at: (at[0], -1 if at[1] is None else at[1]))}

    def program(self, here: Sequence[Equation], later: Set[str]) -> NormalProgram:
        """Some equations as a program, which gives those that are read later. What nothing reads is left out."""
        left, needed = list[Equation](), set(later)
        for e in reversed(here):
            if e.target in needed:
                left.insert(0, e)
                needed |= e.reads
        targets = {e.target for e in left}
        tensors = {key: replace(t, role="input") if t.role == "local" and key not in targets else t
                   for key, t in self.tensors.items()}
        kept = [(e.target, e.target) for e in left if e.target in later]
        return replace(self.of.program.but(equations=left, tensors=tensors, outputs=kept, loops=()), plans=(),
                       idle=frozenset())


def _beside(of: Placed, key: str) -> Iterator[str]:
    """The tensors that the shares of a tensor are relative to, such as the maximum of a rank."""
    for state in of.states(key):
        yield getattr(state, "reference", "") or getattr(state, "chosen", "") or key


class Rewriting:
    """One equation as a rank does it."""

    def __init__(self, ranks: Ranks, equation: Equation) -> None:
        self.ranks, self.old, self.of = ranks, equation, ranks.of
        self.mine: dict[Index, tuple[Axis, Letter]] = {}
        for axis, found in zip(self.of.mesh, self.of.cuts(equation.target), strict=True):
            for letter in found.letters:
                if letter.index not in self.mine or letter.row:  # rows are of what another axis has left
                    self.mine[letter.index] = axis, letter
        self.rows: dict[str, tuple[Axis, Rows]] = {
            rows.chosen: (axis, rows) for axis, found in zip(self.of.mesh, self.of.cuts(equation.target), strict=True)
            for rows in map(rows_of, found.needs.values()) if rows is not None}

    def equation(self) -> Equation:
        """The equation with its letters over the rank's own parts."""
        body = self.value(self.old.body)
        for axis, found in zip(self.of.mesh, self.of.cuts(self.old.target), strict=True):
            body = self.shared(body, axis, found)
        old, states = self.old, self.of.states(self.old.target)
        axes = (*self.ranks.lead(states), *(self.place(x, None) for x in old.axes))
        domain = both(self.value(old.domain), *self.here())
        return Equation(self.ranks.name(old.target, states), axes, domain, body, old.source)

    def shared(self, body: Term, axis: Axis, found: Cut) -> Term:
        """The body with what is said of shares: who adds what."""
        if found.once:
            shared = {self.ranks.name(key, self.of.needs(self.old.target, key)) for key in found.once}
            body = once(body, shared, self.ranks.first(axis))
        if found.chosen is not None and isinstance(body, Fold):
            place, base = self.value(found.chosen[0]), found.chosen[1]
            body = replace(body, domain=both(body.domain, *self.within(place, base, axis)))
        return body

    def letter(self, index: Index) -> Index:
        """The letter over the rank's own part."""
        if index not in self.mine:
            return index
        axis, letter = self.mine[index]
        return Index(index.name, replace(index.set, extent=letter.row or axis.part(index.set.extent)))

    def number(self, index: Index) -> Term:
        """The number of a letter in the whole."""
        here = Position(self.letter(index))
        if index not in self.mine:
            return here
        axis, letter = self.mine[index]
        if letter.row:
            raise Refused("meeting", f"{index} runs over rows that are sent, and something asks for its number there",
                          "say `by gather`, by which every rank has all that chooses")
        if letter.blocks > 1 and axis.blocks(letter.base) > 1:
            return self.ranks.in_blocks(axis, index, self.letter(index))
        if letter.component < 0:
            return added((here, self.ranks.before(axis, index.set.extent)))
        first, *inner = self.of.program.splits[index.set][letter.component:]
        row = volume(inner) * axis.part(first.extent)  # elements of a rank that stand together
        others = Size(volume(inner) * first.extent - row)
        rows = Apply("floor", (Apply("div", (Apply("sub", (here, const(index.set.start))), Size(row))),))
        return added((here, Apply("mul", (rows, others)),
                      self.ranks.before(axis, volume(inner) * first.extent)))

    def place(self, term: Term, parts: Mapping[int, Axis] | None) -> Term:
        """A letter or several as a place in what the rank has: `parts` are the components that are cut, None for all
        that are.
        """
        match term:
            case Position(index):
                return Position(self.letter(index))
            case Pack(inner, sets, into):
                extent, out, over = into.extent, list[Term](), list(sets)
                for n, item in enumerate(inner):
                    at = self.mine.get(item.index) if isinstance(item, Position) else None
                    if isinstance(item, Position) and at is not None and (parts is None or n in parts):
                        out.append(Position(self.letter(item.index)))
                        over[n], extent = self.letter(item.index).set, at[0].part(extent)
                    else:
                        out.append(self.value(item) if parts is not None else item)
                return Pack(tuple(out), tuple(over), replace(into, extent=extent))
        return self.value(term)

    def value(self, term: Term) -> Term:
        """A term as the rank computes it: its letters are numbers of the whole, and tensors are read where the rank
        has them."""
        match term:
            case Position(index):
                return self.number(index)
            case Read(tensor, subs):
                made = self.read(tensor, subs)
                if tensor not in self.rows:
                    return made
                axis, rows = self.rows[tensor]
                return added((made, self.ranks.before(axis, rows.base.extent)))
            case Apply("eq", (Position(index), Read(tensor, subs)) | (Read(tensor, subs), Position(index))) if (
                    tensor in self.rows and index in self.mine and index.set == self.rows[tensor][1].base):
                return Apply("eq", (Position(self.letter(index)), self.read(tensor, subs)))
            case DirectPart(item, of, before, into) if free_indices(item) & self.mine.keys():
                return added((self.value(item), Size(before + number(into.start - of.start))))
            case Fold(op, bound, domain, body):
                return Fold(op, tuple(map(self.letter, bound)), self.value(domain), self.value(body))
            case Join(index, parts):
                return Join(self.letter(index), tuple((self.letter(i), self.value(body)) for i, body in parts))
        return rebuild(term, tuple(map(self.value, children(term))))

    def read(self, tensor: str, subs: tuple[Term, ...]) -> Term:
        """A read of what the rank has of a tensor."""
        needs = self.of.needs(self.old.target, tensor)
        out, guard = list[Term](), list[Term]()
        rowed = {n for state in needs for n in getattr(rows_of(state), "at", ())}
        for n, sub in enumerate(subs):
            if n in rowed:
                out.append(self.place(sub, {}))
                continue
            here = [(axis, state, found) for axis, state, found in zip(
                self.of.mesh, needs, self.of.cuts(self.old.target), strict=True)
                if isinstance(state, Part) and state.slot == n]
            out.append(self.sub(tensor, n, sub, here, guard))
        made = Read(self.ranks.name(tensor, needs), (*self.ranks.lead(needs), *out))
        return Where(both(*guard), made) if guard else made

    def sub(self, tensor: str, n: int, sub: Term, here: list[tuple[Axis, Part, Cut]], guard: list[Term]) -> Term:
        """One subscript; `here` are the axes on which the slot is cut. `guard` gets what has to hold for the rank to
        have the element.
        """
        if not here:
            one = None
            if isinstance(sub, Position) and sub.index in self.mine:
                one = self.ranks.element(self.mine[sub.index][0], sub.index, self.letter(sub.index))
            return self.value(sub) if one is None else one
        if isinstance(sub, Position):
            return self.place(sub, {})
        if isinstance(sub, Pack):
            return self.place(sub, {state.component: axis for axis, state, _ in here})
        (axis, _, found), = here
        into = self.of.program.tensors[tensor].slots[n].set
        if isinstance(sub, Read) and sub.tensor in self.rows:
            return self.read(sub.tensor, sub.subs)
        own = Apply("sub", (self.value(sub), self.ranks.before(axis, into.extent)))
        if found.gathered is None or found.gathered[0].tensor != tensor:
            return own
        # A place that is none of the whole is taken for the nearest that is one, and read on its rank, which says so.
        low, high = const(into.start), Size(into.extent + number(into.start - 1))
        place = Apply("max", (low, Apply("min", (high, self.value(sub)))))
        guard.extend(Apply("not", (Apply("lt" if one.op == "le" else "le", one.args[::-1]),))
                     for one in self.within(place, into, axis))
        return own

    def here(self) -> Iterator[Term]:
        """The conditions that what a row chose is in the rank's part, where a row may have other choices, too."""
        for axis, state in zip(self.of.mesh, self.of.states(self.old.target), strict=True):
            if isinstance(state, Owned) and state.rows is not None and len(state.rows.packed) < len(state.places):
                own, base = self.read(state.chosen, tuple(self.old.axes[n] for n in state.places)), state.base
                yield Apply("le", (const(base.start), own))
                yield Apply("le", (own, Size(axis.part(base.extent) + number(base.start - 1))))

    def within(self, place: Term, of: IndexSet, axis: Axis) -> tuple[Apply, ...]:
        """The conditions that a place is in the rank's part of a set."""
        before, part = self.ranks.before(axis, of.extent), axis.part(of.extent)
        high = added((before, Size(part + number(of.start - 1))))
        return self.ranks.begun(before, of.start, place), Apply("le", (place, high))
