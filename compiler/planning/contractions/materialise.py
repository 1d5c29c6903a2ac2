"""What is never stored: values that a kernel computes tile by tile where it reads them.

A value is virtual if a reader folds one of its open indices away and it holds every open index that this reader keeps:
storing it would grow faster than anything around it. So is what a virtual value reads, if it has positions of both
sides of a tile: one that stays and one that is folded away. A value with one place of time or vocabulary is no larger
than the data: it is stored where it would be made several times. Open indices are those whose extent is the data's, not
the model's: time, request, batch and vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from einc.ir.indices import DATA, SEQUENCE, Index
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors
from einc.ir.terms import Fold, Join, Position, Read, Term, bound_indices, free_indices, reads, transform
from einc.planning.analysis.prefix import running
from einc.planning.contractions.segments import segmented
from einc.transforms.laws.simplify import picked
from einc.transforms.normal.normalise import normalise


def peeled(program: NormalProgram) -> NormalProgram:
    """The program with single elements computed where they are read, of values that need not be stored.

    A value of time and vocabulary that is folded away is never stored; one element of it, x_{t, w_t}, is
    then its own small equation instead of a reason to store the whole. So is one of a value that nothing
    reads whole, such as a diagonal x_{t t}.
    """
    kept = {key for _, key in program.outputs}
    for _ in range(len(program.equations)):
        virtual = unstored(program, kept, lenient=True) | _sparse(program, kept)
        by = program.by_target

        def change(term: Term) -> Term:
            if isinstance(term, Read) and term.tensor in virtual and not plain_subs(term):  # noqa: B023
                equation = by[term.tensor]  # noqa: B023
                return equation.at(term.subs)
            return term

        new = tuple(Equation(e.target, e.axes, e.domain, transform(e.body, change), e.source)
                    for e in program.equations)
        if new == program.equations:
            return program
        program = normalise(program.but(equations=new), again=True)
    return program


def _sparse(program: NormalProgram, kept: set[str]) -> frozenset[str]:
    """Values of which only few elements are read: every reader holds fewer open indices than they have."""
    by = program.by_target
    read = [r for e in program.equations for term in (e.body, e.domain) for r in reads(term) if r.tensor in by]
    whole = {r.tensor for r in read
             if plain_subs(r) or len(open_of(free_indices(r))) >= len(open_of(by[r.tensor].indices))}
    plain = {e.target for e in by.values()
             if all(isinstance(a, Position) for a in e.axes) and not isinstance(e.body, Join)}
    return frozenset(({r.tensor for r in read} & plain) - whole - kept)


def unstored(program: NormalProgram, kept: set[str], lenient: bool = False) -> frozenset[str]:
    """Values to compute inside their readers; those read in any other way than at plain positions are stored."""
    refused = kept | _stored(program, lenient)
    found = _unstored(program, refused)
    while shared := _shared(program, found):
        refused = refused | shared
        found = _unstored(program, refused)
    return found


def _shared(program: NormalProgram, found: frozenset[str]) -> frozenset[str]:
    """Values no larger than the data that several others read, or a product of matrices: they are made once.

    One that reads a sum along what is folded away in it stays: one pass may do both.
    """
    by = program.by_target
    lost = folded_away(by, found)
    readers: dict[str, list[Equation]] = {}
    for equation in program.equations:
        for key in {r.tensor for term in (equation.body, equation.domain) for r in reads(term)} & found:
            readers.setdefault(key, []).append(equation)
    return frozenset(
        key for key, mine in readers.items()
        if len(_placed(by[key].indices)) < 2 and (len(mine) > 1 or _mixed(mine[0], key))
        and not _fed(by[key], by, lost.get(key, set()))
    )


def _fed(equation: Equation, by: Mapping[str, Equation], lost: set[Index]) -> bool:
    """Whether a value reads another that lacks an index which is folded away in it."""
    return any(r.tensor in by and open_of(lost) - free_indices(r) for r in reads(equation.body))


def _mixed(reader: Equation, key: str) -> bool:
    """Whether it sums products of the value and another, each with an index of the result that the other lacks."""
    letters = [(r.tensor, free_indices(r) & set(reader.indices)) for r in reads(reader.body)]
    mine = set().union(*(own for name, own in letters if name == key))
    return any(own - mine for _, own in letters) and any(mine - own for name, own in letters if name != key)


def _stored(program: NormalProgram, lenient: bool) -> set[str]:
    """Values of a form that must be stored, and those that are read in a way in which only what is stored can be read.
    With `lenient`, reads at computed places do not matter, but for those of whole numbers that data has made: these
    name elements, and each is one number for many readers.
    """
    equations = program.by_target
    plain = {e.target for e in program.equations
             if all(isinstance(a, Position) for a in e.axes) and not isinstance(e.body, Join)}
    refused = equations.keys() - plain
    for equation in program.equations:
        if picked(equation):
            refused |= {equation.target, *(r.tensor for r in reads(equation.body))}
        if _of_a_row(equation) or _runs_on(equation):
            refused.add(equation.target)
        if _runs_on(equation):  # nor is what runs on made with another value, as what it sums would be for both
            refused |= {r.tensor for r in reads(equation.body) if len(_placed(free_indices(r))) > 1}
        if _is_matrix(equation):
            refused |= {r.tensor for r in reads(equation.body) if len(_placed(free_indices(r))) < 2}
        if segmented(equation, program.tensors) is not None:
            refused |= {equation.target, *(r.tensor for term in (equation.body, equation.domain) for r in reads(term))}
        away = (r for r in equation.elements if r.tensor in equations and not plain_subs(r))
        refused |= {r.tensor for r in away if not lenient or _names(program, r)}
    return refused


def _names(program: NormalProgram, read: Read) -> bool:
    """Whether a read is of whole numbers that data has made, at as many places as there are."""
    made = program.by_target[read.tensor]
    few = len(open_of(free_indices(read))) < len(open_of(made.indices))
    return program.tensors[read.tensor].integer and any(True for _ in reads(made.body)) and not few


def _unstored(program: NormalProgram, refused: set[str]) -> frozenset[str]:
    """Values that a fold over open indices reads along all open indices that it keeps, and what those are made of,
    but for those that are `refused`.
    """
    equations = program.by_target
    found: set[str] = set()
    for equation in program.equations:
        if isinstance(equation.body, Fold):
            stay = open_of(equation.indices)
            gone = open_of(equation.body.bound)
            for read in reads(equation.body.body):
                letters = free_indices(read)
                wider = len(_placed(stay)) > 1 and bool(letters & set(equation.body.bound))
                inner = equations.get(read.tensor)
                holds = ((letters & gone or wider) and stay <= letters
                         and (bool(stay) or inner is None or not _is_row(inner)))
                if inner is not None and (holds or (letters & gone and _of_points(inner, read))):
                    found.add(read.tensor)
    grew = True
    while grew:
        grew = False
        lost = folded_away(equations, frozenset(found - refused))
        for equation in program.equations:
            if equation.target in found - refused:
                here = open_of(equation.indices)
                for read in reads(equation.body):
                    inner = equations.get(read.tensor)
                    if inner is None or inner.target in found or len(here) < 2:
                        continue
                    whole = (len(open_of(inner.indices)) >= len(here) and open_of(free_indices(read)) >= here
                             and not _is_row(inner))
                    if whole or _of_a_tile(inner, read, lost.get(equation.target, set())):
                        found.add(inner.target)
                        grew = True
    return frozenset(found - refused)


def _is_row(equation: Equation) -> bool:
    """Whether a value is a fold with at most one place of time or vocabulary: it is stored as inputs are."""
    return isinstance(equation.body, Fold) and len(_placed(equation.indices)) < 2


def _of_a_row(equation: Equation) -> bool:
    """Whether a value is one number for each row of a pass: it is stored, and no pass stands within another."""
    return _is_row(equation) and bool(_placed(bound_indices(equation.body)))


def _runs_on(equation: Equation) -> bool:
    """Whether a value of two places is the running value of a fold over places: stored it costs as many steps as it has
    numbers, made again at each of them as many folds.
    """
    body = equation.body
    return (isinstance(body, Fold) and len(_placed(equation.indices)) > 1 and bool(_placed(body.bound))
            and running(body, equation.indices) is not None)


def _is_matrix(equation: Equation) -> bool:
    """Whether a value is a product of matrices with no open index: what it is made of is
    no larger than what that is made of."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or open_of(equation.indices) or not open_of(body.bound):
        return False
    sides = [free_indices(f) for f in factors(body.body) if free_indices(f) & open_of(body.bound)]
    return any(a - b and b - a for a, b in combinations(sides, 2))


def _placed(indices: Iterable[Index]) -> set[Index]:
    return {i for i in indices if i.set.cls in SEQUENCE}


def _of_points(inner: Equation, read: Read) -> bool:
    """Whether a value has a number for each pair of places, and is made of their numbers alone."""
    alone = not isinstance(inner.body, Fold) and not any(True for _ in reads(inner.body))
    return alone and plain_subs(read) and len(_placed(free_indices(read))) > 1


def _of_a_tile(inner: Equation, read: Read, lost: set[Index]) -> bool:
    """Whether a value has a number for each point of a tile, and costs no pass of its own to form."""
    letters = open_of(free_indices(read))
    stays = bool(_placed(letters - lost))
    return plain_subs(read) and bool(letters & lost) and stays and not open_of(bound_indices(inner.body))


def folded_away(by: Mapping[str, Equation], virtual: frozenset[str]) -> dict[str, set[Index]]:
    """For each virtual value, those of its indices that a reader, or a reader's reader, folds away."""
    out: dict[str, set[Index]] = {}
    for equation in reversed(tuple(by.values())):
        bound = set(bound_indices(equation.body)) if isinstance(equation.body, Fold) else set()
        lost = bound | out.get(equation.target, set())
        for read in reads(equation.body):
            if read.tensor in virtual and plain_subs(read):
                places = zip(by[read.tensor].axes, read.subs, strict=True)
                pairs = ((a.index, s.index) for a, s in places if isinstance(a, Position) and isinstance(s, Position))
                out.setdefault(read.tensor, set()).update(mine for mine, here in pairs if here in lost)
    return out


def open_of(indices: Iterable[Index]) -> set[Index]:
    """Those of an extent that the data has."""
    return {i for i in indices if i.set.cls in DATA}


def plain_subs(read: Read) -> bool:
    """Whether it is at positions alone, each once."""
    positions = [s.index for s in read.subs if isinstance(s, Position)]
    return len(positions) == len(read.subs) == len(set(positions))
