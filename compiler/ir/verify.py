"""What has to hold of every plan, whatever it computes: a plan that breaks one of these rules is a fault of planning.

A back end may rely on all of them. `verify` raises `AssertionError` with the step and the rule; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from einc.ir.plan import (
    Along,
    Append,
    Before,
    BroadcastView,
    Buffer,
    Call,
    Chain,
    Choose,
    Computed,
    Concat,
    Contract,
    Dot,
    Gradient,
    GroupedMatmul,
    Kernel,
    Let,
    Load,
    Loop,
    Module,
    Operation,
    Packed,
    PerRequest,
    Place,
    Reduce,
    Scan,
    SegmentSum,
    Step,
    Subscript,
    Tally,
    TopK,
    Turns,
    Within,
    arguments,
    makes,
    takes,
)


def verify(plan: Module | Gradient | Chain) -> None:
    """Asserts the rules of this file for a plan and for every module in it."""
    match plan:
        case Module():
            _module(plan)
        case Gradient():
            verify(plan.forward)
            verify(plan.backward)
            if plan.plain is not None:
                verify(plan.plain)
        case Chain():
            for piece in plan.pieces:
                verify(piece.body if isinstance(piece, Turns) else piece)


def _module(module: Module) -> None:
    """Each step reads what is given or has been made; buffers are made once; every output is there in the end."""
    known = {t.key for t in module.inputs} | {b.name for b in module.buffers.values() if b.role in ("place", "derived", "cache")}
    known |= {name for one in module.lengths for name in (one.piece, one.offset, one.start)}
    for name, buffer in module.buffers.items():
        assert name == buffer.name, f"the buffer `{buffer.name}` stands under the name `{name}`"
        assert len(buffer.axes) == len(buffer.sets), f"`{name}` has {len(buffer.axes)} axes and {len(buffer.sets)} sets"
    for step in module.steps:
        known |= _step(step, module, frozenset(known))
    for _, key in module.outputs:
        assert key in known, f"nothing makes the output `{key}`"


def _step(step: Step, module: Module, known: frozenset[str]) -> frozenset[str]:
    """Asserts the rules for one step; returns the buffers that it makes."""
    name = step.name if isinstance(step, Kernel) else ", ".join(step.writes)
    missing = _needed(step) - known
    assert not missing, f"the step that makes `{name}` reads {_listed(missing)}, which no step before it makes"
    made = makes(step)
    unknown = (made | _needed(step)) - module.buffers.keys()
    assert not unknown, f"the step that makes `{name}` speaks of {_listed(unknown)}, which the module has no buffers for"
    assert made, "a step makes nothing"
    for body in step.bodies:
        inner = known
        for one in body:
            inner |= _step(one, module, inner)
        lost = set(step.writes) - inner
        assert not lost, f"a body of the step that makes `{name}` leaves out {_listed(lost)}"
    if isinstance(step, Kernel):
        _kernel(step, module.buffers)
    else:
        _operation(step, module)
    return made


def _needed(step: Step) -> frozenset[str]:
    """The buffers that have to be made before a step, those that bounds of tiles search too; a loop begins its own states."""
    match step:
        case Kernel():
            return takes(step) | step.searched
        case Loop():
            return (takes(step) - {*step.writes}) | {*step.reads[len(step.given):]}
    return takes(step)


def _operation(step: Operation, module: Module) -> None:
    """Places in the fields of an operation are places of its operands and results; axes have a slot each."""
    buffers = module.buffers
    match step:
        case Contract():
            assert len(step.letters) == len(step.views) == len(step.reads), "an operand without letters or views"
            for buffer, view in zip(step.reads, step.views, strict=True):
                assert len(view) == len(buffers[buffer].sets), f"`{buffer}` is viewed with {len(view)} slots"
            assert set(step.axes) <= {a for letters in step.letters for a in letters}, "an axis that no operand has"
            assert len(step.axes) == len(buffers[step.out].sets), f"`{step.out}` has other axes than its buffer"
        case Concat() | Append():
            assert 0 <= step.axis < len(buffers[step.out].sets), "parts side by side along an axis that is none"
            assert len(step.reads) > 1 or isinstance(step, Concat), "nothing is appended"
            assert isinstance(step, Concat) or buffers[step.reads[0]].role == "cache", "what is appended to is no cache"
        case BroadcastView():
            assert sorted(step.order) == list(range(len(buffers[step.operand].sets))), "an order that is no permutation"
        case Call():
            assert len(step.operands) == len(step.reads) and len(step.results) == len(step.writes), "a call with other places"
            assert all(0 <= place < len(step.writes) for place, _ in step.scales), "a number for a result that is none"
        case TopK():
            assert 0 <= step.at < len(buffers[step.out].sets), "ranks along an axis that is none"
        case GroupedMatmul():
            assert len(step.letters) == len(step.reads) - 1, "an operand without letters"
        case SegmentSum():
            assert len(step.named) + len(step.letters) == len(step.reads), "an operand without letters"
        case Choose():
            assert len(step.options) == len(step.bodies) > 1, "a choice without alternatives"
        case Loop():
            keys = {t.key for t in step.body.inputs}
            assert {key for key, _ in step.given} | {step.counter} - {""} == keys, "an input of the body that is not given"
            assert len(step.reads) == len(step.given) + len(step.writes) == len(step.given) + len(step.following), "lost states"
            _module(step.body)
        case PerRequest():
            assert {key for key, _ in step.given} == {t.key for t in step.body.inputs}, "an input of the body that is not given"
            assert {key for key, _ in step.made} <= {key for _, key in step.body.outputs}, "an output that the body lacks"
            _module(step.body)


def _kernel(kernel: Kernel, buffers: Mapping[str, Buffer]) -> None:
    """Lets are in order and keep to the kernel's axes; each carry has one reference; each slot of a store has its axes."""
    axes = {a.name: a for a in kernel.axes}
    assert len(axes) == len(kernel.axes), f"`{kernel.name}` has an axis twice"
    assert len([a for a in kernel.axes if a.role == "stream"]) < 2, f"`{kernel.name}` passes over two axes"
    assert len([a for a in kernel.axes if a.role == "grid"]) < 2, f"`{kernel.name}` has two axes of tiles"
    lets: dict[str, Let] = {}
    for let in kernel.lets:
        _let(let, kernel, axes.keys(), lets, buffers)
        assert let.name not in lets, f"`{let.name}` is assigned twice in `{kernel.name}`"
        lets[let.name] = let
    later = {let.op.of for let in kernel.lets if isinstance(let.op, Before)}
    assert all(n in lets and lets[n].carry is not None for n in later), f"`{kernel.name}` asks for what nothing carries"
    for store in kernel.stores:
        assert store.value in lets, f"`{kernel.name}` stores `{store.value}`, which it does not make"
        assert len(store.axes) == len(buffers[store.buffer].sets), f"`{store.buffer}` is stored with {len(store.axes)} slots"
        stored = {a for slot in store.axes for a in slot}
        assert stored >= set(lets[store.value].axes), f"`{store.buffer}` is stored without an axis of its value"


def _let(let: Let, kernel: Kernel, axes: Iterable[str], before: Mapping[str, Let], buffers: Mapping[str, Buffer]) -> None:
    """One value of a kernel."""
    where = f"`{let.name}` in `{kernel.name}`"
    assert set(let.axes) <= {*axes}, f"{where} has an axis that the kernel has not"
    assert all(a in before for a in arguments(let.op)), f"{where} is made of what is not made yet"
    lost = {a for n in arguments(let.op) for a in before[n].axes} - {*let.axes} - _gone(let)
    assert not lost, f"{where} loses the axes {_listed(lost)} without a fold"
    if isinstance(let.op, Load):
        assert len(let.op.subs) == len(buffers[let.op.buffer].sets), f"{where} has {len(let.op.subs)} subscripts"
        assert set(_axes_of(let.op.subs)) <= {*let.axes}, f"{where} loads along an axis that it has not"
    if isinstance(let.op, Dot) and let.kind == "real":
        assert not set(let.op.over) & set(let.axes), f"{where} keeps an axis that it sums over"
    if let.carry is not None:
        stream = kernel.stream or kernel.resumed
        assert stream is not None, f"{where} is carried, and nothing is passed over"
        if let.carry.reference is not None:
            found = before.get(let.carry.reference)
            assert found is not None and found.carry is not None, f"{where} is relative to what nothing carries"
            assert found.carry.reference is None, f"{where} has a reference that has one itself"
            assert set(found.axes) <= set(let.axes), f"{where} has a reference with an axis of its own"


def _gone(let: Let) -> set[str]:
    """The axes that an operation takes away."""
    match let.op:
        case Dot(_, over) | Reduce(_, _, over) | Tally(_, _, _, over):
            return {*over}
        case Scan(_, _, over):
            return {over}
        case Load() | Place():
            return set()
    return set()


def _axes_of(subs: Iterable[Subscript]) -> Iterator[str]:
    """The axes along which a load goes."""
    for sub in subs:
        match sub:
            case Along(axis):
                yield axis
            case Packed(parts):
                yield from _axes_of(parts)
            case Within(item):
                yield from _axes_of((item,))
            case Computed():
                pass


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
