"""Layers one after the other with rounds over positions in each: texts that say so in all ways, drawn ones and a
language model, against plain loops, in the interpreter, in emitted modules with their gradients, and served."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER
from helpers import called, distance, meaning, typed, typed_of
from programs import FILES, Case
from random_recurrences import Drawn, Tensors
from random_stacks import stack
from recurrent import LAYERS, language_model, stack_inputs
from test_oracles import doubled
from test_recurrent import wanted as others
from test_recurrent_serving import DRAWN, REFUSED, UNSERVED, at, cut
from test_sequences import (
    BOUND,
    DRAW,
    SIZES,
    Sizes,
    has_its_gradient,
    is_its_loop,
    is_its_loop_in_cpp,
    is_its_loop_in_triton,
    read,
    slopes,
    texts,
    worst,
)
from test_serving import stepwise

import einc
from einc.driver import front
from einc.errors.report import EincError, render
from einc.ir.plan import GradientLoop, Loop, Module, Recurrence, SegmentedModule, StateScan, Step
from einc.ir.programs import TypedProgram
from einc.planning.recurrences.unrolled import unrolled
from einc.syntax.printing.scripts import scripts
from einc.syntax.printing.show import show

pytestmark = pytest.mark.usefixtures("doubles")
RECURRENT = [case for case in FILES if case.name in LAYERS]
CASE = next(case for case in FILES if case.name == "gated_deltanet_lm")


# texts

HEAD = "index t, s : time(T)\nindex d, k : feature(D)\ninput V_t^d\nH_t^d = V_t^d\nfor ℓ in 1..N:\n"
TEXTS = {
    "a circle": """
    weight α^d
    y_0^d = 0
    y_t^d = α^d H_t^d + (1 - α^d) y_{t-1}^d
    H_t^d ← H_t^d + y_t^d
""",
    "a called spec": """
    H_t^d ← H_t^d + "recurrent/ema"(x = H_t^d)
""",
    "rounds in rounds": """
    weight α^d
    S^d = 0
    for t in 1..T:
        N^d = α^d H_t^d + (1 - α^d) S^d
        y_t^d = N^d
        S^d ← N^d
    H_t^d ← H_t^d + y_t^d
""",
    "a state that starts with a weight, read before its update": """
    weight α^d, S_1^d
    S^d = α^d + S_1^d - S_1^d
    for t in 1..T:
        y_t^d = tanh(S^d + H_t^d)
        S^d ← tanh(α^d S^d) + H_t^d
    H_t^d ← y_t^d
""",
    "two loops in a layer, one of them down": """
    weight α^d
    y_0^d = 0
    y_t^d = α^d H_t^d + (1 - α^d) y_{t-1}^d
    S^d = 0
    for t in T..1:
        z_t^d = S^d
        S^d ← α^d S^d + y_t^d
    H_t^d ← tanh(H_t^d + z_t^d)
""",
    "what is left after the last position": """
    weight α^d
    S^d = 0
    for t in 1..T:
        S^d ← (1 - α^d) S^d + α^d H_t^d
    H_t^d ← H_t^d + tanh(S^d)
""",
    "an attention beside": """
    weight α^d
    y_0^d = 0
    y_t^d = α^d H_t^d + (1 - α^d) y_{t-1}^d
    L_{t s} = H_t^d y_{s d}, s ≤ t
    H_t^d ← H_t^d + Σ_s softmax_s(L_{t s}) y_s^d
""",
}


def ema(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    state, out = torch.zeros_like(alpha), []
    for row in x:
        state = alpha * row + (1 - alpha) * state
        out.append(state)
    return torch.stack(out) if out else x


def before(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    state, out = alpha, []
    for row in x:
        out.append(torch.tanh(state + row))
        state = torch.tanh(alpha * state) + row
    return torch.stack(out) if out else x


def down(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    state, out = torch.zeros_like(alpha), []
    for row in ema(x, alpha).flip(0):
        out.append(state)
        state = alpha * state + row
    return torch.tanh(x + torch.stack(out).flip(0)) if out else x


def attended(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    y = ema(x, alpha)
    logits = (x @ y.T).masked_fill(torch.ones(len(x), len(x)).triu(1) > 0, -torch.inf)
    return x + torch.softmax(logits, 1) @ y


MEANS = {
    "a circle": lambda x, a: x + ema(x, a), "a called spec": lambda x, a: x + ema(x, a),
    "rounds in rounds": lambda x, a: x + ema(x, a),
    "a state that starts with a weight, read before its update": before,
    "two loops in a layer, one of them down": down,
    "what is left after the last position": lambda x, a: x + torch.tanh(ema(x, a)[-1:]) if len(x) else x,
    "an attention beside": attended,
}
TRIED = [{"T": 6, "D": 3, "N": 4}, {"T": 0, "D": 3, "N": 2}, {"T": 1, "D": 2, "N": 1}, {"T": 5, "D": 2, "N": 0},
         {"T": 70, "D": 3, "N": 2}]


def text(name: str) -> str:
    said = ": all" if any(x in name for x in ("down", "left")) else ""
    return f"{HEAD}{TEXTS[name][1:]}output Y_t^d = H_t^d {said}\n"


def given(name: str, sizes: Sizes) -> Tensors:
    random = torch.Generator().manual_seed(len(name))
    drawn = {"V": torch.randn(sizes["T"], sizes["D"], generator=random),
             "alpha": torch.rand(sizes["N"], sizes["D"], generator=random),
             "S_1": torch.rand(sizes["N"], sizes["D"], generator=random)}
    keys = {t.key for t in typed(text(name)).inputs()}
    return {key: x for key, x in drawn.items() if key in keys}


def wanted(name: str, inputs: Tensors) -> torch.Tensor:
    out = inputs["V"]
    for alpha in inputs["alpha"]:
        out = MEANS[name](out, alpha)
    return out


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_its_layers(name: str) -> None:
    program, function = typed(text(name)), einc.compile(text(name), backend="torch")
    for sizes in TRIED:
        inputs = given(name, sizes)
        want = {"Y": wanted(name, inputs)}
        assert worst(called(function, program, inputs, sizes), want) <= BOUND, f"module at {sizes}"
        if sizes["T"] < 10:
            arrays = {key: x.numpy() for key, x in inputs.items()}
            for one in (program, typed(show(program))):
                assert worst(meaning(one, arrays, sizes), want) <= BOUND, f"interpreter at {sizes}"


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_go_through_both_loops(name: str) -> None:
    program, function = typed(text(name)), einc.compile(text(name), grad=True)
    for sizes in (TRIED[0], TRIED[2], TRIED[4]):
        inputs = {key: x.requires_grad_() for key, x in given(name, sizes).items()}
        want = slopes({"Y": wanted(name, inputs)}, inputs)
        assert worst(slopes(called(function, program, inputs, sizes), inputs), want) <= 10 * BOUND, f"at {sizes}"


# how they are planned


def kinds(steps: tuple[Step, ...]) -> list[type]:
    return [type(x) for x in steps if isinstance(x, Recurrence | StateScan | Loop)]


@pytest.mark.parametrize(("name", "expected"), [("a called spec", [StateScan]), ("rounds in rounds", [StateScan]), (
    "a state that starts with a weight, read before its update", [Loop])])
def test_a_round_has_the_way_that_it_has_alone(name: str, expected: list[type]) -> None:
    plan = einc.compile(text(name)).plan
    assert isinstance(plan, Module)
    (loop,) = [step for step in plan.steps if isinstance(step, Loop)]
    assert kinds(loop.body.steps) == expected


def test_the_layers_of_a_model_go_in_tiles() -> None:
    plan, pair = einc.compile("gated_deltanet_lm").plan, einc.compile("gated_deltanet_lm", grad=True).plan
    assert isinstance(plan, Module) and isinstance(pair, SegmentedModule)
    (loop,) = [step for step in plan.steps if isinstance(step, Loop)]
    (turns,) = [piece for piece in pair.pieces if isinstance(piece, GradientLoop)]
    assert kinds(loop.body.steps) == [Recurrence] and isinstance(turns.body, SegmentedModule)
    assert [type(x) for x in turns.body.pieces if isinstance(x, Recurrence | StateScan | GradientLoop)] == [Recurrence]


# drawn texts


@cache
def made(kind: str, seed: int, smooth: bool = False) -> tuple[Drawn, TypedProgram]:
    """The first text of a seed, or of those after it, that can be a layer."""
    found = next(x for n in range(seed, seed + 1000, 100) if (x := stack(DRAW[kind](n, smooth))) is not None)
    return found, typed(found.text)


@pytest.mark.drawn(3)
@texts(6, 60)
def test_a_drawn_layer_is_its_loops(kind: str, seed: int) -> None:
    is_its_loop(*made(kind, seed), seed)


@pytest.mark.drawn(2)
@texts(3, 40)
def test_a_gradient_is_that_of_the_loops(kind: str, seed: int) -> None:
    has_its_gradient(*made(kind, seed, True), seed)


@pytest.mark.drawn(2)
@texts(4, 40)
def test_what_is_printed_means_the_same(kind: str, seed: int) -> None:
    """The program, and the same without states that are affine."""
    found, program = made(kind, seed)
    inputs, apart = found.inputs(SIZES, seed), unrolled(program)
    want = found.means(inputs, SIZES)
    for shown in (show(program), *([] if apart is None else [show(apart)])):
        again = typed(shown)
        arrays = {key: x.numpy() for key, x in read(again, inputs).items()}
        assert worst(meaning(again, arrays, SIZES), want) <= BOUND, shown


@pytest.mark.drawn(2)
@texts(4, 40)
def test_a_drawn_layer_goes_on(kind: str, seed: int) -> None:
    """Step by step, or it is refused in one statement, as it is where a round reads many earlier ones."""
    found, program = made(kind, seed)
    try:
        run = front.built(program, plan="serve")
    except EincError as refused:
        assert any(word in str(refused) for word in REFUSED.split("|"))
        return
    sizes = {**DRAWN, "T": 11}
    inputs = found.inputs(sizes, seed)
    want = {key: x.detach().numpy() for key, x in found.means(inputs, sizes).items()}
    some = {key: x.numpy() for key, x in read(program, inputs).items()}
    for name, x in stepwise(run, some, sizes, cut(11, seed)).items():
        assert distance(x, want[name], 1.0) <= 1e-9, name


@pytest.mark.drawn(2)
@texts(1, 20)
def test_triton_in_its_interpreter(kind: str, seed: int) -> None:
    is_its_loop_in_triton(*made(kind, seed), seed, [SIZES])


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler is found")
@texts(1, 20)
def test_compiled_kernels(kind: str, seed: int) -> None:
    is_its_loop_in_cpp(*made(kind, seed), seed)


# a language model


def logits(inputs: Tensors) -> torch.Tensor:
    with doubled():
        return language_model(**inputs)


@pytest.mark.parametrize("steps", [0, 1, 33, pytest.param(333, marks=pytest.mark.whole)])
def test_the_gradient_of_a_language_model(steps: int) -> None:
    inputs = {key: x.requires_grad_(x.is_floating_point()) for key, x in stack_inputs(steps).items()}
    found = called(einc.compile("gated_deltanet_lm", grad=True), typed_of(CASE), inputs, {})
    want = {"O": logits(inputs)}
    assert worst(found, want) <= 1e-10
    assert worst(slopes(found, inputs), slopes(want, inputs)) <= 1e-9


@cache
def serving() -> front.Compiled:
    return front.built(typed_of(CASE), plan="serve")


@pytest.mark.parametrize("prefill", [1, pytest.param(37, marks=pytest.mark.whole)])
def test_a_language_model_goes_on(prefill: int) -> None:
    """A hundred steps of one word each, behind a prefill."""
    steps, run = prefill + 100, serving()
    inputs = stack_inputs(steps, batch=1)
    assert run.prefill is not None
    found, kept = run.prefill(**at(run, inputs, 0, prefill))
    parts = [found, *(run(kept, **at(run, inputs, n, 1)) for n in range(prefill, steps))]
    assert [tuple(x.shape) for x in kept.states.values()] == [(3, 1, 2, 3, 3)]
    assert distance(torch.cat(parts, 1).numpy(), logits(inputs).numpy()) <= 1e-10


def test_forks_and_requests_of_unequal_pasts() -> None:
    run, weights = serving(), stack_inputs(0)
    texts = [stack_inputs(n)["w"] for n in (11, 5, 9)]
    assert run.prefill is not None
    caches = [run.prefill(**{**weights, "w": x[:, :n]})[1] for x, n in zip(texts, (3, 4, 1), strict=True)]
    other = caches[0].fork()
    parts = [x[:, n:m] for x, n, m in zip(texts, (3, 4, 1), (8, 5, 9), strict=True)]
    got = run(caches, **{**weights, "w": torch.cat(parts, 1)}, lengths=[5, 1, 8])
    want = [logits({**weights, "w": x})[:, n:m] for x, n, m in zip(texts, (3, 4, 1), (8, 5, 9), strict=True)]
    assert distance(got.numpy(), torch.cat(want, 1).numpy()) <= 1e-10
    again = torch.cat([texts[0][:, :3], texts[1]], 1)
    got = run(other, **{**weights, "w": texts[1]})
    assert distance(got.numpy(), logits({**weights, "w": again})[:, 3:].numpy()) <= 1e-10


def test_states_of_layers_stand_beside_rows_in_pages() -> None:
    name, sizes = "an attention beside", {"T": 23, "D": 3, "N": 2}
    run, inputs = front.built(typed(text(name)), plan="serve"), given(name, sizes)
    pool = run.function.__globals__["Pool"](32, 4)
    got = stepwise(run, {key: x.numpy() for key, x in inputs.items()}, sizes, cut(23, 5), pool)
    np.testing.assert_allclose(got["Y"], wanted(name, inputs).numpy(), rtol=1e-9, atol=1e-9)


def test_rounds_in_rounds_are_printed_after_what_they_read() -> None:
    """So a printed program reads back in the same order, though other rounds stand before these."""
    first = show(typed(
        "index t : time(T)\ninput x_t\nweight u\na_t = u x_t\nG_t = x_t\nH_t = x_t\nfor m in 1..M:\n    G_t ← 2 G_t\n"
        "for ℓ in 1..N:\n    S = 0\n    for t in 1..T:\n        y_t = S + H_t G_t\n        S ← y_t a_t\n"
        "    H_t ← H_t + y_t\noutput Y_t = H_t\n"))
    assert show(typed(first)) == first and first.index("a_{t} =") < first.index("for ℓ")


# what is refused

BAD = {
    "S^d = 0\nH_t^d = V_t^d\nfor ℓ in 1..N:\n    for t in 1..T:\n        S^d ← S^d + H_t^d\n    H_t^d ← H_t^d": "E0118",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    for B ⊆ {s ≤ t}:\n        H_t^d ← H_t^d": "E0118",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    for m in 1..M:\n        H_t^d ← 2 H_t^d": "E0118",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    for d:\n        g_t^d = H_t^d\n    H_t^d ← g_t^d": "E0118",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    S^d = 0\n    for t in 1..T:\n        weight g^d\n        S^d ← g^d S^d\n"
    "    H_t^d ← H_t^d + S^d": "E0118",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    S^d = 0\n    for t in 1..T:\n        N^d = S^d + H_t^d\n        S^d ← N^d\n"
    "    H_t^d ← H_t^d + N^d": "E0703",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    r_t^d = r_t^d + H_t^d\n    H_t^d ← r_t^d": "E0406",
    "H_t^d = V_t^d\nfor ℓ in 1..N:\n    S^d = 0\n    for t in 1..T:\n        S^d ← S^d + H_t^d\n"
    "    H_t^d ← H_t^d + S^d": "E0501",
}


@pytest.mark.parametrize("lines", BAD)
def test_what_is_refused_has_a_code_and_a_place(lines: str) -> None:
    head = "index t, s : time(T)\nindex d : feature(D)\ninput V_t^d\n"
    problems = [p for p in einc.check(f"{head}{lines}\noutput Y_t^d = H_t^d") if p.code.startswith("E")]
    assert {p.code for p in problems} == {BAD[lines]}, "\n".join(map(render, problems))
    assert all(p.span is not None and "^" in render(p) for p in problems)


def test_a_mesh_is_refused_in_words() -> None:
    with pytest.raises(EincError, match="has rounds over positions, for t, in each round for ℓ"):
        front.compile('use "gated_deltanet_lm"\nplan it:\n    mesh p = 2\n    shard h over p\n', "torch", plan="it")


# a layer of every kind


def called_in_layers(case: Case) -> tuple[str, str]:
    """A text that hands on what has the axes of the case's result, and calls the case in each layer; with the last of
    the case's inputs that have these axes, which it is.
    """
    program = typed_of(case)
    ((_, key),) = program.outputs
    result = program.tensors[key]
    axes = [slot.set for slot in result.slots]
    same = [t for t in program.inputs() if t.role == "input" and [slot.set for slot in t.slots] == axes]
    letters = scripts([(slot, slot.name) for slot in result.slots])
    lines = [*(f"index {slot.name} : {slot.set}" for slot in result.slots), f"input first{letters}",
             f"Z{letters} = first{letters}", "for ℓ in 1..M:",
             f'    Z{letters} ← tanh(Z{letters} + "recurrent/{case.name}"({same[-1].key} = Z{letters}))',
             f"output Y{letters} = Z{letters}"]
    return "\n".join(lines) + "\n", same[-1].key


@pytest.mark.parametrize("case", RECURRENT, ids=lambda case: case.name)
def test_every_recurrent_spec_is_a_layer(case: Case) -> None:
    """Two of it, each with inputs and weights of its own, against the other implementations one after the other; and,
    where it is served, a prefill and single positions.
    """
    said, key = called_in_layers(case)
    program, steps = typed(said), 9
    layers = [LAYERS[case.name].inputs(steps), LAYERS[case.name].inputs(steps, True)]
    first = torch.randn(layers[0][key].shape, generator=torch.Generator().manual_seed(4))
    want = first
    for layer in layers:
        want = torch.tanh(want + others(case, {**layer, key: want}))
    inputs = {"first": first, **{name: torch.stack([x[name] for x in layers]) for name in layers[0] if name != key}}
    inputs = read(program, inputs)
    assert worst(called(einc.compile(said), program, inputs, {"M": 2}), {"Y": want}) <= BOUND
    if case.name not in UNSERVED:
        run = front.built(program, plan="serve")
        assert run.prefill is not None
        found, kept = run.prefill(**at(run, inputs, 0, 4))
        fork = kept.fork()
        parts = [found, *(run(kept, **at(run, inputs, n, 1)) for n in range(4, steps))]
        axis = next(n for n, slot in enumerate(program.tensors["Y"].slots) if slot.set.cls == "time")
        assert worst({"Y": torch.cat(parts, axis)}, {"Y": want}) <= BOUND
        rest = want.narrow(axis, 4, steps - 4)
        assert worst({"Y": run(fork, **at(run, inputs, 4, steps - 4))}, {"Y": rest}) <= BOUND
