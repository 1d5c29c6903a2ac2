"""The interpreter against plain numpy, and against an evaluator of one point at a time in plain Python."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import examples, typed_of
from hypothesis import strategies as st
from programs import CASES

from einc.driver import pipeline
from einc.errors.problems import NotYet, WrongData, WrongType
from einc.errors.report import Problem, Report, Source
from einc.ir.elements import INTEGER, REAL
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.programs import Equation, Program, Slot, Tensor, TypedProgram
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    both,
    const,
)
from einc.meaning.interpret import interpret
from einc.meaning.sizes import solve_sizes

Array = np.ndarray[Any, Any]

TIME, HEAD, GROUP = IndexSet("time", size("T")), IndexSet("head", size("H")), IndexSet("head", size("G"))
FEATURE, PAIR = IndexSet("feature", size("d_k")), IndexSet("feature", number(2))
HALF = IndexSet("feature", size("d_k") * number(Fraction(1, 2)))
LATENT, ROTARY = IndexSet("feature", size("d_c")), IndexSet("feature", size("d_R"))
BOTH = IndexSet("feature", size("d_c") + size("d_R"))
VOCAB, MODEL = IndexSet("vocab", size("V"), start=0), IndexSet("feature", size("d_model"))
t, s, u = Index("t", TIME), Index("s", TIME), Index("u", TIME)
h, g, d, f = Index("h", HEAD), Index("g", GROUP), Index("d", FEATURE), Index("f", MODEL)
i, j, a, b = Index("i", HALF), Index("j", HALF), Index("a", PAIR), Index("b", PAIR)
c, rho, e, v = Index("c", LATENT), Index("rho", ROTARY), Index("e", BOTH), Index("v", VOCAB)
CAUSAL = Apply("le", (Position(s), Position(t)))


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def op(name: str, *args: Term | Index | int) -> Term:
    return Apply(name, tuple(term(x) for x in args))


def term(x: Term | Index | int) -> Term:
    return Position(x) if isinstance(x, Index) else const(x) if isinstance(x, int) else x


def read(key: str, *subs: Term | Index | int) -> Read:
    return Read(key, tuple(term(x) for x in subs))


def total(over: Index, body: Term, domain: Term = TRUE, fold: str = "sum") -> Fold:
    return Fold(fold, (over,), domain, body)


def tensor(key: str, *axes: Index, integer: bool = False, role: Any = "input") -> Tensor:
    return Tensor(key, key, tuple(Slot(x.set, "lower", x.name) for x in axes), role, INTEGER if integer else REAL)


def defines(key: str, axes: tuple[Index, ...], body: Term, domain: Term = TRUE) -> tuple[Tensor, Equation]:
    return tensor(key, *axes, role="local"), Equation(key, tuple(Position(x) for x in axes), domain, body)


def program(inputs: list[Tensor], *made: tuple[Tensor, Equation], outputs: str = "", **sizes: int) -> TypedProgram:
    tensors = {x.key: x for x in [*inputs, *(local for local, _ in made)]}
    names = outputs.split() or [made[-1][0].key]
    return TypedProgram("test", tensors, tuple(equation for _, equation in made), tuple((n, n) for n in names), sizes,
                        {})


def run(inputs: list[Tensor], *made: tuple[Tensor, Equation], sizes: Mapping[str, int] | None = None,
        **arrays: Any) -> Array:
    """The one output of a program."""
    (result,) = interpret(program(inputs, *made), {k: np.asarray(x) for k, x in arrays.items()}, sizes).values()
    return result


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


# Products and sums


def test_matmul() -> None:
    x, w = random(5, 3), random(3, 4)
    product = total(f, op("mul", read("X", t, f), read("W", f, d)))
    got = run([tensor("X", t, f), tensor("W", f, d)], defines("Y", (d, t), product), X=x, W=w)
    np.testing.assert_allclose(got, (x @ w).T)


def test_one_input_is_an_output_and_is_not_the_callers_array() -> None:
    x = random(4)
    got = interpret(program([tensor("x", t)], defines("y", (t,), read("x", t)), outputs="x y"), {"x": x})
    assert not any(np.shares_memory(out, x) for out in got.values())
    np.testing.assert_array_equal(got["y"], x)


def test_outputs_have_their_own_names() -> None:
    made = program([tensor("x", t)], defines("y", (t,), op("neg", read("x", t))))
    got = interpret(replace(made, outputs=(("first", "y"), ("second", "y"))), {"x": random(3)})
    assert list(got) == ["first", "second"]


def test_half_precision_is_computed_in_double() -> None:
    x = np.full(3, 0.1, np.float16)
    got = run([tensor("x", t)], defines("y", (), total(t, op("mul", read("x", t), read("x", t)))), x=x)
    assert got.dtype == np.float64
    assert float(got) == pytest.approx(3 * float(x[0]) ** 2, rel=1e-15)


def test_order_of_equations_means_nothing() -> None:
    first, second = defines("y", (t,), op("add", read("x", t), 1)), defines("z", (t,), op("mul", read("y", t), 2))
    np.testing.assert_array_equal(run([tensor("x", t)], second, first, defines("w", (t,), read("z", t)), x=[1.0, 2.0]),
                                  [4, 6])


def test_causal_sum() -> None:
    x = random(6)
    np.testing.assert_allclose(run([tensor("x", t)], defines("y", (t,), total(s, read("x", s), CAUSAL)), x=x),
                               np.cumsum(x))


def test_sum_of_what_does_not_vary_counts_points() -> None:
    np.testing.assert_array_equal(run([], defines("y", (t,), total(s, ONE, CAUSAL)), sizes={"T": 4}), [1, 2, 3, 4])
    np.testing.assert_array_equal(run([tensor("x", t)], defines("y", (t,), total(s, read("x", t))), x=[1.0, 2.0]),
                                  [2, 4])
    got = run([tensor("x", t)], defines("y", (t,), Fold("max", (s,), TRUE, read("x", t))), x=[1.0, 2.0])
    np.testing.assert_array_equal(got, [1, 2])


@pytest.mark.parametrize(("fold", "by", "empty"), [
    ("max", np.max, -np.inf), ("min", np.min, np.inf), ("prod", np.prod, 1), ("sum", np.sum, 0)])
def test_folds(fold: str, by: Any, empty: float) -> None:
    x = random(4, 3)
    before = op("lt", s, t)
    got = run([tensor("x", t, d)], defines("y", (t,), Fold(fold, (s, d), before, read("x", s, d))), x=x)
    np.testing.assert_allclose(got, [empty, by(x[:1]), by(x[:2]), by(x[:3])])


def test_infinities_outside_the_domain_do_not_spoil_a_sum() -> None:
    x, w = np.array([1.0, np.inf, np.nan]), np.array([[2.0, 3.0, 4.0]] * 3)
    body = op("mul", read("x", s), read("w", t, s))
    got = run([tensor("x", t), tensor("w", t, s)], defines("y", (t,), total(s, body, CAUSAL)), x=x, w=w)
    np.testing.assert_array_equal(got, [2, np.inf, np.nan])


def test_a_sum_means_what_its_terms_mean() -> None:
    """An indicator is a number, 0 outside: times ∞ it is what the same product is without the sum."""
    body = op("mul", Where(op("eq", s, 1), read("x", s)), read("w", t))
    for each in (body, total(s, body, op("eq", s, 2))):
        made = defines("y", (t, s) if each is body else (t,), each)
        got = run([tensor("x", t), tensor("w", t)], made, x=np.ones(2), w=np.array([np.inf, 1]))
        assert np.isnan(got[0]).any()
        assert np.isfinite(got[1]).all()


def test_minus_and_quotient_and_condition_are_factors() -> None:
    x, w = random(4, 3), random(3)
    body = op("neg", op("div", op("mul", read("x", t, d), Where(op("ne", d, 2), read("w", d))),
                        op("sqrt", Size(size("d_k")))))
    got = run([tensor("x", t, d), tensor("w", d)], defines("y", (t,), total(d, body)), x=x, w=w)
    np.testing.assert_allclose(got, -(x[:, [0, 2]] @ w[[0, 2]]) / math.sqrt(3))


def test_a_big_product_is_never_laid_out() -> None:
    n = 1500
    q, k = random(n, 8, 64), random(n, 8, 64)
    x, y = tensor("q", t, h, d), tensor("k", s, h, d)
    body = Fold("sum", (s, d), CAUSAL,
                op("div", op("mul", read("q", t, h, d), read("k", s, h, d)), op("sqrt", Size(size("d_k")))))
    got = run([x, y], defines("y", (t, h), body), q=q, k=k)
    np.testing.assert_allclose(got, np.einsum("thd,thd->th", q, np.cumsum(k, axis=0)) / 8, atol=1e-9)


# Rows without points


def attention(domain: Term) -> TypedProgram:
    logits = op("div", total(d, op("mul", read("Q", t, h, d), read("K", s, h, d))), op("sqrt", Size(size("d_k"))))
    return program(
        [tensor("Q", t, h, d), tensor("K", s, h, d), tensor("V", s, h, d)],
        defines("L", (h, t, s), logits, domain),
        defines("m", (h, t), Fold("max", (s,), domain, read("L", h, t, s))),
        defines("E", (h, t, s), op("exp", op("sub", read("L", h, t, s), read("m", h, t))), domain),
        defines("z", (h, t), total(s, read("E", h, t, s), domain)),
        defines("A", (h, t, s), op("div", read("E", h, t, s), read("z", h, t)), domain),
        defines("Y", (t, h, d), total(s, op("mul", read("A", h, t, s), read("V", s, h, d)), domain)),
        defines("Y2", (t, h, d),
                total(s, op("div", op("mul", read("E", h, t, s), read("V", s, h, d)), read("z", h, t)), domain)),
        defines("Y3", (t, h, d),
                op("div", total(s, op("mul", read("E", h, t, s), read("V", s, h, d)), domain), read("z", h, t))),
        defines("lse", (h, t), op("add", read("m", h, t), op("log", read("z", h, t)))),
        outputs="L m E A Y Y2 Y3 lse",
    )


def plain_attention(q: Array, k: Array, x: Array, mask: Array) -> tuple[Array, Array]:
    logits = np.where(mask, np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1]), -np.inf)
    weight = np.exp(logits - logits.max(-1, keepdims=True))
    z = weight.sum(-1, keepdims=True)
    return np.einsum("hts,shd->thd", weight / z, x), (logits.max(-1, keepdims=True) + np.log(z))[..., 0]


@pytest.mark.parametrize("domain",
                         [CAUSAL, both(CAUSAL, op("lt", op("sub", t, 2), s)), op("or", op("eq", s, 1), CAUSAL), TRUE])
def test_masked_softmax(domain: Term) -> None:
    q, k, x = random(5, 2, 3), random(5, 2, 4)[..., :3], random(5, 2, 5)[..., :3]
    at, to = np.arange(1, 6)[:, None], np.arange(1, 6)[None, :]
    mask = by_hand_mask(domain, at, to)
    got = interpret(attention(domain), {"Q": q, "K": k, "V": x})
    y, lse = plain_attention(q, k, x, mask)
    for key in ("Y", "Y2", "Y3"):
        np.testing.assert_allclose(got[key], y, atol=1e-12)
    np.testing.assert_allclose(got["lse"], lse)
    assert not got["L"][:, ~mask].any()


def by_hand_mask(domain: Term, at: Array, to: Array) -> Array:
    points = [[bool(at_point(domain, {t: int(x), s: int(y)}, {}, {})) for y in to[0]] for x in at[:, 0]]
    return np.array(points)


def test_a_row_without_points_is_zero() -> None:
    q = random(4, 2, 3)
    got = interpret(attention(op("lt", s, t)), {"Q": q, "K": q, "V": q})
    for key in ("L", "E", "A"):
        assert not got[key][:, 0].any()
    for key in ("Y", "Y2", "Y3"):
        assert not got[key][0].any()
        assert np.isfinite(got[key]).all()
    assert (got["lse"][:, 0] == -np.inf).all()
    assert np.isfinite(got["lse"][:, 1:]).all()


def test_nothing_by_nothing_is_nothing() -> None:
    x, y = np.array([0.0, 1.0, -1.0, 0.0]), np.array([0.0, 0.0, 0.0, 2.0])
    got = run([tensor("x", t), tensor("y", t)], defines("z", (t,), op("div", read("x", t), read("y", t))), x=x, y=y)
    np.testing.assert_array_equal(got, [0, np.inf, -np.inf, 0])


def test_a_quotient_by_zero_inside_the_domain_is_laid_out() -> None:
    x, z = np.array([[0.0, 3.0], [1.0, 1.0]]), np.array([0.0, 2.0])
    body = op("div", op("mul", read("x", t, s), 2), read("z", s))
    got = run([tensor("x", t, s), tensor("z", t)], defines("y", (t,), total(s, body)), x=x, z=z)
    np.testing.assert_array_equal(got, [3, np.inf])


def test_empty_sequences() -> None:
    got = interpret(attention(CAUSAL), {key: np.zeros((0, 2, 3)) for key in "QKV"})
    assert got["Y"].shape == (0, 2, 3)
    assert got["lse"].shape == (2, 0)
    made = program([tensor("x", t, d)], defines("y", (d,), total(t, read("x", t, d))),
                   defines("m", (d,), Fold("max", (t,), TRUE, read("x", t, d))),
                   defines("w", (d,), Where(op("eq", d, 0), read("x", d, d))), outputs="y m w")
    got = interpret(made, {"x": np.zeros((0, 2))})
    np.testing.assert_array_equal(got["y"], [0, 0])
    np.testing.assert_array_equal(got["m"], [-np.inf] * 2)
    np.testing.assert_array_equal(got["w"], [0, 0])


# Packs, parts, joins


def rotated() -> TypedProgram:
    """R_{t (i a)}^{(j b)} = δ_i^j (cos(t θ_i) δ_a^b + sin(t θ_i) ε_a^b), then y_t^d = R_{t d}^k x_t^k."""
    left, right = (Pack((Position(x), Position(y)), (HALF, PAIR), FEATURE) for x, y in ((i, a), (j, b)))
    angle = op("mul", t, read("theta", i))
    epsilon = op("sub", Where(both(op("eq", a, 1), op("eq", b, 2)), ONE),
                 Where(both(op("eq", a, 2), op("eq", b, 1)), ONE))
    turn = op("add", op("mul", op("cos", angle), Where(op("eq", a, b), ONE)), op("mul", op("sin", angle), epsilon))
    k = Index("k", FEATURE)
    matrix = Tensor("R", "R", tuple(Slot(x, "lower", n) for x, n in ((TIME, "t"), (FEATURE, "d"), (FEATURE, "k"))),
                    "local")
    return program(
        [tensor("x", t, d), tensor("theta", i)],
        (matrix, Equation("R", (Position(t), left, right), TRUE, Where(op("eq", i, j), turn))),
        defines("y", (t, d), total(k, op("mul", read("R", t, d, k), read("x", t, k)))),
        (tensor("z", t, d, role="local"), Equation("z", (Position(t), left), TRUE, Fold("sum", (j, b), TRUE, Where(
            op("eq", i, j), op("mul", turn, read("x", t, right)))))),
        outputs="R y z",
    )


def test_rotary_pairs() -> None:
    x, theta = random(5, 6), np.array([1.0, 0.1, 0.01])
    got = interpret(rotated(), {"x": x, "theta": theta})
    at = np.arange(1, 6)[:, None] * theta
    even, odd = x[:, ::2], x[:, 1::2]
    want = np.stack([np.cos(at) * even + np.sin(at) * odd, np.cos(at) * odd - np.sin(at) * even], -1).reshape(5, 6)
    np.testing.assert_allclose(got["y"], want)
    np.testing.assert_allclose(got["z"], want)
    assert got["R"].shape == (5, 6, 6)


def test_direct_sum() -> None:
    x, y = random(4, 3), random(4, 2)
    joined = Join(e, ((c, read("x", t, c)), (rho, op("neg", read("y", t, rho)))))
    in_c = read("q", t, Part(Position(c), LATENT, number(0), BOTH))
    in_rho = read("q", t, Part(Position(rho), ROTARY, size("d_c"), BOTH))
    made = program([tensor("x", t, c), tensor("y", t, rho)], defines("q", (t, e), joined),
                   defines("first", (t, c), in_c),
                   defines("second", (t, rho), in_rho), outputs="q first second")
    got = interpret(made, {"x": x, "y": y})
    np.testing.assert_array_equal(got["q"], np.concatenate([x, -y], 1))
    np.testing.assert_array_equal(got["first"], x)
    np.testing.assert_array_equal(got["second"], -y)


def test_direct_sum_reads_each_part_where_it_lives() -> None:
    first = op("lt", e, op("add", Size(size("d_c")), 2))
    joined = Join(e, ((c, op("mul", 2, c)), (rho, read("y", op("mul", rho, op("add", rho, 0))))))
    got = run([tensor("x", c), tensor("y", rho)], defines("q", (e,), joined, first),
              defines("p", (e,), Where(first, read("q", e))),
              defines("r", (e,), op("add", read("p", e), total(c, op("mul", 0, read("x", c))))), x=random(2),
              y=random(3))
    np.testing.assert_array_equal(got, [2, 4, random(3)[0], 0, 0])


# Index expressions


def test_gather_by_an_integer_tensor() -> None:
    w, table = np.array([[2, 0], [1, 2], [0, 0]]), random(3, 4)
    made = defines("y", (t, f, h), read("E", read("w", t, h), f))
    got = run([tensor("w", t, h, integer=True), tensor("E", v, f)], made, w=w, E=table)
    np.testing.assert_array_equal(got, table[w].transpose(0, 2, 1))


def test_diagonal_and_constant_subscripts() -> None:
    x = random(3, 3)
    np.testing.assert_array_equal(run([tensor("x", t, s)], defines("y", (t,), read("x", t, t)), x=x), np.diag(x))
    np.testing.assert_array_equal(run([tensor("x", t, s)], defines("y", (s,), read("x", 2, s)), x=x), x[1])
    assert run([tensor("x", t, s)], defines("y", (), read("x", 2, 3)), x=x) == x[1, 2]


def test_grouped_heads_by_a_map() -> None:
    x = random(3)
    for body in (op("ceil", op("div", op("mul", h, Size(size("G"))), Size(size("H")))),
                 op("ceil", op("mul", op("div", h, Size(size("H"))), Size(size("G"))))):
        got = run([tensor("x", g)], defines("y", (h,), read("x", body)), x=x, sizes={"H": 147})
        np.testing.assert_array_equal(got, np.repeat(x, 49))


def test_floor_of_a_sum_of_fractions_is_exact() -> None:
    third = op("div", op("sub", t, 1), 3)
    body = op("floor", op("add", third, op("add", third, third)))
    np.testing.assert_array_equal(run([], defines("y", (t,), body), sizes={"T": 50}), np.arange(50))
    page = op("add", op("floor", op("div", op("sub", t, 1), Size(size("P")))), 1)
    got = run([tensor("x", t)], defines("y", (t,), read("x", page)), x=random(7), sizes={"P": 3})
    np.testing.assert_array_equal(got, random(7)[[0, 0, 0, 1, 1, 1, 2]])


def test_floor_and_ceil_of_a_quotient_of_positions() -> None:
    body = op("sub", op("ceil", op("div", t, op("neg", s))), op("floor", op("div", t, s)))
    got = run([], defines("y", (t, s), body), sizes={"T": 6})
    at = range(1, 7)
    np.testing.assert_array_equal(got, [[math.ceil(Fraction(x, -y)) - x // y for y in at] for x in at])


def test_comparisons_are_exact() -> None:
    scaled = op("mul", op("div", s, 49), 49)
    got = run([], defines("y", (t,), total(s, ONE, op("eq", scaled, t))), sizes={"T": 100})
    np.testing.assert_array_equal(got, np.ones(100))


def test_numbers_beyond_int64_are_real() -> None:
    big = 10**30
    many = op("mul", t, big)
    got = run([], defines("y", (t,), Where(op("lt", many, op("add", big, big)), op("floor", op("div", many, 3)))),
              sizes={"T": 3})
    np.testing.assert_allclose(got, [big / 3, 0, 0])
    assert run([], defines("y", (), const(-(10**400)))) == -np.inf


def test_a_half_is_a_subscript_where_it_is_whole() -> None:
    even = op("eq", op("mod", t, 2), 0)
    half = read("x", op("div", t, 2))
    got = run([tensor("x", t)], defines("y", (t,), Where(even, half)), x=[1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_array_equal(got, [0, 1, 0, 2, 0])
    with pytest.raises(WrongData, match=r"index expression is 0.5 \(at t = 1\), not a whole number"):
        run([tensor("x", t)], defines("y", (t,), half), x=[1.0, 2.0])


def test_shift_with_an_indicator_with_a_domain_and_clamped() -> None:
    x, j_ = np.array([1.0, 2.0, 3.0]), Index("j", IndexSet("feature", size("n")))
    there = op("add", t, j_)
    inside = op("le", there, Size(size("T")))
    want = [[2, 3], [3, 0], [0, 0]]
    sizes = {"n": 2}
    y = defines("y", (t, j_), Where(inside, read("x", there)))
    np.testing.assert_array_equal(run([tensor("x", t)], y, x=x, sizes=sizes), want)
    y = defines("y", (t, j_), read("x", there), inside)
    np.testing.assert_array_equal(run([tensor("x", t)], y, x=x, sizes=sizes), want)
    summed = defines("y", (t,), total(j_, op("mul", read("x", there), read("w", t)), inside))
    np.testing.assert_array_equal(run([tensor("x", t), tensor("w", t)], summed, x=x, w=[1.0, 2.0, 3.0], sizes=sizes),
                                  [5, 6, 0])
    y = defines("y", (t, j_), read("x", op("min", there, Size(size("T")))))
    np.testing.assert_array_equal(run([tensor("x", t)], y, x=x, sizes=sizes), [[2, 3], [3, 3], [3, 3]])


def test_what_does_not_exist_neither_raises_nor_spoils() -> None:
    x = np.array([0.0, -1.0, 4.0])
    bad = op("div", op("log", read("x", t)), op("sqrt", read("x", op("sub", t, 2))))
    got = run([tensor("x", t)], defines("y", (t,), Where(op("eq", t, 3), bad)), x=x)
    np.testing.assert_array_equal(got, [0, 0, np.inf])
    chosen = read("E", op("floor", op("log", read("x", t))))
    got = run([tensor("x", t), tensor("E", v)], defines("y", (t,), chosen, op("lt", 0, read("x", t))), x=x,
              E=[5.0, 6.0])
    np.testing.assert_array_equal(got, [0, 0, 6])


def test_a_condition_reads_only_where_the_cheaper_ones_hold() -> None:
    doc = np.array([1, 1, 2])
    later = op("eq", read("doc", op("add", t, 1)), read("doc", t))
    inside = op("lt", t, Size(size("T")))
    got = run([tensor("doc", t, integer=True)], defines("y", (t,), ONE, op("and", later, inside)), doc=doc)
    np.testing.assert_array_equal(got, [1, 0, 0])
    got = run([tensor("doc", t, integer=True)], defines("y", (t,), ONE, op("or", later, op("not", inside))), doc=doc)
    np.testing.assert_array_equal(got, [1, 0, 1])


def test_integer_tensors_stay_integers() -> None:
    big = 2**60 + 1
    ids = tensor("w", t, integer=True)
    local = tensor("y", t, role="local", integer=True)
    got = run([ids], (local, Equation("y", (Position(t),), TRUE, op("add", read("w", t), 1))), w=[big, 2])
    assert got.tolist() == [big + 1, 3]
    assert got.dtype == np.int64
    counted = Equation("y", (Position(t),), TRUE, total(s, ONE, op("eq", read("w", s), read("w", t))))
    assert run([ids], (local, counted), w=[7, 3, 7]).tolist() == [2, 1, 2]
    with pytest.raises(WrongData, match=r"`y`, declared to hold integers, is 3\.5 \(at t = 1\), not a whole number"):
        run([ids], (local, replace(counted, body=op("div", read("w", t), 2))), w=[7, 3])


def test_batch_and_start() -> None:
    zero = IndexSet("time", size("T"), start=0)
    k = Index("k", zero)
    np.testing.assert_array_equal(run([], defines("y", (k,), Position(k)), sizes={"T": 3}), [0, 1, 2])
    got = run([tensor("x", t)], defines("y", (k,), read("x", op("add", k, 1))), x=random(3))
    np.testing.assert_array_equal(got, random(3))


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "floor", "ceil", "neg", "erf"])
def test_functions_of_one(name: str) -> None:
    x = np.array([0.5, 1.0, 2.5])
    plain = {"neg": lambda y: -y, "abs": abs}.get(name) or getattr(math, name)
    np.testing.assert_allclose(run([tensor("x", t)], defines("y", (t,), op(name, read("x", t))), x=x),
                               [plain(y) for y in x])


def test_functions_of_two() -> None:
    x, y = np.array([2.0, -3.0]), np.array([-2.0, 2.0])
    for name, want in {"pow": [0.25, 9], "mod": [0, 1], "max": [2, 2], "min": [-2, -3], "sub": [4, -5]}.items():
        made = defines("z", (t,), op(name, read("x", t), read("y", t)))
        np.testing.assert_array_equal(run([tensor("x", t), tensor("y", t)], made, x=x, y=y), want)
    np.testing.assert_array_equal(run([], defines("z", (t,), op("pow", 2, op("neg", t))), sizes={"T": 2}), [0.5, 0.25])
    assert run([], defines("z", (), op("sub", Const(-math.inf), const(Fraction(1, 3))))) == -np.inf
    assert run([], defines("z", (), Where(Truth(False), Const(math.inf)))) == 0


# Against one point at a time


def at_point(term: Term, point: Mapping[Index, int], arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Any:
    """The term at one point, in exact or Python arithmetic."""

    def here(x: Term) -> Any:
        return at_point(x, point, arrays, sizes)

    match term:
        case Const(value) | Truth(value):
            return value
        case Size(extent):
            return extent.at(sizes)
        case Position(index):
            return Fraction(point[index])
        case Read(key, subs):
            where = tuple(int(here(sub)) - 1 for sub in subs)
            assert all(0 <= n < m for n, m in zip(where, arrays[key].shape, strict=True))
            return arrays[key][where].item()
        case Where(condition, then):
            return here(then) if here(condition) else Fraction(0)
        case Apply("and", args):
            return all(here(x) for x in args)
        case Apply("or", args):
            return any(here(x) for x in args)
        case Apply(name, args):
            return PLAIN[name](*(here(x) for x in args))
        case Fold(name, bound, domain, body):
            points = [{**point, **dict(zip(bound, at, strict=True))}
                      for at in itertools.product(*(range(1, int(x.set.extent.at(sizes)) + 1) for x in bound))]
            values = [at_point(body, p, arrays, sizes) for p in points if at_point(domain, p, arrays, sizes)]
            return PLAIN_FOLDS[name](values)
    raise AssertionError(term)


def quotient(x: Any, y: Any) -> Any:
    return x / y if y else 0 if not x else math.copysign(math.inf, x)


PLAIN: dict[str, Any] = {
    "add": lambda *x: sum(x), "sub": operator.sub, "mul": lambda *x: math.prod(x), "neg": operator.neg, "max": max,
    "min": min,
    "div": quotient, "le": operator.le, "lt": operator.lt, "eq": operator.eq, "ne": operator.ne, "not": operator.not_,
    "floor": math.floor, "mod": operator.mod,
}
PLAIN_FOLDS: dict[str, Any] = {
    "sum": sum, "prod": math.prod,
    "max": lambda x: max(x, default=-math.inf), "min": lambda x: min(x, default=math.inf),
}
INDICES = (t, s, h)
SHAPES: dict[str, tuple[Index, ...]] = {"x": (t, h), "y": (s, h), "z": (t, s), "w": (h,), "n": (s,)}


LEAF: st.SearchStrategy[Term] = st.one_of(
    st.sampled_from(INDICES).map(Position), st.integers(-2, 3).map(const), st.just(read("n", s)),
    st.just(Size(size("T"))))
WHOLE = st.recursive(LEAF, lambda inner: st.one_of(
    st.builds(op, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner),
    st.builds(lambda x, k: op("floor", op("div", x, k)), inner, st.integers(1, 3)),
    st.builds(lambda x, k: op("mod", x, k), inner, st.integers(1, 3)),
), max_leaves=4)
RELATION: st.SearchStrategy[Term] = st.builds(op, st.sampled_from(["le", "lt", "eq", "ne"]), WHOLE, WHOLE)
PREDICATE = st.recursive(RELATION, lambda inner: st.one_of(
    st.builds(op, st.sampled_from(["and", "or"]), inner, inner), st.builds(lambda x: op("not", x), inner)),
    max_leaves=3)


def guarded(key: str, sub: Term, rest: tuple[Index, ...]) -> Term:
    """A read anywhere, of which only what is in range is read."""
    last = Size(SHAPES[key][0].set.extent)
    return Where(op("and", op("le", 1, sub), op("le", sub, last)), read(key, sub, *rest))


SCALAR = st.recursive(st.one_of(
    st.sampled_from([read(key, *axes) for key, axes in SHAPES.items()]), WHOLE,
    st.builds(guarded, st.sampled_from(["x", "y"]), WHOLE, st.just((h,))),
    st.builds(guarded, st.just("n"), WHOLE, st.just(())),
), lambda inner: st.one_of(
    st.builds(op, st.sampled_from(["mul", "mul", "mul", "add", "sub", "div", "max"]), inner, inner),
    st.builds(lambda x: op("neg", x), inner), st.builds(Where, PREDICATE, inner),
    st.builds(Fold, st.sampled_from(["sum", "sum", "max", "min", "prod"]), st.sampled_from([(u,), (s,), (u, h)]),
              PREDICATE, inner),
), max_leaves=5)
OPS = st.sampled_from(["sum", "sum", "sum", "max", "min", "prod"])
FOLD = st.builds(Fold, OPS, st.sampled_from([(t,), (s,), (t, s), (s, h), (t, s, h)]), PREDICATE, SCALAR)


@examples(60, 300, FOLD, PREDICATE, st.integers(0, 3), st.integers(1, 2), st.integers(0, 99))
def test_folds_are_what_they_are_point_by_point(fold: Fold, domain: Term, length: int, heads: int, seed: int) -> None:
    sizes = {"T": length, "H": heads}
    values = np.random.default_rng(seed)
    arrays = {key: values.integers(-2, 4, [sizes[str(x.set.extent)] for x in axes]) for key, axes in SHAPES.items()}
    inputs = [tensor(key, *axes, integer=key == "n") for key, axes in SHAPES.items()]
    made = program(inputs, defines("out", INDICES, fold, domain))
    got = interpret(made, {x.key: arrays[x.key] for x in made.inputs()}, sizes)["out"]
    points = [dict(zip(INDICES, at, strict=True)) for at in itertools.product(*(range(1, m + 1) for m in got.shape))]
    want = [float(at_point(fold, p, arrays, sizes)) if at_point(domain, p, arrays, sizes) else 0 for p in points]
    np.testing.assert_allclose(got.ravel(), want, rtol=1e-9, atol=1e-9)


# What does not fit


def simple(*inputs: Tensor) -> TypedProgram:
    body = op("add", *(Fold("sum", (), TRUE, total_of(x)) for x in inputs), 0)
    return program(list(inputs), defines("out", (), body))


def total_of(x: Tensor) -> Term:
    own = tuple(Index(f"{x.key}{n}", slot.set) for n, slot in enumerate(x.slots))
    return Fold("sum", own, TRUE, Read(x.key, tuple(Position(k) for k in own)))


def refused(made: Program, arrays: Mapping[str, Any], message: str, sizes: Mapping[str, int] | None = None,
            kind: type[Problem] = WrongData) -> None:
    with pytest.raises(kind, match=message) as raised:
        interpret(made, {k: np.asarray(x) for k, x in arrays.items()}, sizes)
    assert "\n" not in str(raised.value)


def test_sizes_are_read_bare_ones_first() -> None:
    made = simple(tensor("x", i, e), tensor("y", d, rho), tensor("z", t))
    found = solve_sizes(made, {"x": (3, 9), "y": (6, 4), "z": (0,)}, {})
    assert found == {"d_k": 6, "d_c": 5, "d_R": 4, "T": 0}
    assert solve_sizes(simple(tensor("x", i)), {"x": (3,)}, {}) == {"d_k": 6}
    assert solve_sizes(simple(tensor("x", i)), {"x": (3,)}, {"d_k": 6}) == {"d_k": 6}


def test_a_composite_fixes_a_part() -> None:
    k, m = IndexSet("feature", size("m")), Index("m", IndexSet("feature", size("m")))
    made = simple(tensor("x", d))
    made = replace(made, splits={FEATURE: (k, PAIR)}, equations=(*made.equations, defines("z", (m,), ONE)[1]),
                   tensors={**made.tensors, "z": tensor("z", m, role="local")})
    assert solve_sizes(made, {"x": (6,)}, {})["m"] == 3
    refused(made, {"x": random(5)}, r"`m` would be 5/2, what makes d_k = 2 \* m: a size is a whole number")
    message = r"d_k is 6, but its parts make 2 \* m = 8; `d_k` = 6 is read from `x` along `d`; `m` = 4 is given"
    refused(made, {"x": random(6)}, message, {"m": 4})


def test_extents_that_disagree() -> None:
    made, fits = simple(tensor("x", t, d), tensor("y", t)), {"x": random(3, 2), "y": random(3)}
    refused(made, {**fits, "y": random(4)},
            r"`y` has extent 4 along `t`, but T is 3; `T` = 3 is read from `x` along `t`")
    refused(made, {"x": random(3, 2), "y": random(1)}, r"`y` has extent 1 along `t`, but T is 3")
    refused(made, {"x": random(1, 2), "y": random(3)}, r"`y` has extent 3 along `t`, but T is 1")
    refused(made, fits, r"`x` has extent 2 along `d`, but d_k is 4; `d_k` = 4 is given as an argument", {"d_k": 4})
    refused(replace(made, sizes={"d_k": 64}), fits, r"d_k is 64; `d_k` = 64 is fixed by the spec")
    refused(simple(tensor("x", a)), {"x": random(3)}, r"`x` has extent 3 along `a`, but 2 is 2")


def test_extents_that_are_no_whole_number() -> None:
    made = simple(tensor("x", d), tensor("y", i))
    refused(made, {"x": random(7), "y": random(3)}, r"`y` has extent 3 along `i`, but d_k / 2 is 7/2")
    made = program([tensor("x", d)], defines("y", (i,), total(d, read("x", d))))
    refused(made, {"x": random(7)},
            r"the extent d_k / 2 is 7/2, not a whole number; `d_k` = 7 is read from `x` along `d`")
    refused(simple(tensor("x", e), tensor("y", c)), {"x": random(2), "y": random(3)},
            r"`d_R` would be -1, read from `x` along `e`")


def test_sizes_that_nothing_fixes() -> None:
    refused(simple(tensor("x", e)), {"x": random(2)}, r"`d_R` is fixed by no tensor: pass it as an argument, `d_R=…`")
    window = program([tensor("x", t)], defines("y", (t,), op("add", read("x", t), Size(size("W")))))
    refused(window, {"x": random(2)}, r"`W` is fixed by no tensor")
    assert interpret(window, {"x": np.zeros(2)}, {"W": 3})["y"].tolist() == [3, 3]
    refused(window, {"x": random(2)}, r"`w` is no size of the program: its sizes are `T`, `W`", {"w": 3})
    refused(window, {"x": random(2)}, r"`W` is given as -1: a size is a whole number", {"W": -1})
    refused(window, {"x": random(2)}, r"`W` is given as 1.5", {"W": 1.5})  # type: ignore[dict-item]
    refused(replace(window, sizes={"W": 2}), {"x": random(2)}, r"`W` is given as 3, but the spec fixes it to 2",
            {"W": 3})


def test_names_and_ranks() -> None:
    made = simple(tensor("x", t, d), tensor("y", t))
    refused(made, {"x": random(3, 2)}, r"no array is given for `y`")
    refused(made, {"x": random(3, 2), "y": random(3), "q": random(3)},
            r"`q` is no input of the program: its inputs are `x`, `y`")
    refused(made, {"x": random(3), "y": random(3)}, r"`x` has the axes \(t, d\), but the array given for it has rank 1")


@pytest.mark.parametrize("array", [np.array([1.0]), np.array([True]), np.array(["1"])])
def test_element_types_of_integer_tensors(array: Array) -> None:
    made = simple(tensor("w", t, integer=True))
    refused(made, {"w": array}, r"`w` holds integers, but the array given for it is", kind=WrongType)


@pytest.mark.parametrize("array", [np.array([1j]), np.array([True]), np.array([None])])
def test_element_types_of_real_tensors(array: Array) -> None:
    refused(simple(tensor("x", t)), {"x": array}, r"`x` holds real numbers, but the array given for it is",
            kind=WrongType)


def test_reads_out_of_range() -> None:
    made = program([tensor("w", t, integer=True), tensor("E", v, f)], defines("y", (t, f), read("E", read("w", t), f)))
    refused(made, {"w": [0, 3], "E": random(3, 2)}, r"`E` is read at `v` = 3 \(at t = 2\), outside 0\.\.2")
    refused(made, {"w": [0, -1], "E": random(3, 2)}, r"`E` is read at `v` = -1 \(at t = 2\), outside 0\.\.2")
    shift = program([tensor("x", t)], defines("y", (t,), read("x", op("add", t, 1)), op("lt", 1, t)))
    refused(shift, {"x": random(3)}, r"`x` is read at `t` = 4 \(at t = 3\), outside 1\.\.3")
    refused(program([tensor("x", t)], defines("y", (), read("x", 1))), {"x": random(0)},
            r"`x` is read at `t` = 1, outside 1\.\.0")


def test_an_array_too_large_is_refused() -> None:
    made = program([tensor("x", t), tensor("z", g)], defines("y", (t, g), op("add", read("x", t), read("z", g))))
    arrays = {"x": random(40000), "z": random(40000)}
    refused(made, arrays, r"the interpreter would need 12 GB for an array over \(t, g\): use smaller sizes")


def test_sizes_that_nothing_runs_over() -> None:
    """One that nothing depends on is told."""
    text = "index t, s : time(T)\ninput x_t\ndim W, V\noutput y_t = Σ_{s ∈ (t - W, t]} x_s"
    report = Report()
    made = pipeline.check(Source("<text>", text), report)
    assert made is not None
    assert interpret(made, {"x": random(3)}, {"W": 1})["y"].shape == (3,)
    with pytest.raises(WrongData, match="nothing that is returned depends on it"):
        interpret(made, {"x": random(3)}, {"W": 1, "V": 2})


def test_a_mask_of_the_parts_of_a_composite() -> None:
    """Neighbours in a picture of 3 rows of 4, by rows and columns or by places."""
    made = typed_of(next(case for case in CASES if case.name == "mask_of_parts"))
    rows, columns = np.divmod(np.arange(12), 4)
    near = (abs(rows[:, None] - rows) <= 1) & (abs(columns[:, None] - columns) <= 1)
    q, k, v = (random(12, 2) for _ in range(3))
    scores = q @ k.T
    weights = np.where(near, np.exp(scores), 0)
    got = interpret(made, {"q": q, "k": k, "v": v}, {"M": 3, "C": 4, "W": 1})
    assert np.allclose(got["z"], weights / weights.sum(1, keepdims=True) @ v)
    assert np.allclose(got["w"], np.where(near, scores, 0).sum(1).reshape(got["w"].shape))


def test_ragged_sets_are_not_interpreted() -> None:
    r = Index("t", IndexSet("time", Extent(size("T").terms), by="r"))
    refused(simple(tensor("x", r)), {"x": random(3)}, "ragged", kind=NotYet)


def test_zero_sizes_below_a_fraction_bar() -> None:
    made = program([tensor("x", t)],
                   defines("y", (t,), op("mul", read("x", t), Size(number(1).over(size("T")) or number(1)))))
    assert interpret(made, {"x": np.zeros(0)})["y"].shape == (0,)
    assert run([tensor("x", t)], defines("y", (t,), op("mul", ZERO, read("x", t))), x=np.zeros(0)).shape == (0,)
