"""The layers of specs/recurrent over 65,536 positions in float32: nothing leaves the range of the type, and the last
positions are as right as the first. Against the same in float64, which `test_recurrent` holds against others, and
against functions of transformers where these go in chunks, as they are soon done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import meaning, typed_of
from programs import Case
from recurrent import LAYERS, Tensors, gated_in_chunks
from test_oracles import doubled
from test_recurrent import CASES, error, made, wanted

STEPS = 65_536
PAIRS = {"path", "deltaformer", "based"}  # all pairs of so many positions are more than a test has time for
LONG = [case for case in CASES if case.name not in PAIRS]


def chunks(inputs: Tensors) -> torch.Tensor:
    with doubled():
        return gated_in_chunks(**inputs)


def duality(inputs: Tensors) -> torch.Tensor:
    return wanted(next(case for case in CASES if case.name == "ssd"), inputs)


OTHERS: dict[str, Callable[[Tensors], torch.Tensor]] = {"gated_deltanet": chunks, "ssd": duality, "ssd_sum": duality}


@pytest.mark.whole
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.name)
def test_many_positions_in_single_precision(case: Case) -> None:
    inputs = {name: x.float() for name, x in LAYERS[case.name].inputs(STEPS).items()}
    doubles = {name: x.double() for name, x in inputs.items()}
    got, want = made(case, inputs), made(case, doubles)
    axis = next(n for n, size in enumerate(got.shape) if size == STEPS)
    assert got.dtype == torch.float32 and got.isfinite().all()
    for reference in (want, *([OTHERS[case.name](doubles)] if case.name in OTHERS else [])):
        assert error(got, reference) <= 2e-4
        assert error(got.narrow(axis, STEPS - 64, 64), reference.narrow(axis, STEPS - 64, 64)) <= 2e-4


@pytest.mark.parametrize("case", [case for case in CASES if case.name in PAIRS], ids=lambda case: case.name)
def test_what_takes_pairs_is_the_same_at_the_end_of_many(case: Case) -> None:
    """A thousand positions in float32, against the interpreter at the first ones, which no later one changes."""
    inputs = {name: x.float() for name, x in LAYERS[case.name].inputs(1000).items()}
    got = made(case, inputs)
    assert got.isfinite().all()
    short = {name: x[:20].double().numpy() for name, x in inputs.items()}
    ((_, want),) = meaning(typed_of(case), short, {}).items()
    assert error(got[:20], torch.from_numpy(want)) <= 2e-5
