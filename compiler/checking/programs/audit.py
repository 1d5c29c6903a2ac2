"""What can only be seen when all equations stand: ranges, causality, isolation, masks that nothing reads.

Each proof is sound and may fail to see what is true; where it fails the text is asked to say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from einc.checking.declarations.ragged import Ragged
from einc.checking.programs.causality import Owed, Told, owed
from einc.checking.programs.emptiness import emptiness
from einc.checking.programs.starts import is_last
from einc.errors.problems import (
    CrossesRequests,
    CutDomain,
    NoRequest,
    OnePythonName,
    OutOfRange,
    PartialOutput,
    ReadsFuture,
)
from einc.errors.report import Help, Label, Report, Span
from einc.ir.dependence import reached
from einc.ir.domains import proves
from einc.ir.extents import told
from einc.ir.indices import Index, IndexSet, number
from einc.ir.programs import Equation, Program, TypedProgram
from einc.ir.reading import Seen, everything
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Where,
    canonical,
    const,
    free_indices,
    reads,
    walk,
)
from einc.syntax.printing.scripts import scripts
from einc.syntax.printing.show import text as term_text


class Text(Protocol):
    """What is known of the text behind a program."""

    @property
    def meant(self) -> frozenset[str]:
        """The outputs that are declared `: all`."""
        ...

    @property
    def folds(self) -> frozenset[Term]:
        """The folds over a whole line of which the text says that the whole line is meant."""
        ...

    @property
    def ragged(self) -> Ragged:
        """The lengths of ragged sets, and the request of each position."""
        ...

    @property
    def places(self) -> dict[Term, Span]:
        """Where each term stands in the text."""
        ...

    @property
    def spans(self) -> dict[str, Span]:
        """Where each tensor stands in the text."""
        ...

    @property
    def masks(self) -> dict[str, Span]:
        """Where the mask of each masked tensor stands in the text."""
        ...


def audit(program: TypedProgram, text: Text, report: Report) -> None:
    """Reports every problem that needs the whole program."""
    places, spans = text.places, text.spans
    ranges(program, text, report)
    _flows(program, text, report)
    _masks(program, text, report)
    _keywords(program, text, report)
    emptiness(program.equations, program.sizes, places, spans, text.masks, report)
    for _, key in program.outputs:
        equation = _made_by(program, key)
        if equation is not None and equation.domain != TRUE and key not in text.meant:
            report.add(PartialOutput(f"the output `{key}` does not exist everywhere", spans.get(key),
                                     helps=(Help("reduce over the restricted index, or multiply by an indicator "
                                                 "`1[…]`"),)))


_LIMITED = (Help("restrict the equation with `, … ≤ …`: what is outside does not exist"),
            Help("clamp it: `min(…, …)`, `max(…, …)`"))
_MULTIPLIED = Help("multiply by `1[… ≤ …]`: what is outside is 0")
_SIZED = (Help("say how large the side is, as in `matrix A : 4 × n` or `dim n = 4`"),
          Help("use a letter, which counts all places: `A_{i,:}`"))
_LARGER = (Help("write a place that the side has"), Help("declare the side larger"))


def ranges(program: TypedProgram, text: Text, report: Report) -> None:
    """Reports every read that may leave the range of a slot."""
    ragged, places, spans = text.ragged, text.places, text.spans
    for equation in program.equations:
        if (stray := ragged.stray(equation)) is not None:
            report.add(NoRequest(f"`{stray}` is a position of a request that is no index here",
                                 spans.get(equation.target),
                                 helps=(Help(f"bind the request with it or around it: `Σ_{{{stray.set.by} "
                                             f"{stray}}}`"),)))
        for at in everything(equation):
            slots = program.tensors[at.read.tensor].slots
            for n, (slot, sub) in enumerate(zip(slots, at.read.subs, strict=True)):
                around = (*equation.indices, *(i for f in at.folds for i in f.bound))
                own = ragged.within(equation.target, n, slots, at.read.subs, at.given, around)
                if own is None:
                    bad = _outside(sub, slot.set, at.given, program.sizes)
                else:  # what leaves one request would be in the next, where no back end could tell
                    bad = "" if isinstance(sub, Position) else _beyond(sub, slot.set, *own, program.sizes)
                if bad:
                    span = _place_of(at.read, places) or spans.get(equation.target)
                    fixed = isinstance(sub, Const) and span is not None
                    what, sized = f"the index expression in slot `{slot.name}` may {bad}", _LIMITED
                    if isinstance(sub, Const) and span is not None:
                        what = _fixed(program.tensors[at.read.tensor].text, sub, n, slot.set)
                        sized = _SIZED if slot.set.extent.constant is None else _LARGER
                    edits = tuple(_started(program, equation, at.read, n, span)) or tuple(
                        _inside(program, equation, at, span, own is None))
                    report.add(OutOfRange(what, span, once=(span, bad),
                                          helps=sized if fixed else (*edits, *_LIMITED)))
                    break


def _fixed(name: str, place: Const, slot: int, over: IndexSet) -> str:
    """That a tensor may lack the place that is written."""
    last, known = over.extent + number(over.start - 1), over.extent.constant is not None
    return (f"`{name}` is read at place {place.value} of its side {slot + 1}, whose places are {over.start} to {last}"
            f"{'' if known else f', and {last} may be less'}")


def _inside(program: TypedProgram, equation: Equation, at: Seen, span: Span | None, whole: bool) -> Iterator[Help]:
    """The read times the indicator of all that has to hold for its subscripts to be in range, in words alone where the
    range is not the `whole` set, parts of a composite are read, or a value of 0 would not make its addend 0.
    """
    parts = any(isinstance(sub, Pack | Part) for sub in at.read.subs)
    if span is None or not whole or parts or not _in_addend(equation.body, at.read):
        yield _MULTIPLIED
        return
    ends = [end for slot, sub in zip(program.tensors[at.read.tensor].slots, at.read.subs, strict=True)
            for end in _ends(sub, slot.set) if not proves(at.given, end, program.sizes)]
    said = f"1[{' and '.join(term_text(program, end) for end in ends)}]"
    yield Help(f"multiply by `{said}`: what is outside is 0", span, f"({said} {span.text})", certain=False)


def _in_addend(term: Term, read: Read) -> bool:
    """Whether a read is a factor of an addend wherever it stands in a term, so that its addend is 0 where it is."""
    match term:
        case Read():
            return True
        case Apply("add" | "sub" | "neg" | "mul", parts):
            return all(_in_addend(part, read) for part in parts)
        case Apply("div", (above, below)):
            return _in_addend(above, read) and read not in reads(below)
        case Where(_, then) | Fold("sum", _, _, then):
            return _in_addend(then, read)
    return read not in reads(term)


def _ends(sub: Term, into: IndexSet) -> tuple[Term, Term]:
    """That a subscript is not below the first element of a set, nor above its last."""
    return (Apply("le", (const(into.start), sub)),
            Apply("le", (sub, Size(into.extent + number(into.start - 1)))))


def _started(program: TypedProgram, equation: Equation, read: Read, at: int, span: Span | None) -> Iterator[Help]:
    """The line that says what stands before the first position, where a value is made of what it was at the last one.
    """
    slots = program.tensors[read.tensor].slots
    circle = any({equation.target, read.tensor} <= {*loop.inside} for loop in program.every_repeat)
    if not circle or span is None or slots[at].set.start != 1 or not is_last(read.subs[at]):
        return
    name = re.split("[_^]", span.text, maxsplit=1)[0]
    line = f"{name}{scripts([(slot, '0' if n == at else slot.name) for n, slot in enumerate(slots)])} = 0"
    text, place = span.source.text, span.start
    while (place := text.rfind("\n", 0, place) + 1) and text[place].isspace():
        place -= 1
    yield Help(f"say what stands before the first position: `{line}`", Span(span.source, place, place), f"{line}\n",
               certain=False)


def _place_of(read: Read, places: Mapping[Term, Span]) -> Span | None:
    """Where a read is written; one that a mask brought along may have other letters there."""
    def plain(term: Term) -> Term:
        return canonical(term, tuple(dict.fromkeys(x.index for x in walk(term) if isinstance(x, Position))))

    if read in places:
        return places[read]
    same = (term for term in places if isinstance(term, Read) and term.tensor == read.tensor)
    return next((places[term] for term in same if plain(term) == plain(read)), None)


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
    first, last = _ends(sub, into)
    if not proves(given, first, sizes):
        return f"fall below {into.start}"
    return "" if proves(given, last, sizes) else f"pass {into.extent + number(into.start - 1)}"


def _beyond(sub: Term, into: IndexSet, last: Term, given: Term, sizes: Mapping[str, int]) -> str:
    """How the subscript may leave the positions of its request; empty where it provably does not."""
    if not proves(given, Apply("le", (const(into.start), sub)), sizes):
        return f"fall below {into.start}"
    return "" if proves(given, Apply("le", (sub, last)), sizes) else f"pass {into.extent}"


def _flows(program: TypedProgram, text: Text, report: Report) -> None:
    """Reports every output that is not proved to read up to its own positions alone, and what belongs to its own
    requests alone. Nothing is asked where every output is said to read more.
    """
    if all(key in text.meant for _, key in program.outputs):
        return
    debts = owed(program, Told(text.folds, text.places, text.spans))
    for _, key in program.outputs:
        carried = {i.set: i for i in (_made_by(program, key) or Equation("", (), TRUE, Const(0.0))).indices}
        for into, found in debts.get(key, {}).items():
            if into in carried and key not in text.meant:
                report.add(_from_the_last(program, key, carried[into], found[0]) or _leaking(
                    key, carried[into], found[0], _masked(program, found[0].where, text.masks)))


def _made_by(program: Program, key: str) -> Equation | None:
    """The equation of a tensor; of a state, that of its next value."""
    return program.equation(next((c for repeat in program.every_repeat for a, _, c in repeat.states if a == key), key))


def _masked(program: TypedProgram, key: str, masks: Mapping[str, Span]) -> list[Span]:
    """The masks that an equation has from itself and from what it reads, the nearest on each way."""
    def after(here: str) -> list[str]:
        equation = None if here in masks else _made_by(program, here)
        return [] if equation is None else [read.tensor for read in equation.elements]

    return [masks[here] for here in reached([key], after) if here in masks]


def _from_the_last(program: TypedProgram, key: str, index: Index, leak: Owed) -> ReadsFuture | None:
    """Builds the problem of a value that is made from the last position down: it reads a tensor that the compiler made
    of it, counted from the end (`mirrored.py`). None for any other value.
    """
    made, known = program.tensors[leak.what], program.tensors[leak.where]
    if made.span is None or made.span != known.span or made is known or index.set.cls != "time":
        return None
    return ReadsFuture(f"`{key}` at `{index}` reads positions after `{index}`", leak.span,
                       f"the rounds that make `{leak.where}` run from the last position down",
                       helps=(Help("let the rounds run up, from the first position"),
                              Help("say that the future is meant: `output … : all`")))


def _leaking(key: str, index: Index, leak: Owed, masks: list[Span]) -> ReadsFuture | CrossesRequests:
    """Builds the problem of an output that depends on later positions, or on other requests, without saying so."""
    shown = tuple(Label(span, "its domain") for span in masks)
    if index.set.cls == "time":
        how = f"`{leak.what}` is read here without `≤ {index}`"
        notes = ((f"`{leak.what}` is read at a position that is made of data, of which nothing is known",)
                 if leak.computed else ())
        return ReadsFuture(f"`{key}` at `{index}` reads positions after `{index}`", leak.span, how, *shown,
                           notes=notes, once=(leak.span, index.set),
                           helps=(Help(f"restrict what it is read at to `≤ {index}`"),
                                  Help("say that the future is meant: `mask … : all`, `output … : all`")))
    return CrossesRequests(f"`{key}` of request `{index}` reads other requests", leak.span,
                           f"`{leak.what}` is read here",
                           helps=(Help(f"gate it with `δ_{index}^{{{index}'}}`"),))


def _masks(program: TypedProgram, text: Text, report: Report) -> None:
    """Reports masks that do nothing: no reduction runs over their domain."""
    readers: dict[str, list[tuple[str, Seen]]] = {}
    for equation in program.equations if text.masks else ():
        for at in everything(equation):
            readers.setdefault(at.read.tensor, []).append((equation.target, at))
    for key, span in text.masks.items():
        if key in program.tensors and not _reduced(readers, key):
            report.add(CutDomain(f"no reduction reads the mask of `{key}`", span,
                                 helps=(Help("remove it, or reduce over it"),)))


def _reduced(readers: Mapping[str, list[tuple[str, Seen]]], key: str) -> bool:
    """Whether a reduction runs over the domain of the tensor, or of one that has it from the tensor."""
    found = reached([key], lambda here: [target for target, at in readers.get(here, ()) if not at.folds])
    folds = (fold for here in found for _, at in readers.get(here, ()) for fold in at.folds)
    return any(free_indices(fold.domain) & set(fold.bound) for fold in folds)


def _keywords(program: TypedProgram, text: Text, report: Report) -> None:
    """Reports names of two things: a size that no tensor fixes is asked of the caller by its name, which then is no
    tensor's.
    """
    given = told([slot.set.extent for tensor in program.inputs() for slot in tensor.slots], program.sizes)
    asked = {n for t in program.tensors.values() for slot in t.slots for n in slot.set.extent.sizes}
    for equation in program.equations:
        for term in (t for root in (equation.domain, equation.body) for t in walk(root)):
            if isinstance(term, Size):
                asked |= term.extent.sizes
    for tensor in program.inputs():
        if tensor.key in asked - given - program.sizes.keys():
            report.add(OnePythonName(f"`{tensor.text}` is `{tensor.key}` in Python, and so is an extent that the "
                                     f"caller gives",
                                     tensor.span,
                                     helps=(Help(f"say `as`: `{tensor.text} as {tensor.key}2`"),)))
