"""Programs on meshes to try: which letters of a spec can be cut, the forward program and the gradient with their
inputs, and the distance between what virtual ranks make and what the interpreter makes of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from helpers import Arrays, arrays, distance, extent, meaning, typed_of
from programs import FILES, WITH_ROUNDS, Case
from virtual import Ranks

from einc.driver import pipeline
from einc.driver.commands.sizes import names
from einc.errors.problems import WrongData
from einc.errors.report import EincError
from einc.ir.indices import IndexSet
from einc.ir.programs import NormalProgram, Program, TypedProgram
from einc.ir.terms import Fold
from einc.meaning.sizes import solve_sizes
from einc.planning.placing import Axis, Meeting, Placed, placed, with_rings
from einc.planning.placing.states import OWN
from einc.transforms.gradients.backward import Derived, derive

EXACT = 1e-10
BY_NAME = {case.name: case for case in FILES}
# By their names, so that nothing is checked before the first test runs; a test holds these against the programs.
CUT = [case for case in FILES if case.name not in {*WITH_ROUNDS, "requests_packed"}]
# Why a spec, or a letter of one, is not tried: the whole list.
REFUSED = {
    "rounds": "rounds in order", "requests": "requests of different lengths", "gradient": "no gradient",
    "constant": "an extent that is fixed at an odd number", "sizes": "sizes that cannot be doubled",
}


@dataclass(frozen=True)
class Half:
    """A program with the arrays that it is given, and what it makes of them."""

    program: NormalProgram
    given: Arrays
    made: Arrays
    sizes: Mapping[str, int]

    def on(self, mesh: Sequence[Axis]) -> Placed:
        """The program on a mesh."""
        return placed(self.program, mesh, {n: self.sizes[n] for n in names(self.program) if n in self.sizes})

    def error(self, mesh: Sequence[Axis]) -> float:
        """How far what the ranks make is from the whole; each rank holds what its moves say that it does."""
        ranks = Ranks(self.on(mesh), self.sizes)
        made = ranks.run(self.given)
        assert all(move.held.at(self.sizes) == held for move, held in ranks.sent)
        return max(distance(np.asarray(made[key]), np.asarray(whole), 1e-3) for key, whole in self.made.items())


@cache
def _derived(case: Case) -> Derived | None:
    """The gradient of a case; None where it has none."""
    try:
        found = derive(typed_of(case))
    except EincError:
        return None
    return found if found.gradients else None


@cache
def programs(case: Case) -> tuple[NormalProgram, NormalProgram | None]:
    """The program of a case and that of its gradient."""
    found = _derived(case)
    if found is None:
        return pipeline.normal(typed_of(case)), None
    return pipeline.normal(found.forward), pipeline.normal(found.backward)


def half(case: Case, sizes: Mapping[str, int], grad: bool) -> Half:
    """A program with inputs. The gradient is given what the forward program saved, and random cotangents."""
    forward, backward = programs(case)
    given = arrays(typed_of(case), sizes, case.ranges)
    made = meaning(forward, given, sizes)
    if not grad:
        return Half(forward, given, made, sizes)
    found = _derived(case)
    assert backward is not None and found is not None
    saved, random = {key: first for first, key in found.saved}, np.random.default_rng(1)
    inputs = {t.key: made[saved[t.key]] if t.key in saved else given[t.key] if t.key in given
              else random.standard_normal([extent(s.set.extent, sizes) for s in t.slots]) for t in backward.inputs()}
    return Half(backward, inputs, meaning(backward, inputs, sizes), sizes)


def refusal(case: Case) -> str:
    """Why no letter of a spec is tried; empty where some are."""
    program = typed_of(case)
    if program.repeats:
        return "rounds"
    ragged = any(s.set.packed or s.set.by for t in program.tensors.values() for s in t.slots)
    return "requests" if ragged else ""


def sets(program: Program) -> list[IndexSet]:
    """Every set of a program that a letter may run over, with the components of composites."""
    found = dict.fromkeys(s.set for t in program.tensors.values() for s in t.slots)
    found |= dict.fromkeys(part for s in list(found) for part in program.splits.get(s, ()))
    found |= dict.fromkeys(i.set for e in program.equations for i in e.indices)
    found |= dict.fromkeys(i.set for t in program.terms if isinstance(t, Fold) for i in t.bound)
    return list(found)


def doubled(case: Case, cut: Sequence[IndexSet], ranks: int = 2) -> dict[str, int] | str:
    """Sizes at which the ranks divide the extents of some sets, or why there are none."""
    fixed = typed_of(case).sizes
    sizes = {**case.sizes, **fixed}
    for one in (*cut, *cut):
        constant = one.extent.constant
        if constant is not None and constant % ranks:
            return "constant"
        if not one.extent.sizes <= sizes.keys():
            return "sizes"
        for name in sorted(one.extent.sizes - fixed.keys()):
            if one.extent.at(sizes) % ranks or not sizes[name]:
                sizes[name] = max(sizes[name], 1) * ranks
    return sizes if all(one.extent.at(sizes) % ranks == 0 for one in cut) else "sizes"


def sized(case: Case, cut: Sequence[IndexSet]) -> dict[str, int] | str:
    """The same, where the inputs then agree with each other: two extents may be made of each other."""
    sizes = doubled(case, cut)
    if isinstance(sizes, str):
        return sizes
    program = typed_of(case)
    try:
        shapes = {t.key: tuple(extent(s.set.extent, sizes) for s in t.slots) for t in program.inputs()}
        solve_sizes(program, shapes, {n: sizes[n] for n in names(program) if n in sizes})
    except WrongData:
        return "sizes"
    return sizes


def tried(case: Case, cut: Sequence[IndexSet], grad: bool) -> Half | str:
    """A program at sizes at which some sets can be cut, or why there are none."""
    sizes = sized(case, cut)
    return sizes if isinstance(sizes, str) else half(case, sizes, grad)


def cases(case: Case, grad: bool) -> Iterator[IndexSet]:
    """The sets that are tried of a program."""
    program = programs(case)[grad]
    yield from sets(program) if program is not None else ()


def axes(program: TypedProgram, mesh: Mapping[str, int], cut: Mapping[str, str],
         meet: Mapping[str, tuple[str, str, str]] | None = None) -> tuple[Axis, ...]:
    """A mesh, with letters of one character to cut on each axis."""
    by = letters(program)
    out = []
    for name, ranks in mesh.items():
        said = (meet or {}).get(name)
        own = said is not None and said[1] in OWN
        met = (Meeting(said[0], said[1], by.get(said[0] if own else said[2])),) if said else ()  # type: ignore[arg-type]
        balanced = met[0].by if said and said[2] == "balanced" else None
        out.append(Axis(name, ranks, tuple(by[x] for x in cut[name]), met, balanced=balanced))
    return with_rings(out)


def letters(program: Program) -> dict[str, IndexSet]:
    """The set of each letter of a program."""
    out: dict[str, IndexSet] = {}
    for tensor in program.tensors.values():
        for slot in tensor.slots:
            out.setdefault(slot.name, slot.set)
    for equation in program.equations:
        for index in equation.indices:
            out.setdefault(index.name, index.set)
    return out
