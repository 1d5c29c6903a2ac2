"""Loops whose states are affine, written without a state: what positions write, as a triangular system.

Where S_t = g_t S_{t-1} + Σ k_t v_t + Σ u_t (c_t + w_t · S_{t-1}), each factor x_t = c_t + w_t · S_{t-1} is c_t and,
with P the product of the gates between two positions, w_t · P u_s x_s and w_t · P k_s v_s of every earlier position s,
and w_t · P S_0. What is read of S_t is the same with other vectors in place of w. The texts are for readers and tests:
a tile of a plan solves the same system for some positions at a time. Non-goals: states whose elements go each their
own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TypeVar

from einc.ir.draft import Draft
from einc.ir.indices import Index, distinct
from einc.ir.programs import Equation, IndexLoop, Program, local
from einc.ir.sums import added, product
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    both,
    children,
    rebuild,
    substitute,
)
from einc.planning.recurrences.affine import with_affine
from einc.planning.recurrences.found import Affine, Operand
from einc.transforms.slicing.lags import with_lags
from einc.transforms.slicing.repeats import round_of

P = TypeVar("P", bound=Program)


def unrolled(program: P) -> P | None:
    """The program with each affine state whose letters are summed written so; None where it has no such state."""
    program, found = with_affine(with_lags(program))
    program, inner = _rounds(program)
    loops = {loop: one for loop, one in found.items() if isinstance(one, Affine)}
    if not loops:
        return program if inner else None
    made, repeats = Draft(program.tensors), list[IndexLoop]()
    gone = {key for loop in loops for key in loop.inside}
    outputs = {key for _, key in program.outputs}
    for repeat in program.repeats:
        if repeat in loops:
            work = _Unrolled(made, repeat, loops[repeat], program.by_target)
            work.run(any(work.state in e.reads for e in program.equations if e.target not in gone)
                     or work.state in outputs)
            repeats += [IndexLoop(repeat.index, (), work.written)] if work.written else []
        else:
            repeats.append(repeat)
    by = {e.target: e for e in program.equations if e.target not in gone} | {e.target: e for e in made.equations}
    every = [inner for loop in repeats for inner in loop.every]
    read = outputs | {key for loop in every for _, *keys in loop.states for key in keys}
    by = {key: e for key, e in by.items() if key in read.union(*(x.reads for x in by.values()))}
    inside = {key: {*loop.inside} for loop in every for key in loop.inside}
    order = TopologicalSorter({key: sorted((e.reads & by.keys()) - inside.get(key, set())) for key, e in by.items()})
    equations = [by[key].map(lambda term: _legible(term, {i.name for i in by[key].indices}))  # noqa: B023
                 for key in order.static_order()]
    return program.but(equations=equations, tensors=made.tensors, loops=repeats)


def _rounds(program: P) -> tuple[P, bool]:
    """The program with such states in rounds of other loops written so, and whether there are any."""
    equations, loops = {e.target: e for e in program.equations}, list(program.loops)
    tensors, changed = dict(program.tensors), False
    for n, repeat in enumerate(loops):
        if not isinstance(repeat, IndexLoop) or not repeat.loops:
            continue
        one = round_of(program, repeat)
        made = unrolled(replace(one.program, tensors={**tensors, **one.program.tensors}))
        if made is not None:
            changed = True
            tensors |= {key: one.whole(t) for key, t in made.tensors.items() if key not in tensors}
            equations = {key: e for key, e in equations.items() if key not in repeat.inside}
            equations |= {e.target: one.restored(e) for e in made.equations}
            loops[n] = replace(repeat, inside=tuple(e.target for e in made.equations), loops=made.repeats)
    tensors = {key: t for key, t in tensors.items() if key in program.tensors or key in equations}
    return (program.but(equations=equations.values(), tensors=tensors, loops=loops) if changed else program), changed


def _legible(term: Term, taken: set[str]) -> Term:
    """The term with letters of sums that a text may have."""
    if isinstance(term, Fold):
        plain = distinct((replace(i, name=i.name.partition("·")[0]) for i in term.bound), taken)
        by: dict[Index, Term] = {i: Position(j) for i, j in zip(term.bound, plain, strict=True)}
        inner = taken | {i.name for i in plain}
        return Fold(term.op, plain, _legible(substitute(term.domain, by), inner),
                    _legible(substitute(term.body, by), inner))
    return rebuild(term, tuple(_legible(kid, taken) for kid in children(term)))


class _Unrolled:
    """One state. `written` are the tensors of what positions write, which are made in one loop: a position needs those
    before it; `draft` grows by all equations.
    """

    def __init__(self, draft: Draft, loop: IndexLoop, found: Affine, by: Mapping[str, Equation]) -> None:
        """Makes the products of gates as equations, and the tensors of what positions write without theirs."""
        self.draft, self.found, self.at = draft, found, loop.index
        ((self.state, self.first, _),) = loop.states
        self.begins = self.first not in by or by[self.first].body != ZERO  # with something to scale
        self.gated = found.gate.tensor not in by or by[found.gate.tensor].body != ONE
        taken = {i.name for i in (*found.letters, loop.index)}
        self.earlier, self.between = distinct((loop.index, loop.index), taken)
        gate = [i for i in found.gate.letters if i != loop.index]
        self.gates = {(own, begun): self._product(gate, own, begun) for own in (False, True) for begun in (False, True)}
        self.written = tuple(draft.tensor(f"{self.state}_written", local("", (loop.index, *self._through())).slots)
                             for _ in found.unknown)

    def run(self, last: bool) -> None:
        """Adds the equations of what is written and of what is read, and with `last` that of the last state."""
        for name, (_, w, c) in zip(self.written, self.found.unknown, strict=True):
            axes = (self.at, *self._through())
            self._add(name, axes, added([self._at(c), *self._met(w, False)]))
        for name, q, own in self.found.reads:
            self._add(name, (self.at, *self._through()), added(self._met(q, own) or [ZERO]))
        if last:
            self.draft.add(self._last())

    def _through(self) -> tuple[Index, ...]:
        """The letters of the state that what is read of it has, in the order of the state."""
        return tuple(i for i in self.found.letters if i not in self.found.met)

    def _add(self, name: str, axes: tuple[Index, ...], body: Term) -> None:
        slots = {s.name: s for s in self.draft.tensors[name].slots}
        letters = tuple(i for s in self.draft.tensors[name].slots for i in axes if i.name == s.name)
        assert len(letters) == len(slots) == len(axes)
        self.draft.add(Equation(name, tuple(map(Position, letters)), TRUE, body))

    def _product(self, gate: list[Index], own: bool, begun: bool) -> Operand:
        """The product of the gates between two positions, or from the first one on; up to the later one where it is the
        position's `own`, or before it.
        """
        rule, letters = "le" if own else "lt", (self.at, *(() if begun else (self.earlier,)), *gate)
        upto = Apply(rule, (Position(self.between), Position(self.at)))
        after = TRUE if begun else Apply("lt", (Position(self.earlier), Position(self.between)))
        exists = TRUE if begun else Apply(rule, (Position(self.earlier), Position(self.at)))
        name = ("whole" if begun else "upto") if own else ("past" if begun else "between")
        made = self.draft.value(f"{self.state}_{name}", letters, self._gates(both(after, upto)), exists)
        return Operand(made.tensor, letters)

    def _gates(self, domain: Term) -> Fold:
        """The product of the gates of some positions."""
        letters = (self.between if i == self.at else i for i in self.found.gate.letters)
        return Fold("prod", (self.between,), domain, Read(self.found.gate.tensor, tuple(map(Position, letters))))

    def _last(self) -> Equation:
        """The state after the last position."""
        letters, gate = self.found.letters, tuple(i for i in self.found.gate.letters if i != self.at)
        after = Apply("lt", (Position(self.earlier), Position(self.between)))
        rest = [self.draft.value(f"{self.state}_later", (self.earlier, *gate), self._gates(after))] * self.gated
        all_ = [self.draft.value(f"{self.state}_gates", gate, self._gates(TRUE))] * self.gated
        out = [product((*all_, Read(self.first, tuple(map(Position, letters)))))] if self.begins else list[Term]()
        out += [Fold("sum", (self.earlier,), TRUE, product((*rest, self._at(direction, True), value)))
                for direction, value in self._writes()]
        return Equation(self.state, tuple(map(Position, letters)), TRUE, added(out or [ZERO]))

    def _writes(self) -> list[tuple[Operand, Term]]:
        """What an earlier position writes: a vector, and what it is multiplied with."""
        through = tuple(map(Position, self._through()))
        out: list[tuple[Operand, Term]] = [
            (u, Read(name, (Position(self.earlier), *through)))
            for name, (u, _, _) in zip(self.written, self.found.unknown, strict=True)]
        return [*out, *((k, self._at(v, True)) for k, v in self.found.known)]

    def _at(self, operand: Operand, other: bool = False) -> Read:
        """An operand at the position, or at the `other`, earlier one."""
        return Read(operand.tensor, tuple(
            Position(self.earlier if other and i == self.at else i) for i in operand.letters))

    def _met(self, vector: Operand, own: bool) -> list[Term]:
        """What a vector reads of the state: after the position's `own` update, or before it."""
        begun, gates = self.gates[own, True], self.gates[own, False]
        start = Read(self.first, tuple(map(Position, self.found.letters)))
        out = [self._summed(product((self._at(vector), *self._scale(begun), start)))] if self.begins else list[Term]()
        upto = Apply("le" if own else "lt", (Position(self.earlier), Position(self.at)))
        for direction, value in self._writes():
            inner = product((self._at(vector), *self._scale(gates), self._at(direction, True)))
            out.append(Fold("sum", (self.earlier,), upto, product((self._summed(inner), value))))
        return out

    def _scale(self, gates: Operand) -> tuple[Read, ...]:
        """The product of the gates, where they are not all 1."""
        return (self._at(gates),) if self.gated else ()

    def _summed(self, term: Term) -> Term:
        return Fold("sum", self.found.met, TRUE, term)
