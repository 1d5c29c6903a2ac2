"""A program whose rounds are cut into stages -> the program of each kind of stage: the first has what stands before the
rounds, the last what stands after them, and each has its own part of the rounds.

What one stage makes and a later one reads is handed on: the states of the rounds, and what is made before them and read
in them or after. Non-goals: when a stage works on what, and what several devices do of one stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from einc.ir.dependence import behind
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.programs import Equation, IndexLoop, Tensor, TypedProgram
from einc.ir.sums import added
from einc.ir.terms import TRUE, Position, Read, Size, Term, bound_indices, children, reads, rebuild, walk
from einc.transforms.slicing.repeats import outside, stretches


class Unstaged(Exception):  # noqa: N818 - what cannot be had
    """Why the rounds of a program are no stages, and a way out."""

    def __init__(self, said: str, help_: str) -> None:
        """Both are for a person."""
        super().__init__(said)
        self.said, self.help = said, help_


@dataclass(frozen=True)
class Stages:
    """The programs of the first stage, of those between, and of the last; of one stage alone there is the program.
    `handed` are the inputs that a stage has from the one before, by their keys, in the order of the outputs of that.
    `count` is the size that counts all rounds, `rounds` that which counts those of one stage, and `before` the input
    that counts those before, where a round knows its number. `layers` are the tensors that have a slot for the rounds,
    with its place.
    """

    first: TypedProgram
    between: TypedProgram
    last: TypedProgram
    handed: tuple[str, ...]
    count: str
    rounds: str
    before: str
    layers: Mapping[str, int]


def stages(program: TypedProgram, over: IndexSet, axis: str, ranks: int, along: IndexSet) -> Stages:
    """The stages of a program whose rounds over a set are cut by the ranks of an axis, and through which parts of
    another set go. Raises Unstaged.
    """
    _rounds(program, over)
    program = _with_starts(program)
    return _Staging(program, _rounds(program, over), axis, ranks, along).done()


def _rounds(program: TypedProgram, over: IndexSet) -> IndexLoop:
    """The rounds over a set, which are all that a program has. Raises Unstaged."""
    found = [one for one in program.repeats if one.index.set == over]
    if len(program.repeats) != 1 or len(found) != 1 or found[0].loops:
        names = ", ".join(one.index.name for one in program.every_repeat)
        raise Unstaged(f"`{program.name}` has rounds for {names}, and stages are made of one kind of rounds",
                       "leave `shard` to letters that count no rounds")
    if program.kept[found[0]]:
        raise Unstaged(f"`{program.kept[found[0]][0]}` is made in every round and read after the last, so it lies on "
                       "all stages", "give it on from round to round, as a state")
    return found[0]


def _with_starts(program: TypedProgram) -> TypedProgram:
    """The program in which every state begins with a value of its own, which nothing else reads."""
    (loop,), tensors, equations = program.repeats, dict(program.tensors), list(program.equations)
    read = [key for e in equations for key in e.reads] + [key for _, key in program.outputs]
    read += [first for _, first, _ in loop.states]
    states = []
    for state, first, following in loop.states:
        if read.count(first) > 1 or first not in program.by_target:
            start = unused(f"{state}_start", tensors)
            equations.insert(0 if first not in program.by_target else 1 + max(
                n for n, e in enumerate(equations) if e.target == first), _copy(start, first, tensors))
            first = start
        states.append((state, first, following))
    return program.but(equations=equations, tensors=tensors, loops=[replace(loop, states=tuple(states))])


def _copy(made: str, of: str, tensors: dict[str, Tensor]) -> Equation:
    """A value that is another one. Notes it among the tensors."""
    tensors[made] = replace(tensors[of], key=made, text=made, role="local")
    slots = tensors[of].slots
    names = [slot.name for slot in slots]
    own = [name if names.count(name) == 1 else other for name, other in zip(names, _letters(names), strict=False)]
    letters = tuple(Position(Index(name, slot.set)) for name, slot in zip(own, slots, strict=True))
    return Equation(made, letters, TRUE, Read(of, letters))


def _letters(taken: Iterable[str]) -> list[str]:
    """Letters that are none of some."""
    return [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in {*taken}]


class _Staging:
    """The programs while they are made."""

    def __init__(self, program: TypedProgram, loop: IndexLoop, axis: str, ranks: int, along: IndexSet) -> None:
        """Raises Unstaged."""
        self.program, self.loop, self.ranks = program, loop, ranks
        extent = loop.index.set.extent
        if len(extent.sizes) != 1 or extent != size(min(extent.sizes)):
            raise Unstaged(f"{loop.index.name} runs over {extent} rounds, of which no stage has a part",
                           f"count the rounds by a size of their own: `for {loop.index.name} in 1..N`")
        self.count = min(extent.sizes)
        fixed = program.sizes.get(self.count)
        if fixed is not None and fixed % ranks:
            raise Unstaged(f"{self.count} = {fixed} is no multiple of {axis} = {ranks}, so stages have no equal parts",
                           f"say `--mesh {axis}={_divisor(fixed, ranks)}`, for instance")
        self.rounds = unused(f"{self.count}_{axis}", {*program.tensors, *program.sizes})
        self.before = unused(f"{self.count}_before", program.tensors)
        self.inside = {*loop.inside}
        self.ahead, self.after = (piece.equations for piece in stretches(program))
        self.layers = {t.key: n for t in program.tensors.values() for n, s in enumerate(t.slots)
                       if s.set == loop.index.set}
        self._apart(along)

    def _apart(self, along: IndexSet) -> None:
        """Raises Unstaged where parts of a set do not go through the program one by one, or two stages would have one
        weight, or one stage would need the layers of another.
        """
        program, loop = self.program, self.loop
        for equation in program.equations:
            terms = (equation.domain, equation.body)
            if any(along in {i.set for i in bound_indices(t)} for root in terms for t in walk(root)):
                raise Unstaged(f"`{equation.target}` is folded over {along}, so what parts of it make is not a part",
                               "leave such folds, as that of a loss, to what follows the last stage")
        for name, key in program.outputs:
            if along not in [slot.set for slot in program.tensors[key].slots]:
                raise Unstaged(f"`{name}` has no letter of {along}, so no part of it is made of a part",
                               "name a letter in the parts that every output has")
        for equation in outside(program):
            if lying := sorted(equation.reads & self.layers.keys()):
                raise Unstaged(f"`{equation.target}` reads `{lying[0]}` of all rounds, and a stage has its own",
                               "read it in the rounds")
        for read in (r for e in program.equations for root in (e.domain, e.body) for r in reads(root)):
            if read.tensor in self.layers and read.subs[self.layers[read.tensor]] != Position(loop.index):
                raise Unstaged(f"a round reads `{read.tensor}` of another round, which another stage may have",
                               "read it at the round itself")
        for tensor in program.inputs():
            several = sum(any(tensor.key in e.reads for e in some) for some in (self.ahead, self._round, self.after))
            if tensor.role == "weight" and not tensor.constant and (several > 1 or (
                    tensor.key not in self.layers and any(tensor.key in e.reads for e in self._round))):
                raise Unstaged(f"the weight `{tensor.key}` is read in several stages, and its gradient would be a sum "
                               "over them", "give each of its places a weight of its own")

    @property
    def _round(self) -> tuple[Equation, ...]:
        """The equations of the rounds."""
        return tuple(e for e in self.program.equations if e.target in self.inside)

    def done(self) -> Stages:
        """The programs of the first, the middle and the last stages, with what each hands to the next."""
        program, loop = self.program, self.loop
        starts = [first for _, first, _ in loop.states]
        numbers = self._numbers()
        later = {key for e in (*self._round, *self.after) for key in e.reads} | {key for _, key in program.outputs}
        carried = [e.target for e in self.ahead if e.target in later - numbers.keys() and e.target not in starts]
        tensors = dict(program.tensors)
        on = {key: unused(f"{key}_on", tensors) for key in carried}
        copies = [_copy(made, key, tensors) for key, made in on.items()]
        handed = [*((key, state) for state, key, _ in loop.states), *on.items()]
        outputs = [(key, made) for key, made in handed]
        known = replace(program, tensors=tensors)
        given = [key for key, _ in handed]
        return Stages(
            self._made(known, "first", [*self.ahead, *self._round, *copies], outputs, ()),
            self._made(known, "between", [*numbers.values(), *self._round, *copies], outputs, given),
            self._made(known, "last", [*numbers.values(), *self._round, *self.after], program.outputs, given),
            tuple(given), self.count, self.rounds, self.before if self._counts() else "", self.layers)

    def _numbers(self) -> dict[str, Equation]:
        """What is made before the rounds of positions and sizes alone: every stage makes it itself."""
        found: dict[str, Equation] = {}
        for equation in self.ahead:
            if equation.reads <= found.keys():
                found[equation.target] = equation
        return found

    def _counts(self) -> bool:
        """Whether an equation of a round reads the number of the round, as a value or in its domain."""
        return any(_numbered(root, self.loop, self.layers) for e in self._round for root in (e.domain, e.body))

    def _made(self, program: TypedProgram, name: str, equations: Iterable[Equation], outputs: Iterable[tuple[str, str]],
              given: Iterable[str]) -> TypedProgram:
        """One program, with what it is given in place of what it would make, and without what nothing needs."""
        outputs, given, loop = tuple(outputs), set(given), self.loop
        by = {e.target: e for e in equations if e.target not in given}
        wanted = {key for _, key in outputs} | {key for state in loop.states for key in state} | {*loop.inside}
        needed = wanted | behind(by, wanted & by.keys()) | {key for e in self._round for key in e.reads}
        needed |= behind(by, needed & by.keys())
        order = [key for key in (e.target for e in program.equations) if key in by and key in needed]
        order += [key for key in by if key not in order and key in needed]
        tensors = {key: replace(t, role="input") if key in given else t for key, t in program.tensors.items()}
        if self._counts():
            tensors[self.before] = Tensor(self.before, self.before, (), "input", INTEGER)
        made = replace(program.but(equations=[by[key] for key in order], tensors=tensors, outputs=outputs),
                       name=f"{program.name}_{name}", idle=frozenset())
        return self._cut(made)

    def _cut(self, program: TypedProgram) -> TypedProgram:
        """The program with as many rounds as a stage has: slots count those, numbers all."""
        whole = self.loop.index.set
        part = replace(whole, extent=size(self.rounds))
        by = {self.count: size(self.rounds) * number(self.ranks)}
        index = replace(self.loop.index, set=part)

        def value(term: Term) -> Term:
            """A term that counts the rounds of a stage."""
            match term:
                case Position(here) if here.set == whole:
                    return added((Position(replace(here, set=part)), Read(self.before, ())))
                case Read(tensor, subs) if tensor in self.layers:
                    at = self.layers[tensor]
                    return Read(tensor, tuple(Position(index) if n == at else value(sub) for n, sub in enumerate(subs)))
                case Size(extent):
                    return Size(extent.put(by))
            return rebuild(term, tuple(map(value, children(term))))

        equations = [replace(e.map(value), axes=e.axes) for e in program.equations]
        tensors = {key: replace(t, slots=tuple(replace(s, set=part) if s.set == whole else s for s in t.slots))
                   for key, t in program.tensors.items()}
        loops = [loop.change(lambda key: key, lambda one: index if one == self.loop.index else one)
                 for loop in program.repeats]
        return replace(program.but(equations=equations, tensors=tensors, loops=loops),
                       sizes={k: n for k, n in program.sizes.items() if k != self.count})


def _numbered(term: Term, loop: IndexLoop, layers: Mapping[str, int]) -> bool:
    """Whether the number of a round stands in a term, but for where a round reads what is its own."""
    if isinstance(term, Read) and term.tensor in layers:
        return any(_numbered(sub, loop, layers) for n, sub in enumerate(term.subs) if n != layers[term.tensor])
    return term == Position(loop.index) or any(_numbered(kid, loop, layers) for kid in children(term))


def _divisor(count: int, most: int) -> int:
    """The largest number of stages below one that is too many, or does not divide the rounds."""
    return max(n for n in range(1, most + 1) if count % n == 0)
