"""Primitives that a back end does not spell, as primitives that it does: the expansions
of their rows, made lets of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einc.ir.backend import Spells
from einc.ir.elements import Kind
from einc.ir.plan import Iota, Kernel, Let, Map, Op, Scalar, Select
from einc.ir.primitives import PRIMITIVES, Primitive, filled
from einc.ir.terms import Apply, Const, Read, Term, Where, transform


def legal(kernel: Kernel, spells: Spells) -> Kernel:
    """The kernel with lets of spelled primitives alone; the kernel itself where they all are.

    Raises Unspelled for a primitive that has neither a spelling nor an expansion.
    """
    lets = {let.name: let for let in kernel.lets}
    if all(_is_legal(let, lets, spells) for let in kernel.lets):
        return kernel
    work = _Expanding(spells, tuple(axis.name for axis in kernel.axes), lets)
    for let in kernel.lets:
        work.let(let)
    return replace(kernel, lets=tuple(work.lets))


def straight(op: str, names: tuple[str, ...], spells: Spells) -> tuple[Let, ...]:
    """The value of a primitive at some names, step by step: the last let is the value, called `value`."""
    value, given = Let("value", (), "real", Map(op), names), (Let(a, (), "real", Iota(a)) for a in names)
    work = _Expanding(spells, (), {let.name: let for let in (value, *given)})
    work.let(value)
    return tuple(work.lets)


def expanded(term: Term, spells: Spells) -> Term:
    """A number, made of constants and sizes, in spelled primitives alone."""

    def change(inner: Term) -> Term:
        if not isinstance(inner, Apply) or not _is_primitive(inner.op) or spells(PRIMITIVES[inner.op], "scalar"):
            return inner
        if not PRIMITIVES[inner.op].arity and len(inner.args) > 2:
            return expanded(Apply(inner.op, (Apply(inner.op, inner.args[:-1]), inner.args[-1])), spells)
        return expanded(filled(_expansion(inner.op), dict(zip(("x", "y"), inner.args, strict=False))), spells)

    return transform(term, change)


class Unspelled(Exception):  # noqa: N818 - a row that lacks a column, named
    """A primitive that a back end can neither spell nor expand."""


def _expansion(op: str) -> Term:
    found = PRIMITIVES[op].expansion
    if found is None:
        raise Unspelled(f"the back end does not spell the primitive `{op}`, and its row has no expansion")
    return found


def _is_primitive(op: str) -> bool:
    """The plan has operations of its own, as `real` and `floordiv`, that every back end spells."""
    return op in PRIMITIVES


def _asked(let: Let, lets: Mapping[str, Let]) -> tuple[Primitive, Kind] | None:
    """The primitive that a let computes and the element type that `BackEnd.spells` is asked about.

    None where it computes none: what a plan has beside the primitives (conversions, exact quotients of
    whole numbers) every back end has to write.
    """
    if not isinstance(let.op, Map) or not _is_primitive(let.op.op):
        return None
    row = PRIMITIVES[let.op.op]
    compared = [lets[arg].kind for arg in let.args if lets[arg].kind != "scalar"]
    return row, (compared or [let.kind])[0] if row.kind == "relation" and let.kind != "scalar" else let.kind


def _is_legal(let: Let, lets: Mapping[str, Let], spells: Spells) -> bool:
    if isinstance(let.op, Scalar):
        return expanded(let.op.term, spells) == let.op.term
    return (found := _asked(let, lets)) is None or spells(*found)


@dataclass
class _Expanding:
    """The lets made so far. An operation that an expansion needs twice is made once."""

    spells: Spells
    order: tuple[str, ...]
    all: dict[str, Let]
    lets: list[Let] = field(default_factory=list)
    known: dict[tuple[Op, tuple[str, ...], Kind], str] = field(default_factory=dict)

    def let(self, let: Let) -> None:
        """Appends the let, after it what it needs; its own last operation keeps its name. Raises Unspelled."""
        match let.op:
            case Scalar(term):
                self.lets.append(replace(let, op=Scalar(expanded(term, self.spells))))
            case Map(op) if not _is_legal(let, self.all, self.spells):
                args = let.args
                while len(args) > 2:
                    args = (self._named(Map(op), args[:2], let), *args[2:])
                template = _expansion(op)
                if isinstance(template, Apply | Where):
                    made, operands = self._operation(template, dict(zip(("x", "y"), args, strict=False)), let)
                    self.let(replace(let, op=made, args=operands))
                else:
                    raise Unspelled(f"the expansion of `{op}` is no operation")
            case _:
                self.lets.append(let)

    def _operation(self, term: Apply | Where, by: dict[str, str], of: Let) -> tuple[Op, tuple[str, ...]]:
        """The last operation of a term and its arguments, which are made first."""
        match term:
            case Apply(op, args):
                return Map(op), tuple(self._value(a, by, of) for a in args)
            case Where(condition, then):
                return Select(0.0), (self._value(condition, by, of), self._value(then, by, of))

    def _value(self, term: Term, by: dict[str, str], of: Let) -> str:
        match term:
            case Read(name) if name in by:
                return by[name]
            case Const():
                return self._named(Scalar(term), (), of)
            case Apply() | Where():
                return self._named(*self._operation(term, by, of), of)
        raise Unspelled(f"no expansion has a {type(term).__name__}")

    def _named(self, op: Op, args: tuple[str, ...], of: Let) -> str:
        """A let for an operation, of the kind of the value that it is for; the axes are those of its operands. Changes
        `self.all` and `self.known`."""
        operands = [self.all[name] for name in args]
        truth = isinstance(op, Map) and _is_primitive(op.op) and PRIMITIVES[op.op].kind != "value"
        kind: Kind = "truth" if truth else "scalar" if all(x.kind == "scalar" for x in operands) else of.kind
        if (op, args, kind) not in self.known:
            count = len(self.all)
            name = next(f"_{n}" for n in range(count, 2 * count + 1) if f"_{n}" not in self.all)
            axes = {a for x in operands for a in x.axes}
            self.all[name] = Let(name, tuple(a for a in self.order if a in axes), kind, op, args)
            self.let(self.all[name])
            self.known[op, args, kind] = name
        return self.known[op, args, kind]
