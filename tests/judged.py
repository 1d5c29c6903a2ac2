"""Whether emitted files of a program give what the interpreter gives: the judge of random
programs, for tests and for the bench."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

import numpy as np
from helpers import Arrays, arrays, assert_close, called, cut, meaning, tensors, typed
from programs import Case
from test_backends import ignoring
from test_triton import SMALL, choice
from triton_modes import tiled

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.driver.commands import hard
from einc.errors.report import Report, Source
from einc.ir.programs import TypedProgram

NEAR = 1e-9
FEW = 10  # extents below which Triton's interpreter is asked


def agrees(program: TypedProgram, ranges: Mapping[str, tuple[str, str]], trials: Sequence[dict[str, int]],
           tiles: Sequence[tuple[int, int]], triton: bool) -> None:
    """Torch in its own tiles and in others, and Triton in small ones where it is asked for, at sizes of which none that
    the caller gives is 0. AssertionError where a result is another one; whatever the file raises."""
    plan = front.plan(program)
    source = front.emit(plan)
    functions = [load(cut(source, t) if t else source, plan.name) for t in (None, *tiles)]
    others = [tiled(front.emit(plan, "triton"), plan.name, choice(SMALL))] if triton else []
    asked = inspect.signature(functions[0]).parameters
    for trial in trials:
        if all(n > 0 for name, n in trial.items() if name in asked):
            inputs = arrays(program, trial, dict(ranges))
            want = meaning(program, inputs, trial)
            for function in (*functions, *(others if max(trial.values()) < FEW else ())):
                got, expected = ignoring(called(function, program, tensors(inputs), trial), want)
                try:
                    assert_close(got, expected, NEAR, least=1.0)
                except AssertionError:
                    assert_close(continuous(program, inputs, trial, got, expected), expected, NEAR, least=1.0)


def continuous(program: TypedProgram, inputs: Arrays, sizes: Mapping[str, int], got: Arrays, want: Arrays) -> Arrays:
    """The results with those elements taken as they should be where the text itself, with each operation rounded in
    float64 to a neighbour at random, is as far off: v / max |v|, say, where v is 0 but for roundings."""
    rounded = hard.rounded(program, tensors(inputs), sizes, "float64", 0)
    with np.errstate(invalid="ignore"):
        off = {name: np.max([np.where(each[name] == x, 0, np.nan_to_num(np.abs(each[name] - x), nan=np.inf))
                             for each in rounded], axis=0) for name, x in want.items()}
    return {name: np.where(np.abs(x - want[name]) <= hard.FUDGE * off[name], want[name], x) for name, x in got.items()}


def verdict(case: Case, tiles: Sequence[tuple[int, int]] = ((3, 4), (2, 1)), triton: bool = False) -> tuple[str, str]:
    """`sound`, `refused`, `wrong` or `crash`, and what was seen."""
    try:
        if pipeline.check(Source("<text>", case.text), Report()) is None:
            return "refused", ""
        agrees(typed(case.text), case.ranges, [dict(case.sizes)], tiles, triton)
    except AssertionError as error:
        return "wrong", f"{dict(case.sizes)}: {error}"
    except Exception as error:
        return "crash", f"{dict(case.sizes)}: {type(error).__name__}: {error}"
    return "sound", ""
