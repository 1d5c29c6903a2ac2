"""A program with rounds on a mesh: what stands between the rounds, and one of the rounds, are programs of their own,
each put on the mesh by itself. A tensor that passes from one to another lies in both as the first leaves it, and a
state lies after every round as its start does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar

from einc.ir.indices import INDEX_CLASSES, Extent, number
from einc.ir.programs import IndexLoop, NormalProgram, Program, Tensor
from einc.planning.placing.cuts import first_part
from einc.planning.placing.cutting import Cutting
from einc.planning.placing.levels import Placed
from einc.planning.placing.recurred import Found, Recurred, recurred
from einc.planning.placing.refusals import Refused
from einc.planning.placing.schedule import placed
from einc.planning.placing.states import Axis, Part, State, States, cut_slots
from einc.planning.recurrences.affine import with_affine
from einc.planning.repeated import with_wide
from einc.transforms.normal.normalise import with_normal
from einc.transforms.slicing.lags import with_lags
from einc.transforms.slicing.repeats import Round, round_of, stretches


@dataclass(frozen=True)
class Link:
    """A piece of a program on a mesh, with its gradient where that is asked for; `round` is the round that it is."""

    forward: Placed
    backward: Placed | None = None
    round: Round | None = None

    @property
    def times(self) -> Extent:
        """How many times the program of this link runs."""
        return number(1) if self.round is None else self.round.repeat.index.set.extent


@dataclass
class Chain:
    """The pieces of a program while they are put on a mesh. `states` are those of the tensors of the whole."""

    program: Program
    mesh: tuple[Axis, ...]
    sizes: Mapping[str, int]
    found: Found = field(default_factory=dict)
    states: dict[str, States] = field(default_factory=dict)
    wanted: dict[str, States] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fills `wanted` with the states in which recurrences need their operands, and `states` with those of the
        inputs. Raises Refused for rounds that cannot be put on a mesh."""
        for loop, found in self.found.items():
            self.wanted |= recurred(self.program, loop, found, self.mesh).needs
        for repeat in self.program.repeats:
            over = repeat.index.set
            if repeat in self.found:
                continue
            if INDEX_CLASSES[over.cls].sequence:
                raise Refused("rounds", f"`{self.program.name}` has rounds over positions, for {repeat.index.name}, "
                              "that are no recurrence in which a state is multiplied and added to: these are not put "
                              "on several devices yet",
                              f"put what one round does on several devices: a spec without `for {repeat.index.name}`")
            for axis in self.mesh:
                if over in axis.sets:
                    raise Refused("rounds", f"{repeat.index.name} counts rounds, which are stages of `{axis.name}`, "
                                  "each a program of its own", f"cut another letter over `{axis.name}`, or take the "
                                  "programs that `einc derive --mesh` prints")
        self.states |= {t.key: self.wanted.get(t.key) or self.given(t) for t in self.program.inputs()}

    def given(self, tensor: Tensor) -> States:
        """The states of what the caller gives: on each axis a part by the first set that it has, and that no axis
        before has cut.
        """
        out: list[State] = []
        for axis in self.mesh:
            out.append(first_part(tensor.slots, self.program.splits, axis.given, out))
        return tuple(out)

    def here(self, key: str, one: Round | None) -> States:
        """The states of a tensor of the whole as a piece has it: a round takes its own part of some."""
        if one is None or key not in one.taken:
            return self.states[key]
        at = one.taken[key]
        return tuple(replace(s, slot=s.slot - (s.slot > at)) if isinstance(s, Part) else s for s in self.states[key])

    def place(self, piece: NormalProgram, one: Round | None) -> Placed:
        """A piece on the mesh, after those before it. Raises Refused. Writes in which state it leaves each tensor."""
        starts = {} if one is None else {following: first for _, first, following in one.repeat.states}
        if one is not None:
            self.states |= {state: self.states[first] for state, first, _ in one.repeat.states}
        given = {t.key: self.here(t.key, one) for t in piece.inputs() if one is None or t.key != one.counter}
        asked = {key: self.wanted[name] for name, key in piece.outputs if name in self.wanted and one is None}
        asked |= {key: self.states[starts[name]] for name, key in piece.outputs if name in starts}
        found = placed(piece, self.mesh, self.sizes, given, asked,
                       {key for name, key in piece.outputs if name not in self.shown})
        for name, key in found.program.outputs:
            if one is None:
                self.states[name] = found.ends[key]
            elif name in one.parts:
                at = one.parts[name]
                self.states[name] = tuple(replace(s, slot=s.slot + (s.slot >= at)) if isinstance(s, Part) else s
                                          for s in found.ends[key])
        return found

    @property
    def shown(self) -> frozenset[str]:
        """What a caller sees, and what the states that it sees begin with."""
        seen = {key for _, key in self.program.outputs}
        return frozenset(seen | {first for one in self.program.repeats for state, first, _ in one.states
                                 if state in seen})

    def recur(self, loop: IndexLoop) -> Recurred:
        """A recurrence on the mesh, after what it reads. Raises Refused. Writes in which state it leaves what it
        makes."""
        made = recurred(self.program, loop, self.found[loop], self.mesh)
        for key, states in made.needs.items():
            if self.states[key] != states:
                raise Refused("rounds", f"`{key}` is read by two recurrences of `{self.program.name}` that are cut in "
                              "different ways", "cut one letter that both have")
        self.states |= made.made
        return made

    def local(self, tensor: Tensor) -> Tensor:
        """What a rank has of a tensor of the whole."""
        return replace(tensor, slots=cut_slots(tensor.slots, self.states[tensor.key], self.mesh))

    @property
    def whole(self) -> Placed:
        """The program with the states of what it is given and what it returns, and nothing of what happens between."""
        ends = {key: self.states[key] for _, key in self.program.outputs}
        program = NormalProgram.of(self.program)
        known = (Cutting(program, {key: states[n] for key, states in self.states.items()}, {}, {})
                 for n in range(len(self.mesh)))
        return Placed(program, self.mesh, tuple(known), ends, {}, ())


T = TypeVar("T")


def apart(program: Program, grad: bool) -> tuple[Program, Found]:
    """The program as it is put on a mesh in pieces, for its gradient or without, and which of its rounds are
    recurrences. Raises Refused for rounds in rounds.
    """
    if (outer := next((one for one in program.repeats if one.loops), None)) is not None:
        raise Refused("rounds", f"`{program.name}` has rounds over positions, for {outer.loops[0].index.name}, in each "
                      f"round for {outer.index.name}: these are not put on several devices yet",
                      f"put what one round does on several devices: a spec without `for {outer.index.name}`")
    if grad:
        return with_affine(with_wide(with_lags(program)))
    normal, found = with_affine(with_wide(NormalProgram.of(program)))
    return (with_normal(normal) if found else normal), found


def linked(program: Program, place: Callable[[Program, Round | None], T], own: bool = False,
           recur: Callable[[IndexLoop], T] | None = None, found: Found = MappingProxyType({})) -> list[T]:
    """What is made of the pieces in their order, by `recur` of those that are recurrences; `own` as for `round_of`."""
    out: list[T] = []
    for stretch, repeat in zip_longest(stretches(program), program.repeats):
        if stretch.equations:
            out.append(place(stretch, None))
        if repeat in found and recur is not None:
            out.append(recur(repeat))
        elif repeat is not None:
            one = round_of(program, repeat, own)
            out.append(place(one.program, one))
    return out


def each_placed(program: NormalProgram, mesh: tuple[Axis, ...]) -> list[Placed]:
    """The program on the mesh, whatever its sizes, and in its pieces where it has rounds. Raises Refused."""
    if not program.repeats:
        return [placed(program, mesh)]
    whole, found = apart(program, grad=False)
    chain, out = Chain(whole, mesh, {}, found), list[Placed]()

    def place(piece: Program, one: Round | None) -> None:
        out.append(chain.place(NormalProgram.of(piece), one))

    def recur(loop: IndexLoop) -> None:
        chain.recur(loop)

    linked(whole, place, recur=recur, found=found)
    return out
