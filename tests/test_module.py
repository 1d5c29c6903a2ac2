"""`--module`: a class of torch's around the emitted function, whose parameters are the weights of the spec."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from helpers import Case, plan_of, typed, typed_of
from programs import CASES, FILES
from torch import nn
from triton_modes import interpreted

import einc
from einc.backends.host.module_class import TAKEN
from einc.driver import front
from einc.driver.cli import main

SIZES = {"H": 3, "d_k": 4, "d_model": 7}
EVERY = """index t : time(T)
index v : vocab(0..V-1)
index f, g : feature(D)
index e : feature(3 D)
input w_t : int
input c, rate
input seed_of_it : int
weight E_v^f, M_f^e, half_e, b^g, n^g
weight id_t : int
dim W
y_t^g = n^g (E_{w_t}^f M_f^e half_e) + b^g + c + id_t + W
output z_t^g = dropout(y_t^g, rate / 100, seed_of_it)
"""


@cache
def layer(name: str = "attention_dropout") -> Any:
    return einc.compile(name, module=True)


def made(start: int = 0, **more: Any) -> Any:
    torch.manual_seed(start)
    return layer().module(**{**SIZES, **more})


@pytest.mark.drawn(5)
@pytest.mark.parametrize("case", [*FILES[::4], *CASES[::9]], ids=lambda case: case.name)
def test_every_file_may_have_a_class(case: Case) -> None:
    """It is Python, and only a class more."""
    source = front.emit(plan_of(case), "torch", front.class_of(typed_of(case)))
    compile(source, case.name, "exec")
    (found,) = re.findall(r"\n\n\nclass \w+\(torch\.nn\.Module\):\n(?:    .*\n|\n)+", source)
    assert source.replace(found.rstrip(), "", 1).replace("\n" * 5,
                                                         "\n" * 3).split() == front.emit(plan_of(case)).split()
    assert max(map(len, found.splitlines())) <= 132


def test_a_class_has_the_weights_and_the_sizes() -> None:
    block = made()
    shapes = {"W_qkv": (7, 36), "b_qkv": (36,), "W_O": (3, 4, 7), "b_O": (7,)}
    assert {name: tuple(x.shape) for name, x in block.named_parameters()} == shapes
    assert {name: tuple(x.shape) for name, x in block.state_dict().items()} == shapes
    assert all(isinstance(x, nn.Parameter) and x.requires_grad for x in block.parameters())
    other = made(1, dtype=torch.float64)
    other.load_state_dict(block.double().state_dict())
    x = torch.randn(2, 5, 7, dtype=torch.float64)
    weights = {name: p.detach() for name, p in block.named_parameters()}
    want = layer()(X=x, p=torch.tensor(0.0).double(), seed=torch.tensor(0), **weights)
    assert torch.equal(block.eval()(x), want) and torch.equal(other.eval()(X=x), want)


def test_weights_begin_by_what_is_done_with_them() -> None:
    """A sum keeps the spread of what it adds; scales are ones, shifts zeros, what is picked normal."""
    block = layer("gpt2_block").module(H=4, d_k=32, d_model=128, d_ff=300)
    assert all(bool((getattr(block, name) == 1).all()) for name in ("gamma_1", "gamma_2"))
    assert all(not getattr(block, name).any() for name in ("beta_1", "beta_2", "b_qkv", "b_O", "b_1", "b_2"))
    for name, over in {"W_qkv": 128, "W_O": 4 * 32, "W_1": 128, "W_2": 300}.items():
        assert getattr(block, name).std().item() * over**0.5 == pytest.approx(1, abs=0.02), name


def test_evaluation_leaves_nothing_to_chance() -> None:
    block, x = made(p=0.4), torch.randn(2, 9, 7)
    assert torch.equal(block.eval()(x), block(x, p=0.0, seed=3)) and not torch.equal(block(x, p=0.4, seed=3), block(x))
    block.train()
    torch.manual_seed(5)
    first, second = block(x), block(x)
    torch.manual_seed(5)
    assert not torch.equal(first, second) and torch.equal(block(x), first)
    assert torch.equal(block(x, seed=7), made(p=0.4, seed=7)(x)) and not torch.equal(block(x, seed=7), block(x, seed=8))
    assert torch.equal(block(x, seed=7),
                       layer()(X=x, p=torch.tensor(0.4), seed=torch.tensor(7), **dict(block.named_parameters())))


def test_scalars_sizes_and_whole_numbers() -> None:
    """What a scalar is to chance is told by the equations: a rate of 100 parts is one too."""
    program = typed(EVERY)
    source = front.emit(front.plan(program), "torch", front.class_of(program))
    space: dict[str, Any] = {}
    exec(source, space)
    block = space["Text"](D=5, V=9, T=4, W=2, c=0.5, rate=30.0)
    assert dict(block.named_buffers())["id"].dtype == torch.int64
    assert block.E.std() > 0.5 and block.state_dict().keys() >= {"E", "M", "half2", "b", "n", "id"}
    w = torch.tensor([0, 8, 3, 3])
    shifted = block.eval()(w)
    assert torch.allclose(block(w, c=1.5) - shifted, torch.ones(4, 5)) and bool((block.train()(w) == 0).any())
    with pytest.raises(TypeError, match="'c'"):
        space["Text"](D=5, V=9, T=4, W=2)


def test_moves_and_types() -> None:
    block = made(dtype=torch.bfloat16)
    assert block(torch.randn(1, 3, 7).bfloat16()).dtype == torch.bfloat16
    assert block.double()(torch.randn(1, 3, 7).double()).dtype == torch.float64
    assert made(device="meta").W_O.device.type == "meta"
    assert repr(nn.Sequential(made(), made())).count("AttentionDropout(H=3, d_k=4, d_model=7)") == 2


def test_names_that_every_module_has_are_left_alone() -> None:
    names = [name for name in dir(nn.Module()) if not name.startswith("_")]
    # What another library has added to the class while the tests run is not torch's.
    own = {n for n in names if getattr(getattr(nn.Module, n, None), "__module__", "torch").startswith("torch")}
    assert own - TAKEN == set()


def test_kernels_have_a_class_too() -> None:
    block, x = made(), torch.randn(1, 3, 7)
    with interpreted():
        other = einc.compile("attention_dropout", backend="triton", module=True).module(**SIZES)
        other.load_state_dict(block.state_dict())
        assert torch.allclose(other.eval()(x), block.eval()(x), atol=1e-5)


def test_the_file_stands_alone(tmp_path: Path) -> None:
    """Written by the command, run where einc is not."""
    done = CliRunner().invoke(main, ["compile", "swiglu_block", "--module", "-o", str(tmp_path / "block.py")])
    assert done.exit_code == 0, done.output
    code = ("import sys, torch, block; b = block.SwigluBlock(H=4, G=2, d_k=6, d_model=8, d_ff=12); y = "
            "b(torch.randn(5, 8)); "
            "assert y.shape == (5, 8) and 'einc' not in sys.modules; print(len(b.state_dict()))")
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "9\n"), ran.stderr
    refused = CliRunner().invoke(main, ["compile", "sdpa", "--module", "--target", "sm_90"])
    assert refused.exit_code == 1 and "--module is for a Python file" in refused.stderr
