"""Gates, and rows without a point: each form of a program, its kernels and its gradient
against evaluations of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import product

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER
from guarded_programs import guarded
from helpers import Arrays, arrays, assert_close, called, cut, meaning, tensors, typed
from naive import Naive
from programs import Case
from test_triton import SMALL, choice
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import EincError
from einc.ir.programs import Program
from einc.transforms.normal.normalise import flat

NEAR, STEP = 1e-9, 1e-6


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    """Where a program gets no numbers it is in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


def seeds(few: Collection[int], many: range) -> pytest.MarkDecorator:
    """A test for each seed: for those of the second range with `--whole` alone."""
    late = [pytest.param(n, marks=pytest.mark.whole) for n in many if n not in few]
    return pytest.mark.parametrize("seed", [*few, *late])


def given(case: Case, program: Program) -> Arrays:
    return arrays(program, case.sizes, case.ranges, int(case.name.removeprefix("guarded") or 0))


# values


@pytest.mark.drawn(6)
@seeds(range(200), range(1000))
def test_every_form_of_a_program_means_the_same(seed: int) -> None:
    case = guarded(seed)
    program = typed(case.text)
    inputs = given(case, program)
    want = meaning(program, inputs, case.sizes)
    for form in (flat(program), pipeline.normal(program)):
        asked = {t.key for t in form.inputs()}
        assert_close(meaning(form, {k: v for k, v in inputs.items() if k in asked}, case.sizes), want, NEAR, 1.0)


def kernels_agree(case: Case, tilings: Iterable[tuple[int, int] | None]) -> None:
    program = typed(case.text)
    inputs = given(case, program)
    want = meaning(program, inputs, case.sizes)
    source = front.emit(front.plan(program))
    for tiles in tilings:
        function = load(cut(source, tiles) if tiles else source, "text")
        assert_close(called(function, program, tensors(inputs), case.sizes), want, NEAR, 1.0)


@pytest.mark.drawn(2)
@seeds(range(0, 200, 5), range(1000))
def test_kernels(seed: int) -> None:
    kernels_agree(guarded(seed), [None, (2, 1)])


@pytest.mark.drawn(3)
@seeds(range(3, 200, 50), range(3, 1000, 5))
def test_kernels_of_triton(seed: int) -> None:
    case = guarded(seed)
    program = typed(case.text)
    inputs = given(case, program)
    want = meaning(program, inputs, case.sizes)
    with interpreted():
        function = tiled(front.emit(front.plan(program, front.choices(backend="triton")), "triton"), "text",
                         choice(SMALL))
        assert_close(called(function, program, tensors(inputs), case.sizes), want, NEAR, 1.0)


# gradients


def total(found: dict[str, torch.Tensor], cotangents: dict[str, torch.Tensor]) -> torch.Tensor:
    """Σ cotangent · output, without what is no finite number."""
    return torch.stack([(x.masked_fill(~x.isfinite(), 0) * cotangents[name]).sum() for name, x in found.items()]).sum()


def slopes(value: torch.Tensor, inputs: dict[str, torch.Tensor]) -> Arrays:
    """The gradient of a number by every input that has one."""
    asked = {key: x for key, x in inputs.items() if x.requires_grad}
    made = (torch.autograd.grad(value, [*asked.values()], allow_unused=True) if value.requires_grad
            else [None] * len(asked))
    return {key: np.zeros(x.shape) if d is None else d.numpy() for (key, x), d in zip(asked.items(), made, strict=True)}


def moving(inputs: Arrays) -> dict[str, torch.Tensor]:
    return {key: x.requires_grad_(x.is_floating_point()) for key, x in tensors(inputs).items()}


def gradients_agree(case: Case, backend: str = "torch") -> None:
    """The gradient of a compiled text against autograd of single numbers, and this
    against differences of the interpreter."""
    program = typed(case.text)
    inputs = given(case, program)
    values = meaning(program, inputs, case.sizes)
    random = np.random.default_rng(1)
    cotangents: Arrays = {name: np.asarray(random.standard_normal(x.shape)) for name, x in values.items()}
    there = moving(inputs)
    want = slopes(total(Naive(program, there, case.sizes).outputs(), tensors(cotangents)), there)
    toward: Arrays = {key: np.asarray(random.standard_normal(d.shape)) for key, d in want.items()}

    def at(sign: int) -> float:
        moved = {**inputs, **{key: inputs[key] + sign * STEP * d for key, d in toward.items()}}
        found = meaning(program, moved, case.sizes)
        return sum(float(np.sum(np.where(np.isfinite(x), x, 0) * cotangents[name])) for name, x in found.items())

    measured, derived = (at(1) - at(-1)) / (2 * STEP), sum(float(np.sum(d * toward[key])) for key, d in want.items())
    assert abs(measured - derived) <= 1e-5 * max(1, abs(derived), abs(at(0))), (measured, derived)
    here = moving(inputs)
    try:
        function = einc.compile(case.text, grad=True, backend=backend)
    except EincError as error:
        assert "has no gradient" in str(error)
        assert all(not d.any() for d in want.values())
        return
    functions = [function]
    if backend == "torch":
        functions.append(load(cut(function.source, (2, 1)), "text"))
    for each in functions:
        found = slopes(total(called(each, program, here, case.sizes), tensors(cotangents)), here)
        assert_close(found, want, 1e-8, 1.0)


# Those after the range have rows without a point whose scale was differentiated, or taken to be finite.
@pytest.mark.drawn(6)
@seeds((*range(0, 200, 16), 6, 103, 242, 258, 335, 510, 555, 729, 830, 860), range(1000))
def test_gradients(seed: int) -> None:
    gradients_agree(guarded(seed))


# one text for each fault that there was

LETTERS = "index t, s, u : time(T)\nindex h : head(H)\nindex d : feature(D)\ndim W\n"
EXAMPLES = {
    "a difference of neighbours": "input x_t\noutput y = Σ_t (x_t - 1[t > 1] x_{t - 1})^2",
    "the next one beside": "input x_t\noutput y = Σ_t (1[t + 1 ≤ T] x_{t + 1} + x_t) : all",
    "a number beside": "input x_t, c\noutput y = Σ_t (c + 1[t > 1] x_{t - 1})",
    "a result beside": "input x_t\nm = max_t x_t\noutput y = Σ_u (m + 1[u > 1] x_{u - 1}) : all",
    "a row beside": "input x_t, z_t\noutput y_t = Σ_{s ≤ t} (z_t + 1[s > 1] x_{s - 1})",
    "a gate in a condition": "input x_t, c\ninput doc_t : int\noutput y = Σ_t (c + 1[t = 1 or t > 2 and doc_{t - 1} = "
                             "2] x_t)",
    "weights times a number": "input x_t, c\noutput y_t = c Σ_s softmax_{s < t}(x_s)",
    "weights of chosen heads": "input q_{t h}\ninput doc_t : int\noutput y_t = Σ_h softmax_{h, h > doc_t}(q_{t h}) * 1",
    "weights of a number": "input c\nmask l_{u d} : u ≥ d\nl_{u d} = c / u + 0 * d\noutput a_d = Σ_u softmax_u(l_{u "
                           "d}) * c : all",
    "weights in a cap": ("input doc_t : int\ninput c\nmask l_{u t} : doc_u ≠ doc_t, u ≤ t\nl_{u t} = 1\n"
                         "a_t = (Σ_u softmax_u(l_{u t}) * 0.25) + c\noutput y_t = softcap(a_t, 2)"),
    "logits that are sums of nothing": ("input c\ninput doc_t : int\nmask l_{u t} : doc_u ≤ doc_t\n"
                                        "l_{u t} = Σ_{s, s ≤ t - W} (c + (s - u))\noutput a_t = Σ_u softmax_u(l_{u t}) "
                                        "* c : all"),
    "weights of all heads": "input q_{t h}\noutput y_t = Σ_h Σ_u softmax_{u < t}(q_{u h})",
    "weights of all rows": "input x_t\noutput y = Σ_s (Σ_u softmax_{u, u < s}(x_u) * 1) : all",
    "weights of weights": "input x_t\noutput y_t = Σ_s softmax_{s ≤ t}(x_s) * (Σ_u softmax_{u > s}(x_u) * 1) : all",
    "heads of values": ("input q_{t h}, v_{t h d}\nweight c_{h d}\nY_{t h d} = Σ_s softmax_{s < t}(q_{s h}) v_{s h d}\n"
                        "output y_t = Σ_{h d} Y_{t h d} c_{h d}"),
    "weights summed further": "input x_t\na_t = Σ_{s, s < t} exp(x_s)\noutput y_t = (Σ_{s, s < t} exp(x_s) a_s) / a_t",
    "weights of nothing beside a sum of them": ("input x_t\ninput doc_t : int\na_t = Σ_{s, s > doc_t} exp(x_s - x_t)\n"
                                               "b_t = (Σ_{s, s > doc_t} exp(x_s - x_t) a_s) / a_t + a_t\n"
                                               "output y_t = Σ_{s ≤ t} (x_s - a_s b_s)^2 : all"),
    "weights that are one number": "input c\noutput y_t = (Σ_s softmax_{s, s < t}(0 s + c) * 1) * c + 0.5",
    "a maximum of exponents that is a result too": ("input x_t\nm_t = max_{s < t} x_s\n"
                                                    "a_t = log(Σ_{s, s < t} exp(x_s))\noutput y_t = a_t * m_t : all"),
    # what is summed for each s reads sums over s, so that no pass over s makes both
    "a deviation from a mean of pairs": ("input x_t, z_t, v_{t d}\n"
                                         "output y_{t d} = Σ_s LN_{s ≤ t}(min(x_s, z_t)) v_{t d} : all"),
    "a deviation from a mean of chosen values": ("input x_t, z_t, v_{t d}\ninput doc_t : int\noutput y_{t d} = "
                                                 "Σ_s LN_{s ≤ t}(min(x_{doc_s} - z_t, 1)) v_{t d} : all"),
    "a maximum of nothing whose body is one number": ("input c, q_{t h}\nm_{t h} = max_{s < t} (q_{t h} - c + 0 s)\n"
                                                      "output y_{t h} = max(m_{t h}, -9) : all"),
    "a maximum of nothing for each of a few": ("input b_h\noutput y_{t h} = max(max_{s < t} (b_h + 0 s), -9) : all"),
    "what is summed by a number for each of a few": ("input q_{t h}\ninput doc_t : int\n"
                                                     "output y_t = mean_{s, h, s < t}(q_{doc_s, h}) : all"),
    "a scale of sums whose letters mean something outside": (
        "input x_t, c\ninput doc_t : int\ny_t = max(max_{s ≤ t} (log(1 + exp(c)) + 0 x_s), -9)\n"
        "output z_t = Σ_s softmax_{s, 2 s ≤ t}(min((y_s)^2, 0.25)) * (y_{doc_t} + y_{max(s - 1, 1)}) : all"),
    "weights of rows that have no letter of their sum": (
        "input x_t, q_{t h}\na_t = max_{s ≤ min(t, W)} x_t\nb_t = Σ_{s ≤ min(t, W)} exp(x_t - a_t)\n"
        "output y_{t h} = Σ_{s ≤ min(t, W)} (exp(x_t - a_t) / b_t) exp(q_{t h} q_{s h}) : all"),
    "a largest number of those that are one": (
        "input x_t, q_{t h}\na_t = max_{s, s < t} x_t\nb_t = Σ_{s, s < t} exp(x_t - a_t)\n"
        "output y_{t h} = Σ_{s, s < t} (exp(x_t - a_t) / b_t) exp(-abs(q_{t h} q_{s h})) : all"),
    "the logarithm of nothing": ("input x_t\nmask l_{d u} : u ≥ d\nl_{d u} = 1\n"
                                 "output a_d = logsumexp_u(l_{d u}) : all\noutput y = Σ_t x_t"),
}


def example(name: str) -> Case:
    return Case("guarded", LETTERS + EXAMPLES[name], {"T": 5, "H": 3, "D": 7, "W": 8}, {"doc": ("1", "3")})


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name: str) -> None:
    kernels_agree(example(name), [None, (2, 1)])
    gradients_agree(example(name))


Of = Callable[[dict[str, torch.Tensor]], torch.Tensor]
INTO, BELOW = torch.arange(1, 6)[:, None], torch.arange(1, 6)  # t and s of five positions
# What a sum runs over, what weighs it and what is weighed: the text, and its value for t, s and h
OVER: dict[str, Of] = {
    "{s < t}": lambda g: BELOW < INTO,
    "{s < t, doc_s = doc_t}": lambda g: (BELOW < INTO) & (g["doc"] == g["doc"][:, None]),
    "{s, s ≤ t - W}": lambda g: BELOW <= INTO - 2,
    "{s ∈ S_t}": lambda g: torch.stack([
        torch.isin(BELOW, 1 + g["x"][:n].topk(min(n, 2)).indices) for n in range(5)])}
WEIGHT: dict[str, Of] = {"abs(z_s)": lambda g: g["z"].abs(), "exp(z_s)": lambda g: g["z"].exp(),
                         "exp(z_s - x_t)": lambda g: (g["z"] - g["x"][:, None]).exp(),
                         "1": lambda g: torch.ones(5), "z_s": lambda g: g["z"]}
WORTH: dict[str, Of] = {
    "x_s": lambda g: g["x"][:, None], "q_{s h}": lambda g: g["q"], "(x_s + z_t)": lambda g: (
        g["x"] + g["z"][:, None])[..., None],
    "(1[2 s ≤ T] x_{2 s})": lambda g: torch.cat([g["x"][1::2], g["x"].new_zeros(3)])[:, None],
    "(1[s > 1] x_{s - 1} + z_s)": lambda g: (g["z"] + torch.cat([g["x"].new_zeros(1), g["x"][:-1]]))[:, None]}
SCALE: dict[str, Of] = {" b_h)": lambda g: g["b"], ") tanh(b_h)": lambda g: g["b"].tanh(),  # in the sum, and beside it
                        ") z_t b_h": lambda g: g["z"][:, None] * g["b"]}
# The quotient, or one with heads added up above the stroke or around it
WHOLE = {"y_{t h}": "{0} / {1}", "y_t": "(Σ_h {0}) / {1}", "y_{t}": "Σ_h ({0} / {1})"}
QUOTIENTS = list(product(WHOLE, SCALE, OVER, WEIGHT, WORTH))


@pytest.mark.drawn(2)
@seeds(range(0, len(QUOTIENTS), 13), range(len(QUOTIENTS)))
def test_what_scales_a_quotient_of_sums_over_nothing(seed: int) -> None:
    """The slope of a quotient by 0 is infinite, and may not leave a sum without a point: 0 there, it would be NaN."""
    left, scale, over, weight, worth = QUOTIENTS[seed]
    right = WHOLE[left].format(f"((Σ_{over} {weight} {worth}{scale})", f"(Σ_{over} {weight})")
    run = einc.compile(
        f"{LETTERS}input x_t, z_t, q_{{t h}}, b_h\ninput doc_t : int\nset S_t = topk_{{s < t}}(x_s, W)\n"
        f"output {left} = {right} : all", grad=True,
        backend="torch")
    draw = torch.Generator().manual_seed(seed)
    given = {key: torch.randn(shape, generator=draw) for key, shape in
             {"x": (5,), "z": (5,), "q": (5, 2), "b": (2,)}.items()}
    given["doc"] = torch.randint(1, 4, (5,), generator=draw)
    moved = [x.requires_grad_() for x in given.values() if x.is_floating_point()]
    weights = torch.where(OVER[over](given), WEIGHT[weight](given), 0)[..., None]
    some = weights.sum(1) != 0
    want = (weights * WORTH[worth](given)).sum(1) * SCALE[scale](given) / torch.where(some, weights.sum(1), 1)
    want = want if left == "y_{t h}" else want.expand(5, 2).sum(1)
    cotangent = torch.randn(want.shape, generator=draw)
    asked = inspect.signature(run).parameters
    found = run(**{key: x for key, x in (given | {"W": 2}).items() if key in asked})
    torch.testing.assert_close(found, want)
    pairs = (torch.autograd.grad((x * cotangent).sum(), moved, allow_unused=True, materialize_grads=True)
             for x in (found, want))
    for derived, other in zip(*pairs, strict=True):
        torch.testing.assert_close(derived, other)


@pytest.mark.parametrize("worth", ["x_s", "1"])
def test_a_sum_of_what_is_positive_is_0_over_nothing(worth: str) -> None:
    """So a mean by it is guarded, though each of its terms is positive."""
    text = f"{LETTERS}input x_t\noutput y_t = (Σ_{{s < t}} {worth}) / (Σ_{{s < t}} (1 + abs(x_s)))"
    x = torch.tensor([2.0, -3.0, 4.0])
    above = torch.tensor([0.0, 2.0, -1.0]) if worth == "x_s" else torch.arange(3.0)
    torch.testing.assert_close(einc.compile(text, "torch")(x=x), above / torch.tensor([1.0, 3.0, 7.0]))


@pytest.mark.parametrize("tiles", [None, (2, 1), (3, 4)])
def test_what_is_summed_by_numbers_in_small_tiles(tiles: tuple[int, int] | None) -> None:
    """The gradient of values that chosen elements name: each tile of it counts the numbers from its own first one."""
    text = (f"{LETTERS}input x_t, z_t\ninput doc_t : int\nset S_t = topk_{{s < t}}(x_s, W)\n"
            "output y_t = Σ_{s ∈ S_t} z_{doc_s} : all")
    draw = torch.Generator().manual_seed(0)
    x, z = torch.randn(2, 7, generator=draw)
    doc, z = torch.randint(1, 8, (7,), generator=draw), z.requires_grad_()
    run = front.compile(text, grad=True, backend="torch")
    run = load(cut(run.source, tiles), "text") if tiles else run
    want = torch.stack([z[doc[x[:t].topk(min(t, 3)).indices] - 1].sum() for t in range(7)])
    got = run(x=x, z=z, doc=doc, W=3)
    torch.testing.assert_close(got, want)
    grads = (torch.autograd.grad((y * torch.arange(1.0, 8)).sum(), z)[0] for y in (got, want))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("body", ["(x_s + z_t)", "(1[t > 1] z_{t - 1}) * x_s", "(abs(z_t - 1) - x_s)"])
def test_the_gradient_at_a_position_that_is_none(body: str) -> None:
    """s = p_t has no point where p_t is no position: no value is read there, neither forward nor for the gradient."""
    text = f"{LETTERS}input x_t, z_t\ninput p_t : int\noutput y_t = max(max_{{s, s = p_t}} {body}, -9) : all"
    run = einc.compile(text, grad=True, backend="torch")
    x, z = torch.randn(2, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    at = torch.tensor([5, -1, 2, 0])
    got = run(x=x, z=z, p=at)
    assert (got[[0, 1, 3]] == -9).all()
    found = torch.autograd.grad(got.sum(), (x, z))
    want = {"(x_s + z_t)": x[1] + z[2], "(1[t > 1] z_{t - 1}) * x_s": z[1] * x[1],
            "(abs(z_t - 1) - x_s)": abs(z[2] - 1) - x[1]}[body]
    torch.testing.assert_close(got[2], want)
    torch.testing.assert_close(found, torch.autograd.grad(want, (x, z)))


PAIRS = """
index t, s, u : time(T)
input x_{t s}, v_s
mask L_{t s} : s ≤ t
L_{t s} = Σ_{u < t} x_{u s}
output y_t = Σ_s softmax_s(L_{t s}) v_s
"""


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("seed", range(4))
def test_what_overflows_where_no_value_is_reaches_no_gradient(backend: str, seed: int) -> None:
    """Exponentials that the text has for s ≤ t alone are stored for all pairs, and are ∞ at some of the others."""
    if backend == "cpp" and not COMPILER:
        pytest.skip("no C++ compiler is found")
    torch.manual_seed(seed)
    x, v = torch.randn(9, 9, dtype=torch.float64), torch.randn(9, dtype=torch.float64)
    x[0, 2], x[1, 3 + seed] = 800, 900
    x.requires_grad_()
    L = torch.cumsum(x, 0) - x
    L = L.masked_fill(~torch.ones(9, 9).tril().bool(), -torch.inf)
    want = torch.autograd.grad((torch.softmax(L, 1) @ v).cos().sum(), x)[0]
    run = front.compile(PAIRS, grad=True, backend=backend)
    got = torch.autograd.grad(run(x=x, v=v).cos().sum(), x)[0]
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
