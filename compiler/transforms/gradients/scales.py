"""Sums of exponentials that something is divided by, as rows of numbers that sum to one.

Where values may be scaled row by row and no output feels it, the scale may be chosen, and has no slope. It is chosen so
that a sum z = Σ exp(e) is 1: then exp(e) is exp(e − log z), never more than 1, and whatever else had the scale z^p is
divided by it. A maximum that the source subtracts itself is such a scale too; it leaves the exponents with log z.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from einc.ir.dependence import needed
from einc.ir.domains import proves
from einc.ir.indices import SEQUENCE, Index
from einc.ir.letters import letter, words
from einc.ir.programs import Equation, NormalProgram, Program, Tensor, local
from einc.ir.sums import asks_reached, factors, reached
from einc.ir.terms import (
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    canonical,
    const,
    free_indices,
    substitute,
    transform,
    walk,
)
from einc.transforms.gradients.homogeneity import Degree, Degrees, Mixed, degree_of, degrees
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.delta_elimination import appearance


@dataclass(frozen=True, slots=True)
class Root:
    """A sum that is made 1: the name of its logarithm, which has every reference of the
    source in it, and the value of that."""

    total: str
    log: str
    value: Term
    degrees: Degrees


@dataclass(frozen=True)
class Scaled:
    """The program with each exponential of a root's sum an equation of its own; `references` have no slope.

    `bounded` are exponentials that are at most 1 where their sum is 1; `bare` their
    exponents without the source's references.
    """

    program: NormalProgram
    references: frozenset[str]
    roots: Mapping[str, Root]
    bare: Mapping[str, Term]
    bounded: frozenset[str]

    def scale(self, tensor: str) -> tuple[Root, Degree] | None:
        """By which root's sum a value is divided, and how often."""
        return next(((r, r.degrees.found[tensor]) for r in self.roots.values() if tensor in r.degrees.found), None)


def scaled(program: NormalProgram) -> Scaled:
    """The scales that are free, and how they are chosen."""
    program = _by_name(program)
    outputs = frozenset(key for _, key in program.outputs)
    references = frozenset(e.target for e in program.equations if _is_reference(e, program, outputs))
    work = _Work(program, dict(program.tensors), dict(program.by_target), references)
    roots: dict[str, Root] = {}
    for total in dict.fromkeys(_divisors(program)):
        trial = replace(work, tensors=dict(work.tensors), by=dict(work.by))
        leaves = trial.leaves(total)
        root = trial.root(total, leaves, outputs, {r.log for r in roots.values()}) if leaves is not None else None
        if root is not None and not any(set(root.degrees.found) & set(r.degrees.found) for r in roots.values()):
            work, roots[total] = trial, root
    made = replace(program, tensors=work.tensors, equations=tuple(needed(work.by, work.by)))
    owner = {key: root for root in roots.values() for key in root.degrees.found if _power_of(work.by[key]) is not None}
    bare = {key: found for key, root in owner.items() if (found := work.bare(work.by[key], root)) is not None}
    bounded = frozenset(key for key, root in owner.items() if work.within(key, root.total))
    return Scaled(made, references, roots, bare, bounded)


def _by_name(program: NormalProgram) -> NormalProgram:
    """Exponentials that are equations have their names elsewhere too: what is true of the
    name is true of all of them."""
    known: dict[Term, Equation] = {}
    for equation in program.equations:
        order = appearance(equation.body, TRUE)
        whole = all(isinstance(a, Position) for a in equation.axes) and {*order} == {*equation.indices}
        if whole and _power_of(equation) is not None:
            known.setdefault(canonical(equation.body, order), equation)

    def changed(equation: Equation) -> Equation:
        inside = equation.body.domain if isinstance(equation.body, Fold) else TRUE
        body = transform(equation.body, lambda t: _known(t, both(equation.domain, inside), known))
        return equation if _power_of(equation) is not None else replace(equation, body=body)

    return replace(program, equations=tuple(map(changed, program.equations)))


def _known(term: Term, domain: Term, known: Mapping[Term, Equation]) -> Term:
    """An exponential as its equation, where that has it all over the domain."""
    if not isinstance(term, Apply) or term.op != "exp":
        return term
    order = appearance(term, TRUE)
    if (found := known.get(canonical(term, order))) is None:
        return term
    by: dict[Index, Term] = dict(zip(appearance(found.body, TRUE), map(Position, order), strict=True))
    if not proves(domain, substitute(found.domain, by)):
        return term
    return Read(found.target, tuple(substitute(a, by) for a in found.axes))


def _is_reference(equation: Equation, program: NormalProgram, outputs: frozenset[str]) -> bool:
    """Whether no output feels a shift of a maximum."""
    if program.tensors[equation.target].scale:
        return True
    if not isinstance(equation.body, Fold | Apply) or equation.body.op != "max" or equation.target in outputs:
        return False
    if not all(isinstance(a, Position) for a in equation.axes):
        return False
    seed = {equation.target: Degree("plus", Fraction(1), equation.indices)}
    found = degrees(program.equations, seed, closed=False)
    return found is not None and not outputs & found.found.keys()


def _divisors(program: Program) -> Iterator[str]:
    """What something is divided by, or has its logarithm taken."""
    for equation in program.equations:
        for term in walk(equation.body):
            match term:
                case Apply("div", (_, below)):
                    yield from (f.tensor for f in factors(below) if isinstance(f, Read))
                case Apply("log", (Read(tensor),)):
                    yield tensor


def _power_of(equation: Equation) -> Term | None:
    return equation.body.args[0] if isinstance(equation.body, Apply) and equation.body.op == "exp" else None


@dataclass(frozen=True)
class _Work:
    """A program in which sums of exponentials are looked for: its equations by what they define, and references."""

    program: NormalProgram
    tensors: dict[str, Tensor]
    by: dict[str, Equation]
    references: frozenset[str]

    # the exponentials of a sum

    def leaves(self, total: str) -> dict[str, tuple[Index, ...]] | None:
        """The exponentials that a value is the sum of, each with its letters for the
        value's slots; None if it is no such sum."""
        found: dict[str, tuple[Index, ...]] = {}
        return found if self._sum(total, None, found) and found else None

    def _sum(self, key: str, letters: tuple[Index, ...] | None, found: dict[str, tuple[Index, ...]]) -> bool:
        """Whether a value is a sum of exponentials; they are added to `found`, with the letters that stand for
        `letters`. It gives exponentials in a written-out sum equations of their own in `by` and `tensors`, even
        where it answers False."""
        equation = self.by.get(key)
        if equation is None or not all(isinstance(a, Position) for a in equation.axes):
            return False
        letters = equation.indices if letters is None else letters
        if _power_of(equation) is not None:
            found[key] = letters
            return True
        match equation.body:
            case Fold("sum", _, _, Read() as inner):
                return self._inner(inner, letters, found)
            case Apply("add", args):
                new = tuple(self._named(a, equation) if isinstance(a, Apply) and a.op == "exp" else a for a in args)
                new = tuple(self._spread(a, equation) if isinstance(a, Read) else a for a in new)
                self.by[key] = replace(equation, body=Apply("add", new))
                return all(isinstance(a, Read) and self._inner(a, letters, found) for a in new)
        return False

    def _inner(self, read: Read, letters: tuple[Index, ...], found: dict[str, tuple[Index, ...]]) -> bool:
        inner = self.by.get(read.tensor)
        if inner is None or not all(isinstance(a, Position) for a in inner.axes):
            return False
        places = [[n for n, sub in enumerate(read.subs) if sub == Position(i)] for i in letters]
        return (all(len(p) == 1 for p in places)
                and self._sum(read.tensor, tuple(inner.indices[p[0]] for p in places), found))

    def _spread(self, read: Read, owner: Equation) -> Term:
        """An exponential that lacks a letter of its sum, as one that has them all."""
        inner = self.by.get(read.tensor)
        if inner is None or _power_of(inner) is None or free_indices(read) >= set(owner.indices):
            return read
        return self._named(inner.at(read.subs), owner)

    def _named(self, term: Term, owner: Equation) -> Read:
        """An exponential as an equation of its own, with all letters of the sum that it stands in. Adds the equation;
        returns a read of it."""
        key = letter("exp", owner.target, {*self.tensors, *words(self.program.equations)})
        self.tensors[key] = local(key, owner.indices)
        self.by[key] = Equation(key, tuple(map(Position, owner.indices)), owner.domain, term)
        return Read(key, tuple(map(Position, owner.indices)))

    # a sum that is made 1

    def root(self, total: str, leaves: Mapping[str, tuple[Index, ...]], outputs: frozenset[str],
             logs: set[str]) -> Root | None:
        """The root of a sum whose exponentials are `leaves`, if dividing them by it leaves every output
        unchanged; `logs` are the names of other logarithms. None where an output would change, or where the
        scale of some value cannot be followed."""
        seeds = {key: Degree("times", Fraction(1), letters) for key, letters in leaves.items()}
        found = degrees(needed(self.by, self.by), seeds, closed=True)
        if found is None or outputs & found.found.keys() or self.program.tensors[total].integer:
            return None
        if any(len([i for i in self.by[key].indices if i.set.cls in SEQUENCE]) > 1 for key in found.shut):
            return None
        here = tuple(map(Position, self.by[total].indices))
        value: Term = Apply("log", (Read(total, here),))
        taken = {*self.tensors, *logs, *words(self.program.equations)}
        made = Root(total, letter("log", total, taken), value, found)
        if any(self.bare(self.by[key], made) is None for key in leaves):
            return None
        for reference, power in self._references_of(total):
            value = Apply("add", (Read(reference, here), value)) if power == -1 else Apply("add", (value, Apply("mul", (
                const(-power), Read(reference, here)))))
        return replace(made, value=value)

    def _references_of(self, total: str) -> Iterator[tuple[str, Fraction]]:
        """The references that a sum is scaled by, where each has the sum's own letters."""
        for key in sorted(self.references):
            found = self._felt(key)
            if found is not None and total in found and found[total].letters == self.by[total].indices:
                yield key, found[total].power

    def _felt(self, reference: str) -> Mapping[str, Degree] | None:
        """The values that change where a reference, such as the maximum of a row, is shifted."""
        seed = {reference: Degree("plus", Fraction(1), self.by[reference].indices)}
        found = degrees(needed(self.by, self.by), seed, closed=False)
        return None if found is None else found.found

    def bare(self, leaf: Equation, root: Root) -> Term | None:
        """The exponent less the logarithm of the sum: without the source's references, which that has in it. Where all
        exponentials of a row may be 0, nothing is taken away there: each is 0 of nothing, and that is 0.

        None where a reference stands in it at other places than the sum's own.
        """
        power = _power_of(leaf)
        assert power is not None
        letters = root.degrees.found[leaf.target].letters
        here = tuple(map(Position, letters))
        names = {key for key, _ in self._references_of(root.total)}
        zero = transform(power, lambda t: const(0) if isinstance(t, Read) and t.tensor in names and t.subs == here
                         else t)
        for name in names:
            found = self._felt(name)
            try:
                if found is None or degree_of(zero, found, self.by) is not None:
                    return None
            except Mixed:
                return None
        log: Term = Read(root.log, here)
        return simplify(Apply("sub", (zero, Where(reached(log), log) if asks_reached(zero) else log)))

    def within(self, key: str, total: str) -> bool:
        """Whether every element of an exponential is one that its sum has."""
        return all(proves(self.by[key].domain, domain) for domain in self._domains(total, key))

    def _domains(self, at: str, key: str) -> Iterator[Term]:
        """The domains of the sums on the way from a total to an exponential, in the letters of what they sum."""
        equation = self.by[at]
        match equation.body:
            case Fold("sum", _, domain, Read(tensor, subs)):
                inner = self.by[tensor]
                names = {s.index: Position(i) for s, i in zip(subs, inner.indices, strict=True)
                         if isinstance(s, Position)}
                if tensor == key or any(True for _ in self._domains(tensor, key)):
                    yield substitute(domain, names)
                    yield from (self._domains(tensor, key) if tensor != key else ())
            case Apply("add", args):
                for arg in args:
                    if isinstance(arg, Read) and arg.tensor != key:
                        yield from self._domains(arg.tensor, key)
