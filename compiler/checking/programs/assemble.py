"""What the outputs need, under the names that Python will see -> TypedProgram."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from einc.checking.declarations.ragged import Ragged, lengths_of
from einc.checking.declarations.scope import Outcomes, Signature
from einc.checking.programs.elaborate import Work
from einc.checking.programs.restarts import refused
from einc.errors.problems import AskedTwice, OnePythonName, Undeclared
from einc.errors.report import Help, Label, Source, Span
from einc.ir.dependence import in_order, reached
from einc.ir.draft import renamed, unused
from einc.ir.indices import IndexSet
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Tensor, TypedProgram
from einc.ir.rounds import place_of
from einc.ir.terms import Fold, Join, Pack, Part, Position, Read, Size, Term, reads, walk


def stem(source: Source) -> str:
    """The Python name of a program: its file's without the ending, which no function of Python's own has, since emitted
    files call these.
    """
    last = source.name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".ein")
    made = "".join(c if c.isalnum() and c.isascii() else "_" for c in last).strip("_")
    made = made if made and not made[0].isdigit() else f"spec_{made}".rstrip("_")
    return made + "_" * (keyword.iskeyword(made) or made in dir(builtins))


def outputs(work: Work, recurs: list[BlockLoop], repeats: list[IndexLoop],
            ranks: tuple[int, ...] | None = None) -> list[Signature]:
    """The declared outputs, else what is defined and never read, or, where all of it is, never at its own position;
    what a round makes anew is none. With `ranks`, of documents, only equations of these ranks count. Reports outputs
    that nothing defines.
    """
    chosen = work.collected.outputs
    if not chosen:
        updates = (e for recur in recurs for e in recur.updates)
        everything = [*work.equations.values(), *work.made.equations, *updates]
        every = [inner for repeat in repeats for inner in repeat.every]
        own = {key: {s for r in every for s, _, _ in r.states if key in r.inside} for r in every for key in r.inside}
        parts = {e.target for repeat in every for e in everything
                 if e.target in repeat.inside and repeat.index in e.indices}
        read = {key for e in everything for key in e.reads
                if key != e.target and key not in own.get(e.target, ())}
        read |= {e.target for recur in recurs for e in recur.inside} | (own.keys() - parts)
        order = work.collected.order if ranks is None else work.collected.asked(ranks)
        chosen = [x for x in order if x.key not in read] or [x for x in order if x.key not in _at_once(everything)]
    lost = work.scope.lost
    for signature in chosen:
        known = id(signature) in work.collected.entries or signature.role != "local"
        if not known and signature.name.base not in lost and signature.name.stem.python not in lost:
            work.report.add(Undeclared(f"the output `{signature.text}` is not defined", signature.span,
                                       helps=(Help("give it an equation"),)))
    return chosen


def _at_once(equations: Iterable[Equation]) -> frozenset[str]:
    """What equations read of others at their own positions. Where equations read each other in a circle, what they
    read at other positions alone is what comes of a round.
    """
    return frozenset(x.tensor for e in equations for root in (e.domain, e.body) for x in walk(root)
                     if isinstance(x, Read) and x.tensor != e.target and all(isinstance(y, Position) for y in x.subs))


def assemble(work: Work, source: Source, chosen: list[Signature], recurs: list[BlockLoop], repeats: list[IndexLoop],
             name: str = "") -> tuple[TypedProgram, Text] | None:
    """The program, and what the audit needs to know of its text; None where two tensors want one name. Changes
    `work.report`."""
    closed = work.blocks.closed
    everything = {e.target: closed.get(e.target, e) for e in [*work.made.equations, *work.equations.values()]}
    live = _live(everything, recurs, repeats, [x.key for x in chosen])
    live |= dict.fromkeys(lengths_of(work.scope, (e for key, e in everything.items() if key in live), live,
                                     (r.index.set for r in repeats if _needed(r, live) is not None)).values())
    names = _python_names(work, live, chosen)
    if names is None:
        return None
    tensors = {t.key: t for t in _tensors(work, live, names)}
    repeats = [repeat for r in repeats if (repeat := _needed(r, live)) is not None]
    order = list(_sorted(everything, set(live), repeats))
    turns = {loop: n for n, loop in enumerate(key for key in order if isinstance(key, IndexLoop))}
    equations = tuple(_renamed(everything[key], names) for key in order if isinstance(key, str))
    used = set(_sets(tensors, equations))
    numbers = (t.extent for e in equations for root in (e.domain, e.body) for t in walk(root) if isinstance(t, Size))
    speaks = {name for extent in (*(over.extent for over in used), *numbers) for name in extent.sizes}
    program = TypedProgram(
        name or stem(source), tensors, equations, tuple((names[x.key], names[x.key]) for x in chosen),
        dict(work.scope.numbers.fixed),
        {into: parts for into, parts in work.scope.sets.splits.items() if {into, *parts} <= used},
        {into: parts for into, parts in work.scope.sets.sums.items() if into in used}, source.name,
        (*(_living(recur, live, names) for recur in recurs if any(e.target in live for e in recur.updates)),
         *(_placed(loop, turns).change(names.__getitem__) for loop in turns if loop in repeats)),
        frozenset(work.scope.numbers.dims - work.scope.numbers.fixed.keys() - speaks))
    text = Text(work, names, chosen)
    text.ragged.refused([x for x in chosen if x.role == "local"], program.recurs, work.report)
    for problem in refused(program, text.ragged, text.spans, text.places):
        work.report.add(problem)
    return program, text


def _tensors(work: Work, live: dict[str, None], names: dict[str, str]) -> Iterator[Tensor]:
    for x in work.scope.signatures:
        if x.key in live:
            yield Tensor(names[x.key], x.name.written(work.scope.alphabet.indices), x.slots, x.role, x.element, x.span,
                         everywhere=x.said.total)
    for made in work.made.tensors:
        if made.key in live:
            yield replace(made, key=names[made.key], text=names[made.key] if made.text == made.key else made.text)


def _python_names(work: Work, live: dict[str, None], chosen: list[Signature]) -> dict[str, str] | None:
    """Maps the key of every live tensor to its Python name; where two clash, one gets its key or `_out` at its end.

    Two of the same standing (both local, or both declared) are reported as OnePythonName, and the result is None.
    Changes `work.report`.
    """
    signatures = {x.key: x for x in work.scope.signatures}
    names = _asked(work, live)
    if names is None:
        return None
    taken: dict[str, Signature] = {}
    for signature in (x for x in work.scope.signatures if x.key in live and (x.role != "local" or x in chosen)):
        python = _identifier(signature.alias or signature.name.python)
        other = taken.get(python)
        if other is not None and signature.inferred:
            python = _identifier(signature.key)
        elif other is not None and (other.role == "local") == (signature.role == "local"):
            work.report.add(OnePythonName(f"`{other.text}` and `{signature.text}` are both `{python}` in Python",
                                          signature.span,
                                          "",
                                          Label(other.span, "declared here"),
                                          helps=(Help(f"say `as`: `{signature.span.text} as {python}2`"),)))
            return None
        while python in taken or python in names.values():
            python += "_out"
        taken[python] = signature
        names[signature.key] = python
    used = set(names.values())
    for key in live:
        if key not in names:
            python = _identifier(signatures[key].name.python if key in signatures else key)
            names[key] = unused(key if python in used else python, used)
            used.add(names[key])
    return names


def _asked(work: Work, live: dict[str, None]) -> dict[str, str] | None:
    """The names that calls of specs ask of the caller, each asked once; None where one is asked twice. Changes
    `work.report`."""
    given = {_identifier(x.alias or x.name.python): x.span for x in work.scope.signatures
             if x.role != "local" and x.key in live}
    names = {key: python for key, (python, _) in work.made.asked.items() if key in live}
    twice: dict[Span, list[str]] = {}
    for key, python in names.items():
        span = work.made.asked[key][1]
        if python in given:
            twice.setdefault(span, []).append(python)
        given.setdefault(python, span)
    for span, found in twice.items():
        listed = ", ".join(f"`{x}`" for x in found)
        work.report.add(AskedTwice(f"{listed}: asked by this call, and of another place too", span, "asks here",
                                   Label(given[found[0]], "here too"),
                                   notes=("it could be one tensor for both, or one for each",),
                                   helps=(Help(f"declare what is meant, and give it: `{found[0]} = …`"),)))
    return None if twice else names


def _identifier(name: str) -> str:
    return name + "_" * keyword.iskeyword(name)


def _sets(tensors: dict[str, Tensor], equations: tuple[Equation, ...]) -> Iterator[IndexSet]:
    """Every set that a program speaks of."""
    yield from (slot.set for tensor in tensors.values() for slot in tensor.slots)
    for equation in equations:
        for term in (t for root in (*equation.axes, equation.domain, equation.body) for t in walk(root)):
            match term:
                case Position(index) | Join(index):
                    yield index.set
                case Fold(_, bound):
                    yield from (i.set for i in bound)
                case Pack(_, parts, into):
                    yield from (*parts, into)
                case Part(_, of, _, into):
                    yield from (of, into)


def _living(recur: BlockLoop, live: dict[str, None], names: dict[str, str]) -> BlockLoop:
    """The part of a recurrence that the outputs need."""
    def kept(equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
        return tuple(_renamed(e, names) for e in equations if e.target in live)

    return replace(recur, starts=kept(recur.starts), inside=kept(recur.inside), updates=kept(recur.updates),
                   domain=renamed(recur.domain, names),
                   places={names[key]: place for key, place in recur.places.items() if key in names},
                   member=names.get(recur.member, recur.member))


def _needed(repeat: IndexLoop, live: dict[str, None]) -> IndexLoop | None:
    """The part of the rounds that the outputs need."""
    states = tuple(state for state in repeat.states if state[0] in live)
    inside = tuple(k for k in repeat.inside if k in live)
    loops = tuple(inner for loop in repeat.loops if (inner := _needed(loop, live)) is not None)
    return IndexLoop(repeat.index, states, inside, loops) if inside else None


def _placed(repeat: IndexLoop, turns: Mapping[IndexLoop, int]) -> IndexLoop:
    """The rounds with those that stand in them in their order."""
    return replace(repeat, loops=tuple(_placed(loop, turns) for loop in sorted(repeat.loops, key=turns.__getitem__)))


def _live(equations: dict[str, Equation], recurs: list[BlockLoop], repeats: list[IndexLoop],
          wanted: list[str]) -> dict[str, None]:
    """The keys that the outputs need; of a recurrence also what only a round reads."""
    rounds: dict[str, list[Read]] = {}
    for recur in recurs:
        for e in recur.equations:
            inner = [*reads(e.body), *reads(e.domain), *reads(recur.domain)]
            rounds.setdefault(e.target, []).extend(inner + ([Read(recur.member, ())] if recur.member else []))
    for repeat in (inner for r in repeats for inner in r.every):
        rounds.update({state: [Read(first, ()), Read(following, ())] for state, first, following in repeat.states})
        for key in repeat.inside:  # without its rounds a value that is made anew in each has no meaning
            if repeat.index not in equations[key].indices:
                rounds.setdefault(key, []).extend(Read(state, ()) for state, _, _ in repeat.states)

    def after(key: str) -> list[str]:
        inner = (equations[key].body, equations[key].domain) if key in equations else ()
        return [r.tensor for r in (*rounds.get(key, ()), *(r for term in inner for r in reads(term)))]

    return dict.fromkeys(reached(reversed(wanted), after))


def _sorted(equations: dict[str, Equation], live: set[str], repeats: list[IndexLoop]) -> Iterator[str | IndexLoop]:
    """The live equations and rounds, those in others too, each after what it reads, otherwise in the order they were
    made.
    """
    every = [inner for repeat in repeats for inner in repeat.every]
    owners = {state: repeat for repeat in every for state, _, _ in repeat.states}
    firsts = {state: first for repeat in every for state, first, _ in repeat.states}

    def earlier(read: Read, mine: list[IndexLoop]) -> bool:
        """Whether a round reads what an earlier one made."""
        places = [(loop.index, place_of(loop.index, equations[read.tensor])) for loop in mine
                  if read.tensor in loop.inside]
        return any(at is not None and read.subs[at] != Position(index) for index, at in places)

    def asked(key: str, mine: list[IndexLoop]) -> str | IndexLoop:
        """What has to be there where rounds of these loops read a value: it, or the rounds that it is made in."""
        if key in owners:
            return firsts[key] if owners[key] in mine else owners[key]
        return next((loop for loop in every if key in loop.inside and loop not in mine), key)

    def before(here: str | IndexLoop) -> list[str | IndexLoop]:
        if isinstance(here, IndexLoop):
            return [*here.inside, *(first for _, first, _ in here.states)]
        mine = [loop for loop in every if here in loop.inside]
        inner = [r for r in equations[here].elements if not earlier(r, mine)] if here in equations else []
        # Rounds that stand in others are made after all that any of their equations reads.
        outer = [r for n, loop in enumerate(mine[1:], 1) for key in loop.inside for r in equations[key].elements
                 if r.tensor not in loop.made and not earlier(r, mine[:n])]
        return [asked(r.tensor, mine) for r in (*outer, *inner)]

    begins = {first for repeat in repeats for loop in repeat.every[1:] for _, first, _ in loop.states}
    start = [key for key in [*equations, *every] if isinstance(key, IndexLoop) or key in live - begins]
    return (key for key in in_order(start, before) if isinstance(key, IndexLoop) or key in equations)


def _renamed(equation: Equation, names: dict[str, str]) -> Equation:
    return Equation(names[equation.target], equation.axes, renamed(equation.domain, names),
                    renamed(equation.body, names),
                    equation.source)


def account(work: Work, names: Mapping[str, str]) -> Outcomes:
    """What each equation of a paper became, by its place in the text."""
    found = work.collected
    kept = {x.span: names[x.left.signature.key] for x in (*found.entries.values(), *found.updates)
            if x.left.signature.key in names}
    passed = {x.span: found.entries[id(y)].span if id(y) in found.entries else y.span for x in found.passed
              for y in [x.left.signature]}
    inferred = {names[x.key]: x.text for x in work.scope.signatures if x.inferred and x.key in names}
    return Outcomes(kept, passed, found.failed, inferred, work.scope.foreign.guessed, work.scope.foreign.inlined)


@dataclass(frozen=True)
class Text:
    """What the audit needs to know of the text: where things were written, and what was said on purpose."""

    work: Work
    names: dict[str, str]
    signatures: list[Signature]

    @cached_property
    def meant(self) -> frozenset[str]:
        """The keys of the outputs that are declared `: all`, which say so where a fold runs over all positions."""
        return frozenset(self.names[x.key] for x in self.signatures if x.said.total)

    @cached_property
    def ragged(self) -> Ragged:
        """Which tensors say how long each request is, and which say to which request a position belongs."""
        lengths = lengths_of(self.work.scope, (), self.names)
        return Ragged({over: self.names[key] for over, key in lengths.items()},
                      {self.names[key]: found for key, found in self.work.owners.items() if key in self.names})

    @cached_property
    def folds(self) -> frozenset[Term]:
        """Folds over a line whose whole range was meant."""
        return frozenset(renamed(t, self.names) for t, said in self.work.made.meant.items() if said)

    @cached_property
    def places(self) -> dict[Term, Span]:
        """Where each term stands in the text, the terms under their Python names."""
        return {renamed(t, self.names): x for t, x in self.work.made.places.items()}

    @cached_property
    def spans(self) -> dict[str, Span]:
        """Where each tensor stands in the text."""
        made = {self.names[t.key]: t.span for t in self.work.made.tensors if t.key in self.names and t.span is not None}
        return made | {self.names[x.key]: x.span for x in self.work.scope.signatures if x.key in self.names}

    @cached_property
    def masks(self) -> dict[str, Span]:
        """The span of the last mask of each tensor that has a mask with a condition."""
        return {self.names[x.key]: x.said.masks[-1].span for x in self.work.scope.signatures
                if x.key in self.names and any(m.predicate is not None for m in x.said.masks)}
