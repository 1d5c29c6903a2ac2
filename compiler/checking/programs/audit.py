"""What can only be seen when all equations stand: ranges, causality, isolation, masks that nothing reads.

Each proof is sound and may fail to see what is true; where it fails the text is asked to say more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from einc.checking.declarations.ragged import Ragged
from einc.checking.programs.emptiness import emptiness
from einc.errors.problems import CrossesRequests, CutDomain, NoRequest, OnePythonName, OutOfRange, PartialOutput, ReadsFuture
from einc.errors.report import Help, Label, Report, Span
from einc.ir.domains import proves
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet, number
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Equation,
    Fold,
    Pack,
    Part,
    Position,
    Program,
    Read,
    Size,
    Term,
    TypedProgram,
    Where,
    both,
    children,
    conjuncts,
    const,
    free_indices,
    reads,
    walk,
)


class Text(Protocol):
    """What is known of the text behind a program."""

    @property
    def meant(self) -> frozenset[str]: ...
    @property
    def folds(self) -> frozenset[Term]: ...
    @property
    def ragged(self) -> Ragged: ...
    @property
    def places(self) -> dict[Term, Span]: ...
    @property
    def spans(self) -> dict[str, Span]: ...
    @property
    def masks(self) -> dict[str, Span]: ...


def audit(program: TypedProgram, text: Text, report: Report) -> None:
    """Every problem that needs the whole program."""
    places, spans = text.places, text.spans
    ranges(program, text, report)
    _flows(program, text, places, spans, report)
    _masks(program, text, report)
    _keywords(program, text, report)
    emptiness(program.equations, program.sizes, places, spans, text.masks, report)
    for _, key in program.outputs:
        equation = _made_by(program, key)
        if equation is not None and equation.domain != TRUE and key not in text.meant:
            report.add(PartialOutput(f"the output `{key}` does not exist everywhere", spans.get(key),
                                     helps=(Help("reduce over the restricted index, or multiply by an indicator `1[…]`"),)))


@dataclass(frozen=True)
class Seen:
    """A read, the condition under which it happens, and the folds around it."""

    read: Read
    given: Term
    folds: tuple[Fold, ...]


def seen(term: Term, given: Term, folds: tuple[Fold, ...] = ()) -> Iterator[Seen]:
    """Every read in a term with the conditions on its way."""
    match term:
        case Read():
            yield Seen(term, given, folds)
        case Fold(_, _, domain, body):
            yield from seen(domain, both(given, _unread(domain)), (*folds, term))
            yield from seen(body, both(given, domain), (*folds, term))
            return
        case Where(condition, then):
            yield from seen(condition, both(given, _unread(condition)), folds)
            yield from seen(then, both(given, condition), folds)
            return
        case Apply("and"):
            given = both(given, _unread(term))
    for kid in children(term):
        yield from seen(kid, given, folds)


def _all(equation: Equation) -> Iterator[Seen]:
    yield from seen(equation.body, equation.domain)
    yield from seen(equation.domain, _unread(equation.domain))


def _unread(condition: Term) -> Term:
    """The part of a condition that reads nothing: it is asked first, and what reads is asked only where it holds."""
    return both(*(c for c in conjuncts(condition) if not any(True for _ in reads(c))))


def ranges(program: TypedProgram, text: Text, report: Report) -> None:
    """Every read that may leave the range of a slot."""
    ragged, places, spans = text.ragged, text.places, text.spans
    for equation in program.equations:
        if (stray := ragged.stray(equation)) is not None:
            report.add(NoRequest(f"`{stray}` is a position of a request that is no index here", spans.get(equation.target),
                                 helps=(Help(f"bind the request with it or around it: `Σ_{{{stray.set.by} {stray}}}`"),)))
        for at in _all(equation):
            slots = program.tensors[at.read.tensor].slots
            for n, (slot, sub) in enumerate(zip(slots, at.read.subs, strict=True)):
                around = (*equation.indices, *(i for f in at.folds for i in f.bound))
                own = ragged.within(equation.target, n, slots, at.read.subs, at.given, around)
                if own is None:
                    bad = _outside(sub, slot.set, at.given, program.sizes)
                else:  # what leaves one request would be in the next, where no back end could tell
                    bad = "" if isinstance(sub, Position) else _beyond(sub, slot.set, *own, program.sizes)
                if bad:
                    span = places.get(at.read) or spans.get(equation.target)
                    report.add(OutOfRange(f"the index expression in slot `{slot.name}` may {bad}", span, helps=(
                        Help("restrict the equation with `, … ≤ …`: what is outside does not exist"),
                        Help("multiply by `1[… ≤ …]`: what is outside is 0"),
                        Help("clamp it: `min(…, …)`, `max(…, …)`"))))
                    break


def _outside(sub: Term, into: IndexSet, given: Term, sizes: Mapping[str, int]) -> str:
    """How the subscript may leave its range; empty where it provably does not, or where only the data can tell."""
    match sub:
        case Position(index) if index.set == into:
            return ""
        case Pack(parts, sets):
            return next((bad for p, x in zip(parts, sets, strict=True) if (bad := _outside(p, x, given, sizes))), "")
        case Part(item, of):
            return _outside(item, of, given, sizes)
    if any(True for _ in reads(sub)):
        return ""
    if not proves(given, Apply("le", (const(into.start), sub)), sizes):
        return f"fall below {into.start}"
    if not proves(given, Apply("le", (sub, Size(into.extent + number(into.start - 1)))), sizes):
        return f"pass {into.extent + number(into.start - 1)}"
    return ""


def _beyond(sub: Term, into: IndexSet, last: Term, given: Term, sizes: Mapping[str, int]) -> str:
    """How the subscript may leave the positions of its request; empty where it provably does not."""
    if not proves(given, Apply("le", (const(into.start), sub)), sizes):
        return f"fall below {into.start}"
    return "" if proves(given, Apply("le", (sub, last)), sizes) else f"pass {into.extent}"


@dataclass(frozen=True)
class _Leak:
    span: Span | None
    what: str
    where: str  # the tensor in whose equation it is


_Leaks = dict[str, dict[IndexSet, _Leak]]


def _flows(program: TypedProgram, text: Text, places: Mapping[Term, Span], spans: Mapping[str, Span], report: Report) -> None:
    """A tensor leaks, in a time set, if it depends on positions beyond those of its own indices; likewise for requests."""
    leaks = _leaks(program, text.folds, places, spans)
    for _, key in program.outputs:
        carried = {i.set: i for i in (_made_by(program, key) or Equation("", (), TRUE, Const(0.0))).indices}
        for into, leak in leaks.get(key, {}).items():
            if into in carried and key not in text.meant:
                report.add(_leaking(key, carried[into], leak, _masked(program, leak.where, text.masks)))


def _leaks(program: Program, folds: frozenset[Term], places: Mapping[Term, Span], spans: Mapping[str, Span]) -> _Leaks:
    leaks: _Leaks = {}
    rounds, known = [x for repeat in program.repeats for x in repeat.states], -1
    # What a round leaks into a state leaks into the next round.
    while known < (known := sum(map(len, leaks.values()))):
        for state, first, following in rounds:
            leaks[state] = {**leaks.get(first, {}), **leaks.get(following, {})}
        _flow(program, folds, places, spans, leaks)
    return leaks


def leaking(program: Program) -> dict[str, dict[IndexSet, str]]:
    """For each tensor the sets in which it depends on more than its own positions, and the tensor in whose equation it does."""
    found = _leaks(program, frozenset(), {}, {})
    return {key: {into: leak.where for into, leak in leaks.items()} for key, leaks in found.items() if leaks}


def _made_by(program: Program, key: str) -> Equation | None:
    """The equation of a tensor; of a state, that of its next value."""
    return program.equation(next((c for repeat in program.repeats for a, _, c in repeat.states if a == key), key))


def _flow(program: Program, folds: frozenset[Term], places: Mapping[Term, Span], spans: Mapping[str, Span],
          leaks: _Leaks) -> None:
    """What each equation leaks, from what it reads leaks, and from where it reads."""
    for equation in program.equations:
        mine: dict[IndexSet, _Leak] = {}
        for at in _all(equation):
            for into, leak in leaks.get(at.read.tensor, {}).items():
                mine.setdefault(into, leak)
            for slot, sub in zip(program.tensors[at.read.tensor].slots, at.read.subs, strict=True):
                rule = INDEX_CLASSES[slot.set.cls].before or None
                if rule is None or slot.set in mine or _within(equation, slot.set, sub, at.given, rule):
                    continue
                if any(f in folds and free_indices(sub) & set(f.bound) for f in at.folds):
                    continue
                place = next((places[f] for f in reversed(at.folds) if f in places),
                             places.get(at.read) or spans.get(equation.target))
                mine[slot.set] = _Leak(place, at.read.tensor, equation.target)
        if mine:
            leaks[equation.target] = mine


def _within(equation: Equation, into: IndexSet, sub: Term, given: Term, rule: str) -> bool:
    own = [i for i in equation.indices if i.set == into]
    return any(Position(i) == sub or proves(given, Apply(rule, (sub, Position(i)))) for i in own)


def _masked(program: TypedProgram, key: str, masks: Mapping[str, Span]) -> list[Span]:
    """The masks that an equation has from itself and from what it reads, the nearest on each way."""
    found: dict[str, Span] = {}
    done: set[str] = set()
    stack = [key]
    while stack:
        here = stack.pop()
        if here in masks:
            found[here] = masks[here]
        elif here not in done and (equation := _made_by(program, here)) is not None:
            stack += [x.tensor for x in (*reads(equation.domain), *reads(equation.body))]
        done.add(here)
    return list(found.values())


def _leaking(key: str, index: Index, leak: _Leak, masks: list[Span]) -> ReadsFuture | CrossesRequests:
    shown = tuple(Label(span, "its domain") for span in masks)
    if index.set.cls == "time":
        return ReadsFuture(f"`{key}` at `{index}` reads positions after `{index}`", leak.span,
                           f"`{leak.what}` is read here without `≤ {index}`", *shown, once=(leak.span, index.set),
                           helps=(Help("restrict it, `s ≤ t` for instance"),
                                  Help("say that the future is meant: `mask … : all`, `output … : all`")))
    return CrossesRequests(f"`{key}` of request `{index}` reads other requests", leak.span, f"`{leak.what}` is read here",
                           helps=(Help(f"gate it with `δ_{index}^{{{index}'}}`"),))


def _masks(program: TypedProgram, text: Text, report: Report) -> None:
    """A mask does something only where a reduction runs over its domain."""
    readers: dict[str, list[tuple[str, Seen]]] = {}
    for equation in program.equations if text.masks else ():
        for at in _all(equation):
            readers.setdefault(at.read.tensor, []).append((equation.target, at))
    for key, span in text.masks.items():
        if key in program.tensors and not _reduced(readers, key):
            report.add(CutDomain(f"no reduction reads the mask of `{key}`", span, helps=(Help("remove it, or reduce over it"),)))


def _reduced(readers: Mapping[str, list[tuple[str, Seen]]], key: str) -> bool:
    """Whether a reduction runs over the domain of the tensor, or of one that has it from the tensor."""
    done: set[str] = set()
    stack = [key]
    while stack:
        here = stack.pop()
        if here in done:
            continue
        done.add(here)
        for target, at in readers.get(here, ()):
            if any(free_indices(f.domain) & set(f.bound) for f in at.folds):
                return True
            stack += [target] if not at.folds else []
    return False


def _keywords(program: TypedProgram, text: Text, report: Report) -> None:
    """A size that no tensor fixes is asked of the caller by its name, which then is no tensor's."""
    given = {name for tensor in program.inputs() for slot in tensor.slots for name in slot.set.extent.sizes}
    asked = {n for t in program.tensors.values() for slot in t.slots for n in slot.set.extent.sizes}
    for equation in program.equations:
        for term in (t for root in (equation.domain, equation.body) for t in walk(root)):
            if isinstance(term, Size):
                asked |= term.extent.sizes
    for tensor in program.inputs():
        if tensor.key in asked - given - program.sizes.keys():
            report.add(OnePythonName(f"`{tensor.text}` is `{tensor.key}` in Python, and so is an extent that the caller gives",
                                     tensor.span,
                                     helps=(Help(f"say `as`: `{tensor.text} as {tensor.key}2`"),)))
