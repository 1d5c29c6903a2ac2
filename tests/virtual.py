"""Virtual ranks: what every rank of a mesh does, by the interpreter, and the collectives as functions of numpy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from helpers import Array, Arrays

from einc.driver.commands.sizes import names
from einc.ir.folds import FOLDS
from einc.ir.programs import NormalProgram
from einc.ir.terms import Fold
from einc.meaning.interpret import interpret
from einc.planning.placing.levels import Arrival, Placed, references
from einc.planning.placing.local import Local
from einc.planning.placing.states import Move, Owned, Part, Share, States, moved, rows_of
from einc.planning.placing.traffic import needs

Rank = tuple[int, ...]
FOLDED = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply, "logaddexp": np.logaddexp}


@dataclass
class Ranks:
    """The ranks of a mesh with what each has. `sent` are the elements that a rank holds before each collective, `had`
    what ranks have of the inputs before, as another program has left it there.
    """

    of: Placed
    sizes: Mapping[str, int]
    sent: list[tuple[Move, int]] = field(default_factory=list)
    had: Mapping[Rank, Arrays] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.local = Local(self.of)
        self.ranks: list[Rank] = list(itertools.product(*(range(a.ranks) for a in self.of.mesh)))
        self.have: dict[Rank, Arrays] = {rank: {} for rank in self.ranks}

    def run(self, given: Mapping[str, Array]) -> Arrays:
        """The outputs, put together of what the ranks have in the end; ranks that have the same agree. Of what is left
        in rows, which is for another program, none."""
        for tensor in self.of.program.inputs():
            for rank in self.ranks:
                if tensor.key in self.had.get(rank, {}):
                    self.have[rank][tensor.key] = self.had[rank][tensor.key]
                    continue
                place = self.elements(tensor.key, self.of.states(tensor.key), rank)
                self.have[rank][tensor.key] = given[tensor.key][np.ix_(*place)] if place else given[tensor.key]
        programs, waiting = self.local.programs, list(self.of.arrivals)
        hops = self.local.hops
        for level in range(max([*self.of.levels.values(), *(a.level for a in waiting)], default=0) + 1):
            for arrival in (a for a in waiting if a.level == level):
                self.arrive(arrival)
            if level in programs:
                self.level(programs[level])
            for (at, axis), program in hops.items():
                if at == level:
                    self.level(program)
                    self.unmet(at, axis, program)
        return {name: self.returned(key) for name, key in self.of.program.outputs
                if not any(map(rows_of, self.of.ends[key]))}

    def level(self, program: NormalProgram) -> None:
        """One level on every rank."""
        for rank in self.ranks:
            known = {**self.sizes, **{a.place: n + 1 for a, n in zip(self.of.mesh, rank, strict=True)}}
            asked = {n: known[n] for n in names(program) if n in known}
            mine = {t.key: self.have[rank][t.key] for t in program.inputs()}
            self.have[rank].update(interpret(program, mine, asked))

    def unmet(self, level: int, axis: int, program: NormalProgram) -> None:
        """Checks that nothing is made of parts of which a rank is said to need no block."""
        found = needs(self.of, self.local, (level, axis), {**self.of.program.sizes, **self.sizes})
        folds = {e.target: e.body.op for e in program.equations if isinstance(e.body, Fold)}
        for rank in self.ranks:
            if not any(found[rank[axis - 1]][rank[axis]]):
                for _, key in program.outputs:
                    start = FOLDS[folds[key]].start
                    assert (self.have[rank][key] == start).all(), key

    def elements(self, key: str, states: States, rank: Rank) -> list[Array]:
        """Which elements of each slot a rank has, in their order."""
        out = []
        for n, slot in enumerate(self.of.program.tensors[key].slots):
            parts = self.of.program.splits.get(slot.set, ())
            inner = [int(s.extent.at(self.sizes)) for s in parts]
            found = np.arange(int(slot.set.extent.at(self.sizes)))
            found = found.reshape(inner) if parts else found
            for state, at, axis in zip(states, rank, self.of.mesh, strict=True):
                if isinstance(state, Part) and state.slot == n:
                    if state.blocks > 1:
                        some = np.split(found.reshape(-1), 2 * axis.ranks)
                        found = np.concatenate([some[at], some[-1 - at]])
                    elif state.component < 0:
                        found = np.split(found.reshape(-1), axis.ranks)[at]
                    else:
                        found = np.split(found, axis.ranks, state.component)[at]
            out.append(found.reshape(-1))
        return out

    # collectives

    def arrive(self, arrival: Arrival) -> None:
        """A tensor in other states on every rank."""
        now = self.of.states(arrival.tensor)
        here = {rank: self.have[rank][self.local.made(arrival.tensor)] for rank in self.ranks}
        for move, (_, then) in zip(arrival.moves, moved(now, arrival.states, self.of.mesh), strict=True):
            if not any(map(rows_of, now)):  # of which only the data says how many there are
                self.sent.append((move, here[self.ranks[0]].size))
            here = (self.move if move.rows is None else self.rowed)(arrival.tensor, move, now, then, here)
            now = then
        assert now == arrival.states
        name = self.local.name(arrival.tensor, now)
        for rank in self.ranks:
            self.have[rank][name] = here[rank]

    def move(self, key: str, move: Move, now: States, then: States, here: dict[Rank, Array]) -> dict[Rank, Array]:
        """One collective: each rank takes its elements of what its group has."""
        rowed = {n for state in now for n in getattr(rows_of(state), "at", ())}

        def elements(states: States, rank: Rank) -> list[Array]:
            """Those of a rank; of slots of rows all that it has."""
            found = self.elements(key, states, rank)
            return [np.arange(here[rank].shape[n]) if n in rowed else one for n, one in enumerate(found)]

        whole = [int(s.set.extent.at(self.sizes)) for s in self.of.program.tensors[key].slots]
        mine = {rank: self.scaled(key, move, now, rank, x) for rank, x in here.items()}
        out = {}
        for rank in self.ranks:
            group = self.group(rank, move)
            full = np.full([here[rank].shape[n] if n in rowed else size for n, size in enumerate(whole)], np.nan)
            match now[move.axes[0]]:
                case (Share() | Owned()) as state:
                    fold = FOLDED[state.fold if isinstance(state, Share) else "sum"]
                    parts = [n for n in move.axes if isinstance(now[n], Part)]
                    totals = dict[Rank, Array]()
                    for other in group:
                        at = tuple(other[n] for n in parts)
                        totals[at] = fold(totals[at], mine[other]) if at in totals else mine[other]
                        full[np.ix_(*elements(now, other))] = totals[at]
                case _:
                    for other in group:
                        full[np.ix_(*elements(now, other))] = mine[other]
            taken = full[np.ix_(*elements(then, rank))]
            assert not np.isnan(taken).any() or any(np.isnan(mine[other]).any() for other in group)
            out[rank] = taken.astype(here[rank].dtype)
        return out

    def rowed(self, key: str, move: Move, now: States, then: States, here: dict[Rank, Array]) -> dict[Rank, Array]:
        """Rows of a tensor to the ranks whose elements they chose, or what these made of them back, added up."""
        (axis,), rows = move.axes, move.rows
        assert rows is not None
        chosen, *own = (self.local.name(*made) for made in references(now, axis, then[axis]))
        part = int(rows.base.extent.at(self.sizes)) // self.of.mesh[axis].ranks
        at = [n for n in rows.at if n >= 0]
        found, mine = dict[Rank, dict[Rank, list[Array]]](), dict[Rank, Array]()
        for rank in self.ranks:
            names = self.have[rank][chosen]
            owner = np.clip((names.astype(int) - rows.base.start) // part, 0, self.of.mesh[axis].ranks - 1)
            others = tuple(n for n in range(owner.ndim) if n not in rows.packed)
            found[rank] = {}
            for other in self.group(rank, move):
                wants = (owner == other[axis]).any(others).transpose(np.argsort(np.argsort(rows.packed)))
                places = wants.nonzero()
                found[rank][other] = [x for x, n in zip(places, rows.at, strict=True) if n >= 0]
            array, state = here[rank], now[axis]
            if own and isinstance(state, Owned):  # a row may have other choices beside those that are the rank's
                held = np.isin(self.have[rank][own[0]], np.arange(rows.base.start, rows.base.start + part))
                array = np.where(spread(held, state.places, array.ndim), array, 0)
            mine[rank] = np.moveaxis(array, at, range(len(at)))
        out = {}
        for rank in self.ranks:
            group = self.group(rank, move)
            if move.kind == "to_rows":
                sent = np.concatenate([mine[other][tuple(found[other][rank])] for other in group])
                sent = sent - rank[axis] * part if key == rows.chosen else sent
                out[rank] = np.moveaxis(sent.reshape(len(sent), *[1] * (len(at) - 1), *sent.shape[1:]),
                                        range(len(at)), at)
                continue
            extents = dict(zip(rows.packed, rows.at, strict=True))
            shape = [self.have[rank][chosen].shape[n] for n, slot in extents.items() if slot >= 0]
            total = np.zeros((*shape, *mine[rank].shape[len(at):]), here[rank].dtype)
            for other in group:
                before = sum(len(found[one][other][0]) for one in group[:group.index(rank)])
                count = len(found[rank][other][0])
                array = mine[other].reshape(len(mine[other]), *mine[other].shape[len(at):])
                np.add.at(total, tuple(found[rank][other]), array[before:before + count])
            out[rank] = np.moveaxis(total, range(len(at)), at)
        return out

    def group(self, rank: Rank, move: Move) -> list[Rank]:
        """The ranks that a rank makes a move with."""
        return [other for other in self.ranks if all(
            a == b for n, (a, b) in enumerate(zip(rank, other, strict=True)) if n not in move.axes)]

    def scaled(self, key: str, move: Move, now: States, rank: Rank, array: Array) -> Array:
        """A share relative to the reference of all ranks; of owned values those that this rank owns."""
        axis = move.axes[0]
        needed = [self.local.name(*made) for made in references(now, axis)]
        beside = [self.have[rank][name] for name in (needed[:1] if move.apart else needed)]
        if move.apart and needed:  # each that folds the shares has the maximum of each of them
            beside.append(np.maximum.reduce([self.have[other][needed[0]] for other in self.group(rank, move)]))

        match now[axis]:
            case Share(_, reference, places, power) if reference:
                own, whole = beside
                with np.errstate(invalid="ignore"):
                    factor = np.where(np.isneginf(own), 0.0, np.exp(power * (own - whole)))
                factor = spread(factor, places, array.ndim)
                return np.where(factor == 0, 0.0, array * factor)
            case Owned(_, places, base):
                (chosen,) = beside
                part = int(base.extent.at(self.sizes)) // self.of.mesh[axis].ranks
                owner = np.floor_divide(spread(chosen, places, array.ndim) - base.start, part)
                return np.where(owner == rank[axis], array, 0)
        return array

    def returned(self, key: str) -> Array:
        """What is returned, put together."""
        states = self.of.ends[key]
        name = self.local.name(key, states)
        full = np.full([int(s.set.extent.at(self.sizes)) for s in self.of.program.tensors[key].slots], np.nan)
        for rank in self.ranks:
            place = np.ix_(*self.elements(key, states, rank)) if full.ndim else ()
            mine, seen = self.have[rank][name], full[place]
            if not np.isnan(seen).any():
                np.testing.assert_allclose(mine, seen, rtol=1e-12, atol=1e-300)
            full[place] = mine
        return full




def spread(found: Array, places: tuple[int, ...], axes: int) -> Array:
    """An array at some slots of a tensor with so many, as numpy spreads it."""
    order = sorted(range(len(places)), key=lambda n: places[n])
    return found.transpose(order).reshape([found.shape[places.index(n)] if n in places else 1 for n in range(axes)])
