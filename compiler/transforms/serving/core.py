"""The part of a program between tensors that another program makes and one that it goes on with.

That part as it stands in other models: for a batch, with positions of the past given whole, and with positions left out
that the data says are none, so that whoever calls it brings projections and a cache of their own. Non-goals: rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from einc.ir.dependence import needed
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import WIDTH, Index, IndexSet, size
from einc.ir.programs import Equation, Slot, Tensor, TypedProgram
from einc.ir.terms import ONE, Apply, Fold, Position, Read, Term, both, reads, transform
from einc.transforms.serving import append_stable
from einc.transforms.serving.cached import Refused, growing, ways
from einc.transforms.serving.step import Step, Unkept, stepped


@dataclass(frozen=True)
class Middle:
    """The part: `new` is given for new positions, `whole` for all, each with features; `further` is what is given for
    all positions besides, `present` says which of all there are; `result` is made."""

    program: TypedProgram
    new: tuple[str, ...]
    whole: tuple[str, ...]
    further: frozenset[str]
    present: str
    result: str


def middle(program: TypedProgram, sizes: Mapping[str, int], *, padded: bool,
           named: frozenset[str] = frozenset()) -> Middle:
    """The part of a program that mixes positions: from the tensors whose rows each belong to one position, to the
    first result of which that holds again. `named` tensors are inputs of it; tensors without a feature axis, such as
    tables of positions, are computed in it. `sizes` are numbers for sizes; with `padded` texts of unequal length stand
    in one batch, and a mask of the rows that exist is an input. Raises Refused where no position reads another."""
    if program.repeats:
        raise Refused(f"`{program.name}` has rounds, and no one place for another model's values",
                      "take the layer of one round")
    along = growing(program)
    step = ways(program, along, append_stable.append_stability(program, along), sizes)[0]
    whole = tuple(key for key, _, _ in step.caches)
    if not whole:
        raise Refused(f"no position of `{program.name}` reads another", "take a spec in which one does")
    result, new = _edges(program, along, frozenset(whole))
    wide = {k for k, t in program.tensors.items() if any(s.set.cls in WIDTH for s in t.slots)} - named
    new, whole = (tuple(k for k in keys if k in wide) for keys in (new, whole))
    inner = between(program, (*new, *whole, *named & program.by_target.keys()), result)
    inner = lifted(inner, along)
    present = ""
    if padded:
        inner, present = restricted(inner, along)
    made, given = _given(inner, along, frozenset({*whole, present} - {""}))
    return Middle(made.program, new, whole, given - {*whole, present}, present, result)


def _given(program: TypedProgram, along: IndexSet, given: frozenset[str]) -> tuple[Step, frozenset[str]]:
    """The program of new positions, and what is given for all of them: some tensors, and each input whose past is
    needed. Refused where the past of something else is.
    """
    while True:
        try:
            made = stepped(program, along, frozenset(), frozenset(program.tensors) - given, given=given)
        except Unkept as missing:
            key = missing.tensor
            if program.equation(key) is not None or program.tensors[key].count(along) != 1:
                raise Refused(f"the past of `{key}` is needed, which is no value of one position",
                              "make it of what each position has") from None
            given |= {key}
        else:
            return made, given


def _edges(program: TypedProgram, along: IndexSet, whole: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The last value of one position before it meets no other any more, and what it has of its own position besides.
    Raises Refused."""
    by = program.by_target
    pairs, data = reached(program, whole), append_stable.append_stability(program, along).data
    last = [k for k in by if k in pairs and program.tensors[k].count(along) == 1 and any(
        r.tensor in whole or program.tensors[r.tensor].count(along) > 1 for r in reads(by[k].body))]
    last = [k for k in last if not reached(program, frozenset({k})) & set(last)]
    if len(last) != 1:
        raise Refused(f"`{program.name}` has {len(last)} results that read the past", "take a spec with one")
    (result,) = last
    inside, stack, new = set[str](), [result], dict[str, None]()
    while stack:
        key = stack.pop()
        if key in inside or key not in by:
            continue
        inside.add(key)
        for read in [r for t in (by[key].body, by[key].domain) for r in reads(t)]:
            if read.tensor in pairs or program.tensors[read.tensor].count(along) > 1:
                stack += [] if read.tensor in whole else [read.tensor]
            elif program.tensors[read.tensor].count(along) == 1 and read.tensor in data:
                new[read.tensor] = None
            else:
                stack.append(read.tensor)
    return result, tuple(k for k in new if k not in whole)


def reached(program: TypedProgram, start: frozenset[str]) -> set[str]:
    """The tensors that depend on some tensors, without these."""
    return append_stable.reached(program, {key: key for key in start}).keys() - start


def between(program: TypedProgram, given: Iterable[str], result: str) -> TypedProgram:
    """The equations that lead from given tensors, which are inputs now, to the result."""
    inputs = frozenset(given)
    tensors = {k: replace(t, role="input") if k in inputs and t.role == "local" else t
               for k, t in program.tensors.items()}
    by = {e.target: e for e in program.equations if e.target not in inputs}
    return program.but(tensors=tensors, equations=needed(by, [result]), outputs=[(result, result)],
                       loops=program.repeats)


def lifted(program: TypedProgram, along: IndexSet) -> TypedProgram:
    """The program for a batch, where it has none: all that data is in has the batch's index first."""
    data = append_stable.append_stability(program, along).data
    data |= {t.key for t in program.inputs() if t.role == "input"}
    if any(s.set.cls in ("batch", "request") for key in data for s in program.tensors[key].slots):
        return program
    names = {n for t in program.tensors.values() for s in t.slots for n in s.set.extent.sizes} | program.sizes.keys()
    letters = {s.name for t in program.tensors.values()
               for s in t.slots} | {i.name for e in program.equations for i in e.indices}
    batch = Index(unused("n", letters), IndexSet("batch", size(unused("B", names | program.tensors.keys()))))
    here, slot = Position(batch), Slot(batch.set, "lower", batch.name)

    def read(term: Term) -> Term:
        return Read(term.tensor, (here, *term.subs)) if isinstance(term, Read) and term.tensor in data else term

    def lift(e: Equation) -> Equation:
        axes = (here, *e.axes) if e.target in data else e.axes
        return Equation(e.target, axes, transform(e.domain, read), transform(e.body, read), e.source)

    tensors = {k: replace(t, slots=(slot, *t.slots)) if k in data else t for k, t in program.tensors.items()}
    return replace(program, tensors=tensors, equations=tuple(map(lift, program.equations)))


def restricted(program: TypedProgram, along: IndexSet) -> tuple[TypedProgram, str]:
    """The program over those positions alone that an input says are present, and that
    input: 1 for a position that is."""
    name = unused("present", program.tensors)
    batch = next((s for t in program.inputs() for s in t.slots if s.set.cls in ("batch", "request")), None)
    letter = next(s.name for t in program.inputs() for s in t.slots if s.set == along)
    slots = (*([batch] if batch else []), Slot(along, "lower", letter))
    front = (Position(Index(batch.name, batch.set)),) if batch else ()

    def over(term: Term) -> Term:
        if not isinstance(term, Fold) or not any(b.set == along for b in term.bound):
            return term
        asked = [Apply("eq", (Read(name, (*front, Position(b))), ONE)) for b in term.bound if b.set == along]
        return replace(term, domain=both(term.domain, *asked))

    made = tuple(replace(e, body=transform(e.body, over)) for e in program.equations)
    tensor = Tensor(name, name, slots, "input", INTEGER)
    return replace(program, tensors={**program.tensors, name: tensor}, equations=made), name
