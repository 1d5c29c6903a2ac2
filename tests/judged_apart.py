"""Whether einc gives what a program of `programs_apart` is: the interpreter, emitted files, and their gradients.

A text may be refused by the errors of REFUSED, each of which says that a sum or a function is not meant so. Where some
data are no numbers, or infinite, every number that a file gives has to be the right one: what torch has no number for
may not be given one, and what is no number in a file while torch has one, as 0 · ∞ in a product of matrices, is not
silent. The interpreter has numbers wherever torch has.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from cpp_texts import COMPILER
from helpers import Function, cut, meaning, typed
from programs_apart import Apart, evaluated
from test_triton import SMALL, choice
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram

Tensors = dict[str, torch.Tensor]
LARGE = 1e7
REFUSED = {"E0505", "E0216", "E0504", "E0408", "E0308"}


@contextmanager
def doubles() -> Iterator[None]:
    """Where a program gets no numbers it is in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def run(function: Function, case: Apart, given: Tensors) -> Tensors:
    """The outputs of a compiled file."""
    more = {**case.sizes, **({"T": torch.tensor(case.lengths)} if case.ragged else {})}
    asked = inspect.signature(function).parameters
    made = function(**{key: x for key, x in {**more, **given}.items() if key in asked})
    return {name: getattr(made, name) if isinstance(made, tuple) else made for name in case.outputs}


def near(found: Tensors, want: Tensors, told: str, bound: float = 1e-8) -> None:
    """AssertionError where an output is another one."""
    for name, value in want.items():
        size = max(1.0, value.abs().max().item() if value.numel() else 1.0)
        torch.testing.assert_close(found[name].detach(), value.detach(), rtol=bound, atol=bound * size,
                                   msg=lambda said, name=name: f"{told}: {name}: {said}")


def defined(case: Apart, program: TypedProgram) -> Tensors:
    """The outputs by the interpreter."""
    keys = {t.key for t in program.inputs()}
    given = {key: x.numpy() for key, x in case.data.items() if key in keys}
    sizes = {key: n for key, n in case.sizes.items() if key != "T" or not case.ragged}
    lengths = {"T": np.array(case.lengths)} if case.ragged else {}
    return {key: torch.as_tensor(np.asarray(x)) for key, x in meaning(program, given | lengths, sizes).items()}


def slopes(of: Callable[[Tensors], Tensors], case: Apart, keys: set[str], seed: int) -> Tensors:
    """The gradient of a sum of the outputs, each element times a number of its own."""
    draw = torch.Generator().manual_seed(seed)
    given = {key: x.clone().requires_grad_(x.is_floating_point()) for key, x in case.data.items()}
    parts = [(x * torch.randn(x.shape, generator=draw, dtype=torch.float64)).sum() for x in of(given).values()]
    total, asked = torch.stack(parts).sum(), [key for key in sorted(keys) if given[key].requires_grad]
    made = (torch.autograd.grad(total, [given[key] for key in asked], allow_unused=True)
            if total.requires_grad and asked else [None] * len(asked))
    return {key: torch.zeros_like(given[key]) if d is None else d for key, d in zip(asked, made, strict=True)}


def gradients_agree(case: Apart, seed: int, keys: set[str]) -> None:
    """The derived gradient against torch's own of the evaluation that was drawn with the text."""
    want = slopes(lambda given: evaluated(case, seed, given), case, keys, seed)
    try:
        function = einc.compile(case.text, grad=True, backend="torch")
    except EincError as error:
        assert "has no gradient" in str(error), str(error)
        assert not any(d.any() for d in want.values())
        return
    found = slopes(lambda given: run(function, case, given), case, keys, seed)
    size = max([1.0, *(d.abs().max().item() for d in want.values() if d.numel())])
    near({key: d / size for key, d in found.items()}, {key: d / size for key, d in want.items()}, "gradient", 1e-7)


def wild(case: Apart, program: TypedProgram, want: Tensors, compiled: bool) -> None:
    """AssertionError where data that are no numbers, or infinite, give a number that is not the right one."""
    honest(defined(case, program), want, "interpreter", exact=True)
    source = front.emit(front.plan(program))
    for tiles in (None, (2, 1), (3, 4)) if case.deep else (None, (64, 8)):
        honest(run(load(cut(source, tiles) if tiles else source, "text"), case, case.data), want, f"torch in {tiles}")
    if compiled and COMPILER:
        honest(run(einc.compile(case.text, backend="cpp"), case, case.data), want, "cpp")


def honest(found: Tensors, want: Tensors, told: str, exact: bool = False) -> None:
    """AssertionError where a number is given that torch has not; if `exact`, also where one is missing."""
    for name, value in want.items():
        mine, theirs = found[name].double(), value.detach()
        here, there = mine.isfinite(), theirs.isfinite()
        wrong = (here & ~there) | (there & ~here & exact)
        seen, wanted = mine[wrong][:4].tolist(), theirs[wrong][:4].tolist()
        assert not wrong.any(), f"{told}: {name}: {seen} where torch has {wanted}"
        size = max([1.0, *theirs[here].abs().tolist()])
        torch.testing.assert_close(mine[here], theirs[here], rtol=1e-8, atol=1e-8 * size,
                                   msg=lambda said, name=name: f"{told}: {name}: {said}")


def agrees(seed: int, compiled: bool = False, triton: bool = False) -> bool:
    """Whether a program is read; AssertionError where einc gives another number for it, and whatever it raises."""
    case = Apart(seed)
    want = evaluated(case, seed, case.data)
    try:
        program = typed(case.text)
    except AssertionError as refused:
        codes = set(re.findall(r"error\[(E\d+)\]", str(refused)))
        assert codes and codes <= REFUSED, str(refused)
        return False
    if case.wild:
        wild(case, program, want, compiled)
        return True
    if any(not torch.isfinite(x).all() or (x.numel() and x.abs().max() > LARGE) for x in want.values()):
        return True
    near(defined(case, program), want, "interpreter")
    source = front.emit(front.plan(program))
    for tiles in (None, (2, 1), (3, 4)) if case.deep else (None, (64, 8)):
        near(run(load(cut(source, tiles) if tiles else source, "text"), case, case.data), want, f"torch in {tiles}")
    if compiled and COMPILER:
        near(run(einc.compile(case.text, backend="cpp"), case, case.data), want, "cpp")
    if triton and case.deep:
        with interpreted():
            kernels = front.emit(front.plan(program, front.choices(backend="triton")), "triton")
            near(run(tiled(kernels, "text", choice(SMALL)), case, case.data), want, "triton")
    gradients_agree(case, seed, {t.key for t in program.inputs()} & case.data.keys())
    return True


def verdict(seed: int, triton: bool = False) -> tuple[str, str]:
    """`sound`, `refused`, `wrong` or `crash`, and what was seen."""
    try:
        with doubles():
            return "sound" if agrees(seed, triton=triton) else "refused", ""
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"
