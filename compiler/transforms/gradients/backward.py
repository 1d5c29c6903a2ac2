"""Program -> the same program with what its gradient needs, and the program of its gradient.

What a sum or a choice made is saved, and so are what a product of matrices reads and the logarithm of a sum that
something is divided by; other arithmetic on these is made again, and so is whatever has two places of time or
vocabulary, which is never stored. Non-goals: order of products, tiles, anything about cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.ir.dependence import needed
from einc.ir.draft import unused
from einc.ir.indices import SEQUENCE
from einc.ir.primitives import POSITIVE
from einc.ir.programs import Equation, NormalProgram, Program, Tensor, TypedProgram, local
from einc.ir.signs import sign
from einc.ir.sums import reached
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Position,
    Read,
    Term,
    Where,
    canonical,
    children,
    const,
    free_indices,
    reads,
    rebuild,
    transform,
    walk,
)
from einc.syntax.printing.declarations import lettered
from einc.transforms.gradients.centred_sums import centred
from einc.transforms.gradients.rematerialise import multiplied, readers, stands_for
from einc.transforms.gradients.reverse_pass import ReversePass
from einc.transforms.gradients.scales import Scaled, scaled
from einc.transforms.gradients.shared_factors import shared_factors
from einc.transforms.laws.simplify import picked, simplify
from einc.transforms.normal.delta_elimination import appearance, is_gate
from einc.transforms.normal.normalise import flat


@dataclass(frozen=True)
class Derived:
    """The two programs, and how their names join: see `plan.Gradient`."""

    forward: TypedProgram
    backward: TypedProgram
    saved: tuple[tuple[str, str], ...]
    cotangents: tuple[tuple[str, str], ...]
    gradients: tuple[tuple[str, str], ...]


def derive(program: Program) -> Derived:
    """The gradient of a program without rounds, with respect to every input of real numbers that an
    output depends on.
    """
    plain = shared_factors(_without_aliases(_opened(flat(program))))
    found = _to_whole_rows(scaled(plain))
    reverse = ReversePass(found.program, found.references, frozenset(found.roots), lettered(found.program))
    reverse.run()
    reverse.compared |= _compared(reverse.made) & {e.target for e in plain.equations}
    work = _Backward(plain, found, reverse, reverse.tensors, {e.target: e for e in reverse.made})
    inputs = [t.key for t in plain.inputs() if t.key in reverse.of]
    work.complete([reverse.of[key] for key in inputs])
    return work.derived(inputs)


def _to_whole_rows(found: Scaled) -> Scaled:
    """The program of which the gradient is taken, with every rounding relative to the largest number of its own row. A
    gradient knows that number before it begins, and its sums run over other letters, whose largest would be another.
    """
    def change(term: Term) -> Term:
        return term.args[0] if isinstance(term, Apply) and term.op == "relative" else term

    equations = [e.map(lambda term: transform(term, change)) for e in found.program.equations]
    return replace(found, program=found.program.but(equations=equations))


@dataclass
class _Backward:
    """`by` are the equations of the gradient so far; `saved` what each input of it that
    was saved is in the forward program."""

    plain: NormalProgram
    scaled: Scaled
    reverse: ReversePass
    tensors: dict[str, Tensor]
    by: dict[str, Equation]
    saved: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Equation] = field(default_factory=dict)

    @cached_property
    def multiplied(self) -> frozenset[str]:
        """What a product of matrices reads in the forward program."""
        return multiplied(self.plain.equations)

    @property
    def logs(self) -> frozenset[str]:
        """The logarithms of sums that are 1."""
        return frozenset(root.log for root in self.scaled.roots.values())

    def complete(self, wanted: Iterable[str]) -> None:
        """Adds everything that the gradients read: what is made again, and what is saved."""
        self.by = self._tidy(wanted)
        waiting, seen = list(wanted), set[str]()
        known = {e.target: e for e in self.scaled.program.equations}
        while waiting:
            key = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            if key not in self.by and key in known and key not in self.saved:
                self._value(known[key])
            if key in self.by:
                waiting += [r.tensor for t in (self.by[key].domain, self.by[key].body) for r in reads(t)]
            elif key in self.logs and key not in self.saved:
                self._logarithm(key)
        self.by = self._tidy(wanted)
        while (found := self._better()) is not None:
            key, value = found
            del self.saved[key], self.by[value]
            self.saved[value] = value
            self.by = self._tidy(wanted)

    def _better(self) -> tuple[str, str] | None:
        """A sum that is saved, and the one value that is made of it again and may be saved in its place."""
        known, shown = self.plain.by_target, {key for _, key in self.plain.outputs}
        for key, mine in readers(self.by.values()).items():
            if self.saved.get(key) == key and key not in shown and len(mine) == 1 and self._is_plain(mine[0].target):
                value = known.get(mine[0].target)
                if value is not None and stands_for(value, key, known):
                    return key, value.target
        return None

    def _is_plain(self, key: str) -> bool:
        """Whether a value is what it is in the forward program: no sum that is 1 is in
        it, and its type is the data's."""
        roots = self.scaled.roots
        free = key not in self.scaled.bare and key not in roots and self.scaled.scale(key) is None
        shut = any(key in root.degrees.shut for root in roots.values())
        return free and not shut and key not in self.reverse.extremes and not self.tensors[key].integer

    def _tidy(self, wanted: Iterable[str]) -> dict[str, Equation]:
        """Sums that are 1 or 0 as numbers, and what only has another name by that name."""
        made = (replace(e, body=self._ones(e.body)) for e in needed(self.by, list(wanted)))
        known = {e.target: e for e in self.scaled.program.equations}
        named = (replace(e, body=simplify(centred(e.body, known))) for e in _named(made, set(wanted)))
        return {e.target: e for e in self._narrowed(named, set(wanted))}

    def _narrowed(self, equations: Iterable[Equation], kept: Set[str]) -> Iterator[Equation]:
        """The equations, each after what it reads, without axes along which a value is the same everywhere. Changes
        their tensors in `self.tensors`."""
        places: dict[str, list[int]] = {}

        def read(term: Term) -> Term:
            if isinstance(term, Read) and term.tensor in places:
                return Read(term.tensor, tuple(term.subs[n] for n in places[term.tensor]))
            return term

        for equation in equations:
            key, body, domain = equation.target, transform(equation.body, read), transform(equation.domain, read)
            axes, used = equation.axes, free_indices(body) | free_indices(domain)
            if (key not in kept and equation.has_letters and not set(equation.indices) <= used
                and any(True for _ in reads(body))):
                places[key] = [n for n, i in enumerate(equation.indices) if i in used]
                self.tensors[key] = replace(self.tensors[key],
                                            slots=tuple(self.tensors[key].slots[n] for n in places[key]))
                axes = tuple(axes[n] for n in places[key])
            yield Equation(key, axes, domain, body, equation.source)

    # values of the forward program

    def _value(self, equation: Equation) -> None:
        key, scale = equation.target, self.scaled.scale(equation.target)
        if key in self.scaled.bare:
            power = self.scaled.bare[key]
            known: Term = Apply("nonpositive", (power,)) if key in self.scaled.bounded else power
            self.by[key] = replace(equation, body=Apply("exp", (known,)))
        elif self._is_kept(equation):
            self._save(key, None if scale is None else self._over(equation))
        else:
            self.by[key] = replace(equation, body=self._ones(equation.body), domain=equation.domain)

    def _ones(self, body: Term) -> Term:
        return simplify(self._one(body, False))

    def _one(self, body: Term, below: bool) -> Term:
        """The term with a number in place of each sum that is made 1: 1 where its row has a point, else 0.

        `below` a stroke that number is 1 everywhere: in a row without a point 0 is divided by it, which is 0.
        """
        match body:
            case Read(tensor, subs) if tensor in self.scaled.roots:
                some = reached(Read(self.scaled.roots[tensor].log, subs))
                return ONE if below or sign(body, self.plain.by_target) == POSITIVE else Where(some, ONE)
            case Apply("div", (above, under)):
                return Apply("div", (self._one(above, below), self._one(under, not below)))
            case Apply("pow", (base, Const(value) as power)) if value < 0:
                return Apply("pow", (self._one(base, not below), power))
        return rebuild(body, tuple(self._one(kid, below) for kid in children(body)))

    def _is_kept(self, equation: Equation) -> bool:
        """Whether the forward program saves a value for the gradient; any other is computed again."""
        key = equation.target
        if key in self.reverse.extremes:
            return False
        if key in self.reverse.compared and not is_gate(equation):
            return True
        if picked(equation) is not None or any(key in root.degrees.shut for root in self.scaled.roots.values()):
            return True
        if key in self.multiplied and self._is_plain(key):
            return True
        return isinstance(equation.body, Fold) and not _is_large(equation) and any(True for _ in reads(equation.body))

    def _over(self, equation: Equation) -> Term | None:
        """A value less its scale, in the forward program."""
        found = self.scaled.scale(equation.target)
        assert found is not None
        root, degree = found
        here, total = Read(equation.target, equation.axes), Read(root.total, tuple(map(Position, degree.letters)))
        if degree.power == 1:
            return Apply("div", (here, total))
        if degree.power > 0:  # 0 / 0 is 0 in a row without a point
            return Apply("div", (here, Apply("pow", (total, const(degree.power)))))
        return Apply("mul", (here, Apply("pow", (total, const(-degree.power)))))

    def _logarithm(self, key: str) -> None:
        root = next(r for r in self.scaled.roots.values() if r.log == key)
        total = next(e for e in self.plain.equations if e.target == root.total)
        self.tensors[key] = local(key, total.indices)
        self._saved_as(key, Equation(key, total.axes, total.domain, root.value))

    def _save(self, key: str, value: Term | None) -> None:
        equation = next((e for e in self.plain.equations if e.target == key), None)
        if value is None or equation is None:
            self.saved[key] = key
        else:
            self._saved_as(key, replace(equation, target=unused(f"{key}_saved", self.tensors), body=value))

    def _saved_as(self, key: str, equation: Equation) -> None:
        """Saves a value of the forward program, which may have it already under another name and with its axes in
        another order. Changes `self.extra`, `self.tensors`, `self.saved` and `self.by`.
        """
        form = _form(equation)
        # which are rounded as the data is
        shown = {k for _, k in self.plain.outputs} if key in self.logs else set[str]()
        same = next((e for e in self.plain.equations
                     if form is not None and e.target not in shown and _form(e) == form), None)
        if same is None:
            self.extra[equation.target] = equation
            if equation.target not in self.tensors or equation.target != key:
                self.tensors[equation.target] = replace(self.tensors[key], key=equation.target, text=equation.target)
            self.saved[key] = equation.target
            return
        mine, theirs = appearance(equation.body, TRUE), appearance(same.body, TRUE)
        subs = tuple(Position(mine[theirs.index(i)]) for i in same.indices)
        self.saved[same.target] = same.target
        self.by.pop(same.target, None)
        self.by[key] = Equation(key, equation.axes, equation.domain, Read(same.target, subs))

    # the two programs

    def derived(self, inputs: list[str]) -> Derived:
        """The forward program, which also returns what is saved, and the gradient program with respect to `inputs`.
        Everything that these read must be in `by` or `saved`: `complete` has run."""
        plain, gradients = self.plain, [(key, self.reverse.of[key]) for key in inputs]
        equations = needed(self.by, [key for _, key in gradients])
        read = {key for e in equations for key in e.reads}
        saved = {key: there for key, there in self.saved.items() if key in read}
        given = {cotangent for cotangent in self.reverse.given.values() if cotangent in read}
        made = {e.target for e in equations}
        tensors: dict[str, Tensor] = {}
        for key, tensor in self.tensors.items():
            if key in made or key in given or tensor.role in ("input", "weight", "derived"):
                tensors[key] = tensor
            elif key in saved:
                tensors[key] = replace(tensor, role="input")
        outputs = tuple((key, key) for _, key in gradients)
        backward = replace(TypedProgram.of(plain).but(equations=equations, tensors=tensors, outputs=outputs),
                           name=f"{plain.name}_backward")
        cotangents = tuple((key, d) for key, d in self.reverse.given.items() if d in given)
        kept = tuple((there, key) for key, there in saved.items())
        return Derived(self._forward(saved), backward, kept, cotangents, tuple(gradients))

    def _forward(self, saved: Mapping[str, str]) -> TypedProgram:
        plain, mine = self.plain, {key for _, key in self.plain.outputs}
        extra = tuple(e for e in self.extra.values() if e.target in saved.values())
        outputs = (*plain.outputs, *((key, key) for key in dict.fromkeys(saved.values()) if key not in mine))
        tensors = {**plain.tensors, **{e.target: self.tensors[e.target] for e in extra}}
        return TypedProgram.of(plain).but(equations=(*plain.equations, *extra), tensors=tensors, outputs=outputs)


def _compared(equations: Iterable[Equation]) -> set[str]:
    """What is asked to be equal to something: made again it might differ in its last digit."""
    terms = (t for e in equations for root in (e.domain, e.body) for t in walk(root))
    return {r.tensor for t in terms if isinstance(t, Apply) and t.op in ("eq", "ne") for r in reads(t)}


def _opened(program: NormalProgram) -> NormalProgram:
    """The program with single elements made where they are read, of values with two places of time or vocabulary.

    What such an element adds to a cotangent would else be spread over the whole of the value.
    """
    for _ in program.equations:
        large = {e.target: e for e in program.equations if _is_large(e) and all(isinstance(a, Position) for a in e.axes)
                 and picked(e) is None and not isinstance(e.body, Join) and not program.tensors[e.target].scale}

        def change(term: Term) -> Term:
            equation = large.get(term.tensor) if isinstance(term, Read) else None  # noqa: B023
            moved = isinstance(term, Read) and not all(isinstance(s, Position) for s in term.subs)
            return equation.at(term.subs) if equation is not None and isinstance(term, Read) and moved else term

        made = tuple(replace(e, body=transform(e.body, change)) for e in program.equations)
        if made == program.equations:
            return program
        program = flat(replace(program, equations=made))
    return program


def _is_large(equation: Equation) -> bool:
    """Whether a value has two places of time or vocabulary, and is not stored where that can be helped."""
    return sum(i.set.cls in SEQUENCE for i in equation.indices) > 1


def _without_aliases(program: NormalProgram) -> NormalProgram:
    """The program without values that are others under a name of their own, where no output is one."""
    return replace(program, equations=tuple(_named(program.equations, {key for _, key in program.outputs})))


def _named(equations: Iterable[Equation], kept: Set[str]) -> Iterator[Equation]:
    """The equations, each after what it reads, without those that are a name for another value or a number."""
    names: dict[str, Equation] = {}

    def own(term: Term) -> Term:
        if isinstance(term, Read) and term.tensor in names:
            alias = names[term.tensor]
            return alias.at(term.subs)
        return term

    for equation in equations:
        equation = replace(equation, body=simplify(transform(equation.body, own)),
                           domain=transform(equation.domain, own))
        if (equation.target not in kept and all(isinstance(a, Position) for a in equation.axes)
            and _is_alias(equation.body)):
            names[equation.target] = equation
        else:
            yield equation


def _is_alias(body: Term) -> bool:
    """Whether a value is another one, or a number, under a name of its own."""
    return isinstance(body, Const) or (isinstance(body, Read) and all(isinstance(s, Position) for s in body.subs))


def _form(equation: Equation) -> Term | None:
    """The body with its letters numbered, for values that have an axis for each."""
    order = appearance(equation.body, TRUE)
    plain = all(isinstance(a, Position) for a in equation.axes) and set(order) == set(equation.indices)
    return canonical(simplify(equation.body), order) if plain else None
