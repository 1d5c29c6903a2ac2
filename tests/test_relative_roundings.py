"""`round E about its running maximum`: roundings relative to the largest number so far, against loops over tiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from triton_modes import interpreted

import einc
from einc.driver.checking import typed as checked
from einc.driver.cli import main
from einc.meaning.interpret import interpret

SPEC = """
index t, s : time(T)
index h : head(H)
index d : feature(D)
input Q_{t h}^d, K_{s h}^d, V_{s h}^d
MASK
L_{t s}^{(h)} = Q_{t h}^d K_{s h d}
M_t^{(h)} = max_s L_{t s}^{(h)}
E_{t s}^{(h)} = exp(L_{t s}^{(h)} - M_t^{(h)})
output Y_{t h}^d = (Σ_s ROUND V_{s h}^d) / (448 Σ_s E_{t s}^{(h)})
plan few:
    round E about its running maximum
"""
CAUSAL = SPEC.replace("MASK", "mask L_{t s}^{(h)} : s ≤ t")


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def spec(rounding: str = "e4m3(448 E_{t s}^{(h)})") -> str:
    return CAUSAL.replace("ROUND", rounding)


def given(count: int, heads: int) -> tuple[torch.Tensor, ...]:
    """Keys that grow with their position, so that each tile has a larger maximum than the ones before."""
    torch.manual_seed(count)
    q, k, v = (torch.randn(count, heads, 4, dtype=torch.float64) for _ in range(3))
    q[..., 0], k[..., 0] = 1.0, torch.arange(count, dtype=torch.float64)[:, None] / 40
    return q, k, v


def e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.float().to(torch.float8_e4m3fn).to(x.dtype)


def by_tiles(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: int) -> torch.Tensor:
    """As FlashAttention-3 has it in 8 bits: weights are rounded relative to the largest score of the tiles so far, and
    the sums of the tiles before are scaled when a tile has a larger one."""
    scores = torch.einsum("thd,shd->hts", q, k)
    at = torch.arange(len(q))
    scores = scores.masked_fill(at > at[:, None], -torch.inf)
    most = scores.new_full(scores.shape[:2], -1e300)
    values, total = torch.zeros_like(v.transpose(0, 1)), scores.new_zeros(scores.shape[:2])
    for low in range(0, len(q), length):
        tile = scores[..., low:low + length]
        before, most = most, torch.maximum(most, tile.amax(2))
        weights, scale = torch.exp(tile - most[..., None]), torch.exp(before - most)
        values = values * scale[..., None] + e4m3(448 * weights) @ v.transpose(0, 1)[:, low:low + length]
        total = total * scale + weights.sum(2)
    return (values / (448 * total)[..., None]).transpose(0, 1)


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """On average: where one digit decides how a number is rounded, one of many differs by a step."""
    return float((one - other).abs().mean())


LENGTHS = 32, 64, 128, 256


@pytest.mark.parametrize(("backend", "count", "heads"), [("torch", 260, 32), ("cpp", 300, 8), ("triton", 70, 2)])
def test_rounded_numbers_are_relative_to_the_largest_so_far(backend: str, count: int, heads: int) -> None:
    run, data = einc.compile(spec(), backend=backend, plan="few"), given(count, heads)
    got = run(*(x.float() for x in data)).double()
    near = [length for length in LENGTHS if apart(got, by_tiles(*data, length)) < 1e-5]
    assert len(near) == 1 and near[0] < count
    assert apart(got, by_tiles(*data, count)) > 5e-5


def test_one_tile_is_rounded_as_the_text_says() -> None:
    run = einc.compile(spec(), plan="few")
    for count, heads in ((1, 1), (60, 2)):
        data = given(count, heads)
        want = interpret(checked(spec()), {key: x.numpy() for key, x in zip("QKV", data, strict=True)},
                         {"T": count, "H": heads, "D": 4})["Y"]
        assert torch.allclose(run(*data), torch.from_numpy(want), rtol=0, atol=1e-12)


def test_what_is_rounded_so_is_no_farther_from_what_is_not_rounded() -> None:
    data = given(300, 32)
    plain = spec("448 E_{t s}^{(h)}").split("plan")[0]
    exact, text, plan = (einc.compile(x, plan=name)(*data) for x, name in (
        (plain, "call"), (spec(), "call"), (spec(), "few")))
    assert 0 < apart(plan, exact) < 1.2 * apart(text, exact)


def test_a_gradient_is_that_of_the_text() -> None:
    """It goes straight through roundings, whatever they are relative to."""
    found = []
    for plan in ("call", "few"):
        data = [x.requires_grad_() for x in given(140, 64)]
        y = einc.compile(spec(), plan=plan, grad=True)(*data)
        found.append(torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum(), data))
    for one, other in zip(*found, strict=True):
        assert apart(one, other) < 0.05 * float(one.abs().mean())


class Straight(torch.autograd.Function):
    """A rounding through which a gradient goes as it is."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return e4m3(x)

    @staticmethod
    def backward(ctx: object, *cotangents: torch.Tensor) -> torch.Tensor:
        return cotangents[0]


def by_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Row by row, by torch's own gradients: each weight is rounded relative to the largest of its whole row, on which a
    result depends as it does in the text: a rounding does not scale with what it rounds. The sums of rounded weights
    have the values that the forward pass `made` of its tiles."""
    rows = []
    for t in range(len(q)):
        scores = torch.einsum("hd,shd->hs", q[t], k[: t + 1])
        weights = torch.exp(scores - scores.amax(1, keepdim=True))
        total = 448 * weights.sum(1)[:, None]
        summed = torch.einsum("hs,shd->hd", Straight.apply(448 * weights), v[: t + 1])
        rows.append((summed + (made[t] * total - summed).detach()) / total)
    return torch.stack(rows)


@pytest.mark.parametrize(("backend", "count"), [("torch", 30), ("torch", 270), ("cpp", 140), ("triton", 70)])
def test_a_gradient_is_the_straight_one_of_whole_rows(backend: str, count: int) -> None:
    """Whichever tiles the forward pass had: a gradient knows the largest number of each row."""
    run, data = einc.compile(spec(), backend=backend, plan="few", grad=True), given(count, 2)
    made = einc.compile(spec(), backend=backend, plan="few")(*data)
    found = []
    for one in (run, lambda *x: by_rows(*x, made)):
        x = [x.clone().requires_grad_() for x in data]
        y = one(*x)
        found.append(torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum(), x))
    for mine, theirs in zip(*found, strict=True):
        # one digit of a score may decide how one weight of many is rounded; by another maximum, most would be
        assert apart(mine, theirs) < 1e-5 * float(theirs.abs().mean())


def test_one_pass_says_what_its_roundings_are_relative_to() -> None:
    for plan, said in (("call", "two passes over s: e4m3"), ("few", "e4m3 is relative to M so far")):
        shown = CliRunner().invoke(main, ["show", "-", "--stage", "plan", "--plan", plan], input=spec()).output
        assert said in shown


def test_what_is_shown_reads_back(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec())
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--plan", "few"]).output
    assert "e4m3(relative(448 E" in shown
    (tmp_path / "b.ein").write_text(shown)
    data = given(40, 2)
    assert torch.equal(einc.compile(tmp_path / "b.ein")(*data), einc.compile(spec(), plan="few")(*data))


@pytest.mark.parametrize(("line", "said"), {
    "round M about its running maximum": "`M` is not the exponential of numbers less the largest of these",
    "round V about its running maximum": "`V` is not the exponential of numbers less the largest of these",
    "round F about its running maximum": "nothing rounds a multiple of `F`",
    "round G about its running maximum": "`G` is no tensor of this spec",
    "round E about its maximum": "this is not how a line about what is rounded about its running maximum reads",
}.items())
def test_what_cannot_be_relative_is_told(line: str, said: str, tmp_path: Path) -> None:
    beside = "F_{t s}^{(h)} = exp(L_{t s}^{(h)} - M_t^{(h)})\noutput Z_{t h} = Σ_s F_{t s}^{(h)}\n"
    text = spec().replace("plan few", f"{beside}plan few").replace("round E about its running maximum", line)
    (tmp_path / "a.ein").write_text(text)
    told = CliRunner().invoke(main, ["check", str(tmp_path / "a.ein")])
    assert told.exit_code == 1 and said in told.output and "E0119" in told.output


@pytest.mark.parametrize("rounding", [
    "e4m3(relative(448 E_{t s}^{(h)} + 1))", "e4m3(relative(E_{t s}^{(h)} M_t^{(h)}))",
    "e4m3(relative(E_{t s}^{(h)})) exp(L_{t s}^{(h)})", "e4m3(relative(E_{t s}^{(h)})) int8(relative(E_{t s}^{(h)}))"])
def test_what_does_not_scale_keeps_two_passes(rounding: str) -> None:
    data = given(140, 64)
    said, plain = (spec(x).split("plan")[0] for x in (rounding, rounding.replace("relative(", "(")))
    assert torch.allclose(einc.compile(said)(*data), einc.compile(plain)(*data), rtol=1e-12, atol=1e-12)


ROWS = """
index t, s : time(T)
input x_s, v_s
M_t = max_{s ≤ t} x_s
E_{t s} = exp(EXPONENT - M_t), s ≤ t
output Y_t = Σ_{s ≤ t} BODY
plan few:
    round E about its running maximum
"""
FORMS = {
    "e4m3(448 E_{t s}) / (1 + v_s)": lambda p, v, m: e4m3(448 * p) / (1 + v),
    "(v_s / (1 + v_s)) (e4m3(448 E_{t s} / (2 + v_s)) / v_s)": lambda p, v, m: e4m3(448 * p / (2 + v)) / (1 + v),
    "(-e4m3(448 E_{t s}) v_s / 3)": lambda p, v, m: -e4m3(448 * p) * v / 3,
    "e4m3(448 E_{t s}) / e4m3(1 + v_s)": lambda p, v, m: e4m3(448 * p) / e4m3(1 + v),
    "e4m3(448 E_{t s}) e4m3(1 + v_s)": lambda p, v, m: e4m3(448 * p) * e4m3(1 + v),
    "e4m3(448 E_{t s})^2 v_s": lambda p, v, m: e4m3(448 * p) ** 2 * v,
    "e4m3(448 E_{t s}) e4m3(100 E_{t s}) v_s": lambda p, v, m: e4m3(448 * p) * e4m3(100 * p) * v,
    "e4m3(448 E_{t s}) / e4m3(100 E_{t s} + v_s)": lambda p, v, m: e4m3(448 * p) / e4m3(100 * p + v),
    "e4m3(448 E_{t s}) E_{t s} v_s": lambda p, v, m: e4m3(448 * p) * p * v,
    "e4m3(448 E_{t s}) (v_s - M_t)": lambda p, v, m: e4m3(448 * p) * (v - m),
    "v_s / e4m3(448 E_{t s})": lambda p, v, m: v / e4m3(448 * p),
    "sqrt(e4m3(448 E_{t s})) v_s": lambda p, v, m: e4m3(448 * p).sqrt() * v,
    "abs(e4m3(448 E_{t s}) - 9) v_s": lambda p, v, m: (e4m3(448 * p) - 9).abs() * v,
    "(e4m3(448 E_{t s}) + v_s)": lambda p, v, m: e4m3(448 * p) + v,
    "e4m3(e4m3(448 E_{t s}) + 10 v_s)": lambda p, v, m: e4m3(e4m3(448 * p) + 10 * v),
}


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bounded", [False, True])
def test_a_rounding_is_relative_only_where_it_scales_the_sum(form: str, backend: str, bounded: bool) -> None:
    """Few numbers are one tile: the largest so far is that of the row, and the numbers are those of the text."""
    x = torch.tensor([3.0, 1.0, 2.5, 0.25, 2.0], dtype=torch.float64)
    v = torch.tensor([1.0, 1.0, 0.5, 2.0, 0.75], dtype=torch.float64)
    exponent, powers = ("(-x_s^2)", -x * x) if bounded else ("x_s", x)  # one that is bounded has a maximum all the same
    text = ROWS.replace("BODY", form).replace("EXPONENT", exponent).replace("≤ t} x_s", f"≤ t}} {exponent}")
    want = x.new_zeros(len(x))
    for t in range(len(x)):
        most = powers[: t + 1].max()
        for s in range(t + 1):
            want[t] += FORMS[form](torch.exp(powers[s] - most), v[s], most)
    got = einc.compile(text, backend=backend, plan="few")(x=x, v=v)
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("form", [form for form in FORMS if "M_t" not in form])
def test_sums_over_many_tiles_are_near_those_of_the_text(form: str, backend: str) -> None:
    torch.manual_seed(1)
    x, v = torch.arange(700, dtype=torch.float64) / 50 + torch.rand(700, dtype=torch.float64), torch.rand(700).double()
    text = ROWS.replace("BODY", form).replace("EXPONENT", "x_s")
    got, want = (einc.compile(text, backend=backend, plan=plan)(x=x, v=v + 0.5) for plan in ("few", "call"))
    assert torch.allclose(got, want, rtol=0.02)


@pytest.mark.parametrize(("form", "said"), [
    ("e4m3(448 E_{t s}) / (1 + v_s)", "e4m3 is relative to M so far"),
    ("e4m3(448 E_{t s})^2 v_s", "two passes over s"), ("v_s / e4m3(448 E_{t s})", "two passes over s")])
def test_a_plan_says_whether_it_is_relative(form: str, said: str) -> None:
    shown = CliRunner().invoke(main, ["show", "-", "--stage", "plan", "--plan", "few"],
                               input=ROWS.replace("BODY", form).replace("EXPONENT", "x_s")).output
    assert said in shown and ("relative to" in shown) == ("relative to" in said)


@pytest.mark.parametrize("line", ["round E, E about its running maximum", "round E about its running maximum\n"
                                  "    round E about its running maximum"])
def test_a_name_may_be_said_twice(line: str) -> None:
    data = given(40, 2)
    twice = spec().replace("round E about its running maximum", line)
    assert torch.equal(einc.compile(twice, plan="few")(*data), einc.compile(spec(), plan="few")(*data))
