"""The step of a plan in which blocks go round: the program of one hop, planned as any other is, with what it is given
and what becomes of what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from einc.ir.indices import number, size
from einc.ir.plan import BLOCK_PLACES, Around, Given, Hops, Made, Module, RankGroup, summed
from einc.ir.plan.gradients import group_of
from einc.ir.programs import NormalProgram
from einc.ir.terms import TRUE, Size, Term, transform
from einc.planning.placing.around import meets, merged, of_blocks
from einc.planning.placing.levels import Arrival, Placed
from einc.planning.placing.local import Local
from einc.planning.placing.states import Part, Share, State, States, moved

Plan = Callable[[NormalProgram], Module]


@dataclass(frozen=True)
class Hopping:
    """The hops of one level: the axis in whose hops it is, and the names of what ranks have. `plan` plans a program."""

    local: Local
    axis: int
    plan: Plan | None = None
    count: int = 0  # of blocks of a rank: as many as its part has, unless it is said

    @property
    def of(self) -> Placed:
        """The program that is placed on the mesh, of which this is one rank's part."""
        return self.local.of

    @property
    def blocks(self) -> int:
        """The number of blocks of positions that each rank holds: as asked, or two where the mesh balances them."""
        return self.count or (1 if self.of.mesh[self.axis].balanced is None else 2)

    @cached_property
    def inner(self) -> Local:
        """What is done with one block of the rank and one that comes."""
        return self.local if self.blocks == 1 else self.local.of_blocks(self.axis, self.blocks)

    def step(self, level: int) -> Hops:
        """The step that does all hops of a level."""
        assert self.plan is not None
        program = self.inner.hops[level, self.axis]
        body, around = self.plan(program), self.around(self.condition(level))
        given, made = self.given(body), tuple(self.made(program))
        merge = self.merge([(name, one) for name, one in made if one.fold and not one.sent])
        sizes = (body.sizes | (merge.sizes if merge is not None else frozenset())) - {around.own, around.part}
        text = f"blocks of {', '.join(key for key, one in given if one.round) or 'nothing'} go round"
        return Hops(reads=tuple(key for key, _ in given), writes=tuple(key for key, _ in made), texts=(text,),
                    cost=summed((step.cost for step in body.steps), number(around.group.ranks)), around=around,
                    body=body, merge=merge, given=tuple(one for _, one in given), made=tuple(one for _, one in made),
                    sizes=tuple((name, name) for name in sorted(sizes)))

    def condition(self, level: int) -> Term:
        """When blocks meet: always, where what hops make stands side by side."""
        program = self.inner.hops[level, self.axis]
        if any(not one.fold for _, one in self.made(program)):
            return TRUE
        mine = {axis.place for axis in self.of.mesh[self.axis - 1:self.axis + 1]}
        return of_blocks(meets(program), mine, {axis.place for axis in self.of.mesh} - mine)

    def around(self, condition: Term) -> Around:
        """Whose blocks go round, and the condition that two meet."""
        ranks, time = self.of.mesh[self.axis - 1], self.of.mesh[self.axis]
        group = RankGroup(size(group_of((ranks.name,))), size(ranks.place), ranks.ranks)
        by = {old: size(new) for old, new in zip((ranks.place, time.place), BLOCK_PLACES, strict=True)}
        meets = transform(condition, lambda x: Size(x.extent.put(by)) if isinstance(x, Size) else x)
        return Around(group, self.blocks, ranks.place, time.place, meets)

    def given(self, body: Module) -> list[tuple[str, Given]]:
        """What the body is given, by the names of what the rank has."""
        coming = {self.local.name(a.tensor, a.states): a for a in self.of.arrivals if a.moves[-1].kind == "pass"}
        states = {name: found for (_, found), name in self.local.names.items()}
        out = list[tuple[str, Given]]()
        for tensor in body.inputs:
            arrival, mine = coming.get(tensor.key), states[tensor.key]
            if arrival is None:
                out.append((tensor.key, Given(tensor.key, _slot(mine[self.axis - 1]), False)))
            else:
                (*_, before) = (self.of.states(arrival.tensor), *_passed(arrival, self.of))[:-1]
                name = self.local.name(arrival.tensor, before)
                out.append((name, Given(tensor.key, _slot(mine[self.axis]), True)))
        return out

    def made(self, program: NormalProgram) -> Iterator[tuple[str, Made]]:
        """What is put together of what hops make, by the name of the whole."""
        found = {key for key, _ in program.outputs}
        for key in (e.target for e in self.of.program.equations if self.local.made(e.target) in found):
            mine, seen = self.of.states(key), set[States]()
            for arrival in (a for a in self.of.arrivals if a.tensor == key and a.moves[0].around):
                then = _passed(arrival, self.of)[0]
                if then in seen:
                    continue
                seen.add(then)
                sent, here, ranks = arrival.moves[0].kind == "return", mine[self.axis], mine[self.axis - 1]
                share = ranks if sent else here
                yield self.local.name(key, then), Made(
                    self.local.made(key), share.fold if isinstance(share, Share) else "", _slot(ranks), _slot(here),
                    sent)

    def merge(self, made: list[tuple[str, Made]]) -> Module | None:
        """What makes one of two shares of what stays here."""
        if not made or self.plan is None:
            return None
        of = {self.local.made(e.target): e.target for e in self.of.program.equations}
        shares = []
        for one in dict.fromkeys(one for _, one in made):
            state = self.of.states(of[one.key])[self.axis]
            assert isinstance(state, Share)
            shares.append((self.inner.tensors[one.key], state))
        return self.plan(merged(shares, self.of.program, self.local.made))


def _passed(arrival: Arrival, of: Placed) -> list[States]:
    """The states of a tensor after each move."""
    return [then for _, then in moved(of.states(arrival.tensor), arrival.states, of.mesh)]


def _slot(state: State) -> int | None:
    """The slot along which a state cuts."""
    return state.slot if isinstance(state, Part) and state.component < 0 else None
