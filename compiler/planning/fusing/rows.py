"""Folds along a row that is needed again: they share one kernel with what comes between them and the row.

A row is an index of the model (a feature, say) at fixed positions: its mean, the squares of what is left, their sum and
the row divided by it are one kernel, which reads the row once and stores what others read. Products of matrices stay
alone. Non-goals: rows of the data's own extent, which are streamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einc.ir.indices import DATA, Index
from einc.ir.programs import Equation
from einc.ir.terms import TRUE, Fold, Join, Position, Read, free_indices, reads, substitute
from einc.planning.contractions.materialise import plain_subs

Letters = dict[Index, Index]


@dataclass(frozen=True)
class Rows:
    """Equations that share a kernel, in one set of letters; `along` is the row's index."""

    equations: tuple[Equation, ...]
    along: Index


def rows(equations: tuple[Equation, ...], alone: frozenset[str], outputs: frozenset[str]) -> list[Rows]:
    """The kernels that equations make which stand `alone` so far; none shares an equation with another."""
    by = {e.target: e for e in equations}
    known = needs(by)
    left, out = set(alone), []
    for seed in equations:
        if seed.target in left and _folds_a_row(seed):
            made = _Made(by, known, left, outputs, seed)
            made.grow()
            if made.saves():
                out.append(made.result())
                left -= made.letters.keys()
    return out


def needs(by: Mapping[str, Equation]) -> dict[str, frozenset[str]]:
    """For each equation all that it depends on; equations come after what they read."""
    out: dict[str, frozenset[str]] = {}
    for key, equation in by.items():
        read = {r.tensor for r in equation.elements if r.tensor in by}
        out[key] = frozenset(read).union(*(out.get(r, frozenset()) for r in read))
    return out


def _folds_a_row(equation: Equation) -> bool:
    """A fold over one index of the model of what has all the indices: no product of matrices."""
    body = equation.body
    if not isinstance(body, Fold) or len(body.bound) != 1 or body.domain != TRUE or equation.domain != TRUE:
        return False
    every = {*equation.indices, *body.bound}
    whole = any(plain_subs(r) and free_indices(r) == every for r in reads(body.body))
    return whole and body.bound[0].set.cls not in DATA and any(i.set.cls in DATA for i in equation.indices)


@dataclass
class _Made:
    """A kernel that grows from a fold: for each of its equations the letters of the kernel in place of its own."""

    by: Mapping[str, Equation]
    needs: Mapping[str, frozenset[str]]
    alone: set[str]
    outputs: frozenset[str]
    seed: Equation
    letters: dict[str, Letters] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert isinstance(self.seed.body, Fold)
        (self.along,) = self.seed.body.bound
        self.row = frozenset(self.seed.indices)
        self.letters[self.seed.target] = {i: i for i in (*self.seed.indices, self.along)}

    def grow(self) -> None:
        """Adds what reads the kernel's results at their own positions, and what makes the rows that it reads."""
        grew = True
        while grew:
            grew = False
            for equation in self.by.values():
                key = equation.target
                if (key not in self.letters and key in self.alone
                    and (found := self._after(equation) or self._before(equation))):
                    self.letters[key] = found
                    if self._in_one():
                        grew = True
                    else:
                        del self.letters[key]

    def saves(self) -> bool:
        """Whether a row is made of a fold's result, or is read by nobody else."""
        folds = {key for key in self.letters if isinstance(self.by[key].body, Fold)}
        rows = {key for key in self.letters.keys() - folds if self.along in self.letters[key].values()}
        read = self.outputs.union(*(e.reads for key, e in self.by.items() if key not in self.letters))
        return any(self.needs[key] & folds for key in rows) or not rows <= read

    def result(self) -> Rows:
        plain = {i: Index(i.name.rstrip("'"), i.set) for i in (*self.row, self.along)}
        plain = plain if len({i.name for i in plain.values()}) == len(plain) else {i: i for i in plain}
        made = [relettered(e, {i: plain[j] for i, j in self.letters[key].items()})
                for key, e in self.by.items() if key in self.letters]
        return Rows(tuple(made), plain[self.along])

    def _after(self, equation: Equation) -> Letters | None:
        """The letters of an equation that reads the kernel's results, row by row."""
        read = [r for r in equation.elements if r.tensor in self.letters]
        found = self._placed({}, ((self.letters[r.tensor], self.by[r.tensor], r) for r in read))
        if not read or found is None or not _pointwise_or(equation, _folds_a_row(equation)):
            return None
        own = [*equation.indices, *(equation.body.bound if isinstance(equation.body, Fold) else ())]
        rest = [i for i in own if i not in found]
        if len(rest) == 1 and rest[0].set == self.along.set and self.along not in found.values():
            found[rest[0]] = self.along
        bound = [found.get(i) for i in equation.body.bound] if isinstance(equation.body, Fold) else [self.along]
        whole = self.row <= set(found.values()) and set(own) == found.keys()
        return found if whole and bound == [self.along] else None

    def _before(self, equation: Equation) -> Letters | None:
        """The letters of an equation that makes rows which the kernel reads, each at its place, or a number of each: of
        such numbers, or a fold along a row.
        """
        found: Letters | None = {}
        for key, letters in self.letters.items():
            for read in reads(self.by[key].body):
                if read.tensor == equation.target and found is not None:
                    if not (plain_subs(read) and _plain(equation)):
                        return None
                    places = zip(equation.indices, read.subs, strict=True)
                    pairs = {i: letters[s.index] for i, s in places if isinstance(s, Position)}
                    found = {**found, **pairs} if all(found.get(i, j) == j for i, j in pairs.items()) else None
        if found is None or len(found) != len(equation.indices):
            return None
        numbers, folds = set(found.values()) == self.row, _folds_a_row(equation)
        if numbers and isinstance(equation.body, Fold) and folds and equation.body.bound[0].set == self.along.set:
            found[equation.body.bound[0]] = self.along
        whole = numbers or set(found.values()) == self.row | {self.along}
        return found if whole and _pointwise_or(equation, numbers and self.along in found.values()) else None

    def _placed(self, found: Letters, given: Iterable[tuple[Letters, Equation, Read]]) -> Letters | None:
        """Where the indices of a reader stand in the kernel; None where it reads at another place."""
        for letters, inner, read in given:
            if not (plain_subs(read) and _plain(inner)):
                return None
            for axis, sub in zip(inner.indices, read.subs, strict=True):
                assert isinstance(sub, Position)
                if found.setdefault(sub.index, letters[axis]) != letters[axis]:
                    return None
        return found if len(set(found.values())) == len(found) else None

    def _in_one(self) -> bool:
        """Whether nothing outside stands between two equations of the kernel."""
        outside = {r.tensor for key in self.letters for r in self.by[key].elements
                   if r.tensor in self.by} - self.letters.keys()
        return not any(self.needs[key] & self.letters.keys() for key in outside)


def _plain(equation: Equation) -> bool:
    """Whether each axis is an index, so that a reader's subscripts stand for these one by one."""
    return all(isinstance(a, Position) for a in equation.axes)


def _pointwise_or(equation: Equation, folds: bool) -> bool:
    return _plain(equation) and equation.domain == TRUE and (folds or not isinstance(equation.body, Fold | Join))


def relettered(equation: Equation, by: Mapping[Index, Index]) -> Equation:
    """The equation with other letters for its own and its bound indices."""
    terms = {old: Position(new) for old, new in by.items()}
    axes = tuple(substitute(a, terms) for a in equation.axes)
    body = equation.body
    if isinstance(body, Fold):
        body = Fold(body.op, tuple(by[b] for b in body.bound), substitute(body.domain, terms),
                    substitute(body.body, terms))
    else:
        body = substitute(body, terms)
    return Equation(equation.target, axes, substitute(equation.domain, terms), body, equation.source)
