"""Several folds over one index -> one pass with a carried state.

Separate: a fold that depends on another's result becomes a finite sum of folds that do not. Strip: what holds results
stands outside them, where most of it cancels. Stabilise: a fold of exp(e) whose exponent has no bound above is kept as
a scaled number e^r a, r the running maximum of e; where the source has a maximum of its own it is that same one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from einc.ir.draft import renamed, unused
from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.letters import MADE, letters_for, strokes, what_it_is, words
from einc.ir.primitives import UNKNOWN
from einc.ir.programs import Equation
from einc.ir.signs import sign
from einc.ir.sums import added, asks_reached, joined, product, reached
from einc.ir.terms import ZERO, Apply, Const, Fold, Read, Term, const, free_indices, reads, substitute, transform
from einc.ir.witnesses import witnessed
from einc.planning.streaming.moments import RunningMoments, moment, offset
from einc.planning.streaming.passes import CarriedFold, Streamed
from einc.planning.streaming.relative import power_of, pulled_out, relative_to, rounded_power, told
from einc.planning.streaming.separate import Entangled, separate
from einc.transforms.laws import ALL, exponentials
from einc.transforms.laws.empty_folds import either, over_nothing
from einc.transforms.laws.simplify import simplify


def stream(equations: tuple[Equation, ...], virtual: frozenset[str], kept: frozenset[str],
           taken: frozenset[str]) -> Streamed:
    """One pass where the folds separate; else the equations unchanged, with a note that names the term in the way.

    `virtual` values are computed tile by tile and not stored; `kept` are read outside; `taken` are the program's names.
    """
    index = _streamed_index(equations, virtual)
    if index is None:
        return Streamed(equations, None, ())
    work = _Pass(index, equations, virtual, taken | {e.target for e in equations})
    along = next((e for e in equations if e.target in kept and index in e.indices), None)
    if along is not None:
        return Streamed(equations, None, (), (f"whole rows of {index}: {along.target} is stored along it",))
    try:
        for equation in equations:
            work.take(equation)
    except Entangled as found:
        return Streamed(equations, None, (),
                        (f"two passes over {index}: {_brief(found.term)} holds results of the first",))
    work.stabilise()
    work.finish()
    try:
        return told(work.result(kept))
    except Entangled as found:
        return Streamed(equations, None, (),
                        (f"whole rows of {index}: {_brief(found.term)} is not told to be of no points",))


def _streamed_index(equations: tuple[Equation, ...], virtual: frozenset[str]) -> Index | None:
    """The one index that every fold of virtual values runs over."""
    found = {e.body.bound for e in equations if isinstance(e.body, Fold) and e.target not in virtual}
    if len(found) != 1:
        return None
    bound = next(iter(found))
    return bound[0] if len(bound) == 1 else None


def _brief(term: Term) -> str:
    names = sorted({r.tensor for r in reads(term)})
    return f"{term.op if isinstance(term, Apply) else 'a term'}({', '.join(names)})"


@dataclass
class _Pass(RunningMoments):
    """The equations of a pass, taken one after the other."""

    def take(self, equation: Equation) -> None:
        """Adds one equation to the pass, in the order of the program: as it is, as carried folds, or kept back to be
        opened where it is read. Entangled where a fold over another index holds results of the pass."""
        body = self._open(equation.body)
        if isinstance(body, Fold) and self.index not in body.bound and not self._holds(body):
            self.out[equation.target] = replace(equation, body=body)
        elif isinstance(body, Fold) and self.index not in body.bound:
            raise Entangled(body)
        elif isinstance(body, Fold):
            self._fold(equation, body)
        elif self.index in free_indices(body) and (self._holds(body) or unbounded(body, self.out)):
            self.opened[equation.target] = replace(equation, body=body)
        elif self._holds(body):
            self.held.add(equation.target)
            self.out[equation.target] = replace(equation, body=body)
            self.finishes.append(equation.target)
        else:
            self.out[equation.target] = replace(equation, body=body)

    def _open(self, term: Term) -> Term:
        def change(inner: Term) -> Term:
            if isinstance(inner, Read) and inner.tensor in self.opened:
                equation = self.opened[inner.tensor]
                return equation.at(inner.subs)
            return inner

        return transform(term, change)

    def _fold(self, equation: Equation, fold: Fold) -> None:
        """Adds a fold over the streamed index as folds that hold no results of the pass, and an equation that joins
        them. Entangled where its domain or body does not separate."""
        if self._holds(fold.domain):
            raise Entangled(fold.domain)
        body = pulled_out(simplify(spelled(fold.body), ALL), self._holds, self._moves)
        if not self._holds(body):
            self._basis(equation.target, equation, replace(fold, body=body))
            return
        if FOLDS[fold.op].shifts:
            outer, inner = self._shifted(body)
            self.moved.pulled.extend(filter(self._holds, outer))
            name = self._named(equation, replace(fold, body=inner))
            self._finish(equation, Apply("add", (*outer, self._result(name))))
            return
        if not FOLDS[fold.op].linear:
            raise Entangled(body)
        if (found := moment(body, self._holds, self._moves)) is not None:
            self._moment(equation, fold, found)
            return
        terms: list[Term] = []
        pairs = separate(spelled(body), self._holds, self._moves)
        if len(pairs) > 1:  # a difference: summed apart its parts would cancel each other's digits
            if (weighed := offset(body, self._holds, self._moves)) is None:
                raise Entangled(body)
            self._offset(equation, fold, weighed)
            return
        for outside, inside in pairs:
            self.moved.pulled.extend(filter(self._holds, outside))
            moving = tuple(f for f in inside if self._moves(f))
            still = tuple(f for f in inside if not self._moves(f))
            name = self._named(equation, replace(fold, body=joined(moving)))
            terms.append(joined((*outside, *still, self._result(name))))
        self._finish(equation, added(terms))

    def _shifted(self, body: Term) -> tuple[tuple[Term, ...], Term]:
        """max(c + x) = c + max(x). Raises Entangled."""
        outer: list[Term] = []
        inner: list[Term] = []
        for outside, inside in separate(body, self._holds, self._moves):
            if not inside or not any(self._moves(f) for f in inside):
                outer.append(product((*outside, *inside)))
            elif all(isinstance(f, Const) and f.value > 0 for f in outside) or not outside:
                inner.append(product((*outside, *inside)))
            else:
                raise Entangled(body)
        return tuple(outer), added(inner)

    # stabilise

    def stabilise(self) -> None:
        """Carries folds of exp(e) relative to the running maximum of e. Changes `self.out` and `self.carries`."""
        scaled: dict[str, tuple[Read, Read]] = {}
        for target in list(self.carries):
            equation = self.out[target]
            if not isinstance(equation.body, Fold) or not FOLDS[equation.body.op].linear:
                continue
            power = power_of(equation.body.body)
            if power is None or not (_grows(power, self.out) or rounded_power(equation.body.body) is not None):
                continue
            reference = self._reference(equation, power)
            body = replace(equation.body, body=relative_to(equation.body.body, self._result(reference)))
            mantissa = self._fresh(target, "scaled")
            axes = equation.axes
            self.out[mantissa] = Equation(mantissa, axes, equation.domain, body)
            self.carries[mantissa] = CarriedFold(mantissa, equation.body.op, reference)
            del self.carries[target]
            self._finish(equation, Apply("mul", (Apply("exp", (self._result(reference),)), Read(mantissa, axes))))
            scaled[target] = Read(mantissa, axes), self._result(reference)
        for made, (total, *_) in self.moved.offsets.items():
            self._followed(made, *scaled.get(total, (self._result(total), None)))

    def _reference(self, equation: Equation, power: Term) -> str:
        assert isinstance(equation.body, Fold)
        return self._named(equation, Fold("max", equation.body.bound, equation.body.domain, power))

    # finish

    def finish(self) -> None:
        """Simplifies what stands outside the folds: scales that cancel are gone. Changes `self.out`."""
        self._settle()
        bodies: dict[str, Term] = {}
        for target in self._finish_order():
            equation = self.out[target]

            def change(inner: Term) -> Term:
                if isinstance(inner, Read) and inner.tensor in bodies:
                    by = dict(zip(self.out[inner.tensor].indices, inner.subs, strict=True))
                    return substitute(bodies[inner.tensor], by)
                return inner

            bodies[target] = _finished(transform(equation.body, change))
            self.out[target] = replace(equation, body=bodies[target])

    def _finish_order(self) -> list[str]:
        """The targets of the final equations, each after those that it reads."""
        done: list[str] = []

        def visit(target: str) -> None:
            if target in done:
                return
            for read in reads(self.out[target].body):
                if read.tensor in self.finishes:
                    visit(read.tensor)
            done.append(target)

        for target in self.finishes:
            visit(target)
        return done

    def result(self, kept: frozenset[str]) -> Streamed:
        """The equations that are still read, each after what it reads."""
        order: list[str] = []
        seen: set[str] = set()

        def visit(name: str) -> None:
            target = self.before.get(name, name)
            if target in seen or target not in self.out:
                return
            seen.add(target)
            for term in (self.out[target].domain, self.out[target].body):
                for read in reads(term):
                    visit(read.tensor)
            order.append(target)

        for equation in self.source:
            if equation.target in kept:
                visit(equation.target)
        carries = tuple(c for c in self.carries.values() if c.target in seen)
        self._guard(kept, carries)
        others = self.taken - {e.target for e in self.source}
        before = {name: target for name, target in self.before.items() if target in seen}
        made = Streamed(tuple(self.out[t] for t in order), self.index, carries, before=before)
        return _lettered(made, self.source, others)

    def _guard(self, kept: frozenset[str], carries: tuple[CarriedFold, ...]) -> None:
        """Guards rows without a point, and those of which the source asks whether all in them is −∞: what is stored is
        what the source gives for folds over nothing. Raises Entangled."""
        folds = [self.out[c.target] for c in carries]
        domains = {e.body.domain for e in folds if isinstance(e.body, Fold)}
        references = [c.reference for c in carries if c.reference]
        if not any(asks_reached(e.body) for e in self.source) and all(
                witnessed(e.body.domain, e.body.bound, e.indices) for e in folds if isinstance(e.body, Fold)):
            return
        if not references:
            # An infinite result over nothing, out of the fold that it stood in, would meet the 0 or ∞ of another.
            if self.moved.pulled and any(math.isinf(FOLDS[c.fold].start) for c in carries):
                raise Entangled(self.moved.pulled[0])
            return
        if len(domains) > 1:
            raise Entangled(folds[0].body)
        empty = self._over_nothing()
        for target in self.finishes:
            if target in kept:
                equation, nothing = self.out[target], empty.get(target)
                own = [r for r in references if {*self.out[r].indices} <= {*equation.indices}]
                if not own:
                    raise Entangled(equation.body)  # what tells of an empty row has letters that this has not
                some = reached(self._result(own[0]))
                self.out[target] = replace(equation, body=either(some, equation.body, nothing or ZERO))

    def _over_nothing(self) -> dict[str, Term]:
        """Each result of the source where no point exists."""
        values: dict[str, Term] = {}

        def change(term: Term) -> Term:
            if isinstance(term, Read) and term.tensor in values:
                by = {e.target: e for e in self.source}
                return substitute(values[term.tensor], dict(zip(by[term.tensor].indices, term.subs, strict=True)))
            return term

        for equation in self.source:
            body = equation.body
            if isinstance(body, Fold) and self.index in body.bound:
                start = FOLDS[body.op].start
                values[equation.target] = const(int(start)) if abs(start) < 2 else Const(start)
            elif self.index not in equation.indices and not isinstance(body, Fold):
                values[equation.target] = over_nothing(transform(body, change))
        return values


def _lettered(streamed: Streamed, source: tuple[Equation, ...], others: frozenset[str]) -> Streamed:
    """The pass with names for what it made: where a fold of the source is carried in another form, under its own name,
    if it is free; else under a letter. `others` are names of the program outside of the pass."""
    folds = {e.target: e.body.op for e in source if isinstance(e.body, Fold)}
    by, made = {e.target: e for e in streamed.equations}, [c for c in streamed.carries if MADE in c.target]
    taken = {key for key in by if MADE not in key} | others | words(source)
    strokes_, names = strokes(by.values()), dict[str, str]()
    for carry in made:
        owner = carry.target.split(MADE)[0]
        if folds.get(owner) == carry.fold and owner not in taken and not _kind(carry.target):
            names[carry.target] = owner
            taken.add(owner)
    new = {c.target: _kind(c.target) or what_it_is(by[c.target], *strokes_) for c in made if c.target not in names}
    names |= letters_for(new, {key: key.split(MADE)[0] for key in new}, taken)
    for name in (*by, *streamed.before):
        if MADE in name and name not in names:
            of, word = name.rsplit(MADE, 1)
            names[name] = unused(f"{names.get(of, of)}_{word.rstrip('0123456789')}", taken | {*names.values()})

    def told(name: str) -> str:
        return names.get(name, name)

    return replace(
        streamed,
        equations=tuple(replace(e.map(lambda t: renamed(t, names)), target=told(e.target)) for e in streamed.equations),
        carries=tuple(replace(c, target=told(c.target), reference=c.reference and told(c.reference))
                      for c in streamed.carries),
        before={told(name): told(target) for name, target in streamed.before.items()},
    )


def _kind(name: str) -> str:
    """What a name of a pass says beside the value that it is made for, where that is an entry of `LETTERS`."""
    return next((kind for kind in ("mean", "moment") if f"{MADE}{kind}" in name), "")


def spelled(body: Term) -> Term:
    """Powers of numbers as exponentials, so that they separate too."""
    power = next(r for r in exponentials.RULES if r.name == "power")
    return transform(body, lambda t: power.apply(t) or t)


def unbounded(body: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether an exponential stands in a product whose exponent has no bound above that is known."""
    power = power_of(spelled(body))
    return power is not None and _grows(power, equations)


def _grows(power: Term, equations: Mapping[str, Equation]) -> bool:
    return sign(simplify(Apply("neg", (power,))), equations) == UNKNOWN


def _finished(term: Term) -> Term:
    return simplify(term, ALL)
