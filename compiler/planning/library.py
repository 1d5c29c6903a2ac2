"""Kernels that a library has, each known by the equations it computes.

A row is a spec and a call. Both the row's equations and a kernel's are taken as the pass that `stream` makes of them, so
that every spelling of one thing is the same; they are equal when indices, sizes and tensors of the one can be named as
those of the other. Indices that all operands and the result share, and the row lacks, are batches. Nothing is known here
of what a row computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from einc.choices import Choices, Row
from einc.indices import Extent, Index
from einc.plan import Buffer, Call, Kernel
from einc.planning.fuse import Group, groups
from einc.planning.runs import Run
from einc.planning.storage import with_parts
from einc.planning.stream import stream
from einc.planning.virtual import peeled
from einc.terms import Apply, Equation, Fold, NormalProgram, Position, Read, Size, Term, Where, children, free_indices, reads

_ORDERS = 3  # arguments of a sum or a product that are tried in every order


def row(name: str, program: NormalProgram, call: str, where: str, shared: str = "", shares: tuple[str, ...] = ()) -> Row:
    """A row from its spec: one kernel, one output."""
    (group,) = (g for g in groups(with_parts(peeled(program))) if g.virtual)
    (output,) = (key for _, key in program.outputs)
    equations = stream(group.equations, group.virtual, frozenset({output}), frozenset(program.tensors)).equations
    inputs = tuple((t.key, tuple(s.name for s in t.slots)) for t in program.inputs())
    return Row(name, call, where, shared, shares, equations, inputs, output)


def called(choices: Choices, kernel: Kernel, group: Group, kept: frozenset[str], buffers: Mapping[str, Buffer],
           runs: Mapping[str, Run]) -> Kernel | Call:
    """The kernel, or the call of the first row that computes the same."""
    if kernel.stream is None or len(kernel.stores) != 1:
        return kernel
    equations = stream(group.equations, group.virtual, kept, frozenset(buffers)).equations
    (stored,) = (e for e in equations if e.target == kernel.stores[0].buffer)
    mine = {k: r for k, run in runs.items() if (r := run.within(group.equations)) is not None}
    for found in choices.rows:
        names = _same(found, equations, stored)
        call = None if names is None else _call(found, names, kernel, stored, buffers, mine)
        if call is not None:
            return call
    return kernel


@dataclass(frozen=True)
class _Names:
    """What each index and tensor of a row is in the program; `sizes` are pairs still to be held against each other."""

    indices: Mapping[Index, Index] = field(default_factory=dict)
    tensors: Mapping[str, tuple[str, tuple[Term, ...]]] = field(default_factory=dict)
    sizes: tuple[tuple[Extent, Extent], ...] = ()

    def index(self, a: Index, b: Index) -> _Names | None:
        if a in self.indices or b in self.indices.values():
            return self if self.indices.get(a) == b else None
        return replace(self, indices={**self.indices, a: b}) if a.set.start == b.set.start else None

    def settled(self) -> bool:
        """Whether the sizes of the row can be those of the program."""
        known: dict[str, Extent] = {}
        for a, b in self.indices.items():
            (name, *more) = a.set.extent.sizes or ("",)
            if more or known.setdefault(name, b.set.extent) != b.set.extent:
                return False
        return all(a.put(known) == b for a, b in self.sizes)


def _same(found: Row, equations: tuple[Equation, ...], stored: Equation) -> _Names | None:
    mine = {e.target: e for e in found.equations}
    theirs = {e.target: e for e in equations}
    if len(mine) != len(theirs):
        return None

    def equation(a: Equation, b: Equation, names: _Names) -> Iterator[_Names]:
        known = names.tensors.get(a.target)
        if known is not None:
            yield from [names] if known == (b.target, ()) else []
            return
        names = replace(names, tensors={**names.tensors, a.target: (b.target, ())})
        for inner in term(a.domain, b.domain, names):
            yield from term(a.body, b.body, inner)

    def term(a: Term, b: Term, names: _Names) -> Iterator[_Names]:
        match a, b:
            case Position(i), Position(j):
                yield from [n] if (n := names.index(i, j)) is not None else []
            case Size(x), Size(y):
                yield replace(names, sizes=(*names.sizes, (x, y)))
            case Read(x), Read(y) if x in mine:
                yield from equation(mine[x], theirs[y], names) if y in theirs else ()
            case Read(x, subs), Read(y, others) if y not in theirs:
                yield from _operand(names, x, subs, y, others)
            case Fold(op, bound, domain, body), Fold(op2, bound2, domain2, body2) if op == op2 and len(bound) == len(bound2):
                for letters in permutations(bound2):
                    positions = zip(map(Position, bound), map(Position, letters), strict=True)
                    yield from every([*positions, (domain, domain2), (body, body2)], names)
            case Apply(op, args), Apply(op2, args2) if op == op2 and len(args) == len(args2):
                orders = permutations(args2) if op in ("add", "mul") and len(args) <= _ORDERS else [args2]
                for order in orders:
                    yield from every(list(zip(args, order, strict=True)), names)
            case Where(condition, then), Where(condition2, then2):
                yield from every([(condition, condition2), (then, then2)], names)
            case _ if a == b and not children(a):
                yield names

    def every(pairs: list[tuple[Term, Term]], names: _Names) -> Iterator[_Names]:
        if not pairs:
            yield names
            return
        for inner in term(*pairs[0], names):
            yield from every(pairs[1:], inner)

    return next((n for n in equation(mine[found.output], stored, _Names()) if n.settled()), None)


def _operand(names: _Names, x: str, subs: tuple[Term, ...], y: str, others: tuple[Term, ...]) -> Iterator[_Names]:
    """A tensor from outside: it has the row's indices, and perhaps batches."""
    if names.tensors.get(x, (y, others)) != (y, others) or not all(isinstance(s, Position) for s in others):
        return
    letters = [s.index for s in others if isinstance(s, Position)]
    free = [s.index for s in subs if isinstance(s, Position)]
    if len(set(letters)) < len(letters) or len(free) > len(letters):
        return
    bound = {**names.tensors, x: (y, others)}
    for chosen in permutations(letters, len(free)):
        made: _Names | None = replace(names, tensors=bound)
        for a, b in zip(free, chosen, strict=True):
            made = made.index(a, b) if made is not None else None
        if made is not None:
            yield made


def _call(found: Row, names: _Names, kernel: Kernel, stored: Equation, buffers: Mapping[str, Buffer],
          runs: Mapping[str, Run]) -> Call | None:
    """The call, where everything that the row lacks is a batch of all operands and of the result."""
    own = [i for i in names.indices.values() if any(i in free_indices(a) for a in stored.axes)]
    batch = tuple(i for i in stored.indices if i not in own)
    operands: list[tuple[str, str, tuple[int, ...]]] = []
    if not all(isinstance(a, Position) for a in stored.axes):
        return None
    for key, slots in found.inputs:
        buffer, subs = names.tensors[key]
        letters = [s.index for s in subs if isinstance(s, Position)]
        mine = [names.indices[i] for i in _letters(found, key)]
        if set(letters) != {*batch, *mine} or len(mine) != len(slots) or buffers[buffer].kind != "real":
            return None
        operands.append((key, buffer, tuple(letters.index(i) for i in (*batch, *mine))))
    text = _spoken(found, {key: runs[buffer] for key, buffer, _ in operands if buffer in runs}, batch)
    if text is None:
        return None
    result = [names.indices[i] for i in _letters(found, found.output)]
    order = tuple([*batch, *result].index(i) for i in stored.indices)
    return Call(kernel, found.name, text, found.where, tuple(operands), tuple(i.set.extent for i in batch), order)


def _spoken(found: Row, runs: Mapping[str, Run], batch: tuple[Index, ...]) -> str | None:
    """The words of the call; None where it cannot be made of operands that runs share."""
    if not runs:
        return found.call
    along = {run.index for run in runs.values()}
    return found.shared if found.shared and runs.keys() == set(found.shares) and along == {*batch[-1:]} else None


def _letters(found: Row, key: str) -> list[Index]:
    """The row's own indices of one of its tensors, in the order of its slots."""
    made = next((e for e in found.equations if e.target == key), None)
    if made is not None:
        return list(made.indices)
    found_reads = (r for e in found.equations for r in reads(e.body) if r.tensor == key)
    return next([s.index for s in r.subs if isinstance(s, Position)] for r in found_reads)

