"""NormalProgram -> the programs to choose from: which linear definitions are stored, and
in which order products are formed.

`Σ_s a_ts (l_sρ q_ρd)` is `(Σ_s a_ts l_sρ) q_ρd`. Which is cheaper may depend on sizes that are not known yet, so the
search is done at a few of them. Non-goals: sums are not distributed over additions; what is not linear stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from einc.ir.dependence import needed
from einc.ir.draft import renamed
from einc.ir.indices import DATA, Index, IndexSet, size
from einc.ir.programs import Equation, NormalProgram, Tensor, local
from einc.ir.sums import factors
from einc.ir.terms import Fold, Size, Term, bound_indices, canonical, free_indices, reads, walk
from einc.planning.analysis.cost import BALANCE, nominal
from einc.planning.analysis.signs import known_of
from einc.planning.contractions.materialise import unstored
from einc.planning.contractions.networks import Network, definitions, networks, opened
from einc.planning.contractions.order import pairs, path
from einc.planning.contractions.orders import Order, orders

Sizes = Mapping[str, int]
_LENGTHS = (1, 128, 8192)  # of each open size: none to speak of, as long as a feature, long
_CROSSED = 3  # so many open sizes are tried in every combination of lengths
_ALL = 4  # up to so many definitions every choice is tried
_PAIRS = 16  # up to so many, every two are exchanged together
_LONG = 6  # so many definitions, and no more, one of many networks takes in


@dataclass(frozen=True)
class Candidate:
    """A program that means the same, and sizes at which it is the cheapest."""

    program: NormalProgram
    sizes: Sizes


def as_written(program: NormalProgram) -> list[Candidate]:
    """The program with its products in the order in which they are written, as the only candidate."""
    return [Candidate(program, samples(program)[-1])]


def associate(program: NormalProgram) -> list[Candidate]:
    """The program as written first, then those that are cheapest somewhere."""
    sizes, found = samples(program), as_written(program)
    search = Search(program)
    if search.idle:
        return found
    known = {_spelled(found[0])}
    for at in sizes:
        made = Candidate(search.best(at), at)
        if _spelled(made) not in known:
            known.add(_spelled(made))
            found.append(made)
    return found


def _spelled(candidate: Candidate) -> tuple[object, ...]:
    """What tells candidates apart: their equations, and the order within contractions of more than two."""
    out: list[object] = []
    for equation in candidate.program.equations:
        body = equation.body
        out.append((equation.target, equation.axes, equation.domain, body))
        if isinstance(body, Fold) and len(parts := factors(body.body)) > 2 and body.op == "sum":
            out.append(path(tuple(tuple(free_indices(p)) for p in parts), equation.indices, candidate.sizes))
    return tuple(out)


def samples(program: NormalProgram, narrow: bool = False) -> list[dict[str, int]]:
    """Sizes to try, the longest last: each open size at every length, the model's own as they usually are; with
    `narrow` also at a quarter of that.
    """
    usual: dict[str, int] = {}
    lengths: dict[str, None] = {}
    sets = dict.fromkeys(s.set for t in program.tensors.values() for s in t.slots)
    terms = [t for e in program.equations for root in (e.domain, e.body) for t in walk(root)]
    sets.update(dict.fromkeys(i.set for t in terms for i in bound_indices(t)))
    usual |= {name: 16 for t in terms if isinstance(t, Size) for name in t.extent.sizes}
    wide = _wide(program)
    for one in sets:
        for name in one.extent.sizes:
            if one.extent == size(name) and one.cls in DATA:
                lengths[name] = None
            elif one.extent == size(name):
                usual[name] = nominal(one) * (16 if one in wide else 1)
            else:
                usual.setdefault(name, 16)
    usual = {n: v for n, v in {**usual, **program.sizes}.items() if n in program.sizes or n not in lengths}
    small = {n: v if n in program.sizes else max(1, v // 4) for n, v in usual.items()}
    lengthy = _spread([n for n in lengths if n not in program.sizes])
    return [{**own, **at} for own in ((small, usual) if narrow else (usual,)) for at in lengthy]


def usual(program: NormalProgram) -> dict[str, int]:
    """Sizes as a model usually has them, and one of whatever the data has."""
    first, *_ = samples(program)
    return {**first, **{n: 1 for s in {s.set for t in program.tensors.values() for s in t.slots} if s.cls in DATA
                        for n in s.extent.sizes}}


def _spread(names: list[str]) -> Iterator[dict[str, int]]:
    """Every combination of lengths; of many names, all of one length but for one. The longest of all are last."""
    if len(names) <= _CROSSED:
        yield from (dict(zip(names, at, strict=True)) for at in product(_LENGTHS, repeat=len(names)))
        return
    for here, there in ((_LENGTHS[0], _LENGTHS[-1]), (_LENGTHS[-1], _LENGTHS[0])):
        yield from ({n: here if n == one else there for n in names} for one in names)
    yield from (dict.fromkeys(names, length) for length in _LENGTHS)


def _wide(program: NormalProgram) -> set[IndexSet]:
    """Features that stand with heads, and in data without them: what a position has for
    all heads is as wide as all of them."""
    given = [{s.set for s in t.slots} for t in program.inputs()]
    headed = {x for sets in given if any(s.cls == "head" for s in sets) for x in sets if x.cls == "feature"}
    shared = [sets for sets in given if not any(s.cls == "head" for s in sets) and any(s.cls in DATA for s in sets)]
    return {x for sets in shared for x in sets} & headed


@dataclass
class Search:
    """What may be exchanged, and the cheapest way to do it at given sizes."""

    program: NormalProgram
    known: dict[tuple[str, frozenset[str]], tuple[Order, ...]] = field(default_factory=dict)
    named: dict[tuple[Term, Term], str] = field(default_factory=dict)  # what is new, by its meaning

    def __post_init__(self) -> None:
        """Finds the networks of the program, and which of its definitions may stand in place of their names."""
        outputs = {key for _, key in self.program.outputs}
        self.meanings = {e.target: _meaning(e, e.body) for e in self.program.equations}
        self.virtual = unstored(self.program, outputs)
        self.facts = known_of(self.program)
        self.networks = networks(self.program, self.virtual)
        found = definitions(self.program, self.networks, self.virtual)
        # What scales a sum of values that are not stored keeps it in range, so it follows it at once.
        scaled = [f.tensor for n in self.networks.values() if n.scales for f in n.factors]
        self.fixed: frozenset[str] = frozenset()
        while scaled:
            key = scaled.pop()
            if key in found and self._wide(key):
                self.fixed |= {key}
                scaled += [f.tensor for f in self.networks[key].factors]
        if not all(self.roots(frozenset()).values()):
            self.fixed = frozenset()
        self.open = tuple(k for k in found if k not in self.fixed)
        self.readers: dict[str, list[str]] = {}
        for key, net in self.networks.items():
            for read in net.factors:
                self.readers.setdefault(read.tensor, []).append(key)

    @property
    def idle(self) -> bool:
        """Whether no order is left to choose: no open exchange, and no product of three factors or more."""
        return not self.open and all(len(n.factors) < 3 for n in self.networks.values())

    def _wide(self, key: str) -> bool:
        """Whether a network takes in values that are not stored, at once or through others."""
        inner = self.networks[key].factors if key in self.networks else ()
        return any(f.tensor in self.virtual or self._wide(f.tensor) for f in inner)

    def best(self, sizes: Sizes) -> NormalProgram:
        """Every choice of definitions where there are few, else one or two exchanged at a time while that helps; of
        many those that meet, wherever they are."""
        costs: dict[frozenset[str], float] = {}
        price = _Price(self.virtual, sizes)

        def cost(chosen: frozenset[str]) -> float:
            if chosen not in costs:
                costs[chosen] = sum(min(map(price.order, o), default=float("inf")) for o in self.roots(chosen).values())
                costs[chosen] *= 1 + 0.01 * len(chosen)  # what is written is kept unless something is gained
            return costs[chosen]

        if len(self.open) <= _ALL:
            here = min((frozenset(c) for c in _subsets(self.open, len(self.open))), key=cost)
        elif len(self.open) > _PAIRS:
            here = self._swept(price)
        else:
            steps = [frozenset(c) for c in _subsets(self.open, 2) if c]
            here = frozenset()
            while cost(better := min((here ^ s for s in steps), key=cost)) < cost(here):
                here = better
        return self.assembled(here, [min(o, key=price.order) for o in self.roots(here).values()])

    def _swept(self, price: _Price) -> frozenset[str]:
        """Definitions of which no exchange of one, or of two that meet, helps. What an exchange costs is asked of the
        networks that it reaches alone, and all exchanges that reach different ones are made in one sweep."""
        free = frozenset(self.open)
        pairs = [frozenset({f.tensor, k}) for k in self.open for f in self.networks[k].factors if f.tensor in free]
        steps, here = [*(frozenset({k}) for k in self.open), *dict.fromkeys(pairs)], frozenset[str]()
        while True:
            gains = [(self._gain(here, step, price), n) for n, step in enumerate(steps)]
            after, met = here, set[str]()
            for _, n in sorted(((gain, n) for gain, n in gains if gain > 0), key=lambda x: (-x[0], x[1])):
                touched = self._met(here | steps[n], steps[n])
                if not touched & met:
                    after, met = after ^ steps[n], met | touched
            if after == here:
                return here
            here = after

    def _gain(self, here: frozenset[str], step: frozenset[str], price: _Price) -> float:
        """By how much an exchange lowers the cost of the networks that it reaches; one in a hundred is no gain for a
        definition that is taken in."""
        met, sums = self._met(here | step, step), list[float]()
        for chosen in (here, here ^ step):
            roots = [k for k in met if k not in chosen | self.fixed]
            if any(len(self._reached(self.networks[k], chosen)) > _LONG for k in roots):
                return 0.0
            found = (self._orders(k, chosen | self.fixed) for k in roots)
            sums.append(sum(min(map(price.order, o), default=float("inf")) for o in found))
        return sums[0] - sums[1] * (1 + 0.01 * len(step - here))  # every exchange lowers the cost, so sweeps end

    def _met(self, chosen: frozenset[str], step: frozenset[str]) -> set[str]:
        """The networks of the definitions of a step and of what reads them, also through other chosen ones."""
        met, left = set[str](), [*step]
        while left:
            key = left.pop()
            if key not in met:
                met.add(key)
                left += self.readers.get(key, ()) if key in chosen or key in self.fixed else ()
        return met

    def _orders(self, key: str, chosen: frozenset[str]) -> tuple[Order, ...]:
        """The orders of an equation that takes in the chosen definitions."""
        reached = self._reached(self.networks[key], chosen)
        if (key, reached) not in self.known:
            self.known[key, reached] = orders(opened(self.networks[key], reached, self.networks), self.virtual,
                                              self.facts)
        return self.known[key, reached]

    def roots(self, chosen: frozenset[str]) -> dict[str, tuple[Order, ...]]:
        """The orders of every equation that is not taken in by its readers."""
        chosen = chosen | self.fixed
        return {key: self._orders(key, chosen) for key in self.networks if key not in chosen}

    def assembled(self, chosen: frozenset[str], found: Iterable[Order]) -> NormalProgram:
        """The program with some definitions gone and each root in its order; equal new definitions are one."""
        program, gone, made = self.program, chosen | self.fixed, {o[-1].target: o for o in found}
        tensors = {k: t for k, t in program.tensors.items() if k not in gone}
        equations: dict[str, Equation] = {}
        for equation in (e for e in program.equations if e.target not in gone):
            *before, last = made.get(equation.target, (equation,))
            names: dict[str, str] = {}
            for one in before:
                body = renamed(one.body, names)
                names[one.target] = name = self._name(one, body, tensors)
                if name not in tensors:
                    tensors[name] = local(name, one.indices)
                    equations[name] = Equation(name, one.axes, one.domain, body)
            equations[last.target] = replace(last, body=renamed(last.body, names))
        return replace(program, tensors=tensors, equations=tuple(needed(equations, [k for _, k in program.outputs])))

    def _name(self, equation: Equation, body: Term, tensors: Mapping[str, Tensor]) -> str:
        """The name of what is new: of one meaning in all programs of the search, for their steps stand side by side.
        Remembers the meaning."""
        meaning, name, n = _meaning(equation, body), equation.target, 2
        if meaning in self.named:
            return self.named[meaning]
        while (name in tensors and name not in self.meanings) or self.meanings.setdefault(name, meaning) != meaning:
            name, n = f"{equation.target}{n}", n + 1
        self.named[meaning] = name
        return name

    def _reached(self, net: Network, chosen: frozenset[str]) -> frozenset[str]:
        """The chosen definitions that this network takes in."""
        mine = [f.tensor for f in net.factors if f.tensor in chosen]
        return frozenset(mine).union(*(self._reached(self.networks[k], chosen) for k in mine))


def _subsets(items: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    return (c for n in range(most + 1) for c in combinations(items, n))


@dataclass
class _Price:
    """About what equations cost at given sizes, in operations: the exact figure is the plan's."""

    virtual: frozenset[str]
    sizes: Sizes
    known: dict[Equation, float] = field(default_factory=dict)
    extents: dict[IndexSet, float] = field(default_factory=dict)

    def order(self, order: Order) -> float:
        """Of one order: what only its last equations read, and are sums of values not stored, is not stored either."""
        inner = self.virtual | {
            e.target for n, e in enumerate(order[:-1]) if not isinstance(order[n + 1].body, Fold) and self._through(e)
        }
        return sum(self._equation(e, inner) for e in order)

    def _through(self, equation: Equation) -> bool:
        return any(r.tensor in self.virtual for r in reads(equation.body))

    def _equation(self, equation: Equation, inner: frozenset[str]) -> float:
        if equation not in self.known:
            self.known[equation] = self._counted(equation, inner)
        return self.known[equation]

    def _counted(self, equation: Equation, inner: frozenset[str]) -> float:
        values = [r for r in reads(equation.body) if r.tensor not in inner]
        stored = [frozenset(free_indices(r)) for r in values]
        out = [frozenset(equation.indices)] if equation.target not in inner else []
        body = equation.body
        if isinstance(body, Fold) and out and len(values) == len(factors(body.body)) > 2:
            letters = tuple(tuple(free_indices(v)) for v in values)
            steps = pairs(letters, equation.indices, path(letters, equation.indices, self.sizes))
            return sum(self._step(frozenset().union(*a), [*a, b]) for a, b in steps)
        return self._step({*equation.indices, *bound_indices(body)}, [*stored, *out])

    def _step(self, letters: frozenset[Index] | set[Index], moved: list[frozenset[Index]]) -> float:
        return max(2 * self.volume(letters), BALANCE * 4 * sum(map(self.volume, moved)))

    def volume(self, letters: frozenset[Index] | set[Index]) -> float:
        total = 1.0
        for index in letters:
            total *= self.extent(index)
        return total

    def extent(self, index: Index) -> float:
        if index.set not in self.extents:
            self.extents[index.set] = max(1.0, float(index.set.extent.at(self.sizes)))
        return self.extents[index.set]


def _meaning(equation: Equation, body: Term) -> tuple[Term, Term]:
    """An equation without its own name and letters."""
    return canonical(body, equation.indices), canonical(equation.domain, equation.indices)
