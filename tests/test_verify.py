"""The verifier of plans: every plan of the tests passes it as it is made; a plan with a fault in it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import pytest

import einc
from einc.driver import compiling
from einc.driver.checking import typed
from einc.driver.options import Options
from einc.errors.report import EincError
from einc.ir.plan import AxisRef, Call, Carry, Choose, Contract, Dot, Kernel, Load, Loop, Module, Step, Store
from einc.ir.verify import verify

S = TypeVar("S")

TEXTS = {
    "pass": "specs/sdpa.ein", "loop": "specs/decoder_lm.ein", "choice": "specs/gallery/mla_decode.ein",
    "groups": "specs/moe.ein",
    "chosen": "specs/gallery/top_keys.ein",
}


@cache
def plan(name: str, own: bool = True) -> Module:
    return compiling.plan(typed(TEXTS[name]), compiling.choices(Options(own=own)))


def first(module: Module, kind: type[S], where: Callable[[S], bool] = lambda step: True) -> S:
    return next(step for step in module.steps if isinstance(step, kind) and where(step))


def put(module: Module, old: Step, new: Step) -> Module:
    return replace(module, steps=tuple(new if step is old else step for step in module.steps))


def kernel(module: Module) -> Kernel:
    return first(module, Kernel, lambda step: step.stream is not None)


def reversed_steps(module: Module) -> Module:
    return replace(module, steps=module.steps[::-1])


def without_the_last(module: Module) -> Module:
    return replace(module, steps=module.steps[:-1])


def without_a_let(module: Module) -> Module:
    old = kernel(module)
    return put(module, old, replace(old, lets=old.lets[1:]))


def twice_the_same_let(module: Module) -> Module:
    old = kernel(module)
    return put(module, old, replace(old, lets=(*old.lets, old.lets[-1])))


def lets_in_another_order(module: Module) -> Module:
    old = kernel(module)
    return put(module, old, replace(old, lets=old.lets[::-1]))


def a_reference_of_a_reference(module: Module) -> Module:
    old = kernel(module)
    carried = [let for let in old.lets if let.carry is not None]
    relative = next(let for let in carried if let.carry and let.carry.reference)
    assert relative.carry is not None
    other = next(let for let in carried if let.carry and let.carry.reference is None)
    wrong = replace(other, carry=Carry("max", relative.name, False, False))
    return put(module, old, replace(old, lets=tuple(wrong if let is other else let for let in old.lets)))


def an_axis_that_is_none(module: Module) -> Module:
    old = kernel(module)
    lets = tuple(replace(let, axes=(*let.axes, "nowhere")) if n == 0 else let for n, let in enumerate(old.lets))
    return put(module, old, replace(old, lets=lets))


def a_sum_that_keeps_its_axis(module: Module) -> Module:
    old = kernel(module)
    dot = next(let for let in old.lets if isinstance(let.op, Dot) and let.op.over)
    assert isinstance(dot.op, Dot)
    wrong = replace(dot, op=replace(dot.op, over=()))
    return put(module, old, replace(old, lets=tuple(wrong if let is dot else let for let in old.lets)))


def a_store_of_nothing(module: Module) -> Module:
    old = kernel(module)
    return put(module, old,
               replace(old, stores=(*old.stores[:-1], Store(old.stores[-1].buffer, "nothing", old.stores[-1].axes))))


def a_load_of_too_few_slots(module: Module) -> Module:
    old = kernel(module)
    load = next(let for let in old.lets if isinstance(let.op, Load))
    wrong = replace(load, op=Load(load.op.buffer, (AxisRef(load.axes[0]),)))  # type: ignore[union-attr]
    return put(module, old, replace(old, lets=tuple(wrong if let is load else let for let in old.lets)))


def an_operand_without_letters(module: Module) -> Module:
    old = first(module, Contract)
    return put(module, old, replace(old, letters=old.letters[1:]))


def a_lost_buffer(module: Module) -> Module:
    return replace(module, buffers={k: b for k, b in module.buffers.items() if k != module.outputs[0][1]})


def a_choice_of_one(module: Module) -> Module:
    old = first(module, Choose)
    return put(module, old, replace(old, options=old.options[:1], bodies=old.bodies[:1]))


def a_way_that_makes_less(module: Module) -> Module:
    old = first(module, Choose)
    return put(module, old, replace(old, bodies=(old.bodies[0][:-1], *old.bodies[1:])))


def a_loop_with_a_lost_state(module: Module) -> Module:
    old = first(module, Loop)
    return put(module, old, replace(old, reads=old.reads[:-1]))


def a_loop_with_a_broken_body(module: Module) -> Module:
    old = first(module, Loop)
    return put(module, old, replace(old, body=without_the_last(old.body)))


def a_call_without_an_operand(module: Module) -> Module:
    old = first(module, Call)
    return put(module, old, replace(old, reads=old.reads[1:]))


FAULTS = [
    ("loop", reversed_steps), ("groups", reversed_steps), ("chosen", reversed_steps), ("pass", without_the_last),
    ("pass", without_a_let), ("pass", twice_the_same_let), ("pass", lets_in_another_order),
    ("pass", a_reference_of_a_reference),
    ("pass", an_axis_that_is_none), ("pass", a_sum_that_keeps_its_axis), ("pass", a_store_of_nothing),
    ("pass", a_load_of_too_few_slots), ("loop", an_operand_without_letters), ("groups", a_lost_buffer),
    ("choice", a_choice_of_one),
    ("choice", a_way_that_makes_less), ("loop", a_loop_with_a_lost_state), ("loop", a_loop_with_a_broken_body),
]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}-{fault.__name__}" for name, fault in FAULTS])
def test_a_fault_is_found(name: str, fault: Callable[[Module], Module]) -> None:
    verify(plan(name))
    broken = fault(plan(name))
    with pytest.raises(EincError):
        verify(broken)


def test_a_call_has_its_operands() -> None:
    module = plan("pass", own=False)
    verify(module)
    with pytest.raises(EincError, match="other places"):
        verify(a_call_without_an_operand(module))


@pytest.mark.parametrize(("spec", "options"), [
    ("llama_lm", {"grad": True}),  # two ways make a tensor of one name, one of them with an axis more
    ("gallery/gated", {"plan": "serve"}),  # a guard along an index that the value is summed over
])
def test_a_plan_that_was_wrong_once(spec: str, options: dict[str, Any]) -> None:
    assert einc.compile(spec, **options).plan
