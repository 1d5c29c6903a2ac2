"""A program for new positions, from the program for all of them.

Positions of the growing set are of two kinds: T new ones, which follow `past` that were, and all past + T of them. What
an equation gives for its own position is made for the new ones; what is summed over, or read elsewhere, is there for
all. A tensor of all positions is kept, its past laid before what the new positions add, or made again from what it is
made of. A loop over positions runs over the new ones: its states begin with what the past left, or where there is no
past with what the text begins with. Non-goals: which is better, and where anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.ir.domains import difference
from einc.ir.draft import unused
from einc.ir.elements import WIDE
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.programs import Equation, IndexLoop, Slot, Tensor, TypedProgram
from einc.ir.rounds import place_of
from einc.ir.terms import TRUE, ZERO, Apply, Fold, Join, Position, Read, Size, Term, Where, children, rebuild

Kinds = tuple[bool, ...]  # for each slot of the growing set, whether it has all positions


@dataclass(frozen=True)
class Step:
    """The program of new positions: `past` is the size of what was; `caches` are (what is
    kept, its past, all of it). What the step leaves of states stands behind the outputs of the program."""

    program: TypedProgram
    past: str
    caches: tuple[tuple[str, str, str], ...]
    whole: IndexSet
    states: tuple[tuple[str, str], ...] = ()  # what the past left of a state of a loop, and what this step leaves
    dropped: str = ""  # the size that says how many positions stood before what is there
    split: bool = False  # whether sums over direct sums were taken apart
    back: tuple[Extent, ...] = ()  # so many positions, the largest of these, are all that a step reads of the past


class Unkept(Exception):  # noqa: N818 - a choice of what to keep that leaves something out
    """A tensor that is needed of the past, and is neither kept nor made again."""

    def __init__(self, tensor: str) -> None:
        super().__init__(tensor)
        self.tensor = tensor


def stepped(program: TypedProgram, along: IndexSet, kept: frozenset[str], made: frozenset[str], *, drops: bool = False,
            given: frozenset[str] = frozenset()) -> Step:
    """The step of a program; of the past some tensors are `kept` and others `made` again.
    Unkept for one that is neither.

    With `drops` the past may lack its first positions. What is `given` the caller gives for all positions.
    """
    work = _Work(program, along, _Past(kept, made, given), drops)
    outputs = tuple((name, work.version(key, work.own(key))) for name, key in program.outputs)
    for repeat in program.every_repeat:
        for state in repeat.states:
            for key in state:
                work.version(key, work.own(key))
            if repeat.index.set == along:
                work.resume(*state)
    return work.step(outputs)


@dataclass(frozen=True)
class _Past:
    """What there is of the past: tensors that are kept, that are made again, and that the caller gives."""

    kept: frozenset[str]
    made: frozenset[str]
    given: frozenset[str]


@dataclass
class _Sizes:
    """The names of the sizes of the past and of what was dropped, the number of what was dropped, and the sets of all
    positions and of those before the new ones.
    """

    past: str
    dropped: str
    behind: Extent
    whole: IndexSet
    before: IndexSet


@dataclass(frozen=True)
class _Resumed:
    """What a state begins with, what the past left of it, and what the step leaves of it."""

    begin: str
    past: str
    left: str


@dataclass
class _Work:
    """A program while its step is made: the versions of tensors that are made so far, and their equations."""

    program: TypedProgram
    along: IndexSet
    there: _Past
    drops: bool = False
    tensors: dict[str, Tensor] = field(default_factory=dict)
    equations: dict[str, Equation] = field(default_factory=dict)
    names: dict[tuple[str, Kinds], str] = field(default_factory=dict)
    caches: list[tuple[str, str, str]] = field(default_factory=list)
    sums: dict[IndexSet, tuple[Index, ...]] = field(default_factory=dict)
    resumed: dict[str, _Resumed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Names the sizes of the cache."""
        program = self.program
        named = {n for t in program.tensors.values() for s in t.slots for n in s.set.extent.sizes}
        past = unused("past", {*program.tensors, *named, *program.sizes})
        dropped = unused("dropped", {*program.tensors, *named, *program.sizes}) if self.drops else ""
        self.sizes = _Sizes(past, dropped, size(dropped) if dropped else number(0),
                            replace(self.along, extent=self.along.extent + size(past)),
                            replace(self.along, extent=size(past)))
        self.taken = {*program.tensors}

    @cached_property
    def by(self) -> Mapping[str, Equation]:
        """The equations of the program by what they define."""
        return self.program.by_target

    @cached_property
    def rounds(self) -> Mapping[str, IndexLoop]:
        """The outermost loop in which each tensor is made."""
        return {key: repeat for repeat in self.program.repeats for key in repeat.made}

    @cached_property
    def ordered(self) -> Mapping[str, Index]:
        """The index of the loop over positions in which each tensor is made."""
        return {key: r.index for r in self.program.every_repeat if r.index.set == self.along for key in r.made}

    @cached_property
    def shown(self) -> frozenset[str]:
        """The outputs, and what loops keep."""
        inner = {key for repeat in self.program.repeats for loop in repeat.every[1:] for key in loop.inside
                 if place_of(loop.index, self.by[key]) is not None}
        return frozenset({key for _, key in self.program.outputs} | inner).union(*self.program.kept.values())

    # versions

    def own(self, key: str) -> Kinds:
        """An output's: its first position is a new one, any other may be any."""
        count = sum(s.set == self.along for s in self.program.tensors[key].slots)
        return (False,) + (True,) * (count - 1) if count else ()

    def version(self, key: str, kinds: Kinds) -> str:
        """The name of a tensor with its positions of these kinds. Changes `self.names`, `self.tensors` and
        `self.equations`. Raises Unkept."""
        if (key, kinds) in self.names:
            return self.names[key, kinds]
        tensor = self.program.tensors[key]
        if not any(kinds):
            name = key
        elif kinds == (True,) and key in self.there.kept:
            return self._kept(key)
        elif kinds == (True,) and key in self.there.given:
            name = key
        elif tensor.role != "weight" and self._lacks(key, kinds):
            raise Unkept(key)
        else:
            name = key if not kinds[0] and key not in self.tensors else self._fresh(f"{key}_all")
        self.names[key, kinds] = name
        left = list(kinds)
        slots = tuple(replace(s, set=self._of_all(s.set)) if s.set != self.along
                      else replace(s, set=self.sizes.whole) if left.pop(0) else s for s in tensor.slots)
        text = tensor.text if name == key else name
        self.tensors[name] = replace(tensor, key=name, text=text, slots=slots)
        if key in self.by:
            self.equations[name] = self._equation(self.by[key], name, kinds)
        return name

    def _lacks(self, key: str, kinds: Kinds) -> bool:
        """Whether the past of a tensor is not there; of what is given for pairs the
        caller gives the new ones' rows, whole."""
        if key not in self.by:
            return kinds[0] or key in self.tensors
        if key in self.ordered:  # rounds of the past are not run again
            mine = [i for i in self.by[key].indices if i.set == self.along]
            return any(whole for i, whole in zip(mine, kinds, strict=True) if i == self.ordered[key])
        return kinds == (True,) and key not in self.there.made

    def _fresh(self, stem: str) -> str:
        name = unused(stem, self.taken)
        self.taken.add(name)
        return name

    def _kept(self, key: str) -> str:
        """All positions of what is kept: its past, then what is new. Changes `self.names`, `self.tensors`,
        `self.equations`, `self.sums` and `self.caches`."""
        tensor, new = self.program.tensors[key], self.version(key, (False,))
        past, name = self._fresh(f"{key}_past"), self._fresh(f"{key}_all")
        self.names[key, (True,)] = name
        at = next(n for n, s in enumerate(tensor.slots) if s.set == self.along)
        letters = _letters(tensor.slots)
        was = Index(unused("p", {i.name for i in letters}), self.sizes.before)
        whole = Index(letters[at].name, self.sizes.whole)

        def read(source: str, index: Index, *layer: Position) -> Read:
            return Read(source, (*layer, *(Position(index if n == at else i) for n, i in enumerate(letters))))

        slots, (layer, counted) = _over(tensor.slots, at, was), self._layer(key)
        self.tensors[past] = Tensor(past, past, (*counted, *slots), "cache", tensor.element.apart)
        self.tensors[name] = Tensor(name, name, _over(tensor.slots, at, whole), "local", tensor.element)
        parts = ((was, read(past, was, *layer)), (letters[at], read(new, letters[at])))
        self.equations[name] = Equation(name, read(name, whole).subs, TRUE, Join(whole, parts))
        self.sums[self.sizes.whole] = (was, letters[at])
        self.caches.append((key, past, name))
        return name

    def _layer(self, key: str) -> tuple[tuple[Position, ...], tuple[Slot, ...]]:
        """The index of the rounds in each of which a value has a past of its own, with its slot; nothing where it
        stands in none.
        """
        rounds = self.rounds.get(key)
        if rounds is None or rounds.index.set == self.along:
            return (), ()
        return (Position(rounds.index),), (Slot(rounds.index.set, "label", rounds.index.name),)

    def resume(self, state: str, first: str, following: str) -> None:
        """Makes a state begin with what the past left of it. It is as exact as the numbers that rounds add to. Of a
        state in rounds of layers each layer has its own, and what they leave lies side by side.
        """
        layer, counted = self._layer(state)
        tensor = self.program.tensors[state]
        past, begin = self._fresh(f"{state}_past"), self._fresh(f"{state}_from")
        wide = tensor.element if tensor.integer else WIDE
        self.tensors[state] = replace(self.tensors[state], element=wide)
        if following not in self.shown:
            self.tensors[following] = replace(self.tensors[following], element=wide)
        self.tensors[past] = Tensor(past, past, (*counted, *tensor.slots), "cache", wide)
        self.tensors[begin] = Tensor(begin, begin, tensor.slots, "local", wide)
        axes = tuple(map(Position, _letters(tensor.slots)))
        count = Size(self.sizes.behind + size(self.sizes.past))
        body = Apply("add", (Where(Apply("eq", (count, ZERO)), Read(first, axes)),
                             Where(Apply("lt", (ZERO, count)), Read(past, (*layer, *axes)))))
        self.equations[begin] = Equation(begin, axes, TRUE, body)
        left = self._fresh(f"{state}_left") if layer else state
        if layer:
            self.tensors[left] = Tensor(left, left, (*counted, *tensor.slots), "local", wide)
            self.equations[left] = Equation(left, (*layer, *axes), TRUE, Read(state, axes))
        self.resumed[state] = _Resumed(begin, past, left)

    # equations

    def _equation(self, equation: Equation, name: str, kinds: Kinds) -> Equation:
        left = list(kinds)
        whole = {i: left.pop(0) for i in equation.indices if i.set == self.along}
        if equation.target in self.ordered:
            whole[self.ordered[equation.target]] = False
        axes = tuple(self._axis(a, whole) for a in equation.axes)
        return Equation(name, axes, self._term(equation.domain, whole), self._term(equation.body, whole))

    def _axis(self, axis: Term, whole: Mapping[Index, bool]) -> Term:
        if isinstance(axis, Position):
            return Position(self._letter(axis.index, whole))
        return rebuild(axis, tuple(self._axis(kid, whole) for kid in children(axis)))

    def _letter(self, index: Index, whole: Mapping[Index, bool]) -> Index:
        if index.set == self.along:
            return Index(index.name, self.sizes.whole) if whole.get(index) else index
        return Index(index.name, self._of_all(index.set))

    def _of_all(self, over: IndexSet) -> IndexSet:
        """A set that the number of positions is part of, with all positions in place of the new ones."""
        return replace(over, extent=self._extent(over.extent)) if over.extent.sizes & self.along.extent.sizes else over

    def _term(self, term: Term, whole: Mapping[Index, bool]) -> Term:
        """The term over new or all positions: `whole` says of each index along the sequence whether it has all of
        them. Positions are counted from the first one of the whole sequence, so the past and what was dropped are
        added to them."""
        match term:
            case Position(index) if index.set == self.along:
                shift = self.sizes.behind if whole[index] else self.sizes.behind + size(self.sizes.past)
                here = Position(self._letter(index, whole))
                return Apply("add", (here, Size(shift))) if shift.terms else here
            case Position(index):
                return Position(self._letter(index, whole))
            case Size(extent):
                return Size(self._extent(extent))
            case Apply("le" | "lt" | "eq" | "ne", (left, right)) if self.drops:
                return self._compared(term, left, right, whole)
            case Read(tensor, subs):
                return self._read(tensor, subs, whole)
            case Fold(op, bound, domain, body):
                inner = {**whole, **{b: True for b in bound if b.set == self.along}}
                letters = tuple(self._letter(b, inner) for b in bound)
                return Fold(op, letters, self._term(domain, inner), self._term(body, inner))
        return rebuild(term, tuple(self._term(kid, whole) for kid in children(term)))

    def _compared(self, term: Apply, left: Term, right: Term, whole: Mapping[Index, bool]) -> Term:
        """A comparison; where what was dropped is added on both sides it is left out."""
        sides = [self._term(side, whole) for side in (left, right)]
        behind, self.sizes.behind = self.sizes.behind, number(0)
        plain = [self._term(side, whole) for side in (left, right)]
        self.sizes.behind = behind
        same = difference(*sides)
        return replace(term, args=tuple(plain if same is not None and same == difference(*plain) else sides))

    def _read(self, tensor: str, subs: tuple[Term, ...], whole: Mapping[Index, bool]) -> Read:
        """A read of the version of a tensor that has the positions its subscripts ask for; `version` makes it where
        it is missing. Unkept where the past of the tensor is needed and is neither kept nor made again."""
        given = self.program.tensors[tensor].role == "weight"  # whole, not position by position
        kinds: list[bool] = []
        new: list[Term] = []
        for slot, sub in zip(self.program.tensors[tensor].slots, subs, strict=True):
            plain = slot.set == self.along and isinstance(sub, Position) and sub.index.set == self.along and not given
            if plain and isinstance(sub, Position) and (whole[sub.index] or tensor not in self.there.given):
                kinds.append(whole[sub.index])
                new.append(Position(self._letter(sub.index, whole)))
            else:
                kinds += [True] if slot.set == self.along else []
                made = self._term(sub, whole)
                new.append(Apply("sub", (made, Size(self.sizes.behind))) if slot.set == self.along and self.drops
                           and not given else made)
        return Read(self.version(tensor, tuple(kinds)), tuple(new))

    def _extent(self, extent: Extent) -> Extent:
        """The extent with all positions in place of the new ones."""
        (name,) = self.along.extent.sizes
        return extent.put({name: self.sizes.whole.extent + self.sizes.behind})

    # the program

    def step(self, outputs: tuple[tuple[str, str], ...]) -> Step:
        """The equations in the order in which they were needed, each after what it reads."""
        origin = {name: key for (key, _), name in self.names.items()}
        repeats = [self._loop(repeat, origin) for repeat in self.program.repeats]
        left = tuple((one.past, one.left) for one in self.resumed.values())
        outputs = (*outputs, *((key, key) for _, key in left))
        others = {k: t for k, t in self.program.tensors.items() if t.role == "derived"}
        return Step(
            replace(self.program.but(equations=self.equations.values(), tensors={**others, **self.tensors},
                                     outputs=outputs,
                                     loops=repeats), sums={**self.program.sums, **self.sums}),
            self.sizes.past, tuple(self.caches), self.sizes.whole, left, self.sizes.dropped,
        )  # fmt: skip


    def _loop(self, repeat: IndexLoop, origin: Mapping[str, str]) -> IndexLoop:
        """A loop of the program as one of the step; `origin` says of what each tensor is a version."""
        # Rows of all positions are laid together after the last of the rounds over positions.
        later = {name for _, _, name in self.caches} if repeat.index.set == self.along else set()
        inner = {state for loop in repeat.every[1:] for state, _, _ in loop.states}
        more = {key for state in inner & self.resumed.keys() for key in (self.resumed[state].begin,
                                                                         self.resumed[state].left)}
        mine = tuple(name for name in self.equations
                     if (origin.get(name) in repeat.made and name not in later) or name in more)
        states = tuple((state, self.resumed[state].begin if state in self.resumed else first, following)
                       for state, first, following in repeat.states)
        return IndexLoop(repeat.index, states, mine, tuple(self._loop(loop, origin) for loop in repeat.loops))


def _over(slots: tuple[Slot, ...], at: int, index: Index) -> tuple[Slot, ...]:
    return tuple(replace(s, set=index.set, name=index.name) if n == at else s for n, s in enumerate(slots))


def _letters(slots: tuple[Slot, ...]) -> list[Index]:
    """A letter for each slot, no two alike."""
    out: list[Index] = []
    for slot in slots:
        out.append(Index(unused(slot.name, {i.name for i in out}), slot.set))
    return out
