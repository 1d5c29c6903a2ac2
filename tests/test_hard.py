"""Exponentials that overflow or vanish where the value made of them does not: forward, in
the interpreter, and in the gradient.

The truth is computed here, in float64 and in logarithms from the start: a positive value is its logarithm, a sum is
torch's logsumexp. So nothing of it can overflow, and autograd differentiates it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Array, meaning, typed
from programs import SPEC_TEXTS, SPECS
from triton_modes import interpreted

from einc.backends.triton.load import load
from einc.driver.cli import main
from einc.driver.commands import hard
from einc.driver.front import compile, interpret
from einc.transforms.normal import scaled as laws

MAGNITUDES = (0.0, 1e-6, 1.0, 100.0, 1e4)
T, D = 3, 4
LETTERS = "index t, s, u : time(T)\nindex f, g : feature(D)\n"

Real = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(torch.zeros_like(x), x)


def log_minus(x: torch.Tensor) -> torch.Tensor:
    """log(1 − e^−x), of x > 0."""
    near = x < 0.7
    return torch.where(near, torch.log(-torch.expm1(-torch.where(near, x, 1.0))), torch.log1p(-torch.exp(-x)))


FORMULAS: dict[str, Real] = {
    "log(sigmoid(x_t^f))": lambda x, z: -softplus(-x),
    "logsigmoid(x_t^f)": lambda x, z: -softplus(-x),
    "log(1 + exp(x_t^f))": lambda x, z: softplus(x),
    "softplus(x_t^f)": lambda x, z: softplus(x),
    "log(1 / (1 + exp(-x_t^f)))": lambda x, z: -softplus(-x),
    "log(exp(x_t^f) + exp(z_t^f))": torch.logaddexp,
    "1 / (1 + exp(-x_t^f))": lambda x, z: torch.sigmoid(x),
    "exp(x_t^f) / (exp(x_t^f) + exp(z_t^f))": lambda x, z: torch.sigmoid(x - z),
    "exp(x_t^f) sigmoid(-x_t^f)": lambda x, z: torch.sigmoid(x),
    "sigmoid(x_t^f) / (sigmoid(x_t^f) + sigmoid(z_t^f))": lambda x, z: torch.sigmoid(softplus(-z) - softplus(-x)),
    "log(1 - exp(-abs(x_t^f) - 1e-6))": lambda x, z: log_minus(x.abs() + 1e-6),
    "(exp(x_t^f) - exp(-x_t^f)) / (exp(x_t^f) + exp(-x_t^f))": lambda x, z: torch.tanh(x),
    "exp(-abs(x_t^f)) - 1": lambda x, z: torch.expm1(-x.abs()),
    "sqrt(exp(x_t^f)) / sqrt(exp(x_t^f) + exp(z_t^f))": lambda x, z: torch.exp(-softplus(z - x) / 2),
    "log(Σ_g exp(x_t^g))": lambda x, z: x.logsumexp(1, keepdim=True),
    "exp(x_t^f) / Σ_g exp(x_t^g)": lambda x, z: x.softmax(1),
    "log(softmax_f(x_t^f))": lambda x, z: x.log_softmax(1),
    "(Σ_s exp(x_s^f) z_s^f) / (Σ_s exp(x_s^f))": lambda x, z: (x.softmax(0) * z).sum(0, keepdim=True),
    "exp(x_t^f) / Σ_s Σ_g exp(x_s^g)": lambda x, z: x.flatten().softmax(0).view_as(x),
    "(Σ_s Σ_g exp(x_s^g) z_s^g) / (Σ_s Σ_g exp(x_s^g))": lambda x, z: (x.flatten().softmax(0) * z.flatten()).sum(),
}


def spec(formula: str, lines: str = "") -> str:
    return f"{LETTERS}input x_t^f, z_t^f\n{lines}output y_t^f = {formula} + 0 x_t^f + 0 z_t^f : all\n"


def drawn(magnitude: float, sign: float, rng: np.random.Generator) -> torch.Tensor:
    signs = sign or rng.choice([-1.0, 1.0], (T, D))
    return torch.from_numpy(np.asarray(signs * magnitude * rng.uniform(0.5, 1, (T, D)), np.float32)).double()


@cache
def trained(text: str) -> Callable[..., torch.Tensor]:
    return compile(text, grad=True)


def held(text: str, real: Real, magnitude: float, sign: float, rng: np.random.Generator) -> None:
    """One text on inputs of one magnitude: its value, gradient, and the interpreter are
    as near as rounding lets them."""
    x, z = (drawn(magnitude, sign, rng).requires_grad_() for _ in "xz")
    truth = real(x, z) + 0 * x + 0 * z
    truth.sum().backward()
    module = trained(text)
    mine = {key: value.detach().float().requires_grad_() for key, value in (("x", x), ("z", z))}
    found = module(**mine)
    found.sum().backward()
    exact = interpret(text, {"x": x.detach().numpy(), "z": z.detach().numpy()})["y"]
    sized = 2e-6 * (4 + magnitude)  # an exponent is rounded, so that its exponential is as far off as that
    near(exact, truth, 1e-9 * (1 + magnitude), text)
    near(found.detach().double().numpy(), truth, sized, text)
    for key, value in (("x", x), ("z", z)):
        assert value.grad is not None
        got = mine[key].grad
        near(np.zeros((T, D)) if got is None else got.double().numpy(), value.grad, 4 * sized, f"d{key} of {text}")


def near(found: Array, truth: torch.Tensor, allowed: float, told: str) -> None:
    wanted = truth.detach().numpy()
    inside = np.abs(wanted) < 1e37
    assert np.isfinite(found[inside]).all(), f"{told}: {found} for {wanted}"
    far = np.abs(found - wanted)[inside] / np.maximum(1, np.abs(wanted[inside]))
    assert far.max(initial=0) <= allowed, f"{told}: {found} for {wanted}"


@pytest.mark.drawn(2)
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_finite_where_its_value_is(formula: str) -> None:
    rng = np.random.default_rng(7)
    for magnitude in MAGNITUDES:
        for sign in (1.0, -1.0, 0.0):
            held(spec(formula), FORMULAS[formula], magnitude, sign, rng)


def test_a_name_for_a_part_changes_nothing() -> None:
    lines = "e_t^f = exp(-x_t^f)\nn_t^f = 1 + e_t^f\np_t^f = 1 / n_t^f\n"
    for sign in (1.0, -1.0):
        held(spec("log(p_t^f)", lines), lambda x, z: -softplus(-x), 1e4, sign, np.random.default_rng(3))


TRITON = ("log(sigmoid(x_t^f))", "log(1 - exp(-abs(x_t^f) - 1e-6))", "exp(x_t^f) / (exp(x_t^f) + exp(z_t^f))",
          "(Σ_s Σ_g exp(x_s^g) z_s^g) / (Σ_s Σ_g exp(x_s^g))")


@pytest.mark.parametrize("formula", TRITON)
def test_kernels_are_finite_where_the_value_is(formula: str) -> None:
    text, rng = spec(formula), np.random.default_rng(5)
    source = compile(text, "triton").source
    with interpreted():
        function = load(source, "text")
        for magnitude, sign in ((100.0, -1.0), (1e4, 0.0), (1e-6, 1.0)):
            x, z = (drawn(magnitude, sign, rng) for _ in "xz")
            near(function(x=x.float(), z=z.float()).double().numpy(), FORMULAS[formula](x, z) + 0 * x,
                 4e-6 * (4 + magnitude), formula)


@dataclass
class Positive:
    """A random positive expression of x and z, its text at some letters, and its logarithm over (t, f)."""

    random: Random
    lines: list[str] = field(default_factory=list)

    def leaf(self, t: str, f: str) -> tuple[str, Real]:
        x, z = f"x_{t}^{f}", f"z_{t}^{f}"
        leaves: list[tuple[str, Real]] = [
            (f"exp({x})", lambda x, z: x), (f"exp(-{x})", lambda x, z: -x), (f"exp({z})", lambda x, z: z),
            (f"exp({x} - {z})", lambda x, z: x - z), (f"sigmoid({z})", lambda x, z: -softplus(-z)),
            ("2", lambda x, z: torch.full_like(x, math.log(2)))]
        return self.random.choice(leaves)

    def made(self, depth: int, t: str = "t", f: str = "f") -> tuple[str, Real]:
        """An expression at the letters t and f, which sums take away from one with letters of their own."""
        kind = self.random.choice("+*/Σ2n") if depth else ""
        if not kind:
            return self.leaf(t, f)
        if kind == "Σ" and t == "t":
            body, inner = self.made(depth - 1, "s", f)
            return f"(Σ_s ({body}))" if "_s" in body else f"({body})", (
                (lambda x, z: inner(x, z).logsumexp(0, keepdim=True).expand_as(x)) if "_s" in body else inner)
        if kind == "2" and (t, f) == ("t", "f"):
            body, inner = self.made(depth - 1, "s", "g")
            both = "_s" in body and "^g" in body
            return f"(Σ_s Σ_g ({body}))" if both else "3", (
                (lambda x, z: inner(x, z).flatten().logsumexp(0).expand_as(x)) if both
                else (lambda x, z: torch.full_like(x, math.log(3))))
        (left, a), (right, b) = self.made(depth - 1, t, f), self.made(depth - 1, t, f)
        if kind == "n" and (t, f) == ("t", "f") and "_t" in left and "^f" in re.sub(r"Σ_g \(.*\)", "", left):
            self.lines.append(f"n{'′' * (len(self.lines) + 1)}_t^f = {left}".replace("′", "'"))
            left = f"n{chr(39) * len(self.lines)}_t^f"
        if kind == "/":
            return f"({left}) / ({right})", lambda x, z: a(x, z) - b(x, z)
        if kind == "*":
            return f"({left}) ({right})", lambda x, z: a(x, z) + b(x, z)
        return f"(({left}) + ({right}))", lambda x, z: torch.logaddexp(a(x, z), b(x, z))


def random_case(seed: int) -> tuple[str, Real]:
    """The text of a random program, and its truth."""
    random = Random(seed)
    writer = Positive(random)
    (above, a), (below, b) = writer.made(2), writer.made(2)
    if random.random() < 0.5:
        text, real = f"log(({above}) / ({below}))", lambda x, z: a(x, z) - b(x, z)
    else:
        text, real = f"({above}) / ({above} + {below})", lambda x, z: torch.sigmoid(a(x, z) - b(x, z))
    lines = "".join(f"{line} + 0 x_t^f\n" for line in writer.lines)
    made = spec(text, lines)
    return made.replace(": time(T)", ": feature(T)").replace(" : all", "") if lines else made, real


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.whole) for n in range(2, 100))])
def test_random_compositions_are_finite_where_their_value_is(seed: int) -> None:
    text, real = random_case(seed)
    rng = np.random.default_rng(seed)
    for magnitude in rng.choice(MAGNITUDES, 2, replace=False):
        held(text, real, float(magnitude), float(rng.choice([-1.0, 0.0, 1.0])), rng)


def test_sums_over_two_indices_are_stabilised_in_a_domain() -> None:
    """Logits of 300 over pairs of earlier positions: float32 holds no exponential of them."""
    text = """index t, s, u : time(T)
input a_t, b_t, v_t
E_{s u} = exp(a_s b_u)
output y_t = (Σ_{s ≤ t} Σ_{u ≤ t} E_{s u} v_s v_u) / (Σ_{s ≤ t} Σ_{u ≤ t} E_{s u})
"""
    rng = np.random.default_rng(0)
    a, b, v = (rng.standard_normal(6) * m for m in (300, 10, 1))
    wanted = []
    for t in range(1, 7):
        logits = np.outer(a[:t], b[:t])
        weights = np.exp(logits - logits.max())
        wanted.append((weights * np.outer(v[:t], v[:t])).sum() / weights.sum())
    given = {"a": a, "b": b, "v": v}
    assert np.allclose(interpret(text, given)["y"], wanted)
    found = compile(text)(**{key: torch.tensor(x, dtype=torch.float32) for key, x in given.items()})
    assert np.allclose(found.numpy(), wanted, atol=1e-2)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws than a user asks for."""
    for name, number in (("SEEDS", 1), ("ALONE", 8), ("TOGETHER", 4)):
        monkeypatch.setattr(hard, name, number)


def run(*args: str, status: int) -> str:
    done = CliRunner().invoke(main, ["run", *args, "--repeat", "1"])
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.usefixtures("few")
def test_run_hard_passes_what_is_stable() -> None:
    said = run(str(SPECS / "gallery" / "gated.ein"), "--hard", "--sizes", "T=6,H=1,d_k=2,d_v=2", status=0)
    assert "hard         Y: error" in said
    assert "ok (16 times that of eager float32 allowed)" in said


WRONG = {"forgetting_transformer": "a gate of −∞ at one position is NaN at others in float32, a number in float64"}
NO_RUN = ("claims/", "paper", "transformer_with_pytorch", "lemma_collapse")


@pytest.mark.drawn(60, 7)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason=WRONG.get(name, ""))] * (name in WRONG))
    for name in SPEC_TEXTS if not name.startswith(NO_RUN)])
def test_every_spec_is_as_exact_as_eager_on_many_magnitudes(name: str) -> None:
    said = run(str(SPECS / f"{name}.ein"), "--hard", "--draws", "24", "--backend", "torch", status=0)
    assert "hard   " in said
    assert "draws        24 of" in said


@pytest.mark.parametrize("op", ["+", "-"])
@pytest.mark.parametrize("small", [1e-309, 5e-324, 1e-300, 1.0])
def test_what_is_added_to_less_than_any_float_stays(small: float, op: str) -> None:
    """In the definition itself: the scale of what is smallest is no float."""
    text = f"{LETTERS}input x_t, z_t\noutput y_t = x_t {op} exp(z_t)"
    got = meaning(typed(text), {"x": np.array([small, -small, 0]), "z": np.array([-3900.0, -800, -800])}, {"T": 3})["y"]
    np.testing.assert_allclose(got, [small, -small, 0], rtol=1e-12)


@pytest.mark.usefixtures("few")
def test_run_hard_tells_the_inputs_of_the_worst_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of logits that is as exact as any would fail where no error is allowed."""
    monkeypatch.setattr(hard, "FUDGE", 1e-3)
    file = tmp_path / "total.ein"
    file.write_text(f"{LETTERS}input x_t^f\noutput y_t = Σ_f tanh(x_t^f)\n", encoding="utf-8")
    said = run(str(file), "--hard", "--sizes", "T=2,D=9", status=1)
    assert re.search(r"hard +y: error .+, .+ times that of eager \(x .+; draw \d+\); TOO FAR", said)


@pytest.mark.usefixtures("few")
def test_what_no_float_of_the_type_holds_is_told_apart(tmp_path: Path) -> None:
    """A maximum of exponentials is not kept with a scale of its own: so its formula overflows in any order of work."""
    file = tmp_path / "largest.ein"
    file.write_text(f"{LETTERS}input x_t^f\noutput y_t^f = max(exp(x_t^f), 1) / max(exp(x_t^f), 1)\n", encoding="utf-8")
    said = run(str(file), "--hard", "--sizes", "T=2,D=2", status=0)
    assert re.search(r"beyond +y: nan where float64 has 1, at \d of 4 elements \(x 100; draw \d+\); "
                     r"a step of this formula", said)


@pytest.mark.usefixtures("few")
def test_a_module_that_is_wrong_where_its_formula_is_not_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log(sigmoid(x)) by the formula that is compiled is finite, and a file written as the text says is not."""
    monkeypatch.setattr("einc.transforms.normal.apart.scaled", lambda program, named=False: program)
    file = tmp_path / "log.ein"
    file.write_text(f"{LETTERS}input x_t^f\noutput y_t^f = log(1 / (1 + exp(-x_t^f)))\n", encoding="utf-8")
    monkeypatch.setattr(hard, "pipeline", SimpleNamespace(normal=lambda program: program))
    assert "beyond" in run(str(file), "--hard", "--sizes", "T=2,D=2", status=0)
    monkeypatch.setattr(hard, "pipeline", SimpleNamespace(normal=laws.scaled))
    assert "TOO FAR" in run(str(file), "--hard", "--sizes", "T=2,D=2", status=1)


def test_what_a_law_alone_takes_out_of_range_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """log(exp(x)), as if a law had made it of x: the text has no step that leaves the range of the type."""
    program, made = (typed(f"{LETTERS}input x_t^f\noutput y_t^f = {right}\n") for right in ("x_t^f", "log(exp(x_t^f))"))
    for text, passes in ((program, False), (made, True)):
        monkeypatch.setattr(hard, "pipeline", SimpleNamespace(normal=lambda _: made))
        found = hard.tried(text, {"x": torch.ones(2, 2)}, {"T": 2, "D": 2}, "float32", 0,
                           lambda inputs: {"y": inputs["x"].exp().log()}, lambda: None)["y"]
        assert found.good == passes, found
        assert bool(found.beyond) == passes, found


@pytest.mark.parametrize("several", [1, 64])
def test_a_sum_is_as_far_off_as_its_additions(several: int) -> None:
    """Of one number and zeros nothing is rounded away; of equal ones it is as a float32 adds them."""
    rng, rounding = np.random.default_rng(0), hard._Rounded(24, np.random.default_rng(1))
    terms = np.zeros((1000, 64))
    terms[:, :several] = rng.uniform(0.5, 1, (1000, several)).astype(np.float32)
    total = terms.sum(1)
    added = rounding.total(total, lambda n: (terms**n).sum(1))
    eager = np.add.accumulate(terms.astype(np.float32), axis=1, dtype=np.float32)[:, -1]
    mine, theirs = (np.sqrt(np.mean((x - total) ** 2)) for x in (added, eager))
    assert (mine == theirs == 0) if several == 1 else 0.3 < mine / theirs < 3


BIASED = """index t, s : time(T)
index h : head(H)
index d : feature(D)
input Q_{t h}^d, K_{s h}^d, V_{s h}^d, b_s
mask L_{t s h} : s ≤ t
L_{t s h} = Q_{t h}^d K_{s h d} + b_s
output Y_{t h}^d = Σ_s softmax_s(L_{t s h}) V_{s h}^d
"""


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_a_bias_may_leave_out_whole_tiles(backend: str) -> None:
    """Padding on the left as a bias of −∞: the maximum of the first tiles is −∞,
    that of rows with a later point is not.
    """
    length, heads, padded = (330, 64, 200) if backend == "torch" else (150, 1, 140)
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(length, heads, 4, generator=draw) for _ in range(3))
    bias = torch.zeros(length)
    bias[:padded] = -math.inf
    logits = torch.einsum("thd,shd->hts", q, k) + bias
    late = torch.ones(length, length).triu(1) > 0
    wanted = torch.einsum("hts,shd->thd", logits.masked_fill(late, -math.inf).softmax(-1), v)[padded:]
    source = compile(BIASED, backend, own=True).source
    with interpreted():
        space: dict[str, Callable[..., torch.Tensor]] = {}
        function = load(source, "text") if backend == "triton" else (exec(source, space), space["text"])[1]  # type: ignore[func-returns-value]
        found = function(Q=q, K=k, V=v, b=bias)[padded:]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_is_divided_by_a_count_of_nothing_stays_in_its_sum() -> None:
    """At t = 1 there is no s: the sum of quotients is 0 there, and 1 / 0 in front of it would make it no number."""
    text = ("index t, s : time(T)\ninput x_t, z_t\nm_t = max_{s < t} x_t\nn_t = Σ_{s < t} exp(x_t - m_t)\n"
            "output y_t = Σ_{s < t} (exp(x_t - m_t) / n_t) (z_t / (1 + abs(x_s))) : all\n")
    x, z = np.array([0.3, 1.0, -2.0]), np.array([0.5, 2.0, 1.0])
    wanted = [0.0, 2.0 / 1.3, (1 / 1.3 + 1 / 2) / 2]
    np.testing.assert_allclose(interpret(text, {"x": x, "z": z})["y"], wanted)
    found = compile(text)(x=torch.from_numpy(x), z=torch.from_numpy(z))
    np.testing.assert_allclose(found.numpy(), wanted)


def test_a_module_that_hides_what_is_no_number_fails() -> None:
    """Where data are NaN no number may stand where float64 has none."""
    program = typed(f"{LETTERS}input x_t^f\noutput y_t = Σ_f x_t^f\n")
    base, sizes = {"x": torch.ones(3, 2)}, {"T": 3, "D": 2}
    sums = {"honest": lambda x: x.sum(1), "hiding": lambda x: x.nan_to_num(posinf=math.inf, neginf=-math.inf).sum(1)}
    good = {name: hard.tried(program, base, sizes, "float32", 0, lambda inputs, of=of: {"y": of(inputs["x"])},
                             lambda: None)["y"].good for name, of in sums.items()}
    assert good["honest"] and not good["hiding"]
    kinds = [kind for draw in hard._draws(program, 0) for kind in draw.values() if math.isnan(kind[1])]
    assert kinds, "NaN is drawn"
