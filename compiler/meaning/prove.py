"""Whether two tensors are equal where both exist: proved by normal form, refuted by
numbers at which they differ, or open.

A proof by normal form holds wherever both sides are finite and no divisor is 0: that 0 / 0 is 0 it does not see. So
what is divided is tried with inputs of 0 too, and where the sides differ there the proof says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType

from einc.ir.claimed import Claim
from einc.ir.dependence import behind
from einc.ir.domains import empty
from einc.ir.draft import unused
from einc.ir.elements import REAL
from einc.ir.indices import Index
from einc.ir.primitives import POSITIVE
from einc.ir.programs import Equation, Program, TypedProgram
from einc.ir.signs import sign
from einc.ir.terms import TRUE, Apply, Position, Read, Term, both, substitute, walk
from einc.meaning.assumptions import Rule, rule
from einc.meaning.conditions import indicator
from einc.meaning.counterexamples import Counterexample, search
from einc.meaning.differences import agree, left_over
from einc.meaning.induction import Unknown, definitions, learned, missing, steps
from einc.meaning.last_points import apart
from einc.meaning.partial_sums import up_to_positions
from einc.meaning.polynomial_form import form
from einc.meaning.polynomials import Form, Unformed
from einc.meaning.unfolding import FEW, TooLong, Unfolding


@dataclass(frozen=True)
class Proved:
    """A claim that was proved; `how` names the method. Where the text `divides`, the proof says nothing of points with
    a divisor of 0; `but` has such points at which the sides differ, where some were found.
    """

    how: str
    divides: bool = False
    but: Counterexample | None = None


@dataclass(frozen=True)
class Refuted:
    example: Counterexample


@dataclass(frozen=True)
class Open:
    """Neither: why no proof was found, and how many trials found no difference."""

    why: str
    trials: int


Verdict = Proved | Refuted | Open
Law = Callable[[Term, Term], Term]  # of a term and of what holds where it is read


def _as_it_is(term: Term, given: Term) -> Term:
    """The law that changes nothing."""
    return term


# What is done to both sides, one after the other, and how that is told.
_LAWS: dict[Law, str] = {_as_it_is: "", up_to_positions: ", sums over intervals as sums up to positions"}


def same(program: TypedProgram, a: str, b: str, seed: int = 0, given: Iterable[tuple[str, str]] = ()) -> Verdict:
    """Whether two tensors of a program, by their keys, are equal where both exist; their slots run over the same sets
    in turn. The pairs `given` are equal by assumption.
    """
    pairs: list[tuple[str, str]] = []
    for pair in given:
        assumed = compared(program, *pair)
        if assumed is None:
            return Open("what is assumed has indices that run over different sets", 0)
        program = assumed.program
        pairs.append((assumed.left, assumed.right))
    claim = compared(program, a, b)
    if claim is None:
        return Open("their indices run over different sets", 0)
    shown = (*claim.program.outputs, *((key, key) for pair in pairs for key in pair))
    return prove(replace(claim, program=replace(claim.program, outputs=shown), given=tuple(pairs)), seed)


def compared(program: TypedProgram, a: str, b: str) -> Claim | None:
    """The claim that two tensors are equal; None where their slots run over different sets."""
    slots = program.tensors[a].slots
    if [x.set for x in slots] != [x.set for x in program.tensors[b].slots]:
        return None
    names: list[str] = []
    for slot in slots:
        names.append(unused(slot.name if slot.name.isidentifier() else "i", names))
    letters = tuple(Index(name, slot.set) for name, slot in zip(names, slots, strict=True))
    axes = tuple(map(Position, letters))
    domain = both(*(_domain(program, key, axes) for key in (a, b)))
    left, right = unused("left", program.tensors), unused("right", program.tensors)
    tensors = dict(program.tensors)
    for key in (left, right):
        tensors[key] = replace(tensors[a], key=key, text=key, role="local", element=REAL)
    sides = tuple(Equation(key, axes, domain, Read(of, axes)) for key, of in ((left, a), (right, b)))
    return Claim(replace(program, tensors=tensors, equations=(*program.equations, *sides),
                         outputs=((left, left), (right, right))),
                 left, right)


def _domain(program: TypedProgram, key: str, axes: tuple[Term, ...]) -> Term:
    found = program.equation(key)
    if found is None or not all(isinstance(x, Position) for x in found.axes):
        return TRUE
    return substitute(found.domain, dict(zip(found.indices, axes, strict=True)))


def prove_each(claims: Iterable[Claim], seed: int = 0) -> list[tuple[Claim, Verdict]]:
    """The verdict on each claim. What one that is proved says of rounds holds in those after it."""
    out: list[tuple[Claim, Verdict]] = []
    known: dict[str, Equation] = {}
    for claim in claims:
        out.append((claim, prove(claim, seed, known)))
        if isinstance(out[-1][1], Proved) and not claim.given:
            known |= learned(_with(claim, known))
    return out


def _with(claim: Claim, known: Mapping[str, Equation]) -> Claim:
    """The claim of a program in which what is known of values stands for their equations."""
    program = claim.program
    return replace(claim, program=program.but(equations=(known.get(e.target, e) for e in program.equations)))


def prove(claim: Claim, seed: int = 0, known: Mapping[str, Equation] = MappingProxyType({})) -> Verdict:
    """What can be told of the claim, read as if it were not denied; what is known of values of rounds is used."""
    first = search(claim, seed, enough=1 if claim.given else 2)
    if first.found is not None:
        return Refuted(first.found)
    here = next((e.domain for e in claim.program.equations if e.target == claim.left), TRUE)
    if empty(here):
        return Open("there is no point at which both sides exist", 0)
    how, why = by_form(_with(claim, known))
    own = {read for key in (claim.left, claim.right) for read in claim.program.by_target[key].reads}
    if not how:
        how, why = by_induction(_with(claim, known), why)
    if not how and own & known.keys():
        how, _ = by_induction(_with(claim, {key: e for key, e in known.items() if key not in own}), why)
    if how:
        if not _divides(claim.program):
            return Proved(how)
        return Proved(how, True, search(claim, seed, enough=6, zeros=True).found)
    more = search(claim, seed + 1, enough=6)
    return Open(why, first.trials + more.trials) if more.found is None else Refuted(more.found)


def _divides(program: Program) -> bool:
    """Whether a divisor, or what has a power below 0, may be 0."""
    return any(isinstance(x, Apply) and ((x.op == "div" and sign(x.args[1], {}) != POSITIVE) or x.op == "pow")
               for term in program.terms for x in walk(term))


def by_form(claim: Claim) -> tuple[str, str]:
    """How the claim is proved, or why it is not."""
    why = ""
    for (equations, how), (law, by) in product(_levels(claim), _LAWS.items()):
        try:
            rules, differ = _compared(claim, equations, law)
            if differ is None:
                return how + by + (" and what is assumed" if rules else ""), ""
            why = why if by and why else left_over(*differ, rules)
        except Unformed:
            why = "an infinite value, or a form that is too long"
        except (TooLong, RecursionError):
            why = "it is too long with everything in place"
    return "", why


def _compared(claim: Claim, equations: Mapping[str, Equation], law: Law,
              few: int = FEW) -> tuple[tuple[Rule, ...], tuple[Form, Form, Form] | None]:
    """What is assumed, and the first case in which the sides differ; None where they agree. Where a form is too long
    with every value of an index of few values, these stay indices. Raises TooLong and Unformed.
    """
    try:
        rules = tuple(_rules(claim, equations, law, few))
        cases = _cases(claim, equations, (claim.left, claim.right), law, few)
        return rules, next((x for x in cases if not agree(*x, rules)), None)
    except (TooLong, Unformed, RecursionError):
        if not few:
            raise
        return _compared(claim, equations, law, 0)


def by_induction(claim: Claim, why: str) -> tuple[str, str]:
    """How the claim is proved by induction over positions, or why it is not: where there is none, as it was said."""
    try:
        rules = tuple(_rules(claim, definitions(claim.program), _as_it_is))
        cases = list(steps(claim))
        for letter, parts in cases:
            for n, step in enumerate(parts):
                made, claimed = apart((step.made, step.claimed), step.here, step.given)
                forms = (indicator(step.given), form(made), form(claimed))
                if not agree(*forms, rules):
                    where = "at the first position" if n == 0 else "after the first position"
                    return "", f"by induction over {letter}, {where}: {left_over(*forms, rules)}"
        unsaid = missing(claim)
        if not cases and unsaid:
            return "", f"{why}; no claim before this one says what `{unsaid[0]}` is"
        if cases:
            return f"by induction over {cases[0][0]}" + " and what is assumed" * bool(rules), ""
    except Unknown as unknown:
        return "", f"by induction: no claim before this one says what `{unknown}` is"
    except (Unformed, TooLong, RecursionError):
        pass
    return "", why


def _levels(claim: Claim) -> Iterator[tuple[dict[str, Equation], str]]:
    """The equations that are put in place: none but the sides, those of names that one side alone comes to, all."""
    by = definitions(claim.program)
    ends = {key: by[key] for pair in ((claim.left, claim.right), *claim.given) for key in pair}
    alone = behind(by, [claim.left]) ^ behind(by, [claim.right])
    known = "with what the names stand for"
    tried: list[dict[str, Equation]] = []
    for equations, how in ((ends, "as it stands"), ({k: e for k, e in by.items() if k in alone | ends.keys()}, known),
                           (by, known)):
        if equations not in tried:
            tried.append(equations)
            yield equations, how


def _cases(claim: Claim, equations: Mapping[str, Equation], pair: tuple[str, str], law: Law,
           few: int) -> Iterator[tuple[Form, Form, Form]]:
    """Both sides, changed by a law, and where they exist, for every case of their indices."""
    unfolding = Unfolding(claim.program, equations, few=few)
    left, right = (equations[key] for key in pair)
    for by in unfolding.cases(left.indices):
        domain = indicator(unfolding.term(substitute(left.domain, by)))
        given = both(substitute(left.domain, by), substitute(right.domain, by))
        one, other = (law(unfolding.term(substitute(x.body, by)), given) for x in (left, right))
        yield domain, form(one), form(other)


def _rules(claim: Claim, equations: Mapping[str, Equation], law: Law, few: int = FEW) -> Iterator[Rule]:
    for pair in claim.given:
        for domain, left, right in _cases(claim, equations, pair, law, few):
            found = rule(left, right) if domain == indicator(TRUE) else None
            if found is not None:
                yield found
