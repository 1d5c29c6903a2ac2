"""Value: what an expression means so far, and what it sees of the program around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from einc.checking.declarations.borrowed import Text
from einc.checking.declarations.names import Name
from einc.checking.declarations.ragged import Owners
from einc.checking.declarations.scope import OPEN, Loop, Rounds, Scope, Signature
from einc.checking.declarations.scripts import Level, Vocabulary
from einc.errors.report import Report, Span
from einc.ir.domains import linear, negation, proves
from einc.ir.draft import unused
from einc.ir.elements import INTEGER, REAL
from einc.ir.extents import direction
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet, number
from einc.ir.letters import with_label
from einc.ir.programs import Equation, IndexLoop, Slot, Tensor
from einc.ir.sums import product
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    reads,
    walk,
)
from einc.syntax import tree as s


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where an index stands: on which level, in which factor, and which tensor's mask restricts it there."""

    level: Level
    span: Span
    factor: Span | None = None
    masked: str = ""


Occurrences = Mapping[Index, tuple[Occurrence, ...]]


@dataclass(frozen=True, slots=True)
class Value:
    """A term, where it exists, the free indices that the rules must place, and what is known of its lines.

    `stated` are the indices about whose domain something was said, `whole_lines` those of which it was said that all of
    the set is meant; `lines` gives, for an index, the domain over which the value was normalised along it; `bound` are
    the indices of binders inside, `summed` those of pairs inside.
    """

    term: Term
    domain: Term = TRUE
    free: Occurrences = field(default_factory=dict)
    stated: frozenset[Index] = frozenset()
    lines: Mapping[Index, Term] = field(default_factory=dict)
    bound: frozenset[Index] = frozenset()
    summed: frozenset[Index] = frozenset()
    integer: bool = False
    whole_lines: frozenset[Index] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether a tensor of it holds integers: an indicator may stand in a slot, but a tensor of them is a mask."""
        return self.integer and not isinstance(self.term, Where)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name bound to a value for one definition: its slots are free indices of the value."""

    name: Name
    slots: tuple[tuple[Index, Level], ...]
    value: Value


@dataclass
class Made:
    """What the reading of one equation makes besides its term: helper equations, and where terms were written."""

    tensors: list[Tensor] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    places: dict[Term, Span] = field(default_factory=dict)
    # folds over a whole line; whether every text of one says so on purpose
    meant: dict[Term, bool] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)
    bound: set[Index] = field(default_factory=set)  # what some binder or definition of the equation runs over
    owners: Owners = field(default_factory=lambda: Owners({}))  # the requests of the equation's positions
    calls: list[None] = field(default_factory=list)  # one for each application of a definition
    ranks: dict[str, IndexSet] = field(default_factory=dict)  # the letters of places in sets
    # what calls of specs ask for: its Python name, and the call
    asked: dict[str, tuple[str, Span]] = field(default_factory=dict)
    repeats: list[IndexLoop] = field(default_factory=list)  # those of called specs

    def fresh(self, stem: str) -> str:
        """A key that nothing has yet. Changes `self.keys`."""
        self.keys.append(self.reserved(stem))
        return self.keys[-1]

    def reserved(self, stem: str) -> str:
        """A key for what stays when an equation is read again. No later name is this one."""
        key = unused(stem, self.taken)
        self.taken.add(key)
        return key

    def apart(self) -> Made:
        """A place for what one more equation makes: `take` it in, or `release_keys`."""
        return Made(places=self.places, meant=self.meant, taken=self.taken, calls=self.calls,
                    ranks=self.ranks)

    def take(self, other: Made) -> None:
        """Adds the tensors, equations, calls and loops that `other` made to these."""
        self.tensors += other.tensors
        self.equations += other.equations
        self.asked |= other.asked
        self.repeats += other.repeats

    def runs_over(self, fold: Fold, said: frozenset[Index]) -> None:
        """Notes whether a fold was said to run over whole lines: every index in it that
        has an order runs freely, and was said to.

        What is said in one place and not in another, in the same words, is not said.
        """
        ordered = [i for i in fold.bound if INDEX_CLASSES[i.set.cls].before]
        free = all(i in said and i not in free_indices(fold.domain) for i in ordered)
        self.meant[fold] = bool(ordered) and free and self.meant.get(fold, True)

    def opened(self, term: Term) -> Term:
        """What a read means that is the only one of an equation made here, which then is
        dropped: it needs no second name."""
        match term:
            case Read(key, subs) if all(isinstance(sub, Position) for sub in subs) and len(set(subs)) == len(subs):
                found = next((e for e in self.equations if e.target == key and e.domain == TRUE), None)
                rounds = {x for repeat in self.repeats for one in repeat.every for names in (*one.states, one.inside)
                          for x in names}
                others = {key for e in self.equations for key in e.reads}
                if (found is not None and key not in others | rounds
                    and all(isinstance(axis, Position) for axis in found.axes)):
                    self.equations.remove(found)
                    return found.at(subs)
        return term

    def release_keys(self) -> None:
        """Frees the keys that were made with `fresh`, so that another reading can use them again."""
        self.taken.difference_update(self.keys)


@dataclass
class Blocks:
    """What stands in blocks of rounds: their equations, their updates, and one round over the whole domain, by target.
    """

    inner: dict[Rounds, list[Equation]] = field(default_factory=dict)
    updates: dict[Rounds, list[Equation]] = field(default_factory=dict)
    closed: dict[str, Equation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inside:
    """Names that stand for values, and what is so inside a definition alone: `letters` replace the declared indices,
    `calling` are the definitions around, `site` is the application in the text that it stands for.
    """

    params: tuple[Parameter, ...] = ()
    letters: Mapping[str, Index] | None = None
    calling: tuple[str, ...] = ()
    site: Span | None = None


@dataclass(frozen=True)
class Context:
    """What an expression sees. `left` is None in a claim."""

    scope: Scope
    report: Report
    made: Made
    owner: str
    left: frozenset[Index] | None
    evaluate: Callable[[Context, s.Expression], Value]
    settle: Callable[[Signature, Span], None]
    text: Text  # whose lines are read
    held: frozenset[Index] = frozenset()
    restrictions: tuple[Term, ...] = ()
    inside: Inside = Inside()
    loop: Loop = OPEN

    def value(self, node: s.Expression) -> Value:
        """The value of an expression in this context, by the function `evaluate` that the context was made with."""
        return self.evaluate(self, node)

    def demand(self, signature: Signature, span: Span) -> None:
        """Makes sure that the equation behind a signature has been read, so that its domain is known."""
        self.settle(signature, span)

    @property
    def indices(self) -> Mapping[str, Index]:
        """The indices by name: those of the definition that is expanded, else those of the program and its loop."""
        if self.inside.letters is not None:
            return self.inside.letters
        seen = self.text.seen
        return {**seen, **{i.name: i for i in self.loop.layer}} if self.loop.layer else seen

    def vocabulary(self, labels: frozenset[str] | None) -> Vocabulary:
        """Returns the words that scripts are made of here; `labels` are the known labels, None where any may stand."""
        scalars: Set[str]
        if self.inside.letters is not None:
            scalars = {p.name.base for p in self.inside.params if not p.slots and p.value.integer}
        else:
            scalars = self.scope.numbers.scalars | self.scope.numbers.sizes.keys()
        return Vocabulary(self.indices, labels, self.scope.applied, scalars)

    def own_letter(self, name: str, size: str | None) -> bool:
        """Whether an index is of this text, and what else has its name is of others, which mean it in their lines."""
        spans = [x.span for x in self.scope.named(Name(name)) if not x.slots]
        spans += [] if size is None else [self.scope.numbers.sizes[size]]
        bound = {p.name for p in self.inside.params}
        return (name in self.text.indices and self.inside.letters is None and Name(name) not in bound
                and all(self.scope.text(span) is not self.text for span in spans))

    def knowing(self, name: Name, slots: tuple[tuple[Index, Level], ...], value: Value) -> Context:
        """Returns the context in which a name with these slots stands for a value, besides what it knows."""
        params = (*self.inside.params, Parameter(name, slots, replace(value, free={})))
        return replace(self, inside=replace(self.inside, params=params))

    def holding(self, *indices: Index) -> Context:
        """Returns the context inside a binder of these indices."""
        return replace(self, held=self.held.union(indices))

    def restricted(self, indices: Iterable[Index]) -> Term:
        """The trailing restrictions that speak of these indices."""
        wanted = frozenset(indices)
        return both(*(r for r in self.restrictions if free_indices(r) & wanted))

    def let(self, stem: str, value: Value, source: str, order: Iterable[Index] = ()) -> Value:
        """The value under a name of its own, so that it is computed once however often it is read. Writes an equation
        and its tensor into `self.made`."""
        plain = isinstance(value.term, Const | Position | Size | Read)
        if plain and not any(isinstance(x, Fold) for x in walk(value.term)):
            return value
        free = free_indices(value.term).difference(self.loop.layer)
        indices = tuple(dict.fromkeys([*(i for i in order if i in free), *sorted(free, key=by_class)]))
        owners, span = self.made.owners, next((o[0].span for o in value.free.values()), None)
        owners.rest(indices, {*indices, *(self.left or ()), *self.held}, span)
        indices = owners.arranged(indices)
        letters = self.indices if self.inside.letters is not None else {**self.scope.alphabet.indices, **self.indices}
        key = self.made.fresh(with_label(stem.upper() if stem in letters else stem, self.owner))
        slots = tuple(Slot(i.set, "lower", i.name) for i in indices)
        self.made.tensors.append(Tensor(key, key, slots, "local", INTEGER if value.whole else REAL))
        axes = tuple(Position(i) for i in indices)
        domain = both(*(c for c in conjuncts(value.domain) if free_indices(c) <= set(indices)))
        self.made.equations.append(Equation(key, axes, domain, value.term, source))
        return replace(value, term=Read(key, axes), integer=value.whole)


def by_class(index: Index) -> tuple[int, str]:
    """Where an index stands among the slots of a helper."""
    return INDEX_CLASSES[index.set.cls].place, index.name


def gather(values: Iterable[Value]) -> dict[Index, tuple[Occurrence, ...]]:
    """For each index its occurrences in all of the values, in their order."""
    out: dict[Index, tuple[Occurrence, ...]] = {}
    for value in values:
        for index, found in value.free.items():
            out[index] = out.get(index, ()) + found
    return out


def once(value: Value) -> Value:
    """The value as a term of its own: an index still free in it counts once around it."""
    free = {}
    for index, found in value.free.items():
        levels = {o.level for o in found}
        free[index] = (Occurrence(found[0].level if len(levels) == 1 else "label", found[0].span),)
    return replace(value, free=free)


def merged(values: Iterable[Value], term: Term, domain: Term, whole: bool = False) -> Value:
    """A value made of others, with what is known of them; `whole` if whole numbers then give a whole number."""
    values = list(values)
    lines: dict[Index, Term] = {}
    for value in values:
        lines.update(value.lines)
    return Value(term, domain, gather(values), frozenset().union(*(v.stated for v in values)), lines,
                 frozenset().union(*(v.bound for v in values)), frozenset().union(*(v.summed for v in values)),
                 whole and all(v.integer for v in values), frozenset().union(*(v.whole_lines for v in values)))


def multiplied(above: list[Value], below: list[Value]) -> Value:
    """Their product; conditions of 0-or-value factors move to its outside, where they guard every read."""
    conditions: list[Term] = []
    factors: list[Term] = []
    for value in above:
        term = value.term
        while isinstance(term, Where):
            conditions += conjuncts(term.condition)
            term = term.then
        if term != ONE:
            factors.append(term)
    under = [v.term for v in below]
    if len(factors) > 1:
        under += [y for x in _flat(factors) if (y := _divisor(x)) is not None]
        factors = [x for x in _flat(factors) if _divisor(x) is None]
    term = product(_flat(factors))
    if under:
        term = Apply("div", (term, product(_flat(under))))
    domain = both(*(v.domain for v in [*above, *below]))
    if conditions:
        guard = both(*conditions)
        term = Where(guard, term)
        domain = both(*(c if free_indices(c).isdisjoint(free_indices(guard)) else Apply("or", (negation(guard), c))
                        for c in conjuncts(domain) if not proves(guard, c)))
    return merged([*above, *below], term, domain, whole=not below)


def _divisor(factor: Term) -> Term | None:
    """What a factor divides the other factors by, as 1/w and w^{-2} do; None for any other, and where no data are in
    it: 0 times what is infinite is no number, and 0 / 0 is 0.
    """
    match factor:
        case Apply("div", (above, below)) if above == ONE and any(reads(below)):
            return below
        case Apply("pow", (base, power)) if any(reads(base)) and (form := linear(power)) is not None and not form.atoms:
            if direction(form.constant) < 0:
                up, whole = form.constant * number(-1), form.constant.constant
                return base if whole == -1 else Apply("pow", (base, Size(up) if whole is None else const(-whole)))
    return None


def _flat(factors: list[Term]) -> tuple[Term, ...]:
    return tuple(x for f in factors for x in (f.args if isinstance(f, Apply) and f.op == "mul" else (f,)))
