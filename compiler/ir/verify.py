"""What has to hold of every plan, whatever it computes: a plan that breaks one of these rules is a fault of planning.

A back end may rely on all of them. `verify` raises a `FaultError` that names the step and the rule,
under `python -O` too; it changes nothing. So does `existing`, of programs: the tests ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import mul

from einc.errors.report import FaultError, Help, Problem, listed
from einc.ir.elements import WIDE
from einc.ir.existence import existence
from einc.ir.indices import number
from einc.ir.plan import (
    Append,
    BroadcastView,
    Buffer,
    Call,
    Choose,
    Concat,
    Contract,
    Dot,
    Gradient,
    GradientLoop,
    GroupedMatmul,
    InSlices,
    Kernel,
    Let,
    Load,
    Loop,
    Module,
    Move,
    Operation,
    PerRank,
    PerRequest,
    PreviousCarry,
    Recurrence,
    Reduce,
    Repack,
    RowBlocks,
    Scan,
    ScatterAdd,
    SegmentedModule,
    SegmentSum,
    StateScan,
    Step,
    TopK,
    axes_of,
    makes,
    takes,
)
from einc.ir.programs import NormalProgram

# What sums or folds: what it makes keeps all bits of the data.
_SUMS = (Contract, InSlices, GroupedMatmul, SegmentSum, Recurrence, StateScan)
_FOLDS = (Dot, Reduce, Scan, ScatterAdd, PreviousCarry)


def _require(holds: bool, rule: str) -> None:
    """Raises EincError with the rule that is broken, unless it holds."""
    if not holds:
        helps = (Help("this is a fault of einc, not of the text: please report it with the text"),)
        raise FaultError([Problem(f"the plan breaks a rule that back ends rely on: {rule}", helps=helps)])


def existing(program: NormalProgram) -> NormalProgram:
    """The program. EincError where one of its equations surely reads a value outside of the domain of its equation; of
    a read that nothing decides, nothing is said.
    """
    outside = existence(program).outside
    _require(not outside, str(outside[0]) if outside else "")
    return program


def verify(plan: Module | Gradient | SegmentedModule | PerRank) -> None:
    """Checks the rules of this file for a plan and for every module in it. EincError where one is broken."""
    match plan:
        case Module():
            _module(plan)
        case Gradient():
            verify(plan.forward)
            verify(plan.backward)
            if plan.plain is not None:
                verify(plan.plain)
        case PerRank():
            verify(plan.body)
            known = {t.key for t in plan.forward.inputs} | {key for _, key in plan.forward.outputs}
            _require(known >= {key for key, _ in plan.cuts}, "what is no input and no output lies on the ranks")
            _require(all(len(cuts) == len(plan.axes) for _, cuts in plan.cuts), "a tensor with other axes of the mesh")
        case SegmentedModule():
            for piece in plan.pieces:
                if not isinstance(piece, Recurrence | StateScan):
                    verify(piece.body if isinstance(piece, GradientLoop) else piece)


def _module(module: Module) -> None:
    """Checks that each step reads what is given or has been made; buffers are made once; every output is there in the
    end.
    """
    known = {t.key for t in module.inputs} | {b.name for b in module.buffers.values()
                                              if b.role in ("place", "derived", "cache")}
    known |= {name for one in module.lengths for name in (one.piece, one.offset, one.start)}
    for name, buffer in module.buffers.items():
        _require(name == buffer.name, f"the buffer `{buffer.name}` stands under the name `{name}`")
        _require(len(buffer.axes) == len(buffer.sets),
                 f"`{name}` has {len(buffer.axes)} axes and {len(buffer.sets)} sets")
    for step in module.steps:
        known |= _step(step, module, frozenset(known))
    for _, key in module.outputs:
        _require(key in known, f"nothing makes the output `{key}`")


def _step(step: Step, module: Module, known: frozenset[str]) -> frozenset[str]:
    """Checks the rules for one step; returns the buffers that it makes."""
    name = step.name if isinstance(step, Kernel) else ", ".join(step.writes)
    missing = _needed(step) - known
    _require(not missing,
             f"the step that makes `{name}` reads {listed(sorted(missing))}, which no step before it makes")
    made = makes(step)
    unknown = (made | _needed(step)) - module.buffers.keys()
    _require(not unknown,
             f"the step that makes `{name}` speaks of {listed(sorted(unknown))}, which the module has no buffers for")
    _require(bool(made), "a step makes nothing")
    for body in step.bodies:
        inner = known
        for one in body:
            inner |= _step(one, module, inner)
        lost = set(step.writes) - inner
        _require(not lost, f"a body of the step that makes `{name}` leaves out {listed(sorted(lost))}")
    if isinstance(step, Kernel):
        _kernel(step, module.buffers)
    else:
        _operation(step, module)
    _require(not isinstance(step, _SUMS) or all(module.buffers[x].element.narrow is None for x in made),
             f"the step that makes `{name}` sums, and what it makes is stored in few bits")
    return made


def _needed(step: Step) -> frozenset[str]:
    """The buffers that have to be made before a step, those that bounds of tiles search
    too; a loop begins its own states."""
    match step:
        case Kernel():
            return takes(step) | step.searched
        case Loop():
            return (takes(step) - {*step.writes}) | {*step.reads[len(step.given):]}
    return takes(step)


def _bytes_and_slices(step: Repack | InSlices, buffers: Mapping[str, Buffer]) -> None:
    """Checks that the same numbers lie in bytes in two ways; that contractions, and nothing else, are done for slices
    of an axis that each of them has."""
    if isinstance(step, Repack):
        before, after = (buffers[name] for name in (*step.reads, *step.writes))
        _require(before.element.shared != after.element.shared and before.sets == after.sets,
                 f"`{step.out}` does not hold what `{before.name}` holds in another way")
        return
    inner = step.contractions
    _require(len(inner) == len(step.bodies[0]) == len(step.along), "slices of what is no contraction")
    _require(all(any(axis in letters for letters in one.letters)
                 for one, axis in zip(inner, step.along, strict=True)), "a slice of an axis that is none")
    _require(all(axis in one.axes for one, axis in zip(inner[:-1], step.along, strict=False)),
             "a slice of what is made on the way lacks the axis")


def _operation(step: Operation, module: Module) -> None:
    """Checks that places in the fields of an operation are places of its operands and results; axes have a slot each.
    """
    buffers = module.buffers
    match step:
        case Contract():
            _require(len(step.letters) == len(step.views) == len(step.reads), "an operand without letters or views")
            for buffer, view in zip(step.reads, step.views, strict=True):
                _require(len(view) == len(buffers[buffer].sets), f"`{buffer}` is viewed with {len(view)} slots")
            _require(set(step.axes) <= {a for letters in step.letters for a in letters}, "an axis that no operand has")
            _require(len(step.axes) == sum(step.slots) and len(step.slots) == len(buffers[step.out].sets),
                     f"`{step.out}` has other axes than its buffer")
        case Repack() | InSlices():
            _bytes_and_slices(step, buffers)
        case Concat() | Append():
            _require(0 <= step.axis < len(buffers[step.out].sets), "parts side by side along an axis that is none")
            _require(len(step.reads) > 1 or isinstance(step, Concat), "nothing is appended")
            _require(isinstance(step, Concat) or buffers[step.reads[0]].role == "cache",
                     "what is appended to is no cache")
        case BroadcastView():
            _require(sorted(step.order) == list(range(len(buffers[step.operand].sets))),
                     "an order that is no permutation")
        case Call():
            _require(len(step.operands) == len(step.reads) and len(step.results) == len(step.writes),
                     "a call with other places")
            _require(all(0 <= place < len(step.writes) for place, _ in step.scales),
                     "a number for a result that is none")
        case TopK():
            _require(0 <= step.at < len(buffers[step.out].sets), "ranks along an axis that is none")
        case GroupedMatmul():
            _require(len(step.letters) == len(step.reads) - 1, "an operand without letters")
        case SegmentSum():
            _require(len(step.named) + len(step.letters) == len(step.reads), "an operand without letters")
        case Recurrence():
            count = 2 + step.vectors.operands
            _require(len(step.reads) - step.ragged == len(step.letters) == count, "an operand without letters")
            _require(len(step.writes) == len(step.made) == len(step.vectors.after) + 1, "a result without letters")
            for buffer, axes in zip((*step.reads[:count], *step.writes), (*step.letters, *step.made), strict=True):
                _require(len(axes) == len(buffers[buffer].sets), f"`{buffer}` has other axes than its buffer")
        case Move():
            _move(step, buffers)
        case StateScan():
            _require(len(step.reads) - step.ragged == len(step.letters) == 3, "an operand without letters")
            _require(len(step.axes) == len(buffers[step.out].sets), f"`{step.out}` has other axes than its buffer")
        case Choose():
            _require(len(step.options) == len(step.bodies) > 1, "a choice without alternatives")
        case Loop():
            keys = {t.key for t in step.body.inputs}
            _require({key for key, _ in step.given} | {step.counter} - {""} == keys,
                     "an input of the body that is not given")
            _require(len(step.reads) == len(step.given) + len(step.following), "lost states")
            _require(len(step.writes) == len(step.following) + len(step.parts), "lost parts of rounds")
            _module(step.body)
        case PerRequest() | RowBlocks():
            _require({key for key, _ in step.given} == {t.key for t in step.body.inputs},
                     "an input of the body that is not given")
            _require({key for key, _ in step.made} <= {key for _, key in step.body.outputs},
                     "an output that the body lacks")
            _module(step.body)


def _move(step: Move, buffers: Mapping[str, Buffer]) -> None:
    """A move has a group with ranks, as many tensors after it as before, and of each the axes that its kind of
    collective joins and parts. All are relaid or none is; those that are folded are of one type."""
    _require(len(step.writes) == len(step.moved) > 0 and step.group.ranks > 1 and (
        len(step.beside) == (2 if step.kind.endswith("rows") else 0)),
             "a move of other tensors before than after, or of one rank")
    _require((step.routes is not None) == (step.kind in ("counts", "to_rows", "from_rows")) and (
        step.routes is None or len(step.routes.at) == len(step.moved)), "rows that go nowhere")
    sent = {WIDE if one.wide else buffers[key].element for key, one in zip(step.reads, step.moved, strict=False)}
    _require(len(sent) == 1 or "reduce" not in step.kind, "tensors of different types that are folded as one")
    _require(len({(one.joined, one.parted) if one.relaid else () for one in step.moved}) == 1,
             "tensors in one message of which blocks come into different orders")
    joins, parts = step.kind in ("all_gather", "all_to_all"), step.kind in ("slice", "all_to_all", "reduce_scatter")
    for key, one in zip(step.reads, step.moved, strict=False):
        _require((one.joined is not None) == joins and (one.parted is not None) == parts,
                 f"a move by {step.kind} joins or parts another axis")
        _require(all(x is None or 0 <= x.axis < len(one.shape) for x in (one.joined, one.parted)),
                 "a move along an axis that is none")
        held = {reduce(mul, (s.extent for s in buffers[key].sets), number(1)), reduce(mul, one.shape, number(1))}
        _require(len(held) == 1, f"`{key}` is moved with another number of elements")


def _kernel(kernel: Kernel, buffers: Mapping[str, Buffer]) -> None:
    """Lets are in order and keep to the kernel's axes; each carry has one reference; each
    slot of a store has its axes."""
    axes = {a.name: a for a in kernel.axes}
    _require(len(axes) == len(kernel.axes), f"`{kernel.name}` has an axis twice")
    _require(len([a for a in kernel.axes if a.role == "stream"]) < 2, f"`{kernel.name}` passes over two axes")
    _require(len([a for a in kernel.axes if a.role == "grid"]) < 2, f"`{kernel.name}` has two axes of tiles")
    lets: dict[str, Let] = {}
    for let in kernel.lets:
        _let(let, kernel, axes.keys(), lets, buffers)
        _require(let.name not in lets, f"`{let.name}` is assigned twice in `{kernel.name}`")
        lets[let.name] = let
    later = {name for let in kernel.lets if isinstance(let.op, PreviousCarry) for name in let.args}
    _require(all(n in lets and lets[n].carry is not None for n in later),
             f"`{kernel.name}` asks for what nothing carries")
    for store in kernel.stores:
        _require(store.value in lets, f"`{kernel.name}` stores `{store.value}`, which it does not make")
        _require(not buffers[store.buffer].element.shared, f"`{store.buffer}` is stored with several numbers in a byte")
        _require(len(store.axes) == len(buffers[store.buffer].sets),
                 f"`{store.buffer}` is stored with {len(store.axes)} slots")
        stored = {a for slot in store.axes for a in slot}
        let, few = lets[store.value], buffers[store.buffer].element.narrow is not None
        _require(not few or not (store.merge or let.carry or isinstance(let.op, _FOLDS)),
                 f"`{store.buffer}` is a fold or is carried, and it is stored in few bits")
        _require(stored >= set(lets[store.value].axes), f"`{store.buffer}` is stored without an axis of its value")


def _let(let: Let, kernel: Kernel, axes: Iterable[str], before: Mapping[str, Let],
         buffers: Mapping[str, Buffer]) -> None:
    """Checks one value of a kernel against those before it: its axes, what it reads, the subscripts of a load, and what
    it carries. Raises EincError with the rule that is broken."""
    where = f"`{let.name}` in `{kernel.name}`"
    _require(set(let.axes) <= {*axes}, f"{where} has an axis that the kernel has not")
    _require(all(a in before for a in let.reads), f"{where} is made of what is not made yet")
    lost = {a for n in let.reads for a in before[n].axes} - {*let.axes} - {*let.over}
    _require(not lost, f"{where} loses the axes {listed(sorted(lost))} without a fold")
    if isinstance(let.op, Load):
        _require(len(let.op.subs) == len(buffers[let.op.buffer].sets), f"{where} has {len(let.op.subs)} subscripts")
        _require({a for sub in let.op.subs for a in axes_of(sub)} <= {*let.axes},
                 f"{where} loads along an axis that it has not")
    if isinstance(let.op, Dot) and let.kind == "real":
        _require(not set(let.op.over) & set(let.axes), f"{where} keeps an axis that it sums over")
    if let.carry is not None:
        stream = kernel.stream or kernel.resumed
        _require(stream is not None, f"{where} is carried, and nothing is passed over")
        if let.carry.reference is not None:
            _reference(let, before.get(let.carry.reference), where)


def _reference(let: Let, found: Let | None, where: str) -> None:
    """Checks that the value that a carry is relative to is carried itself, by no reference, and has no axis of its own.
    """
    carry = None if found is None else found.carry
    _require(carry is not None, f"{where} is relative to what nothing carries")
    _require(carry is None or carry.reference is None, f"{where} has a reference that has one itself")
    _require(found is None or set(found.axes) <= set(let.axes), f"{where} has a reference with an axis of its own")


