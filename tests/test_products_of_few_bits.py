"""`products of W by e4m3 per row`: a line of a plan that rounds both factors of products, against torch's own casts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from triton_modes import interpreted

import einc
from einc.driver import compiling
from einc.driver.checking import typed as checked
from einc.driver.cli import main
from einc.driver.options import Options
from einc.errors.report import EincError
from einc.ir.narrow import NARROW
from einc.ir.verify import verify
from einc.meaning.interpret import interpret
from einc.syntax.printing.show import show

HEAD = """
index t : time(T)
index f, g : feature(M)
index e : feature(F)
input X_t^f
weight W_{1 f}^e, W_{2 e}^g
U_t^e = tanh(X_t^f W_{1 f}^e)
output Y_t^g ALL
Y_t^g = U_t^e W_{2 e}^g
"""
LINE = "plan few:\n    products of W_1, W_2 by {}\n"
SIZES = {"T": 7, "M": 12, "F": 24}
Rounded = Callable[[torch.Tensor, int], torch.Tensor]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def spec(how: str, all_: str = "") -> str:
    return HEAD.replace("ALL", all_) + LINE.format(how)


def given() -> list[torch.Tensor]:
    """Data of magnitudes from 1e-6 to 1e4, and a row and a column of zeros."""
    torch.manual_seed(5)
    x, first, second = (torch.randn(shape, dtype=torch.float64) for shape in ((7, 12), (12, 24), (24, 12)))
    x *= torch.logspace(-6, 4, 7, dtype=torch.float64)[:, None]
    x[3], first[:, 5] = 0, 0
    return [x, first, second / 5]


def cast(word: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Rounding to a type by torch's own cast of numbers that it holds."""
    if word == "int8":
        return torch.round
    kind = getattr(torch, NARROW[word].storage)
    return lambda x: x.to(torch.float32).to(kind).to(x.dtype)


def by(how: str) -> Rounded:
    """The factor that a plan's words make of a factor that is summed over one axis."""
    word, _, share, *count = how.split()
    most, exact = min(NARROW[word].high, -NARROW[word].low), cast(word)

    def scaled(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        largest = x.abs().amax(axes, keepdim=True)
        scale = largest / most + (largest == 0)
        return exact(x / scale) * scale

    def rounded(x: torch.Tensor, axis: int) -> torch.Tensor:
        if share == "tensor":
            return scaled(x, (0, 1))
        if share == "row":
            return scaled(x, (axis,))
        return scaled(x.unflatten(axis, (-1, int(count[0]))), (axis + 1,)).flatten(axis, axis + 1)

    return rounded


def reference(how: str, x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    few = by(how)
    u = torch.tanh(few(x, 1) @ few(first, 0))
    return few(u, 1) @ few(second, 0)


WAYS = ["e4m3 per row", "e5m2 per row", "int8 per row", "e4m3 per block 4", "int8 per block 12", "e4m3 per block 1",
        "e4m3 per tensor", "int8 per tensor"]


@pytest.mark.parametrize("how", WAYS)
def test_the_interpreter_agrees_with_casts_of_torch(how: str) -> None:
    text = spec(how, ": all")
    program, _ = compiling.asked(checked(text, Options()), Options(plan="few"))
    values = dict(zip(("X", "W_1", "W_2"), (x.numpy() for x in given()), strict=True))
    got = interpret(program, values, {})["Y"]
    want = reference(how, *given()).numpy()
    assert np.abs(got - want).max() <= 1e-12 * np.abs(want).max()


@pytest.mark.parametrize(("how", "backend"), [("e4m3 per row", "torch"), ("int8 per block 4", "triton"),
                                              ("e4m3 per row", "cpp")])
def test_files_agree_with_casts_of_torch(how: str, backend: str) -> None:
    inputs = [x.float() for x in given()]
    # a number may lie so near to a midpoint that float32 rounds it to the other side: as exact inputs as may be
    inputs = [(x * 64).round() / 64 for x in inputs]
    made = einc.compile(spec(how, ": all"), backend=backend, plan="few")(*inputs)
    want = reference(how, *(x.double() for x in inputs))
    assert (made - want).norm() <= 5e-3 * want.norm()
    whole = einc.compile(spec(how, ": all"), backend="torch")(*(x.double() for x in inputs))
    assert (made - want).norm() <= 0.3 * (whole - want).norm(), "the plan is followed"


def test_no_scale_is_summed_with_the_products() -> None:
    program, _ = compiling.asked(checked(spec("e4m3 per block 4"), Options()), Options(plan="few"))
    text = show(program)
    assert "(Σ_{b} W_{\\text{1_e4m3}}^{(a) (b) (e)} X_{\\text{e4m3}}_{t}^{(a) (b)})" in text


@pytest.mark.parametrize("how", ["e4m3 per row", "int8 per block 4", "e2m1 per row"])
def test_what_is_shown_reads_back(how: str, tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec(how))
    found = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--plan", "few"])
    assert found.exit_code == 0, found.output
    program, _ = compiling.asked(checked(spec(how), Options()), Options(plan="few"))
    values = dict(zip(("X", "W_1", "W_2"), (x.numpy() for x in given()), strict=True))
    again = interpret(checked(found.output, Options()), values, {})["Y"]
    assert np.array_equal(again, interpret(program, values, {})["Y"])


def test_the_normal_form_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec("e4m3 per row"))
    found = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--stage", "normal", "--plan", "few"])
    assert "e4m3(W_{1}_{f}^{e} / W_{\\text{1_scale}}^{(e)})" in found.output
    plain = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--stage", "normal"])
    assert "e4m3" not in plain.output, "nothing is rounded where the plan is not chosen"


def test_a_factor_of_several_products_is_rounded_once() -> None:
    program, _ = compiling.asked(checked("""
index t : time(T)
index f, e, g : feature(D)
input X_t^f
weight W_f^e, V_f^g
output Y_t^e = X_t^f W_f^e
output Z_t^g = X_t^f V_f^g
plan few:
    products of W, V by e4m3 per row
""", Options()), Options(plan="few"))
    assert sum(key.startswith("X_e4m3") for key in program.tensors) == 1
    verify(program)


def test_rounds_have_scales_of_their_own() -> None:
    text = """
index t : time(T)
index f, g : feature(D)
input X_t^f
H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^{g (ℓ)}
    H_t^g ← tanh(H_t^f W_f^{g (ℓ)})
output H_t^f
plan few:
    products of W by int8 per tensor
"""
    with pytest.raises(EincError, match="reads positions after its own"):
        einc.compile(text, plan="few", backend="torch")
    text = text.replace("output H_t^f", "output H_t^f : all")
    torch.manual_seed(1)
    x, w = torch.randn(5, 4, dtype=torch.float64), torch.randn(4, 4, 3, dtype=torch.float64)
    w[..., 1] *= 100
    few, h = by("int8 per tensor"), x
    function = einc.compile(text, plan="few", backend="torch")
    assert function.program.tensors["W"].slots[-1].level == "label"
    for k in range(3):
        h = torch.tanh(few(h, 1) @ few(w[..., k], 0))
    assert (function(x, w) - h).abs().max() < 1e-12


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_gradients_pass_what_is_rounded(backend: str) -> None:
    function = einc.compile(spec("int8 per row"), plan="few", backend=backend, grad=True)
    inputs = [x.float().clamp(-3, 3).requires_grad_() for x in given()]
    function(*inputs).square().sum().backward()
    plain = [x.detach().clone().requires_grad_() for x in inputs]
    einc.compile(spec("int8 per row"), backend="torch", grad=True)(*plain).square().sum().backward()
    for mine, theirs in zip(inputs, plain, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert (mine.grad - theirs.grad).norm() <= 0.05 * theirs.grad.norm()


WRONG = [
    ("products of W_1 by e4m3", "the line stops too early"),
    ("products of W_1 by e4m3 per block", "a block has a size"),
    ("products of W_1 by e4m3 per row 8", "a row has the size that it has"),
    ("products of W_1 by e4m3 per block 0", "a block has from 1 to"),
    ("products of W_1 by e4m3 per block 99999999999999999999", "a block has from 1 to"),
    ("products of W_1 by e4m3 per column", "`column` is no word for what has one scale"),
    ("products of W_1 by float8 per row", "`float8` is no type of few bits"),
    ("products of W_3 by e4m3 per row", "`W_3` is no tensor of this spec"),
    ("products of Y by e4m3 per row", "`Y` stands in no product that is summed"),
    ("products of W_1 by e4m3 per tensor", "`Y` reads positions after its own"),
    ("products of W_1 by e4m3 per row\n    products of W_1 by int8 per row", "say different things"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_what_cannot_be_rounded_is_told_by_check(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(HEAD.replace("ALL", "") + f"plan few:\n    {line}\n")
    found = CliRunner().invoke(main, ["check", str(tmp_path / "a.ein")])
    assert found.exit_code == 1 and said in found.output, found.output


def test_blocks_of_a_letter_that_has_parts_are_refused() -> None:
    text = """
index t : time(T)
index h : head(H)
index d : feature(D)
index f : feature(H D) = (h d)
input X_t^f
weight W_f, V_{h d}
output Y_t = X_t^f W_f + X_t^{(h d)} V_{h d}
plan few:
    products of W by e4m3 per block 8
"""
    with pytest.raises(EincError, match="made of other parts already"):
        checked(text, Options())
    with pytest.raises(EincError, match="no multiple of 8"):
        text = text.replace("H D) = (h d)", "12)")
        checked(text.replace(" + X_t^{(h d)} V_{h d}", "").replace(", V_{h d}", ""), Options())


def test_run_tells_the_error_beside_that_of_the_plain_spec(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec("e4m3 per row"))
    arguments = ["run", str(tmp_path / "a.ein"), "--plan", "few", "--verify", "--sizes", "T=5,M=8,F=8"]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 0, found.output
    line = next(x for x in found.output.splitlines() if x.startswith("few bits"))
    numbers = [float(word.rstrip(",")) for word in line.split() if "e-" in word]
    assert 1e-3 < numbers[0] < 0.3 and numbers[1] < 1e-5
    served = CliRunner().invoke(main, ["run", str(tmp_path / "a.ein"), "--plan", "serve"])
    assert served.exit_code == 1 and "called otherwise" in served.output


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_sums_of_rounded_numbers_are_larger_than_half_types_hold(kind: torch.dtype, backend: str) -> None:
    x, w = torch.ones(3, 64, dtype=kind), torch.ones(64, 5, dtype=kind)
    text = """
index t : time(T)
index f : feature(D)
index g : feature(E)
input X_t^f
weight W_f^g
output Y_t^g = X_t^f W_f^g
plan few:
    products of W by int8 per row
"""
    assert torch.equal(einc.compile(text, plan="few", backend=backend)(x, w), torch.full((3, 5), 64.0, dtype=kind))


@pytest.mark.parametrize("body", ["X_t^f W_f^g / z_t", "log(z_t) X_t^f W_f^g"])
@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_a_sum_over_nothing_is_0(backend: str, body: str) -> None:
    text = f"""
index t : time(T)
index f : feature(D)
index g : feature(E)
input X_t^f, z_t
weight W_f^g
output Y_t^g = Σ_f 1[f < t] {body}
plan few:
    products of W by int8 per row
"""
    torch.manual_seed(6)
    x, z, w = torch.randn(4, 4), torch.tensor([0.0, 1, 2, 3]), torch.randn(4, 3)
    got = einc.compile(text, plan="few", backend=backend)(x, z, w)
    program, _ = compiling.asked(checked(text, Options()), Options(plan="few"))
    meant = interpret(program, {"X": x.numpy(), "z": z.numpy(), "W": w.numpy()}, {})["Y"]
    assert np.all(meant[0] == 0) and torch.all(got[0] == 0) and got.isfinite().all()
    want = einc.compile(text, backend="torch")(x, z, w)
    assert (got - want).norm() <= 0.02 * want.norm() and np.abs(meant - got.numpy()).max() < 1e-5


def test_both_names_of_one_product_are_found() -> None:
    program, _ = compiling.asked(checked("""
index f, e : feature(D)
index t : time(T)
input X_t^f, V_t^f
output Y_t = X_t^f V_{t f}
plan few:
    products of X, V by e4m3 per row
""", Options()), Options(plan="few"))
    assert {"X_e4m3", "V_e4m3"} <= program.tensors.keys()


@pytest.mark.parametrize("word", [word for word in NARROW if NARROW[word].storage])
def test_compiled_kernels_have_the_codes_of_torch(word: str) -> None:
    """Bfloat16 data meet many ties, which a last bit of the quotient decides."""
    text = f"index t : time(T)\nindex f : feature(D)\ninput X_t^f\nσ_t = max_f |X_t^f| / {NARROW[word].high}\n" \
           f"output Y_t^f = {word}(X_t^f / σ_t)\n"
    given = torch.randn(5000, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    found, beside = (einc.compile(text, backend)(X=given) for backend in ("cpp", "torch"))
    assert torch.equal(found, beside)
