"""Which values a cache may keep: those of a position that stay the same when positions are appended.

A value of a position is append-stable if it depends neither on later positions nor on how many positions there are.
An angle that grows with the length is not append-stable, and neither is a vector that it rotates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.checking.programs.causality import leaking
from einc.ir.indices import IndexSet
from einc.ir.programs import Program
from einc.ir.terms import Size, Term, walk


@dataclass(frozen=True)
class AppendStability:
    """Which tensors are not append-stable, and why. `later` maps each tensor that depends on later positions to the
    tensor that reads them, `lengths` each that depends on the number of positions to the tensor that reads it. `data`
    are the tensors that depend on an input with these positions. `owing` are the tensors that may read later positions
    themselves; a tensor made of them may be proved not to depend on these."""

    later: Mapping[str, str]
    lengths: Mapping[str, str]
    data: frozenset[str]
    owing: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key not in self.later and key not in self.lengths


def append_stability(program: Program, along: IndexSet) -> AppendStability:
    """Which tensors of a program are append-stable along the positions of a set, and why the others are not."""
    names = along.extent.sizes
    own = {e.target: e.target for e in program.equations if any(_counts(t, names) for t in (e.body, e.domain))}
    # What is proved of a reader is proved of all positions at once: it does not say that a part of it could be kept.
    owing = {key: where for key, found in leaking(program).items() for into, where in found.items() if into == along}
    later = reached(program, owing)
    data = {t.key for t in program.tensors.values() if t.role == "input" and any(s.set == along for s in t.slots)}
    return AppendStability(later, reached(program, own), frozenset(reached(program, {key: key for key in data})),
                   frozenset(owing))


def _counts(term: Term, names: frozenset[str]) -> bool:
    return any(isinstance(x, Size) and x.extent.sizes & names for x in walk(term))


def reached(program: Program, found: Mapping[str, str]) -> dict[str, str]:
    """All that depends on some tensors, through rounds too, each with what is said of the one it depends on."""
    out, before = dict(found), -1
    while before < (before := len(out)):
        for repeat in program.every_repeat:
            for state, *others in repeat.states:
                source = next((out[k] for k in others if k in out), None)
                if source is not None:
                    out.setdefault(state, source)
        for equation in program.equations:
            source = next((out[k] for k in sorted(equation.reads) if k in out), None)
            if source is not None:
                out.setdefault(equation.target, source)
    return out
