"""`einc from`: the spec of a Python function computes what it does, and a line that it cannot say is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from python_layers import plain, seeds
from torch import Tensor

import einc
from einc.driver.cli import main

HERE = Path(__file__).parent / "python_layers"
TIGHT = {"rtol": 1e-12, "atol": 1e-12}
SIZES = {"B": 2, "G": 1, "T": 5, "S": 6, "C": 6, "F": 7, "D": 4, "E": 3, "H": 2, "N": 3, "V": 8, "I": 3, "J": 4, "K": 5}


def einc_(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def spec(name: str, *words: str, file: str = "plain.py") -> str:
    done = einc_("from", f"{HERE / file}::{name}", *words)
    assert done.exit_code == 0, done.output
    return done.stdout


def drawn(*shapes: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn([SIZES[x] for x in shape], generator=generator, dtype=torch.float64) for shape in shapes]


def returned(text: str, **given: Any) -> list[Tensor]:
    found = einc.compile(text, "torch")(**given)
    return list(found) if isinstance(found, tuple) else [found]


CASES: dict[str, tuple[str, ...]] = {
    "implicit": ("BC", "CD"), "alphabetical": ("BC", "CD"), "trace": ("TT",), "diagonal": ("TT", "T"),
    "outer": ("B", "C"), "sums": ("BTC",), "norm": ("BTC", "C"), "feed_forward": ("BTC", "CF", "FC", "CF"),
    "activations": ("TC",), "chunked": ("TC",), "rotated": ("TC",), "triangular": ("TD", "TD", "TE"),
    "additive": ("TD", "TD", "TE"), "by_positions": ("TD", "TD", "TE"), "slopes": ("HTD", "HTD", "HTE", "H"),
    "linear_time": ("TD", "TD", "TE"), "shares": ("TD", "TD"), "log_shares": ("NV",), "spread": ("NC",),
    "variance": ("NC",), "batched": ("NIK", "NKJ"), "again": ("TC",), "gram": ("TC",), "square": ("TT",),
    "expanded": ("T", "C"), "cross": ("TD", "SD", "SE"), "branch": ("TC",), "running": ("TC",), "later": ("TC",),
    "limits": ("TC", "TC"), "chosen": ("TC",), "everything": ("TD", "TD", "TE"), "lengths": ("TC",)}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", CASES)
def test_the_spec_computes_what_the_function_does(name: str) -> None:
    function: Callable[..., Any] = getattr(plain, name)
    arrays = drawn(*CASES[name])
    names = function.__code__.co_varnames[: len(arrays)]
    wanted = function(*arrays)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    found = returned(spec(name), **dict(zip(names, arrays, strict=True)))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **TIGHT)


@pytest.mark.parametrize("name", ["everything", "chosen", "later", "limits"])
@pytest.mark.parametrize("time", ["T", "none"])
def test_what_is_time_decides_no_number(name: str, time: str) -> None:
    """A sum over letters of time beside others binds all of them, and an element's own size is no position."""
    arrays = drawn(*CASES[name])
    text = spec(name, "--time", time)
    assert ": int" not in text and "time(C)" not in text and "time(D)" not in text
    names = getattr(plain, name).__code__.co_varnames[: len(arrays)]
    found, = returned(text, **dict(zip(names, arrays, strict=True)))
    torch.testing.assert_close(found, getattr(plain, name)(*arrays), **TIGHT)


def test_a_mask_of_truth_values_that_is_turned() -> None:
    q, k, v = drawn("TD", "TD", "TE")
    text = spec("kept", "--shape", "k=T,D", "--shape", "v=T,E")
    assert "softmax_{s ≤ t}" in text
    torch.testing.assert_close(returned(text, q=q, k=k, v=v)[0], plain.kept(q, k, v), **TIGHT)


def test_heads_that_share_keys() -> None:
    """One comment says the axes of two arrays, and each of them is read by several heads that follow each other."""
    q, k, v = drawn("HTD", "HTD", "HTD")
    q = torch.cat([q, q * 2])
    found, = returned(spec("shared"), q=q, k=k, v=v)
    torch.testing.assert_close(found, plain.shared(q, k, v), **TIGHT)


def test_the_step_of_the_paper() -> None:
    Q, K, V = drawn("THD", "SHD", "SHE")
    for words in ((), ("--time", "t,s"), ("--time", "none")):
        found, = returned(spec("attention_step", *words, file="seeds.py"), Q_th_d=Q, K_sh_d=K, V_sh_d=V)
        torch.testing.assert_close(found, seeds.attention_step(Q, K, V), **TIGHT)


def test_the_layer_of_the_notes() -> None:
    layer = seeds.CausalSelfAttention(6, 2, 0.1, 9).double().eval()
    x, = drawn("BTC")
    text = spec("CausalSelfAttention.forward", file="seeds.py")
    found, = returned(text, x=x, n_heads=2, W_qkv=layer.qkv.weight.detach(), b_qkv=layer.qkv.bias.detach(),
                      W_proj=layer.proj.weight.detach(), b_proj=layer.proj.bias.detach())
    torch.testing.assert_close(found, layer(x).detach(), **TIGHT)
    assert "softmax_{s ≤ t}" in text and "time(T)" in text
    assert spec("CausalSelfAttention", file="seeds.py").splitlines()[1:] == text.splitlines()[1:]


def test_the_lines_of_the_deck() -> None:
    x, Q, K, V, out, mask = drawn("BTC", "CHD", "CHD", "CHD", "HDC", "TT")
    found, = returned(spec("deck"), x=x, W_Q=Q, W_K=K, W_V=V, W_O=out, mask=mask)
    torch.testing.assert_close(found, plain.deck(x, Q, K, V, out, mask, 4), **TIGHT)


@pytest.mark.parametrize(("name", "shape"), [("heads", "BTC"), ("packed", "BTC")])
def test_sizes_that_the_caller_gives(name: str, shape: str) -> None:
    x, = drawn(shape)
    x = x.repeat(1, 1, 2)
    given = {"heads": "x", "packed": "qkv"}[name]
    found, = returned(spec(name), **{given: x}, n_heads=2)
    torch.testing.assert_close(found, getattr(plain, name)(x, 2), **TIGHT)


def test_views_that_join_axes() -> None:
    x, = drawn("BIJ")
    W = drawn("KIJ")[0].reshape(5, 12)
    found, = returned(spec("flat"), x=x, W=W)
    torch.testing.assert_close(found, plain.flat(x, W), **TIGHT)


def test_a_module_of_layers() -> None:
    block = plain.Block(6, 7).double()
    torch.nn.init.normal_(block.scale)
    torch.nn.init.normal_(block.norm.weight)
    x, = drawn("BTC")
    text = spec("Block.forward")
    named = {f"{'W' if name.endswith('weight') else 'b'}_{name.rpartition('.')[0].replace('net.', 'net_layers_')}": p
             for name, p in block.named_parameters() if "." in name}
    found, = returned(text, x=x, scale=block.scale.detach(), **{k: p.detach() for k, p in named.items()})
    torch.testing.assert_close(found, block(x).detach(), **TIGHT)


def test_patterns_of_einops() -> None:
    x, y = drawn("BTV", "J")
    found, = returned(spec("patterns", file="einops_patterns.py"), x=x, y=y)
    torch.testing.assert_close(found, x.unflatten(-1, (2, 4)).mean(2) + y, **TIGHT)


def test_a_mask_of_data() -> None:
    x, = drawn("BTS")
    keep = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 0]])
    found, = returned(spec("padded"), scores=x, keep=keep)
    torch.testing.assert_close(found, plain.padded(x, keep), **TIGHT)


def test_shapes_and_constants_that_a_person_says(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("def f(x, y=None, causal=False):\n    if y is not None:\n        x = x + y\n    if causal:\n"
                    "        x = x * 2\n    return x.sum(-1)\n")
    unknown = einc_("from", f"{file}::f")
    assert unknown.exit_code == 1 and "nothing says how many axes `x` has" in unknown.stderr
    assert "--shape x=B,T,C" in unknown.stderr and "f.py:6:12" in unknown.stderr
    one = einc_("from", f"{file}::f", "--shape", "x=T,C").stdout
    assert "Σ_{c} x_{t c}\n" in one and "`y` is None" in one
    both = einc_("from", f"{file}::f", "--shape", "x=T,C", "--shape", "y=C", "--value", "causal=True").stdout
    x, y = drawn("TC", "C")
    torch.testing.assert_close(returned(both, x=x, y=y)[0], ((x + y) * 2).sum(-1), **TIGHT)


def test_annotations_say_shapes(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text('def f(x: Float[Tensor, "b t d"], w: Float[Tensor, "d e"]):\n    return x @ w\n')
    x, w = drawn("BTC", "CD")
    torch.testing.assert_close(returned(einc_("from", f"{file}::f").stdout, x=x, w=w)[0], x @ w, **TIGHT)


REFUSED = {
    "rank": ("return einsum('...d,d->...', x, y)", "`...` in a string of einsum"),
    "unknown function": ("y = torch.sort(x)\n    return x + 1", "torch.sort"),
    "in place": ("x[0] = 1\n    return x", "an array is not changed in place"),
    "in place by a method": ("x.add_(1)\n    return x", "`.add_` of an array is not read"),
    "two names": ("y = x\n    y += 1\n    return x", "this changes `x`, too"),
    "a loop": ("for i in range(x.size(0)):\n        x = x + 1\n    return x", "`range` is not read"),
    "truth": ("if x.sum() > 0:\n        x = x + 1\n    return x", "is not known before the call"),
    "steps": ("return x * torch.arange(0, x.size(1), 2)", "steps of 1"),
    "a slice": ("return x[:, 1:3]", "is not read in pieces"),
    "random": ("return F.dropout(x, 0.5)", "at random"),
    "infinite": ("return x.masked_fill(x == 0, float('-inf'))", "−∞"),
    "negative": ("return (x.masked_fill(torch.ones(x.shape).tril() == 0, -torch.inf) * -1).softmax(-1)",
                 "may be negative"),
    "a cast": ("return x.to(torch.int64)", "a cast to `int64`"),
    "shapes": ("return x.view(x.size(1), x.size(0))", "the new shape does not fit"),
    "elements": ("return x[:, -1]", "may be no element"),
    "two ways": ("return x.view(-1, x.size(1) // 2, 2).sum(1) + x.view(-1, 2, x.size(1) // 2).sum(2)", "taken apart")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_said_is_told(name: str, tmp_path: Path) -> None:
    """With its line, the status, and never a traceback; what is printed all the same is sound."""
    body, message = REFUSED[name]
    file = tmp_path / "f.py"
    file.write_text(f"import torch\nimport torch.nn.functional as F\nfrom torch import einsum\n\n\n"
                    f"def f(x, y):\n    # x: (T, C), y: (C)\n    {body}\n")
    done = einc_("from", f"{file}::f")
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in done.output, done.output
    if done.stdout:
        assert "# Not said, line" in done.stdout
        checked = tmp_path / "f.ein"
        checked.write_text(done.stdout)
        assert einc_("check", str(checked)).exit_code == 0


@pytest.mark.parametrize(("text", "place", "message"), [
    ("def f(x):\n    return (x\n", "f.py::f", "is no Python"),
    ("def g(x):\n    return x\n", "f.py::f", "has no function `f`"),
    ("x = 1\n", "f.py::A.b", "has no function `A.b`"),
    ("def f(x):\n    return x\n", "f.py", "names no function"),
    ("def f(x):\n    return f(x)\n", "f.py::f", "too deeply"),
    ("def f(x):\n    return 1\n", "f.py::f", "no array"),
    ("def f(x):\n    return " + "(" * 300 + "x" + ")" * 300 + "\n", "f.py::f", "Python"),
    ("", "f.py::f", "has no function"),
    ("def f(x):\n    return x\n", "missing.py::f", "no such file")])
def test_what_is_no_function(text: str, place: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(text)
    done = einc_("from", str(tmp_path / place))
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in done.output and "Traceback" not in done.output


@pytest.mark.parametrize("command", ["check", "show", "compile"])
def test_a_function_is_no_spec(command: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x):\n    # x: (T)\n    return x + 1\n")
    done = einc_(command, place := f"{tmp_path / 'f.py'}::f")
    assert done.exit_code == 1 and f"`einc from {place}`" in done.output
    assert einc_("from", place).exit_code == 0


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_bytes(b"def f(x): \xff")
    done = einc_("from", f"{tmp_path / 'f.py'}::f")
    assert done.exit_code == 1 and "is not UTF-8" in done.output


def test_a_source_is_never_run(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nimport os, nothing_there\n\n"
                    "def f(x=open('y')):\n    # x: (T)\n    return x + 1\n")
    assert einc_("from", f"{file}::f", "--shape", "x=T").exit_code == 0
    assert not (tmp_path / "ran").exists()


def test_a_question_about_time_is_asked_once() -> None:
    place = f"{HERE / 'seeds.py'}::attention_step"
    asked, told = einc_("from", place), einc_("from", place, "--time", "t,s")
    assert "is `s` time?" in asked.stderr and "time(" not in asked.stdout
    assert "question" not in told.stderr and "s ∈ 1..S" in told.stdout
    assert "question" not in einc_("from", place, "--time", "none").stderr
    assert "is no letter and no size" in einc_("from", place, "--time", "w").stderr


@pytest.mark.parametrize(("name", "shapes"), [
    ("sdpa", {"Q": "BHTD", "K": "BHTD", "V": "BHTD"}),
    ("not_attention/swiglu", {"x": "TC", "W_1": "CF", "W_2": "CF", "W_3": "FC"}),
    ("attention", {"X": "TC", "W_Q": "HCD", "W_K": "HCD", "W_V": "HCD", "W_O": "HDC"}),
    ("gqa", {"X": "TC", "W_Q": "HCD", "W_O": "HDC", "W_K": "GCD", "W_V": "GCD"})])
def test_a_spec_as_lines_of_einsum(name: str, shapes: dict[str, str], tmp_path: Path) -> None:
    """What is printed computes what the spec does."""
    done = einc_("to", "einsum", name)
    assert done.exit_code == 0, done.output
    scope: dict[str, Any] = {}
    exec(compile(done.stdout, name, "exec"), scope)
    given = dict(zip(shapes, drawn(*shapes.values()), strict=True))
    function = next(v for k, v in scope.items() if k == name.rpartition("/")[2])
    found = einc.compile(name, "torch")(**given)
    torch.testing.assert_close(function(**given), found, **TIGHT)


@pytest.mark.parametrize(("name", "shapes"), [
    ("sdpa", {"Q": "BHTD", "K": "BHTD", "V": "BHTD"}),
    ("not_attention/swiglu", {"x": "TC", "W_1": "CF", "W_2": "CF", "W_3": "FC"})])
def test_there_and_back(name: str, shapes: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(einc_("to", "einsum", name).stdout)
    back = einc_("from", f"{file}::{name.rpartition('/')[2]}")
    assert back.exit_code == 0, back.output
    given = dict(zip(shapes, drawn(*shapes.values()), strict=True))
    torch.testing.assert_close(returned(back.stdout, **given)[0], einc.compile(name, "torch")(**given), **TIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lines_of_einsum_have_the_type_of_the_call(dtype: torch.dtype, tmp_path: Path) -> None:
    """Positions and masks that are factors of a product have the element type of its other operands."""
    file = tmp_path / "sums.ein"
    file.write_text("index t, s : time(T)\nindex c : feature(C)\ninput x_{t c}\n"
                    "output y_{t c} = Σ_{s ≤ t} x_{s c}\noutput z_c = Σ_t t x_{t c}\n")
    scope: dict[str, Any] = {}
    exec(compile(einc_("to", "einsum", str(file)).stdout, "sums", "exec"), scope)
    x, = drawn("TC")
    running, weighed = scope["sums"](x.to(dtype))
    assert running.dtype == weighed.dtype == dtype
    torch.testing.assert_close(running, x.to(dtype).cumsum(0))
    torch.testing.assert_close(weighed, (x.to(dtype) * torch.arange(1, 6)[:, None]).sum(0))


def test_an_equation_that_no_line_of_einsum_says() -> None:
    done = einc_("to", "einsum", "indexer")
    assert done.exit_code == 1 and "# Not said, " in done.stdout
