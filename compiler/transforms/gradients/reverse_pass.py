"""The pass from the outputs back: the cotangent of every value that some input moves, as equations.

One case for each form that an equation of a flat program has: a fold takes a cotangent to what it runs over by the
adjoint of its row, a direct sum to its parts, anything pointwise by its slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, assert_never

from einc.ir.domains import empty, proves
from einc.ir.draft import unused
from einc.ir.elements import REAL
from einc.ir.finite import surely_finite
from einc.ir.folds import FOLDS
from einc.ir.indices import INDEX_CLASSES, SEQUENCE, Index, IndexSet, number
from einc.ir.letters import letter, words
from einc.ir.primitives import NONNEGATIVE, POSITIVE, REST, filled
from einc.ir.programs import Equation, NormalProgram, Slot, Tensor
from einc.ir.signs import sign
from einc.ir.sums import added, asks_reached, factors
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    both,
    conjuncts,
    free_indices,
    reads,
    substitute,
    walk,
)
from einc.ir.witnesses import witnessed
from einc.syntax.printing.declarations import letters_by_set
from einc.transforms.gradients.gathering import gathered
from einc.transforms.gradients.indexing import (
    Share,
    apart,
    joined,
    letters_of,
    packed,
    part_read,
    read_of,
    routed,
    united,
    where,
)
from einc.transforms.gradients.slopes import felt, product, read_values, slopes
from einc.transforms.laws import algebra
from einc.transforms.laws.simplify import simplify

_FLIPPED: dict[str, Literal["lower", "upper", "label"]] = {"lower": "upper", "upper": "lower", "label": "label"}


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where an output depends on a value: at points of `domain`, and `seldom` tells that at some of these none may."""

    domain: Term = TRUE
    seldom: bool = False


@dataclass
class ReversePass:
    """`made` are the cotangents' equations in the order of the pass; `of` names the
    cotangent of each value that has one."""

    program: NormalProgram
    still: frozenset[str]  # what has no slope, though something moves it
    units: frozenset[str]  # sums of exponentials that are made 1, with a scale of their own
    tensors: dict[str, Tensor]
    made: list[Equation] = field(default_factory=list)
    shares: dict[str, list[Share]] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)  # of an output: the cotangent that the caller gives
    extremes: set[str] = field(default_factory=set)  # maxima with a slope, and
    compared: set[str] = field(default_factory=set)  # the values that are compared with them

    def run(self) -> None:
        """Makes every cotangent, from the outputs to the inputs."""
        self._moving, self._asked = _moving(self.program, self.still), dict[str, _Asked]()
        for _, key in self.program.outputs:
            if key in self._moving and key not in self.given:
                self.given[key] = self._cotangent(key, "input")
        for equation in reversed(self.program.equations):
            if equation.target in self._moving and self._accumulated(equation.target, equation):
                inside = replace(equation, domain=both(equation.domain, self._asked[equation.target].domain))
                for tensor, share in self._adjoint(inside):
                    self.shares.setdefault(tensor, []).append(share)
        for given in self.program.inputs():
            if given.key in self._moving:
                self._accumulated(given.key, None)

    @cached_property
    def _letters(self) -> Mapping[IndexSet, str]:
        """The first letter of every set that has a name."""
        return letters_by_set(self.program)

    @cached_property
    def _points(self) -> tuple[Index, ...]:
        """An index of every set of the program."""
        sets = dict.fromkeys(i.set for e in self.program.equations for i in e.indices)
        return tuple(Index(f"{one.cls}{n}", one) for n, one in enumerate(sets))

    def _cotangent(self, key: str, role: str = "local") -> str:
        """A new tensor for the cotangent of a value: every slot on the other level. One that is given comes in the type
        of the value.
        """
        name = f"d{key.strip('_')}"
        while name in self.tensors:
            name = f"d{name}"
        element = self.tensors[key].element if role == "input" else REAL
        self.tensors[name] = Tensor(name, name, self._flipped(key), "input" if role == "input" else "local", element)
        return name

    def _flipped(self, key: str) -> tuple[Slot, ...]:
        """The slots of a value, each on the other level."""
        tensor = self.tensors[key]
        return tuple(Slot(s.set, _FLIPPED[s.level], i.name)
                     for s, i in zip(tensor.slots, letters_of(tensor), strict=True))

    def _accumulated(self, key: str, equation: Equation | None) -> bool:
        """Makes the cotangent of a value from all its shares; False where no output depends on it. Adds its equation.
        """
        shares = self.shares.pop(key, [])
        if key in self.given and not shares:
            self.of[key], self._asked[key] = self.given[key], _Asked()
            return True
        if not shares and key not in self.given:
            return False
        letters = letters_of(self.tensors[key])
        domain = _domain_at(equation, letters) if equation is not None else TRUE
        found = ([(Read(self.given[key], tuple(map(Position, letters))), TRUE)] if key in self.given
                 else list[tuple[Term, Term]]())
        places = dict.fromkeys(part_read(share) for share in shares)
        for at in places:
            mine = [share for share in shares if part_read(share) == at]
            found += self._routed(key, mine, letters, domain) if at is None else [self._joined(key, mine, at)]
        # What no share is outside of is where the cotangent is; elsewhere nothing reads it.
        inside = both(*(c for c in conjuncts(found[0][1])
                        if equation is not None and all(c in conjuncts(x) for _, x in found)))
        terms = [where(both(*(c for c in conjuncts(x) if c not in conjuncts(inside))), term) for term, x in found]
        body = simplify(added(terms), algebra.RULES)
        body = body if sum(i.set.cls in SEQUENCE for i in letters) > 1 else gathered(body)
        domain = both(domain, inside)
        own = (substitute(inside, dict(zip(letters, map(Position, equation.indices), strict=True)))
               if equation is not None and equation.has_letters else TRUE)
        self._asked[key] = _Asked(own, key not in self.given and not self._everywhere(shares, letters, domain))
        if body == ZERO:
            return False
        name = self._cotangent(key)
        self.made.append(Equation(name, tuple(map(Position, letters)), domain, body))
        self.of[key] = name
        return True

    def _routed(self, key: str, shares: list[Share], letters: tuple[Index, ...],
                domain: Term) -> list[tuple[Term, Term]]:
        found, name = [routed(share, letters, domain) for share in shares if not packed(share)], f"d{key}_part"
        made = united(apart(share, self.tensors[key], name, self._letters) for share in shares if packed(share))
        return found + [self._apart(key, replace(e, target=unused(name, self.tensors))) for e in made]

    def _joined(self, key: str, shares: list[Share], at: int) -> tuple[Term, Term]:
        name = unused(f"d{key}_part", self.tensors)
        return self._apart(key, joined(shares, at, self.tensors[key], name, self.program.sums))

    def _apart(self, key: str, equation: Equation) -> tuple[Term, Term]:
        """A share that is an equation of its own. Adds it; returns a read of it."""
        name = equation.target
        self.tensors[name] = replace(self.tensors[key], key=name, text=name, slots=self._flipped(key), role="local",
                                     span=None)
        self.made.append(replace(equation, body=simplify(equation.body, algebra.RULES)))
        return read_of(equation, letters_of(self.tensors[key])), TRUE

    def _everywhere(self, shares: list[Share], letters: tuple[Index, ...], given: Term) -> bool:
        """Whether an output depends on a value wherever `given` holds: not through gates alone that may be shut, nor
        sums that may be over nothing. A sum over all of a set counts, as if no extent were 0."""
        sure = [share for share in shares if not share.seldom]
        free = [share for share in sure if packed(share) and share.condition == TRUE]
        for at in {part_read(share) for share in free}:
            read = {sub.of for share in free if at is not None and isinstance(sub := share.subs[at], Part)}
            if at is None or {i.set for i in self.program.sums[letters[at].set]} <= read:
                return True
        for term, condition in (routed(share, letters, given) for share in sure if not packed(share)):
            if condition == TRUE and (not isinstance(term, Fold) or term.domain == TRUE or witnessed(
                    term.domain, term.bound, letters, given)):
                return True
        return False

    # adjoints

    def _adjoint(self, equation: Equation) -> Iterator[tuple[str, Share]]:
        """What the cotangent of an equation adds to those of the tensors that its body reads, as pairs of tensor and
        share. The equation must have a cotangent already. TypeError for a fold that has no adjoint."""
        change = Read(self.of[equation.target], equation.axes)
        match equation.body:
            case Join(index, parts):
                yield from self._parts(equation, index, parts)
            case Fold() as fold:
                yield from self._folded(equation, fold, change)
            case Apply("pick"):
                return  # its value is a whole number
            case Const() | Truth() | Size() | Position() | Pack() | Part() | Read() | Apply() | Where() as body:
                yield from self._shares(equation, body, change, TRUE, (),
                                        Read(equation.target, equation.axes))
            case never:
                assert_never(never)

    def _folded(self, equation: Equation, fold: Fold, change: Term) -> Iterator[tuple[str, Share]]:
        """By the adjoint of the fold's row. Raises TypeError."""
        match FOLDS[fold.op].adjoint:
            case "attained":
                yield from self._extreme(equation, fold, change)
            case None:
                raise TypeError(f"the fold `{fold.op}` has no adjoint, and nothing it runs over may be reached by a "
                                f"gradient")
            case adjoint:
                by = {"x": fold.body, "value": Read(equation.target, equation.axes)}
                by |= {"rest": self._others(fold)} if REST in reads(adjoint) else {}
                yield from self._shares(equation, fold.body, change, fold.domain, fold.bound, by=filled(adjoint, by))

    def _shares(self, equation: Equation, body: Term, change: Term, given: Term, bound: tuple[Index, ...],
                value: Term | None = None, by: Term = ONE) -> Iterator[tuple[str, Share]]:
        """The shares of what a body reads where `given` holds, whose slopes `by` goes with; `change` is the cotangent
        of the body else."""
        known, seldom = self.program.by_target, self._asked[equation.target].seldom
        for slope in slopes(body, product(change, by), self._moving.__contains__, value, self._flat):
            condition = both(equation.domain, felt(given, body, slope.read, self._spelled), slope.condition)
            if slope.condition != TRUE and empty(condition):
                continue  # in max(abs(x), max(x, y)) the second x is nowhere the one that is taken
            steep = (f for f in factors(slope.term) if f not in factors(change) and not _is_flat(f, known))
            if seldom and any(True for _ in steep):
                # Where nothing reads the value its cotangent is 0, and what that meets may be infinite there.
                condition = both(condition, Apply("ne", (Read(self.of[equation.target], equation.axes), ZERO)))
            yield slope.read.tensor, Share(slope.read.subs, slope.term, condition, (*equation.indices, *bound), seldom)

    def _spelled(self, term: Term) -> Term:
        """What a read stands for, where that is made point by point."""
        equation = self.program.by_target.get(term.tensor) if isinstance(term, Read) else None
        if equation is None or not isinstance(term, Read) or not equation.has_letters or isinstance(
                equation.body, Fold | Join):
            return term
        return self._spelled(equation.at(term.subs))

    def _parts(self, equation: Equation, index: Index,
               parts: tuple[tuple[Index, Term], ...]) -> Iterator[tuple[str, Share]]:
        """The shares of what the parts of a direct sum read, each of its own part of the cotangent."""
        before = number(0)
        for own, body in parts:
            here = Part(Position(own), own.set, before, index.set)
            change = Read(self.of[equation.target], tuple(here if a == Position(index) else a for a in equation.axes))
            letters = tuple(own if i == index else i for i in equation.indices)
            there = substitute(equation.domain, {index: here})
            for slope in slopes(body, change, self._moving.__contains__, flat=self._flat):
                yield slope.read.tensor, Share(slope.read.subs, slope.term, both(there, slope.condition), letters,
                                               self._asked[equation.target].seldom)
            before = before + own.set.extent

    def _flat(self, op: str, args: tuple[Term, ...]) -> bool:
        """Whether an operation may be flat where its last argument is 0: a quotient that may be 0 / 0 there, and the
        logarithm of a sum that may have no point. A sum that is made 1 is thought of where its scale is taken off
        (`scales`).
        """
        known = self.program.by_target
        if op not in ("div", "log") or sign(args[-1], known) == POSITIVE:
            return False
        asked = {r.tensor for r in reads(args[-1])}
        if op == "div" and not asked <= self.units:
            return _may_be_0(args[0], known) and _may_be_0(args[1], known)
        seen: dict[str, bool] = {}
        return asks_reached(args[-1]) or any(_may_lack_points(name, known, self._points, seen)
                                             for name in asked - self.units)

    def _extreme(self, equation: Equation, fold: Fold, change: Term) -> Iterator[tuple[str, Share]]:
        """To those that attain it, in equal parts: how many they are is a sum of its own. Changes `self.extremes`,
        `self.compared`, `self.tensors` and `self.made`."""
        self.extremes.add(equation.target)
        self.compared |= {r.tensor for r in reads(fold.body)}
        attains = Apply("eq", (fold.body, Read(equation.target, equation.axes)))
        name = letter("ties", equation.target, {*self.tensors, *words(self.program.equations)})
        self.tensors[name] = replace(self.tensors[equation.target], key=name, text=name, role="local")
        self.made.append(Equation(name, equation.axes, equation.domain,
                                  Fold("sum", fold.bound, both(fold.domain, attains), ONE)))
        part = Apply("div", (change, Read(name, equation.axes)))
        yield from self._shares(equation, fold.body, part, both(fold.domain, attains), fold.bound)

    def _others(self, fold: Fold) -> Term:
        """The fold of all others: of positions that of those before times that of those after."""
        by = {i: Position(Index(i.name + "'", i.set)) for i in fold.bound}
        inner, body = tuple(p.index for p in by.values()), substitute(fold.body, by)
        domain = both(*(_as_its_own(c, substitute(c, by), fold.bound) for c in conjuncts(fold.domain)))

        def over(said: Term) -> Fold:
            """The fold where that is said of the other, without what follows from it."""
            rest = (c for c in conjuncts(domain) if not proves(both(fold.domain, said), c))
            return Fold(fold.op, inner, both(*rest, said), body)

        pairs = [(there, Position(i)) for i, there in by.items()]
        if len(pairs) == 1 and INDEX_CLASSES[fold.bound[0].set.cls].before == "le":
            return FOLDS[fold.op].merged(*(over(Apply("lt", pair)) for pair in (pairs[0], pairs[0][::-1])))
        differs = [Apply("ne", pair[::-1]) for pair in pairs]
        return over(differs[0] if len(differs) == 1 else Apply("or", tuple(differs)))


def _as_its_own(condition: Term, other: Term, bound: tuple[Index, ...]) -> Term:
    """What a condition says of one point of a domain, as `other` says it of another, where it is an equality: that both
    points have the same value.
    """
    match condition, other:
        case Apply("eq", mine), Apply("eq", its):
            for n, value in enumerate(mine):
                if free_indices(value) & {*bound} and not free_indices(mine[1 - n]) & {*bound}:
                    return Apply("eq", (its[n], value))
    return other


def _moving(program: NormalProgram, still: frozenset[str]) -> frozenset[str]:
    """The inputs of real numbers, and what is moved by them."""
    found = {t.key for t in program.inputs() if not t.constant}
    for equation in program.equations:
        if equation.target not in still and not program.tensors[equation.target].integer and any(
                r.tensor in found for r in _values_of(equation.body)):
            found.add(equation.target)
    return frozenset(found)


def _values_of(body: Term) -> Iterator[Read]:
    match body:
        case Fold(_, _, _, inner):
            yield from _values_of(inner)
        case Join(_, parts):
            for _, part in parts:
                yield from read_values(part)
        case _:
            yield from read_values(body)


def _is_flat(slope: Term, known: Mapping[str, Equation]) -> bool:
    """Whether a slope times 0 is 0, wherever the value is that it is a slope of. 0 / 0 and 0 / ∞ are 0, too."""
    match slope:
        case Apply("mul" | "neg", args):
            return all(_is_flat(a, known) for a in args)
        case Apply("div", (above, below)):
            return _is_flat(above, known) and surely_finite(below, known)
    return surely_finite(slope, known, "unread")


def _domain_at(equation: Equation, letters: tuple[Index, ...]) -> Term:
    """The domain of a value at the letters of its slots; pairs are left out: they have no domain."""
    if not equation.has_letters:
        return TRUE
    return substitute(equation.domain, {i: Position(j) for i, j in zip(equation.indices, letters, strict=True)})


def _may_be_0(term: Term, known: Mapping[str, Equation]) -> bool:
    """Whether data may make a value 0."""
    return any(True for _ in reads(term)) and sign(term, known) != POSITIVE


def _may_lack_points(key: str, by: Mapping[str, Equation], points: tuple[Index, ...], seen: dict[str, bool]) -> bool:
    """Whether a value is a sum that may be 0 with all that it sums, or is made of one, point by point. `points` has an
    index of every set, each of which is taken to have a point. What is found is added to `seen`."""
    if key not in seen:
        equation = by.get(key)
        seen[key] = equation is not None and _lacks(equation, by, points, seen)
    return seen[key]


def _lacks(equation: Equation, by: Mapping[str, Equation], points: tuple[Index, ...], seen: dict[str, bool]) -> bool:
    """Whether an equation is a sum over a domain that may have no point, or of exponentials or other values of no
    sign but + that may all be 0, or is made of one."""
    body = equation.body
    if isinstance(body, Fold):
        made = (by.get(r.tensor) for r in reads(body.body))
        terms = (body.body, *(e.body for e in made if e is not None))
        powers = [x for term in terms for x in walk(term) if isinstance(x, Apply) and x.op == "exp"]
        gone = any(map(asks_reached, powers))
        if body.op != "sum" or gone or not witnessed(body.domain, body.bound, equation.indices):
            return body.op == "sum" and (gone or not powers)
        return {sign(body.body, by, body.domain), sign(body.body, by, body.domain, points)} == {NONNEGATIVE}
    return any(_may_lack_points(r.tensor, by, points, seen) for r in reads(body))
