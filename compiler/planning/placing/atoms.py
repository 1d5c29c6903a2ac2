"""The shape of what a rank holds of a tensor, with composites apart of which it has a part by a component."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.ir.indices import Extent, IndexSet
from einc.planning.analysis.cost import volume
from einc.planning.placing.levels import Placed
from einc.planning.placing.refusals import Refused
from einc.planning.placing.states import Part, States, cut_slots, rows_of


@dataclass(frozen=True)
class Atoms:
    """The slots of a tensor with composites apart."""

    of: Placed
    key: str

    @property
    def sets(self) -> list[tuple[IndexSet, ...]]:
        """For each slot its components, the set itself where it has none."""
        return [self.of.program.splits.get(s.set, ()) or (s.set,) for s in self.of.program.tensors[self.key].slots]

    def held(self, now: States, every: States) -> tuple[Extent, ...]:
        """The shape of what a rank holds, with those composites apart of which one of the states has a component.
        Raises Refused where the composite is cut, too."""
        out = list[Extent]()
        slots = cut_slots(self.of.program.tensors[self.key].slots, now, self.of.mesh)
        rowed = {n for rows in filter(None, map(rows_of, now)) for n in rows.at}
        for n, parts in enumerate(self.sets):
            if n in rowed:
                out.append(slots[n].set.extent)
                continue
            cut = {s.component: axis for s, axis in zip(now, self.of.mesh, strict=True)
                   if isinstance(s, Part) and s.slot == n}
            some = parts if self.apart(n, every) else (self.of.program.tensors[self.key].slots[n].set,)
            if -1 in cut and len(some) > 1:
                raise Refused("meeting", f"`{self.key}` is cut by a composite and by a component of it",
                              "cut it by components alone")
            named = {0: cut[-1]} if -1 in cut else cut
            out += [named[k].part(one.extent) if k in named else one.extent for k, one in enumerate(some)]
        return tuple(out)

    def apart(self, slot: int, states: States) -> bool:
        """Whether the components of a slot are axes of their own: one of them is cut."""
        return any(isinstance(s, Part) and s.slot == slot and s.component >= 0 for s in states)

    def axis(self, state: Part, states: States) -> int:
        """The axis of the shape that a state cuts."""
        before = sum(len(parts) if self.apart(n, states) else 1 for n, parts in enumerate(self.sets[:state.slot]))
        return before + max(0, state.component)

    def before(self, state: Part, others: States) -> Extent:
        """How many elements of its slot stand before the component that a state cuts, as far as the rank has them."""
        parts = self.sets[state.slot][:max(0, state.component)]
        cut = {s.component: axis for s, axis in zip(others, self.of.mesh, strict=False)
               if isinstance(s, Part) and s.slot == state.slot}
        return volume([replace(one, extent=cut[k].part(one.extent)) if k in cut else one
                       for k, one in enumerate(parts)])
