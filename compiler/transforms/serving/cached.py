"""What of the past is kept: every way that is sound, and the one that was asked for.

A tensor that is read of the past is kept, or made again from what it is made of, which then is read of the past. What
no data is in is always made again; what a later position may change must be. Non-goals: which way is the cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod

from einc.ir.indices import IndexSet
from einc.ir.programs import Program, TypedProgram
from einc.ir.terms import Join
from einc.transforms.serving.append_stable import AppendStability, append_stability
from einc.transforms.serving.lookback import back
from einc.transforms.serving.parts import apart
from einc.transforms.serving.step import Step, Unkept, stepped
from einc.transforms.slicing.requests import numbered

__all__ = ["Refused", "append_stability", "asked", "dropping", "growing", "numbered", "ways"]
_FEW = 4  # of each program: the first, which makes least again, and those that keep least


@dataclass(frozen=True)
class Refused(Exception):  # noqa: N818 - told to the user by the front
    """Raised where a program has no step over a cache: a statement of the reason, and what to write in place of it."""

    said: str
    help: str


def growing(program: TypedProgram) -> IndexSet:
    """The positions that a generation adds to. Refused where the outputs have none, or not one set of them."""
    tensors = [program.tensors[key] for _, key in program.outputs]
    sets = dict.fromkeys(s.set for t in tensors for s in t.slots if s.set.cls == "time")
    inner = [s for s in sets
             if any(t.role == "input" and s in {x.set for x in t.slots} for t in program.tensors.values())]
    if len(inner) != 1:
        several = f"several sets of positions, {' and '.join(map(str, inner))}, and a generation adds to one"
        raise Refused(f"`{program.name}` has {several if inner else 'no positions that a generation could add to'}",
                      "an output and an input over the same `time(T)` are what grows")
    (found,) = inner
    if found.packed is not None:
        raise Refused(f"`{program.name}` has the positions of all requests one after the other, and a step keeps the "
                      "past of each request apart",
                      "write it for one request, with `index t : time(T)`: a step takes several, with a past each")
    if found.by or len(found.extent.sizes) != 1 or found.extent.constant is not None or found.start != 1:
        raise Refused(f"positions of {found} are not counted by one size", "declare them as `index t : time(T)`")
    _ordered(program, found)
    for other in _fixed(program, found):
        raise Refused(f"{other} changes with the number of positions", "give its extent a size of its own")
    for name, key in program.outputs:
        if not any(s.set == found for s in program.tensors[key].slots):
            raise Refused(f"the output `{name}` has no position, so no step adds to it",
                          "leave it out of what is generated")
    return found


def _fixed(program: TypedProgram, along: IndexSet) -> list[IndexSet]:
    """The other sets that the number of positions is part of, where what has them is given, or goes from round to
    round: a step makes again what has any other such set."""
    sets = dict.fromkeys(s.set for t in program.tensors.values() if t.role not in ("local", "derived") for s in t.slots)
    sets |= dict.fromkeys(s.set for loop in program.every_repeat for state in loop.states for key in state
                          for s in program.tensors[key].slots)
    sets |= dict.fromkeys(loop.index.set for loop in program.every_repeat)
    sets |= dict.fromkeys(i.set for parts in program.sums.values() for i in parts)
    sets |= dict.fromkeys(s for parts in program.splits.values() for s in parts)
    return [s for s in (*sets, *program.sums, *program.splits) if s != along and s.extent.sizes & along.extent.sizes]


def _ordered(program: TypedProgram, along: IndexSet) -> None:
    """Raises Refused where a loop over the positions leaves more than states of one size, or stands beside other loops.
    """
    outer = [loop for loop in program.repeats if loop.index.set == along]
    if outer and len(outer) < len(program.repeats):
        raise Refused(f"`{program.name}` has rounds over positions and others beside them, and a step goes through one "
                      "kind", "take the layer of one round, or put the rounds over positions into the others")
    mine = [loop for loop in program.every_repeat if loop.index.set == along]
    for loop in (inner for one in mine for inner in one.loops):
        raise Refused(f"`{program.name}` has rounds for {loop.index.name} at each position, and a step goes through "
                      "positions alone", "put the rounds over positions into the others")
    for state in (state for loop in mine for state, _, _ in loop.states):
        if program.tensors[state].count(along):
            raise Refused(f"`{state}` has a value for each position while positions are taken in order, and a cache "
                          f"holds states of one size", "compile it without a step")


def ways(program: TypedProgram, along: IndexSet, known: AppendStability, sizes: Mapping[str, int]) -> list[Step]:
    """The steps that keep append-stable values, first the one that keeps those nearest to where they are read; each
    further one keeps less and computes more of it again.
    Raises Refused."""
    for name, key in program.outputs:
        if key in known.owing:
            who = f": `{known.later[key]}` does" if known.later[key] != key else ""
            raise Refused(f"`{name}` reads later positions{who}", "restrict it, `s ≤ t` for instance")
    for state in (state for loop in program.every_repeat if loop.index.set == along for state, _, _ in loop.states):
        if state in known.lengths:
            raise Refused(f"what a step leaves of `{state}` would change with the number of positions, which "
                          f"`{known.lengths[state]}` has in it", "make it of what each position has")
    split, out, why = apart(program), list[Step](), list[Refused]()
    for whole in [program] if split is program else [program, split]:
        search = _Search(whole, along, known, sizes)
        mine = [replace(step, split=whole is split) for step in search.steps(frozenset(), frozenset())]
        out += mine if len(mine) <= _FEW else [mine[0], *mine[1 - _FEW :]]
        why += search.why
    if not out:
        raise why[0]
    return out


@dataclass
class _Search:
    """The ways of one program; of those that keep as much as one before them nothing is to be had."""

    program: TypedProgram
    along: IndexSet
    known: AppendStability
    sizes: Mapping[str, int]
    least: float = inf
    why: list[Refused] = field(default_factory=list)  # where a way ended without a step

    def steps(self, kept: frozenset[str], made: frozenset[str]) -> Iterator[Step]:
        """All ways that keep some tensors and make others again: the first that nothing
        is said of yet goes either way."""
        room = sum(self._row(key) for key in kept)
        if room >= self.least:
            return
        try:
            step = stepped(self.program, self.along, kept, made)
        except Unkept as asked:
            yield from self._either(asked.tensor, kept, made)
        else:
            self.least = room
            yield step

    def _either(self, key: str, kept: frozenset[str], made: frozenset[str]) -> Iterator[Step]:
        """The steps that keep one more tensor, then those that make it again. Where neither is possible the reason
        goes to `why`."""
        ordered = any(key in r.inside for r in self.program.every_repeat if r.index.set == self.along)
        again = self.program.equation(key) is not None and not ordered
        single = self.program.tensors[key].count(self.along) == 1
        keeps = key in self.known and key in self.known.data and single and not counted(self.program, key, self.along)
        if keeps:
            yield from self.steps(kept | {key}, made)
        if again:
            yield from self.steps(kept, made | {key})
        elif not keeps:
            pairs = f"`{key}` is given for pairs of positions, and the past of these is needed"
            said = pairs if key in self.known else f"the past of `{key}` is needed, and {reason(self.known, key)}"
            self.why.append(Refused(said, "make it of what each position has"))

    def _row(self, key: str) -> float:
        """How many elements of a tensor belong to one position."""
        return prod(float(s.set.extent.at(self.sizes)) for s in self.program.tensors[key].slots if s.set != self.along)


def dropping(program: TypedProgram, along: IndexSet, step: Step) -> Step:
    """The step, where it reads no more than a fixed number of past positions as one that may drop those before them."""
    found = back(step, step.whole, along) if step.caches else None
    if found is None:
        return step
    kept = frozenset(key for key, _, _ in step.caches)
    whole = apart(program) if step.split else program
    return replace(stepped(whole, along, kept, frozenset(program.tensors) - kept, drops=True), back=found)


def asked(program: TypedProgram, along: IndexSet, known: AppendStability, names: frozenset[str]) -> Step:
    """The step that keeps just these. Raises Refused where one is not append-stable, or another has to be kept."""
    able = f"those that can be kept are {_listed(program, along, known)}"
    for name in sorted(names):
        if name not in program.tensors:
            raise Refused(f"`{name}` is no tensor of `{program.name}`", able)
        if name not in known:
            raise Refused(f"`{name}` cannot be kept: {reason(known, name)}",
                          "keep what it is made of, and let it be made again")
        if program.tensors[name].count(along) != 1 or name not in known.data or counted(program, name, along):
            raise Refused(f"`{name}` has no row for each position", able)
    free = frozenset(program.tensors) - names
    split = any(isinstance(e.body, Join) and e.target not in names for e in program.equations)
    try:
        step = replace(stepped(apart(program) if split else program, along, names, free), split=split)
    except Unkept as missing:
        raise Refused(f"`{missing.tensor}` is needed of the past too, and nothing that is kept gives it",
                      f"keep it as well: {', '.join(sorted({*names, missing.tensor}))}") from None
    idle = names - {key for key, _, _ in step.caches}
    if idle:
        raise Refused(f"nothing reads the past of {', '.join(f'`{n}`' for n in sorted(idle))}", "leave it out")
    return step


def counted(program: Program, key: str, along: IndexSet) -> bool:
    """Whether a tensor has another axis that the number of positions is part of: its rows grow with the text."""
    return any(s.set != along and s.set.extent.sizes & along.extent.sizes for s in program.tensors[key].slots)


def reason(known: AppendStability, key: str) -> str:
    """The words that say why a tensor is not append-stable: it reads later positions, or how many there are."""
    if key in known.lengths:
        where = known.lengths[key]
        own = "it depends" if where == key else f"`{where}` depends"
        return f"{own} on the number of positions, which grows while a text is made"
    return f"`{known.later.get(key, key)}` reads later positions"


def _listed(program: Program, along: IndexSet, known: AppendStability) -> str:
    able = [k for k in program.tensors if k in known and k in known.data and program.tensors[k].count(along) == 1]
    return ", ".join(f"`{k}`" for k in able)
