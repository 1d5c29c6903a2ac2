"""TypedProgram -> NormalProgram: a flat list of equations whose folds stand at the root.

In normal form the body of an equation is
  pointwise     no fold inside;
  a fold        of a product of reads (a contraction, or the number 1), or of one read or number;
  a direct sum  of pointwise parts;
  a pick        of a rank among the points of one read, which is −∞ outside of the domain.
Non-goals: order of contractions, what is stored, anything about cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.ir.dependence import needed
from einc.ir.domains import negation, proves
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.folds import FOLDS
from einc.ir.indices import Index, IndexSet, number
from einc.ir.letters import with_letters
from einc.ir.primitives import POSITIVE
from einc.ir.programs import Equation, IndexLoop, NormalProgram, Program, Tensor, local
from einc.ir.signs import sign
from einc.ir.sums import factors, inverse_of, parted, product
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    canonical,
    children,
    conjuncts,
    const,
    free_indices,
    in_body,
    reads,
    rebuild,
    walk,
)
from einc.transforms.laws.linear import may_leave
from einc.transforms.laws.simplify import picked, simplify
from einc.transforms.normal.apart import apart
from einc.transforms.normal.delta_elimination import appearance, axis_order, inline_gates, is_gate
from einc.transforms.normal.operands import (
    cost,
    divided,
    is_product,
    label,
    packed,
    plain,
    worth,
)
from einc.transforms.normal.topk_pushdown import at_chosen
from einc.transforms.slicing.lags import with_lags
from einc.transforms.slicing.repeats import in_order, outside, part, round_of


def normalise(program: Program, again: bool = False) -> NormalProgram:
    """The same program in normal form. `again`: it was normal once, so that its exponentials are scaled."""
    if not program.repeats:
        return with_letters(_without_rounds(program, again), program.tensors)
    program = with_lags(program)
    return with_letters(_with_rounds(program), program.tensors)


def _without_rounds(program: Program, again: bool) -> NormalProgram:
    program = program if again else apart(program)
    equations, known = _flat(program, dict(program.tensors))
    keys = {e.target for e in equations}
    tensors = {k: t for k, t in known.items() if t.role != "local" or k in keys}
    return NormalProgram.of(program).but(equations=equations, tensors=tensors, loops=())


def _with_rounds(program: Program) -> NormalProgram:
    """The equations of each of the rounds, then all others; what is the same in every
    round is made before the first."""
    tensors, repeats = dict(program.tensors), list[IndexLoop]()
    rounds, once = list[Equation](), list[Equation]()
    for repeat in program.repeats:
        one = round_of(replace(program, tensors=tensors), repeat, own=True)
        equations, known, loops = _round(one.program, tensors)
        tensors |= {k: one.whole(t) for k, t in known.items() if k not in tensors and k != one.counter}
        early = one.once(equations, loops)
        later = [one.restored(e) for e in equations if e not in early]
        once += early
        rounds += later
        repeats.append(replace(repeat, inside=tuple(e.target for e in later), loops=loops))
    every = [inner for repeat in repeats for inner in repeat.every]
    read = {k for e in (*rounds, *once)
            for k in e.reads} | {first for repeat in every for _, first, _ in repeat.states}
    plain = outside(program)
    wanted = [key for key in (e.target for e in plain) if key in read or key in {k for _, k in program.outputs}]
    stretch = apart(part(program, plain, wanted, tensors))
    equations, known = _flat(stretch, {**tensors, **stretch.tensors})
    everything = {e.target: e for e in (*equations, *once, *rounds)}
    kept = {*everything, *(state for repeat in every for state, _, _ in repeat.states)}
    tensors |= {k: t for k, t in known.items() if k not in tensors}
    tensors = {k: program.tensors.get(k, t) for k, t in tensors.items() if t.role != "local" or k in kept}
    ordered = tuple(everything[k] for k in in_order(everything, repeats))
    return NormalProgram.of(program).but(equations=ordered, tensors=tensors, loops=repeats)


def _round(program: Program, tensors: Mapping[str, Tensor]
           ) -> tuple[Sequence[Equation], Mapping[str, Tensor], tuple[IndexLoop, ...]]:
    """The equations of one round in normal form, all tensors with those of the whole, and the loops in the round."""
    if program.repeats:
        found = _with_rounds(replace(program, tensors={**tensors, **program.tensors}))
        return found.equations, {**tensors, **found.tensors}, found.repeats
    round_ = apart(program)
    return *_flat(round_, {**tensors, **round_.tensors}), ()


def with_normal(program: NormalProgram) -> NormalProgram:
    """The program whose equations outside of its loops were changed, these in normal form again."""
    work, by = _Flat(dict(program.tensors)), {e.target: e for e in program.equations}
    for equation in outside(program):
        work.add(equation)
    everything = {**by, **work.equations}
    ordered = [everything[key] for key in in_order(everything, list(program.repeats))]
    return with_letters(program.but(equations=ordered, tensors=work.tensors), program.tensors)


def _flat(program: Program, tensors: dict[str, Tensor]) -> tuple[list[Equation], dict[str, Tensor]]:
    """The equations in normal form that the outputs need, and all tensors."""
    inlined = inline_gates(at_chosen(replace(program, tensors=tensors)))
    work = _Flat(dict(inlined.tensors))
    for equation in inlined.equations:
        work.add(equation)
    equations = needed(work.equations, [key for _, key in program.outputs])
    broken = next((e for e in equations if not is_normal(e)), None)
    assert broken is None, f"not normal: {broken}"
    return equations, work.tensors


def flat(program: Program) -> NormalProgram:
    """The program with folds at the root and without δ that choose elements: each equation is one step whose slopes
    are plain, and each scale of a sum of exponentials is an equation, which needs none."""
    found = inline_gates(at_chosen(apart(program, slopes=True)))
    work = _Flat(dict(found.tensors), guarded=True)
    for equation in found.equations:
        work.add(replace(equation, body=simplify(equation.body)))
    equations = needed(work.equations, [key for _, key in program.outputs])
    tensors = {k: t for k, t in work.tensors.items() if t.role != "local" or k in work.equations}
    made = NormalProgram.of(program).but(equations=equations, tensors=tensors, loops=())
    return with_letters(made, program.tensors)


def is_normal(equation: Equation) -> bool:
    """Whether an equation is in normal form, as the docstring of the module defines it."""
    match equation.body:
        case Fold("sum", _, domain, body):
            return (_pointwise(domain)
                    and (body == ONE or all(isinstance(f, Read) and _pointwise(f) for f in factors(body))))
        case Fold(_, _, domain, body):
            return _pointwise(domain) and isinstance(body, Read | Const) and _pointwise(body)
        case Join(_, parts):
            return all(_pointwise(part) for _, part in parts)
        case Apply("pick", (Fold(_, _, domain, body), rank)):
            return _pointwise(domain) and isinstance(body, Read) and _pointwise(body) and isinstance(rank, Position)
    return _pointwise(equation.body)


def _pointwise(term: Term) -> bool:
    return not any(isinstance(x, Fold | Join) for x in walk(term))


@dataclass
class _Flat:
    """The equations made so far; `known` finds an equation by its canonical body."""

    tensors: dict[str, Tensor]
    equations: dict[str, Equation] = field(default_factory=dict)
    known: dict[tuple[Term, Term], tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    guarded: bool = False  # what is read at computed places exists where these are

    def add(self, equation: Equation) -> None:
        """Adds an equation in normal form, after those that its folds and costly operands need."""
        body = equation.body
        if isinstance(body, Join):
            body = Join(body.index,
                        tuple((i, self.pointwise(p, equation.domain, equation.target)) for i, p in body.parts))
        elif isinstance(body, Fold):
            body = self.folded(body, equation.domain, equation.target)
        elif (found := picked(equation)) is not None:
            body = self._picked(*found, equation.target)
        else:
            body = self.pointwise(body, equation.domain, equation.target)
        # What is hoisted is a real number; a whole one is exact as it is written.
        kept = (self.guarded and is_gate(equation)) or self.tensors[equation.target].integer
        if not (isinstance(body, Fold | Join) or (isinstance(body, Apply) and body.op == "pick") or kept):
            body = self._hoisted(body, frozenset(equation.indices), equation.domain, equation.target)
        self._record(Equation(equation.target, equation.axes, equation.domain, body, equation.source))

    def _picked(self, ordered: Fold, rank: Index, owner: str) -> Term:
        """A pick among the points of one read: what is no candidate is −∞."""
        inside = self.pointwise(ordered.domain, TRUE, owner)
        points = self.pointwise(Where(ordered.domain, ordered.body) if inside != TRUE else ordered.body, TRUE, owner)
        if inside != TRUE:
            points = Apply("add", (points, Where(negation(inside), Const(-math.inf))))
        found = self.named(simplify(points), TRUE, f"{owner}_from", force=True, last=ordered.bound)
        return Apply("pick", (Fold(ordered.op, ordered.bound, inside, found), Position(rank)))

    def _placed(self, ordered: Fold, rank: Term, given: Term, owner: str) -> Term:
        """A pick at a computed rank: read from an equation of as many ranks as there can be. Adds that equation."""
        (element,) = ordered.bound
        if isinstance(rank, Const) and rank.value < 1:
            return const(element.set.start - 1)
        most = (number(int(rank.value)) if isinstance(rank, Const) and isinstance(rank.value, Fraction)
                else element.set.extent)
        index = Index("rank", IndexSet(element.set.cls, most))
        picked = self._picked(ordered, index, owner)
        order = (*sorted(free_indices(picked) - {index}, key=axis_order), index)
        target = unused(f"{owner}_chosen", self.tensors)
        self.tensors[target] = local(target, order, INTEGER)
        self._record(Equation(target, tuple(map(Position, order)), TRUE, picked))
        place = self.pointwise(rank, given, owner)
        here = both(Apply("le", (ONE, place)), Apply("le", (place, Size(most))))
        read = Read(target, (*map(Position, order[:-1]), place))
        return read if isinstance(rank, Const) else Apply("add", (
            Where(here, read), Where(negation(here), const(element.set.start - 1))))

    def _record(self, equation: Equation) -> None:
        """Adds an equation. A scale is not found again for a value that is equal to it: what reads that has a slope."""
        self.equations[equation.target] = equation
        scale = self.tensors[equation.target].scale
        if scale or isinstance(equation.body, Join) or not all(isinstance(a, Position) for a in equation.axes):
            return
        order = appearance(equation.body, equation.domain)
        if set(order) == set(equation.indices):
            key = (canonical(equation.body, order), canonical(equation.domain, order))
            self.known.setdefault(key, (equation.target, tuple(order.index(i) for i in equation.indices)))

    def pointwise(self, term: Term, given: Term, owner: str) -> Term:
        """The term with every fold in it read from an equation of its own."""
        match term:
            case Fold():
                inner = self.folded(term, given, owner)
                return (
                    self.named(inner, given, f"{owner}_{term.op}")
                    if isinstance(inner, Fold)
                    else self.pointwise(inner, given, owner)
                )
            case Apply("pick", (Fold() as ordered, rank)):
                return self._placed(ordered, rank, given, owner)
            case Where(condition, then):
                inside = self.pointwise(condition, given, owner)
                return Where(inside, self.pointwise(then, both(given, inside), owner))
        return rebuild(term, tuple(self.pointwise(kid, given, owner) for kid in children(term)))

    def folded(self, fold: Fold, given: Term, owner: str) -> Term:
        """The fold over reads alone; what does not depend on its index is outside, so the result may be a product."""
        fold = self._opened(fold)
        simple = simplify(fold)
        if not isinstance(simple, Fold):
            return self.pointwise(simple, given, owner)
        domain = self.pointwise(simple.domain, given, owner)
        inner = in_body(given, replace(simple, domain=domain))
        parts = self._factors(simple.body, inner) if simple.op == "sum" else (simple.body,)
        outer = tuple(p for p in parts if len(parts) > 1 and may_leave(p, simple.bound, simple.domain))
        if outer:  # what stood in a quotient
            rest = replace(simple, body=product(tuple(p for p in parts if p not in outer)))
            return self.pointwise(product((*outer, rest)), given, owner)
        alone = len(parts) == 1 and isinstance(parts[0], Const)
        loose = [p for p in parts if not plain(p) and not alone]
        kept = [p for p in parts if plain(p) or alone]
        named = [self._term(p, inner, owner, frozenset(simple.bound)) for p in loose]
        body = tuple([*named, *kept])
        return Fold(simple.op, simple.bound, domain, body[0] if len(body) == 1 else Apply("mul", body))

    def _factors(self, body: Term, given: Term) -> tuple[Term, ...]:
        """The factors of a sum's body. 0 / 0 is 0: what may be 0 below a stroke stays with what is then 0 above it."""
        parts = [f for f in parted(body) if f != ONE]
        for inverse in tuple(p for p in parts if inverse_of(p) is not None):
            below = inverse_of(inverse)
            if below is None or sign(below, self.equations, given) == POSITIVE:
                continue
            above = divided(tuple(p for p in parts if inverse_of(p) is None), below, self.equations, self.tensors)
            if above:
                at = min(map(parts.index, above))
                for gone in (*above, inverse):
                    parts.remove(gone)
                parts.insert(at, Apply("div", (above[0] if len(above) == 1 else Apply("mul", above), below)))
        return tuple(parts) or (ONE,)

    def _term(self, term: Term, given: Term, owner: str, bound: frozenset[Index]) -> Term:
        flat = self.pointwise(term, given, owner)
        flat = self._hoisted(flat, free_indices(flat), given, owner)
        stem = f"{flat.tensor}_at" if isinstance(flat, Read) else f"{owner}_{label(flat)}"
        return self.named(flat, given, stem, force=True)

    def _opened(self, fold: Fold) -> Fold:
        """Σ_s (e_s / z) v_s: a factor that is defined as a product is opened, where part of it can leave the sum."""
        if not FOLDS[fold.op].linear:
            return fold

        def change(term: Term) -> Term:
            """A factor replaced by its definition, where that is a product of which a part can leave the sum; else
            the factor."""
            equation = self.equations.get(term.tensor) if isinstance(term, Read) else None
            if equation is None or not isinstance(term, Read) or not equation.has_letters or not (
                    isinstance(equation.body, Apply) and equation.body.op in ("mul", "div", "neg")):
                return term
            opened = equation.at(term.subs)
            return opened if worth(parted(opened), fold, free_indices(term)) else term

        body = fold.body
        parts = tuple(change(p) for p in parted(body)) if is_product(body) else (change(body),)
        return Fold(fold.op, fold.bound, fold.domain, parts[0] if len(parts) == 1 else Apply("mul", parts))

    def named(self, term: Term, given: Term, stem: str, force: bool = False, last: tuple[Index, ...] = ()) -> Term:
        """A read of the equation with this body: one that stands already, or a new one, with the `last` axes where
        rows lie. Adds that."""
        if (plain(term) and not (force and packed(term))) or (isinstance(term, Const | Position | Size) and not force):
            return term
        order = appearance(term, TRUE)
        domain = both(*(c for c in conjuncts(given) if free_indices(c) <= set(order)))
        if self.guarded:
            term, inside = self._guarded(term, domain)
            domain = both(domain, *inside)
        wide = both(*(c for c in conjuncts(domain) if not any(True for _ in reads(c))))  # There it has the value, too.
        body = canonical(term, order)
        found = next((self.known[key] for d in (domain, wide) if (key := (body, canonical(d, order))) in self.known),
                     None)
        if found is not None:
            target, places = found
            return Read(target, tuple(Position(order[n]) for n in places))
        target = unused(stem, self.tensors)
        indices = tuple(sorted(order, key=lambda i: (i in last, axis_order(i))))
        self.tensors[target] = local(target, indices)
        self._record(Equation(target, tuple(map(Position, indices)), domain, term))
        return Read(target, tuple(map(Position, indices)))

    def _guarded(self, term: Term, given: Term) -> tuple[Term, tuple[Term, ...]]:
        """The term with its reads at computed places in the range of their slots, where that does not follow from what
        is given, and what has to hold for those that nothing in the term guards. What is read under a condition, or in
        the domain of a fold, narrows that one alone: the addend beside it exists everywhere.
        """
        match term:
            case Where(condition, then):
                then, inside = self._guarded(then, both(given, condition))
                return Where(both(self._in_turn(condition, given), *inside), then), ()
            case Fold(op, bound, domain, body):
                body, inside = self._guarded(body, in_body(given, term))
                return Fold(op, bound, both(self._in_turn(domain, given), *inside), body), ()
            case Apply("and"):
                return self._in_turn(term, given), ()
            case Apply("or", args):
                return Apply("or", tuple(self._in_turn(arg, given) for arg in args)), ()
        parts = [self._guarded(kid, given) for kid in children(term)]
        found = [c for _, inside in parts for c in inside]
        if isinstance(term, Read):
            for slot, sub in zip(self.tensors[term.tensor].slots, term.subs, strict=True):
                # What is computed of data is held against the range where it is read: no condition may take that away.
                if isinstance(sub, Apply) and not any(isinstance(x, Read) for x in walk(sub)):
                    low, high = const(slot.set.start), Size(slot.set.extent + number(slot.set.start - 1))
                    found += [c for c in (Apply("le", (low, sub)), Apply("le", (sub, high))) if not proves(given, c)]
        return rebuild(term, tuple(kid for kid, _ in parts)), tuple(dict.fromkeys(found))

    def _in_turn(self, condition: Term, given: Term) -> Term:
        """A condition whose parts read at computed places only where those before them
        hold; those that read nothing come first."""
        done: Term = TRUE
        for atom in sorted(conjuncts(condition), key=lambda c: any(True for _ in reads(c))):
            atom, inside = self._guarded(atom, both(given, done))
            done = both(done, *inside, atom)
        return done if set(conjuncts(done)) != set(conjuncts(condition)) else condition

    def _hoisted(self, term: Term, full: frozenset[Index], given: Term, owner: str) -> Term:
        """Costly parts that vary over fewer indices than the whole are computed once, by an equation of their own."""
        free = free_indices(term)
        if free and free < full and cost(term):
            return self.named(term, both(*(c for c in conjuncts(given) if free_indices(c) <= free)),
                              f"{owner}_{label(term)}")
        match term:
            case Apply("mul", args):
                smaller = [x for x in args if free_indices(x) < full]
                together = frozenset().union(*(free_indices(x) for x in smaller))
                if len(smaller) > 1 and together < full and together and any(cost(x) for x in smaller):
                    rest = [self._hoisted(x, full, given, owner) for x in args if x not in smaller]
                    return Apply("mul", (self._hoisted(Apply("mul", tuple(smaller)), full, given, owner), *rest))
        if isinstance(term, Where):
            return Where(term.condition, self._hoisted(term.then, full, both(given, term.condition), owner))
        if isinstance(term, Read):
            return term
        return rebuild(term, tuple(self._hoisted(kid, full, given, owner) for kid in children(term)))
