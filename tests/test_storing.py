"""What is stored in few bits: inputs that are declared so, tensors that a plan stores so, and what refuses it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import called, meaning, pairs_in_turn, typed
from triton_modes import interpreted

import einc
from einc.driver import compiling, front, pipeline
from einc.driver.checking import typed as checked
from einc.driver.cli import main
from einc.driver.commands import data
from einc.driver.options import Options
from einc.errors.report import EincError, Report, Source
from einc.ir.elements import DECLARED
from einc.ir.narrow import NARROW
from einc.ir.plan import Kernel, Module
from einc.ir.programs import Program
from einc.ir.verify import verify
from einc.meaning.functions import function
from einc.syntax.printing.show import show
from einc.transforms.storing import holds

HEAD = "index t, s : time(T)\nindex d : feature(D)\n"
FEW, ALL = ("int8", "e4m3", "e5m2"), ("torch", "triton", "cpp")
BACKENDS = pytest.mark.parametrize("backend", ALL)
# Products of what is stored with data, with what is stored in the same type, and in another one.
GIVEN = {
    "few and data": "input Q_t^d, k_s^d : TYPE, V_s^d, σ_s",
    "both few": "input Q_t^d : TYPE, k_s^d : TYPE, V_s^d, σ_s",
    "all few": "input Q_t^d : TYPE, k_s^d : TYPE, V_s^d : TYPE, σ_s",
}
BODY = """
mask L_{t s} : s ≤ t
L_{t s} = 1/(SCALE √D) Q_t^d σ_s k_{s d}
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d
"""


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def given_as(case: str, word: str) -> Program:
    lines = (f"input {x}" for x in GIVEN[case].removeprefix("input ").replace("TYPE", word).split(", "))
    few = NARROW[word].high // 4
    return typed(HEAD + "\n".join(lines) + BODY.replace("SCALE", str(few ** (2 - (case == "few and data")))))


def drawn(program: Program, sizes: dict[str, int], dtype: str = "float32") -> dict[str, torch.Tensor]:
    return data.randoms(program, sizes, dtype, 3)


# inputs


@pairs_in_turn("case, word, backend", GIVEN, FEW, ALL, every=3)
def test_inputs_that_are_stored_in_few_bits(backend: str, word: str, case: str) -> None:
    program = given_as(case, word)
    for sizes in ({"T": 37, "D": 40}, {"T": 1, "D": 3}):
        given = drawn(program, sizes)
        want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["Y"]
        got = called(front.built(program, backend=backend), program, given, sizes)["Y"]
        assert got.dtype == torch.float32
        assert np.abs(got.double().numpy() - want).max() <= 2e-6 * max(1, np.abs(want).max())


def test_the_interpreter_rounds_to_the_type_of_an_input() -> None:
    program = typed(f"{HEAD}input x_t : e4m3\noutput y_t = x_t")
    x = np.asarray([0.3, 1e9, -17.2])
    assert meaning(program, {"x": x}, {"T": 3})["y"].tolist() == function("e4m3")(x).tolist()


def test_another_type_is_refused_by_name() -> None:
    run = einc.compile(f"{HEAD}input x_t\ninput q_t : int8\noutput y_t = x_t q_t")
    with pytest.raises(TypeError, match=r"q holds torch.float32, torch.int8 is expected"):
        run(x=torch.ones(3), q=torch.ones(3))
    with pytest.raises(ValueError, match="q has shape"):
        run(x=torch.ones(3), q=torch.ones(4, dtype=torch.int8))
    assert run(x=torch.ones(3), q=torch.tensor([1, -2, 3], dtype=torch.int8)).tolist() == [1, -2, 3]


def test_the_type_is_declared_in_what_is_printed_and_in_the_head() -> None:
    text = f"{HEAD}input x_t\ninput q_t : int8\nweight w_t : e5m2\noutput y_t = x_t q_t w_t"
    shown = front.emit(front.plan(typed(text)), "torch")
    assert "input  q  (T,)  int8" in shown and "weight w  (T,)  e5m2" in shown
    assert "q_{t} : int8" in show(typed(text))


def test_a_class_keeps_stored_weights_as_buffers() -> None:
    text = f"{HEAD}input x_t^d\nweight w_d : int8\nweight σ_d\noutput y_t = Σ_d x_t^d w_d σ_d"
    made = einc.compile(text, module=True, grad=True).module
    layer = made(D=4)
    assert [name for name, _ in layer.named_parameters()] == ["sigma"]
    assert layer.w.dtype == torch.int8
    layer(torch.ones(2, 4)).sum().backward()


@pytest.mark.parametrize("word", FEW)
def test_a_class_converts_no_stored_weight(word: str) -> None:
    """Torch's own `half` would make numbers of 16 bits of those that have an exponent."""
    text = f"{HEAD}input x_t^d\nweight w_d : {word}\nweight σ_d\noutput y_t = Σ_d x_t^d w_d σ_d"
    layer = einc.compile(text, module=True).module(D=4)
    codes = torch.tensor([1.0, -2, 0.5, 3]).to(layer.w.dtype)
    layer.load_state_dict({"w": codes, "sigma": torch.ones(4)})
    for changed in (layer.half(), layer.to(torch.float64), layer.bfloat16(), layer.to("cpu", torch.float32)):
        assert changed.w.dtype == codes.dtype and torch.equal(changed.w.float(), codes.float())
        x = torch.ones(2, 4, dtype=changed.sigma.dtype)
        assert torch.equal(changed(x), x @ codes.to(x.dtype))
    assert layer.to("meta").w.is_meta and layer.sigma.dtype == torch.float32


def test_no_gradient_reaches_what_is_stored() -> None:
    run = einc.compile(f"{HEAD}input x_t\ninput q_t : int8\noutput y_t = x_t x_t q_t", grad=True)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    run(x=x, q=torch.tensor([3, -1], dtype=torch.int8)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, -4]


# lines of a plan

HELD = {
    "y_t^d = int8(x_t^d)": "int8", "y_t^d = int4(x_t^d)": "int8", "y_t^d = e4m3(x_t^d / 3)": "e4m3",
    "y_t^d = int4(x_t^d) ": "e4m3", "y_t^d = e2m1(x_t^d)": "e5m2",
    "y_t^d = min(max(floor(x_t^d + 1/2), -127), 127)": "int8", "y_t^d = 1[x_t^d > 0] int8(x_t^d)": "int8",
    "y_t^d = max(int8(x_t^d), 3)": "int8", "y_t^d = int4(x_t^d) + int4(2 x_t^d)": "int8",
    "y_t^d = e4m3(Σ_{s ≤ t} x_s^d)": "e4m3", "y_t^d = z_t^d\nz_t^d = int4(x_t^d)": "int8",
}
LOST = {
    "y_t^d = x_t^d": "int8", "y_t^d = 2 e4m3(x_t^d)": "e4m3", "y_t^d = int8(x_t^d) ": "e4m3",
    "y_t^d = -int8(x_t^d)": "int8", "y_t^d = floor(x_t^d)": "int8", "y_t^d = int8(x_t^d) / 2": "int8",
    "y_t^d = min(max(x_t^d, -127), 127)": "int8", "y_t^d = e5m2(x_t^d)": "e4m3",
    "y_t^d = Σ_{s ≤ t} int4(x_s^d)": "int8", "y_t^d = max_{s ≤ t} int8(x_s^d)": "int8",
    "y_t^d = int8(x_t^d) + 1": "int8", "y_t^d = e4m3(x_t^d) e4m3(x_t^d)": "e4m3",
}


def holding(equation: str) -> Program:
    return typed(f"{HEAD}input x_t^d\n{equation}\noutput w_t^d = y_t^d x_t^d")


@pytest.mark.parametrize("equation", list(HELD))
def test_what_is_known_to_be_held_is_held(equation: str) -> None:
    program, word = holding(equation), HELD[equation]
    assert holds(program, "y", DECLARED[word])
    inner = replace(program, outputs=(("y", "y"),))
    x = np.random.default_rng(1).standard_normal((50, 3)) * 200
    x[:4] = [[1e30, -1e30, 127.5], [-128.5, 448, -448], [0, -0.0, 8], [-8, 6, 449]]
    y = meaning(inner, {"x": x}, {"T": 50, "D": 3})["y"]
    assert np.array_equal(function(word)(y), y)


@pytest.mark.parametrize("equation", list(LOST))
def test_what_may_not_be_held_is_not(equation: str) -> None:
    assert not holds(holding(equation), "y", DECLARED[LOST[equation]])


@pairs_in_turn("backend, grad", ALL, [False, True], every=2)
def test_storing_changes_no_value(backend: str, grad: bool) -> None:
    sizes, program = {"N": 3, "P": 8, "H": 2, "d_k": 32}, checked("precision/sage1")
    found = []
    for plan in ("call", "few"):
        given = {key: x.requires_grad_(grad) for key, x in drawn(program, sizes).items()}
        run = einc.compile("precision/sage1", backend=backend, plan=plan, grad=grad)
        y = run(**given, N=3, P=8)
        assert ("torch.int8" in run.source) == (plan == "few")
        found.append([y, *torch.autograd.grad(y.square().sum(), [*given.values()])] if grad else [y])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)


CODES = f"""{HEAD}input x_t^d
a_t^d = e4m3(8 tanh(exp(x_t^d) - 2) + x_t^d / 7)
b_t^d = e5m2(3 exp(x_t^d / 9) - 40 tanh(x_t^d))
c_t^d = int8(100 tanh(x_t^d) + exp(x_t^d) / 3 - 1)
output y_t^d = a_t^d b_t^d + c_t^d
output m_d = max_{{t ∈ 1..T}} (a_t^d + b_t^d + c_t^d)
plan few:
    store a as e4m3
    store b as e5m2
    store c as int8
"""


@BACKENDS
def test_codes_of_both_signs_are_written_and_read(backend: str) -> None:
    x = torch.linspace(-5, 3, 77).reshape(7, 11)
    plain, few = (einc.compile(CODES, backend=backend, plan=plan) for plan in ("call", "few"))
    assert all(name in few.source for name in ("float8_e4m3fn", "float8_e5m2", "int8"))
    for one, other in zip(plain(x=x), few(x=x), strict=True):
        assert torch.equal(one, other)


READ = f"{HEAD}input x_t^d : TYPE\ninput y_t^d\ninput w_t\noutput z_t^d = min(max(x_t^d y_t^d, -w_t), w_t)"
WRITTEN = f"""{HEAD}input x_t^d
a_t^d = TYPE(x_t^d)
output y_t^d = 2 a_t^d
output m_d = max_{{t ∈ 1..T}} min(a_t^d, 3)
plan few:
    store a as TYPE
"""


@pytest.mark.whole
@BACKENDS
@pytest.mark.parametrize("word", FEW)
def test_every_code_is_read(word: str, backend: str) -> None:
    """All 256 bytes, infinite ones and those that are no number among them, as torch's own type and the definition have
    them; twice, at odd places of a row, too."""
    kind = getattr(torch, NARROW[word].storage)
    codes = torch.arange(511).remainder(256).to(torch.uint8).view(kind).reshape(7, 73)
    given = {"x": codes, "y": torch.ones(7, 73), "w": torch.full((7,), math.inf)}
    program = typed(READ.replace("TYPE", word))
    made = called(front.built(program, backend=backend), program, given, {"T": 7, "D": 73})["z"].double().numpy()
    want = meaning(program, {key: data.exact(x) for key, x in given.items()}, {"T": 7, "D": 73})["z"]
    assert np.array_equal(made, codes.double().numpy(), equal_nan=True) and np.array_equal(made, want, equal_nan=True)


@pytest.mark.whole
@BACKENDS
@pytest.mark.parametrize("word", FEW)
def test_every_code_is_written(word: str, backend: str) -> None:
    """What each number of float16 is rounded to, and is again once it has been stored; NaN has no code in int8."""
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    x = torch.where(x.isnan() & (word == "int8"), 5, x).reshape(2**8, 2**8)
    text = WRITTEN.replace("TYPE", word)
    made = einc.compile(text, backend=backend, plan="few")
    assert NARROW[word].storage in made.source
    y, _ = made(x=x)
    want = function(word)(x.double().numpy())
    if NARROW[word].storage.startswith("float8") and not NARROW[word].infinite:
        assert np.array_equal(want, x.clamp(-448, 448).to(torch.float8_e4m3fn).double().numpy(), equal_nan=True)
    assert len(np.unique(want[~np.isnan(want)])) == {"int8": 256, "e4m3": 253, "e5m2": 247}[word]
    assert np.array_equal(y.double().numpy() / 2, want, equal_nan=True)


def test_bytes_are_those_of_the_stored_types() -> None:
    plans = [compiling.planned(checked("precision/sage1"), Options(plan=plan)) for plan in ("call", "few")]
    assert all(isinstance(x, Module) for x in plans)
    elements = [[x.buffers[key].element.size(4) for key in "qk"] for x in plans if isinstance(x, Module)]
    assert elements == [[4, 4], [1, 1]]


def test_the_plan_of_a_gradient_is_that_of_what_is_stored() -> None:
    shown = [CliRunner().invoke(main, ["show", "precision/sage1", "--stage", "plan", "--grad", "--plan", plan]).output
             for plan in ("call", "few")]
    assert all("plan of" in text for text in shown) and shown[0] != shown[1]


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_a_cache_keeps_what_is_stored(backend: str) -> None:
    serving = einc.compile("precision/int8_cache", plan="serve", backend=backend)
    assert "cache  k  (past, H, d_k)  int8" in serving.source
    given = drawn(checked("precision/int8_cache"), {"T": 40, "H": 2, "d_k": 16})
    want = einc.compile("precision/int8_cache")(**given)
    y, cache = serving.prefill(**{key: x[:30] for key, x in given.items()})
    made = [y, *(serving(cache, **{key: x[at : at + 1] for key, x in given.items()}) for at in range(30, 40))]
    assert torch.allclose(torch.cat(made), want, rtol=1e-5, atol=1e-6)
    assert {name: rows.store.dtype for name, rows in cache.kept.items()} == {
        "k": torch.int8, "v": torch.int8, "sigma": torch.float32, "rho": torch.float32}


USED = {
    "a recurrence": "S^d = 0\nfor t in 1..T:\n    S^d ← S^d / 2 + q_t^d\n    output y_t^d = S^d",
    "a state": "index e : feature(E)\ninput v_t^e\nS^{d e} = 0\nfor t in 1..T:\n    N_t^{d e} = S^{d e} / 2 + "
               "q_t^d v_t^e / 128\n    output y_t^e = N_t^{d e} x_{t d}\n    S^{d e} ← N_t^{d e}",
    "a running maximum": "output y_t^d = max_{s ≤ t} q_s^d", "a running sum": "output y_t^d = Σ_{s ≤ t} q_s^d",
}


@pairs_in_turn("case, word, backend", USED, FEW, ALL, every=3)
def test_what_passes_over_positions_reads_few_bits(backend: str, word: str, case: str) -> None:
    program = typed(f"{HEAD}input x_t^d\ninput q_t^d : {word}\n{USED[case]}\noutput z_t^d = x_t^d q_t^d")
    sizes = {"T": 19, "D": 3, "E": 2}
    given = drawn(program, sizes)
    want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["y"]
    got = called(front.built(program, backend=backend), program, given, sizes)["y"].double().numpy()
    assert np.abs(got - want).max() <= 2e-6 * max(1, np.abs(want).max())


def test_infinite_codes_are_those_of_the_type() -> None:
    program = typed(f"{HEAD}input q_t : e5m2\noutput y_t = 1 q_t")
    q = torch.tensor([math.inf, -math.inf, 3.0]).to(torch.float8_e5m2)
    want = meaning(program, {"q": data.exact(q)}, {"T": 3})["y"]
    assert want.tolist() == called(front.built(program), program, {"q": q}, {"T": 3})["y"].tolist() == [
        math.inf, -math.inf, 3]


WRONG = {
    "store y as int8": "`y` may hold numbers that `int8` does not, and to store is not to round",
    "store x as int8": "`x` is given by the caller",
    "store y as int3": "`int3` is no type that numbers are stored in",
    "store q as int8": "`q` is no tensor of this spec",
    "store y int8": "this is not how a line about what is stored in few bits reads",
    "store w as int8": "`w` is a result",
    "store n as int8": "`n` holds whole numbers",
    "store h as int8": "`h` is carried from position to position",
    "store y as int8\n    store y as e4m3": "two lines say different things of what is stored in few bits",
}


@pytest.mark.parametrize("lines", list(WRONG))
def test_what_cannot_be_stored_is_told(lines: str) -> None:
    with pytest.raises(EincError, match=WRONG[lines]):
        einc.compile(f"{HEAD}input x_t^d\ny_t^d = x_t^d / 3\nn_t^d = floor(x_t^d)\nh_0^d = 0\n"
                     f"h_t^d = int8(h_{{t-1}}^d / 2 + x_t^d)\noutput w_t^d = 2 y_t^d x_t^d + n_t^d h_t^d\n"
                     f"plan few:\n    {lines}", plan="few")


def test_check_tells_it() -> None:
    report = Report()
    text = f"{HEAD}input x_t\ny_t = x_t / 3\noutput z_t = 2 y_t\nplan few:\n    store y as int8"
    assert pipeline.check(Source("a.ein", text), report) is None
    assert [problem.code for problem in report.problems] == ["E0119"]


def test_the_way_out_is_one() -> None:
    text = f"{HEAD}input x_t^d\ny_t^d = x_t^d / 3\noutput w_t^d = 2 y_t^d x_t^d\nplan few:\n    store y as int8"
    with pytest.raises(EincError) as told:
        einc.compile(text, plan="few")
    (problem,) = told.value.problems
    mended = problem.helps[0].text.split("`")[1]
    assert mended == "y_t^d = int8(x_t^d / 3)"
    assert "torch.int8" in einc.compile(text.replace("y_t^d = x_t^d / 3", mended), plan="few").source


def test_states_of_rounds_keep_all_bits() -> None:
    text = (f"{HEAD}input x_t^d\nS^d = 0\nfor t in 1..T:\n    N_t^d = int8(S^d + x_t^d)\n    output y_t^d = N_t^d\n"
            "    S^d ← N_t^d\nplan few:\n    store S as int8\n")
    with pytest.raises(EincError, match="rounds"):
        einc.compile(text, plan="few")


def test_a_fold_that_is_stored_in_few_bits_breaks_a_rule() -> None:
    module = compiling.plan(typed(f"{HEAD}input x_t^d\noutput y_t = Σ_d exp(x_t^d)"))
    (key,) = (store.buffer for step in module.steps if isinstance(step, Kernel) for store in step.stores)
    wrong = replace(module, buffers={**module.buffers, key: replace(module.buffers[key], element=DECLARED["int8"])})
    with pytest.raises(EincError, match="stored in few bits"):
        verify(wrong)


def test_types_that_torch_has_no_storage_for_are_no_elements() -> None:
    assert {word for word, element in DECLARED.items() if element.narrow} == {
        row.name for row in NARROW.values() if row.storage}
