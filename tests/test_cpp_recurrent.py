"""Compiled kernels of recurrences against other implementations in float64: values, gradients, calls of all kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from cpp_texts import NEEDED, quick, running, torch_computes
from helpers import Function, called, module_of, typed, typed_of
from programs import FILES, Case
from recurrent import LAYERS, Tensors
from test_recurrent import STEEP, error, slopes, wanted

from einc.driver import front, gradients
from einc.ir.plan import Recurrence, StateScan, leaves
from einc.ir.programs import TypedProgram

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]
BOUND = 2e-5
PROCESSORS = ("native", "x86-64-v3", "x86-64")



# The layers without a kernel of a recurrence; named, so that nothing is planned before the first test runs.
OTHERS = ("based", "ssd_sum", "titans_momentum")
CASES = [case for case in FILES if case.name in LAYERS and case.name not in OTHERS]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def program_of(of: Case | str) -> TypedProgram:
    return typed(of) if isinstance(of, str) else typed_of(of)


@cache
def compiled(of: Case | str, grad: bool = False, processor: str = "native") -> Function:
    """The function of a text, with its gradient where it is asked for, its kernels compiled fast."""
    program, options = program_of(of), front.choices(own=True, backend="cpp")
    plan: Any = gradients.gradient(program, options) if grad else front.plan(program, options)
    function: Function = front.load(quick(front.emit(plan, "cpp"), processor=processor), program.name, "cpp")
    return function


def made(case: Case, inputs: Tensors, **how: Any) -> torch.Tensor:
    """The output, when every kernel that was tried ran."""
    function = compiled(case, **how)
    with running(function) as ran:
        result = called(function, typed_of(case), inputs, {})[LAYERS[case.name].output]
    assert ran and all(ran.values()), ran
    return result


@pytest.mark.parametrize("name", LAYERS)
def test_which_layers_have_a_kernel(name: str) -> None:
    """Those of which a step of the plan is a recurrence."""
    (case,) = (case for case in FILES if case.name == name)
    steps = leaves(front.plan(typed_of(case), front.choices(own=True, backend="cpp")).steps)
    assert any(isinstance(step, Recurrence | StateScan) for step in steps) == (case in CASES)


def single(inputs: Tensors) -> Tensors:
    return {name: x.detach().float() for name, x in inputs.items()}


@pytest.mark.drawn(10)
@pytest.mark.parametrize("extreme", [False, True], ids=["drawn", "extreme"])
@pytest.mark.parametrize("steps", [1, 37, pytest.param(333, marks=pytest.mark.whole)])
@each
def test_a_kernel_gives_what_others_compute(case: Case, steps: int, extreme: bool) -> None:
    """In float32, or no further from it than twice torch's statements; with `extreme`, gates that are 0 and 1 to the
    last bit stand among the others."""
    inputs = LAYERS[case.name].inputs(steps, extreme)
    want = wanted(case, inputs)
    far = error(made(case, single(inputs)), want)
    if far > BOUND:
        torches = called(module_of(case), typed_of(case), single(inputs), {})[LAYERS[case.name].output]
        assert far <= 2 * error(torches, want)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("steps", [6, *(pytest.param(n, marks=pytest.mark.whole) for n in (2, 64, 101))])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=[pytest.mark.whole] * (n % 3 > 0))
                                  for n, case in enumerate(CASES)])
def test_a_gradient_of_kernels_is_that_of_autograd(case: Case, steps: int) -> None:
    """Autograd goes through the other implementation in float64; of torch's own kernels in float32 the error counts."""
    inputs = {name: x.requires_grad_() for name, x in LAYERS[case.name].inputs(steps).items()}
    want = slopes(wanted(case, inputs), inputs)
    given = {name: x.requires_grad_() for name, x in single(inputs).items()}
    got = slopes(made(case, given, grad=True).double(), given)
    with torch_computes(compiled(case, grad=True)):
        function = compiled(case, grad=True)
        torches = slopes(called(function, typed_of(case), given, {})[LAYERS[case.name].output].double(), given)
    for name, slope in want.items():
        bound = max(BOUND, 2 * error(torches[name], slope))
        assert error(got[name], slope) <= bound, name


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", [case for case in CASES if case.name in STEEP], ids=lambda case: case.name)
def test_a_decay_that_leaves_nothing_of_a_state(case: Case) -> None:
    """A factor of about e^-100 at each step for some features or heads."""
    name, value = STEEP[case.name]
    inputs = LAYERS[case.name].inputs(37)
    inputs[name][..., 0] = value
    inputs |= {"A": -torch.ones_like(inputs["A"])} if case.name in ("ssd", "mamba1") else {}
    assert error(made(case, single(inputs)), wanted(case, inputs)) <= BOUND


@pytest.mark.whole
@each
def test_half_the_digits_go_through_the_same_kernels(case: Case) -> None:
    """bfloat16: as near as torch's statements, for both round gates to it."""
    inputs = LAYERS[case.name].inputs(37)
    given, want = {name: x.to(torch.bfloat16) for name, x in inputs.items()}, wanted(case, inputs)
    got = made(case, given)
    assert got.dtype == torch.bfloat16
    torches = called(module_of(case), typed_of(case), given, {})[LAYERS[case.name].output]
    assert error(got, want) <= max(2e-2, 1.5 * error(torches, want))


# all that a text may say, and that a call may be

TEXT = """index t : time(T)
index b : batch(B)
index h : head(H)
index d, k : feature(D)
index e : feature(E)
input q_{b t h}^d, k_{b t h}^d, v_{b t h}^e, β_{t b}, g_{t h}^d, p_t^d
input R_{b h}^{d e}
S_{b h}^{d e} = R_{b h}^{d e}
for t in 1..T:
    z_{b t h}^e = p_{t d} S_{b h}^{d e}
    G_{b h}^{d e} = g_{t h}^d S_{b h}^{d e}
    M_{b h}^{d e} = G_{b h}^{d e} + k_{b t h}^d v_{b t h}^e
    N_{b h}^{d e} = M_{b h}^{d e} - β_{t b} k_{b t h}^d k_{b t h k} G_{b h}^{k e} + p_t^d v_{b t h}^e
    output y_{b t h}^e = q_{b t h d} N_{b h}^{d e} + p_{t d} N_{b h}^{d e} + z_{b t h}^e
    S_{b h}^{d e} ← N_{b h}^{d e}
output Z_{b h}^{d e} = S_{b h}^{d e}
"""
LETTERS = {"q": "bthd", "k": "bthd", "v": "bthe", "beta": "tb", "g": "thd", "p": "td", "R": "bhde"}


def drawn(T: int, B: int, H: int, D: int, E: int, dtype: torch.dtype = torch.float64) -> Tensors:
    """Inputs of the text; keys of about length 1, gates between -1 and 1, some of them 0."""
    sizes, generator = {"t": T, "b": B, "h": H, "d": D, "e": E}, torch.Generator().manual_seed(T + D)
    found = {name: torch.randn([sizes[x] for x in axes], generator=generator, dtype=torch.float64)
             for name, axes in LETTERS.items()}
    for name in ("k", "p"):
        found[name] /= max(D, 1) ** 0.5
    found["g"] = torch.tanh(found["g"]) * (found["g"] < 1)
    return {name: x.to(dtype) for name, x in found.items()}


def looped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor, g: torch.Tensor, p: torch.Tensor,
           R: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the text means: a loop over positions."""
    state, made = R, [v[:, :0]]
    for t in range(q.shape[1]):
        before = torch.einsum("d,bhde->bhe", p[t], state)
        gated = g[t, None, :, :, None] * state
        seen = torch.einsum("bhd,bhde->bhe", k[:, t], gated)
        state = (gated + torch.einsum("bhd,bhe->bhde", k[:, t], v[:, t] - beta[t, :, None, None] * seen)
                 + torch.einsum("d,bhe->bhde", p[t], v[:, t]))
        y = torch.einsum("bhd,bhde->bhe", q[:, t] + p[t], state) + before
        made.append(y[:, None])
    return torch.cat(made, 1), state


SIZES = [(37, 2, 3, 5, 7), (1, 1, 1, 1, 1), (65, 1, 2, 19, 33), (32, 3, 1, 16, 64), (0, 2, 1, 3, 4),
         (31, 1, 1, 40, 130), (5, 0, 2, 3, 4)]


@pytest.mark.drawn(10)
# The first has more than one chunk, which a gradient goes back through.
@pytest.mark.parametrize(("sizes", "processor"), [
    pytest.param(sizes, one, id=f"{sizes}-{one}") for sizes in SIZES for one in PROCESSORS])
def test_any_size_on_any_processor(sizes: tuple[int, ...], processor: str) -> None:
    """Writes of all three kinds, reads before and after, a gate for each row, axes that operands lack; with gradients.
    Columns that fill no vector, units that fill no thread, no positions, no units."""
    inputs = drawn(*sizes)
    want = looped(**{name: x.requires_grad_() for name, x in inputs.items()})
    given = {name: x.requires_grad_() for name, x in single(inputs).items()}
    function = compiled(TEXT, grad=True, processor=processor)
    with running(function) as ran:
        got = tuple(called(function, typed(TEXT), given, {}).values())
        weights = [torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) for x in want]
        losses = [torch.stack([(x.double() * w).sum() for x, w in zip(some, weights, strict=True)]).sum()
                  for some in (got, want)]
        found, slopes_wanted = (torch.autograd.grad(loss, list(of.values()), allow_unused=True, materialize_grads=True)
                                for loss, of in zip(losses, (given, inputs), strict=True))
    assert ran and all(ran.values()), ran
    for x, y in zip((*got, *found), (*want, *slopes_wanted), strict=True):
        assert x.shape == y.shape
        assert not x.numel() or error(x, y) <= BOUND


def test_any_strides_and_any_number_of_threads() -> None:
    """The same bits from inputs that lie otherwise and from any number of threads."""
    function, given = compiled(TEXT), drawn(37, 2, 3, 5, 40, torch.float32)
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        for lay in (torch.Tensor.contiguous, lambda x: x.transpose(0, -1).contiguous().transpose(0, -1)):
            found.append(called(function, typed(TEXT), {name: lay(x) for name, x in given.items()}, {}))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(other[key], y) for key, y in found[0].items())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_reaches_what_it_should(value: float) -> None:
    """From the position on where it stands, in its unit alone."""
    inputs = drawn(37, 2, 3, 5, 7)
    inputs["v"][1, 20, 2, 3] = value
    got, _ = called(compiled(TEXT), typed(TEXT), single(inputs), {}).values()
    want, _ = looped(**inputs)
    assert torch.equal(got.isfinite(), want.isfinite())
    assert got[:, :20].isfinite().all() and not got[1, 20, 2, 3].isfinite() and got[0].isfinite().all()


LARGEST = """index t : time(T)
index h : head(H)
input g_{t h}, a_{t h}
m_h = -∞
for t in 1..T:
    n_h = max(m_h + g_{t h}, a_{t h})
    output y_{t h} = n_h
    m_h ← n_h
"""


def test_a_largest_value_that_decays() -> None:
    g, a = torch.randn(2, 300, 37, generator=torch.Generator().manual_seed(0)).unbind()
    a[7, 3], g[9, 4] = float("nan"), -float("inf")
    function, m, want = compiled(LARGEST), torch.full((37,), -float("inf")), []
    for t in range(300):
        m = torch.maximum(m + g[t], a[t])
        want.append(m)
    with running(function) as ran:
        got = called(function, typed(LARGEST), {"g": g, "a": a}, {})["y"]
    assert ran == {"k0_largest": True}
    torch.testing.assert_close(got, torch.stack(want), equal_nan=True)


@pytest.mark.whole
def test_many_positions_in_single_precision() -> None:
    """65,536 positions, with decays that no float32 holds the product of."""
    inputs = drawn(2, 1, 1, 4, 16)
    inputs = {name: x.repeat_interleave(32768, LETTERS[name].index("t")) if "t" in LETTERS[name] else x
              for name, x in inputs.items()}
    generator = torch.Generator().manual_seed(1)
    for name in ("q", "k", "v"):
        inputs[name] = torch.randn(inputs[name].shape, generator=generator, dtype=torch.float64) / 2
    inputs["g"] = torch.exp(-torch.rand(inputs["g"].shape, generator=generator, dtype=torch.float64) * 3)
    got, _ = called(compiled(TEXT), typed(TEXT), single(inputs), {}).values()
    assert error(got, looped(**inputs)[0]) <= BOUND


def test_a_compiled_graph_and_a_vmap_leave_it_to_torch() -> None:
    function, given = compiled(TEXT), drawn(9, 2, 1, 3, 4, torch.float32)
    want = function(**given)
    graph = torch.compile(lambda q: function(**{**given, "q": q})[0], backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(graph(given["q"]), want[0])
    with torch.no_grad():
        mapped = torch.func.vmap(lambda q: function(**{**given, "q": q})[0])(torch.stack([given["q"]] * 2))
    torch.testing.assert_close(mapped[1], want[0])
