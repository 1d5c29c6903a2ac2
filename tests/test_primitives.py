"""Every row of the table of primitives is true, and is enough for a gradient and for both back ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
import torch
from helpers import Array, typed
from rows import FUNCTIONS, agrees, applied, computed, has_gradient, points
from triton_modes import interpreted

import einc
from einc.backends.host import legal
from einc.backends.host.spelled import TORCH, spells
from einc.backends.torch import emit as torch_emit
from einc.driver import front
from einc.ir.backend import Writable
from einc.ir.elements import Kind
from einc.ir.plan import Let, Map
from einc.ir.primitives import COSTLY, PRIMITIVES, Primitive, X, sign_of
from einc.ir.terms import TRUE, Apply, Read, Term, conjuncts, const, transform, walk
from einc.meaning.functions import function
from einc.transforms.gradients.slopes import read_values, slopes

UNARY = [row for row in FUNCTIONS if row.arity == 1]
EXPANDED = [row for row in PRIMITIVES.values() if row.expansion is not None]
SLOPED = [row for row in FUNCTIONS if row.slope is not None and not row.declared]
ABSOLUTE = {"erfc": 1e-15}  # 1 - erf(x) has no more digits than that
HEAD = "index t : time(T)\nindex i : feature(D)\ninput x_t^i\n"
CALLED = [row for row in PRIMITIVES.values() if row.callable and not row.whole and row.name != "nonpositive"]


def by_name(rows: list[Primitive]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def test_every_row_has_a_meaning() -> None:
    assert all(callable(function(row.name)) for row in PRIMITIVES.values() if row.name != "pick")


def test_expansions_end_in_primitives_without_one() -> None:
    def depth(op: str, seen: tuple[str, ...] = ()) -> None:
        assert op not in seen, f"{seen} comes to no end"
        for inner in walk(PRIMITIVES[op].expansion or const(0)):
            if isinstance(inner, Apply):
                depth(inner.op, (*seen, op))

    for row in EXPANDED:
        depth(row.name)


@by_name(EXPANDED)
def test_the_expansion_is_the_meaning(row: Primitive) -> None:
    assert row.expansion is not None
    args = list(points(row, most=500 if row.name.startswith("exp") else 1e3))
    want, got = applied(row.name, *args), computed(row.expansion, dict(zip("xy", args, strict=False)))
    assert np.all((np.abs(got - want) <= 4e-13 * np.abs(want) + ABSOLUTE.get(row.name, 0)) | (got == want))


@pytest.mark.parametrize("pair", [(-math.inf, -math.inf), (math.inf, math.inf), (-math.inf, 1.0), (2.0, math.inf)])
def test_infinite_logarithms_add(pair: tuple[float, float]) -> None:
    expansion = PRIMITIVES["logaddexp"].expansion
    assert expansion is not None
    assert computed(expansion, {"x": np.asarray(pair[0]), "y": np.asarray(pair[1])}) == max(pair)


@by_name(SLOPED)
def test_the_slope_is_that_of_differences(row: Primitive) -> None:
    """By the terms that the gradient pass makes, for more than two arguments where there may be more."""
    names = [f"a{n}" for n in range(row.arity or 3)]
    random, step = np.random.default_rng(7), 1e-6
    low = max(row.domain[0], 0.1 if row.name == "pow" else -math.inf)
    args = {name: random.uniform(max(low, -2.5) + 0.1, 2.5, 60) for name in names}
    if row.name in ("div", "mod"):
        args["a1"] = args["a1"] + 3.2
    body = Apply(row.name, tuple(Read(name, ()) for name in names))
    found = {name: np.zeros(60) for name in names}
    for slope in slopes(body, const(1), lambda _: True):
        found[slope.read.tensor] += np.where(holds(slope.condition, args), computed(slope.term, args), 0.0)
    for name in names:
        ends = [applied(row.name, *({**args, name: args[name] + sign * step}[n] for n in names)) for sign in (1, -1)]
        jumps = np.abs(ends[0] - ends[1]) > 1e-3  # between the two points
        assert np.all(jumps | (np.abs(found[name] - (ends[0] - ends[1]) / (2 * step)) < 1e-6
                               * (1 + np.abs(found[name]))))


def holds(condition: Term, by: dict[str, Array]) -> Array:
    return reduce(np.logical_and, (computed(c, by) for c in conjuncts(condition) if c != TRUE), np.asarray(True))


@by_name([row for row in PRIMITIVES.values() if row.slope is None])
def test_no_gradient_passes_where_there_is_no_slope(row: Primitive) -> None:
    assert not list(read_values(Apply(row.name, (Read("a", ()), Read("b", ()))[: row.arity or 2])))


@by_name(FUNCTIONS)
def test_sign_range_and_value_at_zero_hold(row: Primitive) -> None:
    args = list(points(row))
    if row.whole:
        args = [x.astype(np.int64) for x in args]
    values = applied(row.name, *args)
    assert np.all((values >= row.range[0]) & (values <= row.range[1]) | np.isnan(values))
    for n in range(values.size if row.name != "pow" else 0):
        known = sign_of(row.name, [2 if x[n] > 0 else 1 if x[n] == 0 else 0 for x in args])
        assert known == 0 or not values[n] < 0, f"{row.name}({[x[n] for x in args]}) is {values[n]}"
    if row.arity == 1:
        assert row.at_zero is not None and applied(row.name, np.zeros(1))[0] == row.at_zero


@by_name(UNARY)
def test_values_are_finite_in_the_domain_and_there_alone(row: Primitive) -> None:
    (inside,) = points(row, most=100)
    assert np.isfinite(applied(row.name, inside)).all()
    outside = [row.domain[0] - 1e-3] if row.domain[0] > -math.inf else []
    assert not np.isfinite(applied(row.name, np.asarray(outside))).any()


def test_small_arguments_are_multiplied_by_the_tangent() -> None:
    for row in UNARY:
        if row.tangent is not None:
            assert applied(row.name,
                           np.asarray([1e-9]))[0] == pytest.approx(float(row.tangent) * 1e-9, rel=1e-6, abs=1e-15)
    assert PRIMITIVES["tanh"].tangent == 1 and PRIMITIVES["exp"].tangent is None and PRIMITIVES["cos"].tangent is None


# back ends


def lines(rows: list[Primitive]) -> str:
    """An output for each row, at arguments of its domain."""
    text = HEAD
    for n, row in enumerate(rows):
        inner = "exp(x_t^i)" if row.domain[0] > 0 else "x_t^i x_t^i" if row.domain[0] > -math.inf else "x_t^i"
        letter = "ABCEFGHJKLMNOPQRSUVWYZabcefghjklm"[n]
        text += f"output {letter}_t^i = {row.name}({inner}{', x_t^i + 1' * (row.arity != 1)})\n"
    return text


def bare(what: Writable, element: Kind) -> bool:
    """What torch writes, apart from primitives that have an expansion."""
    return spells(what, element) and getattr(what, "expansion", None) is None


def test_every_back_end_spells_a_row_or_expands_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = typed(lines(CALLED))
    for backend in ("torch", "triton"):
        agrees(program, {"T": 5, "D": 3}, 1e-12, backend)
    monkeypatch.setattr(torch_emit, "spells", bare)
    text = agrees(program, {"T": 5, "D": 3}, 1e-12)
    assert not any(f"torch.{name}" in text for name in ("log1p", "expm1", "special.erfc", "abs", "ceil"))


WEIGHTS: dict[str, Callable[[Array, Array], Array]] = {
    "exp(-(t - s))": lambda t, s: np.exp(s - t), "exp(-(t - s)) sqrt(t)": lambda t, s: np.exp(s - t) * np.sqrt(t),
    "(exp(s - t) / s)": lambda t, s: np.exp(s - t) / s, "log(t + s)": lambda t, s: np.log(t + s)}


@pytest.mark.parametrize("weight", WEIGHTS)
def test_functions_of_positions_have_the_digits_of_the_data(weight: str) -> None:
    run = einc.compile(f"index t, s : time(T)\ninput x_s\noutput y_t = Σ_{{s ≤ t}} {weight} x_s", own=True)
    t = np.arange(1.0, 6.0)
    wanted = np.tril(WEIGHTS[weight](t[:, None], t[None])) @ (1 / t)
    np.testing.assert_allclose(run(x=torch.tensor(1 / t)).numpy(), wanted, rtol=1e-12)


def test_numbers_of_sizes_are_expanded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = typed(f"{HEAD}output Y_t^i = log1p(1/D) expm1(-T) erfc(T/D) logaddexp(1/D, T, T) x_t^i")
    for spelled in (True, False):
        if not spelled:
            monkeypatch.setattr(torch_emit, "spells", bare)
        agrees(program, {"T": 5, "D": 3})


def test_rows_have_gradients() -> None:
    smooth = [row for row in CALLED if row in SLOPED and row.name not in ("mod", "abs", "max", "min")]
    has_gradient(lines(smooth), 2, 3)


# What no table of a back end knows.
COSH = Apply("div", (Apply("add", (Apply("exp", (X,)), Apply("exp", (Apply("neg", (X,)),)))), const(2)))
SINH = Primitive("sinh", 1, "value", "sinh", (COSH,), sign="argument", at_zero=0.0, cost=COSTLY,
                 expansion=transform(COSH, lambda t: Apply("sub", t.args) if isinstance(t, Apply) and t.op == "add"
                                     else t))


def test_a_primitive_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, "sinh", SINH)
    program = typed(f"{HEAD}output Y_t^i = tanh(x_t^i)")
    program = replace(program, equations=tuple(replace(e, body=_renamed(e.body)) for e in program.equations))
    for backend in ("torch", "triton"):
        agrees(program, {"T": 5, "D": 3}, 1e-12, backend)
    run = front.built(program, grad=True)
    x = torch.linspace(-1, 2, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda at: run(x=at), (x,))


def _renamed(term: Term) -> Term:
    return transform(term, lambda t: Apply("sinh", t.args) if isinstance(t, Apply) and t.op == "tanh" else t)


def test_what_cannot_be_expanded_is_named() -> None:
    with pytest.raises(legal.Unspelled, match="`erf`, and its row has no expansion"):
        legal.straight("erfc", ("a",), lambda what, element: what == PRIMITIVES["sub"])
    made = legal.straight("logaddexp", ("a", "b"), spells)
    assert [let.name for let in made][-1] == "value" and all(isinstance(let, Let) for let in made)
    assert all(let.op.op in TORCH for let in made if isinstance(let.op, Map))
