"""What a careful user found in rounds over positions: each against a loop in plain torch, or refused with a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from cpp_texts import COMPILER
from helpers import typed

import einc
from einc.driver.cli import main
from einc.errors.report import EincError, Problem

HEAD = "index t, s : time(T)\nindex d : feature(D)\ninput x_t, a_t, v_t^d, y_{t s}\n"
Tensors = dict[str, torch.Tensor]


def drawn(T: int = 7, D: int = 3) -> Tensors:
    generator = torch.Generator().manual_seed(T)
    shapes = {"x": (T,), "a": (T,), "v": (T, D), "y": (T, T)}
    return {key: torch.randn(*shape, generator=generator, dtype=torch.float64) / 2 for key, shape in shapes.items()}


def given(text: str, found: Tensors) -> Tensors:
    """The inputs that the program of a text has."""
    keys = {t.key for t in typed(text).inputs()}
    return {key: x for key, x in found.items() if key in keys}


Loop = Callable[..., torch.Tensor]


def positions(act: Loop, number: Callable[[int], float]) -> Loop:
    """u_t = act(x_t + sum over s < t of y_{t s} w_s u_s), w_s a number of the position."""
    def loop(x: torch.Tensor, y: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
        made: list[torch.Tensor] = []
        for t in range(len(x)):
            past = [y[t, s] * number(s + 1) * made[s] for s in range(t)]
            made.append(act(x[t] + sum(past, torch.zeros((), dtype=x.dtype))))
        return torch.stack(made)
    return loop


def squared(x: torch.Tensor, a: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
    made = [torch.zeros((), dtype=x.dtype)]
    for t in range(len(x)):
        made.append(a[t] * made[-1] ** 2 + x[t])
    return torch.stack(made[1:])


def shifted(x: torch.Tensor, a: torch.Tensor, v: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
    """2 h_{t-1} of h_t = a_t h_{t-1} + v_t from 3."""
    made = [torch.full_like(v[0], 3.0)]
    for t in range(len(x)):
        made.append(a[t] * made[-1] + v[t])
    return 2 * torch.stack(made[:-1])


SUMS = "output u_t = {}(x_t + Σ_{{s < t}} y_{{t s}} w_s u_s)"
RIGHT: dict[str, tuple[str, Callable[..., torch.Tensor]]] = {
    # numbers of positions alone, read at other positions than the round's own
    "tanh": ("w_t = t\n" + SUMS.format("tanh"), positions(torch.tanh, float)),
    "affine": ("w_t = t\n" + SUMS.format(""), positions(lambda z: z, float)),
    "inverse": ("w_s = 1/s\n" + SUMS.format("tanh"), positions(torch.tanh, lambda n: 1 / n)),
    "gate": ("w_t = 1[t > 2]\n" + SUMS.format("tanh"), positions(torch.tanh, lambda n: float(n > 2))),
    "block": ("w_t = t\nz = 0\nfor t in 1..T:\n    u_t = tanh(x_t + Σ_{s < t} y_{t s} w_s u_s)\n"
              "    output k_t = u_t + 0 z\n    z ← u_t", positions(torch.tanh, float)),
    # a circle of two equations, whatever their order
    "circle": ("z_0 = 0\noutput z_t = a_t w_t + x_t\nw_t = (z_{t-1})^2", squared),
    "circle, other order": ("w_t = (z_{t-1})^2\nz_0 = 0\noutput z_t = a_t w_t + x_t", squared),
    # what stands before the first position, for every reader
    "another reader": ("h_0^d = 3\nh_t^d = a_t h_{t-1}^d + v_t^d\noutput k_t^d = 2 h_{t-1}^d", shifted),
    "in rounds": ("h_0^d = 3\nz = 0\nfor t in 1..T:\n    h_t^d = a_t h_{t-1}^d + v_t^d\n    z ← z + x_t\n"
                  "output k_t^d = 2 h_{t-1}^d + 0 z : all", shifted),
    "rounds without a state": ("z_0 = 0\nfor t in 1..T:\n    output z_t = a_t (z_{t-1})^2 + x_t", squared),
    "a root of a magnitude": ("output z_t = √|x_t| + √⌈|x_t|⌉",
                              lambda x, **_: x.abs().sqrt() + x.abs().ceil().sqrt()),
}


@pytest.mark.parametrize("name", RIGHT)
def test_rounds_are_what_a_loop_gives(name: str) -> None:
    """The interpreter, the emitted module, and its gradient."""
    text, loop = RIGHT[name]
    text, found = HEAD + text + "\n", drawn()
    inputs = {key: x.requires_grad_() for key, x in given(text, found).items()}
    want = loop(**found)
    (meant,) = einc.interpret(text, {key: x.detach().numpy() for key, x in inputs.items()}).values()
    np.testing.assert_allclose(meant, want.detach().numpy(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(einc.compile(text, backend="torch")(**inputs), want, rtol=1e-10, atol=1e-12)
    got = einc.compile(text, backend="torch", grad=True)(**inputs)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    weights = torch.linspace(0.5, 2, want.numel(), dtype=want.dtype).view(want.shape)
    slopes = [torch.autograd.grad((y * weights).sum(), list(inputs.values()), allow_unused=True,
                                  materialize_grads=True) for y in (got, want)]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_table_of_positions_is_made_a_row_at_a_time() -> None:
    """A round makes its own row of what it reads no other row of."""
    text = ("index t, s, u : time(T)\ninput a_t\nP_{t s} = prod_{u, s < u, u ≤ t} 2, s ≤ t\n"
            "X_t = a_t + Σ_{s < t} a_t P_{t s} X_s\noutput y_t = X_t\n")
    done = CliRunner().invoke(main, ["show", "-", "--stage", "normal"], input=text)
    assert "    P_{t s} = " in done.output


CALLED = "index t : time(T)\ninput x_t\nz = 0\nfor t in 1..T:\n    output o_t = 2 z + x_t\n    z ← z + x_t\n"


def test_a_called_spec_may_make_its_output_in_rounds(tmp_path: Path) -> None:
    (tmp_path / "inner.ein").write_text(CALLED, encoding="utf-8")
    (tmp_path / "outer.ein").write_text('index t : time(T)\ninput X_t\noutput Y_t = "inner"(x = X_t)\n',
                                        encoding="utf-8")
    x = drawn()["x"]
    made = einc.compile(str(tmp_path / "outer.ein"), backend="torch")(X=x)
    torch.testing.assert_close(made, 2 * x.cumsum(0) - x)


REFUSED = {
    "a range that never runs": ("E0118", "z = 1\nfor t in T..3:\n    z ← a_t z + x_t\noutput z",
                                "t in T..1, 3 ≤ t"),
    "the index in an end of its range": ("E0118", "z = 0\nfor s in 1..s:\n    z ← z + x_s\noutput z", "1..T"),
    "a state with the index of the rounds": ("E0118", "z_t = 0\nfor t in 1..T:\n    z_t ← z_t + x_t\noutput z_t",
                                             "a state has one value"),
    "nothing before the first position": ("E0601", "output h_t = a_t h_{t-1} + x_t", "h_{0} = 0"),
    "rounds over some elements without a state": ("E0507", "for t in 2..T:\n    output k_t = a_t + x_t", "1[…]"),
    "a value of some rounds alone": ("E0507", "z = 0\nfor t in 2..T:\n    n_t = z + x_t\n    z ← n_t\noutput k_t = n_t",
                                     "1[…]"),
    "a value beside some rounds alone": ("E0507", "z = 0\nfor t in 2..T:\n    n_t = 2 x_t\n    z ← z + x_t\n"
                                         "output k_t = n_t\noutput z", "1[…]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_to_write(name: str) -> None:
    code, text, way = REFUSED[name]
    done = CliRunner().invoke(main, ["check", "-"], input=HEAD + text + "\n")
    assert done.exit_code == 1 and code in done.output and way in done.output, done.output


def test_the_line_that_is_offered_mends_it() -> None:
    text = HEAD + "output h_t = a_t h_{t-1} + x_t\n"
    (mended,) = (h for p in _problems(text) for h in p.helps if h.new is not None and h.span is not None)
    found = text[: mended.span.start] + mended.new + text[mended.span.end :]
    assert [t.key for t in typed(found).inputs()] == ["x", "a"]


def _problems(text: str) -> list[Problem]:
    with pytest.raises(EincError) as told:
        einc.compile(text)
    return list(told.value.problems)


def test_a_state_that_depends_on_the_length_is_not_served() -> None:
    with pytest.raises(EincError, match="number of positions"):
        einc.compile(HEAD + "z = 0\nfor t in 1..T:\n    n = z + x_t / T\n    output k_t = n\n    z ← n\n", plan="serve")


def test_a_pool_is_refused_where_only_states_are_kept() -> None:
    model = einc.compile(HEAD + "z = 0\nfor t in 1..T:\n    output k_t = z + x_t\n    z ← z + x_t\n", plan="serve")
    with pytest.raises(ValueError, match="no pool"):
        model.pool(8)


GUARDED = ("index t : time(T)\ninput x_t\ninput p_t : int\n"
           "output y_t = 1[1 ≤ p_t and p_t < t] x_{p_t} + x_t : all\n")


@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=pytest.mark.skipif(
    not COMPILER, reason="no C++ compiler is found"))])
def test_a_place_is_read_where_its_condition_holds(backend: str) -> None:
    x, p = torch.arange(1.0, 6.0), torch.tensor([0, 1, 9, -3, 2])
    made = einc.compile(GUARDED, backend=backend)(x=x, p=p)
    assert made.tolist() == [1.0, 3.0, 3.0, 4.0, 7.0]
    free = einc.compile(GUARDED.replace("1[1 ≤ p_t and p_t < t] ", ""), backend=backend)
    with pytest.raises(IndexError):
        free(x=x, p=p)


def test_random_numbers_that_grow_are_tried_on_fewer_positions() -> None:
    """A state that each position multiplies leaves float32; sizes that somebody gives stay."""
    text = HEAD + "z = 1\nfor t in 1..T:\n    output k_t = z + x_t\n    z ← 4 z + a_t\n"
    done = CliRunner().invoke(main, ["run", "-", "--verify"], input=text)
    assert done.exit_code == 0 and "sizes        T = 64: " in done.output, done.output
    done = CliRunner().invoke(main, ["run", "-", "--verify", "--sizes", "T=128"], input=text)
    assert done.exit_code == 1 and "sizes  " not in done.output, done.output


GATED = (HEAD + "index e : feature(E)\ninput g_t^e, w_t^e\nS^{d e} = 0\nfor t in 1..T:\n"
         "    S'^{d e} = g_t^e S^{d e} + v_t^d w_t^e\n    output o_t^d = Σ_e S'^{d e}\n    S^{d e} ← S'^{d e}\n")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("gate", [1e10, 1e18, 0.0, -1.0])
@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=pytest.mark.skipif(
    not COMPILER, reason="no C++ compiler is found"))])
def test_gates_of_any_size_have_gradients(backend: str, gate: float) -> None:
    """Gates far above 1, those that undo them later, 0 and −1, in two tiles: as in a loop in float64."""
    draw = torch.Generator().manual_seed(0)
    g = torch.rand(70, 2, generator=draw)
    v, w = (torch.randn(70, 2, generator=draw) for _ in range(2))
    g[10::11], g[13::11] = gate, 1 / gate if gate > 1 else 0.5
    cotangent = torch.randn(70, 2, generator=draw)

    def loop(g: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        state, found = torch.zeros(2, 2, dtype=g.dtype), []
        for t in range(70):
            state = g[t] * state + v[t, :, None] * w[t]
            found.append(state.sum(1))
        return torch.stack(found)

    wanted = [x.double().requires_grad_() for x in (g, v, w)]
    mine = [x.requires_grad_() for x in (g, v, w)]
    made = einc.compile(GATED, backend, grad=True)(**dict(zip("gvw", mine, strict=True)))
    found = torch.autograd.grad((made * cotangent).sum(), mine)
    right = torch.autograd.grad((loop(*wanted) * cotangent).sum(), wanted)
    for one, other in zip((made, *found), (loop(*wanted), *right), strict=True):
        assert (one.double() - other).norm() <= 1e-5 * other.norm()


@pytest.mark.parametrize("output", ["output y_t", "output z_t = 2 y_t"])
def test_rounds_that_run_down_are_told_by_the_names_of_the_text(output: str) -> None:
    """What is made from the last position down depends on later ones; the way out is a text without a problem."""
    text = f"index t : time(T)\ninput a_t, x_t\nS = 0\nfor t in T..1:\n    y_t = S\n    S ← a_t S + x_t\n{output}\n"
    with pytest.raises(EincError) as found:
        einc.compile(text)
    assert "run from the last position down" in str(found.value) and "y_down" not in str(found.value)
    einc.compile(text.rstrip() + " : all\n")
