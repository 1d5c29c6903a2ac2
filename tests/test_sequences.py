"""Drawn texts with rounds in order, affine states and equations that read themselves: the interpreter and the emitted
modules against plain loops over positions; and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from cpp_texts import COMPILER, quick
from helpers import Function, called, distance, meaning, typed, typed_of
from programs import FILES
from random_recurrences import Drawn, Tensors, drawn
from random_states import affine, circle
from recurrent import LAYERS
from test_oracles import doubled
from triton_modes import interpreted, tiled

import einc
from einc.driver import front
from einc.driver.cli import main
from einc.errors.report import render
from einc.ir.plan import Loop, Module, Recurrence, StateScan
from einc.ir.programs import TypedProgram
from einc.planning.recurrences.unrolled import unrolled
from einc.syntax.printing.show import show

pytestmark = pytest.mark.usefixtures("doubles")
Sizes = Mapping[str, int]

BOUND = 1e-9
SIZES = {"T": 6, "B": 1, "H": 2, "D": 3, "E": 2, "F": 2, "W": 2}
ONES = {**dict.fromkeys(SIZES, 1), "T": 1}
TRIALS = [SIZES, {**SIZES, "T": 0}, ONES, {**SIZES, "T": 2, "D": 1, "E": 3}, {**ONES, "T": 35, "D": 2, "W": 4}]
DRAW: dict[str, Callable[[int, bool], Drawn]] = {"rounds": drawn, "affine": affine, "circle": circle}
SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}


def texts(count: int, whole: int, first: int = 0) -> pytest.MarkDecorator:
    """A test for each kind of text and so many seeds, and for more of them behind the marker."""
    found = []
    for kind in DRAW:
        for seed in range(first, first + whole):
            marks = [pytest.mark.whole] * (seed >= first + count)
            found.append(pytest.param(kind, seed, marks=marks, id=f"{kind}-{seed}"))
    return pytest.mark.parametrize(("kind", "seed"), found)


@cache
def made(kind: str, seed: int, smooth: bool = False) -> tuple[Drawn, TypedProgram]:
    found = DRAW[kind](seed, smooth)
    return found, typed(found.text)


def worst(got: Mapping[str, torch.Tensor], want: Tensors) -> float:
    """The largest distance of an output, in units of its largest value or 1."""
    assert got.keys() == want.keys()
    return max(distance(torch.as_tensor(got[name]).detach().double().numpy(), x.detach().numpy(), 1.0)
               for name, x in want.items())


def read(program: TypedProgram, inputs: Tensors, dtype: torch.dtype = torch.float64) -> Tensors:
    """The inputs that the program has, in one type: what no output needs is no input of it."""
    keys = {t.key for t in program.inputs()}
    return {key: x.to(dtype) if x.is_floating_point() else x for key, x in inputs.items() if key in keys}


# the same as a loop over positions


@pytest.mark.drawn(4)
@texts(13, 120)
def test_a_drawn_text_is_its_loop(kind: str, seed: int) -> None:
    is_its_loop(*made(kind, seed), seed)


def is_its_loop(found: Drawn, program: TypedProgram, seed: int) -> None:
    """By the interpreter and by the emitted module, also without positions and at sizes of 1."""
    function = einc.compile(found.text, backend="torch")
    for sizes in TRIALS:
        inputs = found.inputs(sizes, seed)
        want, given = found.means(inputs, sizes), read(program, inputs)
        assert worst(called(function, program, given, sizes), want) <= BOUND, f"module at {sizes}"
        if sizes["T"] < 10:
            got = meaning(program, {key: x.numpy() for key, x in given.items()}, sizes)
            assert worst(got, want) <= BOUND, f"interpreter at {sizes}"


def slopes(outputs: Mapping[str, torch.Tensor], inputs: Tensors) -> Tensors:
    """The gradients of a sum of the outputs in which each element has a factor of its own."""
    total = torch.zeros(()).double()
    for x in outputs.values():
        total = total + (x * torch.arange(1.0, x.numel() + 1).cos().reshape(x.shape)).sum()
    real = {key: x for key, x in inputs.items() if x.requires_grad}
    if not total.requires_grad:  # The loop runs no round, so its result does not depend on the inputs.
        return {key: torch.zeros_like(x) for key, x in real.items()}
    found = torch.autograd.grad(total, list(real.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(real, found, strict=True))


@pytest.mark.drawn(6)
@texts(4, 80)
def test_a_gradient_is_that_of_the_loop(kind: str, seed: int) -> None:
    has_its_gradient(*made(kind, seed, True), seed)


def has_its_gradient(found: Drawn, program: TypedProgram, seed: int) -> None:
    """The gradient of the emitted module is that of the loop; the text is a smooth one."""
    function = einc.compile(found.text, grad=True)
    for sizes in (SIZES, ONES, TRIALS[4]):
        inputs = {key: x.requires_grad_(x.is_floating_point()) for key, x in found.inputs(sizes, seed).items()}
        given = read(program, inputs)
        want = slopes(found.means(inputs, sizes), given)
        assert worst(slopes(called(function, program, given, sizes), given), want) <= 10 * BOUND, f"at {sizes}"


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("steps", [63, 64, 65, 100, 1030])
def test_many_positions(seed: int, steps: int) -> None:
    """More than a tile of them, and no multiple of one; the inputs are small, so that nothing grows without bounds."""
    found, program = made("affine", seed)
    sizes = {**SIZES, "T": steps, "H": 1}
    inputs = found.inputs(sizes, seed, 0.3)
    got = called(einc.compile(found.text, backend="torch"), program, read(program, inputs), sizes)
    assert worst(got, found.means(inputs, sizes)) <= BOUND


@pytest.mark.drawn(3)
@texts(2, 40, first=200)
def test_triton_in_its_interpreter(kind: str, seed: int) -> None:
    is_its_loop_in_triton(*made(kind, seed), seed, (SIZES, {**SIZES, "T": 0}))


def is_its_loop_in_triton(found: Drawn, program: TypedProgram, seed: int, trials: Iterable[Sizes]) -> None:
    """By kernels of small tiles, in Triton's interpreter."""
    plan = front.plan(program)
    with interpreted():
        function = tiled(front.emit(plan, "triton"), plan.name, lambda kind, *_: SMALL[kind])
        for sizes in trials:
            inputs = found.inputs(sizes, seed)
            got = called(function, program, read(program, inputs), sizes)
            assert worst(got, found.means(inputs, sizes)) <= BOUND, f"at {sizes}"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler is found")
@texts(1, 30, first=300)
def test_compiled_kernels(kind: str, seed: int) -> None:
    is_its_loop_in_cpp(*made(kind, seed), seed)


def is_its_loop_in_cpp(found: Drawn, program: TypedProgram, seed: int) -> None:
    """In float32, for which kernels are written."""
    plan = front.plan(program, front.choices(own=True, backend="cpp"))
    function: Function = front.load(quick(front.emit(plan, "cpp")), plan.name, "cpp")
    sizes = {**SIZES, "T": 35}
    inputs = found.inputs(sizes, seed)
    got = called(function, program, read(program, inputs, torch.float32), sizes)
    assert worst(got, found.means(inputs, sizes)) <= 3e-4


@pytest.mark.drawn(3)
@texts(8, 100, first=400)
def test_a_shown_program_means_the_same(kind: str, seed: int) -> None:
    found, program = made(kind, seed)
    again = typed(show(program))
    given = {key: x.numpy() for key, x in read(program, found.inputs(SIZES, seed)).items()}
    one, other = (meaning(x, given, SIZES) for x in (program, again))
    assert worst(other, {key: torch.as_tensor(x) for key, x in one.items()}) <= BOUND


@texts(4, 60, first=500)
def test_no_output_reads_later_positions(kind: str, seed: int) -> None:
    """Outputs of positions stay as they are when all that comes later changes; a last state has no position."""
    found, program = made(kind, seed)
    if ": all" in found.text:
        pytest.skip("an output says that it reads all positions")
    function, cut = einc.compile(found.text, backend="torch"), 3
    inputs, other = found.inputs(SIZES, seed), found.inputs(SIZES, seed + 1)
    timed = {n.name for n in found.given if n.times} | {"doc"}
    late = {key: torch.cat([x[:cut], other[key][cut:]]) if key in timed else x for key, x in inputs.items()}
    one, two = (called(function, program, read(program, x), SIZES) for x in (inputs, late))
    for name in (n.name for n in found.outputs if n.times):
        assert torch.allclose(one[name][:cut], two[name][:cut], rtol=BOUND, atol=BOUND), name


# which way is taken

HEAD = "index t, s : time(T)\nindex h : head(H)\nindex d, k : feature(D)\nindex e : feature(E)\n"
DELTA = ("input q_t^d, j_t^d, v_t^e, β_t, g_t^d\nS^{e d} = 0\nfor t in 1..T:\n    R^{e d} = g_t^d S^{e d}\n    "
         "N^{e d} = R^{e d} + β_t (v_t^e - Σ_k R^{e k} j_t^k) j_t^d\n    output o_t^e = ")
RIGHT: dict[str, tuple[str, list[type]]] = {
    "a sum that fades": ("input x_t, a_t\nh_0 = 0\noutput h_t = a_t h_{t-1} + x_t", [StateScan]),
    "a guard in place of a start": ("input x_t\noutput h_t = tanh(x_t) 1[t > 1] h_{t-1} + x_t", [StateScan]),
    "two back": ("input x_t, a_t\noutput h_t = a_t 1[t > 2] h_{t-2} + x_t", [Loop]),
    "a function of the state": ("input x_t\nh_0 = 0\noutput h_t = tanh(h_{t-1} + x_t)", [Loop]),
    "a value of a round that reads itself": (
        "input x_t\nz = 0\nfor t in 1..T:\n    N_t = z / 3 + 1[t > 1] N_{t-1}\n    output y_t = N_t + x_t\n"
        "    z ← tanh(N_t)", [Loop]),
    "a circle": ("input x_t\np_t = 1[t > 1] q_{t-1} + x_t\nq_t = tanh(p_t)\noutput p_t, q_t", [Loop]),
    "all before": ("input x_t, v_t^d\noutput u_t = x_t - 1/9 Σ_{s < t} (Σ_d v_t^d v_s^d) u_s", [Recurrence]),
    "a matrix": ("input x_t^d, M^{d k}\nh_0^d = 0\noutput h_t^d = Σ_k M^{d k} h_{t-1}^k + x_t^d", [Loop]),
    "the delta rule": (DELTA + "Σ_d N^{e d} q_t^d\n    S^{e d} ← N^{e d}", [Recurrence]),
    "with its last state": (DELTA + "Σ_d N^{e d} q_t^d\n    S^{e d} ← N^{e d}\noutput L^{e d} = S^{e d}",
                            [Recurrence]),
    "read before": (DELTA + "tanh(Σ_d S^{e d} q_t^d)\n    S^{e d} ← N^{e d}", [Recurrence]),
    "outer products": ("input q_t^d, j_t^d, v_t^e\nS^{d e} = 0\nfor t in 1..T:\n    N^{d e} = S^{d e} + j_t^d v_t^e\n"
                       "    output o_t^e = Σ_d N^{d e} q_t^d\n    S^{d e} ← N^{d e}", [Recurrence]),
}


def ways(text: str) -> list[type]:
    plan = einc.compile(text).plan
    assert isinstance(plan, Module)
    return [type(step) for step in plan.steps if isinstance(step, Recurrence | StateScan | Loop)]


@pytest.mark.parametrize("name", RIGHT)
def test_the_way_that_is_taken(name: str) -> None:
    text, expected = RIGHT[name]
    assert ways(HEAD + text) == expected


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.whole) for n in range(6, 100))])
def test_tiles_and_scans_are_the_rounds_in_order(seed: int) -> None:
    """The same rounds with the larger of the next state and of that less 1, which nothing sees through."""
    found, lines = made("affine", seed)[0], []
    for line in found.text.splitlines():
        left, arrow, right = line.partition(" ← ")
        lines.append(f"{left} ← max({right}, {right} - 1)" if arrow else line)
    other = "\n".join(lines) + "\n"
    assert Recurrence not in ways(other)
    inputs, sizes = found.inputs({**SIZES, "T": 9}, seed), {**SIZES, "T": 9}
    one, two = (called(einc.compile(x), typed(x), read(typed(x), inputs), sizes) for x in (found.text, other))
    assert worst(one, two) <= BOUND


# what is refused, and what is not

BAD = {
    "output h_t = x_t + a_t h_{t-1}": "E0601",
    "h_0 = 0\noutput h_t = x_t + a_t h_{t-2}": "E0601",
    "h_1 = 0\noutput h_t = x_t + a_t h_{t-1}": "E0601",
    "h_0 = 0\noutput h_t^d = a_t h_{t-1}^d + V_t^d": "E0601",
    "output u_t = x_t - Σ_{s ≤ t} a_s u_s": "E0406",
    "H_t = x_t\nfor l in 1..N:\n    r_t = r_t + H_t\n    H_t ← r_t\noutput H_t": "E0406",
    "output u_t = x_t - Σ_s a_s u_s": "E0406",
    "output u_t = x_t + 1[t > 1] u_{min(t, 2)}": "E0406",
    "output u_t = x_t + 1[t ≥ 1] u_{⌈t/2⌉}": "E0406",
    "output h_t = 1[t < T] h_{t+1} + x_t": "E0406",
    "p_t = q_t + x_t\nq_t = p_t\noutput p_t, q_t": "E0406",
    "p_t = 1[t > 1] q_{t-1} + x_t\nq_t = 1[t < T] p_{t+1}\noutput p_t, q_t": "E0406",
    "h_0 = Σ_t h_t\noutput h_t = a_t h_{t-1} + x_t": "E0406",
    "z = 0\nfor t in 1..T:\n    N_t = z + x_t\n    output y_t = N_{min(t + 1, T)}\n    z ← N_t": "E0501",
    "z = 0\nfor t in 1..T:\n    N_t = z + x_t\n    z ← N_t\noutput y_t = 1[t < T] N_{t+1}": "E0501",
    "z = 0\nfor t in 1..T:\n    N = N + z\n    z ← N\noutput z": "E0406",
    "z = 0\nw = 0\nfor t in 1..T:\n    z' = w' + x_t\n    w' = z'\n    z ← z'\n    w ← w'\noutput z": "E0406",
    "z = 0\nfor t in 1..T:\n    z ← z + x_t\nz ← 2 z\noutput z": "E0705",
    "output h_t = x_t + h_{a_t}": "E0404",
    "S^d = 0\nH_t^d = V_t^d\nfor ℓ in 1..N:\n    for t in 1..T:\n        S^d ← S^d + H_t^d\n    H_t^d ← H_t^d\n"
    "output Y_t^d = H_t^d": "E0118",
    "z = 0\nfor t in 1..T:\n    N_t = z + 1[t < T] N_{t+1}\n    output y_t = N_t + x_t\n    z ← N_t": "E0703",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("text", BAD)
def test_what_is_refused_has_a_code_and_a_place(text: str) -> None:
    problems = [p for p in einc.check(HEAD + "input x_t, a_t, V_t^d\n" + text) if p.code.startswith("E")]
    assert {p.code for p in problems} == {BAD[text]}, "\n".join(map(render, problems))
    assert all(p.span is not None and "^" in render(p) for p in problems)


def test_a_number_of_a_round_is_read_by_an_output() -> None:
    text = "z = 0\nfor t in 1..T:\n    N = 2\n    output y_t = N + x_t\n    z ← tanh(z + x_t)\noutput z"
    assert not [p for p in einc.check(HEAD + "input x_t\n" + text) if p.code.startswith("E")]


def test_an_error_in_a_round_is_told_alone() -> None:
    text = "z = 0\nfor t in 1..T:\n    output y_t = z + x_t\n    output w_t = z + q_t\n    z ← z + x_t"
    assert {p.code for p in einc.check(HEAD + "input x_t\n" + text) if p.code.startswith("E")} == {"E0201"}


@pytest.mark.parametrize("update", ["r z + x_t", "tanh(r z + x_t)"])
def test_a_gradient_without_positions(update: str) -> None:
    """Nothing moves: a result without a gradient is as good as one that is 0."""
    text = HEAD + f"input x_t, r\nz = r\nfor t in 1..T:\n    output y_t = tanh(z)\n    z ← {update}"
    x, r = torch.zeros(0).requires_grad_(), torch.tensor(0.5).requires_grad_()
    result = einc.compile(text, grad=True)(x=x, r=r)
    assert not result.requires_grad or torch.autograd.grad(result.sum(), r)[0] == 0


NAMES = {
    "S_start": ("S = 0\nS_start = 3\nfor t in 1..T:\n    output y_t = S_start S + x_t\n    S ← a_t S + x_t", 3.0, 0.0),
    "S_next": ("S = 0\nS_next = 3\nfor t in 1..T:\n    output y_t = S_next S + x_t\n    S ← a_t S + x_t", 3.0, 0.0),
    "S_round": ("S = 0\nS_round = 3\nfor t in 1..T:\n    output y_t = S_round S + x_t\n    S ← a_t S + x_t", 3.0, 0.0),
    "S_before": ("S_before = 3\nS_0 = 1\nS_t = a_t S_{t-1} + x_t\noutput y_t = S_before (S_t - x_t) + S_t", 0.0, 1.0),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_a_text_stay_its_own(name: str) -> None:
    """Those that the compiler would give to what it adds."""
    text, factor, state = NAMES[name]
    x, a = (torch.randn(7, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    want = []
    for one, scale in zip(x, a, strict=True):
        after = scale * state + one
        want.append(factor * state + one if factor else 3 * (after - one) + after)
        state = after
    text = HEAD + "input x_t, a_t\n" + text
    assert torch.allclose(einc.compile(text)(x=x, a=a), torch.stack(want))
    assert torch.allclose(torch.as_tensor(einc.interpret(text, {"x": x.numpy(), "a": a.numpy()})["y"]),
                          torch.stack(want))


def test_a_size_that_no_input_has_is_asked_for() -> None:
    text = "index n : time(Q)\noutput g_n = 1[n > 1] g_{n-1} + 1"
    assert einc.compile(text)(Q=4).tolist() == [1, 2, 3, 4]


CALLS = {
    "call": 'index t : time(T)\nindex d : feature(D)\ninput x_t^d\noutput Y_t^d = 2 "recurrent/ema"(x = x_t^d)\n',
    "use": 'use "recurrent/ema"\noutput Y_t^d = 2 y_t^d\n',
}


@pytest.mark.parametrize("name", CALLS)
def test_a_spec_with_rounds_is_called_or_used(name: str) -> None:
    x, alpha = torch.randn(7, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([0.5, 0.0, 1.0])
    state, want = torch.zeros(3), []
    for one in x:
        state = alpha * one + (1 - alpha) * state
        want.append(2 * state)
    assert torch.allclose(einc.compile(CALLS[name])(x=x, alpha=alpha), torch.stack(want))


# the commands

COMMANDS = [["check"], ["show"], ["show", "--explicit"], ["derive"], ["derive", "--grad"], ["cost"], ["tex"],
            ["compile", "-o", "out.py"], ["compile", "--grad", "-o", "out.py"], ["fmt"]]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", RIGHT)
def test_every_command_takes_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.ein").write_text(HEAD + RIGHT[name][0] + "\n", encoding="utf-8")
    Path("a.md").write_text(f"```ein\n{HEAD}{RIGHT[name][0]}\n```\n", encoding="utf-8")
    for command in [*COMMANDS, ["doc"]]:
        done = CliRunner().invoke(main, [command[0], "a.md" if command == ["doc"] else "a.ein", *command[1:]])
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
        assert done.exit_code == 0, (command, done.output)


@pytest.mark.parametrize("name", ["a function of the state", "outer products", "two back"])
def test_a_run_is_verified(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text(HEAD + RIGHT[name][0] + "\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["run", str(file), "--verify", "--sizes", "T=9"])
    assert done.exception is None and done.exit_code == 0, done.output


# without states


def alike(text: str, given: Tensors, sizes: dict[str, int], want: Tensors) -> None:
    """A text without states has no error, and means the same."""
    assert "←" not in text and not [p for p in einc.check(text) if p.severity == "error"]
    again = typed(text)
    keys = {t.key for t in again.inputs()}
    got = called(einc.compile(text), again, {key: x for key, x in given.items() if key in keys}, sizes)
    assert worst(got, want) <= BOUND


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.whole) for n in range(12, 160))])
def test_affine_states_are_written_without_a_state(seed: int) -> None:
    """`einc derive` prints a triangular system over positions: a text that compiles and gives the same."""
    found, program = made("affine", seed)
    apart = unrolled(program)
    text = show(apart) if apart is not None else ""
    for sizes in (SIZES, ONES) if text and "←" not in text else ():
        inputs = found.inputs(sizes, seed)
        alike(text, read(program, inputs), sizes, found.means(inputs, sizes))


@pytest.mark.parametrize("name", ["deltanet", "gated_deltanet", "kda", "gla", "rwkv6", "rwkv7", "ssd"])
def test_layers_are_written_without_a_state(name: str) -> None:
    """As their papers have them in chunks, here over all positions."""
    case = next(case for case in FILES if case.name == name)
    text, inputs = unrolled(typed_of(case)), LAYERS[name].inputs(7)
    assert text is not None
    with doubled():
        want = LAYERS[name].result(**inputs)
    alike(show(text), inputs, {}, {LAYERS[name].output: want})


def test_derive_prints_the_system() -> None:
    for options in ([], ["--tex"]):
        done = CliRunner().invoke(main, ["derive", "recurrent/deltanet", *options])
        assert done.exit_code == 0 and "solves a triangular system" in done.output
    assert "without states" not in CliRunner().invoke(main, ["derive", "recurrent/mamba1"]).output


def test_numbers_that_a_round_makes_for_each_position_have_their_slot() -> None:
    """A product of numbers between two positions, in a round that reads earlier ones."""
    text = ("index t, s, u : time(T)\ninput a_t, c_t\nP_{t s} = prod_{u, s < u, u ≤ t} 2, s ≤ t\n"
            "X_t = c_t + Σ_{s < t} a_t P_{t s} X_s\noutput y_t = X_t\n")
    a, c, X = torch.rand(7) / 9, torch.randn(7), list[torch.Tensor]()
    for t in range(7):
        X.append(c[t] + a[t] * sum((2.0 ** (t - s) * X[s] for s in range(t)), torch.zeros(())))
    assert worst(called(einc.compile(text), typed(text), {"a": a, "c": c}, {}), {"y": torch.stack(X)}) <= BOUND
    assert CliRunner().invoke(main, ["show", "-", "--stage", "normal"], input=text).exit_code == 0


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_whole_numbers_are_written_to_a_state(dtype: torch.dtype, grad: bool) -> None:
    text = """
index t : time(T)
index d, k : feature(D)
index e : feature(E)
input k_t^d, q_t^d
c = 1
S^{d e} = 0
for t in 1..T:
    N^{d e} = S^{d e} + k_t^d (c - k_{t k} S^{k e})
    output y_t^e = q_{t d} N^{d e}
    S^{d e} ← N^{d e}
"""
    k, q, S, want = (torch.randn(5, 3) / 2).to(dtype), torch.randn(5, 3).to(dtype), torch.zeros(3, 2), []
    for t in range(5):
        S = S + k[t].double()[:, None] * (1 - k[t].double() @ S)
        want.append(q[t].double() @ S)
    got = einc.compile(text, grad=grad)(k=k, q=q, E=2)
    assert got.dtype == dtype
    assert worst({"y": got}, {"y": torch.stack(want)}) <= {torch.float64: BOUND, torch.float32: 1e-5}.get(dtype, 5e-2)


# from the last position to the first


def turned(text: str) -> str:
    """A drawn text whose rounds run from the last position to the first."""
    lines = [f"{line} : all" if "output" in line and "_{t" in line.partition("=")[0] else line
             for line in text.replace("for t in 1..T:", "for t in T..1:").splitlines()]
    return "\n".join(lines) + "\n"


def backwards(given: Tensors, program: TypedProgram) -> Tensors:
    """Tensors of the program with their positions in the other order."""
    return {key: x.flip([n for n, s in enumerate(program.tensors[key].slots) if s.set.cls == "time"])
            for key, x in given.items()}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.whole) for n in range(8, 80))])
def test_rounds_from_the_last_position(seed: int) -> None:
    """They give what rounds upwards give of positions in the other order, and so do their gradients."""
    found, program = made("affine", seed)
    text = turned(found.text)
    down = typed(text)
    functions = [einc.compile(text, backend="torch"), einc.compile(text, grad=True)]
    names = dict(program.outputs)
    for sizes in (SIZES, ONES, TRIALS[4]):
        inputs = {key: x.requires_grad_(x.is_floating_point()) for key, x in found.inputs(sizes, seed).items()}
        given = read(program, inputs)
        want = found.means(inputs, sizes)
        flipped = {key: x.detach() for key, x in backwards(given, program).items()}
        flipped = {key: x.requires_grad_(x.is_floating_point()) for key, x in flipped.items()}
        for function in functions:
            got = called(function, down, flipped, sizes)
            again = {name: backwards({names[name]: x}, program)[names[name]] for name, x in got.items()}
            assert worst(again, want) <= BOUND, f"at {sizes}"
        slope = backwards(slopes(again, flipped), program)
        assert worst(slope, slopes(want, given)) <= 10 * BOUND, f"gradient at {sizes}"
        if sizes is SIZES:
            meant = meaning(down, {key: x.detach().numpy() for key, x in flipped.items()}, sizes)
            assert worst({name: backwards({names[name]: torch.as_tensor(x)}, program)[names[name]]
                          for name, x in meant.items()}, want) <= BOUND


DOWN = """
index t, s : time(T)
index d : feature(D)
input x_t^d, a_t
"""
READ_BACKWARDS = DOWN + """
h^d = 0
for t in T..1:
    g_t^d = a_t h^d + x_t^d
    y_t^d = g_t^d + 1[t < T] y_{t+1}^d / 2 + Σ_{s > t} g_s^d / 4 + t
    h^d ← g_t^d
output y_t^d : all
"""
EACH_OWN = DOWN + """
for t:
    h_t^d = 0
    for s in t..1:
        h_t^d ← tanh(a_s h_t^d + x_s^d)
output h_t^d
"""
SUFFIX = DOWN + """
for t:
    h_t^d = 0
    for s in T..t:
        h_t^d ← a_s h_t^d + x_s^d
output h_t^d : all
"""


STRICT = SUFFIX.replace("T..t:", "T..t+1:")
BUT_THE_LAST = DOWN + """
h^d = 0
for t in T-1..1:
    h^d ← a_t h^d + x_t^d
output y^d = h^d
"""


def down_by_hand(text: str, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    T, zero = len(x), torch.zeros(x.shape[1])
    g, y = [zero] * T, [zero] * (T + 1)
    for t in reversed(range(T)):
        g[t] = a[t] * (g[t + 1] if t < T - 1 else zero) + x[t]
        y[t] = g[t] + y[t + 1] / 2 + sum(g[t + 1 :], zero) / 4 + t + 1
    if text == EACH_OWN:
        for t in range(T):
            g[t] = zero
            for s in reversed(range(t + 1)):
                g[t] = torch.tanh(a[s] * g[t] + x[s])
    if text == STRICT:
        g = [*g[1:], zero][:T]
    if text == BUT_THE_LAST:
        h = zero
        for t in reversed(range(T - 1)):
            h = a[t] * h + x[t]
        return h
    return torch.stack(y[:T] if text == READ_BACKWARDS else g) if T else x


@pytest.mark.parametrize("text", [READ_BACKWARDS, EACH_OWN, SUFFIX, STRICT, BUT_THE_LAST],
                         ids=["read", "each", "suffix", "strict", "but the last"])
def test_rounds_down_read_what_later_positions_made(text: str) -> None:
    program, function = typed(text), einc.compile(text)
    for T in (0, 1, 2, 9, 70):
        x, a = torch.randn(T, 3), torch.rand(T)
        want = down_by_hand(text, x, a)
        got = called(function, program, {"x": x, "a": a}, {})
        assert next(iter(got.values())).shape == want.shape
        assert T == 0 or worst(got, dict.fromkeys(got, want)) <= BOUND
    assert not einc.check(text)


@pytest.mark.parametrize(("text", "said"), [
    (READ_BACKWARDS.replace("y_{t+1}", "y_{t-1}").replace("t < T", "t > 1"), "is read where it is not proved"),
    (SUFFIX.replace("output h_t^d : all", "output h_t^d"), "reads positions after"),
])
def test_rounds_down_are_checked(text: str, said: str) -> None:
    assert any(said in str(problem) for problem in einc.check(text))
