"""Sums of exponentials relative to a maximum that is each rank's own: what the shares hold, and how they are scaled.

exp(x - m), where m is the share that a rank has of a maximum over the cut letter, is right but for a factor exp(m - M),
M the maximum over all ranks. A product of k such values lacks the factor k times, and so does a sum of such products:
its shares are scaled by exp(k (m - M)) before they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from einc.ir.programs import Equation
from einc.ir.sums import factors
from einc.ir.terms import Apply, Fold, Position, Read, Term, reads
from einc.planning.placing.cuts import Cut, Letter, Needs, Tag
from einc.planning.placing.states import Part, Share


def relative(equation: Equation, choice: Letter, cuts: Mapping[str, Cut], refused: Set[str],
             needs: Needs) -> Cut | None:
    """The cut of an equation that makes or reads such values; None of any other. One that reads them in another way has
    no such cut either, and `refused` then has the reference, which is folded first.
    """
    found = _first(equation, choice, cuts, refused, needs)
    if found is not None:
        return found
    tagged = {key: tag for key in equation.reads if key in cuts and (tag := cuts[key].tag) is not None}
    if not tagged:
        return None
    body = equation.body
    inner = body.body if isinstance(body, Fold) else body
    outer = {r.tensor for r in reads(equation.domain)} | {
        r.tensor for r in (reads(body.domain) if isinstance(body, Fold) else ())}
    if outer & tagged.keys() or (isinstance(body, Fold) and body.op != "sum"):
        return None
    tag = _product(inner, equation, tagged)
    if tag is None:
        return None
    wanted = needs(equation, choice)
    if Position(choice.index) in equation.axes:
        part = Part(equation.axes.index(Position(choice.index)), choice.component, choice.blocks)
        return Cut(part, (choice,), wanted, tag=tag)
    if not isinstance(body, Fold) or choice.index in equation.indices:
        return None
    share = Share(body.op, tag.reference, tag.places, tag.power)
    return Cut(share, (choice,), wanted, f"{body.op} over {choice.index.name}, relative to {tag.reference}")


def _first(equation: Equation, choice: Letter, cuts: Mapping[str, Cut], refused: Set[str],
           needs: Needs) -> Cut | None:
    """exp(x - m), with m as each rank has it."""
    match equation.body:
        case Apply("exp", (Apply("sub", (rest, Read(m) as reference)),)):
            pass
        case _:
            return None
    places = _places(reference, equation)
    others = {r.tensor for t in (rest, equation.domain) for r in reads(t)}
    if (m in refused or m in others or places is None or m not in cuts or cuts[m].state != Share("max")
            or choice.index not in equation.indices or Position(choice.index) in reference.subs):
        return None
    slot = next((n for n, a in enumerate(equation.axes) if a == Position(choice.index)), None)
    if slot is None:
        return None
    wanted = needs(equation, choice, {m: cuts[m].state})
    return Cut(Part(slot, choice.component, choice.blocks), (choice,), wanted, tag=Tag(m, places))


def _places(read: Read, equation: Equation) -> tuple[int, ...] | None:
    """The slots of the result at which the letters of a read stand, which are letters of its own."""
    if not all(isinstance(sub, Position) and sub in equation.axes for sub in read.subs):
        return None
    return tuple(equation.axes.index(sub) for sub in read.subs)


def _product(term: Term, equation: Equation, tagged: Mapping[str, Tag]) -> Tag | None:
    """The tag of a product, or of a quotient by what has none; None where a factor is something else."""
    if isinstance(term, Apply) and term.op == "div":
        return None if any(r.tensor in tagged for r in reads(term.args[1])) else _product(term.args[0], equation,
                                                                                         tagged)
    found: list[Tag] = []
    for factor in factors(term):
        if not any(r.tensor in tagged for r in reads(factor)):
            continue
        if not isinstance(factor, Read) or factor.tensor not in tagged or any(
                r.tensor in tagged for sub in factor.subs for r in reads(sub)):
            return None
        old = tagged[factor.tensor]
        letters = tuple(factor.subs[n] for n in old.places)
        if not all(x in equation.axes for x in letters):
            return None
        found.append(Tag(old.reference, tuple(equation.axes.index(x) for x in letters), old.power))
    if not found or len({(tag.reference, tag.places) for tag in found}) > 1:
        return None
    return Tag(found[0].reference, found[0].places, sum(tag.power for tag in found))
