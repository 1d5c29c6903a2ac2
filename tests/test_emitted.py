"""The text of emitted kernels as its reader meets it: parameters that are read, lines
that fit, products of sizes in 64 bits."""

from __future__ import annotations

import ast
import re

import pytest
import torch
import triton.language as tl

import einc
from einc.backends.triton.load import load
from einc.backends.writer import folded
from tests.triton_modes import interpreted, space

NAMES = ["gqa", "gallery/documents", "gallery/retention", "not_attention/entropy", "linear_cross_entropy"]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_read_what_they_are_given(name: str) -> None:
    source = einc.compile(name, backend="triton", own=True).source
    for function in ast.parse(source).body:
        if (isinstance(function, ast.FunctionDef) and function.decorator_list
            and re.search(r"_(kernel|join)\d*$", function.name)):
            read = {x.id for x in ast.walk(function) if isinstance(x, ast.Name)}
            unread = {x.arg for x in function.args.args if x.arg not in read}
            # The strides of a tensor are handed over together.
            assert not {x for x in unread if not any(x.startswith(f"{other}_") for other in read)}, function.name


def test_statements_are_folded_in_brackets() -> None:
    offsets = " + ".join(["t_at[:, None] * K_t"] * 3)
    line = f"    tl.store(a + ({offsets}), value.to(DTYPE), mask=t_in[:, None] & d_in[None, :])"
    parts = folded(line, 110)
    assert len(line) > 110 and len(parts) == 2 and max(map(len, parts)) <= 110
    assert parts[1].startswith("        mask=t_in")
    assert ast.dump(ast.parse("\n".join(part[4:] for part in parts))) == ast.dump(ast.parse(line.strip()))
    assert folded("y = 1 + 2") == ["y = 1 + 2"]


def test_many_elements_though_each_size_is_small() -> None:
    """The first program of 2**32 elements: results and strides of one row stand for all of them."""
    made = einc.compile("index t : time(T)\nindex h : head(H)\ninput x_{t h}\noutput y_{t h} = exp(x_{t h})",
                        backend="triton")
    with interpreted():
        kernel = space(load(made.source, made.plan.name))["_y_kernel"]
        x, y = torch.zeros(64), torch.zeros(64)
        kernel[(1,)](x, y, 0, 1, 0, 1, 2**16, 2**16, BLOCK_row=64, DTYPE=tl.float32, WIDE=tl.float32, OFFSET=tl.int64)
    assert torch.equal(y, torch.ones(64))


@pytest.mark.parametrize("name", ["preblock", "swiglu_block", "llama_lm"])
def test_what_a_norm_gives_needs_no_guard(name: str) -> None:
    """The root of a mean of squares and a constant is positive, so a value over it is
    finite, and no 0 times infinity is feared."""
    source = einc.compile(name).source.split("\n\n\ndef _shape")[0]
    assert "torch.where(" not in source
    assert " == 0, 0)" not in source
