"""Folds over the data that read the same columns: one pass over them makes all.

A column is what a matrix has at one position of the model for each of the data: the gradients of a norm's scale and of
its shift are sums over columns of the same matrix. Sums that are products of matrices stay alone, and so do plain sums
that no other fold passes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from einc.ir.indices import DATA, Index
from einc.ir.programs import Equation
from einc.ir.sums import factors
from einc.ir.terms import TRUE, Fold, Position, Read, free_indices, reads
from einc.planning.contractions.materialise import plain_subs
from einc.planning.fusing.rows import relettered

Columns = tuple[Equation, ...]


@dataclass(frozen=True)
class _Pass:
    """A fold over the data with what it alone is made of; `wide` are what it reads at every index that it has."""

    equations: Columns
    fold: Equation
    wide: Mapping[str, Read]

    @property
    def computes(self) -> bool:
        """Whether the fold is over values that the kernel computes, for which no library has a call."""
        assert isinstance(self.fold.body, Fold)
        return len(self.equations) > 1 or not all(isinstance(x, Read) for x in factors(self.fold.body.body))


def found(equations: Columns, virtual: frozenset[str]) -> _Pass | None:
    """The pass that the equations of a kernel are, if they are one."""
    stored = [e for e in equations if e.target not in virtual]
    fold = stored[0] if len(stored) == 1 else None
    if fold is None or not isinstance(fold.body, Fold) or fold.domain != TRUE or fold.body.domain != TRUE:
        return None
    every = {*fold.indices, *fold.body.bound}
    alone = len(fold.body.bound) == 1 and fold.body.bound[0].set.cls in DATA
    few = bool(fold.indices) and not any(i.set.cls in DATA for i in fold.indices)
    within = all(set(e.indices) <= every and not isinstance(e.body, Fold) for e in equations if e is not fold)
    if not (alone and few and within and all(isinstance(a, Position) for a in fold.axes)):
        return None
    wide = {r.tensor: r for e in equations for r in reads(e.body)
            if r.tensor not in virtual and plain_subs(r) and free_indices(r) == every}
    return _Pass(equations, fold, wide) if wide else None


def joined(one: _Pass, other: _Pass) -> Columns | None:
    """The equations of two passes as those of one, in the letters of the first; None where they read nothing in common
    at the same place, or a library does both.
    """
    for key in one.wide.keys() & other.wide.keys() if one.computes or other.computes else ():
        letters = dict[Index, Index]()
        for mine, theirs in zip(one.wide[key].subs, other.wide[key].subs, strict=True):
            assert isinstance(mine, Position) and isinstance(theirs, Position)
            letters[theirs.index] = mine.index
        assert isinstance(one.fold.body, Fold) and isinstance(other.fold.body, Fold)
        if letters[other.fold.body.bound[0]] == one.fold.body.bound[0]:
            known = {e.target for e in one.equations}
            more = (relettered(e, letters) for e in other.equations if e.target not in known)
            return (*one.equations, *more)
    return None


def together(made: Iterable[tuple[Columns, frozenset[str]]],
             needs: Mapping[str, frozenset[str]]) -> list[tuple[Columns, frozenset[str]]]:
    """Kernels with those joined that pass over the same columns and need nothing of each other."""
    out: list[tuple[Columns, frozenset[str]]] = []
    for equations, virtual in made:
        mine = found(equations, virtual)
        for n, (others, theirs) in enumerate(out if mine is not None else ()):
            before = [e for e in others if e.target not in theirs]
            passes = [found(tuple(e for e in others if e is one or e.target in theirs), theirs) for one in before]
            apart = not any(one.target in needs[mine.fold.target] or mine.fold.target in needs[one.target]
                            for one in before) if mine is not None else False
            one = next((x for x in passes if x is not None), None)
            if mine is None or one is None or None in passes or not apart:
                continue
            both = joined(one, mine)
            if both is not None:
                known = {e.target for e in others}
                out[n] = (*others, *(e for e in both if e.target not in known)), theirs | virtual
                break
        else:
            out.append((equations, virtual))
    return out
