"""What may be kept of a position: values that nothing later changes.

A value of a position is settled if neither a later position nor the number of positions has a part in it. An angle that
grows with the length, say, is not, and nothing that it turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.checking.programs.causality import leaking
from einc.ir.indices import IndexSet
from einc.ir.programs import Program
from einc.ir.terms import Size, Term, walk


@dataclass(frozen=True)
class Settled:
    """Of each tensor that is not settled, why: the tensor on which it depends that says
    so. `data` are those with input in them, `owing` those whose value at a position may read later ones: what is made
    of a value that is not settled may have proved that it does not."""

    later: Mapping[str, str]
    lengths: Mapping[str, str]
    data: frozenset[str]
    owing: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key not in self.later and key not in self.lengths


def settled(program: Program, along: IndexSet) -> Settled:
    """What is known of every tensor's values at the positions of a set."""
    names = along.extent.sizes
    own = {e.target: e.target for e in program.equations if any(_counts(t, names) for t in (e.body, e.domain))}
    # What is proved of a reader is proved of all positions at once: it does not say that a part of it could be kept.
    owing = {key: where for key, found in leaking(program).items() for into, where in found.items() if into == along}
    later = reached(program, owing)
    data = {t.key for t in program.tensors.values() if t.role == "input" and any(s.set == along for s in t.slots)}
    return Settled(later, reached(program, own), frozenset(reached(program, {key: key for key in data})),
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
