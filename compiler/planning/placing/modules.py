"""A program on a mesh -> the plan of what one rank does: the steps of its levels, and between them the moves.

Every level is planned by itself, as any program is: kernels know nothing of a mesh. What stands in a move beside the
collective, the factor of a share that is relative to a maximum of its own, is an equation and so a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.ir.choices import Choices
from einc.ir.draft import unused
from einc.ir.finite import surely_finite
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.plan import Along, Buffer, Gradient, Module, Move, Moved, PerRank, RankGroup, Routes, Step, makes
from einc.ir.plan.gradients import group_of
from einc.ir.programs import Equation, NormalProgram, Program, Slot, Tensor, Told
from einc.ir.sums import product, reached
from einc.ir.terms import TRUE, Apply, Fold, Position, Read, Size, Term, Where, both, const
from einc.ir.verify import verify
from einc.planning import halves
from einc.planning.analysis.signs import told
from einc.planning.placing.atoms import Atoms
from einc.planning.placing.hops import Hopping
from einc.planning.placing.levels import Placed, Transfer, in_order
from einc.planning.placing.local import Local
from einc.planning.placing.messages import Message, messages
from einc.planning.placing.routes import counted, routes_of, sizes_told
from einc.planning.placing.schedule import placed
from einc.planning.placing.states import Axis, Owned, Part, Share, States
from einc.planning.placing.two_blocks import CLASS
from einc.planning.planner import plan
from einc.planning.repeated import clamped, trusting, with_wide
from einc.transforms.gradients.backward import Derived
from einc.transforms.normal.normalise import normalise


def per_rank(program: NormalProgram, mesh: tuple[Axis, ...], sizes: Mapping[str, int],
             choices: Choices) -> tuple[PerRank, Placed]:
    """The plan of one rank, and the program on the mesh that it is of. Raises Refused."""
    found = placed(with_wide(program), mesh, sizes)
    made = module_of(found, choices)
    made = replace(made, keys=plan(program, program.inputs(), choices).keys)
    whole = PerRank(made, axes_of(mesh), tuple(cuts_of(found, made.outputs)), groups_of(found))
    verify(whole)
    return whole, found


def per_rank_gradient(program: Program, mesh: tuple[Axis, ...], sizes: Mapping[str, int],
                      choices: Choices) -> tuple[PerRank, Placed, Placed | None]:
    """What each rank runs for a program and for its gradient: what the first saved, and the cotangents of its results,
    come to the second as they lie, and each gradient is left as its input is given. Raises Refused."""
    body, one, two = derived(program, mesh, sizes, choices,
                             lambda normal, kept: placed(normal, mesh, sizes, kept=kept))
    groups = tuple(dict.fromkeys(group for half in (one, two) if half is not None for group in groups_of(half)))
    whole = PerRank(body, axes_of(mesh), tuple(cuts_of(one, body.shown)), groups)
    verify(whole)
    return whole, one, two


def derived(program: Program, mesh: tuple[Axis, ...], sizes: Mapping[str, int], choices: Choices,
            first_half: Callable[[NormalProgram, Set[str]], Placed]) -> tuple[Gradient, Placed, Placed | None]:
    """The two halves of a rank, the first of what `first_half` makes of a program and of what of its results is merely
    saved; the second is of nothing where no output depends on an input of real numbers. Raises Refused.
    """
    found, first = halves.derived(program)
    normal = with_wide(normalise(first))
    one = first_half(normal, merely_saved(found, normal))
    forward = replace(module_of(one, choices), keys=plan(normal, program.inputs(), choices).keys)
    if not found.gradients:
        return Gradient(forward, replace(forward, inputs=(), outputs=(), buffers={}, steps=(), keys=()), (), (),
                        ()), one, None
    below = halves.second(found, forward.buffers)
    given, asked = between(found, one)
    two = placed(with_wide(normalise(below)), mesh, sizes, given, asked)
    backward = trusting(module_of(two, choices), frozenset(key for _, key in found.saved))
    # the first half hands on to the second what that is told
    told = frozenset(map(group_of, (*groups_of(one), *groups_of(two))))
    forward, backward = (replace(half, sizes=half.sizes | told) for half in (forward, backward))
    return Gradient(forward, backward, found.saved, found.cotangents, found.gradients), one, two


def module_of(found: Placed, choices: Choices, before: Mapping[str, Buffer] | None = None,
              taken: Set[str] = frozenset()) -> Module:
    """The module of one rank. What is new in it has no name of `before`, buffers of other modules, or of `taken`."""
    return _Ranks(found, choices, buffers=dict(before or {}), taken=taken).module()


def merely_saved(found: Derived, normal: NormalProgram) -> frozenset[str]:
    """What the first half of a gradient gives to the second alone."""
    merely = {key for key, _ in found.saved} - {key for key, _ in found.cotangents}
    keys = [key for _, key in normal.outputs]
    shown = max((n for n, key in enumerate(keys) if key not in merely), default=-1)
    return frozenset(keys[shown + 1:])


def between(found: Derived, forward: Placed) -> tuple[dict[str, States], dict[str, States]]:
    """The states in which the program of a gradient is given its inputs, and in which gradients are left."""
    given = {key: forward.ends[made] for made, key in found.saved}
    given |= {d: forward.ends[key] for key, d in found.cotangents}
    inputs = {t.key for t in forward.program.inputs()}
    given |= {key: forward.states(key) for key in inputs if key in found.backward.tensors and key not in given}
    return given, {made: forward.states(key) for key, made in found.gradients if key in inputs}


def in_bytes(tensor: Tensor, states: States) -> Iterator[IndexSet]:
    """Where several numbers share a byte, the bytes of a rank's part along the last axis, whose number has to be whole.
    """
    cut = any(isinstance(s, Part) and s.slot == len(tensor.slots) - 1 for s in states)
    if tensor.element.narrow is not None and cut:
        last = tensor.slots[-1].set
        yield replace(last, extent=last.extent * number(Fraction(1, tensor.element.together)))


def axes_of(mesh: tuple[Axis, ...]) -> tuple[tuple[str, int], ...]:
    """The axes of a mesh with their ranks."""
    return tuple((axis.name, axis.ranks) for axis in mesh if not axis.around)


def groups_of(found: Placed) -> tuple[tuple[str, ...], ...]:
    """The sets of axes over which something is sent."""
    sent = [tuple(found.mesh[n].name for n in move.axes if not found.mesh[n].around) for _, move in found.moves]
    return tuple(dict.fromkeys((*sent, *((found.mesh[axis - 1].name,) for _, axis in found.hopped))))


def cuts_of(found: Placed, outputs: Sequence[tuple[str, str]],
            ) -> Iterator[tuple[str, tuple[tuple[int, Extent] | None, ...]]]:
    """What a rank has of each input and of the first outputs, as many as `outputs` calls by their names in the module.
    """
    program = found.program
    given = [(t.key, t.key, found.states(t.key)) for t in program.inputs()]
    left = [(name, key, found.ends[key]) for (_, key), (_, name) in zip(program.outputs, outputs, strict=False)]
    for name, key, states in (*given, *left):
        assert in_order(states) == states, key  # a caller has and gets all in order
        atoms = Atoms(found, key)
        yield name, tuple(None if not isinstance(s, Part) else (s.slot, atoms.before(s, states[:n]))
                         for n, s in enumerate(states) if not found.mesh[n].around)


@dataclass
class _Ranks:
    """The plan of one rank while it is made."""

    of: Placed
    choices: Choices
    steps: list[Step] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    parts: list[Module] = field(default_factory=list)
    facts: dict[str, Told] = field(default_factory=dict)
    shares: dict[tuple[str, States], str] = field(default_factory=dict)  # that reached the rank apart
    counts: dict[str, str] = field(default_factory=dict)  # the buffer that says how many rows come, by what chose
    taken: Set[str] = frozenset()

    def module(self) -> Module:
        """The module, whose inputs are what a rank is given."""
        self.local = Local(self.of, self.taken | self.buffers.keys())
        levels, program = self.local.programs, self.of.program
        self.facts = {name: self.known(key, states) for (key, states), name in self.local.names.items()
                      if key in program.by_target}
        asked = tuple(self.local.tensors[t.key] for t in program.inputs())
        self.buffers |= {t.key: buffer_of(t) for t in asked}
        last = max([*self.of.levels.values(), *(a.level for a in self.of.arrivals)], default=0)
        sent = messages(self.of, self.choices.narrow)
        for level in range(last + 1):
            for message in sent:
                if message.level == level:
                    self.send(message)
            if level in levels:
                self.planned(levels[level])
            for at, axis in self.local.hops:
                if at == level:
                    self.hop(level, axis)
        outputs = tuple((name, self.local.name(key, self.of.ends[key])) for name, key in program.outputs)
        for _, key in outputs:
            self.buffers[key] = replace(self.buffers[key], role="output")
        sizes = {n for t in asked for s in t.slots for n in s.set.extent.sizes}
        sizes |= {n for part in self.parts for n in part.sizes} - program.sizes.keys()
        sizes |= {axis.place for axis in self.of.mesh if not axis.around}
        sizes |= {group_of(axes) for axes in groups_of(self.of)}
        sizes -= sizes_told(self.of) - {n for t in asked for s in t.slots for n in s.set.extent.sizes}
        sets = dict.fromkeys([*(s.set for t in asked for s in t.slots), *(s for p in self.parts for s in p.sets),
                              *(one for t in asked for one in in_bytes(t, self.of.states(t.key)))])
        return Module(program.name, program.source or program.name, asked, outputs, self.buffers, tuple(self.steps),
                      dict(program.sizes), frozenset(sizes), tuple(sets), ())

    def known(self, key: str, states: States) -> Told:
        """What is known of a value where it is read in another level than it is made in: its sign, and whether it may
        be no finite number, as at points that no one reads.
        """
        by, shares = self.of.program.by_target, [s for s in states if isinstance(s, Share)]
        infinite = not surely_finite(Read(key, ()), by) or any(s.fold != "sum" or s.reference for s in shares)
        return Told(infinite=infinite) if shares else told(self.of.program, key, infinite)

    def planned(self, program: NormalProgram) -> None:
        """Adds the steps of a program. What other levels made has names that its own values do not take."""
        made = self.module_of(program)
        self.steps += made.steps
        for key in sorted({key for step in made.steps for key in makes(step)}):
            assert key not in self.buffers, key
            self.buffers[key] = replace(made.buffers[key], role="local")
        self.parts.append(made)

    def module_of(self, program: NormalProgram) -> Module:
        """The module of a part of the program. What other parts made has names that its own values do not take."""
        others = {key: Tensor(key, key, (), "local") for key in self.buffers if key not in program.tensors}
        made_here, tensors = program.by_target, dict(program.tensors)
        for key, fact in self.facts.items():
            if key not in made_here and key in tensors:
                tensors[key] = replace(tensors[key], told=fact)
        made = plan(program.but(tensors={**others, **tensors}), program.inputs(), self.choices)
        checked = {t.key for t in self.of.program.inputs()}
        return replace(made, steps=tuple(clamped(step, {key for key, _ in made.keys} - checked) for step in made.steps))

    def hop(self, level: int, axis: int) -> None:
        """Adds the step that does a level in hops."""
        step = Hopping(self.local, axis, self.module_of).step(level)
        self.steps.append(step)
        self.buffers |= {key: buffer_of(self.local.tensors[key]) for key in step.writes}
        self.parts += [replace(one, sizes=one.sizes - {step.around.part}) for one in (step.body, step.merge)
                       if one is not None]

    def between(self, equations: Sequence[Equation]) -> None:
        """Adds the steps of some equations that stand between two levels."""
        targets = {e.target for e in equations}
        tensors = {k: replace(t, role="local" if k in targets else "input") if t.role == "local" else t
                   for k, t in self.local.tensors.items() if k in targets or k in self.buffers or t.role != "local"}
        program = self.of.program.but(equations=equations, tensors=tensors, outputs=[(key, key) for key in targets],
                                      loops=())
        self.planned(replace(program, plans=(), idle=frozenset()))

    # what is between two levels

    def send(self, message: Message) -> None:
        """Adds the steps of a message, and the buffers that they make; none for what a merge or a hop has made, or what
        is given to hops."""
        new = [one for one in message.transfers if self.local.name(one.move.tensor, one.then) not in self.buffers]
        kind = message.transfers[0].move.kind
        if not new or kind == "pass":
            return
        move, state, axis = new[0].move, new[0].state, self.of.mesh[new[0].move.axes[0]]
        if kind == "merge" or kind == "return":  # noqa: PLR1714 - so that the kind is known to be another
            raise AssertionError(move.tensor)
        over = tuple(self.of.mesh[n].name for n in move.axes)
        group = RankGroup(size(group_of(over)), size(axis.place), move.ranks)
        sources = tuple(map(self.scaled, new))
        made = tuple(self.apart(one) if one.move.apart else self.local.name(one.move.tensor, one.then) for one in new)
        self.buffers |= {key: buffer_of(self.local.tensors[key]) for key in made}
        routes, beside = self.beside(new, group)
        self.steps.append(Move(
            reads=(*sources, *beside), writes=made, kind=kind, group=group,
            fold=state.fold if isinstance(state, Share) else "sum", routes=routes,
            texts=tuple(f"{one.move.tensor}: {kind} over {', '.join(over)}; {one.move.reason}" for one in new),
            moved=tuple(map(self.moved, new))))
        if equations := [self.folded(one, name) for one, name in zip(new, made, strict=True) if one.move.apart]:
            self.between(equations)

    def beside(self, new: Sequence[Transfer], group: RankGroup) -> tuple[Routes | None, tuple[str, ...]]:
        """Where the rows of a message go, and the buffers that say it; none where it is of no rows. Adds the step that
        finds out how many there are, once."""
        found = routes_of(self.of, self.local, new)
        if found is None:
            return None, ()
        routes, chosen = found
        if chosen not in self.counts:
            key = unused(f"{chosen}_rows", {*self.local.tensors, *self.buffers, *self.taken})
            step, buffer = counted(self.local.tensors[chosen], key, routes, group)
            self.counts[chosen] = key
            self.buffers[key] = buffer
            self.steps.append(step)
        return routes, (chosen, self.counts[chosen])

    def apart(self, one: Transfer) -> str:
        """The name of the tensor of the shares that reach a rank, one after the other. Makes the tensor."""
        name = self.local.name(one.move.tensor, one.then)
        tensor = self.local.tensors[name]
        key = unused(f"{name}_shares", {*self.local.tensors, *self.of.program.tensors, *self.buffers, *self.taken})
        ranks = Slot(IndexSet(CLASS, number(one.move.ranks)), "label", unused("q", [s.name for s in tensor.slots]))
        element = self.local.tensors[self.local.name(one.move.tensor, one.now)].element
        self.local.tensors[key] = replace(tensor, key=key, text=key, slots=(ranks, *tensor.slots), role="local",
                                          element=element, told=Told(infinite=True))
        self.shares[one.move.tensor, one.then] = key
        return key

    def folded(self, one: Transfer, name: str) -> Equation:
        """The equation by which a rank folds shares that have reached it."""
        state = one.state
        assert isinstance(state, Share)
        rank, *letters = letters_of(self.local.tensors[name])
        body: Term = Read(name, (rank, *letters))
        for key, states in self.of.beside(one.move.tensor, one.move.axes, one.now, one.then)[1:]:
            there = [letters[n] for n in state.places]
            own = Read(self.shares[key, states], (rank, *there))
            body = relative(body, state.power, own, Read(self.local.name(key, states), tuple(there)))
        return Equation(self.local.name(one.move.tensor, one.then), tuple(letters), TRUE,
                        Fold(state.fold, (rank.index,), TRUE, body))

    def moved(self, one: Transfer) -> Moved:
        """How a tensor of a message lies, of which a rank has `source`."""
        state, after, atoms = one.state, one.then[one.move.axes[0]], Atoms(self.of, one.move.tensor)
        every = (*one.now, *one.then)
        if one.move.rows is not None:
            held = self.local.tensors[self.local.name(one.move.tensor, one.now)].slots
            return Moved(tuple(s.set.extent for s in held), wide=one.move.adds and not self.choices.narrow)
        if one.move.apart:
            parted = Along(1 + atoms.axis(after, every), after.blocks) if isinstance(after, Part) else None
            return Moved((number(1), *atoms.held(one.now, every)), Along(0), parted)
        joined = Along(atoms.axis(state, every), state.blocks) if isinstance(state, Part) else None
        parted = Along(atoms.axis(after, every), after.blocks) if isinstance(after, Part) else None
        return Moved(atoms.held(one.now, every), joined, parted, one.move.adds and not self.choices.narrow)

    def scaled(self, one: Transfer) -> str:
        """The buffer of what a rank adds: of a share relative to the reference of all, of owned values its own."""
        axis, state, name = one.move.axes[0], one.state, self.local.name(one.move.tensor, one.now)
        needed = [self.local.name(*made) for made in self.of.beside(one.move.tensor, (axis,), one.now, one.then)]
        if not needed or not isinstance(state, Share | Owned) or one.move.apart or (
                state.rows is not None and len(needed) == 1):
            return name
        tensor = self.local.tensors[name]
        letters = letters_of(tensor)
        there = tuple(letters[n] for n in state.places)
        read = Read(name, letters)
        if isinstance(state, Share):
            own, whole = (Read(one, there) for one in needed)
            body = relative(read, state.power, own, whole)
        else:
            over, chosen = self.of.mesh[axis], Read(needed[-1], there)
            part = over.part(state.base.extent)
            before = over.rank * part if state.rows is None else number(0)  # rows have the numbers of the rank's part
            low, high = (Size(before + x + number(state.base.start)) for x in (number(0), part - number(1)))
            body = Where(both(Apply("le", (low, chosen)), Apply("le", (chosen, high))), read)
        target = replace(tensor, key=f"{name}_scaled", text=f"{name}_scaled", role="local")
        if target.key not in self.buffers:
            self.local.tensors[target.key] = target
            self.between([Equation(target.key, letters, TRUE, body)])
        return target.key


def relative(share: Term, power: int, own: Term, whole: Term) -> Term:
    """A share that is relative to a maximum of its own, relative to that of all ranks. A rank without a point has no
    maximum and adds nothing, and so where no rank has one.
    """
    return Where(reached(own), product((share, Apply("exp", (product((const(power), Apply("sub", (own, whole)))),)))))


def letters_of(tensor: Tensor) -> tuple[Position, ...]:
    """A letter for each slot of a tensor, no two of one name."""
    names = [s.name for s in tensor.slots]
    return tuple(Position(Index(s.name if names.count(s.name) == 1 else f"i_{n}", s.set))
                 for n, s in enumerate(tensor.slots))


def buffer_of(tensor: Tensor) -> Buffer:
    """The buffer of a plan that holds a tensor: the same key, axes, type and role."""
    return Buffer(tensor.key, tuple(s.name for s in tensor.slots), tuple(s.set for s in tensor.slots), tensor.element,
                  tensor.role)
