"""Emitted files with gradients: operators that torch's own checks accept, whatever torch does with them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from gradients import FORWARD, layers, looked_up, weighted
from helpers import arrays, called, each, module_of, tensors, typed_of
from programs import CASES, Case
from torch.export import Dim, export
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint
from triton_modes import interpreted

import einc
from einc.backends.triton import record, tune
from einc.driver import front
from einc.driver.cli import main
from einc.ir.plan import Gradient, SegmentedModule

Tensors = dict[str, torch.Tensor]


def loaded(gradient: Gradient | SegmentedModule, backend: str = "torch") -> Callable[..., Any]:
    return front.load(front.emit(gradient, backend), gradient.name, backend)


def operators(function: Callable[..., Any]) -> tuple[Any, Any]:
    return function.__globals__["_forward_op"], function.__globals__["_backward_op"]


def heads(T: int = 5, dtype: torch.dtype = torch.float64) -> Tensors:
    torch.manual_seed(T)
    return {name: torch.randn(2, T, 4, dtype=dtype, requires_grad=True) for name in "QKV"}


def plain(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in eager torch."""
    logits = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(torch.ones(len(Q[0]), len(Q[0])).triu(1).bool(), -torch.inf)
    return logits.softmax(-1) @ V, logits.logsumexp(-1)


def both(result: Any) -> torch.Tensor:
    """A number that every result has a share in."""
    return sum(((n + 1) * x.square().sin().sum() for n, x in enumerate(result)), torch.tensor(0.0))


def gradients(value: torch.Tensor, given: Tensors) -> list[torch.Tensor]:
    return list(torch.autograd.grad(value, list(given.values()), materialize_grads=True))


def test_gradients_are_those_of_plain_torch() -> None:
    function, given = loaded(weighted(True)), heads()
    assert torch.autograd.gradcheck(lambda Q, K, V: tuple(function(Q=Q, K=K, V=V)), tuple(given.values()))
    for mine, theirs in zip(gradients(both(function(**given)), given), gradients(both(plain(**given)), given),
                            strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shown", [True, False])
def test_torch_accepts_the_operators(shown: bool) -> None:
    forward, backward = operators(loaded(weighted(shown)))
    given = tuple(heads().values())
    made = forward(*given)
    opcheck(forward, given)
    Q, K, V, Y, lse = (x.detach() for x in (*given, *made))
    for wanted in (7, 2):
        opcheck(backward, (Q, K, V, Y, torch.randn_like(Y), lse, *[torch.randn_like(lse)] * shown, wanted))


def test_torch_accepts_whole_numbers_and_sizes() -> None:
    function = loaded(looked_up())
    forward, backward = operators(function)
    w, E = torch.tensor([1, 2, 0, 2], dtype=torch.int32), torch.randn(4, 3, requires_grad=True)
    opcheck(forward, (w, E, 3))
    opcheck(backward, (w, E.detach(), torch.randn(4, 3), 3))
    made = function(w=w, E=E, W=3)
    assert made.y.requires_grad and not made.n.requires_grad
    made.y.sum().backward()
    assert torch.equal(E.grad, torch.tensor([3.0, 3, 6, 0])[:, None].expand(4, 3))
    with pytest.raises(IndexError, match="w holds values from 1 to 9, 0 to 3 are expected"):
        function(w=torch.tensor([1, 9]), E=E, W=3)


def test_a_result_that_is_not_used_counts_as_zeros() -> None:
    function, given = loaded(weighted(True)), heads()
    read = [given["Q"], given["K"]]  # V has no share in the second
    for at in range(2):
        found = torch.autograd.grad(function(**given)[at].square().sum(), read)
        for mine, theirs in zip(found, torch.autograd.grad(plain(**given)[at].square().sum(), read), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_nothing_is_saved_where_nothing_is_asked() -> None:
    function, given = loaded(weighted(False)), heads()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):  # type: ignore[func-returns-value]
        assert not function(**{k: x.detach() for k, x in given.items()}).requires_grad
        with torch.no_grad():
            assert not function(**given).requires_grad
        assert not saved
        assert function(**given).requires_grad
    assert len(saved) == 5


def test_where_no_gradient_is_asked_a_library_may_be_called() -> None:
    text = FORWARD.replace("output lse_{h t} = logsumexp_s(L_{h t s})\n", "")
    function, given = einc.compile(text, "torch", grad=True), heads(dtype=torch.float32)
    space = function.function.__globals__
    opcheck(space["_plain_op"], tuple(x.detach() for x in given.values()))
    asked = function(**given)
    with torch.no_grad():
        plain = function(**given)
        space["_forward_op"] = None  # is not called
        compiled = torch.compile(lambda given: function(**given), fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(given), plain) and not plain.requires_grad
    assert asked.requires_grad
    torch.testing.assert_close(asked, plain)


def test_a_gradient_has_no_gradient() -> None:
    function, given = loaded(weighted(False)), heads()
    (first,) = torch.autograd.grad(function(**given).square().sum(), given["Q"], create_graph=True)
    with pytest.raises(RuntimeError, match="gradients of gradients are not derived"):
        first.sum().backward()


def tangent(function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The forward derivative in the direction of x itself."""
    with torch.autograd.forward_ad.dual_level():
        made: torch.Tensor = torch.autograd.forward_ad.unpack_dual(
            function(torch.autograd.forward_ad.make_dual(x, x))).tangent
        return made


FORWARDS: dict[str, Callable[..., Any]] = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1], "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "tangent": tangent, "hessian": lambda f, x: torch.func.hessian(f)(x),
}
BACKWARDS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x: torch.func.grad(f)(x), "vjp": lambda f, x: torch.func.vjp(f, x)[1](torch.ones_like(f(x)))[0],
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "grad in vmap": lambda f, x: torch.func.vmap(torch.func.grad(f))(torch.stack([x, x * 2, -x])),
    "grad in vmaps": lambda f, x: torch.func.vmap(torch.func.vmap(torch.func.grad(f)), 1)(
        torch.stack([x, x * 2, -x, x / 3]).unflatten(0, (2, 2))),
    "vmap in grad": lambda f, x: torch.func.grad(lambda y: torch.func.vmap(f)(torch.stack([y, y * 2])).sum())(x),
    "vmap": lambda f, x: torch.func.vmap(f)(torch.stack([x, x * 2, -x])),
    "backward of vmap": lambda f, x: torch.autograd.grad(
        torch.func.vmap(f, 2)(y := torch.stack([x, -x], 2).requires_grad_()).sum(), y)[0],
}
TRANSFORMS = {**FORWARDS, **BACKWARDS}


@pytest.mark.parametrize("transform", FORWARDS)
@pytest.mark.parametrize("name", "QKV")
def test_derivatives_that_are_not_derived_are_refused(transform: str, name: str) -> None:
    """An operator has no forward derivative, which torch would take for 0."""
    given = {key: x.detach() for key, x in heads().items()}
    function = loaded(weighted(False))
    with pytest.raises(RuntimeError, match=r"gradients are derived backwards"):
        FORWARDS[transform](lambda x: function(**{**given, name: x}).sum(), given[name])


@pytest.mark.parametrize("transform", BACKWARDS)
@pytest.mark.parametrize("name", "QKV")
def test_transforms_of_torch_are_those_of_eager_torch(transform: str, name: str) -> None:
    """Of one input, of samples of one input beside others that all samples share, within each other."""
    given = {key: x.detach() for key, x in heads().items()}
    function = loaded(weighted(False))
    want, got = (BACKWARDS[transform](lambda x, f=f: f(**{**given, name: x}).square().sum(), given[name])
                 for f in (lambda **given: plain(**given)[0], function))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_below_a_transform_a_call_of_a_library_is_not_asked() -> None:
    """No sample tells there that a gradient is asked of all of them."""
    function, x = einc.compile("sdpa", "torch", grad=True), torch.randn(2, 1, 2, 5, 4, dtype=torch.float64)
    assert "_plain_op" in function.function.__globals__
    attention = torch.nn.functional.scaled_dot_product_attention
    want, got = (torch.func.grad(lambda y, f=f: torch.func.vmap(f)(y).square().sum())(x) for f in (
        lambda q: attention(q, q, q, is_causal=True), lambda q: function(q, q, q)))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_gradients_of_each_sample_for_all_arguments() -> None:
    """With results that have none, weights that all samples share, and whole numbers; of no samples too."""
    text = """index t, s : time(T)
index v : vocab(W)
index d : feature(D)
input w_t : int
weight E_v^d, M_d
output n_t = w_t + 1
output y_t = Σ_{s ≤ t} exp(E_{w_s}^d M_d)"""
    function, draw = einc.compile(text, "torch", grad=True), torch.Generator().manual_seed(1)
    E, M = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((4, 3), (3,)))
    w = torch.randint(1, 5, (5, 6), generator=draw)

    def loss(E: torch.Tensor, M: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = function(w=w, E=E, M=M)
        return (made.y * made.n).sum()

    for count in (5, 0):
        found = torch.func.vmap(torch.func.grad(loss, (0, 1)), (None, None, 0))(E, M, w[:count])
        one = [torch.autograd.grad(loss(a := E.clone().requires_grad_(), b := M.clone().requires_grad_(), some), (a, b))
               for some in w[:count]]
        assert [x.shape for x in found] == [(count, 4, 3), (count, 3)]
        assert all(torch.equal(x[n], y) for n, both in enumerate(one) for x, y in zip(found, both, strict=True))
    parts = function(w=w[0], E=E, M=M)
    mapped = torch.func.vmap(lambda w: function(w=w, E=E, M=M))(w)
    assert type(mapped) is type(parts) and torch.equal(mapped.n[0], parts.n) and torch.equal(mapped.y[0], parts.y)


def test_gradients_of_each_sample_for_the_weights_of_a_module() -> None:
    text = "index t, s : time(T)\nindex d : feature(D)\ninput x_t^d\nweight M_d\noutput y_t = Σ_{s ≤ t} exp(x_s^d M_d)"
    layer = einc.compile(text, module=True, grad=True).module(D=3, dtype=torch.float64)
    weights, x = dict(layer.named_parameters()), torch.randn(4, 5, 3, dtype=torch.float64)
    found = torch.func.vmap(torch.func.grad(lambda w, x: torch.func.functional_call(layer, w, (x,)).sum()),
                            (None, 0))({key: w.detach() for key, w in weights.items()}, x)
    for n, one in enumerate(x):
        want = torch.autograd.grad(layer(one).sum(), [*weights.values()])
        assert all(torch.equal(found[key][n], w) for key, w in zip(weights, want, strict=True))


def test_an_operator_of_many_tensors_has_them_in_torch_func() -> None:
    """More tensors than an operator may have arguments are one list, which a function of torch cannot have."""
    count = 70
    names = [f"x_{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count)]
    text = "index t : time(T)\n" + "".join(f"input {name}_t\n" for name in names) + "output y_t = " + " + ".join(
        f"{n + 1} {name}_t {names[n - 1]}_t" for n, name in enumerate(names))
    function, draw = einc.compile(text, "torch", grad=True), torch.Generator().manual_seed(1)
    given = [torch.randn(2, 4, generator=draw, dtype=torch.float64) for _ in names]
    found = torch.func.vmap(torch.func.grad(lambda *some: function(*some).sum(), tuple(range(0, count, 9))))(*given)
    for n, x in zip(range(0, count, 9), found, strict=True):
        after = (n + 1) % count
        torch.testing.assert_close(x, (n + 1) * given[n - 1] + (after + 1) * given[after])


def test_second_derivatives_of_torch_func_are_refused() -> None:
    given = {key: x.detach() for key, x in heads().items()}
    function = loaded(weighted(False))
    first = torch.func.grad(lambda x: function(**{**given, "Q": x}).square().sum())
    with pytest.raises(RuntimeError, match="gradients of gradients are not derived"):
        torch.func.grad(lambda x: first(x).sum())(given["Q"])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", "QKV")
def test_without_a_gradient_derivatives_are_those_of_torch_or_refused(transform: str, name: str) -> None:
    """A function says that it was compiled without its gradient, or torch has the right one of its statements."""
    given = {key: x.detach()[None] for key, x in heads().items()}
    function, differentiate = einc.compile("sdpa", "torch", own=True), TRANSFORMS[transform]

    def eager(x: torch.Tensor) -> torch.Tensor:
        q, k, v = ({**given, name: x}[key] for key in "QKV")
        later = torch.ones(5, 5, dtype=torch.bool).triu(1)
        return ((q @ k.mT / 2).masked_fill(later, -torch.inf).softmax(-1) @ v).sum()

    right = differentiate(eager, given[name])
    try:
        found = differentiate(lambda x: function(**{**given, name: x}).sum(), given[name])
    except (RuntimeError, NotImplementedError) as error:
        assert re.search("was compiled without its gradient|forward AD", str(error))
    else:
        torch.testing.assert_close(found, right)


def test_the_callers_errors_are_those_of_any_file() -> None:
    function, given = loaded(weighted(False)), heads()
    with pytest.raises(ValueError, match=re.escape("K has shape (2, 4, 4), (H, T, d_k) with T = 5 is expected")):
        function(**{**given, "K": given["K"][:, :4]})
    with pytest.raises(TypeError, match=r"V holds torch\.float32, torch\.float64 is expected"):
        function(**{**given, "V": given["V"].float()})
    with pytest.raises(TypeError, match="Q is a int, a tensor is expected"):
        function(**{**given, "Q": 3})


def test_one_text_loaded_twice() -> None:
    first, second = loaded(weighted(False)), loaded(weighted(False))
    assert operators(first)[0] is not operators(second)[0]
    given = heads()
    assert torch.equal(first(**given), second(**given))
    assert loaded(weighted(True)).__globals__["_name"] not in (first.__globals__["_name"], second.__globals__["_name"])


def test_compiled_whole_for_any_length() -> None:
    function = loaded(weighted(True))
    compiled = torch.compile(lambda given: both(function(**given)), fullgraph=True, backend="aot_eager", dynamic=True)
    for T in (5, 9, 1):
        given = heads(T)
        assert all(map(torch.equal, gradients(compiled(given), given), gradients(both(function(**given)), given)))


@pytest.mark.whole
def test_compiled_to_machine_code() -> None:
    function, given = loaded(weighted(True)), heads(dtype=torch.float32)
    compiled = torch.compile(lambda given: both(function(**given)), fullgraph=True)
    for mine, want in zip(gradients(compiled(given), given), gradients(both(function(**given)), given), strict=True):
        torch.testing.assert_close(mine, want)


def test_exported_with_a_length_that_is_not_known() -> None:
    function, T = loaded(weighted(True)), Dim("T", min=2, max=64)
    table, W = loaded(looked_up()), Dim.AUTO

    class Both(torch.nn.Module):
        def forward(self, Q: Any, K: Any, V: Any, w: Any, E: Any, W: Any) -> Any:
            return function(Q=Q, K=K, V=V).Y, table(w=w, E=E, W=W).y

    def given(T: int, W: int) -> tuple[Any, ...]:
        return *(x.detach() for x in heads(T).values()), torch.arange(T) % 3, torch.randn(3, 2), W

    shapes = {**{name: {1: T} for name in "QKV"}, "w": {0: Dim.AUTO}, "E": None, "W": W}
    program = export(Both(), given(5, 7), dynamic_shapes=shapes)
    other = given(9, 4)
    assert all(map(torch.equal, program.module()(*other), Both()(*other)))


def test_checkpointed() -> None:
    function, given = loaded(weighted(True)), heads()
    value = checkpoint(lambda *x: both(function(**dict(zip("QKV", x, strict=True)))), *given.values(),
                       use_reentrant=False)
    assert all(map(torch.equal, gradients(value, given), gradients(both(function(**given)), given)))


def test_autocast_sets_the_type_of_what_goes_in() -> None:
    function, given = loaded(weighted(True)), heads(dtype=torch.float32)
    narrow = {name: x.detach().bfloat16().requires_grad_() for name, x in given.items()}
    want = gradients(both(x.float() for x in function(**narrow)), narrow)
    with torch.autocast("cpu", torch.bfloat16):
        made = function(**{**given, "K": narrow["K"]})
        assert made.Y.dtype == torch.bfloat16
        mixed = {**given, "K": narrow["K"]}
        inside = torch.autograd.grad(both(x.float() for x in made), list(mixed.values()), retain_graph=True)
        assert function(**heads()).Y.dtype == torch.float64
        compiled = torch.compile(lambda given: both(x.float() for x in function(**given)), fullgraph=True,
                                 backend="aot_eager")
        assert all(map(torch.equal, gradients(compiled(mixed), mixed), inside))
    outside = gradients(both(x.float() for x in made), mixed)
    assert [x.dtype for x in inside] == [x.dtype for x in mixed.values()]
    assert all(torch.equal(a, b) and torch.equal(a.bfloat16(), c)
               for a, b, c in zip(inside, outside, want, strict=True))


@pytest.mark.parametrize("shown", [True, False])
def test_triton_has_the_same_gradients(shown: bool) -> None:
    given = heads(T=19, dtype=torch.float32)
    with interpreted():
        function = loaded(weighted(shown), "triton")
        made = function(**given)
        found = gradients(both(made if shown else [made]), given)
    theirs = plain(**given)
    for mine, want in zip(found, gradients(both(theirs if shown else theirs[:1]), given), strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)


# whole programs

NAMES = ["requests", "alibi", "moe", "attention_dropout", "linear_cross_entropy", "expert_choice", "rounds", "unread",
         "two_runs",
         "of_an_empty_size", "decoder_lm"]


@pytest.mark.drawn(2)
@each([case for case in CASES if case.name in NAMES], {})
def test_operators_of_whole_programs(case: Case) -> None:
    """What each call hands to an operator, handed to torch's own checks; the parameters
    are those of the file without gradients."""
    program = typed_of(case)
    function = loaded(front.gradient(program))
    assert inspect.signature(function).parameters.keys() == inspect.signature(module_of(case)).parameters.keys()
    space, calls = function.__globals__, dict[str, tuple[Any, ...]]()
    operators = {name: operator for name, operator in space.items() if name.endswith("_op")}
    for name, operator in operators.items():
        space[name] = lambda *given, name=name, operator=operator: operator(*calls.setdefault(name, given))
    given = tensors(arrays(program, case.sizes, case.ranges))
    real = [key for key, x in given.items() if x.is_floating_point()]

    def found(asked: list[str]) -> list[torch.Tensor | None]:
        mine = given | {key: given[key].detach().requires_grad_() for key in asked}
        made = [x for x in called(function, program, mine, case.sizes).values() if x.requires_grad]
        return list(torch.autograd.grad(made, [mine[key] for key in asked], [torch.ones_like(x) for x in made],
                                        allow_unused=True))

    for key, want in zip(real, found(real), strict=True):
        assert want is None or all(torch.equal(x, want) for x in found([key]) if x is not None)
    assert calls.keys() == operators.keys()
    for name, values in calls.items():
        detached = tuple(x.detach() if isinstance(x, torch.Tensor) else x for x in values)
        opcheck(operators[name], detached, test_utils=("test_schema", "test_faketensor"))


def test_kernels_of_both_halves_have_names_of_their_own() -> None:
    source = einc.compile("attention", backend="triton", grad=True).source
    for names in (re.findall(r"^def (\w+)", source, re.MULTILINE), re.findall(r'_tile\(\s*"(\w+)"', source)):
        assert len(names) == len(set(names))


# rounds

MODEL = """index t, s : time(T)
index h : head(H)
index d : feature(d_k)
index f, g : feature(D)
index v : vocab(0..V-1)
input w_t : int
weight E_v^f, γ^f
H_t^f = E_{w_t}^f
for ℓ in 1..N:
    weight W_{Q h f}^d, W_{K h f}^d, W_{O h d}^f
    mask L_{t s h} : s ≤ t
    L_{t s h} = H_t^f W_{Q h f}^d H_s^g W_{K h g d}
    V_{s h}^d = H_s^g W_{K h g}^d
    Y_{t h}^d = Σ_s softmax_s(L_{t s h}) V_{s h}^d
    H_t^f ← H_t^f + tanh(Σ_h Y_{t h}^d W_{O h d}^f)
Z_t^f = γ^f H_t^f
output O_t^v = Z_t^f E_{v f}
"""


def stack(N: int = 3, T: int = 4, dtype: torch.dtype = torch.float64) -> Tensors:
    torch.manual_seed(N)
    shapes = {"X": (T, 3), "c": (3,), "gamma": (3,), "M": (N, 3, 3)}
    return {name: torch.randn(shape, dtype=dtype, requires_grad=True) for name, shape in shapes.items()}


def stacked(X: torch.Tensor, c: torch.Tensor, gamma: torch.Tensor, M: torch.Tensor) -> torch.Tensor:
    U = c * X
    H = U + X
    for n, m in enumerate(M, 1):
        H = torch.tanh(H @ m) + n * U
    return H * gamma


@pytest.mark.parametrize("N", [3, 1, 0])
def test_rounds_have_gradients(N: int) -> None:
    function, given = loaded(layers()), stack(N)
    made, want = function(**given), stacked(**given)
    torch.testing.assert_close(made, want)
    for mine, theirs in zip(gradients(made.sin().sum(), given), gradients(want.sin().sum(), given), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_rounds_compiled_exported_and_checkpointed() -> None:
    function = loaded(layers())
    compiled = torch.compile(lambda given: function(**given).sin().sum(), fullgraph=True, backend="aot_eager",
                             dynamic=True)
    for T in (4, 7):
        given = stack(T=T)
        want = gradients(function(**given).sin().sum(), given)
        assert all(map(torch.equal, gradients(compiled(given), given), want))
        again = checkpoint(lambda X, c, gamma, M: function(X=X, c=c, gamma=gamma, M=M), *given.values(),
                           use_reentrant=False)
        assert all(map(torch.equal, gradients(again.sin().sum(), given), want))

    class Layers(torch.nn.Module):
        def forward(self, X: Any, c: Any, gamma: Any, M: Any) -> Any:
            return function(X=X, c=c, gamma=gamma, M=M)

    one, other = (tuple(x.detach() for x in stack(T=T).values()) for T in (4, 9))
    program = export(Layers(), one,
                     dynamic_shapes={"X": {0: Dim("T", min=1, max=64)}, "c": None, "gamma": None, "M": None})
    assert torch.equal(program.module()(*other), Layers()(*other))


def test_derived_gradients_of_rounds() -> None:
    """A weight that two pieces read has the sum of what they give."""
    made, plain = (einc.compile(MODEL, grad=grad) for grad in (True, False))
    torch.manual_seed(0)
    shapes = {"E": (5, 3), "gamma": (3,), "W_Q": (2, 2, 3, 2), "W_K": (2, 2, 3, 2), "W_O": (2, 2, 2, 3)}
    given = {name: torch.randn(shape, dtype=torch.float64, requires_grad=True) for name, shape in shapes.items()}
    w = torch.tensor([1, 4, 1, 0])
    # they lie at other places
    torch.testing.assert_close(made(w=w, **given), plain(w=w, **given), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *x: made(w=w, **dict(zip(given, x, strict=True))), tuple(given.values()))
    with pytest.raises(IndexError, match="w holds values from 1 to 5, 0 to 4 are expected"):
        made(w=w + 1, **given)


def test_a_language_model_has_the_gradients_of_differences() -> None:
    case = next(case for case in CASES if case.name == "decoder_lm")
    function, given = einc.compile("decoder_lm", grad=True), tensors(arrays(typed_of(case), case.sizes, case.ranges))
    real = {key: x.requires_grad_() for key, x in given.items() if x.is_floating_point()}
    assert torch.autograd.gradcheck(
        lambda *x: function(**given | dict(zip(real, x, strict=True))), tuple(real.values()), fast_mode=True)


def test_rounds_under_autocast_and_in_triton() -> None:
    given = stack(dtype=torch.float32)
    want = gradients(stacked(**given).sin().sum(), given)
    with torch.autocast("cpu", torch.bfloat16):
        made = loaded(layers())(**given)
    assert made.dtype == torch.bfloat16
    for mine, theirs in zip(gradients(made.float().sin().sum(), given), want, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.1)
    with interpreted():
        found = gradients(loaded(layers(), "triton")(**given).sin().sum(), given)
    for mine, theirs in zip(found, want, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


# around the file


def test_the_class_of_weights_is_trained() -> None:
    layer = einc.compile(MODEL, grad=True, module=True).module
    assert layer is not None and "gradients reach them" in layer.__doc__
    made = layer(D=3, H=2, N=2, V=5, d_k=2)
    made(torch.tensor([1, 4, 1])).sin().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in made.parameters())


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_the_command_writes_it(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "means.ein"
    file.write_text(FORWARD)
    done = CliRunner().invoke(main, ["compile", str(file), "--grad", "--backend", backend, "--module"])
    assert done.exit_code == 0, done.output
    assert "def _backward(" in done.output and "einc" not in re.findall(
        r"^(?:import|from) (\w+)", done.output, re.MULTILINE)
    refused = CliRunner().invoke(main, ["compile", str(file), "--grad", "--target", "sm_90", "-o",
                                        str(tmp_path / "out")])
    assert refused.exit_code == 1 and "--grad is for a Python file" in refused.output


def test_kernels_of_both_halves_are_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EINC_CACHE_DIR", str(tmp_path))
    given = heads(T=5, dtype=torch.float32)
    with interpreted():
        function = loaded(weighted(True), "triton")
        source = front.emit(weighted(True), "triton")
        names = set(re.findall(r'_tile\(\s*"(\w+)"', source))
        halves = [re.findall(r"_run\w*\(_(\w+)_kernel", half) for half in re.split(r"def _\w+ward\(", source)[1:]]
        trials = record.survey(record.emitted(function), {k: x.detach() for k, x in given.items()}, {}, starting=True)
        assert {key[0] for key in trials} == names == {*halves[0], *halves[1]} and all(halves)
        found = tune.tune(function, given, measure=lambda trial: trial.tile[0], show=lambda *_: None)
        assert inspect.unwrap(function).__globals__["TILES"] == found.tiles
        made = function(**given)
        again = gradients(both(made), given)
    for mine, want in zip(again, gradients(both(plain(**given)), given), strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)
