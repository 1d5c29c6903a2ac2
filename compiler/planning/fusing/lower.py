"""A group of equations -> the lets and stores of a kernel.

A value outside its domain is nobody's business until a fold meets it. There it must be the fold's neutral element;
what a value is where its domain fails (its fill) is followed through the operations, so that a mask is applied once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from einc.ir.domains import negation, proves
from einc.ir.draft import unused
from einc.ir.elements import Kind
from einc.ir.finite import surely_above, surely_finite
from einc.ir.folds import FOLDS
from einc.ir.indices import IndexSet, number
from einc.ir.plan import (
    AxisRef,
    Carry,
    Dot,
    Flatten,
    Gather,
    Iota,
    Let,
    Load,
    Map,
    Op,
    Reduce,
    Scalar,
    Select,
    Slice,
    Store,
    Subscript,
    axes_of,
)
from einc.ir.primitives import HASHES, POSITIVE, PRIMITIVES, SAID
from einc.ir.programs import Equation
from einc.ir.signs import sign
from einc.ir.sums import factors
from einc.ir.terms import (
    ONE,
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
    Truth,
    Where,
    both,
    const,
    free_indices,
    substitute,
    walk,
)
from einc.ir.witnesses import witnessed
from einc.planning.analysis.fills import FINITE, Fill, fill_of, fill_of_let
from einc.planning.analysis.indicators import indicator
from einc.planning.analysis.ranges import cut
from einc.planning.analysis.wholes import beyond_python, keeps_whole, nonzero, packed_number
from einc.planning.fusing.given import LoweringInput, Passing
from einc.planning.fusing.reached import about, of_data, speaks_of


@dataclass
class Lowering:
    """The lets made so far, in order; one for each distinct operation."""

    given: LoweringInput
    passing: Passing
    lets: dict[str, Let] = field(default_factory=dict)
    known: dict[tuple[Op, tuple[str, ...], tuple[str, ...]], str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)  # equation -> let
    fills: dict[tuple[str, Term], Fill] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    sets: dict[str, IndexSet] = field(default_factory=dict)
    keys: list[tuple[str, IndexSet]] = field(default_factory=list)
    tame: set[str] = field(default_factory=set)  # factors that are finite numbers also where a domain fails

    def equation(self, equation: Equation, text: str) -> None:
        """Adds the lets of one equation, and its store if it is kept."""
        for index in equation.indices:
            self.sets[index.name] = index.set
        match equation.body:
            case Fold():
                value = self._fold(equation, equation.body)
            case _:
                value = self.term(equation.body, equation.domain)
        value = self._spread(value, tuple(i.name for i in equation.indices))
        value = self._entitle(value, equation.target, text)
        if equation.target in self.passing.carries:
            self._carry(value, equation)
        self.values[equation.target] = value
        if equation.target not in self.given.virtual:
            axes = tuple(tuple(x.index.name for x in walk(axis) if isinstance(x, Position)) for axis in equation.axes)
            self.stores.append(Store(equation.target, value, axes))

    def _carry(self, value: str, equation: Equation) -> None:
        """Marks a fold's let as a share of what is carried from tile to tile."""
        carry = self.passing.carries[equation.target]
        body = equation.body
        start = {b: const(b.set.start) for b in body.bound} if isinstance(body, Fold) else {}
        # A reach begins at the first point, whose value is a number: that of another fold may be of nothing.
        full = (isinstance(body, Fold) and proves(TRUE, substitute(body.domain, start))
                and surely_above(body.body, self.given.equations))
        reference = self.values[carry.reference] if carry.reference else None
        let = self.lets[value]
        self.lets[value] = replace(let, carry=Carry(carry.fold, reference, self.passing.base2, full))
        self.known = {k: v for k, v in self.known.items() if v != value}

    def let(self, op: Op, args: tuple[str, ...], axes: frozenset[str] | tuple[str, ...], kind: Kind) -> str:
        """The name of the let of an operation; one that is not made yet is added to the lets."""
        ordered = tuple(a for a in self.given.order if a in axes)
        key = (op, args, ordered)
        if key not in self.known:
            name = f"_{len(self.lets)}"
            self.lets[name] = Let(name, ordered, kind, op, args)
            self.known[key] = name
        return self.known[key]

    def _entitle(self, value: str, name: str, text: str) -> str:
        """The let gets the equation's own name; one that has a name already, or is a bare load, keeps it."""
        let = self.lets[value]
        if not value.startswith("_"):
            return value
        name = unused(name, self.lets)
        if next(reversed(self.lets)) == value:  # nothing reads the last one yet
            del self.lets[value]
            self.lets[name] = replace(let, name=name, text=text)
        else:
            made: dict[str, Let] = {}
            for key, inner in self.lets.items():
                if key == value:
                    made[name] = replace(let, name=name, text=text)
                else:
                    carry = inner.carry
                    if carry is not None and carry.reference == value:
                        carry = replace(carry, reference=name)
                    made[key] = replace(inner, args=tuple(name if a == value else a for a in inner.args), carry=carry)
            self.lets.clear()
            self.lets.update(made)
        self.known = {k: (name if v == value else v) for k, v in self.known.items()}
        self.fills = {((name if v == value else v), d): f for (v, d), f in self.fills.items()}
        self.values = {k: (name if v == value else v) for k, v in self.values.items()}
        return name

    def _spread(self, value: str, axes: tuple[str, ...]) -> str:
        """A value that lacks axes of its target is constant along them: 1 · value over those axes."""
        missing = [a for a in axes if a not in self.lets[value].axes]
        if not missing:
            return value
        kind = self.lets[value].kind
        return self.let(Map("spread"), (value,), frozenset(axes), "exact" if kind == "scalar" else kind)

    # terms

    def term(self, term: Term, given: Term) -> str:
        """Adds the lets of a pointwise term, read where `given` holds, and returns the name of the last one."""
        if isinstance(term, Const | Size | Truth) or (not free_indices(term) and not beyond_python(term)):
            return self.let(Scalar(term), (), (), "scalar")
        match term:
            case Position(index):
                self.sets[index.name] = index.set
                return self.let(Iota(index.name), (), (index.name,), "integer")
            case Read():
                return self._read(term, given)
            case Where(condition, then):
                return self._selected(condition, then, 0.0, given)
            case Apply("add", (Where(condition, then), Where(outside, Const(value)))) if outside == negation(condition):
                return self._selected(condition, then, float(value), given)
            case Apply(op, args):
                return self._apply(op, args, given)
            case Pack(parts, sets, into):
                return self.term(packed_number(parts, sets, into), given)
            case Part(item, of, before, into):
                return self.term(Apply("add", (item, Size(before + number(into.start - of.start)))), given)
        raise AssertionError(term)

    def _selected(self, condition: Term, then: Term, otherwise: float, given: Term) -> str:
        inner = self.term(then, both(given, condition))
        guard = self.term(condition, given)
        if self.lets[inner].kind == "scalar":
            inner = self._spread(inner, self.lets[guard].axes)
        return self._map_op(Select(otherwise), (guard, inner), self.lets[inner].kind)

    def _apply(self, op: str, args: tuple[Term, ...], given: Term) -> str:
        """Adds the lets of a primitive applied to its arguments where `given` holds, and returns the name of its
        result. A floor or ceiling of a whole quotient is one integer division; a quotient whose divisor may be 0
        is 0 where its numerator is 0."""
        if op in SAID:
            return self.term(args[0], given)
        if op in ("floor", "ceil") and isinstance(args[0], Apply) and args[0].op == "div":
            above, below = (self.term(a, given) for a in args[0].args)
            if all(
                self._kind(x) in ("integer", "scalar") and keeps_whole(y)
                for x, y in zip((above, below), args[0].args, strict=True)
            ):
                return self._map(f"{op}div", (above, below), "integer")
        here = [both(given, *args[:n]) if op == "and" else given for n in range(len(args))]
        names = tuple(self._whole(a, x) if op in HASHES else self.term(a, x) for a, x in zip(args, here, strict=True))
        if (op == "div" and self._kind(names[1]) != "scalar" and not nonzero(args[0])
            and sign(args[1], self.given.equations) != POSITIVE):
            quotient = self._map("div", names, self._joined(names, "div"))
            zero = self._map("ne", (names[0], self.let(Scalar(const(0)), (), (), "scalar")), "truth")
            return self._map_op(Select(0.0), (zero, quotient), self._kind(quotient))
        return self._map(op, names, self._joined(names, op))

    def _map(self, op: str, args: tuple[str, ...], kind: Kind) -> str:
        made = self._map_op(Map(op), args, kind)
        for domain in {d for a in args for (v, d) in self.fills if v == a}:
            fill = fill_of(op, [self._fill_of(a, domain) for a in args])
            if fill is not None:
                self.fills[made, domain] = fill
        return made

    def _map_op(self, op: Op, args: tuple[str, ...], kind: Kind) -> str:
        return self.let(op, args, frozenset(a for x in args for a in self.lets[x].axes), kind)

    def _fill_of(self, value: str, domain: Term) -> Fill:
        return fill_of_let(value, domain, self.lets, self.fills)

    def _kind(self, value: str) -> Kind:
        return self.lets[value].kind

    def _joined(self, args: tuple[str, ...], op: str) -> Kind:
        """The kind of the result of `op` on these lets: truth, scalar, real, integer or exact."""
        kinds = {self._kind(a) for a in args}
        if op in HASHES:
            return "integer" if PRIMITIVES[op].exact else "real"
        if op in PRIMITIVES and PRIMITIVES[op].kind != "value":
            return "truth"
        if kinds <= {"scalar"}:
            return "scalar"
        if "real" in kinds:
            return "real"
        if kinds <= {"integer", "scalar"} and op in PRIMITIVES and PRIMITIVES[op].exact:
            whole = all(self._kind(a) == "integer" or keeps_whole(self._scalar(a)) for a in args)
            return "integer" if whole else "exact"
        return "exact"

    def _scalar(self, value: str) -> Term:
        op = self.lets[value].op
        return op.term if isinstance(op, Scalar) else ONE

    # reads

    def _read(self, read: Read, given: Term) -> str:
        if read.tensor in self.values and (read.tensor in self.given.virtual or self._same(read)):
            return self.values[read.tensor]
        buffer = self.given.buffers[read.tensor]
        args: list[str] = []
        told = self.given.said.get(read, read.tensor)
        subs = tuple(self._sub(s, x, given, told, args) for s, x in zip(read.subs, buffer.sets, strict=True))
        axes = frozenset(a for s in subs for a in axes_of(s)) | {a for x in args for a in self.lets[x].axes}
        return self.let(Load(read.tensor, subs), tuple(args), axes, buffer.element.kind)

    def _same(self, read: Read) -> bool:
        """A result of this very kernel, read at its own indices."""
        equation = self.given.equations[read.tensor]
        return read.tensor in self.given.inside and read.subs == equation.axes

    def _sub(self, sub: Term, into: IndexSet, given: Term, told: str, args: list[str]) -> Subscript:
        """A subscript of a read written as `told`; the whole number of a computed one is appended to the arguments.

        What is computed of data is held against its range, or stands at the first place.
        """
        match sub:
            case Position(index) if index.set == into:
                self.sets[index.name] = index.set
                return AxisRef(index.name)
            case Pack(parts, sets):
                return Flatten(tuple(self._sub(p, x, given, told, args) for p, x in zip(parts, sets, strict=True)),
                               sets)
            case Part(item, of, before, _):
                return Slice(self._sub(item, of, given, told, args), before, of.extent)
        value = self._whole(sub, given)
        args.append(value)
        op, here = self.lets[value].op, about(given, sub)
        role = self.given.buffers[op.buffer].role if isinstance(op, Load) else "local"
        if role == "derived" or (role in ("input", "weight", "place") and not speaks_of(here, sub)):
            self.keys += [(op.buffer, into)] if isinstance(op, Load) and role != "derived" else []
            return Gather(len(args) - 1, into, True)
        low, high = const(into.start), Size(into.extent + number(into.start - 1))
        inside = Apply("and", (Apply("le", (low, sub)), Apply("le", (sub, high))))
        if proves(TRUE, inside):
            return Gather(len(args) - 1, into, True)
        if not of_data(sub, inside, given, self.given.equations):
            return Gather(len(args) - 1, into, False)
        if here != TRUE:
            args[-1] = self._map_op(Select(float(into.start)), (self.term(here, TRUE), value), "integer")
        return Gather(len(args) - 1, into, False, told)

    def _whole(self, term: Term, given: Term) -> str:
        """The let of a term that is surely a whole number: where a logarithm stands in it, say, it becomes one."""
        value = self.term(term, given)
        return self._map("floor", (value,), "integer") if self._kind(value) in ("exact", "real") else value

    # folds

    def _fold(self, equation: Equation, fold: Fold) -> str:
        over = tuple(i.name for i in fold.bound)
        args = self._operands(equation, fold)
        axes = frozenset(a for x in args for a in self.lets[x].axes) - set(over)
        if FOLDS[fold.op].linear:
            return self.let(Dot(over), tuple(args), axes, self._joined(tuple(args), "dot"))
        full = self.passing.resumed not in fold.bound and witnessed(fold.domain, fold.bound, equation.indices)
        made = self.let(Reduce(fold.op, over, full), tuple(args), axes, self._joined(tuple(args), fold.op))
        self.fills |= {(made, TRUE): FINITE} if full else {}
        return made

    def _operands(self, equation: Equation, fold: Fold) -> list[str]:
        """What a fold takes, with its neutral element wherever its domain fails."""
        self.sets.update((i.name, i.set) for i in fold.bound)
        linear = FOLDS[fold.op].linear
        parts = factors(fold.body) if linear else (fold.body,)
        numbers = tuple(f for f in parts if f != ONE and not free_indices(f) and not beyond_python(f))
        if {*parts} <= {ONE, *numbers}:  # nothing but a number is one operand
            parts, numbers = (fold.body,), ()
        parts = tuple(f for f in parts if (f != ONE or not linear) and f not in numbers)
        args = [self.term(f, both(equation.domain, fold.domain)) for f in parts]
        self.tame |= {a for f, a in zip(parts, args, strict=True)
                      if surely_finite(f, self.given.equations)}
        while linear and (found := indicator(self.lets, args)) is not None:
            args = self._selecting(args, *found, fold.domain)
        if numbers:
            args = self._scaled(args, numbers)
        # the neutral element may be infinite: no whole number is
        if not linear or [self._kind(a) for a in args] == ["scalar"]:
            args = [self._map("exact", (a,), "exact") if self._kind(a) == "integer" else a for a in args]
            args = [self._spread(args[0], (*self.lets[args[0]].axes, *(i.name for i in fold.bound)))]
        return self._masked(args, fold, equation)

    def _selecting(self, args: list[str], arg: str, guard: str, at: str, domain: Term) -> list[str]:
        """A factor that is 1 or 0 becomes a choice in another one."""
        chosen = self._map_op(Select(0.0), (guard, at), self._kind(at))
        self.fills |= {(chosen, domain): 0.0} if self._fill_of(at, domain) == 0.0 else {}
        self.tame |= {chosen} if at in self.tame else set()
        return [chosen if a == at else a for a in args if a != arg]

    def _scaled(self, args: list[str], numbers: tuple[Term, ...]) -> list[str]:
        """The numbers of a contraction, on the operand that changes least often."""
        number_ = self.term(numbers[0] if len(numbers) == 1 else Apply("mul", numbers), TRUE)
        moving = self.passing.stream.name if self.passing.stream is not None else None
        at = next((n for n, a in enumerate(args) if moving not in self.lets[a].axes), 0)
        scaled = self._map("mul", (args[at], number_), self._joined((args[at], number_), "mul"))
        self.tame |= {scaled} if args[at] in self.tame else set()
        return [scaled if n == at else a for n, a in enumerate(args)]

    def _masked(self, args: list[str], fold: Fold, equation: Equation) -> list[str]:
        """The arguments with the fold's neutral element wherever its domain fails. Changes `self.tame`, `self.fills`,
        `self.values` and `self.known`."""
        domain = fold.domain
        mask = self.term(domain, equation.domain) if domain != TRUE else ""
        over = frozenset(i.name for i in fold.bound)
        uncounted = over.difference(*(self.lets[x].axes for x in (*args, mask) if x))
        if uncounted:
            args = [*args, self.let(Map("spread"), (self.let(Scalar(ONE), (), (), "scalar"),), uncounted, "exact")]
            self.tame |= {args[-1]}
        if not mask:
            return args
        start = FOLDS[fold.op].start
        if (any(self._fill_of(a, domain) == start for a in args)
            and over <= {a for x in args for a in self.lets[x].axes}):
            return [a if self._fill_of(a, domain) == start else self._silenced(a, mask, domain, fold.op) for a in args]
        wanted, other = set(self.lets[mask].axes), None if FOLDS[fold.op].linear else args[0]
        holder = next((a for a in args if wanted <= set(self.lets[a].axes)), other)
        if holder is None:
            silenced = [self._silenced(a, mask, domain, fold.op) for a in args]
            if silenced == args:  # else the mask is in a factor
                silenced.append(self._map_op(Map("real"), (mask,), "real"))
            return silenced
        masked = self._selected_at(mask, holder, start, domain)
        if not holder.startswith("_"):
            masked = self._entitle(masked, f"{holder}_masked", "")
        self.fills[masked, domain] = start
        if self.passing.uniform:  # nobody looks where the domain fails, so the masked value serves every later reader
            self.values = {k: masked if v == holder and k in self.given.virtual else v for k, v in self.values.items()}
            self.known = {k: (masked if v == holder else v) for k, v in self.known.items()}
        return [masked if a == holder else self._silenced(a, mask, domain, fold.op) for a in args]

    def _selected_at(self, mask: str, value: str, otherwise: float, domain: Term) -> str:
        """The value where the mask of a domain holds; what moves with the streamed index says which tiles it cuts."""
        moves = self.passing.tile is not None and self.passing.tile.axis.name in self.lets[value].axes
        cuts = cut(domain, self.passing.tile) if self.passing.tile is not None and moves else None
        return self._map_op(Select(otherwise, cuts), (mask, value), self._kind(value))

    def _silenced(self, arg: str, mask: str, domain: Term, op: str) -> str:
        """A factor that may be no finite number where the domain fails: 0 there, for 0 times no number is no number."""
        fill = self._fill_of(arg, domain)
        covers = set(self.lets[mask].axes) <= set(self.lets[arg].axes)
        quiet = ((isinstance(fill, float) and math.isfinite(fill))
                 or (arg in self.tame and (fill == FINITE or not covers)))
        return arg if quiet or not FOLDS[op].linear else self._selected_at(mask, arg, 0.0, domain)
