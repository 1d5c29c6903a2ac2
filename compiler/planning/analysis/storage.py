"""What a program stores: a buffer for each tensor, each part of a direct sum a tensor of
its own; the sizes and sets in use."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from einc.ir.draft import unused
from einc.ir.elements import EXACT, RANGED, REAL, WIDE, Element
from einc.ir.indices import Index, IndexSet
from einc.ir.narrow import NARROW
from einc.ir.plan import Append, AxisRef, Buffer, Concat, Kernel, Leaf, Lengths, Load
from einc.ir.programs import Equation, NormalProgram, Program, Slot, Tensor
from einc.ir.terms import Apply, Fold, Join, Position, Read, Term, reads, transform, walk
from einc.planning.analysis.prefix import running_sum
from einc.planning.analysis.ranges_of_sums import scaled_sums
from einc.syntax.printing.show import equation_text


def sizes_of(equation: Equation) -> set[str]:
    """The names of all sizes in an equation: in extents of its indices and folds, and in its terms."""
    out = {n for i in equation.indices for n in i.set.extent.sizes}
    for term in (equation.domain, equation.body, *equation.axes):
        for inner in walk(term):
            match inner:
                case Fold(_, bound):
                    out |= {n for b in bound for n in b.set.extent.sizes}
                case _ if hasattr(inner, "extent"):
                    out |= set(inner.extent.sizes)
    return out


def sets_of(program: Program) -> tuple[IndexSet, ...]:
    """The sets of the program, each with what it is split into."""
    found: dict[IndexSet, None] = {}
    for tensor in program.inputs():
        found.update(dict.fromkeys(s.set for s in tensor.slots))
    for equation in program.equations:
        found.update(dict.fromkeys(i.set for i in indices_of(equation)))
    for whole, parts in program.splits.items():
        if whole in found:
            found.update(dict.fromkeys(parts))
    return tuple(found)


def with_parts(program: NormalProgram) -> NormalProgram:
    """Each part of a direct sum is an equation of its own, which the result lays side by side."""
    tensors = dict(program.tensors)
    out: list[Equation] = []
    for equation in program.equations:
        body = equation.body
        if isinstance(body, Join):
            parts: list[tuple[Index, Term]] = []
            for n, (index, part) in enumerate(body.parts):
                if isinstance(part, Read) and tensors[part.tensor].role == "cache":
                    parts.append((index, part))
                    continue
                key = unused(f"{equation.target}_part{n + 1}", tensors)
                axes = tuple(Position(index) if a == Position(body.index) else a for a in equation.axes)
                slots = tuple(
                    Slot(index.set, s.level, index.name) if a == Position(body.index) else s
                    for a, s in zip(equation.axes, tensors[equation.target].slots, strict=True)
                )
                tensors[key] = Tensor(key, key, slots, "local", tensors[equation.target].element)
                out.append(Equation(key, axes, equation.domain, part))
                parts.append((index, Read(key, axes)))
            equation = Equation(equation.target, equation.axes, equation.domain, Join(body.index, tuple(parts)),
                                equation.source)
        out.append(equation)
    return program.but(equations=out, tensors=tensors)


def is_statistic(tensor: Tensor) -> bool:
    """Whether a tensor has one number for each row of the data, of which a pair of positions is none: kept in more
    digits than the data it takes next to no room."""
    classes = [s.set.cls for s in tensor.slots]
    return (not tensor.constant and not {*classes} & {"feature", "latent", "expert", "vocab"}
            and classes.count("time") < 2)


def kept_wide(program: Program, keys: Container[str]) -> Program:
    """The program with those of its results that have one number for each row kept in more digits than the data, those
    that are running sums, of which differences are taken, exact, and those that a scale may bring back into the range
    of the data in a type of more range."""
    sums, scaled = {e.target for e in program.equations if running_sum(e)}, scaled_sums(program)

    def element(tensor: Tensor) -> Element:
        if tensor.key not in keys:
            return tensor.element
        ranged = tensor.element == REAL and tensor.key in scaled
        return (EXACT if tensor.key in sums else WIDE if is_statistic(tensor) else RANGED if ranged else tensor.element)

    return replace(program, tensors={k: replace(t, element=element(t)) for k, t in program.tensors.items()})


def sums_few_bits(program: Program, equation: Equation) -> bool:
    """Whether an equation sums numbers of few bits or products of them, which are larger than what half types hold
    before a scale makes them small."""
    def few(key: str) -> bool:
        made = program.by_target.get(key)
        return program.tensors[key].element.narrow is not None or (
            made is not None and isinstance(made.body, Apply) and made.body.op in NARROW)

    body = equation.body
    found = [r.tensor for r in reads(body.body)] if isinstance(body, Fold) and body.op == "sum" else []
    return any(map(few, found))


def buffers_of(program: Program) -> dict[str, Buffer]:
    """A buffer for each tensor; values made of sizes alone are exact, what is one number for each row is wide, sums
    that a scale may bring back into the range of the data have more range, and what is read of numbers of few bits, and
    nothing more, are such numbers.
    """
    outputs = {key for _, key in program.outputs}
    found = {t.key: t.element for t in program.tensors.values() if t.role != "local"}
    counted, scaled = {t.key for t in program.tensors.values() if t.role in ("place", "derived")}, scaled_sums(program)
    for equation in program.equations:
        inner = {EXACT if r.tensor in counted else found[r.tensor] for r in reads(equation.body)}
        tensor = program.tensors[equation.target]
        found[equation.target] = tensor.element if equation.target in outputs else tensor.element.apart
        if not tensor.constant and equation.target not in outputs:
            exact = inner <= {EXACT} or running_sum(equation)
            source = found[equation.body.tensor] if isinstance(equation.body, Read) else None
            copied = source is not None and inner == {REAL}
            wide = tensor.element == WIDE or (is_statistic(tensor) and not copied) or sums_few_bits(program, equation)
            codes = source if source is not None and source.narrow is not None else None
            real = WIDE if wide else RANGED if tensor.element == RANGED or equation.target in scaled else REAL
            found[equation.target] = (EXACT if exact else codes or real).apart
    return {
        t.key: Buffer(
            t.key,
            tuple(s.name for s in t.slots),
            tuple(s.set for s in t.slots),
            found[t.key],
            "output" if t.key in outputs and t.role == "local" else t.role,
        )
        for t in program.tensors.values()
        if t.key in found
    }


def lengths_of(sets: Iterable[IndexSet], buffers: Mapping[str, Buffer]) -> tuple[Lengths, ...]:
    """What is known of the packed ones among the sets; of that, what is read and not given."""
    out, derived = [], {name for name, buffer in buffers.items() if buffer.role == "derived"}
    for over in sets:
        if (of := over.packed) is not None:
            names = (name if name in derived else "" for name in (of.request, of.offset, of.start))
            out.append(Lengths(of.lengths, of.requests.extent, over.extent, of.requests.start, *names))
    return tuple(out)


def indices_of(equation: Equation) -> list[Index]:
    """The indices of an equation, then those that a fold at its root binds."""
    out = list(equation.indices)
    if isinstance(equation.body, Fold):
        out += equation.body.bound
    return out


def without_copies(program: NormalProgram, steps: list[Leaf], buffers: Mapping[str, Buffer]) -> list[Leaf]:
    """A part of a direct sum that is a stored tensor as it stands is laid into the result from there."""
    parts = {p for s in steps if isinstance(s, Concat | Append) for p in s.reads}
    copied = {name: source for s in steps if isinstance(s, Kernel) for name, source in _copy(s, buffers)
              if name in parts}
    by = program.by_target

    def direct(step: Leaf) -> Leaf:
        if not isinstance(step, Concat | Append) or copied.keys().isdisjoint(step.reads):
            return step
        body = transform(by[step.out].body, lambda x: Read(copied.get(x.tensor, x.tensor), x.subs)
                         if isinstance(x, Read) else x)
        text = equation_text(program, replace(by[step.out], body=body))
        return replace(step, reads=tuple(copied.get(p, p) for p in step.reads), texts=(text,))

    return [direct(s) for s in steps if not (isinstance(s, Kernel) and s.name in copied)]


def _copy(kernel: Kernel, buffers: Mapping[str, Buffer]) -> list[tuple[str, str]]:
    """What a kernel that only copies makes, and of what."""
    if len(kernel.lets) != 1 or len(kernel.stores) != 1:
        return []
    op, (store,) = kernel.lets[0].op, kernel.stores
    straight = isinstance(op, Load) and op.subs == tuple(AxisRef(a) for axes in store.axes for a in axes)
    if (not straight or not isinstance(op, Load) or buffers[op.buffer].element != REAL
        or len(op.subs) != len(store.axes)):
        return []
    return [(store.buffer, op.buffer)]
