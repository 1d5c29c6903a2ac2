"""Folds over everything up to a point as lets: those that run along an axis, and what
tiles in order leave to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einc.ir.domains import linear
from einc.ir.folds import FOLDS
from einc.ir.indices import number
from einc.ir.plan import Dot, Map, PreviousCarry, Reduce, Scan, ScatterAdd
from einc.ir.programs import Equation
from einc.ir.terms import Apply, Fold, Read, Term, both, const, free_indices, reads, transform
from einc.planning.analysis.ends import term as of_form
from einc.planning.analysis.prefix import Prefix, running, running_sum
from einc.planning.analysis.scatters import Scattered, scattered
from einc.planning.fusing.lower import Lowering
from einc.planning.streaming.passes import Streamed


@dataclass
class Scanning(Lowering):
    """Lowering that knows which equations are running folds, and which names stand for
    what the tiles before carried."""

    prefixes: Mapping[str, Prefix] = field(default_factory=dict)

    def _carry(self, value: str, equation: Equation) -> None:
        super()._carry(value, equation)
        let = self.lets[value]
        if let.carry is not None and self.passing.late:
            self.lets[value] = replace(let, carry=replace(let.carry, full=False))

    def _read(self, read: Read, given: Term) -> str:
        if read.tensor not in self.passing.before:
            return super()._read(read, given)
        target = self.passing.before[read.tensor]
        # what reads itself is not made yet: it is a mean, and no whole number
        known = self.lets.get(self.values.get(target, ""))
        axes = tuple(i for s in read.subs for i in (x.name for x in free_indices(s)))
        return self.let(PreviousCarry(), (target,), axes, known.kind if known is not None else "real")

    def resolved(self) -> None:
        """Gives lets that read what was carried the names of the lets that carry it, in place of those of equations."""
        for name, let in self.lets.items():
            if isinstance(let.op, PreviousCarry):
                self.lets[name] = let.with_args(lambda name: self.values[name])

    def _apply(self, op: str, args: tuple[Term, ...], given: Term) -> str:
        if op == "exact":
            inner = self.term(args[0], given)
            return inner if self._kind(inner) != "real" else self._map("exact", (inner,), "exact")
        if op == "exp" and self.passing.before and self.passing.stream is None:
            # A difference of exact values is small: its exponential needs no more digits.
            inner = self.term(args[0], given)
            return self._map("exp", (self._map("real", (inner,), "real") if self._kind(inner) == "exact" else inner,),
                             "real")
        return super()._apply(op, args, given)

    def _operands(self, equation: Equation, fold: Fold) -> list[str]:
        """What a fold takes. One that is carried is made along all axes of its result: what is spread over an axis
        after the fold would be no share of a tile, but the fold over all of them. What is summed by numbers, of which
        the domain is no part of the fold, has the axes that they count."""
        args = super()._operands(equation, fold)
        had = {*(i.name for i in fold.bound)}.union(*(self.lets[x].axes for x in args))
        missing = [i.name for i in equation.indices if i.name not in had]
        whole = isinstance(equation.body, Fold) and equation.body.domain == fold.domain
        if equation.target in self.passing.carries and missing and whole:
            args = [self._spread(args[0], (*self.lets[args[0]].axes, *missing)), *args[1:]]
        return args

    def _masked(self, args: list[str], fold: Fold, equation: Equation) -> list[str]:
        """A sum up to a position that begins anew in each request is one of its own at each position, in as many digits
        as one that runs on. Where it sums one value, other requests are chosen away, and no product with 0."""
        if equation.target not in self.prefixes and running_sum(equation) and running(fold, equation.indices) is None:
            args = [self._map("exact", (a,), "exact") if self._kind(a) == "real" else a for a in args]
            if len(args) == 1:
                letters = (*self.lets[args[0]].axes, *(i.name for i in (*equation.indices, *fold.bound)))
                args = [self._spread(args[0], letters)]
        return super()._masked(args, fold, equation)

    def _fold(self, equation: Equation, fold: Fold) -> str:
        found = self.prefixes.get(equation.target)
        if found is not None:
            return self._scan(equation, fold, found)
        named = (scattered(equation, fold, lambda key: self.given.buffers[key].element.kind == "integer")
                 if self.passing.tiled else None)
        return super()._fold(equation, fold) if named is None else self._tally(equation, fold, named)

    def _tally(self, equation: Equation, fold: Fold, named: Scattered) -> str:
        """What is summed as one value with all the axes of its number, and the number with all that are folded."""
        args = self._operands(equation, replace(fold, domain=named.rest))
        arg = args[0] if len(args) == 1 else self._map("mul", tuple(args), self._joined(tuple(args), "mul"))
        first = Apply("sub", (named.number, const(named.index.set.start)))
        form = linear(first)
        number_ = self._whole(first if form is None else of_form(form), both(equation.domain, fold.domain))
        over = tuple(i.name for i in fold.bound)
        arg = self._spread(arg, (*self.lets[arg].axes, *self.lets[number_].axes, *over))
        arg = arg if self._kind(arg) in ("real", "exact") else self._map("exact", (arg,), "exact")
        number_ = self._spread(number_, (*self.lets[number_].axes, *over))
        axes = frozenset(self.lets[arg].axes) - set(over) | {named.index.name}
        return self.let(ScatterAdd(named.index.name, over), (arg, number_), axes, self._kind(arg))

    def _scan(self, equation: Equation, fold: Fold, found: Prefix) -> str:
        """Indices that are folded whole go first; then one pass along the axis gives the results of all its points."""
        linear = FOLDS[fold.op].linear
        args = self._operands(equation, replace(fold, domain=found.rest))
        others = tuple(b.name for b in fold.bound if b != found.over)
        axes = frozenset(a for x in args for a in self.lets[x].axes) - set(others)
        kind = self._joined(tuple(args), "dot")
        if len(args) > 1 or (others and linear):
            args = [self._map_op(Map("real"), (a,), "real") if self._kind(a) == "real" else a for a in args]
            args = [self.let(Dot(others), tuple(args), axes, kind)]
        elif others:
            args = [self.let(Reduce(fold.op, others, False), tuple(args), axes, kind)]
        # A sum that runs on is read as a difference of its values: it keeps more digits than what it sums.
        kind = "exact" if FOLDS[fold.op].rounds else self.lets[args[0]].kind
        start = number(found.along.set.start - found.over.set.start)
        op = Scan(fold.op, found.over.name, found.along.name, found.shift + start, found.back)
        return self.let(op, tuple(args), axes - {found.over.name} | {found.along.name}, kind)


def exactly(passed: Streamed) -> Streamed:
    """Exponents that are taken apart, in float64: the parts may be large where the whole is not."""
    names = {c.target for c in passed.carries} | passed.before.keys()
    references = {c.reference for c in passed.carries}

    def leaf(term: Term) -> Term:
        return Apply("exact", (term,)) if isinstance(term, Read) else term

    def change(term: Term) -> Term:
        match term:
            case Apply("exp", (inner,)) if any(isinstance(r, Read) and r.tensor in names for r in reads(inner)):
                return Apply("exp", (transform(inner, leaf),))
        return term

    out = []
    for equation in passed.equations:
        body = equation.body
        if equation.target in references and isinstance(body, Fold):
            body = replace(body, body=transform(body.body, leaf))
        out.append(replace(equation, body=transform(body, change)))
    return replace(passed, equations=tuple(out))
